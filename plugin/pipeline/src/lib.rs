// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles of a processor core with one short pipeline, in order: what each instruction takes, given what came before it.
//!
//! A core is data ([`wire::core::Core`]): cycles by class of instruction, what a taken branch and a result that is not there
//! yet cost, and, if the core has one, a queue of fetched words with a predictor, which is stepped cycle by cycle
//! ([`fetch::Fetch`]). What a core does is decided by a [`State`] of a few words. So the same block in the same state always
//! takes the same cycles, and whoever executes blocks can remember them.
//!
//! Cortex-M0 to M4 are [`cortex`]'s, with instructions of their own ([`thumb::Insn`]) and cycles as an interval ([`Cycles`]),
//! since no RTL of them is public. [`cortex::State`] is used as [`State`] is: `wait` for the first instruction, then for each
//! `execute` with the address of the next and `wait` for the next, whose sum is the instruction's. It is hashed and compared by
//! what it holds, so a passage can be remembered with three sums. No operand is read: where operands decide, the interval has
//! all that they can do. Conditional instructions need no help either, as the state counts them from `it` on. An exception
//! shows by control that goes elsewhere from an instruction that does not jump, or by [`cortex::State::interrupted`] between
//! two; whoever knows handlers tells the way back from them ([`cortex::State::returned`]) and from one to another
//! ([`cortex::State::nested`]). [`model`] is the one door to both kinds of core.
//!
//! Memory answers in one cycle. Wait states, caches and a bus that several share are outside.
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

pub mod cortex;
mod cycles;
pub mod fetch;
mod float;
mod insn;
pub mod model;
mod prefetch;
pub mod thumb;

pub use cycles::Cycles;
pub use insn::{Class, Insn};

use fetch::Fetch;
use wire::core::Core;

/// Everything that an instruction's cycles depend on, other than the instruction and its operands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Register whose value the last instruction loads; 0: none.
    loaded: u8,
    /// Whether it made or used a reservation.
    reserves: bool,
    /// Whether it waited for an interrupt.
    wakes: bool,
    /// Whether control has come to the next instruction by a jump, or otherwise than from the instruction before it.
    has_jumped: bool,
    /// Words fetched; None: the core's description has the cycles of jumps.
    fetch: Option<Fetch>,
}

impl State {
    /// A core that starts at an address.
    pub fn at_reset(core: &Core, pc: u64) -> State {
        let fetch = core.queue.as_ref().map(|queue| Fetch::at(queue, pc));
        State { loaded: 0, reserves: false, wakes: false, has_jumped: true, fetch }
    }

    /// Waits until an instruction, which comes next, has been fetched. Returns the cycles, which belong to the instruction
    /// before it: a jump takes until its target can start.
    pub fn wait(&mut self, core: &Core, pc: u64, insn: &Insn) -> u64 {
        let has_jumped = std::mem::take(&mut self.has_jumped);
        match &mut self.fetch {
            Some(fetch) => {
                let starved = fetch.fill(insn.halves());
                if starved > 0 {
                    (self.loaded, self.reserves, self.wakes) = (0, false, false);
                }
                starved
            }
            None if has_jumped && insn.len_bytes == 4 && pc & 2 != 0 => core.unaligned_target,
            None => 0,
        }
    }

    /// Executes an instruction for which [`State::wait`] has waited, after which control goes to `next`. Returns its cycles,
    /// without those that its operands decide ([`beyond`]).
    pub fn execute(&mut self, core: &Core, pc: u64, insn: &Insn, next: u64) -> u64 {
        let behind = pc.wrapping_add(u64::from(insn.len_bytes)) & 0xffff_ffff;
        let is_taken = match insn.class {
            Class::Jump | Class::JumpRegister | Class::Return | Class::FenceCode => true,
            Class::PopReturn | Class::PopReturnZero => true,
            Class::Branch | Class::Call => next != behind,
            _ => false,
        };
        let may_go_on = next == behind || is_taken;
        let mut cycles = 0;
        let pops_only_ra = insn.class == Class::PopReturn && insn.count == 1;
        if self.waits_for_last(core, insn) || pops_only_ra {
            cycles += core.load_use;
            (0..core.load_use).for_each(|_| self.idle());
        }
        let usual = (core.cycles_of(insn.class).unwrap_or(1) + u64::from(insn.count)).max(1);
        (1..usual).for_each(|_| self.idle());
        cycles += usual;
        let redirects = self.fetch.as_ref().map_or(is_taken, |fetch| fetch.redirects(insn, is_taken));
        if std::mem::replace(&mut self.wakes, insn.class == Class::Wait) && !redirects && insn.class != Class::Divide
        {
            cycles += core.wakes;
            (0..core.wakes).for_each(|_| self.idle());
        }
        self.reserves = matches!(insn.class, Class::LoadReserved | Class::StoreConditional);
        self.loaded = if self.reserves || insn.class == Class::Load { insn.rd } else { 0 };
        if !may_go_on {
            return cycles + self.interrupt(core, insn.halves(), next);
        }
        match &mut self.fetch {
            Some(fetch) => {
                cycles += fetch.execute(pc, insn, is_taken.then_some(next));
                if is_taken && matches!(insn.class, Class::Return | Class::Call | Class::FenceCode) {
                    fetch.forget();
                }
            }
            None if is_taken => {
                self.has_jumped = true;
                if insn.class == Class::Branch {
                    cycles += core.taken;
                }
            }
            None => {}
        }
        cycles
    }

    /// Enters an interrupt's handler before the next instruction has begun. Returns the cycles, until the handler's first
    /// instruction is waited for.
    pub fn interrupted(&mut self, core: &Core, handler: u64) -> u64 {
        self.interrupt(core, 0, handler)
    }

    /// Enters an exception's handler behind an instruction of so many half-words. Returns the cycles, until the handler's first
    /// instruction is waited for: those of a call for an exception behind its first.
    fn interrupt(&mut self, core: &Core, halves: usize, next: u64) -> u64 {
        (self.has_jumped, self.reserves, self.wakes, self.loaded) = (true, false, false, 0);
        let cycles = core.cycles_of(Class::Call).unwrap_or(1).max(1) - 1;
        if let Some(fetch) = &mut self.fetch {
            fetch.cycle(halves, None);
            (1..cycles).for_each(|_| fetch.cycle(0, None));
            fetch.cycle(0, Some(next));
            fetch.forget();
        }
        cycles
    }

    /// Whether an instruction waits for the one before it: for the value that it loads, or for its reservation.
    fn waits_for_last(&self, core: &Core, insn: &Insn) -> bool {
        let is_csr = matches!(insn.class, Class::Csr | Class::CsrStatus);
        let [first, second] = if is_csr && core.csr_waits { insn.fields } else { insn.sources };
        let is_store = insn.class == Class::Store && !core.stores_wait;
        let is_exclusive = matches!(insn.class, Class::Atomic | Class::LoadReserved | Class::StoreConditional);
        let needs = self.loaded != 0 && (self.loaded == first || (self.loaded == second && !is_store));
        needs || (self.reserves && is_exclusive)
    }

    /// One cycle in which no instruction leaves.
    fn idle(&mut self) {
        if let Some(fetch) = &mut self.fetch {
            fetch.cycle(0, None);
        }
    }
}

/// Cycles more of a division with these operands than usual (fewer, if negative). They are so many in either case that the
/// words fetched meanwhile are the same.
pub fn beyond(core: &Core, insn: &Insn, [dividend, divisor]: [u32; 2]) -> i64 {
    match insn.class {
        Class::Divide if divisor == 0 && core.by_zero != 0 => -(core.by_zero as i64),
        Class::Divide if insn.is_signed && (dividend as i32) < 0 => core.negative_dividend as i64,
        _ => 0,
    }
}

/// Whether the operands of an instruction decide on its cycles.
pub fn is_data_dependent(core: &Core, insn: &Insn) -> bool {
    insn.class == Class::Divide && (core.by_zero != 0 || (core.negative_dividend != 0 && insn.is_signed))
}

/// Whether a core's description has the cycles of an instruction.
pub fn is_known(core: &Core, insn: &Insn) -> bool {
    core.cycles_of(insn.class).is_some() && (core.is_compressed || insn.len_bytes == 4)
}
