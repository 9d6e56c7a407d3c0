// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of functions between which the walk has gone. The states in a group depend on no other group, so when more
//! is known about one function's calls, only its group is followed again.

use std::collections::BTreeSet;

/// Functions by group; a function is named by its index.
pub(super) struct Groups {
    /// A function of the same group, nearer to the one that names the group; that one has itself.
    nearer: Vec<usize>,
}

impl Groups {
    /// Groups of one function each.
    pub(super) fn new(functions: usize) -> Self {
        Groups { nearer: (0..functions).collect() }
    }

    /// Name of the group that has a function.
    pub(super) fn of(&mut self, function: usize) -> usize {
        let mut at = function;
        while self.nearer[at] != at {
            self.nearer[at] = self.nearer[self.nearer[at]];
            at = self.nearer[at];
        }
        at
    }

    /// Makes one group of the groups of two functions.
    pub(super) fn join(&mut self, one: usize, two: usize) {
        let (one, two) = (self.of(one), self.of(two));
        self.nearer[one.max(two)] = one.min(two);
    }

    /// All functions of the groups that have one of these functions.
    pub(super) fn around(&mut self, functions: &BTreeSet<usize>) -> BTreeSet<usize> {
        let names: BTreeSet<usize> = functions.iter().map(|&function| self.of(function)).collect();
        (0..self.nearer.len()).filter(|&function| names.contains(&self.of(function))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_all_that_was_joined_directly_or_through_others() {
        let mut groups = Groups::new(7);
        for (one, two) in [(5, 1), (2, 5), (3, 6), (1, 2)] {
            groups.join(one, two);
        }
        assert_eq!(groups.around(&[2].into()), [1, 2, 5].into());
        assert_eq!(groups.around(&[0, 6].into()), [0, 3, 6].into());
        assert_eq!(groups.around(&[].into()), [].into());
    }
}
