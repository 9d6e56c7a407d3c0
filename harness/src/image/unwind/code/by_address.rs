// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values by address of code. Instructions lie close together, so a table of their places is smaller and faster than a
//! tree of values as large as a [`State`](super::State).

use std::collections::BTreeMap;
use std::ops::Range;

/// Addresses of one table.
const CHUNK: u64 = 512;

/// Place of an address without a value.
const NONE: u32 = u32::MAX;

/// Map from addresses to values.
pub(super) struct ByAddress<T> {
    /// Places in `values` of the addresses from a multiple of [`CHUNK`] on.
    chunks: BTreeMap<u64, Box<[u32; CHUNK as usize]>>,
    values: Vec<T>,
}

impl<T> ByAddress<T> {
    pub(super) fn new() -> Self {
        ByAddress { chunks: BTreeMap::new(), values: Vec::new() }
    }

    /// Removes the values of a range of addresses.
    pub(super) fn remove(&mut self, addresses: Range<u64>) {
        let chunks = addresses.start / CHUNK..addresses.end.div_ceil(CHUNK).max(addresses.start / CHUNK);
        for (number, places) in self.chunks.range_mut(chunks) {
            places[inside(&addresses, *number)].fill(NONE);
        }
    }

    pub(super) fn get(&self, address: u64) -> Option<&T> {
        let place = self.chunks.get(&(address / CHUNK))?[(address % CHUNK) as usize];
        self.values.get(place as usize)
    }

    pub(super) fn insert(&mut self, address: u64, value: T) {
        let chunk = self.chunks.entry(address / CHUNK).or_insert_with(|| Box::new([NONE; CHUNK as usize]));
        let place = &mut chunk[(address % CHUNK) as usize];
        match self.values.get_mut(*place as usize) {
            Some(known) => *known = value,
            None => {
                // Places are fewer than instructions, of which 2^32 bytes of code have at most 2^31.
                *place = self.values.len() as u32;
                self.values.push(value);
            }
        }
    }

    pub(super) fn extend(&mut self, values: impl IntoIterator<Item = (u64, T)>) {
        values.into_iter().for_each(|(address, value)| self.insert(address, value));
    }

    /// Values of a range of addresses, in order.
    pub(super) fn range(&self, addresses: Range<u64>) -> impl Iterator<Item = (u64, &T)> {
        let chunks = addresses.start / CHUNK..addresses.end.div_ceil(CHUNK).max(addresses.start / CHUNK);
        self.chunks.range(chunks).flat_map(move |(number, places)| {
            let first = number * CHUNK;
            inside(&addresses, *number)
                .filter_map(move |at| Some((first + at as u64, self.values.get(places[at] as usize)?)))
        })
    }
}

/// Part of a table that a range of addresses has.
fn inside(addresses: &Range<u64>, number: u64) -> Range<usize> {
    let first = number * CHUNK;
    let end = addresses.end.saturating_sub(first).min(CHUNK) as usize;
    (addresses.start.saturating_sub(first) as usize).min(end)..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_address_and_in_order_as_in_a_tree() {
        let (mut map, mut tree) = (ByAddress::new(), BTreeMap::new());
        // Around the borders of tables, at the last addresses, and one address twice.
        let addresses = [0, 1, 511, 512, 1022, 1024, 0x8000_0000, 0x8000_01fe, u64::MAX - 1, u64::MAX, 512];
        for (value, address) in addresses.into_iter().enumerate() {
            map.insert(address, value);
            tree.insert(address, value);
        }
        for address in [0, 2, 510, 511, 512, 1023, 1024, 0x8000_01fe, u64::MAX - 2, u64::MAX] {
            assert_eq!(map.get(address), tree.get(&address), "{address:#x}");
        }
        for (start, end) in [(0, 512), (1, 511), (511, 1025), (600, 700), (512, 512), (0, u64::MAX), (1024, 1 << 40)]
        {
            let found: Vec<_> = map.range(start..end).collect();
            let expected: Vec<_> = tree.range(start..end).map(|(&address, value)| (address, value)).collect();
            assert_eq!(found, expected, "{start:#x}..{end:#x}");
        }
        map.remove(511..1025);
        tree.retain(|address, _| !(511..1025).contains(address));
        let left: Vec<_> = map.range(0..u64::MAX).map(|(address, &value)| (address, value)).collect();
        assert_eq!(left, tree.into_iter().filter(|&(address, _)| address < u64::MAX).collect::<Vec<_>>());
        map.insert(512, 1);
        assert_eq!((map.get(511), map.get(512), map.get(1022)), (None, Some(&1), None));
    }
}
