//! The time driver: SysTick counts milliseconds, and wakes whoever waits for one.

use core::cell::RefCell;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::Waker;

use cortex_m::peripheral::syst::SystClkSource;
use critical_section::Mutex;
use embassy_time_driver::Driver;
use embassy_time_queue_utils::Queue;

/// At the 25 MHz of the board that it runs on.
const RELOAD: u32 = 25_000 - 1;

struct SysTickDriver {
    ticks: AtomicU32,
    queue: Mutex<RefCell<Queue>>,
}

embassy_time_driver::time_driver_impl!(static DRIVER: SysTickDriver = SysTickDriver {
    ticks: AtomicU32::new(0),
    queue: Mutex::new(RefCell::new(Queue::new())),
});

impl Driver for SysTickDriver {
    fn now(&self) -> u64 {
        u64::from(self.ticks.load(Ordering::Relaxed))
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        critical_section::with(|token| {
            let mut queue = self.queue.borrow_ref_mut(token);
            if queue.schedule_wake(at, waker) {
                // Every tick looks at it anyway; what is due already is woken now.
                queue.next_expiration(self.now());
            }
        });
    }
}

#[cortex_m_rt::exception]
fn SysTick() {
    let now = DRIVER.ticks.fetch_add(1, Ordering::Relaxed) + 1;
    critical_section::with(|token| DRIVER.queue.borrow_ref_mut(token).next_expiration(u64::from(now)));
}

pub fn start() {
    let mut systick = cortex_m::Peripherals::take().expect("nobody took them").SYST;
    systick.set_clock_source(SystClkSource::Core);
    systick.set_reload(RELOAD);
    systick.clear_current();
    systick.enable_counter();
    systick.enable_interrupt();
}
// SPDX-License-Identifier: MIT OR Apache-2.0
