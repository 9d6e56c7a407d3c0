// SPDX-License-Identifier: MIT OR Apache-2.0
//! Description of a processor core, by which its cycles are counted: cycles by class of instruction, and what the order of
//! instructions adds to them.

use crate::record::record;

record! {
    /// Class of instructions that are the same work for a core.
    #[derive(Copy, Hash)]
    pub enum Class {
        /// Computes on registers, in one step.
        0 = Alu,
        /// Shifts.
        1 = Shift,
        /// Multiplies, lower half.
        2 = Multiply,
        /// Multiplies, upper half.
        3 = MultiplyHigh,
        /// Divides.
        4 = Divide,
        /// Loads.
        5 = Load,
        /// Stores.
        6 = Store,
        /// Branches on a condition.
        7 = Branch,
        /// Jumps to an address that the code names.
        8 = Jump,
        /// Jumps through a register.
        9 = JumpRegister,
        /// Accesses a control register.
        10 = Csr,
        /// Orders accesses of memory.
        11 = Fence,
        /// Makes stores to code visible to the fetch.
        12 = FenceCode,
        /// Reads, changes and writes memory at once.
        13 = Atomic,
        /// Loads, and reserves what it has loaded.
        14 = LoadReserved,
        /// Stores, if the reservation still holds.
        15 = StoreConditional,
        /// Returns from an exception.
        16 = Return,
        /// Waits for an interrupt.
        17 = Wait,
        /// Calls for an exception.
        18 = Call,
        /// Writes a control register that decides on interrupts, or sets bits of it.
        19 = CsrStatus,
        /// Stores several registers and moves the stack pointer.
        20 = Push,
        /// Loads several registers and moves the stack pointer.
        21 = Pop,
        /// The same, and returns.
        22 = PopReturn,
        /// The same, and returns 0.
        23 = PopReturnZero,
        /// Moves two registers.
        24 = MovePair,
        /// Something else.
        25 = Unknown,
    }
}

record! {
    /// Cortex-M whose pipeline is known.
    #[derive(Copy, Hash)]
    pub enum Cortex {
        /// Cortex-M0 whose multiplier takes one cycle.
        0 = M0,
        /// Cortex-M0 whose multiplier takes 32.
        1 = SmallM0,
        /// Cortex-M0+ whose multiplier takes one cycle.
        2 = M0Plus,
        /// Cortex-M0+ whose multiplier takes 32.
        3 = SmallM0Plus,
        /// Cortex-M3.
        4 = M3,
        /// Cortex-M4, with or without an FPU.
        5 = M4,
    }
}

record! {
    /// Processor core.
    #[derive(Default)]
    pub struct Core {
        /// Cortex-M that it is; all else is nothing then.
        cortex: Option<Cortex>,
        /// Cycles of the classes, in the order of [`Class`]; None: the core has no such instructions, or their cycles are not
        /// known. Without a queue, those of jumps include the way to their target. Those of several registers have one for each
        /// register more.
        cycles: Vec<Option<u64>>,
        /// Whether it has instructions of two bytes.
        is_compressed: bool,
        /// Cycles more of a branch that is taken; 0 with a queue, which tells them.
        taken: u64,
        /// Cycles more of a jump to an instruction of four bytes that is not at a multiple of four; 0 with a queue.
        unaligned_target: u64,
        /// Cycles for which an instruction waits for what the one before it loads.
        load_use: u64,
        /// Whether a store waits for the value that it stores, too.
        stores_wait: bool,
        /// Whether an access of a control register waits for what its fields of registers name, also where it reads none.
        csr_waits: bool,
        /// Cycles for which the instruction behind a wait for an interrupt waits, unless it jumps or divides.
        wakes: u64,
        /// Cycles more of a division of signed numbers, if the dividend is negative.
        negative_dividend: u64,
        /// Cycles less of a division by zero.
        by_zero: u64,
        /// Queue of fetched words, if its state decides on cycles.
        queue: Option<Queue>,
    }
}

record! {
    /// Queue of fetched words.
    #[derive(Copy)]
    pub struct Queue {
        /// Words that it holds.
        words: u32,
        /// Whether the last branch that was taken backwards is predicted to be taken again.
        has_predictor: bool,
    }
}

/// Number of classes.
pub const CLASSES: usize = 26;

/// Most words of a queue.
pub const MAX_WORDS: u32 = 4;

/// Most cycles of an instruction in a description.
pub const MAX_CYCLES: u64 = 200;

impl Class {
    /// Whether control may go elsewhere behind such an instruction than to the next.
    pub fn may_jump(self) -> bool {
        use Class::{Branch, Call, Jump, JumpRegister, PopReturn, PopReturnZero, Return};
        matches!(self, Branch | Jump | JumpRegister | Return | Call | PopReturn | PopReturnZero)
    }

    /// Place of the class in [`Core`]'s cycles.
    pub fn index(self) -> usize {
        self.code().into()
    }
}

impl Core {
    /// Whether the numbers can be those of a core.
    pub fn is_meant(&self) -> bool {
        let others =
            [self.taken, self.unaligned_target, self.load_use, self.wakes, self.negative_dividend, self.by_zero]
                .map(Some);
        self.cycles.len() == CLASSES
            && self.cycles.iter().chain(&others).flatten().all(|&cycles| cycles <= MAX_CYCLES)
            && self.queue.is_none_or(|queue| (1..=MAX_WORDS).contains(&queue.words))
    }

    /// Cycles of a class; None: they are not known.
    pub fn cycles_of(&self, class: Class) -> Option<u64> {
        self.cycles.get(class.index()).copied().flatten()
    }
}
