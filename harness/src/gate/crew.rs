// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of a suite: its images over all cores, each in a worker whose failure does not affect the other images.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;
use std::{fs, thread};

use crate::exit_code::ExitCode;
use crate::gate::lines;
use crate::gate::rerun_command::{Command, Root};
use crate::gate::result::CaseResult;
use crate::gate::session::{CacheUse, Settings, Shown, profile_directory};
use crate::gate::suite::{Case, Suite, stranger};
use crate::gate::worker::{Outcome, Setup, Worker};
use crate::machine;
use crate::run::contain::host;
use crate::run::qemu::cores::Cores;
use crate::run::qemu::emulator;
use crate::run::qemu::tricks;
use crate::run::store::directory;
use crate::run::watch::interrupt::INTERRUPTED;
use crate::run::watch::progress::{Bar, Bars};
use crate::text::number::plural;
use crate::text::printable::printable;
use crate::text::terminal;

/// A running suite: data that all of its cases share.
struct Crew<'a> {
    setup: Setup,
    settings: &'a Settings,
    /// Path of the suite's file, as failures show it.
    suite_file: String,
    /// Command for repeating a case from the project's root.
    command: Command,
    bars: Bars,
    /// Whether the suite is untrusted, so that its time and its profiles are bounded.
    is_untrusted: bool,
    started: Instant,
    /// Bytes of all profiles so far.
    kept_bytes: AtomicU64,
    /// Number of results that came from the cache.
    hits: AtomicUsize,
    /// First failure of the cache.
    cache_error: OnceLock<String>,
}

/// Runs cases of a suite. Results are returned, and printed, in the order of the suite. A failed run has a result, too.
pub fn run(suite: &Suite, cases: &[&Case], settings: &Settings) -> Vec<CaseResult> {
    let emulator_versions = settings.cache.as_ref().map_or_else(String::new, |_| emulator_versions());
    let root = Root::of(&suite.path);
    let crew = Crew {
        setup: Setup::new(suite, settings, emulator_versions),
        settings,
        suite_file: root.path(&suite.path).display().to_string(),
        command: root.command(&suite.path, &settings.command),
        bars: Bars::new(cases.len(), settings.has_progress),
        is_untrusted: suite.folder.is_some(),
        started: Instant::now(),
        kept_bytes: AtomicU64::new(0),
        hits: AtomicUsize::new(0),
        cache_error: OnceLock::new(),
    };
    let results = crew.run_all(cases, settings.jobs);
    crew.report_cache(cases.len());
    results
}

/// Versions of all installed emulators, and whether only their plugin API is used.
fn emulator_versions() -> String {
    let version = |program| Some(format!("{program} {};", emulator::version(&emulator::locate(program).ok()?).ok()?));
    let mut versions: String = thread::scope(|scope| {
        let asked: Vec<_> =
            machine::emulators().into_iter().map(|program| scope.spawn(move || version(program))).collect();
        asked.into_iter().filter_map(|asked| asked.join().ok()?).collect()
    });
    if tricks::is_off() {
        versions.push_str("by their plugin API alone");
    }
    versions
}

impl Crew<'_> {
    /// Runs the cases on `jobs` threads, each with a worker; results are returned, and printed, in the order of the
    /// suite.
    fn run_all(&self, cases: &[&Case], jobs: usize) -> Vec<CaseResult> {
        let next = AtomicUsize::new(0);
        let finished: Mutex<BTreeMap<usize, CaseResult>> = Mutex::default();
        let width = cases.iter().map(|case| case.name.chars().count()).max().unwrap_or(0);
        let printed = Mutex::new(0);
        let work = &|| {
            let mut worker = None;
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = cases.get(index) else { break };
                let result = if INTERRUPTED.load(Ordering::Relaxed) {
                    failed(case, ExitCode::Limit, "it was not run: interrupted")
                } else if let Some(why) = self.is_over() {
                    failed(case, ExitCode::Limit, why)
                } else {
                    self.run(case, &mut worker)
                };
                self.keep(&result);
                let result = self.with_remedies(case, result);
                self.bars.finished();
                let mut finished = finished.lock().unwrap_or_else(PoisonError::into_inner);
                finished.insert(index, result);
                let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
                while let Some(result) = finished.get(&printed) {
                    let mut text = Vec::new();
                    // Writing to memory cannot fail.
                    let is_shown = match self.settings.shown {
                        Shown::All => true,
                        Shown::Noteworthy => !lines::has_nothing_to_say(result),
                        Shown::Nothing => false,
                    };
                    if is_shown {
                        let view = lines::View {
                            name_columns: width,
                            directory: &self.settings.directory,
                            command: Some(&self.settings.command),
                            width_columns: terminal::width_columns(),
                        };
                        let _ = lines::case(result, view, &mut text);
                    }
                    // A reader that closes the output early (`| head`) does not stop the suite; the exit code still
                    // counts.
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
        let finished = finished.into_inner().unwrap_or_else(PoisonError::into_inner);
        finished.into_values().collect()
    }

    /// Reason why no further case of an untrusted suite is run; None: it is within its bounds.
    fn is_over(&self) -> Option<&'static str> {
        let kept_bytes = self.kept_bytes.load(Ordering::Relaxed);
        self.is_untrusted.then(|| stranger::overrun(self.started.elapsed(), kept_bytes)).flatten()
    }

    /// Adds the bytes of a result's profile to the total.
    fn keep(&self, result: &CaseResult) {
        let directory = result.profile.as_ref().map(|name| self.settings.directory.join(name));
        let entries = directory.and_then(|directory| fs::read_dir(directory).ok()).into_iter().flatten().flatten();
        let sizes = entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len());
        self.kept_bytes.fetch_add(sizes.sum(), Ordering::Relaxed);
    }

    /// Runs a case in a worker, starting one if necessary.
    fn run(&self, case: &Case, idle: &mut Option<Worker>) -> CaseResult {
        let started = idle.take().map_or_else(|| Worker::start(&self.setup), Ok);
        let mut worker = match started {
            Ok(worker) => worker,
            Err(error) => {
                let cause = host::without_proc().map_or_else(|| error.to_string(), str::to_owned);
                let remedy = host::remedy(&error).map(|remedy| format!("; {remedy}")).unwrap_or_default();
                let why = format!("it was not run: harness cannot be started again for it: {cause}{remedy}");
                return failed(case, ExitCode::Usage, &why);
            }
        };
        let mut bar: Option<Bar> = None;
        let window_insns = case.options.window.for_insns.unwrap_or(0);
        let outcome = worker.run(&case.name, |progress| {
            bar.get_or_insert_with(|| self.bars.add(&case.name, window_insns)).update(progress);
        });
        if let Some(bar) = bar {
            bar.finish();
        }
        self.pass_on(&worker.said());
        match outcome {
            Outcome::Done(result, cache) => {
                *idle = Some(worker);
                self.note(cache);
                result
            }
            Outcome::GivenUp(result) => result,
            Outcome::Died(death) => {
                self.pass_on(&death.said);
                drop(worker);
                // The worker is gone, so nothing is using the directory.
                directory::remove_leftovers(&self.settings.directory.join(profile_directory(case)));
                let why = format!("harness itself failed on this image: {death}; please report it, with the image");
                failed(case, ExitCode::Usage, &why)
            }
        }
    }

    /// Notes the cache's part in a result.
    fn note(&self, cache: CacheUse) {
        self.hits.fetch_add(usize::from(cache.is_hit), Ordering::Relaxed);
        if let Some(error) = cache.error {
            // Each worker finds the same; one warning is enough.
            let _ = self.cache_error.set(error);
        }
    }

    /// Says on standard error how many results came from the cache, and whether it failed. A failure of the cache costs
    /// time and no result.
    fn report_cache(&self, cases: usize) {
        let hits = self.hits.load(Ordering::Relaxed);
        let mut out = terminal::stderr();
        // A closed standard error does not stop the suite.
        if let Some(error) = self.cache_error.get() {
            let _ = writeln!(out, "warning: {}", printable(error));
        }
        if hits > 0 && self.settings.has_progress {
            let of = plural(cases as u64, "image");
            let _ = writeln!(out, "cache: {hits} of {of} unchanged, not run again (--no-cache runs them)");
        }
    }

    /// Passes a worker's standard error on, line by line.
    fn pass_on(&self, said: &[u8]) {
        for line in String::from_utf8_lossy(said).lines() {
            // A closed standard error does not stop the suite.
            self.bars.above(|| drop(writeln!(terminal::stderr(), "{}", printable(line))));
        }
    }

    /// Adds the case's place in the suite, and its remedies.
    fn with_remedies(&self, case: &Case, result: CaseResult) -> CaseResult {
        CaseResult {
            place: Some((self.suite_file.clone(), u32::try_from(case.line).unwrap_or(u32::MAX))),
            repeat: self.command.repeat(&case.name),
            ..result
        }
    }
}

fn failed(case: &Case, code: ExitCode, why: &str) -> CaseResult {
    CaseResult::without_run(&case.name, &case.tags, code, why)
}
