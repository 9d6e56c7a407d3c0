// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walks Thumb code, an instruction at a time, from the read of a polled register, to find the value that leads out
//! of the loop.
//!
//! Registers, flags and memory are known or unknown. Values of devices are unknown, except that of the polled
//! register. A result that depends on an unknown value is unknown. An unknown instruction ends the walk.

use std::collections::BTreeMap;

/// Memory as the walk finds it.
pub(super) trait Memory {
    /// Code at an address: two bytes of an instruction.
    fn code(&self, address: u32) -> Option<u16>;
    /// A byte of memory without side effects; None: unknown.
    fn byte(&self, address: u32) -> Option<u8>;
}

/// A step's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The next instruction is the one at `pc`.
    Next,
    /// A branch depends on an unknown value: it leads to one of two addresses.
    Fork { taken: u32, next: u32 },
    /// The walk cannot go on.
    Stop,
}

type Word = Option<u32>;

/// A processor on its walk.
#[derive(Clone)]
pub(super) struct Walk<'m> {
    memory: &'m dyn Memory,
    registers: [Word; 15],
    pub(super) pc: u32,
    negative: Option<bool>,
    zero: Option<bool>,
    carry: Option<bool>,
    overflow: Option<bool>,
    /// Bytes written on the way.
    written: BTreeMap<u32, Option<u8>>,
    /// Conditions of the remaining instructions of an IT block, the next one first.
    conditions: Vec<u8>,
    /// Polled address, number of bytes read there, and the value of such a read.
    pub(super) polled: (u32, u32, u32),
    /// Constants in comparisons and masks on the way.
    pub(super) constants: Vec<u32>,
}

const SP: usize = 13;
const LR: usize = 14;
const PC: usize = 15;

/// First address of devices, which lie below the processor's own registers.
const DEVICES: u32 = 0x4000_0000;

fn sign_extend(value: u32, bits: u32) -> u32 {
    ((value << (32 - bits)).cast_signed() >> (32 - bits)).cast_unsigned()
}

/// An immediate operand of 32-bit instructions, and the carry of its rotation.
fn expand(immediate: u32) -> (u32, Option<bool>) {
    let byte = immediate & 0xff;
    match immediate >> 8 & 0xf {
        0 => (byte, None),
        1 => (byte << 16 | byte, None),
        2 => (byte << 24 | byte << 8, None),
        3 => (byte << 24 | byte << 16 | byte << 8 | byte, None),
        _ => {
            let value = (0x80 | immediate & 0x7f).rotate_right(immediate >> 7 & 0x1f);
            (value, Some(value >> 31 != 0))
        }
    }
}

impl<'m> Walk<'m> {
    pub(super) fn new(memory: &'m dyn Memory, registers: &[u32], pc: u32, polled: (u32, u32, u32)) -> Walk<'m> {
        let mut known = [None; 15];
        known.iter_mut().zip(registers).for_each(|(known, &register)| *known = Some(register));
        Walk {
            memory,
            registers: known,
            pc,
            negative: None,
            zero: None,
            carry: None,
            overflow: None,
            written: BTreeMap::new(),
            conditions: Vec::new(),
            polled,
            constants: Vec::new(),
        }
    }

    fn get(&self, register: usize) -> Word {
        if register == PC { Some(self.pc.wrapping_add(4)) } else { self.registers[register] }
    }

    fn set(&mut self, register: usize, value: Word) {
        if register < PC {
            self.registers[register] = value;
        }
    }

    fn load(&mut self, address: Word, bytes: u32, is_signed: bool) -> Word {
        let address = address?;
        let value = if (address, bytes) == (self.polled.0, self.polled.1) {
            self.polled.2
        } else {
            if (DEVICES..0xffff_ff00).contains(&address) {
                return None;
            }
            let mut value = 0;
            for index in (0..bytes).rev() {
                let at = address.wrapping_add(index);
                let byte = self.written.get(&at).copied().unwrap_or_else(|| self.memory.byte(at))?;
                value = value << 8 | u32::from(byte);
            }
            value
        };
        Some(if is_signed { sign_extend(value, bytes * 8) } else { value })
    }

    fn store(&mut self, address: Word, bytes: u32, value: Word) {
        let Some(address) = address else { return };
        for index in 0..bytes {
            let byte = value.map(|value| (value >> (8 * index)) as u8);
            self.written.insert(address.wrapping_add(index), byte);
        }
    }

    fn set_nz(&mut self, value: Word) {
        self.negative = value.map(|value| value >> 31 != 0);
        self.zero = value.map(|value| value == 0);
    }

    /// Adds with carry, with the flags if they are wanted.
    fn add(&mut self, one: Word, other: Word, carry: Option<bool>, flags: bool) -> Word {
        let sum = match (one, other, carry) {
            (Some(one), Some(other), Some(carry)) => {
                let wide = u64::from(one) + u64::from(other) + u64::from(carry);
                let sum = wide as u32;
                let overflow = ((one ^ sum) & (other ^ sum)) >> 31 != 0;
                Some((sum, wide >> 32 != 0, overflow))
            }
            _ => None,
        };
        if flags {
            self.set_nz(sum.map(|sum| sum.0));
            self.carry = sum.map(|sum| sum.1);
            self.overflow = sum.map(|sum| sum.2);
        }
        sum.map(|sum| sum.0)
    }

    fn subtract(&mut self, one: Word, other: Word, flags: bool) -> Word {
        if flags {
            self.constants.extend(one.into_iter().chain(other));
        }
        self.add(one, other.map(|other| !other), Some(true), flags)
    }

    /// Shifts by 0 to 255; the bit that is shifted out last is the carry.
    fn shift(&self, value: Word, kind: u32, amount: Word) -> (Word, Option<bool>) {
        let (Some(value), Some(amount)) = (value, amount) else { return (None, None) };
        if amount == 0 {
            return (Some(value), self.carry);
        }
        let bit = |bit: u32| value.checked_shr(bit).unwrap_or(0) & 1 != 0;
        let (shifted, carry) = match kind {
            0 => (value.checked_shl(amount).unwrap_or(0), amount <= 32 && bit(32 - amount)),
            1 => (value.checked_shr(amount).unwrap_or(0), bit(amount - 1)),
            2 => ((value.cast_signed() >> amount.min(31)).cast_unsigned(), bit(amount.min(32) - 1)),
            _ => {
                let rotated = value.rotate_right(amount % 32);
                (rotated, rotated >> 31 != 0)
            }
        };
        (Some(shifted), Some(carry))
    }

    /// Shifts by an immediate amount, of which 0 may stand for 32.
    fn immediate_shift(&self, value: Word, kind: u32, amount: u32) -> (Word, Option<bool>) {
        let amount = if amount == 0 && matches!(kind, 1 | 2) { 32 } else { amount };
        self.shift(value, kind, Some(amount))
    }

    fn set_logic(&mut self, value: Word, carry: Option<bool>) {
        self.set_nz(value);
        self.carry = carry;
    }

    /// Whether a condition holds.
    fn holds(&self, condition: u8) -> Option<bool> {
        let holds = match condition >> 1 {
            0 => self.zero?,
            1 => self.carry?,
            2 => self.negative?,
            3 => self.overflow?,
            4 => match (self.carry, self.zero) {
                (Some(false), _) | (_, Some(true)) => false,
                (carry, zero) => carry? && !zero?,
            },
            5 => self.negative? == self.overflow?,
            6 => match self.zero {
                Some(true) => false,
                zero => !zero? && self.negative? == self.overflow?,
            },
            _ => return Some(true),
        };
        Some(holds != (condition & 1 != 0))
    }

    fn jump(&mut self, target: Word) -> Step {
        match target {
            // Not an exception's return, and a target in Thumb code.
            Some(target) if target < 0xffff_ff00 && target & 1 != 0 => {
                self.pc = target & !1;
                Step::Next
            }
            _ => Step::Stop,
        }
    }

    /// Executes the instruction at `pc`.
    pub(super) fn step(&mut self) -> Step {
        let Some(first) = self.memory.code(self.pc) else { return Step::Stop };
        let first = u32::from(first);
        let is_wide = first >> 11 > 0b11100;
        let mut is_done = true;
        let in_block = !self.conditions.is_empty();
        if in_block {
            let condition = self.conditions.remove(0);
            match self.holds(condition) {
                Some(holds) => is_done = holds,
                None => return Step::Stop,
            }
        }
        let next = self.pc.wrapping_add(if is_wide { 4 } else { 2 });
        if !is_done {
            self.pc = next;
            return Step::Next;
        }
        let stepped = if is_wide {
            let Some(second) = self.memory.code(self.pc.wrapping_add(2)) else { return Step::Stop };
            self.wide(first, u32::from(second), next)
        } else {
            self.narrow(first, next, !in_block)
        };
        match stepped {
            None => {
                self.pc = next;
                Step::Next
            }
            Some(step) => step,
        }
    }

    fn branch(&mut self, condition: u8, taken: u32, next: u32) -> Option<Step> {
        match self.holds(condition) {
            None => return Some(Step::Fork { taken, next }),
            Some(true) => self.pc = taken,
            Some(false) => self.pc = next,
        }
        Some(Step::Next)
    }

    /// Executes an instruction of 16 bits. None: the next instruction follows.
    fn narrow(&mut self, op: u32, next: u32, flags: bool) -> Option<Step> {
        let (low, middle) = ((op & 7) as usize, (op >> 3 & 7) as usize);
        let at_8 = (op >> 8 & 7) as usize;
        match op >> 11 {
            kind @ 0..=2 => {
                let value = self.get(middle);
                let (value, carry) = if kind == 0 && op >> 6 & 31 == 0 {
                    (value, self.carry)
                } else {
                    self.immediate_shift(value, kind, op >> 6 & 31)
                };
                self.set(low, value);
                if flags {
                    self.set_logic(value, carry);
                }
            }
            3 => {
                let other = op >> 6 & 7;
                let other = if op >> 10 & 1 != 0 { Some(other) } else { self.get(other as usize) };
                let one = self.get(middle);
                let result = if op >> 9 & 1 != 0 {
                    self.subtract(one, other, flags)
                } else {
                    self.add(one, other, Some(false), flags)
                };
                self.set(low, result);
            }
            4 => {
                self.set(at_8, Some(op & 0xff));
                if flags {
                    self.set_nz(Some(op & 0xff));
                }
            }
            5 => {
                let one = self.get(at_8);
                self.subtract(one, Some(op & 0xff), true);
            }
            6 => {
                let one = self.get(at_8);
                let sum = self.add(one, Some(op & 0xff), Some(false), flags);
                self.set(at_8, sum);
            }
            7 => {
                let one = self.get(at_8);
                let result = self.subtract(one, Some(op & 0xff), flags);
                self.set(at_8, result);
            }
            _ => return self.narrow_rest(op, next, flags),
        }
        None
    }

    /// Executes the other instructions of 16 bits: operations on two registers, memory, branches.
    fn narrow_rest(&mut self, op: u32, next: u32, flags: bool) -> Option<Step> {
        let (low, middle) = ((op & 7) as usize, (op >> 3 & 7) as usize);
        let at_8 = (op >> 8 & 7) as usize;
        match op >> 11 {
            8 if op >> 10 & 1 == 0 => self.register_operation(op >> 6 & 15, low, middle, flags),
            8 => return self.high_registers(op, next),
            9 => {
                let address = (self.pc.wrapping_add(4) & !3).wrapping_add((op & 0xff) * 4);
                let value = self.load(Some(address), 4, false);
                self.set(at_8, value);
            }
            10 | 11 => {
                let offset = self.get((op >> 6 & 7) as usize);
                let address = self.get(middle).zip(offset).map(|(base, offset)| base.wrapping_add(offset));
                match op >> 9 & 7 {
                    kind @ 0..=2 => {
                        let value = self.get(low);
                        self.store(address, [4, 2, 1][kind as usize], value);
                    }
                    kind => {
                        let (bytes, signed) =
                            [(1, true), (4, false), (2, false), (1, false), (2, true)][kind as usize - 3];
                        let value = self.load(address, bytes, signed);
                        self.set(low, value);
                    }
                }
            }
            kind @ 12..=17 => {
                let bytes = [4, 1, 2][(kind as usize - 12) / 2];
                let address = self.get(middle).map(|base| base.wrapping_add((op >> 6 & 31) * bytes));
                self.transfer(kind & 1 != 0, low, address, bytes);
            }
            kind @ (18 | 19) => {
                let address = self.get(SP).map(|base| base.wrapping_add((op & 0xff) * 4));
                self.transfer(kind & 1 != 0, at_8, address, 4);
            }
            20 => self.set(at_8, Some((self.pc.wrapping_add(4) & !3).wrapping_add((op & 0xff) * 4))),
            21 => {
                let sum = self.get(SP).map(|sp| sp.wrapping_add((op & 0xff) * 4));
                self.set(at_8, sum);
            }
            22 | 23 => return self.miscellaneous(op, next),
            kind @ (24 | 25) => {
                let list = op & 0xff;
                let base = self.get(at_8);
                let end = self.multiple(kind == 25, list, base);
                if kind == 24 || list >> at_8 & 1 == 0 {
                    self.set(at_8, end);
                }
            }
            26 | 27 => {
                let condition = (op >> 8 & 15) as u8;
                if condition >= 14 {
                    return Some(Step::Stop);
                }
                let taken = self.pc.wrapping_add(4).wrapping_add(sign_extend(op & 0xff, 8) << 1);
                return self.branch(condition, taken, next);
            }
            _ => {
                self.pc = self.pc.wrapping_add(4).wrapping_add(sign_extend(op & 0x7ff, 11) << 1);
                return Some(Step::Next);
            }
        }
        None
    }

    fn transfer(&mut self, is_load: bool, register: usize, address: Word, bytes: u32) {
        if is_load {
            let value = self.load(address, bytes, false);
            self.set(register, value);
        } else {
            let value = self.get(register);
            self.store(address, bytes, value);
        }
    }

    /// Loads or stores registers at ascending addresses, and returns the address after the last one.
    fn multiple(&mut self, is_load: bool, list: u32, base: Word) -> Word {
        let mut address = base;
        for register in (0..15).filter(|register| list >> register & 1 != 0) {
            self.transfer(is_load, register, address, 4);
            address = address.map(|address| address.wrapping_add(4));
        }
        address
    }

    fn pop(&mut self, list: u32) -> Option<Step> {
        let sp = self.get(SP);
        let end = self.multiple(true, list & 0x7fff, sp);
        if list >> 15 == 0 {
            self.set(SP, end);
            return None;
        }
        let target = self.load(end, 4, false);
        self.set(SP, end.map(|end| end.wrapping_add(4)));
        Some(self.jump(target))
    }

    fn push(&mut self, list: u32) {
        let start = self.get(SP).map(|sp| sp.wrapping_sub(4 * list.count_ones()));
        self.multiple(false, list, start);
        self.set(SP, start);
    }

    fn register_operation(&mut self, operation: u32, to: usize, from: usize, flags: bool) {
        let (one, other) = (self.get(to), self.get(from));
        let both = one.zip(other);
        if matches!(operation, 0 | 8) {
            self.constants.extend(one.into_iter().chain(other));
        }
        let logic = match operation {
            0 | 8 => both.map(|(one, other)| one & other),
            1 => both.map(|(one, other)| one ^ other),
            12 => both.map(|(one, other)| one | other),
            13 => both.map(|(one, other)| one.wrapping_mul(other)),
            14 => both.map(|(one, other)| one & !other),
            15 => other.map(|other| !other),
            2..=4 | 7 => {
                let kind = if operation == 7 { 3 } else { operation - 2 };
                let (value, carry) = self.shift(one, kind, other.map(|other| other & 0xff));
                if flags {
                    self.carry = carry;
                }
                value
            }
            5 => {
                let sum = self.add(one, other, self.carry, flags);
                self.set(to, sum);
                return;
            }
            6 => {
                let sum = self.add(one, other.map(|other| !other), self.carry, flags);
                self.set(to, sum);
                return;
            }
            9 => {
                let result = self.subtract(Some(0), other, flags);
                self.set(to, result);
                return;
            }
            10 => {
                self.subtract(one, other, true);
                return;
            }
            _ => {
                self.add(one, other, Some(false), true);
                return;
            }
        };
        if flags || operation == 8 {
            self.set_nz(logic);
        }
        if operation != 8 {
            self.set(to, logic);
        }
    }

    fn high_registers(&mut self, op: u32, next: u32) -> Option<Step> {
        let to = (op & 7 | op >> 4 & 8) as usize;
        let from = (op >> 3 & 15) as usize;
        let (one, other) = (self.get(to), self.get(from));
        match op >> 8 & 3 {
            0 if to != PC => {
                let sum = one.zip(other).map(|(one, other)| one.wrapping_add(other));
                self.set(to, sum);
            }
            1 => {
                self.subtract(one, other, true);
            }
            2 if to == PC => return Some(self.jump(other.map(|other| other | 1))),
            2 => self.set(to, other),
            3 => {
                if op >> 7 & 1 != 0 {
                    self.set(LR, Some(next | 1));
                }
                return Some(self.jump(other));
            }
            _ => return Some(Step::Stop),
        }
        None
    }

    fn miscellaneous(&mut self, op: u32, next: u32) -> Option<Step> {
        let (low, middle) = ((op & 7) as usize, (op >> 3 & 7) as usize);
        match op >> 8 & 15 {
            0 => {
                let offset = (op & 0x7f) * 4;
                let offset = if op >> 7 & 1 != 0 { offset.wrapping_neg() } else { offset };
                let sp = self.get(SP).map(|sp| sp.wrapping_add(offset));
                self.set(SP, sp);
            }
            1 | 3 | 9 | 11 => {
                let taken = self.pc.wrapping_add(4).wrapping_add((op >> 3 & 31) << 1 | (op >> 9 & 1) << 6);
                let wants_zero = op >> 11 & 1 == 0;
                let Some(value) = self.get(low) else { return Some(Step::Fork { taken, next }) };
                self.pc = if (value == 0) == wants_zero { taken } else { next };
                return Some(Step::Next);
            }
            2 => {
                let value = self.get(middle).map(|value| match op >> 6 & 3 {
                    0 => sign_extend(value & 0xffff, 16),
                    1 => sign_extend(value & 0xff, 8),
                    2 => value & 0xffff,
                    _ => value & 0xff,
                });
                self.set(low, value);
            }
            4 | 5 => self.push(op & 0xff | (op >> 8 & 1) << 14),
            // Interrupts masked or allowed.
            6 => {}
            10 => {
                let value = self.get(middle).map(|value| match op >> 6 & 3 {
                    0 => value.swap_bytes(),
                    1 => value.swap_bytes().rotate_right(16),
                    _ => sign_extend(value.swap_bytes() >> 16, 16),
                });
                self.set(low, value);
            }
            12 | 13 => return self.pop(op & 0xff | (op >> 8 & 1) << 15),
            15 if op & 15 != 0 => {
                let (first, mask) = ((op >> 4 & 15) as u8, op & 15);
                let count = 4 - mask.trailing_zeros();
                self.conditions = vec![first];
                for index in 1..count {
                    self.conditions.push(first & 14 | (mask >> (4 - index) & 1) as u8);
                }
            }
            // Hints. Waits for interrupts are handled elsewhere.
            15 => {}
            _ => return Some(Step::Stop),
        }
        None
    }

    /// Executes an instruction of 32 bits. None: the next instruction follows.
    fn wide(&mut self, first: u32, second: u32, next: u32) -> Option<Step> {
        match first >> 9 {
            0b111_0100 => self.dual_or_multiple(first, second),
            0b111_0101 => {
                let (to, from) = ((second >> 8 & 15) as usize, (second & 15) as usize);
                let amount = second >> 10 & 0x1c | second >> 6 & 3;
                let kind = second >> 4 & 3;
                let value = self.get(from);
                let (value, carry) = if kind == 0 && amount == 0 {
                    (value, self.carry)
                } else {
                    self.immediate_shift(value, kind, amount)
                };
                self.data((first >> 5 & 15, first >> 4 & 1 != 0), (first & 15) as usize, to, value, carry)
            }
            0b111_1000..=0b111_1011 if second >> 15 != 0 => self.long_branch(first, second, next),
            0b111_1000..=0b111_1011 => self.immediate(first, second),
            0b111_1100 => self.single(first, second),
            0b111_1101 => self.register_data(first, second),
            _ => Some(Step::Stop),
        }
    }

    fn data(
        &mut self,
        (operation, flags): (u32, bool),
        from: usize,
        to: usize,
        other: Word,
        carry: Option<bool>,
    ) -> Option<Step> {
        let one = self.get(from);
        let both = one.zip(other);
        let is_discarded = to == PC && flags;
        if matches!(operation, 0 | 4) {
            self.constants.extend(one.into_iter().chain(other));
        }
        let value = match operation {
            0 => both.map(|(one, other)| one & other),
            1 => both.map(|(one, other)| one & !other),
            2 if from == PC => other,
            2 => both.map(|(one, other)| one | other),
            3 if from == PC => other.map(|other| !other),
            3 => both.map(|(one, other)| one | !other),
            4 => both.map(|(one, other)| one ^ other),
            8 => return self.keep(is_discarded, to, |walk| walk.add(one, other, Some(false), flags)),
            10 => return self.keep(is_discarded, to, |walk| walk.add(one, other, walk.carry, flags)),
            11 => {
                let other = other.map(|other| !other);
                return self.keep(is_discarded, to, |walk| walk.add(one, other, walk.carry, flags));
            }
            13 => return self.keep(is_discarded, to, |walk| walk.subtract(one, other, flags)),
            14 => return self.keep(is_discarded, to, |walk| walk.subtract(other, one, flags)),
            _ => return Some(Step::Stop),
        };
        if flags {
            self.set_logic(value, carry);
        }
        self.keep(is_discarded, to, |_| value)
    }

    fn keep(&mut self, is_discarded: bool, to: usize, make: impl FnOnce(&mut Self) -> Word) -> Option<Step> {
        let value = make(self);
        if is_discarded {
            return None;
        }
        if to == PC {
            return Some(Step::Stop);
        }
        self.set(to, value);
        None
    }

    fn immediate(&mut self, first: u32, second: u32) -> Option<Step> {
        let immediate = (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xff;
        let (from, to) = ((first & 15) as usize, (second >> 8 & 15) as usize);
        if first >> 9 & 1 == 0 {
            let (value, carry) = expand(immediate);
            let operation = (first >> 5 & 15, first >> 4 & 1 != 0);
            return self.data(operation, from, to, Some(value), carry.or(self.carry));
        }
        let one = self.get(from);
        let lowest = (second >> 12 & 7) << 2 | second >> 6 & 3;
        let width = second & 31;
        let value = match first >> 4 & 31 {
            0 if from == PC => Some((self.pc.wrapping_add(4) & !3).wrapping_add(immediate)),
            10 if from == PC => Some((self.pc.wrapping_add(4) & !3).wrapping_sub(immediate)),
            0 => one.map(|one| one.wrapping_add(immediate)),
            10 => one.map(|one| one.wrapping_sub(immediate)),
            4 => Some((first & 15) << 12 | immediate),
            12 => self.get(to).map(|old| old & 0xffff | ((first & 15) << 12 | immediate) << 16),
            20 => one.map(|one| sign_extend(one >> lowest, width + 1)),
            28 => one.map(|one| one >> lowest & u32::MAX >> (31 - width)),
            22 => {
                let mask = (u32::MAX >> (31 - width)) & (u32::MAX << lowest);
                let one = if from == PC { Some(0) } else { one };
                self.get(to).zip(one).map(|(old, one)| old & !mask | (one << lowest) & mask)
            }
            _ => return Some(Step::Stop),
        };
        self.set(to, value);
        None
    }

    fn long_branch(&mut self, first: u32, second: u32, next: u32) -> Option<Step> {
        let (sign, j1, j2) = (first >> 10 & 1, second >> 13 & 1, second >> 11 & 1);
        let low = (second & 0x7ff) << 1;
        let here = self.pc.wrapping_add(4);
        if second >> 12 & 1 == 0 && second >> 14 & 1 == 0 {
            let condition = (first >> 6 & 15) as u8;
            if condition >= 14 {
                // The walk goes on after barriers and hints; values of special registers are unknown.
                if first >> 5 & 0x3f == 0x1f {
                    self.set((second >> 8 & 15) as usize, None);
                }
                return None;
            }
            let offset = sign << 20 | j2 << 19 | j1 << 18 | (first & 0x3f) << 12 | low;
            return self.branch(condition, here.wrapping_add(sign_extend(offset, 21)), next);
        }
        if second >> 12 & 1 == 0 {
            return Some(Step::Stop);
        }
        let (i1, i2) = (1 ^ j1 ^ sign, 1 ^ j2 ^ sign);
        let offset = sign << 24 | i1 << 23 | i2 << 22 | (first & 0x3ff) << 12 | low;
        if second >> 14 & 1 != 0 {
            self.set(LR, Some(next | 1));
        }
        self.pc = here.wrapping_add(sign_extend(offset, 25));
        Some(Step::Next)
    }

    fn single(&mut self, first: u32, second: u32) -> Option<Step> {
        let (base, register) = ((first & 15) as usize, (second >> 12 & 15) as usize);
        let is_load = first >> 4 & 1 != 0;
        let is_signed = first >> 8 & 1 != 0;
        let bytes = match first >> 5 & 3 {
            0 => 1,
            1 => 2,
            2 => 4,
            _ => return Some(Step::Stop),
        };
        let base_value = self.get(base);
        let mut written_back = None;
        let address = if base == PC {
            let offset = second & 0xfff;
            let here = self.pc.wrapping_add(4) & !3;
            Some(if first >> 7 & 1 != 0 { here.wrapping_add(offset) } else { here.wrapping_sub(offset) })
        } else if first >> 7 & 1 != 0 {
            base_value.map(|base| base.wrapping_add(second & 0xfff))
        } else if second >> 11 & 1 != 0 {
            let offset = second & 0xff;
            let is_up = second >> 9 & 1 != 0;
            let moved =
                base_value.map(|base| if is_up { base.wrapping_add(offset) } else { base.wrapping_sub(offset) });
            if second >> 8 & 1 != 0 {
                written_back = Some(moved);
            }
            if second >> 10 & 1 != 0 { moved } else { base_value }
        } else {
            let offset = self.get((second & 15) as usize).map(|offset| offset << (second >> 4 & 3));
            base_value.zip(offset).map(|(base, offset)| base.wrapping_add(offset))
        };
        if let Some(value) = written_back {
            self.set(base, value);
        }
        if !is_load {
            let value = self.get(register);
            self.store(address, bytes, value);
            return None;
        }
        let value = self.load(address, bytes, is_signed);
        if register == PC {
            // A jump if pc gets a word; otherwise a preload hint.
            return if bytes == 4 { Some(self.jump(value)) } else { None };
        }
        self.set(register, value);
        None
    }

    fn dual_or_multiple(&mut self, first: u32, second: u32) -> Option<Step> {
        let base = (first & 15) as usize;
        let base_value = self.get(base);
        let (is_load, writes_back) = (first >> 4 & 1 != 0, first >> 5 & 1 != 0);
        if first >> 6 & 1 == 0 {
            let list = second & 0xffff;
            let bytes = 4 * list.count_ones();
            if first >> 7 & 3 == 2 {
                let start = base_value.map(|base| base.wrapping_sub(bytes));
                self.multiple(is_load, list & 0x7fff, start);
                if list >> 15 != 0 {
                    return Some(Step::Stop);
                }
                if writes_back {
                    self.set(base, start);
                }
                return None;
            }
            if is_load && base == SP && writes_back {
                return self.pop(list);
            }
            if list >> 15 != 0 {
                return Some(Step::Stop);
            }
            let end = self.multiple(is_load, list, base_value);
            if writes_back {
                self.set(base, end);
            }
            return None;
        }
        if first >> 8 & 1 == 0 && !writes_back {
            // Exclusive accesses: the store succeeds.
            return self.exclusive(first, second, base_value);
        }
        let offset = (second & 0xff) * 4;
        let is_up = first >> 7 & 1 != 0;
        let moved = base_value.map(|base| if is_up { base.wrapping_add(offset) } else { base.wrapping_sub(offset) });
        let address = if first >> 8 & 1 != 0 { moved } else { base_value };
        self.transfer(is_load, (second >> 12 & 15) as usize, address, 4);
        let above = address.map(|address| address.wrapping_add(4));
        self.transfer(is_load, (second >> 8 & 15) as usize, above, 4);
        if writes_back {
            self.set(base, moved);
        }
        None
    }

    fn exclusive(&mut self, first: u32, second: u32, base: Word) -> Option<Step> {
        let is_load = first >> 4 & 1 != 0;
        let register = (second >> 12 & 15) as usize;
        let (address, bytes) = match (first >> 7 & 1, second >> 4 & 15) {
            (0, _) => (base.map(|base| base.wrapping_add((second & 0xff) * 4)), 4),
            (_, 4) => (base, 1),
            (_, 5) => (base, 2),
            _ => return Some(Step::Stop),
        };
        self.transfer(is_load, register, address, bytes);
        if !is_load {
            let status = if first >> 7 & 1 == 0 { second >> 8 & 15 } else { second & 15 };
            self.set(status as usize, Some(0));
        }
        None
    }

    fn register_data(&mut self, first: u32, second: u32) -> Option<Step> {
        let (from, to, other) = ((first & 15) as usize, (second >> 8 & 15) as usize, (second & 15) as usize);
        let (one, value) = (self.get(from), self.get(other));
        let operation = first >> 4 & 15;
        if first >> 8 & 1 != 0 {
            let addend = (second >> 12 & 15) as usize;
            let addend = if addend == PC { Some(0) } else { self.get(addend) };
            let both = one.zip(value);
            let result = match (operation, second >> 4 & 15) {
                (0, 0) => both.zip(addend).map(|((one, value), addend)| one.wrapping_mul(value).wrapping_add(addend)),
                (11, 15) => both.map(|(one, value)| one.checked_div(value).unwrap_or(0)),
                _ => return Some(Step::Stop),
            };
            self.set(to, result);
            return None;
        }
        if second >> 7 & 1 == 0 && operation < 8 {
            let (shifted, carry) = self.shift(one, operation >> 1, value.map(|value| value & 0xff));
            self.set(to, shifted);
            if operation & 1 != 0 {
                self.set_logic(shifted, carry);
            }
            return None;
        }
        if second >> 7 & 1 != 0 && operation < 8 && from == PC {
            let turned = value.map(|value| value.rotate_right((second >> 4 & 3) * 8));
            let result = turned.map(|value| match operation {
                0 => sign_extend(value & 0xffff, 16),
                1 => value & 0xffff,
                4 => sign_extend(value & 0xff, 8),
                5 => value & 0xff,
                _ => value,
            });
            if !matches!(operation, 0 | 1 | 4 | 5) {
                return Some(Step::Stop);
            }
            self.set(to, result);
            return None;
        }
        let result = match (operation, second >> 4 & 15) {
            (9, 8) => value.map(u32::swap_bytes),
            (9, 10) => value.map(u32::reverse_bits),
            (11, 8) => value.map(u32::leading_zeros),
            _ => return Some(Step::Stop),
        };
        self.set(to, result);
        None
    }
}
