//! RP2040 and RP2350, by embassy-rp: both PLLs, its time driver on the timer's alarm, a serial port by interrupt that echoes a line in
//! capitals.
#![no_std]
#![no_main]

use embassy_executor::Spawner;
use embassy_rp::gpio::{Level, Output};
use embassy_rp::uart::{self, BufferedUart};
use embassy_rp::{bind_interrupts, peripherals};
use embassy_time::{Duration, Instant, Ticker, Timer};
use embedded_io_async::{Read, Write};
use support::{exit, work};

bind_interrupts!(struct Irqs {
    UART0_IRQ => uart::BufferedInterruptHandler<peripherals::UART0>;
});

const NAME: &[u8] = if cfg!(feature = "rp2350") { b"embassy on rp2350\n" } else { b"embassy on rp2040\n" };

#[embassy_executor::task]
async fn blink(mut led: Output<'static>) {
    let mut ticker = Ticker::every(Duration::from_millis(5));
    loop {
        led.toggle();
        work(50, 1);
        ticker.next().await;
    }
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
    uart.write_all(NAME).await.unwrap();
    let begin = Instant::now();
    for _ in 0..10 {
        Timer::after_millis(2).await;
        work(200, 7);
    }
    let passed = begin.elapsed();
    let is_right = (20..30).contains(&passed.as_millis());
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
    exit(u32::from(!is_right))
}
