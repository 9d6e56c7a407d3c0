//! RTIC: a hardware task on SysTick, software tasks at two priorities, a resource that they lock, and an idle task
//! that sleeps.
#![no_std]
#![no_main]

#[rtic::app(device = lm3s6965, dispatchers = [GPIOA, GPIOB])]
mod app {
    use cortex_m::asm;
    use cortex_m::peripheral::syst::SystClkSource;
    use support::{exit, mix, println};

    /// At 12.5 MHz.
    const RELOAD: u32 = 6_000 - 1;
    const TICKS: u32 = 200;

    #[shared]
    struct Shared {
        sum: u32,
    }

    #[local]
    struct Local {
        ticks: u32,
        crunched: u32,
    }

    #[init]
    fn init(context: init::Context) -> (Shared, Local) {
        let mut systick = context.core.SYST;
        systick.set_clock_source(SystClkSource::Core);
        systick.set_reload(RELOAD);
        systick.clear_current();
        systick.enable_counter();
        systick.enable_interrupt();
        report::spawn(0).ok();
        (Shared { sum: 1 }, Local { ticks: 0, crunched: 0 })
    }

    #[idle]
    fn idle(_: idle::Context) -> ! {
        loop {
            asm::wfi();
        }
    }

    #[inline(never)]
    fn compute(rounds: u32, seed: u32) -> u32 {
        (0..rounds).fold(seed, mix)
    }

    #[task(binds = SysTick, priority = 3, local = [ticks], shared = [sum])]
    fn tick(mut context: tick::Context) {
        *context.local.ticks += 1;
        let ticks = *context.local.ticks;
        context.shared.sum.lock(|sum| *sum = mix(*sum, ticks));
        if ticks.is_multiple_of(4) {
            crunch::spawn(ticks).ok();
        }
        if ticks.is_multiple_of(50) {
            report::spawn(ticks).ok();
        }
    }

    /// Works for longer than a tick, and is interrupted in it.
    #[task(priority = 2, local = [crunched], shared = [sum])]
    async fn crunch(mut context: crunch::Context, ticks: u32) {
        let value = compute(8_000, ticks);
        *context.local.crunched += 1;
        context.shared.sum.lock(|sum| *sum = compute(10, *sum ^ value));
    }

    #[task(priority = 1, shared = [sum])]
    async fn report(mut context: report::Context, ticks: u32) {
        let sum = context.shared.sum.lock(|sum| *sum);
        println!("rtic: {ticks} ticks {sum:08x}");
        if ticks == TICKS {
            exit(0);
        }
    }
}
// SPDX-License-Identifier: MIT OR Apache-2.0
