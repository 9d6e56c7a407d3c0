// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places of code in the source, as an optimising compiler finds them again in its own code: function by linkage name,
//! lines counted from the function's definition, discriminators, and the calls through which functions were inlined.
//!
//! addr2line gives neither definitions' lines nor discriminators, so the entries and line tables are read here, once
//! per unit. Damage costs the places of one unit.
//!
//! LLVM encodes three numbers in a discriminator (`DILocation::encodeDiscriminator`): the base discriminator, which
//! tells apart the blocks of one line; the number of copies that unrolling or vectorising made of the code; and the
//! number of the copy. Profiles contain the first, and counts are multiplied by the second. gcc's discriminators are
//! plain numbers of its own, which no other compiler finds again.

use std::ops::Range;

use gimli::{self, AttributeValue, DebuggingInformationEntry, UnitOffset, UnitRef};

use super::dwarf::{Dwarf, MAX_HOPS, Slice, Unit, producer};
use super::entry_ranges::EntryRanges;
use crate::profile::bounds::MAX_PLACES;

/// Place of an instruction, or of the call through which the next place's function was inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct DwarfPlace<'a> {
    /// Linkage name of the function, or its name in the source if there is none.
    pub(super) function: &'a [u8],
    /// Line of the function's definition.
    pub(super) start_line: u32,
    /// Line of the instruction or call.
    pub(super) line: u32,
    /// Base discriminator.
    pub(super) discriminator: u32,
    /// Number of copies that the compiler made of the code, at least 1.
    pub(super) copies: u32,
}

/// Reads the places of executed addresses (sorted, without load bias): for each a list, outermost function first, which
/// is empty where the debug information does not tell.
pub(super) fn read<'a>(dwarf: &Dwarf<'a>, executed: &[u64]) -> Vec<Vec<DwarfPlace<'a>>> {
    let mut reader = Reader {
        dwarf,
        executed,
        places: vec![Vec::new(); executed.len()],
        owners: vec![None; executed.len()],
        touched: Vec::new(),
        lines: vec![None; executed.len()],
        // Each function around an address is one visit. Ranges and rows are those of the whole image, even if little of
        // it ran, but each takes a byte or more.
        visits: executed.len().saturating_mul(MAX_PLACES).saturating_add(dwarf.size_bytes()),
    };
    for (number, unit) in dwarf.units().enumerate() {
        let is_llvm = is_llvm(&unit);
        if reader.functions(number, &unit, is_llvm).is_none() {
            reader.forget();
        }
        // Damage ends the search in this unit.
        let _ = reader.lines(&unit, is_llvm);
        if reader.visits == 0 {
            break;
        }
    }
    reader.finish()
}

/// Line and discriminator.
type Position = (u32, u64);

struct Reader<'d, 'a> {
    dwarf: &'d Dwarf<'a>,
    executed: &'d [u64],
    places: Vec<Vec<DwarfPlace<'a>>>,
    /// Function that the places of each address belong to: numbers of the unit and of the function in it.
    owners: Vec<Option<(usize, usize)>>,
    /// Position by the line table, and whether the unit's compiler is LLVM.
    lines: Vec<Option<(Position, bool)>>,
    /// Indices of the addresses that belong to functions of the current unit.
    touched: Vec<usize>,
    /// Visits of ranges, rows and addresses that are left; an image made to harm could need any number.
    visits: usize,
}

impl<'a> Reader<'_, 'a> {
    /// Adds the functions of a unit to the addresses that they contain; None: damage, or no visits are left.
    fn functions(&mut self, number: usize, unit: &UnitRef<'_, Slice<'a>>, is_llvm: bool) -> Option<()> {
        self.touched.clear();
        let mut entries = unit.entries();
        // Depths in the tree and numbers of the functions around the current entry, outermost first: a class or lambda
        // that is declared in a function has functions of its own.
        let mut around: Vec<(isize, usize)> = Vec::new();
        let mut functions = 0;
        while let Some(entry) = entries.next_dfs().ok()? {
            while around.pop_if(|outer| outer.0 >= entry.depth()).is_some() {}
            let is_inlined = entry.tag() == gimli::DW_TAG_inlined_subroutine;
            if entry.tag() == gimli::DW_TAG_subprogram {
                functions += 1;
                around.push((entry.depth(), functions));
            } else if !is_inlined {
                continue;
            }
            let Some(&(_, current)) = around.last() else { continue };
            let mut function = None;
            let mut ranges = EntryRanges::of(unit, entry).ok()?;
            while let Some(range) = ranges.next().ok()? {
                self.spend()?;
                for at in self.among(range.begin..range.end) {
                    self.spend()?;
                    let call = match (is_inlined, self.owners[at]) {
                        (false, None) => {
                            self.touched.push(at);
                            None
                        }
                        (true, owner) if owner == Some((number, current)) => Some(call(entry)),
                        // A second function at one address: code that the linker has discarded or folded.
                        _ => continue,
                    };
                    let named = *function.get_or_insert_with(|| self.definition(unit, entry));
                    let Some((name, start_line)) = named.filter(|_| self.places[at].len() < MAX_PLACES) else {
                        // Without this function, its caller's place is not the instruction's either.
                        self.places[at].clear();
                        self.owners[at] = Some((number, 0));
                        continue;
                    };
                    self.owners[at] = Some((number, current));
                    if let (Some(call), Some(caller)) = (call, self.places[at].last_mut()) {
                        caller.set(call, is_llvm);
                    }
                    self.places[at].push(DwarfPlace {
                        function: name,
                        start_line,
                        line: 0,
                        discriminator: 0,
                        copies: 1,
                    });
                }
            }
        }
        Some(())
    }

    /// Takes one of the visits that are left.
    fn spend(&mut self) -> Option<()> {
        self.visits = self.visits.checked_sub(1)?;
        Some(())
    }

    /// Removes the places of the current unit: functions may be missing in them, and then they are wrong.
    fn forget(&mut self) {
        for at in self.touched.drain(..) {
            self.places[at].clear();
        }
    }

    /// Finds the positions of a unit's line table; None: there is none, damage, or no visits are left.
    fn lines(&mut self, unit: &UnitRef<'_, Slice<'a>>, is_llvm: bool) -> Option<()> {
        // The lines of a function are in its own unit. A unit of types has another unit's table, which would be read
        // again.
        if self.touched.is_empty() {
            return None;
        }
        let mut rows = unit.line_program.clone()?.rows();
        let mut last: Option<(u64, Position)> = None;
        while let Some((_, row)) = rows.next_row().ok()? {
            self.spend()?;
            if let Some((start, position)) = last {
                for at in self.among(start..row.address()) {
                    self.spend()?;
                    self.lines[at] = Some((position, is_llvm));
                }
            }
            let line = row.line().and_then(|line| u32::try_from(line.get()).ok()).unwrap_or(0);
            last = (!row.end_sequence()).then_some((row.address(), (line, row.discriminator())));
        }
        Some(())
    }

    /// Indices of the executed addresses in a range.
    fn among(&self, range: Range<u64>) -> Range<usize> {
        let index = |address: u64| self.executed.partition_point(|&pc| pc < address);
        index(range.start)..index(range.end).max(index(range.start))
    }

    /// Name and first line of a function: its own, or those of the entries that it refers to.
    fn definition(
        &self,
        unit: &UnitRef<'_, Slice<'a>>,
        entry: &DebuggingInformationEntry<Slice<'a>>,
    ) -> Option<(&'a [u8], u32)> {
        let (mut linkage_name, mut name, mut line) = (None, None, None);
        let (mut other_unit, mut offset) = (None::<&Unit<'a>>, entry.offset());
        for _ in 0..MAX_HOPS {
            let unit = other_unit.map_or(*unit, |other| self.dwarf.unit_ref(other));
            let entry = unit.entry(offset).ok()?;
            let text = |of| Some(unit.attr_string(entry.attr_value(of)?).ok()?.slice());
            linkage_name = linkage_name.or_else(|| text(gimli::DW_AT_linkage_name));
            name = name.or_else(|| text(gimli::DW_AT_name));
            line = line.or_else(|| entry.attr_value(gimli::DW_AT_decl_line)?.udata_value());
            let next: Option<(Option<&Unit<'a>>, UnitOffset)> = self.dwarf.origin(&unit, &entry);
            let Some(origin) = next.filter(|_| linkage_name.is_none() || line.is_none()) else { break };
            offset = origin.1;
            other_unit = origin.0.or(other_unit);
        }
        Some((linkage_name.or(name)?, u32::try_from(line?).ok()?))
    }

    /// Gives the innermost places their lines, and removes those without one.
    fn finish(mut self) -> Vec<Vec<DwarfPlace<'a>>> {
        for (places, line) in self.places.iter_mut().zip(&self.lines) {
            match (places.last_mut(), line) {
                (Some(innermost), &Some((position @ (1.., _), is_llvm))) => innermost.set(position, is_llvm),
                _ => places.clear(),
            }
        }
        self.places
    }
}

impl DwarfPlace<'_> {
    fn set(&mut self, (line, discriminator): Position, is_llvm: bool) {
        self.line = line;
        (self.discriminator, self.copies) = if is_llvm { decoded(discriminator) } else { (0, 1) };
    }
}

/// Position of the call through which a function was inlined.
fn call(entry: &DebuggingInformationEntry<Slice<'_>>) -> Position {
    let number = |of| entry.attr_value(of).and_then(|value: AttributeValue<_>| value.udata_value()).unwrap_or(0);
    (u32::try_from(number(gimli::DW_AT_call_line)).unwrap_or(0), number(gimli::DW_AT_GNU_discriminator))
}

/// Whether a unit's compiler is one of LLVM's, as far as its name tells.
fn is_llvm(unit: &UnitRef<'_, Slice<'_>>) -> bool {
    let producer = producer(unit).unwrap_or_default().to_ascii_lowercase();
    ["clang", "llvm", "rustc"].iter().any(|name| producer.contains(name))
}

/// Base discriminator, and number of copies of the code (llvm/IR/DebugInfoMetadata.h, "prefix encoding").
fn decoded(discriminator: u64) -> (u32, u32) {
    // Bit 0 set: the component is 0. Else 5 bits, or 12 if the next one is set.
    let component = |encoded: u64| -> u32 {
        let value = (encoded >> 1) as u32;
        match (encoded & 1, value & 0x20) {
            (1, _) => 0,
            (_, 0) => value & 0x1f,
            _ => ((value >> 1) & 0xfe0) | (value & 0x1f),
        }
    };
    let rest = match (discriminator & 1, discriminator & 0x40) {
        (1, _) => discriminator >> 1,
        (_, 0) => discriminator >> 7,
        _ => discriminator >> 14,
    };
    (component(discriminator), component(rest).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discriminators_are_decoded_as_llvm_encodes_them() {
        // Base 0, 1, 31 and 32; copies 1 (encoded as 0, so absent), 2 and 4. From LLVM's unit test of encodeDiscriminator.
        for (encoded, expected) in [
            (0, (0, 1)),
            (2, (1, 1)),
            (0x1f << 1, (31, 1)),
            (0x20 << 2 | 1 << 6, (32, 1)),
            (1 | 2 << 2, (0, 2)),
            (3 << 1 | 4 << 8, (3, 4)),
        ] {
            assert_eq!(decoded(encoded), expected, "{encoded:#x}");
        }
    }
}
