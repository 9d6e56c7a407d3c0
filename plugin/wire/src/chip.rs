// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real chip, to which the plugin completes a base machine: memory, register blocks, clocks and interrupts.
//!
//! The records hold the rules of a chip file, resolved: names are indices, arrays are expanded, every field is a
//! mask. They are not specific to any chip. Registers are 32 bits wide.
//!
//! Beside the request there are two files, tables of fixed size: [`FILE_NAME`], to which the plugin adds each access that
//! the chip file does not model, and [`ACCESSES`], in which it counts all accesses of registers.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::Malformed;
use crate::can::{self, Can, CanAnswer, Frame, FrameAt};
use crate::record::{self, Bytes, Record as _, record};
use crate::varint::Reader;

/// Name of the file with the unmodelled accesses.
pub const FILE_NAME: &str = "unmodelled";

/// Rows of that file. When all are taken, further accesses are only counted, in the last row.
pub const ROWS: usize = 1024;

/// Words of a row: address + 1, pc, reads, writes.
pub const ROW_WORDS: usize = 4;

/// Size of that file in bytes.
pub const TABLE_BYTES: usize = ROWS * ROW_WORDS * 8;

/// Address in the last row, which counts the accesses that found no free row.
pub const OTHERS: u64 = u64::MAX - 1;

/// Address in the row before the last: `writes` is the number of times that a watchdog has run out, `pc` the
/// watchdog's address.
pub const BITES: u64 = u64::MAX - 2;

/// Address in the row before that: the row counts accesses of addresses at which the chip has nothing. Its `pc` is
/// the first such address.
pub const ABSENT: u64 = u64::MAX - 3;

/// Address in the row before that: `reads` is the number of changes from outside, not of a step of the input, that came.
pub const CAME: u64 = u64::MAX - 4;

/// Address in the row of the first rule, above all real addresses. Such a row counts how often an answer was given, a
/// pulse came or a counting register was read. Rows of pulses come after those of answers, rows of counts after those
/// of pulses.
pub const FIRST_RULE: u64 = 1 << 40;

/// The row of the first answer, pulse or count.
pub const FIRST_RULE_ROW: usize = ROWS - SPECIAL_ROWS;

/// Most answers, pulses and counts of one chip.
pub const MAX_RULES: usize = 256;

/// Rows at the end that do not belong to a register.
pub const SPECIAL_ROWS: usize = MAX_RULES + 4;

/// Name of the file with the accesses of registers, one row for each instruction and register.
pub const ACCESSES: &str = "accesses";

/// Rows of that file. When all but the last are taken, further accesses are only counted, in the last row.
pub const ACCESS_ROWS: usize = 4096;

/// Words of such a row: address + 1, pc, reads, writes, first and last instruction, polls, instructions in them, bits.
pub const ACCESS_WORDS: usize = 9;

/// Size of that file in bytes.
pub const ACCESS_BYTES: usize = ACCESS_ROWS * ACCESS_WORDS * 8;

/// Most instructions between two reads of a register that is polled.
pub const MAX_POLL_INSNS: u64 = 128;

/// Name of the file with the state at a polled register.
pub const POLLED: &str = "polled";

/// Name of the file with the interrupt lines that the firmware has enabled, in a run with [`Chip::poll_limit`]: one
/// bit per line, in words of 32 bits as in the NVIC.
pub const ENABLED: &str = "enabled";

/// Words of that file.
pub const ENABLED_WORDS: usize = 15;

/// Name of the file with the words of flash that the firmware stored to before it reset itself, in a run with
/// [`Chip::poll_limit`]. Its format is that of [`stored_bytes`].
pub const STORED: &str = "stored";

/// Registers of [`Polled`].
pub const REGISTERS: usize = 15;

/// Fewest instructions from one pulse to the next.
pub const MIN_PULSE_INSNS: u64 = 100;

/// Largest memory of a chip in bytes, all its memories together; the host provides it.
pub const MAX_MEMORY_BYTES: u64 = 256 << 20;

/// Most sections that QEMU's table for a processor's addresses may get: QEMU ends with an assertion (`phys_section_add`,
/// system/physmem.c) at as many as its page has bytes. The rest is for the processor's own registers.
const MAX_SECTIONS: u64 = PAGE_BYTES - 128;

/// QEMU's page of a Cortex-M; that of a RISC-V processor is larger.
const PAGE_BYTES: u64 = 1024;

/// Most stretches of an AVR's data space that are registers. QEMU's page has 256 bytes there, so as many sections fit, and each
/// stretch takes up to two.
pub const MAX_STRETCHES: usize = 96;

/// Whether QEMU's table has room for these ranges of a chip, in ascending order: each takes a section for its first page,
/// its whole pages and its last page, and so does each gap. A page that several of them share takes one more.
pub fn fit_sections(ranges: &[(u64, u64)]) -> bool {
    let (mut sections, mut at, mut shared) = (0, 0, u64::MAX);
    let mut add = |start: u64, end: u64| {
        let (first, last) = (start.next_multiple_of(PAGE_BYTES), end / PAGE_BYTES * PAGE_BYTES);
        let has_end = last < end && (last >= first || start == first);
        for (is_part, page) in [(start < first, start / PAGE_BYTES), (has_end, end / PAGE_BYTES)] {
            if is_part {
                sections += 1 + u64::from(page != shared);
                shared = page;
            }
        }
        sections += u64::from(first < last);
    };
    for &(start, end) in ranges {
        if at < start {
            add(at, start);
        }
        add(start, end);
        at = end;
    }
    sections <= MAX_SECTIONS
}

/// Largest register block.
pub const MAX_BLOCK_BYTES: u64 = 1 << 28;

/// Largest number of registers of a chip; the plugin keeps the value of each.
pub const MAX_REGISTERS: usize = 1 << 16;

/// Largest memory behind an address register, and all such memories of a chip together.
pub const MAX_ARRAY_BYTES: u32 = 1 << 16;
const MAX_ARRAYS_BYTES: u64 = 1 << 20;

/// Most changes from outside of a chip.
pub const MAX_STIMULI: usize = 1 << 16;

/// Largest device on a bus, and all such devices of a chip together.
pub const MAX_DEVICE_BYTES: u32 = 32 << 20;

/// Most bytes that choose a byte of a device, and of a register of its.
pub const MAX_POINTER_BYTES: u32 = 4;

/// Bytes of a page of an SPI flash, which is programmed at once.
pub const FLASH_PAGE_BYTES: u32 = 256;

/// Number of a calendar's fields.
pub const CALENDAR_FIELDS: usize = 7;

/// AVR's data space, in ELF files and in QEMU. Bytes of it may be registers ([`ByteAt`]).
pub const AVR_DATA: Range<u64> = 0x80_0000..0x81_0000;

/// Longest name of a memory or peripheral, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// Whether a text can name a memory or peripheral: such a name ends neither a line nor a quotation of any text that has it.
pub fn is_name(text: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&text.len()) && text.chars().all(is_of_name)
}

/// Whether a character can stand in a name.
pub fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-_. ".contains(character)
}

/// Name of a memory's region in QEMU, by the memory's index. Names of a chip file do not reach QEMU, whose memory tree says
/// what may be read: its text has nothing that a file can choose.
pub fn memory_region(index: usize) -> String {
    format!("harness-memory-{index}")
}

/// Name of a register block's region in QEMU, by the block's index.
pub fn block_region(index: usize) -> String {
    format!("{BLOCK_REGION}{index}")
}

const BLOCK_REGION: &str = "harness-block-";

/// Number of control and status registers that RISC-V's instructions can name.
pub const CSRS: u32 = 1 << 12;

/// Largest number of interrupt lines of an AVR; QEMU has no more inputs.
pub const MAX_ADDED_LINES: u32 = 64;

/// Largest number of interrupt lines of a processor; QEMU has no room for more.
pub const MAX_LINES: u32 = 480;

/// Unmodelled accesses of one address: the chip file does not describe it, or describes a register that only holds
/// its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unmodelled {
    /// Address that was accessed.
    pub address: u64,
    /// First instruction that accessed it.
    pub pc: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
}

/// Accesses of one register by one instruction, in the window.
///
/// A read is one of a poll if the same instruction has read the same value from the register before, at most
/// [`MAX_POLL_INSNS`] instructions ago, and no register was accessed in between. So is the read of another value that
/// ends such a poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// Address of the register's word; [`OTHERS`] in the last row.
    pub address: u64,
    /// Instruction.
    pub pc: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Instructions of the window up to the first access.
    pub first_insns: u64,
    /// Instructions of the window up to the last access.
    pub last_insns: u64,
    /// Reads that were polls.
    pub polls: u64,
    /// Instructions from each of these reads' predecessors to the read.
    pub poll_insns: u64,
    /// Bits of the register whose change ended a poll.
    pub ending_bits: u64,
}

impl Access {
    /// Row of the file.
    pub fn to_words(self) -> [u64; ACCESS_WORDS] {
        let Access { address, pc, reads, writes, first_insns, last_insns, polls, poll_insns, ending_bits } = self;
        [address + 1, pc, reads, writes, first_insns, last_insns, polls, poll_insns, ending_bits]
    }
}

/// Reads the table of [`ACCESSES`].
///
/// # Errors
/// When its size is wrong, or a row is invalid.
pub fn accesses(bytes: &[u8]) -> Result<Vec<Access>, Malformed> {
    if bytes.len() != ACCESS_BYTES {
        return Err(Malformed { what: "table of accesses", offset: bytes.len() });
    }
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
    let mut rows = Vec::new();
    for (index, row) in words.as_chunks::<ACCESS_WORDS>().0.iter().enumerate() {
        if *row == [0; ACCESS_WORDS] {
            continue;
        }
        let [key, pc, reads, writes, first_insns, last_insns, polls, poll_insns, ending_bits] = *row;
        let is_sound = key > 0
            && reads.checked_add(writes).is_some_and(|accesses| accesses > 0)
            && polls <= reads
            && first_insns <= last_insns
            && poll_insns <= last_insns
            && ending_bits <= u32::MAX.into();
        if !is_sound {
            return Err(Malformed { what: "row of accesses", offset: index * ACCESS_WORDS * 8 });
        }
        let address = key - 1;
        rows.push(Access { address, pc, reads, writes, first_insns, last_insns, polls, poll_insns, ending_bits });
    }
    Ok(rows)
}

/// The contents of the file [`STORED`]: addresses and values of words.
pub fn stored_bytes(words: &[(u32, u32)]) -> Vec<u8> {
    words.iter().flat_map(|(address, value)| [address.to_le_bytes(), value.to_le_bytes()]).flatten().collect()
}

/// Reads the file [`STORED`]; an incomplete word at its end is ignored.
pub fn stored(bytes: &[u8]) -> Vec<(u32, u32)> {
    let words: Vec<u32> = bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
    words.as_chunks().0.iter().map(|&[address, value]| (address, value)).collect()
}

/// Reads the table of [`FILE_NAME`].
///
/// # Errors
/// When its size is wrong, or a row is invalid.
pub fn unmodelled(bytes: &[u8]) -> Result<Vec<Unmodelled>, Malformed> {
    if bytes.len() != TABLE_BYTES {
        return Err(Malformed { what: "table of accesses", offset: bytes.len() });
    }
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
    let mut rows = Vec::new();
    for (index, row) in words.chunks_exact(ROW_WORDS).enumerate() {
        match *row {
            [0, 0, 0, 0] => {}
            [key, pc, reads, writes] if key > 0 && reads.saturating_add(writes) > 0 => {
                rows.push(Unmodelled { address: key - 1, pc, reads, writes });
            }
            _ => return Err(Malformed { what: "row of accesses", offset: index * ROW_WORDS * 8 }),
        }
    }
    Ok(rows)
}

record! {
    /// A chip, and the changes of the base machine for it.
    #[derive(Default)]
    pub struct Chip {
        /// Name of the chip, for messages.
        name: String,
        /// Memory, in ascending order.
        memory: Vec<Memory>,
        /// Register blocks, in ascending order. Accesses outside of memory and blocks fault.
        blocks: Vec<Block>,
        /// Number of the processor's interrupt lines; 0: that of the base machine.
        lines: u32,
        /// Bits of an interrupt's priority; 0: those of the base machine.
        priority_bits: u32,
        /// Clocks. They may refer to one another in any order, even in circles.
        clocks: Vec<Clock>,
        /// Clock of the processor and of SysTick.
        cpu_clock: Option<u32>,
        /// SysTick's external clock.
        systick_clock: Option<u32>,
        /// An instruction takes 2^shift ns.
        insn_shift: u32,
        /// Seed of the random generators.
        seed: u64,
        /// Answers to firmware that polls a register.
        answers: Vec<Answer>,
        /// Interrupts that come periodically by themselves.
        pulses: Vec<Pulse>,
        /// Registers that count by themselves.
        counts: Vec<Count>,
        /// Changes from outside, in the order of their instructions.
        stimuli: Vec<Stimulus>,
        /// Number of equal reads of a register by one instruction, with no write to a device between them, that ends
        /// the run and leaves a [`Polled`]; 0: polling never ends the run.
        poll_limit: u32,
        /// Instructions that may read as often as they like.
        passed: Vec<u64>,
        /// Whether the registers are added to the machine's own devices, which stay; otherwise they replace them.
        is_addition: bool,
        /// Registers of the RISC-V processor's own; None: the processor is another.
        riscv: Option<Riscv>,
    }
}

record! {
    /// A chip's RISC-V processor, as far as the standard leaves it open.
    #[derive(Default)]
    pub struct Riscv {
        /// Cycles per second, for the counters of cycles.
        hz: u64,
        /// Control and status registers of its own, ascending.
        csrs: Vec<Csr>,
    }
}

record! {
    /// A control and status register of the chip's own.
    #[derive(Default)]
    pub struct Csr {
        /// Its number.
        number: u32,
        /// Value at reset.
        reset: u32,
        /// Whether it counts cycles from the value that was last written, and otherwise holds that value.
        has_cycles: bool,
    }
}

record! {
    /// An answer to firmware that polls a register: bits that the register reads from then on, until it is written
    /// again. If a register has several answers, the next answer that changes its value is given.
    #[derive(Default)]
    pub struct Answer {
        /// Address of the register's word.
        address: u64,
        /// Bits that are answered.
        mask: u32,
        /// Value of these bits.
        value: u32,
    }
}

record! {
    /// An interrupt that comes periodically.
    #[derive(Default)]
    pub struct Pulse {
        /// The line that is raised for a moment.
        line: u32,
        /// Instructions from one pulse to the next.
        every_insns: u64,
        /// Bits of registers that are set when it comes.
        sets: Vec<Answer>,
    }
}

record! {
    /// A register that counts instructions, from the value that was last written to it. All its bits count.
    #[derive(Default)]
    pub struct Count {
        /// Address of the register's word.
        address: u64,
        /// Instructions from one value to the next.
        every_insns: u64,
    }
}

record! {
    /// The processor at an instruction that polls a register, see [`Chip::poll_limit`].
    #[derive(Default)]
    pub struct Polled {
        /// Address of the reading instruction.
        pc: u64,
        /// Address that it reads.
        address: u64,
        /// Value that it reads.
        value: u64,
        /// Instructions executed up to here.
        insns: u64,
        /// Registers r0 to r14 before the read.
        registers: Vec<u32>,
        /// Memory that can be written.
        memory: Vec<Contents>,
    }
}

record! {
    /// Contents of a stretch of memory.
    #[derive(Default)]
    pub struct Contents {
        /// First address.
        start: u64,
        /// Its words.
        words: Vec<u32>,
    }
}

impl Polled {
    /// Reads the file [`POLLED`].
    ///
    /// # Errors
    /// When it is damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Polled, Malformed> {
        let mut reader = Reader::new(bytes, "polled register");
        let polled = Polled::read(&mut reader)?;
        let is_whole = reader.is_empty() && polled.registers.len() == REGISTERS;
        is_whole.then_some(polled).ok_or(Malformed { what: "polled register", offset: reader.offset })
    }

    /// The file's contents.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }
}

record! {
    /// A stretch of memory.
    #[derive(Default)]
    pub struct Memory {
        /// Name in QEMU's memory tree.
        name: String,
        /// First address.
        start: u64,
        /// Size.
        bytes: u64,
        /// Whether the memory is flash, which begins erased and is programmed only by a controller.
        is_flash: bool,
        /// Index of the memory of which this one is an alias.
        alias_of: Option<u32>,
        /// Words that the memory holds when the chip leaves the factory.
        words: Vec<Word>,
    }
}

record! {
    /// A word in memory.
    #[derive(Default)]
    pub struct Word {
        /// Offset in the memory, a multiple of 4.
        offset: u64,
        /// Value of the word.
        value: u32,
    }
}

record! {
    /// A field of a register.
    #[derive(Default)]
    pub struct Field {
        /// The register, by index in its block.
        register: u32,
        /// Its bits, contiguous.
        mask: u32,
    }
}

impl Field {
    /// Returns the field's value, given the register's.
    pub fn of(&self, value: u32) -> u32 {
        (value & self.mask) >> self.mask.trailing_zeros().min(31)
    }

    /// Returns the register's value with the field set to `value`.
    pub fn put_in(&self, register: u32, value: u32) -> u32 {
        (register & !self.mask) | ((value << self.mask.trailing_zeros().min(31)) & self.mask)
    }
}

record! {
    /// A peripheral's registers and their effects.
    #[derive(Default)]
    pub struct Block {
        /// Name.
        name: String,
        /// First address.
        start: u64,
        /// Size.
        bytes: u64,
        /// Whether three aliases follow the block, in which writes toggle, set and clear bits.
        has_atomic_aliases: bool,
        /// Whether the registers only hold values: nothing describes the peripheral, and accesses count as unmodelled.
        is_undescribed: bool,
        /// Registers; those without an offset only serve rules.
        registers: Vec<Register>,
        /// Fields that copy other fields, possibly after a delay.
        follows: Vec<Follow>,
        /// Side effects of writing and reading.
        triggers: Vec<Trigger>,
        /// Counters and timers.
        counters: Vec<Counter>,
        /// Serial ports.
        ports: Vec<Port>,
        /// Transfers between memory and a serial port.
        transfers: Vec<Transfer>,
        /// Flash controllers.
        flashes: Vec<Flash>,
        /// Random generators.
        randoms: Vec<Random>,
        /// Dividers.
        dividers: Vec<Divider>,
        /// Watchdogs.
        watchdogs: Vec<Watchdog>,
        /// Interrupt lines.
        interrupts: Vec<Interrupt>,
        /// Pins.
        pins: Vec<Pins>,
        /// Effects of pins' edges.
        edges: Vec<Edge>,
        /// Channels that copy memory and registers by themselves.
        channels: Vec<Channel>,
        /// Conditions under which a channel accesses this block's registers.
        requests: Vec<Request>,
        /// Converters of analog inputs.
        samplers: Vec<Sampler>,
        /// Connections of events with tasks.
        connections: Vec<Connection>,
        /// Buses to devices outside of the chip.
        buses: Vec<Bus>,
        /// Devices on these buses.
        devices: Vec<BusDevice>,
        /// CAN controllers.
        cans: Vec<Can>,
        /// Answers of the others on their bus, in their order.
        can_answers: Vec<CanAnswer>,
        /// Memories that only the block's registers reach.
        arrays: Vec<Array>,
        /// Bytes of the processor's data space that are registers of the block, of a chip that is an addition: the
        /// processor does not see the block itself.
        bytes_at: Vec<ByteAt>,
        /// Field to which the processor's own instruction for it (AVR's `wdr`) writes ones: it feeds a watchdog.
        fed_by: Option<Field>,
    }
}

record! {
    /// A byte of the data space that is a register's lowest byte, or the one above.
    #[derive(Default)]
    pub struct ByteAt {
        /// Address of the byte.
        address: u64,
        /// Offset of the register's byte in its block.
        offset: u64,
    }
}

record! {
    /// A port's pins: pin n is bit n of each field.
    #[derive(Default)]
    pub struct Pins {
        /// Levels as instructions read them.
        level: Field,
        /// Levels that the chip drives at outputs.
        driven: Field,
        /// Levels from outside, at all other pins.
        outside: Field,
        /// Registers with the pins' modes, of the same number of bits each.
        modes: Vec<u32>,
        /// Bits of a mode: 1, 2 or 4.
        mode_bits: u32,
        /// Modes of an output: bit m is set for mode m.
        outputs: u32,
        /// Field with a 1 for each pin that a resistor may pull up where nothing outside is connected; None: any pin.
        pulled: Option<Field>,
        /// Registers with the modes in which it does, of the same number of bits each; empty: if there is a field, in any mode.
        pulls: Vec<u32>,
        /// Bits of such a mode: 1, 2 or 4.
        pull_bits: u32,
        /// Modes in which the pin is pulled up: bit m is set for mode m.
        pull_ups: u32,
        /// Pins to which something outside is connected: those whose level a stimulus has set.
        connected: Option<Field>,
    }
}

record! {
    /// An effect of a pin's edge.
    #[derive(Default)]
    pub struct Edge {
        /// Blocks with pins, by their indices in the chip; None: the chip lacks that port.
        ports: Vec<Option<u32>>,
        /// Index of the port in `ports`; None: the first.
        port: Option<Factor>,
        /// Number of the pin, if `pin_field` is absent.
        pin: u32,
        /// Field with the number of the pin.
        pin_field: Option<Field>,
        /// Settings that must hold.
        when: Vec<Setting>,
        /// Field that is nonzero if a rising edge has the effect.
        rising: Field,
        /// Field that is nonzero if a falling edge has the effect.
        falling: Field,
        /// Settings applied.
        set: Vec<Setting>,
    }
}

record! {
    /// A channel of a DMA controller: it copies items from one address to another, in memory or registers.
    #[derive(Default)]
    pub struct Channel {
        /// Settings that hold while the channel is switched on.
        running: Vec<Setting>,
        /// Number of items to be copied, which counts down.
        count: Field,
        /// Two ends: items are read at the first and written at the second.
        ends: Vec<ChannelEnd>,
        /// Settings under which the two ends change places.
        reversed: Vec<Setting>,
        /// Settings under which the channel does not wait for requests of a peripheral; empty: it always waits.
        free: Vec<Setting>,
        /// Field that is nonzero if the channel begins again when all items are copied.
        circular: Option<Field>,
        /// Settings applied when half of the items are copied.
        half: Vec<Setting>,
        /// Settings applied at the end.
        set: Vec<Setting>,
        /// Settings applied when an address has neither memory nor a register.
        failed: Vec<Setting>,
        /// Field with the number of the block's channel that begins at the end, unless that is its own.
        chain: Option<Field>,
        /// Settings applied where another channel's end begins this one.
        begin: Vec<Setting>,
        /// Whether the fields with the addresses show those of the next items.
        advances: bool,
    }
}

record! {
    /// One end of a channel.
    #[derive(Default)]
    pub struct ChannelEnd {
        /// Address of the first item.
        address: Field,
        /// Bytes of an item: 1, 2 or 4.
        item: Factor,
        /// Field that is nonzero if the address grows with each item.
        steps: Field,
    }
}

record! {
    /// A converter of analog inputs that stores its results in memory by itself.
    #[derive(Default)]
    pub struct Sampler {
        /// Field that converts each selected input once when 1 is written.
        start: Field,
        /// Settings that hold while there is a buffer.
        running: Vec<Setting>,
        /// Fields with the numbers of the inputs to be converted, in this order; 0: none.
        selects: Vec<Field>,
        /// Fields with what the inputs measure, from number 1 on.
        inputs: Vec<Field>,
        /// Address of the buffer.
        pointer: Field,
        /// Number of results, of 16 bits each, that the buffer takes.
        count: Field,
        /// Field that receives the number of results stored.
        amount: Field,
        /// Settings applied once the selected inputs are converted.
        done: Vec<Setting>,
        /// Settings applied once the buffer is full.
        full: Vec<Setting>,
    }
}

record! {
    /// A connection of an event with tasks, which begin by themselves an instruction later.
    #[derive(Default)]
    pub struct Connection {
        /// Field that is nonzero where it is enabled.
        enabled: Field,
        /// Field with the address of the event's register.
        event: Field,
        /// Fields with the addresses of the tasks' registers; 0: none.
        tasks: Vec<Field>,
    }
}

record! {
    /// A condition under which a channel accesses a register.
    #[derive(Default)]
    pub struct Request {
        /// The register, by its index in the block.
        register: u32,
        /// Whether the channel reads it.
        is_read: bool,
        /// Settings that hold while the block asks for the access.
        when: Vec<Setting>,
    }
}

record! {
    /// A bus to devices outside of the chip: SPI if `address` is absent, otherwise I2C.
    #[derive(Default)]
    pub struct Bus {
        /// Settings that must hold for a byte or an address to be sent.
        when: Vec<Setting>,
        /// Field that sends a byte.
        send: Field,
        /// Field with the byte received.
        receive: Field,
        /// Field that has a device's address, in the register of `begin` or, without it, of `send`; None: there is one device,
        /// which answers each byte sent.
        address: Option<Field>,
        /// Bit that addresses the device when 1 is written; None: a write of `send`'s register does.
        begin: Option<Field>,
        /// Number of bytes of a transfer, in the register of `begin`; None: a transfer has no end of its own.
        count: Option<Field>,
        /// Bit of the register of `begin` with which a transfer goes on when the register is next written.
        reload: Option<Field>,
        /// Settings under which a write of that register is an address.
        addresses: Vec<Setting>,
        /// Bit written with the address: 1 to read from the device.
        reads: Option<Field>,
        /// Settings applied at the address of a device to be written to.
        writing: Vec<Setting>,
        /// Settings applied at the address of a device to be read from.
        reading: Vec<Setting>,
        /// Settings applied at an address without a device.
        absent: Vec<Setting>,
        /// Settings applied where a counted transfer's next byte may be written.
        wanted: Vec<Setting>,
        /// Settings applied where its next byte may be read.
        offered: Vec<Setting>,
        /// Settings applied at its end.
        ends: Vec<BusEnd>,
    }
}

record! {
    /// Settings that are applied at the end of a counted transfer where others hold.
    #[derive(Default)]
    pub struct BusEnd {
        /// Settings that must hold.
        when: Vec<Setting>,
        /// Settings applied.
        set: Vec<Setting>,
    }
}

record! {
    /// A device on a bus, which has bytes.
    #[derive(Default)]
    pub struct BusDevice {
        /// The device's address; 0 on a bus without addresses.
        address: u32,
        /// The pin that selects the device where it is low, on a bus without addresses; None: it is always selected.
        select: Option<PinAt>,
        /// Bytes of the device, from the first on.
        bytes: Vec<u32>,
        /// Number of its bytes, if more than these.
        size: u32,
        /// Value of the bytes behind these.
        fill: u32,
        /// Number of bytes written first that choose the next byte; 0: the first one is the next one each time. On a bus without
        /// addresses one byte chooses, whose highest bit is 1 for reading.
        pointer_bytes: u32,
        /// Number of bytes of each register that they choose; 0: one.
        register_bytes: u32,
        /// Number of bytes of a page, behind whose end writing goes on at its start. Behind the last byte the first is read.
        /// 0: there are no pages, and behind the last byte there is nothing.
        page_bytes: u32,
        /// Nanoseconds for which the device is busy after a byte, or a page, is written.
        busy_ns: u64,
        /// Bytes by which an SPI flash identifies itself; empty: it is not one.
        identity: Vec<u32>,
        /// Indices of a calendar's bytes: seconds, minutes, hours, day of the week, day, month, year; empty: it has none.
        calendar: Vec<u32>,
        /// First day of the week: 0 or 1.
        first_weekday: u32,
    }
}

record! {
    /// A pin of the chip's.
    #[derive(Default)]
    pub struct PinAt {
        /// The port's block, by its index in the chip.
        block: u32,
        /// Bit of the block's first pins.
        pin: u32,
    }
}

record! {
    /// A byte of a device that changes from outside.
    #[derive(Default)]
    pub struct DeviceByte {
        /// The device, by its index in the block.
        device: u32,
        /// Index of its byte.
        at: u32,
        /// New value.
        value: u32,
    }
}

record! {
    /// A memory that registers reach one byte at a time: one has the address, one the byte.
    #[derive(Default)]
    pub struct Array {
        /// Number of bytes.
        bytes: u32,
        /// Value of each byte at reset, and after it is erased.
        reset: u32,
        /// Address that the first byte has in a firmware file, if one may have contents for it.
        in_file: Option<u64>,
        /// Contents at reset, from the first byte on; the bytes behind them are erased.
        contents: Vec<u8>,
        /// Field with the number of the byte. Where there is no such byte, reading gives the value at reset.
        address: Field,
        /// Field with the byte.
        value: Field,
        /// Bit that reads the byte when 1 is written.
        read: Option<Field>,
        /// Bit that writes the byte when 1 is written.
        write: Option<Field>,
        /// Bit that clears those bits of the byte that are 0 in `value` when 1 is written.
        program: Option<Field>,
        /// Bit that erases the byte when 1 is written.
        erase: Option<Field>,
    }
}

record! {
    /// Fields that the chip's surroundings change at a time, which is the sum of its parts.
    #[derive(Default)]
    pub struct Stimulus {
        /// Step of the [input](crate::input), by its index, with which the time begins; None: with the reset.
        step: Option<u32>,
        /// Instructions from there on.
        at_insns: u64,
        /// Nanoseconds from there on.
        at_ns: u64,
        /// The block, by its index in the chip.
        block: u32,
        /// Settings applied.
        set: Vec<Setting>,
        /// Bytes of the block's devices that change.
        devices: Vec<DeviceByte>,
        /// Bytes that the block's serial port gets, one after the other.
        typed: Vec<u8> = Bytes,
        /// Frames that others send on the bus of the block's CAN controller.
        frames: Vec<Frame>,
    }
}

record! {
    /// A field that is copied to another.
    #[derive(Default)]
    pub struct Copied {
        /// Field that changes.
        to: Field,
        /// Field from which it is copied.
        from: Field,
    }
}

record! {
    /// A register.
    #[derive(Default)]
    pub struct Register {
        /// Name, for messages.
        name: String,
        /// Offset in the block; None: instructions cannot access it.
        offset: Option<u64>,
        /// Value at reset.
        reset: u32,
        /// Bits that writing does not change.
        read_only: u32,
        /// Bits that writing 1 clears.
        one_clears: u32,
        /// Bits that writing 0 clears and writing 1 does not change.
        zero_clears: u32,
        /// Bits that reading clears.
        read_clears: u32,
        /// Bits that return to 0 at once after they are written.
        self_clearing: u32,
        /// Register in which a write sets the bits that are written as 1; a read reads that register.
        sets: Option<u32>,
        /// Register in which a write clears the bits that are written as 1; a read reads that register.
        clears: Option<u32>,
        /// Register in which a write toggles the bits that are written as 1; a read reads that register.
        toggles: Option<u32>,
        /// Register in which a write clears the lower bits that are written as 1 in the upper half.
        upper_clears: Option<u32>,
        /// Register that a read reads.
        reads: Option<u32>,
        /// Registers that a read combines: it returns the bits that are 1 in all of them.
        all_of: Vec<u32>,
        /// Bits that any write resets to their value at reset.
        write_resets: u32,
        /// Whether instructions reach the second byte through a register of its own, which the block has once: it is written before
        /// the lowest byte, and written with it. Where the register counts, the second byte is read as it was when the lowest was.
        is_latched: bool,
    }
}

record! {
    /// A field that takes the value of another field.
    #[derive(Default)]
    pub struct Follow {
        /// Copy.
        target: Field,
        /// Original.
        source: Field,
        /// Delay in instructions.
        after_insns: u64,
        /// Whether the copy is inverted.
        is_inverted: bool,
        /// Whether it waits for the end of the frame on the block's CAN bus.
        is_idle: bool,
    }
}

record! {
    /// A side effect of an access.
    #[derive(Default)]
    pub struct Trigger {
        /// Condition on the access. Without `value`: one of these bits is written as 1. With `value`: the field is
        /// written with that value. For a read: any read of the register.
        field: Field,
        /// Value that must be written to the field.
        value: Option<u32>,
        /// Whether writing any value triggers the effect.
        by_any: bool,
        /// Whether reads trigger the effect, instead of writes.
        is_read: bool,
        /// Settings that must hold at the access.
        when: Vec<Setting>,
        /// Delay in instructions.
        after_insns: u64,
        /// Fields that the trigger copies.
        copies: Vec<Copied>,
        /// Settings that the trigger then applies.
        set: Vec<Setting>,
    }
}

record! {
    /// A field and a value.
    #[derive(Default)]
    pub struct Setting {
        /// The field.
        field: Field,
        /// Its value.
        value: u32,
    }
}

record! {
    /// A counter that the chip's clock drives.
    #[derive(Default)]
    pub struct Counter {
        /// Field that reads and sets the value; None: the firmware cannot access the value.
        value: Option<Field>,
        /// Field of the upper half of a 64-bit value.
        upper: Option<Field>,
        /// Fields that must all be nonzero while it runs.
        running: Vec<Field>,
        /// Clock that it counts.
        clock: u32,
        /// Divisors of the clock.
        divide: Vec<Factor>,
        /// Field with the last value before the wrap to 0.
        reload: Option<Field>,
        /// Width in bits, if `width` is absent.
        bits: u32,
        /// Width in bits, from a field.
        width: Option<Factor>,
        /// Bit that restarts the counter when 1 is written.
        clear: Option<Field>,
        /// Whether it counts down from the reload value to 0.
        counts_down: bool,
        /// Field that is nonzero while it counts up to its last value and from there down to 0: the wrap is at 0 alone.
        two_way: Option<Field>,
        /// Settings applied at the wrap.
        overflow: Vec<Setting>,
        /// Bit that stops the counter at the wrap: if it is 1, the fields of `running` are cleared.
        once: Option<Field>,
        /// Values to compare it with.
        compares: Vec<Compare>,
    }
}

record! {
    /// A value that a counter is compared with.
    #[derive(Default)]
    pub struct Compare {
        /// Field with the value.
        value: Field,
        /// Field that must be nonzero for the comparison; None: it is always made.
        enabled: Option<Field>,
        /// Settings applied when the value is reached.
        set: Vec<Setting>,
        /// Whether they are applied a tick later, as the counter leaves the value.
        is_late: bool,
        /// Bit that makes the counter wrap to 0 at the value.
        clears: Option<Field>,
        /// Bit that stops the counter at the value.
        stops: Option<Field>,
        /// Bit that copies the counter's value to `value` when 1 is written.
        capture: Option<Field>,
    }
}

record! {
    /// A factor: a field's value, with an addend, or mapped by a table.
    #[derive(Default)]
    pub struct Factor {
        /// The block of the register, by index in the chip.
        block: u32,
        /// Field.
        field: Field,
        /// Addend to the field's value.
        plus: u64,
        /// Factors by the field's value; empty: the factor is the value plus `plus`. The last factor stands for all
        /// greater values.
        map: Vec<u64>,
        /// Whether the sum is an exponent of 2.
        is_power: bool,
    }
}

record! {
    /// A clock.
    #[derive(Default)]
    pub struct Clock {
        /// Name.
        name: String,
        /// Sources, of which `select` chooses one.
        sources: Vec<Source>,
        /// Index of the source in use; None: the first.
        select: Option<Factor>,
        /// Factors in the numerator.
        multiply: Vec<Factor>,
        /// Factors in the denominator.
        divide: Vec<Factor>,
    }
}

record! {
    /// A source of a clock.
    #[derive(Default)]
    pub struct Source {
        /// Fixed frequency in Hz, if `clock` is absent.
        hz: u64,
        /// Index of another clock.
        clock: Option<u32>,
    }
}

record! {
    /// A serial port: bytes that it sends go to the console, bytes typed there are received.
    #[derive(Default)]
    pub struct Port {
        /// Field that sends a byte when it is written.
        send: Option<Field>,
        /// Fields that must all be nonzero for that.
        sending: Vec<Field>,
        /// Field that reads the next received byte.
        receive: Option<Field>,
        /// Settings that hold while a received byte is waiting.
        received: Vec<Setting>,
        /// Fields that must all be nonzero while it receives.
        receiving: Vec<Field>,
        /// Settings that hold while no received byte is waiting.
        empty: Vec<Setting>,
        /// Settings applied when the line is idle, some time after the last byte was read.
        idle: Vec<Setting>,
    }
}

record! {
    /// A transfer between memory and a serial port, made by the peripheral itself.
    #[derive(Default)]
    pub struct Transfer {
        /// Whether it goes from the port to memory.
        is_receive: bool,
        /// Bit that starts it when 1 is written.
        start: Field,
        /// Bit that stops it when 1 is written.
        stop: Option<Field>,
        /// Address in memory.
        pointer: Field,
        /// Number of bytes to transfer.
        count: Field,
        /// Field that receives the number of transferred bytes.
        amount: Option<Field>,
        /// Settings applied at its end.
        set: Vec<Setting>,
        /// Settings applied when it is stopped.
        stopped: Vec<Setting>,
        /// Settings applied at each received byte.
        byte: Vec<Setting>,
    }
}

record! {
    /// A controller of flash.
    #[derive(Default)]
    pub struct Flash {
        /// Index of the flash memory in the chip.
        memory: u32,
        /// Settings under which stores to the flash clear its bits.
        programs: Vec<Setting>,
        /// Settings applied by such a store.
        programmed: Vec<Setting>,
        /// Erase commands.
        erases: Vec<Erase>,
    }
}

record! {
    /// Erases flash.
    #[derive(Default)]
    pub struct Erase {
        /// Field that starts it: with a bit written as 1, or with any value if `by_any`.
        start: Field,
        /// Whether writing any value starts it.
        by_any: bool,
        /// Settings that must all hold.
        when: Vec<Setting>,
        /// Field with the page; None: the whole memory is erased.
        page: Option<Field>,
        /// Whether that field holds the page's address instead of its number.
        is_address: bool,
        /// Sizes of the pages in order; all further pages have the last size.
        page_bytes: Vec<u64>,
        /// Settings applied at its end.
        set: Vec<Setting>,
    }
}

record! {
    /// A random generator.
    #[derive(Default)]
    pub struct Random {
        /// Field from which each read returns a new number.
        value: Field,
    }
}

record! {
    /// A divider.
    #[derive(Default)]
    pub struct Divider {
        /// Dividend.
        dividend: u32,
        /// Divisor.
        divisor: u32,
        /// Quotient.
        quotient: u32,
        /// Remainder.
        remainder: u32,
        /// Whether the numbers are signed.
        is_signed: bool,
    }
}

record! {
    /// A watchdog.
    #[derive(Default)]
    pub struct Watchdog {
        /// Settings that start it once they all hold.
        running: Vec<Setting>,
        /// Clock that it counts.
        clock: u32,
        /// Divisors of the clock.
        divide: Vec<Factor>,
        /// Field with the number of ticks until it runs out, minus 1.
        reload: Field,
        /// Settings that feed it when they are written.
        feed: Vec<Setting>,
    }
}

record! {
    /// An interrupt line.
    #[derive(Default)]
    pub struct Interrupt {
        /// Number of the line at the processor.
        line: u32,
        /// Causes, of which one is enough to raise it.
        causes: Vec<Cause>,
        /// Settings applied when the processor takes the interrupt.
        taken: Vec<Setting>,
    }
}

record! {
    /// A cause of an interrupt.
    #[derive(Default)]
    pub struct Cause {
        /// Field that is nonzero while the cause is present.
        status: Field,
        /// Field that enables the cause; None: it is always enabled.
        enable: Option<Field>,
        /// Whether the cause is present while the status is 0.
        is_inverted: bool,
    }
}

impl Stimulus {
    /// Nanoseconds from the time with which it begins to its effect, where an instruction takes 2^`insn_shift` ns.
    pub fn delay_ns(&self, insn_shift: u32) -> u64 {
        self.at_insns.saturating_mul(1 << insn_shift).saturating_add(self.at_ns)
    }
}

impl BusDevice {
    /// Number of the device's bytes.
    pub fn all_bytes(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap_or(u32::MAX).max(self.size)
    }
}

impl Chip {
    /// Returns the register block at an address.
    pub fn block_at(&self, address: u64) -> Option<&Block> {
        self.blocks.iter().find(|block| block.start <= address && address - block.start < block.bytes)
    }

    /// Returns the register block of a region of QEMU's ([`block_region`]).
    pub fn block_of_region(&self, region: &str) -> Option<&Block> {
        self.blocks.get(region.strip_prefix(BLOCK_REGION)?.parse::<usize>().ok()?)
    }

    /// Encodes the chip alone, for a hash.
    pub fn to_bytes(&self) -> Vec<u8> {
        record::bytes(self)
    }

    /// Checks the chip. Returns the name of the first invalid part.
    ///
    /// # Errors
    /// When a part is invalid.
    pub fn check(&self) -> Result<(), &'static str> {
        let ends = |start: u64, bytes: u64| start.checked_add(bytes).filter(|&end| bytes > 0 && end <= 1 << 32);
        let memory_bytes = self.memory.iter().map(|memory| memory.bytes).fold(0u64, u64::saturating_add);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (start, bytes) in self
            .memory
            .iter()
            .map(|memory| (memory.start, memory.bytes))
            .chain(self.blocks.iter().map(|block| (block.start, block.bytes)))
        {
            ranges.push((start, ends(start, bytes).ok_or("chip's range")?));
        }
        ranges.sort_unstable();
        let is_alias = |memory: &Memory| {
            memory.alias_of.is_none_or(|of| {
                self.memory.get(of as usize).is_some_and(|of| of.alias_of.is_none() && memory.bytes <= of.bytes)
            })
        };
        let clocks = self.clocks.len();
        let rules = [
            (memory_bytes <= MAX_MEMORY_BYTES, "chip's memory"),
            (self.memory.iter().all(|memory| is_name(&memory.name)), "chip's name of a memory"),
            (self.blocks.iter().all(|block| is_name(&block.name)), "chip's name of a block"),
            (self.memory.iter().all(Memory::has_words), "chip's words in memory"),
            (ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "chip's overlapping ranges"),
            (self.is_addition || fit_sections(&ranges), "chip's number of ranges"),
            (self.memory.iter().all(is_alias), "chip's alias"),
            (self.lines <= MAX_LINES && self.priority_bits <= 8, "chip's interrupts"),
            (self.insn_shift <= 10, "chip's shift"),
            (
                self.blocks.iter().map(|block| block.registers.len()).sum::<usize>() <= MAX_REGISTERS,
                "chip's registers",
            ),
            (
                self.cpu_clock.iter().chain(&self.systick_clock).all(|&clock| (clock as usize) < clocks),
                "chip's clock",
            ),
            (self.clocks.iter().all(|clock| self.is_clock(clock)), "chip's clock"),
            (self.blocks.iter().all(Block::has_whole_aliases), "chip's aliases"),
            (self.first_bad_block().is_none(), "chip's block"),
            (self.has_bytes(), "chip's bytes"),
            (self.has_csrs(), "chip's control and status registers"),
            (self.has_arrays(), "chip's arrays"),
            (
                self.blocks
                    .iter()
                    .flat_map(|block| &block.devices)
                    .map(|device| u64::from(device.all_bytes()))
                    .sum::<u64>()
                    <= u64::from(MAX_DEVICE_BYTES),
                "chip's devices",
            ),
            (self.answers.len() + self.pulses.len() + self.counts.len() <= MAX_RULES, "chip's number of answers"),
            (self.counts.iter().all(|count| self.is_count(count)), "chip's count"),
            (self.stimuli.len() <= MAX_STIMULI, "chip's number of stimuli"),
            (self.stimuli.iter().all(|stimulus| self.is_stimulus(stimulus)), "chip's stimulus"),
            (self.pulses.iter().all(|pulse| pulse.line < MAX_LINES), "chip's pulse"),
            (self.pulses.iter().all(|pulse| pulse.every_insns >= MIN_PULSE_INSNS), "chip's pulse"),
            (
                self.pulses.iter().flat_map(|pulse| &pulse.sets).chain(&self.answers).all(|one| self.is_answer(one)),
                "chip's answer",
            ),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(what))
    }

    /// The first register block with a rule that cannot be: one that refers to something that is not there, or has a number
    /// out of its range.
    pub fn first_bad_block(&self) -> Option<&Block> {
        self.blocks.iter().find(|block| !self.is_block(block))
    }

    /// Whether each byte of the data space belongs to one register at most, and only an addition has such bytes.
    fn has_bytes(&self) -> bool {
        let bytes: Vec<u64> = self.blocks.iter().flat_map(|block| &block.bytes_at).map(|byte| byte.address).collect();
        let distinct: BTreeSet<u64> = bytes.iter().copied().collect();
        let is_register = |block: &Block, offset: u64| {
            block.registers.iter().any(|one| one.offset == Some(offset & !3) && offset % 4 < 2)
        };
        distinct.len() == bytes.len()
            && self.blocks.iter().map(|block| block.stretches().len()).sum::<usize>() <= MAX_STRETCHES
            && bytes.iter().all(|address| AVR_DATA.contains(address))
            && self.blocks.iter().all(|block| block.bytes_at.iter().all(|byte| is_register(block, byte.offset)))
            && if self.is_addition {
                self.memory.is_empty() && self.lines <= MAX_ADDED_LINES
            } else {
                bytes.is_empty()
            }
    }

    /// Whether a RISC-V chip has neither interrupt lines nor two control and status registers of one number.
    fn has_csrs(&self) -> bool {
        let Some(riscv) = &self.riscv else { return true };
        let is_ascending = riscv.csrs.is_sorted_by(|one, next| one.number < next.number);
        is_ascending && riscv.csrs.iter().all(|csr| csr.number < CSRS) && self.lines == 0 && !self.is_addition
    }

    /// Whether the memories behind registers have a size, and their blocks the fields.
    fn has_arrays(&self) -> bool {
        let arrays = self.blocks.iter().flat_map(|block| block.arrays.iter().map(move |array| (block, array)));
        let all_bytes: u64 = arrays.clone().map(|(_, array)| u64::from(array.bytes)).sum();
        all_bytes <= MAX_ARRAYS_BYTES
            && arrays.into_iter().all(|(block, array)| {
                let Array { bytes, reset, in_file: _, contents, address, value, read, write, program, erase } = array;
                (1..=MAX_ARRAY_BYTES).contains(bytes)
                    && *reset < 256
                    && contents.len() <= *bytes as usize
                    && [address, value].into_iter().all(|field| block.has(field))
                    && [read, write, program, erase].into_iter().flatten().all(|field| block.has(field))
            })
    }

    fn is_clock(&self, clock: &Clock) -> bool {
        !clock.sources.is_empty()
            && clock.sources.iter().all(|source| self.has_clock(source.clock))
            && clock.select.iter().chain(&clock.multiply).chain(&clock.divide).all(|factor| self.is_factor(factor))
    }

    fn is_answer(&self, answer: &Answer) -> bool {
        answer.address.is_multiple_of(4)
            && answer.mask != 0
            && answer.value & !answer.mask == 0
            && self.block_at(answer.address).is_some()
    }

    fn is_count(&self, count: &Count) -> bool {
        count.address.is_multiple_of(4) && count.every_insns > 0 && self.block_at(count.address).is_some()
    }

    /// Whether a stimulus sets fields of an existing block.
    fn is_stimulus(&self, stimulus: &Stimulus) -> bool {
        let is_device = |block: &Block, byte: &DeviceByte| {
            let device = block.devices.get(byte.device as usize);
            device.is_some_and(|device| byte.at < device.all_bytes() && byte.value < 256)
        };
        let block = self.blocks.get(stimulus.block as usize);
        block.is_some_and(|block| {
            stimulus.set.iter().all(|setting| block.has(&setting.field))
                && stimulus.devices.iter().all(|byte| is_device(block, byte))
                && stimulus.typed.len() <= crate::input::MAX_BYTES
                && stimulus.frames.len() <= crate::input::MAX_BYTES
                && stimulus.frames.iter().all(Frame::is_sound)
        })
    }

    /// Whether a device has bytes of its own, as many as it says, and a pin that is there.
    fn is_device(&self, device: &BusDevice) -> bool {
        let BusDevice { select, bytes, fill, pointer_bytes, register_bytes, page_bytes, identity, calendar, .. } =
            device;
        let all = device.all_bytes();
        bytes.iter().chain(identity).chain([fill]).all(|&byte| byte < 256)
            && bytes.len() <= MAX_DEVICE_BYTES as usize
            && all <= MAX_DEVICE_BYTES
            && *pointer_bytes <= MAX_POINTER_BYTES
            && *register_bytes <= MAX_POINTER_BYTES
            && (*page_bytes == 0 || all.is_multiple_of(*page_bytes))
            && identity.len() <= MAX_NAME_BYTES
            && (identity.is_empty() || all > 0 && all.is_multiple_of(FLASH_PAGE_BYTES))
            && [0, CALENDAR_FIELDS].contains(&calendar.len())
            && calendar.iter().all(|&at| at < all)
            && device.first_weekday < 2
            && select.as_ref().is_none_or(|pin| {
                let port = self.blocks.get(pin.block as usize).and_then(|block| block.pins.first());
                port.is_some_and(|pins| pin.pin < 32 && pins.level.mask.count_ones() > pin.pin)
            })
    }

    /// Whether a block's rules for other parts of the chip and its surroundings refer to existing parts.
    fn is_outward(&self, block: &Block) -> bool {
        let has = |field: &Field| block.has(field);
        let sets = |settings: &[Setting]| settings.iter().all(|setting| has(&setting.field));
        let has_register = |&register: &u32| (register as usize) < block.registers.len();
        let is_modes = |registers: &[u32], bits: u32, count: u32| {
            matches!(bits, 1 | 2 | 4)
                && registers.iter().all(has_register)
                && registers.len() as u32 * 32 / bits >= count
        };
        block.pins.iter().all(|pins| {
            let count = pins.level.mask.count_ones();
            [&pins.level, &pins.driven, &pins.outside]
                .into_iter()
                .all(|field| has(field) && field.mask.count_ones() == count)
                && pins
                    .pulled
                    .iter()
                    .chain(&pins.connected)
                    .all(|field| has(field) && field.mask.count_ones() == count)
                && is_modes(&pins.modes, pins.mode_bits, count)
                && (pins.pulls.is_empty() || is_modes(&pins.pulls, pins.pull_bits, count))
        }) && block.edges.iter().all(|edge| {
            edge.ports.iter().flatten().all(|&port| self.blocks.get(port as usize).is_some())
                && edge.port.iter().all(|port| self.is_factor(port))
                && edge.pin_field.iter().all(has)
                && has(&edge.rising)
                && has(&edge.falling)
                && sets(&edge.when)
                && sets(&edge.set)
        }) && block.channels.iter().all(|channel| {
            channel.ends.len() == 2
                && channel.ends.iter().all(|end| has(&end.address) && has(&end.steps) && self.is_factor(&end.item))
                && has(&channel.count)
                && channel.circular.iter().chain(&channel.chain).all(has)
                && [&channel.running, &channel.reversed, &channel.free, &channel.half, &channel.set, &channel.failed]
                    .into_iter()
                    .chain([&channel.begin])
                    .all(|settings| sets(settings))
        }) && block.samplers.iter().all(|sampler| {
            [&sampler.start, &sampler.pointer, &sampler.count, &sampler.amount].into_iter().all(has)
                && sampler.selects.iter().chain(&sampler.inputs).all(has)
                && [&sampler.running, &sampler.done, &sampler.full].into_iter().all(|settings| sets(settings))
        }) && block
            .connections
            .iter()
            .all(|connection| [&connection.enabled, &connection.event].into_iter().chain(&connection.tasks).all(has))
            && block.requests.iter().all(|request| has_register(&request.register) && sets(&request.when))
            && block.buses.iter().all(|bus| {
                has(&bus.send)
                    && has(&bus.receive)
                    && [&bus.address, &bus.reads, &bus.begin, &bus.count, &bus.reload].into_iter().flatten().all(has)
                    && bus.begin.as_ref().is_none_or(|begin| {
                        let is_there = |field: &&Field| field.register == begin.register;
                        bus.address
                            .iter()
                            .chain(&bus.reads)
                            .chain(&bus.count)
                            .chain(&bus.reload)
                            .all(|field| is_there(&field))
                    })
                    && (bus.begin.is_some() || bus.count.is_none())
                    && [&bus.when, &bus.addresses, &bus.writing, &bus.reading, &bus.absent, &bus.wanted, &bus.offered]
                        .into_iter()
                        .chain(bus.ends.iter().flat_map(|end| [&end.when, &end.set]))
                        .all(|settings| sets(settings))
            })
            && block.devices.iter().all(|device| self.is_device(device))
            && block.cans.iter().all(|can| self.is_can(block, can))
            && block.can_answers.iter().all(|answer| answer.to.is_sound() && answer.with.is_sound())
    }

    /// Whether a CAN controller's rules refer to existing parts.
    fn is_can(&self, block: &Block, can: &Can) -> bool {
        let has = |field: &Field| block.has(field);
        let sets = |settings: &[Setting]| settings.iter().all(|setting| has(&setting.field));
        let is_frame = |frame: &FrameAt| {
            let FrameAt { standard, extended, is_extended, remote, length, data } = frame;
            [standard, extended, is_extended, remote, length].into_iter().chain(data).all(has)
        };
        [&can.when, &can.loops, &can.silent, &can.in_order, &can.asleep, &can.woken, &can.received]
            .into_iter()
            .all(|settings| sets(settings))
            && self.has_clock(Some(can.clock))
            && can.divide.iter().chain(&can.segments).all(|factor| self.is_factor(factor))
            && can.free.iter().chain(&can.resets).all(has)
            && can.mailboxes.len().max(can.queues.len()) <= can::MAX_MAILBOXES
            && can.mailboxes.iter().all(|mailbox| {
                has(&mailbox.request)
                    && is_frame(&mailbox.frame)
                    && mailbox.abort.iter().chain(&mailbox.last).all(has)
                    && [&mailbox.begin, &mailbox.sent, &mailbox.aborted].into_iter().all(|settings| sets(settings))
            })
            && can.queues.iter().all(|queue| {
                is_frame(&queue.frame)
                    && queue.filter.iter().chain([&queue.level, &queue.release]).all(has)
                    && (1..=can::MAX_DEPTH).contains(&queue.depth)
                    && [&queue.full, &queue.keeps, &queue.lost].into_iter().all(|settings| sets(settings))
            })
            && can.filters.iter().all(|filters| self.is_filters(filters))
    }

    /// Whether the registers of filters exist.
    fn is_filters(&self, filters: &can::Filters) -> bool {
        let Some(block) = self.blocks.get(filters.block as usize) else { return false };
        let mut registers = [filters.active, filters.list, filters.wide, filters.queue].into_iter();
        let has = |register: u32| (register as usize) < block.registers.len();
        registers.all(has)
            && filters.words.iter().all(|&register| has(register))
            && filters.words.len().is_multiple_of(2)
            && filters.words.len() <= 2 * can::MAX_BANKS
            && filters.off.iter().all(|setting| block.has(&setting.field))
            && filters.split.iter().all(|field| block.has(field))
    }

    fn has_clock(&self, clock: Option<u32>) -> bool {
        clock.is_none_or(|clock| (clock as usize) < self.clocks.len())
    }

    fn is_factor(&self, factor: &Factor) -> bool {
        self.blocks.get(factor.block as usize).is_some_and(|block| block.has(&factor.field))
    }

    fn is_counter(&self, block: &Block, counter: &Counter) -> bool {
        let has = |field: &Field| block.has(field);
        let sets = |settings: &[Setting]| settings.iter().all(|setting| has(&setting.field));
        let optional =
            [&counter.value, &counter.upper, &counter.reload, &counter.clear, &counter.once, &counter.two_way];
        let mut factors = counter.divide.iter().chain(&counter.width);
        optional.into_iter().flatten().all(has)
            && counter.running.iter().all(has)
            && self.has_clock(Some(counter.clock))
            && factors.all(|factor| self.is_factor(factor))
            && (1..=64).contains(&counter.bits)
            && sets(&counter.overflow)
            && counter.compares.iter().all(|compare| {
                let optional = [&compare.enabled, &compare.clears, &compare.stops, &compare.capture];
                has(&compare.value) && optional.into_iter().flatten().all(has) && sets(&compare.set)
            })
    }

    fn is_block(&self, block: &Block) -> bool {
        let Block { registers, counters, ports, transfers, flashes, .. } = block;
        let has = |field: &Field| block.has(field);
        let all = |fields: &[Field]| fields.iter().all(has);
        let sets = |settings: &[Setting]| settings.iter().all(|setting| has(&setting.field));
        let register = |index: &Option<u32>| index.is_none_or(|index| (index as usize) < registers.len());
        block.bytes <= MAX_BLOCK_BYTES
            && self.is_outward(block)
            && registers.iter().all(|one| {
                one.offset.is_none_or(|offset| offset.is_multiple_of(4) && offset + 4 <= block.bytes)
                    && [&one.sets, &one.clears, &one.toggles, &one.upper_clears, &one.reads].into_iter().all(register)
                    && one.all_of.iter().all(|&index| (index as usize) < registers.len())
            })
            && block.fed_by.iter().all(has)
            && block.follows.iter().all(|follow| has(&follow.target) && has(&follow.source))
            && block.triggers.iter().all(|trigger| {
                has(&trigger.field)
                    && sets(&trigger.set)
                    && sets(&trigger.when)
                    && trigger.copies.iter().all(|copied| has(&copied.to) && has(&copied.from))
            })
            && counters.iter().all(|counter| self.is_counter(block, counter))
            && ports.iter().all(|port| {
                port.send.iter().chain(&port.receive).all(has)
                    && all(&port.sending)
                    && all(&port.receiving)
                    && sets(&port.received)
                    && sets(&port.empty)
                    && sets(&port.idle)
            })
            && transfers.iter().all(|transfer| {
                let fields = [&transfer.start, &transfer.pointer, &transfer.count];
                fields.into_iter().chain(&transfer.stop).chain(&transfer.amount).all(has)
                    && sets(&transfer.set)
                    && sets(&transfer.stopped)
                    && sets(&transfer.byte)
            })
            && flashes.iter().all(|flash| {
                let memory = self.memory.get(flash.memory as usize);
                memory.is_some_and(|memory| memory.is_flash && memory.alias_of.is_none())
                    && sets(&flash.programs)
                    && sets(&flash.programmed)
                    && flash.erases.iter().all(|erase| {
                        has(&erase.start)
                            && sets(&erase.when)
                            && erase.page.iter().all(has)
                            && sets(&erase.set)
                            && erase.page_bytes.iter().all(|&bytes| bytes > 0)
                    })
            })
            && block.randoms.iter().all(|random| has(&random.value))
            && block.dividers.iter().all(|divider| {
                [divider.dividend, divider.divisor, divider.quotient, divider.remainder]
                    .into_iter()
                    .all(|index| register(&Some(index)))
            })
            && block.watchdogs.iter().all(|watchdog| {
                sets(&watchdog.running)
                    && sets(&watchdog.feed)
                    && has(&watchdog.reload)
                    && self.has_clock(Some(watchdog.clock))
                    && watchdog.divide.iter().all(|factor| self.is_factor(factor))
            })
            && block.interrupts.iter().all(|interrupt| {
                interrupt.line < MAX_LINES
                    && interrupt.causes.iter().all(|cause| has(&cause.status) && cause.enable.iter().all(has))
                    && sets(&interrupt.taken)
            })
    }
}

impl Memory {
    fn has_words(&self) -> bool {
        self.words
            .iter()
            .all(|word| word.offset % 4 == 0 && word.offset < self.bytes && self.bytes - word.offset >= 4)
    }
}

impl Block {
    /// Offset of the register's word that an offset reaches, and the number of its alias: 0 is the register itself.
    pub fn reached(&self, offset: u64) -> (u64, u64) {
        let word = offset & !3;
        self.period_bytes().map_or((word, 0), |period| (word % period, word / period))
    }

    /// Stretches of the data space whose bytes are registers of the block, ascending.
    pub fn stretches(&self) -> Vec<Range<u64>> {
        let addresses: BTreeSet<u64> = self.bytes_at.iter().map(|byte| byte.address).collect();
        let mut stretches: Vec<Range<u64>> = Vec::new();
        for address in addresses {
            match stretches.last_mut() {
                Some(last) if last.end == address => last.end += 1,
                _ => stretches.push(address..address + 1),
            }
        }
        stretches
    }

    /// Bytes after which the registers repeat as aliases; None: they do not.
    fn period_bytes(&self) -> Option<u64> {
        self.has_atomic_aliases.then_some(self.bytes / 4)
    }

    /// Whether the aliases have room for registers of their own.
    fn has_whole_aliases(&self) -> bool {
        self.period_bytes().is_none_or(|period| self.bytes.is_power_of_two() && period >= 4)
    }

    fn has(&self, field: &Field) -> bool {
        let shifted = field.mask >> field.mask.trailing_zeros().min(31);
        let is_contiguous = shifted & shifted.wrapping_add(1) == 0;
        (field.register as usize) < self.registers.len() && field.mask != 0 && is_contiguous
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::Record;
    use crate::varint::Reader;

    fn field(register: u32) -> Field {
        Field { register, mask: 0xff00 }
    }

    fn setting() -> Setting {
        Setting { field: field(0), value: 3 }
    }

    fn factor() -> Factor {
        Factor { block: 0, field: field(1), plus: 1, map: vec![2, 4], is_power: false }
    }

    /// A block that has one of each.
    fn block() -> Block {
        let register = |name: &str, offset| Register {
            name: name.into(),
            offset,
            reset: 0x83,
            sets: Some(1),
            all_of: vec![0],
            ..Register::default()
        };
        Block {
            name: "RCC".into(),
            start: 0x4002_3800,
            bytes: 0x400,
            has_atomic_aliases: false,
            registers: vec![register("CR", Some(0)), register("hidden", None)],
            follows: vec![Follow {
                target: field(0),
                source: field(1),
                after_insns: 100,
                is_inverted: false,
                is_idle: true,
            }],
            triggers: vec![Trigger {
                field: field(0),
                value: Some(1),
                by_any: false,
                is_read: false,
                when: vec![setting()],
                after_insns: 3,
                copies: vec![Copied { to: field(0), from: field(1) }],
                set: vec![setting()],
            }],
            counters: vec![Counter {
                value: Some(field(0)),
                running: vec![field(1)],
                divide: vec![factor()],
                bits: 16,
                overflow: vec![setting()],
                compares: vec![Compare { value: field(0), set: vec![setting()], ..Compare::default() }],
                ..Counter::default()
            }],
            ports: vec![Port { send: Some(field(0)), received: vec![setting()], ..Port::default() }],
            transfers: vec![Transfer {
                start: field(0),
                pointer: field(1),
                count: field(0),
                set: vec![setting()],
                ..Transfer::default()
            }],
            flashes: vec![Flash {
                memory: 0,
                programs: vec![setting()],
                programmed: vec![],
                erases: vec![Erase {
                    start: field(0),
                    page: Some(field(0)),
                    page_bytes: vec![4],
                    ..Erase::default()
                }],
            }],
            randoms: vec![Random { value: field(1) }],
            dividers: vec![Divider { divisor: 1, is_signed: true, ..Divider::default() }],
            watchdogs: vec![Watchdog {
                running: vec![setting()],
                clock: 0,
                divide: vec![factor()],
                reload: field(0),
                feed: vec![setting()],
            }],
            interrupts: vec![Interrupt {
                line: 37,
                causes: vec![Cause { status: field(0), enable: Some(field(1)), is_inverted: true }],
                taken: vec![setting()],
            }],
            ..outward_block()
        }
    }

    /// A block that has one of each rule for other parts of the chip and its surroundings.
    fn outward_block() -> Block {
        Block {
            pins: vec![Pins {
                level: field(0),
                driven: field(1),
                outside: field(1),
                modes: vec![0],
                mode_bits: 2,
                outputs: 2,
                pulls: vec![1],
                pull_bits: 2,
                pull_ups: 1 << 1,
                pulled: Some(field(0)),
                connected: Some(field(1)),
            }],
            edges: vec![Edge {
                ports: vec![Some(0), None],
                port: Some(factor()),
                rising: field(0),
                falling: field(1),
                set: vec![setting()],
                ..Edge::default()
            }],
            channels: vec![Channel {
                running: vec![setting()],
                count: field(0),
                ends: vec![end(), end()],
                ..Channel::default()
            }],
            requests: vec![Request { register: 1, is_read: true, when: vec![setting()] }],
            buses: vec![Bus {
                when: vec![setting()],
                send: field(0),
                receive: field(0),
                address: Some(field(0)),
                begin: Some(field(0)),
                count: Some(field(0)),
                reload: Some(field(0)),
                wanted: vec![setting()],
                ends: vec![BusEnd { when: vec![setting()], set: vec![setting()] }],
                ..Bus::default()
            }],
            devices: vec![BusDevice {
                address: 0x68,
                select: Some(PinAt { block: 0, pin: 3 }),
                bytes: vec![0x71],
                size: 512,
                fill: 0xff,
                pointer_bytes: 2,
                register_bytes: 1,
                page_bytes: 32,
                busy_ns: 5_000_000,
                identity: vec![0xef, 0x40, 0x18],
                calendar: vec![0, 1, 2, 3, 4, 5, 6],
                first_weekday: 1,
            }],
            cans: vec![can()],
            can_answers: vec![CanAnswer { to: frame(), with: frame(), after_ns: 1000 }],
            arrays: vec![array()],
            fed_by: Some(field(0)),
            ..Block::default()
        }
    }

    fn frame() -> Frame {
        Frame { id: 0x123, length: 2, data: 0x2211, ..Frame::default() }
    }

    fn can() -> Can {
        let at = || FrameAt {
            standard: field(0),
            extended: field(0),
            is_extended: field(0),
            remote: field(0),
            length: field(0),
            data: vec![field(1)],
        };
        Can {
            when: vec![setting()],
            segments: vec![factor()],
            free: Some(field(0)),
            mailboxes: vec![can::Mailbox { request: field(0), frame: at(), ..can::Mailbox::default() }],
            queues: vec![can::Queue {
                frame: at(),
                filter: Some(field(0)),
                level: field(0),
                depth: 3,
                release: field(0),
                ..can::Queue::default()
            }],
            filters: Some(can::Filters {
                active: 1,
                words: vec![0, 1],
                split: Some(field(0)),
                ..can::Filters::default()
            }),
            ..Can::default()
        }
    }

    fn array() -> Array {
        let (address, value) = (field(0), field(1));
        Array { bytes: 1024, reset: 0xff, address, value, read: Some(field(1)), ..Array::default() }
    }

    #[test]
    fn a_memory_behind_registers_has_a_size_and_its_fields() {
        let with = |array: Array| {
            let blocks = vec![Block { arrays: vec![array], ..block() }];
            Chip { blocks, ..full() }.check()
        };
        assert_eq!(with(array()), Ok(()));
        let absent = || Field { register: 99, mask: 1 };
        for broken in [
            Array { bytes: 0, ..array() },
            Array { bytes: MAX_ARRAY_BYTES + 1, ..array() },
            Array { reset: 256, ..array() },
            Array { contents: vec![0; 1025], ..array() },
            Array { address: absent(), ..array() },
            Array { erase: Some(absent()), ..array() },
        ] {
            assert_eq!(with(broken), Err("chip's arrays"));
        }
        let many = vec![Array { bytes: MAX_ARRAY_BYTES, ..array() }; 17];
        let chip = Chip { blocks: vec![Block { arrays: many, ..block() }], ..full() };
        assert_eq!(chip.check(), Err("chip's arrays"));
    }

    fn end() -> ChannelEnd {
        ChannelEnd { address: field(0), item: factor(), steps: field(1) }
    }

    #[test]
    fn a_byte_of_the_data_space_is_one_register_of_an_addition() {
        let byte = |address, offset| ByteAt { address, offset };
        let with = |bytes_at: &[ByteAt], is_addition| {
            let memory = if is_addition { Vec::new() } else { full().memory };
            let blocks = vec![Block { bytes_at: bytes_at.to_vec(), flashes: Vec::new(), ..block() }];
            Chip { memory, blocks, is_addition, lines: MAX_ADDED_LINES, ..full() }
        };
        let offset = block().registers[0].offset.unwrap();
        assert_eq!(with(&[byte(0x80_0044, offset)], true).check(), Ok(()));
        assert_eq!(with(&[byte(0x80_0044, offset), byte(0x80_0044, offset)], true).check(), Err("chip's bytes"));
        assert_eq!(with(&[byte(0x80_0044, offset)], false).check(), Err("chip's bytes"));
        let many = Chip { lines: MAX_ADDED_LINES + 1, ..with(&[], true) };
        assert_eq!(many.check(), Err("chip's bytes"));
        assert_eq!(with(&[byte(0x80_0044, offset), byte(0x80_0045, offset + 1)], true).check(), Ok(()));
        assert_eq!(with(&[byte(0x80_0044, offset + 2)], true).check(), Err("chip's bytes"));
        let stretches =
            |count: u64| -> Vec<ByteAt> { (0..count).map(|at| byte(0x80_0020 + 2 * at, offset)).collect() };
        assert_eq!(with(&stretches(MAX_STRETCHES as u64), true).check(), Ok(()));
        assert_eq!(with(&stretches(MAX_STRETCHES as u64 + 1), true).check(), Err("chip's bytes"));
        assert_eq!(with(&[byte(AVR_DATA.end, offset)], true).check(), Err("chip's bytes"));
    }

    #[test]
    fn registers_of_a_risc_v_processor_are_in_order_and_there_are_no_lines() {
        let csr = |number| Csr { number, reset: u32::MAX, has_cycles: number == 1 };
        let with = |csrs: Vec<Csr>| Chip { riscv: Some(Riscv { hz: 1 << 40, csrs }), ..Chip::default() };
        let chip = with(vec![csr(1), csr(CSRS - 1)]);
        assert_eq!(chip.check(), Ok(()));
        assert_eq!(Chip::read(&mut Reader::new(&chip.to_bytes(), "chip")), Ok(chip.clone()));
        let wrong = Err("chip's control and status registers");
        assert_eq!(with(vec![csr(1), csr(1)]).check(), wrong);
        assert_eq!(with(vec![csr(CSRS)]).check(), wrong);
        assert_eq!(Chip { lines: 1, ..chip.clone() }.check(), wrong);
        assert_eq!(Chip { is_addition: true, ..chip }.check(), wrong);
    }

    /// A chip that has one of each.
    pub(crate) fn full() -> Chip {
        Chip {
            name: "stm32f407".into(),
            memory: vec![
                Memory {
                    name: "flash".into(),
                    start: 0x800_0000,
                    bytes: 1 << 20,
                    is_flash: true,
                    words: vec![Word { offset: 0x204, value: 18 }],
                    ..Memory::default()
                },
                Memory {
                    name: "boot".into(),
                    start: 0,
                    bytes: 1 << 20,
                    is_flash: true,
                    alias_of: Some(0),
                    ..Memory::default()
                },
            ],
            blocks: vec![block()],
            lines: 82,
            priority_bits: 4,
            clocks: vec![Clock {
                name: "pll".into(),
                sources: vec![Source { hz: 8_000_000, clock: None }, Source { hz: 0, clock: Some(0) }],
                select: Some(factor()),
                multiply: vec![factor()],
                divide: vec![],
            }],
            cpu_clock: Some(0),
            systick_clock: None,
            insn_shift: 3,
            seed: 1,
            answers: vec![Answer { address: 0x4002_3800, mask: 0x300, value: 0x100 }],
            pulses: vec![Pulse {
                line: 3,
                every_insns: 1000,
                sets: vec![Answer { address: 0x4002_3804, mask: 1, value: 1 }],
            }],
            counts: vec![Count { address: 0x4002_3804, every_insns: 8 }],
            stimuli: vec![Stimulus {
                step: Some(2),
                at_insns: 1000,
                at_ns: 7,
                block: 0,
                set: vec![setting()],
                devices: vec![DeviceByte { device: 0, at: 3, value: 9 }],
                typed: b"$GPGGA".to_vec(),
                frames: vec![frame()],
            }],
            poll_limit: 16,
            passed: vec![0x800_0100],
            is_addition: false,
            riscv: None,
        }
    }

    #[test]
    fn chips_survive_the_wire() {
        for chip in [Chip::default(), full()] {
            let out = chip.to_bytes();
            assert_eq!(record::rest(&mut Reader::new(&out, "chip")), Ok(chip.clone()));
            assert_eq!(chip.check(), Ok(()));
            for cut in 0..out.len() {
                assert!(Chip::read(&mut Reader::new(&out[..cut], "chip")).is_err(), "cut at {cut}");
            }
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        type Change = fn(&mut Chip);
        let changes: [Change; 71] = [
            |chip| chip.counts[0].address += 2,
            |chip| chip.counts[0].address = 0x5000_0000,
            |chip| chip.counts[0].every_insns = 0,
            |chip| chip.memory[0].words[0].offset = 1 << 20,
            |chip| chip.memory[1].start = 0x801_0000,
            |chip| chip.memory[1].bytes += 1,
            |chip| chip.memory[1].alias_of = Some(1),
            |chip| chip.memory[0].bytes = 0,
            |chip| chip.memory[0].name = "z\n  0000000040000000-00000000400003ff (prio 0, ram): f".into(),
            |chip| chip.blocks[0].name = "::error::x".into(),
            |chip| chip.lines = 1000,
            |chip| chip.cpu_clock = Some(9),
            |chip| chip.clocks[0].sources.clear(),
            |chip| chip.clocks[0].multiply[0].block = 1,
            |chip| chip.blocks[0].registers[0].offset = Some(0x400),
            |chip| (chip.blocks[0].has_atomic_aliases, chip.blocks[0].bytes) = (true, 0x300),
            |chip| chip.blocks[0].follows[0].target.register = 2,
            |chip| chip.blocks[0].follows[0].target.mask = 0b101,
            |chip| chip.blocks[0].flashes[0].memory = 1,
            |chip| chip.blocks[0].counters[0].bits = 0,
            |chip| chip.blocks[0].interrupts[0].line = 10_000,
            |chip| chip.answers[0].address = 0x5000_0000,
            |chip| chip.answers[0].value = 0x400,
            |chip| chip.pulses[0].line = 10_000,
            |chip| chip.pulses[0].every_insns = 1,
            |chip| chip.stimuli[0].block = 1,
            |chip| chip.stimuli[0].set[0].field.register = 2,
            |chip| chip.blocks[0].pins[0].mode_bits = 3,
            |chip| chip.blocks[0].pins[0].driven.mask = 0xf00,
            |chip| chip.blocks[0].pins[0].pull_bits = 3,
            |chip| (chip.blocks[0].pins[0].pulls, chip.blocks[0].pins[0].pull_bits) = (vec![2], 2),
            |chip| chip.blocks[0].edges[0].ports = vec![Some(1)],
            |chip| chip.blocks[0].channels[0].ends.truncate(1),
            |chip| chip.blocks[0].requests[0].register = 2,
            |chip| chip.blocks[0].devices[0].bytes[0] = 256,
            |chip| chip.blocks[0].devices[0].fill = 256,
            |chip| chip.blocks[0].devices[0].identity[0] = 256,
            |chip| chip.blocks[0].devices[0].size = MAX_DEVICE_BYTES + 256,
            |chip| chip.blocks[0].devices[0].size = 500,
            |chip| chip.blocks[0].devices[0].page_bytes = 33,
            |chip| chip.blocks[0].devices[0].pointer_bytes = MAX_POINTER_BYTES + 1,
            |chip| chip.blocks[0].devices[0].register_bytes = MAX_POINTER_BYTES + 1,
            |chip| chip.blocks[0].devices[0].first_weekday = 2,
            |chip| chip.blocks[0].devices[0].calendar[6] = 512,
            |chip| chip.blocks[0].devices[0].calendar.truncate(6),
            |chip| chip.blocks[0].devices[0].select = Some(PinAt { block: 9, pin: 0 }),
            |chip| chip.blocks[0].devices[0].select = Some(PinAt { block: 0, pin: 32 }),
            |chip| chip.stimuli = vec![chip.stimuli[0].clone(); MAX_STIMULI + 1],
            |chip| chip.stimuli[0].devices[0].device = 1,
            |chip| chip.stimuli[0].devices[0].at = 512,
            |chip| chip.stimuli[0].devices[0].value = 256,
            |chip| chip.blocks[0].buses[0].receive.register = 2,
            |chip| chip.blocks[0].buses[0].begin = None,
            |chip| chip.blocks[0].buses[0].count.as_mut().unwrap().register = 1,
            |chip| chip.blocks[0].buses[0].ends[0].set[0].field.register = 2,
            |chip| chip.blocks[0].cans[0].when[0].field.register = 2,
            |chip| chip.blocks[0].cans[0].woken = vec![Setting { field: field(2), value: 1 }],
            |chip| chip.blocks[0].cans[0].resets = Some(field(2)),
            |chip| chip.blocks[0].cans[0].mailboxes[0].last = Some(field(2)),
            |chip| chip.blocks[0].cans[0].clock = 1,
            |chip| chip.blocks[0].cans[0].segments[0].block = 1,
            |chip| chip.blocks[0].cans[0].mailboxes[0].frame.data[0].register = 2,
            |chip| chip.blocks[0].cans[0].mailboxes[0].request.register = 2,
            |chip| chip.blocks[0].cans[0].queues[0].depth = 0,
            |chip| chip.blocks[0].cans[0].queues[0].level.register = 2,
            |chip| chip.blocks[0].cans[0].filters.as_mut().unwrap().block = 1,
            |chip| chip.blocks[0].cans[0].filters.as_mut().unwrap().list = 2,
            |chip| chip.blocks[0].cans[0].filters.as_mut().unwrap().words.truncate(1),
            |chip| chip.blocks[0].can_answers[0].to.id = 0x800,
            |chip| chip.blocks[0].can_answers[0].with.length = 9,
            |chip| chip.stimuli[0].frames[0].data = 0x33_2211,
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut chip = full();
            change(&mut chip);
            assert!(chip.check().is_err(), "change {index}");
        }
    }

    #[test]
    fn more_ranges_than_qemu_has_room_for_are_refused() {
        let ranges = |count: u64, bytes: u64, step: u64| -> Vec<(u64, u64)> {
            (0..count).map(|index| (index * step, index * step + bytes)).collect()
        };
        // Whole pages side by side: one section each.
        assert!(fit_sections(&ranges(896, 1024, 1024)) && !fit_sections(&ranges(897, 1024, 1024)));
        // Whole pages with gaps: two each.
        assert!(fit_sections(&ranges(448, 1024, 2048)) && !fit_sections(&ranges(450, 1024, 2048)));
        // Parts of a page each, with a gap of a part and whole pages: five with the page's own.
        assert!(fit_sections(&ranges(170, 4, 8192)) && !fit_sections(&ranges(300, 4, 8192)));
        // Neighbours in the same pages: a little more than one each.
        assert!(fit_sections(&ranges(800, 16, 16)) && !fit_sections(&ranges(900, 16, 16)));
    }

    #[test]
    fn a_region_leads_to_its_block() {
        let chip = full();
        let name = |region: &str| chip.block_of_region(region).map(|block| block.name.as_str());
        assert_eq!(name(&block_region(0)), Some("RCC"));
        for region in ["RCC", "harness-block-", "harness-block-9", &memory_region(0)] {
            assert_eq!(name(region), None, "{region}");
        }
    }

    #[test]
    fn a_polled_register_survives_the_wire() {
        let polled = Polled {
            pc: 0x800_0100,
            address: 0x4002_3800,
            value: 0x83,
            insns: 1000,
            registers: (0..15).collect(),
            memory: vec![Contents { start: 0x2000_0000, words: vec![1, u32::MAX] }],
        };
        let bytes = polled.to_bytes();
        assert_eq!(Polled::from_bytes(&bytes), Ok(polled.clone()));
        assert!(Polled::from_bytes(&bytes[..bytes.len() - 1]).is_err());
        assert!(Polled::from_bytes(&Polled { registers: vec![], ..polled }.to_bytes()).is_err());
    }

    #[test]
    fn accesses_are_read_and_checked() {
        let access = Access {
            address: 0x4000_4400,
            pc: 0x800_0100,
            reads: 3,
            writes: 1,
            first_insns: 10,
            last_insns: 40,
            polls: 2,
            poll_insns: 20,
            ending_bits: 0x80,
        };
        let table = |access: Access| {
            let mut bytes: Vec<u8> = access.to_words().into_iter().flat_map(u64::to_le_bytes).collect();
            bytes.resize(ACCESS_BYTES, 0);
            bytes
        };
        assert_eq!(accesses(&table(access)), Ok(vec![access]));
        assert!(accesses(&table(access)[1..]).is_err());
        let bad = [
            Access { reads: 0, writes: 0, polls: 0, ..access },
            Access { polls: 4, ..access },
            Access { first_insns: 41, ..access },
            Access { poll_insns: 41, ..access },
            Access { ending_bits: 1 << 32, ..access },
        ];
        for access in bad {
            assert!(accesses(&table(access)).is_err(), "{access:?}");
        }
    }

    #[test]
    fn the_table_of_accesses_is_read_and_checked() {
        let mut bytes = vec![0; TABLE_BYTES];
        assert_eq!(unmodelled(&bytes), Ok(vec![]));
        for (word, value) in bytes.as_chunks_mut().0.iter_mut().zip([0x4000_0001u64, 0x100, 3, 0]) {
            *word = value.to_le_bytes();
        }
        assert_eq!(unmodelled(&bytes), Ok(vec![Unmodelled { address: 0x4000_0000, pc: 0x100, reads: 3, writes: 0 }]));
        assert!(unmodelled(&bytes[1..]).is_err());
        bytes[16] = 0;
        assert!(unmodelled(&bytes).is_err(), "an access that was none");
    }
}
