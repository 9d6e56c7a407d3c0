// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the exact tree has a thread's functions when its kernel goes on with it. A kernel on RISC-V has left a
//! trap's handler by a plain return into another thread, and later goes on in the rest of that handler, or without it.
//! The interrupted leaf keeps nothing on its stack, so that the handler's frame has the same stack pointer and return
//! address. Its switch, in assembly, may call a hook when it is already on the next thread's stack.

use engine::code::Code;
use engine::follow::arrival::{Arrival, link};
use engine::follow::context::Core;
use engine::follow::exception::{enter, leave, trap_return};
use engine::follow::task::Tasks;
use engine::follow::tree::Tree;
use engine::guest::Guest;
use engine::ledger::Ledger;
use wire::counters::{HERE, LINK, STACK_SET};
use wire::request::{Kernel, Measure};
use wire::unwind::{Base, Row, Rule, Saved};

use crate::fake::{
    BLOCK_BYTES, Books, Fake, UNMASKED, WAS_UNMASKED, guest, jumping_kernel, ledger, riscv_request, thread_block,
};

const HANDLER: u64 = 0x8000_1000;
const THREAD: u64 = 0x8000_2000;
const OUTER: u64 = 0x8000_3000;
const LEAF: u64 = 0x8000_4000;
const SWAP: u64 = 0x8000_5000;
/// Assembly, which nothing describes.
const SWITCH: u64 = 0x8000_5100;
const FUNCTIONS: [u64; 6] = [HANDLER, THREAD, OUTER, LEAF, SWAP, SWITCH];

const CURRENT: u64 = 0x8030_0000;
const BLOCKS: u64 = 0x8020_0000;
const STACKS: u64 = 0x8010_0000;
const STACK_BYTES: u64 = 0x400;
/// Bytes of a function's frame, with the return address at its upper end; a leaf has none.
const FRAME_BYTES: u64 = 16;

/// The thread that is interrupted, and the one that gives up the processor itself.
const FIRST: u64 = 0;
const SECOND: u64 = 1;

struct Trace {
    guest: Guest<Fake>,
    code: Code,
    ledger: Ledger<Books>,
    tasks: Tasks,
    core: Core,
    tree: Tree,
}

/// A place in a function, with the registers there.
#[derive(Clone, Copy)]
struct Place {
    pc: u64,
    sp: u64,
    return_addr: u64,
}

fn rules() -> Vec<Row> {
    let rule = |cfa_offset_bytes, return_addr| {
        Some(Rule { base: Base::StackPointer, cfa_offset_bytes, return_addr, frame_pointer: Saved::Register })
    };
    let of_function = |start: u64| {
        if start == SWITCH {
            return [Row { pc: start, rule: None }, Row { pc: start + 4, rule: None }];
        }
        let in_body = if start == LEAF { rule(0, Saved::Register) } else { rule(16, Saved::AtCfa(-4)) };
        [Row { pc: start, rule: rule(0, Saved::Register) }, Row { pc: start + 4, rule: in_body }]
    };
    FUNCTIONS.into_iter().flat_map(of_function).collect()
}

/// Upper end of a thread's stack.
fn top(thread: u64) -> u64 {
    STACKS + STACK_BYTES * (thread + 1)
}

impl Trace {
    fn new() -> Trace {
        let functions = FUNCTIONS.map(|start| start..start + 0x100).to_vec();
        let measure = Measure {
            functions,
            unwind: rules(),
            max_depth: Some(64),
            is_exact: true,
            kernel: Some(Kernel { begins: vec![THREAD], ..jumping_kernel(CURRENT) }),
            ..Measure::default()
        };
        let request = riscv_request(measure);
        let mut fake = Fake::riscv(HANDLER);
        let blocks =
            [FIRST, SECOND].into_iter().flat_map(|thread| thread_block(top(thread) - STACK_BYTES, STACK_BYTES));
        fake.memory = vec![
            (BLOCKS, blocks.collect()),
            (CURRENT, vec![0; 4]),
            (STACKS, vec![0; 2 * STACK_BYTES as usize]),
            // What calls look like is not looked at here; the code can be read.
            (HANDLER, [0x13, 0, 0, 0].repeat(0x1200)),
        ];
        Trace {
            guest: guest(&request, fake),
            code: Code::new(&request),
            ledger: ledger(1),
            tasks: Tasks::new(&request, 1).unwrap(),
            core: Core::new(0, false),
            tree: Tree::new(&request, 1).unwrap(),
        }
    }

    fn set(&mut self, name: &str, value: u64) {
        self.guest.registers().unwrap().set(name, value);
    }

    fn store(&mut self, address: u64, word: u64) {
        self.guest.registers().unwrap().store(address, word);
    }

    /// Code goes on at a place, in another function than before.
    fn arrive(&mut self, place: Place) {
        self.set("sp", place.sp);
        self.set("ra", place.return_addr);
        self.ledger.set(HERE, 0, 0);
        let Trace { guest, code, ledger, core, tree, .. } = self;
        leave(core, Some(tree), place.pc, guest, code, ledger);
        let function = code.function_of(place.pc);
        Arrival { tree, core, guest, code, ledger }.here(place.pc, function);
    }

    /// A function calls another one at its stack pointer. Returns a place in the body of that one.
    fn call(&mut self, from: Place, function: u64) -> Place {
        let return_addr = from.pc + 4;
        self.ledger.set(LINK, 0, link(return_addr, false));
        self.arrive(Place { pc: function, sp: from.sp, return_addr });
        self.body(function, from.sp, return_addr)
    }

    /// A place in the body of a function that has begun with this stack pointer and return address.
    fn body(&mut self, function: u64, entry_sp: u64, return_addr: u64) -> Place {
        if function == LEAF {
            return Place { pc: LEAF + 8, sp: entry_sp, return_addr };
        }
        self.store(entry_sp - 4, return_addr);
        Place { pc: function + 8, sp: entry_sp - FRAME_BYTES, return_addr }
    }

    /// The kernel, at this place, names the running thread. The one before goes on with this stack pointer.
    fn name(&mut self, thread: u64, before: Option<(u64, u64)>) {
        if let Some((thread, sp)) = before {
            self.store(BLOCKS + BLOCK_BYTES * thread, sp);
        }
        self.store(CURRENT, BLOCKS + BLOCK_BYTES * thread);
        self.tasks.switch(&mut self.core, Some(&mut self.tree), &mut self.guest, &mut self.ledger);
    }

    /// A thread begins, by a jump of the kernel.
    fn begin(&mut self, thread: u64) -> Place {
        self.ledger.set(STACK_SET, 0, 1);
        self.arrive(Place { pc: THREAD, sp: top(thread), return_addr: 0 });
        self.body(THREAD, top(thread), 0)
    }

    /// A trap interrupts a place. Returns one in its handler.
    fn trap(&mut self, interrupted: Place) -> Place {
        self.set("mcause", 0x8000_0007);
        self.set("mepc", interrupted.pc);
        self.set("mstatus", WAS_UNMASKED);
        self.set("sp", interrupted.sp);
        self.set("ra", interrupted.return_addr);
        let Trace { guest, code, ledger, core, tree, .. } = self;
        let taken = guest.taken_exception(HANDLER).unwrap();
        enter(core, Some(tree), taken, guest, code, ledger);
        self.arrive(Place { pc: HANDLER, ..interrupted });
        self.body(HANDLER, interrupted.sp, interrupted.return_addr)
    }

    /// The handler's return instruction leads to a place.
    fn return_from_trap(&mut self, place: Place) {
        trap_return(&mut self.core, Some(&mut self.tree), &mut self.ledger);
        self.set("mstatus", UNMASKED);
        self.arrive(place);
    }

    fn functions(&self) -> Vec<u64> {
        self.core.thread.frames.iter().map(|frame| frame.entry).collect()
    }

    /// The second thread has given up the processor to the first one, which a trap interrupts in a leaf; the trap's kernel
    /// goes on with the second one by a plain return, which has returned to its first function. Returns the places of the
    /// leaf, of the kernel in the handler, and of the second thread.
    fn left_trap() -> (Trace, Place, Place, Place) {
        let mut trace = Trace::new();
        trace.name(SECOND, None);
        let second = trace.begin(SECOND);
        let swap = trace.call(second, SWAP);
        trace.name(FIRST, Some((SECOND, swap.sp)));
        let first = trace.begin(FIRST);
        let outer = trace.call(first, OUTER);
        let leaf = trace.call(outer, LEAF);
        assert_eq!(trace.functions(), [THREAD, OUTER, LEAF]);

        let handler = trace.trap(leaf);
        assert_eq!(trace.core.exceptions.len(), 1);
        let in_handler = trace.call(handler, SWAP);
        trace.name(SECOND, Some((FIRST, in_handler.sp)));
        trace.set("mstatus", UNMASKED);
        trace.arrive(Place { pc: swap.pc + 4, ..swap });
        assert_eq!((trace.core.exceptions.len(), trace.functions()), (0, vec![THREAD, SWAP]));
        let second = Place { pc: second.pc + 4, ..second };
        trace.arrive(second);
        assert_eq!(trace.functions(), [THREAD]);
        (trace, leaf, in_handler, second)
    }
}

#[test]
fn a_leaf_goes_on_below_the_functions_that_called_it_after_the_rest_of_its_handler() {
    let (mut trace, leaf, in_handler, second) = Trace::left_trap();
    let swap = trace.call(second, SWAP);
    trace.name(FIRST, Some((SECOND, swap.sp)));
    // The handler goes on where it had named the other thread, outside of all traps.
    trace.arrive(Place { pc: in_handler.pc + 4, ..in_handler });
    assert_eq!(trace.functions(), [HANDLER, SWAP]);
    trace.arrive(Place { pc: in_handler.return_addr, sp: leaf.sp - FRAME_BYTES, return_addr: 0 });
    assert_eq!(trace.functions(), [HANDLER]);
    trace.return_from_trap(Place { pc: leaf.pc + 4, ..leaf });
    assert_eq!(trace.functions(), [THREAD, OUTER, LEAF]);
}

#[test]
fn a_leaf_goes_on_below_the_functions_that_called_it_without_its_handler() {
    let (mut trace, leaf, _, second) = Trace::left_trap();
    // Twice: what was put aside of the first handler is of no use to the second one.
    for _ in 0..2 {
        let handler = trace.trap(second);
        let in_handler = trace.call(handler, SWAP);
        trace.name(FIRST, Some((SECOND, in_handler.sp)));
        trace.return_from_trap(leaf);
        assert_eq!((trace.core.exceptions.len(), trace.functions()), (0, vec![THREAD, OUTER, LEAF]));
        let handler = trace.trap(leaf);
        let in_handler = trace.call(handler, SWAP);
        trace.name(SECOND, Some((FIRST, in_handler.sp)));
        trace.return_from_trap(second);
        assert_eq!((trace.core.exceptions.len(), trace.functions()), (0, vec![THREAD]));
    }
}

#[test]
fn a_switch_that_calls_a_hook_on_the_next_stack_returns_from_it() {
    let mut trace = Trace::new();
    // The kernel's start is on a stack below those of the threads, and switches to the first one.
    let start = Place { pc: OUTER + 8, sp: STACKS + 0x100, return_addr: 0 };
    trace.arrive(start);
    let switch = trace.call(start, SWITCH);
    trace.name(FIRST, None);
    trace.ledger.set(STACK_SET, 0, 1);
    let place = Place { pc: switch.pc, sp: top(FIRST), return_addr: 0 };
    trace.call(place, LEAF);
    trace.arrive(Place { pc: place.pc + 4, return_addr: place.pc + 4, ..place });
    assert_eq!(trace.functions(), [OUTER, SWITCH]);
    trace.arrive(Place { pc: THREAD, sp: top(FIRST), return_addr: THREAD });
    assert_eq!(trace.functions(), [THREAD]);
}

#[test]
fn a_thread_that_may_not_read_the_kernels_memory_still_runs() {
    let mut trace = Trace::new();
    trace.name(FIRST, None);
    let task = trace.core.task;
    trace.guest.registers().unwrap().memory.retain(|(start, _)| *start != CURRENT);
    let Trace { guest, ledger, tasks, core, tree, .. } = &mut trace;
    tasks.check(core, Some(tree), guest, ledger);
    assert!(task != 0 && core.task == task);
}
