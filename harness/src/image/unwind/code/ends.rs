// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds functions that are shared parts of epilogues: nothing calls them, and they take more off the stack than they
//! have put on it. Other functions jump to them, or run into them.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use decode::{Flow, decode};

use super::super::Code;
use super::state::State;
use super::{Links, execute};

/// Starts of such functions. Each may run into the next, so results are kept: a function is analysed once, not again
/// for each function before it.
pub(super) fn of_others(code: &Code<'_>, functions: &[&Range<u64>], links: &Links) -> BTreeSet<u64> {
    let mut known = Known::default();
    let is_end =
        |function: &&&Range<u64>| !links.is_called(function.start) && known.is_end(code, functions, function);
    // The last one first: the others run into analysed ones.
    functions.iter().rev().filter(is_end).map(|function| function.start).collect()
}

/// Result by a function's start and the state on arrival: whether more is taken off the stack from there on.
#[derive(Default)]
struct Known {
    /// Results for the state of a normal entry, the most frequent case: most functions do little before they return.
    entered: HashMap<u64, bool>,
    others: HashMap<(u64, State), bool>,
}

impl Known {
    fn is_end(&mut self, code: &Code<'_>, functions: &[&Range<u64>], function: &Range<u64>) -> bool {
        let entry = State::entry(code.isa);
        let mut state = entry.clone();
        let mut pc = function.start;
        // Functions that it has run into, itself among them.
        let mut passed = Vec::new();
        let mut found = None;
        while state.depth_bytes() == Some(0)
            && let Some(bytes) = code.bytes(pc)
            && let insn = decode(code.isa, pc, bytes)
            && insn.flow == Flow::Next
        {
            if functions.binary_search_by_key(&pc, |function| function.start).is_ok() {
                let is_entry = state == entry;
                found = if is_entry { self.entered.get(&pc) } else { self.others.get(&(pc, state.clone())) }.copied();
                if found.is_some() {
                    break;
                }
                passed.push((pc, state.clone()));
            }
            execute(code, pc, bytes, &mut state);
            pc += u64::from(insn.len_bytes);
        }
        let is_end = found.unwrap_or_else(|| state.depth_bytes().is_some_and(|depth| depth < 0));
        for (pc, state) in passed {
            if state == entry {
                self.entered.insert(pc, is_end);
            } else {
                self.others.insert((pc, state), is_end);
            }
        }
        is_end
    }
}

#[cfg(test)]
mod tests {
    use decode::Isa;

    use super::super::testing::{looks, of_code};
    use super::*;

    /// Counts the reads of instructions in this many functions, each of which has these two instructions and runs
    /// into the next.
    fn looks_at(functions: u64, body: [u16; 2]) -> u64 {
        let halves: Vec<u16> = (0..functions).flat_map(|_| body).collect();
        let segments = of_code(&halves);
        let code = Code { isa: Isa::Riscv64, segments: &segments, load_bias: 0, hints: Default::default() };
        let all: Vec<Range<u64>> = (0..functions).map(|at| at * 4..at * 4 + 4).collect();
        let all: Vec<&Range<u64>> = all.iter().collect();
        let (found, looks) = looks(|| of_others(&code, &all, &Links::default()));
        assert_eq!(found, BTreeSet::new());
        looks
    }

    #[test]
    fn functions_that_run_into_each_other_are_not_followed_to_the_end_for_each() {
        // Two c.nop; c.li a0, 1 and c.li a1, 2, after which the state at the next start differs from an entry's.
        for body in [[1, 1], [0x4505, 0x4589]] {
            let (few, many) = (looks_at(500, body), looks_at(1000, body));
            assert!(many <= few * 2 + few / 2, "{body:x?}: {few} looks for 500 functions, {many} for 1000");
        }
    }

    #[test]
    fn what_takes_off_more_than_there_is_is_found_through_what_runs_into_it() {
        // c.nop; c.nop; c.addi sp, 16: the last one and those before it are found. c.addi sp, -16 makes a frame
        // first.
        let segments = of_code(&[1, 1, 0x0141, 0x8082, 0x1141, 0x0141]);
        let code = Code { isa: Isa::Riscv64, segments: &segments, load_bias: 0, hints: Default::default() };
        let all = [0..2, 2..4, 4..8, 8..12];
        let all: Vec<&Range<u64>> = all.iter().collect();
        assert_eq!(of_others(&code, &all, &Links::default()), [0, 2, 4].into());
        let links = Links { called: [2].into(), ..Links::default() };
        assert_eq!(of_others(&code, &all, &links), [0, 4].into(), "what is called is whole");
    }
}
