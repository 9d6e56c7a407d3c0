// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the function to look at after a failure: the one that faulted, or that called a wild pointer. Never the
//! fault's handler, which is the hottest function of such a run.

use crate::profile::{End, Function, Profile};

/// A function, and its part in the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Culprit<'p> {
    /// The function.
    pub function: &'p Function,
    /// The function by its part in the failure: *the function that faulted*.
    pub what: &'static str,
}

/// Part of a function that faulted.
const FAULTED: &str = "the function that faulted";

/// Part of a function that called or jumped to an address without code.
const JUMPED: &str = "the function that jumped to where there is no code";

/// Function that the run's end is about. None: nothing in the profile says which one it is, for example after an exit
/// with a status.
pub fn of_end(profile: &Profile) -> Option<Culprit<'_>> {
    let handler = profile.facts.only.handler.as_ref().filter(|handler| handler.is_fault);
    let (pc, what) = match (&profile.facts.end, handler) {
        (_, Some(handler)) => (handler.pc, FAULTED),
        (End::LockUp { pc, .. }, None) => (*pc, FAULTED),
        (End::EndlessLoop { pc, call }, None) => (call.unwrap_or(*pc), "the function that came to the loop"),
        (End::StackOverflow { pc: Some(pc), .. }, None) => (*pc, "the function whose stack it was"),
        (End::Restarts { from: Some(from), .. }, None) => (*from, "the function that jumped to the entry"),
        (End::Stuck { pc, .. } | End::Asleep { pc }, None) => (*pc, "the function in which it stopped"),
        _ => return None,
    };
    let found = profile.names.function_at(pc);
    let is_unsure = matches!(profile.facts.end, End::LockUp { .. } | End::Stuck { .. } | End::Asleep { .. });
    if handler.is_none() && is_unsure && found.is_some_and(|function| is_handler(profile, function)) {
        // The processor locks up in a handler that faults, too.
        return None;
    }
    let named = found.map(|function| Culprit { function, what });
    named.or_else(|| caller(profile, pc).map(|function| Culprit { function, what: JUMPED }))
}

/// Whether a function is a handler: it has executed, but no instruction has led to it, and the firmware does not begin
/// there.
fn is_handler(profile: &Profile, function: &Function) -> bool {
    let is_in = |address: u64| address.checked_sub(function.start).is_some_and(|offset| offset < function.size_bytes);
    let mut arcs = profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs);
    !is_in(profile.facts.entry) && !arcs.any(|arc| is_in(arc.target & !1) && !is_in(arc.site))
}

/// The only function from which control went to an address that no function has.
fn caller(profile: &Profile, target: u64) -> Option<&Function> {
    let arcs = profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs).filter(|arc| arc.target & !1 == target & !1);
    let mut callers = arcs.map(|arc| profile.names.function_at(arc.site));
    let first = callers.next()??;
    callers.all(|caller| caller == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::LeftStack;
    use crate::profile::no_progress::OnlyHandler;
    use crate::profile::testing::empty;

    /// A run that ended in HardFault's handler, after a fault at an address.
    fn faulting(pc: u64) -> Profile {
        let mut profile = empty().function("main", 0x40, 0x10).function("HardFault_Handler", 0x50, 0x10);
        profile.facts.end = End::Faulting { pc: 0x50 };
        profile.facts.only.handler = Some(OnlyHandler {
            number: 3,
            handler: 0x50,
            pc,
            return_addr: 0,
            left_sp: None,
            since_insns: 10,
            times: 1,
            fault: None,
            device: None,
            is_fault: true,
            yields: false,
        });
        profile
    }

    fn name(profile: &Profile) -> Option<(&str, &str)> {
        of_end(profile).map(|culprit| (culprit.function.name.as_str(), culprit.what))
    }

    #[test]
    fn the_function_that_faulted_is_the_culprit() {
        assert_eq!(name(&faulting(0x44)), Some(("main", FAULTED)));
        let mut locked_up = empty().function("main", 0x40, 0x10).arc((0x20, 0x40), Some(0x22), true, 1);
        locked_up.facts.end = End::LockUp { pc: 0x44, fault: String::new() };
        assert_eq!(name(&locked_up), Some(("main", FAULTED)));
        // Control came to a handler from nowhere.
        locked_up.vcpus[0].arcs.clear();
        assert_eq!(name(&locked_up), None);
    }

    #[test]
    fn the_only_caller_of_a_wild_pointer_is_the_culprit() {
        let jumped = |site: u64| faulting(0xdead_bee0).arc((site, 0xdead_bee1), Some(site + 2), true, 1);
        assert_eq!(name(&jumped(0x44)), Some(("main", JUMPED)));
        assert_eq!(name(&jumped(0x44).arc((0x52, 0xdead_bee0), None, false, 1)), None, "two functions jumped there");
        assert_eq!(name(&faulting(0xdead_bee0)), None, "nothing says who jumped there");
    }

    #[test]
    fn a_loop_a_stack_and_a_restart_are_about_who_led_there() {
        let mut profile = empty().function("main", 0x40, 0x10).function("my_assert", 0x50, 0x10);
        profile.facts.end = End::EndlessLoop { pc: 0x52, call: Some(0x44) };
        assert_eq!(name(&profile), Some(("main", "the function that came to the loop")));
        profile.facts.end = End::StackOverflow { pc: Some(0x52), stack: LeftStack::Memory { start: 0x100 } };
        assert_eq!(name(&profile).map(|(name, _)| name), Some("my_assert"));
        profile.facts.end = End::Restarts { times: 1, expected: 0, entry: 0x20, from: Some(0x44) };
        assert_eq!(name(&profile).map(|(name, _)| name), Some("main"));
    }

    #[test]
    fn an_exit_is_about_no_function() {
        let mut profile = empty().function("exit", 0x40, 0x10);
        profile.facts.end = End::Exit { status: 1, pc: 0x44 };
        assert_eq!(name(&profile), None);
    }
}
