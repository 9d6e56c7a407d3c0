//! The per-function view of a profile: who executed how much, how often it was called, by whom.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;

use crate::profile::{Arc, Function, Profile};

/// Name of the instructions of RISC-V `virt`'s boot ROM, which runs before the firmware.
pub const BOOT_ROM: &str = "[boot rom]";

/// Name of the caller where the return address is an EXC_RETURN value: an interrupt, not a call.
pub const EXCEPTION: &str = "[exception]";

/// Name of the caller of what runs first on a Cortex-M: the return address is the one at reset.
pub const RESET: &str = "[reset]";

/// Name of a caller that left no return address.
pub const UNKNOWN: &str = "[unknown]";

/// The mask ROM of QEMU's `virt` machine (hw/riscv/virt.c, VIRT_MROM).
pub(crate) const BOOT_ROM_ADDRESSES: RangeInclusive<u64> = 0x1000..=0xffff;

/// Least width of the address ranges that stand for code without a name, so that a page of it is a few
/// rows of a table.
const MIN_RANGE_BYTES: u64 = 256;

/// What an instruction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// A function that has a name.
    Function(&'a Function),
    /// The machine's boot ROM.
    BootRom,
    /// Code without a name: what lies between functions of an aligned range of addresses.
    Range {
        /// First address.
        start: u64,
        /// Last address.
        last: u64,
    },
}

impl<'a> Place<'a> {
    /// The place of an address.
    pub fn of(profile: &'a Profile, address: u64) -> Place<'a> {
        if let Some(function) = profile.names.function_at(address) {
            return Place::Function(function);
        }
        let facts = &profile.facts;
        let has_boot_rom = facts.isa.starts_with("riscv") && facts.machine.starts_with("virt");
        if has_boot_rom && BOOT_ROM_ADDRESSES.contains(&address) {
            return Place::BootRom;
        }
        let range_bytes = facts.bin_bytes.max(MIN_RANGE_BYTES);
        let start = address & !(range_bytes - 1);
        let last = start + (range_bytes - 1);
        // No place begins in another one: each is known by its first address.
        let functions = &profile.names.functions;
        let after = functions.partition_point(|function| function.start <= address);
        let end_before = after.checked_sub(1).map(|index| &functions[index]);
        let end_before = end_before.map_or(0, |function| function.start.saturating_add(function.size_bytes));
        let next = functions.get(after).map_or(u64::MAX, |function| function.start - 1);
        Place::Range { start: start.max(end_before), last: last.min(next) }
    }

    /// Its first address, where it is a place of the firmware's.
    pub fn start(self) -> Option<u64> {
        match self {
            Place::Function(function) => Some(function.start),
            Place::BootRom => None,
            Place::Range { start, .. } => Some(start),
        }
    }

    /// What tells one place from another, in the order of [`Place`] and then of addresses.
    fn key(self) -> (u8, u64) {
        match self {
            Place::Function(function) => (0, function.start),
            Place::BootRom => (1, 0),
            Place::Range { start, .. } => (2, start),
        }
    }
}

/// As reports show it: the function's name, or something in square brackets.
impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Function(function) => f.write_str(&function.name),
            Place::BootRom => f.write_str(BOOT_ROM),
            Place::Range { start, last } => write!(f, "[{start:#010x}..{last:#010x}]"),
        }
    }
}

/// A profile by function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Functions that executed, most instructions first.
    pub rows: Vec<Row>,
    /// Instructions of the window.
    pub total_insns: u64,
    /// Samples taken of them.
    pub total_samples: u64,
    /// Instructions in no function and not in the boot ROM.
    pub unnamed_insns: u64,
}

/// What kind of code a [`Row`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A function.
    Function,
    /// The boot ROM.
    BootRom,
    /// A range of addresses without a name.
    Unnamed,
}

/// One function, or what stands for one.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is.
    pub kind: Kind,
    /// Demangled name, or a name in square brackets where there is no function.
    pub name: String,
    /// Name in the symbol table; equal to `name` where there is no function.
    pub linkage_name: String,
    /// First address of the function or range.
    pub start: Option<u64>,
    /// Source file of the definition.
    pub file: Option<String>,
    /// Line in that file.
    pub line: Option<u32>,
    /// Instructions executed in it, inlined ones included, called ones not.
    pub self_insns: u64,
    /// Entries from outside: executions of its first instruction that did not come from within. 0 where
    /// there is no function.
    pub calls: u64,
    /// Samples taken in it.
    pub samples: u64,
    /// Samples that its share of the instructions lets expect.
    pub expected_samples: f64,
    /// How far `samples` is from `expected_samples`, in standard deviations; see [`z_score`].
    pub z: f64,
}

impl Row {
    /// A place in which nothing has executed.
    pub fn of(place: Place<'_>) -> Row {
        let (kind, function) = match place {
            Place::Function(function) => (Kind::Function, Some(function)),
            Place::BootRom => (Kind::BootRom, None),
            Place::Range { .. } => (Kind::Unnamed, None),
        };
        Row {
            kind,
            name: place.to_string(),
            linkage_name: function.map_or_else(|| place.to_string(), |function| function.linkage_name.clone()),
            start: place.start(),
            file: function.and_then(|function| function.file.clone()),
            line: function.and_then(|function| function.line),
            self_insns: 0,
            calls: 0,
            samples: 0,
            expected_samples: 0.0,
            z: 0.0,
        }
    }
}

/// How far a number of samples is from the expected one, in standard deviations of a random draw: with
/// `expected = n·p` of `n` samples, `(samples - expected) / sqrt(expected·(1 - p))`.
///
/// The samples are every period-th instruction, not random ones. Code that does not keep step with the
/// period comes out closer to its share than chance would have it, so a large score means that it does.
/// One sample more or less is no evidence of anything: the variance is taken as 1 where it would be
/// less (rarely executed functions, and those that are nearly everything), so that a difference of 5
/// samples is the least that can be suspicious.
pub fn z_score(samples: u64, total_samples: u64, self_insns: u64, total_insns: u64) -> f64 {
    // As many samples as instructions: both are counts of the same thing.
    if total_insns == 0 || (samples == self_insns && total_samples == total_insns) {
        return 0.0;
    }
    let share = self_insns as f64 / total_insns as f64;
    let expected = total_samples as f64 * share;
    let variance = expected * (1.0 - share);
    (samples as f64 - expected) / variance.max(1.0).sqrt()
}

/// The profile by function.
pub fn table(profile: &Profile) -> Table {
    #[derive(Default)]
    struct Sums {
        self_insns: u64,
        entry_insns: u64,
        inside: u64,
        samples: u64,
    }
    let mut sums: BTreeMap<(u8, u64), (Place<'_>, Sums)> = BTreeMap::new();
    // Instructions come in order of addresses: most are in the place of the one before.
    for vcpu in &profile.vcpus {
        for insn in &vcpu.insns {
            let place = Place::of(profile, insn.pc);
            let (_, sums) = sums.entry(place.key()).or_insert((place, Sums::default()));
            sums.self_insns += insn.count;
            if place.start() == Some(insn.pc) {
                sums.entry_insns += insn.count;
            }
        }
        for arc in vcpu.arcs.iter().filter(|arc| !arc.links) {
            if let Place::Function(function) = Place::of(profile, arc.target)
                && function.start == arc.target
                && Place::of(profile, arc.site) == Place::Function(function)
                && let Some((_, sums)) = sums.get_mut(&Place::Function(function).key())
            {
                sums.inside += arc.count;
            }
        }
    }
    for sample in &profile.samples {
        let place = Place::of(profile, sample.pc);
        sums.entry(place.key()).or_insert((place, Sums::default())).1.samples += 1;
    }

    let total_insns = profile.total_insns();
    let total_samples = profile.samples.len() as u64;
    let mut table = Table { rows: Vec::new(), total_insns, total_samples, unnamed_insns: 0 };
    for (place, Sums { self_insns, entry_insns, inside, samples }) in sums.into_values() {
        // Where the host ended the run, a jump to the start may be counted that has not arrived. Who is
        // measured from reset and was at the start has been called.
        let at_least = u64::from(entry_insns > 0 && profile.facts.before_window_insns == 0);
        let row = Row::of(place);
        let kind = row.kind;
        if kind == Kind::Unnamed {
            table.unnamed_insns += self_insns;
        }
        table.rows.push(Row {
            self_insns,
            calls: if kind == Kind::Function { entry_insns.saturating_sub(inside).max(at_least) } else { 0 },
            samples,
            expected_samples: total_samples as f64 * self_insns as f64 / total_insns.max(1) as f64,
            z: z_score(samples, total_samples, self_insns, total_insns),
            ..row
        });
    }
    table.rows.sort_by(|one, other| {
        let key = |row: &Row| (std::cmp::Reverse(row.self_insns), row.name.clone(), row.start);
        key(one).cmp(&key(other))
    });
    table
}

/// Rows of the functions that are not in the table since they never executed, by address.
pub fn never_executed<'p>(profile: &'p Profile, table: &Table) -> impl Iterator<Item = Row> + use<'p> {
    let rows = table.rows.iter().filter(|row| row.kind == Kind::Function);
    let executed: BTreeSet<u64> = rows.filter_map(|row| row.start).collect();
    let functions = profile.names.functions.iter().filter(move |function| !executed.contains(&function.start));
    functions.map(|function| Row::of(Place::Function(function)))
}

/// Who entered a function at its first instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Calls and tail calls by the return address that the function saw. The one in which the run ended may not
    /// have arrived.
    pub calls: BTreeMap<Option<u64>, u64>,
    /// Entries without one: by an interrupt, where the machine or the window began, by running into it.
    pub others: u64,
}

/// The entries of all functions of the table, by first address: together its calls.
pub fn entries(profile: &Profile, table: &Table) -> BTreeMap<u64, Entries> {
    let mut entries: BTreeMap<u64, Entries> = BTreeMap::new();
    for arc in profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs) {
        let enters = matches!(Place::of(profile, arc.target), Place::Function(callee) if callee.start == arc.target);
        if enters && is_call(profile, arc) {
            *entries.entry(arc.target).or_default().calls.entry(arc.return_addr).or_default() += arc.count;
        }
    }
    for row in table.rows.iter().filter(|row| row.kind == Kind::Function) {
        let Some(start) = row.start else { continue };
        let entries = entries.entry(start).or_default();
        entries.others = row.calls.saturating_sub(entries.calls.values().sum());
    }
    entries
}

/// Calls from one function to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArcRow {
    /// Name of the function to which the callee returns, as `_mcount` sees it; or a name in square
    /// brackets.
    pub caller: String,
    /// First address of that function or range.
    pub caller_start: Option<u64>,
    /// Name of the function that was entered.
    pub callee: String,
    /// Its first address.
    pub callee_start: Option<u64>,
    /// The jump that was a tail call: what entered the callee without being what it returns to.
    pub tail_call: Option<TailCall>,
    /// How often.
    pub count: u64,
}

/// A jump from the end of one function to the start of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TailCall {
    /// Address of the jump.
    pub site: u64,
    /// Name of the function it is in.
    pub function: String,
}

/// Calls by caller and callee, most frequent first. Jumps inside a function are not listed.
pub fn arcs(profile: &Profile) -> Vec<ArcRow> {
    let mut counts: BTreeMap<_, u64> = BTreeMap::new();
    for arc in profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs) {
        if !is_call(profile, arc) {
            continue;
        }
        let (site, callee) = (Place::of(profile, arc.site), Place::of(profile, arc.target));
        let (caller, caller_start) = caller(profile, arc.return_addr);
        let tail_call = (!arc.links).then(|| TailCall { site: arc.site, function: site.to_string() });
        let key = (caller, caller_start, callee.to_string(), callee.start(), tail_call);
        *counts.entry(key).or_default() += arc.count;
    }
    let mut rows: Vec<ArcRow> = counts
        .into_iter()
        .map(|((caller, caller_start, callee, callee_start, tail_call), count)| ArcRow {
            caller,
            caller_start,
            callee,
            callee_start,
            tail_call,
            count,
        })
        .collect();
    // Stable: equal counts stay in the order of names.
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    rows
}

/// Whether a transfer of control is a call or a tail call: a jump is one where it enters another function at
/// its start.
pub(crate) fn is_call(profile: &Profile, arc: &Arc) -> bool {
    let callee = Place::of(profile, arc.target);
    let enters = matches!(callee, Place::Function(_)) && callee.start() == Some(arc.target);
    arc.links || enters && Place::of(profile, arc.site) != callee
}

/// Whom a return address returns to.
pub(crate) fn caller(profile: &Profile, return_addr: Option<u64>) -> (String, Option<u64>) {
    let Some(return_addr) = return_addr else { return (UNKNOWN.to_owned(), None) };
    // Without Thumb's bit 0; no return address is odd elsewhere.
    let return_addr = return_addr & !1;
    if return_addr == 0 {
        return (UNKNOWN.to_owned(), None);
    }
    if profile.facts.isa.starts_with("thumb") && return_addr >= 0xff00_0000 {
        // Armv7-M Architecture Reference Manual, B1.5.5 and B1.5.8.
        let name = if return_addr == 0xffff_fffe { RESET } else { EXCEPTION };
        return (name.to_owned(), None);
    }
    // The call is before the address it returns to, which may already be another function's when the
    // callee never returns.
    let place = Place::of(profile, return_addr - 1);
    (place.to_string(), place.start())
}

#[cfg(test)]
pub(crate) mod testing {
    //! Profiles made by hand, for the tests of everything that reads one.

    use wire::definition::{FrameKind, NodeKind, Unknown};
    use wire::sample::Sample;

    use crate::profile::{
        Arc, End, Facts, Frame, Function, InsnCount, Names, Node, Profile, StackFrame, Task, VcpuCounts, Window,
    };

    /// A profile of nothing, on an mps2-an385.
    pub(crate) fn empty() -> Profile {
        Profile {
            facts: Facts {
                harness_version: "0.1.0".to_owned(),
                image_name: "blinky.elf".to_owned(),
                image_sha256: String::new(),
                symbols_sha256: None,
                qemu_version: "10.0.2".to_owned(),
                machine: "mps2-an385".to_owned(),
                cpu: None,
                isa: "thumb-v7m".to_owned(),
                icount_shift: 5,
                load_addr: None,
                load_bias: 0,
                entry: 0,
                qemu_args: Vec::new(),
                firmware_args: Vec::new(),
                period_insns: 10,
                jitter_seed: None,
                bin_bytes: 2,
                window: Window::default(),
                before_window_insns: 0,
                input: Vec::new(),
                input_bytes: 0,
                input_begun: 0,
                end: End::For,
                max_depth: None,
                waits: 0,
                unseen_switches: 0,
                unresolved_transfers: 0,
                interrupted_transfers: 0,
            },
            vcpus: vec![VcpuCounts::default()],
            samples: Vec::new(),
            stacks: Vec::new(),
            tasks: Vec::new(),
            tree: Vec::new(),
            console_marks: Vec::new(),
            spans: Vec::new(),
            notes: Vec::new(),
            names: Names::default(),
            code: Vec::new(),
            in_target: None,
        }
    }

    /// A profile as a small FreeRTOS image gives it: two tasks of one name, the idle task, interrupts in each.
    ///
    /// Stacks: 1 sensor's, 2 filter's in it, 3 logger's, 4 format's in it, 5 SysTick in idle, 6 its own, 7
    /// SysTick in filter, 8 its own, 9 UART0 in format, 10 UART0 in SysTick in idle, 11 not known, 12 main's.
    pub(crate) fn freertos() -> Profile {
        empty()
            .function("main", 0x40, 0x10)
            .function("sensor_task", 0x50, 0x10)
            .function("filter", 0x60, 0x10)
            .function("multiply_accumulate", 0x70, 0x10)
            .function("logger_task", 0x80, 0x10)
            .function("format", 0x90, 0x10)
            .function("memcpy", 0xa0, 0x10)
            .function("prvIdleTask", 0xb0, 0x10)
            .function("SysTick_Handler", 0xc0, 0x10)
            .function("xTaskIncrementTick", 0xd0, 0x10)
            .function("UART0_IRQHandler", 0xe0, 0x10)
            .frames(0x6a, &["filter", "saturate"])
            .task_called("sensor")
            .task_called("logger")
            .task_called("IDLE")
            .task_called("sensor")
            .caller(0, 0x54)
            .caller(1, 0x66)
            .caller(0, 0x84)
            .caller(3, 0x94)
            .exception(0, 15, 0xc0, 0xb2)
            .caller(5, 0xc8)
            .exception(1, 15, 0xc0, 0x6a)
            .caller(7, 0xc8)
            .exception(3, 16, 0xe0, 0x94)
            .exception(6, 16, 0xe0, 0xd2)
            .unknown(Unknown::NoUnwindInfo)
            .caller(0, 0x44)
            .executed(0x42, 4_000, 0, 0)
            .executed(0xa2, 3_000, 12, 0)
            .executed(0x52, 2_000, 0, 1)
            .executed(0x64, 40_000, 1, 1)
            .executed(0x6a, 25_000, 1, 1)
            .executed(0x72, 190_000, 2, 1)
            .executed(0x64, 20_000, 1, 4)
            .executed(0x72, 60_000, 2, 4)
            .executed(0xc2, 3_000, 7, 1)
            .executed(0xd2, 8_000, 8, 1)
            .executed(0x82, 1_000, 0, 2)
            .executed(0x92, 70_000, 3, 2)
            .executed(0xa2, 45_000, 4, 2)
            .executed(0xe2, 6_000, 9, 2)
            .executed(0xb2, 80_000, 0, 3)
            .executed(0xc2, 5_000, 5, 3)
            .executed(0xd2, 12_000, 6, 3)
            .executed(0xe2, 3_000, 10, 3)
            .executed(0xa2, 2_000, 11, 2)
            .insn(0xe8, 200)
    }

    /// Two tasks that call `step`, which is interrupted by SysTick, which is interrupted by UART0.
    ///
    /// Stacks: 1 the task's function, 2 SysTick in `step`, 3 its callee, 4 UART0 in that.
    pub(crate) fn interrupted() -> Profile {
        empty()
            .function("blink", 0x40, 0x10)
            .function("step", 0x50, 0x10)
            .function("SysTick_Handler", 0x60, 0x10)
            .function("tick", 0x70, 0x10)
            .function("UART0_Handler", 0x80, 0x10)
            .frames(0x45, &["blink", "repeat"])
            .frames(0x52, &["step", "mix", "rotate"])
            .task_called("blink")
            .task_called("IDLE")
            .caller(0, 0x46)
            .exception(1, 15, 0x60, 0x52)
            .caller(2, 0x66)
            .exception(3, 20, 0x81, 0x74)
    }

    impl Profile {
        /// The same on a RISC-V `virt`.
        pub(crate) fn on_virt(mut self) -> Profile {
            self.facts.machine = "virt".to_owned();
            self.facts.isa = "riscv64".to_owned();
            self
        }

        /// Adds a function.
        pub(crate) fn function(mut self, name: &str, start: u64, size_bytes: u64) -> Profile {
            self.names.functions.push(Function {
                name: name.to_owned(),
                linkage_name: name.to_owned(),
                start,
                size_bytes,
                file: Some("src/blinky.c".to_owned()),
                line: Some(7),
            });
            self
        }

        /// Adds executions of one instruction of the first vCPU.
        pub(crate) fn insn(mut self, pc: u64, count: u64) -> Profile {
            self.vcpus[0].insns.push(InsnCount { pc, size_bytes: 2, count });
            self.vcpus[0].clock_insns += count;
            self
        }

        /// Adds an arc of the first vCPU.
        pub(crate) fn arc(mut self, arc: (u64, u64), return_addr: Option<u64>, links: bool, count: u64) -> Profile {
            let (site, target) = arc;
            self.vcpus[0].arcs.push(Arc { site, target, return_addr, links, count });
            self
        }

        /// Says what is inlined at an address, outermost function first.
        pub(crate) fn frames(mut self, pc: u64, names: &[&str]) -> Profile {
            let mut frames = Vec::new();
            for (depth, name) in names.iter().enumerate() {
                let function = self.names.strings.len() as u32;
                self.names.strings.push((*name).to_owned());
                frames.push(Frame { function, file: None, line: None, inlined: depth > 0 });
            }
            self.names.locations.push((pc, self.names.stacks.len() as u32));
            self.names.stacks.push(frames);
            self
        }

        /// Adds a task of 1,024 bytes of stack and says that it is idle where its name does.
        pub(crate) fn task_called(mut self, name: &str) -> Profile {
            let number = self.tasks.len() as u64;
            self.tasks.push(Task {
                name: name.to_owned(),
                tcb: 0x2000_0000 + 0x100 * number,
                stack_start: Some(0x2000_1000),
                stack_end: Some(0x2000_1400),
                is_idle: name.starts_with("IDLE"),
                insns: 0,
                switches: 1,
                deepest_sp: Some(0x2000_1300),
                painted_bytes: None,
            });
            self
        }

        fn stack_frame(mut self, parent: u32, kind: FrameKind) -> Profile {
            self.facts.max_depth = Some(64);
            self.stacks.push(StackFrame { parent, kind });
            self
        }

        /// Adds the n-th frame of call stacks: a caller.
        pub(crate) fn caller(self, parent: u32, return_addr: u64) -> Profile {
            self.stack_frame(parent, FrameKind::Caller { return_addr })
        }

        /// Adds the n-th frame of call stacks: an exception.
        pub(crate) fn exception(self, parent: u32, number: u64, handler: u64, pc: u64) -> Profile {
            self.stack_frame(parent, FrameKind::Exception { number, handler, pc })
        }

        /// Adds the n-th frame of call stacks: the end of what is known.
        pub(crate) fn unknown(self, why: Unknown) -> Profile {
            self.stack_frame(0, FrameKind::Unknown(why))
        }

        /// Adds samples of the first vCPU at an address, with the number of their stack and task.
        pub(crate) fn taken(mut self, count: u64, pc: u64, stack: u32, task: u32) -> Profile {
            for _ in 0..count {
                let before_insns = self.samples.last().map_or(0, |sample| sample.at_insns);
                let at_insns = before_insns + self.facts.period_insns;
                self.samples.push(Sample { at_insns, pc, stack, task, ..Sample::default() });
            }
            self
        }

        /// Adds the n-th place of the exact tree.
        pub(crate) fn node(mut self, parent: u32, kind: NodeKind, insns: u64) -> Profile {
            self.tree.push(Node { parent, kind, insns, calls: 1 });
            self
        }

        /// Adds executions and as many samples as the period makes of them, with the number of their stack
        /// and task.
        pub(crate) fn executed(self, pc: u64, insns: u64, stack: u32, task: u32) -> Profile {
            let samples = insns / self.facts.period_insns;
            let mut profile = self.taken(samples, pc, stack, task);
            match profile.vcpus[0].insns.iter_mut().find(|insn| insn.pc == pc) {
                Some(insn) => insn.count += insns,
                None => profile = profile.insn(pc, insns),
            }
            profile
        }

        /// Takes the samples that its instructions make when each executes `count` times in a row.
        pub(crate) fn sampled(mut self) -> Profile {
            for (index, vcpu) in self.vcpus.iter().enumerate() {
                let (mut at_insns, mut next) = (0, self.facts.period_insns);
                for insn in &vcpu.insns {
                    at_insns += insn.count;
                    while next <= at_insns {
                        let sample = Sample { at_insns: next, pc: insn.pc, vcpu: index as u32, ..Sample::default() };
                        self.samples.push(sample);
                        next += self.facts.period_insns;
                    }
                }
            }
            self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::empty;
    use super::*;

    fn row<'t>(table: &'t Table, name: &str) -> &'t Row {
        table.rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no {name} in {table:#?}"))
    }

    #[test]
    fn a_profile_of_nothing_is_an_empty_table() {
        assert_eq!(table(&empty()), Table::default());
        assert_eq!(arcs(&empty()), []);
    }

    #[test]
    fn a_loop_to_the_first_instruction_is_no_call() {
        let profile = empty()
            .function("main", 0x40, 0x10)
            .function("spin", 0x50, 0x10)
            .insn(0x40, 3)
            .insn(0x50, 1000)
            .insn(0x52, 1000)
            .arc((0x42, 0x50), Some(0x46), true, 3)
            .arc((0x52, 0x50), None, false, 996)
            // Recursion is a call.
            .arc((0x54, 0x50), Some(0x58), true, 1);
        let table = table(&profile);
        assert_eq!(row(&table, "spin").calls, 4);
        assert_eq!(row(&table, "spin").self_insns, 2000);
        assert_eq!(row(&table, "main").calls, 3);
        let arcs = arcs(&profile);
        assert_eq!(arcs.len(), 2, "{arcs:?}");
        assert_eq!((arcs[0].caller.as_str(), arcs[0].callee.as_str(), arcs[0].count), ("main", "spin", 3));
        assert_eq!((arcs[1].caller.as_str(), arcs[1].callee.as_str(), arcs[1].count), ("spin", "spin", 1));
    }

    #[test]
    fn the_vcpus_are_added_up() {
        let mut profile = empty().function("main", 0x40, 0x10).insn(0x40, 3).insn(0x42, 3);
        profile.vcpus.push(profile.vcpus[0].clone());
        let table = table(&profile);
        assert_eq!((table.total_insns, table.rows.len()), (12, 1));
        assert_eq!((table.rows[0].self_insns, table.rows[0].calls), (12, 6));
    }

    #[test]
    fn rows_come_hottest_first_and_equals_by_name() {
        let profile = empty()
            .function("b", 0x40, 4)
            .function("a", 0x44, 4)
            .function("c", 0x48, 4)
            .insn(0x40, 5)
            .insn(0x44, 5)
            .insn(0x48, 6);
        let names: Vec<String> = table(&profile).rows.into_iter().map(|row| row.name).collect();
        assert_eq!(names, ["c", "a", "b"]);
    }

    #[test]
    fn code_without_a_name_is_shown_by_address_and_counted() {
        let profile = empty()
            .on_virt()
            .function("main", 0x8000_0000, 0x10)
            .insn(0x1000, 6)
            .insn(0x8000_0000, 10)
            .insn(0x8000_0010, 20)
            .insn(0x8000_00fe, 1)
            .insn(0x8000_0100, 2);
        let table = table(&profile);
        let rows: Vec<_> = table.rows.iter().map(|row| (row.name.as_str(), row.self_insns, row.kind)).collect();
        assert_eq!(
            rows,
            [
                ("[0x80000010..0x800000ff]", 21, Kind::Unnamed),
                ("main", 10, Kind::Function),
                (BOOT_ROM, 6, Kind::BootRom),
                ("[0x80000100..0x800001ff]", 2, Kind::Unnamed),
            ]
        );
        assert_eq!(table.unnamed_insns, 23);
    }

    #[test]
    fn there_is_no_boot_rom_on_a_cortex_m() {
        let table = table(&empty().insn(0x1000, 1));
        assert_eq!((table.rows[0].kind, table.unnamed_insns), (Kind::Unnamed, 1));
    }

    #[test]
    fn wide_bins_make_wide_ranges_up_to_the_last_address() {
        let mut profile = empty().insn(u64::MAX - 1, 1);
        profile.facts.bin_bytes = 4096;
        assert_eq!(table(&profile).rows[0].name, "[0xfffffffffffff000..0xffffffffffffffff]");
    }

    #[test]
    fn the_caller_is_where_the_call_was() {
        let profile = empty()
            .function("main", 0x40, 0x10)
            .function("die", 0x50, 0x10)
            .function("handler", 0x60, 0x10)
            // The last instruction of `main` calls; bit 0 says Thumb.
            .arc((0x4e, 0x50), Some(0x51), true, 1)
            .arc((0x70, 0x60), Some(0xffff_fff9), true, 2)
            .arc((0x70, 0x40), Some(0xffff_ffff), false, 3)
            .arc((0x70, 0x50), None, false, 4);
        let rows: Vec<_> = arcs(&profile).into_iter().map(|row| (row.caller, row.callee, row.count)).collect();
        let expected = [(UNKNOWN, "die", 4), (RESET, "main", 3), (EXCEPTION, "handler", 2), ("main", "die", 1)];
        assert_eq!(rows, expected.map(|(caller, callee, count)| (caller.to_owned(), callee.to_owned(), count)));
    }

    #[test]
    fn a_tail_call_keeps_both_its_caller_and_its_site() {
        let profile = empty()
            .function("main", 0x40, 0x10)
            .function("front", 0x50, 0x10)
            .function("back", 0x60, 0x10)
            .arc((0x44, 0x50), Some(0x48), true, 5)
            .arc((0x58, 0x60), Some(0x48), false, 5)
            // Into the middle of a function is no call.
            .arc((0x58, 0x64), None, false, 9);
        let rows = arcs(&profile);
        assert_eq!(rows.len(), 2, "{rows:?}");
        let tail_call = rows.iter().find(|row| row.callee == "back").unwrap();
        assert_eq!(tail_call.caller, "main");
        assert_eq!(tail_call.tail_call, Some(TailCall { site: 0x58, function: "front".to_owned() }));
    }

    #[test]
    fn a_score_is_large_only_where_chance_is_ruled_out() {
        // Its share: 100 of 1000 samples.
        assert_eq!(z_score(100, 1000, 1_000_000, 10_000_000), 0.0);
        assert!(z_score(160, 1000, 1_000_000, 10_000_000) > 5.0);
        assert!(z_score(40, 1000, 1_000_000, 10_000_000) < -5.0);
        assert!(z_score(130, 1000, 1_000_000, 10_000_000) < 5.0);
        // A sample in a function that is hardly ever executed.
        assert!(z_score(1, 1000, 1, 10_000_000) < 5.0);
        // One that is nearly everything and lacks two samples.
        assert!(z_score(998, 1000, 9_999_999, 10_000_000).abs() < 5.0);
        // Period 1, and nothing at all.
        assert_eq!(z_score(7, 1000, 7, 1000), 0.0);
        assert_eq!(z_score(0, 0, 0, 0), 0.0);
        assert_eq!(z_score(1000, 1000, 1000, 1000), 0.0);
    }
}
