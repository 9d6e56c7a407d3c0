// SPDX-License-Identifier: MIT OR Apache-2.0
//! One function, instruction by instruction, with its source lines, for `harness annotate` and the HTML report.
//!
//! Instructions stay in the order of addresses, in runs of one source line each. A line that the compiler has spread
//! over the function has several runs. [`Listing::lines`] sums them up, in the order of the source.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;

use crate::analysis::column::Values;
use crate::analysis::cycles;
use crate::analysis::disassembly::{Disassembler, Unit};
use crate::analysis::flow::{Branch, Branches};
use crate::analysis::functions::{self, Row, Table};
use crate::analysis::lookup::Inlined;
use crate::analysis::metrics;
use crate::analysis::owner::{self, Owner};
use crate::analysis::source::Sources;
use crate::image::symbols;
use crate::profile::{Frame, Profile};

/// Maximum number of characters of a function's name at a branch target.
const MAX_TARGET_CHARS: usize = 60;

/// A function with its executed instructions.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// Its row of the table, with zeros if it never executed. For an inlined function, with that part's numbers.
    pub row: Row,
    /// Instructions of its own lines, including inlined copies, as comparisons show them; for an inlined function,
    /// those in this place.
    pub own_insns: u64,
    /// The inlined function, if the listing is only of its copy in the row's function.
    pub inlined: Option<String>,
    /// Its size in bytes; None: it is the boot ROM or a range of addresses.
    pub size_bytes: Option<u64>,
    /// Instructions of the window, in all functions.
    pub total_insns: u64,
    /// Samples taken of them.
    pub total_samples: u64,
    /// Its source lines, by file and line: first those of its own file, then lines inlined from other files.
    pub lines: Vec<SourceLine>,
    /// All of its instructions, executed or not, in the order of addresses.
    pub runs: Vec<Run>,
}

/// A source line, as far as it is part of the function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// Source file, as in DWARF.
    pub file: String,
    /// Line in it, from 1.
    pub line: u32,
    /// Its text, if the file is found.
    pub text: Option<String>,
    /// Instructions executed for it in this function.
    pub insns: u64,
    /// Cycles of these instructions, if known.
    pub cycles: Option<u64>,
    /// Samples taken of them.
    pub samples: u64,
}

/// Consecutive instructions of one source line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Index into [`Listing::lines`]; None: unknown.
    pub line: Option<usize>,
    /// Functions inlined here, outermost first; empty if unknown, as for code that never executed.
    pub inlined: Vec<String>,
    /// Its instructions, at least one.
    pub instructions: Vec<Instruction>,
}

/// One instruction with its executions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its address.
    pub address: u64,
    /// Its size in bytes.
    pub size_bytes: u8,
    /// Mnemonic and operands; empty if the image does not have the code (the boot ROM, code written at run time).
    pub text: String,
    /// Executions, exact.
    pub count: u64,
    /// Cycles of these executions, if known.
    pub cycles: Option<u64>,
    /// Samples taken of it.
    pub samples: u64,
    /// Ways that control went, if the instruction executed and has more than one.
    pub branch: Option<Branch>,
}

/// Key of a source line, in the order of [`Listing::lines`]: whether its file differs from the function's, its file,
/// its number.
type LineKey<'n> = (bool, &'n str, u32);

/// A [`Run`] that may continue.
struct OpenRun<'n> {
    line: Option<LineKey<'n>>,
    /// Functions inlined here; None: unknown.
    inlined: Option<Vec<String>>,
    instructions: Vec<Instruction>,
}

/// Lists the functions of one profile.
#[derive(Debug)]
pub struct Lister<'a> {
    profile: &'a Profile,
    /// None: this version does not know the profile's instruction set.
    disassembler: Option<Disassembler>,
    table: Table,
    /// Index of a place's row, by its first address.
    row_of: HashMap<Option<u64>, usize>,
    /// Instructions of own lines by first address.
    own_insns: Values,
    /// Size and executions by address.
    insns: BTreeMap<u64, (u8, u64)>,
    samples: BTreeMap<u64, u64>,
    /// Cycles by address; None: they are not known.
    cycles: Option<BTreeMap<u64, u64>>,
    branches: Branches,
}

impl<'a> Lister<'a> {
    /// Prepares the listings of a profile: computes data common to all functions once.
    ///
    /// # Errors
    /// When there is no disassembler.
    pub fn new(profile: &'a Profile) -> Result<Lister<'a>> {
        let mut insns: BTreeMap<u64, (u8, u64)> = BTreeMap::new();
        for insn in profile.vcpus.iter().flat_map(|vcpu| &vcpu.insns) {
            let (size_bytes, count) = insns.entry(insn.pc).or_default();
            (*size_bytes, *count) = (insn.size_bytes, *count + insn.count);
        }
        let isa = profile.facts.isa();
        let disassembler = isa.map(Disassembler::new).transpose()?;
        let table = functions::table(profile);
        let row_of = table.rows.iter().map(|row| row.start).zip(0..).collect();
        let (own_insns, samples) = (metrics::own_lines(profile), profile.samples_by_pc());
        let (cycles, branches) = (cycles::by_pc(profile), Branches::of(profile));
        Ok(Lister { profile, disassembler, table, row_of, own_insns, insns, samples, cycles, branches })
    }

    /// Rows of the executed functions, most instructions first.
    pub fn rows(&self) -> &[Row] {
        &self.table.rows
    }

    /// Listing of a place.
    pub fn list(&self, place: Owner<'_>, sources: &mut Sources) -> Listing {
        let row = self.row(place);
        let own_insns = self.own_insns.get(&row.start).copied().unwrap_or(row.self_insns);
        let listing = self.list_those(place, |_| true, sources);
        Listing { own_insns, row, ..listing }
    }

    /// Listing of an inlined function's copy in a place.
    pub fn list_inlined(&self, place: Owner<'_>, inlined: &Inlined, sources: &mut Sources) -> Listing {
        let profile = self.profile;
        let frames = |address: u64| profile.names.frames_at(address);
        let is_of_it = |address: u64| frames(address).iter().any(|frame| inlined.is(profile, frame));
        let is_own = |address: u64| frames(address).last().is_some_and(|frame| inlined.is(profile, frame));
        let listing = self.list_those(place, is_of_it, sources);
        let sum = |of: fn(&Instruction) -> u64| listing.instructions().map(of).sum::<u64>();
        let (self_insns, samples) = (sum(|insn| insn.count), sum(|insn| insn.samples));
        let own = listing.instructions().filter(|insn| is_own(insn.address));
        let own_insns = own.map(|insn| insn.count).sum();
        let size_bytes = listing.instructions().map(|insn| u64::from(insn.size_bytes)).sum();
        let cycles = listing.instructions().map(|insn| insn.cycles).sum();
        let row = Row { self_insns, cycles, samples, ..self.row(place) };
        let inlined = Some(inlined.name.clone());
        Listing { row, own_insns, inlined, size_bytes: Some(size_bytes), ..listing }
    }

    /// Listing of selected instructions of a place.
    fn list_those(&self, place: Owner<'_>, is_listed: impl Fn(u64) -> bool, sources: &mut Sources) -> Listing {
        let row = self.row(place);
        let mut lines: BTreeMap<LineKey<'_>, (u64, Option<u64>, u64)> = BTreeMap::new();
        let mut runs: Vec<OpenRun<'_>> = Vec::new();
        for instruction in self.instructions(place).into_iter().filter(|insn| is_listed(insn.address)) {
            let frames = self.profile.names.frames_at(instruction.address);
            let names = &self.profile.names;
            let line = names.code_line_at(instruction.address).or_else(|| names.line_at(instruction.address));
            let line = line.map(|(file, line)| {
                let is_elsewhere = row.file.as_deref() != Some(file);
                (is_elsewhere, file, line)
            });
            if let Some(line) = line {
                let (insns, cycles, samples) = lines.entry(line).or_insert((0, Some(0), 0));
                *insns += instruction.count;
                *cycles = cycles.zip(instruction.cycles).map(|(sum, cycles)| sum + cycles);
                *samples += instruction.samples;
            }
            let inlined = (!frames.is_empty()).then(|| self.inlined(frames));
            match runs.last_mut() {
                Some(run)
                    if run.line == line && (run.inlined.is_none() || inlined.is_none() || run.inlined == inlined) =>
                {
                    run.inlined = run.inlined.take().or(inlined);
                    run.instructions.push(instruction);
                }
                _ => runs.push(OpenRun { line, inlined, instructions: vec![instruction] }),
            }
        }
        let index: BTreeMap<LineKey<'_>, usize> = lines.keys().copied().zip(0..).collect();
        let runs = runs.into_iter().map(|OpenRun { line, inlined, instructions }| Run {
            line: line.and_then(|line| index.get(&line).copied()),
            inlined: inlined.unwrap_or_default(),
            instructions,
        });
        let runs = runs.collect();
        let lines = lines.into_iter().map(|((_, file, line), (insns, cycles, samples))| {
            let text = sources.line(file, line).map(str::to_owned);
            SourceLine { file: file.to_owned(), line, text, insns, cycles, samples }
        });
        Listing {
            size_bytes: match place {
                Owner::Function(function) => Some(function.size_bytes),
                Owner::BootRom | Owner::Range { .. } => None,
            },
            total_insns: self.table.total_insns,
            total_samples: self.table.total_samples,
            lines: lines.collect(),
            runs,
            own_insns: row.self_insns,
            inlined: None,
            row,
        }
    }

    fn row(&self, place: Owner<'_>) -> Row {
        let row = self.row_of.get(&place.start()).and_then(|&index| self.table.rows.get(index));
        row.cloned().unwrap_or_else(|| Row::of(place))
    }

    /// Instructions of a place: those in the image, and those that executed or were sampled.
    fn instructions(&self, place: Owner<'_>) -> Vec<Instruction> {
        let (start, last) = match place {
            Owner::Function(function) => match function.size_bytes.checked_sub(1) {
                Some(rest) => (function.start, function.start.saturating_add(rest)),
                None => return Vec::new(),
            },
            Owner::BootRom => match owner::boot_rom(self.profile) {
                Some(addresses) => addresses.into_inner(),
                None => return Vec::new(),
            },
            Owner::Range { start, last } => (start, last),
        };
        let is_here = |address: u64| Owner::of(self.profile, address) == place;
        let mut found: BTreeMap<u64, (u8, String)> = BTreeMap::new();
        for Unit { address, size_bytes, text } in self.units(start, last) {
            if is_here(address) {
                found.insert(address, (size_bytes, text));
            }
        }
        for (&address, &(size_bytes, _)) in self.insns.range(start..=last).filter(|&(&address, _)| is_here(address)) {
            found.entry(address).or_insert((size_bytes, String::new()));
        }
        for (&address, _) in self.samples.range(start..=last).filter(|&(&address, _)| is_here(address)) {
            found.entry(address).or_default();
        }
        let instructions = found.into_iter().map(|(address, (size_bytes, text))| Instruction {
            address,
            size_bytes,
            text,
            count: self.insns.get(&address).map_or(0, |&(_, count)| count),
            cycles: self.cycles.as_ref().map(|cycles| cycles.get(&address).copied().unwrap_or(0)),
            samples: self.samples.get(&address).copied().unwrap_or(0),
            branch: self.branches.at(address).cloned(),
        });
        instructions.collect()
    }

    /// Disassembled units between two addresses.
    fn units(&self, start: u64, last: u64) -> Vec<Unit> {
        let Some(disassembler) = &self.disassembler else { return Vec::new() };
        let code = &self.profile.code;
        let first = code.partition_point(|code| code.start.saturating_add(code.bytes.len() as u64) <= start);
        let mut units = Vec::new();
        for piece in code[first..].iter().take_while(|piece| piece.start <= last) {
            let skipped = start.saturating_sub(piece.start) as usize;
            // An instruction that begins here may end after the last address of a range.
            let reach = last.saturating_sub(piece.start).saturating_add(4);
            let end = piece.bytes.len().min(usize::try_from(reach).unwrap_or(usize::MAX));
            let begins = piece.start.saturating_add(skipped as u64);
            let starts_at = |address| self.insns.contains_key(&address);
            // Unsorted pieces may end before the start.
            let Some(bytes) = piece.bytes.get(skipped..end) else { continue };
            let read = disassembler.read(begins, bytes, starts_at, |target| self.target(target));
            units.extend(read.into_iter().filter(|unit| unit.address <= last));
        }
        units
    }

    /// Text for a branch target, as in `function+0x12`.
    fn target(&self, address: u64) -> Option<String> {
        let function = self.profile.names.function_at(address)?;
        let mut name = function.name.clone();
        if name.chars().count() > MAX_TARGET_CHARS {
            name = symbols::without_template_arguments(symbols::without_arguments(&name));
        }
        if name.chars().count() > MAX_TARGET_CHARS {
            name = name.chars().take(MAX_TARGET_CHARS).chain(['…']).collect();
        }
        Some(match address - function.start {
            0 => name,
            offset => format!("{name}+{offset:#x}"),
        })
    }

    fn inlined(&self, frames: &[Frame]) -> Vec<String> {
        let text = |frame: &Frame| self.profile.names.strings.get(frame.function as usize).cloned();
        frames.iter().filter(|frame| frame.inlined).filter_map(text).collect()
    }
}

impl Listing {
    /// All instructions, by address.
    pub fn instructions(&self) -> impl Iterator<Item = &Instruction> {
        self.runs.iter().flat_map(|run| &run.instructions)
    }

    /// Lines by instructions, most first.
    pub fn hottest(&self) -> Vec<&SourceLine> {
        let mut lines: Vec<&SourceLine> = self.lines.iter().filter(|line| line.insns > 0).collect();
        // A stable sort: equal ones stay in the order of the source.
        lines.sort_by_key(|line| std::cmp::Reverse(line.insns));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::functions::RowKind;
    use crate::analysis::lookup;
    use crate::profile::testing::empty;
    use crate::profile::{Code, LineCode};

    /// `main` is `movs r0, #1; bl 0x50 <helper>; nop`, from two lines; `helper` is `bx lr`.
    fn profile() -> Profile {
        let mut profile = empty().function("main", 0x40, 8).function("helper", 0x50, 2).insn(0x40, 3).insn(0x46, 3);
        profile.vcpus[0].insns.push(crate::profile::InsnCount { pc: 0x42, size_bytes: 4, count: 3 });
        profile.names.strings = ["src/blinky.c", "inc/gpio.h"].map(str::to_owned).to_vec();
        let line = |start, size_bytes, file, line| LineCode { start, size_bytes, file, line };
        profile.names.lines = vec![line(0x40, 2, 0, 9), line(0x42, 4, 1, 4), line(0x46, 2, 0, 9)];
        profile.code = vec![
            Code { start: 0x40, bytes: vec![0x01, 0x20, 0x00, 0xf0, 0x05, 0xf8, 0x00, 0xbf] },
            Code { start: 0x50, bytes: vec![0x70, 0x47] },
        ];
        profile
    }

    fn list(profile: &Profile, wanted: &str) -> Listing {
        let lister = Lister::new(profile).unwrap();
        lister.list(lookup::places(profile, wanted).unwrap()[0], &mut Sources::default())
    }

    #[test]
    fn instructions_stay_in_order_under_the_lines_that_they_were_made_from() {
        let listing = list(&profile(), "main");
        let texts: Vec<_> =
            listing.instructions().map(|insn| (insn.address, insn.text.as_str(), insn.count)).collect();
        assert_eq!(texts, [(0x40, "movs    r0, #1", 3), (0x42, "bl      0x50 <helper>", 3), (0x46, "nop", 3)]);
        assert_eq!(listing.runs.iter().map(|run| run.line).collect::<Vec<_>>(), [Some(0), Some(1), Some(0)]);
        let lines: Vec<_> = listing.lines.iter().map(|line| (&*line.file, line.line, line.insns)).collect();
        assert_eq!(lines, [("src/blinky.c", 9, 6), ("inc/gpio.h", 4, 3)]);
        assert_eq!(listing.row.self_insns, 9);
    }

    #[test]
    fn what_is_inlined_is_listed_alone() {
        let mut profile = profile().frames(0x42, &["main", "gpio_set", "wait"]).frames(0x46, &["main", "gpio_set"]);
        profile.names.locations.sort_unstable();
        let (places, inlined) = lookup::places_or_inlined(&profile, "gpio_set").unwrap();
        let lister = Lister::new(&profile).unwrap();
        let listing = lister.list_inlined(places[0], &inlined.unwrap(), &mut Sources::default());
        let listed: Vec<u64> = listing.instructions().map(|insn| insn.address).collect();
        assert_eq!(
            (listed, listing.inlined.as_deref(), &*listing.row.name),
            (vec![0x42, 0x46], Some("gpio_set"), "main")
        );
        assert_eq!((listing.row.self_insns, listing.own_insns, listing.size_bytes), (6, 3, Some(6)));
    }

    #[test]
    fn what_never_executed_is_listed_with_count_0() {
        let listing = list(&profile(), "helper");
        let insns: Vec<_> = listing.instructions().collect();
        assert_eq!((insns.len(), insns[0].count, &*insns[0].text), (1, 0, "bx      lr"));
        assert_eq!((listing.row.self_insns, listing.row.kind), (0, RowKind::Function));
    }

    #[test]
    fn code_that_the_image_has_not_is_listed_without_text() {
        let profile = empty().insn(0x2000_0010, 7).insn(0x2000_0012, 5);
        let listing = list(&profile, "0x20000011");
        let insns: Vec<_> = listing.instructions().map(|insn| (insn.address, &*insn.text, insn.count)).collect();
        assert_eq!(insns, [(0x2000_0010, "", 7), (0x2000_0012, "", 5)]);
        assert_eq!(list(&profile, "[0x20000000..0x200000ff]"), listing);
    }

    #[test]
    fn code_in_no_order_is_listed_as_far_as_it_is_found() {
        let mut profile = profile();
        profile.code.insert(0, Code { start: 0x80, bytes: vec![0; 4] });
        profile.code.push(Code { start: 0x20, bytes: vec![0; 2] });
        let listing = list(&profile, "main");
        assert!(listing.instructions().count() > 0);
    }
}
