// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns that the table of functions has only when it is sorted by them. They need the call paths, and not every
//! profile has their values.

use std::collections::BTreeMap;

use crate::analysis::callgraph::{CallGraph, Party, PartyTotals};
use crate::analysis::calltree::CallTree;
use crate::error::InputError;
use crate::profile::{Profile, SpanKind};

/// A column of the table of functions that appears only when the table is sorted by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Instructions, including those of called functions.
    Inclusive,
    /// Instructions of the shortest call.
    Min,
    /// Instructions of the longest call.
    Max,
}

/// The values of a column by the first address of the function or range; None: the boot ROM.
pub type Values = BTreeMap<Option<u64>, u64>;

impl Column {
    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            Column::Inclusive => "Inclusive",
            Column::Min => "Shortest",
            Column::Max => "Longest",
        }
    }

    /// Its values.
    ///
    /// # Errors
    /// When the profile has none; the message names the option that records them.
    pub fn values(self, profile: &Profile) -> Result<Values, InputError> {
        if self == Column::Inclusive {
            let graph = CallGraph::new(profile, &CallTree::of_calls(profile));
            if !graph.has_inclusive {
                return Err(InputError::new(
                    "the profile has no inclusive counts: it was made with --no-stacks; profile again without that",
                ));
            }
            let value = |(party, totals): (&Party, &PartyTotals)| {
                let start = match party {
                    Party::Code(start) => Some(*start),
                    Party::BootRom => None,
                    Party::Outside(_) => return None,
                };
                Some((start, totals.inclusive.insns))
            };
            return Ok(graph.nodes.iter().filter_map(value).collect());
        }
        if profile.tree.is_empty() {
            return Err(InputError::new(
                "the profile does not know how long each call took: profile again with --exact",
            ));
        }
        let calls = profile.spans.iter().filter_map(|span| match span.kind {
            SpanKind::Call { entry } if span.count > 0 => {
                Some((Some(entry), if self == Column::Min { span.min_insns } else { span.max_insns }))
            }
            _ => None,
        });
        Ok(calls.collect())
    }
}

#[cfg(test)]
mod tests {
    use wire::definition::NodeKind;

    use super::*;
    use crate::profile::Span;
    use crate::profile::testing::empty;

    #[test]
    fn what_a_profile_does_not_know_is_an_error_with_the_option_that_helps() {
        let mut profile = empty().function("main", 0x40, 4).insn(0x40, 10);
        profile.facts.max_depth = None;
        let error = |column: Column, profile: &Profile| column.values(profile).unwrap_err().to_string();
        assert!(error(Column::Inclusive, &profile).contains("--no-stacks"));
        assert!(error(Column::Min, &profile).contains("--exact"));
        profile = profile.node(0, NodeKind::Function { entry: 0x40 }, 10);
        let call = SpanKind::Call { entry: 0x40 };
        profile.spans = vec![Span { count: 2, min_insns: 3, max_insns: 7, ..Span::none(call) }];
        assert_eq!(Column::Min.values(&profile).unwrap(), Values::from([(Some(0x40), 3)]));
        assert_eq!(Column::Max.values(&profile).unwrap(), Values::from([(Some(0x40), 7)]));
    }
}
