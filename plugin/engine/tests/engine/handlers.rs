// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: on a processor that names the active exception and what it interrupts, the exceptions are those that it
//! names: nested ones, ones that follow each other without a return, and ones that were preempted at their start.

use engine::code::Code;
use engine::follow::context::Core;
use engine::follow::exception::{enter, leave};
use engine::follow::tree::Tree;
use engine::guest::{Guest, Taken};
use engine::ledger::Ledger;
use wire::counters::EXCEPTIONS;
use wire::request::{Isa, Measure, Request};

use crate::fake::{Books, Fake, guest, ledger, request};

const RAM: u64 = 0x2000_0000;
/// Handlers of the exceptions, by number.
const HANDLERS: u64 = 0x200;
const TO_THREAD: u64 = 0xffff_fff9;

struct Run {
    guest: Guest<Fake>,
    code: Code,
    ledger: Ledger<Books>,
    core: Core,
    tree: Option<Tree>,
}

fn handler(number: u64) -> u64 {
    HANDLERS + 16 * number
}

impl Run {
    fn new(is_exact: bool) -> Run {
        let functions = (16..40).map(|number| handler(number)..handler(number) + 16).collect();
        let measure = Measure { is_exact, functions, ..Measure::default() };
        let request = Request { memory: vec![0..0x800, RAM..RAM + 0x1000], ..request(Isa::ThumbV7m, None, measure) };
        let mut fake = Fake::default();
        for name in ["xpsr", "sp", "lr", "r7", "msp", "psp", "primask", "faultmask", "basepri"] {
            fake.set(name, 0);
        }
        fake.memory = vec![(0, vec![0; 0x800]), (RAM, vec![0; 0x1000]), (0xe000_e000, vec![0; 0x1000])];
        (16..40).for_each(|number| fake.store(4 * number, handler(number) | 1));
        Run {
            guest: guest(&request, fake),
            code: Code::new(&request),
            ledger: ledger(1),
            core: Core::new(0, false),
            tree: Tree::new(&request, 1),
        }
    }

    fn set(&mut self, name: &str, value: u64) {
        self.guest.registers().unwrap().set(name, value);
    }

    /// The processor's frame of what it interrupts: the exception's number, the instruction, and lr.
    fn frame(&mut self, sp: u64, below: u64, pc: u64, lr: u64) {
        for (offset, word) in [(20, lr), (24, pc), (28, below)] {
            self.guest.registers().unwrap().store(sp + offset, word);
        }
    }

    /// An exception comes, whose frame is at this stack pointer.
    fn take(&mut self, number: u64, sp: u64, lr: u64) {
        for (name, value) in [("xpsr", number), ("sp", sp), ("lr", lr)] {
            self.set(name, value);
        }
        let Run { guest, code, ledger, core, tree } = self;
        let taken = guest.taken_exception(handler(number)).unwrap();
        enter(core, tree.as_mut(), taken, guest, code, ledger);
    }

    /// Code goes on, of the exception that the processor names.
    fn go_on(&mut self, number: u64, sp: u64) {
        self.set("xpsr", number);
        self.set("sp", sp);
        let Run { guest, code, ledger, core, tree } = self;
        leave(core, tree.as_mut(), handler(number) + 4, guest, code, ledger);
    }

    fn active(&self) -> Vec<u64> {
        let active: Vec<u64> = self.core.exceptions.iter().map(|active| active.number).collect();
        assert_eq!(self.ledger.get(EXCEPTIONS, 0), active.len() as u64);
        active
    }
}

#[test]
fn exceptions_are_those_that_the_processor_names() {
    for is_exact in [false, true] {
        let mut run = Run::new(is_exact);
        let sp = RAM + 0x800;
        run.frame(sp, 0, 0x100, 0x99);
        run.take(20, sp, TO_THREAD);
        // The next one follows without a return: what it interrupts is the thread.
        run.take(21, sp, TO_THREAD);
        assert_eq!(run.active(), [21]);
        run.frame(sp - 64, 21, handler(21) + 4, 0x99);
        run.take(22, sp - 64, 0xffff_fff1);
        run.frame(sp - 128, 22, handler(22) + 4, 0x99);
        run.take(23, sp - 128, 0xffff_fff1);
        assert_eq!(run.active(), [21, 22, 23]);
        // Its handler goes on; then the one below, unseen; then another one follows that one.
        run.go_on(23, sp - 160);
        assert_eq!(run.active(), [21, 22, 23]);
        run.go_on(22, sp - 100);
        assert_eq!(run.active(), [21, 22]);
        run.frame(sp - 64, 21, handler(21) + 4, 0x99);
        run.take(24, sp - 64, 0xffff_fff1);
        assert_eq!(run.active(), [21, 24]);
        // Above where it began it is over, whatever its number is.
        run.go_on(21, sp + 32);
        assert_eq!(run.active(), []);
        run.take(20, sp, TO_THREAD);
        run.go_on(0, sp + 32);
        assert_eq!(run.active(), []);
        run.go_on(0, sp + 32);
    }
}

#[test]
fn exception_preempted_at_its_start_begins_twice() {
    for is_exact in [false, true] {
        let mut run = Run::new(is_exact);
        let sp = RAM + 0x800;
        // 20 was about to start when 21 came.
        run.frame(sp, 0, 0x100, 0x99);
        run.frame(sp - 32, 20, handler(20), TO_THREAD);
        run.take(21, sp - 32, 0xffff_fff1);
        assert_eq!(run.active(), [20, 21]);
        let is_preempted =
            |run: &Run| run.core.exceptions.iter().map(|active| active.is_preempted).collect::<Vec<_>>();
        assert_eq!(is_preempted(&run), [true, false]);
        // A third one comes at once, which the first two wait for.
        run.frame(sp - 64, 21, handler(21) + 4, 0x99);
        run.take(22, sp - 64, 0xffff_fff1);
        assert_eq!(run.active(), [20, 21, 22]);
        // Both have returned: the first one begins.
        run.take(20, sp, TO_THREAD);
        assert_eq!((run.active(), is_preempted(&run)), (vec![20], vec![false]));
    }
}

#[test]
fn memory_of_endless_nesting_is_bounded() {
    let mut run = Run::new(false);
    for depth in 0..1000 {
        let taken = Taken {
            number: 20,
            handler: handler(20),
            entry_sp: RAM + 0x10_0000 - 32 * depth,
            saved_sp: RAM + 0x10_0000 - 32 * depth,
            interrupted: None,
            below: None,
        };
        let Run { guest, code, ledger, core, tree } = &mut run;
        enter(core, tree.as_mut(), taken, guest, code, ledger);
    }
    assert_eq!(run.active().len(), 256);
}
