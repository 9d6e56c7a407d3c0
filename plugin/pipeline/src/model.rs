// SPDX-License-Identifier: MIT OR Apache-2.0
//! Model of a described core: its instructions and its state, whichever instruction set they are of, with cycles as an interval.

use wire::core::{Core, Cortex};

use crate::cycles::Cycles;
use crate::{cortex, insn, thumb};

/// Instruction of any core.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Insn {
    /// RV32's.
    Riscv(insn::Insn),
    /// Thumb's.
    Thumb(thumb::Insn),
}

/// Everything that an instruction's cycles depend on, other than the instruction and its operands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A RISC-V core's.
    Riscv(crate::State),
    /// A Cortex-M's.
    Cortex(cortex::State),
}

impl Insn {
    /// Decodes an instruction of a core's instruction set; its bytes may go on behind it.
    pub fn decode(core: &Core, bytes: &[u8]) -> Insn {
        match core.cortex {
            Some(_) => Insn::Thumb(thumb::Insn::decode(bytes)),
            None => Insn::Riscv(insn::Insn::decode(bytes)),
        }
    }

    /// Length in bytes, 2 or 4.
    pub fn len_bytes(&self) -> u8 {
        match self {
            Insn::Riscv(insn) => insn.len_bytes,
            Insn::Thumb(insn) => insn.len_bytes,
        }
    }

    /// Whether control may go elsewhere behind it than to the next instruction.
    pub fn may_jump(&self) -> bool {
        match self {
            Insn::Riscv(insn) => insn.class.may_jump(),
            Insn::Thumb(insn) => insn.may_jump(),
        }
    }

    /// Whether a core's description has its cycles.
    pub fn is_known(&self, core: &Core) -> bool {
        match self {
            Insn::Riscv(insn) => crate::is_known(core, insn),
            Insn::Thumb(insn) => core.cortex.is_some_and(|cortex| insn.is_of(cortex.into())),
        }
    }

    /// Registers of a division whose operands decide on its cycles; None: it is none, or they are not read.
    pub fn deciding(&self, core: &Core) -> Option<[u8; 2]> {
        match self {
            Insn::Riscv(insn) => crate::is_data_dependent(core, insn).then_some(insn.sources),
            Insn::Thumb(_) => None,
        }
    }

    /// Cycles more than usual of such an instruction with these operands (fewer, if negative).
    pub fn beyond(&self, core: &Core, operands: [u32; 2]) -> i64 {
        match self {
            Insn::Riscv(insn) => crate::beyond(core, insn, operands),
            Insn::Thumb(_) => 0,
        }
    }
}

impl State {
    /// A core that starts at an address.
    pub fn at_reset(core: &Core, pc: u64) -> State {
        match core.cortex {
            Some(cortex) => State::Cortex(cortex::State::at_reset(cortex.into(), pc)),
            None => State::Riscv(crate::State::at_reset(core, pc)),
        }
    }

    /// Waits until an instruction, which comes next, can execute. Returns the cycles, which belong to the instruction before it.
    pub fn wait(&mut self, core: &Core, pc: u64, insn: &Insn) -> Cycles {
        match (self, insn, core.cortex) {
            (State::Riscv(state), Insn::Riscv(insn), None) => Cycles::exact(state.wait(core, pc, insn)),
            (State::Cortex(state), Insn::Thumb(insn), Some(cortex)) => state.wait(cortex.into(), pc, insn),
            _ => Cycles::default(),
        }
    }

    /// Executes an instruction for which [`State::wait`] has waited, after which control goes to `next`. Returns its cycles,
    /// without those that its operands decide ([`Insn::beyond`]).
    pub fn execute(&mut self, core: &Core, pc: u64, insn: &Insn, next: u64) -> Cycles {
        match (self, insn, core.cortex) {
            (State::Riscv(state), Insn::Riscv(insn), None) => Cycles::exact(state.execute(core, pc, insn, next)),
            (State::Cortex(state), Insn::Thumb(insn), Some(cortex)) => state.execute(cortex.into(), pc, insn, next),
            _ => Cycles::default(),
        }
    }

    /// Enters an interrupt's handler before the next instruction has begun. Returns the cycles, until the handler's first
    /// instruction is waited for.
    pub fn interrupted(&mut self, core: &Core, handler: u64) -> Cycles {
        match (self, core.cortex) {
            (State::Cortex(state), Some(cortex)) => state.interrupted(cortex.into(), handler),
            (State::Riscv(state), _) => Cycles::exact(state.interrupted(core, handler)),
            _ => Cycles::default(),
        }
    }

    /// Enters a handler from another one behind its last instruction (None: before its first), which has either just ended or is
    /// preempted. Returns the cycles, and those of the later return to a preempted one, until the handler's first instruction is
    /// waited for.
    pub fn nested(&mut self, core: &Core, handler: u64, last: Option<&Insn>) -> Cycles {
        match (self, core.cortex) {
            (State::Cortex(state), Some(cortex)) => {
                let last = match last {
                    Some(Insn::Thumb(insn)) => Some(insn),
                    _ => None,
                };
                state.nested(cortex.into(), handler, last)
            }
            (state, _) => state.interrupted(core, handler),
        }
    }

    /// Returns from the outermost exception, whose last instruction has executed. Returns the cycles, until the first instruction of
    /// what was interrupted is waited for.
    pub fn returned(&mut self, core: &Core, to: u64) -> Cycles {
        match (self, core.cortex) {
            (State::Cortex(state), Some(cortex)) => state.returned(cortex.into(), to),
            _ => Cycles::default(),
        }
    }
}

impl From<Cortex> for cortex::Core {
    fn from(cortex: Cortex) -> cortex::Core {
        match cortex {
            Cortex::M0 => cortex::Core::M0 { multiplies_fast: true },
            Cortex::SmallM0 => cortex::Core::M0 { multiplies_fast: false },
            Cortex::M0Plus => cortex::Core::M0Plus { multiplies_fast: true },
            Cortex::SmallM0Plus => cortex::Core::M0Plus { multiplies_fast: false },
            Cortex::M3 => cortex::Core::M3,
            Cortex::M4 => cortex::Core::M4,
        }
    }
}
