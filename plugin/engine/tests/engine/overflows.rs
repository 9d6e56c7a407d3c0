// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a stack that no kernel describes and that leaves its room is noted once, with the instruction that took it
//! there and the stack's extent; and nothing else is taken for such a stack. Situations on one memory: an array, variables
//! above it, and the main stack above these.

use engine::code::Code;
use engine::follow::context::{Active, Core};
use engine::follow::descent::left_memory;
use engine::follow::watermark::Watermark;
use engine::guest::{Context, Guest};
use engine::ledger::Ledger;
use engine::room::Move;
use engine::stack::Stacks;
use wire::definition::{Definition, FrameKind, TASK_COUNTERS, Unknown};
use wire::request::{Isa, Measure, Request};
use wire::unwind::{Base, Row, Rule, Saved};

use crate::fake::{Books, Fake, guest, jal, ledger, only, request};
use crate::shadow::exception;

const CODE: u64 = 0x8000_1000;
const MAIN: u64 = CODE;
/// Has a frame of 16 bytes.
const PLAIN: u64 = CODE + 0x100;
/// Finds its frame, of any size, by the frame pointer.
const FRAMED: u64 = CODE + 0x200;
/// Has 32 bytes of its frame while the stack pointer finds it, and then finds it by the frame pointer.
const BOTH: u64 = CODE + 0x300;
const HANDLER: u64 = CODE + 0x400;
const FUNCTIONS: [u64; 5] = [MAIN, PLAIN, FRAMED, BOTH, HANDLER];

/// The array, in which another stack may be; then variables, and the main stack.
const RAM: u64 = 0x8010_0000;
const ARRAY_END: u64 = RAM + 0x400;
const LOW: u64 = RAM + 0x600;
const TOP: u64 = RAM + 0x1000;
/// Variable with the end of the heap.
const HEAP_END: u64 = RAM + 0x500;

struct Run {
    guest: Guest<Fake>,
    code: Code,
    ledger: Ledger<Books>,
    stacks: Stacks,
    core: Core,
}

fn rows() -> Vec<Row> {
    let plain = Rule {
        base: Base::StackPointer,
        cfa_offset_bytes: 16,
        return_addr: Saved::AtCfa(-4),
        frame_pointer: Saved::Register,
    };
    let framed = Rule { base: Base::FramePointer, cfa_offset_bytes: 0, ..plain };
    let rule = |pc, rule| Row { pc, rule: Some(rule) };
    vec![
        rule(MAIN, plain),
        rule(PLAIN, plain),
        rule(FRAMED, framed),
        rule(BOTH, Rule { cfa_offset_bytes: 32, ..plain }),
        rule(BOTH + 0x10, framed),
        rule(HANDLER, plain),
    ]
}

impl Run {
    fn new() -> Run {
        Run::with(64, None)
    }

    fn with(max_depth: u32, heap_end: Option<u64>) -> Run {
        let measure = Measure {
            functions: FUNCTIONS.map(|start| start..start + 0x100).to_vec(),
            unwind: rows(),
            max_depth: Some(max_depth),
            variables: vec![RAM..ARRAY_END, ARRAY_END..LOW],
            heap_end,
            ..Measure::default()
        };
        let request =
            Request { memory: vec![CODE..CODE + 0x1000, RAM..TOP], ..request(Isa::Riscv32, Some(MAIN), measure) };
        let memory = vec![(CODE, vec![0x13; 0x1000]), (RAM, vec![0; 0x1000])];
        let mut run = Run {
            guest: guest(&request, Fake { memory, ..Fake::riscv(HANDLER) }),
            code: Code::new(&request),
            ledger: ledger(1),
            stacks: Stacks::new(&request).unwrap(),
            core: Core::new(0, false),
        };
        for function in FUNCTIONS {
            run.store(function + 0x24, jal(function + 0x24, PLAIN));
        }
        run
    }

    fn store(&mut self, address: u64, word: u64) {
        self.guest.registers().unwrap().store(address, word);
    }

    fn set(&mut self, registers: &[(&str, u64)]) {
        registers.iter().for_each(|&(name, value)| self.guest.registers().unwrap().set(name, value));
    }

    /// Writes frames of 16 bytes from `sp` on, the outermost of which was called by the main function.
    fn recurse(&mut self, sp: u64, frames: u64) {
        for frame in 0..frames {
            let caller = if frame + 1 == frames { MAIN } else { PLAIN };
            self.store(sp + 16 * frame + 12, after(caller));
        }
    }

    /// Takes a stack, and notes whether it has left its room.
    fn take(&mut self, pc: u64, sp: u64) -> Vec<FrameKind> {
        self.set(&[("sp", sp)]);
        let Run { guest, code, ledger, stacks, core } = self;
        let stack = stacks.take(core, pc, false, guest, code, ledger);
        stacks.note_left(ledger);
        stack
    }

    /// Definitions that were noted.
    fn noted(&self) -> Vec<Definition> {
        self.ledger.records().definitions()
    }

    /// Definitions that are noted of a stack that is taken in the plain function.
    fn taken(mut self, sp: u64) -> Vec<Definition> {
        self.take(PLAIN + 8, sp);
        self.noted()
    }
}

fn after(function: u64) -> u64 {
    function + 0x28
}

/// Record of a stack that a walk from the plain function found outside.
fn found(sp: u64, top: u64) -> Definition {
    Definition::StackLeft { pc: PLAIN + 8, sp, low: LOW, top, at_insns: 0, is_first: false, is_heap: false }
}

#[test]
fn stack_is_noted_once_it_reaches_into_a_variable_and_only_once() {
    for (sp, expected) in [
        (LOW, vec![]),
        (LOW - 16, vec![found(LOW - 16, LOW + 32)]),
        // Within a frame, and with only one frame left above.
        (LOW - 8, vec![found(LOW - 8, LOW + 40)]),
        (LOW - 32, vec![found(LOW - 32, LOW + 16)]),
        // A stack in the array, and one in the variables alone.
        (RAM + 0x3d0, vec![]),
        (LOW - 48, vec![]),
    ] {
        let mut run = Run::new();
        run.recurse(sp, 3);
        assert_eq!(
            run.stacks.low_end(sp + 1),
            Some(if sp < ARRAY_END {
                RAM
            } else if sp < LOW {
                ARRAY_END
            } else {
                LOW
            })
        );
        run.take(PLAIN + 8, sp);
        assert_eq!(run.noted(), expected, "{sp:x}");
        assert_eq!(run.stacks.has_rooms(), expected.is_empty());
        // Later ones are not judged.
        run.take(PLAIN + 8, sp);
        assert_eq!(run.noted(), expected, "{sp:x}");
        assert_eq!(run.stacks.low_end(TOP).is_some(), expected.is_empty());
    }
}

#[test]
fn stack_that_is_empty_at_the_end_of_a_room_is_in_it() {
    let stacks = Run::new().stacks;
    assert_eq!(
        [RAM + 1, ARRAY_END, ARRAY_END + 1, LOW, TOP].map(|sp| stacks.low_end(sp)),
        [Some(RAM), Some(RAM), Some(ARRAY_END), Some(ARRAY_END), Some(LOW),]
    );
}

#[test]
fn a_recursion_beyond_the_greatest_depth_is_passed_to_find_its_room() {
    let deep = |broken: bool| {
        let mut run = Run::with(3, None);
        run.recurse(LOW - 16, 20);
        if broken {
            run.store(LOW + 16 * 9 + 12, PLAIN + 4);
        }
        let stack = run.take(PLAIN + 8, LOW - 16);
        let frame = FrameKind::Caller { return_addr: after(PLAIN) };
        assert_eq!(stack, [frame, frame, frame, FrameKind::Unknown(Unknown::TooDeep)], "it is kept to its depth");
        run.noted()
    };
    assert_eq!(deep(false), [found(LOW - 16, LOW + 19 * 16)]);
    // Where its outer frames are not known, its extent is not, either.
    assert_eq!(deep(true), [found(LOW - 16, 0)]);
}

#[test]
fn outermost_frame_belongs_to_the_stack_but_proves_nothing() {
    // A function without a caller: its frame alone reaches into the variables.
    assert_eq!(Run::new().taken(LOW - 8), []);
    let mut run = Run::new();
    run.store(LOW - 4, after(PLAIN));
    run.store(LOW + 12, after(PLAIN));
    assert_eq!(run.taken(LOW - 16), [found(LOW - 16, LOW + 32)]);
}

#[test]
fn heap_that_ends_among_the_frames_has_met_the_stack() {
    for (heap_end, low) in
        [(LOW + 0x100, None), (LOW + 0x110, Some(LOW + 0x110)), (LOW + 0x130, Some(LOW + 0x130)), (LOW + 0x134, None)]
    {
        let mut run = Run::with(64, Some(HEAP_END));
        run.recurse(LOW + 0x100, 3);
        run.store(HEAP_END, heap_end);
        let expected = low.map(|low| Definition::StackLeft {
            pc: PLAIN + 8,
            sp: LOW + 0x100,
            low,
            top: LOW + 0x130,
            at_insns: 0,
            is_first: false,
            is_heap: true,
        });
        assert_eq!(run.taken(LOW + 0x100), Vec::from_iter(expected), "{heap_end:x}");
    }
    // A stack that has left its room, too, is not the heap's.
    let mut run = Run::with(64, Some(HEAP_END));
    run.recurse(LOW - 16, 3);
    run.store(HEAP_END, LOW + 8);
    assert_eq!(run.taken(LOW - 16), [found(LOW - 16, LOW + 32)]);
}

#[test]
fn stack_of_a_task_is_the_kernels() {
    let mut run = Run::new();
    run.recurse(LOW - 16, 3);
    let slot = run.ledger.new_slots(TASK_COUNTERS);
    run.core.watermark = Some(Watermark::new(slot, RAM..ARRAY_END));
    assert_eq!(run.taken(LOW - 16), []);
}

/// A frame that the frame pointer finds, from the variables to the main stack, below a plain one.
fn framed(function: u64, sp: u64, fp: u64) -> Run {
    let mut run = Run::new();
    run.set(&[("sp", sp), ("fp", fp)]);
    run.store(fp - 4, after(MAIN));
    run.store(sp + 12, after(function));
    run
}

#[test]
fn distance_to_another_stack_is_no_frame() {
    let (sp, fp) = (LOW - 48, LOW + 16);
    let walked = |mut run: Run, pc, sp| {
        let stack = run.take(pc, sp);
        assert_eq!(stack.last(), Some(&FrameKind::Caller { return_addr: after(MAIN) }));
        run.noted()
    };
    // Its caller may have kept its own stack in the frame pointer and gone on with another.
    assert_eq!(walked(framed(FRAMED, sp, fp), PLAIN + 8, sp), []);
    // A frame is as large as its code makes it: 32 bytes.
    assert_eq!(walked(framed(BOTH, fp - 48, fp), PLAIN + 8, fp - 48), [found(fp - 48, fp)]);
    assert_eq!(walked(framed(BOTH, fp - 52, fp), PLAIN + 8, fp - 52), []);
    // What was found before such a frame stays.
    let mut run = framed(FRAMED, LOW - 8, LOW + 0x80);
    assert_eq!(run.take(PLAIN + 8, LOW - 8).len(), 2);
    assert_eq!(run.noted(), [found(LOW - 8, LOW + 8)]);
}

/// Rooms after an instruction of the framed function, and the definitions that are noted.
fn checked(insn: u64, sp: u64, fp: u64) -> (std::ops::Range<u64>, Vec<Definition>) {
    let mut run = Run::new();
    run.set(&[("sp", sp), ("fp", fp)]);
    run.store(fp - 4, after(MAIN));
    run.store(FRAMED + 0x40, insn);
    let Run { guest, code, ledger, stacks, core } = &mut run;
    let room = stacks.check_room(core, (FRAMED + 0x44, false), (FRAMED + 0x40, 77), guest, code, ledger);
    (room, run.noted())
}

#[test]
fn array_of_a_length_that_code_is_told_leaves_the_room_with_the_instruction_that_makes_it() {
    // sub sp, sp, a5: the frame is made, whatever its size.
    const SUB: u64 = 0x40f1_0133;
    const MV: u64 = 0x0005_0113;
    let (sp, fp) = (RAM + 0x380, LOW + 0x40);
    let left = Definition::StackLeft {
        pc: FRAMED + 0x40,
        sp,
        low: LOW,
        top: fp,
        at_insns: 77,
        is_first: true,
        is_heap: false,
    };
    assert_eq!(checked(SUB, sp, fp), (0..u64::MAX, vec![left]));
    // mv sp, a0: another stack.
    assert_eq!(checked(MV, sp, fp), (RAM..ARRAY_END, vec![]));
    // Within the room, whose limits are what is watched from then on.
    assert_eq!(checked(SUB, LOW, fp), (LOW..u64::MAX, vec![]));
}

/// Rooms at the start of a block with such moves, and the definitions that are noted.
fn before(sp: u64, moves: &[Move], is_task: bool) -> (std::ops::Range<u64>, Vec<Definition>) {
    let mut run = Run::new();
    run.recurse(sp, 3);
    run.set(&[("sp", sp)]);
    if is_task {
        let slot = run.ledger.new_slots(TASK_COUNTERS);
        run.core.watermark = Some(Watermark::new(slot, RAM..ARRAY_END));
    }
    let Run { guest, code, ledger, stacks, core } = &mut run;
    let mover = |index| (PLAIN + 8 + 4 * index, 100 + index);
    let room = stacks.check_depth(core, (PLAIN + 8, false), (moves, mover), guest, code, ledger);
    (room, run.noted())
}

#[test]
fn block_leaves_the_room_with_its_first_instruction_that_is_deep_enough() {
    let moves = [Move { index: 1, depth: 16 }, Move { index: 4, depth: 48 }, Move { index: 6, depth: 64 }];
    let left = |index: u64, sp| Definition::StackLeft {
        pc: PLAIN + 8 + 4 * index,
        sp,
        low: LOW,
        top: LOW + 0x20 + 48,
        at_insns: 100 + index,
        is_first: true,
        is_heap: false,
    };
    let sp = LOW + 0x20;
    assert_eq!(before(sp, &moves, false), (0..u64::MAX, vec![left(4, sp - 48)]));
    // To the last byte.
    assert_eq!(before(sp, &[Move { index: 1, depth: 0x20 }], false), (LOW..u64::MAX, vec![]));
    assert_eq!(before(sp, &[Move { index: 1, depth: 0x24 }], false), (0..u64::MAX, vec![left(1, sp - 0x24)]));
    // Nothing is judged on a task's stack, and without moves nothing leaves.
    assert_eq!(before(sp, &moves, true), (ARRAY_END..LOW, vec![]));
    assert_eq!(before(sp, &[], false), (LOW..u64::MAX, vec![]));
}

#[test]
fn handler_on_the_stack_of_the_interrupted_code_takes_it_further() {
    // The handler's frame is 16 bytes, and above it are those that the exception has saved.
    let interrupted = |entry_sp: u64, sp: u64, is_task: bool| {
        let mut run = Run::new();
        let slot = run.ledger.new_slots(TASK_COUNTERS);
        run.core.watermark = is_task.then(|| Watermark::new(slot, RAM..ARRAY_END));
        let context = Context { pc: PLAIN + 8, sp, return_addr: 0, second_return_addr: 0, frame_pointer: 0 };
        run.core.exceptions =
            vec![Active { handler: HANDLER, interrupted: Some(context), ..exception(7, entry_sp, 0) }];
        run.store(sp + 12, after(MAIN));
        let stack = run.take(HANDLER + 8, entry_sp - 16);
        assert_eq!(stack.len(), 2, "{stack:?}");
        run.noted()
    };
    let left = |sp, top| match found(sp, top) {
        Definition::StackLeft { sp, low, top, at_insns, is_first, is_heap, .. } => {
            Definition::StackLeft { pc: HANDLER + 8, sp, low, top, at_insns, is_first, is_heap }
        }
        other => other,
    };
    assert_eq!(interrupted(LOW, LOW, false), [left(LOW - 16, LOW + 16)], "nothing is saved");
    assert_eq!(interrupted(LOW - 8, LOW + 24, false), [left(LOW - 24, LOW + 40)], "32 bytes are saved");
    assert_eq!(interrupted(LOW + 16, LOW + 16, false), [], "all of it is in the room");
    assert_eq!(
        interrupted(LOW - 0x80, LOW + 0x80, false),
        [left(LOW - 0x90, LOW + 0x90)],
        "the most that can be saved"
    );
    assert_eq!(interrupted(LOW - 0x84, LOW + 0x80, false), [], "a stack of its own");
    assert_eq!(interrupted(LOW, LOW, true), [], "a task's stack, on which exceptions begin, too");
}

#[test]
fn stack_pointer_below_a_memory_has_left_it() {
    const MIB: u64 = 1 << 20;
    let memories = vec![0x1000_0000..0x1000_1000, 0x2000_0000..0x2000_1000];
    let request = Request { memory: memories, ..request(Isa::Riscv32, None, Measure::default()) };
    for (sp, left) in [
        // In memory, and at the top of an empty stack.
        (0x2000_0000, None),
        (0x2000_0800, None),
        (0x2000_1000, None),
        (0x1000_1000, None),
        (0x1fff_fffc, Some(0x2000_0000)),
        (0x0fff_fff0, Some(0x1000_0000)),
        // As far below as a recursion gets between two looks.
        (0x2000_0000 - 64 * MIB, Some(0x2000_0000)),
        (0x2000_0000 - 64 * MIB - 4, None),
        // Above all memory; and where no stack was set up.
        (0x3000_0000, None),
        (0, None),
    ] {
        let mut fake = Fake::riscv(0);
        fake.set("sp", sp);
        assert_eq!(left_memory(&mut guest(&request, fake)), left, "{sp:x}");
    }
    let low = Request { memory: only(0x1000..0x2000), ..request };
    assert_eq!(left_memory(&mut guest(&low, Fake::riscv(0))), None, "no stack pointer has been set, near a memory");
}
