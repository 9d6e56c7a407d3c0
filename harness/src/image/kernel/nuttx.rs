// SPDX-License-Identifier: MIT OR Apache-2.0
//! NuttX in an image: the array that names each core's running task, which the ports store to as they switch, and the
//! places of a task's name and stack in its control block, through DWARF. Without it the kernel's table for debuggers,
//! `g_tcbinfo`, has the places of the name and of the saved registers.
//!
//! The kernel's start becomes the idle task, on the firmware's first stack.

use wire::request::{Kernel, MAX_OFFSET_BYTES, Paint, StackEnd, TaskName};
use wire::timeline::{ObjectKind, State, States, Waits};

use super::scan::{Member, Scan};
use super::table::{Elf, Variable};
use super::tasks::{Blocks, InFrame, Listing, Saved, Source, Tasks};

/// Variable that holds each core's running task (nx_start.c).
const CURRENT: &str = "g_running_tasks";

/// Functions that assign [`CURRENT`]: the kernel's start, and the ports' handlers and exits.
const SWITCHERS: [&str; 7] = [
    "nx_start",
    "idle_task_initialize",
    "arm_doirq",
    "riscv_doirq",
    "riscv_perform_syscall",
    "up_exit",
    "nx_idle_trampoline",
];

/// Functions in which tasks begin, which nothing calls: the kernel's start, and what starts tasks and threads.
const BEGINS: [&str; 2] = ["nxtask_start", "pthread_start"];

/// STACK_COLOR of the ports.
const PAINT: u32 = 0xdead_beef;

/// Largest size of a task's name (CONFIG_TASK_NAME_SIZE) with its end.
const MAX_NAME_BYTES: u64 = 256;

/// Bytes of a name that are read where only the kernel's table has its place; a zero ends it.
const NAME_BYTES: u64 = 32;

/// Table for debuggers (sched.h): numbers of 16 bits each, followed by a pointer to the registers' offsets.
const INFO: &str = "g_tcbinfo";

/// Places in the table: offset of the name, offset of the pointer to the saved registers, number of registers.
const NAME_INDEX: usize = 3;
const REGISTERS_INDEX: usize = 6;
const COUNT_INDEX: usize = 7;

/// Offset in the table of the pointer to the offsets of the registers, in GDB's order.
const OFFSETS_AT: usize = 16;

/// Offset of a register that is not saved.
const NOT_THERE: u64 = 0xffff;

/// Variables with the array of all tasks, and with its length (nx_start.c).
const ALL: (&str, &str) = ("g_pidhash", "g_npidhash");

/// Registers in the order of GDB's feature org.gnu.gdb.arm.m-profile, by QEMU's names.
const ARM_REGISTERS: [&str; 17] =
    ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "sp", "lr", "pc", "xpsr"];

/// The same of org.gnu.gdb.riscv.cpu.
const RISCV_REGISTERS: [&str; 33] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
    "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6", "pc",
];

/// Values of a task's `task_state` (sched.h), whose numbers differ by version and configuration. Mutexes are semaphores.
const STATES: [(&str, State); 13] = [
    ("TSTATE_TASK_INVALID", State::Deleted),
    ("TSTATE_TASK_PENDING", State::Ready),
    ("TSTATE_TASK_READYTORUN", State::Ready),
    ("TSTATE_TASK_ASSIGNED", State::Ready),
    ("TSTATE_TASK_RUNNING", State::Ready),
    ("TSTATE_TASK_INACTIVE", State::Suspended),
    ("TSTATE_TASK_STOPPED", State::Suspended),
    ("TSTATE_SLEEPING", State::Delayed),
    ("TSTATE_WAIT_SEM", State::Waiting { kind: ObjectKind::Semaphore }),
    // A task that sleeps by a signal waits for one, too.
    ("TSTATE_WAIT_SIG", State::Waiting { kind: ObjectKind::Unknown }),
    ("TSTATE_WAIT_MQNOTEMPTY", State::Waiting { kind: ObjectKind::QueueItem }),
    ("TSTATE_WAIT_MQNOTFULL", State::Waiting { kind: ObjectKind::QueueRoom }),
    ("TSTATE_WAIT_PAGEFILL", State::Waiting { kind: ObjectKind::Memory }),
];

/// Member that points to the semaphore or message queue that a task waits for (sched.h).
const OBJECT: &str = "waitobj";

/// Byte offsets in a control block.
#[derive(Default)]
struct Layout {
    name: Option<(u64, u64)>,
    saved_sp: Option<u64>,
    /// Offsets of the stack's lowest address, and of its size.
    stack: Option<(u64, u64)>,
}

/// Searches for NuttX. Also returns warnings, one sentence per cause.
pub(super) fn find(elf: &Elf<'_>) -> (Option<Kernel>, Vec<String>) {
    let (table, pointer_bytes) = (&elf.table, elf.pointer_bytes());
    let Some((current, cores)) = table.pointers(CURRENT, pointer_bytes) else {
        let is_older = table.variable("g_readytorun", |_| true).is_some() && table.entry("nx_start").is_some();
        let warning = "this NuttX has no g_running_tasks, as versions before 12 have not: its tasks are told apart by \
                       their stacks";
        return (None, if is_older { vec![warning.to_owned()] } else { Vec::new() });
    };
    let extents = elf.extents();
    let word = u64::from(pointer_bytes);
    let mut inlined = Vec::new();
    let read = |scan: &mut Scan<'_, '_>| {
        scan.run(&[], &|name| SWITCHERS.contains(&name));
        inlined = std::mem::take(&mut scan.switchers);
        layout(scan, word)
    };
    let absent = "there is no debug information of NuttX's tasks: where their stacks are is not known; build it with \
                  CONFIG_DEBUG_SYMBOLS=y";
    let lost = ("NuttX", "where its tasks' stacks are is not known");
    let (described, warnings) = elf.described(&extents, read, absent, lost);
    let layout = described.or_else(|| of_table(elf)).unwrap_or_default();
    let kernel = Kernel {
        current: current..current + u64::from(cores) * word,
        running: None,
        idle: Vec::new(),
        begins: BEGINS.iter().filter_map(|name| table.entry(name)).collect(),
        // The idle task calls it in its loop, and no other task does.
        idle_entries: table.entry("up_idle").into_iter().collect(),
        next: None,
        name: layout.name.map(|(offset, bytes)| TaskName { at: offset..offset + bytes, is_pointer: false }),
        saved_sp: layout.saved_sp,
        stack: layout.stack.map(|(start, _)| start),
        stack_end: layout.stack.map(|(_, offset)| StackEnd { offset, bytes: word, is_size: true, plus_bytes: 0 }),
        paint: Some(Paint::Word(PAINT)),
        switchers: table.switchers(|name| SWITCHERS.contains(&name), &extents, &inlined),
        delete: table.entry("nxsched_release_tcb"),
        exit: None,
        is_first_running: true,
        leaves_by_jumps: false,
        saves_first: false,
        exchanges: Vec::new(),
        called_begins: Vec::new(),
    };
    (Some(kernel), warnings)
}

/// Reads the layout from DWARF; None: the control block is not described.
fn layout(scan: &mut Scan<'_, '_>, word: u64) -> Option<Layout> {
    let wanted = ["name", "xcp", "stack_base_ptr", "adj_stack_size"];
    let members = scan.members_pointed_to(&[CURRENT], &wanted)?;
    let member = |index: usize| -> Option<Member> {
        members.get(index).copied().flatten().filter(|member| member.offset < MAX_OFFSET_BYTES / 4)
    };
    let is_word = |member: &Member| member.bytes == Some(word);
    let registers = scan.members_of("xcptcontext", &["regs"]).and_then(|members| members[0]).filter(is_word);
    let stack = (member(2).filter(is_word), member(3).filter(is_word));
    Some(Layout {
        name: member(0).and_then(|name| {
            let bytes = name.bytes.filter(|bytes| (1..=MAX_NAME_BYTES).contains(bytes))?;
            Some((name.offset, bytes))
        }),
        // The registers are saved on the stack.
        saved_sp: member(1).zip(registers).map(|(context, registers)| context.offset + registers.offset),
        stack: stack.0.zip(stack.1).map(|(start, size)| (start.offset, size.offset)),
    })
}

/// Reads what the kernel's table for debuggers has of the layout. It names the stack's allocation only, the upper part
/// of which the kernel takes for itself.
fn of_table(elf: &Elf<'_>) -> Option<Layout> {
    let bytes = info(elf)?;
    Some(Layout {
        // 0: tasks have no names.
        name: short(bytes, NAME_INDEX).filter(|&offset| offset != 0).map(|offset| (offset, NAME_BYTES)),
        saved_sp: short(bytes, REGISTERS_INDEX),
        stack: None,
    })
}

/// Bytes of the kernel's table for debuggers.
fn info<'a>(elf: &Elf<'a>) -> Option<&'a [u8]> {
    let variable = elf.table.variable(INFO, |bytes| bytes >= 16)?;
    elf.constant(&variable)
}

/// Number of 16 bits in a table.
fn short(bytes: &[u8], index: usize) -> Option<u64> {
    let bytes = bytes.get(2 * index..2 * index + 2)?;
    Some(u64::from(u16::from_le_bytes(bytes.try_into().ok()?)))
}

/// Layout that tells why a task does not execute; None: it is not NuttX, or there is no debug information.
pub(super) fn waits(elf: &Elf<'_>) -> Option<Waits> {
    elf.table.pointers(CURRENT, elf.pointer_bytes())?;
    let sections = elf.sections(&elf.extents()).ok()??;
    states(&mut Scan::new(&sections.dwarf()), elf).map(Waits::States)
}

fn states(scan: &mut Scan<'_, '_>, elf: &Elf<'_>) -> Option<States> {
    scan.states(CURRENT, "task_state", &STATES, Some(OBJECT), elf.pointer_bytes().into())
}

/// Tasks as a debugger reads them; None: there is no debug information of them.
pub(super) fn tasks(elf: &Elf<'_>) -> Option<Tasks> {
    elf.table.pointers(CURRENT, elf.pointer_bytes())?;
    let sections = elf.sections(&elf.extents()).ok()??;
    let states = states(&mut Scan::new(&sections.dwarf()), elf)?;
    let (array, count) = ALL;
    let start = elf.table.pointers(array, elf.pointer_bytes())?.0;
    let count = elf.table.variable(count, |bytes| bytes == 4)?.address;
    let source = Source::AllocatedArray { start, count };
    let blocks = Blocks { pointer_bytes: elf.pointer_bytes().into(), source, states };
    Some(Tasks { listing: Listing::Blocks(blocks), saved: frame(elf).map_or(Saved::Unknown, Saved::Frame) })
}

/// Places of a task's registers, from the kernel's table for debuggers; None: there is no table.
fn frame(elf: &Elf<'_>) -> Option<Vec<(&'static str, InFrame)>> {
    let info = info(elf)?;
    let names: &[&str] = if elf.table.is_arm { &ARM_REGISTERS } else { &RISCV_REGISTERS };
    let pointer = info.get(OFFSETS_AT..OFFSETS_AT + elf.pointer_bytes() as usize)?;
    let address = pointer.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
    let address = address.wrapping_add(elf.table.load_bias);
    let offsets = elf.constant(&Variable { address, bytes: 2 * names.len() as u32 })?;
    // The first of RISC-V's registers is always zero.
    let first = usize::from(!elf.table.is_arm);
    let count = short(info, COUNT_INDEX)?.min(names.len() as u64) as usize;
    let known = (first..count).filter_map(|index| {
        let offset = short(offsets, index).filter(|&offset| offset != NOT_THERE)?;
        Some((names[index], InFrame::At(offset)))
    });
    Some(known.collect())
}
