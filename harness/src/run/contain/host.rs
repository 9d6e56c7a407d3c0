// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requirements of a run on the host besides QEMU: enough open files, writable files, a directory to load code from,
//! and /proc. If one is missing, the message names the cause, since the kernel's error hardly shows it.

use std::io;
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};

use crate::error::InputError;
use crate::text::number::group;

/// Files open at the same time in a process that runs firmware, and in its QEMU (24 measured).
const FILES: u64 = 64;

/// Files open for each worker of a suite, in the process that started it.
const FILES_OF_WORKER: u64 = 8;

/// Makes writes beyond the limit on file sizes (`ulimit -f`) fail. Otherwise they would end the process, and leave an
/// incomplete profile. Applies to this thread, and to threads and processes that it starts.
pub fn survive_large_files() {
    // If this fails, the signal keeps its effect.
    let _ = large_files().thread_block();
}

/// Undoes [`survive_large_files`] in a process that becomes another program.
pub(in crate::run) fn heed_large_files() {
    let _ = large_files().thread_unblock();
}

fn large_files() -> SigSet {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXFSZ);
    signals
}

/// Checks, before a run has created any file, that enough files can be opened for this many workers. Raises a lower
/// limit as far as this process may.
///
/// # Errors
/// When this process may not raise a limit that is too low.
pub fn check_files(workers: usize) -> Result<(), InputError> {
    let needed = FILES + FILES_OF_WORKER * workers as u64;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    if soft >= needed || (hard >= needed && setrlimit(Resource::RLIMIT_NOFILE, needed, hard).is_ok()) {
        return Ok(());
    }
    Err(InputError::new(format!(
        "at most {} files may be open (`ulimit -n`), and a run needs {}: raise the limit",
        group(soft.max(hard)),
        group(needed)
    )))
}

/// Remedy for an error of the host that a limit of this process caused; None: the error has another cause.
pub fn remedy(error: &io::Error) -> Option<String> {
    let soft = |resource| getrlimit(resource).ok().map(|(soft, _)| group(soft));
    if error.kind() == io::ErrorKind::FileTooLarge {
        let bytes = soft(Resource::RLIMIT_FSIZE)?;
        return Some(format!("files may have {bytes} bytes at most (`ulimit -f`): raise the limit"));
    }
    if error.raw_os_error() == Some(nix::libc::EMFILE) {
        let files = soft(Resource::RLIMIT_NOFILE)?;
        return Some(format!("at most {files} files may be open (`ulimit -n`): raise the limit"));
    }
    None
}

/// Reason why this program cannot be started again; None: it can.
pub(crate) fn without_proc() -> Option<&'static str> {
    let is_missing = cfg!(target_os = "linux") && !Path::new("/proc/self").exists();
    is_missing.then_some("/proc is not mounted, which harness starts programs by; mount -t proc proc /proc")
}

/// Whether a directory's file system is mounted noexec, so that no code can be loaded from it.
#[cfg(target_os = "linux")]
pub(in crate::run) fn is_noexec(directory: &Path) -> bool {
    use nix::sys::statvfs::{FsFlags, statvfs};
    statvfs(directory).is_ok_and(|found| found.flags().contains(FsFlags::ST_NOEXEC))
}

/// Systems without this flag: false.
#[cfg(not(target_os = "linux"))]
pub(in crate::run) fn is_noexec(_directory: &Path) -> bool {
    false
}
