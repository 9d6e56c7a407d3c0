//! State of QEMU's AVR that no register shows, in the vCPU's object (`CPUAVRState`, target/avr/cpu.h).
//!
//! QEMU tries a load or store as one of memory. Where it finds the registers of devices, it leaves the block, sets a flag
//! and starts the instruction again, in a block of its own that is translated for the flag (`avr_cpu_tlb_fill` and
//! `TB_FLAGS_FULL_ACCESS`). The first start has been counted, and the second must not be: on QEMU's clock there is one.
//!
//! `sleep` leaves its block without a new pc, so that QEMU would execute the block from its start again, for ever
//! (`helper_sleep`).
//!
//! Without this row, AVR firmware is refused.

use std::ptr;

use wire::trick::AVR_STATE;

use super::register_file::copy;
use super::{is_on, vcpu};

/// Bytes of an object that are searched.
const LOOKED_AT_BYTES: usize = 64 << 10;

/// Number of general registers, each in a word of four bytes.
const REGISTERS: usize = 32;

/// Distances from the first register in the object, in bytes. Between pc and the registers are the bits of SREG, the RAMP
/// registers and EIND.
const PC_BEFORE: usize = 14 * 4;
const SP: usize = 4 * REGISTERS;
const SKIP: usize = SP + 4;
const FULL_ACCESS: usize = SKIP + 4 + 8;
const FEATURES: usize = FULL_ACCESS + 8;
const END: usize = FEATURES + 8;

/// Registers as the plugin API has them.
pub(crate) struct Known {
    /// r0 to r31.
    pub(crate) general: [u8; REGISTERS],
    /// The stack pointer.
    pub(crate) sp: u16,
    /// Address of the next instruction, in bytes.
    pub(crate) pc: u32,
}

/// The state's place in the object of the only vCPU.
#[derive(Clone, Copy)]
pub(crate) struct AvrState {
    registers: usize,
}

impl AvrState {
    /// Finds the one place that has these values, in a callback of the vCPU or at its translation. None: this QEMU is not
    /// known, or several places have them, as at reset, when nearly all are 0.
    pub(crate) fn find(known: &Known) -> Option<AvrState> {
        let object = vcpu::current().filter(|_| is_on(&AVR_STATE))? as usize;
        let bytes = copy(object, LOOKED_AT_BYTES);
        let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let is_place = |&at: &usize| {
            let has_registers =
                (0..REGISTERS).all(|number| word(at + 4 * number) == Some(known.general[number].into()));
            has_registers
                && word(at + SP) == Some(known.sp.into())
                && word(at - PC_BEFORE) == Some(known.pc / 2)
                && word(at + SKIP).is_some_and(|skip| skip <= 1)
                && bytes.get(at + FULL_ACCESS).is_some_and(|&flag| flag <= 1)
                && word(at + FEATURES).is_some_and(|features| features != 0)
        };
        // The state has a member of eight bytes, so that it begins at a multiple of eight.
        let mut places = (PC_BEFORE..bytes.len().saturating_sub(END)).step_by(8).filter(is_place);
        let at = places.next().filter(|_| places.next().is_none())?;
        Some(AvrState { registers: object + at })
    }

    /// Whether the instruction that starts next has started before, and found a device.
    pub(crate) fn starts_again(self) -> bool {
        // SAFETY: a byte of the object of a vCPU, which never moves while QEMU lives. This thread executes that vCPU.
        unsafe { ptr::with_exposed_provenance::<u8>(self.registers + FULL_ACCESS).read_volatile() != 0 }
    }

    /// Makes the instruction start from the beginning when the code that interrupts it has returned to it.
    pub(crate) fn forget_start(self) {
        // SAFETY: as in `starts_again`; QEMU reads the flag when it looks for the next block.
        unsafe { ptr::with_exposed_provenance_mut::<u8>(self.registers + FULL_ACCESS).write_volatile(0) }
    }

    /// Sets the address at which the vCPU goes on when it leaves the block without another one.
    pub(crate) fn go_on_at(self, pc: u32) {
        // SAFETY: as above, for a word that is aligned as the registers are.
        unsafe { ptr::with_exposed_provenance_mut::<u32>(self.registers - PC_BEFORE).write_volatile(pc / 2) }
    }
}
