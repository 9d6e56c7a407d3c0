// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions of AVR's branches and skips.

use crate::{bits, half};

/// Condition on which a branch is taken, or a skip skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The bit of SREG has the value.
    Flag {
        /// Number of the bit.
        bit: u8,
        /// The value.
        is_set: bool,
    },
    /// Two registers are equal.
    Equal(u8, u8),
    /// The bit of the register has the value.
    Register {
        /// Number of the register.
        register: u8,
        /// Number of the bit.
        bit: u8,
        /// The value.
        is_set: bool,
    },
    /// The bit of the register of I/O space has the value.
    Port {
        /// Its address in I/O space.
        port: u8,
        /// Number of the bit.
        bit: u8,
        /// The value.
        is_set: bool,
    },
}

impl Condition {
    /// Condition of a conditional branch.
    #[must_use]
    pub fn of_branch(bytes: &[u8]) -> Option<Condition> {
        let insn = u32::from(half(bytes)?);
        // brbs, brbc.
        (insn & 0xf800 == 0xf000)
            .then(|| Condition::Flag { bit: bits(insn, 2, 0) as u8, is_set: bits(insn, 10, 10) == 0 })
    }

    /// Condition of a skip.
    #[must_use]
    pub fn of_skip(bytes: &[u8]) -> Option<Condition> {
        let insn = u32::from(half(bytes)?);
        let bit = bits(insn, 2, 0) as u8;
        let is_set = bits(insn, 9, 9) == 1;
        match insn {
            // cpse.
            _ if insn & 0xfc00 == 0x1000 => {
                let other = bits(insn, 9, 9) << 4 | bits(insn, 3, 0);
                Some(Condition::Equal(bits(insn, 8, 4) as u8, other as u8))
            }
            // sbrc, sbrs.
            _ if insn & 0xfc08 == 0xfc00 => {
                Some(Condition::Register { register: bits(insn, 8, 4) as u8, bit, is_set })
            }
            // sbic, sbis.
            _ if insn & 0xfd00 == 0x9900 => Some(Condition::Port { port: bits(insn, 7, 3) as u8, bit, is_set }),
            _ => None,
        }
    }
}
