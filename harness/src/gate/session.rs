// SPDX-License-Identifier: MIT OR Apache-2.0
//! One image of a suite: runs it, and compares it with expectations and a baseline.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::{fs, thread};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::analysis::compare::{Comparison, compare};
use crate::analysis::describe;
use crate::analysis::lookup;
use crate::analysis::metrics::Metric;
use crate::analysis::{crosscheck, functions, time};
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export;
use crate::export::json::comparison::ComparisonResult;
use crate::gate::baseline::Baseline;
use crate::gate::budget::{Bounds, BudgetRow, is_bound};
use crate::gate::cache::{Cache, Hit, OpenCache};
use crate::gate::debug_place;
use crate::gate::existence::UnknownName;
use crate::gate::expect::{self, Finding, FindingKind};
use crate::gate::held::{Against, Held, hold};
use crate::gate::known::Known;
use crate::gate::numbers::{self, NumbersByMetric};
use crate::gate::path_bytes;
use crate::gate::rerun_command::{Command, Root};
use crate::gate::result::{CaseResult, RunResult};
use crate::gate::shard::Shard;
use crate::gate::source_location::defined;
use crate::gate::suite::stranger::Purpose;
use crate::gate::suite::{Case, Suite};
use crate::gate::work_blind;
use crate::image::bounded_read;
use crate::image::defmt::Decoder;
use crate::image::symbols::Symbols;
use crate::learn::{self, AUTO};
use crate::measure::{Listener, Silent, measure};
use crate::profile::files::{CONSOLE, FLAMEGRAPH};
use crate::profile::{End, Profile};
use crate::run::records::read::Progress;
use crate::run::request::options::{Options, Sandbox};
use crate::run::store::deadline::{Deadline, GLANCE, GivenUp};
use crate::run::store::directory::Output;
use crate::taken;

/// Maximum number of console lines that a failure shows.
const TAIL_LINES: usize = 10;

/// Maximum number of characters of such a line.
const TAIL_CHARS: usize = 200;

/// Settings for running a suite.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Directory of reports and profiles.
    #[serde(with = "path_bytes")]
    pub directory: PathBuf,
    /// Cached results; None: every case is run.
    pub cache: Option<Cache>,
    /// Name of the baseline to compare with.
    pub baseline: Option<String>,
    /// Name of the baseline to save the numbers as.
    pub save_baseline: Option<String>,
    /// Whether to tighten the baseline if a run is better.
    pub ratchet: bool,
    /// Use of the kernel's sandbox around QEMU.
    pub sandbox: Sandbox,
    /// Number of images that run at the same time.
    pub jobs: usize,
    /// Whether progress is shown.
    pub has_progress: bool,
    /// Images that are shown as they are finished.
    pub shown: Shown,
    /// Command that repeats a case from the current directory.
    pub command: Command,
}

/// Images that are shown as they are finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shown {
    /// All images.
    All,
    /// Images that failed or have a warning.
    Noteworthy,
    /// No images: the results are reported elsewhere.
    Nothing,
}

/// Data that all cases of a suite share in the worker process that runs them (`gate/worker.rs`).
pub(super) struct Session {
    suite: Suite,
    settings: Settings,
    /// Cached results; None: every case is run.
    cache: Option<OpenCache>,
    /// Versions of the emulators, a part of the cache's key.
    emulator_versions: String,
    /// Path of the suite's file, as failures show it.
    suite_file: String,
    /// Command for repeating a case from the project's root.
    command: Command,
}

/// Cost of each image besides its instructions: QEMU's start and harness's own work take about as long as this many.
const START_INSNS: u64 = 50_000_000;

/// Cases of one part. Parts have about equal costs, as far as the baseline tells the costs; an image that is not in it is
/// taken for an average one.
pub fn shard<'a>(suite: &Suite, chosen: &[&'a Case], baseline: Option<&str>, shard: Shard) -> Vec<&'a Case> {
    let known = |case: &&Case| {
        let known = baseline.and_then(|name| load_baseline(suite, name, case).ok().flatten());
        known.map(|known| known.metrics.total_insns())
    };
    let costs = costs(&chosen.iter().map(known).collect::<Vec<_>>());
    shard.choose(&costs).into_iter().map(|index| chosen[index]).collect()
}

/// Costs of images by their instructions, as far as these are known.
fn costs(insns: &[Option<u64>]) -> Vec<u64> {
    let known: Vec<u128> = insns.iter().flatten().map(|&insns| u128::from(insns)).collect();
    let mean = known.iter().sum::<u128>() / (known.len() as u128).max(1);
    let mean = u64::try_from(mean).unwrap_or(u64::MAX);
    insns.iter().map(|insns| insns.unwrap_or(mean).saturating_add(START_INSNS)).collect()
}

/// A case's name, changed so that it can be the stem of a file's name.
pub fn file_stem(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.,=[]+".contains(c);
    name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// Reads a case's numbers in a suite's baseline; None: the baseline lacks the case.
///
/// # Errors
/// If the numbers cannot be read, or if an untrusted suite has them outside of its folder.
fn load_baseline(suite: &Suite, baseline: &str, case: &Case) -> Result<Option<Baseline>, InputError> {
    let path = baseline_file(suite, baseline, case);
    match &suite.folder {
        None => Baseline::load(&path),
        Some(folder) => {
            let path = folder.file(&path, Purpose::Data).map_err(|why| InputError::new(why.to_string()))?;
            Baseline::load(&path)
        }
    }
}

/// File of a case's numbers in a suite's baseline.
pub fn baseline_file(suite: &Suite, baseline: &str, case: &Case) -> PathBuf {
    suite.baselines.join(baseline).join(format!("{}.baseline", file_stem(&case.name)))
}

/// Listens to one run: keeps its messages for the result, and passes on its progress.
struct Collector<'a> {
    messages: Vec<String>,
    progress: &'a (dyn Fn(Progress) + Sync),
}

impl Listener for Collector<'_> {
    fn say(&mut self, line: &str) {
        self.messages.push(line.to_owned());
    }

    // The result has the machine already.
    fn choice(&mut self, _line: &str) {}

    // The command reports the host's traits once for all cases.
    fn host(&mut self, _line: &str) {}

    // A slow host is not a finding about the firmware.
    fn slow(&mut self, _line: &str) {}

    fn progress(&mut self, progress: Progress) {
        (self.progress)(progress);
    }
}

/// Part that the cache had in a case's result. The result does not have it: it is the same without a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CacheUse {
    /// Whether the run came from the cache.
    pub(super) is_hit: bool,
    /// Reason why the cache could not be used.
    pub(super) error: Option<String>,
}

/// Result of a case, and the state of its thread.
pub(super) enum Ended {
    /// The thread has finished.
    Done(CaseResult, CacheUse),
    /// The case was given up: a thread may still work on it, without effect.
    GivenUp(CaseResult),
}

impl CacheUse {
    /// Keeps the first failure of the cache.
    fn noted<T>(&mut self, answer: Result<T, String>) -> Option<T> {
        answer.map_err(|error| self.error.get_or_insert(error).len()).ok()
    }
}

impl Session {
    /// Session for the cases of a suite; `emulator_versions` has the versions of all installed emulators, if there is a
    /// cache.
    ///
    /// # Errors
    /// When the cache cannot be used.
    pub(super) fn new(suite: Suite, settings: Settings, emulator_versions: String) -> Result<Session, InputError> {
        let cache = settings.cache.clone().map(Cache::open).transpose()?;
        let root = Root::of(&suite.path);
        let suite_file = root.path(&suite.path).display().to_string();
        let command = root.command(&suite.path, &settings.command);
        Ok(Session { suite, settings, cache, emulator_versions, suite_file, command })
    }

    /// Runs the case of this name on a thread of its own. A thread cannot be ended from outside: a thread that takes
    /// too long, or that the user interrupts, is abandoned and ends with the process.
    pub(super) fn run(self: &Arc<Self>, name: &str, progress: fn(Progress)) -> Ended {
        let Some(index) = self.suite.cases.iter().position(|case| case.name == name) else {
            let why = "it was not run: the suite that came has no such image";
            return Ended::Done(CaseResult::without_run(name, &[], ExitCode::Usage, why), CacheUse::default());
        };
        let case = &self.suite.cases[index];
        let deadline = Deadline::new(case.options.timeout);
        let (send, receive) = mpsc::channel();
        let (session, until) = (Arc::clone(self), Arc::clone(&deadline));
        // QEMU ends with the thread that started it, so a thread kept for the next case could not start it.
        let started = thread::Builder::new().name(case.name.replace('\0', "")).spawn(move || {
            // Nobody waits for a case that was given up.
            let _ = send.send(session.try_run(&session.suite.cases[index], &until, &progress));
        });
        let failed = |code, why: &str| {
            let messages = self.settings.save_baseline.iter().map(|name| not_saved(name, code)).collect();
            CaseResult { messages, ..CaseResult::without_run(&case.name, &case.tags, code, why) }
        };
        if let Err(error) = started {
            let why = format!("it was not run: there is no thread for it ({error})");
            return Ended::Done(failed(ExitCode::Usage, &why), CacheUse::default());
        }
        loop {
            let why = match receive.recv_timeout(GLANCE) {
                Ok(Ok((result, cache))) => return Ended::Done(result, cache),
                Ok(Err(error)) => match error.downcast::<GivenUp>() {
                    Ok(why) => why,
                    Err(error) => {
                        let result = failed(ExitCode::of_error(&error), &format!("{error:#}"));
                        return Ended::Done(result, CacheUse::default());
                    }
                },
                Err(RecvTimeoutError::Timeout) => match deadline.look() {
                    Some(why) => why,
                    None => continue,
                },
                Err(RecvTimeoutError::Disconnected) => {
                    let why = "harness itself failed here, as standard error says";
                    return Ended::Done(failed(ExitCode::Usage, why), CacheUse::default());
                }
            };
            let profile = deadline.has_profile().then(|| profile_directory(case));
            return Ended::GivenUp(CaseResult { profile, ..failed(ExitCode::Limit, why.0) });
        }
    }

    fn try_run(
        &self,
        case: &Case,
        deadline: &Arc<Deadline>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<(CaseResult, CacheUse)> {
        let needs_marks = case.expect.console.iter().any(|line| line.by_insns.is_some());
        let sandbox = self.settings.sandbox;
        let mut options = Options { console_marks: needs_marks, sandbox, ..case.options.clone() };
        if options.chip.as_deref() == Some(AUTO) {
            // Before the cache is asked, which knows the chip by its name or by its file's contents.
            learn::settle(&mut options, &self.learned_file(case), deadline, &mut Silent)?;
        }
        let mut taken = Collector { messages: Vec::new(), progress };
        let opened = taken::refused(&mut options, &mut taken);
        let target = self.settings.directory.join(profile_directory(case));
        let output = Output::prepare_within(target, Arc::clone(deadline))?;
        let cached = self.cache.as_ref();
        let cached = cached.and_then(|cache| Some((cache, cache.key(&options, &self.emulator_versions)?)));
        let mut cache_use = CacheUse::default();
        let known = cached.as_ref().and_then(|(cache, key)| cache_use.noted(cache.get(key)).flatten());
        cache_use.is_hit = known.is_some();
        let printed = output.run_directory().join(CONSOLE);
        let Hit { mut profile, mut console, mut messages } = match known {
            Some(hit) => hit,
            None => {
                progress(Progress::default());
                let mut collector = Collector { messages: Vec::new(), progress };
                let measured = measure(&options, opened, &output, &mut collector)?;
                let console = fs::read(&measured.console).unwrap_or_default();
                Hit { profile: measured.profile, console, messages: collector.messages }
            }
        };
        export::write(&profile, &options, &output)?;
        if cache_use.is_hit {
            output.write(CONSOLE, &console)?;
        } else {
            output.take_console(&printed)?;
        }
        // Not of the run, which the cache may have had for the chip's name.
        let taken = taken.messages;
        messages.extend(output.shortened());
        let directory = output.commit()?;
        if let (Some((cache, key)), false) = (&cached, cache_use.is_hit) {
            // If this fails, the case runs again next time, and nothing else is lost.
            cache_use.noted(cache.put(key, &profile, &directory, &messages));
        }
        messages.splice(0..0, taken);
        match Decoder::of(options.symbol_file(), false) {
            Ok(None) => {}
            Ok(Some(decoder)) => console = words(decoder, &console, &mut profile.console_marks),
            Err(why) => messages.push(format!("the firmware's defmt logs cannot be decoded: {why}")),
        }
        Ok((self.evaluate(case, &profile, &console, messages, deadline)?, cache_use))
    }

    /// Chip file that is learned for a case: beside the suite, since it belongs to the suite's inputs.
    fn learned_file(&self, case: &Case) -> PathBuf {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let name: String = case.name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
        self.suite.path.with_file_name(format!("{name}.chip.toml"))
    }

    fn evaluate(
        &self,
        case: &Case,
        profile: &Profile,
        console: &[u8],
        messages: Vec<String>,
        deadline: &Deadline,
    ) -> Result<CaseResult> {
        let facts = &profile.facts;
        let insns = profile.total_insns();
        let (ending, code) = expect::ending(&case.expect, profile);
        let ended_well = ending.passed;
        let directory = profile_directory(case);
        let mut result = CaseResult {
            name: case.name.clone(),
            tags: case.tags.clone(),
            place: None,
            exit_code: code.status(),
            end: describe::describe_end(profile),
            run: Some(RunResult {
                image: facts.image_name.clone(),
                image_sha256: facts.image_sha256.clone(),
                qemu: facts.qemu_version.clone(),
                machine: facts.machine.clone(),
                chip: describe::describe_chip(profile),
                insns,
                samples: profile.samples.len() as u64,
                virtual_ns: u64::try_from(time::awake_ns(profile)).unwrap_or(u64::MAX),
            }),
            findings: vec![ending],
            comparison: None,
            numbers: NumbersByMetric::new(),
            limits: Vec::new(),
            idle_limits: Vec::new(),
            warnings: work_blind::blind(case, &facts.end, insns).into_iter().chain(trouble(profile)).collect(),
            messages,
            repeat: String::new(),
            accept: None,
            tighten: None,
            budget: Vec::new(),
            at: None,
            picture: Some(format!("{directory}/{FLAMEGRAPH}")),
            profile: Some(directory),
            console_tail: Vec::new(),
        };
        result.findings.extend(expect::progress(&case.expect, profile));
        result.findings.extend(expect::console(&case.expect, profile, console));
        let mut new = Baseline::of(profile);
        if matches!(facts.end, End::For | End::MaxInsns) {
            new.metrics.run[Metric::Lines] = Some(console.iter().filter(|byte| **byte == b'\n').count() as u64);
        }
        let bounds = bounds(case, profile)?;
        if let Some(bounds) = &bounds {
            bounds.add_to(&mut new.metrics);
        }
        let old = self.settings.baseline.as_ref().map(|name| load_baseline(&self.suite, name, case));
        let old = old.transpose()?.flatten();
        let known = Known { profile, now: &new.metrics, before: old.as_ref().map(|old| &old.metrics) };
        // Collect all findings, even after a failure: they do not depend on each other.
        result.findings.extend(case.expect.strict.then(|| cross_check(profile)));
        let Asserted { findings, warnings, is_mistaken } = assertions(case, &known);
        result.findings.extend(findings);
        result.warnings.extend(warnings);
        // Firmware that failed may not have reached the named function.
        if is_mistaken && ended_well {
            result.raise(ExitCode::Usage);
        }
        if case.assertions.iter().any(|assertion| assertion.unclear(profile, &new.metrics).is_some()) {
            result.raise(ExitCode::Usage);
        }
        result.findings.extend(bounds.iter().flat_map(Bounds::findings));
        if result.failures().next().is_some() {
            result.raise(ExitCode::Firmware);
        }
        result.at = debug_place::of_failure(case, profile, &result.findings);
        result.budget = case.budget.judge(profile, known.now, known.before, bounds.as_ref());
        if result.budget.iter().any(|row| !row.holds) {
            result.raise(ExitCode::Regression);
        }
        result.findings.extend(result.budget.iter().map(BudgetRow::finding).collect::<Vec<_>>());
        self.compare(case, &known, (old.as_ref(), &new, ended_well), deadline, &mut result)?;
        if !result.passed() {
            result.console_tail = tail(console);
        }
        Ok(result)
    }

    /// Compares the numbers with thresholds and the baseline, and saves them if asked to. After a bad end only exceeded
    /// limits count: less work means nothing then.
    fn compare(
        &self,
        case: &Case,
        known: &Known<'_>,
        (old, new, ended_well): (Option<&Baseline>, &Baseline, bool),
        deadline: &Deadline,
        result: &mut CaseResult,
    ) -> Result<()> {
        let save = |name: &String| -> Result<()> {
            deadline.check()?;
            Ok(new.save(&baseline_file(&self.suite, name, case))?)
        };
        // Ceilings apply without a baseline, too.
        let compared = compare(known.before, known.now);
        let against = Against {
            known: *known,
            compared: &compared,
            baseline: self.settings.baseline.as_deref(),
            is_saved: self.settings.save_baseline.is_some(),
            ended_well,
            suite_file: &self.suite_file,
        };
        let Held { findings, mistakes, warnings, idle, limits, is_by_baseline, crossed_function } =
            hold(case, &against);
        (result.numbers, result.limits) = (numbers::of(&compared), limits);
        if !mistakes.is_empty() {
            result.raise(ExitCode::Usage);
        }
        result.findings.extend(mistakes);
        result.warnings.extend(warnings);
        result.idle_limits = idle;
        if findings.iter().any(|finding| !finding.passed) {
            if result.at.is_none() {
                result.at = debug_place::of_growth(known.profile, &compared, crossed_function.as_deref());
            }
            result.raise(ExitCode::Regression);
        }
        result.findings.extend(findings);
        // A run that saves these numbers has accepted them already.
        let is_saved = |name: &String| self.settings.save_baseline.as_ref() == Some(name);
        let accept = |name| (!is_saved(name)).then(|| self.command.accept(&case.name)).flatten();
        match (&self.settings.baseline, old) {
            (Some(name), Some(old)) => {
                // A run that failed for another reason has no numbers to accept.
                if is_by_baseline && result.code() == ExitCode::Regression {
                    result.accept = accept(name);
                }
                if result.passed() && is_better(&compared) {
                    if self.settings.ratchet {
                        save(name)?;
                        result.messages.push(format!("baseline {name} tightened"));
                    } else if self.settings.save_baseline.is_none() && is_much_better(&compared) {
                        result.tighten = self.command.tighten(&case.name);
                    }
                }
                if ended_well {
                    result.comparison = Some(ComparisonResult::new(compared, old.mismatches(new)));
                }
            }
            (Some(name), None) if ended_well && !is_saved(name) => {
                result.accept = accept(name).filter(|_| result.code() >= ExitCode::Regression);
                let message = format!("there is no baseline {name:?}; make it with --save-baseline {name}");
                let expected = format!("a baseline {name:?}");
                result.findings.push(Finding::failed(FindingKind::Threshold, expected, "there is none", message));
                result.raise(ExitCode::Usage);
            }
            _ => {}
        }
        if let Some(name) = &self.settings.save_baseline {
            match result.code() {
                ExitCode::Good => save(name)?,
                ExitCode::Regression => {
                    save(name)?;
                    result
                        .messages
                        .push(format!("baseline {name} saved: the run only crossed a limit (exit code 3)"));
                }
                code => result.messages.push(not_saved(name, code)),
            }
        }
        Ok(())
    }
}

/// Message on an image whose numbers are not kept: a failure's numbers are no measure for later runs.
fn not_saved(name: &str, code: ExitCode) -> String {
    format!("baseline {name} not saved: {} (exit code {})", code.describe(), code.status())
}

/// Static bounds of an image's stacks, if the case asks for them.
fn bounds(case: &Case, profile: &Profile) -> Result<Option<Bounds>> {
    let is_asked = case.budget.needs_bounds()
        || case.thresholds.iter().any(|threshold| is_bound(threshold.metric))
        || case.assertions.iter().any(|assertion| assertion.metric().is_some_and(is_bound));
    if !is_asked {
        return Ok(None);
    }
    let file = case.options.symbols.as_ref().unwrap_or(&case.options.firmware);
    let bytes = bounded_read::read_named(file)?;
    Ok(Some(Bounds::find(file, &bytes, std::slice::from_ref(profile), &case.budget.rules)?))
}

/// Remark on a run that did not fail, and only polled a register or ended in a fault's handler.
fn trouble(profile: &Profile) -> Option<String> {
    if profile.facts.only.standstill.is_some() {
        // This is reported as a finding instead.
        return None;
    }
    let line = describe::describe_trouble(profile)?;
    // Keep only warnings: an error is already reported as the run's end.
    line.strip_prefix("warning: ").map(str::to_owned)
}

/// Directory of a case's profile, relative to that of the reports.
pub fn profile_directory(case: &Case) -> String {
    format!("{}.profile", file_stem(&case.name))
}

fn cross_check(profile: &Profile) -> Finding {
    let check = crosscheck::check(profile, &functions::table(profile));
    let expected = "the firmware's own counts are the exact ones";
    if let Some(doubt) = describe::describe_doubts(profile) {
        let expected = "the chip is known";
        return Finding::failed(FindingKind::CrossCheck, expected, &doubt, format!("strict: {doubt}"));
    }
    match (check.counts_agree(), check.faults.first()) {
        (true, _) => Finding::met(FindingKind::CrossCheck, expected, "they do"),
        (false, Some(fault)) => Finding::failed(FindingKind::CrossCheck, expected, fault, format!("strict: {fault}")),
        (false, None) => {
            let actual = "they differ: harness profile --strict names each one";
            let message = "strict: the firmware's own counts differ from the exact ones; harness profile --strict \
                           names each difference";
            Finding::failed(FindingKind::CrossCheck, expected, actual, message)
        }
    }
}

/// Results of a case's assertions.
#[derive(Default)]
struct Asserted {
    /// One for each.
    findings: Vec<Finding>,
    /// A sentence for each that may hold or not.
    warnings: Vec<String>,
    /// Whether one uses a name that neither the image nor the baseline has.
    is_mistaken: bool,
}

fn assertions(case: &Case, known: &Known<'_>) -> Asserted {
    let Known { profile, now, .. } = *known;
    if case.assertions.is_empty() {
        return Asserted::default();
    }
    let file = case.options.symbols.as_ref().unwrap_or(&case.options.firmware);
    let elf = bounded_read::read(file).ok();
    let symbols = Symbols::new(elf.as_deref(), profile.facts.load_bias, profile.facts.is_arm());
    let exists = crate::gate::assertion::finder(&symbols);
    let coverage = OnceCell::new();
    let (mut is_mistaken, mut warnings) = (false, Vec::new());
    let findings = case.assertions.iter().map(|assertion| {
        let outcome = assertion.check(profile, now, &coverage, &exists);
        let (kind, expected) = (FindingKind::Assertion, assertion.to_string());
        if outcome.is_undecided {
            let message = format!("{expected} is undecided: {}", outcome.actual);
            if case.expect.strict {
                return Finding::failed(kind, expected, outcome.actual, message);
            }
            warnings.push(message);
        }
        if outcome.holds {
            return Finding::met(kind, expected, outcome.actual);
        }
        let is_known = |name: &UnknownName| name.of.is_some_and(|of| known.is_in_baseline(of, &name.name));
        is_mistaken |= outcome.unknown.is_some_and(|name| !is_known(&name));
        let visit = outcome.at;
        let names = assertion.function().and_then(|name| lookup::keys(profile, now, name).ok());
        let place = names.iter().flatten().find_map(|name| defined(profile, name));
        let message = format!("{expected} does not hold: {}", outcome.actual);
        Finding { at: visit, ..Finding::failed(kind, expected, outcome.actual, message).at(place) }
    });
    Asserted { findings: findings.collect(), warnings, is_mistaken }
}

/// Whether a run is better than its baseline, and as a whole nowhere worse.
fn is_better(comparison: &Comparison) -> bool {
    let change = comparison.total_insns().difference();
    change < 0 || (change == 0 && comparison.tasks.iter().any(|task| task.numbers[Metric::Stack].difference() < 0))
}

/// Minimum improvement in percent that deserves a remark: as it is, the baseline would let as much growth pass.
const MUCH_PERCENT: i128 = 5;

/// Whether the whole run takes much less than its baseline.
fn is_much_better(comparison: &Comparison) -> bool {
    let total = comparison.total_insns();
    let before = i128::from(total.before.unwrap_or(0));
    -total.difference() * 100 >= before * MUCH_PERCENT && before > 0
}

/// Decoded text of a log in frames. Changes the marks from lengths of the log to lengths of the text.
fn words(mut decoder: Decoder, console: &[u8], marks: &mut [(u64, u64)]) -> Vec<u8> {
    let (mut words, mut decoded) = (Vec::new(), 0);
    for (_, printed) in marks {
        let end = console.len().min(*printed as usize);
        decoder.push(&console[decoded..end.max(decoded)], &mut words);
        decoded = end.max(decoded);
        *printed = words.len() as u64;
    }
    decoder.push(&console[decoded..], &mut words);
    decoder.finish(&mut words);
    words
}

/// Last lines of the output, without control characters.
fn tail(console: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(console);
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines[lines.len().saturating_sub(TAIL_LINES)..].iter();
    shown
        .map(|line| {
            line.chars().take(TAIL_CHARS).map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_unknown_cost_is_taken_for_an_average_one() {
        assert_eq!(costs(&[Some(10), None, Some(20)]), [10, 15, 20].map(|insns| insns + START_INSNS));
        assert_eq!(costs(&[None, None]), [START_INSNS; 2]);
        assert_eq!(costs(&[Some(u64::MAX), Some(u64::MAX), None]), [u64::MAX; 3]);
    }
}
