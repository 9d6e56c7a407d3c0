// SPDX-License-Identifier: MIT OR Apache-2.0
//! RIOT in an image: the variable that names the running thread, which the scheduler stores to, and the places of a
//! thread's name and stack in its control block, through DWARF. Without it the kernel's table for OpenOCD has the
//! name's place.
//!
//! The scheduler names the next thread before the port saves the registers of the previous one. Without an idle thread
//! it waits inside the exception that switches.

use wire::request::{Kernel, MAX_OFFSET_BYTES, Paint, StackEnd, TaskName};
use wire::timeline::{ObjectKind, State, States, Waits};

use super::scan::{Member, Scan};
use super::table::Elf;
use super::tasks::{ArmPort, Blocks, InFrame, Listing, Saved, Source, Tasks};

/// Variable that holds the running thread (sched.h).
const CURRENT: &str = "sched_active_thread";

/// Functions that assign [`CURRENT`] (sched.c).
const SWITCHERS: [&str; 2] = ["sched_run", "sched_task_exit"];

/// Array of pointers to all threads, by number (sched.c).
const THREADS: &str = "sched_threads";

/// Handler that switches on Cortex-M (thread_arch.c).
const HANDLER: [&str; 1] = ["isr_pendsv"];

/// Port for Cortex-M: r4 to r11, lr, and above them s16 to s31 (thread_arch.c).
const PORT: [ArmPort; 1] = [ArmPort::new(9, 0, Some(8), 9)];

/// Port for Cortex-M0 and M23, which stores r8 to r11 below r4 to r7.
const SMALL_PORT: [ArmPort; 1] = [ArmPort { words: 9, kept: [4, 5, 6, 7, 0, 1, 2, 3], lr: Some(8), float: 9 }];

/// Structure of the port for RISC-V in which a thread's registers are saved (context_frame.h).
const FRAME: &str = "context_switch_frame";

/// Its members, by the registers' names.
const FRAME_MEMBERS: [&str; 29] = [
    "pc", "ra", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "s2", "s3", "s4", "s5",
    "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

/// Members of a control block (thread.h).
const MEMBERS: [&str; 4] = ["sp", "name", "stack_start", "stack_size"];

/// Variable that holds the offset of a thread's name, one byte (sched.c, for OpenOCD).
const NAME_OFFSET: &str = "_tcb_name_offset";

/// Values of a thread's `status` (sched.h), whose numbers differ by version. A thread that sleeps for a time waits for a
/// mutex, which a timer unlocks.
const STATES: [(&str, State); 13] = [
    ("STATUS_STOPPED", State::Deleted),
    ("STATUS_ZOMBIE", State::Deleted),
    ("STATUS_SLEEPING", State::Suspended),
    ("STATUS_MUTEX_BLOCKED", State::Waiting { kind: ObjectKind::Mutex }),
    ("STATUS_RECEIVE_BLOCKED", State::Waiting { kind: ObjectKind::QueueItem }),
    ("STATUS_SEND_BLOCKED", State::Waiting { kind: ObjectKind::QueueRoom }),
    ("STATUS_REPLY_BLOCKED", State::Waiting { kind: ObjectKind::QueueItem }),
    ("STATUS_FLAG_BLOCKED_ANY", State::Waiting { kind: ObjectKind::EventGroup }),
    ("STATUS_FLAG_BLOCKED_ALL", State::Waiting { kind: ObjectKind::EventGroup }),
    ("STATUS_MBOX_BLOCKED", State::Waiting { kind: ObjectKind::Mailbox }),
    ("STATUS_COND_BLOCKED", State::Waiting { kind: ObjectKind::Condition }),
    ("STATUS_RUNNING", State::Ready),
    ("STATUS_PENDING", State::Ready),
];

/// Searches for RIOT. Also returns warnings, one sentence per cause.
pub(super) fn find(elf: &Elf<'_>) -> (Option<Kernel>, Vec<String>) {
    let (table, pointer_bytes) = (&elf.table, elf.pointer_bytes());
    let Some((current, 1)) = table.pointers(CURRENT, pointer_bytes) else { return (None, Vec::new()) };
    let extents = elf.extents();
    let word = u64::from(pointer_bytes);
    let mut inlined = Vec::new();
    let read = |scan: &mut Scan<'_, '_>| {
        scan.run(&[], &|name| SWITCHERS.contains(&name));
        inlined = std::mem::take(&mut scan.switchers);
        scan.members_pointed_to(&[CURRENT], &MEMBERS)
    };
    let absent = "there is no debug information of RIOT's threads: where their stacks are is not known; compile the \
                  kernel with -g";
    let lost = ("RIOT", "where its threads' stacks are is not known");
    let (members, warnings) = elf.described(&extents, read, absent, lost);
    let members = members.unwrap_or_default();
    let member = |index: usize, bytes: &[u64]| {
        let is_meant = |member: &Member| {
            member.bytes.is_some_and(|size| bytes.contains(&size)) && member.offset < MAX_OFFSET_BYTES - word
        };
        members.get(index).copied().flatten().filter(is_meant)
    };
    let pointer = |index: usize| member(index, &[word]).map(|member| member.offset);
    let name = pointer(1).or_else(|| {
        let offset = table.variable(NAME_OFFSET, |bytes| bytes == 1).and_then(|variable| elf.constant(&variable))?;
        Some(u64::from(*offset.first()?)).filter(|_| members.is_empty())
    });
    let kernel = Kernel {
        current: current..current + word,
        running: None,
        idle: Vec::new(),
        begins: Vec::new(),
        idle_entries: table.entry("idle_thread").into_iter().collect(),
        next: None,
        name: name.map(|offset| TaskName { at: offset..offset + word, is_pointer: true }),
        // thread.h and the ports' assembly: sp is the first member.
        saved_sp: Some(pointer(0).unwrap_or(0)),
        stack: pointer(2),
        // The size is an int on 64-bit processors, too.
        stack_end: member(3, &[4, 8]).zip(pointer(2)).map(|(size, _)| StackEnd {
            offset: size.offset,
            bytes: size.bytes.unwrap_or(word),
            is_size: true,
            plus_bytes: 0,
        }),
        paint: Some(Paint::OwnAddress),
        switchers: table.switchers(|name| SWITCHERS.contains(&name), &extents, &inlined),
        delete: None,
        exit: table.entry("sched_task_exit"),
        is_first_running: false,
        leaves_by_jumps: false,
        saves_first: false,
        exchanges: Vec::new(),
        called_begins: Vec::new(),
    };
    (Some(kernel), warnings)
}

/// Layout that tells why a thread does not execute; None: it is not RIOT, or there is no debug information. What a thread
/// waits for is not in its control block, but its kind is.
pub(super) fn waits(elf: &Elf<'_>) -> Option<Waits> {
    elf.table.pointers(CURRENT, elf.pointer_bytes())?;
    let sections = elf.sections(&elf.extents()).ok()??;
    states(&mut Scan::new(&sections.dwarf()), elf).map(Waits::States)
}

fn states(scan: &mut Scan<'_, '_>, elf: &Elf<'_>) -> Option<States> {
    scan.states(CURRENT, "status", &STATES, None, elf.pointer_bytes().into())
}

/// Threads as a debugger reads them; None: there is no debug information of them.
pub(super) fn tasks(elf: &Elf<'_>) -> Option<Tasks> {
    elf.table.pointers(CURRENT, elf.pointer_bytes())?;
    let sections = elf.sections(&elf.extents()).ok()??;
    let dwarf = sections.dwarf();
    let mut scan = Scan::new(&dwarf);
    let states = states(&mut scan, elf)?;
    let all = elf.table.variable(THREADS, |bytes| bytes > 0)?;
    let source = Source::Array(all.address..all.address + u64::from(all.bytes));
    let blocks = Blocks { pointer_bytes: elf.pointer_bytes().into(), source, states };
    let saved = match elf.stores_below(&HANDLER) {
        _ if !elf.table.is_arm => frame(&scan),
        Some(true) => Saved::Ports(&PORT),
        Some(false) => Saved::Ports(&SMALL_PORT),
        None => Saved::Unknown,
    };
    Some(Tasks { listing: Listing::Blocks(blocks), saved })
}

/// Frame in which the port for RISC-V saves a thread's registers.
fn frame(scan: &Scan<'_, '_>) -> Saved {
    let places = || {
        let members = scan.members_of(FRAME, &FRAME_MEMBERS)?;
        let registers = FRAME_MEMBERS.iter().zip(members).map(|(&member, found)| {
            // QEMU calls x8 `fp`.
            let name = if member == "s0" { "fp" } else { member };
            Some((name, InFrame::At(found.filter(|found| found.offset < MAX_OFFSET_BYTES)?.offset)))
        });
        let mut registers: Vec<(&str, InFrame)> = registers.collect::<Option<_>>()?;
        let end = scan.bytes_of(FRAME).filter(|&bytes| bytes < MAX_OFFSET_BYTES)?;
        registers.push(("sp", InFrame::End(end)));
        Some(registers)
    };
    places().map_or(Saved::Unknown, Saved::Frame)
}
