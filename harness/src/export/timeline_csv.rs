// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timeline as comma-separated values, for spreadsheets and scripts: one line per event, in order.
//!
//! `ns` is the firmware's virtual time since the window opened: 2^shift for each instruction, plus the machine's
//! sleep, or the time of the cycles. `context` is the task or interrupt that executed at the event.

use std::io::Write;

use anyhow::{Result, bail};

use crate::analysis::event_rows::rows;
use crate::analysis::event_tracks::NOT_RECORDED;
use crate::export::settings::Settings;
use crate::profile::Profile;
use crate::text::csv::cell;

/// Writes the events below a line of column names.
///
/// # Errors
/// Errors of `out`; also when there is no timeline.
pub fn write(profile: &Profile, settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let Some(rows) = rows(profile) else { bail!(NOT_RECORDED) };
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(["insns", "ns", "cpu", "context", "event", "name", "value", "why"])?;
    for row in rows {
        csv.write_record([
            &row.at_insns.to_string(),
            &settings.at_ns(profile, row.at_insns, row.beyond_ns).to_string(),
            &row.vcpu.to_string(),
            &*cell(&row.context),
            row.event,
            &*cell(&row.name),
            &row.value.map(|value| value.to_string()).unwrap_or_default(),
            &*cell(&row.why),
        ])?;
    }
    csv.flush()?;
    Ok(())
}
