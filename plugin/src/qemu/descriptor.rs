// SPDX-License-Identifier: GPL-2.0-or-later
//! File descriptors: the firmware opens files by semihosting until there is none left, and neither what it can open nor what the
//! plugin writes depends on the other.
//!
//! The process's soft limit is for the firmware. The plugin opens its own files above it, up to the hard limit. The guest does not
//! execute meanwhile, so the firmware never sees the raised limit.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Descriptors for the firmware and for what QEMU opens after the plugin: harness's limit of 1,024, less what is open by then
/// with all instruments and chips and some that were inherited, and less [`OWN`].
const FREE: u64 = 940;

/// Fewest descriptors above the firmware's limit: one for each stream, and those of a file that is copied.
const OWN: u64 = 16;

/// The soft limit for the firmware; 0: not set yet.
static FIRMWARES: AtomicU64 = AtomicU64::new(0);

/// The limits of descriptors. None: the host does not tell them.
fn limits() -> Option<libc::rlimit> {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure outlives the call.
    (unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) } == 0).then_some(limits)
}

/// Sets the soft limit. If that fails, the limit stays.
fn set(soft: u64, limits: &libc::rlimit) {
    let limits = libc::rlimit { rlim_cur: soft, ..*limits };
    // SAFETY: the structure outlives the call, which changes no memory.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits) };
}

/// Leaves as many descriptors as ever, however many the plugin holds for what was asked of the run, and whatever the host's own
/// limit is. A host with a low hard limit leaves fewer.
pub(crate) fn limit_firmware() {
    let Some(limits) = limits() else { return };
    let most = limits.rlim_max.saturating_sub(OWN);
    let (mut soft, mut free) = (0, 0);
    while free < FREE && soft < most {
        // SAFETY: asks for a flag of a descriptor, which need not be open; no memory is involved.
        free += u64::from(unsafe { libc::fcntl(soft as libc::c_int, libc::F_GETFD) } < 0);
        soft += 1;
    }
    set(soft, &limits);
    FIRMWARES.store(soft, Ordering::Relaxed);
}

/// Calls `work` with descriptors that the firmware cannot take.
pub(crate) fn with_own<T>(work: impl FnOnce() -> T) -> T {
    let Some(limits) = limits() else { return work() };
    set(limits.rlim_max, &limits);
    let result = work();
    set(limits.rlim_cur, &limits);
    result
}

/// Opens a file that stays open, at a descriptor above the firmware's limit once there is one.
///
/// # Errors
/// When `open` has failed.
pub(crate) fn own(open: impl FnOnce() -> io::Result<File>) -> io::Result<File> {
    let firmwares = FIRMWARES.load(Ordering::Relaxed);
    if firmwares == 0 {
        return open();
    }
    with_own(|| {
        let file = open()?;
        // SAFETY: duplicates a descriptor; no memory is involved.
        let above = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, firmwares as libc::c_int) };
        // SAFETY: open, and owned by nothing else. Without room above, the file stays where it is.
        Ok(if above < 0 { file } else { unsafe { File::from_raw_fd(above) } })
    })
}

/// Puts the null device in a socket's place, so that this process no longer holds the socket open.
pub(crate) fn close(socket: &impl AsRawFd) {
    // SAFETY: the descriptor's number stays open, on the null device, so its owner closes it as before.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        libc::dup2(null, socket.as_raw_fd());
        libc::close(null);
    }
}
