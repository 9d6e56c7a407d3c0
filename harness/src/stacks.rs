//! Call stacks with names: from a sample or a place in the exact tree to the frames that people read.
//!
//! A stack is, from the outside in: the task (where there are tasks), the callers with what the compiler
//! inlined into them, interrupts on top of what they interrupted, and the function that executes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use wire::definition::{FrameKind, NodeKind, Unknown};
use wire::sample::Sample;

use crate::functions::{BOOT_ROM, Place};
use crate::profile::{Profile, StackFrame, Task};

/// How stacks are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Interrupts have roots of their own.
    pub fold_irqs: bool,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// What it is called.
    pub name: String,
    /// What it stands for.
    pub kind: Kind,
}

/// What a frame stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A task.
    Task,
    /// An interrupt or trap.
    Irq,
    /// A function as the linker placed it.
    Function,
    /// A function that the compiler inlined into the frame before.
    Inlined,
    /// Something without a name, or why the rest is not known.
    Other,
}

impl Frame {
    fn new(kind: Kind, name: impl Into<String>) -> Frame {
        Frame { name: name.into(), kind }
    }
}

/// Root of the functions that no sample was taken in.
pub const NOT_SAMPLED: &str = "[not sampled]";

/// Level of what ran before the scheduler, where there are tasks.
pub const NO_TASK: &str = "[no task]";

/// Instructions outside every function that was called.
const NO_FUNCTION: &str = "[no function]";

/// Why the rest of a stack is not known.
pub fn why(unknown: Unknown) -> &'static str {
    match unknown {
        Unknown::NoUnwindInfo => "[no unwind info]",
        Unknown::NotKept => "[caller not kept]",
        Unknown::Corrupt => "[corrupt stack]",
        Unknown::TooDeep => "[deeper than --max-depth]",
    }
}

/// What interrupt handlers are called beyond what they handle.
const HANDLER_SUFFIXES: [&str; 7] = ["_IRQHandler", "IRQHandler", "_Handler", "_handler", "_ISR", "_isr", "ISR"];

/// First number of the interrupts that each chip has of its own (Cortex-M).
const FIRST_EXTERNAL: u64 = 16;

/// Names of a profile's exceptions.
#[derive(Debug)]
pub struct Exceptions<'a> {
    profile: &'a Profile,
    /// Handlers by the exception's place in the tree.
    handlers: BTreeMap<u32, u64>,
    /// Handlers of several interrupts: their names say of none what it is.
    shared: BTreeSet<u64>,
}

impl<'a> Exceptions<'a> {
    /// Of this profile.
    pub fn new(profile: &'a Profile) -> Exceptions<'a> {
        let mut handlers = BTreeMap::new();
        let mut numbers: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for node in &profile.tree {
            if let NodeKind::Function { entry } = node.kind
                && let Some(index) = node.parent.checked_sub(1)
                && let Some(NodeKind::Exception { number }) = profile.tree.get(index as usize).map(|node| node.kind)
            {
                // The first function of an exception is its handler.
                let handler = *handlers.entry(node.parent).or_insert(entry);
                numbers.entry(handler & !1).or_default().insert(number);
            }
        }
        for frame in &profile.stacks {
            if let FrameKind::Exception { number, handler, .. } = frame.kind {
                numbers.entry(handler & !1).or_default().insert(number);
            }
        }
        let several = |numbers: &BTreeSet<u64>| numbers.range(FIRST_EXTERNAL..).count() > 1;
        let shared = numbers.into_iter().filter(|(_, numbers)| several(numbers)).map(|(handler, _)| handler);
        Exceptions { profile, handlers, shared: shared.collect() }
    }

    /// The name of an exception: from the architecture, or from its handler for what each chip has of its own.
    pub fn name(&self, number: u64, handler: u64) -> String {
        if self.profile.facts.isa.starts_with("riscv") {
            return riscv_trap(number);
        }
        // Armv7-M Architecture Reference Manual B1.5.2; 7 is Armv8-M's.
        let name = match number {
            1 => "Reset",
            2 => "NMI",
            3 => "HardFault",
            4 => "MemManage",
            5 => "BusFault",
            6 => "UsageFault",
            7 => "SecureFault",
            11 => "SVCall",
            12 => "DebugMonitor",
            14 => "PendSV",
            15 => "SysTick",
            _ => "",
        };
        if !name.is_empty() {
            return format!("[irq {name}]");
        }
        let own = Some(handler & !1).filter(|handler| !self.shared.contains(handler));
        let function = own.and_then(|handler| self.profile.names.function_at(handler));
        let bare = function.map(|function| {
            let name = function.name.as_str();
            HANDLER_SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
        });
        match bare.filter(|name| !name.is_empty() && !name.to_ascii_lowercase().contains("default")) {
            Some(name) => format!("[irq {name}]"),
            // Less than that are exceptions that the architecture reserves.
            None if number < FIRST_EXTERNAL => format!("[exception {number}]"),
            None => format!("[irq {}]", number - FIRST_EXTERNAL),
        }
    }

    /// The name of an exception in the exact tree.
    fn at(&self, node: u32, number: u64) -> String {
        self.name(number, self.handlers.get(&node).copied().unwrap_or(0))
    }
}

/// RISC-V Privileged Architecture, "Machine Cause (mcause) Register".
fn riscv_trap(number: u64) -> String {
    const INTERRUPT: u64 = 1 << 63;
    if number & INTERRUPT != 0 {
        return match number & !INTERRUPT {
            1 => "[irq supervisor software]".to_owned(),
            3 => "[irq software]".to_owned(),
            5 => "[irq supervisor timer]".to_owned(),
            7 => "[irq timer]".to_owned(),
            9 => "[irq supervisor external]".to_owned(),
            11 => "[irq external]".to_owned(),
            other => format!("[irq {other}]"),
        };
    }
    let name = match number {
        0 => "instruction address misaligned",
        1 => "instruction access fault",
        2 => "illegal instruction",
        3 => "breakpoint",
        4 => "load address misaligned",
        5 => "load access fault",
        6 => "store address misaligned",
        7 => "store access fault",
        8 | 9 | 11 => "ecall",
        12 => "instruction page fault",
        13 => "load page fault",
        15 => "store page fault",
        other => return format!("[trap {other}]"),
    };
    format!("[trap {name}]")
}

/// The names of the tasks in their order, each different.
pub fn task_names(profile: &Profile) -> Vec<String> {
    let bare = |task: &Task| if task.name.is_empty() { format!("{:#x}", task.tcb) } else { task.name.clone() };
    let mut taken: BTreeSet<String> = BTreeSet::new();
    // Who is called like another one's "NAME (2)" keeps that name.
    let given: BTreeSet<String> = profile.tasks.iter().map(bare).collect();
    let names = profile.tasks.iter().map(|task| {
        let name = bare(task);
        if taken.insert(name.clone()) {
            return name;
        }
        let numbered = (2_u64..).map(|count| format!("{name} ({count})"));
        let free = numbered.into_iter().find(|name| !given.contains(name) && taken.insert(name.clone()));
        free.unwrap_or(name)
    });
    names.collect()
}

/// What executes at an address: the function, then what was inlined into it there.
pub fn at(profile: &Profile, pc: u64) -> Vec<Frame> {
    let place = Place::of(profile, pc);
    let kind = if matches!(place, Place::Function(_)) { Kind::Function } else { Kind::Other };
    let mut frames = vec![Frame::new(kind, place.to_string())];
    let name = |index: u32| profile.names.strings.get(index as usize).map_or("?", String::as_str);
    let inlined = profile.names.frames_at(pc).iter().filter(|frame| frame.inlined);
    frames.extend(inlined.map(|frame| Frame::new(Kind::Inlined, name(frame.function))));
    frames
}

/// Makes frames of one profile's stacks.
#[derive(Debug)]
pub struct Stacks<'a> {
    profile: &'a Profile,
    view: View,
    tasks: Vec<String>,
    exceptions: Exceptions<'a>,
}

impl<'a> Stacks<'a> {
    /// Of this profile, in this view.
    pub fn new(profile: &'a Profile, view: View) -> Stacks<'a> {
        Stacks { profile, view, tasks: task_names(profile), exceptions: Exceptions::new(profile) }
    }

    /// Everything around the function that executes.
    pub fn callers(&self, task: u32, stack: u32) -> Vec<Frame> {
        let mut frames = self.task(task);
        for &&StackFrame { kind, .. } in &self.profile.stack(stack) {
            match kind {
                FrameKind::Caller { return_addr } => frames.extend(at(self.profile, return_addr.wrapping_sub(1))),
                FrameKind::Exception { number, handler, pc } => {
                    // A task that has not run yet has no code.
                    if pc != 0 {
                        frames.extend(at(self.profile, pc));
                    }
                    self.interrupt(&mut frames, self.exceptions.name(number, handler));
                }
                FrameKind::Unknown(unknown) => frames.push(Frame::new(Kind::Other, why(unknown))),
            }
        }
        frames
    }

    /// A sample's whole stack: the exact path where there is a tree.
    pub fn of(&self, sample: &Sample) -> Vec<Frame> {
        let leaf = at(self.profile, sample.pc);
        let mut frames = match sample.node {
            0 => self.callers(sample.task, sample.stack),
            node => self.path(node),
        };
        if sample.node != 0 && frames.last() == leaf.first() {
            frames.pop();
        }
        frames.extend(leaf);
        frames
    }

    /// The path to a place in the exact tree.
    pub fn path(&self, node: u32) -> Vec<Frame> {
        let mut numbers = Vec::new();
        let mut number = node;
        while let Some(node) = number.checked_sub(1).and_then(|index| self.profile.tree.get(index as usize)) {
            numbers.push((number, node.kind));
            number = node.parent;
        }
        let mut frames = Vec::new();
        for (number, kind) in numbers.into_iter().rev() {
            match kind {
                NodeKind::Root { task } => frames = self.task(task),
                NodeKind::Function { entry } => frames.extend(at(self.profile, entry).into_iter().take(1)),
                NodeKind::Exception { number: exception } => {
                    self.interrupt(&mut frames, self.exceptions.at(number, exception));
                }
            }
        }
        frames
    }

    fn task(&self, task: u32) -> Vec<Frame> {
        match (task.checked_sub(1), self.tasks.is_empty()) {
            (_, true) => Vec::new(),
            (None, false) => vec![Frame::new(Kind::Other, NO_TASK)],
            (Some(index), false) => {
                let name = self.tasks.get(index as usize).map_or("?", String::as_str);
                vec![Frame::new(Kind::Task, format!("task {name}"))]
            }
        }
    }

    fn interrupt(&self, frames: &mut Vec<Frame>, name: String) {
        if self.view.fold_irqs && !frames.iter().any(|frame| frame.kind == Kind::Irq) {
            frames.clear();
        }
        frames.push(Frame::new(Kind::Irq, name));
    }

    /// Instructions by whole stack, exact per function and what is inlined into it. Over the callers they
    /// are divided as the samples are; with an exact tree they are exact there, too.
    pub fn insns(&self) -> BTreeMap<Vec<Frame>, u64> {
        if self.profile.tree.is_empty() { self.by_samples() } else { self.by_tree() }
    }

    /// Exact instructions by function and what is inlined into it.
    fn leaves(&self) -> BTreeMap<Leaf, u64> {
        let mut leaves = BTreeMap::new();
        for (pc, insns) in self.profile.insns() {
            if insns > 0 {
                *leaves.entry(self.leaf(pc)).or_default() += insns;
            }
        }
        leaves
    }

    fn leaf(&self, pc: u64) -> Leaf {
        (Place::of(self.profile, pc).start(), at(self.profile, pc))
    }

    fn by_samples(&self) -> BTreeMap<Vec<Frame>, u64> {
        let mut stacks = BTreeMap::new();
        // Samples by callers, for each leaf and for each function.
        type Callers = BTreeMap<(u32, u32), u64>;
        let (mut of_leaf, mut of_place): (BTreeMap<Leaf, Callers>, BTreeMap<_, Callers>) = Default::default();
        let has_stacks = self.profile.facts.max_depth.is_some();
        // Each place and stack is named once, however many samples it has.
        let mut counts: HashMap<(u64, u32, u32), u64> = HashMap::new();
        for sample in self.profile.samples.iter().filter(|_| has_stacks) {
            *counts.entry((sample.pc, sample.task, sample.stack)).or_default() += 1;
        }
        for ((pc, task, stack), samples) in counts {
            let leaf = self.leaf(pc);
            *of_place.entry(leaf.0).or_default().entry((task, stack)).or_default() += samples;
            *of_leaf.entry(leaf).or_default().entry((task, stack)).or_default() += samples;
        }
        for (leaf, insns) in self.leaves() {
            let Some(callers) = of_leaf.get(&leaf).or_else(|| of_place.get(&leaf.0)) else {
                let mut stack = Vec::new();
                if has_stacks {
                    stack.push(Frame::new(Kind::Other, NOT_SAMPLED));
                }
                stack.extend(leaf.1);
                *stacks.entry(stack).or_default() += insns;
                continue;
            };
            let shares = divide(insns, &callers.values().copied().collect::<Vec<_>>());
            for (&(task, stack), insns) in callers.keys().zip(shares) {
                if insns > 0 {
                    let mut stack = self.callers(task, stack);
                    stack.extend(leaf.1.iter().cloned());
                    *stacks.entry(stack).or_default() += insns;
                }
            }
        }
        stacks
    }

    fn by_tree(&self) -> BTreeMap<Vec<Frame>, u64> {
        let mut leaves: BTreeMap<Option<u64>, Vec<(Vec<Frame>, u64)>> = BTreeMap::new();
        for ((place, leaf), insns) in self.leaves() {
            leaves.entry(place).or_default().push((leaf, insns));
        }
        let mut stacks = BTreeMap::new();
        for (number, node) in (1..).zip(&self.profile.tree) {
            if node.insns == 0 {
                continue;
            }
            let mut path = self.path(number);
            let NodeKind::Function { entry } = node.kind else {
                // The boot ROM is the only place without a start.
                let is_boot = number == 1 && leaves.contains_key(&None);
                path.push(Frame::new(Kind::Other, if is_boot { BOOT_ROM } else { NO_FUNCTION }));
                *stacks.entry(path).or_default() += node.insns;
                continue;
            };
            let Some(function) = path.pop() else { continue };
            let alone = [(vec![function], 1)];
            let leaves = leaves.get(&Place::of(self.profile, entry).start()).map_or(&alone[..], Vec::as_slice);
            let shares = divide(node.insns, &leaves.iter().map(|(_, insns)| *insns).collect::<Vec<_>>());
            for ((leaf, _), insns) in leaves.iter().zip(shares) {
                if insns > 0 {
                    let stack = path.iter().chain(leaf).cloned().collect();
                    *stacks.entry(stack).or_default() += insns;
                }
            }
        }
        stacks
    }
}

/// A function, or what stands for one, by its first address, since several may have one name; and its frames
/// with what is inlined.
type Leaf = (Option<u64>, Vec<Frame>);

/// Divides a number in proportion to weights, into whole numbers that add up to it: what is left goes to
/// the largest remainders, the first of equal ones.
fn divide(whole: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum::<u128>().max(1);
    let exact = |&weight: &u64| u128::from(whole) * u128::from(weight);
    let mut shares: Vec<u64> = weights.iter().map(|weight| (exact(weight) / sum) as u64).collect();
    let left = whole - shares.iter().sum::<u64>();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&index| (std::cmp::Reverse(exact(&weights[index]) % sum), index));
    for index in order.into_iter().take(left as usize) {
        shares[index] += 1;
    }
    shares
}

/// Samples whose stack is not known to its end, by the reason.
pub fn unknown(profile: &Profile) -> BTreeMap<Unknown, u64> {
    let mut counts = BTreeMap::new();
    for (stack, samples) in by_stack(profile) {
        if let Some(StackFrame { kind: FrameKind::Unknown(why), .. }) = profile.stack(stack).first() {
            *counts.entry(*why).or_default() += samples;
        }
    }
    counts
}

/// Samples by the innermost interrupt that they were taken in.
pub fn interrupts(profile: &Profile) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let exceptions = Exceptions::new(profile);
    for (stack, samples) in by_stack(profile) {
        let innermost = profile.stack(stack).iter().rev().find_map(|frame| match frame.kind {
            FrameKind::Exception { number, handler, .. } => Some(exceptions.name(number, handler)),
            _ => None,
        });
        if let Some(name) = innermost {
            *counts.entry(name).or_default() += samples;
        }
    }
    counts
}

/// Samples by stack.
fn by_stack(profile: &Profile) -> HashMap<u32, u64> {
    let mut counts = HashMap::new();
    for sample in &profile.samples {
        *counts.entry(sample.stack).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::testing::empty;

    const TIMER: u64 = 1 << 63 | 7;

    /// Frames as one line.
    fn line(frames: &[Frame]) -> String {
        let names = frames.iter().map(|frame| match frame.kind {
            Kind::Inlined => format!("{}+", frame.name),
            _ => frame.name.clone(),
        });
        names.collect::<Vec<_>>().join(";")
    }

    fn insns(profile: &Profile) -> Vec<(String, u64)> {
        let stacks = Stacks::new(profile, View::default()).insns();
        stacks.iter().map(|(frames, &insns)| (line(frames), insns)).collect()
    }

    fn callers(profile: &Profile, view: View, task: u32, stack: u32) -> String {
        line(&Stacks::new(profile, view).callers(task, stack))
    }

    /// Two tasks that call `step`, which is interrupted by SysTick, which is interrupted by UART0.
    ///
    /// Stacks: 1 the task's function, 2 SysTick in `step`, 3 its callee, 4 UART0 in that.
    fn interrupted() -> Profile {
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

    #[test]
    fn a_stack_goes_from_the_task_over_callers_and_interrupts_to_what_executes() {
        let profile = interrupted();
        let sample = Sample { pc: 0x52, stack: 4, task: 1, ..Sample::default() };
        assert_eq!(
            line(&Stacks::new(&profile, View::default()).of(&sample)),
            "task blink;blink;repeat+;step;mix+;rotate+;[irq SysTick];SysTick_Handler;tick;[irq UART0];\
             step;mix+;rotate+"
        );
    }

    #[test]
    fn folded_interrupts_are_roots_and_nested_ones_stay_nested() {
        let (profile, view) = (interrupted(), View { fold_irqs: true });
        assert_eq!(callers(&profile, view, 1, 4), "[irq SysTick];SysTick_Handler;tick;[irq UART0]");
        assert_eq!(callers(&profile, view, 1, 1), "task blink;blink;repeat+");
    }

    #[test]
    fn only_images_with_tasks_have_a_level_of_them() {
        let mut profile = interrupted();
        assert_eq!(callers(&profile, View::default(), 2, 0), "task IDLE");
        assert_eq!(callers(&profile, View::default(), 0, 0), NO_TASK);
        profile.tasks.clear();
        assert_eq!(callers(&profile, View::default(), 0, 1), "blink;repeat+");
    }

    #[test]
    fn tasks_of_one_name_are_told_apart_whatever_others_are_called() {
        let names =
            |names: &[&str]| task_names(&names.iter().fold(empty(), |profile, name| profile.task_called(name)));
        assert_eq!(names(&["a", "b", "a", "a"]), ["a", "b", "a (2)", "a (3)"]);
        assert_eq!(names(&["a", "a", "a (2)"]), ["a", "a (3)", "a (2)"]);
        assert_eq!(names(&["a (2)", "a", "a"]), ["a (2)", "a", "a (3)"]);
        assert_eq!(names(&["", ""]), ["0x20000000", "0x20000100"]);
    }

    #[test]
    fn interrupts_are_called_like_their_handlers_unless_these_are_shared_or_have_no_name() {
        let profile = empty()
            .function("SysTick_Handler", 0x40, 4)
            .function("UART0_IRQHandler", 0x44, 4)
            .function("timer_isr", 0x48, 4)
            .function("DMAISR", 0x4c, 4)
            .function("Default_Handler", 0x50, 4)
            .function("Infinite_Loop", 0x54, 4)
            .exception(0, 21, 0x55, 0)
            .exception(0, 22, 0x54, 0);
        let exceptions = Exceptions::new(&profile);
        let names = [
            (15, 0x50, "[irq SysTick]"),
            (11, 0, "[irq SVCall]"),
            (16, 0x45, "[irq UART0]"),
            (17, 0x48, "[irq timer]"),
            (18, 0x4c, "[irq DMA]"),
            (20, 0x50, "[irq 4]"),
            (20, 0x900, "[irq 4]"),
            (21, 0x55, "[irq 5]"),
            (22, 0x54, "[irq 6]"),
            (13, 0x900, "[exception 13]"),
        ];
        for (number, handler, name) in names {
            assert_eq!(exceptions.name(number, handler), name, "{number} {handler:#x}");
        }
    }

    #[test]
    fn traps_and_interrupts_of_riscv_are_told_apart() {
        let profile = empty().on_virt().function("trap_handler", 0x40, 4);
        let exceptions = Exceptions::new(&profile);
        let names = [
            (TIMER, "[irq timer]"),
            (1 << 63 | 3, "[irq software]"),
            (1 << 63 | 9, "[irq supervisor external]"),
            (1 << 63 | 16, "[irq 16]"),
            (7, "[trap store access fault]"),
            (2, "[trap illegal instruction]"),
            (11, "[trap ecall]"),
            (13, "[trap load page fault]"),
            (24, "[trap 24]"),
        ];
        for (number, name) in names {
            assert_eq!(exceptions.name(number, 0x40), name, "{number:#x}");
        }
    }

    #[test]
    fn exact_counts_are_divided_over_the_callers_as_the_samples_are() {
        let profile = empty()
            .function("one", 0x40, 0x10)
            .function("other", 0x50, 0x10)
            .function("crc", 0x60, 0x10)
            .function("rare", 0x70, 0x10)
            .insn(0x60, 1000)
            .insn(0x62, 7)
            .insn(0x70, 5)
            .frames(0x62, &["crc", "rotate"])
            .caller(0, 0x44)
            .caller(0, 0x54)
            .taken(2, 0x60, 1, 0)
            .taken(1, 0x60, 2, 0);
        let expected = [
            ("[not sampled];rare", 5),
            // Not sampled, but what it is inlined into is; 4 2/3 and 2 1/3.
            ("one;crc", 667),
            ("one;crc;rotate+", 5),
            ("other;crc", 333),
            ("other;crc;rotate+", 2),
        ];
        let mut insns = insns(&profile);
        insns.sort();
        assert_eq!(insns, expected.map(|(stack, insns)| (stack.to_owned(), insns)));
    }

    #[test]
    fn functions_of_one_name_do_not_lend_each_other_their_callers() {
        let profile = empty()
            .function("one", 0x40, 0x10)
            .function("other", 0x50, 0x10)
            .function("init", 0x60, 0x10)
            .function("init", 0x70, 0x10)
            .insn(0x60, 1000)
            .insn(0x70, 10)
            .caller(0, 0x44)
            .caller(0, 0x54)
            .taken(1, 0x60, 1, 0)
            .taken(1, 0x70, 2, 0);
        assert_eq!(insns(&profile), [("one;init".to_owned(), 1000), ("other;init".to_owned(), 10)]);
    }

    #[test]
    fn without_stacks_functions_are_roots() {
        let profile = empty().function("main", 0x40, 4).insn(0x40, 30).task_called("main").taken(3, 0x40, 0, 1);
        assert_eq!(insns(&profile), [("main".to_owned(), 30)]);
    }

    /// `main` calls `crc`, where an interrupt is taken.
    fn followed() -> Profile {
        empty()
            .function("main", 0x40, 0x10)
            .function("crc", 0x50, 0x10)
            .function("UART0_Handler", 0x60, 0x10)
            .insn(0x40, 10)
            .insn(0x50, 75)
            .insn(0x52, 25)
            .insn(0x60, 6)
            .frames(0x52, &["crc", "rotate"])
            .task_called("blink")
            .node(0, NodeKind::Root { task: 1 }, 0)
            .node(1, NodeKind::Function { entry: 0x40 }, 10)
            .node(2, NodeKind::Function { entry: 0x50 }, 90)
            .node(3, NodeKind::Exception { number: 20 }, 1)
            .node(4, NodeKind::Function { entry: 0x60 }, 6)
            .node(1, NodeKind::Function { entry: 0x50 }, 10)
    }

    #[test]
    fn the_exact_tree_is_taken_where_there_is_one() {
        // Samples that say something else.
        let mut profile = followed().caller(0, 0x64).taken(5, 0x50, 1, 0);
        let expected = [
            ("task blink;crc", 8),
            ("task blink;crc;rotate+", 2),
            ("task blink;main", 10),
            ("task blink;main;crc", 68),
            ("task blink;main;crc;[irq UART0];UART0_Handler", 6),
            ("task blink;main;crc;[irq UART0];[no function]", 1),
            ("task blink;main;crc;rotate+", 22),
        ];
        let mut stacks = insns(&profile);
        stacks.sort();
        assert_eq!(stacks, expected.map(|(stack, insns)| (stack.to_owned(), insns)));
        profile.samples[0].node = 3;
        let stacks = Stacks::new(&profile, View::default());
        assert_eq!(line(&stacks.of(&profile.samples[0])), "task blink;main;crc");
        let folded = Stacks::new(&profile, View { fold_irqs: true });
        assert_eq!(line(&folded.path(5)), "[irq UART0];UART0_Handler");
    }

    #[test]
    fn stacks_that_end_early_say_why_and_are_counted() {
        let profile = Unknown::ALL.into_iter().fold(empty(), |profile, why| profile.unknown(why)).caller(2, 0x44);
        let profile = profile.taken(2, 0x40, 1, 0).taken(1, 0x40, 5, 0).taken(4, 0x40, 0, 0);
        assert_eq!(callers(&profile, View::default(), 0, 4), "[deeper than --max-depth]");
        assert!(callers(&profile, View::default(), 0, 5).starts_with("[caller not kept];"));
        assert_eq!(unknown(&profile), [(Unknown::NoUnwindInfo, 2), (Unknown::NotKept, 1)].into());
    }

    #[test]
    fn samples_belong_to_the_innermost_interrupt() {
        let profile = interrupted().taken(3, 0x64, 2, 1).taken(2, 0x84, 4, 1).taken(5, 0x54, 1, 1);
        assert_eq!(interrupts(&profile), [("[irq SysTick]".into(), 3), ("[irq UART0]".into(), 2)].into());
    }

    #[test]
    fn damaged_stacks_never_panic() {
        let profile = empty().caller(0, 0).caller(9, 1).exception(1, u64::MAX, u64::MAX, u64::MAX);
        let profile = profile.taken(1, u64::MAX, 3, 99).taken(1, 0, 99, 0).insn(0, 1).insn(u64::MAX, 1);
        assert_eq!(insns(&profile).iter().map(|(_, insns)| insns).sum::<u64>(), 2);
    }

    #[test]
    fn shares_add_up_and_follow_the_weights() {
        assert_eq!(divide(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(divide(7, &[5, 2]), [5, 2]);
        assert_eq!(divide(3, &[1, 1000]), [0, 3]);
        assert_eq!(
            divide(u64::MAX, &[u64::MAX, 1, u64::MAX]).iter().map(|&n| u128::from(n)).sum::<u128>(),
            u64::MAX.into()
        );
    }
}
