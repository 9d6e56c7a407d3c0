// SPDX-License-Identifier: MIT OR Apache-2.0
//! Activations: calls of a function, identified by their frame and return address, which the unwind information gives
//! for an instruction. This finds what no register and no jump shows: that a function goes on in a separate cold
//! part, or where an exception lands.

use wire::unwind::{Base, Rule, Saved};

use crate::code::{Code, CodePoint};
use crate::guest::{Context, Guest, Vcpu};

/// One call of a function, while it is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// Canonical frame address: the stack pointer at its entry.
    pub cfa: u64,
    /// Its return address.
    pub return_addr: u64,
}

/// Activation at an instruction that is about to execute with these registers, and the registers of its caller.
/// `is_caller`: it has called the executing code. None: the unwind information does not tell.
pub fn at(
    context: Context,
    is_caller: bool,
    guest: &mut Guest<impl Vcpu>,
    code: &mut Code,
) -> Option<(Activation, Context)> {
    let CodePoint { rule, function, is_forgetful, .. } = code.place(context.pc.wrapping_sub(is_caller.into()), guest);
    let Rule { base, cfa_offset_bytes, return_addr, frame_pointer } = rule?;
    let from = if base == Base::StackPointer { context.sp } else { context.frame_pointer };
    let cfa = guest.isa.wrap(from.wrapping_add_signed(cfa_offset_bytes.into()));
    let (return_addr_bytes, frame_pointer_bytes) = (guest.return_addr_bytes(), guest.frame_pointer_bytes());
    let mut saved = |place, bytes, register| match place {
        Saved::Register => Some(register),
        Saved::AtCfa(offset_bytes) => {
            guest.pushed(guest.isa.wrap(cfa.wrapping_add_signed(i64::from(offset_bytes))), bytes)
        }
        Saved::Lost | Saved::SecondLink => None,
    };
    let is_kept = !is_caller && (!is_forgetful || function == Some(context.pc));
    if return_addr == Saved::Register && !is_kept {
        return None;
    }
    let return_addr = saved(return_addr, return_addr_bytes, context.return_addr)?;
    let is_pushed = matches!(frame_pointer, Saved::AtCfa(_));
    let frame_pointer = saved(frame_pointer, frame_pointer_bytes, context.frame_pointer).unwrap_or(0);
    let frame_pointer = if is_pushed { guest.pushed_frame_pointer(frame_pointer) } else { frame_pointer };
    let return_addr = guest.code_address(return_addr);
    let caller = Context { pc: return_addr, sp: cfa, return_addr: 0, second_return_addr: 0, frame_pointer };
    Some((Activation { cfa, return_addr }, caller))
}
