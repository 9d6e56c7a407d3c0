//! SysTick, and an executor in the interrupt of GPIOA.

use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m::peripheral::syst::SystClkSource;
use embassy_executor::InterruptExecutor;
use lm3s6965::{Interrupt, interrupt};
use support::event::Event;

/// Sooner than the tasks have worked, so that some are interrupted.
const RELOAD: u32 = 3_000 - 1;

pub static URGENT_EVENT: Event = Event::new();
static EXECUTOR: InterruptExecutor = InterruptExecutor::new();

pub fn start() {
    let mut core = cortex_m::Peripherals::take().expect("nobody took them");
    // SAFETY: the handler of SysTick may interrupt that of GPIOA.
    unsafe { core.NVIC.set_priority(Interrupt::GPIOA, 0x80) };
    let spawner = EXECUTOR.start(Interrupt::GPIOA);
    spawner.spawn(super::urgent().unwrap());
    core.SYST.set_clock_source(SystClkSource::Core);
    core.SYST.set_reload(RELOAD);
    core.SYST.clear_current();
    core.SYST.enable_counter();
    core.SYST.enable_interrupt();
}

#[interrupt]
fn GPIOA() {
    // SAFETY: only the handler calls it, and `start` has been called.
    unsafe { EXECUTOR.on_interrupt() }
}

#[cortex_m_rt::exception]
fn SysTick() {
    static TICKS: AtomicU32 = AtomicU32::new(0);
    super::tick();
    if TICKS.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
        URGENT_EVENT.set();
    }
}
