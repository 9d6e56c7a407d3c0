// SPDX-License-Identifier: MIT OR Apache-2.0
//! A function between its callers and its callees, with their costs, as `harness callers` shows it.

use crate::analysis::callgraph::{CallGraph, Edge, Inclusive, NO_CALLER, Party};
use crate::analysis::scope::Scope;
use crate::show::names;
use crate::text::number::group;
use crate::text::tone::Tone;
use crate::ui::book::Book;
use crate::ui::grid::{Cell, Column, Fit, Grid, Place, Row, Target};

const COLUMNS: [Column; 5] = [
    Column::number("Calls").in_order(),
    Column::number("Instructions").in_order(),
    Column::number("Share").in_order(),
    Column::number("Cycles").in_order(),
    Column::name("Callers, function, callees").in_order().fitted(Fit::Text),
];

/// Index of the cycles, a column of runs that know them.
const CYCLES_AT: usize = 3;

const INDENT: &str = "    ";

/// Fills the table, with the function selected. In a scope only calls that led to instructions are shown, and their
/// number is not known.
pub(in crate::ui) fn grid(book: &Book<'_>, place: Place, scope: &Scope) -> Grid {
    let run = book.run_of(place);
    let graph = CallGraph::new(run.profile, &run.scopes.within(&run.tree, scope));
    let party = graph.party(place.start);
    let is_whole = *scope == Scope::Run;
    let node = graph.nodes.get(&party).copied().unwrap_or_default();
    let whole = graph.has_inclusive.then_some(node.inclusive);
    let of = whole.map_or(graph.total_insns, |whole| whole.insns);
    let is_there = |edge: &Edge| is_whole || edge.inclusive.insns > 0;
    let line = |(other, edge): (&Party, &Edge)| {
        // A call without samples is not free; its cost is unknown.
        let cost = Some(edge.inclusive).filter(|cost| cost.insns > 0 || graph.is_exact);
        let cost = cost.filter(|_| graph.has_inclusive);
        let target = match other {
            Party::Code(start) => Target::Function(Place { start: Some(*start), ..place }),
            Party::BootRom => Target::Function(Place { start: None, ..place }),
            Party::Outside(_) => Target::Nothing,
        };
        let plain = |party: &Party| party.name(run.profile);
        let name = |party: &Party| names::async_bodies(&run.profile.names, &plain(party));
        let jumps = edge.tail_calls.iter().filter(|_| is_whole);
        let jumps = jumps.map(|(party, count)| format!("{} by tail call from {}", group(*count), name(party)));
        let jumps: Vec<String> = jumps.collect();
        let through = if jumps.is_empty() { String::new() } else { format!("  ({})", jumps.join(", ")) };
        let shown = format!("{INDENT}{}{through}", name(other));
        Row { target, copied: Some(plain(other)), ..cells(counts(is_whole.then_some(edge.calls), cost), of, &shown) }
    };
    let mut rows: Vec<Row> = graph.callers(&party).into_iter().filter(|(_, edge)| is_there(edge)).map(line).collect();
    // The most expensive row goes next to the function.
    rows.reverse();
    if rows.is_empty() {
        rows.push(Row { tone: Tone::Never, ..cells([None; 3], of, &format!("{INDENT}{NO_CALLER}")) });
    }
    let at = rows.len();
    let total = if is_whole { graph.total_insns } else { run.total(scope).insns };
    let function = cells(counts(is_whole.then_some(node.calls), whole), total, &book.name(place));
    rows.push(Row { target: Target::Function(place), tone: Tone::Heading, ..function });
    let own = match is_whole {
        true => (node.self_insns, node.self_cycles),
        false => {
            let functions = run.scopes.by_function(&run.tree, scope);
            let own = functions.iter().find(|(member, _)| member.start == place.start);
            (own.map_or(0, |(_, sums)| sums.insns), None)
        }
    };
    rows.push(cells([None, Some(own.0), own.1], of, &format!("{INDENT}(itself)")));
    rows.extend(graph.callees(&party).into_iter().filter(|(_, edge)| is_there(edge)).map(line));
    let mut columns = Vec::from(COLUMNS);
    if graph.total_cycles.is_none() {
        columns.remove(CYCLES_AT);
        rows.iter_mut().for_each(|row| drop(row.cells.remove(CYCLES_AT)));
    }
    let mut grid = Grid::new(columns, rows, None);
    grid.select(at);
    grid
}

/// Calls, instructions and cycles.
fn counts(calls: Option<u64>, cost: Option<Inclusive>) -> [Option<u64>; 3] {
    [calls, cost.map(|cost| cost.insns), cost.map(|cost| cost.cycles)]
}

fn cells([calls, insns, cycles]: [Option<u64>; 3], of: u64, name: &str) -> Row {
    let cells = vec![
        calls.map_or_else(Cell::default, Cell::count),
        Cell::known(insns),
        insns.map_or_else(|| Cell::text("-"), |insns| Cell::share(insns, of)),
        Cell::known(cycles),
        Cell::text(name),
    ];
    let tone = insns.map_or(Tone::Plain, |insns| Tone::of(insns, of));
    Row { cells, tone, copied: Some(name.trim().to_owned()), ..Row::default() }
}
