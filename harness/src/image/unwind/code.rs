//! Functions without unwind information, most of them assembly: their instructions say how deep the stack
//! is at each of them and where the return address and the frame pointer are saved.
//!
//! The code is followed from each function's start along its jumps, with what is known of the stack; where
//! an instruction sets the stack pointer to something unknown (another stack), nothing is known from there on;
//! where two ways meet, what both of them say. A jump into another such function goes on
//! there: it may be no more than a label.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use decode::{Flow, Isa, decode};
use wire::unwind::{Base, Rule, Saved};

use super::{Code, ENTRY, Rules};

/// What an instruction does to the stack. Offsets are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// sp += n
    MoveSp(i32),
    /// sp is something else now.
    LoseSp,
    /// fp = sp + n
    SetFp(i32),
    /// fp += n
    MoveFp(i32),
    /// sp = fp + n
    SetSp(i32),
    /// memory[sp + n] = register
    Store(Register, i32),
    /// register = memory[sp + n]
    Load(Register, i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Register {
    ReturnAddr,
    FramePointer,
}

/// Rules for the functions among `functions` for which `is_known` is false: start, end, rules.
pub(super) fn read(
    code: &Code<'_>,
    functions: &[Range<u64>],
    is_known: impl Fn(&Range<u64>) -> bool,
) -> Vec<(u64, u64, Rules)> {
    let unknown: Vec<&Range<u64>> = functions.iter().filter(|function| !is_known(function)).collect();
    let mut walk = Walk { code, unknown: &unknown, rules: BTreeMap::new(), open: Vec::new() };
    // What others jump to or run into may be a label of theirs.
    let reached = walk.reached_from_others();
    let starts = unknown.iter().map(|function| function.start);
    for later in [false, true] {
        for start in starts.clone().filter(|start| reached.contains(start) == later) {
            if !walk.rules.contains_key(&start) {
                walk.open.push((start, Some(Known::at(ENTRY)), 0));
                walk.follow();
            }
        }
    }
    let rules_of = |function: &&Range<u64>| {
        let reached = walk.rules.range(function.start..function.end);
        let mut rules: Rules = reached.map(|(&pc, known)| (pc, known.and_then(|known| known.rule()))).collect();
        // Code that nothing leads to, such as a switch's cases, and data.
        let mut last: Option<u64> = None;
        for &pc in walk.rules.range(function.start..function.end).map(|(pc, _)| pc) {
            if let Some(last) = last
                && pc != code.next(last)
            {
                rules.insert(code.next(last), None);
            }
            last = Some(pc);
        }
        if let Some(next) = last.map(|last| code.next(last)).filter(|&next| next < function.end) {
            rules.insert(next, None);
        }
        (function.start, function.end, rules)
    };
    unknown.iter().map(rules_of).collect()
}

impl Code<'_> {
    /// Where a Thumb table branch can lead (Armv7-M ARM A7.7.185): its table lies behind it, and ends
    /// where the nearest case begins.
    fn cases(&self, pc: u64, bytes: &[u8]) -> Vec<u64> {
        let Some([0xdf, 0xe8, second, 0xf0]) = bytes.first_chunk::<4>().copied() else { return Vec::new() };
        let entry_bytes = if second & 0x10 == 0 { 1 } else { 2 };
        let table = pc + 4;
        let (mut cases, mut at, mut end) = (Vec::new(), table, u64::MAX);
        while at < end
            && let Some([low, high]) = self.bytes(at).and_then(|bytes| bytes.first_chunk::<2>().copied())
        {
            let entry = if entry_bytes == 1 { low.into() } else { u64::from(u16::from_le_bytes([low, high])) };
            let case = table + 2 * entry;
            cases.push(case);
            end = end.min(case);
            at += entry_bytes;
        }
        cases
    }

    /// Address of the instruction after the one at `pc`.
    pub(super) fn next(&self, pc: u64) -> u64 {
        pc + self.bytes(pc).map_or(2, |bytes| u64::from(decode(self.isa, pc, bytes).len_bytes))
    }
}

struct Walk<'a> {
    code: &'a Code<'a>,
    unknown: &'a [&'a Range<u64>],
    /// What holds at each instruction that was reached.
    rules: BTreeMap<u64, Option<Known>>,
    /// Instructions to go on from, what holds there, and how many from there on are conditional.
    open: Vec<(u64, Option<Known>, u8)>,
}

impl Walk<'_> {
    fn function_of(&self, pc: u64) -> Option<&Range<u64>> {
        let after = self.unknown.partition_point(|function| function.start <= pc);
        self.unknown[..after].last().copied().filter(|function| function.contains(&pc))
    }

    /// Starts of functions that another one jumps to or runs into.
    fn reached_from_others(&self) -> BTreeSet<u64> {
        let mut reached = BTreeSet::new();
        for function in self.unknown {
            let mut pc = function.start;
            let mut falls_through = true;
            while pc < function.end {
                let Some(bytes) = self.code.bytes(pc) else { break };
                let insn = decode(self.code.isa, pc, bytes);
                match insn.flow {
                    Flow::Jump { target } | Flow::Branch { target } if !function.contains(&target) => {
                        reached.insert(target);
                    }
                    _ => {}
                }
                falls_through = !matches!(
                    insn.flow,
                    Flow::Jump { .. }
                        | Flow::Return
                        | Flow::IndirectJump { .. }
                        | Flow::ComputedJump
                        | Flow::Call { .. }
                        | Flow::IndirectCall { .. }
                );
                pc += u64::from(insn.len_bytes);
            }
            if falls_through {
                reached.insert(function.end);
            }
        }
        reached
    }

    fn follow(&mut self) {
        while let Some((pc, rule, conditional)) = self.open.pop() {
            let Some(bytes) = self.function_of(pc).and_then(|_| self.code.bytes(pc)) else { continue };
            let before = self.rules.get(&pc).copied();
            let rule = before.map_or(rule, |before| before?.and(rule?));
            if self.rules.insert(pc, rule) == Some(rule) {
                continue;
            }
            let insn = decode(self.code.isa, pc, bytes);
            let next = pc + u64::from(insn.len_bytes);
            let after = effects(self.code.isa, bytes).into_iter().fold(rule, |rule, effect| apply(rule?, effect));
            let left = match insn.flow {
                Flow::It { count } => count,
                _ => conditional.saturating_sub(1),
            };
            // A function that makes a frame is no label of the one before, which ends in a call that does not
            // come back and, perhaps, in data.
            let is_own = |pc: u64| self.code.bytes(pc).is_some_and(|bytes| deepens(self.code.isa, bytes) > 0);
            let leaves = self.function_of(pc) != self.function_of(next);
            match insn.flow {
                Flow::Next | Flow::It { .. } if leaves && is_own(next) => {}
                Flow::Next | Flow::It { .. } => self.open.push((next, after, left)),
                // What a function calls at its very end does not come back.
                Flow::Call { .. } | Flow::IndirectCall { .. } if leaves => {}
                Flow::Call { .. } | Flow::IndirectCall { .. } => self.open.push((next, after, left)),
                Flow::Branch { target } => self.open.extend([(target, rule, 0), (next, rule, left)]),
                Flow::Jump { target } => {
                    // Start-up code that has set its stack goes on in a function that makes a frame of its own.
                    let own = rule.is_none() && self.function_of(pc) != self.function_of(target) && is_own(target);
                    self.open.push((target, if own { Some(Known::at(ENTRY)) } else { rule }, 0));
                }
                Flow::ComputedJump => {
                    let cases = self.code.cases(pc, bytes).into_iter();
                    self.open.extend(cases.map(|target| (target, rule, 0)));
                }
                Flow::Return | Flow::IndirectJump { .. } => {}
            }
            let may_not_jump = matches!(
                insn.flow,
                Flow::Jump { .. } | Flow::Return | Flow::IndirectJump { .. } | Flow::ComputedJump
            );
            if conditional > 0 && may_not_jump {
                self.open.push((next, rule, left));
            }
        }
    }
}

/// gcc 12 says nothing of the epilogues that it makes for processors without Thumb-2, nor between two steps of
/// one: the stack shrinks, and the rule stays. Follows the instructions from such a place to the function's end or next jump.
pub(super) fn mend_epilogues(code: &Code<'_>, function: Range<u64>, rules: &mut Rules) {
    if code.isa.is_riscv() {
        return;
    }
    let said = rules.clone();
    let rule_at = |pc: u64| said.range(..=pc).next_back().and_then(|(_, rule)| *rule);
    // What holds now, where that is not what is said.
    let mut mended: Option<Rule> = None;
    let mut pc = function.start;
    while pc < function.end
        && let Some(bytes) = code.bytes(pc)
    {
        let next = code.next(pc);
        let shrinks = |effect: &Effect| matches!(effect, Effect::MoveSp(1..));
        let effects = effects(code.isa, bytes);
        let is_unsaid = rule_at(pc) == rule_at(next) && effects.iter().any(shrinks);
        if let Some(before) = mended.or(rule_at(pc).filter(|rule| is_unsaid && rule.base == Base::StackPointer)) {
            let ends = decode(code.isa, pc, bytes).flow != Flow::Next;
            let after = effects.into_iter().try_fold(Known::at(before), apply).and_then(|known| known.rule());
            // An epilogue takes off at most the frame: this is assembly.
            if after.is_some_and(|after| after.cfa_offset_bytes < 0) {
                return;
            }
            mended = after.filter(|_| !ends);
            let rule = if ends { rule_at(next) } else { after };
            rules.insert(next, rule);
        }
        pc = next;
    }
}

/// How much deeper an instruction makes the stack.
pub(super) fn deepens(isa: Isa, bytes: &[u8]) -> i32 {
    let moves = effects(isa, bytes).into_iter().map(|effect| if let Effect::MoveSp(n) = effect { -n } else { 0 });
    moves.sum()
}

/// What holds at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    /// Canonical frame address minus sp.
    depth_bytes: Option<i32>,
    /// Canonical frame address minus fp, where fp was made from sp.
    frame_bytes: Option<i32>,
    return_addr: Saved,
    frame_pointer: Saved,
}

impl Known {
    fn at(rule: Rule) -> Known {
        let Rule { base, cfa_offset_bytes, return_addr, frame_pointer } = rule;
        let is = |wanted| (base == wanted).then_some(cfa_offset_bytes);
        let (depth_bytes, frame_bytes) = (is(Base::StackPointer), is(Base::FramePointer));
        Known { depth_bytes, frame_bytes, return_addr, frame_pointer }
    }

    /// By the stack pointer while that is known: what looks like a frame pointer may be any pointer.
    fn rule(&self) -> Option<Rule> {
        let Known { depth_bytes, frame_bytes, return_addr, frame_pointer } = *self;
        let base = if depth_bytes.is_some() { Base::StackPointer } else { Base::FramePointer };
        Some(Rule { base, cfa_offset_bytes: depth_bytes.or(frame_bytes)?, return_addr, frame_pointer })
    }

    /// What holds where two ways meet.
    fn and(self, other: Known) -> Option<Known> {
        let same = |one: Option<i32>, two| one.filter(|_| one == two);
        let known = Known {
            depth_bytes: same(self.depth_bytes, other.depth_bytes),
            frame_bytes: same(self.frame_bytes, other.frame_bytes),
            return_addr: self.return_addr,
            frame_pointer: if self.frame_pointer == other.frame_pointer { self.frame_pointer } else { Saved::Lost },
        };
        known.rule().filter(|_| self.return_addr == other.return_addr).map(|_| known)
    }

    fn saved(&mut self, register: Register) -> &mut Saved {
        match register {
            Register::ReturnAddr => &mut self.return_addr,
            Register::FramePointer => &mut self.frame_pointer,
        }
    }
}

/// What holds after an instruction.
fn apply(mut known: Known, effect: Effect) -> Option<Known> {
    match (effect, known.depth_bytes) {
        (Effect::LoseSp, _) => known.depth_bytes = None,
        (Effect::MoveSp(n), Some(depth)) => known.depth_bytes = Some(depth - n),
        // What a register holds later is not the caller's: without Thumb-2, high ones are saved through r7 and lr.
        (Effect::Store(register, n), Some(depth)) if *known.saved(register) == Saved::Register => {
            *known.saved(register) = Saved::AtCfa(n - depth);
        }
        (Effect::Load(register, n), Some(depth)) if *known.saved(register) == Saved::AtCfa(n - depth) => {
            *known.saved(register) = Saved::Register;
        }
        // Only where the caller's frame pointer is kept can this one be one.
        (Effect::SetFp(n), Some(depth)) if known.frame_pointer != Saved::Register => {
            known.frame_bytes = Some(depth - n);
        }
        (Effect::MoveFp(n), _) => known.frame_bytes = known.frame_bytes.map(|frame| frame - n),
        (Effect::SetSp(n), _) => known.depth_bytes = known.frame_bytes.map(|frame| frame - n),
        _ => {}
    }
    if effect == Effect::LoseSp || matches!(effect, Effect::SetSp(_)) {
        known.rule()?;
    }
    if let Effect::Load(Register::FramePointer, _) = effect {
        known.frame_bytes = None;
        known.rule()?;
    }
    Some(known)
}

fn bits(word: u32, high: u32, low: u32) -> u32 {
    (word >> low) & ((1 << (high - low + 1)) - 1)
}

fn effects(isa: Isa, bytes: &[u8]) -> Vec<Effect> {
    let Some(low) = bytes.first_chunk().map(|&half| u32::from(u16::from_le_bytes(half))) else { return Vec::new() };
    let high = bytes.get(2..).and_then(|rest| rest.first_chunk()).map_or(0, |&half| u16::from_le_bytes(half).into());
    if isa.is_riscv() {
        riscv(isa == Isa::Riscv64, low, low | high << 16).into_iter().collect()
    } else {
        thumb(low, high)
    }
}

/// "RV32I Base Integer Instruction Set" and "C Extension for Compressed Instructions".
fn riscv(wide: bool, low: u32, word: u32) -> Option<Effect> {
    const RA: u32 = 1;
    const SP: u32 = 2;
    const FP: u32 = 8;
    let named = |register| match register {
        RA => Some(Register::ReturnAddr),
        FP => Some(Register::FramePointer),
        _ => None,
    };
    if low & 3 == 3 {
        let (opcode, rd, function, rs1) =
            (bits(word, 6, 0), bits(word, 11, 7), bits(word, 14, 12), bits(word, 19, 15));
        let immediate = (word as i32) >> 20;
        let is_word = function == if wide { 3 } else { 2 };
        return match (opcode, rs1, rd) {
            (0x13, SP, SP) if function == 0 => Some(Effect::MoveSp(immediate)),
            (0x13, SP, FP) if function == 0 => Some(Effect::SetFp(immediate)),
            (0x13, FP, SP) if function == 0 => Some(Effect::SetSp(immediate)),
            (0x23, SP, _) if is_word => {
                Some(Effect::Store(named(bits(word, 24, 20))?, ((word as i32) >> 25) << 5 | rd as i32))
            }
            // Stores and branches have no destination.
            (0x23 | 0x27 | 0x63, ..) => None,
            (_, _, SP) => Some(Effect::LoseSp),
            (0x03, SP, rd) if is_word => Some(Effect::Load(named(rd)?, immediate)),
            _ => None,
        };
    }
    let sign_extended = |value: u32, width: u32| ((value << (32 - width)) as i32) >> (32 - width);
    let (rd, rs2) = (bits(low, 11, 7), bits(low, 6, 2));
    match (low & 3, bits(low, 15, 13)) {
        // c.addi4spn
        (0, 0) if bits(low, 4, 2) + 8 == FP => Some(Effect::SetFp(
            (bits(low, 12, 11) << 4 | bits(low, 10, 7) << 6 | bits(low, 6, 6) << 2 | bits(low, 5, 5) << 3) as i32,
        )),
        // c.addi
        (1, 0) if rd == SP => Some(Effect::MoveSp(sign_extended(bits(low, 12, 12) << 5 | rs2, 6))),
        // c.addi16sp
        (1, 3) if rd == SP => {
            let value = bits(low, 12, 12) << 9
                | bits(low, 6, 6) << 4
                | bits(low, 5, 5) << 6
                | bits(low, 4, 3) << 7
                | bits(low, 2, 2) << 5;
            Some(Effect::MoveSp(sign_extended(value, 10)))
        }
        (1, 1 | 2) if rd == SP => Some(Effect::LoseSp),
        // c.ldsp, c.lwsp
        (2, 2 | 3) if rd == SP => Some(Effect::LoseSp),
        (2, 3) if wide => Some(Effect::Load(
            named(rd)?,
            (bits(low, 12, 12) << 5 | bits(low, 6, 5) << 3 | bits(low, 4, 2) << 6) as i32,
        )),
        (2, 2) if !wide => Some(Effect::Load(
            named(rd)?,
            (bits(low, 12, 12) << 5 | bits(low, 6, 4) << 2 | bits(low, 3, 2) << 6) as i32,
        )),
        // c.mv sp, s0
        (2, 4) if rd == SP && rs2 == FP && bits(low, 12, 12) == 0 => Some(Effect::SetSp(0)),
        (2, 4) if rd == SP && rs2 != 0 => Some(Effect::LoseSp),
        // c.sdsp; c.swsp
        (2, 7) if wide => Some(Effect::Store(named(rs2)?, (bits(low, 12, 10) << 3 | bits(low, 9, 7) << 6) as i32)),
        (2, 6) if !wide => Some(Effect::Store(named(rs2)?, (bits(low, 12, 9) << 2 | bits(low, 8, 7) << 6) as i32)),
        _ => None,
    }
}

/// Armv7-M Architecture Reference Manual, A7.7; `low` is the first halfword.
fn thumb(low: u32, high: u32) -> Vec<Effect> {
    const LR: u32 = 14;
    const SP: u32 = 13;
    let bytes = |mask: u32| mask.count_ones() as i32 * 4;
    // Where a register of a list is, lowest first.
    let places = |mask: u32| {
        let place = move |register: u32| bytes(mask & ((1 << register) - 1));
        let registers = [(LR, Register::ReturnAddr), (7, Register::FramePointer)];
        registers
            .into_iter()
            .filter(move |(number, _)| mask >> number & 1 == 1)
            .map(move |(number, register)| (register, place(number)))
    };
    let push = |mask: u32| {
        let stores = places(mask).map(|(register, at)| Effect::Store(register, at));
        std::iter::once(Effect::MoveSp(-bytes(mask))).chain(stores).collect()
    };
    let pop = |mask: u32| {
        let loads = places(mask).map(|(register, at)| Effect::Load(register, at));
        loads.chain([Effect::MoveSp(bytes(mask))]).collect()
    };
    match low {
        // push, pop
        0xb400..=0xb5ff => push(low & 0xff | (low >> 8 & 1) << LR),
        0xbc00..=0xbdff => pop(low & 0xff | (low >> 8 & 1) << 15),
        // add sp, #imm; sub sp, #imm
        0xb000..=0xb07f => vec![Effect::MoveSp((low & 0x7f) as i32 * 4)],
        0xb080..=0xb0ff => vec![Effect::MoveSp((low & 0x7f) as i32 * -4)],
        // add r7, sp, #imm; mov r7, sp
        0xaf00..=0xafff => vec![Effect::SetFp((low & 0xff) as i32 * 4)],
        0x466f => vec![Effect::SetFp(0)],
        // adds r7, #imm; subs r7, #imm
        0x3700..=0x37ff => vec![Effect::MoveFp((low & 0xff) as i32)],
        0x3f00..=0x3fff => vec![Effect::MoveFp(-((low & 0xff) as i32))],
        // mov sp, r7; any other move or addition to sp
        0x46bd => vec![Effect::SetSp(0)],
        0x4400..=0x46ff if low & 0x87 == 0x85 && low >> 8 != 0x45 => vec![Effect::LoseSp],
        // stmdb sp!; ldmia sp!
        0xe92d => push(high & 0x5fff),
        0xe8bd => pop(high & 0xdfff),
        // str rt, [sp, #-n]!; ldr rt, [sp], #n
        0xf84d if bits(high, 11, 8) == 0xd => push_one(bits(high, 15, 12), (high & 0xff) as i32),
        0xf85d if bits(high, 11, 8) == 0xb && high >> 12 != SP => vec![Effect::MoveSp((high & 0xff) as i32)],
        // strd with write-back
        0xe96d => vec![Effect::MoveSp((high & 0xff) as i32 * -4)],
        0xe8fd => vec![Effect::MoveSp((high & 0xff) as i32 * 4)],
        // vpush, vpop
        _ if low & 0xffbf == 0xed2d => vec![Effect::MoveSp((high & 0xff) as i32 * -4)],
        _ if low & 0xffbf == 0xecbd => vec![Effect::MoveSp((high & 0xff) as i32 * 4)],
        // sub.w, add.w, subw, addw sp, sp, #imm
        0xf1ad | 0xf5ad | 0xf10d | 0xf50d | 0xf2ad | 0xf6ad | 0xf20d | 0xf60d if bits(high, 11, 8) == SP => {
            let encoded = bits(low, 10, 10) << 11 | bits(high, 14, 12) << 8 | high & 0xff;
            let plain = low & 0x200 != 0;
            let value = if plain { encoded } else { modified_immediate(encoded) };
            let sign = if low & 0xa0 == 0xa0 { -1 } else { 1 };
            vec![Effect::MoveSp(sign * value as i32)]
        }
        // msr msp; a load to sp; sub.w and add.w with a register
        _ if low & 0xfff0 == 0xf380 && high == 0x8808 => vec![Effect::LoseSp],
        _ if low & 0xff70 == 0xf850 && high >> 12 == SP => vec![Effect::LoseSp],
        0xebad | 0xeb0d if bits(high, 11, 8) == SP => vec![Effect::LoseSp],
        _ => Vec::new(),
    }
}

fn push_one(register: u32, bytes: i32) -> Vec<Effect> {
    let named = match register {
        14 => Some(Register::ReturnAddr),
        7 => Some(Register::FramePointer),
        _ => None,
    };
    let store = named.map(|register| Effect::Store(register, 0));
    std::iter::once(Effect::MoveSp(-bytes)).chain(store).collect()
}

/// ThumbExpandImm (A5.3.2).
fn modified_immediate(encoded: u32) -> u32 {
    let byte = encoded & 0xff;
    match encoded >> 8 {
        0 => byte,
        1 => byte << 16 | byte,
        2 => byte << 24 | byte << 8,
        3 => byte << 24 | byte << 16 | byte << 8 | byte,
        _ => (0x80 | encoded & 0x7f).rotate_right(encoded >> 7),
    }
}
