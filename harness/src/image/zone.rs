// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the records of zones, phases and marks that an image names itself (`targets/zone/zone.h`). They lie in a
//! section that is not loaded.
//!
//! AVR's records are in a section whose name makes linkers keep it as they keep debug information: where they drop code,
//! its records have address 0.
//!
//! A record is `Z`, a letter for its kind, the address of its instruction as wide as the ELF's, a detail, and the
//! name. The last two are texts that end with a zero. Records may have zeroes between them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use decode::Isa;
use object::Object as _;
use wire::definition::MAX_TEXT_BYTES;
use wire::zone::{Call, Event, EventKind, MAX_VALUE_BYTES, REGISTERS};

use crate::image::Image;
use crate::image::section::uncompressed;

/// Name of the section.
const SECTION: &str = ".zones";

/// Name of the section on AVR.
const AVR_SECTION: &str = ".debug_zones";

/// First byte of a record.
const BEGINNING: u8 = b'Z';

/// Events of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zones {
    /// Names, those of events sorted and first; an event's name n is `names[n - 1]`.
    pub names: Vec<String>,
    /// Functions whose calls are zones, sorted by address.
    pub calls: Vec<Call>,
    /// Number from which on names are those of calls; 0: there are no calls.
    pub first_call: u32,
    /// Events, sorted by address.
    pub events: Vec<Event>,
    /// Warnings about unusable records, one sentence per cause.
    pub warnings: Vec<String>,
}

/// Record as written in the section.
struct Record<'a> {
    kind: u8,
    address: u64,
    detail: &'a str,
    name: &'a str,
}

/// Reads the records from `elf`, the file with the symbols of `image`. `isa` is the instruction set, `load_bias` is
/// added to addresses.
pub fn find(elf: Option<&[u8]>, image: &Image, isa: Isa, load_bias: u64) -> Zones {
    let Some(file) = elf.and_then(|bytes| object::File::parse(bytes).ok()) else { return Zones::default() };
    let name = if isa.is_avr() { AVR_SECTION } else { SECTION };
    let Some(section) = file.section_by_name(name) else { return Zones::default() };
    let mut warnings = Vec::new();
    let data = uncompressed(&file, &section).unwrap_or_else(|error| {
        warnings.push(format!("{name} cannot be read ({error}): the run has no zones"));
        Cow::default()
    });
    let (mut records, is_whole) = records(&data, if file.is_64() { 8 } else { 4 });
    if !is_whole {
        warnings.push(format!("{name} has bytes that are no record of a zone: what follows them is left out"));
    }
    // The vector of the reset is at AVR's address 0.
    records.retain(|record| !isa.is_avr() || record.address != 0);
    let mut kinds: BTreeMap<u64, (EventKind, &str)> = BTreeMap::new();
    let mut unusable = 0_u64;
    for record in &records {
        let address = if isa.is_thumb() { record.address & !1 } else { record.address };
        let is_there = image.code_at(address).is_some_and(|code| decode::is_nop(isa, code));
        match event(record, isa).filter(|_| is_there && record.name.len() <= MAX_TEXT_BYTES) {
            // If the linker has merged copies of one function, they have the same record.
            Some(kind) if kinds.get(&address).is_none_or(|same| *same == (kind, record.name)) => {
                kinds.insert(address, (kind, record.name));
            }
            _ => unusable += 1,
        }
    }
    if unusable > 0 {
        warnings.push(format!(
            "{unusable} of {} records of zones name no instruction of theirs and are left out: was the image changed \
             after it was linked, or was zone.h?",
            records.len()
        ));
    }
    let names: BTreeSet<&str> = kinds.values().map(|&(_, name)| name).filter(|name| !name.is_empty()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let number = |name: &str| names.binary_search(&name).map_or(0, |index| index as u32 + 1);
    let mut events: Vec<Event> = kinds
        .iter()
        .map(|(&address, &(kind, name))| Event { address: address.wrapping_add(load_bias), kind, name: number(name) })
        .collect();
    events.sort_by_key(|event| event.address);
    Zones {
        names: names.into_iter().map(str::to_owned).collect(),
        calls: Vec::new(),
        first_call: 0,
        events,
        warnings,
    }
}

/// Records of a section, and whether the section contains nothing else.
fn records(data: &[u8], address_bytes: usize) -> (Vec<Record<'_>>, bool) {
    let mut records = Vec::new();
    let mut rest = data;
    loop {
        let zeroes = rest.iter().take_while(|&&byte| byte == 0).count();
        rest = &rest[zeroes..];
        if rest.is_empty() {
            return (records, true);
        }
        let Some((record, after)) = record(rest, address_bytes) else { return (records, false) };
        records.push(record);
        rest = after;
    }
}

fn record(bytes: &[u8], address_bytes: usize) -> Option<(Record<'_>, &[u8])> {
    let (&[BEGINNING, kind], rest) = bytes.split_first_chunk()? else { return None };
    let (address, rest) = rest.split_at_checked(address_bytes)?;
    let address = address.iter().rev().fold(0, |address, &byte| address << 8 | u64::from(byte));
    let (detail, rest) = text(rest)?;
    let (name, rest) = text(rest)?;
    Some((Record { kind, address, detail, name }, rest))
}

/// Splits off a text that ends with a zero.
fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

/// Event of a record; None: the kind is not known.
fn event(record: &Record<'_>, isa: Isa) -> Option<EventKind> {
    let is_named = !record.name.is_empty();
    // Without optimisation a scope's number is in a register, and not known here.
    let scope = number(record.detail).and_then(|scope| u32::try_from(scope).ok()).unwrap_or(0);
    match record.kind {
        b'E' if is_named => Some(EventKind::Enter { scope }),
        b'L' => Some(EventKind::Leave { scope }),
        b'B' if is_named => Some(EventKind::Begin),
        b'F' if is_named => Some(EventKind::End),
        b'P' if is_named => Some(EventKind::Phase),
        b'M' if is_named && isa.is_avr() => value_of_bytes(record.detail),
        b'M' if is_named => {
            let constant = number(record.detail).map(|value| EventKind::Constant { value });
            constant.or_else(|| Some(EventKind::Register { register: register(record.detail, isa)? }))
        }
        _ => None,
    }
}

/// Value of a mark on AVR: a number or the first register, a slash and the bytes, negative where there is a sign.
fn value_of_bytes(detail: &str) -> Option<EventKind> {
    let (place, bytes) = detail.split_once('/')?;
    let bytes = number(bytes).filter(|bytes| bytes.unsigned_abs() <= MAX_VALUE_BYTES.into())?;
    let (is_signed, bytes) = (bytes < 0, bytes.unsigned_abs() as u8);
    if let Some(value) = number(place) {
        // gcc writes constants with a sign always.
        let unused_bits = 64_u32.checked_sub(8 * u32::from(bytes)).filter(|&bits| bits < 64)?;
        let value = value << unused_bits;
        let value = if is_signed { value >> unused_bits } else { ((value as u64) >> unused_bits) as i64 };
        return Some(EventKind::Constant { value });
    }
    let register = register(place, Isa::AvrPc16)?;
    (bytes > 0 && register <= REGISTERS - bytes).then_some(EventKind::Bytes { register, bytes, is_signed })
}

/// Parses a number in assemblers' syntax: `#5`, `5`, `0x5`, `-5`.
fn number(text: &str) -> Option<i64> {
    let text = text.trim_start_matches('#');
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let value = match digits.strip_prefix("0x") {
        Some(digits) => i128::from(u64::from_str_radix(digits, 16).ok()?),
        None => digits.parse().ok()?,
    };
    // A number without a sign may fill a whole register.
    let value = sign * value;
    i64::try_from(value).ok().or_else(|| u64::try_from(value).ok().map(|value| value as i64))
}

/// Number of a register by its name.
fn register(name: &str, isa: Isa) -> Option<u8> {
    const RISCV: [&str; 32] = [
        "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
        "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
    ];
    if isa.is_avr() {
        return name.strip_prefix('r').and_then(|number| number.parse().ok()).filter(|&number: &u8| number <= 31);
    }
    const ARM: [(&str, u8); 7] = [("sb", 9), ("sl", 10), ("fp", 11), ("ip", 12), ("sp", 13), ("lr", 14), ("pc", 15)];
    let numbered = |letter: char, most: u8| {
        name.strip_prefix(letter).and_then(|number| number.parse().ok()).filter(|&number: &u8| number <= most)
    };
    if isa.is_riscv() {
        let named = RISCV.iter().position(|&register| register == name).map(|number| number as u8);
        return named.or_else(|| (name == "fp").then_some(8)).or_else(|| numbered('x', 31));
    }
    let named = ARM.into_iter().find(|&(register, _)| register == name).map(|(_, number)| number);
    named.or_else(|| numbered('r', 15)).filter(|&number| number != 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(kind: u8, address: u32, detail: &str, name: &str) -> Vec<u8> {
        let mut bytes = vec![BEGINNING, kind];
        bytes.extend(address.to_le_bytes());
        for text in [detail, name] {
            bytes.extend(text.bytes());
            bytes.push(0);
        }
        bytes
    }

    #[test]
    fn records_are_read_up_to_what_is_none() {
        let section = [bytes(b'E', 0x102, "7", "decode"), vec![0; 3], bytes(b'L', 0x104, "#7", "")].concat();
        let (found, is_whole) = records(&section, 4);
        let found: Vec<_> = found.iter().map(|record| (record.kind, record.address, record.name)).collect();
        assert_eq!((&found[..], is_whole), (&[(b'E', 0x102, "decode"), (b'L', 0x104, "")][..], true));
        for cut in 1..section.len() {
            let (records, is_whole) = records(&section[..cut], 4);
            assert!(records.len() < 2, "{cut}");
            let at_end = section[..cut].iter().all(|&byte| byte == 0) || (15..=18).contains(&cut);
            assert_eq!(is_whole, at_end, "{cut}");
        }
        assert!(!records(&[section, b"Q".to_vec()].concat(), 4).1);
    }

    #[test]
    fn details_are_scopes_values_and_registers_as_compilers_write_them() {
        let kind = |kind, detail, name, isa| event(&Record { kind, address: 0, detail, name }, isa);
        let (arm, riscv) = (Isa::ThumbV7m, Isa::Riscv64);
        assert_eq!(kind(b'E', "11", "a", arm), Some(EventKind::Enter { scope: 11 }));
        assert_eq!(kind(b'L', "#11", "", arm), Some(EventKind::Leave { scope: 11 }));
        assert_eq!(kind(b'L', "r3", "", arm), Some(EventKind::Leave { scope: 0 }));
        let register = |register| Some(EventKind::Register { register });
        let value = |value| Some(EventKind::Constant { value });
        for (detail, isa, expected) in [
            ("r12", arm, register(12)),
            ("lr", arm, register(14)),
            ("fp", arm, register(11)),
            ("pc", arm, None),
            ("r16", arm, None),
            ("a0", riscv, register(10)),
            ("fp", riscv, register(8)),
            ("x31", riscv, register(31)),
            ("zero", riscv, register(0)),
            ("#-5", arm, value(-5)),
            ("0xff", riscv, value(255)),
            ("-9223372036854775808", riscv, value(i64::MIN)),
            ("18446744073709551615", riscv, value(-1)),
            ("99999999999999999999", riscv, None),
            ("", riscv, None),
        ] {
            assert_eq!(kind(b'M', detail, "frame", isa), expected, "{detail}");
        }
        let bytes = |register, bytes, is_signed| Some(EventKind::Bytes { register, bytes, is_signed });
        for (detail, expected) in [
            ("r24/1", bytes(24, 1, false)),
            ("r22/-4", bytes(22, 4, true)),
            ("-56/1", value(200)),
            ("200/-2", value(200)),
            ("-25536/2", value(40_000)),
            ("-5/-2", value(-5)),
            ("-1294967296/4", value(3_000_000_000)),
            ("r31/2", None),
            ("r24/5", None),
            ("r24/0", None),
            ("7/0", None),
            ("r24", None),
            ("7", None),
        ] {
            assert_eq!(kind(b'M', detail, "frame", Isa::AvrPc16), expected, "{detail}");
        }
        for nameless in [b'E', b'B', b'F', b'P', b'M', b'?'] {
            assert_eq!(kind(nameless, "1", "", arm), None);
        }
    }
}
