// SPDX-License-Identifier: GPL-2.0-or-later
//! Semihosting's clocks. QEMU answers SYS_CLOCK, SYS_TIME and SYS_ELAPSED by the host's `clock`, `time` and
//! `clock_gettime`, which it calls in `do_common_semihosting` (semihosting/arm-compat-semi.c). The plugin recognises
//! these calls by their return address and answers them with the machine's own time, which repeats. The C library
//! answers all other calls.
//!
//! QEMU's calls are redirected in the program's table of functions, which the dynamic linker has filled in.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of answers given.
static ANSWERS: AtomicU64 = AtomicU64::new(0);

/// Number of reads of semihosting's clocks that were answered here.
pub(crate) fn answers() -> u64 {
    ANSWERS.load(Ordering::Relaxed)
}

/// Takes over the clocks. If this QEMU is not known, exports none of its functions, or was linked differently,
/// nothing is changed and [`answers`] stays 0.
pub(crate) fn answer() {
    #[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
    elf::take_over();
}

#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod elf {
    use std::arch::naked_asm;
    use std::ffi::{CStr, c_int, c_void};
    use std::mem;
    use std::ops::Range;
    use std::sync::OnceLock;
    use std::sync::atomic::Ordering;

    use libc::{clock_t, clockid_t, time_t, timespec};

    use wire::trick::CLOCKS;

    use super::super::symbol;
    use super::ANSWERS;
    use crate::qemu::program::Program;

    /// Flag of `dladdr1` that asks for the symbol, too.
    const RTLD_DL_SYMENT: c_int = 1;
    // Missing in the libc crate.
    unsafe extern "C" {
        #[link_name = "clock"]
        safe fn hosts_clock() -> clock_t;
        fn dladdr1(address: *const c_void, info: *mut libc::Dl_info, extra: *mut *mut c_void, flags: c_int) -> c_int;
    }

    /// `qemu_clock_get_ns` (include/qemu/timer.h), called for the clock that stands still while the machine does.
    type GetNs = unsafe extern "C" fn(c_int) -> i64;
    const QEMU_CLOCK_VIRTUAL: c_int = 1;

    /// 2000-01-01T00:00:00Z, the start of the machine's clocks.
    const BEGIN_S: i64 = 946_684_800;
    const NS_PER_S: i64 = 1_000_000_000;

    /// Addresses and values of QEMU's that the answers need.
    struct Qemu {
        /// Return addresses of semihosting's calls.
        semihosting: Range<usize>,
        get_ns: GetNs,
        /// Result of `clock_gettime` as QEMU started, in nanoseconds; QEMU subtracts it.
        start_ns: i64,
    }

    static QEMU: OnceLock<Qemu> = OnceLock::new();

    /// Virtual time in nanoseconds, if the caller is semihosting.
    fn virtual_ns(return_address: usize) -> Option<i64> {
        let qemu = QEMU.get().filter(|qemu| qemu.semihosting.contains(&return_address))?;
        ANSWERS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the function has this type and is called as QEMU would: on the vCPU's thread, outside of generated
        // code.
        Some(unsafe { (qemu.get_ns)(QEMU_CLOCK_VIRTUAL) })
    }

    extern "C" fn clock(return_address: usize) -> clock_t {
        match virtual_ns(return_address) {
            // Microseconds, as POSIX defines.
            Some(ns) => ns / 1000,
            None => hosts_clock(),
        }
    }

    unsafe extern "C" fn time(seconds: *mut time_t, return_address: usize) -> time_t {
        let Some(ns) = virtual_ns(return_address) else {
            // SAFETY: the caller's own arguments.
            return unsafe { libc::time(seconds) };
        };
        let now = BEGIN_S + ns / NS_PER_S;
        // SAFETY: null, or the caller's memory for the answer.
        if let Some(seconds) = unsafe { seconds.as_mut() } {
            *seconds = now;
        }
        now
    }

    unsafe extern "C" fn clock_gettime(clock: clockid_t, now: *mut timespec, return_address: usize) -> c_int {
        // SAFETY: null, or the caller's memory for the answer. Most callers are not semihosting and must be fast.
        let qemu = QEMU.get().zip(unsafe { now.as_mut() });
        let answer = qemu.and_then(|(qemu, now)| Some((qemu.start_ns + virtual_ns(return_address)?, now)));
        let Some((ns, now)) = answer else {
            // SAFETY: the caller's own arguments.
            return unsafe { libc::clock_gettime(clock, now) };
        };
        *now = timespec { tv_sec: ns / NS_PER_S, tv_nsec: ns % NS_PER_S };
        0
    }

    /// Entry point that passes its return address as one more argument of a function: in `$register` on x86-64, in
    /// `$other` on AArch64.
    macro_rules! entry {
        ($name:ident, $function:ident, $register:literal, $other:literal) => {
            #[unsafe(naked)]
            extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                naked_asm!(concat!("mov ", $register, ", [rsp]"), "jmp {}", sym $function);
                #[cfg(target_arch = "aarch64")]
                naked_asm!(concat!("mov ", $other, ", x30"), "b {}", sym $function);
            }
        };
    }
    entry!(clock_entry, clock, "rdi", "x0");
    entry!(time_entry, time, "rsi", "x1");
    entry!(clock_gettime_entry, clock_gettime, "rdx", "x2");

    /// Address range of a function's code.
    fn extent(function: *mut c_void) -> Option<Range<usize>> {
        // SAFETY: all zero is a valid, empty description.
        let mut info: libc::Dl_info = unsafe { mem::zeroed() };
        let mut entry: *mut c_void = std::ptr::null_mut();
        // SAFETY: both are memory for the linker's answer; the symbol stays where it is.
        let size = unsafe {
            if dladdr1(function, &mut info, &mut entry, RTLD_DL_SYMENT) == 0 {
                return None;
            }
            entry.cast::<libc::Elf64_Sym>().as_ref()?.st_size as usize
        };
        let start = function as usize;
        Some(start..start + size)
    }

    pub(super) fn take_over() {
        let Some(qemu) = find() else { return };
        let Some(program) = Program::find() else { return };
        let clocks: [(&CStr, extern "C" fn()); 3] =
            [(c"clock", clock_entry), (c"time", time_entry), (c"clock_gettime", clock_gettime_entry)];
        if QEMU.set(qemu).is_ok() {
            for (name, entry) in clocks {
                program.slots(name).into_iter().for_each(|slot| {
                    program.set(slot, entry as usize);
                });
            }
        }
    }

    fn find() -> Option<Qemu> {
        let semihosting = extent(symbol(&CLOCKS, c"do_common_semihosting")?)?;
        let get_ns = symbol(&CLOCKS, c"qemu_clock_get_ns")?;
        let start_ns = symbol(&CLOCKS, c"clock_start")?.cast::<i64>();
        // SAFETY: QEMU's functions and variables of these names have these types; the program itself exports them and
        // stays loaded. The variable was set before QEMU's main function began.
        unsafe {
            Some(Qemu { semihosting, get_ns: mem::transmute::<*mut c_void, GetNs>(get_ns), start_ns: *start_ns })
        }
    }
}
