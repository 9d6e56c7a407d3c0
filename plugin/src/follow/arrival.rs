//! Arrivals: where control has come to, and by what, so that the shadow stack of functions is what executes.
//!
//! Generated code notices when a block is in another function than the last one ([`HERE`]), and keeps what a call leaves
//! as its return address ([`LINK`]). The rest follows from where the code goes on: after a call that is active it
//! has returned; at a function's start it has jumped there (a tail call); anywhere else it was left by a longjmp, an
//! exception of C++ or a switch of stacks, and what is active there is told by its frame ([`super::activation`]).
//!
//! One arrival that cannot be told must not spoil the rest of a run: what is active is then unwound, and counted as
//! resynchronised.

use wire::counters::{HERE, LINK, here};
use wire::unwind::Saved;

use super::activation::{self, Activation};
use super::context::{Core, Parked, Path, Shadow};
use super::tree::Tree;
use crate::code::Code;
use crate::guest::{Context, Guest};
use crate::ledger::Ledger;

/// Most stacks that wait to go on, per vCPU; the ones that wait longest are forgotten.
const MAX_PARKED: usize = 1024;

/// Deepest stack that is unwound to resynchronise.
const MAX_UNWOUND: usize = 1024;

/// Of a call: its return address is not in the usual register.
const IS_HELPER: u64 = 1;

/// What [`LINK`] holds for a call that returns to `next`.
pub(crate) fn link(next: u64, is_helper: bool) -> u64 {
    next | if is_helper { IS_HELPER } else { 0 }
}

impl Tree {
    /// Code is about to execute its first instruction in another function than the last one was in, or after a call,
    /// a return or an exception.
    pub(crate) fn arrive(
        &mut self,
        core: &mut Core,
        at: Context,
        guest: &mut Guest,
        code: &mut Code,
        ledger: &mut Ledger,
    ) {
        let function = code.function_of(at.pc);
        let link = ledger.get(LINK, core.vcpu);
        ledger.set(LINK, core.vcpu, 0);
        ledger.set(HERE, core.vcpu, here(function));
        let has_crossed = self.has_crossed(core.vcpu, at.pc);
        self.attribute(core, ledger);
        let resumed = core.resumed.take();
        if let Some(resumed) = resumed {
            if (resumed.pc, resumed.sp) == (at.pc, at.sp) {
                return;
            }
            if resumed.sp != at.sp && core.exceptions.is_empty() {
                // A kernel that is not known has switched stacks.
                self.switch(core, (resumed.pc, resumed.sp), at, None);
            }
        }
        let return_addr = link & !IS_HELPER;
        if link != 0 && return_addr != at.pc {
            self.call(core, at, return_addr, link & IS_HELPER != 0, guest, code, ledger);
        } else {
            self.go_on(core, at, function, has_crossed, guest, code, ledger);
        }
        if core.exceptions.is_empty() && function == Some(at.pc) {
            core.note_stack_pointer(at.sp, ledger);
        }
        self.node_changed(core, ledger);
    }

    /// Code was called: there is no doubt by whom.
    #[allow(clippy::too_many_arguments)]
    fn call(
        &mut self,
        core: &mut Core,
        at: Context,
        return_addr: u64,
        is_helper: bool,
        guest: &mut Guest,
        code: &mut Code,
        ledger: &mut Ledger,
    ) {
        let Context { pc, sp, .. } = at;
        let function = code.function_of(pc);
        let caller = code.function_of(return_addr.wrapping_sub(1));
        if let Some(caller) = caller
            && core.frames().last().is_some_and(|top| top.entry != caller)
        {
            self.note_resynchronised(ledger);
            match covering(core.frames(), caller, sp) {
                Some(index) => self.truncate(core, index + 1, ledger),
                None => self.push(core, unknown(caller, sp), false, ledger),
            }
        }
        if function.is_some() && function == caller && function != Some(pc) && is_far_jump(pc, guest, code) {
            return;
        }
        let entry = function.unwrap_or(pc);
        self.push(core, Shadow { entry, entry_sp: sp, return_addr, is_helper, node: 0 }, entry == pc, ledger);
    }

    /// Code goes on at an instruction without a call.
    #[allow(clippy::too_many_arguments)]
    fn go_on(
        &mut self,
        core: &mut Core,
        at: Context,
        function: Option<u64>,
        has_crossed: bool,
        guest: &mut Guest,
        code: &mut Code,
        ledger: &mut Ledger,
    ) {
        let Context { pc, sp, .. } = at;
        if let Some(index) = core.frames().iter().rposition(|frame| frame.returns_to(pc, sp)) {
            self.truncate(core, index, ledger);
        }
        // Code without a name is part of the function that led there.
        let Some(entry) = function else { return };
        let starts = entry == pc;
        let return_addr = guest.code_address(at.return_addr);
        let Some(&top) = core.frames().last() else {
            let root = Shadow { entry, entry_sp: sp, return_addr, is_helper: false, node: 0 };
            return self.push(core, root, starts, ledger);
        };
        let is_only = core.frames().len() == 1;
        if top.entry == entry {
            let is_same =
                if starts { (top.entry_sp, top.return_addr) == (sp, return_addr) } else { sp <= top.entry_sp };
            // An outermost function may set up its stack.
            if is_same || (is_only && !starts) {
                return;
            }
        }
        if has_crossed {
            return self.replace(core, entry, starts, ledger);
        }
        let activation = activation::at(at, false, guest, code).map(|(activation, _)| activation);
        if let Some(activation) = activation
            && let Some(index) = core.frames().iter().rposition(|frame| frame.is(activation))
        {
            self.truncate(core, index + 1, ledger);
            if starts || core.frames()[index].entry != entry {
                self.replace(core, entry, starts, ledger);
            }
        } else if starts {
            let return_addr = activation.map_or(return_addr, |activation| activation.return_addr);
            self.start(core, at, return_addr, guest, code, ledger);
        } else {
            self.land(core, at, entry, activation, guest, code, ledger);
        }
    }

    /// A function starts by a jump, and is to return elsewhere than the one before it.
    fn start(
        &mut self,
        core: &mut Core,
        at: Context,
        return_addr: u64,
        guest: &mut Guest,
        code: &mut Code,
        ledger: &mut Ledger,
    ) {
        let Context { pc: entry, sp, .. } = at;
        let Some(&top) = core.frames().last() else { return };
        let shadow = Shadow { entry, entry_sp: sp, return_addr, is_helper: false, node: 0 };
        if top.return_addr == return_addr {
            // With something left on the stack: an outermost function, or the common end of several.
            return self.replace(core, entry, true, ledger);
        }
        if code.function_of(return_addr.wrapping_sub(1)) == Some(top.entry) {
            // It was given a return address by hand, or finds that of an earlier call: it would return there.
            return self.push(core, shadow, true, ledger);
        }
        let same = core.frames().iter().rposition(|frame| frame.return_addr == return_addr);
        if let (true, Some(index)) = (code.is_return_address(return_addr, guest), same) {
            self.truncate(core, index + 1, ledger);
            return self.replace(core, entry, true, ledger);
        }
        // The start of a task or a coroutine, on its own stack.
        self.switch(core, (top.return_addr, top.entry_sp), at, None);
        self.push(core, shadow, true, ledger);
    }

    /// Code goes on in the middle of a function that the one before has not called, nor returned to.
    #[allow(clippy::too_many_arguments)]
    fn land(
        &mut self,
        core: &mut Core,
        at: Context,
        entry: u64,
        activation: Option<Activation>,
        guest: &mut Guest,
        code: &mut Code,
        ledger: &mut Ledger,
    ) {
        let Some(&top) = core.frames().last() else { return };
        if core.exceptions.is_empty() && core.parked.iter().any(|parked| parked.is(core.task, at, activation)) {
            self.switch(core, (top.return_addr, top.entry_sp), at, activation);
            return self.go_on(core, at, Some(entry), false, guest, code, ledger);
        }
        if let Some(index) = covering(core.frames(), entry, at.sp) {
            return self.truncate(core, index + 1, ledger);
        }
        self.note_resynchronised(ledger);
        self.unwind(core, at, guest, code, ledger);
    }

    /// Makes the shadow stack what the unwind information says.
    fn unwind(&mut self, core: &mut Core, at: Context, guest: &mut Guest, code: &mut Code, ledger: &mut Ledger) {
        let (mut found, mut next) = (Vec::new(), at);
        let keep = loop {
            let is_caller = !found.is_empty();
            let function = code.function_of(next.pc.wrapping_sub(is_caller.into()));
            let (Some(entry), Some((activation, caller))) = (function, activation::at(next, is_caller, guest, code))
            else {
                // What is certain is that it executes, and what lies above it on the stack.
                found.extend(function.map(|entry| unknown(entry, next.sp)));
                break core.frames().iter().take_while(|frame| frame.entry_sp > next.sp).count();
            };
            if let Some(index) = core.frames().iter().rposition(|frame| frame.is(activation)) {
                break index + 1;
            }
            let Activation { cfa: entry_sp, return_addr } = activation;
            found.push(Shadow { entry, entry_sp, return_addr, is_helper: false, node: 0 });
            if !code.is_return_address(return_addr, guest) || found.len() >= MAX_UNWOUND {
                break 0;
            }
            next = caller;
        };
        self.truncate(core, keep, ledger);
        for shadow in found.into_iter().rev() {
            self.push(core, shadow, false, ledger);
        }
    }

    /// Puts what executed outside of exceptions aside until it goes on there, for what goes on now.
    fn switch(&mut self, core: &mut Core, (pc, sp): (u64, u64), at: Context, activation: Option<Activation>) {
        let task = core.task;
        let waiting = core.parked.iter().rposition(|parked| parked.is(task, at, activation));
        let path =
            waiting.and_then(|index| core.parked.remove(index)).map_or_else(Path::default, |parked| parked.path);
        let path = std::mem::replace(core.path(), path);
        if core.parked.len() >= MAX_PARKED {
            core.parked.pop_front();
        }
        core.parked.push_back(Parked { pc, sp, task, path });
    }

    /// An exception comes before the instruction at which the code was about to go on: whether a function
    /// was just entered or left would have been noticed at that instruction.
    pub(crate) fn catch_up(
        &mut self,
        core: &mut Core,
        interrupted: Context,
        guest: &mut Guest,
        code: &mut Code,
        ledger: &mut Ledger,
    ) {
        let function = code.function_of(interrupted.pc);
        if ledger.get(HERE, core.vcpu) != here(function) || ledger.get(LINK, core.vcpu) != 0 {
            self.arrive(core, interrupted, guest, code, ledger);
        }
    }
}

/// The activation of a function that is live with this stack pointer: those above it lie below the stack pointer, or
/// keep nothing on the stack. An outermost function may have switched its stack.
fn covering(frames: &[Shadow], entry: u64, sp: u64) -> Option<usize> {
    let above = frames.iter().rposition(|frame| frame.entry_sp > sp).unwrap_or(0);
    let is_it = |index: &usize| frames[*index].entry == entry && (frames[*index].entry_sp >= sp || *index == 0);
    (above..frames.len()).rev().find(is_it)
}

/// A function that is active, of which it is not known who called it.
fn unknown(entry: u64, sp: u64) -> Shadow {
    Shadow { entry, entry_sp: sp, return_addr: 0, is_helper: false, node: 0 }
}

/// Whether what was called in the middle of its own function is no subroutine: the return address is kept elsewhere, and
/// the link register only clobbered. Armv6-M has no other far jump.
fn is_far_jump(pc: u64, guest: &mut Guest, code: &mut Code) -> bool {
    code.place(pc, guest).rule.is_some_and(|rule| rule.return_addr != Saved::Register)
}
