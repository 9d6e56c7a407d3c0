//! Finds a function by the name that a person types.

use std::fmt;
use std::ops::Range;

use super::{Symbols, demangle};
use crate::profile::{Function, Names};

/// A place that was found by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Address of its first instruction, load bias included, without Thumb's bit 0.
    pub address: u64,
    /// Demangled name.
    pub name: String,
    /// Name in the symbol table.
    pub linkage_name: String,
}

/// Why a name names no function, or several. The message says what to type instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// There are no symbols at all.
    NoSymbols {
        /// As it was typed.
        wanted: String,
    },
    /// No function is called so.
    Missing {
        /// As it was typed.
        wanted: String,
        /// Names that look like it, best first.
        nearest: Vec<String>,
    },
    /// Several functions are called so.
    Ambiguous {
        /// As it was typed.
        wanted: String,
        /// All of them, by address.
        candidates: Vec<Found>,
    },
    /// An address at which the image has no code.
    NoCode {
        /// As it was typed.
        wanted: String,
    },
}

/// Most candidates that a message lists.
const MAX_LISTED: usize = 10;

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotFound::NoSymbols { wanted } => write!(
                f,
                "no function `{wanted}` can be found: the image has no symbols; give the ELF file that has them with \
                 --symbols, or an address (0x…)"
            ),
            NotFound::Missing { wanted, nearest } if nearest.is_empty() => {
                write!(f, "no function is called `{wanted}`, and none has a similar name")
            }
            NotFound::Missing { wanted, nearest } => {
                write!(f, "no function is called `{wanted}`; did you mean `{}`?", nearest.join("`, `"))
            }
            NotFound::Ambiguous { wanted, candidates } => {
                write!(
                    f,
                    "`{wanted}` names {} functions; give one of them by its full name or by its address:",
                    candidates.len()
                )?;
                for candidate in candidates.iter().take(MAX_LISTED) {
                    write!(f, "\n  {:#010x}  {}", candidate.address, candidate.name)?;
                }
                match candidates.len().saturating_sub(MAX_LISTED) {
                    0 => Ok(()),
                    more => write!(f, "\n  and {more} more"),
                }
            }
            NotFound::NoCode { wanted } => write!(f, "no function is at {wanted}"),
        }
    }
}

impl std::error::Error for NotFound {}

impl Symbols<'_> {
    /// The function with this name: as in the symbol table; else demangled, with or without its arguments,
    /// with or without the namespaces (and template arguments) around it, where that names only one.
    /// `0x…` is an address inside one.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn find(&self, wanted: &str) -> Result<Found, NotFound> {
        let wanted = wanted.trim();
        if let Some(address) = address(wanted) {
            let place = address.and_then(|address| Some(found(address, &self.function_at(address)?.name)));
            return place.ok_or_else(|| NotFound::NoCode { wanted: wanted.to_owned() });
        }
        among(wanted, self.labels.iter().map(|label| (&*label.name, label)), |label| {
            found(label.address, &label.name)
        })
    }
}

impl Names {
    /// The same among the functions of a saved profile, which `FILE:NAME` names, too, where several files have
    /// one. What is found begins at its function's first instruction.
    ///
    /// # Errors
    /// As [`Symbols::find`].
    pub fn find(&self, wanted: &str) -> Result<Found, NotFound> {
        let wanted = wanted.trim();
        if let Some(address) = address(wanted) {
            let function = address.and_then(|address| self.function_at(address));
            return function.map(of).ok_or_else(|| NotFound::NoCode { wanted: wanted.to_owned() });
        }
        let same_name = among(wanted, self.functions.iter().map(named), of);
        match (&same_name, file_and_name(wanted)) {
            (Err(NotFound::Missing { .. }), Some((file, name))) => {
                let there = self.functions.iter().filter(|function| {
                    let rest = function.file.as_ref().and_then(|path| path.strip_suffix(file));
                    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(['/', '\\']))
                });
                match among(name, there.map(named), of) {
                    // Not one is in such a file: names of the whole image are nearer.
                    Err(NotFound::NoSymbols { .. }) => same_name,
                    found => found,
                }
            }
            _ => same_name,
        }
    }
}

/// What `0x…` means, without Thumb's bit 0, which may have been copied along: no instruction is at an odd
/// address. `Some(None)`: no number.
fn address(wanted: &str) -> Option<Option<u64>> {
    let digits = wanted.strip_prefix("0x").or_else(|| wanted.strip_prefix("0X"))?;
    Some(u64::from_str_radix(&digits.replace('_', ""), 16).ok().map(|address| address & !1))
}

/// The parts of `uart.c:init`; a `::` is none of its colons.
fn file_and_name(wanted: &str) -> Option<(&str, &str)> {
    let bytes = wanted.as_bytes();
    let is_single =
        |at: usize| bytes[at] == b':' && at > 0 && bytes[at - 1] != b':' && bytes.get(at + 1) != Some(&b':');
    let colon = (0..bytes.len()).rev().find(|&at| is_single(at))?;
    Some((&wanted[..colon], &wanted[colon + 1..]))
}

fn named(function: &Function) -> (&str, &Function) {
    (&function.linkage_name, function)
}

fn of(function: &Function) -> Found {
    let Function { name, linkage_name, start, .. } = function;
    Found { address: *start, name: name.clone(), linkage_name: linkage_name.clone() }
}

/// Looks for a name among functions, given by linkage names; they are only demangled where those do not do.
fn among<'a, T>(
    wanted: &str,
    functions: impl Iterator<Item = (&'a str, T)> + Clone,
    found: impl Fn(T) -> Found,
) -> Result<Found, NotFound> {
    if functions.clone().next().is_none() {
        return Err(NotFound::NoSymbols { wanted: wanted.to_owned() });
    }
    let exact = functions.clone().filter(|&(linkage_name, _)| linkage_name == wanted);
    let exact: Vec<_> = exact.map(|(_, function)| found(function)).collect();
    if !exact.is_empty() {
        return unique(wanted, exact);
    }
    let all: Vec<Found> = functions.map(|(_, function)| found(function)).collect();
    let squeezed = squeeze(without_return_type(wanted));
    let readings: [fn(&str) -> String; 3] =
        [squeeze, |name| squeeze(without_arguments(name)), |name| plain(without_arguments(name))];
    for reading in readings {
        let same = all.iter().filter(|found| reading(&found.name) == squeezed).cloned();
        let same: Vec<_> = same.collect();
        if !same.is_empty() {
            return unique(wanted, same);
        }
    }
    let suffixes: [fn(&str) -> String; 2] =
        [|name| squeeze(without_arguments(name)), |name| plain(without_arguments(name))];
    for reading in suffixes {
        let inside = all
            .iter()
            .filter(|found| reading(&found.name).strip_suffix(&squeezed).is_some_and(|outer| outer.ends_with("::")));
        let inside: Vec<_> = inside.cloned().collect();
        if !inside.is_empty() {
            return unique(wanted, inside);
        }
    }
    Err(NotFound::Missing { wanted: wanted.to_owned(), nearest: nearest(wanted, &all) })
}

fn found(address: u64, linkage_name: &str) -> Found {
    Found { address, name: demangle(linkage_name).into_owned(), linkage_name: linkage_name.to_owned() }
}

/// The one place that all candidates stand for, under the first of its names.
fn unique(wanted: &str, mut candidates: Vec<Found>) -> Result<Found, NotFound> {
    candidates.dedup_by_key(|found| found.address);
    if candidates.len() > 1 {
        return Err(NotFound::Ambiguous { wanted: wanted.to_owned(), candidates });
    }
    Ok(candidates.swap_remove(0))
}

fn squeeze(name: &str) -> String {
    name.split_whitespace().collect()
}

/// A demangled name without its arguments and what comes after them, and without the return type
/// that a function template has before it.
pub fn without_arguments(name: &str) -> &str {
    let (_, name, _) = parts(name);
    name
}

/// A demangled C++ name without the return type that function templates have before it: what tells one
/// function from another comes first.
pub(super) fn without_return_type(name: &str) -> &str {
    let (return_type, ..) = parts(name);
    &name[return_type.len()..]
}

/// Return type (with the space after it), name, and arguments (with what comes after them).
fn parts(name: &str) -> (&str, &str, &str) {
    let groups = groups(name);
    let arguments = groups.iter().find(|group| {
        let before = &name[..group.start];
        name[group.start..].starts_with('(')
            && !before.is_empty()
            && !before.ends_with("::")
            && !before.ends_with("operator")
    });
    let Some(arguments) = arguments else { return ("", name, "") };
    let (head, arguments) = name.split_at(arguments.start);
    // A space outside of brackets ends a return type, except in the name of an operator and in
    // "virtual thunk to".
    let name_end = head.find("operator").unwrap_or(head.len());
    let space = head[..name_end]
        .char_indices()
        .rev()
        .find(|&(at, character)| character == ' ' && !groups.iter().any(|group| group.contains(&at)));
    let (return_type, name) = head.split_at(space.map_or(0, |(at, _)| at + 1));
    if return_type.ends_with(" to ") { ("", head, arguments) } else { (return_type, name, arguments) }
}

/// A name with `<…>` for its outermost template arguments.
pub fn without_template_arguments(name: &str) -> String {
    let mut short = String::new();
    let mut rest = 0;
    for group in groups(name).into_iter().filter(|group| name[group.start..].starts_with('<')) {
        // `<A as B>::f` is all that there is.
        if group.start > 0 {
            short += &name[rest..group.start];
            short += "<…>";
            rest = group.end;
        }
    }
    short + &name[rest..]
}

/// The same without template arguments and white space.
fn plain(name: &str) -> String {
    let groups = groups(name);
    let kept = name.char_indices().filter(|(at, character)| {
        !character.is_whitespace()
            && !groups.iter().any(|group| group.contains(at) && name[group.start..].starts_with('<'))
    });
    kept.map(|(_, character)| character).collect()
}

/// The outermost pairs of brackets in a demangled name.
fn groups(name: &str) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let mut open: Vec<(usize, char)> = Vec::new();
    for (at, character) in name.char_indices() {
        let after_operator = name[..at].trim_end_matches(['<', '>', '=', '-']).ends_with("operator");
        match character {
            '<' | '>' if after_operator => {}
            '(' | '<' | '{' | '[' => open.push((at, character)),
            ')' | '>' | '}' | ']' => {
                let opening = match character {
                    ')' => '(',
                    '>' => '<',
                    '}' => '{',
                    _ => '[',
                };
                if open.last().is_some_and(|&(_, last)| last == opening)
                    && let Some((start, _)) = open.pop()
                    && open.is_empty()
                {
                    groups.push(start..at + 1);
                }
            }
            _ => {}
        }
    }
    groups
}

/// Names that contain what was typed, or differ in few letters.
fn nearest(wanted: &str, all: &[Found]) -> Vec<String> {
    let typed = wanted.to_lowercase();
    let limit = (typed.chars().count() / 3).max(2);
    let mut near: Vec<(usize, &str)> = all
        .iter()
        .filter_map(|found| {
            let short = plain(without_arguments(&found.name)).to_lowercase();
            let last = short.rsplit("::").next().unwrap_or(&short);
            let distance = distance(&typed, &short, limit).min(distance(&typed, last, limit));
            let rank = if distance <= limit {
                distance
            } else if typed.len() > 2 && short.contains(&typed) {
                limit + short.len() - typed.len()
            } else {
                return None;
            };
            Some((rank, found.name.as_str()))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.iter().take(4).map(|(_, name)| (*name).to_owned()).collect()
}

/// Letters to insert, delete, replace or swap with their neighbour to make one name into the other; any
/// number above the limit means "more".
fn distance(one: &str, other: &str, limit: usize) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if one.len().abs_diff(other.len()) > limit {
        return limit + 1;
    }
    let mut rows = [vec![0; other.len() + 1], (0..=other.len()).collect(), vec![0; other.len() + 1]];
    for i in 0..one.len() {
        let [before, last, row] = &mut rows;
        row[0] = i + 1;
        for j in 0..other.len() {
            let mut best = (last[j + 1] + 1).min(row[j] + 1).min(last[j] + usize::from(one[i] != other[j]));
            if i > 0 && j > 0 && one[i] == other[j - 1] && one[i - 1] == other[j] {
                best = best.min(before[j - 1] + 1);
            }
            row[j + 1] = best;
        }
        rows.rotate_left(1);
    }
    rows[1][other.len()]
}
