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
    let executions: u64 = vcpu.insns.iter().filter(|insn| insn.pc == entry).map(|insn| insn.count).sum();
    let first = u64::from(facts.before_window_insns == 0);
    let function = |pc: u64| profile.names.function_at(pc).map(|function| function.start);
    let is_loop =
        |arc: &&Arc| arc.target == entry && function(arc.site).is_some() && function(arc.site) == function(entry);
    let loops: u64 = vcpu.arcs.iter().filter(is_loop).map(|arc| arc.count).sum();
    let times = executions.saturating_sub(first).saturating_sub(loops);
    let mut from: Vec<&Arc> = vcpu.arcs.iter().filter(|arc| arc.target == entry && !is_loop(arc)).collect();
    from.sort_by_key(|arc| (std::cmp::Reverse(arc.count), arc.site));
    (times > 0).then(|| End::Restarts { times, entry, from: from.first().map(|arc| arc.site) })
}
