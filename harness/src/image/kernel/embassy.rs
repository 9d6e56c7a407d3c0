//! Embassy in an image: which functions its executors call to have a task go on.
//!
//! An async task has no stack of its own. `TaskStorage<F>::poll` goes on with it, of which the compiler makes one function
//! for each future F, and F is named by the task's function. Several tasks of one function share it.

use std::collections::BTreeMap;

use object::{Object as _, ObjectSymbol as _, SymbolKind};
use wire::definition::MAX_TEXT_BYTES;
use wire::request::Poll;

use crate::image::symbols::demangle;

/// Before and after F in the name of the function.
const POLL: (&str, &str) = ("<embassy_executor::raw::TaskStorage<", ">>::poll");

/// Between the names of tasks whose functions the compiler has found to be the same.
const OR: &str = " or ";

/// Looks for the functions; `elf` is the file with the symbols.
pub fn find(elf: Option<&[u8]>, load_bias: u64, arm: bool) -> Vec<Poll> {
    let Some(file) = elf.and_then(|bytes| object::File::parse(bytes).ok()) else { return Vec::new() };
    let mut names: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition()) {
        let Some(full) = symbol.name().ok().map(demangle) else { continue };
        let future = full.strip_prefix(POLL.0).and_then(|rest| rest.strip_suffix(POLL.1));
        if let Some(future) = future {
            let address = if arm { symbol.address() & !1 } else { symbol.address() };
            names.entry(address.wrapping_add(load_bias)).or_default().push(task_name(future));
        }
    }
    let polls = names.into_iter().map(|(entry, mut names)| {
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

/// The name of a task by that of its future: `app::__blink_task::__blink_task_inner_function::{closure#0}` is `blink`.
fn task_name(future: &str) -> String {
    let function = segments(future).into_iter().rev().find(|segment| !segment.starts_with('{')).unwrap_or(future);
    // embassy-executor-macros puts what it is given into functions of its own; older versions into the second only.
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

/// The parts of a path; `::` within brackets divide nothing.
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
