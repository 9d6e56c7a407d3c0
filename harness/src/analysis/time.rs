// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time of a run by the firmware's own clock, and load of the processor. Only instructions are counted; the time of
//! each is an assumption, which must be stated with every time.

use std::collections::BTreeSet;

use crate::profile::{Profile, Task};
use crate::text::number::{group, plural, share};

/// Instructions of code that only waits, and of what it calls. Where that may be too many, all instructions are the most.
pub fn waiting_insns(profile: &Profile) -> u64 {
    let executions = profile.vcpus.iter().flat_map(|vcpu| &vcpu.insns).map(|insn| (insn.pc, insn.count));
    profile.facts.waiting.insns(executions, profile.facts.waiting.called_insns).min(profile.total_insns())
}

/// Functions of such code that executed, as `delay()`.
pub fn waiting_functions(profile: &Profile) -> Vec<String> {
    let executed = profile.vcpus.iter().flat_map(|vcpu| &vcpu.insns).filter(|insn| insn.count > 0);
    let functions = executed.filter_map(|insn| profile.facts.waiting.function_at(insn.pc));
    let functions: BTreeSet<&str> = functions.collect();
    functions.into_iter().map(|function| format!("{function}()")).collect()
}

/// Idle instructions: those of the kernel's idle tasks, those during which a processor would have slept in a `wfe`, and
/// those of code that only waits.
pub fn idle_insns(profile: &Profile) -> u64 {
    let tasks: u64 = profile.tasks.iter().filter(|task| task.is_idle).map(|task| task.insns).sum();
    tasks.saturating_add(profile.facts.slept_insns).saturating_add(waiting_insns(profile))
}

/// Time of the window's instructions and the load, in a sentence; None: no instruction executed, or several CPUs took
/// turns.
///
/// The load is an upper bound where the time asleep in `wfi` is not known.
pub fn sentence(profile: &Profile) -> Option<String> {
    let total = profile.total_insns();
    if total == 0 || profile.vcpus.len() > 1 {
        return None;
    }
    let shift = profile.facts.icount_shift;
    let one_ns = format!("each instruction takes {} ns (--shift {shift})", 1_u64 << shift);
    if let Some(slept_ns) = profile.facts.slept_ns.filter(|&ns| ns > 0) {
        let awake_ns = u128::from(total) << shift;
        let busy_ns = u128::from(total.saturating_sub(idle_insns(profile))) << shift;
        let all_ns = awake_ns + u128::from(slept_ns);
        let busy = share_of_time(busy_ns, all_ns);
        let slept = millis_of(u128::from(slept_ns));
        let waits = plural(profile.facts.waits, "wait");
        return Some(format!(
            "time: {}, of which the processor slept {slept} in {waits} for an interrupt, if {one_ns}; \
             CPU load {busy}",
            millis_of(all_ns)
        ));
    }
    let busy = share(total.saturating_sub(idle_insns(profile)), total);
    let load = match (profile.facts.waits, profile.facts.slept_ns) {
        (0, _) | (_, Some(_)) => format!("CPU load {busy}"),
        (waits, None) => {
            let waits = plural(waits, "wait");
            format!("CPU load at most {busy} (the time of {waits} for an interrupt is not known)")
        }
    };
    let millis = millis_of(u128::from(total) << shift);
    Some(format!("time: {millis} if {one_ns}; {load}"))
}

/// Share of the run's time in which a task was the running one, if the processor slept at all and it is known how long.
pub fn share_of(task: &Task, profile: &Profile) -> Option<String> {
    let slept_ns = profile.facts.slept_ns.filter(|&ns| ns > 0)?;
    let ns = |insns: u64, slept_ns: u64| (u128::from(insns) << profile.facts.icount_shift) + u128::from(slept_ns);
    Some(share_of_time(ns(task.insns, task.slept_ns), ns(profile.total_insns(), slept_ns)))
}

/// Share of a time, scaled to numbers that the share function accepts.
fn share_of_time(part_ns: u128, all_ns: u128) -> String {
    let too_long = all_ns.checked_ilog2().unwrap_or(0).saturating_sub(62);
    let parts = |ns: u128| u64::try_from(ns >> too_long).unwrap_or(u64::MAX);
    share(parts(part_ns), parts(all_ns))
}

/// Milliseconds with three decimals.
fn millis_of(ns: u128) -> String {
    let micros = ns / 1000;
    format!("{}.{:03} ms", group(u64::try_from(micros / 1000).unwrap_or(u64::MAX)), micros % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;

    #[test]
    fn a_time_says_what_an_instruction_was_taken_to_last_and_sleep_is_no_load() {
        let mut profile = empty().insn(0x40, 1_000_000);
        profile.facts.icount_shift = 5;
        let start = "time: 32.000 ms if each instruction takes 32 ns (--shift 5); CPU load ";
        assert_eq!(sentence(&profile), Some(format!("{start}100.00%")));
        profile.facts.slept_insns = 250_000;
        assert_eq!(sentence(&profile), Some(format!("{start}75.00%")));
        profile.facts.waits = 3;
        let slept = "at most 75.00% (the time of 3 waits for an interrupt is not known)";
        assert_eq!(sentence(&profile), Some(format!("{start}{slept}")));
        profile.facts.slept_ns = Some(0);
        assert_eq!(sentence(&profile), Some(format!("{start}75.00%")), "the waits took no time");
        // Asleep for twice as long as awake, and idle for a quarter of the instructions.
        profile.facts.slept_ns = Some(64_000_000);
        let slept = "time: 96.000 ms, of which the processor slept 64.000 ms in 3 waits for an interrupt, if each \
                     instruction takes 32 ns (--shift 5); CPU load 25.00%";
        assert_eq!(sentence(&profile).as_deref(), Some(slept));
        profile = profile.task_called("idle");
        (profile.tasks[0].insns, profile.tasks[0].slept_ns) = (250_000, 64_000_000);
        assert_eq!(share_of(&profile.tasks[0], &profile).as_deref(), Some("75.00%"));
        profile.vcpus.push(profile.vcpus[0].clone());
        assert_eq!(sentence(&profile), None);
        assert_eq!(sentence(&empty()), None);
    }
}
