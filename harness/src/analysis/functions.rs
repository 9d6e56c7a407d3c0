// SPDX-License-Identifier: MIT OR Apache-2.0
//! The per-function view of a profile: each function's instructions, calls and callers.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::cold_part::ColdParts;
use crate::analysis::cycles;
use crate::analysis::owner::Owner;
use crate::profile::{Arc, Profile};

/// Caller's name if the return address is an EXC_RETURN value: an interrupt, not a call.
pub const EXCEPTION: &str = "[exception]";

/// Caller's name of the first code on a Cortex-M: the return address is the one at reset.
pub const RESET: &str = "[reset]";

/// Caller's name if there is no return address.
pub const UNKNOWN: &str = "[unknown]";

/// A profile by function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Functions that executed, the one of the highest cost first.
    pub rows: Vec<Row>,
    /// Instructions of the window.
    pub total_insns: u64,
    /// Samples taken of them.
    pub total_samples: u64,
    /// Instructions outside of functions and of the boot ROM.
    pub unnamed_insns: u64,
    /// Cycles of the window, if known.
    pub total_cycles: Option<u64>,
    /// Cycles by which these may be too many, and too few; None: they are proved.
    pub total_doubt: Option<(u64, u64)>,
}

/// Kind of code of a [`Row`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// A function.
    Function,
    /// The boot ROM.
    BootRom,
    /// A range of addresses without a name.
    Unnamed,
}

/// One function, or other code with a row of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Kind of the code.
    pub kind: RowKind,
    /// Demangled name, or a name in square brackets for other code.
    pub name: String,
    /// Name in the symbol table; equal to `name` for other code.
    pub linkage_name: String,
    /// First address of the function or range.
    pub start: Option<u64>,
    /// Source file of the definition.
    pub file: Option<String>,
    /// Line in that file.
    pub line: Option<u32>,
    /// Instructions executed in it, including inlined functions, without called ones.
    pub self_insns: u64,
    /// Cycles of these instructions, if known.
    pub cycles: Option<u64>,
    /// Cycles by which these may be too many, and too few; None: those of the whole run are proved.
    pub doubt: Option<(u64, u64)>,
    /// Entries: executions of its first instruction that a call led to, or any other way from outside of the
    /// function. 0 for other code, and for the part of a function to which only that jumps; see
    /// [`crate::analysis::cold_part`].
    pub calls: u64,
    /// Samples taken in it.
    pub samples: u64,
    /// Number of samples expected from its share of the instructions.
    pub expected_samples: f64,
    /// Deviation of `samples` from `expected_samples`, in standard deviations; see [`z_score`].
    pub z: f64,
}

impl Table {
    /// Cycles of the window, if known; else its instructions.
    pub fn total_cost(&self) -> u64 {
        self.total_cycles.unwrap_or(self.total_insns)
    }
}

impl Row {
    /// Fewest and most cycles that it can have taken, where they are known to an interval only.
    pub fn cycles_between(&self) -> Option<[u64; 2]> {
        let (cycles, (fewer, more)) = self.cycles.zip(self.doubt)?;
        Some([cycles.saturating_sub(fewer), cycles.saturating_add(more)])
    }

    /// Cycles of the code, if known; else its instructions.
    pub fn cost(&self) -> u64 {
        self.cycles.unwrap_or(self.self_insns)
    }

    /// A row without counts.
    pub fn of(place: Owner<'_>) -> Row {
        let (kind, function) = match place {
            Owner::Function(function) => (RowKind::Function, Some(function)),
            Owner::BootRom => (RowKind::BootRom, None),
            Owner::Range { .. } => (RowKind::Unnamed, None),
        };
        Row {
            kind,
            name: place.to_string(),
            linkage_name: function.map_or_else(|| place.to_string(), |function| function.linkage_name.clone()),
            start: place.start(),
            file: function.and_then(|function| function.file.clone()),
            line: function.and_then(|function| function.line),
            self_insns: 0,
            cycles: None,
            doubt: None,
            calls: 0,
            samples: 0,
            expected_samples: 0.0,
            z: 0.0,
        }
    }
}

/// Deviation of a number of samples from the expected one, in standard deviations of a random draw: with `expected =
/// n·p` of `n` samples, `(samples - expected) / sqrt(expected·(1 - p))`.
///
/// The samples are every period-th instruction, not random ones. Code that does not keep step with the period comes
/// closer to its share than random samples would, so a large score means that the code keeps step. One sample more or
/// less proves nothing: the variance is at least 1 (it would be less for rarely executed functions, and for functions
/// with nearly all samples), so that at least 5 samples must differ.
pub fn z_score(samples: u64, total_samples: u64, self_insns: u64, total_insns: u64) -> f64 {
    // With a sample for each instruction, both numbers are the same count.
    if total_insns == 0 || (samples == self_insns && total_samples == total_insns) {
        return 0.0;
    }
    let share = self_insns as f64 / total_insns as f64;
    let expected = total_samples as f64 * share;
    let variance = expected * (1.0 - share);
    (samples as f64 - expected) / variance.max(1.0).sqrt()
}

/// Table of a profile by function.
pub fn table(profile: &Profile) -> Table {
    #[derive(Default)]
    struct Sums {
        self_insns: u64,
        entry_insns: u64,
        inside: u64,
        samples: u64,
    }
    let parts = ColdParts::of(profile);
    // Calls of parts: the ways that keep a return address. Their functions have others, not all of them recorded.
    let mut of_parts: BTreeMap<u64, u64> = BTreeMap::new();
    let mut sums: BTreeMap<(u8, u64), (Owner<'_>, Sums)> = BTreeMap::new();
    // Sums by the owner of each instruction.
    for vcpu in &profile.vcpus {
        for insn in &vcpu.insns {
            let place = Owner::of(profile, insn.pc);
            let (_, sums) = sums.entry(place.key()).or_insert((place, Sums::default()));
            sums.self_insns += insn.count;
            if place.start() == Some(insn.pc) {
                sums.entry_insns += insn.count;
            }
        }
        for arc in vcpu.arcs.iter().filter(|arc| arc.links && parts.contains(arc.target)) {
            *of_parts.entry(arc.target).or_default() += arc.count;
        }
        for arc in vcpu.arcs.iter().filter(|arc| !arc.links) {
            if let Owner::Function(function) = Owner::of(profile, arc.target)
                && function.start == arc.target
                && (Owner::of(profile, arc.site) == Owner::Function(function) || parts.is_jump(profile, arc))
                && let Some((_, sums)) = sums.get_mut(&Owner::Function(function).key())
            {
                sums.inside += arc.count;
            }
        }
    }
    for (pc, samples) in profile.samples_by_pc() {
        let place = Owner::of(profile, pc);
        sums.entry(place.key()).or_insert((place, Sums::default())).1.samples += samples;
    }

    let total_insns = profile.total_insns();
    let total_samples = profile.samples.len() as u64;
    let cycles = cycles::by_function(profile);
    let total_cycles = cycles::total(profile);
    let total_doubt = cycles::doubt(profile);
    let doubts = cycles::doubts_by_function(profile);
    let mut table =
        Table { rows: Vec::new(), total_insns, total_samples, unnamed_insns: 0, total_cycles, total_doubt };
    for (place, Sums { self_insns, entry_insns, inside, samples }) in sums.into_values() {
        // If the host ended the run, a counted jump to the start may not have arrived. In a window that opens at
        // reset, a function whose first instruction executed has been called at least once.
        let at_least = u64::from(entry_insns > 0 && profile.facts.before_window_insns == 0);
        let calls = match place {
            Owner::Function(part) if parts.contains(part.start) => of_parts.get(&part.start).copied().unwrap_or(0),
            Owner::Function(_) => entry_insns.saturating_sub(inside).max(at_least),
            Owner::BootRom | Owner::Range { .. } => 0,
        };
        let row = Row::of(place);
        let kind = row.kind;
        if kind == RowKind::Unnamed {
            table.unnamed_insns += self_insns;
        }
        table.rows.push(Row {
            self_insns,
            cycles: cycles.as_ref().map(|cycles| cycles.get(&row.start).copied().unwrap_or(0)),
            doubt: doubts.as_ref().map(|doubts| doubts.get(&row.start).copied().unwrap_or((0, 0))),
            calls,
            samples,
            expected_samples: total_samples as f64 * self_insns as f64 / total_insns.max(1) as f64,
            z: z_score(samples, total_samples, self_insns, total_insns),
            ..row
        });
    }
    table.rows.sort_by(|one, other| {
        let key = |row: &Row| (std::cmp::Reverse(row.cost()), row.name.clone(), row.start);
        key(one).cmp(&key(other))
    });
    table
}

/// Rows of functions that never executed and so are not in the table, by address.
pub fn never_executed<'p>(profile: &'p Profile, table: &Table) -> impl Iterator<Item = Row> + use<'p> {
    let rows = table.rows.iter().filter(|row| row.kind == RowKind::Function);
    let executed: BTreeSet<u64> = rows.filter_map(|row| row.start).collect();
    let functions = profile.names.functions.iter().filter(move |function| !executed.contains(&function.start));
    functions.map(|function| Row::of(Owner::Function(function)))
}

/// Entries of a function at its first instruction, by origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Calls and tail calls by the return address that the function received. The last one may not have arrived at
    /// the end of the run.
    pub calls: BTreeMap<Option<u64>, u64>,
    /// Entries without a call: by an interrupt, at the start of the machine or window, or by falling through.
    pub others: u64,
}

/// Entries of all functions of the table, by first address; they add up to the functions' calls.
pub fn entries(profile: &Profile, table: &Table) -> BTreeMap<u64, Entries> {
    let parts = ColdParts::of(profile);
    let mut entries: BTreeMap<u64, Entries> = BTreeMap::new();
    for arc in profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs) {
        let enters = matches!(Owner::of(profile, arc.target), Owner::Function(callee) if callee.start == arc.target);
        if enters && is_call(profile, &parts, arc) {
            *entries.entry(arc.target).or_default().calls.entry(arc.return_addr).or_default() += arc.count;
        }
    }
    for row in table.rows.iter().filter(|row| row.kind == RowKind::Function) {
        let Some(start) = row.start else { continue };
        let entries = entries.entry(start).or_default();
        entries.others = row.calls.saturating_sub(entries.calls.values().sum());
    }
    entries
}

/// Calls from one function to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArcRow {
    /// Name of the function that the callee returns to, as `_mcount` sees it; or a name in square brackets.
    pub caller: String,
    /// First address of that function or range.
    pub caller_start: Option<u64>,
    /// Name of the entered function.
    pub callee: String,
    /// Its first address.
    pub callee_start: Option<u64>,
    /// Jump of a tail call, which entered the callee from another function than it returns to.
    pub tail_call: Option<TailCall>,
    /// Number of calls.
    pub count: u64,
}

/// A jump from the end of one function to the start of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TailCall {
    /// Address of the jump.
    pub site: u64,
    /// Name of the function with the jump.
    pub function: String,
}

/// Calls by caller and callee, most frequent first; the part of a function is that function. Jumps inside a function
/// are not listed.
pub fn arcs(profile: &Profile) -> Vec<ArcRow> {
    let parts = ColdParts::of(profile);
    let mut counts: BTreeMap<_, u64> = BTreeMap::new();
    for arc in profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs) {
        if !is_call(profile, &parts, arc) {
            continue;
        }
        let (site, callee) = (parts.owner(profile, arc.site), parts.owner(profile, arc.target));
        let (caller, caller_start) = match caller(profile, arc.return_addr) {
            (_, Some(start)) if parts.contains(start) => {
                let whole = parts.owner(profile, start);
                (whole.to_string(), whole.start())
            }
            known => known,
        };
        let tail_call = (!arc.links).then(|| TailCall { site: arc.site, function: site.to_string() });
        let key = (caller, caller_start, callee.to_string(), callee.start(), tail_call);
        *counts.entry(key).or_default() += arc.count;
    }
    let mut rows: Vec<ArcRow> = counts
        .into_iter()
        .map(|((caller, caller_start, callee, callee_start, tail_call), count)| ArcRow {
            caller,
            caller_start,
            callee,
            callee_start,
            tail_call,
            count,
        })
        .collect();
    // A stable sort: equal counts stay in the order of names.
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    rows
}

/// Whether a transfer of control is a call or a tail call. A jump is a tail call if it enters another function at its
/// start, unless it stays within a function and its part.
pub(crate) fn is_call(profile: &Profile, parts: &ColdParts, arc: &Arc) -> bool {
    enters(profile, arc) && !parts.is_jump(profile, arc)
}

/// Whether a transfer of control is a call or enters another symbol's code at its start.
pub(crate) fn enters(profile: &Profile, arc: &Arc) -> bool {
    let callee = Owner::of(profile, arc.target);
    let enters = matches!(callee, Owner::Function(_)) && callee.start() == Some(arc.target);
    arc.links || enters && Owner::of(profile, arc.site) != callee
}

/// Caller that a return address lies in: its name, and the first address of its code. The name is [`UNKNOWN`] without a
/// return address, and [`EXCEPTION`] or [`RESET`] for a Cortex-M's special addresses.
pub(crate) fn caller(profile: &Profile, return_addr: Option<u64>) -> (String, Option<u64>) {
    let Some(return_addr) = return_addr else { return (UNKNOWN.to_owned(), None) };
    // Clear Thumb's bit 0; other return addresses are never odd.
    let return_addr = return_addr & !1;
    if return_addr == 0 {
        return (UNKNOWN.to_owned(), None);
    }
    if profile.facts.is_arm() && return_addr >= 0xff00_0000 {
        // Armv7-M Architecture Reference Manual, B1.5.5 and B1.5.8.
        let name = if return_addr == 0xffff_fffe { RESET } else { EXCEPTION };
        return (name.to_owned(), None);
    }
    // A task's return address may be a function's start, where no call was made.
    if Owner::of(profile, return_addr).start() == Some(return_addr) && !follows_call(profile, return_addr) {
        return (UNKNOWN.to_owned(), None);
    }
    // The call ends before the return address, which may already belong to the next function if the callee never
    // returns.
    let place = Owner::of(profile, return_addr - 1);
    (place.to_string(), place.start())
}

/// Whether the instruction before an address is a call; true if the code is not known.
fn follows_call(profile: &Profile, address: u64) -> bool {
    let Some(isa) = profile.facts.isa().filter(|_| !profile.code.is_empty()) else { return true };
    [4, 2].into_iter().any(|size| {
        let Some(code) = profile.code_at(address.wrapping_sub(size)) else { return false };
        let insn = decode::decode(isa, address.wrapping_sub(size), code);
        u64::from(insn.len_bytes) == size && insn.flow.is_call()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::owner::BOOT_ROM;
    use crate::profile::testing::empty;

    fn row<'t>(table: &'t Table, name: &str) -> &'t Row {
        table.rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no {name} in {table:#?}"))
    }

    #[test]
    fn a_profile_of_nothing_is_an_empty_table() {
        assert_eq!(table(&empty()), Table::default());
        assert_eq!(arcs(&empty()), []);
    }

    #[test]
    fn a_loop_to_the_first_instruction_is_no_call() {
        let profile = empty()
            .function("main", 0x40, 0x10)
            .function("spin", 0x50, 0x10)
            .insn(0x40, 3)
            .insn(0x50, 1000)
            .insn(0x52, 1000)
            .arc((0x42, 0x50), Some(0x46), true, 3)
            .arc((0x52, 0x50), None, false, 996)
            // Recursion is a call.
            .arc((0x54, 0x50), Some(0x58), true, 1);
        let table = table(&profile);
        assert_eq!(row(&table, "spin").calls, 4);
        assert_eq!(row(&table, "spin").self_insns, 2000);
        assert_eq!(row(&table, "main").calls, 3);
        let arcs = arcs(&profile);
        assert_eq!(arcs.len(), 2, "{arcs:?}");
        assert_eq!((arcs[0].caller.as_str(), arcs[0].callee.as_str(), arcs[0].count), ("main", "spin", 3));
        assert_eq!((arcs[1].caller.as_str(), arcs[1].callee.as_str(), arcs[1].count), ("spin", "spin", 1));
    }

    #[test]
    fn the_vcpus_are_added_up() {
        let mut profile = empty().function("main", 0x40, 0x10).insn(0x40, 3).insn(0x42, 3);
        profile.vcpus.push(profile.vcpus[0].clone());
        let table = table(&profile);
        assert_eq!((table.total_insns, table.rows.len()), (12, 1));
        assert_eq!((table.rows[0].self_insns, table.rows[0].calls), (12, 6));
    }

    #[test]
    fn rows_come_hottest_first_and_equals_by_name() {
        let profile = empty()
            .function("b", 0x40, 4)
            .function("a", 0x44, 4)
            .function("c", 0x48, 4)
            .insn(0x40, 5)
            .insn(0x44, 5)
            .insn(0x48, 6);
        let names: Vec<String> = table(&profile).rows.into_iter().map(|row| row.name).collect();
        assert_eq!(names, ["c", "a", "b"]);
    }

    #[test]
    fn code_without_a_name_is_shown_by_address_and_counted() {
        let profile = empty()
            .on_virt()
            .function("main", 0x8000_0000, 0x10)
            .insn(0x1000, 6)
            .insn(0x8000_0000, 10)
            .insn(0x8000_0010, 20)
            .insn(0x8000_00fe, 1)
            .insn(0x8000_0100, 2);
        let table = table(&profile);
        let rows: Vec<_> = table.rows.iter().map(|row| (row.name.as_str(), row.self_insns, row.kind)).collect();
        assert_eq!(
            rows,
            [
                ("[0x80000010..0x800000ff]", 21, RowKind::Unnamed),
                ("main", 10, RowKind::Function),
                (BOOT_ROM, 6, RowKind::BootRom),
                ("[0x80000100..0x800001ff]", 2, RowKind::Unnamed),
            ]
        );
        assert_eq!(table.unnamed_insns, 23);
    }

    #[test]
    fn there_is_no_boot_rom_on_a_cortex_m() {
        let table = table(&empty().insn(0x1000, 1));
        assert_eq!((table.rows[0].kind, table.unnamed_insns), (RowKind::Unnamed, 1));
    }

    #[test]
    fn wide_bins_make_wide_ranges_up_to_the_last_address() {
        let mut profile = empty().insn(u64::MAX - 1, 1);
        profile.facts.bin_bytes = 4096;
        assert_eq!(table(&profile).rows[0].name, "[0xfffffffffffff000..0xffffffffffffffff]");
    }

    #[test]
    fn the_caller_is_where_the_call_was() {
        let profile = empty()
            .function("main", 0x40, 0x10)
            .function("die", 0x50, 0x10)
            .function("handler", 0x60, 0x10)
            // The last instruction of `main` is a call; bit 0 marks Thumb.
            .arc((0x4e, 0x50), Some(0x51), true, 1)
            .arc((0x70, 0x60), Some(0xffff_fff9), true, 2)
            .arc((0x70, 0x40), Some(0xffff_ffff), false, 3)
            .arc((0x70, 0x50), None, false, 4);
        let rows: Vec<_> = arcs(&profile).into_iter().map(|row| (row.caller, row.callee, row.count)).collect();
        let expected = [(UNKNOWN, "die", 4), (RESET, "main", 3), (EXCEPTION, "handler", 2), ("main", "die", 1)];
        assert_eq!(rows, expected.map(|(caller, callee, count)| (caller.to_owned(), callee.to_owned(), count)));
    }

    #[test]
    fn a_tail_call_keeps_both_its_caller_and_its_site() {
        let profile = empty()
            .function("main", 0x40, 0x10)
            .function("front", 0x50, 0x10)
            .function("back", 0x60, 0x10)
            .arc((0x44, 0x50), Some(0x48), true, 5)
            .arc((0x58, 0x60), Some(0x48), false, 5)
            // A jump into the middle of a function is not a call.
            .arc((0x58, 0x64), None, false, 9);
        let rows = arcs(&profile);
        assert_eq!(rows.len(), 2, "{rows:?}");
        let tail_call = rows.iter().find(|row| row.callee == "back").unwrap();
        assert_eq!(tail_call.caller, "main");
        assert_eq!(tail_call.tail_call, Some(TailCall { site: 0x58, function: "front".to_owned() }));
    }

    #[test]
    fn a_score_is_large_only_where_chance_is_ruled_out() {
        // Exactly its share: 100 of 1000 samples.
        assert_eq!(z_score(100, 1000, 1_000_000, 10_000_000), 0.0);
        // Half of 100 instructions, of 400 samples: 200 expected, with a deviation of 10.
        assert_eq!(z_score(230, 400, 50, 100), 3.0);
        assert_eq!(z_score(170, 400, 50, 100), -3.0);
        // A fifth: 100 of 500 expected, with a variance of 80.
        assert!((z_score(140, 500, 1, 5) - 40.0 / 80.0_f64.sqrt()).abs() < 1e-9);
        // As many samples as instructions prove nothing unless all instructions were sampled.
        assert_eq!(z_score(50, 400, 50, 100), -15.0);
        assert_eq!(z_score(3, 0, 0, 0), 0.0);
        assert!(z_score(160, 1000, 1_000_000, 10_000_000) > 5.0);
        assert!(z_score(40, 1000, 1_000_000, 10_000_000) < -5.0);
        assert!(z_score(130, 1000, 1_000_000, 10_000_000) < 5.0);
        // One sample in a rarely executed function.
        assert!(z_score(1, 1000, 1, 10_000_000) < 5.0);
        // A function with nearly all samples that lacks two.
        assert!(z_score(998, 1000, 9_999_999, 10_000_000).abs() < 5.0);
        // Period 1, and no samples at all.
        assert_eq!(z_score(7, 1000, 7, 1000), 0.0);
        assert_eq!(z_score(0, 0, 0, 0), 0.0);
        assert_eq!(z_score(1000, 1000, 1000, 1000), 0.0);
    }
}
