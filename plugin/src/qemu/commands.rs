//! Commands for the host. QEMU answers SYS_SYSTEM by the C library's `system` (`host_system`, semihosting/syscalls.c), and
//! calls it for nothing else. A function that refuses stands in its place: no command runs, whatever the kernel and
//! QEMU's own sandbox would let through.

use std::sync::atomic::{AtomicU64, Ordering};

/// Commands that were refused.
static REFUSALS: AtomicU64 = AtomicU64::new(0);

/// How many commands have been refused here.
pub(crate) fn refused() -> u64 {
    REFUSALS.load(Ordering::Relaxed)
}

/// Has commands refused from now on. False: this QEMU calls `system` in a way that is not known, and may run them.
pub(crate) fn refuse() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
    return elf::refuse();
    #[cfg(not(all(
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )))]
    return false;
}

#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod elf {
    use std::ffi::{c_char, c_int};
    use std::sync::atomic::Ordering;

    use super::REFUSALS;
    use crate::qemu::program::Program;

    /// Status of a shell that could not be executed, as `system` returns it (system(3)).
    const NO_SHELL: c_int = 127 << 8;

    /// In place of `system`. Without a command it is asked whether there is a shell.
    extern "C" fn refused(command: *const c_char) -> c_int {
        if command.is_null() {
            return 0;
        }
        REFUSALS.fetch_add(1, Ordering::Relaxed);
        NO_SHELL
    }

    pub(super) fn refuse() -> bool {
        let Some(program) = Program::find() else { return false };
        let slots = program.slots(c"system");
        // Each of them, whatever became of the others.
        let set = slots.iter().filter(|&&slot| program.set(slot, refused as *const () as usize)).count();
        !slots.is_empty() && set == slots.len()
    }
}
