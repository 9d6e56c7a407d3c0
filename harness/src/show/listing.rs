// SPDX-License-Identifier: MIT OR Apache-2.0
//! List of an image's functions, by the names that commands take: for choosing one, and for scripts.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::analysis::functions;
use crate::profile::{Function, Profile};
use crate::text::number::{Hex, group};
use crate::text::printable::printable;
use crate::text::tone::Tone;

/// Writes functions by address, one per line below a heading: address, bytes, name, place. With a profile also the
/// instructions executed in each, without its callees'.
///
/// # Errors
/// Errors of `out`.
pub fn functions(functions: &[Function], profile: Option<&Profile>, out: &mut impl Write) -> io::Result<()> {
    let rows = profile.map(|profile| functions::table(profile).rows).unwrap_or_default();
    let executed: BTreeMap<u64, u64> = rows.iter().filter_map(|row| Some((row.start?, row.self_insns))).collect();
    let mut lines = vec![["Address", "Bytes", "Instructions", "Function", "Defined at"].map(str::to_owned)];
    lines.extend(functions.iter().map(|function| {
        let line = function.line.map_or_else(String::new, |line| format!(":{line}"));
        let place = function.file.as_ref().map_or_else(String::new, |file| format!("{file}{line}"));
        let insns = group(executed.get(&function.start).copied().unwrap_or(0));
        [Hex(function.start).to_string(), group(function.size_bytes), insns, function.name.clone(), place]
    }));
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    for [address, bytes, insns, name, place] in &lines {
        let [a, b, c] = widths;
        let insns = profile.map_or_else(String::new, |_| format!("  {insns:>c$}"));
        // The name is not padded: a few are far longer than the rest.
        let line = format!("{address:<a$}  {bytes:>b$}{insns}  {name}  {place}");
        let tone = if address == "Address" { Tone::Heading } else { Tone::Plain };
        writeln!(out, "{}", tone.line(&printable(line.trim_end())))?;
    }
    Ok(())
}
