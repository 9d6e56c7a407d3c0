// SPDX-License-Identifier: GPL-2.0-or-later
//! Commands for the host. QEMU executes SYS_SYSTEM with the C library's `system` (`host_system`,
//! semihosting/syscalls.c), and calls `system` nowhere else. The plugin replaces `system` by a function that refuses:
//! no command runs, even if the kernel and QEMU's own sandbox would allow it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of refused commands.
static REFUSALS: AtomicU64 = AtomicU64::new(0);

/// Number of commands refused here.
pub(crate) fn refused() -> u64 {
    REFUSALS.load(Ordering::Relaxed)
}

/// Refuses commands from now on. False: this QEMU calls `system` in an unknown way, and may run them.
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

    /// Replaces `system`. A null command asks whether there is a shell; the answer is no.
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
        // Set every slot, even after one has failed.
        let set = slots.iter().filter(|&&slot| program.set(slot, refused as *const () as usize)).count();
        !slots.is_empty() && set == slots.len()
    }
}
