// SPDX-License-Identifier: MIT OR Apache-2.0
//! FreeRTOS's control block by its DWARF: the layout of the structure that `pxCurrentTCB` points to, and the places
//! where a compiler has inlined the functions that change that variable.

use std::ops::Range;

use super::{CURRENT, Layout};
use crate::image::kernel::scan::{At, Scan, offset};

/// Longest plausible name of a task, in bytes.
const MAX_NAME_BYTES: u64 = 256;

/// Result of the search.
#[derive(Default)]
pub(super) struct Described {
    pub(super) layout: Option<Layout>,
    /// Addresses of functions that are, or have inlined, one of the functions searched for. They are without load
    /// bias, each the start of a piece of code.
    pub(super) switchers: Vec<u64>,
    /// Reason why a layout was rejected as implausible.
    pub(super) implausible: Option<&'static str>,
    /// First error; the entry that it concerns was left out.
    pub(super) damage: Option<gimli::Error>,
}

/// Searches for the structure that one of the variables called `current` points to, and for the functions.
pub(super) fn describe(mut scan: Scan<'_, '_>, pointer_bytes: u64, is_switcher: &dyn Fn(&str) -> bool) -> Described {
    let variables = scan.run(&CURRENT, is_switcher);
    let mut found = Described::default();
    for variable in variables {
        // The ports declare the variable as a pointer to any type.
        if found.layout.is_none() {
            let result = found.variable(&scan, pointer_bytes, variable);
            scan.keep(result);
        }
    }
    Described { switchers: scan.switchers, damage: scan.damage, ..found }
}

impl Described {
    /// Takes the layout from the type that a variable points to.
    fn variable(&mut self, scan: &Scan<'_, '_>, pointer_bytes: u64, at: At) -> gimli::Result<()> {
        for structure in scan.structures(at)? {
            match layout(scan, pointer_bytes, structure)? {
                Some(Ok(layout)) => {
                    self.layout = Some(layout);
                    return Ok(());
                }
                Some(Err(reason)) => self.implausible = self.implausible.or(Some(reason)),
                None => {}
            }
        }
        Ok(())
    }
}

/// Reads the members of a structure. None: it is not a control block. Inner error: its members are implausible.
fn layout(
    scan: &Scan<'_, '_>,
    pointer_bytes: u64,
    structure: At,
) -> gimli::Result<Option<Result<Layout, &'static str>>> {
    let (mut name, mut stack, mut stack_end) = (None, None, None);
    let unit = &scan.units[structure.0];
    let mut tree = unit.entries_tree(Some(structure.1))?;
    let root = tree.root()?;
    let size = root.entry().attr_value(gimli::DW_AT_byte_size).and_then(|value| value.udata_value());
    let mut members = root.children();
    while let Some(member) = members.next()? {
        let entry = member.entry();
        if entry.tag() != gimli::DW_TAG_member {
            continue;
        }
        let place = match scan.own_name(structure.0, entry) {
            Some("pcTaskName") => &mut name,
            Some("pxStack") => &mut stack,
            Some("pxEndOfStack") => &mut stack_end,
            _ => continue,
        };
        let offset = offset(unit, entry);
        let kind = scan.attribute_target(structure.0, entry, gimli::DW_AT_type);
        *place = Some((offset, kind));
    }
    let (Some((name, name_type)), Some(stack)) = (name, stack) else { return Ok(None) };

    let name_bytes = name_type.map_or(Ok(None), |kind| scan.characters(kind))?;
    let stack = pointer(scan, pointer_bytes, stack)?;
    let stack_end = stack_end.map(|member| pointer(scan, pointer_bytes, member)).transpose()?;
    Ok(Some(check(pointer_bytes, size, name.zip(name_bytes), stack, stack_end)))
}

/// Offset of a member that is a pointer.
fn pointer(
    scan: &Scan<'_, '_>,
    pointer_bytes: u64,
    (offset, kind): (Option<u64>, Option<At>),
) -> gimli::Result<Option<u64>> {
    let kind = kind.map_or(Ok(None), |kind| scan.size(kind))?;
    Ok(offset.filter(|_| kind == Some((gimli::DW_TAG_pointer_type, pointer_bytes))))
}

fn check(
    pointer_bytes: u64,
    size: Option<u64>,
    name: Option<(u64, u64)>,
    stack: Option<u64>,
    stack_end: Option<Option<u64>>,
) -> Result<Layout, &'static str> {
    let size = size.ok_or("it has no size")?;
    if size >= wire::request::MAX_OFFSET_BYTES {
        return Err("it is too large");
    }
    let within = |offset: u64, bytes: u64| {
        let end = offset.checked_add(bytes).filter(|&end| end <= size);
        end.map(|end| offset..end).ok_or("a member is outside of it")
    };
    let (name, bytes) = name.ok_or("pcTaskName is not an array of characters")?;
    if !(1..=MAX_NAME_BYTES).contains(&bytes) {
        return Err("pcTaskName is too long or empty");
    }
    let name = within(name, bytes)?;
    let stack = within(stack.ok_or("pxStack is not a pointer")?, pointer_bytes)?;
    let stack_end = match stack_end {
        Some(end) => Some(within(end.ok_or("pxEndOfStack is not a pointer")?, pointer_bytes)?),
        None => None,
    };
    let mut pieces: Vec<&Range<u64>> =
        [Some(&name), Some(&stack), stack_end.as_ref()].into_iter().flatten().collect();
    pieces.sort_by_key(|piece| piece.start);
    if pieces.windows(2).any(|pair| pair[0].end > pair[1].start) {
        return Err("its members overlap");
    }
    Ok(Layout { name, stack: stack.start, stack_end: stack_end.map(|end| end.start) })
}
