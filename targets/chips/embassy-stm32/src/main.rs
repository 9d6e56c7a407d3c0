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

#[cfg(not(any(feature = "stm32g0b1", feature = "stm32h747", feature = "stm32wb55")))]
bind_interrupts!(struct Irqs {
    USART2 => usart::BufferedInterruptHandler<peripherals::USART2>;
});

#[cfg(feature = "stm32g0b1")]
bind_interrupts!(struct Irqs {
    USART2_LPUART2 => usart::BufferedInterruptHandler<peripherals::USART2>;
});

#[cfg(feature = "stm32h747")]
bind_interrupts!(struct Irqs {
    USART2 => usart::BufferedInterruptHandler<peripherals::USART2>;
    HSEM1 => embassy_stm32::hsem::HardwareSemaphoreInterruptHandler<peripherals::HSEM>;
});

#[cfg(feature = "stm32wb55")]
bind_interrupts!(struct Irqs {
    USART1 => usart::BufferedInterruptHandler<peripherals::USART1>;
});

/// The crystal at 8 MHz, and the PLL at 48 MHz.
#[cfg(any(feature = "stm32f030", feature = "stm32f070", feature = "stm32f072"))]
fn clocks(rcc: &mut rcc::Config) -> &'static [u8] {
    rcc.hse = Some(rcc::Hse { freq: embassy_stm32::time::Hertz(8_000_000), mode: rcc::HseMode::Oscillator });
    rcc.pll = Some(rcc::Pll { src: rcc::PllSource::HSE, prediv: rcc::PllPreDiv::DIV1, mul: rcc::PllMul::MUL6 });
    rcc.sys = rcc::Sysclk::PLL1_P;
    #[cfg(feature = "stm32f030")]
    return b"embassy on stm32f030\n";
    #[cfg(feature = "stm32f070")]
    return b"embassy on stm32f070\n";
    #[cfg(feature = "stm32f072")]
    return b"embassy on stm32f072\n";
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

/// The crystal at 8 MHz, and the PLL at 180 MHz, for which embassy switches the over-drive on.
#[cfg(any(feature = "stm32f429", feature = "stm32f446", feature = "stm32f469"))]
fn clocks(rcc: &mut rcc::Config) -> &'static [u8] {
    rcc.hse = Some(rcc::Hse { freq: embassy_stm32::time::Hertz(8_000_000), mode: rcc::HseMode::Oscillator });
    rcc.pll_src = rcc::PllSource::HSE;
    rcc.pll = Some(rcc::Pll {
        prediv: rcc::PllPreDiv::DIV4,
        mul: rcc::PllMul::MUL180,
        divp: Some(rcc::PllPDiv::DIV2),
        divq: None,
        divr: None,
    });
    rcc.pllsai = Some(rcc::Pll {
        prediv: rcc::PllPreDiv::DIV4,
        mul: rcc::PllMul::MUL96,
        divp: None,
        divq: Some(rcc::PllQDiv::DIV4),
        divr: None,
    });
    rcc.apb1_pre = rcc::APBPrescaler::DIV4;
    rcc.apb2_pre = rcc::APBPrescaler::DIV2;
    rcc.sys = rcc::Sysclk::PLL1_P;
    #[cfg(feature = "stm32f429")]
    return b"embassy on stm32f429\n";
    #[cfg(feature = "stm32f446")]
    return b"embassy on stm32f446\n";
    #[cfg(feature = "stm32f469")]
    return b"embassy on stm32f469\n";
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
#[cfg(any(feature = "stm32g071", feature = "stm32g0b1"))]
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
    #[cfg(feature = "stm32g071")]
    return b"embassy on stm32g071\n";
    #[cfg(feature = "stm32g0b1")]
    return b"embassy on stm32g0b1\n";
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
#[cfg(any(feature = "stm32h743", feature = "stm32h747"))]
fn clocks(rcc: &mut rcc::Config) -> &'static [u8] {
    rcc.pll1 = Some(rcc::Pll {
        source: rcc::PllSource::HSI,
        prediv: rcc::PllPreDiv::DIV4,
        mul: rcc::PllMul::MUL50,
        #[cfg(feature = "stm32h743")]
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
    #[cfg(feature = "stm32h743")]
    return b"embassy on stm32h743\n";
    #[cfg(feature = "stm32h747")]
    {
        rcc.supply_config = rcc::SupplyConfig::DirectSMPS;
        b"embassy on stm32h747\n"
    }
}

/// The internal oscillator, and the PLL at 32 MHz.
#[cfg(feature = "stm32l073")]
fn clocks(rcc: &mut rcc::Config) -> &'static [u8] {
    rcc.hsi = true;
    rcc.pll = Some(rcc::Pll { source: rcc::PllSource::HSI, mul: rcc::PllMul::MUL4, div: rcc::PllDiv::DIV2 });
    rcc.sys = rcc::Sysclk::PLL1_R;
    b"embassy on stm32l073\n"
}

/// The internal oscillator, and the PLL at 32 MHz, with 96 MHz before its divider.
#[cfg(feature = "stm32l152")]
fn clocks(rcc: &mut rcc::Config) -> &'static [u8] {
    rcc.hsi = true;
    rcc.pll = Some(rcc::Pll { source: rcc::PllSource::HSI, mul: rcc::PllMul::MUL6, div: rcc::PllDiv::DIV3 });
    rcc.sys = rcc::Sysclk::PLL1_R;
    b"embassy on stm32l152\n"
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

/// The clocks and the peripherals.
#[cfg(not(feature = "stm32h747"))]
fn init(config: embassy_stm32::Config) -> embassy_stm32::Peripherals {
    embassy_stm32::init(config)
}

/// The clocks and the peripherals, as the first of two cores, which is alone here.
#[cfg(feature = "stm32h747")]
fn init(config: embassy_stm32::Config) -> embassy_stm32::Peripherals {
    static SHARED: core::mem::MaybeUninit<embassy_stm32::SharedData> = core::mem::MaybeUninit::uninit();
    embassy_stm32::init_primary(config, &SHARED)
}

#[embassy_executor::task]
async fn blink(mut led: Output<'static>) {
    embassy::blink(|| led.toggle()).await;
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    let mut config = embassy_stm32::Config::default();
    let name = clocks(&mut config.rcc);
    let p = init(config);
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
    // A semaphore is taken and given back.
    #[cfg(feature = "stm32h747")]
    drop(embassy_stm32::hsem::HardwareSemaphore::new(p.HSEM, Irqs).channel_for(1).lock(7).await);
    exit(session(&mut uart, name).await)
}
// SPDX-License-Identifier: MIT OR Apache-2.0
