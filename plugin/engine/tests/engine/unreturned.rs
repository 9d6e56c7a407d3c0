// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: exceptions are active exactly while one of their handlers executes, although a kernel ends them in three
//! ways: by their return, by a plain return into a thread that gave up the processor itself, and by a jump to the loop
//! that they had interrupted. Random traces of traps, switches and returns are compared with a model of the kernel.

use engine::code::Code;
use engine::follow::context::Core;
use engine::follow::exception::{enter, leave, trap_return};
use engine::follow::task::Tasks;
use engine::guest::Guest;
use engine::ledger::Ledger;
use proptest::prelude::*;
use wire::request::{Kernel, Measure};

use crate::fake::{
    BLOCK_BYTES, Books, Fake, UNMASKED, WAS_UNMASKED, config, guest, jumping_kernel, ledger, riscv_request,
    thread_block,
};

const THREADS: u64 = 3;
const STACK_BYTES: u64 = 0x1000;
const STACKS: u64 = 0x8010_0000;
const BLOCKS: u64 = 0x8020_0000;
const CURRENT: u64 = 0x8030_0000;
const HANDLER: u64 = 0x8000_1000;
const SCHEDULER: u64 = 0x8000_2000;
const THREAD: u64 = 0x8000_3000;
const SYSTEM_SP: u64 = 0x8040_0000;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A trap interrupts what executes: the handler, if it has unmasked interrupts.
    Trap { unmasks: bool },
    /// The innermost handler returns.
    Return,
    /// The handler switches to a thread, which goes on. Or a thread gives up the processor to another one.
    Switch { thread: u64 },
    /// No thread is ready: the scheduler waits.
    Idle,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => any::<bool>().prop_map(|unmasks| Step::Trap { unmasks }),
        2 => Just(Step::Return),
        4 => (0..THREADS).prop_map(|thread| Step::Switch { thread }),
        2 => Just(Step::Idle),
    ];
    prop::collection::vec(step, 1..100)
}

/// Place at which a thread or a handler goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    pc: u64,
    sp: u64,
}

struct Trace {
    guest: Guest<Fake>,
    code: Code,
    ledger: Ledger<Books>,
    tasks: Tasks,
    core: Core,
    here: Place,
    /// Places that traps have interrupted, the outermost first.
    interrupted: Vec<Place>,
    /// Waiting threads: where each goes on, and whether a trap has interrupted it there.
    waiting: Vec<Option<(Place, bool)>>,
    running: Option<u64>,
}

impl Trace {
    fn new() -> Trace {
        let functions = [HANDLER, SCHEDULER, THREAD].map(|start| start..start + 0x100).to_vec();
        // There is no next thread whenever there is no current one.
        let kernel = Kernel { next: Some(CURRENT..CURRENT + 4), ..jumping_kernel(CURRENT) };
        let request = riscv_request(Measure { functions, kernel: Some(kernel), ..Measure::default() });
        let mut fake = Fake::riscv(HANDLER);
        fake.set("sp", SYSTEM_SP);
        let blocks = (0..THREADS).flat_map(|thread| thread_block(STACKS + STACK_BYTES * thread, STACK_BYTES));
        fake.memory = vec![(BLOCKS, blocks.collect()), (CURRENT, vec![0; 4])];
        Trace {
            guest: guest(&request, fake),
            code: Code::new(&request),
            ledger: ledger(1),
            tasks: Tasks::new(&request, 1).unwrap(),
            core: Core::new(0, false),
            here: Place { pc: SCHEDULER + 8, sp: SYSTEM_SP },
            interrupted: Vec::new(),
            waiting: vec![None; THREADS as usize],
            running: None,
        }
    }

    fn set(&mut self, name: &str, value: u64) {
        self.guest.registers().unwrap().set(name, value);
    }

    fn store(&mut self, address: u64, word: u64) {
        self.guest.registers().unwrap().store(address, word);
    }

    /// Code goes on at a place, at the start of a block.
    fn go_on(&mut self, place: Place, status: u64) {
        self.here = place;
        self.set("sp", place.sp);
        self.set("mstatus", status);
        leave(&mut self.core, None, place.pc, &mut self.guest, &mut self.code, &mut self.ledger);
    }

    /// The kernel names the running thread.
    fn name(&mut self, thread: Option<u64>) {
        self.store(CURRENT, thread.map_or(0, |thread| BLOCKS + BLOCK_BYTES * thread));
        self.running = thread;
        self.tasks.switch(&mut self.core, None, &mut self.guest, &mut self.ledger);
    }

    /// The running thread is put aside; `by_trap`: it goes on where the outermost trap came.
    fn save(&mut self, by_trap: bool) {
        let Some(thread) = self.running else { return };
        let place = if by_trap { self.interrupted[0] } else { self.here };
        self.waiting[thread as usize] = Some((place, by_trap));
        self.store(BLOCKS + BLOCK_BYTES * thread, place.sp - 64);
        self.name(None);
    }

    fn step(&mut self, step: Step) {
        let is_handling = !self.interrupted.is_empty();
        match step {
            Step::Trap { unmasks } => {
                let is_masked = self.guest.registers().unwrap().registers["mstatus"] & UNMASKED == 0;
                if is_masked {
                    return;
                }
                let handler = Place { pc: HANDLER, sp: self.here.sp };
                self.set("mcause", 0x8000_0007);
                self.set("mepc", self.here.pc);
                self.set("mstatus", WAS_UNMASKED);
                self.interrupted.push(self.here);
                self.here = handler;
                let taken = self.guest.taken_exception(HANDLER).unwrap();
                enter(&mut self.core, None, taken, &mut self.guest, &mut self.code, &mut self.ledger);
                let status = WAS_UNMASKED | if unmasks { UNMASKED } else { 0 };
                self.go_on(Place { pc: HANDLER + 8, sp: handler.sp - 32 }, status);
            }
            Step::Return => {
                let Some(place) = self.interrupted.pop() else { return };
                trap_return(&mut self.core, None, &mut self.ledger);
                self.go_on(place, UNMASKED);
            }
            // A kernel switches threads at the end of the outermost handler.
            _ if self.interrupted.len() > 1 => {}
            Step::Switch { thread } => {
                if self.running == Some(thread) {
                    return;
                }
                self.save(is_handling);
                self.name(Some(thread));
                let fresh = Place { pc: THREAD, sp: STACKS + STACK_BYTES * (thread + 1) };
                let (place, by_trap) = self.waiting[thread as usize].take().unwrap_or((fresh, true));
                // The scheduler's last instructions are on the thread's stack.
                self.set("sp", place.sp);
                if by_trap {
                    trap_return(&mut self.core, None, &mut self.ledger);
                }
                self.interrupted.clear();
                self.go_on(place, UNMASKED);
                // It goes deeper, and further.
                let depth = 16 * (thread + 1);
                let deeper =
                    Place { pc: THREAD + 16, sp: (place.sp - depth).max(STACKS + STACK_BYTES * thread + 1024) };
                self.go_on(deeper, UNMASKED);
            }
            Step::Idle => {
                // A trap that came in a thread returns there.
                if is_handling && self.running.is_some() {
                    return;
                }
                self.save(false);
                self.interrupted.clear();
                self.go_on(Place { pc: SCHEDULER + 8, sp: SYSTEM_SP }, UNMASKED);
            }
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn exceptions_are_active_while_their_handlers_execute(steps in steps()) {
        let mut trace = Trace::new();
        for step in steps {
            trace.step(step);
            prop_assert_eq!(trace.core.exceptions.len(), trace.interrupted.len(), "{:?}", step);
        }
    }
}
