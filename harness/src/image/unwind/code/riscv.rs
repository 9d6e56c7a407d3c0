// SPDX-License-Identifier: MIT OR Apache-2.0
//! Effects of RISC-V's instructions on the stack: "RV32I Base Integer Instruction Set" and "C Extension for
//! Compressed Instructions".

use decode::{Isa, Registers, Zcmp};

use super::state::{State, Value, Width};
use super::{bits, sign_extended};

const SP: usize = 2;

pub(super) fn execute(isa: Isa, pc: u64, low: u32, word: u32, state: &mut State) {
    match decode::zcmp(isa, &low.to_le_bytes()) {
        Some(known) => several(known, state),
        None if low & 3 == 3 => full(pc, word, state),
        None => compressed(low, state),
    }
}

/// Executes an instruction of Zcmp. The registers lie at the end of the frame that a push makes, ra lowest.
fn several(known: Zcmp, state: &mut State) {
    const ARGUMENTS: [usize; 2] = [10, 11];
    let word_bytes = state.roles.word_bytes;
    let places = |registers: Registers, end: Value| {
        let numbers = registers.numbers();
        let first = end.plus(-(numbers.len() as i32 * word_bytes));
        numbers.zip(0..).map(move |(number, index)| (usize::from(number), first.plus(index * word_bytes)))
    };
    match known {
        Zcmp::Push { registers, bytes } => {
            places(registers, state.get(SP)).for_each(|(register, place)| state.store(place, register));
            state.add(SP, -(bytes as i32));
        }
        Zcmp::Pop { registers, bytes, zeroes, .. } => {
            let end = state.get(SP).plus(bytes as i32);
            places(registers, end).for_each(|(register, place)| state.load(place, register));
            state.set(SP, end);
            if zeroes {
                state.set(ARGUMENTS[0], Value::Constant(0));
            }
        }
        Zcmp::Move { saved, is_to_arguments } => {
            let saved = saved.map(usize::from);
            let (to, from) = if is_to_arguments { (ARGUMENTS, saved) } else { (saved, ARGUMENTS) };
            let values = from.map(|register| state.get(register));
            to.into_iter().zip(values).for_each(|(register, value)| state.set(register, value));
        }
        Zcmp::Jump { .. } => {}
    }
}

/// Whether an instruction may change the stack pointer: the field of the destination names it. The short fields of
/// other compressed instructions name x8 to x15 only.
pub(super) fn may_write_sp(isa: Isa, low: u32) -> bool {
    bits(low, 11, 7) as usize == SP || decode::zcmp(isa, &low.to_le_bytes()).is_some()
}

/// Register through which an instruction jumps without a link.
pub(super) fn jumps_by(isa: Isa, bytes: &[u8]) -> Option<usize> {
    if matches!(decode::zcmp(isa, bytes), Some(Zcmp::Pop { returns: true, .. })) {
        return Some(1);
    }
    let low = u32::from(u16::from_le_bytes(*bytes.first_chunk()?));
    let word = bytes.first_chunk().map_or(0, |&word| u32::from_le_bytes(word));
    match low {
        // c.jr; jalr x0
        _ if low & 0xf07f == 0x8002 && low & 0xf80 != 0 => Some(bits(low, 11, 7) as usize),
        _ if word & 0x7fff == 0x67 => Some(bits(word, 19, 15) as usize),
        _ => None,
    }
}

fn write(state: &mut State, rd: usize, value: Value) {
    if rd != 0 {
        state.set(rd, value);
    }
}

fn read(state: &State, register: usize) -> Value {
    if register == 0 { Value::Constant(0) } else { state.get(register) }
}

fn full(pc: u64, word: u32, state: &mut State) {
    let (opcode, rd, function) = (bits(word, 6, 0), bits(word, 11, 7) as usize, bits(word, 14, 12));
    let (rs1, rs2) = (bits(word, 19, 15) as usize, bits(word, 24, 20) as usize);
    let immediate = (word as i32) >> 20;
    let is_word = function == if state.roles.word_bytes == 8 { 3 } else { 2 };
    match opcode {
        // addi, addiw, slli
        0x13 if function == 0 => write(state, rd, read(state, rs1).plus(immediate)),
        0x1b if function == 0 => {
            let value = read(state, rs1).plus(immediate);
            write(state, rd, if matches!(value, Value::Constant(_)) { value } else { Value::Unknown });
        }
        0x13 if function == 1 => write(state, rd, shifted(read(state, rs1), bits(word, 25, 20))),
        // lui, auipc
        0x37 => write(state, rd, Value::Constant((word & 0xffff_f000) as i32)),
        0x17 => write(state, rd, Value::Constant((pc as i32).wrapping_add((word & 0xffff_f000) as i32))),
        // add, sub
        0x33 if function == 0 && word >> 25 == 0 => write(state, rd, read(state, rs1).sum(read(state, rs2))),
        0x33 if function == 0 && word >> 25 == 0x20 => {
            let value = read(state, rs1).minus(read(state, rs2));
            write(state, rd, value);
        }
        // sh1add, sh2add, sh3add, and with the lower half of the first register add.uw and its like: Zba.
        0x33 if matches!((word >> 25, function), (0x10, 2 | 4 | 6)) => {
            write(state, rd, Value::Unknown.sum(read(state, rs2)));
        }
        0x3b if matches!((word >> 25, function), (0x10, 2 | 4 | 6) | (4, 0)) => {
            write(state, rd, Value::Unknown.sum(read(state, rs2)));
        }
        // Loads and stores.
        0x03 if rd != 0 => {
            let address = read(state, rs1).plus(immediate);
            match function {
                _ if is_word => state.load(address, rd),
                // lw
                2 => state.set(rd, address.read(Width::Four)),
                _ => state.set(rd, Value::Unknown),
            }
        }
        0x23 => {
            let offset = (immediate & !0x1f) | bits(word, 11, 7) as i32;
            state.store(read(state, rs1).plus(offset), if is_word { rs2 } else { 0 });
        }
        // Branches; stores, loads and arithmetic of floating-point registers; fences.
        0x63 | 0x07 | 0x27 | 0x43 | 0x47 | 0x4b | 0x4f | 0x0f | 0x03 => {}
        0x53 if !matches!(word >> 25, 0x50 | 0x51 | 0x60 | 0x61 | 0x70 | 0x71) => {}
        _ => write(state, rd, Value::Unknown),
    }
}

fn shifted(value: Value, by: u32) -> Value {
    match value {
        Value::Constant(value) => value.checked_shl(by).map_or(Value::Unknown, Value::Constant),
        _ => Value::Unknown,
    }
}

fn compressed(low: u32, state: &mut State) {
    let wide = state.roles.word_bytes == 8;
    let (rd, rs2) = (bits(low, 11, 7) as usize, bits(low, 6, 2) as usize);
    // Registers x8 to x15, in the shorter fields.
    let (low_rd, low_rs1) = (bits(low, 4, 2) as usize + 8, bits(low, 9, 7) as usize + 8);
    let six = sign_extended(bits(low, 12, 12) << 5 | bits(low, 6, 2), 6);
    match (low & 3, bits(low, 15, 13)) {
        // c.addi4spn
        (0, 0) => {
            let offset = bits(low, 12, 11) << 4 | bits(low, 10, 7) << 6 | bits(low, 6, 6) << 2 | bits(low, 5, 5) << 3;
            state.set(low_rd, state.get(SP).plus(offset as i32));
        }
        // c.lw; c.ld; c.sw; c.sd
        (0, 2) => {
            let offset = (bits(low, 12, 10) << 3 | bits(low, 6, 6) << 2 | bits(low, 5, 5) << 6) as i32;
            let address = state.get(low_rs1).plus(offset);
            if wide { state.set(low_rd, address.read(Width::Four)) } else { state.load(address, low_rd) }
        }
        (0, 3) if wide => {
            let offset = (bits(low, 12, 10) << 3 | bits(low, 6, 5) << 6) as i32;
            state.load(state.get(low_rs1).plus(offset), low_rd);
        }
        (0, 6) => {
            let offset = (bits(low, 12, 10) << 3 | bits(low, 6, 6) << 2 | bits(low, 5, 5) << 6) as i32;
            state.store(state.get(low_rs1).plus(offset), if wide { 0 } else { low_rd });
        }
        (0, 7) if wide => {
            let offset = (bits(low, 12, 10) << 3 | bits(low, 6, 5) << 6) as i32;
            state.store(state.get(low_rs1).plus(offset), low_rd);
        }
        // Zcb's loads of bytes and halfwords.
        (0, 4) if bits(low, 12, 11) == 0 => state.set(low_rd, Value::Unknown),
        (0, _) => {}
        // c.addi; c.addiw; c.li
        (1, 0) => write(state, rd, read(state, rd).plus(six)),
        (1, 1) if wide => {
            let value = read(state, rd).plus(six);
            write(state, rd, if matches!(value, Value::Constant(_)) { value } else { Value::Unknown });
        }
        (1, 2) => write(state, rd, Value::Constant(six)),
        // c.addi16sp; c.lui
        (1, 3) if rd == SP => {
            let value = bits(low, 12, 12) << 9
                | bits(low, 6, 6) << 4
                | bits(low, 5, 5) << 6
                | bits(low, 4, 3) << 7
                | bits(low, 2, 2) << 5;
            state.add(SP, sign_extended(value, 10));
        }
        (1, 3) => write(state, rd, Value::Constant(six << 12)),
        // Arithmetic on x8 to x15.
        (1, 4) => state.set(low_rs1, Value::Unknown),
        (1, _) => {}
        // c.slli
        (2, 0) => write(state, rd, shifted(read(state, rd), bits(low, 12, 12) << 5 | bits(low, 6, 2))),
        // c.lwsp; c.ldsp
        (2, 2) if rd != 0 => {
            let offset = (bits(low, 12, 12) << 5 | bits(low, 6, 4) << 2 | bits(low, 3, 2) << 6) as i32;
            let address = state.get(SP).plus(offset);
            state.load(if wide { Value::Unknown } else { address }, rd);
        }
        (2, 3) if wide && rd != 0 => {
            let offset = (bits(low, 12, 12) << 5 | bits(low, 6, 5) << 3 | bits(low, 4, 2) << 6) as i32;
            state.load(state.get(SP).plus(offset), rd);
        }
        // c.mv; c.add
        (2, 4) if rs2 != 0 && bits(low, 12, 12) == 0 => write(state, rd, state.get(rs2)),
        (2, 4) if rs2 != 0 => write(state, rd, read(state, rd).sum(state.get(rs2))),
        // c.swsp; c.sdsp
        (2, 6) => {
            let offset = (bits(low, 12, 9) << 2 | bits(low, 8, 7) << 6) as i32;
            state.store(state.get(SP).plus(offset), if wide { 0 } else { rs2 });
        }
        (2, 7) if wide => {
            let offset = (bits(low, 12, 10) << 3 | bits(low, 9, 7) << 6) as i32;
            state.store(state.get(SP).plus(offset), rs2);
        }
        _ => {}
    }
}
