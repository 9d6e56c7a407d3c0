// SPDX-License-Identifier: MIT OR Apache-2.0
//! A chip's CAN controller, as rules of its registers, and frames on its bus.
//!
//! A frame is written as `candump` writes it: `123#11223344`, `01234567#` with an extended identifier, `123#R4` for a
//! remote frame.

use std::fmt;

use crate::chip::{Factor, Field, Setting};
use crate::record::record;

/// Most bytes of a frame's data.
pub const MAX_DATA_BYTES: u32 = 8;

/// Largest standard identifier.
pub const MAX_STANDARD: u32 = (1 << 11) - 1;

/// Largest extended identifier.
pub const MAX_EXTENDED: u32 = (1 << 29) - 1;

/// Most mailboxes, and most queues, of a controller.
pub const MAX_MAILBOXES: usize = 32;

/// Most frames in a queue.
pub const MAX_DEPTH: u32 = 64;

/// Most banks of filters.
pub const MAX_BANKS: usize = 32;

/// Digits of an extended identifier.
const EXTENDED_DIGITS: usize = 8;

record! {
    /// A frame.
    #[derive(Copy, Default)]
    pub struct Frame {
        /// Identifier.
        id: u32,
        /// Whether the identifier is extended, of 29 bits instead of 11.
        is_extended: bool,
        /// Whether the frame asks for another one: then it has no data.
        is_remote: bool,
        /// Number of bytes of data, or of those that are asked for.
        length: u32,
        /// The data, the first byte lowest.
        data: u64,
    }
}

impl Frame {
    /// Reads a frame. None: the text is not one.
    pub fn parse(text: &str) -> Option<Frame> {
        let (id, rest) = text.split_once('#')?;
        let is_extended = id.len() == EXTENDED_DIGITS;
        let is_hex = |text: &str| text.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !is_hex(id) || !is_extended && !(1..=3).contains(&id.len()) {
            return None;
        }
        let id = u32::from_str_radix(id, 16).ok()?;
        let mut frame = Frame { id, is_extended, ..Frame::default() };
        if let Some(length) = rest.strip_prefix('R') {
            frame.is_remote = true;
            frame.length = if length.is_empty() { 0 } else { length.parse().ok().filter(|_| is_hex(length))? };
        } else {
            if !is_hex(rest) || !rest.len().is_multiple_of(2) {
                return None;
            }
            frame.length = u32::try_from(rest.len() / 2).ok()?;
            for at in 0..rest.len().min(2 * MAX_DATA_BYTES as usize) / 2 {
                let byte = u64::from_str_radix(&rest[2 * at..2 * at + 2], 16).ok()?;
                frame.data |= byte << (8 * at);
            }
        }
        frame.is_sound().then_some(frame)
    }

    /// Whether the frame can be on a bus.
    pub fn is_sound(&self) -> bool {
        let most = if self.is_extended { MAX_EXTENDED } else { MAX_STANDARD };
        self.id <= most && self.length <= MAX_DATA_BYTES && self.data == self.data & self.data_mask()
    }

    /// Mask of the bytes that the frame has.
    pub fn data_mask(&self) -> u64 {
        let bytes = if self.is_remote { 0 } else { self.length.min(MAX_DATA_BYTES) };
        u64::MAX.checked_shr(64 - 8 * bytes).unwrap_or(0)
    }

    /// Number of bits on the bus up to the next frame, without stuff bits.
    pub fn bits(&self) -> u64 {
        let overhead = if self.is_extended { 67 } else { 47 };
        overhead + u64::from(self.data_mask().count_ones())
    }

    /// Rank when several frames begin at once: the lowest one is sent.
    pub fn rank(&self) -> u32 {
        // The bits in the order in which they are sent: a standard frame wins against an extended one with the same first 11
        // bits, and a frame with data against a remote one.
        let [extended, remote] = [self.is_extended, self.is_remote].map(u32::from);
        if self.is_extended {
            let (first, rest) = (self.id >> 18, self.id & 0x3_ffff);
            first << 21 | 1 << 20 | extended << 19 | rest << 1 | remote
        } else {
            self.id << 21 | remote << 20
        }
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_extended {
            write!(f, "{:08X}#", self.id)?;
        } else {
            write!(f, "{:03X}#", self.id)?;
        }
        if self.is_remote {
            return if self.length == 0 { f.write_str("R") } else { write!(f, "R{}", self.length) };
        }
        let bytes = self.data.to_le_bytes();
        bytes.iter().take(self.length as usize).try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

record! {
    /// A CAN controller.
    #[derive(Default)]
    pub struct Can {
        /// Settings under which it takes part in the bus.
        when: Vec<Setting>,
        /// Settings under which it receives what it sends, and nothing else; empty: it never does.
        loops: Vec<Setting>,
        /// Settings under which nothing that it sends reaches the others; empty: everything does.
        silent: Vec<Setting>,
        /// Settings under which its mailboxes are sent in the order of their requests; otherwise by their identifiers.
        in_order: Vec<Setting>,
        /// Bit that takes back all requests and empties the queues when 1 is written.
        resets: Option<Field>,
        /// Settings under which it sleeps; empty: it never does.
        asleep: Vec<Setting>,
        /// Settings applied where it sleeps and somebody else sends.
        woken: Vec<Setting>,
        /// Settings applied at each frame of somebody else's.
        received: Vec<Setting>,
        /// Clock of which its bits are made.
        clock: u32,
        /// Divisors of the clock: their product makes a quantum of a bit.
        divide: Vec<Factor>,
        /// Numbers of quanta whose sum, plus 1, makes a bit.
        segments: Vec<Factor>,
        /// Field with the number of the first mailbox that is free, or else of the one that is sent last.
        free: Option<Field>,
        /// Frames to be sent.
        mailboxes: Vec<Mailbox>,
        /// Received frames.
        queues: Vec<Queue>,
        /// Filters of received frames; None: the first queue gets all of them.
        filters: Option<Filters>,
    }
}

record! {
    /// Fields with a frame.
    #[derive(Default)]
    pub struct FrameAt {
        /// Standard identifier.
        standard: Field,
        /// Extended identifier.
        extended: Field,
        /// Whether the identifier is extended.
        is_extended: Field,
        /// Whether it is a remote frame.
        remote: Field,
        /// Number of bytes.
        length: Field,
        /// Four bytes of data each, the first one lowest.
        data: Vec<Field>,
    }
}

record! {
    /// A frame to be sent.
    #[derive(Default)]
    pub struct Mailbox {
        /// Bit that asks for it to be sent when 1 is written.
        request: Field,
        /// Its frame.
        frame: FrameAt,
        /// Settings applied at the request.
        begin: Vec<Setting>,
        /// Settings applied once it is sent.
        sent: Vec<Setting>,
        /// Bit that withdraws the request when 1 is written. It is 1 while the frame is on the bus, from which nothing takes it.
        abort: Option<Field>,
        /// Settings applied at its withdrawal.
        aborted: Vec<Setting>,
        /// Field that is 1 while the mailbox is, of several that wait, the one that is sent last.
        last: Option<Field>,
    }
}

record! {
    /// A queue of received frames.
    #[derive(Default)]
    pub struct Queue {
        /// The first frame.
        frame: FrameAt,
        /// Number of the filter that took it.
        filter: Option<Field>,
        /// Number of frames in the queue.
        level: Field,
        /// Most frames in the queue.
        depth: u32,
        /// Bit that removes the first frame when 1 is written.
        release: Field,
        /// Settings applied when the queue becomes full.
        full: Vec<Setting>,
        /// Settings under which a frame that finds no room is lost; otherwise it takes the place of the last one.
        keeps: Vec<Setting>,
        /// Settings applied when a frame is lost.
        lost: Vec<Setting>,
    }
}

record! {
    /// Banks of filters, of two words each: identifiers, or identifiers and masks, of 32 or 16 bits.
    #[derive(Default)]
    pub struct Filters {
        /// Block with these registers, by its index in the chip.
        block: u32,
        /// Settings of that block under which no frame is received.
        off: Vec<Setting>,
        /// Register with a bit for each bank: whether it is active.
        active: u32,
        /// Register with a bit for each bank: whether it holds identifiers alone.
        list: u32,
        /// Register with a bit for each bank: whether its words have 32 bits.
        wide: u32,
        /// Register with a bit for each bank: whether its frames go to the second queue.
        queue: u32,
        /// Registers with the banks' words, two for each bank.
        words: Vec<u32>,
        /// Field with the number of the second controller's first bank; None: there is one controller.
        split: Option<Field>,
        /// Whether the controller is the second one.
        is_second: bool,
    }
}

record! {
    /// An answer of somebody else on the bus to a frame that the chip sends.
    #[derive(Default)]
    pub struct CanAnswer {
        /// The frame that is answered, whose data begin with these.
        to: Frame,
        /// The answer.
        with: Frame,
        /// Nanoseconds from the end of that frame to the answer.
        after_ns: u64,
    }
}

impl CanAnswer {
    /// Whether a frame is answered: it has the identifier, and begins with the data.
    pub fn is_to(&self, frame: &Frame) -> bool {
        let head = |frame: &Frame| (frame.id, frame.is_extended, frame.is_remote);
        head(&self.to) == head(frame)
            && self.to.length <= frame.length
            && frame.data & self.to.data_mask() == self.to.data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Frame {
        Frame::parse(text).unwrap()
    }

    #[test]
    fn frames_are_read_as_candump_writes_them_and_written_back() {
        for text in ["123#1122334455667788", "000#", "7FF#AA", "00000123#00", "1FFFFFFF#", "123#R", "123#R4"] {
            assert_eq!(frame(text).to_string(), text);
        }
        let wanted = Frame { id: 0x12, is_extended: false, is_remote: false, length: 2, data: 0x2211 };
        assert_eq!(frame("12#1122"), wanted);
        for text in [
            "",
            "123",
            "#11",
            "800#",
            "20000000#",
            "123#1",
            "123#112233445566778899",
            "123#R9",
            "123#R+1",
            "1234#",
            "12x#",
            "+12#",
            "123#+1",
        ] {
            assert_eq!(Frame::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_frame_takes_its_bits_and_the_lowest_one_goes_first() {
        assert_eq!((frame("123#").bits(), frame("123#1122").bits(), frame("00000123#11").bits()), (47, 63, 75));
        assert_eq!(frame("123#R8").bits(), 47);
        // 0x123 is also how the extended identifier begins.
        let order = ["122#", "122#R", "123#11", "123#R", "048C0000#", "048C0000#R", "048C0001#", "124#"];
        let ranks: Vec<u32> = order.iter().map(|text| frame(text).rank()).collect();
        assert!(ranks.is_sorted(), "{ranks:x?}");
    }

    #[test]
    fn an_answer_is_to_what_begins_as_it_says() {
        let answer = CanAnswer { to: frame("123#01"), with: frame("321#"), after_ns: 0 };
        assert!(["123#01", "123#0102"].iter().all(|text| answer.is_to(&frame(text))));
        assert!(!["123#", "123#02", "124#01", "00000123#01", "123#R1"].iter().any(|text| answer.is_to(&frame(text))));
    }
}
