// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts that single instructions show about stacks other than the function's own, and about pointers that were just
//! loaded.

use decode::{Flow, Isa};

use super::super::Code;
use super::state::{State, Value};
use super::{bits, execute, halves};

/// Armv7-M Architecture Reference Manual, B5.2.2 and B5.2.3: `mrs`, `msr` with the process and the main stack pointer.
const MSP: u32 = 8;
const PSP: u32 = 9;

/// Bytes that an instruction stores below a register that is not the stack pointer: `stmdb`, `vstmdb` (A7.7).
pub(super) fn stores_below(isa: Isa, bytes: &[u8]) -> u64 {
    let (low, high) = halves(bytes);
    let stored = match low {
        _ if isa.is_riscv() || bits(low, 3, 0) == 13 => 0,
        _ if low & 0xffd0 == 0xe900 => high.count_ones() * 4,
        // vstmdb
        _ if low & 0xffb0 == 0xed20 && high & 0xe00 == 0xa00 => (high & 0xff) * 4,
        _ => 0,
    };
    stored.into()
}

/// Number that an instruction subtracts from a register that is not the stack pointer: `subs`, `sub.w`, `subw` with
/// small numbers (A7.7).
pub(super) fn subtracts(isa: Isa, bytes: &[u8]) -> u64 {
    let (low, high) = halves(bytes);
    let number = match low {
        _ if isa.is_riscv() => 0,
        _ if low & 0xfe00 == 0x1e00 => bits(low, 8, 6),
        _ if low & 0xf800 == 0x3800 => low & 0xff,
        _ if bits(low, 3, 0) == 13 => 0,
        _ if (low & 0xfbe0 == 0xf1a0 || low & 0xfbf0 == 0xf2a0) && high & 0x7000 == 0 => high & 0xff,
        _ => 0,
    };
    number.into()
}

/// Whether an instruction reads a Cortex-M's process stack pointer.
pub(super) fn reads_process_stack(isa: Isa, bytes: &[u8]) -> bool {
    let (low, high) = halves(bytes);
    isa.is_thumb() && low == 0xf3ef && high & 0xf0ff == 0x8000 | PSP
}

/// Whether an instruction reads or sets a Cortex-M's process stack pointer.
pub(super) fn uses_process_stack(isa: Isa, bytes: &[u8]) -> bool {
    let (low, high) = halves(bytes);
    reads_process_stack(isa, bytes) || (isa.is_thumb() && low & 0xfff0 == 0xf380 && high == 0x8800 | PSP)
}

/// Register from which an instruction sets a Cortex-M's main stack pointer.
pub(super) fn sets_main_stack(isa: Isa, bytes: &[u8]) -> Option<usize> {
    let (low, high) = halves(bytes);
    (isa.is_thumb() && low & 0xfff0 == 0xf380 && high == 0x8800 | MSP).then_some(bits(low, 3, 0) as usize)
}

/// Distances from which the registers were loaded since the last transfer of control: a call through such a register
/// goes to an entry of a table.
pub(super) struct Loads {
    from: [Option<Loaded>; 32],
}

/// Origin of a register's value.
#[derive(Clone, Copy)]
enum Loaded {
    /// Memory at a place of which nothing is known.
    Somewhere,
    /// Memory at this distance from an address that was loaded itself, so that nothing was added to it.
    At(i32),
}

impl Loads {
    pub(super) fn none() -> Loads {
        Loads { from: [None; 32] }
    }

    /// Distance at which a register's value was loaded.
    pub(super) fn of(&self, register: u8) -> Option<i32> {
        match self.from.get(usize::from(register)) {
            Some(&Some(Loaded::At(distance_bytes))) => Some(distance_bytes),
            _ => None,
        }
    }

    /// Takes the next instruction of straight-line code.
    pub(super) fn execute(&mut self, code: &Code<'_>, pc: u64, bytes: &[u8], flow: Flow) {
        if !matches!(flow, Flow::Next) {
            *self = Loads::none();
            return;
        }
        let mark = |register: usize| Value::Constant(0x5a5a_0000 + register as i32);
        let mut state = State::entry(code.isa);
        (0..32).for_each(|register| state.set(register, mark(register)));
        execute(code, pc, bytes, &mut state);
        let loaded = load(code.isa, bytes).map(|(register, base, distance_bytes)| {
            let is_table = self.from[base].is_some();
            (register, if is_table { Loaded::At(distance_bytes) } else { Loaded::Somewhere })
        });
        for (register, from) in self.from.iter_mut().enumerate() {
            if state.get(register) != mark(register) {
                *from = None;
            }
        }
        if let Some((register, from)) = loaded {
            self.from[register] = Some(from);
        }
    }
}

/// Register, base and distance of a load of a pointer: `ldr rt, [rn, #distance]`, `lw`, `ld`.
fn load(isa: Isa, bytes: &[u8]) -> Option<(usize, usize, i32)> {
    let (low, high) = halves(bytes);
    let field = |value: u32, high: u32, low: u32| bits(value, high, low) as usize;
    if !isa.is_riscv() {
        return match low {
            0x6800..=0x6fff => Some((field(low, 2, 0), field(low, 5, 3), bits(low, 10, 6) as i32 * 4)),
            _ if low & 0xfff0 == 0xf8d0 => Some((field(high, 15, 12), field(low, 3, 0), (high & 0xfff) as i32)),
            _ => None,
        };
    }
    let word = low | high << 16;
    let is_long = isa.is_riscv64();
    let (short, short_base) = (8 + field(low, 4, 2), 8 + field(low, 9, 7));
    match low & 3 {
        3 if word & 0x7f == 3 && bits(word, 14, 12) == if is_long { 3 } else { 2 } => {
            Some((field(word, 11, 7), field(word, 19, 15), (word as i32) >> 20))
        }
        // c.ld, c.lw
        0 if is_long && bits(low, 15, 13) == 3 => {
            Some((short, short_base, (bits(low, 12, 10) << 3 | bits(low, 6, 5) << 6) as i32))
        }
        0 if !is_long && bits(low, 15, 13) == 2 => {
            let distance_bytes = bits(low, 5, 5) << 6 | bits(low, 12, 10) << 3 | bits(low, 6, 6) << 2;
            Some((short, short_base, distance_bytes as i32))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Hints;
    use super::super::testing::of_code;
    use super::*;

    fn code(halves: &[u16]) -> Vec<u8> {
        halves.iter().flat_map(|half| half.to_le_bytes()).collect()
    }

    #[test]
    fn what_a_switch_saves_on_a_tasks_stack_is_counted_and_pushes_are_not() {
        let both = |halves: &[u16]| {
            let bytes = code(halves);
            (stores_below(Isa::ThumbV7m, &bytes), subtracts(Isa::ThumbV7m, &bytes))
        };
        // stmdb r2!, {r4-r11, lr}; vstmdb r0!, {s16-s31}; subs r0, #32; sub.w r0, r0, #16
        assert_eq!([both(&[0xe922, 0x4ff0]), both(&[0xed20, 0x8a10])], [(36, 0), (64, 0)]);
        assert_eq!([both(&[0x3820]), both(&[0xf1a0, 0x0010])], [(0, 32), (0, 16)]);
        // push.w {r4-r8}; sub sp, #8; sub.w sp, sp, #64
        assert_eq!([both(&[0xe92d, 0x01f0]), both(&[0xb082]), both(&[0xf1ad, 0x0d40])], [(0, 0); 3]);
        assert!(reads_process_stack(Isa::ThumbV7m, &code(&[0xf3ef, 0x8209])));
        assert!(!reads_process_stack(Isa::ThumbV7m, &code(&[0xf3ef, 0x8008])));
        assert_eq!(sets_main_stack(Isa::ThumbV7m, &code(&[0xf383, 0x8808])), Some(3));
    }

    #[test]
    fn a_load_of_a_pointer_has_its_distance() {
        // ldr r3, [r3, #8]; ldr.w r12, [r0, #260]; lw a5, 12(a5); c.ld a5, 16(a5); c.lw a5, 4(a5); blx r3
        assert_eq!(load(Isa::ThumbV7m, &code(&[0x689b])), Some((3, 3, 8)));
        assert_eq!(load(Isa::ThumbV7m, &code(&[0xf8d0, 0xc104])), Some((12, 0, 260)));
        assert_eq!(load(Isa::Riscv32, &code(&[0xa783, 0x00c7])), Some((15, 15, 12)));
        assert_eq!(load(Isa::Riscv64, &code(&[0x6b9c])), Some((15, 15, 16)));
        assert_eq!(load(Isa::Riscv32, &code(&[0x43dc])), Some((15, 15, 4)));
        assert_eq!(load(Isa::ThumbV7m, &code(&[0x4798])), None);
    }

    #[test]
    fn a_distance_is_known_only_from_an_address_that_was_just_loaded() {
        let distance = |halves: &[u16]| {
            let segments = of_code(halves);
            let code = Code { isa: Isa::ThumbV7m, segments: &segments, load_bias: 0, hints: Hints::default() };
            let mut loads = Loads::none();
            for pc in (0..2 * halves.len() as u64).step_by(2) {
                loads.execute(&code, pc, code.bytes(pc).unwrap(), Flow::Next);
            }
            loads.of(3)
        };
        // ldr r3, [r0]; ldr r3, [r3, #8]
        assert_eq!(distance(&[0x6803, 0x689b]), Some(8));
        // ldr r3, [r0]; adds r3, #8; ldr r3, [r3]: as gcc does without optimisation
        assert_eq!(distance(&[0x6803, 0x3308, 0x681b]), None);
        // ldr r3, [r0, #8]; and then movs r3, #1
        assert_eq!(distance(&[0x6883]), None);
        assert_eq!(distance(&[0x6803, 0x689b, 0x2301]), None);
    }
}
