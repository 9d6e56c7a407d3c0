// SPDX-License-Identifier: GPL-2.0-or-later
//! Control and status registers that only a RISC-V chip's processor has, and cycles at the chip's frequency.
//!
//! QEMU has a table of these registers' functions (target/riscv/csr.c), which a processor's model may change
//! (`riscv_set_csr_ops`). A register of the chip's own holds the value that was last written, or counts cycles from it. The
//! standard's counters of cycles, which count nanoseconds under `-icount`, count cycles too. QEMU holds the instruction's
//! effects on interrupts and translation as for its own registers, since their translation is the same.
//!
//! Without this row these registers are illegal, and the counters count nanoseconds.

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr::null;
use std::sync::{Mutex, OnceLock, PoisonError};

use wire::chip::Riscv;
use wire::trick::CSRS;

use super::symbol;

const QEMU_CLOCK_VIRTUAL: c_int = 1;

/// `RISCV_EXCP_NONE` (target/riscv/cpu_bits.h).
const NO_EXCEPTION: c_int = -1;

/// The standard's counters of cycles, lower halves: mcycle and cycle. The upper half has [`UPPER`] more.
const CYCLES: [u32; 2] = [0xb00, 0xc00];
const UPPER: u32 = 0x80;

/// `target_ulong` of qemu-system-riscv32.
type Word = u32;
type Environment = *mut c_void;
type Predicate = extern "C" fn(Environment, c_int) -> c_int;
type Read = extern "C" fn(Environment, c_int, *mut Word) -> c_int;
type Write = extern "C" fn(Environment, c_int, Word) -> c_int;
type SetOperations = unsafe extern "C" fn(c_int, *const Operations);
type GetNs = unsafe extern "C" fn(c_int) -> i64;

/// `riscv_csr_operations` (target/riscv/cpu.h).
#[repr(C)]
struct Operations {
    name: *const std::ffi::c_char,
    predicate: Predicate,
    read: Read,
    write: Write,
    change: *const c_void,
    read_wide: *const c_void,
    write_wide: *const c_void,
    least_version: u32,
}

/// The chip's registers, by number, each with its value.
struct Registers {
    get_ns: GetNs,
    hz: u64,
    /// Number, whether it counts, and its value; of one that counts, its distance from the time's cycles.
    held: Vec<(u32, bool, Word)>,
    /// Distance of the standard's counters from the time's cycles.
    cycles: u64,
}

static REGISTERS: OnceLock<Mutex<Registers>> = OnceLock::new();

impl Registers {
    /// Cycles since reset.
    fn now(&self) -> u64 {
        // SAFETY: the function has this type; the vCPU's thread executes an instruction that ends its block, as for QEMU's own counters.
        let ns = unsafe { (self.get_ns)(QEMU_CLOCK_VIRTUAL) }.max(0).cast_unsigned();
        (u128::from(ns) * u128::from(self.hz) / 1_000_000_000) as u64
    }

    fn read(&mut self, number: u32) -> Word {
        let now = self.now();
        if let Some(&(_, counts, value)) = self.held.iter().find(|(held, ..)| *held == number) {
            return if counts { value.wrapping_add(now as Word) } else { value };
        }
        let cycles = now.wrapping_add(self.cycles);
        if number & UPPER == 0 { cycles as Word } else { (cycles >> 32) as Word }
    }

    fn write(&mut self, number: u32, word: Word) {
        let now = self.now();
        if let Some((_, counts, value)) = self.held.iter_mut().find(|(held, ..)| *held == number) {
            *value = if *counts { word.wrapping_sub(now as Word) } else { word };
            return;
        }
        let cycles = now.wrapping_add(self.cycles);
        let (lower, upper) = (cycles & u64::from(Word::MAX), cycles >> 32);
        let set = if number & UPPER == 0 { upper << 32 | u64::from(word) } else { u64::from(word) << 32 | lower };
        self.cycles = set.wrapping_sub(now);
    }
}

/// Gives QEMU's processor the chip's registers. If this QEMU is not known, nothing is changed.
pub(super) fn add(riscv: &Riscv) {
    let (Some(set), Some(get_ns)) = (symbol(&CSRS, c"riscv_set_csr_ops"), symbol(&CSRS, c"qemu_clock_get_ns")) else {
        return;
    };
    // SAFETY: in the releases of the table's row the functions of these names have these types.
    let (set, get_ns) =
        unsafe { (mem::transmute::<*mut c_void, SetOperations>(set), mem::transmute::<*mut c_void, GetNs>(get_ns)) };
    let held = riscv.csrs.iter().map(|csr| (csr.number, csr.has_cycles, csr.reset)).collect();
    let registers = Registers { get_ns, hz: riscv.hz, held, cycles: 0 };
    if REGISTERS.set(Mutex::new(registers)).is_err() {
        return;
    }
    let own = riscv.csrs.iter().map(|csr| csr.number);
    for number in CYCLES.into_iter().flat_map(|lower| [lower, lower + UPPER]).chain(own) {
        let operations = Operations {
            name: c"chip's own".as_ptr(),
            predicate,
            read,
            write,
            change: null(),
            read_wide: null(),
            write_wide: null(),
            least_version: 0,
        };
        // SAFETY: QEMU copies the structure; its name and functions live for ever.
        unsafe { set(number as c_int, &raw const operations) };
    }
}

fn with<T: Default>(work: impl FnOnce(&mut Registers) -> T) -> T {
    let registers = REGISTERS.get().map(|registers| registers.lock().unwrap_or_else(PoisonError::into_inner));
    registers.map(|mut registers| work(&mut registers)).unwrap_or_default()
}

extern "C" fn predicate(_: Environment, _: c_int) -> c_int {
    NO_EXCEPTION
}

extern "C" fn read(_: Environment, number: c_int, value: *mut Word) -> c_int {
    let word = with(|registers| registers.read(number.cast_unsigned()));
    if !value.is_null() {
        // SAFETY: QEMU's room for the value.
        unsafe { *value = word };
    }
    NO_EXCEPTION
}

extern "C" fn write(_: Environment, number: c_int, value: Word) -> c_int {
    with(|registers| registers.write(number.cast_unsigned(), value));
    NO_EXCEPTION
}
