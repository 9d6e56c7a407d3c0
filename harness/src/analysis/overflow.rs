// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects a run in which a stack pointer left its stack: what it wrote there belongs to others, so that the firmware is
//! broken even if it went on.

use crate::analysis::stacks;
use crate::profile::{End, LeftStack, Overflow, Profile, StackLeft};
use crate::text::number::{Hex, group};
use crate::text::printable::printable;

/// The stack that was left first, a task's or another one, and how.
pub fn first(profile: &Profile) -> Option<(LeftStack, Overflow)> {
    let tasks = profile.tasks.iter().enumerate();
    let tasks = tasks.filter_map(|(index, task)| Some((LeftStack::Task { index: index as u32 }, task.overflow?)));
    let main = profile.facts.stack_left.as_ref().map(|left| (LeftStack::Main, left.overflow));
    main.into_iter().chain(tasks).min_by_key(|(_, overflow)| overflow.at_insns)
}

/// End of a run that ended well but for such a stack. None: there is none, or the end is a failure of another kind, of
/// which it may be the cause.
pub fn find(profile: &Profile) -> Option<End> {
    if !profile.facts.end.is_good() && profile.facts.end != End::MaxInsns {
        return None;
    }
    let (stack, overflow) = first(profile)?;
    Some(End::StackOverflow { pc: overflow.pc, stack })
}

/// Describes that a stack pointer left its stack: *the stack of task net left its 512 bytes at instruction 80 in parse*.
/// None: it did not. `place` describes an address.
pub fn sentence(profile: &Profile, stack: LeftStack, place: impl Fn(u64) -> String) -> Option<String> {
    match stack {
        LeftStack::Task { index } => of_task(profile, index as usize, place),
        LeftStack::Main => of_main(profile, place),
        LeftStack::Memory { .. } => None,
    }
}

/// Memory that was left, and until when: its size, and the instruction, unless the window may have opened later.
fn extent(profile: &Profile, bytes: Option<u64>, start: u64, overflow: Overflow) -> String {
    let of = match bytes {
        Some(bytes) => format!("its {} bytes", group(bytes)),
        None => format!("its memory, which begins at {}", Hex(start)),
    };
    let preposition = if overflow.is_first { "at" } else { "by" };
    match profile.facts.before_window_insns {
        0 => format!("{of} {preposition} instruction {}", group(overflow.at_insns)),
        _ => of,
    }
}

fn of_task(profile: &Profile, index: usize, place: impl Fn(u64) -> String) -> Option<String> {
    let task = profile.tasks.get(index)?;
    let overflow = task.overflow?;
    let extent = extent(profile, task.stack_bytes(), task.stack_start.unwrap_or(0), overflow);
    let place = overflow.pc.map(place);
    let name = stacks::task_names(profile).swap_remove(index);
    let name = printable(&name);
    Some(match overflow.is_first {
        true => {
            let place = place.map(|place| format!(", at {place}")).unwrap_or_default();
            format!("the stack of task {name} left {extent}{place}")
        }
        false => {
            let place = place.map(|place| format!(", when it was interrupted at {place}")).unwrap_or_default();
            let more = "the kernel saved its registers below them; --exact finds the instruction";
            format!("the stack of task {name} had left {extent}{place}: {more}")
        }
    })
}

fn of_main(profile: &Profile, place: impl Fn(u64) -> String) -> Option<String> {
    let StackLeft { overflow, low, bytes, variable, is_heap, reached } = profile.facts.stack_left.as_ref()?;
    let extent = extent(profile, *bytes, *low, *overflow);
    let stack = match (variable, bytes) {
        (Some(variable), _) => format!("the stack in {}", printable(variable)),
        (None, Some(_)) => "the main stack".to_owned(),
        (None, None) => "a stack".to_owned(),
    };
    let place = overflow.pc.map(place);
    let reached = reached.as_ref().map(|reached| format!(", {}", printable(reached))).unwrap_or_default();
    Some(match overflow.is_first {
        true => {
            let place = place.map(|place| format!(", at {place}")).unwrap_or_default();
            format!("{stack} left {extent}{place}{reached}")
        }
        false => {
            let place = place.map(|place| format!(", noticed at {place}")).unwrap_or_default();
            // The heap may have grown into the stack: no instruction has moved the stack pointer.
            let more = if *is_heap { "" } else { "; --exact finds the instruction" };
            format!("{stack} had left {extent}{place}{reached}{more}")
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
        let overflow = Overflow { pc: Some(0x44), sp: 0x10, at_insns: 700, is_first: false };
        let main = StackLeft { overflow, low: 0x20, bytes: Some(96), variable: None, is_heap: false, reached: None };
        profile.facts.stack_left = Some(main);
        assert_eq!(find(&profile), Some(End::StackOverflow { pc: Some(0x44), stack: LeftStack::Main }));
        let said = sentence(&profile, LeftStack::Main, |pc| format!("{pc:#x}")).unwrap();
        let expected =
            "the main stack had left its 96 bytes by instruction 700, noticed at 0x44; --exact finds the instruction";
        assert_eq!(said, expected);
        profile.facts.end = End::Exit { status: 1, pc: 0x40 };
        assert_eq!(find(&profile), None, "the firmware has said what it is");
    }
}
