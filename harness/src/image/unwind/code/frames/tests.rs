// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames of code that does not keep the rules of compilers: a bound must not be below what it takes.

use decode::Isa;

use super::super::super::Hints;
use super::super::testing::{looks, of_code};
use super::*;

const LEAF: [u16; 1] = [0x4770];
const PUSH: [u16; 1] = [0xb510];
const C_RET: [u16; 1] = [0x8082];

/// Functions by their code, one behind the other.
struct Program {
    isa: Isa,
    halves: Vec<u16>,
    functions: Vec<Range<u64>>,
}

impl Program {
    fn new(isa: Isa) -> Program {
        Program { isa, halves: Vec::new(), functions: Vec::new() }
    }

    /// Adds a function, of which the symbol has only some bytes.
    fn function(mut self, parts: &[&[u16]], symbol_bytes: Option<u64>) -> Program {
        let start = self.halves.len() as u64 * 2;
        self.halves.extend(parts.concat());
        let end = self.halves.len() as u64 * 2;
        self.functions.push(start..symbol_bytes.map_or(end, |bytes| start + bytes));
        self
    }

    fn frames(&self, compiled: &[u64]) -> Vec<Frame> {
        let compiled = compiled.iter().copied().collect();
        self.frames_of(&Compiled { all: &compiled, regular: &compiled })
    }

    /// Frames where a compiler has made all functions, and describes them as ones without a frame.
    fn described(&self) -> Vec<Frame> {
        let all = self.functions.iter().map(|function| function.start).collect();
        self.frames_of(&Compiled { all: &all, regular: &BTreeSet::new() })
    }

    fn frames_of(&self, compiled: &Compiled<'_>) -> Vec<Frame> {
        let segments = of_code(&self.halves);
        let code = Code { isa: self.isa, segments: &segments, load_bias: 0, hints: Hints::default() };
        frames(&code, &self.functions, &[], compiled)
    }

    /// Most bytes of the first function with all that it reaches; None: that is not known.
    fn most(&self) -> Option<u64> {
        most(&self.frames(&[]), 0, 8)
    }
}

/// Most bytes of a path of at most so many functions.
fn most(frames: &[Frame], index: usize, functions: u32) -> Option<u64> {
    let (frame, rest) = (&frames[index], functions.checked_sub(1)?);
    if frame.open_end.is_some() || frame.dynamic.is_some() {
        return None;
    }
    frame.transfers.iter().try_fold(frame.deepest_bytes, |deepest, transfer| {
        let target = transfer.target?;
        let callee = frames.iter().position(|frame| frame.function.contains(&target))?;
        Some(deepest.max(transfer.depth_bytes + most(frames, callee, rest)?))
    })
}

/// A 32-bit instruction of RISC-V.
fn word(word: u32) -> [u16; 2] {
    [word as u16, (word >> 16) as u16]
}

/// `bl` over this many bytes, from its own address on.
fn bl(distance_bytes: u16) -> [u16; 2] {
    [0xf000, 0xf800 | ((distance_bytes - 4) / 2)]
}

/// `jal ra` over this many bytes.
fn jal(distance_bytes: u32) -> [u16; 2] {
    word((distance_bytes & 0x7fe) << 20 | 0xef)
}

/// `addi register, register, number`.
fn addi(register: u32, number: i32) -> [u16; 2] {
    word((number as u32 & 0xfff) << 20 | register << 15 | register << 7 | 0x13)
}

/// Thumb code that goes on behind a call, in a function that takes 408 bytes more: `sub sp, #400; push {r5, lr}; bl;
/// pop {r5, lr}; add sp, #400; pop {r4, pc}`.
fn rest() -> Vec<u16> {
    [&[0xb0e4, 0xb520][..], &bl(12), &[0xe8bd, 0x4020, 0xb064, 0xbd10]].concat()
}

#[test]
fn code_that_runs_into_the_next_function_takes_its_stack_too() {
    let thumb = || Program::new(Isa::ThumbV7m);
    let end = |program: Program| program.function(&[&rest()], None).function(&[&LEAF], None);
    // It ends in a call, in another instruction, in padding behind a symbol of two bytes, in a trap, in a call through a
    // register, in a branch back.
    let programs = [
        end(thumb().function(&[&PUSH, &bl(20)], None)),
        end(thumb().function(&[&PUSH, &bl(22), &[0xbf40]], None)),
        end(thumb().function(&[&PUSH, &bl(24), &[0xbf00, 0x0000]], Some(2))),
        end(thumb().function(&[&PUSH, &[0xde00]], None)),
        end(thumb().function(&[&PUSH, &[0x4b07, 0x2401, 0x3c01, 0xd1fd]], None)),
    ];
    for (number, program) in programs.iter().enumerate() {
        assert_eq!(program.most(), Some(8 + 408), "{number}: {:x?}", program.frames(&[]));
    }
    // A compiler ends a function by a call that does not return, or by a trap; one with assembly inside only by a trap.
    for (program, described) in [(&programs[0], 8 + 408), (&programs[3], 8)] {
        assert_eq!(most(&program.frames(&[0]), 0, 8), Some(8));
        assert_eq!(most(&program.described(), 0, 8), Some(described));
    }
}

#[test]
fn code_that_goes_on_where_there_is_no_function_has_no_bound() {
    let thumb = || Program::new(Isa::ThumbV7m).function(&[&LEAF], None);
    let open = |program: Program| program.frames(&[]).last().unwrap().open_end;
    assert_eq!(open(thumb().function(&[&PUSH, &[0x3401]], None)), Some(4));
    assert_eq!(open(thumb().function(&[&PUSH, &[0xde00]], None)), Some(4), "a trap that may be skipped");
    assert_eq!(open(thumb().function(&[&PUSH, &[0xe7fe]], None)), None, "a loop");
    assert_eq!(open(thumb().function(&[&PUSH, &[0xbd10]], None)), None);
    // A jump out of all functions has a target, which is none.
    let jump = Program::new(Isa::ThumbV7m).function(&[&PUSH, &[0xe0fe]], None);
    assert_eq!(jump.most(), None);
}

#[test]
fn a_return_to_another_address_than_the_callers_is_a_jump() {
    // ldr r0, =target; push {r0}; pop {pc}
    let thumb = |body: &[u16], literal: u16| {
        let other = [&[0xb0b2][..], &bl(8), &[0xb032, 0xbd10]].concat();
        let program = Program::new(Isa::ThumbV7m).function(&[body, &[literal, 0]], None);
        program.function(&[&other], None).function(&[&LEAF], None)
    };
    let pushed = thumb(&[0xb510, 0x4801, 0xb401, 0xbd00], 0x0d);
    assert_eq!(pushed.most(), Some(8 + 200), "{:x?}", pushed.frames(&[]));
    // ldr r0, =target; mov lr, r0; bx lr
    let linked = thumb(&[0x4801, 0x4686, 0x4770, 0xbf00], 0x0d);
    assert_eq!(linked.frames(&[])[0].transfers[0].target, Some(0xc));
    // The address is an argument.
    assert_eq!(thumb(&[0xb510, 0xb401, 0xbd00, 0xbf00], 0).most(), None);
    // ldr.w pc, =target: a veneer
    assert_eq!(thumb(&[0xb510, 0xbf00, 0xf8df, 0xf000], 0x0d).most(), Some(8 + 200));
    // bx to the value of an exception's return; a task's lr comes from its own stack: mrs r0, psp; ldr lr, [r0]; bx lr.
    assert_eq!(thumb(&[0x4801, 0x4686, 0x4770, 0xbf00], 0xffff).frames(&[])[0].transfers.len(), 1);
    let switch = Program::new(Isa::ThumbV7m).function(&[&[0xf3ef, 0x8009, 0xf8d0, 0xe000], &LEAF], None);
    assert_eq!(switch.frames(&[])[0].transfers, []);
    // lla ra, target; ret and lla t0, target; jr t0
    for (register, jump) in [(1, 0x8082), (5, 0x8282)] {
        let body = [&word(register << 7 | 0x17)[..], &addi(register, 10), &[jump]].concat();
        let program = Program::new(Isa::Riscv64).function(&[&body], None);
        // The target ends in a loop, since the link register has its address.
        let program = program.function(&[&addi(2, -400), &[0xa001]], None);
        assert_eq!(program.most(), Some(400), "{register}: {:x?}", program.frames(&[]));
    }
    // lw t0, 0(a0); jr t0
    let loaded = Program::new(Isa::Riscv32).function(&[&word(0x0005_2283), &[0x8282]], None);
    assert_eq!(loaded.most(), None);
}

#[test]
fn code_behind_a_trap_counts_since_a_handler_may_skip_the_trap() {
    // c.ebreak, unimp, ebreak
    for trap in [&[0x9002][..], &word(0xc000_1073), &word(0x0010_0073)] {
        let callee = [&[0x1141][..], trap, &[0x0141, 0x8082]].concat();
        let to_callee = 4 + 4 + 4 + 2;
        let program = Program::new(Isa::Riscv64)
            .function(&[&jal(to_callee), &addi(2, -400), &addi(2, 400), &C_RET], None)
            .function(&[&callee], None);
        // The first call does not save the return address, so that the second function is seen as called.
        for compiled in [&[][..], &[0, to_callee.into()]] {
            let frames = program.frames(compiled);
            assert_eq!((frames[0].deepest_bytes, frames[1].never_returns), (400, false), "{trap:x?} {compiled:?}");
        }
    }
}

#[test]
fn an_array_of_variable_length_is_seen_in_every_form() {
    // mov r3, sp; subs r3, r3, r0; mov sp, r3 (no Thumb-2), sub.w sp, sp, r0
    let thumb =
        Program::new(Isa::ThumbV6m).function(&[&[0xb580, 0xaf00, 0x466b, 0x1a1b, 0x469d, 0x46bd, 0xbd80]], None);
    assert_eq!(thumb.frames(&[])[0].dynamic, Some(8));
    // addi s0, sp, 0; sub t1, sp, a0; mv sp, t1
    let riscv = [&word(0x0001_0413)[..], &word(0x40a1_0333), &word(0x0003_0113), &C_RET].concat();
    let riscv = Program::new(Isa::Riscv64).function(&[&riscv], None);
    assert_eq!(riscv.frames(&[])[0].dynamic, Some(8));
}

#[test]
fn zcmps_pushes_and_pops_are_in_the_frame() {
    // cm.push {ra, s0-s11}, -64; addi sp, sp, -48; addi sp, sp, 48; cm.popret
    let body = [&[0xb8f2][..], &addi(2, -48), &addi(2, 48), &[0xbef2]].concat();
    for (isa, bytes) in [(Isa::Riscv32Zc, 64 + 48), (Isa::Riscv64Zc, 112 + 48)] {
        let program = Program::new(isa).function(&[&body], None);
        assert_eq!(program.most(), Some(bytes), "{:x?}", program.frames(&[]));
    }
    // An early cm.popretz; cm.push, cm.pop, c.jr ra; cm.popret without a push returns to an unknown place.
    let early = [&[0xb872, 0xc111, 0xbc72][..], &jal(4), &[0xbe72]].concat();
    let early = Program::new(Isa::Riscv32Zc).function(&[&early], None).function(&[&C_RET], None);
    assert_eq!(early.most(), Some(16), "{:x?}", early.frames(&[]));
    assert_eq!(Program::new(Isa::Riscv32Zc).function(&[&[0xb842, 0xba42, 0x8082]], None).most(), Some(16));
    // cm.jt 3: its table is not known.
    assert_eq!(Program::new(Isa::Riscv32Zc).function(&[&[0xb842, 0xa00e]], None).most(), None);
}

#[test]
fn padding_behind_an_endless_loop_is_not_run_into() {
    // `csrr t0, mcause; j .`, and zeros up to the next function.
    let frames = Program::new(Isa::Riscv64)
        .function(&[&word(0x3420_22f3), &[0xa001, 0, 0]], None)
        .function(&[&addi(2, -400), &addi(2, 400), &C_RET], None)
        .frames(&[]);
    assert_eq!((&frames[0].transfers, frames[0].open_end), (&vec![], None), "{frames:x?}");
}

#[test]
fn an_outlined_epilogue_returns_by_the_second_link_register() {
    // `addi sp, -16; sd ra, 8(sp); jal t0, 6; ret`, and `ld ra, 8(sp); addi sp, 16; jr t0`.
    let jal_t0 = word(6 << 20 | 5 << 7 | 0x6f);
    let caller = [&addi(2, -16)[..], &[0xe406], &jal_t0, &C_RET].concat();
    let outlined = [&[0x60a2], &addi(2, 16)[..], &[0x8282]].concat();
    let program = |caller: &[u16]| {
        Program::new(Isa::Riscv64).function(&[caller], None).function(&[&outlined], None).frames(&[0])
    };
    let frames = program(&caller);
    assert_eq!((most(&frames, 0, 8), frames[1].transfers.len()), (Some(16), 0), "{frames:x?}");
    // Called by the first link register, it goes to wherever the second one leads.
    let [low, high] = jal(6);
    let called = [&addi(2, -16)[..], &[0xe406, low, high], &C_RET].concat();
    assert_eq!(program(&called)[1].transfers.first().map(|transfer| transfer.target), Some(None));
}

#[test]
fn a_function_with_many_returns_is_read_once() {
    // `mv ra, a1`, and returns that branches lead around: of each it is asked whether the function calls a part of itself.
    let looks_at = |returns: usize| {
        let around = [&word(0x0005_0463)[..], &C_RET, &[0x0001]].concat();
        let code = [&[0x80ae][..], &around.repeat(returns), &C_RET].concat();
        let program = Program::new(Isa::Riscv64).function(&[&code], None);
        let (frames, looks) = looks(|| program.frames(&[]));
        assert_eq!(frames[0].transfers.len(), returns + 1, "each goes to wherever a1 leads");
        looks
    };
    let (few, many) = (looks_at(50), looks_at(100));
    assert!(many <= few * 2 + few / 2, "{few} looks for 50 returns, {many} for 100");
}
