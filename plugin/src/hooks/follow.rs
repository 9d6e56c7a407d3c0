// SPDX-License-Identifier: GPL-2.0-or-later
//! Callbacks that follow what executes: calls, returns, exceptions, switches of tasks.

use engine::block::from_insn_id;
use engine::clock;
use engine::follow::arrival::Arrival;
use engine::follow::context::Exchanged;
use engine::follow::task::Seen;
use engine::follow::zone::Happened;
use engine::follow::{event, exception};
use wire::counters::FIRST_TASK;
use wire::timeline::What;

use super::{arrive, find};
use crate::qemu::{self, Access, AccessCallback, AccessHook, ExecCallback, Hook};
use crate::state::{self, State};

/// At the start of a block that may be a handler's first.
pub(crate) struct OnException;

impl Hook for OnException {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, code, ledger, follow, stacks, .. } = &mut *state;
        let Some(taken) = guest.taken_exception(here.pc) else { return };
        if !follow.cores[here.vcpu as usize].fault.enter(here.vcpu, &taken, guest, code, ledger) {
            return;
        }
        if let Some(masks) = follow.masks_alone() {
            masks.handler_starts(here.vcpu, taken.number, guest, ledger);
        }
        let has_exceptions = follow.has_exceptions(stacks.is_some());
        let core = &mut follow.cores[here.vcpu as usize];
        if has_exceptions {
            exception::enter(core, follow.tree.as_mut(), taken, guest, code, ledger);
            follow.look_at_tasks(here.vcpu, guest, ledger);
        }
        if guest.facts.has_events {
            follow.wake(here.vcpu, ledger);
        }
    };
}

/// At the start of a function that exchanges the task's stack.
pub(crate) struct OnExchange;

impl Hook for OnExchange {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, code, ledger, follow, transfers, .. } = &mut *state;
        let exchanged = follow.begin_exchange(here.vcpu, here.pc, guest, code, ledger);
        if let Some(Exchanged { outer, is_by_exception: true, .. }) = exchanged {
            transfers.asked(here.vcpu, (here.pc, outer.pc, guest.facts.asking_bytes), ledger);
        }
    };
}

/// At the start of the function of a task that an executor polls.
pub(crate) struct OnPoll;

impl Hook for OnPoll {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, code, ledger, follow, .. } = &mut *state;
        follow.begin_poll(here.vcpu, here.pc, guest, code, ledger);
    };
}

/// At the address that such a function returns to.
pub(crate) struct OnPolled;

impl Hook for OnPolled {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, code, ledger, follow, .. } = &mut *state;
        follow.end_poll(here.vcpu, here.pc, guest, code, ledger);
    };
}

/// At the start of a function that wakes or spawns such a task.
pub(crate) struct OnLife;

impl Hook for OnLife {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, ledger, follow, .. } = &mut *state;
        if let Some(polls) = &mut follow.polls {
            polls.change(here.vcpu, here.pc, guest, ledger);
        }
    };
}

/// At a `wfe`, while the processor is awake.
pub(crate) struct OnEventWait;

impl Hook for OnEventWait {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let sleeps = qemu::wfe_sleeps();
        if event::wait(here.vcpu, sleeps, &state.ledger) {
            state.ledger.happened(here.vcpu, What::Waits);
        }
        if sleeps {
            state.sleeps(here.vcpu);
        }
    };
}

/// At a `sev`, before it is counted.
pub(crate) struct OnEvent;

impl Hook for OnEvent {
    const CALL: ExecCallback = |vcpu, id| {
        let (state, _) = arrive(vcpu, id);
        // The event reaches all processors (Armv7-M ARM A7.7.129).
        state.follow.cores.iter().for_each(|core| state.follow.wake(core.vcpu, &state.ledger));
    };
}

/// At a trap's return, before it executes. It is the handler's last instruction, and the clock has counted it.
pub(crate) struct OnTrapReturn;

impl Hook for OnTrapReturn {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { ledger, follow, stacks, guest, code, .. } = &mut *state;
        let has_exceptions = follow.has_exceptions(stacks.is_some());
        let core = &mut follow.cores[here.vcpu as usize];
        if exception::returns_from_call(core, here.pc, guest, code) {
            return;
        }
        core.fault.may_return(here.vcpu, ledger);
        if has_exceptions {
            exception::trap_return(core, follow.tree.as_mut(), ledger);
        }
        let is_outermost = core.exceptions.is_empty();
        if let Some(masks) = follow.masks_alone().filter(|_| is_outermost) {
            masks.outermost_returned(here.vcpu);
        }
        follow.look_at_tasks(here.vcpu, guest, ledger);
    };
}

/// At a jump that may return from a fault's handler, which the clock has counted.
pub(crate) struct OnFaultReturn;

impl Hook for OnFaultReturn {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { ledger, follow, .. } = &mut *state;
        follow.cores[here.vcpu as usize].fault.may_return(here.vcpu, ledger);
    };
}

/// At an instruction in another function than the instruction before, or after a call, a return or an exception. The
/// instruction is not counted yet.
pub(crate) struct OnFunction;

impl Hook for OnFunction {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, code, ledger, follow, blocks, .. } = &mut *state;
        if let Some(tree) = &mut follow.tree {
            // Nearly always a block begins here, whose function is known.
            let block = Some(blocks.get(here.block)).filter(|_| here.index == 0);
            let function = block.map_or_else(|| code.function_of(here.pc), |block| block.function);
            let arrival = Arrival { tree, core: &mut follow.cores[here.vcpu as usize], guest, code, ledger };
            arrival.here(here.pc, function);
        }
    };
}

/// After an instruction that may have made the stack deeper, at the next one of the block.
pub(crate) struct OnStackMove;

impl Hook for OnStackMove {
    const CALL: ExecCallback = |vcpu, id| {
        let mut state = state::lock();
        let sp = state.guest.stack_pointer();
        if !state.follow.cores[vcpu as usize].is_in_room(sp) {
            state.check_room(vcpu, id, sp);
        }
        let State { guest, ledger, follow, blocks, .. } = &mut *state;
        let core = &mut follow.cores[vcpu as usize];
        // The last function of a path makes no call at which its frame would be seen.
        if follow.tree.is_some() {
            core.note_main_stack(sp, guest, ledger);
        }
        if !core.exceptions.is_empty() {
            return;
        }
        if core.moved(sp, ledger)
            && let Some(tasks) = &mut follow.tasks
        {
            let (block, index) = from_insn_id(id);
            let (block, mover) = (blocks.get(block), index - 1);
            // The instruction's segment is counted as a whole.
            let at_insns = ledger.insns(vcpu) - block.after_in_segment(mover);
            tasks.overflow(core.task, Seen { pc: block.pc_of(mover), sp, at_insns, is_first: true }, ledger);
        }
    };
}

/// At the start of a block that may take the stack out of its room.
pub(crate) struct OnDeeper;

impl Hook for OnDeeper {
    const CALL: ExecCallback = |vcpu, block| state::lock().check_depth(vcpu, block);
}

/// At the start of a block while the place of the registers is looked for.
pub(crate) struct OnSought;

impl Hook for OnSought {
    const CALL: ExecCallback = |_, _| state::lock().seek_registers();
}

/// After an instruction that may have exchanged the stack for another one; 1: it may also have made it deeper.
pub(crate) struct OnStackSet;

impl Hook for OnStackSet {
    const CALL: ExecCallback = |vcpu, moves| {
        let State { guest, ledger, follow, .. } = &mut *state::lock();
        let core = &mut follow.cores[vcpu as usize];
        let sp = guest.stack_pointer();
        if moves != 0 && follow.tree.is_some() {
            core.note_main_stack(sp, guest, ledger);
        }
        if core.exceptions.is_empty() {
            core.note_stack_pointer(sp, ledger);
            core.last_sp = Some(sp);
        }
    };
}

/// At a jump that may return from an exception, while one is active: the next block decides.
pub(crate) struct OnExceptionReturn;

impl Hook for OnExceptionReturn {
    const CALL: ExecCallback = |vcpu, _| clock::recheck(vcpu, &state::lock().ledger);
}

/// At a jump into the middle of another function, before it executes: the next block decides.
pub(crate) struct OnCrossing;

impl Hook for OnCrossing {
    const CALL: ExecCallback = |vcpu, target| {
        if let Some(tree) = &mut state::lock().follow.tree {
            tree.will_cross(vcpu, target as u64);
        }
    };
}

/// At an instruction that may mask or unmask interrupts, before it executes.
pub(crate) struct OnMask;

impl Hook for OnMask {
    const CALL: ExecCallback = |vcpu, pc| {
        let mut state = state::lock();
        let vcpu = state.running_vcpu(vcpu);
        let State { ledger, follow, .. } = &mut *state;
        if let Some(masks) = follow.masks() {
            masks.mask_may_change(vcpu, pc as u64);
        }
        clock::recheck(vcpu, ledger);
    };
}

/// At the instruction after [`OnMask`]'s, where the block goes on.
pub(crate) struct OnMasked;

impl Hook for OnMasked {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, ledger, follow, .. } = &mut *state;
        if let Some(masks) = follow.masks() {
            masks.check_mask(here.vcpu, guest, ledger);
        }
    };
}

/// At an instruction where a `--span` ends.
pub(crate) struct OnUntil;

impl Hook for OnUntil {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { ledger, follow, .. } = &mut *state;
        follow.betweens.end(here.vcpu, here.pc, ledger);
    };
}

/// At an instruction where a `--span` begins.
pub(crate) struct OnFrom;

impl Hook for OnFrom {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { ledger, follow, .. } = &mut *state;
        follow.betweens.begin(here.vcpu, here.pc, ledger);
    };
}

/// At an instruction that begins or ends a zone of the firmware's, or a call that belongs to waiting.
pub(crate) struct OnZone;

impl Hook for OnZone {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, code, ledger, follow, .. } = &mut *state;
        follow.leave_exceptions(here.vcpu, here.pc, guest, code, ledger);
        if let Some(waiting) = follow.waiting.as_mut().filter(|waiting| waiting.is_event(here.pc)) {
            waiting.at(&mut follow.cores[here.vcpu as usize], here.pc, guest, ledger);
        }
        let zones = follow.zones.as_mut();
        let happened = zones.and_then(|zones| zones.at(&mut follow.cores, here.vcpu, here.pc, guest, code, ledger));
        let what = match happened {
            Some(Happened::Begun { name }) => What::Begun { name },
            Some(Happened::Ended { name }) => What::Ended { name },
            Some(Happened::Mark { name, value }) => What::Mark { name, value },
            Some(Happened::Phase { name }) => {
                state.enter_phase(name);
                What::Phase { name }
            }
            None => return,
        };
        state.ledger.happened(here.vcpu, what);
    };
}

/// At the first instruction of a function that will not keep its return address.
pub(crate) struct OnForgetful;

impl Hook for OnForgetful {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = find(vcpu, id);
        let State { guest, code, stacks, transfers, .. } = &mut *state;
        if let Some(stacks) = stacks {
            stacks.keep_return_address(here.pc, transfers.has_led_to(here.pc), guest, code);
        }
    };
}

/// At the last instruction at which the register has the return address, before a call that never returns.
pub(crate) struct OnForgetting;

impl Hook for OnForgetting {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = find(vcpu, id);
        let State { guest, code, stacks, .. } = &mut *state;
        if let Some(stacks) = stacks {
            stacks.keep_before_call(here.pc, guest, code);
        }
    };
}

/// At the start of the function that an idle task begins with.
pub(crate) struct OnIdle;

impl Hook for OnIdle {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = find(vcpu, id);
        let State { guest, ledger, follow, .. } = &mut *state;
        if let Some(tasks) = &mut follow.tasks {
            tasks.idle(here.vcpu, guest, ledger);
        }
    };
}

/// At the start of the function that deletes a task, or in which one ends.
pub(crate) struct OnDelete;

impl Hook for OnDelete {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = find(vcpu, id);
        let State { guest, ledger, follow, .. } = &mut *state;
        if let Some(tasks) = &mut follow.tasks {
            tasks.delete(here.pc, here.vcpu, guest, ledger);
        }
    };
}

/// After an instruction that switched to another stack, before the first task has started.
pub(crate) struct OnFirstTask;

impl Hook for OnFirstTask {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, ledger, follow, .. } = &mut *state;
        ledger.set(FIRST_TASK, here.vcpu, 0);
        if let Some(tasks) = &mut follow.tasks {
            tasks.switch(&mut follow.cores[here.vcpu as usize], follow.tree.as_mut(), guest, ledger);
        }
    };
}

/// After a store of the kernel that may switch tasks.
pub(crate) struct OnSwitch;

impl AccessHook for OnSwitch {
    const CALL: AccessCallback = |vcpu, Access { address, .. }, id| {
        let (mut state, here) = find(vcpu, id);
        if !state.follow.tasks.as_ref().is_some_and(|tasks| tasks.may_switch_by(address)) {
            return;
        }
        state.settle(here.vcpu);
        let State { guest, code, ledger, follow, .. } = &mut *state;
        follow.leave_exceptions(here.vcpu, here.pc, guest, code, ledger);
        if let Some(tasks) = &mut follow.tasks {
            tasks.switch(&mut follow.cores[here.vcpu as usize], follow.tree.as_mut(), guest, ledger);
        }
        // Samples in the rest of the block belong to the new task.
        if state.counting.by_blocks() {
            state.suspect(here.vcpu, here.block, here.index + 1);
        }
    };
}
