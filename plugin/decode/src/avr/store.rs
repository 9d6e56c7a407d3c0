// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores of AVR in the data space: where they go to, and what they write.

use crate::{bits, half};

/// A store of one register. Pushes are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// Number of the register that is written.
    pub register: u8,
    /// Pair that has the address, by its lower half; None: the address is in the instruction.
    pub pair: Option<u8>,
    /// Address, or its distance from the pair's value.
    pub offset: i32,
}

impl Store {
    /// The store that an instruction is.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Store> {
        const X: u8 = 26;
        const Y: u8 = 28;
        const Z: u8 = 30;
        let insn = u32::from(half(bytes)?);
        let register = bits(insn, 8, 4) as u8;
        if insn & 0xd200 == 0x8200 {
            // std.
            let pair = if bits(insn, 3, 3) == 1 { Y } else { Z };
            let offset = bits(insn, 13, 13) << 5 | bits(insn, 11, 10) << 3 | bits(insn, 2, 0);
            return Some(Store { register, pair: Some(pair), offset: offset as i32 });
        }
        if insn & 0xfe00 != 0x9200 {
            return None;
        }
        let (pair, offset) = match bits(insn, 3, 0) {
            // sts.
            0 => (None, half(&bytes[2..])?.into()),
            // st, with the pair as it is, or decremented before.
            1 => (Some(Z), 0),
            2 => (Some(Z), -1),
            9 => (Some(Y), 0),
            0xa => (Some(Y), -1),
            0xc | 0xd => (Some(X), 0),
            0xe => (Some(X), -1),
            _ => return None,
        };
        Some(Store { register, pair, offset })
    }
}
