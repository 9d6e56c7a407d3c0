// SPDX-License-Identifier: GPL-2.0-or-later
//! State of QEMU's AVR that no register shows, in the vCPU's object (`CPUAVRState`, target/avr/cpu.h).
//!
//! QEMU tries a load or store as one of memory. Where it finds the registers of devices, it leaves the block, sets a flag
//! and starts the instruction again, in a block of its own that is translated for the flag (`avr_cpu_tlb_fill` and
//! `TB_FLAGS_FULL_ACCESS`). The first start has been counted, and the second must not be: on QEMU's clock there is one.
//!
//! `sleep` leaves its block without a new pc, so that QEMU would execute the block from its start again, for ever
//! (`helper_sleep`). So does a return or a jump through a register that is skipped (`avr_tr_tb_stop`, `DISAS_LOOKUP`).
//!
//! `elpm` reads flash without RAMPZ: its bits are kept where the address does not take them (`gen_get_addr`, `helper_outb`).
//! They are put where it does for the time of the instruction; loads from the data space would take them, too.
//!
//! QEMU asks for interrupts where it leaves chained blocks. It does so after `sei` and `reti`, but not after `out SREG`
//! (`helper_outb`), so that an interrupt which came meanwhile would wait for the next timer, a millisecond in Arduino's core. And it
//! asks behind the block, where the processor takes an interrupt one instruction after it has been allowed. QEMU's way to execute
//! an instruction in a block of its own is the one for accesses of devices under icount (`cpu_io_recompile`).
//!
//! `wdr` ends the run, since QEMU has no watchdog (`helper_wdr`). So the block is left before it, and the instruction starts again
//! as one that is skipped: it is executed, and does nothing.
//!
//! Without this row, AVR firmware is refused.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::{mem, ptr};

use wire::trick::AVR_STATE;

use super::register_file::copy;
use super::{is_on, leave, symbol, vcpu};

/// Bytes of an object that are searched.
const LOOKED_AT_BYTES: usize = 64 << 10;

/// Number of general registers, each in a word of four bytes.
const REGISTERS: usize = 32;

/// Distances from the first register in the object, in bytes. Between pc and the registers are the bits of SREG, the RAMP
/// registers and EIND.
const PC_BEFORE: usize = 14 * 4;
const RAMPZ_BEFORE: usize = 2 * 4;
const SP: usize = 4 * REGISTERS;
const SKIP: usize = SP + 4;
const INTERRUPTS: usize = SKIP + 4;
const FULL_ACCESS: usize = INTERRUPTS + 8;
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
    leave: Leave,
}

/// `cpu_exit` (include/hw/core/cpu.h): makes a vCPU leave chained blocks at the start of the next one.
type Leave = unsafe extern "C" fn(*mut c_void);

/// `cpu_io_recompile` (accel/tcg/tb-internal.h): leaves the block before the instruction that an address in generated code
/// belongs to, and executes it in a block of its own, without an interrupt before it.
type StartAlone = unsafe extern "C" fn(*mut c_void, usize) -> !;

static START_ALONE: OnceLock<StartAlone> = OnceLock::new();

/// Ends the block before the instruction at whose start generated code has called the plugin, and starts the instruction in a
/// block of its own. Returns only where that is not known to be possible.
///
/// # Safety
///
/// `called_from` is the address that the callback returns to, in generated code. No frame up to there may need to be
/// dropped: QEMU jumps out of them (`siglongjmp`).
pub(in crate::qemu) unsafe fn start_alone(called_from: usize) {
    if let (Some(alone), Some(vcpu)) = (START_ALONE.get(), vcpu::current()) {
        // SAFETY: the caller's promise; the vCPU executes this thread's callback.
        unsafe { alone(vcpu, called_from) }
    }
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
                // A skip on a bit leaves the bit itself there.
                && word(at + SKIP).is_some_and(|skip| skip <= 0xff)
                && bytes.get(at + FULL_ACCESS).is_some_and(|&flag| flag <= 1)
                && word(at + FEATURES).is_some_and(|features| features != 0)
        };
        // The state has a member of eight bytes, so that it begins at a multiple of eight.
        let mut places = (PC_BEFORE..bytes.len().saturating_sub(END)).step_by(8).filter(is_place);
        let at = places.next().filter(|_| places.next().is_none())?;
        let [leave, alone] = [c"cpu_exit", c"cpu_io_recompile"].map(|name| symbol(&AVR_STATE, name));
        let (leave, alone, ()) = (leave?, alone?, leave::find(&AVR_STATE)?);
        // SAFETY: in the releases of the table's row the function has this type.
        let leave = unsafe { mem::transmute::<*mut c_void, Leave>(leave) };
        // SAFETY: as above.
        START_ALONE.get_or_init(|| unsafe { mem::transmute::<*mut c_void, StartAlone>(alone) });
        Some(AvrState { registers: object + at, leave })
    }

    /// Makes the vCPU look for interrupts after the block that executes, if one is pending. Returns whether one is.
    pub(crate) fn look_for_interrupts(self) -> bool {
        // SAFETY: a member of eight bytes at a multiple of eight, in the object of a vCPU, which never moves while QEMU lives.
        // This thread executes that vCPU; timers of other threads change it with QEMU's lock, and then stop the vCPU themselves.
        let pending = unsafe { ptr::with_exposed_provenance::<u64>(self.registers + INTERRUPTS).read_volatile() };
        let (true, Some(vcpu)) = (pending != 0, vcpu::current()) else { return false };
        // SAFETY: see `find` for the type; the vCPU executes this thread's callback.
        unsafe { (self.leave)(vcpu) };
        true
    }

    /// Whether the next instruction is skipped, where a block ended between the skip and it.
    pub(crate) fn skips(self) -> bool {
        // SAFETY: as in `starts_again`, for a word that is aligned as the registers are.
        unsafe { ptr::with_exposed_provenance::<u32>(self.registers + SKIP).read_volatile() != 0 }
    }

    /// Makes the instruction that starts next one that is skipped, if it starts in another block.
    pub(crate) fn skip_next(self) {
        // SAFETY: as in `skips`; QEMU reads the word when it looks for the next block.
        unsafe { ptr::with_exposed_provenance_mut::<u32>(self.registers + SKIP).write_volatile(1) }
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

    /// Puts RAMPZ where QEMU takes the bits of an address from, beside the bits that firmware reads, or removes it there.
    pub(crate) fn use_rampz(self, uses: bool) {
        let place = ptr::with_exposed_provenance_mut::<u32>(self.registers - RAMPZ_BEFORE);
        // SAFETY: as above, for a word that is aligned as the registers are. The callback may change registers, so that
        // generated code keeps no copy of it.
        unsafe {
            let kept = place.read_volatile() & !0xff;
            place.write_volatile(if uses { kept | kept >> 16 } else { kept });
        }
    }

    /// Sets the address at which the vCPU goes on when it leaves the block without another one.
    pub(crate) fn go_on_at(self, pc: u32) {
        // SAFETY: as above, for a word that is aligned as the registers are.
        unsafe { ptr::with_exposed_provenance_mut::<u32>(self.registers - PC_BEFORE).write_volatile(pc / 2) }
    }
}
