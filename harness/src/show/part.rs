// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of phases and slices: below the zones' table, and the functions of each phase.

use std::io::{self, Write};

use crate::analysis::cycles;
use crate::analysis::functions::{self, RowKind};
use crate::analysis::part::{idle_insns, of, phases};
use crate::profile::Profile;
use crate::show::names;
use crate::show::table_size::TableSize;
use crate::text::number::{group, plural, share};
use crate::text::printable::printable;
use crate::text::table::write_rows;

/// Place of the cycles: behind the instructions and their share, as in the table of functions.
const CYCLES_COLUMN: usize = 3;

/// Writes the table of phases, and a line about slices; nothing if the run has neither. Names are shortened to a width (None:
/// whole).
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, width_columns: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let phases = phases(profile);
    let total = profile.total_insns();
    let has_cycles = cycles::are_known(profile);
    if !phases.is_empty() {
        let mut lines = vec![["Phase", "Instructions", "Share", "Idle", "In interrupts"].map(str::to_owned).to_vec()];
        if has_cycles {
            lines[0].insert(CYCLES_COLUMN, "Cycles".to_owned());
        }
        for (phase, name) in phases {
            let parts = || profile.parts.list.iter().filter(|part| part.phase == phase);
            let insns: u64 = parts().map(|part| part.total_insns()).sum();
            let idle: u64 = parts().map(|part| idle_insns(profile, part)).sum();
            let interrupts: u64 = parts().flat_map(|part| &part.exceptions).map(|&(_, insns)| insns).sum();
            let shares = [share(insns, total), share(idle, insns), share(interrupts, insns)];
            let mut line: Vec<String> = [name, group(insns)].into_iter().chain(shares).collect();
            if has_cycles {
                let cycles = parts().map(|part| part.cycles.clock).fold(0, u64::saturating_add);
                line.insert(CYCLES_COLUMN, group(cycles));
            }
            lines.push(line);
        }
        names::fit(&mut lines, 0, width_columns);
        write_rows(&lines, 1, out)?;
    }
    if let Some(insns) = profile.parts.slice_insns {
        let slices = plural(u64::from(profile.parts.slices()), "slice");
        writeln!(out, "{slices} of {} instructions: harness bins --slice N, harness report", group(insns))?;
    }
    Ok(())
}

/// Writes the functions of each phase, with the most instructions first.
///
/// # Errors
/// Errors of `out`.
pub fn functions_by_phase(phases: &[(String, Profile)], size: TableSize, out: &mut impl Write) -> io::Result<()> {
    let whole: u64 = phases.iter().map(|(_, part)| part.total_insns()).sum();
    let rows = size.top_rows;
    for (name, part) in phases {
        heading(name, part, whole, out)?;
        let table = functions::table(part);
        let mut lines = vec![["Function", "Instructions", "Share", "Calls", "Samples"].map(str::to_owned).to_vec()];
        let has_cycles = table.total_cycles.is_some();
        if has_cycles {
            lines[0].insert(CYCLES_COLUMN, "Cycles".to_owned());
        }
        let mut add = |mut line: Vec<String>, cycles: Option<u64>| {
            if has_cycles {
                line.insert(CYCLES_COLUMN, group(cycles.unwrap_or(0)));
            }
            lines.push(line);
        };
        for row in table.rows.iter().take(rows.unwrap_or(usize::MAX)) {
            let calls = if row.kind == RowKind::Function { group(row.calls) } else { "-".to_owned() };
            let share = share(row.self_insns, table.total_insns);
            add(vec![row.name.clone(), group(row.self_insns), share, calls, group(row.samples)], row.cycles);
        }
        if let Some(rest) = rows.and_then(|rows| table.rows.get(rows..)).filter(|rest| !rest.is_empty()) {
            let insns = rest.iter().map(|row| row.self_insns).sum();
            let name = format!("{} more", group(rest.len() as u64));
            let cycles = rest.iter().map(|row| row.cycles).sum();
            add(vec![name, group(insns), share(insns, table.total_insns), String::new(), String::new()], cycles);
        }
        names::fit(&mut lines, 0, size.width_columns);
        write_rows(&lines, 1, out)?;
    }
    Ok(())
}

/// Writes the heading of a phase's table.
///
/// # Errors
/// Errors of `out`.
pub fn heading(phase: &str, part: &Profile, whole_insns: u64, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let insns = part.total_insns();
    writeln!(out, "phase {}: {} instructions ({})", printable(phase), group(insns), share(insns, whole_insns))
}

/// Cuts a profile to the slices from `first` to `last`, both included; None: the run has fewer.
pub fn slices(profile: &Profile, first: u32, last: u32) -> Option<Profile> {
    let is_there = first <= last && last < profile.parts.slices();
    is_there.then(|| of(profile, |part| (first..=last).contains(&part.slice)))
}
