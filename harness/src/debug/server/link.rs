//! The connection to a debugger. A thread of its own reads it, for what arrives while the run executes is a request to
//! hold it, and a client that goes away must not leave it executing.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gdbstub::conn::Connection;

use crate::debug::packet::{error_packet, packet};
use crate::debug::socket::Client;
use crate::debug::travel::Interrupt;

/// How often a run is asked again that has been asked to be held and executes. It may have been asked before it began.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// What GDB sends for Ctrl-C, outside of packets.
const INTERRUPT: u8 = 3;

/// What reader and server know of each other.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// Interrupts that have arrived.
    asked: AtomicU64,
    /// Of these, how many the server has come to in the order of what it was sent.
    taken: AtomicU64,
    /// The client is no longer there.
    gone: AtomicBool,
    /// The run executes.
    runs: AtomicBool,
    /// The server has ended.
    over: AtomicBool,
    /// What is sent in place of the number of the error that is about to be answered.
    reason: Mutex<Option<String>>,
}

impl Signs {
    /// Whether the run is to be held. An interrupt that is older than the command that the server is at has been taken.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst) > self.taken.load(Ordering::SeqCst) || self.is_gone()
    }

    /// Notes that the server has come to an interrupt.
    pub(super) fn take(&self) {
        self.taken.fetch_add(1, Ordering::SeqCst);
    }

    /// Has the request that is about to be answered by an error answered by this.
    pub(super) fn explain(&self, reason: String) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    fn take_reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether the client is no longer there.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Says that the run executes, as long as what is returned lives.
    pub(super) fn running(self: &Arc<Signs>) -> Running {
        self.runs.store(true, Ordering::SeqCst);
        Running(Arc::clone(self))
    }
}

/// The run executes.
#[derive(Debug)]
pub(super) struct Running(Arc<Signs>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.runs.store(false, Ordering::SeqCst);
    }
}

/// The connection.
pub(super) struct Link {
    client: Client,
    signs: Arc<Signs>,
    bytes: Receiver<u8>,
    /// What the next flush sends.
    out: Vec<u8>,
    reader: Option<JoinHandle<()>>,
}

impl Link {
    /// Takes a client and begins to read it, until it has gone or this says that it is to go.
    pub(super) fn new(
        client: Client,
        interrupt: Arc<dyn Interrupt>,
        ends: Option<&'static AtomicBool>,
    ) -> io::Result<Link> {
        let signs = Arc::new(Signs::default());
        let (sender, bytes) = mpsc::channel();
        let reading = client.try_clone()?;
        reading.set_read_timeout(Some(ASK_AGAIN))?;
        let shared = Arc::clone(&signs);
        let reader = std::thread::spawn(move || read(reading, &shared, sender, &*interrupt, ends));
        Ok(Link { client, signs, bytes, out: Vec::new(), reader: Some(reader) })
    }

    /// What reader and server share.
    pub(super) fn signs(&self) -> Arc<Signs> {
        Arc::clone(&self.signs)
    }

    /// The next byte; none: the client has gone.
    pub(super) fn next(&self) -> Option<u8> {
        self.bytes.recv().ok()
    }

    /// Shows text on the debugger's console; only while it waits for the run to be held.
    pub(super) fn show(&mut self, text: &str) -> io::Result<()> {
        let mut body = String::from("O");
        text.bytes().for_each(|byte| body.push_str(&format!("{byte:02x}")));
        self.out.extend_from_slice(packet(&body).as_bytes());
        self.flush()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.signs.over.store(true, Ordering::SeqCst);
        self.client.shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// The error that `gdbstub` sends for what is refused without a number of its own.
const REFUSED: &[u8] = b"$E79#b5";

impl Connection for Link {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.out.push(byte);
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(reason) = self.signs.take_reason().filter(|_| self.out.ends_with(REFUSED)) {
            self.out.truncate(self.out.len() - REFUSED.len());
            self.out.extend_from_slice(error_packet(&reason).as_bytes());
        }
        let out = std::mem::take(&mut self.out);
        self.client.write_all(&out)
    }
}

/// Where in the stream of packets a byte lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Between,
    Body,
    /// So many bytes of the checksum are to come.
    Checksum(u8),
}

impl Place {
    fn after(self, byte: u8) -> Place {
        match (self, byte) {
            (Place::Between, b'$') => Place::Body,
            (Place::Between, _) | (Place::Checksum(..=1), _) => Place::Between,
            (Place::Body, b'#') => Place::Checksum(2),
            (Place::Body, _) => Place::Body,
            (Place::Checksum(left), _) => Place::Checksum(left - 1),
        }
    }
}

/// Reads a client until it has gone or the server has ended, and has the run held when it is asked to.
fn read(mut client: Client, signs: &Signs, sender: Sender<u8>, interrupt: &dyn Interrupt, ends: Option<&AtomicBool>) {
    let mut sender = Some(sender);
    let mut place = Place::Between;
    let mut bytes = [0; 4096];
    while !signs.over.load(Ordering::SeqCst) {
        if sender.is_none() {
            std::thread::sleep(ASK_AGAIN);
        } else if ends.is_some_and(|ends| ends.load(Ordering::Relaxed)) {
            // Which the read below finds.
            client.shutdown(Shutdown::Both);
        }
        match sender.as_ref().map(|sender| (sender, client.read(&mut bytes))) {
            None => {}
            Some((sender, Ok(count))) if count > 0 => {
                for &byte in &bytes[..count] {
                    if place == Place::Between && byte == INTERRUPT {
                        signs.asked.fetch_add(1, Ordering::SeqCst);
                    }
                    place = place.after(byte);
                    // The server has ended: the loop does, too.
                    let _ = sender.send(byte);
                }
            }
            Some((_, Err(error)))
                if [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted].contains(&error.kind()) => {}
            Some(_) => {
                signs.gone.store(true, Ordering::SeqCst);
                interrupt.abandon();
                // What has arrived is still answered; then the server sees the end.
                sender = None;
            }
        }
        if signs.runs.load(Ordering::SeqCst) && signs.is_asked() {
            interrupt.interrupt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_one_only_between_packets() {
        let interrupts = |bytes: &[u8]| {
            let mut place = Place::Between;
            let mut found = 0;
            for &byte in bytes {
                found += usize::from(place == Place::Between && byte == INTERRUPT);
                place = place.after(byte);
            }
            found
        };
        assert_eq!(interrupts(b"\x03"), 1);
        assert_eq!(interrupts(b"$X0,1:\x03#00\x03+\x03"), 2);
        assert_eq!(interrupts(b"$c#63$X\x03#\x03\x03\x03"), 1);
    }
}
