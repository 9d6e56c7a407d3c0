//! ESP32-C3, by esp-hal: clocks, watchdogs, the system timer, a serial port that echoes a line in capitals. As after the boot loader.
//! No interrupt: the matrix of interrupts leads to a part of the processor.
#![no_std]
#![no_main]

use esp_hal::delay::Delay;
use esp_hal::main;
use esp_hal::uart::{Config, Uart};
use support::{exit, work};

#[main]
fn main() -> ! {
    let p = esp_hal::init(esp_hal::Config::default());
    let mut serial = Uart::new(p.UART0, Config::default()).unwrap().with_rx(p.GPIO20).with_tx(p.GPIO21);
    serial.write(b"hal on esp32c3\n").unwrap();
    let delay = Delay::new();
    for _ in 0..10 {
        work(20, 1);
        delay.delay_millis(1);
    }
    serial.write(b"10 ticks\nname? ").unwrap();
    let mut byte = [0];
    loop {
        serial.read(&mut byte).unwrap();
        serial.write(&byte.map(|byte| byte.to_ascii_uppercase())).unwrap();
        if byte[0] == b'\n' {
            break;
        }
    }
    serial.flush().unwrap();
    exit(0)
}
// SPDX-License-Identifier: MIT OR Apache-2.0
