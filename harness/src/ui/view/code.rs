// SPDX-License-Identifier: MIT OR Apache-2.0
//! A function's source lines and machine code with counts, as `harness annotate` shows them; and where an
//! instruction's call or jump leads.

use std::collections::BTreeMap;

use decode::Flow;

use crate::analysis::listing::Instruction;
use crate::analysis::owner::Owner;
use crate::analysis::scope::Scope;
use crate::profile::Profile;
use crate::show::annotation::{MOST_LINES, heading_of, line_text};
use crate::text::number::Hex;
use crate::text::tone::Tone;
use crate::ui::book::Book;
use crate::ui::grid::{Cell, Column, Fit, Grid, Place, Row, Target};

const COLUMNS: [Column; 5] = [
    Column::number("Share").in_order(),
    Column::number("Count").in_order(),
    Column::number("Samples").in_order(),
    Column::number("Address").in_order(),
    Column::name("Instruction").in_order().fitted(Fit::Text),
];

/// Fills the table: the hottest source lines, then the code. Counts are those of the whole run; only samples are known
/// by scope.
pub(in crate::ui) fn grid(book: &Book<'_>, place: Place, scope: &Scope) -> Grid {
    let run = book.run_of(place);
    let listing = book.listing(place);
    let samples = (*scope != Scope::Run).then(|| {
        let mut samples: BTreeMap<u64, u64> = BTreeMap::new();
        let all = run.profile.samples.iter().zip(&run.tree.samples);
        for (sample, _) in all.filter(|(_, path)| run.scopes.is_in(&run.tree, scope, **path)) {
            *samples.entry(sample.pc).or_default() += 1;
        }
        samples
    });
    let of_scope = |insn: &Instruction| match &samples {
        Some(samples) => samples.get(&insn.address).copied().unwrap_or(0),
        None => insn.samples,
    };
    let hottest = listing.hottest();
    let shown = hottest.len().min(MOST_LINES);
    let mut rows: Vec<Row> = Vec::new();
    let mut first_row: BTreeMap<usize, usize> = BTreeMap::new();
    // Hottest lines with a heading above, and the heading of the code.
    let above = if shown > 0 { shown + 2 } else { 0 };
    for run in &listing.runs {
        if let Some(heading) = heading_of(run, &listing) {
            rows.push(Row { copied: Some(heading.trim().to_owned()), ..Row::heading(&heading) });
        }
        if let Some(line) = run.line {
            first_row.entry(line).or_insert(above + rows.len());
        }
        rows.extend(run.instructions.iter().map(|insn| instruction(insn, of_scope(insn), listing.row.self_insns)));
    }
    let lines = hottest[..shown].iter().map(|line| {
        let index = listing.lines.iter().position(|other| other == *line);
        let target = index.and_then(|index| first_row.get(&index)).map_or(Target::Nothing, |&row| Target::Row(row));
        let text = line_text(line);
        let samples = if samples.is_some() { Cell::default() } else { some(line.samples) };
        let all = listing.row.self_insns;
        let cells =
            vec![Cell::share(line.insns, all), Cell::count(line.insns), samples, Cell::default(), Cell::text(&text)];
        Row { cells, tone: Tone::of(line.insns, all), target, copied: Some(text), ..Row::default() }
    });
    let lines: Vec<Row> = lines.collect();
    if shown > 0 {
        let head = if hottest.len() > shown { "hottest source lines" } else { "source lines, hottest first" };
        rows.splice(0..0, [Row::heading(head)].into_iter().chain(lines).chain([Row::heading("code")]));
    }
    let mut grid = Grid::new(COLUMNS.into(), rows, None);
    grid.select(usize::from(shown > 0));
    grid
}

/// Index of the most executed instruction.
pub(in crate::ui) fn hottest(grid: &Grid) -> Option<usize> {
    let count = |row: &Row| row.cells.get(1).filter(|_| is_instruction(row)).map(|cell| cell.text.replace(',', ""));
    let counts =
        grid.rows.iter().enumerate().filter_map(|(index, row)| Some((index, count(row)?.parse::<u64>().ok()?)));
    // The first of equal ones.
    counts.max_by_key(|&(index, count)| (count, std::cmp::Reverse(index))).map(|(index, _)| index)
}

fn is_instruction(row: &Row) -> bool {
    row.cells.get(3).is_some_and(|cell| !cell.text.is_empty())
}

/// Address of a row's instruction.
pub(in crate::ui) fn address(row: &Row) -> Option<u64> {
    u64::from_str_radix(row.cells.get(3)?.text.strip_prefix("0x")?, 16).ok()
}

/// Number of samples; empty for none, so that the others stand out.
fn some(samples: u64) -> Cell {
    if samples == 0 { Cell::default() } else { Cell::count(samples) }
}

fn instruction(insn: &Instruction, samples: u64, all: u64) -> Row {
    let text = if insn.text.is_empty() { "(not in the image)" } else { &insn.text };
    let cells = vec![
        if insn.count == 0 { Cell::default() } else { Cell::share(insn.count, all) },
        Cell::count(insn.count),
        some(samples),
        Cell::text(&Hex(insn.address).to_string()),
        Cell::text(text),
    ];
    Row { cells, tone: Tone::of(insn.count, all), copied: Some(Hex(insn.address).to_string()), ..Row::default() }
}

/// Destination of an instruction.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::ui) enum Leads {
    /// Functions, the one called most often first, with their calls.
    Functions(Vec<(Option<u64>, u64)>),
    /// An address in the same function.
    Inside(u64),
    /// The next instruction.
    On,
}

/// Finds where an instruction led: exactly by its recorded calls and jumps, or else as its code says.
pub(in crate::ui) fn leads(profile: &Profile, address: u64) -> Leads {
    let own = Owner::of(profile, address);
    let mut functions: BTreeMap<Option<u64>, u64> = BTreeMap::new();
    for arc in profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs).filter(|arc| arc.site == address) {
        if arc.links || Owner::of(profile, arc.target) != own {
            *functions.entry(Owner::of(profile, arc.target).start()).or_default() += arc.count;
        }
    }
    if !functions.is_empty() {
        let mut functions: Vec<(Option<u64>, u64)> = functions.into_iter().collect();
        functions.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
        return Leads::Functions(functions);
    }
    let flow =
        profile.facts.isa().zip(profile.code_at(address)).map(|(isa, code)| decode::decode(isa, address, code).flow);
    match flow {
        Some(Flow::Call { target } | Flow::Jump { target } | Flow::Branch { target }) => {
            let target = target & !1;
            let place = Owner::of(profile, target);
            if place == own { Leads::Inside(target) } else { Leads::Functions(vec![(place.start(), 0)]) }
        }
        _ => Leads::On,
    }
}

/// Fills the list of functions that a call led to.
pub(in crate::ui) fn choice(book: &Book<'_>, from: Place, functions: &[(Option<u64>, u64)]) -> Grid {
    let columns = vec![Column::name("It called").in_order(), Column::number("Calls").in_order()];
    let rows = functions.iter().map(|&(start, calls)| {
        let place = Place { start, ..from };
        let cells = vec![Cell::text(&book.name(place)), Cell::count(calls)];
        Row { cells, target: Target::Function(place), ..Row::default() }
    });
    Grid::new(columns, rows.collect(), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Code;
    use crate::profile::testing::empty;

    #[test]
    fn a_call_leads_to_what_it_called_and_a_branch_to_its_target() {
        let mut profile = empty()
            .function("main", 0x40, 0x10)
            .function("one", 0x50, 0x10)
            .function("two", 0x60, 0x10)
            .insn(0x40, 3)
            .arc((0x44, 0x50), Some(0x46), true, 2)
            .arc((0x44, 0x60), Some(0x46), true, 5);
        // b.n 0x40; bl 0x60.
        profile.code.push(Code { start: 0x48, bytes: vec![0xfa, 0xe7, 0x00, 0xf0, 0x09, 0xf8, 0x70, 0x47] });
        // Through a register, to two functions.
        assert_eq!(leads(&profile, 0x44), Leads::Functions(vec![(Some(0x60), 5), (Some(0x50), 2)]));
        assert_eq!(leads(&profile, 0x48), Leads::Inside(0x40));
        assert_eq!(leads(&profile, 0x4a), Leads::Functions(vec![(Some(0x60), 0)]), "a call that never executed");
        assert_eq!(leads(&profile, 0x4e), Leads::On);
        assert_eq!(leads(&profile, 0x900), Leads::On);
    }
}
