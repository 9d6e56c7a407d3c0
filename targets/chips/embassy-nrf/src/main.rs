//! nRF52840, nRF5340 (application core) and nRF9160, by embassy-nrf: the crystal's clock, its time driver on an RTC's interrupt, a serial port with DMA that echoes
//! a name in capitals.
#![no_std]
#![no_main]

use embassy_executor::Spawner;
use embassy_nrf::gpio::{Level, Output, OutputDrive};
use embassy_nrf::{bind_interrupts, config, peripherals, uarte};
use support::exit;

#[cfg(feature = "nrf52840")]
bind_interrupts!(struct Irqs {
    UARTE0 => uarte::InterruptHandler<peripherals::UARTE0>;
});

#[cfg(not(feature = "nrf52840"))]
bind_interrupts!(struct Irqs {
    SERIAL0 => uarte::InterruptHandler<peripherals::SERIAL0>;
});

const NAME: &[u8] = if cfg!(feature = "nrf52840") {
    b"embassy on nrf52840\n"
} else if cfg!(feature = "nrf5340") {
    b"embassy on nrf5340\n"
} else {
    b"embassy on nrf9160\n"
};

#[embassy_executor::task]
async fn blink(mut led: Output<'static>) {
    embassy::blink(|| led.toggle()).await;
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    let mut config = config::Config::default();
    config.hfclk_source = config::HfclkSource::ExternalXtal;
    config.lfclk_source = config::LfclkSource::ExternalXtal;
    let p = embassy_nrf::init(config);
    spawner.spawn(blink(Output::new(p.P0_13, Level::Low, OutputDrive::Standard)).unwrap());

    #[cfg(feature = "nrf52840")]
    let port = p.UARTE0;
    #[cfg(not(feature = "nrf52840"))]
    let port = p.SERIAL0;
    let mut uart = uarte::Uarte::new(port, p.P0_08, p.P0_06, Irqs, uarte::Config::default());
    // DMA reads RAM only.
    let mut buffer = [0; 20];
    buffer[..NAME.len()].copy_from_slice(NAME);
    uart.write(&buffer[..NAME.len()]).await.unwrap();
    let is_right = embassy::ten_waits().await;
    let verdict: &[u8] = if is_right { b"10 ticks" } else { b"bad time" };
    uart.write(verdict).await.unwrap();
    buffer[..7].copy_from_slice(b"\nname? ");
    uart.write(&buffer[..7]).await.unwrap();
    uart.read(&mut buffer[..4]).await.unwrap();
    buffer[..4].make_ascii_uppercase();
    uart.write(&buffer[..4]).await.unwrap();
    exit(u32::from(!is_right))
}
// SPDX-License-Identifier: MIT OR Apache-2.0
