//! The machine timer.

use core::ptr;

use riscv::interrupt::Interrupt;
use riscv_rt::core_interrupt;
use support::event::Event;

const MTIME: *const u64 = 0x0200_bff8 as *const u64;
const MTIMECMP: *mut u64 = 0x0200_4000 as *mut u64;
/// At 10 MHz.
const TICK_COUNTS: u64 = 200;

/// There is no executor for it here.
pub static URGENT_EVENT: Event = Event::new();

fn set_timer() {
    // SAFETY: QEMU `virt` has its timer there.
    unsafe { ptr::write_volatile(MTIMECMP, ptr::read_volatile(MTIME) + TICK_COUNTS) }
}

pub fn start() {
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
