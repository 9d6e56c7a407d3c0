//! The kernel in an image, if one that is known is there: where it keeps the running task, and what tells that it
//! changes.
//!
//! Each kernel has one file here, and becomes the one record that the plugin is asked with
//! ([`wire::request::Kernel`]; of an executor without stacks [`wire::request::Poll`]s). Nothing else knows which
//! kernel it is.

pub mod embassy;
pub mod freertos;

pub use freertos::STACK_END_ADVICE;

/// How a kernel is looked for: the file with the symbols, the load bias, whether its code is Arm's. Returns the
/// kernel, if it is there, and what could not be read, one sentence per cause.
type Find = fn(elf: Option<&[u8]>, load_bias: u64, arm: bool) -> (Option<wire::request::Kernel>, Vec<String>);

/// The kernels that are known, in the order in which they are looked for.
const KNOWN: [Find; 1] = [|elf, load_bias, arm| {
    let (kernel, warnings) = freertos::find(elf, load_bias, arm);
    (kernel.map(|kernel| kernel.request()), warnings)
}];

/// Where the kernel of an image says why a task does not execute, where that is known.
pub fn waits(elf: Option<&[u8]>, load_bias: u64, arm: bool) -> Option<wire::timeline::Waits> {
    freertos::waits(elf, load_bias, arm)
}

/// Looks for a kernel. Also says what could not be read of those that seem to be there, one sentence per cause.
pub fn find(elf: Option<&[u8]>, load_bias: u64, arm: bool) -> (Option<wire::request::Kernel>, Vec<String>) {
    let mut all_warnings = Vec::new();
    for find in KNOWN {
        let (kernel, warnings) = find(elf, load_bias, arm);
        all_warnings.extend(warnings);
        if kernel.is_some() {
            return (kernel, all_warnings);
        }
    }
    (None, all_warnings)
}
