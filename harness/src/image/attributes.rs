// SPDX-License-Identifier: MIT OR Apache-2.0
//! Build attributes: the compiler's notes about the processor that it compiled for.
//!
//! Arm: "Addenda to, and Errata in, the ABI for the Arm Architecture", section 3 (addenda32); RISC-V: the psABI's
//! "Attributes". The object crate reads the containers; the meaning of the tags is here.

use object::read::elf::{AttributeReader, AttributesSection, FileHeader};

use super::{ArmLevel, ArmNeeds, Fpu};

/// Contents of an `.ARM.attributes` section.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arm {
    arch: Option<u64>,
    profile: Option<u64>,
    fp_arch: u64,
    hard_fp_use: u64,
    dsp: bool,
    name: Option<String>,
}

/// Profile of the processor that the code was built for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Profile {
    /// M profile, with these demands.
    Microcontroller(ArmNeeds),
    /// Another profile, in words: `v7-A`.
    Other(String),
    /// The section names no profile.
    Unsaid,
}

impl Arm {
    pub(super) fn profile(self) -> Profile {
        let profile = match self.profile {
            Some(letter @ (0x41 | 0x52 | 0x53)) => Some(char::from(letter as u8)),
            _ => None,
        };
        let level = match self.arch {
            Some(10) => ArmLevel::V7M,
            Some(11 | 12) => ArmLevel::V6M,
            Some(13) => ArmLevel::V7EM,
            Some(16) => ArmLevel::V8MBase,
            Some(17) => ArmLevel::V8MMain,
            Some(21) => ArmLevel::V81MMain,
            // GNU ld combines v6-M with assembly for Thumb's first versions to v6K or v6KZ, for microcontrollers.
            Some(0..=7 | 9) if self.profile == Some(0x4d) => ArmLevel::V6M,
            None => return Profile::Unsaid,
            Some(arch) => {
                return Profile::Other(
                    match arch {
                        0..=2 => "before v5",
                        3..=5 => "v5TE",
                        6 | 7 | 9 => "v6",
                        8 => "v6T2",
                        14 => "v8-A",
                        15 => "v8-R",
                        22 => "v9-A",
                        _ => "of an unknown architecture",
                    }
                    .to_owned(),
                );
            }
        };
        if let Some(letter) = profile {
            return Profile::Other(format!("v7-{letter}"));
        }
        Profile::Microcontroller(ArmNeeds {
            level,
            fpu: self.fpu(),
            dsp: self.dsp || level == ArmLevel::V7EM,
            name: self.name,
        })
    }

    fn fpu(&self) -> Fpu {
        let single = self.hard_fp_use == 1;
        match (self.fp_arch, single) {
            (0, _) => Fpu::None,
            (7 | 8, true) => Fpu::V5Single,
            (_, true) => Fpu::V4Single,
            (_, false) => Fpu::V5Double,
        }
    }
}

/// Reads an `.ARM.attributes` section; damaged parts stay at their defaults.
pub(super) fn arm<E: FileHeader>(section: &AttributesSection<'_, E>) -> Arm {
    let mut arm = Arm::default();
    for_file(section, b"aeabi", |tag, attributes| {
        match tag {
            5 => arm.name = Some(text(attributes.read_string().ok()?)),
            4 | 65 | 67 => drop(attributes.read_string().ok()?),
            6 => arm.arch = Some(attributes.read_integer().ok()?),
            7 => arm.profile = Some(attributes.read_integer().ok()?),
            10 => arm.fp_arch = attributes.read_integer().ok()?,
            27 => arm.hard_fp_use = attributes.read_integer().ok()?,
            46 => arm.dsp = attributes.read_integer().ok()? != 0,
            // Tag_compatibility: a flag, then a vendor's name.
            32 => {
                attributes.read_integer().ok()?;
                attributes.read_string().ok()?;
            }
            tag if tag > 32 && tag % 2 == 1 => drop(attributes.read_string().ok()?),
            _ => drop(attributes.read_integer().ok()?),
        }
        Some(())
    });
    arm
}

/// Reads `Tag_RISCV_arch` of a `.riscv.attributes` section.
pub(super) fn riscv<E: FileHeader>(section: &AttributesSection<'_, E>) -> Option<String> {
    let mut arch = None;
    for_file(section, b"riscv", |tag, attributes| {
        match tag {
            5 => arch = Some(text(attributes.read_string().ok()?)),
            tag if tag % 2 == 1 => drop(attributes.read_string().ok()?),
            _ => drop(attributes.read_integer().ok()?),
        }
        Some(())
    });
    arch.filter(|arch| !arch.is_empty())
}

/// Calls `each` with every tag that holds for the whole file, until it returns None.
fn for_file<E: FileHeader>(
    section: &AttributesSection<'_, E>,
    vendor: &[u8],
    mut each: impl FnMut(u64, &mut AttributeReader<'_>) -> Option<()>,
) {
    let Ok(subsections) = section.subsections() else {
        return;
    };
    for subsection in subsections.map_while(Result::ok).filter(|s| s.vendor() == vendor) {
        for part in
            subsection.subsubsections().map_while(Result::ok).filter(|part| part.tag() == object::elf::Tag_File)
        {
            let mut attributes = part.attributes();
            while let Ok(Some(tag)) = attributes.read_tag() {
                if each(tag, &mut attributes).is_none() {
                    break;
                }
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Name of the device in the note of avr-gcc's start-up code (`.note.gnu.avr.deviceinfo`): after the sizes of the memories
/// comes a table of strings, whose only string is the name.
pub(super) fn avr_device(note: &[u8]) -> Option<String> {
    // The header of a note, its owner `AVR`, six words about memories, and the size and the content of a table of one
    // offset.
    const STRINGS: usize = 12 + 4 + 24 + 4 + 4;
    name(note.get(STRINGS..)?.split(|&byte| byte == 0).find(|text| !text.is_empty())?)
}

/// Name of the device in simavr's section `.mmcu`: records of a tag, a length and their content.
pub(super) fn simavr_device(mut section: &[u8]) -> Option<String> {
    // AVR_MMCU_TAG_NAME (simavr/sim/avr/avr_mcu_section.h).
    const NAME: u8 = 1;
    loop {
        let (&[tag, bytes], rest) = section.split_first_chunk()?;
        let (content, next) = rest.split_at_checked(bytes.into())?;
        if tag == NAME {
            return name(content.split(|&byte| byte == 0).next()?);
        }
        section = next;
    }
}

fn name(bytes: &[u8]) -> Option<String> {
    let text = str::from_utf8(bytes).ok().filter(|text| !text.is_empty())?;
    text.bytes().all(|byte| byte.is_ascii_alphanumeric()).then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile_of(arch: u64, letter: u8) -> Profile {
        Arm { arch: Some(arch), profile: Some(letter.into()), ..Arm::default() }.profile()
    }

    #[test]
    fn what_ld_makes_of_v6_m_and_old_assembly_is_a_microcontrollers() {
        // v6K, v6KZ.
        for arch in [9, 7] {
            let Profile::Microcontroller(needs) = profile_of(arch, b'M') else { panic!("{arch}") };
            assert_eq!(needs.level, ArmLevel::V6M);
            assert_eq!(profile_of(arch, 0), Profile::Other("v6".to_owned()));
        }
        assert_eq!(profile_of(10, b'A'), Profile::Other("v7-A".to_owned()));
    }
}
