// SPDX-License-Identifier: MIT OR Apache-2.0
//! ThreadX in an image: the variable that names the running thread, which the ports' assembly stores to, and the
//! places of a thread's name and stack in its control block, through DWARF.
//!
//! While no thread is ready the variable is null, and so is the one for the next thread: the ports wait in the
//! scheduler, and no thread is the idle one.

use wire::request::{Kernel, MAX_OFFSET_BYTES, Paint, StackEnd, TaskName};
use wire::timeline::{ObjectKind, ObjectMembers, State, StateValue, States, Waits};

use super::scan::{Member, Scan};
use super::table::Elf;
use super::tasks::{ArmPort, Blocks, InFrame, Listing, Saved, Source, Tasks};

/// Variable that holds the running thread, or with several cores each one's (tx_thread.h).
const CURRENT: &str = "_tx_thread_current_ptr";

/// Variable that holds the thread that runs next; null while none is ready.
const NEXT: &str = "_tx_thread_execute_ptr";

/// Variable that holds the first of all threads, which are in a circle.
const FIRST: &str = "_tx_thread_created_ptr";

/// Functions that assign [`CURRENT`]: the ports' scheduler, and what saves or restores a thread's context.
const SWITCHERS: [&str; 8] = [
    "_tx_thread_schedule",
    "_tx_thread_system_return",
    "_tx_thread_context_save",
    "_tx_thread_context_restore",
    "_tx_thread_fiq_context_restore",
    // The ports for Cortex-M switch in this handler, under either name.
    "PendSV_Handler",
    "__tx_PendSVHandler",
    "_tx_initialize_kernel_enter",
];

/// The handler of the ports for Cortex-M, under either name.
const HANDLERS: [&str; 2] = ["PendSV_Handler", "__tx_PendSVHandler"];

/// Members of a control block (tx_api.h).
const MEMBERS: [&str; 4] = ["tx_thread_name", "tx_thread_stack_ptr", "tx_thread_stack_start", "tx_thread_stack_end"];

/// Values of `tx_thread_state` (tx_api.h) for which the thread could execute, sleeps, is suspended, or is over.
const STATES: [(u64, State); 5] =
    [(0, State::Ready), (1, State::Deleted), (2, State::Deleted), (3, State::Suspended), (4, State::Delayed)];

/// Objects: the value of `tx_thread_state` of a thread that waits for one, its kind, its structure, and the members for
/// its name and for the number of items in it.
const OBJECTS: [(u64, ObjectKind, &str, &str, &str); 6] = [
    (5, ObjectKind::Queue, "TX_QUEUE_STRUCT", "tx_queue_name", "tx_queue_enqueued"),
    (6, ObjectKind::Semaphore, "TX_SEMAPHORE_STRUCT", "tx_semaphore_name", ""),
    (7, ObjectKind::EventGroup, "TX_EVENT_FLAGS_GROUP_STRUCT", "tx_event_flags_group_name", ""),
    (8, ObjectKind::Memory, "TX_BLOCK_POOL_STRUCT", "tx_block_pool_name", ""),
    (9, ObjectKind::Memory, "TX_BYTE_POOL_STRUCT", "tx_byte_pool_name", ""),
    (13, ObjectKind::Mutex, "TX_MUTEX_STRUCT", "tx_mutex_name", ""),
];

/// Ports for Cortex-M: r4 to r11, s16 to s31 and lr from above to below; before V6.1 lr above r4.
const PORTS: [ArmPort; 2] = [ArmPort::new(9, 1, Some(0), 1), ArmPort::new(9, 0, Some(8), 9)];

/// Ports for Cortex-M0 and M23, which store r8 to r11 below r4 to r7.
const SMALL_PORTS: [ArmPort; 1] = [ArmPort { words: 9, kept: [5, 6, 7, 8, 1, 2, 3, 4], lr: Some(0), float: 1 }];

/// Registers in both frames of the port for RISC-V, from the second word on, by QEMU's names.
const PRESERVED: [&str; 12] = ["s11", "s10", "s9", "s8", "s7", "s6", "s5", "s4", "s3", "s2", "s1", "fp"];

/// Registers that follow in the frame of a thread that a trap has interrupted.
const OTHERS: [&str; 15] = ["t6", "t5", "t4", "t3", "t2", "t1", "t0", "a7", "a6", "a5", "a4", "a3", "a2", "a1", "a0"];

/// Byte of TX_STACK_FILL.
const PAINT: u8 = 0xef;

/// Searches for ThreadX. Also returns warnings, one sentence per cause.
pub(super) fn find(elf: &Elf<'_>) -> (Option<Kernel>, Vec<String>) {
    let (table, pointer_bytes) = (&elf.table, elf.pointer_bytes());
    let Some((current, cores)) = table.pointers(CURRENT, pointer_bytes) else { return (None, Vec::new()) };
    let extents = elf.extents();
    let word = u64::from(pointer_bytes);
    let read = |scan: &mut Scan<'_, '_>| scan.members_pointed_to(&[CURRENT], &MEMBERS);
    let absent = "there is no debug information of ThreadX's control block: threads have no names; compile the kernel \
                  with -g";
    let (members, warnings) = elf.described(&extents, read, absent, ("ThreadX", "threads have no names"));
    let members = members.unwrap_or_default();
    let is_pointer = |member: &Member| member.bytes == Some(word) && member.offset < MAX_OFFSET_BYTES - word;
    let offset = |index: usize| Some(members.get(index).copied()?.filter(is_pointer)?.offset);
    let kernel = Kernel {
        current: current..current + u64::from(cores) * word,
        running: None,
        idle: Vec::new(),
        // Assembly that nothing describes, on the stack of the kernel's start.
        begins: table.entry("_tx_thread_schedule").into_iter().collect(),
        idle_entries: Vec::new(),
        next: table.pointers(NEXT, pointer_bytes).map(|(next, cores)| next..next + u64::from(cores) * word),
        name: offset(0).map(|offset| TaskName { at: offset..offset + word, is_pointer: true }),
        saved_sp: offset(1),
        stack: offset(2),
        // The member holds the last byte's address.
        stack_end: offset(3).map(|offset| StackEnd { offset, bytes: word, is_size: false, plus_bytes: 1 }),
        paint: Some(Paint::Byte(PAINT)),
        switchers: table.switchers(|name| SWITCHERS.contains(&name), &extents, &[]),
        delete: table.entry("_tx_thread_delete"),
        exit: None,
        is_first_running: false,
        leaves_by_jumps: !table.is_arm,
        saves_first: false,
        exchanges: Vec::new(),
        called_begins: Vec::new(),
    };
    (Some(kernel), warnings)
}

/// Layout that tells why a thread does not execute; None: there is no debug information of it.
pub(super) fn waits(elf: &Elf<'_>) -> Option<Waits> {
    let sections = elf.sections(&elf.extents()).ok()??;
    states(&mut Scan::new(&sections.dwarf()), elf).map(Waits::States)
}

fn states(scan: &mut Scan<'_, '_>, elf: &Elf<'_>) -> Option<States> {
    let word = u64::from(elf.pointer_bytes());
    let wanted = ["tx_thread_state", "tx_thread_suspend_control_block"];
    let block = scan.members_pointed_to(&[CURRENT], &wanted)?;
    let is_pointer = |member: &Member| member.bytes == Some(word) && member.offset < MAX_OFFSET_BYTES - word;
    let state = block[0].filter(|member| member.bytes == Some(4) && member.offset < MAX_OFFSET_BYTES - 4)?;
    let kinds = OBJECTS.iter().filter_map(|&(_, kind, structure, name, items)| {
        let members = scan.members_of(structure, &[name, items])?;
        let is_count = |member: &Member| member.bytes == Some(4) && member.offset < MAX_OFFSET_BYTES - 4;
        let items = members[1].filter(is_count).map(|items| items.offset..items.offset + 4);
        Some(ObjectMembers { kind, name: members[0].filter(is_pointer).map(|name| name.offset), items })
    });
    let waiting = OBJECTS.iter().map(|&(value, kind, ..)| (value, State::Waiting { kind }));
    let values = STATES.into_iter().chain(waiting);
    Some(States {
        state: state.offset..state.offset + 4,
        values: values.map(|(value, state)| StateValue { mask: u64::MAX, value, state }).collect(),
        object: block[1].filter(is_pointer).map(|object| object.offset),
        time_limit: None,
        known: Vec::new(),
        kinds: kinds.collect(),
    })
}

/// Threads as a debugger reads them; None: there is no debug information of them.
pub(super) fn tasks(elf: &Elf<'_>) -> Option<Tasks> {
    let sections = elf.sections(&elf.extents()).ok()??;
    let dwarf = sections.dwarf();
    let mut scan = Scan::new(&dwarf);
    let states = states(&mut scan, elf)?;
    let next = scan.members_pointed_to(&[CURRENT], &["tx_thread_created_next"])?[0]?;
    let (first, _) = elf.table.pointers(FIRST, elf.pointer_bytes())?;
    let saved = match elf.stores_below(&HANDLERS) {
        _ if !elf.table.is_arm => Saved::Frames(frames(elf)),
        Some(true) => Saved::Ports(&PORTS),
        Some(false) => Saved::Ports(&SMALL_PORTS),
        None => Saved::Unknown,
    };
    let pointer_bytes = elf.pointer_bytes().into();
    let blocks = Blocks { pointer_bytes, source: Source::Chain { first, next: next.offset }, states };
    Some(Tasks { listing: Listing::Blocks(blocks), saved })
}

/// Frames of the port for RISC-V by their first word: of a thread that gave up the processor, and of one that a trap has
/// interrupted (tx_thread_system_return.S, tx_thread_context_save.S). Floating-point registers are behind the others.
fn frames(elf: &Elf<'_>) -> Vec<(u64, Vec<(&'static str, InFrame)>)> {
    let word = u64::from(elf.pointer_bytes());
    let at = |index: u64| InFrame::At(index * word);
    let end = |words: u64| ("sp", InFrame::End(words * word));
    let kept = PRESERVED.iter().zip(1..).map(|(&name, index)| (name, at(index)));
    let others = OTHERS.iter().zip(13..).map(|(&name, index)| (name, at(index)));
    let has_float = elf.passes_floats();
    let given_up = kept.clone().chain([("ra", at(13)), ("pc", at(13)), end(if has_float { 29 } else { 16 })]);
    let interrupted =
        kept.chain(others).chain([("ra", at(28)), ("pc", at(30)), end(if has_float { 65 } else { 32 })]);
    vec![(0, given_up.collect()), (1, interrupted.collect())]
}
