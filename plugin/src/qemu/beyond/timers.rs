// SPDX-License-Identifier: GPL-2.0-or-later
//! Timers of virtual time that are set to never.
//!
//! QEMU's devices encode never as the last nanosecond of a clock: a RISC-V timer with the highest comparator, the
//! watchdog of `sifive_e` while its comparator is passed. Under `sleep=off`, time skips to the next timer when all
//! CPUs sleep. If that is a timer set to never, time skips to 292 years from the start, and the timer expires, as no
//! chip's would. The watchdog's callback sets the timer to never again, and never is now. So the callback is called
//! for ever, on the thread that executes the CPUs and with QEMU's lock held. No instruction executes, and the monitor
//! does not answer (hw/misc/sifive_e_aon.c, `timerlist_run_timers` in util/qemu-timer.c).
//!
//! So these timers are removed from the list before a CPU waits. If no other timer is left, QEMU sleeps.

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr::null_mut;

use wire::trick::TIMERS;

use super::lock::BigLock;
use super::symbol;

/// `QEMUTimer` (include/qemu/timer.h), which devices have as a member.
#[repr(C)]
struct Timer {
    expires_ns: i64,
    list: *mut *mut Timer,
    call: Option<Expire>,
    data: *mut c_void,
    next: *mut Timer,
    attributes: c_int,
    scale: c_int,
}

type Expire = unsafe extern "C" fn(*mut c_void);

/// `timer_init_full`, `timer_mod_ns` and `timer_del`.
type Init = unsafe extern "C" fn(*mut Timer, *mut c_void, c_int, c_int, c_int, Expire, *mut c_void);
type Set = unsafe extern "C" fn(*mut Timer, i64);
type Delete = unsafe extern "C" fn(*mut Timer);

/// `QEMU_CLOCK_VIRTUAL`, and `SCALE_NS`.
const VIRTUAL: c_int = 1;
const NANOSECONDS: c_int = 1;

/// Expiry of a timer that is set to never, in nanoseconds.
const NEVER_NS: i64 = i64::MAX;

/// A time after the machine's start and before any other timer, in nanoseconds.
const FIRST_NS: i64 = 1;

/// Words of `QEMUTimerList` (util/qemu-timer.c) that include the first timer's address, after the clock and a mutex.
const LIST_WORDS: usize = 12;

/// The timers of virtual time.
#[derive(Clone, Copy)]
pub(crate) struct Timers {
    lock: BigLock,
    delete: Delete,
    /// Address of the word that points to the next timer to expire.
    first: usize,
}

impl Timers {
    /// Finds the list by setting a timer for a moment, since no header says where the list begins. Only on a vCPU's
    /// thread, before it executes any instruction. None: this QEMU is not known or does not export the functions, or
    /// a timer is set to the very start.
    pub(crate) fn find() -> Option<Timers> {
        unsafe extern "C" fn nothing(_: *mut c_void) {}
        let lock = BigLock::find(&TIMERS)?;
        let find = |name| symbol(&TIMERS, name);
        let (init, set, delete) = (find(c"timer_init_full")?, find(c"timer_mod_ns")?, find(c"timer_del")?);
        // SAFETY: in the releases of the table's row the functions of these names have these types; QEMU exports them
        // from the program itself, which stays loaded.
        let (init, set, delete) = unsafe {
            (
                mem::transmute::<*mut c_void, Init>(init),
                mem::transmute::<*mut c_void, Set>(set),
                mem::transmute::<*mut c_void, Delete>(delete),
            )
        };
        lock.hold(|| {
            let mut ours = Timer {
                expires_ns: 0,
                list: null_mut(),
                call: None,
                data: null_mut(),
                next: null_mut(),
                attributes: 0,
                scale: 0,
            };
            let ours = &raw mut ours;
            // SAFETY: the timer is ours, and is on the list between the second call and the third. Virtual time
            // stands still meanwhile, at its start, so that it does not expire. Without a group of lists, the main
            // loop's is used.
            let first = unsafe {
                init(ours, null_mut(), VIRTUAL, NANOSECONDS, 0, nothing, null_mut());
                set(ours, FIRST_NS);
                let list = (*ours).list;
                // The list is larger than the words read here. It changes under its lock only, which nothing takes
                // while the big lock is held and no instruction executes.
                (0..LIST_WORDS).map(|index| list.wrapping_add(index)).find(|&word| *word == ours)
            };
            // SAFETY: the same.
            unsafe { delete(ours) };
            // SAFETY: the same.
            let first = first.filter(|&word| unsafe { *word } != ours)?;
            Some(Timers { lock, delete, first: first as usize })
        })
    }

    /// Removes timers that are set to never, if no other timer is before them. Only inside callbacks of a vCPU.
    pub(crate) fn drop_never(&self) {
        self.lock.hold(|| {
            let first = self.first as *const *mut Timer;
            // SAFETY: see `find`. Timers are changed under the big lock: the holder may change devices, whose
            // callbacks run under it. A timer on the list is valid, and its device may set a removed one again.
            unsafe {
                while let Some(timer) = (*first).as_ref()
                    && timer.expires_ns == NEVER_NS
                {
                    (self.delete)(*first);
                }
            }
        });
    }
}
