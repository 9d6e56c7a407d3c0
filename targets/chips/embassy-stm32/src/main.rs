//! STM32 of several families, by embassy-stm32: the PLL, its time driver on a timer's interrupt, a serial port by interrupt
//! that echoes a line in capitals. Only `clocks` and the serial port's pins differ between the chips.
#![no_std]
#![no_main]

use embassy::session;
use embassy_executor::Spawner;
use embassy_stm32::gpio::{Level, Output, Speed};
use embassy_stm32::usart::{self, BufferedUart};
use embassy_stm32::{bind_interrupts, peripherals, rcc};
use support::exit;

#[cfg(not(feature = "stm32wb55"))]
bind_interrupts!(struct Irqs {
    USART2 => usart::BufferedInterruptHandler<peripherals::USART2>;
});

#[cfg(feature = "stm32wb55")]
bind_interrupts!(struct Irqs {
    USART1 => usart::BufferedInterruptHandler<peripherals::USART1>;
});

/// The crystal at 8 MHz, and the PLL at 48 MHz.
#[cfg(feature = "stm32f072")]
fn clocks(rcc: &mut rcc::Config) -> &'static [u8] {
    rcc.hse = Some(rcc::Hse { freq: embassy_stm32::time::Hertz(8_000_000), mode: rcc::HseMode::Oscillator });
    rcc.pll = Some(rcc::Pll { src: rcc::PllSource::HSE, prediv: rcc::PllPreDiv::DIV1, mul: rcc::PllMul::MUL6 });
    rcc.sys = rcc::Sysclk::PLL1_P;
    b"embassy on stm32f072\n"
}

/// The crystal at 8 MHz, and the PLL at 72 MHz.
#[cfg(feature = "stm32f303")]
fn clocks(rcc: &mut rcc::Config) -> &'static [u8] {
    rcc.hse = Some(rcc::Hse { freq: embassy_stm32::time::Hertz(8_000_000), mode: rcc::HseMode::Oscillator });
    rcc.pll = Some(rcc::Pll { src: rcc::PllSource::HSE, prediv: rcc::PllPreDiv::DIV1, mul: rcc::PllMul::MUL9 });
    rcc.apb1_pre = rcc::APBPrescaler::DIV2;
    rcc.sys = rcc::Sysclk::PLL1_P;
    b"embassy on stm32f303\n"
}

/// The crystal at 8 MHz, and the PLL at 168 MHz.
#[cfg(feature = "stm32f407")]
fn clocks(rcc: &mut rcc::Config) -> &'static [u8] {
    rcc.hse = Some(rcc::Hse { freq: embassy_stm32::time::Hertz(8_000_000), mode: rcc::HseMode::Oscillator });
    rcc.pll_src = rcc::PllSource::HSE;
    rcc.pll = Some(rcc::Pll {
        prediv: rcc::PllPreDiv::DIV4,
        mul: rcc::PllMul::MUL168,
        divp: Some(rcc::PllPDiv::DIV2),
        divq: Some(rcc::PllQDiv::DIV7),
        divr: None,
    });
    rcc.apb1_pre = rcc::APBPrescaler::DIV4;
    rcc.apb2_pre = rcc::APBPrescaler::DIV2;
    rcc.sys = rcc::Sysclk::PLL1_P;
    b"embassy on stm32f407\n"
}

/// The crystal at 8 MHz, and the PLL at 216 MHz.
#[cfg(feature = "stm32f767")]
fn clocks(rcc: &mut rcc::Config) -> &'static [u8] {
    rcc.hse = Some(rcc::Hse { freq: embassy_stm32::time::Hertz(8_000_000), mode: rcc::HseMode::Oscillator });
    rcc.pll_src = rcc::PllSource::HSE;
    rcc.pll = Some(rcc::Pll {
        prediv: rcc::PllPreDiv::DIV4,
        mul: rcc::PllMul::MUL216,
        divp: Some(rcc::PllPDiv::DIV2),
        divq: None,
        divr: None,
    });
    rcc.apb1_pre = rcc::APBPrescaler::DIV4;
    rcc.apb2_pre = rcc::APBPrescaler::DIV2;
    rcc.sys = rcc::Sysclk::PLL1_P;
    b"embassy on stm32f767\n"
}

/// The internal oscillator, and the PLL at 64 MHz.
#[cfg(feature = "stm32g071")]
fn clocks(rcc: &mut rcc::Config) -> &'static [u8] {
    rcc.pll = Some(rcc::Pll {
        source: rcc::PllSource::HSI,
        prediv: rcc::PllPreDiv::DIV1,
        mul: rcc::PllMul::MUL16,
        divp: None,
        divq: None,
        divr: Some(rcc::PllRDiv::DIV4),
    });
    rcc.sys = rcc::Sysclk::PLL1_R;
    b"embassy on stm32g071\n"
}

/// The internal oscillator, and the PLL at 170 MHz.
#[cfg(feature = "stm32g474")]
fn clocks(rcc: &mut rcc::Config) -> &'static [u8] {
    rcc.pll = Some(rcc::Pll {
        source: rcc::PllSource::HSI,
        prediv: rcc::PllPreDiv::DIV4,
        mul: rcc::PllMul::MUL85,
        divp: None,
        divq: None,
        divr: Some(rcc::PllRDiv::DIV2),
    });
    rcc.boost = true;
    rcc.sys = rcc::Sysclk::PLL1_R;
    b"embassy on stm32g474\n"
}

/// The internal oscillator at 64 MHz, and the PLL at 400 MHz.
#[cfg(feature = "stm32h743")]
fn clocks(rcc: &mut rcc::Config) -> &'static [u8] {
    rcc.pll1 = Some(rcc::Pll {
        source: rcc::PllSource::HSI,
        prediv: rcc::PllPreDiv::DIV4,
        mul: rcc::PllMul::MUL50,
        fracn: None,
        divp: Some(rcc::PllDiv::DIV2),
        divq: None,
        divr: None,
    });
    rcc.sys = rcc::Sysclk::PLL1_P;
    rcc.ahb_pre = rcc::AHBPrescaler::DIV2;
    rcc.apb1_pre = rcc::APBPrescaler::DIV2;
    rcc.apb2_pre = rcc::APBPrescaler::DIV2;
    rcc.apb3_pre = rcc::APBPrescaler::DIV2;
    rcc.apb4_pre = rcc::APBPrescaler::DIV2;
    rcc.voltage_scale = rcc::VoltageScale::Scale1;
    b"embassy on stm32h743\n"
}

/// The internal oscillator, and the PLL at 32 MHz.
#[cfg(feature = "stm32l073")]
fn clocks(rcc: &mut rcc::Config) -> &'static [u8] {
    rcc.hsi = true;
    rcc.pll = Some(rcc::Pll { source: rcc::PllSource::HSI, mul: rcc::PllMul::MUL4, div: rcc::PllDiv::DIV2 });
    rcc.sys = rcc::Sysclk::PLL1_R;
    b"embassy on stm32l073\n"
}

/// The internal oscillator, and the PLL at 80 MHz.
#[cfg(feature = "stm32l476")]
fn clocks(rcc: &mut rcc::Config) -> &'static [u8] {
    rcc.hsi = true;
    rcc.pll = Some(rcc::Pll {
        source: rcc::PllSource::HSI,
        prediv: rcc::PllPreDiv::DIV1,
        mul: rcc::PllMul::MUL10,
        divp: None,
        divq: None,
        divr: Some(rcc::PllRDiv::DIV2),
    });
    rcc.sys = rcc::Sysclk::PLL1_R;
    b"embassy on stm32l476\n"
}

/// The internal oscillator, and the PLL at 160 MHz.
#[cfg(feature = "stm32u575")]
fn clocks(rcc: &mut rcc::Config) -> &'static [u8] {
    rcc.hsi = true;
    rcc.pll1 = Some(rcc::Pll {
        source: rcc::PllSource::HSI,
        prediv: rcc::PllPreDiv::DIV1,
        mul: rcc::PllMul::MUL20,
        divp: None,
        divq: None,
        divr: Some(rcc::PllDiv::DIV2),
    });
    rcc.sys = rcc::Sysclk::PLL1_R;
    b"embassy on stm32u575\n"
}

/// The crystal at 32 MHz, and the PLL at 64 MHz.
#[cfg(feature = "stm32wb55")]
fn clocks(rcc: &mut rcc::Config) -> &'static [u8] {
    rcc.hse = Some(rcc::Hse {
        freq: embassy_stm32::time::Hertz(32_000_000),
        mode: rcc::HseMode::Oscillator,
        prescaler: rcc::HsePrescaler::DIV1,
    });
    rcc.pll = Some(rcc::Pll {
        source: rcc::PllSource::HSE,
        prediv: rcc::PllPreDiv::DIV2,
        mul: rcc::PllMul::MUL12,
        divp: None,
        divq: None,
        divr: Some(rcc::PllRDiv::DIV3),
    });
    rcc.sys = rcc::Sysclk::PLL1_R;
    b"embassy on stm32wb55\n"
}

#[embassy_executor::task]
async fn blink(mut led: Output<'static>) {
    embassy::blink(|| led.toggle()).await;
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    let mut config = embassy_stm32::Config::default();
    let name = clocks(&mut config.rcc);
    let p = embassy_stm32::init(config);
    spawner.spawn(blink(Output::new(p.PA5, Level::Low, Speed::Low)).unwrap());

    static mut TX: [u8; 32] = [0; 32];
    static mut RX: [u8; 32] = [0; 32];
    // SAFETY: the only references to them.
    let (tx, rx) = unsafe { (&mut *(&raw mut TX), &mut *(&raw mut RX)) };
    #[cfg(not(feature = "stm32wb55"))]
    let uart = BufferedUart::new(p.USART2, p.PA3, p.PA2, tx, rx, Irqs, usart::Config::default());
    #[cfg(feature = "stm32wb55")]
    let uart = BufferedUart::new(p.USART1, p.PB7, p.PB6, tx, rx, Irqs, usart::Config::default());
    let mut uart = uart.unwrap();
    exit(session(&mut uart, name).await)
}
// SPDX-License-Identifier: MIT OR Apache-2.0
