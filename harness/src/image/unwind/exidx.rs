// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads Arm's exception tables: `.ARM.exidx` and `.ARM.extab` ("Exception Handling ABI for the Arm Architecture",
//! sections 6, 7 and 10.3). They describe how to leave a function's body. At the first instruction nothing is saved
//! yet. That is enough: stacks are taken only at the starts of blocks, and a prologue contains no other block start.

use std::ops::Range;

use wire::unwind::{Base, Rule, Saved};

use super::{ENTRY, Rules, section};

const SP: u32 = 13;
const LR: u32 = 14;
const FP: u32 = 7;

/// Reads the functions that have such tables: start, end, rules; load bias included.
pub(super) fn read(file: &object::File<'_>, load_bias: u64, functions: &[Range<u64>]) -> Vec<(u64, u64, Rules)> {
    let Some((address, index)) = section(file, ".ARM.exidx") else { return Vec::new() };
    let (table_address, table) = section(file, ".ARM.extab").unwrap_or_default();
    let mut entries = Vec::new();
    for (number, entry) in index.as_chunks::<8>().0.iter().enumerate() {
        let at = address.wrapping_add(number as u64 * 8);
        let [function, content] = [0, 4].map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|byte| entry[at + byte])));
        let start = (relative(at, function) & !1).wrapping_add(load_bias);
        let opcodes = if content == 1 {
            // EXIDX_CANTUNWIND
            None
        } else if content >> 31 == 1 {
            Some(inline(content))
        } else {
            relative(at.wrapping_add(4), content)
                .checked_sub(table_address)
                .and_then(|offset| table.get(usize::try_from(offset).ok()?..))
                .and_then(out_of_line)
        };
        entries.push((start, opcodes.and_then(|opcodes| rule(&opcodes))));
    }
    let mut found = Vec::new();
    for (number, &(start, body)) in entries.iter().enumerate() {
        let Some(body) = body else { continue };
        // An entry holds up to the next one, since the linker leaves out an entry that equals the one before. Linkers
        // add the last entry to mark the end of the code.
        let end = entries.get(number + 1).map_or(start.saturating_add(1), |&(next, _)| next);
        let first = functions.partition_point(|function| function.start < start);
        let covered = functions[first..].iter().take_while(|function| function.start < end);
        found.extend(covered.map(|&Range { start, end }| {
            (start, end, Rules::from([(start, Some(ENTRY)), (start.saturating_add(2), Some(body))]))
        }));
    }
    found
}

/// Resolves a 31-bit offset from its own address (prel31).
fn relative(at: u64, word: u32) -> u64 {
    let offset = ((word << 1) as i32) >> 1;
    at.wrapping_add_signed(offset.into()) & 0xffff_ffff
}

/// Three opcodes of the short form.
fn inline(word: u32) -> Vec<u8> {
    word.to_be_bytes()[1..].to_vec()
}

/// Opcodes of an entry in `.ARM.extab`: personality routines 0 to 2, or a language's own, whose data gcc writes in
/// the form of routine 1.
fn out_of_line(entry: &[u8]) -> Option<Vec<u8>> {
    let words: Vec<u32> = entry.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).take(64).collect();
    let (&first, rest) = words.split_first()?;
    let (mut opcodes, more, rest) = if first >> 31 == 0 {
        let (&data, rest) = rest.split_first()?;
        (data.to_be_bytes()[1..].to_vec(), data >> 24, rest)
    } else {
        match first >> 24 & 0xf {
            0 => return Some(inline(first)),
            1 | 2 => (first.to_be_bytes()[2..].to_vec(), first >> 16 & 0xff, rest),
            _ => return None,
        }
    };
    let more = rest.get(..more as usize)?;
    opcodes.extend(more.iter().flat_map(|word| word.to_be_bytes()));
    Some(opcodes)
}

/// Executes the opcodes (table 4 of the specification) on an unknown stack pointer. The result gives the frame's end
/// and the places of lr and r7 in it.
fn rule(opcodes: &[u8]) -> Option<Rule> {
    let mut base = Base::StackPointer;
    let mut vsp = 0_i32;
    let mut saved: [Option<i32>; 16] = [None; 16];
    let mut bytes = opcodes.iter().copied();
    let mut pop = |mask: u32, vsp: &mut i32| {
        for register in (0..16).filter(|register| mask >> register & 1 == 1) {
            saved[register] = Some(*vsp);
            *vsp = vsp.wrapping_add(4);
        }
    };
    while let Some(opcode) = bytes.next() {
        let low = u32::from(opcode);
        match opcode {
            0x00..=0x3f => vsp = vsp.checked_add(((low as i32) << 2) + 4)?,
            0x40..=0x7f => vsp = vsp.checked_sub((((low & 0x3f) as i32) << 2) + 4)?,
            0x80..=0x8f => {
                let mask = (low & 0xf) << 12 | u32::from(bytes.next()?) << 4;
                // Zero means "refuse to unwind". A popped sp has no fixed place.
                if mask == 0 || mask >> SP & 1 == 1 {
                    return None;
                }
                pop(mask, &mut vsp);
            }
            0x97 => (base, vsp) = (Base::FramePointer, 0),
            // vsp = another register: unsupported.
            0x90..=0x9f => return None,
            0xa0..=0xaf => {
                let registers = (1 << ((low & 7) + 1)) - 1;
                pop(registers << 4 | (low >> 3 & 1) << LR, &mut vsp);
            }
            0xb0 => break,
            0xb1 => pop(u32::from(bytes.next()?) & 0xf, &mut vsp),
            0xb2 => {
                let (mut value, mut shift) = (0_i32, 0);
                loop {
                    let byte = bytes.next()?;
                    value |= i32::from(byte & 0x7f).checked_shl(shift)?;
                    shift += 7;
                    if byte & 0x80 == 0 {
                        break;
                    }
                }
                vsp = vsp.checked_add(0x204)?.checked_add(value.checked_mul(4)?)?;
            }
            // Double registers, saved by FSTMFDX, or by VPUSH.
            0xb3 => vsp = vsp.checked_add(i32::from(bytes.next()? & 0xf) * 8 + 12)?,
            0xb8..=0xbf => vsp = vsp.checked_add((low as i32 & 7) * 8 + 12)?,
            0xc8 | 0xc9 => vsp = vsp.checked_add(i32::from(bytes.next()? & 0xf) * 8 + 8)?,
            0xd0..=0xd7 => vsp = vsp.checked_add((low as i32 & 7) * 8 + 8)?,
            _ => return None,
        }
    }
    let place = |register: u32| match saved[register as usize] {
        Some(at) => Saved::AtCfa(at.wrapping_sub(vsp)),
        None => Saved::Register,
    };
    Some(Rule { base, cfa_offset_bytes: vsp, return_addr: place(LR), frame_pointer: place(FP) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(base: Base, cfa_offset_bytes: i32, lr: Option<i32>, fp: Option<i32>) -> Option<Rule> {
        let saved = |at: Option<i32>| at.map_or(Saved::Register, Saved::AtCfa);
        Some(Rule { base, cfa_offset_bytes, return_addr: saved(lr), frame_pointer: saved(fp) })
    }

    #[test]
    fn opcodes_say_where_the_frame_ends_and_what_it_keeps() {
        // pop {r4, lr}
        assert_eq!(rule(&[0xa8, 0xb0, 0xb0]), at(Base::StackPointer, 8, Some(-4), None));
        // add sp, #16; pop {r4-r7, lr}
        assert_eq!(rule(&[0x03, 0xab, 0xb0]), at(Base::StackPointer, 36, Some(-4), Some(-8)));
        // mov sp, r7; add sp, #8; pop {r7, lr}
        assert_eq!(rule(&[0x97, 0x01, 0x84, 0x08]), at(Base::FramePointer, 16, Some(-4), Some(-8)));
        // add sp, #0x204 + 4 * 0x81; pop {lr}; pop {r0-r3}
        assert_eq!(
            rule(&[0xb2, 0x81, 0x01, 0x84, 0x00, 0xb1, 0x0f]),
            at(Base::StackPointer, 0x204 + 0x204 + 20, Some(-20), None)
        );
        // vpop {d8-d9}; nothing saved
        assert_eq!(rule(&[0xd1]), at(Base::StackPointer, 16, None, None));
        assert_eq!(rule(&[0xb0]), at(Base::StackPointer, 0, None, None));
    }

    #[test]
    fn what_has_no_fixed_place_is_no_rule() {
        // The last one is larger than memory.
        let too_large = [0xb2, 0xfe, 0xfe, 0xff, 0xff, 0x01, 0x3f];
        for opcodes in [&[0x80, 0x00][..], &[0x9b], &[0xa2, 0xb2], &[0x82, 0x00], &[0xff], &[0x84], &too_large] {
            assert_eq!(rule(opcodes), None, "{opcodes:x?}");
        }
    }
}
