// SPDX-License-Identifier: MIT OR Apache-2.0
//! Code of an image that only waits: `delay()` and `delayMicroseconds()` of Arduino's core, and avr-libc's busy loops.
//!
//! Debug information says which code is such a function's where the compiler has inlined it, as it does with most calls if it
//! optimises when linking. Otherwise the symbol does.

use std::cmp::Reverse;
use std::ops::Range;

use decode::{Flow, Isa};
use wire::zone::WaitingCall;

use crate::image::Image;
use crate::image::symbols::Symbols;
use crate::profile::{Waiting, WaitingCode};
use crate::text::symbol_name::original_name;

/// Functions of avr-libc (`util/delay.h`), whose names are the implementation's alone.
const AVR_LIBC: [&str; 2] = ["_delay_ms", "_delay_us"];

/// Functions of Arduino's core (`wiring.c`).
const ARDUINO: [&str; 2] = ["delay", "delayMicroseconds"];

/// Variable of the same file that each image with it has: Timer0's interrupt counts in it. Other firmware may have functions
/// of these names for anything.
const OF_ARDUINO: &str = "timer0_millis";

/// Function of the same file, which `delay()` alone of its functions calls.
const CALLED_BY_DELAY: &str = "micros";

/// Code that only waits, and its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// Names of its functions, sorted.
    pub functions: Vec<String>,
    /// Its ranges, sorted, without overlap.
    pub ranges: Vec<WaitingCode>,
    /// Calls in it, sorted.
    pub calls: Vec<WaitingCall>,
    /// Number of jumps out of a function.
    pub exits: u64,
}

impl Code {
    /// Facts for the profile, with the counts of the plugin.
    pub fn counted(self, called_insns: u64, unsure: u64) -> Waiting {
        Waiting {
            functions: self.functions,
            code: self.ranges,
            calls: self.calls.iter().map(|call| call.site).collect(),
            called_insns,
            unsure: unsure.saturating_add(self.exits),
        }
    }
}

/// Finds the code. None of another processor's is known.
pub fn find(symbols: &Symbols<'_>, image: &Image, isa: Isa, load_bias: u64) -> Code {
    if !isa.is_avr() {
        return Code::default();
    }
    let arduino = symbols.symbol(OF_ARDUINO).map_or(&[][..], |_| &ARDUINO);
    let is_meant = |name: &str| AVR_LIBC.contains(&name) || arduino.contains(&name);
    let whole = symbols.functions().map(|(range, name)| (range.clone(), original_name(name)));
    let whole: Vec<(Range<u64>, String)> =
        whole.filter(|(_, name)| is_meant(name)).map(|(range, name)| (range, name.to_owned())).collect();
    let exits = whole.iter().map(|(range, _)| exits(range, image, isa, load_bias)).sum();
    let mut found = symbols.inlined(is_meant);
    if !arduino.is_empty() {
        found.extend(inlined_delay(symbols, image, isa, load_bias));
    }
    found.extend(whole);
    let mut functions: Vec<String> = found.iter().map(|(_, name)| name.clone()).collect();
    functions.sort();
    functions.dedup();
    let ranges = disjoint(found, &functions);
    let mut calls = Vec::new();
    for code in &ranges {
        for (pc, next, flow) in insns(&(code.start..code.end), image, isa, load_bias) {
            if flow.is_call() {
                calls.push(WaitingCall { site: pc, next });
            }
        }
    }
    Code { functions, ranges, calls, exits }
}

/// Inlined code of `delay()` where lines are known, but no inlined function: the lines of its file around those that call
/// `micros()`, in a function of another file.
fn inlined_delay(symbols: &Symbols<'_>, image: &Image, isa: Isa, load_bias: u64) -> Vec<(Range<u64>, String)> {
    let lines = symbols.lines_inlined_from(CALLED_BY_DELAY);
    let callee = symbols.functions().find(|(_, name)| *name == CALLED_BY_DELAY).map(|(range, _)| range.start);
    let calls = |range: &Range<u64>| {
        insns(range, image, isa, load_bias)
            .any(|(_, _, flow)| matches!(flow, Flow::Call { target } if Some(target) == callee))
    };
    let of_calls = || lines.iter().filter(|(range, _)| calls(range)).map(|(_, line)| *line);
    // Between the first call's line and the last one's.
    let (Some(first), Some(last)) = (of_calls().min(), of_calls().max()) else { return Vec::new() };
    let source = first..=last;
    let mut found: Vec<(Range<u64>, String)> = Vec::new();
    for (range, line) in lines {
        match found.last_mut() {
            Some((before, _)) if before.end == range.start => before.end = range.end,
            _ if source.contains(&line) => found.push((range, ARDUINO[0].to_owned())),
            _ => {}
        }
    }
    found
}

/// Ranges without overlap: code of a function that is inlined into another of them is the outer one's.
fn disjoint(mut found: Vec<(Range<u64>, String)>, functions: &[String]) -> Vec<WaitingCode> {
    found.sort_by_key(|(range, name)| (range.start, Reverse(range.end), name.clone()));
    let mut ranges: Vec<WaitingCode> = Vec::new();
    for (range, name) in found {
        let start = ranges.last().map_or(range.start, |last| range.start.max(last.end));
        let function = functions.binary_search(&name).unwrap_or(0) as u32;
        if start < range.end {
            ranges.push(WaitingCode { start, end: range.end, function });
        }
    }
    ranges
}

/// Number of jumps out of a function. What they lead to returns to the function's caller, which nothing here notices.
fn exits(range: &Range<u64>, image: &Image, isa: Isa, load_bias: u64) -> u64 {
    let leaves = |&(_, _, flow): &(u64, u64, Flow)| match flow {
        Flow::Jump { target } | Flow::Branch { target } => !range.contains(&target),
        Flow::IndirectJump { .. } | Flow::ComputedJump => true,
        _ => false,
    };
    insns(range, image, isa, load_bias).filter(leaves).count() as u64
}

/// Instructions of a range: address, address after it, where control goes.
fn insns(range: &Range<u64>, image: &Image, isa: Isa, load_bias: u64) -> impl Iterator<Item = (u64, u64, Flow)> {
    let mut pc = range.start;
    let end = range.end;
    std::iter::from_fn(move || {
        let code = image.code_at(pc.wrapping_sub(load_bias)).filter(|code| pc < end && !code.is_empty())?;
        let decoded = decode::decode(isa, pc, code);
        let next = pc.saturating_add(u64::from(decoded.len_bytes));
        Some((std::mem::replace(&mut pc, next), next, decoded.flow))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_is_inlined_into_other_waiting_code_is_the_outer_ones() {
        let functions = ["_delay_us".to_owned(), "delay".to_owned()];
        let found = vec![
            (0x14..0x18, "_delay_us".to_owned()),
            (0x10..0x20, "delay".to_owned()),
            (0x1c..0x24, "_delay_us".to_owned()),
            (0x30..0x30, "delay".to_owned()),
        ];
        let ranges: Vec<_> =
            disjoint(found, &functions).iter().map(|code| (code.start, code.end, code.function)).collect();
        assert_eq!(ranges, [(0x10, 0x20, 1), (0x20, 0x24, 0)]);
    }
}
