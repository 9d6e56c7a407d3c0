// SPDX-License-Identifier: MIT OR Apache-2.0
//! Effects of Thumb's instructions on the stack: Armv7-M Architecture Reference Manual, A5 and A7.7.

use super::bits;
use super::state::{State, Value, Width};

const SP: usize = 13;
const LR: usize = 14;
const PC: usize = 15;

/// Applies an instruction to the state: `low` is its first halfword, `literal` reads a word of the image.
pub(super) fn execute(pc: u64, low: u32, high: u32, literal: impl Fn(u64) -> Option<u32>, state: &mut State) {
    let literal = |address: u64| literal(address).map_or(Value::Unknown, |word| Value::Constant(word as i32));
    if low < 0xe800 { narrow(pc, low, literal, state) } else { wide(pc, low, high, literal, state) }
}

/// Whether an instruction may change the stack pointer: a field for a register names it, a list of registers may, or it
/// is `msr`.
pub(super) fn may_write_sp(low: u32, high: u32) -> bool {
    if low < 0xe800 {
        return matches!(low >> 8, 0x44 | 0x46 | 0xb0 | 0xb4 | 0xb5 | 0xbc | 0xbd);
    }
    let is_sp = |field: u32| field as usize == SP;
    low >> 9 == 0x74
        || low & 0xfff0 == 0xf380
        || is_sp(bits(low, 3, 0))
        || [bits(high, 15, 12), bits(high, 11, 8), bits(high, 3, 0)].into_iter().any(is_sp)
}

/// Address of the word that the instruction reads relative to pc; None: it reads none.
pub(super) fn literal_address(pc: u64, low: u32, high: u32) -> Option<u64> {
    let base = (pc + 4) & !3;
    match low {
        0x4800..=0x4fff => Some(base + u64::from(low & 0xff) * 4),
        0xf8df => Some(base + u64::from(high & 0xfff)),
        0xf85f if high >> 12 != 15 => base.checked_sub(u64::from(high & 0xfff)),
        // vldr
        0xed9f => Some(base + u64::from(high & 0xff) * 4),
        0xed1f => base.checked_sub(u64::from(high & 0xff) * 4),
        _ => None,
    }
}

/// Applies a 16-bit instruction: A5.2, "16-bit Thumb instruction encoding".
fn narrow(pc: u64, low: u32, literal: impl Fn(u64) -> Value, state: &mut State) {
    let (rd, rn, high_rd) = (bits(low, 2, 0) as usize, bits(low, 5, 3) as usize, bits(low, 10, 8) as usize);
    let rm = bits(low, 8, 6) as usize;
    let offset = bits(low, 10, 6) as i32;
    match low >> 8 {
        // adds, subs of registers and of three bits; lsls #0 is movs.
        0x18 | 0x19 => state.set(rd, state.get(rn).sum(state.get(rm))),
        0x1a | 0x1b => state.set(rd, state.get(rn).minus(state.get(rm))),
        0x1c | 0x1d => state.set(rd, state.get(rn).plus(rm as i32)),
        0x1e | 0x1f => state.set(rd, state.get(rn).plus(-(rm as i32))),
        0x00 if offset == 0 => state.set(rd, state.get(rn)),
        // lsls
        0x00..=0x07 => {
            let value = match state.get(rn) {
                Value::Constant(value) => Value::Constant(value << offset),
                _ => Value::Unknown,
            };
            state.set(rd, value);
        }
        0x08..=0x17 => state.set(rd, Value::Unknown),
        // movs, cmp, adds, subs with eight bits
        0x20..=0x27 => state.set(high_rd, Value::Constant((low & 0xff) as i32)),
        0x28..=0x2f => {}
        0x30..=0x37 => state.add(high_rd, (low & 0xff) as i32),
        0x38..=0x3f => state.add(high_rd, -((low & 0xff) as i32)),
        // tst, cmp, cmn; rsbs #0; the other data processing
        0x42 if bits(low, 7, 6) == 1 => {
            let value = match state.get(rn) {
                Value::Constant(value) => Value::Constant(value.wrapping_neg()),
                _ => Value::Unknown,
            };
            state.set(rd, value);
        }
        0x42 => {}
        0x40 | 0x41 | 0x43 => state.set(rd, Value::Unknown),
        // add and mov of all registers
        0x44 | 0x46 => {
            let rd = rd | (bits(low, 7, 7) << 3) as usize;
            let from = bits(low, 6, 3) as usize;
            let value = if from == PC { Value::Unknown } else { state.get(from) };
            let value = if low >> 8 == 0x46 { value } else { state.get(rd).sum(value) };
            if rd != PC {
                state.set(rd, value);
            }
        }
        0x48..=0x4f => state.set(high_rd, literal(((pc + 4) & !3) + u64::from(low & 0xff) * 4)),
        // Register offsets: stores, then loads.
        0x50..=0x55 => {}
        // ldr
        0x58 | 0x59 => state.set(rd, state.get(rn).sum(state.get(rm)).read(Width::Four)),
        0x56..=0x5f => state.set(rd, Value::Unknown),
        0x60..=0x67 => state.store(state.get(rn).plus(offset * 4), rd),
        0x68..=0x6f => state.load(state.get(rn).plus(offset * 4), rd),
        0x78..=0x7f | 0x88..=0x8f => state.set(rd, Value::Unknown),
        0x90..=0x97 => state.store(state.get(SP).plus((low & 0xff) as i32 * 4), high_rd),
        0x98..=0x9f => state.load(state.get(SP).plus((low & 0xff) as i32 * 4), high_rd),
        // adr
        0xa0..=0xa7 => {
            state.set(high_rd, Value::Constant((((pc + 4) & !3) as i32).wrapping_add((low & 0xff) as i32 * 4)));
        }
        0xa8..=0xaf => state.set(high_rd, state.get(SP).plus((low & 0xff) as i32 * 4)),
        0xb0 => state.add(SP, (low & 0x7f) as i32 * if low & 0x80 == 0 { 4 } else { -4 }),
        // hlt, a semihosting call
        0xba if low & 0xc0 == 0x80 => {}
        // sxth and its like; rev and its like
        0xb2 | 0xba => state.set(rd, Value::Unknown),
        0xb4 | 0xb5 => push(low & 0xff | (low >> 8 & 1) << LR, state),
        0xbc | 0xbd => pop(low & 0xff | (low >> 8 & 1) << PC, state),
        // stmia, ldmia
        0xc0..=0xc7 => multiple(high_rd, low & 0xff, true, false, true, state),
        0xc8..=0xcf => multiple(high_rd, low & 0xff, true, true, true, state),
        _ => {}
    }
}

fn push(mask: u32, state: &mut State) {
    multiple(SP, mask, false, false, true, state);
}

fn pop(mask: u32, state: &mut State) {
    multiple(SP, mask, true, true, true, state);
}

/// Executes a load or store of several registers, lowest first.
fn multiple(base: usize, mask: u32, is_up: bool, is_load: bool, writes_back: bool, state: &mut State) {
    let total_bytes = mask.count_ones() as i32 * 4;
    let start = state.get(base).plus(if is_up { 0 } else { -total_bytes });
    let end = state.get(base).plus(if is_up { total_bytes } else { -total_bytes });
    let registers = (0..16).filter(|register| mask >> register & 1 == 1);
    for (index, register) in registers.enumerate() {
        let address = start.plus(index as i32 * 4);
        match (is_load, register) {
            (true, PC) => {
                // The loaded pc is the return address.
                state.load(address, LR);
            }
            (true, _) => state.load(address, register),
            (false, _) => state.store(address, register),
        }
    }
    if writes_back && !(is_load && mask >> base & 1 == 1) {
        state.set(base, end);
    }
}

/// Applies a 32-bit instruction: A5.3, "32-bit Thumb instruction encoding".
#[expect(clippy::too_many_lines, reason = "a decoding table, with a row for each group of the manual's encodings")]
fn wide(pc: u64, low: u32, high: u32, literal: impl Fn(u64) -> Value, state: &mut State) {
    let rn = bits(low, 3, 0) as usize;
    let (rt, rd) = (bits(high, 15, 12) as usize, bits(high, 11, 8) as usize);
    let set = |state: &mut State, register: usize, value: Value| {
        if register != PC {
            state.set(register, value);
        }
    };
    match low >> 9 {
        // A5.3.5, load and store multiple
        0x74 if bits(low, 6, 6) == 0 => {
            let (is_up, is_load, writes_back) = (bits(low, 8, 7) == 1, bits(low, 4, 4) == 1, bits(low, 5, 5) == 1);
            multiple(rn, high, is_up, is_load, writes_back, state);
        }
        // A5.3.6, dual and exclusive
        0x74 => {
            let (is_before, is_up) = (bits(low, 8, 8) == 1, bits(low, 7, 7) == 1);
            let (writes_back, is_load) = (bits(low, 5, 5) == 1, bits(low, 4, 4) == 1);
            if !is_before && !writes_back {
                // Exclusives and table branches.
                for register in [rt, rd, bits(high, 3, 0) as usize] {
                    if register != SP {
                        set(state, register, Value::Unknown);
                    }
                }
                return;
            }
            let offset = bits(high, 7, 0) as i32 * if is_up { 4 } else { -4 };
            let base = if rn == PC { Value::Unknown } else { state.get(rn) };
            let address = base.plus(if is_before { offset } else { 0 });
            for (register, address) in [(rt, address), (rd, address.plus(4))] {
                if is_load { state.load(address, register) } else { state.store(address, register) }
            }
            if writes_back {
                set(state, rn, base.plus(offset));
            }
        }
        // A5.3.11, data processing of shifted registers
        0x75 => {
            let (rm, is_plain) = (bits(high, 3, 0) as usize, high & 0x70f0 == 0);
            let operation = bits(low, 8, 5);
            let value = match operation {
                2 if rn == PC && is_plain => state.get(rm),
                8 if is_plain && rn != PC => state.get(rn).sum(state.get(rm)),
                // A shifted index.
                8 if rn != PC => Value::Unknown.sum(state.get(rn)),
                13 if is_plain && rn != PC => state.get(rn).minus(state.get(rm)),
                _ => Value::Unknown,
            };
            set(state, rd, value);
        }
        // Coprocessor: vpush and vpop move their base; moves to registers.
        0x76 => {
            let (is_before, is_up) = (bits(low, 8, 8) == 1, bits(low, 7, 7) == 1);
            let (writes_back, is_load) = (bits(low, 5, 5) == 1, bits(low, 4, 4) == 1);
            if writes_back {
                let offset = bits(high, 7, 0) as i32 * if is_up { 4 } else { -4 };
                set(state, rn, state.get(rn).plus(offset));
            } else if !is_before && !is_up && is_load {
                set(state, rt, Value::Unknown);
                set(state, rn, Value::Unknown);
            }
        }
        0x77 if bits(low, 8, 8) == 0 && bits(high, 4, 4) == 1 && bits(low, 4, 4) == 1 => {
            set(state, rt, Value::Unknown);
        }
        0x77 => {}
        // A5.3.1 and A5.3.3, data processing of immediates
        0x78..=0x7b if bits(high, 15, 15) == 0 => {
            let encoded = bits(low, 10, 10) << 11 | bits(high, 14, 12) << 8 | high & 0xff;
            let base = if rn == PC { Value::Unknown } else { state.get(rn) };
            let value = if bits(low, 9, 9) == 0 {
                let immediate = modified_immediate(encoded) as i32;
                match bits(low, 8, 5) {
                    2 if rn == PC => Value::Constant(immediate),
                    3 if rn == PC => Value::Constant(!immediate),
                    // Bit 0 marks Thumb code.
                    2 if immediate == 1 && matches!(base, Value::Read(..)) => base,
                    8 => base.plus(immediate),
                    13 => base.plus(immediate.wrapping_neg()),
                    _ => Value::Unknown,
                }
            } else {
                let half = (rn as u32) << 12 | encoded;
                let here = Value::Constant(((pc + 4) & !3) as i32);
                match (bits(low, 8, 4), state.get(rd)) {
                    // adr
                    (0x00, _) if rn == PC => here.plus(encoded as i32),
                    (0x0a, _) if rn == PC => here.plus(-(encoded as i32)),
                    (0x00, _) => base.plus(encoded as i32),
                    (0x0a, _) => base.plus(-(encoded as i32)),
                    (0x04, _) => Value::Constant(half as i32),
                    (0x0c, Value::Constant(lower)) => Value::Constant((lower as u32 & 0xffff | half << 16) as i32),
                    _ => Value::Unknown,
                }
            };
            set(state, rd, value);
        }
        // msr to a register that may be or choose the current stack pointer: MSP, CONTROL; mrs
        0x79 if low & 0xfff0 == 0xf380 => match high & 0xff {
            8 => state.set(SP, state.get(rn)),
            20 => state.set(SP, Value::Unknown),
            _ => {}
        },
        0x79 if low & 0xffe0 == 0xf3e0 => set(state, rd, Value::Unknown),
        0x78..=0x7b => {}
        // A5.3.7 to A5.3.10, single loads and stores
        0x7c => {
            let (is_load, is_word) = (bits(low, 4, 4) == 1, bits(low, 6, 5) == 2);
            if rn == PC {
                if is_load && rt != PC {
                    let address = literal_address(pc, low, high);
                    let value = address.filter(|_| is_word).map_or(Value::Unknown, literal);
                    state.set(rt, value);
                }
                return;
            }
            let base = state.get(rn);
            let (address, write_back) = if bits(low, 7, 7) == 1 {
                (base.plus((high & 0xfff) as i32), None)
            } else if bits(high, 11, 11) == 1 {
                let offset = (high & 0xff) as i32 * if bits(high, 9, 9) == 1 { 1 } else { -1 };
                let (is_before, writes_back) = (bits(high, 10, 10) == 1, bits(high, 8, 8) == 1);
                (base.plus(if is_before { offset } else { 0 }), writes_back.then(|| base.plus(offset)))
            } else {
                // An index, perhaps shifted.
                (Value::Unknown.sum(base), None)
            };
            match (is_load, is_word) {
                (true, true) => state.load(address, if rt == PC { LR } else { rt }),
                (true, false) => set(state, rt, Value::Unknown),
                // A store over part of the kept value would lose it; no compiler does that.
                (false, true) => state.store(address, rt),
                (false, false) => {}
            }
            if let Some(value) = write_back {
                set(state, rn, value);
            }
        }
        // A5.3.12 to A5.3.17
        0x7d => {
            set(state, rd, Value::Unknown);
            if bits(low, 8, 7) == 3 && rt != SP {
                set(state, rt, Value::Unknown);
            }
        }
        _ => {}
    }
}

/// Decodes a modified immediate: ThumbExpandImm (A5.3.2).
fn modified_immediate(encoded: u32) -> u32 {
    let byte = encoded & 0xff;
    match encoded >> 8 {
        0 => byte,
        1 => byte << 16 | byte,
        2 => byte << 24 | byte << 8,
        3 => byte << 24 | byte << 16 | byte << 8 | byte,
        _ => (0x80 | encoded & 0x7f).rotate_right(encoded >> 7),
    }
}
