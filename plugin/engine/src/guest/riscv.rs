// SPDX-License-Identifier: MIT OR Apache-2.0
//! RISC-V: a trap changes only pc and control registers, and its handler returns by an instruction for that purpose
//! (`mret`, `sret`). Section names are those of the Privileged Architecture's machine-level chapter.

use std::ops::RangeInclusive;

use wire::control::Word;

use super::processor::{Arch, Context, Facts, Guest, Insn, Interrupted, Stored, Taken, Vcpu};

/// RV32 and RV64.
pub(super) struct Riscv;

static FACTS: Facts = Facts {
    // QEMU calls x8 `fp`.
    registers: &[
        "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
        "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
    ],
    registers_in_a_row: 32,
    sp: 2,
    return_addr: 1,
    second_return_addr: Some(5),
    second_leaves_first: true,
    frame_pointer: 8,
    arguments: [10, 11],
    call_bytes: 0,
    exception_frame_bytes: 0,
    asking_bytes: 4,
    returns_by_jump: false,
    has_events: false,
    is_masked_at_reset: true,
    return_unmasks: false,
    names_vcpus: true,
    fault_registers: None,
};

/// Bits of mstatus ("Machine Status Registers"): SIE, MIE, MPIE, MPRV, and the position of MPP.
const SIE: u64 = 1 << 1;
const MIE: u64 = 1 << 3;
const MPIE: u64 = 1 << 7;
const MPP_SHIFT: u32 = 11;
const MPRV: u64 = 1 << 17;

/// Modes, as MPP and QEMU's register `priv` encode them.
const MACHINE: u64 = 3;
const SUPERVISOR: u64 = 1;
const USER: u64 = 0;

/// QEMU's page for RISC-V (`TARGET_PAGE_BITS`).
const PAGE_BYTES: u64 = 4096;

/// Causes of `ecall`, by the calling mode.
const ENVIRONMENT_CALLS: RangeInclusive<u64> = 8..=11;

/// Maximum number of causes of traps.
const MAX_CAUSES: u64 = 64;

impl<V: Vcpu> Arch<V> for Riscv {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn vcpu(&self, guest: &mut Guest<V>) -> Option<u32> {
        Some(guest.register("mhartid") as u32)
    }

    fn may_be_handler(&self, guest: &mut Guest<V>, pc: u64, _: bool) -> bool {
        is_trap_vector(guest, pc)
    }

    fn can_start_exception(&self, guest: &mut Guest<V>, pc: u64) -> bool {
        is_trap_vector(guest, pc)
    }

    fn is_exception_entry(&self, guest: &mut Guest<V>, pc: u64) -> bool {
        is_trap_vector(guest, pc)
    }

    fn taken(&self, guest: &mut Guest<V>, pc: u64) -> Option<Taken> {
        let (cause, epc) = if is_supervisor(guest) { ("scause", "sepc") } else { ("mcause", "mepc") };
        let (cause, epc) = (guest.register(cause), guest.register(epc));
        let number =
            if !guest.isa.is_riscv64() { (cause & 0x7fff_ffff) | (cause & 0x8000_0000) << 32 } else { cause };
        // Only the target of this trap is certain; the rest of the table may be other code.
        let (base, is_vectored) = trap_vector(guest);
        let interrupt = number.checked_sub(1 << 63).filter(|_| is_vectored);
        if pc != base.wrapping_add(interrupt.unwrap_or(0).wrapping_mul(4)) {
            return None;
        }
        let interrupted = Some(Context { pc: epc, ..guest.context(pc) });
        let entry_sp = guest.stack_pointer();
        Some(Taken { number, handler: pc, entry_sp, saved_sp: entry_sp, interrupted, below: None })
    }

    fn interrupted(&self, guest: &mut Guest<V>) -> Option<Interrupted> {
        let epc = if is_supervisor(guest) { "sepc" } else { "mepc" };
        Some(Interrupted { pc: guest.register(epc), return_addr: guest.return_register() })
    }

    fn is_masked(&self, guest: &mut Guest<V>) -> bool {
        guest.register("priv") == MACHINE && guest.register("mstatus") & MIE == 0
    }

    /// Less privileged modes cannot mask interrupts that are not delegated to them ("Machine Interrupt Registers").
    fn may_be_interrupted(&self, guest: &mut Guest<V>) -> bool {
        let [mode, status, enabled, delegated] =
            ["priv", "mstatus", "mie", "mideleg"].map(|name| guest.register(name));
        match mode {
            MACHINE => status & MIE != 0 && enabled & !delegated != 0,
            SUPERVISOR => enabled & !delegated != 0 || status & SIE != 0 && enabled != 0,
            _ => enabled != 0,
        }
    }

    fn masked_before_trap(&self, guest: &mut Guest<V>) -> Option<bool> {
        if guest.register("priv") != MACHINE {
            return None;
        }
        let status = guest.register("mstatus");
        Some(status >> MPP_SHIFT & MACHINE == MACHINE && status & MPIE == 0)
    }

    /// Environment calls are intended, and interrupts have external causes: neither is a fault.
    fn fault(&self, guest: &mut Guest<V>, number: u64) -> Option<Vec<(Word, u64)>> {
        if number >> 63 == 1 || ENVIRONMENT_CALLS.contains(&number) {
            return None;
        }
        let value = if is_supervisor(guest) { "stval" } else { "mtval" };
        Some(vec![(Word::FaultValue, guest.register(value))])
    }

    /// Decodes the stored value: the low half is the command, the high half a status (hw/misc/sifive_test.c).
    fn finished(&self, value: u64) -> Option<Stored> {
        match value & 0xffff {
            0x5555 => Some(Stored::Exit(0)),
            0x3333 => Some(Stored::Exit(value >> 16 & 0xffff)),
            0x7777 => Some(Stored::Reset),
            _ => None,
        }
    }

    /// An `ebreak` is a semihosting call only if it stands between two marker instructions. QEMU reads the markers
    /// when it translates the `ebreak` (`trans_ebreak` in target/riscv/insn_trans/trans_privileged.c.inc). The first
    /// one must be on the page of the `ebreak`. Half of the second one may be on the next page. That half is not
    /// checked here: the half on this page suffices.
    fn is_semihosting(&self, guest: &mut Guest<V>, insn: &dyn Insn) -> bool {
        let (bytes, len) = insn.bytes();
        let (isa, offset) = (guest.isa, insn.pc() % PAGE_BYTES);
        if !decode::is_breakpoint(isa, &bytes[..len]) || guest.known_register("priv") == Some(USER) {
            return false;
        }
        if !(4..PAGE_BYTES - 4).contains(&offset) {
            return false;
        }
        let Some(low) = beside::<2>(insn, 4) else { return true };
        beside::<4>(insn, -4).is_none_or(|before| decode::is_semihosting_prefix(isa, &before))
            && beside::<2>(insn, 6).map_or(decode::may_be_semihosting_suffix(isa, low), |high| {
                decode::is_semihosting_suffix(isa, &[low, high].concat())
            })
    }

    /// In machine mode addresses are physical, unless loads and stores use another mode (MPRV, "Memory Privilege in
    /// mstatus Register").
    fn physical(&self, guest: &mut Guest<V>, address: u64) -> Option<u64> {
        let is_machine = guest.known_register("priv") == Some(MACHINE);
        if is_machine && guest.known_register("mstatus").is_some_and(|status| status & MPRV == 0) {
            return Some(address);
        }
        guest.registers()?.physical(address)
    }
}

/// Bytes at an offset from an instruction, see [`Insn::beside`].
fn beside<const N: usize>(insn: &dyn Insn, offset: i64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    insn.beside(offset, &mut bytes).then_some(bytes)
}

fn is_supervisor(guest: &mut Guest<impl Vcpu>) -> bool {
    guest.register("priv") == 1
}

/// Target of traps, and whether interrupts are vectored: then an interrupt's target follows it, at a distance of four
/// bytes times the interrupt's number.
fn trap_vector(guest: &mut Guest<impl Vcpu>) -> (u64, bool) {
    let name = if is_supervisor(guest) { "stvec" } else { "mtvec" };
    let vector = guest.register(name);
    (vector & !3, vector & 1 == 1)
}

/// Whether traps lead to `pc`.
fn is_trap_vector(guest: &mut Guest<impl Vcpu>, pc: u64) -> bool {
    let (base, is_vectored) = trap_vector(guest);
    pc == base || (is_vectored && (base..base + 4 * MAX_CAUSES).contains(&pc))
}
