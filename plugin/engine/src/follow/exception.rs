//! Exceptions that are active, and the code that each interrupted.
//!
//! A callback at each handler's first instruction notes the interrupted code's registers: hardware saved them
//! (Cortex-M) or they are all still there (RISC-V). With that a stack crosses into the interrupted code, even from a
//! handler in assembly without unwind information, or on another stack.

use wire::counters::{EXCEPTIONS, HERE, LINK};
use wire::definition::SpanKind;
use wire::timeline::What;

use super::arrival::Arrival;
use super::context::{Active, Core, Path};
use super::open_zones::Nest;
use super::tree::Tree;
use crate::code::Code;
use crate::guest::{Guest, Taken, Vcpu};
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
    let Taken { number, handler, entry_sp, interrupted, below } = taken;
    if let Some(below) = below {
        // Exceptions that the frame does not name have returned, or this one follows without a return between them
        // (tail-chaining).
        let named = core.exceptions.iter().rposition(|active| active.number == below);
        end(core, tree.as_deref_mut(), named.map_or(0, |index| index + 1), ledger);
    }
    if core.exceptions.len() >= MAX_NESTED {
        core.exceptions.remove(0);
    }
    if core.exceptions.is_empty()
        && let Some(interrupted) = interrupted
    {
        core.note_stack_pointer(interrupted.sp.wrapping_sub(guest.facts.exception_frame_bytes), ledger);
    }
    let mut node = 0;
    if let Some(tree) = &mut tree {
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

/// Removes exceptions that have returned unseen, if the processor tells which one is active.
pub fn leave(
    core: &mut Core,
    mut tree: Option<&mut Tree>,
    guest: &mut Guest<impl Vcpu>,
    ledger: &mut Ledger<impl Counters>,
) {
    if core.exceptions.is_empty() {
        return;
    }
    let Some(number) = guest.active_exception() else { return };
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

/// Handles the return instruction of the innermost exception, before it executes.
pub fn trap_return(core: &mut Core, mut tree: Option<&mut Tree>, ledger: &mut Ledger<impl Counters>) {
    core.advance(ledger);
    if let Some(tree) = &mut tree {
        tree.attribute(core, ledger);
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
        core.resumed = interrupted;
        if let Some(tree) = &mut tree
            && !is_preempted
            && !path.calls.began_before_window
        {
            let kind = SpanKind::Exception { number };
            tree.spans.count(kind, core.vcpu, path.calls.insns, (handler, began_at), ledger);
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
