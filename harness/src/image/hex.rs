// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads Intel HEX: lines of `:` and hexadecimal digits, each with an address and bytes.
//!
//! A Universal Hex has the images of several boards in one file, each in blocks that begin with the board's number.
//! Format: <https://tech.microbit.org/software/spec-universal-hex/>.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use ihex::{ReaderError, Record};

use super::Segment;
use crate::error::InputError;
use crate::text::number::Hex;

/// A board of a Universal Hex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Board {
    /// BBC micro:bit V1, with an nRF51822.
    MicrobitV1,
    /// BBC micro:bit V2, with an nRF52833.
    MicrobitV2,
    /// Another board, by its number.
    Other(u16),
}

impl Board {
    fn of(number: u16) -> Board {
        match number {
            0x9900 | 0x9901 => Board::MicrobitV1,
            0x9903..=0x9906 => Board::MicrobitV2,
            other => Board::Other(other),
        }
    }
}

impl fmt::Display for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Board::MicrobitV1 => f.write_str("micro:bit V1 (--machine microbit)"),
            Board::MicrobitV2 => f.write_str("micro:bit V2 (--chip nrf52833)"),
            Board::Other(number) => write!(f, "board {number:#06x}"),
        }
    }
}

/// Record types of a Universal Hex.
const BLOCK_START: u8 = 0x0a;
const BLOCK_END: u8 = 0x0b;
const PADDED_DATA: u8 = 0x0c;
const CUSTOM_DATA: u8 = 0x0d;
const OTHER_DATA: u8 = 0x0e;

/// A record of either format.
enum Line {
    Plain(Record),
    BlockStart(Board),
    /// A record that loads nothing.
    Nothing,
}

/// Reads a line.
fn read(text: &str) -> Result<Line, String> {
    let kind = match Record::from_record_string(text) {
        Ok(record) => return Ok(Line::Plain(record)),
        Err(ReaderError::UnsupportedRecordType(kind)) => kind,
        Err(error) => return Err(error.to_string()),
    };
    // Digits, lengths and the sum have been checked: byte count, address, type, bytes, sum.
    let bytes: Vec<u8> =
        (1..text.len()).step_by(2).filter_map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect();
    let bytes = bytes.as_slice();
    match (kind, bytes) {
        (BLOCK_START, [_, _, _, _, high, low, ..]) if bytes.len() > 6 => {
            Ok(Line::BlockStart(Board::of(u16::from_be_bytes([*high, *low]))))
        }
        (CUSTOM_DATA, [_, high, low, _, value @ .., _]) => {
            Ok(Line::Plain(Record::Data { offset: u16::from_be_bytes([*high, *low]), value: value.to_vec() }))
        }
        (BLOCK_END | PADDED_DATA | OTHER_DATA, _) => Ok(Line::Nothing),
        (BLOCK_START, _) => Err("a block's start without a board".to_owned()),
        (kind, _) => Err(format!("unknown record type {kind:#04x}")),
    }
}

/// Contents of a HEX file.
pub(super) struct Contents {
    /// Segments in the file's order, neighbours joined.
    pub(super) segments: Vec<Segment>,
    /// The start address record, if there is one.
    pub(super) entry: Option<u64>,
    /// The chosen board of a Universal Hex, and the other boards for which it has images.
    pub(super) board: Option<(Board, Vec<Board>)>,
}

/// An image of one board.
#[derive(Default)]
struct Part {
    segments: Vec<Segment>,
    entry: Option<u64>,
}

/// Chooses the part of a Universal Hex. None: the file has no parts for boards.
fn choose(
    path: &Path,
    parts: &BTreeMap<Option<Board>, Part>,
    wanted: Option<Board>,
) -> Result<Option<Board>, InputError> {
    let boards: Vec<Board> =
        parts.iter().filter(|(_, part)| !part.segments.is_empty()).filter_map(|(board, _)| *board).collect();
    let named = || boards.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match (boards.as_slice(), wanted) {
        ([], _) => Ok(None),
        (_, Some(wanted)) if boards.contains(&wanted) => Ok(Some(wanted)),
        (_, Some(wanted)) => Err(InputError::about(
            path,
            format_args!("this Universal Hex has no image for {wanted}; it has {}", named()),
        )),
        ([only], None) => Ok(Some(*only)),
        (_, None) => Err(InputError::about(
            path,
            format_args!("this Universal Hex has an image for each of {}; say which board is meant", named()),
        )),
    }
}

/// Whether the first line is a HEX record.
pub(super) fn looks_like(bytes: &[u8]) -> bool {
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or(&[]);
    std::str::from_utf8(line).is_ok_and(|line| Record::from_record_string(line.trim()).is_ok())
}

/// Reads all records; from a Universal Hex, only those of the board.
pub(super) fn parse(path: &Path, bytes: &[u8], board: Option<Board>) -> Result<Contents, InputError> {
    let fail = |line: usize, what: &dyn fmt::Display| {
        InputError::about(
            path,
            format_args!("line {line} is not a valid Intel HEX record: {what}; write the file again"),
        )
    };
    let mut parts: BTreeMap<Option<Board>, Part> = BTreeMap::new();
    let (mut base, mut within, mut ended) = (0_u64, None, false);
    for (line, text) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
        let text = text.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let text = std::str::from_utf8(text).map_err(|error| fail(line, &error))?;
        let record = match read(text).map_err(|error| fail(line, &error))? {
            Line::Plain(record) => record,
            Line::BlockStart(board) => {
                within = Some(board);
                continue;
            }
            Line::Nothing => continue,
        };
        let part = parts.entry(within).or_default();
        match record {
            Record::Data { offset, value } => Segment::append(&mut part.segments, base + u64::from(offset), value),
            Record::ExtendedSegmentAddress(paragraph) => base = u64::from(paragraph) << 4,
            Record::ExtendedLinearAddress(upper) => base = u64::from(upper) << 16,
            Record::StartLinearAddress(address) => part.entry = Some(u64::from(address)),
            Record::StartSegmentAddress { cs, ip } => {
                part.entry = Some((u64::from(cs) << 4) + u64::from(ip));
            }
            Record::EndOfFile => {
                ended = true;
                break;
            }
        }
    }
    if !ended {
        return Err(InputError::about(
            path,
            "this Intel HEX file is truncated: its last record (:00000001FF) is missing",
        ));
    }
    let board = choose(path, &parts, board)?;
    let others = parts.keys().filter(|other| **other != board).filter_map(|other| *other).collect();
    let Part { mut segments, entry } = parts.remove(&board).unwrap_or_default();
    segments.retain(|segment| !segment.data.is_empty());
    if segments.is_empty() {
        return Err(InputError::about(path, "this Intel HEX file loads nothing: it has no data record"));
    }
    join(&mut segments);
    if let Some(last) = segments.iter().find(|s| s.load_range().end > 1 << 32) {
        return Err(InputError::about(
            path,
            format_args!("its bytes at {} end beyond 32-bit addresses", Hex(last.load_addr)),
        ));
    }
    Ok(Contents { segments, entry, board: board.map(|board| (board, others)) })
}

/// Joins adjacent segments in address order; a linker writes sections in any order.
fn join(segments: &mut Vec<Segment>) {
    segments.sort_by_key(|segment| segment.load_addr);
    segments.dedup_by(|next, previous| {
        let touches = previous.load_range().end == next.load_addr;
        if touches {
            previous.data.append(&mut next.data);
            previous.mem_bytes = previous.data.len() as u64;
        }
        touches
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<Contents, InputError> {
        parse(Path::new("x.hex"), text.as_bytes(), None)
    }

    #[test]
    fn records_in_any_order_are_joined() {
        let contents = parse_text(
            ":020000040800F2\r\n:0400040005060708DE\r\n:0400000001020304F2\r\n\
             :0400000508000101ED\r\n:00000001FF\r\n",
        )
        .unwrap();
        assert_eq!(contents.entry, Some(0x0800_0101));
        assert_eq!(contents.segments.len(), 1);
        assert_eq!(contents.segments[0].load_addr, 0x0800_0000);
        assert_eq!(contents.segments[0].data, [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_damaged_record_is_named_by_its_line() {
        let error = parse_text(":0400000001020304F2\n:0400000001020304F3\n:00000001FF\n").err().unwrap();
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn a_missing_end_record_means_truncated() {
        let error = parse_text(":0400000001020304F2\n").err().unwrap();
        assert!(error.to_string().contains("truncated"), "{error}");
        let error = parse_text(":00000001FF\n").err().unwrap();
        assert!(error.to_string().contains("loads nothing"), "{error}");
    }

    /// A record with its sum.
    fn record(kind: u8, offset: u16, bytes: &[u8]) -> String {
        let mut all = vec![bytes.len() as u8, (offset >> 8) as u8, offset as u8, kind];
        all.extend_from_slice(bytes);
        let sum = all.iter().fold(0u8, |sum, &byte| sum.wrapping_sub(byte));
        all.push(sum);
        let digits: String = all.iter().map(|byte| format!("{byte:02X}")).collect();
        format!(":{digits}\n")
    }

    fn universal() -> String {
        let upper = record(4, 0, &[0, 0]);
        let start = |board: u16| record(0x0a, 0, &[(board >> 8) as u8, board as u8, 0xc0, 0xde]);
        let end = record(0x0b, 0, &[]);
        let padded = record(0x0c, 0, &[0xff; 4]);
        let data = |kind: u8, at: u16, byte: u8| record(kind, at, &[byte; 4]);
        [
            upper.clone() + &start(0x9900) + &data(0, 0, 1) + &data(0, 4, 2) + &padded + &end,
            upper.clone() + &start(0x9903) + &data(0x0d, 0, 3) + &end,
            upper.clone() + &start(0x9901) + &data(0, 8, 4) + &end,
            upper + &start(0x9904) + &data(0x0d, 4, 5) + &record(0x0e, 0, b"note") + &end,
            ":00000001FF\n".to_owned(),
        ]
        .concat()
    }

    #[test]
    fn a_universal_hex_has_a_part_for_each_board() {
        let part = |board: Board| {
            let contents = parse(Path::new("x.hex"), universal().as_bytes(), Some(board)).unwrap();
            contents.segments.iter().flat_map(|segment| segment.data.iter().step_by(4).copied()).collect::<Vec<_>>()
        };
        assert_eq!((part(Board::MicrobitV1), part(Board::MicrobitV2)), (vec![1, 2, 4], vec![3, 5]));
        assert!(looks_like(universal().as_bytes()));
    }

    #[test]
    fn a_universal_hex_without_a_choice_says_which_parts_there_are() {
        let error = parse_text(&universal()).err().unwrap().to_string();
        for wanted in ["micro:bit V1 (--machine microbit)", "micro:bit V2 (--chip nrf52833)"] {
            assert!(error.contains(wanted), "{error}");
        }
        // One part needs no choice.
        let only: String = universal()
            .split_inclusive('\n')
            .filter(|line| !line.contains("C0DE") || line.contains("9900"))
            .collect();
        assert_eq!(parse_text(&only).unwrap().board, Some((Board::MicrobitV1, Vec::new())));
        let error = parse(Path::new("x.hex"), only.as_bytes(), Some(Board::MicrobitV2)).err().unwrap().to_string();
        assert!(error.contains("no image for micro:bit V2"), "{error}");
    }

    #[test]
    fn an_unknown_record_is_named_by_its_line() {
        let error = parse_text(&(record(0x0f, 0, &[1]) + ":00000001FF\n")).err().unwrap().to_string();
        assert!(error.contains("line 1") && error.contains("unknown record type 0x0f"), "{error}");
    }
}
