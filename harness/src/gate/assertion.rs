// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assertions on a profile: `calls("crc32") == 256`, `self("main") < 5%`, `coverage("crc.c") >= 90%`.
//!
//! An assertion is a measure, a comparison and a value. A value with `%` is a share: of all instructions, of all
//! samples, of a task's stack, or of a file's lines.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fmt;

use wire::definition::NodeKind;

use crate::analysis::coverage::{Coverage, File, Tally};
use crate::analysis::cycles;
use crate::analysis::lookup;
use crate::analysis::metrics::{self, Metric, Metrics, Numbers, Role, Subject};
use crate::analysis::owner::Owner;
use crate::analysis::stacks;
use crate::analysis::stretches::Unit;
use crate::analysis::time;
use crate::error::InputError;
use crate::gate::existence::{Exists, UnknownName, Unmeasured, function_exists, interrupt_exists};
use crate::gate::timing::{Times, Timing};
use crate::gate::undecided::{self, Answer};
use crate::profile::{Profile, Span, SpanKind};
use crate::text::near::nearest;
use crate::text::number::{group, mean, millis, parse_millionths, parse_ns, parse_number, percent};
use crate::text::symbol_name::{file_name, key_name};

/// One assertion, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assertion {
    /// The text.
    pub text: String,
    measure: Measure,
    operator: Operator,
    value: Value,
    /// Distance from the value that is allowed, in the value's unit.
    tolerance: u64,
}

/// A number or share of a profile that an assertion asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Measure {
    /// A number that baselines keep, too, with the name of a function, task or zone; the name is empty for the run.
    Metric(Metric, String),
    Coverage(String),
    Lines(String),
    Branches(String),
    Irq(String),
    Depth(String),
    Waits,
    /// A statistic of all spans of one kind together.
    Span(Of, Spans),
    /// Times between events.
    Timing(Timing),
}

/// Statistic of many spans: least, mean or most instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Min,
    Mean,
    Max,
    MaxCycles,
    Time,
}

/// A kind of spans, taken together.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Spans {
    Calls(String),
    Handler(String),
    Masked,
    PendSv,
    Between(String, String),
}

/// A measure as an assertion writes it.
struct Word {
    word: &'static str,
    share: Share,
    make: Make,
}

/// Constructor of a measure, which also tells whether it takes a name.
enum Make {
    Plain(fn() -> Measure),
    Named(fn(String) -> Measure),
    /// A number of the run, which has no name, or of a function, task or zone, which has one.
    Metric(Metric),
}

/// Use of `%` in an assertion's value, or of a unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Never,
    Always,
    AsWritten,
    Time,
    /// A time, or a number of instructions.
    TimeOrInsns,
}

/// Measures that are not metrics, so that baselines do not keep them.
const MEASURES: [Word; 22] = [
    // Share of a file's lines that ran.
    Word { word: "coverage", share: Share::Always, make: Make::Named(Measure::Coverage) },
    // The same number, by the name that goes with `branches`. Older suites have `coverage`.
    Word { word: "lines", share: Share::Always, make: Make::Named(Measure::Lines) },
    // Share of the ways of a file's branches that were taken for certain.
    Word { word: "branches", share: Share::Always, make: Make::Named(Measure::Branches) },
    // Share of samples in an interrupt.
    Word { word: "irq", share: Share::Always, make: Make::Named(Measure::Irq) },
    // Maximum number of activations of a recursive function on the stack at once.
    Word { word: "depth", share: Share::Never, make: Make::Named(Measure::Depth) },
    // Waits for an interrupt.
    Word { word: "waits", share: Share::Never, make: Make::Plain(|| Measure::Waits) },
    // Instructions of a function's shortest call, or of the shortest span "from..until".
    Word { word: "min", share: Share::Never, make: Make::Named(|name| Measure::Span(Of::Min, Spans::named(name))) },
    // Mean of these calls or spans.
    Word { word: "mean", share: Share::Never, make: Make::Named(|name| Measure::Span(Of::Mean, Spans::named(name))) },
    // Longest of these calls or spans.
    Word { word: "max", share: Share::Never, make: Make::Named(|name| Measure::Span(Of::Max, Spans::named(name))) },
    // Cycles of the one of these calls or spans that took the most.
    Word {
        word: "max_cycles",
        share: Share::Never,
        make: Make::Named(|name| Measure::Span(Of::MaxCycles, Spans::named(name))),
    },
    // Time of the one that took the most cycles, by the clock that follows them.
    Word { word: "time", share: Share::Time, make: Make::Named(|name| Measure::Span(Of::Time, Spans::named(name))) },
    // Instructions of an interrupt's longest run, without those of interrupts during it.
    Word {
        word: "handler_max",
        share: Share::Never,
        make: Make::Named(|name| Measure::Span(Of::Max, Spans::Handler(name))),
    },
    // Cycles of the interrupt's run that took the most.
    Word {
        word: "handler_max_cycles",
        share: Share::Never,
        make: Make::Named(|name| Measure::Span(Of::MaxCycles, Spans::Handler(name))),
    },
    // Time of that run.
    Word {
        word: "handler_time",
        share: Share::Time,
        make: Make::Named(|name| Measure::Span(Of::Time, Spans::Handler(name))),
    },
    // Mean of the interrupt's runs.
    Word {
        word: "handler_mean",
        share: Share::Never,
        make: Make::Named(|name| Measure::Span(Of::Mean, Spans::Handler(name))),
    },
    // Longest stretch of instructions with interrupts masked.
    Word { word: "masked_max", share: Share::Never, make: Make::Plain(|| Measure::Span(Of::Max, Spans::Masked)) },
    // Maximum number of instructions from PendSV's request to the first instruction of its handler.
    Word { word: "pendsv_max", share: Share::Never, make: Make::Plain(|| Measure::Span(Of::Max, Spans::PendSv)) },
    // Time of a call or of a handler's run, from entry to return, whatever executes meanwhile.
    Word {
        word: "deadline",
        share: Share::TimeOrInsns,
        make: Make::Named(|name| Measure::Timing(Timing::Deadline(name))),
    },
    // Time for which an interrupt waited, or may have waited, for its first instruction.
    Word {
        word: "latency",
        share: Share::TimeOrInsns,
        make: Make::Named(|name| Measure::Timing(Timing::Latency(name))),
    },
    // Distance between successive starts of a task, function or handler.
    Word {
        word: "period",
        share: Share::TimeOrInsns,
        make: Make::Named(|name| Measure::Timing(Timing::Period(name))),
    },
    // Time with interrupts masked.
    Word { word: "masked", share: Share::TimeOrInsns, make: Make::Plain(|| Measure::Timing(Timing::Masked)) },
    // Time from a start of one function or handler to the next start of another: "from..until".
    Word {
        word: "response",
        share: Share::TimeOrInsns,
        make: Make::Named(|name| Measure::Timing(Timing::response(&name))),
    },
];

/// All measures: the metrics, and the others.
fn words() -> impl Iterator<Item = Word> {
    let of_metric = |metric: &Metric| Word {
        word: metric.word(),
        share: if metric.descriptor().whole.is_some() { Share::AsWritten } else { Share::Never },
        make: Make::Metric(*metric),
    };
    let asserted = Metric::ALL.iter().filter(|metric| metric.descriptor().role >= Role::Asserted);
    asserted.map(of_metric).chain(MEASURES)
}

impl Make {
    fn takes_name(&self) -> bool {
        match self {
            Make::Plain(_) => false,
            Make::Named(_) => true,
            Make::Metric(metric) => metric.subject() != Subject::Run,
        }
    }

    fn make(&self, name: &str) -> Measure {
        match self {
            Make::Plain(make) => make(),
            Make::Named(make) => make(name.to_owned()),
            Make::Metric(metric) => Measure::Metric(*metric, name.to_owned()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// The operators, longest first, so that `<=` is not taken for `<`.
const OPERATORS: [(&str, Operator); 6] = [
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("<", Operator::Less),
    (">", Operator::More),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Number(u64),
    Millionths(u64),
    Ns(u64),
}

/// A measured number, and the whole of which it is a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measured {
    part: u64,
    whole: Option<u64>,
    /// Fewest and most that it can be, and the same of the whole; None: it is proved.
    between: Option<[(u64, u64); 2]>,
}

/// Result of an assertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it holds, or at least may hold.
    pub holds: bool,
    /// Whether it holds for a part only of the interval in which the number is.
    pub is_undecided: bool,
    /// The measured number, or the reason why there is none.
    pub actual: String,
    /// A name in the assertion that neither the run nor its image has.
    pub unknown: Option<UnknownName>,
    /// Place for the debugger where the measured time began.
    pub at: Option<String>,
}

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Assertion {
    /// Reads an assertion.
    ///
    /// # Errors
    /// [`InputError`] with what was expected at which place.
    pub fn parse(text: &str) -> Result<Assertion, InputError> {
        let error = |what: String| InputError::new(format!("assertion {text:?}: {what}"));
        let word_end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let (word, rest) = text.trim_start().split_at(word_end.min(text.trim_start().len()));
        let Some(Word { share, make, .. }) = words().find(|known| known.word == word) else {
            let known: Vec<&str> = words().map(|known| known.word).collect();
            let nearest = nearest(word, known.iter().copied());
            let hint = nearest.map(|nearest| format!(" (did you mean {nearest}?)")).unwrap_or_default();
            return Err(error(format!("{word:?} is not a measure{hint}; there are {}", known.join(", "))));
        };
        let takes_name = make.takes_name();
        let rest = rest.trim_start();
        let (name, rest) = match rest.strip_prefix('(') {
            Some(inside) if takes_name => {
                let name = inside.trim_start().strip_prefix('"').and_then(|name| name.split_once('"'));
                let closed = name.and_then(|(name, rest)| Some((name, rest.trim_start().strip_prefix(')')?)));
                closed.ok_or_else(|| error(format!("write {word}(\"name\")")))?
            }
            None if !takes_name => ("", rest),
            _ if takes_name => return Err(error(format!("write {word}(\"name\")"))),
            _ => return Err(error(format!("{word} takes no name"))),
        };
        let rest = rest.trim_start();
        let operator = OPERATORS.iter().find_map(|(sign, operator)| Some((*operator, rest.strip_prefix(sign)?)));
        let Some((operator, value)) = operator else {
            return Err(error("write ==, !=, <, <=, > or >= after the measure".to_owned()));
        };
        let (value, tolerance) = match value.split_once('\u{b1}').or_else(|| value.split_once("+-")) {
            Some((value, tolerance)) => (value.trim(), Some(tolerance.trim())),
            None => (value.trim(), None),
        };
        let error = |what: &str| error(what.to_owned());
        let (measure, value) = (make.make(name), parse_value(word, share, value).map_err(|what| error(&what))?);
        let tolerance = tolerance.map(|tolerance| parse_value(word, share, tolerance)).transpose();
        let tolerance = match (tolerance.map_err(|what| error(&what))?, value, operator) {
            (None, ..) => 0,
            (Some(Value::Ns(tolerance)), Value::Ns(_), Operator::Equal)
            | (Some(Value::Number(tolerance)), Value::Number(_), Operator::Equal)
                if share == Share::TimeOrInsns =>
            {
                tolerance
            }
            _ => return Err(error("a tolerance goes with a time and ==, in the same unit: == 1ms +- 20us")),
        };
        match (&measure, operator) {
            (Measure::Timing(_), Operator::NotEqual) => {
                Err(error(&format!("{word} has many times: use another sign than !=")))
            }
            (Measure::Timing(Timing::Response(from, until)), _) if from.is_empty() || until.is_empty() => {
                Err(error("write response(\"from..until\")"))
            }
            _ => Ok(Assertion { text: text.to_owned(), measure, operator, value, tolerance }),
        }
    }

    /// Metric that the assertion is about.
    pub fn metric(&self) -> Option<Metric> {
        match &self.measure {
            Measure::Metric(metric, _) => Some(*metric),
            _ => None,
        }
    }

    /// Whether it needs the exact call tree.
    pub fn needs_exact(&self) -> bool {
        match &self.measure {
            Measure::Metric(metric, _) => metric.descriptor().needs_exact,
            Measure::Depth(_) => true,
            Measure::Span(_, spans) => !matches!(spans, Spans::Between(..)),
            Measure::Coverage(_) | Measure::Lines(_) | Measure::Branches(_) => false,
            Measure::Irq(_) | Measure::Waits => false,
            Measure::Timing(timing) => timing.needs_exact(),
        }
    }

    /// Functions whose calls the timeline has to record for the assertion; None: it needs no timeline. Names of interrupts and
    /// tasks, whose events are always there, can be among them.
    pub fn timed(&self) -> Option<Vec<String>> {
        match &self.measure {
            Measure::Timing(timing) => Some(timing.functions().into_iter().map(str::to_owned).collect()),
            _ => None,
        }
    }

    /// Whether the assertion can fail because firmware became slower in a window of a fixed length: it limits the cost
    /// of a piece of work, or demands a number of occurrences.
    pub fn sees_slowdown(&self) -> bool {
        match &self.measure {
            Measure::Span(..) | Measure::Timing(_) => true,
            // Numbers of one occurrence show slowness; the sum of all occurrences depends only on the window.
            Measure::Metric(metric, _) if metric.subject() == Subject::Zone => *metric != Metric::Zone,
            Measure::Metric(Metric::Calls, _) => {
                matches!(self.operator, Operator::Equal | Operator::More | Operator::AtLeast)
            }
            _ => false,
        }
    }

    /// Function that the assertion is about, as written.
    pub fn function(&self) -> Option<&str> {
        match &self.measure {
            Measure::Metric(metric, name) if metric.subject() == Subject::Function => Some(name),
            Measure::Depth(name) | Measure::Span(_, Spans::Calls(name)) => Some(name),
            Measure::Timing(timing) => timing.functions().first().copied(),
            _ => None,
        }
    }

    /// The two functions between which the run has to count instructions for the assertion.
    pub fn span(&self) -> Option<(String, String)> {
        match &self.measure {
            Measure::Span(_, Spans::Between(from, until)) => Some((from.clone(), until.clone())),
            _ => None,
        }
    }

    /// Reason why a function's name in the assertion is ambiguous; None: the name is clear.
    pub fn unclear(&self, profile: &Profile, metrics: &Metrics) -> Option<String> {
        lookup::keys(profile, metrics, self.function()?).err()
    }

    /// Checks a profile. `covered` keeps the profile's coverage from one assertion to the next, and `exists` returns the
    /// reason why the image has no function of a name.
    pub fn check(
        &self,
        profile: &Profile,
        metrics: &Metrics,
        covered: &OnceCell<Coverage>,
        exists: Exists<'_>,
    ) -> Outcome {
        let outcome = match &self.measure {
            Measure::Timing(timing) => {
                let unit = if matches!(self.value, Value::Ns(_)) { Unit::Ns } else { Unit::Insns };
                timing.measure(profile, metrics, unit, exists).map(|times| self.hold_times(&times))
            }
            _ => self.measure(profile, metrics, covered, exists).map(|measured| {
                let answer = self.holds(measured);
                Outcome {
                    holds: answer != Answer::No,
                    is_undecided: answer == Answer::Perhaps,
                    actual: measured.describe(self.value),
                    unknown: None,
                    at: None,
                }
            }),
        };
        outcome.unwrap_or_else(|Unmeasured { why, unknown }| Outcome {
            holds: false,
            is_undecided: false,
            actual: why,
            unknown,
            at: None,
        })
    }

    /// Holds all times of one kind against the value. An upper limit is about the longest, a lower one about the shortest.
    fn hold_times(&self, times: &Times) -> Outcome {
        let (Value::Number(value) | Value::Ns(value)) = self.value else { unreachable!("times are not shares") };
        let is_late = times.most > value.saturating_add(self.tolerance);
        let is_early = times.least < value.saturating_sub(self.tolerance);
        let (holds, longest) = match self.operator {
            Operator::Equal => (!is_late && !is_early, is_late || !is_early),
            Operator::Less => (times.most < value, true),
            Operator::AtMost => (times.most <= value, true),
            Operator::More => (times.least > value, false),
            Operator::AtLeast => (times.least >= value, false),
            Operator::NotEqual => (false, true),
        };
        let shown = times.shown(longest);
        let actual = shown.map_or_else(|| "0: there was none".to_owned(), |shown| shown.text.clone());
        Outcome { holds, is_undecided: false, actual, unknown: None, at: shown.map(|shown| shown.at.clone()) }
    }

    fn holds(&self, Measured { part, whole, between }: Measured) -> Answer {
        let order = |part: u64, whole: u64| match self.value {
            Value::Number(number) | Value::Ns(number) => part.cmp(&number),
            Value::Millionths(millionths) => {
                (u128::from(part) * 1_000_000).cmp(&(u128::from(whole) * u128::from(millionths)))
            }
        };
        let nominal = order(part, whole.unwrap_or(0));
        // The share is least where the part is least and the rest of the whole most.
        let orders = between.map_or((nominal, nominal), |[(least, most), (least_whole, most_whole)]| {
            let [rest_least, rest_most] = [least_whole.saturating_sub(least), most_whole.saturating_sub(most)];
            (order(least, rest_most.saturating_add(least)), order(most, rest_least.saturating_add(most)))
        });
        undecided::compared(orders, |order| match self.operator {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::AtMost => order.is_le(),
            Operator::More => order.is_gt(),
            Operator::AtLeast => order.is_ge(),
        })
    }

    fn measure(
        &self,
        profile: &Profile,
        metrics: &Metrics,
        covered: &OnceCell<Coverage>,
        exists: Exists<'_>,
    ) -> Result<Measured, Unmeasured> {
        let number = |part| Measured { part, whole: None, between: None };
        let covered = || covered.get_or_init(|| Coverage::of(&[profile]));
        let is_function = |name: &str, keys: &BTreeSet<String>| function_exists(exists, name, keys);
        let function = |name: &str, metric: Metric| {
            let namesakes = metrics::ambiguous(metrics.functions.keys());
            // `name (file.c)`, if there are namesakes.
            let of_file = metrics.functions.iter().filter_map(|(key, numbers)| {
                let shown = namesakes.contains(key.name.as_str()).then(|| format!("{} ({})", key.name, key.file));
                (shown.as_deref() == Some(name)).then_some(numbers)
            });
            let sum = |found: &[&Numbers]| found.iter().filter_map(|numbers| numbers[metric]).sum();
            let of_file: Vec<&Numbers> = of_file.collect();
            if !of_file.is_empty() {
                return Ok::<u64, Unmeasured>(sum(&of_file));
            }
            let names = lookup::keys(profile, metrics, name)?;
            let found: Vec<&Numbers> = metrics.named(&names).collect();
            if found.is_empty() {
                is_function(name, &names)?;
            }
            if metric == Metric::Inclusive {
                // One of several functions may call another, which counts once.
                return Ok(metrics::inclusive_together(profile, &names).unwrap_or(0));
            }
            Ok(sum(&found))
        };
        let task = |name: &str| {
            metrics.tasks.get(name).ok_or_else(|| {
                let nearest = nearest(name, metrics.tasks.keys().map(String::as_str));
                let hint = nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default();
                Unmeasured::unknown(Subject::Task, name, format!("no task {name} ran{hint}"))
            })
        };
        let zone = |name: &str| {
            if let Some(numbers) = metrics.zones.get(name) {
                return Ok(*numbers);
            }
            // A zone that exists and never began has 0 for all numbers.
            if profile.zones.names.iter().any(|known| known == name) {
                return Ok(Numbers::uncounted(Subject::Zone));
            }
            let nearest = nearest(name, profile.zones.names.iter().map(String::as_str));
            let hint = nearest.map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default();
            Err(Unmeasured::unknown(Subject::Zone, name, format!("the firmware has no zone `{name}`{hint}")))
        };
        Ok(match &self.measure {
            Measure::Metric(metric, name) => {
                let known = |numbers: &Numbers| {
                    numbers[*metric].ok_or_else(|| Unmeasured::from(metric.descriptor().unknown.to_owned()))
                };
                let part = match metric.subject() {
                    Subject::Run => known(&metrics.run)?,
                    Subject::Function => function(name, *metric)?,
                    Subject::Task => known(task(name)?)?,
                    Subject::Zone => known(&zone(name)?)?,
                };
                let interval = undecided::interval(profile, metrics, *metric, (name, part));
                let between = interval.zip(cycles::interval(profile)).map(<[_; 2]>::from);
                let whole = metric.descriptor().whole.and_then(|whole| whole(profile, metrics, name));
                Measured { part, whole, between }
            }
            Measure::Waits => number(profile.facts.waits),
            Measure::Coverage(file) | Measure::Lines(file) => coverage(covered(), file, "line", File::line_tally)?,
            Measure::Branches(file) => coverage(covered(), file, "branch", File::branch_tally)?,
            Measure::Irq(name) => {
                let interrupts = stacks::interrupts(profile);
                interrupt_exists(profile, name)?;
                let samples = interrupts.iter().filter(|(known, _)| stacks::is_interrupt(known, name));
                Measured {
                    part: samples.map(|(_, samples)| samples).sum(),
                    whole: Some(profile.samples.len() as u64),
                    between: None,
                }
            }
            Measure::Span(of, spans) => number(span(profile, metrics, *of, spans, exists)?),
            Measure::Timing(_) => unreachable!("it has many times"),
            Measure::Depth(name) => {
                let keys = lookup::keys(profile, metrics, name)?;
                is_function(name, &keys)?;
                number(depth(profile, &keys))
            }
        })
    }
}

/// Value of a measure as written; the error says what was expected.
fn parse_value(word: &str, share: Share, text: &str) -> Result<Value, String> {
    let number = || parse_number("", text).ok().map(Value::Number);
    let parsed = match text.strip_suffix('%') {
        Some(share) => parse_millionths(share.trim()).map(Value::Millionths),
        None if share == Share::Time => parse_ns(text).map(Value::Ns),
        None if share == Share::TimeOrInsns => parse_ns(text).map(Value::Ns).or_else(number),
        None => number(),
    };
    let value = parsed.ok_or_else(|| match share {
        Share::Time => format!("{word} is a time: end with s, ms, us or ns, such as 3ms"),
        Share::TimeOrInsns => {
            format!("{word} is a time: end with s, ms, us or ns, such as 3ms, or with instructions such as 5k")
        }
        _ => "end with a number such as 256 or 10k, or a share such as 5%".to_owned(),
    })?;
    match (share, value) {
        (Share::Always, Value::Number(_)) => Err(format!("{word} is a share: write it with %")),
        (Share::Never | Share::Time | Share::TimeOrInsns, Value::Millionths(_)) => {
            Err(format!("{word} is a number and no share: write it without %"))
        }
        _ => Ok(value),
    }
}

impl Measured {
    fn describe(self, value: Value) -> String {
        match (value, self.whole) {
            (Value::Millionths(_), Some(whole)) => {
                format!("{} of {} ({:.4}%)", group(self.part), group(whole), percent(self.part, whole))
            }
            (Value::Millionths(_), None) => format!("{}, and its share is not known", group(self.part)),
            (Value::Number(_), _) => match self.between {
                Some([interval, _]) => format!("{}, {}", group(self.part), cycles::describe(interval)),
                None => group(self.part),
            },
            (Value::Ns(_), _) => millis(self.part.into()),
        }
    }
}

impl Spans {
    fn named(name: String) -> Spans {
        match name.split_once("..") {
            Some((from, until)) if !from.is_empty() && !until.is_empty() => {
                Spans::Between(from.to_owned(), until.to_owned())
            }
            _ => Spans::Calls(name),
        }
    }

    /// Whether a span is of this kind; `called` are the names of the functions for calls.
    fn are(
        &self,
        span: &Span,
        profile: &Profile,
        exceptions: &stacks::Exceptions<'_>,
        called: &BTreeSet<String>,
    ) -> bool {
        match (self, span.kind) {
            (Spans::Calls(_), SpanKind::Call { entry }) => is_called(profile, entry, called),
            (Spans::Handler(name), SpanKind::Exception { number }) => {
                stacks::is_interrupt(&exceptions.name(number, span.longest_at), name)
            }
            (Spans::Masked, SpanKind::Masked) | (Spans::PendSv, SpanKind::PendSv) => true,
            (Spans::Between(from, until), SpanKind::Between { from: start, until: end }) => {
                // The names mean the addresses that they meant when the run was planned.
                let is_at = |address: u64, name: &str| {
                    let found = profile.names.find(name).unwrap_or_default();
                    found.iter().any(|found| found.address == address)
                };
                is_at(start, from) && is_at(end, until)
            }
            _ => false,
        }
    }
}

/// A statistic of the spans; 0 if none occurred, so that a limit holds for spans that never occur.
fn span(profile: &Profile, metrics: &Metrics, of: Of, spans: &Spans, exists: Exists<'_>) -> Result<u64, Unmeasured> {
    let exceptions = stacks::Exceptions::new(profile);
    let called = match spans {
        Spans::Calls(name) => lookup::keys(profile, metrics, name)?,
        _ => BTreeSet::new(),
    };
    let found: Vec<&Span> =
        profile.spans.iter().filter(|span| spans.are(span, profile, &exceptions, &called)).collect();
    match spans {
        Spans::Between(from, until) if found.is_empty() => {
            return Err(format!("nothing was measured between {from} and {until}").into());
        }
        Spans::Calls(name) if found.is_empty() => function_exists(exists, name, &called)?,
        Spans::Handler(name) if found.is_empty() => {
            interrupt_exists(profile, name)?;
            let handlers = profile.spans.iter().filter_map(|span| match span.kind {
                SpanKind::Exception { number } => Some(exceptions.name(number, span.longest_at)),
                _ => None,
            });
            let known: Vec<String> = handlers.collect();
            return Err(format!("no interrupt {name} came; there were: {}", known.join(", ")).into());
        }
        _ => {}
    }
    if matches!(of, Of::MaxCycles | Of::Time) && !cycles::are_proved(profile) {
        return Err(metrics::NO_PROOF.to_owned().into());
    }
    let ran = || found.iter().filter(|span| span.count > 0);
    let max_cycles = || ran().map(|span| span.cycles.max).max().unwrap_or(0);
    Ok(match of {
        Of::Min => ran().map(|span| span.min_insns).min().unwrap_or(0),
        Of::Max => ran().map(|span| span.max_insns).max().unwrap_or(0),
        Of::MaxCycles => max_cycles(),
        Of::Time => {
            let hz = time::clock_hz(profile).ok_or_else(|| metrics::NO_CLOCK.to_owned())?;
            u64::try_from(time::ns_of(max_cycles(), hz)).unwrap_or(u64::MAX)
        }
        Of::Mean => {
            let (count, sum) = ran().fold((0, 0), |(count, sum), span| (count + span.count, sum + span.sum_insns));
            mean(sum, count).unwrap_or(0)
        }
    })
}

/// Number of a file's lines that have code, or of the ways of its branches, and of those that ran for certain.
fn coverage(coverage: &Coverage, file: &str, noun: &str, of: fn(&File) -> Tally) -> Result<Measured, Unmeasured> {
    match coverage.tally_in(file, of) {
        Some(Tally { hit, found, .. }) if found > 0 => Ok(Measured { part: hit, whole: Some(found), between: None }),
        Some(_) => Err(Unmeasured::from(format!("{file} has no {noun} in the image"))),
        None => {
            let nearest = nearest(file, coverage.files.keys().map(|path| file_name(path)));
            let hint = nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default();
            Err(Unmeasured::unknown(None, file, format!("no line of {file} has code in the image{hint}")))
        }
    }
}

/// Whether the function at an address has one of these names.
fn is_called(profile: &Profile, address: u64, names: &BTreeSet<String>) -> bool {
    match Owner::of(profile, address) {
        Owner::Function(function) => names.contains(&key_name(&function.name)),
        _ => false,
    }
}

/// Maximum number of activations of functions with these names on one path of the tree.
fn depth(profile: &Profile, names: &BTreeSet<String>) -> u64 {
    let is_it = |entry: u64| is_called(profile, entry, names);
    let mut depths: Vec<u64> = Vec::with_capacity(profile.tree.len());
    for node in &profile.tree {
        let outer = node.parent.checked_sub(1).and_then(|index| depths.get(index as usize)).copied().unwrap_or(0);
        depths.push(match node.kind {
            NodeKind::Function { entry } => outer + u64::from(is_it(entry)),
            NodeKind::Root { .. } => outer,
            NodeKind::Exception { .. } => 0,
        });
    }
    depths.into_iter().max().unwrap_or(0)
}

/// Lookup of a function name in a profile's image; the error suggests what to type instead.
pub fn finder<'a>(symbols: &'a crate::image::symbols::Symbols<'_>) -> impl Fn(&str) -> Result<(), String> + 'a {
    |name| match symbols.find(name) {
        // An ambiguous name is found, too: the numbers of namesakes are added up.
        Ok(_) | Err(crate::image::symbols::NotFound::Ambiguous { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;
    use crate::profile::{Alias, Cycles, InsnCycles};

    fn check(profile: &Profile, text: &str) -> Outcome {
        let missing = |name: &str| Err(format!("no function is called {name}"));
        Assertion::parse(text).unwrap().check(profile, &Metrics::of(profile), &OnceCell::new(), &missing)
    }

    #[test]
    fn assertions_hold_or_say_what_was_measured() {
        let profile = empty().function("main", 0x40, 4).function("crc", 0x80, 8).insn(0x40, 1).insn(0x80, 9);
        for (text, holds, actual) in [
            ("total == 10", true, "10"),
            ("total<10", false, "10"),
            ("self(\"crc\") <= 90%", true, "9 of 10 (90.0000%)"),
            ("self(\"crc\") < 90%", false, "9 of 10 (90.0000%)"),
            ("self(\"crc.constprop.0\") >= 9", true, "9"),
            ("calls(\"main\") != 0", true, "1"),
            ("calls(\"crd\") == 0", false, "no function is called crd"),
            ("task(\"IDLE\") > 5%", false, "no task IDLE ran"),
            ("coverage(\"a.c\") >= 1%", false, "no line of a.c has code in the image"),
            ("branches(\"a.c\") >= 1%", false, "no line of a.c has code in the image"),
            ("waits == 0", true, "0"),
        ] {
            let outcome = check(&profile, text);
            assert_eq!((outcome.holds, &*outcome.actual), (holds, actual), "{text}");
        }
    }

    #[test]
    fn cycles_in_an_interval_decide_only_as_a_whole() {
        let mut profile = empty().function("f", 0, 2).function("g", 2, 2).insn(0, 1).insn(2, 1);
        let of = |pc, fewer, more| InsnCycles { pc, cycles: 100, fewer, more, ..InsnCycles::default() };
        profile.cycles = Some(Cycles { insns: vec![of(0, 50, 50), of(2, 0, 0)], ..Cycles::default() });
        for (text, holds, is_undecided) in [
            ("cycles <= 149", false, false),
            ("cycles <= 150", true, true),
            ("cycles <= 250", true, false),
            ("self_cycles(\"f\") <= 120", true, true),
            ("self_cycles(\"f\") >= 50", true, false),
            ("self_cycles(\"f\") == 40", false, false),
            ("self_cycles(\"f\") == 50", true, true),
            ("self_cycles(\"g\") == 100", true, false),
            // 50 of 150 to 150 of 250.
            ("self_cycles(\"f\") < 33%", false, false),
            ("self_cycles(\"f\") < 61%", true, false),
            ("self_cycles(\"f\") < 50%", true, true),
            ("self_cycles(\"g\") > 39%", true, false),
        ] {
            let outcome = check(&profile, text);
            assert_eq!((outcome.holds, outcome.is_undecided), (holds, is_undecided), "{text}: {}", outcome.actual);
        }
        assert!(check(&profile, "self_cycles(\"f\") <= 120").actual.contains("between 50 and 150"));
    }

    #[test]
    fn lines_and_branches_are_shares_of_a_file() {
        // beq; movs, which is never skipped; bx lr; then a line that never ran.
        let mut profile = empty().function("main", 0x40, 8).insn(0x40, 3).insn(0x42, 3).insn(0x44, 3);
        profile.names.strings = ["src/a.c", "src/b.c"].map(str::to_owned).to_vec();
        let line = |start, size_bytes, file, line| crate::profile::LineCode { start, size_bytes, file, line };
        profile.names.lines = vec![line(0x40, 4, 0, 5), line(0x44, 2, 1, 9), line(0x46, 2, 0, 6)];
        let bytes = vec![0x00, 0xd0, 0x01, 0x20, 0x70, 0x47, 0x00, 0xbf];
        profile.code = vec![crate::profile::Code { start: 0x40, bytes }];
        for (text, holds, actual) in [
            ("lines(\"a.c\") == 50%", true, "1 of 2 (50.0000%)"),
            ("coverage(\"src/a.c\") == 50%", true, "1 of 2 (50.0000%)"),
            ("branches(\"src/a.c\") >= 51%", false, "1 of 2 (50.0000%)"),
            ("branches(\"b.c\") >= 1%", false, "b.c has no branch in the image"),
            ("branches(\"c.c\") >= 1%", false, "no line of c.c has code in the image; did you mean a.c?"),
        ] {
            let outcome = check(&profile, text);
            assert_eq!((outcome.holds, &*outcome.actual), (holds, actual), "{text}");
        }
    }

    #[test]
    fn a_name_is_that_of_all_instances_of_one_generic_and_of_every_alias() {
        let mut profile = empty()
            .function("app::sort::<u8, app::run::{closure#0}>", 0x40, 4)
            .function("app::sort::<u16, app::run::{closure#1}>", 0x50, 4)
            .function("__adddf3", 0x60, 4)
            .function("<app::A as app::Shape>::area", 0x70, 4)
            .function("<app::B as app::Shape>::area", 0x80, 4)
            .function("app::never::<u8>", 0x90, 4)
            .frames(0xa2, &["main", "app::sort::<u32, app::run::{closure#2}>"])
            .function("main", 0xa0, 8);
        for pc in [0x40, 0x50, 0x50, 0x60, 0x70, 0x80, 0xa0, 0xa2] {
            profile = profile.insn(pc, 10);
        }
        profile.names.aliases.push(Alias { address: 0x60, linkage_name: "__aeabi_dadd".to_owned() });
        for (text, holds, actual) in [
            ("calls(\"app::sort\") == 30", true, "30"),
            ("self(\"sort\") == 40", true, "40"),
            ("self(\"app::sort::<u8>\") == 10", true, "10"),
            ("self(\"sort::<u16, app::run::{closure#7}>\") == 20", true, "20"),
            ("self(\"__aeabi_dadd\") == 10", true, "10"),
            ("calls(\"__adddf3\") == 10", true, "10"),
            ("self(\"A::area\") == 10", true, "10"),
            ("depth(\"never\") == 0", false, "no function is called never"),
            ("calls(\"never\") == 0", false, "no function is called never"),
        ] {
            let outcome = check(&profile, text);
            assert_eq!((outcome.holds, &*outcome.actual), (holds, actual), "{text}");
        }
        let unclear = check(&profile, "calls(\"area\") == 20");
        let assertion = Assertion::parse("depth(\"area\") == 1").unwrap();
        assert_eq!(assertion.unclear(&profile, &Metrics::of(&profile)), Some(unclear.actual.clone()));
        assert!(!unclear.holds && unclear.actual.starts_with("`area` names 2 functions"), "{unclear:?}");
        assert!(unclear.actual.contains("\n  <app::B as app::Shape>::area"), "{unclear:?}");
    }

    #[test]
    fn a_name_that_nothing_has_is_told_from_a_number_that_does_not_hold() {
        let mut profile = empty()
            .function("main", 0x40, 4)
            .function("UART0_IRQHandler", 0x50, 4)
            .function("GPIOA", 0x60, 4)
            .insn(0x40, 9)
            .exception(0, 16, 0x51, 0)
            .task_called("net");
        profile.zones.names = vec!["decode".to_owned()];
        let unknown = |text: &str| {
            let outcome = check(&profile, text);
            assert!(outcome.unknown.is_none() || !outcome.holds, "{text}: {outcome:?}");
            outcome.unknown.map(|name| (name.of, name.name, outcome.actual))
        };
        for known in [
            "calls(\"main\") == 7",
            "calls(\"GPIOA\") == 0",
            "task(\"net\") == 0",
            "zone(\"decode\") == 0",
            "irq(\"UART0\") <= 5%",
            "irq(\"SysTick\") <= 5%",
            "irq(\"GPIOA\") <= 5%",
            "irq(\"17\") <= 5%",
            "handler_max(\"PendSV\") < 5",
        ] {
            assert_eq!(unknown(known), None, "{known}");
        }
        for (text, of, name, actual) in [
            ("calls(\"mian\") == 0", Some(Subject::Function), "mian", "no function is called mian"),
            ("max(\"mian\") < 5", Some(Subject::Function), "mian", "no function is called mian"),
            ("task(\"nte\") <= 5%", Some(Subject::Task), "nte", "no task nte ran; did you mean net?"),
            (
                "zone(\"decod\") < 5",
                Some(Subject::Zone),
                "decod",
                "the firmware has no zone `decod`; did you mean `decode`?",
            ),
            ("irq(\"UART1\") <= 5%", None, "UART1", "no interrupt is called UART1; did you mean UART0?"),
            ("handler_max(\"SysTik\") < 5", None, "SysTik", "no interrupt is called SysTik; did you mean SysTick?"),
        ] {
            assert_eq!(unknown(text), Some((of, name.to_owned(), actual.to_owned())), "{text}");
        }
        assert_eq!(unknown("coverage(\"a.c\") >= 1%").unwrap().0, None);
    }

    #[test]
    fn instances_that_call_each_other_count_once() {
        let mut profile = empty().function("sort::<u8>", 0x40, 4).function("sort::<u16>", 0x50, 4);
        profile = profile.insn(0x40, 10).insn(0x50, 10);
        profile =
            profile.node(0, NodeKind::Function { entry: 0x40 }, 10).node(1, NodeKind::Function { entry: 0x50 }, 10);
        let holds = |text: &str| assert!(check(&profile, text).holds, "{:?}", check(&profile, text));
        holds("inclusive(\"sort\") == 20");
        holds("inclusive(\"sort\") == 100%");
        holds("inclusive(\"sort::<u16>\") == 10");
    }

    #[test]
    fn every_word_is_a_measure_of_its_own_and_every_metric_for_assertions_has_one() {
        let mut known: Vec<(Measure, &str)> = Vec::new();
        for Word { word, share, make } in words() {
            let name = if make.takes_name() { "(\"f..g\")" } else { "" };
            let sign = match share {
                Share::Always => "%",
                Share::Time | Share::TimeOrInsns => "ms",
                Share::Never | Share::AsWritten => "",
            };
            let measure = Assertion::parse(&format!("{word}{name} == 1{sign}")).unwrap().measure;
            if let Some((_, other)) = known.iter().find(|(other, _)| *other == measure) {
                panic!("{word} measures what {other} does: {measure:?}");
            }
            known.push((measure, word));
        }
        for &metric in Metric::ALL {
            // `lines("f.c")` are a file's, and a baseline's `lines` are the console's.
            let is_there =
                known.iter().any(|(measure, _)| matches!(measure, Measure::Metric(of, _) if *of == metric));
            assert_eq!(is_there, metric.descriptor().role >= Role::Asserted, "{}", metric.word());
        }
    }

    #[test]
    fn what_cannot_be_read_says_what_was_expected() {
        for (text, what) in [
            ("cals(\"f\") == 1", "did you mean calls?"),
            ("calls == 1", "write calls(\"name\")"),
            ("calls(f) == 1", "write calls(\"name\")"),
            ("total(\"f\") == 1", "total takes no name"),
            ("total = 1", "after the measure"),
            ("deadline(\"f\") <= 5%", "without %"),
            ("deadline(\"f\") <= 5apples", "such as 3ms, or with instructions such as 5k"),
            ("deadline(\"f\") != 5ms", "use another sign"),
            ("period(\"f\") <= 5ms +- 1us", "a tolerance goes with"),
            ("period(\"f\") == 5ms +- 100", "in the same unit"),
            ("calls(\"f\") == 5 +- 1", "a tolerance goes with"),
            ("response(\"f\") <= 5ms", "from..until"),
            ("response(\"f..\") <= 5ms", "from..until"),
            ("masked(\"f\") <= 5ms", "takes no name"),
            ("total == one", "end with a number"),
            ("calls(\"f\") == 5%", "without %"),
            ("coverage(\"f\") == 5", "with %"),
            ("", "is not a measure"),
        ] {
            let error = Assertion::parse(text).unwrap_err().to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
