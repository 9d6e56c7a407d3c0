//! The emulator's monitor: a socket of its own, which no guest can reach and on which only QEMU speaks. What arrives
//! is bytes all the same: a line that is no message is passed over, and nothing that is sent here takes more memory
//! than is said below.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use serde_json::Value;

/// The descriptor that QEMU finds its end of the monitor's socket at.
pub const DESCRIPTOR: i32 = 3;

/// The longest line that is a message. A machine's memory tree, the longest answer there is, takes some 10 KiB.
const MAX_LINE_BYTES: usize = 4 << 20;

/// Messages that wait to be looked at. Then QEMU's end of the socket is not read any more.
const MAX_WAITING: usize = 256;

/// Our end of the socket.
#[derive(Debug)]
pub(in crate::run) struct Monitor {
    commands: UnixStream,
    messages: Receiver<Value>,
}

impl Monitor {
    /// A monitor, and the end that is QEMU's.
    pub(in crate::run) fn new() -> io::Result<(Monitor, OwnedFd)> {
        let (ours, qemus) = UnixStream::pair()?;
        // A QEMU that takes no commands is not waited for.
        ours.set_write_timeout(Some(Duration::from_secs(1)))?;
        let lines = BufReader::new(ours.try_clone()?);
        let (sender, messages) = sync_channel(MAX_WAITING);
        thread::spawn(move || pass_on(lines, &sender));
        Ok((Monitor { commands: ours, messages }, qemus.into()))
    }

    /// Sends a message of ours.
    pub(in crate::run) fn send(&mut self, message: &Value) -> io::Result<()> {
        self.commands.write_all(format!("{message}\n").as_bytes())
    }

    /// The next message, where one comes in time. The other end is closed where this says disconnected.
    pub(in crate::run) fn receive(&self, patience: Duration) -> Result<Value, RecvTimeoutError> {
        self.messages.recv_timeout(patience)
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // Else the thread that reads would wait for as long as anything holds the other end. It fails where that has
        // gone.
        let _ = self.commands.shutdown(std::net::Shutdown::Both);
    }
}

/// Passes on the lines that are messages until there are no more, or none is wanted.
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

/// Reads a line; one that is too long is read and left empty. False: there is none.
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

/// Time that is left until a moment.
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
        // As long as the address space, if it were kept.
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
        // What fits into the queue and the socket's buffer is taken, and then no more: however long this goes on.
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
