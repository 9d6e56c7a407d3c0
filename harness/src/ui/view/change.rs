// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes between two runs by function, the largest first, as `harness diff` shows them.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::compare::{Change, Fate, Pair, compare};
use crate::analysis::metrics::{Metric, Metrics};
use crate::analysis::scope::Scope;
use crate::text::number::signed_percent;
use crate::ui::book::{Book, Run};
use crate::ui::grid::{Cell, Column, Grid, Place, Row, Target};

const COLUMNS: [Column; 7] = [
    Column::name("Function"),
    Column::number("Own before"),
    Column::number("Own after"),
    Column::number("Change"),
    Column::number("Of the total"),
    Column::number("Calls before").from(110),
    Column::number("Calls after").from(110),
];

/// One function's numbers on both sides.
struct Numbers {
    name: String,
    own: [Option<u64>; 2],
    calls: [Option<u64>; 2],
    target: Target,
}

/// Fills the table. In a scope, functions are compared by the names of their own lines, and calls are not known.
pub(in crate::ui) fn grid(book: &Book<'_>, before: &Run<'_>, scope: &Scope) -> Grid {
    let places = [before.places(), book.run.places()];
    let functions =
        if *scope == Scope::Run { whole(book, before, &places) } else { within(book, before, scope, &places) };
    let total = before.total(scope).insns;
    let mut rows: Vec<(u128, Row)> = functions.into_iter().map(|numbers| row(numbers, total)).collect();
    // Stable: equal changes stay in the order of names.
    rows.sort_by_key(|(change, _)| std::cmp::Reverse(*change));
    Grid::new(COLUMNS.into(), rows.into_iter().map(|(_, row)| row).collect(), Some(3))
}

type Places = BTreeMap<(String, String), u64>;

/// First address of a function, in the later run if it is there.
fn target([before, after]: &[Places; 2], name: &str, file: Option<&str>) -> Target {
    let find = |places: &Places| {
        let first = (name.to_owned(), file.unwrap_or_default().to_owned());
        let mut namesakes = places.range(first..).take_while(|((other, _), _)| other == name);
        namesakes.find(|((_, in_file), _)| file.is_none_or(|file| in_file == file)).map(|(_, start)| *start)
    };
    match (find(after), find(before)) {
        (Some(start), _) => Target::Function(Place { is_before: false, start: Some(start) }),
        (None, Some(start)) => Target::Function(Place { is_before: true, start: Some(start) }),
        (None, None) => Target::Nothing,
    }
}

fn whole(book: &Book<'_>, before: &Run<'_>, places: &[Places; 2]) -> Vec<Numbers> {
    let [old, new] = [before.profile, book.run.profile].map(Metrics::of);
    let comparison = compare(Some(&old), &new);
    let numbers = |change: &Change| {
        let fate = match change.fate {
            Fate::Stays => String::new(),
            fate => format!(" [{}]", fate.describe()),
        };
        // A name with a file in brackets has namesakes.
        let file = change.name.strip_prefix(&change.plain_name).and_then(|rest| rest.strip_prefix(" ("));
        let file = file.and_then(|file| file.strip_suffix(')'));
        let (own, calls) = (change.self_insns(), change.numbers[Metric::Calls]);
        Numbers {
            name: format!("{}{fate}", change.name),
            own: [own.before, own.after],
            calls: [calls.before, calls.after],
            target: target(places, &change.plain_name, file),
        }
    };
    comparison.functions.iter().map(numbers).collect()
}

fn within(book: &Book<'_>, before: &Run<'_>, scope: &Scope, places: &[Places; 2]) -> Vec<Numbers> {
    let [old, new] = [before, &book.run].map(|run| run.scopes.by_own_name(&run.tree, scope));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let numbers = |name: &String| Numbers {
        name: name.clone(),
        own: [old.get(name).copied(), new.get(name).copied()],
        calls: [None; 2],
        target: target(places, name, None),
    };
    names.into_iter().map(numbers).collect()
}

fn row(numbers: Numbers, total: u64) -> (u128, Row) {
    let Numbers { name, own: [old, new], calls, target } = numbers;
    let pair = Pair { before: old, after: new };
    let (change, tone) = (pair.difference(), pair.tone(total));
    let cells = vec![
        Cell::text(&name),
        Cell::known(old),
        Cell::known(new),
        Cell::signed(change),
        Cell::change(change, signed_percent(change, total)),
        Cell::known(calls[0]),
        Cell::known(calls[1]),
    ];
    (change.unsigned_abs(), Row { cells, tone, target, ..Row::default() })
}
