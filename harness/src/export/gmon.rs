// SPDX-License-Identifier: MIT OR Apache-2.0
//! `gmon.out` for GNU gprof, as if the firmware had been built with `-pg` and sampled at every instruction. Also the
//! list of symbols with which gprof sees every function.
//!
//! Numbers are exact: a histogram's count is executed instructions, and `clock_hz` of these are a second. The file's
//! counts have 16 bits. gprof adds up histograms of the same addresses, so a histogram with larger counts is written
//! several times. The file has one histogram per stretch of executed code, not one of all memory. gprof divides a bin
//! that lies in two functions between them, in proportion. So numbers by function are exact with bins of 2 bytes (the
//! default).
//!
//! An arc counts entries of a function at its first instruction. Its caller is the call that the function returns to,
//! as `_mcount` records it, so a tail call belongs to its caller. The call in which a window ends counts, although its
//! callee has not begun. gprof shows recursion separately (`600+1070100`), and omits it from its flat profile. It
//! forgets arcs whose caller has no symbol: interrupts, the first function after reset. It also drops symbols with `$`
//! (Rust) and most with a `.suffix` (`.part.0`, `.isra.0`). Their instructions go to the function before, as for all
//! code without a symbol. The list of symbols, `gprof -S`, has no such gaps: it has every function, `[exception]`,
//! `[reset]` and `[unknown]` as callers, and names for unnamed code.
//!
//! The format: <https://sourceware.org/binutils/docs/gprof/File-Format.html>. Integers are little-endian like the
//! image, and addresses have the width of its ELF class.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use decode::Isa;

use crate::analysis::functions::{self, EXCEPTION, Entries, RESET, UNKNOWN};
use crate::analysis::owner::Owner;
use crate::analysis::time;
use crate::error::InputError;
use crate::export::settings::Settings;
use crate::profile::Profile;
use crate::text::number::Hex;

const VERSION: u32 = 1;
const TAG_HISTOGRAM: u8 = 0;
const TAG_ARC: u8 = 1;

/// Unit of gprof's histograms: narrower bins are not possible.
const MIN_BIN_BYTES: u64 = 2;

/// Pseudo-addresses of callers that are not code, counted from the end of the address space. Nothing executes there,
/// on a Cortex-M by its architecture.
const CALLERS: [(&str, u64); 3] = [(UNKNOWN, 0x200), (EXCEPTION, 0x100), (RESET, 2)];

/// Maximum number of parts of an arc's count. A part has 32 bits, so this is 2^44 calls.
const MAX_ARC_PARTS: u64 = 1 << 12;

/// Longest symbol, in bytes, that gprof reads in a line of 1,022 bytes, with some room.
const MAX_SYMBOL_BYTES: usize = 900;

/// Writes `gmon.out`.
///
/// # Errors
/// Errors of `out`; also when a bin has more than gprof can add up.
pub fn write(profile: &Profile, settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let image = Image::of(profile);
    out.write_all(b"gmon")?;
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&[0; 12])?;
    let rate_hz = settings.clock_hz.map_or_else(|| virtual_clock_hz(profile), u32::from);
    for histogram in histograms(profile, &image)? {
        histogram.write(&image, rate_hz, out)?;
    }
    write_arcs(profile, &image, out)
}

/// Writes the symbols for `gprof -S`, one per line in the format of `nm`.
///
/// # Errors
/// Errors of `out`.
pub fn write_symbols(profile: &Profile, _settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let image = Image::of(profile);
    let mut symbols: BTreeMap<u64, String> = BTreeMap::new();
    for function in &profile.names.functions {
        let start = image.address(function.start);
        symbols.insert(start, symbol(&function.linkage_name, start));
    }
    // A symbol lasts up to the next one, so it has to be ended where executed code has no symbol.
    let insns: BTreeMap<u64, u64> = profile.insns().into_keys().map(|pc| (image.address(pc), pc)).collect();
    for (address, pc) in insns {
        let place = Owner::of(profile, pc);
        if matches!(place, Owner::Function(_)) {
            continue;
        }
        let name = symbol(&place.to_string(), address);
        if symbols.range(..=address).next_back().is_none_or(|(_, before)| *before != name) {
            symbols.insert(address, name);
        }
    }
    symbols.extend(CALLERS.map(|(name, from_end)| (image.before_end(from_end), name.to_owned())));
    for (address, name) in symbols {
        writeln!(out, "{address:016x} T {name}")?;
    }
    Ok(())
}

/// Name that gprof can read: one word, not too long.
fn symbol(name: &str, address: u64) -> String {
    if name.is_empty() {
        return format!("[{}]", Hex(address));
    }
    let mut name: String = name.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect();
    if name.len() > MAX_SYMBOL_BYTES {
        let end = (0..=MAX_SYMBOL_BYTES).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
        name.truncate(end);
        // The part that was cut off may have been the only difference from another name.
        name = format!("{name}~{}", Hex(address));
    }
    name
}

/// Instructions per second of the machine's own virtual time, in the mean if it goes by cycles, rounded to the file's integer.
fn virtual_clock_hz(profile: &Profile) -> u32 {
    if time::clock_hz(profile).is_some() {
        let rate_hz = u128::from(profile.total_insns()) * 1_000_000_000 / time::awake_ns(profile).max(1);
        return u32::try_from(rate_hz).unwrap_or(u32::MAX).max(1);
    }
    let insn_ns = 1u64.checked_shl(profile.facts.icount_shift.into()).unwrap_or(u64::MAX);
    ((1_000_000_000 + insn_ns / 2) / insn_ns).max(1) as u32
}

/// Address width and load bias of the image.
struct Image {
    address_bytes: usize,
    load_bias: u64,
}

impl Image {
    fn of(profile: &Profile) -> Image {
        let address_bytes = if profile.facts.isa().is_some_and(Isa::is_riscv64) { 8 } else { 4 };
        Image { address_bytes, load_bias: profile.facts.load_bias }
    }

    /// Address in the image for an address of the machine.
    fn address(&self, address: u64) -> u64 {
        self.truncated(address.wrapping_sub(self.load_bias))
    }

    fn before_end(&self, bytes: u64) -> u64 {
        self.truncated(0u64.wrapping_sub(bytes))
    }

    fn truncated(&self, address: u64) -> u64 {
        if self.address_bytes == 8 { address } else { address & u64::from(u32::MAX) }
    }

    fn write(&self, address: u64, out: &mut dyn Write) -> Result<()> {
        out.write_all(&address.to_le_bytes()[..self.address_bytes])?;
        Ok(())
    }

    /// Size of a histogram's header in bytes.
    fn header_bytes(&self) -> u64 {
        1 + 2 * self.address_bytes as u64 + 4 + 4 + 16
    }
}

/// Counts of adjacent bins.
struct Histogram {
    low: u64,
    bin_bytes: u64,
    counts: Vec<u32>,
}

impl Histogram {
    /// Number of times that the histogram must be in the file, so that gprof adds up the whole count.
    fn repeats(count: u32) -> u32 {
        count.div_ceil(u16::MAX.into())
    }

    fn high(&self) -> u64 {
        self.low.wrapping_add(self.bin_bytes * self.counts.len() as u64)
    }

    fn write(&self, image: &Image, rate_hz: u32, out: &mut dyn Write) -> Result<()> {
        let repeats = self.counts.iter().copied().map(Histogram::repeats).max().unwrap_or(0).max(1);
        for repeat in 0..repeats {
            out.write_all(&[TAG_HISTOGRAM])?;
            image.write(self.low, out)?;
            image.write(self.high(), out)?;
            out.write_all(&(self.counts.len() as u32).to_le_bytes())?;
            out.write_all(&rate_hz.to_le_bytes())?;
            out.write_all(b"seconds\0\0\0\0\0\0\0\0s")?;
            for &count in &self.counts {
                let left = count.saturating_sub(repeat * u32::from(u16::MAX));
                out.write_all(&u16::try_from(left).unwrap_or(u16::MAX).to_le_bytes())?;
            }
        }
        Ok(())
    }
}

/// All instructions in histograms that do not overlap; at least one histogram, since gprof needs one.
fn histograms(profile: &Profile, image: &Image) -> Result<Vec<Histogram>> {
    let bin_bytes = profile.facts.bin_bytes.max(MIN_BIN_BYTES);
    let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
    for (pc, count) in profile.insns() {
        *bins.entry(image.address(pc) & !(bin_bytes - 1)).or_default() += count;
    }
    bins.entry(image.address(profile.facts.entry) & !(bin_bytes - 1)).or_default();
    // Empty bins take less space than another histogram.
    let max_gap_bytes = image.header_bytes() / 2 * bin_bytes;
    let mut histograms: Vec<Histogram> = Vec::new();
    for (low, count) in bins {
        let Ok(count) = u32::try_from(count) else {
            let why = "more than gprof can add up: choose another format, or a shorter window (--for)";
            return Err(InputError::new(format!("{count} instructions at {}: {why}", Hex(low))).into());
        };
        // Straight-line code has equal counts. Bins that need more repetitions than others get a histogram of their
        // own, so that the others are not repeated with them.
        let fits = |last: &&mut Histogram| {
            let repeats = last.counts.last().copied().map(Histogram::repeats);
            low.wrapping_sub(last.high()) <= max_gap_bytes && repeats == Some(Histogram::repeats(count))
        };
        match histograms.last_mut().filter(fits) {
            Some(last) => {
                let index = (low - last.low) / bin_bytes;
                last.counts.resize(index as usize, 0);
                last.counts.push(count);
            }
            None => histograms.push(Histogram { low, bin_bytes, counts: vec![count] }),
        }
    }
    Ok(histograms)
}

/// Writes the arcs: entries of each function by caller. Entries without a transfer of control (falling into the
/// function, the machine's start) have an unknown caller, so that each function's calls are those of
/// [`functions::table`].
fn write_arcs(profile: &Profile, image: &Image, out: &mut dyn Write) -> Result<()> {
    let mut arcs: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let unknown = caller(profile, image, None);
    for (start, Entries { calls, others }) in functions::entries(profile, &functions::table(profile)) {
        for (return_addr, count) in calls {
            *arcs.entry((caller(profile, image, return_addr), start)).or_default() += count;
        }
        if others > 0 {
            *arcs.entry((unknown, start)).or_default() += others;
        }
    }
    // gprof needs at least one arc, so an arc with no calls is added.
    if arcs.is_empty() {
        arcs.insert((unknown, profile.facts.entry), 0);
    }
    for ((from, target), mut count) in arcs {
        if count / u64::from(u32::MAX) > MAX_ARC_PARTS {
            let why = "more than the file is made for: choose another format, or a shorter window (--for)";
            return Err(InputError::new(format!("{count} calls of {}: {why}", Hex(target))).into());
        }
        loop {
            let part = u32::try_from(count).unwrap_or(u32::MAX);
            out.write_all(&[TAG_ARC])?;
            image.write(from, out)?;
            image.write(image.address(target), out)?;
            out.write_all(&part.to_le_bytes())?;
            count -= u64::from(part);
            if count == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// Address for the caller with this return address: one inside its call, or the pseudo-address of a caller that is
/// not code.
fn caller(profile: &Profile, image: &Image, return_addr: Option<u64>) -> u64 {
    let (name, start) = functions::caller(profile, return_addr);
    match CALLERS.iter().find(|(caller, _)| start.is_none() && *caller == name) {
        Some((_, from_end)) => image.before_end(*from_end),
        // Inside the call, not after it.
        None => image.address((return_addr.unwrap_or(0) & !1).wrapping_sub(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;

    fn bytes(profile: &Profile) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(profile, &Settings::default(), &mut bytes).unwrap();
        bytes
    }

    fn symbols(profile: &Profile) -> Vec<String> {
        let mut bytes = Vec::new();
        write_symbols(profile, &Settings::default(), &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_file_is_a_header_histograms_and_arcs() {
        let profile = empty().function("main", 0x40, 8).insn(0x40, 70_000).insn(0x44, 65_536);
        let mut expected = b"gmon\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        // The entry, which was not executed.
        let rate = 31_250_000u32.to_le_bytes();
        let header = |low: u8, high: u8, bins: u8| {
            let mut header = vec![0, low, 0, 0, 0, high, 0, 0, 0, bins, 0, 0, 0];
            header.extend_from_slice(&rate);
            header.extend_from_slice(b"seconds\0\0\0\0\0\0\0\0s");
            header
        };
        expected.extend([header(0, 2, 1), vec![0, 0]].concat());
        expected.extend([header(0x40, 0x46, 3), vec![0xff, 0xff, 0, 0, 0xff, 0xff]].concat());
        expected.extend([header(0x40, 0x46, 3), vec![0x71, 0x11, 0, 0, 1, 0]].concat());
        expected.extend([1, 0, 0xfe, 0xff, 0xff, 0x40, 0, 0, 0, 0x70, 0x11, 1, 0]);
        assert_eq!(bytes(&profile), expected);
    }

    #[test]
    fn wide_images_have_wide_addresses_without_the_load_bias() {
        let mut profile = empty().on_virt().function("main", 0x8020_0000, 8).insn(0x8020_0000, 3);
        (profile.facts.load_bias, profile.facts.entry) = (0x8020_0000, 0x8020_0000);
        let bytes = bytes(&profile);
        assert_eq!(bytes[20..20 + 21], [0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(symbols(&profile)[0], "0000000000000000 T main");
    }

    #[test]
    fn far_memories_have_histograms_of_their_own() {
        let profile = empty().function("a", 0, 2).function("b", 0x2000_0000, 2).insn(0, 1).insn(0x2000_0000, 1);
        assert!(bytes(&profile).len() < 200);
    }

    #[test]
    fn arcs_of_more_than_32_bits_come_in_parts() {
        let count = (1 << 33) + 5;
        let profile = empty().function("f", 0x40, 2).arc((0x20, 0x40), Some(0x25), true, count);
        let bytes = bytes(&profile);
        let arcs: Vec<u32> = bytes[bytes.len() - 3 * 13..]
            .chunks(13)
            .map(|arc| {
                assert_eq!(arc[..9], [1, 0x23, 0, 0, 0, 0x40, 0, 0, 0]);
                u32::from_le_bytes(arc[9..].try_into().unwrap())
            })
            .collect();
        assert_eq!(arcs, [u32::MAX, u32::MAX, 7]);
    }

    #[test]
    fn code_without_a_name_ends_the_function_before_it() {
        let profile = empty().function("a", 0x40, 4).function("b", 0x50, 4);
        let profile = profile.insn(0x40, 1).insn(0x44, 1).insn(0x46, 1).insn(0x50, 1).insn(0x54, 1).insn(0x200, 1);
        let expected = [
            "0000000000000040 T a",
            "0000000000000044 T [0x00000044..0x0000004f]",
            "0000000000000050 T b",
            "0000000000000054 T [0x00000054..0x000000ff]",
            "0000000000000200 T [0x00000200..0x000002ff]",
            "00000000fffffe00 T [unknown]",
            "00000000ffffff00 T [exception]",
            "00000000fffffffe T [reset]",
        ];
        assert_eq!(symbols(&profile), expected);
    }

    #[test]
    fn calls_that_take_a_file_without_bound_are_refused() {
        let called = |count| {
            let profile = empty().function("main", 0x40, 4).function("step", 0x44, 4);
            let profile = profile.insn(0x40, 1).arc((0x40, 0x44), Some(0x42), true, count);
            let mut profile = profile.insn(0x44, 1);
            profile.facts.before_window_insns = 1;
            write(&profile, &Settings::default(), &mut Vec::new()).map_err(|error| error.to_string())
        };
        called(1).unwrap();
        let error = called(1 << 47).unwrap_err();
        assert!(error.contains("calls of 0x00000044"), "{error}");
    }
}
