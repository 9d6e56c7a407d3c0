//! `harness diff`: two saved profiles, what changed between them, as a table and as a picture.

use std::io::{Write, stdout};
use std::path::Path;

use anyhow::Result;

use crate::analysis::calltree::CallTree;
use crate::analysis::compare::{Change, Comparison, Pair, compare, percent};
use crate::analysis::describe::{ExitCode, group};
use crate::analysis::stacks::View;
use crate::cli::DiffArgs;
use crate::export::differential::{self, Side};
use crate::gate::baseline::Baseline;
use crate::profile::Profile;
use crate::run::directory::write_file;

/// Runs the command.
///
/// # Errors
/// When a profile cannot be read or the picture not be written.
pub fn run(args: DiffArgs) -> Result<ExitCode> {
    let (before, after) = (Profile::load(&args.before)?, Profile::load(&args.after)?);
    let (old, new) = (Baseline::of(&before), Baseline::of(&after));
    let comparison = compare(Some(&old.metrics), &new.metrics);
    let mut out = stdout().lock();
    for mismatch in old.mismatches(&new) {
        writeln!(out, "note: {mismatch}")?;
    }
    table(&comparison, (args.top > 0).then_some(args.top), &mut out)?;
    writeln!(out, "{}", comparison.explain())?;
    if let Some(path) = &args.output {
        let side = |path: &Path, profile: &Profile| {
            let stacks = CallTree::new(profile, View { fold_irqs: args.fold_irqs }).stacks();
            Side::new(&path.display().to_string(), stacks)
        };
        let (before, after) = (side(&args.before, &before), side(&args.after, &after));
        write_file(path, |out| differential::svg(&before, &after, out))?;
        writeln!(out, "picture in {}", path.display())?;
    }
    Ok(ExitCode::Good)
}

/// Writes the functions and tasks that changed, those that account for most first.
fn table(comparison: &Comparison, most_rows: Option<usize>, out: &mut impl Write) -> Result<()> {
    let changed: Vec<&Change> = comparison.functions.iter().filter(|change| change.is_one()).collect();
    let whole = comparison.total_insns.before.unwrap_or(0);
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), group);
    let row = |name: String, numbers: Pair, calls: Pair| {
        let calls = if calls.difference() == 0 {
            String::new()
        } else {
            format!("{} \u{2192} {}", number(calls.before), number(calls.after))
        };
        let change = percent(numbers.difference(), whole);
        [name, number(numbers.before), number(numbers.after), change, calls]
    };
    let mut lines = vec![["Function", "Before", "After", "Of the total", "Calls"].map(str::to_owned)];
    let shown = most_rows.unwrap_or(changed.len()).min(changed.len());
    for change in &changed[..shown] {
        let fate = match change.fate.describe() {
            "" => String::new(),
            fate => format!(" [{fate}]"),
        };
        lines.push(row(format!("{}{fate}", change.name), change.self_insns, change.calls));
    }
    if shown < changed.len() {
        let rest: i128 = changed[shown..].iter().map(|change| change.self_insns.difference()).sum();
        let name = format!("{} others", changed.len() - shown);
        lines.push([name, String::new(), String::new(), percent(rest, whole), String::new()]);
    }
    for task in comparison.tasks.iter().filter(|task| task.is_one()) {
        lines.push(row(format!("task {}", task.name), task.insns, Pair::default()));
    }
    lines.push(row("total".to_owned(), comparison.total_insns, Pair::default()));
    crate::show::tasks::table(&lines, out)?;
    Ok(())
}
