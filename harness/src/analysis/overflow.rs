// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects a run in which a task's stack pointer left the task's stack: what it wrote there belongs to others, so that the
//! firmware is broken even if it went on.

use crate::analysis::stacks;
use crate::profile::{End, LeftStack, Overflow, Profile};
use crate::text::number::{Hex, group};
use crate::text::printable::printable;

/// Index of the task whose stack pointer left its stack first, and how.
pub fn first(profile: &Profile) -> Option<(usize, Overflow)> {
    let tasks = profile.tasks.iter().enumerate();
    tasks.filter_map(|(index, task)| Some((index, task.overflow?))).min_by_key(|(_, overflow)| overflow.at_insns)
}

/// End of a run that ended well but for such a task. None: there is none, or the end is a failure of another kind, of
/// which it may be the cause.
pub fn find(profile: &Profile) -> Option<End> {
    if !profile.facts.end.is_good() && profile.facts.end != End::MaxInsns {
        return None;
    }
    let (index, overflow) = first(profile)?;
    Some(End::StackOverflow { pc: overflow.pc, stack: LeftStack::Task { index: index as u32 } })
}

/// Describes that a task's stack pointer left its stack: *the stack of task net left its 512 bytes at instruction 80 in
/// parse*. None: it did not. `place` describes an address.
pub fn sentence(profile: &Profile, index: usize, place: impl Fn(u64) -> String) -> Option<String> {
    let task = profile.tasks.get(index)?;
    let Overflow { pc, at_insns, is_first, .. } = task.overflow?;
    let of = match (task.stack_bytes(), task.stack_start) {
        (Some(bytes), _) => format!("its {} bytes", group(bytes)),
        (None, start) => format!("its memory, which begins at {}", Hex(start.unwrap_or(0))),
    };
    // The window may have opened later.
    let number = |at: &str| match profile.facts.before_window_insns {
        0 => format!(" {at} instruction {}", group(at_insns)),
        _ => String::new(),
    };
    let place = pc.map(place);
    let name = stacks::task_names(profile).swap_remove(index);
    let name = printable(&name);
    Some(match is_first {
        true => {
            let place = place.map(|place| format!(", at {place}")).unwrap_or_default();
            format!("the stack of task {name} left {of}{}{place}", number("at"))
        }
        false => {
            let place = place.map(|place| format!(", when it was interrupted at {place}")).unwrap_or_default();
            let more = "the kernel saved its registers below them; --exact finds the instruction";
            format!("the stack of task {name} had left {of}{}{place}: {more}", number("by"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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
