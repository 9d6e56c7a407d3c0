// SPDX-License-Identifier: MIT OR Apache-2.0
//! Baselines: one run's numbers as sorted lines that review well in git, one file per image.
//!
//! A line is a word and its fields, separated by tabs. Nothing is aligned, so that a changed number changes only its
//! own line:
//!
//! ```text
//! harness baseline 1
//! image     cortex-m3-freertos.elf
//! qemu      10.0.2
//! run       machine=mps2-an385 shift=5 period=10007 exact=on
//! compiler  GNU C17 12.2.0 -mcpu=cortex-m3 -O2
//! total     4000000
//! task      IDLE    1200000 40  96      (name, instructions, switches in, bytes of stack)
//! zone      decode  52000   13    3900 4000 4100  (name, instructions, calls, shortest, mean, longest)
//! function  crc32   crc.c   9000  0  9500  12   (name, file, self, of it inlined, inclusive, calls)
//! ```
//!
//! The columns of a function, task or zone are its metrics in the order of [`Metric::kept`], `-` if unknown. A metric
//! that was added after version 1 has a further column (for the run: a line), if its number is known.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result, bail};

use crate::analysis::metrics::{Key, Metric, Metrics, Numbers, Subject};
use crate::error::InputError;
use crate::image::bounded_read;
use crate::profile::input::{Input, What};
use crate::profile::{Facts, Profile};
use crate::text::symbol_name::key_name;

/// The first line: kind of file, and version of the format.
const FIRST_LINE: &str = "harness baseline 1";

/// First word of a task's line.
const TASK: &str = "task";

/// First word of a zone's line.
const ZONE: &str = "zone";

/// First word of a function's line.
const FUNCTION: &str = "function";

/// Column of an unknown number.
const UNKNOWN: &str = "-";

/// Refuses a name that a baseline cannot have, since the name becomes a directory.
///
/// # Errors
/// When the name has a forbidden character.
pub fn check_name(name: &str) -> Result<(), InputError> {
    if name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
        return Err(InputError::new(format!("baseline {name:?}: a name has no / and does not begin with .")));
    }
    Ok(())
}

/// Numbers of a run, and the conditions under which it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    /// Conditions of the run: word and value, sorted. Numbers of different conditions are not comparable.
    pub made_with: BTreeSet<(String, String)>,
    /// The numbers.
    pub metrics: Metrics,
}

impl Baseline {
    /// Baseline of a profile.
    pub fn of(profile: &Profile) -> Baseline {
        Baseline { made_with: made_with(profile), metrics: Metrics::of(profile) }
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        let mut line = |fields: &[String]| {
            let fields: Vec<String> = fields.iter().map(|field| escape(field)).collect();
            text += &fields.join("\t");
            text.push('\n');
        };
        for (word, value) in &self.made_with {
            line(&[word.clone(), value.clone()]);
        }
        let Metrics { run, functions, tasks, zones } = &self.metrics;
        for metric in Metric::kept(Subject::Run) {
            if let Some(number) = run[metric] {
                line(&[metric.word().to_owned(), number.to_string()]);
            }
        }
        for (name, numbers) in tasks {
            line(&[vec![TASK.to_owned(), name.clone()], columns(Subject::Task, numbers)].concat());
        }
        for (name, numbers) in zones {
            line(&[vec![ZONE.to_owned(), name.clone()], columns(Subject::Zone, numbers)].concat());
        }
        for (Key { name, file }, numbers) in functions {
            let words = vec![FUNCTION.to_owned(), name.clone(), file.clone()];
            line(&[words, columns(Subject::Function, numbers)].concat());
        }
        text
    }

    /// Reads the text that [`Baseline::to_text`] makes.
    ///
    /// # Errors
    /// If the text is not a baseline, or a line is damaged; the message names the line.
    pub fn from_text(text: &str) -> Result<Baseline> {
        let mut baseline = Baseline::default();
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, line)| line) != Some(FIRST_LINE) {
            bail!("line 1 is not \"{FIRST_LINE}\": not a baseline of this version of harness");
        }
        for (index, line) in lines {
            let fields: Vec<String> = line.split('\t').map(unescape).collect();
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            let error = || format!("line {}: not a line of a baseline: {line:?}", index + 1);
            let metrics = &mut baseline.metrics;
            match fields[..] {
                [TASK, name, ref columns @ ..] => {
                    let numbers = numbers(Subject::Task, columns).with_context(error)?;
                    metrics.tasks.insert(name.to_owned(), numbers);
                }
                [ZONE, name, ref columns @ ..] => {
                    let numbers = numbers(Subject::Zone, columns).with_context(error)?;
                    metrics.zones.insert(name.to_owned(), numbers);
                }
                [FUNCTION, name, file, ref columns @ ..] => {
                    let numbers = numbers(Subject::Function, columns).with_context(error)?;
                    // Older baselines have the numbers of closures in function names.
                    metrics.add_function(Key { name: key_name(name), file: file.to_owned() }, &numbers);
                }
                [word @ ("compiler" | "image" | "qemu" | "run"), value] => {
                    baseline.made_with.insert((word.to_owned(), value.to_owned()));
                }
                [word, value] => {
                    let metric =
                        Metric::kept(Subject::Run).find(|metric| metric.word() == word).with_context(error)?;
                    metrics.run[metric] = Some(value.parse().with_context(error)?);
                }
                _ => bail!(error()),
            }
        }
        if baseline.metrics.run[Metric::Total].is_none() {
            bail!("there is no line with the total: the baseline is cut short");
        }
        Ok(baseline)
    }

    /// Reads a baseline's file; None: there is no such file.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub fn load(path: &Path) -> Result<Option<Baseline>, InputError> {
        let text = bounded_read::read(path).and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
        match text {
            Ok(text) => match Baseline::from_text(&text) {
                Ok(baseline) => Ok(Some(baseline)),
                Err(error) => {
                    Err(InputError::about(path, format_args!("{error:#}; make it anew with --save-baseline")))
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(InputError::about(path, format_args!("cannot be read: {error}"))),
        }
    }

    /// Writes the file, and creates its directories.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), InputError> {
        let write = || {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            fs::write(path, self.to_text())
        };
        write().map_err(|error| InputError::about(path, format_args!("cannot be written: {error}")))
    }

    /// Differences between the conditions of two baselines, a sentence each.
    pub fn mismatches(&self, other: &Baseline) -> Vec<String> {
        let list = |these: &BTreeSet<(String, String)>, those: &BTreeSet<(String, String)>, word: &str| {
            let values = these.difference(those).filter(|(other, _)| other == word);
            values.map(|(_, value)| value.clone()).collect::<Vec<_>>().join("; ")
        };
        let words: BTreeSet<&String> = self.made_with.iter().chain(&other.made_with).map(|(word, _)| word).collect();
        let mut sentences = Vec::new();
        for word in words {
            let before = list(&self.made_with, &other.made_with, word);
            let after = list(&other.made_with, &self.made_with, word);
            if !before.is_empty() || !after.is_empty() {
                let how = match differing_words(&before, &after) {
                    (before, after) if before.is_empty() => format!("now with {after}"),
                    (before, after) if after.is_empty() => format!("now without {before}"),
                    (before, after) => format!("before {before}, now {after}"),
                };
                sentences.push(format!("the {word} differs: {how}"));
            }
        }
        sentences
    }
}

/// Words of each text that the other one lacks. Compilers have many options, most of them the same.
fn differing_words(one: &str, other: &str) -> (String, String) {
    let without = |one: &str, other: &str| {
        let others: BTreeSet<&str> = other.split_whitespace().collect();
        one.split_whitespace().filter(|word| !others.contains(word)).collect::<Vec<_>>().join(" ")
    };
    (without(one, other), without(other, one))
}

/// Conditions of a profile's run, as word and value.
fn made_with(profile: &Profile) -> BTreeSet<(String, String)> {
    let Facts { image_name, qemu_version, machine, cpu, icount_shift, window, .. } = &profile.facts;
    let mut run = format!("machine={machine}");
    let mut add = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _ = write!(run, " {key}={value}");
        }
    };
    let chip = profile.facts.chip.as_ref().filter(|chip| chip.is_given());
    // A chip is identified by its file's content, since another chip's numbers are not comparable.
    add("chip", chip.map(|chip| format!("{}/{}", chip.name, &chip.sha256[..chip.sha256.len().min(12)])));
    add("cpu", cpu.clone());
    add("shift", Some(icount_shift.to_string()));
    add("for", window.for_insns.map(|insns| insns.to_string()));
    add("from", window.from.clone());
    add("until", window.until.clone());
    add("cycles", profile.cycles.as_ref().and_then(|cycles| cycles.core.clone()));
    add("hz", profile.cycles.as_ref().and_then(|cycles| cycles.clock_hz).map(|hz| hz.to_string()));
    add("exact", (!profile.tree.is_empty()).then(|| "on".to_owned()));
    for argument in &profile.facts.qemu_args {
        add("qemu-arg", Some(argument.clone()));
    }
    add("vectors", profile.facts.vectors.map(|address| format!("{address:#x}")));
    add("semihosting", profile.facts.semihosting.clone());
    for stub in &profile.facts.stubs {
        add("stub", Some(stub.to_string()));
    }
    for argument in &profile.facts.firmware_args {
        add("arg", Some(argument.clone()));
    }
    for Input { when, what } in &profile.facts.input {
        let what = match what {
            What::Text(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
            What::Outside(changes) => changes.to_string(),
        };
        add("input", Some(format!("{when:?}:{what}")));
    }
    let pair = |word: &str, value: &str| (word.to_owned(), value.to_owned());
    let mut made_with = BTreeSet::from([pair("image", image_name), pair("qemu", qemu_version), pair("run", &run)]);
    made_with.extend(profile.names.producers.iter().map(|producer| pair("compiler", producer)));
    made_with
}

/// Columns of a subject's numbers. Unknown metrics at the end that were added after version 1 have no column, so that a
/// new metric that is not measured changes no baseline.
fn columns(subject: Subject, numbers: &Numbers) -> Vec<String> {
    let known = |number: Option<u64>| number.map_or_else(|| UNKNOWN.to_owned(), |number| number.to_string());
    let mut columns: Vec<String> = Metric::kept(subject).map(|metric| known(numbers[metric])).collect();
    let needed = columns.iter().rposition(|column| column != UNKNOWN).map_or(0, |last| last + 1);
    columns.truncate(needed.max(first_columns(subject)));
    columns
}

/// Reads the columns that [`columns`] makes; None: their number or content is wrong.
fn numbers(subject: Subject, columns: &[&str]) -> Option<Numbers> {
    let metrics: Vec<Metric> = Metric::kept(subject).collect();
    if !(first_columns(subject)..=metrics.len()).contains(&columns.len()) {
        return None;
    }
    let mut numbers = Numbers::default();
    for (metric, column) in metrics.into_iter().zip(columns) {
        numbers[metric] = match *column {
            // A counted metric is always known.
            UNKNOWN => metric.descriptor().where_uncounted.is_none().then_some(None)?,
            number => Some(number.parse().ok()?),
        };
    }
    Some(numbers)
}

/// Number of columns in version 1.
fn first_columns(subject: Subject) -> usize {
    match subject {
        Subject::Run => 1,
        Subject::Task => 3,
        Subject::Zone => 5,
        Subject::Function => 4,
    }
}

/// Escapes tabs and ends of lines in a field.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        plain.push(match char {
            '\\' => match chars.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;

    fn baseline() -> Baseline {
        let mut baseline = Baseline::default();
        baseline.made_with.insert(("qemu".to_owned(), "10.0.2".to_owned()));
        baseline.metrics.run[Metric::Total] = Some(12);
        let key = Key { name: "a\tb<\\n>\u{e4};".to_owned(), file: String::new() };
        let function = numbers(Subject::Function, &["12", "2", "-", "1"]).unwrap();
        baseline.metrics.functions.insert(key, function);
        let task = numbers(Subject::Task, &["3", "1", "96"]).unwrap();
        baseline.metrics.tasks.insert("IDLE".to_owned(), task);
        let zone = numbers(Subject::Zone, &["52000", "13", "3900", "4000", "4100"]).unwrap();
        baseline.metrics.zones.insert("decode".to_owned(), zone);
        baseline
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = baseline().to_text();
        assert_eq!(Baseline::from_text(&text).unwrap(), baseline());
        assert_eq!(
            text,
            "harness baseline 1\nqemu\t10.0.2\ntotal\t12\ntask\tIDLE\t3\t1\t96\n\
             zone\tdecode\t52000\t13\t3900\t4000\t4100\n\
             function\ta\\tb<\\\\n>\u{e4};\t\t12\t2\t-\t1\n"
        );
    }

    #[test]
    fn damage_is_named_by_its_line() {
        for (damage, what) in [
            ("", "line 1"),
            ("harness baseline 2\n", "line 1"),
            ("harness baseline 1\n", "no line with the total"),
            ("harness baseline 1\ntotal\tx\n", "line 2"),
            ("harness baseline 1\ntotal\t1\nfunction\tf\t\t1\t2\t3\n", "line 3"),
            ("harness baseline 1\ntotal\t1\nfunction\tf\t\t-\t2\t3\t4\n", "line 3"),
            ("harness baseline 1\ntotal\t1\ntask\tf\t1\t2\t3\t4\t5\n", "line 3"),
            ("harness baseline 1\ntotal\t1\nself\t2\n", "line 3"),
            ("harness baseline 1\ntotal\t1\nzone\tf\t1\t2\n", "line 3"),
        ] {
            let error = format!("{:#}", Baseline::from_text(damage).unwrap_err());
            assert!(error.contains(what), "{damage:?}: {error}");
        }
    }

    /// A run of `sorts`, which has closures, before and after another closure was inserted in front of them.
    fn with_closures(first: u32) -> Baseline {
        let mut profile = empty().function("app::sorts", 0x40, 0x10).insn(0x40, 5);
        for (closure, (start, insns)) in (first..).zip([(0x50, 70), (0x60, 900)]) {
            profile = profile
                .function(&format!("app::sorts::{{closure#{closure}}}"), start, 8)
                .function(&format!("app::sort::<u32, app::sorts::{{closure#{closure}}}>"), start + 8, 8)
                .insn(start, insns)
                .insn(start + 8, insns + 1);
        }
        Baseline::of(&profile)
    }

    #[test]
    fn a_baseline_holds_when_the_number_of_a_closure_moves() {
        let (before, after) = (with_closures(0), with_closures(1));
        assert_eq!(before.to_text(), after.to_text());
        let lines: Vec<String> =
            before.to_text().lines().filter(|line| line.starts_with(FUNCTION)).map(str::to_owned).collect();
        assert_eq!(
            lines,
            [
                "function\tapp::sort::<u32, app::sorts::{closure}>\tblinky.c\t972\t0\t-\t972",
                "function\tapp::sorts\tblinky.c\t5\t0\t-\t5",
                "function\tapp::sorts::{closure}\tblinky.c\t970\t0\t-\t970"
            ]
        );
    }

    #[test]
    fn a_baseline_of_before_with_numbers_of_closures_is_read_as_it_would_be_written_now() {
        let head = "harness baseline 1\ntotal\t12\n";
        let old = format!(
            "{head}function\tf::{{closure#0}}\ta.rs\t4\t1\t-\t-\nfunction\tf::{{closure#3}}\ta.rs\t8\t0\t-\t2\n"
        );
        let baseline = Baseline::from_text(&old).unwrap();
        assert_eq!(baseline.to_text(), format!("{head}function\tf::{{closure}}\ta.rs\t12\t1\t-\t2\n"));
        // Somebody else's file may have any numbers.
        let huge = Baseline::from_text(&old.replace("\t4\t", &format!("\t{}\t", u64::MAX))).unwrap();
        assert!(huge.to_text().contains(&format!("a.rs\t{}\t", u64::MAX)));
    }

    #[test]
    fn another_emulator_is_said() {
        let (before, mut after) = (baseline(), baseline());
        assert_eq!(before.mismatches(&after), [""; 0]);
        after.made_with = BTreeSet::from([("qemu".to_owned(), "10.1.0".to_owned())]);
        assert_eq!(before.mismatches(&after), ["the qemu differs: before 10.0.2, now 10.1.0"]);
        assert_eq!(
            differing_words("GNU C11 12.2 -g -O2", "GNU C11 12.2 -g -O2 -O3"),
            (String::new(), "-O3".to_owned())
        );
    }
}
