// SPDX-License-Identifier: MIT OR Apache-2.0
//! Thumb instructions as the pipeline of a Cortex-M0 to M4 sees them: the work that they are, and the registers of which an
//! address is made, that they read, and that they write.
//!
//! Sections are those of the Armv7-M Architecture Reference Manual, DDI 0403E.

use crate::cortex::Core;
use crate::float;

/// Work that an instruction is for the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Computes on registers in one step.
    Alu,
    /// Does nothing.
    Nop,
    /// Makes instructions behind it conditional.
    It,
    /// `mul`.
    Multiply,
    /// `mla` and `mls`.
    MultiplyAdd,
    /// `umull` and `smull`.
    MultiplyLong,
    /// `umlal` and `smlal`.
    MultiplyLongAdd,
    /// Multiplications of Armv7E-M: of half-words, of both halves, upper halves, `umaal`.
    MultiplyDsp,
    /// `udiv` and `sdiv`.
    Divide,
    /// Loads a register.
    Load,
    /// `ldrd`.
    LoadPair,
    /// `ldm` and `pop`.
    LoadMultiple,
    /// Stores a register.
    Store,
    /// `strd`.
    StorePair,
    /// `stm` and `push`.
    StoreMultiple,
    /// Branches on a condition.
    Branch,
    /// Branches always, to an address that the code names.
    Jump,
    /// Jumps to an address in a register.
    JumpRegister,
    /// `tbb` and `tbh`.
    Table,
    /// `cps`, `mrs` and `msr`.
    System,
    /// `dmb` and `dsb`.
    Barrier,
    /// `isb`.
    BarrierInsn,
    /// `wfi` and `wfe`.
    Wait,
    /// `svc`, `bkpt` and `udf`.
    Call,
    /// Floating point, in one step.
    Float,
    /// Moves between a register and one of floating point.
    FloatMove,
    /// Moves two registers to or from floating point.
    FloatMovePair,
    /// Multiplies and adds in floating point.
    FloatMultiplyAdd,
    /// `vdiv` and `vsqrt`.
    FloatDivide,
    /// Something else.
    Unknown,
}

/// Instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Insn {
    /// Work that it is for the core.
    pub class: Class,
    /// Length in bytes, 2 or 4.
    pub len_bytes: u8,
    /// Words that it loads or stores; instructions that it makes conditional.
    pub count: u8,
    /// General registers that make the address of an access.
    pub address: Set,
    /// Other general registers that it reads.
    pub reads: Set,
    /// General registers that it writes, but not [`Insn::base`].
    pub writes: Set,
    /// Base register that an access writes back.
    pub base: Set,
    /// Registers of floating point that it reads.
    pub float_reads: Set,
    /// Registers of floating point that it writes.
    pub float_writes: Set,
    /// Whether the offset of an access is a register's value.
    pub has_index: bool,
}

/// Set of registers: a bit for each.
pub type Set = u32;

/// Number of the program counter.
const PC: u32 = 15;
const LR: u32 = 14;
const SP: u32 = 13;

const fn bits(insn: u32, high: u32, low: u32) -> u32 {
    insn << (31 - high) >> (31 - high + low)
}

/// Set of one register.
const fn one(number: u32) -> Set {
    1 << number
}

impl Insn {
    /// Decodes an instruction; its bytes may go on behind it.
    pub fn decode(bytes: &[u8]) -> Insn {
        let half = |at: usize| bytes.get(at..at + 2).map(|half| u32::from(u16::from_le_bytes([half[0], half[1]])));
        match (half(0), half(2)) {
            (Some(first), _) if first < 0xe800 => narrow(first),
            (Some(first), Some(second)) => wide(first, second),
            _ => Insn::new(Class::Unknown, 2),
        }
    }

    pub(crate) const fn new(class: Class, len_bytes: u8) -> Insn {
        Insn {
            class,
            len_bytes,
            count: 0,
            address: 0,
            reads: 0,
            writes: 0,
            base: 0,
            float_reads: 0,
            float_writes: 0,
            has_index: false,
        }
    }

    /// Half-words of its code.
    pub const fn halves(&self) -> usize {
        self.len_bytes as usize / 2
    }

    /// Whether it is one of loads.
    pub const fn is_load(&self) -> bool {
        matches!(self.class, Class::Load | Class::LoadPair | Class::LoadMultiple | Class::Table)
    }

    /// Whether it is one of stores.
    pub const fn is_store(&self) -> bool {
        matches!(self.class, Class::Store | Class::StorePair | Class::StoreMultiple)
    }

    /// Whether it sets the program counter to a value that it reads or computes.
    pub const fn sets_pc(&self) -> bool {
        self.writes & one(PC) != 0
    }

    /// Whether its address is relative to the program counter.
    pub const fn is_literal(&self) -> bool {
        self.address & one(PC) != 0
    }

    /// Whether it is a jump that keeps where it came from.
    pub const fn links(&self) -> bool {
        matches!(self.class, Class::Jump | Class::JumpRegister) && self.writes & one(LR) != 0
    }

    /// Whether a core has it, as far as its class tells.
    pub(crate) fn is_of(&self, core: Core) -> bool {
        use Class::{Float, FloatDivide, FloatMove, FloatMovePair, FloatMultiplyAdd, MultiplyDsp, Unknown};
        match self.class {
            Unknown => false,
            Float | FloatMove | FloatMovePair | FloatMultiplyAdd | FloatDivide | MultiplyDsp => core == Core::M4,
            _ => true,
        }
    }

    /// Whether control may go elsewhere behind it than to the next instruction.
    pub const fn may_jump(&self) -> bool {
        use Class::{Branch, Call, Jump, JumpRegister, Table};
        matches!(self.class, Branch | Jump | JumpRegister | Table | Call) || self.sets_pc()
    }

    fn with(self, reads: Set, writes: Set) -> Insn {
        Insn { reads, writes, ..self }
    }

    /// The same, but a jump if it writes the program counter.
    fn or_jump(self) -> Insn {
        let class = if self.sets_pc() { Class::JumpRegister } else { self.class };
        Insn { class, ..self }
    }
}

/// An access of memory of one register.
fn access(is_load: bool, len_bytes: u8, register: u32, address: Set) -> Insn {
    let insn = Insn { count: 1, address, ..Insn::new(if is_load { Class::Load } else { Class::Store }, len_bytes) };
    if is_load { insn.with(0, one(register)) } else { insn.with(one(register), 0) }
}

/// An access of memory of several registers.
fn multiple(is_load: bool, len_bytes: u8, list: Set, base: u32, writes_back: bool) -> Insn {
    let class = if is_load { Class::LoadMultiple } else { Class::StoreMultiple };
    let (reads, writes) = if is_load { (0, list) } else { (list, 0) };
    let count = list.count_ones() as u8;
    let base_set = if writes_back { one(base) } else { 0 };
    Insn { count, address: one(base), base: base_set, ..Insn::new(class, len_bytes).with(reads, writes) }
}

/// A5.2, "16-bit Thumb instruction encoding".
fn narrow(insn: u32) -> Insn {
    let (low, middle, high) = (bits(insn, 2, 0), bits(insn, 5, 3), bits(insn, 8, 6));
    let upper = bits(insn, 10, 8);
    let alu = |reads, writes| Insn::new(Class::Alu, 2).with(reads, writes);
    match insn >> 11 {
        0..=2 => alu(one(middle), one(low)),
        3 if insn & 0x400 == 0 => alu(one(middle) | one(high), one(low)),
        3 => alu(one(middle), one(low)),
        4 => alu(0, one(upper)),
        5 => alu(one(upper), 0),
        6 | 7 => alu(one(upper), one(upper)),
        8 if insn & 0x400 == 0 => data_processing(insn),
        8 => high_registers(insn),
        9 => access(true, 2, upper, one(PC)),
        10 | 11 => Insn { has_index: true, ..access(bits(insn, 11, 9) >= 3, 2, low, one(middle) | one(high)) },
        12..=17 => access(insn & 0x800 != 0, 2, low, one(middle)),
        18 | 19 => access(insn & 0x800 != 0, 2, upper, one(SP)),
        20 => alu(0, one(upper)),
        21 => alu(one(SP), one(upper)),
        22 | 23 => miscellaneous(insn),
        24 => multiple(false, 2, insn & 0xff, upper, true),
        25 => multiple(true, 2, insn & 0xff, upper, insn & one(upper) == 0),
        26 | 27 if bits(insn, 11, 8) < 14 => Insn::new(Class::Branch, 2),
        26 | 27 => Insn::new(Class::Call, 2),
        28 => Insn::new(Class::Jump, 2),
        _ => Insn::new(Class::Unknown, 2),
    }
}

/// A5.2.2, "Data processing".
fn data_processing(insn: u32) -> Insn {
    let (rd, rm) = (one(bits(insn, 2, 0)), one(bits(insn, 5, 3)));
    let class = if bits(insn, 9, 6) == 13 { Class::Multiply } else { Class::Alu };
    match bits(insn, 9, 6) {
        // tst, cmp, cmn.
        8 | 10 | 11 => Insn::new(class, 2).with(rd | rm, 0),
        // rsb, mvn.
        9 | 15 => Insn::new(class, 2).with(rm, rd),
        _ => Insn::new(class, 2).with(rd | rm, rd),
    }
}

/// A5.2.3, "Special data instructions and branch and exchange".
fn high_registers(insn: u32) -> Insn {
    let rd = one(bits(insn, 7, 7) << 3 | bits(insn, 2, 0));
    let rm = one(bits(insn, 6, 3));
    match bits(insn, 9, 8) {
        0 => Insn::new(Class::Alu, 2).with(rd | rm, rd).or_jump(),
        1 => Insn::new(Class::Alu, 2).with(rd | rm, 0),
        2 => Insn::new(Class::Alu, 2).with(rm, rd).or_jump(),
        // blx keeps where it came from.
        _ => Insn::new(Class::JumpRegister, 2).with(rm, one(PC) | bits(insn, 7, 7) << LR),
    }
}

/// A5.2.5, "Miscellaneous 16-bit instructions".
fn miscellaneous(insn: u32) -> Insn {
    let (low, middle) = (one(bits(insn, 2, 0)), one(bits(insn, 5, 3)));
    match bits(insn, 11, 8) {
        0 => Insn::new(Class::Alu, 2).with(one(SP), one(SP)),
        1 | 3 | 9 | 11 => Insn::new(Class::Branch, 2).with(low, 0),
        4 | 5 => multiple(false, 2, (insn & 0xff) | bits(insn, 8, 8) << 14, SP, true),
        12 | 13 => multiple(true, 2, (insn & 0xff) | bits(insn, 8, 8) << 15, SP, true),
        6 => Insn::new(Class::System, 2),
        14 => Insn::new(Class::Call, 2),
        15 if insn & 0xf != 0 => {
            Insn { count: 4 - bits(insn, 3, 0).trailing_zeros() as u8, ..Insn::new(Class::It, 2) }
        }
        15 => Insn::new(hint(bits(insn, 7, 4)), 2),
        // Extensions and reversals.
        2 | 10 => Insn::new(Class::Alu, 2).with(middle, low),
        _ => Insn::new(Class::Unknown, 2),
    }
}

/// A5.2.5, "If-Then, and hints", and A5.3.4.
const fn hint(number: u32) -> Class {
    match number {
        2 | 3 => Class::Wait,
        _ => Class::Nop,
    }
}

/// A5.3, "32-bit Thumb instruction encoding".
fn wide(first: u32, second: u32) -> Insn {
    match (bits(first, 12, 11), bits(first, 10, 9)) {
        (1, 0) if first & 0x40 == 0 => {
            multiple(first & 0x10 != 0, 4, second & 0xffff, first & 0xf, first & 0x20 != 0)
        }
        (1, 0) => dual_or_exclusive(first, second),
        (1, 1) => shifted_register(first, second),
        (1 | 3, 2 | 3) if bits(first, 11, 8) >= 12 && matches!(bits(second, 11, 8), 10 | 11) => {
            float::decode(first, second)
        }
        (2, _) if second & 0x8000 != 0 => branch_or_control(first, second),
        (2, _) if first & 0x200 == 0 => modified_immediate(first, second),
        (2, _) => plain_immediate(first, second),
        (3, 0) => single(first, second),
        (3, 1) => registers(first, second),
        _ => Insn::new(Class::Unknown, 4),
    }
}

/// A5.3.6, "Load/store dual or exclusive, table branch".
fn dual_or_exclusive(first: u32, second: u32) -> Insn {
    let (rn, rt, rt2) = (one(bits(first, 3, 0)), bits(second, 15, 12), bits(second, 11, 8));
    let is_load = first & 0x10 != 0;
    match (bits(first, 8, 7), bits(first, 5, 5), bits(second, 7, 4)) {
        (0, 0, _) if is_load => access(true, 4, rt, rn),
        // strex: for the pipeline a load of its result (DDI 0337I, 3.3.2).
        (0, 0, _) => Insn { reads: one(rt), ..access(true, 4, rt2, rn) },
        (1, 0, 0 | 1) if is_load => {
            let address = rn | one(bits(second, 3, 0));
            Insn { count: 1, address, has_index: true, ..Insn::new(Class::Table, 4).with(0, one(PC)) }
        }
        (1, 0, _) if is_load => access(true, 4, rt, rn),
        (1, 0, _) => Insn { reads: one(rt), ..access(true, 4, bits(second, 3, 0), rn) },
        (_, writes_back, _) => {
            let class = if is_load { Class::LoadPair } else { Class::StorePair };
            let both = one(rt) | one(rt2);
            let (reads, writes) = if is_load { (0, both) } else { (both, 0) };
            let base = if writes_back == 1 { rn } else { 0 };
            Insn { count: 2, address: rn, base, ..Insn::new(class, 4).with(reads, writes) }
        }
    }
}

/// An operation of A5.3.1 and A5.3.11, by its number: registers that it reads and writes; `value` has those of its second
/// operand.
fn operation(first: u32, rd: u32, value: Set) -> Insn {
    let (number, rn) = (bits(first, 8, 5), bits(first, 3, 0));
    // mov and mvn: orr and orn without a first operand.
    let reads = if matches!(number, 2 | 3) && rn == PC { value } else { value | one(rn) };
    // tst, teq, cmn and cmp: without a register to write.
    let writes = if rd == PC { 0 } else { one(rd) };
    Insn::new(Class::Alu, 4).with(reads, writes)
}

/// A5.3.11, "Data processing (shifted register)".
fn shifted_register(first: u32, second: u32) -> Insn {
    operation(first, bits(second, 11, 8), one(bits(second, 3, 0)))
}

/// A5.3.1, "Data processing (modified immediate)".
fn modified_immediate(first: u32, second: u32) -> Insn {
    operation(first, bits(second, 11, 8), 0)
}

/// A5.3.3, "Data processing (plain binary immediate)".
fn plain_immediate(first: u32, second: u32) -> Insn {
    let (rn, rd) = (bits(first, 3, 0), bits(second, 11, 8));
    let reads = match bits(first, 8, 4) {
        // movw; adr.
        4 => 0,
        0 | 10 if rn == PC => 0,
        // movt.
        12 => one(rd),
        // bfc, bfi.
        22 if rn == PC => one(rd),
        22 => one(rn) | one(rd),
        _ => one(rn),
    };
    Insn::new(Class::Alu, 4).with(reads, one(rd))
}

/// A5.3.4, "Branches and miscellaneous control".
fn branch_or_control(first: u32, second: u32) -> Insn {
    if second & 0x4000 != 0 {
        return Insn::new(Class::Jump, 4).with(0, one(LR));
    }
    if second & 0x1000 != 0 {
        return Insn::new(Class::Jump, 4);
    }
    if bits(first, 9, 7) != 7 {
        return Insn::new(Class::Branch, 4);
    }
    match bits(first, 6, 4) {
        0 | 1 => Insn::new(Class::System, 4).with(one(bits(first, 3, 0)), 0),
        2 => Insn::new(hint(bits(second, 7, 0)), 4),
        3 if bits(second, 7, 4) == 6 => Insn::new(Class::BarrierInsn, 4),
        3 if bits(second, 7, 4) == 2 => Insn::new(Class::Alu, 4),
        3 => Insn::new(Class::Barrier, 4),
        6 | 7 => Insn::new(Class::System, 4).with(0, one(bits(second, 11, 8))),
        _ => Insn::new(Class::Unknown, 4),
    }
}

/// A5.3.7 to A5.3.10, loads and stores of a register.
fn single(first: u32, second: u32) -> Insn {
    let (rn, rt) = (bits(first, 3, 0), bits(second, 15, 12));
    let (is_load, is_word) = (first & 0x10 != 0, bits(first, 6, 5) == 2);
    if is_load && rt == PC && !is_word {
        // pld, pli.
        return Insn::new(Class::Nop, 4);
    }
    let insn = access(is_load, 4, rt, one(rn));
    if first & 0x80 != 0 || (is_load && rn == PC) {
        return insn;
    }
    if second & 0x800 == 0 {
        return Insn { address: one(rn) | one(bits(second, 3, 0)), has_index: true, ..insn };
    }
    let writes_back = second & 0x100 != 0;
    Insn { base: if writes_back { one(rn) } else { 0 }, ..insn }
}

/// A5.3.12 to A5.3.17, operations on registers and multiplications.
fn registers(first: u32, second: u32) -> Insn {
    let (rn, rm) = (bits(first, 3, 0), one(bits(second, 3, 0)));
    let (ra, rd) = (bits(second, 15, 12), one(bits(second, 11, 8)));
    let number = bits(first, 6, 4);
    let class = match (bits(first, 8, 7), number) {
        (0 | 1, _) => Class::Alu,
        (2, 0) if bits(second, 7, 4) == 0 && ra == PC => Class::Multiply,
        (2, 0) => Class::MultiplyAdd,
        (3, 0 | 2) if bits(second, 7, 4) == 0 => Class::MultiplyLong,
        (3, 4) if bits(second, 7, 4) == 0 => Class::MultiplyLongAdd,
        (3, 6) if bits(second, 7, 4) == 0 => Class::MultiplyLongAdd,
        (3, 1 | 3) => Class::Divide,
        _ => Class::MultiplyDsp,
    };
    let sources = rm | if rn == PC { 0 } else { one(rn) };
    match (bits(first, 8, 7), number) {
        (0 | 1, _) | (3, 1 | 3) => Insn::new(class, 4).with(sources, rd),
        (2, _) if ra == PC => Insn::new(class, 4).with(sources, rd),
        (2, _) => Insn::new(class, 4).with(sources | one(ra), rd),
        (_, 0 | 2) => Insn::new(class, 4).with(sources, rd | one(ra)),
        _ => Insn::new(class, 4).with(sources | rd | one(ra), rd | one(ra)),
    }
}
