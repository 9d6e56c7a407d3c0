// SPDX-License-Identifier: GPL-2.0-or-later
//! Turns of several vCPUs, made independent of the host's timing.
//!
//! QEMU executes vCPUs in turns on one thread (`rr_cpu_thread_fn`, accel/tcg/tcg-accel-ops-rr.c). A turn is a number
//! of instructions, so that runs repeat. But a thread that frees memory waits until no reader uses the memory any
//! more (util/rcu.c), and a turn is one long read. From QEMU 10.2 on ("rcu: Unify force quiescent state") that thread
//! waits for 50 ms of the host's time, or not at all when 30 blocks wait to be freed. Then it notifies the readers:
//! the vCPU thread has registered for that, and ends the turn (`rr_force_rcu`). Earlier versions only notified in
//! `drain_call_rcu`, which no run of ours calls.
//!
//! So the vCPU thread is removed from the list of notified threads. Memory is freed when a turn ends by itself, as it
//! was before 10.2.

use std::ffi::c_void;
use std::mem;
use std::ptr::null_mut;

use wire::trick::TURNS;

use super::symbol;

/// `Notifier` (include/qemu/notify.h), a member of a list.
#[repr(C)]
struct Notifier {
    notify: extern "C" fn(*mut Notifier, *mut c_void),
    next: *mut Notifier,
    /// Back link: the pointer to this member.
    link: *mut c_void,
}

/// `rcu_add_force_rcu_notifier`, which puts a notifier at the head of the calling thread's list, and
/// `rcu_remove_force_rcu_notifier` (include/qemu/rcu.h). Both take the lock under which the list is read.
type Change = unsafe extern "C" fn(*mut Notifier);

/// The functions of QEMU's that protect turns.
pub(crate) struct Turns {
    add: Change,
    remove: Change,
}

impl Turns {
    /// None: this QEMU is not known, or lacks loadable modules, without which it does not export the functions.
    pub(crate) fn find() -> Option<Turns> {
        let find = |name| symbol(&TURNS, name);
        let (add, remove) = (find(c"rcu_add_force_rcu_notifier")?, find(c"rcu_remove_force_rcu_notifier")?);
        // SAFETY: in the releases of the table's row the functions of these names have this type; the program itself
        // exports them and stays loaded.
        unsafe {
            Some(Turns {
                add: mem::transmute::<*mut c_void, Change>(add),
                remove: mem::transmute::<*mut c_void, Change>(remove),
            })
        }
    }

    /// Removes the calling thread from the list, before the first turn of its vCPUs. False: it was not on the list,
    /// so this QEMU works in an unknown way.
    pub(crate) fn keep(&self) -> bool {
        extern "C" fn ignore(_: *mut Notifier, _: *mut c_void) {}
        let mut ours = Notifier { notify: ignore, next: null_mut(), link: null_mut() };
        let ours = &raw mut ours;
        let mut found = false;
        // SAFETY: `ours` is a member of the calling thread's list from its addition to its removal, both in here, and
        // is at most called meanwhile. Only that thread changes the list, so its successor is a valid member, which
        // QEMU's own function removes. QEMU itself would do so after the loop in which that thread stays for ever.
        unsafe {
            (self.add)(ours);
            while !(*ours).next.is_null() {
                (self.remove)((*ours).next);
                found = true;
            }
            (self.remove)(ours);
        }
        found
    }
}
