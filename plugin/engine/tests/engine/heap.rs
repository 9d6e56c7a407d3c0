// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the heap's events are those of the outermost calls of allocation functions, at the stacks that made
//! them, whatever these functions call among themselves, and whether or not they return.

use engine::code::Code;
use engine::follow::context::{Active, Core, Path};
use engine::follow::open_zones::Nest;
use engine::guest::Guest;
use engine::heap::{Heap, Walk};
use engine::ledger::Ledger;
use engine::stack::Stacks;
use wire::counters::CLOCK;
use wire::definition::{Definition, FrameKind, TASK_COUNTERS};
use wire::heap::{Allocator, Argument, Event, What};
use wire::request::{Isa, Kernel, Measure, Request};
use wire::unwind::{Base, Row, Rule, Saved};

use crate::fake::{Books, Fake, guest, jal, kernel, ledger, request};

const CODE: u64 = 0x8000_1000;
const MAIN: u64 = CODE;
const LIBRARY: u64 = CODE + 0x100;
const MALLOC: u64 = CODE + 0x200;
const REALLOC: u64 = CODE + 0x300;
const FREE: u64 = CODE + 0x400;
const CALLOC: u64 = CODE + 0x500;
const ALIGNED: u64 = CODE + 0x600;
const THREAD: u64 = CODE + 0x700;
const FUNCTIONS: [u64; 8] = [MAIN, LIBRARY, MALLOC, REALLOC, FREE, CALLOC, ALIGNED, THREAD];
const STACK: u64 = 0x8010_0000;
const SP: u64 = STACK + 0x800;
const FRAME_BYTES: u64 = 32;

fn allocators() -> Vec<Allocator> {
    let malloc = Allocator {
        entry: MALLOC,
        size: Some(Argument::Register(10)),
        count: None,
        align: None,
        old: None,
        result: 10,
        place: None,
    };
    vec![
        malloc,
        Allocator { entry: REALLOC, size: Some(Argument::Register(11)), old: Some(10), ..malloc },
        Allocator { entry: FREE, size: None, old: Some(10), ..malloc },
        Allocator { entry: CALLOC, count: Some(Argument::Register(11)), ..malloc },
        Allocator {
            entry: ALIGNED,
            size: Some(Argument::Word { register: 12, offset: 4 }),
            align: Some(Argument::Constant(64)),
            place: Some(10),
            ..malloc
        },
    ]
}

/// A call that has begun: its function, stack pointer and return address.
#[derive(Clone, Copy)]
struct Call {
    function: u64,
    sp: u64,
    return_addr: u64,
}

struct Run {
    heap: Heap,
    stacks: Stacks,
    core: Core,
    guest: Guest<Fake>,
    code: Code,
    ledger: Ledger<Books>,
    word_bytes: u64,
}

impl Run {
    fn with(isa: Isa, kernel: Option<Kernel>, is_oracle: bool) -> Run {
        let word_bytes = if isa == Isa::Riscv64 { 8 } else { 4 };
        let rule = |cfa_offset_bytes, return_addr| {
            Some(Rule { base: Base::StackPointer, cfa_offset_bytes, return_addr, frame_pointer: Saved::Register })
        };
        let rows = FUNCTIONS.into_iter().flat_map(|pc| {
            let body = rule(FRAME_BYTES as i32, Saved::AtCfa(-(word_bytes as i32)));
            [Row { pc, rule: rule(0, Saved::Register) }, Row { pc: pc + 4, rule: body }]
        });
        let measure = Measure {
            functions: FUNCTIONS.map(|start| start..start + 0x100).to_vec(),
            unwind: rows.collect(),
            max_depth: Some(64),
            heap: allocators(),
            is_oracle,
            kernel,
            ..Measure::default()
        };
        let memory = vec![CODE..CODE + 0x1000, STACK..STACK + 0x1000];
        let request = Request { memory, ..request(isa, Some(MAIN), measure) };
        let mut fake = Fake::riscv(0x8000_0100);
        ["a0", "a1", "a2"].iter().for_each(|name| fake.set(name, 0));
        fake.memory = vec![(CODE, vec![0x13; 0x1000]), (STACK, vec![0; 0x1000])];
        let mut run = Run {
            heap: Heap::new(&request).unwrap(),
            stacks: Stacks::new(&request).unwrap(),
            core: Core::new(0, false),
            guest: guest(&request, fake),
            code: Code::new(&request),
            ledger: ledger(1),
            word_bytes,
        };
        run.heap.restart(0, &run.ledger);
        assert_eq!(run.events(), [What::Opened]);
        run
    }

    fn new() -> Run {
        Run::with(Isa::Riscv32, None, false)
    }

    /// A run with tasks of a known kernel.
    fn with_tasks(count: u32) -> Run {
        let mut run = Run::with(Isa::Riscv32, Some(kernel(STACK)), false);
        for tcb in 1..=u64::from(count) {
            let slot = run.ledger.new_slots(TASK_COUNTERS);
            let name = format!("task {tcb}");
            let task = Definition::Task { slot, tcb, name, stack_start: 0, stack_end: 0, is_idle: false, poll: 0 };
            run.ledger.note(&task);
        }
        run
    }

    fn set(&mut self, name: &str, value: u64) {
        self.guest.registers().unwrap().set(name, value);
    }

    fn store(&mut self, address: u64, word: u64) {
        self.guest.registers().unwrap().store(address, word);
    }

    /// The main function, whose frame ends at the stack's end.
    fn main(&self) -> Call {
        Call { function: MAIN, sp: SP, return_addr: 0 }
    }

    /// A function calls another one, with these arguments; `site`: which of its calls this is.
    fn call(&mut self, caller: Call, site: u64, function: u64, arguments: [u64; 3]) -> Call {
        let pc = caller.function + 0x10 + 8 * site;
        self.store(pc, jal(pc, function));
        self.store(caller.sp - self.word_bytes, caller.return_addr);
        let call = Call { function, sp: caller.sp - FRAME_BYTES, return_addr: pc + 4 };
        self.begin(call, arguments);
        call
    }

    /// A function begins.
    fn begin(&mut self, call: Call, arguments: [u64; 3]) {
        self.ledger.add(CLOCK, 0, 10);
        self.begin_again(call, arguments);
    }

    fn begin_again(&mut self, call: Call, arguments: [u64; 3]) {
        for (name, value) in
            ["a0", "a1", "a2", "sp", "ra"].iter().zip(arguments.into_iter().chain([call.sp, call.return_addr]))
        {
            self.set(name, value);
        }
        if !self.heap.begins_at(call.function) {
            return;
        }
        let Run { heap, stacks, core, guest, code, ledger, .. } = self;
        heap.enter(call.function, Walk { core, stacks, guest, code, ledger, by_transfer: false });
    }

    fn leave(&mut self, call: Call, result: u64) {
        self.ledger.add(CLOCK, 0, 10);
        self.set("a0", result);
        self.set("sp", call.sp);
        self.heap.leave(call.return_addr, &self.core, &mut self.guest, &mut self.ledger);
    }

    fn whole(&mut self) -> Vec<Event> {
        self.heap.take_events().collect()
    }

    fn events(&mut self) -> Vec<What> {
        self.whole().into_iter().map(|event| event.what).collect()
    }

    /// Sites so far: function and callers, from the innermost one.
    fn sites(&self) -> Vec<(u64, Vec<u64>)> {
        let mut frames = vec![(0, 0)];
        let mut sites = Vec::new();
        for definition in self.ledger.records().definitions() {
            match definition {
                Definition::Frame { parent, kind: FrameKind::Caller { return_addr } } => {
                    frames.push((parent, return_addr))
                }
                Definition::Frame { parent, .. } => frames.push((parent, 0)),
                Definition::Site { entry, stack, .. } => {
                    let next = |&id: &u32| Some(frames[id as usize].0).filter(|&id| id != 0);
                    let ids = std::iter::successors(Some(stack).filter(|&id| id != 0), next);
                    sites.push((entry, ids.map(|id| frames[id as usize].1).collect()));
                }
                _ => {}
            }
        }
        sites
    }
}

const BLOCK: u64 = 0x9000_0000;
const OTHER: u64 = 0x9000_0100;

fn allocated(address: u64, size_bytes: u64) -> What {
    What::Allocated { address, size_bytes, align_bytes: 0 }
}

#[test]
fn call_is_an_event_by_its_arguments_and_its_result() {
    for (function, arguments, result, expected) in [
        (MALLOC, [8, 0, 0], BLOCK, Some(allocated(BLOCK, 8))),
        (MALLOC, [8, 0, 0], 0, Some(What::Failed { size_bytes: 8, align_bytes: 0 })),
        // Nothing was asked for, and nothing given.
        (MALLOC, [0, 0, 0], 0, None),
        (CALLOC, [8, 5, 0], BLOCK, Some(allocated(BLOCK, 40))),
        (REALLOC, [BLOCK, 16, 0], OTHER, Some(What::Moved { old: BLOCK, address: OTHER, size_bytes: 16 })),
        (REALLOC, [BLOCK, 16, 0], BLOCK, Some(What::Moved { old: BLOCK, address: BLOCK, size_bytes: 16 })),
        (REALLOC, [0, 16, 0], BLOCK, Some(allocated(BLOCK, 16))),
        (REALLOC, [BLOCK, 16, 0], 0, Some(What::Failed { size_bytes: 16, align_bytes: 0 })),
        (REALLOC, [BLOCK, 0, 0], 0, Some(What::Freed { address: BLOCK })),
        (FREE, [BLOCK, 0, 0], 0, Some(What::Freed { address: BLOCK })),
        (FREE, [0, 0, 0], 0, None),
    ] {
        let mut run = Run::new();
        let call = run.call(run.main(), 0, function, arguments);
        run.leave(call, result);
        let events = run.whole();
        assert_eq!(events.iter().map(|event| event.what).collect::<Vec<_>>(), Vec::from_iter(expected));
        // A free is made as it begins; what gives a block, as it returns.
        let at_insns = if function == FREE { 10 } else { 20 };
        assert!(events.iter().all(|event| (event.at_insns, event.site) == (at_insns, 1)), "{events:?}");
    }
}

#[test]
fn block_stored_in_memory_is_found_there() {
    for (result, expected) in [
        (0, What::Allocated { address: BLOCK, size_bytes: 24, align_bytes: 64 }),
        (12, What::Failed { size_bytes: 24, align_bytes: 64 }),
    ] {
        let mut run = Run::new();
        // The size is in memory, too.
        run.store(STACK + 0x24, 24);
        let call = run.call(run.main(), 0, ALIGNED, [STACK + 0x10, 0, STACK + 0x20]);
        run.store(STACK + 0x10, BLOCK);
        run.leave(call, result);
        assert_eq!(run.events(), [expected]);
    }
}

#[test]
fn calls_within_a_call_are_its_own_matter() {
    let mut run = Run::new();
    let outer = run.call(run.main(), 0, REALLOC, [BLOCK, 16, 0]);
    let malloc = run.call(outer, 0, MALLOC, [16, 0, 0]);
    run.leave(malloc, OTHER);
    let free = run.call(outer, 1, FREE, [BLOCK, 0, 0]);
    run.leave(free, 0);
    assert_eq!(run.events(), []);
    run.leave(outer, OTHER);
    assert_eq!(run.events(), [What::Moved { old: BLOCK, address: OTHER, size_bytes: 16 }]);
    // But a block that an outermost call gave is freed at once: another thread may get it before this call is over.
    let outer = run.call(run.main(), 0, MALLOC, [8, 0, 0]);
    let free = run.call(outer, 1, FREE, [OTHER, 0, 0]);
    assert_eq!(run.events(), [What::Freed { address: OTHER }]);
    run.leave(free, 0);
    run.leave(outer, BLOCK);
    assert_eq!(run.events(), [allocated(BLOCK, 8)]);
}

#[test]
fn function_that_ends_by_a_jump_returns_with_its_caller() {
    let mut run = Run::new();
    let realloc = run.call(run.main(), 0, REALLOC, [0, 16, 0]);
    run.begin(Call { function: MALLOC, ..realloc }, [16, 0, 0]);
    run.leave(realloc, BLOCK);
    assert_eq!(run.events(), [allocated(BLOCK, 16)]);
}

#[test]
fn call_that_never_returns_is_left() {
    // A longjmp leads out of it, and the same call is made again.
    let mut run = Run::new();
    let outer = run.call(run.main(), 0, CALLOC, [8, 2, 0]);
    let inner = run.call(outer, 0, MALLOC, [16, 0, 0]);
    let failing = run.call(inner, 0, FREE, [BLOCK, 0, 0]);
    run.leave(failing, 0);
    let again = run.call(run.main(), 0, CALLOC, [8, 2, 0]);
    run.leave(again, BLOCK);
    run.heap.end(&run.ledger);
    let events = run.events();
    assert!(events.contains(&What::Left { size_bytes: 16 }) && events.contains(&allocated(BLOCK, 16)), "{events:?}");
    // What was freed within it is free.
    assert!(events.contains(&What::Freed { address: BLOCK }), "{events:?}");
    assert_eq!(events.len(), 3);
}

#[test]
fn call_is_made_once_although_its_first_instruction_starts_twice() {
    let mut run = Run::new();
    let call = run.call(run.main(), 0, MALLOC, [8, 0, 0]);
    run.begin_again(call, [8, 0, 0]);
    run.leave(call, BLOCK);
    run.leave(call, BLOCK);
    assert_eq!(run.events(), [allocated(BLOCK, 8)]);
}

#[test]
fn calls_of_one_stack_share_a_site() {
    for (isa, is_oracle) in [(Isa::Riscv32, false), (Isa::Riscv32, true), (Isa::Riscv64, false)] {
        let mut run = Run::with(isa, None, is_oracle);
        // The function in between is called from two places.
        for site in [0, 0, 1, 0, 1] {
            let library = run.call(run.main(), site, LIBRARY, [0; 3]);
            let call = run.call(library, 0, MALLOC, [8, 0, 0]);
            run.leave(call, BLOCK + 0x100 * site);
        }
        let in_main = |site: u64| MAIN + 0x14 + 8 * site;
        let expected = [0, 1].map(|site| (MALLOC, vec![LIBRARY + 0x14, in_main(site)]));
        assert_eq!(run.sites(), expected, "{isa:?}");
        let sites: Vec<u32> = run.whole().into_iter().map(|event| event.site).collect();
        assert_eq!(sites, [1, 1, 2, 1, 2]);
    }
}

#[test]
fn calls_before_the_window_have_no_events() {
    let mut run = Run::new();
    let call = run.call(run.main(), 0, MALLOC, [8, 0, 0]);
    run.ledger.clear_counters();
    run.ledger.set(CLOCK, 0, 0);
    run.heap.restart(0, &run.ledger);
    // It was under way as the window opened.
    run.leave(call, BLOCK);
    let events = run.whole();
    assert_eq!(events.iter().map(|event| event.what).collect::<Vec<_>>(), [What::Opened, allocated(BLOCK, 8)]);
    let slot = run.heap.awaited_at(call.return_addr, &mut run.ledger);
    assert_eq!(run.ledger.get(slot, 0), 0);
}

#[test]
fn each_return_is_awaited_at_its_address() {
    let mut run = Run::new();
    let slot = run.heap.awaited_at(MAIN + 0x14, &mut run.ledger);
    let call = run.call(run.main(), 0, MALLOC, [8, 0, 0]);
    assert_eq!(run.ledger.get(slot, 0), 1);
    // As the window opens, the counters are cleared, and it is counted again.
    run.ledger.set(slot, 0, 0);
    run.heap.restart(0, &run.ledger);
    assert_eq!(run.ledger.get(slot, 0), 1);
    run.leave(call, BLOCK);
    assert_eq!(run.ledger.get(slot, 0), 0);
}

#[test]
fn interrupt_has_calls_of_its_own() {
    let mut run = Run::new();
    let call = run.call(run.main(), 0, MALLOC, [8, 0, 0]);
    run.core.exceptions.push(Active {
        number: 1 << 63 | 7,
        handler: THREAD,
        entry_sp: call.sp - 64,
        interrupted: None,
        began_at: 5,
        path: Path::default(),
        nest: Nest::default(),
        node: 0,
        is_preempted: false,
    });
    let handler = Call { function: THREAD, sp: call.sp - 64, return_addr: 0 };
    let free = run.call(handler, 0, FREE, [OTHER, 0, 0]);
    assert_eq!(run.events(), [What::Freed { address: OTHER }]);
    run.leave(free, 0);
    run.core.exceptions.clear();
    run.leave(call, BLOCK);
    assert_eq!(run.events(), [allocated(BLOCK, 8)]);
}

#[test]
fn tasks_have_calls_of_their_own() {
    let mut run = Run::with_tasks(2);
    run.core.task = 1;
    let call = run.call(run.main(), 0, MALLOC, [8, 0, 0]);
    run.core.task = 2;
    // The second task's stack is below the first one's: it is not within that call.
    let other = Call { sp: SP - 0x200, ..run.main() };
    let second = run.call(other, 1, MALLOC, [24, 0, 0]);
    assert!(!run.heap.is_ambiguous(second.return_addr, second.sp));
    run.leave(second, OTHER);
    run.core.task = 1;
    run.leave(call, BLOCK);
    assert_eq!(run.events(), [allocated(OTHER, 24), allocated(BLOCK, 8)]);
    // A call that has gone from a task's stack never returns.
    let call = run.call(run.main(), 0, MALLOC, [8, 0, 0]);
    let above = Call { sp: SP + 0x40, ..run.main() };
    let next = run.call(above, 1, MALLOC, [9, 0, 0]);
    assert_eq!(run.events(), [What::Left { size_bytes: 8 }]);
    run.leave(next, OTHER);
    run.leave(call, BLOCK);
    assert_eq!(run.events(), [allocated(OTHER, 9)]);
}

#[test]
fn oldest_of_too_many_calls_is_given_up() {
    let mut run = Run::with_tasks(513);
    for task in 1..=513 {
        run.core.task = task;
        run.call(run.main(), 0, MALLOC, [task.into(), 0, 0]);
    }
    assert_eq!(run.events(), [What::Left { size_bytes: 1 }]);
    // Of a deleted task's call and a new one with the same stack, either may return.
    assert!(run.heap.is_ambiguous(MAIN + 0x14, SP - FRAME_BYTES));
}

#[test]
fn threads_of_an_unknown_kernel_are_told_apart_by_their_stacks() {
    let mut run = Run::new();
    let call = run.call(run.main(), 0, MALLOC, [8, 0, 0]);
    // Another thread's stack lies below, and begins with a function that returns nowhere.
    let thread = Call { function: THREAD, sp: SP - 0x200, return_addr: 0 };
    let second = run.call(thread, 0, MALLOC, [24, 0, 0]);
    // The first thread's call makes another one meanwhile.
    let inner = run.call(call, 0, CALLOC, [4, 2, 0]);
    run.leave(inner, OTHER);
    run.leave(second, OTHER);
    assert_eq!(run.events(), [allocated(OTHER, 24)]);
    run.leave(call, BLOCK);
    assert_eq!(run.events(), [allocated(BLOCK, 8)]);
    // A call that is gone from its stack may be on an unknown one, until the run ends.
    let gone = run.call(run.main(), 0, MALLOC, [8, 0, 0]);
    let inner = run.call(gone, 0, FREE, [OTHER, 0, 0]);
    run.leave(inner, 0);
    let above = Call { sp: SP + 0x40, ..run.main() };
    let next = run.call(above, 1, MALLOC, [9, 0, 0]);
    run.leave(next, BLOCK);
    run.heap.end(&run.ledger);
    let events = run.events();
    assert!(events.contains(&allocated(BLOCK, 9)) && events.contains(&What::Freed { address: OTHER }), "{events:?}");
}
