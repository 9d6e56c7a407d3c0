//! What a suite expects of a run itself: how it ends and what it prints.

use globset::Glob;
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::describe;
use crate::exit_code::ExitCode;
use crate::profile::{End, Profile};
use crate::text::number::group;
use crate::text::symbol_name::key_name;

/// All that is expected of one run.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    /// How it ends; None: well, however that is.
    pub ending: Option<Ending>,
    /// What it prints, in this order.
    pub console: Vec<ExpectedLine>,
    /// What it must not print.
    pub console_not: Vec<ExpectedText>,
    /// The firmware's own counts must be the exact ones.
    pub strict: bool,
    /// Functions in which the firmware may stand still.
    pub polls: Vec<Glob>,
}

/// How a run must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this exit status.
    Status(u32),
    /// In any way, but not by the host.
    Any,
    /// With the CPU locked up.
    LockUp,
    /// With a reset.
    Reset,
    /// Asleep for ever.
    Asleep,
    /// With no instruction completing any more.
    Stuck,
    /// In the handler of a fault that is never left.
    Faulting,
    /// At a semihosting call that QEMU does not have.
    UnknownCall,
    /// By the limit on instructions.
    Limit,
    /// By the limit on what the firmware writes.
    Output,
}

impl Ending {
    /// The words with which suites write the endings that are no status.
    pub const WORDS: [(&'static str, Ending); 9] = [
        ("any", Ending::Any),
        ("lock-up", Ending::LockUp),
        ("reset", Ending::Reset),
        ("asleep", Ending::Asleep),
        ("stuck", Ending::Stuck),
        ("faulting", Ending::Faulting),
        ("unknown-call", Ending::UnknownCall),
        ("limit", Ending::Limit),
        ("output", Ending::Output),
    ];

    /// The expectation that a run's end meets; None: no suite can expect it, or it needs none.
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
            // What the host did says nothing of the firmware.
            (Ending::Any, end) => !end.is_by_host(),
            (Ending::LockUp, End::LockUp { .. })
            | (Ending::Reset, End::Reset { .. })
            | (Ending::Asleep, End::Asleep { .. })
            | (Ending::Stuck, End::Stuck { .. })
            | (Ending::Faulting, End::Faulting { .. })
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
            Ending::UnknownCall => "an unknown semihosting call".to_owned(),
            Ending::Limit => "the end by max-insns".to_owned(),
            Ending::Output => "the end by max-output".to_owned(),
        }
    }
}

/// A text that is looked for on the console.
#[derive(Clone, Debug)]
pub enum ExpectedText {
    /// These very characters.
    Plain(String),
    /// What the expression matches.
    Regex(Regex),
}

/// An expectation that a text is printed.
#[derive(Clone, Debug)]
pub struct ExpectedLine {
    /// The text.
    pub text: ExpectedText,
    /// Instructions of the window by which it must be there; None: at any time.
    pub by_insns: Option<u64>,
}

impl ExpectedText {
    /// The bytes of the console at which it is first found, from an offset on.
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
    /// What kind of thing was expected.
    pub kind: FindingKind,
    /// Whether it was met.
    pub passed: bool,
    /// What was expected.
    pub expected: String,
    /// What was found instead, or in detail.
    pub actual: String,
    /// Where it was not met: what is wrong, in one sentence that needs no other.
    pub message: String,
    /// Source file and line that it is about.
    pub place: Option<(String, u32)>,
}

impl Finding {
    /// Something that was expected and is so.
    pub fn met(kind: FindingKind, expected: impl Into<String>, actual: impl Into<String>) -> Finding {
        let (expected, actual) = (expected.into(), actual.into());
        Finding { kind, passed: true, expected, actual, message: String::new(), place: None }
    }

    /// Something that was expected and is not so; the message says it all.
    pub fn failed(
        kind: FindingKind,
        expected: impl Into<String>,
        actual: impl Into<String>,
        message: impl Into<String>,
    ) -> Finding {
        let (expected, actual, message) = (expected.into(), actual.into(), message.into());
        Finding { kind, passed: false, expected, actual, message, place: None }
    }

    /// The same at a place in the sources.
    #[must_use]
    pub fn at(self, place: Option<(String, u32)>) -> Finding {
        Finding { place, ..self }
    }
}

/// What kind of thing was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum FindingKind {
    /// That the image can be run at all.
    Run,
    /// How the run ends.
    Ending,
    /// That the firmware does something to the end of its window.
    Progress,
    /// What is printed.
    Console,
    /// That the firmware's own counts are the exact ones.
    CrossCheck,
    /// Something of the profile.
    Assertion,
    /// That it is no worse than the baseline.
    Threshold,
}

/// How the run ended, and the code of that where it was not expected.
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
        // It ended well, but not as it should.
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

/// That the firmware stood still, where it did, held against where it may.
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

/// What was printed, held against what was expected.
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
                // By whole samples: what was there at one was printed before it.
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

/// The instruction of the window before which so many bytes had been printed, as far as that is known.
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
