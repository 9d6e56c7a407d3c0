// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks and interrupts with their parts of the run; also the list from which one of them is chosen as the scope.

use std::collections::BTreeMap;

use crate::analysis::scope::Scope;
use crate::analysis::stack_remarks::{paint_left, stack_left};
use crate::analysis::stacks::{self, Exceptions};
use crate::profile::Task;
use crate::text::tone::Tone;
use crate::ui::book::{Book, Run};
use crate::ui::grid::{Cell, Column, Fit, Grid, Row, Target};

const COLUMNS: [Column; 7] = [
    Column::name("Task, interrupt"),
    Column::number("Instructions"),
    Column::number("Share"),
    Column::number("Samples"),
    Column::number("Switched in").from(70),
    Column::number("Stack left").from(90).in_order(),
    Column::number("Paint left").from(110).in_order(),
];

/// Fills the table of tasks and interrupts.
pub(in crate::ui) fn grid(book: &Book<'_>) -> Grid {
    let run = &book.run;
    let profile = run.profile;
    let total = run.table.total_insns;
    let names = stacks::task_names(profile);
    let of_name: BTreeMap<&str, &Task> = names.iter().map(String::as_str).zip(&profile.tasks).collect();
    let known = known(run);
    let mut rows: Vec<(u64, Row)> = Vec::new();
    let totals = run.scopes.totals(&run.tree);
    for scope in run.scopes.names() {
        let sums = totals.get(scope).copied().unwrap_or_default();
        let task = match scope {
            Scope::Task(name) => of_name.get(name.as_str()).copied(),
            Scope::Interrupt(_) | Scope::Run => None,
        };
        let insns = known.get(scope).copied().unwrap_or(sums.insns);
        let cells = vec![
            Cell::text(&scope.to_string()),
            Cell::count(insns),
            Cell::share(insns, total),
            Cell::count(sums.samples),
            task.map_or_else(Cell::default, |task| Cell::count(task.switches)),
            task.map_or_else(Cell::default, |task| Cell::text(&stack_left(task, !profile.tree.is_empty()))),
            task.map_or_else(Cell::default, |task| Cell::text(&paint_left(task))),
        ];
        let target = Target::Scope(scope.clone());
        rows.push((insns, Row { cells, tone: Tone::of(insns, total), target, ..Row::default() }));
    }
    // Tasks that never ran have no path.
    let is_seen = |name: &str| run.scopes.has(&Scope::Task(name.to_owned()));
    for (name, task) in names.iter().zip(&profile.tasks).filter(|(name, _)| !is_seen(name)) {
        let mut cells =
            vec![Cell::text(&format!("task {name}")), Cell::count(task.insns), Cell::share(task.insns, total)];
        cells.extend([Cell::count(0), Cell::count(task.switches), Cell::default(), Cell::default()]);
        rows.push((task.insns, Row { cells, tone: Tone::of(task.insns, total), ..Row::default() }));
    }
    rows.sort_by_key(|(insns, _)| std::cmp::Reverse(*insns));
    Grid::new(COLUMNS.into(), rows.into_iter().map(|(_, row)| row).collect(), Some(1))
}

/// Exact instructions of scopes, where the run counted them.
fn known(run: &Run<'_>) -> BTreeMap<Scope, u64> {
    let exceptions = Exceptions::new(run.profile);
    let tasks = stacks::task_names(run.profile).into_iter().zip(&run.profile.tasks);
    let mut insns: BTreeMap<Scope, u64> = tasks.map(|(name, task)| (Scope::Task(name), task.insns)).collect();
    for exception in &run.profile.zones.exceptions {
        let name = exceptions.name(exception.number, exception.handler);
        *insns.entry(Scope::Interrupt(name)).or_default() += exception.insns;
    }
    insns
}

/// Fills the list of scopes, with the current one selected.
pub(in crate::ui) fn choice(book: &Book<'_>, current: &Scope) -> Grid {
    let columns = vec![
        Column::name("Only").in_order().fitted(Fit::Text),
        Column::number("Instructions").in_order(),
        Column::number("Share").in_order(),
    ];
    let (total, known) = (book.run.table.total_insns, known(&book.run));
    let totals = book.run.scopes.totals(&book.run.tree);
    let scopes = [Scope::Run].into_iter().chain(book.scopes());
    let rows = scopes.map(|scope| {
        let sums = if scope == Scope::Run { total } else { totals.get(&scope).map_or(0, |sums| sums.insns) };
        let insns = known.get(&scope).copied().unwrap_or(sums);
        let cells = vec![Cell::text(&scope.to_string()), Cell::count(insns), Cell::share(insns, total)];
        Row { cells, target: Target::Scope(scope), ..Row::default() }
    });
    let mut grid = Grid::new(columns, rows.collect(), None);
    grid.find_target(&Target::Scope(current.clone()));
    grid
}
