// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness diff`: the changes between two saved profiles, as tables and as a picture.

use std::io::Write;
use std::path::Path;

use anyhow::Result;

use crate::analysis::both::Sampling;
use crate::analysis::calltree::CallTree;
use crate::analysis::compare::compare;
use crate::analysis::describe::kind_of_stacks;
use crate::analysis::stacks::View;
use crate::cli::DiffArgs;
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::differential::{self, Side};
use crate::export::json::comparison::{self, ComparisonResult, ZoneResult};
use crate::gate::baseline::Baseline;
use crate::gate::markdown;

use crate::profile::Profile;
use crate::run::store::directory::{STDOUT, write_file, write_to};
use crate::run::watch::progress::Busy;
use crate::show::diff;
use crate::show::heap;
use crate::show::table_size::TableSize;
use crate::show::tally;
use crate::text::fold::Folded;
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// When a profile cannot be read, or the picture cannot be written.
pub fn run(args: DiffArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(comparison::schema()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let (Some(before_path), Some(after_path)) = (&args.before, &args.after) else {
        return Err(InputError::new("two profiles are needed: name both, as old.profile new.profile").into());
    };
    let busy = Busy::new("comparing the profiles");
    let (before, after) = (Profile::load(before_path)?, Profile::load(after_path)?);
    if args.output.is_some() {
        one_kind_of_stacks([(before_path, &before), (after_path, &after)])?;
    }
    let (old, new) = (Baseline::of(&before), Baseline::of(&after));
    let comparison = compare(Some(&old.metrics), &new.metrics);
    drop(busy);
    if args.json {
        let mismatches = old.mismatches(&new);
        write_to(Path::new(STDOUT), |out| comparison::write([&before, &after], comparison, mismatches, out))?;
        return Ok(ExitCode::Good);
    }
    if args.markdown {
        let mut out = terminal::stdout();
        let all: Vec<ZoneResult> = comparison.zones.iter().cloned().map(ZoneResult::from).collect();
        let result = ComparisonResult { zones: all, ..ComparisonResult::new(comparison, old.mismatches(&new)) };
        markdown::comparison(&result, &mut out)?;
        out.flush()?;
        return Ok(ExitCode::Good);
    }
    let size = TableSize::on_terminal((args.top > 0).then_some(args.top), false);
    let mut out = Folded::new(terminal::stdout(), size.width_columns);
    for mismatch in old.mismatches(&new) {
        writeln!(out, "note: {mismatch}")?;
    }
    diff::write(&comparison, size, &mut out)?;
    writeln!(out, "{}", comparison.explain())?;
    heap::write_difference(&before, &after, size, &mut out)?;
    tally::write_difference(&before, &after, size, &mut out)?;
    if let Some(path) = &args.output {
        let busy = Busy::new(&format!("writing {}", path.display()));
        let side = |path: &Path, profile: &Profile| {
            let stacks = CallTree::new(profile, View { fold_irqs: args.fold_irqs }).stacks();
            Side::new(&path.display().to_string(), stacks)
        };
        let sampling = Sampling::of(&before, &after);
        let (before, after) = (side(before_path, &before), side(after_path, &after));
        write_file(path, |out| differential::svg(&before, &after, &sampling, out))?;
        drop(busy);
        writeln!(out, "picture in {}", path.display())?;
    }
    out.flush()?;
    Ok(ExitCode::Good)
}

/// Refuses to compare exactly followed call paths with sampled ones: nearly every path would be new.
fn one_kind_of_stacks(sides: [(&Path, &Profile); 2]) -> Result<(), InputError> {
    let [(before_path, before), (after_path, after)] = sides;
    if kind_of_stacks(before) == kind_of_stacks(after) || before.total_insns() == 0 || after.total_insns() == 0 {
        return Ok(());
    }
    Err(InputError::new(format!(
        "the picture compares call paths, and these are of two kinds: {} has {}, {} has {}; profile both alike \
         (both with --exact, or both without), or leave out --output, which the tables do not need",
        before_path.display(),
        kind_of_stacks(before),
        after_path.display(),
        kind_of_stacks(after),
    )))
}
