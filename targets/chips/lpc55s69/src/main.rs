//! LPC55S69, by lpc55-hal: the FRO at 96 MHz, SysTick as tick and a CTIMER's interrupt that its time is held against, a serial
//! port that echoes a line in capitals. The HAL waits for its PLL by the cycle counter, which QEMU's processor has not.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m::peripheral::NVIC;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::{entry, exception};
use lpc55_hal as hal;
use lpc55_hal::drivers::{Pins, Serial, Timer, serial};
use lpc55_hal::prelude::*;
use lpc55_hal::raw::{self, interrupt};
use nb::block;
use support::{exit, work};

static TICKS: AtomicU32 = AtomicU32::new(0);
/// Ticks up to the timer's interrupt.
static TICKS_OF_TIMER: AtomicU32 = AtomicU32::new(0);

#[exception]
fn SysTick() {
    TICKS.fetch_add(1, Ordering::Relaxed);
}

#[interrupt]
fn CTIMER1() {
    // SAFETY: the flag is nobody else's.
    let timer = unsafe { &*raw::CTIMER1::ptr() };
    timer.ir.write(|w| w.mr0int().set_bit());
    TICKS_OF_TIMER.store(TICKS.load(Ordering::Relaxed), Ordering::Relaxed);
}

#[entry]
fn main() -> ! {
    let mut hal = hal::new();
    let mut iocon = hal.iocon.enabled(&mut hal.syscon);
    let clocks = hal::ClockRequirements::default()
        .system_frequency(96.MHz())
        .configure(&mut hal.anactrl, &mut hal.pmc, &mut hal.syscon)
        .unwrap();
    let token = clocks.support_flexcomm_token().unwrap();
    let usart = hal.flexcomm.2.enabled_as_usart(&mut hal.syscon, &token);
    let pins = Pins::take().unwrap();
    let pins = (pins.pio0_27.into_usart2_tx_pin(&mut iocon), pins.pio1_24.into_usart2_rx_pin(&mut iocon));
    let config = serial::config::Config::default().speed(115_200.Hz());
    let (mut tx, mut rx) = Serial::new(usart, pins, config).split();
    let mut write = |text: &[u8]| text.iter().for_each(|&byte| block!(tx.write(byte)).unwrap());
    write(b"hal on lpc55s69\n");

    // SAFETY: SysTick is nobody else's.
    let mut systick = unsafe { cortex_m::Peripherals::steal() }.SYST;
    systick.set_clock_source(SystClkSource::Core);
    systick.set_reload(96_000 - 1);
    systick.clear_current();
    let timer = hal.ctimer.1.enabled(&mut hal.syscon, clocks.support_1mhz_fro_token().unwrap());
    let mut timer = Timer::new(timer);
    systick.enable_interrupt();
    systick.enable_counter();
    timer.start(5_500.microseconds());
    // SAFETY: nothing that the handler uses is taken from anybody.
    unsafe { NVIC::unmask(raw::Interrupt::CTIMER1) };
    while TICKS.load(Ordering::Relaxed) < 10 {
        work(20, 1);
        cortex_m::asm::wfi();
    }
    let is_right = TICKS_OF_TIMER.load(Ordering::Relaxed) == 5;
    write(if is_right { b"10 ticks\nname? " } else { b"bad time\nname? " });
    loop {
        let byte: u8 = block!(rx.read()).unwrap();
        write(&[byte.to_ascii_uppercase()]);
        if byte == b'\n' {
            break;
        }
    }
    block!(tx.flush()).unwrap();
    exit(u32::from(!is_right))
}
// SPDX-License-Identifier: MIT OR Apache-2.0
