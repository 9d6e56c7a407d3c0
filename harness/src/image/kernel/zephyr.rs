// SPDX-License-Identifier: MIT OR Apache-2.0
//! Zephyr in an image: the member of `_kernel` that names the running thread, the code that changes it, and the places
//! of a thread's name and stack in its `k_thread`. All of it depends on the version and the configuration, so that the
//! offsets are read from DWARF, or from the kernel's table for debuggers.

use std::ops::Range;

use wire::request::{Exchange, Kernel, MAX_OFFSET_BYTES, Paint, StackEnd, TaskName};
use wire::timeline::{KnownObject, ObjectKind, ObjectMembers, State, StateValue, States, Waits};

use super::scan::{Member, Scan};
use super::table::{Elf, Table};
use super::tasks::{Block, Blocks, Extended, Listing, Saved, Source, Tasks};

/// Functions that assign the running thread: the ports' switches, and those of the kernel that choose a thread where
/// the port switches by a call (CONFIG_USE_SWITCH), or have those inlined. Debug information names any others.
const SWITCHERS: [&str; 15] = [
    "z_arm_pendsv",
    "arch_switch_to_main_thread",
    "z_arm_switch_to_main_no_multithreading",
    "z_cstart",
    "switch_to_main_thread",
    "z_dummy_thread_init",
    "do_swap",
    "z_swap",
    "z_swap_irqlock",
    "z_swap_unlocked",
    "z_swap_next_thread",
    "z_get_next_switch_handle",
    "z_current_thread_set",
    "z_riscv_switch",
    "__swap",
];

/// Byte that fills a stack (CONFIG_INIT_STACKS).
const PAINT: u8 = 0xaa;

/// Function that checks the word below the paint (CONFIG_STACK_SENTINEL).
const CHECK_SENTINEL: &str = "z_check_stack_sentinel";

/// Value of that word (kernel_internal.h).
const SENTINEL: u32 = 0xf0f0_f0f0;

/// Largest size of a thread's name (CONFIG_THREAD_MAX_NAME_LEN).
const MAX_NAME_BYTES: u64 = 128;

/// Bits of `thread_state` (kernel_structs.h), the decisive ones first: dead, pending, sleeping (before 4.1 not yet
/// started, and so never switched out), suspended. Without one of these bits a thread is ready.
const STATES: [(u64, State); 5] = [
    (1 << 3, State::Deleted),
    (1 << 1, State::Waiting { kind: ObjectKind::Unknown }),
    (1 << 2, State::Delayed),
    (1 << 4, State::Suspended),
    (0, State::Ready),
];

/// Structures that hold a queue of waiting threads. Others contain one of these, as `k_fifo` does a `k_queue`.
const OBJECTS: [(&str, ObjectKind); 14] = [
    (THREAD, ObjectKind::Thread),
    ("k_sem", ObjectKind::Semaphore),
    ("k_mutex", ObjectKind::Mutex),
    ("k_msgq", ObjectKind::Queue),
    ("k_queue", ObjectKind::QueueItem),
    ("k_stack", ObjectKind::QueueItem),
    ("k_condvar", ObjectKind::Condition),
    ("k_event", ObjectKind::EventGroup),
    ("k_pipe", ObjectKind::Pipe),
    ("k_mbox", ObjectKind::Mailbox),
    ("k_mem_slab", ObjectKind::Memory),
    ("k_heap", ObjectKind::Memory),
    ("k_mem_pool", ObjectKind::Memory),
    ("k_timer", ObjectKind::Timer),
];

/// Structure of a thread.
const THREAD: &str = "k_thread";

/// Members of `_callee_saved` by QEMU's names for their registers, for Cortex-M.
const ARM_REGISTERS: [(&str, &str); 9] = [
    ("v1", "r4"),
    ("v2", "r5"),
    ("v3", "r6"),
    ("v4", "r7"),
    ("v5", "r8"),
    ("v6", "r9"),
    ("v7", "r10"),
    ("v8", "r11"),
    ("psp", "sp"),
];

/// The same for RISC-V, where a thread goes on at its return address.
const RISCV_REGISTERS: [(&str, &str); 15] = [
    ("ra", "pc"),
    ("ra", "ra"),
    ("sp", "sp"),
    ("s0", "fp"),
    ("s1", "s1"),
    ("s2", "s2"),
    ("s3", "s3"),
    ("s4", "s4"),
    ("s5", "s5"),
    ("s6", "s6"),
    ("s7", "s7"),
    ("s8", "s8"),
    ("s9", "s9"),
    ("s10", "s10"),
    ("s11", "s11"),
];

/// Tables of offsets for debuggers (CONFIG_DEBUG_THREAD_INFO; up to version 2.5 CONFIG_OPENOCD_SUPPORT).
const TABLES: [&str; 2] = ["_kernel_thread_info_offsets", "_kernel_openocd_offsets"];

/// Places in the table: its version, the running thread in a CPU, a thread's stack pointer and its name.
const IN_TABLE: [usize; 4] = [0, 1, 8, 9];

/// Version of the table.
const TABLE_VERSION: u64 = 1;

/// Offset in the table of what the kernel does not have.
const NOT_THERE: u64 = 0xffff_ffff;

/// Bytes of a name that are read where only the table has its place; a zero ends it.
const NAME_BYTES: u64 = 32;

/// Byte offsets of the kernel's members.
struct Layout {
    /// Offset, in `_kernel`, of the first CPU's running thread.
    current: u64,
    name: Option<Range<u64>>,
    saved_sp: Option<u64>,
    /// Offsets of the stack's lowest address, and of its size.
    stack: Option<(u64, u64)>,
}

/// Searches for Zephyr. Also returns warnings, one sentence per cause.
pub(super) fn find(elf: &Elf<'_>) -> (Option<Kernel>, Vec<String>) {
    let table = &elf.table;
    let (Some(variable), Some(begin)) = (table.variable("_kernel", |bytes| bytes > 0), table.entry("z_thread_entry"))
    else {
        return (None, Vec::new());
    };
    let word = u64::from(elf.pointer_bytes());
    let extents = elf.extents();
    let (sections, damage) = match elf.sections(&extents) {
        Ok(sections) => (sections, None),
        Err(error) => (None, Some(error)),
    };
    let dwarf = sections.as_ref().map(|sections| sections.dwarf());
    let mut scan = dwarf.as_ref().map(Scan::new);
    let described = scan.as_ref().and_then(|scan| layout(scan, word));
    let cause = match damage {
        Some(error) => format!("the debug information of Zephyr cannot be read ({error})"),
        None => "there is no debug information of Zephyr's threads".to_owned(),
    };
    let (layout, warnings) = match (described, of_table(elf)) {
        (Some(layout), _) => (layout, Vec::new()),
        (None, Some(layout)) => {
            let warning = format!("{cause}: where their stacks are is not known; build it with CONFIG_DEBUG_INFO=y");
            (layout, vec![warning])
        }
        (None, None) => {
            let warning = format!("{cause}: its threads are not known; build it with CONFIG_DEBUG_INFO=y");
            return (None, vec![warning]);
        }
    };
    let inlined = scan.as_mut().map_or(Vec::new(), |scan| {
        scan.run(&[], &|name| SWITCHERS.contains(&name));
        std::mem::take(&mut scan.switchers)
    });
    let current = variable.address + layout.current;
    let kernel = Kernel {
        current: current..current + word,
        running: None,
        idle: Vec::new(),
        begins: vec![begin],
        idle_entries: table.entry("idle").into_iter().collect(),
        next: None,
        name: layout.name.map(|at| TaskName { at, is_pointer: false }),
        saved_sp: layout.saved_sp,
        stack: layout.stack.map(|(start, _)| start),
        stack_end: layout.stack.map(|(_, offset)| StackEnd { offset, bytes: word, is_size: true, plus_bytes: 0 }),
        paint: Some(match table.entry(CHECK_SENTINEL) {
            Some(_) => Paint::Guarded(SENTINEL, PAINT),
            None => Paint::Byte(PAINT),
        }),
        switchers: table.switchers(|name| SWITCHERS.contains(&name), &extents, &inlined),
        delete: ["z_impl_k_thread_abort", "k_thread_abort"].iter().find_map(|name| table.entry(name)),
        exit: None,
        is_first_running: false,
        leaves_by_jumps: !table.is_arm,
        saves_first: false,
        exchanges: exchanges(table),
        // Threads that are created for user mode (K_USER).
        called_begins: table.entry("arch_user_mode_enter").into_iter().collect(),
    };
    (Some(kernel), warnings)
}

/// Functions that exchange a thread's own stack for its privileged one: a system call, which the handler of SVC leaves the
/// thread in, and the way to user mode.
fn exchanges(table: &Table<'_>) -> Vec<Exchange> {
    let functions = [("z_arm_do_syscall", true), ("z_arm_userspace_enter", false)];
    let found = functions
        .into_iter()
        .filter_map(|(name, is_by_exception)| table.entry(name).map(|entry| Exchange { entry, is_by_exception }));
    found.collect()
}

/// Reads what the kernel's table for debuggers has of the layout; None: there is none, or of another version.
fn of_table(elf: &Elf<'_>) -> Option<Layout> {
    let variable = TABLES.iter().find_map(|name| elf.table.variable(name, |bytes| bytes > 0))?;
    let word = elf.pointer_bytes() as usize;
    let words: Vec<u64> = elf.constant(&variable)?.chunks_exact(word).map(little_endian).collect();
    let [version, current, saved_sp, name] = IN_TABLE.map(|index| {
        words.get(index).copied().filter(|&offset| offset != NOT_THERE && offset < MAX_OFFSET_BYTES / 4)
    });
    version.filter(|&version| version == TABLE_VERSION)?;
    Some(Layout {
        // The CPUs are first in `_kernel`.
        current: current?,
        name: name.map(|offset| offset..offset + NAME_BYTES),
        saved_sp,
        stack: None,
    })
}

/// Value of a word in the image.
fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Reads the layout; None: there is none of the running thread.
fn layout(scan: &Scan<'_, '_>, word: u64) -> Option<Layout> {
    let member = |structure: &str, name: &str| member(scan, structure, name);
    let pointer = |structure: &str, name: &str| member(structure, name).filter(|member| member.bytes == Some(word));
    // Where each CPU's members are in an unnamed union, the CPUs are first in `_kernel`.
    let cpus = member("z_kernel", "cpus").map_or(0, |member| member.offset);
    let saved = member("k_thread", "callee_saved");
    let saved_sp = ["psp", "sp"].iter().find_map(|name| pointer("_callee_saved", name));
    let info = member("k_thread", "stack_info");
    let stack = (pointer("_thread_stack_info", "start"), pointer("_thread_stack_info", "size"));
    Some(Layout {
        current: cpus + pointer("_cpu", "current")?.offset,
        name: member("k_thread", "name").and_then(|member| {
            let bytes = member.bytes.filter(|bytes| (1..=MAX_NAME_BYTES).contains(bytes))?;
            Some(member.offset..member.offset + bytes)
        }),
        saved_sp: saved.zip(saved_sp).map(|(saved, sp)| saved.offset + sp.offset),
        stack: info.and_then(|info| Some((info.offset + stack.0?.offset, info.offset + stack.1?.offset))),
    })
}

/// Member of a structure.
fn member(scan: &Scan<'_, '_>, structure: &str, name: &str) -> Option<Member> {
    let member = scan.members_of(structure, &[name])?.first().copied()??;
    Some(member).filter(|member| member.offset < MAX_OFFSET_BYTES / 4)
}

/// Layout that tells why a thread does not execute; None: it is not Zephyr, or there is no debug information.
pub(super) fn waits(elf: &Elf<'_>) -> Option<Waits> {
    elf.table.variable("_kernel", |bytes| bytes > 0)?;
    let sections = elf.sections(&elf.extents()).ok()??;
    states(&Scan::new(&sections.dwarf()), elf).map(Waits::States)
}

fn states(scan: &Scan<'_, '_>, elf: &Elf<'_>) -> Option<States> {
    let word = Some(u64::from(elf.pointer_bytes()));
    let base = member(scan, THREAD, "base")?.offset;
    let of_base = |name: &str| member(scan, "_thread_base", name);
    let state = of_base("thread_state").filter(|member| member.bytes == Some(1))?;
    // A node that is in no list has no next one.
    let time_limit = of_base("timeout").zip(member(scan, "_timeout", "node"));
    let items = member(scan, "k_msgq", "used_msgs").filter(|member| member.bytes == Some(4));
    let known = scan.instances(&OBJECTS.map(|(structure, _)| structure)).into_iter();
    let known = known.map(|(at, index)| {
        let [start, end] = [at.start, at.end].map(|address| address.wrapping_add(elf.table.load_bias));
        KnownObject { at: start..end, kind: OBJECTS[index].1 }
    });
    Some(States {
        state: base + state.offset..base + state.offset + 1,
        values: STATES.map(|(bits, state)| StateValue { mask: bits, value: bits, state }).to_vec(),
        object: of_base("pended_on").filter(|member| member.bytes == word).map(|member| base + member.offset),
        time_limit: time_limit.map(|(timeout, node)| base + timeout.offset + node.offset),
        known: known.filter(|object| object.at.start < object.at.end).collect(),
        kinds: vec![ObjectMembers {
            kind: ObjectKind::Queue,
            name: None,
            items: items.map(|items| items.offset..items.offset + 4),
        }],
    })
}

/// Threads as a debugger reads them: those of the kernel's list (CONFIG_THREAD_MONITOR), or those in variables.
pub(super) fn tasks(elf: &Elf<'_>) -> Option<Tasks> {
    let kernel = elf.table.variable("_kernel", |bytes| bytes > 0)?;
    let sections = elf.sections(&elf.extents()).ok()??;
    let dwarf = sections.dwarf();
    let scan = Scan::new(&dwarf);
    let states = states(&scan, elf)?;
    let chain = member(&scan, "z_kernel", "threads").zip(member(&scan, THREAD, "next_thread"));
    let threads = states.known.iter().filter(|known| known.kind == ObjectKind::Thread);
    let source = match chain {
        Some((threads, next)) => Source::Chain { first: kernel.address + threads.offset, next: next.offset },
        None => Source::Variables(threads.map(|known| known.at.start).collect()),
    };
    let callee_saved = member(&scan, THREAD, "callee_saved")?.offset;
    let names: &[(&str, &str)] = if elf.table.is_arm { &ARM_REGISTERS } else { &RISCV_REGISTERS };
    let registers = names
        .iter()
        .map(|&(name, register)| Some((register, callee_saved + member(&scan, "_callee_saved", name)?.offset)));
    // Some ports save no return address here, but all registers on the stack.
    let saved = registers.collect::<Option<_>>().map_or(Saved::Unknown, |registers| {
        Saved::Block(Block { registers, extended: extended(&scan).filter(|_| elf.table.is_arm) })
    });
    let blocks = Blocks { pointer_bytes: elf.pointer_bytes().into(), source, states };
    Some(Tasks { listing: Listing::Blocks(blocks), saved })
}

/// Member that says whether a thread has floating-point registers: a bit of EXC_RETURN's lowest byte that is clear then,
/// in older versions CONTROL.FPCA.
fn extended(scan: &Scan<'_, '_>) -> Option<Extended> {
    let arch = member(scan, THREAD, "arch")?.offset;
    let of_arch = |name: &str| Some(arch + member(scan, "_thread_arch", name)?.offset);
    let by_return = of_arch("mode_exc_return").map(|offset| Extended { offset, mask: 1 << 4, is_set: false });
    by_return.or_else(|| {
        of_arch("preempt_float")?;
        Some(Extended { offset: of_arch("mode")?, mask: 1 << 2, is_set: true })
    })
}
