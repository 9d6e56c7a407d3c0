//! GD32F150, by gd32f1x0-hal: the PLL at 72 MHz, a timer's interrupt as tick, a serial port that echoes a line in capitals.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m_rt::entry;
use embedded_io::{Read, Write};
use gd32f1x0_hal::gpio::{OutputMode, PullMode};
use gd32f1x0_hal::pac::{self, interrupt};
use gd32f1x0_hal::prelude::*;
use gd32f1x0_hal::serial::{Config, Serial};
use gd32f1x0_hal::timer::{Event, Timer};
use support::{exit, work};

static TICKS: AtomicU32 = AtomicU32::new(0);

#[interrupt]
fn TIMER1() {
    // SAFETY: the flag is nobody else's.
    let timer = unsafe { &*pac::Timer1::ptr() };
    timer.intf().modify(|_, w| w.upif().clear());
    TICKS.fetch_add(1, Ordering::Relaxed);
}

#[entry]
fn main() -> ! {
    let p = pac::Peripherals::take().unwrap();
    let mut rcu = p.rcu.constrain();
    let mut flash = p.fmc.constrain();
    let clocks = rcu.cfgr.use_hxtal(8.mhz()).sysclk(72.mhz()).pclk1(36.mhz()).freeze(&mut flash.ws);
    let mut gpioa = p.gpioa.split(&mut rcu.ahb);
    let tx = gpioa.pa9.into_alternate(&mut gpioa.config, PullMode::Floating, OutputMode::PushPull);
    let rx = gpioa.pa10.into_alternate(&mut gpioa.config, PullMode::Floating, OutputMode::PushPull);
    let config = Config::default().baudrate(115_200.bps());
    let mut serial = Serial::usart(p.usart0, (tx, rx), config, clocks, &mut rcu.apb2);
    serial.write_all(b"hal on gd32f150\n").unwrap();
    let mut timer = Timer::timer1(p.timer1, &clocks, &mut rcu.apb1).start_count_down(1.khz());
    timer.listen(Event::Update);
    // SAFETY: nothing that the handler uses is taken from anybody.
    unsafe { cortex_m::peripheral::NVIC::unmask(pac::Interrupt::TIMER1) };
    while TICKS.load(Ordering::Relaxed) < 10 {
        work(20, 1);
        cortex_m::asm::wfi();
    }
    serial.write_all(b"10 ticks\nname? ").unwrap();
    let mut byte = [0];
    loop {
        serial.read(&mut byte).unwrap();
        serial.write_all(&byte.map(|byte| byte.to_ascii_uppercase())).unwrap();
        if byte[0] == b'\n' {
            break;
        }
    }
    serial.flush().unwrap();
    exit(0)
}
// SPDX-License-Identifier: MIT OR Apache-2.0
