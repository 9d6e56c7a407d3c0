// SPDX-License-Identifier: MIT OR Apache-2.0
//! RV32 and RV64. Separate from Thumb, because the two share nothing but the interface.
//!
//! Sections are those of The RISC-V Instruction Set Manual, Volume I: Unprivileged Architecture,
//! version 20240411 (the instruction listings are its chapter "RV32/64G Instruction Set Listings").

use crate::{Flow, Insn, Isa, Zcmp, bits, half, sign_extend, word, zcmp};

/// `ebreak`, uncompressed: the only form QEMU takes for a semihosting call.
pub(crate) const EBREAK: u32 = 0x0010_0073;
/// `slli x0, x0, 0x1f` (RISC-V Semihosting 1.0, "Semihosting Trap Instruction Sequence").
pub(crate) const SEMIHOSTING_PREFIX: u32 = 0x01f0_1013;
/// `srai x0, x0, 7`.
pub(crate) const SEMIHOSTING_SUFFIX: u32 = 0x4070_5013;
/// `wfi` (Volume II, "Wait for Interrupt").
pub(crate) const WFI: u32 = 0x1050_0073;

// Volume II, "Trap-Return Instructions"; `uret` is the withdrawn N extension's, `mnret` Smrnmi's.
const URET: u32 = 0x0020_0073;
pub(crate) const SRET: u32 = 0x1020_0073;
pub(crate) const MRET: u32 = 0x3020_0073;
const MNRET: u32 = 0x7020_0073;

// "RV32/64G Instruction Set Listings", RISC-V base opcode map: bits 6:0.
const OP_IMM: u32 = 0x13;
const AUIPC: u32 = 0x17;
const OP_IMM_32: u32 = 0x1b;
const OP: u32 = 0x33;
const LUI: u32 = 0x37;
const OP_32: u32 = 0x3b;
const BRANCH: u32 = 0x63;
const JALR: u32 = 0x67;
const JAL: u32 = 0x6f;
const SYSTEM: u32 = 0x73;

/// x1 and x5 are the link registers ("Unconditional Jumps", return-address stack hints).
const fn is_link(reg: u32) -> bool {
    reg == 1 || reg == 5
}

pub(crate) fn decode(isa: Isa, pc: u64, bytes: &[u8]) -> Insn {
    // "Expanded Instruction-Length Encoding": QEMU, too, knows no lengths but these two.
    let Some(low) = half(bytes) else {
        return Insn::leaves(2);
    };
    if low & 3 != 3 {
        return compressed(isa, pc, u32::from(low));
    }
    match word(bytes) {
        Some(insn) => full(isa, pc, insn),
        None => Insn::leaves(4),
    }
}

pub(crate) fn auipc(isa: Isa, pc: u64, bytes: &[u8]) -> Option<(u8, u64)> {
    let insn = word(bytes)?;
    (bits(insn, 6, 0) == AUIPC).then(|| {
        let value = isa.relative(pc, (insn & 0xffff_f000) as i32);
        (bits(insn, 11, 7) as u8, value)
    })
}

fn full(isa: Isa, pc: u64, insn: u32) -> Insn {
    let rd = bits(insn, 11, 7);
    let rs1 = bits(insn, 19, 15);
    let funct3 = bits(insn, 14, 12);
    match bits(insn, 6, 0) {
        // All encodings of these opcodes compute on x registers only (RV32I, RV64I, M, the Zb* and Zk* families,
        // Zicond; division does not trap: "Division Operations"). An encoding that is not defined, or that this CPU
        // lacks, raises at translation. QEMU ends the block there, so the instruction is its block's last and the
        // answer does not matter.
        OP | OP_IMM | OP_32 | OP_IMM_32 | LUI => Insn::pure(4),
        // `auipc x0` is Zicfilp's `lpad`, which can raise.
        AUIPC if rd != 0 => Insn::pure(4),
        // "Conditional Branches". funct3 2 and 3 are reserved.
        BRANCH if funct3 & 6 != 2 => {
            let offset = (bits(insn, 31, 31) << 12)
                | (bits(insn, 7, 7) << 11)
                | (bits(insn, 30, 25) << 5)
                | (bits(insn, 11, 8) << 1);
            let target = isa.relative(pc, sign_extend(offset, 13));
            Insn::control(4, Flow::Branch { target })
        }
        // "Unconditional Jumps".
        JAL => {
            let offset = (bits(insn, 31, 31) << 20)
                | (bits(insn, 19, 12) << 12)
                | (bits(insn, 20, 20) << 11)
                | (bits(insn, 30, 21) << 1);
            jal(4, rd, isa.relative(pc, sign_extend(offset, 21)))
        }
        JALR if funct3 == 0 => jalr(4, rd, rs1, sign_extend(bits(insn, 31, 20), 12)),
        SYSTEM if matches!(insn, MRET | SRET | URET | MNRET) => Insn::new(4, true, Flow::Return),
        // Memory, CSRs, fences, atomics, floating point, vectors, custom and reserved opcodes.
        _ => Insn::leaves(4),
    }
}

/// See [`crate::is_known`].
pub(crate) fn is_known(isa: Isa, bytes: &[u8]) -> bool {
    let Some(low) = half(bytes).map(u32::from) else { return false };
    if low & 3 != 3 {
        return is_known_compressed(isa, low);
    }
    let Some(insn) = word(bytes) else { return false };
    match bits(insn, 6, 0) {
        // funct3 2 and 3, and other jalr than the one, are reserved.
        BRANCH => bits(insn, 14, 12) & 6 != 2,
        JALR => bits(insn, 14, 12) == 0,
        OP | OP_IMM | OP_32 | OP_IMM_32 | LUI | AUIPC | JAL | SYSTEM => true,
        // Loads, stores, fences, atomics; floating point; vectors.
        0x03 | 0x07 | 0x0f | 0x23 | 0x27 | 0x2f | 0x43 | 0x47 | 0x4b | 0x4f | 0x53 | 0x57 | 0x77 => true,
        // QEMU traps at instructions of more than 32 bits. The others are custom and reserved opcodes.
        _ => low & 0x1f == 0x1f,
    }
}

/// The same of a 16-bit instruction.
fn is_known_compressed(isa: Isa, insn: u32) -> bool {
    match (insn & 3, bits(insn, 15, 13)) {
        // All zeros is the illegal instruction.
        (0, 0) => insn == 0 || bits(insn, 12, 5) != 0,
        // Zcb: c.lbu, c.lhu and c.lh, c.sb, c.sh.
        (0, 4) => matches!((bits(insn, 12, 10), bits(insn, 6, 6)), (0..=2, _) | (3, 0)),
        // c.subw and c.addw; c.mul; Zcb's c.zext.b to c.not.
        (1, 4) if bits(insn, 12, 10) == 7 => match bits(insn, 6, 5) {
            0 | 1 => isa.is_riscv64(),
            2 => true,
            _ => bits(insn, 4, 2) <= 5,
        },
        (2, 5) if isa.has_zcmp() => zcmp::decode(isa, insn).is_some(),
        _ => true,
    }
}

/// Decodes a `jal`. By convention, only the link register distinguishes a call from a jump ("Unconditional Jumps").
const fn jal(len_bytes: u8, rd: u32, target: u64) -> Insn {
    let flow = if is_link(rd) { Flow::Call { target } } else { Flow::Jump { target } };
    Insn::control(len_bytes, flow)
}

/// Decodes a `jalr` by the table "Return-address stack prediction hints"; its pop-then-push row is taken as a call.
const fn jalr(len_bytes: u8, rd: u32, rs1: u32, offset: i32) -> Insn {
    let reg = rs1 as u8;
    let flow = if is_link(rd) {
        Flow::IndirectCall { reg, offset, clobbered: rd == rs1 }
    } else if is_link(rs1) {
        Flow::Return
    } else {
        Flow::IndirectJump { reg, offset }
    };
    Insn::control(len_bytes, flow)
}

/// Decodes a 16-bit instruction: "C" Extension for Compressed Instructions, "RVC Instruction Set Listings".
fn compressed(isa: Isa, pc: u64, insn: u32) -> Insn {
    if isa.has_zcmp()
        && let Some(known) = zcmp::decode(isa, insn)
    {
        return match known {
            Zcmp::Move { .. } => Insn::pure(2),
            Zcmp::Push { .. } | Zcmp::Pop { returns: false, .. } => Insn::leaves(2),
            Zcmp::Pop { returns: true, .. } => Insn::new(2, true, Flow::Return),
            // The target is in a table in memory.
            Zcmp::Jump { links: false, .. } => Insn::new(2, true, Flow::ComputedJump),
            Zcmp::Jump { links: true, .. } => {
                Insn::new(2, true, Flow::IndirectCall { reg: 1, offset: 0, clobbered: true })
            }
        };
    }
    let rv64 = isa.is_riscv64();
    let rd = bits(insn, 11, 7);
    let rs2 = bits(insn, 6, 2);
    let bit12 = bits(insn, 12, 12);
    // Shift amounts of 32 and more are reserved on RV32.
    let shift_ok = rv64 || bit12 == 0;
    let pure = match (insn & 3, bits(insn, 15, 13)) {
        // c.addi4spn; an immediate of zero is reserved, and all zeros is the illegal instruction.
        (0, 0) => bits(insn, 12, 5) != 0,
        // c.nop, c.addi.
        (1, 0) => true,
        // c.jal on RV32, c.addiw on RV64 (rd = 0 is reserved).
        (1, 1) if !rv64 => return jal(2, 1, compressed_jump(isa, pc, insn)),
        (1, 1) => rd != 0,
        // c.li.
        (1, 2) => true,
        // c.lui, c.addi16sp. An immediate of zero is reserved, a may-be-operation (Zcmop), or
        // Zicfiss's push to the shadow stack.
        (1, 3) => bit12 != 0 || rs2 != 0,
        // Shifts, c.andi, c.sub.., and Zcb's c.mul and c.zext.b..c.not.
        (1, 4) => match (bits(insn, 11, 10), bit12, bits(insn, 6, 5)) {
            (0 | 1, ..) => shift_ok,
            (2, ..) | (3, 0, _) => true,
            (3, 1, 0 | 1) => rv64,
            (3, 1, 2) => true,
            _ => bits(insn, 4, 2) <= 5,
        },
        (1, 5) => return jal(2, 0, compressed_jump(isa, pc, insn)),
        // c.beqz, c.bnez.
        (1, 6 | 7) => {
            let offset = (bits(insn, 12, 12) << 8)
                | (bits(insn, 6, 5) << 6)
                | (bits(insn, 2, 2) << 5)
                | (bits(insn, 11, 10) << 3)
                | (bits(insn, 4, 3) << 1);
            let target = isa.relative(pc, sign_extend(offset, 9));
            return Insn::control(2, Flow::Branch { target });
        }
        // c.slli.
        (2, 0) => shift_ok,
        // c.jr, c.mv; c.jalr, c.add. With both fields zero: reserved, and c.ebreak.
        (2, 4) if rs2 == 0 && rd != 0 => return jalr(2, bit12, rd, 0),
        (2, 4) => rs2 != 0,
        // Loads and stores of quadrants 0 and 2, Zcb's and Zcmp's among them.
        _ => false,
    };
    if pure { Insn::pure(2) } else { Insn::leaves(2) }
}

/// Target of c.j and c.jal: offset[11|4|9:8|10|6|7|3:1|5] in bits 12:2.
fn compressed_jump(isa: Isa, pc: u64, insn: u32) -> u64 {
    let offset = (bits(insn, 12, 12) << 11)
        | (bits(insn, 8, 8) << 10)
        | (bits(insn, 10, 9) << 8)
        | (bits(insn, 6, 6) << 7)
        | (bits(insn, 7, 7) << 6)
        | (bits(insn, 2, 2) << 5)
        | (bits(insn, 11, 11) << 4)
        | (bits(insn, 5, 3) << 1);
    isa.relative(pc, sign_extend(offset, 12))
}

/// See [`crate::changes_mask`].
pub(crate) fn changes_mask(bytes: &[u8]) -> bool {
    const MSTATUS: u32 = 0x300;
    let Some(insn) = word(bytes) else { return false };
    matches!(insn, MRET | SRET | MNRET) || written_csr(insn) == Some(MSTATUS)
}

/// See [`crate::moves_trap_vector`].
pub(crate) fn moves_trap_vector(bytes: &[u8]) -> bool {
    const STVEC: u32 = 0x105;
    const MTVEC: u32 = 0x305;
    matches!(word(bytes).and_then(written_csr), Some(STVEC | MTVEC))
}

/// CSR that an instruction writes. "Zicsr": funct3 0 and 4 are not CSR instructions; csrrs and csrrc with x0 (or 0)
/// only read.
fn written_csr(insn: u32) -> Option<u32> {
    let (function, source) = (bits(insn, 14, 12), bits(insn, 19, 15));
    let writes = matches!(function, 1 | 5) || (matches!(function, 2 | 3 | 6 | 7) && source != 0);
    (bits(insn, 6, 0) == SYSTEM && writes).then(|| bits(insn, 31, 20))
}

/// See [`crate::moves_sp`]. "RV32I Base Integer Instruction Set": addi, add, sub, and their compressed forms with sp
/// as the destination.
pub(crate) fn moves_sp(isa: Isa, bytes: &[u8]) -> bool {
    const SP: u32 = 2;
    let Some(low) = half(bytes).map(u32::from) else { return false };
    if matches!(zcmp::known(isa, bytes), Some(Zcmp::Push { .. })) {
        return true;
    }
    if low & 3 != 3 {
        // c.addi and c.addi16sp; c.mv.
        let to_sp = bits(low, 11, 7) == SP;
        let kind = (low & 3, bits(low, 15, 13));
        return to_sp && (matches!(kind, (1, 0 | 3)) || (kind == (2, 4) && bits(low, 6, 2) != 0));
    }
    let Some(insn) = word(bytes) else { return false };
    let (opcode, function) = (bits(insn, 6, 0), bits(insn, 14, 12));
    let is_sum = opcode == 0x13 || (opcode == 0x33 && matches!(bits(insn, 31, 25), 0 | 0x20));
    bits(insn, 11, 7) == SP && function == 0 && is_sum
}

/// See [`crate::subtracts_from_sp`]. `sub sp, sp, reg`.
pub(crate) fn subtracts_from_sp(bytes: &[u8]) -> bool {
    const SP: u32 = 2;
    word(bytes)
        .is_some_and(|insn| insn & 0xfe00_707f == 0x4000_0033 && bits(insn, 11, 7) == SP && bits(insn, 19, 15) == SP)
}

/// See [`crate::taken_from_sp`]. addi, c.addi and c.addi16sp with sp as source and destination; cm.push.
pub(crate) fn taken_from_sp(isa: Isa, bytes: &[u8]) -> Option<u64> {
    const SP: u32 = 2;
    match zcmp::known(isa, bytes) {
        Some(Zcmp::Push { bytes, .. }) => return Some(bytes.into()),
        Some(Zcmp::Pop { .. }) => return None,
        Some(Zcmp::Move { .. } | Zcmp::Jump { .. }) => return Some(0),
        None => {}
    }
    if !moves_sp(isa, bytes) {
        return (!sets_sp(bytes) && !computes_sp(bytes)).then_some(0);
    }
    let low = u32::from(half(bytes)?);
    let change = match (low & 3, bits(low, 15, 13)) {
        (1, 0) => sign_extend(bits(low, 12, 12) << 5 | bits(low, 6, 2), 6),
        // nzimm[9] in bit 12, nzimm[4|6|8:7|5] in bits 6:2.
        (1, 3) => sign_extend(
            bits(low, 12, 12) << 9
                | bits(low, 4, 3) << 7
                | bits(low, 5, 5) << 6
                | bits(low, 2, 2) << 5
                | bits(low, 6, 6) << 4,
            10,
        ),
        (3, _) => {
            let insn = word(bytes)?;
            if bits(insn, 6, 0) != 0x13 || bits(insn, 19, 15) != SP {
                return None;
            }
            sign_extend(bits(insn, 31, 20), 12)
        }
        _ => return None,
    };
    (change <= 0).then(|| i64::from(change).unsigned_abs())
}

/// Whether an instruction of 32 bits computes the stack pointer, as `andi` does that aligns it.
fn computes_sp(bytes: &[u8]) -> bool {
    const SP: u32 = 2;
    word(bytes)
        .is_some_and(|insn| matches!(bits(insn, 6, 0), OP | OP_IMM | OP_32 | OP_IMM_32) && bits(insn, 11, 7) == SP)
}

/// See [`crate::sets_sp`].
pub(crate) fn sets_sp(bytes: &[u8]) -> bool {
    const SP: u32 = 2;
    const FP: u32 = 8;
    let Some(low) = half(bytes).map(u32::from) else { return false };
    if low & 3 != 3 {
        // c.lui encodes c.addi16sp for sp; c.li; c.lwsp, c.ldsp; c.mv.
        let kind = (low & 3, bits(low, 15, 13));
        let source = bits(low, 6, 2);
        return bits(low, 11, 7) == SP
            && match kind {
                (1 | 2, 2) | (2, 3) => true,
                (2, 4) => bits(low, 12, 12) == 0 && source != 0 && source != FP,
                _ => false,
            };
    }
    let Some(insn) = word(bytes) else { return false };
    let (from, and) = (bits(insn, 19, 15), bits(insn, 24, 20));
    bits(insn, 11, 7) == SP
        && match bits(insn, 6, 0) {
            // addi and its like; add, sub and their like.
            0x13 => !matches!(from, SP | FP),
            0x33 => from != SP && and != SP,
            // Loads; lui, auipc; CSRs.
            0x03 | 0x37 | 0x17 | SYSTEM => true,
            _ => false,
        }
}
