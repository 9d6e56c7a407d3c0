// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stacks of the firmware: each task's, and the main stack with its exceptions.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use wire::definition::{FrameKind, NodeKind};

use super::function::vectors;
use super::program::{Program, Ways};
use super::{Bound, Certainty, Rules, Step};
use crate::analysis::stacks;
use crate::image::Image;
use crate::profile::{Node, Profile, Task};
use crate::text::number::group;

/// Bytes that a Cortex-M pushes at an exception: 8 words, or 26 with floating-point registers (Armv7-M Architecture
/// Reference Manual, B1.5.6 and B1.5.7).
const FRAME_BYTES: u64 = 8 * 4;
const FPU_FRAME_BYTES: u64 = 26 * 4;

/// Alignment of that frame: the processor leaves a word empty above it where the stack pointer is not aligned.
const FRAME_ALIGNMENT: u64 = 8;

/// Bytes of that word.
const PADDING_BYTES: u64 = 4;

/// Bytes that a kernel's context switch saves on the task's stack on a Cortex-M, at most, if its code does not show it:
/// r4 to r11, the exception's return value, CONTROL and PSPLIM, and s16 to s31.
const SAVED_BYTES: u64 = 11 * 4;
const FPU_SAVED_BYTES: u64 = SAVED_BYTES + 16 * 4;

/// Bytes above a task's first function, if no exact run has shown them: an alignment of 16 bytes, with a word that marks
/// the end.
const KERNEL_BYTES: u64 = 16;

/// Name of the part of a bound that exceptions take.
const EXCEPTIONS: &str = "[exceptions]";

/// A stack with its bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name: `main`, or the task's.
    pub name: String,
    /// Whether it is a task's.
    pub is_task: bool,
    /// Bound, with exceptions.
    pub bound: Bound,
    /// Bound without the calls of functions that never return, as far as no run has made them.
    pub returning: Bound,
    /// Part of the bound that exceptions take.
    pub exceptions_bytes: u64,
    /// Size of the stack; None: unknown.
    pub has_bytes: Option<u64>,
    /// Bytes that the linker script reserves for it, of which it may use more; None: it does not say so.
    pub reserved_bytes: Option<u64>,
    /// Bytes that the runs used at most; None: unknown.
    pub seen_bytes: Option<u64>,
}

/// Finds the stacks: the main stack, and those of the tasks that the profiles have.
pub fn rows(program: &Program, image: &Image, profiles: &[Profile], rules: &Rules) -> Vec<Row> {
    let levels = levels(profiles);
    let both = [Ways::All, Ways::Returning].map(|ways| Exceptions::find(program, image, (rules, &levels), ways));
    let mut rows: Vec<Row> = main(program, image, profiles, &both).into_iter().collect();
    let mut tasks: BTreeMap<String, Row> = BTreeMap::new();
    for profile in profiles {
        for (number, (task, name)) in (1..).zip(profile.tasks.iter().zip(stacks::task_names(profile))) {
            if task.poll.is_some() {
                continue;
            }
            let row = of_task(program, profile, (number, task, &name), rules, &both);
            tasks.entry(name).and_modify(|known| known.join(&row)).or_insert(row);
        }
    }
    rows.extend(tasks.into_values());
    rows.into_iter().map(Row::with_seen).collect()
}

impl Row {
    /// Name of the stack in a sentence: `the main stack`, `the stack of task net`.
    pub fn title(&self) -> String {
        if self.is_task { format!("the stack of task {}", self.name) } else { "the main stack".to_owned() }
    }

    /// Error of harness, if a run went deeper than the bound: the stack, both numbers, and what to do. None: no run did.
    pub fn contradiction(&self, rules: &Rules) -> Option<String> {
        let seen = self.seen_bytes.filter(|_| self.is_contradicted())?;
        let deepest = self
            .bound
            .path
            .iter()
            .rfind(|step| step.function != EXCEPTIONS)
            .map(|step| format!(", with {} as the deepest", step.function));
        let stated = if *rules == Rules::default() {
            String::new()
        } else {
            "unless a statement in [stack] is wrong, ".to_owned()
        };
        Some(format!(
            "{} was seen at {} bytes, and its bound is {} bytes{}: {stated}this is an error of harness, so do not rely on \
             the bound; please report it, with the ELF file",
            self.title(),
            group(seen),
            group(self.bound.bytes),
            deepest.unwrap_or_default()
        ))
    }

    /// Whether a run went deeper than the bound, which is then wrong.
    pub fn is_contradicted(&self) -> bool {
        let is_bound = self.bound.certainty != Certainty::Unbounded;
        is_bound && self.seen_bytes.is_some_and(|seen| seen > self.bound.bytes)
    }

    /// The row, with no number below what was seen where nothing bounds the stack.
    fn with_seen(self) -> Row {
        let returning = self.returning.at_least(self.seen_bytes);
        // All ways include those that return, although two known parts of what has no bound may say otherwise.
        let bound = self.bound.at_least(self.seen_bytes).at_least(Some(returning.bytes));
        Row { bound, returning, ..self }
    }

    /// Adds another run's knowledge of the same stack.
    fn join(&mut self, other: &Row) {
        self.seen_bytes = self.seen_bytes.max(other.seen_bytes);
        self.has_bytes = self.has_bytes.max(other.has_bytes);
        self.bound.join(&other.bound);
        self.returning.join(&other.returning);
    }
}

impl Bound {
    /// Takes the larger one of two bounds of the same stack, with the worse certainty.
    fn join(&mut self, other: &Bound) {
        if other.bytes > self.bytes {
            (self.bytes, self.path) = (other.bytes, other.path.clone());
        }
        self.certainty = self.certainty.max(other.certainty);
        self.add_reasons(&other.reasons);
    }

    /// Takes another number for the known part if it is larger, where nothing bounds the stack.
    fn at_least(mut self, known_bytes: Option<u64>) -> Bound {
        if self.certainty == Certainty::Unbounded {
            self.bytes = self.bytes.max(known_bytes.unwrap_or(0));
        }
        self
    }

    /// Bytes of exceptions, which are the last part of a stack's bound.
    fn exceptions_bytes(&self) -> u64 {
        self.path.last().filter(|step| step.function == EXCEPTIONS).map_or(0, |step| step.bytes)
    }

    /// Adds a part that no function of the path takes.
    fn add(&mut self, name: &str, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        if bytes > 0 {
            self.path.push(Step { function: name.to_owned(), bytes });
        }
    }
}

/// Priorities with which the runs have seen exceptions start, by number.
fn levels(profiles: &[Profile]) -> BTreeMap<u64, BTreeSet<u64>> {
    let mut levels: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for &(number, level) in profiles.iter().flat_map(|profile| &profile.facts.exception_levels) {
        levels.entry(number).or_default().insert(level);
    }
    levels
}

/// Handlers that do not interrupt each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// Handlers of a stated priority.
    Stated(u32),
    /// Handlers that started with a group priority in the runs.
    Seen(u64),
    /// Handler of one vector: nothing is known of its priority.
    Own(u64),
}

/// Most bytes that handlers take which may all nest, by the most that each handler's own code takes: each frame is
/// aligned, whether or not the handler below has left the stack pointer so. The word that the first frame may need is
/// not included: see [`Exceptions::padding`].
fn nested(frame_bytes: u64, handlers: &[u64]) -> u64 {
    let aligned = |bytes: u64| bytes.checked_next_multiple_of(FRAME_ALIGNMENT).unwrap_or(u64::MAX);
    let sum = handlers.iter().fold(0, |sum: u64, &own| sum.saturating_add(frame_bytes).saturating_add(aligned(own)));
    // Nothing follows the last one, whichever it is.
    sum.saturating_sub(handlers.iter().map(|&own| aligned(own) - own).min().unwrap_or(0))
}

/// Exceptions on top of a stack.
struct Exceptions {
    ways: Ways,
    /// Bytes on the main stack when all exceptions that may nest do, above an aligned stack pointer.
    nested_bytes: u64,
    /// Bytes on a task's stack: the interrupted registers, and what a switch saves, above an aligned stack pointer.
    on_task_bytes: u64,
    /// Whether a frame starts with an empty word where the stack pointer is not aligned.
    is_padded: bool,
    certainty: Certainty,
    reasons: Vec<String>,
}

impl Exceptions {
    fn find(
        program: &Program,
        image: &Image,
        (rules, levels): (&Rules, &BTreeMap<u64, BTreeSet<u64>>),
        ways: Ways,
    ) -> Exceptions {
        if program.isa.is_riscv() {
            Exceptions::riscv(program, ways)
        } else {
            Exceptions::arm(program, image, (rules, levels), ways)
        }
    }

    /// Exceptions of a Cortex-M: handlers run on the main stack, and each may interrupt those of lower priority.
    fn arm(
        program: &Program,
        image: &Image,
        (rules, seen): (&Rules, &BTreeMap<u64, BTreeSet<u64>>),
        ways: Ways,
    ) -> Exceptions {
        let frame_bytes = if program.has_fpu { FPU_FRAME_BYTES } else { FRAME_BYTES };
        let mut vectors_of: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        for (number, (_, handler)) in (0..).zip(vectors(image)).skip(2) {
            if let Some(handler) = program.at(handler & !1) {
                vectors_of.entry(handler).or_default().insert(number);
            }
        }
        let (mut bound, mut all) = (Bound::nothing(), Vec::new());
        // Handlers of one priority do not interrupt each other: the largest counts.
        let mut by_level: BTreeMap<Level, u64> = BTreeMap::new();
        for (handler, numbers) in vectors_of {
            let function = &program.functions[handler];
            let is_last = function.frame.never_returns && !program.ran.contains(&handler);
            if is_last && ways == Ways::Returning || program.ends.contains(&handler) {
                continue;
            }
            let own = program.bound(handler, ways);
            let stated = function.names().into_iter().find_map(|name| rules.priorities.get(name));
            let seen: BTreeSet<u64> =
                numbers.iter().filter_map(|number| seen.get(number)).flatten().copied().collect();
            let levels: Vec<Level> = match stated {
                Some(&priority) => vec![Level::Stated(priority)],
                None if !seen.is_empty() => seen.into_iter().map(Level::Seen).collect(),
                // A handler that never returns is entered once. Others may interrupt themselves by another vector.
                None => numbers.iter().take(if is_last { 1 } else { usize::MAX }).copied().map(Level::Own).collect(),
            };
            let alone = if stated.is_some() || is_last { 1 } else { numbers.len() };
            all.extend(iter::repeat_n(own.bytes, alone));
            for level in levels {
                let most = by_level.entry(level).or_default();
                *most = (*most).max(own.bytes);
            }
            bound.certainty = bound.certainty.max(own.certainty);
            bound.add_reasons(&own.reasons);
        }
        let is_seen = by_level.keys().any(|level| matches!(level, Level::Seen(_)));
        let by_level: Vec<u64> = by_level.into_values().collect();
        let nested_bytes = nested(frame_bytes, &by_level);
        if is_seen && nested_bytes < nested(frame_bytes, &all) {
            bound.certainty = bound.certainty.max(Certainty::Estimated);
            let why = "exceptions have the priorities that runs had; state them: priorities = { \"HANDLER\" = N }";
            bound.add_reasons(&[why.to_owned()]);
        }
        Exceptions {
            ways,
            nested_bytes,
            on_task_bytes: frame_bytes + saved_bytes(program),
            is_padded: true,
            certainty: bound.certainty,
            reasons: bound.reasons,
        }
    }

    /// Traps of RISC-V: the handler starts on the stack that it interrupts, and masks further interrupts.
    fn riscv(program: &Program, ways: Ways) -> Exceptions {
        let (mut all, mut here) = (Bound::nothing(), 0);
        let handlers = program.functions.iter().enumerate().filter(|(_, function)| function.frame.returns_from_trap);
        for (index, _) in handlers {
            all.join(&program.bound(index, ways));
            here = program.bound_here(index, ways).bytes.max(here);
        }
        let Bound { bytes, certainty, reasons, .. } = all;
        Exceptions { ways, nested_bytes: bytes, on_task_bytes: here, is_padded: false, certainty, reasons }
    }

    /// Bytes of the word above the first frame, on a stack that has taken some. Where the stack's end is aligned, the
    /// deepest place shows whether it needs one: a higher place ends at least that word higher.
    fn padding(&self, taken_bytes: u64, is_end_aligned: bool) -> u64 {
        if !self.is_padded || is_end_aligned && taken_bytes.is_multiple_of(FRAME_ALIGNMENT) {
            0
        } else {
            PADDING_BYTES
        }
    }

    /// Adds the exceptions to a bound: their bytes, and for the stack on which handlers run their certainty.
    fn add(&self, mut bound: Bound, bytes: u64, is_end_aligned: bool, runs_handlers: bool) -> Bound {
        let padding = if bytes > 0 { self.padding(bound.bytes, is_end_aligned) } else { 0 };
        bound.add(EXCEPTIONS, bytes.saturating_add(padding));
        if runs_handlers {
            bound.certainty = bound.certainty.max(self.certainty);
            bound.add_reasons(&self.reasons);
        }
        bound
    }
}

/// Bytes that a switch of tasks saves on the task's stack, on a Cortex-M: what functions that read the process stack
/// pointer store below a register, with the functions that they call. Without such a function, a number that is enough.
fn saved_bytes(program: &Program) -> u64 {
    let saved = program.functions.iter().filter(|function| function.frame.reads_process_stack).map(|function| {
        let frame = &function.frame;
        let callees = frame.transfers.iter().filter_map(|transfer| program.at(transfer.target?));
        let callee = callees.map(|callee| program.functions[callee].frame.stores_below_bytes).max().unwrap_or(0);
        frame.stores_below_bytes.saturating_add(frame.subtracts_bytes).saturating_add(callee)
    });
    saved.max().unwrap_or(if program.has_fpu { FPU_SAVED_BYTES } else { SAVED_BYTES })
}

/// The main stack: from the first instruction on, with all exceptions that may nest.
fn main(program: &Program, image: &Image, profiles: &[Profile], both: &[Exceptions; 2]) -> Option<Row> {
    let start = program.at(image.reset_pc()?)?;
    let is_aligned = has_known_ends(program) && ends(program, image).all(|end| end.is_multiple_of(FRAME_ALIGNMENT));
    let [bound, returning] =
        both.each_ref().map(|own| own.add(program.bound(start, own.ways), own.nested_bytes, is_aligned, true));
    let used = profiles.iter().filter_map(|profile| main_end(program, image, profile));
    let (seen, end): (Vec<u64>, Vec<u64>) = used.unzip();
    let exceptions_bytes = bound.exceptions_bytes();
    // Without a run, the only place to which code sets the stack pointer. A kernel's code that sets it anew does not matter
    // on a Cortex-M, whose main stack begins where the vector table says.
    let all: BTreeSet<u64> = ends(program, image).collect();
    let only = all.first().copied().filter(|_| all.len() == 1 && has_known_ends(program));
    let initial = image.initial_sp().map(|sp| sp & !3);
    let end = end.first().copied().or(initial).or(only);
    // An array that ends there is the stack.
    let array = program.variables.iter().find(|variable| end == Some(variable.end));
    let array_bytes = array.map(|array| array.end - array.start);
    let variables = || program.variables.iter().map(|variable| variable.end);
    Some(Row {
        name: "main".to_owned(),
        is_task: false,
        bound,
        returning,
        exceptions_bytes,
        has_bytes: array_bytes.or_else(|| program.linker.room(end?, variables())),
        reserved_bytes: program.linker.reserved(),
        seen_bytes: seen.into_iter().max(),
    })
}

/// Ends of the main stack that the image shows: a Cortex-M's initial stack pointer, constants to which code sets it.
fn ends(program: &Program, image: &Image) -> impl Iterator<Item = u64> {
    let initial = image.initial_sp().map(|sp| sp & !3);
    program.functions.iter().flat_map(|function| function.frame.tops.iter().copied()).chain(initial)
}

/// Whether these are all of its ends: no code sets the stack pointer to a place that only a run knows.
fn has_known_ends(program: &Program) -> bool {
    program.functions.iter().all(|function| !function.frame.switches_stack)
}

/// Most bytes of the main stack that a run has used, and its end. The end is the nearest one above the lowest stack
/// pointer: a Cortex-M's initial value, or a constant to which code sets the stack pointer. None: code sets the stack
/// pointer to places that only a run knows, or variables lie between.
fn main_end(program: &Program, image: &Image, profile: &Profile) -> Option<(u64, u64)> {
    let lowest = profile.facts.main_stack_lowest?.wrapping_sub(profile.facts.load_bias);
    // On a Cortex-M tasks have a stack pointer of their own. On RISC-V a kernel's handlers may use the main stack, and the run
    // does not tell them from the task.
    if !has_known_ends(program) || program.isa.is_riscv() && !profile.tasks.is_empty() {
        return None;
    }
    let end = ends(program, image).filter(|&end| end >= lowest).min()?;
    let is_between = program.variables.iter().any(|variable| {
        let is_around = variable.start <= lowest && variable.end >= end;
        variable.start < end && variable.end > lowest && !is_around
    });
    (!is_between).then_some((end - lowest, end))
}

/// A task's stack: from its first function on, with one exception, whose handler runs elsewhere on a Cortex-M.
fn of_task(
    program: &Program,
    profile: &Profile,
    (number, task, name): (u32, &Task, &str),
    rules: &Rules,
    both: &[Exceptions; 2],
) -> Row {
    let begins = match rules.tasks.get(name) {
        Some(function) => program.named(function).into_iter().map(|entry| (entry, BTreeSet::new())).collect(),
        None => begins(program, profile, number),
    };
    let kernel = task.stack_end.zip(task.highest_sp).filter(|_| !profile.tree.is_empty());
    let kernel_bytes = kernel.map_or(KERNEL_BYTES, |(end, highest)| end.saturating_sub(highest));
    let is_aligned = task.stack_end.is_some_and(|end| end.is_multiple_of(FRAME_ALIGNMENT));
    let [bound, returning] = both.each_ref().map(|own| {
        let bounds = begins.iter().map(|(&entry, callees)| {
            // The kernel's own first function calls that of the task through a pointer.
            let start = program.functions[entry].frame.function.start;
            let is_kernels =
                profile.facts.task_begins.iter().any(|begin| begin.wrapping_sub(profile.facts.load_bias) == start);
            if is_kernels && program.is_indirect(entry) && !callees.is_empty() {
                program.bound_through(entry, callees, own.ways)
            } else {
                program.bound(entry, own.ways)
            }
        });
        let bound = bounds.reduce(|mut one, other| {
            one.join(&other);
            one
        });
        let mut bound = bound.unwrap_or_else(|| Bound {
            certainty: Certainty::Unbounded,
            reasons: vec![format!(
                "nothing shows where the task begins; state it: tasks = {{ {name:?} = \"FUNCTION\" }}"
            )],
            ..Bound::nothing()
        });
        bound.add("[kernel]", kernel_bytes);
        own.add(bound, own.on_task_bytes, is_aligned, program.isa.is_riscv())
    });
    let exceptions_bytes = bound.exceptions_bytes();
    Row {
        name: name.to_owned(),
        is_task: true,
        bound,
        returning,
        exceptions_bytes,
        has_bytes: task.stack_bytes(),
        reserved_bytes: None,
        seen_bytes: task.used_stack_bytes(),
    }
}

/// Functions in which a task was seen to begin, with the functions that they called there. A kernel that names the next task
/// before it leaves the stack of the one before shows that one's functions for the next task, too: the exact tree tells them
/// apart, since the next task has not called them.
fn begins(program: &Program, profile: &Profile, number: u32) -> BTreeMap<usize, BTreeSet<usize>> {
    let bias = profile.facts.load_bias;
    let at = |address: u64| program.at(address.wrapping_sub(bias));
    let mut begins: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    // Stacks are shared by many samples.
    let seen: BTreeSet<(u32, u64)> = profile
        .samples
        .iter()
        .filter(|sample| sample.task == number)
        .map(|sample| (sample.stack, sample.pc))
        .collect();
    for (stack, pc) in seen {
        let frames = profile.stack(stack);
        let functions: Vec<Option<usize>> = frames
            .iter()
            .map(|frame| match frame.kind {
                FrameKind::Caller { return_addr } => at(return_addr.wrapping_sub(1)),
                FrameKind::Exception { pc, .. } => at(pc),
                FrameKind::Unknown(_) => None,
            })
            .chain([at(pc)])
            .collect();
        let is_whole = frames.first().is_none_or(|frame| !matches!(frame.kind, FrameKind::Unknown(_)));
        if let Some(&Some(first)) = functions.first().filter(|_| is_whole) {
            begins.entry(first).or_default().extend(functions.get(1).copied().flatten());
        }
    }
    let mut told: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (index, node) in (1_u32..).zip(&profile.tree) {
        let parent = |number: u32| profile.tree.get(number.checked_sub(1)? as usize);
        let NodeKind::Function { entry } = node.kind else { continue };
        let Some(root) = parent(node.parent) else { continue };
        if root.kind == (NodeKind::Root { task: number }) {
            let Some(first) = at(entry) else { continue };
            let children = || profile.tree.iter().filter(|child| child.parent == index);
            let function = |child: &Node| match child.kind {
                NodeKind::Function { entry } => at(entry),
                _ => None,
            };
            let called: BTreeSet<usize> = children().filter(|child| child.calls > 0).filter_map(function).collect();
            if called.is_empty() || profile.facts.before_window_insns > 0 {
                // A task that was under way as the window opened had called functions before.
                begins.entry(first).or_default().extend(children().filter_map(function));
            } else {
                told.entry(first).or_default().extend(called);
            }
        }
    }
    begins.extend(told);
    begins
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lowest place that handlers reach in some order, by what the processor does at each exception.
    fn depth(taken_bytes: u64, handlers: &[u64]) -> u64 {
        handlers.iter().fold(taken_bytes, |depth, own| depth.next_multiple_of(FRAME_ALIGNMENT) + FRAME_BYTES + own)
    }

    #[test]
    fn nested_frames_have_a_word_of_padding_only_where_the_stack_pointer_needs_it() {
        let exceptions = Exceptions {
            ways: Ways::All,
            nested_bytes: 0,
            on_task_bytes: 0,
            is_padded: true,
            certainty: Certainty::Bounded,
            reasons: Vec::new(),
        };
        for taken in [0, 4, 8, 100, 104] {
            for handlers in [&[0][..], &[4], &[8, 8], &[4, 12], &[4, 8, 20]] {
                let all = nested(FRAME_BYTES, handlers) + exceptions.padding(taken, true) + taken;
                let orders = (0..handlers.len()).map(|last| {
                    let mut order = handlers.to_vec();
                    order.rotate_left(last);
                    order
                });
                let deepest = orders.map(|order| depth(taken, &order)).max();
                assert_eq!(Some(all), deepest, "{taken} {handlers:?}");
                // A place above the deepest one does not reach lower, nor does one that a stack's unknown end has.
                let unknown = nested(FRAME_BYTES, handlers) + exceptions.padding(taken, false) + taken;
                for end in [0, 4] {
                    assert!(depth(end + taken, handlers) - end <= unknown, "{taken} {handlers:?}");
                }
                assert!(taken < 4 || depth(taken - 4, handlers) <= all, "{taken} {handlers:?}");
            }
        }
        assert_eq!(nested(FRAME_BYTES, &[]), 0);
        assert_eq!(nested(FRAME_BYTES, &[u64::MAX, 8]), u64::MAX);
    }

    #[test]
    fn no_known_part_is_below_a_part_of_it() {
        let part = |bytes, certainty| Bound { bytes, certainty, ..Bound::nothing() };
        let row = |bound, returning| Row {
            name: "main".to_owned(),
            is_task: false,
            bound,
            returning,
            exceptions_bytes: 0,
            has_bytes: None,
            reserved_bytes: None,
            seen_bytes: Some(90),
        };
        let joined = row(part(40, Certainty::Unbounded), part(100, Certainty::Unbounded)).with_seen();
        assert_eq!((joined.bound.bytes, joined.returning.bytes), (100, 100));
        let bounded = row(part(40, Certainty::Unbounded), part(80, Certainty::Bounded)).with_seen();
        assert_eq!((bounded.bound.bytes, bounded.returning.bytes), (90, 80));
    }

    #[test]
    fn a_run_that_was_deeper_than_the_bound_is_an_error_of_harness() {
        let step = Step { function: "parse".to_owned(), bytes: 40 };
        let row = |bytes, certainty, seen_bytes| {
            let bound = Bound { bytes, certainty, path: vec![step.clone()], reasons: Vec::new() };
            let returning = bound.clone();
            let row = Row {
                name: "net".to_owned(),
                is_task: true,
                bound,
                returning,
                exceptions_bytes: 0,
                has_bytes: None,
                reserved_bytes: None,
                seen_bytes,
            };
            row.with_seen()
        };
        let none = Rules::default();
        for certainty in [Certainty::Bounded, Certainty::Estimated] {
            let said = row(1_040, certainty, Some(2_041)).contradiction(&none).unwrap();
            let parts =
                ["the stack of task net", "2,041 bytes", "1,040 bytes", "parse", "error of harness", "report it"];
            assert!(parts.iter().all(|part| said.contains(part)) && !said.contains("[stack]"), "{said}");
        }
        let stated = Rules { ends: vec!["abort".to_owned()], ..Rules::default() };
        let said = row(1_040, Certainty::Bounded, Some(2_041)).contradiction(&stated).unwrap();
        assert!(said.contains("unless a statement in [stack] is wrong"), "{said}");
        // As deep as the bound, deeper than a known part of a stack without a bound, and never seen.
        let known = [Some(1_040), None].map(|seen| row(1_040, Certainty::Bounded, seen));
        let rows = known.into_iter().chain([row(1_040, Certainty::Unbounded, Some(2_041))]);
        assert!(rows.into_iter().all(|row| row.contradiction(&none).is_none()));
    }
}
