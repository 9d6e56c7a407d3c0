//! Zephyr in an image: the member of `_kernel` that names the running thread, the code that changes it, and the places
//! of a thread's name and stack in its `k_thread`. All of it depends on the version and the configuration, so that the
//! offsets are read from DWARF.

use std::ops::Range;

use wire::request::{Kernel, MAX_OFFSET_BYTES, StackEnd, TaskName};

use super::scan::{Member, Scan};
use super::table::Elf;

/// Functions that assign the running thread: the ports' switches, and those of the kernel that choose a thread where
/// the port switches by a call (CONFIG_USE_SWITCH). The others have them inlined.
const SWITCHERS: [&str; 12] = [
    "z_arm_pendsv",
    "arch_switch_to_main_thread",
    "z_arm_switch_to_main_no_multithreading",
    "z_cstart",
    "switch_to_main_thread",
    "z_dummy_thread_init",
    "do_swap",
    "z_swap_next_thread",
    "z_get_next_switch_handle",
    "z_current_thread_set",
    "z_riscv_switch",
    "__swap",
];

/// Byte that fills a stack (CONFIG_INIT_STACKS).
const PAINT: u8 = 0xaa;

/// Largest size of a thread's name (CONFIG_THREAD_MAX_NAME_LEN).
const MAX_NAME_BYTES: u64 = 128;

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
    let sections = match elf.sections(&extents) {
        Ok(sections) => sections,
        Err(error) => {
            let warning =
                format!("the debug information of Zephyr cannot be read ({error}): its threads are not known");
            return (None, vec![warning]);
        }
    };
    let dwarf = sections.as_ref().map(|sections| sections.dwarf());
    let mut scan = dwarf.as_ref().map(Scan::new);
    let layout = scan.as_ref().and_then(|scan| layout(scan, word));
    let (Some(scan), Some(layout)) = (&mut scan, layout) else {
        let warning = "there is no debug information of Zephyr's threads, which are not known: build it with \
                       CONFIG_DEBUG_INFO=y";
        return (None, vec![warning.to_owned()]);
    };
    scan.run(&[], &|name| SWITCHERS.contains(&name));
    let current = variable.address + layout.current;
    let kernel = Kernel {
        current: current..current + word,
        running: None,
        idle: Vec::new(),
        begins: vec![begin],
        idle_entries: table.entry("idle").into_iter().collect(),
        name: layout.name.map(|at| TaskName { at, is_pointer: false }),
        saved_sp: layout.saved_sp,
        stack: layout.stack.map(|(start, _)| start),
        stack_end: layout.stack.map(|(_, offset)| StackEnd { offset, is_size: true, plus_bytes: 0 }),
        paint: Some(PAINT),
        switchers: table.switchers(|name| SWITCHERS.contains(&name), &extents, &scan.switchers),
        delete: ["z_impl_k_thread_abort", "k_thread_abort"].iter().find_map(|name| table.entry(name)),
    };
    (Some(kernel), Vec::new())
}

/// Reads the layout; None: there is none of the running thread.
fn layout(scan: &Scan<'_, '_>, word: u64) -> Option<Layout> {
    let member = |structure: &str, name: &str| -> Option<Member> {
        let member = scan.members_of(structure, &[name])?.first().copied()??;
        Some(member).filter(|member| member.offset < MAX_OFFSET_BYTES / 4)
    };
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
