// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds Embassy in an image: the functions that its executors call to resume a task.
//!
//! An async task has no stack of its own. `TaskStorage<F>::poll` resumes it, and the compiler makes one such function
//! for each future F. F is named after the task's function; several tasks of one function share it. Rust's older
//! mangling leaves F out of the symbol; then DWARF has it.

use std::collections::BTreeMap;

use gimli::{self, AttributeValue};
use object::{Object as _, ObjectSymbol as _, SymbolKind};
use wire::definition::MAX_TEXT_BYTES;
use wire::request::{Lives, Poll};

use crate::image::symbols::demangle;
use crate::image::symbols::dwarf::{Sections, Slice, Unit};
use crate::image::symbols::entry_ranges::EntryRanges;

/// Text before and after F in the function's name.
const POLL: (&str, &str) = ("<embassy_executor::raw::TaskStorage<", ">>::poll");

/// Name of the function in the older mangling.
const OLD_POLL: &str = "embassy_executor::raw::TaskStorage<F>::poll";

/// Text before and after F in DWARF's name of the function.
const DWARF_POLL: (&str, &str) = ("poll<", ">");

/// Separator between the names of tasks whose functions the compiler has merged.
const OR: &str = " or ";

/// Most references that are followed from a function to its name.
const MAX_HOPS: usize = 8;

/// Finds the functions; `elf` is the file with the symbols.
pub fn find(elf: Option<&[u8]>, load_bias: u64, arm: bool) -> Vec<Poll> {
    let Some(file) = elf.and_then(|bytes| object::File::parse(bytes).ok()) else { return Vec::new() };
    let mut names: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition()) {
        let Some(full) = symbol.name().ok().map(demangle) else { continue };
        let future = full.strip_prefix(POLL.0).and_then(|rest| rest.strip_suffix(POLL.1));
        let address = if arm { symbol.address() & !1 } else { symbol.address() };
        match future {
            Some(future) => names.entry(address).or_default().push(task_name(future)),
            None if full == OLD_POLL => drop(names.entry(address).or_default()),
            None => {}
        }
    }
    if names.values().any(Vec::is_empty) {
        for (address, future) in futures(&file, &names) {
            names.entry(address).or_default().push(task_name(&future));
        }
    }
    let polls = names.into_iter().map(|(address, mut names)| {
        let entry = address.wrapping_add(load_bias);
        names.sort();
        names.dedup();
        let mut name = names.join(OR);
        while name.len() > MAX_TEXT_BYTES {
            name.pop();
        }
        Poll { entry, name }
    });
    polls.collect()
}

/// Functions that wake the task that their first argument points to, and those that spawn the one of their second. Some
/// are inlined into others.
const WAKES: [&str; 3] = [
    "embassy_executor::raw::waker::wake",
    "embassy_executor::raw::wake_task",
    "embassy_executor::raw::wake_task_no_pend",
];
const SPAWNS: [&str; 2] = ["embassy_executor::raw::SyncExecutor::spawn", "embassy_executor::raw::Executor::spawn"];

/// The structure at the start of each task, and its members.
const HEADER: &str = "TaskHeader";
const POLL_MEMBER: &str = "poll_fn";
const STATE_MEMBER: &str = "state";

/// Finds where the tasks' lives are seen; `elf` is the file with the symbols.
pub fn lives(elf: Option<&[u8]>, load_bias: u64, arm: bool) -> Lives {
    let Some(file) = elf.and_then(|bytes| object::File::parse(bytes).ok()) else { return Lives::default() };
    let entries = |names: &[&str]| {
        let mut found = Vec::new();
        for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition()) {
            // The newer mangling has an implementation's type in brackets: `<…::Executor>::spawn`.
            let name = symbol.name().ok().map(|name| demangle(name).replace(['<', '>'], ""));
            if name.is_some_and(|name| names.contains(&name.as_str())) {
                let address = if arm { symbol.address() & !1 } else { symbol.address() };
                found.push(address.wrapping_add(load_bias));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    };
    let offset = |member| super::member_offset(elf, load_bias, arm, (HEADER, member));
    Lives {
        wakes: entries(&WAKES),
        spawns: entries(&SPAWNS),
        poll: offset(POLL_MEMBER),
        // The lowest bit of the state says that the task has been spawned, in all of its layouts.
        alive: offset(STATE_MEMBER),
    }
}

/// Finds the futures of functions without a name by DWARF: address and name.
fn futures(file: &object::File<'_>, names: &BTreeMap<u64, Vec<String>>) -> Vec<(u64, String)> {
    let Ok(Some(sections)) = Sections::load(file, &(u64::MAX..u64::MAX), &[]) else { return Vec::new() };
    let dwarf = sections.dwarf();
    let mut headers = dwarf.units();
    let mut units: Vec<Unit<'_>> = Vec::new();
    while let Ok(Some(header)) = headers.next() {
        units.extend(dwarf.unit(header).ok());
    }
    let mut found = Vec::new();
    for (index, unit) in units.iter().enumerate() {
        let mut entries = unit.entries();
        while let Ok(Some(entry)) = entries.next_dfs() {
            if entry.tag() != gimli::DW_TAG_subprogram {
                continue;
            }
            let start = EntryRanges::of(&unit.unit_ref(&dwarf), entry)
                .ok()
                .and_then(|mut ranges| ranges.next().ok().flatten());
            let start = start.filter(|range| range.begin < range.end).map(|range| range.begin);
            let Some(start) = start.filter(|start| names.get(start).is_some_and(Vec::is_empty)) else { continue };
            let name = name(&dwarf, &units, index, entry);
            let future = name.and_then(|name| name.strip_prefix(DWARF_POLL.0)?.strip_suffix(DWARF_POLL.1));
            found.extend(future.map(|future| (start, future.to_owned())));
        }
    }
    found
}

/// Name of a function, or of its declaration or abstract origin.
fn name<'a>(
    dwarf: &gimli::Dwarf<Slice<'a>>,
    units: &[Unit<'a>],
    mut unit: usize,
    entry: &gimli::DebuggingInformationEntry<Slice<'a>>,
) -> Option<&'a str> {
    let mut declaration = None;
    for _ in 0..MAX_HOPS {
        let entry = declaration.as_ref().unwrap_or(entry);
        if let Some(name) = entry.attr_value(gimli::DW_AT_name) {
            return str::from_utf8(dwarf.attr_string(&units[unit], name).ok()?.slice()).ok();
        }
        let reference = entry
            .attr_value(gimli::DW_AT_abstract_origin)
            .or_else(|| entry.attr_value(gimli::DW_AT_specification))?;
        let (index, offset) = match reference {
            AttributeValue::UnitRef(offset) => (unit, offset),
            AttributeValue::DebugInfoRef(offset) => units
                .iter()
                .enumerate()
                .find_map(|(index, unit)| Some((index, offset.to_unit_offset(&unit.header)?)))?,
            _ => return None,
        };
        declaration = Some(units[index].entry(offset).ok()?);
        unit = index;
    }
    None
}

/// Name of a task by its future's name: `app::__blink_task::__blink_task_inner_function::{closure#0}` is `blink`.
fn task_name(future: &str) -> String {
    let function = segments(future).into_iter().rev().find(|segment| !segment.starts_with('{')).unwrap_or(future);
    // embassy-executor-macros wraps the task's code into two functions of its own; older versions name only the
    // second so.
    let inner = function.strip_prefix("__").and_then(|name| {
        name.strip_suffix("_task_inner_function")
            .or_else(|| name.strip_suffix("_task"))
            .filter(|name| !name.is_empty())
    });
    match inner.unwrap_or(function) {
        // `#[embassy_executor::main]`.
        "__embassy_main" => "main".to_owned(),
        name => name.to_owned(),
    }
}

/// Splits a path into its parts; `::` within brackets does not count.
fn segments(path: &str) -> Vec<&str> {
    let (mut segments, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, byte) in path.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' => depth -= 1,
            b':' if depth == 0 && at >= start && path[at..].starts_with("::") => {
                segments.push(&path[start..at]);
                start = at + 2;
            }
            _ => {}
        }
    }
    segments.push(&path[start.min(path.len())..]);
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_called_like_their_functions() {
        let names = [
            ("app::__blink_task::__blink_task_inner_function::{closure#0}", "blink"),
            ("app::net::__rx_task_task::__rx_task_task_inner_function::{closure#0}", "rx_task"),
            ("app::____embassy_main_task::____embassy_main_task_inner_function::{closure#0}", "main"),
            ("app::__blink_task::{closure#0}", "blink"),
            ("app::__blink_task::__blink_task_inner_function::{async_fn_env#0}", "blink"),
            ("app::____embassy_main_task::{closure#0}", "main"),
            ("app::run::{closure#0}::{closure#1}", "run"),
            ("core::future::ready::Ready<app::__x_task>", "Ready<app::__x_task>"),
            ("{closure#0}", "{closure#0}"),
            ("", ""),
            ("__task", "__task"),
            ("a::", ""),
        ];
        for (future, name) in names {
            assert_eq!(task_name(future), name, "{future}");
        }
    }
}
