// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: instructions count for the task whose poll is the innermost one that is under way. Random traces of
//! polls, turns of their loops, tail calls, returns, longjmps and exceptions are compared with a shadow stack of each
//! context.

use std::collections::BTreeMap;

use engine::follow::context::Core;
use engine::follow::poll::Polls;
use engine::guest::Guest;
use engine::ledger::Ledger;
use proptest::prelude::*;
use wire::counters::CLOCK;
use wire::definition::{Definition, TaskCounter};
use wire::request::{Isa, Measure, Poll};

use crate::fake::{Books, Fake, config, guest, ledger, request};
use crate::shadow::{FUNCTIONS, Frame, STEP_INSNS, Stack, entry, exception};

/// A task: its function and its argument, a pointer.
type Task = (u32, u64);

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The innermost function polls a task.
    Poll { task: Task },
    /// The innermost function jumps to another task's function, which then returns in its place.
    TailCall { task: Task },
    /// The innermost function jumps to its own start.
    Loop,
    /// The innermost function returns.
    Return,
    /// The innermost function calls something else, which returns.
    Pass,
    /// The innermost function leaves some of its callers' frames at once.
    Longjmp { frames: usize },
    /// An exception comes.
    Enter,
    /// The exception's handler returns, even from within nested calls.
    Leave,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let task = || (0..FUNCTIONS, 0..2u64);
    let step = prop_oneof![
        10 => task().prop_map(|task| Step::Poll { task }),
        2 => task().prop_map(|task| Step::TailCall { task }),
        2 => Just(Step::Loop),
        9 => Just(Step::Return),
        2 => Just(Step::Pass),
        1 => (1..4usize).prop_map(|frames| Step::Longjmp { frames }),
        2 => Just(Step::Enter),
        2 => Just(Step::Leave),
    ];
    prop::collection::vec(step, 1..200)
}

/// The thread, or an exception above it.
struct Context {
    stack: Stack,
    /// Argument of each frame's task.
    arguments: Vec<u64>,
    /// Innermost frame at the last poll or return, with its task. If a longjmp leaves the frame, that is noticed at
    /// the next poll or return.
    seen: Option<(Task, u64, u64)>,
}

impl Context {
    fn new(base_sp: u64, root: u64) -> Context {
        Context { stack: Stack::new(base_sp, root), arguments: Vec::new(), seen: None }
    }

    /// Handles the beginning or return of a poll. False: the frame that was seen before is still there.
    fn look(&mut self) -> bool {
        let innermost = self.stack.frames.last().zip(self.arguments.last());
        let seen = innermost.map(|(frame, &argument)| ((frame.functions[0], argument), frame.sp, frame.return_addr));
        std::mem::replace(&mut self.seen, seen) != seen
    }
}

struct Trace {
    guest: Guest<Fake>,
    ledger: Ledger<Books>,
    polls: Polls,
    core: Core,
    /// Context of the thread, and contexts of the exceptions above it.
    contexts: Vec<Context>,
    /// The task that runs since the last poll or return.
    running: Option<Task>,
    expected: BTreeMap<Task, Counts>,
}

/// Polls of a task, and its instructions.
type Counts = (u64, u64);

impl Trace {
    fn new() -> Trace {
        let polls = (0..FUNCTIONS).map(|function| Poll { entry: entry(function), name: function.to_string() });
        let measure = Measure { polls: polls.collect(), ..Measure::default() };
        let request = request(Isa::Riscv32, None, measure);
        let mut fake = Fake::default();
        ["sp", "ra", "fp", "t0", "a0", "a1"].into_iter().for_each(|name| fake.set(name, 0));
        Trace {
            guest: guest(&request, fake),
            ledger: ledger(1),
            polls: Polls::new(&request, 1).unwrap(),
            core: Core::new(0, false),
            contexts: vec![Context::new(0x2000_0000, 0x8000)],
            running: None,
            expected: BTreeMap::new(),
        }
    }

    fn context(&mut self) -> &mut Context {
        self.contexts.last_mut().unwrap()
    }

    /// The innermost poll of the contexts that are not over goes on.
    fn go_on(&mut self) {
        self.running = self.contexts.iter().rev().find_map(|context| context.seen).map(|(task, ..)| task);
    }

    /// Begins a poll in the innermost frame.
    fn begin(&mut self) {
        let Context { stack, arguments, .. } = self.context();
        let (Some(frame), Some(&argument)) = (stack.frames.last(), arguments.last()) else { return };
        let Frame { functions, sp, return_addr } = frame.clone();
        let fake = self.guest.registers().unwrap();
        fake.set("sp", sp);
        fake.set("ra", return_addr);
        fake.set("a0", argument);
        self.polls.begin(&mut self.core, None, entry(functions[0]), &mut self.guest, &mut self.ledger);
        if self.context().look() {
            self.expected.entry((functions[0], argument)).or_default().0 += 1;
        }
        self.go_on();
    }

    fn step(&mut self, step: Step) {
        self.ledger.add(CLOCK, 0, STEP_INSNS);
        if let Some(running) = self.running {
            self.expected.entry(running).or_default().1 += STEP_INSNS;
        }
        match step {
            Step::Poll { task: (function, argument) } => {
                let Context { stack, arguments, .. } = self.context();
                let (sp, from) = stack.here();
                let return_addr = from + 0x10 + 4 * u64::from(function);
                stack.frames.push(Frame { functions: vec![function], sp, return_addr });
                arguments.push(argument);
                self.begin();
            }
            Step::TailCall { task: (function, argument) } => {
                let Context { stack, arguments, .. } = self.context();
                if let (Some(frame), Some(last)) = (stack.frames.last_mut(), arguments.last_mut()) {
                    (frame.functions[0], *last) = (function, argument);
                    self.begin();
                }
            }
            Step::Loop => self.begin(),
            Step::Return => {
                let Context { stack, arguments, .. } = self.context();
                arguments.pop();
                if let Some(Frame { sp, return_addr, .. }) = stack.frames.pop() {
                    self.guest.registers().unwrap().set("sp", sp);
                    let awaited = self.polls.awaited_at(return_addr, &mut self.ledger);
                    // The condition that generated code checks.
                    if self.ledger.get(awaited, 0) >= 1 {
                        self.polls.end(&mut self.core, None, return_addr, &mut self.guest, &mut self.ledger);
                    }
                    self.context().look();
                    self.go_on();
                }
            }
            Step::Pass => {
                let frame = self.context().stack.frames.last();
                if let Some(Frame { sp, return_addr, .. }) = frame.cloned() {
                    self.guest.registers().unwrap().set("sp", sp - 0x1000);
                    self.polls.end(&mut self.core, None, return_addr, &mut self.guest, &mut self.ledger);
                    self.go_on();
                }
            }
            Step::Longjmp { frames } => {
                let Context { stack, arguments, .. } = self.context();
                let keep = stack.frames.len().saturating_sub(frames);
                stack.frames.truncate(keep);
                arguments.truncate(keep);
            }
            Step::Enter if self.contexts.len() < 4 => {
                let number = 15 + self.contexts.len() as u64;
                let entry_sp = self.context().stack.here().0 - 64;
                self.contexts.push(Context::new(entry_sp, 0x9000 + 0x100 * number));
                self.core.exceptions.push(exception(number, entry_sp, self.ledger.insns(0)));
            }
            Step::Leave if self.contexts.len() > 1 => {
                self.contexts.pop();
                self.core.exceptions.pop();
            }
            Step::Enter | Step::Leave => {}
        }
    }

    /// Each task's counts so far, by its number.
    fn counted(&self) -> Vec<(Task, Counts)> {
        let defined = self.ledger.records().definitions();
        let tasks = defined.into_iter().filter_map(|definition| match definition {
            Definition::Task { slot, tcb, poll, .. } => {
                let function = (0..FUNCTIONS).find(|&function| entry(function) == poll).unwrap();
                let count = |counter: TaskCounter| self.ledger.get(slot + counter as u32, 0);
                Some(((function, tcb), (count(TaskCounter::Switches), count(TaskCounter::Insns))))
            }
            _ => None,
        });
        tasks.collect()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn instructions_count_for_the_task_that_is_polled(steps in steps()) {
        let mut trace = Trace::new();
        for (index, &step) in steps.iter().enumerate() {
            trace.step(step);
            let counted = trace.counted();
            let running = trace.running.map(|running| 1 + counted.iter().position(|&(task, _)| task == running).unwrap());
            prop_assert_eq!(trace.core.task as usize, running.unwrap_or(0), "step {}", index);
        }
        for (task, (polls, insns)) in trace.counted() {
            let (expected_polls, expected_insns) = trace.expected.get(&task).copied().unwrap_or_default();
            prop_assert_eq!(polls, expected_polls, "polls of {:?}", task);
            // The task that is polled when the trace ends has not been counted up to the end.
            if Some(task) != trace.running {
                prop_assert_eq!(insns, expected_insns, "instructions of {:?}", task);
            }
        }
    }
}
