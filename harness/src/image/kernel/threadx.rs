//! ThreadX in an image: the variable that names the running thread, which the ports' assembly stores to, and the
//! places of a thread's name and stack in its control block, through DWARF.
//!
//! While no thread is ready the variable is null: the ports wait in the scheduler, and no thread is the idle one.

use wire::request::{Kernel, MAX_OFFSET_BYTES, Paint, StackEnd, TaskName};

use super::scan::{Member, Scan};
use super::table::Elf;

/// Variable that holds the running thread, or with several cores each one's (tx_thread.h).
const CURRENT: &str = "_tx_thread_current_ptr";

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

/// Members of a control block (tx_api.h).
const MEMBERS: [&str; 4] = ["tx_thread_name", "tx_thread_stack_ptr", "tx_thread_stack_start", "tx_thread_stack_end"];

/// Byte of TX_STACK_FILL.
const PAINT: u8 = 0xef;

/// Searches for ThreadX. Also returns warnings, one sentence per cause.
pub(super) fn find(elf: &Elf<'_>) -> (Option<Kernel>, Vec<String>) {
    let (table, pointer_bytes) = (&elf.table, elf.pointer_bytes());
    let Some((current, cores)) = table.pointers(CURRENT, pointer_bytes) else { return (None, Vec::new()) };
    let extents = elf.extents();
    let word = u64::from(pointer_bytes);
    let (members, warnings) = match elf.sections(&extents) {
        Ok(sections) => {
            let members =
                sections.and_then(|sections| Scan::new(&sections.dwarf()).members_pointed_to(&[CURRENT], &MEMBERS));
            let warning = "there is no debug information of ThreadX's control block: threads have no names; compile \
                           the kernel with -g";
            let warnings = if members.is_some() { Vec::new() } else { vec![warning.to_owned()] };
            (members.unwrap_or_default(), warnings)
        }
        Err(error) => (
            Vec::new(),
            vec![format!("the debug information of ThreadX cannot be read ({error}): threads have no names")],
        ),
    };
    let is_pointer = |member: &Member| member.bytes == Some(word) && member.offset < MAX_OFFSET_BYTES - word;
    let offset = |index: usize| Some(members.get(index).copied()?.filter(is_pointer)?.offset);
    let kernel = Kernel {
        current: current..current + u64::from(cores) * word,
        running: None,
        idle: Vec::new(),
        // Assembly that nothing describes, on the stack of the kernel's start.
        begins: table.entry("_tx_thread_schedule").into_iter().collect(),
        idle_entries: Vec::new(),
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
    };
    (Some(kernel), warnings)
}
