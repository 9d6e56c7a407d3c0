// SPDX-License-Identifier: MIT OR Apache-2.0
//! RV32 instructions as a pipeline sees them: their class, and the registers that they read and write.
//!
//! Sections are those of The RISC-V Instruction Set Manual, Volume I, version 20240411.

use decode::{Isa, Registers, Zcmp};
pub use wire::core::Class;

/// Instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Insn {
    /// Work that it is for the core.
    pub class: Class,
    /// Length in bytes, 2 or 4.
    pub len_bytes: u8,
    /// Register that it writes; 0: none.
    pub rd: u8,
    /// Registers that it reads, 0 for none; of a store, address and value.
    pub sources: [u8; 2],
    /// Whether it is a division of signed numbers.
    pub is_signed: bool,
    /// Registers that its code names as read, of an access of a control register, although it may read none.
    pub fields: [u8; 2],
    /// Registers that it stores or loads, if it does so with several.
    pub count: u8,
}

const fn bits(insn: u32, high: u32, low: u32) -> u32 {
    insn << (31 - high) >> (31 - high + low)
}

impl Insn {
    /// Decodes an instruction; its bytes may go on behind it.
    pub fn decode(bytes: &[u8]) -> Insn {
        let half = |at: usize| bytes.get(at..at + 2).map(|half| u32::from(u16::from_le_bytes([half[0], half[1]])));
        match (half(0), half(2)) {
            (Some(low), _) if low & 3 != 3 => compressed(low),
            (Some(low), Some(high)) => full(high << 16 | low),
            _ => Insn::new(Class::Unknown, 4, 0, [0; 2]),
        }
    }

    const fn new(class: Class, len_bytes: u8, rd: u32, [first, second]: [u32; 2]) -> Insn {
        Insn {
            class,
            len_bytes,
            rd: rd as u8,
            sources: [first as u8, second as u8],
            is_signed: false,
            fields: [0; 2],
            count: 0,
        }
    }

    /// Half-words of its code.
    pub const fn halves(&self) -> usize {
        self.len_bytes as usize / 2
    }
}

/// "RV32/64G Instruction Set Listings".
fn full(insn: u32) -> Insn {
    let (rd, rs1, rs2) = (bits(insn, 11, 7), bits(insn, 19, 15), bits(insn, 24, 20));
    let (funct3, funct7) = (bits(insn, 14, 12), bits(insn, 31, 25));
    let new = |class, rd, sources| Insn::new(class, 4, rd, sources);
    match bits(insn, 6, 0) {
        0x37 | 0x17 => new(Class::Alu, rd, [0, 0]),
        0x6f => new(Class::Jump, rd, [0, 0]),
        0x67 if funct3 == 0 => new(Class::JumpRegister, rd, [rs1, 0]),
        0x63 if funct3 & 6 != 2 => new(Class::Branch, 0, [rs1, rs2]),
        0x03 if matches!(funct3, 0 | 1 | 2 | 4 | 5) => new(Class::Load, rd, [rs1, 0]),
        0x23 if funct3 < 3 => new(Class::Store, 0, [rs1, rs2]),
        0x13 if funct3 == 1 || funct3 == 5 => new(Class::Shift, rd, [rs1, 0]),
        0x13 => new(Class::Alu, rd, [rs1, 0]),
        // "M" Extension.
        0x33 if funct7 == 1 => {
            let class = match funct3 {
                0 => Class::Multiply,
                1..=3 => Class::MultiplyHigh,
                _ => Class::Divide,
            };
            Insn { is_signed: funct3 & 1 == 0, ..new(class, rd, [rs1, rs2]) }
        }
        // Shifts of the base; the others of these functions are of the Zb* families.
        0x33 if matches!((funct3, funct7), (1, 0) | (5, 0 | 0x20)) => new(Class::Shift, rd, [rs1, rs2]),
        0x33 => new(Class::Alu, rd, [rs1, rs2]),
        // "Zicsr": with an immediate, no register is read.
        0x73 if funct3 & 3 != 0 => {
            let class = if sets_status(insn) { Class::CsrStatus } else { Class::Csr };
            let sources = [if funct3 & 4 == 0 { rs1 } else { 0 }, 0];
            Insn { fields: [rs1 as u8, rs2 as u8], ..new(class, rd, sources) }
        }
        0x73 if insn == 0x3020_0073 => new(Class::Return, 0, [0, 0]),
        0x73 if insn == 0x1050_0073 => new(Class::Wait, 0, [0, 0]),
        0x73 if matches!(insn, 0x73 | 0x0010_0073) => new(Class::Call, 0, [0, 0]),
        0x0f if funct3 == 0 => new(Class::Fence, 0, [0, 0]),
        0x0f if funct3 == 1 => new(Class::FenceCode, 0, [0, 0]),
        // "A" Extension: loads that reserve, stores on that condition, and the others.
        0x2f if funct3 == 2 && bits(insn, 31, 27) == 2 => new(Class::LoadReserved, rd, [rs1, 0]),
        0x2f if funct3 == 2 && bits(insn, 31, 27) == 3 => new(Class::StoreConditional, rd, [rs1, rs2]),
        0x2f if funct3 == 2 => new(Class::Atomic, rd, [rs1, rs2]),
        _ => new(Class::Unknown, 0, [0, 0]),
    }
}

/// Zcmp's instructions, in the place of Zcd's `c.fsdsp`.
fn several(insn: u32) -> Insn {
    const SP: u32 = 2;
    const A0: u32 = 10;
    let of = |class, registers: Registers| Insn {
        count: registers.numbers().len() as u8,
        ..Insn::new(class, 2, SP, [SP, 0])
    };
    match decode::zcmp(Isa::Riscv32Zc, &(insn as u16).to_le_bytes()) {
        Some(Zcmp::Push { registers, .. }) => of(Class::Push, registers),
        Some(Zcmp::Pop { registers, returns: false, .. }) => of(Class::Pop, registers),
        Some(Zcmp::Pop { registers, zeroes: false, .. }) => of(Class::PopReturn, registers),
        Some(Zcmp::Pop { registers, .. }) => of(Class::PopReturnZero, registers),
        // The first of the two moves decides what is waited for: from a0, or to it.
        Some(Zcmp::Move { saved: [first, _], is_to_arguments }) => {
            let source = if is_to_arguments { first.into() } else { A0 };
            Insn::new(Class::MovePair, 2, 0, [source, 0])
        }
        Some(Zcmp::Jump { .. }) | None => Insn::new(Class::Unknown, 2, 0, [0, 0]),
    }
}

/// Whether an instruction writes mstatus or mie, or sets bits of them.
const fn sets_status(insn: u32) -> bool {
    let writes = match bits(insn, 14, 12) {
        1 | 5 => true,
        2 | 6 => bits(insn, 19, 15) != 0,
        _ => false,
    };
    writes && matches!(bits(insn, 31, 20), 0x300 | 0x304)
}

/// "RVC Instruction Set Listings", Zcb and Zcmp.
fn compressed(insn: u32) -> Insn {
    let (rd, rs2, bit12) = (bits(insn, 11, 7), bits(insn, 6, 2), bits(insn, 12, 12));
    let (first, second) = (8 + bits(insn, 9, 7), 8 + bits(insn, 4, 2));
    let new = |class, rd, sources| Insn::new(class, 2, rd, sources);
    const SP: u32 = 2;
    match (insn & 3, bits(insn, 15, 13)) {
        // c.addi4spn; all zeros is the illegal instruction.
        (0, 0) if insn != 0 => new(Class::Alu, second, [SP, 0]),
        (0, 2) => new(Class::Load, second, [first, 0]),
        (0, 6) => new(Class::Store, 0, [first, second]),
        // Zcb's loads and stores of bytes and half-words.
        (0, 4) if bits(insn, 12, 10) < 2 => new(Class::Load, second, [first, 0]),
        (0, 4) if bits(insn, 12, 10) < 4 => new(Class::Store, 0, [first, second]),
        (1, 0) => new(Class::Alu, rd, [rd, 0]),
        (1, 1) => new(Class::Jump, 1, [0, 0]),
        (1, 2) => new(Class::Alu, rd, [0, 0]),
        (1, 3) if rd == SP => new(Class::Alu, SP, [SP, 0]),
        (1, 3) => new(Class::Alu, rd, [0, 0]),
        (1, 4) => match (bits(insn, 11, 10), bit12, bits(insn, 6, 5)) {
            (0 | 1, ..) => new(Class::Shift, first, [first, 0]),
            (2, ..) => new(Class::Alu, first, [first, 0]),
            (_, 0, _) => new(Class::Alu, first, [first, second]),
            (_, _, 2) => new(Class::Multiply, first, [first, second]),
            (_, _, 3) => new(Class::Alu, first, [first, 0]),
            _ => new(Class::Unknown, 0, [0, 0]),
        },
        (1, 5) => new(Class::Jump, 0, [0, 0]),
        (1, 6 | 7) => new(Class::Branch, 0, [first, 0]),
        (2, 0) => new(Class::Shift, rd, [rd, 0]),
        (2, 2) => new(Class::Load, rd, [SP, 0]),
        (2, 6) => new(Class::Store, 0, [SP, rs2]),
        (2, 5) => several(insn),
        (2, 4) if rs2 == 0 && rd != 0 => new(Class::JumpRegister, bit12, [rd, 0]),
        // c.ebreak.
        (2, 4) if rs2 == 0 && bit12 == 1 => new(Class::Call, 0, [0, 0]),
        (2, 4) if rs2 != 0 => new(Class::Alu, rd, [if bit12 == 0 { 0 } else { rd }, rs2]),
        _ => new(Class::Unknown, 0, [0, 0]),
    }
}
