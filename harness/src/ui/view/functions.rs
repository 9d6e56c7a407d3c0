// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions with their instructions, own lines, calls and samples, hottest first; of the run or of one scope.

use std::collections::BTreeMap;

use crate::analysis::functions::{Row as Function, RowKind};
use crate::analysis::scope::Scope;
use crate::show::names;
use crate::text::tone::Tone;
use crate::ui::book::{Book, Run};
use crate::ui::grid::{Cell, Column, Fit, Grid, Place, Row, Target};

const COLUMNS: [Column; 8] = [
    Column::name("Function"),
    Column::number("Instructions"),
    Column::number("Share"),
    Column::number("Cycles"),
    Column::number("Own lines").from(110),
    Column::number("Calls"),
    Column::number("Samples"),
    Column::name("Defined at").from(70).fitted(Fit::Location).in_order(),
];

/// Index of the cycles, a column of runs that know them.
const CYCLES_AT: usize = 3;

/// Fills the table. In a scope, calls, cycles and own lines are not known by function.
pub(in crate::ui) fn grid(book: &Book<'_>, scope: &Scope) -> Grid {
    let run = &book.run;
    let mut rows = if *scope == Scope::Run { whole(run) } else { within(run, scope) };
    let mut columns = Vec::from(COLUMNS);
    let has_cycles = run.table.total_cycles.is_some();
    if !has_cycles {
        columns.remove(CYCLES_AT);
        rows.iter_mut().for_each(|row| drop(row.cells.remove(CYCLES_AT)));
    }
    let sorted = if has_cycles && *scope == Scope::Run { CYCLES_AT } else { 1 };
    Grid::new(columns, rows, Some(sorted))
}

fn whole(run: &Run<'_>) -> Vec<Row> {
    let total = run.table.total_insns;
    let row = |function: &Function| {
        let own = run.own_lines.get(&function.start).copied().unwrap_or(function.self_insns);
        let calls = (function.kind == RowKind::Function).then_some(function.calls);
        let known = Known { cycles: function.cycles, own_lines: Some(own), calls };
        line(run, function, (function.self_insns, function.samples), known, total)
    };
    run.table.rows.iter().map(row).collect()
}

fn within(run: &Run<'_>, scope: &Scope) -> Vec<Row> {
    let total = run.total(scope).insns;
    let known: BTreeMap<(Option<u64>, &str), &Function> =
        run.table.rows.iter().map(|row| ((row.start, &*row.name), row)).collect();
    let mut rows: Vec<(u64, Row)> = Vec::new();
    for (member, sums) in run.scopes.by_function(&run.tree, scope) {
        let counts = (sums.insns, sums.samples);
        rows.push((
            sums.insns,
            match known.get(&(member.start, &*member.frame.name)) {
                Some(function) => line(run, function, counts, Known::default(), total),
                // Instructions outside of all functions.
                None => cells(&member.frame.name, counts, Known::default(), ("", total)),
            },
        ));
    }
    // Stable: equal ones stay in the order of names.
    rows.sort_by_key(|(insns, _)| std::cmp::Reverse(*insns));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Numbers of a function that are not known everywhere.
#[derive(Clone, Copy, Default)]
struct Known {
    cycles: Option<u64>,
    own_lines: Option<u64>,
    calls: Option<u64>,
}

fn line(run: &Run<'_>, function: &Function, counts: (u64, u64), known: Known, total: u64) -> Row {
    let line = function.line.map_or_else(String::new, |line| format!(":{line}"));
    let at = function.file.as_ref().map_or_else(String::new, |file| format!("{file}{line}"));
    let target = Target::Function(Place { is_before: false, start: function.start });
    let shown = names::async_bodies(&run.profile.names, &function.name);
    Row { target, copied: Some(function.name.clone()), ..cells(&shown, counts, known, (&at, total)) }
}

fn cells(name: &str, (insns, samples): (u64, u64), known: Known, (at, total): (&str, u64)) -> Row {
    let cells = vec![
        Cell::text(name),
        Cell::count(insns),
        Cell::share(insns, total),
        Cell::known(known.cycles),
        Cell::known(known.own_lines),
        Cell::known(known.calls),
        Cell::count(samples),
        Cell::text(at),
    ];
    Row { cells, tone: Tone::of(insns, total), ..Row::default() }
}
