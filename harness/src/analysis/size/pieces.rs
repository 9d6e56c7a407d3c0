// SPDX-License-Identifier: MIT OR Apache-2.0
//! Division of a section into pieces without overlap: each byte belongs to one symbol, or to a piece that says why not.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::image::Image;
use crate::image::layout::{Section, Symbol};
use crate::image::linker_map::Brought;

/// Kind of a piece of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PieceKind {
    /// Bytes of a symbol with a size.
    Symbol,
    /// Bytes from a label without a size to the next symbol.
    Label,
    /// Bytes that only align what follows.
    Padding,
    /// Bytes without a symbol, as literals that the linker has merged.
    Unattributed,
    /// Loaded bytes outside of all sections.
    Outside,
}

/// Name of the pieces outside of all sections.
pub(super) const BETWEEN: &str = "[between sections]";

impl PieceKind {
    /// Name of a piece that has none of its own.
    pub fn word(self) -> &'static str {
        match self {
            PieceKind::Symbol => "[symbol]",
            PieceKind::Label => "[label]",
            PieceKind::Padding => "[padding]",
            PieceKind::Unattributed => "[no symbol]",
            PieceKind::Outside => BETWEEN,
        }
    }

    /// Kind of the number of bytes: the extent of a label without a size is an estimate.
    pub fn certainty(self) -> &'static str {
        if self == PieceKind::Label { "estimated" } else { "exact" }
    }
}

/// Piece of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) kind: PieceKind,
    /// Index of the symbol or label.
    pub(super) symbol: Option<usize>,
}

/// Largest alignment whose padding is recognised.
const MAX_ALIGNMENT: u64 = 4096;

/// Order of the symbols at an address; the last one has the byte.
type Rank<'a> = (u64, Reverse<u64>, bool, bool, Reverse<&'a String>, usize);

/// Divides a section. `symbols` are those of the section: indices and symbols, by address.
pub(super) fn divide(section: &Section, symbols: &[(usize, &Symbol)], image: &Image) -> Vec<Range> {
    let end = section.address.saturating_add(section.bytes);
    let extent = |symbol: &Symbol| {
        let (start, stop) =
            (symbol.address.max(section.address), symbol.address.saturating_add(symbol.bytes).min(end));
        (start < stop).then_some((start, stop))
    };
    let mut bounds: Vec<(u64, bool, usize)> = Vec::new();
    for (place, (_, symbol)) in symbols.iter().enumerate() {
        if let Some((start, stop)) = extent(symbol) {
            bounds.extend([(start, true, place), (stop, false, place)]);
        }
    }
    bounds.sort_unstable();
    // The symbol that starts last has the bytes; of those that start together the shortest, then the one that is best
    // known.
    let rank = |place: usize| -> Rank<'_> {
        let symbol = symbols[place].1;
        (symbol.address, Reverse(symbol.bytes), symbol.is_typed, symbol.is_global, Reverse(&symbol.name), place)
    };
    let mut ranges: Vec<Range> = Vec::new();
    let mut active: BTreeSet<Rank<'_>> = BTreeSet::new();
    let labels: Vec<(u64, usize)> = symbols
        .iter()
        .filter(|(_, symbol)| symbol.bytes == 0)
        .map(|(index, symbol)| (symbol.address, *index))
        .collect();
    let mut at = section.address;
    for (bound, begins, place) in bounds.into_iter().chain([(end, false, usize::MAX)]) {
        if at < bound {
            match active.last() {
                Some(&(.., owner)) => {
                    let (kind, symbol) = (PieceKind::Symbol, Some(symbols[owner].0));
                    push(&mut ranges, Range { start: at, bytes: bound - at, kind, symbol });
                }
                None => gap(at..bound, &labels, image, section, &mut ranges),
            }
            at = bound;
        }
        if place == usize::MAX {
            break;
        }
        if begins {
            active.insert(rank(place));
        } else {
            active.remove(&rank(place));
        }
    }
    ranges
}

/// Divides pieces where what an archive brings begins or ends, and names the archive of each. `brought` is of the same
/// section.
pub(super) fn by_archive<'m>(ranges: Vec<Range>, brought: &[Brought<'m>]) -> Vec<(Range, Option<&'m str>)> {
    let mut divided = Vec::with_capacity(ranges.len());
    let mut brought = brought.iter().peekable();
    for range in ranges {
        let end = range.start.saturating_add(range.bytes);
        let mut at = range.start;
        while at < end {
            while brought.next_if(|one| one.range.end <= at).is_some() {}
            let (stop, archive) = match brought.peek() {
                Some(one) if one.range.start <= at => (one.range.end.min(end), Some(one.archive)),
                Some(one) => (one.range.start.min(end), None),
                None => (end, None),
            };
            divided.push((Range { start: at, bytes: stop - at, ..range.clone() }, archive));
            at = stop;
        }
    }
    divided
}

/// Appends a piece, joined with the one before it if both are of one symbol.
fn push(ranges: &mut Vec<Range>, range: Range) {
    match ranges.last_mut() {
        Some(last) if last.kind == range.kind && last.symbol == range.symbol && range.symbol.is_some() => {
            last.bytes += range.bytes;
        }
        _ => ranges.push(range),
    }
}

/// Divides bytes that no symbol with a size has.
fn gap(
    range: std::ops::Range<u64>,
    labels: &[(u64, usize)],
    image: &Image,
    section: &Section,
    ranges: &mut Vec<Range>,
) {
    let bytes = range.end - range.start;
    let alignment = 1_u64 << range.end.trailing_zeros().min(MAX_ALIGNMENT.trailing_zeros());
    let from = labels.partition_point(|(address, _)| *address < range.start);
    let inside = &labels[from..labels.partition_point(|(address, _)| *address < range.end)];
    let is_filled = section.load_address.is_some();
    if bytes < alignment && (if is_filled { is_filler(image, range.clone()) } else { inside.is_empty() }) {
        ranges.push(Range { start: range.start, bytes, kind: PieceKind::Padding, symbol: None });
        return;
    }
    let mut at = range.start;
    let mut owner: Option<usize> = None;
    let ends = inside.iter().map(|&(address, label)| (address, Some(label))).chain([(range.end, None)]);
    for (address, label) in ends {
        if at < address {
            let kind = if owner.is_some() { PieceKind::Label } else { PieceKind::Unattributed };
            ranges.push(Range { start: at, bytes: address - at, kind, symbol: owner });
            at = address;
            owner = label;
        } else if owner.is_none() {
            owner = label;
        }
    }
}

/// Whether bytes only fill: zeros, ones, or instructions without effect.
fn is_filler(image: &Image, range: std::ops::Range<u64>) -> bool {
    let pieces = image.bytes_in(range);
    let bytes: Vec<u8> = pieces.into_iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
    let nops: [&[u8]; 6] = [&[0], &[0xff], &[0x00, 0xbf], &[0xc0, 0x46], &[0x01, 0x00], &[0x13, 0, 0, 0]];
    let repeats = |nop: &[u8]| bytes.iter().rev().zip(nop.iter().rev().cycle()).all(|(one, other)| one == other);
    // Arm's `nop.w` and RISC-V's two nops of different length come in mixtures.
    let is_mixed = bytes.chunks(2).all(|half| {
        matches!(half, [0x00, 0xbf] | [0xaf, 0xf3] | [0x00, 0x80] | [0x01, 0x00] | [0x13, 0x00] | [0, 0] | [0])
    });
    nops.into_iter().any(repeats) || is_mixed
}
