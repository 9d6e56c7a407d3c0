// SPDX-License-Identifier: MIT OR Apache-2.0
//! The value that a loop waits for, from the loop's own code.
//!
//! The loop's code is walked once with the value that the register has; that walk is one *turn*. Then it is walked
//! with other values, first with one bit inverted at a time. If the walk leaves the turn, the value is an answer.

use std::collections::{BTreeMap, BTreeSet};

use super::thumb::{Memory, Step, Walk};

/// Most instructions walked in one turn of a loop, including those of functions that it calls.
const MAX_STEPS: usize = 4096;

/// Most branches of a turn that are tried in both directions: those that depend on an unknown value.
const MAX_FORKS: u32 = 7;

/// Answers of one poll that are tried, one run each.
const MAX_CHOICES: usize = 4;

/// A polled register, and the state at the read at which the run ended.
#[derive(Clone, Debug)]
pub struct Poll<'a> {
    /// Address of the reading instruction.
    pub pc: u32,
    /// Address that the instruction reads.
    pub address: u32,
    /// Value that the instruction reads.
    pub value: u32,
    /// Registers r0 to r14 before the read.
    pub registers: &'a [u32],
}

/// Bits of a register that lead out of a loop, as the loop reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Bits that matter.
    pub mask: u32,
    /// Values of these bits.
    pub value: u32,
}

/// Result of walking a poll's loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The loop's code shows for which bits it waits.
    Certain(Wanted),
    /// Any other value leads out of the loop; this is one of them.
    Any(Wanted),
    /// Each of several bits leads out of the loop by itself.
    Several(Vec<Wanted>),
    /// The code is a loop, and none of the tried values leads out of it.
    None,
    /// The code could not be followed, or is not a loop.
    Unknown,
}

impl Verdict {
    /// The reason for one of the answers; `value` is the value that the register had.
    pub fn why(&self, wanted: Wanted, value: u64) -> String {
        let until = super::describe(wanted.mask, wanted.value);
        match self {
            Verdict::Certain(_) => format!("polled until {until}"),
            Verdict::Any(_) => format!("polled until it is not {value:#x}"),
            Verdict::Several(several) => format!("polled until {until}, or one of {} others", several.len() - 1),
            Verdict::None => "polled, and no value that was tried ends the loop: a pattern".to_owned(),
            Verdict::Unknown => "polled by code that was not understood: a pattern".to_owned(),
        }
    }
}

/// One turn of a loop.
struct Round<'m> {
    start: Walk<'m>,
    /// Addresses of the turn's instructions.
    inside: BTreeSet<u32>,
    /// Chosen target of each branch that depends on an unknown value, by the branch's address.
    forks: BTreeMap<u32, u32>,
    constants: BTreeSet<u32>,
}

impl<'m> Round<'m> {
    /// Walks from one read of the register to the next, and returns that turn. `choices` has one bit for each branch
    /// that depends on an unknown value: its direction.
    fn find(start: &Walk<'m>, mut choices: u32) -> Option<Round<'m>> {
        let (mut walk, first) = (start.clone(), start.pc);
        let (mut inside, mut forks) = (BTreeSet::new(), BTreeMap::new());
        for _ in 0..MAX_STEPS {
            inside.insert(walk.pc);
            let pc = walk.pc;
            match walk.step() {
                Step::Stop => return None,
                Step::Next => {}
                Step::Fork { taken, next } => {
                    walk.pc = if choices & 1 == 0 { taken } else { next };
                    choices >>= 1;
                    forks.insert(pc, walk.pc);
                }
            }
            if walk.pc == first {
                let constants = walk.constants.into_iter().collect();
                return Some(Round { start: start.clone(), inside, forks, constants });
            }
        }
        None
    }

    /// Whether a value leads out of the turn.
    fn leaves(&self, value: u32) -> bool {
        let mut walk = self.start.clone();
        walk.polled.2 = value;
        for _ in 0..MAX_STEPS {
            let pc = walk.pc;
            match walk.step() {
                Step::Stop => return false,
                Step::Next => {}
                Step::Fork { .. } => match self.forks.get(&pc) {
                    Some(&chosen) => walk.pc = chosen,
                    None => return true,
                },
            }
            if !self.inside.contains(&walk.pc) {
                return true;
            }
            if walk.pc == self.start.pc {
                return false;
            }
        }
        false
    }

    /// Bits of a value that are needed to lead out of the loop, among the bits that it changes.
    fn reduce(&self, value: u32, bits: u32) -> Wanted {
        let old = self.start.polled.2;
        let (mut mask, mut reduced) = (value ^ old, value);
        for bit in (0..bits).rev().map(|bit| 1 << bit) {
            if mask & bit != 0 && self.leaves(reduced ^ bit) {
                reduced ^= bit;
                mask ^= bit;
            }
        }
        Wanted { mask, value: reduced & mask }
    }
}

/// Number of bytes that the instruction at `pc` loads, if it is a load.
fn bytes_loaded(memory: &dyn Memory, pc: u32) -> Option<u32> {
    let first = memory.code(pc)?;
    Some(match first >> 11 {
        9 | 13 | 19 => 4,
        15 => 1,
        17 => 2,
        10 | 11 => match first >> 9 & 7 {
            4 => 4,
            5 | 7 => 2,
            3 | 6 => 1,
            _ => return None,
        },
        25 => 4,
        0b11111 => match first >> 5 & 3 {
            0 => 1,
            1 => 2,
            _ => 4,
        },
        0b11101 => match memory.code(pc.wrapping_add(2))? & 0xf0 {
            0x40 if first & 0xfff0 == 0xe8d0 => 1,
            0x50 if first & 0xfff0 == 0xe8d0 => 2,
            _ => 4,
        },
        _ => return None,
    })
}

/// Finds the value that a poll waits for. Bits of the result are bits of the aligned word that contains the register.
pub(super) fn find(memory: &dyn Memory, poll: &Poll<'_>) -> Verdict {
    let Some(bytes) = bytes_loaded(memory, poll.pc) else { return Verdict::Unknown };
    let shift = poll.address % 4 * 8;
    let in_word = |wanted: Wanted| Wanted { mask: wanted.mask << shift, value: wanted.value << shift };
    let bits = bytes * 8;
    let all = u32::MAX >> (32 - bits);
    let value = poll.value & all;
    let start = Walk::new(memory, poll.registers, poll.pc, (poll.address, bytes, value));
    let Some(round) = (0..1 << MAX_FORKS).find_map(|choices| Round::find(&start, choices)) else {
        return Verdict::Unknown;
    };
    let flips: Vec<Wanted> = (0..bits)
        .map(|bit| 1 << bit)
        .filter(|&bit| round.leaves(value ^ bit))
        .map(|bit| Wanted { mask: bit, value: !value & bit })
        .collect();
    match flips.as_slice() {
        [] => {}
        &[one] => return Verdict::Certain(in_word(one)),
        // Any change leads out of the loop.
        flips if flips.len() as u32 == bits => return Verdict::Any(in_word(flips[0])),
        flips => return Verdict::Several(flips.iter().take(MAX_CHOICES).copied().map(in_word).collect()),
    }
    let shifted = |&constant: &u32| (0..bits).map(move |shift| constant << shift);
    let composed = round.constants.iter().flat_map(shifted).flat_map(|bits| [bits, value | bits, value & !bits]);
    let found = [all, 0, !value & all].into_iter().chain(composed).map(|value| value & all);
    let found = found.into_iter().find(|&found| round.leaves(found));
    found.map_or(Verdict::None, |found| Verdict::Certain(in_word(round.reduce(found, bits))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code from 0x1000 on, and memory of zeros at 0x20000000.
    struct Code(&'static [u16]);

    impl Memory for Code {
        fn code(&self, address: u32) -> Option<u16> {
            self.0.get(address.checked_sub(0x1000)? as usize / 2).copied()
        }
        fn byte(&self, address: u32) -> Option<u8> {
            if (0x2000_0000..0x2000_1000).contains(&address) {
                return Some(0);
            }
            Some(self.code(address & !1)?.to_le_bytes()[address as usize % 2])
        }
    }

    fn found(code: &'static [u16], value: u32, registers: &[u32]) -> Verdict {
        let mut all = [0; 15];
        all[..registers.len()].copy_from_slice(registers);
        all[13] = 0x2000_0800;
        let (pc, address) = (0x1000, registers[0]);
        find(&Code(code), &Poll { pc, address, value, registers: &all })
    }

    fn certain(mask: u32, value: u32) -> Verdict {
        Verdict::Certain(Wanted { mask, value })
    }

    #[test]
    fn one_bit_that_is_tested_is_certain() {
        // ldr r1, [r0]; lsls r1, r1, #14; bpl -6: bit 17.
        assert_eq!(found(&[0x6801, 0x0389, 0xd5fc], 0, &[0x4002_3800]), certain(1 << 17, 1 << 17));
        // ldr r1, [r0]; tst r1, r2; bne: bit 25 becomes 0.
        assert_eq!(found(&[0x6801, 0x4211, 0xd1fc], 0x0200_0003, &[0x4002_3800, 0, 1 << 25]), certain(1 << 25, 0));
        // ldrb r1, [r0]; lsls r1, r1, #24; bpl: bit 7 of the byte at +1, which is bit 15 of the word.
        assert_eq!(found(&[0x7801, 0x0609, 0xd5fc], 0, &[0x4002_3801]), certain(1 << 15, 1 << 15));
    }

    #[test]
    fn a_field_that_is_compared_has_the_value_it_is_compared_with() {
        // ldr r1, [r0]; and r1, #12; cmp r1, #8; bne.
        assert_eq!(found(&[0x6801, 0xf001, 0x010c, 0x2908, 0xd1fa], 0, &[0x4002_3800]), certain(8, 8));
        assert_eq!(found(&[0x6801, 0xf001, 0x010c, 0x2908, 0xd1fa], 4, &[0x4002_3800]), certain(12, 8));
        // ldr r1, [r0]; ubfx r1, r1, #4, #4; cmp r1, #10; bne.
        assert_eq!(found(&[0x6801, 0xf3c1, 0x1103, 0x290a, 0xd1fa], 0, &[0x4002_3800]), certain(0xa0, 0xa0));
        // ldr r1, [r0]; movs r3, r2; bics r3, r1; bne: all bits of r2.
        assert_eq!(found(&[0x6801, 0x0013, 0x438b, 0xd1fb], 0, &[0x4002_3800, 0, 0x180]), certain(0x180, 0x180));
    }

    #[test]
    fn several_bits_that_lead_out_are_a_guess() {
        // ldr r1, [r0]; tst r1, r2; beq: one of two.
        let two = vec![Wanted { mask: 1, value: 1 }, Wanted { mask: 0x80, value: 0x80 }];
        assert_eq!(found(&[0x6801, 0x4211, 0xd0fc], 0, &[0x4002_3800, 0, 0x81]), Verdict::Several(two));
        // ldr r1, [r0]; cmp r1, #0; beq: any.
        let any = Wanted { mask: 1, value: 1 };
        assert_eq!(found(&[0x6801, 0x2900, 0xd0fc], 0, &[0x4000_0100]), Verdict::Any(any));
    }

    #[test]
    fn a_loop_with_a_call_and_a_timeout_is_followed() {
        // ldr r1, [r0]; lsls r1, r1, #30; bmi +8; bl tick; cmp r4, #100; bls to the start; b .; tick: ldr r4, [r5]; bx
        // lr
        let code: &[u16] = &[0x6801, 0x0789, 0xd404, 0xf000, 0xf804, 0x2c64, 0xd9f8, 0xe7fe, 0xe7fe, 0x682c, 0x4770];
        let registers = [0x4002_3800, 0, 0, 0, 0, 0x2000_0000];
        assert_eq!(found(code, 0, &registers), certain(2, 2));
    }

    #[test]
    fn code_that_is_not_a_loop_is_unknown() {
        // ldr r1, [r0]; bx lr to nowhere.
        assert_eq!(found(&[0x6801, 0x4770], 0, &[0x4002_3800]), Verdict::Unknown);
        // ldr r1, [r0]; b -4: nothing leads out.
        assert_eq!(found(&[0x6801, 0xe7fd], 0, &[0x4002_3800]), Verdict::None);
    }
}
