//! nRF51822, by nrf51-hal: both clocks, RTC0's interrupt as tick, a serial port that echoes a line in capitals.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m_rt::entry;
use nrf51_hal::gpio::{self, Level};
use nrf51_hal::pac::{self, interrupt};
use nrf51_hal::rtc::RtcInterrupt;
use nrf51_hal::uart::{Baudrate, Parity, Pins};
use nrf51_hal::{Clocks, Rtc, Uart};
use embedded_io::{Read, Write};
use support::{exit, work};

static TICKS: AtomicU32 = AtomicU32::new(0);

#[interrupt]
fn RTC0() {
    // SAFETY: the event is nobody else's.
    unsafe { (*pac::RTC0::ptr()).events_tick.write(|w| w.bits(0)) };
    // The Cortex-M0 adds in no single instruction, and nobody else writes.
    TICKS.store(TICKS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

#[entry]
fn main() -> ! {
    let p = pac::Peripherals::take().unwrap();
    Clocks::new(p.CLOCK).enable_ext_hfosc().set_lfclk_src_rc().start_lfclk();
    let port = gpio::p0::Parts::new(p.GPIO);
    let pins = Pins {
        rxd: port.p0_25.into_floating_input().degrade(),
        txd: port.p0_24.into_push_pull_output(Level::High).degrade(),
        cts: None,
        rts: None,
    };
    let mut uart = Uart::new(p.UART0, pins, Parity::EXCLUDED, Baudrate::BAUD115200);
    uart.write_all(b"hal on nrf51822\n").unwrap();
    // 1,024 Hz.
    let mut rtc = Rtc::new(p.RTC0, 31).unwrap();
    rtc.enable_event(RtcInterrupt::Tick);
    rtc.enable_interrupt(RtcInterrupt::Tick, None);
    rtc.enable_counter();
    // SAFETY: nothing that the handler uses is taken from anybody.
    unsafe { pac::NVIC::unmask(pac::Interrupt::RTC0) };
    while TICKS.load(Ordering::Relaxed) < 10 {
        work(20, 1);
        cortex_m::asm::wfi();
    }
    uart.write_all(b"10 ticks\nname? ").unwrap();
    let mut byte = [0];
    loop {
        uart.read(&mut byte).unwrap();
        uart.write_all(&byte.map(|byte| byte.to_ascii_uppercase())).unwrap();
        if byte[0] == b'\n' {
            break;
        }
    }
    uart.flush().unwrap();
    exit(0)
}
// SPDX-License-Identifier: MIT OR Apache-2.0
