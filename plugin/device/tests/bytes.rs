// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers that an AVR reaches by bytes of its data space, and what its ports, timers and watchdog need of a device.

use device::{Device, Host};
use wire::chip::{Block, Chip, Clock, Compare, Counter, Field, Pins, Register, Setting, Source, Stimulus};

/// Time that passes as a test says.
#[derive(Default)]
struct Passing {
    ns: u64,
}

impl Host for Passing {
    fn now_ns(&mut self) -> u64 {
        self.ns
    }
    fn set_line(&mut self, _: u32, _: bool) {}
    fn wake_at(&mut self, _: Option<u64>) {}
    fn print(&mut self, _: u8) {}
    fn read_memory(&mut self, _: u64, _: &mut [u8]) -> bool {
        false
    }
    fn write_memory(&mut self, _: u64, _: &[u8]) -> bool {
        false
    }
    fn program(&mut self, _: u32, _: u64, _: &[u8]) {}
    fn erase(&mut self, _: u32, _: u64, _: u64) {}
    fn set_cpu_clock(&mut self, _: u64) {}
    fn set_systick_clock(&mut self, _: u64) {}
    fn pulsed(&mut self, _: usize) {}
    fn came(&mut self) {}
    fn frame(&mut self, _: usize, _: &wire::can::Frame, _: bool) {}
    fn pin(&mut self, _: usize, _: u32, _: bool, _: bool) {}
    fn bite(&mut self, _: u32) {}
}

fn field(register: u32, mask: u32) -> Field {
    Field { register, mask }
}

fn registers(count: u32) -> Vec<Register> {
    let register = |index: u32| Register { offset: Some(u64::from(index) * 4), ..Register::default() };
    (0..count).map(register).collect()
}

/// A device of one block, which counts microseconds.
fn device(block: Block, stimuli: Vec<Stimulus>) -> (Device, Passing) {
    let clock = Clock { sources: vec![Source { hz: 1_000_000, clock: None }], ..Clock::default() };
    let block = Block { name: "B".into(), start: 0x100, bytes: 0x100, ..block };
    let chip = Chip { blocks: vec![block], clocks: vec![clock], stimuli, is_addition: true, ..Chip::default() };
    assert_eq!(chip.check(), Ok(()));
    let mut host = Passing::default();
    let mut device = Device::new(chip);
    device.begin(&mut host);
    (device, host)
}

#[test]
fn a_count_of_two_bytes_is_read_and_written_at_once() {
    let mut registers = registers(2);
    registers.iter_mut().for_each(|register| register.is_latched = true);
    let counter = Counter { value: Some(field(0, 0xffff)), bits: 16, ..Counter::default() };
    let (mut device, mut host) = device(Block { registers, counters: vec![counter], ..Block::default() }, Vec::new());
    host.ns = 0x1ff * 1000;
    assert_eq!(device.read_byte(0, 0, &mut host), 0xff);
    host.ns += 1000;
    assert_eq!(device.read_byte(0, 1, &mut host), 0x01, "as it was when the lowest byte was read");
    device.write_byte(0, 1, 0x12, u8::MAX, &mut host);
    assert_eq!(device.read_byte(0, 0, &mut host), 0x00, "the second byte waits for the first");
    device.write_byte(0, 1, 0x12, u8::MAX, &mut host);
    device.write_byte(0, 0, 0x34, u8::MAX, &mut host);
    assert_eq!([0, 1].map(|offset| device.read_byte(0, offset, &mut host)), [0x34, 0x12]);
    // What does not count is read as it is.
    device.write_byte(0, 5, 0x56, u8::MAX, &mut host);
    device.write_byte(0, 4, 0x78, u8::MAX, &mut host);
    device.read_byte(0, 0, &mut host);
    assert_eq!([5, 4].map(|offset| device.read_byte(0, offset, &mut host)), [0x56, 0x78]);
}

#[test]
fn an_instruction_for_one_bit_writes_that_bit_alone() {
    // Register 0 toggles register 1 and reads as itself; writing ones clears bits of register 2.
    let mut registers = registers(3);
    (registers[0].toggles, registers[0].reads) = (Some(1), Some(0));
    registers[1].reset = 0xf0;
    (registers[2].one_clears, registers[2].reset) = (0xff, 0x0f);
    let (mut device, mut host) = device(Block { registers, ..Block::default() }, Vec::new());
    device.write_byte(0, 0, 0xf1, 1, &mut host);
    assert_eq!([0, 4].map(|offset| device.read_byte(0, offset, &mut host)), [0, 0xf1]);
    device.write_byte(0, 0, 0xf1, u8::MAX, &mut host);
    assert_eq!(device.read_byte(0, 4, &mut host), 0);
    device.write_byte(0, 8, 0x0f, 4, &mut host);
    assert_eq!(device.read_byte(0, 8, &mut host), 0x0b);
}

#[test]
fn an_input_is_pulled_up_until_something_is_connected() {
    // Registers: level, driven, modes, what is outside, what is connected.
    let pins = Pins {
        level: field(0, 0xff),
        driven: field(1, 0xff),
        outside: field(3, 0xff),
        modes: vec![2],
        mode_bits: 1,
        outputs: 1 << 1,
        pulled: Some(field(1, 0xff)),
        connected: Some(field(4, 0xff)),
        ..Pins::default()
    };
    let set = vec![Setting { field: field(3, 4), value: 0 }];
    let low = Stimulus { at_insns: 1000, set, ..Stimulus::default() };
    let (mut device, mut host) =
        device(Block { registers: registers(5), pins: vec![pins], ..Block::default() }, vec![low]);
    device.write_byte(0, 8, 0x01, u8::MAX, &mut host);
    assert_eq!(device.read_byte(0, 0, &mut host), 0);
    device.write_byte(0, 4, 0x0d, u8::MAX, &mut host);
    assert_eq!(device.read_byte(0, 0, &mut host), 0x0d, "one output, two inputs that are pulled up");
    host.ns = 1000;
    assert_eq!(device.read_byte(0, 0, &mut host), 0x09);
    device.write_byte(0, 4, 0x05, u8::MAX, &mut host);
    assert_eq!(device.read_byte(0, 0, &mut host), 0x01, "what is outside is stronger");
}

#[test]
fn a_late_comparison_comes_as_the_counter_leaves_the_value() {
    let compare = |value, set, is_late| Compare {
        value: field(value, 0xff),
        set: vec![Setting { field: field(3, set), value: 1 }],
        is_late,
        ..Compare::default()
    };
    let counter = Counter {
        reload: Some(field(0, 0xff)),
        bits: 8,
        compares: vec![compare(1, 1, false), compare(1, 2, true), compare(2, 4, true)],
        ..Counter::default()
    };
    let mut registers = registers(4);
    (registers[0].reset, registers[1].reset, registers[2].reset) = (9, 5, 9);
    let (mut device, mut host) = device(Block { registers, counters: vec![counter], ..Block::default() }, Vec::new());
    for (us, flags) in [(4, 0), (5, 1), (6, 3), (9, 3), (10, 7)] {
        host.ns = us * 1000;
        assert_eq!(device.read_byte(0, 12, &mut host), flags, "after {us} us");
    }
}

#[test]
fn feeding_a_watchdog_clears_its_counter() {
    let counter = Counter {
        bits: 4,
        clear: Some(field(0, 1)),
        overflow: vec![Setting { field: field(1, 1), value: 1 }],
        ..Counter::default()
    };
    let block =
        Block { registers: registers(2), counters: vec![counter], fed_by: Some(field(0, 1)), ..Block::default() };
    let (mut device, mut host) = device(block, Vec::new());
    for us in [15, 30, 45] {
        host.ns = us * 1000;
        device.feed_watchdogs(&mut host);
        assert_eq!(device.read_byte(0, 4, &mut host), 0, "after {us} us");
    }
    host.ns = 61_000;
    assert_eq!(device.read_byte(0, 4, &mut host), 1);
}
