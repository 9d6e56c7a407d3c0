// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reports of a suite: files for other programs, and the verdict on standard output.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::gate::rerun_command::Root;
use crate::gate::result::{JUNIT, REPORT, SUMMARY, SuiteResult};
use crate::gate::{junit, lines, markdown};
use crate::run::store::directory::{begin_file, unwritable};
use crate::text::github;
use crate::text::printable::printable;
use crate::text::terminal;

/// Destinations of a suite's reports.
#[derive(Debug)]
pub struct Reports {
    directory: PathBuf,
    /// The project's root, to which paths in reports are relative.
    root: Root,
    /// Summary file of a CI job's step; the summary is appended to it.
    step_summary: Option<PathBuf>,
}

impl Reports {
    /// Checks that the reports can be written before anything is run for them: later, a failure would not be bad input.
    ///
    /// # Errors
    /// If one of the reports cannot be written.
    pub fn prepare(directory: PathBuf, root: &Root) -> Result<Reports, InputError> {
        fs::create_dir_all(&directory).map_err(|error| unwritable(&directory, &error))?;
        for path in [REPORT, JUNIT, SUMMARY].map(|name| directory.join(name)) {
            check(&path).map_err(|error| unwritable(&path, &error))?;
        }
        let step_summary = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()).map(PathBuf::from);
        if let Some(path) = &step_summary {
            check(path).map_err(|error| step_summary_error(path, &error))?;
        }
        Ok(Reports { directory, root: root.clone(), step_summary })
    }

    /// Directory of the reports.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes the reports and the verdict. A failed write is reported and gives [`ExitCode::Limit`], as for any run
    /// without room for its results; the other reports are still written.
    ///
    /// # Errors
    /// If the text of a report cannot be made, which is a defect.
    pub fn finish(&self, result: &SuiteResult) -> Result<ExitCode> {
        self.finish_with_profiles(result, &|_| &self.directory)
    }

    /// Writes the reports, with profiles in other directories; `profiles` gives the directory by the case's name.
    ///
    /// # Errors
    /// Same as [`Reports::finish`].
    pub fn finish_with_profiles<'a>(
        &'a self,
        result: &SuiteResult,
        profiles: &dyn Fn(&str) -> &'a Path,
    ) -> Result<ExitCode> {
        let mut out = Vec::new();
        let code = self.write(result, profiles)?;
        if github::is_job() {
            lines::annotations(result, &mut out)?;
        }
        lines::verdict(result, code, &mut out)?;
        let files = [REPORT, JUNIT, SUMMARY].join(", ");
        let directory = self.directory.display().to_string();
        writeln!(out, "reports in {}: {files}", printable(&directory))?;
        Ok(print(&out, code))
    }

    /// Writes the reports, as [`Reports::finish_with_profiles`] does. On standard output, the JSON report replaces the
    /// verdict.
    ///
    /// # Errors
    /// Same as [`Reports::finish`].
    pub fn finish_with_json<'a>(
        &'a self,
        result: &SuiteResult,
        profiles: &dyn Fn(&str) -> &'a Path,
    ) -> Result<ExitCode> {
        let code = self.write(result, profiles)?;
        Ok(print(result.to_json()?.as_bytes(), code))
    }

    /// Writes the reports; returns the command's exit code.
    fn write<'a>(&'a self, result: &SuiteResult, profiles: &dyn Fn(&str) -> &'a Path) -> Result<ExitCode> {
        let (mut xml, mut summary) = (Vec::new(), Vec::new());
        let profiles = |case: &str| self.root.path(profiles(case));
        junit::write(result, &profiles, &mut xml)?;
        markdown::write(result, &profiles, &mut summary)?;
        let mut code = result.code();
        for (name, bytes) in [(REPORT, result.to_json()?.as_bytes()), (JUNIT, &*xml), (SUMMARY, &*summary)] {
            let path = self.directory.join(name);
            if let Err(error) = write_whole(&path, bytes) {
                lost(unwritable(&path, &error));
                code = code.min(ExitCode::Limit);
            }
        }
        if let Some(path) = &self.step_summary {
            let appended = OpenOptions::new().create(true).append(true).open(path);
            if let Err(error) = appended.and_then(|mut file| file.write_all(&summary)) {
                lost(step_summary_error(path, &error));
                code = code.min(ExitCode::Limit);
            }
        }
        Ok(code)
    }
}

/// Writes a report as a whole: who reads it meanwhile, or after a crash, never gets half of it. If it cannot be written,
/// an earlier report of that name is removed, which would pass for this one. A pipe or a link is written to, not replaced.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_file() => return fs::write(path, bytes),
        _ => {}
    }
    let written = begin_file(path).and_then(|(mut file, place)| {
        file.write_all(bytes)?;
        Ok(file.persist(place)?)
    });
    written.map(drop).inspect_err(|_| drop(fs::remove_file(path)))
}

/// Reports a lost result. A closed standard error changes nothing.
fn lost(error: InputError) {
    let _ = writeln!(terminal::stderr(), "error: {error}");
}

/// Prints a suite's result, and returns the command's exit code. A reader that closes the output early (`| head`) does
/// not turn a failure into a success, and a full disk is not bad input.
fn print(text: &[u8], code: ExitCode) -> ExitCode {
    match io::stdout().lock().write_all(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            lost(InputError::new(format!("the verdict cannot be printed: {error}")));
            code.min(ExitCode::Limit)
        }
        _ => code,
    }
}

fn step_summary_error(path: &Path, error: &io::Error) -> InputError {
    InputError::about(path, format_args!("GITHUB_STEP_SUMMARY cannot be written: {error}"))
}

/// Opens a file for writing without changing it. A pipe or a device is not opened, since its reader would notice.
fn check(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            OpenOptions::new().write(true).create_new(true).open(path)?;
            fs::remove_file(path)
        }
        _ => OpenOptions::new().append(true).open(path).map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_that_cannot_be_written_are_found_before_and_what_is_there_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("a/b");
        Reports::prepare(directory.clone(), &Root::of(&directory)).unwrap();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::write(directory.join(REPORT), "earlier").unwrap();
        Reports::prepare(directory.clone(), &Root::of(&directory)).unwrap();
        assert_eq!(fs::read(directory.join(REPORT)).unwrap(), b"earlier");
        for name in [REPORT, JUNIT, SUMMARY] {
            let directory = scratch.path().join(name);
            fs::create_dir_all(directory.join(name)).unwrap();
            let error = Reports::prepare(directory.clone(), &Root::of(&directory)).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("cannot be written"), "{error}");
        }
    }

    #[test]
    fn a_report_is_replaced_as_a_whole_or_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(REPORT);
        for bytes in ["first", "second"] {
            write_whole(&path, bytes.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), bytes);
        }
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write_whole(&link, b"third").unwrap();
        assert!(link.is_symlink() && fs::read_to_string(&path).unwrap() == "third");
    }

    #[test]
    fn a_report_that_cannot_be_written_any_more_does_not_take_the_others_along() {
        let scratch = tempfile::tempdir().unwrap();
        let reports = Reports::prepare(scratch.path().to_owned(), &Root::of(scratch.path())).unwrap();
        fs::create_dir(scratch.path().join(REPORT)).unwrap();
        let result = SuiteResult::new("suite".to_owned(), None, (Vec::new(), 0), Vec::new());
        assert_eq!(reports.finish(&result).unwrap(), ExitCode::Limit);
        assert!([JUNIT, SUMMARY].iter().all(|name| scratch.path().join(name).is_file()));
    }
}
