//! Call stacks with names: from a sample or a place in the exact tree to the frames that people read.
//!
//! A stack is, from the outside in: the task (where there are tasks), the callers with what the compiler
//! inlined into them, interrupts on top of what they interrupted, and the function that executes.

use std::collections::BTreeMap;

use wire::definition::{FrameKind, NodeKind, Unknown};
use wire::sample::Sample;

use crate::functions::{BOOT_ROM, Place};
use crate::profile::{Profile, StackFrame};

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

/// The name of an exception: from the architecture, or from its handler for what each chip has of its own.
pub fn exception(profile: &Profile, number: u64, handler: u64) -> String {
    if profile.facts.isa.starts_with("riscv") {
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
    let handler = profile.names.function_at(handler).map(|function| function.name.as_str());
    let bare = handler.map(|name| {
        ["_IRQHandler", "IRQHandler", "_Handler", "_handler", "_ISR", "_isr"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name)
    });
    match bare.filter(|name| !name.is_empty() && !name.to_ascii_lowercase().contains("default")) {
        Some(name) => format!("[irq {name}]"),
        None => format!("[irq {}]", number.saturating_sub(16)),
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
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let names = profile.tasks.iter().map(|task| {
        let name = if task.name.is_empty() { format!("{:#x}", task.tcb) } else { task.name.clone() };
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 { name } else { format!("{name} ({count})") }
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
}

impl<'a> Stacks<'a> {
    /// Of this profile, in this view.
    pub fn new(profile: &'a Profile, view: View) -> Stacks<'a> {
        Stacks { profile, view, tasks: task_names(profile) }
    }

    /// Everything around the function that executes.
    pub fn callers(&self, task: u32, stack: u32) -> Vec<Frame> {
        let mut frames = self.task(task);
        for &&StackFrame { kind, .. } in &self.profile.stack(stack) {
            match kind {
                FrameKind::Caller { return_addr } => frames.extend(at(self.profile, return_addr - 1)),
                FrameKind::Exception { number, handler, pc } => {
                    // A task that has not run yet has no code.
                    if pc != 0 {
                        frames.extend(at(self.profile, pc));
                    }
                    self.interrupt(&mut frames, exception(self.profile, number, handler));
                }
                FrameKind::Unknown(unknown) => frames.push(Frame::new(Kind::Other, why(unknown))),
            }
        }
        frames
    }

    /// A sample's whole stack.
    pub fn of(&self, sample: &Sample) -> Vec<Frame> {
        let mut frames = self.callers(sample.task, sample.stack);
        frames.extend(at(self.profile, sample.pc));
        frames
    }

    /// The path to a place in the exact tree.
    pub fn path(&self, node: u32) -> Vec<Frame> {
        let mut frames = Vec::new();
        let nodes = self.profile.path(node);
        for (index, node) in nodes.iter().enumerate() {
            match node.kind {
                NodeKind::Root { task } => frames = self.task(task),
                NodeKind::Function { entry } => frames.extend(at(self.profile, entry).into_iter().take(1)),
                NodeKind::Exception { number } => {
                    let handler = nodes.get(index + 1).and_then(|next| match next.kind {
                        NodeKind::Function { entry } => Some(entry),
                        _ => None,
                    });
                    self.interrupt(&mut frames, exception(self.profile, number, handler.unwrap_or(0)));
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
    fn leaves(&self) -> BTreeMap<Vec<Frame>, u64> {
        let mut leaves = BTreeMap::new();
        for (pc, insns) in self.profile.insns() {
            if insns > 0 {
                *leaves.entry(at(self.profile, pc)).or_default() += insns;
            }
        }
        leaves
    }

    fn by_samples(&self) -> BTreeMap<Vec<Frame>, u64> {
        let mut stacks = BTreeMap::new();
        if self.profile.facts.max_depth.is_none() {
            return self.leaves();
        }
        // Samples by callers, for each leaf and for each function.
        type Callers = BTreeMap<(u32, u32), u64>;
        let (mut of_leaf, mut of_function): (BTreeMap<_, Callers>, BTreeMap<_, Callers>) = Default::default();
        for sample in &self.profile.samples {
            let leaf = at(self.profile, sample.pc);
            let callers = (sample.task, sample.stack);
            *of_function.entry(leaf[0].clone()).or_default().entry(callers).or_default() += 1;
            *of_leaf.entry(leaf).or_default().entry(callers).or_default() += 1;
        }
        for (leaf, insns) in self.leaves() {
            let Some(callers) = of_leaf.get(&leaf).or_else(|| of_function.get(&leaf[0])) else {
                let mut stack = vec![Frame::new(Kind::Other, NOT_SAMPLED)];
                stack.extend(leaf);
                *stacks.entry(stack).or_default() += insns;
                continue;
            };
            let shares = divide(insns, &callers.values().copied().collect::<Vec<_>>());
            for (&(task, stack), insns) in callers.keys().zip(shares) {
                if insns > 0 {
                    let mut stack = self.callers(task, stack);
                    stack.extend(leaf.iter().cloned());
                    *stacks.entry(stack).or_default() += insns;
                }
            }
        }
        stacks
    }

    fn by_tree(&self) -> BTreeMap<Vec<Frame>, u64> {
        let mut leaves: BTreeMap<Frame, Vec<(Vec<Frame>, u64)>> = BTreeMap::new();
        for (leaf, insns) in self.leaves() {
            leaves.entry(leaf[0].clone()).or_default().push((leaf, insns));
        }
        let mut stacks = BTreeMap::new();
        for (number, node) in (1..).zip(&self.profile.tree) {
            if node.insns == 0 {
                continue;
            }
            let mut path = self.path(number);
            if !matches!(node.kind, NodeKind::Function { .. }) {
                let is_boot = number == 1 && leaves.contains_key(&Frame::new(Kind::Other, BOOT_ROM));
                path.push(Frame::new(Kind::Other, if is_boot { BOOT_ROM } else { NO_FUNCTION }));
                *stacks.entry(path).or_default() += node.insns;
                continue;
            }
            let Some(function) = path.pop() else { continue };
            let alone = [(vec![function.clone()], 1)];
            let leaves = leaves.get(&function).map_or(&alone[..], Vec::as_slice);
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
    for sample in &profile.samples {
        if let Some(StackFrame { kind: FrameKind::Unknown(why), .. }) = profile.stack(sample.stack).first() {
            *counts.entry(*why).or_default() += 1;
        }
    }
    counts
}

/// Samples by the innermost interrupt that they were taken in.
pub fn interrupts(profile: &Profile) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for sample in &profile.samples {
        let innermost = profile.stack(sample.stack).iter().rev().find_map(|frame| match frame.kind {
            FrameKind::Exception { number, handler, .. } => Some(exception(profile, number, handler)),
            _ => None,
        });
        if let Some(name) = innermost {
            *counts.entry(name).or_default() += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

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
