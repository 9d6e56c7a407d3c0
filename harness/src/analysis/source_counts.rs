// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts by place in the source, as optimising compilers read them: of each function, and in it of each function that
//! was inlined there.
//!
//! A location's count is the most that one of its instructions ran, times the copies that the compiler says it made of
//! the code (an unrolled loop). A function's total is the sum of its locations, those of inlined functions included.
//! All counts are exact; code without debug information is left out.

use std::collections::BTreeMap;

use crate::analysis::functions::{self, RowKind};
use crate::profile::{Place, Profile};
use crate::text::symbol_name::{is_piece, original_name};

/// Place in a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// Lines from the function's definition, modulo 2^16, as LLVM counts them.
    pub line_offset: u32,
    /// Base discriminator.
    pub discriminator: u32,
}

impl Location {
    fn of(place: &Place) -> Location {
        let line_offset = place.line.wrapping_sub(place.start_line) & 0xffff;
        Location { line_offset, discriminator: place.discriminator }
    }
}

/// Counts of a function, or of one that was inlined at a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts<'a> {
    /// Entries from elsewhere; 0 for an inlined function.
    pub entries: u64,
    /// Sum over all locations, those of inlined functions included.
    pub total: u64,
    /// Executions by location.
    pub locations: BTreeMap<Location, u64>,
    /// Calls by location and name of the callee.
    pub calls: BTreeMap<Location, BTreeMap<&'a str, u64>>,
    /// Functions inlined here, by location and name.
    pub inlined: BTreeMap<(Location, &'a str), Counts<'a>>,
}

impl Counts<'_> {
    /// Computes the totals of this function and of those inlined into it. It calls itself once for each function
    /// inlined into another; the profile's lists are short.
    fn add_up(&mut self) -> u64 {
        let own = self.locations.values().copied();
        self.total = own.chain(self.inlined.values_mut().map(Counts::add_up)).fold(0, u64::saturating_add);
        self.total
    }
}

/// Counts of all executed functions with debug information, by linkage name.
pub fn of(profile: &Profile) -> BTreeMap<&str, Counts<'_>> {
    let mut functions: BTreeMap<&str, Counts<'_>> = BTreeMap::new();
    for (pc, count) in profile.insns() {
        let Some((function, place)) = function_at(profile, pc, &mut functions) else { continue };
        let location = function.locations.entry(Location::of(place)).or_default();
        *location = count.saturating_mul(place.copies.into()).max(*location);
    }
    for arc in profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs) {
        let is_inside = profile.names.function_index_at(arc.site) == profile.names.function_index_at(arc.target);
        let callee = callee(profile, arc.target).filter(|_| arc.links || !is_inside);
        let Some(callee) = callee else { continue };
        let Some((function, place)) = function_at(profile, arc.site, &mut functions) else { continue };
        let calls = function.calls.entry(Location::of(place)).or_default().entry(callee).or_default();
        *calls = calls.saturating_add(arc.count);
    }
    let table = functions::table(profile);
    for row in table.rows.iter().filter(|row| row.kind == RowKind::Function) {
        let Some(start) = row.start else { continue };
        let is_whole = profile.names.function_at(start).is_some_and(|function| !is_piece(&function.linkage_name));
        let name = profile.names.places_at(start).first().and_then(|place| string(profile, place.function));
        if let (true, Some(counts)) = (is_whole, name.and_then(|name| functions.get_mut(name))) {
            counts.entries = counts.entries.saturating_add(row.calls);
        }
    }
    for counts in functions.values_mut() {
        counts.add_up();
    }
    functions
}

/// Counts of the innermost function at an address, and its place there.
fn function_at<'f, 'a>(
    profile: &'a Profile,
    pc: u64,
    functions: &'f mut BTreeMap<&'a str, Counts<'a>>,
) -> Option<(&'f mut Counts<'a>, &'a Place)> {
    let (innermost, callers) = profile.names.places_at(pc).split_last()?;
    let outermost = callers.first().unwrap_or(innermost);
    let mut function = functions.entry(string(profile, outermost.function)?).or_default();
    for (caller, callee) in callers.iter().zip(callers.iter().skip(1).chain([innermost])) {
        let callee = string(profile, callee.function)?;
        function = function.inlined.entry((Location::of(caller), callee)).or_default();
    }
    Some((function, innermost))
}

/// Linkage name of a called function: by its debug information, or by the symbol table.
fn callee(profile: &Profile, target: u64) -> Option<&str> {
    if let Some(place) = profile.names.places_at(target).first() {
        return string(profile, place.function);
    }
    Some(original_name(&profile.names.function_at(target)?.linkage_name))
}

fn string(profile: &Profile, index: u32) -> Option<&str> {
    profile.names.strings.get(index as usize).map(String::as_str)
}
