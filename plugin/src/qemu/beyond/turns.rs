//! Turns of several vCPUs, which nothing on the host may end.
//!
//! QEMU executes vCPUs in turns on one thread (`rr_cpu_thread_fn`, accel/tcg/tcg-accel-ops-rr.c). A turn is a number of
//! instructions, so that runs repeat. But memory of QEMU's that others may still read is freed by a thread that waits
//! for all readers to be through (util/rcu.c), and a turn is one long read. From QEMU 10.2 on ("rcu: Unify force
//! quiescent state") that thread waits 50 ms of the host's, or not at all where 30 pieces wait to be freed, and then
//! tells the readers to hurry: the vCPU thread has asked to be told, and ends the turn (`rr_force_rcu`). Before, it was
//! told only by what no run of ours does (`drain_call_rcu`).
//!
//! So the vCPU thread is taken off the list of those that are told. Memory is freed when a turn ends by itself, as it
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
    /// What points at this one.
    link: *mut c_void,
}

/// `rcu_add_force_rcu_notifier`, which puts one in front of the calling thread's list, and
/// `rcu_remove_force_rcu_notifier` (include/qemu/rcu.h). Both take the lock under which the list is read.
type Change = unsafe extern "C" fn(*mut Notifier);

/// What keeps turns as long as they are.
pub(crate) struct Turns {
    add: Change,
    remove: Change,
}

impl Turns {
    /// None: only a QEMU that shows its functions to modules of its own can be kept from it, and this one does not or is
    /// not known.
    pub(crate) fn find() -> Option<Turns> {
        let find = |name| symbol(&TURNS, name);
        let (add, remove) = (find(c"rcu_add_force_rcu_notifier")?, find(c"rcu_remove_force_rcu_notifier")?);
        // SAFETY: in the releases of the table's row the functions of these names have this type; the program itself exports them and
        // stays loaded.
        unsafe {
            Some(Turns {
                add: mem::transmute::<*mut c_void, Change>(add),
                remove: mem::transmute::<*mut c_void, Change>(remove),
            })
        }
    }

    /// Takes the calling thread off the list, before the first turn of its vCPUs. False: it was not on the list, so that
    /// something else is to be expected of this QEMU.
    pub(crate) fn keep(&self) -> bool {
        extern "C" fn ignore(_: *mut Notifier, _: *mut c_void) {}
        let mut ours = Notifier { notify: ignore, next: null_mut(), link: null_mut() };
        let ours = &raw mut ours;
        let mut found = false;
        // SAFETY: ours is a member of the calling thread's list from its addition to its removal, both in here, and is
        // called meanwhile at most. Only that thread changes the list, so that what follows ours is a member, which
        // QEMU's own function takes out. QEMU itself would do so behind the loop in which that thread stays for ever.
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
