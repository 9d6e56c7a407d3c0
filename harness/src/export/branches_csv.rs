// SPDX-License-Identifier: MIT OR Apache-2.0
//! Branches as comma-separated values, for spreadsheets and scripts: one line per way of each executed branch.

use std::io::Write;

use anyhow::Result;

use crate::analysis::flow::{Branch, BranchKind, Branches};
use crate::analysis::owner::Owner;
use crate::export::settings::Settings;
use crate::profile::Profile;
use crate::text::csv::cell;

/// Writes the ways of all branches by address, below a line of column names. A number of the kind `exact` is both
/// `least` and `most`; unknown values are empty.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, _settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
        "address",
        "function",
        "file",
        "line",
        "branch",
        "executions",
        "way",
        "target",
        "kind",
        "least",
        "most",
    ])?;
    for branch in Branches::of(profile).iter() {
        let place = profile.names.line_at(branch.site);
        for (index, way) in branch.ways.iter().enumerate() {
            csv.write_record([
                &format!("{:#x}", branch.site),
                &*cell(&Owner::of(profile, branch.site).to_string()),
                &*cell(place.map_or("", |(file, _)| file)),
                &place.map(|(_, line)| line.to_string()).unwrap_or_default(),
                branch.kind.name(),
                &branch.executions.to_string(),
                way_name(branch, index),
                &way.target.map(|target| format!("{target:#x}")).unwrap_or_default(),
                way.count.kind(),
                &way.count.least().to_string(),
                &way.count.most().map(|most| most.to_string()).unwrap_or_default(),
            ])?;
        }
    }
    csv.flush()?;
    Ok(())
}

fn way_name(branch: &Branch, index: usize) -> &'static str {
    match (branch.kind, index) {
        (BranchKind::Table, _) => "target",
        (_, 0) => "taken",
        _ => "not taken",
    }
}
