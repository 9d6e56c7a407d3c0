// SPDX-License-Identifier: GPL-2.0-or-later
//! Callbacks of AVR alone.

use engine::block::from_paced_id;
use engine::clock::take_back;
use engine::cycles::EECR;

use super::{Here, arrive, find};
use crate::avr::Avr;
use crate::qemu::{self, AccessCallback, AccessHook, ExecCallback, Guard, Hook, LeaveHook, SplitHook};
use crate::state::{self, State};

/// Global interrupt enable, in the status register.
const INTERRUPTS_ON: u64 = 1 << 7;

/// At the start of each block, where the machine's clock follows the cycles. The number has the block's instructions, and whether
/// the last one may lead elsewhere.
pub(crate) struct OnPacedBlock;

impl LeaveHook for OnPacedBlock {
    const CALL: fn(u32, usize) -> bool = |vcpu, id| {
        let (block, insns, may_jump) = from_paced_id(id);
        let mut state = state::lock();
        state.seek_clock() || (state.begin_block(vcpu, block, may_jump) && state.keep_time(vcpu, insns))
    };
}

/// At the start of a block that a skip may lead to.
pub(crate) struct OnSkipped;

impl Hook for OnSkipped {
    const CALL: ExecCallback = |_, _| {
        let State { guest, avr, .. } = &mut *state::lock();
        avr.iter_mut().for_each(|avr| avr.begin_block(guest));
    };
}

/// At a load or store that starts again, since it found a device. Its address is the identifier.
pub(crate) struct OnDevice;

impl Hook for OnDevice {
    const CALL: ExecCallback = |vcpu, pc| {
        let mut state = state::lock();
        state.may_print(vcpu);
        state.follow.device.forget();
        qemu::set_device_access(None, pc as u64, u8::MAX);
    };
}

/// At an instruction that accesses a device within its block.
pub(crate) struct OnPort;

impl Hook for OnPort {
    const CALL: ExecCallback = |vcpu, id| {
        let (state, here) = arrive(vcpu, id);
        let ns = state.device_ns(state.clock.insns_of_run(here.vcpu, &state.ledger));
        let bits = state.avr.as_ref().map_or(u8::MAX, |avr| avr.bits(here.pc));
        qemu::set_device_access(ns, here.pc, bits);
    };
}

/// Whether a skip before an instruction skips it, which starts in any case.
fn is_skipped(state: Guard<'static, State>, here: Here) -> (Guard<'static, State>, bool) {
    let Some(skips) = state.avr.as_ref().and_then(|avr| avr.skips(here.block, here.index)).cloned() else {
        return (state, false);
    };
    let insns = state.clock.insns_of_run(here.vcpu, &state.ledger);
    let (mut state, ports) =
        ports(state, skips.ports().map(|(address, before)| (address, insns.saturating_sub(before))));
    let State { guest, avr, .. } = &mut *state;
    let is_block_skipped = avr.as_ref().is_some_and(Avr::is_block_skipped);
    let is_skipped = skips.skip(is_block_skipped, ports.into_iter(), guest);
    (state, is_skipped)
}

/// Reads registers of devices, each as it is after so many instructions of the run. Their lock comes after QEMU's, so the state
/// is not locked meanwhile.
fn ports(state: Guard<'static, State>, wanted: impl Iterator<Item = (u64, u64)>) -> (Guard<'static, State>, Vec<u8>) {
    let wanted = wanted.map(|(address, insns)| (address, state.device_ns(insns)));
    let wanted: Vec<(u64, Option<u64>)> = wanted.collect();
    if wanted.is_empty() {
        return (state, Vec::new());
    }
    drop(state);
    let values = wanted.into_iter().map(|(address, ns)| qemu::device_byte(address, ns).unwrap_or(0)).collect();
    (state::lock(), values)
}

/// At an instruction whose cycles depend on what it finds.
pub(crate) struct OnPace;

impl Hook for OnPace {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = find(vcpu, id);
        state.amend(here.vcpu);
        let (state, is_skipped) = is_skipped(state, here);
        let insns = state.clock.insns_of_run(here.vcpu, &state.ledger);
        let paced = state.cycles.as_ref().and_then(|cycles| cycles.at(here.pc));
        let eeprom = paced.filter(|paced| paced.needs_eeprom() && !is_skipped).map(|_| (EECR, insns));
        let (mut state, eeprom) = ports(state, eeprom.into_iter());
        let State { guest, ledger, cycles, .. } = &mut *state;
        if let Some(cycles) = cycles {
            cycles.start(here.vcpu, here.pc, is_skipped, eeprom.first().copied(), guest, ledger);
        }
        // Only now: what is due at this very instruction has its cycles. An event before it takes them back.
        state.settle(here.vcpu);
        state.wake(here.vcpu);
    };
}

/// At a store that starts again, since it found a device. Its address is the identifier.
pub(crate) struct OnDeviceStore;

impl Hook for OnDeviceStore {
    const CALL: ExecCallback = |vcpu, pc| {
        let (mut state, pc) = (state::lock(), pc as u64);
        let vcpu = state.running_vcpu(vcpu);
        let State { guest, cycles, .. } = &mut *state;
        if !cycles.as_ref().is_some_and(|cycles| cycles.is_to_eeprom(pc, guest)) {
            return;
        }
        // The first start has left its block.
        state.amend(vcpu);
        let insns = state.clock.insns_of_run(vcpu, &state.ledger);
        let (mut state, eeprom) = ports(state, [(EECR, insns)].into_iter());
        let State { guest, ledger, cycles, .. } = &mut *state;
        if let (Some(cycles), Some(&control)) = (cycles, eeprom.first()) {
            cycles.store(vcpu, pc, control, guest, ledger);
        }
    };
}

/// At an `out` to the status register, before it is written, where [`OnUnmasked`] does not follow. The register that is
/// written has the identifier's number.
pub(crate) struct OnStatus;

impl Hook for OnStatus {
    const CALL: ExecCallback = |vcpu, register| {
        let mut state = state::lock();
        state.may_print(vcpu);
        let State { guest, avr, .. } = &mut *state;
        if let (Some(avr), true) = (avr, guest.general_register(register as u8) & INTERRUPTS_ON != 0) {
            avr.unmask(guest);
        }
    };
}

/// At the instruction behind one that may have allowed interrupts. The processor executes it before it takes one; QEMU would go on
/// to the block's end.
pub(crate) struct OnUnmasked;

impl SplitHook for OnUnmasked {
    const CALL: fn(u32, usize) -> bool = |_, _| {
        let State { guest, avr, .. } = &mut *state::lock();
        let is_allowed = !guest.is_masked();
        avr.as_mut().is_some_and(|avr| is_allowed && avr.unmask(guest))
    };
}

/// The same where the instruction is its block's last.
impl Hook for OnUnmasked {
    const CALL: ExecCallback = |vcpu, id| {
        <OnUnmasked as SplitHook>::CALL(vcpu, id);
    };
}

/// At a return or a jump through a register that a skip comes before. QEMU leaves the block after it in either case, and
/// has set no address to go on at where it was skipped: it would start the block again, for ever.
pub(crate) struct OnSkippable;

impl Hook for OnSkippable {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = find(vcpu, id);
        let State { guest, avr, blocks, .. } = &mut *state;
        if let Some(avr) = avr {
            avr.go_on_behind(blocks.get(here.block), here.index, guest);
        }
    };
}

/// At an interrupt's vector.
pub(crate) struct OnInterrupted;

impl Hook for OnInterrupted {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, avr, cycles, ledger, clock, pace, .. } = &mut *state;
        let starts_again = avr.as_mut().is_some_and(|avr| avr.interrupted(guest));
        let taken = guest.taken_exception(here.pc);
        // The instruction's first start has been counted.
        if starts_again && let Some(interrupted) = guest.interrupted_code() {
            ledger.unstart(here.vcpu, interrupted.pc);
            take_back(here.vcpu, 1, ledger);
            if let Some(cycles) = cycles {
                cycles.unstart(here.vcpu, interrupted.pc, ledger);
            }
            if let Some(pace) = pace {
                pace.turns.unstart();
            }
        }
        let insns = clock.insns_of_run(here.vcpu, ledger);
        if let (Some(cycles), Some(_)) = (cycles, &taken) {
            cycles.interrupt(here.pc, insns, guest.facts.call_bytes);
        }
        let ns = state.device_ns(insns);
        // The device's lock comes after QEMU's, and the device may print.
        drop(state);
        if let (Some(taken), Some(ns)) = (taken, ns) {
            // The number's low half is the vector, of which the first is the reset's.
            qemu::take_interrupt(taken.number as u32 - 1, ns);
        }
    };
}

/// At an interrupt's vector, once the interrupt is known.
pub(crate) struct OnEntered;

impl Hook for OnEntered {
    const CALL: ExecCallback = |vcpu, _| {
        let mut state = state::lock();
        let vcpu = state.running_vcpu(vcpu);
        let State { cycles, ledger, .. } = &mut *state;
        if let Some(cycles) = cycles {
            cycles.enter(vcpu, ledger);
        }
    };
}

/// At a `sleep`. While interrupts are masked nothing ends it but a reset, so that the firmware has ended. Otherwise it ends
/// at once: QEMU has no wait for this processor.
pub(crate) struct OnSleep;

impl Hook for OnSleep {
    const CALL: ExecCallback = |vcpu, id| {
        let (state, here) = arrive(vcpu, id);
        let (mut state, is_skipped) = is_skipped(state, here);
        if is_skipped {
            return;
        }
        if state.guest.is_masked() {
            state.exit(0, here.pc);
        }
        let State { guest, avr, blocks, cycles, clock, ledger, .. } = &mut *state;
        if let Some(cycles) = cycles {
            cycles.sleep(clock.insns_of_run(here.vcpu, ledger));
        }
        if let Some(avr) = avr {
            avr.go_on_behind(blocks.get(here.block), here.index, guest);
        }
    };
}

/// Before a `wdr`, which QEMU stops at where it is not skipped.
pub(crate) struct BeforeWdr;

impl LeaveHook for BeforeWdr {
    const CALL: fn(u32, usize) -> bool = |vcpu, id| {
        let (mut state, here) = find(vcpu, id);
        let begins_block = here.index == 0;
        if !begins_block {
            let (locked, is_skipped) = is_skipped(state, here);
            if is_skipped {
                return false;
            }
            state = locked;
        }
        let State { guest, avr, .. } = &mut *state;
        avr.as_mut().is_some_and(|avr| avr.start_again(here.pc, begins_block, guest))
    };
}

/// At a `wdr`.
pub(crate) struct OnWdr;

impl Hook for OnWdr {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, avr, .. } = &mut *state;
        let feeds = avr.as_mut().is_some_and(|avr| avr.feeds(here.pc));
        // QEMU takes no interrupt before what is skipped, also one that the instruction before has just allowed.
        if let (Some(avr), true, false) = (avr, feeds, guest.is_masked()) {
            avr.unmask(guest);
        }
        let ns = state.device_ns(state.clock.insns_of_run(here.vcpu, &state.ledger));
        // The device's lock comes after QEMU's.
        drop(state);
        if let (true, Some(ns)) = (feeds, ns) {
            qemu::feed_watchdog(ns);
        }
    };
}

/// At an `elpm`, which QEMU would execute without RAMPZ.
pub(crate) struct OnFarLoad;

impl Hook for OnFarLoad {
    const CALL: ExecCallback = |vcpu, id| {
        let (state, here) = find(vcpu, id);
        let (mut state, is_skipped) = is_skipped(state, here);
        let State { guest, avr, .. } = &mut *state;
        if let (Some(avr), false) = (avr, is_skipped) {
            avr.use_rampz(true, guest);
        }
    };
}

/// After the load of an `elpm`.
pub(crate) struct OnFarLoaded;

impl AccessHook for OnFarLoaded {
    const CALL: AccessCallback = |_, _, _| {
        let State { guest, avr, .. } = &mut *state::lock();
        avr.iter_mut().for_each(|avr| avr.use_rampz(false, guest));
    };
}

/// At the loop in which avr-libc's `exit` ends.
pub(crate) struct OnStop;

impl Hook for OnStop {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let [here_status, _] = state.guest.arguments();
        let status = state.exit_status.unwrap_or(here_status);
        state.exit(status & 0xff, here.pc);
    };
}
