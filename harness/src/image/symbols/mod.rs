// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of addresses: the function from the ELF symbol table, line and inlined functions from DWARF.
//!
//! The symbol table is read here, because names need more than a search by address:
//!
//! * Thumb function symbols have bit 0 set. Mapping symbols (`$t`, `$d`, `$xrv64…`) and assembler labels (`.L1`) are
//!   not functions. Start-up code written in assembly has no type and no size.
//! * A function ends where the next one starts: functions never overlap here. An address inside several functions
//!   belongs to the one that starts last.
//! * An untyped label names code only if no function does. A global or weak label is a function and extends to the
//!   next symbol. Local labels after it count as labels inside it (FreeRTOS's `freertos_risc_v_trap_handler` has
//!   eight), and are functions only if no other symbol names the code.
//!
//! The symbol table decides a function's name; DWARF may have another name (aliases, folded and cloned functions).

mod compiled;
pub(crate) mod dwarf;
pub(crate) mod entry_ranges;
mod missing;
mod overlay;
mod patch;
mod places;
mod search;
mod shared_lists;
mod signatures;
mod stabs;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::Range;

use dwarf::{Dwarf, DwarfFrame, Sections};
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, SectionFlags, SectionIndex, SymbolFlags, SymbolSection, elf,
};
use places::DwarfPlace;
use rustc_hash::FxHashMap;
use wire::request::InlinedCall;

use crate::image::sorted_ranges::holding;
use crate::profile::{Alias, Frame, Function, LineCode, Names, Place};
use crate::text::path::normal;
pub use search::{
    Found, NotFound, are_instances, called, generic, is_rust, nearest, with_async_bodies, without_arguments,
    without_template_arguments,
};
pub use signatures::{Class, Language, Signatures};

/// Functions of one firmware image, at their loaded addresses.
pub struct Symbols<'data> {
    elf: Option<object::File<'data>>,
    load_bias: u64,
    /// Functions by address, load bias included, without overlap.
    functions: Vec<Extent<'data>>,
    /// All symbols of code, aliases and inner labels included, by address and preference.
    labels: Vec<Label<'data>>,
    /// Data among the code, from the assembler's mapping symbols; load bias included, by address.
    data: Vec<Range<u64>>,
    /// Code that was written over the compiled code (stubs), load bias included: DWARF does not apply to it.
    patched: Vec<Range<u64>>,
    /// Code of several overlays, load bias included: which of them was there at a time is not known.
    overlaid: Vec<Range<u64>>,
    /// Addresses at which the image has bytes, load bias included.
    image: Vec<Range<u64>>,
    warnings: Vec<String>,
}

/// Source files by address, from the debug information.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFiles {
    /// Files of functions.
    pub functions: BTreeMap<u64, String>,
    /// Names of the variables at an address, with their files. Variables that the linker has discarded may be among
    /// those at address 0.
    pub variables: BTreeMap<u64, Vec<(String, String)>>,
}

/// Name and address range of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Extent<'data> {
    range: Range<u64>,
    name: Cow<'data, str>,
}

/// Symbol that names code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Label<'data> {
    // The order of the fields is the order of preference at one address.
    address: u64,
    kind: Kind,
    binding: Binding,
    name_bytes: usize,
    name: Cow<'data, str>,
    size_bytes: u64,
    section_end: u64,
    section: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Function,
    Untyped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Global,
    Weak,
    Local,
}

/// Addresses in one section at which code (true) or data (false) starts, according to the assembler.
type Mapping = BTreeMap<u64, bool>;

impl<'data> Symbols<'data> {
    /// Reads the symbol table of an ELF file (the firmware, or the file given with `--symbols`). Without a file all
    /// addresses are nameless. Damage costs names and is reported by [`Symbols::names`].
    pub fn new(elf: Option<&'data [u8]>, load_bias: u64, arm: bool) -> Self {
        let mut symbols = Symbols {
            elf: None,
            load_bias,
            functions: Vec::new(),
            labels: Vec::new(),
            data: Vec::new(),
            patched: Vec::new(),
            overlaid: Vec::new(),
            image: Vec::new(),
            warnings: Vec::new(),
        };
        let Some(bytes) = elf else {
            symbols.warnings.push(
                "there is no symbol table (no ELF file): instructions are shown by address; give the ELF file that \
                 the image was made from with --symbols"
                    .to_owned(),
            );
            return symbols;
        };
        match object::File::parse(bytes) {
            Ok(file) => {
                let Read { labels, bounds, data } = read(&file, load_bias, arm);
                let found = overlay::functions(&labels, &bounds);
                symbols.functions = found.functions;
                symbols.overlaid = found.shared;
                symbols.warnings.extend(found.warning);
                symbols.labels = labels;
                symbols.data = data;
                if symbols.functions.is_empty() {
                    symbols.warnings.push(format!(
                        "the ELF file has no symbols of functions (stripped?): instructions are shown by address; {}",
                        missing::unstripped(&file)
                    ));
                }
                symbols.warnings.extend(missing::warnings(&file, !symbols.functions.is_empty()));
                symbols.elf = Some(file);
            }
            Err(error) => symbols
                .warnings
                .push(format!("the ELF file's sections cannot be read ({error}): instructions are shown by address")),
        }
        symbols
    }

    /// Addresses of all functions, sorted; they do not overlap.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        self.functions.iter().map(|function| function.range.clone()).collect()
    }

    /// Names in the symbol table with the first addresses of their functions; a function with several names comes
    /// once for each.
    pub fn entries(&self) -> impl Iterator<Item = (&str, u64)> {
        let is_first =
            |address| self.functions.binary_search_by_key(&address, |function| function.range.start).is_ok();
        self.labels.iter().map(|label| (&*label.name, label.address)).filter(move |&(_, address)| is_first(address))
    }

    /// Address and size of the symbol with this name, data or code, load bias included.
    pub fn symbol(&self, name: &str) -> Option<(u64, u64)> {
        let symbol = self.elf.as_ref()?.symbol_by_name(name)?;
        Some((symbol.address().wrapping_add(self.load_bias), symbol.size()))
    }

    /// Shortest variable that contains an address, and its first address, load bias included.
    pub fn variable_at(&self, address: u64) -> Option<(&str, u64)> {
        let wanted = address.wrapping_sub(self.load_bias);
        let symbols = self.elf.as_ref()?.symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Data);
        let around =
            symbols.filter(|symbol| wanted.checked_sub(symbol.address()).is_some_and(|at| at < symbol.size()));
        let variable = around.min_by_key(|symbol| (symbol.size(), symbol.name().unwrap_or_default().to_owned()))?;
        Some((variable.name().ok()?, variable.address().wrapping_add(self.load_bias)))
    }

    /// Variables with their addresses, load bias included; a shorter one comes first.
    pub fn variables(&self) -> Vec<(Range<u64>, String)> {
        let symbols = self.elf.iter().flat_map(|elf| elf.symbols());
        let variables = symbols.filter(|symbol| symbol.kind() == object::SymbolKind::Data).filter_map(|symbol| {
            let start = symbol.address().wrapping_add(self.load_bias);
            Some((start..start.checked_add(symbol.size())?, symbol.name().ok()?.to_owned()))
        });
        let mut variables: Vec<(Range<u64>, String)> = variables.filter(|(range, _)| !range.is_empty()).collect();
        variables.sort_by(|(one, name), (other, others)| {
            (one.end - one.start, name).cmp(&(other.end - other.start, others))
        });
        variables
    }

    /// Addresses of the data among the code (literal pools, jump tables), sorted; empty without mapping symbols.
    pub fn data(&self) -> &[Range<u64>] {
        &self.data
    }

    /// Marks code, and the data in it, that was written over the image's code, load bias included. It belongs to the
    /// same functions, but has no source lines and no inlined functions.
    pub fn patch(&mut self, code: &[Range<u64>], data: &[Range<u64>]) {
        self.patched.extend_from_slice(code);
        self.data.extend(data.iter().filter(|range| !range.is_empty()).cloned());
        self.data.sort_by_key(|range| (range.start, range.end));
    }

    /// Sets the addresses at which the image has bytes, load bias included. In an image without any names, such an
    /// address names the function that begins at it.
    pub fn place(&mut self, image: Vec<Range<u64>>) {
        self.image = image;
    }

    /// Makes one function of all that begins in a range of code, called `name`.
    pub fn join(&mut self, range: Range<u64>, name: &'static str) {
        self.functions.retain(|function| !range.contains(&function.range.start));
        let at = self.functions.partition_point(|function| function.range.start < range.start);
        if let Some(before) = self.functions[..at].last_mut() {
            before.range.end = before.range.end.min(range.start);
        }
        self.functions.insert(at, Extent { range, name: Cow::Borrowed(name) });
    }

    /// Whether the debug information is not that of the code at an address.
    fn is_patched(&self, address: u64) -> bool {
        self.patched.iter().any(|range| range.contains(&address)) || holding(&self.overlaid, address).is_some()
    }

    /// Function whose code contains an address.
    fn function_at(&self, address: u64) -> Option<&Extent<'data>> {
        extent_at(&self.functions, address)
    }

    /// Names all functions and lines of the image. `executed` instructions (sorted) also get the functions inlined
    /// there. Also returns warnings about unreadable parts, one sentence per cause.
    pub fn names(&self, executed: &[u64]) -> (Names, Vec<String>) {
        debug_assert!(executed.is_sorted());
        let mut warnings = self.warnings.clone();
        let sections = self.sections();
        warnings.extend(sections.iter().flatten().flat_map(Sections::warnings));
        let dwarf = match &sections {
            Ok(Some(sections)) => Dwarf::new(sections).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error.clone()),
        };
        let dwarf = dwarf.unwrap_or_else(|error| {
            warnings.push(format!(
                "the debug information cannot be read ({error}): functions are named by symbol, without lines and \
                 inlined functions"
            ));
            None
        });

        let mut writer = Writer::default();
        let mut damaged_insns = 0_u64;
        let mut damage = None;
        let mut split = false;
        for &pc in executed {
            let function = self.function_at(pc);
            let compiled = dwarf.as_ref().filter(|_| !self.is_patched(pc));
            let places = match compiled.map(|dwarf| dwarf.frames(pc.wrapping_sub(self.load_bias))) {
                Some(Ok((places, more))) => {
                    split |= more;
                    places
                }
                Some(Err(error)) => {
                    damaged_insns += 1;
                    damage.get_or_insert(error);
                    Vec::new()
                }
                None => Vec::new(),
            };
            writer.add(pc, function, &places);
        }
        if let Some(error) = damage {
            warnings.push(format!(
                "the debug information is damaged ({error}): {damaged_insns} of {} executed addresses are named by \
                 symbol only",
                executed.len()
            ));
        }
        if split {
            warnings.push(
                "some of the debug information is split off into .dwo files, which are not read: inlined functions \
                 are missing there; compile with -gno-split-dwarf"
                    .to_owned(),
            );
        }

        self.place_code(dwarf.as_ref(), executed, &mut writer);
        for function in &self.functions {
            let Range { start, end } = function.range;
            let here = start.wrapping_sub(self.load_bias)..end.wrapping_sub(self.load_bias);
            let lines = dwarf.iter().flat_map(|dwarf| dwarf.lines(here.clone()));
            for line in lines.filter(|line| !self.is_patched(line.0.wrapping_add(self.load_bias))) {
                writer.add_line(line, self.load_bias);
            }
        }
        writer.names.unoptimised = dwarf.as_ref().map(|dwarf| self.unoptimised(dwarf)).unwrap_or_default();
        writer.names.aliases = self.aliases();
        writer.names.async_bodies = dwarf.as_ref().map(Dwarf::async_bodies).unwrap_or_default().into_iter().collect();
        writer.names.producers = dwarf.as_ref().map(Dwarf::producers).unwrap_or_default().into_iter().collect();

        let functions = self.functions.iter().map(|function| self.describe(function, dwarf.as_ref())).collect();
        (writer.finish(functions), warnings)
    }

    /// Adds the places of executed code in the source.
    fn place_code<'a>(&self, dwarf: Option<&Dwarf<'a>>, executed: &[u64], writer: &mut Writer<'a>) {
        let Some(dwarf) = dwarf.filter(|_| !executed.is_empty()) else { return };
        let mut linked: Vec<u64> = executed.iter().map(|pc| pc.wrapping_sub(self.load_bias)).collect();
        // A bias may move code over the end of the address space.
        linked.sort_unstable();
        let lists = places::read(dwarf, &linked);
        let mut before: &[DwarfPlace<'a>] = &[];
        for (pc, list) in linked.iter().zip(&lists) {
            let pc = pc.wrapping_add(self.load_bias);
            let has_places = self.function_at(pc).is_some() && !self.is_patched(pc);
            let places: &[DwarfPlace<'a>] = if has_places { list } else { &[] };
            // Most instructions have the places of the one before.
            if places != before {
                writer.add_places(pc, places);
                before = places;
            }
        }
        writer.names.placed.sort_unstable();
    }

    /// First addresses of the functions whose compiler says that it did not optimise.
    fn unoptimised(&self, dwarf: &Dwarf<'_>) -> Vec<u64> {
        let units = dwarf.unoptimised();
        if units.is_empty() {
            return Vec::new();
        }
        let unit_of = |start: u64| dwarf.unit_at(start.wrapping_sub(self.load_bias));
        let starts = self.functions.iter().map(|function| function.range.start);
        starts.filter(|&start| unit_of(start).is_some_and(|unit| units.contains(&unit))).collect()
    }

    /// Types of the functions, and of the pointers to functions; empty without debug information.
    pub fn signatures(&self) -> Signatures {
        let Ok(Some(sections)) = self.sections() else { return Signatures::default() };
        signatures::read(&sections.dwarf()).moved(self.load_bias)
    }

    /// First addresses of the functions, and of their parts, that a compiler has made, by the debug information.
    pub fn compiled(&self) -> BTreeSet<u64> {
        let Ok(Some(sections)) = self.sections() else { return BTreeSet::new() };
        compiled::starts(&sections.dwarf()).into_iter().map(|start| start.wrapping_add(self.load_bias)).collect()
    }

    /// Functions by address: their ranges, and their names in the symbol table.
    pub fn functions(&self) -> impl Iterator<Item = (&Range<u64>, &str)> {
        self.functions.iter().map(|function| (&function.range, &*function.name))
    }

    /// Source files of functions and variables, by their first addresses (load bias included); `functions` are the
    /// addresses of the functions that are asked for. Addresses without debug information are left out.
    pub fn sources(&self, functions: &BTreeSet<u64>) -> SourceFiles {
        let Ok(Some(sections)) = self.sections() else { return SourceFiles::default() };
        let Ok(dwarf) = Dwarf::new(&sections) else { return SourceFiles::default() };
        let at = |(address, named): (u64, Vec<(String, String)>)| (address.wrapping_add(self.load_bias), named);
        SourceFiles {
            functions: self.files_of(functions, &dwarf),
            variables: dwarf.variables().into_iter().map(at).collect(),
        }
    }

    /// Source files of functions alone, see [`Symbols::sources`].
    pub fn function_sources(&self, functions: &BTreeSet<u64>) -> BTreeMap<u64, String> {
        let Ok(Some(sections)) = self.sections() else { return BTreeMap::new() };
        Dwarf::new(&sections).map_or_else(|_| BTreeMap::new(), |dwarf| self.files_of(functions, &dwarf))
    }

    fn files_of(&self, functions: &BTreeSet<u64>, dwarf: &Dwarf<'_>) -> BTreeMap<u64, String> {
        let file_of = |&address: &u64| {
            let linked = address.wrapping_sub(self.load_bias);
            let exact = dwarf.definition_at(linked).map(|(file, _)| file);
            Some((address, exact.or_else(|| dwarf.line_at(linked).map(|(file, _)| file))?))
        };
        functions.iter().filter_map(file_of).collect()
    }

    /// The debug information, if there is any.
    fn sections(&self) -> Result<Option<Sections<'data>>, String> {
        let first = self.functions.first().map_or(u64::MAX..u64::MAX, |function| function.range.clone());
        let same_start = |label: &&Label<'_>| label.address == first.start;
        let names: Vec<&str> = self.labels.iter().filter(same_start).map(|label| label.name.as_ref()).collect();
        let first = first.start.wrapping_sub(self.load_bias)..first.end.wrapping_sub(self.load_bias);
        self.elf.as_ref().map_or(Ok(None), |elf| Sections::load(elf, &first, &names))
    }

    /// Calls made by inlined code, among those that return to the given addresses (sorted). Empty if the debug
    /// information cannot be read, which [`Symbols::names`] reports.
    pub fn inlined_calls(&self, returns: &[u64]) -> Vec<InlinedCall> {
        let Ok(Some(sections)) = self.sections() else { return Vec::new() };
        let Ok(dwarf) = Dwarf::new(&sections) else { return Vec::new() };
        // The first call stands for all calls with the same chain of inlined functions.
        let mut first: HashMap<(u64, Vec<Vec<u8>>), u64> = HashMap::new();
        let inlined = returns.iter().filter_map(|&return_addr| {
            let pc = return_addr.checked_sub(1).filter(|&pc| !self.is_patched(pc))?;
            let caller = self.function_at(pc)?.range.start;
            let (places, _) = dwarf.frames(pc.wrapping_sub(self.load_bias)).ok()?;
            let [_, inlined @ ..] = &places[..] else { return None };
            let names = inlined.iter().map(|place| place.function.unwrap_or_default().to_vec());
            let key = (caller, names.collect::<Vec<_>>());
            let via = (!inlined.is_empty()).then(|| *first.entry(key).or_insert(pc))?;
            Some(InlinedCall { return_addr, caller, via })
        });
        inlined.collect()
    }

    /// Code of inlined functions with certain names, load bias included: ranges and names. Empty if the debug information
    /// cannot be read, which [`Symbols::names`] reports.
    pub fn inlined(&self, is_meant: impl Fn(&str) -> bool) -> Vec<(Range<u64>, String)> {
        let Ok(Some(sections)) = self.sections() else { return Vec::new() };
        let Ok(dwarf) = Dwarf::new(&sections) else { return Vec::new() };
        let found = dwarf.inlined(is_meant).into_iter().filter_map(|(range, name)| {
            let range = range.start.wrapping_add(self.load_bias)..range.end.wrapping_add(self.load_bias);
            // Code that the linker dropped has address 0.
            (self.function_at(range.start).is_some() && !self.is_patched(range.start)).then_some((range, name))
        });
        found.collect()
    }

    /// Code with lines of the file that defines a function, in functions that another file defines, load bias included: ranges
    /// by address, each with its line. Only of debug information without inlined functions.
    pub fn lines_inlined_from(&self, definer: &str) -> Vec<(Range<u64>, u32)> {
        let sections = self.sections().ok().flatten().filter(Sections::is_of_stabs);
        let Some(sections) = sections else { return Vec::new() };
        let Ok(dwarf) = Dwarf::new(&sections) else { return Vec::new() };
        let linked = |function: &Extent<'_>| {
            function.range.start.wrapping_sub(self.load_bias)..function.range.end.wrapping_sub(self.load_bias)
        };
        let file_of = |function: &Extent<'_>| Some(dwarf.definition_at(linked(function).start)?.0);
        let Some(file) = self.functions.iter().find(|function| function.name == definer).and_then(file_of) else {
            return Vec::new();
        };
        let others = self.functions.iter().filter(|function| file_of(function).is_some_and(|other| other != file));
        let lines = others.flat_map(|function| dwarf.lines(linked(function)));
        let here = lines.filter(|(_, _, other, _)| normal(other) == file);
        let placed = |(start, bytes, _, line): (u64, u64, &str, u32)| {
            let start = start.wrapping_add(self.load_bias);
            (start..start.wrapping_add(bytes), line)
        };
        here.map(placed).collect()
    }

    /// Further names of functions, which tables do not show, by address.
    fn aliases(&self) -> Vec<Alias> {
        let aliases = self.labels.iter().filter_map(|label| {
            let function = self.function_at(label.address)?;
            let is_alias = function.range.start == label.address && function.name != label.name;
            is_alias.then(|| Alias { address: label.address, linkage_name: label.name.clone().into_owned() })
        });
        aliases.collect()
    }

    fn describe(&self, function: &Extent<'_>, dwarf: Option<&Dwarf<'_>>) -> Function {
        let start = function.range.start;
        let address = start.wrapping_sub(self.load_bias);
        let is_shared = self.overlaid.iter().any(|range| range.contains(&start));
        let definition = dwarf.filter(|_| !is_shared).and_then(|dwarf| {
            let exact = dwarf.definition_at(address).map(|(file, line)| (file, Some(line)));
            exact.or_else(|| dwarf.line_at(address))
        });
        let (file, line) = definition.map_or((None, None), |(file, line)| (Some(file), line));
        Function {
            name: demangle(&function.name).into_owned(),
            linkage_name: function.name.clone().into_owned(),
            start,
            size_bytes: function.range.end - start,
            file,
            line,
        }
    }
}

/// Demangles a name into its language's syntax: C++ with its arguments (without the return type that is part of a
/// template's mangled name), Rust without the hash at the end.
pub fn demangle(name: &str) -> Cow<'_, str> {
    // A C name may look like a mangled name without its underscore.
    if !["_Z", "_R", "_GLOBAL__"].iter().any(|prefix| name.starts_with(prefix)) {
        return Cow::Borrowed(name);
    }
    match addr2line::demangle_auto(Cow::Borrowed(name), None) {
        Cow::Owned(demangled) => Cow::Owned(search::without_return_type(&demangled).to_owned()),
        borrowed => borrowed,
    }
}

/// Contents of a symbol table that concern code.
struct Read<'data> {
    /// Symbols that name code, sorted.
    labels: Vec<Label<'data>>,
    /// Addresses of objects among the code.
    bounds: BTreeSet<u64>,
    /// Data among the code, sorted.
    data: Vec<Range<u64>>,
}

fn read<'data>(file: &object::File<'data>, bias: u64, arm: bool) -> Read<'data> {
    let code: HashMap<SectionIndex, Range<u64>> = file
        .sections()
        .filter(|section| {
            matches!(section.flags(), SectionFlags::Elf { sh_flags, .. }
                if sh_flags.contains(elf::SHF_ALLOC) && sh_flags.contains(elf::SHF_EXECINSTR))
        })
        .map(|section| (section.index(), section.address()..section.address().saturating_add(section.size())))
        .collect();
    let has_symtab = file.symbols().next().is_some();
    let symbols = || {
        let (full, dynamic) = (file.symbols(), file.dynamic_symbols());
        // A stripped static-pie still has its dynamic symbols.
        full.chain(dynamic.filter(move |_| !has_symtab))
    };

    let mut mappings: HashMap<SectionIndex, Mapping> = HashMap::new();
    for symbol in symbols() {
        if let (SymbolSection::Section(section), Ok(name)) = (symbol.section(), symbol.name_bytes())
            && let Some(is_code) = mapping(name)
        {
            mappings.entry(section).or_default().insert(symbol.address(), is_code);
        }
    }

    let mut labels = Vec::new();
    let mut bounds = BTreeSet::new();
    for symbol in symbols() {
        let (SymbolFlags::Elf { st_info, .. }, Ok(name)) = (symbol.flags(), symbol.name_bytes()) else { continue };
        let SymbolSection::Section(section) = symbol.section() else { continue };
        let Some(range) = code.get(&section) else { continue };
        let binding = match st_info.st_bind() {
            elf::STB_LOCAL => Binding::Local,
            elf::STB_WEAK => Binding::Weak,
            _ => Binding::Global,
        };
        let kind = match st_info.st_type() {
            elf::STT_FUNC | elf::STT_GNU_IFUNC => Kind::Function,
            elf::STT_NOTYPE => Kind::Untyped,
            elf::STT_OBJECT => {
                bounds.insert(symbol.address().wrapping_add(bias));
                continue;
            }
            _ => continue,
        };
        let address = if arm { symbol.address() & !1 } else { symbol.address() };
        if name.is_empty() || name.starts_with(b".L") || mapping(name).is_some() || !range.contains(&address) {
            continue;
        }
        let is_data = mappings
            .get(&section)
            .and_then(|mapping| mapping.range(..=address).next_back())
            .is_some_and(|(_, &is_code)| !is_code);
        // A stripped image keeps only labels that other files refer to: their extent is not known.
        let is_left_over = !has_symtab && symbol.size() == 0;
        if kind == Kind::Untyped && (is_data || is_left_over) {
            continue;
        }
        let name = String::from_utf8_lossy(name);
        labels.push(Label {
            address: address.wrapping_add(bias),
            kind,
            binding,
            name_bytes: name.len(),
            name,
            size_bytes: symbol.size(),
            section_end: range.end.wrapping_add(bias),
            section: section.0,
        });
    }
    labels.sort_unstable();
    labels.dedup();

    let mut data = Vec::new();
    for (section, mapping) in &mappings {
        let Some(range) = code.get(section) else { continue };
        for (&start, _) in mapping.iter().filter(|&(_, &is_code)| !is_code) {
            let next = mapping.range((Excluded(start), Unbounded)).next().map_or(range.end, |(&next, _)| next);
            if range.contains(&start) {
                data.push(start.wrapping_add(bias)..next.min(range.end).wrapping_add(bias));
            }
        }
    }
    data.sort_by_key(|range| range.start);
    Read { labels, bounds, data }
}

/// Kind of a mapping symbol: true for code, false for data; None for other names ("ELF for the Arm Architecture",
/// 5.5.5; "RISC-V ELF psABI", Mapping Symbol).
fn mapping(name: &[u8]) -> Option<bool> {
    let rest = name.get(2..)?;
    let is_code = match &name[..2] {
        b"$a" | b"$t" | b"$x" => true,
        b"$d" => false,
        _ => return None,
    };
    (rest.is_empty() || rest.starts_with(b".") || (name.starts_with(b"$x") && rest.starts_with(b"rv")))
        .then_some(is_code)
}

/// Whether a name is that of a mapping symbol, which names neither code nor data.
pub(super) fn is_mapping(name: &[u8]) -> bool {
    mapping(name).is_some()
}

/// Functions among the labels: sorted, not overlapping.
fn functions<'data>(labels: &[Label<'data>], objects: &BTreeSet<u64>) -> Vec<Extent<'data>> {
    // A function without a size extends to the next symbol that is not a local label.
    let mut bounds = objects.clone();
    let typed_or_global = |label: &&Label<'_>| label.kind == Kind::Function || label.binding != Binding::Local;
    bounds.extend(labels.iter().filter(typed_or_global).map(|label| label.address));

    // Passes in order of trust: a later pass does not cut functions of an earlier one.
    let passes: [fn(&Label<'_>) -> bool; 4] = [
        |label| label.kind == Kind::Function && (label.size_bytes > 0 || label.binding != Binding::Local),
        |label| label.kind == Kind::Function,
        |label| label.binding != Binding::Local,
        |_| true,
    ];
    let mut extents: Vec<Extent<'data>> = Vec::new();
    for pass in passes {
        let mut found = Vec::new();
        for same_address in labels.chunk_by(|one, other| one.address == other.address) {
            let start = same_address[0].address;
            let mut names = same_address.iter().filter(|label| pass(label));
            let Some(label) = names.next() else { continue };
            if extent_at(&extents, start).is_some() {
                continue;
            }
            let size_bytes = names.map(|alias| alias.size_bytes).fold(label.size_bytes, u64::max);
            let end = match size_bytes {
                0 => bounds.range((Excluded(start), Unbounded)).next().copied().unwrap_or(u64::MAX),
                size_bytes => start.saturating_add(size_bytes),
            };
            found.push(Extent { range: start..end.min(label.section_end), name: label.name.clone() });
        }
        extents.append(&mut found);
        extents.sort_by_key(|extent| extent.range.start);
        separate(&mut extents);
    }
    extents
}

/// Extent that contains an address, among sorted extents without overlap.
fn extent_at<'e, 'data>(extents: &'e [Extent<'data>], address: u64) -> Option<&'e Extent<'data>> {
    let after = extents.partition_point(|extent| extent.range.start <= address);
    extents[..after].last().filter(|extent| extent.range.contains(&address))
}

/// Cuts sorted extents where the next one starts; addresses beyond that belong to the next one.
fn separate(extents: &mut [Extent<'_>]) {
    let mut reach = 0;
    for index in 0..extents.len() {
        let next = extents.get(index + 1).map_or(u64::MAX, |next| next.range.start);
        let range = &mut extents[index].range;
        reach = reach.max(range.end);
        range.end = reach.min(next);
    }
}

/// Collector of frames, which stores each string and each list of frames once.
#[derive(Default)]
struct Writer<'a> {
    names: Names,
    strings: HashMap<Cow<'a, str>, u32>,
    /// Numbers of files' paths, by address and length of the text.
    files: FxHashMap<(usize, usize), u32>,
    stacks: FxHashMap<Vec<Frame>, u32>,
    /// Numbers of distinct lists of places.
    places: FxHashMap<Vec<Place>, u32>,
    /// Demangled linkage names of inlined functions.
    demangled: HashMap<&'a [u8], u32>,
    /// Function of the last address, since addresses come in order.
    function: Option<(u64, u32)>,
}

impl<'a> Writer<'a> {
    fn string(&mut self, text: Cow<'a, str>) -> u32 {
        if let Some(&index) = self.strings.get(&text) {
            return index;
        }
        let index = self.names.strings.len() as u32;
        self.names.strings.push(text.clone().into_owned());
        self.strings.insert(text, index);
        index
    }

    /// Number of a file's path. The debug information has each path once, so that its place finds it.
    fn file(&mut self, path: &'a str) -> u32 {
        let place = (path.as_ptr().addr(), path.len());
        if let Some(&index) = self.files.get(&place) {
            return index;
        }
        let index = self.string(normal(path));
        self.files.insert(place, index);
        index
    }

    fn demangled(&mut self, linkage_name: &'a [u8]) -> u32 {
        if let Some(&index) = self.demangled.get(linkage_name) {
            return index;
        }
        let name = String::from_utf8_lossy(linkage_name);
        let name = demangle(&name).into_owned();
        let index = self.string(Cow::Owned(name));
        self.demangled.insert(linkage_name, index);
        index
    }
}

impl<'a> Writer<'a> {
    /// Adds one address: its function by the symbol table, and its frames by DWARF.
    fn add(&mut self, pc: u64, function: Option<&Extent<'a>>, places: &[DwarfFrame<'a>]) {
        // An address outside all functions has no name: DWARF alone would give it the name of a neighbour.
        let Some(function) = function else { return };
        let outermost = self.function_name(function);
        let mut frames = Vec::with_capacity(places.len().max(1));
        for (depth, place) in places.iter().enumerate() {
            let function = match place.function {
                _ if depth == 0 => outermost,
                Some(name) => self.demangled(name),
                None => self.string(Cow::Borrowed("[inlined]")),
            };
            let file = place.file.map(|file| self.file(file));
            frames.push(Frame { function, file, line: place.line, inlined: depth > 0 });
        }
        if frames.is_empty() {
            frames.push(Frame { function: outermost, file: None, line: None, inlined: false });
        }
        let next = self.names.stacks.len() as u32;
        let stack = *self.stacks.entry(frames).or_insert_with_key(|frames| {
            self.names.stacks.push(frames.clone());
            next
        });
        self.names.locations.push((pc, stack));
    }

    /// Adds the places of one executed address. Addresses with the same list as the one before need no row.
    fn add_places(&mut self, pc: u64, places: &[DwarfPlace<'a>]) {
        let places: Vec<Place> = places
            .iter()
            .map(|place| Place {
                function: self.string(String::from_utf8_lossy(place.function)),
                start_line: place.start_line,
                line: place.line,
                discriminator: place.discriminator,
                copies: place.copies,
            })
            .collect();
        let next = self.names.places.len() as u32;
        let list = (!places.is_empty()).then(|| {
            *self.places.entry(places).or_insert_with_key(|places| {
                self.names.places.push(places.clone());
                next
            })
        });
        if self.names.placed.last().and_then(|&(_, last)| last) != list {
            self.names.placed.push((pc, list));
        }
    }

    fn add_line(&mut self, (address, size_bytes, file, line): (u64, u64, &'a str, u32), load_bias: u64) {
        let file = self.file(file);
        let start = address.wrapping_add(load_bias);
        self.names.lines.push(LineCode { start, size_bytes, file, line });
    }

    fn function_name(&mut self, function: &Extent<'a>) -> u32 {
        if let Some((start, index)) = self.function
            && start == function.range.start
        {
            return index;
        }
        let index = self.string(Cow::Owned(demangle(&function.name).into_owned()));
        self.function = Some((function.range.start, index));
        index
    }

    fn finish(self, functions: Vec<Function>) -> Names {
        Names { functions, ..self.names }
    }
}
