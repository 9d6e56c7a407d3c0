// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads files that a user names: images, symbols, files for semihosting. Each file is read whole, and reading must
//! end. So a pipe or device is refused, a read never waits for more bytes (`/proc/kmsg` is a regular file and would),
//! and the size is bounded.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

use crate::error::InputError;

/// Largest file that is read: larger than any firmware's memory.
pub const MAX_BYTES: u64 = 1 << 30;

/// Reads a whole file.
///
/// # Errors
/// When the file cannot be read, is not a regular file, would make the read wait, or is larger than [`MAX_BYTES`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_up_to(path, MAX_BYTES)
}

/// Reads a whole file that a user named.
///
/// # Errors
/// [`InputError`] with the file and the reason, for the same reasons as [`read`].
pub fn read_named(path: &Path) -> Result<Vec<u8>, InputError> {
    read(path).map_err(|error| InputError::about(path, format_args!("cannot be read: {error}")))
}

/// Reads a whole file of at most this size.
///
/// # Errors
/// Same as [`read`], with another size.
pub fn read_up_to(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let refused = |why: &str| io::Error::new(ErrorKind::InvalidInput, why);
    let not_regular = "it is not a regular file (a pipe, device or directory); give a file on disk";
    // Opening a pipe would wait, so the kind is checked first.
    if !fs::metadata(path)?.is_file() {
        return Err(refused(not_regular));
    }
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    // The path may name another file by now, so the opened file is checked, too.
    if !file.metadata()?.is_file() {
        return Err(refused(not_regular));
    }
    let mut bytes = Vec::new();
    match file.take(max_bytes + 1).read_to_end(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(refused("its end is not there yet")),
        Err(error) => Err(error),
        Ok(_) if bytes.len() as u64 > max_bytes => Err(refused(&format!("it is larger than {max_bytes} bytes"))),
        Ok(_) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_on_disk_is_refused_and_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [&pipe, directory.path(), Path::new("/dev/zero"), Path::new("/dev/tty")] {
            assert!(read(path).is_err(), "{}", path.display());
        }
        // Only root may read this file; a read by root must not wait.
        assert!(read(Path::new("/proc/kmsg")).is_err());
        let file = directory.path().join("file");
        fs::write(&file, b"12345").unwrap();
        assert_eq!(read_up_to(&file, 5).unwrap(), b"12345");
        assert!(read_up_to(&file, 4).unwrap_err().to_string().contains("larger than 4 bytes"));
    }
}
