//! i.MX RT1062 of a Teensy 4, by teensy4-bsp and imxrt-hal: ARM's PLL at 600 MHz, code in ITCM, SysTick as tick and the PIT's
//! interrupt that its time is held against, a serial port that echoes a line in capitals.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m::peripheral::NVIC;
use cortex_m::peripheral::syst::SystClkSource;
use imxrt_ral::{Interrupt, interrupt};
use support::{exit, work};
use teensy4_bsp::board;
use teensy4_bsp::hal::lpuart::{Direction, Lpuart, Pins, Status};
use teensy4_bsp::hal::pit::Channel;

/// Computed here, since computing it takes the chip's processor 2.7 million instructions.
const BAUD: board::LpuartBaud = board::lpuart_baud(115_200);

static TICKS: AtomicU32 = AtomicU32::new(0);
/// Ticks up to the timer's interrupt.
static TICKS_OF_TIMER: AtomicU32 = AtomicU32::new(0);

#[imxrt_rt::exception]
fn SysTick() {
    TICKS.fetch_add(1, Ordering::Relaxed);
}

#[imxrt_rt::interrupt]
fn PIT() {
    // SAFETY: the flag is nobody else's.
    let timer = unsafe { imxrt_ral::pit::PIT::instance() };
    imxrt_ral::write_reg!(imxrt_ral::pit::timer, &timer.TIMER[2], TFLG, 1);
    imxrt_ral::write_reg!(imxrt_ral::pit::timer, &timer.TIMER[2], TCTRL, 0);
    TICKS_OF_TIMER.store(TICKS.load(Ordering::Relaxed), Ordering::Relaxed);
    cortex_m::asm::dsb();
}

#[imxrt_rt::entry]
fn main() -> ! {
    let board::Resources { pins, mut pit, mut gpio2, lpuart2, .. } = board::t40(board::instances());
    let led = board::led(&mut gpio2, pins.p13);
    led.set();
    let mut uart = Lpuart::with_pins(lpuart2, Pins { tx: pins.p14, rx: pins.p15 });
    uart.disable(|uart| {
        uart.set_baud(&BAUD);
        uart.disable_fifo(Direction::Tx);
        uart.disable_fifo(Direction::Rx);
        uart.set_parity(None);
    });
    let write = |uart: &mut Lpuart, text: &[u8]| {
        for &byte in text {
            while !uart.status().contains(Status::TRANSMIT_EMPTY) {}
            uart.write_byte(byte);
        }
    };
    write(&mut uart, b"hal on imxrt1062\n");

    // SAFETY: SysTick is nobody else's.
    let mut systick = unsafe { cortex_m::Peripherals::steal() }.SYST;
    systick.set_clock_source(SystClkSource::Core);
    systick.set_reload(board::ARM_FREQUENCY / 1_000 - 1);
    systick.clear_current();
    pit.set_interrupt_enable(Channel::Chan2, true);
    pit.set_load_timer_value(Channel::Chan2, board::PERCLK_FREQUENCY / 1_000 * 11 / 2);
    systick.enable_interrupt();
    systick.enable_counter();
    pit.enable(Channel::Chan2);
    // SAFETY: nothing that the handler uses is taken from anybody.
    unsafe { NVIC::unmask(Interrupt::PIT) };
    while TICKS.load(Ordering::Relaxed) < 10 {
        work(20, 1);
        cortex_m::asm::wfi();
    }
    let is_right = TICKS_OF_TIMER.load(Ordering::Relaxed) == 5;
    write(&mut uart, if is_right { b"10 ticks\nname? " } else { b"bad time\nname? " });
    loop {
        while !uart.status().contains(Status::RECEIVE_FULL) {}
        let byte = u8::from(uart.read_data());
        write(&mut uart, &[byte.to_ascii_uppercase()]);
        if byte == b'\n' {
            break;
        }
    }
    while !uart.status().contains(Status::TRANSMIT_COMPLETE) {}
    exit(u32::from(!is_right))
}
// SPDX-License-Identifier: MIT OR Apache-2.0
