// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness.toml` as typed: its keys and values. Also merges an image's keys with the defaults.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::LazyLock;

use globset::Glob;
use regex::Regex;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use toml::Spanned;

use crate::analysis::metrics::{Metric, Subject};
use crate::analysis::stack_bound::Rules;
use crate::chip::cycled;
use crate::cli::input_row::InputRow;
use crate::gate::budget;
use crate::gate::expect::{Ending, ExpectedText};
use crate::gate::work_floor;
use crate::text::count::Count;
use crate::text::number::parse_number;

/// A suite's file.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    pub(super) name: Option<String>,
    pub(super) baseline: Option<String>,
    pub(super) baselines: Option<PathBuf>,
    #[serde(default)]
    pub(super) budget: budget::Table,
    #[serde(default)]
    pub(super) stack: Rules,
    #[serde(default)]
    pub(super) defaults: Entry,
    #[serde(default)]
    pub(super) image: Vec<Spanned<Entry>>,
}

/// Keys of one image, all of them optional. The defaults have the same keys.
#[derive(Clone, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct Entry {
    pub(super) name: Option<String>,
    pub(super) elf: Option<PathBuf>,
    pub(super) tags: Vec<String>,
    pub(super) chip: Option<Spanned<String>>,
    pub(super) no_chip: Option<bool>,
    pub(super) svd: Option<PathBuf>,
    pub(super) machine: Option<Spanned<String>>,
    pub(super) cpu: Option<Spanned<String>>,
    pub(super) qemu_args: Option<Vec<String>>,
    pub(super) shift: Option<Spanned<Count>>,
    pub(super) load_addr: Option<Spanned<Count>>,
    pub(super) load_bias: Option<Spanned<Count>>,
    pub(super) symbols: Option<PathBuf>,
    pub(super) period: Option<Spanned<Count>>,
    pub(super) seeded_jitter: Option<Spanned<Count>>,
    pub(super) max_depth: Option<Spanned<Count>>,
    pub(super) exact: Option<bool>,
    pub(super) branches: Option<bool>,
    pub(super) cycles: Option<WantedCycles>,
    pub(super) heap: Option<bool>,
    pub(super) heap_alloc: Vec<Spanned<String>>,
    pub(super) heap_free: Vec<Spanned<String>>,
    pub(super) timeline: Option<bool>,
    pub(super) trace: Vec<String>,
    pub(super) zone_calls: Vec<Spanned<String>>,
    #[serde(rename = "for")]
    pub(super) for_insns: Option<Spanned<Count>>,
    pub(super) from: Option<String>,
    pub(super) until: Option<String>,
    pub(super) max_insns: Option<Spanned<Count>>,
    pub(super) resets: Option<Spanned<Count>>,
    pub(super) slice: Option<Spanned<Count>>,
    pub(super) timeout: Option<Spanned<f64>>,
    pub(super) max_output: Option<Spanned<Count>>,
    pub(super) files: BTreeMap<String, PathBuf>,
    pub(super) stub: BTreeMap<String, Spanned<StubValue>>,
    pub(super) vectors: Option<Spanned<Count>>,
    pub(super) input: Option<Vec<Spanned<InputRow>>>,
    pub(super) args: Option<Vec<String>>,
    pub(super) semihosting: Option<Served>,
    pub(super) strict: Option<bool>,
    pub(super) polls: Vec<Spanned<Polls>>,
    pub(super) exit: Option<Exit>,
    pub(super) console: Option<Vec<Spanned<ConsoleLine>>>,
    pub(super) console_not: Vec<Spanned<ConsoleText>>,
    pub(super) assert: Vec<Spanned<String>>,
    pub(super) thresholds: Thresholds,
    pub(super) budget: budget::Table,
    pub(super) matrix: Matrix,
}

/// A matrix: the image is run with each combination of these values.
#[derive(Clone, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct Matrix {
    pub(super) machine: Vec<Spanned<String>>,
    pub(super) cpu: Vec<Spanned<String>>,
    pub(super) shift: Vec<Spanned<Count>>,
    pub(super) period: Vec<Spanned<Count>>,
}

/// Limits by the limited number.
#[derive(Clone, Default)]
pub(super) struct Thresholds(pub(super) BTreeMap<Limited, Spanned<Limits>>);

/// A number that can be limited, by its word in suites.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Limited {
    /// A metric, for which more is worse.
    Metric(Metric),
    /// Work done in a window, for which less is worse.
    Work,
}

impl Limited {
    pub(super) fn word(self) -> &'static str {
        match self {
            Limited::Metric(metric) => metric.word(),
            Limited::Work => work_floor::WORD,
        }
    }
}

/// One limit, several limits, or limits by pattern of names.
#[derive(Clone)]
pub(super) enum Limits {
    Plain(Vec<Count>),
    Named(BTreeMap<String, Spanned<Limits>>),
}

/// Return value of a stub: a number, or a text with a number in it. `true`: the stub returns no value.
#[derive(Clone)]
pub(super) struct StubValue(pub(super) Option<String>);

/// Cycles to be counted: `true` for those of the processor, or a core's name or file. None: `false`.
#[derive(Clone)]
pub(super) struct WantedCycles(pub(super) Option<String>);

/// `exit`: the expected end of the run.
#[derive(Clone)]
pub(super) struct Exit(pub(super) Ending);

/// A function in which the firmware may stand still, or a glob of such functions.
#[derive(Clone)]
pub(super) struct Polls(pub(super) Glob);

/// Semihosting calls that are served, as [`crate::run::contain::semihosting::Semihosting`].
#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Served {
    Off,
    Console,
    Scratch,
}

/// A text or `{ regex = "..." }`.
#[derive(Clone)]
pub(super) struct ConsoleText(pub(super) ExpectedText);

/// A text, `{ text = "...", by = "10M" }` or `{ regex = "...", by = "10M" }`.
#[derive(Clone)]
pub(super) struct ConsoleLine(pub(super) ConsoleText, pub(super) Option<u64>);

impl<'de> Deserialize<'de> for StubValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Values;
        impl Visitor<'_> for Values {
            type Value = StubValue;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("what the function returns, such as 0, -1 or \"0x2000\", or true for nothing")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<StubValue, E> {
                Ok(StubValue(Some(value.to_string())))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<StubValue, E> {
                Ok(StubValue(Some(value.to_owned())))
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<StubValue, E> {
                value.then_some(StubValue(None)).ok_or_else(|| E::invalid_value(de::Unexpected::Bool(value), &self))
            }
        }
        deserializer.deserialize_any(Values)
    }
}

impl<'de> Deserialize<'de> for WantedCycles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Values;
        impl Visitor<'_> for Values {
            type Value = WantedCycles;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("true, false, or a core such as \"hazard3\" or \"hazard3@150MHz\"")
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<WantedCycles, E> {
                Ok(WantedCycles(value.then(|| cycled::AUTO.to_owned())))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<WantedCycles, E> {
                Ok(WantedCycles(Some(value.to_owned())))
            }
        }
        deserializer.deserialize_any(Values)
    }
}

impl<'de> Deserialize<'de> for Polls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Glob::new(&text).map(Polls).map_err(|error| de::Error::custom(format!("polls {text:?}: {}", error.kind())))
    }
}

impl<'de> Deserialize<'de> for Exit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Endings;
        impl Visitor<'_> for Endings {
            type Value = Exit;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(
                    f,
                    "an exit status, or one of {}",
                    Ending::WORDS.map(|(word, _)| format!("{word:?}")).join(", ")
                )
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Exit, E> {
                let status =
                    u32::try_from(value).map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))?;
                Ok(Exit(Ending::Status(status)))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Exit, E> {
                let known = Ending::WORDS.into_iter().find(|(word, _)| *word == value);
                let (_, ending) = known.ok_or_else(|| E::invalid_value(de::Unexpected::Str(value), &self))?;
                Ok(Exit(ending))
            }
        }
        deserializer.deserialize_any(Endings)
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ConsoleTable {
    text: Option<String>,
    regex: Option<String>,
    by: Option<Count>,
}

impl<'de> Deserialize<'de> for ConsoleLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lines;
        impl<'de> Visitor<'de> for Lines {
            type Value = ConsoleLine;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, { text = \"...\" } or { regex = \"...\" }")
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<ConsoleLine, E> {
                Ok(ConsoleLine(ConsoleText(ExpectedText::Plain(value.to_owned())), None))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<ConsoleLine, A::Error> {
                let ConsoleTable { text, regex, by } =
                    Deserialize::deserialize(de::value::MapAccessDeserializer::new(map))?;
                let text = match (text, regex) {
                    (Some(text), None) => ExpectedText::Plain(text),
                    (None, Some(regex)) => ExpectedText::Regex(Regex::new(&regex).map_err(de::Error::custom)?),
                    _ => return Err(de::Error::custom("either text or regex is needed, and not both")),
                };
                let by = by.map(|Count(by)| parse_number("by", &by).map_err(de::Error::custom)).transpose()?;
                Ok(ConsoleLine(ConsoleText(text), by))
            }
        }
        deserializer.deserialize_any(Lines)
    }
}

impl<'de> Deserialize<'de> for ConsoleText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ConsoleLine(text, by) = ConsoleLine::deserialize(deserializer)?;
        match by {
            None => Ok(text),
            Some(_) => Err(de::Error::custom("console-not takes no `by`: the text must not appear at all")),
        }
    }
}

impl<'de> Deserialize<'de> for Limited {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        static LIMITED: LazyLock<Vec<Limited>> = LazyLock::new(|| {
            let metrics = Subject::ALL.into_iter().flat_map(Metric::compared);
            metrics.map(Limited::Metric).chain([Limited::Work]).collect()
        });
        static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| LIMITED.iter().map(|limited| limited.word()).collect());
        let word = String::deserialize(deserializer)?;
        let limited = LIMITED.iter().find(|limited| limited.word() == word);
        limited.copied().ok_or_else(|| de::Error::unknown_field(&word, &WORDS))
    }
}

impl<'de> Deserialize<'de> for Thresholds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Thresholds(Deserialize::deserialize(deserializer)?))
    }
}

impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // An untagged enum would lose the place and the reason of an error in the value.
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Limits;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a limit such as \"5%\", \"+500\" or 10000, a list of them, or limits by pattern")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Limits, E> {
                Ok(Limits::Plain(vec![Count(value.to_string())]))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Limits, E> {
                Ok(Limits::Plain(vec![Count(value.to_owned())]))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Limits, A::Error> {
                let mut limits = Vec::new();
                while let Some(limit) = seq.next_element()? {
                    limits.push(limit);
                }
                Ok(Limits::Plain(limits))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Limits, A::Error> {
                let mut named = BTreeMap::new();
                while let Some((pattern, limits)) = map.next_entry()? {
                    named.insert(pattern, limits);
                }
                Ok(Limits::Named(named))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl Entry {
    /// Fills keys missing in the entry from the defaults; lists of both are joined.
    pub(super) fn over(self, defaults: &Entry) -> Entry {
        let Entry { tags, files, stub, heap_alloc, heap_free, trace, zone_calls, polls, console_not, assert, .. } =
            defaults.clone();
        Entry {
            name: self.name,
            elf: self.elf.or_else(|| defaults.elf.clone()),
            tags: tags.into_iter().chain(self.tags).collect(),
            // Each of the two keys outweighs the other one of the defaults.
            no_chip: self.no_chip.or(defaults.no_chip.filter(|_| self.chip.is_none())),
            chip: self.chip.or_else(|| defaults.chip.clone().filter(|_| self.no_chip != Some(true))),
            svd: self.svd.or_else(|| defaults.svd.clone()),
            machine: self.machine.or_else(|| defaults.machine.clone()),
            cpu: self.cpu.or_else(|| defaults.cpu.clone()),
            qemu_args: self.qemu_args.or_else(|| defaults.qemu_args.clone()),
            shift: self.shift.or_else(|| defaults.shift.clone()),
            load_addr: self.load_addr.or_else(|| defaults.load_addr.clone()),
            load_bias: self.load_bias.or_else(|| defaults.load_bias.clone()),
            symbols: self.symbols.or_else(|| defaults.symbols.clone()),
            period: self.period.or_else(|| defaults.period.clone()),
            seeded_jitter: self.seeded_jitter.or_else(|| defaults.seeded_jitter.clone()),
            max_depth: self.max_depth.or_else(|| defaults.max_depth.clone()),
            exact: self.exact.or(defaults.exact),
            branches: self.branches.or(defaults.branches),
            cycles: self.cycles.or_else(|| defaults.cycles.clone()),
            heap: self.heap.or(defaults.heap),
            heap_alloc: heap_alloc.into_iter().chain(self.heap_alloc).collect(),
            heap_free: heap_free.into_iter().chain(self.heap_free).collect(),
            timeline: self.timeline.or(defaults.timeline),
            trace: trace.into_iter().chain(self.trace).collect(),
            zone_calls: zone_calls.into_iter().chain(self.zone_calls).collect(),
            for_insns: self.for_insns.or_else(|| defaults.for_insns.clone()),
            from: self.from.or_else(|| defaults.from.clone()),
            until: self.until.or_else(|| defaults.until.clone()),
            max_insns: self.max_insns.or_else(|| defaults.max_insns.clone()),
            resets: self.resets.or_else(|| defaults.resets.clone()),
            slice: self.slice.or_else(|| defaults.slice.clone()),
            timeout: self.timeout.or_else(|| defaults.timeout.clone()),
            max_output: self.max_output.or_else(|| defaults.max_output.clone()),
            files: files.into_iter().chain(self.files).collect(),
            stub: stub.into_iter().chain(self.stub).collect(),
            vectors: self.vectors.or_else(|| defaults.vectors.clone()),
            input: self.input.or_else(|| defaults.input.clone()),
            args: self.args.or_else(|| defaults.args.clone()),
            semihosting: self.semihosting.or(defaults.semihosting),
            strict: self.strict.or(defaults.strict),
            polls: polls.into_iter().chain(self.polls).collect(),
            exit: self.exit.or_else(|| defaults.exit.clone()),
            console: self.console.or_else(|| defaults.console.clone()),
            console_not: console_not.into_iter().chain(self.console_not).collect(),
            assert: assert.into_iter().chain(self.assert).collect(),
            thresholds: self.thresholds,
            budget: self.budget,
            matrix: self.matrix,
        }
    }

    /// Number of runs that its matrix makes.
    pub(super) fn combinations(&self) -> usize {
        let Matrix { machine, cpu, shift, period } = &self.matrix;
        let lengths = [machine.len(), cpu.len(), shift.len(), period.len()];
        lengths.into_iter().map(|length| length.max(1)).fold(1, usize::saturating_mul)
    }

    /// Place of an option's value, if the option can refuse it.
    pub(super) fn place(&self, option: &str) -> Option<Range<usize>> {
        let count = match option {
            "--shift" => &self.shift,
            "--load-addr" => &self.load_addr,
            "--load-bias" => &self.load_bias,
            "--vectors" => &self.vectors,
            "--period" => &self.period,
            "--max-depth" => &self.max_depth,
            "--for" => &self.for_insns,
            "--max-insns" => &self.max_insns,
            "--slice" => &self.slice,
            "--max-output" => &self.max_output,
            "--timeout" => return self.timeout.as_ref().map(Spanned::span),
            _ => return None,
        };
        count.as_ref().map(Spanned::span)
    }
}

/// One entry for each combination of its matrix, and the suffix of the entry's name.
pub(super) fn combinations(mut entry: Entry) -> Vec<(String, Entry)> {
    let Matrix { machine, cpu, shift, period } = std::mem::take(&mut entry.matrix);
    let mut all = vec![(Vec::<String>::new(), entry)];
    fn times<T: Clone>(
        all: Vec<(Vec<String>, Entry)>,
        key: &str,
        values: &[Spanned<T>],
        show: fn(&T) -> &str,
        set: fn(&mut Entry, Spanned<T>),
    ) -> Vec<(Vec<String>, Entry)> {
        if values.is_empty() {
            return all;
        }
        let combine = |(words, entry): &(Vec<String>, Entry)| {
            let (words, entry) = (words.clone(), entry.clone());
            values
                .iter()
                .map(move |value| {
                    let (mut words, mut entry) = (words.clone(), entry.clone());
                    words.push(format!("{key}={}", show(value.get_ref())));
                    set(&mut entry, value.clone());
                    (words, entry)
                })
                .collect::<Vec<_>>()
        };
        all.iter().flat_map(combine).collect()
    }
    all = times(all, "machine", &machine, |name| name, |entry, value| entry.machine = Some(value));
    all = times(all, "cpu", &cpu, |name| name, |entry, value| entry.cpu = Some(value));
    all = times(all, "shift", &shift, |Count(text)| text, |entry, value| entry.shift = Some(value));
    all = times(all, "period", &period, |Count(text)| text, |entry, value| entry.period = Some(value));
    let suffix = |words: Vec<String>| if words.is_empty() { String::new() } else { format!("[{}]", words.join(",")) };
    all.into_iter().map(|(words, entry)| (suffix(words), entry)).collect()
}
