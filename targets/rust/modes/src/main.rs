//! Embassy's executors without hooks: for threads on Arm and RISC-V, and in an interrupt on Arm. A timer's interrupt
//! wakes tasks, some of which end and are spawned again. The firmware counts its polls, wakes and spawns itself.
#![no_std]
#![no_main]

#[cfg_attr(target_arch = "arm", path = "arm.rs")]
#[cfg_attr(target_arch = "riscv32", path = "riscv.rs")]
mod board;

use core::sync::atomic::{AtomicU32, Ordering};

use embassy_executor::Spawner;
use support::event::{Counts, Event, WAKES, undisturbed};
use support::{exit, mix, println};

const ROUNDS: u32 = 12;
const JOBS: u32 = 5;

static TICKS: [Event; 3] = [const { Event::new() }; 3];
static URGENT_TICK: Event = Event::new();
static DONE: Event = Event::new();
static MAIN: Counts = Counts::new();
static STEADY: [Counts; 2] = [const { Counts::new() }; 2];
static JOB: Counts = Counts::new();
static URGENT: Counts = Counts::new();
static SUM: AtomicU32 = AtomicU32::new(1);

/// Handler of the timer's interrupt.
fn tick() {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed) as usize;
    TICKS[next % TICKS.len()].set();
    if next % 2 == 1 {
        URGENT_TICK.set();
    }
}

#[inline(never)]
fn compute(rounds: u32, seed: u32) {
    SUM.store((0..rounds).fold(seed, mix), Ordering::Relaxed);
}

/// Waits for its event again and again.
#[embassy_executor::task(pool_size = 2)]
async fn steady(number: usize) {
    let rounds = async {
        for round in 0..ROUNDS {
            TICKS[number].wait().await;
            compute(200, round);
        }
    };
    STEADY[number].of(rounds).await;
}

/// Ends after two waits, and is spawned again.
#[embassy_executor::task]
async fn job(seed: u32) {
    let work = async {
        for _ in 0..2 {
            compute(100, seed);
            TICKS[2].wait().await;
        }
    };
    JOB.of(work).await;
    DONE.set();
}

/// In an interrupt, where there is an executor for that.
#[embassy_executor::task]
async fn urgent() {
    let rounds = async {
        for round in 0..ROUNDS {
            URGENT_TICK.wait().await;
            compute(50, round);
        }
    };
    URGENT.of(rounds).await;
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    board::start(spawner);
    for number in 0..2 {
        spawner.spawn(steady(number).unwrap());
    }
    let jobs = async {
        for number in 0..JOBS {
            spawner.spawn(job(number).unwrap());
            DONE.wait().await;
        }
        // The others have ended by then, or end first.
        while STEADY.iter().any(|counts| !counts.is_done()) {
            TICKS[2].wait().await;
        }
    };
    MAIN.of(jobs).await;
    let polls = || [&MAIN, &STEADY[0], &STEADY[1], &JOB, &URGENT].map(Counts::polls);
    undisturbed(|| {
        println!("modes: polls {:?}, wakes {}, urgent {}", polls(), WAKES.load(Ordering::Relaxed), URGENT.is_done());
        exit(0)
    });
}
// SPDX-License-Identifier: MIT OR Apache-2.0
