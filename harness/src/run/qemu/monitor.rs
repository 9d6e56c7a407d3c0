// SPDX-License-Identifier: MIT OR Apache-2.0
//! The emulator's monitor: a separate socket, which no guest can reach and to which only QEMU writes. harness does not
//! trust this socket all the same: it skips lines that are not messages, and the constants below bound the memory that
//! messages can take.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use serde_json::Value;

/// Descriptor of QEMU's end of the monitor's socket.
pub const DESCRIPTOR: i32 = 3;

/// Longest line of a message, in bytes. A machine's memory tree, the longest answer, takes some 10 KiB.
const MAX_LINE_BYTES: usize = 4 << 20;

/// Most messages in the queue. When it is full, the socket is not read any more.
const MAX_WAITING: usize = 256;

/// Our end of the socket.
#[derive(Debug)]
pub(in crate::run) struct Monitor {
    commands: UnixStream,
    messages: Receiver<Value>,
}

impl Monitor {
    /// Makes a monitor, and QEMU's end of its socket.
    pub(in crate::run) fn new() -> io::Result<(Monitor, OwnedFd)> {
        let (ours, qemus) = UnixStream::pair()?;
        // Do not wait for a QEMU that reads no commands.
        ours.set_write_timeout(Some(Duration::from_secs(1)))?;
        let lines = BufReader::new(ours.try_clone()?);
        let (sender, messages) = sync_channel(MAX_WAITING);
        thread::spawn(move || pass_on(lines, &sender));
        Ok((Monitor { commands: ours, messages }, qemus.into()))
    }

    /// Sends a message.
    pub(in crate::run) fn send(&mut self, message: &Value) -> io::Result<()> {
        self.commands.write_all(format!("{message}\n").as_bytes())
    }

    /// The next message, if one comes in time. `Disconnected`: the other end is closed.
    pub(in crate::run) fn receive(&self, patience: Duration) -> Result<Value, RecvTimeoutError> {
        self.messages.recv_timeout(patience)
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // Otherwise the reading thread would wait while any process holds the other end. An error means that the other
        // end is gone.
        let _ = self.commands.shutdown(std::net::Shutdown::Both);
    }
}

/// Passes on lines that are messages until the input ends, or the receiver has gone.
fn pass_on(mut input: impl BufRead, sender: &SyncSender<Value>) {
    let mut line = Vec::new();
    while let Ok(true) = read_line(&mut input, &mut line) {
        if let Ok(message) = serde_json::from_slice(&line)
            && sender.send(message).is_err()
        {
            break;
        }
    }
}

/// Reads a line; a line that is too long is skipped and left empty. False: the input has ended.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    if input.by_ref().take(MAX_LINE_BYTES as u64).read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    if line.last() != Some(&b'\n') && line.len() == MAX_LINE_BYTES {
        *line = Vec::new();
        input.skip_until(b'\n')?;
    }
    Ok(true)
}

/// Time left until a moment.
pub(in crate::run) fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use serde_json::json;

    use super::*;

    fn messages(bytes: impl BufRead) -> Vec<Value> {
        let (sender, receiver) = sync_channel(MAX_WAITING);
        pass_on(bytes, &sender);
        drop(sender);
        receiver.iter().collect()
    }

    #[test]
    fn a_line_that_is_no_message_is_passed_over() {
        let bytes = b"\xff\xfe\n{\"a\": \"\xff\"}\nnot json\n\n\0\n{\"id\": 1}\r\n{\"id\": 2}";
        assert_eq!(messages(&bytes[..]), [json!({"id": 1}), json!({"id": 2})]);
    }

    #[test]
    fn a_line_without_end_takes_no_more_memory_than_a_message() {
        // More than would fit into memory if it were kept.
        let flood = io::repeat(b'x').take(256 << 20).chain(Cursor::new(b"\n{\"id\": 1}\n"));
        let mut input = BufReader::new(flood);
        let mut line = Vec::new();
        assert!(read_line(&mut input, &mut line).unwrap());
        assert_eq!(line.capacity(), 0);
        assert!(read_line(&mut input, &mut line).unwrap());
        assert_eq!(line, b"{\"id\": 1}\n");
        assert!(!read_line(&mut input, &mut line).unwrap());
    }

    #[test]
    fn more_messages_than_are_looked_at_wait_with_the_sender() {
        let (mut monitor, qemus) = Monitor::new().unwrap();
        let mut qemus = UnixStream::from(qemus);
        qemus.set_nonblocking(true).unwrap();
        // Once the queue and the socket's buffer are full, nothing more is accepted.
        let line = format!("{}\n", json!({"event": "x".repeat(1000)}));
        let mut sent = 0;
        loop {
            match qemus.write(line.as_bytes()) {
                Ok(written) => sent += written,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    thread::sleep(Duration::from_millis(50));
                    if qemus.write(line.as_bytes()).is_err() {
                        break;
                    }
                }
            }
            assert!(sent < 64 << 20, "nothing holds it up");
        }
        monitor.send(&json!({"execute": "quit"})).unwrap();
        assert!(monitor.receive(Duration::from_secs(5)).is_ok());
    }

    #[test]
    fn the_end_of_the_other_side_is_noticed() {
        let (monitor, qemus) = Monitor::new().unwrap();
        drop(qemus);
        assert_eq!(monitor.receive(Duration::from_secs(5)), Err(RecvTimeoutError::Disconnected));
    }
}
