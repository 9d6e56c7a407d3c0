// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers of a chip from its vendor's description, a CMSIS-SVD file.
//!
//! An SVD comes from elsewhere, so everything in it has a bound: the file's size, its elements, the lengths of arrays
//! and of `derivedFrom` chains, the registers, and the steps of reading it. A document type is refused, so there are
//! no entities to expand. Only what a run needs is read, so flaws in the rest of an SVD are no obstacle.
//!
//! Format: <https://open-cmsis-pack.github.io/svd-spec/main/>.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::{fmt, fs};

use roxmltree::{Document, Node, ParsingOptions};

use super::file::LearnedRegister;
use super::names::made_plain;
use crate::error::InputError;
use crate::image::bounded_read;

/// Largest SVD file; the largest that a vendor publishes has some 20 MiB.
const MAX_FILE_BYTES: u64 = 48 << 20;

/// Deepest nesting of elements; an SVD needs some 20, with its clusters.
const MAX_DEPTH: usize = 64;

/// Most elements, texts and comments.
const MAX_NODES: u32 = 4 << 20;

/// Most attributes of an element; an SVD's have some five, and the parser compares each with each.
const MAX_ATTRIBUTES: usize = 64;

/// Most peripherals, registers of all peripherals, and interrupts. The resulting chip must still fit the limits of
/// `wire::chip`.
const MAX_PERIPHERALS: usize = 2048;
const MAX_REGISTERS: usize = wire::chip::MAX_REGISTERS / 2;
const MAX_INTERRUPTS: usize = 1024;

/// Longest array of peripherals, clusters, registers or fields.
const MAX_DIM: u64 = 4096;

/// Longest chain of `derivedFrom`, and deepest nesting of clusters.
const MAX_DERIVED: usize = 8;
const MAX_CLUSTERS: usize = 8;

/// Longest name that is kept.
const MAX_NAME: usize = 64;

/// Length from which on the name of a word gets no further register's name.
const MAX_WORD_NAME: usize = 512;

/// Most elements that are visited: many registers may be derived from a large one.
const MAX_STEPS: u64 = 50_000_000;

/// Most copies of registers and clusters, including copies at the same address as others.
const MAX_COPIES: usize = 4 * MAX_REGISTERS;

/// Addresses from here on belong to the processor.
const END: u64 = 0xe000_0000;

/// A word of a peripheral: a register, or several small ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Name with the peripheral's name, such as `RCC.CR`; the names of small registers that share the word are
    /// separated by `/`.
    pub name: String,
    /// Value at reset.
    pub reset: u32,
    /// Bits that writing does not change.
    pub read_only: u32,
    /// Bits that writing 1 clears.
    pub one_clears: u32,
    /// Bits that writing 0 clears.
    pub zero_clears: u32,
    /// Bits that reading clears.
    pub read_clears: u32,
    /// Fields and their bits.
    pub(super) fields: Vec<(String, u32)>,
    /// Bits of the word that its registers cover.
    covered: u32,
}

/// An SVD file, expanded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Svd {
    /// Name of the file.
    pub file: String,
    /// Words by address.
    pub words: BTreeMap<u64, Word>,
    /// Names and addresses of peripherals, as in the file.
    pub peripherals: Vec<(String, Range<u64>)>,
    /// Names of interrupts, by line.
    pub interrupts: BTreeMap<u32, String>,
    /// Bits of an interrupt's priority.
    pub priority_bits: Option<u32>,
}

impl From<&LearnedRegister> for Word {
    fn from(register: &LearnedRegister) -> Word {
        let LearnedRegister { name, reset, read_only, one_clears, zero_clears, read_clears, .. } = register.clone();
        Word { name, reset, read_only, one_clears, zero_clears, read_clears, ..Word::default() }
    }
}

impl Svd {
    /// Reads a file.
    ///
    /// # Errors
    /// When the file cannot be read, is not an SVD, or exceeds the bounds: file, line and reason.
    pub fn open(path: &Path) -> Result<Svd, InputError> {
        let size = fs::metadata(path).map_or(0, |metadata| metadata.len());
        if size > MAX_FILE_BYTES {
            let what = format!("is larger than any SVD file ({} MiB)", MAX_FILE_BYTES >> 20);
            return Err(InputError::about(path, what));
        }
        let bytes = bounded_read::read_named(path)?;
        let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes));
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        Svd::parse(&file, &text)
            .map_err(|Bad { line, reason }| InputError::new(format!("{}:{line}: {reason}", path.display())))
    }

    fn parse(file: &str, text: &str) -> Result<Svd, Bad> {
        check_attributes(text)?;
        let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
        let document = Document::parse_with_options(text, options).map_err(|error| Bad {
            line: error.pos().row,
            reason: match error {
                roxmltree::Error::DtdDetected => "a document type, which no SVD needs; remove it".to_owned(),
                roxmltree::Error::NodesLimitReached => format!("more than {MAX_NODES} elements and texts"),
                error => format!("not an SVD: {error}"),
            },
        })?;
        check_depth(&document)?;
        let reader = Reader { document: &document, steps: Cell::new(0), copies: 0, svd: Svd::default() };
        let mut svd = reader.device()?;
        file.clone_into(&mut svd.file);
        Ok(svd)
    }

    /// Name of a word's bits: the register's name, and the field's name if the bits belong to one field.
    pub fn name_of(&self, address: u64, mask: u32) -> Option<String> {
        let Word { name, fields, .. } = self.words.get(&(address & !3))?;
        let field = fields.iter().find(|(_, bits)| mask & !bits == 0);
        Some(field.map_or_else(|| name.clone(), |(field, _)| format!("{name}.{field}")))
    }
}

/// Refuses elements with more attributes than any SVD's, in a text that has not been parsed yet.
fn check_attributes(text: &str) -> Result<(), Bad> {
    let mut at = 0;
    while let Some(start) = text[at..].find('<').map(|found| at + found) {
        let rest = &text[start..];
        let other = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];
        if let Some((begin, end)) = other.into_iter().find(|(begin, _)| rest.starts_with(begin)) {
            let Some(length) = rest[begin.len()..].find(end) else { return Ok(()) };
            at = start + begin.len() + length + end.len();
            continue;
        }
        let (mut quote, mut attributes, mut length) = (None, 0, rest.len());
        for (index, byte) in rest.bytes().enumerate() {
            match (byte, quote) {
                (b'>', None) => {
                    length = index;
                    break;
                }
                (b'"' | b'\'', None) => quote = Some(byte),
                (_, Some(open)) if byte == open => quote = None,
                (b'=', None) => attributes += 1,
                _ => {}
            }
        }
        if attributes > MAX_ATTRIBUTES {
            let line = 1 + text[..start].bytes().filter(|&byte| byte == b'\n').count() as u32;
            return Err(Bad { line, reason: format!("an element has more than {MAX_ATTRIBUTES} attributes") });
        }
        at = start + length;
    }
    Ok(())
}

/// Refuses elements that are nested deeper than any SVD's.
fn check_depth(document: &Document<'_>) -> Result<(), Bad> {
    let mut node = document.root();
    let mut depth = 0;
    loop {
        if depth > MAX_DEPTH {
            let line = document.text_pos_at(node.range().start).row;
            return Err(Bad { line, reason: format!("elements are nested deeper than {MAX_DEPTH}") });
        }
        if let Some(child) = node.first_child() {
            (node, depth) = (child, depth + 1);
            continue;
        }
        while node.next_sibling().is_none() {
            let Some(parent) = node.parent() else { return Ok(()) };
            (node, depth) = (parent, depth - 1);
        }
        let Some(next) = node.next_sibling() else { return Ok(()) };
        node = next;
    }
}

/// A mistake in a file.
#[derive(Debug)]
struct Bad {
    line: u32,
    reason: String,
}

/// Properties that registers inherit from the elements around them.
#[derive(Clone, Copy)]
struct Inherited {
    bits: u64,
    reset: u64,
    reset_mask: u64,
    access: Access,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    ReadWrite,
    /// Writing stores nothing: a read does not return the written value.
    Fixed,
}

/// Effects of accesses on some bits.
#[derive(Clone, Copy, Default)]
struct Effects {
    is_fixed: bool,
    one_clears: bool,
    zero_clears: bool,
    read_clears: bool,
}

/// Copies of an element.
struct Array<'t> {
    name: &'t str,
    count: u64,
    increment: u64,
    indices: Vec<String>,
}

impl Array<'_> {
    /// Names and offsets of the copies.
    fn copies(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        (0..self.count).map(|number| {
            let index = self.indices.get(number as usize).cloned().unwrap_or_else(|| number.to_string());
            let name = self.name.replace("[%s]", &index).replace("%s", &index);
            let name = name.chars().filter(|letter| !letter.is_control() && !letter.is_whitespace());
            (made_plain(name.take(MAX_NAME)), number.wrapping_mul(self.increment))
        })
    }
}

struct Reader<'t, 'input> {
    document: &'t Document<'input>,
    steps: Cell<u64>,
    copies: usize,
    svd: Svd,
}

type Element<'t, 'input> = Node<'t, 'input>;

impl<'t, 'input> Reader<'t, 'input> {
    fn bad(&self, at: Element<'_, '_>, reason: impl fmt::Display) -> Bad {
        Bad { line: self.document.text_pos_at(at.range().start).row, reason: reason.to_string() }
    }

    /// Counts a step. Reading must end within reasonable time.
    fn step(&self, at: Element<'_, '_>) -> Result<(), Bad> {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > MAX_STEPS {
            return Err(self.bad(at, "its registers are derived from one another too often"));
        }
        Ok(())
    }

    /// Counts a copy of an element.
    fn copy(&mut self, of: Element<'_, '_>) -> Result<(), Bad> {
        self.copies += 1;
        if self.copies > MAX_COPIES {
            return Err(self.bad(of, format_args!("more than {MAX_COPIES} registers and clusters")));
        }
        Ok(())
    }

    fn device(mut self) -> Result<Svd, Bad> {
        let device = self.document.root_element();
        if !device.has_tag_name("device") {
            return Err(self.bad(device, "not an SVD: its first element is not <device>"));
        }
        let Some(peripherals) = self.own(device, "peripherals")? else {
            return Err(self.bad(device, "no <peripherals>"));
        };
        if let Some(cpu) = self.own(device, "cpu")? {
            let bits = self.own(cpu, "nvicPrioBits")?.map(|bits| self.number(bits)).transpose()?;
            self.svd.priority_bits =
                bits.and_then(|bits| u32::try_from(bits).ok()).filter(|bits| (2..=8).contains(bits));
        }
        let inherited = Inherited { bits: 32, reset: 0, reset_mask: u64::MAX, access: Access::ReadWrite };
        let inherited = self.inherit(&[device], inherited)?;
        for peripheral in peripherals.children().filter(|child| child.has_tag_name("peripheral")) {
            self.peripheral(peripheral, inherited)?;
        }
        if self.svd.words.is_empty() {
            return Err(self.bad(peripherals, "no peripheral has a register"));
        }
        Ok(self.svd)
    }

    /// An element's own child.
    fn own(&self, of: Element<'t, 'input>, tag: &str) -> Result<Option<Element<'t, 'input>>, Bad> {
        for child in of.children() {
            self.step(child)?;
            if child.has_tag_name(tag) {
                return Ok(Some(child));
            }
        }
        Ok(None)
    }

    /// A child of the first element of a chain of `derivedFrom` that has it.
    fn child(&self, chain: &[Element<'t, 'input>], tag: &str) -> Result<Option<Element<'t, 'input>>, Bad> {
        for &of in chain {
            if let Some(child) = self.own(of, tag)? {
                return Ok(Some(child));
            }
        }
        Ok(None)
    }

    fn text(&self, of: Element<'t, 'input>) -> &'t str {
        of.text().unwrap_or_default().trim()
    }

    fn name(&self, of: Element<'t, 'input>) -> Result<&'t str, Bad> {
        let name = self.own(of, "name")?.map(|name| self.text(name)).filter(|name| !name.is_empty());
        name.ok_or_else(|| self.bad(of, format_args!("<{}> without a <name>", of.tag_name().name())))
    }

    /// A number in SVD's syntax: decimal, `0x…`, or binary as `#…` and `0b…`, where x is 0.
    fn number(&self, of: Element<'t, 'input>) -> Result<u64, Bad> {
        let text = self.text(of);
        let plain = text.strip_prefix('+').unwrap_or(text);
        let hex = plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X"));
        let binary = plain.strip_prefix('#').or_else(|| plain.strip_prefix("0b"));
        let number = match (hex, binary) {
            (Some(hex), _) => u64::from_str_radix(hex, 16),
            (_, Some(binary)) => u64::from_str_radix(&binary.replace(['x', 'X'], "0"), 2),
            _ => plain.parse(),
        };
        number.map_err(|_| {
            let text: String = text.chars().take(MAX_NAME).collect();
            self.bad(of, format_args!("<{}> is not a number: {text:?}", of.tag_name().name()))
        })
    }

    fn number_of(&self, chain: &[Element<'t, 'input>], tag: &str) -> Result<Option<u64>, Bad> {
        self.child(chain, tag)?.map(|child| self.number(child)).transpose()
    }

    /// A number that an element must have.
    fn needed(&self, chain: &[Element<'t, 'input>], tag: &str) -> Result<u64, Bad> {
        let number = self.number_of(chain, tag)?;
        number.ok_or_else(|| self.bad(chain[0], format_args!("<{}> without a <{tag}>", chain[0].tag_name().name())))
    }

    /// The element, followed by the elements from which it is derived.
    fn chain(&self, of: Element<'t, 'input>) -> Result<Vec<Element<'t, 'input>>, Bad> {
        let mut chain = vec![of];
        let mut last = of;
        while let Some(path) = last.attribute("derivedFrom") {
            let fail = |reason: &str| {
                let path: String = path.chars().take(MAX_NAME).collect();
                Err(self.bad(last, format_args!("derivedFrom {path:?}: {reason}")))
            };
            if chain.len() > MAX_DERIVED {
                return fail("elements are derived from one another in a circle, or too often");
            }
            let Some(next) = self.find(last, path)? else { return fail("there is no such element") };
            chain.push(next);
            last = next;
        }
        Ok(chain)
    }

    /// Finds an element by its path: from a peripheral on, or among the elements beside or around another one.
    fn find(&self, beside: Element<'t, 'input>, path: &str) -> Result<Option<Element<'t, 'input>>, Bad> {
        let mut around = beside.parent();
        while let Some(scope) = around {
            self.step(scope)?;
            let mut found = Some(scope);
            for part in path.split('.') {
                let Some(within) = found else { break };
                found = self.named(within, part)?;
            }
            if let Some(found) = found.filter(|found| *found != beside && found.tag_name() == beside.tag_name()) {
                return Ok(Some(found));
            }
            around = scope.parent();
        }
        Ok(None)
    }

    /// The child of this name within a list, or within an element that contains a list.
    fn named(&self, within: Element<'t, 'input>, name: &str) -> Result<Option<Element<'t, 'input>>, Bad> {
        let is_list =
            |child: &Node<'_, '_>| matches!(child.tag_name().name(), "peripherals" | "registers" | "fields");
        let in_lists = within.children().filter(is_list).flat_map(|list| list.children());
        for child in within.children().chain(in_lists) {
            self.step(child)?;
            if !matches!(child.tag_name().name(), "peripheral" | "cluster" | "register" | "field") {
                continue;
            }
            let own = self.name(child)?;
            if own == name || own.contains("%s") && own.replace("[%s]", "").replace("%s", "") == name {
                return Ok(Some(child));
            }
        }
        Ok(None)
    }

    fn inherit(&self, chain: &[Element<'t, 'input>], from: Inherited) -> Result<Inherited, Bad> {
        let number = |tag| self.number_of(chain, tag);
        let access = self.child(chain, "access")?.map(|access| self.access(access)).transpose()?;
        let bits = number("size")?.unwrap_or(from.bits);
        if !matches!(bits, 1..=64) {
            return Err(self.bad(chain[0], format_args!("a register of {bits} bits")));
        }
        Ok(Inherited {
            bits,
            reset: number("resetValue")?.unwrap_or(from.reset),
            reset_mask: number("resetMask")?.unwrap_or(from.reset_mask),
            access: access.unwrap_or(from.access),
        })
    }

    fn access(&self, access: Element<'t, 'input>) -> Result<Access, Bad> {
        match self.text(access) {
            "read-only" | "read" | "write-only" | "write" | "writeOnce" => Ok(Access::Fixed),
            "read-write" | "read-writeOnce" => Ok(Access::ReadWrite),
            other => {
                let other: String = other.chars().take(MAX_NAME).collect();
                Err(self.bad(access, format_args!("<access> is unknown: {other:?}")))
            }
        }
    }

    /// The copies of an element: one, unless it has `<dim>`.
    fn array(&self, chain: &[Element<'t, 'input>]) -> Result<Array<'t>, Bad> {
        let name = self.name(chain[0])?;
        // A single element may be derived from an array.
        let Some(dim) = self.child(chain, "dim")?.filter(|_| name.contains("%s")) else {
            return Ok(Array { name, count: 1, increment: 0, indices: Vec::new() });
        };
        let count = self.number(dim)?;
        if !(1..=MAX_DIM).contains(&count) {
            return Err(self.bad(dim, format_args!("<dim> must be 1 to {MAX_DIM}, and is {count}")));
        }
        let increment = self.needed(chain, "dimIncrement")?;
        let indices = match self.child(chain, "dimIndex")? {
            Some(index) => self.indices(index, count)?,
            None => Vec::new(),
        };
        Ok(Array { name, count, increment, indices })
    }

    /// Indices of an array: `A,B,C`, `3-6`, or `A-D`.
    fn indices(&self, of: Element<'t, 'input>, count: u64) -> Result<Vec<String>, Bad> {
        let text = self.text(of);
        let count = count as usize;
        let range = text.split_once('-').filter(|_| !text.contains(','));
        let indices: Vec<String> = match range {
            None => text.split(',').take(count).map(|index| index.trim().to_owned()).collect(),
            Some((first, _)) => match (first.trim().parse::<u64>(), first.trim().as_bytes()) {
                (Ok(first), _) => (0..count as u64).map(|number| first.saturating_add(number).to_string()).collect(),
                (_, &[letter]) => (letter..=b'z').take(count).map(|letter| char::from(letter).to_string()).collect(),
                _ => Vec::new(),
            },
        };
        if indices.len() < count {
            return Err(self.bad(of, format_args!("<dimIndex> has {} of {count} indices", indices.len())));
        }
        Ok(indices)
    }

    fn peripheral(&mut self, peripheral: Element<'t, 'input>, inherited: Inherited) -> Result<(), Bad> {
        let chain = self.chain(peripheral)?;
        let inherited = self.inherit(&chain, inherited)?;
        let base = self.needed(&chain, "baseAddress")?;
        // An interrupt of the peripheral from which this one is derived belongs to that peripheral only.
        for interrupt in peripheral.children().filter(|child| child.has_tag_name("interrupt")) {
            self.step(interrupt)?;
            let line = self.needed(&[interrupt], "value")?;
            if self.svd.interrupts.len() >= MAX_INTERRUPTS {
                return Err(self.bad(interrupt, format_args!("more than {MAX_INTERRUPTS} interrupts")));
            }
            let name = made_plain(self.name(interrupt)?.chars().take(MAX_NAME));
            self.svd.interrupts.entry(u32::try_from(line).unwrap_or(u32::MAX)).or_insert(name);
        }
        let blocks = self.child(&chain, "addressBlock")?.and_then(|block| block.parent());
        for (name, offset) in self.array(&chain)?.copies() {
            self.copy(peripheral)?;
            let base = base.wrapping_add(offset);
            if base >= END {
                continue;
            }
            let blocks = blocks.iter().flat_map(|of| of.children());
            for block in blocks.filter(|child| child.has_tag_name("addressBlock")) {
                let start = base.saturating_add(self.needed(&[block], "offset")?) & !3;
                let bytes = self.needed(&[block], "size")?.min(wire::chip::MAX_BLOCK_BYTES).next_multiple_of(4);
                let range = start..start.saturating_add(bytes).min(END);
                if self.svd.peripherals.len() >= MAX_PERIPHERALS {
                    return Err(self.bad(block, format_args!("more than {MAX_PERIPHERALS} peripherals")));
                }
                if !range.is_empty() {
                    self.svd.peripherals.push((name.clone(), range));
                }
            }
            for &of in &chain {
                if let Some(registers) = self.own(of, "registers")? {
                    self.registers(registers, base, &format!("{name}."), inherited, 0)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the registers and clusters within an element.
    fn registers(
        &mut self,
        within: Element<'t, 'input>,
        base: u64,
        prefix: &str,
        inherited: Inherited,
        depth: usize,
    ) -> Result<(), Bad> {
        for child in within.children().filter(Node::is_element) {
            self.step(child)?;
            if child.has_tag_name("register") {
                self.register(child, base, prefix, inherited)?;
            } else if child.has_tag_name("cluster") {
                if depth >= MAX_CLUSTERS {
                    return Err(self.bad(child, format_args!("clusters are nested deeper than {MAX_CLUSTERS}")));
                }
                let chain = self.chain(child)?;
                let inherited = self.inherit(&chain, inherited)?;
                let base = base.wrapping_add(self.needed(&chain, "addressOffset")?);
                for (name, offset) in self.array(&chain)?.copies() {
                    self.copy(child)?;
                    let prefix = format!("{prefix}{name}.");
                    for &of in &chain {
                        self.registers(of, base.wrapping_add(offset), &prefix, inherited, depth + 1)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn register(
        &mut self,
        register: Element<'t, 'input>,
        base: u64,
        prefix: &str,
        inherited: Inherited,
    ) -> Result<(), Bad> {
        let chain = self.chain(register)?;
        let Inherited { bits, reset, reset_mask, access } = self.inherit(&chain, inherited)?;
        let base = base.wrapping_add(self.needed(&chain, "addressOffset")?);
        let all = u64::MAX >> (64 - bits);
        let of_register =
            self.effects(&chain, Effects { is_fixed: access == Access::Fixed, ..Effects::default() })?;
        let fields = self.fields(&chain, of_register)?;
        let mut whole = Wide { reset: reset & reset_mask & all, ..Wide::default() };
        let of_fields = fields.iter().fold(0, |bits, (_, mask, _)| bits | mask);
        whole.add(all & !of_fields, of_register);
        for (_, mask, effects) in &fields {
            whole.add(mask & all, *effects);
        }
        for (name, offset) in self.array(&chain)?.copies() {
            self.copy(register)?;
            let address = base.wrapping_add(offset);
            if address.saturating_add(bits.div_ceil(8)) > END {
                continue;
            }
            let name = format!("{prefix}{name}");
            self.add(address, bits, &name, &whole, &fields);
            if self.svd.words.len() > MAX_REGISTERS {
                return Err(self.bad(register, format_args!("more than {MAX_REGISTERS} registers")));
            }
        }
        Ok(())
    }

    fn effects(&self, chain: &[Element<'t, 'input>], base: Effects) -> Result<Effects, Bad> {
        let access = self.child(chain, "access")?.map(|access| self.access(access)).transpose()?;
        let written = self.child(chain, "modifiedWriteValues")?.map(|written| self.text(written));
        let read = self.child(chain, "readAction")?.map(|read| self.text(read));
        let clears = matches!(written, Some("oneToClear" | "zeroToClear"));
        Ok(Effects {
            // A flag that is read and cleared is not fixed, whatever its access.
            is_fixed: !clears && access.map_or(base.is_fixed, |access| access == Access::Fixed),
            one_clears: written.map_or(base.one_clears, |written| written == "oneToClear"),
            zero_clears: written.map_or(base.zero_clears, |written| written == "zeroToClear"),
            read_clears: read.map_or(base.read_clears, |read| read == "clear"),
        })
    }

    /// Names, bits and effects of a register's fields.
    fn fields(
        &self,
        chain: &[Element<'t, 'input>],
        of_register: Effects,
    ) -> Result<Vec<(String, u64, Effects)>, Bad> {
        let Some(list) = self.child(chain, "fields")? else { return Ok(Vec::new()) };
        let mut fields = Vec::new();
        for field in list.children().filter(|child| child.has_tag_name("field")) {
            self.step(field)?;
            let chain = self.chain(field)?;
            let effects = self.effects(&chain, of_register)?;
            let (first, width) = self.place(&chain)?;
            for (name, offset) in self.array(&chain)?.copies() {
                let Some(first) = first.checked_add(offset).filter(|&first| first < 64 && first + width <= 64) else {
                    return Err(self.bad(field, format_args!("field {name} has no bits of 63 to 0")));
                };
                fields.push((name, u64::MAX >> (64 - width) << first, effects));
                if fields.len() > 64 {
                    return Err(self.bad(field, "more than 64 fields of one register"));
                }
            }
        }
        Ok(fields)
    }

    /// First bit of a field, and its number of bits.
    fn place(&self, chain: &[Element<'t, 'input>]) -> Result<(u64, u64), Bad> {
        let (first, last) = if let Some(range) = self.child(chain, "bitRange")? {
            let text = self.text(range).trim_matches(['[', ']']);
            let (last, first) = text.split_once(':').unwrap_or((text, text));
            let number = |text: &str| {
                let number = text.trim().parse::<u64>();
                number.map_err(|_| self.bad(range, "<bitRange> is not as [7:4]"))
            };
            (number(first)?, number(last)?)
        } else if let Some(first) = self.number_of(chain, "lsb")? {
            (first, self.needed(chain, "msb")?)
        } else {
            let first = self.needed(chain, "bitOffset")?;
            let width = self.number_of(chain, "bitWidth")?.unwrap_or(1);
            (first, first.saturating_add(width).saturating_sub(1))
        };
        if first > last || last > 63 {
            return Err(self.bad(chain[0], format_args!("a field of the bits {last} to {first}")));
        }
        Ok((first, last - first + 1))
    }

    /// Adds a register to the words that contain it. Of several registers at one place, the first is kept.
    fn add(&mut self, address: u64, bits: u64, name: &str, whole: &Wide, fields: &[(String, u64, Effects)]) {
        let within = address % 4 * 8;
        let end = within + bits;
        for word in 0..end.div_ceil(32) {
            let place = |wide: u64| (u128::from(wide) << within >> (32 * word)) as u32;
            let own = place(u64::MAX >> (64 - bits));
            let to = self.svd.words.entry((address & !3) + 4 * word).or_default();
            if to.covered & own != 0 {
                continue;
            }
            let name = if word == 0 { name.to_owned() } else { format!("{name}+{}", 4 * word) };
            if to.covered == 0 {
                to.name = name;
            } else if to.name.len() < MAX_WORD_NAME {
                to.name = format!("{}/{name}", to.name);
            }
            to.covered |= own;
            to.reset |= place(whole.reset);
            to.read_only |= place(whole.read_only);
            to.one_clears |= place(whole.one_clears);
            to.zero_clears |= place(whole.zero_clears);
            to.read_clears |= place(whole.read_clears);
            let fields = fields.iter().map(|(field, mask, _)| (field.clone(), place(*mask)));
            to.fields.extend(fields.filter(|(_, mask)| *mask != 0));
        }
    }
}

/// A register of up to 64 bits.
#[derive(Default)]
struct Wide {
    reset: u64,
    read_only: u64,
    one_clears: u64,
    zero_clears: u64,
    read_clears: u64,
}

impl Wide {
    fn add(&mut self, bits: u64, effects: Effects) {
        for (to, has) in [
            (&mut self.read_only, effects.is_fixed),
            (&mut self.one_clears, effects.one_clears),
            (&mut self.zero_clears, effects.zero_clears),
            (&mut self.read_clears, effects.read_clears),
        ] {
            *to |= if has { bits } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r##"<?xml version="1.0" encoding="utf-8"?>
<device schemaVersion="1.3">
  <name>small</name>
  <cpu><name>CM3</name><nvicPrioBits>3</nvicPrioBits></cpu>
  <size>32</size><resetValue>0</resetValue>
  <peripherals>
    <peripheral>
      <name>RCC</name><baseAddress>0x40021000</baseAddress>
      <addressBlock><offset>0</offset><size>0x400</size></addressBlock>
      <interrupt><name>RCC</name><value>5</value></interrupt>
      <registers>
        <register><name>CR</name><addressOffset>0</addressOffset><resetValue>0x83</resetValue>
          <fields>
            <field><name>HSIRDY</name><bitRange>[1:1]</bitRange><access>read-only</access></field>
            <field><name>TRIM</name><lsb>3</lsb><msb>7</msb></field>
          </fields>
        </register>
        <register><name>CSR</name><addressOffset>0x24</addressOffset><access>read-only</access>
          <resetValue>#11x1</resetValue><resetMask>0xfe</resetMask></register>
        <register><name>FLAG</name><addressOffset>8</addressOffset>
          <fields>
            <field><name>A</name><bitOffset>0</bitOffset><modifiedWriteValues>oneToClear</modifiedWriteValues></field>
            <field><name>B%s</name><dim>2</dim><dimIncrement>2</dimIncrement><bitOffset>4</bitOffset><bitWidth>2</bitWidth>
              <modifiedWriteValues>zeroToClear</modifiedWriteValues></field>
            <field><name>C</name><bitOffset>9</bitOffset><readAction>clear</readAction></field>
          </fields>
        </register>
        <register><name>LOW</name><addressOffset>0x10</addressOffset><size>16</size><resetValue>0x1234</resetValue></register>
        <register><name>HIGH</name><addressOffset>0x12</addressOffset><size>16</size><resetValue>0x5678</resetValue></register>
        <register><name>HALF</name><addressOffset>0x12</addressOffset><size>16</size><resetValue>9</resetValue></register>
        <register><name>WIDE</name><addressOffset>0x18</addressOffset><size>64</size><resetValue>0x100000002</resetValue></register>
        <cluster><name>CH[%s]</name><dim>2</dim><dimIncrement>0x20</dimIncrement><addressOffset>0x40</addressOffset>
          <register derivedFrom="RCC.CR"><name>CFG%s</name><dim>2</dim><dimIncrement>4</dimIncrement>
            <dimIndex>A,B</dimIndex><addressOffset>0</addressOffset></register>
        </cluster>
      </registers>
    </peripheral>
    <peripheral derivedFrom="RCC"><name>RCC2</name><baseAddress>0x40022000</baseAddress></peripheral>
    <peripheral><name>SCB</name><baseAddress>0xE000ED00</baseAddress></peripheral>
  </peripherals>
</device>
"##;

    fn parsed(text: &str) -> Svd {
        Svd::parse("small.svd", text).unwrap_or_else(|Bad { line, reason }| panic!("{line}: {reason}"))
    }

    fn refused(text: &str) -> String {
        let Bad { line, reason } = Svd::parse("small.svd", text).expect_err("it is refused");
        format!("{line}: {reason}")
    }

    #[test]
    fn registers_have_their_names_resets_and_effects() {
        let svd = parsed(SMALL);
        assert_eq!((svd.priority_bits, svd.interrupts.get(&5).map(String::as_str)), (Some(3), Some("RCC")));
        let word = |at: u64| svd.words[&(0x4002_1000 + at)].clone();
        let facts = |at: u64| (word(at).name, word(at).reset, word(at).read_only);
        assert_eq!(facts(0), ("RCC.CR".to_owned(), 0x83, 2));
        assert_eq!(facts(0x24), ("RCC.CSR".to_owned(), 0xc, u32::MAX));
        let flag = word(8);
        assert_eq!((flag.one_clears, flag.zero_clears, flag.read_clears, flag.read_only), (1, 0xf0, 0x200, 0));
        assert_eq!(facts(0x10), ("RCC.LOW/RCC.HIGH".to_owned(), 0x5678_1234, 0));
        assert_eq!(facts(0x18), ("RCC.WIDE".to_owned(), 2, 0));
        assert_eq!(facts(0x1c), ("RCC.WIDE+4".to_owned(), 1, 0));
        let names = ["RCC.CR.HSIRDY", "RCC.CR.TRIM", "RCC.CR"];
        assert_eq!([2, 8, 3].map(|bits| svd.name_of(0x4002_1000, bits)), names.map(|name| Some(name.to_owned())));
    }

    #[test]
    fn arrays_and_what_is_derived_are_written_out() {
        let svd = parsed(SMALL);
        for (at, name) in [(0x40, "RCC.CH0.CFGA"), (0x44, "RCC.CH0.CFGB"), (0x64, "RCC.CH1.CFGB")] {
            let word = &svd.words[&(0x4002_1000 + at)];
            assert_eq!((&*word.name, word.reset, word.read_only), (name, 0x83, 2), "derived from RCC.CR");
        }
        assert_eq!(svd.words[&0x4002_2064].name, "RCC2.CH1.CFGB");
        assert_eq!(svd.peripherals[1], ("RCC2".to_owned(), 0x4002_2000..0x4002_2400));
        assert!(svd.words.keys().all(|at| *at < END), "the processor's own are left out");
    }

    #[test]
    fn a_mistake_is_said_with_its_line() {
        for (from, to, wanted) in [
            ("<bitRange>[1:1]", "<bitRange>[x]", "14: <bitRange> is not as [7:4]"),
            ("<bitRange>[1:1]", "<bitRange>[1:3]", "14: a field of the bits 1 to 3"),
            ("<bitRange>[1:1]", "<bitRange>[64:60]", "14: a field of the bits 64 to 60"),
            ("0x40021000", "0x4002100g", "8: <baseAddress> is not a number: \"0x4002100g\""),
            ("<access>read-only</access></f", "<access>maybe</access></f", "14: <access> is unknown: \"maybe\""),
            ("derivedFrom=\"RCC\"", "derivedFrom=\"RTC\"", "38: derivedFrom \"RTC\": there is no such element"),
            ("<name>CSR</name>", "", "18: <register> without a <name>"),
            (
                "<name>CSR</name><addressOffset>0x24</addressOffset>",
                "<name>CSR</name>",
                "18: <register> without a <addressOffset>",
            ),
            ("<size>16</size>", "<size>65</size>", "28: a register of 65 bits"),
            ("A,B", "A", "34: <dimIndex> has 1 of 2 indices"),
            ("</peripherals>", "", "41: not an SVD: "),
        ] {
            assert!(SMALL.contains(from), "{from}");
            let error = refused(&SMALL.replacen(from, to, 1));
            assert!(error.starts_with(wanted), "{to}: {error}, not {wanted}");
        }
        assert!(refused("<svd/>").starts_with("1: not an SVD: its first element"));
        assert!(refused("").starts_with("1: not an SVD: "));
    }

    #[test]
    fn a_hostile_file_ends_in_a_reason_and_not_in_memory_or_time() {
        let device = |peripherals: &str| format!("<device><peripherals>{peripherals}</peripherals></device>");
        let with = |registers: &str| {
            let head = "<peripheral><name>P</name><baseAddress>0</baseAddress><registers>";
            device(&format!("{head}{registers}</registers></peripheral>"))
        };
        let array = |tag: &str, dim: &str, inside: &str| {
            format!(
                "<{tag}><name>R%s</name><dim>{dim}</dim><dimIncrement>4</dimIncrement>\
                 <addressOffset>0</addressOffset>{inside}</{tag}>"
            )
        };
        let derived =
            |name: &str, from: &str| format!("<peripheral derivedFrom=\"{from}\"><name>{name}</name></peripheral>");
        let entities = "<!DOCTYPE d [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><device><name>&b;</name></device>";
        let clusters =
            "<cluster><name>C</name><addressOffset>0</addressOffset>".repeat(20) + &"</cluster>".repeat(20);
        let nested = (0..4).fold(array("register", "4096", ""), |inside, _| array("cluster", "4096", &inside));
        let many = array(
            "cluster",
            "4096",
            &array("register", "4096", "").replace("<dimIncrement>4<", "<dimIncrement>0x4000<"),
        );
        let index = "<dimIndex>0-4294967295</dimIndex>";
        for (text, wanted) in [
            (entities.to_owned(), "a document type"),
            (with(&array("register", "4294967295", "")), "<dim> must be 1 to 4096"),
            (with(&array("register", "4294967295", index)), "<dim> must be 1 to 4096"),
            (with(&clusters), "clusters are nested deeper than 8"),
            (with(&many), "more than 32768 registers"),
            (with(&nested), "more than 131072 registers and clusters"),
            (device(&(derived("A", "B") + &derived("B", "A"))), "in a circle"),
            (device(&derived("A", "A")), "there is no such element"),
            ("<a>".repeat(1_000_000), "not an SVD"),
            (
                format!("<device {}/>", (0..50_000).map(|n| format!("a{n}='='")).collect::<String>()),
                "1: an element has",
            ),
            (format!("<!-- {} --><device/>", "=".repeat(100)), "no <peripherals>"),
        ] {
            let error = refused(&text);
            assert!(error.contains(wanted), "{error}, not {wanted}");
        }
        let deep = |count: usize| device(&("<a>".repeat(count) + &"</a>".repeat(count)));
        assert!(refused(&deep(60)).contains("no peripheral has a register"));
        assert_eq!(refused(&deep(1_000_000)), "1: elements are nested deeper than 64");
    }
}
