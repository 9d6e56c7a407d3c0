//! File descriptors that a copy of this process must not share.

use std::os::fd::AsRawFd;

/// Puts the null device in a socket's place, so that this process no longer holds the socket open.
pub(crate) fn close(socket: &impl AsRawFd) {
    // SAFETY: the descriptor's number stays open, on the null device, so its owner closes it as before.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        libc::dup2(null, socket.as_raw_fd());
        libc::close(null);
    }
}
