// SPDX-License-Identifier: GPL-2.0-or-later
//! The debugger's socket: frames, and file descriptors sent with them.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// Our end of a socket that harness has made.
pub(crate) struct Socket(UnixStream);

impl Socket {
    /// The socket that this process inherited at a descriptor; called once.
    pub(crate) fn inherited(descriptor: RawFd) -> io::Result<Socket> {
        // SAFETY: no memory is involved; the harness opened that descriptor.
        if unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: open, and unused elsewhere in this process: the harness made it for this.
        Ok(Socket(UnixStream::from(unsafe { OwnedFd::from_raw_fd(descriptor) })))
    }

    /// Wraps a stream.
    pub(super) fn of(stream: UnixStream) -> Socket {
        Socket(stream)
    }

    /// The stream, for reading frames without a descriptor and for writing.
    pub(crate) fn stream(&mut self) -> &mut UnixStream {
        &mut self.0
    }

    /// Number of its file descriptor.
    pub(super) fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Leaves the socket to another process. Its number stays in use, since the list of descriptors that copies close
    /// contains it.
    pub(crate) fn give_up(self) {
        super::descriptor::close(&self.0);
        std::mem::forget(self);
    }

    /// Whether there is input, or the other end is closed.
    pub(crate) fn is_readable(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, and a time of zero.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }

    /// Reads the first bytes of a frame, and the socket sent with it, if any.
    pub(crate) fn receive_first(&mut self, bytes: &mut [u8; 4]) -> io::Result<Option<Socket>> {
        let mut received = 0;
        let mut came = None;
        while received < bytes.len() {
            let rest = &mut bytes[received..];
            let mut part = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
            // Buffer for one descriptor, aligned as control messages are.
            let mut control = [0u64; 4];
            // SAFETY: all zero is a valid msghdr.
            let mut message: libc::msghdr = unsafe { zeroed() };
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of::<[u64; 4]>() as _;
            // SAFETY: the message's parts live until the call has returned.
            let length = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
            match length {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length if length < 0 => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                    continue;
                }
                length => received += length as usize,
            }
            // SAFETY: the kernel has filled in the message; a header is complete and followed by its data.
            unsafe {
                let header = libc::CMSG_FIRSTHDR(&raw const message);
                if !header.is_null()
                    && (*header).cmsg_level == libc::SOL_SOCKET
                    && (*header).cmsg_type == libc::SCM_RIGHTS
                {
                    let descriptor = libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned();
                    came = Some(Socket(UnixStream::from(OwnedFd::from_raw_fd(descriptor))));
                }
            }
        }
        Ok(came)
    }
}
