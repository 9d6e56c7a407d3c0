// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel in an image, if it is a known one: its variable for the running task, and the code that changes it.
//!
//! Each kernel has a file here, and is turned into the record that the plugin gets ([`wire::request::Kernel`]; an
//! executor without stacks into [`wire::request::Poll`]s). No other code knows which kernel it is.

pub mod embassy;
pub mod freertos;
mod nuttx;
mod riot;
mod rtic;
mod scan;
mod table;
pub mod tasks;
mod threadx;
mod zephyr;

use table::Elf;
use tasks::Tasks;

pub use freertos::STACK_END_ADVICE;

/// Search for a kernel. Returns the kernel, if found, and warnings about unreadable parts, one sentence per cause.
type Find = fn(&Elf<'_>) -> (Option<wire::request::Kernel>, Vec<String>);

/// A kernel that is known.
struct Known {
    find: Find,
    /// Layout of the kernel's data that tell why a task does not execute.
    waits: fn(&Elf<'_>) -> Option<wire::timeline::Waits>,
    /// Tasks as a debugger reads them.
    tasks: fn(&Elf<'_>) -> Option<Tasks>,
}

/// Known kernels, in the order of the search.
const KNOWN: [Known; 5] = [
    Known {
        find: |elf| {
            let (kernel, warnings) = freertos::find_in(elf);
            (kernel.map(|kernel| kernel.request()), warnings)
        },
        waits: freertos::waits,
        tasks: freertos::tasks,
    },
    Known { find: threadx::find, waits: threadx::waits, tasks: threadx::tasks },
    Known { find: zephyr::find, waits: zephyr::waits, tasks: zephyr::tasks },
    Known { find: riot::find, waits: riot::waits, tasks: riot::tasks },
    Known { find: nuttx::find, waits: nuttx::waits, tasks: nuttx::tasks },
];

/// Layout of the kernel's data that tell why a task does not execute, if known.
pub fn waits(elf: Option<&[u8]>, load_bias: u64, arm: bool) -> Option<wire::timeline::Waits> {
    let elf = Elf::read(elf, load_bias, arm)?;
    KNOWN.iter().find_map(|known| (known.waits)(&elf))
}

/// Tasks of the kernel as a debugger reads them, if known.
pub fn tasks(elf: Option<&[u8]>, load_bias: u64, arm: bool) -> Option<Tasks> {
    let elf = Elf::read(elf, load_bias, arm)?;
    KNOWN.iter().find_map(|known| (known.tasks)(&elf))
}

/// Functions that the firmware's executors poll: Embassy's and RTIC's, sorted by their first addresses.
pub fn polls(elf: Option<&[u8]>, load_bias: u64, arm: bool) -> Vec<wire::request::Poll> {
    let mut polls = embassy::find(elf, load_bias, arm);
    polls.extend(rtic::find(elf, load_bias, arm));
    polls.sort_by_key(|poll| poll.entry);
    polls.dedup_by_key(|poll| poll.entry);
    polls
}

/// Searches for a kernel, given the file with the symbols, the load bias, and whether its code is Arm's. Also returns
/// warnings about unreadable parts of kernels that seem present, one sentence per cause.
pub fn find(elf: Option<&[u8]>, load_bias: u64, arm: bool) -> (Option<wire::request::Kernel>, Vec<String>) {
    let mut all_warnings = Vec::new();
    let Some(elf) = Elf::read(elf, load_bias, arm) else { return (None, all_warnings) };
    for known in &KNOWN {
        let (kernel, warnings) = (known.find)(&elf);
        all_warnings.extend(warnings);
        if kernel.is_some() {
            return (kernel, all_warnings);
        }
    }
    (None, all_warnings)
}

/// Offset of a member in a structure of the firmware, by its debug information.
pub(super) fn member_offset(
    elf: Option<&[u8]>,
    load_bias: u64,
    is_arm: bool,
    (structure, member): (&str, &str),
) -> Option<u64> {
    let elf = Elf::read(elf, load_bias, is_arm)?;
    let sections = elf.sections(&elf.extents()).ok()??;
    let dwarf = sections.dwarf();
    let members = scan::Scan::new(&dwarf).members_of(structure, &[member])?;
    members.first().copied()?.map(|member| member.offset)
}
