// SPDX-License-Identifier: MIT OR Apache-2.0
//! A suite: images, the settings of their runs, and expectations. It is read from `harness.toml` into cases that are
//! ready to run. Every mistake is found before anything runs, and reported with file and line.

mod file;
mod reader;
pub mod stranger;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::InputError;
use crate::gate::assertion::Assertion;
use crate::gate::budget::Budget;
use crate::gate::expect::Expect;
use crate::gate::suite::file::{File, Limited, combinations};
use crate::gate::suite::reader::Reader;
use crate::gate::suite::stranger::{Folder, MAX_CASES, Purpose};
use crate::gate::threshold::Threshold;
use crate::gate::work_floor::Work;
use crate::image::bounded_read;
use crate::run::request::options::Options;

/// Name of the suite's file if the user names none.
pub const FILE_NAME: &str = "harness.toml";

/// A suite, ready to run.
#[derive(Debug)]
pub struct Suite {
    /// Its name, from the file, or else that of the directory.
    pub name: String,
    /// The file that it was read from.
    pub path: PathBuf,
    /// Content of that file.
    pub text: String,
    /// Directory of its baselines.
    pub baselines: PathBuf,
    /// Name of the baseline to compare with, unless the user names another one.
    pub baseline: Option<String>,
    /// The folder that contains all of its files, if the suite is untrusted.
    pub folder: Option<Folder>,
    /// Whether `--strict` applies to all images, whatever the file says.
    pub is_strict: bool,
    /// Cases in the order of the file; an image with a matrix has several.
    pub cases: Vec<Case>,
}

/// One run and its expectations.
#[derive(Debug)]
pub struct Case {
    /// Name, unique in the suite.
    pub name: String,
    /// Words by which filters choose the case.
    pub tags: Vec<String>,
    /// Options of the run.
    pub options: Options,
    /// Files whose contents are typed on the console; the options have the contents themselves.
    pub inputs: Vec<PathBuf>,
    /// Expectations on the run itself.
    pub expect: Expect,
    /// Assertions on the profile.
    pub assertions: Vec<Assertion>,
    /// Limits on growth from the baseline, and ceilings.
    pub thresholds: Vec<Threshold>,
    /// Limits on a loss of work done in the window.
    pub work: Vec<Work>,
    /// Ceilings with their margins.
    pub budget: Budget,
    /// Line of the case in the file.
    pub line: usize,
}

/// Finds the suite's file: the given one, or else the nearest one in the current directory and above it.
///
/// # Errors
/// If there is no such file.
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

/// Maximum number of runs in a suite: a matrix of a few lines can ask for more than memory can hold.
const MOST_CASES: usize = 100_000;

/// Text of a suite's file.
fn read(path: &Path) -> Result<String, InputError> {
    let text = bounded_read::read(path).and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
    text.map_err(|error| InputError::about(path, format_args!("cannot be read: {error}")))
}

impl Suite {
    /// Reads a suite's file. Paths in it are relative to its directory.
    ///
    /// # Errors
    /// [`InputError`] with file and line and, for an unknown key, the nearest known one.
    pub fn load(path: &Path) -> Result<Suite, InputError> {
        Suite::parse(path, &read(path)?)
    }

    /// Reads the file of an untrusted suite, which may name fewer files and options.
    ///
    /// # Errors
    /// Errors of [`Suite::load`]; also if the file names more than an untrusted suite may.
    pub fn load_untrusted(path: &Path) -> Result<Suite, InputError> {
        Suite::parse_untrusted(path, &read(path)?)
    }

    /// Reads the text of an untrusted suite, as if it were in `path`.
    ///
    /// # Errors
    /// Same as [`Suite::load_untrusted`].
    pub fn parse_untrusted(path: &Path, text: &str) -> Result<Suite, InputError> {
        Suite::parse_within(path, text, Some(Folder::of(path)?))
    }

    /// Applies `--strict` to all images.
    pub fn hold_strictly(&mut self) {
        self.is_strict = true;
        self.cases.iter_mut().for_each(|case| case.expect.strict = true);
    }

    /// Reads a suite's text, as if it were in this file.
    ///
    /// # Errors
    /// Same as [`Suite::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Suite, InputError> {
        Suite::parse_within(path, text, None)
    }

    fn parse_within(path: &Path, text: &str, folder: Option<Folder>) -> Result<Suite, InputError> {
        let reader = Reader { path, text, folder: folder.as_ref() };
        let file: File = toml::from_str(text).map_err(|error| reader.toml(&error))?;
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        if file.image.is_empty() {
            return Err(InputError::about(path, "has no [[image]]: there is nothing to run"));
        }
        let most = if folder.is_some() { MAX_CASES } else { MOST_CASES };
        let mut cases = Vec::new();
        for entry in file.image {
            let span = entry.span();
            let own_thresholds = entry.get_ref().thresholds.clone();
            let budgets = [&file.budget, &file.defaults.budget, &entry.get_ref().budget];
            let budget = Budget::new(&budgets, &file.stack).map_err(|(span, what)| reader.at(&span, what))?;
            let entry = entry.into_inner().over(&file.defaults);
            if entry.combinations().saturating_add(cases.len()) > most {
                return Err(reader.at(&span, format_args!("with this image there are more than {most} runs")));
            }
            for (suffix, entry) in combinations(entry) {
                let thresholds = [&file.defaults.thresholds, &own_thresholds];
                let case = reader.case(&directory, &span, entry, &suffix, (thresholds, budget.clone()))?;
                cases.push(case);
            }
        }
        let work = file.defaults.thresholds.0.get(&Limited::Work);
        if let (Some(work), true) = (work, cases.iter().all(|case| case.work.is_empty())) {
            return Err(reader.at(
                &work.span(),
                "thresholds.work is for images with `for` or `exit = \"limit\"`, and the suite has none: it limits \
                 nothing",
            ));
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
        let baselines = directory.join(file.baselines.unwrap_or_else(|| PathBuf::from("baselines")));
        if let Some(folder) = &folder {
            folder.file(&baselines, Purpose::Data).map_err(|why| InputError::about(path, why))?;
        }
        Ok(Suite {
            name: name.unwrap_or_else(|| "suite".to_owned()),
            path: path.to_owned(),
            text: text.to_owned(),
            baselines,
            folder: folder.clone(),
            is_strict: false,
            baseline: file.baseline,
            cases,
        })
    }
}
