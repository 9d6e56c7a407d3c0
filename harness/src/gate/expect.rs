// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expectations of a suite on a run itself: its end and its output.

use globset::Glob;
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::describe;
use crate::exit_code::ExitCode;
use crate::profile::{End, Profile};
use crate::text::number::group;
use crate::text::symbol_name::key_name;

/// Expectations on one run.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    /// Expected end; None: any good end.
    pub ending: Option<Ending>,
    /// Lines that the firmware must print, in this order.
    pub console: Vec<ExpectedLine>,
    /// Texts that the firmware must not print.
    pub console_not: Vec<ExpectedText>,
    /// Whether the firmware's own counts must equal the exact ones.
    pub strict: bool,
    /// Functions in which the firmware may stand still.
    pub polls: Vec<Glob>,
}

/// Expected end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this exit status.
    Status(u32),
    /// Any end that the host did not cause.
    Any,
    /// A CPU that is locked up.
    LockUp,
    /// A reset.
    Reset,
    /// A CPU asleep for ever.
    Asleep,
    /// No instruction that completes any more.
    Stuck,
    /// The handler of a fault, which is never left.
    Faulting,
    /// A loop that has no end, where the firmware gave up.
    EndlessLoop,
    /// An entry that was executed again.
    Restarts,
    /// A stack that left its memory.
    StackOverflow,
    /// A semihosting call that QEMU does not have.
    UnknownCall,
    /// The limit on instructions.
    Limit,
    /// The limit on the firmware's output.
    Output,
}

impl Ending {
    /// Words of suites for all endings except an exit status.
    pub const WORDS: [(&'static str, Ending); 12] = [
        ("any", Ending::Any),
        ("lock-up", Ending::LockUp),
        ("reset", Ending::Reset),
        ("asleep", Ending::Asleep),
        ("stuck", Ending::Stuck),
        ("faulting", Ending::Faulting),
        ("endless-loop", Ending::EndlessLoop),
        ("restarts", Ending::Restarts),
        ("stack-overflow", Ending::StackOverflow),
        ("unknown-call", Ending::UnknownCall),
        ("limit", Ending::Limit),
        ("output", Ending::Output),
    ];

    /// Expectation that a run's end meets; None: no suite can expect such an end, or the end is good anyway.
    pub fn of(end: &End) -> Option<Ending> {
        let mut ways = Ending::WORDS.into_iter().map(|(_, ending)| ending).filter(|ending| *ending != Ending::Any);
        match end {
            End::Exit { status, .. } => Some(Ending::Status(*status)),
            end => ways.find(|ending| ending.is_met_by(end)),
        }
    }

    fn is_met_by(self, end: &End) -> bool {
        match (self, end) {
            (Ending::Status(wanted), End::Exit { status, .. }) => *status == wanted,
            // The host's end of a run tells nothing about the firmware.
            (Ending::Any, end) => !end.is_by_host(),
            (Ending::LockUp, End::LockUp { .. })
            | (Ending::Reset, End::Reset { .. })
            | (Ending::Asleep, End::Asleep { .. })
            | (Ending::Stuck, End::Stuck { .. })
            | (Ending::Faulting, End::Faulting { .. })
            | (Ending::EndlessLoop, End::EndlessLoop { .. })
            | (Ending::Restarts, End::Restarts { .. })
            | (Ending::StackOverflow, End::StackOverflow { .. })
            | (Ending::UnknownCall, End::UnknownCall { .. })
            | (Ending::Limit, End::MaxInsns)
            | (Ending::Output, End::Output { .. }) => true,
            _ => false,
        }
    }

    fn describe(self) -> String {
        match self {
            Ending::Status(status) => format!("exit status {status}"),
            Ending::Any => "any end but the host's".to_owned(),
            Ending::LockUp => "a lock-up".to_owned(),
            Ending::Reset => "a reset".to_owned(),
            Ending::Asleep => "sleep for ever".to_owned(),
            Ending::Stuck => "no instruction completing any more".to_owned(),
            Ending::Faulting => "a fault's handler that is never left".to_owned(),
            Ending::EndlessLoop => "an endless loop".to_owned(),
            Ending::Restarts => "a restart without a reset".to_owned(),
            Ending::StackOverflow => "a stack that left its memory".to_owned(),
            Ending::UnknownCall => "an unknown semihosting call".to_owned(),
            Ending::Limit => "the end by max-insns".to_owned(),
            Ending::Output => "the end by max-output".to_owned(),
        }
    }
}

/// A text to be found on the console.
#[derive(Clone, Debug)]
pub enum ExpectedText {
    /// The text itself, character by character.
    Plain(String),
    /// A match of this expression.
    Regex(Regex),
}

/// A line that must be printed.
#[derive(Clone, Debug)]
pub struct ExpectedLine {
    /// The text.
    pub text: ExpectedText,
    /// Instruction of the window by which it must be printed; None: at any time.
    pub by_insns: Option<u64>,
}

impl ExpectedText {
    /// Byte range of the text's first occurrence on the console from an offset on.
    fn find(&self, console: &str, from: usize) -> Option<std::ops::Range<usize>> {
        match self {
            ExpectedText::Plain(text) => console[from..].find(text).map(|at| from + at..from + at + text.len()),
            ExpectedText::Regex(regex) => regex.find_at(console, from).map(|found| found.range()),
        }
    }

    fn describe(&self) -> String {
        match self {
            ExpectedText::Plain(text) => format!("{text:?}"),
            ExpectedText::Regex(regex) => format!("/{}/", regex.as_str()),
        }
    }
}

/// One expectation, assertion or threshold, and whether it was met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Kind of the expectation.
    pub kind: FindingKind,
    /// Whether it was met.
    pub passed: bool,
    /// The expectation.
    pub expected: String,
    /// The actual result, with details.
    pub actual: String,
    /// Description of the failure in one self-contained sentence; empty if it was met.
    pub message: String,
    /// Source file and line that it concerns.
    pub place: Option<(String, u32)>,
    /// Instruction that it concerns, as an argument of `harness debug --at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

impl Finding {
    /// Finding for a met expectation.
    pub fn met(kind: FindingKind, expected: impl Into<String>, actual: impl Into<String>) -> Finding {
        let (expected, actual) = (expected.into(), actual.into());
        Finding { kind, passed: true, expected, actual, message: String::new(), place: None, at: None }
    }

    /// Finding for a failed expectation, with its message.
    pub fn failed(
        kind: FindingKind,
        expected: impl Into<String>,
        actual: impl Into<String>,
        message: impl Into<String>,
    ) -> Finding {
        let (expected, actual, message) = (expected.into(), actual.into(), message.into());
        Finding { kind, passed: false, expected, actual, message, place: None, at: None }
    }

    /// Returns the finding with a place in the sources.
    #[must_use]
    pub fn at(self, place: Option<(String, u32)>) -> Finding {
        Finding { place, ..self }
    }
}

/// Kind of an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum FindingKind {
    /// The image can be run at all.
    Run,
    /// The end of the run.
    Ending,
    /// The firmware makes progress up to the end of its window.
    Progress,
    /// The firmware's output.
    Console,
    /// The firmware's own counts equal the exact ones.
    CrossCheck,
    /// An assertion on the profile.
    Assertion,
    /// A limit relative to the baseline, or a ceiling.
    Threshold,
}

impl FindingKind {
    /// Word for a summary of failures.
    pub fn word(self) -> &'static str {
        match self {
            FindingKind::Run => "not run",
            FindingKind::Ending => "end",
            FindingKind::Progress => "no progress",
            FindingKind::Console => "console",
            FindingKind::CrossCheck => "own counts",
            FindingKind::Assertion => "assertion",
            FindingKind::Threshold => "threshold",
        }
    }
}

/// Finding on the run's end, and the exit code, which is good if the end was expected.
pub fn ending(expect: &Expect, profile: &Profile) -> (Finding, ExitCode) {
    let end = &profile.facts.end;
    let ended = describe::describe_end(profile);
    let (passed, expected, message) = match expect.ending {
        Some(ending) => {
            let expected = ending.describe();
            let message = format!("{ended}; {expected} was expected");
            (ending.is_met_by(end), expected, message)
        }
        None => (ExitCode::of_end(end) == ExitCode::Good, "a good end".to_owned(), ended.clone()),
    };
    let code = match ExitCode::of_end(end) {
        _ if passed => ExitCode::Good,
        // The end is a good one, but another one was expected.
        ExitCode::Good => ExitCode::Firmware,
        code => code,
    };
    let place = end.pc().and_then(|pc| profile.names.line_at(pc)).map(|(file, line)| (file.to_owned(), line));
    let finding = match passed {
        true => Finding::met(FindingKind::Ending, expected, ended),
        false => Finding::failed(FindingKind::Ending, expected, ended, message),
    };
    (finding.at(place), code)
}

/// Finding on a standstill of the firmware, which is met if the firmware may wait there; None: there was no standstill.
pub fn progress(expect: &Expect, profile: &Profile) -> Option<Finding> {
    let stood = describe::describe_standstill(profile)?;
    let functions = describe::standing_functions(profile);
    let is_meant = |polls: &Glob, name: &str| polls.compile_matcher().is_match(name) || polls.glob() == name;
    let is_allowed = functions.iter().any(|name| {
        expect.polls.iter().any(|polls| [*name, &*key_name(name)].into_iter().any(|name| is_meant(polls, name)))
    });
    let expected = "something is done to the end of the window";
    if is_allowed {
        return Some(Finding::met(FindingKind::Progress, expected, stood));
    }
    let wait = functions.first().map(|name| format!("; where it may wait: polls = [{:?}]", key_name(name)));
    let message = format!("the firmware stands still: {stood}{}", wait.unwrap_or_default());
    let pc = profile.facts.only.standstill.as_ref().map(|standstill| standstill.pc);
    let place = pc.and_then(|pc| profile.names.line_at(pc)).map(|(file, line)| (file.to_owned(), line));
    Some(Finding::failed(FindingKind::Progress, expected, stood, message).at(place))
}

/// Findings on the output, compared with the expectations.
pub fn console(expect: &Expect, profile: &Profile, console: &[u8]) -> Vec<Finding> {
    let text = String::from_utf8_lossy(console);
    let mut findings = Vec::new();
    let failed = |expected: &str, actual: String, message: String| {
        Finding::failed(FindingKind::Console, expected, actual, message)
    };
    let mut from = 0;
    for ExpectedLine { text: wanted, by_insns } in &expect.console {
        let by = by_insns.map(|insns| format!(" by instruction {}", group(insns))).unwrap_or_default();
        let shown = wanted.describe();
        let expected = format!("prints {shown}{by}");
        let found = wanted.find(&text, from);
        findings.push(match &found {
            None => {
                let instead = not_found(wanted, &text, from);
                let message = format!("{shown} was not printed: {instead}");
                failed(&expected, instead, message)
            }
            Some(found) => {
                // Times are known only at samples: text that was there at a sample was printed before it.
                let printed_by = printed_by(profile, found.end);
                let when = printed_by.map(|insns| format!("printed before instruction {}", group(insns)));
                match by_insns.filter(|by| printed_by.is_none_or(|insns| insns > *by)) {
                    None => Finding::met(FindingKind::Console, expected, when.unwrap_or_default()),
                    Some(by) => {
                        let when = when.unwrap_or_else(|| "printed at the very end".to_owned());
                        let message = format!("{shown} came too late: {when}, expected by {}", group(by));
                        failed(&expected, when, message)
                    }
                }
            }
        });
        from = found.map_or(from, |found| found.end);
    }
    for unwanted in &expect.console_not {
        let shown = unwanted.describe();
        let expected = format!("does not print {shown}");
        findings.push(match unwanted.find(&text, 0) {
            None => Finding::met(FindingKind::Console, expected, ""),
            Some(found) => {
                let actual = format!("line {}: {}", line_number(&text, found.start), line_at(&text, found.start));
                let message = format!("{shown} was printed, which console-not forbids; {actual}");
                failed(&expected, actual, message)
            }
        });
    }
    findings
}

/// Instruction of the window before which this many bytes were printed; None: not known.
fn printed_by(profile: &Profile, bytes: usize) -> Option<u64> {
    let marks = &profile.console_marks;
    let after = marks.partition_point(|&(_, printed)| printed < bytes as u64);
    marks.get(after).map(|&(insns, _)| insns)
}

fn not_found(wanted: &ExpectedText, text: &str, from: usize) -> String {
    if let Some(earlier) = wanted.find(text, 0) {
        return format!("it is only on line {}, before what is expected before it", line_number(text, earlier.start));
    }
    match text[from..].lines().rev().find(|line| !line.trim().is_empty()) {
        Some(last) => format!("the last line printed is {last:?}"),
        None if text.trim().is_empty() => "nothing was printed".to_owned(),
        None => "nothing more was printed".to_owned(),
    }
}

fn line_number(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

fn line_at(text: &str, at: usize) -> String {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    text[start..].lines().next().unwrap_or_default().trim_end().to_owned()
}
