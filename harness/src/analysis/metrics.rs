// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile as numbers with stable names: baselines keep them, thresholds and assertions check them.
//!
//! Instructions belong to the function with their source line, even where the compiler has inlined it, so that a
//! change of inlining moves no instructions. Names lack the suffixes of clones (`.constprop.0`, Rust's hashes), and
//! the file distinguishes namesakes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Index, IndexMut};

use decode::{Flow, decode};
use wire::definition::NodeKind;

use crate::analysis::column::Values;
use crate::analysis::owner::Owner;
use crate::analysis::{cycles, functions, heap, stacks, time, zone};
use crate::image::kernel::STACK_END_ADVICE;
use crate::profile::zone::ZoneCounts;
use crate::profile::{Profile, Task};
use crate::text::symbol_name::{file_name, key_name};

/// The table of metrics: baselines, comparison, thresholds and assertions take all their knowledge of a metric from
/// its entry here.
macro_rules! metrics {
    ($($(#[doc = $doc:literal])* $name:ident => $descriptor:expr;)*) => {
        /// A number of the run, of each function, of each task or of each zone. Columns of baselines, judgements and
        /// messages are in this order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric {
            $($(#[doc = $doc])* $name,)*
        }

        impl Metric {
            /// All metrics.
            pub const ALL: &[Metric] = &[$(Metric::$name),*];

            /// Properties of the metric.
            pub const fn descriptor(self) -> Descriptor {
                match self {
                    $(Metric::$name => $descriptor,)*
                }
            }
        }
    };
}

metrics! {
    /// Instructions of the window.
    Total => Descriptor {
        word: "total",
        phrase: "total instructions",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Run(|profile| Some(profile.total_insns())),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: None,
    };
    /// Instructions of a function's own source lines, without called functions.
    SelfInsns => Descriptor {
        word: "self",
        phrase: "own-line instructions of",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Functions(|profile, add| {
            profile.insns().into_iter().for_each(|(pc, insns)| add(Key::written_at(profile, pc).0, insns));
        }),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: Some(of_total),
    };
    /// Instructions of a function's own source lines that ran inlined into other functions.
    Inlined => Descriptor {
        word: "inlined",
        phrase: "inlined instructions of",
        role: Role::Kept,
        needs_exact: false,
        read: Read::Functions(|profile, add| {
            for (pc, insns) in profile.insns() {
                if let (key, true) = Key::written_at(profile, pc) {
                    add(key, insns);
                }
            }
        }),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: Some(of_total),
    };
    /// Instructions of a function's code, with inlined functions. Unknown if it only exists inlined.
    Code => Descriptor {
        word: "code",
        phrase: "instructions of the code of",
        role: Role::Shown,
        needs_exact: false,
        read: Read::Functions(|profile, add| {
            called(profile).iter().for_each(|row| add(Key::new(&row.name, row.file.as_deref()), row.self_insns));
        }),
        where_uncounted: None,
        unknown: UNKNOWN,
        whole: Some(of_total),
    };
    /// Instructions of a function from its entries to its returns, without interrupts.
    Inclusive => Descriptor {
        word: "inclusive",
        phrase: "inclusive instructions of",
        role: Role::Compared,
        needs_exact: true,
        read: Read::Functions(|profile, add| {
            let keys = keys(profile);
            for (key, insns) in inclusive(profile, |entry| keys.get(&entry)) {
                add(key.clone(), insns);
            }
        }),
        where_uncounted: None,
        unknown: UNKNOWN,
        whole: Some(of_total),
    };
    /// Entries of a function. Unknown if it only exists inlined.
    Calls => Descriptor {
        word: "calls",
        phrase: "calls of",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Functions(|profile, add| {
            called(profile).iter().for_each(|row| add(Key::new(&row.name, row.file.as_deref()), row.calls));
        }),
        where_uncounted: None,
        unknown: UNKNOWN,
        whole: None,
    };
    /// Instructions while a task was running.
    TaskInsns => Descriptor {
        word: "task",
        phrase: "instructions of task",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Tasks(|task| Some(task.insns)),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: Some(of_total),
    };
    /// Number of switches to a task.
    Switches => Descriptor {
        word: "switches",
        phrase: "switches to task",
        role: Role::Asserted,
        needs_exact: false,
        read: Read::Tasks(|task| Some(task.switches)),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: None,
    };
    /// Lines on the console in a window of a fixed length; unknown without the console's output.
    Lines => Descriptor {
        word: "lines",
        phrase: "lines printed",
        role: Role::Kept,
        needs_exact: false,
        read: Read::Run(|_| None),
        where_uncounted: None,
        unknown: UNKNOWN,
        whole: None,
    };
    /// Most bytes of stack that a task used: exact with the exact tree, otherwise a lower bound.
    Stack => Descriptor {
        word: "stack",
        phrase: "stack bytes of task",
        role: Role::Compared,
        needs_exact: true,
        read: Read::Tasks(Task::used_stack_bytes),
        where_uncounted: None,
        unknown: STACK_END_ADVICE,
        whole: Some(stack_of_task),
    };
    /// Instructions of a zone, including zones within it.
    Zone => Descriptor {
        word: "zone",
        phrase: "instructions of zone",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Zones(|_, zone| Some(zone.total_insns)),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: Some(of_total),
    };
    /// Number of a zone's complete occurrences.
    ZoneCalls => Descriptor {
        word: "zone_calls",
        phrase: "calls of zone",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Zones(|_, zone| Some(zone.calls)),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: None,
    };
    /// Instructions of the zone's shortest occurrence.
    ZoneMin => Descriptor {
        word: "zone_min",
        phrase: "least instructions of zone",
        role: Role::Asserted,
        needs_exact: false,
        read: Read::Zones(|_, zone| Some(zone.min_insns)),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: None,
    };
    /// Instructions of the zone's mean occurrence.
    ZoneMean => Descriptor {
        word: "zone_mean",
        phrase: "mean instructions of zone",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Zones(|_, zone| Some(zone.mean_insns())),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: None,
    };
    /// Instructions of the zone's longest occurrence.
    ZoneMax => Descriptor {
        word: "zone_max",
        phrase: "most instructions of zone",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Zones(|_, zone| Some(zone.max_insns)),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: None,
    };
    /// Instructions from a zone's beginnings to its ends, with those of other tasks and of interrupts in between.
    ZoneElapsed => Descriptor {
        word: "zone_elapsed",
        phrase: "instructions of all tasks during zone",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Zones(|_, zone| Some(zone.elapsed_insns)),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: Some(of_total),
    };
    /// Most bytes of heap held at once.
    HeapPeak => Descriptor {
        word: "heap_peak",
        phrase: "bytes of heap at the peak",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Run(|profile| heap::replay(profile).map(|found| found.peak.bytes)),
        where_uncounted: None,
        unknown: NO_HEAP,
        whole: None,
    };
    /// Bytes allocated in the window and held at its end.
    HeapLeaked => Descriptor {
        word: "heap_leaked",
        phrase: "bytes of heap still held at the end",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Run(|profile| heap::replay(profile).map(|found| found.total.leaked.bytes)),
        where_uncounted: None,
        unknown: NO_HEAP,
        whole: None,
    };
    /// Bytes of the load image.
    Flash => Descriptor {
        word: "flash",
        phrase: "bytes of flash",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Run(|profile| profile.facts.sizes.map(|sizes| sizes.flash_bytes)),
        where_uncounted: None,
        unknown: NO_ELF,
        whole: Some(|profile, _, _| profile.facts.sizes?.flash_room_bytes),
    };
    /// Bytes of static RAM: variables, reserved stacks and heaps, copied code.
    Ram => Descriptor {
        word: "ram",
        phrase: "bytes of static RAM",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Run(|profile| profile.facts.sizes.map(|sizes| sizes.ram_bytes)),
        where_uncounted: None,
        unknown: NO_ELF,
        whole: Some(|profile, _, _| profile.facts.sizes?.ram_room_bytes),
    };
    /// Allocations requested by a function.
    HeapAllocs => Descriptor {
        word: "heap_allocs",
        phrase: "allocations by",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Functions(|profile, add| {
            let Some(found) = heap::replay(profile) else { return };
            // In a run that follows the heap, other functions are known to request none.
            for pc in profile.insns().into_keys() {
                add(Key::of(Owner::of(profile, pc)), 0);
            }
            for (number, site) in (1..).zip(&found.sites).filter(|(_, site)| site.allocated.blocks > 0) {
                if let Some(pc) = heap::asker(profile, number) {
                    add(Key::of(Owner::of(profile, pc)), site.allocated.blocks);
                }
            }
        }),
        where_uncounted: None,
        unknown: NO_HEAP,
        whole: None,
    };
    /// Most bytes of stack that a task can need, from the machine code. A profile does not have it: see
    /// [`crate::analysis::stack_bound`].
    StackBound => Descriptor {
        word: "stack_bound",
        phrase: "bytes that can be needed of the stack of task",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Tasks(|_| None),
        where_uncounted: None,
        unknown: NO_BOUND,
        whole: Some(stack_of_task),
    };
    /// Most bytes of the main stack that the code and its exceptions can need.
    MainStack => Descriptor {
        word: "main_stack",
        phrase: "bytes that can be needed of the main stack",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Run(|_| None),
        where_uncounted: None,
        unknown: NO_BOUND,
        whole: None,
    };
    /// Executions of conditional branches.
    BranchInsns => Descriptor {
        word: "branch_insns",
        phrase: "conditional branches executed",
        role: Role::Asserted,
        needs_exact: false,
        read: Read::Run(|profile| Some(branch_insns(profile))),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: Some(of_total),
    };
    /// Instructions in which the processor has nothing to do: of idle tasks, asleep in a `wfe`, and of code that only waits.
    Idle => Descriptor {
        word: "idle",
        phrase: "idle instructions",
        role: Role::Asserted,
        needs_exact: false,
        read: Read::Run(|profile| Some(time::idle_insns(profile))),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: Some(of_total),
    };
    /// Cycles of the window.
    Cycles => Descriptor {
        word: "cycles",
        phrase: "cycles",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Run(cycles::total),
        where_uncounted: None,
        unknown: NO_CYCLES,
        whole: None,
    };
    /// Cycles of a function's own source lines, without called functions.
    SelfCycles => Descriptor {
        word: "self_cycles",
        phrase: "own-line cycles of",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Functions(|profile, add| {
            let cycles = cycles::by_pc(profile).unwrap_or_default();
            cycles.into_iter().for_each(|(pc, cycles)| add(Key::written_at(profile, pc).0, cycles));
        }),
        where_uncounted: None,
        unknown: NO_CYCLES,
        whole: Some(|_, metrics, _| metrics.run[Metric::Cycles]),
    };
    /// Cycles of a zone, including zones within it.
    ZoneCycles => Descriptor {
        word: "zone_cycles",
        phrase: "cycles of zone",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Zones(|profile, zone| cycles::are_proved(profile).then_some(zone.cycles.total)),
        where_uncounted: None,
        unknown: NO_PROOF,
        whole: Some(|_, metrics, _| metrics.run[Metric::Cycles]),
    };
    /// Most cycles of a zone's occurrence.
    ZoneMaxCycles => Descriptor {
        word: "zone_max_cycles",
        phrase: "most cycles of zone",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Zones(|profile, zone| cycles::are_proved(profile).then_some(zone.cycles.times.max)),
        where_uncounted: None,
        unknown: NO_PROOF,
        whole: None,
    };
}

/// Properties of a metric.
#[derive(Clone, Copy)]
pub struct Descriptor {
    /// Its word in suites, baselines and reports.
    pub word: &'static str,
    /// Its description in sentences; the name of the function, task or zone follows.
    pub phrase: &'static str,
    /// Uses of the metric.
    pub role: Role,
    /// Whether it needs the exact call tree.
    pub needs_exact: bool,
    /// Reader of the metric, which also tells its subject.
    pub read: Read,
    /// Value for a subject without counts: 0 for counted metrics, None for metrics that may be unknown.
    pub where_uncounted: Option<u64>,
    /// Reason why a run or another subject may lack the number, and a remedy.
    pub unknown: &'static str,
    /// The whole of which the number is a share; None: it is never written as a share.
    pub whole: Option<Whole>,
}

/// Reason for heap metrics of a run that did not follow the heap.
const NO_HEAP: &str = "the run did not follow the heap: ask for it with --heap, or with heap = true in a suite";

/// Reason for stacks without a bound.
const NO_BOUND: &str = "nothing bounds it: `harness stack` lists why, and [stack] states what the code does not show";

/// Reason for unknown cycles.
pub const NO_CYCLES: &str =
    "the run did not count cycles: ask for them with --cycles, or with cycles = true in a suite (AVR)";

/// Reason why a zone or a call has no cycles that a limit may rest on.
pub const NO_PROOF: &str = "the run did not count cycles (--cycles, or cycles = true in a suite), or its core's are known to an \
                            interval only, which single calls and zones do not have: limit cycles or self_cycles";

/// Reason for unknown times.
pub const NO_CLOCK: &str =
    "the machine's clock did not follow cycles: name the core's frequency, as in cycles = \"hazard3@150MHz\"";

/// Reason for unknown sizes.
const NO_ELF: &str = "the image is not an ELF file, so its sections are not known";

/// Reason for an unknown number without a known cause.
const UNKNOWN: &str = "this run did not measure it";

/// Whole of which a subject's number is a share, by the subject's name: a number of the run, or of that subject.
pub type Whole = fn(&Profile, &Metrics, &str) -> Option<u64>;

/// Uses of a metric; each use includes the uses before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Shown in comparisons of two profiles.
    Shown,
    /// Kept in baselines.
    Kept,
    /// Available to assertions.
    Asserted,
    /// Compared between two runs: thresholds can limit it, and reports show its change.
    Compared,
}

/// Reader of a metric.
#[derive(Clone, Copy)]
pub enum Read {
    /// One number of the run.
    Run(fn(&Profile) -> Option<u64>),
    /// A number of each function: parts to be added up.
    Functions(fn(&Profile, &mut dyn FnMut(Key, u64))),
    /// A number of each task.
    Tasks(fn(&Task) -> Option<u64>),
    /// A number of each zone, over all tasks and interrupts.
    Zones(fn(&Profile, &ZoneCounts) -> Option<u64>),
}

/// Kind of subject that a metric belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The whole run.
    Run,
    /// Each function.
    Function,
    /// Each task.
    Task,
    /// Each zone of the firmware.
    Zone,
}

impl Subject {
    /// All subjects.
    pub const ALL: [Subject; 4] = [Subject::Run, Subject::Function, Subject::Task, Subject::Zone];
}

impl Metric {
    /// Its word in suites, baselines and reports.
    pub fn word(self) -> &'static str {
        self.descriptor().word
    }

    /// Its kind of subject.
    pub fn subject(self) -> Subject {
        match self.descriptor().read {
            Read::Run(_) => Subject::Run,
            Read::Functions(_) => Subject::Function,
            Read::Tasks(_) => Subject::Task,
            Read::Zones(_) => Subject::Zone,
        }
    }

    /// Metrics of a subject.
    pub fn of(subject: Subject) -> impl Iterator<Item = Metric> {
        Metric::ALL.iter().copied().filter(move |metric| metric.subject() == subject)
    }

    /// Metrics of a subject that baselines keep.
    pub fn kept(subject: Subject) -> impl Iterator<Item = Metric> {
        Metric::of(subject).filter(|metric| metric.descriptor().role >= Role::Kept)
    }

    /// Metrics of a subject that are compared between runs.
    pub fn compared(subject: Subject) -> impl Iterator<Item = Metric> {
        Metric::of(subject).filter(|metric| metric.descriptor().role >= Role::Compared)
    }
}

/// A value for each metric; the default for metrics of other subjects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByMetric<T>([T; Metric::ALL.len()]);

impl<T> Index<Metric> for ByMetric<T> {
    type Output = T;

    fn index(&self, metric: Metric) -> &T {
        &self.0[metric as usize]
    }
}

impl<T> IndexMut<Metric> for ByMetric<T> {
    fn index_mut(&mut self, metric: Metric) -> &mut T {
        &mut self.0[metric as usize]
    }
}

/// Numbers of a run, a function, a task or a zone; None: unknown.
pub type Numbers = ByMetric<Option<u64>>;

impl Numbers {
    /// Numbers of a subject without counts.
    pub fn uncounted(subject: Subject) -> Numbers {
        let mut numbers = Numbers::default();
        for metric in Metric::of(subject) {
            numbers[metric] = metric.descriptor().where_uncounted;
        }
        numbers
    }
}

/// The numbers of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Numbers of the run as a whole.
    pub run: Numbers,
    /// Numbers by function.
    pub functions: BTreeMap<Key, Numbers>,
    /// Numbers by task, with names that distinguish namesakes.
    pub tasks: BTreeMap<String, Numbers>,
    /// Numbers by zone.
    pub zones: BTreeMap<String, Numbers>,
}

/// A function's identity across runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its name without compilers' suffixes.
    pub name: String,
    /// Last part of its file's path; empty when unknown.
    pub file: String,
}

impl Metrics {
    /// Adds the numbers of a function with this key.
    pub fn add_function(&mut self, key: Key, numbers: &Numbers) {
        let sum = self.functions.entry(key).or_default();
        for metric in Metric::of(Subject::Function) {
            if let Some(number) = numbers[metric] {
                // A baseline is anybody's file.
                sum[metric] = Some(sum[metric].unwrap_or(0).saturating_add(number));
            }
        }
    }

    /// The numbers of a profile.
    pub fn of(profile: &Profile) -> Metrics {
        let mut metrics = Metrics::default();
        for name in stacks::task_names(profile) {
            metrics.tasks.insert(name, Numbers::uncounted(Subject::Task));
        }
        let zones = zone::table(profile);
        for &metric in Metric::ALL {
            match metric.descriptor().read {
                Read::Run(read) => metrics.run[metric] = read(profile),
                Read::Functions(read) => read(profile, &mut |key, number| {
                    let new = || Numbers::uncounted(Subject::Function);
                    *metrics.functions.entry(key).or_insert_with(new)[metric].get_or_insert(0) += number;
                }),
                Read::Tasks(read) => {
                    for (task, name) in profile.tasks.iter().zip(stacks::task_names(profile)) {
                        metrics.tasks.entry(name).or_default()[metric] = read(task);
                    }
                }
                Read::Zones(read) => {
                    for zone::Row { name, all, .. } in &zones {
                        metrics.zones.entry(name.clone()).or_default()[metric] = read(profile, all);
                    }
                }
            }
        }
        metrics
    }

    /// Instructions of the window.
    pub fn total_insns(&self) -> u64 {
        self.run[Metric::Total].unwrap_or(0)
    }

    /// Numbers of the functions with these names, in all files.
    pub fn named<'a>(&'a self, names: &'a BTreeSet<String>) -> impl Iterator<Item = &'a Numbers> {
        self.functions.iter().filter(|(key, _)| names.contains(&key.name)).map(|(_, numbers)| numbers)
    }
}

/// Executions of the instructions that branch on a condition, taken or not.
fn branch_insns(profile: &Profile) -> u64 {
    let Some(isa) = profile.facts.isa() else { return 0 };
    let is_branch = |pc: u64| {
        let code = profile.code_at(pc);
        code.is_some_and(|bytes| matches!(decode(isa, pc, bytes).flow, Flow::Branch { .. }))
    };
    let insns = profile.vcpus.iter().flat_map(|vcpu| &vcpu.insns);
    insns.filter(|insn| is_branch(insn.pc)).map(|insn| insn.count).fold(0, u64::saturating_add)
}

/// Size of a task's stack, as the whole of a share.
fn stack_of_task(profile: &Profile, _: &Metrics, name: &str) -> Option<u64> {
    let task = profile.tasks.iter().zip(stacks::task_names(profile)).find(|(_, known)| known == name)?.0;
    task.stack_bytes()
}

/// The run's instructions, as the whole of a share.
fn of_total(_: &Profile, metrics: &Metrics, _: &str) -> Option<u64> {
    Some(metrics.total_insns())
}

/// Instructions of functions' own lines, including inlined copies, for the functions with code of their own, by first
/// address, as in comparisons.
pub fn own_lines(profile: &Profile) -> Values {
    let mut own: BTreeMap<Key, u64> = BTreeMap::new();
    for (pc, insns) in profile.insns() {
        *own.entry(Key::written_at(profile, pc).0).or_default() += insns;
    }
    let rows = called(profile).into_iter();
    let of_row = |row: functions::Row| {
        let own = own.get(&Key::new(&row.name, row.file.as_deref())).copied();
        (row.start, own.unwrap_or(0))
    };
    rows.map(of_row).collect()
}

/// Functions with code of their own.
fn called(profile: &Profile) -> Vec<functions::Row> {
    let rows = functions::table(profile).rows.into_iter();
    rows.filter(|row| row.kind == functions::RowKind::Function).collect()
}

impl Key {
    fn new(name: &str, file: Option<&str>) -> Key {
        let file = file.map_or("", file_name);
        Key { name: key_name(name), file: file.to_owned() }
    }

    /// Function with the source line of an instruction, and whether it was inlined into another one.
    pub fn written_at(profile: &Profile, pc: u64) -> (Key, bool) {
        let names = &profile.names;
        let text = |index: u32| names.strings.get(index as usize).map_or("?", String::as_str);
        match names.frames_at(pc).last().filter(|frame| frame.inlined) {
            Some(frame) => (Key::new(text(frame.function), frame.file.map(text)), true),
            None => (Key::of(Owner::of(profile, pc)), false),
        }
    }

    fn of(place: Owner<'_>) -> Key {
        match place {
            Owner::Function(function) => Key::new(&function.name, function.file.as_deref()),
            // Addresses of code without a name change with every build.
            Owner::Range { .. } => Key { name: "[unnamed]".to_owned(), file: String::new() },
            Owner::BootRom => Key { name: place.to_string(), file: String::new() },
        }
    }
}

/// Keys of the functions, by first address; empty without an exact tree.
fn keys(profile: &Profile) -> BTreeMap<u64, Key> {
    // Instructions from entry to return are only known from the tree.
    let rows = if profile.tree.is_empty() { Vec::new() } else { called(profile) };
    rows.iter().filter_map(|row| Some((row.start?, Key::new(&row.name, row.file.as_deref())))).collect()
}

/// Instructions from entry to return of all functions with these names together; calls among them count once. None:
/// there is no exact tree, or none of the functions is in it.
pub fn inclusive_together(profile: &Profile, names: &BTreeSet<String>) -> Option<u64> {
    let keys = keys(profile);
    let is_one = |entry: u64| keys.get(&entry).is_some_and(|key| names.contains(&key.name));
    inclusive(profile, |entry| is_one(entry).then_some(())).remove(&())
}

/// Instructions from entry to return, by party: `party` gives that of a function by its entry, None for one that is not
/// asked for. Recursion within a party counts once, interrupts do not count.
fn inclusive<P: Ord + Copy>(profile: &Profile, party: impl Fn(u64) -> Option<P>) -> BTreeMap<P, u64> {
    let parties = profile.tree.iter().map(|node| match node.kind {
        NodeKind::Function { entry } => party(entry),
        _ => None,
    });
    let parties: Vec<Option<P>> = parties.collect();
    // A node's number is higher than its parent's.
    let mut subtotals: Vec<u64> = profile.tree.iter().map(|node| node.insns).collect();
    for (index, node) in profile.tree.iter().enumerate().rev() {
        // A polled task counts for its poller, which calls it.
        if let (Some(parent), NodeKind::Function { .. } | NodeKind::Root { .. }) =
            (node.parent.checked_sub(1), node.kind)
        {
            subtotals[parent as usize] += subtotals[index];
        }
    }
    let mut inclusive = BTreeMap::new();
    for ((node, &own), &subtotal) in profile.tree.iter().zip(&parties).zip(&subtotals) {
        let Some(own) = own else { continue };
        let mut outer = node.parent;
        let mut is_recursive = false;
        while let Some(index) = outer.checked_sub(1).filter(|_| !is_recursive) {
            let parent = &profile.tree[index as usize];
            // The interrupted code is not a caller.
            if matches!(parent.kind, NodeKind::Exception { .. }) {
                break;
            }
            is_recursive = parties[index as usize] == Some(own);
            outer = parent.parent;
        }
        if !is_recursive {
            *inclusive.entry(own).or_default() += subtotal;
        }
    }
    inclusive
}

/// Names that several files define.
pub fn ambiguous<'a>(keys: impl Iterator<Item = &'a Key>) -> BTreeSet<&'a str> {
    let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for key in keys {
        files.entry(&key.name).or_default().insert(&key.file);
    }
    files.into_iter().filter(|(_, files)| files.len() > 1).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Node;
    use crate::profile::testing::empty;
    use crate::profile::zone::{Context, Zone};

    #[test]
    fn a_zone_is_measured_over_all_tasks_and_interrupts() {
        let mut profile = empty();
        profile.zones.names = vec!["decode".to_owned(), "never".to_owned()];
        let counts = |calls, sum_insns, [min_insns, max_insns]: [u64; 2]| ZoneCounts {
            calls,
            sum_insns,
            total_insns: sum_insns,
            min_insns,
            max_insns,
            ..ZoneCounts::default()
        };
        profile.zones.zones = vec![
            Zone { name: 1, context: Context::Task(0), counts: counts(2, 30, [10, 20]) },
            Zone { name: 1, context: Context::Exception(15), counts: counts(1, 5, [5, 5]) },
        ];
        let metrics = Metrics::of(&profile);
        let of = |metric: Metric| metrics.zones["decode"][metric];
        let counted = [35, 3, 5, 12, 20, 0].map(Some).into_iter().chain([None, None]);
        assert!(Metric::of(Subject::Zone).map(of).eq(counted), "cycles were not asked for");
        assert_eq!(metrics.zones.len(), 1);
    }

    #[test]
    fn numbers_of_closures_are_no_part_of_a_name_and_those_of_lambdas_are() {
        for (name, key) in [
            ("app::sorts::{closure#12}", "app::sorts::{closure}"),
            (
                "app::sort::<u8, app::sorts::{closure#0}>::{closure#1}",
                "app::sort::<u8, app::sorts::{closure}>::{closure}",
            ),
            (
                "<F as core::ops::FnOnce<()>>::call_once::{shim:vtable#0}",
                "<F as core::ops::FnOnce<()>>::call_once::{shim:vtable}",
            ),
            ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()(int) const"),
            ("a#b {c#} {#1} #", "a#b {c#} {} #"),
        ] {
            assert_eq!(key_name(name), key);
        }
    }

    #[test]
    fn inclusive_counts_recursion_once_and_interrupts_not() {
        let mut profile = empty().function("f", 0x40, 4).function("g", 0x80, 4).insn(0x40, 10).insn(0x80, 5);
        let node = |parent, kind, insns| Node { parent, kind, via: None, insns, calls: 1, cycles: 0 };
        let function = |entry| NodeKind::Function { entry };
        profile.tree = vec![
            node(0, NodeKind::Root { task: 0 }, 0),
            node(1, function(0x40), 6),
            node(2, function(0x80), 2),
            node(3, function(0x40), 4),
            node(4, NodeKind::Exception { number: 15 }, 0),
            node(5, function(0x80), 3),
        ];
        assert_eq!(inclusive(&profile, Some), BTreeMap::from([(0x40, 12), (0x80, 9)]));
        // A polled task's root between two functions changes nothing.
        profile.tree.insert(2, node(2, NodeKind::Root { task: 1 }, 0));
        for (index, parent) in [(3, 3), (4, 4), (5, 5), (6, 6)] {
            profile.tree[index].parent = parent;
        }
        assert_eq!(inclusive(&profile, Some), BTreeMap::from([(0x40, 12), (0x80, 9)]));
    }

    #[test]
    fn what_is_called_alike_or_asked_for_together_counts_once_where_one_calls_the_other() {
        let mut profile = empty()
            .function("f::{closure#0}", 0x40, 4)
            .function("f::{closure#1}", 0x50, 4)
            .function("sort::<u8>", 0x60, 4)
            .function("sort::<u16>", 0x70, 4);
        for (parent, entry) in [(0, 0x40), (1, 0x50), (2, 0x60), (3, 0x70), (4, 0x60)] {
            profile = profile.node(parent, NodeKind::Function { entry }, 10);
        }
        profile = [0x40, 0x50, 0x60, 0x70].into_iter().fold(profile, |profile, pc| profile.insn(pc, 10));
        let metrics = Metrics::of(&profile);
        let of = |name: &str| {
            let names = BTreeSet::from([name.to_owned()]);
            metrics.named(&names).map(|numbers| numbers[Metric::Inclusive]).collect::<Vec<_>>()
        };
        assert_eq!([of("f::{closure}"), of("sort::<u8>"), of("sort::<u16>")], [[Some(50)], [Some(30)], [Some(20)]]);
        let together =
            |names: &[&str]| inclusive_together(&profile, &names.iter().map(|&name| name.into()).collect());
        assert_eq!(together(&["sort::<u8>", "sort::<u16>"]), Some(30));
        assert_eq!(together(&["sort::<u32>"]), None);
    }
}
