//! `harness test`: a suite of images, run over all cores, held against expectations and a baseline.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::Result;

use crate::analysis::compare::{Comparison, compare};
use crate::analysis::crosscheck;
use crate::analysis::describe::ExitCode;
use crate::analysis::functions;
use crate::analysis::metrics::{Metrics, stable_name};
use crate::cli::TestArgs;
use crate::cli::resolve::Options;
use crate::export::{self, CONSOLE};
use crate::gate::baseline::Baseline;
use crate::gate::cache::{Cache, Hit};
use crate::gate::expect::{self, Finding, FindingKind};
use crate::gate::filter::Filter;
use crate::gate::result::{self, CaseReport, ComparisonReport, Report, RunReport};
use crate::gate::suite::{self, Case, Suite};
use crate::gate::threshold::judge;
use crate::gate::{junit, lines, markdown};
use crate::image::InputError;
use crate::image::symbols::Symbols;
use crate::measure::{Listener, measure};
use crate::profile::Profile;
use crate::run::cores::Cores;
use crate::run::directory::{Output, unwritable};
use crate::run::plan::INTERRUPTED;
use crate::run::process;
use crate::run::progress::Bars;
use crate::run::records::Progress;

/// Lines of the console that a failure shows.
const TAIL_LINES: usize = 10;

/// Longest line of them.
const TAIL_CHARS: usize = 200;

/// Everything that all cases share.
struct Session<'a> {
    suite: &'a Suite,
    /// Where reports and profiles go.
    directory: &'a Path,
    cache: Option<Cache>,
    emulator_versions: String,
    baseline: Option<String>,
    save_baseline: Option<String>,
    ratchet: bool,
    bars: Bars,
}

/// Runs the command.
///
/// # Errors
/// When the suite cannot be read or the reports cannot be written.
pub fn run(args: TestArgs) -> Result<ExitCode> {
    if args.schema {
        stdout().write_all(Report::schema()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let suite = Suite::load(&suite::find(args.suite.as_deref())?)?;
    let filters = args.filter.iter().map(|text| Filter::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let is_chosen =
        |case: &&Case| filters.is_empty() || filters.iter().any(|filter| filter.matches(&case.name, &case.tags));
    let chosen: Vec<&Case> = suite.cases.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        return Err(InputError::about(&suite.path, "no image matches the filter; --list shows all of them").into());
    }
    if args.list {
        let mut out = stdout().lock();
        for case in chosen {
            writeln!(out, "{}{}", case.name, case.tags.iter().map(|tag| format!(" #{tag}")).collect::<String>())?;
        }
        return Ok(ExitCode::Good);
    }
    let baseline = args.baseline.clone().or_else(|| suite.baseline.clone());
    for name in baseline.iter().chain(&args.save_baseline) {
        // A name becomes a directory.
        if name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
            return Err(
                InputError::new(format!("baseline {name:?}: a name has no / and does not begin with .")).into()
            );
        }
    }
    if args.ratchet && baseline.is_none() {
        return Err(InputError::new("--ratchet tightens a baseline: name it with --baseline").into());
    }
    let mine: Vec<&Case> = match args.shard {
        None => chosen.clone(),
        Some((part, parts)) => {
            let cost = |case: &&Case| {
                let path = baseline.as_ref().map(|name| baseline_file(&suite, name, case));
                let known = path.and_then(|path| Baseline::load(&path).ok().flatten());
                known.map_or(0, |known| known.metrics.total_insns)
            };
            let part = result::shard(&chosen.iter().map(cost).collect::<Vec<_>>(), part, parts);
            part.into_iter().map(|index| chosen[index]).collect()
        }
    };
    let directory = args.output.clone().unwrap_or_else(|| PathBuf::from("harness-report"));
    fs::create_dir_all(&directory).map_err(|error| unwritable(&directory, &error))?;

    // Fails only where a handler is set already; then that one decides.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
    let session = Session {
        suite: &suite,
        directory: &directory,
        cache: if args.no_cache { None } else { Cache::open(args.cache_dir.clone()) },
        emulator_versions: if args.no_cache { String::new() } else { emulator_versions() },
        baseline: baseline.clone(),
        save_baseline: args.save_baseline.clone(),
        ratchet: args.ratchet,
        bars: Bars::new(mine.len()),
    };
    let jobs = args.jobs.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from);
    let cases = session.run_all(&mine, jobs);
    let report = Report {
        format: result::FORMAT.to_owned(),
        version: result::VERSION,
        harness_version: env!("CARGO_PKG_VERSION").to_owned(),
        suite: suite.name.clone(),
        baseline,
        chosen: chosen.iter().map(|case| case.name.clone()).collect(),
        cases,
    };
    finish(&report, &directory)
}

/// Writes the reports and the verdict. Shared with `harness merge`.
///
/// # Errors
/// When they cannot be written.
pub fn finish(report: &Report, directory: &Path) -> Result<ExitCode> {
    let write = |name: &str, bytes: &[u8]| {
        let path = directory.join(name);
        fs::write(&path, bytes).map_err(|error| unwritable(&path, &error))
    };
    write(export::REPORT, report.to_json()?.as_bytes())?;
    let (mut xml, mut summary) = (Vec::new(), Vec::new());
    junit::write(report, &mut xml)?;
    write(export::JUNIT, &xml)?;
    markdown::write(report, &mut summary)?;
    write(export::SUMMARY, &summary)?;
    if let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        let appended = fs::OpenOptions::new().create(true).append(true).open(&path);
        appended.and_then(|mut file| file.write_all(&summary)).map_err(|error| {
            InputError::about(&path, format_args!("GITHUB_STEP_SUMMARY cannot be written: {error}"))
        })?;
    }
    let mut out = Vec::new();
    if std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true") {
        lines::annotations(report, &mut out)?;
    }
    lines::verdict(report, &mut out)?;
    let files = [export::REPORT, export::JUNIT, export::SUMMARY].join(", ");
    writeln!(out, "reports in {}: {files}", directory.display())?;
    // A reader that has seen enough (`| head`) does not make a failure a success.
    match stdout().lock().write_all(&out) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(report.code()),
    }
}

/// The versions of all emulators that are installed.
fn emulator_versions() -> String {
    let version = |program| Some(format!("{program} {};", process::version(&process::locate(program).ok()?).ok()?));
    let programs = ["qemu-system-arm", "qemu-system-riscv32", "qemu-system-riscv64"];
    thread::scope(|scope| {
        let asked = programs.map(|program| scope.spawn(move || version(program)));
        asked.into_iter().filter_map(|asked| asked.join().ok()?).collect()
    })
}

/// A case's name as that of a file.
fn file_stem(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.,=[]+".contains(c);
    name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

fn baseline_file(suite: &Suite, baseline: &str, case: &Case) -> PathBuf {
    suite.baselines.join(baseline).join(format!("{}.baseline", file_stem(&case.name)))
}

/// Collects what is said, and shows how far the run has come.
struct Collector<'a> {
    messages: Vec<String>,
    bar: &'a crate::run::progress::Bar,
}

impl Listener for Collector<'_> {
    fn say(&mut self, line: &str) {
        self.messages.push(line.to_owned());
    }

    // It is in the report.
    fn choice(&mut self, _line: &str) {}

    fn progress(&mut self, progress: Progress) {
        self.bar.update(progress);
    }
}

impl Session<'_> {
    /// Runs the cases on so many threads; results come, and are printed, in the order of the suite.
    fn run_all(&self, cases: &[&Case], jobs: usize) -> Vec<CaseReport> {
        let next = AtomicUsize::new(0);
        let finished: Mutex<BTreeMap<usize, CaseReport>> = Mutex::default();
        let width = cases.iter().map(|case| case.name.chars().count()).max().unwrap_or(0);
        let printed = Mutex::new(0);
        let work = &|| {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = cases.get(index) else { break };
                let report = if INTERRUPTED.load(Ordering::Relaxed) {
                    let why = "it was not run: interrupted";
                    CaseReport::without_run(&case.name, &case.tags, ExitCode::Limit, why)
                } else {
                    self.run(case)
                };
                self.bars.finished();
                let mut finished = finished.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                finished.insert(index, report);
                let mut printed = printed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                while let Some(report) = finished.get(&printed) {
                    let mut text = Vec::new();
                    // Writing to memory cannot fail.
                    let _ = lines::case(report, width, &mut text);
                    // A reader that has seen enough does not stop the suite; the exit code still counts.
                    self.bars.above(|| drop(stdout().lock().write_all(&text)));
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

    fn run(&self, case: &Case) -> CaseReport {
        match self.try_run(case) {
            Ok(report) => report,
            Err(error) => {
                let code = ExitCode::of_error(&error);
                CaseReport::without_run(&case.name, &case.tags, code, &format!("{error:#}"))
            }
        }
    }

    fn try_run(&self, case: &Case) -> Result<CaseReport> {
        let needs_marks = case.expect.console.iter().any(|line| line.by_insns.is_some());
        let options = Options { console_marks: needs_marks, ..case.options.clone() };
        let target = self.directory.join(format!("{}.profile", file_stem(&case.name)));
        let output = Output::prepare(target)?;
        let key = self.cache.as_ref().and_then(|cache| cache.key(&options, &self.emulator_versions));
        let known = self.cache.as_ref().zip(key.as_ref()).and_then(|(cache, key)| cache.get(key));
        let is_known = known.is_some();
        let Hit { profile, console, messages } = match known {
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
        output.write(CONSOLE, &console)?;
        let directory = output.commit()?;
        if let (Some(cache), Some(key), false) = (&self.cache, &key, is_known) {
            // Where this fails it runs again next time; nothing else is lost.
            let _ = cache.put(key, &profile, &directory, &messages);
        }
        self.evaluate(case, &profile, &console, messages)
    }

    fn evaluate(&self, case: &Case, profile: &Profile, console: &[u8], messages: Vec<String>) -> Result<CaseReport> {
        let facts = &profile.facts;
        let insns = profile.total_insns();
        let (ending, code) = expect::ending(&case.expect, profile);
        let ended_well = ending.passed;
        let mut report = CaseReport {
            name: case.name.clone(),
            tags: case.tags.clone(),
            exit_code: code.status(),
            end: crate::analysis::describe::describe_end(profile),
            run: Some(RunReport {
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
            messages,
            console_tail: Vec::new(),
        };
        report.findings.extend(expect::console(&case.expect, profile, console));
        // The numbers of half a run say nothing.
        let new = ended_well.then(|| Baseline::of(profile));
        if let Some(new) = &new {
            report.findings.extend(case.expect.strict.then(|| cross_check(profile)));
            report.findings.extend(assertions(case, profile, &new.metrics));
        }
        if report.failures().next().is_some() {
            report.raise(ExitCode::Firmware);
        }
        if let Some(new) = &new {
            self.compare(case, profile, new, &mut report)?;
        }
        if !report.passed() {
            report.console_tail = tail(console);
        }
        Ok(report)
    }

    /// Holds the numbers against thresholds and the baseline, and keeps them where that is asked for.
    fn compare(&self, case: &Case, profile: &Profile, new: &Baseline, report: &mut CaseReport) -> Result<()> {
        let file = |name: &String| baseline_file(self.suite, name, case);
        let old = self.baseline.as_ref().map(|name| Baseline::load(&file(name))).transpose()?.flatten();
        // Without a baseline, ceilings hold all the same.
        let compared = compare(old.as_ref().map(|old| &old.metrics), &new.metrics);
        let findings = thresholds(case, profile, &compared);
        if findings.iter().any(|finding| !finding.passed) {
            report.raise(ExitCode::Regression);
        }
        report.findings.extend(findings);
        match (&self.baseline, &old) {
            (Some(name), Some(old)) => {
                if self.ratchet && report.passed() && is_better(&compared) {
                    new.save(&file(name))?;
                    report.messages.push(format!("baseline {name} tightened"));
                }
                report.comparison = Some(reduce(compared, old.mismatches(new)));
            }
            (Some(name), None) if self.save_baseline.as_ref() != Some(name) => {
                report.findings.push(Finding {
                    kind: FindingKind::Threshold,
                    passed: false,
                    expected: format!("has a baseline {name:?}"),
                    actual: format!("there is none; make it with --save-baseline {name}"),
                    place: None,
                });
                report.raise(ExitCode::Usage);
            }
            _ => {}
        }
        if let Some(name) = &self.save_baseline {
            if report.code() >= ExitCode::Regression {
                new.save(&file(name))?;
            } else {
                report.messages.push(format!("baseline {name} not saved: the run failed"));
            }
        }
        Ok(())
    }
}

fn cross_check(profile: &Profile) -> Finding {
    let check = crosscheck::check(profile, &functions::table(profile));
    let passed = check.counts_agree();
    let actual = if passed { "they do" } else { "they differ: harness profile --strict names each one" };
    Finding {
        kind: FindingKind::CrossCheck,
        passed,
        expected: "the firmware's own counts are the exact ones".to_owned(),
        actual: actual.to_owned(),
        place: None,
    }
}

fn assertions(case: &Case, profile: &Profile, metrics: &Metrics) -> Vec<Finding> {
    if case.assertions.is_empty() {
        return Vec::new();
    }
    let file = case.options.symbols.as_ref().unwrap_or(&case.options.firmware);
    let elf = fs::read(file).ok();
    let symbols = Symbols::new(elf.as_deref(), profile.facts.load_bias, !profile.facts.isa.starts_with("riscv"));
    let exists = crate::gate::assertion::finder(&symbols);
    let findings = case.assertions.iter().map(|assertion| {
        let outcome = assertion.check(profile, metrics, &exists);
        Finding {
            kind: FindingKind::Assertion,
            passed: outcome.holds,
            expected: assertion.to_string(),
            actual: outcome.actual,
            place: None,
        }
    });
    findings.collect()
}

/// Each threshold that was crossed, or that none was.
fn thresholds(case: &Case, profile: &Profile, compared: &Comparison) -> Vec<Finding> {
    let judgements = judge(&case.thresholds, compared);
    let finding = |passed, expected: &str, actual, place| Finding {
        kind: FindingKind::Threshold,
        passed,
        expected: expected.to_owned(),
        actual,
        place,
    };
    let crossed = judgements.iter().filter(|judgement| judgement.crossed).map(|judgement| {
        let mut functions = profile.names.functions.iter();
        let function = functions.find(|function| stable_name(&function.name) == judgement.subject);
        let place = function.and_then(|function| Some((function.file.clone()?, function.line?)));
        finding(false, "stays within its threshold", judgement.describe(), place)
    });
    let crossed: Vec<Finding> = crossed.collect();
    if crossed.is_empty() && !judgements.is_empty() {
        let actual = format!("{} numbers do", judgements.len());
        return vec![finding(true, "stays within its thresholds", actual, None)];
    }
    crossed
}

/// Whether a run is better than its baseline and nowhere worse as a whole.
fn is_better(comparison: &Comparison) -> bool {
    comparison.total_insns.difference() < 0
        || (comparison.total_insns.difference() == 0
            && comparison.tasks.iter().any(|task| task.stack_bytes.difference() < 0))
}

/// What changed, for the report.
fn reduce(comparison: Comparison, mismatches: Vec<String>) -> ComparisonReport {
    let explanation = comparison.explain();
    let Comparison { total_insns, functions, tasks } = comparison;
    ComparisonReport {
        total_insns,
        explanation,
        mismatches,
        functions: functions.into_iter().filter(crate::analysis::compare::Change::is_one).collect(),
        tasks: tasks.into_iter().filter(crate::analysis::compare::TaskChange::is_one).collect(),
    }
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
