// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files in a profile directory: their names, and the console's bytes.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::OFlag;
use nix::libc;

use crate::error::InputError;

/// Name of the saved profile in a profile directory.
pub const FILE_NAME: &str = "profile.fwp";

/// Name of the flamegraph in a profile directory.
pub const FLAMEGRAPH: &str = "flamegraph.svg";

/// Name of the flamechart in a profile directory, if one was asked for.
pub const FLAMECHART: &str = "flamechart.svg";

/// Name of the firmware's output in a profile directory.
pub const CONSOLE: &str = "console.log";

/// Names of all files of a profile directory. A new run may replace these in an earlier directory.
pub const FILES: [&str; 4] = [FLAMEGRAPH, FILE_NAME, CONSOLE, FLAMECHART];

/// Largest number of console bytes that are read.
const MAX_CONSOLE_BYTES: u64 = 1 << 30;

/// Reads what the firmware printed from a profile directory; None: there is no such file.
///
/// Links are not followed: a directory may come from a stranger, and a link in it could expose any file of the
/// reader.
///
/// # Errors
/// When the file is a link, no regular file, or cannot be read.
pub fn console(directory: &Path) -> Result<Option<Vec<u8>>, InputError> {
    let path = directory.join(CONSOLE);
    let refused =
        |why: &str| Err(InputError::about(&path, format_args!("{why}; remove it, or make the profile anew")));
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits()).open(&path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return refused("it is a link, which may lead to any file");
        }
        file => file,
    };
    let read = file.and_then(|file| {
        let is_file = file.metadata()?.is_file();
        let mut bytes = Vec::new();
        let count = if is_file { file.take(MAX_CONSOLE_BYTES + 1).read_to_end(&mut bytes)? } else { 0 };
        Ok((is_file, count as u64 <= MAX_CONSOLE_BYTES, bytes))
    });
    match read {
        Ok((true, true, bytes)) => Ok(Some(bytes)),
        Ok((true, false, _)) => refused("it is larger than any firmware prints"),
        Ok((false, ..)) => refused("it is not a regular file"),
        Err(error) => Err(InputError::about(&path, format_args!("cannot be read: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_console_that_leads_elsewhere_or_never_ends_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        assert_eq!(console(here), Ok(None));
        assert_eq!(console(&here.join("nowhere")), Ok(None));
        let file = here.join(CONSOLE);
        fs::write(&file, "ok\n").unwrap();
        assert_eq!(console(here), Ok(Some(b"ok\n".to_vec())));
        assert_eq!(console(&file), Ok(None), "a saved profile alone has none");
        fs::rename(&file, here.join("secret")).unwrap();
        std::os::unix::fs::symlink("secret", &file).unwrap();
        assert!(console(here).unwrap_err().to_string().contains("it is a link"));
        fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(console(here).unwrap_err().to_string().contains("not a regular file"));
    }
}
