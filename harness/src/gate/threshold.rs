// SPDX-License-Identifier: MIT OR Apache-2.0
//! Thresholds: limits on the growth of numbers, or on the numbers themselves.
//!
//! A limit is a share of the baseline's number (`5%`), an amount above that number (`+500`), or a ceiling that needs no
//! baseline (`10k`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use globset::{Glob, GlobMatcher};

use crate::analysis::metrics::Metric;
use crate::error::InputError;
use crate::gate::limit::Limit;

/// The pattern that matches everything.
pub const ALL: &str = "@all";

/// One limit on one number, or on the numbers of all functions, tasks or zones that match.
#[derive(Clone, Debug)]
pub struct Threshold {
    /// The limited number.
    pub metric: Metric,
    /// The functions, tasks or zones to which the limit applies.
    pub pattern: Pattern,
    /// The limit.
    pub limit: Limit,
    /// Place of the threshold in the suite.
    pub origin: Origin,
}

/// Place of a limit in a suite's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Line of the file, from 1.
    pub line: usize,
    /// Whether the limit is in `[defaults]`, and so applies to all images.
    pub is_default: bool,
}

/// The functions, tasks or zones to which a limit applies: a name, a glob of names, or [`ALL`].
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The pattern as written.
    pub text: String,
    matcher: Option<GlobMatcher>,
}

impl Threshold {
    /// Threshold on the subjects that the pattern matches.
    ///
    /// # Errors
    /// If the pattern is not a glob, or is an unknown word with `@`.
    pub fn new(metric: Metric, pattern: &str, limit: Limit, origin: Origin) -> Result<Threshold, InputError> {
        if pattern.starts_with('@') && pattern != ALL {
            return Err(InputError::new(format!(
                "{pattern:?}: write {ALL:?}, a name, or a pattern such as \"crc*\""
            )));
        }
        Ok(Threshold { metric, pattern: Pattern::new(pattern)?, limit, origin })
    }
}

/// Displays the suite's key, as in messages: `thresholds.self "crc*"`.
impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pattern.key(self.metric.word()))
    }
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// When it is not a glob.
    pub fn new(text: &str) -> Result<Pattern, InputError> {
        let matcher = (text != ALL)
            .then(|| Glob::new(text).map(|glob| glob.compile_matcher()))
            .transpose()
            .map_err(|error| InputError::new(format!("pattern {text:?}: {}", error.kind())))?;
        Ok(Pattern { text: text.to_owned(), matcher })
    }

    /// Key of a limit with this pattern: `thresholds.self "crc*"`, or `thresholds.self` if the pattern is [`ALL`].
    pub fn key(&self, word: &str) -> String {
        if self.is_all() { format!("thresholds.{word}") } else { format!("thresholds.{word} {:?}", self.text) }
    }

    /// Whether the pattern is [`ALL`], which applies to all subjects without another limit.
    pub fn is_all(&self) -> bool {
        self.text == ALL
    }

    /// Whether the pattern is one name instead of a glob. The brackets of Rust's names do not make it a glob:
    /// `<[u8]>::f`, `f::{closure}`.
    pub fn is_name(&self) -> bool {
        let text = &self.text;
        let is_class = |at: usize| {
            let before = text[..at].chars().next_back();
            before.is_none_or(|before| before.is_alphanumeric() || matches!(before, '_' | ':' | ']'))
        };
        let has_class = text.match_indices('[').any(|(at, _)| is_class(at));
        let mut braces = text.split('{').skip(1).filter_map(|part| part.split('}').next());
        // Commas in C++'s `{lambda(int, int)#1}` separate arguments, not choices.
        let has_choice = braces.any(|inside| inside.contains(',') && !inside.contains('('));
        !text.starts_with('@') && !text.contains(['*', '?']) && !has_class && !has_choice
    }

    /// Whether a name matches the pattern. The brackets of `<[u8]>::f` and `f::{closure}` are wildcards, too.
    pub fn matches(&self, name: &str) -> bool {
        self.text == name || self.matcher.as_ref().is_none_or(|matcher| matcher.is_match(name))
    }

    /// Whether the pattern refers to a subject by name or glob; [`ALL`] refers to none.
    pub fn names(&self, plain_name: &str, subject: &str, meant: &Meant) -> bool {
        let is_meant = || meant.get(&self.text).is_some_and(|names| names.contains(plain_name));
        !self.is_all() && (self.matches(plain_name) || self.matches(subject) || is_meant())
    }

    /// Whether the pattern refers to several instances of a generic, which are judged together.
    pub fn is_generic(&self, meant: &Meant) -> bool {
        meant.get(&self.text).is_some_and(|names| names.len() > 1)
    }
}

/// Functions that patterns without wildcards refer to, if their names differ from the pattern. Several functions are
/// instances of a generic; a pattern without functions refers to none.
pub type Meant = BTreeMap<String, BTreeSet<String>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::limit::Worse;

    #[test]
    fn names_are_told_from_patterns_also_those_of_rust() {
        let is_name = |text: &str| Pattern::new(text).unwrap().is_name();
        for name in [
            "crc32",
            "app::sorts::{closure}",
            "<[u8]>::f",
            "core::slice::<impl [T]>::swap",
            "init (uart.c)",
            "main::{lambda(int, int)#1}",
        ] {
            assert!(is_name(name), "{name}");
        }
        for pattern in ["crc*", "uart_?", "uart[0-9]_irq", "[ab]c", "{crc,sort}_*", "{crc,sort}", ALL] {
            assert!(!is_name(pattern), "{pattern}");
        }
        assert!(Pattern::new("<[u8]>::f::{closure}").unwrap().matches("<[u8]>::f::{closure}"));
    }

    #[test]
    fn the_key_of_a_limit_names_its_pattern_unless_that_is_for_all() {
        let threshold = |pattern| {
            Threshold::new(Metric::Calls, pattern, Limit::parse(Worse::More, "5%").unwrap(), Origin::default())
        };
        assert_eq!(threshold("crc*").unwrap().to_string(), "thresholds.calls \"crc*\"");
        assert_eq!(threshold(ALL).unwrap().to_string(), "thresholds.calls");
        let refused = |pattern| threshold(pattern).unwrap_err().to_string();
        assert!(refused("@some").contains("write \"@all\", a name, or a pattern"), "{}", refused("@some"));
        assert!(refused("a[").starts_with("pattern \"a[\": "), "{}", refused("a["));
    }

    #[test]
    fn a_pattern_names_what_it_matches_or_was_meant_for_but_not_as_one_of_all() {
        let meant = Meant::from([
            ("sort".to_owned(), ["app::sort".to_owned()].into()),
            ("fill".to_owned(), ["fill::<u8>".to_owned(), "fill::<u16>".to_owned()].into()),
        ]);
        for (pattern, plain_name, subject, expected) in [
            ("init*", "init", "init (uart.c)", true),
            ("init (uart.c)", "init", "init (uart.c)", true),
            ("init (spi.c)", "init", "init (uart.c)", false),
            ("sort", "app::sort", "app::sort", true),
            ("sort", "app::sorted", "app::sorted", false),
            (ALL, "init", "init", false),
        ] {
            let pattern = Pattern::new(pattern).unwrap();
            assert_eq!(pattern.names(plain_name, subject, &meant), expected, "{pattern:?} {plain_name}");
        }
        let is_generic = |text: &str| Pattern::new(text).unwrap().is_generic(&meant);
        assert_eq!(["fill", "sort", "other"].map(is_generic), [true, false, false]);
        assert!(Pattern::new(ALL).unwrap().matches("anything") && !Pattern::new("crc").unwrap().matches("crc32"));
    }
}
