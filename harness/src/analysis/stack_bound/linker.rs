// SPDX-License-Identifier: MIT OR Apache-2.0
//! Room of the main stack, by the symbols that linker scripts define.

use std::collections::BTreeMap;

use object::{Object as _, ObjectSymbol as _};

use crate::image::rooms::LIMIT;

/// Symbols behind the last variable. A heap begins there, and the stack grows towards it.
/// The last three are those of Rust's cortex-m-rt.
const ENDS: [&str; 10] = [
    "_end",
    "end",
    "__end__",
    "__bss_end",
    "__bss_end__",
    "_ebss",
    "__HeapLimit",
    "__ebss",
    "__euninit",
    "_stack_end",
];

/// Symbol whose value is the size of the reservation that STM32's linker scripts check when the firmware is linked.
const RESERVED: &str = "_Min_Stack_Size";

/// Largest room: below a stack in one memory, the variables of another one are no limit.
const MAX_ROOM_BYTES: u64 = 16 << 20;

/// Symbols about the main stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Linker {
    values: BTreeMap<&'static str, u64>,
}

impl Linker {
    /// Reads the symbols of an ELF file.
    pub(super) fn read(elf: &[u8]) -> Linker {
        let Ok(file) = object::File::parse(elf) else { return Linker::default() };
        let known = || ENDS.into_iter().chain([LIMIT, RESERVED]);
        let of = |name: &str| known().find(|known| *known == name);
        let symbols = file.symbols().filter(|symbol| symbol.is_definition());
        let values = symbols.filter_map(|symbol| Some((of(symbol.name().ok()?)?, symbol.address())));
        Linker { values: values.collect() }
    }

    /// Bytes below a stack's end that the stack may use: down to its limit, or else to the end of the variables.
    /// `variables` are the addresses behind variables. None: no symbol says so.
    pub(super) fn room(&self, end: u64, variables: impl Iterator<Item = u64>) -> Option<u64> {
        let below = |low: &u64| *low < end && end - *low <= MAX_ROOM_BYTES;
        let limit = self.values.get(LIMIT).copied().filter(below);
        let low =
            limit.or_else(|| ENDS.iter().filter_map(|name| self.values.get(name)).copied().filter(below).max())?;
        // A section that the symbol does not know of, as one that start-up code leaves as it is.
        let low = variables.filter(below).fold(low, u64::max);
        Some(end - low)
    }

    /// Bytes that the linker script reserves. The stack may use more.
    pub(super) fn reserved(&self) -> Option<u64> {
        self.values.get(RESERVED).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u64 = 0x2001_0000;

    fn room(values: &[(&'static str, u64)], variables: &[u64]) -> Option<u64> {
        let linker = Linker { values: values.iter().copied().collect() };
        linker.room(END, variables.iter().copied())
    }

    #[test]
    fn the_room_ends_at_the_limit_or_else_at_the_variables() {
        let bss = ("__bss_end", 0x2000_0100);
        assert_eq!(room(&[bss], &[]), Some(0xff00));
        assert_eq!(room(&[bss, ("_end", 0x2000_0200)], &[]), Some(0xfe00), "the highest one");
        assert_eq!(room(&[bss, (LIMIT, 0x2000_f000)], &[]), Some(0x1000), "the limit is meant");
        assert_eq!(room(&[bss], &[0x2000_0800]), Some(0xf800), "a variable behind them");
    }

    #[test]
    fn another_memory_is_no_limit_and_a_reservation_is_none() {
        assert_eq!(room(&[("__bss_end", 0x1000_0100)], &[]), None, "variables in another memory");
        assert_eq!(room(&[("__bss_end", 0x2001_0000)], &[]), None, "a stack below the variables");
        assert_eq!(room(&[(RESERVED, 0x400)], &[0x2000_0800]), None);
        let linker = Linker { values: [(RESERVED, 0x400)].into() };
        assert_eq!(linker.reserved(), Some(0x400));
    }
}
