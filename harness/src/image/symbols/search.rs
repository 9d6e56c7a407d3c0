// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds a function by a name that a person types.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use super::{Symbols, demangle};
use crate::profile::Names;

/// Place that was found by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Address of its first instruction, load bias included, without Thumb's bit 0.
    pub address: u64,
    /// Demangled name.
    pub name: String,
    /// Name in the symbol table.
    pub linkage_name: String,
}

/// Reason why a name does not name one function. The message says what to type instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// The image has no symbols at all.
    NoSymbols {
        /// Name as typed.
        wanted: String,
    },
    /// No function has this name.
    Missing {
        /// Name as typed.
        wanted: String,
        /// Similar names, best first.
        nearest: Vec<String>,
    },
    /// Several functions have this name.
    Ambiguous {
        /// Name as typed.
        wanted: String,
        /// All of these functions, by address.
        candidates: Vec<Found>,
    },
    /// The image has no code at this address.
    NoCode {
        /// Address as typed.
        wanted: String,
    },
    /// The image has no symbols at all, and no bytes at this address.
    NoBytes {
        /// Address as typed.
        wanted: String,
    },
}

/// Largest number of candidates that a message lists.
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
                    "`{wanted}` names {} functions; give one of them by its full name, its address (0x…) or its number \
                     (NAME#1):",
                    candidates.len()
                )?;
                for (index, candidate) in candidates.iter().take(MAX_LISTED).enumerate() {
                    write!(f, "\n  #{}  {:#010x}  {}", index + 1, candidate.address, candidate.name)?;
                }
                match candidates.len().saturating_sub(MAX_LISTED) {
                    0 => Ok(()),
                    more => write!(f, "\n  and {more} more"),
                }
            }
            NotFound::NoCode { wanted } => write!(f, "no function is at {wanted}"),
            NotFound::NoBytes { wanted } => write!(
                f,
                "no function is at {wanted}: the image has no symbols, and no code there; give the address of a \
                 function's first instruction, or the ELF file that has the symbols with --symbols"
            ),
        }
    }
}

impl std::error::Error for NotFound {}

impl Symbols<'_> {
    /// Finds the function with this name, or all instances of one generic, by address. A name in the symbol table
    /// comes first (any symbol of the address). Otherwise the name is a demangled name, with or without its
    /// arguments, and with or without the path (and generic arguments) before it. `name#2` and `name@0x…` choose
    /// among several. `0x…` is an address inside a function; without symbols, it is the address of the first
    /// instruction.
    ///
    /// # Errors
    /// When there is no such function, or there are several different ones.
    pub fn find(&self, wanted: &str) -> Result<Vec<Found>, NotFound> {
        let wanted = wanted.trim();
        if let Some(address) = address(wanted) {
            let place = address.and_then(|address| match self.function_at(address) {
                Some(function) => Some(found(address, &function.name)),
                None => self.nameless(address),
            });
            return place.map(|place| vec![place]).ok_or_else(|| {
                let wanted = wanted.to_owned();
                if self.functions.is_empty() { NotFound::NoBytes { wanted } } else { NotFound::NoCode { wanted } }
            });
        }
        let labels = self.labels.iter().map(|label| (&*label.name, label.address));
        let chosen = |linkage_name: &str, address| found(address, linkage_name);
        let function_start = |address| self.function_at(address).map(|function| function.range.start);
        among(wanted, labels, chosen, function_start)
    }

    /// Address of the code with a name in the symbol table, load bias included. None: there is none, or there are several.
    pub fn address_of(&self, linkage_name: &str) -> Option<u64> {
        let mut named = self.labels.iter().filter(|label| label.name == linkage_name).map(|label| label.address);
        let address = named.next()?;
        named.all(|other| other == address).then_some(address)
    }

    /// Finds the functions with a name that matches a pattern, where `*` stands for any text and `?` for any
    /// character; by address. Names are those that [`Symbols::find`] accepts; all other characters stand for
    /// themselves.
    ///
    /// # Errors
    /// When the image has no symbols.
    pub fn matching(&self, pattern: &str) -> Result<Vec<Found>, NotFound> {
        if self.functions.is_empty() {
            return Err(NotFound::NoSymbols { wanted: pattern.to_owned() });
        }
        let text = regex::escape(pattern).replace(r"\*", ".*").replace(r"\?", ".");
        let Ok(matcher) = regex::Regex::new(&format!("^(?s:{text})$")) else { return Ok(Vec::new()) };
        let is_match = |linkage_name: &str| {
            let name = demangle(linkage_name);
            matcher.is_match(linkage_name) || matcher.is_match(&name) || matcher.is_match(without_arguments(&name))
        };
        let matching = self.functions.iter().filter_map(|function| {
            let first = self.labels.partition_point(|label| label.address < function.range.start);
            let mut here = self.labels[first..].iter().take_while(|label| label.address == function.range.start);
            let label = here.find(|label| is_match(&label.name))?;
            Some(found(function.range.start, &label.name))
        });
        Ok(matching.collect())
    }

    /// Function that begins at an address of an image without symbols; the address is its name.
    fn nameless(&self, address: u64) -> Option<Found> {
        let is_there = self.functions.is_empty() && self.image.iter().any(|range| range.contains(&address));
        is_there.then(|| found(address, &format!("{address:#010x}")))
    }

    /// All names of the function that begins at an address, demangled; the name that tables show comes first.
    pub fn names_at(&self, start: u64) -> Vec<String> {
        let shown = self.function_at(start).filter(|function| function.range.start == start);
        let shown = shown.map(|function| demangle(&function.name).into_owned());
        let first = self.labels.partition_point(|label| label.address < start);
        let here = self.labels[first..].iter().take_while(|label| label.address == start);
        let mut names: Vec<String> = shown.into_iter().collect();
        for label in here {
            let name = demangle(&label.name).into_owned();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

impl Names {
    /// Finds functions of a saved profile like [`Symbols::find`]. `FILE:NAME` also chooses among functions in several
    /// files. Results are the first instructions of functions.
    ///
    /// # Errors
    /// See [`Symbols::find`].
    pub fn find(&self, wanted: &str) -> Result<Vec<Found>, NotFound> {
        let wanted = wanted.trim();
        if let Some(address) = address(wanted) {
            let function = address.and_then(|address| self.function_at(address));
            let start = function.map(|function| vec![self.of(function.start, &function.linkage_name)]);
            return start.ok_or_else(|| NotFound::NoCode { wanted: wanted.to_owned() });
        }
        let own = self.functions.iter().map(|function| (&*function.linkage_name, function.start));
        let aliases = self.aliases.iter().map(|alias| (&*alias.linkage_name, alias.address));
        let found = |linkage_name: &str, address| self.of(address, linkage_name);
        let function_start = |address| self.function_at(address).map(|function| function.start);
        let same_name = among(wanted, own.chain(aliases), found, function_start);
        match (&same_name, file_and_name(wanted)) {
            (Err(NotFound::Missing { .. }), Some((file, name))) => {
                let there = self.functions.iter().filter(|function| {
                    let rest = function.file.as_ref().and_then(|path| path.strip_suffix(file));
                    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(['/', '\\']))
                });
                let there = there.map(|function| (&*function.linkage_name, function.start));
                match among(name, there, found, function_start) {
                    // No function of this name is in such a file: names of the whole image are nearer.
                    Err(NotFound::NoSymbols { .. }) => same_name,
                    found => found,
                }
            }
            _ => same_name,
        }
    }

    /// Function that was found by one of its names, with the name that is shown.
    fn of(&self, start: u64, linkage_name: &str) -> Found {
        match self.function_at(start) {
            Some(function) => Found {
                address: function.start,
                name: function.name.clone(),
                linkage_name: function.linkage_name.clone(),
            },
            None => found(start, linkage_name),
        }
    }
}

/// Parses `0x…`. Clears Thumb's bit 0, which may have been copied with the address: no instruction is at an odd
/// address. `Some(None)`: not a number.
fn address(wanted: &str) -> Option<Option<u64>> {
    let digits = wanted.strip_prefix("0x").or_else(|| wanted.strip_prefix("0X"))?;
    Some(u64::from_str_radix(&digits.replace('_', ""), 16).ok().map(|address| address & !1))
}

/// Splits `uart.c:init`; the colons of a `::` do not count.
fn file_and_name(wanted: &str) -> Option<(&str, &str)> {
    let bytes = wanted.as_bytes();
    let is_single =
        |at: usize| bytes[at] == b':' && at > 0 && bytes[at - 1] != b':' && bytes.get(at + 1) != Some(&b':');
    let colon = (0..bytes.len()).rev().find(|&at| is_single(at))?;
    Some((&wanted[..colon], &wanted[colon + 1..]))
}

/// Choice among several functions of one name.
enum Choice {
    /// All instances of one generic.
    All,
    /// `name#2`: the number in the order of addresses, from 1.
    Number(usize),
    /// `name@0x…`: an address inside the function.
    Address(u64),
}

/// Splits name and choice: `sort#2`, `sort@0x8000`. The `#` of `{closure#2}` is not a choice.
fn choice(wanted: &str) -> (&str, Choice) {
    if let Some((name, digits)) = wanted.rsplit_once('#')
        && let Ok(number @ 1..) = digits.parse()
    {
        return (name.trim_end(), Choice::Number(number));
    }
    if let Some((name, at)) = wanted.rsplit_once('@')
        && let Some(Some(address)) = address(at)
    {
        return (name.trim_end(), Choice::Address(address));
    }
    (wanted, Choice::All)
}

/// Name of a function.
struct Candidate<'a> {
    linkage_name: &'a str,
    name: String,
    address: u64,
}

/// Searches for a name among functions, given by linkage name and address. Names are demangled only if no linkage
/// name fits.
fn among<'a>(
    wanted: &str,
    functions: impl Iterator<Item = (&'a str, u64)> + Clone,
    found: impl Fn(&str, u64) -> Found,
    function_start: impl Fn(u64) -> Option<u64>,
) -> Result<Vec<Found>, NotFound> {
    if functions.clone().next().is_none() {
        return Err(NotFound::NoSymbols { wanted: wanted.to_owned() });
    }
    let candidate = |(linkage_name, address): (&'a str, u64)| Candidate {
        linkage_name,
        name: demangle(linkage_name).into_owned(),
        address,
    };
    let (name, choice) = choice(wanted);
    let exact = functions.clone().filter(|&(linkage_name, _)| linkage_name == name);
    let exact: Vec<Candidate<'_>> = exact.map(candidate).collect();
    let same = if exact.is_empty() {
        let all: Vec<Candidate<'_>> = functions.map(candidate).collect();
        let same = called(name, all.iter().map(|candidate| &*candidate.name));
        if same.is_empty() {
            let nearest = nearest(name, all.iter().map(|candidate| &*candidate.name));
            return Err(NotFound::Missing { wanted: wanted.to_owned(), nearest });
        }
        let mut is_same = same.into_iter().peekable();
        let numbered = all.into_iter().enumerate();
        numbered.filter_map(|(index, one)| is_same.next_if_eq(&index).map(|_| one)).collect()
    } else {
        exact
    };
    chosen(wanted, choice, same, found, function_start)
}

/// Functions of the candidates: the instances of one function, unless the choice names one.
fn chosen(
    wanted: &str,
    choice: Choice,
    mut candidates: Vec<Candidate<'_>>,
    found: impl Fn(&str, u64) -> Found,
    function_start: impl Fn(u64) -> Option<u64>,
) -> Result<Vec<Found>, NotFound> {
    // Stable: among the names of one address, the first stays.
    candidates.sort_by_key(|candidate| candidate.address);
    candidates.dedup_by_key(|candidate| candidate.address);
    let is_one = candidates.len() == 1 || are_instances(candidates.iter().map(|one| (one.linkage_name, &*one.name)));
    let mut all: Vec<Found> = candidates.iter().map(|one| found(one.linkage_name, one.address)).collect();
    let missing = |candidates: Vec<Found>| NotFound::Ambiguous { wanted: wanted.to_owned(), candidates };
    match choice {
        Choice::All if is_one => Ok(all),
        Choice::All => Err(missing(all)),
        Choice::Number(number) if number <= all.len() => Ok(vec![all.swap_remove(number - 1)]),
        Choice::Number(_) => Err(missing(all)),
        Choice::Address(address) => {
            let is_there = |found: &Found| {
                found.address == address || function_start(address).is_some_and(|start| start == found.address)
            };
            match all.iter().position(is_there) {
                Some(index) => Ok(vec![all.swap_remove(index)]),
                None => Err(missing(all)),
            }
        }
    }
}

/// Indices of the demangled names that `wanted` can mean. It is compared with the whole name, then with the name
/// without arguments, then without generic arguments, then with the end of the path; the first comparison with a
/// match counts.
pub fn called<'n>(wanted: &str, names: impl Iterator<Item = &'n str> + Clone) -> Vec<usize> {
    // Tables mark the bodies of async functions in this way; otherwise round brackets are arguments.
    let is_async = wanted.contains(ASYNC);
    let wanted = wanted.replace(&format!(" {ASYNC}"), MARK).replace(ASYNC, MARK);
    let wanted = without_return_type(&wanted);
    let as_typed = |name: &str| if is_async { marked_bodies(name, |_| true, MARK) } else { name.to_owned() };
    let squeezed = squeeze(wanted);
    let whole = |name: &str| squeeze(name) == squeezed;
    let bare = |name: &str| squeeze(without_arguments(name)) == squeezed;
    let plain = |name: &str| paths(name).contains(&squeezed);
    let ends = |name: &str| name.strip_suffix(&squeezed).is_some_and(|outer| outer.ends_with("::"));
    let bare_end = |name: &str| ends(&squeeze(without_arguments(name)));
    let plain_end = |name: &str| paths(name).iter().any(|path| ends(path));
    // `sort::<u32>` also fits `sort::<u32, u8>`.
    let begun = generic_arguments(wanted);
    let stem = paths(wanted).swap_remove(0);
    let begins = |name: &str| {
        let arguments = generic_arguments(name);
        let is_stem = |path: &String| path.strip_suffix(&stem).is_some_and(|o| o.is_empty() || o.ends_with("::"));
        !begun.is_empty() && arguments.starts_with(&begun) && paths(name).iter().any(is_stem)
    };
    let readings: [&dyn Fn(&str) -> bool; 6] = [&whole, &bare, &plain, &bare_end, &plain_end, &begins];
    for reading in readings {
        let same = names.clone().enumerate().filter(|(_, name)| reading(&as_typed(name)));
        let same: Vec<usize> = same.map(|(index, _)| index).collect();
        if !same.is_empty() {
            return same;
        }
    }
    Vec::new()
}

/// Whether functions, given by linkage name and demangled name, are instances of one generic function (or copies of
/// one function that Rust has made). Overloads, functions of one name in several files and methods of several types
/// are not.
pub fn are_instances<'n>(functions: impl Iterator<Item = (&'n str, &'n str)> + Clone) -> bool {
    let is_generic = |name: &str| {
        let name = without_arguments(name);
        let inside = self_type(name).map_or("", |(inside, _)| inside);
        let mut groups = groups(name).into_iter().filter(|group| name[group.start..].starts_with('<'));
        inside.contains('<') || groups.any(|group| group.start > 0)
    };
    let Some((_, first)) = functions.clone().next() else { return false };
    let common = generic(first);
    // A function that is only inlined has no linkage name.
    let blocks = functions.clone().filter(|(linkage_name, _)| !linkage_name.is_empty());
    let blocks: BTreeSet<Option<&str>> = blocks.map(|(linkage_name, _)| impl_block(linkage_name)).collect();
    let are_common = blocks.len() <= 1 && functions.clone().all(|(_, name)| generic(name) == common);
    let distinct =
        |of: &dyn Fn(&'n str) -> &'n str| functions.clone().map(|(_, name)| of(name)).collect::<BTreeSet<_>>();
    let are_overloads = distinct(&without_arguments).len() < distinct(&|name| name).len();
    let are_generic = functions.clone().all(|(_, name)| is_generic(name));
    let are_copies = functions.clone().all(|(linkage_name, name)| name == first && is_rust(linkage_name));
    are_common && !are_overloads && (are_generic || are_copies)
}

/// Whether a name is mangled by Rust, in the newer way or the older, which ends in a hash.
pub fn is_rust(linkage_name: &str) -> bool {
    let hash = linkage_name.strip_prefix("_ZN").and_then(|name| name.strip_suffix('E')).and_then(|name| {
        let start = name.len().checked_sub("17h0123456789abcdef".len())?;
        name.get(start..)?.strip_prefix("17h")
    });
    linkage_name.starts_with("_R") || hash.is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Common name of a generic's instances: the path without generic arguments. A trait's arguments stay, since `<A as
/// From<u8>>` and `<A as From<u16>>` are separate functions in the source.
pub fn generic(name: &str) -> String {
    let name = without_arguments(name);
    let Some((inside, rest)) = self_type(name) else { return plain(name) };
    let named = |name: &str| {
        let is_path = name.starts_with(|first: char| first.is_alphanumeric() || first == '_');
        if is_path { plain(name) } else { squeeze(name) }
    };
    match as_trait(inside) {
        Some((own, of)) => format!("<{} as {}>{}", named(own), squeeze(of), plain(rest)),
        None => format!("{}{}", named(inside), plain(rest)),
    }
}

/// Disambiguator of a v0-mangled method's `impl` block within its module
/// (<https://doc.rust-lang.org/rustc/symbol-mangling/v0.html#path-inherent-impl>); None: not in an `impl` block.
fn impl_block(linkage_name: &str) -> Option<&str> {
    let mut rest = linkage_name.strip_prefix("_R")?;
    loop {
        rest = match rest.as_bytes().first()? {
            b'I' => &rest[1..],
            b'N' => rest.get(2..)?,
            b'M' | b'X' => break,
            _ => return None,
        };
    }
    let disambiguator = rest[1..].starts_with('s').then(|| rest.find('_')).flatten();
    Some(disambiguator.map_or("", |end| &rest[1..end]))
}

fn found(address: u64, linkage_name: &str) -> Found {
    Found { address, name: demangle(linkage_name).into_owned(), linkage_name: linkage_name.to_owned() }
}

fn squeeze(name: &str) -> String {
    name.split_whitespace().collect()
}

/// Removes arguments, the text after them, and a function template's return type from a demangled name.
pub fn without_arguments(name: &str) -> &str {
    let (_, name, _) = parts(name);
    name
}

/// Removes the return type that function templates have before a demangled C++ name, so that the name's
/// distinguishing part comes first.
pub(super) fn without_return_type(name: &str) -> &str {
    let (return_type, ..) = parts(name);
    &name[return_type.len()..]
}

/// Splits a name into return type (with the space after it), name, and arguments (with the text after them).
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
    let space =
        head[..name_end].char_indices().rev().find(|&(at, character)| character == ' ' && is_outside(&groups, at));
    let (return_type, name) = head.split_at(space.map_or(0, |(at, _)| at + 1));
    if return_type.ends_with(" to ") { ("", head, arguments) } else { (return_type, name, arguments) }
}

/// Replaces a name's outermost template arguments by `<…>`.
pub fn without_template_arguments(name: &str) -> String {
    let mut short = String::new();
    let mut rest = 0;
    for group in groups(name).into_iter().filter(|group| name[group.start..].starts_with('<')) {
        // `<A as B>::f` would lose its whole type.
        if group.start > 0 {
            short += &name[rest..group.start];
            short += "<…>";
            rest = group.end;
        }
    }
    short + &name[rest..]
}

/// Removes generic arguments and white space from a name.
fn plain(name: &str) -> String {
    let mut short = String::new();
    let mut rest = 0;
    for group in groups(name).into_iter().filter(|group| name[group.start..].starts_with('<')) {
        let before = &name[rest..group.start];
        // The colons of Rust's turbofish belong to it.
        short += before.strip_suffix("::").unwrap_or(before);
        rest = group.end;
    }
    squeeze(&(short + &name[rest..]))
}

/// Deepest nesting of types in which a path is searched for.
const MAX_NESTED: usize = 8;

/// Paths by which a name can be typed, without arguments of any kind; for `<A as B>::f` these are `A::f` and `B::f`.
fn paths(name: &str) -> Vec<String> {
    fn inner(name: &str, nested: usize) -> Vec<String> {
        let name = without_arguments(name);
        match self_type(name).filter(|_| nested < MAX_NESTED) {
            Some((inside, rest)) => {
                let (own, of) = as_trait(inside).map_or((inside, None), |(own, of)| (own, Some(of)));
                let heads = [Some(own), of].into_iter().flatten().flat_map(|head| inner(head, nested + 1));
                heads.map(|head| head + &plain(rest)).collect()
            }
            None => vec![plain(name)],
        }
    }
    let mut paths = inner(name, 0);
    // The unchanged path fits, too: for types without a name of their own (`<&A as B>::f`), and for `A<u8>::f`.
    let name = without_arguments(name);
    paths.push(squeeze(name));
    if let Some((inside, rest)) = self_type(name) {
        let (own, of) = as_trait(inside).unwrap_or((inside, ""));
        paths.extend([own, of].map(|head| squeeze(&format!("{head}{rest}"))));
    }
    paths
}

/// Splits `<T>::f` into the text in the brackets and the text after them.
fn self_type(name: &str) -> Option<(&str, &str)> {
    let group = groups(name).into_iter().next().filter(|group| group.start == 0 && name.starts_with('<'))?;
    Some((&name[1..group.end - 1], &name[group.end..]))
}

/// Splits `A as B`.
fn as_trait(inside: &str) -> Option<(&str, &str)> {
    let groups = groups(inside);
    let at = inside.match_indices(" as ").map(|(at, _)| at).find(|&at| is_outside(&groups, at))?;
    Some((&inside[..at], &inside[at + " as ".len()..]))
}

/// Generic arguments at the end of a name, each without white space.
fn generic_arguments(name: &str) -> Vec<String> {
    let name = without_arguments(name).trim_end();
    let last = groups(name).pop().filter(|group| group.end == name.len() && name[group.start..].starts_with('<'));
    let Some(inside) = last.map(|group| &name[group.start + 1..group.end - 1]) else { return Vec::new() };
    let groups = groups(inside);
    let commas = inside.match_indices(',').map(|(at, _)| at).filter(|&at| is_outside(&groups, at));
    let mut start = 0;
    let mut arguments = Vec::new();
    for end in commas.chain([inside.len()]) {
        arguments.push(squeeze(&inside[start..end]));
        start = end + 1;
    }
    arguments
}

/// Mark after the name of an async function that stands for its body.
const ASYNC: &str = "(async)";

/// Mark of async bodies while names are compared.
const MARK: &str = "{async}";

/// Marks the bodies of async functions in a name, also inside generic arguments: `producer_task (async)` for
/// `producer_task::{closure#0}`. `is_body` says whether a closure is such a body.
pub fn with_async_bodies(name: &str, is_body: impl Fn(&str) -> bool) -> String {
    marked_bodies(name, is_body, &format!(" {ASYNC}"))
}

fn marked_bodies(name: &str, is_body: impl Fn(&str) -> bool, mark: &str) -> String {
    const BODY: &str = "::{closure#0}";
    let mut text = String::new();
    let mut rest = 0;
    for (at, _) in name.match_indices(BODY) {
        let start = path_start(&name[..at]);
        let end = at + BODY.len();
        if start >= rest && is_body(&name[start..end]) {
            text += &name[rest..start];
            text += &without_wrapper(&name[start..at]);
            text += mark;
            rest = end;
        }
    }
    text + &name[rest..]
}

/// Start of the path at the end of a text.
fn path_start(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices().rev() {
        match character {
            '>' | '}' | ')' | ']' => depth += 1,
            '<' | '{' | '(' | '[' if depth == 0 => return at + 1,
            '<' | '{' | '(' | '[' => depth -= 1,
            ',' | ' ' | '&' | '*' | ';' | '=' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    0
}

/// Removes the wrapper of Embassy's task macro around a task's body from a path:
/// `app::__blink_task::__blink_task_inner_function` becomes `app::blink`.
fn without_wrapper(path: &str) -> String {
    let unwrapped = || {
        let (outer, inner) = path.rsplit_once("::")?;
        let wrapper = inner.strip_suffix("_inner_function")?;
        let outer = outer.strip_suffix(wrapper)?;
        let task = wrapper.strip_prefix("__")?.strip_suffix("_task")?;
        Some(format!("{outer}{task}"))
    };
    unwrapped().unwrap_or_else(|| path.to_owned())
}

/// Whether a text ends in `operator`, or in `operator` and signs of its name: `operator->`. An operator has at most
/// three signs.
fn is_after_operator(text: &str) -> bool {
    let signs = text.bytes().rev().take(3).take_while(|sign| b"<>=-".contains(sign)).count();
    text[..text.len() - signs].ends_with("operator")
}

/// Whether a place is outside all of these [`groups`].
fn is_outside(groups: &[Range<usize>], at: usize) -> bool {
    let next = groups.partition_point(|group| group.end <= at);
    groups.get(next).is_none_or(|group| !group.contains(&at))
}

/// Outermost pairs of brackets in a demangled name, from the left.
fn groups(name: &str) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let mut open: Vec<(usize, char)> = Vec::new();
    for (at, character) in name.char_indices() {
        let after_operator = is_after_operator(&name[..at]);
        match character {
            '<' | '>' if after_operator => {}
            // The arrow of a function's type is not a bracket.
            '>' if name[..at].ends_with('-') => {}
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

/// Names that contain the typed text, or differ from it in few letters.
pub fn nearest<'n>(wanted: &str, all: impl Iterator<Item = &'n str>) -> Vec<String> {
    let typed = wanted.to_lowercase();
    let limit = (typed.chars().count() / 3).max(2);
    let mut near: Vec<(usize, &str)> = all
        .filter_map(|name| {
            let short = paths(name).swap_remove(0).to_lowercase();
            let last = short.rsplit("::").next().unwrap_or(&short);
            let distance = distance(&typed, &short, limit).min(distance(&typed, last, limit));
            let rank = if distance <= limit {
                distance
            } else if typed.len() > 2 && short.contains(&typed) {
                limit + short.len() - typed.len()
            } else {
                return None;
            };
            Some((rank, name))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.iter().take(4).map(|(_, name)| (*name).to_owned()).collect()
}

/// Edit distance: letters to insert, delete, replace or swap with their neighbour to turn one name into the other.
/// Any number above the limit means "more".
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
