//! Semihosting's clocks. QEMU answers SYS_CLOCK, SYS_TIME and SYS_ELAPSED by the host's `clock`, `time` and
//! `clock_gettime`, which it calls in `do_common_semihosting` (semihosting/arm-compat-semi.c). Those calls, told by
//! where they return to, are answered here by the machine's own time, which repeats; all others by the C library.
//!
//! What QEMU calls is found where the dynamic linker has written it: in the program's table of functions.

use std::sync::atomic::{AtomicU64, Ordering};

/// Answers that have been given.
static ANSWERS: AtomicU64 = AtomicU64::new(0);

/// How often one of semihosting's clocks has been read here.
pub(crate) fn answers() -> u64 {
    ANSWERS.load(Ordering::Relaxed)
}

/// Takes the clocks over. Where that cannot be done, because this QEMU is not known, shows none of its functions or was
/// linked otherwise, nothing is changed and [`answers`] stays as it is.
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

    /// As dladdr, with the symbol.
    const RTLD_DL_SYMENT: c_int = 1;
    // Not in the crate.
    unsafe extern "C" {
        #[link_name = "clock"]
        safe fn hosts_clock() -> clock_t;
        fn dladdr1(address: *const c_void, info: *mut libc::Dl_info, extra: *mut *mut c_void, flags: c_int) -> c_int;
    }

    /// `qemu_clock_get_ns` (include/qemu/timer.h), and its clock that stands still while the machine does.
    type GetNs = unsafe extern "C" fn(c_int) -> i64;
    const QEMU_CLOCK_VIRTUAL: c_int = 1;

    /// 2000-01-01T00:00:00Z, where the machine's clocks begin.
    const BEGIN_S: i64 = 946_684_800;
    const NS_PER_S: i64 = 1_000_000_000;

    /// What is needed of QEMU.
    struct Qemu {
        /// Where semihosting's calls return to.
        semihosting: Range<usize>,
        get_ns: GetNs,
        /// What `clock_gettime` said as QEMU started, which it subtracts.
        start_ns: i64,
    }

    static QEMU: OnceLock<Qemu> = OnceLock::new();

    /// Virtual time, where the caller is semihosting.
    fn virtual_ns(return_address: usize) -> Option<i64> {
        let qemu = QEMU.get().filter(|qemu| qemu.semihosting.contains(&return_address))?;
        ANSWERS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the function has this type and is called where QEMU would: on the vCPU's thread, outside of the
        // guest's code.
        Some(unsafe { (qemu.get_ns)(QEMU_CLOCK_VIRTUAL) })
    }

    extern "C" fn clock(return_address: usize) -> clock_t {
        match virtual_ns(return_address) {
            // Microseconds, as POSIX has it.
            Some(ns) => ns / 1000,
            None => hosts_clock(),
        }
    }

    unsafe extern "C" fn time(seconds: *mut time_t, return_address: usize) -> time_t {
        let Some(ns) = virtual_ns(return_address) else {
            // SAFETY: as it was called.
            return unsafe { libc::time(seconds) };
        };
        let now = BEGIN_S + ns / NS_PER_S;
        // SAFETY: null, or the caller's room for the answer.
        if let Some(seconds) = unsafe { seconds.as_mut() } {
            *seconds = now;
        }
        now
    }

    unsafe extern "C" fn clock_gettime(clock: clockid_t, now: *mut timespec, return_address: usize) -> c_int {
        // SAFETY: null, or the caller's room for the answer. Other callers are many, and served first.
        let qemu = QEMU.get().zip(unsafe { now.as_mut() });
        let answer = qemu.and_then(|(qemu, now)| Some((qemu.start_ns + virtual_ns(return_address)?, now)));
        let Some((ns, now)) = answer else {
            // SAFETY: as it was called.
            return unsafe { libc::clock_gettime(clock, now) };
        };
        *now = timespec { tv_sec: ns / NS_PER_S, tv_nsec: ns % NS_PER_S };
        0
    }

    /// An entry that hands on where it returns to, as one more argument of a function: `$register` on x86-64, and
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

    /// Where a function's code lies.
    fn extent(function: *mut c_void) -> Option<Range<usize>> {
        // SAFETY: all zero is a valid description, of nothing.
        let mut info: libc::Dl_info = unsafe { mem::zeroed() };
        let mut entry: *mut c_void = std::ptr::null_mut();
        // SAFETY: both are room for what the linker knows of an address; the symbol stays where it is.
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
        // SAFETY: QEMU's functions and variables of these names have these types; it shows them from the program
        // itself, which stays loaded. The variable was set before its main function began.
        unsafe {
            Some(Qemu { semihosting, get_ns: mem::transmute::<*mut c_void, GetNs>(get_ns), start_ns: *start_ns })
        }
    }
}
