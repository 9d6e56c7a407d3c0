// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds RTIC 2's software tasks in an image: the bodies of async functions, which the dispatchers' code polls.
//!
//! `#[rtic::app]` gives each software task an executor, whose variable has the task's name. The executor's own poll is
//! always inlined, so a task is polled by a call of its body, where the compiler has not inlined that, too.

use std::collections::BTreeMap;

use object::{Object as _, ObjectSymbol as _, SymbolKind};
use wire::definition::MAX_TEXT_BYTES;
use wire::request::Poll;

use crate::image::symbols::demangle;

/// Text before and after the task's name in the name of its executor.
const EXECUTOR: (&str, &str) = ("::__rtic_internal_", "_EXEC");

/// Ends of the body's name, by Rust's two manglings.
const BODIES: [&str; 2] = ["::{closure#0}", "::{{closure}}"];

/// Finds the bodies; `elf` is the file with the symbols.
pub(super) fn find(elf: Option<&[u8]>, load_bias: u64, arm: bool) -> Vec<Poll> {
    let Some(file) = elf.and_then(|bytes| object::File::parse(bytes).ok()) else { return Vec::new() };
    let named = |kind: SymbolKind| {
        let symbols = file.symbols().filter(move |symbol| symbol.kind() == kind && symbol.is_definition());
        symbols.filter_map(|symbol| Some((demangle(symbol.name().ok()?).into_owned(), symbol.address())))
    };
    let task = |name: &str| {
        let (app, task) = name.strip_suffix(EXECUTOR.1)?.split_once(EXECUTOR.0)?;
        Some((format!("{app}::{task}"), task.to_owned()))
    };
    let tasks: BTreeMap<String, String> = named(SymbolKind::Data).filter_map(|(name, _)| task(&name)).collect();
    if tasks.is_empty() {
        return Vec::new();
    }
    let polls = named(SymbolKind::Text).filter_map(|(name, address)| {
        let function = BODIES.iter().find_map(|body| name.strip_suffix(body))?;
        let name = tasks.get(function).filter(|name| name.len() <= MAX_TEXT_BYTES)?.clone();
        let entry = if arm { address & !1 } else { address };
        Some(Poll { entry: entry.wrapping_add(load_bias), name })
    });
    polls.collect()
}
