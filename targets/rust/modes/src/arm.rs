//! SysTick, and an executor in the interrupt of GPIOA.

use cortex_m::peripheral::syst::SystClkSource;
use embassy_executor::{InterruptExecutor, Spawner};
use lm3s6965::{Interrupt, interrupt};

/// Sooner than the tasks have worked, so that some are interrupted.
const RELOAD: u32 = 3_000 - 1;

static EXECUTOR: InterruptExecutor = InterruptExecutor::new();

pub fn start(_: Spawner) {
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
    super::tick();
}
// SPDX-License-Identifier: MIT OR Apache-2.0
