// SPDX-License-Identifier: MIT OR Apache-2.0
//! AVR's rules, from the instructions: compilers describe a frame as it is made and not as it is taken down, and many
//! Arduino builds describe none. Where the instructions do not tell, DWARF's rules hold.
//!
//! A call leaves its return address on the stack, so that the canonical frame address, which is the caller's stack pointer,
//! lies two or three bytes above the stack pointer at the entry ([`Isa::call_bytes`]). The frame pointer is Y (r28 and r29).

use std::collections::BTreeMap;
use std::ops::Range;

use decode::{Flow, Isa, decode};
use wire::unwind::{Base, Rule, Saved};

use super::{Code, Rules, Table, cfi, rows};
use crate::image::Segment;

/// Numbers of Y's halves.
const Y: [u32; 2] = [28, 29];

/// I/O addresses of the stack pointer's halves.
const SP: [u32; 2] = [0x3d, 0x3e];

/// First instructions of libgcc's `__prologue_saves__` (`push r2`) and `__epilogue_restores__` (`ldd r2, Y+18`). A function
/// jumps into the first one with the address to go on at in Z and the size of its frame in X, and into the second one to
/// return (`-mcall-prologues`).
const PROLOGUE_SAVES: u16 = 0x922f;
const EPILOGUE_RESTORES: u16 = 0x882a;

/// `in r28, SPL`, which follows the prologue's pushes.
const IN_R28_SPL: u16 = 0xb7cd;

/// `sub r28, r26`, by which `__prologue_saves__` makes the frame. A function that pushes all registers itself has a frame of
/// its own size.
const SUB_R28_R26: u16 = 0x1bca;

/// `sbc r29, r1`: compilers keep zero in r1.
const SBC_R29_ZERO: u32 = 0x09d1;

/// Registers that say what `__prologue_saves__` is to do: X and Z.
const ORDERS: [u32; 4] = [26, 27, 30, 31];

/// Makes the table, see [`super::table`].
pub(super) fn table(elf: Option<&[u8]>, isa: Isa, segments: &[Segment], functions: &[Range<u64>]) -> Table {
    let mut table = Table::default();
    let file = elf.and_then(|bytes| object::File::parse(bytes).ok());
    let code = Code { isa, segments, load_bias: 0, hints: Default::default() };
    let mut known: BTreeMap<u64, (u64, Rules)> = BTreeMap::new();
    if let Some(file) = &file {
        let described = cfi::read(file, isa, 0, functions, &mut table.warnings);
        known.extend(described.into_iter().map(|(start, end, rules)| (start, (end, rules))));
    }
    for function in functions {
        if let Some(rules) = read(&code, function, functions) {
            known.insert(function.start, (function.end, rules));
        }
    }
    table.rows = rows(&known);
    table
}

/// Content of a half of Y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    /// The caller's.
    Callers,
    /// The half of the stack pointer at this depth.
    Frame(i32),
    /// The lower half of the stack pointer at this depth, minus a number whose upper half has yet to be subtracted.
    Reduced(i32, u32),
    /// Unknown.
    Other,
}

/// State before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    /// Size of a return address.
    call_bytes: i32,
    /// Bytes on the stack since the entry; None: unknown, as while the halves of the stack pointer are set.
    depth: Option<i32>,
    y: [Half; 2],
    /// Places where the caller's halves of Y are saved, by their distance from the canonical frame address.
    saved: [Option<i32>; 2],
    /// Constants in the registers of [`ORDERS`].
    orders: [Option<u8>; 4],
}

impl State {
    /// State at a function's entry.
    fn entry(isa: Isa) -> State {
        let call_bytes = isa.call_bytes().into();
        State { call_bytes, depth: Some(0), y: [Half::Callers; 2], saved: [None; 2], orders: [None; 4] }
    }

    /// Depth of the stack that Y points to.
    fn frame(&self) -> Option<i32> {
        match self.y {
            [Half::Frame(low), Half::Frame(high)] if low == high => Some(low),
            _ => None,
        }
    }

    fn rule(&self) -> Option<Rule> {
        let on_sp = self.depth.map(|depth| (Base::StackPointer, depth));
        let (base, depth) = on_sp.or(self.frame().map(|depth| (Base::FramePointer, depth)))?;
        let frame_pointer = match (self.y, self.saved) {
            ([Half::Callers, Half::Callers], _) => Saved::Register,
            // Pushed one after the other, they are a word like a return address.
            (_, [Some(low), Some(high)]) if high == low - 1 => Saved::AtCfa(high),
            _ => Saved::Lost,
        };
        Some(Rule {
            base,
            cfa_offset_bytes: depth + self.call_bytes,
            return_addr: Saved::AtCfa(1 - self.call_bytes),
            frame_pointer,
        })
    }

    /// State after an instruction that is not a call.
    fn after(mut self, insn: u32) -> State {
        let register = insn >> 4 & 0x1f;
        let half = Y.iter().position(|&half| half == register);
        let immediate = insn >> 4 & 0xf0 | insn & 0xf;
        let pair_immediate = (insn >> 2 & 0x30 | insn & 0xf) as i32;
        match insn {
            // push
            _ if insn & 0xfe0f == 0x920f => {
                if let (Some(half), Some(depth)) = (half, self.depth)
                    && self.y[half] == Half::Callers
                {
                    self.saved[half] = Some(-self.call_bytes - depth);
                }
                self.depth = self.depth.map(|depth| depth + 1);
            }
            // pop
            _ if insn & 0xfe0f == 0x900f => {
                self.depth = self.depth.map(|depth| depth - 1);
                if let Some(half) = half {
                    let place = self.depth.map(|depth| -self.call_bytes - depth);
                    let is_callers = place.is_some() && self.saved[half] == place;
                    self.y[half] = if is_callers { Half::Callers } else { Half::Other };
                }
            }
            // in from a half of the stack pointer
            _ if insn & 0xf800 == 0xb000 && half.is_some_and(|half| io(insn) == SP[half]) => {
                let half = half.unwrap_or(0);
                self.y[half] = self.depth.map_or(Half::Other, Half::Frame);
            }
            // out to a half of the stack pointer; compilers write the upper half first
            _ if insn & 0xf800 == 0xb800 && SP.contains(&io(insn)) => {
                let frame = self.frame().filter(|_| half.is_some_and(|half| io(insn) == SP[half]));
                let is_done = frame.is_some() && (io(insn) == SP[0] || self.depth == frame);
                self.depth = frame.filter(|_| is_done);
            }
            // adiw, sbiw to Y
            _ if insn & 0xfe30 == 0x9620 => {
                let more = if insn & 0x0100 == 0 { -pair_immediate } else { pair_immediate };
                self.set_frame(self.frame().map(|depth| depth + more));
            }
            // subi r28, then sbci r29, or sbc r29 with the register that is zero
            _ if insn & 0xf0f0 == 0x50c0 => {
                self.y[0] = match self.y[0] {
                    Half::Frame(depth) => Half::Reduced(depth, immediate),
                    _ => Half::Other,
                };
            }
            _ if insn & 0xf0f0 == 0x40d0 || insn == SBC_R29_ZERO => {
                let high_byte = if insn == SBC_R29_ZERO { 0 } else { immediate };
                let depth = match self.y {
                    [Half::Reduced(low, by), Half::Frame(high)] if low == high => {
                        Some(low + i32::from((high_byte << 8 | by) as u16 as i16))
                    }
                    _ => None,
                };
                self.set_frame(depth);
            }
            _ => {
                for (half, register) in Y.into_iter().enumerate() {
                    if writes(insn, register) {
                        self.y[half] = Half::Other;
                    }
                }
                for (order, register) in self.orders.iter_mut().zip(ORDERS) {
                    if writes(insn, register) {
                        *order = (insn >> 12 == 0xe).then_some(immediate as u8);
                    }
                }
            }
        }
        self
    }

    fn set_frame(&mut self, depth: Option<i32>) {
        self.y = [depth.map_or(Half::Other, Half::Frame); 2];
    }
}

/// I/O address of `in` and `out`.
fn io(insn: u32) -> u32 {
    insn >> 5 & 0x30 | insn & 0xf
}

/// Whether an instruction writes one of the halves of Y.
fn writes(insn: u32, register: u32) -> bool {
    let (any, high, pair) = (insn >> 4 & 0x1f, 16 + (insn >> 4 & 0xf), 2 * (insn >> 4 & 0xf));
    match insn >> 12 {
        // movw; sbc, add (cpc and the multiplications write neither); sub, adc; and, eor, or, mov.
        0x0 => match insn >> 8 {
            0x1 => pair == register & !1,
            0x8..=0xf => any == register,
            _ => false,
        },
        0x1 => insn >> 10 >= 6 && any == register,
        0x2 => any == register,
        // sbci, subi, ori, andi, ldi; not cpi.
        0x4..=0x7 | 0xe => high == register,
        // Loads with displacement.
        0x8 | 0xa => insn & 0x0200 == 0 && any == register,
        0x9 => match insn >> 8 & 0xf {
            // Loads; also those that move Y.
            0x0 | 0x1 => any == register || matches!(insn & 0xf, 0x9 | 0xa),
            0x2 | 0x3 => matches!(insn & 0xf, 0x9 | 0xa),
            0x4 | 0x5 => matches!(insn & 0xf, 0..=3 | 5..=7 | 0xa) && any == register,
            _ => false,
        },
        0xb => insn & 0x0800 == 0 && any == register,
        // bld
        0xf => insn & 0xfe08 == 0xf800 && any == register,
        _ => false,
    }
}

/// Rules of a function from its instructions; None: they do not tell.
fn read(code: &Code<'_>, function: &Range<u64>, functions: &[Range<u64>]) -> Option<Rules> {
    if matches!(code.half(function.start), Some(PROLOGUE_SAVES | EPILOGUE_RESTORES))
        && is_entered_in_middle(code, function)
    {
        return None;
    }
    let mut walk = Walk { code, function, functions, states: BTreeMap::new(), open: Vec::new(), left_in: None };
    walk.open.push((function.start, State::entry(code.isa)));
    walk.go_on()?;
    // What no jump names is reached through a table.
    let mut pc = function.start;
    while pc < function.end
        && let Some(bytes) = code.bytes(pc)
    {
        if let Some(state) = walk.left_in.filter(|_| !walk.states.contains_key(&pc)) {
            walk.open.push((pc, state));
            walk.go_on()?;
        }
        pc += u64::from(decode(code.isa, pc, bytes).len_bytes);
    }
    Some(walk.states.into_iter().map(|(pc, state)| (pc, state.rule())).collect())
}

/// Whether a function is one of libgcc's two, which save or restore all that functions may have to, one after the other.
fn is_entered_in_middle(code: &Code<'_>, function: &Range<u64>) -> bool {
    // r2 to r17, r28, r29.
    let registers = || (2..18).chain([28, 29]);
    let pushes = registers()
        .zip(0..)
        .all(|(register, index)| code.half(function.start + 2 * index) == Some(0x920f | register << 4))
        && code.half(function.start + 2 * (18 + 2)) == Some(SUB_R28_R26);
    let is_load = |insn: u16| insn & 0xd208 == 0x8008;
    let loads = (0..18).all(|index| code.half(function.start + 2 * index).is_some_and(is_load));
    pushes || loads
}

/// Walk through the instructions of a function.
struct Walk<'a> {
    code: &'a Code<'a>,
    function: &'a Range<u64>,
    functions: &'a [Range<u64>],
    /// State before each instruction that was reached.
    states: BTreeMap<u64, State>,
    open: Vec<(u64, State)>,
    /// State at the last jump whose targets are not in the function, or not known.
    left_in: Option<State>,
}

impl Walk<'_> {
    /// Walks until nothing is open. None: the function's frame is made elsewhere.
    fn go_on(&mut self) -> Option<()> {
        while let Some((pc, state)) = self.open.pop() {
            if !self.function.contains(&pc) || self.states.contains_key(&pc) {
                continue;
            }
            let Some(bytes) = self.code.bytes(pc).filter(|bytes| bytes.len() >= 2) else { continue };
            self.states.insert(pc, state);
            let insn = decode(self.code.isa, pc, bytes);
            let word = u16::from_le_bytes([bytes[0], bytes[1]]).into();
            let next = pc + u64::from(insn.len_bytes);
            let after = state.after(word);
            match insn.flow {
                Flow::Next => self.open.push((next, after)),
                Flow::It { .. } => {
                    let skipped =
                        self.code.bytes(next).map_or(2, |bytes| decode(self.code.isa, next, bytes).len_bytes);
                    self.open.extend([(next + u64::from(skipped), after), (next, after)]);
                }
                // A call of the next instruction makes room for as many bytes as a return address.
                Flow::Call { target } if target == next => {
                    let depth = state.depth.map(|depth| depth + state.call_bytes);
                    self.open.push((next, State { depth, ..state }));
                }
                Flow::Call { .. } | Flow::IndirectCall { .. } => self.open.push((next, state)),
                Flow::Branch { target } => self.open.extend([(target, state), (next, state)]),
                Flow::Jump { target } => self.jump(target, state)?,
                Flow::ComputedJump | Flow::IndirectJump { .. } => self.left_in = Some(state),
                Flow::Return => {}
            }
        }
        Some(())
    }

    fn jump(&mut self, target: u64, state: State) -> Option<()> {
        if self.function.contains(&target) {
            self.open.push((target, state));
            return Some(());
        }
        let after = self.functions.partition_point(|function| function.start <= target);
        let leads_to = after.checked_sub(1).map(|index| &self.functions[index]);
        let is_prologue = |function: &&Range<u64>| self.code.half(function.start) == Some(PROLOGUE_SAVES);
        if leads_to.filter(is_prologue).is_some_and(|function| is_entered_in_middle(self.code, function)) {
            return self.save(target, state);
        }
        self.left_in = Some(state);
        Some(())
    }

    /// Goes on behind a jump into `__prologue_saves__`. None: what it is to do is not known.
    fn save(&mut self, mut pc: u64, mut state: State) -> Option<()> {
        let [Some(frame_low), Some(frame_high), Some(next_low), Some(next_high)] = state.orders else { return None };
        while let Some(push) = self.code.half(pc).filter(|insn| insn & 0xfe0f == 0x920f) {
            state = state.after(push.into());
            pc += 2;
        }
        if self.code.half(pc) != Some(IN_R28_SPL) {
            return None;
        }
        state.depth = Some(state.depth? + i32::from(u16::from_le_bytes([frame_low, frame_high])));
        state.set_frame(state.depth);
        self.open.push((2 * u64::from(u16::from_le_bytes([next_low, next_high])), state));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules of a function with these instructions.
    fn rules(insns: &[u16]) -> Vec<(u64, Option<Rule>)> {
        rules_of(Isa::AvrPc16, insns)
    }

    fn rules_of(isa: Isa, insns: &[u16]) -> Vec<(u64, Option<Rule>)> {
        let data: Vec<u8> = insns.iter().flat_map(|insn| insn.to_le_bytes()).collect();
        let bytes = data.len() as u64;
        let segment =
            Segment { load_addr: 0x100, run_addr: 0x100, data, mem_bytes: bytes, executable: true, writable: false };
        let segments = [segment];
        let code = Code { isa, segments: &segments, load_bias: 0, hints: Default::default() };
        let function = 0x100..0x100 + bytes;
        read(&code, &function, std::slice::from_ref(&function)).unwrap().into_iter().collect()
    }

    const ENTRY: Rule = Rule {
        base: Base::StackPointer,
        cfa_offset_bytes: 2,
        return_addr: Saved::AtCfa(-1),
        frame_pointer: Saved::Register,
    };

    #[test]
    fn a_frame_is_followed_from_its_making_to_its_end() {
        // push r28; push r29; in r28, SPL; in r29, SPH; sbiw r28, 60; in r0, SREG; cli; out SPH, r29; out SREG, r0;
        // out SPL, r28; adiw r28, 60; out SPH, r29; out SPL, r28; pop r29; pop r28; ret
        let found = rules(&[
            0x93cf, 0x93df, 0xb7cd, 0xb7de, 0x97ec, 0xb60f, 0x94f8, 0xbfde, 0xbe0f, 0xbfcd, 0x96ec, 0xbfde, 0xbfcd,
            0x91df, 0x91cf, 0x9508,
        ]);
        let on_sp = |depth: i32, frame_pointer| Some(Rule { cfa_offset_bytes: depth + 2, frame_pointer, ..ENTRY });
        let on_y = |depth: i32| {
            Some(Rule {
                base: Base::FramePointer,
                cfa_offset_bytes: depth + 2,
                frame_pointer: Saved::AtCfa(-3),
                ..ENTRY
            })
        };
        let saved = Saved::AtCfa(-3);
        let expected = [
            on_sp(0, Saved::Register),
            on_sp(1, Saved::Register),
            on_sp(2, Saved::Register),
            // Half of Y is the caller's.
            on_sp(2, saved),
            on_sp(2, saved),
            on_sp(2, saved),
            on_sp(2, saved),
            on_sp(2, saved),
            // The stack pointer has one half of each.
            on_y(62),
            on_y(62),
            on_sp(62, saved),
            on_sp(62, saved),
            on_y(2),
            on_sp(2, saved),
            on_sp(1, saved),
            on_sp(0, Saved::Register),
        ];
        assert_eq!(found.iter().map(|(_, rule)| *rule).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_return_address_of_three_bytes_lies_above_the_frame() {
        // push r28; push r29; rcall .+0; in r28, SPL; in r29, SPH; pop r0; pop r0; pop r0; pop r29; pop r28; ret
        let found = rules_of(
            Isa::AvrPc22,
            &[0x93cf, 0x93df, 0xd000, 0xb7cd, 0xb7de, 0x900f, 0x900f, 0x900f, 0x91df, 0x91cf, 0x9508],
        );
        let depths: Vec<i32> =
            found.iter().filter_map(|(_, rule)| Some(rule.as_ref()?.cfa_offset_bytes - 3)).collect();
        assert_eq!(depths, [0, 1, 2, 5, 5, 5, 4, 3, 2, 1, 0]);
        let saved: Vec<Rule> = found.iter().filter_map(|(_, rule)| *rule).collect();
        assert!(saved.iter().all(|rule| rule.return_addr == Saved::AtCfa(-2)));
        assert_eq!(saved[4].frame_pointer, Saved::AtCfa(-4));
    }

    #[test]
    fn a_skipped_jump_and_a_call_of_the_next_instruction_are_followed() {
        // rcall .+0; sbrs r24, 0; rjmp .+2; push r16; ret
        let found = rules(&[0xd000, 0xff80, 0xc001, 0x930f, 0x9508]);
        let depths: Vec<i32> =
            found.iter().filter_map(|(_, rule)| Some(rule.as_ref()?.cfa_offset_bytes - 2)).collect();
        assert_eq!(depths[..4], [0, 2, 2, 2]);
        assert_eq!(found.len(), 5);
    }

    #[test]
    fn what_a_table_leads_to_has_the_frame_of_the_jump() {
        // push r16; ijmp; pop r16; ret
        let found = rules(&[0x930f, 0x9409, 0x910f, 0x9508]);
        let depths: Vec<i32> =
            found.iter().filter_map(|(_, rule)| Some(rule.as_ref()?.cfa_offset_bytes - 2)).collect();
        assert_eq!(depths, [0, 1, 1, 0]);
    }

    #[test]
    fn a_frame_that_libgcc_makes_is_known() {
        let prologue: Vec<u16> = (2..18).chain([28, 29]).map(|register| 0x920f | register << 4).collect();
        // ldi r26, 80; ldi r27, 0; ldi r30, lo; ldi r31, hi; rjmp __prologue_saves__ + 2 * 16; nop; ret
        let function = [0xe5a0, 0xe0b0, 0xe8e5, 0xe0f0, 0xc012, 0x0000, 0x9508];
        let code: Vec<u16> =
            function.into_iter().chain(prologue).chain([0xb7cd, 0xb7de, SUB_R28_R26, 0x0bdb, 0x9409]).collect();
        let data: Vec<u8> = code.iter().flat_map(|insn| insn.to_le_bytes()).collect();
        let bytes = data.len() as u64;
        let segments = [Segment {
            load_addr: 0x100,
            run_addr: 0x100,
            data,
            mem_bytes: bytes,
            executable: true,
            writable: false,
        }];
        let code = Code { isa: Isa::AvrPc16, segments: &segments, load_bias: 0, hints: Default::default() };
        let functions = [0x100..0x10e, 0x10e..0x100 + bytes];
        let rules = read(&code, &functions[0], &functions).unwrap();
        let expected = Rule { cfa_offset_bytes: 2 + 2 + 80, frame_pointer: Saved::AtCfa(-3), ..ENTRY };
        assert_eq!(rules[&0x10a], Some(expected));
        assert_eq!(read(&code, &functions[1], &functions), None);
    }

    #[test]
    fn a_function_that_pushes_all_registers_is_not_libgccs() {
        // push r2 to r17, r28, r29; in r28, SPL; in r29, SPH; sbiw r28, 10; ret
        let pushes = (2..18).chain([28, 29]).map(|register| 0x920f | register << 4);
        let insns: Vec<u16> = pushes.chain([0xb7cd, 0xb7de, 0x972a, 0x9508]).collect();
        let found = rules(&insns);
        assert_eq!(found[18].1.unwrap().cfa_offset_bytes, 2 + 18);
    }

    #[test]
    fn a_frame_of_less_than_256_bytes_is_subtracted_with_the_register_that_is_zero() {
        // push r28; push r29; in r28, SPL; in r29, SPH; subi r28, 0x64; sbc r29, r1; out SPH, r29; out SPL, r28; ret
        let found = rules(&[0x93cf, 0x93df, 0xb7cd, 0xb7de, 0x56c4, 0x09d1, 0xbfde, 0xbfcd, 0x9508]);
        assert_eq!(found.last().unwrap().1.unwrap().cfa_offset_bytes, 2 + 2 + 0x64);
    }

    #[test]
    fn a_frame_of_more_than_63_bytes_is_subtracted_by_halves() {
        // push r28; push r29; in r28, SPL; in r29, SPH; subi r28, 0x2c; sbci r29, 1; out SPH, r29; out SPL, r28; ret
        let found = rules(&[0x93cf, 0x93df, 0xb7cd, 0xb7de, 0x52cc, 0x40d1, 0xbfde, 0xbfcd, 0x9508]);
        assert_eq!(found.last().unwrap().1.unwrap().cfa_offset_bytes, 2 + 2 + 0x12c);
    }
}
