// SPDX-License-Identifier: MIT OR Apache-2.0
//! The chips that an image may be for, by the addresses of peripherals that its code has: also an image without names, a
//! raw binary or an Intel HEX, points to its chip.

use std::collections::{BTreeMap, BTreeSet};

use super::hints::Hint;
use super::{Chip, base};
use crate::image::{Arch, Image};

/// Peripherals that must be found before a chip is likely: fewer are shared by chips of several vendors.
const FEW: usize = 8;

/// Letters of a chip's name that its closest relatives share.
const FAMILY: usize = 6;

/// Share of the best chip's peripherals, in percent, from which another processor's chip is as good.
const ALIKE_PERCENT: usize = 90;

/// Opcode of RISC-V's `lui`, and of `addi` with its function.
const LUI: u32 = 0x37;
const ADDI: u32 = 0x13;

/// Certainty of a suggestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likelihood {
    /// The image names the chip, and nothing else fits as well.
    Named,
    /// All peripherals whose addresses its code has are the chip's, and no chip of another processor or family has as many.
    Likely,
    /// A relative, or a chip that is not described, has these addresses, too.
    Possible,
}

/// A chip with the evidence for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name of the chip.
    pub chip: &'static str,
    /// Its processor.
    pub cpu: &'static str,
    /// Peripherals of the chip whose first address the code has.
    pub peripherals: usize,
}

/// Chips that an image may be for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// Chip to which the file points by names; None: it points to none, or to several.
    pub hint: Option<Hint>,
    /// Chips that have memory for the image and peripherals at addresses of its code, the best first.
    pub rows: Vec<Row>,
    /// Addresses in the code at which any chip that is known has a peripheral.
    pub peripherals: usize,
}

impl Suggestion {
    /// Finds the chips that an image may be for, among those that have memory for it. `hint`: the one that it names.
    pub fn of(image: &Image, fit: &[&'static str], hint: Option<Hint>) -> Suggestion {
        let addresses = addresses(image);
        let mut any: BTreeSet<u64> = BTreeSet::new();
        let mut rows = Vec::new();
        for chip in super::built_in().iter().filter(|chip| is_alike(chip, image.arch)) {
            let found: BTreeSet<u64> = first_addresses(chip).filter(|first| addresses.contains(first)).collect();
            if fit.contains(&chip.name.as_str()) && !found.is_empty() {
                rows.push(Row { chip: &chip.name, cpu: &chip.cpu, peripherals: found.len() });
            }
            any.extend(found);
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.peripherals));
        Suggestion { hint, rows, peripherals: any.len() }
    }

    /// Whether no chip has more of the peripherals whose addresses the code has than the one that the file names.
    pub fn is_undisputed(&self) -> bool {
        self.rows.iter().all(|row| row.peripherals <= self.of_named())
    }

    /// Whether the code has the addresses of many peripherals of the chip that the file names.
    pub fn is_evident(&self) -> bool {
        self.of_named() >= FEW
    }

    /// Peripherals, whose addresses the code has, of the chip that the file names.
    fn of_named(&self) -> usize {
        let is_named = |row: &&Row| self.hint.as_ref().is_some_and(|hint| hint.name == row.chip);
        self.rows.iter().find(is_named).map_or(0, |row| row.peripherals)
    }

    /// The chips for which most speaks, and how sure that is. None: nothing points to a chip.
    pub fn best(&self) -> Option<(Vec<&'static str>, Likelihood)> {
        if let Some(hint) = &self.hint {
            return Some((vec![hint.name], Likelihood::Named));
        }
        let best = self.rows.first()?;
        let equal: Vec<&Row> = self.rows.iter().take_while(|row| row.peripherals == best.peripherals).collect();
        let is_as_good = |row: &&Row| 100 * row.peripherals >= ALIKE_PERCENT * best.peripherals;
        let has_one_processor = self.rows.iter().filter(is_as_good).all(|row| row.cpu == best.cpu);
        let is_one_family = equal.iter().all(|row| family(row.chip) == family(best.chip));
        let has_all = best.peripherals == self.peripherals;
        let likelihood = match has_all && self.peripherals >= FEW && has_one_processor && is_one_family {
            true => Likelihood::Likely,
            false => Likelihood::Possible,
        };
        Some((equal.into_iter().map(|row| row.chip).collect(), likelihood))
    }
}

/// Beginning of a chip's name that it has in common with its closest relatives: `stm32f`, `nrf528`.
fn family(chip: &str) -> &str {
    chip.get(..FAMILY).unwrap_or(chip)
}

/// Whether a chip is of an image's instruction set.
fn is_alike(chip: &Chip, arch: Option<Arch>) -> bool {
    match arch {
        Some(Arch::Avr) => false,
        Some(Arch::Riscv32 | Arch::Riscv64) => base::riscv(&chip.cpu).is_some(),
        Some(Arch::CortexM) | None => chip.cpu.starts_with("cortex-"),
    }
}

/// First addresses of a chip's peripherals that its file describes.
fn first_addresses(chip: &Chip) -> impl Iterator<Item = u64> + '_ {
    chip.wire.blocks.iter().filter(|block| !block.is_undescribed).map(|block| block.start)
}

/// Addresses that an image's code makes: the words between its functions on Arm, the pairs of `lui` and `addi` on RISC-V.
fn addresses(image: &Image) -> BTreeSet<u64> {
    let is_riscv = matches!(image.arch, Some(Arch::Riscv32 | Arch::Riscv64));
    let of = |data: &[u8]| if is_riscv { immediates(data) } else { words(data) };
    image.segments.iter().flat_map(|segment| of(&segment.data)).collect()
}

/// The aligned words of some bytes.
fn words(data: &[u8]) -> BTreeSet<u64> {
    let (words, _) = data.as_chunks::<4>();
    words.iter().map(|&word| u64::from(u32::from_le_bytes(word))).collect()
}

/// Values that `lui`, with an `addi` behind it that may be some instructions away, makes.
fn immediates(data: &[u8]) -> BTreeSet<u64> {
    let at = |offset: usize| Some(u32::from_le_bytes(*data.get(offset..)?.first_chunk()?));
    let mut upper: BTreeMap<u32, u32> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for offset in (0..data.len()).step_by(2) {
        let Some(word) = at(offset) else { break };
        let (to, from) = (word >> 7 & 31, word >> 15 & 31);
        if word & 0x7f == LUI {
            upper.insert(to, word & 0xffff_f000);
            found.insert(u64::from(word & 0xffff_f000));
        } else if word & 0x707f == ADDI
            && let Some(upper) = upper.get(&from)
        {
            found.insert(u64::from(upper.wrapping_add_signed(word as i32 >> 20)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggestion(rows: &[(&'static str, &'static str, usize)], peripherals: usize) -> Suggestion {
        let rows = rows.iter().map(|&(chip, cpu, peripherals)| Row { chip, cpu, peripherals }).collect();
        Suggestion { hint: None, rows, peripherals }
    }

    #[test]
    fn a_chip_is_likely_if_it_has_all_and_no_other_family_as_many() {
        let one = suggestion(&[("stm32f103", "cortex-m3", 22), ("stm32f413", "cortex-m4", 17)], 22);
        assert_eq!(one.best(), Some((vec!["stm32f103"], Likelihood::Likely)));
        // The larger chip of the next processor has all that the smaller one has.
        let two = suggestion(&[("stm32f767", "cortex-m7", 21), ("stm32f407", "cortex-m4", 19)], 21);
        assert_eq!(two.best(), Some((vec!["stm32f767"], Likelihood::Possible)));
        let few = suggestion(&[("nrf52840", "cortex-m4", 3)], 3);
        assert_eq!(few.best().map(|best| best.1), Some(Likelihood::Possible));
        // A chip of another series, which is not described, has the two that are missing.
        let other = suggestion(&[("stm32l476", "cortex-m4", 19)], 21);
        assert_eq!(other.best().map(|best| best.1), Some(Likelihood::Possible));
        let families = suggestion(&[("stm32f303", "cortex-m4", 14), ("stm32l476", "cortex-m4", 14)], 14);
        assert_eq!(families.best().map(|best| best.1), Some(Likelihood::Possible));
        let third = suggestion(&[("rp2040", "cortex-m0", 9)], 27);
        assert_eq!(third.best().map(|best| best.1), Some(Likelihood::Possible));
        assert_eq!(suggestion(&[], 4).best(), None);
    }

    #[test]
    fn a_name_is_disputed_by_code_for_another_chip() {
        let hint = |name| Some(Hint { name, why: "which the image names".to_owned() });
        let rows = [("stm32f103", "cortex-m3", 12), ("stm32f407", "cortex-m4", 10)];
        let of = |name| Suggestion { hint: hint(name), ..suggestion(&rows, 12) };
        assert!(of("stm32f103").is_undisputed() && of("stm32f103").is_evident());
        assert!(!of("stm32f407").is_undisputed() && of("stm32f407").is_evident());
        // The code has none of the addresses of this chip.
        assert!(!of("nrf52840").is_undisputed() && !of("nrf52840").is_evident());
        let silent = Suggestion { hint: hint("nrf52840"), ..suggestion(&[], 0) };
        assert!(silent.is_undisputed() && !silent.is_evident());
    }

    #[test]
    fn relatives_with_as_many_are_named_together() {
        let alike = suggestion(&[("nrf52832", "cortex-m4", 9), ("nrf52840", "cortex-m4", 9)], 9);
        assert_eq!(alike.best(), Some((vec!["nrf52832", "nrf52840"], Likelihood::Likely)));
    }

    #[test]
    fn risc_v_makes_an_address_of_two_instructions() {
        // lui a5, 0x40013; nop; addi a5, a5, -0x800; lui a4, 0x40021
        let code: [u32; 4] = [0x4001_37b7, 0x0000_0013, 0x8007_8793, 0x4002_1737];
        let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(immediates(&bytes), BTreeSet::from([0x4001_3000, 0x4001_2800, 0x4002_1000]));
        // A word of data between the functions of Arm, which is aligned.
        assert_eq!(words(&[1, 0, 0, 0x40, 2, 0, 0, 0x40, 9]), BTreeSet::from([0x4000_0001, 0x4000_0002]));
    }
}
