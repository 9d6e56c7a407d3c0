//! What every program here needs of a board: the semihosting console, the end of the run, memory, and a panic
//! handler.
#![no_std]

#[cfg(feature = "event")]
pub mod event;
#[cfg(feature = "alloc")]
mod heap;
#[cfg(feature = "large")]
pub mod large;

use core::arch::asm;
use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

const SYS_WRITE0: usize = 0x04;
const SYS_GET_CMDLINE: usize = 0x15;
const SYS_EXIT_EXTENDED: usize = 0x20;
const STOPPED_APPLICATION_EXIT: usize = 0x20026;

/// Arm's and RISC-V's semihosting call.
fn semihost(operation: usize, argument: usize) {
    // SAFETY: what the operations used here are given lives as long as the call.
    #[cfg(target_arch = "arm")]
    unsafe {
        asm!("bkpt 0xab", inout("r0") operation => _, in("r1") argument);
    }
    // SAFETY: as above; the three instructions are uncompressed and on one page.
    #[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
    unsafe {
        asm!(
            ".balign 16", ".option push", ".option norvc", "slli x0, x0, 0x1f", "ebreak", "srai x0, x0, 7",
            ".option pop", inout("a0") operation => _, in("a1") argument,
        );
    }
}

/// One line, with its NUL.
struct Line {
    text: [u8; 160],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            // The last byte stays 0.
            if self.length + 1 < self.text.len() {
                self.text[self.length] = byte;
                self.length += 1;
            }
        }
        Ok(())
    }
}

/// Prints a line, cut at 158 bytes.
pub fn print(line: fmt::Arguments<'_>) {
    let mut text = Line { text: [0; 160], length: 0 };
    let _ = text.write_fmt(line);
    let end = text.length.min(text.text.len() - 2);
    text.text[end] = b'\n';
    semihost(SYS_WRITE0, text.text.as_ptr() as usize);
}

#[macro_export]
macro_rules! println {
    ($($format:tt)*) => { $crate::print(format_args!($($format)*)) };
}

/// The command line that the program was given, in `buffer`.
pub fn command_line(buffer: &mut [u8]) -> &str {
    let block = [buffer.as_mut_ptr() as usize, buffer.len()];
    semihost(SYS_GET_CMDLINE, block.as_ptr() as usize);
    let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(buffer.len());
    core::str::from_utf8(&buffer[..end]).unwrap_or("")
}

/// Ends the run with this status.
pub fn exit(status: usize) -> ! {
    let block = [STOPPED_APPLICATION_EXIT, status];
    loop {
        semihost(SYS_EXIT_EXTENDED, block.as_ptr() as usize);
    }
}

static PANIC_EXPECTED: AtomicBool = AtomicBool::new(false);

/// From here on a panic is how the program ends.
pub fn expect_panic() {
    PANIC_EXPECTED.store(true, Ordering::Relaxed);
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let line = info.location().map_or(0, |location| location.line());
    println!("panicked in line {line}: {}", info.message());
    exit(usize::from(!PANIC_EXPECTED.load(Ordering::Relaxed)))
}

/// Marsaglia's xorshift: the only source of "random" numbers.
pub fn xorshift(state: &mut u32) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    *state
}

/// Folds one result into a checksum.
pub fn mix(sum: u32, value: u32) -> u32 {
    (sum ^ value).rotate_left(5).wrapping_mul(0x9e37_79b1)
}
// SPDX-License-Identifier: MIT OR Apache-2.0
