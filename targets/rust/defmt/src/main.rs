//! Logs by defmt: frames that the host puts into words, by way of semihosting's `:tt`.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m as _;
use cortex_m_rt::entry;
use defmt_semihosting as _;
use support::exit;

static TICKS: AtomicU32 = AtomicU32::new(0);
defmt::timestamp!("{=u32:us}", TICKS.fetch_add(10, Ordering::Relaxed));

#[derive(defmt::Format)]
struct Reading {
    channel: u8,
    value: i32,
    name: &'static str,
}

#[entry]
fn main() -> ! {
    defmt::println!("a line without a level");
    for channel in 0..3 {
        defmt::info!("reading {}", Reading { channel, value: -100 * i32::from(channel), name: "temperature" });
    }
    defmt::warn!("{=u8:#x} of {=[u8]:?} is zero: {=bool}", 0, [0, 1, 0], true);
    defmt::error!("{=str}", "two\nlines");
    defmt::debug!("not compiled in");
    exit(4)
}
// SPDX-License-Identifier: MIT OR Apache-2.0
