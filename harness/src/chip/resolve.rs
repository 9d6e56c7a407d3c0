// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resolution of a chip file: names become indices, repetitions are expanded, kinds are filled in.

use std::collections::{BTreeMap, BTreeSet};

use wire::chip::{
    AVR_DATA, Answer, Array, Block, Bus, BusEnd, ByteAt, Cause, Channel, ChannelEnd, Clock, Compare, Connection,
    Copied, Count, Counter, Csr, Divider, Edge, Erase, Factor, Field, Flash, Follow, Interrupt, MAX_ARRAY_BYTES,
    Memory, Pins, Port, Pulse, Random, Register, Request, Riscv, Sampler, Setting, Source, Stimulus, Transfer,
    Trigger, Watchdog, Word,
};

use super::file::{
    AnswerTable, ArrayTable, Bits, ChannelEndTable, ChannelTable, ClockSource, ClockTable, CountTable, CounterTable,
    CsrTable, Direction, EdgeTable, FactorTable, File, KindTable, Mask, MemoryKind, MemoryTable, PeripheralTable,
    PulseTable, RegisterTable, Text, UndescribedTable,
};
use super::origin::Origin;
use super::spanned::Spanned;
use super::svd::{Svd, Word as SvdWord};
use super::{CHIPS, Chip, KINDS, NamedDevice, OutsideSvd, Rule, core, names};
use crate::chip::base::{BASES, is_addition, own_end, riscv};
use crate::error::InputError;
use crate::text::number::Hex;

/// First address of the vendor's range above the processor's own registers (Armv7-M ARM, B3.1).
const VENDOR: u64 = 0xe010_0000;

/// Longest chain of `like` among files, or among kinds.
const MAX_LIKE: usize = 8;

/// Largest number of repetitions of a register or rule.
const MAX_REPEAT: u32 = 1024;

/// A kind, and the file that defines it.
struct Kind<'a> {
    source: &'a Origin<'a>,
    table: KindTable,
}

/// A peripheral whose clocks are not resolved yet.
pub(super) struct Draft<'a> {
    pub(super) name: String,
    pub(super) source: &'a Origin<'a>,
    pub(super) peripheral: PeripheralTable,
    kind: Option<Kind<'a>>,
    block: Block,
    fields: BTreeMap<String, Field>,
}

/// Parses a file, whose names are checked.
fn file(origin: &Origin<'_>) -> Result<File, InputError> {
    let file: File = origin.parse()?;
    names::first_bad(&file).map_or(Ok(file), |(offset, reason)| Err(origin.error(offset, reason)))
}

/// Reads a chip file's text. Registers that it does not describe are taken from the SVD.
pub(super) fn chip(name: &str, path: &str, text: &str, svd: Option<&Svd>) -> Result<Chip, InputError> {
    let library: Vec<Origin<'_>> = KINDS.iter().map(|(path, text)| Origin { path, text }).collect();
    let own = Origin { path, text };
    // This chip's file, then the chain of its `like`.
    let mut files = vec![file(&own)?];
    let mut names = vec![(path.to_owned(), text)];
    while let Some(like) = files.last().and_then(|file| file.chip.as_ref()?.like.clone()) {
        let (last, last_text) = names[names.len() - 1].clone();
        let of = Origin { path: &last, text: last_text };
        let Some((other, other_text)) = CHIPS.iter().find(|(other, _)| other == like.get_ref()) else {
            return Err(of.at(&like, format_args!("no chip is called {}", like.get_ref())));
        };
        if files.len() >= MAX_LIKE {
            return Err(of.at(&like, "chips are like one another in a circle"));
        }
        names.push((format!("{other}.toml"), other_text));
        files.push(file(&Origin { path: &names[names.len() - 1].0, text: other_text })?);
    }
    let sources: Vec<Origin<'_>> = names.iter().map(|(path, text)| Origin { path, text }).collect();
    let mut kinds: BTreeMap<String, (&Origin<'_>, Spanned<KindTable>)> = BTreeMap::new();
    for source in &library {
        let file = file(source)?;
        kinds.extend(file.kind.into_iter().map(|(name, kind)| (name, (source, kind))));
    }
    for (file, source) in files.iter_mut().zip(&sources).rev() {
        kinds.extend(std::mem::take(&mut file.kind).into_iter().map(|(name, kind)| (name, (source, kind))));
    }
    Resolver { files, sources: &sources, kinds, svd }.resolve(name)
}

struct Resolver<'a> {
    files: Vec<File>,
    sources: &'a [Origin<'a>],
    kinds: BTreeMap<String, (&'a Origin<'a>, Spanned<KindTable>)>,
    svd: Option<&'a Svd>,
}

impl<'a> Resolver<'a> {
    fn own(&self) -> &'a Origin<'a> {
        &self.sources[0]
    }

    /// Finds the nearest file in the chain that gives a value. Returns the value and the file.
    fn said<T>(&self, what: impl Fn(&super::file::ChipTable) -> Option<&T>) -> Option<(&T, &'a Origin<'a>)> {
        let said = self.files.iter().zip(self.sources);
        said.filter_map(|(file, source)| Some((what(file.chip.as_ref()?)?, source))).next()
    }

    /// Error for a key of `[chip]` that is missing in all files.
    fn lacks(&self, key: &str) -> InputError {
        self.own().error(0, format_args!("[chip] lacks `{key}`"))
    }

    /// A number of `[chip]` that must be in a range; 0: no file gives it.
    fn number(
        &self,
        key: &str,
        of: impl Fn(&super::file::ChipTable) -> Option<&Spanned<u32>>,
        range: std::ops::RangeInclusive<u32>,
    ) -> Result<u32, InputError> {
        let Some((number, source)) = self.said(of) else { return Ok(0) };
        let is_meant = range.contains(number.get_ref());
        is_meant
            .then_some(*number.get_ref())
            .ok_or_else(|| source.at(number, format_args!("{key} must be {} to {}", range.start(), range.end())))
    }

    /// Name of the processor, which must be one for which QEMU has a machine.
    fn cpu(&self) -> Result<String, InputError> {
        let (cpu, source) = self.said(|chip| chip.cpu.as_ref()).ok_or_else(|| self.lacks("cpu"))?;
        if BASES.iter().all(|(core, _)| core != cpu.get_ref()) {
            let known: Vec<&str> = BASES.iter().map(|(core, _)| *core).collect();
            let reason = format!("no processor {} that QEMU has a machine for: {}", cpu.get_ref(), known.join(", "));
            return Err(source.at(cpu, reason));
        }
        Ok(cpu.get_ref().clone())
    }

    fn resolve(self, name: &str) -> Result<Chip, InputError> {
        if self.files[0].chip.is_none() {
            return Err(self.own().error(0, "no [chip] table, which names the processor"));
        }
        let cpu = self.cpu()?;
        let (&hz, _) = self.said(|chip| chip.hz.as_ref()).ok_or_else(|| self.lacks("hz"))?;
        let is_addition = is_addition(&cpu);
        let memory = if is_addition { self.no_memory()? } else { self.memory()? };
        let mut drafts = self.drafts()?;
        self.check_bytes(&drafts, is_addition)?;
        self.check_overlap(&memory, &mut drafts)?;
        drafts.sort_by_key(|draft| draft.block.start);
        self.check_number(is_addition, &memory, &drafts)?;
        let clocks = Clocks::collect(&self, &drafts)?;
        let (indices, clocks) = clocks.resolve(&drafts)?;
        let of_clock = |said: Option<(&Text, &Origin<'_>)>| {
            said.map(|(clock, source)| {
                let found = indices.get(clock.get_ref()).copied();
                found.ok_or_else(|| source.at(clock, format_args!("no clock is called {}", clock.get_ref())))
            })
            .transpose()
        };
        let cpu_clock = of_clock(self.said(|chip| chip.cpu_clock.as_ref()))?;
        let systick_clock = of_clock(self.said(|chip| chip.systick_clock.as_ref()))?;
        let riscv = self.riscv(&cpu, hz)?;
        let max_lines = if is_addition { wire::chip::MAX_ADDED_LINES } else { wire::chip::MAX_LINES };
        let lines = self.number("interrupts", |chip| chip.interrupts.as_ref(), 1..=max_lines)?;
        let priority_bits = self.number("priority-bits", |chip| chip.priority_bits.as_ref(), 2..=8)?;
        let (blocks, mut registers) = self.blocks(&drafts, &indices, &memory)?;
        let fields = self.fields(&drafts);
        let outside_svd = self.outside_svd(&drafts);
        registers.sort();
        self.name_others(&mut registers);
        let mut wire = wire::chip::Chip {
            name: name.to_owned(),
            memory,
            blocks,
            lines,
            priority_bits,
            clocks,
            cpu_clock,
            systick_clock,
            insn_shift: 0,
            seed: 1,
            is_addition,
            riscv,
            ..wire::chip::Chip::default()
        };
        self.check_learned(&wire)?;
        let rules = self.rules(&mut wire, &registers)?;
        let chip = Chip {
            name: name.to_owned(),
            cpu,
            core: self.core()?,
            sha256: String::new(),
            hz,
            vectors: self.said(|chip| chip.vectors.as_ref()).map_or(0, |(&vectors, _)| vectors),
            differs: self
                .files
                .iter()
                .filter_map(|file| file.chip.as_ref())
                .flat_map(|chip| chip.differs.clone())
                .collect(),
            registers,
            fields,
            rules,
            outside_svd,
            seen: self.files[0].learned.as_ref().map(|learned| learned.seen.iter().copied().collect()),
            devices: Self::device_names(&drafts)?,
            by_clock: Vec::new(),
            wire,
        };
        self.finish(chip, &drafts)
    }

    /// Adds what the names of the chip's parts are needed for, checks the chip and gives it its hash.
    fn finish(&self, mut chip: Chip, drafts: &[Draft<'_>]) -> Result<Chip, InputError> {
        Self::select_devices(drafts, &mut chip)?;
        chip.wire.stimuli = self.stimuli(&chip)?;
        chip.wire.check().map_err(|what| self.describe(what, &chip.wire, drafts))?;
        chip.sha256 = Chip::hash(&chip.wire);
        Ok(chip)
    }

    /// Names of the devices on buses.
    fn device_names(drafts: &[Draft<'_>]) -> Result<Vec<NamedDevice>, InputError> {
        let mut names: Vec<NamedDevice> = Vec::new();
        for (block, draft) in (0..).zip(drafts) {
            for (index, device) in (0..).zip(&draft.peripheral.devices) {
                let Some(name) = &device.name else { continue };
                if !wire::chip::is_name(name.get_ref()) || name.get_ref().contains('.') {
                    return Err(draft.source.at(name, "a device's name has letters, digits and -_"));
                }
                if names.iter().any(|other| &other.name == name.get_ref()) {
                    return Err(draft.source.at(name, format_args!("two devices are called {}", name.get_ref())));
                }
                names.push(NamedDevice { name: name.get_ref().clone(), block, device: index });
            }
        }
        Ok(names)
    }

    /// Finds the pins that select devices.
    fn select_devices(drafts: &[Draft<'_>], chip: &mut Chip) -> Result<(), InputError> {
        for (block, draft) in drafts.iter().enumerate() {
            for (index, device) in draft.peripheral.devices.iter().enumerate() {
                let Some(select) = &device.select else { continue };
                let pin = chip.pin_at(select.get_ref());
                let pin = pin.ok_or_else(|| {
                    let reason = format!("{} is not a pin of the chip, as PA4 is one of GPIOA", select.get_ref());
                    draft.source.at(select, reason)
                })?;
                chip.wire.blocks[block].devices[index].select = Some(pin);
            }
        }
        Ok(())
    }

    /// Name of the core whose cycles can be counted.
    fn core(&self) -> Result<Option<String>, InputError> {
        let Some((core, source)) = self.said(|chip| chip.core.as_ref()) else { return Ok(None) };
        if core::is_known(core.get_ref()) {
            return Ok(Some(core.get_ref().clone()));
        }
        let known = core::names().collect::<Vec<_>>().join(", ");
        Err(source.at(core, format_args!("no core is called {}; one of {known}", core.get_ref())))
    }

    /// Error for a chip that the plugin would refuse, with the place of the part that is wrong.
    fn describe(&self, what: &str, wire: &wire::chip::Chip, drafts: &[Draft<'_>]) -> InputError {
        let bad = wire.first_bad_block().map(|block| block.start);
        if let Some(draft) = bad.and_then(|start| drafts.iter().find(|draft| draft.block.start == start)) {
            let kind = draft.peripheral.kind.get_ref();
            let reason = format!(
                "{}: a rule of its kind {kind} has a number out of its range (a counter has 1 to 64 bits, a pin 1, 2 or \
                 4 bits of its mode, a page at least 1 byte; an interrupt's line is below {})",
                draft.name,
                wire::chip::MAX_LINES
            );
            return draft.source.at(&draft.peripheral.kind, reason);
        }
        let registers = || wire.blocks.iter().map(|block| block.registers.len()).sum::<usize>();
        let reason = match what {
            "chip's registers" => {
                format!("{} registers of all peripherals, and at most {}", registers(), wire::chip::MAX_REGISTERS)
            }
            "chip's bytes" => {
                format!("more than {} stretches of `bytes` of all peripherals", wire::chip::MAX_STRETCHES)
            }
            "chip's arrays" => {
                "a [[kind.…array]] has no bytes, or more than 65,536, or all together 1 MiB".to_owned()
            }
            _ => format!("{what} is not one that QEMU can have"),
        };
        self.own().error(0, reason)
    }

    /// Refuses more memories and peripherals than QEMU has room for.
    fn check_number(&self, is_addition: bool, memory: &[Memory], drafts: &[Draft<'_>]) -> Result<(), InputError> {
        let memories = memory.iter().map(|memory| (memory.start, memory.start + memory.bytes));
        let blocks = drafts.iter().map(|draft| (draft.block.start, draft.block.start + draft.block.bytes));
        let mut ranges: Vec<(u64, u64)> = memories.chain(blocks).collect();
        ranges.sort_unstable();
        if is_addition || wire::chip::fit_sections(&ranges) {
            return Ok(());
        }
        let file = &self.files[0];
        let spans = file.memory.iter().map(Spanned::span).chain(file.peripherals.values().map(Spanned::span));
        let last = spans.chain(file.undescribed.iter().map(Spanned::span)).map(|span| span.start).max();
        let reason = format!(
            "{} memories and {} peripherals: QEMU has no room for that many ranges of addresses. Leave out those that the \
             firmware does not use, or cover neighbours by one [[undescribed]]",
            memory.len(),
            drafts.len()
        );
        Err(self.own().error(last.unwrap_or(0), reason))
    }

    /// The processor's own registers, if it is of RISC-V. Keys that are only for other processors are refused there.
    fn riscv(&self, cpu: &str, hz: u64) -> Result<Option<Riscv>, InputError> {
        let first_csr = || {
            self.files
                .iter()
                .zip(self.sources)
                .find_map(|(file, source)| file.csr.values().next().map(|csr| (csr, source)))
        };
        if riscv(cpu).is_none() {
            if let Some((csr, source)) = first_csr() {
                return Err(source.at(csr, format_args!("only RISC-V has control and status registers, not a {cpu}")));
            }
            return Ok(None);
        }
        if let Some((lines, source)) = self.said(|chip| chip.interrupts.as_ref()) {
            return Err(source.at(lines, format_args!("the interrupts of a RISC-V chip go through its own processor, which QEMU's has not: a {cpu} has no lines")));
        }
        let mut csrs = Vec::new();
        for (file, source) in self.files.iter().zip(self.sources) {
            for table in file.csr.values() {
                let CsrTable { number, reset, cycles } = *table.get_ref();
                if number >= wire::chip::CSRS {
                    return Err(source.at(table, format_args!("`number` must be below {:#x}", wire::chip::CSRS)));
                }
                csrs.push(Csr { number, reset, has_cycles: cycles });
            }
        }
        csrs.sort_by_key(|csr| csr.number);
        // The chip's own file comes first, before those that it is like.
        csrs.dedup_by_key(|csr| csr.number);
        Ok(Some(Riscv { hz, csrs }))
    }

    /// Blocks of registers with their rules, and the registers' names by address.
    fn blocks(
        &self,
        drafts: &[Draft<'a>],
        clocks: &BTreeMap<String, u32>,
        memory: &[Memory],
    ) -> Result<(Vec<Block>, RegisterNames), InputError> {
        let tables = self.files.iter().filter_map(|file| file.chip.as_ref());
        let without = tables.flat_map(|chip| &chip.without).map(|name| name.get_ref().as_str()).collect();
        let (mut blocks, mut registers) = (Vec::new(), Vec::new());
        for (index, draft) in drafts.iter().enumerate() {
            let rules = Rules { draft, index: index as u32, clocks, memory, without: &without, drafts };
            let block = rules.resolve()?;
            registers.extend(names_of(&block));
            blocks.push(block);
        }
        Ok((blocks, registers))
    }

    /// Changes from outside, of all files, in the order of their instructions.
    fn stimuli(&self, chip: &Chip) -> Result<Vec<Stimulus>, InputError> {
        let mut stimuli = Vec::new();
        for (file, source) in self.files.iter().zip(self.sources) {
            for table in &file.stimulus {
                for text in &table.get_ref().set {
                    let one = chip.stimulus(text.get_ref(), table.get_ref().at);
                    stimuli.push(one.map_err(|what| source.at(text, what))?);
                }
            }
        }
        stimuli.sort_by_key(|stimulus| stimulus.at_insns);
        Ok(stimuli)
    }

    /// Refuses learned registers that lie in no register block.
    fn check_learned(&self, wire: &wire::chip::Chip) -> Result<(), InputError> {
        let mut learned = self.files[0].learned.iter().flat_map(|learned| &learned.registers);
        let is_nowhere = |at: u64| !at.is_multiple_of(4) || wire.block_at(at).is_none();
        match learned.find(|register| is_nowhere(register.get_ref().at)) {
            Some(register) => {
                let reason = format!("{} is not the address of a register", Hex(register.get_ref().at));
                Err(self.own().at(register, reason))
            }
            None => Ok(()),
        }
    }

    /// Adds the answers, pulses and counts, and returns their descriptions.
    fn rules(&self, wire: &mut wire::chip::Chip, registers: &[(u64, String)]) -> Result<Vec<Rule>, InputError> {
        let name = |address: u64| {
            let found = registers.binary_search_by_key(&address, |(address, _)| *address);
            found.map_or_else(|_| Hex(address).to_string(), |index| registers[index].1.clone())
        };
        let has = |wire: &wire::chip::Chip, at: u64| at.is_multiple_of(4) && wire.block_at(at).is_some();
        let (mut answers, mut pulses, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for (file, source) in self.files.iter().zip(self.sources) {
            for table in &file.answer {
                let AnswerTable { at, mask, value, why, place, insn, guess } = table.get_ref().clone();
                if mask == 0 || value & !mask != 0 || !has(wire, at) {
                    let reason = format!(
                        "{} is not the address of a register, or `value` has bits that `mask` lacks",
                        Hex(at)
                    );
                    return Err(source.at(table, reason));
                }
                wire.answers.push(Answer { address: at, mask, value });
                let what = format!("{} reads {value:#x} in {mask:#x}", name(at));
                answers.push(Rule { what, why, place, at_insns: insn, is_guess: guess });
            }
            for table in &file.pulse {
                let PulseTable { interrupt, every, ones, why, place, insn, guess } = table.get_ref().clone();
                if every < wire::chip::MIN_PULSE_INSNS {
                    let least = wire::chip::MIN_PULSE_INSNS;
                    return Err(source.at(table, format_args!("`every` must be at least {least} instructions")));
                }
                if interrupt >= wire::chip::MAX_LINES {
                    let reason = format!("`interrupt` is {interrupt}, and must be below {}", wire::chip::MAX_LINES);
                    return Err(source.at(table, reason));
                }
                if let Some(&at) = ones.iter().find(|&&at| !has(wire, at)) {
                    return Err(source.at(table, format_args!("{} is not the address of a register", Hex(at))));
                }
                let sets = ones.iter().map(|&address| Answer { address, mask: u32::MAX, value: u32::MAX });
                wire.pulses.push(Pulse { line: interrupt, every_insns: every, sets: sets.collect() });
                let what = format!("interrupt {interrupt} every {every} instructions");
                pulses.push(Rule { what, why, place, at_insns: insn, is_guess: guess });
            }
            for table in &file.count {
                let CountTable { at, every, why, place, insn, guess } = table.get_ref().clone();
                if every == 0 || !has(wire, at) {
                    let reason = format!("{} is not the address of a register, or `every` is 0", Hex(at));
                    return Err(source.at(table, reason));
                }
                wire.counts.push(Count { address: at, every_insns: every });
                let what = format!("{} counts every {every} instructions", name(at));
                counts.push(Rule { what, why, place, at_insns: insn, is_guess: guess });
            }
        }
        answers.extend(pulses);
        answers.extend(counts);
        if answers.len() > wire::chip::MAX_RULES {
            let reason = format!("more than {} answers, pulses and counts", wire::chip::MAX_RULES);
            return Err(self.own().error(0, reason));
        }
        Ok(answers)
    }

    /// Refuses memory of a chip whose machine has its own.
    fn no_memory(&self) -> Result<Vec<Memory>, InputError> {
        let mut described = self.files.iter().zip(self.sources).flat_map(|(file, source)| {
            let memory = file.memory.first();
            memory.map(|memory| source.at(memory, "an AVR's memory is that of QEMU's machine: leave [[memory]] out"))
        });
        described.next().map_or(Ok(Vec::new()), Err)
    }

    /// Memory of the nearest file that describes any.
    fn memory(&self) -> Result<Vec<Memory>, InputError> {
        let of = self.files.iter().zip(self.sources).find(|(file, _)| !file.memory.is_empty());
        let Some((file, source)) = of else { return Err(self.own().error(0, "no [[memory]]")) };
        // Memories first, then their aliases.
        let mut tables: Vec<&Spanned<MemoryTable>> = file.memory.iter().collect();
        tables.sort_by_key(|table| (table.get_ref().alias.is_some(), table.get_ref().start));
        let mut memory: Vec<Memory> = Vec::new();
        let mut all_bytes = 0u64;
        for table in tables {
            let MemoryTable { name, start, bytes, kind, alias, words } = table.get_ref();
            let alias_of = match alias {
                None => None,
                Some(alias) => {
                    let of = memory.iter().position(|memory| &memory.name == alias.get_ref());
                    let of = of.filter(|&of| memory[of].alias_of.is_none() && *bytes <= memory[of].bytes);
                    let reason = || format!("no memory {} of at least {} bytes", alias.get_ref(), Hex(*bytes));
                    Some(of.ok_or_else(|| source.at(alias, reason()))? as u32)
                }
            };
            if *bytes == 0 || bytes % 1024 != 0 || start % 1024 != 0 || start.saturating_add(*bytes) > 1 << 32 {
                return Err(source.at(table, format_args!("memory {name} is not a whole number of KiB below 4 GiB")));
            }
            all_bytes = all_bytes.saturating_add(*bytes);
            if all_bytes > wire::chip::MAX_MEMORY_BYTES {
                let reason = format!(
                    "memory {name}: `bytes` is {}, and all memories together have at most {} (256 MiB), aliases included",
                    Hex(*bytes),
                    Hex(wire::chip::MAX_MEMORY_BYTES)
                );
                return Err(source.at(table, reason));
            }
            if memory.iter().any(|other| &other.name == name) {
                return Err(source.at(table, format_args!("two memories are called {name}")));
            }
            let is_flash = match alias_of {
                Some(of) => memory[of as usize].is_flash,
                None => *kind == MemoryKind::Flash,
            };
            let is_word = |offset: u64| offset.is_multiple_of(4) && offset < *bytes;
            if let Some((offset, _)) = words.iter().find(|(offset, _)| !is_word(*offset) || alias_of.is_some()) {
                return Err(
                    source.at(table, format_args!("memory {name} has no word of its own at {}", Hex(*offset)))
                );
            }
            let words = words.iter().map(|&(offset, value)| Word { offset, value }).collect();
            memory.push(Memory { name: name.clone(), start: *start, bytes: *bytes, is_flash, alias_of, words });
        }
        Ok(memory)
    }

    /// Peripherals of all files; if several files describe a peripheral, the nearest file wins.
    fn drafts(&self) -> Result<Vec<Draft<'a>>, InputError> {
        let mut peripherals: BTreeMap<&String, (&'a Origin<'a>, &Spanned<PeripheralTable>)> = BTreeMap::new();
        for (file, source) in self.files.iter().zip(self.sources).rev() {
            for without in file.chip.iter().flat_map(|chip| &chip.without) {
                if peripherals.remove(without.get_ref()).is_none() {
                    let reason = format!("the chip that it is like has no {}", without.get_ref());
                    return Err(source.at(without, reason));
                }
            }
            peripherals.extend(file.peripherals.iter().map(|(name, peripheral)| (name, (source, peripheral))));
        }
        let (mut drafts, own_end) = (Vec::new(), own_end(&self.cpu()?));
        for (name, (source, peripheral)) in peripherals {
            let kind = self.kind(source, &peripheral.get_ref().kind)?;
            let start = peripheral.get_ref().at;
            let bytes = kind.table.bytes.unwrap_or(0x400);
            if start % 4 != 0 || bytes == 0 || start.saturating_add(bytes) > own_end {
                let reason = format!("{name} at {} leaves what a chip has below {}", Hex(start), Hex(own_end));
                return Err(source.at(peripheral, reason));
            }
            if bytes > wire::chip::MAX_BLOCK_BYTES {
                let most = Hex(wire::chip::MAX_BLOCK_BYTES);
                let reason = format!("{name}: `bytes` of its kind is {}, and must be {most} or less", Hex(bytes));
                return Err(source.at(peripheral, reason));
            }
            if kind.table.atomic_aliases && !(bytes.is_power_of_two() && bytes >= 16) {
                let reason =
                    format!("{name} has atomic-aliases, but its {bytes:#x} bytes are no power of two from 16 on");
                return Err(source.at(peripheral, reason));
            }
            let block = Block {
                name: name.clone(),
                start,
                bytes,
                has_atomic_aliases: kind.table.atomic_aliases,
                is_undescribed: kind.table.undescribed,
                ..Block::default()
            };
            let peripheral = peripheral.get_ref().clone();
            let mut draft =
                Draft { name: name.clone(), source, peripheral, kind: Some(kind), block, fields: BTreeMap::new() };
            draft.registers()?;
            drafts.push(draft);
        }
        Ok(drafts)
    }

    /// Checks the bytes of the data space that are registers: only an AVR has such, and each is one register.
    fn check_bytes(&self, drafts: &[Draft<'_>], is_addition: bool) -> Result<(), InputError> {
        let mut taken: BTreeMap<u64, String> = BTreeMap::new();
        // The file itself last: where two registers are at one place, the mistake is its.
        let (own, others): (Vec<_>, Vec<_>) = drafts.iter().partition(|draft| std::ptr::eq(draft.source, self.own()));
        for Draft { name, source, peripheral, .. } in others.into_iter().chain(own) {
            let bytes =
                peripheral.bytes.iter().flat_map(|(register, at)| at.each().iter().map(move |at| (register, *at)));
            for (register, address) in bytes {
                let own = format!("{name}.{register}");
                let error = |reason: String| Err(source.at(&peripheral.kind, reason));
                if !is_addition {
                    return error(format!(
                        "{own}: `bytes` are for AVR; elsewhere registers lie in the block from `at` on"
                    ));
                }
                if address >= AVR_DATA.end - AVR_DATA.start {
                    return error(format!("{own} at {} lies outside of the data space of 64 KiB", Hex(address)));
                }
                if let Some(other) = taken.insert(address, own.clone()) {
                    return error(format!("{own} lies at {} where {other} does", Hex(address)));
                }
            }
        }
        Ok(())
    }

    /// Finds a kind, and adds the entries of its `like` chain.
    fn kind(&self, source: &Origin<'_>, name: &Text) -> Result<Kind<'a>, InputError> {
        let unknown = |source: &Origin<'_>, name: &Text| {
            let near = self.kinds.keys().map(|kind| (strsim::jaro_winkler(kind, name.get_ref()), kind));
            let near = near.filter(|(likeness, _)| *likeness > 0.8).max_by(|one, other| one.0.total_cmp(&other.0));
            let near = near.map_or_else(String::new, |(_, kind)| format!("; {kind} is"));
            source.at(name, format_args!("no kind is called {}{near}", name.get_ref()))
        };
        let (of, table) = self.kinds.get(name.get_ref()).ok_or_else(|| unknown(source, name))?;
        let mut table = table.get_ref().clone();
        let mut from = *of;
        for _ in 0..MAX_LIKE {
            let Some(like) = table.like.take() else { return Ok(Kind { source: of, table }) };
            let (next, base) = self.kinds.get(like.get_ref()).ok_or_else(|| unknown(from, &like))?;
            from = next;
            table = on_top(base.get_ref().clone(), table);
        }
        Err(of.error(0, format_args!("kinds are like one another in a circle: {}", name.get_ref())))
    }

    /// Peripherals and registers of the file that the SVD does not have. A built-in kind has the registers of all its
    /// chips, so those are told apart.
    fn outside_svd(&self, drafts: &[Draft<'_>]) -> Vec<OutsideSvd> {
        let Some(svd) = self.svd else { return Vec::new() };
        let mut outside = Vec::new();
        for draft in drafts.iter().filter(|draft| draft.kind.is_some()) {
            let Draft { name, source, peripheral, block, .. } = draft;
            let is_own = std::ptr::eq(*source, self.own());
            let is_known = svd.peripherals.iter().any(|(_, range)| range.contains(&block.start));
            if !is_known {
                let what = format!("{name} at {} lies in no peripheral of {}", Hex(block.start), svd.file);
                outside.push(OutsideSvd { what: source.at(&peripheral.kind, what).to_string(), is_own });
                continue;
            }
            outside.extend(self.outside_peripheral(draft, svd));
        }
        let answers = self.files[0].answer.iter().map(|table| (table.get_ref().at, table.span().start));
        let counts = self.files[0].count.iter().map(|table| (table.get_ref().at, table.span().start));
        for (at, offset) in answers.chain(counts).filter(|(at, _)| !svd.words.contains_key(&(at & !3))) {
            let what = format!("{} is not a register of {}", Hex(at), svd.file);
            outside.push(OutsideSvd { what: self.own().error(offset, what).to_string(), is_own: true });
        }
        outside
    }

    /// Registers of a peripheral that the SVD does not have: each one of a kind of the file itself, or one sentence about
    /// those of a built-in kind.
    fn outside_peripheral(&self, draft: &Draft<'_>, svd: &Svd) -> Vec<OutsideSvd> {
        let Draft { name, source, peripheral, block, .. } = draft;
        let is_absent = |at: u64| !svd.words.contains_key(&(block.start + at));
        let own = self.kinds.get(peripheral.kind.get_ref()).filter(|(of, _)| std::ptr::eq(*of, self.own()));
        let mut named = BTreeSet::new();
        let mut outside = Vec::new();
        let mut tables: Vec<_> = own.iter().flat_map(|(_, kind)| &kind.get_ref().registers).collect();
        tables.sort_by_key(|(_, table)| table.span().start);
        for (register, table) in tables {
            for (_, own, at) in table.get_ref().each(register) {
                let Some(at) = at else { continue };
                named.insert(own.clone());
                if is_absent(at) {
                    let at = Hex(block.start + at);
                    let what = format!("{name}.{own} at {at} is not a register of {}", svd.file);
                    outside.push(OutsideSvd { what: self.own().at(table, what).to_string(), is_own: true });
                }
            }
        }
        let others = block.registers.iter().filter(|register| !named.contains(&register.name));
        let others = others.filter(|register| register.offset.is_some_and(is_absent));
        let others: Vec<&str> = others.map(|register| register.name.as_str()).collect();
        if !others.is_empty() {
            let what = format!("{} has none of {name}'s {}", svd.file, others.join(", "));
            outside.push(OutsideSvd { what: source.at(&peripheral.kind, what).to_string(), is_own: false });
        }
        outside
    }

    /// Fields of all registers by address: those of their kinds, then those of the SVD.
    fn fields(&self, drafts: &[Draft<'_>]) -> BTreeMap<u64, Vec<(String, u32)>> {
        let mut fields: BTreeMap<u64, Vec<(String, u32)>> = BTreeMap::new();
        for draft in drafts {
            for (name, field) in &draft.fields {
                let register = draft.block.registers.get(field.register as usize);
                let offset = register.and_then(|register| register.offset);
                if let (Some((_, name)), Some(offset)) = (name.split_once('.'), offset) {
                    let of = fields.entry(draft.block.start + offset).or_default();
                    of.push((name.to_owned(), field.mask));
                }
            }
        }
        fields.values_mut().for_each(|of| of.sort_by_key(|(_, mask)| *mask));
        for (&address, word) in self.svd.iter().flat_map(|svd| &svd.words) {
            let of = word.fields.iter().map(|(name, bits)| (name.clone(), *bits));
            fields.entry(address).or_default().extend(of);
        }
        fields
    }

    /// Adds the SVD's names of registers that a kind of peripheral does not describe.
    fn name_others(&self, registers: &mut Vec<(u64, String)>) {
        let words = self.svd.iter().flat_map(|svd| &svd.words);
        let is_new = |address: &u64| registers.binary_search_by_key(address, |(address, _)| *address).is_err();
        let others =
            words.filter(|(address, _)| is_new(address)).map(|(&address, word)| (address, word.name.clone()));
        let others: Vec<(u64, String)> = others.collect();
        registers.extend(others);
        registers.sort();
    }

    /// Registers of an undescribed address range: the learned ones if there are any, else those of the SVD.
    fn words_in(&self, range: std::ops::Range<u64>) -> Vec<Register> {
        let svd = self.svd.iter().flat_map(|svd| svd.words.range(range.clone()));
        let mut words: BTreeMap<u64, SvdWord> = svd.map(|(&address, word)| (address, word.clone())).collect();
        let learned = self.files[0].learned.iter().flat_map(|learned| &learned.registers).map(Spanned::get_ref);
        let learned = learned.filter(|register| range.contains(&register.at));
        words.extend(learned.map(|register| (register.at, SvdWord::from(register))));
        let register = |(address, word): (u64, SvdWord)| Register {
            name: word.name,
            offset: Some(address - range.start),
            reset: word.reset,
            read_only: word.read_only,
            one_clears: word.one_clears,
            zero_clears: word.zero_clears,
            read_clears: word.read_clears,
            ..Register::default()
        };
        words.into_iter().map(register).collect()
    }

    /// Address ranges of registers that no kind describes: the ranges of the nearest file that names any, then
    /// further peripherals of the SVD.
    fn undescribed(&self) -> Result<Vec<(UndescribedTable, &'a Origin<'a>)>, InputError> {
        let of = self.files.iter().zip(self.sources).find(|(file, _)| !file.undescribed.is_empty());
        let (mut all, own_end) = (Vec::new(), own_end(&self.cpu()?));
        for (table, source) in of.iter().flat_map(|(file, source)| file.undescribed.iter().map(|one| (one, *source)))
        {
            let UndescribedTable { name, start, bytes } = table.get_ref();
            let end = start.saturating_add(*bytes);
            let is_sound = (1..=wire::chip::MAX_BLOCK_BYTES).contains(bytes);
            if !is_sound || start % 4 != 0 || end % 4 != 0 || end > 1 << 32 || (end > own_end && *start < VENDOR) {
                let vendor = if own_end < VENDOR { " or above 0xe0100000" } else { "" };
                let reason = format!("{name} is not a range of registers below {}{vendor}", Hex(own_end));
                return Err(source.at(table, reason));
            }
            all.push((table.get_ref().clone(), source));
        }
        let peripherals = self.svd.iter().flat_map(|svd| &svd.peripherals);
        all.extend(peripherals.map(|(name, range)| {
            let bytes = range.end - range.start;
            (UndescribedTable { name: name.clone(), start: range.start, bytes }, self.own())
        }));
        Ok(all)
    }

    /// Adds blocks for the undescribed ranges, and rejects overlaps.
    fn check_overlap(&self, memory: &[Memory], drafts: &mut Vec<Draft<'a>>) -> Result<(), InputError> {
        let mut taken: Vec<(u64, u64, String)> = memory
            .iter()
            .map(|memory| (memory.start, memory.start + memory.bytes, memory.name.clone()))
            .chain(
                drafts
                    .iter()
                    .map(|draft| (draft.block.start, draft.block.start + draft.block.bytes, draft.name.clone())),
            )
            .collect();
        taken.sort();
        if let Some(pair) = taken.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            let (one, other) = (&pair[0], &pair[1]);
            let mut offset = 0;
            for (file, source) in self.files.iter().zip(self.sources) {
                let memory = file.memory.iter().find(|memory| memory.get_ref().name == other.2);
                let span = memory.map(Spanned::span).or_else(|| file.peripherals.get(&other.2).map(Spanned::span));
                if let Some(span) = span {
                    offset = span.start;
                    let reason =
                        format!("{} at {} overlaps {}, which ends at {}", other.2, Hex(other.0), one.2, Hex(one.1));
                    return Err(source.error(offset, reason));
                }
            }
            return Err(self.own().error(offset, format_args!("{} overlaps {}", other.2, one.2)));
        }
        for (UndescribedTable { name, start, bytes }, source) in self.undescribed()? {
            let end = start + bytes;
            let mut at = start;
            let mut gaps = Vec::new();
            for (first, behind, _) in taken.iter().filter(|(first, behind, _)| *first < end && *behind > start) {
                if *first > at {
                    gaps.push((at, *first));
                }
                at = at.max(*behind);
            }
            if at < end {
                gaps.push((at, end));
            }
            for (first, behind) in gaps {
                taken.push((first, behind, name.clone()));
                let block = Block {
                    name: name.clone(),
                    start: first,
                    bytes: behind - first,
                    is_undescribed: true,
                    registers: self.words_in(first..behind),
                    ..Block::default()
                };
                drafts.push(Draft {
                    name: name.clone(),
                    source,
                    peripheral: PeripheralTable {
                        at: first,
                        kind: Spanned::new(0..0, String::new()),
                        interrupt: None,
                        interrupts: BTreeMap::new(),
                        clock: None,
                        flash: None,
                        reset: BTreeMap::new(),
                        ports: Vec::new(),
                        ports_by: None,
                        devices: Vec::new(),
                        answers: Vec::new(),
                        filters_by: None,
                        bytes: BTreeMap::new(),
                    },
                    kind: None,
                    block,
                    fields: BTreeMap::new(),
                });
            }
            taken.sort();
        }
        Ok(())
    }
}

/// Names of registers by address.
type RegisterNames = Vec<(u64, String)>;

/// Names of a block's registers by address. In an undescribed block of an SVD, the registers' names already contain the
/// peripheral's; one of an AVR's data space is a peripheral of its own.
fn names_of(block: &Block) -> impl Iterator<Item = (u64, String)> + '_ {
    block.registers.iter().filter_map(|Register { name, offset, .. }| {
        let is_whole = block.is_undescribed && block.bytes_at.is_empty();
        let name = if is_whole { name.clone() } else { format!("{}.{name}", block.name) };
        Some((block.start + (*offset)?, name))
    })
}

/// Adds a kind's own entries to those of the similar kind.
fn on_top(mut base: KindTable, own: KindTable) -> KindTable {
    base.bytes = own.bytes.or(base.bytes);
    base.atomic_aliases |= own.atomic_aliases;
    base.undescribed |= own.undescribed;
    base.registers.extend(own.registers);
    base.clock.extend(own.clock);
    base.follow.extend(own.follow);
    base.on.extend(own.on);
    base.counter.extend(own.counter);
    base.port.extend(own.port);
    base.transfer.extend(own.transfer);
    base.flash.extend(own.flash);
    base.random.extend(own.random);
    base.divider.extend(own.divider);
    base.watchdog.extend(own.watchdog);
    base.interrupt.extend(own.interrupt);
    base.pins.extend(own.pins);
    base.edge.extend(own.edge);
    base.channel.extend(own.channel);
    base.request.extend(own.request);
    base.sampler.extend(own.sampler);
    base.connection.extend(own.connection);
    base.bus.extend(own.bus);
    base.array.extend(own.array);
    base.can.extend(own.can);
    base.filters = own.filters.or(base.filters);
    base.fed_by = own.fed_by.or(base.fed_by);
    base
}

impl Mask {
    fn bits(self) -> u32 {
        match self {
            Mask::All(true) => u32::MAX,
            Mask::All(false) => 0,
            Mask::Bits(bits) => bits,
        }
    }
}

/// Mask of a range of bits as `7:4`, or of one bit.
pub(super) fn mask(text: &str) -> Option<u32> {
    let (last, first) = text.split_once(':').unwrap_or((text, text));
    let (last, first): (u32, u32) = (last.trim().parse().ok()?, first.trim().parse().ok()?);
    (first <= last && last < 32).then(|| (u32::MAX >> (31 - last)) & (u32::MAX << first))
}

/// Replaces `{n}`, `{n+1}`, `{4n}`, `{4n+16}` by numbers, where n is the number of the repetition.
fn numbered(text: &str, number: u32) -> String {
    let mut all = String::new();
    let mut rest = text;
    while let Some((before, (within, behind))) =
        rest.split_once('{').and_then(|(before, behind)| Some((before, behind.split_once('}')?)))
    {
        all += before;
        let value = within.split_once('n').and_then(|(factor, addend)| {
            let factor: u32 = if factor.is_empty() { 1 } else { factor.parse().ok()? };
            let addend: u32 = if addend.is_empty() { 0 } else { addend.strip_prefix('+')?.parse().ok()? };
            number.checked_mul(factor)?.checked_add(addend)
        });
        all += &value.map_or_else(|| format!("{{{within}}}"), |value| value.to_string());
        rest = behind;
    }
    all + rest
}

/// Parses a setting: `FIELD=VALUE`, or a field alone, which is set to 1.
fn setting_of(draft: &Draft<'_>, source: &Origin<'_>, at: &Text, whole: &str) -> Result<Setting, InputError> {
    let (name, value) = whole.split_once('=').unwrap_or((whole, "1"));
    let field = draft.field(name.trim()).ok_or_else(|| no_field(source, draft, at, name.trim()))?;
    let value = value.trim();
    let digits = value.strip_prefix("0x").map(|digits| u32::from_str_radix(digits, 16));
    let value = digits.unwrap_or_else(|| value.parse());
    let value = value.ok().filter(|&value| field.of(field.put_in(0, value)) == value);
    let value = value.ok_or_else(|| source.at(at, format_args!("{whole}: that value does not fit the field")))?;
    Ok(Setting { field, value })
}

impl Draft<'_> {
    /// Adds the registers and their fields; references between registers are resolved later.
    fn registers(&mut self) -> Result<(), InputError> {
        let Some(kind) = &self.kind else { return Ok(()) };
        let mut resets = self.peripheral.reset.clone();
        // Sorted by offset, so that reports and tables have the chip's order.
        let mut tables: Vec<(&String, &Spanned<RegisterTable>)> = kind.table.registers.iter().collect();
        tables.sort_by_key(|(_, table)| table.get_ref().at.unwrap_or(u64::MAX));
        for (name, table) in tables {
            let register = table.get_ref();
            let count = register.count.unwrap_or(1);
            if count == 0 || count > MAX_REPEAT {
                return Err(kind.source.at(table, format_args!("{name}: count must be 1 to {MAX_REPEAT}")));
            }
            for (_, own, offset) in register.each(name) {
                if offset.is_some_and(|offset| offset % 4 != 0 || offset + 4 > self.block.bytes) {
                    let reason = format!("{own} lies at no word of the {} bytes", Hex(self.block.bytes));
                    return Err(kind.source.at(table, reason));
                }
                let twice =
                    self.block.registers.iter().find(|other| other.offset.is_some() && other.offset == offset);
                if let Some(other) = twice {
                    return Err(kind.source.at(table, format_args!("{own} lies where {} does", other.name)));
                }
                let index = self.block.registers.len() as u32;
                let mut add = |field: String, mask: u32| self.fields.insert(field, Field { register: index, mask });
                add(own.clone(), u32::MAX);
                for (field, bits) in &register.fields {
                    let bits = match bits {
                        Bits::Bit(bit) => mask(&bit.to_string()),
                        Bits::Range(range) => mask(range),
                    };
                    let reason = || format!("{own}.{field} is not a bit from 31 to 0, nor a range such as \"7:4\"");
                    add(format!("{own}.{field}"), bits.ok_or_else(|| kind.source.at(table, reason()))?);
                }
                self.block.registers.push(Register {
                    reset: resets.remove(&own).unwrap_or(register.reset),
                    name: own,
                    offset,
                    read_only: register.read_only.bits(),
                    one_clears: register.one_clears.bits(),
                    zero_clears: register.zero_clears.bits(),
                    read_clears: register.read_clears.bits(),
                    self_clearing: register.self_clearing.bits(),
                    write_resets: register.write_resets.bits(),
                    is_latched: register.latched,
                    ..Register::default()
                });
            }
        }
        if let Some((name, _)) = resets.first_key_value() {
            let reason = format!("{} has no register {name} to be reset to something", self.name);
            return Err(self.source.at(&self.peripheral.kind, reason));
        }
        Ok(())
    }

    /// Finds a field by its name: `CR.HSEON`, `CR[16]`, `CR[7:4]`, `CR`.
    fn field(&self, text: &str) -> Option<Field> {
        if let Some(field) = self.fields.get(text) {
            return Some(field.clone());
        }
        let (register, bits) = text.strip_suffix(']')?.split_once('[')?;
        let register = self.fields.get(register)?.register;
        Some(Field { register, mask: mask(bits)? })
    }
}

/// Clocks of a chip, before they have indices.
struct Clocks<'a> {
    /// All clocks by name; those of peripherals are named as `RCC.pll`.
    all: BTreeMap<String, Wanted<'a>>,
}

enum Wanted<'a> {
    /// The name of another clock, or a frequency.
    Source(&'a Origin<'a>, Spanned<ClockSource>),
    /// A clock of a peripheral, by its index among the drafts.
    Made(usize, ClockTable),
}

impl<'a> Clocks<'a> {
    fn collect(resolver: &Resolver<'a>, drafts: &[Draft<'a>]) -> Result<Clocks<'a>, InputError> {
        let mut all = BTreeMap::new();
        for (file, source) in resolver.files.iter().zip(resolver.sources).rev() {
            for (name, clock) in &file.clocks {
                all.insert(name.clone(), Wanted::Source(source, clock.clone()));
            }
        }
        for (index, draft) in drafts.iter().enumerate() {
            for (name, table) in draft.kind.iter().flat_map(|kind| &kind.table.clock) {
                all.insert(format!("{}.{name}", draft.name), Wanted::Made(index, table.get_ref().clone()));
            }
            // Counters and watchdogs may give their clock in Hz.
            let counters =
                draft.kind.iter().flat_map(|kind| kind.table.counter.iter().map(move |one| (kind, &one.clock)));
            let dogs =
                draft.kind.iter().flat_map(|kind| kind.table.watchdog.iter().map(move |one| (kind, &one.clock)));
            for (kind, clock) in counters.chain(dogs) {
                if let Some(clock) = clock
                    && let ClockSource::Hz(hz) = clock.get_ref()
                {
                    all.insert(hz.to_string(), Wanted::Source(kind.source, clock.clone()));
                }
            }
        }
        Ok(Clocks { all })
    }

    fn resolve(self, drafts: &[Draft<'a>]) -> Result<(BTreeMap<String, u32>, Vec<Clock>), InputError> {
        let indices: BTreeMap<String, u32> = self.all.keys().cloned().zip(0..).collect();
        let mut clocks = Vec::new();
        for (name, wanted) in &self.all {
            let source =
                |of: &Origin<'_>, prefix: &str, source: &Spanned<ClockSource>| -> Result<Source, InputError> {
                    match source.get_ref() {
                        ClockSource::Hz(hz) => Ok(Source { hz: *hz, clock: None }),
                        ClockSource::Clock(clock) => {
                            let found = indices.get(&format!("{prefix}{clock}")).or_else(|| indices.get(clock));
                            let found =
                                found.ok_or_else(|| of.at(source, format_args!("no clock is called {clock}")))?;
                            Ok(Source { hz: 0, clock: Some(*found) })
                        }
                    }
                };
            clocks.push(match wanted {
                Wanted::Source(of, one) => {
                    Clock { name: name.clone(), sources: vec![source(of, "", one)?], ..Clock::default() }
                }
                Wanted::Made(index, table) => {
                    let draft = &drafts[*index];
                    let Some(kind) = &draft.kind else { continue };
                    let prefix = format!("{}.", draft.name);
                    let sources = table.of.iter().map(|one| source(kind.source, &prefix, one));
                    let factors = |tables: &[FactorTable]| -> Result<Vec<Factor>, InputError> {
                        tables.iter().map(|table| factor(draft, kind.source, *index as u32, table)).collect()
                    };
                    Clock {
                        name: name.clone(),
                        sources: sources.collect::<Result<_, _>>()?,
                        select: factors(table.select.as_slice())?.pop(),
                        multiply: factors(&table.multiply)?,
                        divide: factors(&table.divide)?,
                    }
                }
            });
        }
        Ok((indices, clocks))
    }
}

fn factor(draft: &Draft<'_>, source: &Origin<'_>, block: u32, table: &FactorTable) -> Result<Factor, InputError> {
    let FactorTable { field, plus, map, power_of_2 } = table;
    let found = draft.field(field.get_ref()).ok_or_else(|| no_field(source, draft, field, field.get_ref()))?;
    Ok(Factor { block, field: found, plus: *plus, map: map.clone(), is_power: *power_of_2 })
}

fn no_field(source: &Origin<'_>, draft: &Draft<'_>, at: &Text, field: &str) -> InputError {
    let kind = draft.peripheral.kind.get_ref();
    source.at(at, format_args!("{kind} has no register or field {field} (write CR.NAME, CR[5], CR[7:4] or CR)"))
}

/// The rules of one peripheral.
pub(super) struct Rules<'a, 'b> {
    pub(super) draft: &'a Draft<'b>,
    pub(super) index: u32,
    clocks: &'a BTreeMap<String, u32>,
    memory: &'a [Memory],
    /// Peripherals of the similar chip that this chip lacks.
    without: &'a BTreeSet<&'a str>,
    /// All peripherals, in the order of their blocks.
    drafts: &'a [Draft<'b>],
}

impl<'a, 'b> Rules<'a, 'b> {
    /// The rules of this kind, with the registers of another peripheral.
    pub(super) fn of(&self, index: usize) -> Rules<'a, 'b> {
        Rules { draft: &self.drafts[index], index: index as u32, ..*self }
    }
}

impl Rules<'_, '_> {
    pub(super) fn source(&self) -> &Origin<'_> {
        self.draft.kind.as_ref().map_or(self.draft.source, |kind| kind.source)
    }

    pub(super) fn field_of(&self, text: &Text, number: u32) -> Result<Field, InputError> {
        let name = numbered(text.get_ref(), number);
        self.draft.field(&name).ok_or_else(|| no_field(self.source(), self.draft, text, &name))
    }

    pub(super) fn field(&self, text: &Text) -> Result<Field, InputError> {
        self.field_of(text, 0)
    }

    pub(super) fn optional(&self, text: &Option<Text>, number: u32) -> Result<Option<Field>, InputError> {
        text.as_ref().map(|text| self.field_of(text, number)).transpose()
    }

    fn all(&self, texts: &[Text]) -> Result<Vec<Field>, InputError> {
        texts.iter().map(|text| self.field(text)).collect()
    }

    /// Parses settings: `FIELD=VALUE`, or a field alone, which is set to 1.
    pub(super) fn settings(&self, texts: &[Text], number: u32) -> Result<Vec<Setting>, InputError> {
        let setting = |text: &Text| setting_of(self.draft, self.source(), text, &numbered(text.get_ref(), number));
        texts.iter().map(setting).collect()
    }

    pub(super) fn register(&self, text: &Text, number: u32) -> Result<u32, InputError> {
        let name = numbered(text.get_ref(), number);
        let found = self.draft.fields.get(&name).filter(|field| field.mask == u32::MAX);
        found.map(|field| field.register).ok_or_else(|| no_field(self.source(), self.draft, text, &name))
    }

    pub(super) fn clock(&self, own: Option<&Spanned<ClockSource>>) -> Result<u32, InputError> {
        let given = self.draft.peripheral.clock.as_ref();
        let missing = |name: &str| {
            let reason = format!("{}: no clock is called {name}", self.draft.name);
            given.map_or_else(
                || self.draft.source.at(&self.draft.peripheral.kind, &reason),
                |clock| self.draft.source.at(clock, &reason),
            )
        };
        let name = match own.map(Spanned::get_ref) {
            Some(ClockSource::Hz(hz)) => hz.to_string(),
            Some(ClockSource::Clock(clock)) => {
                let local = format!("{}.{clock}", self.draft.name);
                if self.clocks.contains_key(&local) { local } else { clock.clone() }
            }
            None => match given {
                Some(clock) => clock.get_ref().clone(),
                None => {
                    let reason = format!("{} does not say the `clock` that it counts", self.draft.name);
                    return Err(self.draft.source.at(&self.draft.peripheral.kind, reason));
                }
            },
        };
        self.clocks.get(&name).copied().ok_or_else(|| missing(&name))
    }

    pub(super) fn factors(&self, tables: &[FactorTable]) -> Result<Vec<Factor>, InputError> {
        tables.iter().map(|table| factor(self.draft, self.source(), self.index, table)).collect()
    }

    pub(super) fn repeats(&self, repeat: Option<u32>, at: &Text) -> Result<std::ops::Range<u32>, InputError> {
        let count = repeat.unwrap_or(1);
        if count == 0 || count > MAX_REPEAT {
            return Err(self.source().at(at, format_args!("repeat must be 1 to {MAX_REPEAT}")));
        }
        Ok(0..count)
    }

    fn resolve(&self) -> Result<Block, InputError> {
        let mut block = self.draft.block.clone();
        let Some(kind) = &self.draft.kind else { return Ok(block) };
        let kind = &kind.table;
        self.registers(kind, &mut block)?;
        self.bytes(&mut block)?;
        for rule in &kind.follow {
            for number in self.repeats(rule.repeat, &rule.bits)? {
                let (target, source) = (self.field_of(&rule.bits, number)?, self.field_of(&rule.of, number)?);
                block.follows.push(Follow {
                    target,
                    source,
                    after_insns: rule.after,
                    is_inverted: rule.inverted,
                    is_idle: rule.idle,
                });
            }
        }
        self.triggers(kind, &mut block)?;
        for counter in &kind.counter {
            block.counters.push(self.counter(counter)?);
        }
        for port in &kind.port {
            block.ports.push(Port {
                send: self.optional(&port.send, 0)?,
                sending: self.all(&port.sending)?,
                receive: self.optional(&port.receive, 0)?,
                received: self.settings(&port.received, 0)?,
                receiving: self.all(&port.receiving)?,
                empty: self.settings(&port.empty, 0)?,
                idle: self.settings(&port.idle, 0)?,
            });
        }
        for transfer in &kind.transfer {
            block.transfers.push(Transfer {
                is_receive: transfer.direction == Direction::Receive,
                start: self.field(&transfer.start)?,
                stop: self.optional(&transfer.stop, 0)?,
                pointer: self.field(&transfer.pointer)?,
                count: self.field(&transfer.count)?,
                amount: self.optional(&transfer.amount, 0)?,
                set: self.settings(&transfer.set, 0)?,
                stopped: self.settings(&transfer.stopped, 0)?,
                byte: self.settings(&transfer.byte, 0)?,
            });
        }
        for random in &kind.random {
            block.randoms.push(Random { value: self.field(random)? });
        }
        for divider in &kind.divider {
            block.dividers.push(Divider {
                dividend: self.register(&divider.dividend, 0)?,
                divisor: self.register(&divider.divisor, 0)?,
                quotient: self.register(&divider.quotient, 0)?,
                remainder: self.register(&divider.remainder, 0)?,
                is_signed: divider.signed,
            });
        }
        for watchdog in &kind.watchdog {
            block.watchdogs.push(Watchdog {
                running: self.settings(&watchdog.running, 0)?,
                clock: self.clock(watchdog.clock.as_ref())?,
                divide: self.factors(&watchdog.divide)?,
                reload: self.field(&watchdog.reload)?,
                feed: self.settings(&watchdog.feed, 0)?,
            });
        }
        self.flashes(kind, &mut block)?;
        self.interrupts(kind, &mut block)?;
        self.outward(kind, &mut block)?;
        block.fed_by = self.optional(&kind.fed_by, 0)?;
        Ok(block)
    }

    /// Adds pins, channels and buses.
    fn outward(&self, kind: &KindTable, block: &mut Block) -> Result<(), InputError> {
        for pins in &kind.pins {
            let modes = |modes: &[u32]| modes.iter().filter(|&&mode| mode < 32).fold(0, |all, mode| all | 1 << mode);
            let registers =
                |texts: &[Text]| texts.iter().map(|text| self.register(text, 0)).collect::<Result<_, _>>();
            if let Some(at) = pins.pulls.first().filter(|_| !matches!(pins.pull_bits, 1 | 2 | 4)) {
                return Err(self.source().at(at, "`pulls` needs `pull-bits` of 1, 2 or 4"));
            }
            block.pins.push(Pins {
                level: self.field(&pins.level)?,
                driven: self.field(&pins.driven)?,
                outside: self.field(&pins.outside)?,
                modes: registers(&pins.modes)?,
                mode_bits: pins.mode_bits,
                outputs: modes(&pins.outputs),
                pulled: self.optional(&pins.pulled, 0)?,
                pulls: registers(&pins.pulls)?,
                pull_bits: pins.pull_bits,
                pull_ups: modes(&pins.pull_ups),
                connected: self.optional(&pins.connected, 0)?,
            });
        }
        for edge in &kind.edge {
            for number in self.repeats(edge.repeat, &edge.pin)? {
                block.edges.push(self.edge(edge, number)?);
            }
        }
        for channel in &kind.channel {
            for number in self.repeats(channel.repeat, &channel.count)? {
                block.channels.push(self.channel(channel, number)?);
            }
        }
        self.analog(kind, block)?;
        for request in &kind.request {
            let (text, is_read) = match (&request.read, &request.write) {
                (Some(text), None) => (text, true),
                (None, Some(text)) => (text, false),
                _ => {
                    let at = request.when.first().map_or(0, |text| text.span().start);
                    return Err(self.source().error(at, "[[request]] needs `read` or `write`, and not both"));
                }
            };
            let register = self.register(text, 0)?;
            block.requests.push(Request { register, is_read, when: self.settings(&request.when, 0)? });
        }
        for bus in &kind.bus {
            block.buses.push(Bus {
                when: self.settings(&bus.when, 0)?,
                send: self.field(&bus.send)?,
                receive: self.field(&bus.receive)?,
                address: self.optional(&bus.address, 0)?,
                begin: self.optional(&bus.begin, 0)?,
                count: self.optional(&bus.count, 0)?,
                reload: self.optional(&bus.reload, 0)?,
                addresses: self.settings(&bus.addresses, 0)?,
                reads: self.optional(&bus.reads, 0)?,
                writing: self.settings(&bus.writing, 0)?,
                reading: self.settings(&bus.reading, 0)?,
                absent: self.settings(&bus.absent, 0)?,
                wanted: self.settings(&bus.wanted, 0)?,
                offered: self.settings(&bus.offered, 0)?,
                ends: bus
                    .ends
                    .iter()
                    .map(|end| Ok(BusEnd { when: self.settings(&end.when, 0)?, set: self.settings(&end.set, 0)? }))
                    .collect::<Result<_, InputError>>()?,
            });
        }
        for array in &kind.array {
            block.arrays.push(self.array(array)?);
        }
        self.cans(kind, block)?;
        self.devices(kind, block)
    }

    /// Adds the devices on the peripheral's bus.
    fn devices(&self, kind: &KindTable, block: &mut Block) -> Result<(), InputError> {
        let Draft { name, source, peripheral, .. } = self.draft;
        if !peripheral.devices.is_empty() && kind.bus.is_empty() {
            return Err(source.at(&peripheral.kind, format_args!("{name}: its kind has no bus for `devices`")));
        }
        let has_addresses = kind.bus.iter().any(|bus| bus.address.is_some());
        for device in &peripheral.devices {
            let wrong = |what: &str| source.at(&peripheral.kind, format_args!("{name}: a device {what}"));
            let device = device.resolve(has_addresses).map_err(|what| wrong(&what))?;
            if has_addresses && block.devices.iter().any(|other| other.address == device.address) {
                return Err(wrong(&format!("has the address of another one, {}", Hex(device.address.into()))));
            }
            block.devices.push(device);
        }
        Ok(())
    }

    /// Adds a memory that the block's registers reach.
    fn array(&self, array: &ArrayTable) -> Result<Array, InputError> {
        let bytes = *array.bytes.get_ref();
        if !(1..=MAX_ARRAY_BYTES).contains(&bytes) {
            let reason = format!("an array has 1 to {MAX_ARRAY_BYTES} bytes");
            return Err(self.source().at(&array.bytes, reason));
        }
        Ok(Array {
            bytes,
            reset: array.reset.into(),
            in_file: array.in_file,
            contents: Vec::new(),
            address: self.field(&array.address)?,
            value: self.field(&array.value)?,
            read: self.optional(&array.read, 0)?,
            write: self.optional(&array.write, 0)?,
            program: self.optional(&array.program, 0)?,
            erase: self.optional(&array.erase, 0)?,
        })
    }

    /// Index of a peripheral that another peripheral names.
    pub(super) fn other(&self, text: &Text) -> Result<usize, InputError> {
        let Draft { name, source, .. } = self.draft;
        let found = self.drafts.iter().position(|draft| &draft.name == text.get_ref() && draft.kind.is_some());
        let removed = if self.without.contains(text.get_ref().as_str()) {
            format!(" (`without` removes it; {name} needs it, so remove that, too)")
        } else {
            String::new()
        };
        let missing = || format!("{name}: no peripheral is called {}{removed}", text.get_ref());
        found.ok_or_else(|| source.at(text, missing()))
    }

    fn edge(&self, edge: &EdgeTable, number: u32) -> Result<Edge, InputError> {
        let peripheral = &self.draft.peripheral;
        let ports = peripheral.ports.iter().map(|text| {
            let is_absent = self.without.contains(text.get_ref().as_str());
            let index = if is_absent { None } else { Some(self.other(text)? as u32) };
            Ok::<_, InputError>(index)
        });
        let chooser = peripheral.ports_by.as_ref().map(|text| self.other(text)).transpose()?;
        let port = edge.port.as_ref().map(|text| {
            let index = chooser.map_or(self.index, |index| index as u32);
            let draft = &self.drafts[index as usize];
            let name = numbered(text.get_ref(), number);
            let field = draft.field(&name).ok_or_else(|| no_field(self.source(), draft, text, &name))?;
            Ok::<_, InputError>(Factor { block: index, field, ..Factor::default() })
        });
        let pin = numbered(edge.pin.get_ref(), number);
        let pin_field = if pin.parse::<u32>().is_ok() { None } else { Some(self.field_of(&edge.pin, number)?) };
        Ok(Edge {
            ports: ports.collect::<Result<_, _>>()?,
            port: port.transpose()?,
            pin: pin.parse().unwrap_or(0),
            pin_field,
            when: self.settings(&edge.when, number)?,
            rising: self.field_of(&edge.rising, number)?,
            falling: self.field_of(&edge.falling, number)?,
            set: self.settings(&edge.set, number)?,
        })
    }

    fn channel(&self, channel: &ChannelTable, number: u32) -> Result<Channel, InputError> {
        let end = |end: &ChannelEndTable| -> Result<ChannelEnd, InputError> {
            let FactorTable { field, plus, map, power_of_2 } = &end.item;
            let field = self.field_of(field, number)?;
            Ok(ChannelEnd {
                address: self.field_of(&end.address, number)?,
                item: Factor { block: self.index, field, plus: *plus, map: map.clone(), is_power: *power_of_2 },
                steps: self.field_of(&end.steps, number)?,
            })
        };
        Ok(Channel {
            running: self.settings(&channel.running, number)?,
            count: self.field_of(&channel.count, number)?,
            ends: vec![end(&channel.from)?, end(&channel.to)?],
            reversed: self.settings(&channel.reversed, number)?,
            free: self.settings(&channel.free, number)?,
            circular: self.optional(&channel.circular, number)?,
            half: self.settings(&channel.half, number)?,
            set: self.settings(&channel.set, number)?,
            failed: self.settings(&channel.failed, number)?,
            chain: self.optional(&channel.chain, number)?,
            begin: self.settings(&channel.begin, number)?,
            advances: channel.advances,
        })
    }

    /// Adds converters of analog inputs, and connections of events with tasks.
    fn analog(&self, kind: &KindTable, block: &mut Block) -> Result<(), InputError> {
        for sampler in &kind.sampler {
            block.samplers.push(Sampler {
                start: self.field(&sampler.start)?,
                running: self.settings(&sampler.running, 0)?,
                selects: self.all(&sampler.selects)?,
                inputs: self.all(&sampler.inputs)?,
                pointer: self.field(&sampler.pointer)?,
                count: self.field(&sampler.count)?,
                amount: self.field(&sampler.amount)?,
                done: self.settings(&sampler.done, 0)?,
                full: self.settings(&sampler.full, 0)?,
            });
        }
        for connection in &kind.connection {
            for number in self.repeats(connection.repeat, &connection.enabled)? {
                let tasks = connection.tasks.iter().map(|text| self.field_of(text, number));
                block.connections.push(Connection {
                    enabled: self.field_of(&connection.enabled, number)?,
                    event: self.field_of(&connection.event, number)?,
                    tasks: tasks.collect::<Result<_, _>>()?,
                });
            }
        }
        Ok(())
    }

    /// Parses a field that is copied: `TO=FROM`.
    fn copied(&self, text: &Text, number: u32) -> Result<Copied, InputError> {
        let whole = numbered(text.get_ref(), number);
        let (to, from) = whole.split_once('=').unwrap_or((&whole, ""));
        let field = |name: &str| {
            let found = self.draft.field(name.trim());
            found.ok_or_else(|| no_field(self.source(), self.draft, text, name.trim()))
        };
        Ok(Copied { to: field(to)?, from: field(from)? })
    }

    /// Adds the effects of registers on other registers.
    fn registers(&self, kind: &KindTable, block: &mut Block) -> Result<(), InputError> {
        for (name, table) in &kind.registers {
            let table = table.get_ref();
            for (number, own, _) in table.each(name) {
                let index = self.draft.fields[&own].register as usize;
                let other = |text: &Option<Text>| text.as_ref().map(|text| self.register(text, number)).transpose();
                let register = &mut block.registers[index];
                register.sets = other(&table.sets)?;
                register.clears = other(&table.clears)?;
                register.toggles = other(&table.toggles)?;
                register.upper_clears = other(&table.upper_clears)?;
                register.reads = other(&table.reads)?;
                register.all_of =
                    table.all_of.iter().map(|text| self.register(text, number)).collect::<Result<_, _>>()?;
            }
        }
        Ok(())
    }

    /// Adds the rules of `[[on]]`.
    fn triggers(&self, kind: &KindTable, block: &mut Block) -> Result<(), InputError> {
        for rule in &kind.on {
            let (text, is_read) = match (&rule.write, &rule.read) {
                (Some(text), None) => (text, false),
                (None, Some(text)) => (text, true),
                _ => {
                    let at = rule.set.iter().chain(&rule.copy).next().map_or(0, |text| text.span().start);
                    return Err(self.source().error(at, "[[on]] needs `write` or `read`, and not both"));
                }
            };
            for number in self.repeats(rule.repeat, text)? {
                block.triggers.push(Trigger {
                    field: self.field_of(text, number)?,
                    value: rule.value,
                    by_any: rule.any,
                    is_read,
                    when: self.settings(&rule.when, number)?,
                    after_insns: rule.after,
                    copies: rule.copy.iter().map(|text| self.copied(text, number)).collect::<Result<_, _>>()?,
                    set: self.settings(&rule.set, number)?,
                });
            }
        }
        Ok(())
    }

    fn counter(&self, counter: &CounterTable) -> Result<Counter, InputError> {
        let mut compares = Vec::new();
        for compare in &counter.compare {
            for number in self.repeats(compare.repeat, &compare.value)? {
                compares.push(Compare {
                    value: self.field_of(&compare.value, number)?,
                    enabled: self.optional(&compare.enabled, number)?,
                    set: self.settings(&compare.set, number)?,
                    is_late: compare.late,
                    clears: self.optional(&compare.clears, number)?,
                    stops: self.optional(&compare.stops, number)?,
                    capture: self.optional(&compare.capture, number)?,
                });
            }
        }
        Ok(Counter {
            value: self.optional(&counter.value, 0)?,
            upper: self.optional(&counter.upper, 0)?,
            running: self.all(&counter.running)?,
            clock: self.clock(counter.clock.as_ref())?,
            divide: self.factors(&counter.divide)?,
            reload: self.optional(&counter.reload, 0)?,
            bits: counter.bits,
            width: self.factors(counter.width.as_slice())?.pop(),
            clear: self.optional(&counter.clear, 0)?,
            counts_down: counter.down,
            two_way: self.optional(&counter.two_way, 0)?,
            overflow: self.settings(&counter.overflow, 0)?,
            once: self.optional(&counter.once, 0)?,
            compares,
        })
    }

    fn flashes(&self, kind: &KindTable, block: &mut Block) -> Result<(), InputError> {
        for flash in &kind.flash {
            let Draft { name, source, peripheral, .. } = self.draft;
            let (of, source) = match (&flash.memory, &peripheral.flash) {
                (Some(of), _) => (of, self.source()),
                (None, Some(of)) => (of, *source),
                (None, None) => {
                    let reason = format!("{name} does not say the `flash` that it writes");
                    return Err(source.at(&peripheral.kind, reason));
                }
            };
            let memory = self
                .memory
                .iter()
                .position(|memory| &memory.name == of.get_ref() && memory.is_flash && memory.alias_of.is_none());
            let memory = memory.ok_or_else(|| source.at(of, format_args!("no flash is called {}", of.get_ref())))?;
            let mut erases = Vec::new();
            for erase in &flash.erase {
                let page = erase.page.as_ref().or(erase.address.as_ref());
                erases.push(Erase {
                    start: self.field(&erase.start)?,
                    by_any: erase.by_any,
                    when: self.settings(&erase.when, 0)?,
                    page: page.map(|page| self.field(page)).transpose()?,
                    is_address: erase.address.is_some(),
                    page_bytes: erase.page_bytes.clone(),
                    set: self.settings(&erase.set, 0)?,
                });
            }
            block.flashes.push(Flash {
                memory: memory as u32,
                programs: self.settings(&flash.programs, 0)?,
                programmed: self.settings(&flash.programmed, 0)?,
                erases,
            });
        }
        Ok(())
    }

    /// Adds the bytes of an AVR's data space that are registers.
    fn bytes(&self, block: &mut Block) -> Result<(), InputError> {
        let Draft { name, source, peripheral, .. } = self.draft;
        for (register, bytes) in &peripheral.bytes {
            let offset = block.registers.iter().find(|one| &one.name == register).and_then(|one| one.offset);
            let reason = || format!("{name} has no register {register} to be a byte of the data space");
            let offset = offset.ok_or_else(|| source.at(&peripheral.kind, reason()))?;
            let bytes = (offset..).zip(bytes.each());
            block
                .bytes_at
                .extend(bytes.map(|(offset, address)| ByteAt { address: AVR_DATA.start + address, offset }));
        }
        Ok(())
    }

    /// Adds the kind's interrupts for which the chip has a line.
    fn interrupts(&self, kind: &KindTable, block: &mut Block) -> Result<(), InputError> {
        let Draft { name, source, peripheral, .. } = self.draft;
        let mut lines = peripheral.interrupts.clone();
        for interrupt in &kind.interrupt {
            let line = match &interrupt.name {
                Some(name) => lines.remove(name),
                None => peripheral.interrupt,
            };
            let Some(line) = line else { continue };
            let mut causes = Vec::new();
            for cause in &interrupt.causes {
                for number in self.repeats(cause.repeat, &cause.status)? {
                    causes.push(Cause {
                        status: self.field_of(&cause.status, number)?,
                        enable: self.optional(&cause.enable, number)?,
                        is_inverted: cause.inverted,
                    });
                }
            }
            let taken = self.settings(&interrupt.taken, 0)?;
            block.interrupts.push(Interrupt { line, causes, taken });
        }
        let own = kind.interrupt.iter().any(|interrupt| interrupt.name.is_none());
        let left = lines.keys().next().cloned().or((peripheral.interrupt.is_some() && !own).then(String::new));
        left.map_or(Ok(()), |left| {
            let which =
                if left.is_empty() { "interrupt without a name".to_owned() } else { format!("interrupt {left}") };
            Err(source.at(&peripheral.kind, format_args!("{name}: its kind has no {which}")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
[chip]
cpu = "cortex-m3"
hz = 8_000_000
[clocks]
osc = 8_000_000
[[memory]]
name = "flash"
kind = "flash"
start = 0x08000000
bytes = 0x10000
[[memory]]
name = "RAM"
start = 0x20000000
bytes = 0x2000
[peripherals]
T = { at = 0x40000000, kind = "mine", interrupt = 5, clock = "osc" }
[[undescribed]]
name = "APB"
start = 0x40000000
bytes = 0x2000
[kind.mine]
bytes = 0x400
[kind.mine.registers]
CR = { at = 0, fields = { EN = 0, IE = 1 } }
SR = { at = 4, zero-clears = true }
RR = { at = 8, reset = 99 }
CC = { at = 0x10, count = 2, stride = 8 }
[[kind.mine.counter]]
running = ["CR.EN"]
reload = "RR"
overflow = ["SR[0]"]
compare = [{ value = "CC{n}", set = ["SR[{n+1}]=1"], repeat = 2 }]
[[kind.mine.interrupt]]
causes = [{ status = "SR[2:0]", enable = "CR.IE" }]
"#;

    fn resolved(text: &str) -> Result<Chip, InputError> {
        chip("small", "small.toml", text, None)
    }

    #[test]
    fn names_become_indices_and_repetitions_are_written_out() {
        let chip = resolved(SMALL).unwrap();
        let blocks: Vec<_> = chip.wire.blocks.iter().map(|block| (&*block.name, block.start, block.bytes)).collect();
        assert_eq!(
            blocks,
            [("T", 0x4000_0000, 0x400), ("APB", 0x4000_0400, 0x1c00)],
            "what is undescribed is filled up"
        );
        let block = &chip.wire.blocks[0];
        let offsets: Vec<_> = block.registers.iter().map(|one| (&*one.name, one.offset)).collect();
        let wanted = [("CR", Some(0)), ("SR", Some(4)), ("RR", Some(8)), ("CC0", Some(0x10)), ("CC1", Some(0x18))];
        assert_eq!(offsets, wanted);
        let compares = &block.counters[0].compares;
        assert_eq!(compares.len(), 2);
        assert_eq!(compares[1].value, Field { register: 4, mask: u32::MAX });
        assert_eq!(compares[1].set, [Setting { field: Field { register: 1, mask: 4 }, value: 1 }]);
        assert_eq!(block.interrupts[0].line, 5);
        assert_eq!(block.interrupts[0].causes[0].status, Field { register: 1, mask: 7 });
        assert_eq!(chip.name_of(0x4000_0018).as_deref(), Some("T.CC1"));
        assert_eq!(chip.name_of(0x4000_0404).as_deref(), Some("APB at 0x40000404"));
    }

    #[test]
    fn the_hash_is_that_of_what_is_asked_for() {
        let hash = |text: &str| resolved(text).unwrap().sha256;
        assert_eq!(hash(SMALL), hash(&format!("# A comment.\n{SMALL}")));
        assert_eq!(hash(SMALL), chip("other", "other.toml", SMALL, None).unwrap().sha256, "whatever it is called");
        assert_ne!(hash(SMALL), hash(&SMALL.replace("reset = 99", "reset = 98")));
    }

    #[test]
    fn what_cannot_be_meant_is_said_with_its_line() {
        let cases = [
            ("hz = 8_000_000", "hx = 8_000_000", "small.toml:4: unknown field `hx`"),
            ("hz = 8_000_000", "", "small.toml:1: [chip] lacks `hz`"),
            ("cortex-m3", "cortex-m99", "small.toml:3: no processor cortex-m99"),
            ("start = 0x20000000", "start = 0x08008000", "small.toml:12: RAM at 0x08008000 overlaps flash"),
            ("at = 0x40000000", "at = 0x20001000", "small.toml:17: T at 0x20001000 overlaps RAM"),
            ("kind = \"mine\"", "kind = \"mime\"", "small.toml:17: no kind is called mime; mine is"),
            ("clock = \"osc\"", "clock = \"xtal\"", "small.toml:17: T: no clock is called xtal"),
            ("[\"SR[0]\"]", "[\"SX[0]\"]", "small.toml:32: mine has no register or field SX[0]"),
            ("[\"SR[0]\"]", "[\"SR[0]=2\"]", "small.toml:32: SR[0]=2: that value does not fit the field"),
            ("EN = 0", "EN = 32", "small.toml:25: CR.EN is not a bit from 31 to 0"),
            ("RR = { at = 8", "RR = { at = 4", "small.toml:26: SR lies where RR does"),
            ("interrupt = 5, ", "interrupts = { tick = 5 }, ", "small.toml:17: T: its kind has no interrupt tick"),
            ("bytes = 0x2000\n[p", "bytes = 0x2001\n[p", "small.toml:12: memory RAM is not a whole number of KiB"),
            (
                "bytes = 0x400\n",
                "bytes = 0x300\natomic-aliases = true\n",
                "small.toml:17: T has atomic-aliases, but its 0x300 bytes are no power of two from 16 on",
            ),
            ("repeat = 2", "repeat = 5000", "small.toml:33: repeat must be 1 to 1024"),
        ];
        for (from, to, wanted) in cases {
            assert!(SMALL.contains(from), "{from}");
            let error = resolved(&SMALL.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{to}: {error}, not {wanted}");
        }
    }

    #[test]
    fn a_rule_is_repeated_with_numbers() {
        let text = "CR{n}[{4n+3}:{4n}] P{n+1} {x} {n";
        assert_eq!(numbered(text, 2), "CR2[11:8] P3 {x} {n");
    }

    #[test]
    fn what_comes_from_outside_is_resolved_or_refused_with_its_line() {
        let file = |row: &str| format!("[chip]\nlike = \"stm32f407\"\n{row}");
        let row =
            "[[stimulus]]\nat = 500\nset = [\"GPIOC.PIN[13]=1\"]\n[[stimulus]]\nat = 400\nset = [\"ADC1.CH3=7\"]\n";
        let chip = resolved(&file(row)).unwrap().wire;
        let block = |index: usize| &*chip.blocks[chip.stimuli[index].block as usize].name;
        assert_eq!((block(0), block(1), chip.stimuli[1].at_insns), ("ADC1", "GPIOC", 500));
        assert_eq!((chip.stimuli[1].set[0].field.mask, chip.stimuli[1].set[0].value), (1 << 13, 1));
        let of = |name: &str| chip.blocks.iter().find(|block| block.name == name).unwrap();
        let line_13 = of("EXTI").edges.iter().find(|edge| edge.pin == 13).unwrap();
        let port = line_13.port.clone().unwrap();
        assert_eq!((&*chip.blocks[port.block as usize].name, port.field.mask), ("SYSCFG", 0xf0));
        assert_eq!(of("DMA2").channels.len(), 8);
        let cases = [
            (
                "[[stimulus]]\nat = 1\nset = [\"GPIOX.PIN[1]=1\"]\n",
                "small.toml:5: no peripheral is called GPIOX (write GPIOA.PIN[0]=1)",
            ),
            (
                "[[stimulus]]\nat = 1\nset = [\"GPIOA.PIN[1]=2\"]\n",
                "small.toml:5: GPIOA.PIN[1]=2: that value does not fit",
            ),
            ("[[stimulus]]\nat = 1\nset = [\"GPIOA.PAN=2\"]\n", "small.toml:5: GPIOA has no register or field PAN"),
            (
                "[peripherals]\nX = { at = 0x40015000, kind = \"stm32-gpio\", devices = [{ bytes = [1] }] }\n",
                "small.toml:4: X: its kind has no bus",
            ),
            (
                "[peripherals]\nEXTI = { at = 0x40013c00, kind = \"stm32-exti\", ports = [\"GPIOX\"] }\n",
                "small.toml:4: EXTI: no peripheral is called GPIOX",
            ),
        ];
        for (row, wanted) in cases {
            let error = resolved(&file(row)).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{error}, not {wanted}");
        }
    }

    #[test]
    fn bytes_of_the_data_space_are_for_avr_and_each_is_one_register() {
        let uno = |rest: &str| resolved(&format!("[chip]\nlike = \"atmega328p\"\n{rest}"));
        let port = |bytes: &str| {
            uno(&format!(
                "[peripherals]\nP = {{ at = 0x2000000, kind = \"avr-adc\", clock = \"io\", bytes = {{ {bytes} }} }}"
            ))
        };
        let chip = port("ADMUX = 0x99").unwrap().wire;
        let bytes: Vec<_> = chip.blocks.iter().find(|block| block.name == "P").unwrap().bytes_at.clone();
        assert_eq!(bytes, [ByteAt { address: 0x80_0099, offset: 0x10 }]);
        let chip = port("ADMUX = [0x99, 0x9c]").unwrap().wire;
        let bytes: Vec<_> = chip.blocks.iter().find(|block| block.name == "P").unwrap().bytes_at.clone();
        let byte = |address, offset| ByteAt { address, offset };
        assert_eq!(bytes, [byte(0x80_0099, 0x10), byte(0x80_009c, 0x11)]);
        let on_arm = SMALL.replace("interrupt = 5,", "bytes = { CR = 0x44 },");
        let cases = [
            (port("ADMUX = 0x44"), "P.ADMUX lies at 0x00000044 where TC0.TCCRA does"),
            (port("ADMUX = [0x99, 0x44]"), "P.ADMUX lies at 0x00000044 where TC0.TCCRA does"),
            (port("ADMUX = 0x10000"), "P.ADMUX at 0x00010000 lies outside of the data space"),
            (port("MUX = 0x99"), "P has no register MUX"),
            (port("ADMUX = [1, 2, 3]"), "a register's bytes are at one address, or at two as [LOW, HIGH]"),
            (uno("interrupts = 65"), "interrupts must be 1 to 64"),
            (uno("[[stimulus]]\nat = 1\nset = [\"GPIOA.PIN[1]=1\"]"), "is called GPIOA (write PORTB.PIN[0]=1)"),
            (uno("[[memory]]\nname = \"RAM\"\nstart = 0\nbytes = 1024"), "leave [[memory]] out"),
            (resolved(&on_arm), "T.CR: `bytes` are for AVR"),
        ];
        for (result, reason) in cases {
            let error = result.unwrap_err().to_string();
            assert!(error.starts_with("small.toml:") && error.contains(reason), "{error}");
        }
    }

    #[test]
    fn registers_of_the_processors_own_are_for_risc_v_which_has_no_lines() {
        let riscv = |rest: &str| resolved(&format!("[chip]\nlike = \"gd32vf103\"\n{rest}"));
        let wire = riscv("[csr.mtvt]\nnumber = 0x307\nreset = 5").unwrap().wire;
        let own = wire.riscv.unwrap();
        let csr = |number| own.csrs.iter().find(|csr| csr.number == number).cloned();
        assert_eq!(csr(0x307), Some(Csr { number: 0x307, reset: 5, has_cycles: false }), "the nearest file's");
        assert_eq!((own.hz, csr(0x7d0).map(|csr| csr.reset), csr(0x308)), (108_000_000, Some(0), None));
        let on_arm = format!("{SMALL}\n[csr.x]\nnumber = 1");
        let cases = [
            (riscv("[csr.x]\nnumber = 0x1000"), "`number` must be below 0x1000"),
            (riscv("interrupts = 5"), "a rv32imac has no lines"),
            (resolved(&on_arm), "only RISC-V has control and status registers, not a cortex-m3"),
        ];
        for (result, reason) in cases {
            let error = result.unwrap_err().to_string();
            assert!(error.starts_with("small.toml:") && error.contains(reason), "{error}");
        }
        // What lies above 0xe0000000 is the processor's own on a Cortex-M alone.
        let high = "[peripherals]\nP = { at = 0xe0000000, kind = \"pfic\" }";
        assert!(riscv(high).is_ok() && resolved(&format!("{SMALL}\n{high}")).is_err());
    }

    #[test]
    fn a_chip_may_be_like_another_one_and_have_kinds_of_its_own() {
        let text = r#"
[chip]
like = "stm32f407"
without = ["USART6", "RNG"]
[peripherals]
RNG2 = { at = 0x50060800, kind = "mine" }
[kind.mine]
like = "stm32-rng"
[kind.mine.registers]
EXTRA = { at = 0x10, reset = 5 }
"#;
        let (chip, base) = (resolved(text).unwrap(), crate::chip::find("stm32f407").unwrap());
        assert_eq!((chip.hz, chip.wire.lines, &chip.wire.memory), (base.hz, base.wire.lines, &base.wire.memory));
        let has = |chip: &Chip, name: &str| chip.wire.blocks.iter().any(|block| block.name == name);
        assert!(has(&base, "USART6") && !has(&chip, "USART6") && has(&chip, "RNG2"));
        assert_eq!(chip.name_of(0x5006_0810).as_deref(), Some("RNG2.EXTRA"));
        assert_eq!(chip.name_of(0x5006_0800).as_deref(), Some("RNG2.CR"), "of the kind that it is like");
        let circle = text.replace("like = \"stm32-rng\"", "like = \"mine\"");
        assert!(resolved(&circle).unwrap_err().to_string().contains("in a circle"));
        let error = resolved(&text.replace("\"RNG\"]", "\"GNR\"]")).unwrap_err().to_string();
        assert!(error.starts_with("small.toml:4: the chip that it is like has no GNR"), "{error}");
    }
}
