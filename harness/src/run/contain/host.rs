//! What a run needs of the host besides QEMU: files that it may open and write, a place that code may be loaded from,
//! and /proc. Where the host lacks it, the cause is named: the error that the kernel has for it says little.

use std::io;
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};

use crate::error::InputError;
use crate::text::number::group;

/// Files that are open at the same time in a process that runs firmware, and in its QEMU (24 measured).
const FILES: u64 = 64;

/// The same for each worker of a suite, in the process that has started it.
const FILES_OF_WORKER: u64 = 8;

/// Has writes fail beyond the limit on files (`ulimit -f`), instead of ending the process, whose half of a profile would be
/// left. Holds for this thread, and for threads and processes that it starts.
pub fn survive_large_files() {
    // Without it the signal does what it did.
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

/// Makes sure, before there is anything to tidy up, that enough files can be opened for so many workers. A lower limit
/// is raised as far as this process may.
///
/// # Errors
/// When it may not.
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

/// What to do about an error of the host whose cause is a limit of this process; None: it is something else.
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

/// Why this program cannot be started again; None: the host is as it should be.
pub(crate) fn without_proc() -> Option<&'static str> {
    let is_missing = cfg!(target_os = "linux") && !Path::new("/proc/self").exists();
    is_missing.then_some("/proc is not mounted, which harness starts programs by; mount -t proc proc /proc")
}

/// Whether no code may be loaded from what lies in a directory: its file system is mounted noexec.
#[cfg(target_os = "linux")]
pub(in crate::run) fn is_noexec(directory: &Path) -> bool {
    use nix::sys::statvfs::{FsFlags, statvfs};
    statvfs(directory).is_ok_and(|found| found.flags().contains(FsFlags::ST_NOEXEC))
}

/// As above.
#[cfg(not(target_os = "linux"))]
pub(in crate::run) fn is_noexec(_directory: &Path) -> bool {
    false
}
