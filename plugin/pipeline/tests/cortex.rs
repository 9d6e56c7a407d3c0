// SPDX-License-Identifier: MIT OR Apache-2.0
//! Short sequences on Cortex-M0 to M4, with the cycles that the manuals give them (`src/cortex.rs` names the sources). Whole
//! routines were compared with boards outside of this repository.

use pipeline::Cycles;
use pipeline::cortex::{Core, State};
use pipeline::thumb::{Class, Insn};

const PC: u64 = 0x800;
const M0: Core = Core::M0 { multiplies_fast: false };
const M0_PLUS: Core = Core::M0Plus { multiplies_fast: true };

const NOP: u32 = 0xbf00;
const NOP_W: u32 = 0xf3af_8000;
/// `add r2, r0`, and `adds.w r4, r4, #1`.
const ADD: u32 = 0x4402;
const ADD_W: u32 = 0xf114_0401;
/// `ldr r0, [r1]`, `ldr r1, [r2]`, `ldr r1, [r0]`, `ldr r3, [sp]`, `ldr.w r9, [r1]`.
const LDR: u32 = 0x6808;
const LDR_NEXT: u32 = 0x6811;
const LDR_LOADED: u32 = 0x6801;
const LDR_SP: u32 = 0x9b00;
const LDR_W: u32 = 0xf8d1_9000;
/// `str r0, [r3, #20]`, and `str r1, [r3, r2]`.
const STR: u32 = 0x6158;
const STR_INDEX: u32 = 0x5099;
/// `bne`, `b` and `bl`, to anywhere, and `bx lr`.
const BNE: u32 = 0xd1fe;
const B: u32 = 0xe7fe;
const BL: u32 = 0xf7ff_fffe;
const BX: u32 = 0x4770;
/// `pop {r4, r5, pc}`.
const POP_PC: u32 = 0xbd30;

/// Decodes an instruction, the first half-word above the second if it has two.
fn insn(code: u32) -> Insn {
    match code >> 16 {
        0 => Insn::decode(&(code as u16).to_le_bytes()),
        first => Insn::decode(&[first.to_le_bytes(), code.to_le_bytes()].map(|half| [half[0], half[1]]).concat()),
    }
}

/// Cycles of each step of a path: addresses with the instruction there. The last one is only where it leads.
fn path(core: Core, steps: &[(u64, u32)]) -> Vec<Cycles> {
    let mut state = State::at_reset(core, steps[0].0);
    state.wait(core, steps[0].0, &insn(steps[0].1));
    let cycles = steps.windows(2).map(|pair| {
        let [(pc, code), (next, then)] = [pair[0], pair[1]];
        state.execute(core, pc, &insn(code), next) + state.wait(core, next, &insn(then))
    });
    cycles.collect()
}

/// Cycles of each instruction of a line of code, between others.
fn line(core: Core, codes: &[u32]) -> Vec<Cycles> {
    let mut pc = PC;
    let mut steps = Vec::new();
    // The queue is full behind the first ones.
    for &code in [NOP; 8].iter().chain(codes).chain(&[ADD]) {
        steps.push((pc, code));
        pc += if code >> 16 == 0 { 2 } else { 4 };
    }
    path(core, &steps).split_off(8)
}

fn nominal(cycles: &[Cycles]) -> Vec<u64> {
    cycles.iter().map(|cycles| cycles.nominal).collect()
}

fn interval(cycles: &[Cycles]) -> [u64; 2] {
    let sum: Cycles = cycles.iter().copied().sum();
    [sum.least, sum.most]
}

#[test]
fn loads_that_follow_each_other_take_a_cycle_each() {
    for core in [Core::M3, Core::M4] {
        // The manuals' examples: two loads 3, three 4, a load and a store of what it loads 3 (on M3 boards 2).
        assert_eq!(nominal(&line(core, &[LDR, LDR_NEXT])), [1, 2]);
        assert_eq!(nominal(&line(core, &[0x5948, LDR_NEXT, 0x685a])), [1, 1, 2]);
        let both = line(core, &[0x5888, STR]);
        assert_eq!(interval(&both), [2, 3]);
        assert_eq!(nominal(&both), if core == Core::M3 { [1, 1] } else { [2, 1] });
        // An address that the first one loads, and an instruction that needs nothing.
        assert_eq!(nominal(&line(core, &[LDR, LDR_LOADED])), [2, 2]);
        assert_eq!(nominal(&line(core, &[LDR, 0x2003])), [2, 1]);
        assert_eq!(nominal(&line(core, &[LDR, NOP])), [1, 1]);
    }
}

#[test]
fn a_load_from_elsewhere_than_the_stack_may_meet_a_fetch() {
    assert_eq!(interval(&line(Core::M3, &[LDR])), [2, 3]);
    assert_eq!(interval(&line(Core::M3, &[LDR_SP])), [2, 2]);
    // Once for all loads that follow each other.
    assert_eq!(interval(&line(Core::M3, &[LDR, LDR_NEXT, LDR_SP])), [4, 5]);
    assert_eq!(interval(&line(Core::M3, &[LDR_SP, LDR_SP])), [3, 3]);
    // ldrd, and four bytes in two words.
    assert_eq!(interval(&line(Core::M4, &[0xe9d2_0100])), [3, 4]);
    assert_eq!(interval(&line(Core::M4, &[LDR_SP, LDR_W])), [3, 5]);
    // The next ones are others.
    assert_eq!(interval(&line(Core::M4, &[0xe9d2_0100, LDR_SP])), [5, 6]);
}

#[test]
fn an_address_that_was_just_computed_is_waited_for() {
    // adds r1, #4, then loads and stores at r1 and at r3.
    for core in [Core::M3, Core::M4] {
        assert_eq!(nominal(&line(core, &[0x3104, LDR])), [2, 2]);
        assert_eq!(nominal(&line(core, &[0x3104, 0xf841_0b04])), [2, 1]);
        assert_eq!(nominal(&line(core, &[0x3104, STR])), [1, 1]);
        assert_eq!(nominal(&line(core, &[0x3104, NOP, LDR])), [1, 1, 2]);
    }
}

#[test]
fn a_base_that_is_written_back_pairs_on_m4_alone() {
    // ldr r0, [r1], #4, and ldr r2, [r3], #4.
    let (first, second) = (0xf851_0b04, 0xf853_2b04);
    assert_eq!(nominal(&line(Core::M3, &[first, second])), [2, 2]);
    assert_eq!(nominal(&line(Core::M4, &[first, second])), [1, 2]);
    assert_eq!(nominal(&line(Core::M4, &[first, first])), [2, 2]);
}

#[test]
fn a_store_takes_a_cycle_and_one_with_an_index_two() {
    for core in [Core::M3, Core::M4] {
        assert_eq!(nominal(&line(core, &[STR, STR, ADD])), [1, 1, 1]);
        assert_eq!(nominal(&line(core, &[STR_INDEX, ADD])), [2, 1]);
        assert_eq!(nominal(&line(core, &[STR_INDEX, NOP])), [1, 1]);
        let loads = line(core, &[STR, LDR_SP]);
        assert_eq!((nominal(&loads), interval(&loads)), (vec![2, 2], [3, 4]));
    }
}

#[test]
fn several_registers_take_one_more_than_there_are() {
    // push {r4, r5, lr}, pop {r4, r5}, strd, stmdb sp!, {r9, r10}, vpush {d8, d9}.
    for core in [Core::M3, Core::M4] {
        assert_eq!(nominal(&line(core, &[0xb530, 0xbc30, 0xe9c2_0100, 0xe92d_0600])), [4, 3, 3, 3]);
    }
    assert_eq!(nominal(&line(Core::M4, &[0xed2d_8b04])), [5]);
    // A load before them does not pair.
    assert_eq!(nominal(&line(Core::M4, &[LDR, 0xbc30])), [2, 3]);
}

#[test]
fn multiplications_and_divisions_take_what_the_manuals_say() {
    // mul, mla, umull, umlal, udiv.
    let codes = [0xfb01_f002, 0xfb01_3002, 0xfba2_0103, 0xfbe2_0103, 0xfbb1_f0f2];
    let between = |core: Core| codes.map(|code| interval(&line(core, &[code])));
    assert_eq!(between(Core::M3), [[1, 1], [2, 2], [3, 5], [4, 7], [2, 12]]);
    assert_eq!(between(Core::M4), [[1, 1], [1, 2], [1, 1], [1, 1], [2, 12]]);
}

#[test]
fn what_no_manual_numbers_is_an_interval() {
    // mrs, dsb, isb, wfi.
    for (code, between) in [(0xf3ef_8010, [1, 2]), (0xf3bf_8f4f, [1, 4]), (0xf3bf_8f6f, [2, 5]), (0xbf30, [1, 4])] {
        assert_eq!(interval(&line(Core::M4, &[code])), between, "{code:x}");
    }
    // ldr pc, [r0].
    let loaded = path(Core::M4, &[(PC, 0xf8d0_f000), (PC + 64, NOP), (PC + 66, NOP)]);
    assert_eq!(loaded[0].most, 6, "3.3.3: at least five");
    assert_eq!(State::at_reset(Core::M4, PC).interrupted(Core::M4, PC).most, 28);
}

#[test]
fn a_taken_branch_takes_until_its_target_executes() {
    let taken = |code: u32, target: u64, then: u32| {
        let cycles = path(Core::M3, &[(PC, NOP), (PC + 2, code), (target, then), (target + 4, NOP)]);
        (cycles[1].nominal, [cycles[1].least, cycles[1].most])
    };
    for code in [BNE, B, BL] {
        assert_eq!(taken(code, PC + 64, NOP_W), (2, [2, 3]), "{code:x}");
        assert_eq!(taken(code, PC + 66, NOP), (2, [2, 3]), "{code:x}");
        assert_eq!(taken(code, PC + 66, NOP_W), (3, [3, 4]), "{code:x}");
    }
    assert_eq!(taken(BX, PC + 64, NOP), (2, [2, 3]));
    assert_eq!(taken(BX, PC + 66, NOP_W), (3, [2, 4]));
    let on_m4 = path(Core::M4, &[(PC, NOP), (PC + 2, BX), (PC + 64, NOP), (PC + 66, NOP)]);
    assert_eq!(nominal(&on_m4), [1, 3, 1]);
    // pop {r4, r5, pc}, and tbb [pc, r0].
    assert_eq!(taken(POP_PC, PC + 64, NOP), (5, [5, 7]));
    assert_eq!(taken(0xe8df_f000, PC + 64, NOP), (6, [6, 7]));
    let straight = path(Core::M3, &[(PC, NOP), (PC + 2, BNE), (PC + 4, NOP), (PC + 6, NOP)]);
    assert_eq!(nominal(&straight), [1, 1, 1]);
}

#[test]
fn a_branch_that_goes_on_has_asked_for_its_target() {
    // Without a word ahead, one behind it comes late (the notes' template).
    let turn = |body: &[u32]| {
        let (mut pc, mut steps) = (PC + 64, vec![(PC, B)]);
        // bne.w, and what follows.
        for &code in body.iter().chain(&[0xf47f_affe, NOP_W, NOP_W, NOP_W]) {
            steps.push((pc, code));
            pc += if code >> 16 == 0 { 2 } else { 4 };
        }
        path(Core::M4, &steps).split_off(1 + body.len())
    };
    let wide = turn(&[NOP_W, NOP_W]);
    assert_eq!((nominal(&wide), interval(&wide)), (vec![1, 2, 1], [3, 4]));
    assert_eq!(nominal(&turn(&[NOP_W, NOP, NOP])), [1, 1, 1]);
}

#[test]
fn the_fetch_starts_late_when_an_instruction_has_held_it_up() {
    // stmdb sp!, {r9, r10} in two words, and what follows in two words each.
    let run = |count: usize| {
        let codes: Vec<_> = [NOP, 0xe92d_0600].into_iter().chain(vec![ADD_W; count]).collect();
        line(Core::M4, &codes)
    };
    assert_eq!(nominal(&run(4)), [1, 3, 1, 2, 1, 1]);
    assert_eq!(interval(&run(4)), [8, 9]);
    assert_eq!(nominal(&run(1)), [1, 3, 1]);
    // In one word each.
    assert_eq!(nominal(&line(Core::M4, &[0xe92d_0600, ADD_W, ADD_W, ADD_W, ADD_W])), [3, 1, 1, 1, 1]);
}

#[test]
fn it_takes_no_cycle_behind_an_instruction_of_two_bytes() {
    // it eq, and what is perhaps not executed: a load, a store of two words.
    let conditional = line(Core::M3, &[ADD, 0xbf08, LDR_SP, ADD]);
    assert_eq!((nominal(&conditional), interval(&conditional)), (vec![1, 0, 2, 1], [3, 5]));
    assert_eq!(nominal(&line(Core::M3, &[ADD_W, 0xbf08, ADD])), [1, 1, 1]);
    // itte eq has three.
    let three = line(Core::M3, &[ADD, 0xbf06, 0xb430, 0xb430, 0xb430, 0xb430]);
    assert_eq!(interval(&three), [1 + 3 + 3, 1 + 1 + 4 * 3]);
}

#[test]
fn floating_point_waits_for_its_operands() {
    // vadd s0, s1, s2; vmul s3, s0, s4; vfma s0, s1, s2; vdiv s0, s1, s2; vmov r0, r1, d1.
    let (add, needs, accumulate, divide, pair) = (0xee30_0a81, 0xee60_1a02, 0xeea0_0a81, 0xee80_0a81, 0xec51_0b11);
    let straight = |codes: &[u32]| nominal(&line(Core::M4, codes));
    assert_eq!(straight(&[add, needs, ADD]), [2, 1, 1]);
    assert_eq!(straight(&[add, ADD, needs]), [1, 1, 1]);
    assert_eq!(straight(&[accumulate, ADD, pair]), [3, 1, 2]);
    // A division goes on beside other instructions.
    assert_eq!(straight(&[divide, needs]), [14, 1]);
    assert_eq!(straight(&[divide, ADD, ADD, ADD]), [1, 1, 1, 1]);
    assert_eq!(straight(&[divide, ADD, ADD, needs]), [1, 1, 12, 1]);
}

#[test]
fn m0_and_m0_plus_take_what_their_tables_say() {
    // Taken branches, bl, bx, pop {r4, r5, pc}.
    let taken = |core: Core, code: u32| path(core, &[(PC, code), (PC + 64, NOP), (PC + 66, NOP)])[0];
    for (core, cycles) in [(M0, [3, 3, 4, 3, 7]), (M0_PLUS, [2, 2, 3, 2, 6])] {
        let found = [BNE, B, BL, BX, POP_PC].map(|code| taken(core, code));
        assert_eq!(found, cycles.map(Cycles::exact), "{core:?}");
    }
    // adds, ldr, str, push {r4, r5, lr}, pop {r4, r5}, bne, muls, mrs, dsb, wfi.
    let codes = [0x3104, LDR, STR, 0xb530, 0xbc30, BNE, 0x4348, 0xf3ef_8010, 0xf3bf_8f4f, 0xbf30];
    for (core, cycles) in [(M0, [1, 2, 2, 4, 3, 1, 32, 4, 4, 2]), (M0_PLUS, [1, 2, 2, 4, 3, 1, 1, 3, 3, 2])] {
        let mut expected = cycles.map(Cycles::exact);
        if core == M0_PLUS {
            // One cycle at a port of the core's own.
            expected[1..3].iter_mut().for_each(|cycles| cycles.least = 1);
        }
        assert_eq!(line(core, &codes), expected, "{core:?}");
    }
    // From the stack and from the code there is no such port: ldr r0, [sp]; ldr r0, [pc].
    assert_eq!(line(M0_PLUS, &[0x9800, 0x4800]), [2; 2].map(Cycles::exact));
}

#[test]
fn an_interrupt_takes_its_entry() {
    // Control is elsewhere behind an instruction that does not jump; svc.
    for (core, cycles) in [(M0, 16), (M0_PLUS, 15), (Core::M3, 12), (Core::M4, 12)] {
        let found = path(core, &[(PC, NOP), (PC + 2, ADD), (PC + 64, NOP), (PC + 66, NOP)]);
        assert_eq!((found[1].nominal, found[1].least), (1 + cycles, 1 + 6), "{core:?}: the least is tail-chaining");
        assert!(path(core, &[(PC, 0xdf00), (PC + 64, NOP), (PC + 66, NOP)])[0].nominal >= cycles, "{core:?}");
    }
}

#[test]
fn a_state_tells_how_the_code_goes_on() {
    // Two ways to the same state.
    let after = |codes: &[u32]| {
        let mut state = State::at_reset(Core::M4, PC);
        let (mut pc, jump) = (PC, PC + 64);
        state.wait(Core::M4, pc, &insn(codes[0]));
        for pair in codes.windows(2) {
            let next = pc + u64::from(insn(pair[0]).len_bytes);
            state.execute(Core::M4, pc, &insn(pair[0]), next);
            state.wait(Core::M4, next, &insn(pair[1]));
            pc = next;
        }
        state.execute(Core::M4, pc, &insn(B), jump);
        state
    };
    assert_eq!(after(&[NOP, ADD, B]), after(&[NOP_W, STR, ADD_W, ADD, B]));
    assert_ne!(after(&[NOP, ADD, B]), State::at_reset(Core::M4, PC + 64));
}

#[test]
fn instructions_are_what_the_manual_says() {
    use Class::*;
    // Class, registers of the address, registers read, written, and written back.
    let rows: [(u32, Class, u32, u32, u32, u32); 44] = [
        (NOP_W, Nop, 0, 0, 0, 0),
        (LDR, Load, 0x2, 0, 0x1, 0),
        (0x5888, Load, 0x6, 0, 0x1, 0),             // ldr r0, [r1, r2]
        (STR_INDEX, Store, 0xc, 0x2, 0, 0),         // str r1, [r3, r2]
        (0x4801, Load, 0x8000, 0, 0x1, 0),          // ldr r0, [pc, #4]
        (0xf851_0b04, Load, 0x2, 0, 0x1, 0x2),      // ldr r0, [r1], #4
        (0xf881_9001, Store, 0x2, 0x200, 0, 0),     // strb.w r9, [r1, #1]
        (0xe851_0f00, Load, 0x2, 0, 0x1, 0),        // ldrex r0, [r1]
        (0xe841_0200, Load, 0x2, 0x1, 0x4, 0),      // strex r2, r0, [r1]
        (0xf890_f000, Nop, 0, 0, 0, 0),             // pld [r0]
        (0xf8d0_f000, Load, 0x1, 0, 0x8000, 0),     // ldr pc, [r0]
        (0xcb09, LoadMultiple, 0x8, 0, 0x9, 0),     // ldmia r3, {r0, r3}
        (0xcc07, LoadMultiple, 0x10, 0, 0x7, 0x10), // ldmia r4!, {r0-r2}
        (0xb530, StoreMultiple, 0x2000, 0x4030, 0, 0x2000),
        (POP_PC, LoadMultiple, 0x2000, 0, 0x8030, 0x2000),
        (0xe9d2_0100, LoadPair, 0x4, 0, 0x3, 0),    // ldrd r0, r1, [r2]
        (0xe8df_f000, Table, 0x8001, 0, 0x8000, 0), // tbb [pc, r0]
        (ADD, Alu, 0, 0x5, 0x4, 0),                 // add r2, r0
        (0x2003, Alu, 0, 0, 0x1, 0),                // movs r0, #3
        (0x1ec8, Alu, 0, 0x2, 0x1, 0),              // subs r0, r1, #3
        (0x4540, Alu, 0, 0x101, 0, 0),              // cmp r0, r8
        (0x43c8, Alu, 0, 0x2, 0x1, 0),              // mvns r0, r1
        (0xb2c8, Alu, 0, 0x2, 0x1, 0),              // uxtb r0, r1
        (ADD_W, Alu, 0, 0x10, 0x10, 0),             // adds.w r4, r4, #1
        (0xf240_0001, Alu, 0, 0, 0x1, 0),           // movw r0, #1
        (0xf2c0_0001, Alu, 0, 0x1, 0x1, 0),         // movt r0, #1
        (0xf361_0084, Alu, 0, 0x3, 0x1, 0),         // bfi r0, r1, #2, #3
        (0xfa01_f082, Alu, 0, 0x6, 0x1, 0),         // sxtah r0, r1, r2
        (0xf2af_0004, Alu, 0, 0, 0x1, 0),           // adr r0
        (0xfb01_3002, MultiplyAdd, 0, 0xe, 0x1, 0), // mla r0, r1, r2, r3
        (0xfbe2_0163, MultiplyDsp, 0, 0xf, 0x3, 0), // umaal r0, r1, r2, r3
        (0xfb11_3002, MultiplyDsp, 0, 0xe, 0x1, 0), // smlabb r0, r1, r2, r3
        (0xfbb1_f0f2, Divide, 0, 0x6, 0x1, 0),      // udiv r0, r1, r2
        (BL, Jump, 0, 0, 0x4000, 0),
        (0xf47f_affe, Branch, 0, 0, 0, 0),         // bne.w
        (0xb100, Branch, 0, 0x1, 0, 0),            // cbz r0
        (0x4798, JumpRegister, 0, 0x8, 0xc000, 0), // blx r3
        (0x4687, JumpRegister, 0, 0x1, 0x8000, 0), // mov pc, r0
        (0xf380_8810, System, 0, 0x1, 0, 0),       // msr primask, r0
        (0xf3bf_8f6f, BarrierInsn, 0, 0, 0, 0),    // isb
        (0xbe00, Call, 0, 0, 0, 0),                // bkpt
        (0xbf40, Nop, 0, 0, 0, 0),                 // sev
        (0xeef1_fa10, FloatMove, 0, 0, 0, 0),      // vmrs apsr_nzcv, fpscr
        (0xedd0_0a00, Load, 0x1, 0, 0, 0),         // vldr s1, [r0]
    ];
    let more: [(u32, Class, u32, u32, u32, u32); 45] = [
        (0x5a88, Load, 0x6, 0, 0x1, 0),               // ldrh r0, [r1, r2]
        (0x2903, Alu, 0, 0x2, 0, 0),                  // cmp r1, #3
        (0x4208, Alu, 0, 0x3, 0, 0),                  // tst r0, r1
        (0x1888, Alu, 0, 0x6, 0x1, 0),                // adds r0, r1, r2
        (0x00c8, Alu, 0, 0x2, 0x1, 0),                // lsls r0, r1, #3
        (0xa001, Alu, 0, 0, 0x1, 0),                  // adr r0
        (0xa801, Alu, 0, 0x2000, 0x1, 0),             // add r0, sp, #4
        (0xb002, Alu, 0, 0x2000, 0x2000, 0),          // add sp, #8
        (0x4348, Multiply, 0, 0x3, 0x1, 0),           // muls r0, r1
        (0xc407, StoreMultiple, 0x10, 0x7, 0, 0x10),  // stmia r4!, {r0-r2}
        (0xb672, System, 0, 0, 0, 0),                 // cpsid i
        (0x4680, Alu, 0, 0x1, 0x100, 0),              // mov r8, r0
        (0x4487, JumpRegister, 0, 0x8001, 0x8000, 0), // add pc, r0
        (0xe924_0003, StoreMultiple, 0x10, 0x3, 0, 0x10),
        (0xe8d1_0f4f, Load, 0x2, 0, 0x1, 0),         // ldrexb r0, [r1]
        (0xe8c1_0f42, Load, 0x2, 0x1, 0x4, 0),       // strexb r2, r0, [r1]
        (0xe8e2_0102, StorePair, 0x4, 0x3, 0, 0x4),  // strd r0, r1, [r2], #8
        (0xea10_0f01, Alu, 0, 0x3, 0, 0),            // tst.w r0, r1
        (0xea4f_0001, Alu, 0, 0x2, 0x1, 0),          // mov.w r0, r1
        (0xea6f_0001, Alu, 0, 0x2, 0x1, 0),          // mvn.w r0, r1
        (0xf1b0_0f01, Alu, 0, 0x1, 0, 0),            // cmp.w r0, #1
        (0xf04f_0001, Alu, 0, 0, 0x1, 0),            // mov.w r0, #1
        (0xf201_0001, Alu, 0, 0x2, 0x1, 0),          // addw r0, r1, #1
        (0xf36f_0084, Alu, 0, 0x1, 0x1, 0),          // bfc r0, #2, #3
        (0xf7ff_bffe, Jump, 0, 0, 0, 0),             // b.w
        (0xf3af_8003, Wait, 0, 0, 0, 0),             // wfi.w
        (0xf3bf_8f2f, Alu, 0, 0, 0, 0),              // clrex
        (0xf841_0002, Store, 0x6, 0x1, 0, 0),        // str.w r0, [r1, r2]
        (0xf8df_0004, Load, 0x8000, 0, 0x1, 0),      // ldr.w r0, [pc, #4]
        (0xf841_0c04, Store, 0x2, 0x1, 0, 0),        // str r0, [r1, #-4]
        (0xfa81_f042, Alu, 0, 0x6, 0x1, 0),          // uadd8 r0, r1, r2
        (0xfb82_0103, MultiplyLong, 0, 0xc, 0x3, 0), // smull r0, r1, r2, r3
        (0xfbc2_0103, MultiplyLongAdd, 0, 0xf, 0x3, 0),
        (0xfbc2_01c3, MultiplyDsp, 0, 0xf, 0x3, 0), // smlald r0, r1, r2, r3
        (0xfb51_f002, MultiplyDsp, 0, 0x6, 0x1, 0), // smmul r0, r1, r2
        (0xfb91_f0f2, Divide, 0, 0x6, 0x1, 0),      // sdiv r0, r1, r2
        (0xfa5f_f081, Alu, 0, 0x2, 0x1, 0),         // uxtb.w r0, r1
        (0xeee1_0a10, FloatMove, 0, 0x1, 0, 0),     // vmsr fpscr, r0
        (0xed81_0a00, Store, 0x2, 0, 0, 0),         // vstr s0, [r1]
        (0xdeff, Call, 0, 0, 0, 0),                 // udf
        (0xb800, Unknown, 0, 0, 0, 0),
        (0xf3c0_8f00, Unknown, 0, 0, 0, 0), // bxj, not on these cores
        (0xee00_0000, Unknown, 0, 0, 0, 0), // cdp
        (0xfc00_0000, Unknown, 0, 0, 0, 0),
        (0xf000_8000, Branch, 0, 0, 0, 0), // beq.w
    ];
    for (code, class, address, reads, writes, base) in rows.into_iter().chain(more) {
        let found = insn(code);
        let registers = (found.address, found.reads, found.writes, found.base);
        assert_eq!((found.class, registers), (class, (address, reads, writes, base)), "{code:x}");
    }
    // Registers of floating point that are read and written.
    let floats: [(u32, u32, u32); 19] = [
        (0xedd0_0a00, 0, 0x2),         // vldr s1, [r0]
        (0xed90_0b00, 0, 0x3),         // vldr d0, [r0]
        (0xecb0_0b04, 0, 0xf),         // vldmia r0!, {d0, d1}
        (0xec90_0a20, 0, 0xffff_ffff), // vldmia r0, {s0-s31}
        (0xedd0_0b00, 0, 0),           // vldr d16, [r0]: not on these cores
        (0xec51_0b11, 0xc, 0),         // vmov r0, r1, d1
        (0xec41_0a10, 0, 0x3),         // vmov s0, s1, r0, r1
        (0xee12_0a90, 0x20, 0),        // vmov r0, s5
        (0xee02_0a90, 0, 0x20),        // vmov s5, r0
        (0xece0_0a03, 0xe, 0),         // vstmia r0!, {s1-s3}
        (0xed2d_8b04, 0xf_0000, 0),    // vpush {d8, d9}
        (0xeef4_0a41, 0x6, 0),         // vcmp s1, s2
        (0xeef5_0a40, 0x2, 0),         // vcmp s1, #0
        (0xeeb7_0a00, 0, 0x1),         // vmov s0, #1.0
        (0xeeb1_0a60, 0x2, 0x1),       // vneg s0, s1
        (0xeeb1_0ae0, 0x2, 0x1),       // vsqrt s0, s1
        (0xee00_0a81, 0x7, 0x1),       // vmla s0, s1, s2
        (0xee90_0ac1, 0x7, 0x1),       // vfnma s0, s1, s2
        (0xee30_0ac1, 0x6, 0x1),       // vsub s0, s1, s2
    ];
    for (code, reads, writes) in floats {
        let found = insn(code);
        assert_eq!((found.float_reads, found.float_writes), (reads, writes), "{code:x}");
    }
    assert_eq!(Insn::decode(&[0]).class, Unknown, "the code ends");
    assert_eq!(Insn::decode(&[0xd1, 0xf8]).class, Unknown, "the code ends");
}
