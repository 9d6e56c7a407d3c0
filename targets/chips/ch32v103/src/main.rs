//! CH32V103, by ch32v103-hal and qingke-rt: the PLL at 72 MHz, the core's timer, a serial port that echoes a line in capitals.
//! No interrupt: its controller is part of the processor. The HAL has no serial port; its registers' crate has.
#![no_std]
#![no_main]

use ch32v1::ch32v103 as pac;
use ch32v103_hal::clocks::{AHBPreDiv, APB1PreDiv, APB2PreDiv, Clocks, InputSrc, PllMul, PllSrc};
use support::{exit, work};

/// Cycles of the core's timer, an eighth of the processor's, in a millisecond.
const TICKS_PER_MS: u32 = 9_000;

#[qingke_rt::entry]
fn main() -> ! {
    let clocks = Clocks {
        input_src: InputSrc::Pll(PllSrc::Hse(8)),
        pllmul: PllMul::Mul9,
        ahb_prediv: AHBPreDiv::NoDiv,
        apb1_prediv: APB1PreDiv::Div2,
        apb2_prediv: APB2PreDiv::NoDiv,
        ..Clocks::default()
    };
    clocks.setup().unwrap();
    // SAFETY: nobody else has them.
    let p = unsafe { pac::Peripherals::steal() };
    p.RCC.apb2pcenr.modify(|_, w| w.usart1en().set_bit().iopaen().set_bit());
    // SAFETY: 72 MHz by 115,200.
    p.USART1.brr.write(|w| unsafe { w.bits(625) });
    p.USART1.ctlr1.write(|w| w.ue().set_bit().te().set_bit().re().set_bit());
    let say = |text: &[u8]| {
        for &byte in text {
            while p.USART1.statr.read().txe().bit_is_clear() {}
            // SAFETY: a byte to send.
            p.USART1.datar.write(|w| unsafe { w.bits(byte.into()) });
        }
    };
    say(b"hal on ch32v103\n");
    // SAFETY: the timer's one bit, which starts it.
    p.SYSTICK.ctlr.write(|w| unsafe { w.bits(1) });
    let now = || p.SYSTICK.cntl.read().bits();
    for _ in 0..10 {
        work(20, 1);
        let start = now();
        while now().wrapping_sub(start) < TICKS_PER_MS {}
    }
    say(b"10 ticks\nname? ");
    loop {
        while p.USART1.statr.read().rxne().bit_is_clear() {}
        let byte = p.USART1.datar.read().bits() as u8;
        say(&[byte.to_ascii_uppercase()]);
        if byte == b'\n' {
            break;
        }
    }
    exit(0)
}
// SPDX-License-Identifier: MIT OR Apache-2.0
