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

    /// Relocations that write a function's address into the table.
    #[cfg(target_arch = "x86_64")]
    const OF_FUNCTIONS: [u32; 2] = [6, 7];
    #[cfg(target_arch = "aarch64")]
    const OF_FUNCTIONS: [u32; 2] = [1025, 1026];

    /// Entries of a program's dynamic section (System V ABI, chapter 5).
    const DT_PLTRELSZ: usize = 2;
    const DT_STRTAB: usize = 5;
    const DT_SYMTAB: usize = 6;
    const DT_RELA: usize = 7;
    const DT_RELASZ: usize = 8;
    const DT_JMPREL: usize = 23;

    /// The running program, as the dynamic linker has it in memory.
    struct Program {
        base: usize,
        dynamic: [usize; 24],
        /// What is not writable any more.
        relro: Range<usize>,
    }

    impl Program {
        fn find() -> Option<Program> {
            extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
                // SAFETY: the linker's description of the program, which comes first, and the room below.
                unsafe { found.cast::<libc::dl_phdr_info>().write(*info) };
                1
            }
            // SAFETY: all zero is a valid description, of nothing.
            let mut info: libc::dl_phdr_info = unsafe { mem::zeroed() };
            // SAFETY: the callback is given the room above, and is not called after this has returned.
            unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut info).cast()) };
            if info.dlpi_phdr.is_null() {
                return None;
            }
            let base = info.dlpi_addr as usize;
            // SAFETY: the program's own headers, which stay where they are.
            let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
            let segment = |kind| headers.iter().find(|header| header.p_type == kind);
            let relro = segment(libc::PT_GNU_RELRO).map_or(0..0, |header| {
                let start = base + header.p_vaddr as usize;
                start..start + header.p_memsz as usize
            });
            let mut program = Program { base, dynamic: [0; 24], relro };
            let mut entry = (base + segment(libc::PT_DYNAMIC)?.p_vaddr as usize) as *const [usize; 2];
            // SAFETY: pairs of tag and value, the last one with tag 0.
            while let [tag, value] = unsafe { *entry }
                && tag != 0
            {
                if let Some(known) = program.dynamic.get_mut(tag) {
                    *known = value;
                }
                entry = entry.wrapping_add(1);
            }
            Some(program)
        }

        /// The address in an entry. The linker adds the base to it.
        fn address(&self, tag: usize) -> Option<usize> {
            let value = self.dynamic[tag];
            (value != 0).then(|| if value < self.base { self.base + value } else { value })
        }

        /// Where the address of a function of that name is kept for calls to it.
        fn slots(&self, name: &CStr) -> Vec<usize> {
            let (Some(symbols), Some(names)) = (self.address(DT_SYMTAB), self.address(DT_STRTAB)) else {
                return Vec::new();
            };
            let mut slots = Vec::new();
            for (table, size) in [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)] {
                let Some(table) = self.address(table) else { continue };
                let count = self.dynamic[size] / size_of::<libc::Elf64_Rela>();
                // SAFETY: the linker's own table, of that many bytes.
                for relocation in unsafe { std::slice::from_raw_parts(table as *const libc::Elf64_Rela, count) } {
                    let (symbol, kind) = ((relocation.r_info >> 32) as usize, relocation.r_info as u32);
                    if !OF_FUNCTIONS.contains(&kind) {
                        continue;
                    }
                    // SAFETY: the relocation's symbol lies in the table of symbols, its name in that of names.
                    let is_it = unsafe {
                        let symbol = &*(symbols as *const libc::Elf64_Sym).add(symbol);
                        CStr::from_ptr((names + symbol.st_name as usize) as *const _) == name
                    };
                    if is_it {
                        slots.push(self.base + relocation.r_offset as usize);
                    }
                }
            }
            slots
        }

        /// Writes an address into one of the slots.
        fn set(&self, slot: usize, address: usize) -> bool {
            // SAFETY: no precondition.
            let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
            let page = (slot & !(page_bytes - 1)) as *mut c_void;
            // SAFETY: the page is the program's own data, of which only this word is changed, in one piece. It has no
            // code. It was writable before the linker had filled it in, and is left as it was found.
            unsafe {
                if libc::mprotect(page, page_bytes, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                    return false;
                }
                (slot as *mut usize).write_volatile(address);
                if self.relro.contains(&slot) {
                    libc::mprotect(page, page_bytes, libc::PROT_READ);
                }
            }
            true
        }
    }

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
