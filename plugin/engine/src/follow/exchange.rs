// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions in assembly that exchange their task's stack for another one, and back: system calls of threads without
//! privileges, whose kernel has a stack of its own for each thread.
//!
//! No rule leads out of such a function. So the code on the stack before is noted as the function begins: the caller, or
//! the code that asked for an exception whose handler returns into the function in place of that code.

use super::context::{Core, Exchanged};
use crate::code::Code;
use crate::guest::{Context, Guest, Vcpu};

impl Core {
    /// The running task's exchange by the function that starts at `entry`, if that was its last one.
    pub fn exchange(&self, entry: u64) -> Option<Exchanged> {
        self.exchanged.get(&self.task).filter(|exchanged| exchanged.entry == entry).copied()
    }
}

/// Notes where the last exception has returned, which another exception interrupts before that instruction.
pub fn returned(core: &mut Core, to: Context, code: &Code) {
    if code.exchange(to.pc).is_some_and(|exchange| exchange.is_by_exception) {
        asked(core, to.pc, to.sp);
    }
}

/// Notes the start of a function, if it exchanges the stack; all exceptions have returned.
pub fn begin(core: &mut Core, pc: u64, guest: &mut Guest<impl Vcpu>, code: &Code) -> Option<Exchanged> {
    let exchange = code.exchange(pc)?;
    let Context { sp, return_addr, frame_pointer, .. } = guest.context(pc);
    if exchange.is_by_exception {
        asked(core, pc, sp);
    } else {
        let pc = guest.code_address(return_addr);
        let outer = Context { pc, sp, return_addr: 0, second_return_addr: 0, frame_pointer };
        core.exchanged.insert(core.task, Exchanged { entry: exchange.entry, outer, is_by_exception: false });
    }
    core.exchange(pc).filter(|exchanged| exchanged.outer.sp == sp)
}

/// Notes that the last exception, which the code at this stack pointer asked for, has returned into the function at
/// `entry`. If the function itself was interrupted at its start, it is noted already.
fn asked(core: &mut Core, entry: u64, sp: u64) {
    if let Some(outer) = core.resumed.filter(|outer| outer.sp == sp && outer.pc != entry) {
        core.exchanged.insert(core.task, Exchanged { entry, outer, is_by_exception: true });
    }
}
