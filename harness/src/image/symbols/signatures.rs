// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types of functions and of pointers to functions, from DWARF: which functions an indirect call may reach by its type.
//! A type is reduced to what calls through a pointer depend on: result and parameters, with size and class, or for
//! pointers the type that they lead to. Typedefs and qualifiers are removed.
//!
//! Only units of C and C++ count. Calls of C++'s virtual methods have no such types; their tables are in the symbol table.
//! In Rust neither types nor tables show the targets: its library casts functions, and not all tables of `dyn` types are in
//! the debug information.

use std::collections::{BTreeMap, BTreeSet};

use gimli::{self, AttributeValue, UnitOffset, UnitRef};

use super::dwarf::Slice;

/// Most types that are followed from a typedef to the type it stands for.
const MAX_HOPS: usize = 16;

/// Type of a value whose debug information is elsewhere: it fits every other.
const ANY: &str = "?";

/// Language of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cpp,
}

/// Functions that may call the same functions through pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    /// Language.
    pub language: Language,
    /// Number of the unit whose pointers count; None: those of all units.
    unit: Option<usize>,
}

/// Types of functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signatures {
    /// Types of functions, by first address.
    functions: BTreeMap<u64, String>,
    /// Number of the unit that a function belongs to, by first address.
    unit_of: BTreeMap<u64, usize>,
    /// Units with code.
    units: Vec<Unit>,
}

/// Unit of the debug information.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unit {
    language: Language,
    /// Types of the pointers to functions that it has.
    pointers: BTreeSet<String>,
    /// Whether it contains inlined code of other units, which has their pointers.
    is_mixed: bool,
}

impl Signatures {
    /// Class of a function: functions of one class may call the same functions through pointers. None: it has no debug
    /// information.
    ///
    /// In C, a pointer's type is in the caller's unit. C++ inlines code of other units, so the pointers of all units
    /// count.
    pub fn class(&self, function: u64) -> Option<Class> {
        let number = *self.unit_of.get(&function)?;
        let unit = self.units.get(number)?;
        let is_alone = unit.language == Language::C && !unit.is_mixed;
        Some(Class { language: unit.language, unit: is_alone.then_some(number) })
    }

    /// Functions among `taken` that a class may call through pointers, judged by types. Functions without debug
    /// information may be called by all.
    pub fn callable(&self, class: Class, taken: &BTreeSet<u64>) -> BTreeSet<u64> {
        let units = self.units.iter().enumerate();
        let units = units.filter(|(number, _)| class.unit.is_none_or(|unit| unit == *number));
        let pointers: BTreeSet<&str> = units.flat_map(|(_, unit)| &unit.pointers).map(String::as_str).collect();
        if pointers.is_empty() {
            // Types do not show where the calls go.
            return BTreeSet::new();
        }
        // Few types have a part that is not known.
        let open: Vec<&str> = pointers.iter().copied().filter(|pointer| pointer.contains(ANY)).collect();
        let fits_own = |own: &str| {
            let is_open = own.contains(ANY);
            pointers.contains(own)
                || open.iter().any(|pointer| fits(pointer, own))
                || is_open && pointers.iter().any(|pointer| fits(pointer, own))
        };
        let is_callable = |to: &&u64| self.functions.get(to).is_none_or(|own| fits_own(own));
        taken.iter().filter(is_callable).copied().collect()
    }

    /// Moves all addresses by a load bias.
    pub(super) fn moved(self, bias: u64) -> Signatures {
        let functions = self.functions.into_iter().map(|(at, own)| (at.wrapping_add(bias), own)).collect();
        let unit_of = self.unit_of.into_iter().map(|(at, unit)| (at.wrapping_add(bias), unit)).collect();
        Signatures { functions, unit_of, ..self }
    }
}

/// Whether two signatures may be of one type.
fn fits(one: &str, other: &str) -> bool {
    let (one, other): (Vec<&str>, Vec<&str>) = (one.split(',').collect(), other.split(',').collect());
    one.len() == other.len()
        && one.iter().zip(&other).all(|(one, other)| one == other || *one == ANY || *other == ANY)
}

/// A function or type of function whose parameters are being read.
struct Open {
    depth: isize,
    /// Place in the unit.
    at: UnitOffset,
    /// First address; None: a type.
    address: Option<u64>,
    parts: Vec<String>,
}

/// Reads the signatures of all units. Damage ends the reading of a unit.
pub(super) fn read(dwarf: &gimli::Dwarf<Slice<'_>>) -> Signatures {
    let mut signatures = Signatures::default();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        let unit_ref = unit.unit_ref(dwarf);
        let Some(language) = language(&unit_ref) else { continue };
        signatures.units.push(Unit { language, pointers: BTreeSet::new(), is_mixed: false });
        let _ = read_unit(&unit_ref, &mut signatures);
    }
    signatures
}

/// Language of a unit; None: another one.
fn language(unit: &UnitRef<'_, Slice<'_>>) -> Option<Language> {
    let root = unit.entries().next_dfs().ok().flatten().and_then(|entry| entry.attr_value(gimli::DW_AT_language));
    let Some(AttributeValue::Language(language)) = root else { return None };
    Some(match language {
        gimli::DW_LANG_C | gimli::DW_LANG_C89 | gimli::DW_LANG_C99 | gimli::DW_LANG_C11 | gimli::DW_LANG_C17 => {
            Language::C
        }
        gimli::DW_LANG_C_plus_plus
        | gimli::DW_LANG_C_plus_plus_03
        | gimli::DW_LANG_C_plus_plus_11
        | gimli::DW_LANG_C_plus_plus_14
        | gimli::DW_LANG_C_plus_plus_17
        | gimli::DW_LANG_C_plus_plus_20 => Language::Cpp,
        _ => return None,
    })
}

/// Types of functions of a unit while it is read.
#[derive(Default)]
struct Types {
    /// Every type, by its place in the unit.
    all: Vec<(UnitOffset, String)>,
    /// Types of variables, members, results, and parameters of functions that the unit defines.
    held: BTreeSet<UnitOffset>,
    /// Types of parameters of functions that are only declared, or called through pointers.
    passed_on: BTreeSet<UnitOffset>,
    /// Whether a type was not followed to its end, so that all count.
    is_open: bool,
    /// Whether a type is in another unit, whose pointers then count.
    is_mixed: bool,
}

impl Types {
    /// Types of the pointers that the unit may call through. A pointer that it only passes on is called elsewhere.
    fn into_pointers(self) -> BTreeSet<String> {
        let Types { all, held, passed_on, is_open, .. } = self;
        let is_called = |at: &UnitOffset| is_open || held.contains(at) || !passed_on.contains(at);
        all.into_iter().filter(|(at, _)| is_called(at)).map(|(_, signature)| signature).collect()
    }

    /// Notes the type of an entry that holds a value. `is_passed_on`: a parameter of a function that is not defined here.
    fn note(&mut self, unit: &UnitRef<'_, Slice<'_>>, value: Option<AttributeValue<Slice<'_>>>, is_passed_on: bool) {
        let mut next = value;
        for _ in 0..MAX_HOPS {
            let Some(AttributeValue::UnitRef(at)) = next else {
                self.is_mixed |= next.is_some();
                return;
            };
            let Ok(entry) = unit.entry(at) else { break };
            match entry.tag() {
                gimli::DW_TAG_subroutine_type => {
                    if is_passed_on {
                        self.passed_on.insert(at)
                    } else {
                        self.held.insert(at)
                    };
                    return;
                }
                gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type | gimli::DW_TAG_class_type => return,
                tag if leads_on(tag) => next = entry.attr_value(gimli::DW_AT_type),
                _ => return,
            }
        }
        self.is_open = true;
    }
}

fn read_unit(unit: &UnitRef<'_, Slice<'_>>, signatures: &mut Signatures) -> Result<(), gimli::Error> {
    let mut open: Vec<Open> = Vec::new();
    let mut types = Types::default();
    // Depth of the latest function or type of function, and whether it is not defined here.
    let mut owner: (isize, bool) = (-1, false);
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        let depth = entry.depth();
        while let Some(done) = open.pop_if(|open| open.depth >= depth) {
            close(done, signatures, &mut types);
        }
        let value = |of| entry.attr_value(of);
        match entry.tag() {
            gimli::DW_TAG_subroutine_type | gimli::DW_TAG_subprogram => {
                let is_type = entry.tag() == gimli::DW_TAG_subroutine_type;
                owner = (depth, is_type || value(gimli::DW_AT_declaration).is_some());
                let address = value(gimli::DW_AT_low_pc).and_then(|value| unit.attr_address(value).ok()?);
                if is_type || address.is_some() {
                    let is_declared_elsewhere = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification]
                        .into_iter()
                        .any(|of| value(of).is_some());
                    let result = match value(gimli::DW_AT_type) {
                        Some(AttributeValue::UnitRef(result)) => type_of(unit, result),
                        None if !is_declared_elsewhere => "v".to_owned(),
                        _ => ANY.to_owned(),
                    };
                    open.push(Open { depth, at: entry.offset(), address, parts: vec![result] });
                }
            }
            gimli::DW_TAG_formal_parameter => {
                if let Some(owner) = open.last_mut().filter(|owner| owner.depth + 1 == depth) {
                    owner.parts.push(type_of(unit, entry.offset()));
                }
            }
            gimli::DW_TAG_unspecified_parameters => {
                if let Some(owner) = open.last_mut().filter(|owner| owner.depth + 1 == depth) {
                    owner.parts.push("...".to_owned());
                }
            }
            _ => {}
        }
        let is_passed_on = entry.tag() == gimli::DW_TAG_formal_parameter && owner == (depth - 1, true);
        if !leads_on(entry.tag()) {
            types.note(unit, value(gimli::DW_AT_type), is_passed_on);
        }
        types.is_mixed |= matches!(value(gimli::DW_AT_abstract_origin), Some(AttributeValue::DebugInfoRef(_)));
    }
    while let Some(done) = open.pop() {
        close(done, signatures, &mut types);
    }
    if let Some(unit) = signatures.units.last_mut() {
        unit.is_mixed = types.is_mixed;
        unit.pointers = types.into_pointers();
    }
    Ok(())
}

/// Whether an entry stands for a type on the way to another one.
fn leads_on(tag: gimli::DwTag) -> bool {
    [
        gimli::DW_TAG_typedef,
        gimli::DW_TAG_pointer_type,
        gimli::DW_TAG_reference_type,
        gimli::DW_TAG_rvalue_reference_type,
        gimli::DW_TAG_ptr_to_member_type,
        gimli::DW_TAG_array_type,
        gimli::DW_TAG_const_type,
        gimli::DW_TAG_volatile_type,
        gimli::DW_TAG_restrict_type,
        gimli::DW_TAG_atomic_type,
    ]
    .contains(&tag)
}

fn close(done: Open, signatures: &mut Signatures, types: &mut Types) {
    let signature = done.parts.join(",");
    match done.address {
        None => types.all.push((done.at, signature)),
        Some(address) => {
            signatures.functions.insert(address, signature);
            signatures.unit_of.insert(address, signatures.units.len().saturating_sub(1));
        }
    }
}

/// Type of a parameter: its own, or that of the declaration that it refers to.
fn type_of(unit: &UnitRef<'_, Slice<'_>>, parameter: UnitOffset) -> String {
    let mut at = parameter;
    for _ in 0..MAX_HOPS {
        let Ok(entry) = unit.entry(at) else { return ANY.to_owned() };
        let value = |of| entry.attr_value(of);
        let size = || value(gimli::DW_AT_byte_size).and_then(|value| value.udata_value()).unwrap_or(0);
        let sized = |class: &str| format!("{class}{}", size());
        let next = match entry.tag() {
            gimli::DW_TAG_formal_parameter => {
                value(gimli::DW_AT_type).or_else(|| value(gimli::DW_AT_abstract_origin))
            }
            gimli::DW_TAG_base_type => {
                let is_float = value(gimli::DW_AT_encoding) == Some(AttributeValue::Encoding(gimli::DW_ATE_float));
                return sized(if is_float { "f" } else { "i" });
            }
            gimli::DW_TAG_enumeration_type => return sized("i"),
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                return match value(gimli::DW_AT_type) {
                    Some(AttributeValue::UnitRef(to)) => {
                        pointee(unit, to).map_or_else(|| ANY.to_owned(), |to| format!("p{to}"))
                    }
                    None => "pv".to_owned(),
                    _ => ANY.to_owned(),
                };
            }
            gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type | gimli::DW_TAG_class_type => return sized("s"),
            _ => value(gimli::DW_AT_type),
        };
        match next {
            Some(AttributeValue::UnitRef(offset)) => at = offset,
            _ => return ANY.to_owned(),
        }
    }
    ANY.to_owned()
}

/// Name or class of the type that a pointer leads to; None: its debug information is elsewhere.
fn pointee(unit: &UnitRef<'_, Slice<'_>>, to: UnitOffset) -> Option<String> {
    let mut at = to;
    for _ in 0..MAX_HOPS {
        let entry = unit.entry(at).ok()?;
        let name = || {
            let name = entry.attr_value(gimli::DW_AT_name).and_then(|value| unit.attr_string(value).ok());
            name.map(|name| name.to_string_lossy().replace(',', " "))
        };
        match entry.tag() {
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type => match entry.attr_value(gimli::DW_AT_type) {
                Some(AttributeValue::UnitRef(offset)) => at = offset,
                None => return Some("v".to_owned()),
                _ => return None,
            },
            // Structures without a name are equal.
            gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type | gimli::DW_TAG_class_type => {
                return Some(name().unwrap_or_default());
            }
            gimli::DW_TAG_pointer_type => return Some("p".to_owned()),
            gimli::DW_TAG_subroutine_type => return Some("f".to_owned()),
            _ => {
                let size = entry.attr_value(gimli::DW_AT_byte_size).and_then(|value| value.udata_value());
                return Some(format!("i{}", size.unwrap_or(0)));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_fit_by_number_size_and_class_of_the_parameters() {
        for (one, other, expected) in [
            ("", "", true),
            ("i4", "", false),
            ("p,i4", "p,i4", true),
            ("p,i4", "p,i8", false),
            ("p,?", "p,i8", true),
            ("p", "p,i4", false),
        ] {
            assert_eq!(fits(one, other), expected, "{one} {other}");
        }
        let unit =
            |language, pointer: &str| Unit { language, pointers: [pointer.to_owned()].into(), is_mixed: false };
        let units = vec![unit(Language::C, "p"), unit(Language::C, "i4"), unit(Language::Cpp, "f8")];
        let mut signatures = Signatures { units, ..Signatures::default() };
        signatures.unit_of.extend([(0x10, 0), (0x18, 2)]);
        signatures.functions.extend([(0x20, "p".to_owned()), (0x30, "i4".to_owned())]);
        let callable = |signatures: &Signatures, caller| {
            let class = signatures.class(caller)?;
            Some(signatures.callable(class, &[0x20, 0x30, 0x40].into()).into_iter().collect::<Vec<_>>())
        };
        assert_eq!(callable(&signatures, 0x10), Some(vec![0x20, 0x40]));
        // C++ has the pointers of all units.
        assert_eq!(callable(&signatures, 0x18), Some(vec![0x20, 0x30, 0x40]));
        assert_eq!(callable(&signatures, 0x50), None);
        // C with inlined code of other units has them, too. Without any pointer, types show nothing.
        signatures.units[0].is_mixed = true;
        assert_eq!(callable(&signatures, 0x10), Some(vec![0x20, 0x30, 0x40]));
        signatures.units[0] = Unit { pointers: BTreeSet::new(), ..unit(Language::C, "p") };
        assert_eq!(callable(&signatures, 0x10), Some(Vec::new()));
    }
}
