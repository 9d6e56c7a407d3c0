//! A real chip as the plugin completes a base machine to it: memory, register blocks, clocks and interrupts.
//!
//! These are the rules of a chip file, resolved: names are indices, arrays are written out, every field is a mask. Nothing
//! in here is any one chip's. The registers of a block are 32 bits wide.
//!
//! Beside the request there is one file, [`FILE_NAME`]: a table of fixed size of the accesses that nothing in the chip file
//! models, which the plugin fills in as they happen.

use crate::Malformed;
use crate::varint::{self, Reader};

/// Name of the file with the accesses that nothing models.
pub const FILE_NAME: &str = "unmodelled";

/// Rows of that file. What comes when all are taken is only counted, in the last row.
pub const ROWS: usize = 1024;

/// Words of a row: address + 1, pc, reads, writes.
pub const ROW_WORDS: usize = 4;

/// Size of that file in bytes.
pub const TABLE_BYTES: usize = ROWS * ROW_WORDS * 8;

/// The last row's address: accesses that found no row.
pub const OTHERS: u64 = u64::MAX - 1;

/// The address of the row before it: a watchdog has run out, so often as it was "written". Its "pc" is the watchdog's
/// address.
pub const BITES: u64 = u64::MAX - 2;

/// The address of the row before that: the firmware has accessed addresses at which the chip has nothing. Its "pc" is the
/// first of them.
pub const ABSENT: u64 = u64::MAX - 3;

/// Above all addresses: the row of an answer or a pulse, of which this is the first, counts how often it was given. Pulses
/// come behind the answers.
pub const FIRST_RULE: u64 = 1 << 40;

/// The row of the first answer or pulse.
pub const FIRST_RULE_ROW: usize = ROWS - SPECIAL_ROWS;

/// Most answers and pulses of one chip.
pub const MAX_RULES: usize = 256;

/// Rows at the end that do not belong to one register each.
pub const SPECIAL_ROWS: usize = MAX_RULES + 3;

/// Name of the file with the state at a polled register.
pub const POLLED: &str = "polled";

/// Name of the file with the interrupt lines that the firmware has enabled, of a run with [`Chip::poll_limit`]: a bit each, in
/// words of 32 as NVIC has them.
pub const ENABLED: &str = "enabled";

/// Words of that file.
pub const ENABLED_WORDS: usize = 15;

/// Registers of [`Polled`].
pub const REGISTERS: usize = 15;

/// Fewest instructions from one pulse to the next.
pub const MIN_PULSE_INSNS: u64 = 100;

/// Most bytes of memory of one chip: the host gives them.
pub const MAX_MEMORY_BYTES: u64 = 256 << 20;

/// Largest register block.
pub const MAX_BLOCK_BYTES: u64 = 1 << 28;

/// Largest register file, of which every register is kept.
pub const MAX_REGISTERS: usize = 1 << 16;

/// Most interrupt lines of a processor, of all that QEMU has room for.
pub const MAX_LINES: u32 = 480;

/// An access that nothing models: that nobody has described, or of a register that is only memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unmodelled {
    /// Address that was accessed.
    pub address: u64,
    /// First instruction that did.
    pub pc: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
}

/// Reads the table of [`FILE_NAME`].
///
/// # Errors
/// When it has another size, or a row that cannot be.
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

/// A value that is written in the request and read from it.
trait Record: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// Name, in errors, of what a request holds of a chip.
const WHAT: &str = "request's chip";

impl Record for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, *self);
    }
    fn read(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
        reader.varint(WHAT)
    }
}

impl Record for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, (*self).into());
    }
    fn read(reader: &mut Reader<'_>) -> Result<u32, Malformed> {
        let offset = reader.offset;
        u32::try_from(reader.varint(WHAT)?).map_err(|_| Malformed { what: WHAT, offset })
    }
}

impl Record for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push((*self).into());
    }
    fn read(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
        let offset = reader.offset;
        match reader.byte(WHAT)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed { what: WHAT, offset }),
        }
    }
}

impl Record for String {
    fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, self.len() as u64);
        out.extend_from_slice(self.as_bytes());
    }
    fn read(reader: &mut Reader<'_>) -> Result<String, Malformed> {
        let offset = reader.offset;
        let length = reader.varint(WHAT)?;
        let text = std::str::from_utf8(reader.bytes(length, WHAT)?);
        text.map(str::to_owned).map_err(|_| Malformed { what: WHAT, offset })
    }
}

impl<T: Record> Record for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(item) = self {
            item.put(out);
        }
    }
    fn read(reader: &mut Reader<'_>) -> Result<Option<T>, Malformed> {
        if bool::read(reader)? { T::read(reader).map(Some) } else { Ok(None) }
    }
}

impl<T: Record> Record for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, self.len() as u64);
        self.iter().for_each(|item| item.put(out));
    }
    /// Each item takes at least a byte, so that a damaged length ends at the end of the file.
    fn read(reader: &mut Reader<'_>) -> Result<Vec<T>, Malformed> {
        let count = reader.varint(WHAT)?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(T::read(reader)?);
        }
        Ok(items)
    }
}

/// A structure whose members are written one behind the other, in this order.
macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $($(#[$member_doc:meta])* $member:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$member_doc])* pub $member: $type,)* }

        impl Record for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$member.put(out);)*
            }
            fn read(reader: &mut Reader<'_>) -> Result<$name, Malformed> {
                Ok($name { $($member: Record::read(reader)?,)* })
            }
        }
    };
}

record! {
    /// A chip, and what of the base machine is changed for it.
    Chip {
        /// Its name, for messages.
        name: String,
        /// Memory, in ascending order.
        memory: Vec<Memory>,
        /// Register blocks, in ascending order. What lies in neither faults.
        blocks: Vec<Block>,
        /// Interrupt lines of the processor; 0: as the base machine has.
        lines: u32,
        /// Bits of an interrupt's priority; 0: as the base machine has.
        priority_bits: u32,
        /// The clocks, each after those that it is made from or not: they may depend on one another in circles, and are
        /// looked at in this order.
        clocks: Vec<Clock>,
        /// The clock that the processor and SysTick count.
        cpu_clock: Option<u32>,
        /// SysTick's external clock.
        systick_clock: Option<u32>,
        /// An instruction takes 2^shift ns.
        insn_shift: u32,
        /// Seed of the random generators.
        seed: u64,
        /// Answers to firmware that polls a register.
        answers: Vec<Answer>,
        /// Interrupts that come again and again by themselves.
        pulses: Vec<Pulse>,
        /// Equal reads of a register by one instruction, with no device written to between them, that end the run and leave
        /// a [`Polled`]; 0: none do.
        poll_limit: u32,
        /// Instructions that may read as often as they like.
        passed: Vec<u64>,
    }
}

record! {
    /// An answer to firmware that polls a register: bits that it reads from then on, until it is written again. Of several
    /// answers of one register the next one is given that changes its value.
    Answer {
        /// Address of the register's word.
        address: u64,
        /// Bits that are answered.
        mask: u32,
        /// Value of these bits.
        value: u32,
    }
}

record! {
    /// An interrupt that comes again and again.
    Pulse {
        /// The line that is raised for a moment.
        line: u32,
        /// Instructions from one to the next.
        every_insns: u64,
        /// Bits of registers that are set as it comes.
        sets: Vec<Answer>,
    }
}

record! {
    /// The processor at an instruction that polls a register, see [`Chip::poll_limit`].
    Polled {
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
    Contents {
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
        let mut reader = Reader::new(bytes);
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
    Memory {
        /// Its name in QEMU's memory tree.
        name: String,
        /// First address.
        start: u64,
        /// Size.
        bytes: u64,
        /// Whether it is flash: begins erased, is not simply written to.
        is_flash: bool,
        /// The memory that it is another view of, by index.
        alias_of: Option<u32>,
        /// Words that lie in it as the chip leaves the factory.
        words: Vec<Word>,
    }
}

record! {
    /// A word in memory.
    Word {
        /// Offset in the memory, a multiple of 4.
        offset: u64,
        /// Value of the word.
        value: u32,
    }
}

record! {
    /// A field of a register.
    Field {
        /// The register, by index in its block.
        register: u32,
        /// Its bits, contiguous.
        mask: u32,
    }
}

impl Field {
    /// The field's value in a register's.
    pub fn of(&self, value: u32) -> u32 {
        (value & self.mask) >> self.mask.trailing_zeros().min(31)
    }

    /// A register's value with the field set to another.
    pub fn put_in(&self, register: u32, value: u32) -> u32 {
        (register & !self.mask) | ((value << self.mask.trailing_zeros().min(31)) & self.mask)
    }
}

record! {
    /// A peripheral's registers and what they do.
    Block {
        /// Name.
        name: String,
        /// First address.
        start: u64,
        /// Size.
        bytes: u64,
        /// It repeats three times behind itself, where writes toggle, set and clear bits.
        has_atomic_aliases: bool,
        /// Its registers; those without an address serve rules.
        registers: Vec<Register>,
        /// Fields that are others', later.
        follows: Vec<Follow>,
        /// Side effects of writing and reading.
        triggers: Vec<Trigger>,
        /// Counters and timers.
        counters: Vec<Counter>,
        /// Serial ports.
        ports: Vec<Port>,
        /// Transfers between memory and a serial port.
        transfers: Vec<Transfer>,
        /// Controllers of flash.
        flashes: Vec<Flash>,
        /// Random generators.
        randoms: Vec<Random>,
        /// Dividers.
        dividers: Vec<Divider>,
        /// Watchdogs.
        watchdogs: Vec<Watchdog>,
        /// Interrupt lines.
        interrupts: Vec<Interrupt>,
    }
}

record! {
    /// A register.
    Register {
        /// Name, for messages.
        name: String,
        /// Offset in the block; None: no instruction sees it.
        offset: Option<u64>,
        /// Value at reset.
        reset: u32,
        /// Bits that writing leaves alone.
        read_only: u32,
        /// Bits that writing 1 clears.
        one_clears: u32,
        /// Bits that writing 0 clears, and writing 1 leaves alone.
        zero_clears: u32,
        /// Bits that reading clears.
        read_clears: u32,
        /// Bits that are 0 again at once when they are written.
        self_clearing: u32,
        /// Writing 1 sets these bits of another register, and reading reads that one.
        sets: Option<u32>,
        /// Writing 1 clears these bits of another register, and reading reads that one.
        clears: Option<u32>,
        /// Writing 1 toggles these bits of another register, and reading reads that one.
        toggles: Option<u32>,
        /// Writing 1 to the upper half clears the bits of another register's lower one.
        upper_clears: Option<u32>,
        /// Reading reads another register.
        reads: Option<u32>,
        /// Reading reads the bits that are 1 in all of these.
        all_of: Vec<u32>,
        /// Bits that any write sets again to what they are at reset.
        write_resets: u32,
    }
}

record! {
    /// A field that becomes what another one is.
    Follow {
        /// The field that changes.
        target: Field,
        /// The field that it becomes equal to.
        source: Field,
        /// Instructions after the source has changed.
        after_insns: u64,
        /// It becomes the opposite.
        is_inverted: bool,
    }
}

record! {
    /// A side effect of an access.
    Trigger {
        /// Bits of which one must be written as 1; with `value` the field that must be written so; of a read, any.
        field: Field,
        /// Value that must be written to the field.
        value: Option<u32>,
        /// Writing anything does it.
        by_any: bool,
        /// Reading does it.
        is_read: bool,
        /// Only where these fields have these values.
        when: Vec<Setting>,
        /// Instructions after which it is done.
        after_insns: u64,
        /// Settings that it applies.
        set: Vec<Setting>,
    }
}

record! {
    /// A field and a value.
    Setting {
        /// The field.
        field: Field,
        /// Its value.
        value: u32,
    }
}

record! {
    /// A counter that the chip's clock drives.
    Counter {
        /// Field where its value is read and written; None: nowhere.
        value: Option<Field>,
        /// The upper half of a value of 64 bits.
        upper: Option<Field>,
        /// It runs while all of these are not 0.
        running: Vec<Field>,
        /// The clock.
        clock: u32,
        /// Divisors of the clock.
        divide: Vec<Factor>,
        /// The value after which it begins again at 0.
        reload: Option<Field>,
        /// Bits of it, where no field says that.
        bits: u32,
        /// Bits of it, where a field does.
        width: Option<Factor>,
        /// Writing 1 has it begin again.
        clear: Option<Field>,
        /// It counts from the reload value to 0.
        counts_down: bool,
        /// Settings applied as it begins again by itself.
        overflow: Vec<Setting>,
        /// It stops then, where this is 1: the field that runs it is cleared.
        once: Option<Field>,
        /// Values that it is compared with.
        compares: Vec<Compare>,
    }
}

record! {
    /// A value that a counter is compared with.
    Compare {
        /// The value.
        value: Field,
        /// Only while this is not 0.
        enabled: Option<Field>,
        /// Settings applied as it is reached.
        set: Vec<Setting>,
        /// The counter begins again, where this is 1.
        clears: Option<Field>,
        /// The counter stops, where this is 1.
        stops: Option<Field>,
        /// Writing 1 copies the counter's value here.
        capture: Option<Field>,
    }
}

record! {
    /// A factor: a field's value, with something added or looked up.
    Factor {
        /// The block of the register, by index in the chip.
        block: u32,
        /// The field.
        field: Field,
        /// Added to it.
        plus: u64,
        /// Numbers that it stands for instead, by its value.
        map: Vec<u64>,
        /// It is the exponent of 2.
        is_power: bool,
    }
}

record! {
    /// A clock.
    Clock {
        /// Name.
        name: String,
        /// Sources that it is made from, each a number of Hz or another clock. Of several, a field says which.
        sources: Vec<Source>,
        /// Factor whose value says which of them.
        select: Option<Factor>,
        /// Factors that it is multiplied by.
        multiply: Vec<Factor>,
        /// Factors that it is divided by.
        divide: Vec<Factor>,
    }
}

record! {
    /// A source of a clock.
    Source {
        /// Its frequency, where it is fixed.
        hz: u64,
        /// The clock, by index, else.
        clock: Option<u32>,
    }
}

record! {
    /// A serial port: what is sent goes to the console, what is typed there is received.
    Port {
        /// Field whose bytes are sent as it is written.
        send: Option<Field>,
        /// Field that reads as what has been received.
        receive: Option<Field>,
        /// Settings that hold while something has been received.
        received: Vec<Setting>,
        /// It receives while all of these are not 0.
        receiving: Vec<Field>,
        /// Settings that hold while nothing has been received.
        empty: Vec<Setting>,
        /// Settings applied a while after the last byte has been read, as the line is idle.
        idle: Vec<Setting>,
    }
}

record! {
    /// A transfer between memory and a serial port, which takes the bus by itself.
    Transfer {
        /// From the port to memory.
        is_receive: bool,
        /// Writing 1 starts it.
        start: Field,
        /// Writing 1 stops it.
        stop: Option<Field>,
        /// Address in memory.
        pointer: Field,
        /// Number of bytes to transfer.
        count: Field,
        /// Number of bytes that were transferred.
        amount: Option<Field>,
        /// Settings applied at its end.
        set: Vec<Setting>,
        /// Settings applied where it is stopped.
        stopped: Vec<Setting>,
        /// Settings applied as a byte comes.
        byte: Vec<Setting>,
    }
}

record! {
    /// A controller of flash.
    Flash {
        /// The memory, by index in the chip.
        memory: u32,
        /// Stores to the flash clear its bits where all of these hold.
        programs: Vec<Setting>,
        /// Settings applied by such a store.
        programmed: Vec<Setting>,
        /// Erasing.
        erases: Vec<Erase>,
    }
}

record! {
    /// Erases flash.
    Erase {
        /// The field whose writing does it, with 1, or with anything where it is the page's address.
        start: Field,
        /// Writing any value does it.
        by_any: bool,
        /// Settings that must all hold.
        when: Vec<Setting>,
        /// The page; None: all of it.
        page: Option<Field>,
        /// The field is the page's address and not its number.
        is_address: bool,
        /// Sizes of the pages; the last one is that of all others.
        page_bytes: Vec<u64>,
        /// Settings applied at its end.
        set: Vec<Setting>,
    }
}

record! {
    /// A random generator.
    Random {
        /// Field in which each read has another number.
        value: Field,
    }
}

record! {
    /// A divider.
    Divider {
        /// Dividend.
        dividend: u32,
        /// Divisor.
        divisor: u32,
        /// Quotient.
        quotient: u32,
        /// Remainder.
        remainder: u32,
        /// The numbers have a sign.
        is_signed: bool,
    }
}

record! {
    /// A watchdog.
    Watchdog {
        /// It runs once all of these hold.
        running: Vec<Setting>,
        /// The clock.
        clock: u32,
        /// Divisors of the clock.
        divide: Vec<Factor>,
        /// Field that says how far it counts.
        reload: Field,
        /// Settings that feed it as they are written.
        feed: Vec<Setting>,
    }
}

record! {
    /// An interrupt line.
    Interrupt {
        /// Its number at the processor.
        line: u32,
        /// It is raised while one of these is.
        causes: Vec<Cause>,
    }
}

record! {
    /// A cause of an interrupt.
    Cause {
        /// Field that says what has happened.
        status: Field,
        /// Whether that is to interrupt; None: always.
        enable: Option<Field>,
        /// It is one while the status is 0.
        is_inverted: bool,
    }
}

impl Chip {
    pub(crate) fn put_in(out: &mut Vec<u8>, chip: &Chip) {
        chip.put(out);
    }

    pub(crate) fn read_from(reader: &mut Reader<'_>) -> Result<Chip, Malformed> {
        Chip::read(reader)
    }

    /// The register block at an address.
    pub fn block_at(&self, address: u64) -> Option<&Block> {
        self.blocks.iter().find(|block| block.start <= address && address - block.start < block.bytes)
    }

    /// The record by itself, for a hash of it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    /// Names the first thing that cannot be meant.
    ///
    /// # Errors
    /// When there is one.
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
            (self.memory.iter().all(Memory::has_words), "chip's words in memory"),
            (ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "chip's overlapping ranges"),
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
            (self.blocks.iter().all(|block| self.is_block(block)), "chip's block"),
            (self.answers.len() + self.pulses.len() <= MAX_RULES, "chip's number of answers"),
            (self.pulses.iter().all(|pulse| pulse.line < MAX_LINES), "chip's pulse"),
            (self.pulses.iter().all(|pulse| pulse.every_insns >= MIN_PULSE_INSNS), "chip's pulse"),
            (
                self.pulses.iter().flat_map(|pulse| &pulse.sets).chain(&self.answers).all(|one| self.is_answer(one)),
                "chip's answer",
            ),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(what))
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

    fn has_clock(&self, clock: Option<u32>) -> bool {
        clock.is_none_or(|clock| (clock as usize) < self.clocks.len())
    }

    fn is_factor(&self, factor: &Factor) -> bool {
        self.blocks.get(factor.block as usize).is_some_and(|block| block.has(&factor.field))
    }

    fn is_block(&self, block: &Block) -> bool {
        let Block { registers, counters, ports, transfers, flashes, .. } = block;
        let has = |field: &Field| block.has(field);
        let all = |fields: &[Field]| fields.iter().all(has);
        let sets = |settings: &[Setting]| settings.iter().all(|setting| has(&setting.field));
        let register = |index: &Option<u32>| index.is_none_or(|index| (index as usize) < registers.len());
        block.bytes <= MAX_BLOCK_BYTES
            && registers.iter().all(|one| {
                one.offset.is_none_or(|offset| offset.is_multiple_of(4) && offset + 4 <= block.bytes)
                    && [&one.sets, &one.clears, &one.toggles, &one.upper_clears, &one.reads].into_iter().all(register)
                    && one.all_of.iter().all(|&index| (index as usize) < registers.len())
            })
            && block.follows.iter().all(|follow| has(&follow.target) && has(&follow.source))
            && block.triggers.iter().all(|trigger| has(&trigger.field) && sets(&trigger.set) && sets(&trigger.when))
            && counters.iter().all(|counter| {
                let optional = [&counter.value, &counter.upper, &counter.reload, &counter.clear, &counter.once];
                let factors = counter.divide.iter().chain(&counter.width);
                optional.into_iter().flatten().all(has)
                    && all(&counter.running)
                    && self.has_clock(Some(counter.clock))
                    && factors.clone().all(|factor| self.is_factor(factor))
                    && (1..=64).contains(&counter.bits)
                    && sets(&counter.overflow)
                    && counter.compares.iter().all(|compare| {
                        let optional = [&compare.enabled, &compare.clears, &compare.stops, &compare.capture];
                        has(&compare.value) && optional.into_iter().flatten().all(has) && sets(&compare.set)
                    })
            })
            && ports.iter().all(|port| {
                port.send.iter().chain(&port.receive).all(has)
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
    fn has(&self, field: &Field) -> bool {
        let shifted = field.mask >> field.mask.trailing_zeros().min(31);
        let is_contiguous = shifted & shifted.wrapping_add(1) == 0;
        (field.register as usize) < self.registers.len() && field.mask != 0 && is_contiguous
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A chip that has one of each.
    pub(crate) fn full() -> Chip {
        let field = |register| Field { register, mask: 0xff00 };
        let setting = || Setting { field: field(0), value: 3 };
        let factor = || Factor { block: 0, field: field(1), plus: 1, map: vec![2, 4], is_power: false };
        let register = |name: &str, offset| Register {
            name: name.into(),
            offset,
            reset: 0x83,
            sets: Some(1),
            all_of: vec![0],
            ..Register::default()
        };
        let block = Block {
            name: "RCC".into(),
            start: 0x4002_3800,
            bytes: 0x400,
            has_atomic_aliases: false,
            registers: vec![register("CR", Some(0)), register("hidden", None)],
            follows: vec![Follow { target: field(0), source: field(1), after_insns: 100, is_inverted: false }],
            triggers: vec![Trigger {
                field: field(0),
                value: Some(1),
                by_any: false,
                is_read: false,
                when: vec![setting()],
                after_insns: 3,
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
            }],
        };
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
            blocks: vec![block],
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
            poll_limit: 16,
            passed: vec![0x800_0100],
        }
    }

    #[test]
    fn chips_survive_the_wire() {
        for chip in [Chip::default(), full()] {
            let mut out = Vec::new();
            chip.put(&mut out);
            let mut reader = Reader::new(&out);
            assert_eq!(Chip::read(&mut reader), Ok(chip.clone()));
            assert!(reader.is_empty());
            assert_eq!(chip.check(), Ok(()));
            for cut in 0..out.len() {
                assert!(Chip::read(&mut Reader::new(&out[..cut])).is_err(), "cut at {cut}");
            }
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        type Change = fn(&mut Chip);
        let changes: [Change; 19] = [
            |chip| chip.memory[0].words[0].offset = 1 << 20,
            |chip| chip.memory[1].start = 0x801_0000,
            |chip| chip.memory[1].bytes += 1,
            |chip| chip.memory[1].alias_of = Some(1),
            |chip| chip.memory[0].bytes = 0,
            |chip| chip.lines = 1000,
            |chip| chip.cpu_clock = Some(9),
            |chip| chip.clocks[0].sources.clear(),
            |chip| chip.clocks[0].multiply[0].block = 1,
            |chip| chip.blocks[0].registers[0].offset = Some(0x400),
            |chip| chip.blocks[0].follows[0].target.register = 2,
            |chip| chip.blocks[0].follows[0].target.mask = 0b101,
            |chip| chip.blocks[0].flashes[0].memory = 1,
            |chip| chip.blocks[0].counters[0].bits = 0,
            |chip| chip.blocks[0].interrupts[0].line = 10_000,
            |chip| chip.answers[0].address = 0x5000_0000,
            |chip| chip.answers[0].value = 0x400,
            |chip| chip.pulses[0].line = 10_000,
            |chip| chip.pulses[0].every_insns = 1,
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut chip = full();
            change(&mut chip);
            assert!(chip.check().is_err(), "change {index}");
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
