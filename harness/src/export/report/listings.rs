// SPDX-License-Identifier: MIT OR Apache-2.0
//! Listings of a report: of as many functions as fit, those with the most instructions first.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use crate::analysis::listing::{self, Lister};
use crate::analysis::owner::{Owner, address_of};
use crate::analysis::source::Sources;
use crate::export::report::inline_json::size_bytes;
use crate::export::report::strings::Strings;
use crate::profile::Profile;
use crate::text::number::Hex;

/// Maximum number of source lines without code that are shown between two lines with code, and before the first one.
const MAX_GAP_LINES: u32 = 12;

/// Listing of one function, as columns.
#[derive(Debug, Default, Serialize)]
pub(super) struct Listing {
    lines: Lines,
    runs: Runs,
    insns: Insns,
}

/// Source lines, file after file.
#[derive(Debug, Default, Serialize)]
struct Lines {
    file: Vec<i64>,
    line: Vec<u32>,
    text: Vec<Option<String>>,
    /// Executions of the line's instructions; -1: the line has no code here.
    insns: Vec<i64>,
    samples: Vec<u64>,
}

/// Adjacent instructions of one source line.
#[derive(Debug, Default, Serialize)]
struct Runs {
    /// Number of the line; -1: not known.
    line: Vec<i64>,
    /// Functions inlined here, outermost first.
    inlined: Vec<Vec<i64>>,
    /// Number of instructions.
    len: Vec<usize>,
}

#[derive(Debug, Default, Serialize)]
struct Insns {
    /// Address of the first instruction.
    start: String,
    /// Byte offsets from there.
    offset: Vec<u64>,
    text: Vec<String>,
    count: Vec<u64>,
    samples: Vec<u64>,
    /// Ways of branches, in words, by the instruction's number.
    ways: BTreeMap<usize, String>,
}

/// Listings by row of the table, together at most `budget_bytes` long; None: there is no room for the listing. Also
/// sentences about source files that are missing or do not fit.
pub(super) fn of(
    profile: &Profile,
    sources: &mut Sources,
    budget_bytes: usize,
    strings: &mut Strings,
) -> Result<(Vec<Option<Listing>>, Vec<String>)> {
    let mut listings = Vec::new();
    let lister = Lister::new(profile)?;
    let mut left = budget_bytes;
    let strings_before = size_bytes(strings)?;
    for row in lister.rows() {
        let place = Owner::of(profile, address_of(profile, row.start));
        let listing = columns(&lister.list(place, sources), row.file.as_deref(), sources, strings);
        let bytes = size_bytes(&listing)? + 1;
        let fits = bytes <= left;
        left -= if fits { bytes } else { 0 };
        listings.push(fits.then_some(listing));
        // A smaller listing may fit after a larger one did not; the search ends when hardly any listing would.
        if left < 1000 {
            break;
        }
    }
    // Names of files and of inlined functions take little space beside the code.
    debug_assert!(size_bytes(strings)? - strings_before < 1_000_000);
    Ok((listings, sources.notes()))
}

fn columns(
    listing: &listing::Listing,
    own_file: Option<&str>,
    sources: &mut Sources,
    strings: &mut Strings,
) -> Listing {
    let mut columns = Listing::default();
    // Number in the page of each of the listing's lines.
    let mut numbers = Vec::with_capacity(listing.lines.len());
    let mut before: Option<(&str, u32)> = None;
    for line in &listing.lines {
        let first = match before {
            Some((file, last)) if *file == *line.file => last + 1,
            _ if own_file == Some(&line.file) => listing.row.line.unwrap_or(line.line).min(line.line),
            _ => line.line,
        };
        if line.line - first <= MAX_GAP_LINES {
            for between in first..line.line {
                let text = sources.line(&line.file, between).map(str::to_owned);
                if text.is_some() {
                    columns.lines.push(strings.number(&line.file), between, text, -1, 0);
                }
            }
        }
        before = Some((&line.file, line.line));
        numbers.push(columns.lines.line.len() as i64);
        columns.lines.push(strings.number(&line.file), line.line, line.text.clone(), line.insns as i64, line.samples);
    }
    for run in &listing.runs {
        columns.runs.line.push(run.line.and_then(|line| numbers.get(line).copied()).unwrap_or(-1));
        columns.runs.inlined.push(run.inlined.iter().map(|name| strings.number(name)).collect());
        columns.runs.len.push(run.instructions.len());
    }
    let start = listing.instructions().next().map_or(0, |insn| insn.address);
    columns.insns.start = Hex(start).to_string();
    for (number, insn) in listing.instructions().enumerate() {
        if let Some(branch) = &insn.branch {
            columns.insns.ways.insert(number, branch.to_string());
        }
        columns.insns.offset.push(insn.address - start);
        columns.insns.text.push(insn.text.clone());
        columns.insns.count.push(insn.count);
        columns.insns.samples.push(insn.samples);
    }
    columns
}

impl Lines {
    fn push(&mut self, file: i64, line: u32, text: Option<String>, insns: i64, samples: u64) {
        self.file.push(file);
        self.line.push(line);
        self.text.push(text);
        self.insns.push(insns);
        self.samples.push(samples);
    }
}
