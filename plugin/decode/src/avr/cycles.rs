// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles of AVR's instructions.
//!
//! Source: AVR Instruction Set Manual, DS40002198, the tables of cycles on each instruction's page, column AVRe.

use super::{RETI, SLEEP};
use crate::{bits, half};

/// Cycles of an instruction: of a branch that is not taken, and of a skip that skips nothing. `pc_bytes`: size of a return
/// address on the stack. None: the instruction is reserved or of other cores, or its time depends on more (`spm`, `break`).
#[must_use]
pub fn cycles(bytes: &[u8], pc_bytes: u64) -> Option<u64> {
    let insn = u32::from(half(bytes)?);
    let long = pc_bytes.checked_sub(2)?;
    match insn >> 12 {
        // muls, mulsu and the fractional multiplications.
        0x0 if matches!(insn >> 8, 2 | 3) => Some(2),
        0x0 if insn != 0 && insn < 0x100 => None,
        // ldd, std.
        0x8 | 0xa => Some(2),
        0x9 => group_9(insn, long),
        // rjmp; rcall.
        0xc => Some(2),
        0xd => Some(3 + long),
        // Reserved among bld, bst, sbrc, sbrs.
        0xf if insn & 0x0808 == 0x0808 => None,
        _ => Some(1),
    }
}

/// `long`: 1 where a return address has three bytes.
fn group_9(insn: u32, long: u64) -> Option<u64> {
    match (bits(insn, 11, 8), bits(insn, 3, 0)) {
        // lds, ld, pop; sts, st, push.
        (0x0..=0x3, 0..=2 | 9 | 0xa | 0xc..=0xf) => Some(2),
        // lpm, elpm.
        (0x0 | 0x1, 4..=7) => Some(3),
        (0x4 | 0x5, _) => group_94(insn, long),
        // adiw, sbiw; cbi, sbi; mul.
        (0x6..=0x8 | 0xa | 0xc..=0xf, _) => Some(2),
        // sbic, sbis.
        (0x9 | 0xb, _) => Some(1),
        _ => None,
    }
}

fn group_94(insn: u32, long: u64) -> Option<u64> {
    match (insn as u16, bits(insn, 3, 0)) {
        // ret, reti.
        (0x9508 | RETI, _) => Some(4 + long),
        // sleep, wdr.
        (SLEEP | 0x95a8, _) => Some(1),
        // lpm, elpm.
        (0x95c8 | 0x95d8, _) => Some(3),
        // ijmp, eijmp.
        (0x9409 | 0x9419, _) => Some(2),
        // icall; eicall, which only processors with such addresses have.
        (0x9509, _) => Some(3 + long),
        (0x9519, _) => Some(4),
        // com, neg, swap, inc, asr, lsr, ror, dec.
        (_, 0x0..=0x3 | 0x5..=0x7 | 0xa) => Some(1),
        // bset, bclr.
        (_, 0x8) if bits(insn, 8, 8) == 0 => Some(1),
        // jmp; call.
        (_, 0xc | 0xd) => Some(3),
        (_, 0xe | 0xf) => Some(4 + long),
        _ => None,
    }
}
