// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hand-made code, with the cycles that the RTL of Hazard3, Ibex and PicoRV32 takes for it. Whole functions are compared in
//! harness's test `run::cycles`.

use pipeline::{Class, Insn, State, beyond, is_data_dependent, is_known};
use wire::core::{CLASSES, Core, Queue};

const PC: u64 = 0x8000_0000;

/// A core in which each instruction takes one cycle, with a queue.
fn queued() -> Core {
    let mut cycles = vec![Some(1); CLASSES];
    cycles[Class::Divide as usize] = Some(19);
    cycles[Class::Unknown as usize] = None;
    let queue = Some(Queue { words: 2, has_predictor: true });
    Core { cycles, is_compressed: true, load_use: 1, negative_dividend: 1, queue, ..Core::default() }
}

/// A core whose description has the cycles of jumps.
fn plain() -> Core {
    let mut cycles = vec![Some(1); CLASSES];
    cycles[Class::Multiply as usize] = Some(3);
    cycles[Class::Divide as usize] = Some(37);
    cycles[Class::Jump as usize] = Some(2);
    cycles[Class::JumpRegister as usize] = Some(2);
    cycles[Class::Unknown as usize] = None;
    let more = Core { taken: 1, unaligned_target: 1, load_use: 1, stores_wait: true, by_zero: 35, ..Core::default() };
    Core { cycles, is_compressed: true, ..more }
}

fn insn(code: u32) -> Insn {
    Insn::decode(&code.to_le_bytes())
}

const NOP: u32 = 0x0000_0013;
const C_NOP: u32 = 0x0001;
/// `addi a0, a0, -1`.
const COUNT: u32 = 0xfff5_0513;
/// `bnez a0`, to anywhere.
const BNEZ: u32 = 0x0005_1063;
/// `c.bnez a0`, to anywhere.
const C_BNEZ: u32 = 0xe101;
/// `lw a0, 0(a1)`.
const LW: u32 = 0x0005_a503;
/// `add a2, a0, a0`.
const ADD: u32 = 0x00a5_0633;
/// `sw a0, 0(a1)`, and `sw a1, 0(a0)`.
const SW_VALUE: u32 = 0x00a5_a023;
const SW_BASE: u32 = 0x00b5_2023;
/// `j`, to anywhere, and `ret`.
const J: u32 = 0x0000_006f;
const RET: u32 = 0x0000_8067;
/// `div a2, a0, a1`.
const DIV: u32 = 0x02b5_4633;

/// Cycles of each step of a path: addresses with the instruction there. The last one is only where it leads.
fn path(core: &Core, steps: &[(u64, u32)]) -> Vec<u64> {
    let mut state = State::at_reset(core, steps[0].0);
    state.wait(core, steps[0].0, &insn(steps[0].1));
    let cycles = steps.windows(2).map(|pair| {
        let [(pc, code), (next, then)] = [pair[0], pair[1]];
        state.execute(core, pc, &insn(code), next) + state.wait(core, next, &insn(then))
    });
    cycles.collect()
}

#[test]
fn what_follows_a_load_waits_if_it_needs_it() {
    let straight = |code: u32| [(PC, NOP), (PC + 4, LW), (PC + 8, code), (PC + 12, NOP)];
    for (code, queued_cycles, plain_cycles) in [(ADD, 2, 2), (SW_VALUE, 1, 2), (SW_BASE, 2, 2), (NOP, 1, 1)] {
        assert_eq!(path(&queued(), &straight(code)), [1, 1, queued_cycles], "{code:x}");
        assert_eq!(path(&plain(), &straight(code)), [1, 1, plain_cycles], "{code:x}");
    }
    // One instruction later it is there.
    let later = [(PC, LW), (PC + 4, NOP), (PC + 8, ADD), (PC + 12, NOP)];
    assert_eq!(path(&queued(), &later), [1, 1, 1]);
}

#[test]
fn a_jump_takes_until_its_target_can_start() {
    for core in [queued(), plain()] {
        for (target, then, cycles) in [(PC + 64, NOP, 2), (PC + 66, C_NOP, 2), (PC + 66, NOP, 3)] {
            for code in [J, RET] {
                let steps = [(PC, NOP), (PC + 4, code), (target, then), (target + 4, NOP)];
                assert_eq!(path(&core, &steps)[..2], [1, cycles], "{code:x} to {target:x}");
            }
            let taken = [(PC, NOP), (PC + 4, BNEZ), (target, then), (target + 4, NOP)];
            assert_eq!(path(&core, &taken)[1], cycles, "a branch to {target:x}");
        }
        let not_taken = [(PC, NOP), (PC + 4, BNEZ), (PC + 8, NOP), (PC + 12, NOP)];
        assert_eq!(path(&core, &not_taken), [1, 1, 1]);
        // Behind the target nothing waits any more.
        let behind = [(PC, J), (PC + 66, NOP), (PC + 70, NOP), (PC + 74, NOP), (PC + 78, NOP)];
        assert_eq!(path(&core, &behind), [3, 1, 1, 1]);
    }
}

#[test]
fn a_loops_branch_is_predicted_from_its_second_turn_on() {
    let turn = [(PC, NOP), (PC + 4, NOP), (PC + 8, COUNT), (PC + 12, BNEZ)];
    let steps: Vec<_> = turn.iter().cycle().take(12).copied().chain([(PC + 16, NOP), (PC + 20, NOP)]).collect();
    assert_eq!(path(&queued(), &steps), [1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 2, 1]);
    assert_eq!(path(&plain(), &steps), [1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 1, 1]);
    // The same without a predictor.
    let core = Core { queue: Some(Queue { words: 2, has_predictor: false }), ..queued() };
    assert_eq!(path(&core, &steps), path(&plain(), &steps));
}

#[test]
fn a_branch_in_the_word_that_it_leads_to_is_never_predicted() {
    // c.nop; c.bnez to it: the word comes as the target of a jump each time.
    let turn = [(PC, C_NOP), (PC + 2, C_BNEZ)];
    let steps: Vec<_> = turn.iter().cycle().take(8).copied().chain([(PC + 4, NOP)]).collect();
    assert_eq!(path(&queued(), &steps), [1, 2, 1, 2, 1, 2, 1, 1]);
}

#[test]
fn a_predicted_branch_within_two_words_is_told_from_what_is_beside_it() {
    // nop at 2 mod 4, then the branch in the middle of two words, back to the nop.
    let turn = [(PC + 2, NOP), (PC + 6, NOP), (PC + 10, BNEZ)];
    let steps: Vec<_> =
        [(PC, C_NOP)].iter().chain(turn.iter().cycle().take(9)).copied().chain([(PC + 14, NOP)]).collect();
    let cycles = path(&queued(), &steps);
    // The first jump finds a target in the middle; the predicted one has been fetched before.
    assert_eq!(cycles, [1, 1, 1, 3, 1, 1, 2, 1, 1, 3]);
}

#[test]
fn an_instruction_of_which_half_is_predicted_starts_again() {
    // c.bnez, in the upper half of a word that is one instruction, too; c.j to it.
    let turn = [(PC + 6, C_BNEZ), (PC, NOP), (PC + 4, NOP), (PC + 8, 0xa001)];
    let steps: Vec<_> = turn.iter().cycle().take(9).copied().collect();
    assert_eq!(path(&queued(), &steps), [2, 1, 3, 2, 2, 1, 3, 2]);
}

#[test]
fn an_exception_gives_up_what_was_fetched_and_what_was_predicted() {
    let turn = [(PC, NOP), (PC + 4, NOP), (PC + 8, BNEZ)];
    let handler = [(PC + 256, NOP), (PC + 260, J)];
    let steps: Vec<_> =
        turn.iter().cycle().take(7).chain(&handler).chain(&turn).copied().chain([(PC, NOP)]).collect();
    let cycles = path(&queued(), &steps);
    assert_eq!(cycles[..6], [1, 1, 2, 1, 1, 1], "the branch is predicted");
    assert_eq!(cycles[6], 2, "control goes elsewhere behind a nop");
    assert_eq!(cycles.last(), Some(&2), "the branch is no longer predicted");
}

#[test]
fn registers_that_only_the_code_of_a_control_access_names_hold_it_up() {
    // csrrwi a0, mscratch, 10: the number stands where a register would, and bits of mscratch's where another one would.
    let csr = 0x3405_5573;
    let straight = [(PC, LW), (PC + 4, csr), (PC + 8, NOP)];
    let core = Core { csr_waits: true, ..queued() };
    assert_eq!((path(&queued(), &straight), path(&core, &straight)), (vec![1, 1], vec![1, 2]));
    // csrrw a0, mscratch, a0 reads it anyway.
    let straight = [(PC, LW), (PC + 4, 0x3405_1573), (PC + 8, NOP)];
    assert_eq!(path(&queued(), &straight), [1, 2]);
}

#[test]
fn reservations_follow_each_other_with_a_gap() {
    let mut core = queued();
    core.cycles[Class::Atomic as usize] = Some(4);
    let (lr, sc, amo) = (0x1005_a52f, 0x18b5_a62f, 0x00b5_a62f);
    let straight = |codes: &[u32]| {
        let steps: Vec<_> = codes.iter().zip(0..).map(|(&code, at)| (PC + 4 * at, code)).collect();
        path(&core, &steps)
    };
    assert_eq!(straight(&[lr, sc, NOP]), [1, 2]);
    assert_eq!(straight(&[lr, NOP, sc, amo, lr, NOP]), [1, 1, 1, 5, 1]);
    assert_eq!(straight(&[lr, ADD, NOP]), [1, 2], "what it loads is waited for");
    assert_eq!(straight(&[amo, amo, ADD, NOP]), [4, 4, 1]);
}

#[test]
fn several_registers_take_a_cycle_each() {
    // cm.push {ra}, cm.pop {ra, s0}, cm.popret {ra}, cm.popret {ra, s0}, cm.popretz {ra}, cm.mva01s.
    let rows = [(0xb842, 2, 1), (0xba52, 3, 2), (0xbe42, 4, 1), (0xbe52, 4, 2), (0xbc42, 4, 1), (0xac62, 2, 0)];
    let mut core = queued();
    core.cycles[Class::PopReturnZero as usize] = Some(2);
    core.cycles[Class::MovePair as usize] = Some(2);
    for (code, cycles, count) in rows {
        let found = insn(code);
        assert_eq!(found.count, count, "{code:x}");
        let next = if matches!(found.class, Class::PopReturn | Class::PopReturnZero) { PC + 64 } else { PC + 4 };
        assert_eq!(path(&core, &[(PC, C_NOP), (PC + 2, code), (next, C_NOP)])[1], cycles, "{code:x}");
    }
    // cm.mva01s s3, s0 and cm.mvsa01 s3, s0: from s3, from a0.
    assert_eq!((insn(0xade2).sources, insn(0xada2).sources), ([19, 0], [10, 0]));
    assert_eq!(insn(0xb8f2).count, 13, "ra, and s0 to s11");
    for code in [0xb832, 0xa002, 0xb042] {
        assert_eq!(insn(code).class, Class::Unknown, "{code:x}");
    }
}

#[test]
fn what_follows_a_wait_starts_late_unless_it_jumps_or_divides() {
    let core = Core { wakes: 1, ..queued() };
    let wfi = 0x1050_0073;
    assert_eq!(path(&core, &[(PC, wfi), (PC + 4, NOP), (PC + 8, NOP), (PC + 12, NOP)]), [1, 2, 1]);
    assert_eq!(path(&core, &[(PC, wfi), (PC + 4, J), (PC, wfi)]), [1, 2]);
    assert_eq!(path(&core, &[(PC, wfi), (PC + 4, DIV), (PC + 8, NOP)]), [1, 19]);
    // A branch that is predicted does not jump, and one that goes on although it was predicted does.
    let turn = [(PC, NOP), (PC + 4, NOP), (PC + 8, wfi), (PC + 12, BNEZ)];
    let steps: Vec<_> = turn.iter().cycle().take(8).copied().chain([(PC + 16, NOP)]).collect();
    assert_eq!(path(&core, &steps), [1, 1, 1, 2, 1, 1, 1, 2]);
    let steps: Vec<_> = turn.iter().cycle().take(12).copied().chain([(PC + 16, NOP)]).collect();
    assert_eq!(path(&core, &steps)[7], 2, "predicted, and waits");
}

#[test]
fn operands_of_divisions_decide() {
    let div = insn(DIV);
    let divu = insn(DIV | 0x1000);
    let negative = u32::MAX;
    assert_eq!(beyond(&queued(), &div, [negative, 3]), 1);
    assert_eq!(beyond(&queued(), &div, [negative, 0]), 1);
    assert_eq!(beyond(&queued(), &div, [3, negative]), 0);
    assert_eq!(beyond(&queued(), &divu, [negative, 3]), 0);
    assert_eq!(beyond(&plain(), &div, [3, 0]), -35);
    assert_eq!(beyond(&plain(), &divu, [3, 0]), -35);
    assert_eq!(beyond(&plain(), &div, [negative, 3]), 0);
    assert_eq!(beyond(&plain(), &insn(ADD), [0, 0]), 0);
    let depends = |core: &Core, code: u32| is_data_dependent(core, &insn(code));
    assert!(depends(&queued(), DIV) && depends(&plain(), DIV) && depends(&plain(), DIV | 0x1000));
    assert!(!depends(&queued(), DIV | 0x1000) && !depends(&plain(), ADD));
    assert_eq!(path(&queued(), &[(PC, DIV), (PC + 4, NOP)]), [19]);
}

#[test]
fn instructions_are_what_the_manual_says() {
    use Class::*;
    // Class, length, register written, registers read.
    let rows: [(u32, Class, u8, u8, [u8; 2]); 50] = [
        (0x1234_5537, Alu, 4, 10, [0, 0]),                // lui a0
        (0x0000_0517, Alu, 4, 10, [0, 0]),                // auipc a0
        (0x0080_00ef, Jump, 4, 1, [0, 0]),                // jal
        (RET, JumpRegister, 4, 0, [1, 0]),                // jalr x0, 0(ra)
        (BNEZ, Branch, 4, 0, [10, 0]),                    // bne a0, x0
        (LW, Load, 4, 10, [11, 0]),                       // lw
        (0x0005_b503, Unknown, 4, 0, [0, 0]),             // ld is RV64's
        (SW_VALUE, Store, 4, 0, [11, 10]),                // sw
        (0x00a5_b023, Unknown, 4, 0, [0, 0]),             // sd is RV64's
        (COUNT, Alu, 4, 10, [10, 0]),                     // addi
        (0x0025_1513, Shift, 4, 10, [10, 0]),             // slli
        (0x4025_5513, Shift, 4, 10, [10, 0]),             // srai
        (ADD, Alu, 4, 12, [10, 10]),                      // add
        (0x00b5_1633, Shift, 4, 12, [10, 11]),            // sll
        (0x40b5_5633, Shift, 4, 12, [10, 11]),            // sra
        (0x60b5_1633, Alu, 4, 12, [10, 11]),              // rol, Zbb
        (0x02b5_0633, Multiply, 4, 12, [10, 11]),         // mul
        (0x02b5_1633, MultiplyHigh, 4, 12, [10, 11]),     // mulh
        (DIV, Divide, 4, 12, [10, 11]),                   // div
        (0x3400_1573, Csr, 4, 10, [0, 0]),                // csrrw a0, mscratch, x0
        (0x3405_9073, Csr, 4, 0, [11, 0]),                // csrw mscratch, a1
        (0x3402_d073, Csr, 4, 0, [0, 0]),                 // csrwi mscratch, 5
        (0x3000_9073, CsrStatus, 4, 0, [1, 0]),           // csrw mstatus, ra
        (0x3040_6073, Csr, 4, 0, [0, 0]),                 // csrsi mie, 0 only reads
        (0x9002, Call, 2, 0, [0, 0]),                     // c.ebreak
        (0x3020_0073, Return, 4, 0, [0, 0]),              // mret
        (0x1050_0073, Wait, 4, 0, [0, 0]),                // wfi
        (0x0000_0073, Call, 4, 0, [0, 0]),                // ecall
        (0x0010_0073, Call, 4, 0, [0, 0]),                // ebreak
        (0x0ff0_000f, Fence, 4, 0, [0, 0]),               // fence
        (0x0000_100f, FenceCode, 4, 0, [0, 0]),           // fence.i
        (0x1005_a52f, LoadReserved, 4, 10, [11, 0]),      // lr.w
        (0x18a5_a62f, StoreConditional, 4, 12, [11, 10]), // sc.w
        (0x00a5_a62f, Atomic, 4, 12, [11, 10]),           // amoadd.w
        (0x0000_0007, Unknown, 4, 0, [0, 0]),             // flb: no such
        (0x0028, Alu, 2, 10, [2, 0]),                     // c.addi4spn a0
        (0x4188, Load, 2, 10, [11, 0]),                   // c.lw a0, 0(a1)
        (0xc188, Store, 2, 0, [11, 10]),                  // c.sw a0, 0(a1)
        (0x8188, Load, 2, 10, [11, 0]),                   // c.lbu a0, 0(a1), Zcb
        (0x157d, Alu, 2, 10, [10, 0]),                    // c.addi a0, -1
        (0x2001, Jump, 2, 1, [0, 0]),                     // c.jal
        (0x4505, Alu, 2, 10, [0, 0]),                     // c.li
        (0x6105, Alu, 2, 2, [2, 0]),                      // c.addi16sp
        (0x8105, Shift, 2, 10, [10, 0]),                  // c.srli
        (0x8d0d, Alu, 2, 10, [10, 11]),                   // c.sub
        (C_BNEZ, Branch, 2, 0, [10, 0]),                  // c.bnez
        (0x4502, Load, 2, 10, [2, 0]),                    // c.lwsp
        (0xc02a, Store, 2, 0, [2, 10]),                   // c.swsp
        (0x852e, Alu, 2, 10, [0, 11]),                    // c.mv
        (0x9502, JumpRegister, 2, 1, [10, 0]),            // c.jalr a0
    ];
    for (code, class, len_bytes, rd, sources) in rows {
        let found = insn(code);
        assert_eq!(
            (found.class, found.len_bytes, found.rd, found.sources),
            (class, len_bytes, rd, sources),
            "{code:x}"
        );
    }
    for code in [0_u32, 0x2000] {
        assert_eq!(insn(code).class, Unknown, "{code:x}");
    }
    assert_eq!(insn(0x9c41).class, Multiply, "c.mul");
    assert_eq!(insn(0x9c61).class, Alu, "c.zext.b");
    assert_eq!(Insn::decode(&[0x13]).class, Unknown, "the code ends");
}

#[test]
fn a_core_without_compressed_instructions_does_not_know_them() {
    let core = Core { is_compressed: false, ..plain() };
    assert!(is_known(&plain(), &insn(C_NOP)) && !is_known(&core, &insn(C_NOP)) && is_known(&core, &insn(NOP)));
    assert!(!is_known(&plain(), &insn(0)));
    let core = Core { cycles: vec![None; CLASSES], ..plain() };
    assert!(!is_known(&core, &insn(NOP)));
}
