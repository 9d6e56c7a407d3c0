// SPDX-License-Identifier: MIT OR Apache-2.0
//! Map files of GNU ld and LLD. An ELF file does not say from which archive (`libc.a`) its code and data come; the map
//! that the linker writes beside it does. Only names, addresses and sizes are read: no path in a map is opened.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use super::layout::Section;
use crate::error::InputError;
use crate::text::number::{Hex, group};
use crate::text::symbol_name::file_name;

/// Largest map that is read. Those of the largest firmware have some ten megabytes.
pub const MAX_BYTES: u64 = 1 << 28;

/// Map file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkerMap {
    outputs: Vec<Output>,
    /// Pieces from members of archives, by output section.
    members: Vec<Member>,
    /// Names of the archives, without directories.
    archives: Vec<String>,
}

/// Section of the linked file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Output {
    name: String,
    address: u64,
    bytes: u64,
    members: Range<usize>,
}

/// Section of a member of an archive, where the linker has put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    address: u64,
    bytes: u64,
    archive: u32,
}

/// Bytes of a section that an archive brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought<'m> {
    /// Addresses.
    pub range: Range<u64>,
    /// File name of the archive.
    pub archive: &'m str,
}

/// Line of GNU ld's map, before the table of sections.
const GNU_HEADING: &str = "Linker script and memory map";

/// Words of the first line of LLD's map.
const LLD_HEADING: [&str; 7] = ["VMA", "LMA", "Size", "Align", "Out", "In", "Symbol"];

impl LinkerMap {
    /// Reads a map. `path` is for messages.
    ///
    /// # Errors
    /// When the text is not a map of GNU ld or LLD.
    pub fn parse(path: &Path, text: &str) -> Result<LinkerMap, InputError> {
        let mut reader = Reader::default();
        let mut lines = text.lines();
        let is_lld = |line: &&str| line.split_whitespace().eq(LLD_HEADING);
        if lines.clone().take(4).any(|line| is_lld(&line)) {
            lines.skip_while(|line| !is_lld(line)).skip(1).for_each(|line| reader.lld(line));
        } else if lines.any(|line| line == GNU_HEADING) {
            lines.for_each(|line| reader.gnu(line));
        }
        if reader.map.outputs.is_empty() {
            let why =
                "has no table of sections as GNU ld and LLD write it: give the map file of the link (-Wl,-Map=FILE)";
            return Err(InputError::about(path, why));
        }
        Ok(reader.map)
    }

    /// Bytes that archives bring, by section and address, without overlap. `path` is the map's, `image` the ELF file's,
    /// for messages.
    ///
    /// # Errors
    /// When the map is of another build: a section is at another address or has another size, or there is none of them.
    pub fn brought(
        &self,
        path: &Path,
        image: &Path,
        sections: &[Section],
    ) -> Result<Vec<Vec<Brought<'_>>>, InputError> {
        let of_name: HashMap<&str, &Output> = self.outputs.iter().rev().map(|one| (one.name.as_str(), one)).collect();
        let exact: HashMap<(&str, u64, u64), &Output> =
            self.outputs.iter().rev().map(|one| ((one.name.as_str(), one.address, one.bytes), one)).collect();
        let fail = |what: String| {
            let advice = "give the map that the linker wrote with this ELF file (-Wl,-Map=FILE)";
            Err(InputError::about(path, format!("is not the map of {}: {what}; {advice}", image.display())))
        };
        let mut found = false;
        let mut brought = Vec::with_capacity(sections.len());
        for section in sections {
            let Section { name, address, bytes, .. } = section;
            match (exact.get(&(name.as_str(), *address, *bytes)), of_name.get(name.as_str())) {
                (Some(output), _) => {
                    found = true;
                    brought.push(self.brought_to(output));
                }
                (None, Some(output)) => {
                    let place = |address: u64, bytes: u64| format!("{} bytes at {}", group(bytes), Hex(address));
                    let (there, here) = (place(output.address, output.bytes), place(*address, *bytes));
                    return fail(format!("its section {name} has {there}, the ELF file's {here}"));
                }
                // Tools that work on linked files add sections.
                (None, None) => brought.push(Vec::new()),
            }
        }
        if !found && !sections.is_empty() {
            return fail("none of the ELF file's sections is in it".to_owned());
        }
        Ok(brought)
    }

    fn brought_to(&self, output: &Output) -> Vec<Brought<'_>> {
        let end = output.address.saturating_add(output.bytes);
        let mut members = self.members[output.members.clone()].to_vec();
        members.sort_unstable();
        let mut at = output.address;
        let brought = members.into_iter().filter_map(|member| {
            let range = member.address.max(at)..member.address.saturating_add(member.bytes).min(end);
            let archive = self.archives.get(member.archive as usize)?;
            at = at.max(range.end);
            (range.start < range.end).then_some(Brought { range, archive })
        });
        brought.collect()
    }
}

/// Reader of a map's lines. Lines that are not understood are of no use, and are passed over.
#[derive(Default)]
struct Reader {
    map: LinkerMap,
    numbers: HashMap<String, u32>,
    /// Whether the lines are in an output section.
    is_inside: bool,
    /// Name of a section whose numbers are on the next line, since it is long; whether it is an output section.
    waiting: Option<(String, bool)>,
}

impl Reader {
    fn output(&mut self, name: &str, address: u64, bytes: u64) {
        let members = self.map.members.len()..self.map.members.len();
        self.map.outputs.push(Output { name: name.to_owned(), address, bytes, members });
        self.is_inside = true;
    }

    /// Adds bytes of an input section, if its file is a member of an archive.
    fn input(&mut self, address: u64, bytes: u64, file: &str) {
        let Some(output) = self.map.outputs.last_mut().filter(|_| self.is_inside && bytes > 0) else { return };
        let Some(archive) = archive_of(file) else { return };
        let number = match self.numbers.get(archive) {
            Some(&number) => number,
            None => {
                let number = self.map.archives.len() as u32;
                self.numbers.insert(archive.to_owned(), number);
                self.map.archives.push(archive.to_owned());
                number
            }
        };
        self.map.members.push(Member { address, bytes, archive: number });
        output.members.end = self.map.members.len();
    }

    /// Line of GNU ld: ` .text.main  0x00000040  0x34 libx.a(main.o)`, without indentation for an output section.
    fn gnu(&mut self, line: &str) {
        let waiting = self.waiting.take();
        let is_output = !line.starts_with(char::is_whitespace);
        let (first, rest) = word(line);
        if first.is_empty() {
            return;
        }
        if let (Some(address), Some((name, is_output))) = (gnu_number(first), waiting) {
            let (bytes, file) = word(rest);
            if let Some(bytes) = gnu_number(bytes) {
                self.gnu_section(&name, is_output, address, bytes, file);
            }
            return;
        }
        let is_input = line.starts_with(' ') && !line.starts_with("  ") && !first.starts_with('*');
        self.is_inside &= !is_output;
        if !is_output && !is_input {
            return;
        }
        let (address, rest) = word(rest);
        let (bytes, file) = word(rest);
        match (gnu_number(address), gnu_number(bytes)) {
            (Some(address), Some(bytes)) => self.gnu_section(first, is_output, address, bytes, file),
            (None, _) if address.is_empty() => self.waiting = Some((first.to_owned(), is_output)),
            _ => {}
        }
    }

    fn gnu_section(&mut self, name: &str, is_output: bool, address: u64, bytes: u64, file: &str) {
        if is_output {
            self.output(name, address, bytes);
        } else {
            self.input(address, bytes, file);
        }
    }

    /// Line of LLD: address, load address, size, alignment, then with different indentations an output section, an
    /// input section `libx.a(main.o):(.text.main)`, or a symbol.
    fn lld(&mut self, line: &str) {
        let (address, rest) = word(line);
        let (_, rest) = word(rest);
        let (bytes, rest) = word(rest);
        let rest = rest.trim_start();
        let named = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let hex = |word: &str| u64::from_str_radix(word, 16).ok();
        let (Some(address), Some(bytes)) = (hex(address), hex(bytes)) else { return };
        let name = named.trim();
        match named.len() - named.trim_start().len() {
            1 if !name.contains([' ', '=']) => self.output(name, address, bytes),
            9 => {
                if let Some((file, _)) = name.rsplit_once(":(") {
                    self.input(address, bytes, file);
                }
            }
            _ => {}
        }
    }
}

/// First word of a line, and what follows it.
fn word(line: &str) -> (&str, &str) {
    let line = line.trim_start();
    line.split_at(line.find(char::is_whitespace).unwrap_or(line.len()))
}

fn gnu_number(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// Name of the archive of a member: `libc.a` of `/usr/lib/libc.a(libc_a-qsort.o)`. None: the file is not in an archive,
/// or in one of Rust's, whose crates are known by their sources.
fn archive_of(file: &str) -> Option<&str> {
    let inner = file.trim().strip_suffix(')')?;
    let end = inner.find(".a(").map(|at| at + 2).or_else(|| inner.rfind('('))?;
    let archive = file_name(&inner[..end]);
    (!archive.is_empty() && !archive.ends_with(".rlib")).then_some(archive)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GNU: &str = "Archive member included to satisfy reference by file (symbol)\n\nlibc.a(a.o) x.o (f)\n\nDiscarded input \
                       sections\n\n .text          0x00000000       0x10 libgone.a(gone.o)\n\nMemory Configuration\n\nLinker script and \
                       memory map\n\nLOAD x.o\n.text           0x00000100       0x80 load address 0x00000200\n *(.text .text.*)\n \
                       .text          0x00000100       0x20 x.o\n                0x00000100                main\n .text.of_a_long_name\n   \
                       \x20            0x00000120       0x30 /opt/my lib (1)/libc.a(libc_a-qsort.o)\n                                 \
                       0x34 (size before relaxing)\n *fill*         0x00000150        0x4 \n .text          0x00000154        0xc \
                       libm.a(s_sin.o)\n .text          0x00000160        0x8 libcore-12.rlib(core.o)\n LONG 0x00000168 0x4 0x1234\n\n\
                       .a_long_section_name\n                0x20000000       0x10\n COMMON         0x20000004        0x8 \
                       libc.a(b.o)\n\n.debug_info     0x00000000      0x100\n .debug_info    0x00000000      0x100 libc.a(a.o)\n";

    const LLD: &str = "     VMA      LMA     Size Align Out     In      Symbol\n     100      200       80     4 .text\n     100      \
                       200       20     4         x.o:(.text)\n     100      200        0     1                 main\n     120      220      \
                       \x2030     4         /opt/my lib (1)/libc.a(libc_a-qsort.o):(.text.of_a_long_name)\n     150      250        4     1  \
                       \x20      . = . + 4\n     154      254        c     4         libm.a(s_sin.o):(.text)\n     160      260        8     \
                       1         <internal>:(.rodata)\n20000000 20000000       10     4 .a_long_section_name\n20000004 20000004        8    \
                       \x204         libc.a(b.o):(.bss)\n20000010 20000010        0     1 end = .\n";

    fn section(name: &str, address: u64, bytes: u64) -> Section {
        let (name, load_address) = (name.to_owned(), Some(address));
        Section {
            name,
            address,
            bytes,
            load_address,
            is_writable: false,
            is_executable: true,
            is_thread_template: false,
        }
    }

    /// First address, end, archive.
    type Own = (u64, u64, String);

    fn brought(text: &str, sections: &[Section]) -> Result<Vec<Vec<Own>>, String> {
        let path = Path::new("fw.map");
        let map = LinkerMap::parse(path, text).map_err(|error| error.to_string())?;
        let found = map.brought(path, Path::new("fw.elf"), sections).map_err(|error| error.to_string())?;
        let plain = |one: Brought<'_>| (one.range.start, one.range.end, one.archive.to_owned());
        Ok(found.into_iter().map(|of_section| of_section.into_iter().map(plain).collect()).collect())
    }

    #[test]
    fn both_formats_say_which_bytes_an_archive_brings() {
        let sections = [
            section(".text", 0x100, 0x80),
            section(".a_long_section_name", 0x2000_0000, 0x10),
            section(".added", 0x3000_0000, 1),
        ];
        let own = |start: u64, end: u64, archive: &str| (start, end, archive.to_owned());
        let expected = [
            vec![own(0x120, 0x150, "libc.a"), own(0x154, 0x160, "libm.a")],
            vec![own(0x2000_0004, 0x2000_000c, "libc.a")],
            Vec::new(),
        ];
        for text in [GNU, LLD] {
            assert_eq!(brought(text, &sections).unwrap(), expected, "{text}");
            assert_eq!(brought(&text.replace('\n', "\r\n"), &sections).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_map_of_another_build_is_refused_with_the_section_that_differs() {
        for text in [GNU, LLD] {
            for (sections, why) in [
                (
                    [section(".text", 0x100, 0x84)],
                    "its section .text has 128 bytes at 0x00000100, the ELF file's 132 bytes at 0x00000100",
                ),
                ([section(".text", 0x104, 0x80)], "the ELF file's 128 bytes at 0x00000104"),
                ([section(".flash", 0x100, 0x80)], "none of the ELF file's sections is in it"),
            ] {
                let error = brought(text, &sections).unwrap_err();
                assert!(error.starts_with("fw.map: is not the map of fw.elf: "), "{error}");
                assert!(error.contains(why) && error.contains("-Wl,-Map=FILE"), "{error}");
            }
        }
        for text in
            ["", "\n", "SECTIONS { }", "Linker script and memory map", "Linker script and memory map\n\nLOAD x.o\n"]
        {
            let error = brought(text, &[]).unwrap_err();
            assert!(error.starts_with("fw.map: has no table of sections"), "{error}");
        }
    }

    #[test]
    fn what_a_map_claims_beyond_its_sections_or_twice_is_not_counted() {
        let (max, far) = ("0xffffffffffffffff", "0xfffffffffffffffff");
        let inputs = [
            format!(" .text 0x8 {max} liba.a(a.o)"),
            format!(" .text {max} {max} liba.a(b.o)"),
            format!(" .text 0x12 {far} liba.a(c.o)"),
            " .text 0x18 0x10 libb.a(d.o)".to_owned(),
            " .text 0x18 0x10 (".to_owned(),
            " .text 0x18 0x10 )".to_owned(),
            " .text 0x18 0x10 (e.o)".to_owned(),
            " .text 0x18".to_owned(),
            "\u{fffd}".to_owned(),
        ];
        let text = format!("{GNU_HEADING}\n.text 0x10 0x10\n{}", inputs.join("\n"));
        let found = brought(&text, &[section(".text", 0x10, 0x10)]).unwrap();
        assert_eq!(found, [[(0x10, 0x20, "liba.a".to_owned())]]);
        let text =
            format!("{GNU_HEADING}\n.text 0x10 0x10\n .text 0x10 0x8 liba.a(a.o)\n .text 0x14 0x8 libb.a(a.o)");
        let found = brought(&text, &[section(".text", 0x10, 0x10)]).unwrap();
        assert_eq!(found, [[(0x10, 0x18, "liba.a".to_owned()), (0x18, 0x1c, "libb.a".to_owned())]]);
        // Each cut of a map is read to its end.
        for text in [GNU, LLD] {
            for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
                drop(brought(&text[..end], &[section(".text", 0x100, 0x80)]));
                drop(brought(&text[end..], &[section(".text", 0x100, 0x80)]));
            }
        }
    }
}
