// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statements of the user about stacks, which the code does not show: how often a function is active at once, where an
//! indirect call goes, how large a dynamic frame is, which interrupts nest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use globset::{Glob, GlobMatcher};
use serde::Deserialize;

use super::function::Function;
use crate::error::InputError;

/// A file with a table `[stack]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    stack: Rules,
}

/// The table `[stack]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Most activations at once of a recursive function.
    #[serde(default)]
    pub bounds: BTreeMap<String, u64>,
    /// Functions that the indirect calls of a function reach, as names or patterns.
    #[serde(default)]
    pub calls: BTreeMap<String, Vec<String>>,
    /// Most bytes by which a function makes its frame larger while it runs.
    #[serde(default)]
    pub frames: BTreeMap<String, u64>,
    /// Priorities of interrupt handlers; handlers of equal priority do not nest.
    #[serde(default)]
    pub priorities: BTreeMap<String, u32>,
    /// Functions in which tasks begin, by the task's name.
    #[serde(default)]
    pub tasks: BTreeMap<String, String>,
    /// Functions that end the firmware, as names or patterns: what they need does not count.
    #[serde(default)]
    pub ends: Vec<String>,
}

/// Largest number of bytes or activations that a file may state.
const MAX: u64 = 1 << 32;

impl Rules {
    /// Reads a file's table. `path` is for messages.
    ///
    /// # Errors
    /// When the text is not such a table, or has a pattern that is none.
    pub fn parse(path: &Path, text: &str) -> Result<Rules, InputError> {
        let file: File = toml::from_str(text)
            .map_err(|error| InputError::about(path, format_args!("[stack]: {}", error.message().trim())))?;
        let rules = file.stack;
        rules.check().map_err(|why| InputError::about(path, format_args!("[stack] {why}")))?;
        Ok(rules)
    }

    /// Checks the numbers and patterns.
    ///
    /// # Errors
    /// The wrong number or pattern.
    pub fn check(&self) -> Result<(), String> {
        for (table, numbers) in [("bounds", &self.bounds), ("frames", &self.frames)] {
            if let Some((name, number)) = numbers.iter().find(|(_, number)| **number > MAX || **number == 0) {
                return Err(format!("{table}: {name:?} = {number} is not from 1 to 2^32"));
            }
        }
        let calls = self.calls.values().flatten().map(|pattern| ("calls", pattern));
        for (table, pattern) in calls.chain(self.ends.iter().map(|pattern| ("ends", pattern))) {
            Glob::new(pattern).map_err(|error| format!("{table}: pattern {pattern:?}: {}", error.kind()))?;
        }
        Ok(())
    }

    /// Functions that a function's indirect calls reach; None: not stated.
    pub(super) fn callees(&self, names: &[&str]) -> Option<Patterns<'_>> {
        Some(Patterns::new(names.iter().find_map(|name| self.calls.get(*name))?))
    }

    /// Functions that end the firmware, by index.
    pub(super) fn ends(&self, functions: &[Function]) -> BTreeSet<usize> {
        Patterns::new(&self.ends).indices(functions)
    }

    /// Number of a function in one of the tables, by any of its names.
    pub(super) fn number(table: &BTreeMap<String, u64>, names: &[&str]) -> Option<u64> {
        names.iter().find_map(|name| table.get(*name).copied())
    }
}

/// Names and patterns of functions, with the compiled patterns.
pub(super) struct Patterns<'a>(Vec<(&'a str, Option<GlobMatcher>)>);

impl<'a> Patterns<'a> {
    fn new(patterns: &'a [String]) -> Patterns<'a> {
        let compiled = |pattern: &str| Some(Glob::new(pattern).ok()?.compile_matcher());
        Patterns(patterns.iter().map(|pattern| (pattern.as_str(), compiled(pattern.as_str()))).collect())
    }

    /// Whether a function with these names is meant.
    fn mean(&self, names: &[&str]) -> bool {
        self.0.iter().any(|(text, matcher)| {
            names.contains(text)
                || matcher.as_ref().is_some_and(|matcher| names.iter().any(|name| matcher.is_match(name)))
        })
    }

    /// Functions that are meant, by index.
    pub(super) fn indices(&self, functions: &[Function]) -> BTreeSet<usize> {
        let meant = functions.iter().enumerate().filter(|(_, function)| self.mean(&function.names()));
        meant.map(|(index, _)| index).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_and_what_is_wrong_in_it_is_named() {
        let text = "[stack]\nbounds = { \"parse\" = 12 }\ncalls = { \"dispatch\" = [\"on_*\"] }\npriorities = { UART = 3 }\n";
        let rules = Rules::parse(Path::new("stack.toml"), text).unwrap();
        assert_eq!((rules.bounds["parse"], rules.priorities["UART"]), (12, 3));
        let callees = rules.callees(&["dispatch"]).unwrap();
        assert!(callees.mean(&["on_tick"]) && !callees.mean(&["tick", "off_tick"]));
        assert!(rules.callees(&["other"]).is_none());
        for (text, why) in [
            ("[stack]\nbound = {}", "unknown field `bound`"),
            ("[stack]\nbounds = { f = 0 }", "bounds: \"f\" = 0 is not from 1 to 2^32"),
            ("[stack]\ncalls = { f = [\"a[\"] }", "calls: pattern \"a[\""),
            ("[stack]\nends = [\"a[\"]", "ends: pattern \"a[\""),
            ("[stack", "stack.toml: [stack]: "),
        ] {
            let error = Rules::parse(Path::new("stack.toml"), text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
