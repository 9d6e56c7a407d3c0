// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names for the timeline: traced functions by patterns, and variables that tasks wait for.

use std::collections::BTreeMap;

use wire::timeline::What;

use crate::error::InputError;
use crate::image::heap;
use crate::image::symbols::{Symbols, nearest};
use crate::profile::{Task, Timeline};

/// Finds the first addresses of the functions that patterns name, sorted: `crc*`, or a single name.
///
/// # Errors
/// When a pattern names no function, with the nearest names.
pub fn find(patterns: &[String], symbols: &Symbols<'_>) -> Result<Vec<u64>, InputError> {
    let mut entries = Vec::new();
    for pattern in patterns {
        let failed = |error| InputError::new(format!("--trace {pattern}: {error}"));
        // A name may contain a star itself: `send(char*)`.
        let by_name = symbols.find(pattern);
        let found = if by_name.is_err() && pattern.contains(['*', '?']) {
            symbols.matching(pattern).map_err(failed)?
        } else {
            by_name.map_err(failed)?
        };
        if found.is_empty() {
            return Err(InputError::new(format!(
                "--trace {pattern}: no function's name matches{}",
                near(pattern, symbols)
            )));
        }
        entries.extend(found.into_iter().map(|function| function.address));
    }
    entries.sort_unstable();
    entries.dedup();
    Ok(entries)
}

/// Fewest common letters of name and pattern for a suggestion.
const MIN_COMMON_LETTERS: usize = 3;

/// Largest number of names that a message suggests.
const MAX_SUGGESTED: usize = 4;

/// Names similar to a pattern without its stars, for a message.
fn near(pattern: &str, symbols: &Symbols<'_>) -> String {
    let mut names: Vec<&str> = symbols.entries().map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    let word = pattern.split(['*', '?']).max_by_key(|word| word.len()).unwrap_or_default();
    let mut found = nearest(word, names.iter().copied());
    if found.is_empty() {
        found = with_common_letters(word, &names);
    }
    if found.is_empty() {
        ", and none has a similar name".to_owned()
    } else {
        format!("; nearest: `{}`", found.join("`, `"))
    }
}

/// Names that contain the longest part of a word, at least half of it, since the word's beginning may be part of a
/// much longer name. The shortest names come first.
fn with_common_letters(word: &str, names: &[&str]) -> Vec<String> {
    let letters: Vec<char> = word.to_lowercase().chars().collect();
    let lower: Vec<(String, &str)> = names.iter().map(|name| (name.to_lowercase(), *name)).collect();
    for length in (MIN_COMMON_LETTERS.max(letters.len().div_ceil(2))..letters.len()).rev() {
        let parts: Vec<String> = letters.windows(length).map(|part| part.iter().collect()).collect();
        let having = lower.iter().filter(|(lower, _)| parts.iter().any(|part| lower.contains(part.as_str())));
        let mut having: Vec<&str> = having.map(|(_, name)| *name).collect();
        if !having.is_empty() {
            having.sort_by_key(|name| (name.len(), *name));
            return having.into_iter().take(MAX_SUGGESTED).map(str::to_owned).collect();
        }
    }
    Vec::new()
}

/// Variables that contain objects for which tasks wait, by the address in the object's event. Objects in an
/// allocator's memory have no variable.
pub fn objects(timeline: &Timeline, symbols: &Symbols<'_>) -> Vec<(u64, String)> {
    let arena = heap::arena(symbols);
    let mut named = BTreeMap::new();
    for event in timeline.events() {
        let What::Object { address, whole, .. } = event.what else { continue };
        let place = if whole == 0 { address } else { whole };
        let is_allocated = arena.as_ref().is_some_and(|arena| arena.holds(place));
        if let Some(name) = variable(place, symbols).filter(|_| place != 0 && !is_allocated) {
            named.insert(address, name);
        }
    }
    named.into_iter().collect()
}

/// Names each task without a name by the variable that contains its control block. Control blocks in an allocator's
/// memory have no variable.
pub fn name_tasks(tasks: &mut [Task], symbols: &Symbols<'_>) {
    let arena = heap::arena(symbols);
    for task in tasks.iter_mut().filter(|task| task.name.is_empty() && task.poll.is_none()) {
        let is_allocated = arena.as_ref().is_some_and(|arena| arena.holds(task.tcb));
        task.name = variable(task.tcb, symbols).filter(|_| !is_allocated).unwrap_or_default();
    }
}

/// Name of the variable that holds an address, with the offset in it.
pub(crate) fn variable(address: u64, symbols: &Symbols<'_>) -> Option<String> {
    let (name, start) = symbols.variable_at(address)?;
    Some(place_in(name, start, address))
}

/// Name of a place in the variable that begins at `start`.
pub(crate) fn place_in(name: &str, start: u64, address: u64) -> String {
    if address == start { name.to_owned() } else { format!("{name}+{:#x}", address - start) }
}
