// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rooms of stacks that no kernel describes: each variable is one, and so is the memory between two of them. The main stack
//! lies above the last variable, or in an array. A stack that reaches into another room has left its own.

use std::ops::Range;

use object::elf::{SHF_ALLOC, SHF_WRITE};
use object::{File, Object as _, ObjectSection as _, ObjectSymbol as _, SectionFlags, SymbolKind};

use crate::image::symbols::demangle;

/// Symbol at the lowest address that the main stack may use, in the linker scripts of Arm's CMSIS.
pub const LIMIT: &str = "__StackLimit";

/// Largest room below a stack's limit: below a stack in one memory, the variables of another one do not matter.
const MAX_BELOW_LIMIT_BYTES: u64 = 16 << 20;

/// Variables in which C libraries keep the address behind the heap, which `sbrk` moves: STM32's, and picolibc's. Newlib's is
/// local to the function ([`LOCAL_HEAP_END`]).
const HEAP_ENDS: [&str; 2] = ["__sbrk_heap_end", "__malloc_sbrk_top"];

/// Beginning of the name of newlib's variable, before the compiler's number.
const LOCAL_HEAP_END: &str = "heap_end.";

/// Beginnings of the names of sections that hold variables, in a file without symbols.
const SECTIONS: [&str; 4] = [".data", ".bss", ".sdata", ".sbss"];

/// Variables of an image.
#[derive(Default)]
pub struct Variables<'a> {
    variables: Vec<(Range<u64>, Variable<'a>)>,
    /// Address of [`LIMIT`].
    limit: Option<u64>,
}

/// A variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable<'a> {
    /// Its name; None: the file has no symbols, and the range is that of a section.
    name: Option<&'a str>,
    /// Name of its section.
    section: &'a str,
}

impl<'a> Variables<'a> {
    /// Variables in RAM, by the symbols of an ELF file; by its sections if it has no symbols.
    pub fn read(file: &File<'a>, load_bias: u64) -> Variables<'a> {
        let bend = |address: u64, bytes: u64| {
            let start = address.wrapping_add(load_bias);
            start..start.saturating_add(bytes)
        };
        // What assembly declares may have no type.
        let symbols = file.symbols().filter(|symbol| matches!(symbol.kind(), SymbolKind::Data | SymbolKind::Unknown));
        let named = symbols.filter_map(|symbol| {
            let section = file.section_by_index(symbol.section_index()?).ok().filter(is_variable)?;
            let variable = Variable { name: Some(symbol.name().ok()?), section: section.name().ok()? };
            Some((bend(symbol.address(), symbol.size()), variable)).filter(|(range, _)| !range.is_empty())
        });
        let mut variables: Vec<(Range<u64>, Variable<'a>)> = named.collect();
        if variables.is_empty() {
            let known = |name: &&str| SECTIONS.iter().any(|known| name.starts_with(known));
            variables = file
                .sections()
                .filter(is_variable)
                .filter_map(|section| {
                    let variable = Variable { name: None, section: section.name().ok().filter(known)? };
                    Some((bend(section.address(), section.size()), variable))
                })
                .collect();
        }
        variables.retain(|(range, _)| !range.is_empty());
        variables.sort_by_key(|(range, variable)| (range.start, range.end, variable.name));
        let limit = file.symbol_by_name(LIMIT).filter(|symbol| symbol.is_definition());
        Variables { variables, limit: limit.map(|symbol| symbol.address().wrapping_add(load_bias)) }
    }

    /// The rooms that are no memory between two others, sorted and apart: the variables, and the memory below the main stack's
    /// limit.
    pub fn rooms(&self) -> Vec<Range<u64>> {
        let mut rooms: Vec<Range<u64>> = Vec::with_capacity(self.variables.len() + 1);
        for (range, _) in &self.variables {
            match rooms.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => rooms.push(range.clone()),
            }
        }
        if let Some(limit) = self.limit {
            let next = rooms.partition_point(|room| room.start < limit);
            let below = next.checked_sub(1).map_or(0, |index| rooms[index].end);
            let start = below.max(limit.saturating_sub(MAX_BELOW_LIMIT_BYTES));
            if start < limit && !rooms.is_empty() {
                rooms.insert(next, start..limit);
            }
        }
        rooms
    }

    /// Variable in which the C library keeps the address behind its heap.
    pub fn heap_end(&self) -> Option<u64> {
        let is_known = |name: &str| {
            let number = name.strip_prefix(LOCAL_HEAP_END);
            HEAP_ENDS.contains(&name) || number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let mut known = self.variables.iter().filter(|(_, variable)| variable.name.is_some_and(is_known));
        let (range, _) = known.next().filter(|_| known.next().is_none())?;
        Some(range.start)
    }

    /// Smallest variable that contains an address, or else the nearest one below it.
    fn at_or_below(&self, address: u64) -> Option<&(Range<u64>, Variable<'a>)> {
        let around = self.variables.iter().filter(|(range, _)| range.contains(&address));
        let below = || {
            let below = self.variables.iter().filter(|(range, _)| range.end <= address);
            below.max_by_key(|(range, _)| (range.end, range.start))
        };
        around.min_by_key(|(range, _)| range.end - range.start).or_else(below)
    }

    /// Variable that a stack lies in, with its addresses, by the stack's lowest address. None: it lies between variables.
    pub fn stack_at(&self, low: u64) -> Option<(Range<u64>, String)> {
        let (range, variable) = self.at_or_below(low).filter(|(range, _)| range.contains(&low))?;
        Some((range.clone(), variable.name.map(|name| demangle(name).into_owned())?))
    }

    /// Place to which a stack has come that has left its room at `low`: the variable and its section, or the limit. None:
    /// nothing is known to be there.
    pub fn reached(&self, low: u64, sp: u64) -> Option<String> {
        if self.limit == Some(low) && self.variables.iter().all(|(range, _)| range.end <= sp || range.start >= low) {
            return Some(format!("below {LIMIT}"));
        }
        let (range, Variable { name, section }) = self.at_or_below(sp)?;
        // Between the variable and the stack is only what aligns them.
        let is_there = range.contains(&sp) || range.end > sp || low.saturating_sub(range.end) < 64;
        is_there.then(|| match name {
            Some(name) => format!("into {section}: variable {}", demangle(name)),
            None => format!("into {section}"),
        })
    }
}

/// Whether a section's data is written, and lies in the processor's memory.
fn is_variable<'a>(section: &impl object::ObjectSection<'a>) -> bool {
    matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags.contains(SHF_ALLOC | SHF_WRITE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(ranges: &[(Range<u64>, &'static str)], limit: Option<u64>) -> Variables<'static> {
        let known = |(range, name): &(Range<u64>, &'static str)| {
            (range.clone(), Variable { name: Some(*name), section: ".bss" })
        };
        Variables { variables: ranges.iter().map(known).collect(), limit }
    }

    #[test]
    fn variables_that_overlap_are_one_room() {
        let known = variables(&[(0x100..0x200, "all"), (0x140..0x150, "part"), (0x200..0x210, "next")], None);
        assert_eq!(known.rooms(), [0x100..0x200, 0x200..0x210]);
    }

    #[test]
    fn the_memory_below_the_limit_is_a_room() {
        let known = variables(&[(0x100..0x200, "one"), (0x900..0xa00, "behind")], Some(0x800));
        assert_eq!(known.rooms(), [0x100..0x200, 0x200..0x800, 0x900..0xa00]);
        assert_eq!(known.reached(0x800, 0x7f0).unwrap(), "below __StackLimit");
        assert_eq!(known.reached(0x800, 0x1f0).unwrap(), "into .bss: variable one");
        let full = variables(&[(0x100..0x800, "one")], Some(0x800));
        assert_eq!(full.rooms().len(), 1, "the variable");
        assert!(variables(&[], Some(0x800)).rooms().is_empty(), "nothing is judged by it alone");
    }

    #[test]
    fn a_stack_has_come_to_a_variable_or_to_what_aligns_it() {
        let known = variables(&[(0x100..0x104, "flag"), (0x108..0x200, "stack")], None);
        assert_eq!(known.reached(0x108, 0x102).unwrap(), "into .bss: variable flag");
        assert_eq!(known.reached(0x108, 0x106).unwrap(), "into .bss: variable flag");
        assert_eq!(known.reached(0x100, 0xf0), None);
        assert_eq!(known.stack_at(0x108).unwrap(), (0x108..0x200, "stack".to_owned()));
        assert_eq!(known.stack_at(0x200), None, "the main stack, above all variables");
    }
}
