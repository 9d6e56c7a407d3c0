// SPDX-License-Identifier: MIT OR Apache-2.0
//! Floating-point instructions of a Cortex-M4 with its FPU: single precision, and moves and accesses of pairs.
//!
//! Sections are those of the Armv7-M Architecture Reference Manual, DDI 0403E.

use crate::thumb::{Class, Insn, Set};

const fn bits(insn: u32, high: u32, low: u32) -> u32 {
    insn << (31 - high) >> (31 - high + low)
}

/// Register of single precision whose number is in four bits and one below.
const fn single(upper: u32, lower: u32) -> Set {
    1 << (upper << 1 | lower)
}

/// Registers of a field of `count` from a number on, those that there are.
const fn several(from: u32, count: u32) -> Set {
    let ones = if count >= 32 { Set::MAX } else { (1 << count) - 1 };
    if from >= 32 { 0 } else { ones << from }
}

/// A5.3.18, "Coprocessor instructions", and A6.4 to A6.7, of coprocessors 10 and 11.
pub(crate) fn decode(first: u32, second: u32) -> Insn {
    let is_double = second & 0x100 != 0;
    let (d, m, n) = (bits(first, 6, 6), bits(second, 5, 5), bits(second, 7, 7));
    let (vd, vm, vn) = (bits(second, 15, 12), bits(second, 3, 0), bits(first, 3, 0));
    let rt = 1 << bits(second, 15, 12);
    match bits(first, 11, 8) {
        14 if second & 0x10 != 0 => {
            let register = single(vn, n);
            let insn = Insn::new(Class::FloatMove, 4);
            match (bits(first, 7, 5), first & 0x10 != 0) {
                // vmrs, vmsr.
                (7, true) => Insn { writes: rt & !(1 << 15), ..insn },
                (7, false) => Insn { reads: rt, ..insn },
                (_, true) => Insn { float_reads: register, writes: rt, ..insn },
                (_, false) => Insn { float_writes: register, reads: rt, ..insn },
            }
        }
        14 => arithmetic(first, second, [single(vd, d), single(vn, n), single(vm, m)]),
        12 if bits(first, 7, 5) == 2 => {
            let general = rt | 1 << vn;
            let from = if is_double { m << 5 | vm << 1 } else { vm << 1 | m };
            let insn = Insn::new(Class::FloatMovePair, 4);
            match first & 0x10 != 0 {
                true => Insn { float_reads: several(from, 2), writes: general, ..insn },
                false => Insn { float_writes: several(from, 2), reads: general, ..insn },
            }
        }
        12 | 13 => access(first, second),
        _ => Insn::new(Class::Unknown, 4),
    }
}

/// A6.5, "Extension register load or store instructions".
fn access(first: u32, second: u32) -> Insn {
    let is_double = second & 0x100 != 0;
    let is_load = first & 0x10 != 0;
    let base = 1 << bits(first, 3, 0);
    let (vd, d) = (bits(second, 15, 12), bits(first, 6, 6));
    let from = if is_double { d << 5 | vd << 1 } else { vd << 1 | d };
    // P without W: one register or pair.
    let is_one = first & 0x100 != 0 && first & 0x20 == 0;
    let count = match (is_one, is_double) {
        (true, double) => 1 + u32::from(double),
        (false, _) => bits(second, 7, 0),
    };
    let class = match (is_one && !is_double, is_load) {
        (true, true) => Class::Load,
        (true, false) => Class::Store,
        (false, true) => Class::LoadMultiple,
        (false, false) => Class::StoreMultiple,
    };
    let registers = several(from, count);
    let (float_reads, float_writes) = if is_load { (0, registers) } else { (registers, 0) };
    let written_base = if is_one || first & 0x20 == 0 { 0 } else { base };
    let insn = Insn { count: count as u8, address: base, base: written_base, ..Insn::new(class, 4) };
    Insn { float_reads, float_writes, ..insn }
}

/// A6.4, "Floating-point data-processing instructions".
fn arithmetic(first: u32, second: u32, [d, n, m]: [Set; 3]) -> Insn {
    let new = |class, float_reads, float_writes| Insn { float_reads, float_writes, ..Insn::new(class, 4) };
    let is_odd = second & 0x40 != 0;
    match (bits(first, 7, 7), bits(first, 5, 4)) {
        (0, 0 | 1) | (1, 1 | 2) => new(Class::FloatMultiplyAdd, d | n | m, d),
        (0, _) => new(Class::Float, n | m, d),
        (_, 0) => new(Class::FloatDivide, n | m, d),
        _ => match bits(first, 3, 0) {
            // vmov of a constant.
            _ if !is_odd => new(Class::Float, 0, d),
            1 if second & 0x80 != 0 => new(Class::FloatDivide, m, d),
            // Comparisons, with zero or a register.
            4 => new(Class::Float, d | m, 0),
            5 => new(Class::Float, d, 0),
            _ => new(Class::Float, m, d),
        },
    }
}
