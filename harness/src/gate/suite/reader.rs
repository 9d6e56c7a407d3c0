// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes cases that can run from the typed file. Each key means the same as the command line's option of that name.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use toml::Spanned;

use crate::analysis::metrics::Subject;
use crate::chip::{self, cycled};
use crate::cli::{MeasureArgs, ProfileArgs, WideArgs};
use crate::error::InputError;
use crate::gate::assertion::Assertion;
use crate::gate::budget::Budget;
use crate::gate::expect::{Ending, Expect, ExpectedLine};
use crate::gate::limit::{Limit, Worse};
use crate::gate::suite::Case;
use crate::gate::suite::file::{self, ConsoleLine, ConsoleText, Entry, Exit, Limits, Served, StubValue, Thresholds};
use crate::gate::suite::stranger::{self, Folder, Purpose};
use crate::gate::threshold::{ALL, Origin, Threshold};
use crate::gate::work_floor::Work;
use crate::image;
use crate::image::bounded_read;
use crate::image::heap::rule::{Kind, Rule};
use crate::image::stub::Wanted;
use crate::image::zone_call;
use crate::learn::AUTO;
use crate::profile::input::Input;
use crate::run::contain::semihosting::Semihosting;
use crate::run::request::options::Options;
use crate::text::count::Count;
use crate::text::near::nearest;

/// Maker of the cases of a file's entries; has the text for the line numbers in messages.
pub(super) struct Reader<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
    /// Folder in which all files must lie, if the suite is untrusted.
    pub(super) folder: Option<&'a Folder>,
}

/// Measurements of a run beyond its options, for assertions and limits.
struct Needs {
    exact: bool,
    /// Pairs of functions.
    spans: Vec<(String, String)>,
    /// Functions whose calls have times; None: no times.
    timed: Option<Vec<String>>,
}

/// Functions whose calls have to be timed for assertions, sorted; None: no assertion is about times.
fn timed(assertions: &[Assertion]) -> Option<Vec<String>> {
    let timed: Vec<Vec<String>> = assertions.iter().filter_map(Assertion::timed).collect();
    let has_times = !timed.is_empty();
    let mut names: Vec<String> = timed.into_iter().flatten().collect();
    names.sort();
    names.dedup();
    has_times.then_some(names)
}

impl Reader<'_> {
    fn line(&self, offset: usize) -> usize {
        1 + self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|&&byte| byte == b'\n').count()
    }

    /// An error at a line of the file.
    pub(super) fn at_line(&self, line: usize, what: impl std::fmt::Display) -> InputError {
        InputError::new(format!("{}:{line}: {what}", self.path.display()))
    }

    /// An error at a place of the file.
    pub(super) fn at(&self, span: &Range<usize>, what: impl std::fmt::Display) -> InputError {
        self.at_line(self.line(span.start), what)
    }

    /// Resolves the path of a file that an entry names.
    ///
    /// # Errors
    /// If an untrusted suite may not read the file.
    fn file(&self, span: &Range<usize>, path: PathBuf, purpose: Purpose) -> Result<PathBuf, InputError> {
        match self.folder {
            None => Ok(path),
            Some(folder) => folder.file(&path, purpose).map_err(|why| self.at(span, why)),
        }
    }

    /// Error with toml's message, its line and, for an unknown key, the nearest known one.
    pub(super) fn toml(&self, error: &toml::de::Error) -> InputError {
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

    /// Case of an entry, whose name ends in `suffix`; `thresholds` are those of the defaults and its own.
    ///
    /// # Errors
    /// Invalid values, with their line.
    pub(super) fn case(
        &self,
        directory: &Path,
        span: &Range<usize>,
        entry: Entry,
        suffix: &str,
        (thresholds, budget): ([&Thresholds; 2], Budget),
    ) -> Result<Case, InputError> {
        let Some(elf) = &entry.elf else {
            return Err(self.at(span, "this image has no `elf`: name the firmware file"));
        };
        let elf = self.file(span, directory.join(elf), Purpose::Image)?;
        let name = entry.name.clone().unwrap_or_else(|| image::stem(&elf)) + suffix;
        let mut assertions = Vec::new();
        for text in &entry.assert {
            assertions.push(Assertion::parse(text.get_ref()).map_err(|error| self.at(&text.span(), error))?);
        }
        let ending = entry.exit.as_ref().map(|Exit(ending)| *ending);
        let is_fixed = entry.for_insns.is_some() || ending == Some(Ending::Limit);
        let Limited { thresholds, work } = self.thresholds(thresholds, is_fixed)?;
        let needs_exact = assertions.iter().any(Assertion::needs_exact)
            || thresholds.iter().any(|threshold| threshold.metric.descriptor().needs_exact)
            || budget.needs_exact();
        let mut spans: Vec<(String, String)> = assertions.iter().filter_map(Assertion::span).collect();
        spans.sort();
        spans.dedup();
        let mut inputs = Vec::new();
        let needs = Needs { exact: needs_exact, spans, timed: timed(&assertions) };
        let options = self.options(directory, span, (&elf, &mut inputs), &entry, needs)?;
        let console = entry.console.unwrap_or_default().into_iter().map(|line| {
            let ConsoleLine(ConsoleText(text), by_insns) = line.into_inner();
            ExpectedLine { text, by_insns }
        });
        let console_not = entry.console_not.into_iter().map(|text| text.into_inner().0);
        let expect = Expect {
            ending,
            console: console.collect(),
            console_not: console_not.collect(),
            strict: entry.strict.unwrap_or(false),
            polls: entry.polls.into_iter().map(|polls| polls.into_inner().0).collect(),
        };
        let line = self.line(span.start);
        Ok(Case { name, tags: entry.tags, options, inputs, expect, assertions, thresholds, work, budget, line })
    }

    /// A chip or a core as a suite names it: the path of its file is relative to the suite.
    fn named(&self, span: &Range<usize>, folder: &Path, name: String, is_file: bool) -> Result<String, InputError> {
        match is_file {
            true => self.file(span, folder.join(name), Purpose::Data).map(|path| path.display().to_string()),
            false => Ok(name),
        }
    }

    /// A core and its frequency, as the command line has them: a file is named from the suite's folder.
    fn cycles(&self, span: &Range<usize>, folder: &Path, wanted: &str) -> Result<String, InputError> {
        let (core, hz) = cycled::split(wanted);
        let core = self.named(span, folder, core.to_owned(), chip::core::is_file(core))?;
        Ok(hz.map_or_else(|| core.clone(), |hz| format!("{core}@{hz}")))
    }

    fn options(
        &self,
        directory: &Path,
        span: &Range<usize>,
        (elf, inputs): (&Path, &mut Vec<PathBuf>),
        entry: &Entry,
        Needs { exact, spans, timed }: Needs,
    ) -> Result<Options, InputError> {
        let text = |count: &Option<Spanned<Count>>| count.as_ref().map(|count| count.get_ref().0.clone());
        let name = |name: &Option<Spanned<String>>| name.as_ref().map(|name| name.get_ref().clone());
        let file = |(name, path): (&String, &PathBuf)| {
            Ok(format!("{name}={}", self.file(span, directory.join(path), Purpose::Data)?.display()))
        };
        let files = entry.files.iter().map(file).collect::<Result<_, InputError>>()?;
        let symbols = entry.symbols.as_ref().map(|symbols| self.file(span, directory.join(symbols), Purpose::Image));
        let path = |name: String, is_file: bool| self.named(span, directory, name, is_file);
        let chip = name(&entry.chip).map(|chip| path(chip.clone(), !chip::is_known(&chip) && chip != AUTO));
        let core = entry.cycles.as_ref().and_then(|wanted| wanted.0.as_ref());
        let cycles = core.map(|core| self.cycles(span, directory, core)).transpose()?;
        let svd = entry.svd.as_ref().map(|svd| self.file(span, directory.join(svd), Purpose::Data)).transpose()?;
        let unsaid = MeasureArgs::default();
        let measure = MeasureArgs {
            period: text(&entry.period).unwrap_or(unsaid.period),
            seeded_jitter: self.digits("seeded-jitter", entry.seeded_jitter.as_ref())?,
            max_depth: self.digits("max-depth", entry.max_depth.as_ref())?.unwrap_or(unsaid.max_depth),
            exact: exact || entry.exact == Some(true),
            branches: entry.branches == Some(true),
            cycles,
            heap: entry.heap == Some(true),
            timeline: entry.timeline == Some(true),
            // An image with timeline = false ignores the defaults' traces.
            trace: if entry.timeline == Some(false) { Vec::new() } else { entry.trace.clone() },
            for_insns: text(&entry.for_insns),
            from: entry.from.clone(),
            until: entry.until.clone(),
            max_insns: text(&entry.max_insns),
            resets: self.digits("resets", entry.resets.as_ref())?,
            slice: text(&entry.slice),
            timeout: entry.timeout.as_ref().map(|seconds| *seconds.get_ref()),
            max_output: text(&entry.max_output).unwrap_or(unsaid.max_output),
            chip: chip.transpose()?,
            no_chip: entry.no_chip == Some(true),
            svd,
            machine: name(&entry.machine),
            cpu: name(&entry.cpu),
            qemu_arg: entry.qemu_args.clone().unwrap_or_default(),
            shift: text(&entry.shift),
            load_addr: text(&entry.load_addr),
            load_bias: text(&entry.load_bias),
            file: files,
            semihosting: entry.semihosting.map_or(unsaid.semihosting, |served| match served {
                Served::Off => Semihosting::Off,
                Served::Console => Semihosting::Console,
                Served::Scratch => Semihosting::Scratch,
            }),
            symbols: symbols.transpose()?,
            vectors: text(&entry.vectors),
            ..unsaid
        };
        // A suite prints no table of functions.
        let args = ProfileArgs {
            firmware: elf.to_owned(),
            top: 0,
            wide: WideArgs::default(),
            quiet: false,
            verbose: false,
            json: false,
            strict: entry.strict == Some(true),
            measure,
        };
        let mut options = Options::resolve(args)
            .map_err(|error| self.at(&entry.place(error.option).unwrap_or_else(|| span.clone()), error))?;
        options.input = self.input(directory, entry, inputs)?;
        Input::check(&options.input).map_err(|error| self.at(span, error))?;
        // An image with heap = false ignores the defaults' rules; mistakes in them are reported all the same.
        let rules = self.heap_rules(entry)?;
        if !rules.is_empty() && entry.heap != Some(false) {
            options.heap.get_or_insert_default().rules.extend(rules);
        }
        options.zone_calls.extend(self.zone_calls(entry)?);
        options.stubs.extend(self.stubs(entry)?);
        options.firmware_args = entry.args.clone().unwrap_or_default();
        options.spans = spans;
        if let Some(timed) = timed {
            options.timeline.get_or_insert_default();
            options.timed = timed;
        }
        if self.folder.is_some() {
            stranger::confine(&mut options).map_err(|why| self.at(span, why))?;
        }
        Ok(options)
    }

    /// Functions that return at once.
    fn stubs(&self, entry: &Entry) -> Result<Vec<Wanted>, InputError> {
        let stub = |(pattern, value): (&String, &Spanned<StubValue>)| {
            let StubValue(text) = value.get_ref();
            let text = text.as_ref().map_or_else(|| pattern.clone(), |text| format!("{pattern}={text}"));
            Wanted::parse(&text).map_err(|error| self.at(&value.span(), error))
        };
        entry.stub.iter().map(stub).collect()
    }

    /// Steps of the input. The files that have texts of it are added to `files`.
    fn input(&self, directory: &Path, entry: &Entry, files: &mut Vec<PathBuf>) -> Result<Vec<Input>, InputError> {
        let mut input = Vec::new();
        for row in entry.input.iter().flatten() {
            let span = row.span();
            let mut texts = None;
            if let Some(name) = row.get_ref().file() {
                let file = self.file(&span, directory.join(name), Purpose::Data)?;
                let shown = file.display().to_string();
                let bytes = bounded_read::read(&file);
                files.push(file);
                let error = |error| self.at(&span, format_args!("input: {shown} cannot be read: {error}"));
                texts = Some((shown.clone(), bytes.map_err(error)?));
            }
            input.push(row.get_ref().input(texts).map_err(|error| self.at(&span, error))?);
        }
        Ok(input)
    }

    /// Rules for calls that are zones.
    fn zone_calls(&self, entry: &Entry) -> Result<Vec<zone_call::Rule>, InputError> {
        let rule = |text: &Spanned<String>| {
            zone_call::Rule::parse(text.get_ref()).map_err(|error| self.at(&text.span(), error))
        };
        entry.zone_calls.iter().map(rule).collect()
    }

    /// Rules about functions that allocate and free memory.
    fn heap_rules(&self, entry: &Entry) -> Result<Vec<Rule>, InputError> {
        let mut rules = Vec::new();
        for (kind, texts) in [(Kind::Alloc, &entry.heap_alloc), (Kind::Free, &entry.heap_free)] {
            for text in texts {
                let rule = Rule::parse(kind, text.get_ref()).map_err(|error| self.at(&text.span(), error))?;
                rules.push(rule);
            }
        }
        Ok(rules)
    }

    /// A whole number, written without a suffix.
    fn digits<T: FromStr>(&self, key: &str, count: Option<&Spanned<Count>>) -> Result<Option<T>, InputError> {
        let read = |count: &Spanned<Count>| {
            let Count(text) = count.get_ref();
            let what =
                format_args!("{key} {text}: not a whole number, or too large; write it in digits, such as 256");
            text.parse().map_err(|_| self.at(&count.span(), what))
        };
        count.map(read).transpose()
    }

    /// Limits of the defaults and of an image. `is_fixed`: the window's length does not depend on the firmware's speed.
    fn thresholds(&self, [defaults, own]: [&Thresholds; 2], is_fixed: bool) -> Result<Limited, InputError> {
        let mut limited = Limited::default();
        for (all, is_default) in [(defaults, true), (own, false)] {
            for (&what, limits) in &all.0 {
                let span = limits.span();
                if what == file::Limited::Work && !is_fixed {
                    if !is_default {
                        let why = "a run that ends by itself does the same work however slow it is: give a window \
                                   with `for`, or limit `total`";
                        return Err(self.at(&span, format_args!("thresholds.{}: {why}", what.word())));
                    }
                    continue;
                }
                let origin = |span: &Range<usize>| Origin { line: self.line(span.start), is_default };
                match limits.get_ref() {
                    Limits::Named(_) if is_of_run(what) => {
                        let what =
                            format!("thresholds.{} is one number: it takes a limit and no patterns", what.word());
                        return Err(self.at(&span, what));
                    }
                    Limits::Plain(limits) => self.add(&mut limited, &span, (what, ALL, origin(&span)), limits)?,
                    Limits::Named(named) => {
                        for (pattern, limits) in named {
                            let span = limits.span();
                            let Limits::Plain(limits) = limits.get_ref() else {
                                return Err(self.at(&span, format_args!("thresholds: {pattern:?} takes a limit")));
                            };
                            self.add(&mut limited, &span, (what, pattern, origin(&span)), limits)?;
                        }
                    }
                }
            }
        }
        Ok(limited)
    }

    fn add(
        &self,
        limited: &mut Limited,
        span: &Range<usize>,
        (what, pattern, origin): (file::Limited, &str, Origin),
        limits: &[Count],
    ) -> Result<(), InputError> {
        for Count(text) in limits {
            let place = |error| self.at(span, format_args!("thresholds.{}: {error}", what.word()));
            // A limit replaces an earlier limit of the same kind on the same names, such as the default.
            match what {
                file::Limited::Metric(metric) => {
                    let limit = Limit::parse(Worse::More, text).map_err(place)?;
                    limited.thresholds.retain(|other: &Threshold| {
                        !(other.metric == metric
                            && other.pattern.text == pattern
                            && other.limit.is_absolute() == limit.is_absolute())
                    });
                    limited.thresholds.push(Threshold::new(metric, pattern, limit, origin).map_err(place)?);
                }
                file::Limited::Work => {
                    let limit = Limit::parse(Worse::Less, text).map_err(place)?;
                    limited.work.retain(|other: &Work| {
                        other.pattern.text != pattern || other.limit.is_absolute() != limit.is_absolute()
                    });
                    limited.work.push(Work::new(pattern, limit, origin).map_err(place)?);
                }
            }
        }
        Ok(())
    }
}

/// Limits of one image.
#[derive(Default)]
struct Limited {
    thresholds: Vec<Threshold>,
    work: Vec<Work>,
}

fn is_of_run(what: file::Limited) -> bool {
    matches!(what, file::Limited::Metric(metric) if metric.subject() == Subject::Run)
}
