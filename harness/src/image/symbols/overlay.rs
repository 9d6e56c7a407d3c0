// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of overlays: sections that firmware copies to the same addresses, one after the other. An address does not
//! tell which of them is there, so functions at the same addresses are one function with all their names.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Extent, Label, demangle, functions as functions_of, separate};

/// Most functions that a shared name lists.
const MAX_NAMES: usize = 4;

/// Most sections of overlays: far more than a firmware has, and few enough for an image made to harm.
const MAX_SECTIONS: usize = 256;

/// Functions of an image.
pub(super) struct Found<'data> {
    /// All functions: sorted, not overlapping.
    pub(super) functions: Vec<Extent<'data>>,
    /// Code that belongs to functions of several sections.
    pub(super) shared: Vec<Range<u64>>,
    /// Sentence about shared code; None: there is none.
    pub(super) warning: Option<String>,
}

/// Finds the functions among the labels. Labels of one address that are in one section name one function, see [`super`].
pub(super) fn functions<'data>(labels: &[Label<'data>], objects: &BTreeSet<u64>) -> Found<'data> {
    let overlaid = overlaid(labels);
    if overlaid.is_empty() {
        return Found { functions: functions_of(labels, objects), shared: Vec::new(), warning: None };
    }
    if overlaid.len() > MAX_SECTIONS {
        let warning = format!(
            "{} sections have their code at the same addresses (overlays), more than {MAX_SECTIONS}: their functions have \
             the name of any of them",
            overlaid.len()
        );
        return Found { functions: functions_of(labels, objects), shared: Vec::new(), warning: Some(warning) };
    }
    let mut by_section: BTreeMap<usize, Vec<Label<'data>>> = BTreeMap::new();
    let mut others: Vec<Label<'data>> = Vec::new();
    for label in labels {
        let of_overlay = overlaid.contains(&label.section);
        if of_overlay { by_section.entry(label.section).or_default() } else { &mut others }.push(label.clone());
    }
    let mut functions = functions_of(&others, objects);
    let in_overlays = by_section.values().flat_map(|labels| {
        let within = labels[0].address..labels[0].section_end.max(labels[0].address);
        functions_of(labels, &objects.range(within).copied().collect())
    });
    let mut in_overlays: Vec<Extent<'data>> = in_overlays.collect();
    in_overlays.sort_by_key(|function| (function.range.start, function.range.end));
    let mut groups: Vec<(Range<u64>, Vec<Extent<'data>>)> = Vec::new();
    for function in in_overlays {
        match groups.last_mut().filter(|(range, _)| function.range.start < range.end) {
            Some((range, group)) => {
                range.end = range.end.max(function.range.end);
                group.push(function);
            }
            None => groups.push((function.range.clone(), vec![function])),
        }
    }
    let (mut shared, mut example) = (Vec::new(), None);
    for (range, mut group) in groups {
        if let [_] = group[..] {
            functions.append(&mut group);
            continue;
        }
        let name = joined(&group);
        example.get_or_insert_with(|| name.clone());
        shared.push(range.clone());
        functions.push(Extent { range, name: Cow::Owned(name) });
    }
    functions.sort_by_key(|extent| extent.range.start);
    separate(&mut functions);
    let warning = example.map(|name| {
        format!(
            "several sections have their code at the same addresses (overlays), and which of them was there is not known: \
             their functions are counted as one, without lines, such as {name}"
        )
    });
    Found { functions, shared, warning }
}

/// Sections whose code overlaps that of another one.
fn overlaid(labels: &[Label<'_>]) -> BTreeSet<usize> {
    let mut ranges: BTreeMap<usize, Range<u64>> = BTreeMap::new();
    for label in labels {
        let range = ranges.entry(label.section).or_insert(label.address..label.section_end);
        range.start = range.start.min(label.address);
    }
    let mut by_start: Vec<(usize, Range<u64>)> = ranges.into_iter().collect();
    by_start.sort_by_key(|(_, range)| range.start);
    let mut found = BTreeSet::new();
    let mut reach: Option<(usize, u64)> = None;
    for (section, range) in by_start {
        if let Some((before, _)) = reach.filter(|&(_, end)| range.start < end) {
            found.extend([before, section]);
        }
        if reach.is_none_or(|(_, end)| end < range.end) {
            reach = Some((section, range.end));
        }
    }
    found
}

/// Name of functions at the same addresses.
fn joined(group: &[Extent<'_>]) -> String {
    let names: Vec<Cow<'_, str>> = group.iter().map(|function| demangle(&function.name)).collect();
    match names.len().saturating_sub(MAX_NAMES) {
        0 => names.join(" or "),
        more => format!("{} or {more} more", names[..MAX_NAMES].join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Binding, Kind};
    use super::*;

    /// A function of each section, all at the same addresses.
    fn found(sections: usize) -> (usize, usize, Option<String>) {
        let label = |section: usize| Label {
            address: 0x100,
            kind: Kind::Function,
            binding: Binding::Global,
            name_bytes: 2,
            name: Cow::Owned(format!("f{section}")),
            size_bytes: 16,
            section_end: 0x200,
            section,
        };
        let labels: Vec<Label<'_>> = (0..sections).map(label).collect();
        let Found { functions, shared, warning } = functions(&labels, &BTreeSet::new());
        (functions.len(), shared.len(), warning)
    }

    #[test]
    fn overlays_have_one_function_with_all_names_unless_there_are_more_than_any_firmware_has() {
        assert_eq!(found(1), (1, 0, None));
        let (functions, shared, warning) = found(3);
        assert_eq!((functions, shared), (1, 1));
        assert!(warning.unwrap().ends_with("such as f0 or f1 or f2"));
        let (functions, shared, warning) = found(MAX_SECTIONS + 1);
        assert_eq!((functions, shared), (1, 0));
        assert!(warning.unwrap().starts_with("257 sections have their code at the same addresses"));
    }
}
