//! GD32VF103, by gd32vf103xx-hal: the PLL at 108 MHz, delays by the processor's cycles, a serial port that echoes a line in capitals.
//! No interrupt: its controller is part of the processor.
#![no_std]
#![no_main]

use embedded_hal::blocking::delay::DelayMs;
use embedded_hal::serial::{Read, Write};
use gd32vf103xx_hal::delay::McycleDelay;
use gd32vf103xx_hal::pac;
use gd32vf103xx_hal::prelude::*;
use gd32vf103xx_hal::serial::{Config, Serial};
use riscv_rt::entry;
use support::{exit, work};

#[entry]
fn main() -> ! {
    let p = pac::Peripherals::take().unwrap();
    let mut rcu = p.RCU.configure().ext_hf_clock(8.mhz()).sysclk(108.mhz()).freeze();
    let mut afio = p.AFIO.constrain(&mut rcu);
    let gpioa = p.GPIOA.split(&mut rcu);
    let serial = Serial::new(p.USART0, (gpioa.pa9, gpioa.pa10), Config::default(), &mut afio, &mut rcu);
    let (mut tx, mut rx) = serial.split();
    let mut say = |text: &[u8]| text.iter().for_each(|&byte| nb::block!(tx.write(byte)).unwrap());
    say(b"hal on gd32vf103\n");
    let mut delay = McycleDelay::new(&rcu.clocks);
    for _ in 0..10 {
        work(20, 1);
        delay.delay_ms(1u32);
    }
    say(b"10 ticks\nname? ");
    loop {
        let byte = nb::block!(rx.read()).unwrap_or(b'?');
        say(&[byte.to_ascii_uppercase()]);
        if byte == b'\n' {
            break;
        }
    }
    exit(0)
}
// SPDX-License-Identifier: MIT OR Apache-2.0
