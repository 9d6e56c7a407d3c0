// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker: another process of harness, which runs images of a suite one after the other. If an image ends the process
//! that reads it (by a stack overflow, exhausted memory, a crash), the suite goes on in another worker.
//!
//! Its command line is [`WORD`] and the parent's process id. It reads [`Setup`] and then [`Request`]s from standard
//! input, one JSON value per line, and writes [`Report`]s to standard output in the same way. Signals go to the parent,
//! which passes their effect on.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{env, fmt, thread};

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::gate::path_bytes;
use crate::gate::result::CaseResult;
use crate::gate::session::{CacheUse, Ended, Session, Settings};
use crate::gate::suite::Suite;
use crate::run::contain::launcher;
use crate::run::records::read::Progress;
use crate::run::store::deadline::GLANCE;
use crate::run::watch::interrupt::{INTERRUPTS, ignore_signals, interrupt};
use crate::text::printable::printable;

/// First argument of a worker, which is unlike any command and any usual file name.
const WORD: &str = "--run-images";

/// Maximum length of a line that is read, in bytes. The result of an image with some hundred thousand functions is
/// shorter.
const MOST_LINE_BYTES: u64 = 256 << 20;

/// Maximum number of bytes of a worker's standard error that are kept.
const MOST_SAID_BYTES: usize = 64 << 10;

/// Maximum number of characters that a message quotes of its last line.
const MOST_QUOTED_CHARS: usize = 200;

/// Maximum wait for the rest of a worker's standard error after its end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Data that a worker needs besides the image's name.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    /// Path from which the suite was read.
    #[serde(with = "path_bytes")]
    suite: PathBuf,
    /// Text of the suite as it was read; the file may have changed since.
    text: String,
    is_untrusted: bool,
    is_strict: bool,
    #[serde(with = "path_bytes")]
    baselines: PathBuf,
    settings: Settings,
    emulator_versions: String,
}

/// A message from the parent to its worker.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// Run the case of this name.
    Run(String),
    /// The user has interrupted the suite.
    Interrupt,
}

/// A message from a worker to its parent.
#[derive(Debug, Serialize, Deserialize)]
enum Report {
    /// Progress of the case.
    Progress(Progress),
    /// The case's result, and the part that the cache had in it.
    Done(Box<CaseResult>, CacheUse),
    /// The result of a case that was given up. The worker ends, together with the thread that still works on the case.
    GivenUp(Box<CaseResult>),
}

impl Setup {
    /// Setup for the cases of a suite.
    pub(super) fn new(suite: &Suite, settings: &Settings, emulator_versions: String) -> Setup {
        Setup {
            suite: suite.path.clone(),
            text: suite.text.clone(),
            is_untrusted: suite.folder.is_some(),
            is_strict: suite.is_strict,
            baselines: suite.baselines.clone(),
            settings: settings.clone(),
            emulator_versions,
        }
    }
}

/// A running worker. Dropping it kills it, and QEMU with it.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    requests: ChildStdin,
    /// Reports from the worker; the channel closes when no more can be read.
    reports: Receiver<Report>,
    /// Pieces of its standard error; the channel closes at the end.
    said: Receiver<Vec<u8>>,
    /// Number of interrupts that the worker was told of.
    told: u32,
}

/// Result of a case, or of its worker.
pub(super) enum Outcome {
    /// The worker can run another case.
    Done(CaseResult, CacheUse),
    /// The case was given up, and the worker has ended.
    GivenUp(CaseResult),
    /// The worker has ended without a result.
    Died(Death),
}

/// End of a worker.
#[derive(Debug)]
pub(super) struct Death {
    /// Its exit status; None: it had to be killed.
    status: Option<ExitStatus>,
    /// Its standard error.
    pub(super) said: Vec<u8>,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signal = self.status.and_then(|status| status.signal());
        let name = signal.and_then(|signal| Signal::try_from(signal).ok());
        match (name, self.status) {
            (Some(Signal::SIGKILL), _) => {
                f.write_str("it was killed (SIGKILL), as Linux does where memory runs out")?;
            }
            (Some(signal), _) => write!(f, "it was ended by {signal}")?,
            (None, Some(status)) => write!(f, "it ended without a result ({status})")?,
            (None, None) => f.write_str("its answer was no result")?,
        }
        last_words(&self.said).iter().try_for_each(|words| write!(f, ": {words}"))
    }
}

impl Worker {
    /// Starts a worker, which ends with the calling thread.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(setup: &Setup) -> io::Result<Worker> {
        let mut child = launcher::again()?
            .arg(WORD)
            .arg(std::process::id().to_string())
            // The parent handles Ctrl-C: in a process group of its own, the worker does not get the signal.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (Some(requests), Some(reports), Some(said)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("it has no standard streams"));
        };
        let mut worker = Worker { child, requests, reports: received(reports), said: heard(said), told: 0 };
        worker.tell(setup)?;
        Ok(worker)
    }

    fn tell(&mut self, message: &impl Serialize) -> io::Result<()> {
        write_line(&mut self.requests, message)
    }

    /// Runs a case and shows its progress.
    pub(super) fn run(&mut self, case: &str, mut progress: impl FnMut(Progress)) -> Outcome {
        // A failure is ignored: a worker that has ended is noticed below.
        let _ = self.tell(&Request::Run(case.to_owned()));
        loop {
            while self.told < INTERRUPTS.load(Ordering::Relaxed) {
                self.told += 1;
                let _ = self.tell(&Request::Interrupt);
            }
            match self.reports.recv_timeout(GLANCE) {
                Ok(Report::Progress(now)) => progress(now),
                Ok(Report::Done(result, cache)) if result.name == case => return Outcome::Done(*result, cache),
                Ok(Report::GivenUp(result)) if result.name == case => return Outcome::GivenUp(*result),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Report::Done(..) | Report::GivenUp(_)) | Err(RecvTimeoutError::Disconnected) => {
                    return Outcome::Died(self.end());
                }
            }
        }
    }

    /// Standard error since the last call.
    pub(super) fn said(&self) -> Vec<u8> {
        self.said.try_iter().flatten().collect()
    }

    /// Waits for the worker's end, which takes a moment, or kills the worker.
    fn end(&mut self) -> Death {
        let mut said = Vec::new();
        while let Ok(piece) = self.said.recv_timeout(LAST_WORDS) {
            said.extend(piece);
        }
        let deadline = Instant::now() + LAST_WORDS;
        let mut status = None;
        while status.is_none() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
            status = self.child.try_wait().ok().flatten();
        }
        Death { status, said }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The kill fails only if the worker has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Last line of standard error, cut to the length of a message.
fn last_words(said: &[u8]) -> Option<String> {
    let said = String::from_utf8_lossy(said);
    let line = said.lines().rfind(|line| !line.trim().is_empty())?;
    Some(printable(line.trim()).chars().take(MOST_QUOTED_CHARS).collect())
}

/// Works as a worker if this process was started as one; returns when there is nothing more to do. None: the process is
/// not a worker.
pub fn serve() -> Option<ExitCode> {
    let mut words = env::args_os().skip(1);
    if words.next().is_none_or(|word| word != WORD) {
        return None;
    }
    Some(match work(words.next()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    })
}

fn work(parent: Option<OsString>) -> Result<()> {
    let parent =
        parent.and_then(|word| word.to_str()?.parse().ok()).context("a worker is started by harness test")?;
    launcher::end_with(parent)?;
    ignore_signals();
    let mut input = BufReader::new(io::stdin());
    let setup = read_line::<Setup>(&mut input)?.context("no suite came")?;
    let mut suite = if setup.is_untrusted {
        Suite::parse_untrusted(&setup.suite, &setup.text)?
    } else {
        Suite::parse(&setup.suite, &setup.text)?
    };
    suite.baselines = setup.baselines;
    if setup.is_strict {
        suite.hold_strictly();
    }
    let session = Arc::new(Session::new(suite, setup.settings, setup.emulator_versions)?);
    let (send, cases) = mpsc::channel();
    thread::spawn(move || {
        // Reading ends with the parent, and this process with it.
        while let Ok(Some(request)) = read_line(&mut input) {
            match request {
                Request::Run(case) => drop(send.send(case)),
                Request::Interrupt => interrupt(),
            }
        }
    });
    for case in cases {
        match session.run(&case, |progress| drop(report(&Report::Progress(progress)))) {
            Ended::Done(result, cache) => report(&Report::Done(Box::new(result), cache))?,
            Ended::GivenUp(result) => return Ok(report(&Report::GivenUp(Box::new(result)))?),
        }
    }
    Ok(())
}

fn report(report: &Report) -> io::Result<()> {
    write_line(&mut io::stdout().lock(), report)
}

fn write_line(out: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// The next message; None: no more messages come.
fn read_line<T: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    input.take(MOST_LINE_BYTES).read_until(b'\n', &mut line)?;
    if line.is_empty() { Ok(None) } else { Ok(serde_json::from_slice(&line)?) }
}

/// Receives reports on a thread, up to the last well-formed report.
fn received(reports: ChildStdout) -> Receiver<Report> {
    let (send, received) = mpsc::channel();
    thread::spawn(move || {
        let mut reports = BufReader::new(reports);
        while let Ok(Some(report)) = read_line(&mut reports) {
            if send.send(report).is_err() {
                break;
            }
        }
    });
    received
}

/// Receives standard error on a thread, and drops all bytes beyond the bound.
fn heard(mut stderr: ChildStderr) -> Receiver<Vec<u8>> {
    let (send, heard) = mpsc::channel();
    thread::spawn(move || {
        let (mut piece, mut kept_bytes) = ([0; 4096], 0);
        while let Ok(bytes @ 1..) = stderr.read(&mut piece) {
            if kept_bytes < MOST_SAID_BYTES && send.send(piece[..bytes].to_vec()).is_err() {
                break;
            }
            kept_bytes += bytes;
        }
    });
    heard
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_told_by_its_signal_and_its_last_words() {
        let death =
            |raw, said: &[u8]| Death { status: Some(ExitStatus::from_raw(raw)), said: said.to_vec() }.to_string();
        let overflow = b"\nthread 'main' has overflowed its stack\nfatal runtime error: stack overflow, aborting\n\n";
        assert_eq!(death(6, overflow), "it was ended by SIGABRT: fatal runtime error: stack overflow, aborting");
        assert!(death(9, b"").contains("memory runs out"));
        assert_eq!(death(1 << 8, b"\x1b[2J"), "it ended without a result (exit status: 1): \u{fffd}[2J");
        assert!(death(11, &[b'x'; 1 << 20]).len() < 300);
        assert_eq!(Death { status: None, said: Vec::new() }.to_string(), "its answer was no result");
    }

    #[test]
    fn what_is_no_message_ends_the_reading() {
        let read = |text: &str| read_line::<Request>(&mut text.as_bytes()).map_err(|error| error.kind());
        assert!(matches!(read("\"Interrupt\"\nrest"), Ok(Some(Request::Interrupt))));
        assert!(matches!(read("{\"Run\":\"a\\nb\"}\n"), Ok(Some(Request::Run(name))) if name == "a\nb"));
        assert!(matches!(read(""), Ok(None)));
        for text in ["\n", "Interrupt\n", "{\"Run\":", "{\"Run\":1}\n", "{\"Stop\":\"a\"}\n"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
