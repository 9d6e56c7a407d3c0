// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lookup of functions in a saved profile by the name or address that the user typed; for all commands about one
//! function.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::functions::{self, RowKind};
use crate::analysis::metrics::Metrics;
use crate::analysis::owner::{self, Owner};
use crate::error::InputError;
use crate::image::symbols::{self, NotFound};
use crate::profile::{Frame, Function, Profile};
use crate::text::number::Hex;
use crate::text::symbol_name::{file_name, key_name};

/// Maximum number of candidates listed in a message.
const MAX_LISTED: usize = 10;

/// A function without code of its own, inlined wherever it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlined {
    /// Its name.
    pub name: String,
    /// Indices of its names in the profile's strings; and the last part of its file's path, if the name alone finds
    /// nothing.
    functions: BTreeSet<u32>,
    file: Option<String>,
}

impl Inlined {
    /// Whether a frame is of this function.
    pub fn is(&self, profile: &Profile, frame: &Frame) -> bool {
        let text = |index: u32| profile.names.strings.get(index as usize).map_or("", String::as_str);
        let is_file = |file: &String| frame.file.is_some_and(|index| file_name(text(index)) == file);
        frame.inlined && self.functions.contains(&frame.function) && self.file.as_ref().is_none_or(is_file)
    }

    /// Functions that contain a copy of it, by address.
    pub fn hosts<'p>(&self, profile: &'p Profile) -> Vec<Owner<'p>> {
        let names = &profile.names;
        let is_it: Vec<bool> =
            names.stacks.iter().map(|stack| stack.iter().any(|frame| self.is(profile, frame))).collect();
        let with = |stack: u32| is_it.get(stack as usize) == Some(&true);
        let found = names.locations.iter().filter(|(_, stack)| with(*stack));
        let hosts: BTreeMap<_, _> =
            found.map(|&(pc, _)| Owner::of(profile, pc)).map(|place| (place.key(), place)).collect();
        hosts.into_values().collect()
    }
}

/// Places for a user's text, as [`places`] finds them, or else a function that only exists inlined.
///
/// # Errors
/// Same as [`places`].
pub fn places_or_inlined<'p>(
    profile: &'p Profile,
    wanted: &str,
) -> Result<(Vec<Owner<'p>>, Option<Inlined>), InputError> {
    let is_missing = matches!(profile.names.find(wanted.trim()), Err(NotFound::Missing { .. }));
    match places(profile, wanted) {
        Err(error) if is_missing => {
            let inlined = inlined(profile, wanted).ok_or(error)?;
            Ok((inlined.hosts(profile), Some(inlined)))
        }
        places => Ok((places?, None)),
    }
}

/// Inlined function with this name.
fn inlined(profile: &Profile, wanted: &str) -> Option<Inlined> {
    let wanted = wanted.trim();
    let strings = &profile.names.strings;
    let of = |name: &str, file: Option<&str>| {
        let mut functions: BTreeSet<u32> =
            symbols::called(name, strings.iter().map(String::as_str)).into_iter().map(|index| index as u32).collect();
        if functions.is_empty() {
            functions =
                (0..).zip(strings).filter(|(_, text)| key_name(text) == name).map(|(index, _)| index).collect();
        }
        let inlined = Inlined { name: wanted.to_owned(), functions, file: file.map(str::to_owned) };
        (!inlined.hosts(profile).is_empty()).then_some(inlined)
    };
    of(wanted, None).or_else(|| name_and_file(wanted).and_then(|(name, file)| of(name, Some(file))))
}

/// Parts of `init (uart.c)`, the form in which verdicts name a function with namesakes.
fn name_and_file(wanted: &str) -> Option<(&str, &str)> {
    wanted.strip_suffix(')')?.rsplit_once(" (")
}

/// Places for a user's text: a function's name, `FILE:NAME`, `NAME (FILE)`, an address in code, or a name of the table
/// of functions. Several places are the instances of one generic, by address, or functions that comparisons take
/// together.
///
/// # Errors
/// When there is none, or different functions have the name; the message tells what to type instead.
pub fn places<'p>(profile: &'p Profile, wanted: &str) -> Result<Vec<Owner<'p>>, InputError> {
    let wanted = wanted.trim();
    let rows = functions::table(profile).rows;
    if let Some(row) = rows.iter().rfind(|row| row.kind != RowKind::Function && row.name == wanted) {
        return Ok(vec![Owner::of(profile, owner::address_of(profile, row.start))]);
    }
    let names = &profile.names;
    match names.find(wanted) {
        Ok(found) => Ok(found.iter().map(|found| Owner::of(profile, found.address)).collect()),
        Err(NotFound::NoCode { .. }) => {
            let digits = wanted.get(2..).unwrap_or_default().replace('_', "");
            let place = u64::from_str_radix(&digits, 16).ok().map(|address| Owner::of(profile, address & !1));
            let place = place.filter(|place| rows.iter().any(|row| row.name == place.to_string()));
            place.map(|place| vec![place]).ok_or_else(|| {
                InputError::new(format!("no function is at {wanted}, and no instruction near it was executed"))
            })
        }
        Err(NotFound::NoSymbols { .. }) => Err(InputError::new(format!(
            "no function `{wanted}` can be found: the profile has no names, since the image had no symbols; give an \
             address (0x…), or profile it again with the ELF file that has them (--symbols)"
        ))),
        Err(NotFound::Ambiguous { candidates, .. }) => {
            let mut message = format!(
                "`{wanted}` names {} functions; give one of them by its address, its full name, its number (NAME#1), or \
                 as FILE:NAME:",
                candidates.len()
            );
            for (index, found) in candidates.iter().take(MAX_LISTED).enumerate() {
                let at = names.function_at(found.address);
                let file = at.and_then(|at| Some(format!("  ({}:{})", at.file.as_ref()?, at.line?)));
                let (number, address) = (index + 1, Hex(found.address));
                message += &format!("\n  #{number}  {address}  {}{}", found.name, file.unwrap_or_default());
            }
            if let more @ 1.. = candidates.len().saturating_sub(MAX_LISTED) {
                message += &format!("\n  and {more} more");
            }
            Err(InputError::new(message))
        }
        Err(missing @ NotFound::NoBytes { .. }) => Err(InputError::new(missing.to_string())),
        Err(missing @ NotFound::Missing { .. }) => {
            let compared = compared_as(profile, wanted);
            if !compared.is_empty() {
                return Ok(compared);
            }
            let Some(inlined) = inlined(profile, wanted) else { return Err(InputError::new(missing.to_string())) };
            let into: BTreeSet<String> = inlined.hosts(profile).iter().map(Owner::to_string).collect();
            Err(InputError::new(format!(
                "`{wanted}` has no code of its own: it is inlined into `{}`; ask for that",
                into.into_iter().take(4).collect::<Vec<_>>().join("`, `")
            )))
        }
    }
}

/// Functions that have this name in comparisons and verdicts: with the file if there are namesakes, without the
/// numbers of closures.
fn compared_as<'p>(profile: &'p Profile, wanted: &str) -> Vec<Owner<'p>> {
    let named = |name: &str, file: Option<&str>| -> Vec<Owner<'p>> {
        let functions = profile.names.functions.iter();
        let is_it = |function: &&Function| {
            key_name(&function.name) == name
                && file.is_none_or(|file| function.file.as_deref().is_some_and(|path| file_name(path) == file))
        };
        functions.filter(is_it).map(Owner::Function).collect()
    };
    let found = named(wanted, None);
    match name_and_file(wanted) {
        Some((name, file)) if found.is_empty() => named(name, Some(file)),
        _ => found,
    }
}

/// Functions that a suite's name refers to, by their keys in [`Metrics`]: all functions of that name, in any file,
/// inlined or not; or else those that [`places`] would find. Several keys are the instances of one generic. No key: the
/// image lacks the function.
///
/// # Errors
/// When different functions have the name; the message lists them.
pub fn keys(profile: &Profile, metrics: &Metrics, wanted: &str) -> Result<BTreeSet<String>, String> {
    let wanted = wanted.trim();
    let own = key_name(wanted);
    if metrics.functions.keys().any(|key| key.name == own) {
        return Ok(BTreeSet::from([own]));
    }
    // Candidates: linkage name, name to search in, key.
    let mut candidates: Vec<(&str, String, String)> = Vec::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    for function in &profile.names.functions {
        let key = key_name(&function.name);
        known.insert(key.clone());
        candidates.push((&function.linkage_name, key.clone(), key));
    }
    for alias in &profile.names.aliases {
        if let Some(function) = profile.names.function_at(alias.address) {
            let name = key_name(&symbols::demangle(&alias.linkage_name));
            candidates.push((&alias.linkage_name, name, key_name(&function.name)));
        }
    }
    // A function that is only inlined has no symbol.
    let inlined = metrics.functions.keys().filter(|key| !known.contains(&key.name));
    candidates.extend(inlined.map(|key| ("", key.name.clone(), key.name.clone())));

    let exact: Vec<usize> = (0..candidates.len()).filter(|&index| candidates[index].0 == wanted).collect();
    let found =
        if exact.is_empty() { symbols::called(&own, candidates.iter().map(|(_, name, _)| &**name)) } else { exact };
    let keys: BTreeSet<String> = found.iter().map(|&index| candidates[index].2.clone()).collect();
    let functions = found.iter().map(|&index| (candidates[index].0, &*candidates[index].1));
    if keys.len() > 1 && !symbols::are_instances(functions) {
        let mut message = format!("`{wanted}` names {} functions; give one of them by its full name:", keys.len());
        keys.iter().take(MAX_LISTED).for_each(|name| message += &format!("\n  {name}"));
        if let more @ 1.. = keys.len().saturating_sub(MAX_LISTED) {
            message += &format!("\n  and {more} more");
        }
        return Err(message);
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;

    fn named(profile: &Profile, wanted: &str) -> String {
        match places(profile, wanted) {
            Ok(places) => {
                let starts: Vec<String> =
                    places.iter().map(|place| format!("{:#x}", place.start().unwrap_or(0))).collect();
                starts.join(" ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn namesakes_are_told_apart_by_file_or_address() {
        let mut profile = empty().function("init", 0x40, 0x10).function("init", 0x50, 0x10).insn(0x40, 1);
        profile.names.functions[1].file = Some("src/uart.c".to_owned());
        assert_eq!(named(&profile, "uart.c:init"), "0x50");
        assert_eq!(named(&profile, "src/blinky.c:init"), "0x40");
        assert!(named(&profile, "rt.c:init").starts_with("no function is called"));
        assert_eq!(named(&profile, "0x43"), "0x40");
        let error = named(&profile, "init");
        assert!(error.starts_with("`init` names 2 functions; give one of them by its address"), "{error}");
        assert!(error.contains("\n  #2  0x00000050  init  (src/uart.c:7)"), "{error}");
        assert_eq!(named(&profile, "init#2"), "0x50");
        assert_eq!(named(&profile, "init@0x43"), "0x40");
        let error = named(&profile, "inti");
        assert_eq!(error, "no function is called `inti`; did you mean `init`?");
    }

    #[test]
    fn code_without_a_name_is_found_where_it_ran() {
        let profile = empty().function("init", 0x40, 0x10).insn(0x300, 1);
        assert_eq!(named(&profile, "0x344"), "0x300");
        assert_eq!(named(&profile, "[0x00000300..0x000003ff]"), "0x300");
        assert_eq!(named(&profile, "0x900"), "no function is at 0x900, and no instruction near it was executed");
        assert!(named(&empty(), "init").starts_with("no function `init` can be found: the profile has no names"));
    }

    #[test]
    fn an_inlined_function_says_where_its_code_is() {
        let profile = empty().function("step", 0x50, 0x10).frames(0x52, &["step", "mix"]).insn(0x52, 1);
        assert_eq!(named(&profile, "mix"), "`mix` has no code of its own: it is inlined into `step`; ask for that");
        let (places, inlined) = places_or_inlined(&profile, "mix").unwrap();
        assert_eq!(places.iter().map(Owner::to_string).collect::<Vec<_>>(), ["step"]);
        assert_eq!(inlined.unwrap().name, "mix");
        assert_eq!(places_or_inlined(&profile, "step").unwrap().1, None);
        assert!(places_or_inlined(&profile, "mxi").is_err());
    }

    #[test]
    fn what_a_verdict_prints_is_found() {
        let mut profile = empty()
            .function("init", 0x40, 0x10)
            .function("init", 0x50, 0x10)
            .function("app::{closure#0}", 0x60, 0x10)
            .function("app::{closure#3}", 0x70, 0x10);
        profile.names.functions[1].file = Some("src/uart.c".to_owned());
        assert_eq!(named(&profile, "init (uart.c)"), "0x50");
        assert_eq!(named(&profile, "init (blinky.c)"), "0x40");
        assert_eq!(named(&profile, "app::{closure}"), "0x60 0x70");
        assert!(named(&profile, "init (spi.c)").starts_with("no function is called"));
    }
}
