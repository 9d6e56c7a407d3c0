// SPDX-License-Identifier: MIT OR Apache-2.0
//! Header of the in-target table: found in the image by its magic, and accepted only if all of it makes sense.

use std::ops::Range;

use super::Reader;
use crate::image::{Arch, Segment};
use crate::profile::in_target::{Mode, Protection};
use crate::text::number::Hex;

const MAGIC: &[u8; 8] = b"\x7fmcount\n";

/// Version of the format that is read here.
const VERSION: u64 = 1;

/// Size of a header.
const BYTES: usize = 32;

/// Alignment of a header in bytes.
const ALIGNMENT: u64 = 4;

/// Size of the state before its first ignored range.
const FIXED_BYTES: u64 = 16;

/// Largest plausible state: no microcontroller has more memory for its counts.
const MAX_STATE_BYTES: u64 = 16 << 20;

/// Offsets of the header's two distances, each relative to its own address.
const STATE_DISTANCE: u64 = 20;
const ENTRY_POINT_DISTANCE: u64 = 24;

/// Header of the in-target table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Address of the header itself, load bias included.
    pub address: u64,
    /// Size of a pointer in the table.
    pub pointer_bytes: u8,
    /// Kind of entries in the table.
    pub mode: Mode,
    /// Protection of the table's updates.
    pub protection: Protection,
    /// Size of an entry.
    pub entry_bytes: u16,
    /// Number of ranges of functions that are not counted.
    pub ignore_ranges: u16,
    /// Number of entries.
    pub capacity_entries: u32,
    /// Addresses of the state in memory, load bias included.
    pub state: Range<u64>,
    /// Address of the runtime's function that the compiler calls, without Thumb's bit 0, load bias included.
    pub entry_point: u64,
}

/// Result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// All headers by ascending address within their segments; the first is used.
    pub headers: Vec<Header>,
    /// Warnings for the user, each one sentence.
    pub warnings: Vec<String>,
}

/// Searches for headers at their addresses in the running firmware. `arch` is the processor family, if known.
pub fn find(segments: &[Segment], arch: Option<Arch>, load_bias: u64) -> Found {
    let mut found = Found::default();
    for segment in segments {
        let misaligned = segment.run_addr.wrapping_neg() % ALIGNMENT;
        for offset in (misaligned as usize..segment.data.len()).step_by(ALIGNMENT as usize) {
            let bytes = &segment.data[offset..];
            if !bytes.starts_with(MAGIC) {
                continue;
            }
            let address = segment.run_addr.wrapping_add(offset as u64).wrapping_add(load_bias);
            match Header::parse(bytes, address, arch) {
                Ok(header) => found.headers.push(header),
                Err(why) => found
                    .warnings
                    .push(format!("the in-target table described at {} is not read: {why}", Hex(address))),
            }
        }
    }
    if let [first, others @ ..] = &found.headers[..]
        && !others.is_empty()
    {
        let others: Vec<String> = others.iter().map(|header| Hex(header.address).to_string()).collect();
        found.warnings.push(format!(
            "the image describes {} in-target tables; the one described at {} is read, not {}",
            others.len() + 1,
            Hex(first.address),
            others.join(", ")
        ));
    }
    found
}

impl Header {
    /// Reads a header that begins with the magic. `bytes` may continue after it.
    fn parse(bytes: &[u8], address: u64, arch: Option<Arch>) -> Result<Header, String> {
        let bytes = bytes.get(..BYTES).ok_or("its header is cut short")?;
        let mut fields = Reader { bytes: &bytes[MAGIC.len()..] };
        let version = fields.number(1);
        if version != VERSION {
            return Err(format!("it is of version {version}, and this harness knows version {VERSION}"));
        }
        let pointer_bytes = fields.number(1);
        if ![2, 4, 8].contains(&pointer_bytes) {
            return Err(format!("it has pointers of {pointer_bytes} bytes"));
        }
        if let Some(arch) = arch
            && pointer_bytes != if arch.is_64_bit() { 8 } else { 4 }
        {
            return Err(format!("its pointers have {pointer_bytes} bytes, which {arch}'s have not"));
        }
        let (mode, least_bytes) = match fields.number(1) {
            // The count is padded to the size of a pointer.
            1 => (Mode::Arcs, pointer_bytes.max(4) + 2 * pointer_bytes),
            2 => (Mode::Hottest, pointer_bytes + 8),
            other => return Err(format!("its mode {other} is unknown")),
        };
        let protection = match fields.number(1) {
            0 => Protection::None,
            1 => Protection::Masked,
            2 => Protection::Exclusive,
            3 => Protection::Atomic,
            other => return Err(format!("its protection {other} is unknown")),
        };
        let (entry_bytes, ignore_ranges, entries) = (fields.number(2), fields.number(2), fields.number(4));
        let distances = [fields.number(4), fields.number(4)];
        let state_bytes = fields.number(4);
        if entry_bytes < least_bytes {
            return Err(format!("its entries have {entry_bytes} bytes, and need {least_bytes}"));
        }
        if entries == 0 {
            return Err("it has no entries".to_owned());
        }
        // All three terms are far below 2^64. The ranges leave the entries aligned as needed.
        let sum_bytes = FIXED_BYTES + ignore_ranges * 2 * pointer_bytes + entries * entry_bytes;
        if sum_bytes != state_bytes {
            return Err(format!("it is said to have {state_bytes} bytes, and its parts have {sum_bytes}"));
        }
        if state_bytes > MAX_STATE_BYTES {
            return Err(format!("it is said to have {state_bytes} bytes, more than {MAX_STATE_BYTES}"));
        }
        // Files with 2-byte pointers have 32-bit addresses as well.
        let is_64_bit = arch.map_or(pointer_bytes == 8, Arch::is_64_bit);
        let last = if is_64_bit { u64::MAX } else { u32::MAX.into() };
        let target = |offset: u64, distance: u64| {
            address.wrapping_add(offset).wrapping_add_signed((distance as u32).cast_signed().into()) & last
        };
        let start = target(STATE_DISTANCE, distances[0]);
        let end = start.checked_add(state_bytes).filter(|&end| end - 1 <= last);
        let end = end.ok_or_else(|| format!("at {} it ends beyond the last address", Hex(start)))?;
        Ok(Header {
            address: address & last,
            pointer_bytes: pointer_bytes as u8,
            mode,
            protection,
            entry_bytes: entry_bytes as u16,
            ignore_ranges: ignore_ranges as u16,
            capacity_entries: entries as u32,
            state: start..end,
            entry_point: target(ENTRY_POINT_DISTANCE, distances[1]) & !u64::from(arch == Some(Arch::CortexM)),
        })
    }

    /// Size of the state.
    pub fn state_bytes(&self) -> u64 {
        self.state.end - self.state.start
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Bytes of a header, with the state 0x1000 after its own field and the function 0x20 before its own.
    pub(in super::super) fn header(
        pointer_bytes: u8,
        mode: u8,
        entry_bytes: u16,
        ignore_ranges: u16,
        entries: u32,
    ) -> Vec<u8> {
        let state_bytes =
            16 + u32::from(ignore_ranges) * 2 * u32::from(pointer_bytes) + entries * u32::from(entry_bytes);
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, pointer_bytes, mode, 2]);
        bytes.extend(entry_bytes.to_le_bytes());
        bytes.extend(ignore_ranges.to_le_bytes());
        bytes.extend(entries.to_le_bytes());
        bytes.extend(0x1000_i32.to_le_bytes());
        bytes.extend((-0x20_i32 + 1).to_le_bytes());
        bytes.extend(state_bytes.to_le_bytes());
        assert_eq!(bytes.len(), BYTES);
        bytes
    }

    fn segment(run_addr: u64, data: Vec<u8>) -> Segment {
        let mem_bytes = data.len() as u64;
        Segment { load_addr: 0x9000_0000, run_addr, data, mem_bytes, executable: true, writable: false }
    }

    fn found(bytes: Vec<u8>, arch: Option<Arch>) -> Found {
        find(&[segment(0x100, bytes)], arch, 0)
    }

    #[test]
    fn a_header_is_found_where_the_firmware_sees_it() {
        let mut data = vec![0xaa; 0x42];
        data.extend(header(4, 1, 12, 4, 512));
        data.extend([0xaa; 7]);
        let segments = [segment(0x2000_0000, vec![1, 2, 3]), segment(0x102, data)];
        let found = find(&segments, Some(Arch::CortexM), 0x1_0000);
        assert_eq!(found.warnings, [""; 0]);
        let [header] = &found.headers[..] else { panic!("{found:?}") };
        assert_eq!((header.address, header.pointer_bytes, header.mode), (0x1_0144, 4, Mode::Arcs));
        assert_eq!((header.protection, header.entry_bytes), (Protection::Exclusive, 12));
        assert_eq!((header.ignore_ranges, header.capacity_entries), (4, 512));
        assert_eq!(header.state, 0x1_0144 + 20 + 0x1000..0x1_0144 + 20 + 0x1000 + 16 + 32 + 512 * 12);
        assert_eq!(header.entry_point, 0x1_0144 + 24 - 0x20);
        assert_eq!(header.state_bytes(), 16 + 32 + 512 * 12);
    }

    #[test]
    fn every_pointer_size_and_mode_has_its_smallest_entry() {
        for (pointer_bytes, mode, least) in [(2, 1, 8), (4, 1, 12), (8, 1, 24), (2, 2, 10), (4, 2, 12), (8, 2, 16)] {
            let bytes = |entry_bytes| header(pointer_bytes, mode, entry_bytes, 1, 3);
            assert_eq!(found(bytes(least), None).headers.len(), 1, "{pointer_bytes} {mode}");
            let small = found(bytes(least - 1), None);
            assert!(small.headers.is_empty() && small.warnings[0].contains("entries have"), "{small:?}");
        }
    }

    #[test]
    fn pointers_are_as_large_as_the_processor_has_them() {
        for (arch, right) in [(Arch::CortexM, 4), (Arch::Riscv32, 4), (Arch::Riscv64, 8)] {
            for pointer_bytes in [2, 4, 8] {
                let found = found(header(pointer_bytes, 1, 24, 0, 1), Some(arch));
                assert_eq!(found.headers.len(), usize::from(pointer_bytes == right), "{arch} {pointer_bytes}");
                assert_eq!(found.warnings.len(), usize::from(pointer_bytes != right), "{arch} {pointer_bytes}");
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = header(4, 1, 12, 1, 4);
            change(&mut bytes);
            let found = found(bytes, None);
            assert_eq!((found.headers.len(), found.warnings.len()), (0, 1), "{found:?}");
            assert!(found.warnings[0].contains("0x00000100"), "{found:?}");
            found.warnings[0].clone()
        };
        assert!(refused(&|bytes| bytes[8] = 2).contains("version 2"));
        assert!(refused(&|bytes| bytes[9] = 3).contains("pointers of 3 bytes"));
        assert!(refused(&|bytes| bytes[10] = 0).contains("mode 0"));
        assert!(refused(&|bytes| bytes[11] = 4).contains("protection 4"));
        assert!(refused(&|bytes| bytes[14] = 2).contains("its parts have"));
        assert!(refused(&|bytes| bytes[28] += 1).contains("its parts have"));
        assert!(refused(&|bytes| bytes.truncate(31)).contains("cut short"));
        assert!(refused(&|bytes| *bytes = header(4, 1, 12, 1, 0)).contains("no entries"));
        assert!(refused(&|bytes| *bytes = header(4, 1, 1 << 12, 0, 1 << 12)).contains("more than"));
        assert!(refused(&|bytes| bytes[12..20].fill(0xff)).contains("its parts have"));
        assert!(refused(&|bytes| bytes[20..24].copy_from_slice(&(-0x118_i32).to_le_bytes())).contains("beyond"));
    }

    #[test]
    fn distances_wrap_at_the_processor_s_width() {
        let mut bytes = header(4, 1, 12, 0, 1);
        bytes[20..24].copy_from_slice(&i32::MIN.to_le_bytes());
        let state = |arch, bytes: &[u8]| find(&[segment(0x100, bytes.to_vec())], arch, 0).headers[0].state.start;
        assert_eq!(state(Some(Arch::Riscv32), &bytes), 0x8000_0114);
        assert_eq!(state(None, &bytes), 0x8000_0114);
        let mut bytes = header(8, 1, 24, 0, 1);
        bytes[20..24].copy_from_slice(&i32::MIN.to_le_bytes());
        assert_eq!(state(Some(Arch::Riscv64), &bytes), 0xffff_ffff_8000_0114);
    }

    #[test]
    fn several_headers_and_strange_versions_are_told() {
        let mut bytes = header(4, 1, 12, 0, 1);
        bytes.extend(header(4, 2, 12, 0, 1));
        bytes.extend(header(4, 2, 12, 0, 1));
        let last = bytes.len() - BYTES;
        bytes[last + 8] = 9;
        let found = found(bytes, None);
        assert_eq!(found.headers.iter().map(|header| header.mode).collect::<Vec<_>>(), [Mode::Arcs, Mode::Hottest]);
        assert_eq!(found.warnings.len(), 2);
        assert!(found.warnings[0].contains("0x00000140 is not read: it is of version 9"), "{found:?}");
        assert!(found.warnings[1].contains("0x00000100 is read, not 0x00000120"), "{found:?}");
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let good = header(4, 1, 12, 2, 8);
        for run_addr in [0, 1, 3, u64::MAX - 7, u64::MAX] {
            for arch in [None, Some(Arch::CortexM), Some(Arch::Riscv64)] {
                let search = |bytes: &[u8]| find(&[segment(run_addr, bytes.to_vec())], arch, u64::MAX);
                for end in 0..=good.len() {
                    search(&good[..end]);
                }
                for bit in 0..good.len() * 8 {
                    let mut bytes = good.clone();
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    search(&bytes);
                }
                for at in MAGIC.len()..BYTES {
                    let mut bytes = good.clone();
                    bytes[at..].fill(0xff);
                    bytes[8..10].copy_from_slice(&[1, 8]);
                    search(&bytes);
                }
            }
        }
    }
}
