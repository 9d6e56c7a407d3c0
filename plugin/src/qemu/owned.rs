// SPDX-License-Identifier: GPL-2.0-or-later
//! A lock for a value that one thread takes nearly always. It costs that thread two plain stores, and no atomic
//! read-modify-write.
//!
//! Under `-icount` one thread executes all vCPUs, and so makes all callbacks. Other threads need the state only at
//! QEMU's exit or abort. The guest's thread notes that it holds the state, and checks a flag by which another thread
//! asks for it. A thread that asks sets this flag, and has the kernel execute a memory barrier on the other threads
//! (`membarrier`). Then either the guest's thread has seen the flag, or its note is visible. From then on all threads
//! use an ordinary mutex. If the kernel has no such barrier, they use the mutex from the beginning.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

use super::thread::Thread;

/// A value that one thread uses nearly always.
pub(crate) struct Owned<T> {
    value: UnsafeCell<T>,
    /// A mutex: whether a thread has it.
    is_locked: AtomicBool,
    /// Id of the thread that needs no mutex; 0: none. It changes under the mutex.
    owner: AtomicUsize,
    /// Whether that thread holds the value without the mutex. Only it writes this.
    is_held: AtomicBool,
    /// Whether that thread needs the mutex, too, from now on. Set under the mutex, never cleared.
    is_revoked: AtomicBool,
}

// SAFETY: the value is only reached through a `Guard`, of which there is one at a time.
unsafe impl<T: Send> Sync for Owned<T> {}

/// Access to the value until it is dropped.
pub(crate) struct Guard<'a, T> {
    owned: &'a Owned<T>,
    /// Whether its holder has the mutex, too. A guard is two words, so that it travels in registers.
    has_mutex: bool,
    /// Marker: the guard is shared between threads as the value itself would be.
    value: PhantomData<&'a mut T>,
}

impl<T> Owned<T> {
    /// A value that no thread owns yet.
    pub(crate) fn new(value: T) -> Owned<T> {
        Owned {
            value: UnsafeCell::new(value),
            is_locked: AtomicBool::new(false),
            owner: AtomicUsize::new(0),
            is_held: AtomicBool::new(false),
            is_revoked: AtomicBool::new(false),
        }
    }

    /// Makes the calling thread the owner, unless there is one.
    pub(crate) fn adopt(&self) {
        let _guard = self.lock_slowly();
        if self.owner.load(Ordering::Relaxed) == 0 && barrier() {
            self.owner.store(Thread::current().id(), Ordering::Relaxed);
        }
    }

    /// Takes the value. A thread that holds it already waits for ever.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        if self.is_mine() && !self.is_held.load(Ordering::Relaxed) && self.hold() {
            return Guard { owned: self, has_mutex: false, value: PhantomData };
        }
        self.lock_slowly()
    }

    /// Whether the calling thread is the owner.
    #[inline]
    fn is_mine(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == Thread::current().id()
    }

    /// Takes the value as its owner; false: the mutex is needed.
    #[inline]
    fn hold(&self) -> bool {
        self.is_held.store(true, Ordering::Relaxed);
        // The asking thread takes care of the processor's order, see `revoke`.
        compiler_fence(Ordering::SeqCst);
        if !self.is_revoked.load(Ordering::Acquire) {
            return true;
        }
        self.is_held.store(false, Ordering::Release);
        false
    }

    #[cold]
    fn lock_slowly(&self) -> Guard<'_, T> {
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            std::thread::yield_now();
        }
    }

    /// Takes the value, unless a thread holds it.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        // The owner may ask from within an access of a device. That must not take the fast way from it.
        if self.is_mine() {
            if self.is_held.load(Ordering::Relaxed) {
                return None;
            }
            if self.hold() {
                return Some(Guard { owned: self, has_mutex: false, value: PhantomData });
            }
        }
        if self.is_locked.swap(true, Ordering::Acquire) {
            return None;
        }
        // The guard unlocks when it is dropped, also here.
        let guard = Guard { owned: self, has_mutex: true, value: PhantomData };
        self.revoke().then_some(guard)
    }

    /// Makes the owner use the mutex, which the caller holds. Returns whether the value is free, that is, not held by
    /// the owner.
    fn revoke(&self) -> bool {
        if self.owner.load(Ordering::Relaxed) == 0 {
            return true;
        }
        if !self.is_revoked.load(Ordering::Relaxed) {
            self.is_revoked.store(true, Ordering::SeqCst);
            if !barrier() {
                // Without the barrier, it is not known whether the owner holds the value.
                self.is_revoked.store(false, Ordering::SeqCst);
                return false;
            }
        }
        !self.is_held.load(Ordering::Acquire)
    }
}

/// Executes a memory barrier on all running threads of this process. False: this kernel cannot.
fn barrier() -> bool {
    #[cfg(target_os = "linux")]
    {
        /// `MEMBARRIER_CMD_PRIVATE_EXPEDITED`, and the command that has to come before, once in a process.
        const BARRIER: libc::c_int = 1 << 3;
        const REGISTER: libc::c_int = 1 << 4;
        // SAFETY: neither command takes an address.
        unsafe {
            libc::syscall(libc::SYS_membarrier, REGISTER, 0, 0) == 0
                && libc::syscall(libc::SYS_membarrier, BARRIER, 0, 0) == 0
        }
    }
    #[cfg(not(target_os = "linux"))]
    false
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: there is one guard at a time.
        unsafe { &*self.owned.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and it is borrowed mutably.
        unsafe { &mut *self.owned.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let mark = if self.has_mutex { &self.owned.is_locked } else { &self.owned.is_held };
        mark.store(false, Ordering::Release);
    }
}
