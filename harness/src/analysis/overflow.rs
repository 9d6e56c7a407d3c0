// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects a run in which a task's stack pointer left the task's stack: what it wrote there belongs to others, so that the
//! firmware is broken even if it went on.

use crate::profile::{End, LeftStack, Profile, Task};

/// The task whose stack pointer left its stack first, and its index.
pub fn first(profile: &Profile) -> Option<(usize, &Task)> {
    let tasks = profile.tasks.iter().enumerate();
    tasks
        .filter_map(|(index, task)| Some((task.overflow?.at_insns, (index, task))))
        .min_by_key(|(at, _)| *at)
        .map(|(_, task)| task)
}

/// End of a run that ended well but for such a task. None: there is none, or the end is a failure of another kind, of
/// which it may be the cause.
pub fn find(profile: &Profile) -> Option<End> {
    if !profile.facts.end.is_good() && profile.facts.end != End::MaxInsns {
        return None;
    }
    let (index, task) = first(profile)?;
    Some(End::StackOverflow { pc: task.overflow?.pc, stack: LeftStack::Task { index: index as u32 } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Overflow;
    use crate::profile::testing::empty;

    #[test]
    fn the_first_task_that_left_its_stack_is_the_end_of_a_run_that_ended_well() {
        let mut profile = empty().task_called("net").task_called("log").task_called("led");
        assert_eq!(find(&profile), None);
        for (index, at_insns) in [(1, 900), (2, 800)] {
            let overflow = Overflow { pc: Some(0x40 + at_insns), sp: 0x10, at_insns, is_first: true };
            profile.tasks[index].overflow = Some(overflow);
        }
        let expected = End::StackOverflow { pc: Some(0x40 + 800), stack: LeftStack::Task { index: 2 } };
        assert_eq!(find(&profile), Some(expected));
        profile.facts.end = End::Exit { status: 1, pc: 0x40 };
        assert_eq!(find(&profile), None, "the firmware has said what it is");
    }
}
