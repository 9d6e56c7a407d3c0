// SPDX-License-Identifier: MIT OR Apache-2.0
//! LLVM's sample profile as text, which clang and rustc optimise by
//! (<https://clang.llvm.org/docs/UsersManual.html#sample-profile-text-format>).
//!
//! ```text
//! function:total:entries
//!  line offset[.discriminator]: count [callee:count …]
//!  line offset[.discriminator]: inlined function:total
//!   line offset[.discriminator]: count
//! ```

use std::cmp::Reverse;
use std::io::{self, Write};

use anyhow::Result;

use crate::analysis::source_counts::{self, Counts, Location};
use crate::error::InputError;
use crate::export::Settings;
use crate::profile::Profile;

/// Writes the profile. Functions come by descending total, as LLVM's own tools write them.
///
/// # Errors
/// If no executed code has debug information with a name that LLVM reads, or errors of `out`.
pub fn write(profile: &Profile, _: &Settings, out: &mut dyn Write) -> Result<()> {
    let functions = source_counts::of(profile).into_iter();
    let mut functions: Vec<_> = functions.filter(|(name, _)| is_readable(name)).collect();
    if functions.is_empty() {
        let why = "no executed code has debug information, by which a compiler finds it again";
        let next = "build the firmware with -g (better: clang -O2 -g -fdebug-info-for-profiling), profile it again";
        return Err(InputError::new(format!("{why}; {next}")).into());
    }
    // They are sorted by name; functions with the same total stay so.
    functions.sort_by_key(|(_, counts)| Reverse(counts.total));
    for (name, counts) in &functions {
        writeln!(out, "{name}:{}:{}", counts.total, counts.entries)?;
        write_body(counts, 1, out)?;
    }
    Ok(())
}

fn write_body(counts: &Counts<'_>, depth: usize, out: &mut dyn Write) -> io::Result<()> {
    for (location, count) in &counts.locations {
        write!(out, "{:depth$}{}: {count}", "", shown(location))?;
        for (callee, calls) in counts.calls.get(location).into_iter().flatten().filter(|(name, _)| is_readable(name))
        {
            write!(out, " {callee}:{calls}")?;
        }
        writeln!(out)?;
    }
    for ((location, name), inlined) in counts.inlined.iter().filter(|((_, name), _)| is_readable(name)) {
        writeln!(out, "{:depth$}{}: {name}:{}", "", shown(location), inlined.total)?;
        write_body(inlined, depth + 1, out)?;
    }
    Ok(())
}

fn shown(location: &Location) -> String {
    match location.discriminator {
        0 => location.line_offset.to_string(),
        discriminator => format!("{}.{discriminator}", location.line_offset),
    }
}

/// Whether LLVM's reader takes the whole name for a name: it ends names at spaces and colons, and knows lines by their
/// first character, counts by a digit.
fn is_readable(name: &str) -> bool {
    let is_word = |c: char| !c.is_control() && !c.is_whitespace() && c != ':';
    let begins = |c: char| !c.is_ascii_digit() && !matches!(c, '#' | '[' | '!');
    name.chars().all(is_word) && name.starts_with(begins)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;
    use crate::profile::{Arc, Place};

    /// Adds a list of places from an address on: function, line of its definition, line, discriminator, copies.
    fn placed(mut profile: Profile, start: u64, places: &[(&str, u32, u32, u32, u32)]) -> Profile {
        let mut list = Vec::new();
        for &(function, start_line, line, discriminator, copies) in places {
            profile.names.strings.push(function.to_owned());
            let function = profile.names.strings.len() as u32 - 1;
            list.push(Place { function, start_line, line, discriminator, copies });
        }
        profile.names.placed.push((start, (!list.is_empty()).then_some(profile.names.places.len() as u32)));
        profile.names.places.push(list);
        profile
    }

    fn text(profile: &Profile) -> String {
        let mut bytes = Vec::new();
        write(profile, &Settings::default(), &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_location_has_its_most_executed_instruction_and_a_function_their_sum() {
        let mut profile = empty().function("main", 0x40, 0x10).function("f", 0x60, 4);
        for (pc, count) in [(0x40, 6), (0x42, 7), (0x44, 5), (0x46, 5), (0x48, 2), (0x60, 5)] {
            profile = profile.insn(pc, count);
        }
        profile = placed(profile, 0x40, &[("main", 10, 12, 0, 1)]);
        profile = placed(profile, 0x44, &[("main", 10, 12, 2, 1), ("inner", 30, 31, 0, 4)]);
        profile = placed(profile, 0x46, &[("main", 10, 12, 3, 1)]);
        // Code of an unknown place.
        profile = placed(profile, 0x48, &[]);
        profile = placed(profile, 0x60, &[("f", 5, 4, 0, 1)]);
        for (site, target, links) in [(0x46, 0x60, true), (0x44, 0x40, false)] {
            let arc = Arc { site, target, return_addr: None, links, count: 5 };
            profile.vcpus[0].arcs.push(arc);
        }
        let expected = "main:32:1\n 2: 7\n 2.3: 5 f:5\n 2.2: inner:20\n  1: 20\nf:5:5\n 65535: 5\n";
        assert_eq!(text(&profile), expected);
    }

    #[test]
    fn names_that_llvm_would_misread_are_left_out() {
        let mut profile = empty().insn(0x40, 1).insn(0x42, 1);
        profile = placed(profile, 0x40, &[("a b\n", 1, 1, 0, 1)]);
        profile = placed(profile, 0x42, &[("ok", 1, 1, 0, 1)]);
        assert_eq!(text(&profile), "ok:1:0\n 0: 1\n");
        for name in ["", "#x", "[x", "1x", "a:1", "a b", "\u{7f}"] {
            assert!(!is_readable(name), "{name}");
        }
        let unreadable = placed(empty().insn(0x40, 1), 0x40, &[("a b", 1, 1, 0, 1)]);
        let error = write(&unreadable, &Settings::default(), &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("no executed code"), "{error}");
    }

    #[test]
    fn without_debug_information_the_message_says_what_to_do() {
        let error = write(&empty().insn(0x40, 1), &Settings::default(), &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("-fdebug-info-for-profiling"), "{error}");
    }
}
