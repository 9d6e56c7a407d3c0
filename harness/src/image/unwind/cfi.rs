// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads DWARF call frame information: `.debug_frame` and `.eh_frame` (DWARF 5, 6.4).

use std::cmp::Reverse;
use std::ops::Range;

use decode::Isa;
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EndianSlice, LittleEndian, Register, RegisterRule,
    UnwindContext, UnwindSection,
};
use object::{Object as _, ObjectSegment as _, SegmentFlags, elf};
use wire::unwind::{Base, Rule, Saved};

use super::{Rules, section};
use crate::image::section::uncompressed;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Usual alignment of functions, so the largest padding between two.
const MAX_PADDING_BYTES: u64 = 4;

/// DWARF's numbers of the relevant registers ("DWARF for the Arm Architecture"; "RISC-V ABIs Specification", DWARF
/// Register Numbers).
struct Numbers {
    sp: Register,
    /// Frame pointer, of which AVR has two halves: what is saved, and what a frame is found by.
    fp: Register,
    base: Register,
    /// RISC-V's t0, the return register of libgcc's save and restore routines; Arm's r12, to which assembly moves lr.
    second_link: Option<Register>,
}

/// Reads the pieces of code that have call frame information: start, end, rules; load bias included. An entry is
/// accepted only at its function's start: entries of functions that the linker's --gc-sections discarded are left at
/// address 0.
pub(super) fn read(
    file: &object::File<'_>,
    isa: Isa,
    load_bias: u64,
    functions: &[Range<u64>],
    warnings: &mut Vec<String>,
) -> Vec<(u64, u64, Rules)> {
    let numbers = match isa {
        Isa::Riscv32 | Isa::Riscv64 | Isa::Riscv32Zc | Isa::Riscv64Zc => {
            Numbers { sp: Register(2), fp: Register(8), base: Register(8), second_link: Some(Register(5)) }
        }
        Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => {
            Numbers { sp: Register(13), fp: Register(7), base: Register(7), second_link: Some(Register(12)) }
        }
        // The upper half of Y: its bytes are saved below those of the lower half, most significant first.
        Isa::AvrPc16 | Isa::AvrPc22 => {
            Numbers { sp: Register(32), fp: Register(29), base: Register(28), second_link: None }
        }
    };
    let address_bytes = if isa.is_riscv64() { 8 } else { 4 };
    let reader = Reader { numbers, load_bias, functions, executable: executable(file) };
    let mut found = Vec::new();
    let mut damage = None;
    for name in [".debug_frame", ".eh_frame"] {
        if let Some(Err(error)) = file.section_by_name(name).map(|section| uncompressed(file, &section)) {
            damage = Some(error);
        }
    }
    if let Some((_, bytes)) = section(file, ".debug_frame") {
        let mut frames = DebugFrame::from(EndianSlice::new(&bytes, LittleEndian));
        frames.set_address_size(address_bytes);
        reader
            .read(&frames, &BaseAddresses::default(), &mut found)
            .unwrap_or_else(|error| damage = Some(error.to_string()));
    }
    if let Some((address, bytes)) = section(file, ".eh_frame") {
        let mut frames = EhFrame::from(EndianSlice::new(&bytes, LittleEndian));
        frames.set_address_size(address_bytes);
        let text = section(file, ".text").map_or(0, |(address, _)| address);
        let bases = BaseAddresses::default().set_eh_frame(address).set_text(text);
        reader.read(&frames, &bases, &mut found).unwrap_or_else(|error| damage = Some(error.to_string()));
    }
    if let Some(error) = damage {
        warnings.push(format!(
            "the unwind information is damaged ({error}): some call stacks end at functions that it would cover"
        ));
    }
    // If several entries claim one function, all but one belong to discarded functions. The longest entry is the real
    // one, or nearest to it, since no entry is longer than the function.
    found.sort_by_key(|&(start, end, _)| (start, Reverse(end)));
    found.dedup_by_key(|&mut (start, ..)| start);
    found
}

/// Addresses (without load bias) of the bytes that the file marks executable.
fn executable(file: &object::File<'_>) -> Vec<Range<u64>> {
    file.segments()
        .filter(|segment| matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.contains(elf::PF_X)))
        .map(|segment| segment.address()..segment.address().saturating_add(segment.file_range().1))
        .collect()
}

struct Reader<'a> {
    numbers: Numbers,
    load_bias: u64,
    functions: &'a [Range<u64>],
    executable: Vec<Range<u64>>,
}

impl Reader<'_> {
    /// Reads one section. A damaged entry is left out; the first damage is returned after the rest.
    fn read<'s, S>(
        &self,
        frames: &S,
        bases: &BaseAddresses,
        found: &mut Vec<(u64, u64, Rules)>,
    ) -> Result<(), gimli::Error>
    where
        S: UnwindSection<Slice<'s>>,
        S::Offset: gimli::UnwindOffset,
    {
        let mut context = UnwindContext::new();
        let mut damage = Ok(());
        let mut entries = frames.entries(bases);
        while let Some(entry) = entries.next()? {
            let CieOrFde::Fde(partial) = entry else { continue };
            let fde = match partial.parse(|_, bases, offset| frames.cie_from_offset(bases, offset)) {
                Ok(fde) => fde,
                Err(error) => {
                    damage = damage.and(Err(error));
                    continue;
                }
            };
            let start = fde.initial_address().wrapping_add(self.load_bias);
            let end = start.saturating_add(fde.len());
            let Some(end) = self.accepted(start..end) else { continue };
            let mut rules = Rules::new();
            let mut read = || {
                let mut table = fde.rows(frames, bases, &mut context)?;
                let return_addr = fde.cie().return_address_register();
                while let Some(row) = table.next_row()? {
                    let saved = |register| match row.register(register) {
                        None | Some(RegisterRule::SameValue) => Saved::Register,
                        Some(RegisterRule::Offset(offset)) => i32::try_from(offset).map_or(Saved::Lost, Saved::AtCfa),
                        Some(_) => Saved::Lost,
                    };
                    let base = match row.cfa() {
                        &CfaRule::RegisterAndOffset { register, offset } => {
                            let base = match register {
                                register if register == self.numbers.sp => Some(Base::StackPointer),
                                register if register == self.numbers.base => Some(Base::FramePointer),
                                _ => None,
                            };
                            base.zip(i32::try_from(offset).ok())
                        }
                        CfaRule::Expression(_) => None,
                    };
                    let returns_by = match row.register(return_addr) {
                        Some(RegisterRule::Register(other)) => Some(other),
                        None | Some(RegisterRule::SameValue) => Some(return_addr),
                        Some(_) => None,
                    };
                    let is_second = returns_by.is_some() && returns_by == self.numbers.second_link;
                    let returns_to = if is_second { Saved::SecondLink } else { saved(return_addr) };
                    let rule = base.map(|(base, cfa_offset_bytes)| Rule {
                        base,
                        cfa_offset_bytes,
                        return_addr: returns_to,
                        frame_pointer: saved(self.numbers.fp),
                    });
                    rules.insert(row.start_address().wrapping_add(self.load_bias), rule);
                }
                Ok(())
            };
            match read() {
                Ok(()) => found.push((start, end, rules)),
                Err(error) => damage = damage.and(Err(error)),
            }
        }
        damage
    }

    /// End of an entry for this code; None: the entry does not belong to this image.
    fn accepted(&self, code: Range<u64>) -> Option<u64> {
        let is_at_zero = code.start == self.load_bias;
        if self.functions.is_empty() {
            let start = code.start.wrapping_sub(self.load_bias);
            let is_code = self.executable.iter().any(|range| range.contains(&start));
            return (is_code && !is_at_zero).then_some(code.end);
        }
        let index = self.functions.binary_search_by_key(&code.start, |function| function.start).ok()?;
        // At address 0, where discarded entries are left, accept only the function's own length, apart from padding.
        if is_at_zero && code.end.saturating_add(MAX_PADDING_BYTES) <= self.functions[index].end {
            return None;
        }
        // An entry that reaches beyond the next function was discarded, although its address is the same.
        let next = self.functions.get(index + 1).map_or(u64::MAX, |function| function.start);
        (code.end <= next).then_some(code.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(load_bias: u64, functions: &[Range<u64>], code: Range<u64>) -> bool {
        let numbers = Numbers { sp: Register(13), fp: Register(7), base: Register(7), second_link: None };
        let executable = std::iter::once(0..0x100).collect();
        Reader { numbers, load_bias, functions, executable }.accepted(code).is_some()
    }

    const FUNCTIONS: [Range<u64>; 2] = [0x1000..0x1020, 0x1020..0x1030];

    #[test]
    fn an_entry_belongs_to_the_function_that_starts_there_and_is_as_long() {
        assert!(accepted(0, &FUNCTIONS, 0x1020..0x1030));
        assert!(accepted(0, &FUNCTIONS, 0x1000..0x101e));
        assert!(!accepted(0, &FUNCTIONS, 0x1000..0x1022));
        assert!(!accepted(0, &FUNCTIONS, 0x1002..0x1020));
    }

    #[test]
    fn at_address_0_only_the_whole_function_is_described() {
        assert!(accepted(0x1000, &FUNCTIONS, 0x1000..0x101e));
        assert!(!accepted(0x1000, &FUNCTIONS, 0x1000..0x1008));
        // At other addresses an entry may cover only the function's beginning.
        assert!(accepted(0, &FUNCTIONS, 0x1000..0x1008));
    }

    #[test]
    fn without_functions_an_entry_is_in_code_and_not_at_0() {
        assert!(accepted(0x1000, &[], 0x1008..0x1010));
        assert!(!accepted(0x1000, &[], 0x1000..0x1010));
        assert!(!accepted(0x1000, &[], 0x1100..0x1110));
        assert!(!accepted(0x1000, &[], 0x10..0x20));
    }
}
