//! Which vCPU executes, as QEMU itself knows it.
//!
//! What QEMU reports to a callback is the vCPU that the block was translated for, and to a translation nothing at all.

use std::ffi::{c_int, c_void};
use std::mem;

use wire::trick::EXECUTING;

use super::symbol;
use crate::qemu::thread::Thread;

/// `qemu_get_cpu` (include/hw/core/cpu.h): the vCPU of an index, or null.
type GetCpu = unsafe extern "C" fn(c_int) -> *mut c_void;

/// What tells the executing vCPU from the others.
pub(crate) struct Vcpus {
    get_cpu: GetCpu,
    count: u32,
    /// QEMU's objects, by index, once all of them are there.
    objects: Vec<usize>,
}

impl Vcpus {
    /// Of so many vCPUs. None: a QEMU that shows its functions to modules of its own says it, and this one does not or is
    /// not known.
    pub(crate) fn find(count: u32) -> Option<Vcpus> {
        symbol(&EXECUTING, c"current_cpu")?;
        let get_cpu = symbol(&EXECUTING, c"qemu_get_cpu")?;
        // SAFETY: in the releases of the table's row the function of this name has this type; the program itself exports it and stays
        // loaded.
        let get_cpu = unsafe { mem::transmute::<*mut c_void, GetCpu>(get_cpu) };
        Some(Vcpus { get_cpu, count, objects: Vec::new() })
    }

    /// The vCPU that executes; None on a thread that executes none.
    pub(crate) fn executing(&mut self) -> Option<u32> {
        let current = current()? as usize;
        if self.objects.is_empty() {
            // SAFETY: see `find` for the type; vCPUs are only added and never removed, and this thread runs them.
            let objects = (0..self.count).map(|index| unsafe { (self.get_cpu)(index as c_int) } as usize);
            let objects: Vec<usize> = objects.collect();
            // The last one may not be there yet.
            if objects.contains(&0) {
                return objects.iter().position(|&object| object == current).map(|index| index as u32);
            }
            self.objects = objects;
        }
        self.objects.iter().position(|&object| object == current).map(|index| index as u32)
    }
}

/// The object of the vCPU that the calling thread executes.
pub(in crate::qemu) fn current() -> Option<*mut c_void> {
    let cell = cell()?;
    // SAFETY: see `cell`.
    let object = unsafe { *cell };
    (!object.is_null()).then_some(object)
}

/// What a function says when the calling thread executes no vCPU as far as QEMU knows. None: it is none that does.
pub(in crate::qemu) fn with_none_current<T>(ask: impl FnOnce() -> T) -> Option<T> {
    let object = current()?;
    let cell = cell()?;
    // SAFETY: see `cell`. No other thread sees it, and it is as before when this one goes on.
    unsafe { *cell = std::ptr::null_mut() };
    let answer = ask();
    // SAFETY: the same.
    unsafe { *cell = object };
    Some(answer)
}

/// Where QEMU keeps what the calling thread executes (`__thread CPUState *current_cpu`): the thread's own, which dlsym
/// finds for the calling thread and which lives as long as that. Null where it executes none. None: it never does.
fn cell() -> Option<*mut *mut c_void> {
    thread_local! {
        static CURRENT: Option<usize> = symbol(&EXECUTING, c"current_cpu").map(|address| address as usize);
    }
    if !Thread::current().is_guests() {
        return None;
    }
    CURRENT.with(|&address| address).map(|address| address as *mut *mut c_void)
}
