//! A suite: images, how each is run, and what is expected of it. `harness.toml` as typed becomes cases that
//! are ready to run; every mistake is found before anything runs, and named by file and line.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use regex::Regex;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use toml::Spanned;

use crate::cli::Cli;
use crate::error::InputError;
use crate::gate::assertion::{Assertion, nearest};
use crate::gate::expect::{Ending, Expect, Line, Text};
use crate::gate::threshold::{ALL, Limit, Metric, Threshold};
use crate::image;
use crate::profile::input::{Input, When};
use crate::run::options::Options;
use crate::text::number::parse_number;

/// The file that is looked for when none is named.
pub const FILE_NAME: &str = "harness.toml";

/// A suite, ready to run.
#[derive(Debug)]
pub struct Suite {
    /// Its name: the file says it, or the directory.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Where its baselines are.
    pub baselines: PathBuf,
    /// The baseline to compare with unless another one is asked for.
    pub baseline: Option<String>,
    /// In the order of the file; a matrix becomes several.
    pub cases: Vec<Case>,
}

/// One run and what is expected of it.
#[derive(Debug)]
pub struct Case {
    /// Unique in the suite.
    pub name: String,
    /// What filters go by.
    pub tags: Vec<String>,
    /// How it is run.
    pub options: Options,
    /// What is expected of the run itself.
    pub expect: Expect,
    /// What is expected of the profile.
    pub assertions: Vec<Assertion>,
    /// How much worse than the baseline numbers may be.
    pub thresholds: Vec<Threshold>,
    /// Line of the file at which it is described.
    pub line: usize,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    name: Option<String>,
    baseline: Option<String>,
    baselines: Option<PathBuf>,
    #[serde(default)]
    defaults: Entry,
    #[serde(default)]
    image: Vec<Spanned<Entry>>,
}

/// One image's keys, all of them optional: defaults have the same.
#[derive(Clone, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Entry {
    name: Option<String>,
    elf: Option<PathBuf>,
    tags: Vec<String>,
    machine: Option<Spanned<String>>,
    cpu: Option<Spanned<String>>,
    qemu_args: Option<Vec<String>>,
    shift: Option<Spanned<Count>>,
    load_addr: Option<Spanned<Count>>,
    load_bias: Option<Spanned<Count>>,
    symbols: Option<PathBuf>,
    period: Option<Spanned<Count>>,
    seeded_jitter: Option<Spanned<Count>>,
    max_depth: Option<Spanned<Count>>,
    exact: Option<bool>,
    #[serde(rename = "for")]
    for_insns: Option<Spanned<Count>>,
    from: Option<String>,
    until: Option<String>,
    max_insns: Option<Spanned<Count>>,
    timeout: Option<f64>,
    files: BTreeMap<String, PathBuf>,
    input: Option<Vec<Spanned<Typed>>>,
    args: Option<Vec<String>>,
    strict: Option<bool>,
    exit: Option<Exit>,
    console: Option<Vec<Spanned<ConsoleLine>>>,
    console_not: Vec<Spanned<ConsoleText>>,
    assert: Vec<Spanned<String>>,
    thresholds: Thresholds,
    matrix: Matrix,
}

/// A matrix: the image is run with each combination.
#[derive(Clone, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Matrix {
    machine: Vec<Spanned<String>>,
    cpu: Vec<Spanned<String>>,
    shift: Vec<Spanned<Count>>,
    period: Vec<Spanned<Count>>,
}

/// Limits by metric.
#[derive(Clone, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Thresholds {
    total: Option<Limits>,
    #[serde(rename = "self")]
    self_insns: Option<Limits>,
    inclusive: Option<Limits>,
    calls: Option<Limits>,
    task: Option<Limits>,
    stack: Option<Limits>,
}

/// A limit, several, or limits by pattern of names.
#[derive(Clone)]
enum Limits {
    Plain(Vec<Spanned<Count>>),
    Named(BTreeMap<String, Limits>),
}

/// A number or a text with a number in it.
#[derive(Clone)]
struct Count(String);

/// What is typed on the console.
#[derive(Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Typed {
    text: String,
    at: Option<Count>,
    after: Option<String>,
}

/// How the run must end.
#[derive(Clone)]
struct Exit(Ending);

/// A text or `{ regex = "..." }`.
#[derive(Clone)]
struct ConsoleText(Text);

/// A text, `{ text = "...", by = "10M" }` or `{ regex = "...", by = "10M" }`.
#[derive(Clone)]
struct ConsoleLine(ConsoleText, Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl Visitor<'_> for Numbers {
            type Value = Count;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number, such as 2000000 or \"2M\"")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Count, E> {
                Ok(Count(value.to_string()))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Count, E> {
                Ok(Count(value.to_owned()))
            }
        }
        deserializer.deserialize_any(Numbers)
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
struct LineTable {
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
                Ok(ConsoleLine(ConsoleText(Text::Plain(value.to_owned())), None))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<ConsoleLine, A::Error> {
                let LineTable { text, regex, by } =
                    Deserialize::deserialize(de::value::MapAccessDeserializer::new(map))?;
                let text = match (text, regex) {
                    (Some(text), None) => Text::Plain(text),
                    (None, Some(regex)) => Text::Regex(Regex::new(&regex).map_err(de::Error::custom)?),
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
            Some(_) => Err(de::Error::custom("what must not appear has no `by`: it must not appear at all")),
        }
    }
}

impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Untagged would lose the place and the reason of what is wrong inside.
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Limits;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a limit such as \"5%\", \"+500\" or 10000, a list of them, or limits by pattern")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Limits, E> {
                Ok(Limits::Plain(vec![Spanned::new(0..0, Count(value.to_string()))]))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Limits, E> {
                Ok(Limits::Plain(vec![Spanned::new(0..0, Count(value.to_owned()))]))
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
    /// What the entry leaves open is as in the defaults; lists of both count.
    fn over(self, defaults: &Entry) -> Entry {
        let Entry { tags, files, console_not, assert, .. } = defaults.clone();
        Entry {
            name: self.name,
            elf: self.elf.or_else(|| defaults.elf.clone()),
            tags: tags.into_iter().chain(self.tags).collect(),
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
            for_insns: self.for_insns.or_else(|| defaults.for_insns.clone()),
            from: self.from.or_else(|| defaults.from.clone()),
            until: self.until.or_else(|| defaults.until.clone()),
            max_insns: self.max_insns.or_else(|| defaults.max_insns.clone()),
            timeout: self.timeout.or(defaults.timeout),
            files: files.into_iter().chain(self.files).collect(),
            input: self.input.or_else(|| defaults.input.clone()),
            args: self.args.or_else(|| defaults.args.clone()),
            strict: self.strict.or(defaults.strict),
            exit: self.exit.or_else(|| defaults.exit.clone()),
            console: self.console.or_else(|| defaults.console.clone()),
            console_not: console_not.into_iter().chain(self.console_not).collect(),
            assert: assert.into_iter().chain(self.assert).collect(),
            thresholds: self.thresholds,
            matrix: self.matrix,
        }
    }
}

impl Thresholds {
    fn limits(&self) -> [(Metric, &Option<Limits>); 6] {
        [
            (Metric::Total, &self.total),
            (Metric::SelfInsns, &self.self_insns),
            (Metric::Inclusive, &self.inclusive),
            (Metric::Calls, &self.calls),
            (Metric::Task, &self.task),
            (Metric::Stack, &self.stack),
        ]
    }
}

/// Finds the suite's file: the one named, or the nearest one upwards.
///
/// # Errors
/// When there is none.
pub fn find(named: Option<&Path>) -> Result<PathBuf, InputError> {
    if let Some(path) = named {
        return Ok(if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() });
    }
    let here = std::env::current_dir()
        .map_err(|error| InputError::new(format!("the current directory cannot be found: {error}")))?;
    let found = here.ancestors().map(|directory| directory.join(FILE_NAME)).find(|path| path.is_file());
    found.ok_or_else(|| {
        InputError::new(format!(
            "there is no {FILE_NAME} in {} or above it; name a suite: harness test suite.toml",
            here.display()
        ))
    })
}

impl Suite {
    /// Reads a suite's file. Paths in it are relative to its directory.
    ///
    /// # Errors
    /// [`InputError`] with file, line and, for a key that is unknown, the nearest one that is not.
    pub fn load(path: &Path) -> Result<Suite, InputError> {
        let text = fs::read_to_string(path)
            .map_err(|error| InputError::about(path, format_args!("cannot be read: {error}")))?;
        Suite::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Suite, InputError> {
        let reader = Reader { path, text };
        let file: File = toml::from_str(text).map_err(|error| reader.toml(&error))?;
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        if file.image.is_empty() {
            return Err(InputError::about(path, "has no [[image]]: there is nothing to run"));
        }
        let mut cases = Vec::new();
        for entry in file.image {
            let span = entry.span();
            let own_thresholds = entry.get_ref().thresholds.clone();
            let entry = entry.into_inner().over(&file.defaults);
            for (suffix, entry) in combinations(entry) {
                let thresholds = [&file.defaults.thresholds, &own_thresholds];
                let case = reader.case(&directory, &span, entry, &suffix, thresholds)?;
                cases.push(case);
            }
        }
        let mut names: BTreeMap<&str, &Case> = BTreeMap::new();
        for case in &cases {
            if let Some(other) = names.insert(&case.name, case) {
                return Err(reader.at_line(
                    case.line,
                    format_args!("the name {:?} is that of line {}, too; give it a `name`", case.name, other.line),
                ));
            }
        }
        let absolute = fs::canonicalize(&directory).unwrap_or_else(|_| directory.clone());
        let name = file.name.or_else(|| Some(absolute.file_name()?.to_string_lossy().into_owned()));
        Ok(Suite {
            name: name.unwrap_or_else(|| "suite".to_owned()),
            path: path.to_owned(),
            baselines: directory.join(file.baselines.unwrap_or_else(|| PathBuf::from("baselines"))),
            baseline: file.baseline,
            cases,
        })
    }
}

/// The entry once per combination of its matrix, with what is added to its name.
fn combinations(mut entry: Entry) -> Vec<(String, Entry)> {
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

/// The file, for messages.
struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn line(&self, offset: usize) -> usize {
        1 + self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|&&byte| byte == b'\n').count()
    }

    fn at_line(&self, line: usize, what: impl std::fmt::Display) -> InputError {
        InputError::new(format!("{}:{line}: {what}", self.path.display()))
    }

    fn at(&self, span: &Range<usize>, what: impl std::fmt::Display) -> InputError {
        self.at_line(self.line(span.start), what)
    }

    /// toml's message, its line, and the nearest key.
    fn toml(&self, error: &toml::de::Error) -> InputError {
        let message = error.message().trim();
        // serde: "unknown field `x`, expected one of `a`, `b`" or "..., expected `a`".
        let mut quoted = message.split('`').skip(1).step_by(2);
        let hint = match quoted.next() {
            Some(wrong) if message.starts_with("unknown field") => nearest(wrong, quoted)
                .map(|nearest| format!("unknown key `{wrong}`; did you mean `{nearest}`?"))
                .or_else(|| Some(message.replacen("unknown field", "unknown key", 1))),
            _ => None,
        };
        self.at(&error.span().unwrap_or(0..0), hint.as_deref().unwrap_or(message))
    }

    fn case(
        &self,
        directory: &Path,
        span: &Range<usize>,
        entry: Entry,
        suffix: &str,
        thresholds: [&Thresholds; 2],
    ) -> Result<Case, InputError> {
        let Some(elf) = &entry.elf else {
            return Err(self.at(span, "this image has no `elf`: name the firmware file"));
        };
        let elf = directory.join(elf);
        let name = entry.name.clone().unwrap_or_else(|| image::stem(&elf)) + suffix;
        let mut assertions = Vec::new();
        for text in &entry.assert {
            assertions.push(Assertion::parse(text.get_ref()).map_err(|error| self.at(&text.span(), error))?);
        }
        let thresholds = self.thresholds(span, thresholds)?;
        let needs_exact = assertions.iter().any(Assertion::needs_exact)
            || thresholds.iter().any(|threshold| threshold.metric.needs_exact());
        let mut spans: Vec<(String, String)> = assertions.iter().filter_map(Assertion::span).collect();
        spans.sort();
        spans.dedup();
        let options = self.options(directory, span, &elf, &entry, needs_exact, spans)?;
        let console = entry.console.unwrap_or_default().into_iter().map(|line| {
            let ConsoleLine(ConsoleText(text), by_insns) = line.into_inner();
            Line { text, by_insns }
        });
        let console_not = entry.console_not.into_iter().map(|text| text.into_inner().0);
        let expect = Expect {
            ending: entry.exit.map(|Exit(ending)| ending),
            console: console.collect(),
            console_not: console_not.collect(),
            strict: entry.strict.unwrap_or(false),
        };
        Ok(Case { name, tags: entry.tags, options, expect, assertions, thresholds, line: self.line(span.start) })
    }

    fn options(
        &self,
        directory: &Path,
        span: &Range<usize>,
        elf: &Path,
        entry: &Entry,
        needs_exact: bool,
        spans: Vec<(String, String)>,
    ) -> Result<Options, InputError> {
        let mut typed: Vec<(String, Range<usize>)> = Vec::new();
        let mut add = |option: &str, value: String, span: &Range<usize>| {
            typed.push((format!("--{option}={value}"), span.clone()));
        };
        for (option, value) in [("machine", &entry.machine), ("cpu", &entry.cpu)] {
            if let Some(value) = value {
                add(option, value.get_ref().clone(), &value.span());
            }
        }
        let counts = [
            ("shift", &entry.shift),
            ("load-addr", &entry.load_addr),
            ("load-bias", &entry.load_bias),
            ("period", &entry.period),
            ("seeded-jitter", &entry.seeded_jitter),
            ("max-depth", &entry.max_depth),
            ("for", &entry.for_insns),
            ("max-insns", &entry.max_insns),
        ];
        for (option, value) in counts {
            if let Some(value) = value {
                add(option, value.get_ref().0.clone(), &value.span());
            }
        }
        for (option, value) in [("from", &entry.from), ("until", &entry.until)] {
            if let Some(value) = value {
                add(option, value.clone(), span);
            }
        }
        for argument in entry.qemu_args.iter().flatten() {
            add("qemu-arg", argument.clone(), span);
        }
        for (name, path) in &entry.files {
            add("file", format!("{name}={}", directory.join(path).display()), span);
        }
        if let Some(symbols) = &entry.symbols {
            add("symbols", directory.join(symbols).display().to_string(), span);
        }
        if let Some(timeout) = entry.timeout {
            add("timeout", timeout.to_string(), span);
        }
        let flags = [("--exact", needs_exact || entry.exact == Some(true)), ("--strict", entry.strict == Some(true))];
        let flags = flags.into_iter().filter(|(_, on)| *on).map(|(flag, _)| flag.to_owned());
        let mut words = vec!["harness".to_owned(), "profile".to_owned()];
        words.extend(typed.iter().map(|(word, _)| word.clone()).chain(flags));
        words.extend(["--".to_owned(), elf.display().to_string()]);
        // The options' own words, so that a key takes what the option takes.
        let place = |message: &str| {
            let named = typed.iter().find(|(word, _)| {
                let option = word.split('=').next().unwrap_or(word);
                message.contains(&format!("{option} ")) || message.contains(&format!("'{option} "))
            });
            named.map_or(span.clone(), |(_, span)| span.clone())
        };
        let cli = Cli::try_parse_from(words).map_err(|error| {
            let message = error.to_string();
            let first = message.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            self.at(&place(&message), first)
        })?;
        let Some(crate::cli::Command::Profile(args)) = cli.command else {
            return Err(self.at(span, "cannot be run"));
        };
        let mut options = Options::resolve(args).map_err(|error| {
            let message = error.to_string();
            self.at(&place(&message), message)
        })?;
        let mut input = Vec::new();
        for typed in entry.input.iter().flatten() {
            let Typed { text, at, after } = typed.get_ref();
            let when = match (at, after) {
                (Some(Count(at)), None) => {
                    When::At(parse_number("at", at).map_err(|error| self.at(&typed.span(), error))?)
                }
                (None, Some(prompt)) if !prompt.is_empty() => When::After(prompt.clone()),
                _ => return Err(self.at(&typed.span(), "input: either `at` or `after` says when it is typed")),
            };
            if text.is_empty() {
                return Err(self.at(&typed.span(), "input: the text is empty"));
            }
            input.push(Input { when, bytes: text.clone().into_bytes() });
        }
        Input::check(&input).map_err(|error| self.at(span, error))?;
        options.input = input;
        options.firmware_args = entry.args.clone().unwrap_or_default();
        options.spans = spans;
        Ok(options)
    }

    fn thresholds(&self, span: &Range<usize>, all: [&Thresholds; 2]) -> Result<Vec<Threshold>, InputError> {
        let mut thresholds = Vec::new();
        for (metric, limits) in all.into_iter().flat_map(Thresholds::limits) {
            match limits {
                None => {}
                Some(Limits::Named(_)) if metric == Metric::Total => {
                    return Err(self.at(span, "thresholds.total is one number: it takes a limit and no patterns"));
                }
                Some(Limits::Plain(limits)) => self.add(&mut thresholds, span, metric, ALL, limits)?,
                Some(Limits::Named(named)) => {
                    for (pattern, limits) in named {
                        let Limits::Plain(limits) = limits else {
                            return Err(self.at(span, format_args!("thresholds: {pattern:?} takes a limit")));
                        };
                        self.add(&mut thresholds, span, metric, pattern, limits)?;
                    }
                }
            }
        }
        Ok(thresholds)
    }

    fn add(
        &self,
        thresholds: &mut Vec<Threshold>,
        span: &Range<usize>,
        metric: Metric,
        pattern: &str,
        limits: &[Spanned<Count>],
    ) -> Result<(), InputError> {
        for limit in limits {
            let here = if limit.span().is_empty() { span.clone() } else { limit.span() };
            let place = |error| self.at(&here, format_args!("thresholds.{}: {error}", metric.word()));
            let limit = Limit::parse(&limit.get_ref().0).map_err(place)?;
            // One of the same kind on the same names takes the place of the default.
            let is_ceiling = |limit: &Limit| matches!(limit, Limit::Ceiling(_));
            thresholds.retain(|other: &Threshold| {
                !(other.metric == metric
                    && other.pattern == pattern
                    && is_ceiling(&other.limit) == is_ceiling(&limit))
            });
            thresholds.push(Threshold::new(metric, pattern, limit).map_err(place)?);
        }
        Ok(())
    }
}
