//! One run of a suite: its images over all cores, each held against expectations and a baseline, and the reports.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::{fs, thread};

use anyhow::Result;

use crate::analysis::compare::{Comparison, Fate, compare};
use crate::analysis::describe;
use crate::analysis::lookup;
use crate::analysis::metrics::{Metric, Metrics, Subject, key_name};
use crate::analysis::{crosscheck, functions};
use crate::exit_code::ExitCode;
use crate::export;
use crate::gate::baseline::Baseline;
use crate::gate::cache::{Cache, Hit};
use crate::gate::defined::defined;
use crate::gate::expect::{self, Finding, FindingKind};
use crate::gate::landing;
use crate::gate::lines;
use crate::gate::remedy::{self, Command};
use crate::gate::result::{self, CaseResult, ComparisonResult, RunResult};
use crate::gate::suite::{Case, Suite};
use crate::gate::threshold::{Meant, judge};
use crate::gate::work::{self, Judged};
use crate::image::defmt::Decoder;
use crate::image::given;
use crate::image::symbols::{self, Symbols};
use crate::machine;
use crate::measure::{Listener, measure};
use crate::profile::files::{CONSOLE, FLAMEGRAPH};
use crate::profile::{End, Profile};
use crate::run::cores::Cores;
use crate::run::deadline::{Deadline, GLANCE, GivenUp};
use crate::run::directory::Output;
use crate::run::emulator;
use crate::run::options::Options;
use crate::run::plan::INTERRUPTED;
use crate::run::progress::Bars;
use crate::run::records::Progress;
use crate::run::walls::Sandbox;
use crate::text::number::group;
use crate::text::terminal;

/// Lines of the console that a failure shows.
const TAIL_LINES: usize = 10;

/// Longest line of them.
const TAIL_CHARS: usize = 200;

/// How a suite is to be run.
#[derive(Debug)]
pub struct Settings {
    /// Where reports and profiles go.
    pub directory: PathBuf,
    /// Results that are known already; None: everything is run.
    pub cache: Option<Cache>,
    /// Name of the baseline to compare with.
    pub baseline: Option<String>,
    /// Name of the baseline to keep the numbers as.
    pub save_baseline: Option<String>,
    /// Tighten the baseline where a run is better.
    pub ratchet: bool,
    /// Whether the kernel keeps QEMU in.
    pub sandbox: Sandbox,
    /// Images at a time.
    pub jobs: usize,
    /// Progress is shown.
    pub has_progress: bool,
    /// Which images are shown as they are finished.
    pub shown: Shown,
    /// How one of them is run again.
    pub command: Command,
}

/// Which images are shown as they are finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// All.
    All,
    /// Those that failed, or have a warning.
    Noteworthy,
    /// None: the results speak elsewhere.
    Nothing,
}

/// A suite being run: what all of its cases share.
struct Session {
    suite: &'static Suite,
    settings: &'static Settings,
    /// The suite's file as failures name it.
    suite_file: String,
    /// Part of the cache's key.
    emulator_versions: String,
    bars: Bars,
}

/// The cases that are the `part`-th of so many parts, of about equal cost as far as the baseline knows it.
pub fn shard<'a>(
    suite: &Suite,
    chosen: &[&'a Case],
    baseline: Option<&str>,
    (part, parts): (usize, usize),
) -> Vec<&'a Case> {
    let cost = |case: &&Case| {
        let path = baseline.map(|name| baseline_file(suite, name, case));
        let known = path.and_then(|path| Baseline::load(&path).ok().flatten());
        known.map_or(0, |known| known.metrics.total_insns())
    };
    let part = result::shard(&chosen.iter().map(cost).collect::<Vec<_>>(), part, parts);
    part.into_iter().map(|index| chosen[index]).collect()
}

/// Runs cases of a suite; results come, and are printed, in the order of the suite. A run that fails is a result.
///
/// The suite lives for ever, since an image that was given up may still be worked on.
pub fn run(suite: &'static Suite, cases: &[&'static Case], settings: &'static Settings) -> Vec<CaseResult> {
    let session = Session {
        suite,
        settings,
        suite_file: remedy::shown_path(&suite.path),
        emulator_versions: settings.cache.as_ref().map_or_else(String::new, |_| emulator_versions()),
        bars: Bars::new(cases.len(), settings.has_progress),
    };
    Arc::new(session).run_all(cases, settings.jobs)
}

/// The versions of all emulators that are installed.
fn emulator_versions() -> String {
    let version = |program| Some(format!("{program} {};", emulator::version(&emulator::locate(program).ok()?).ok()?));
    thread::scope(|scope| {
        let asked: Vec<_> =
            machine::emulators().into_iter().map(|program| scope.spawn(move || version(program))).collect();
        asked.into_iter().filter_map(|asked| asked.join().ok()?).collect()
    })
}

/// A case's name as the stem of a file's name.
pub fn file_stem(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.,=[]+".contains(c);
    name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// The file in which a suite's baseline has a case's numbers.
pub fn baseline_file(suite: &Suite, baseline: &str, case: &Case) -> PathBuf {
    suite.baselines.join(baseline).join(format!("{}.baseline", file_stem(&case.name)))
}

/// Listens to one run: keeps its messages for the result, and shows how far it has come.
struct Collector<'a> {
    messages: Vec<String>,
    bar: &'a crate::run::progress::Bar,
}

impl Listener for Collector<'_> {
    fn say(&mut self, line: &str) {
        self.messages.push(line.to_owned());
    }

    // The machine is in the result already.
    fn choice(&mut self, _line: &str) {}

    // The command says it once.
    fn host(&mut self, _line: &str) {}

    // It is no finding about the firmware.
    fn slow(&mut self, _line: &str) {}

    fn progress(&mut self, progress: Progress) {
        self.bar.update(progress);
    }
}

impl Session {
    /// Runs the cases on so many threads; results come, and are printed, in the order of the suite.
    fn run_all(self: &Arc<Self>, cases: &[&'static Case], jobs: usize) -> Vec<CaseResult> {
        let next = AtomicUsize::new(0);
        let finished: Mutex<BTreeMap<usize, CaseResult>> = Mutex::default();
        let width = cases.iter().map(|case| case.name.chars().count()).max().unwrap_or(0);
        let printed = Mutex::new(0);
        let work = &|| {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = cases.get(index) else { break };
                let result = if INTERRUPTED.load(Ordering::Relaxed) {
                    let why = "it was not run: interrupted";
                    CaseResult::without_run(&case.name, &case.tags, ExitCode::Limit, why)
                } else {
                    self.run(case)
                };
                let result = self.with_remedies(case, result);
                self.bars.finished();
                let mut finished = finished.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                finished.insert(index, result);
                let mut printed = printed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                while let Some(result) = finished.get(&printed) {
                    let mut text = Vec::new();
                    // Writing to memory cannot fail.
                    let is_shown = match self.settings.shown {
                        Shown::All => true,
                        Shown::Noteworthy => !lines::has_nothing_to_say(result),
                        Shown::Nothing => false,
                    };
                    if is_shown {
                        let _ = lines::case(result, width, Some(&self.settings.directory), &mut text);
                    }
                    // A reader that has seen enough does not stop the suite; the exit code still counts.
                    self.bars.above(|| drop(terminal::stdout().write_all(&text)));
                    *printed += 1;
                }
            }
        };
        let cores = &Cores::allowed();
        let jobs = jobs.min(cases.len());
        thread::scope(|scope| {
            for job in 0..jobs {
                scope.spawn(move || {
                    cores.stay(job, jobs);
                    work();
                });
            }
        });
        self.bars.clear();
        let finished = finished.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        finished.into_values().collect()
    }

    /// Runs a case on a thread of its own. Nothing can end a thread: one that takes too long, or that the user does not
    /// want to wait for, is left behind, comes to nothing, and ends with the process.
    fn run(self: &Arc<Self>, case: &'static Case) -> CaseResult {
        let deadline = Deadline::new(case.options.timeout);
        let (send, receive) = mpsc::channel();
        let (session, until) = (Arc::clone(self), Arc::clone(&deadline));
        // QEMU ends with the thread that starts it, and so may not be started by one that is kept for another case.
        let started = thread::Builder::new().name(case.name.replace('\0', "")).spawn(move || {
            // A case that was given up is not waited for.
            let _ = send.send(session.try_run(case, &until));
        });
        let failed = |code, why: &str| CaseResult::without_run(&case.name, &case.tags, code, why);
        if let Err(error) = started {
            return failed(ExitCode::Usage, &format!("it was not run: there is no thread for it ({error})"));
        }
        loop {
            let why = match receive.recv_timeout(GLANCE) {
                Ok(Ok(result)) => return result,
                Ok(Err(error)) => match error.downcast::<GivenUp>() {
                    Ok(why) => why,
                    Err(error) => return failed(ExitCode::of_error(&error), &format!("{error:#}")),
                },
                Err(RecvTimeoutError::Timeout) => match deadline.look() {
                    Some(why) => why,
                    None => continue,
                },
                Err(RecvTimeoutError::Disconnected) => {
                    return failed(ExitCode::Usage, "harness itself failed here, as standard error says");
                }
            };
            let profile = deadline.has_profile().then(|| profile_directory(case));
            return CaseResult { profile, ..failed(ExitCode::Limit, why.0) };
        }
    }

    /// Adds where the case is described, and what can be done about it.
    fn with_remedies(&self, case: &Case, result: CaseResult) -> CaseResult {
        CaseResult {
            place: Some((self.suite_file.clone(), u32::try_from(case.line).unwrap_or(u32::MAX))),
            repeat: self.settings.command.repeat(&case.name),
            ..result
        }
    }

    fn try_run(&self, case: &Case, deadline: &Arc<Deadline>) -> Result<CaseResult> {
        let needs_marks = case.expect.console.iter().any(|line| line.by_insns.is_some());
        let sandbox = self.settings.sandbox;
        let options = Options { console_marks: needs_marks, sandbox, ..case.options.clone() };
        let target = self.settings.directory.join(profile_directory(case));
        let output = Output::prepare_within(target, Arc::clone(deadline))?;
        let key = self.settings.cache.as_ref().and_then(|cache| cache.key(&options, &self.emulator_versions));
        let known = self.settings.cache.as_ref().zip(key.as_ref()).and_then(|(cache, key)| cache.get(key));
        let is_known = known.is_some();
        let printed = output.run_directory().join(CONSOLE);
        let Hit { mut profile, mut console, mut messages } = match known {
            Some(hit) => hit,
            None => {
                let bar = self.bars.add(&case.name, options.window.for_insns.unwrap_or(0));
                let mut collector = Collector { messages: Vec::new(), bar: &bar };
                let measured = measure(&options, &output, &mut collector);
                let messages = collector.messages;
                bar.finish();
                let measured = measured?;
                let console = fs::read(&measured.console).unwrap_or_default();
                Hit { profile: measured.profile, console, messages }
            }
        };
        export::write(&profile, &options, &output)?;
        if is_known {
            output.write(CONSOLE, &console)?;
        } else {
            output.take_console(&printed)?;
        }
        messages.extend(output.shortened());
        let directory = output.commit()?;
        if let (Some(cache), Some(key), false) = (&self.settings.cache, &key, is_known) {
            // Where this fails it runs again next time; nothing else is lost.
            let _ = cache.put(key, &profile, &directory, &messages);
        }
        match Decoder::of(options.symbol_file(), false) {
            Ok(None) => {}
            Ok(Some(decoder)) => console = words(decoder, &console, &mut profile.console_marks),
            Err(why) => messages.push(format!("what the firmware logs by defmt cannot be decoded: {why}")),
        }
        self.evaluate(case, &profile, &console, messages, deadline)
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
                insns,
                samples: profile.samples.len() as u64,
                virtual_ns: insns.saturating_mul(1 << facts.icount_shift),
            }),
            findings: vec![ending],
            comparison: None,
            warnings: work::blind(case, &facts.end, insns).into_iter().chain(trouble(profile)).collect(),
            messages,
            repeat: String::new(),
            accept: None,
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
        // All at once, whatever else has failed: each says something of its own.
        result.findings.extend(case.expect.strict.then(|| cross_check(profile)));
        result.findings.extend(assertions(case, profile, &new.metrics));
        if case.assertions.iter().any(|assertion| assertion.unclear(profile, &new.metrics).is_some()) {
            result.raise(ExitCode::Usage);
        }
        if result.failures().next().is_some() {
            result.raise(ExitCode::Firmware);
        }
        result.at = landing::of_failure(case, profile, &result.findings);
        self.compare(case, profile, (&new, ended_well), deadline, &mut result)?;
        if !result.passed() {
            result.console_tail = tail(console);
        }
        Ok(result)
    }

    /// Holds the numbers against thresholds and the baseline, and keeps them where that is asked for. Of a run that did
    /// not end well, only what is too much already is said: that it did less says nothing.
    fn compare(
        &self,
        case: &Case,
        profile: &Profile,
        (new, ended_well): (&Baseline, bool),
        deadline: &Deadline,
        result: &mut CaseResult,
    ) -> Result<()> {
        let file = |name: &String| baseline_file(self.suite, name, case);
        let save = |name: &String| -> Result<()> {
            deadline.check()?;
            Ok(new.save(&file(name))?)
        };
        let old = self.settings.baseline.as_ref().map(|name| Baseline::load(&file(name))).transpose()?.flatten();
        // Without a baseline, ceilings hold all the same.
        let compared = compare(old.as_ref().map(|old| &old.metrics), &new.metrics);
        let (meant, mut unclear) = meant(case, profile, &new.metrics, &compared);
        let (mut findings, mut is_by_baseline) = thresholds(case, profile, &meant, &compared);
        if ended_well {
            let judged = work::judge(&case.work, &meant, &compared, old.is_some());
            is_by_baseline |=
                judged.judgements.iter().any(|judgement| judgement.crossed && judgement.is_by_baseline());
            findings.extend(work_findings(profile, &judged));
            unclear.extend(judged.blind.into_iter().map(|why| {
                Finding::failed(FindingKind::Threshold, "a limit on work that can be judged", &*why, &*why)
            }));
        }
        if !unclear.is_empty() {
            result.raise(ExitCode::Usage);
        }
        result.findings.extend(unclear);
        if findings.iter().any(|finding| !finding.passed) && result.at.is_none() {
            let judgements = judge(&case.thresholds, &meant, &compared);
            let mut crossed = judgements.iter().filter(|judgement| judgement.crossed);
            let function = crossed.find(|judgement| judgement.metric.subject() == Subject::Function);
            result.at = landing::of_growth(profile, &compared, function.map(|judgement| &*judgement.subject));
        }
        if findings.iter().any(|finding| !finding.passed) {
            result.raise(ExitCode::Regression);
        }
        result.findings.extend(findings);
        let accept = |name: &String| self.settings.command.accept(&case.name, name);
        match (&self.settings.baseline, &old) {
            (Some(name), Some(old)) => {
                // Numbers of a run that failed otherwise are not saved.
                if is_by_baseline && result.code() == ExitCode::Regression {
                    result.accept = Some(accept(name));
                }
                if self.settings.ratchet && result.passed() && is_better(&compared) {
                    save(name)?;
                    result.messages.push(format!("baseline {name} tightened"));
                }
                if ended_well {
                    result.comparison = Some(ComparisonResult::new(compared, old.mismatches(new)));
                }
            }
            (Some(name), None) if ended_well && self.settings.save_baseline.as_ref() != Some(name) => {
                result.accept = (result.code() >= ExitCode::Regression).then(|| accept(name));
                let message = format!("there is no baseline {name:?}; make it with --save-baseline {name}");
                let expected = format!("a baseline {name:?}");
                result.findings.push(Finding::failed(FindingKind::Threshold, expected, "there is none", message));
                result.raise(ExitCode::Usage);
            }
            _ => {}
        }
        if let Some(name) = &self.settings.save_baseline {
            if result.code() >= ExitCode::Regression {
                save(name)?;
            } else {
                result.messages.push(format!("baseline {name} not saved: the run failed"));
            }
        }
        Ok(())
    }
}

/// What is to be said of a run that is no failure: that it did nothing but to poll, or faulted last.
fn trouble(profile: &Profile) -> Option<String> {
    if profile.facts.only.standstill.is_some() {
        // Said as what was expected, or was not.
        return None;
    }
    let line = describe::describe_trouble(profile)?;
    // What is none has ended the run, and is said as its end.
    line.strip_prefix("warning: ").map(str::to_owned)
}

/// Where the profile of a case is, from the directory of the reports on.
pub fn profile_directory(case: &Case) -> String {
    format!("{}.profile", file_stem(&case.name))
}

fn cross_check(profile: &Profile) -> Finding {
    let check = crosscheck::check(profile, &functions::table(profile));
    let expected = "the firmware's own counts are the exact ones";
    match (check.counts_agree(), check.faults.first()) {
        (true, _) => Finding::met(FindingKind::CrossCheck, expected, "they do"),
        (false, Some(fault)) => Finding::failed(FindingKind::CrossCheck, expected, fault, format!("strict: {fault}")),
        (false, None) => {
            let actual = "they differ: harness profile --strict names each one";
            let message =
                "strict: the firmware's own counts are not the exact ones; harness profile --strict names each";
            Finding::failed(FindingKind::CrossCheck, expected, actual, message)
        }
    }
}

fn assertions(case: &Case, profile: &Profile, metrics: &Metrics) -> Vec<Finding> {
    if case.assertions.is_empty() {
        return Vec::new();
    }
    let file = case.options.symbols.as_ref().unwrap_or(&case.options.firmware);
    let elf = given::read(file).ok();
    let symbols = Symbols::new(elf.as_deref(), profile.facts.load_bias, profile.facts.is_arm());
    let exists = crate::gate::assertion::finder(&symbols);
    let findings = case.assertions.iter().map(|assertion| {
        let outcome = assertion.check(profile, metrics, &exists);
        let (kind, expected) = (FindingKind::Assertion, assertion.to_string());
        if outcome.holds {
            return Finding::met(kind, expected, outcome.actual);
        }
        let names = assertion.function().and_then(|name| lookup::keys(profile, metrics, name).ok());
        let place = names.iter().flatten().find_map(|name| defined(profile, name));
        let message = format!("{expected} does not hold: {}", outcome.actual);
        Finding::failed(kind, expected, outcome.actual, message).at(place)
    });
    findings.collect()
}

/// The functions that limits' patterns stand for where those are names, those of before with them, and a finding for
/// each that names different functions.
fn meant(case: &Case, profile: &Profile, metrics: &Metrics, compared: &Comparison) -> (Meant, Vec<Finding>) {
    let (mut meant, mut unclear) = (Meant::new(), Vec::new());
    let of_functions = case.thresholds.iter().filter(|threshold| threshold.metric.subject() == Subject::Function);
    let of_functions = of_functions.map(|threshold| (threshold.metric.word(), &threshold.pattern));
    let of_work = case.work.iter().map(|work| (work::WORD, &work.pattern));
    for (word, pattern) in of_functions.chain(of_work).filter(|(_, pattern)| pattern.is_name()) {
        if metrics.functions.keys().any(|key| pattern.matches(&key.name)) {
            continue;
        }
        match lookup::keys(profile, metrics, &pattern.text) {
            Ok(mut names) => {
                names.extend(vanished(&pattern.text, &names, compared));
                meant.insert(pattern.text.clone(), names);
            }
            Err(actual) => {
                let expected = format!("a function that thresholds.{word} means by {:?}", pattern.text);
                let message = format!("thresholds.{word}: {actual}");
                unclear.push(Finding::failed(FindingKind::Threshold, expected, actual, message));
            }
        }
    }
    (meant, unclear)
}

/// Instances of the generic that a name means which only ran before: what the others do instead is no growth.
fn vanished(pattern: &str, names: &BTreeSet<String>, compared: &Comparison) -> Vec<String> {
    let Some(one) = names.first() else { return Vec::new() };
    let gone = compared.functions.iter().filter(|change| change.fate == Fate::Vanished);
    let gone: Vec<&str> = gone.map(|change| &*change.plain_name).filter(|name| !names.contains(*name)).collect();
    let called =
        symbols::called(&key_name(pattern.trim()), gone.iter().copied()).into_iter().map(|index| gone[index]);
    called.filter(|name| symbols::are_instances([("", &**one), ("", *name)].into_iter())).map(str::to_owned).collect()
}

/// A finding for each threshold that was crossed, or one that says that none was; and whether another baseline would
/// let one pass.
fn thresholds(case: &Case, profile: &Profile, meant: &Meant, compared: &Comparison) -> (Vec<Finding>, bool) {
    let judgements = judge(&case.thresholds, meant, compared);
    let is_by_baseline = judgements.iter().any(|judgement| judgement.crossed && !judgement.limit.is_absolute());
    let crossed = judgements.iter().filter(|judgement| judgement.crossed).map(|judgement| {
        let subject = &judgement.subject;
        let place = match judgement.metric.subject() {
            Subject::Function => {
                let names = meant.get(subject).into_iter().flatten().map(String::as_str);
                names.chain([subject.as_str()]).find_map(|name| defined(profile, name))
            }
            // What accounts for the most of it.
            Subject::Run => {
                let grown = compared.functions.iter().filter(|change| change.self_insns().difference() > 0);
                grown.filter(|_| judgement.numbers.before.is_some()).find_map(|change| defined(profile, &change.name))
            }
            Subject::Task | Subject::Zone => None,
        };
        let expected = format!("{}, allowed {}", judgement.what(), judgement.limit.describe());
        let actual = group(judgement.numbers.after.unwrap_or(0));
        Finding::failed(FindingKind::Threshold, expected, actual, judgement.describe()).at(place)
    });
    let crossed: Vec<Finding> = crossed.collect();
    if crossed.is_empty() && !judgements.is_empty() {
        let actual = format!("{} numbers are", judgements.len());
        return (vec![Finding::met(FindingKind::Threshold, "within thresholds", actual)], false);
    }
    (crossed, is_by_baseline)
}

/// A finding for each limit on work that was crossed, or one that says that none was.
fn work_findings(profile: &Profile, judged: &Judged) -> Vec<Finding> {
    let crossed = judged.judgements.iter().filter(|judgement| judgement.crossed).map(|judgement| {
        let place = judgement.function.as_ref().and_then(|function| defined(profile, function));
        let actual = group(judgement.numbers.after.unwrap_or(0));
        Finding::failed(FindingKind::Threshold, judgement.allowed(), actual, judgement.describe()).at(place)
    });
    let crossed: Vec<Finding> = crossed.collect();
    if crossed.is_empty() && !judged.judgements.is_empty() {
        let actual = format!("{} numbers are", judged.judgements.len());
        return vec![Finding::met(FindingKind::Threshold, "as much work as before", actual)];
    }
    crossed
}

/// Whether a run is better than its baseline and nowhere worse as a whole.
fn is_better(comparison: &Comparison) -> bool {
    let change = comparison.total_insns().difference();
    change < 0 || (change == 0 && comparison.tasks.iter().any(|task| task.numbers[Metric::Stack].difference() < 0))
}

/// What frames say. The marks then tell how much of that there was.
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

/// The last lines of what was printed, without what a terminal would obey.
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
    use crate::profile::testing::empty;

    #[test]
    fn an_instance_that_took_the_place_of_another_is_no_growth() {
        let metrics = |names: &[&str]| {
            let profile = (0..).zip(names).fold(empty(), |profile, (index, name)| {
                profile.function(name, 0x40 + index * 0x10, 4).insn(0x40 + index * 0x10, 100)
            });
            Metrics::of(&profile)
        };
        let before = metrics(&["sort::<u8>", "sort::<i8>", "app::sort::<u8>", "resort::<u8>", "main"]);
        let after = metrics(&["sort::<u16>", "sort::<i8>", "main"]);
        let compared = compare(Some(&before), &after);
        let names = ["sort::<u16>", "sort::<i8>"].map(str::to_owned).into();
        assert_eq!(vanished("sort", &names, &compared), ["sort::<u8>"]);
        assert_eq!(vanished("main", &["main".to_owned()].into(), &compared), [""; 0]);
        assert_eq!(vanished("sort", &BTreeSet::new(), &compared), [""; 0]);
    }
}
