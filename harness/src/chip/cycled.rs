// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles that `--cycles` asks for: of which core, and how many of them are a second for the machine's clock.

use std::path::Path;

use wire::core::Cortex;
use wire::request::Pace;

use super::Chip;
use super::core::{self, Core};
use crate::error::InputError;
use crate::text::number::parse_number;

/// Word for the core of the chip, or of an AVR.
pub const AUTO: &str = "auto";

/// Cycles of a run; the default are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cycled {
    /// Core whose cycles are counted by the order of instructions; None: an AVR, or no cycles.
    pub core: Option<Core>,
    /// Time by the cycles; None: the machine's clock counts instructions.
    pub pace: Option<Pace>,
}

impl Cycled {
    /// Finds the cycles of an image that a text asks for: a core's name or file, [`AUTO`], and behind `@` the frequency.
    ///
    /// # Errors
    /// When there is no such core, it does not execute the image's code, or the frequency is none of a processor.
    pub fn find(wanted: &str, image: &Path, isa: decode::Isa, chip: Option<&Chip>) -> Result<Cycled, InputError> {
        let (name, hz) = split(wanted);
        let hz = hz.map(frequency).transpose()?;
        let core = core_of(if name.is_empty() { AUTO } else { name }, image, isa, chip)?;
        let hz = hz.or(chip.map(|chip| chip.hz));
        Ok(Cycled { pace: hz.and_then(Pace::of), core })
    }
}

/// Splits a text into the core and the frequency. A file's name may have an `@`, too.
pub fn split(wanted: &str) -> (&str, Option<&str>) {
    match wanted.rsplit_once('@') {
        Some((name, hz)) if hz.starts_with(|first: char| first.is_ascii_digit()) && !hz.contains('/') => {
            (name, Some(hz))
        }
        _ => (wanted, None),
    }
}

/// File of the core that a text names; None: it names a built-in one.
pub fn file(wanted: &str) -> Option<&str> {
    Some(split(wanted).0).filter(|core| core::is_file(core))
}

/// The core; None: an AVR.
fn core_of(wanted: &str, image: &Path, isa: decode::Isa, chip: Option<&Chip>) -> Result<Option<Core>, InputError> {
    let of_chip = || chip.and_then(|chip| chip.core.as_deref());
    let Some(name) = (if wanted == AUTO { of_chip() } else { Some(wanted) }) else {
        if isa.is_avr() {
            return Ok(None);
        }
        let cores = core::names().collect::<Vec<_>>().join(", ");
        let one = if isa.is_riscv() { "hazard3" } else { "cortex-m4" };
        let why =
            format!("--cycles does not know the processor's core; name it, as in --cycles={one}: known are {cores}");
        return Err(InputError::about(image, why));
    };
    let core = core::find(name)?;
    let (executes, is_its) = match core.wire.cortex {
        None => ("RV32", matches!(isa, decode::Isa::Riscv32 | decode::Isa::Riscv32Zc)),
        Some(Cortex::M0 | Cortex::SmallM0 | Cortex::M0Plus | Cortex::SmallM0Plus) => {
            ("Armv6-M", isa == decode::Isa::ThumbV6m)
        }
        Some(Cortex::M3 | Cortex::M4) => ("Armv7-M", matches!(isa, decode::Isa::ThumbV6m | decode::Isa::ThumbV7m)),
    };
    if !is_its {
        let why = format!("--cycles={name}: the core executes {executes}, and the image is for {isa}; leave it out");
        return Err(InputError::about(image, why));
    }
    Ok(Some(core))
}

/// Reads a frequency, such as `150MHz`, in Hz.
///
/// # Errors
/// When it is none, or none of a clock that goes by cycles.
pub fn frequency(text: &str) -> Result<u64, InputError> {
    let number = text.strip_suffix("Hz").unwrap_or(text);
    let hz = parse_number("--cycles: the frequency", number)?;
    // Time goes by nanoseconds.
    if Pace::of(hz).is_none() {
        return Err(InputError::new(format!(
            "--cycles: {text} is not a frequency from 1 Hz to 1 GHz, such as 150MHz"
        )));
    }
    Ok(hz)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_at_sign_in_a_path_is_no_frequency() {
        assert_eq!(split("/ws/job@2/core.toml"), ("/ws/job@2/core.toml", None));
        assert_eq!(split("/ws/job@2/core.toml@7.3728MHz"), ("/ws/job@2/core.toml", Some("7.3728MHz")));
        assert_eq!(split("./core@home"), ("./core@home", None));
        assert_eq!((file("./core.toml@48M"), file("hazard3@7.3728MHz")), (Some("./core.toml"), None));
    }

    #[test]
    fn a_frequency_stands_behind_the_core() {
        let image = Path::new("fw.elf");
        let find =
            |wanted| Cycled::find(wanted, image, decode::Isa::Riscv32, None).map_err(|error| error.to_string());
        let paced = find("hazard3@150MHz").unwrap();
        assert_eq!(paced.core.map(|core| core.name).as_deref(), Some("hazard3"));
        assert_eq!(paced.pace, Some(Pace { hz: 150_000_000, insn_shift: 2 }));
        assert_eq!(find("hazard3@32768").unwrap().pace.unwrap().hz, 32_768);
        assert_eq!(find("hazard3").unwrap().pace, None);
        for bad in ["hazard3@", "hazard3@fast", "hazard3@0", "hazard3@2GHz", "@48M", "nothing@48M"] {
            assert!(find(bad).is_err(), "{bad}");
        }
        assert!(find("hazard3@2GHz").unwrap_err().contains("2GHz is not a frequency from 1 Hz to 1 GHz"));
        // The image has no part in that.
        assert!(!find("nothing@48M").unwrap_err().contains("fw.elf") && find("@48M").unwrap_err().contains("fw.elf"));
    }
}
