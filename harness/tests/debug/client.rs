// SPDX-License-Identifier: MIT OR Apache-2.0
//! GDB's side of the protocol, as far as these tests need it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// A client that acknowledges nothing.
pub(crate) struct Client {
    stream: UnixStream,
    /// Console text received so far.
    pub(crate) shown: String,
}

impl Client {
    pub(crate) fn new(address: &str) -> Client {
        let stream = UnixStream::connect(address).unwrap();
        // A silent server fails the test instead of blocking it.
        stream.set_read_timeout(Some(std::time::Duration::from_secs(120))).unwrap();
        Client { stream, shown: String::new() }
    }

    /// Connects and does GDB's opening exchange.
    pub(crate) fn greeted(address: &str) -> Client {
        let mut client = Client::new(address);
        let features = client.ask("qSupported:multiprocess+;swbreak+;hwbreak+;vContSupported+");
        for wanted in ["ReverseStep+", "ReverseContinue+", "swbreak+", "hwbreak+", "qXfer:features:read+"] {
            assert!(features.split(';').any(|feature| feature == wanted), "{features}");
        }
        // GDB discards stale answers only before an acknowledgement, so the server must not switch them off.
        assert!(!features.contains("QStartNoAckMode+"), "{features}");
        assert_eq!(client.ask("Hgp1.1"), "OK");
        assert_eq!(client.ask("Hc0"), "OK");
        client
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends bytes that the server may stop reading.
    pub(crate) fn try_raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    pub(crate) fn send(&mut self, body: &str) {
        let sum = body.bytes().fold(0u8, |sum, byte| sum.wrapping_add(byte));
        self.raw(format!("${body}#{sum:02x}").as_bytes());
    }

    /// Sends a request and returns its answer.
    pub(crate) fn ask(&mut self, body: &str) -> String {
        self.send(body);
        self.answer()
    }

    /// Receives the next packet that is not console output.
    pub(crate) fn answer(&mut self) -> String {
        loop {
            let packet = self.packet().expect("the server has gone");
            match packet.strip_prefix('O') {
                Some(text) if packet != "OK" => self.shown.push_str(&String::from_utf8(bytes(text)).unwrap()),
                _ => return packet,
            }
        }
    }

    /// Receives a packet of console output and returns its text.
    pub(crate) fn shows(&mut self) -> String {
        let packet = self.packet().expect("the server has gone");
        String::from_utf8(bytes(packet.strip_prefix('O').unwrap_or_else(|| panic!("{packet}")))).unwrap()
    }

    /// Receives one byte; None: the server has closed the connection.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let mut byte = [0];
        (self.stream.read(&mut byte).unwrap_or(0) == 1).then_some(byte[0])
    }

    /// Receives one packet; None: the server has closed the connection.
    pub(crate) fn packet(&mut self) -> Option<String> {
        while self.byte()? != b'$' {}
        let mut body = Vec::new();
        loop {
            match self.byte()? {
                b'#' => break,
                // Run-length encoding: repeat the last byte `count` more times.
                b'*' => {
                    let count = self.byte()? - 29;
                    let last = *body.last().unwrap();
                    body.extend(std::iter::repeat_n(last, count.into()));
                }
                byte => body.push(byte),
            }
        }
        self.byte()?;
        self.byte()?;
        Some(String::from_utf8(body).unwrap())
    }
}

/// Decodes hexadecimal.
pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// Encodes text in hexadecimal.
pub(crate) fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs commands by GDB's machine interface (MI) and returns its output. Each command is given once the one before is
/// done and the run is held; an interrupt is given while the run executes.
pub(crate) fn mi(program: &str, elf: &std::path::Path, commands: &str) -> String {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    let mut gdb = Command::new(program);
    gdb.args(["-nx", "-quiet", "--interpreter=mi3"]).arg(elf).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut gdb = gdb.spawn().unwrap();
    let mut input = gdb.stdin.take().unwrap();
    let mut lines = BufReader::new(gdb.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut text = String::new();
    let mut is_held = true;
    let mut commands = commands.lines().peekable();
    while let Some(command) = commands.next() {
        writeln!(input, "{command}").unwrap();
        let mut is_answered = false;
        let is_awaited = commands.peek() != Some(&"-exec-interrupt");
        while !is_answered || (is_awaited && !is_held) {
            let Some(line) = lines.next() else { break };
            is_answered |= line.starts_with('^');
            is_held = (is_held && !line.starts_with("^running")) || line.starts_with("*stopped");
            text.push_str(&line);
            text.push('\n');
        }
    }
    drop(input);
    gdb.wait().unwrap();
    text
}
