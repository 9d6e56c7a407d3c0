// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table of functions as comma-separated values (RFC 4180), for spreadsheets and scripts.

use std::io::Write;

use anyhow::Result;

use crate::analysis::functions;
use crate::export::settings::Settings;
use crate::profile::Profile;
use crate::text::csv::cell;

/// Writes one line per executed function, most instructions first, below a line of column names. Addresses are in
/// hexadecimal; unknown values are empty. The column of cycles is there if they are known, and those of the fewest and most if they are
/// known to an interval only.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, _settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let table = functions::table(profile);
    let mut csv = csv::Writer::from_writer(out);
    let columns = ["function", "linkage_name", "address", "file", "line", "self_insns", "calls", "samples"];
    let of_cycles = table.total_cycles.map(|_| "cycles");
    let between = table.total_doubt.map(|_| ["cycles_least", "cycles_most"]);
    csv.write_record(columns.into_iter().chain(of_cycles).chain(between.into_iter().flatten()))?;
    for row in table.rows {
        let number = |number: u64| number.to_string();
        let cells = [
            cell(&row.name).into_owned(),
            cell(&row.linkage_name).into_owned(),
            row.start.map_or_else(String::new, |start| format!("{start:#x}")),
            cell(row.file.as_deref().unwrap_or_default()).into_owned(),
            row.line.map_or_else(String::new, |line| line.to_string()),
            number(row.self_insns),
            number(row.calls),
            number(row.samples),
        ];
        let between = row.cycles_between().into_iter().flatten();
        csv.write_record(cells.into_iter().chain(row.cycles.into_iter().chain(between).map(number)))?;
    }
    csv.flush()?;
    Ok(())
}
