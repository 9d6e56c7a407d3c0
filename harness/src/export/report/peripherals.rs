// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses of a chip's registers as data for the page's script.

use serde::Serialize;

use crate::analysis::peripherals::{Counts, Register, polls, summary, table};
use crate::profile::Profile;

/// Most registers, and sentences about polls, on the page.
const MOST: usize = 200;

/// Accesses of a chip's registers.
#[derive(Debug, Serialize)]
pub(super) struct Peripherals {
    /// Sums in the terminal's words.
    summary: String,
    /// Sentences about polls, the longest first.
    polls: Vec<String>,
    /// Name, function, and the counts in the order of the page's columns. A register's first row has its name; if several
    /// functions accessed it, that row has the counts of all and no function.
    rows: Vec<(String, String, [u64; 6])>,
    /// Number of registers that are left out.
    more: usize,
}

impl Peripherals {
    /// Accesses in a profile; None: the run had no chip, or accessed nothing.
    pub(super) fn of(profile: &Profile) -> Option<Peripherals> {
        let registers = table(profile, profile.facts.chip.as_ref()?);
        if registers.is_empty() {
            return None;
        }
        let row = |(register, function, counts): (&str, &str, &Counts)| {
            (register.to_owned(), function.to_owned(), numbers(counts))
        };
        let total = profile.total_insns();
        let mut polls = polls(&registers, total);
        polls.truncate(MOST);
        Some(Peripherals {
            summary: summary(&registers, total),
            polls,
            rows: registers.iter().take(MOST).flat_map(Register::rows).map(row).collect(),
            more: registers.len().saturating_sub(MOST),
        })
    }
}

fn numbers(counts: &Counts) -> [u64; 6] {
    [counts.reads, counts.writes, counts.first_insns, counts.last_insns, counts.polls, counts.poll_insns]
}
