// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts outside of the chip, on its buses: registers that a pointer chooses, memories that are written by pages, SPI flash
//! with JEDEC's commands, calendars.

use wire::chip::{BusDevice, FLASH_PAGE_BYTES};

use crate::NS_PER_S;

/// Answer of a part that has no byte: nothing drives the line.
const NOTHING: u8 = 0xff;

/// Commands of an SPI flash (JEDEC's common ones).
mod command {
    pub(super) const PROGRAM: u8 = 0x02;
    pub(super) const READ: u8 = 0x03;
    pub(super) const DISABLE_WRITES: u8 = 0x04;
    pub(super) const STATUS: u8 = 0x05;
    pub(super) const ENABLE_WRITES: u8 = 0x06;
    pub(super) const READ_FAST: u8 = 0x0b;
    pub(super) const IDENTITY: u8 = 0x9f;
    /// Commands that erase, each with its number of bytes.
    pub(super) const ERASE: [(u8, usize); 3] = [(0x20, 4 << 10), (0x52, 32 << 10), (0xd8, 64 << 10)];
    pub(super) const ERASE_ALL: [u8; 2] = [0x60, 0xc7];
}

/// Bits of an SPI flash's status.
const IS_BUSY: u8 = 1;
const MAY_WRITE: u8 = 2;

/// Number of bytes of an SPI flash's address, behind the command.
const ADDRESS_BYTES: usize = 3;

/// A part and its state.
pub(crate) struct Part {
    of: BusDevice,
    bytes: Vec<u8>,
    /// Index of the byte that comes next.
    next: usize,
    /// Number of bytes sent to the part since it was addressed or selected.
    sent: usize,
    /// First byte sent, of a part on SPI.
    command: u8,
    may_write: bool,
    busy_until_ns: u64,
    /// Time of the calendar's second.
    second_ns: u64,
}

impl Part {
    /// A part at reset.
    pub(crate) fn new(of: &BusDevice) -> Part {
        let mut bytes: Vec<u8> = of.bytes.iter().map(|&byte| byte as u8).collect();
        bytes.resize(bytes.len().max(of.size as usize), of.fill as u8);
        Part { of: of.clone(), bytes, next: 0, sent: 0, command: 0, may_write: false, busy_until_ns: 0, second_ns: 0 }
    }

    /// Changes a byte. What a calendar's register gets begins with a whole second.
    pub(crate) fn set(&mut self, at: usize, value: u8, now_ns: u64) {
        self.tick(now_ns);
        if self.of.calendar.iter().any(|&register| register as usize == at) {
            self.second_ns = now_ns;
        }
        if let Some(byte) = self.bytes.get_mut(at) {
            *byte = value;
        }
    }

    /// Whether the part is busy with what was written last.
    pub(crate) fn is_busy(&self, now_ns: u64) -> bool {
        now_ns < self.busy_until_ns
    }

    /// Begins to be addressed, or selected.
    pub(crate) fn begin(&mut self) {
        self.sent = 0;
        if self.of.pointer_bytes == 0 {
            self.next = 0;
        }
    }

    // I2C.

    /// Takes a byte that is written: of the pointer first, then the part's own bytes.
    pub(crate) fn write(&mut self, byte: u8, now_ns: u64) {
        let of_pointer = self.of.pointer_bytes as usize;
        self.sent += 1;
        if self.sent > of_pointer {
            self.store(byte, now_ns);
        } else {
            // The pointer's bytes come from the highest on.
            let before = if self.sent == 1 { 0 } else { self.next };
            self.next = before << 8 | usize::from(byte);
            if self.sent == of_pointer {
                self.next = self.wrapped(self.next.saturating_mul(self.of.register_bytes.max(1) as usize));
            }
        }
    }

    /// The byte that is read next.
    pub(crate) fn offered(&mut self, now_ns: u64) -> u8 {
        self.tick(now_ns);
        self.bytes.get(self.next).copied().unwrap_or(NOTHING)
    }

    /// Goes on behind the byte that was read.
    pub(crate) fn take(&mut self) {
        self.next = self.wrapped(self.next + 1);
    }

    /// Index of a byte, in a memory: it begins again at its end.
    fn wrapped(&self, next: usize) -> usize {
        if self.of.page_bytes == 0 { next } else { next % self.bytes.len().max(1) }
    }

    /// Writes the next byte. Behind the last byte of a page comes its first.
    fn store(&mut self, byte: u8, now_ns: u64) {
        self.set(self.next, byte, now_ns);
        let page = self.of.page_bytes as usize;
        let next = self.next + 1;
        self.next = if page != 0 && next.is_multiple_of(page) { next - page } else { next };
        self.busy_until_ns = now_ns.saturating_add(self.of.busy_ns);
    }

    // SPI.

    /// Exchanges a byte.
    pub(crate) fn exchange(&mut self, byte: u8, now_ns: u64) -> u8 {
        let index = self.sent;
        self.sent += 1;
        if index == 0 {
            self.command = byte;
        }
        if !self.of.identity.is_empty() {
            return self.exchange_with_flash(index, byte, now_ns);
        }
        if self.of.pointer_bytes == 0 {
            let answer = self.offered(now_ns);
            self.next += 1;
            return answer;
        }
        if index == 0 {
            self.next = usize::from(byte & 0x7f).saturating_mul(self.of.register_bytes.max(1) as usize);
            return NOTHING;
        }
        if self.command & 0x80 == 0 {
            self.store(byte, now_ns);
            return NOTHING;
        }
        let answer = self.offered(now_ns);
        self.take();
        answer
    }

    /// Exchanges a byte with an SPI flash, by its index since the flash was selected.
    fn exchange_with_flash(&mut self, index: usize, byte: u8, now_ns: u64) -> u8 {
        if self.is_busy(now_ns) && self.command != command::STATUS {
            return NOTHING;
        }
        if (1..=ADDRESS_BYTES).contains(&index) {
            let before = if index == 1 { 0 } else { self.next };
            self.next = before << 8 | usize::from(byte);
        }
        let is_addressed = index == ADDRESS_BYTES;
        if is_addressed {
            self.next %= self.bytes.len().max(1);
        }
        match self.command {
            command::IDENTITY if index > 0 => {
                return self.of.identity.get(index - 1).map_or(NOTHING, |&byte| byte as u8);
            }
            command::STATUS if index > 0 => {
                let busy = if self.is_busy(now_ns) { IS_BUSY } else { 0 };
                return busy | if self.may_write { MAY_WRITE } else { 0 };
            }
            command::ENABLE_WRITES | command::DISABLE_WRITES if index == 0 => {
                self.may_write = byte == command::ENABLE_WRITES;
            }
            command::READ | command::READ_FAST
                if index > ADDRESS_BYTES + usize::from(self.command == command::READ_FAST) =>
            {
                let answer = self.bytes.get(self.next).copied().unwrap_or(NOTHING);
                self.next = (self.next + 1) % self.bytes.len().max(1);
                return answer;
            }
            command::PROGRAM if index > ADDRESS_BYTES && self.may_write => {
                if let Some(old) = self.bytes.get_mut(self.next) {
                    *old &= byte;
                }
                let page = FLASH_PAGE_BYTES as usize;
                self.next = self.next / page * page + (self.next + 1) % page;
            }
            erases if index == 0 && command::ERASE_ALL.contains(&erases) && self.may_write => {
                self.erase(0, self.bytes.len(), now_ns);
            }
            erases if is_addressed && self.may_write => {
                if let Some((_, bytes)) = command::ERASE.iter().find(|(erase, _)| *erase == erases) {
                    self.erase(self.next / bytes * bytes, *bytes, now_ns);
                }
            }
            _ => {}
        }
        NOTHING
    }

    fn erase(&mut self, start: usize, bytes: usize, now_ns: u64) {
        let end = (start + bytes).min(self.bytes.len());
        if let Some(erased) = self.bytes.get_mut(start..end) {
            erased.fill(0xff);
        }
        self.finish(now_ns);
    }

    /// Notes that a flash has been given something to write.
    fn finish(&mut self, now_ns: u64) {
        self.may_write = false;
        self.busy_until_ns = now_ns.saturating_add(self.of.busy_ns);
    }

    /// Ends to be selected.
    pub(crate) fn end(&mut self, now_ns: u64) {
        if self.may_write && self.command == command::PROGRAM && self.sent > ADDRESS_BYTES + 1 {
            self.finish(now_ns);
        }
    }

    // Calendar.

    /// Lets the seconds pass that have passed.
    fn tick(&mut self, now_ns: u64) {
        let &[seconds, minutes, hours, weekday, day, month, year] = &self.of.calendar[..] else { return };
        let passed = now_ns.saturating_sub(self.second_ns) / NS_PER_S as u64;
        if passed == 0 {
            return;
        }
        self.second_ns += passed * NS_PER_S as u64;
        let at = |register: u32| register as usize;
        let mut carry = passed;
        for (register, mask, count) in [(seconds, 0x7f, 60), (minutes, 0x7f, 60), (hours, 0x3f, 24)] {
            let value = self.number(at(register), mask) + carry;
            self.put_number(at(register), mask, value % count);
            carry = value / count;
        }
        for _ in 0..carry {
            let (first, last) = (u64::from(self.of.first_weekday), u64::from(self.of.first_weekday) + 6);
            let next = self.number(at(weekday), 0x07) + 1;
            self.put_number(at(weekday), 0x07, if next > last { first } else { next });
            let this_month = self.number(at(month), 0x1f);
            let next = self.number(at(day), 0x3f) + 1;
            if next <= days(this_month, self.number(at(year), 0xff)) {
                self.put_number(at(day), 0x3f, next);
                continue;
            }
            self.put_number(at(day), 0x3f, 1);
            self.put_number(at(month), 0x1f, if this_month >= 12 { 1 } else { this_month + 1 });
            if this_month >= 12 {
                self.put_number(at(year), 0xff, (self.number(at(year), 0xff) + 1) % 100);
            }
        }
    }

    /// Decimal number in some bits of a byte, four for each digit.
    fn number(&self, at: usize, mask: u8) -> u64 {
        let byte = self.bytes.get(at).copied().unwrap_or(0) & mask;
        u64::from(byte >> 4) * 10 + u64::from(byte & 0xf)
    }

    /// Replaces a decimal number; the other bits of the byte stay.
    fn put_number(&mut self, at: usize, mask: u8, number: u64) {
        if let Some(byte) = self.bytes.get_mut(at) {
            *byte = (*byte & !mask) | ((((number / 10) << 4) | (number % 10)) as u8 & mask);
        }
    }
}

/// Days of a month, of a year from 2000 on.
fn days(month: u64, year: u64) -> u64 {
    match month {
        2 if year.is_multiple_of(4) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(bytes: &[u32], change: impl FnOnce(&mut BusDevice)) -> Part {
        let mut of = BusDevice { bytes: bytes.to_vec(), pointer_bytes: 1, ..BusDevice::default() };
        change(&mut of);
        Part::new(&of)
    }

    /// Writes bytes to an addressed part.
    fn write(part: &mut Part, bytes: &[u8], now_ns: u64) {
        part.begin();
        bytes.iter().for_each(|&byte| part.write(byte, now_ns));
    }

    /// Reads bytes of an addressed part.
    fn read(part: &mut Part, count: usize, now_ns: u64) -> Vec<u8> {
        part.begin();
        let one = |_| {
            let byte = part.offered(now_ns);
            part.take();
            byte
        };
        (0..count).map(one).collect()
    }

    /// Exchanges bytes with a selected part, and ends its selection.
    fn exchange(part: &mut Part, bytes: &[u8], now_ns: u64) -> Vec<u8> {
        part.begin();
        let answers = bytes.iter().map(|&byte| part.exchange(byte, now_ns)).collect();
        part.end(now_ns);
        answers
    }

    #[test]
    fn a_memory_is_written_by_pages_and_busy_then() {
        let change = |of: &mut BusDevice| {
            (of.size, of.fill, of.pointer_bytes, of.page_bytes, of.busy_ns) = (4096, 0xff, 2, 32, 5_000);
        };
        let mut memory = part(&[7], change);
        write(&mut memory, &[0x01, 0x1e, 1, 2, 3], 100);
        assert!(memory.is_busy(5_099) && !memory.is_busy(5_100));
        write(&mut memory, &[0x01, 0x1e], 6_000);
        assert_eq!(read(&mut memory, 3, 6_000), [1, 2, 0xff], "the third byte went to the start of the page");
        write(&mut memory, &[0x01, 0x00], 6_000);
        assert_eq!(read(&mut memory, 1, 6_000), [3]);
        write(&mut memory, &[0x0f, 0xff], 6_000);
        assert_eq!(read(&mut memory, 2, 6_000), [0xff, 7], "the first byte comes behind the last");
    }

    #[test]
    fn a_pointer_chooses_registers_of_several_bytes_and_stays() {
        let mut sensor = part(&[0x19, 0x80, 0x00, 0x60], |of| of.register_bytes = 2);
        assert_eq!(read(&mut sensor, 2, 0), [0x19, 0x80]);
        write(&mut sensor, &[1], 0);
        assert_eq!(read(&mut sensor, 3, 0), [0x00, 0x60, NOTHING]);
        sensor.set(0, 0x20, 0);
        write(&mut sensor, &[0], 0);
        assert_eq!(read(&mut sensor, 1, 0), [0x20], "it changes from outside");
        let mut expander = part(&[0xa5], |of| of.pointer_bytes = 0);
        assert_eq!((read(&mut expander, 1, 0), read(&mut expander, 1, 0)), (vec![0xa5], vec![0xa5]));
        write(&mut expander, &[0x5a], 0);
        assert_eq!(read(&mut expander, 1, 0), [0x5a]);
    }

    #[test]
    fn a_part_on_spi_answers_from_the_start_or_by_its_registers() {
        let mut shifter = part(&[0x81, 0x42], |of| of.pointer_bytes = 0);
        for _ in 0..2 {
            assert_eq!(exchange(&mut shifter, &[0, 0, 0], 0), [0x81, 0x42, NOTHING]);
        }
        let mut sensor = part(&[0x33, 1, 2], |_| {});
        assert_eq!(exchange(&mut sensor, &[0x81, 0, 0], 0), [NOTHING, 1, 2]);
        assert_eq!(exchange(&mut sensor, &[0x02, 9], 0), [NOTHING, NOTHING]);
        assert_eq!(exchange(&mut sensor, &[0x82, 0], 0), [NOTHING, 9]);
    }

    #[test]
    fn an_spi_flash_is_identified_erased_programmed_and_busy() {
        let mut flash = part(&[1, 2, 3], |of| {
            (of.size, of.fill, of.busy_ns, of.identity) = (128 << 10, 0xff, 1_000, vec![0xef, 0x40, 0x11]);
        });
        assert_eq!(exchange(&mut flash, &[0x9f, 0, 0, 0, 0], 0)[1..], [0xef, 0x40, 0x11, NOTHING]);
        assert_eq!(exchange(&mut flash, &[0x03, 0, 0, 1, 0, 0, 0], 0)[4..], [2, 3, 0xff]);
        assert_eq!(exchange(&mut flash, &[0x0b, 0, 0, 1, 0, 0], 0)[5..], [2]);
        exchange(&mut flash, &[0x02, 0, 0, 0, 0], 0);
        assert_eq!(exchange(&mut flash, &[0x03, 0, 0, 0, 0], 0)[4..], [1], "writing is not enabled");
        exchange(&mut flash, &[0x06], 0);
        assert_eq!(exchange(&mut flash, &[0x05, 0], 0)[1..], [MAY_WRITE]);
        exchange(&mut flash, &[0x02, 0, 0, 0xff, 0xf0, 0xfc], 0);
        assert_eq!(exchange(&mut flash, &[0x05, 0], 999)[1..], [IS_BUSY]);
        assert_eq!(exchange(&mut flash, &[0x03, 0, 0, 0, 0], 999)[4..], [NOTHING], "it is busy");
        assert_eq!(exchange(&mut flash, &[0x03, 0, 0, 0xff, 0, 0], 1_000)[4..], [0xf0, 0xff]);
        assert_eq!(exchange(&mut flash, &[0x03, 0, 0, 0, 0], 1_000)[4..], [0], "the page's start, 1 & 0xfc");
        exchange(&mut flash, &[0x06], 1_000);
        exchange(&mut flash, &[0x20, 0, 0x0f, 0xff], 1_000);
        assert_eq!(exchange(&mut flash, &[0x03, 0, 0, 0xff, 0], 2_000)[4..], [0xff]);
        assert_eq!(exchange(&mut flash, &[0x03, 0, 0, 1, 0], 2_000)[4..], [0xff], "all of the sector is erased");
        flash.set(0x1_0000, 5, 2_000);
        exchange(&mut flash, &[0x06], 2_000);
        exchange(&mut flash, &[0xd8, 0, 0, 0], 2_000);
        assert_eq!(exchange(&mut flash, &[0x03, 1, 0, 0, 0], 3_000)[4..], [5], "the next block stays");
        exchange(&mut flash, &[0x06], 3_000);
        exchange(&mut flash, &[0x04], 3_000);
        exchange(&mut flash, &[0xc7], 3_000);
        assert_eq!(exchange(&mut flash, &[0x03, 1, 0, 0, 0], 3_000)[4..], [5], "writing was disabled again");
        exchange(&mut flash, &[0x06], 3_000);
        exchange(&mut flash, &[0xc7], 3_000);
        assert_eq!(exchange(&mut flash, &[0x03, 1, 0, 0, 0], 4_000)[4..], [0xff]);
    }

    #[test]
    fn a_calendar_counts_seconds_to_the_next_year() {
        const SECOND_NS: u64 = 1_000_000_000;
        // 23:59:58, the last day of the week, 28 February 2028; the oscillator's flag stays.
        let mut clock = part(&[0xd8, 0x59, 0x23, 7, 0x28, 0x02, 0x28, 0x55], |of| {
            (of.calendar, of.first_weekday) = ((0..7).collect(), 1);
        });
        write(&mut clock, &[0], 0);
        assert_eq!(read(&mut clock, 8, SECOND_NS * 2 - 1), [0xd9, 0x59, 0x23, 7, 0x28, 0x02, 0x28, 0x55]);
        write(&mut clock, &[0], SECOND_NS * 2);
        assert_eq!(read(&mut clock, 7, SECOND_NS * 2), [0x80, 0, 0, 1, 0x29, 0x02, 0x28]);
        clock.set(0, 0x30, SECOND_NS * 9 / 4);
        write(&mut clock, &[0], SECOND_NS * 9 / 4);
        assert_eq!(
            read(&mut clock, 1, SECOND_NS * 13 / 4 - 1),
            [0x30],
            "a second begins where it is set from outside"
        );
        write(&mut clock, &[0, 0x58, 0x59, 0x23, 6, 0x31, 0x12, 0x99], SECOND_NS * 7 / 2);
        write(&mut clock, &[0], SECOND_NS * 4);
        assert_eq!(
            read(&mut clock, 7, SECOND_NS * 11 / 2),
            [0, 0, 0, 7, 0x01, 0x01, 0],
            "the second began at the write"
        );
    }
}
