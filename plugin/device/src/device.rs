// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses of register blocks, and their effects.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wire::can::{Can, Filters, Frame, FrameAt, MAX_DATA_BYTES, MAX_EXTENDED, MAX_STANDARD, Mailbox, Queue};
use wire::chip::{
    Answer, Array, Block, Bus, BusDevice, Channel, Chip, Compare, Connection, Copied, Counter, DeviceByte, Factor,
    Field, Interrupt, Memory, PinAt, Pins, Pulse, Sampler, Setting, Stimulus,
};

use crate::NS_PER_S;
use crate::array::Contents;
use crate::can::{self, Banks, CanBus, FrameOnBus};
use crate::channel::{Channels, Copying, End};
use crate::clock;
use crate::counter::{Counting, Pace};
use crate::part::Part;

/// Longest chain of rules that trigger one another; circular rules end here.
const MAX_DEPTH: u32 = 16;

/// Instructions that a byte of a transfer takes.
const TRANSFER_INSNS: u64 = 64;

/// Instructions without a byte after which a line is idle.
const IDLE_INSNS: u64 = 256;

/// Instructions between two bytes that a serial port gets from outside: as long as between two of the console.
const TYPED_INSNS: u64 = 4_201;

/// Instructions that the conversion of an analog input takes.
const SAMPLE_INSNS: u64 = 64;

/// Longest transfer.
const MAX_TRANSFER_BYTES: u32 = 1 << 16;

/// The machine that contains a chip's devices, as far as they need it.
pub trait Host {
    /// Nanoseconds of the instructions since reset.
    fn now_ns(&mut self) -> u64;
    /// Sets an interrupt line of the processor.
    fn set_line(&mut self, line: u32, is_raised: bool);
    /// Requests a call of [`Device::wake`] at this time; None: no call. Replaces the previous request.
    fn wake_at(&mut self, ns: Option<u64>);
    /// Writes to the console.
    fn print(&mut self, byte: u8);
    /// Reads memory of the chip; false if there is no memory at the address.
    fn read_memory(&mut self, address: u64, to: &mut [u8]) -> bool;
    /// Writes memory of the chip; false if there is no memory at the address.
    fn write_memory(&mut self, address: u64, from: &[u8]) -> bool;
    /// Clears bits of flash, by the memory's index.
    fn program(&mut self, memory: u32, offset: u64, bytes: &[u8]);
    /// Sets a range of flash to 0xff.
    fn erase(&mut self, memory: u32, offset: u64, bytes: u64);
    /// Receives the processor's new clock frequency.
    fn set_cpu_clock(&mut self, hz: u64);
    /// Receives the new frequency of SysTick's external clock.
    fn set_systick_clock(&mut self, hz: u64);
    /// Receives a pulse that has come, by its number among the chip's rules.
    fn pulsed(&mut self, rule: usize);
    /// Receives the new level of a block's pin.
    fn pin(&mut self, block: usize, pin: u32, is_high: bool, is_output: bool);
    /// Receives a frame that was on the bus of a block's CAN controller.
    fn frame(&mut self, block: usize, frame: &Frame, is_sent: bool);
    /// Counts a change from outside that came at its time.
    fn came(&mut self);
    /// Receives the block of a watchdog that has run out: the real chip would reset now.
    fn bite(&mut self, block: u32);
}

/// The result of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Value that was read; 0 for a write.
    pub value: u32,
    /// Whether the chip file describes the register.
    pub is_modelled: bool,
    /// The answer to polling, or the counting register, that gave the value, by its number among the chip's rules.
    pub answer: Option<usize>,
}

/// A delayed effect.
#[derive(Clone, Copy, Debug)]
enum Later {
    Follow(usize),
    Trigger(usize),
    Sent(usize),
    Idle(usize),
    Stimulus(usize),
    /// A stimulus's byte for a serial port, by the indices of both.
    Typed(usize, usize),
    /// A channel's next items, by the channel's index and the ticket; nothing if the channel was stopped since.
    Items(usize, u64),
    /// The results of a converter.
    Samples(usize),
    /// A task that an event begins, by the address of its register.
    Task(u64),
    /// The end of the frame on the bus of a CAN controller, by the controller's index and the ticket; nothing if the controller
    /// was reset since.
    Frame(usize, u64),
    /// A frame that somebody else wants to send on such a bus.
    Other(usize, Frame),
}

/// A block's state.
struct State {
    values: Vec<u32>,
    /// The addressed device of each bus.
    addressed: Vec<Addressed>,
    /// Devices on the block's buses.
    parts: Vec<Part>,
    /// Bytes that wait for the block's serial port.
    typed: VecDeque<u8>,
    /// Whether more bytes of the same text come.
    has_more: bool,
    /// The bus of each CAN controller.
    can_buses: Vec<CanBus>,
    /// Fields that follow others once no frame is on these buses.
    held: Vec<usize>,
    /// Contents of the block's memories.
    arrays: Vec<Contents>,
    /// Indices of the registers by offset.
    by_offset: BTreeMap<u64, u32>,
    /// Words written to offsets without a described register.
    others: BTreeMap<u64, u32>,
    counters: Vec<Counting>,
    /// Number of bytes received in each transfer; None: the transfer is not running.
    received: Vec<Option<u32>>,
    random: u64,
    /// Second byte of the registers that are reached through it, see [`wire::chip::Register::is_latched`].
    latch: u8,
    /// Time in ns when each watchdog was last fed; None: the watchdog is not running.
    fed_ns: Vec<Option<u64>>,
    /// Whether each interrupt of the block is raised.
    raised: Vec<bool>,
}

/// A bus in use.
#[derive(Clone, Copy, Default)]
struct Addressed {
    /// The device that was addressed last.
    device: Option<usize>,
    /// Whether the device is read from.
    is_read: bool,
    /// Number of bytes that a counted transfer has yet to move.
    left: u32,
    /// Whether a counted transfer goes on when its number is written again.
    reloads: bool,
    /// Byte that was sent while no transfer took it: the first one of the next counted transfer, before which firmware may send it.
    kept: Option<u8>,
}

/// Number of equal reads, without a write of any register between them, after which a register counts as polled and
/// the next read is answered. Code that does not wait reads a register a few times, too; a timeout counts many more
/// reads.
const EQUAL_READS: u32 = 7;

/// A register that answers when it is polled.
struct Polled {
    /// The register's answers, by their indices in the chip.
    answers: Vec<usize>,
    /// The answer that is tried first.
    next: usize,
    last: u32,
    /// Number of reads of the same value since a register was last written, or this register last answered.
    equal: u32,
    /// Number of writes of registers up to the last read.
    writes: u64,
}

impl Polled {
    fn of(chip: &Chip) -> BTreeMap<(usize, u64), Polled> {
        let mut all: BTreeMap<(usize, u64), Polled> = BTreeMap::new();
        for (index, answer) in chip.answers.iter().enumerate() {
            let Some(block) = block_index(chip, answer.address) else { continue };
            let key = (block, answer.address - chip.blocks[block].start);
            let new = || Polled { answers: Vec::new(), next: 0, last: 0, equal: 0, writes: 0 };
            all.entry(key).or_insert_with(new).answers.push(index);
        }
        all
    }

    /// Notes a read after this number of writes of registers. Returns the answer that is given: the next answer that
    /// changes the value.
    fn read(&mut self, value: u32, writes: u64, answers: &[Answer]) -> Option<usize> {
        if (value, writes) != (self.last, self.writes) {
            (self.last, self.writes, self.equal) = (value, writes, 0);
        }
        self.equal += 1;
        if self.equal <= EQUAL_READS {
            return None;
        }
        let count = self.answers.len();
        let order = (0..count).map(|step| (self.next + step) % count);
        let changes = |&at: &usize| {
            let Answer { mask, value: bits, .. } = answers[self.answers[at]];
            value & mask != bits
        };
        let at = order.into_iter().find(changes)?;
        (self.next, self.equal) = (at + 1, 0);
        Some(self.answers[at])
    }
}

/// A register that counts instructions.
struct Count {
    /// The count's number among the chip's rules.
    rule: usize,
    every_insns: u64,
    /// Value that the register would have had at reset.
    base: u32,
}

impl Count {
    fn of(chip: &Chip) -> BTreeMap<(usize, u64), Count> {
        let first = chip.answers.len() + chip.pulses.len();
        let counts = chip.counts.iter().enumerate().filter_map(|(index, count)| {
            let block = block_index(chip, count.address)?;
            let key = (block, count.address - chip.blocks[block].start);
            Some((key, Count { rule: first + index, every_insns: count.every_insns, base: 0 }))
        });
        counts.collect()
    }
}

fn block_index(chip: &Chip, address: u64) -> Option<usize> {
    chip.blocks.iter().position(|block| block.start <= address && address - block.start < block.bytes)
}

/// All devices of a chip.
pub struct Device {
    chip: Chip,
    states: Vec<State>,
    /// Delayed effects with their blocks, by due time and by order of request.
    later: BTreeMap<(u64, u64), (usize, Later)>,
    put_off: u64,
    /// Steps of the input whose stimuli have yet to be put among the delayed effects.
    begun: Vec<u32>,
    /// Indices of the stimuli that begin with a step of the input.
    by_step: BTreeMap<u32, Vec<usize>>,
    input: VecDeque<u8>,
    hz: Vec<u64>,
    /// Blocks whose registers clocks depend on.
    clock_blocks: BTreeSet<u32>,
    /// Number of raised interrupts on each line.
    lines: BTreeMap<u32, u32>,
    /// Registers that answer when they are polled, by their blocks and offsets.
    polled: BTreeMap<(usize, u64), Polled>,
    /// Number of writes of registers so far.
    writes: u64,
    /// Registers that count, by their blocks and offsets.
    counting: BTreeMap<(usize, u64), Count>,
    /// Time in ns when each of the chip's pulses comes next.
    pulses_ns: Vec<u64>,
    /// Channels that are switched on.
    channels: Channels,
    /// Rules for edges of pins: their blocks and indices.
    edges: Vec<(usize, usize)>,
    /// Connections of events with tasks: their blocks and indices.
    connections: Vec<(usize, usize)>,
    /// Devices on buses that a pin selects: blocks and indices of both.
    selects: Vec<((usize, u32), (usize, usize))>,
    /// Tasks that are due at a time in ns: what several events begin at once begins once.
    tasks: BTreeSet<(u64, u64)>,
}

impl Device {
    /// The devices of a chip at reset.
    pub fn new(chip: Chip) -> Device {
        let mut states: Vec<State> = chip.blocks.iter().map(|block| State::new(block, chip.seed)).collect();
        let register = |states: &[State], block: u32, register: u32| value(states, block, register);
        let hz: Vec<u64> = (0..chip.clocks.len() as u32)
            .map(|index| clock::hz(&chip, index, &|block, index| register(&states, block, index)))
            .collect();
        let factors =
            chip.clocks.iter().flat_map(|clock| clock.select.iter().chain(&clock.multiply).chain(&clock.divide));
        let clock_blocks = factors.map(|factor| factor.block).collect();
        for index in 0..chip.blocks.len() {
            for counter in 0..chip.blocks[index].counters.len() {
                let pace = pace(&chip, &states, &hz, index, counter);
                states[index].counters.push(Counting::new(pace));
            }
        }
        let polled = Polled::of(&chip);
        let counting = Count::of(&chip);
        let pulses_ns = chip.pulses.iter().map(|pulse| pulse.every_insns << chip.insn_shift).collect();
        let blocks = || chip.blocks.iter().enumerate();
        let edges = blocks().flat_map(|(block, of)| (0..of.edges.len()).map(move |index| (block, index))).collect();
        let connections =
            blocks().flat_map(|(block, of)| (0..of.connections.len()).map(move |index| (block, index))).collect();
        let selects = blocks().flat_map(|(block, of)| {
            let devices = of.devices.iter().enumerate();
            devices.filter_map(move |(index, device)| {
                let pin = device.select.as_ref()?;
                Some(((pin.block as usize, pin.pin), (block, index)))
            })
        });
        let selects = selects.collect();
        let mut by_step: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (index, stimulus) in chip.stimuli.iter().enumerate() {
            if let Some(step) = stimulus.step {
                by_step.entry(step).or_default().push(index);
            }
        }
        let stimuli = chip.stimuli.iter().enumerate().filter(|(_, stimulus)| stimulus.step.is_none());
        let stimuli = stimuli.map(|(index, stimulus)| {
            ((stimulus.delay_ns(chip.insn_shift), index as u64), (stimulus.block as usize, Later::Stimulus(index)))
        });
        Device {
            polled,
            writes: 0,
            counting,
            pulses_ns,
            edges,
            connections,
            selects,
            tasks: BTreeSet::new(),
            channels: Channels::default(),
            later: stimuli.collect(),
            put_off: chip.stimuli.len() as u64,
            begun: Vec::new(),
            by_step,
            chip,
            states,
            input: VecDeque::new(),
            hz,
            clock_blocks,
            lines: BTreeMap::new(),
        }
    }

    /// Chip description.
    pub fn chip(&self) -> &Chip {
        &self.chip
    }

    /// Reports the clock frequencies to the host, and raises the lines that are raised at reset.
    pub fn begin(&mut self, host: &mut impl Host) {
        if let Some(clock) = self.chip.cpu_clock {
            host.set_cpu_clock(self.hz(clock));
        }
        if let Some(clock) = self.chip.systick_clock {
            host.set_systick_clock(self.hz(clock));
        }
        for block in 0..self.states.len() {
            for index in 0..self.chip.blocks[block].pins.len() {
                let level = self.levels(block, index);
                let field = &self.chip.blocks[block].pins[index].level;
                let value = &mut self.states[block].values[field.register as usize];
                *value = field.put_in(*value, level);
            }
            // Starts the watchdogs that run from reset on.
            self.feed(block, u32::MAX, host);
            self.settle(block, host);
        }
        self.plan(host);
    }

    /// Reads `bytes` bytes at an offset of a block.
    pub fn read(&mut self, block: usize, offset: u64, bytes: u32, host: &mut impl Host) -> Access {
        self.advance(host);
        let shift = (offset % 4) as u32 * 8;
        let mask = lanes(bytes);
        let (word, _) = self.chip.blocks[block].reached(offset);
        let register = self.states[block].by_offset.get(&word).copied();
        let mut value = self.load_word(block, word, mask << shift, host);
        if let Some(value) = self.counted(block, word, host) {
            let answer = self.counting.get(&(block, word)).map(|count| count.rule);
            return Access { value: (value >> shift) & mask, is_modelled: register.is_some(), answer };
        }
        let answer = self
            .polled
            .get_mut(&(block, word))
            .and_then(|polled| polled.read(value, self.writes, &self.chip.answers));
        if let Some(answer) = answer {
            let Answer { mask, value: bits, .. } = self.chip.answers[answer];
            value = (value & !mask) | bits;
            self.force(block, word, mask, bits, host);
        }
        if register.is_some() {
            self.settle(block, host);
            self.plan(host);
        }
        let is_modelled = register.is_some() && !self.chip.blocks[block].is_undescribed;
        Access { value: (value >> shift) & mask, is_modelled, answer }
    }

    /// Reads bytes of a word of a block. Reading a register has its effects; any other word has the value that was last
    /// written.
    fn load_word(&mut self, block: usize, word: u64, lanes: u32, host: &mut impl Host) -> u32 {
        match self.states[block].by_offset.get(&word) {
            Some(&register) => self.load(block, register, lanes, host),
            None => self.states[block].others.get(&word).copied().unwrap_or(0),
        }
    }

    /// Writes a word of a block that is not a register.
    fn store_other(&mut self, block: usize, word: u64, value: u32, lanes: u32, operation: u64) {
        let old = self.states[block].others.entry(word).or_default();
        *old = combine(*old, value, lanes, operation);
    }

    /// The value of a register that counts; None: the register does not count.
    fn counted(&self, block: usize, word: u64, host: &mut impl Host) -> Option<u32> {
        let count = self.counting.get(&(block, word))?;
        let counted = host.now_ns() / self.insns_ns(count.every_insns);
        Some(count.base.wrapping_add(counted as u32))
    }

    /// Gives bits of a register a value, even bits that the firmware cannot write.
    fn force(&mut self, block: usize, word: u64, mask: u32, bits: u32, host: &mut impl Host) {
        match self.states[block].by_offset.get(&word) {
            Some(&register) => {
                let old = self.states[block].values[register as usize];
                self.change(block, register, (old & !mask) | bits, host, 0);
            }
            None => {
                let old = self.states[block].others.entry(word).or_default();
                *old = (*old & !mask) | bits;
            }
        }
    }

    /// Raises the lines of due pulses for a moment.
    fn pulse_lines(&mut self, now: u64, host: &mut impl Host) {
        for index in 0..self.pulses_ns.len() {
            if self.pulses_ns[index] > now {
                continue;
            }
            let Pulse { line, every_insns, sets } = self.chip.pulses[index].clone();
            host.pulsed(self.chip.answers.len() + index);
            let every = self.insns_ns(every_insns);
            self.pulses_ns[index] += (1 + (now - self.pulses_ns[index]) / every) * every;
            for Answer { address, mask, value } in sets {
                if let Some(block) = block_index(&self.chip, address) {
                    self.force(block, address - self.chip.blocks[block].start, mask, value, host);
                }
            }
            if self.lines.get(&line).is_none_or(|&raised| raised == 0) {
                host.set_line(line, true);
                host.set_line(line, false);
            }
        }
    }

    /// Writes `bytes` bytes at an offset of a block. Returns whether the chip file describes the register.
    pub fn write(&mut self, block: usize, offset: u64, bytes: u32, value: u32, host: &mut impl Host) -> bool {
        self.write_bits(block, offset, lanes(bytes), value, host)
    }

    /// Reads a register's byte of an AVR's data space, at an offset of its block.
    pub fn read_byte(&mut self, block: usize, offset: u64, host: &mut impl Host) -> u8 {
        let (word, is_high) = (offset & !3, offset % 4 == 1);
        if !self.is_latched_count(block, word) {
            return self.read(block, offset, 1, host).value as u8;
        }
        if is_high {
            return self.states[block].latch;
        }
        let [low, high, ..] = self.read(block, word, 2, host).value.to_le_bytes();
        self.states[block].latch = high;
        low
    }

    /// Writes bits of a register's byte of an AVR's data space, at an offset of its block. Returns as [`Device::write`] does.
    pub fn write_byte(&mut self, block: usize, offset: u64, value: u8, bits: u8, host: &mut impl Host) -> bool {
        let (word, is_high) = (offset & !3, offset % 4 == 1);
        let register = self.states[block].by_offset.get(&word);
        let is_latched =
            register.is_some_and(|&register| self.chip.blocks[block].registers[register as usize].is_latched);
        if is_latched && is_high {
            self.states[block].latch = value;
            return true;
        }
        if is_latched {
            let both = u16::from_le_bytes([value, self.states[block].latch]);
            return self.write(block, word, 2, both.into(), host);
        }
        self.write_bits(block, offset, bits.into(), value.into(), host)
    }

    /// Whether a word is a register that counts, of two bytes that are read one after the other.
    fn is_latched_count(&self, block: usize, word: u64) -> bool {
        let of = &self.chip.blocks[block];
        let register = self.states[block].by_offset.get(&word);
        register.is_some_and(|&register| {
            of.registers[register as usize].is_latched
                && of.counters.iter().any(|counter| is_register(&counter.value, register))
        })
    }

    /// Feeds the chip's watchdogs.
    pub fn feed_watchdogs(&mut self, host: &mut impl Host) {
        self.advance(host);
        for block in 0..self.chip.blocks.len() {
            let Some(Field { register, mask }) = self.chip.blocks[block].fed_by.clone() else { continue };
            self.store(block, register, mask, mask, host);
            self.settle(block, host);
        }
        self.plan(host);
    }

    /// Writes some bits at an offset of a block, counted from the byte there.
    fn write_bits(&mut self, block: usize, offset: u64, lanes: u32, value: u32, host: &mut impl Host) -> bool {
        self.advance(host);
        let shift = (offset % 4) as u32 * 8;
        let (lanes, value) = (lanes << shift, value << shift);
        let (word, operation) = self.chip.blocks[block].reached(offset);
        self.writes += 1;
        if let Some(now) = self.counted(block, word, host)
            && let Some(count) = self.counting.get_mut(&(block, word))
        {
            count.base = count.base.wrapping_add(combine(now, value, lanes, operation).wrapping_sub(now));
            return self.states[block].by_offset.contains_key(&word);
        }
        let Some(&register) = self.states[block].by_offset.get(&word) else {
            self.store_other(block, word, value, lanes, operation);
            return false;
        };
        let value = if operation == 0 {
            value
        } else {
            combine(self.states[block].values[register as usize], value, lanes, operation)
        };
        let lanes = if operation == 0 { lanes } else { u32::MAX };
        self.store(block, register, value, lanes, host);
        if self.clock_blocks.contains(&(block as u32)) {
            self.tell_clocks(host);
        }
        self.settle(block, host);
        self.plan(host);
        !self.chip.blocks[block].is_undescribed
    }

    /// Writes to flash: clears bits if the flash controller permits it.
    pub fn write_flash(&mut self, memory: u32, offset: u64, bytes: &[u8], host: &mut impl Host) {
        self.advance(host);
        for block in 0..self.chip.blocks.len() {
            for index in 0..self.chip.blocks[block].flashes.len() {
                let flash = &self.chip.blocks[block].flashes[index];
                if flash.memory != memory || !self.hold(block, &flash.programs) {
                    continue;
                }
                host.program(memory, offset, bytes);
                let settings = flash.programmed.clone();
                self.apply(block, &settings, host, 0);
                self.settle(block, host);
            }
        }
        self.plan(host);
    }

    /// Handles an interrupt that the processor has taken, and raises its line again if a cause is still present.
    pub fn take(&mut self, line: u32, host: &mut impl Host) {
        self.advance(host);
        for block in 0..self.chip.blocks.len() {
            for index in 0..self.chip.blocks[block].interrupts.len() {
                let Interrupt { line: own, taken, .. } = &self.chip.blocks[block].interrupts[index];
                if *own == line {
                    let taken = taken.clone();
                    self.apply(block, &taken, host, 0);
                    self.settle(block, host);
                }
            }
        }
        if self.lines.get(&line).is_some_and(|&raised| raised > 0) {
            host.set_line(line, true);
        }
        self.plan(host);
    }

    /// Begins the stimuli of a step of the input: at the host's next call, where the time is known.
    pub fn begin_step(&mut self, step: u32, host: &mut impl Host) {
        self.begun.push(step);
        host.wake_at(Some(0));
    }

    /// Puts the stimuli of the steps that have begun among the delayed effects.
    fn begin_stimuli(&mut self, now_ns: u64) {
        for step in std::mem::take(&mut self.begun) {
            for &index in self.by_step.get(&step).into_iter().flatten() {
                let stimulus = &self.chip.stimuli[index];
                let due_ns = now_ns.saturating_add(stimulus.delay_ns(self.chip.insn_shift));
                self.put_off += 1;
                self.later.insert((due_ns, self.put_off), (stimulus.block as usize, Later::Stimulus(index)));
            }
        }
    }

    /// Applies all effects that are due, and requests the next call.
    pub fn wake(&mut self, host: &mut impl Host) {
        self.advance(host);
        self.plan(host);
    }

    // Channels.

    /// Switches a block's channels on and off, as their settings say.
    fn switch_channels(&mut self, block: usize) {
        for index in 0..self.chip.blocks[block].channels.len() {
            let channel = &self.chip.blocks[block].channels[index];
            if !self.hold(block, &channel.running) {
                self.channels.stop(block, index);
            } else if !self.channels.is_on(block, index) {
                let is_reversed = self.applies(block, &channel.reversed);
                let end = |end: &wire::chip::ChannelEnd| End {
                    address: self.field(block, &end.address),
                    bytes: self.factor(&end.item).clamp(1, 4) as u32,
                    steps: self.field(block, &end.steps) != 0,
                };
                let ends = [end(&channel.ends[0]), end(&channel.ends[1])];
                let is_free = self.applies(block, &channel.free);
                let count = self.field(block, &channel.count);
                self.channels.start(block, index, Copying::new(ends, is_reversed, is_free, count));
            }
        }
    }

    /// Schedules the next items of each channel whose memory and registers are ready.
    fn serve_channels(&mut self, host: &mut impl Host) {
        for (block, index) in self.channels.idle() {
            let Some(copying) = self.channels.get(block, index) else { continue };
            let (insns, asked) = (copying.insns(), [copying.source(), copying.target()]);
            let is_asked = copying.is_free
                || asked.into_iter().zip([true, false]).all(|(address, is_read)| self.asks(address.into(), is_read));
            if is_asked {
                self.put_off(block, insns, Later::Items(index, self.put_off + 1), host);
                self.channels.wait(block, index, self.put_off);
            }
        }
    }

    /// Whether a channel may access an address now. Memory, and a register without a rule for requests, may always be
    /// accessed.
    fn asks(&self, address: u64, is_read: bool) -> bool {
        let Some(block) = block_index(&self.chip, address) else { return true };
        let of = &self.chip.blocks[block];
        let register = self.states[block].by_offset.get(&((address - of.start) & !3));
        let mut requests =
            of.requests.iter().filter(|one| Some(&one.register) == register && one.is_read == is_read).peekable();
        requests.peek().is_none() || requests.any(|request| self.hold(block, &request.when))
    }

    /// Copies the next items of a channel, and applies the settings of its half and its end.
    fn copy_items(&mut self, block: usize, index: usize, ticket: u64, host: &mut impl Host) {
        let Some(mut copying) = self.channels.due(block, index, ticket) else { return };
        let Channel { ends, count, circular, half, set, failed, chain, advances, .. } =
            self.chip.blocks[block].channels[index].clone();
        let before = copying.left;
        let mut has_failed = false;
        for _ in 0..copying.items() {
            let value = self.bus_read(copying.source().into(), copying.from().bytes, host);
            let is_done =
                value.is_some_and(|value| self.bus_write(copying.target().into(), copying.to().bytes, value, host));
            if !is_done {
                has_failed = true;
                break;
            }
            copying.left -= 1;
        }
        let (left, is_half) = (copying.left, copying.is_half(before));
        let is_over = left == 0 && !has_failed;
        let again = is_over && circular.is_some_and(|field| self.field(block, &field) != 0);
        if has_failed {
            copying.left = 0;
        } else if again {
            copying.left = copying.total;
        }
        let shown = if again { copying.total } else { left };
        let next = advances.then(|| copying.addresses());
        self.channels.start(block, index, copying);
        self.put(block, &count, shown, host, 0);
        for (end, address) in ends.iter().zip(next.into_iter().flatten()) {
            self.put(block, &end.address, address, host, 0);
        }
        for (settings, applies) in [(half, is_half), (set, is_over), (failed, has_failed)] {
            if applies {
                self.apply(block, &settings, host, 0);
            }
        }
        let other = chain.filter(|_| is_over).map(|field| self.field(block, &field) as usize);
        if let Some(other) = other.filter(|&other| other != index)
            && let Some(Channel { begin, .. }) = self.chip.blocks[block].channels.get(other).cloned()
        {
            self.apply(block, &begin, host, 0);
        }
    }

    /// Reads memory or a register as a channel does. None: there is neither.
    fn bus_read(&mut self, address: u64, bytes: u32, host: &mut impl Host) -> Option<u32> {
        let mut item = [0; 4];
        if host.read_memory(address, &mut item[..bytes as usize]) {
            return Some(u32::from_le_bytes(item));
        }
        let block = block_index(&self.chip, address)?;
        let offset = address - self.chip.blocks[block].start;
        let (shift, mask) = (offset % 4 * 8, lanes(bytes));
        let value = self.load_word(block, offset & !3, mask << shift, host);
        self.settle(block, host);
        Some((value >> shift) & mask)
    }

    /// Writes memory or a register as a channel does. False: there is neither, or flash.
    fn bus_write(&mut self, address: u64, bytes: u32, value: u32, host: &mut impl Host) -> bool {
        let is_in = |memory: &Memory| memory.start <= address && address - memory.start < memory.bytes;
        if self.chip.memory.iter().any(|memory| memory.is_flash && is_in(memory)) {
            return false;
        }
        if host.write_memory(address, &value.to_le_bytes()[..bytes as usize]) {
            return true;
        }
        let Some(block) = block_index(&self.chip, address) else { return false };
        let offset = address - self.chip.blocks[block].start;
        let (shift, lanes) = (offset % 4 * 8, lanes(bytes));
        match self.states[block].by_offset.get(&(offset & !3)) {
            Some(&register) => self.store(block, register, value << shift, lanes << shift, host),
            None => self.store_other(block, offset & !3, value << shift, lanes << shift, 0),
        }
        self.settle(block, host);
        true
    }

    // Analog inputs and connections.

    /// Stores what a converter's selected inputs measure in its buffer.
    fn sample(&mut self, block: usize, index: usize, host: &mut impl Host) {
        let Sampler { running, selects, inputs, pointer, count, amount, done, full, .. } =
            self.chip.blocks[block].samplers[index].clone();
        if !self.hold(block, &running) {
            return;
        }
        let mut stored = self.field(block, &amount);
        let room = self.field(block, &count);
        for select in selects {
            let Some(input) = (self.field(block, &select) as usize).checked_sub(1) else { continue };
            let value = inputs.get(input).map_or(0, |input| self.field(block, input));
            if stored < room {
                let address = u64::from(self.field(block, &pointer)) + 2 * u64::from(stored);
                host.write_memory(address, &(value as u16).to_le_bytes());
                stored += 1;
            }
        }
        self.put(block, &amount, stored, host, 0);
        self.apply(block, &done, host, 0);
        if stored >= room {
            self.apply(block, &full, host, 0);
        }
    }

    /// Whether a connection's event is this register.
    fn is_connected(&self, (of, index): (usize, usize), block: usize, register: u32) -> bool {
        let Connection { enabled, event, .. } = &self.chip.blocks[of].connections[index];
        let at = &self.chip.blocks[block];
        let offset = at.registers[register as usize].offset;
        self.field(of, enabled) != 0
            && offset.is_some_and(|offset| at.start + offset == u64::from(self.field(of, event)))
    }

    /// Begins the tasks that are connected with an event that has happened.
    fn happen(&mut self, block: usize, register: u32, host: &mut impl Host) {
        for at in 0..self.connections.len() {
            let (of, index) = self.connections[at];
            if !self.is_connected((of, index), block, register) {
                continue;
            }
            let tasks = &self.chip.blocks[of].connections[index].tasks;
            let tasks: Vec<u64> = tasks.iter().map(|field| self.field(of, field).into()).collect();
            let due_ns = host.now_ns().saturating_add(self.insns_ns(1));
            for task in tasks.into_iter().filter(|&task| task != 0) {
                if self.tasks.insert((due_ns, task)) {
                    self.put_off(of, 1, Later::Task(task), host);
                }
            }
        }
    }

    /// Begins a task: writes 1 to its register.
    fn begin_task(&mut self, due_ns: u64, address: u64, host: &mut impl Host) {
        self.tasks.remove(&(due_ns, address));
        let Some(block) = block_index(&self.chip, address) else { return };
        let offset = (address - self.chip.blocks[block].start) & !3;
        if let Some(&register) = self.states[block].by_offset.get(&offset) {
            self.store(block, register, 1, u32::MAX, host);
            if self.clock_blocks.contains(&(block as u32)) {
                self.tell_clocks(host);
            }
            self.settle(block, host);
        }
    }

    /// Handles bits that read and write the block's memories when 1 is written.
    fn reach(&mut self, block: usize, register: u32, written: u32, host: &mut impl Host, depth: u32) {
        for index in 0..self.chip.blocks[block].arrays.len() {
            let Array { address, value, read, write, program, erase, .. } =
                self.chip.blocks[block].arrays[index].clone();
            let is_one = |field: Option<Field>| {
                field.is_some_and(|field| field.register == register && field.mask & written != 0)
            };
            let (at, byte) = (self.field(block, &address), self.field(block, &value) as u8);
            let contents = &mut self.states[block].arrays[index];
            if is_one(write) {
                contents.write(at, byte);
            }
            if is_one(program) {
                contents.program(at, byte);
            }
            if is_one(erase) {
                contents.erase(at);
            }
            let found = contents.read(at);
            if is_one(read) {
                self.put(block, &value, found.into(), host, depth + 1);
            }
        }
    }

    // Buses.

    /// Handles a byte or an address that is sent on a bus.
    fn exchange(&mut self, block: usize, register: u32, written: u32, host: &mut impl Host, depth: u32) {
        for index in 0..self.chip.blocks[block].buses.len() {
            let Bus { when, send, receive, address, addresses, begin, .. } = &self.chip.blocks[block].buses[index];
            let begins = begin.as_ref().is_some_and(|begin| begin.register == register);
            if !begins && send.register != register || !self.hold(block, when) {
                continue;
            }
            let byte = send.of(written) as u8;
            if address.is_none() {
                let (receive, now) = (receive.clone(), host.now_ns());
                let device = self.selected(block);
                let answer = device.map(|device| self.states[block].parts[device].exchange(byte, now));
                self.put(block, &receive, answer.unwrap_or(0xff).into(), host, depth + 1);
            } else if begins || begin.is_none() && self.hold(block, addresses) {
                self.address(block, index, written, host, depth);
            } else {
                self.send_byte(block, index, byte, host, depth);
            }
        }
    }

    /// Sends a byte to the addressed device. What no counted transfer takes is kept for the next one.
    fn send_byte(&mut self, block: usize, index: usize, byte: u8, host: &mut impl Host, depth: u32) {
        let is_counted = self.chip.blocks[block].buses[index].count.is_some();
        let addressed = &mut self.states[block].addressed[index];
        let Addressed { device, is_read, left, .. } = *addressed;
        if is_counted && (left == 0 || is_read) {
            addressed.kept = Some(byte);
        } else if let (Some(device), false) = (device, is_read) {
            let now = host.now_ns();
            self.states[block].parts[device].write(byte, now);
            self.count_byte(block, index, host, depth);
        }
    }

    /// Handles a write of the register with a device's address.
    fn address(&mut self, block: usize, index: usize, written: u32, host: &mut impl Host, depth: u32) {
        let Bus { address, begin, count, reload, reads, writing, reading, absent, .. } =
            self.chip.blocks[block].buses[index].clone();
        let of = |field: &Option<Field>| field.as_ref().map_or(0, |field| field.of(written));
        let (left, reloads) = (of(&count), of(&reload) != 0);
        if begin.is_some() && of(&begin) == 0 {
            // The number of the bytes that follow.
            let addressed = &mut self.states[block].addressed[index];
            if addressed.reloads && addressed.left == 0 {
                (addressed.left, addressed.reloads) = (left, reloads);
                self.go_on(block, index, host, depth);
            }
            return;
        }
        let now = host.now_ns();
        let devices = &self.chip.blocks[block].devices;
        let device = devices.iter().position(|device| device.address == of(&address));
        let device = device.filter(|&device| !self.states[block].parts[device].is_busy(now));
        let is_read = of(&reads) != 0;
        let kept = self.states[block].addressed[index].kept.filter(|_| device.is_some());
        let left = if device.is_some() { left } else { 0 };
        self.states[block].addressed[index] = Addressed { device, is_read, left, reloads, kept };
        if let Some(device) = device {
            self.states[block].parts[device].begin();
        }
        let settings = match device {
            None => &absent,
            Some(_) if is_read => &reading,
            Some(_) => &writing,
        };
        self.apply(block, settings, host, depth + 1);
        if device.is_some() && count.is_some() {
            match kept.filter(|_| !is_read && left > 0) {
                Some(byte) => {
                    self.states[block].addressed[index].kept = None;
                    self.send_byte(block, index, byte, host, depth);
                }
                None => self.go_on(block, index, host, depth),
            }
        } else {
            self.offer_byte(block, index, host, depth);
        }
    }

    /// Goes on with a counted transfer: asks for its next byte, offers it, or ends.
    fn go_on(&mut self, block: usize, index: usize, host: &mut impl Host, depth: u32) {
        let Addressed { is_read, left, .. } = self.states[block].addressed[index];
        let Bus { wanted, offered, ends, .. } = self.chip.blocks[block].buses[index].clone();
        if left == 0 {
            let end = ends.iter().find(|end| self.hold(block, &end.when));
            end.iter().for_each(|end| self.apply(block, &end.set, host, depth + 1));
        } else if is_read {
            self.offer_byte(block, index, host, depth);
            self.apply(block, &offered, host, depth + 1);
        } else {
            self.apply(block, &wanted, host, depth + 1);
        }
    }

    /// Counts a byte of a transfer that has been moved.
    fn count_byte(&mut self, block: usize, index: usize, host: &mut impl Host, depth: u32) {
        let addressed = &mut self.states[block].addressed[index];
        if self.chip.blocks[block].buses[index].count.is_some() && addressed.left > 0 {
            addressed.left -= 1;
            self.go_on(block, index, host, depth);
        }
    }

    /// The device that is selected on a block's bus without addresses: one whose pin is low, otherwise one without a pin.
    fn selected(&self, block: usize) -> Option<usize> {
        let devices = &self.chip.blocks[block].devices;
        let is_low = |device: &BusDevice| device.select.as_ref().is_some_and(|pin| self.is_driven_low(pin));
        devices.iter().position(is_low).or_else(|| devices.iter().position(|device| device.select.is_none()))
    }

    /// Whether the chip drives a pin, and drives it low.
    fn is_driven_low(&self, pin: &PinAt) -> bool {
        let block = pin.block as usize;
        let is_low = |pins: &Pins| self.field(block, &pins.level) >> pin.pin & 1 == 0;
        self.chip.blocks[block].pins.first().is_some_and(is_low) && self.outputs(block, 0) >> pin.pin & 1 != 0
    }

    /// Begins and ends the selection of the devices that a pin selects.
    fn select(&mut self, port: usize, pin: u32, is_high: bool, host: &mut impl Host) {
        for (by, (block, device)) in self.selects.clone() {
            if by == (port, pin) {
                let part = &mut self.states[block].parts[device];
                if is_high { part.end(host.now_ns()) } else { part.begin() }
            }
        }
    }

    /// Shows the byte that a device answers next, if it is read from.
    fn offer_byte(&mut self, block: usize, index: usize, host: &mut impl Host, depth: u32) {
        let Addressed { device: Some(device), is_read: true, .. } = self.states[block].addressed[index] else {
            return;
        };
        let byte = self.states[block].parts[device].offered(host.now_ns());
        let receive = self.chip.blocks[block].buses[index].receive.clone();
        self.put(block, &receive, byte.into(), host, depth + 1);
    }

    /// Takes a device's byte that has been read.
    fn take_byte(&mut self, block: usize, register: u32, lanes: u32, host: &mut impl Host) {
        for index in 0..self.chip.blocks[block].buses.len() {
            let Bus { receive, address, .. } = &self.chip.blocks[block].buses[index];
            let is_it = receive.register == register && receive.mask & lanes != 0;
            let is_counted = self.chip.blocks[block].buses[index].count.is_some();
            let Addressed { device, is_read, left, .. } = self.states[block].addressed[index];
            if address.is_none() || !is_it || !is_read || is_counted && left == 0 {
                continue;
            }
            if let Some(device) = device {
                self.states[block].parts[device].take();
            }
            if is_counted {
                self.count_byte(block, index, host, 0);
            } else {
                self.offer_byte(block, index, host, 0);
            }
        }
    }

    /// Takes a byte that was typed on the console.
    pub fn receive(&mut self, byte: u8, host: &mut impl Host) {
        self.advance(host);
        self.input.push_back(byte);
        for block in 0..self.chip.blocks.len() {
            if !self.chip.blocks[block].ports.is_empty() || !self.chip.blocks[block].transfers.is_empty() {
                self.settle(block, host);
            }
        }
        self.plan(host);
    }

    /// Current frequency of a clock in Hz.
    pub fn hz(&self, clock: u32) -> u64 {
        self.hz.get(clock as usize).copied().unwrap_or(0)
    }

    fn hold(&self, block: usize, settings: &[Setting]) -> bool {
        settings.iter().all(|setting| self.field(block, &setting.field) == setting.value)
    }

    /// Whether there are settings, and all of them hold.
    fn applies(&self, block: usize, settings: &[Setting]) -> bool {
        !settings.is_empty() && self.hold(block, settings)
    }

    fn field(&self, block: usize, field: &Field) -> u32 {
        field.of(self.states[block].values[field.register as usize])
    }

    fn insns_ns(&self, insns: u64) -> u64 {
        insns << self.chip.insn_shift
    }

    // Reading.

    /// Reads bytes of a register. Where small registers share a word, only those that are read have effects; bits that
    /// reading clears are cleared in all of the word.
    fn load(&mut self, block: usize, register: u32, lanes: u32, host: &mut impl Host) -> u32 {
        let value = self.peek(block, register, host, 0);
        let of = &self.chip.blocks[block];
        let read_clears = of.registers[register as usize].read_clears;
        if read_clears != 0 {
            let old = self.states[block].values[register as usize];
            self.change(block, register, old & !read_clears, host, 0);
        }
        let of = &self.chip.blocks[block];
        let is_it = |field: &Field| field.register == register && field.mask & lanes != 0;
        if let Some(port) = of.ports.iter().position(|port| port.receive.as_ref().is_some_and(is_it))
            && self.take_typed(block).is_some()
            && self.typed(block).is_none_or(VecDeque::is_empty)
        {
            self.put_off(block, IDLE_INSNS, Later::Idle(port), host);
        }
        let of = &self.chip.blocks[block];
        if of.randoms.iter().any(|random| random.value.register == register) {
            // xorshift64.
            let random = &mut self.states[block].random;
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
        }
        self.take_byte(block, register, lanes, host);
        for index in 0..self.chip.blocks[block].triggers.len() {
            let trigger = &self.chip.blocks[block].triggers[index];
            let Field { register: of, mask } = trigger.field;
            if trigger.is_read && of == register && mask & lanes != 0 {
                self.fire(block, index, host, 0);
            }
        }
        value
    }

    /// Value that a read of the register would return.
    fn peek(&self, block: usize, register: u32, host: &mut impl Host, depth: u32) -> u32 {
        let of = &self.chip.blocks[block];
        let one = &of.registers[register as usize];
        if !one.all_of.is_empty() && depth < MAX_DEPTH {
            let all = one.all_of.iter().map(|&other| self.peek(block, other, host, depth + 1));
            return all.fold(u32::MAX, |all, one| all & one);
        }
        let other = [one.reads, one.sets, one.clears, one.toggles].into_iter().flatten().next();
        if let Some(other) = other.filter(|&other| other != register && depth < MAX_DEPTH) {
            return self.peek(block, other, host, depth + 1);
        }
        let state = &self.states[block];
        let mut value = state.values[register as usize];
        for (counter, counting) in of.counters.iter().zip(&state.counters) {
            let is_it = |field: &Option<Field>| field.as_ref().is_some_and(|field| field.register == register);
            let mut count = || {
                let count = counting.value(host.now_ns());
                if counter.counts_down { counting.pace().values - 1 - count } else { count }
            };
            if is_it(&counter.value) {
                value = counter.value.as_ref().map_or(value, |field| field.put_in(value, count() as u32));
            } else if is_it(&counter.upper) {
                return counting_upper(counting, host.now_ns());
            }
        }
        if let Some(port) = of.ports.iter().find(|port| is_register(&port.receive, register))
            && let Some(field) = &port.receive
            && let Some(typed) = self.typed(block)
        {
            value = field.put_in(value, typed.front().copied().unwrap_or(0).into());
        }
        if let Some(random) = of.randoms.iter().find(|random| random.value.register == register) {
            value = random.value.put_in(value, (state.random >> 16) as u32);
        }
        value
    }

    // Writing.

    fn store(&mut self, block: usize, register: u32, value: u32, lanes: u32, host: &mut impl Host) {
        let one = self.chip.blocks[block].registers[register as usize].clone();
        let written = value & lanes;
        let old = self.states[block].values[register as usize];
        let mut redirected = false;
        for (other, operation) in [(one.toggles, 1), (one.sets, 2), (one.clears, 3)] {
            let Some(other) = other else { continue };
            redirected = true;
            let low = if one.upper_clears.is_some() { written & 0xffff } else { written };
            let low = low & !one.read_only;
            let old = self.states[block].values[other as usize];
            let new = combine(old, low, u32::MAX, operation);
            self.change(block, other, new, host, 0);
        }
        if let Some(other) = one.upper_clears {
            redirected = true;
            // A bit that is both set and cleared ends up set.
            let clears = (written >> 16) & !(written & 0xffff);
            let old = self.states[block].values[other as usize];
            self.change(block, other, old & !clears, host, 0);
        }
        if !redirected {
            let plain = lanes & !(one.read_only | one.one_clears | one.zero_clears);
            let mut new = (old & !plain) | (value & plain);
            new &= !(written & one.one_clears);
            new &= !(!value & lanes & one.zero_clears);
            new &= !one.self_clearing;
            new |= one.reset & one.write_resets;
            self.set_counter(block, register, new, host);
            self.change(block, register, new, host, 0);
            self.divide(block, register);
        }
        self.written(block, register, written, lanes, host, 0);
    }

    /// Applies the effects of a write other than the new register value.
    fn written(&mut self, block: usize, register: u32, written: u32, lanes: u32, host: &mut impl Host, depth: u32) {
        if depth == 0 {
            for index in 0..self.chip.blocks[block].ports.len() {
                let wire::chip::Port { send, sending, .. } = &self.chip.blocks[block].ports[index];
                if let Some(send) = send
                    && send.register == register
                    && lanes & send.mask != 0
                    && sending.iter().all(|field| self.field(block, field) != 0)
                {
                    host.print(send.of(written) as u8);
                }
            }
            self.erase(block, register, written, lanes, host);
            self.exchange(block, register, written, host, depth);
        }
        for index in 0..self.chip.blocks[block].triggers.len() {
            let trigger = &self.chip.blocks[block].triggers[index];
            if trigger.is_read || trigger.field.register != register {
                continue;
            }
            let is_it = match trigger.value {
                None => trigger.field.mask & if trigger.by_any { lanes } else { written } != 0,
                Some(value) => trigger.field.mask & lanes == trigger.field.mask && trigger.field.of(written) == value,
            };
            if is_it && depth < MAX_DEPTH {
                self.fire(block, index, host, depth);
            }
        }
        self.pulse(block, register, written, host, depth);
        self.handle_mailboxes(block, register, written, host, depth);
        self.reach(block, register, written, host, depth);
        self.feed(block, register, host);
        self.pace_counters(block, host);
    }

    /// Makes a trigger take effect, now or later, if its settings hold.
    fn fire(&mut self, block: usize, index: usize, host: &mut impl Host, depth: u32) {
        let trigger = &self.chip.blocks[block].triggers[index];
        let after = trigger.after_insns;
        if !self.hold(block, &trigger.when) {
            return;
        }
        if after > 0 {
            self.put_off(block, after, Later::Trigger(index), host);
        } else {
            self.pull(block, index, host, depth);
        }
    }

    fn pull(&mut self, block: usize, trigger: usize, host: &mut impl Host, depth: u32) {
        let wire::chip::Trigger { copies, set, .. } = self.chip.blocks[block].triggers[trigger].clone();
        for Copied { to, from } in copies {
            let value = self.field(block, &from);
            self.put(block, &to, value, host, depth + 1);
        }
        self.apply(block, &set, host, depth + 1);
    }

    /// Sets fields, with the effects of writing them.
    fn apply(&mut self, block: usize, settings: &[Setting], host: &mut impl Host, depth: u32) {
        for setting in settings {
            let Field { register, mask } = setting.field;
            let old = self.states[block].values[register as usize];
            let self_clearing = self.chip.blocks[block].registers[register as usize].self_clearing;
            let new = setting.field.put_in(old, setting.value);
            self.change(block, register, new & !(self_clearing & mask), host, depth);
            if setting.value != 0 {
                self.written(block, register, new & mask, mask, host, depth + 1);
                self.happen(block, register, host);
            }
        }
        self.pace_counters(block, host);
    }

    /// Gives a field a value, and the fields that follow it their values.
    fn put(&mut self, block: usize, field: &Field, value: u32, host: &mut impl Host, depth: u32) {
        let old = self.states[block].values[field.register as usize];
        self.change(block, field.register, field.put_in(old, value), host, depth);
    }

    /// Changes a register and the fields that follow it.
    fn change(&mut self, block: usize, register: u32, new: u32, host: &mut impl Host, depth: u32) {
        let old = std::mem::replace(&mut self.states[block].values[register as usize], new);
        if old == new || depth >= MAX_DEPTH {
            return;
        }
        for index in 0..self.chip.blocks[block].follows.len() {
            let follow = &self.chip.blocks[block].follows[index];
            if follow.source.register != register || (old ^ new) & follow.source.mask == 0 {
                continue;
            }
            if follow.after_insns > 0 {
                let after = follow.after_insns;
                self.put_off(block, after, Later::Follow(index), host);
            } else {
                self.follow(block, index, host, depth);
            }
        }
        for index in 0..self.chip.blocks[block].pins.len() {
            let Pins { driven, outside, modes, pulled, pulls, connected, .. } = &self.chip.blocks[block].pins[index];
            let mut others = pulled.iter().chain(connected).map(|field| field.register);
            if [driven.register, outside.register].contains(&register)
                || modes.contains(&register)
                || pulls.contains(&register)
                || others.any(|other| other == register)
            {
                self.level(block, index, host, depth);
            }
        }
    }

    // Pins.

    /// Mask of a port's pins that the chip drives.
    fn outputs(&self, block: usize, index: usize) -> u32 {
        let Pins { modes, mode_bits, outputs, .. } = &self.chip.blocks[block].pins[index];
        self.pins_in(block, index, modes, *mode_bits, *outputs)
    }

    /// Mask of a port's pins whose mode, of so many bits in these registers, is a chosen one.
    fn pins_in(&self, block: usize, index: usize, modes: &[u32], bits: u32, chosen: u32) -> u32 {
        let is_it = |pin: &u32| {
            let mode = self.states[block].values[modes[(pin * bits / 32) as usize] as usize];
            chosen >> (mode >> (pin * bits % 32) & ((1 << bits) - 1)) & 1 != 0
        };
        let pins = self.chip.blocks[block].pins[index].level.mask.count_ones();
        (0..pins).filter(is_it).fold(0, |all, pin| all | 1 << pin)
    }

    /// Levels of a port's pins: an output has the driven level, any other pin the level from outside, or where nothing is
    /// connected the one to which it is pulled.
    fn levels(&self, block: usize, index: usize) -> u32 {
        let Pins { driven, outside, pulled, pulls, pull_bits, pull_ups, connected, .. } =
            &self.chip.blocks[block].pins[index];
        let is_output = self.outputs(block, index);
        let field = |field: &Field| self.field(block, field);
        let is_up = match (pulled, pulls.is_empty()) {
            (pulled, false) => {
                let is_in_mode = self.pins_in(block, index, pulls, *pull_bits, *pull_ups);
                is_in_mode & pulled.as_ref().map_or(u32::MAX, field)
            }
            (Some(pulled), true) => field(pulled),
            (None, true) => 0,
        };
        let is_up = is_up & !connected.as_ref().map_or(0, field);
        (field(driven) & is_output) | ((field(outside) | is_up) & !is_output)
    }

    /// Connects the pins whose levels a stimulus sets.
    fn connect(&mut self, block: usize, set: &[Setting], host: &mut impl Host) {
        for index in 0..self.chip.blocks[block].pins.len() {
            let Pins { outside, connected, .. } = &self.chip.blocks[block].pins[index];
            let Some(connected) = connected.clone() else { continue };
            let levels = set.iter().filter(|setting| setting.field.register == outside.register);
            let pins = levels.fold(0, |pins, setting| pins | outside.of(setting.field.mask));
            self.put(block, &connected, self.field(block, &connected) | pins, host, 0);
        }
    }

    /// Updates the levels of a port's pins, with the effects of their edges.
    fn level(&mut self, block: usize, index: usize, host: &mut impl Host, depth: u32) {
        let level = self.chip.blocks[block].pins[index].level.clone();
        let (old, new) = (self.field(block, &level), self.levels(block, index));
        let outputs = self.outputs(block, index);
        self.put(block, &level, new, host, depth + 1);
        for pin in (0..32).filter(|pin| (old ^ new) >> pin & 1 != 0) {
            let is_high = new >> pin & 1 != 0;
            host.pin(block, pin, is_high, outputs >> pin & 1 != 0);
            self.select(block, pin, is_high, host);
            self.edge(block, pin, is_high, host, depth);
        }
    }

    /// Applies the effects of an edge, in all blocks.
    fn edge(&mut self, port: usize, pin: u32, is_high: bool, host: &mut impl Host, depth: u32) {
        for at in 0..self.edges.len() {
            let (block, index) = self.edges[at];
            let edge = &self.chip.blocks[block].edges[index];
            let chosen = edge.port.as_ref().map_or(0, |factor| self.factor(factor));
            let is_port = edge.ports.get(chosen as usize).is_some_and(|of| *of == Some(port as u32));
            let of = edge.pin_field.as_ref().map_or(edge.pin, |field| self.field(block, field));
            let way = if is_high { &edge.rising } else { &edge.falling };
            if is_port && of == pin && self.field(block, way) != 0 && self.hold(block, &edge.when) {
                let set = edge.set.clone();
                self.apply(block, &set, host, depth + 1);
                self.settle_lines(block, host);
            }
        }
    }

    fn follow(&mut self, block: usize, index: usize, host: &mut impl Host, depth: u32) {
        let follow = &self.chip.blocks[block].follows[index];
        if follow.is_idle && self.states[block].can_buses.iter().any(|line| !line.is_idle()) {
            if !self.states[block].held.contains(&index) {
                self.states[block].held.push(index);
            }
            return;
        }
        let (target, source) = (follow.target.clone(), self.field(block, &follow.source));
        let source = if follow.is_inverted { !source } else { source };
        self.put(block, &target, source, host, depth + 1);
    }

    fn put_off(&mut self, block: usize, insns: u64, what: Later, host: &mut impl Host) {
        self.put_off_ns(block, self.insns_ns(insns), what, host);
    }

    fn put_off_ns(&mut self, block: usize, ns: u64, what: Later, host: &mut impl Host) {
        let at = host.now_ns().saturating_add(ns);
        self.put_off += 1;
        self.later.insert((at, self.put_off), (block, what));
    }

    fn divide(&mut self, block: usize, register: u32) {
        for divider in &self.chip.blocks[block].dividers {
            if register != divider.dividend && register != divider.divisor {
                continue;
            }
            let values = &mut self.states[block].values;
            let (dividend, divisor) = (values[divider.dividend as usize], values[divider.divisor as usize]);
            // Division by 0: the quotient is -1, or 1 for a negative dividend.
            let (quotient, remainder) = if divider.is_signed {
                let (dividend, divisor) = (dividend.cast_signed(), divisor.cast_signed());
                let by_0 = if dividend < 0 { 1 } else { -1 };
                let quotient = if divisor == 0 { by_0 } else { dividend.wrapping_div(divisor) };
                let remainder = if divisor == 0 { dividend } else { dividend.wrapping_rem(divisor) };
                (quotient.cast_unsigned(), remainder.cast_unsigned())
            } else {
                (dividend.checked_div(divisor).unwrap_or(u32::MAX), dividend.checked_rem(divisor).unwrap_or(dividend))
            };
            values[divider.quotient as usize] = quotient;
            values[divider.remainder as usize] = remainder;
        }
    }

    fn erase(&mut self, block: usize, register: u32, written: u32, lanes: u32, host: &mut impl Host) {
        for flash in 0..self.chip.blocks[block].flashes.len() {
            for index in 0..self.chip.blocks[block].flashes[flash].erases.len() {
                let Block { flashes, .. } = &self.chip.blocks[block];
                let (memory, erase) = (flashes[flash].memory, flashes[flash].erases[index].clone());
                let is_it = erase.start.register == register
                    && erase.start.mask & if erase.by_any { lanes } else { written } != 0;
                if !is_it || !self.hold(block, &erase.when) {
                    continue;
                }
                let Some(of) = self.chip.memory.get(memory as usize) else { continue };
                let (start, bytes) = (of.start, of.bytes);
                let (mut begin, mut size) = (0, bytes);
                if let Some(page) = &erase.page {
                    let page = u64::from(self.field(block, page));
                    let last = erase.page_bytes.last().copied().unwrap_or(bytes);
                    let mut wanted = if erase.is_address { page.wrapping_sub(start) } else { page };
                    size = last;
                    for &page_bytes in &erase.page_bytes {
                        size = page_bytes;
                        if erase.is_address && wanted < page_bytes || !erase.is_address && wanted == 0 {
                            break;
                        }
                        begin += page_bytes;
                        wanted -= if erase.is_address { page_bytes } else { 1 };
                        size = last;
                    }
                    // All pages after the listed ones have the size of the last listed page.
                    let listed: u64 = erase.page_bytes.iter().sum();
                    if begin >= listed {
                        begin = if erase.is_address {
                            (begin + wanted) / last * last
                        } else {
                            begin.saturating_add(wanted.saturating_mul(last))
                        };
                    }
                }
                if begin < bytes {
                    host.erase(memory, begin, size.min(bytes - begin));
                }
                self.apply(block, &erase.set, host, 1);
            }
        }
    }

    // Counters.

    fn set_counter(&mut self, block: usize, register: u32, value: u32, host: &mut impl Host) {
        let now = host.now_ns();
        let (of, state) = (&self.chip.blocks[block], &mut self.states[block]);
        for (counter, counting) in of.counters.iter().zip(&mut state.counters) {
            let is_fixed = of.registers[register as usize].read_only == u32::MAX;
            if let Some(field) = counter.value.as_ref().filter(|field| field.register == register && !is_fixed) {
                let value = u128::from(field.of(value)) % counting.pace().values;
                let value = if counter.counts_down { counting.pace().values - 1 - value } else { value };
                counting.set(value, now);
            }
        }
    }

    /// Updates the counters' paces from the registers.
    fn pace_counters(&mut self, block: usize, host: &mut impl Host) {
        let now = host.now_ns();
        for index in 0..self.states[block].counters.len() {
            let pace = pace(&self.chip, &self.states, &self.hz, block, index);
            let counting = &mut self.states[block].counters[index];
            if counting.pace() != pace {
                counting.change(pace, now);
            }
        }
    }

    /// Handles bits that act when 1 is written: they clear counters, capture their values, start or stop transfers.
    fn pulse(&mut self, block: usize, register: u32, written: u32, host: &mut impl Host, depth: u32) {
        let is_it = |field: &Field| field.register == register && field.mask & written != 0;
        let is_one = |field: &Option<Field>| field.as_ref().is_some_and(is_it);
        let now = host.now_ns();
        for index in 0..self.chip.blocks[block].counters.len() {
            let Counter { clear, compares, .. } = &self.chip.blocks[block].counters[index];
            let captures: Vec<Field> = compares
                .iter()
                .filter(|compare| is_one(&compare.capture))
                .map(|compare| compare.value.clone())
                .collect();
            let clears = is_one(clear);
            let value = self.states[block].counters[index].value(now) as u32;
            for field in captures {
                let old = self.states[block].values[field.register as usize];
                self.change(block, field.register, field.put_in(old, value), host, depth + 1);
            }
            if clears {
                self.states[block].counters[index].set(0, now);
            }
        }
        for index in 0..self.chip.blocks[block].samplers.len() {
            let Sampler { start, selects, .. } = &self.chip.blocks[block].samplers[index];
            if is_it(start) {
                let selected = selects.iter().filter(|select| self.field(block, select) != 0).count() as u64;
                self.put_off(block, SAMPLE_INSNS * selected.max(1), Later::Samples(index), host);
            }
        }
        for index in 0..self.chip.blocks[block].transfers.len() {
            let transfer = self.chip.blocks[block].transfers[index].clone();
            if is_it(&transfer.start) && !transfer.is_receive {
                self.send(block, index, host);
            } else if is_it(&transfer.start) {
                self.states[block].received[index] = Some(0);
            }
            if is_one(&transfer.stop) {
                if let (Some(received), Some(amount)) = (self.states[block].received[index].take(), &transfer.amount)
                {
                    let old = self.states[block].values[amount.register as usize];
                    self.change(block, amount.register, amount.put_in(old, received), host, depth + 1);
                }
                self.apply(block, &transfer.stopped, host, depth + 1);
            }
        }
    }

    // Ports.

    /// Block that receives the console's input: the first one with a receiving port or transfer.
    fn receiver(&self) -> Option<usize> {
        (0..self.chip.blocks.len()).find(|&block| self.is_receiving(block))
    }

    /// Whether a block has a serial port, or a transfer, that receives.
    fn is_receiving(&self, block: usize) -> bool {
        let is_on = |fields: &[Field]| fields.iter().all(|field| self.field(block, field) != 0);
        self.chip.blocks[block].ports.iter().any(|port| port.receive.is_some() && is_on(&port.receiving))
            || self.states[block].received.iter().any(Option::is_some)
    }

    /// Bytes that wait for a block: those that only it gets, otherwise the console's. None: it does not receive, or the
    /// console's are for another block.
    fn typed(&self, block: usize) -> Option<&VecDeque<u8>> {
        let own = &self.states[block].typed;
        if !own.is_empty() && self.is_receiving(block) {
            return Some(own);
        }
        (self.receiver() == Some(block)).then_some(&self.input)
    }

    /// Gives a block's serial port a stimulus's byte, and puts off the next one.
    fn give_typed(&mut self, block: usize, (stimulus, at): (usize, usize), host: &mut impl Host) {
        let typed = &self.chip.stimuli[stimulus].typed;
        let has_next = at + 1 < typed.len();
        let byte = typed.get(at).copied();
        self.states[block].typed.extend(byte);
        self.states[block].has_more = has_next;
        if has_next {
            self.put_off(block, TYPED_INSNS, Later::Typed(stimulus, at + 1), host);
        }
    }

    /// Takes the first byte that waits for a block.
    fn take_typed(&mut self, block: usize) -> Option<u8> {
        let is_own = !self.states[block].typed.is_empty() && self.is_receiving(block);
        if is_own {
            self.states[block].typed.pop_front()
        } else if self.receiver() == Some(block) {
            self.input.pop_front()
        } else {
            None
        }
    }

    fn send(&mut self, block: usize, index: usize, host: &mut impl Host) {
        let transfer = &self.chip.blocks[block].transfers[index];
        let (pointer, count) = (self.field(block, &transfer.pointer), self.field(block, &transfer.count));
        let mut bytes = vec![0; count.min(MAX_TRANSFER_BYTES) as usize];
        if host.read_memory(pointer.into(), &mut bytes) {
            bytes.iter().for_each(|&byte| host.print(byte));
        }
        self.put_off(block, TRANSFER_INSNS.saturating_mul(u64::from(count).max(1)), Later::Sent(index), host);
    }

    /// Applies the settings for an idle line, if no byte has arrived since.
    fn idle(&mut self, block: usize, port: usize, host: &mut impl Host) {
        if self.typed(block).is_none_or(VecDeque::is_empty) && !self.states[block].has_more {
            let settings = self.chip.blocks[block].ports[port].idle.clone();
            self.apply(block, &settings, host, 0);
        }
    }

    fn sent(&mut self, block: usize, index: usize, host: &mut impl Host) {
        let transfer = self.chip.blocks[block].transfers[index].clone();
        if let Some(amount) = &transfer.amount {
            let count = self.field(block, &transfer.count);
            let old = self.states[block].values[amount.register as usize];
            self.change(block, amount.register, amount.put_in(old, count), host, 0);
        }
        self.apply(block, &transfer.set, host, 0);
    }

    /// Moves typed bytes to the running receive transfers.
    fn fill(&mut self, block: usize, host: &mut impl Host) {
        for index in 0..self.chip.blocks[block].transfers.len() {
            while let Some(received) = self.states[block].received[index] {
                let transfer = self.chip.blocks[block].transfers[index].clone();
                let count = self.field(block, &transfer.count);
                if self.typed(block).is_none() {
                    break;
                }
                if received < count {
                    let Some(byte) = self.take_typed(block) else { break };
                    let address = u64::from(self.field(block, &transfer.pointer)) + u64::from(received);
                    host.write_memory(address, &[byte]);
                    self.states[block].received[index] = Some(received + 1);
                    self.apply(block, &transfer.byte, host, 0);
                    if received + 1 < count {
                        continue;
                    }
                }
                self.states[block].received[index] = None;
                if let Some(amount) = &transfer.amount {
                    let old = self.states[block].values[amount.register as usize];
                    self.change(block, amount.register, amount.put_in(old, count), host, 0);
                }
                self.apply(block, &transfer.set, host, 0);
            }
        }
    }

    /// Updates the port flags that say whether a byte is waiting.
    fn offer(&mut self, block: usize, host: &mut impl Host) {
        for index in 0..self.chip.blocks[block].ports.len() {
            let port = self.chip.blocks[block].ports[index].clone();
            if port.receive.is_none() {
                continue;
            }
            let is_there = self.typed(block).is_some_and(|typed| !typed.is_empty());
            for (settings, holds) in [(&port.received, is_there), (&port.empty, !is_there)] {
                for Setting { field, value } in settings {
                    let old = self.states[block].values[field.register as usize];
                    let new = field.put_in(old, if holds { *value } else { 0 });
                    self.change(block, field.register, new, host, 0);
                }
            }
        }
    }

    // CAN.

    /// Handles the requests, withdrawals and releases of a write.
    fn handle_mailboxes(&mut self, block: usize, register: u32, written: u32, host: &mut impl Host, depth: u32) {
        if depth >= MAX_DEPTH {
            return;
        }
        let is_one = |field: &Field| field.register == register && field.mask & written != 0;
        for index in 0..self.chip.blocks[block].cans.len() {
            let Can { resets, queues, .. } = &self.chip.blocks[block].cans[index];
            if resets.as_ref().is_some_and(is_one) {
                let queues = queues.len();
                self.states[block].can_buses[index].reset();
                (0..queues).for_each(|queue| self.show_queue(block, (index, queue), host, depth));
                self.show_mailboxes(block, index, host, depth);
                self.release_held(block, host);
            }
            for mailbox in 0..self.chip.blocks[block].cans[index].mailboxes.len() {
                let Mailbox { request, begin, abort, aborted, .. } =
                    &self.chip.blocks[block].cans[index].mailboxes[mailbox];
                let bus = &mut self.states[block].can_buses[index];
                if is_one(request) && bus.request(mailbox) {
                    let begin = begin.clone();
                    self.apply(block, &begin, host, depth + 1);
                    self.show_mailboxes(block, index, host, depth);
                } else if let Some(abort) = abort.clone().filter(is_one) {
                    if bus.is_moving(mailbox) {
                        self.put(block, &abort, 1, host, depth + 1);
                    } else if bus.withdraw(mailbox) {
                        let aborted = aborted.clone();
                        self.apply(block, &aborted, host, depth + 1);
                        self.show_mailboxes(block, index, host, depth);
                    }
                }
            }
            for queue in 0..self.chip.blocks[block].cans[index].queues.len() {
                if is_one(&self.chip.blocks[block].cans[index].queues[queue].release) {
                    self.states[block].can_buses[index].release(queue);
                    self.show_queue(block, (index, queue), host, depth);
                }
            }
        }
    }

    /// Begins the next frame on each bus of a block that is idle.
    fn begin_frames(&mut self, block: usize, host: &mut impl Host) {
        for index in 0..self.chip.blocks[block].cans.len() {
            let can = &self.chip.blocks[block].cans[index];
            let is_asleep = self.applies(block, &can.asleep);
            if self.states[block].can_buses[index].wakes(is_asleep) {
                let woken = can.woken.clone();
                self.apply(block, &woken, host, 0);
            }
            let can = &self.chip.blocks[block].cans[index];
            if !self.hold(block, &can.when) {
                continue;
            }
            if !self.states[block].can_buses[index].is_idle() {
                continue;
            }
            let loops = self.applies(block, &can.loops);
            let own = if loops || !self.applies(block, &can.silent) {
                self.pending(block, index, self.applies(block, &can.in_order))
            } else {
                Vec::new()
            };
            let ticket = self.put_off + 1;
            let Some(moving) = self.states[block].can_buses[index].begin(&own, !loops, ticket) else { continue };
            let can = &self.chip.blocks[block].cans[index];
            let factors = |factors: &[Factor]| factors.iter().map(|factor| self.factor(factor)).collect::<Vec<_>>();
            let divisor = factors(&can.divide).into_iter().fold(1, u64::saturating_mul).max(1);
            let quanta = factors(&can.segments).into_iter().fold(1, u64::saturating_add);
            let ns = can::duration_ns(&moving.frame, self.hz(can.clock), quanta.saturating_mul(divisor));
            self.put_off_ns(block, ns, Later::Frame(index, ticket), host);
        }
    }

    /// Mailboxes that may be sent next, with their frames.
    fn pending(&self, block: usize, index: usize, is_in_order: bool) -> Vec<(usize, Frame)> {
        let mailboxes = &self.chip.blocks[block].cans[index].mailboxes;
        let pending = self.states[block].can_buses[index].pending(is_in_order).iter();
        pending.map(|&mailbox| (mailbox, self.frame(block, &mailboxes[mailbox].frame))).collect()
    }

    /// Lets the fields follow that have waited for the end of a frame.
    fn release_held(&mut self, block: usize, host: &mut impl Host) {
        let held = std::mem::take(&mut self.states[block].held);
        held.into_iter().for_each(|index| self.follow(block, index, host, 0));
    }

    /// Ends the frame on a bus: it is sent, or received.
    fn end_frame(&mut self, block: usize, (index, ticket): (usize, u64), host: &mut impl Host) {
        let ended = self.states[block].can_buses[index].end(ticket);
        let Some(FrameOnBus { mailbox, frame, .. }) = ended else { return };
        host.frame(block, &frame, mailbox.is_some());
        let can = &self.chip.blocks[block].cans[index];
        let loops = self.applies(block, &can.loops);
        if let Some(mailbox) = mailbox {
            let sent = can.mailboxes[mailbox].sent.clone();
            self.apply(block, &sent, host, 0);
            self.show_mailboxes(block, index, host, 0);
            if !loops {
                let answers = self.chip.blocks[block].can_answers.iter().filter(|answer| answer.is_to(&frame));
                let answers: Vec<(u64, Frame)> = answers.map(|answer| (answer.after_ns, answer.with)).collect();
                answers
                    .into_iter()
                    .for_each(|(ns, with)| self.put_off_ns(block, ns, Later::Other(index, with), host));
            }
        }
        if mailbox.is_none() || loops {
            let received = self.chip.blocks[block].cans[index].received.clone();
            self.apply(block, &received, host, 0);
            self.receive_frame(block, index, frame, host);
        }
        self.release_held(block, host);
    }

    /// Puts a received frame in the queue of the filter that takes it.
    fn receive_frame(&mut self, block: usize, index: usize, frame: Frame, host: &mut impl Host) {
        let Can { queues, filters, .. } = &self.chip.blocks[block].cans[index];
        let taken = filters.as_ref().map_or(Some((0, 0)), |filters| self.filter(filters, &frame));
        let Some((at, filter)) = taken.filter(|&(at, _)| at < queues.len()) else { return };
        let Queue { depth, full, keeps, lost, .. } = queues[at].clone();
        let keeps = self.applies(block, &keeps);
        let bus = &mut self.states[block].can_buses[index];
        let found_room = bus.receive(at, (frame, filter), depth, keeps);
        let is_full = bus.queue(at).1 == depth as usize;
        self.show_queue(block, (index, at), host, 0);
        if !found_room {
            self.apply(block, &lost, host, 0);
        } else if is_full {
            self.apply(block, &full, host, 0);
        }
    }

    /// The queue that takes a frame, and the number of its filter there.
    fn filter(&self, filters: &Filters, frame: &Frame) -> Option<(usize, u32)> {
        let Filters { block, off, active, list, wide, queue, words, split, is_second } = filters;
        let of = *block as usize;
        if self.applies(of, off) {
            return None;
        }
        let value = |register: &u32| value(&self.states, *block, *register);
        let words: Vec<u32> = words.iter().map(value).collect();
        let words = words.as_chunks().0;
        let split = split.as_ref().map_or(words.len(), |field| self.field(of, field) as usize).min(words.len());
        let (first, words) = if *is_second { (split, &words[split..]) } else { (0, &words[..split]) };
        let [active, list, wide, queue] = [active, list, wide, queue].map(value);
        Banks { active, list, wide, queue, words, first }.find(frame)
    }

    /// The frame of fields.
    fn frame(&self, block: usize, at: &FrameAt) -> Frame {
        let is_extended = self.field(block, &at.is_extended) != 0;
        let id = self.field(block, if is_extended { &at.extended } else { &at.standard });
        let data = at.data.iter().take(2).zip([0, 32]);
        let frame = Frame {
            id: id & if is_extended { MAX_EXTENDED } else { MAX_STANDARD },
            is_extended,
            is_remote: self.field(block, &at.remote) != 0,
            length: self.field(block, &at.length).min(MAX_DATA_BYTES),
            data: data.fold(0, |all, (field, shift)| all | u64::from(self.field(block, field)) << shift),
        };
        Frame { data: frame.data & frame.data_mask(), ..frame }
    }

    /// Shows the first frame of a queue.
    fn show_queue(&mut self, block: usize, (index, at): (usize, usize), host: &mut impl Host, depth: u32) {
        let Queue { frame: fields, filter, level, .. } = self.chip.blocks[block].cans[index].queues[at].clone();
        let (first, count) = self.states[block].can_buses[index].queue(at);
        if let Some((frame, number)) = first {
            let id = if frame.is_extended { &fields.extended } else { &fields.standard };
            // An identifier of 11 bits leaves none of the one of 29 before it.
            self.put(block, &fields.extended, 0, host, depth + 1);
            self.put(block, id, frame.id, host, depth + 1);
            self.put(block, &fields.is_extended, frame.is_extended.into(), host, depth + 1);
            self.put(block, &fields.remote, frame.is_remote.into(), host, depth + 1);
            self.put(block, &fields.length, frame.length, host, depth + 1);
            for (field, shift) in fields.data.iter().zip([0, 32]) {
                self.put(block, field, (frame.data >> shift) as u32, host, depth + 1);
            }
            if let Some(filter) = &filter {
                self.put(block, filter, number, host, depth + 1);
            }
        }
        self.put(block, &level, count as u32, host, depth + 1);
    }

    /// Shows which mailbox is the first that is free, and which of those that wait is sent last.
    fn show_mailboxes(&mut self, block: usize, index: usize, host: &mut impl Host, depth: u32) {
        let Can { free, mailboxes, in_order, .. } = &self.chip.blocks[block].cans[index];
        let pending = self.pending(block, index, false);
        let last = can::last(&pending, self.applies(block, in_order));
        let first = self.states[block].can_buses[index].free(mailboxes.len()).or(last);
        let lasts: Vec<Option<Field>> = mailboxes.iter().map(|mailbox| mailbox.last.clone()).collect();
        if let (Some(free), Some(first)) = (free.clone(), first) {
            self.put(block, &free, first as u32, host, depth + 1);
        }
        let last = last.filter(|_| pending.len() > 1);
        for (mailbox, field) in lasts.iter().enumerate() {
            if let Some(field) = field {
                self.put(block, field, (last == Some(mailbox)).into(), host, depth + 1);
            }
        }
    }

    // Watchdogs.

    fn feed(&mut self, block: usize, register: u32, host: &mut impl Host) {
        let now = host.now_ns();
        for index in 0..self.chip.blocks[block].watchdogs.len() {
            let watchdog = &self.chip.blocks[block].watchdogs[index];
            let feeds = watchdog.feed.iter().any(|setting| setting.field.register == register)
                && self.hold(block, &watchdog.feed);
            let runs = self.hold(block, &watchdog.running);
            let fed = &mut self.states[block].fed_ns[index];
            if !runs {
                *fed = None;
            } else if feeds || fed.is_none() {
                *fed = Some(now);
            }
        }
    }

    fn bites_at(&self, block: usize, index: usize) -> Option<u64> {
        let watchdog = &self.chip.blocks[block].watchdogs[index];
        let fed = self.states[block].fed_ns[index]?;
        let hz = self.hz(watchdog.clock);
        let divisor = watchdog.divide.iter().map(|factor| self.factor(factor)).product::<u64>().max(1);
        let ticks = u128::from(self.field(block, &watchdog.reload)) + 1;
        let ns = (ticks * u128::from(divisor) * NS_PER_S).checked_div(hz.into())?;
        Some(fed.saturating_add(u64::try_from(ns).ok()?))
    }

    fn factor(&self, factor: &Factor) -> u64 {
        clock::factor(factor, &|block, register| value(&self.states, block, register))
    }

    // Time.

    /// Applies all effects that are due.
    fn advance(&mut self, host: &mut impl Host) {
        let now = host.now_ns();
        self.begin_stimuli(now);
        self.pulse_lines(now, host);
        while let Some(entry) = self.later.first_entry()
            && entry.key().0 <= now
        {
            let due_ns = entry.key().0;
            let (block, what) = entry.remove();
            match what {
                Later::Follow(index) => self.follow(block, index, host, 0),
                Later::Trigger(index) => self.pull(block, index, host, 0),
                Later::Sent(index) => self.sent(block, index, host),
                Later::Idle(index) => self.idle(block, index, host),
                Later::Stimulus(index) => {
                    let Stimulus { step, set, devices, typed, frames, .. } = self.chip.stimuli[index].clone();
                    if step.is_none() {
                        host.came();
                    }
                    // A level that is set before it is connected makes one edge at most.
                    self.apply(block, &set, host, 0);
                    self.connect(block, &set, host);
                    for DeviceByte { device, at, value } in devices {
                        self.states[block].parts[device as usize].set(at as usize, value as u8, now);
                    }
                    if !typed.is_empty() {
                        self.give_typed(block, (index, 0), host);
                    }
                    if let Some(bus) = self.states[block].can_buses.first_mut() {
                        frames.into_iter().for_each(|frame| bus.add(frame));
                    }
                }
                Later::Typed(stimulus, at) => self.give_typed(block, (stimulus, at), host),
                Later::Items(index, ticket) => self.copy_items(block, index, ticket, host),
                Later::Samples(index) => self.sample(block, index, host),
                Later::Task(address) => self.begin_task(due_ns, address, host),
                Later::Frame(index, ticket) => self.end_frame(block, (index, ticket), host),
                Later::Other(index, frame) => self.states[block].can_buses[index].add_answer(frame),
            }
            if self.clock_blocks.contains(&(block as u32)) {
                self.tell_clocks(host);
            }
            self.settle(block, host);
        }
        for block in 0..self.chip.blocks.len() {
            if !self.states[block].counters.is_empty() && self.count(block, now, host) {
                self.settle(block, host);
            }
            for index in 0..self.chip.blocks[block].watchdogs.len() {
                if self.bites_at(block, index).is_some_and(|at| at <= now) {
                    self.states[block].fed_ns[index] = None;
                    host.bite(block as u32);
                }
            }
        }
    }

    /// Applies the effects of counters that have reached a compare value or overflowed. Returns whether there were
    /// any.
    fn count(&mut self, block: usize, now: u64, host: &mut impl Host) -> bool {
        let mut is_anything = false;
        for index in 0..self.chip.blocks[block].counters.len() {
            let counting = self.states[block].counters[index];
            if !counting.pace().is_running {
                continue;
            }
            let ticks = counting.ticks(now);
            let Counter { compares, .. } = &self.chip.blocks[block].counters[index];
            let passed: Vec<usize> = (0..compares.len())
                .filter(|&compare| {
                    let Compare { value, enabled, clears, is_late, .. } = &compares[compare];
                    let is_enabled = enabled.as_ref().is_none_or(|field| self.field(block, field) != 0);
                    let mut value = u128::from(self.field(block, value));
                    // A counter that is cleared at this value wraps to 0 instead of reaching it.
                    if clears.as_ref().is_some_and(|field| self.field(block, field) != 0) {
                        value %= counting.pace().values;
                    }
                    is_enabled && counting.has_passed(value, (*is_late).into(), ticks)
                })
                .collect();
            let has_overflown = counting.has_passed(0, 0, ticks);
            self.states[block].counters[index].tell(ticks);
            for compare in passed {
                is_anything = true;
                let Compare { set, stops, .. } = self.chip.blocks[block].counters[index].compares[compare].clone();
                self.apply(block, &set, host, 0);
                if stops.is_some_and(|field| self.field(block, &field) != 0) {
                    self.stop(block, index, host);
                }
            }
            if has_overflown {
                is_anything = true;
                let Counter { overflow, once, .. } = self.chip.blocks[block].counters[index].clone();
                self.apply(block, &overflow, host, 0);
                if once.is_some_and(|field| self.field(block, &field) != 0) {
                    self.stop(block, index, host);
                    self.states[block].counters[index].set(0, now);
                }
            }
        }
        is_anything
    }

    fn stop(&mut self, block: usize, counter: usize, host: &mut impl Host) {
        for field in self.chip.blocks[block].counters[counter].running.clone() {
            let old = self.states[block].values[field.register as usize];
            self.change(block, field.register, field.put_in(old, 0), host, 0);
        }
        self.pace_counters(block, host);
    }

    /// Requests the next wake-up: the time of the next effect that the firmware can notice without reading a
    /// register.
    fn plan(&mut self, host: &mut impl Host) {
        let mut next = self.later.keys().next().map(|key| key.0);
        next = next.into_iter().chain(self.pulses_ns.iter().copied()).min();
        let mut at = |ns: Option<u64>| next = next.into_iter().chain(ns).min();
        for block in 0..self.chip.blocks.len() {
            for (index, counter) in self.chip.blocks[block].counters.iter().enumerate() {
                let counting = &self.states[block].counters[index];
                if !counting.pace().is_running {
                    continue;
                }
                if self.interrupts(block, &counter.overflow) {
                    at(counting.next(0, 0));
                }
                for compare in &counter.compares {
                    let is_enabled = compare.enabled.as_ref().is_none_or(|field| self.field(block, field) != 0);
                    if is_enabled && self.interrupts(block, &compare.set) {
                        let value = u128::from(self.field(block, &compare.value));
                        let clears = compare.clears.as_ref().is_some_and(|field| self.field(block, field) != 0);
                        let value = if clears { value % counting.pace().values } else { value };
                        at(counting.next(value, compare.is_late.into()));
                    }
                }
            }
            for index in 0..self.chip.blocks[block].watchdogs.len() {
                at(self.bites_at(block, index));
            }
        }
        host.wake_at(next);
    }

    /// Whether one of these settings would raise an interrupt, or fire a trigger that may.
    fn interrupts(&self, block: usize, settings: &[Setting]) -> bool {
        let of = &self.chip.blocks[block];
        let is_set = |field: &Field, setting: &Setting| {
            field.register == setting.field.register && field.mask & setting.field.mask != 0
        };
        let causes = of.interrupts.iter().flat_map(|interrupt| &interrupt.causes);
        let mut enabled =
            causes.filter(|cause| cause.enable.as_ref().is_none_or(|field| self.field(block, field) != 0));
        let mut triggers = of.triggers.iter().filter(|trigger| !trigger.is_read && self.hold(block, &trigger.when));
        let is_connected = |setting: &Setting| {
            let register = setting.field.register;
            setting.value != 0 && self.connections.iter().any(|&at| self.is_connected(at, block, register))
        };
        if settings.iter().any(is_connected) {
            return true;
        }
        settings.iter().any(|setting| {
            let is_news = self.field(block, &setting.field) != setting.value;
            is_news && enabled.clone().any(|cause| is_set(&cause.status, setting))
                || triggers.clone().any(|trigger| is_set(&trigger.field, setting))
        }) && (enabled.next().is_some() || triggers.next().is_some())
    }

    fn tell_clocks(&mut self, host: &mut impl Host) {
        let hz: Vec<u64> = (0..self.chip.clocks.len() as u32)
            .map(|index| clock::hz(&self.chip, index, &|block, register| value(&self.states, block, register)))
            .collect();
        let old = std::mem::replace(&mut self.hz, hz);
        let is_new =
            |clock: Option<u32>| clock.map(|clock| clock as usize).filter(|&clock| old[clock] != self.hz[clock]);
        let (cpu, systick) = (is_new(self.chip.cpu_clock), is_new(self.chip.systick_clock));
        if let Some(cpu) = cpu {
            host.set_cpu_clock(self.hz[cpu]);
        }
        if let Some(systick) = systick {
            host.set_systick_clock(self.hz[systick]);
        }
        if old != self.hz {
            for block in 0..self.chip.blocks.len() {
                self.pace_counters(block, host);
            }
        }
    }

    /// Updates everything that depends on a block's registers: transfers, port flags, interrupt lines.
    fn settle(&mut self, block: usize, host: &mut impl Host) {
        self.fill(block, host);
        self.offer(block, host);
        self.begin_frames(block, host);
        self.switch_channels(block);
        self.serve_channels(host);
        self.settle_lines(block, host);
    }

    /// Updates a block's interrupt lines.
    fn settle_lines(&mut self, block: usize, host: &mut impl Host) {
        for index in 0..self.chip.blocks[block].interrupts.len() {
            let interrupt = &self.chip.blocks[block].interrupts[index];
            let is_raised = interrupt.causes.iter().any(|cause| {
                let status = self.field(block, &cause.status) != 0;
                status != cause.is_inverted && cause.enable.as_ref().is_none_or(|field| self.field(block, field) != 0)
            });
            let line = interrupt.line;
            if std::mem::replace(&mut self.states[block].raised[index], is_raised) == is_raised {
                continue;
            }
            let raised = self.lines.entry(line).or_default();
            let was_raised = *raised > 0;
            *raised = if is_raised { *raised + 1 } else { raised.saturating_sub(1) };
            if was_raised != (*raised > 0) {
                host.set_line(line, *raised > 0);
            }
        }
    }
}

impl State {
    fn new(block: &Block, seed: u64) -> State {
        let offsets = block.registers.iter().zip(0..).filter_map(|(register, index)| Some((register.offset?, index)));
        State {
            values: block.registers.iter().map(|register| register.reset).collect(),
            addressed: vec![Addressed::default(); block.buses.len()],
            parts: block.devices.iter().map(Part::new).collect(),
            typed: VecDeque::new(),
            has_more: false,
            can_buses: block.cans.iter().map(|can| CanBus::new(can.queues.len())).collect(),
            held: Vec::new(),
            arrays: block.arrays.iter().map(Contents::new).collect(),
            by_offset: offsets.collect(),
            others: BTreeMap::new(),
            counters: Vec::new(),
            received: vec![None; block.transfers.len()],
            // Nonzero: xorshift maps 0 to 0.
            random: seed.wrapping_add(block.start).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            latch: 0,
            fed_ns: vec![None; block.watchdogs.len()],
            raised: vec![false; block.interrupts.len()],
        }
    }
}

fn is_register(field: &Option<Field>, register: u32) -> bool {
    field.as_ref().is_some_and(|field| field.register == register)
}

fn value(states: &[State], block: u32, register: u32) -> u32 {
    states[block as usize].values[register as usize]
}

fn counting_upper(counting: &Counting, now_ns: u64) -> u32 {
    (counting.value(now_ns) >> 32) as u32
}

/// Mask of the lowest `bytes` bytes.
fn lanes(bytes: u32) -> u32 {
    u32::MAX >> (32 - bytes.clamp(1, 4) * 8)
}

/// New value of a register: bits replaced (0), toggled (1), set (2) or cleared, by `operation`.
fn combine(old: u32, value: u32, lanes: u32, operation: u64) -> u32 {
    match operation {
        0 => (old & !lanes) | (value & lanes),
        1 => old ^ (value & lanes),
        2 => old | (value & lanes),
        _ => old & !(value & lanes),
    }
}

/// Derives a counter's pace from its registers.
fn pace(chip: &Chip, states: &[State], hz: &[u64], block: usize, counter: usize) -> Pace {
    let counter = &chip.blocks[block].counters[counter];
    let field = |field: &Field| field.of(states[block].values[field.register as usize]);
    let factor = |factor: &Factor| clock::factor(factor, &|block, register| value(states, block, register));
    let bits = counter.width.as_ref().map_or(counter.bits.into(), factor).clamp(1, 64);
    let mut values = 1u128 << bits;
    if let Some(reload) = &counter.reload {
        values = values.min(u128::from(field(reload)) + 1);
    }
    for compare in &counter.compares {
        let is_on = |one: &Option<Field>| one.as_ref().is_none_or(|one| field(one) != 0);
        if compare.clears.is_some() && is_on(&compare.clears) && is_on(&compare.enabled) {
            values = values.min(u128::from(field(&compare.value)).max(1));
        }
    }
    Pace {
        hz: hz[counter.clock as usize],
        divisor: counter.divide.iter().map(factor).fold(1u64, u64::saturating_mul).max(1),
        values,
        is_two_way: counter.two_way.as_ref().is_some_and(|one| field(one) != 0),
        is_running: counter.running.iter().all(|one| field(one) != 0),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;
    use wire::chip::{
        BusEnd, Cause, Clock, Divider, Erase, Flash, Follow, Port, Random, Register, Source, Transfer, Trigger,
        Watchdog,
    };

    /// A machine that records all calls.
    #[derive(Default)]
    struct Noted {
        ns: u64,
        lines: BTreeMap<u32, bool>,
        due_ns: Option<u64>,
        printed: Vec<u8>,
        memory: BTreeMap<u64, u8>,
        flash: Vec<u8>,
        cpu_hz: u64,
        systick_hz: u64,
        bites: u32,
        pins: Vec<(u32, bool, bool)>,
        frames: Vec<(String, bool)>,
        came: u32,
    }

    impl Host for Noted {
        fn now_ns(&mut self) -> u64 {
            self.ns
        }
        fn set_line(&mut self, line: u32, is_raised: bool) {
            self.lines.insert(line, is_raised);
        }
        fn wake_at(&mut self, ns: Option<u64>) {
            self.due_ns = ns;
        }
        fn print(&mut self, byte: u8) {
            self.printed.push(byte);
        }
        fn read_memory(&mut self, address: u64, to: &mut [u8]) -> bool {
            if address >> 28 == 4 {
                return false;
            }
            for (byte, address) in to.iter_mut().zip(address..) {
                *byte = self.memory.get(&address).copied().unwrap_or(0);
            }
            true
        }
        fn write_memory(&mut self, address: u64, from: &[u8]) -> bool {
            if address >> 28 == 4 {
                return false;
            }
            self.memory.extend((address..).zip(from.iter().copied()));
            true
        }
        fn program(&mut self, _: u32, offset: u64, bytes: &[u8]) {
            self.flash[offset as usize..][..bytes.len()].iter_mut().zip(bytes).for_each(|(old, new)| *old &= new);
        }
        fn erase(&mut self, _: u32, offset: u64, bytes: u64) {
            self.flash[offset as usize..][..bytes as usize].fill(0xff);
        }
        fn set_cpu_clock(&mut self, hz: u64) {
            self.cpu_hz = hz;
        }
        fn set_systick_clock(&mut self, hz: u64) {
            self.systick_hz = hz;
        }
        fn pulsed(&mut self, _: usize) {}
        fn pin(&mut self, _: usize, pin: u32, is_high: bool, is_output: bool) {
            self.pins.push((pin, is_high, is_output));
        }
        fn came(&mut self) {
            self.came += 1;
        }
        fn frame(&mut self, _: usize, frame: &Frame, is_sent: bool) {
            self.frames.push((frame.to_string(), is_sent));
        }
        fn bite(&mut self, _: u32) {
            self.bites += 1;
        }
    }

    impl Noted {
        /// Lets time pass as QEMU does: calls `wake` at each due time.
        fn pass(&mut self, device: &mut Device, ns: u64) {
            let end = self.ns + ns;
            while let Some(due) = self.due_ns.filter(|&due| due <= end) {
                self.ns = self.ns.max(due);
                self.due_ns = None;
                device.wake(self);
            }
            self.ns = end;
        }
    }

    fn field(register: u32, mask: u32) -> Field {
        Field { register, mask }
    }

    fn set(register: u32, mask: u32, value: u32) -> Setting {
        Setting { field: field(register, mask), value }
    }

    fn registers(count: u32) -> Vec<Register> {
        (0..count)
            .map(|index| Register {
                name: format!("R{index}"),
                offset: Some(u64::from(index) * 4),
                ..Register::default()
            })
            .collect()
    }

    fn chip(block: Block) -> Chip {
        let clock = Clock { sources: vec![Source { hz: 1_000_000, clock: None }], ..Clock::default() };
        let block = Block { name: "B".into(), start: 0x4000_0000, bytes: 0x100, ..block };
        let flash =
            Memory { name: "flash".into(), start: 0x800_0000, bytes: 0x800, is_flash: true, ..Memory::default() };
        Chip { memory: vec![flash], blocks: vec![block], clocks: vec![clock], seed: 1, ..Chip::default() }
    }

    fn begun(block: Block) -> (Device, Noted) {
        let chip = chip(block);
        assert_eq!(chip.check(), Ok(()));
        let mut noted = Noted { flash: vec![0; 0x800], ..Noted::default() };
        let mut device = Device::new(chip);
        device.begin(&mut noted);
        (device, noted)
    }

    fn read(device: &mut Device, noted: &mut Noted, register: u64) -> u32 {
        device.read(0, register * 4, 4, noted).value
    }

    fn write(device: &mut Device, noted: &mut Noted, register: u64, value: u32) {
        assert!(device.write(0, register * 4, 4, value, noted));
    }

    #[test]
    fn a_ready_bit_follows_its_enable_bit_later_and_nothing_else_writes_it() {
        let mut block = Block { registers: registers(1), ..Block::default() };
        block.registers[0].read_only = 2;
        let follow = Follow { target: field(0, 2), source: field(0, 1), after_insns: 100, ..Follow::default() };
        block.follows.push(follow);
        let (mut device, mut noted) = begun(block);
        write(&mut device, &mut noted, 0, 3);
        assert_eq!(read(&mut device, &mut noted, 0), 1);
        noted.pass(&mut device, 99);
        assert_eq!(read(&mut device, &mut noted, 0), 1);
        noted.pass(&mut device, 1);
        assert_eq!(read(&mut device, &mut noted, 0), 3);
        write(&mut device, &mut noted, 0, 2);
        noted.pass(&mut device, 100);
        assert_eq!(read(&mut device, &mut noted, 0), 0);
    }

    #[test]
    fn registers_are_written_and_read_as_their_attributes_say() {
        let mut block = Block { registers: registers(7), ..Block::default() };
        block.registers[0].one_clears = 0xff;
        block.registers[0].zero_clears = 0xff00;
        block.registers[0].reset = 0xffff;
        block.registers[1].sets = Some(2);
        block.registers[3].clears = Some(2);
        block.registers[3].read_only = 0x20;
        block.registers[4].read_clears = u32::MAX;
        block.registers[4].write_resets = u32::MAX;
        block.registers[4].read_only = u32::MAX;
        block.registers[4].reset = 1;
        block.registers[5].self_clearing = 1;
        block.registers[6].all_of = vec![0, 2];
        let (mut device, mut noted) = begun(block);
        write(&mut device, &mut noted, 0, 0xf00f);
        assert_eq!(read(&mut device, &mut noted, 0), 0xf0f0);
        assert!(device.write(0, 1, 1, 0x30, &mut noted), "one byte");
        assert_eq!(read(&mut device, &mut noted, 0), 0x30f0, "the other bits that 0 clears were not written");
        write(&mut device, &mut noted, 1, 0x31);
        assert_eq!((read(&mut device, &mut noted, 1), read(&mut device, &mut noted, 2)), (0x31, 0x31));
        write(&mut device, &mut noted, 3, 0x21);
        assert_eq!(read(&mut device, &mut noted, 3), 0x30, "one of the bits is not this register's to clear");
        assert_eq!(
            (read(&mut device, &mut noted, 4), read(&mut device, &mut noted, 4)),
            (1, 0),
            "a lock that is taken"
        );
        write(&mut device, &mut noted, 4, 0);
        assert_eq!(read(&mut device, &mut noted, 4), 1);
        write(&mut device, &mut noted, 5, 3);
        assert_eq!(read(&mut device, &mut noted, 5), 2);
        assert_eq!(read(&mut device, &mut noted, 6), 0x30);
    }

    #[test]
    fn what_nobody_has_described_reads_as_it_was_written_and_says_so() {
        let (mut device, mut noted) = begun(Block::default());
        assert_eq!(device.read(0, 8, 4, &mut noted), Access { value: 0, is_modelled: false, answer: None });
        assert!(!device.write(0, 10, 2, 0xabcd, &mut noted));
        assert_eq!(device.read(0, 8, 4, &mut noted), Access { value: 0xabcd_0000, is_modelled: false, answer: None });
        assert_eq!(device.read(0, 11, 1, &mut noted).value, 0xab);
    }

    /// R0: address, R1: byte, R2: read, write, program and erase.
    #[test]
    fn a_memory_behind_registers_keeps_its_bytes() {
        let bit = |number: u32| Some(field(2, 1 << number));
        let (address, value) = (field(0, u32::MAX), field(1, 0xff));
        let array = Array {
            bytes: 4,
            reset: 0xff,
            contents: vec![0xff, 0xff, 0x77],
            address,
            value,
            read: bit(0),
            write: bit(1),
            program: bit(2),
            erase: bit(3),
            ..Array::default()
        };
        let mut block = Block { registers: registers(3), arrays: vec![array], ..Block::default() };
        block.registers[2].self_clearing = u32::MAX;
        let (mut device, mut noted) = begun(block);
        let mut act = |at: u32, byte: u32, command: u32| {
            for (register, value) in [(0, at), (1, byte), (2, command), (1, 0), (2, 1)] {
                write(&mut device, &mut noted, register, value);
            }
            read(&mut device, &mut noted, 1)
        };
        assert_eq!((act(2, 0, 0), act(1, 0, 0)), (0x77, 0xff), "its contents at reset");
        assert_eq!(act(3, 0x12, 0), 0xff, "nothing was written");
        assert_eq!(act(3, 0x3c, 2), 0x3c);
        assert_eq!(act(3, 0xf0, 4), 0x30);
        assert_eq!(act(0, 0, 0), 0xff, "another byte");
        assert_eq!(act(3, 0, 8), 0xff);
        assert_eq!(act(2, 0, 8), 0xff, "erased, and not as at reset");
        assert_eq!(act(4, 0x55, 2), 0xff, "there is no such byte");
    }

    /// R0: running, R1: reload, R2: status, R3: enable, R4: counter, R5: compare value.
    fn timer() -> Block {
        Block {
            registers: registers(6),
            counters: vec![Counter {
                value: Some(field(4, u32::MAX)),
                running: vec![field(0, 1)],
                reload: Some(field(1, u32::MAX)),
                bits: 32,
                overflow: vec![set(2, 1, 1)],
                compares: vec![Compare { value: field(5, u32::MAX), set: vec![set(2, 2, 1)], ..Compare::default() }],
                ..Counter::default()
            }],
            interrupts: vec![Interrupt {
                line: 7,
                causes: vec![
                    Cause { status: field(2, 1), enable: Some(field(3, 1)), is_inverted: false },
                    Cause { status: field(2, 2), enable: Some(field(3, 2)), is_inverted: false },
                ],
                taken: vec![set(2, 1, 0)],
            }],
            ..Block::default()
        }
    }

    #[test]
    fn a_timer_raises_its_line_when_it_is_due_and_sleeps_where_nothing_would_notice() {
        let (mut device, mut noted) = begun(timer());
        write(&mut device, &mut noted, 1, 999);
        write(&mut device, &mut noted, 5, 400);
        write(&mut device, &mut noted, 0, 1);
        assert_eq!(noted.due_ns, None, "nothing is enabled");
        write(&mut device, &mut noted, 3, 3);
        noted.pass(&mut device, 399_999);
        assert_eq!(noted.lines.get(&7), None);
        noted.pass(&mut device, 1);
        assert_eq!((noted.lines.get(&7).copied(), read(&mut device, &mut noted, 2)), (Some(true), 2));
        write(&mut device, &mut noted, 2, 0);
        assert_eq!(noted.lines.get(&7), Some(&false));
        noted.pass(&mut device, 600_000);
        assert_eq!((noted.lines.get(&7).copied(), read(&mut device, &mut noted, 2)), (Some(true), 1));
        assert_eq!(read(&mut device, &mut noted, 4), 0);
    }

    proptest! {
        /// Reads at any times and any number of wake-ups give the same result.
        #[test]
        fn what_a_timer_has_done_does_not_depend_on_when_it_is_looked_at(
            reload in 0u32..50, compare in 0u32..60, looks in prop::collection::vec(0u64..200_000, 1..20),
        ) {
            let (mut device, mut noted) = begun(timer());
            let (mut other, mut others) = begun(timer());
            for (device, noted) in [(&mut device, &mut noted), (&mut other, &mut others)] {
                write(device, noted, 1, reload);
                write(device, noted, 5, compare);
                write(device, noted, 0, 1);
            }
            for look in looks {
                noted.pass(&mut device, look);
                read(&mut device, &mut noted, 4);
                others.pass(&mut other, look);
            }
            prop_assert_eq!(read(&mut device, &mut noted, 2), read(&mut other, &mut others, 2));
            prop_assert_eq!(read(&mut device, &mut noted, 4), read(&mut other, &mut others, 4));
        }

        /// No access panics.
        #[test]
        fn no_access_ends_in_a_panic(
            accesses in prop::collection::vec((any::<bool>(), 0u64..0x100, 0u32..3, any::<u32>()), 1..60),
        ) {
            let mut block = timer();
            let follow = |target, source| Follow { target, source, is_inverted: true, ..Follow::default() };
            // Two fields that follow each other.
            block.follows.push(follow(field(2, 1), field(3, 1)));
            block.follows.push(follow(field(3, 1), field(2, 1)));
            block.triggers.push(Trigger { field: field(2, 2), set: vec![set(3, 2, 1)], ..Trigger::default() });
            block.triggers.push(Trigger { field: field(3, 2), set: vec![set(2, 2, 1)], ..Trigger::default() });
            let (mut device, mut noted) = begun(block);
            for (is_write, offset, size, value) in accesses {
                let bytes = 1 << size;
                let offset = offset / u64::from(bytes) * u64::from(bytes);
                noted.ns += u64::from(value % 100_000);
                if is_write {
                    device.write(0, offset, bytes, value, &mut noted);
                } else {
                    device.read(0, offset, bytes, &mut noted);
                }
            }
        }
    }

    #[test]
    fn a_port_prints_and_receives_one_byte_after_the_other() {
        let port = Port {
            sending: Vec::new(),
            send: Some(field(0, 0xff)),
            receive: Some(field(0, 0xff)),
            received: vec![set(1, 1, 1)],
            empty: vec![set(1, 2, 1)],
            idle: vec![set(1, 4, 1)],
            receiving: vec![field(2, 1)],
        };
        let cause = Cause { status: field(1, 1), enable: None, is_inverted: false };
        let (mut device, mut noted) = begun(Block {
            registers: registers(3),
            ports: vec![port],
            interrupts: vec![Interrupt { line: 3, causes: vec![cause], taken: Vec::new() }],
            ..Block::default()
        });
        b"ok".iter().for_each(|&byte| write(&mut device, &mut noted, 0, byte.into()));
        assert_eq!(noted.printed, b"ok");
        device.receive(b'a', &mut noted);
        device.receive(b'b', &mut noted);
        assert_eq!(read(&mut device, &mut noted, 1) & 3, 2, "it does not receive yet");
        write(&mut device, &mut noted, 2, 1);
        assert_eq!((read(&mut device, &mut noted, 1) & 3, noted.lines[&3]), (1, true));
        assert_eq!(read(&mut device, &mut noted, 0), b'a'.into());
        assert!(noted.lines[&3], "there is another one");
        assert_eq!(read(&mut device, &mut noted, 0), b'b'.into());
        assert_eq!((read(&mut device, &mut noted, 1) & 7, noted.lines[&3]), (2, false));
        noted.pass(&mut device, IDLE_INSNS);
        assert_eq!(read(&mut device, &mut noted, 1) & 4, 4, "the line is idle");
    }

    /// The UART of the Kinetis has its status and the received byte in one word.
    #[test]
    fn a_byte_is_received_only_by_reading_its_own_part_of_a_word() {
        let port = Port { receive: Some(field(0, 0xff00_0000)), received: vec![set(0, 1, 1)], ..Port::default() };
        let (mut device, mut noted) = begun(Block {
            registers: registers(2),
            ports: vec![port],
            triggers: vec![Trigger {
                field: field(0, 0xff00_0000),
                is_read: true,
                set: vec![set(1, 1, 1)],
                ..Trigger::default()
            }],
            ..Block::default()
        });
        device.receive(b'a', &mut noted);
        for _ in 0..2 {
            assert_eq!(device.read(0, 0, 1, &mut noted).value, 1, "the status is read");
        }
        assert_eq!(read(&mut device, &mut noted, 1), 0, "nothing has happened");
        assert_eq!(device.read(0, 3, 1, &mut noted).value, b'a'.into());
        assert_eq!((read(&mut device, &mut noted, 0) & 1, read(&mut device, &mut noted, 1)), (0, 1));
        device.receive(b'b', &mut noted);
        assert_eq!(read(&mut device, &mut noted, 0), u32::from(b'b') << 24 | 1, "a word has all of its parts");
        assert_eq!(device.read(0, 0, 1, &mut noted).value, 0);
    }

    #[test]
    fn transfers_take_the_bus_by_themselves() {
        // R0: start of sending, R1: start of receiving, R2: pointer, R3: count, R4: amount, R5: events.
        let transfer = |is_receive, start, event| Transfer {
            is_receive,
            start: field(start, 1),
            pointer: field(2, u32::MAX),
            count: field(3, 0xff),
            amount: Some(field(4, 0xff)),
            set: vec![set(5, event, 1)],
            ..Transfer::default()
        };
        let (mut device, mut noted) = begun(Block {
            registers: registers(6),
            transfers: vec![transfer(false, 0, 1), transfer(true, 1, 2)],
            ..Block::default()
        });
        noted.memory.extend((0x2000_0000..).zip(*b"hello"));
        write(&mut device, &mut noted, 2, 0x2000_0000);
        write(&mut device, &mut noted, 3, 4);
        write(&mut device, &mut noted, 0, 1);
        assert_eq!((noted.printed.clone(), read(&mut device, &mut noted, 5)), (b"hell".to_vec(), 0));
        noted.pass(&mut device, 4 * TRANSFER_INSNS);
        assert_eq!((read(&mut device, &mut noted, 5), read(&mut device, &mut noted, 4)), (1, 4));
        write(&mut device, &mut noted, 3, 2);
        write(&mut device, &mut noted, 1, 1);
        b"xyz".iter().for_each(|&byte| device.receive(byte, &mut noted));
        assert_eq!(read(&mut device, &mut noted, 5), 3);
        assert_eq!(
            (noted.memory[&0x2000_0000], noted.memory[&0x2000_0001], noted.memory[&0x2000_0002]),
            (b'x', b'y', b'l')
        );
    }

    #[test]
    fn flash_is_programmed_and_erased_where_its_controller_lets_it() {
        let erase = |start, page, is_address, page_bytes: &[u64]| Erase {
            start: field(start, 1),
            when: vec![set(0, 2, 1)],
            page,
            is_address,
            page_bytes: page_bytes.to_vec(),
            ..Erase::default()
        };
        let erases = vec![
            erase(1, Some(field(2, u32::MAX)), false, &[0x100, 0x200]),
            erase(3, Some(field(2, u32::MAX)), true, &[0x100]),
        ];
        let flash = Flash { memory: 0, programs: vec![set(0, 1, 1)], programmed: vec![], erases };
        let (mut device, mut noted) =
            begun(Block { registers: registers(4), flashes: vec![flash], ..Block::default() });
        noted.flash.fill(0x55);
        device.write_flash(0, 0, &[0x0f], &mut noted);
        assert_eq!(noted.flash[0], 0x55, "it is locked");
        write(&mut device, &mut noted, 0, 1);
        device.write_flash(0, 0, &[0x0f], &mut noted);
        assert_eq!(noted.flash[0], 0x05);
        write(&mut device, &mut noted, 0, 2);
        // Pages of 0x100, 0x200, 0x200 and so on: the third begins at 0x300.
        write(&mut device, &mut noted, 2, 2);
        write(&mut device, &mut noted, 1, 1);
        let erased: Vec<usize> = (0..0x800).filter(|&at| noted.flash[at] == 0xff).collect();
        assert_eq!((erased[0], erased.len()), (0x300, 0x200));
        noted.flash.fill(0x55);
        write(&mut device, &mut noted, 2, 0x800_0510);
        write(&mut device, &mut noted, 3, 1);
        let erased: Vec<usize> = (0..0x800).filter(|&at| noted.flash[at] == 0xff).collect();
        assert_eq!((erased[0], erased.len()), (0x500, 0x100));
    }

    #[test]
    fn the_processors_clock_is_said_at_reset_and_when_it_changes() {
        let factor = Factor { block: 0, field: field(0, 0xff), plus: 1, map: vec![], is_power: false };
        let mut chip = chip(Block { registers: registers(1), ..Block::default() });
        chip.clocks[0].multiply.push(factor);
        chip.cpu_clock = Some(0);
        let (mut device, mut noted) = (Device::new(chip), Noted::default());
        device.begin(&mut noted);
        assert_eq!(noted.cpu_hz, 1_000_000, "nothing has been written");
        write(&mut device, &mut noted, 0, 7);
        assert_eq!(noted.cpu_hz, 8_000_000);
    }

    fn polled_chip(answers: Vec<Answer>, pulses: Vec<Pulse>) -> Device {
        let block = Block { name: "P".into(), start: 0x4000_0000, bytes: 0x100, ..Block::default() };
        Device::new(Chip { blocks: vec![block], answers, pulses, ..Chip::default() })
    }

    #[test]
    fn a_register_counts_instructions_from_what_was_written_to_it() {
        let block = Block { name: "TIMER".into(), start: 0x4000_0000, bytes: 0x100, ..Block::default() };
        let count = wire::chip::Count { address: 0x4000_0010, every_insns: 10 };
        let chip = Chip { blocks: vec![block], counts: vec![count], insn_shift: 4, ..Chip::default() };
        let (mut device, mut noted) = (Device::new(chip), Noted::default());
        let read = |device: &mut Device, noted: &mut Noted| device.read(0, 0x10, 4, noted).value;
        assert_eq!(read(&mut device, &mut noted), 0);
        noted.ns = 100 * 16;
        assert_eq!(read(&mut device, &mut noted), 10);
        assert_eq!(device.read(0, 0x10, 4, &mut noted).answer, Some(0), "the row of it");
        device.write(0, 0x10, 4, 0xffff_fffe, &mut noted);
        assert_eq!(read(&mut device, &mut noted), 0xffff_fffe);
        noted.ns += 30 * 16;
        assert_eq!((read(&mut device, &mut noted), device.read(0, 0x10, 2, &mut noted).value), (1, 1));
        assert_eq!(device.read(0, 0x14, 4, &mut noted).value, 0, "its neighbour does not");
    }

    #[test]
    fn a_polled_register_is_answered_until_it_is_written_again() {
        let answer = |mask, value| Answer { address: 0x4000_0008, mask, value };
        let mut device = polled_chip(vec![answer(2, 2), answer(4, 4), answer(2, 0)], Vec::new());
        let mut noted = Noted::default();
        let reads = |device: &mut Device, count| -> Vec<(u32, Option<usize>)> {
            let read = |_| device.read(0, 8, 4, &mut Noted::default());
            (0..count).map(read).map(|access| (access.value, access.answer)).collect()
        };
        device.write(0, 8, 4, 1, &mut noted);
        assert_eq!(reads(&mut device, 7), [(1, None); 7], "it may be read a few times");
        assert_eq!(reads(&mut device, 1), [(3, Some(0))]);
        assert_eq!(reads(&mut device, 7), [(3, None); 7]);
        assert_eq!(reads(&mut device, 2), [(7, Some(1)), (7, None)], "each answer that changes something comes next");
        device.write(0, 8, 4, 1, &mut noted);
        assert_eq!(reads(&mut device, 7), [(1, None); 7], "what was answered is gone");
        device.write(0, 0x20, 4, 1, &mut noted);
        assert_eq!(reads(&mut device, 7), [(1, None); 7], "what writes between does not only wait");
        device.write(0, 8, 4, 2, &mut noted);
        assert_eq!(reads(&mut device, 8).last(), Some(&(0, Some(2))));
    }

    #[test]
    fn a_pulse_comes_again_and_again_and_sets_its_bits() {
        let sets = vec![Answer { address: 0x4000_0010, mask: 1, value: 1 }];
        let mut device = polled_chip(Vec::new(), vec![Pulse { line: 9, every_insns: 1000, sets }]);
        let mut noted = Noted::default();
        device.begin(&mut noted);
        assert_eq!(noted.due_ns, Some(1000));
        noted.ns = 2500;
        device.wake(&mut noted);
        assert_eq!((noted.lines.get(&9), noted.due_ns), (Some(&false), Some(3000)), "raised for a moment");
        assert_eq!(device.read(0, 0x10, 4, &mut noted).value, 1);
    }

    /// R0: on, reversed, free, circular; R1: count; R2, R3: addresses; R4: steps; R5: events; R6: sent; R7: asks.
    fn channel() -> Block {
        let factor = |mask| Factor { field: field(4, mask), map: vec![1, 2, 4], ..Factor::default() };
        let end = |address, item, steps| wire::chip::ChannelEnd {
            address: field(address, u32::MAX),
            item: factor(item),
            steps: field(4, steps),
        };
        let channel = Channel {
            running: vec![set(0, 1, 1)],
            count: field(1, 0xffff),
            ends: vec![end(2, 0x30, 1), end(3, 0xc0, 2)],
            reversed: vec![set(0, 2, 1)],
            free: vec![set(0, 4, 1)],
            circular: Some(field(0, 8)),
            half: vec![set(5, 1, 1)],
            set: vec![set(5, 2, 1)],
            failed: vec![set(5, 4, 1), set(0, 1, 0)],
            ..Channel::default()
        };
        let asks = |is_read| wire::chip::Request { register: 6, is_read, when: vec![set(7, 1, 1)] };
        let port = Port { send: Some(field(6, 0xff)), ..Port::default() };
        let requests = vec![asks(false), asks(true)];
        Block { registers: registers(8), channels: vec![channel], ports: vec![port], requests, ..Block::default() }
    }

    #[test]
    fn a_free_channel_copies_memory_and_counts_down() {
        let (mut device, mut noted) = begun(channel());
        noted.memory.extend((0x2000_0000..).zip([1, 2, 3, 4, 5, 6, 7, 8]));
        for (register, value) in [(1, 4), (2, 0x2000_0000), (3, 0x2000_0100), (4, 3 | 1 << 4 | 1 << 6), (0, 1 | 4)] {
            write(&mut device, &mut noted, register, value);
        }
        assert_eq!((read(&mut device, &mut noted, 1), read(&mut device, &mut noted, 5)), (4, 0));
        noted.pass(&mut device, 16);
        assert_eq!((read(&mut device, &mut noted, 1), read(&mut device, &mut noted, 5)), (0, 3));
        let copied: Vec<u8> = (0x2000_0100..0x2000_0109).map(|at| *noted.memory.get(&at).unwrap_or(&99)).collect();
        assert_eq!(copied, [1, 2, 3, 4, 5, 6, 7, 8, 99]);
        // A channel does not write flash, and fails at an address without memory or register.
        for bad in [0x0800_0000, 0x4fff_0000] {
            write(&mut device, &mut noted, 0, 0);
            write(&mut device, &mut noted, 5, 0);
            write(&mut device, &mut noted, 1, 4);
            write(&mut device, &mut noted, 3, bad);
            write(&mut device, &mut noted, 0, 1 | 4);
            noted.pass(&mut device, 100);
            assert_eq!((read(&mut device, &mut noted, 5), read(&mut device, &mut noted, 0)), (4, 4), "{bad:#x}");
        }
    }

    #[test]
    fn a_channel_waits_until_a_register_asks_and_stops_where_it_is_switched_off() {
        let (mut device, mut noted) = begun(channel());
        noted.memory.extend((0x2000_0000..).zip(*b"hello"));
        // From memory to R6, a byte each.
        for (register, value) in [(1, 5), (2, 0x4000_0018), (3, 0x2000_0000), (4, 2), (0, 1 | 2)] {
            write(&mut device, &mut noted, register, value);
        }
        noted.pass(&mut device, 1000);
        assert_eq!(noted.printed, b"", "nothing asks");
        write(&mut device, &mut noted, 7, 1);
        noted.pass(&mut device, 128);
        assert_eq!((noted.printed.clone(), read(&mut device, &mut noted, 1)), (b"he".to_vec(), 3));
        write(&mut device, &mut noted, 7, 0);
        noted.pass(&mut device, 1000);
        assert_eq!(noted.printed, b"hel", "one was under way");
        assert_eq!(read(&mut device, &mut noted, 5), 1, "half of them");
        write(&mut device, &mut noted, 0, 0);
        write(&mut device, &mut noted, 7, 1);
        noted.pass(&mut device, 1000);
        assert_eq!((noted.printed.clone(), read(&mut device, &mut noted, 5)), (b"hel".to_vec(), 1), "it is off");
        // Circular: it begins again.
        write(&mut device, &mut noted, 1, 2);
        write(&mut device, &mut noted, 0, 1 | 2 | 8);
        noted.pass(&mut device, 64 * 5);
        assert_eq!((noted.printed.clone(), read(&mut device, &mut noted, 1)), (b"helheheh".to_vec(), 1));
        assert_eq!(read(&mut device, &mut noted, 5), 3);
    }

    #[test]
    fn a_channel_begins_another_one_at_its_end_and_shows_where_it_is() {
        let mut block = channel();
        let first = Channel { chain: Some(field(5, 0xf0)), advances: true, ..block.channels[0].clone() };
        let second =
            Channel { running: vec![set(7, 2, 1)], begin: vec![set(7, 2, 1), set(5, 8, 1)], ..first.clone() };
        block.channels = vec![first, second];
        let (mut device, mut noted) = begun(block);
        noted.memory.extend((0x2000_0000..).zip([1, 2, 3, 4]));
        for (register, value) in [(1, 1), (2, 0x2000_0000), (3, 0x2000_0100), (4, 3 | 2 << 4 | 2 << 6), (0, 1 | 4)] {
            write(&mut device, &mut noted, register, value);
        }
        noted.pass(&mut device, 16);
        assert_eq!((read(&mut device, &mut noted, 2), read(&mut device, &mut noted, 3)), (0x2000_0004, 0x2000_0104));
        assert_eq!(read(&mut device, &mut noted, 5) & 8, 0, "its own number is none");
        write(&mut device, &mut noted, 0, 0);
        write(&mut device, &mut noted, 5, 1 << 4);
        write(&mut device, &mut noted, 1, 1);
        write(&mut device, &mut noted, 0, 1 | 4);
        noted.pass(&mut device, 16);
        assert_eq!(read(&mut device, &mut noted, 5) & 8, 8, "the second one has begun");
    }

    /// R0: TASK, R1: STARTED, R2 and R3: select two inputs, R4 and R5: inputs, R6: pointer, R7: count, R8: amount, R9: events.
    fn sampler() -> Block {
        let all = |register| field(register, u32::MAX);
        let sampler = Sampler {
            start: field(0, 1),
            running: vec![set(1, 1, 1)],
            selects: vec![all(2), all(3)],
            inputs: vec![all(4), all(5)],
            pointer: all(6),
            count: all(7),
            amount: all(8),
            done: vec![set(9, 1, 1)],
            full: vec![set(9, 2, 1), set(1, 1, 0)],
        };
        let mut registers = registers(12);
        registers[0].self_clearing = u32::MAX;
        Block { registers, samplers: vec![sampler], ..Block::default() }
    }

    #[test]
    fn a_converter_stores_its_selected_inputs_until_its_buffer_is_full() {
        let (mut device, mut noted) = begun(sampler());
        let values = [(1, 1), (2, 2), (3, 1), (4, 0x1111), (5, 0x2222), (6, 0x2000_0000), (7, 3), (0, 1)];
        values.into_iter().for_each(|(register, value)| write(&mut device, &mut noted, register, value));
        assert_eq!(read(&mut device, &mut noted, 9), 0, "it takes a while");
        noted.pass(&mut device, 200);
        assert_eq!((read(&mut device, &mut noted, 8), read(&mut device, &mut noted, 9)), (2, 1));
        for _ in 0..2 {
            write(&mut device, &mut noted, 0, 1);
            noted.pass(&mut device, 200);
        }
        assert_eq!((read(&mut device, &mut noted, 8), read(&mut device, &mut noted, 9)), (3, 3), "no more fit");
        let stored: Vec<u8> = (0x2000_0000..0x2000_0008).map(|at| *noted.memory.get(&at).unwrap_or(&99)).collect();
        assert_eq!(stored, [0x22, 0x22, 0x11, 0x11, 0x22, 0x22, 99, 99]);
    }

    #[test]
    fn an_event_begins_the_tasks_that_it_is_connected_with_and_a_circle_does_not_stop_time() {
        let mut block = sampler();
        // R9 at its address is the event; R10: enabled, R11: its address, R5: the task's, which is R0 or R9.
        let all = |register| field(register, u32::MAX);
        let task = Connection { enabled: field(10, 1), event: all(11), tasks: vec![all(5), all(5)] };
        let circle = Connection { enabled: field(10, 2), ..task.clone() };
        block.connections = vec![task, circle];
        block.triggers.push(Trigger { field: field(0, 1), set: vec![set(9, 4, 1)], ..Trigger::default() });
        let (mut device, mut noted) = begun(block);
        let at = 0x4000_0000;
        let values = [(1, 1), (2, 1), (4, 0x1111), (5, at), (6, 0x2000_0000), (7, 3), (11, at + 9 * 4), (0, 1)];
        values.into_iter().for_each(|(register, value)| write(&mut device, &mut noted, register, value));
        noted.pass(&mut device, 200);
        assert_eq!(read(&mut device, &mut noted, 8), 1, "the connection is off");
        write(&mut device, &mut noted, 10, 1);
        write(&mut device, &mut noted, 0, 1);
        noted.pass(&mut device, 1);
        write(&mut device, &mut noted, 10, 0);
        noted.pass(&mut device, 200);
        assert_eq!(read(&mut device, &mut noted, 8), 3, "the task once, though two connections name it twice each");
        write(&mut device, &mut noted, 10, 3);
        write(&mut device, &mut noted, 0, 1);
        noted.pass(&mut device, 1000);
        assert!(device.tasks.len() <= 1, "each task is due once at a time");
    }

    /// R0: IN, R1: OUT, R2: OUTSIDE, R3: modes of two bits each, R4: rising, R5: falling, R6: pending.
    fn pins() -> Chip {
        let edge = |pin| wire::chip::Edge {
            ports: vec![Some(0)],
            pin,
            rising: field(4, 1 << pin),
            falling: field(5, 1 << pin),
            set: vec![set(6, 1 << pin, 1)],
            ..wire::chip::Edge::default()
        };
        let mut registers = registers(7);
        registers[2].reset = 8;
        registers[0].read_only = u32::MAX;
        let mut chip = chip(Block {
            registers,
            pins: vec![Pins {
                level: field(0, 0xffff),
                driven: field(1, 0xffff),
                outside: field(2, 0xffff),
                modes: vec![3],
                mode_bits: 2,
                outputs: 1 << 1,
                ..Pins::default()
            }],
            edges: (0..4).map(edge).collect(),
            interrupts: vec![Interrupt {
                line: 6,
                causes: vec![Cause { status: field(6, 0xf), enable: None, is_inverted: false }],
                taken: Vec::new(),
            }],
            ..Block::default()
        });
        let stimulus = |at_insns, value| Stimulus { at_insns, set: vec![set(2, 2, value)], ..Stimulus::default() };
        chip.stimuli = vec![stimulus(1000, 1), stimulus(2000, 0)];
        chip
    }

    #[test]
    fn pins_have_the_levels_of_their_drivers_and_edges_raise_lines() {
        let (mut device, mut noted) = (Device::new(pins()), Noted::default());
        device.begin(&mut noted);
        assert_eq!((read(&mut device, &mut noted, 0), noted.pins.len()), (8, 0), "as at reset");
        write(&mut device, &mut noted, 1, 5);
        assert_eq!(read(&mut device, &mut noted, 0), 8, "no pin is an output");
        write(&mut device, &mut noted, 3, 1 | 1 << 4);
        assert_eq!(read(&mut device, &mut noted, 0), 13);
        assert_eq!(noted.pins, [(0, true, true), (2, true, true)]);
        write(&mut device, &mut noted, 4, 2);
        noted.pass(&mut device, 999);
        assert_eq!((read(&mut device, &mut noted, 6), noted.pins.len()), (0, 2));
        noted.pass(&mut device, 1);
        assert_eq!((noted.lines.get(&6), noted.pins[2]), (Some(&true), (1, true, false)), "by the stimulus");
        assert_eq!((read(&mut device, &mut noted, 6), read(&mut device, &mut noted, 0)), (2, 15));
        write(&mut device, &mut noted, 6, 0);
        noted.pass(&mut device, 1000);
        assert_eq!(read(&mut device, &mut noted, 6), 0, "falling edges are not chosen");
        assert_eq!((read(&mut device, &mut noted, 0), noted.pins[3]), (13, (1, false, false)));
        assert_eq!(noted.came, 2);
    }

    #[test]
    fn a_pin_to_which_nothing_is_connected_is_pulled_up_in_its_mode() {
        let mut chip = pins();
        let block = &mut chip.blocks[0];
        block.registers.extend(registers(9).split_off(7));
        let of = &mut block.pins[0];
        (of.pulls, of.pull_bits, of.pull_ups, of.connected) = (vec![7], 2, 1 << 1, Some(field(8, 0xffff)));
        let (mut device, mut noted) = (Device::new(chip.clone()), Noted::default());
        device.begin(&mut noted);
        write(&mut device, &mut noted, 7, 0b10_01_01);
        assert_eq!(read(&mut device, &mut noted, 0), 8 | 3, "up, and what is given at reset");
        noted.pass(&mut device, 1_000);
        noted.pass(&mut device, 1_000);
        assert_eq!(read(&mut device, &mut noted, 0), 8 | 1, "the stimulus has connected the second one");
        // Where a field says so, too: the driven level of an F1.
        chip.blocks[0].pins[0].pulled = Some(field(1, 0xffff));
        let (mut device, mut noted) = (Device::new(chip), Noted::default());
        device.begin(&mut noted);
        write(&mut device, &mut noted, 7, 0b01_01);
        write(&mut device, &mut noted, 1, 0b110);
        assert_eq!(read(&mut device, &mut noted, 0), 8 | 2);
    }

    #[test]
    fn a_step_of_the_input_begins_its_changes_where_the_time_is_known() {
        let mut chip = pins();
        let change =
            |at_ns, value| Stimulus { step: Some(1), at_ns, set: vec![set(2, 2, value)], ..Stimulus::default() };
        chip.stimuli = vec![change(0, 1), change(300, 0), Stimulus { step: Some(0), ..change(0, 0) }];
        let (mut device, mut noted) = (Device::new(chip), Noted::default());
        device.begin(&mut noted);
        write(&mut device, &mut noted, 4, 2);
        noted.pass(&mut device, 5_000);
        assert!(noted.pins.is_empty(), "no step has begun");
        device.begin_step(1, &mut noted);
        assert!(noted.pins.is_empty(), "the time is not known");
        noted.pass(&mut device, 1);
        assert_eq!(noted.pins, [(1, true, false)]);
        noted.pass(&mut device, 298);
        assert_eq!(noted.pins.len(), 1);
        noted.pass(&mut device, 1);
        assert_eq!(noted.pins, [(1, true, false), (1, false, false)]);
        device.begin_step(1, &mut noted);
        noted.pass(&mut device, 1);
        assert_eq!(noted.pins.len(), 3, "as often as the step begins");
        assert_eq!(noted.came, 0, "a step's are told with the step");
    }

    #[test]
    fn a_serial_port_gets_bytes_of_its_own_one_after_the_other() {
        let port = |receiving| Port {
            receive: Some(field(0, 0xff)),
            received: vec![set(1, 1, 1)],
            receiving: vec![field(receiving, 1)],
            ..Port::default()
        };
        let block = |start, receiving| Block {
            name: "B".into(),
            start,
            bytes: 0x100,
            registers: registers(3),
            ports: vec![port(receiving)],
            ..Block::default()
        };
        let typed = Stimulus { step: Some(0), block: 1, typed: b"gps".to_vec(), ..Stimulus::default() };
        let chip = Chip { blocks: vec![block(0x100, 2), block(0x200, 2)], stimuli: vec![typed], ..Chip::default() };
        assert_eq!(chip.check(), Ok(()));
        let (mut device, mut noted) = (Device::new(chip), Noted::default());
        device.begin(&mut noted);
        for block in 0..2 {
            device.write(block, 8, 4, 1, &mut noted);
        }
        device.receive(b'c', &mut noted);
        device.begin_step(0, &mut noted);
        noted.pass(&mut device, 1);
        let byte = |device: &mut Device, noted: &mut Noted, block| {
            let is_there = device.read(block, 4, 4, noted).value;
            (is_there, device.read(block, 0, 4, noted).value)
        };
        assert_eq!(byte(&mut device, &mut noted, 0), (1, b'c'.into()), "the console's go to the first port");
        assert_eq!(byte(&mut device, &mut noted, 1), (1, b'g'.into()));
        assert_eq!(byte(&mut device, &mut noted, 1).0, 0, "the next byte has yet to come");
        noted.pass(&mut device, 2 * TYPED_INSNS);
        assert_eq!(byte(&mut device, &mut noted, 1), (1, b'p'.into()));
        assert_eq!(byte(&mut device, &mut noted, 1), (1, b's'.into()));
        assert_eq!(byte(&mut device, &mut noted, 1).0, 0);
        assert_eq!(byte(&mut device, &mut noted, 0).0, 0);
    }

    #[test]
    fn a_pin_selects_a_device() {
        // R0 of the second block: data. The pins are those of `pins`, of which 0 and 2 are outputs after mode 1 | 1 << 4.
        let mut chip = pins();
        chip.stimuli.clear();
        let bus = Bus { send: field(0, 0xff), receive: field(0, 0xff), ..Bus::default() };
        let device_at = |pin, byte| BusDevice {
            select: Some(PinAt { block: 0, pin }),
            bytes: vec![byte, byte + 1],
            ..BusDevice::default()
        };
        chip.blocks.push(Block {
            name: "SPI".into(),
            start: 0x9000_0000,
            bytes: 0x100,
            registers: registers(1),
            buses: vec![bus],
            devices: vec![device_at(0, 10), device_at(2, 20)],
            ..Block::default()
        });
        assert_eq!(chip.check(), Ok(()));
        let (mut device, mut noted) = (Device::new(chip), Noted::default());
        device.begin(&mut noted);
        device.write(1, 0, 4, 0, &mut noted);
        assert_eq!(device.read(1, 0, 4, &mut noted).value, 0xff, "a pin that nobody drives selects nothing");
        write(&mut device, &mut noted, 3, 1 | 1 << 4);
        let mut select = |pins| {
            write(&mut device, &mut noted, 1, pins);
            let mut answer = || {
                device.write(1, 0, 4, 0, &mut noted);
                device.read(1, 0, 4, &mut noted).value
            };
            [answer(), answer()]
        };
        assert_eq!(select(5), [0xff, 0xff], "none is selected");
        assert_eq!(select(4), [10, 11]);
        assert_eq!(select(1), [20, 21]);
        assert_eq!(select(4), [10, 11], "from the start each time");
    }

    #[test]
    fn devices_on_a_bus_answer_their_bytes_and_others_do_not() {
        // R0: data, R1: an address comes, R2: events.
        let bus = Bus {
            when: Vec::new(),
            send: field(0, 0xff),
            receive: field(0, 0xff),
            address: Some(field(0, 0xfe)),
            addresses: vec![set(1, 1, 1)],
            reads: Some(field(0, 1)),
            writing: vec![set(1, 1, 0), set(2, 1, 1)],
            reading: vec![set(1, 1, 0), set(2, 2, 1)],
            absent: vec![set(1, 1, 0), set(2, 4, 1)],
            ..Bus::default()
        };
        let devices =
            vec![BusDevice { address: 0x68, bytes: vec![10, 11, 12], pointer_bytes: 1, ..BusDevice::default() }];
        let (mut device, mut noted) =
            begun(Block { registers: registers(3), buses: vec![bus], devices, ..Block::default() });
        let address = |device: &mut Device, noted: &mut Noted, byte| {
            write(device, noted, 2, 0);
            write(device, noted, 1, 1);
            write(device, noted, 0, byte);
            read(device, noted, 2)
        };
        assert_eq!(address(&mut device, &mut noted, 0x50 << 1), 4, "nobody is there");
        assert_eq!(address(&mut device, &mut noted, 0x68 << 1), 1);
        write(&mut device, &mut noted, 0, 1);
        write(&mut device, &mut noted, 0, 77);
        write(&mut device, &mut noted, 0, 78);
        assert_eq!(address(&mut device, &mut noted, 0x68 << 1), 1);
        write(&mut device, &mut noted, 0, 0);
        assert_eq!(address(&mut device, &mut noted, 0x68 << 1 | 1), 2);
        let bytes: Vec<u32> = (0..4).map(|_| read(&mut device, &mut noted, 0)).collect();
        assert_eq!(bytes, [10, 77, 78, 0xff], "what was written, and then nothing");
    }

    #[test]
    fn a_counted_transfer_asks_for_its_bytes_and_ends() {
        // R0: bit 0 begins, bit 1 reads, 15:8 count, 16 reload, 23:17 address; R1: data sent; R2: data received; R3: events.
        let end = |reload, event| BusEnd { when: vec![set(0, 1 << 16, reload)], set: vec![set(3, 0xff, event)] };
        let bus = Bus {
            send: field(1, 0xff),
            receive: field(2, 0xff),
            address: Some(field(0, 0x7f << 17)),
            begin: Some(field(0, 1)),
            count: Some(field(0, 0xff00)),
            reload: Some(field(0, 1 << 16)),
            reads: Some(field(0, 2)),
            absent: vec![set(3, 0xff, 0x80)],
            wanted: vec![set(3, 0xff, 1)],
            offered: vec![set(3, 0xff, 2)],
            ends: vec![end(1, 4), end(0, 8)],
            ..Bus::default()
        };
        let devices =
            vec![BusDevice { address: 0x50, bytes: vec![10, 11, 12, 13], pointer_bytes: 1, ..BusDevice::default() }];
        let (mut device, mut noted) =
            begun(Block { registers: registers(4), buses: vec![bus], devices, ..Block::default() });
        let event = |device: &mut Device, noted: &mut Noted| read(device, noted, 3);
        let to = |address: u32, count: u32, flags: u32| address << 17 | count << 8 | flags;
        write(&mut device, &mut noted, 0, to(0x51, 1, 1));
        assert_eq!(event(&mut device, &mut noted), 0x80, "nobody is there");
        write(&mut device, &mut noted, 0, to(0x50, 2, 1 | 1 << 16));
        assert_eq!(event(&mut device, &mut noted), 1);
        write(&mut device, &mut noted, 1, 1);
        assert_eq!(event(&mut device, &mut noted), 1, "another byte is wanted");
        write(&mut device, &mut noted, 1, 77);
        assert_eq!(event(&mut device, &mut noted), 4, "the number is to be written again");
        write(&mut device, &mut noted, 0, to(0x50, 1, 0));
        assert_eq!(event(&mut device, &mut noted), 1);
        write(&mut device, &mut noted, 1, 78);
        assert_eq!(event(&mut device, &mut noted), 8);
        write(&mut device, &mut noted, 1, 0);
        write(&mut device, &mut noted, 0, to(0x50, 1, 1));
        assert_eq!(event(&mut device, &mut noted), 8, "the byte was sent before the transfer began");
        write(&mut device, &mut noted, 0, to(0x50, 4, 3));
        let bytes: Vec<(u32, u32)> =
            (0..4).map(|_| (event(&mut device, &mut noted), read(&mut device, &mut noted, 2))).collect();
        assert_eq!(bytes, [(2, 10), (2, 77), (2, 78), (2, 13)], "from the pointer on");
        assert_eq!(event(&mut device, &mut noted), 8);
        write(&mut device, &mut noted, 0, to(0x50, 0, 1));
        assert_eq!(event(&mut device, &mut noted), 8, "a transfer of no byte ends at once");
    }

    /// R0: bits to initialise and to reset. R1: initialising, asleep, woken. R2: the free mailbox, the last one, sent, to abort (two
    /// bits each). R3, R4: mailboxes. R5: length, R6: data. R7: a queue's frame. R8: its level, release, full, lost.
    fn controller() -> Block {
        let frame = |register| FrameAt {
            standard: field(register, 0x7ff << 21),
            extended: field(register, 0x1fff_ffff << 3),
            is_extended: field(register, 4),
            remote: field(register, 2),
            length: field(5, 0xf),
            data: vec![field(6, u32::MAX)],
        };
        let mailbox = |number: u32| Mailbox {
            request: field(3 + number, 1),
            frame: frame(3 + number),
            begin: vec![set(2, 0x10 << number, 0)],
            sent: vec![set(3 + number, 1, 0), set(2, 0x10 << number, 1), set(2, 0x40 << number, 0)],
            abort: Some(field(2, 0x40 << number)),
            aborted: vec![set(3 + number, 1, 0)],
            last: Some(field(2, 4 << number)),
        };
        let mut registers = registers(9);
        registers[2].read_only = u32::MAX;
        registers[0].self_clearing = 2;
        let queue = Queue {
            frame: FrameAt { length: field(8, 0xf00), ..frame(7) },
            level: field(8, 3),
            depth: 2,
            release: field(8, 0x20),
            full: vec![set(8, 8, 1)],
            lost: vec![set(8, 0x10, 1)],
            ..Queue::default()
        };
        let can = Can {
            when: vec![set(1, 1, 0), set(0, 1, 0)],
            resets: Some(field(0, 2)),
            asleep: vec![set(1, 2, 1)],
            woken: vec![set(1, 4, 1)],
            free: Some(field(2, 3)),
            mailboxes: vec![mailbox(0), mailbox(1)],
            queues: vec![queue],
            ..Can::default()
        };
        let follow =
            Follow { target: field(1, 1), source: field(0, 1), after_insns: 16, is_idle: true, ..Follow::default() };
        Block { registers, follows: vec![follow], cans: vec![can], ..Block::default() }
    }

    #[test]
    fn a_frame_on_the_bus_is_neither_withdrawn_nor_cut_short() {
        let (mut device, mut noted) = begun(controller());
        write(&mut device, &mut noted, 3, 0x300 << 21 | 1);
        assert_eq!(read(&mut device, &mut noted, 2), 1, "the second mailbox is free");
        write(&mut device, &mut noted, 4, 0x100 << 21 | 1);
        assert_eq!(read(&mut device, &mut noted, 2), 4, "none is, and the first one, the higher, is sent last");
        write(&mut device, &mut noted, 2, 0xc0);
        assert_eq!(read(&mut device, &mut noted, 2), 0x41, "what is on the bus stays; the other one is withdrawn");
        write(&mut device, &mut noted, 0, 1);
        noted.pass(&mut device, 46_999);
        assert_eq!((read(&mut device, &mut noted, 1), noted.frames.len()), (0, 0));
        noted.pass(&mut device, 1);
        assert_eq!(noted.frames, [("300#".to_owned(), true)], "47 bits of a microsecond");
        assert_eq!([1, 2, 4].map(|register| read(&mut device, &mut noted, register)), [1, 0x10, 0x100 << 21]);
    }

    #[test]
    fn a_request_and_its_withdrawal_that_cause_each_other_come_to_an_end() {
        let mut block = controller();
        block.registers[0].reset = 1;
        let mailbox = &mut block.cans[0].mailboxes[0];
        (mailbox.begin, mailbox.aborted) = (vec![set(2, 0x40, 1)], vec![set(3, 1, 1)]);
        let (mut device, mut noted) = begun(block);
        write(&mut device, &mut noted, 3, 1);
        noted.pass(&mut device, 100_000);
        assert_eq!(noted.frames.len(), 0);
    }

    #[test]
    fn others_wait_for_a_controller_and_a_reset_takes_back_what_it_has() {
        let frames = ["001#", "002#11", "003#22"].map(|text| Frame::parse(text).unwrap()).to_vec();
        let mut chip = chip(controller());
        chip.stimuli = vec![Stimulus { at_ns: 50_000, frames, ..Stimulus::default() }];
        let (mut device, mut noted) = (Device::new(chip), Noted::default());
        device.begin(&mut noted);
        write(&mut device, &mut noted, 1, 2);
        write(&mut device, &mut noted, 0, 1);
        noted.pass(&mut device, 100_000);
        assert_eq!((read(&mut device, &mut noted, 1), noted.frames.len()), (7, 0), "woken, and nothing received");
        write(&mut device, &mut noted, 1, 3);
        noted.pass(&mut device, 1_000);
        assert_eq!(read(&mut device, &mut noted, 1), 3, "it can be cleared");
        write(&mut device, &mut noted, 1, 0);
        write(&mut device, &mut noted, 0, 0);
        noted.pass(&mut device, 200_000);
        assert_eq!(noted.frames.len(), 3);
        assert_eq!(
            read(&mut device, &mut noted, 8) & 0xff,
            2 | 8 | 0x10,
            "two have room, the second one is the third"
        );
        write(&mut device, &mut noted, 8, 0x20);
        assert_eq!([7, 6].map(|register| read(&mut device, &mut noted, register)), [3 << 21, 0x22]);
        write(&mut device, &mut noted, 3, 0x300 << 21 | 1);
        noted.pass(&mut device, 10_000);
        write(&mut device, &mut noted, 0, 2);
        assert_eq!(read(&mut device, &mut noted, 8) & 3, 0);
        write(&mut device, &mut noted, 3, 0x400 << 21 | 1);
        noted.pass(&mut device, 46_000);
        assert_eq!(noted.frames.len(), 3, "the frame that was reset does not end the next one");
        noted.pass(&mut device, 1_000);
        assert_eq!(noted.frames.last(), Some(&("400#".to_owned(), true)));
    }

    #[test]
    fn a_bus_without_addresses_answers_each_byte() {
        let bus = Bus { send: field(0, 0xff), receive: field(0, 0xff), ..Bus::default() };
        let devices = vec![BusDevice { bytes: vec![0xef, 0x40], ..BusDevice::default() }];
        let (mut device, mut noted) =
            begun(Block { registers: registers(1), buses: vec![bus], devices, ..Block::default() });
        let answers: Vec<u32> = (0..3)
            .map(|_| {
                write(&mut device, &mut noted, 0, 0x9f);
                read(&mut device, &mut noted, 0)
            })
            .collect();
        assert_eq!(answers, [0xef, 0x40, 0xff]);
    }

    #[test]
    fn a_read_has_its_effect_where_its_settings_hold_and_after_its_instructions() {
        let read = |when, after_insns, event| Trigger {
            field: field(0, u32::MAX),
            is_read: true,
            when: vec![set(1, 1, when)],
            after_insns,
            set: vec![set(2, event, 1)],
            ..Trigger::default()
        };
        let triggers = vec![read(1, 0, 1), read(0, 0, 2), read(0, 10, 4)];
        let (mut device, mut noted) = begun(Block { registers: registers(3), triggers, ..Block::default() });
        read_and(&mut device, &mut noted, 2);
        noted.pass(&mut device, 10);
        read_and(&mut device, &mut noted, 6);
        write(&mut device, &mut noted, 1, 1);
        read_and(&mut device, &mut noted, 7);
    }

    /// Reads R0; then R2 must have this value.
    fn read_and(device: &mut Device, noted: &mut Noted, wanted: u32) {
        read(device, noted, 0);
        assert_eq!(read(device, noted, 2), wanted);
    }

    #[test]
    fn a_trigger_copies_the_value_of_the_channel_that_is_chosen() {
        let convert = |channel| Trigger {
            field: field(0, 1),
            when: vec![set(1, 0x1f, channel)],
            copies: vec![Copied { to: field(2, 0xfff), from: field(3 + channel, 0xfff) }],
            after_insns: 10,
            ..Trigger::default()
        };
        let triggers = (0..2).map(convert).collect();
        let (mut device, mut noted) = begun(Block { registers: registers(5), triggers, ..Block::default() });
        for (register, value) in [(3, 100), (4, 200), (1, 1), (0, 1)] {
            write(&mut device, &mut noted, register, value);
        }
        assert_eq!(read(&mut device, &mut noted, 2), 0);
        noted.pass(&mut device, 10);
        assert_eq!(read(&mut device, &mut noted, 2), 200);
    }

    #[test]
    fn a_watchdog_bites_once_it_is_not_fed() {
        let watchdog = Watchdog {
            running: vec![set(0, 1, 1)],
            clock: 0,
            divide: vec![],
            reload: field(1, u32::MAX),
            feed: vec![set(2, 0xffff, 0xaaaa)],
        };
        let (mut device, mut noted) =
            begun(Block { registers: registers(3), watchdogs: vec![watchdog], ..Block::default() });
        write(&mut device, &mut noted, 1, 99);
        noted.pass(&mut device, 1_000_000);
        write(&mut device, &mut noted, 0, 1);
        for _ in 0..5 {
            noted.pass(&mut device, 90_000);
            write(&mut device, &mut noted, 2, 0xaaaa);
        }
        assert_eq!(noted.bites, 0);
        noted.pass(&mut device, 100_000);
        assert_eq!(noted.bites, 1);
        noted.pass(&mut device, 1_000_000);
        assert_eq!(noted.bites, 1, "the chip would be another one now");
    }

    /// Firmware for the Kinetis switches the watchdog off as soon as it begins.
    #[test]
    fn a_watchdog_runs_from_reset_on_until_it_is_switched_off() {
        let block = || {
            let mut registers = registers(2);
            (registers[0].reset, registers[1].reset) = (1, 99);
            let (running, reload) = (vec![set(0, 1, 1)], field(1, u32::MAX));
            let watchdog = Watchdog { running, reload, clock: 0, divide: vec![], feed: vec![set(1, 1, 0)] };
            Block { registers, watchdogs: vec![watchdog], ..Block::default() }
        };
        let (mut device, mut noted) = begun(block());
        noted.pass(&mut device, 99_999);
        assert_eq!(noted.bites, 0);
        noted.pass(&mut device, 1);
        assert_eq!(noted.bites, 1);
        let (mut device, mut noted) = begun(block());
        write(&mut device, &mut noted, 0, 0);
        noted.pass(&mut device, 1_000_000);
        assert_eq!(noted.bites, 0);
    }

    fn as_i64(value: u32, is_signed: bool) -> i64 {
        if is_signed { value.cast_signed().into() } else { value.into() }
    }

    proptest! {
        /// R0: dividend, R1: divisor, R2: quotient, R3: remainder.
        #[test]
        fn a_divider_divides_as_numbers_do(
            dividend in prop_oneof![any::<u32>(), Just(i32::MIN.cast_unsigned())],
            divisor in prop_oneof![any::<u32>(), 0u32..3, Just(u32::MAX)],
            is_signed in any::<bool>(),
            is_divisor_first in any::<bool>(),
        ) {
            let divider = Divider { dividend: 0, divisor: 1, quotient: 2, remainder: 3, is_signed };
            let (mut device, mut noted) =
                begun(Block { registers: registers(5), dividers: vec![divider], ..Block::default() });
            let mut writes = [(0, dividend), (1, divisor)];
            if is_divisor_first {
                writes.reverse();
            }
            // Another register divides nothing.
            for (register, value) in writes.into_iter().chain([(4, 1)]) {
                write(&mut device, &mut noted, register, value);
            }
            let (over, by) = (as_i64(dividend, is_signed), as_i64(divisor, is_signed));
            let (quotient, remainder) = match by {
                0 if is_signed && over < 0 => (1, over),
                0 => (-1, over),
                _ => (over / by, over % by),
            };
            prop_assert_eq!(read(&mut device, &mut noted, 2), quotient as u32);
            prop_assert_eq!(read(&mut device, &mut noted, 3), remainder as u32);
        }

        /// The lower half sets bits, the upper half clears some, and a bit in both halves is set.
        #[test]
        fn a_register_of_two_halves_sets_and_clears(old in any::<u16>(), written in any::<u32>()) {
            let mut block = Block { registers: registers(2), ..Block::default() };
            (block.registers[1].sets, block.registers[1].upper_clears) = (Some(0), Some(0));
            let (mut device, mut noted) = begun(block);
            write(&mut device, &mut noted, 0, old.into());
            write(&mut device, &mut noted, 1, written);
            let (sets, clears) = (written & 0xffff, written >> 16);
            prop_assert_eq!(read(&mut device, &mut noted, 0), u32::from(old) & !clears | sets);
        }
    }

    #[test]
    fn random_numbers_differ_and_are_the_same_in_each_run() {
        let block = || {
            let randoms = vec![Random { value: field(0, 0xffff) }];
            Block { registers: registers(2), randoms, ..Block::default() }
        };
        let numbers = || {
            let (mut device, mut noted) = begun(block());
            (0..64)
                .map(|_| {
                    // Reads of another register do not change the next number.
                    assert_eq!(read(&mut device, &mut noted, 1), 0);
                    read(&mut device, &mut noted, 0)
                })
                .collect::<Vec<u32>>()
        };
        let first = numbers();
        assert_eq!(first, numbers());
        let different: BTreeSet<u32> = first.iter().copied().collect();
        assert!(different.len() > 60 && different.iter().all(|&number| number <= 0xffff), "{first:?}");
    }

    /// R0: running, R1: value, R2: upper half, R3: clear, R4: compare value, R5: capture, R6: status, R7: once, R8: stop and
    /// clear at the compare value.
    fn counter(counts_down: bool, bits: u32) -> Block {
        let compare = Compare {
            value: field(4, u32::MAX),
            set: vec![set(6, 2, 1)],
            capture: Some(field(5, 1)),
            clears: Some(field(8, 1)),
            stops: Some(field(8, 2)),
            ..Compare::default()
        };
        Block {
            registers: registers(9),
            counters: vec![Counter {
                value: Some(field(1, u32::MAX)),
                upper: Some(field(2, u32::MAX)),
                running: vec![field(0, 1)],
                clear: Some(field(3, 1)),
                once: Some(field(7, 1)),
                overflow: vec![set(6, 1, 1)],
                compares: vec![compare],
                counts_down,
                bits,
                ..Counter::default()
            }],
            ..Block::default()
        }
    }

    #[test]
    fn a_counter_counts_up_and_down_and_shows_both_halves() {
        let (mut device, mut noted) = begun(counter(false, 40));
        write(&mut device, &mut noted, 0, 1);
        noted.pass(&mut device, ((1 << 32) + 5) * 1000);
        assert_eq!([1, 2].map(|register| read(&mut device, &mut noted, register)), [5, 1]);
        let (mut device, mut noted) = begun(counter(true, 8));
        write(&mut device, &mut noted, 0, 1);
        assert_eq!(read(&mut device, &mut noted, 1), 0xff);
        noted.pass(&mut device, 3000);
        assert_eq!(read(&mut device, &mut noted, 1), 0xfc);
        write(&mut device, &mut noted, 1, 0x10);
        assert_eq!(read(&mut device, &mut noted, 1), 0x10);
        noted.pass(&mut device, 0x11 * 1000);
        assert_eq!(read(&mut device, &mut noted, 1), 0xff);
        assert_eq!(read(&mut device, &mut noted, 6) & 1, 1, "it has passed 0");
    }

    #[test]
    fn a_counter_is_captured_cleared_and_stopped_by_bits() {
        let (mut device, mut noted) = begun(counter(false, 16));
        write(&mut device, &mut noted, 0, 1);
        noted.pass(&mut device, 7000);
        write(&mut device, &mut noted, 5, 1);
        assert_eq!(read(&mut device, &mut noted, 4), 7);
        noted.pass(&mut device, 1000);
        write(&mut device, &mut noted, 5, 2);
        assert_eq!(read(&mut device, &mut noted, 4), 7, "another bit");
        write(&mut device, &mut noted, 3, 1);
        assert_eq!(read(&mut device, &mut noted, 1), 0);
        // It stops at the compare value.
        write(&mut device, &mut noted, 4, 20);
        write(&mut device, &mut noted, 8, 2);
        noted.pass(&mut device, 20_000);
        assert_eq!([0, 1, 6].map(|register| read(&mut device, &mut noted, register)), [0, 20, 2]);
        noted.pass(&mut device, 20_000);
        assert_eq!(read(&mut device, &mut noted, 1), 20);
        // It wraps there instead, and goes on.
        write(&mut device, &mut noted, 8, 1);
        write(&mut device, &mut noted, 1, 0);
        write(&mut device, &mut noted, 6, 0);
        write(&mut device, &mut noted, 0, 1);
        noted.pass(&mut device, 23_000);
        assert_eq!([0, 1].map(|register| read(&mut device, &mut noted, register)), [1, 3]);
        assert_eq!(read(&mut device, &mut noted, 6) & 2, 2);
    }

    #[test]
    fn a_counter_that_counts_once_stops_as_it_wraps() {
        let (mut device, mut noted) = begun(counter(false, 8));
        write(&mut device, &mut noted, 7, 1);
        write(&mut device, &mut noted, 4, 0xffff);
        write(&mut device, &mut noted, 0, 1);
        noted.pass(&mut device, 255_000);
        assert_eq!([0, 1, 6].map(|register| read(&mut device, &mut noted, register)), [1, 255, 0]);
        noted.pass(&mut device, 5000);
        assert_eq!([0, 1, 6].map(|register| read(&mut device, &mut noted, register)), [0, 0, 1]);
    }

    #[test]
    fn an_interrupt_that_is_taken_loses_its_cause_and_comes_again_for_another() {
        let (mut device, mut noted) = begun(timer());
        for (register, value) in [(1, 999), (5, 400), (3, 3), (0, 1)] {
            write(&mut device, &mut noted, register, value);
        }
        noted.pass(&mut device, 1_000_000);
        assert_eq!(read(&mut device, &mut noted, 2), 3);
        // Of the two causes one is gone as the interrupt is taken.
        noted.lines.clear();
        device.take(7, &mut noted);
        assert_eq!((read(&mut device, &mut noted, 2), noted.lines.get(&7)), (2, Some(&true)));
        write(&mut device, &mut noted, 2, 0);
        noted.lines.clear();
        device.take(8, &mut noted);
        device.take(7, &mut noted);
        assert_eq!(noted.lines.get(&7), None);
    }

    #[test]
    fn a_pulse_sets_registers_and_raises_its_line_for_a_moment() {
        let answer = |offset: u64, mask, value| Answer { address: 0x4000_0000 + offset, mask, value };
        let sets = vec![answer(0, 0xf0, 0x50), answer(0x80, 0xff, 0x12)];
        let pulse = Pulse { line: 3, every_insns: 1000, sets };
        let mut registers = registers(1);
        registers[0].read_only = 0xf0;
        let chip = Chip { pulses: vec![pulse], lines: 8, ..chip(Block { registers, ..Block::default() }) };
        assert_eq!(chip.check(), Ok(()));
        let mut noted = Noted { flash: vec![0; 0x800], ..Noted::default() };
        let mut device = Device::new(chip);
        device.begin(&mut noted);
        assert_eq!(device.chip().pulses.len(), 1);
        write(&mut device, &mut noted, 0, 0x0f);
        noted.pass(&mut device, 999);
        assert_eq!((read(&mut device, &mut noted, 0), noted.lines.get(&3)), (0x0f, None));
        noted.pass(&mut device, 1);
        assert_eq!((read(&mut device, &mut noted, 0), noted.lines.get(&3)), (0x5f, Some(&false)));
        // A place without a register has the value, too.
        assert_eq!(device.read(0, 0x80, 4, &mut noted).value, 0x12);
    }

    /// R0: start and stop, R1: pointer, R2: count, R3: amount, R4: status.
    fn receiving() -> Block {
        let transfer = Transfer {
            is_receive: true,
            start: field(0, 1),
            stop: Some(field(0, 2)),
            pointer: field(1, u32::MAX),
            count: field(2, u32::MAX),
            amount: Some(field(3, u32::MAX)),
            set: vec![set(4, 1, 1)],
            stopped: vec![set(4, 2, 1)],
            byte: vec![],
        };
        Block { registers: registers(5), transfers: vec![transfer], ..Block::default() }
    }

    #[test]
    fn a_transfer_that_is_stopped_says_how_much_it_has_received() {
        let (mut device, mut noted) = begun(receiving());
        for (register, value) in [(1, 0x2000_0000), (2, 4)] {
            write(&mut device, &mut noted, register, value);
        }
        write(&mut device, &mut noted, 0, 1);
        for byte in *b"hey" {
            device.receive(byte, &mut noted);
            noted.pass(&mut device, 1_000_000);
        }
        assert_eq!(read(&mut device, &mut noted, 4), 0);
        write(&mut device, &mut noted, 0, 2);
        assert_eq!([3, 4].map(|register| read(&mut device, &mut noted, register)), [3, 2]);
        let received: Vec<u8> = (0x2000_0000..0x2000_0003).map(|address| noted.memory[&address]).collect();
        assert_eq!(received, b"hey");
        // One that was not begun has received nothing.
        write(&mut device, &mut noted, 3, 0);
        write(&mut device, &mut noted, 4, 0);
        write(&mut device, &mut noted, 0, 2);
        assert_eq!([3, 4].map(|register| read(&mut device, &mut noted, register)), [0, 2]);
    }

    #[test]
    fn a_trigger_for_a_value_fires_only_for_that_value() {
        let trigger =
            Trigger { field: field(0, 0xf0), value: Some(5), set: vec![set(1, 1, 1)], ..Trigger::default() };
        for (bytes, value, fires) in [(4, 0x50, true), (4, 0x5f, true), (4, 0x70, false), (1, 0x50, true)] {
            let block = Block { registers: registers(2), triggers: vec![trigger.clone()], ..Block::default() };
            let (mut device, mut noted) = begun(block);
            assert!(device.write(0, 0, bytes, value, &mut noted));
            assert_eq!(read(&mut device, &mut noted, 1), u32::from(fires), "{value:x}");
        }
        // A field of which only a part is written has no value.
        let wide = Trigger { field: field(0, 0xff0), value: Some(0), ..trigger.clone() };
        let block = Block { registers: registers(2), triggers: vec![wide], ..Block::default() };
        let (mut device, mut noted) = begun(block);
        assert!(device.write(0, 0, 1, 0, &mut noted));
        assert_eq!(read(&mut device, &mut noted, 1), 0);
        // One for any write fires for 0, too.
        let any = Trigger { value: None, by_any: true, ..trigger };
        let block = Block { registers: registers(2), triggers: vec![any], ..Block::default() };
        let (mut device, mut noted) = begun(block);
        write(&mut device, &mut noted, 0, 0);
        assert_eq!(read(&mut device, &mut noted, 1), 1);
    }

    /// R0: multiplier of the processor's clock, R1: shift of SysTick's, R2: which source.
    fn clocked() -> Chip {
        let factor =
            |register, is_power| Factor { block: 0, field: field(register, 0xff), is_power, ..Factor::default() };
        let cpu = Clock {
            sources: vec![Source { hz: 1_000_000, clock: None }, Source { hz: 8_000_000, clock: None }],
            select: Some(factor(2, false)),
            multiply: vec![factor(0, false)],
            ..Clock::default()
        };
        let systick = Clock {
            sources: vec![Source { hz: 0, clock: Some(0) }],
            divide: vec![factor(1, true)],
            ..Clock::default()
        };
        let mut registers = registers(4);
        registers[0].reset = 1;
        let timer = Counter { value: Some(field(3, u32::MAX)), bits: 32, ..Counter::default() };
        let block = Block { registers, counters: vec![timer], ..Block::default() };
        Chip { clocks: vec![cpu, systick], cpu_clock: Some(0), systick_clock: Some(1), ..chip(block) }
    }

    #[test]
    fn clocks_follow_the_registers_that_make_them() {
        let chip = clocked();
        assert_eq!(chip.check(), Ok(()));
        let (mut device, mut noted) = (Device::new(chip.clone()), Noted::default());
        device.begin(&mut noted);
        assert_eq!((noted.cpu_hz, noted.systick_hz), (1_000_000, 1_000_000));
        // Register, value, and both clocks: a number beyond the sources selects the last one.
        for (register, value, clocks) in [
            (0, 4, (4_000_000, 4_000_000)),
            (1, 3, (4_000_000, 500_000)),
            (2, 1, (32_000_000, 4_000_000)),
            (2, 9, (32_000_000, 4_000_000)),
            (0, 0, (0, 0)),
        ] {
            write(&mut device, &mut noted, register, value);
            assert_eq!((noted.cpu_hz, noted.systick_hz), clocks, "R{register} = {value}");
        }
        // A counter of a stopped clock stands.
        let stands = read(&mut device, &mut noted, 3);
        noted.pass(&mut device, 1_000_000);
        assert_eq!(read(&mut device, &mut noted, 3), stands);
        write(&mut device, &mut noted, 0, 1);
        noted.pass(&mut device, 1_000_000);
        assert_eq!(read(&mut device, &mut noted, 3), stands + 8000);
        // Firmware's clocks are nobody's without a processor that wants to know.
        let chip = Chip { cpu_clock: None, systick_clock: None, ..chip };
        let (mut device, mut noted) = (Device::new(chip), Noted::default());
        device.begin(&mut noted);
        write(&mut device, &mut noted, 0, 4);
        assert_eq!((noted.cpu_hz, noted.systick_hz), (0, 0));
    }

    /// R0: start, R1: page, R2: allows, R3: status.
    fn erasing(erase: Erase) -> (Device, Noted) {
        let flash = Flash { memory: 0, erases: vec![erase], ..Flash::default() };
        begun(Block { registers: registers(4), flashes: vec![flash], ..Block::default() })
    }

    #[test]
    fn pages_are_erased_by_their_number_and_by_their_address() {
        // Pages of 256, 512 and 128 bytes, and as many more of 128 as there are.
        let pages = [(0, 0x100), (0x100, 0x200), (0x300, 0x80), (0x380, 0x80), (0x400, 0x80)];
        for is_address in [false, true] {
            for (number, (begin, bytes)) in (0..).zip(pages) {
                let erase = Erase {
                    start: field(0, 1),
                    page: Some(field(1, u32::MAX)),
                    is_address,
                    page_bytes: vec![0x100, 0x200, 0x80],
                    when: vec![set(2, 1, 1)],
                    set: vec![set(3, 1, 1)],
                    ..Erase::default()
                };
                let (mut device, mut noted) = erasing(erase);
                let page = if is_address { 0x800_0000 + begin as u32 + 5 } else { number };
                write(&mut device, &mut noted, 1, page);
                // It is locked; then the bit is not written.
                write(&mut device, &mut noted, 0, 1);
                write(&mut device, &mut noted, 2, 1);
                write(&mut device, &mut noted, 0, 2);
                assert!(noted.flash.iter().all(|&byte| byte == 0));
                write(&mut device, &mut noted, 0, 1);
                let erased = |at: usize| (begin..begin + bytes).contains(&at);
                let is_right = noted.flash.iter().enumerate().all(|(at, &byte)| (byte == 0xff) == erased(at));
                assert!(is_right, "{number} {is_address}");
                assert_eq!(read(&mut device, &mut noted, 3), 1);
            }
        }
        // Behind the flash there is no page, and without one all is erased; any write may begin it.
        let erase =
            Erase { start: field(0, 1), page: Some(field(1, u32::MAX)), page_bytes: vec![0x100], ..Erase::default() };
        let (mut device, mut noted) = erasing(erase.clone());
        write(&mut device, &mut noted, 1, 8);
        write(&mut device, &mut noted, 0, 1);
        assert!(noted.flash.iter().all(|&byte| byte == 0));
        let (mut device, mut noted) = erasing(Erase { page: None, by_any: true, ..erase });
        write(&mut device, &mut noted, 0, 0);
        assert!(noted.flash.iter().all(|&byte| byte == 0xff));
    }

    #[test]
    fn a_counter_wakes_at_the_value_that_clears_it() {
        let mut block = counter(false, 16);
        block.counters[0].compares[0].enabled = Some(field(8, 4));
        block.interrupts = vec![Interrupt {
            line: 7,
            causes: vec![Cause { status: field(6, 2), enable: None, is_inverted: false }],
            taken: vec![],
        }];
        let (mut device, mut noted) = begun(block);
        write(&mut device, &mut noted, 4, 10);
        write(&mut device, &mut noted, 0, 1);
        // The compare value is not in use.
        noted.pass(&mut device, 15_000);
        assert_eq!((read(&mut device, &mut noted, 6), noted.lines.get(&7).copied()), (0, None));
        write(&mut device, &mut noted, 1, 0);
        write(&mut device, &mut noted, 8, 5);
        noted.pass(&mut device, 9_999);
        assert_eq!(noted.lines.get(&7), None);
        noted.pass(&mut device, 1);
        assert_eq!((noted.lines.get(&7).copied(), read(&mut device, &mut noted, 1)), (Some(true), 0));
    }

    #[test]
    fn a_transfer_of_memory_that_cannot_be_read_prints_nothing_and_ends() {
        let transfer = Transfer {
            is_receive: false,
            start: field(0, 1),
            stop: None,
            pointer: field(1, u32::MAX),
            count: field(2, u32::MAX),
            amount: None,
            set: vec![set(4, 1, 1)],
            stopped: vec![],
            byte: vec![],
        };
        for (pointer, printed) in [(0x4000_0000, ""), (0x2000_0000, "ok")] {
            let block = Block { registers: registers(5), transfers: vec![transfer.clone()], ..Block::default() };
            let (mut device, mut noted) = begun(block);
            noted.memory.extend((0x2000_0000..).zip(*b"ok"));
            write(&mut device, &mut noted, 1, pointer);
            write(&mut device, &mut noted, 2, 2);
            write(&mut device, &mut noted, 0, 1);
            noted.pass(&mut device, 1_000_000);
            assert_eq!(noted.printed, printed.as_bytes());
            assert_eq!(read(&mut device, &mut noted, 4), 1);
        }
    }

    #[test]
    fn a_transfer_takes_no_more_than_it_asked_for() {
        let mut block = receiving();
        block.transfers[0].amount = None;
        let (mut device, mut noted) = begun(block);
        write(&mut device, &mut noted, 1, 0x2000_0000);
        write(&mut device, &mut noted, 2, 2);
        // Typed before it is begun, and one byte more than it takes.
        b"abc".iter().for_each(|&byte| device.receive(byte, &mut noted));
        write(&mut device, &mut noted, 0, 1);
        noted.pass(&mut device, 10_000_000);
        assert_eq!(noted.memory.values().copied().collect::<Vec<u8>>(), b"ab");
        assert_eq!(read(&mut device, &mut noted, 4), 1);
        write(&mut device, &mut noted, 1, 0x2000_0002);
        write(&mut device, &mut noted, 2, 1);
        write(&mut device, &mut noted, 0, 1);
        noted.pass(&mut device, 10_000_000);
        assert_eq!(noted.memory.values().copied().collect::<Vec<u8>>(), b"abc");
    }

    #[test]
    fn a_pulse_leaves_a_line_that_is_raised_and_input_waits_for_a_port() {
        let pulse = Pulse { line: 7, every_insns: 1000, sets: vec![] };
        let chip = Chip { pulses: vec![pulse], lines: 8, ..chip(timer()) };
        assert_eq!(chip.check(), Ok(()));
        let (mut device, mut noted) = (Device::new(chip), Noted::default());
        device.begin(&mut noted);
        for (register, value) in [(1, 9), (3, 1), (0, 1)] {
            write(&mut device, &mut noted, register, value);
        }
        noted.pass(&mut device, 10_000);
        assert_eq!(noted.lines.get(&7), Some(&true), "the timer has raised it");
        noted.pass(&mut device, 5000);
        assert_eq!(noted.lines.get(&7), Some(&true));
        // Nothing here receives.
        let before = [0, 1, 2, 3, 5].map(|register| read(&mut device, &mut noted, register));
        device.receive(b'x', &mut noted);
        assert_eq!([0, 1, 2, 3, 5].map(|register| read(&mut device, &mut noted, register)), before);
    }
}
