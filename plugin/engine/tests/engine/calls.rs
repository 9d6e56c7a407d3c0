// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the timeline reports calls and their returns correctly. Random traces of calls, tail calls, returns,
//! longjmps, task switches, exceptions and deleted tasks are compared with a shadow stack of each context.
//!
//! Some traces cannot be distinguished by stack pointer and return address, and are left out. So each call site calls
//! only one function, and no longjmp leaves a function that was entered by a tail call.

use std::collections::BTreeMap;

use engine::calls::Calls;
use engine::code::Code;
use engine::follow::context::Core;
use engine::guest::Guest;
use engine::ledger::Ledger;
use proptest::prelude::*;
use wire::counters::CLOCK;
use wire::request::{Isa, Measure};
use wire::stream::StreamFile;
use wire::timeline::{Decoder, Wanted, What};

use crate::fake::{Books, Fake, config, guest, kernel, ledger, request};
use crate::shadow::{FUNCTION_BYTES, FUNCTIONS, Frame, STEP_INSNS, Stack, entry, exception};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The innermost function calls another.
    Call { function: u32 },
    /// The innermost function jumps to another, which then returns in its place.
    TailCall { function: u32 },
    /// The innermost function returns.
    Return,
    /// The innermost function leaves this number of frames at once.
    Longjmp { frames: usize },
    /// The scheduler switches to a task.
    Switch { task: usize },
    /// An exception is taken.
    Enter,
    /// The exception's handler returns, even from within nested calls.
    Leave,
    /// A task is deleted, and a new one uses its stack.
    Delete { task: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => (0..FUNCTIONS).prop_map(|function| Step::Call { function }),
        2 => (0..FUNCTIONS).prop_map(|function| Step::TailCall { function }),
        9 => Just(Step::Return),
        1 => (1..4usize).prop_map(|frames| Step::Longjmp { frames }),
        2 => (0..3usize).prop_map(|task| Step::Switch { task }),
        1 => Just(Step::Enter),
        1 => Just(Step::Leave),
        1 => (0..3usize).prop_map(|task| Step::Delete { task }),
    ];
    prop::collection::vec(step, 1..200)
}

/// Expectation of a step: its calls and returns. Also, for each function, the number of its calls so far that were
/// left without a return; these may be reported by then.
#[derive(Clone, Debug, Default)]
struct Expected {
    happened: Vec<What>,
    left: BTreeMap<u32, usize>,
}

struct Trace {
    guest: Guest<Fake>,
    code: Code,
    ledger: Ledger<Books>,
    calls: Calls,
    core: Core,
    /// Stacks of the tasks, index of the running task, and the tasks' ids.
    tasks: Vec<Stack>,
    running: usize,
    ids: Vec<u32>,
    knows_tasks: bool,
    exceptions: Vec<Stack>,
    expected: Vec<Expected>,
    left: BTreeMap<u32, usize>,
}

impl Trace {
    fn new(knows_tasks: bool) -> Trace {
        let functions: Vec<u64> = (0..FUNCTIONS).map(entry).collect();
        let measure = Measure {
            functions: functions.iter().map(|&start| start..start + FUNCTION_BYTES).collect(),
            kernel: knows_tasks.then(|| kernel(0)),
            timeline: Some(Wanted { functions, waits: None }),
            ..Measure::default()
        };
        let request = request(Isa::Riscv32, None, measure);
        let mut fake = Fake::default();
        ["sp", "ra", "fp", "t0"].into_iter().for_each(|name| fake.set(name, 0));
        let mut ledger = ledger(1);
        ledger.open_timeline();
        let mut core = Core::new(0, false);
        core.task = knows_tasks.into();
        Trace {
            guest: guest(&request, fake),
            code: Code::new(&request),
            ledger,
            calls: Calls::new(&request).unwrap(),
            core,
            tasks: (0..3).map(|task| Stack::new(0x2000_0000 + 0x10_0000 * task, 0x8000 + 0x100 * task)).collect(),
            running: 0,
            ids: vec![1, 2, 3],
            knows_tasks,
            exceptions: Vec::new(),
            expected: Vec::new(),
            left: BTreeMap::new(),
        }
    }

    fn stack(&mut self) -> &mut Stack {
        let running = self.running;
        self.exceptions.last_mut().unwrap_or(&mut self.tasks[running])
    }

    fn set(&mut self, sp: u64, return_addr: u64) {
        let fake = self.guest.registers().unwrap();
        fake.set("sp", sp);
        fake.set("ra", return_addr);
    }

    fn leave_frames(&mut self, frames: &[Frame]) {
        for function in frames.iter().flat_map(|frame| &frame.functions) {
            *self.left.entry(*function).or_default() += 1;
        }
    }

    fn call(&mut self, function: u32, sp: u64, return_addr: u64) -> Vec<What> {
        self.set(sp, return_addr);
        let Trace { calls, core, guest, code, ledger, .. } = self;
        calls.enter(entry(function), core, guest, code, ledger);
        vec![What::Called { function }]
    }

    fn step(&mut self, step: Step) {
        self.ledger.add(CLOCK, 0, STEP_INSNS);
        let happened = match step {
            Step::Call { function } => {
                let (sp, from) = self.stack().here();
                let return_addr = from + 0x10 + 4 * u64::from(function);
                self.stack().frames.push(Frame { functions: vec![function], sp, return_addr });
                self.call(function, sp, return_addr)
            }
            Step::TailCall { function } => match self.stack().frames.last_mut() {
                // A jump to a function of the same frame is a loop, not a call.
                Some(frame) if !frame.functions.contains(&function) => {
                    frame.functions.push(function);
                    let (sp, return_addr) = (frame.sp, frame.return_addr);
                    self.call(function, sp, return_addr)
                }
                _ => Vec::new(),
            },
            Step::Return => match self.stack().frames.pop() {
                Some(Frame { functions, sp, return_addr }) => {
                    self.set(sp, 0);
                    let Trace { calls, core, guest, ledger, .. } = self;
                    let awaited = calls.awaited_at(return_addr, ledger);
                    // The condition that generated code checks.
                    if ledger.get(awaited, 0) >= 1 {
                        calls.leave(return_addr, core, guest, ledger);
                    }
                    functions.into_iter().rev().map(|function| What::Returned { function }).collect()
                }
                None => Vec::new(),
            },
            Step::Longjmp { frames } => {
                let stack = self.stack();
                let single = stack.frames.iter().rev().take(frames);
                let count = single.take_while(|frame| frame.functions.len() == 1).count();
                let keep = stack.frames.len() - count;
                let gone = stack.frames.split_off(keep);
                self.leave_frames(&gone);
                Vec::new()
            }
            Step::Switch { task } if self.exceptions.is_empty() => {
                self.running = task;
                self.core.task = if self.knows_tasks { self.ids[task] } else { 0 };
                Vec::new()
            }
            Step::Enter if self.exceptions.len() < 3 => {
                let number = 16 + self.exceptions.len() as u64;
                let (sp, _) = self.stack().here();
                self.exceptions.push(Stack::new(sp - 64, 0x9000 + 0x100 * number));
                self.core.exceptions.push(exception(number, sp - 64, self.ledger.insns(0)));
                Vec::new()
            }
            Step::Leave => {
                if let Some(stack) = self.exceptions.pop() {
                    self.core.exceptions.pop();
                    self.leave_frames(&stack.frames);
                }
                Vec::new()
            }
            Step::Delete { task } if self.knows_tasks && task != self.running => {
                let Stack { base_sp, root, .. } = self.tasks[task];
                self.tasks[task] = Stack::new(base_sp, root);
                self.ids[task] = self.ids.iter().max().unwrap() + 1;
                Vec::new()
            }
            Step::Switch { .. } | Step::Enter | Step::Delete { .. } => Vec::new(),
        };
        self.expected.push(Expected { happened, left: self.left.clone() });
    }

    /// Compares the timeline with the shadow stacks.
    fn check(self) -> Result<(), TestCaseError> {
        let mut told: BTreeMap<usize, Vec<What>> = BTreeMap::new();
        let mut said: BTreeMap<u32, usize> = BTreeMap::new();
        for event in Decoder::new(self.ledger.records().stream(StreamFile::Timeline)) {
            let event = event.unwrap();
            let step = (event.at_insns / STEP_INSNS) as usize - 1;
            if let What::Unwound { function } = event.what {
                let count = said.entry(function).or_default();
                *count += 1;
                let left = self.expected[step].left.get(&function).copied().unwrap_or(0);
                prop_assert!(*count <= left, "step {step}: {function} was not left");
            } else {
                told.entry(step).or_default().push(event.what);
            }
        }
        for (step, expected) in self.expected.iter().enumerate() {
            prop_assert_eq!(told.remove(&step).unwrap_or_default(), expected.happened.clone(), "step {}", step);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn calls_return_as_on_a_shadow_stack(steps in steps(), knows_tasks in any::<bool>()) {
        let mut trace = Trace::new(knows_tasks);
        steps.iter().for_each(|&step| trace.step(step));
        trace.check()?;
    }
}
