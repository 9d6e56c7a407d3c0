// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects firmware that came through its entry again, without a reset of the machine: a jump through a null pointer on AVR, an
//! interrupt without a handler, a return to an overwritten address. It begins anew each time, and looks busy.
//!
//! The counts are exact: the entry's executions, without the first one and without the turns of a loop that starts there.

use decode::Isa;

use crate::profile::{Arc, End, Profile};

/// Address at which an AVR starts.
const AVR_RESET_VECTOR: u64 = 0;

/// End of a run whose firmware restarted. None: it did not, or several processors came through the entry.
pub fn find(profile: &Profile, entry: u64) -> Option<End> {
    let facts = &profile.facts;
    if !matches!(facts.end, End::For | End::Until | End::MaxInsns | End::Exit { status: 0, .. }) {
        return None;
    }
    let mut busy = profile.vcpus.iter().filter(|vcpu| vcpu.clock_insns > 0);
    let (Some(vcpu), None) = (busy.next(), busy.next()) else { return None };
    // AVR's entry is known behind the vector that leads there, and firmware restarts by way of the vector.
    let entry = if facts.isa().is_some_and(Isa::is_avr) { AVR_RESET_VECTOR } else { entry };
    // Code without names may be one loop from its entry on.
    let start = function_of(profile, entry)?;
    let executions: u64 = vcpu.insns.iter().filter(|insn| insn.pc == entry).map(|insn| insn.count).sum();
    let first = u64::from(facts.before_window_insns == 0);
    let is_loop = |arc: &&Arc| arc.target == entry && function_of(profile, arc.site) == Some(start);
    let loops: u64 = vcpu.arcs.iter().filter(is_loop).map(|arc| arc.count).sum();
    let times = executions.saturating_sub(first).saturating_sub(loops);
    let mut from: Vec<&Arc> = vcpu.arcs.iter().filter(|arc| arc.target == entry && !is_loop(arc)).collect();
    from.sort_by_key(|arc| (std::cmp::Reverse(arc.count), arc.site));
    (times > 0).then(|| End::Restarts { times, entry, from: from.first().map(|arc| arc.site) })
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
        assert_eq!(find(&jumps, 0x40), Some(End::Restarts { times: 4, entry: 0x40, from: Some(0x50) }));
    }
}
