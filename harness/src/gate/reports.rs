//! The reports of a suite: files for other programs, and the verdict on standard output.

use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::gate::result::{JUNIT, REPORT, SUMMARY, SuiteResult};
use crate::gate::{junit, lines, markdown};
use crate::run::directory::unwritable;
use crate::text::github;
use crate::text::terminal::printable;

/// Writes the reports and the verdict.
///
/// # Errors
/// When they cannot be written.
pub fn finish(result: &SuiteResult, directory: &Path) -> Result<ExitCode> {
    let write = |name: &str, bytes: &[u8]| {
        let path = directory.join(name);
        fs::write(&path, bytes).map_err(|error| unwritable(&path, &error))
    };
    write(REPORT, result.to_json()?.as_bytes())?;
    let (mut xml, mut summary) = (Vec::new(), Vec::new());
    junit::write(result, &mut xml)?;
    write(JUNIT, &xml)?;
    markdown::write(result, &mut summary)?;
    write(SUMMARY, &summary)?;
    if let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        let appended = fs::OpenOptions::new().create(true).append(true).open(&path);
        appended.and_then(|mut file| file.write_all(&summary)).map_err(|error| {
            InputError::about(&path, format_args!("GITHUB_STEP_SUMMARY cannot be written: {error}"))
        })?;
    }
    let mut out = Vec::new();
    if github::is_job() {
        lines::annotations(result, &mut out)?;
    }
    lines::verdict(result, &mut out)?;
    let files = [REPORT, JUNIT, SUMMARY].join(", ");
    let directory = directory.display().to_string();
    writeln!(out, "reports in {}: {files}", printable(&directory))?;
    // A reader that has seen enough (`| head`) does not make a failure a success.
    match stdout().lock().write_all(&out) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(result.code()),
    }
}
