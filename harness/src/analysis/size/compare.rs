// SPDX-License-Identifier: MIT OR Apache-2.0
//! Difference of the sizes of two builds, with the functions and variables that account for it.

use std::collections::BTreeMap;

use super::{Bytes, Level, Size};

/// Row that differs between two builds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Name.
    pub name: String,
    /// Bytes before; None: it was not there.
    pub before: Option<Bytes>,
    /// Bytes after; None: it is gone.
    pub after: Option<Bytes>,
}

impl Change {
    /// Growth of flash and of RAM.
    pub fn growth(&self) -> [i128; 2] {
        let [before, after] = [self.before, self.after].map(Option::unwrap_or_default);
        [i128::from(after.flash) - i128::from(before.flash), i128::from(after.ram) - i128::from(before.ram)]
    }
}

/// Rows of a level that differ, those with the largest change first. The changes of a level add up to that of the
/// totals.
pub fn compare(before: &Size, after: &Size, level: Level) -> Vec<Change> {
    let mut both: BTreeMap<String, [Option<Bytes>; 2]> = BTreeMap::new();
    for (which, size) in [before, after].into_iter().enumerate() {
        for (name, bytes) in size.rows(level) {
            both.entry(name).or_default()[which] = Some(bytes);
        }
    }
    let changes = both.into_iter().map(|(name, [before, after])| Change { name, before, after });
    let mut changes: Vec<Change> = changes.filter(|change| change.before != change.after).collect();
    changes.sort_by_key(|change| {
        let [flash, ram] = change.growth();
        (std::cmp::Reverse(flash.abs().max(ram.abs())), change.name.clone())
    });
    changes
}
