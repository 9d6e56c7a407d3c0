// SPDX-License-Identifier: MIT OR Apache-2.0
//! The firmware's standard error on a terminal: those bytes of the console are shown in red. The plugin writes their
//! ranges to a file before they are printed ([`wire::errors`]).

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use wire::errors::{FILE_ENDING, RANGE_BYTES, Range};

/// Sequences that switch to red, and back to the default colour (ECMA-48 8.3.117).
const RED: &[u8] = b"\x1b[31m";
const NOT_RED: &[u8] = b"\x1b[39m";

/// Writer that passes on the console from its first byte, with standard error in red.
#[derive(Debug)]
pub struct Reddened<W: Write> {
    out: W,
    ranges: File,
    /// Beginning of a range whose end has not been read.
    begun: Vec<u8>,
    /// Ranges whose end has not been passed on yet, in order.
    ahead: std::collections::VecDeque<Range>,
    /// Bytes of the console that have been passed on.
    passed_bytes: u64,
    is_red: bool,
}

/// File with the ranges of standard error in a console's file.
fn ranges_of(console: &Path) -> PathBuf {
    console.with_extension(&FILE_ENDING[1..])
}

impl<W: Write> Reddened<W> {
    /// Creates the file of ranges, which makes the plugin write them, for a console that will be passed on to `out`.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn begin(console: &Path, out: W) -> io::Result<Reddened<W>> {
        let path = ranges_of(console);
        let ranges = File::create_new(&path).and_then(|_| File::open(&path))?;
        Ok(Reddened { out, ranges, begun: Vec::new(), ahead: Default::default(), passed_bytes: 0, is_red: false })
    }

    /// Passes on bytes of one colour.
    fn pass(&mut self, bytes: &[u8], is_red: bool) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if is_red != self.is_red {
            self.out.write_all(if is_red { RED } else { NOT_RED })?;
            self.is_red = is_red;
        }
        self.passed_bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

impl<W: Write> Write for Reddened<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The ranges of all printed bytes have been written by now.
        self.ranges.read_to_end(&mut self.begun)?;
        self.ahead.extend(Range::read(&self.begun));
        self.begun.drain(..self.begun.len() / RANGE_BYTES * RANGE_BYTES);
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = self.passed_bytes;
            let split = |end: u64| rest.split_at(usize::try_from(end - at).unwrap_or(usize::MAX).min(rest.len()));
            let (part, is_red, after) = match self.ahead.front() {
                Some(range) if range.begin.saturating_add(range.bytes) <= at => {
                    self.ahead.pop_front();
                    continue;
                }
                Some(range) if range.begin <= at => {
                    let (part, after) = split(range.begin.saturating_add(range.bytes));
                    (part, true, after)
                }
                Some(range) => {
                    let (part, after) = split(range.begin);
                    (part, false, after)
                }
                None => (rest, false, &[][..]),
            };
            self.pass(part, is_red)?;
            rest = after;
        }
        // Red is not left on while nothing is printed, since other programs may print on the terminal.
        if self.is_red {
            self.out.write_all(NOT_RED)?;
            self.is_red = false;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn ranges_are_red_however_the_bytes_come() {
        let temp = tempfile::tempdir().unwrap();
        let ranges = [(3, 4), (7, 2), (20, 5)].map(|(begin, bytes)| Range { begin, bytes }.to_bytes()).concat();
        for at_a_time in [1, 2, 5, 100] {
            let console = temp.path().join(format!("{at_a_time}.log"));
            let mut out = Vec::new();
            let mut reddened = Reddened::begin(&console, &mut out).unwrap();
            fs::write(ranges_of(&console), [&ranges[..], &[9, 9]].concat()).unwrap();
            b"outERR+ERmore out..+".chunks(at_a_time).for_each(|chunk| reddened.write_all(chunk).unwrap());
            let shown = String::from_utf8(out).unwrap();
            // The colour ends and begins again between pieces.
            let joined = shown.replace("\x1b[39m\x1b[31m", "");
            assert_eq!(joined, "out\x1b[31mERR+ER\x1b[39mmore out..+", "by {at_a_time}");
        }
    }

    #[test]
    fn a_range_that_comes_later_is_found() {
        let temp = tempfile::tempdir().unwrap();
        let console = temp.path().join("console.log");
        let mut out = Vec::new();
        let mut reddened = Reddened::begin(&console, &mut out).unwrap();
        reddened.write_all(b"one ").unwrap();
        let mut file = File::options().append(true).open(ranges_of(&console)).unwrap();
        let range = Range { begin: 4, bytes: 3 }.to_bytes();
        file.write_all(&range[..9]).unwrap();
        file.write_all(&range[9..]).unwrap();
        reddened.write_all(b"two three").unwrap();
        assert_eq!(out, b"one \x1b[31mtwo\x1b[39m three");
    }
}
