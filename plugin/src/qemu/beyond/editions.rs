// SPDX-License-Identifier: GPL-2.0-or-later
//! Two editions of the same translated code, between which a run can change: in one, blocks are chained; in the
//! other, QEMU looks up each block. So one edition can have callbacks that the other lacks, and QEMU keeps both.
//!
//! QEMU keys translated blocks by flags (`curr_cflags`, accel/tcg/cpu-exec.c), one of which allows chaining. At each
//! lookup QEMU takes this flag from a global variable, which has the words of `-d` (`nochain`).

use std::ffi::{c_int, c_void};
use std::mem;
use std::sync::atomic::{AtomicI32, Ordering};

use wire::trick::EDITIONS;

use super::{symbol, vcpu};

/// `CPU_LOG_TB_NOCHAIN` (include/qemu/log.h).
const NO_CHAIN: c_int = 1 << 13;

/// `curr_cflags` (accel/tcg/internal-common.h): the flags for the lookup of a vCPU's next block.
type Flags = unsafe extern "C" fn(*mut c_void) -> u32;

/// `cpu_exit` (include/hw/core/cpu.h): makes a vCPU leave chained blocks at the start of the next one.
type Leave = unsafe extern "C" fn(*mut c_void);

/// The variable and functions of QEMU's that select an edition.
pub(crate) struct Editions {
    words: &'static AtomicI32,
    flags: Flags,
    leave: Leave,
}

/// Edition of the translated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edition {
    Chained,
    Single,
}

impl Editions {
    /// None: this QEMU is not known, or lacks loadable modules, without which it does not export these functions.
    pub(crate) fn find() -> Option<Editions> {
        let find = |name| symbol(&EDITIONS, name);
        let (words, flags, leave) = (find(c"qemu_loglevel")?, find(c"curr_cflags")?, find(c"cpu_exit")?);
        // SAFETY: in the releases of the table's row the functions of these names have these types. The variable is
        // an int that lives as long as the program, aligned as one. Other threads only read it.
        unsafe {
            Some(Editions {
                words: &*words.cast::<AtomicI32>(),
                flags: mem::transmute::<*mut c_void, Flags>(flags),
                leave: mem::transmute::<*mut c_void, Leave>(leave),
            })
        }
    }

    /// Whether this QEMU keeps the editions apart, tested on the calling thread's vCPU. The chosen edition stays.
    pub(crate) fn are_apart(&self) -> bool {
        let Some(vcpu) = vcpu::current() else { return false };
        let words = self.words.load(Ordering::Relaxed);
        let flags = [Edition::Chained, Edition::Single].map(|edition| {
            self.choose(edition);
            // SAFETY: see `find` for the type; the vCPU executes this thread's callback.
            unsafe { (self.flags)(vcpu) }
        });
        self.words.store(words, Ordering::Relaxed);
        flags[0] != flags[1]
    }

    /// Selects the edition for blocks looked up from now on.
    pub(crate) fn choose(&self, edition: Edition) {
        match edition {
            Edition::Chained => self.words.fetch_and(!NO_CHAIN, Ordering::Relaxed),
            Edition::Single => self.words.fetch_or(NO_CHAIN, Ordering::Relaxed),
        };
    }

    /// Makes the calling thread's vCPU look up its next block.
    pub(crate) fn leave_chain(&self) {
        if let Some(vcpu) = vcpu::current() {
            // SAFETY: see `find` for the type; the vCPU executes this thread's callback.
            unsafe { (self.leave)(vcpu) }
        }
    }
}
