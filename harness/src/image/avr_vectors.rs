// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recognises AVR code by its beginning, for files that name no processor, such as the `.hex` of Arduino's IDE: a table of
//! jumps at 0, one for each interrupt of the device, and avr-libc's start-up code, which sets the stack pointer to the end
//! of the RAM.
//!
//! Numbers of vectors: data sheets DS40002061, table 12-1 (ATmega168/328P), and DS40002211, table 14-1 (ATmega1280/2560).

use decode::{Flow, Isa, decode};

use super::{AVR5, AvrNeeds};

/// Size of a vector: a `jmp`, or an `rjmp` and a `nop` that the linker makes of it (`--relax`).
const VECTOR_BYTES: u64 = 4;

/// More vectors than any AVR has.
const MAX_VECTORS: u64 = 128;

/// Fewest jumps in a row that are taken for a table.
const MIN_VECTORS: u64 = 16;

/// Instructions of start-up code that may come before the stack pointer is set.
const MAX_STEPS: usize = 24;

/// Registers of I/O space that start-up code writes: both halves of the stack pointer, and the program counter's third byte
/// for indirect jumps, which only processors with more than 128 KiB of flash have.
const SPL: u32 = 0x3d;
const SPH: u32 = 0x3e;
const EIND: u32 = 0x3c;

/// Families with 57 vectors: that of the ATmega1280, and that of the ATmega2560.
const AVR51: u32 = 51;
const AVR6: u32 = 6;

/// Table of jumps at address 0, and what the code that the first one leads to says of the device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vectors {
    /// Number of vectors.
    pub count: u64,
    /// Value to which start-up code sets the stack pointer: the last address of the RAM, as the processor has it.
    pub ram_end: Option<u64>,
    /// Whether start-up code writes EIND.
    has_eind: bool,
}

impl Vectors {
    /// Reads the table. None: there are not enough jumps at 0 that all lead into the code. `code_at` gives the bytes at an
    /// address.
    pub(super) fn read<'a>(code_at: impl Fn(u64) -> Option<&'a [u8]>) -> Option<Vectors> {
        let target = |at: u64| {
            let code = code_at(at)?;
            let insn = decode(Isa::AvrPc16, at, code);
            let Flow::Jump { target } = insn.flow else { return None };
            let is_whole = u64::from(insn.len_bytes) == VECTOR_BYTES || code.get(2..4)? == [0, 0];
            (is_whole && code_at(target).is_some()).then_some(target)
        };
        let targets = (0..MAX_VECTORS).map_while(|vector| target(vector * VECTOR_BYTES));
        let count = targets.count() as u64;
        let entry = target(0)?;
        (count >= MIN_VECTORS).then(|| Vectors { count, ..start_up(entry, code_at) })
    }

    /// Needs of the code, if one family alone has this table. Behind 57 vectors, code for more than 128 KiB has jumps that
    /// belong to no vector.
    pub(super) fn needs(&self) -> Option<AvrNeeds> {
        let family = match (self.count, self.has_eind) {
            (26, false) => AVR5,
            (57, false) => AVR51,
            (57.., true) => AVR6,
            _ => return None,
        };
        let count = if family == AVR5 { 26 } else { 57 };
        Some(AvrNeeds { family, device: None, vectors: Some(Vectors { count, ..self.clone() }) })
    }
}

/// Follows the values that start-up code loads into registers and writes to I/O registers, up to its first branch.
fn start_up<'a>(entry: u64, code_at: impl Fn(u64) -> Option<&'a [u8]>) -> Vectors {
    let mut found = Vectors::default();
    let mut loaded = [None; 32];
    let [mut low, mut high] = [None; 2];
    let mut pc = entry;
    for _ in 0..MAX_STEPS {
        let Some(code) = code_at(pc) else { break };
        let insn = decode(Isa::AvrPc16, pc, code);
        let (Flow::Next, &[first, second, ..]) = (insn.flow, code) else { break };
        let word = u16::from_le_bytes([first, second]);
        let register = usize::from(word >> 4 & 0x1f);
        if word & 0xf000 == 0xe000 {
            // ldi, of r16 to r31.
            loaded[register | 0x10] = Some(u64::from(word >> 4 & 0xf0 | word & 0xf));
        } else if word & 0xf800 == 0xb800 {
            // out
            match decode::avr_io(Isa::AvrPc16, code) {
                Some(SPL) => low = loaded[register],
                Some(SPH) => high = loaded[register],
                Some(EIND) => found.has_eind = true,
                _ => {}
            }
        }
        pc += u64::from(insn.len_bytes);
    }
    found.ram_end = low.zip(high).map(|(low, high)| high << 8 | low);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` vectors of four bytes, and start-up code: its stack pointer, and whether it writes EIND.
    fn program(count: u64, ram_end: u16, has_eind: bool) -> Vec<u8> {
        let entry = count * VECTOR_BYTES / 2;
        let mut words: Vec<u16> = (0..count).flat_map(|_| [0x940c, entry as u16]).collect();
        let ldi = |register: u16, value: u16| 0xe000 | (value & 0xf0) << 4 | (register - 16) << 4 | value & 0xf;
        // eor r1, r1; ldi r28; ldi r29; out SPH, r29; out SPL, r28
        words.extend([0x2411, ldi(28, ram_end & 0xff), ldi(29, ram_end >> 8), 0xbfde, 0xbfcd]);
        if has_eind {
            // out EIND, r16
            words.push(0xbf0c);
        }
        // rjmp .-2
        words.push(0xcfff);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn read(code: &[u8]) -> Option<Vectors> {
        Vectors::read(|at| code.get(at as usize..).filter(|code| !code.is_empty()))
    }

    fn family(code: &[u8]) -> Option<u32> {
        read(code)?.needs().map(|needs| needs.family)
    }

    #[test]
    fn a_table_tells_the_family_and_the_end_of_the_ram() {
        assert_eq!(family(&program(26, 0x08ff, false)), Some(5));
        assert_eq!(family(&program(57, 0x21ff, false)), Some(51));
        assert_eq!(family(&program(57, 0x21ff, true)), Some(6));
        // Jumps that the linker puts behind the vectors.
        assert_eq!(family(&program(60, 0x21ff, true)), Some(6));
        assert_eq!(read(&program(26, 0x08ff, false)).unwrap().ram_end, Some(0x08ff));
    }

    #[test]
    fn other_numbers_of_vectors_are_of_no_known_family() {
        // ATmega16, ATmega32U4, ATmega128RFA1; EIND with few vectors is of no AVR.
        for (count, has_eind) in [(21, false), (43, false), (72, false), (25, false), (27, false), (26, true)] {
            let vectors = read(&program(count, 0x08ff, has_eind)).unwrap();
            assert_eq!((vectors.count, vectors.needs()), (count, None));
        }
        assert_eq!(read(&program(MIN_VECTORS - 1, 0x08ff, false)), None);
    }

    #[test]
    fn a_jump_out_of_the_code_ends_the_table() {
        let mut code = program(26, 0x08ff, false);
        code[4 * 20 + 2] = 0xff;
        assert_eq!(read(&code).unwrap().count, 20);
        code[2] = 0xff;
        assert_eq!(read(&code), None);
    }

    #[test]
    fn a_relaxed_vector_is_a_short_jump_and_a_nop() {
        let mut code = program(26, 0x08ff, false);
        // rjmp from 4 to the start-up code: (104 - 4 - 2) / 2.
        code[4..8].copy_from_slice(&[49, 0xc0, 0, 0]);
        assert_eq!(family(&code), Some(5));
        // Short jumps alone are the table of a smaller device.
        code[6..8].copy_from_slice(&[48, 0xc0]);
        assert_eq!(read(&code), None);
    }
}
