// SPDX-License-Identifier: MIT OR Apache-2.0
//! RISC-V's Zcmp and Zcmt: pushes and pops of several registers, moves of pairs, jumps through a table. They have the
//! encodings of Zcd's `c.fsdsp`.
//!
//! Sections are those of "RISC-V Code Size Reduction", version 1.0.4: 4.12 to 4.15.

use std::fmt;

use crate::{Isa, bits, half};

/// Instruction of Zcmp or Zcmt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zcmp {
    /// `cm.push`.
    Push {
        /// Registers that are stored, lowest first: ra, then s0 and on.
        registers: Registers,
        /// Bytes that are taken from the stack pointer.
        bytes: u32,
    },
    /// `cm.pop`, `cm.popret`, `cm.popretz`.
    Pop {
        /// Registers that are loaded.
        registers: Registers,
        /// Bytes that are added to the stack pointer.
        bytes: u32,
        /// Whether it returns.
        returns: bool,
        /// Whether it sets a0 to 0.
        zeroes: bool,
    },
    /// `cm.mva01s` (from the saved registers to a0 and a1), `cm.mvsa01` (from a0 and a1).
    Move {
        /// Saved registers, as x numbers: the partner of a0, and of a1.
        saved: [u8; 2],
        /// Whether the saved registers are the source.
        is_to_arguments: bool,
    },
    /// `cm.jt`, `cm.jalt`.
    Jump {
        /// Entry of the table.
        index: u8,
        /// Whether it leaves its return address in ra.
        links: bool,
    },
}

/// Registers of a push or pop: ra, and this many of s0 to s11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Number of saved registers.
    pub saved: u8,
}

impl Registers {
    /// Registers as x numbers, in the order of their addresses, the lowest first.
    pub fn numbers(self) -> impl DoubleEndedIterator<Item = u8> + ExactSizeIterator {
        (0..=self.saved).map(|index| if index == 0 { 1 } else { saved(index - 1) })
    }
}

/// Number of the register `s0` to `s11`.
const fn saved(index: u8) -> u8 {
    if index < 2 { 8 + index } else { 16 + index }
}

/// See [`crate::zcmp`].
pub(crate) fn known(isa: Isa, bytes: &[u8]) -> Option<Zcmp> {
    half(bytes).filter(|_| isa.has_zcmp()).and_then(|insn| decode(isa, insn.into()))
}

/// Decodes a 16-bit instruction.
pub(crate) fn decode(isa: Isa, insn: u32) -> Option<Zcmp> {
    if insn & 0xe003 != 0xa002 {
        return None;
    }
    let kind = bits(insn, 12, 8);
    match bits(insn, 12, 10) {
        0 => {
            let index = bits(insn, 9, 2) as u8;
            return Some(Zcmp::Jump { index, links: index >= 32 });
        }
        3 if bits(insn, 5, 5) == 1 => {
            let saved = [saved(bits(insn, 9, 7) as u8), saved(bits(insn, 4, 2) as u8)];
            let is_to_arguments = bits(insn, 6, 6) == 1;
            // Both from a0 and a1 into one register is reserved.
            return (is_to_arguments || saved[0] != saved[1]).then_some(Zcmp::Move { saved, is_to_arguments });
        }
        _ => {}
    }
    let list = bits(insn, 7, 4);
    // The list 15 has s10 and s11; less than ra is reserved.
    let saved = match list {
        0..4 => return None,
        15 => 12,
        _ => list - 4,
    };
    let word_bytes = if isa.is_riscv64() { 8 } else { 4 };
    let bytes = ((saved + 1) * word_bytes).next_multiple_of(16) + bits(insn, 3, 2) * 16;
    let registers = Registers { saved: saved as u8 };
    let pop = |returns, zeroes| Some(Zcmp::Pop { registers, bytes, returns, zeroes });
    match kind {
        0b11000 => Some(Zcmp::Push { registers, bytes }),
        0b11010 => pop(false, false),
        0b11100 => pop(true, true),
        0b11110 => pop(true, false),
        _ => None,
    }
}

impl fmt::Display for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.saved {
            0 => write!(f, "{{ra}}"),
            1 => write!(f, "{{ra, s0}}"),
            last => write!(f, "{{ra, s0-s{}}}", last - 1),
        }
    }
}

impl Zcmp {
    /// Mnemonic and operands, as assemblers write them.
    #[must_use]
    pub fn text(self) -> (&'static str, String) {
        match self {
            Self::Push { registers, bytes } => ("cm.push", format!("{registers}, -{bytes}")),
            Self::Pop { registers, bytes, returns, zeroes } => {
                let name = match (returns, zeroes) {
                    (false, _) => "cm.pop",
                    (true, false) => "cm.popret",
                    (true, true) => "cm.popretz",
                };
                (name, format!("{registers}, {bytes}"))
            }
            Self::Move { saved, is_to_arguments } => {
                let name = if is_to_arguments { "cm.mva01s" } else { "cm.mvsa01" };
                let [one, two] = saved.map(|number| if number < 10 { number - 8 } else { number - 16 });
                (name, format!("s{one}, s{two}"))
            }
            Self::Jump { index, links } => (if links { "cm.jalt" } else { "cm.jt" }, index.to_string()),
        }
    }
}
