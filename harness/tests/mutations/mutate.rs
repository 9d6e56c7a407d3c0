// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mutations of an input: of any bytes, of text by its words, and of an ELF by its sections.

use std::ops::Range;

use object::{Object as _, ObjectSection as _};

use super::random::Random;

/// Values at which arithmetic overflows.
const EDGES: [u64; 22] = [
    0,
    1,
    2,
    4,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffe,
    0xffff_ffff,
    0x1_0000_0000,
    1 << 48,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 7,
    u64::MAX - 1,
    u64::MAX,
];

/// Words with a meaning in one of the text formats.
const WORDS: [&str; 44] = [
    "0",
    "-1",
    "1",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "1e308",
    "-1e999",
    "nan",
    "inf",
    "0.1%",
    "100%",
    "-1%",
    "99999999999999999999%",
    "400M",
    "18446744073709G",
    "null",
    "true",
    "[]",
    "{}",
    "[[",
    "]",
    "{",
    "}",
    "\"",
    "\"\"",
    "'",
    "'''",
    "=",
    ",",
    ":",
    ".",
    "\n",
    "\0",
    "\u{202e}",
    "\\u0000",
    "\\ud800",
    "*",
    "**/[",
    "@all",
    "@total",
    "calls(\"",
    "(?i)(",
    "::error::",
];

/// Returns an integer near an edge.
pub(crate) fn edge(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => 1 << random.below(64),
        1 => random.next() >> random.below(64),
        _ => *random.pick(&EDGES),
    }
}

/// Changes bytes in place.
fn overwrite(random: &mut Random, bytes: &mut [u8]) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    match random.below(8) {
        0 | 1 => bytes[at] ^= 1 << random.below(8),
        2 => bytes[at] = random.next() as u8,
        3 | 4 => {
            // Aligned, as in most formats.
            let width = 1 << random.below(4);
            let at = at / width * width;
            let end = (at + width).min(bytes.len());
            let mut value = edge(random).to_le_bytes();
            if random.percent(10) {
                value.reverse();
            }
            bytes[at..end].copy_from_slice(&value[..end - at]);
        }
        5 => {
            let width = (1 << random.below(4)).min(bytes.len() - at);
            let mut value = [0; 8];
            value[..width].copy_from_slice(&bytes[at..at + width]);
            let more = random.below(33) as u64;
            let value = u64::from_le_bytes(value).wrapping_add(more).wrapping_sub(16).to_le_bytes();
            bytes[at..at + width].copy_from_slice(&value[..width]);
        }
        6 => {
            let end = (at + 1 + random.below(32)).min(bytes.len());
            bytes[at..end].fill(*random.pick(&[0, 0x7f, 0x80, 0xff]));
        }
        _ => {
            let from = random.below(bytes.len());
            let length = (1 + random.below(64)).min(bytes.len() - at.max(from));
            bytes.copy_within(from..from + length, at);
        }
    }
}

/// Range of some bytes, usually a short one.
fn stretch(random: &mut Random, length: usize) -> Range<usize> {
    let start = random.below(length);
    let longest = if random.percent(80) { 64 } else { length };
    start..(start + 1 + random.below(longest)).min(length)
}

/// Changes bytes and their number.
pub(crate) fn bytes(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..1 + random.below(6) {
        if bytes.is_empty() {
            return;
        }
        match random.below(12) {
            0 => bytes.truncate(random.below(bytes.len())),
            1 => drop(bytes.drain(stretch(random, bytes.len()))),
            2 => {
                let copy = bytes[stretch(random, bytes.len())].to_vec();
                let at = random.below(bytes.len());
                bytes.splice(at..at, copy);
            }
            3 | 4 => {
                // A varint, as in the wire format and in postcard.
                let at = random.below(bytes.len());
                let mut value = edge(random);
                let mut number = Vec::new();
                while value > 0x7f {
                    number.push(value as u8 | 0x80);
                    value >>= 7;
                }
                number.push(value as u8);
                let length = bytes[at..].iter().take_while(|&&byte| byte & 0x80 != 0).count();
                bytes.splice(at..(at + length + 1).min(bytes.len()), number);
            }
            _ => overwrite(random, bytes),
        }
    }
}

/// Changes text by its words: replaces them by words of `other`, and by words with a meaning.
pub(crate) fn text(random: &mut Random, mutated: &mut Vec<u8>, other: &[u8]) {
    if random.percent(20) {
        return bytes(random, mutated);
    }
    for _ in 0..1 + random.below(4) {
        let words = words(mutated);
        if words.is_empty() {
            return;
        }
        let at = random.pick(&words).clone();
        let put: Vec<u8> = match random.below(10) {
            0 => Vec::new(),
            1 => {
                let mut put = mutated[at.clone()].to_vec();
                put.extend(put.clone());
                put
            }
            2 => {
                let word = *random.pick(&["[", "{\"a\":", "a.", "x", "(", "9", "\u{fffd}"]);
                word.repeat(1 << random.below(14)).into_bytes()
            }
            3..=5 => {
                let others = self::words(other);
                if others.is_empty() { Vec::new() } else { other[random.pick(&others).clone()].to_vec() }
            }
            6 => mutated[random.pick(&words).clone()].to_vec(),
            7 => edge(random).to_string().into_bytes(),
            _ => random.pick(&WORDS).as_bytes().to_vec(),
        };
        if random.percent(10) {
            // Inserts a line, or cuts the text here.
            let lines = mutated.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
            let line = random.pick(&lines).clone();
            let at = random.below(lines.len());
            let mut lines = lines;
            if random.percent(50) {
                lines.insert(at, line)
            } else {
                drop(lines.remove(at))
            }
            *mutated = lines.concat();
        } else {
            mutated.splice(at, put);
        }
    }
}

/// Ranges of a text's words: runs of letters and digits, and each other byte.
fn words(text: &[u8]) -> Vec<Range<usize>> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let mut words: Vec<Range<usize>> = Vec::new();
    for (at, &byte) in text.iter().enumerate() {
        match words.last_mut() {
            Some(last) if last.end == at && is_part(byte) && is_part(text[at - 1]) => last.end = at + 1,
            _ => words.push(at..at + 1),
        }
    }
    words
}

/// Named parts of an ELF, and the two tables of headers.
pub(crate) fn elf_parts(elf: &[u8]) -> Vec<(String, Range<usize>)> {
    let file = object::File::parse(elf).expect("an image of targets/build is an ELF");
    let range = |start: u64, bytes: u64| start as usize..(start + bytes) as usize;
    let mut parts: Vec<_> = file
        .sections()
        .filter_map(|section| {
            let (start, bytes) = section.file_range()?;
            Some((section.name().ok()?.to_owned(), range(start, bytes)))
        })
        .filter(|(_, range)| !range.is_empty() && range.end <= elf.len())
        .collect();
    let at = |offset: usize, bytes: usize| {
        elf[offset..offset + bytes].iter().rev().fold(0_usize, |number, &byte| number << 8 | usize::from(byte))
    };
    // Elf32_Ehdr and Elf64_Ehdr: e_phoff, e_shoff, and the entries' size and number.
    let (header, segments, sections) = if elf[4] == 2 {
        (64, (at(32, 8), at(54, 2) * at(56, 2)), (at(40, 8), at(58, 2) * at(60, 2)))
    } else {
        (52, (at(28, 4), at(42, 2) * at(44, 2)), (at(32, 4), at(46, 2) * at(48, 2)))
    };
    parts.push(("headers".to_owned(), 0..header));
    for (start, bytes) in [segments, sections] {
        parts.push(("headers".to_owned(), start..start + bytes));
    }
    // Header of the in-target runtime.
    let runtime = elf.windows(8).position(|window| window == b"\x7fmcount\n");
    parts.extend(runtime.map(|at| ("mcount".to_owned(), at..(at + 128).min(elf.len()))));
    parts
}

/// Names of the ELF parts that are read for more than code; repeated names are chosen more often.
const READ: [&str; 19] = [
    "headers",
    "headers",
    "mcount",
    ".debug_info",
    ".debug_abbrev",
    ".debug_line",
    ".debug_line_str",
    ".debug_frame",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_str",
    ".eh_frame",
    ".ARM.exidx",
    ".ARM.extab",
    ".symtab",
    ".note.gnu.avr.deviceinfo",
    ".mmcu",
    ".ARM.attributes",
    ".riscv.attributes",
];

/// Changes an ELF in one of its parts, so that readers still find it.
pub(crate) fn elf(random: &mut Random, mutated: &mut Vec<u8>, parts: &[(String, Range<usize>)]) {
    if random.percent(8) {
        return bytes(random, mutated);
    }
    for _ in 0..1 + random.below(2) {
        let wanted = random.pick(&READ);
        let named: Vec<_> = parts.iter().filter(|(name, _)| name.starts_with(wanted)).collect();
        let (_, range) = if named.is_empty() { random.pick(parts) } else { *random.pick(&named) };
        for _ in 0..1 + random.below(4) {
            overwrite(random, &mut mutated[range.clone()]);
        }
    }
}

/// Changes lines of an Intel HEX file, usually with valid checksums.
pub(crate) fn hex(random: &mut Random, mutated: &mut Vec<u8>, other: &[u8]) {
    if random.percent(25) {
        return text(random, mutated, other);
    }
    let mut lines: Vec<String> = String::from_utf8_lossy(mutated).lines().map(str::to_owned).collect();
    for _ in 0..1 + random.below(3) {
        let at = random.below(lines.len());
        let digits = lines[at].trim_start_matches(':').to_owned();
        let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let mut record: Vec<u8> = (0..digits.len() / 2).filter_map(|index| pair(2 * index)).collect();
        record.pop();
        overwrite(random, &mut record);
        if random.percent(40) && record.len() > 4 {
            record[0] = (record.len() - 4) as u8;
            record[3] = random.below(7) as u8;
        }
        let sum = record.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte));
        record.push(sum.wrapping_neg());
        let line = record.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
        let line = format!(":{line}");
        if random.percent(20) { lines.insert(at, line) } else { lines[at] = line }
    }
    *mutated = lines.join("\n").into_bytes();
}
