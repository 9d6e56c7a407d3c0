// SPDX-License-Identifier: MIT OR Apache-2.0
//! Search in ranges of addresses that are sorted by their starts.

use std::borrow::Borrow;
use std::ops::Range;

/// Index of the range with an address: of the last one that starts at or before it, if that reaches so far.
pub(super) fn holding(ranges: &[impl Borrow<Range<u64>>], address: u64) -> Option<usize> {
    let after = ranges.partition_point(|range| range.borrow().start <= address);
    after.checked_sub(1).filter(|&index| ranges[index].borrow().contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_range_that_starts_before_it_or_in_none() {
        let ranges = [2..4, 4..4, 4..6, 8..9];
        let found = [1, 2, 3, 4, 5, 6, 8, 9].map(|address| holding(&ranges, address));
        assert_eq!(found, [None, Some(0), Some(0), Some(2), Some(2), None, Some(3), None]);
    }
}
