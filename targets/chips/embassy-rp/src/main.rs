//! RP2040 and RP2350, by embassy-rp: both PLLs, its time driver on the timer's alarm, a serial port by interrupt that echoes a line in
//! capitals.
#![no_std]
#![no_main]

use embassy::session;
use embassy_executor::Spawner;
use embassy_rp::gpio::{Level, Output};
use embassy_rp::uart::{self, BufferedUart};
use embassy_rp::{bind_interrupts, peripherals};
use support::exit;

bind_interrupts!(struct Irqs {
    UART0_IRQ => uart::BufferedInterruptHandler<peripherals::UART0>;
});

const NAME: &[u8] = if cfg!(feature = "rp2350") { b"embassy on rp2350\n" } else { b"embassy on rp2040\n" };

#[embassy_executor::task]
async fn blink(mut led: Output<'static>) {
    embassy::blink(|| led.toggle()).await;
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    let p = embassy_rp::init(Default::default());
    spawner.spawn(blink(Output::new(p.PIN_25, Level::Low)).unwrap());

    static mut TX: [u8; 32] = [0; 32];
    static mut RX: [u8; 32] = [0; 32];
    // SAFETY: the only references to them.
    let (tx, rx) = unsafe { (&mut *(&raw mut TX), &mut *(&raw mut RX)) };
    let mut uart = BufferedUart::new(p.UART0, p.PIN_0, p.PIN_1, Irqs, tx, rx, uart::Config::default());
    exit(session(&mut uart, NAME).await)
}
// SPDX-License-Identifier: MIT OR Apache-2.0
