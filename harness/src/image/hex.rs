//! Reads Intel HEX: lines of `:` and hexadecimal digits, each with an address and bytes.

use std::path::Path;

use ihex::Record;

use super::Segment;
use crate::error::InputError;
use crate::text::number::Hex;

/// Contents of a HEX file.
pub(super) struct Contents {
    /// Segments in the file's order, neighbours joined.
    pub(super) segments: Vec<Segment>,
    /// The start address record, if there is one.
    pub(super) entry: Option<u64>,
}

/// Whether the first line is a HEX record.
pub(super) fn looks_like(bytes: &[u8]) -> bool {
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or(&[]);
    std::str::from_utf8(line).is_ok_and(|line| Record::from_record_string(line.trim()).is_ok())
}

/// Reads all records.
pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Contents, InputError> {
    let fail = |line: usize, what: &dyn std::fmt::Display| {
        InputError::about(
            path,
            format_args!("line {line} is not a valid Intel HEX record: {what}; write the file again"),
        )
    };
    let mut segments: Vec<Segment> = Vec::new();
    let (mut base, mut entry, mut ended) = (0_u64, None, false);
    for (line, text) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
        let text = text.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let text = std::str::from_utf8(text).map_err(|error| fail(line, &error))?;
        match Record::from_record_string(text).map_err(|error| fail(line, &error))? {
            Record::Data { offset, value } => {
                let address = base + u64::from(offset);
                match segments.last_mut() {
                    Some(last) if last.load_range().end == address => {
                        last.data.extend_from_slice(&value);
                        last.mem_bytes = last.data.len() as u64;
                    }
                    _ => segments.push(Segment {
                        load_addr: address,
                        run_addr: address,
                        mem_bytes: value.len() as u64,
                        data: value,
                        executable: true,
                        writable: true,
                    }),
                }
            }
            Record::ExtendedSegmentAddress(paragraph) => base = u64::from(paragraph) << 4,
            Record::ExtendedLinearAddress(upper) => base = u64::from(upper) << 16,
            Record::StartLinearAddress(address) => entry = Some(u64::from(address)),
            Record::StartSegmentAddress { cs, ip } => {
                entry = Some((u64::from(cs) << 4) + u64::from(ip));
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
    Ok(Contents { segments, entry })
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
        parse(Path::new("x.hex"), text.as_bytes())
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
}
