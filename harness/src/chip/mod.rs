//! Real chips: what a chip file says, as the plugin takes it.
//!
//! A chip is a TOML file and no code: processor, memory, clocks, and peripherals by address and kind. A kind is a register
//! block with its rules, described once and used by all chips that have it. Those in `harness/chips` are carried along and
//! have names; anything else is a file.

mod file;
pub mod learn;
mod resolve;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::error::InputError;
use crate::image::sha256_hex;

include!(concat!(env!("OUT_DIR"), "/chips.rs"));

/// Processors that chips may have, and the machine of QEMU's whose processor is one: the base that a chip's memory and
/// registers are laid over.
pub(crate) const BASES: [(&str, &str); 4] = [
    ("cortex-m0", "microbit"),
    ("cortex-m3", "mps2-an385"),
    ("cortex-m4", "mps2-an386"),
    ("cortex-m7", "mps2-an500"),
];

/// A chip, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chip {
    /// Its name, or its file's without the ending.
    pub name: String,
    /// The processor that QEMU has for it, as `cortex-m4`.
    pub cpu: String,
    /// SHA-256 of all that the plugin is asked to do for it, in hex.
    pub sha256: String,
    /// Frequency that instructions are taken to execute at.
    pub hz: u64,
    /// Address where the processor looks for its vector table.
    pub vectors: u64,
    /// Differences from the chip, each one sentence.
    pub differs: Vec<String>,
    /// Names of the registers by address, for reports.
    pub registers: Vec<(u64, String)>,
    /// Its answers and pulses for whoever reads of them, in the order of [`wire::chip::FIRST_RULE`].
    pub rules: Vec<Rule>,
    /// Registers that the firmware accessed which the file was learned from; None: it was not learned.
    pub seen: Option<BTreeSet<u64>>,
    /// The chip as the plugin is asked for it.
    pub wire: wire::chip::Chip,
}

/// A rule that was learned, or written in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Register or interrupt, with what it does.
    pub what: String,
    /// Reason.
    pub why: String,
    /// Place in the firmware.
    pub place: String,
    /// Instructions executed up to there, when it was learned.
    pub at_insns: u64,
    /// Whether something else might be right.
    pub is_guess: bool,
}

/// Largest chip file.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The names of the chips that are carried along, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    CHIPS.iter().map(|(name, _)| *name)
}

/// Whether a chip is carried here by this name.
pub fn is_known(name: &str) -> bool {
    names().any(|known| known == name)
}

/// Name or file of a chip as profiles keep it: of a file the name alone, since a profile names no folder.
pub fn shown(name_or_file: &str) -> String {
    let name = Path::new(name_or_file).file_name().unwrap_or_default();
    if is_known(name_or_file) { name_or_file.to_owned() } else { name.to_string_lossy().into_owned() }
}

/// Finds a chip by its name, or reads its file.
///
/// # Errors
/// When there is neither, or something in it cannot be meant: file, line and reason.
pub fn find(name_or_file: &str) -> Result<Chip, InputError> {
    if let Some((name, text)) = CHIPS.iter().find(|(name, _)| *name == name_or_file) {
        return resolve::chip(name, &format!("{name}.toml"), text);
    }
    if name_or_file == "auto" {
        return Err(InputError::new(
            "--chip auto is for `harness profile` and `harness run`; elsewhere name a chip, or the file of \
             `harness chip learn`",
        ));
    }
    let path = Path::new(name_or_file);
    let is_file = path.components().count() > 1 || path.extension().is_some_and(|ending| ending == "toml");
    if !is_file {
        let names: Vec<&str> = names().collect();
        let near = names.iter().map(|name| (strsim::jaro_winkler(name, name_or_file), name));
        let near = near.filter(|(likeness, _)| *likeness > 0.8).max_by(|one, other| one.0.total_cmp(&other.0));
        let near = near.map_or_else(String::new, |(_, name)| format!("; {name} is"));
        return Err(InputError::new(format!(
            "--chip {name_or_file}: no chip that is known by name{near}. Known are: {}. A chip file's name ends in .toml \
             (docs/chips.md says how to write one)",
            names.join(", ")
        )));
    }
    let unreadable = |error| InputError::about(path, format_args!("cannot be read: {error}"));
    if fs::metadata(path).map_err(unreadable)?.len() > MAX_FILE_BYTES {
        return Err(InputError::about(path, "is larger than any chip file (4 MiB)"));
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    resolve::chip(&name, &path.display().to_string(), &text)
}

impl Chip {
    /// The name of what lies at an address: `RCC.CR`, the peripheral's and the offset, as `DMA1+0x8`, or that of a stretch
    /// that nobody has described and the address, as `APB2 at 0x40012008`.
    pub fn name_of(&self, address: u64) -> Option<String> {
        let word = address & !3;
        if let Ok(index) = self.registers.binary_search_by_key(&word, |(address, _)| *address) {
            return Some(self.registers[index].1.clone());
        }
        let block = self.wire.block_at(address)?;
        if block.registers.is_empty() {
            return Some(format!("{} at {address:#x}", block.name));
        }
        Some(format!("{}+{:#x}", block.name, address - block.start))
    }

    /// Processor, frequency and memory, in a line.
    pub fn describe(&self) -> String {
        let own = self.wire.memory.iter().filter(|memory| memory.alias_of.is_none());
        let memory = own.map(|memory| format!("{} {} KiB at {:#x}", memory.name, memory.bytes / 1024, memory.start));
        let memory: Vec<String> = memory.collect();
        format!("{} at {} MHz; {}", self.cpu, self.hz / 1_000_000, memory.join(", "))
    }

    /// The hash of what is asked for, whatever it is called.
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
    fn an_unknown_chip_is_refused_with_the_nearest_name() {
        let error = find("stm32f408").unwrap_err().to_string();
        assert!(error.contains("stm32f407 is") && error.contains("docs/chips.md"), "{error}");
        assert!(find("no/such/chip.toml").unwrap_err().to_string().contains("no/such/chip.toml: cannot be read"));
    }
}
