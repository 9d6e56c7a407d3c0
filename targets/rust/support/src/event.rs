//! Event that async tasks wait for, and counts of how often a task was polled and woken.

use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::task::{Poll, Waker};

use critical_section::Mutex;

/// Wakes of all events.
pub static WAKES: AtomicU32 = AtomicU32::new(0);

/// An event that one task waits for.
pub struct Event(Mutex<RefCell<(bool, Option<Waker>)>>);

impl Event {
    pub const fn new() -> Event {
        Event(Mutex::new(RefCell::new((false, None))))
    }

    /// Wakes the task that waits.
    pub fn set(&self) {
        let waker = critical_section::with(|token| {
            let mut event = self.0.borrow_ref_mut(token);
            event.0 = true;
            event.1.take()
        });
        if let Some(waker) = waker {
            WAKES.fetch_add(1, Ordering::Relaxed);
            waker.wake();
        }
    }

    /// Waits until the event has been set since the last time.
    pub async fn wait(&self) {
        poll_fn(|context| {
            critical_section::with(|token| {
                let mut event = self.0.borrow_ref_mut(token);
                if core::mem::take(&mut event.0) {
                    return Poll::Ready(());
                }
                event.1 = Some(context.waker().clone());
                Poll::Pending
            })
        })
        .await;
    }
}

/// Does this without an interrupt in between.
pub fn undisturbed(what: impl FnOnce()) {
    critical_section::with(|_| what());
}

/// Polls of a future.
pub struct Counts {
    polls: AtomicU32,
    is_done: AtomicBool,
}

impl Counts {
    pub const fn new() -> Counts {
        Counts { polls: AtomicU32::new(0), is_done: AtomicBool::new(false) }
    }

    pub fn polls(&self) -> u32 {
        self.polls.load(Ordering::Relaxed)
    }

    pub fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Relaxed)
    }

    /// The future, with its polls counted.
    pub async fn of(&self, future: impl Future<Output = ()>) {
        let mut future = pin!(future);
        poll_fn(|context| {
            self.polls.fetch_add(1, Ordering::Relaxed);
            future.as_mut().poll(context)
        })
        .await;
        self.is_done.store(true, Ordering::Relaxed);
    }
}
// SPDX-License-Identifier: MIT OR Apache-2.0
