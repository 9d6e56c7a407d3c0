// SPDX-License-Identifier: MIT OR Apache-2.0
//! AVR with the enhanced core (AVRe, AVRe+), as ATmega have it.
//!
//! Page titles are those of the AVR Instruction Set Manual, DS40002198. Addresses are those of flash bytes, as in ELF
//! files; the manual counts words.
//!
//! A skip instruction is a conditional block of one instruction, as Thumb's `it` is. QEMU starts a skipped instruction,
//! too, and counts it on the virtual clock, where the processor needs a cycle for each of its words.

use crate::{Flow, Insn, Isa, bits, half, sign_extend};

pub(crate) mod condition;
pub(crate) mod cycles;
pub(crate) mod store;

/// `reti`.
pub(crate) const RETI: u16 = 0x9518;
/// `sei`.
const SEI: u16 = 0x9478;
/// `sleep`.
pub(crate) const SLEEP: u16 = 0x9588;
/// `wdr`.
pub(crate) const WDR: u16 = 0x95a8;

/// I/O addresses of the stack pointer's halves and of the status register, as `in` and `out` name them.
const SPL: u32 = 0x3d;
const SPH: u32 = 0x3e;
pub(crate) const SREG: u32 = 0x3f;

pub(crate) fn decode(isa: Isa, pc: u64, bytes: &[u8]) -> Insn {
    let Some(insn) = half(bytes).map(u32::from) else {
        return Insn::leaves(2);
    };
    if has_second_word(insn) {
        return match half(&bytes[2..]) {
            Some(second) => two_words(isa, insn, u32::from(second)),
            None => Insn::leaves(4),
        };
    }
    // A jump is relative to the next instruction, in words.
    let relative =
        |offset_words: u32, width: u32| isa.relative(pc.wrapping_add(2), sign_extend(offset_words << 1, width + 1));
    match insn >> 12 {
        0x0 => arithmetic_0(insn),
        // cpse ("CPSE - Compare Skip if Equal"); cp, sub, adc (rol).
        0x1 if insn >> 10 == 4 => Insn::control(2, Flow::It { count: 1 }),
        0x1 => Insn::pure(2),
        // and, eor, or, mov; cpi, sbci, subi, ori, andi; ldi.
        0x2..=0x7 | 0xe => Insn::pure(2),
        // Loads and stores with displacement.
        0x8 | 0xa => Insn::leaves(2),
        0x9 => group_9(insn),
        // in, out.
        0xb => Insn::leaves(2),
        0xc => Insn::control(2, Flow::Jump { target: relative(bits(insn, 11, 0), 12) }),
        // The return address goes to memory.
        0xd => Insn::new(2, true, Flow::Call { target: relative(bits(insn, 11, 0), 12) }),
        _ => group_f(insn, relative(bits(insn, 9, 3), 7)),
    }
}

/// Whether the instruction is `lds`, `sts`, `jmp` or `call`, whose second word is an address.
const fn has_second_word(insn: u32) -> bool {
    insn & 0xfc0f == 0x9000 || insn & 0xfe0c == 0x940c
}

fn two_words(isa: Isa, insn: u32, second: u32) -> Insn {
    if insn & 0xfc0f == 0x9000 {
        return Insn::leaves(4);
    }
    let words = bits(insn, 8, 4) << 17 | bits(insn, 0, 0) << 16 | second;
    let target = isa.wrap(u64::from(words) << 1);
    if bits(insn, 1, 1) == 0 {
        Insn::control(4, Flow::Jump { target })
    } else {
        Insn::new(4, true, Flow::Call { target })
    }
}

/// nop, movw, muls, mulsu and the fractional multiplications, cpc, sbc, add (lsl). The rest of the first page is
/// reserved.
const fn arithmetic_0(insn: u32) -> Insn {
    if insn == 0 || insn >= 0x0100 { Insn::pure(2) } else { Insn::leaves(2) }
}

fn group_9(insn: u32) -> Insn {
    match bits(insn, 11, 8) {
        0x4 | 0x5 => group_94(insn),
        // adiw, sbiw; mul.
        0x6 | 0x7 | 0xc..=0xf => Insn::pure(2),
        // sbic, sbis: they read a device.
        0x9 | 0xb => Insn::new(2, true, Flow::It { count: 1 }),
        // Loads, stores, lpm, elpm, push, pop, and on newer cores xch, las, lac, lat; cbi, sbi.
        _ => Insn::leaves(2),
    }
}

fn group_94(insn: u32) -> Insn {
    match (insn as u16, bits(insn, 3, 0)) {
        // ijmp, eijmp: through Z, which is two registers.
        (0x9409 | 0x9419, _) => Insn::control(2, Flow::ComputedJump),
        // icall, eicall.
        (0x9509 | 0x9519, _) => Insn::new(2, true, Flow::IndirectCall { reg: Z, offset: 0, clobbered: true }),
        // ret, reti.
        (0x9508 | RETI, _) => Insn::new(2, true, Flow::Return),
        // com, neg, swap, inc, asr, lsr, ror, dec.
        (_, 0x0..=0x3 | 0x5..=0x7 | 0xa) => Insn::pure(2),
        // bset and bclr, but for the interrupt flag (sei, cli).
        (_, 0x8) if bits(insn, 8, 8) == 0 && bits(insn, 6, 4) != 7 => Insn::pure(2),
        // sei, cli, sleep, break, wdr, lpm, elpm, spm, des, reserved.
        _ => Insn::leaves(2),
    }
}

/// Number of the register pair Z's lower half.
const Z: u8 = 30;

const fn group_f(insn: u32, target: u64) -> Insn {
    match bits(insn, 11, 9) {
        // brbs, brbc.
        0..=3 => Insn::control(2, Flow::Branch { target }),
        // Reserved, where bit 3 is set: bld, bst, sbrc, sbrs.
        _ if bits(insn, 3, 3) == 1 => Insn::leaves(2),
        4 | 5 => Insn::pure(2),
        _ => Insn::control(2, Flow::It { count: 1 }),
    }
}

/// Register of I/O space that an instruction accesses by its number: `in`, `out`, `sbi`, `cbi`, `sbis`, `sbic`.
pub(crate) fn io(bytes: &[u8]) -> Option<u32> {
    let insn = u32::from(half(bytes)?);
    match insn >> 12 {
        0xb => Some(bits(insn, 10, 9) << 4 | bits(insn, 3, 0)),
        0x9 if matches!(bits(insn, 11, 8), 0x8..=0xb) => Some(bits(insn, 7, 3)),
        _ => None,
    }
}

/// Bit of its register of I/O space that `sbi` sets or `cbi` clears; the others stay.
pub(crate) fn io_bit(bytes: &[u8]) -> Option<u8> {
    let insn = u32::from(half(bytes)?);
    matches!(insn >> 8, 0x98 | 0x9a).then(|| 1 << bits(insn, 2, 0))
}

/// Whether the instruction is `elpm`, in any of its three forms.
pub(crate) fn is_elpm(bytes: &[u8]) -> bool {
    half(bytes).is_some_and(|insn| insn == 0x95d8 || insn & 0xfe0e == 0x9006)
}

/// See [`crate::reads_avr_flash`]. `lpm` and `elpm`.
pub(crate) fn reads_flash(bytes: &[u8]) -> bool {
    half(bytes).is_some_and(|insn| matches!(insn, 0x95c8 | 0x95d8) || insn & 0xfe0c == 0x9004)
}

/// Register of I/O space that `out` writes, and the register that it writes there.
pub(crate) fn out(bytes: &[u8]) -> Option<(u32, u8)> {
    let insn = u32::from(half(bytes)?);
    (insn & 0xf800 == 0xb800).then_some((io(bytes)?, bits(insn, 8, 4) as u8))
}

/// Whether the instruction is `out` to one of these registers.
fn is_out_to(bytes: &[u8], ports: &[u32]) -> bool {
    out(bytes).is_some_and(|(port, _)| ports.contains(&port))
}

/// See [`crate::changes_mask`]. `sei`, `cli`, `out SREG`, `reti`.
pub(crate) fn changes_mask(bytes: &[u8]) -> bool {
    half(bytes).is_some_and(|insn| matches!(insn, SEI | 0x94f8 | RETI)) || is_out_to(bytes, &[SREG])
}

/// See [`crate::avr_may_unmask`].
pub(crate) fn may_unmask(bytes: &[u8]) -> bool {
    half(bytes) == Some(SEI) || is_out_to(bytes, &[SREG])
}

/// See [`crate::moves_sp`]. `push`, `out` to the stack pointer, and `rcall` to the next instruction, by which compilers
/// make room for two bytes.
pub(crate) fn moves_sp(bytes: &[u8]) -> bool {
    half(bytes).is_some_and(|insn| insn & 0xfe0f == 0x920f || insn == 0xd000) || is_out_to(bytes, &[SPL, SPH])
}

/// Whether QEMU executes the instruction as a load or a store in the data space.
pub(crate) fn accesses_data(bytes: &[u8]) -> bool {
    half(bytes).is_some_and(|insn| match insn >> 12 {
        // ldd, std.
        0x8 | 0xa => true,
        // lds, ld, pop; sts, st, push. The rest is reserved, of other cores, or lpm and elpm (4 to 7), which read flash.
        0x9 => insn & 0x0c00 == 0 && matches!(insn & 0xf, 0..=2 | 9 | 0xa | 0xc..=0xf),
        _ => false,
    })
}
