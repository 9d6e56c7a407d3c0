// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unwind rows: the rules for finding a caller's frame. harness makes them from the ELF's unwind information, and the
//! plugin walks a stack with them at every sample.
//!
//! A row holds from its address to the next row's. Every row is [`ROW_BYTES`] long, little-endian, and the file is
//! sorted by address. So a row is found by binary search in memory.
//!
//! The *canonical frame address* (CFA) is the stack pointer's value at the function's entry, as in DWARF 5, 6.4. The
//! frame pointer is r7 on Thumb and s0 on RISC-V. Compilers compute the CFA from no other register but the stack
//! pointer.

use crate::Malformed;

/// Size of a row in the file.
pub const ROW_BYTES: usize = 24;

/// Rule that holds from an address to the next row's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// First address.
    pub pc: u64,
    /// Rule for finding the caller from there on; None: there is no unwind information.
    pub rule: Option<Rule>,
}

/// Rule for finding the caller's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Register from which the canonical frame address is computed.
    pub base: Base,
    /// Canonical frame address minus the register's value.
    pub cfa_offset_bytes: i32,
    /// Location of the return address.
    pub return_addr: Saved,
    /// Location of the caller's frame pointer.
    pub frame_pointer: Saved,
}

/// Register from which the canonical frame address is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Stack pointer, sp.
    StackPointer,
    /// Frame pointer: r7 or s0.
    FramePointer,
}

/// Location of a caller's register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// Still in the register.
    Register,
    /// In memory, at the canonical frame address plus this many bytes.
    AtCfa(i32),
    /// Not saved anywhere.
    Lost,
    /// In the second link register. RISC-V's t0: the return address of millicode and outlined code, which leave ra as it
    /// was. Arm's r12: that of assembly which needs lr for something else. Used for no other register.
    SecondLink,
}

const KNOWN: u8 = 1;
const FRAME_POINTER: u8 = 2;

impl Saved {
    fn code(self) -> (u8, i32) {
        match self {
            Saved::Register => (0, 0),
            Saved::AtCfa(offset_bytes) => (1, offset_bytes),
            Saved::Lost => (2, 0),
            Saved::SecondLink => (3, 0),
        }
    }

    fn read(code: u8, offset_bytes: i32) -> Option<Saved> {
        match code {
            0 => Some(Saved::Register),
            1 => Some(Saved::AtCfa(offset_bytes)),
            2 => Some(Saved::Lost),
            3 => Some(Saved::SecondLink),
            _ => None,
        }
    }
}

impl Row {
    /// Appends the row to `out`.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.pc.to_le_bytes());
        let mut words = [0; 3];
        let mut codes = [0; 4];
        if let Some(rule) = self.rule {
            let (return_addr, at) = rule.return_addr.code();
            let (frame_pointer, fp_at) = rule.frame_pointer.code();
            words = [rule.cfa_offset_bytes, at, fp_at];
            let base = if rule.base == Base::FramePointer { FRAME_POINTER } else { 0 };
            codes = [KNOWN | base, return_addr, frame_pointer, 0];
        }
        for word in words {
            out.extend(word.to_le_bytes());
        }
        out.extend(codes);
    }

    fn read(bytes: &[u8; ROW_BYTES]) -> Option<Row> {
        let (pc, rest) = bytes.split_first_chunk()?;
        let word = |at: usize| Some(i32::from_le_bytes(*rest.get(at..)?.first_chunk()?));
        let rule = if rest[12] & KNOWN == 0 {
            None
        } else {
            Some(Rule {
                base: if rest[12] & FRAME_POINTER == 0 { Base::StackPointer } else { Base::FramePointer },
                cfa_offset_bytes: word(0)?,
                return_addr: Saved::read(rest[13], word(4)?)?,
                frame_pointer: Saved::read(rest[14], word(8)?)?,
            })
        };
        let row = Row { pc: u64::from_le_bytes(*pc), rule };
        // A row has one encoding only: refuse any other.
        let mut again = Vec::with_capacity(ROW_BYTES);
        row.put(&mut again);
        (again == bytes).then_some(row)
    }
}

/// Reads a file of rows.
///
/// # Errors
/// When the file is cut short or not sorted, or a row has no meaning.
pub fn read(bytes: &[u8]) -> Result<Vec<Row>, Malformed> {
    let (rows, rest) = bytes.as_chunks();
    let malformed = |index: usize| Malformed { what: "unwind row", offset: index * ROW_BYTES };
    if !rest.is_empty() {
        return Err(malformed(rows.len()));
    }
    let mut read: Vec<Row> = Vec::with_capacity(rows.len());
    for (index, bytes) in rows.iter().enumerate() {
        let row = Row::read(bytes).ok_or(malformed(index))?;
        if read.last().is_some_and(|last| last.pc >= row.pc) {
            return Err(malformed(index));
        }
        read.push(row);
    }
    Ok(read)
}

/// Returns the rule that holds at an address; `rows` are sorted.
pub fn rule_at(rows: &[Row], pc: u64) -> Option<&Rule> {
    let after = rows.partition_point(|row| row.pc <= pc);
    rows[after.checked_sub(1)?].rule.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let rule = |base, cfa_offset_bytes, return_addr, frame_pointer| {
            Some(Rule { base, cfa_offset_bytes, return_addr, frame_pointer })
        };
        vec![
            Row { pc: 0x10, rule: rule(Base::StackPointer, 0, Saved::Register, Saved::Register) },
            Row { pc: 0x12, rule: rule(Base::StackPointer, 8, Saved::AtCfa(-4), Saved::AtCfa(-8)) },
            Row { pc: 0x14, rule: rule(Base::FramePointer, -16, Saved::AtCfa(i32::MIN), Saved::Lost) },
            Row { pc: u64::MAX, rule: None },
        ]
    }

    fn bytes() -> Vec<u8> {
        let mut bytes = Vec::new();
        rows().iter().for_each(|row| row.put(&mut bytes));
        bytes
    }

    #[test]
    fn rows_survive_the_file() {
        assert_eq!(bytes().len(), rows().len() * ROW_BYTES);
        assert_eq!(read(&bytes()), Ok(rows()));
    }

    #[test]
    fn a_row_holds_up_to_the_next_one() {
        let rows = rows();
        assert_eq!(rule_at(&rows, 0xf), None);
        assert_eq!(rule_at(&rows, 0x10), rows[0].rule.as_ref());
        assert_eq!(rule_at(&rows, 0x13), rows[1].rule.as_ref());
        assert_eq!(rule_at(&rows, u64::MAX - 1), rows[2].rule.as_ref());
        assert_eq!(rule_at(&rows, u64::MAX), None);
    }

    #[test]
    fn a_damaged_file_is_another_table_or_an_error() {
        let bytes = bytes();
        for cut in 0..bytes.len() {
            assert_ne!(read(&bytes[..cut]), Ok(rows()));
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[cut] ^= 1 << bit;
                assert_ne!(read(&flipped), Ok(rows()), "byte {cut} bit {bit} does not matter");
            }
        }
    }
}
