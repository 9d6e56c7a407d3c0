//! RTIC: software tasks that wait, two of them at one priority. The firmware counts their polls itself.
#![no_std]
#![no_main]

#[rtic::app(device = lm3s6965, dispatchers = [GPIOA, GPIOB])]
mod app {
    use cortex_m::asm;
    use cortex_m::peripheral::syst::SystClkSource;
    use support::event::{Counts, Event};
    use support::{exit, mix, println};

    const RELOAD: u32 = 6_000 - 1;
    const ROUNDS: u32 = 9;

    static EVENTS: [Event; 3] = [const { Event::new() }; 3];
    static COUNTS: [Counts; 3] = [const { Counts::new() }; 3];

    #[shared]
    struct Shared {}

    #[local]
    struct Local {
        ticks: usize,
    }

    #[init]
    fn init(context: init::Context) -> (Shared, Local) {
        let mut systick = context.core.SYST;
        systick.set_clock_source(SystClkSource::Core);
        systick.set_reload(RELOAD);
        systick.clear_current();
        systick.enable_counter();
        systick.enable_interrupt();
        low::spawn().ok();
        other::spawn().ok();
        high::spawn().ok();
        (Shared {}, Local { ticks: 0 })
    }

    #[idle]
    fn idle(_: idle::Context) -> ! {
        loop {
            if COUNTS.iter().all(Counts::is_done) {
                println!("polls: {:?}", [0, 1, 2].map(|number: usize| COUNTS[number].polls()));
                exit(0)
            }
            asm::wfi();
        }
    }

    #[task(binds = SysTick, priority = 3, local = [ticks])]
    fn tick(context: tick::Context) {
        EVENTS[*context.local.ticks % EVENTS.len()].set();
        *context.local.ticks += 1;
    }

    async fn rounds(number: usize) {
        for round in 0..ROUNDS {
            EVENTS[number].wait().await;
            core::hint::black_box((0..100).fold(round, mix));
        }
    }

    #[task(priority = 1)]
    async fn low(_: low::Context) {
        COUNTS[0].of(rounds(0)).await;
    }

    #[task(priority = 1)]
    async fn other(_: other::Context) {
        COUNTS[1].of(rounds(1)).await;
    }

    #[task(priority = 2)]
    async fn high(_: high::Context) {
        COUNTS[2].of(rounds(2)).await;
    }
}
// SPDX-License-Identifier: MIT OR Apache-2.0
