//! What each counter counts, and what the firmware did that the reader of a profile must know.
//!
//! A definition is appended once, when its code is first translated or its arc first taken; the
//! counter then lives in the counters file under the definition's slot.

use crate::varint::{self, Reader};
use crate::{Malformed, counters};

/// Most instructions of one segment; QEMU's translation blocks hold at most 512.
pub const MAX_SEGMENT_INSNS: usize = 4096;

/// Longest text of a note, in bytes.
pub const MAX_TEXT_BYTES: usize = 1024;

/// One record of the definitions file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Definition {
    /// Straight-line code that starts as a whole or not at all: its counter is the number of
    /// executions of each of its instructions.
    Segment {
        /// Counter.
        slot: u32,
        /// Address of the first instruction.
        pc: u64,
        /// Size of each instruction in bytes, 2 or 4.
        sizes: Vec<u8>,
        /// Where the last instruction goes every time it executes, when the code says it.
        transfer: Option<Transfer>,
    },
    /// A transfer to a function's entry whose target or return address only the run could tell.
    Arc {
        /// Counter.
        slot: u32,
        /// Address of the instruction that transferred control.
        site: u64,
        /// Address it went to.
        target: u64,
        /// Return address that the target saw at its entry: what `_mcount` would record. None for a
        /// jump to the start of the function it is in.
        return_addr: Option<u64>,
        /// Whether the instruction set the return address (a call) or kept it (a tail call or loop).
        kind: TransferKind,
    },
    /// Something the firmware did that left the emulated machine.
    Note {
        /// What it means for the run.
        kind: NoteKind,
        /// Number of the semihosting operation.
        operation: u32,
        /// Address of the instruction that asked for it.
        pc: u64,
        /// What it asked for, as far as it could be read: a path, a command.
        text: String,
    },
}

/// A direct call or jump that always goes to one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// Call or jump.
    pub kind: TransferKind,
    /// Where it goes.
    pub target: u64,
}

/// Does a transfer set the return address?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TransferKind {
    /// Yes: `bl`, `jal ra`.
    Call,
    /// No: `b`, `j`; a tail call where it enters a function, else a loop.
    Jump,
    /// No, and it is conditional; where it is not taken, the instruction after it starts, and that one
    /// starts in no other way. Only in segments: the number of jumps is a difference of counts.
    Branch,
}

/// What a note means for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoteKind {
    /// The answer came from the host: another machine may give another one.
    HostDependent,
    /// The operation was not carried out, or the run ended before it could be.
    Denied,
}

const SEGMENT: u8 = 1;
const ARC: u8 = 2;
const NOTE: u8 = 3;

fn kind_code(kind: TransferKind) -> u8 {
    match kind {
        TransferKind::Call => 1,
        TransferKind::Jump => 2,
        TransferKind::Branch => 3,
    }
}

/// The reverse of [`kind_code`].
fn kind(code: u8) -> Option<TransferKind> {
    [TransferKind::Call, TransferKind::Jump, TransferKind::Branch].into_iter().find(|&kind| kind_code(kind) == code)
}

/// Added to an arc's kind when a return address follows.
const RETURNS: u8 = 0x10;

impl Definition {
    /// Appends the record.
    ///
    /// # Errors
    /// When it breaks a limit that the reader checks; nothing is appended.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let malformed = |what| Malformed { what, offset: out.len() };
        match self {
            Definition::Segment { slot, pc, sizes, transfer } => {
                let fits = (1..=MAX_SEGMENT_INSNS).contains(&sizes.len());
                if !fits || sizes.iter().any(|size| !matches!(size, 2 | 4)) || *slot < counters::FIRST_DEFINED {
                    return Err(malformed("segment"));
                }
                out.push(SEGMENT);
                varint::put(out, u64::from(*slot));
                varint::put(out, *pc);
                out.push(transfer.map_or(0, |transfer| kind_code(transfer.kind)));
                if let Some(transfer) = transfer {
                    varint::put_delta(out, *pc, transfer.target);
                }
                varint::put(out, sizes.len() as u64);
                for eight in sizes.chunks(8) {
                    out.push(eight.iter().enumerate().fold(0, |bits, (n, &size)| bits | u8::from(size == 4) << n));
                }
            }
            Definition::Arc { slot, site, target, return_addr, kind } => {
                if *slot < counters::FIRST_DEFINED || *kind == TransferKind::Branch {
                    return Err(malformed("arc"));
                }
                out.push(ARC);
                varint::put(out, u64::from(*slot));
                varint::put(out, *site);
                varint::put_delta(out, *site, *target);
                out.push(kind_code(*kind) | if return_addr.is_some() { RETURNS } else { 0 });
                if let Some(return_addr) = return_addr {
                    varint::put_delta(out, *site, *return_addr);
                }
            }
            Definition::Note { kind, operation, pc, text } => {
                if text.len() > MAX_TEXT_BYTES {
                    return Err(malformed("note"));
                }
                out.push(NOTE);
                out.push(match kind {
                    NoteKind::HostDependent => 1,
                    NoteKind::Denied => 2,
                });
                varint::put(out, u64::from(*operation));
                varint::put(out, *pc);
                varint::put(out, text.len() as u64);
                out.extend_from_slice(text.as_bytes());
            }
        }
        Ok(())
    }
}

/// Reads a definitions file record by record.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    reader: Reader<'a>,
    failed: bool,
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte of a stream.
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { reader: Reader::new(bytes), failed: false }
    }

    fn slot(&mut self) -> Result<u32, Malformed> {
        let malformed = Malformed { what: "slot", offset: self.reader.offset };
        let slot = self.reader.varint("slot")?;
        u32::try_from(slot).ok().filter(|&slot| slot >= counters::FIRST_DEFINED).ok_or(malformed)
    }

    fn definition(&mut self) -> Result<Definition, Malformed> {
        let start = self.reader.offset;
        let malformed = |what| Malformed { what, offset: start };
        match self.reader.byte("definition")? {
            SEGMENT => {
                let slot = self.slot()?;
                let pc = self.reader.varint("segment's pc")?;
                let transfer = match self.reader.byte("segment's transfer")? {
                    0 => None,
                    code => {
                        let kind = kind(code).ok_or(malformed("segment"))?;
                        Some(Transfer { kind, target: self.reader.delta(pc, "segment's target")? })
                    }
                };
                let count = self.reader.varint("segment's length")?;
                if count == 0 || count > MAX_SEGMENT_INSNS as u64 {
                    return Err(malformed("segment"));
                }
                let bits = self.reader.bytes(count.div_ceil(8), "segment's sizes")?;
                let sizes =
                    (0..count as usize).map(|n| if bits[n / 8] >> (n % 8) & 1 == 1 { 4 } else { 2 }).collect();
                Ok(Definition::Segment { slot, pc, sizes, transfer })
            }
            ARC => {
                let slot = self.slot()?;
                let site = self.reader.varint("arc's site")?;
                let target = self.reader.delta(site, "arc's target")?;
                let flags = self.reader.byte("arc's kind")?;
                let kind = kind(flags & !RETURNS).filter(|&kind| kind != TransferKind::Branch);
                let kind = kind.ok_or(malformed("arc"))?;
                let return_addr = match flags & RETURNS {
                    0 => None,
                    _ => Some(self.reader.delta(site, "arc's return address")?),
                };
                Ok(Definition::Arc { slot, site, target, return_addr, kind })
            }
            NOTE => {
                let kind = match self.reader.byte("note")? {
                    1 => NoteKind::HostDependent,
                    2 => NoteKind::Denied,
                    _ => return Err(malformed("note")),
                };
                let operation =
                    u32::try_from(self.reader.varint("note's operation")?).map_err(|_| malformed("note"))?;
                let pc = self.reader.varint("note's pc")?;
                let len = self.reader.varint("note's length")?;
                if len > MAX_TEXT_BYTES as u64 {
                    return Err(malformed("note"));
                }
                let text = std::str::from_utf8(self.reader.bytes(len, "note's text")?)
                    .map_err(|_| malformed("note"))?
                    .to_owned();
                Ok(Definition::Note { kind, operation, pc, text })
            }
            _ => Err(malformed("definition")),
        }
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<Definition, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.reader.is_empty() {
            return None;
        }
        let definition = self.definition();
        self.failed = definition.is_err();
        Some(definition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definitions() -> Vec<Definition> {
        let segment = |sizes, transfer| Definition::Segment { slot: 8, pc: 0x8000_0000, sizes, transfer };
        vec![
            segment(vec![2], None),
            segment(vec![4, 2, 2, 4, 4, 4, 4, 4, 2], Some(Transfer { kind: TransferKind::Call, target: 4 })),
            segment(vec![4; 8], Some(Transfer { kind: TransferKind::Jump, target: u64::MAX })),
            segment(vec![2, 2], Some(Transfer { kind: TransferKind::Branch, target: 0x8000_0000 })),
            Definition::Arc {
                slot: u32::MAX,
                site: 0x100,
                target: 0x200,
                return_addr: Some(0xffff_fff9),
                kind: TransferKind::Jump,
            },
            Definition::Arc { slot: 9, site: 8, target: 4, return_addr: None, kind: TransferKind::Jump },
            Definition::Note { kind: NoteKind::Denied, operation: 0x12, pc: 0x44, text: "touch gepäck".into() },
        ]
    }

    fn encode(definitions: &[Definition]) -> Vec<u8> {
        let mut out = Vec::new();
        for definition in definitions {
            definition.put(&mut out).unwrap();
        }
        out
    }

    #[test]
    fn definitions_survive_the_wire() {
        let decoded: Result<Vec<_>, _> = Decoder::new(&encode(&definitions())).collect();
        assert_eq!(decoded.unwrap(), definitions());
    }

    #[test]
    fn impossible_definitions_are_refused_when_written() {
        let mut out = Vec::new();
        let segment = |slot, sizes| Definition::Segment { slot, pc: 0, sizes, transfer: None };
        assert!(segment(8, vec![]).put(&mut out).is_err());
        assert!(segment(8, vec![3]).put(&mut out).is_err());
        assert!(segment(8, vec![2; MAX_SEGMENT_INSNS + 1]).put(&mut out).is_err());
        assert!(segment(counters::CLOCK, vec![2]).put(&mut out).is_err());
        let text = "x".repeat(MAX_TEXT_BYTES + 1);
        assert!(Definition::Note { kind: NoteKind::Denied, operation: 1, pc: 0, text }.put(&mut out).is_err());
        assert!(out.is_empty());
    }

    #[test]
    fn cut_and_flipped_bytes_never_panic() {
        let bytes = encode(&definitions());
        for cut in 0..bytes.len() {
            let _ = Decoder::new(&bytes[..cut]).count();
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[cut] ^= 1 << bit;
                let _ = Decoder::new(&flipped).count();
            }
        }
    }
}
