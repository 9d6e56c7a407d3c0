//! The machine timer.

use core::ptr;

use embassy_executor::Spawner;
use riscv::interrupt::Interrupt;
use riscv_rt::core_interrupt;

const MTIME: *const u64 = 0x0200_bff8 as *const u64;
const MTIMECMP: *mut u64 = 0x0200_4000 as *mut u64;
/// At 10 MHz.
const TICK_COUNTS: u64 = 200;

fn set_timer() {
    // SAFETY: QEMU `virt` has its timer there.
    unsafe { ptr::write_volatile(MTIMECMP, ptr::read_volatile(MTIME) + TICK_COUNTS) }
}

pub fn start(spawner: Spawner) {
    spawner.spawn(super::urgent().unwrap());
    set_timer();
    // SAFETY: the handler is in place.
    unsafe {
        riscv::register::mie::set_mtimer();
        riscv::interrupt::enable();
    }
}

#[core_interrupt(Interrupt::MachineTimer)]
fn on_timer() {
    set_timer();
    super::tick();
}
// SPDX-License-Identifier: MIT OR Apache-2.0
