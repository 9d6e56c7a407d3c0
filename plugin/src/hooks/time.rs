// SPDX-License-Identifier: GPL-2.0-or-later
//! Callbacks that count, handle due events, or wait.

use std::num::NonZeroU16;

use engine::block::{from_arrival_id, from_insn_id, from_wait_id};
use engine::clock::{self, Suspect};
use engine::prediction::Prediction;
use wire::control::{End, Word};
use wire::counters::{INPUT, LAST, VECTOR_MOVES};
use wire::timeline::What;

use super::{arrive, find};
use crate::qemu::{ExecCallback, Hook, LeaveHook};
use crate::semihosting::{self, Call, Written};
use crate::state::{self, State};

/// At the start of a block into which an event may fall, or after an alarm.
pub(crate) struct OnBlock;

impl Hook for OnBlock {
    const CALL: ExecCallback = |vcpu, id| {
        let (block, epoch) = from_arrival_id(id);
        begin(&mut state::lock(), vcpu, block, epoch);
    };
}

fn begin(state: &mut State, vcpu: u32, block: usize, epoch: Option<NonZeroU16>) {
    state.settle(vcpu);
    state.wake(vcpu);
    let called = clock::called(vcpu, &state.ledger);
    let (pc, insns) = (state.blocks.get(block).pc, state.blocks.get(block).insns());
    if called.by_recheck {
        state.look_again(vcpu, pc);
    }
    if called.by_transfer {
        let State { guest, code, ledger, transfers, .. } = state;
        transfers.resolve(vcpu, pc, guest.is_epoch(epoch), guest, code, ledger);
        ledger.set(LAST, vcpu, 0);
    }
    if called.for_event(insns) {
        state.suspect(vcpu, block, 0);
    } else {
        called.go_on(vcpu, &state.ledger);
    }
}

/// At the start of each block, where the cycles of the one before are known. The number is its code's.
pub(crate) struct OnPassage;

impl Hook for OnPassage {
    const CALL: ExecCallback = |vcpu, code| {
        let mut state = state::lock();
        let vcpu = state.running_vcpu(vcpu);
        state.begin_passage(vcpu, code as u32);
    };
}

/// The same, where the machine's clock follows the cycles. The number has the block's instructions, too.
pub(crate) struct OnPacedPassage;

impl LeaveHook for OnPacedPassage {
    const CALL: fn(u32, usize) -> bool = |vcpu, id| {
        let (code, insns) = from_insn_id(id);
        let mut state = state::lock();
        let vcpu = state.running_vcpu(vcpu);
        state.seek_clock() || (state.begin_passage(vcpu, code as u32) && state.keep_time(vcpu, insns))
    };
}

/// At an instruction whose operands decide on its cycles.
pub(crate) struct OnDivision;

impl Hook for OnDivision {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = find(vcpu, id);
        let State { guest, ledger, passages, .. } = &mut *state;
        if let Some(passages) = passages {
            passages.divide(here.vcpu, here.pc, guest, ledger);
        }
    };
}

/// At the start of a block that may be the target of a jump whose arc is counted, or the handler of an exception
/// after such a jump.
pub(crate) struct OnArrival;

impl Hook for OnArrival {
    const CALL: ExecCallback = |vcpu, id| {
        let (block, epoch) = from_arrival_id(id);
        arrive_at(&mut state::lock(), vcpu, block, epoch);
    };
}

fn arrive_at(state: &mut State, vcpu: u32, block: usize, epoch: Option<NonZeroU16>) {
    let State { guest, code, ledger, blocks, transfers, .. } = state;
    transfers.resolve(vcpu, blocks.get(block).pc, guest.is_epoch(epoch), guest, code, ledger);
    ledger.set(LAST, vcpu, 0);
}

/// At the start of a block with a prediction of its arrival, in place of [`OnBlock`]: an event is due, or the alarm
/// is not set.
pub(crate) struct OnPredictedBlock;

impl Hook for OnPredictedBlock {
    const CALL: ExecCallback = |vcpu, number| {
        let mut state = state::lock();
        let prediction = state.predictions.get(number);
        prediction.uncount(vcpu, &state.ledger);
        prediction.restore_clock(vcpu, &state.ledger);
        begin(&mut state, vcpu, prediction.block, Some(prediction.epoch));
        told(&mut state, vcpu, prediction);
    };
}

/// At the start of a block with a prediction of its arrival, in place of [`OnArrival`]: the prediction was wrong.
pub(crate) struct OnMispredicted;

impl Hook for OnMispredicted {
    const CALL: ExecCallback = |vcpu, number| {
        let mut state = state::lock();
        let prediction = state.predictions.get(number);
        prediction.uncount(vcpu, &state.ledger);
        told(&mut state, vcpu, prediction);
    };
}

/// Settles the arrival at a block with a prediction, before its other callbacks.
fn told(state: &mut State, vcpu: u32, prediction: Prediction) {
    let epoch = Some(prediction.epoch);
    arrive_at(state, vcpu, prediction.block, epoch);
    state.ledger.set(LAST, vcpu, prediction.site);
    state.predictions.is_told = !state.guest.is_epoch(epoch);
}

/// At the start of a block with a prediction that traps may reach, too.
pub(crate) struct OnUnsure;

impl Hook for OnUnsure {
    const CALL: ExecCallback = |vcpu, number| {
        let mut state = state::lock();
        let prediction = state.predictions.get(number);
        if !std::mem::take(&mut state.predictions.is_told) {
            prediction.uncount(vcpu, &state.ledger);
            arrive_at(&mut state, vcpu, prediction.block, Some(prediction.epoch));
        }
    };
}

/// At an instruction that opens or closes the window, before its counters.
pub(crate) struct OnBound;

impl Hook for OnBound {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        if state.clock.opens_at(here.pc) {
            state.open_window();
            state.suspect(here.vcpu, here.block, here.index);
        } else if state.clock.closes_at(here.pc) {
            state.end(End::Until, 0, here.pc);
        }
    };
}

/// At the start of a segment, if inline operations cannot be used. Counts the segment and settles it at once, since a
/// segment starts as a whole.
pub(crate) struct OnSegment;

impl Hook for OnSegment {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = find(vcpu, id);
        let (vcpu, block, index) = (here.vcpu, here.block, here.index);
        if index == 0 {
            let State { guest, code, ledger, transfers, .. } = &mut *state;
            transfers.resolve(vcpu, here.pc, false, guest, code, ledger);
            ledger.set(LAST, vcpu, 0);
        }
        let called = clock::called(vcpu, &state.ledger);
        if called.by_recheck {
            called.go_on(vcpu, &state.ledger);
            state.look_again(vcpu, here.pc);
        }
        let (slot, length) = state.blocks.get(block).segment_at(index);
        let insns = state.ledger.insns(vcpu);
        state.ledger.add(slot, vcpu, 1);
        if clock::advance(vcpu, length, &state.ledger) {
            let stack = state.take_stack(vcpu, here.pc);
            state.clock.suspect_started(vcpu, Suspect { block, index, insns, stack });
            state.settle(vcpu);
            state.clock.set(vcpu, &state.ledger);
        }
    };
}

/// At the start of a block that a counted way of a branch has led to.
pub(crate) struct OnWay;

impl Hook for OnWay {
    const CALL: ExecCallback = |vcpu, slot| {
        state::lock().ledger.add(slot as u32, vcpu, 1);
    };
}

/// At the start of a block at which jumps are counted, after a transfer of control.
pub(crate) struct OnLanding;

impl Hook for OnLanding {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = find(vcpu, id);
        let State { ledger, transfers, .. } = &mut *state;
        transfers.land(here.vcpu, here.pc, ledger);
    };
}

/// The oracle: at every instruction that starts. Counts it without any inline counter.
pub(crate) struct OracleCount;

impl Hook for OracleCount {
    const CALL: ExecCallback = |vcpu, slot| {
        state::lock().ledger.add(slot as u32, vcpu, 1);
    };
}

/// The oracle: at the start of a block for which a callback was requested, before its function is entered or left.
pub(crate) struct OracleRecheck;

impl Hook for OracleRecheck {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let called = clock::called(here.vcpu, &state.ledger);
        if called.by_recheck {
            called.go_on(here.vcpu, &state.ledger);
            state.look_again(here.vcpu, here.pc);
        }
    };
}

/// The oracle: at every instruction, before it starts. Counts the way of the branch before it.
pub(crate) struct OracleWay;

impl Hook for OracleWay {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = find(vcpu, id);
        let State { guest, ledger, branches, .. } = &mut *state;
        if let Some(branches) = branches {
            branches.arrive(here.vcpu, here.pc, guest, ledger);
        }
    };
}

/// The oracle: at a branch that starts.
pub(crate) struct OracleBranch;

impl Hook for OracleBranch {
    const CALL: ExecCallback = |vcpu, number| {
        let mut state = state::lock();
        let vcpu = state.running_vcpu(vcpu);
        if let Some(branches) = &mut state.branches {
            branches.leave(vcpu, number);
        }
    };
}

/// The oracle: at the instruction at which its own clock reaches the event.
pub(crate) struct OracleSample;

impl Hook for OracleSample {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = find(vcpu, id);
        let stack = state.take_stack(vcpu, here.pc);
        state.settle_here(vcpu, here.block, here.index, &stack);
        let called = clock::called(vcpu, &state.ledger);
        state.clock.set(vcpu, &state.ledger);
        // The next block has been asked for, by this very instruction perhaps.
        if called.by_recheck {
            clock::recheck(vcpu, &state.ledger);
        }
    };
}

/// At a transfer of control, if inline operations cannot be used.
pub(crate) struct OnTransfer;

impl Hook for OnTransfer {
    const CALL: ExecCallback = |vcpu, number| {
        let mut state = state::lock();
        let vcpu = state.running_vcpu(vcpu);
        state.ledger.set(LAST, vcpu, number as u64);
    };
}

/// At an instruction after which traps may have another target.
pub(crate) struct OnVector;

impl Hook for OnVector {
    const CALL: ExecCallback = |vcpu, _| {
        let mut state = state::lock();
        state.guest.vector_moves();
        state.ledger.add(VECTOR_MOVES, vcpu, 1);
    };
}

/// At a jump through a register, after its number was stored in the cell, on processors whose exceptions return by
/// such a jump.
pub(crate) struct OnRegisterJump;

impl Hook for OnRegisterJump {
    const CALL: ExecCallback = |vcpu, register| {
        let State { guest, ledger, transfers, .. } = &mut *state::lock();
        transfers.jump_by_register(vcpu, register as u8, guest, ledger);
    };
}

/// At the start of a block at which console input may be due.
pub(crate) struct OnInput;

impl Hook for OnInput {
    const CALL: ExecCallback = |vcpu, block| {
        let mut state = state::lock();
        let vcpu = state.running_vcpu(vcpu);
        if state.ledger.get(INPUT, vcpu) == 0 {
            return;
        }
        state.ledger.set(INPUT, vcpu, 0);
        state.look(false);
        if state.counting.by_blocks() {
            state.suspect(vcpu, block, 0);
        } else {
            state.clock.set(vcpu, &state.ledger);
        }
    };
}

/// At an instruction that QEMU translated as a semihosting call, before the call.
pub(crate) struct OnSemihosting;

impl Hook for OnSemihosting {
    const CALL: ExecCallback = |vcpu, id| {
        // A limit before this instruction comes first.
        let (mut state, here) = arrive(vcpu, id);
        state.note_host_call(here.vcpu);
        let State { guest, handles, asked, ledger, semihosting, output, errors, .. } = &mut *state;
        match semihosting::look(here.pc, *semihosting, guest, handles, asked, ledger) {
            Some(Call::Ends(End::Exit, status)) => state.exit(status, here.pc),
            Some(Call::Ends(end, value)) => state.end(end, value, here.pc),
            Some(Call::ReadsConsole) => state.semihosting_reads(),
            Some(Call::Writes(written)) => {
                if output.as_mut().is_some_and(|output| written.is_too_much(output, guest)) {
                    state.end(End::Output, 0, here.pc);
                }
                if let (Some(errors), Written::Buffer(buffer)) = (errors, written)
                    && buffer.is_error(guest)
                {
                    errors.mark(buffer.bytes);
                }
            }
            None => {}
        }
    };
}

/// At a `wfi`, or a `wfe` that may sleep, before it executes.
pub(crate) struct OnWait;

impl Hook for OnWait {
    const CALL: ExecCallback = |vcpu, id| {
        let (id, is_for_event) = from_wait_id(id);
        let (guard, timers) = {
            let (mut state, here) = find(vcpu, id);
            if state.console.is_some() || state.sleep.is_some() {
                state.settle(here.vcpu);
                // Whether a `wfe` waits is known only at the next event.
                if !is_for_event {
                    state.ledger.happened(here.vcpu, What::Waits);
                }
                state.sleeps(here.vcpu);
            }
            // If the firmware sleeps until input comes, there is no later occasion.
            state.look_in_block();
            state.ledger.say(Word::WaitPc, here.pc);
            state.ledger.say(Word::WaitInsns, state.ledger.insns_of_all());
            (state.guard.clone(), state.timers)
        };
        guard.hold();
        if let Some(timers) = timers {
            timers.drop_never();
        }
    };
}
