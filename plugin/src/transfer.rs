//! Arcs that only the run can tell: indirect calls and jumps, conditional calls, tail calls.
//!
//! Such an instruction leaves its number in the vCPU's TRANSFER cell and sets the alarm; the next
//! block calls back and its address is where control went. Unless an interrupt came in between: then
//! the next block is the handler's. The transfer's own register (unchanged by taking an exception)
//! or target tells the two apart, and where they do not suffice, the state that the exception saved.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use wire::control::Word;
use wire::counters::TRANSFER;
use wire::definition::{Definition, TransferKind};

use crate::qemu::{ExecCallback, Hook};
use crate::stack::{Context, is_exc_return};
use crate::state::{self, State};

/// An instruction whose target the next block tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Site {
    pub(crate) pc: u64,
    /// Address after it: what a call leaves as its return address.
    pub(crate) next: u64,
    /// Entry of the function it is in, when that is known.
    pub(crate) function: Option<u64>,
    pub(crate) kind: SiteKind,
}

impl Site {
    fn is_call(&self) -> bool {
        match self.kind {
            SiteKind::Jump { .. } => false,
            SiteKind::Branch { call, .. } | SiteKind::Register { call, .. } | SiteKind::Unknown { call, .. } => call,
        }
    }
}

/// How much of the target is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SiteKind {
    /// Goes to the target or falls through.
    Branch { target: u64, call: bool },
    /// A tail call: goes to the target; only the return address is to be found.
    Jump { target: u64 },
    /// Goes to register + offset, or (in a Thumb IT block) falls through.
    Register { reg: u8, offset: i32, call: bool, conditional: bool },
    /// The target cannot be read afterwards.
    Unknown { call: bool, conditional: bool },
}

/// Sites by number, from 1.
#[derive(Default)]
pub(crate) struct Sites {
    /// Each with the arc that it was last seen to take: nearly always the next one, too.
    list: Vec<(Site, Option<(Arc, u32)>)>,
    numbers: HashMap<Site, u64>,
}

impl Sites {
    pub(crate) fn number(&mut self, site: &Site) -> u64 {
        if let Some(&number) = self.numbers.get(site) {
            return number;
        }
        self.list.push((*site, None));
        let number = self.list.len() as u64;
        self.numbers.insert(*site, number);
        number
    }

    fn get(&mut self, number: u64) -> Option<&mut (Site, Option<(Arc, u32)>)> {
        self.list.get_mut(usize::try_from(number.checked_sub(1)?).ok()?)
    }
}

/// A transfer that was seen, and to where it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Arc {
    site: u64,
    target: u64,
    return_addr: Option<u64>,
    kind: TransferKind,
}

/// Counters of the arcs seen.
pub(crate) type Arcs = HashMap<Arc, u32>;

/// What an exception saved of the code it interrupted.
struct Interrupted {
    pc: u64,
    return_addr: u64,
}

/// At a site, where inline operations cannot be used.
pub(crate) struct OnTransfer;

impl Hook for OnTransfer {
    const CALL: ExecCallback = |vcpu, number| {
        let mut state = state::lock();
        let vcpu = state.running_vcpu(vcpu);
        state.records.counter(TRANSFER, vcpu).store(number as u64, Ordering::Relaxed);
    };
}

/// At a Thumb jump through a register, after its number was left in the cell: an EXC_RETURN value makes
/// it an exception return. Afterwards nobody could tell, for the return restores the register.
pub(crate) struct OnRegisterJump;

impl Hook for OnRegisterJump {
    const CALL: ExecCallback = |vcpu, register| {
        let mut state = state::lock();
        if is_exc_return(state.general_register(register as u8)) {
            state.records.counter(TRANSFER, vcpu).store(0, Ordering::Relaxed);
        }
    };
}

impl State {
    /// The block at `pc` is the first one after the transfer whose number is in the TRANSFER cell.
    pub(crate) fn resolve_transfer(&mut self, vcpu: u32, pc: u64) {
        let number = self.records.counter(TRANSFER, vcpu).load(Ordering::Relaxed);
        // Zero: none is open.
        let Some(&mut (transfer, last)) = self.sites.get(number) else { return };
        let Site { pc: site, next, function, kind } = transfer;
        let call = transfer.is_call();
        // Most jumps stay in their function (switches, loops), and no exception starts in its middle.
        if !call && function.is_some_and(|entry| entry != pc) && self.function_of(pc) == function {
            return;
        }
        // None: an exception came first. Some(None): fell through.
        let may_fall_through = matches!(
            kind,
            SiteKind::Branch { .. }
                | SiteKind::Register { conditional: true, .. }
                | SiteKind::Unknown { conditional: true, .. }
        );
        let arrived = match kind {
            SiteKind::Branch { target, .. } if pc == target => Some(Some(target)),
            SiteKind::Jump { target } => (pc == target).then_some(Some(target)),
            _ if may_fall_through && pc == next => Some(None),
            SiteKind::Branch { .. } => None,
            SiteKind::Register { reg, offset, .. } => (pc == self.jump_target(reg, offset)).then_some(Some(pc)),
            SiteKind::Unknown { .. } => (!self.is_exception_entry(pc)).then_some(Some(pc)),
        };
        let (target, return_addr) = match arrived {
            Some(None) => return,
            Some(Some(target)) => (target, None),
            // Neither the target nor an exception: on Arm, an exception return by a jump whose target came
            // from memory; on RISC-V a jump that overwrites its own register.
            None if !self.is_exception_entry(pc) => {
                if !self.args.isa.is_riscv() {
                    return;
                }
                (pc, None)
            }
            None => match self.interrupted_code() {
                Some(Interrupted { pc, .. }) if pc == next && may_fall_through => return,
                Some(Interrupted { pc, return_addr }) if self.can_lead_to(kind, pc) => (pc, Some(return_addr)),
                // An exception in an exception's first moment, or a frame that cannot be read.
                _ => {
                    self.unresolved += 1;
                    self.records.control.set(Word::Unresolved, self.unresolved);
                    return;
                }
            },
        };
        // A jump into the middle of a function is a switch or a loop.
        if !call && !self.is_entry(target) {
            return;
        }
        let (kind, return_addr) = if call {
            (TransferKind::Call, Some(next))
        } else if function == Some(target) {
            (TransferKind::Jump, None)
        } else {
            let return_addr = return_addr.unwrap_or_else(|| self.return_register());
            // Assembly may keep data in the return register, another value each time.
            let known = self.arcs.len() < MAX_ARCS;
            (TransferKind::Jump, known.then(|| self.code_address(return_addr)))
        };
        let arc = Arc { site, target, return_addr, kind };
        let slot = match last {
            Some((last, slot)) if last == arc => slot,
            _ => {
                let slot = self.arc(arc);
                if let Some((_, last)) = self.sites.get(number) {
                    *last = Some((arc, slot));
                }
                slot
            }
        };
        self.records.add(slot, vcpu, 1);
    }

    /// The counter of an arc, defined when it is seen for the first time.
    fn arc(&mut self, arc: Arc) -> u32 {
        if let Some(&slot) = self.arcs.get(&arc) {
            return slot;
        }
        let Arc { site, target, return_addr, kind } = arc;
        let slot = self.define(|slot| Definition::Arc { slot, site, target, return_addr, kind });
        self.arcs.insert(arc, slot);
        slot
    }

    /// Whether a transfer of this kind can have gone to `pc`.
    fn can_lead_to(&mut self, kind: SiteKind, pc: u64) -> bool {
        match kind {
            SiteKind::Branch { target, .. } | SiteKind::Jump { target } => pc == target,
            SiteKind::Register { reg, offset, .. } => pc == self.jump_target(reg, offset),
            SiteKind::Unknown { .. } => true,
        }
    }

    fn jump_target(&mut self, reg: u8, offset: i32) -> u64 {
        let value = self.general_register(reg);
        self.args.isa.wrap(value.wrapping_add_signed(offset.into())) & !1
    }

    pub(crate) fn return_register(&mut self) -> u64 {
        self.general_register(if self.args.isa.is_riscv() { 1 } else { 14 })
    }

    /// Thumb return addresses carry bit 0; EXC_RETURN values are kept as they are.
    pub(crate) fn code_address(&self, address: u64) -> u64 {
        if self.args.isa.is_riscv() || is_exc_return(address) { address } else { address & !1 }
    }

    /// Is the block at `pc`, which just started, the first one of an exception?
    fn is_exception_entry(&mut self, pc: u64) -> bool {
        if self.args.isa.is_riscv() {
            return self.is_trap_vector(pc);
        }
        // Armv7-M ARM B1.5.6: a handler starts with EXC_RETURN in lr, at the address in its vector.
        let exception = self.exception_number();
        if exception == 0 || !is_exc_return(self.register("lr")) {
            return false;
        }
        self.is_vector(exception, pc)
    }

    /// Whether RISC-V traps lead to `pc`.
    pub(crate) fn is_trap_vector(&mut self, pc: u64) -> bool {
        let (base, is_vectored) = self.trap_vector();
        // There are at most 64 causes.
        pc == base || (is_vectored && (base..base + 4 * 64).contains(&pc))
    }

    /// Where RISC-V traps lead, and whether interrupts lead four bytes further per cause.
    pub(crate) fn trap_vector(&mut self) -> (u64, bool) {
        let name = if self.supervisor() { "stvec" } else { "mtvec" };
        let vector = self.register(name);
        (vector & !3, vector & 1 == 1)
    }

    /// Whether a Cortex-M's exception of that number leads to `pc`.
    pub(crate) fn is_vector(&mut self, exception: u64, pc: u64) -> bool {
        let table = self.vector_table();
        self.memory_word(table + 4 * exception, 4).is_some_and(|vector| vector & !1 == pc)
    }

    /// Address of a Cortex-M's vector table.
    pub(crate) fn vector_table(&mut self) -> u64 {
        // VTOR is a register of the core; reading it has no effect (Armv7-M ARM B3.2.5).
        self.registers.as_mut().and_then(|registers| registers.read_memory_word(VTOR, 4)).unwrap_or(0)
    }

    pub(crate) fn supervisor(&mut self) -> bool {
        self.register("priv") == 1
    }

    /// Reads what the exception whose first block just started has saved.
    fn interrupted_code(&mut self) -> Option<Interrupted> {
        self.interrupted_transfers += 1;
        self.records.control.set(Word::Interrupted, self.interrupted_transfers);
        if self.args.isa.is_riscv() {
            let name = if self.supervisor() { "sepc" } else { "mepc" };
            let pc = self.register(name);
            return Some(Interrupted { pc, return_addr: self.register("ra") });
        }
        // Armv7-M ARM B1.5.6: EXC_RETURN bit 2 says on which stack the frame is.
        let exc_return = self.register("lr");
        if !is_exc_return(exc_return) {
            return None;
        }
        let frame = self.register(if exc_return & 4 != 0 { "psp" } else { "msp" });
        let Context { pc, return_addr, .. } = self.hardware_frame(frame, exc_return)?;
        Some(Interrupted { pc, return_addr })
    }
}

/// Most arcs that are told apart by their return address: far more than a firmware's code can have.
const MAX_ARCS: usize = 1 << 20;

const VTOR: u64 = 0xe000_ed08;
