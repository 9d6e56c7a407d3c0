// SPDX-License-Identifier: MIT OR Apache-2.0
//! FreeRTOS in an image: the variable that names the running task, the code that changes it, and the places of a
//! task's name and stack in its control block. All of this depends on the kernel's version and configuration and on
//! the compiler, so nothing is built in. Variables and functions are found by their symbols, the layout through
//! DWARF.

mod control_block;
pub mod lists;
mod waits;

use std::ops::Range;

use control_block::Described;
use wire::timeline::Waits;

use super::scan::Scan;
use super::table::{Elf, Table, Variable};
use super::tasks::{ArmPort, Listing, Saved, Tasks};

/// FreeRTOS as found in an image. Addresses include the load bias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Address of `pxCurrentTCB`, or of the first element of `pxCurrentTCBs`.
    pub current: u64,
    /// Number of elements there: 1, or the cores of an SMP kernel.
    pub cores: u32,
    /// Size of a pointer.
    pub pointer_bytes: u32,
    /// Variable `xSchedulerRunning`.
    pub running: Option<Variable>,
    /// Addresses of the variables that hold the idle tasks. A kernel that never reads them may lack them.
    pub idle: Vec<u64>,
    /// Functions in which the idle tasks begin.
    pub idle_entries: Vec<u64>,
    /// Layout of the control block; None without DWARF, and then tasks have no names.
    pub layout: Option<Layout>,
    /// Code that may store to `pxCurrentTCB` or `xSchedulerRunning`, sorted, disjoint.
    pub switchers: Vec<Range<u64>>,
    /// First instruction of `vTaskDelete`.
    pub delete: Option<u64>,
}

/// Advice for a kernel that does not keep the ends of stacks.
pub const STACK_END_ADVICE: &str =
    "the kernel does not keep where stacks end: build it with configRECORD_STACK_HIGH_ADDRESS=1";

/// FreeRTOS's tskSTACK_FILL_BYTE.
const PAINT: u8 = 0xa5;

impl Kernel {
    /// Converts to the plugin's record, which any kernel could fill in.
    pub fn request(&self) -> wire::request::Kernel {
        let layout = self.layout.as_ref();
        let sized = |start: u64, bytes: u32| -> Range<u64> { start..start.saturating_add(bytes.into()) };
        wire::request::Kernel {
            current: sized(self.current, self.cores * self.pointer_bytes),
            running: self.running.as_ref().map(|running| sized(running.address, running.bytes)),
            idle: self.idle.clone(),
            begins: Vec::new(),
            idle_entries: self.idle_entries.clone(),
            next: None,
            name: layout.map(|layout| wire::request::TaskName { at: layout.name.clone(), is_pointer: false }),
            // tasks.c, tskTaskControlBlock: pxTopOfStack must be the first member.
            saved_sp: Some(0),
            stack: layout.map(|layout| layout.stack),
            stack_end: layout.and_then(|layout| layout.stack_end).map(|offset| wire::request::StackEnd {
                offset,
                bytes: self.pointer_bytes.into(),
                is_size: false,
                // The member holds the last word's address.
                plus_bytes: self.pointer_bytes.into(),
            }),
            paint: Some(wire::request::Paint::Byte(PAINT)),
            switchers: self.switchers.clone(),
            delete: self.delete,
            exit: None,
            is_first_running: false,
            leaves_by_jumps: false,
            saves_first: true,
            exchanges: Vec::new(),
            called_begins: Vec::new(),
        }
    }
}

/// Byte offsets in a control block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Offsets of `pcTaskName`.
    pub name: Range<u64>,
    /// Offset of `pxStack`, the stack's lowest address.
    pub stack: u64,
    /// Offset of `pxEndOfStack`, the stack's highest address, if the build has it (configRECORD_STACK_HIGH_ADDRESS).
    pub stack_end: Option<u64>,
}

/// Variables that hold the running task: one, or one per core.
const CURRENT: [&str; 2] = ["pxCurrentTCB", "pxCurrentTCBs"];

/// Functions of tasks.c that assign `pxCurrentTCB`, an element of `pxCurrentTCBs` or `xSchedulerRunning` (V11.2.0),
/// and their callers that may have them inlined, since only DWARF would show that. vTaskDelete only reads.
const SWITCHERS: [&str; 17] = [
    // Choice of the next task: by the macro taskSELECT_HIGHEST_PRIORITY_TASK, by a function on SMP kernels.
    "vTaskSwitchContext",
    "prvSelectHighestPriorityTask",
    // Before the scheduler runs: a new task may become the current one, and suspending one may leave none.
    "prvAddNewTaskToReadyList",
    "vTaskSuspend",
    // Start of the scheduler (the second function on SMP kernels), and its end.
    "vTaskStartScheduler",
    "prvCreateIdleTasks",
    "vTaskEndScheduler",
    "vTaskResetState",
    // Up to V8 this function contained the code of V9's prvAddNewTaskToReadyList. V10 is like V11 in all of these.
    "xTaskGenericCreate",
    // Callers of prvAddNewTaskToReadyList, which is static.
    "xTaskCreate",
    "xTaskCreateStatic",
    "xTaskCreateRestricted",
    "xTaskCreateRestrictedStatic",
    "xTaskCreateAffinitySet",
    "xTaskCreateStaticAffinitySet",
    "xTaskCreateRestrictedAffinitySet",
    "xTaskCreateRestrictedStaticAffinitySet",
];

/// Searches for FreeRTOS; `elf` is the file with the symbols. Also returns warnings about unreadable parts, one
/// sentence per cause.
pub fn find(elf: Option<&[u8]>, load_bias: u64, arm: bool) -> (Option<Kernel>, Vec<String>) {
    Elf::read(elf, load_bias, arm).map_or((None, Vec::new()), |elf| find_in(&elf))
}

/// Searches for FreeRTOS as [`find`] does, in an ELF that has been read.
pub(super) fn find_in(elf: &Elf<'_>) -> (Option<Kernel>, Vec<String>) {
    let (table, pointer_bytes) = (&elf.table, elf.pointer_bytes());
    let Some((current, cores)) = CURRENT.iter().find_map(|name| table.pointers(name, pointer_bytes)) else {
        return (None, Vec::new());
    };

    let extents = elf.extents();
    let (described, warnings) = describe(elf, &extents);
    let idle = ["xIdleTaskHandle", "xIdleTaskHandles"].iter().filter_map(|name| table.pointers(name, pointer_bytes));
    let kernel = Kernel {
        current,
        cores,
        pointer_bytes,
        running: table.variable("xSchedulerRunning", |bytes| (1..=8).contains(&bytes)),
        idle: idle
            .flat_map(|(start, count)| (0..count).map(move |n| start + u64::from(n) * u64::from(pointer_bytes)))
            .collect(),
        // The idle tasks of an SMP kernel's other cores begin in the second function (V11).
        idle_entries: ["prvIdleTask", "prvPassiveIdleTask"].iter().filter_map(|name| table.entry(name)).collect(),
        layout: described.layout,
        switchers: table.switchers(|name| SWITCHERS.contains(&name), &extents, &described.switchers),
        delete: table.entry("vTaskDelete"),
    };
    (Some(kernel), warnings)
}

/// FreeRTOS's lists of tasks, for a debugger; None: they are missing, or their layout is not a version's.
pub(super) fn tasks(elf: &Elf<'_>) -> Option<Tasks> {
    let lists = lists::find(&elf.table, elf.pointer_bytes())?;
    Some(Tasks {
        listing: Listing::Lists(lists),
        saved: if elf.table.is_arm { Saved::Ports(&ARM_PORTS) } else { Saved::TrapFrame },
    })
}

/// Registers that the ports for Cortex-M save besides the hardware's. The position of the handler's `lr` identifies the
/// port.
pub(crate) const ARM_PORTS: [ArmPort; 5] = [
    // ARM_CM4F, ARM_CM7.
    ArmPort::new(9, 0, Some(8), 9),
    // Ports for Armv8-M without TrustZone: the stack's limit, lr.
    ArmPort::new(10, 2, Some(1), 10),
    // Ports with TrustZone: the secure context, the stack's limit, lr.
    ArmPort::new(11, 3, Some(2), 11),
    // ARM_CM0 since V11.
    ArmPort::new(9, 1, Some(0), 9),
    // ARM_CM3, and ARM_CM0 before V11.
    ArmPort::new(8, 0, None, 8),
];

/// Layout of the lists and control blocks that tells why a task does not execute; None: symbols or DWARF lack it.
pub(super) fn waits(elf: &Elf<'_>) -> Option<Waits> {
    let sections = elf.sections(&elf.extents()).ok()??;
    waits::find(&elf.table, &sections.dwarf(), elf.pointer_bytes()).map(Waits::Lists)
}

/// Reads the layout from DWARF. Every failure costs details only, and becomes a warning.
fn describe(elf: &Elf<'_>, extents: &[Range<u64>]) -> (Described, Vec<String>) {
    let sections = match elf.sections(extents) {
        Ok(Some(sections)) => sections,
        Ok(None) => {
            let warning = "there is no debug information of the FreeRTOS kernel: tasks have no names; compile its \
                           tasks.c with -g";
            return (Described::default(), vec![warning.to_owned()]);
        }
        Err(error) => {
            let warning =
                format!("the debug information of the FreeRTOS kernel cannot be read ({error}): tasks have no names");
            return (Described::default(), vec![warning]);
        }
    };
    let dwarf = sections.dwarf();
    let described =
        control_block::describe(Scan::new(&dwarf), elf.pointer_bytes().into(), &|name| SWITCHERS.contains(&name));
    let mut warnings = Vec::new();
    if described.layout.is_none() {
        warnings.push(match (&described.implausible, &described.damage) {
            (Some(reason), _) => format!(
                "the debug information of the FreeRTOS kernel's control block makes no sense ({reason}): tasks have no \
                 names"
            ),
            (None, Some(error)) => format!(
                "the debug information of the FreeRTOS kernel is damaged ({error}): tasks have no names"
            ),
            (None, None) => "there is no debug information of the FreeRTOS kernel's control block: tasks have no \
                             names; compile its tasks.c with -g"
                .to_owned(),
        });
    } else if let Some(error) = &described.damage {
        warnings.push(format!(
            "the debug information is damaged ({error}): task switches are missed where the FreeRTOS kernel's \
             functions are inlined unnoticed"
        ));
    }
    (described, warnings)
}
