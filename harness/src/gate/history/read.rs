// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds and reads the reports that a pipeline keeps. A report is somebody else's file: reading it is bounded, and what is
//! wrong is said with its place.

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::InputError;
use crate::gate::expect::FindingKind;
use crate::gate::numbers::{LimitResult, NumbersByMetric};
use crate::gate::result::{FORMAT, REPORT, VERSION};
use crate::gate::revision::Revision;
use crate::image::bounded_read;
use crate::text::number::group;

/// Largest report that is read, in bytes; one of 400 images with 400 functions each has a third of that.
pub const MAX_REPORT_BYTES: u64 = 48 << 20;

/// Most reports of one history.
const MAX_REPORTS: usize = 20_000;

/// Most numbers of one history, from all reports together.
pub const MAX_NUMBERS: usize = 2_000_000;

/// Most files and folders that are looked at in search of reports.
const MAX_ENTRIES: usize = 200_000;

/// Longest chain of folders below a given one.
const MAX_DEPTH: usize = 16;

/// Parts of a report that make a history.
#[derive(Debug, Deserialize)]
pub struct Record {
    /// Path of the file.
    #[serde(skip)]
    pub place: String,
    /// Version of the harness that wrote it.
    pub harness_version: String,
    /// Commit of the firmware.
    #[serde(default)]
    pub revision: Option<Revision>,
    /// Name of the suite.
    pub suite: String,
    /// Results of the images.
    pub cases: Vec<Case>,
}

/// Result of one image.
#[derive(Debug, Deserialize)]
pub struct Case {
    /// Name of the image.
    pub name: String,
    /// Tags of the image.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Conditions of its run; None: it could not be run.
    pub run: Option<Conditions>,
    /// Expectations.
    #[serde(default)]
    findings: Vec<Ended>,
    /// Numbers by metric and subject.
    #[serde(default)]
    pub numbers: NumbersByMetric,
    /// Limits on the numbers.
    #[serde(default)]
    pub limits: Vec<LimitResult>,
}

/// Conditions of a run, and its length.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Conditions {
    /// SHA-256 of the image.
    pub image_sha256: String,
    /// Version of QEMU.
    pub qemu: String,
    /// Machine of QEMU.
    pub machine: String,
    /// Instructions of the window.
    pub insns: u64,
}

/// Part of a finding that says whether the run ended as expected.
#[derive(Debug, Deserialize)]
struct Ended {
    kind: FindingKind,
    passed: bool,
}

/// Beginning of any report, by which its kind is recognised.
#[derive(Debug, Deserialize)]
struct Head {
    #[serde(default)]
    format: String,
    #[serde(default)]
    version: u32,
}

impl Case {
    /// Whether the run ended as expected, so that its numbers are those of the whole work.
    pub fn ended_well(&self) -> bool {
        self.run.is_some()
            && self.findings.iter().all(|finding| finding.kind != FindingKind::Ending || finding.passed)
    }

    /// Number of numbers.
    fn len(&self) -> usize {
        self.numbers.values().map(|by_subject| by_subject.len()).sum::<usize>() + self.limits.len()
    }
}

/// Reads all reports in these places, in this order: a file is a report; a folder has one as `harness test -o` writes it,
/// or else reports below it, in the order of their paths, in which numbers are compared as numbers. Returns also the
/// number of JSON files that are not reports.
///
/// # Errors
/// [`InputError`] if there is no report, a report cannot be read, or there is too much.
pub fn records(places: &[PathBuf]) -> Result<(Vec<Record>, usize), InputError> {
    let mut search = Search::default();
    for place in places {
        if place.is_dir() {
            let before = search.found.len();
            search.folder(place, 0)?;
            if search.found.len() == before {
                let why = format!("there is no {REPORT} in it; `harness test -o DIR` writes one");
                return Err(InputError::about(place, why));
            }
        } else {
            search.add(place, true)?;
        }
    }
    let (mut records, mut others, mut numbers) = (Vec::new(), 0, 0);
    for (path, is_named) in &search.found {
        let Some(record) = read(path, *is_named)? else {
            others += 1;
            continue;
        };
        numbers += record.cases.iter().map(Case::len).sum::<usize>();
        if numbers > MAX_NUMBERS {
            let most = group(MAX_NUMBERS as u64);
            return Err(InputError::about(
                path,
                format!("with this report there are more than {most} numbers; give fewer reports"),
            ));
        }
        records.push(record);
    }
    if records.is_empty() {
        let why = format!("no report of harness test is among the {others} JSON files found; name a {REPORT}");
        return Err(InputError::new(why));
    }
    Ok((records, others))
}

/// A search for reports.
#[derive(Debug, Default)]
struct Search {
    /// Files to read, and whether each has to be a report.
    found: Vec<(PathBuf, bool)>,
    entries: usize,
}

impl Search {
    fn add(&mut self, path: &Path, is_named: bool) -> Result<(), InputError> {
        if self.found.len() == MAX_REPORTS {
            let most = group(MAX_REPORTS as u64);
            return Err(InputError::about(path, format!("this report is one more than {most}; give fewer")));
        }
        self.found.push((path.to_owned(), is_named));
        Ok(())
    }

    fn folder(&mut self, folder: &Path, depth: usize) -> Result<(), InputError> {
        let report = folder.join(REPORT);
        if report.is_file() {
            return self.add(&report, true);
        }
        if depth == MAX_DEPTH {
            return Err(InputError::about(
                folder,
                format!("it is more than {MAX_DEPTH} folders deep; name it itself"),
            ));
        }
        let unreadable = |error| InputError::about(folder, format_args!("cannot be read: {error}"));
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                let most = group(MAX_ENTRIES as u64);
                return Err(InputError::about(
                    folder,
                    format!("more than {most} files to look at; name the reports"),
                ));
            }
            let entry = entry.map_err(unreadable)?;
            entries.push((entry.file_type().map_err(unreadable)?, entry.path()));
        }
        entries.sort_by(|(_, one), (_, other)| natural(&one.to_string_lossy(), &other.to_string_lossy()));
        for (kind, path) in entries {
            // Links are left out: a folder that links to itself has no end.
            if kind.is_dir() {
                self.folder(&path, depth + 1)?;
            } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "json") {
                self.add(&path, false)?;
            }
        }
        Ok(())
    }
}

/// Reads one report; None: it is another JSON file, and need not be a report.
fn read(path: &Path, is_named: bool) -> Result<Option<Record>, InputError> {
    let about = |why: &dyn std::fmt::Display| InputError::about(path, format_args!("cannot be read: {why}"));
    let bytes = bounded_read::read_up_to(path, MAX_REPORT_BYTES).map_err(|error| about(&error))?;
    let head: Head = match serde_json::from_slice(&bytes) {
        Ok(head) => head,
        Err(_) if !is_named => return Ok(None),
        Err(error) => return Err(about(&format_args!("it is not a report in JSON: {error}"))),
    };
    if head.format != FORMAT {
        let why = format!("it is not a report of harness test (its format is not {FORMAT:?})");
        return if is_named { Err(about(&why)) } else { Ok(None) };
    }
    if head.version != VERSION {
        let why = format!("its version is {}, and this harness reads version {VERSION}", head.version);
        return Err(about(&why));
    }
    let mut record: Record =
        serde_json::from_slice(&bytes).map_err(|error| about(&format_args!("it is damaged: {error}")))?;
    record.place = path.display().to_string();
    Ok(Some(record))
}

/// Compares two paths so that `run-9` comes before `run-10`: runs of digits are compared as numbers.
fn natural(one: &str, other: &str) -> Ordering {
    let (mut one_rest, mut other_rest) = (one, other);
    loop {
        let [a, b] = [one_rest, other_rest].map(|rest| rest.chars().next());
        let (Some(a), Some(b)) = (a, b) else {
            // Equal but for zeros in front of numbers.
            return a.is_some().cmp(&b.is_some()).then_with(|| one.cmp(other));
        };
        if a.is_ascii_digit() && b.is_ascii_digit() {
            let number = |rest: &str| rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
            let (a, after_one) = one_rest.split_at(number(one_rest));
            let (b, after_other) = other_rest.split_at(number(other_rest));
            let [a, b] = [a, b].map(|digits| digits.trim_start_matches('0'));
            let order = a.len().cmp(&b.len()).then_with(|| a.cmp(b));
            if order != Ordering::Equal {
                return order;
            }
            (one_rest, other_rest) = (after_one, after_other);
        } else if a == b {
            (one_rest, other_rest) = (&one_rest[a.len_utf8()..], &other_rest[b.len_utf8()..]);
        } else {
            return a.cmp(&b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_paths_are_compared_as_numbers() {
        let mut names =
            ["run-10/a", "run-9/b", "run-9", "run-009/a", "Run-1", "run-", "", "run-99999999999999999999"];
        names.sort_by(|one, other| natural(one, other));
        assert_eq!(
            names,
            ["", "Run-1", "run-", "run-9", "run-009/a", "run-9/b", "run-10/a", "run-99999999999999999999"]
        );
    }
}
