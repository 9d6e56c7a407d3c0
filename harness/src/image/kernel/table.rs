// SPDX-License-Identifier: MIT OR Apache-2.0
//! Symbols of an image in which a kernel is searched for.

use std::ops::Range;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolKind};

use super::scan::Scan;
use crate::image::sorted_ranges::holding;
use crate::image::symbols::Symbols;
use crate::image::symbols::dwarf::Sections;

/// Largest plausible number of cores.
const MAX_CORES: u64 = 64;

/// Variable of the firmware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// First address.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u32,
}

/// The ELF in which kernels are searched for, read once for all of them.
pub(super) struct Elf<'a> {
    bytes: &'a [u8],
    file: object::File<'a>,
    pub(super) table: Table<'a>,
}

impl<'a> Elf<'a> {
    /// Reads a file with symbols. None: there is none, or it is not an ELF.
    pub(super) fn read(bytes: Option<&'a [u8]>, load_bias: u64, is_arm: bool) -> Option<Elf<'a>> {
        let bytes = bytes?;
        let file = object::File::parse(bytes).ok()?;
        let table = Table::read(&file, load_bias, is_arm);
        Some(Elf { bytes, file, table })
    }

    pub(super) fn pointer_bytes(&self) -> u32 {
        if self.file.is_64() { 8 } else { 4 }
    }

    /// Whether functions get floating-point arguments in registers: RISC-V's ABI of hard floats.
    pub(super) fn passes_floats(&self) -> bool {
        /// EF_RISCV_FLOAT_ABI, a field of the ELF header's flags.
        const FLOAT_ABI: u32 = 6;
        matches!(self.file.flags(), object::FileFlags::Elf { e_flags, .. } if e_flags.0 & FLOAT_ABI != 0)
    }

    /// Bytes that the file has for a variable.
    pub(super) fn constant(&self, variable: &Variable) -> Option<&'a [u8]> {
        let address = variable.address.wrapping_sub(self.table.load_bias);
        let mut sections = self.file.sections();
        sections.find_map(|section| section.data_range(address, variable.bytes.into()).ok().flatten())
    }

    /// Addresses of each function.
    pub(super) fn extents(&self) -> Vec<Range<u64>> {
        Symbols::new(Some(self.bytes), self.table.load_bias, self.table.is_arm).ranges()
    }

    /// Code of a function from its start on, at most this many bytes.
    pub(super) fn code(&self, name: &str, max_bytes: u64) -> Option<&'a [u8]> {
        let start = self.table.entry(name)?.wrapping_sub(self.table.load_bias);
        let mut sections = self.file.sections();
        sections.find_map(|section| {
            let end = section.address().checked_add(section.size())?.min(start.checked_add(max_bytes)?);
            section.data_range(start, end.checked_sub(start)?).ok()?
        })
    }

    /// Whether the first of these functions that the image has stores registers below a pointer other than the stack's, as
    /// kernels' handlers do on processors with all of Thumb-2 (`stmdb rN!, {…}`). None: the image has none of them.
    pub(super) fn stores_below(&self, handlers: &[&str]) -> Option<bool> {
        /// Most bytes of a handler before that instruction.
        const MAX_BYTES: u64 = 128;
        let code = handlers.iter().find_map(|name| self.code(name, MAX_BYTES))?;
        let is_store = |half: &[u8]| half[1] == 0xe9 && half[0] & 0xf0 == 0x20 && half[0] & 0xf != 13;
        Some(code.chunks_exact(2).any(is_store))
    }

    /// Searches the debug information of a kernel; None: it has none, or not what `read` searches for. Also returns
    /// warnings: `absent` in that case, and `lost`, the consequence, if the debug information cannot be read.
    pub(super) fn described<T>(
        &self,
        extents: &[Range<u64>],
        read: impl FnOnce(&mut Scan<'_, '_>) -> Option<T>,
        absent: &str,
        (kernel, lost): (&str, &str),
    ) -> (Option<T>, Vec<String>) {
        match self.sections(extents) {
            Ok(sections) => {
                let found = sections.and_then(|sections| read(&mut Scan::new(&sections.dwarf())));
                let warnings = if found.is_some() { Vec::new() } else { vec![absent.to_owned()] };
                (found, warnings)
            }
            Err(error) => (None, vec![format!("the debug information of {kernel} cannot be read ({error}): {lost}")]),
        }
    }

    /// Debug information of the code that is in the image.
    pub(super) fn sections(&self, extents: &[Range<u64>]) -> Result<Option<Sections<'a>>, String> {
        let Table { symbols, load_bias, .. } = &self.table;
        let first = extents.first().map_or(u64::MAX..u64::MAX, Clone::clone);
        let at_first = symbols.iter().filter(|symbol| symbol.is_code && symbol.range.start == first.start);
        let names: Vec<&str> = at_first.map(|symbol| symbol.full_name).collect();
        let first = first.start.wrapping_sub(*load_bias)..first.end.wrapping_sub(*load_bias);
        Sections::load(&self.file, &first, &names)
    }
}

/// Symbols of an image that name a place in it.
pub(super) struct Table<'a> {
    symbols: Vec<Symbol<'a>>,
    pub(super) load_bias: u64,
    pub(super) is_arm: bool,
}

/// Named piece of the image.
struct Symbol<'a> {
    full_name: &'a str,
    /// Name without the endings that compilers append to clones: `.constprop.0`, `.lto_priv.0`.
    name: &'a str,
    /// Addresses, cut at the section's end; load bias included.
    range: Range<u64>,
    is_code: bool,
    is_local: bool,
}

impl<'a> Table<'a> {
    fn read(file: &object::File<'a>, load_bias: u64, is_arm: bool) -> Self {
        let mut symbols: Vec<Symbol<'a>> =
            file.symbols().filter_map(|symbol| Symbol::of(file, &symbol, load_bias, is_arm)).collect();
        if file.symbols().next().is_none() {
            // A stripped static-pie still has its dynamic symbols.
            symbols.extend(file.dynamic_symbols().filter_map(|symbol| Symbol::of(file, &symbol, load_bias, is_arm)));
        }
        // Among namesakes the kernel's own symbol is the global one; its clones come after it.
        symbols.sort_by_key(|symbol| (symbol.is_local, symbol.full_name.len(), symbol.range.start));
        Table { symbols, load_bias, is_arm }
    }

    pub(super) fn variable(&self, name: &str, is_size: impl Fn(u64) -> bool) -> Option<Variable> {
        let bytes = |symbol: &Symbol<'_>| symbol.range.end - symbol.range.start;
        let mut variables = self.symbols.iter().filter(|symbol| !symbol.is_code && symbol.name == name);
        let found = variables.find(|symbol| is_size(bytes(symbol)))?;
        Some(Variable { address: found.range.start, bytes: bytes(found) as u32 })
    }

    /// Address and number of the pointers in a variable: a single one, or an array.
    pub(super) fn pointers(&self, name: &str, pointer_bytes: u32) -> Option<(u64, u32)> {
        let unit = u64::from(pointer_bytes);
        let is_size = |bytes: u64| bytes.is_multiple_of(unit) && (1..=MAX_CORES).contains(&(bytes / unit));
        let Variable { address, bytes } = self.variable(name, is_size)?;
        Some((address, bytes / pointer_bytes))
    }

    /// Start of a function: of the function itself, not of a part that was split off.
    pub(super) fn entry(&self, name: &str) -> Option<u64> {
        let is_part = |full: &str| full.contains(".part.") || full.contains(".cold");
        let mut functions = self.symbols.iter().filter(|symbol| symbol.is_code && symbol.name == name);
        functions.find(|symbol| !is_part(symbol.full_name)).map(|symbol| symbol.range.start)
    }

    /// Code of the functions by name, and of those that start or continue at `inlined` addresses, which are without load
    /// bias.
    pub(super) fn switchers(
        &self,
        is_switcher: impl Fn(&str) -> bool,
        extents: &[Range<u64>],
        inlined: &[u64],
    ) -> Vec<Range<u64>> {
        let around = |address: u64| holding(extents, address).map(|index| extents[index].clone());
        let named = self.symbols.iter().filter(|symbol| symbol.is_code && is_switcher(symbol.name));
        // A symbol inside a function cuts its extent, and one without a size has nothing but an extent: take both.
        let mut ranges: Vec<Range<u64>> =
            named.flat_map(|symbol| [Some(symbol.range.clone()), around(symbol.range.start)]).flatten().collect();
        let loaded = inlined.iter().map(|address| address.wrapping_add(self.load_bias));
        let inlined = loaded.map(|address| if self.is_arm { address & !1 } else { address });
        ranges.extend(inlined.filter_map(around));
        ranges.retain(|range| !range.is_empty());
        ranges.sort_by_key(|range| (range.start, range.end));
        ranges.dedup_by(|next, range| {
            let overlaps = next.start < range.end;
            if overlaps {
                range.end = range.end.max(next.end);
            }
            overlaps
        });
        ranges
    }
}

impl<'a> Symbol<'a> {
    fn of(file: &object::File<'a>, symbol: &object::Symbol<'a, '_>, load_bias: u64, arm: bool) -> Option<Symbol<'a>> {
        let section = file.section_by_index(symbol.section_index()?).ok()?;
        // Assembly may leave its functions without a type.
        let is_code = match symbol.kind() {
            SymbolKind::Text => true,
            SymbolKind::Data => false,
            SymbolKind::Unknown => section.kind() == SectionKind::Text,
            _ => return None,
        };
        let full_name = symbol.name().ok()?;
        // Compilers and linkers also number equal local names (`prvIdleTask.42`), so this cuts more than their endings.
        let name = full_name.split('.').next().filter(|name| !name.is_empty())?;
        let section = section.address()..section.address().checked_add(section.size())?;
        let start = if is_code && arm { symbol.address() & !1 } else { symbol.address() };
        if !section.contains(&start) {
            return None;
        }
        let bytes = symbol.size().min(section.end - start);
        let start = start.wrapping_add(load_bias);
        Some(Symbol {
            full_name,
            name,
            range: start..start.checked_add(bytes)?,
            is_code,
            is_local: symbol.is_local(),
        })
    }
}
