// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes the table from a copy of the target's memory, and subtracts the counts from before the window.

use std::collections::BTreeMap;
use std::fmt;

use super::{Header, Reader};
use crate::profile::in_target::{Before, Hot, Mode, Table, TableArc};

/// Error: contents that no runtime writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

/// Range of the target's counters: they have 32 bits and wrap.
const WRAP: u64 = 1 << 32;

/// Growth of an entry between two values. The sum of an arc's two entries may exceed 32 bits.
fn since(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or_else(|| now.wrapping_sub(before) % WRAP)
}

impl Table {
    /// Decodes a copy of the state that `header` describes.
    ///
    /// # Errors
    /// When the copy has another size, or contents that no runtime writes: other data are there, or the firmware has
    /// overwritten the table.
    pub fn read(header: &Header, bytes: &[u8]) -> Result<Table, Malformed> {
        let wanted = header.state_bytes();
        if bytes.len() as u64 != wanted {
            return Err(Malformed(format!("has {wanted} bytes, of which {} were copied", bytes.len())));
        }
        let pointer = usize::from(header.pointer_bytes);
        let mut fields = Reader { bytes };
        let [dropped, ignored, resets, calls] = [(); 4].map(|()| fields.number(4) as u32);
        let ranges = (0..header.ignore_ranges).map(|_| fields.number(pointer)..fields.number(pointer));
        let ignored_ranges = ranges.filter(|range| !range.is_empty()).collect();
        let mut used_entries = 0;
        let mut arcs: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        let mut hottest: BTreeMap<u64, (u64, u16)> = BTreeMap::new();
        let entries = fields.bytes.chunks_exact(header.entry_bytes.into()).take(header.capacity_entries as usize);
        for (index, entry) in entries.enumerate() {
            let mut fields = Reader { bytes: entry };
            match header.mode {
                Mode::Arcs => {
                    // The count is padded to the size of a pointer.
                    let count = fields.number(pointer.max(4)) % WRAP;
                    let (caller, callee) = (fields.number(pointer), fields.number(pointer));
                    used_entries += u32::from(callee != 0);
                    if caller != 0 && caller & 1 == 0 {
                        return Err(Malformed(format!(
                            "is overwritten or lies elsewhere: its entry {index} names a caller {caller:#x}, and the \
                             runtime sets bit 0"
                        )));
                    }
                    if caller != 0 && callee != 0 && count != 0 {
                        *arcs.entry((caller, callee)).or_default() += count;
                    }
                }
                Mode::Hottest => {
                    let (callee, hits, ratio) = (fields.number(pointer), fields.number(4), fields.number(2) as u16);
                    used_entries += u32::from(callee != 0);
                    if callee != 0 && hits != 0 {
                        let hot = hottest.entry(callee).or_default();
                        *hot = (hot.0 + hits, hot.1.saturating_add(ratio));
                    }
                }
            }
        }
        let arcs = arcs.into_iter().map(|((caller, callee), count)| TableArc { caller, callee, count });
        let hottest = hottest.into_iter().map(|(callee, (hits, ratio))| Hot { callee, hits, ratio });
        let mut table = Table {
            mode: header.mode,
            protection: header.protection,
            capacity_entries: header.capacity_entries,
            used_entries,
            entry_point: header.entry_point,
            returns: Vec::new(),
            inside_at_open: 0,
            ignored,
            dropped,
            calls,
            resets,
            ignored_ranges,
            arcs: arcs.collect(),
            hottest: hottest.collect(),
            before: Before::None,
        };
        table.sort_hottest();
        Ok(table)
    }

    /// Addresses of code that the table names, its runtime included, without bit 0.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        let arcs = self.arcs.iter().flat_map(|arc| [arc.caller, arc.callee]);
        let hottest = self.hottest.iter().map(|hot| hot.callee);
        arcs.chain(hottest).map(|address| address & !1).chain([self.entry_point])
    }

    fn sort_hottest(&mut self) {
        self.hottest.sort_by_key(|hot| (std::cmp::Reverse(hot.hits), hot.callee));
    }

    /// Subtracts the counts that the same table had when the window opened.
    #[must_use]
    pub fn since(mut self, opening: &Table) -> Table {
        self.resets = self.resets.wrapping_sub(opening.resets);
        if self.resets != 0 {
            self.before = Before::Cleared;
            return self;
        }
        self.before = Before::Subtracted;
        self.ignored = self.ignored.wrapping_sub(opening.ignored);
        self.calls = self.calls.wrapping_sub(opening.calls);
        let dropped = self.dropped.wrapping_sub(opening.dropped);

        let counted: BTreeMap<_, _> = opening.arcs.iter().map(|arc| ((arc.caller, arc.callee), arc.count)).collect();
        for arc in &mut self.arcs {
            arc.count = since(counted.get(&(arc.caller, arc.callee)).copied().unwrap_or(0), arc.count);
        }
        self.arcs.retain(|arc| arc.count > 0);

        let counted: BTreeMap<_, _> = opening.hottest.iter().map(|hot| (hot.callee, hot.hits)).collect();
        for hot in &mut self.hottest {
            let before = counted.get(&hot.callee).copied().unwrap_or(0);
            // When a function loses its entry, its hits are dropped. If fewer hits were dropped than it had before,
            // it has kept its entry. Otherwise, if it has fewer hits than before, its entry is new.
            let replaced = u64::from(dropped) >= before && hot.hits < before;
            hot.hits = if replaced { hot.hits } else { since(before, hot.hits) };
        }
        self.hottest.retain(|hot| hot.hits > 0);
        self.sort_hottest();

        self.dropped = match self.mode {
            Mode::Arcs => dropped,
            // A function that lost its entry has also lost hits from before the window.
            Mode::Hottest => {
                let hits: u64 = self.hottest.iter().map(|hot| hot.hits).sum();
                u64::from(self.calls).saturating_sub(hits) as u32
            }
        };
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Segment;
    use crate::image::mcount::header::tests::header as header_bytes;
    use crate::profile::in_target::Protection;

    fn header(pointer_bytes: u8, mode: u8, entry_bytes: u16, ignore_ranges: u16, entries: u32) -> Header {
        let data = header_bytes(pointer_bytes, mode, entry_bytes, ignore_ranges, entries);
        let mem_bytes = data.len() as u64;
        let segment = Segment { load_addr: 0, run_addr: 0, data, mem_bytes, executable: false, writable: false };
        crate::image::mcount::find(&[segment], None, 0).headers.remove(0)
    }

    /// Bytes of a state, from numbers and their sizes.
    fn state(header: &Header, counters: [u32; 4], ranges: &[(u64, u64)], entries: &[&[(u64, usize)]]) -> Vec<u8> {
        let mut bytes: Vec<u8> = counters.into_iter().flat_map(u32::to_le_bytes).collect();
        let put =
            |bytes: &mut Vec<u8>, value: u64, size: usize| bytes.extend_from_slice(&value.to_le_bytes()[..size]);
        assert_eq!(ranges.len(), usize::from(header.ignore_ranges));
        for &(start, end) in ranges {
            put(&mut bytes, start, header.pointer_bytes.into());
            put(&mut bytes, end, header.pointer_bytes.into());
        }
        for fields in entries {
            let end = bytes.len() + usize::from(header.entry_bytes);
            for &(value, size) in *fields {
                put(&mut bytes, value, size);
            }
            bytes.resize(end, 0xee);
        }
        bytes.resize(header.state_bytes() as usize, 0);
        bytes
    }

    fn arc(caller: u64, callee: u64, count: u64) -> TableArc {
        TableArc { caller, callee, count }
    }

    /// Arcs table with 4-byte pointers.
    fn arcs_table(counters: [u32; 4], arcs: &[(u64, u64, u64)]) -> Table {
        let header = header(4, 1, 12, 0, 8);
        let entries: Vec<[(u64, usize); 3]> =
            arcs.iter().map(|&(caller, callee, count)| [(count, 4), (caller, 4), (callee, 4)]).collect();
        let entries: Vec<&[(u64, usize)]> = entries.iter().map(|entry| &entry[..]).collect();
        Table::read(&header, &state(&header, counters, &[], &entries)).unwrap()
    }

    /// Hottest table with 4-byte pointers.
    fn hottest_table(counters: [u32; 4], hottest: &[(u64, u64)]) -> Table {
        let header = header(4, 2, 12, 0, 8);
        let entries: Vec<[(u64, usize); 4]> =
            hottest.iter().map(|&(callee, hits)| [(callee, 4), (hits, 4), (512, 2), (1, 2)]).collect();
        let entries: Vec<&[(u64, usize)]> = entries.iter().map(|entry| &entry[..]).collect();
        Table::read(&header, &state(&header, counters, &[], &entries)).unwrap()
    }

    fn hits(table: &Table) -> Vec<(u64, u64)> {
        table.hottest.iter().map(|hot| (hot.callee, hot.hits)).collect()
    }

    #[test]
    fn arcs_are_read_with_pointers_of_every_size() {
        for (pointer_bytes, entry_bytes) in [(2, 8), (4, 12), (8, 24), (8, 32)] {
            let header = header(pointer_bytes, 1, entry_bytes, 3, 5);
            let p = usize::from(pointer_bytes);
            let padding = (0x3333_3333, p.saturating_sub(4));
            let high = if p == 8 { 0x8000_0000_8000_0000 } else { 1 << (8 * p - 1) };
            let bytes = state(
                &header,
                [7, 8, 9, 0],
                &[(0, 0), (0x40, 0x80), (0x90, 0x94)],
                &[
                    &[(5, 4), padding, (high | 0x31, p), (0x22, p)],
                    // An entry that is taken, but not yet published.
                    &[(0, 4), padding, (0, p), (0x22, p)],
                    // An empty entry.
                    &[(0, 4), padding, (0, p), (0, p)],
                    &[(u32::MAX.into(), 4), padding, (0x11, p), (0x22, p)],
                    &[(2, 4), padding, (0x11, p), (0x22, p)],
                ],
            );
            let table = Table::read(&header, &bytes).unwrap();
            assert_eq!(
                table,
                Table {
                    mode: Mode::Arcs,
                    protection: Protection::Exclusive,
                    capacity_entries: 5,
                    used_entries: 4,
                    entry_point: header.entry_point,
                    returns: vec![],
                    inside_at_open: 0,
                    ignored: 8,
                    dropped: 7,
                    calls: 0,
                    resets: 9,
                    ignored_ranges: vec![0x40..0x80, 0x90..0x94],
                    arcs: vec![arc(0x11, 0x22, 0x1_0000_0001), arc(high | 0x31, 0x22, 5)],
                    hottest: vec![],
                    before: Before::None,
                }
            );
        }
    }

    #[test]
    fn the_hottest_are_read_with_pointers_of_every_size() {
        for (pointer_bytes, entry_bytes) in [(2, 10), (4, 12), (8, 16)] {
            let header = header(pointer_bytes, 2, entry_bytes, 0, 4);
            let p = usize::from(pointer_bytes);
            let entries: &[&[_]] = &[
                &[(0x31, p), (5, 4), (100, 2), (1, 2)],
                &[(0x21, p), (900, 4), (1024, 2), (1, 2)],
                &[(0, p), (3, 4), (1, 2), (1, 2)],
                &[(0x11, p), (0, 4), (0, 2), (0, 2)],
            ];
            let table = Table::read(&header, &state(&header, [1, 0, 0, 906], &[], entries)).unwrap();
            assert_eq!(table.mode, Mode::Hottest);
            assert_eq!((table.calls, table.dropped, table.used_entries), (906, 1, 3));
            let hot = |callee, hits, ratio| Hot { callee, hits, ratio };
            assert_eq!(table.hottest, [hot(0x21, 900, 1024), hot(0x31, 5, 100)]);
            assert_eq!(table.arcs, []);
        }
    }

    #[test]
    fn what_no_runtime_writes_is_refused() {
        let header = header(4, 1, 12, 0, 2);
        let bytes = state(&header, [0; 4], &[], &[&[(1, 4), (0x11, 4), (0x21, 4)], &[(1, 4), (0x10, 4), (0x21, 4)]]);
        let error = Table::read(&header, &bytes).unwrap_err().to_string();
        assert!(error.contains("entry 1 names a caller 0x10"), "{error}");
        for length in 0..bytes.len() {
            assert!(Table::read(&header, &bytes[..length]).is_err());
        }
        let long = [&bytes[..], &[0]].concat();
        assert!(Table::read(&header, &long).unwrap_err().to_string().contains("of which 41 were copied"));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        for (pointer_bytes, mode, entry_bytes) in
            [(2, 1, 8), (4, 1, 12), (8, 1, 24), (2, 2, 10), (4, 2, 12), (8, 2, 16)]
        {
            let header = header(pointer_bytes, mode, entry_bytes, 1, 3);
            let good = vec![0x11; header.state_bytes() as usize];
            let opening = Table::read(&header, &good).unwrap();
            for bit in 0..good.len() * 8 {
                let mut bytes = good.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                if let Ok(table) = Table::read(&header, &bytes) {
                    let _ = (table.clone().since(&opening), opening.clone().since(&table));
                }
            }
        }
    }

    #[test]
    fn what_was_counted_before_the_window_is_taken_away() {
        let opening =
            arcs_table([3, u32::MAX, 1, 0], &[(0x11, 0x21, 10), (0x11, 0x31, 5), (0x11, 0x41, 0xffff_fff0)]);
        let end = arcs_table(
            [4, 1, 1, 0],
            &[(0x11, 0x21, 12), (0x11, 0x31, 5), (0x11, 0x41, 0x10), (0x11, 0x21, 1), (0x51, 0x21, 9)],
        );
        let window = end.since(&opening);
        assert_eq!(window.before, Before::Subtracted);
        assert_eq!((window.dropped, window.ignored, window.resets), (1, 2, 0));
        // The counter of one arc wrapped, another arc now has two entries, a third was not called.
        assert_eq!(window.arcs, [arc(0x11, 0x21, 3), arc(0x11, 0x41, 0x20), arc(0x51, 0x21, 9)]);
        assert_eq!(window.used_entries, 5);
    }

    #[test]
    fn nothing_is_taken_away_from_a_table_that_was_cleared_in_between() {
        let opening = arcs_table([3, 4, 1, 0], &[(0x11, 0x21, 10)]);
        let end = arcs_table([1, 1, 2, 0], &[(0x11, 0x21, 12)]);
        let window = end.clone().since(&opening);
        assert_eq!(window, Table { before: Before::Cleared, resets: 1, ..end });
    }

    #[test]
    fn hits_of_a_function_that_kept_its_entry_are_exact() {
        let opening = hottest_table([0, 0, 0, 130], &[(0x21, 100), (0x31, 30)]);
        let end = hottest_table([5, 0, 0, 185], &[(0x31, 70), (0x21, 110)]);
        let window = end.since(&opening);
        assert_eq!(hits(&window), [(0x31, 40), (0x21, 10)]);
        assert_eq!((window.calls, window.dropped), (55, 5));
        // A wrapped counter: no function lost as many hits as it had.
        let opening = hottest_table([0, 0, 0, u32::MAX], &[(0x21, u32::MAX.into())]);
        let window = hottest_table([0, 0, 0, 9], &[(0x21, 9)]).since(&opening);
        assert_eq!((hits(&window), window.calls, window.dropped), (vec![(0x21, 10)], 10, 0));
    }

    #[test]
    fn hits_of_a_function_that_lost_its_entry_are_never_too_many() {
        // 0x21 was called twice more, lost its entry to 0x41, then 0x31 lost it to 0x21.
        let opening = hottest_table([0, 0, 0, 12], &[(0x21, 10), (0x31, 2)]);
        let end = hottest_table([14, 0, 0, 24], &[(0x41, 6), (0x21, 4)]);
        let window = end.since(&opening);
        assert_eq!(hits(&window), [(0x41, 6), (0x21, 4)]);
        assert_eq!((window.calls, window.dropped), (12, 2));
        // The function may have kept its entry: the counts cannot exclude it.
        let opening = hottest_table([0, 0, 0, 12], &[(0x21, 10), (0x31, 2)]);
        let end = hottest_table([12, 0, 0, 27], &[(0x21, 15)]);
        let window = end.since(&opening);
        assert_eq!(hits(&window), [(0x21, 5)]);
        assert_eq!((window.calls, window.dropped), (15, 10));
    }
}
