//! What all images share: how they end. Nothing of it knows a chip.
#![no_std]

use core::arch::asm;
use core::panic::PanicInfo;

/// Ends the run with a status, by semihosting (SYS_EXIT_EXTENDED, ADP_Stopped_ApplicationExit).
pub fn exit(status: u32) -> ! {
    let block = [0x2_0026, status];
    // SAFETY: semihosting's call to end the program; it reads the block and nothing else.
    #[cfg(target_arch = "arm")]
    unsafe {
        asm!("bkpt 0xab", in("r0") 0x20, in("r1") block.as_ptr())
    };
    // SAFETY: as above; the three instructions must lie in one page.
    #[cfg(target_arch = "riscv32")]
    unsafe {
        asm!(
            ".balign 16", ".option push", ".option norvc", "slli x0, x0, 0x1f", "ebreak", "srai x0, x0, 7",
            ".option pop", in("a0") 0x20, in("a1") block.as_ptr()
        )
    };
    loop {}
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit(101)
}

/// Work that an optimiser cannot leave out.
#[inline(never)]
pub fn work(rounds: u32, seed: u32) -> u32 {
    (0..rounds).fold(seed, |sum, round| sum.rotate_left(5) ^ round.wrapping_mul(0x9e37_79b9))
}
// SPDX-License-Identifier: MIT OR Apache-2.0
