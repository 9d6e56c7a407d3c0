// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instructions as text: capstone gives the text, [`decode`] the length and the target.
//!
//! The lengths are those that the profiler counts by, so that every count matches an instruction. Instructions that
//! capstone does not know (it lags behind the instruction sets) are shown as `.2byte` or `.4byte`, without effect on
//! the next one. Compressed RISC-V instructions are shown in their full form, as by GNU objdump; the addresses show
//! their length.

use anyhow::{Result, anyhow};
use capstone::Capstone;
use capstone::arch::{BuildsCapstone as _, BuildsCapstoneExtraMode as _, arm, riscv};
use decode::{Flow, Isa};

use crate::analysis::{armv81m_text, avr_text};

/// Decodes the machine code of one instruction set.
#[derive(Debug)]
pub struct Disassembler {
    isa: Isa,
    /// None: capstone does not know the instruction set.
    capstone: Option<Capstone>,
}

/// One instruction, or bytes that form none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its address.
    pub address: u64,
    /// Its size in bytes.
    pub size_bytes: u8,
    /// Text of the instruction, with operands from column 8 on.
    pub text: String,
}

impl Disassembler {
    /// A disassembler for one instruction set.
    ///
    /// # Errors
    /// When there is no memory for capstone.
    pub fn new(isa: Isa) -> Result<Disassembler> {
        let thumb = || Capstone::new().arm().mode(arm::ArchMode::Thumb);
        let riscv = |mode| Capstone::new().riscv().mode(mode).extra_mode([riscv::ArchExtraMode::RiscVC].into_iter());
        let capstone = match isa {
            Isa::Riscv32 | Isa::Riscv32Zc => riscv(riscv::ArchMode::RiscV32).build(),
            Isa::Riscv64 | Isa::Riscv64Zc => riscv(riscv::ArchMode::RiscV64).build(),
            Isa::ThumbV6m | Isa::ThumbV7m => thumb().extra_mode([arm::ArchExtraMode::MClass].into_iter()).build(),
            // Capstone has no AVR: see `avr_text`.
            Isa::AvrPc16 | Isa::AvrPc22 => return Ok(Disassembler { isa, capstone: None }),
            Isa::ThumbV8m => {
                let modes = [arm::ArchExtraMode::MClass, arm::ArchExtraMode::V8];
                thumb().extra_mode(modes.into_iter()).build()
            }
        };
        let capstone = capstone.map_err(|error| anyhow!("the disassembler cannot be started: {error}"))?;
        Ok(Disassembler { isa, capstone: Some(capstone) })
    }

    /// Decodes all of a piece of code. An instruction starts at every address for which `starts_at` is true, even
    /// inside of a longer one; `name` names the target of a branch.
    pub fn read(
        &self,
        start: u64,
        code: &[u8],
        starts_at: impl Fn(u64) -> bool,
        name: impl Fn(u64) -> Option<String>,
    ) -> Vec<Unit> {
        let mut units = Vec::new();
        let mut at = 0;
        // Upper part of an address, which the next instruction may complete.
        let mut upper = None;
        while at < code.len() {
            let before = at;
            // All of the rest at once, since Thumb's IT affects the instructions after it.
            let rest = &code[at..];
            let address = start.wrapping_add(at as u64);
            if let Some(capstone) = self.capstone.as_ref().filter(|_| self.own(rest).is_none())
                && let Ok(known) = capstone.disasm_all(rest, address)
            {
                for insn in known.iter() {
                    let address = start.wrapping_add(at as u64);
                    let (size_bytes, is_whole) = self.size_at(address, &code[at..], &starts_at);
                    if !is_whole || insn.bytes().len() != size_bytes || self.own(&code[at..]).is_some() {
                        break;
                    }
                    let operands = insn.op_str().unwrap_or_default();
                    let mnemonic = insn.mnemonic().unwrap_or_default();
                    let text = self.text(address, &code[at..], (mnemonic, operands), upper, &name);
                    upper = decode::auipc(self.isa, address, &code[at..]);
                    units.push(Unit { address, size_bytes: size_bytes as u8, text });
                    at += size_bytes;
                }
            }
            if at < code.len() {
                let address = start.wrapping_add(at as u64);
                let (size_bytes, is_whole) = self.size_at(address, &code[at..], &starts_at);
                let bytes = &code[at..at + size_bytes];
                if let Some((mnemonic, operands)) = self.own(bytes).filter(|_| is_whole) {
                    let text = self.text(address, bytes, (&mnemonic, &operands), None, &name);
                    units.push(Unit { address, size_bytes: size_bytes as u8, text });
                    at += size_bytes;
                    continue;
                }
                let number = bytes.iter().rev().fold(0_u32, |number, &byte| number << 8 | u32::from(byte));
                let digits = 2 * size_bytes;
                let directive = if size_bytes == 1 { ".byte".to_owned() } else { format!(".{size_bytes}byte") };
                let text = format!("{directive:<7} 0x{number:0digits$x}");
                units.push(Unit { address, size_bytes: size_bytes as u8, text });
                upper = None;
                at += size_bytes;
            }
            debug_assert!(at > before);
        }
        units
    }

    /// Mnemonic and operands of an instruction that capstone does not have, or takes for another one: AVR's, Armv8.1-M's
    /// selects and loops, Zcmp's and Zcmt's, which it takes for Zcd's.
    fn own(&self, bytes: &[u8]) -> Option<(String, String)> {
        let half = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        if self.isa.is_avr() {
            return avr_text::text(half(0)?, half(2));
        }
        if self.isa == Isa::ThumbV8m {
            return armv81m_text::text(half(0)?, half(2)?);
        }
        let (mnemonic, operands) = decode::zcmp(self.isa, bytes)?.text();
        Some((mnemonic.to_owned(), operands))
    }

    /// Size of the unit at an address, and whether that is a whole instruction.
    fn size_at(&self, address: u64, code: &[u8], starts_at: &impl Fn(u64) -> bool) -> (usize, bool) {
        let size_bytes = usize::from(decode::decode(self.isa, address, code).len_bytes);
        let limit = size_bytes.min(code.len());
        let cut = (1..limit).find(|&offset| starts_at(address.wrapping_add(offset as u64))).unwrap_or(limit);
        // Instructions have 2 or 4 bytes, so of three bytes the last one is left over.
        let cut = if cut == 3 { 2 } else { cut };
        (cut, cut == size_bytes)
    }

    /// Text of an instruction with its target's address instead of the distance.
    fn text(
        &self,
        address: u64,
        code: &[u8],
        (mnemonic, operands): (&str, &str),
        upper: Option<(u8, u64)>,
        name: &impl Fn(u64) -> Option<String>,
    ) -> String {
        let place = |target: u64| match name(target) {
            Some(name) => format!("{target:#x} <{name}>"),
            None => format!("{target:#x}"),
        };
        let operands = match decode::decode(self.isa, address, code).flow {
            Flow::Call { target } | Flow::Jump { target } | Flow::Branch { target } => {
                let others = operands.rfind(", ").map_or("", |at| &operands[..at + 2]);
                format!("{others}{}", place(target))
            }
            Flow::IndirectCall { reg, offset, .. } | Flow::IndirectJump { reg, offset }
                if upper.is_some_and(|(upper, _)| upper == reg) =>
            {
                let base = upper.map_or(0, |(_, base)| base);
                let target = self.isa.wrap(base.wrapping_add_signed(offset.into()) & !1);
                format!("{operands}  # {}", place(target))
            }
            _ => operands.to_owned(),
        };
        let (mnemonic, operands) = uncompressed(mnemonic, operands);
        format!("{mnemonic:<7} {operands}").trim_end().to_owned()
    }
}

/// Full form of a compressed RISC-V instruction ("The RISC-V Instruction Set Manual", volume 1, chapter 16), with the
/// assemblers' names for common forms.
fn uncompressed(mnemonic: &str, operands: String) -> (String, String) {
    let Some(name) = mnemonic.strip_prefix("c.") else {
        return match (mnemonic, operands.split_once(", zero, ")) {
            ("addi", Some((to, number))) => ("li".to_owned(), format!("{to}, {number}")),
            _ => (mnemonic.to_owned(), operands),
        };
    };
    let destination = operands.split(',').next().unwrap_or_default();
    match name {
        "add" | "addi" | "addiw" | "addw" | "sub" | "subw" | "and" | "andi" | "or" | "xor" | "slli" | "srli"
        | "srai" => (name.to_owned(), format!("{destination}, {operands}")),
        "addi16sp" => ("addi".to_owned(), format!("sp, {operands}")),
        "addi4spn" => ("addi".to_owned(), operands),
        "jr" if operands == "ra" => ("ret".to_owned(), String::new()),
        _ => (name.strip_suffix("sp").unwrap_or(name).to_owned(), operands),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(isa: Isa, code: &[u8], boundary: u64) -> Vec<(u64, u8, String)> {
        let name = |target: u64| (target == 0x10a).then(|| "end".to_owned());
        let units = Disassembler::new(isa).unwrap().read(0x100, code, |address| address == boundary, name);
        units.into_iter().map(|unit| (unit.address, unit.size_bytes, unit.text)).collect()
    }

    fn unit(address: u64, size_bytes: u8, text: &str) -> (u64, u8, String) {
        (address, size_bytes, text.to_owned())
    }

    #[test]
    fn what_is_no_instruction_is_shown_as_bytes_and_the_next_one_is_read() {
        // udf would be an instruction; 0xf7f0a000 and half of a 32-bit one are not.
        let thumb = [0x00, 0xbf, 0xff, 0xff, 0xff, 0xff, 0x01, 0x20, 0x00, 0xf0];
        let expected = [
            unit(0x100, 2, "nop"),
            unit(0x102, 4, ".4byte  0xffffffff"),
            unit(0x106, 2, "movs    r0, #1"),
            unit(0x108, 2, ".2byte  0xf000"),
        ];
        assert_eq!(texts(Isa::ThumbV7m, &thumb, 0), expected);
        let riscv = [0x00, 0x00, 0x7f, 0xff, 0xff, 0xff, 0x82, 0x80, 0x13];
        let texts = texts(Isa::Riscv64, &riscv, 0);
        assert_eq!(texts.iter().map(|(_, size_bytes, _)| *size_bytes).collect::<Vec<_>>(), [2, 4, 2, 1]);
        assert_eq!(texts[2..], [unit(0x106, 2, "ret"), unit(0x108, 1, ".byte   0x13")]);
    }

    #[test]
    fn an_instruction_starts_where_one_was_executed() {
        let code = [0x00, 0xf0, 0x00, 0xbf, 0x70, 0x47];
        let expected = [unit(0x100, 2, ".2byte  0xf000"), unit(0x102, 2, "nop"), unit(0x104, 2, "bx      lr")];
        assert_eq!(texts(Isa::ThumbV7m, &code, 0x102), expected);
    }

    #[test]
    fn selects_and_loops_of_armv8_1m_are_between_what_capstone_knows() {
        // Code: adds r0, #1; csel r0, r1, r2, ne; le lr, 0x100; wls lr, r2, 0x112; nop. Of Armv7-M the second is `orrs`.
        let halves = [0x3001, 0xea51, 0x8012, 0xf00f, 0xc805, 0xf042, 0xc003, 0xbf00_u16];
        let code: Vec<u8> = halves.into_iter().flat_map(u16::to_le_bytes).collect();
        let shown: Vec<String> = texts(Isa::ThumbV8m, &code, 0).into_iter().map(|(.., text)| text).collect();
        let expected =
            ["adds    r0, #1", "csel    r0, r1, r2, ne", "le      lr, 0x100", "wls     lr, r2, 0x112", "nop"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn targets_have_names_and_it_blocks_conditions() {
        // Code: ite eq; moveq r0, #1; movne r0, #2; b 0x10a
        let code = [0x0c, 0xbf, 0x01, 0x20, 0x02, 0x20, 0x00, 0xe0];
        let shown: Vec<String> = texts(Isa::ThumbV7m, &code, 0).into_iter().map(|(.., text)| text).collect();
        assert_eq!(shown, ["ite     eq", "moveq   r0, #1", "movne   r0, #2", "b       0x10a <end>"]);
        // Code: auipc ra, 0; jalr 10(ra)
        let code = [0x97, 0x00, 0x00, 0x00, 0xe7, 0x80, 0xa0, 0x00];
        let shown = texts(Isa::Riscv32, &code, 0);
        assert!(shown[1].2.starts_with("jalr ") && shown[1].2.ends_with("# 0x10a <end>"), "{shown:?}");
    }
}
