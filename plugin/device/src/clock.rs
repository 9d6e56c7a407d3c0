// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clock frequencies: each clock is a number of Hz or another clock, multiplied and divided by register fields.

use wire::chip::{Chip, Factor};

/// Deeper than the clock tree of any chip; a circular chain of clocks ends here, as a stopped clock.
const MAX_DEPTH: u32 = 16;

/// Evaluates a factor. `register` returns a register's value, by its block and its index in the block.
pub(crate) fn factor(factor: &Factor, register: &impl Fn(u32, u32) -> u32) -> u64 {
    let value = factor.field.of(register(factor.block, factor.field.register));
    if let Some(last) = factor.map.last() {
        *factor.map.get(value as usize).unwrap_or(last)
    } else if factor.is_power {
        1 << (u64::from(value) + factor.plus).min(32)
    } else {
        u64::from(value) + factor.plus
    }
}

/// A clock's frequency in Hz.
pub(crate) fn hz(chip: &Chip, clock: u32, register: &impl Fn(u32, u32) -> u32) -> u64 {
    at_depth(chip, clock, register, 0)
}

fn at_depth(chip: &Chip, clock: u32, register: &impl Fn(u32, u32) -> u32, depth: u32) -> u64 {
    let Some(clock) = chip.clocks.get(clock as usize).filter(|_| depth < MAX_DEPTH) else { return 0 };
    let selected = clock.select.as_ref().map_or(0, |select| factor(select, register));
    let Some(source) = clock.sources.get(selected as usize).or(clock.sources.last()) else { return 0 };
    let source = source.clock.map_or(source.hz, |clock| at_depth(chip, clock, register, depth + 1));
    let product = |factors: &[Factor]| {
        factors.iter().map(|one| u128::from(factor(one, register))).fold(1u128, |all, one| all.saturating_mul(one))
    };
    let hz = u128::from(source).saturating_mul(product(&clock.multiply)) / product(&clock.divide).max(1);
    u64::try_from(hz).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::chip::{Clock, Field, Source};

    #[test]
    fn a_pll_is_computed_from_what_the_firmware_has_written() {
        let of = |register, mask, plus, map: &[u64]| Factor {
            block: 0,
            field: Field { register, mask },
            plus,
            map: map.to_vec(),
            is_power: false,
        };
        let clock =
            |sources, select, multiply, divide| Clock { name: String::new(), sources, select, multiply, divide };
        let fixed = |hz| Source { hz, clock: None };
        let other = |clock| Source { hz: 0, clock: Some(clock) };
        let chip = Chip {
            clocks: vec![
                clock(
                    vec![fixed(16_000_000), fixed(8_000_000)],
                    Some(of(0, 1 << 22, 0, &[])),
                    vec![of(0, 0x7fc0, 0, &[])],
                    vec![of(0, 0x3f, 0, &[]), of(0, 0x30000, 0, &[2, 4, 6, 8])],
                ),
                clock(vec![fixed(16_000_000), other(0)], Some(of(1, 2, 0, &[])), vec![], vec![]),
                clock(vec![other(2)], None, vec![], vec![]),
            ],
            ..Chip::default()
        };
        let pllcfgr = 1 << 22 | 168 << 6 | 4;
        let register = |cfgr: u32| move |_, index| if index == 0 { pllcfgr } else { cfgr };
        assert_eq!(hz(&chip, 0, &register(0)), 168_000_000);
        assert_eq!(hz(&chip, 1, &register(0)), 16_000_000);
        assert_eq!(hz(&chip, 1, &register(2)), 168_000_000);
        assert_eq!(hz(&chip, 2, &register(0)), 0, "a clock that is made from itself stands");
    }
}
