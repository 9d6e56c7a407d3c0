// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds functions that never return. A call of such a function does not reach the code after it.

use std::collections::BTreeSet;
use std::ops::Range;

use decode::{Flow, decode};
use rustc_hash::FxHashSet;

use super::super::Code;
use super::{Compiled, End, is_trap};
use crate::image::sorted_ranges::holding;

/// Entries of the functions that never return: no way through them ends in a certain or possible return. Other
/// functions than `compiled` ones may go on behind a trap, which a handler may skip, and behind a call at their end.
pub(super) fn never(code: &Code<'_>, functions: &[Range<u64>], compiled: Option<&Compiled<'_>>) -> BTreeSet<u64> {
    let end_of = |function| compiled.map_or(End::Assumed, |compiled| compiled.end_of(function));
    let ends: Vec<End> = functions.iter().map(end_of).collect();
    let mut returns = vec![false; functions.len()];
    // Ways that continue only if a function returns, by that function.
    let mut waiting: Vec<Vec<(usize, Way)>> = vec![Vec::new(); functions.len()];
    let mut seen: Vec<FxHashSet<u64>> = vec![FxHashSet::default(); functions.len()];
    let start = |(index, function): (usize, &Range<u64>)| (index, Way::On(function.start, 0));
    let mut open: Vec<(usize, Way)> = functions.iter().enumerate().map(start).collect();
    // A waiting way continues where it stopped. If it began again at its function's start, a function with many calls
    // would be followed once for each of them.
    while let Some((index, way)) = open.pop() {
        if returns[index] {
            continue;
        }
        let mut needs = Vec::new();
        if may_return(code, (functions, &ends), (index, way), &returns, &mut seen[index], &mut needs) {
            returns[index] = true;
            seen[index] = FxHashSet::default();
            open.append(&mut waiting[index]);
        } else {
            needs.into_iter().for_each(|(other, way)| waiting[other].push((index, way)));
        }
    }
    let never = functions.iter().zip(returns).filter(|(_, returns)| !returns);
    never.map(|(function, _)| function.start).collect()
}

/// Way through a function.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Continues at this instruction; the second number counts the conditional instructions from there on.
    On(u64, u8),
    /// Has left the function, by a jump into another or by running into it.
    Left,
}

/// Whether a function may return by a way, given the functions that are known to return. Otherwise `needs` gets the
/// functions on which this depends, each with the way that continues if it returns. `seen` has the instructions that
/// other ways have reached.
fn may_return(
    code: &Code<'_>,
    (functions, ends): (&[Range<u64>], &[End]),
    (index, way): (usize, Way),
    returns: &[bool],
    seen: &mut FxHashSet<u64>,
    needs: &mut Vec<(usize, Way)>,
) -> bool {
    let function = &functions[index];
    let Way::On(pc, conditional) = way else { return true };
    // Instructions, with the number of conditional ones from there on.
    let mut open = vec![(pc, conditional)];
    while let Some((pc, conditional)) = open.pop() {
        if !function.contains(&pc) {
            match holding(functions, pc) {
                Some(other) if returns[other] => return true,
                Some(other) => needs.push((other, Way::Left)),
                None => return true,
            }
            continue;
        }
        if code.hints.is_data(pc) || !seen.insert(pc) {
            continue;
        }
        let Some(bytes) = code.bytes(pc) else { return true };
        let insn = decode(code.isa, pc, bytes);
        let next = pc + u64::from(insn.len_bytes);
        let left = if let Flow::It { count } = insn.flow { count } else { conditional.saturating_sub(1) };
        let falls = match insn.flow {
            Flow::Next if ends[index].is_at_trap(next >= function.end) && is_trap(code, pc, bytes) => false,
            Flow::Next | Flow::It { .. } | Flow::IndirectCall { .. } => true,
            Flow::Branch { target } => {
                open.push((target, 0));
                true
            }
            Flow::Jump { target } => {
                open.push((target, 0));
                false
            }
            Flow::Call { target } if function.contains(&target) && target != function.start => {
                open.push((target, 0));
                true
            }
            // libgcc's switches continue by the table after their call.
            Flow::Call { target } if let Some(&entry) = code.hints.switches.get(&target) => {
                open.extend(code.table(next, entry).0.into_iter().map(|case| (case, 0)));
                false
            }
            Flow::Call { target } => match functions.binary_search_by_key(&target, |function| function.start) {
                Ok(other) if !returns[other] => {
                    if next < function.end || !ends[index].is_at_call() {
                        needs.push((other, Way::On(next, left)));
                    }
                    false
                }
                _ => true,
            },
            Flow::Return | Flow::IndirectJump { .. } | Flow::ComputedJump => return true,
        };
        // A call at a function's very end does not return, if a compiler has made it.
        let is_end = ends[index].is_at_call() && insn.flow.is_call() && next >= function.end;
        if (falls || conditional > 0) && !is_end {
            open.push((next, left));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use decode::Isa;

    use super::super::testing::{looks, of_code};
    use super::*;

    /// Encodes `jal ra` to that many bytes before or after.
    fn call(distance_bytes: i32) -> [u16; 2] {
        let bits = |high: u32, low: u32| (distance_bytes as u32 >> low) & ((1 << (high - low + 1)) - 1);
        let word = bits(20, 20) << 31 | bits(10, 1) << 21 | bits(11, 11) << 20 | bits(19, 12) << 12 | 1 << 7 | 0x6f;
        [word as u16, (word >> 16) as u16]
    }

    /// Counts the reads of code with many functions that return, and after them one that does not: a loop that calls
    /// each of them conditionally.
    fn looks_at(callees: i32) -> u64 {
        let start = callees * 2;
        let mut halves = vec![0x8082; callees as usize];
        for callee in 0..callees {
            // beqz a0, over the call
            halves.extend([0x0463, 0x0005]);
            halves.extend(call(callee * 2 - (start + callee * 8 + 4)));
        }
        let mut back = call(-callees * 8);
        // As a jump, the instruction does not link.
        back[0] &= !0x80;
        halves.extend(back);
        let segments = of_code(&halves);
        let code = Code { isa: Isa::Riscv64, segments: &segments, load_bias: 0, hints: Default::default() };
        let mut functions: Vec<Range<u64>> = (0..callees as u64).map(|at| at * 2..at * 2 + 2).collect();
        functions.push(start as u64..halves.len() as u64 * 2);
        let (found, looks) = looks(|| never(&code, &functions, None));
        assert_eq!(found, [start as u64].into());
        looks
    }

    #[test]
    fn a_loop_that_calls_many_functions_is_followed_once() {
        let (few, many) = (looks_at(8), looks_at(16));
        assert!(many <= few * 2 + few / 2, "{few} looks for 8 calls, {many} for 16");
    }
}
