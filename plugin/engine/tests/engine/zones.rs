// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a zone lasts from its beginning to its end in the context that began it, by that context's own clock,
//! whatever functions are called and left meanwhile. Random traces of zones, calls, returns, switches of tasks and
//! exceptions are compared with a list of open zones of each context.

use std::collections::BTreeMap;

use engine::code::Code;
use engine::follow::context::Core;
use engine::follow::exception::trap_return;
use engine::follow::zone::Zones;
use engine::guest::Guest;
use engine::ledger::Ledger;
use proptest::prelude::*;
use wire::counters::CLOCK;
use wire::definition::Definition;
use wire::request::{Isa, Measure};
use wire::zone::{ContextKind, Event, EventKind, Row, ZoneCounter};

use crate::fake::{Books, Fake, config, guest, ledger, request};
use crate::shadow::{STEP_INSNS, exception};

const NAMES: u32 = 4;
const TASKS: usize = 3;
const FRAME_BYTES: u64 = 32;

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin {
        name: u32,
    },
    End {
        name: u32,
    },
    /// A function is called: the stack gets deeper.
    Call,
    /// The function returns. Its zones go on.
    Return,
    Switch {
        task: usize,
    },
    /// An exception comes.
    Enter,
    /// The exception's handler returns, even while its zones are under way.
    Leave,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..=NAMES).prop_map(|name| Step::Begin { name }),
        6 => (1..=NAMES).prop_map(|name| Step::End { name }),
        3 => Just(Step::Call),
        3 => Just(Step::Return),
        3 => (0..TASKS).prop_map(|task| Step::Switch { task }),
        1 => Just(Step::Enter),
        1 => Just(Step::Leave),
    ];
    prop::collection::vec(step, 1..200)
}

/// A task, or an exception.
#[derive(Clone)]
struct Context {
    kind: ContextKind,
    sp: u64,
    insns: u64,
    /// Open zones: name, and the context's instructions when the zone began.
    open: Vec<(u32, u64)>,
}

impl Context {
    fn new(kind: ContextKind, sp: u64) -> Context {
        Context { kind, sp, insns: 0, open: Vec::new() }
    }
}

/// Number of a zone's ends, its instructions, and number of times that it was left without an end.
type Counts = (u64, u64, u64);

struct Trace {
    guest: Guest<Fake>,
    code: Code,
    ledger: Ledger<Books>,
    zones: Zones,
    cores: Vec<Core>,
    tasks: Vec<Context>,
    running: usize,
    exceptions: Vec<Context>,
    expected: BTreeMap<(u32, ContextKind), Counts>,
    expected_insns: BTreeMap<ContextKind, u64>,
}

/// Address of the instruction that begins a zone; the next one ends it.
fn address(name: u32) -> u64 {
    0x1000 + 16 * u64::from(name)
}

impl Trace {
    fn new() -> Trace {
        let events = (1..=NAMES).flat_map(|name| {
            let event = |offset, kind| Event { address: address(name) + offset, kind, name };
            [event(0, EventKind::Begin), event(4, EventKind::End)]
        });
        let measure = Measure { events: events.collect(), ..Measure::default() };
        let request = request(Isa::Riscv32, None, measure);
        let mut fake = Fake::default();
        fake.set("sp", 0);
        let mut core = Core::new(0, true);
        core.task = 1;
        let task = |number: u32| Context::new(ContextKind::Task(number), 0x2000_0000 + 0x10_0000 * u64::from(number));
        Trace {
            guest: guest(&request, fake),
            code: Code::new(&request),
            ledger: ledger(1),
            zones: Zones::new(&request).unwrap(),
            cores: vec![core],
            tasks: (1..).take(TASKS).map(task).collect(),
            running: 0,
            exceptions: Vec::new(),
            expected: BTreeMap::new(),
            expected_insns: BTreeMap::new(),
        }
    }

    fn context(&mut self) -> &mut Context {
        self.exceptions.last_mut().unwrap_or(&mut self.tasks[self.running])
    }

    fn happen(&mut self, pc: u64) {
        let sp = self.context().sp;
        self.guest.registers().unwrap().set("sp", sp);
        let Trace { zones, cores, guest, code, ledger, .. } = self;
        zones.at(cores, 0, pc, guest, code, ledger);
    }

    /// Counts zones of a context that were left without their ends.
    fn leave(&mut self, kind: ContextKind, left: &[(u32, u64)]) {
        for &(name, _) in left {
            self.expected.entry((name, kind)).or_default().2 += 1;
        }
    }

    fn step(&mut self, step: Step) {
        self.ledger.add(CLOCK, 0, STEP_INSNS);
        self.context().insns += STEP_INSNS;
        let Context { kind, sp, insns, .. } = *self.context();
        *self.expected_insns.entry(kind).or_default() += STEP_INSNS;
        match step {
            // If the same code begins a zone again, that is a recursive call, or the earlier call was left. The trace
            // avoids this ambiguity.
            Step::Begin { name } if self.context().open.iter().all(|&(open, _)| open != name) => {
                self.context().open.push((name, insns));
                self.happen(address(name));
            }
            Step::End { name } => {
                if let Some(index) = self.context().open.iter().rposition(|&(open, _)| open == name) {
                    let ended = self.context().open.split_off(index);
                    self.leave(kind, &ended[1..]);
                    let (count, sum, _) = self.expected.entry((name, kind)).or_default();
                    (*count, *sum) = (*count + 1, *sum + insns - ended[0].1);
                }
                self.happen(address(name) + 4);
            }
            Step::Call => self.context().sp -= FRAME_BYTES,
            Step::Return => self.context().sp += FRAME_BYTES,
            Step::Switch { task } if self.exceptions.is_empty() => {
                self.running = task;
                self.cores[0].advance(&mut self.ledger);
                self.cores[0].task = task as u32 + 1;
            }
            Step::Enter if self.exceptions.len() < 3 => {
                let number = 16 + self.exceptions.len() as u64;
                self.exceptions.push(Context::new(ContextKind::Exception(number), sp - 64));
                self.cores[0].advance(&mut self.ledger);
                self.cores[0].exceptions.push(exception(number, sp - 64, self.ledger.insns(0)));
            }
            Step::Leave => {
                if let Some(Context { kind, open, .. }) = self.exceptions.pop() {
                    self.leave(kind, &open);
                    trap_return(&mut self.cores[0], None, &mut self.ledger);
                }
            }
            Step::Begin { .. } | Step::Switch { .. } | Step::Enter => {}
        }
    }

    /// Compares the counts with the expected ones.
    fn check(mut self) -> Result<(), TestCaseError> {
        self.cores[0].advance(&mut self.ledger);
        for definition in self.ledger.records().definitions() {
            let Definition::Row { slot, row } = definition else { continue };
            let count = |counter: ZoneCounter| self.ledger.get(slot + counter as u32, 0);
            match row {
                Row::Zone { name, context } => {
                    let counts = (count(ZoneCounter::Count), count(ZoneCounter::Sum), count(ZoneCounter::Left));
                    let expected = self.expected.remove(&(name, context)).unwrap_or_default();
                    prop_assert_eq!(counts, expected, "{} in {:?}", name, context);
                }
                Row::Task { task } => {
                    let expected = self.expected_insns.remove(&ContextKind::Task(task)).unwrap_or(0);
                    prop_assert_eq!(self.ledger.get(slot, 0), expected, "task {}", task);
                }
                Row::Exception { number, .. } => {
                    let expected = self.expected_insns.remove(&ContextKind::Exception(number)).unwrap_or(0);
                    prop_assert_eq!(self.ledger.get(slot, 0), expected, "exception {}", number);
                }
                Row::ExceptionCycles { .. } | Row::Mark { .. } | Row::Waiting | Row::WaitingUnsure => {}
            }
        }
        prop_assert!(self.expected.is_empty(), "not counted: {:?}", self.expected);
        prop_assert!(self.expected_insns.is_empty(), "not counted: {:?}", self.expected_insns);
        Ok(())
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn zones_last_to_their_ends_whatever_returns_meanwhile(steps in steps()) {
        let mut trace = Trace::new();
        steps.iter().for_each(|&step| trace.step(step));
        trace.check()?;
    }
}
