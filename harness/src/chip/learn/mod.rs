// SPDX-License-Identifier: MIT OR Apache-2.0
//! A chip without a description, learned from firmware that runs on it.
//!
//! A [`Draft`] is the chip file in the making: memory from the image, then the parts that each run lacked.
//! `crate::learn` makes the runs; this module only evaluates them.

mod answer;
mod thumb;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use wire::chip::Polled;

pub use answer::{Poll, Verdict, Wanted};

use crate::chip::base::bit_alias;
use crate::chip::svd::{Svd, Word};
use crate::chip::{Chip, resolve};
use crate::error::InputError;
use crate::image::{Arch, ArmLevel, Fpu, Image, VECTOR_TABLE_ALIGN, VectorTable};

/// Frequency of a chip with unknown clocks, in Hz: an instruction takes 16 ns, which a `--shift` can express.
const HZ: u64 = 62_500_000;

/// Bits of an interrupt's priority, unless an SVD says otherwise.
const PRIORITY_BITS: u32 = 4;

/// Address at which the base machine's Cortex-M33 looks for its vector table.
const SECURE_VECTORS: u64 = 0x1000_0000;

/// Granule, in bytes, of memory that is assumed from the image and from the firmware's accesses.
const GRANULE: u64 = 0x1_0000;

/// Granule, in bytes, of memory apart from the image's, such as factory settings.
const SMALL_GRANULE: u64 = 0x1000;

/// Distance in bytes below which two ranges are one memory.
const GAP: u64 = 1 << 20;

/// Addresses of code; RAM and peripherals follow (Armv7-M ARM, B3.1).
const CODE: Range<u64> = 0..0x2000_0000;
const RAM: Range<u64> = 0x2000_0000..0x4000_0000;
const PERIPHERALS: Range<u64> = 0x4000_0000..0x6000_0000;
const EXTERNAL_RAM: Range<u64> = 0x6000_0000..0xa000_0000;
const EXTERNAL_DEVICES: Range<u64> = 0xa000_0000..0xe000_0000;

/// Addresses of the chip's identification, after the processor's own registers (Armv7-M ARM, B3.1: vendor_SYS).
const VENDOR: Range<u64> = 0xf000_0000..0xf000_1000;

/// Addresses to which null pointers lead.
const NULL: Range<u64> = 0..0x1000;

/// Most stretches of memory and registers.
const MAX_STRETCHES: usize = 48;

/// Largest gap, in bytes, below the first segment that still belongs to the flash.
const MAX_BELOW: u64 = 1 << 20;

/// Addresses of a first stack. The lowest RAM is that of the LPC15xx and the LPC541xx.
const STACKS: Range<u64> = 0x0200_0000..0x4000_0000;

/// Bytes from the start of the image within which a vector table is searched for.
const TABLE_BEHIND: u64 = 0x1000;

/// A stretch of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stretch {
    range: Range<u64>,
    kind: Kind,
    /// Reason why the stretch is there.
    why: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Flash,
    Ram,
    Registers,
}

/// An answer with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learned {
    /// Address of the register's word.
    pub address: u64,
    /// Bits that are answered.
    pub wanted: Wanted,
    /// Reason.
    pub why: String,
    /// Whether the value is a guess: others would have ended the polling, too.
    pub is_guess: bool,
    /// Place in the code that polls the register: function, offset, address.
    pub place: String,
    /// Instructions executed up to there.
    pub insns: u64,
}

/// An interrupt that comes by itself, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedPulse {
    /// Interrupt line.
    pub line: u32,
    /// Instructions from one to the next.
    pub every_insns: u64,
    /// Registers that read as all ones once the interrupt has come.
    pub registers: Vec<u64>,
    /// Name of the interrupt's handler.
    pub handler: String,
    /// Place in the code that waits.
    pub place: String,
    /// Instructions executed up to there.
    pub insns: u64,
}

/// A register that counts by itself, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedCount {
    /// Address of the register's word.
    pub address: u64,
    /// Instructions from one value to the next.
    pub every_insns: u64,
    /// Reason.
    pub why: String,
    /// Place in the code that reads the register.
    pub place: String,
    /// Instructions executed up to there.
    pub insns: u64,
}

/// A chip file in the making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Name of the firmware's file, and its hash.
    firmware: (String, String),
    cpu: &'static str,
    vectors: u64,
    stretches: Vec<Stretch>,
    /// Answers, in the order in which they were learned.
    pub answers: Vec<Learned>,
    /// Interrupts.
    pub pulses: Vec<LearnedPulse>,
    /// Registers that count.
    pub counts: Vec<LearnedCount>,
    /// Words of flash that the firmware stored to before it reset itself.
    kept: BTreeMap<u64, u32>,
    /// Whether address 0 is an alias of the flash from which the processor starts.
    aliased: bool,
    /// Registers that were accessed.
    pub seen: BTreeSet<u64>,
    /// Registers by the vendor's description.
    svd: Option<Arc<Svd>>,
}

fn down(address: u64, granule: u64) -> u64 {
    address / granule * granule
}

fn up(address: u64, granule: u64) -> u64 {
    address.div_ceil(granule) * granule
}

/// Joins ranges that lie near one another.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match all.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(GAP) => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

fn cpu(image: &Image) -> Result<&'static str, String> {
    if image.arch.is_some_and(|arch| arch != Arch::CortexM) {
        return Err("only chips with a Cortex-M can be learned".to_owned());
    }
    let Some(needs) = &image.needs.arm else { return Ok("cortex-m4") };
    match (needs.level, needs.fpu) {
        (ArmLevel::V6M, _) => Ok("cortex-m0"),
        (ArmLevel::V7M, _) => Ok("cortex-m3"),
        (ArmLevel::V7EM, Fpu::None | Fpu::V4Single) => Ok("cortex-m4"),
        (ArmLevel::V7EM, _) => Ok("cortex-m7"),
        (ArmLevel::V8MBase | ArmLevel::V8MMain, _) => Ok("cortex-m33"),
        (level, _) => {
            Err(format!("the image was built for {level}, and no chip with such a processor can be described yet"))
        }
    }
}

/// Finds a vector table that is not at a segment's start, or whose stack pointer is outside of the addresses at which
/// most chips have RAM. Its stack pointer leads out of the image, and the vectors that every chip has lead into it.
fn table_behind(image: &Image) -> Option<VectorTable> {
    let is_code = |vector: u32| vector & 1 != 0 && image.code_at(u64::from(vector & !1)).is_some();
    let is_table = |table: &VectorTable| {
        let sp = table.initial_sp;
        let is_stack = STACKS.contains(&sp) && sp.is_multiple_of(8) && image.code_at(sp).is_none();
        // Vector 2 may lead into a boot ROM.
        let vectors = [1, 3].map(|vector| image.loaded_u32(table.address + 4 * vector));
        is_stack && vectors.into_iter().all(|vector| vector.is_some_and(is_code))
    };
    let starts = image.segments.iter().map(|segment| segment.load_addr);
    let addresses = starts
        .flat_map(|start| (up(start, VECTOR_TABLE_ALIGN)..start + TABLE_BEHIND).step_by(VECTOR_TABLE_ALIGN as usize));
    addresses.filter_map(|address| image.vector_table_at(address)).find(is_table)
}

impl Draft {
    /// The chip as far as it follows from the image.
    ///
    /// # Errors
    /// When the image is not for a Cortex-M that can be described, or has no vector table.
    pub fn of(image: &Image, svd: Option<Svd>) -> Result<Draft, String> {
        let cpu = cpu(image)?;
        let table = image.vector_table.or_else(|| table_behind(image)).ok_or(
            "no vector table was found in the image, which says where the stack is: --vectors says where it lies",
        )?;
        let mut flash = Vec::new();
        let mut ram = Vec::new();
        for segment in &image.segments {
            for range in [segment.load_range(), segment.run_range()] {
                let is_code =
                    CODE.contains(&range.start) && !segment.data.is_empty() && range == segment.load_range();
                if is_code { flash.push(range) } else { ram.push(range) }
            }
        }
        ram.push(table.initial_sp.saturating_sub(8)..table.initial_sp);
        let flash = joined(flash).into_iter().map(|range| {
            let base = down(range.start, 1 << 24);
            let start = if range.start - base <= MAX_BELOW { base } else { down(range.start, GRANULE) };
            Stretch { range: start..up(range.end, GRANULE), kind: Kind::Flash, why: "the image lies there" }
        });
        let mut stretches: Vec<Stretch> = flash.collect();
        let why = "the image's variables and its first stack lie there";
        for range in joined(ram) {
            let range = down(range.start, GRANULE)..up(range.end, GRANULE);
            let is_free =
                stretches.iter().all(|other| other.range.end <= range.start || range.end <= other.range.start);
            if is_free {
                stretches.push(Stretch { range, kind: Kind::Ram, why });
            }
        }
        stretches.push(Stretch { range: PERIPHERALS, kind: Kind::Registers, why: "peripherals of any Cortex-M" });
        stretches.push(Stretch { range: VENDOR, kind: Kind::Registers, why: "the vendor's own of any Cortex-M" });
        stretches.sort_by_key(|stretch| stretch.range.start);
        let file = image.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Draft {
            firmware: (file, image.sha256.clone()),
            cpu,
            vectors: table.address,
            stretches,
            answers: Vec::new(),
            pulses: Vec::new(),
            counts: Vec::new(),
            kept: BTreeMap::new(),
            aliased: false,
            seen: BTreeSet::new(),
            svd: svd.map(Arc::new),
        })
    }

    /// Address of the vector table.
    pub fn vectors(&self) -> u64 {
        self.vectors
    }

    /// Adds what lies at an address that the firmware accesses. Returns whether it could be added.
    pub fn add(&mut self, address: u64, is_store: bool) -> bool {
        if NULL.contains(&address) && !is_store {
            return self.alias();
        }
        let (kind, granule) = if RAM.contains(&address) || EXTERNAL_RAM.contains(&address) {
            (Kind::Ram, GRANULE)
        } else if CODE.contains(&address) && !NULL.contains(&address) {
            (Kind::Ram, SMALL_GRANULE)
        } else if EXTERNAL_DEVICES.contains(&address) {
            (Kind::Registers, GRANULE)
        } else {
            return false;
        };
        let is_there = self.stretches.iter().any(|stretch| stretch.range.contains(&address));
        if is_there || self.stretches.len() >= MAX_STRETCHES {
            return false;
        }
        let range = down(address, granule)..down(address, granule) + granule;
        let why = "the firmware accesses it";
        let near =
            |stretch: &&mut Stretch| stretch.kind == kind && stretch.why == why && stretch.range.end == range.start;
        match self.stretches.iter_mut().find(near) {
            Some(stretch) => stretch.range.end = range.end,
            None => self.stretches.push(Stretch { range, kind, why }),
        }
        self.stretches.sort_by_key(|stretch| stretch.range.start);
        true
    }

    /// Adds the alias, at address 0, of the flash from which a Cortex-M starts. Returns whether it could be added.
    fn alias(&mut self) -> bool {
        let holds = |stretch: &Stretch, address: u64| stretch.range.contains(&address);
        let flash = |stretch: &&Stretch| stretch.kind == Kind::Flash && stretch.range.start == self.vectors;
        let is_free = !self.stretches.iter().any(|stretch| holds(stretch, 0));
        let Some(flash) = self.stretches.iter().find(flash).filter(|_| is_free && !self.aliased) else {
            return false;
        };
        self.aliased = flash.range.end - flash.range.start >= GRANULE;
        self.aliased
    }

    /// Keeps words of flash that the firmware has stored to before it reset itself. Returns whether any of them is new.
    pub fn keep(&mut self, words: &[(u32, u32)]) -> bool {
        let flash = |address: u64| {
            let holds = |stretch: &Stretch| stretch.kind == Kind::Flash && stretch.range.contains(&address);
            self.stretches.iter().any(holds)
        };
        let words: BTreeMap<u64, u32> =
            words.iter().map(|&(address, value)| (u64::from(address), value)).filter(|&(at, _)| flash(at)).collect();
        let is_new = words.iter().any(|(address, value)| self.kept.get(address) != Some(value));
        self.kept.extend(words);
        is_new
    }

    /// The word and the bits that a polled access reads: for the alias of a bit, that bit.
    pub fn behind(&self, address: u64, wanted: Wanted) -> (u64, Wanted) {
        let Some((word, bit)) = bit_alias(self.cpu, address) else { return (address & !3, wanted) };
        (word, Wanted { mask: 1 << bit, value: (wanted.value & wanted.mask & 1) << bit })
    }

    /// The chip file.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let (file, sha256) = &self.firmware;
        let file: String = file.chars().filter(|letter| !letter.is_control()).collect();
        let _ = writeln!(
            text,
            "# Learned by `harness chip learn` from {file}\n# (SHA-256 {sha256}).\n\
             # Strike out what is wrong: without a row the firmware waits there again, and that is said.\n\
             [chip]\ncpu = \"{}\"\nhz = {HZ}\nvectors = {:#010x}\ncpu-clock = \"core\"\n\
             differs = [\"clocks and interrupt priorities are not the chip's, and registers were learned from the firmware\"]",
            self.cpu, self.vectors,
        );
        if self.cpu != "cortex-m0" {
            let bits = self.svd.as_ref().and_then(|svd| svd.priority_bits).unwrap_or(PRIORITY_BITS);
            let _ = writeln!(text, "interrupts = 240\npriority-bits = {bits}");
        }
        let _ = writeln!(text, "\n[clocks]\ncore = {HZ}");
        for Stretch { range, kind, why } in &self.stretches {
            self.stretch(&mut text, range, *kind, why);
        }
        for Learned { address, wanted: Wanted { mask, value }, why, is_guess, place, insns } in &self.answers {
            let _ = write!(
                text,
                "\n[[answer]]\nat = {address:#010x}\nmask = {mask:#010x}\nvalue = {value:#010x}\n\
                 why = {}\nplace = {}\ninsn = {insns}\nguess = {is_guess}\n",
                quoted(why),
                quoted(place),
            );
        }
        for LearnedPulse { line, every_insns, registers, handler, place, insns } in &self.pulses {
            let ones: Vec<String> = registers.iter().map(|register| format!("{register:#010x}")).collect();
            let _ = write!(
                text,
                "\n[[pulse]]\ninterrupt = {line}\nevery = {every_insns}\nones = [{}]\nwhy = {}\nplace = {}\n\
                 insn = {insns}\nguess = true\n",
                ones.join(", "),
                quoted(&format!("the firmware waits, and goes on when {handler} is called")),
                quoted(place),
            );
        }
        for LearnedCount { address, every_insns, why, place, insns } in &self.counts {
            let _ = write!(
                text,
                "\n[[count]]\nat = {address:#010x}\nevery = {every_insns}\nwhy = {}\nplace = {}\ninsn = {insns}\n\
                 guess = true\n",
                quoted(why),
                quoted(place),
            );
        }
        if !self.seen.is_empty() {
            let _ = writeln!(
                text,
                "\n[learned]\n# Registers that the firmware accessed; --strict fails where another one is.\nseen = ["
            );
            for row in self.seen.iter().collect::<Vec<_>>().chunks(8) {
                let row: Vec<String> = row.iter().map(|address| format!("{address:#010x}")).collect();
                let _ = writeln!(text, "    {},", row.join(", "));
            }
            text.push_str("]\n");
            text.push_str(&self.registers());
        }
        text
    }

    /// The SVD's rows of the registers that the firmware accessed: with them the file needs no SVD.
    fn registers(&self) -> String {
        let Some(svd) = &self.svd else { return String::new() };
        let file: String = svd.file.chars().filter(|letter| !letter.is_control()).collect();
        let mut text = format!("# What {file} has of them.\nregisters = [\n");
        for (at, word) in self.seen.iter().filter_map(|at| Some((at, svd.words.get(at)?))) {
            let Word { name, reset, read_only, one_clears, zero_clears, read_clears, .. } = word;
            let _ = write!(text, "    {{ at = {at:#010x}, name = {}", quoted(name));
            for (key, bits) in [
                ("reset", reset),
                ("read-only", read_only),
                ("one-clears", one_clears),
                ("zero-clears", zero_clears),
                ("read-clears", read_clears),
            ] {
                if *bits != 0 {
                    let _ = write!(text, ", {key} = {bits:#x}");
                }
            }
            text.push_str(" },\n");
        }
        text.push_str("]\n");
        text
    }

    /// The vendor's name of a register's bits.
    pub fn name_of(&self, address: u64, mask: u32) -> Option<String> {
        self.svd.as_ref()?.name_of(address, mask)
    }

    /// The vendor's name of an interrupt.
    pub fn interrupt(&self, line: u32) -> Option<String> {
        self.svd.as_ref()?.interrupts.get(&line).cloned()
    }

    fn stretch(&self, text: &mut String, range: &Range<u64>, kind: Kind, why: &str) {
        let Range { start, end } = *range;
        let name = |text: &str| format!("{text} at {start:#x}");
        if kind == Kind::Registers {
            let mut at = start;
            while at < end {
                let next = end.min(at + wire::chip::MAX_BLOCK_BYTES);
                let _ = write!(
                    text,
                    "\n[[undescribed]]                     # {why}\nname = \"registers\"\nstart = {at:#010x}\nbytes = {:#x}\n",
                    next - at
                );
                at = next;
            }
            return;
        }
        let (name, flash) = match kind {
            Kind::Flash => (name("flash"), "kind = \"flash\"\n"),
            Kind::Ram | Kind::Registers => (name("RAM"), ""),
        };
        let _ = write!(
            text,
            "\n[[memory]]                          # {why}\nname = \"{name}\"\n{flash}start = {start:#010x}\nbytes = {:#x}\n",
            end - start
        );
        let kept: Vec<String> =
            self.kept.range(start..end).map(|(at, value)| format!("[{:#x}, {value:#010x}]", at - start)).collect();
        if !kept.is_empty() {
            let _ = writeln!(text, "words = [{}]     # stored before a reset", kept.join(", "));
        }
        // QEMU's Cortex-M33 is not told where the table lies.
        if self.cpu == "cortex-m33" && kind == Kind::Flash && start == self.vectors && start != SECURE_VECTORS {
            let _ = write!(
                text,
                "\n[[memory]]                          # QEMU's processor looks for its vector table there\n\
                 name = \"vectors\"\nalias = \"{name}\"\nstart = {SECURE_VECTORS:#010x}\nbytes = {GRANULE:#x}\n"
            );
        }
        if self.aliased && kind == Kind::Flash && range.contains(&self.vectors) {
            let _ = write!(
                text,
                "\n[[memory]]                          # the processor starts from there, and the firmware accesses it\n\
                 name = \"start\"\nalias = \"{name}\"\nstart = 0\nbytes = {GRANULE:#x}\n"
            );
        }
    }

    /// The chip that the file describes.
    ///
    /// # Errors
    /// When the chip has too much memory, for example because the image is spread over the address space.
    pub fn chip(&self) -> Result<Chip, InputError> {
        resolve::chip("learned", "the learned chip", &self.text(), self.svd.as_deref())
    }
}

/// A text in TOML's quotes.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Describes bits for which the firmware waits.
fn describe(mask: u32, value: u32) -> String {
    let (low, high) = (mask.trailing_zeros(), 31 - mask.leading_zeros());
    let is_field = mask >> low & (mask >> low).wrapping_add(1) == 0;
    if mask.count_ones() == 1 {
        format!("bit {low} is {}", value >> low)
    } else if is_field {
        format!("bits {high}:{low} are {:#x}", value >> low)
    } else {
        format!("the bits of {mask:#010x} are {value:#010x}")
    }
}

/// Memory when the run ended at a polled register: the image's code, and the part of RAM that the run saved.
struct Left<'a> {
    image: &'a Image,
    polled: &'a Polled,
}

impl thumb::Memory for Left<'_> {
    fn code(&self, address: u32) -> Option<u16> {
        Some(u16::from_le_bytes([thumb::Memory::byte(self, address)?, thumb::Memory::byte(self, address + 1)?]))
    }

    fn byte(&self, address: u32) -> Option<u8> {
        let at = u64::from(address);
        for contents in &self.polled.memory {
            if let Some(offset) = at.checked_sub(contents.start)
                && let Some(word) = contents.words.get(offset as usize / 4)
            {
                return Some(word.to_le_bytes()[offset as usize % 4]);
            }
        }
        let mut bytes = self.image.segments.iter().filter_map(|segment| {
            let offset = at.checked_sub(segment.load_addr)?;
            segment.data.get(usize::try_from(offset).ok()?).copied()
        });
        bytes.next()
    }
}

/// Finds the value for which a run waits that was ended at a polled register.
pub fn find(image: &Image, polled: &Polled) -> Verdict {
    let poll = Poll {
        pc: polled.pc as u32,
        address: polled.address as u32,
        value: polled.value as u32,
        registers: &polled.registers,
    };
    answer::find(&Left { image, polled }, &poll)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft() -> Draft {
        let stretch = |range, kind| Stretch { range, kind, why: "it does" };
        Draft {
            firmware: ("blinky \"1\"\n.elf".to_owned(), "00".to_owned()),
            cpu: "cortex-m4",
            vectors: 0x0800_0000,
            stretches: vec![
                stretch(0x0800_0000..0x0802_0000, Kind::Flash),
                stretch(0x2000_0000..0x2001_0000, Kind::Ram),
                stretch(PERIPHERALS, Kind::Registers),
            ],
            answers: vec![Learned {
                address: 0x4002_3800,
                wanted: Wanted { mask: 0x2_0000, value: 0x2_0000 },
                why: "polled until bit 17 is 1".to_owned(),
                is_guess: true,
                place: "rcc::init<\"a\">+0x4".to_owned(),
                insns: 1000,
            }],
            pulses: vec![LearnedPulse {
                line: 28,
                every_insns: 10_000,
                registers: vec![0x4000_0010],
                handler: "TIM2".to_owned(),
                place: "main".to_owned(),
                insns: 9000,
            }],
            counts: vec![LearnedCount {
                address: 0x4000_0024,
                every_insns: 62,
                why: "time".to_owned(),
                place: "wait".to_owned(),
                insns: 9500,
            }],
            kept: BTreeMap::new(),
            aliased: false,
            seen: [0x4000_0010, 0x4002_3800].into(),
            svd: None,
        }
    }

    #[test]
    fn a_draft_is_a_chip_file() {
        let chip = draft().chip().unwrap();
        assert_eq!((chip.cpu.as_str(), chip.vectors, chip.wire.lines), ("cortex-m4", 0x0800_0000, 240));
        assert_eq!(chip.wire.answers.len(), 1);
        assert_eq!(chip.wire.pulses[0].sets[0].mask, u32::MAX);
        assert_eq!(chip.rules[0].place, "rcc::init<\"a\">+0x4");
        assert!(chip.rules.iter().all(|rule| rule.is_guess));
        assert_eq!(chip.seen, Some([0x4000_0010, 0x4002_3800].into()));
    }

    #[test]
    fn an_alias_of_a_bit_stands_for_the_bit() {
        let one = Wanted { mask: 1, value: 1 };
        let bit = Wanted { mask: 8, value: 8 };
        assert_eq!(draft().behind(0x4390_058c, one), (0x400c_802c, bit));
        assert_eq!(draft().behind(0x4390_058c, Wanted { mask: 1, value: 0 }).1, Wanted { mask: 8, value: 0 });
        let m0 = Draft { cpu: "cortex-m0", ..draft() };
        assert_eq!(m0.behind(0x4200_0818, one), (0x4200_0818, one), "a peripheral of its own");
    }

    #[test]
    fn what_is_stored_to_flash_before_a_reset_is_there_from_the_start() {
        let mut draft = draft();
        assert!(draft.keep(&[(0x0801_0000, 7), (0x2000_0000, 1)]), "flash only");
        assert!(!draft.keep(&[(0x0801_0000, 7)]), "a second time the firmware would not have to");
        let memory = &draft.chip().unwrap().wire.memory[0];
        assert_eq!((memory.words[0].offset, memory.words[0].value, memory.words.len()), (0x1_0000, 7, 1));
    }

    #[test]
    fn what_firmware_accesses_is_added_and_grows() {
        let mut draft = draft();
        assert!(draft.add(0x2001_0004, false) && draft.add(0x2002_0000, true));
        assert!(draft.add(0x1fff_7a10, false) && draft.add(0xd000_0000, false));
        assert!(!draft.add(0x14, true), "a pointer that leads nowhere");
        assert!(!draft.add(0x2001_0008, false), "it is there");
        assert!(draft.add(0x14, false) && !draft.add(0x18, false), "an alias of the flash, once");
        assert!(
            draft.chip().unwrap().wire.memory.iter().any(|memory| memory.start == 0 && memory.alias_of.is_some())
        );
        let memory = draft.chip().unwrap().wire.memory;
        let of = |start: u64| memory.iter().find(|memory| memory.start == start).map(|memory| memory.bytes);
        assert_eq!((of(0x2001_0000), of(0x1fff_7000)), (Some(0x2_0000), Some(0x1000)));
    }
}
