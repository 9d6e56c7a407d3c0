//! Baselines: one run's numbers as sorted lines that review well in git, one file per image.
//!
//! A line is a word and its fields, separated by tabs, so that no change of one number moves another:
//!
//! ```text
//! harness baseline 1
//! image     cortex-m3-freertos.elf
//! qemu      10.0.2
//! run       machine=mps2-an385 shift=5 period=10007 exact=on
//! compiler  GNU C17 12.2.0 -mcpu=cortex-m3 -O2
//! total     4000000
//! task      IDLE    1200000 40  96      (name, instructions, switches in, bytes of stack)
//! function  crc32   crc.c   9000  0  9500  12   (name, file, self, of it inlined, inclusive, calls)
//! ```

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::analysis::metrics::{FunctionMetrics, Key, Metrics, TaskMetrics};
use crate::error::InputError;
use crate::profile::input::Input;
use crate::profile::{Facts, Profile};

/// The first line: what it is, and the version of the format.
const FIRST_LINE: &str = "harness baseline 1";

/// The numbers of a run and what they were made with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    /// What was run, with what: word and value, sorted. Different ones make numbers incomparable.
    pub made_with: BTreeSet<(String, String)>,
    /// The numbers.
    pub metrics: Metrics,
}

impl Baseline {
    /// Of a profile.
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
        let Metrics { total_insns, functions, tasks } = &self.metrics;
        line(&["total".to_owned(), total_insns.to_string()]);
        for (name, TaskMetrics { insns, switches, stack_bytes }) in tasks {
            line(&["task".to_owned(), name.clone(), insns.to_string(), switches.to_string(), known(*stack_bytes)]);
        }
        for (Key { name, file }, function) in functions {
            let &FunctionMetrics { self_insns, inlined_insns, inclusive_insns, calls } = function;
            line(&[
                "function".to_owned(),
                name.clone(),
                file.clone(),
                self_insns.to_string(),
                inlined_insns.to_string(),
                known(inclusive_insns),
                known(calls),
            ]);
        }
        text
    }

    /// Reads [`Baseline::to_text`].
    ///
    /// # Errors
    /// When it is no baseline, or a line is damaged; the message names the line.
    pub fn from_text(text: &str) -> Result<Baseline> {
        let mut baseline = Baseline::default();
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, line)| line) != Some(FIRST_LINE) {
            bail!("line 1 is not \"{FIRST_LINE}\": not a baseline of this version of harness");
        }
        let mut has_total = false;
        for (index, line) in lines {
            let fields: Vec<String> = line.split('\t').map(unescape).collect();
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            let error = || format!("line {}: not a line of a baseline: {line:?}", index + 1);
            let number = |text: &str| text.parse::<u64>().with_context(error);
            let known = |text: &str| if text == "-" { Ok(None) } else { number(text).map(Some) };
            match fields[..] {
                ["total", total] => (baseline.metrics.total_insns, has_total) = (number(total)?, true),
                ["task", name, insns, switches, stack] => {
                    let task = TaskMetrics {
                        insns: number(insns)?,
                        switches: number(switches)?,
                        stack_bytes: known(stack)?,
                    };
                    baseline.metrics.tasks.insert(name.to_owned(), task);
                }
                ["function", name, file, self_insns, inlined, inclusive, calls] => {
                    let function = FunctionMetrics {
                        self_insns: number(self_insns)?,
                        inlined_insns: number(inlined)?,
                        inclusive_insns: known(inclusive)?,
                        calls: known(calls)?,
                    };
                    let key = Key { name: name.to_owned(), file: file.to_owned() };
                    baseline.metrics.functions.insert(key, function);
                }
                [word @ ("compiler" | "image" | "qemu" | "run"), value] => {
                    baseline.made_with.insert((word.to_owned(), value.to_owned()));
                }
                _ => bail!(error()),
            }
        }
        if !has_total {
            bail!("there is no line with the total: the baseline is cut short");
        }
        Ok(baseline)
    }

    /// Reads a baseline's file; None where there is none.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub fn load(path: &Path) -> Result<Option<Baseline>, InputError> {
        match fs::read_to_string(path) {
            Ok(text) => match Baseline::from_text(&text) {
                Ok(baseline) => Ok(Some(baseline)),
                Err(error) => {
                    Err(InputError::about(path, format_args!("{error:#}; make it anew with --save-baseline")))
                }
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(InputError::about(path, format_args!("cannot be read: {error}"))),
        }
    }

    /// Writes the file, and the directories it is in.
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

    /// How the ways in which two baselines were made differ, a sentence each.
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
                sentences.push(format!("the {word} is another one: {how}"));
            }
        }
        sentences
    }
}

/// The words of each text that the other has not; compilers' options are many, and most of them the same.
fn differing_words(one: &str, other: &str) -> (String, String) {
    let without = |one: &str, other: &str| {
        let others: BTreeSet<&str> = other.split_whitespace().collect();
        one.split_whitespace().filter(|word| !others.contains(word)).collect::<Vec<_>>().join(" ")
    };
    (without(one, other), without(other, one))
}

/// What a profile was made with.
fn made_with(profile: &Profile) -> BTreeSet<(String, String)> {
    let Facts { image_name, qemu_version, machine, cpu, icount_shift, window, .. } = &profile.facts;
    let mut run = format!("machine={machine}");
    let mut add = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _ = write!(run, " {key}={value}");
        }
    };
    add("cpu", cpu.clone());
    add("shift", Some(icount_shift.to_string()));
    add("for", window.for_insns.map(|insns| insns.to_string()));
    add("from", window.from.clone());
    add("until", window.until.clone());
    add("exact", (!profile.tree.is_empty()).then(|| "on".to_owned()));
    for argument in &profile.facts.qemu_args {
        add("qemu-arg", Some(argument.clone()));
    }
    for argument in &profile.facts.firmware_args {
        add("arg", Some(argument.clone()));
    }
    for Input { when, bytes } in &profile.facts.input {
        add("input", Some(format!("{when:?}:{:?}", String::from_utf8_lossy(bytes))));
    }
    let pair = |word: &str, value: &str| (word.to_owned(), value.to_owned());
    let mut made_with = BTreeSet::from([pair("image", image_name), pair("qemu", qemu_version), pair("run", &run)]);
    made_with.extend(profile.names.producers.iter().map(|producer| pair("compiler", producer)));
    made_with
}

fn known(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// Without tabs and ends of lines.
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

    fn baseline() -> Baseline {
        let mut baseline = Baseline::default();
        baseline.made_with.insert(("qemu".to_owned(), "10.0.2".to_owned()));
        baseline.metrics.total_insns = 12;
        let key = Key { name: "a\tb<\\n>\u{e4};".to_owned(), file: String::new() };
        let function = FunctionMetrics { self_insns: 12, inlined_insns: 2, inclusive_insns: None, calls: Some(1) };
        baseline.metrics.functions.insert(key, function);
        baseline
            .metrics
            .tasks
            .insert("IDLE".to_owned(), TaskMetrics { insns: 3, switches: 1, stack_bytes: Some(96) });
        baseline
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = baseline().to_text();
        assert_eq!(Baseline::from_text(&text).unwrap(), baseline());
        assert_eq!(
            text,
            "harness baseline 1\nqemu\t10.0.2\ntotal\t12\ntask\tIDLE\t3\t1\t96\n\
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
        ] {
            let error = format!("{:#}", Baseline::from_text(damage).unwrap_err());
            assert!(error.contains(what), "{damage:?}: {error}");
        }
    }

    #[test]
    fn another_emulator_is_said() {
        let (before, mut after) = (baseline(), baseline());
        assert_eq!(before.mismatches(&after), [""; 0]);
        after.made_with = BTreeSet::from([("qemu".to_owned(), "10.1.0".to_owned())]);
        assert_eq!(before.mismatches(&after), ["the qemu is another one: before 10.0.2, now 10.1.0"]);
        assert_eq!(
            differing_words("GNU C11 12.2 -g -O2", "GNU C11 12.2 -g -O2 -O3"),
            (String::new(), "-O3".to_owned())
        );
    }
}
