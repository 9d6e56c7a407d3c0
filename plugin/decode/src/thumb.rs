// SPDX-License-Identifier: MIT OR Apache-2.0
//! Thumb of the M profile, Armv6-M to Armv8.1-M. Separate from RISC-V, because the two share nothing but the
//! interface.
//!
//! One decoder serves the three architectures. Armv7-M instructions are undefined on Armv6-M: QEMU raises that at
//! translation and ends the block, so the answer for them does not matter.
//!
//! Sections are those of the Armv7-M Architecture Reference Manual, DDI 0403E, unless "v8-M" stands
//! before them: Armv8-M Architecture Reference Manual, DDI 0553.

use crate::{Flow, Insn, Isa, bits, half, sign_extend};

/// `bkpt 0xab` (Arm semihosting, "The semihosting interface").
pub(crate) const BKPT_SEMIHOSTING: u16 = 0xbeab;
/// `hlt 0x3c`, the semihosting call of A-profile processors. QEMU takes it on M-profile as well (`gen_hlt` in
/// target/arm/tcg/translate.c), but `svc 0xab` on no M-profile processor.
pub(crate) const HLT_SEMIHOSTING: u16 = 0xbabc;

const SP: u32 = 13;
const LR: u32 = 14;
const PC: u32 = 15;

pub(crate) fn decode(isa: Isa, pc: u64, bytes: &[u8]) -> Insn {
    // A5.1, "Thumb instruction set encoding": a first halfword from 0xe800 up has a second.
    let Some(first) = half(bytes) else {
        return Insn::leaves(2);
    };
    if first < 0xe800 {
        return narrow(isa, pc, u32::from(first));
    }
    match half(&bytes[2..]) {
        Some(second) => wide(isa, pc, u32::from(first), u32::from(second)),
        None => Insn::leaves(4),
    }
}

/// See [`crate::is_known`]. Armv8.1-M's branch-future instructions (BF, BFX, BFL, BFLX, BFCSEL) and BXAUT branch in ways that are
/// not followed.
pub(crate) fn is_known(isa: Isa, bytes: &[u8]) -> bool {
    let (Some(first), second) = (half(bytes), bytes.get(2..).and_then(half)) else { return false };
    let second = second.unwrap_or(0);
    let is_future = first & 0xf800 == 0xf000 && second & 0xf001 == 0xe001;
    let is_bxaut = first & 0xfff0 == 0xfb50 && second & 0x0ff0 == 0x0f10;
    !(isa == Isa::ThumbV8m && (is_future || is_bxaut))
}

/// `wfi` and `wfi.w` ("WFI", T1 and T2).
pub(crate) fn is_wfi(bytes: &[u8]) -> bool {
    is_hint(bytes, 3)
}

/// `wfe` and `wfe.w` ("WFE", T1 and T2).
pub(crate) fn is_wfe(bytes: &[u8]) -> bool {
    is_hint(bytes, 2)
}

/// `sev` and `sev.w` ("SEV", T1 and T2).
pub(crate) fn is_sev(bytes: &[u8]) -> bool {
    is_hint(bytes, 4)
}

/// Whether the instruction is the hint of this number, in either encoding.
fn is_hint(bytes: &[u8], number: u16) -> bool {
    match half(bytes) {
        Some(0xf3af) => half(&bytes[2..]) == Some(0x8000 | number),
        first => first == Some(0xbf00 | number << 4),
    }
}

/// A register-only operation that writes `rd`.
const fn writes(isa: Isa, len_bytes: u8, rd: u32) -> Insn {
    match rd {
        // Unpredictable wherever this is called; no compiler emits it.
        PC => Insn::leaves(len_bytes),
        // v8-M, "Stack limit checks": a write below the limit raises STKOF.
        SP => Insn::new(len_bytes, matches!(isa, Isa::ThumbV8m), Flow::Next),
        _ => Insn::pure(len_bytes),
    }
}

/// Flow of a jump to the address in `rm`. A read of pc as a register gives a computed target.
const fn jump_to(rm: u32) -> Flow {
    match rm {
        LR => Flow::Return,
        PC => Flow::ComputedJump,
        _ => Flow::IndirectJump { reg: rm as u8, offset: 0 },
    }
}

/// A5.2, "16-bit Thumb instruction encoding".
fn narrow(isa: Isa, pc: u64, insn: u32) -> Insn {
    // Reading pc gives the instruction's own address plus 4 (A5.1.2).
    let read_pc = pc.wrapping_add(4);
    match insn >> 8 {
        // A5.2.1 shifts, add, subtract, move, compare; A5.2.2 data processing.
        0x00..=0x43 => Insn::pure(2),
        // A5.2.3 special data instructions and branch and exchange.
        0x44 => match high_register(insn) {
            PC => Insn::control(2, Flow::ComputedJump),
            rd => writes(isa, 2, rd),
        },
        0x45 => Insn::pure(2),
        0x46 => match high_register(insn) {
            PC => Insn::control(2, jump_to(bits(insn, 6, 3))),
            rd => writes(isa, 2, rd),
        },
        0x47 => branch_exchange(isa, insn),
        // adr (A7.7.7); add rd, sp, #imm (A7.7.5).
        0xa0..=0xaf => Insn::pure(2),
        0xb0..=0xbf => miscellaneous(isa, read_pc, insn),
        // A5.2.6 conditional branch; 14 is udf, 15 svc.
        0xd0..=0xdd => {
            let target = isa.relative(read_pc, sign_extend(bits(insn, 7, 0) << 1, 9));
            Insn::control(2, Flow::Branch { target })
        }
        // b (A7.7.12, T2).
        0xe0..=0xe7 => {
            let target = isa.relative(read_pc, sign_extend(bits(insn, 10, 0) << 1, 12));
            Insn::control(2, Flow::Jump { target })
        }
        // Literal loads, loads and stores, ldm and stm, udf, svc.
        _ => Insn::leaves(2),
    }
}

/// Rd of the 16-bit add and mov that reach all registers: bit 7 above bits 2:0.
const fn high_register(insn: u32) -> u32 {
    (bits(insn, 7, 7) << 3) | bits(insn, 2, 0)
}

/// bx, blx (A7.7.20, A7.7.19) and, with bit 2, v8-M's bxns, blxns.
const fn branch_exchange(isa: Isa, insn: u32) -> Insn {
    let rm = bits(insn, 6, 3);
    let non_secure = bits(insn, 2, 2) == 1;
    if bits(insn, 1, 0) != 0 || (non_secure && !matches!(isa, Isa::ThumbV8m)) {
        return Insn::leaves(2);
    }
    let flow = if bits(insn, 7, 7) == 0 {
        jump_to(rm)
    } else if rm == PC {
        Flow::ComputedJump
    } else {
        Flow::IndirectCall { reg: rm as u8, offset: 0, clobbered: rm == LR }
    };
    // bxns and blxns change the security state, and blxns pushes to the stack.
    Insn::new(2, non_secure, flow)
}

/// A5.2.5, "Miscellaneous 16-bit instructions".
fn miscellaneous(isa: Isa, read_pc: u64, insn: u32) -> Insn {
    match bits(insn, 11, 8) {
        // add sp, #imm; sub sp, #imm.
        0x0 => writes(isa, 2, SP),
        // cbz, cbnz (A7.7.21): forward only.
        0x1 | 0x3 | 0x9 | 0xb => {
            let offset = (bits(insn, 9, 9) << 6) | (bits(insn, 7, 3) << 1);
            let target = isa.relative(read_pc, offset as i32);
            Insn::control(2, Flow::Branch { target })
        }
        // sxth, sxtb, uxth, uxtb.
        0x2 => Insn::pure(2),
        // rev, rev16, revsh; 2 is hlt.
        0xa if bits(insn, 7, 6) != 2 => Insn::pure(2),
        // pop with pc (A7.7.99).
        0xd => Insn::new(2, true, Flow::Return),
        // it (A7.7.38): the lowest set bit of the mask ends the block.
        0xf if bits(insn, 3, 0) != 0 => {
            let count = 4 - bits(insn, 3, 0).trailing_zeros() as u8;
            Insn::control(2, Flow::It { count })
        }
        // nop; the other hints may yield or wait.
        0xf if insn == 0xbf00 => Insn::pure(2),
        // push, pop, cps, bkpt, hlt, hints.
        _ => Insn::leaves(2),
    }
}

/// A5.3, "32-bit Thumb instruction encoding": `a` is the first halfword, `b` the second.
fn wide(isa: Isa, pc: u64, a: u32, b: u32) -> Insn {
    let read_pc = pc.wrapping_add(4);
    match a >> 8 {
        0xe8 | 0xe9 => multiple_or_table(a, b),
        // A5.3.11 data processing (shifted register). Bit 15 of `b` is v8.1-M's csel family; sp or
        // pc as Rm are its long shifts, or unpredictable.
        0xea | 0xeb => {
            if bits(b, 15, 15) == 0 && is_general(bits(b, 3, 0)) {
                data_processing(isa, a, b)
            } else {
                Insn::leaves(4)
            }
        }
        0xf0..=0xf7 => match (bits(b, 15, 15), bits(a, 9, 9)) {
            // A5.3.1 data processing (modified immediate).
            (0, 0) => data_processing(isa, a, b),
            // A5.3.3 data processing (plain binary immediate): addw/adr, movw, subw/adr, movt,
            // ssat, ssat16, sbfx, bfi/bfc, usat, usat16, ubfx.
            (0, _) => match bits(a, 8, 4) {
                0x00 | 0x04 | 0x0a | 0x0c | 0x10 | 0x12 | 0x14 | 0x16 | 0x18 | 0x1a | 0x1c => {
                    writes(isa, 4, bits(b, 11, 8))
                }
                _ => Insn::leaves(4),
            },
            _ => branches(isa, read_pc, a, b),
        },
        // A5.3.7 load word. Other loads in these opcodes do not write pc: a byte or halfword "loaded to pc" is a
        // preload hint.
        0xf8 if bits(a, 6, 4) == 5 && bits(b, 15, 12) == PC => {
            // ldr pc, [sp], #imm (A7.7.43, T4 with P = 0, U = 1, W = 1).
            let popped = a == 0xf85d && bits(b, 11, 8) == 0xb;
            let flow = if popped { Flow::Return } else { Flow::ComputedJump };
            Insn::new(4, true, flow)
        }
        // A5.3.12 data processing (register): shifts, extensions, parallel and saturating
        // arithmetic, sel, rev, rbit, clz.
        0xfa if bits(b, 15, 12) == 0xf => writes(isa, 4, bits(b, 11, 8)),
        0xfb => multiply(isa, a, b),
        // Loads, stores, coprocessors, floating point, vectors.
        _ => Insn::leaves(4),
    }
}

/// A5.3.5 load and store multiple; A5.3.6 dual, exclusive, table branch.
const fn multiple_or_table(a: u32, b: u32) -> Insn {
    // With pc as the base the encoding is v8.1-M's clrm, which clears registers.
    let load_pc = bits(a, 6, 6) == 0 && bits(a, 4, 4) == 1 && bits(b, 15, 15) == 1 && bits(a, 3, 0) != PC;
    let flow = match bits(a, 8, 7) {
        // ldmia (A7.7.41); from sp it is a pop.
        1 if load_pc && bits(a, 3, 0) == SP => Flow::Return,
        // ldmia, ldmdb (A7.7.42).
        1 | 2 if load_pc => Flow::ComputedJump,
        // tbb, tbh (A7.7.185).
        1 if a & 0xfff0 == 0xe8d0 && b & 0xffe0 == 0xf000 => Flow::ComputedJump,
        _ => Flow::Next,
    };
    Insn::new(4, true, flow)
}

/// Operations that A5.3.1 and A5.3.11 share: op in bits 8:5 of `a`, S in bit 4, Rd in `b`.
const fn data_processing(isa: Isa, a: u32, b: u32) -> Insn {
    let rd = bits(b, 11, 8);
    match bits(a, 8, 5) {
        // tst, teq, cmn, cmp: and, eor, add, sub that set flags and have no Rd.
        0 | 4 | 8 | 13 if rd == PC && bits(a, 4, 4) == 1 => Insn::pure(4),
        // and, bic, orr/mov/shifts, orn/mvn, eor, add, adc, sbc, sub, rsb.
        0..=4 | 8 | 10 | 11 | 13 | 14 => writes(isa, 4, rd),
        // pkhbt, pkhtb: shifted register only.
        6 if bits(a, 12, 12) == 0 => writes(isa, 4, rd),
        _ => Insn::leaves(4),
    }
}

/// A5.3.4, "Branches and miscellaneous control": bit 15 of `b` is set.
fn branches(isa: Isa, read_pc: u64, a: u32, b: u32) -> Insn {
    let sign = bits(a, 10, 10);
    let (j1, j2) = (bits(b, 13, 13), bits(b, 11, 11));
    // bl (A7.7.18) and b (A7.7.12, T4): I1 and I2 are J1 and J2, inverted unless the sign is set.
    let far = || {
        let (i1, i2) = (j1 ^ sign ^ 1, j2 ^ sign ^ 1);
        let offset = (sign << 24) | (i1 << 23) | (i2 << 22) | (bits(a, 9, 0) << 12) | (bits(b, 10, 0) << 1);
        isa.relative(read_pc, sign_extend(offset, 25))
    };
    match (bits(b, 14, 14), bits(b, 12, 12)) {
        (1, 1) => Insn::control(4, Flow::Call { target: far() }),
        (0, 1) => Insn::control(4, Flow::Jump { target: far() }),
        // b<cond> (A7.7.12, T3); conditions 14 and 15 are the control instructions.
        (0, _) if bits(a, 9, 7) != 7 => {
            let offset = (sign << 20) | (j2 << 19) | (j1 << 18) | (bits(a, 5, 0) << 12) | (bits(b, 10, 0) << 1);
            let target = isa.relative(read_pc, sign_extend(offset, 21));
            Insn::control(4, Flow::Branch { target })
        }
        // nop.w (A7.7.88); msr, mrs, barriers and the other hints are not pure.
        (0, _) if (a, b) == (0xf3af, 0x8000) => Insn::pure(4),
        (1, _) if matches!(isa, Isa::ThumbV8m) => low_overhead_loop(isa, read_pc, a, b),
        _ => Insn::leaves(4),
    }
}

/// Armv8.1-M "LE, LETP" and "WLS, DLS, WLSTP, DLSTP". The vector forms touch the FPU.
fn low_overhead_loop(isa: Isa, read_pc: u64, a: u32, b: u32) -> Insn {
    if a & 0xff80 != 0xf000 || b & 0xf001 != 0xc001 {
        return Insn::leaves(4);
    }
    let offset = ((bits(b, 10, 1) << 2) | (bits(b, 11, 11) << 1)) as i32;
    let back = isa.relative(read_pc, -offset);
    let flow = match a & 0x7f {
        0x0f | 0x1f => Flow::Branch { target: back },
        // le without lr: the branch back is always taken.
        0x2f => Flow::Jump { target: back },
        0x3f | 0x4f => Flow::Next,
        0x00..=0x4e => Flow::Branch { target: isa.relative(read_pc, offset) },
        // bfl: QEMU takes the branch-future hints for no-ops.
        _ => Flow::Next,
    };
    Insn::new(4, true, flow)
}

/// A5.3.16 multiply, multiply accumulate, absolute difference; A5.3.17 long multiply and divide.
const fn multiply(isa: Isa, a: u32, b: u32) -> Insn {
    let (low, high) = (bits(b, 15, 12), bits(b, 11, 8));
    match bits(a, 7, 4) {
        // smmls without an accumulator: unpredictable, or v8.1-M's pacg.
        6 if low == PC => Insn::leaves(4),
        0..=7 => writes(isa, 4, high),
        // smull, umull, smlal.., smlsld, umlal/umaal: two results, neither may be sp or pc.
        8 | 10 | 12 | 13 | 14 if is_general(high) && is_general(low) => Insn::pure(4),
        // sdiv, udiv: CCR.DIV_0_TRP turns a zero divisor into a fault.
        _ => Insn::leaves(4),
    }
}

/// Whether the register is neither sp nor pc.
const fn is_general(reg: u32) -> bool {
    !matches!(reg, SP | PC)
}

/// See [`crate::table_entry_bytes`]. A7.7.184, "TBB, TBH".
pub(crate) fn table_entry_bytes(bytes: &[u8]) -> Option<u8> {
    let second = half(bytes.get(2..)?)?;
    let is_behind_pc = half(bytes)? == 0xe8df;
    match second & 0xfff0 {
        0xf000 if is_behind_pc => Some(1),
        0xf010 if is_behind_pc => Some(2),
        _ => None,
    }
}

/// See [`crate::changes_mask`].
pub(crate) fn changes_mask(bytes: &[u8]) -> bool {
    let Some(first) = half(bytes) else { return false };
    // cps; msr, whose SYSm names the register: 16 to 19, plus 128 for the other security state's.
    first & 0xffe8 == 0xb660
        || (first & 0xffe0 == 0xf380
            && half(&bytes[2..]).is_some_and(|second| second & 0xd000 == 0x8000 && second & 0x7c == 0x10))
}

/// See [`crate::moves_sp`]. Pushes (A7.7.101, stmdb, str and vstmdb with write-back), `sub sp`, and `mov sp`.
pub(crate) fn moves_sp(bytes: &[u8]) -> bool {
    let Some(first) = half(bytes) else { return false };
    if first < 0xe800 {
        // push; sub sp, #imm; add and mov with a high destination.
        return matches!(first >> 8, 0xb4 | 0xb5)
            || first & 0xff80 == 0xb080
            || (matches!(first >> 8, 0x44 | 0x46) && high_register(u32::from(first)) == SP);
    }
    let Some(second) = half(&bytes[2..]).map(u32::from) else { return false };
    match first {
        // stmdb sp!; str and strd with write-back.
        0xe92d => true,
        0xf84d => bits(second, 11, 8) == 0xd,
        0xe96d => true,
        // sub.w and subw sp, sp, #imm; sub.w sp, sp, reg.
        0xf1ad | 0xf5ad | 0xf2ad | 0xf6ad | 0xebad => bits(second, 11, 8) == SP,
        // vpush.
        _ => first & 0xffbf == 0xed2d,
    }
}

/// See [`crate::subtracts_from_sp`]. sub.w sp, sp, reg: A7.7.176.
pub(crate) fn subtracts_from_sp(bytes: &[u8]) -> bool {
    let (first, second) = (half(bytes), bytes.get(2..).and_then(half).map(u32::from));
    first == Some(0xebad) && second.is_some_and(|second| bits(second, 11, 8) == SP)
}

/// See [`crate::taken_from_sp`]. Pushes by their lists of registers, `sub sp` by its immediate (A7.7.176).
pub(crate) fn taken_from_sp(bytes: &[u8]) -> Option<u64> {
    let first = half(bytes)?;
    if !moves_sp(bytes) {
        let is_whole = first < 0xe800 || bytes.len() >= 4;
        return (is_whole && !sets_sp(bytes) && !changes_sp_otherwise(bytes)).then_some(0);
    }
    if first < 0xe800 {
        return match first >> 8 {
            0xb4 | 0xb5 => Some(u64::from((first & 0x1ff).count_ones()) * 4),
            0xb0 => Some(u64::from(first & 0x7f) * 4),
            _ => None,
        };
    }
    let second = u32::from(half(&bytes[2..])?);
    let is_from_sp = u32::from(first & 0xf) == SP;
    let immediate = u32::from(first >> 10 & 1) << 11 | bits(second, 14, 12) << 8 | bits(second, 7, 0);
    match first {
        0xe92d => Some(u64::from(second.count_ones()) * 4),
        0xf84d => Some(bits(second, 7, 0).into()),
        0xe96d => Some(u64::from(bits(second, 7, 0)) * 4),
        0xf1ad | 0xf5ad if is_from_sp => Some(expanded(immediate).into()),
        0xf2ad | 0xf6ad if is_from_sp => Some(immediate.into()),
        _ if first & 0xffbf == 0xed2d => Some(u64::from(bits(second, 7, 0)) * 4),
        _ => None,
    }
}

/// Whether an instruction changes the stack pointer in another way: pops, any write-back, results of `add` and its like.
fn changes_sp_otherwise(bytes: &[u8]) -> bool {
    let Some(first) = half(bytes) else { return false };
    if first < 0xe800 {
        return matches!(first >> 8, 0xbc | 0xbd) || first & 0xff80 == 0xb000;
    }
    let Some(second) = half(&bytes[2..]).map(u32::from) else { return false };
    match first {
        // ldmia, stmia, ldmdb; ldrd and strd with write-back.
        0xe8bd | 0xe8ad | 0xe93d => true,
        0xe86d | 0xe87d | 0xe8ed | 0xe8fd | 0xe97d | 0xe9ed | 0xe9fd => true,
        // Single loads and stores with write-back, before or after.
        0xf80d | 0xf81d | 0xf82d | 0xf83d | 0xf84d | 0xf85d | 0xf91d | 0xf93d => {
            bits(second, 11, 11) == 1 && bits(second, 8, 8) == 1
        }
        // Data processing, of registers and of immediates; a comparison has no result.
        0xea00..=0xebff => bits(second, 11, 8) == SP,
        0xf000..=0xf7ff => bits(second, 15, 15) == 0 && bits(second, 11, 8) == SP,
        // vpop; vstmia, vldmdb.
        _ => matches!(first & 0xffbf, 0xecbd | 0xecad | 0xed3d),
    }
}

/// Value of a modified immediate: A5.3.2, ThumbExpandImm.
fn expanded(immediate: u32) -> u32 {
    let byte = immediate & 0xff;
    match immediate >> 8 {
        0 => byte,
        1 => byte << 16 | byte,
        2 => byte << 24 | byte << 8,
        3 => byte << 24 | byte << 16 | byte << 8 | byte,
        _ => (0x80 | byte & 0x7f).rotate_right(immediate >> 7 & 0x1f),
    }
}

/// See [`crate::sets_sp`].
pub(crate) fn sets_sp(bytes: &[u8]) -> bool {
    let Some(first) = half(bytes) else { return false };
    if first < 0xe800 {
        // mov sp, reg (not r7).
        return first & 0xff87 == 0x4685 && first != 0x46bd;
    }
    let Some(second) = half(&bytes[2..]).map(u32::from) else { return false };
    match first {
        // msr to MSP and PSP, also of the other security state; then, below, loads to sp: B5.2.3 and A7.7.43.
        0xf380..=0xf38f => matches!(second, 0x8808 | 0x8809 | 0x8888 | 0x8889),
        _ => first & 0xff70 == 0xf850 && bits(second, 15, 12) == SP,
    }
}
