//! How long a run took by the firmware's own clock, and how busy the processor was: instructions are what is counted, and
//! how long each takes is an assumption that has to be said with every time.

use crate::profile::Profile;
use crate::text::number::{group, plural, share};

/// Instructions spent doing nothing: in the kernel's idle tasks, and where a processor would have slept in a `wfe`.
pub fn idle_insns(profile: &Profile) -> u64 {
    let tasks: u64 = profile.tasks.iter().filter(|task| task.is_idle).map(|task| task.insns).sum();
    tasks.saturating_add(profile.facts.slept_insns)
}

/// The time of the window's instructions and the load, in a sentence; None: nothing was executed, or by several CPUs,
/// which take turns.
///
/// How long a `wfi` slept is in no profile: with one the load is known from above only.
pub fn sentence(profile: &Profile) -> Option<String> {
    let total = profile.total_insns();
    if total == 0 || profile.vcpus.len() > 1 {
        return None;
    }
    let shift = profile.facts.icount_shift;
    let micros = (u128::from(total) << shift) / 1000;
    let millis = format!("{}.{:03} ms", group(u64::try_from(micros / 1000).unwrap_or(u64::MAX)), micros % 1000);
    let busy = share(total.saturating_sub(idle_insns(profile)), total);
    let load = match profile.facts.waits {
        0 => format!("CPU load {busy}"),
        waits => {
            let waits = plural(waits, "wait");
            format!("CPU load at most {busy}, less by what it slept in {waits} for an interrupt, which takes none")
        }
    };
    Some(format!(
        "time: {millis} for the instructions, if each takes {} ns (--shift {shift}); {load}",
        1_u64 << shift
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;

    #[test]
    fn a_time_says_what_an_instruction_was_taken_to_last_and_sleep_is_no_load() {
        let mut profile = empty().insn(0x40, 1_000_000);
        profile.facts.icount_shift = 5;
        let start = "time: 32.000 ms for the instructions, if each takes 32 ns (--shift 5); CPU load ";
        assert_eq!(sentence(&profile), Some(format!("{start}100.00%")));
        profile.facts.slept_insns = 250_000;
        assert_eq!(sentence(&profile), Some(format!("{start}75.00%")));
        profile.facts.waits = 3;
        let slept = "at most 75.00%, less by what it slept in 3 waits for an interrupt, which takes none";
        assert_eq!(sentence(&profile), Some(format!("{start}{slept}")));
        profile.vcpus.push(profile.vcpus[0].clone());
        assert_eq!(sentence(&profile), None);
        assert_eq!(sentence(&empty()), None);
    }
}
