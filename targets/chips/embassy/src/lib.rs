//! Session of the images of embassy's HALs: a task that blinks, ten waits, and a name that is echoed in capitals.
#![no_std]

use embassy_time::{Duration, Instant, Ticker, Timer};
use embedded_io_async::{Read, Write};
use support::work;

/// Blinks for ever, beside the session.
pub async fn blink(mut toggle: impl FnMut()) {
    let mut ticker = Ticker::every(Duration::from_millis(5));
    loop {
        toggle();
        work(50, 1);
        ticker.next().await;
    }
}

/// Waits ten times. Returns whether the chip's clock has the time that this takes.
pub async fn ten_waits() -> bool {
    let begin = Instant::now();
    for _ in 0..10 {
        Timer::after_millis(2).await;
        work(200, 7);
    }
    (20..30).contains(&begin.elapsed().as_millis())
}

/// Prints the image's name, waits, and echoes a line in capitals. Returns the status to exit with.
pub async fn session(uart: &mut (impl Read + Write), name: &[u8]) -> u32 {
    uart.write_all(name).await.unwrap();
    let is_right = ten_waits().await;
    uart.write_all(if is_right { b"10 ticks\n" } else { b"bad time\n" }).await.unwrap();
    uart.write_all(b"name? ").await.unwrap();
    let mut line = [0u8; 1];
    loop {
        uart.read(&mut line).await.unwrap();
        uart.write_all(&line.map(|byte| byte.to_ascii_uppercase())).await.unwrap();
        if line[0] == b'\n' {
            break;
        }
    }
    uart.flush().await.unwrap();
    u32::from(!is_right)
}
// SPDX-License-Identifier: MIT OR Apache-2.0
