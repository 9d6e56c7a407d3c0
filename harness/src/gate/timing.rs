// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times that an assertion can hold against deadlines: of calls and handlers with all that interrupts them, of interrupts that
//! wait, between successive starts, with interrupts masked. They come from the timeline's events.

use crate::analysis::cycles;
use crate::analysis::lookup;
use crate::analysis::metrics::{self, Metrics};
use crate::analysis::moment::Moment;
use crate::analysis::stretches::{self, PENDSV, Stretch, Stretches, Subjects, Unit};
use crate::analysis::time;
use crate::analysis::zone::ContextNames;
use crate::gate::existence::{Exists, Unmeasured, interrupt_exists};
use crate::profile::zone::Context;
use crate::profile::{Profile, Span, SpanKind};
use crate::text::number::{duration, group, plural};

/// Most tasks and interrupts that a message names.
const MAX_NAMED: usize = 3;

/// A kind of stretches of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Calls of a function, or runs of a handler, from entry to return.
    Deadline(String),
    /// Waits of an interrupt for its first instruction.
    Latency(String),
    /// Distances between successive starts of a task, a function or a handler.
    Period(String),
    /// Stretches with interrupts masked.
    Masked,
    /// Stretches from each start of one function or handler to the next start of another.
    Response(String, String),
}

/// Measured times of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// The least, in the unit that was asked for.
    pub least: u64,
    /// The most.
    pub most: u64,
    /// The shortest one and the longest one in words; None: there is none.
    shown: Option<[Shown; 2]>,
}

/// A stretch of time in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its length, its parts, its beginning.
    pub text: String,
    /// Its first instruction, as a place for the debugger.
    pub at: String,
}

impl Times {
    /// The longest stretch (or the shortest) in words; None: there is none.
    pub fn shown(&self, longest: bool) -> Option<&Shown> {
        self.shown.as_ref().map(|shown| &shown[usize::from(longest)])
    }
}

impl Timing {
    /// Response, written as `from..until`; a name is empty if that is not how it is written.
    pub fn response(name: &str) -> Timing {
        let (from, until) = name.split_once("..").unwrap_or_default();
        Timing::Response(from.to_owned(), until.to_owned())
    }

    /// Functions whose calls the run has to record, if they are functions.
    pub fn functions(&self) -> Vec<&str> {
        match self {
            Timing::Deadline(name) | Timing::Period(name) => vec![name],
            Timing::Response(from, until) => vec![from, until],
            Timing::Latency(_) | Timing::Masked => Vec::new(),
        }
    }

    /// Whether the number comes from the exact tree: when PendSV is asked for is seen only there.
    pub fn needs_exact(&self) -> bool {
        matches!(self, Timing::Latency(name) if name.to_ascii_lowercase().contains("pendsv"))
    }

    /// Measures the times.
    ///
    /// # Errors
    /// When there is no such time, or it is not known; with the reason.
    pub fn measure(
        &self,
        profile: &Profile,
        metrics: &Metrics,
        unit: Unit,
        exists: Exists<'_>,
    ) -> Result<Times, Unmeasured> {
        self.can_be_known(profile, unit)?;
        let subjects = |name: &str| Subjects::named(profile, name);
        let missing = |name: &str| why_missing(profile, metrics, name, exists);
        match self {
            Timing::Deadline(name) => {
                let found = stretches::runs(profile, &subjects(name), unit).ok_or_else(|| missing(name))?;
                Ok(self.times(profile, unit, Some(found)))
            }
            Timing::Masked => Ok(self.times(profile, unit, stretches::masked(profile, unit))),
            Timing::Latency(name) => {
                let subjects = subjects(name);
                if subjects.exceptions.iter().any(|&number| stretches::is_synchronous(profile, number)) {
                    return Err(format!("{name} never waits: it comes at the instruction that raises it").into());
                }
                if profile.facts.is_arm() && subjects.exceptions.contains(&PENDSV) {
                    return pendsv(profile, unit);
                }
                let found = stretches::waits(profile, &subjects, unit).ok_or_else(|| {
                    let came = || format!("no interrupt {name} came");
                    interrupt_exists(profile, name).map_or_else(|error| error, |()| came().into())
                })?;
                Ok(self.times(profile, unit, Some(found)))
            }
            Timing::Period(name) => {
                let periods = stretches::periods(profile, &subjects(name), unit);
                let found = periods.found.ok_or_else(|| match periods.starts {
                    0 => missing(name),
                    _ => format!("{name} started once: a period is the distance of two starts").into(),
                })?;
                Ok(self.times(profile, unit, Some(found)))
            }
            Timing::Response(from, until) => {
                let (from_subjects, until_subjects) = (subjects(from), subjects(until));
                let found = stretches::responses(profile, &from_subjects, &until_subjects, unit);
                let found = found.ok_or_else(|| missing(from))?;
                // A name that does not exist at all is a mistake, and no late response.
                if !found.shortest.is_over
                    && let error @ Unmeasured { unknown: Some(_), .. } = missing(until)
                {
                    return Err(error);
                }
                Ok(self.times(profile, unit, Some(found)))
            }
        }
    }

    /// Succeeds if the run's events tell times.
    fn can_be_known(&self, profile: &Profile, unit: Unit) -> Result<(), Unmeasured> {
        let vcpus = profile.vcpus.len();
        if vcpus > 1 {
            return Err(format!("times are those of one CPU, and this machine has {vcpus}").into());
        }
        if profile.timeline.is_none() {
            return Err("the run has no timeline: set `timeline = true`".to_owned().into());
        }
        if unit == Unit::Ns && cycles::doubt(profile).is_some() {
            return Err(metrics::NO_PROOF.to_owned().into());
        }
        let sleeps = !matches!(self, Timing::Latency(_) | Timing::Masked) && profile.facts.slept_ns.is_none();
        if sleeps && unit == Unit::Ns && profile.facts.waits > 0 {
            let waits = plural(profile.facts.waits, "wait");
            let why = format!("how long the processor slept in {waits} for an interrupt is not known");
            return Err(format!("{why}; a limit in instructions (5k) holds what it executed").into());
        }
        Ok(())
    }

    fn times(&self, profile: &Profile, unit: Unit, found: Option<Stretches>) -> Times {
        let Some(found) = found else { return Times { least: 0, most: 0, shown: None } };
        let [least, most] = [found.shortest, found.longest].map(|stretch| unit.of(stretch.length));
        let show = |stretch: &Stretch| self.show(profile, unit, stretch, found.count);
        Times { least, most, shown: Some([show(&found.shortest), show(&found.longest)]) }
    }

    fn show(&self, profile: &Profile, unit: Unit, stretch: &Stretch, count: u64) -> Shown {
        let [insns, ns] = [Unit::Insns, Unit::Ns].map(|unit| unit.of(stretch.length));
        let names = ContextNames::new(profile);
        let mut text = length(unit, insns, ns);
        if self == &Timing::Masked {
            text = format!("{text}, in {}", names.name(stretch.context));
        } else if !matches!(self, Timing::Latency(_)) {
            text += &parts(profile, unit, stretch, &names);
        }
        // Masking takes effect after the instruction that masks.
        let first = match self {
            Timing::Masked => stretch.began.insns.max(1),
            _ => stretch.began.insns + 1,
        };
        let at = format!("insn:{first}");
        text = match self {
            Timing::Latency(_) if stretch.length == Moment::default() => {
                format!("0 in {}: it came at once", plural(count, "time"))
            }
            Timing::Latency(_) => format!(
                "at most {text}, for which masked interrupts or other handlers kept it from coming, from {at} on; when it \
                 was raised is not known"
            ),
            Timing::Period(_) => format!("{text}, of {}, from {at} on", plural(count, "distance")),
            _ => format!("{text}, from {at} on"),
        };
        if !stretch.is_over {
            text += ", and not over when the run ended";
        }
        Shown { text: format!("{text}; {}", time::assumption(profile)), at }
    }
}

/// A length in both units, that of the assertion first.
fn length(unit: Unit, insns: u64, ns: u64) -> String {
    let (insns, time) = (plural(insns, "instruction"), duration(ns));
    match unit {
        Unit::Insns => format!("{insns} ({time})"),
        Unit::Ns => format!("{time} ({insns})"),
    }
}

/// Parts of a stretch that others had, or during which the processor slept.
fn parts(profile: &Profile, unit: Unit, stretch: &Stretch, names: &ContextNames) -> String {
    let amount = |amount: u64| match unit {
        Unit::Insns => group(amount),
        Unit::Ns => duration(amount),
    };
    let others = stretches::others(profile, stretch);
    let mut others: Vec<(Context, u64)> =
        others.into_iter().map(|(context, length)| (context, unit.of(length))).collect();
    others.sort_by_key(|(_, amount)| std::cmp::Reverse(*amount));
    let own = names.name(stretch.context);
    let mut text = match others.iter().map(|(_, amount)| amount).sum() {
        0 => format!(", all in {own}"),
        sum => {
            let shown = others.iter().take(MAX_NAMED);
            let shown: Vec<String> =
                shown.map(|&(context, length)| format!("{} {}", names.name(context), amount(length))).collect();
            let more = if others.len() > MAX_NAMED { ", \u{2026}" } else { "" };
            format!(", {} of it not in {own} but in others ({}{more})", amount(sum), shown.join(", "))
        }
    };
    if stretch.length.slept_ns > 0 {
        text += &format!(", {} asleep", duration(stretch.length.slept_ns));
    }
    text
}

/// Times from PendSV's request to its first instruction, which the spans of `--exact` have.
fn pendsv(profile: &Profile, unit: Unit) -> Result<Times, Unmeasured> {
    let span: Option<&Span> = profile.spans.iter().find(|span| span.kind == SpanKind::PendSv && span.count > 0);
    let span = span.ok_or("when PendSV was asked for was not seen: set `exact = true`".to_owned())?;
    let ns = |insns: u64, cycles: u64| match time::clock_hz(profile) {
        Some(hz) => u64::try_from(time::ns_of(cycles, hz)).unwrap_or(u64::MAX),
        None => u64::try_from(profile.facts.insns_ns(insns)).unwrap_or(u64::MAX),
    };
    let [least, most] = [(span.min_insns, span.cycles.min), (span.max_insns, span.cycles.max)];
    let of = |(insns, cycles)| match unit {
        Unit::Insns => insns,
        Unit::Ns => ns(insns, cycles),
    };
    let at = format!("insn:{}", span.longest_since_insns + 1);
    let text = length(unit, most.0, ns(most.0, most.1));
    let shown = Shown {
        text: format!(
            "{text} from the request to its first instruction, from {at} on; {}",
            time::assumption(profile)
        ),
        at,
    };
    Ok(Times { least: of(least), most: of(most), shown: Some([shown.clone(), shown]) })
}

/// Reason why nothing with a name occurred.
fn why_missing(profile: &Profile, metrics: &Metrics, name: &str, exists: Exists<'_>) -> Unmeasured {
    if profile.names.find(name).is_ok() || exists(name).is_ok() {
        return format!("{name} never ran: no call of it began in the window").into();
    }
    if lookup::keys(profile, metrics, name).is_ok_and(|keys| !keys.is_empty()) {
        let why = format!("{name} only exists inlined, where its calls have no beginning and no end");
        return format!("{why}; make it a zone, or keep the compiler from inlining it").into();
    }
    if interrupt_exists(profile, name).is_ok() {
        return format!("no interrupt {name} came").into();
    }
    let why = exists(name).err().unwrap_or_default();
    Unmeasured::unknown(metrics::Subject::Function, name, why)
}
