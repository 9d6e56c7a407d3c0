//! DWARF call frame information: `.debug_frame` and `.eh_frame` (DWARF 5, 6.4).

use std::ops::Range;

use addr2line::gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EndianSlice, LittleEndian, Register, RegisterRule,
    UnwindContext, UnwindSection,
};
use decode::Isa;
use wire::unwind::{Base, Rule, Saved};

use super::{Rules, section};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// DWARF's numbers of the registers that matter ("DWARF for the Arm Architecture"; "RISC-V ABIs
/// Specification", DWARF Register Numbers).
struct Numbers {
    sp: Register,
    fp: Register,
}

/// The pieces of code that have call frame information: start, end, rules; load bias included. A function's
/// is taken where it begins: what the linker's --gc-sections discarded is left at address 0.
pub(super) fn read(
    file: &object::File<'_>,
    isa: Isa,
    load_bias: u64,
    functions: &[Range<u64>],
    warnings: &mut Vec<String>,
) -> Vec<(u64, u64, Rules)> {
    let numbers = if isa.is_riscv() {
        Numbers { sp: Register(2), fp: Register(8) }
    } else {
        Numbers { sp: Register(13), fp: Register(7) }
    };
    let address_bytes = if isa == Isa::Riscv64 { 8 } else { 4 };
    let reader = Reader { numbers, load_bias, functions };
    let mut found = Vec::new();
    let mut damage = None;
    if let Some((_, bytes)) = section(file, ".debug_frame") {
        let mut frames = DebugFrame::from(EndianSlice::new(&bytes, LittleEndian));
        frames.set_address_size(address_bytes);
        reader.read(&frames, &BaseAddresses::default(), &mut found).unwrap_or_else(|error| damage = Some(error));
    }
    if let Some((address, bytes)) = section(file, ".eh_frame") {
        let mut frames = EhFrame::from(EndianSlice::new(&bytes, LittleEndian));
        frames.set_address_size(address_bytes);
        let text = section(file, ".text").map_or(0, |(address, _)| address);
        let bases = BaseAddresses::default().set_eh_frame(address).set_text(text);
        reader.read(&frames, &bases, &mut found).unwrap_or_else(|error| damage = Some(error));
    }
    if let Some(error) = damage {
        warnings.push(format!(
            "the unwind information is damaged ({error}): some call stacks end at functions that it would cover"
        ));
    }
    found
}

struct Reader<'a> {
    numbers: Numbers,
    load_bias: u64,
    functions: &'a [Range<u64>],
}

impl Reader<'_> {
    /// Reads one section. A damaged entry is left out; the first damage is returned after the rest.
    fn read<'s, S>(
        &self,
        frames: &S,
        bases: &BaseAddresses,
        found: &mut Vec<(u64, u64, Rules)>,
    ) -> Result<(), addr2line::gimli::Error>
    where
        S: UnwindSection<Slice<'s>>,
        S::Offset: addr2line::gimli::UnwindOffset,
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
                                register if register == self.numbers.fp => Some(Base::FramePointer),
                                _ => None,
                            };
                            base.zip(i32::try_from(offset).ok())
                        }
                        CfaRule::Expression(_) => None,
                    };
                    let rule = base.map(|(base, cfa_offset_bytes)| Rule {
                        base,
                        cfa_offset_bytes,
                        return_addr: saved(return_addr),
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

    /// Where an entry for this code ends, if it is one for this image.
    fn accepted(&self, code: Range<u64>) -> Option<u64> {
        if self.functions.is_empty() {
            return (code.start != self.load_bias).then_some(code.end);
        }
        let index = self.functions.binary_search_by_key(&code.start, |function| function.start).ok()?;
        // Not beyond the next function: one of the same address was discarded.
        let next = self.functions.get(index + 1).map_or(u64::MAX, |function| function.start);
        (code.end <= next).then_some(code.end)
    }
}
