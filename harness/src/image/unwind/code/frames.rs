// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stack that each function takes by itself, and where it goes from each depth: calls, tail calls, jumps through
//! registers. The depth is that of the stack pointer below its value at the function's entry, from the unwind rows and
//! from following the code; where both know it, the larger one counts.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ops::Range;

use decode::{Flow, decode};
use wire::unwind::{Base, Row};

use super::super::Code;
use super::beside::{self, Loads};
use super::by_address::ByAddress;
use super::state::{State, Value};
use super::{Compiled, Links, Walk, ends, execute, is_trap, returned_to, returns};

/// Most bytes behind a function's symbol that are taken for its code.
const MAX_GAP_BYTES: u64 = 1 << 16;

/// First address that never has code on a Cortex-M: a jump there, or above, returns from an exception (Armv7-M Architecture
/// Reference Manual, B1.5.8).
const EXC_RETURN: u64 = 0xf000_0000;

/// Stack of one function, and its transfers of control.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Addresses of the function, load bias included.
    pub function: Range<u64>,
    /// Bytes of stack at the deepest instruction whose depth is known.
    pub deepest_bytes: u64,
    /// First instruction that moves the stack pointer by a number that only a run knows: `alloca`, an array of
    /// variable length.
    pub dynamic: Option<u64>,
    /// Whether an instruction sets the stack pointer to a place on another stack that only a run knows.
    pub switches_stack: bool,
    /// Constants to which instructions set the stack pointer, or a Cortex-M's main stack pointer: ends of stacks.
    pub tops: BTreeSet<u64>,
    /// Whether it reads a Cortex-M's process stack pointer.
    pub reads_process_stack: bool,
    /// Bytes that are stored below registers other than the stack pointer, at most.
    pub stores_below_bytes: u64,
    /// Bytes that are subtracted from registers other than the stack pointer, at most.
    pub subtracts_bytes: u64,
    /// Whether no way through the function returns.
    pub never_returns: bool,
    /// Whether the function ends by returning from a trap (RISC-V).
    pub returns_from_trap: bool,
    /// Transfers of control out of the function, by address.
    pub transfers: Vec<Transfer>,
    /// First addresses of functions that the code puts into a register.
    pub taken: BTreeSet<u64>,
    /// Constants that the code puts into registers, if it calls or jumps through pointers.
    pub constants: BTreeSet<u64>,
    /// Instruction behind which the code may go on where there is no function.
    pub open_end: Option<u64>,
    /// First instruction that is not known, so that it may go anywhere and do anything to the stack pointer.
    pub unknown: Option<u64>,
}

/// Transfer of control out of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Address of the instruction.
    pub pc: u64,
    /// Bytes of stack that the function holds meanwhile.
    pub depth_bytes: u64,
    /// Target; None: it depends on a register or on memory.
    pub target: Option<u64>,
    /// Whether it leaves a return address; otherwise it is a tail call, or runs into the next function.
    pub is_call: bool,
    /// Whether the function has certainly changed to another stack, which then has the target's frames.
    pub is_elsewhere: bool,
    /// Distance in a table from which the target was loaded; None: it was not loaded just before, or the target is known.
    pub slot_bytes: Option<i32>,
}

/// Finds the frames of all functions. `rows` is the table of the unwind rules. Of code that no compiler has made nothing is
/// taken for granted.
pub(in super::super) fn frames(
    code: &Code<'_>,
    functions: &[Range<u64>],
    rows: &[Row],
    compiled: &Compiled<'_>,
) -> Vec<Frame> {
    let functions = &extended(code, functions, compiled);
    let all: Vec<&Range<u64>> = functions.iter().collect();
    let mut links = Links::default();
    for function in functions {
        links.read(code, function, None, compiled.end_of(function));
    }
    let never = returns::never(code, functions, Some(compiled));
    let mut walk = Walk {
        code,
        unknown: &all,
        compiled: Some(compiled),
        ends_of_others: ends::of_others(code, &all, &links),
        links,
        ..Walk::empty(code, &all, &never)
    };
    walk.run();
    let frames = all.iter().map(|function| Frame {
        never_returns: never.contains(&function.start),
        ..Reader { code, walk: &walk, rows, function, sets_stack: OnceCell::new(), has_own_calls: OnceCell::new() }
            .read()
    });
    frames.collect()
}

/// Functions with the code behind them that no symbol covers, as far as control may come there: the symbols of assembly may
/// have too few bytes, and padding follows.
fn extended(code: &Code<'_>, functions: &[Range<u64>], compiled: &Compiled<'_>) -> Vec<Range<u64>> {
    let nexts = functions.iter().skip(1).map(|function| Some(function.start)).chain([None]);
    let extend = |(function, next): (&Range<u64>, Option<u64>)| {
        let limit = function.end.saturating_add(MAX_GAP_BYTES);
        let gap = function.end..next.unwrap_or(limit).min(limit);
        if compiled.regular.contains(&function.start) || gap.is_empty() || !goes_behind(code, function, &gap) {
            return function.clone();
        }
        let mut end = gap.start;
        while end < gap.end && code.bytes(end).is_some() {
            end = code.next(end);
        }
        function.start..end.min(gap.end)
    };
    functions.iter().zip(nexts).map(extend).collect()
}

/// Whether a function's last instruction may go on, or a jump leads to the gap behind it.
fn goes_behind(code: &Code<'_>, function: &Range<u64>, gap: &Range<u64>) -> bool {
    let (mut pc, mut goes_on) = (function.start, false);
    while pc < function.end
        && let Some(bytes) = code.bytes(pc)
    {
        if code.hints.is_data(pc) {
            (pc, goes_on) = (pc + 2, false);
            continue;
        }
        let insn = decode(code.isa, pc, bytes);
        match insn.flow {
            Flow::Jump { target } | Flow::Branch { target } if gap.contains(&target) => return true,
            _ => {}
        }
        goes_on =
            !matches!(insn.flow, Flow::Jump { .. } | Flow::Return | Flow::IndirectJump { .. } | Flow::ComputedJump);
        pc += u64::from(insn.len_bytes);
    }
    goes_on
}

struct Reader<'a> {
    code: &'a Code<'a>,
    walk: &'a Walk<'a>,
    rows: &'a [Row],
    function: &'a Range<u64>,
    /// See [`Reader::sets_stack`] and [`Reader::has_own_calls`]: a function may have many returns that ask.
    sets_stack: OnceCell<bool>,
    has_own_calls: OnceCell<bool>,
}

/// Instruction of a function.
#[derive(Clone, Copy)]
struct At<'a> {
    pc: u64,
    /// Address of the next one.
    next: u64,
    bytes: &'a [u8],
    state: Option<&'a State>,
    depth: Depth,
    /// Whether it is in an IT block.
    is_conditional: bool,
}

impl At<'_> {
    /// Transfer that it makes; the depth is still to be set.
    fn transfer(&self, target: Option<u64>, is_call: bool) -> Transfer {
        Transfer { pc: self.pc, depth_bytes: 0, target, is_call, is_elsewhere: false, slot_bytes: None }
    }
}

/// Depth at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    Bytes(u64),
    Unknown,
}

impl Reader<'_> {
    fn states(&self) -> &ByAddress<Option<State>> {
        &self.walk.states
    }

    fn depth(&self, pc: u64, state: Option<&State>) -> Depth {
        let after = self.rows.partition_point(|row| row.pc <= pc);
        let rule = self.rows[..after].last().and_then(|row| row.rule).filter(|rule| rule.base == Base::StackPointer);
        let said = rule.and_then(|rule| u64::try_from(rule.cfa_offset_bytes).ok());
        let is_set = state.is_some_and(|state| matches!(state.get(state.roles.sp), Value::Constant(_)));
        let followed = state.and_then(State::depth_bytes).and_then(|depth| u64::try_from(depth).ok());
        match (said, followed) {
            // A stack of its own begins here.
            _ if is_set => Depth::Bytes(0),
            (None, None) => Depth::Unknown,
            (said, followed) => Depth::Bytes(said.unwrap_or(0).max(followed.unwrap_or(0))),
        }
    }

    fn read(&self) -> Frame {
        let function = self.function.clone();
        let mut frame = Frame { function: function.clone(), ..Frame::default() };
        let mut found: Vec<(Depth, Transfer)> = Vec::new();
        let (mut upper, mut next) = (None, function.start);
        let mut block = BTreeSet::new();
        let joins = self.joins();
        let (mut loads, mut is_elsewhere, mut has_process_stack) = (Loads::none(), false, false);
        for (pc, state) in self.states().range(function.clone()) {
            let Some(bytes) = self.code.bytes(pc).filter(|_| pc >= next) else { continue };
            if pc > next {
                upper = None;
            }
            if pc > next || joins.contains(&pc) {
                (loads, is_elsewhere) = (Loads::none(), false);
            }
            let insn = decode(self.code.isa, pc, bytes);
            next = pc + u64::from(insn.len_bytes);
            if !decode::is_known(self.code.isa, bytes) {
                frame.unknown.get_or_insert(pc);
            }
            let depth = self.depth(pc, state.as_ref());
            if let Depth::Bytes(bytes) = depth {
                frame.deepest_bytes = frame.deepest_bytes.max(bytes);
            }
            let flow = upper.map_or(insn.flow, |upper| insn.flow.after_upper(self.code.isa, upper));
            upper = decode::auipc(self.code.isa, pc, bytes);
            if let Flow::It { count } = flow {
                // The instructions of the block are conditional.
                (0..count).fold(next, |at, _| {
                    block.insert(at);
                    self.code.next(at)
                });
            }
            let is_conditional = block.contains(&pc);
            let slot_bytes = match flow {
                Flow::IndirectCall { reg, .. } | Flow::IndirectJump { reg, .. } => loads.of(reg),
                _ => None,
            };
            has_process_stack |= beside::uses_process_stack(self.code.isa, bytes);
            let at = At { pc, next, bytes, state: state.as_ref(), depth, is_conditional };
            let transfers = self.transfers(at, flow);
            if flow == Flow::Return && !has_process_stack {
                let escape = self.escape(at);
                found.extend(escape.map(|(depth, escape)| (depth, Transfer { is_elsewhere, ..escape })));
            }
            if self.may_fall(at, flow) {
                match self.fall(at) {
                    Some((depth, fall)) => found.push((depth, Transfer { is_elsewhere, ..fall })),
                    None => drop(frame.open_end.get_or_insert(pc)),
                }
            }
            let with = |transfer| (depth, Transfer { is_elsewhere, slot_bytes, ..transfer });
            found.extend(transfers.into_iter().map(with));
            loads.execute(self.code, pc, bytes, if is_conditional { Flow::ComputedJump } else { flow });
            is_elsewhere = self.note(pc, bytes, depth, state.clone(), is_elsewhere && !is_conditional, &mut frame);
        }
        let deepest = frame.deepest_bytes;
        frame.transfers = found
            .into_iter()
            .map(|(depth, transfer)| match depth {
                // The depths of a part that several functions share are already those of the function that jumps there.
                Depth::Bytes(bytes) if !transfer.is_call && bytes > 0 && self.inherits(transfer.target, bytes) => {
                    transfer
                }
                Depth::Bytes(depth_bytes) => Transfer { depth_bytes, ..transfer },
                // On another stack, or behind a dynamic frame.
                Depth::Unknown => Transfer { depth_bytes: deepest, ..transfer },
            })
            .collect();
        if frame.transfers.iter().all(|transfer| transfer.target.is_some()) {
            frame.constants.clear();
        }
        frame
    }

    /// Addresses in the function to which a jump leads.
    fn joins(&self) -> BTreeSet<u64> {
        let mut joins = BTreeSet::new();
        for (pc, _) in self.states().range(self.function.clone()) {
            let Some(bytes) = self.code.bytes(pc) else { continue };
            match decode(self.code.isa, pc, bytes).flow {
                Flow::Jump { target } | Flow::Branch { target } => drop(joins.insert(target)),
                Flow::ComputedJump => joins.extend(self.code.cases(pc, bytes).0),
                _ => {}
            }
        }
        joins
    }

    /// Notes what an instruction does with stacks and constants. Whether the code after it is certainly on another stack.
    fn note(
        &self,
        pc: u64,
        bytes: &[u8],
        depth: Depth,
        state: Option<State>,
        is_elsewhere: bool,
        frame: &mut Frame,
    ) -> bool {
        let isa = self.code.isa;
        frame.returns_from_trap |= decode::is_trap_return(isa, bytes);
        frame.stores_below_bytes = frame.stores_below_bytes.saturating_add(beside::stores_below(isa, bytes));
        frame.subtracts_bytes = frame.subtracts_bytes.saturating_add(beside::subtracts(isa, bytes));
        frame.reads_process_stack |= beside::reads_process_stack(isa, bytes);
        let Some(before) = state else { return false };
        let mut after = before.clone();
        execute(self.code, pc, bytes, &mut after);
        self.note_taken(&before, &after, frame);
        if let Some(register) = beside::sets_main_stack(isa, bytes)
            && let Value::Constant(top) = before.get(register)
        {
            frame.tops.insert(u64::from(top as u32));
        }
        let is_set = decode::sets_sp(isa, bytes);
        let sp = after.roles.sp;
        match (before.get(sp), after.get(sp)) {
            (one, two) if one == two && !is_set => is_elsewhere,
            // `mov sp, reg`, with a register from which the size of an array was subtracted.
            (_, Value::Near) => {
                frame.dynamic.get_or_insert(pc);
                false
            }
            (_, Value::Frame(at)) => {
                frame.deepest_bytes = frame.deepest_bytes.max(u64::try_from(-i64::from(at)).unwrap_or(0));
                false
            }
            // Start-up code computes the place of its stack from a constant.
            (Value::Frame(_), Value::Unknown)
                if depth != Depth::Unknown && decode::moves_sp(isa, bytes) && !is_set =>
            {
                frame.dynamic.get_or_insert(pc);
                false
            }
            (one, Value::Constant(top)) => {
                // RISC-V makes an address in two steps.
                if let Value::Constant(part) = one
                    && isa.is_riscv()
                {
                    frame.tops.remove(&u64::from(part as u32));
                }
                frame.tops.insert(u64::from(top as u32));
                matches!(one, Value::Frame(_)) || (is_elsewhere && !is_set)
            }
            // The second change may lead back.
            (one, _) => {
                frame.switches_stack = true;
                matches!(one, Value::Frame(_))
            }
        }
    }

    /// Notes the constants that an instruction puts into registers, and functions among them.
    fn note_taken(&self, before: &State, after: &State, frame: &mut Frame) {
        for register in 0..32 {
            let Value::Constant(value) = after.get(register) else { continue };
            if before.get(register) == after.get(register) {
                continue;
            }
            let value = u64::from(value as u32);
            frame.constants.insert(value);
            let address = value & !1;
            let is_start = self.walk.function_of(address).is_some_and(|function| function.start == address);
            frame.taken.extend(is_start.then_some(address));
        }
    }

    /// Whether the code at a target, which is never called, was followed with the depth of a jump to it.
    fn inherits(&self, target: Option<u64>, bytes: u64) -> bool {
        let Some(target) = target.filter(|&target| !self.walk.is_called(target)) else { return false };
        let state = self.states().get(target).and_then(Option::as_ref);
        state.and_then(State::depth_bytes).is_some_and(|depth| u64::try_from(depth) == Ok(bytes))
    }

    /// Transfers of an instruction, apart from where it runs into the next function.
    fn transfers(&self, at: At<'_>, flow: Flow) -> Vec<Transfer> {
        let At { pc, bytes, state, depth, .. } = at;
        let outside = |target: u64| !self.function.contains(&target) || target == self.function.start;
        let constant = |reg: u8, offset: i32| match state?.get(reg.into()) {
            Value::Constant(value) => Some(u64::from(value.wrapping_add(offset) as u32 & !1)),
            _ => None,
        };
        let transfer = match flow {
            Flow::Call { target } if outside(target) => Some(at.transfer(Some(target), true)),
            Flow::IndirectCall { reg, offset, .. } => Some(at.transfer(constant(reg, offset), true)),
            // A jump to the function's own start is a loop.
            Flow::Jump { target } | Flow::Branch { target } if !self.function.contains(&target) => {
                Some(at.transfer(Some(target), false))
            }
            Flow::IndirectJump { reg, offset } if !self.is_return(reg, state) => {
                let target = constant(reg, offset);
                // A switch jumps through its table with the frame in place, a tail call has removed it.
                // LLVM's unwind rows leave out the epilogue; the code itself tells that the frame is gone.
                let is_gone = depth == Depth::Bytes(0) || state.and_then(State::depth_bytes) == Some(0);
                // Without a frame the two look alike. A bound must not be too low, so such a jump counts as a
                // transfer, and one of assembly that leads to no other code of the function.
                let is_elsewhere = state.is_some_and(|state| !matches!(state.get(state.roles.sp), Value::Frame(_)));
                let is_inside = self.is_regular() || self.has_adopted() || is_elsewhere || self.is_mcount();
                let is_switch = target.is_none() && !is_gone && is_inside;
                let is_left = target.is_none_or(|target| outside(target) && !self.is_exception_return(target));
                (!is_switch && is_left).then(|| at.transfer(target, false))
            }
            Flow::ComputedJump => match self.code.loaded_target(pc, bytes) {
                Some(target) => outside(target).then(|| at.transfer(Some(target), false)),
                None => (!self.is_switch(pc, depth)).then(|| at.transfer(None, false)),
            },
            _ => None,
        };
        transfer.into_iter().collect()
    }

    /// Transfer of a return that does not lead to the caller: the code has put another address where a return finds its own.
    fn escape(&self, at: At<'_>) -> Option<(Depth, Transfer)> {
        let isa = self.code.isa;
        // libgcc's switches return to a case of their caller's, and gcc's -pg runtime finds its address above its frame.
        let is_switch = || self.code.hints.switches.contains_key(&self.function.start);
        if decode::is_trap_return(isa, at.bytes) || self.is_mcount() || is_switch() {
            return None;
        }
        let after = self.rows.partition_point(|row| row.pc <= at.pc);
        let said = || Some(State::at(isa, self.rows[..after].last()?.rule?));
        let Some(before) = at.state.cloned().or_else(said) else {
            if self.is_millicode() {
                return None;
            }
            return (!self.is_regular() && !self.sets_stack()).then(|| (at.depth, at.transfer(None, false)));
        };
        let mut after = before.clone();
        execute(self.code, at.pc, at.bytes, &mut after);
        let depth = after.depth_bytes().and_then(|depth| u64::try_from(depth).ok()).map_or(at.depth, Depth::Bytes);
        let is_own = |state: &State| matches!(state.get(state.roles.sp), Value::Frame(_));
        match returned_to(isa, at.bytes, &after) {
            Value::ReturnAddr => None,
            Value::Constant(target) => {
                let target = u64::from(target as u32 & !1);
                (!self.is_exception_return(target)).then(|| (depth, at.transfer(Some(target), false)))
            }
            // What continues on another stack has its address from there.
            _ if self.is_regular() || !is_own(&before) || !is_own(&after) => None,
            _ if at.state.is_none() && self.sets_stack() => None,
            _ if self.has_own_calls() => None,
            _ => Some((depth, at.transfer(None, false))),
        }
    }

    /// Whether the function is straight code that is only called through the second link register, and returns by it. The
    /// frame that it may take away is its caller's.
    fn is_millicode(&self) -> bool {
        let start = self.function.start;
        let is_entered = self.walk.links.millicode.contains(&start) && !self.walk.links.called.contains(&start);
        is_entered && self.walk.millicode(start, State::millicode(self.code.isa)).is_some_and(|end| end.1)
    }

    /// Whether an instruction of the function sets the stack pointer to another stack.
    fn sets_stack(&self) -> bool {
        *self.sets_stack.get_or_init(|| {
            let mut code = self.states().range(self.function.clone()).filter_map(|(pc, _)| self.code.bytes(pc));
            code.any(|bytes| decode::sets_sp(self.code.isa, bytes))
        })
    }

    /// Whether the function calls a part of itself, which returns there: as libgcc's arithmetic does.
    fn has_own_calls(&self) -> bool {
        let is_own = |target: u64| self.function.contains(&target) && target != self.function.start;
        *self.has_own_calls.get_or_init(|| {
            self.states().range(self.function.clone()).any(|(pc, _)| {
                let flow = self.code.bytes(pc).map(|bytes| decode(self.code.isa, pc, bytes).flow);
                matches!(flow, Some(Flow::Call { target }) if is_own(target))
            })
        })
    }

    fn is_mcount(&self) -> bool {
        self.code.hints.mcount == Some(self.function.start)
    }

    fn is_exception_return(&self, target: u64) -> bool {
        self.code.isa.is_thumb() && target >= EXC_RETURN
    }

    /// Whether an instruction may be the last one of the function that executes, before what lies behind the function.
    fn may_fall(&self, At { pc, next, bytes, is_conditional, .. }: At<'_>, flow: Flow) -> bool {
        let is_regular = self.is_regular();
        let goes_on = match flow {
            Flow::Next if is_trap(self.code, pc, bytes) => !self.walk.end_of(Some(self.function)).is_at_trap(true),
            Flow::Next | Flow::It { .. } | Flow::Branch { .. } => true,
            Flow::Call { target } => !is_regular && !self.walk.never.contains(&target),
            Flow::IndirectCall { .. } => !is_regular,
            _ => false,
        };
        let is_over = next >= self.function.end && (goes_on || is_conditional);
        // Nothing leads to code behind the end of an assembly routine: padding, the epilogue of a `naked` function.
        let is_dead = || self.walk.adopted_code.contains(&pc) && !self.has_computed();
        is_over
            && (is_regular || !is_dead())
            && !(is_regular && (self.walk.function_of(next).is_none() || self.walk.is_own(next)))
    }

    /// Transfer into the next function, with the depth there. None: no function follows.
    fn fall(&self, at: At<'_>) -> Option<(Depth, Transfer)> {
        self.walk.function_of(at.next)?;
        let mut after = at.state.cloned();
        if let Some(after) = &mut after {
            execute(self.code, at.pc, at.bytes, after);
        }
        let after = after.and_then(|after| u64::try_from(after.depth_bytes()?).ok());
        let depth = match (at.depth, after) {
            (Depth::Bytes(before), Some(after)) => Depth::Bytes(before.max(after)),
            (depth, _) => depth,
        };
        Some((depth, at.transfer(Some(at.next), false)))
    }

    fn is_regular(&self) -> bool {
        self.walk.is_regular(Some(self.function))
    }

    fn has_computed(&self) -> bool {
        self.walk.computed.range(self.function.clone()).next().is_some()
    }

    fn has_adopted(&self) -> bool {
        self.walk.adopted.contains(&self.function.start)
    }

    fn is_return(&self, reg: u8, state: Option<&State>) -> bool {
        state.is_some_and(|state| state.get(reg.into()) == Value::ReturnAddr)
    }

    fn is_switch(&self, pc: u64, depth: Depth) -> bool {
        let Some(bytes) = self.code.bytes(pc) else { return false };
        // Zcmt has one table for the whole program.
        if decode::zcmp(self.code.isa, bytes).is_some() {
            return false;
        }
        let has_table = !self.code.cases(pc, bytes).0.is_empty();
        has_table || self.has_adopted() || (self.is_regular() && depth != Depth::Bytes(0))
    }
}

#[cfg(test)]
mod tests;
