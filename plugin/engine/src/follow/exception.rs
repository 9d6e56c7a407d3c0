// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exceptions that are active, and the code that each interrupted.
//!
//! A callback at each handler's first instruction notes the interrupted code's registers: hardware saved them
//! (Cortex-M) or they are all still there (RISC-V). With that a stack crosses into the interrupted code, even from a
//! handler in assembly without unwind information, or on another stack.

use decode::Flow;
use wire::counters::{EXCEPTIONS, HERE, LINK};
use wire::definition::SpanKind;
use wire::timeline::What;

use super::activation;
use super::arrival::Arrival;
use super::context::{Active, Core, Parked, Path};
use super::exchange;
use super::open_zones::Nest;
use super::tree::Tree;
use crate::code::Code;
use crate::guest::{Context, Guest, Taken, Vcpu};
use crate::ledger::{Counters, Ledger};

/// Most nested exceptions, more than ever occur: a handler that always faults at its start must not fill memory.
const MAX_NESTED: usize = 256;

/// Handles the start of an exception's handler.
pub fn enter(
    core: &mut Core,
    mut tree: Option<&mut Tree>,
    taken: Taken,
    guest: &mut Guest<impl Vcpu>,
    code: &mut Code,
    ledger: &mut Ledger<impl Counters>,
) {
    core.advance(ledger);
    if let Some(tree) = &mut tree {
        tree.attribute(core, ledger);
        tree.spans.handler_starts(core.vcpu, taken.number, guest, ledger);
    }
    if let (None, Some(interrupted)) = (taken.below, taken.interrupted) {
        let is_unmasked = guest.masked_before_trap() == Some(false);
        leave_by_jump(core, tree.as_deref_mut(), (interrupted, is_unmasked), guest, code, ledger);
    }
    if taken.below.is_none() {
        // A loop to the handler's start, or a trap at the handler's first instruction, nests no deeper.
        if core.exceptions.last().is_some_and(|top| top.is(&taken)) {
            return;
        }
    } else if let Some(index) = core.exceptions.iter().rposition(|active| active.is_preempted && active.is(&taken)) {
        core.exceptions[index].is_preempted = false;
        end(core, tree.as_deref_mut(), index + 1, ledger);
        changed(core, tree, ledger);
        return;
    }
    let mut taken = vec![taken];
    while taken.len() < MAX_NESTED
        && let Some(preempted) = guest.preempted_exception(&taken[taken.len() - 1])
        && !core.exceptions.iter().any(|active| active.is(&preempted))
    {
        taken.push(preempted);
    }
    while let Some(next) = taken.pop() {
        push(core, tree.as_deref_mut(), next, !taken.is_empty(), guest, code, ledger);
    }
}

fn push(
    core: &mut Core,
    mut tree: Option<&mut Tree>,
    taken: Taken,
    is_preempted: bool,
    guest: &mut Guest<impl Vcpu>,
    code: &mut Code,
    ledger: &mut Ledger<impl Counters>,
) {
    let Taken { number, handler, entry_sp, saved_sp, interrupted, below } = taken;
    if let Some(below) = below {
        // Exceptions that the frame does not name have returned, or this one follows without a return between them
        // (tail-chaining).
        let named = core.exceptions.iter().rposition(|active| active.number == below);
        end(core, tree.as_deref_mut(), named.map_or(0, |index| index + 1), ledger);
    }
    if let (true, Some(interrupted)) = (core.exceptions.is_empty(), interrupted) {
        exchange::returned(core, interrupted, code);
    }
    if core.exceptions.len() >= MAX_NESTED {
        core.exceptions.remove(0);
    }
    if core.exceptions.is_empty() && interrupted.is_some() {
        core.note_stack_pointer(saved_sp, ledger);
    }
    let mut node = 0;
    if let Some(tree) = &mut tree {
        core.note_main_stack(entry_sp, guest, ledger);
        if let Some(level) = guest.exception_level(number) {
            ledger.note_level(number, level);
        }
        if let Some(interrupted) = interrupted {
            Arrival { tree, core, guest, code, ledger }.before_exception(interrupted);
        }
        core.resumed = None;
        ledger.set(LINK, core.vcpu, 0);
        node = tree.exception_node(core, number, ledger);
    }
    let path = Path::default();
    let nest = Nest { base: core.zone_path(), ..Nest::default() };
    let began_at = ledger.insns(core.vcpu);
    core.exceptions.push(Active { number, handler, entry_sp, interrupted, began_at, path, nest, node, is_preempted });
    ledger.happened(core.vcpu, What::Entered { number });
    changed(core, tree, ledger);
}

/// Removes exceptions that have returned unseen before the code at `pc`.
pub fn leave(
    core: &mut Core,
    mut tree: Option<&mut Tree>,
    pc: u64,
    guest: &mut Guest<impl Vcpu>,
    code: &mut Code,
    ledger: &mut Ledger<impl Counters>,
) {
    if core.exceptions.is_empty() {
        return;
    }
    let Some(number) = guest.active_exception() else {
        let sp = guest.stack_pointer();
        let is_back = core.exceptions.last().and_then(|top| top.interrupted).is_some_and(|below| below.sp == sp);
        if !is_back && !core.handed.as_ref().is_some_and(|handed| handed.stack.contains(&sp)) {
            return;
        }
        let (context, is_unmasked) = (guest.context(pc), guest.may_be_interrupted());
        core.advance(ledger);
        if let Some(tree) = &mut tree {
            tree.attribute(core, ledger);
        }
        return leave_by_jump(core, tree, (context, is_unmasked), guest, code, ledger);
    };
    let sp = guest.stack_pointer();
    // In a handler the stack pointer is at or below its start value; number 0 means no handler.
    let live = |active: &Active| number != 0 && active.number == number && sp <= active.entry_sp;
    if core.exceptions.last().is_some_and(live) {
        return;
    }
    let kept = core.exceptions.iter().rposition(live).map_or(0, |index| index + 1);
    core.advance(ledger);
    if let Some(tree) = &mut tree {
        tree.attribute(core, ledger);
    }
    end(core, tree.as_deref_mut(), kept, ledger);
    changed(core, tree, ledger);
}

/// Removes exceptions that ended without their return instruction, given the registers of the code that executes, and
/// whether it may be interrupted. The processor does not say which exceptions are active.
///
/// A handler may go on with a task that waits outside of exceptions by a plain return, and with what it interrupted by a
/// jump: a kernel's loop that waits for the next interrupt.
fn leave_by_jump(
    core: &mut Core,
    mut tree: Option<&mut Tree>,
    (context, is_unmasked): (Context, bool),
    guest: &mut Guest<impl Vcpu>,
    code: &mut Code,
    ledger: &mut Ledger<impl Counters>,
) {
    if resumes_task(core, tree.is_some(), context, guest, code) {
        if tree.is_some() {
            park_handler(core);
        }
        end(core, tree.as_deref_mut(), 0, ledger);
        // It is on another stack than what the exceptions had interrupted.
        core.resumed = tree.is_some().then_some(Context { pc: 0, sp: 0, ..context });
        return changed(core, tree, ledger);
    }
    let function = code.function_of(context.pc);
    let before = core.exceptions.len();
    while is_unmasked
        && let Some(Active { interrupted: Some(interrupted), handler, .. }) = core.exceptions.last()
        && (interrupted.sp, context.pc == *handler) == (context.sp, false)
        && function.is_some()
        && code.function_of(interrupted.pc) == function
    {
        let outer = core.exceptions.len() - 1;
        end(core, tree.as_deref_mut(), outer, ledger);
    }
    if core.exceptions.len() < before {
        changed(core, tree, ledger);
    }
}

/// Puts the functions of the outermost handler aside, which the kernel has left in the middle of its switch: it may go on
/// with them as it goes on with the task that the exception interrupted.
fn park_handler(core: &mut Core) {
    let from = core.handed.as_ref().map_or(0, |handed| handed.from);
    let Some(active) = core.exceptions.first().filter(|_| from != 0) else { return };
    let path = Path { frames: active.path.frames.clone(), ..Path::default() };
    // The task has gone on otherwise since.
    core.parked.retain(|parked| parked.task != from || !parked.is_handler);
    core.park(Parked { pc: 0, sp: 0, task: from, path, is_handler: true });
}

/// Whether code is that of the task which the exceptions have switched to, and which waits outside of exceptions. With the
/// exact tree that task's functions are known, and the code has to be in one of them.
fn resumes_task(
    core: &Core,
    is_exact: bool,
    context: Context,
    guest: &mut Guest<impl Vcpu>,
    code: &mut Code,
) -> bool {
    if core.exceptions.is_empty() || !core.handed.as_ref().is_some_and(|handed| handed.stack.contains(&context.sp)) {
        return false;
    }
    if !is_exact {
        return true;
    }
    let activation = activation::at(context, false, guest, code).map(|(activation, _)| activation);
    let at = (context.pc, context.sp);
    activation.is_some() && core.parked.iter().any(|parked| parked.is(core.task, at, activation))
}

/// Whether the return instruction of an exception's handler at `pc` returns from a call. AVR's compiler lets a handler call another
/// one that does the same, which ends as a handler does: the exception goes on, with interrupts allowed.
pub fn returns_from_call(core: &Core, pc: u64, guest: &mut Guest<impl Vcpu>, code: &mut Code) -> bool {
    let Some(active) = core.exceptions.last().filter(|_| guest.isa.is_avr()) else { return false };
    if guest.stack_pointer() + guest.facts.exception_frame_bytes >= active.entry_sp {
        return false;
    }
    let return_addr = guest.return_register();
    let (isa, function, back) = (guest.isa, code.function_of(pc), guest.code_address(return_addr));
    [2u8, 4].into_iter().any(|len_bytes| {
        let site = back.wrapping_sub(len_bytes.into());
        let Some(bytes) = guest.memory(site, len_bytes.into()) else { return false };
        let insn = decode::decode(isa, site, &bytes);
        insn.len_bytes == len_bytes
            && match insn.flow {
                Flow::Call { target } => function.is_some() && code.function_of(target) == function,
                flow => flow.is_call(),
            }
    })
}

/// Handles the return instruction of the innermost exception, before it executes.
pub fn trap_return(core: &mut Core, mut tree: Option<&mut Tree>, ledger: &mut Ledger<impl Counters>) {
    core.advance(ledger);
    if let Some(tree) = &mut tree {
        tree.attribute(core, ledger);
    }
    if core.exceptions.is_empty() && core.task != 0 {
        // A kernel that switches tasks outside of exceptions goes on with one that an exception interrupted.
        core.thread.is_passing = true;
    }
    let outer = core.exceptions.len().saturating_sub(1);
    end(core, tree.as_deref_mut(), outer, ledger);
    if let Some(tree) = &mut tree
        && core.exceptions.is_empty()
    {
        tree.spans.outermost_returned(core.vcpu);
    }
    changed(core, tree, ledger);
}

/// Ends all exceptions but the outermost `keep`, with the functions that their handlers called.
fn end(core: &mut Core, mut tree: Option<&mut Tree>, keep: usize, ledger: &mut Ledger<impl Counters>) {
    while core.exceptions.len() > keep {
        if let Some(tree) = &mut tree {
            tree.spans.end_calls(core, 0, ledger);
        }
        let Some(active) = core.exceptions.pop() else { return };
        let Active { number, handler, began_at, path, mut nest, is_preempted, interrupted, .. } = active;
        nest.abandon(0, core.vcpu, ledger);
        ledger.happened(core.vcpu, What::Left);
        (core.resumed, core.handed) = (interrupted, None);
        if let Some(tree) = &mut tree
            && !is_preempted
            && !path.calls.began_before_window
        {
            let kind = SpanKind::Exception { number };
            tree.spans.count(kind, core.vcpu, path.calls.time, (handler, began_at), ledger);
        }
    }
}

/// Informs generated code and the records of a change.
fn changed(core: &Core, tree: Option<&mut Tree>, ledger: &mut Ledger<impl Counters>) {
    ledger.set(EXCEPTIONS, core.vcpu, core.exceptions.len() as u64);
    if let Some(tree) = tree {
        // The handler may be in the same function that it interrupted.
        ledger.set(HERE, core.vcpu, 0);
        tree.node_changed(core, ledger);
    }
}
