// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection to a debugger. A thread of its own reads the connection: data that arrives while the run executes
//! is a request to hold the run, and a client that disconnects must not leave the run executing.
//!
//! Packets are acknowledged, although a socket loses no packet, because of one case: Ctrl-C in GDB during a `monitor`
//! command makes GDB abandon the answer. GDB discards only packets that come before the acknowledgement of its next
//! request. A request is acknowledged at once, since GDB repeats it after two seconds. Without an answer for two
//! seconds GDB sends a `-`, which asks for the last packet again. The server ignores the `-`: nothing was lost, and
//! GDB would take a repeated answer for the answer to its next request.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gdbstub::conn::Connection;

use crate::debug::packet::{error_packet, packet};
use crate::debug::socket::{Client, FAREWELL, Greeted};
use crate::debug::travel::Interrupt;

/// Interval at which a request to hold the run is repeated, since the first one may have come before the run
/// executed.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Interval of progress messages on GDB's console: less than a second, even on a busy machine.
const SIGN_OF_LIFE: Duration = Duration::from_millis(750);

/// Longest packet that is buffered until it is complete, in bytes.
const MAX_PACKET_BYTES: usize = 1 << 20;

/// Byte that GDB sends for Ctrl-C, outside of packets.
const INTERRUPT: u8 = 3;

/// Acknowledgement of a packet; outside of packets.
const ACKNOWLEDGED: u8 = b'+';

/// Request to repeat the last packet; outside of packets.
const AGAIN: u8 = b'-';

/// State that the threads of a connection share.
#[derive(Debug)]
pub(super) struct Signs {
    /// The client, for writing.
    client: Mutex<Client>,
    /// Number of interrupts that have arrived.
    asked: AtomicU64,
    /// Number of these interrupts that the server has reached in its input.
    taken: AtomicU64,
    /// Whether the client has disconnected.
    gone: AtomicBool,
    /// Whether the run executes.
    runs: AtomicBool,
    /// Whether the server has ended.
    over: AtomicBool,
    /// Whether a `monitor` command is working.
    works: AtomicBool,
    /// Whether the client has sent another packet meanwhile, and so no longer waits for the answer.
    is_overtaken: AtomicBool,
    /// Number of packets acknowledged.
    acknowledged: AtomicU64,
    /// Text to be sent in place of the next error's number.
    reason: Mutex<Option<String>>,
}

impl Signs {
    fn of(client: Client) -> Signs {
        Signs {
            client: Mutex::new(client),
            asked: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            gone: AtomicBool::new(false),
            runs: AtomicBool::new(false),
            over: AtomicBool::new(false),
            works: AtomicBool::new(false),
            is_overtaken: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
            reason: Mutex::new(None),
        }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).write_all(bytes)
    }

    /// Shows text on the debugger's console. GDB accepts it only while it waits for a stop or for a command's answer.
    pub(super) fn show(&self, text: &str) -> io::Result<()> {
        let mut body = String::from("O");
        text.bytes().for_each(|byte| body.push_str(&format!("{byte:02x}")));
        self.send(packet(&body).as_bytes())
    }

    /// Whether the run is to be held: an interrupt has arrived that the server has not taken. Interrupts before the
    /// current command have been taken.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst) > self.taken.load(Ordering::SeqCst)
            || self.is_overtaken.load(Ordering::SeqCst)
            || self.is_gone()
    }

    /// Notes that the server has reached an interrupt.
    pub(super) fn take(&self) {
        self.taken.fetch_add(1, Ordering::SeqCst);
    }

    /// Sets the text of the error that is about to be answered.
    pub(super) fn explain(&self, reason: String) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    fn take_reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether the client has disconnected.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Marks the run as executing for the lifetime of the result.
    pub(super) fn running(self: &Arc<Signs>) -> Running {
        self.runs.store(true, Ordering::SeqCst);
        Running(Arc::clone(self))
    }

    /// Runs a `monitor` command. Meanwhile the console shows its progress, from `state`.
    pub(super) fn working<T>(
        self: &Arc<Signs>,
        state: impl Fn(Duration) -> String + Send,
        work: impl FnOnce() -> T,
    ) -> T {
        let _running = self.running();
        self.works.store(true, Ordering::SeqCst);
        let _works = Working(self);
        let since = Instant::now();
        std::thread::scope(|scope| {
            let (end, ended) = mpsc::channel::<()>();
            scope.spawn(move || {
                while ended.recv_timeout(SIGN_OF_LIFE) == Err(RecvTimeoutError::Timeout) {
                    // The thread that reads the client notices if it has disconnected.
                    let _ = self.show(&state(since.elapsed()));
                }
            });
            let done = work();
            drop(end);
            done
        })
    }
}

/// Marks the run as executing.
#[derive(Debug)]
pub(super) struct Running(Arc<Signs>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.runs.store(false, Ordering::SeqCst);
    }
}

/// Marks a `monitor` command as working.
struct Working<'a>(&'a Signs);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.works.store(false, Ordering::SeqCst);
        self.0.is_overtaken.store(false, Ordering::SeqCst);
    }
}

/// The connection.
pub(super) struct Link {
    /// The client, for disconnecting it.
    client: Client,
    signs: Arc<Signs>,
    bytes: Receiver<u8>,
    /// Bytes for the next flush.
    out: Vec<u8>,
    reader: Option<JoinHandle<()>>,
}

impl Link {
    /// Takes a client with its first bytes, and reads it until it disconnects or is dismissed.
    pub(super) fn new(
        Greeted { client, said }: Greeted,
        interrupt: Arc<dyn Interrupt>,
        ends: Option<&'static AtomicU32>,
    ) -> io::Result<Link> {
        let signs = Arc::new(Signs::of(client.try_clone()?));
        let (sender, bytes) = mpsc::channel();
        let reading = client.try_clone()?;
        reading.set_read_timeout(Some(ASK_AGAIN))?;
        let mut reader = Reader {
            client: reading,
            signs: Arc::clone(&signs),
            packets: Packets::default(),
            passed_on: 0,
            last: Vec::new(),
            sender: Some(sender),
        };
        reader.take(&said);
        let reader = std::thread::spawn(move || reader.read(&*interrupt, ends));
        Ok(Link { client, signs, bytes, out: Vec::new(), reader: Some(reader) })
    }

    /// State that the threads of the connection share.
    pub(super) fn signs(&self) -> Arc<Signs> {
        Arc::clone(&self.signs)
    }

    /// Waits until a client that is leaving has acknowledged the answer.
    pub(super) fn part(&self) {
        let since = Instant::now();
        while !self.signs.is_gone() && since.elapsed() < FAREWELL {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The next byte; None: the client has disconnected.
    pub(super) fn next(&self) -> Option<u8> {
        self.bytes.recv().ok()
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

/// Packet that `gdbstub` sends for a refusal without a number of its own.
const REFUSED: &[u8] = b"$E79#b5";

impl Connection for Link {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.out.push(byte);
        if self.out == [ACKNOWLEDGED] {
            self.signs.acknowledged.fetch_add(1, Ordering::SeqCst);
            // The answer may take long, so the acknowledgement is sent now.
            return self.flush();
        }
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
        self.signs.send(&out)
    }
}

/// Position within the stream of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PacketPart {
    #[default]
    Between,
    Body,
    /// This many bytes of the checksum are still to come.
    Checksum(u8),
}

impl PacketPart {
    fn after(self, byte: u8) -> PacketPart {
        match (self, byte) {
            (PacketPart::Between, b'$') => PacketPart::Body,
            (PacketPart::Between, _) | (PacketPart::Checksum(..=1), _) => PacketPart::Between,
            (PacketPart::Body, b'#') => PacketPart::Checksum(2),
            (PacketPart::Body, _) => PacketPart::Body,
            (PacketPart::Checksum(left), _) => PacketPart::Checksum(left - 1),
        }
    }
}

/// A part of a client's stream.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// Ctrl-C.
    Interrupt,
    /// A packet has begun.
    Begun,
    /// A complete packet, or one that is too long to be buffered.
    Packet(Vec<u8>),
    /// A byte between packets.
    Byte(u8),
}

/// Splits a client's stream into parts.
#[derive(Debug, Default)]
struct Packets {
    place: PacketPart,
    packet: Vec<u8>,
}

impl Packets {
    fn take(&mut self, byte: u8) -> Option<Part> {
        let before = self.place;
        self.place = before.after(byte);
        match (before, self.place) {
            (PacketPart::Between, PacketPart::Between) if byte == INTERRUPT => return Some(Part::Interrupt),
            (PacketPart::Between, PacketPart::Between) => return (byte != AGAIN).then_some(Part::Byte(byte)),
            _ => self.packet.push(byte),
        }
        let is_whole = self.place == PacketPart::Between || self.packet.len() >= MAX_PACKET_BYTES;
        if is_whole {
            return Some(Part::Packet(std::mem::take(&mut self.packet)));
        }
        (before == PacketPart::Between).then_some(Part::Begun)
    }
}

/// Reads a client, in a thread of its own.
struct Reader {
    client: Client,
    signs: Arc<Signs>,
    packets: Packets,
    /// Number of packets passed on, and the last of them.
    passed_on: u64,
    last: Vec<u8>,
    /// Channel to the server. None: the client has disconnected.
    sender: Option<Sender<u8>>,
}

impl Reader {
    /// Handles received bytes.
    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match self.packets.take(byte) {
                Some(Part::Interrupt) => {
                    self.signs.asked.fetch_add(1, Ordering::SeqCst);
                    self.pass_on(&[INTERRUPT]);
                }
                Some(Part::Begun) if self.signs.works.load(Ordering::SeqCst) => {
                    self.signs.is_overtaken.store(true, Ordering::SeqCst);
                }
                Some(Part::Byte(byte)) => self.pass_on(&[byte]),
                // The client repeats a packet that is not acknowledged yet, since it has waited for too long.
                Some(Part::Packet(packet)) if packet == self.last && self.is_awaited() => {}
                Some(Part::Packet(packet)) => {
                    self.pass_on(&packet);
                    self.passed_on += 1;
                    self.last = packet;
                }
                Some(Part::Begun) | None => {}
            }
        }
    }

    /// Whether the last packet is not yet acknowledged.
    fn is_awaited(&self) -> bool {
        self.signs.acknowledged.load(Ordering::SeqCst) < self.passed_on
    }

    fn pass_on(&self, bytes: &[u8]) {
        if let Some(sender) = &self.sender {
            // If the server has ended, the loop ends, too.
            let _ = bytes.iter().try_for_each(|&byte| sender.send(byte));
        }
    }

    /// Reads the client until it disconnects or the server has ended, and passes its interrupts on to the run.
    fn read(mut self, interrupt: &dyn Interrupt, ends: Option<&AtomicU32>) {
        let mut bytes = [0; 4096];
        while !self.signs.over.load(Ordering::SeqCst) {
            if self.sender.is_none() {
                std::thread::sleep(ASK_AGAIN);
            } else {
                if ends.is_some_and(|ends| ends.load(Ordering::Relaxed) > 0) {
                    // The next read finds that the server has ended.
                    self.client.shutdown(Shutdown::Both);
                }
                match self.client.read(&mut bytes) {
                    Ok(count) if count > 0 => self.take(&bytes[..count]),
                    Err(error)
                        if [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted]
                            .contains(&error.kind()) => {}
                    _ => {
                        self.signs.gone.store(true, Ordering::SeqCst);
                        interrupt.abandon();
                        // The server still answers the received requests, and then sees the end.
                        self.sender = None;
                    }
                }
            }
            if self.signs.runs.load(Ordering::SeqCst) && self.signs.is_asked() {
                interrupt.interrupt();
                if self.signs.works.load(Ordering::SeqCst) {
                    interrupt.abandon();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(bytes: &[u8]) -> Vec<Part> {
        let mut packets = Packets::default();
        bytes.iter().filter_map(|&byte| packets.take(byte)).collect()
    }

    #[test]
    fn an_interrupt_is_one_only_between_packets() {
        let interrupts = |bytes: &[u8]| parts(bytes).into_iter().filter(|part| *part == Part::Interrupt).count();
        assert_eq!(interrupts(b"\x03"), 1);
        assert_eq!(interrupts(b"$X0,1:\x03#00\x03+\x03"), 2);
        assert_eq!(interrupts(b"$c#63$X\x03#\x03\x03\x03"), 1);
    }

    #[test]
    fn a_packet_is_asked_for_again_only_between_packets() {
        assert_eq!(parts(b"-+--"), [Part::Byte(b'+')]);
        assert_eq!(parts(b"-$m-#--"), [Part::Begun, Part::Packet(b"$m-#--".to_vec())]);
    }

    #[test]
    fn a_packet_that_does_not_end_is_passed_on_in_pieces() {
        let long = [&b"$"[..], &vec![b'0'; 2 * MAX_PACKET_BYTES]].concat();
        let pieces = parts(&long).into_iter().filter(|part| matches!(part, Part::Packet(_)));
        assert_eq!(pieces.count(), 2);
    }
}
