// SPDX-License-Identifier: GPL-2.0-or-later
//! The process's standard streams. Semihosting's `:tt` is the file descriptors 0, 1 and 2, so they carry the
//! firmware's output. QEMU's own messages go elsewhere.

use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::OnceLock;

/// File for messages, since the firmware has the standard streams.
static MESSAGES: OnceLock<File> = OnceLock::new();

/// Gives standard output and standard error to the firmware, at the end of a file. Output of QEMU, its libraries and
/// this plugin still goes to the former standard error.
///
/// # Errors
/// The file cannot be opened, or there is no descriptor left.
pub(crate) fn give_to_firmware(path: &str) -> io::Result<()> {
    // Each write goes to the end: the console's chardev writes to the same file.
    let console = OpenOptions::new().append(true).create(true).open(path)?;
    // SAFETY: no memory is involved.
    let messages = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, 0) };
    if messages < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: open, and owned by nothing else.
    let messages = unsafe { File::from_raw_fd(messages) };
    let descriptors: &[c_int] = if printers_follow(&messages)? {
        &[libc::STDOUT_FILENO, libc::STDERR_FILENO]
    } else {
        &[libc::STDOUT_FILENO]
    };
    let _ = MESSAGES.set(messages);
    std::panic::set_hook(Box::new(|panic| say(&panic.to_string())));
    for &descriptor in descriptors {
        // SAFETY: no memory is involved; no owner of a standard stream depends on the file behind it.
        if unsafe { libc::dup2(console.as_raw_fd(), descriptor) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Redirects C's `stdout` and `stderr` to the messages. False: this C library does not allow that.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn printers_follow(messages: &File) -> io::Result<bool> {
    // The program's own variables, by which glibc and QEMU print.
    unsafe extern "C" {
        static mut stdout: *mut libc::FILE;
        static mut stderr: *mut libc::FILE;
    }
    // SAFETY: duplicates a descriptor, which only the stream uses; the mode ends in NUL. The stream lives for ever,
    // unbuffered as standard error is. QEMU is starting, and this is its main thread: output of another thread
    // meanwhile would go to one stream or the other, neither of which is closed.
    unsafe {
        let descriptor = libc::fcntl(messages.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 0);
        let stream = if descriptor < 0 { std::ptr::null_mut() } else { libc::fdopen(descriptor, c"a".as_ptr()) };
        if stream.is_null() {
            return Err(io::Error::last_os_error());
        }
        libc::setvbuf(stream, std::ptr::null_mut(), libc::_IONBF, 0);
        libc::fflush(stdout);
        stdout = stream;
        stderr = stream;
    }
    Ok(true)
}

/// C libraries whose streams cannot be redirected.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn printers_follow(_: &File) -> io::Result<bool> {
    Ok(false)
}

/// Prints a message for the user who started QEMU.
pub(crate) fn say(message: &str) {
    let line = format!("profiler plugin: {message}\n");
    // Nothing can be done if this fails.
    let _ = match MESSAGES.get() {
        Some(mut messages) => messages.write_all(line.as_bytes()),
        None => io::stderr().write_all(line.as_bytes()),
    };
}
