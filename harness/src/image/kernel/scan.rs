// SPDX-License-Identifier: MIT OR Apache-2.0
//! Search of a kernel's variables, structures and functions in DWARF.

use std::ops::Range;

use gimli::{self, AttributeValue, DwTag, UnitOffset, UnitType};

use wire::request::MAX_OFFSET_BYTES;
use wire::timeline::{State, StateValue, States};

use crate::image::symbols::dwarf::{Slice, Unit};

/// Most types, or declarations, that are followed from one entry.
const MAX_HOPS: usize = 16;

/// Search through debug information.
pub(super) struct Scan<'d, 'a> {
    dwarf: &'d gimli::Dwarf<Slice<'a>>,
    /// Units in the order of their offsets, followed by type units (DWARF 4).
    pub(super) units: Vec<Unit<'a>>,
    /// Addresses of functions that are, or have inlined, one of the functions searched for. They are without load
    /// bias, each the start of a piece of code.
    pub(super) switchers: Vec<u64>,
    /// First error; the entry that it concerns was left out.
    pub(super) damage: Option<gimli::Error>,
}

pub(super) type Entry<'a> = gimli::DebuggingInformationEntry<Slice<'a>>;

/// Entry: the index of its unit, and its offset there.
pub(super) type At = (usize, UnitOffset);

/// Member of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) offset: u64,
    /// Size in bytes; for an array of bytes its length.
    pub(super) bytes: Option<u64>,
}

impl<'d, 'a> Scan<'d, 'a> {
    /// Members of the structure that one of the variables called `current` points to.
    pub(super) fn members_pointed_to(&mut self, current: &[&str], wanted: &[&str]) -> Option<Vec<Option<Member>>> {
        let variables = self.run(current, &|_| false);
        let structures = variables.into_iter().filter_map(|variable| self.structures(variable).ok()).flatten();
        self.first_with(structures.collect(), wanted)
    }

    /// Members of the structure of that name.
    pub(super) fn members_of(&self, structure: &str, wanted: &[&str]) -> Option<Vec<Option<Member>>> {
        self.first_with(self.definitions(structure), wanted)
    }

    /// Size of the structure of that name.
    pub(super) fn bytes_of(&self, structure: &str) -> Option<u64> {
        self.definitions(structure).into_iter().find_map(|at| Some(self.size(at).ok()??.1))
    }

    /// Members of the first structure that has a member with one of these names.
    fn first_with(&self, structures: Vec<At>, wanted: &[&str]) -> Option<Vec<Option<Member>>> {
        let members = structures.into_iter().filter_map(|structure| self.members(structure, wanted).ok());
        members.into_iter().find(|members: &Vec<Option<Member>>| members.iter().any(Option::is_some))
    }

    fn members(&self, structure: At, wanted: &[&str]) -> gimli::Result<Vec<Option<Member>>> {
        let mut found = vec![None; wanted.len()];
        self.members_from(structure, 0, wanted, &mut found, MAX_HOPS)?;
        Ok(found)
    }

    /// Adds the members of a structure or union that begins at an offset, and of those in it that have no name.
    fn members_from(
        &self,
        structure: At,
        start: u64,
        wanted: &[&str],
        found: &mut [Option<Member>],
        hops: usize,
    ) -> gimli::Result<()> {
        let unit = &self.units[structure.0];
        let mut tree = unit.entries_tree(Some(structure.1))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            if entry.tag() != gimli::DW_TAG_member {
                continue;
            }
            let Some(offset) = offset(unit, entry).and_then(|offset| start.checked_add(offset)) else { continue };
            let Some(name) = self.own_name(structure.0, entry) else {
                let kind = self.attribute_target(structure.0, entry, gimli::DW_AT_type).filter(|_| hops > 0);
                kind.map_or(Ok(()), |kind| self.members_from(kind, offset, wanted, found, hops - 1))?;
                continue;
            };
            let Some(index) = wanted.iter().position(|&wanted| name == wanted) else { continue };
            let bytes = match self.attribute_target(structure.0, entry, gimli::DW_AT_type) {
                Some(kind) => match self.characters(kind)? {
                    None => self.size(kind)?.map(|(_, bytes)| bytes),
                    bytes => bytes,
                },
                None => None,
            };
            found[index] = Some(Member { offset, bytes });
        }
        Ok(())
    }

    /// Structures of these names that are in variables, also within arrays and other structures: each one's addresses,
    /// which are without load bias, and the index of its name. They are sorted and apart.
    pub(super) fn instances(&self, structures: &[&str]) -> Vec<(Range<u64>, usize)> {
        let mut found = Instances { structures, found: Vec::new(), visited: 0 };
        for (index, unit) in self.units.iter().enumerate() {
            let mut entries = unit.entries();
            while let Ok(Some(entry)) = entries.next_dfs() {
                let place = (entry.tag() == gimli::DW_TAG_variable).then(|| address(unit, entry)).flatten();
                // The type of a static member, or of a declared variable, is in the declaration.
                let declared = || self.attribute_target(index, entry, gimli::DW_AT_specification);
                let Some(place) = place else { continue };
                let kind = self.attribute_target(index, entry, gimli::DW_AT_type).or_else(declared);
                if let Some(kind) = kind {
                    // A damaged type costs its own variables only.
                    let _ = found.search(self, kind, place, MAX_HOPS);
                }
            }
        }
        found.found.sort_by_key(|(at, _)| (at.start, at.end));
        found.found.dedup_by(|next, kept| next.0.start < kept.0.end);
        found.found
    }

    /// Values of the enumerators of these names; None: there is none of that name, or its value is negative.
    pub(super) fn enumerators(&self, wanted: &[&str]) -> Vec<Option<u64>> {
        let mut values = vec![None; wanted.len()];
        for (index, unit) in self.units.iter().enumerate() {
            let mut entries = unit.entries();
            // Damage ends the search in this unit.
            while let Ok(Some(entry)) = entries.next_dfs() {
                let name = (entry.tag() == gimli::DW_TAG_enumerator).then(|| self.own_name(index, entry)).flatten();
                let at = name.and_then(|name| wanted.iter().position(|&wanted| wanted == name));
                let value = || entry.attr_value(gimli::DW_AT_const_value)?.udata_value();
                if let Some(known) = at.map(|at| &mut values[at]) {
                    *known = known.or_else(value);
                }
            }
        }
        values
    }

    /// Layout of a control block with a member for its state, whose values are enumerators: the variable that points to
    /// a block, the member, the enumerators, and the member that points to what the task waits for. None: there is no
    /// such member, or no enumerator of these names.
    pub(super) fn states(
        &mut self,
        current: &str,
        state: &str,
        enumerators: &[(&str, State)],
        object: Option<&str>,
        pointer_bytes: u64,
    ) -> Option<States> {
        let wanted: Vec<&str> = [state].into_iter().chain(object).collect();
        let members = self.members_pointed_to(&[current], &wanted)?;
        let is_near = |member: &Member| member.offset < MAX_OFFSET_BYTES - 8;
        let (at, bytes) = members[0].filter(is_near).and_then(|state| Some((state.offset, state.bytes?)))?;
        let names: Vec<&str> = enumerators.iter().map(|&(name, _)| name).collect();
        let values = self.enumerators(&names).into_iter().zip(enumerators);
        let values = values
            .filter_map(|(value, &(_, state))| Some(StateValue { mask: u64::MAX, value: value?, state }))
            .collect::<Vec<StateValue>>();
        let object = members.get(1).copied().flatten();
        let object = object.filter(|object| is_near(object) && object.bytes == Some(pointer_bytes));
        (matches!(bytes, 1 | 2 | 4 | 8) && !values.is_empty()).then(|| States {
            state: at..at + bytes,
            values,
            object: object.map(|object| object.offset),
            time_limit: None,
            known: Vec::new(),
            kinds: Vec::new(),
        })
    }

    pub(super) fn new(dwarf: &'d gimli::Dwarf<Slice<'a>>) -> Self {
        let mut scan = Scan { dwarf, units: Vec::new(), switchers: Vec::new(), damage: None };
        let mut headers = dwarf.units();
        while let Some(header) = scan.keep(headers.next()).flatten() {
            let unit = scan.keep(dwarf.unit(header));
            scan.units.extend(unit);
        }
        let mut headers = dwarf.type_units();
        while let Some(header) = scan.keep(headers.next()).flatten() {
            let unit = scan.keep(dwarf.unit(header));
            scan.units.extend(unit);
        }
        scan
    }

    /// Searches for the variables called `current`, and for the functions.
    pub(super) fn run(&mut self, current: &[&str], is_switcher: &dyn Fn(&str) -> bool) -> Vec<At> {
        let mut variables = Vec::new();
        for index in 0..self.units.len() {
            let result = self.unit(index, current, is_switcher, &mut variables);
            self.keep(result);
        }
        self.switchers.sort_unstable();
        self.switchers.dedup();
        variables
    }

    /// Returns the value; keeps the first error for the result.
    pub(super) fn keep<T>(&mut self, result: gimli::Result<T>) -> Option<T> {
        result.map_err(|error| self.damage.get_or_insert(error)).ok()
    }

    fn unit(
        &mut self,
        index: usize,
        current: &[&str],
        is_switcher: &dyn Fn(&str) -> bool,
        variables: &mut Vec<At>,
    ) -> gimli::Result<()> {
        let unit = &self.units[index];
        // Enclosing functions of the current entry that have code: depth, and the starts of the code's pieces.
        let mut functions: Vec<(isize, Vec<u64>)> = Vec::new();
        let mut switchers = Vec::new();
        let mut entries = unit.entries();
        let result = loop {
            let entry = match entries.next_dfs() {
                Ok(Some(entry)) => entry,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            while functions.last().is_some_and(|(depth, _)| *depth >= entry.depth()) {
                functions.pop();
            }
            match entry.tag() {
                gimli::DW_TAG_variable if self.own_name(index, entry).is_some_and(|name| current.contains(&name)) => {
                    variables.push((index, entry.offset()));
                }
                gimli::DW_TAG_subprogram => {
                    let pieces = self.pieces(unit, entry);
                    if !pieces.is_empty() {
                        if self.name(index, entry).is_some_and(is_switcher) {
                            switchers.extend(&pieces);
                        }
                        functions.push((entry.depth(), pieces));
                    }
                }
                gimli::DW_TAG_inlined_subroutine => {
                    // An inlined call in a function that the linker has discarded has no place.
                    if let Some((_, pieces)) = functions.last()
                        && self.name(index, entry).is_some_and(is_switcher)
                    {
                        switchers.extend(pieces);
                        switchers.extend(self.pieces(unit, entry));
                    }
                }
                _ => {}
            }
        };
        self.switchers.extend(switchers);
        result
    }

    /// Starts of the pieces of an entry's code.
    fn pieces(&self, unit: &Unit<'a>, entry: &Entry<'a>) -> Vec<u64> {
        let mut pieces = Vec::new();
        if let Ok(mut ranges) = self.dwarf.die_ranges(unit, entry) {
            while let Ok(Some(range)) = ranges.next() {
                if range.begin < range.end {
                    pieces.push(range.begin);
                }
            }
        }
        pieces
    }

    pub(super) fn own_name(&self, unit: usize, entry: &Entry<'a>) -> Option<&'a str> {
        let name = self.dwarf.attr_string(&self.units[unit], entry.attr_value(gimli::DW_AT_name)?).ok()?;
        std::str::from_utf8(name.slice()).ok()
    }

    /// Name of an entry, or of its declaration or abstract origin.
    fn name(&self, mut unit: usize, entry: &Entry<'a>) -> Option<&'a str> {
        let mut instance = None;
        for _ in 0..MAX_HOPS {
            let entry = instance.as_ref().unwrap_or(entry);
            if let Some(name) = self.own_name(unit, entry) {
                return Some(name);
            }
            let origin = entry
                .attr_value(gimli::DW_AT_abstract_origin)
                .or_else(|| entry.attr_value(gimli::DW_AT_specification))?;
            let at = self.target(unit, origin)?;
            instance = Some(self.units[at.0].entry(at.1).ok()?);
            unit = at.0;
        }
        None
    }

    /// Entry that an attribute of a unit refers to.
    fn target(&self, unit: usize, reference: AttributeValue<Slice<'a>>) -> Option<At> {
        match reference {
            AttributeValue::UnitRef(offset) => Some((unit, offset)),
            AttributeValue::DebugInfoRef(offset) => {
                let mut units = self.units.iter().enumerate();
                units.find_map(|(index, unit)| {
                    unit.header.debug_info_offset()?;
                    Some((index, offset.to_unit_offset(&unit.header)?))
                })
            }
            AttributeValue::DebugTypesRef(signature) => {
                let mut units = self.units.iter().enumerate();
                units.find_map(|(index, unit)| match unit.header.type_() {
                    UnitType::Type { type_signature, type_offset }
                    | UnitType::SplitType { type_signature, type_offset } => {
                        (type_signature == signature).then_some((index, type_offset))
                    }
                    _ => None,
                })
            }
            _ => None,
        }
    }

    pub(super) fn attribute_target(&self, unit: usize, entry: &Entry<'a>, attribute: gimli::DwAt) -> Option<At> {
        self.target(unit, entry.attr_value(attribute)?)
    }

    /// Structure that a variable points to, through typedefs, qualifiers and arrays. If it is only declared, all
    /// structures of its name.
    pub(super) fn structures(&self, variable: At) -> gimli::Result<Vec<At>> {
        let mut at = variable;
        for hop in 0..MAX_HOPS {
            let entry = self.units[at.0].entry(at.1)?;
            if is_structure(entry.tag()) {
                // DWARF 4 and 5 may keep the structure in a unit of its own (DWARF 5, 7.32).
                if let Some(definition) = self.attribute_target(at.0, &entry, gimli::DW_AT_signature) {
                    return Ok(vec![definition]);
                }
                if !is_declaration(&entry) {
                    return Ok(vec![at]);
                }
                return Ok(self.own_name(at.0, &entry).map_or(Vec::new(), |name| self.definitions(name)));
            }
            let mut next = self.attribute_target(at.0, &entry, gimli::DW_AT_type);
            if hop == 0 {
                let instance = || self.attribute_target(at.0, &entry, gimli::DW_AT_specification);
                let inlined = || self.attribute_target(at.0, &entry, gimli::DW_AT_abstract_origin);
                next = next.or_else(instance).or_else(inlined);
            }
            let Some(next) = next else { break };
            at = next;
        }
        Ok(Vec::new())
    }

    /// All complete structures of a name.
    fn definitions(&self, name: &str) -> Vec<At> {
        let mut found = Vec::new();
        for (index, unit) in self.units.iter().enumerate() {
            let mut entries = unit.entries();
            while let Ok(Some(entry)) = entries.next_dfs() {
                if is_structure(entry.tag()) && !is_declaration(entry) && self.own_name(index, entry) == Some(name) {
                    found.push((index, entry.offset()));
                }
            }
        }
        found
    }

    /// Tag of a type without names and qualifiers, and its size.
    pub(super) fn size(&self, mut at: At) -> gimli::Result<Option<(DwTag, u64)>> {
        for _ in 0..MAX_HOPS {
            let entry = self.units[at.0].entry(at.1)?;
            let bytes = entry.attr_value(gimli::DW_AT_byte_size).and_then(|value| value.udata_value());
            if let Some(bytes) = bytes {
                return Ok(Some((entry.tag(), bytes)));
            }
            if entry.tag() == gimli::DW_TAG_pointer_type {
                return Ok(Some((entry.tag(), u64::from(self.units[at.0].header.address_size()))));
            }
            let Some(next) = self.attribute_target(at.0, &entry, gimli::DW_AT_type) else { break };
            at = next;
        }
        Ok(None)
    }

    /// Length of a type that is an array of characters.
    pub(super) fn characters(&self, mut at: At) -> gimli::Result<Option<u64>> {
        for _ in 0..MAX_HOPS {
            let entry = self.units[at.0].entry(at.1)?;
            let Some(next) = self.attribute_target(at.0, &entry, gimli::DW_AT_type) else { break };
            if entry.tag() == gimli::DW_TAG_array_type {
                let is_character =
                    self.size(next)?.is_some_and(|(tag, bytes)| tag == gimli::DW_TAG_base_type && bytes == 1);
                return if is_character { self.elements(at) } else { Ok(None) };
            }
            at = next;
        }
        Ok(None)
    }

    /// Number of elements of an array type with one dimension.
    fn elements(&self, array: At) -> gimli::Result<Option<u64>> {
        let mut tree = self.units[array.0].entries_tree(Some(array.1))?;
        let mut children = tree.root()?.children();
        let (mut elements, mut dimensions) = (None, 0);
        while let Some(child) = children.next()? {
            let entry = child.entry();
            if entry.tag() == gimli::DW_TAG_subrange_type {
                let number = |at| entry.attr_value(at).and_then(|value| value.udata_value());
                let last = number(gimli::DW_AT_upper_bound).and_then(|last| last.checked_add(1));
                elements = number(gimli::DW_AT_count).or(last);
                dimensions += 1;
            }
        }
        Ok(elements.filter(|_| dimensions == 1))
    }
}

/// Search for structures within variables.
struct Instances<'s> {
    structures: &'s [&'s str],
    found: Vec<(Range<u64>, usize)>,
    visited: usize,
}

/// Most types, with their members and elements, that a search visits.
const MAX_VISITED: usize = 1 << 18;

impl Instances<'_> {
    /// Searches a type at an address.
    fn search(&mut self, scan: &Scan<'_, '_>, kind: At, place: u64, hops: usize) -> gimli::Result<()> {
        self.visited += 1;
        if hops == 0 || self.visited > MAX_VISITED {
            return Ok(());
        }
        let unit = &scan.units[kind.0];
        let entry = unit.entry(kind.1)?;
        match entry.tag() {
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_variable
            | gimli::DW_TAG_member => {
                let next = scan.attribute_target(kind.0, &entry, gimli::DW_AT_type);
                next.map_or(Ok(()), |next| self.search(scan, next, place, hops - 1))
            }
            gimli::DW_TAG_array_type => {
                let Some(element) = scan.attribute_target(kind.0, &entry, gimli::DW_AT_type) else { return Ok(()) };
                let (count, size) = (scan.elements(kind)?.unwrap_or(0), scan.size(element)?);
                let Some((tag, bytes)) = size.filter(|&(_, bytes)| bytes > 0) else { return Ok(()) };
                // Most arrays are of numbers.
                let count = if is_structure(tag) { count } else { 0 };
                (0..count.min(MAX_VISITED as u64))
                    .try_for_each(|index| self.search(scan, element, place.wrapping_add(index * bytes), hops - 1))
            }
            tag if is_structure(tag) => {
                let name = scan.own_name(kind.0, &entry);
                let index = self.structures.iter().position(|&structure| name == Some(structure));
                if let (Some(index), Some((_, bytes))) = (index, scan.size(kind)?) {
                    self.found.push((place..place.saturating_add(bytes), index));
                    return Ok(());
                }
                let mut tree = unit.entries_tree(Some(kind.1))?;
                let mut children = tree.root()?.children();
                while let Some(child) = children.next()? {
                    let member = child.entry();
                    let next = scan.attribute_target(kind.0, member, gimli::DW_AT_type);
                    if member.tag() == gimli::DW_TAG_member
                        && let (Some(next), Some(offset)) = (next, offset(unit, member))
                    {
                        self.search(scan, next, place.wrapping_add(offset), hops - 1)?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Address of a variable that has one.
fn address(unit: &Unit<'_>, variable: &Entry<'_>) -> Option<u64> {
    let Some(AttributeValue::Exprloc(expression)) = variable.attr_value(gimli::DW_AT_location) else { return None };
    let mut operations = expression.operations(unit.encoding());
    match (operations.next(), operations.next()) {
        (Ok(Some(gimli::Operation::Address { address })), Ok(None)) => Some(address),
        _ => None,
    }
}

fn is_structure(tag: DwTag) -> bool {
    matches!(tag, gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type)
}

fn is_declaration(entry: &Entry<'_>) -> bool {
    matches!(entry.attr_value(gimli::DW_AT_declaration), Some(AttributeValue::Flag(true)))
}

/// Offset of a member: a number, or before DWARF 3 an expression that adds it (DWARF 5, 5.7.6). A missing attribute
/// means 0.
pub(super) fn offset(unit: &Unit<'_>, member: &Entry<'_>) -> Option<u64> {
    match member.attr_value(gimli::DW_AT_data_member_location) {
        None => Some(0),
        Some(AttributeValue::Exprloc(expression)) => {
            let mut operations = expression.operations(unit.encoding());
            match (operations.next(), operations.next()) {
                (Ok(Some(gimli::Operation::PlusConstant { value })), Ok(None)) => Some(value),
                _ => None,
            }
        }
        Some(value) => value.udata_value(),
    }
}
