//! riscv-rt's traps: a machine timer that interrupts a recursion, environment calls and illegal instructions that
//! handlers skip, each by the crate's own entry code.
#![no_std]
#![no_main]

use core::arch::asm;
use core::hint::black_box;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};

use riscv::interrupt::{Exception, Interrupt};
use riscv_rt::{TrapFrame, core_interrupt, entry, exception};
use support::{exit, mix, println};

const MTIME: *const u64 = 0x0200_bff8 as *const u64;
const MTIMECMP: *mut u64 = 0x0200_4000 as *mut u64;
/// At 10 MHz.
const TICK_COUNTS: u64 = 400;
const ROUNDS: u32 = 2_000;

static TICKS: AtomicU32 = AtomicU32::new(0);
static CALLS: AtomicU32 = AtomicU32::new(0);
static ILLEGAL: AtomicU32 = AtomicU32::new(0);

#[inline(never)]
fn work(depth: u32, x: u32) -> u32 {
    if depth == 0 { mix(x, 7) } else { black_box(work(depth - 1, mix(x, depth))) + 1 }
}

fn set_timer() {
    // SAFETY: QEMU `virt` has its timer there.
    unsafe { ptr::write_volatile(MTIMECMP, ptr::read_volatile(MTIME) + TICK_COUNTS) }
}

#[core_interrupt(Interrupt::MachineTimer)]
fn on_timer() {
    set_timer();
    let ticks = TICKS.fetch_add(1, Ordering::Relaxed);
    black_box(work(ticks % 4, ticks));
}

/// Goes on behind an instruction of four bytes.
fn skip() {
    let pc = riscv::register::mepc::read();
    // SAFETY: the instruction that trapped is one of ours, and another follows it.
    unsafe { riscv::register::mepc::write(pc + 4) }
}

#[exception(Exception::MachineEnvCall)]
fn on_call(frame: &mut TrapFrame) {
    CALLS.fetch_add(1, Ordering::Relaxed);
    frame.a0 = work(3, frame.a0 as u32) as usize;
    skip();
}

#[exception(Exception::IllegalInstruction)]
fn on_illegal(frame: &mut TrapFrame) {
    ILLEGAL.fetch_add(1, Ordering::Relaxed);
    black_box(work(2, frame.a0 as u32));
    skip();
}

#[inline(never)]
fn calls(x: u32) -> u32 {
    let mut value = x as usize;
    // SAFETY: the handler changes a0 and nothing else.
    unsafe { asm!(".option push", ".option norvc", "ecall", ".option pop", inout("a0") value) };
    black_box(value as u32)
}

#[inline(never)]
fn executes_nonsense(x: u32) -> u32 {
    // SAFETY: the handler skips it.
    unsafe { asm!(".word 0xffffffff") };
    black_box(mix(x, 1))
}

#[entry]
fn main() -> ! {
    set_timer();
    // SAFETY: the handlers are in place.
    unsafe {
        riscv::register::mie::set_mtimer();
        riscv::interrupt::enable();
    }
    let mut sum = 1;
    for round in 0..ROUNDS {
        sum = mix(sum, work(20, round));
        sum = mix(sum, calls(sum));
        sum = mix(sum, executes_nonsense(sum));
    }
    riscv::interrupt::disable();
    println!(
        "traps: {sum:08x}, {} calls, {} illegal",
        CALLS.load(Ordering::Relaxed),
        ILLEGAL.load(Ordering::Relaxed)
    );
    exit(usize::from(TICKS.load(Ordering::Relaxed) < 10))
}
// SPDX-License-Identifier: MIT OR Apache-2.0
