// SPDX-License-Identifier: GPL-2.0-or-later
//! Index of the executing vCPU, from QEMU's own variable.
//!
//! A callback gets from QEMU the vCPU that the block was translated for, which is not always the one that executes
//! it. A translation gets none.

use std::ffi::{c_int, c_void};
use std::mem;

use wire::trick::EXECUTING;

use super::symbol;
use crate::qemu::thread::Thread;

/// `qemu_get_cpu` (include/hw/core/cpu.h): the vCPU of an index, or null.
type GetCpu = unsafe extern "C" fn(c_int) -> *mut c_void;

/// The function and objects of QEMU's that identify the executing vCPU.
pub(crate) struct Vcpus {
    get_cpu: GetCpu,
    count: u32,
    /// QEMU's objects, by index, once all of them exist.
    objects: Vec<usize>,
}

impl Vcpus {
    /// Prepares for `count` vCPUs. None: this QEMU is not known, or was built without loadable modules, so that it
    /// does not export the function.
    pub(crate) fn find(count: u32) -> Option<Vcpus> {
        symbol(&EXECUTING, c"current_cpu")?;
        let get_cpu = symbol(&EXECUTING, c"qemu_get_cpu")?;
        // SAFETY: in the releases of the table's row the function of this name has this type; the program itself
        // exports it and stays loaded.
        let get_cpu = unsafe { mem::transmute::<*mut c_void, GetCpu>(get_cpu) };
        Some(Vcpus { get_cpu, count, objects: Vec::new() })
    }

    /// Index of the executing vCPU; None on a thread without one.
    pub(crate) fn executing(&mut self) -> Option<u32> {
        let current = current()? as usize;
        if self.objects.is_empty() {
            // SAFETY: see `find` for the type; vCPUs are only added and never removed, and this thread runs them.
            let objects = (0..self.count).map(|index| unsafe { (self.get_cpu)(index as c_int) } as usize);
            let objects: Vec<usize> = objects.collect();
            // The last object may not exist yet.
            if objects.contains(&0) {
                return objects.iter().position(|&object| object == current).map(|index| index as u32);
            }
            self.objects = objects;
        }
        self.objects.iter().position(|&object| object == current).map(|index| index as u32)
    }
}

/// Object of the vCPU that the calling thread executes.
pub(in crate::qemu) fn current() -> Option<*mut c_void> {
    let cell = cell()?;
    // SAFETY: see `cell`.
    let object = unsafe { *cell };
    (!object.is_null()).then_some(object)
}

/// Result of `ask`, called while QEMU takes this thread for one without a vCPU. None: it really has no vCPU.
pub(in crate::qemu) fn with_none_current<T>(ask: impl FnOnce() -> T) -> Option<T> {
    let object = current()?;
    let cell = cell()?;
    // SAFETY: see `cell`. No other thread sees the change, which is undone before this one returns.
    unsafe { *cell = std::ptr::null_mut() };
    let answer = ask();
    // SAFETY: the same.
    unsafe { *cell = object };
    Some(answer)
}

/// Address of QEMU's thread-local pointer to the executing vCPU (`__thread CPUState *current_cpu`). dlsym returns the
/// calling thread's own, which is valid as long as that thread lives. The pointer is null while the thread executes
/// no vCPU. None: the thread never executes one.
fn cell() -> Option<*mut *mut c_void> {
    thread_local! {
        static CURRENT: Option<usize> = symbol(&EXECUTING, c"current_cpu").map(|address| address as usize);
    }
    if !Thread::current().is_guests() {
        return None;
    }
    CURRENT.with(|&address| address).map(|address| address as *mut *mut c_void)
}
