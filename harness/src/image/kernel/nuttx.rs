//! NuttX in an image: the array that names each core's running task, which the ports store to as they switch, and the
//! places of a task's name and stack in its control block, through DWARF. Without it the kernel's table for debuggers,
//! `g_tcbinfo`, has the places of the name and of the saved registers.
//!
//! The kernel's start becomes the idle task, on the firmware's first stack.

use wire::request::{Kernel, MAX_OFFSET_BYTES, Paint, StackEnd, TaskName};
use wire::timeline::{ObjectKind, State, Waits};

use super::scan::{Member, Scan};
use super::table::Elf;

/// Variable that holds each core's running task (nx_start.c).
const CURRENT: &str = "g_running_tasks";

/// Functions that assign [`CURRENT`]: the kernel's start, and the ports' handlers and exits.
const SWITCHERS: [&str; 6] =
    ["nx_start", "arm_doirq", "riscv_doirq", "riscv_perform_syscall", "up_exit", "nx_idle_trampoline"];

/// Functions in which tasks begin, which nothing calls: the kernel's start, and what starts tasks and threads.
const BEGINS: [&str; 2] = ["nxtask_start", "pthread_start"];

/// STACK_COLOR of the ports.
const PAINT: u32 = 0xdead_beef;

/// Largest size of a task's name (CONFIG_TASK_NAME_SIZE) with its end.
const MAX_NAME_BYTES: u64 = 256;

/// Bytes of a name that are read where only the kernel's table has its place; a zero ends it.
const NAME_BYTES: u64 = 32;

/// Table for debuggers (sched.h): offsets of 16 bits each, of which this is the name's, and that of the registers.
const INFO: (&str, usize, usize) = ("g_tcbinfo", 3, 6);

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
    let (name, name_index, registers_index) = INFO;
    let variable = elf.table.variable(name, |bytes| bytes >= 16)?;
    let bytes = elf.constant(&variable)?;
    let offset = |index: usize| {
        let bytes = bytes.get(2 * index..2 * index + 2)?;
        Some(u64::from(u16::from_le_bytes(bytes.try_into().ok()?)))
    };
    Some(Layout {
        // 0: tasks have no names.
        name: offset(name_index).filter(|&offset| offset != 0).map(|offset| (offset, NAME_BYTES)),
        saved_sp: offset(registers_index),
        stack: None,
    })
}

/// Layout that tells why a task does not execute; None: it is not NuttX, or there is no debug information.
pub(super) fn waits(elf: &Elf<'_>) -> Option<Waits> {
    let word = elf.pointer_bytes();
    elf.table.pointers(CURRENT, word)?;
    let sections = elf.sections(&elf.extents()).ok()??;
    let states = Scan::new(&sections.dwarf()).states(CURRENT, "task_state", &STATES, Some(OBJECT), word.into());
    states.map(Waits::States)
}
