// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness test`: runs a suite of images on all cores, and compares the runs with expectations and a baseline.

use std::collections::BTreeSet;
use std::io::{Write, stdout};
use std::path::PathBuf;

use anyhow::Result;

use crate::cli::{ShardRequest, TestArgs};
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::gate::baseline;
use crate::gate::cache::{Cache, Wanted};
use crate::gate::crew;
use crate::gate::filter::Filter;
use crate::gate::reports::Reports;
use crate::gate::rerun_command::{self, Command, Root};
use crate::gate::result::{CaseResult, SuiteResult};
use crate::gate::revision::Revision;
use crate::gate::session::{self, Settings, Shown};
use crate::gate::shard::Shard;
use crate::gate::suite::{self, Case, Suite, stranger};
use crate::gate::watch::{self, Watch};
use crate::run::contain::grants::Walls;
use crate::run::contain::host;
use crate::run::qemu::cores;
use crate::run::request::options::Sandbox;
use crate::run::store::deadline;
use crate::run::watch::interrupt::{INTERRUPTED, end_on_interrupt};
use crate::text::number::plural;
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
    let round = Round::prepare(&args)?;
    let command = Command {
        suite: args.suite.as_ref().map(|path| path.display().to_string()),
        baseline: args.baseline.clone(),
        compared: round.baseline.clone(),
        is_untrusted: args.untrusted,
    };
    if args.list {
        let mut out = terminal::stdout();
        for case in &round.chosen {
            writeln!(out, "{}{}", case.name, case.tags.iter().map(|tag| format!(" #{tag}")).collect::<String>())?;
        }
        return Ok(ExitCode::Good);
    }
    let directory = args.output.clone().unwrap_or_else(|| PathBuf::from("harness-report"));
    let sandbox = sandbox(&args)?;
    let cache = cache(&args)?;
    if args.untrusted {
        stranger::check_reports(&directory)?;
    }
    // Ctrl-C is handled from here on, before there are files to remove.
    end_on_interrupt();
    host::check_files(cores::jobs(args.jobs))?;
    let reports = Reports::prepare(directory, &Root::of(&round.suite.path))?;
    if let Some(line) = Walls::warning(sandbox) {
        let _ = writeln!(terminal::stderr(), "warning: {line}");
    }
    // The first Ctrl-C ends the runs, the second one the writing of results. After two, only a report or a pipe can
    // keep harness waiting, so the third one ends the process.
    deadline::insist(3, ExitCode::Limit.status(), "interrupted; there are no reports of this run");
    let settings = settings(&args, &round, sandbox, command, cache, &reports);
    if args.watch {
        return watch(round, &args, settings, &reports);
    }
    let cases = crew::run(round.suite, &round.mine, &settings);
    deadline::insist(1, ExitCode::Limit.status(), "interrupted while the reports were written");
    let result = round.result(cases);
    let directory = |_: &str| reports.directory();
    let code = if args.json { reports.finish_with_json(&result, &directory) } else { reports.finish(&result) };
    terminal::notes(args.save_baseline.as_deref().map(|name| result.describe_saved(name)).as_slice());
    code
}

/// Part of the suite that runs here.
///
/// # Errors
/// When `auto` finds no part.
fn shard(request: ShardRequest) -> Result<Shard, InputError> {
    match request {
        ShardRequest::Stated(part, parts) => Shard::new(part, parts).ok_or_else(|| {
            InputError::new(format!("--shard {part}/{parts}: there is no such part; at most 65,536 are run"))
        }),
        ShardRequest::Auto(parts) => Shard::automatic(parts, |name| std::env::var(name).ok()),
    }
}

/// The cache that the arguments want, if it can be used. Results of an untrusted suite do not get into a shared one.
///
/// # Errors
/// When its place or its key is not one.
fn cache(args: &TestArgs) -> Result<Option<Cache>, InputError> {
    if args.no_cache || args.untrusted {
        return Ok(None);
    }
    let cache = Cache::new(&Wanted {
        place: args.cache.as_deref(),
        key_file: args.cache_key_file.as_deref(),
        is_read_only: args.cache_read_only,
    })?;
    // Before anything runs, rather than in each worker.
    cache.clone().map(Cache::open).transpose()?;
    Ok(cache)
}

/// Settings of the suite's runs.
fn settings(
    args: &TestArgs,
    round: &Round,
    sandbox: Sandbox,
    command: Command,
    cache: Option<Cache>,
    reports: &Reports,
) -> Settings {
    Settings {
        directory: reports.directory().to_owned(),
        cache,
        baseline: round.baseline.clone(),
        save_baseline: args.save_baseline.clone(),
        ratchet: args.ratchet,
        has_progress: !args.quiet,
        shown: match (args.json, args.quiet) {
            (true, _) => Shown::Nothing,
            (false, true) => Shown::Noteworthy,
            (false, false) => Shown::All,
        },
        command,
        sandbox,
        jobs: cores::jobs(args.jobs),
    }
}

/// Use of the sandbox by the suite's runs.
///
/// # Errors
/// If the sandbox is to be off for an untrusted suite.
fn sandbox(args: &TestArgs) -> Result<Sandbox, InputError> {
    match (args.sandbox, args.untrusted) {
        (Some(Sandbox::Off), true) => {
            Err(InputError::new("--untrusted needs the sandbox; leave out --sandbox off, or use --sandbox auto"))
        }
        (Some(sandbox), _) => Ok(sandbox),
        (None, true) => Ok(Sandbox::Required),
        (None, false) => Ok(Sandbox::default()),
    }
}

/// A suite as read, and the part of it that runs. The suite stays in memory for ever, since threads may still work on
/// an image that was given up. While a suite is watched, each change of it leaves one such copy.
struct Round {
    suite: &'static Suite,
    /// Cases that match the filters.
    chosen: Vec<&'static Case>,
    /// The chosen cases that belong to this shard.
    mine: Vec<&'static Case>,
    baseline: Option<String>,
    /// Commit of the firmware.
    revision: Option<Revision>,
}

impl Round {
    fn prepare(args: &TestArgs) -> Result<Round> {
        let file = suite::find(args.suite.as_deref())?;
        let mut suite = if args.untrusted { Suite::load_untrusted(&file)? } else { Suite::load(&file)? };
        if args.strict {
            suite.hold_strictly();
        }
        let suite: &'static Suite = Box::leak(Box::new(suite));
        let filters = args.filter.iter().map(|text| Filter::parse(text)).collect::<Result<Vec<_>, _>>()?;
        let chosen = Filter::choose(&filters, &suite.cases);
        if chosen.is_empty() {
            return Err(
                InputError::about(&suite.path, "no image matches the filter; --list shows all of them").into()
            );
        }
        let baseline = args.baseline.clone().or_else(|| suite.baseline.clone());
        baseline.iter().chain(&args.save_baseline).try_for_each(|name| baseline::check_name(name))?;
        if args.ratchet && baseline.is_none() {
            return Err(InputError::new("--ratchet tightens a baseline: name it with --baseline").into());
        }
        let mine = match args.shard {
            None => chosen.clone(),
            Some(request) => session::shard(suite, &chosen, baseline.as_deref(), shard(request)?),
        };
        let (commit, time) = (args.revision.as_deref(), args.revision_time.as_deref());
        let revision = Revision::find(commit, time, |name| std::env::var(name).ok())?;
        Ok(Round { suite, chosen, mine, baseline, revision })
    }

    fn result(&self, cases: Vec<CaseResult>) -> SuiteResult {
        let chosen: Vec<String> = self.chosen.iter().map(|case| case.name.clone()).collect();
        let left_out = self.suite.cases.len() - chosen.len();
        let result = SuiteResult::new(self.suite.name.clone(), self.baseline.clone(), (chosen, left_out), cases);
        SuiteResult { revision: self.revision.clone(), ..result }
    }

    /// Records the current state of all files that the results depend on.
    fn watch(&self) -> Watch {
        let of_cases = self.mine.iter().flat_map(|case| self.files_of(case));
        Watch::new(of_cases.chain([self.suite.path.clone()]))
    }

    fn files_of(&self, case: &Case) -> BTreeSet<PathBuf> {
        watch::files_of(self.suite, case, self.baseline.as_deref())
    }
}

/// Runs the suite and, after each change, the images that it concerns, until Ctrl-C. The exit code is the last
/// verdict's.
fn watch(mut round: Round, args: &TestArgs, mut settings: Settings, reports: &Reports) -> Result<ExitCode> {
    // A closed standard error does not end the command.
    let say = |line: &str| drop(writeln!(terminal::stderr(), "{line}"));
    let mut files = round.watch();
    let mut cases = crew::run(round.suite, &round.mine, &settings);
    let mut code = reports.finish(&round.result(cases.clone()))?;
    loop {
        say(&format!("watching {}; Ctrl-C ends", plural(files.len() as u64, "file")));
        let Some(changed) = files.wait(&INTERRUPTED) else { return Ok(code) };
        // The files' state is recorded before they are read, so that a change during the runs is noticed as a new one.
        let typed = |case: &Case| case.inputs.iter().any(|input| changed.contains(input));
        let is_other_suite = changed.contains(&round.suite.path) || round.mine.iter().any(|case| typed(case));
        let names = changed.iter().map(|path| rerun_command::shown_path(path)).collect::<Vec<_>>().join(", ");
        if is_other_suite {
            files = round.watch();
            match Round::prepare(args) {
                Ok(next) => round = next,
                Err(error) => {
                    say(&format!("changed: {names}\nerror: {error:#}"));
                    code = ExitCode::of_error(&error);
                    continue;
                }
            }
            settings.baseline = round.baseline.clone();
            settings.command.compared = round.baseline.clone();
        }
        files = round.watch();
        let is_concerned = |case: &&'static Case| is_other_suite || !round.files_of(case).is_disjoint(&changed);
        let again: Vec<&'static Case> = round.mine.iter().copied().filter(is_concerned).collect();
        let which = again.iter().map(|case| case.name.as_str()).collect::<Vec<_>>().join(", ");
        say(&format!("changed: {names}; running {which}"));
        let mut results = crew::run(round.suite, &again, &settings);
        // Results stay in the order of the suite. Images that did not run again keep their results.
        results.extend(cases.into_iter().filter(|known| again.iter().all(|case| case.name != known.name)));
        let place = |result: &CaseResult| round.mine.iter().position(|case| case.name == result.name);
        results.retain(|result| place(result).is_some());
        results.sort_by_key(place);
        cases = results;
        code = reports.finish(&round.result(cases.clone()))?;
    }
}
