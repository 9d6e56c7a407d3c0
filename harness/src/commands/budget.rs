// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness budget`: all that firmware may not outgrow, in one table with one verdict.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::analysis::metrics::Metrics;
use crate::cli::BudgetArgs;
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::gate::baseline::Baseline;
use crate::gate::budget::{self, Bounds, Budget, File};
use crate::gate::suite::{self, Case, Suite};
use crate::gate::{junit, markdown};
use crate::image::bounded_read;
use crate::image::sha256_hex;
use crate::profile::Profile;
use crate::run::store::directory::{STDOUT, write_file, write_to};
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// When a file cannot be read, the profile is of another image, or the budget is not understood.
pub fn run(args: &BudgetArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(budget::schema()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let (Some(firmware), Some(path)) = (&args.firmware, &args.profile) else {
        return Err(InputError::new("name the firmware's ELF file, and a profile of its run").into());
    };
    let budget = match &args.budget {
        Some(file) => budget_of(file, firmware)?,
        None => budget_of(&nearest()?, firmware)?,
    };
    let bytes = bounded_read::read_named(firmware)?;
    let profile = Profile::load(path)?;
    if !profile.facts.is_of(&sha256_hex(&bytes)) {
        let why = format!("is a run of another image ({}), not of {}", profile.facts.image_name, firmware.display());
        return Err(InputError::about(path, why).into());
    }
    let mut now = Metrics::of(&profile);
    let bounds = budget
        .needs_bounds()
        .then(|| Bounds::find(firmware, &bytes, std::slice::from_ref(&profile), &budget.rules))
        .transpose()?;
    if let Some(bounds) = &bounds {
        bounds.add_to(&mut now);
    }
    let before = args.baseline.as_deref().map(baseline).transpose()?;
    let rows = budget.judge(&profile, &now, before.as_ref().map(|before| &before.metrics), bounds.as_ref());
    let image = &profile.facts.image_name;
    if let Some(path) = &args.junit {
        write_file(path, |out| junit::write_budget(image, &rows, out))?;
    }
    if args.json {
        write_to(Path::new(STDOUT), |out| budget::write_json(&profile, &rows, out))?;
    } else {
        let mut out = BufWriter::new(terminal::stdout());
        if args.markdown {
            let rows: Vec<_> = rows.iter().map(|row| (image.as_str(), row)).collect();
            markdown::budget(&rows, &mut out)?;
        } else {
            budget::write(&rows, terminal::width_columns(), &mut out)?;
        }
        out.flush()?;
    }
    let errors = bounds.map(|bounds| bounds.errors).unwrap_or_default();
    for error in &errors {
        // A closed standard error changes nothing, since the exit code has the result.
        let _ = writeln!(terminal::stderr(), "error: {error}");
    }
    Ok(match rows.iter().all(|row| row.holds) {
        _ if !errors.is_empty() => ExitCode::Firmware,
        true => ExitCode::Good,
        false => ExitCode::Regression,
    })
}

/// The nearest suite.
fn nearest() -> Result<PathBuf, InputError> {
    suite::find(None).map_err(|_| {
        InputError::new(format!(
            "there is no {} here or above, and no budget is named: `harness init` writes one for the firmware found here, \
             or --budget FILE names a file such as: [budget] and flash = \"256k\" below it (docs/budget.md)",
            suite::FILE_NAME
        ))
    })
}

/// Budget of a firmware: in a suite that has the firmware, the image's own; else the file's `[budget]`.
fn budget_of(file: &Path, firmware: &Path) -> Result<Budget, InputError> {
    let text = bounded_read::read_named(file)?;
    let whole = File::parse(file, &String::from_utf8_lossy(&text));
    let Ok(suite) = Suite::load(file) else { return whole };
    let same =
        |path: &Path| path.canonicalize().ok().is_some_and(|path| firmware.canonicalize().is_ok_and(|it| it == path));
    let is_of = |case: &&Case| same(&case.options.firmware) || case.options.symbols.as_deref().is_some_and(same);
    let of_image = suite.cases.into_iter().filter(|case| is_of(&case)).map(|case| case.budget);
    match of_image.into_iter().find(|budget| !budget.is_empty()) {
        Some(budget) => Ok(budget),
        None => whole.map_err(|_| {
            let why = format_args!(
                "has no budget for {}: neither `budget = {{ flash = \"256k\" }}` at its [[image]], nor [budget] for all images; \
                 write one of them (docs/budget.md)",
                firmware.display()
            );
            InputError::about(file, why)
        }),
    }
}

/// Reads a baseline, which must exist.
fn baseline(path: &Path) -> Result<Baseline, InputError> {
    Baseline::load(path)?.ok_or_else(|| InputError::about(path, "there is no such baseline"))
}
