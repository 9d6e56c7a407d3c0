// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real chips: chip files, resolved into the plugin's format.
//!
//! A chip is a TOML file without code: processor, memory, clocks, and peripherals by address and kind. A kind is a
//! register block with its rules, described once for all chips that have it. The chips in `harness/chips` are built
//! in and have names; others are read from files.

mod absent;
pub(crate) mod base;
mod can;
pub mod core;
pub mod cycled;
mod file;
pub mod hints;
pub mod learn;
mod names;
mod origin;
mod outside;
mod processor;
mod resolve;
mod spanned;
pub mod suggest;
pub mod svd;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use wire::chip::Memory;

use crate::error::InputError;
use crate::image::{Image, sha256_hex};
use crate::text::number::{Hex, frequency, group};
pub use file::File;
pub(crate) use outside::CAN;
use svd::Svd;

include!(concat!(env!("OUT_DIR"), "/chips.rs"));

/// Most times that a memory is enlarged for an image: the chips of a family differ by less, and a wrong file by more.
const MOST_TIMES: u64 = 8;

/// Unit of memory sizes.
const STEP_BYTES: u64 = 1024;

/// A resolved chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chip {
    /// Name of a built-in chip, or the file's name without its extension.
    pub name: String,
    /// QEMU's name of the processor, as `cortex-m4`.
    pub cpu: String,
    /// Name of the core whose cycles `--cycles` counts; None: it is not known.
    pub core: Option<String>,
    /// SHA-256 of the plugin's description of the chip, in hex.
    pub sha256: String,
    /// Frequency at which instructions execute, in Hz.
    pub hz: u64,
    /// Address at which the processor finds its vector table after reset.
    pub vectors: u64,
    /// Differences from the chip, each one sentence.
    pub differs: Vec<String>,
    /// Names of the registers by address, for reports.
    pub registers: Vec<(u64, String)>,
    /// Fields of the registers and their bits, by address, for reports.
    pub fields: BTreeMap<u64, Vec<(String, u32)>>,
    /// The chip's answers, pulses and counts, described for reports, in the order of their rows from
    /// [`wire::chip::FIRST_RULE`].
    pub rules: Vec<Rule>,
    /// Registers accessed by the firmware from which the file was learned; None: it was not learned.
    pub seen: Option<BTreeSet<u64>>,
    /// Registers of the file that the SVD does not have; empty without an SVD.
    pub outside_svd: Vec<OutsideSvd>,
    /// Devices on buses that have names.
    pub devices: Vec<NamedDevice>,
    /// Index of the first of the stimuli that each input makes which comes by the clock.
    pub by_clock: Vec<usize>,
    /// Description of the chip for the plugin.
    pub wire: wire::chip::Chip,
}

/// Device on a bus that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedDevice {
    /// Its name.
    pub name: String,
    /// Its block, by the index in the chip.
    pub block: u32,
    /// The device, by its index in the block.
    pub device: u32,
}

/// Registers, or a peripheral, that an SVD does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideSvd {
    /// Sentence, with file and line.
    pub what: String,
    /// Whether the file itself describes them, and not a built-in kind or a chip that it is like.
    pub is_own: bool,
}

/// A learned rule, or a rule that was written in the same form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Register or interrupt, with its effect.
    pub what: String,
    /// Reason.
    pub why: String,
    /// Place in the firmware.
    pub place: String,
    /// Instructions executed up to that place when the rule was learned.
    pub at_insns: u64,
    /// Whether the rule is a guess: another value might be right.
    pub is_guess: bool,
}

/// Most bits whose change is named.
const MOST_BITS: usize = 4;

/// Largest size of a chip file.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Names of the built-in chips, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    CHIPS.iter().map(|(name, _)| *name)
}

/// The built-in chips by name, each resolved once.
pub fn built_in() -> &'static [Chip] {
    static RESOLVED: OnceLock<Vec<Chip>> = OnceLock::new();
    RESOLVED.get_or_init(|| names().filter_map(|name| find(name).ok()).collect())
}

/// Whether there is a built-in chip of this name.
pub fn is_known(name: &str) -> bool {
    names().any(|known| known == name)
}

/// Name or file of a chip, or of a core, as profiles have it: a file's name without its folder.
pub fn shown(name_or_file: &str) -> String {
    let name = Path::new(name_or_file).file_name().unwrap_or_default();
    if is_known(name_or_file) { name_or_file.to_owned() } else { name.to_string_lossy().into_owned() }
}

/// Finds a built-in chip by its name, or reads a chip file.
///
/// # Errors
/// When there is no such chip and no such file, or the file is invalid: file, line and reason.
pub fn find(name_or_file: &str) -> Result<Chip, InputError> {
    find_with(name_or_file, None)
}

/// Finds a chip as [`find`] does. The vendor's SVD file supplies registers that the chip file does not describe.
///
/// # Errors
/// When there is no such chip, or one of the files is invalid: file, line and reason.
pub fn find_with(name_or_file: &str, svd: Option<&Path>) -> Result<Chip, InputError> {
    let svd = svd.map(Svd::open).transpose()?;
    let svd = svd.as_ref();
    if let Some((name, text)) = CHIPS.iter().find(|(name, _)| *name == name_or_file) {
        return resolve::chip(name, &format!("{name}.toml"), text, svd);
    }
    if name_or_file == "auto" {
        return Err(InputError::new(
            "--chip auto is for `harness profile` and `harness run`; elsewhere name a chip, or the file of \
             `harness chip learn`",
        ));
    }
    let path = Path::new(name_or_file);
    let is_file = path.components().count() > 1 || path.extension().is_some_and(|ending| ending == "toml");
    if !is_file && let Some(why) = absent::why(name_or_file) {
        return Err(InputError::new(format!("--chip {name_or_file}: this {why}")));
    }
    if !is_file {
        let names: Vec<&str> = names().collect();
        let near = names.iter().map(|name| (strsim::jaro_winkler(name, name_or_file), name));
        let near = near.filter(|(likeness, _)| *likeness > 0.8).max_by(|one, other| one.0.total_cmp(&other.0));
        let near = near.map_or_else(String::new, |(_, name)| format!("; the nearest is {name}"));
        return Err(InputError::new(format!(
            "--chip {name_or_file}: no known chip has that name{near}; known are {}. A chip file's name ends in \
             .toml (docs/chips.md says how to write one)",
            names.join(", ")
        )));
    }
    read_with(path, svd)
}

/// Reads a chip file. The vendor's SVD file supplies registers that the chip file does not describe.
///
/// # Errors
/// When one of the files cannot be read or is invalid: file, line and reason.
pub fn read(path: &Path, svd: Option<&Path>) -> Result<Chip, InputError> {
    let svd = svd.map(Svd::open).transpose()?;
    read_with(path, svd.as_ref())
}

fn read_with(path: &Path, svd: Option<&Svd>) -> Result<Chip, InputError> {
    let unreadable = |error| InputError::about(path, format_args!("cannot be read: {error}"));
    if fs::metadata(path).map_err(unreadable)?.len() > MAX_FILE_BYTES {
        return Err(InputError::about(path, "is larger than any chip file (4 MiB)"));
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    resolve::chip(&name, &path.display().to_string(), &text, svd)
}

impl Chip {
    /// Name of an address: a register's (`RCC.CR`), a peripheral's with the offset (`DMA1+0x8`), or an undescribed
    /// range's with the address (`APB2 at 0x40012008`).
    pub fn name_of(&self, address: u64) -> Option<String> {
        let mut bytes =
            self.wire.blocks.iter().flat_map(|block| block.bytes_at.iter().map(move |byte| (block, byte)));
        // A byte of an AVR's data space has the name of its register.
        let of_byte = bytes.find(|(_, byte)| byte.address == address);
        let address = of_byte.map_or(address, |(block, byte)| block.start + byte.offset);
        let word = address & !3;
        if let Ok(index) = self.registers.binary_search_by_key(&word, |(address, _)| *address) {
            return Some(self.registers[index].1.clone());
        }
        let block = self.wire.block_at(address)?;
        if block.is_undescribed {
            return Some(format!("{} at {address:#x}", block.name));
        }
        Some(format!("{}+{:#x}", block.name, address - block.start))
    }

    /// Whether the chip has memory or registers at an address.
    pub fn holds(&self, address: u64) -> bool {
        let is_in = |start: u64, bytes: u64| address.checked_sub(start).is_some_and(|offset| offset < bytes);
        self.wire.block_at(address).is_some()
            || self.wire.memory.iter().any(|memory| is_in(memory.start, memory.bytes))
    }

    /// Name of a register of the chip or of its processor.
    pub fn register_name(&self, address: u64) -> Option<String> {
        self.name_of(address).or_else(|| processor::name_of(address))
    }

    /// Address of the register that an access reaches, with the bits of it that `bits` of the accessed word are: an
    /// alias leads to its register.
    pub fn reached(&self, address: u64, bits: u32) -> (u64, u32) {
        if let Some(block) = self.wire.block_at(address) {
            let (word, _) = block.reached(address - block.start);
            return (block.start + word, bits);
        }
        base::bit_alias(&self.cpu, address).map_or((address & !3, bits), |(word, bit)| (word, (bits & 1) << bit))
    }

    /// Names of bits of a register, by its fields: `TXE`, and `[5]` where there is no field. Empty if the bits are
    /// more than firmware looks at: a number that counts.
    pub fn bit_names(&self, address: u64, bits: u32) -> Vec<String> {
        let own = self.fields.get(&address).into_iter().flatten().map(|(name, mask)| (name.as_str(), *mask));
        let (mut names, mut left) = (Vec::new(), bits);
        for (name, mask) in own.chain(processor::fields_of(address).iter().copied()) {
            if left & mask != 0 {
                names.push(name.to_owned());
                left &= !mask;
            }
        }
        names.extend((0..32).filter(|bit| left & (1 << bit) != 0).map(|bit| format!("[{bit}]")));
        if names.len() > MOST_BITS { Vec::new() } else { names }
    }

    /// Describes processor, frequency and memory in one line.
    pub fn describe(&self) -> String {
        let own = self.wire.memory.iter().filter(|memory| memory.alias_of.is_none());
        let memory = own.map(|memory| format!("{} {} KiB at {:#x}", memory.name, memory.bytes / 1024, memory.start));
        let memory: Vec<String> = memory.collect();
        if self.wire.is_addition {
            let names: Vec<&str> = self.wire.blocks.iter().map(|block| block.name.as_str()).collect();
            return format!("adds {} to QEMU's machine for {}", names.join(", "), self.cpu);
        }
        format!("{} at {}; {}", self.cpu, frequency(self.hz), memory.join(", "))
    }

    /// Enlarges memories whose end an image goes beyond, as those of a larger chip of the family. Returns a sentence on each.
    pub fn widen(&mut self, image: &Image) -> Vec<String> {
        let places = image.segments.iter().flat_map(|segment| [segment.load_range(), segment.run_range()]);
        let stack = image.initial_sp().map(|top| top.saturating_sub(4)..top);
        let mut needed: Vec<Range<u64>> = places.chain(stack).filter(|place| !place.is_empty()).collect();
        needed.sort_by_key(|place| place.end);
        let mut widened: BTreeMap<usize, u64> = BTreeMap::new();
        for place in needed {
            let Some((index, bytes)) = self.too_small(&place) else { continue };
            let old = std::mem::replace(&mut self.wire.memory[index].bytes, bytes);
            if self.wire.check().is_err() {
                self.wire.memory[index].bytes = old;
                continue;
            }
            widened.entry(index).or_insert(old);
        }
        let sentence = |(index, old): (usize, u64)| {
            let Memory { name, start, bytes, .. } = &self.wire.memory[index];
            let old = group(old);
            format!(
                "--chip {}: {name} at {} has {old} bytes, and the image goes beyond: it has {} here, as in a larger chip",
                self.name,
                Hex(*start),
                group(*bytes)
            )
        };
        widened.into_iter().map(sentence).collect()
    }

    /// Memory at whose end a place begins or goes on, with the size that holds the place.
    fn too_small(&self, place: &Range<u64>) -> Option<(usize, u64)> {
        let memory = &self.wire.memory;
        let end = |memory: &Memory| memory.start.saturating_add(memory.bytes);
        if self.wire.is_addition || memory.iter().any(|own| own.start <= place.start && place.end <= end(own)) {
            return None;
        }
        let own = memory.iter().enumerate().filter(|(_, own)| own.alias_of.is_none() && own.start <= place.start);
        let (index, own) = own.max_by_key(|(_, own)| own.start)?;
        let next = memory.iter().map(|own| own.start).filter(|&start| start > own.start).min().unwrap_or(u64::MAX);
        let bytes = (place.end - own.start).checked_next_multiple_of(STEP_BYTES)?;
        let is_near = bytes <= own.bytes.saturating_mul(MOST_TIMES) && own.start.saturating_add(bytes) <= next;
        is_near.then_some((index, bytes))
    }

    /// Hash of the plugin's description, without the chip's name.
    fn hash(wire: &wire::chip::Chip) -> String {
        let nameless = wire::chip::Chip { name: String::new(), ..wire.clone() };
        sha256_hex(&nameless.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chip_that_is_carried_along_can_be_meant() {
        for name in names() {
            let chip = find(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(chip.wire.check(), Ok(()), "{name}");
            assert_eq!(chip, find(name).unwrap(), "{name} is another one the second time");
        }
    }

    #[test]
    fn an_alias_leads_to_its_register_and_bits_have_names() {
        let chip = find("stm32f407").unwrap();
        let sr = 0x4000_4400;
        assert_eq!(chip.register_name(sr).as_deref(), Some("USART2.SR"));
        assert_eq!(chip.register_name(0xe000_e010).as_deref(), Some("SysTick.CTRL"));
        assert_eq!(chip.bit_names(sr, 0xc0), ["TC", "TXE"]);
        assert_eq!(chip.bit_names(sr, 0x280), ["TXE", "[9]"]);
        assert!(chip.bit_names(0x4000_0024, 0xff).is_empty(), "a counter's value");
        // Bit 7 of the register, as a word.
        assert_eq!(chip.reached(0x4200_0000 + (sr - 0x4000_0000) * 32 + 7 * 4, 1), (sr, 0x80));
        let chip = find("rp2040").unwrap();
        assert_eq!(chip.reached(0x4000_c000 + 0x3000 + 8, 4), (0x4000_c008, 4));
    }

    #[test]
    fn an_unknown_chip_is_refused_with_the_nearest_name() {
        let error = find("stm32f408").unwrap_err().to_string();
        assert!(error.contains("the nearest is stm32f407;") && error.contains("docs/chips.md"), "{error}");
        assert!(find("no/such/chip.toml").unwrap_err().to_string().contains("no/such/chip.toml: cannot be read"));
    }
}
