// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrivals: targets of control and the way there, which keep the shadow stack equal to the executing functions.
//!
//! Generated code notices when a block is in another function than the last one ([`HERE`]), and stores a call's
//! return address ([`LINK`]). The rest follows from the address that the code continues at. After an active call,
//! that has returned; at a function's start, it has jumped there (a tail call). Anywhere else the last function was
//! left by a longjmp, an exception of C++ or a switch of stacks, and its frame identifies the active function
//! ([`super::activation`]).
//!
//! One unexplained arrival must not spoil the rest of a run: the stack is then unwound, and counted as
//! resynchronised.

use wire::counters::{HERE, LINK, STACK_SET, here};
use wire::unwind::Saved;

use super::activation::{self, Activation};
use super::context::{Core, Parked, Path, Shadow};
use super::tree::Tree;
use crate::code::Code;
use crate::guest::{Context, Guest, Vcpu};
use crate::ledger::{Counters, Ledger};

/// Deepest stack that is unwound to resynchronise.
const MAX_UNWOUND: usize = 1024;

/// Flag of a call whose return address is not in the usual register.
const IS_HELPER: u64 = 1;

/// Value of [`LINK`] for a call that returns to `next`.
pub fn link(next: u64, is_helper: bool) -> u64 {
    next | if is_helper { IS_HELPER } else { 0 }
}

/// Handles code that is about to execute its first instruction in another function than the last one, or after a
/// call, a return or an exception.
pub struct Arrival<'a, V: Vcpu, C> {
    /// The exact tree.
    pub tree: &'a mut Tree,
    /// State of the vCPU.
    pub core: &'a mut Core,
    /// The processor.
    pub guest: &'a mut Guest<V>,
    /// The image's code.
    pub code: &'a mut Code,
    /// The ledger.
    pub ledger: &'a mut Ledger<C>,
}

/// An instruction that is about to execute.
#[derive(Clone, Copy)]
struct Arriving {
    pc: u64,
    /// Entry of its function, if known.
    function: Option<u64>,
    sp: u64,
    /// All registers, if known already.
    registers: Option<Context>,
}

impl Arriving {
    fn registers(&mut self, guest: &mut Guest<impl Vcpu>) -> Context {
        *self.registers.get_or_insert_with(|| guest.context(self.pc))
    }
}

/// Known properties of an arrival without a call.
#[derive(Clone, Copy, Default)]
struct Came {
    /// Whether it came by a jump into the middle of another function.
    has_crossed: bool,
    /// Whether it may be on another stack than the last function.
    has_other_stack: bool,
}

impl<V: Vcpu, C: Counters> Arrival<'_, V, C> {
    /// Handles the arrival at an instruction of the function that starts at `function`, with the current registers.
    pub fn here(self, pc: u64, function: Option<u64>) {
        // Most arrivals need no other register.
        let sp = self.guest.stack_pointer();
        self.at(Arriving { pc, function, sp, registers: None });
    }

    fn at(mut self, mut at: Arriving) {
        let (vcpu, function) = (self.core.vcpu, at.function);
        self.core.note_main_stack(at.sp, self.guest, self.ledger);
        let taken = |slot| {
            let value = self.ledger.get(slot, vcpu);
            if value != 0 {
                self.ledger.set(slot, vcpu, 0);
            }
            value
        };
        let (link, has_other_stack) = (taken(LINK), taken(STACK_SET) != 0);
        self.ledger.set(HERE, vcpu, here(function));
        let came = Came { has_crossed: self.tree.has_crossed(vcpu, at.pc), has_other_stack };
        self.tree.attribute(self.core, self.ledger);
        if let Some(resumed) = self.core.resumed.take() {
            if (resumed.pc, resumed.sp) == (at.pc, at.sp) {
                return;
            }
            if resumed.sp != at.sp && self.core.exceptions.is_empty() {
                // A kernel that is not known has switched stacks, or a task that has ended named its successor.
                let activation = (self.core.task != 0).then(|| self.activation(&mut at)).flatten();
                self.switch((resumed.pc, resumed.sp), at, activation);
            }
        }
        if link == 0 && self.core.exceptions.is_empty() && self.core.path().is_passing {
            self.end_passing(&mut at);
        }
        let return_addr = link & !IS_HELPER;
        if let Some(asked_at) = self.asked_at(at) {
            self.call(at, asked_at, false);
        } else if link != 0 && return_addr != at.pc {
            self.call(at, return_addr, link & IS_HELPER != 0);
        } else {
            self.go_on(&mut at, came);
        }
        if self.core.exceptions.is_empty() && function == Some(at.pc) {
            self.core.note_stack_pointer(at.sp, self.ledger);
        }
        self.tree.node_changed(self.core, self.ledger);
    }

    /// Handles an exception before the instruction at which the code was about to continue: that instruction's
    /// callback would have noticed an entry or exit of a function.
    pub fn before_exception(self, interrupted: Context) {
        let Core { vcpu, .. } = *self.core;
        let function = self.code.function_of(interrupted.pc);
        if self.ledger.get(HERE, vcpu) != here(function) || self.ledger.get(LINK, vcpu) != 0 {
            let Context { pc, sp, .. } = interrupted;
            self.at(Arriving { pc, function, sp, registers: Some(interrupted) });
        }
    }

    /// Address at which code goes on that asked for an exception, whose handler has returned into a function in its
    /// place: as if it had called the function.
    fn asked_at(&self, at: Arriving) -> Option<u64> {
        self.code.exchange(at.pc).filter(|exchange| exchange.is_by_exception)?;
        self.core
            .exchange(at.pc)
            .map(|exchanged| exchanged.outer)
            .filter(|outer| outer.sp == at.sp)
            .map(|outer| outer.pc)
    }

    /// Handles a call.
    fn call(&mut self, at: Arriving, return_addr: u64, is_helper: bool) {
        let Arriving { pc, function, sp, .. } = at;
        let caller = self.code.function_of(return_addr.wrapping_sub(1));
        if let Some(caller) = caller
            && self.core.frames().last().is_some_and(|top| top.entry != caller)
        {
            self.tree.note_resynchronised(self.ledger);
            match covering(self.core.frames(), caller, sp) {
                Some(index) => self.truncate(index + 1),
                None => self.push(unknown(caller, sp), false),
            }
        }
        let own = function.filter(|&own| own != pc && Some(own) == caller);
        if own.is_some_and(|own| self.is_no_call(pc, own)) {
            return;
        }
        let entry = function.unwrap_or(pc);
        if self.code.begins_task(pc) && self.core.exceptions.is_empty() {
            // A kernel starts its first task by a call that never returns.
            self.switch((return_addr, sp), at, None);
        }
        let entry_sp = sp + self.guest.facts.call_bytes;
        self.push(Shadow { entry, entry_sp, return_addr, is_helper, node: 0 }, entry == pc);
    }

    /// Goes on with code that was put aside where the kernel's last functions have arrived. Before the functions that
    /// execute are looked at: those of a trap can have the stack pointer and the return address of what it interrupted.
    fn end_passing(&mut self, at: &mut Arriving) {
        let (task, here) = (self.core.task, (at.pc, at.sp));
        let activation = self.activation(at);
        if self.core.parked.iter().any(|parked| parked.is(task, here, activation)) {
            // What only passes is not put aside.
            self.switch((0, 0), *at, activation);
        }
    }

    /// Handles code that continues at an instruction without a call.
    fn go_on(&mut self, at: &mut Arriving, came: Came) {
        let Arriving { pc, function, sp, .. } = *at;
        let returned = self.core.frames().iter().rposition(|frame| frame.returns_to(pc, sp));
        if let Some(index) = returned {
            self.truncate(index);
        }
        let Some(entry) = function else { return self.begin_unnamed(at) };
        let starts = entry == pc;
        let top = self.core.frames().last().copied();
        // An outermost function may set up its stack.
        let is_in = |top: Shadow, is_only: bool| top.entry == entry && !starts && (sp <= top.entry_sp || is_only);
        if top.is_some_and(|top| is_in(top, self.core.frames().len() == 1)) && !came.has_crossed {
            return;
        }
        let is_back = returned.is_some() && !starts && top.is_some_and(|top| top.entry == entry);
        if is_back && (self.code.exchange(entry).is_some() || self.activation(at).is_none()) {
            // Assembly had exchanged the stack under itself before it made that call, and leaves on the new one.
            self.ledger.set(STACK_SET, self.core.vcpu, 1);
            return;
        }
        let registers = at.registers(self.guest);
        let return_addr = self.guest.code_address(registers.return_addr);
        let entry_sp = sp + self.guest.facts.call_bytes;
        let shadow = Shadow { entry, entry_sp, return_addr, is_helper: false, node: 0 };
        let Some(top) = top else { return self.push(shadow, starts) };
        if starts && top.is_same(&shadow) {
            return;
        }
        if came.has_crossed {
            return self.tree.replace(self.core, entry, starts, self.ledger);
        }
        let activation = self.activation(at);
        if let Some(activation) = activation
            && let Some(index) = self.core.frames().iter().rposition(|frame| frame.is(activation))
        {
            self.truncate(index + 1);
            if starts || self.core.frames()[index].entry != entry {
                self.tree.replace(self.core, entry, starts, self.ledger);
            }
        } else if starts {
            let return_addr = activation.map_or(return_addr, |activation| activation.return_addr);
            self.start(Shadow { return_addr, ..shadow }, top, *at, came);
        } else {
            self.land(*at, entry, top, activation, came);
        }
    }

    /// Begins code without a name, which counts for the function that led there. If none did, it is a function
    /// itself.
    fn begin_unnamed(&mut self, at: &mut Arriving) {
        let Arriving { pc: entry, sp: entry_sp, .. } = *at;
        if !self.core.frames().is_empty() || !self.tree.has_begun(self.core, entry) {
            return;
        }
        let return_addr = at.registers(self.guest).return_addr;
        let return_addr = self.guest.code_address(return_addr);
        let starts = match self.core.exceptions.last() {
            Some(active) => active.handler == entry,
            None => self.tree.is_start(entry),
        };
        self.push(Shadow { entry, entry_sp, return_addr, is_helper: false, node: 0 }, starts);
    }

    /// Begins a function by a jump, with another return address than the function before it.
    fn start(&mut self, shadow: Shadow, top: Shadow, at: Arriving, came: Came) {
        let Shadow { entry, return_addr, .. } = shadow;
        if came.has_other_stack {
            // The start of a task or a coroutine, which may find a return address of older code.
            self.switch((top.return_addr, top.entry_sp), at, None);
            return self.push(shadow, true);
        }
        if top.return_addr == return_addr {
            // The stack is not empty: an outermost function, or the common end of several.
            return self.tree.replace(self.core, entry, true, self.ledger);
        }
        if self.code.function_of(return_addr.wrapping_sub(1)) == Some(top.entry) {
            // Its return address was set by hand, or is that of an earlier call: it would return there.
            return self.push(shadow, true);
        }
        let same = self.core.frames().iter().rposition(|frame| frame.return_addr == return_addr);
        if let (true, Some(index)) = (self.code.is_return_address(return_addr, self.guest), same) {
            self.truncate(index + 1);
            return self.tree.replace(self.core, entry, true, self.ledger);
        }
        // A start without a return address.
        self.switch((top.return_addr, top.entry_sp), at, None);
        self.push(shadow, true);
    }

    /// Handles code that continues in the middle of a function that the last one has neither called nor returned to.
    fn land(&mut self, mut at: Arriving, entry: u64, top: Shadow, activation: Option<Activation>, came: Came) {
        let Core { task, .. } = *self.core;
        if self.core.exceptions.is_empty()
            && self.core.parked.iter().any(|parked| parked.is(task, (at.pc, at.sp), activation))
        {
            self.switch((top.return_addr, top.entry_sp), at, activation);
            // With one frame less: the recursion ends.
            return self.go_on(&mut at, Came::default());
        }
        if let Some(index) = covering(self.core.frames(), entry, at.sp) {
            return self.truncate(index + 1);
        }
        if came.has_other_stack && top.entry == entry && self.code.knows_task_begins() {
            // It has exchanged the stack under itself, to start the first task, which has no other function yet.
            self.truncate(0);
            self.push(unknown(entry, at.sp), false);
            return;
        }
        self.tree.note_resynchronised(self.ledger);
        let registers = at.registers(self.guest);
        self.unwind(registers);
    }

    /// Makes the shadow stack equal to the unwound one.
    fn unwind(&mut self, at: Context) {
        let (mut found, mut next) = (Vec::new(), at);
        let keep = loop {
            let is_caller = !found.is_empty();
            let function = self.code.function_of(next.pc.wrapping_sub(is_caller.into()));
            let told = activation::at(next, is_caller, self.guest, self.code);
            let (Some(entry), Some((activation, caller))) = (function, told) else {
                // The executing function is certain, and so are those above it on the stack.
                found.extend(function.map(|entry| unknown(entry, next.sp)));
                break self.core.frames().iter().take_while(|frame| frame.entry_sp > next.sp).count();
            };
            if let Some(index) = self.core.frames().iter().rposition(|frame| frame.is(activation)) {
                break index + 1;
            }
            let Activation { cfa: entry_sp, return_addr } = activation;
            found.push(Shadow { entry, entry_sp, return_addr, is_helper: false, node: 0 });
            if !self.code.is_return_address(return_addr, self.guest) || found.len() >= MAX_UNWOUND {
                break 0;
            }
            next = caller;
        };
        self.truncate(keep);
        self.core.path().is_passing = false;
        for shadow in found.into_iter().rev() {
            self.push(shadow, false);
        }
    }

    /// Puts the executing code aside until it continues, and makes other code current.
    fn switch(&mut self, (pc, sp): (u64, u64), at: Arriving, activation: Option<Activation>) {
        let Core { task, .. } = *self.core;
        let parked = &mut self.core.parked;
        let waiting = parked.iter().rposition(|parked| parked.is(task, (at.pc, at.sp), activation));
        let waiting = waiting.and_then(|index| parked.remove(index));
        let is_handler = waiting.as_ref().is_some_and(|parked| parked.is_handler);
        let path = waiting.map_or_else(Path::default, |parked| parked.path);
        let path = std::mem::replace(self.core.path(), path);
        if !path.frames.is_empty() && !path.is_passing {
            self.core.park(Parked { pc, sp, task, path, is_handler: false });
        }
        if is_handler {
            self.tree.rebase(self.core, self.ledger);
        }
    }

    /// Activation of the function that an instruction is in.
    fn activation(&mut self, at: &mut Arriving) -> Option<Activation> {
        let registers = at.registers(self.guest);
        activation::at(registers, false, self.guest, self.code).map(|(activation, _)| activation)
    }

    fn push(&mut self, shadow: Shadow, is_call: bool) {
        self.tree.push(self.core, shadow, is_call, self.ledger);
    }

    fn truncate(&mut self, keep: usize) {
        self.tree.truncate(self.core, keep, self.ledger);
    }

    /// Whether a call of `pc`, in the middle of its own function, is none. Where calls leave the return address in a
    /// register, that is a far jump, the only one of Armv6-M: the return address is kept elsewhere, and the register only
    /// clobbered. Where they push it, it makes room on the stack: the frame is not as at the function's start, `own`.
    fn is_no_call(&mut self, pc: u64, own: u64) -> bool {
        let call_bytes = self.guest.facts.call_bytes;
        let mut rule = |address| self.code.place(address, self.guest).rule;
        match call_bytes {
            0 => rule(pc).is_some_and(|rule| rule.return_addr != Saved::Register),
            _ => rule(pc) != rule(own),
        }
    }
}

/// Index of a function's activation that is live with this stack pointer: the activations above it lie below the
/// stack pointer, or keep nothing on the stack. An outermost function may have switched its stack.
fn covering(frames: &[Shadow], entry: u64, sp: u64) -> Option<usize> {
    let above = frames.iter().rposition(|frame| frame.entry_sp > sp).unwrap_or(0);
    let is_it = |index: &usize| frames[*index].entry == entry && (frames[*index].entry_sp >= sp || *index == 0);
    (above..frames.len()).rev().find(is_it)
}

/// An active function with an unknown caller.
fn unknown(entry: u64, sp: u64) -> Shadow {
    Shadow { entry, entry_sp: sp, return_addr: 0, is_helper: false, node: 0 }
}
