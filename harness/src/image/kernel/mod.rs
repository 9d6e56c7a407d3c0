//! Kernel in an image, if it is a known one: its variable for the running task, and the code that changes it.
//!
//! Each kernel has a file here, and is turned into the record that the plugin gets ([`wire::request::Kernel`]; an
//! executor without stacks into [`wire::request::Poll`]s). No other code knows which kernel it is.

pub mod embassy;
pub mod freertos;
mod nuttx;
mod riot;
mod scan;
mod table;
mod threadx;
mod zephyr;

use table::Elf;

pub use freertos::STACK_END_ADVICE;

/// Search for a kernel. Returns the kernel, if found, and warnings about unreadable parts, one sentence per cause.
type Find = fn(&Elf<'_>) -> (Option<wire::request::Kernel>, Vec<String>);

/// Known kernels, in the order of the search.
const KNOWN: [Find; 5] = [
    |elf| {
        let (kernel, warnings) = freertos::find_in(elf);
        (kernel.map(|kernel| kernel.request()), warnings)
    },
    threadx::find,
    zephyr::find,
    riot::find,
    nuttx::find,
];

/// Layout of the kernel's data that tell why a task does not execute, if known.
pub fn waits(elf: Option<&[u8]>, load_bias: u64, arm: bool) -> Option<wire::timeline::Waits> {
    freertos::waits(elf, load_bias, arm)
}

/// Searches for a kernel, given the file with the symbols, the load bias, and whether its code is Arm's. Also returns warnings about unreadable parts of kernels that seem present, one sentence per
/// cause.
pub fn find(elf: Option<&[u8]>, load_bias: u64, arm: bool) -> (Option<wire::request::Kernel>, Vec<String>) {
    let mut all_warnings = Vec::new();
    let Some(elf) = Elf::read(elf, load_bias, arm) else { return (None, all_warnings) };
    for find in KNOWN {
        let (kernel, warnings) = find(&elf);
        all_warnings.extend(warnings);
        if kernel.is_some() {
            return (kernel, all_warnings);
        }
    }
    (None, all_warnings)
}
