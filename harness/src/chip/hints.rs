// SPDX-License-Identifier: MIT OR Apache-2.0
//! The chip that an image is for, by hints in its file: a section for probe-rs, names of chips, its HAL's family, and the
//! size of its vector table.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use object::{Object as _, ObjectSection as _};

use super::Chip;

/// Names that linker scripts of vendors and frameworks give a section with nothing but the vector table.
const VECTOR_SECTIONS: [&str; 5] = [".isr_vector", ".vector_table", ".vectors", ".intvecs", ".interrupts"];

/// Section with the chip's name as probe-rs knows it; the package `probe-rs-meta` writes it.
const TOLD_SECTION: &str = ".probe-rs.chip";

/// Words of a vector table before the first interrupt's.
const EXCEPTIONS: u64 = 16;

/// Length of the longest name in it.
const MAX_TOLD: usize = 64;

/// Number of letters by which a chip's name is longer than its family's: `stm32f407`, `stm32f4`.
const MEMBER: usize = 2;

/// A chip to which a file points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Name of the chip.
    pub name: &'static str,
    /// Reason, which follows "the chip" in a message.
    pub why: String,
}

/// Finds the one chip to which a file points, among the chips that have memory for its image. None: the file points
/// to no chip, or to several.
pub fn find(file: &[u8], fit: &[&'static str]) -> Option<Hint> {
    if let Some(told) = told(file) {
        // Behind the name is the package: STM32F407VG. Another chip's image is for none of these.
        let found =
            fit.iter().copied().filter(|name| told.to_lowercase().starts_with(name)).max_by_key(|name| name.len())?;
        return Some(Hint { name: found, why: format!("as the image tells probe-rs ({told})") });
    }
    let named: Vec<&'static str> = fit.iter().copied().filter(|name| names(file, name)).collect();
    let by_lines = |among: &[&'static str], because: &str| {
        let lines = interrupts(file)?;
        let has =
            |name: &&&'static str| super::find(name).is_ok_and(|chip: Chip| u64::from(chip.wire.lines) == lines);
        let mut found = among.iter().filter(has);
        let (name, None) = (found.next()?, found.next()) else { return None };
        Some(Hint { name, why: format!("{because}, and its vector table has that chip's {lines} interrupts") })
    };
    match named.as_slice() {
        [name] => return Some(Hint { name, why: "which the image names and has memory for".to_owned() }),
        [] => {}
        several => return by_lines(several, "which the image names among others"),
    }
    // `stm32f4xx_hal.c` names a family; a file that also names a member of the family means the member.
    let family =
        |name: &'static str| name.split_at_checked(name.len().checked_sub(MEMBER)?).map(|(family, _)| family);
    let is_named = |name: &&'static str| {
        family(name).is_some_and(|family| names(file, &format!("{family}xx")) && !names_member(file, family))
    };
    let members: Vec<&'static str> = fit.iter().copied().filter(is_named).collect();
    match members.as_slice() {
        [] => None,
        [name] => {
            let family = family(name).unwrap_or_default();
            Some(Hint {
                name,
                why: format!("as the image names its family ({family}xx), of which no other has memory for it"),
            })
        }
        several => by_lines(several, "as the image names its family"),
    }
}

/// Whether a file may point to a chip: a word of it begins as a name of a chip or family does, or as the section for
/// probe-rs. All are searched at once, so that files without any cost little.
pub fn may_point(file: &[u8]) -> bool {
    static BEGINNINGS: LazyLock<AhoCorasick> = LazyLock::new(|| {
        let families = super::names().map(|name| name.get(..name.len().saturating_sub(MEMBER)).unwrap_or(name));
        let beginnings = families.chain([TOLD_SECTION.trim_start_matches('.')]);
        // A table for each state of the search: a third of the time that the smaller form takes.
        let mut search = AhoCorasick::builder();
        search.ascii_case_insensitive(true).kind(Some(AhoCorasickKind::DFA));
        search.build(beginnings).expect("some dozens of short names")
    });
    let begins_word = |at: usize| at.checked_sub(1).is_none_or(|before| !file[before].is_ascii_alphanumeric());
    BEGINNINGS.find_overlapping_iter(file).any(|found| begins_word(found.start()))
}

/// Whether a file names a chip: in a path of its sources, a symbol or a section.
fn names(file: &[u8], chip: &str) -> bool {
    // The package may follow the name: STM32F407VG, nRF52840_xxAA.
    places(file, chip).next().is_some()
}

/// Whether a file names a member of a family: its name and digits.
fn names_member(file: &[u8], family: &str) -> bool {
    places(file, family).any(|at| file.get(at + family.len()).is_some_and(u8::is_ascii_digit))
}

/// Places of a name at the beginning of a word, in upper or lower case.
fn places<'a>(file: &'a [u8], name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let windows = file.windows(name.len()).enumerate();
    let found = windows.filter(move |(_, bytes)| bytes.eq_ignore_ascii_case(name.as_bytes())).map(|(at, _)| at);
    found.filter(|&at| at.checked_sub(1).is_none_or(|before| !file[before].is_ascii_alphanumeric()))
}

/// Name of the chip that an ELF gives to probe-rs. None: no usable name.
fn told(file: &[u8]) -> Option<String> {
    let elf = object::File::parse(file).ok()?;
    let name = String::from_utf8(elf.section_by_name(TOLD_SECTION)?.data().ok()?.to_vec()).ok()?;
    let name = name.trim_matches(|letter: char| letter == '\0' || letter.is_whitespace()).to_owned();
    (!name.is_empty() && name.len() <= MAX_TOLD && name.bytes().all(|byte| byte.is_ascii_graphic())).then_some(name)
}

/// Number of interrupts in the vector table of an ELF. None: the table is not a section of its own.
fn interrupts(file: &[u8]) -> Option<u64> {
    let elf = object::File::parse(file).ok()?;
    let section = VECTOR_SECTIONS.iter().find_map(|name| elf.section_by_name(name))?;
    (section.size() / 4).checked_sub(EXCEPTIONS).filter(|&lines| lines > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(file: &[u8], fit: &[&'static str]) -> Option<&'static str> {
        find(file, fit).map(|hint| hint.name)
    }

    #[test]
    fn a_file_names_a_chip_in_whatever_case_and_with_its_package() {
        assert!(names(b"/src/STM32F407VG.c\0", "stm32f407") && names(b"nrf52840_xxaa", "nrf52840"));
        assert!(!names(b"xstm32f407", "stm32f407") && !names(b"stm32f40", "stm32f407"));
    }

    #[test]
    fn a_file_that_points_nowhere_is_passed_over() {
        for file in [&b"\0.probe-rs.chip\0"[..], b"/STM32F407VG.c", b"nrf52840_xxaa", b"stm32f4xx_hal.c\0"] {
            assert!(may_point(file), "{}", file.escape_ascii());
        }
        assert!(!may_point(b"xstm32f407 stm32 cortex-m4\0") && !may_point(b"") && !may_point(b"stm32f"));
    }

    #[test]
    fn the_family_of_a_hal_chooses_its_only_member_that_fits() {
        let hal = b"../Drivers/stm32f4xx_hal.c\0";
        assert_eq!(named(hal, &["stm32f103", "stm32f407"]), Some("stm32f407"));
        assert_eq!(named(hal, &["stm32f103"]), None);
        assert_eq!(named(hal, &["stm32f405", "stm32f407"]), None, "two of them");
        assert_eq!(named(b"stm32f4xx_hal.c\0stm32f429xx.h\0", &["stm32f407"]), None, "it is for another member");
        let why = find(hal, &["stm32f407"]).unwrap().why;
        assert!(why.contains("its family (stm32f4xx)"), "{why}");
    }
}
