// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness chip check`: a chip file's mistakes, with line and reason.

use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::chip::{self, Chip};
use crate::cli::ChipCheckArgs;
use crate::cli::resolve::timeout;
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::json::document;
use crate::run::store::deadline::end_after;
use crate::run::store::directory::{STDOUT, write_to};
use crate::text::number::{group, plural};
use crate::text::printable::printable;
use crate::text::terminal;

/// Version of the JSON format; it grows when a field is removed or changes its meaning.
const VERSION: u32 = 1;

/// A chip file without mistakes.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChipCheck")]
struct Checked<'a> {
    /// Always "harness-chip-check".
    format: &'static str,
    /// Version of the format.
    version: u32,
    /// Name of the chip.
    chip: &'a str,
    /// SHA-256 of the chip's description.
    chip_sha256: &'a str,
    /// The processor.
    cpu: &'a str,
    /// Frequency at which instructions execute, in Hz.
    hz: u64,
    /// Peripherals that are described.
    peripherals: usize,
    /// Registers of these.
    registers: usize,
    /// Ranges in which registers read as they were last written.
    undescribed: usize,
    /// Number of interrupt lines; 0: those of QEMU's machine.
    interrupts: u32,
    /// Registers of built-in kinds, and of the chip that it is like, that the SVD does not have: a sentence each.
    notes: Vec<&'a str>,
}

impl<'a> Checked<'a> {
    fn of(chip: &'a Chip) -> Checked<'a> {
        let described = || chip.wire.blocks.iter().filter(|block| !block.is_undescribed);
        let registers = described().flat_map(|block| &block.registers);
        Checked {
            format: "harness-chip-check",
            version: VERSION,
            chip: &chip.name,
            chip_sha256: &chip.sha256,
            cpu: &chip.cpu,
            hz: chip.hz,
            peripherals: described().count(),
            registers: registers.filter(|register| register.offset.is_some()).count(),
            undescribed: chip.wire.blocks.len() - described().count(),
            interrupts: chip.wire.lines,
            notes: chip.outside_svd.iter().map(|outside| outside.what.as_str()).collect(),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// When the file, or the SVD, has a mistake.
pub(super) fn run(args: &ChipCheckArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(document::schema::<Checked<'_>>()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    if args.file_schema {
        terminal::stdout().write_all(document::schema::<chip::File>()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let Some(file) = &args.file else { return Err(InputError::new("no chip file: name one").into()) };
    if let Some(seconds) = args.timeout {
        let timeout = timeout(seconds)?;
        end_after(timeout, ExitCode::Limit.status(), "--timeout ended the check before it was over");
    }
    let chip = chip::read(file, args.svd.as_deref())?;
    let own: Vec<&str> =
        chip.outside_svd.iter().filter(|outside| outside.is_own).map(|outside| outside.what.as_str()).collect();
    if !own.is_empty() {
        let next = "correct the address, or check without --svd if the SVD lacks the register";
        return Err(InputError::new(format!("{}\n{next}", own.join("\n"))).into());
    }
    let checked = Checked::of(&chip);
    if args.json {
        write_to(Path::new(STDOUT), |out| document::write(&checked, out))?;
        return Ok(ExitCode::Good);
    }
    let mut out = terminal::stdout();
    let name = file.display().to_string();
    writeln!(out, "{}: {}", printable(&name), printable(&chip.describe()))?;
    writeln!(
        out,
        "{} with {}, {}, {}; no mistake",
        plural(checked.peripherals as u64, "peripheral"),
        plural(checked.registers as u64, "register"),
        plural(checked.undescribed as u64, "undescribed range"),
        match checked.interrupts {
            0 => "QEMU's interrupt lines".to_owned(),
            lines => format!("{} interrupt lines", group(lines.into())),
        },
    )?;
    for note in checked.notes {
        writeln!(out, "note: {}", printable(note))?;
    }
    Ok(ExitCode::Good)
}
