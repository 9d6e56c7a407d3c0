// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time of a run by the firmware's own clock, and load of the processor. By default only instructions are counted; the time
//! of each is an assumption, which must be stated with every time. With `--cycles` and a frequency the clock shows the time of
//! the cycles.

use std::collections::BTreeSet;

use crate::analysis::cycles;
use crate::profile::{Profile, Task};
use crate::text::number::{frequency, group, plural, share};

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

/// Frequency of the cycles by which the machine's clock went; None: it counted instructions.
pub fn clock_hz(profile: &Profile) -> Option<u64> {
    profile.cycles.as_ref().and_then(|cycles| cycles.clock_hz)
}

/// Nanoseconds that the window's instructions took by the machine's clock; what the machine slept comes beside.
pub fn awake_ns(profile: &Profile) -> u128 {
    match (&profile.cycles, clock_hz(profile)) {
        (Some(cycles), Some(hz)) => ns_of(cycles.clock, hz),
        _ => profile.facts.insns_ns(profile.total_insns()),
    }
}

/// Nanoseconds that cycles take, those that have begun included.
pub fn ns_of(cycles: u64, hz: u64) -> u128 {
    (u128::from(cycles) * 1_000_000_000).div_ceil(u128::from(hz.max(1)))
}

/// Time of what was idle while the processor was awake, as [`idle_insns`] has it.
fn idle_ns(profile: &Profile) -> u128 {
    let Some(hz) = clock_hz(profile) else {
        return profile.facts.insns_ns(idle_insns(profile));
    };
    let idle = profile.tasks.iter().filter(|task| task.is_idle).map(|task| task_ns(task, profile));
    let insns = profile.cycles.iter().flat_map(|cycles| &cycles.insns).map(|insn| (insn.pc, insn.cycles));
    // What the code that waits calls is counted in instructions, each of which takes a cycle or more.
    let waiting = profile.facts.waiting.insns(insns, profile.facts.waiting.called_insns);
    idle.sum::<u128>() + ns_of(waiting, hz)
}

/// Nanoseconds in which a task was the running one, while the processor was awake.
fn task_ns(task: &Task, profile: &Profile) -> u128 {
    profile.facts.insns_ns(task.insns) + u128::from(task.ahead_ns)
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
    let assumed = assumption(profile);
    let awake_ns = awake_ns(profile);
    let busy_ns = awake_ns.saturating_sub(idle_ns(profile));
    if let Some(slept_ns) = profile.facts.slept_ns.filter(|&ns| ns > 0) {
        let all_ns = awake_ns + u128::from(slept_ns);
        let busy = share_of_time(busy_ns, all_ns);
        let slept = millis_of(u128::from(slept_ns));
        let waits = plural(profile.facts.waits, "wait");
        return Some(format!(
            "time: {}, of which the processor slept {slept} in {waits} for an interrupt, {assumed}; CPU load {busy}",
            millis_of(all_ns)
        ));
    }
    let busy = share_of_time(busy_ns, awake_ns);
    let load = match (profile.facts.waits, profile.facts.slept_ns) {
        (0, _) | (_, Some(_)) => format!("CPU load {busy}"),
        (waits, None) => {
            let waits = plural(waits, "wait");
            format!("CPU load at most {busy} (the time of {waits} for an interrupt is not known)")
        }
    };
    let millis = millis_of(awake_ns);
    Some(format!("time: {millis} {assumed}; {load}"))
}

/// Basis of the run's times: the clock's frequency, or the time that each instruction is taken to last.
pub fn assumption(profile: &Profile) -> String {
    let shift = profile.facts.icount_shift;
    match clock_hz(profile) {
        Some(hz) if cycles::are_known(profile) => format!("at {}", frequency(hz)),
        Some(hz) => format!("at {}, and longer by instructions whose cycles are not known", frequency(hz)),
        None => format!("if each instruction takes {} ns (--shift {shift})", 1_u64 << shift),
    }
}

/// Share of the run's time in which a task was the running one, if the processor slept at all and it is known how long.
pub fn share_of(task: &Task, profile: &Profile) -> Option<String> {
    let slept_ns = profile.facts.slept_ns.filter(|&ns| ns > 0)?;
    let slept = |ns: u64| u128::from(ns);
    Some(share_of_time(task_ns(task, profile) + slept(task.slept_ns), awake_ns(profile) + slept(slept_ns)))
}

/// Share of a time, scaled to numbers that the share function accepts.
fn share_of_time(part_ns: u128, all_ns: u128) -> String {
    let too_long = all_ns.checked_ilog2().unwrap_or(0).saturating_sub(62);
    let parts = |ns: u128| u64::try_from(ns >> too_long).unwrap_or(u64::MAX);
    share(parts(part_ns), parts(all_ns))
}

/// Milliseconds with three decimals.
pub(super) fn millis_of(ns: u128) -> String {
    let micros = ns / 1000;
    format!("{}.{:03} ms", group(u64::try_from(micros / 1000).unwrap_or(u64::MAX)), micros % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Cycles;
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

    #[test]
    fn a_clock_that_follows_cycles_needs_no_assumption_but_the_frequency() {
        let mut profile = empty().insn(0x40, 1_000_000);
        profile.cycles = Some(Cycles { clock: 3_000_000, clock_hz: Some(150_000_000), ..Cycles::default() });
        assert_eq!(sentence(&profile).as_deref(), Some("time: 20.000 ms at 150 MHz; CPU load 100.00%"));
        (profile.facts.slept_ns, profile.facts.waits) = (Some(5_000_000), 5);
        let slept = "time: 25.000 ms, of which the processor slept 5.000 ms in 5 waits for an interrupt, at 150 MHz; \
                     CPU load 80.00%";
        assert_eq!(sentence(&profile).as_deref(), Some(slept));
        profile = profile.task_called("idle");
        (profile.tasks[0].insns, profile.tasks[0].ahead_ns) = (100_000, 15_000_000 - 100_000);
        (profile.tasks[0].is_idle, profile.facts.icount_shift) = (true, 0);
        assert!(sentence(&profile).unwrap().ends_with("at 150 MHz; CPU load 20.00%"), "{:?}", sentence(&profile));
        assert_eq!(share_of(&profile.tasks[0], &profile).as_deref(), Some("60.00%"));
        profile.cycles.as_mut().unwrap().unknown = vec![0x40];
        let longer = "at 150 MHz, and longer by instructions whose cycles are not known; CPU load 20.00%";
        assert!(sentence(&profile).unwrap().ends_with(longer));
    }
}
