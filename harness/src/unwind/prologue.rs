//! RISC-V functions without unwind information that keep a frame pointer (`-fno-omit-frame-pointer`): their
//! first instructions say where it points and what is saved below it ("RISC-V ABIs Specification",
//! Frame Pointer Convention).

use std::ops::Range;

use decode::Isa;
use wire::unwind::{Base, Rule, Saved};

use super::{Code, ENTRY, Rules};

/// A prologue is no longer than this; gcc mixes other instructions in.
const MOST_INSNS: usize = 40;

const RA: u32 = 1;
const SP: u32 = 2;
const FP: u32 = 8;

/// What the prologue is made of.
enum Insn {
    /// sp += n
    MoveSp(i32),
    /// fp = sp + n
    SetFp(i32),
    /// memory[sp + n] = register
    Store(u32, i32),
    Other,
}

/// The rules of a function that sets up a frame pointer; None: it does not.
pub(super) fn read(code: &Code<'_>, function: &Range<u64>) -> Option<Rules> {
    let mut rules = Rules::from([(function.start, Some(ENTRY))]);
    let mut now = ENTRY;
    let mut pc = function.start;
    for _ in 0..MOST_INSNS {
        if pc >= function.end {
            return None;
        }
        let bytes = code.bytes(pc)?;
        let decoded = decode::decode(code.isa, pc, bytes);
        if decoded.flow != decode::Flow::Next {
            return None;
        }
        pc += u64::from(decoded.len_bytes);
        match insn(code.isa, bytes) {
            Insn::MoveSp(offset) => now.cfa_offset_bytes -= offset,
            Insn::Store(RA, offset) => now.return_addr = Saved::AtCfa(offset - now.cfa_offset_bytes),
            Insn::Store(FP, offset) => now.frame_pointer = Saved::AtCfa(offset - now.cfa_offset_bytes),
            Insn::SetFp(offset) => {
                // The frame pointer of the caller must be kept, or nothing can be found with it.
                if now.frame_pointer == Saved::Register {
                    return None;
                }
                let cfa_offset_bytes = now.cfa_offset_bytes - offset;
                rules.insert(pc, Some(Rule { base: Base::FramePointer, cfa_offset_bytes, ..now }));
                return Some(rules);
            }
            Insn::Store(..) | Insn::Other => continue,
        }
        rules.insert(pc, Some(now));
    }
    None
}

/// "RV32I Base Integer Instruction Set" and "C Extension for Compressed Instructions".
fn insn(isa: Isa, bytes: &[u8]) -> Insn {
    let Some(low) = bytes.first_chunk().map(|&half| u32::from(u16::from_le_bytes(half))) else { return Insn::Other };
    let bits = |word: u32, high: u32, low: u32| (word >> low) & ((1 << (high - low + 1)) - 1);
    let wide = isa == Isa::Riscv64;
    if low & 3 == 3 {
        let Some(word) = bytes.first_chunk().map(|&word| u32::from_le_bytes(word)) else { return Insn::Other };
        let (rd, function, rs1) = (bits(word, 11, 7), bits(word, 14, 12), bits(word, 19, 15));
        let immediate = (word as i32) >> 20;
        return match (bits(word, 6, 0), function) {
            (0x13, 0) if rs1 == SP && rd == SP => Insn::MoveSp(immediate),
            (0x13, 0) if rs1 == SP && rd == FP => Insn::SetFp(immediate),
            (0x23, function) if rs1 == SP && function == if wide { 3 } else { 2 } => {
                Insn::Store(bits(word, 24, 20), ((word as i32) >> 25) << 5 | rd as i32)
            }
            _ => Insn::Other,
        };
    }
    let sign_extended = |value: u32, width: u32| ((value << (32 - width)) as i32) >> (32 - width);
    match (low & 3, bits(low, 15, 13)) {
        // c.addi4spn
        (0, 0) if bits(low, 4, 2) + 8 == FP => Insn::SetFp(
            (bits(low, 12, 11) << 4 | bits(low, 10, 7) << 6 | bits(low, 6, 6) << 2 | bits(low, 5, 5) << 3) as i32,
        ),
        // c.addi sp
        (1, 0) if bits(low, 11, 7) == SP => {
            Insn::MoveSp(sign_extended(bits(low, 12, 12) << 5 | bits(low, 6, 2), 6))
        }
        // c.addi16sp
        (1, 3) if bits(low, 11, 7) == SP => {
            let value = bits(low, 12, 12) << 9
                | bits(low, 6, 6) << 4
                | bits(low, 5, 5) << 6
                | bits(low, 4, 3) << 7
                | bits(low, 2, 2) << 5;
            Insn::MoveSp(sign_extended(value, 10))
        }
        // c.sdsp; c.swsp
        (2, 7) if wide => Insn::Store(bits(low, 6, 2), (bits(low, 12, 10) << 3 | bits(low, 9, 7) << 6) as i32),
        (2, 6) if !wide => Insn::Store(bits(low, 6, 2), (bits(low, 12, 9) << 2 | bits(low, 8, 7) << 6) as i32),
        _ => Insn::Other,
    }
}
