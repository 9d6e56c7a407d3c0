// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles of Cortex-M0, M0+, M3 and M4 with memory that answers in one cycle.
//!
//! No RTL of these is public, so an instruction has an interval ([`Cycles`]): without width where a manual or boards tell the
//! number, and as wide as both leave it elsewhere. M3 and M4 are stepped: their prefetch is a queue of words
//! ([`crate::prefetch`]), and an access goes on behind its instruction.
//!
//! Sources: Cortex-M0 TRM, DDI 0432C, table 3-1; Cortex-M0+ TRM, DDI 0484C, table 3-1; Cortex-M3 TRM, DDI 0337I, table 3-1
//! and 3.3.2; Cortex-M4 TRM, DDI 0439D, tables 3-1 and 7-1 and 3.3.3; and "the notes", measured on STM32F103 and STM32F407:
//! github.com/jnk0le/random at 3dfc2ab, cortex_m3m4.md. Where these leave a choice, boards' cycles of assembly routines decided.

use crate::cycles::Cycles;
use crate::prefetch::Prefetch;
use crate::thumb::{Class, Insn, Set};

/// Processor core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Core {
    /// Cortex-M0, whose multiplier takes one cycle or 32.
    M0 {
        /// Whether it takes one.
        multiplies_fast: bool,
    },
    /// Cortex-M0+, likewise.
    M0Plus {
        /// Whether the multiplier takes one cycle.
        multiplies_fast: bool,
    },
    /// Cortex-M3.
    M3,
    /// Cortex-M4, with or without an FPU.
    M4,
}

/// Access whose data is still on its way when its instruction has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pending {
    Nothing,
    Load,
    Store,
    /// A store whose offset is a register's value.
    IndexedStore,
}

/// Way by which control has come to an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Arrival {
    /// From the instruction before it.
    Straight,
    /// By a jump through a register.
    Register,
    /// By another jump.
    Jump,
}

/// Everything that an instruction's cycles depend on, other than the instruction and its operands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Instructions from here on that are conditional.
    conditional: u8,
    /// Whether the last instruction had two bytes.
    was_narrow: bool,
    /// Whether the last instruction was conditional, and perhaps did not execute.
    was_conditional: bool,
    /// Way by which control has come to the next instruction.
    arrival: Arrival,
    pending: Pending,
    /// Whether one of the loads that follow each other up to here does not load from the stack.
    loads_elsewhere: bool,
    /// Registers that the last instruction has computed.
    computed: Set,
    /// Registers that it loads.
    loaded: Set,
    /// Registers of floating point that it has computed.
    float_computed: Set,
    /// Cycles for which a division in floating point goes on.
    dividing: u8,
    /// Cycles for which the last instruction still holds the decoder.
    holds: u8,
    /// Words fetched; None: the manual has the cycles of branches.
    prefetch: Option<Prefetch>,
}

/// Cycles of `vdiv` and `vsqrt` beyond the first, in which instructions that need no floating point go on (table 7-1).
const DIVIDES: u8 = 13;

/// Set of the stack pointer.
const SP: Set = 1 << 13;

impl State {
    /// A core that starts at an address.
    pub fn at_reset(core: Core, pc: u64) -> State {
        State {
            conditional: 0,
            was_narrow: false,
            was_conditional: false,
            arrival: Arrival::Jump,
            pending: Pending::Nothing,
            loads_elsewhere: false,
            computed: 0,
            loaded: 0,
            float_computed: 0,
            dividing: 0,
            holds: 0,
            prefetch: matches!(core, Core::M3 | Core::M4).then(|| Prefetch::at(pc)),
        }
    }

    /// Waits until an instruction, which comes next, can execute. Returns the cycles, which belong to the instruction before it:
    /// a load has the cycle in which nothing else can go on, and a jump those until its target executes.
    pub fn wait(&mut self, core: Core, pc: u64, insn: &Insn) -> Cycles {
        let stall = self.stall(core, pc, insn);
        let arrival = std::mem::replace(&mut self.arrival, Arrival::Straight);
        let Some(prefetch) = &mut self.prefetch else { return Cycles::default() };
        (0..std::mem::take(&mut self.holds)).for_each(|_| prefetch.hold());
        (0..stall.nominal).for_each(|_| prefetch.pass());
        let starved = prefetch.decode(insn.halves(), matches!(insn.class, Class::Branch | Class::Jump));
        self.dividing = self.dividing.saturating_sub((stall.nominal + starved) as u8);
        let least = match arrival {
            Arrival::Straight => 0,
            // On boards with an M3, perhaps not more for a target in two words either.
            Arrival::Register => starved.min(1),
            Arrival::Jump => starved,
        };
        stall + Cycles { least, ..Cycles::exact(starved) }
    }

    /// Executes an instruction for which [`State::wait`] has waited, after which control goes to `next`. Returns its cycles.
    pub fn execute(&mut self, core: Core, pc: u64, insn: &Insn, next: u64) -> Cycles {
        let behind = pc.wrapping_add(u64::from(insn.len_bytes)) & 0xffff_ffff;
        let is_elsewhere = next != behind;
        let is_taken = is_elsewhere && insn.may_jump();
        let mut cycles = match &mut self.prefetch {
            Some(prefetch) => {
                let mut cycles = own(core, insn, self.was_narrow);
                self.holds = cycles.nominal.saturating_sub(1) as u8;
                if is_taken {
                    cycles += way(core, insn);
                    *prefetch = Prefetch::at(next);
                    self.holds = 0;
                    self.arrival = match insn.class {
                        Class::JumpRegister => Arrival::Register,
                        _ => Arrival::Jump,
                    };
                }
                cycles
            }
            None => small(core, insn, is_taken),
        };
        self.dividing = self.dividing.saturating_sub(cycles.nominal as u8);
        self.remember(insn);
        if self.was_conditional {
            cycles.least = cycles.least.min(1);
        }
        match is_elsewhere && (!is_taken || insn.class == Class::Call) {
            true => cycles + self.interrupted(core, next),
            false => cycles,
        }
    }

    /// Enters an exception's handler before the next instruction has begun. Returns the cycles, until the handler's first
    /// instruction is waited for: fewest if another handler has just ended.
    pub fn interrupted(&mut self, core: Core, handler: u64) -> Cycles {
        *self = State::at_reset(core, handler);
        match core {
            Core::M0 { .. } => Cycles::between(6, 16, 16),
            Core::M0Plus { .. } => Cycles::between(6, 15, 15),
            // With the first word's way, 12 in all, and 6 behind another handler.
            Core::M3 => Cycles::between(5, 11, 11),
            // 17 registers of floating point, if they are not stored lazily.
            Core::M4 => Cycles::between(5, 11, 28),
        }
    }

    /// Enters a handler from another one. One that follows another takes six cycles, in which it returns nothing; what the other way
    /// takes is the entry and the later return to the handler that is preempted, which looks like any return of a function. What
    /// leads there by a register is most likely a return, or a call if it links, which takes nothing more.
    pub fn nested(&mut self, core: Core, handler: u64, last: Option<&Insn>) -> Cycles {
        let back = self.returned(core, handler);
        let entry = self.interrupted(core, handler);
        let both = Cycles { least: entry.least, ..entry + back };
        match last {
            Some(last) if last.links() => Cycles { least: 0, nominal: 0, ..both },
            Some(last) if last.class == Class::JumpRegister || last.sets_pc() => {
                Cycles { nominal: entry.least, ..both }
            }
            _ => both,
        }
    }

    /// Returns from the outermost exception, by an instruction that has executed. Returns the cycles, until the first instruction
    /// there is waited for. No manual has them; eight registers are loaded, and on M4 perhaps 17 more.
    pub fn returned(&mut self, core: Core, to: u64) -> Cycles {
        *self = State::at_reset(core, to);
        match core {
            Core::M0 { .. } | Core::M0Plus { .. } => Cycles::between(8, 12, 16),
            Core::M3 => Cycles::between(7, 9, 11),
            Core::M4 => Cycles::between(7, 9, 28),
        }
    }

    /// Notes what the next instruction may wait for.
    fn remember(&mut self, insn: &Insn) {
        self.was_conditional = self.conditional > 0;
        self.conditional = match insn.class {
            Class::It => insn.count,
            _ => self.conditional.saturating_sub(1),
        };
        self.was_narrow = insn.len_bytes == 2;
        let follows = self.pending == Pending::Load;
        self.pending = match insn.class {
            Class::Load if !insn.sets_pc() => Pending::Load,
            Class::Store if insn.has_index => Pending::IndexedStore,
            Class::Store => Pending::Store,
            _ => Pending::Nothing,
        };
        self.loads_elsewhere = insn.is_load() && (insn.address != SP || (follows && self.loads_elsewhere));
        (self.computed, self.loaded) = if insn.is_load() { (0, insn.writes) } else { (insn.writes, 0) };
        if matches!(insn.class, Class::Load | Class::Store) {
            self.computed |= insn.base;
        }
        self.float_computed = match insn.class {
            Class::Float | Class::FloatMultiplyAdd | Class::FloatDivide => insn.float_writes,
            _ => 0,
        };
        if insn.class == Class::FloatDivide {
            self.dividing = DIVIDES;
        }
    }

    /// Cycles for which an instruction waits for the one before it.
    fn stall(&self, core: Core, pc: u64, insn: &Insn) -> Cycles {
        let mut cycles = match self.pending {
            Pending::Load if self.follows_load(core, insn) => {
                // The notes: a load of four bytes in two words does not always follow. A store does not by the manuals and on boards
                // with an M4, and does by the notes and on boards with an M3.
                let is_late = insn.is_store() || (insn.len_bytes == 4 && pc & 2 != 0);
                Cycles::between(0, u64::from(insn.is_store() && core == Core::M4), is_late.into())
            }
            Pending::Load => {
                // The notes: an address is needed a cycle earlier than another value.
                let early = u64::from(insn.address & self.loaded != 0);
                Cycles::between(1, 1, 1 + early + u64::from(self.loads_elsewhere))
            }
            Pending::Nothing => Cycles::between(0, 0, u64::from(self.loads_elsewhere)),
            Pending::Store => Cycles::between(0, u64::from(insn.is_load()), u64::from(insn.is_load())),
            Pending::IndexedStore => Cycles::exact(u64::from(insn.class != Class::Nop)),
        };
        if self.was_conditional {
            cycles.least = 0;
        }
        // 3.3.2, 3.3.3: what an instruction has computed is not yet there for the next one's address. Table 7-1: nor for
        // floating point.
        let needs = insn.address & self.computed != 0 || insn.float_reads & self.float_computed != 0;
        let uses_float = insn.float_reads | insn.float_writes != 0;
        let divides = if uses_float { self.dividing.into() } else { 0 };
        cycles.at_least(divides.max(needs.into()))
    }

    /// Whether an instruction goes on while the one before it loads (3.3.2, 3.3.3).
    fn follows_load(&self, core: Core, insn: &Insn) -> bool {
        if insn.address & self.loaded != 0 {
            return false;
        }
        match insn.class {
            Class::Nop => true,
            // The notes: on M3, only the first of several loads may write its base back.
            Class::Load => core == Core::M4 || insn.base == 0,
            Class::Store => !insn.has_index,
            _ => false,
        }
    }
}

/// Cycles of an instruction of M3 or M4 itself, until another executes if it need not wait (table 3-1 of each).
fn own(core: Core, insn: &Insn, was_narrow: bool) -> Cycles {
    use Class::*;
    let count = u64::from(insn.count);
    match insn.class {
        // It goes with an instruction of two bytes before it, if both are there.
        It => Cycles::between(0, u64::from(!was_narrow), 1),
        MultiplyAdd if core == Core::M3 => Cycles::exact(2),
        MultiplyAdd => Cycles::between(1, 1, 2),
        // Fewer with small operands.
        MultiplyLong if core == Core::M3 => Cycles::between(3, 4, 5),
        MultiplyLongAdd if core == Core::M3 => Cycles::between(4, 6, 7),
        Divide => Cycles::between(2, 6, 12),
        Load if insn.sets_pc() => Cycles::exact(2),
        LoadPair | LoadMultiple | StorePair | StoreMultiple => Cycles::exact(1 + count),
        Table => Cycles::exact(3),
        System => Cycles::between(1, 2, 2),
        Barrier => Cycles::between(1, 1, 4),
        BarrierInsn => Cycles::between(2, 4, 5),
        Wait => Cycles::between(1, 2, 4),
        FloatMovePair => Cycles::exact(2),
        FloatMultiplyAdd => Cycles::exact(3),
        _ => Cycles::exact(1),
    }
}

/// Cycles until the address of an instruction's target goes out, beyond those of a branch whose target is known while it is
/// decoded.
fn way(core: Core, insn: &Insn) -> Cycles {
    match insn.class {
        Class::Branch | Class::Jump => Cycles::between(0, 0, 1),
        // Routines with many calls took fewer on boards with an M3 than on those with an M4.
        Class::JumpRegister => Cycles::between(0, u64::from(core == Core::M4), 1),
        // 3.3.2: an address, and three cycles.
        Class::Table => Cycles::exact(2),
        // On boards, calls of functions that return by `pop` took no longer than this.
        _ => Cycles::between(0, 0, 2),
    }
}

/// Cycles of an instruction of M0 or M0+ (table 3-1 of each).
fn small(core: Core, insn: &Insn, is_taken: bool) -> Cycles {
    use Class::*;
    let (refill, fast) = match core {
        Core::M0Plus { multiplies_fast } => (1, multiplies_fast),
        Core::M0 { multiplies_fast } => (2, multiplies_fast),
        Core::M3 | Core::M4 => (2, true),
    };
    let count = u64::from(insn.count);
    Cycles::exact(match insn.class {
        Multiply if !fast => 32,
        // One at a port of the core's own.
        Load | Store if matches!(core, Core::M0Plus { .. }) && !insn.is_literal() && insn.address != SP => {
            return Cycles::between(1, 2, 2);
        }
        Load | Store => 2,
        LoadMultiple if insn.sets_pc() => 2 + count + refill,
        LoadMultiple | StoreMultiple => 1 + count,
        Branch if !is_taken => 1,
        Jump if insn.len_bytes == 4 => 2 + refill,
        Branch | Jump | JumpRegister => 1 + refill,
        System if insn.len_bytes == 4 => 2 + refill,
        Barrier | BarrierInsn => 2 + refill,
        Wait => 2,
        _ => 1,
    })
}
