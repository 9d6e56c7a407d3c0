// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory regions in a linker script (`MEMORY { FLASH (rx) : ORIGIN = 0x08000000, LENGTH = 256K }`) or in GNU ld's map
//! file (`Memory Configuration`). Nothing is executed or opened: `INCLUDE` and symbols are refused by name.

use std::path::Path;

use crate::error::InputError;

/// Region of memory, as the linker knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkerRegion {
    /// Name.
    pub name: String,
    /// First address.
    pub start: u64,
    /// Size.
    pub bytes: u64,
    /// Whether the firmware may write to it; a region without attributes is writable unless its name says flash or
    /// ROM.
    pub is_writable: bool,
}

/// Most regions of a file.
const MAX_REGIONS: usize = 256;

/// Reads the regions of a linker script or map file. `path` is for messages.
///
/// # Errors
/// When the text has no regions, or one of them is not understood.
pub fn parse(path: &Path, text: &str) -> Result<Vec<LinkerRegion>, InputError> {
    let fail = |why: String| InputError::about(path, why);
    let regions = match map_lines(text) {
        Some(lines) => lines.iter().map(|line| map_region(line)).collect::<Result<Vec<_>, String>>().map_err(fail)?,
        None => script_regions(&without_comments(text)).map_err(fail)?,
    };
    if regions.is_empty() {
        let why =
            "has no memory regions: give a linker script with a MEMORY block, or GNU ld's map file (-Wl,-Map=FILE)";
        return Err(InputError::about(path, why));
    }
    if regions.len() > MAX_REGIONS {
        return Err(fail(format!("has {} memory regions, more than the {MAX_REGIONS} of any chip", regions.len())));
    }
    for region in &regions {
        if region.bytes > 0 && region.start.checked_add(region.bytes - 1).is_none() {
            return Err(fail(format!("region {} ends beyond the last address", region.name)));
        }
    }
    Ok(regions)
}

/// Lines of a map file's table of regions, without its heading and its last row, the rest of the address space.
fn map_lines(text: &str) -> Option<Vec<&str>> {
    let (_, table) = text.split_once("\nMemory Configuration\n")?;
    let rows = table.lines().skip_while(|line| line.trim().is_empty()).skip(1);
    let rows = rows.take_while(|line| !line.trim().is_empty() && !line.starts_with("*default*"));
    Some(rows.collect())
}

fn map_region(line: &str) -> Result<LinkerRegion, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    match words[..] {
        [name, start, bytes, ..] if number(start).is_some() && number(bytes).is_some() => Ok(LinkerRegion {
            name: name.to_owned(),
            start: number(start).unwrap_or_default(),
            bytes: number(bytes).unwrap_or_default(),
            is_writable: is_writable(name, words.get(3).copied()),
        }),
        _ => Err(format!("`{}` is not a row of Memory Configuration: name, origin, length", line.trim())),
    }
}

fn is_writable(name: &str, attributes: Option<&str>) -> bool {
    match attributes {
        Some(attributes) => {
            let (set, inverted) = attributes.split_once('!').unwrap_or((attributes, ""));
            set.contains(['w', 'W']) && !inverted.contains(['w', 'W'])
        }
        None => {
            let name = name.to_lowercase();
            !["flash", "rom", "text", "code"].iter().any(|part| name.contains(part))
        }
    }
}

fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, after)) = rest.split_once("/*") {
        kept.push_str(before);
        kept.push(' ');
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    kept
}

/// Regions of all MEMORY blocks of a script.
fn script_regions(text: &str) -> Result<Vec<LinkerRegion>, String> {
    let mut regions: Vec<LinkerRegion> = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("MEMORY") {
        rest = after;
        let is_word = !before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        let Some(block) = after.trim_start().strip_prefix('{').filter(|_| is_word) else { continue };
        let Some((block, after)) = block.split_once('}') else {
            return Err("its MEMORY block does not end".to_owned());
        };
        rest = after;
        let mut entries = block;
        while let Some((head, tail)) = entries.split_once(':') {
            let (entry, next) = split_entry(tail);
            regions.push(script_region(head, entry, &regions)?);
            entries = next;
        }
        if !entries.trim().is_empty() {
            return Err(format!(
                "`{}` is not a region: write NAME (rx) : ORIGIN = 0x08000000, LENGTH = 256K",
                entries.trim()
            ));
        }
    }
    Ok(regions)
}

/// Splits a region's numbers from the name of the next one: the name is the last word before its colon.
fn split_entry(text: &str) -> (&str, &str) {
    let Some(colon) = text.find(':') else { return (text, "") };
    let before = text[..colon].trim_end();
    let before = before
        .strip_suffix(')')
        .map_or(before, |inner| inner.rsplit_once('(').map_or(inner, |(name, _)| name.trim_end()));
    // Some white space is longer than a byte.
    let space = before.char_indices().rfind(|(_, letter)| letter.is_whitespace());
    text.split_at(space.map_or(0, |(at, letter)| at + letter.len_utf8()))
}

fn script_region(head: &str, entry: &str, known: &[LinkerRegion]) -> Result<LinkerRegion, String> {
    let head = head.trim();
    let (name, attributes) = match head.split_once('(') {
        Some((name, attributes)) => (name.trim(), Some(attributes.trim_end_matches(')').trim())),
        None => (head, None),
    };
    let fail = |why: &str| format!("region {name}: {why}");
    let (origin, length) = entry.split_once(',').ok_or_else(|| fail("has no LENGTH after its ORIGIN and a comma"))?;
    let value = |part: &str, names: [&str; 3]| {
        let (key, value) = part.split_once('=').ok_or_else(|| fail(&format!("`{}` has no value", part.trim())))?;
        if !names.contains(&key.trim()) {
            return Err(fail(&format!("`{}` is neither ORIGIN nor LENGTH", key.trim())));
        }
        let mut expression = Expression { rest: value.trim(), known, depth: 0 };
        let number = expression.sum().filter(|_| expression.rest.trim().is_empty());
        number.ok_or_else(|| {
            fail(&format!("`{}` is not a number (symbols and INCLUDE are not followed)", value.trim()))
        })
    };
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(format!("`{name}` is not the name of a region"));
    }
    Ok(LinkerRegion {
        name: name.to_owned(),
        start: value(origin, ["ORIGIN", "org", "o"])?,
        bytes: value(length, ["LENGTH", "len", "l"])?,
        is_writable: is_writable(name, attributes),
    })
}

/// Expression of numbers with K or M, `+ - * /`, parentheses, and ORIGIN and LENGTH of regions before it.
struct Expression<'a> {
    rest: &'a str,
    known: &'a [LinkerRegion],
    depth: u32,
}

impl<'a> Expression<'a> {
    fn take(&mut self, letter: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(letter);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn sum(&mut self) -> Option<u64> {
        let mut sum = self.product()?;
        loop {
            if self.take('+') {
                sum = sum.checked_add(self.product()?)?;
            } else if self.take('-') {
                sum = sum.checked_sub(self.product()?)?;
            } else {
                return Some(sum);
            }
        }
    }

    fn product(&mut self) -> Option<u64> {
        let mut product = self.factor()?;
        loop {
            if self.take('*') {
                product = product.checked_mul(self.factor()?)?;
            } else if self.take('/') {
                product = product.checked_div(self.factor()?)?;
            } else {
                return Some(product);
            }
        }
    }

    fn factor(&mut self) -> Option<u64> {
        // An expression's depth is bounded, since each level calls this function.
        self.depth += 1;
        if self.depth > 64 {
            return None;
        }
        if self.take('(') {
            let inner = self.sum()?;
            return self.take(')').then_some(inner);
        }
        let word = self.word();
        if matches!(word, "ORIGIN" | "LENGTH") && self.take('(') {
            let name = self.word();
            let region = self.known.iter().find(|region| region.name == name)?;
            return self.take(')').then_some(if word == "ORIGIN" { region.start } else { region.bytes });
        }
        number(word)
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest.trim_start();
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        word
    }
}

/// Number as ld writes it: `0x100`, `256K`, `1M`.
fn number(word: &str) -> Option<u64> {
    let (digits, scale) = match word.char_indices().last()? {
        (at, 'K' | 'k') => (&word[..at], 1 << 10),
        (at, 'M' | 'm') => (&word[..at], 1 << 20),
        _ => (word, 1_u64),
    };
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let number = hex.map_or_else(|| digits.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())?;
    number.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, u64, u64, bool)>, String> {
        let regions = parse(Path::new("memory.ld"), text).map_err(|error| error.to_string())?;
        Ok(regions.into_iter().map(|region| (region.name, region.start, region.bytes, region.is_writable)).collect())
    }

    #[test]
    fn white_space_of_any_length_stands_before_a_name() {
        let regions = read("MEMORY { A : ORIGIN = 0, LENGTH = 1K\u{2006}B : ORIGIN = 1K, LENGTH = 1K }").unwrap();
        assert_eq!(regions.iter().map(|region| region.0.as_str()).collect::<Vec<_>>(), ["A", "B"]);
    }

    #[test]
    fn the_regions_of_a_linker_script_are_read_with_their_expressions() {
        let text = "/* MEMORY { OLD : ORIGIN = 0, LENGTH = 1 } */\nENTRY(x)\nMEMORY\n{\n  FLASH (rx) : ORIGIN = 0x08000000, \
                    LENGTH = 256K - 0x800\n  BOOT : org = ORIGIN(FLASH) + LENGTH(FLASH), len = (1 + 1) * 1K\n  RAM (xrw!i) : \
                    ORIGIN = 0x20000000, LENGTH = 1M / 4\n}\nSECTIONS {}\n";
        let expected = [
            ("FLASH".to_owned(), 0x0800_0000, 0x3_f800, false),
            ("BOOT".to_owned(), 0x0803_f800, 0x800, true),
            ("RAM".to_owned(), 0x2000_0000, 0x4_0000, true),
        ];
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn the_regions_of_a_map_file_are_read_without_the_rest_of_the_address_space() {
        let text = "Archive member included\n\nMemory Configuration\n\nName             Origin             Length             \
                    Attributes\nFLASH            0x0000000008000000 0x0000000000040000 xr\nRAM              \
                    0x0000000020000000 0x0000000000005000 xrw\n*default*        0x0000000000000000 \
                    0xffffffffffffffff\n\nLinker script and memory map\n";
        let expected =
            [("FLASH".to_owned(), 0x0800_0000, 0x4_0000, false), ("RAM".to_owned(), 0x2000_0000, 0x5000, true)];
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        for (text, why) in [
            ("SECTIONS {}", "has no memory regions"),
            ("MEMORY { FLASH : ORIGIN = 0, LENGTH = _size }", "region FLASH: `_size` is not a number"),
            ("MEMORY { FLASH : ORIGIN = 0 }", "has no LENGTH"),
            ("MEMORY { FLASH : ORIGIN = 0, LENGTH = 1K", "does not end"),
            ("MEMORY { INCLUDE other.ld }", "`INCLUDE other.ld` is not a region"),
            ("MEMORY { A : ORIGIN = 0xffffffffffffffff, LENGTH = 2 }", "beyond the last address"),
            ("MEMORY { A : ORIGIN = 1 - 2, LENGTH = 2 }", "is not a number"),
            ("MEMORY { A : SIZE = 1, LENGTH = 2 }", "neither ORIGIN nor LENGTH"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why) && error.starts_with("memory.ld: "), "{text}: {error}");
        }
        let deep = format!("MEMORY {{ A : ORIGIN = {}1{}, LENGTH = 1 }}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(read(&deep).unwrap_err().contains("is not a number"));
    }
}
