// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects firmware that came through its entry again, without a reset of the machine: a jump through a null pointer on AVR, an
//! interrupt without a handler, a return to an overwritten address. It begins anew each time, and looks busy. With `--resets`
//! it is meant to, so many times; the run ends at a reset of the machine, which is then the last of them.
//!
//! The counts are exact: the entry's executions, without the first one and without the turns of a loop that starts there.

use decode::Isa;

use crate::profile::{Arc, End, Profile};

/// Address at which an AVR starts.
const AVR_RESET_VECTOR: u64 = 0;

/// End of a run whose firmware restarted, or did not restart as often as `--resets` expects. None: the end stays, or several
/// processors came through the entry.
pub fn find(profile: &Profile, entry: u64) -> Option<End> {
    let facts = &profile.facts;
    let expected = facts.window.resets;
    let reset = match facts.end {
        End::Reset { pc, .. } => Some(pc).filter(|_| expected.is_some()),
        _ => None,
    };
    if reset.is_none() && !(facts.end.is_good() || facts.end == End::MaxInsns) {
        return None;
    }
    let mut busy = profile.vcpus.iter().filter(|vcpu| vcpu.clock_insns > 0);
    let (Some(vcpu), None) = (busy.next(), busy.next()) else { return None };
    // AVR's entry is known behind the vector that leads there, and firmware restarts by way of the vector.
    let entry = if facts.isa().is_some_and(Isa::is_avr) { AVR_RESET_VECTOR } else { entry };
    let start = function_of(profile, entry);
    // Code without names may be one loop from its entry on.
    if start.is_none() && expected.is_none() {
        return None;
    }
    let executions: u64 = vcpu.insns.iter().filter(|insn| insn.pc == entry).map(|insn| insn.count).sum();
    let first = u64::from(facts.before_window_insns == 0);
    let is_loop = |arc: &&Arc| arc.target == entry && start.is_some() && function_of(profile, arc.site) == start;
    let loops: u64 = vcpu.arcs.iter().filter(is_loop).map(|arc| arc.count).sum();
    let times = executions.saturating_sub(first).saturating_sub(loops) + u64::from(reset.is_some());
    match (expected, reset) {
        (Some(expected), Some(pc)) if times == expected => return Some(End::Reset { pc, is_expected: true }),
        _ if times == expected.unwrap_or(0) => return None,
        _ => {}
    }
    let mut from: Vec<&Arc> = vcpu.arcs.iter().filter(|arc| arc.target == entry && !is_loop(arc)).collect();
    from.sort_by_key(|arc| (std::cmp::Reverse(arc.count), arc.site));
    let from = from.first().map(|arc| arc.site).or(reset.flatten());
    Some(End::Restarts { times, expected: expected.unwrap_or(0), entry, from })
}

/// First address of the function at an address.
fn function_of(profile: &Profile, pc: u64) -> Option<u64> {
    profile.names.function_at(pc).map(|function| function.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;

    #[test]
    fn turns_of_a_loop_and_code_without_names_are_no_restarts() {
        let run = || empty().insn(0x40, 5).insn(0x50, 5).arc((0x50, 0x40), None, false, 4);
        assert_eq!(find(&run(), 0x40), None, "no names");
        assert_eq!(find(&run().function("_start", 0x40, 0x20), 0x40), None, "a loop");
        let jumps = run().function("_start", 0x40, 0x10).function("main", 0x50, 0x10);
        assert_eq!(find(&jumps, 0x40), restarts(4, 0));
    }

    fn restarts(times: u64, expected: u64) -> Option<End> {
        Some(End::Restarts { times, expected, entry: 0x40, from: Some(0x50) })
    }

    #[test]
    fn as_many_restarts_as_expected_are_good_and_a_reset_at_the_end_is_the_last() {
        let mut run = empty().insn(0x40, 3).insn(0x50, 2).arc((0x50, 0x40), None, false, 2);
        let mut expecting = |resets: u64, end: End| {
            (run.facts.window.resets, run.facts.end) = (Some(resets), end);
            find(&run, 0x40)
        };
        let reset = |is_expected: bool| End::Reset { pc: Some(0x60), is_expected };
        assert_eq!(expecting(2, End::For), None);
        assert_eq!([1, 3].map(|resets| expecting(resets, End::For)), [restarts(2, 1), restarts(2, 3)]);
        assert_eq!(expecting(3, reset(false)), Some(reset(true)));
        assert_eq!([0, 2].map(|resets| expecting(resets, reset(false))), [restarts(3, 0), restarts(3, 2)]);
        assert_eq!(expecting(3, End::Exit { status: 1, pc: 0x60 }), None, "the status tells more");
    }
}
