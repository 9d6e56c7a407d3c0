//! `harness test`: a suite of images, run over all cores, held against expectations and a baseline.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::thread;

use anyhow::Result;

use crate::cli::TestArgs;
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::gate::baseline;
use crate::gate::cache::Cache;
use crate::gate::filter::Filter;
use crate::gate::remedy::Command;
use crate::gate::reports::Reports;
use crate::gate::result::SuiteResult;
use crate::gate::session::{self, Settings};
use crate::gate::suite::{self, Suite};
use crate::run::deadline;
use crate::run::plan::end_on_interrupt;
use crate::run::walls::Walls;
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// When the suite cannot be read or the reports cannot be written.
pub fn run(args: TestArgs) -> Result<ExitCode> {
    if args.schema {
        stdout().write_all(SuiteResult::schema()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let command = Command {
        suite: args.suite.as_ref().map(|path| path.display().to_string()),
        baseline: args.baseline.clone(),
    };
    let suite: &'static Suite = Box::leak(Box::new(Suite::load(&suite::find(args.suite.as_deref())?)?));
    let filters = args.filter.iter().map(|text| Filter::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let chosen = Filter::choose(&filters, &suite.cases);
    if chosen.is_empty() {
        return Err(InputError::about(&suite.path, "no image matches the filter; --list shows all of them").into());
    }
    if args.list {
        let mut out = terminal::stdout();
        for case in chosen {
            writeln!(out, "{}{}", case.name, case.tags.iter().map(|tag| format!(" #{tag}")).collect::<String>())?;
        }
        return Ok(ExitCode::Good);
    }
    let baseline = args.baseline.or_else(|| suite.baseline.clone());
    baseline.iter().chain(&args.save_baseline).try_for_each(|name| baseline::check_name(name))?;
    if args.ratchet && baseline.is_none() {
        return Err(InputError::new("--ratchet tightens a baseline: name it with --baseline").into());
    }
    let mine = match args.shard {
        None => chosen.clone(),
        Some(part) => session::shard(suite, &chosen, baseline.as_deref(), part),
    };
    let directory = args.output.unwrap_or_else(|| PathBuf::from("harness-report"));
    // Before there is anything to tidy up.
    end_on_interrupt();
    let reports = Reports::prepare(directory)?;
    if let Some(line) = Walls::warning(args.sandbox) {
        eprintln!("warning: {line}");
    }
    // The first ends the runs, the second what is made of them, and after that only a report or a pipe can be waited for.
    deadline::insist(3, ExitCode::Limit.status(), "interrupted; there are no reports of this run");
    let settings: &'static Settings = Box::leak(Box::new(Settings {
        directory: reports.directory().to_owned(),
        cache: if args.no_cache { None } else { Cache::open(args.cache_dir) },
        baseline,
        save_baseline: args.save_baseline,
        ratchet: args.ratchet,
        is_quiet: args.quiet,
        command,
        sandbox: args.sandbox,
        jobs: args.jobs.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from),
    }));
    let cases = session::run(suite, &mine, settings);
    deadline::insist(1, ExitCode::Limit.status(), "interrupted while the reports were written");
    let chosen = chosen.iter().map(|case| case.name.clone()).collect();
    let result = SuiteResult::new(suite.name.clone(), settings.baseline.clone(), chosen, cases);
    reports.finish(&result)
}
