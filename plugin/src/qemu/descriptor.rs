//! File descriptors that a copy of this process must not share.

use std::os::fd::AsRawFd;

/// Replaces a socket by the null device, so that this process no longer holds it open.
pub(crate) fn close(socket: &impl AsRawFd) {
    // SAFETY: it leads nowhere from now on; what owns it closes the number as before.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        libc::dup2(null, socket.as_raw_fd());
        libc::close(null);
    }
}
