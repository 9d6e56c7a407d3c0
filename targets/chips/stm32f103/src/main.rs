//! STM32F103, by stm32f1xx-hal: the PLL at 72 MHz, a timer's interrupt as tick, a serial port that echoes a line in
//! capitals.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m_rt::entry;
use stm32f1xx_hal::pac::{self, interrupt};
use stm32f1xx_hal::prelude::*;
use stm32f1xx_hal::rcc;
use stm32f1xx_hal::serial::{Config, Serial};
use stm32f1xx_hal::timer::{Event, Timer};
use support::{exit, work};

static TICKS: AtomicU32 = AtomicU32::new(0);

#[interrupt]
fn TIM2() {
    // SAFETY: the flag is nobody else's.
    let timer = unsafe { &*pac::TIM2::ptr() };
    timer.sr().modify(|_, w| w.uif().clear_bit());
    TICKS.fetch_add(1, Ordering::Relaxed);
}

#[entry]
fn main() -> ! {
    let p = pac::Peripherals::take().unwrap();
    let mut flash = p.FLASH.constrain();
    let config = rcc::Config::hse(8.MHz()).sysclk(72.MHz()).pclk1(36.MHz());
    let mut rcc = p.RCC.freeze(config, &mut flash.acr);
    let mut gpioa = p.GPIOA.split(&mut rcc);
    let tx = gpioa.pa9.into_alternate_push_pull(&mut gpioa.crh);
    let rx = gpioa.pa10;
    let mut serial = Serial::new(p.USART1, (tx, rx), Config::default().baudrate(115_200.bps()), &mut rcc);
    let say = |serial: &mut Serial<pac::USART1, _>, text: &[u8]| {
        for &byte in text {
            nb::block!(serial.tx.write_u8(byte)).unwrap();
        }
    };
    say(&mut serial, b"hal on stm32f103\n");
    let mut timer = Timer::new(p.TIM2, &mut rcc).counter_hz();
    timer.start(1.kHz()).unwrap();
    timer.listen(Event::Update);
    // SAFETY: nothing that the handler uses is taken from anybody.
    unsafe { pac::NVIC::unmask(pac::Interrupt::TIM2) };
    while TICKS.load(Ordering::Relaxed) < 10 {
        work(20, 1);
        cortex_m::asm::wfi();
    }
    say(&mut serial, b"10 ticks\nname? ");
    loop {
        let byte = nb::block!(serial.rx.read()).unwrap();
        say(&mut serial, &[byte.to_ascii_uppercase()]);
        if byte == b'\n' {
            break;
        }
    }
    nb::block!(serial.tx.flush()).unwrap();
    exit(0)
}
// SPDX-License-Identifier: MIT OR Apache-2.0
