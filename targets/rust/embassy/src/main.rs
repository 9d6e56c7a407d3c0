//! Embassy: two tasks that hand values over and wait for time, on its executor for threads, asleep in between; the
//! time driver is ours, on SysTick.
#![no_std]
#![no_main]

mod time;

use embassy_executor::Spawner;
use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::channel::Channel;
use embassy_time::{Duration, Instant, Timer};
use support::{exit, mix, println};

const VALUES: u32 = 120;

static CHANNEL: Channel<CriticalSectionRawMutex, u32, 4> = Channel::new();

#[inline(never)]
fn compute(rounds: u32, seed: u32) -> u32 {
    (0..rounds).fold(seed, mix)
}

#[embassy_executor::task]
async fn producer_task(first: u32) {
    for i in 0..VALUES {
        CHANNEL.send(compute(300, first + i)).await;
        if i % 3 == 2 {
            Timer::after(Duration::from_millis(1)).await;
        }
    }
}

#[embassy_executor::task]
async fn consumer_task() {
    let mut sum = 1;
    for i in 0..VALUES {
        let value = CHANNEL.receive().await;
        sum = mix(sum, compute(100 + (value & 63), value));
        if i % 40 == 39 {
            println!("embassy: {} values {sum:08x}", i + 1);
        }
    }
    exit(usize::from(Instant::now().as_millis() < 20))
}

#[embassy_executor::task(pool_size = 2)]
async fn ticker_task(period_ms: u64) {
    let mut count = 0;
    loop {
        Timer::after_millis(period_ms).await;
        count = compute(20, count);
    }
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    time::start();
    spawner.spawn(consumer_task().unwrap());
    spawner.spawn(producer_task(1).unwrap());
    spawner.spawn(ticker_task(2).unwrap());
    spawner.spawn(ticker_task(5).unwrap());
    Timer::after_secs(3600).await;
}
// SPDX-License-Identifier: MIT OR Apache-2.0
