//! STM32L476, by embassy-stm32: the PLL at 80 MHz, its time driver on a timer's interrupt, a serial port by interrupt that
//! echoes a line in capitals.
#![no_std]
#![no_main]

use embassy_executor::Spawner;
use embassy_stm32::gpio::{Level, Output, Speed};
use embassy_stm32::rcc;
use embassy_stm32::usart::{self, BufferedUart};
use embassy_stm32::{bind_interrupts, peripherals};
use embassy_time::{Duration, Instant, Ticker, Timer};
use embedded_io_async::{Read, Write};
use support::{exit, work};

bind_interrupts!(struct Irqs {
    USART2 => usart::BufferedInterruptHandler<peripherals::USART2>;
});

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
    let mut config = embassy_stm32::Config::default();
    config.rcc.hsi = true;
    config.rcc.pll = Some(rcc::Pll {
        source: rcc::PllSource::HSI,
        prediv: rcc::PllPreDiv::DIV1,
        mul: rcc::PllMul::MUL10,
        divp: None,
        divq: None,
        divr: Some(rcc::PllRDiv::DIV2),
    });
    config.rcc.sys = rcc::Sysclk::PLL1_R;
    let p = embassy_stm32::init(config);
    spawner.spawn(blink(Output::new(p.PA5, Level::Low, Speed::Low)).unwrap());

    static mut TX: [u8; 32] = [0; 32];
    static mut RX: [u8; 32] = [0; 32];
    // SAFETY: the only references to them.
    let (tx, rx) = unsafe { (&mut *(&raw mut TX), &mut *(&raw mut RX)) };
    let mut uart = BufferedUart::new(p.USART2, p.PA3, p.PA2, tx, rx, Irqs, usart::Config::default()).unwrap();
    uart.write_all(b"embassy on stm32l476\n").await.unwrap();
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
