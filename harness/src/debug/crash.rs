// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the faulting instruction of a run that ends in the fault's handler, which prints a message and exits, or
//! resets.
//!
//! A profile does not show that the end is in a handler, but the processor does: a Cortex-M by the number of its
//! active exception, RISC-V by its traps without an `mret`.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::analysis::describe;
use crate::analysis::stacks::Exceptions;
use crate::debug::travel::{Hit, Travel, go, little_endian, register};
use crate::profile::Profile;
use crate::run::records::fault::{describe_fault, riscv_fault};

/// An instruction that faulted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The instruction's number in the run.
    pub(super) insn: u64,
    /// The fault in words.
    pub(super) what: String,
}

/// Most starts and ends of handlers that are examined, the last ones of the run.
const MAX_HITS: usize = 1 << 16;

/// Most starts of handlers at which the processor's state is read, since a loop may pass its handler's start again
/// and again.
const MAX_LOOKS: usize = 1 << 10;

/// Addresses of a Cortex-M's registers: VTOR has the vector table's address; CFSR, HFSR, DFSR, MMFAR and BFAR
/// describe a fault.
const VTOR: u64 = 0xe000_ed08;
const CFSR: u64 = 0xe000_ed28;

/// Exceptions of a Cortex-M that are faults: HardFault, MemManage, BusFault, UsageFault, SecureFault.
const ARM_FAULTS: std::ops::RangeInclusive<u64> = 3..=7;

/// Causes of RISC-V's traps that are faults: fetches, illegal instructions, breakpoints, loads, stores, page faults;
/// environment calls are not.
const RISCV_FAULTS: [u64; 11] = [0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 15];

/// Causes of [`RISCV_FAULTS`] that come before the instruction starts: a jump has led to an address without code.
const RISCV_FETCHES: [u64; 3] = [0, 1, 12];

/// Code of `mret`.
const MRET: [u8; 4] = 0x3020_0073_u32.to_le_bytes();

/// Finds the fault in whose handler the run ends. None: the run does not end in a fault's handler. If that handler
/// faulted, too, finds the first fault. Moves the run.
pub(super) fn at_end(profile: &Profile, travel: &mut dyn Travel, last: u64) -> Result<Option<Fault>> {
    go(travel, last)?;
    match profile.facts.isa() {
        Some(isa) if isa.is_thumb() => of_arm(profile, travel, last),
        // It has no faults: what no instruction means it executes in some way.
        Some(isa) if isa.is_avr() => Ok(None),
        _ => of_riscv(profile, travel, last),
    }
}

fn word(travel: &mut dyn Travel, address: u64) -> Result<Option<u64>> {
    let bytes = travel.read(address, 4)?;
    Ok((bytes.len() == 4).then(|| little_endian(&bytes)))
}

/// Number of the active exception of a Cortex-M, if the exception is a fault.
fn active_fault(travel: &mut dyn Travel) -> Result<Option<u64>> {
    let number = register(travel, &["xpsr"])?.map(|xpsr| xpsr & 0x1ff);
    Ok(number.filter(|number| ARM_FAULTS.contains(number)))
}

fn of_arm(profile: &Profile, travel: &mut dyn Travel, last: u64) -> Result<Option<Fault>> {
    let Some(mut number) = active_fault(travel)? else { return Ok(None) };
    let status = travel.read(CFSR, 20)?;
    let status: Vec<u64> = status.chunks_exact(4).map(little_endian).collect();
    let words = match status[..] {
        [cfsr, hfsr, _, mmfar, bfar] => describe_fault(cfsr, hfsr, mmfar, bfar),
        _ => None,
    };
    let table = word(travel, VTOR)?.or(profile.facts.vectors).unwrap_or(0);
    let mut until = last + 1;
    let mut found = None;
    // A handler is only interrupted by a fault of higher priority.
    for _ in ARM_FAULTS {
        let Some(handler) = word(travel, table + 4 * number)?.map(|handler| handler & !1) else { break };
        let (hits, _) = travel.hits(&[handler], Some(until), MAX_LOOKS)?;
        let mut entered = None;
        for hit in hits.iter().rev().filter(|hit| hit.insn > 1) {
            go(travel, hit.insn - 1)?;
            let before = active_fault(travel)?;
            if before != Some(number) {
                entered = Some((hit.insn - 1, before));
                break;
            }
        }
        let Some((insn, before)) = entered else { break };
        let what = Exceptions::new(profile).name(number, handler);
        found = Some(Fault { insn, what: at_place(profile, travel, what, words.as_deref()) });
        let Some(outer) = before else { break };
        (number, until) = (outer, insn + 1);
    }
    Ok(found)
}

fn of_riscv(profile: &Profile, travel: &mut dyn Travel, last: u64) -> Result<Option<Fault>> {
    let Some(vector) = register(travel, &["mtvec"])? else { return Ok(None) };
    let end_sp = register(travel, &["sp", "x2"])?.unwrap_or(0);
    let end_function = function_at(profile, travel.at().pc);
    let base = vector & !3;
    // In vectored mode the interrupts' handlers follow the exceptions' handler.
    let slots = if vector & 3 == 1 { 64 } else { 1 };
    let handlers: BTreeSet<u64> = (0..slots).map(|slot| base + 4 * slot).collect();
    let insns = profile.vcpus.iter().flat_map(|vcpu| &vcpu.insns);
    let returns: BTreeSet<u64> = insns
        .filter(|insn| profile.code_at(insn.pc).is_some_and(|code| code.starts_with(&MRET)))
        .map(|insn| insn.pc)
        .collect();
    let all: Vec<u64> = handlers.union(&returns).copied().collect();
    let (hits, _) = travel.hits(&all, Some(last + 1), MAX_HITS)?;
    let mut found = None;
    // Number of traps that have been left, and that began before the examined part.
    let mut left = 0_u64;
    let mut looks = 0;
    for &Hit { insn, pc, sp, .. } in hits.iter().rev().filter(|hit| hit.insn > 1) {
        if returns.contains(&pc) {
            left += 1;
        } else if left > 0 {
            left -= 1;
        } else if looks < MAX_LOOKS {
            looks += 1;
            go(travel, insn)?;
            let cause = register(travel, &["mcause"])?;
            let Some(cause) = cause.filter(|cause| RISCV_FAULTS.contains(cause)) else {
                if found.is_some() {
                    break;
                }
                continue;
            };
            let (epc, value) = (register(travel, &["mepc"])?, register(travel, &["mtval"])?);
            go(travel, insn - 1)?;
            let handler = function_at(profile, pc);
            // Not every hit begins a trap: a loop may pass the handler's start. And a handler may be left by a jump.
            let is_entered = if RISCV_FETCHES.contains(&cause) {
                handler.is_some() && function_at(profile, travel.at().pc) != handler
            } else {
                epc == Some(travel.at().pc)
            };
            let is_left = found.is_none() && end_sp > sp && (handler.is_none() || end_function != handler);
            if is_entered && !is_left {
                let what = Exceptions::new(profile).name(cause, pc);
                let (words, _) = riscv_fault(cause, value.unwrap_or(0));
                found = Some(Fault { insn: insn - 1, what: at_place(profile, travel, what, words.as_deref()) });
            }
        }
    }
    Ok(found)
}

/// First address of the function at an address.
fn function_at(profile: &Profile, pc: u64) -> Option<u64> {
    profile.names.function_at(pc).map(|function| function.start)
}

/// Text of a fault: `[irq HardFault]: BusFault: data access at address 0x50000000; at 0x00000142 in main
/// (main.c:12)`.
fn at_place(profile: &Profile, travel: &dyn Travel, what: String, words: Option<&str>) -> String {
    let words = words.map(|words| format!("{words}; ")).unwrap_or_default();
    format!("{what}: {words}at {}", describe::place(&profile.names, travel.at().pc))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debug::fake::Fake;
    use crate::profile::Code;
    use crate::profile::testing::empty;

    /// A run of a Cortex-M: addresses, and the active exception at each instruction.
    fn arm(insns: &[(u64, u64)]) -> Fake {
        let pcs: Vec<u64> = insns.iter().map(|insn| insn.0).collect();
        // HardFault is at 0x50, BusFault at 0x60, SysTick at 0x70.
        let mut travel = Fake::of(&pcs).holding(3 * 4, 0x51).holding(5 * 4, 0x61).holding(15 * 4, 0x71);
        for (at, &(_, exception)) in travel.insns.iter_mut().zip(insns) {
            at.registers.push(("xpsr", 0x0100_0000 | exception));
        }
        travel
    }

    fn found(profile: &Profile, mut travel: Fake) -> Option<Fault> {
        let last = travel.insns.len() as u64;
        at_end(profile, &mut travel, last).unwrap()
    }

    #[test]
    fn a_cortex_m_says_which_fault_it_is_in() {
        let profile = empty().function("main", 0x40, 0x10).function("HardFault_Handler", 0x50, 0x10);
        let fault = |insn, name: &str| Some(Fault { insn, what: format!("{name}: at 0x00000042 in main") });
        let once = [(0x40, 0), (0x42, 0), (0x50, 3), (0x52, 3)];
        assert_eq!(found(&profile, arm(&once)), fault(2, "[irq HardFault]"));
        // The last of several faults, whose handler loops to its start.
        let again = [&once[..], &[(0x44, 0), (0x42, 0), (0x50, 3), (0x50, 3), (0x52, 3)]].concat();
        assert_eq!(found(&profile, arm(&again)), fault(6, "[irq HardFault]"));
        // A fault in a fault's handler, and one in a tick's handler.
        let nested = [(0x40, 0), (0x42, 0), (0x60, 5), (0x62, 5), (0x50, 3), (0x52, 3)];
        assert_eq!(found(&profile, arm(&nested)), fault(2, "[irq BusFault]"));
        let in_tick = [(0x40, 0), (0x70, 15), (0x42, 15), (0x50, 3), (0x52, 3)];
        assert_eq!(found(&profile, arm(&in_tick)), fault(3, "[irq HardFault]"));
        // A fault whose handler has returned, and an exception that is not a fault.
        assert_eq!(found(&profile, arm(&[&once[..], &[(0x44, 0)]].concat())), None);
        assert_eq!(found(&profile, arm(&[(0x40, 0), (0x70, 15)])), None);
        assert_eq!(found(&profile, arm(&[(0x50, 3), (0x52, 3)])), None, "it was there before the first instruction");
    }

    /// A run of a RISC-V: addresses, with cause and address of the trap that leads to the next one.
    fn riscv(insns: &[(u64, Option<(u64, u64)>)]) -> Fake {
        let pcs: Vec<u64> = insns.iter().map(|insn| insn.0).collect();
        let mut travel = Fake::of(&pcs);
        let mut trap = (0, 0);
        for (at, &(_, next)) in travel.insns.iter_mut().zip(insns) {
            at.registers.extend([("mtvec", 0x80), ("mcause", trap.0), ("mepc", trap.1), ("mtval", 0x5000_0000)]);
            trap = next.unwrap_or(trap);
        }
        travel
    }

    #[test]
    fn a_trap_of_riscv_is_active_that_no_mret_has_left() {
        let mut profile = empty().function("main", 0x40, 0x40).function("trap", 0x80, 0x20).insn(0x90, 1);
        profile.facts.isa = "riscv32imac".to_owned();
        profile.code.push(Code { start: 0x90, bytes: MRET.to_vec() });
        let what = |pc| format!("[trap load access fault]: at address 0x50000000; at {pc:#010x} in main");
        let mended = [(0x40, None), (0x42, Some((5, 0x42))), (0x80, None), (0x90, None), (0x46, None)];
        assert_eq!(found(&profile, riscv(&mended)), None);
        let again = [&mended[..], &[(0x48, Some((5, 0x48))), (0x80, None), (0x82, None)]].concat();
        assert_eq!(found(&profile, riscv(&again)), Some(Fault { insn: 6, what: what(0x48) }));
        // Another trap has come in the handler, and its handler has returned.
        let nested = [&again[..], &[(0x80, None), (0x90, None), (0x84, None)]].concat();
        let mut travel = riscv(&nested);
        travel.insns[8].registers[1].1 = 11;
        assert_eq!(found(&profile, travel), Some(Fault { insn: 6, what: what(0x48) }));
        // A fault in the handler: the first fault is the crash.
        let twice = [&again[..], &[(0x84, Some((5, 0x84))), (0x80, None), (0x82, None)]].concat();
        assert_eq!(found(&profile, riscv(&twice)), Some(Fault { insn: 6, what: what(0x48) }));
        // A jump to an unmapped address.
        let jump = [(0x40, None), (0x44, Some((1, 0x5000_0000))), (0x80, None), (0x80, None), (0x82, None)];
        let found_jump = found(&profile, riscv(&jump)).unwrap();
        assert!(found_jump.insn == 2 && found_jump.what.starts_with("[trap instruction access fault]: "));
        // An environment call is not a fault, and a handler that was left by a jump is over.
        let call = [(0x40, None), (0x42, Some((11, 0x42))), (0x80, None), (0x82, None)];
        assert_eq!(found(&profile, riscv(&call)), None);
        let mut left = riscv(&[(0x40, None), (0x42, Some((5, 0x42))), (0x80, None), (0x82, None), (0x50, None)]);
        left.insns[4].sp += 16;
        assert_eq!(found(&profile, left), None);
    }
}
