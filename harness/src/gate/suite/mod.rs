//! A suite: images, how each is run, and what is expected of it. `harness.toml` as typed becomes cases that
//! are ready to run; every mistake is found before anything runs, and named by file and line.

mod file;
mod reader;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::InputError;
use crate::gate::assertion::Assertion;
use crate::gate::expect::Expect;
use crate::gate::suite::file::{File, Limited, combinations};
use crate::gate::suite::reader::Reader;
use crate::gate::threshold::Threshold;
use crate::gate::work::Work;
use crate::run::options::Options;

/// The file that is looked for when none is named.
pub const FILE_NAME: &str = "harness.toml";

/// A suite, ready to run.
#[derive(Debug)]
pub struct Suite {
    /// Its name: the file says it, or the directory.
    pub name: String,
    /// The file that it was read from.
    pub path: PathBuf,
    /// What that file held.
    pub text: String,
    /// Directory of its baselines.
    pub baselines: PathBuf,
    /// The baseline to compare with unless another one is asked for.
    pub baseline: Option<String>,
    /// Its cases in the order of the file; a matrix is several.
    pub cases: Vec<Case>,
}

/// One run and what is expected of it.
#[derive(Debug)]
pub struct Case {
    /// Unique in the suite.
    pub name: String,
    /// Words that filters choose it by.
    pub tags: Vec<String>,
    /// Options of the run.
    pub options: Options,
    /// Files whose contents are typed on the console; the options hold those.
    pub inputs: Vec<PathBuf>,
    /// What is expected of the run itself.
    pub expect: Expect,
    /// What is expected of the profile.
    pub assertions: Vec<Assertion>,
    /// How much worse than the baseline numbers may be.
    pub thresholds: Vec<Threshold>,
    /// How much less than in the baseline may be done in the window.
    pub work: Vec<Work>,
    /// Line of the file at which it is described.
    pub line: usize,
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

    /// Reads a suite's text, as if it were in this file.
    ///
    /// # Errors
    /// As for [`Suite::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Suite, InputError> {
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
        Ok(Suite {
            name: name.unwrap_or_else(|| "suite".to_owned()),
            path: path.to_owned(),
            text: text.to_owned(),
            baselines: directory.join(file.baselines.unwrap_or_else(|| PathBuf::from("baselines"))),
            baseline: file.baseline,
            cases,
        })
    }
}
