// SPDX-License-Identifier: MIT OR Apache-2.0
//! Function names in table cells: shortened to the column's width, but never so that two functions look the same. The
//! least telling parts are cut first: arguments, the modules of types, generic arguments, the middle.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::functions::{RowKind, Table};
use crate::image::symbols;
use crate::profile::Names;
use crate::text::columns::{columns, shorten};
use crate::text::printable::printable;

/// Marks of an async function's body: in a table, and while a name is taken apart. Round brackets would be read as
/// arguments then.
const ASYNC: (&str, &str) = (" (async)", "{async}");

/// Least columns of a name, however narrow the terminal is.
pub const MIN_COLUMNS: usize = 12;

/// Returns the table with the bodies of async functions marked.
pub fn with_async_bodies<'t>(names: &Names, table: &'t Table) -> Cow<'t, Table> {
    if names.async_bodies.is_empty() {
        return Cow::Borrowed(table);
    }
    let mut table = table.clone();
    for row in table.rows.iter_mut().filter(|row| row.kind == RowKind::Function) {
        row.name = async_bodies(names, &row.name);
    }
    Cow::Owned(table)
}

/// Marks the bodies of async functions in a name: `producer_task (async)`.
pub fn async_bodies(names: &Names, name: &str) -> String {
    let is_body = |path: &str| names.async_bodies.binary_search_by(|body| body.as_str().cmp(path)).is_ok();
    symbols::with_async_bodies(name, is_body)
}

/// Shortens the names of a table's rows, each to at most a number of columns. Different names give different cells.
pub fn cells(rows: &[(&str, usize)]) -> Vec<String> {
    let mut cells: Vec<String> = rows.iter().map(|&(name, width)| short(name, width)).collect();
    let mut alike: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (cell, &(name, _)) in cells.iter().zip(rows) {
        alike.entry(cell).or_default().insert(name);
    }
    let alike = alike.into_iter().filter(|(_, names)| names.len() > 1);
    let alike: BTreeMap<&str, Alike<'_>> = alike.map(|(cell, names)| (cell, Alike::new(&names))).collect();
    let apart = cells.iter().zip(rows).map(|(cell, &(name, width))| {
        let alike = alike.get(cell.as_str())?;
        Some(alike.told_apart(name, width))
    });
    let apart: Vec<Option<String>> = apart.collect();
    for (cell, apart) in cells.iter_mut().zip(apart) {
        *cell = apart.unwrap_or_else(|| std::mem::take(cell));
    }
    // If the width leaves no room for a difference, a number makes one.
    let mut shown: BTreeMap<String, &str> = BTreeMap::new();
    let mut numbers: BTreeMap<String, BTreeMap<&str, usize>> = BTreeMap::new();
    for (cell, &(name, width)) in cells.iter_mut().zip(rows) {
        if *shown.entry(cell.clone()).or_insert(name) == name {
            continue;
        }
        // The shortened text beside a number may be common to many names.
        let given = numbers.entry(shorten(name, width.saturating_sub(" (2)".len())).into_owned()).or_default();
        let mut number = given.get(name).copied().unwrap_or(given.len() + 2);
        loop {
            let end = format!(" ({number})");
            *cell = shorten(name, width.saturating_sub(end.len())).into_owned() + &end;
            if *shown.entry(cell.clone()).or_insert(name) == name {
                break;
            }
            number += 1;
        }
        given.insert(name, number);
    }
    cells
}

/// Shortens the names in one column of a table so that its lines fit into a width, but never below [`MIN_COLUMNS`]. None:
/// the names are whole.
pub fn fit<L: AsRef<[String]> + AsMut<[String]>>(lines: &mut [L], column: usize, width_columns: Option<usize>) {
    let Some(width_columns) = width_columns else { return };
    for line in lines.iter_mut().map(AsMut::as_mut) {
        if let Cow::Owned(one_line) = printable(&line[column]) {
            line[column] = one_line;
        }
    }
    let widest = |column: usize| lines.iter().map(|line| columns(&line.as_ref()[column])).max().unwrap_or(0);
    let count = lines.first().map_or(0, |line| line.as_ref().len());
    // A table has two spaces between its columns.
    let others: usize = (0..count).filter(|&other| other != column).map(|other| widest(other) + 2).sum();
    let room = width_columns.saturating_sub(others).max(MIN_COLUMNS);
    if widest(column) <= room {
        return;
    }
    let names: Vec<(&str, usize)> = lines.iter().map(|line| (line.as_ref()[column].as_str(), room)).collect();
    for (cell, line) in cells(&names).into_iter().zip(lines) {
        line.as_mut()[column] = cell;
    }
}

/// Shortens a name to at most a number of columns, cutting no more than needed.
fn short(name: &str, width: usize) -> String {
    if columns(name) <= width {
        return name.to_owned();
    }
    let marked = name.replace(ASYNC.0, ASYNC.1);
    let bare = symbols::without_arguments(&marked);
    let arguments = if bare.len() < marked.len() { "(…)" } else { "" };
    let inner = without_inner_paths(bare);
    let last = symbols::without_template_arguments(&inner);
    let mut forms: Vec<String> =
        [bare, &inner].map(|form| format!("{form}{arguments}").replace(ASYNC.1, ASYNC.0)).into();
    match body(&inner) {
        // The task's name tells more than the function that polls it.
        Some((start, end)) => {
            let around = start.checked_sub(1).map_or(String::new(), |before| format!("…{}", &inner[before..]));
            forms.push(format!("{around}{arguments}").replace(ASYNC.1, ASYNC.0));
            forms.push(last_part(&inner[start..end]).replace(ASYNC.1, ASYNC.0));
        }
        None => forms.push(format!("{last}{arguments}")),
    }
    let fitting = forms.iter().find(|form| !form.is_empty() && columns(form) <= width);
    let least = forms.last().map_or(name, String::as_str);
    fitting.cloned().unwrap_or_else(|| shorten(least, width).into_owned())
}

/// Position of the first async function's body among the generic arguments of a name.
fn body(marked: &str) -> Option<(usize, usize)> {
    let at = marked.find(ASYNC.1)?;
    let start = marked[..at].rfind(['<', '(', '[', ',', ' ', '&']).map_or(0, |before| before + 1);
    Some((start, at + ASYNC.1.len()))
}

/// Names that would look the same when shortened.
struct Alike<'n> {
    /// Full text of each name.
    forms: BTreeMap<&'n str, Vec<char>>,
    /// Number of characters that all names have in common at the start and at the end.
    common: (usize, usize),
}

impl<'n> Alike<'n> {
    fn new(names: &BTreeSet<&'n str>) -> Alike<'n> {
        let inner = |name: &str| {
            let marked = name.replace(ASYNC.0, ASYNC.1);
            without_inner_paths(symbols::without_arguments(&marked)).replace(ASYNC.1, ASYNC.0)
        };
        let inner: Vec<String> = names.iter().map(|name| inner(name)).collect();
        let are_told_apart = inner.iter().collect::<BTreeSet<_>>().len() == names.len();
        let forms = names.iter().zip(&inner).map(|(&name, inner)| {
            let form = if are_told_apart { inner } else { name };
            (name, form.chars().collect::<Vec<char>>())
        });
        let forms: BTreeMap<&str, Vec<char>> = forms.collect();
        let mut common = (usize::MAX, usize::MAX);
        for (one, other) in forms.values().zip(forms.values().skip(1)) {
            common.0 = common.0.min(one.iter().zip(other).take_while(|(one, other)| one == other).count());
            let ends = one.iter().rev().zip(other.iter().rev());
            common.1 = common.1.min(ends.take_while(|(one, other)| one == other).count());
        }
        Alike { forms, common }
    }

    /// Shortens one of the names: cuts the common parts, keeps the difference.
    fn told_apart(&self, name: &str, width: usize) -> String {
        let own = &self.forms[name];
        let (mut start, end) = self.common;
        // A whole word is easier to read than its part from the first difference on.
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        while start > 0 && is_word(own[start - 1]) {
            start -= 1;
        }
        let mut end = own.len() - end.min(own.len() - start);
        while end < own.len() && is_word(own[end]) {
            end += 1;
        }
        let text = |range: std::ops::Range<usize>| own[range].iter().collect::<String>();
        let (before, different, after) = (text(0..start), text(start..end), text(end..own.len()));
        let cut = |text: &str, room: usize| if room == 0 { String::new() } else { shorten(text, room).into_owned() };
        let different = cut(&different, width - width / 3);
        let room = width.saturating_sub(columns(&different));
        let after = cut(&after, room.saturating_sub(columns(&before)).max(room / 2));
        let before = cut(&before, room.saturating_sub(columns(&after)));
        before + &different + &after
    }
}

/// Removes the modules of types from a name: `<String as Write>::write_str`.
fn without_inner_paths(name: &str) -> String {
    let mut text = String::new();
    let mut path = String::new();
    let (mut depth, mut braces) = (0_usize, 0_usize);
    let put = |text: &mut String, path: &mut String, depth: usize| {
        text.push_str(if depth > 0 { last_part(path) } else { path });
        path.clear();
    };
    for character in name.chars() {
        match character {
            '{' => braces += 1,
            '}' => braces = braces.saturating_sub(1),
            _ => {}
        }
        if braces > 0 || character.is_alphanumeric() || matches!(character, '_' | ':' | '{' | '}' | '#' | '$') {
            path.push(character);
            continue;
        }
        put(&mut text, &mut path, depth);
        match character {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        text.push(character);
    }
    put(&mut text, &mut path, depth);
    text
}

/// Last part of a path; for a closure, with the part before it.
fn last_part(path: &str) -> &str {
    // Text after `<A as B>` does not begin a path.
    if path.starts_with("::") {
        return path;
    }
    let mut start = path.len();
    while let Some((before, last)) = path[..start].rsplit_once("::") {
        let is_closure = last.starts_with('{');
        start = before.len();
        if !is_closure {
            return &path[start + "::".len()..];
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(names: &[&str], width: usize) -> Vec<String> {
        cells(&names.iter().map(|name| (*name, width)).collect::<Vec<_>>())
    }

    const TASKS: [&str; 3] = [
        "<embassy_executor::raw::TaskStorage<embassy_demo::consumer_task (async)>>::poll",
        "<embassy_executor::raw::TaskStorage<embassy_demo::producer_task (async)>>::poll",
        "<embassy_executor::raw::TaskStorage<embassy_demo::ticker_task (async)>>::poll",
    ];

    #[test]
    fn what_tells_least_is_left_out_first() {
        let name = "<alloc::vec::Vec<app::Item> as core::iter::Extend<app::Item>>::extend\
                    ::<app::Source, app::run::{closure#1}>";
        for (width, short) in [
            (200, name),
            (70, "<Vec<Item> as Extend<Item>>::extend::<Source, run::{closure#1}>"),
            (45, "<Vec<Item> as Extend<Item>>::extend::<…>"),
            (30, "<Vec<Item…nd<Item>>::extend::<…>"),
        ] {
            let cell = &shown(&[name], width)[0];
            assert!(columns(cell) <= width, "{cell}");
            if width > 30 {
                assert_eq!(cell, short);
            }
        }
        assert_eq!(shown(&["ns::A<ns::B>::f(ns::C const&, int) const"], 16), ["ns::A<B>::f(…)"]);
    }

    #[test]
    fn a_task_is_told_by_its_body() {
        assert_eq!(
            shown(&TASKS, 50),
            [
                "<TaskStorage<consumer_task (async)>>::poll",
                "<TaskStorage<producer_task (async)>>::poll",
                "<TaskStorage<ticker_task (async)>>::poll"
            ]
        );
        assert_eq!(shown(&TASKS, 32)[1], "…<producer_task (async)>>::poll");
        assert_eq!(shown(&TASKS, 24)[1], "producer_task (async)");
        assert_eq!(shown(&["app::blink (async)"], 16), ["blink (async)"]);
    }

    #[test]
    fn a_column_of_names_fits_the_table_into_the_width() {
        let table = || {
            let row = |task: &str, context: &str| [task.to_owned(), "12,345".to_owned(), context.to_owned()];
            vec![row("Task", "In"), row("a very long name of a thread", "handler of many"), row("short", "thread")]
        };
        let widths = |lines: &[[String; 3]]| {
            (0..3).map(|column| lines.iter().map(|line| columns(&line[column])).max().unwrap()).collect::<Vec<_>>()
        };
        let mut lines = table();
        fit(&mut lines, 0, None);
        assert_eq!(lines, table());
        fit(&mut lines, 0, Some(53));
        assert_eq!(lines, table(), "it fits");
        fit(&mut lines, 0, Some(52));
        assert_eq!((widths(&lines), lines[2][0].as_str()), (vec![27, 6, 15], "short"));
        fit(&mut lines, 0, Some(10));
        fit(&mut lines, 2, Some(10));
        assert_eq!(widths(&lines), [MIN_COLUMNS, 6, MIN_COLUMNS], "no narrower");
    }

    #[test]
    fn rows_of_different_names_never_look_the_same() {
        let sorts = [
            "hello::generic_sort::<u32, u32, hello::sorts::{closure#4}>",
            "hello::generic_sort::<u32, u32, hello::sorts::{closure#2}>",
            "hello::generic_sort::<(u16, i8), core::cmp::Reverse<u16>, hello::sorts::{closure#3}>",
        ];
        let long = |end: &str| format!("{}::{end}::{}", "a".repeat(90), "b".repeat(90));
        let long = ["x", "y", "x"].map(long);
        let mut names: Vec<&str> = sorts.iter().chain(&TASKS).copied().collect();
        names.extend(long.iter().map(String::as_str));
        // Static functions in several files may share a name.
        names.extend(["init", "init", "read(int)", "read(char)", "a::read(long)"]);
        for width in 4..120 {
            let cells = shown(&names, width);
            for (one, cell) in cells.iter().enumerate() {
                assert!(columns(cell) <= width.max(6), "{width}: {cell}");
                for (other, alike) in cells.iter().enumerate() {
                    assert_eq!(names[one] == names[other], cell == alike, "{width}: {cells:#?}");
                }
            }
        }
        assert_eq!(shown(&sorts, 39)[1], "hel…sort::<u32, u32…sorts::{closure#2}>");
    }

    #[test]
    fn thousands_of_rows_that_look_the_same_are_told_apart() {
        let names: Vec<String> =
            (0..20_000).map(|number| format!("alloc::some::drop_in_place<app::Item{number:05}>()")).collect();
        let rows: Vec<&str> = names.iter().map(String::as_str).collect();
        for width in [8, 24] {
            let cells = shown(&rows, width);
            assert_eq!(cells.iter().collect::<BTreeSet<_>>().len(), names.len(), "{width}: {}", cells[1]);
        }
    }
}
