//! SAMD21 and SAMD51, by atsamd-hal: the crystal of 32 kHz and the loops that multiply it, a timer's interrupt as tick, a
//! serial port that echoes a line in capitals.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering};

use atsamd_hal::clock::GenericClockController;
use atsamd_hal::fugit::{MillisDurationU32, RateExtU32};
use atsamd_hal::gpio::Pins;
use atsamd_hal::pac::{self, interrupt};
use atsamd_hal::prelude::*;
use atsamd_hal::sercom::{Sercom0, uart};
use atsamd_hal::timer::TimerCounter;
use cortex_m_rt::entry;
use embedded_io::{Read, Write};
use support::{exit, work};

static TICKS: AtomicU32 = AtomicU32::new(0);

#[interrupt]
fn TC3() {
    // SAFETY: the flag is nobody else's.
    let timer = unsafe { pac::Tc3::steal() };
    timer.count16().intflag().write(|w| w.ovf().set_bit());
    // The Cortex-M0+ adds in no single instruction, and nobody else writes.
    TICKS.store(TICKS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

#[cfg(feature = "samd21g18")]
const NAME: &[u8] = b"hal on samd21g18\n";
#[cfg(feature = "samd51j19")]
const NAME: &[u8] = b"hal on samd51j19\n";

#[entry]
fn main() -> ! {
    let mut p = pac::Peripherals::take().unwrap();
    #[cfg(feature = "samd21g18")]
    let mut clocks = GenericClockController::with_external_32kosc(p.gclk, &mut p.pm, &mut p.sysctrl, &mut p.nvmctrl);
    #[cfg(feature = "samd51j19")]
    let mut clocks = GenericClockController::with_external_32kosc(
        p.gclk,
        &mut p.mclk,
        &mut p.osc32kctrl,
        &mut p.oscctrl,
        &mut p.nvmctrl,
    );
    #[cfg(feature = "samd21g18")]
    let power = &mut p.pm;
    #[cfg(feature = "samd51j19")]
    let power = &mut p.mclk;

    let pins = Pins::new(p.port);
    let pads = uart::Pads::<Sercom0>::default().rx(pins.pa09).tx(pins.pa08);
    let gclk0 = clocks.gclk0();
    let clock = clocks.sercom0_core(&gclk0).unwrap();
    let mut uart = uart::Config::new(power, p.sercom0, pads, clock.freq())
        .baud(115_200.Hz(), uart::BaudMode::Fractional(uart::Oversampling::Bits16))
        .enable();
    uart.write_all(NAME).unwrap();

    #[cfg(feature = "samd21g18")]
    let clock = clocks.tcc2_tc3(&gclk0).unwrap();
    #[cfg(feature = "samd51j19")]
    let clock = clocks.tc2_tc3(&gclk0).unwrap();
    let mut timer = TimerCounter::tc3_(&clock, p.tc3, power);
    InterruptDrivenTimer::start(&mut timer, MillisDurationU32::from_ticks(1).convert());
    timer.enable_interrupt();
    // SAFETY: nothing that the handler uses is taken from anybody.
    unsafe { cortex_m::peripheral::NVIC::unmask(pac::Interrupt::TC3) };
    while TICKS.load(Ordering::Relaxed) < 10 {
        work(20, 1);
        cortex_m::asm::wfi();
    }
    uart.write_all(b"10 ticks\nname? ").unwrap();
    let mut byte = [0];
    loop {
        uart.read_exact(&mut byte).unwrap();
        uart.write_all(&byte.map(|byte| byte.to_ascii_uppercase())).unwrap();
        if byte[0] == b'\n' {
            break;
        }
    }
    Write::flush(&mut uart).unwrap();
    exit(0)
}
// SPDX-License-Identifier: MIT OR Apache-2.0
