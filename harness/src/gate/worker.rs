//! A worker: harness started again as itself, to run images of a suite one after the other. Whatever an image does to the
//! process that reads it (a stack that overflows, memory that runs out, a crash), the suite goes on in another.
//!
//! Its command line: [`WORD`] and the parent's process id. It reads [`Setup`] and then [`Request`]s from standard input,
//! one JSON value a line, and writes [`Report`]s to standard output in the same way. Signals are the parent's to hear,
//! which says what they ask for.

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

use crate::gate::result::CaseResult;
use crate::gate::session::{Ended, Session, Settings};
use crate::gate::suite::Suite;
use crate::run::deadline::GLANCE;
use crate::run::launcher;
use crate::run::plan::{INTERRUPTS, ignore_signals, interrupt};
use crate::run::records::Progress;
use crate::text::terminal::printable;

/// The first argument of a worker, which is no command and no file's usual name.
const WORD: &str = "--run-images";

/// Longest line that is read: the result of an image with some hundred thousand functions has less.
const MOST_LINE_BYTES: u64 = 256 << 20;

/// What a worker has written to standard error is kept up to here.
const MOST_SAID_BYTES: usize = 64 << 10;

/// As much of its last line as a message quotes.
const MOST_QUOTED_CHARS: usize = 200;

/// How long the end of a worker's standard error is waited for once it has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Everything that a worker has to know besides the image's name.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    /// Where the suite was read.
    #[serde(with = "path")]
    suite: PathBuf,
    /// The suite's text as it was read: it may have been changed since.
    text: String,
    is_untrusted: bool,
    is_strict: bool,
    #[serde(with = "path")]
    baselines: PathBuf,
    settings: Settings,
    emulator_versions: String,
}

/// A parent's word to its worker.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// Run the case of this name.
    Run(String),
    /// The user wants it to end.
    Interrupt,
}

/// A worker's word to its parent.
#[derive(Debug, Serialize, Deserialize)]
enum Report {
    /// How far the case has come.
    Progress(Progress),
    /// The case's result.
    Done(Box<CaseResult>),
    /// The result of a case that was given up; the worker ends with what still works on it.
    GivenUp(Box<CaseResult>),
}

impl Setup {
    /// For the cases of a suite.
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

/// A worker that is running. Dropped, it is killed, and QEMU with it.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    requests: ChildStdin,
    /// Closed where nothing more can be read.
    reports: Receiver<Report>,
    /// What it has written to standard error, a piece at a time; closed at its end.
    said: Receiver<Vec<u8>>,
    /// How many interrupts it has been told of.
    told: u32,
}

/// What came of a case, or of its worker.
pub(super) enum Outcome {
    /// The worker can run another.
    Done(CaseResult),
    /// The worker has ended, as it does where a case was given up.
    GivenUp(CaseResult),
    /// The worker has ended before it had a result: how.
    Died(Death),
}

/// How a worker has ended.
#[derive(Debug)]
pub(super) struct Death {
    /// None: it had to be killed.
    status: Option<ExitStatus>,
    /// What it has written to standard error.
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
            // Ctrl-C is the parent's to hear.
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

    /// Runs a case, showing how far it has come.
    pub(super) fn run(&mut self, case: &str, mut progress: impl FnMut(Progress)) -> Outcome {
        // A worker that has ended is noticed below.
        let _ = self.tell(&Request::Run(case.to_owned()));
        loop {
            while self.told < INTERRUPTS.load(Ordering::Relaxed) {
                self.told += 1;
                let _ = self.tell(&Request::Interrupt);
            }
            match self.reports.recv_timeout(GLANCE) {
                Ok(Report::Progress(now)) => progress(now),
                Ok(Report::Done(result)) if result.name == case => return Outcome::Done(*result),
                Ok(Report::GivenUp(result)) if result.name == case => return Outcome::GivenUp(*result),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Report::Done(_) | Report::GivenUp(_)) | Err(RecvTimeoutError::Disconnected) => {
                    return Outcome::Died(self.end());
                }
            }
        }
    }

    /// What it has written to standard error since the last time.
    pub(super) fn said(&self) -> Vec<u8> {
        self.said.try_iter().flatten().collect()
    }

    /// Its end: by itself, which takes a moment, or else by force.
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
        // It fails only where the worker has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last line of what was written to standard error, as much of it as fits into a message.
fn last_words(said: &[u8]) -> Option<String> {
    let said = String::from_utf8_lossy(said);
    let line = said.lines().rfind(|line| !line.trim().is_empty())?;
    Some(printable(line.trim()).chars().take(MOST_QUOTED_CHARS).collect())
}

/// Does a worker's work if this process is to be one. Returns if it is none, or when there is nothing more to do.
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
    let session = Arc::new(Session::new(suite, setup.settings, setup.emulator_versions));
    let (send, cases) = mpsc::channel();
    thread::spawn(move || {
        // Where the parent is gone, this process is, too.
        while let Ok(Some(request)) = read_line(&mut input) {
            match request {
                Request::Run(case) => drop(send.send(case)),
                Request::Interrupt => interrupt(),
            }
        }
    });
    for case in cases {
        match session.run(&case, |progress| drop(report(&Report::Progress(progress)))) {
            Ended::Done(result) => report(&Report::Done(Box::new(result)))?,
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

/// The next message; None: no more come.
fn read_line<T: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    input.take(MOST_LINE_BYTES).read_until(b'\n', &mut line)?;
    if line.is_empty() { Ok(None) } else { Ok(serde_json::from_slice(&line)?) }
}

/// Receives reports on a thread of their own, up to the last one that is well-formed.
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

/// Receives what is written to standard error, and lets go what is too much.
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

/// A path as JSON has it: its bytes, which need not be text.
pub(super) mod path {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(in crate::gate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().as_bytes().serialize(serializer)
    }

    pub(in crate::gate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(OsString::from_vec(Vec::deserialize(deserializer)?).into())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

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

    #[test]
    fn a_path_need_not_be_text() {
        #[derive(Serialize, Deserialize)]
        struct Holder(#[serde(with = "path")] PathBuf);
        let odd = Path::new(std::ffi::OsStr::from_bytes(b"/a/\xff \n"));
        let text = serde_json::to_vec(&Holder(odd.to_owned())).unwrap();
        let Holder(back) = serde_json::from_slice(&text).unwrap();
        assert_eq!(back, odd);
    }
}
