//! The function that a person means, in a saved profile: for every command that is about one.

use std::collections::BTreeSet;

use crate::analysis::functions::{self, RowKind};
use crate::analysis::metrics::{Metrics, key_name};
use crate::analysis::place::{self, Place};
use crate::error::InputError;
use crate::image::symbols::{self, NotFound};
use crate::profile::{Frame, Profile};
use crate::text::number::Hex;

/// Most candidates that a message lists.
const MAX_LISTED: usize = 10;

/// What a person means: a function by name, `FILE:NAME`, an address in code, or a place of the table of
/// functions as it is called there. Several places are the instances of one generic, by address.
///
/// # Errors
/// When there is none, or different functions are called so; the message says what to type instead.
pub fn places<'p>(profile: &'p Profile, wanted: &str) -> Result<Vec<Place<'p>>, InputError> {
    let wanted = wanted.trim();
    let rows = functions::table(profile).rows;
    if let Some(row) = rows.iter().rfind(|row| row.kind != RowKind::Function && row.name == wanted) {
        return Ok(vec![Place::of(profile, place::address_of(profile, row.start))]);
    }
    let names = &profile.names;
    match names.find(wanted) {
        Ok(found) => Ok(found.iter().map(|found| Place::of(profile, found.address)).collect()),
        Err(NotFound::NoCode { .. }) => {
            let digits = wanted.get(2..).unwrap_or_default().replace('_', "");
            let place = u64::from_str_radix(&digits, 16).ok().map(|address| Place::of(profile, address & !1));
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
        Err(missing @ NotFound::Missing { .. }) => match inlined_into(profile, wanted) {
            into if into.is_empty() => Err(InputError::new(missing.to_string())),
            into => Err(InputError::new(format!(
                "`{wanted}` has no code of its own: it is inlined into `{}`; ask for that",
                into.into_iter().take(4).collect::<Vec<_>>().join("`, `")
            ))),
        },
    }
}

/// The functions that a suite means by a name, by what [`Metrics`] call them: all of that name, in whichever files
/// and inlined or not; else those that [`places`] would find. Several are the instances of one generic; none is what
/// the image has not.
///
/// # Errors
/// When different functions are called so; the message lists them.
pub fn keys(profile: &Profile, metrics: &Metrics, wanted: &str) -> Result<BTreeSet<String>, String> {
    let wanted = wanted.trim();
    let own = key_name(wanted);
    if metrics.functions.keys().any(|key| key.name == own) {
        return Ok(BTreeSet::from([own]));
    }
    // Linkage name, name to look for, key.
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
    // What is only inlined has no symbol.
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

/// Functions into which one of this name is inlined.
fn inlined_into(profile: &Profile, wanted: &str) -> BTreeSet<String> {
    let names = &profile.names;
    let meant: BTreeSet<usize> =
        symbols::called(wanted, names.strings.iter().map(String::as_str)).into_iter().collect();
    let is_wanted = |frame: &Frame| frame.inlined && meant.contains(&(frame.function as usize));
    let with = |stack: &u32| names.stacks.get(*stack as usize).is_some_and(|stack| stack.iter().any(is_wanted));
    let places = names.locations.iter().filter(|(_, stack)| with(stack));
    places.filter_map(|&(pc, _)| Some(names.function_at(pc)?.name.clone())).collect()
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
    }
}
