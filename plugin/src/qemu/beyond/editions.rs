//! Two editions of the same translated code, between which a run can change: one whose blocks lead to each other, and one
//! that QEMU looks each block up for. So one can have what the other does without, and neither is lost.
//!
//! QEMU keeps what it translates by flags (`curr_cflags`, accel/tcg/cpu-exec.c), of which one says whether blocks may be
//! chained. It is taken from the words of `-d` (`nochain`), a global variable, whenever a block is looked up.

use std::ffi::{c_int, c_void};
use std::mem;
use std::sync::atomic::{AtomicI32, Ordering};

use wire::trick::EDITIONS;

use super::{symbol, vcpu};

/// `CPU_LOG_TB_NOCHAIN` (include/qemu/log.h).
const NO_CHAIN: c_int = 1 << 13;

/// `curr_cflags` (accel/tcg/internal-common.h): the flags that a vCPU's next block is looked up by.
type Flags = unsafe extern "C" fn(*mut c_void) -> u32;

/// `cpu_exit` (include/hw/core/cpu.h): has a vCPU leave the blocks that lead to each other, at the next one's start.
type Leave = unsafe extern "C" fn(*mut c_void);

/// What changes between the editions.
pub(crate) struct Editions {
    words: &'static AtomicI32,
    flags: Flags,
    leave: Leave,
}

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edition {
    Chained,
    Single,
}

impl Editions {
    /// None: only a QEMU that shows its functions to modules of its own has them for us, and this one does not or is not
    /// known.
    pub(crate) fn find() -> Option<Editions> {
        let find = |name| symbol(&EDITIONS, name);
        let (words, flags, leave) = (find(c"qemu_loglevel")?, find(c"curr_cflags")?, find(c"cpu_exit")?);
        // SAFETY: in the releases of the table's row the functions of these names have these types, and the variable is an int that
        // is there as long as the program, aligned as one. Other threads only read it.
        unsafe {
            Some(Editions {
                words: &*words.cast::<AtomicI32>(),
                flags: mem::transmute::<*mut c_void, Flags>(flags),
                leave: mem::transmute::<*mut c_void, Leave>(leave),
            })
        }
    }

    /// Whether the editions are kept apart, as is seen on the vCPU that the calling thread executes. The one that is
    /// chosen stays.
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

    /// The edition that blocks are looked up in from now on.
    pub(crate) fn choose(&self, edition: Edition) {
        match edition {
            Edition::Chained => self.words.fetch_and(!NO_CHAIN, Ordering::Relaxed),
            Edition::Single => self.words.fetch_or(NO_CHAIN, Ordering::Relaxed),
        };
    }

    /// Has the vCPU that the calling thread executes look its next block up, wherever it is.
    pub(crate) fn leave_chain(&self) {
        if let Some(vcpu) = vcpu::current() {
            // SAFETY: see `find` for the type; the vCPU executes this thread's callback.
            unsafe { (self.leave)(vcpu) }
        }
    }
}
