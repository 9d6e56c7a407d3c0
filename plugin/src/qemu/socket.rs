//! The debugger's socket: frames, and descriptors that come with them.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// Our end of a socket that the harness has made.
pub(crate) struct Socket(UnixStream);

impl Socket {
    /// The one that this process was started with at a descriptor; called once.
    pub(crate) fn inherited(descriptor: RawFd) -> io::Result<Socket> {
        // SAFETY: no memory is involved; what is at that number is the harness's to say.
        if unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: open, and nothing else in this process uses it: the harness made it for this.
        Ok(Socket(UnixStream::from(unsafe { OwnedFd::from_raw_fd(descriptor) })))
    }

    /// Of a stream.
    pub(super) fn of(stream: UnixStream) -> Socket {
        Socket(stream)
    }

    /// The stream, to read frames from that no descriptor comes with, and to write to.
    pub(crate) fn stream(&mut self) -> &mut UnixStream {
        &mut self.0
    }

    /// The number of its descriptor.
    pub(super) fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Has this process lose it: another one goes on with it. Its number stays taken, for it stands for what is closed in
    /// copies of this process.
    pub(crate) fn give_up(self) {
        super::descriptor::close(&self.0);
        std::mem::forget(self);
    }

    /// Whether something has come that was not read, or the other end is closed.
    pub(crate) fn is_readable(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, and a time of zero.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }

    /// Reads the first bytes of a frame, and the socket that came with it, if one did.
    pub(crate) fn receive_first(&mut self, bytes: &mut [u8; 4]) -> io::Result<Option<Socket>> {
        let mut received = 0;
        let mut came = None;
        while received < bytes.len() {
            let rest = &mut bytes[received..];
            let mut part = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
            // Room for one descriptor, aligned as control messages are.
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
            // SAFETY: the kernel has filled the message in; a header that is there is whole and followed by its data.
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
