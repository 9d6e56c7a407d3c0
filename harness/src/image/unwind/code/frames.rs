// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stack that each function takes by itself, and where it goes from each depth: calls, tail calls, jumps through
//! registers. The depth is that of the stack pointer below its value at the function's entry, from the unwind rows and
//! from following the code; where both know it, the larger one counts.

use std::collections::BTreeSet;
use std::ops::Range;

use decode::{Flow, decode};
use wire::unwind::{Base, Row};

use super::super::Code;
use super::beside::{self, Loads};
use super::by_address::ByAddress;
use super::state::{State, Value};
use super::{Links, Walk, ends, execute, is_trap, returns};

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

/// Finds the frames of all functions. `rows` is the table of the unwind rules.
pub(in super::super) fn frames(code: &Code<'_>, functions: &[Range<u64>], rows: &[Row]) -> Vec<Frame> {
    let all: Vec<&Range<u64>> = functions.iter().collect();
    let mut links = Links::default();
    for function in functions {
        links.read(code, function, None);
    }
    let never = returns::never(code, functions);
    let mut walk = Walk {
        code,
        unknown: &all,
        ends_of_others: ends::of_others(code, &all, &links),
        links,
        ..Walk::empty(code, &all, &never)
    };
    walk.run();
    let frames = all.iter().map(|function| Frame {
        never_returns: never.contains(&function.start),
        ..Reader { code, walk: &walk, rows, function }.read()
    });
    frames.collect()
}

struct Reader<'a> {
    code: &'a Code<'a>,
    walk: &'a Walk<'a>,
    rows: &'a [Row],
    function: &'a Range<u64>,
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
        let (mut loads, mut is_elsewhere) = (Loads::none(), false);
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
            let transfer = self.transfer(pc, next, flow, state.as_ref(), depth, is_conditional);
            found.extend(
                transfer.into_iter().map(|transfer| (depth, Transfer { is_elsewhere, slot_bytes, ..transfer })),
            );
            loads.execute(self.code, pc, bytes, if is_conditional { Flow::ComputedJump } else { flow });
            is_elsewhere = self.note(pc, bytes, depth, *state, is_elsewhere && !is_conditional, &mut frame);
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
        let mut after = before;
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
        let state = self.states().get(target).copied().flatten();
        state.and_then(|state| state.depth_bytes()).is_some_and(|depth| u64::try_from(depth) == Ok(bytes))
    }

    /// Transfers of an instruction: one, or two where it may also run into the next function.
    fn transfer(
        &self,
        pc: u64,
        next: u64,
        flow: Flow,
        state: Option<&State>,
        depth: Depth,
        is_conditional: bool,
    ) -> Vec<Transfer> {
        let outside = |target: u64| !self.function.contains(&target) || target == self.function.start;
        let make =
            |target, is_call| Transfer { pc, depth_bytes: 0, target, is_call, is_elsewhere: false, slot_bytes: None };
        let constant = |reg: u8, offset: i32| match state?.get(reg.into()) {
            Value::Constant(value) => Some(u64::from(value.wrapping_add(offset) as u32 & !1)),
            _ => None,
        };
        let falls = |is_falling: bool| {
            let is_over = next >= self.function.end && is_falling && self.walk.function_of(next).is_some();
            let is_trap = self.code.bytes(pc).is_some_and(|bytes| is_trap(self.code, pc, bytes));
            (is_over && !is_trap && !self.walk.is_own(next)).then(|| make(Some(next), false))
        };
        let mut transfers = Vec::new();
        match flow {
            Flow::Call { target } if outside(target) => transfers.push(make(Some(target), true)),
            Flow::IndirectCall { reg, offset, .. } => transfers.push(make(constant(reg, offset), true)),
            // A jump to the function's own start is a loop.
            Flow::Jump { target } | Flow::Branch { target } if !self.function.contains(&target) => {
                transfers.push(make(Some(target), false));
            }
            Flow::IndirectJump { reg, offset } if !self.is_return(reg, state) => {
                let target = constant(reg, offset);
                // A switch jumps through its table with the frame in place, a tail call has removed it.
                // LLVM's unwind rows leave out the epilogue; the code itself tells that the frame is gone.
                let is_gone = depth == Depth::Bytes(0) || state.and_then(State::depth_bytes) == Some(0);
                // Without a frame the two look alike. A bound must not be too low, so such a jump counts as a
                // transfer.
                let is_switch = target.is_none() && !is_gone;
                if !is_switch && target.is_none_or(outside) {
                    transfers.push(make(target, false));
                }
            }
            Flow::ComputedJump if !self.is_switch(pc, depth) => transfers.push(make(None, false)),
            _ => {}
        }
        let is_falling = matches!(flow, Flow::Next | Flow::It { .. } | Flow::Branch { .. }) || is_conditional;
        transfers.extend(falls(is_falling));
        transfers
    }

    fn is_return(&self, reg: u8, state: Option<&State>) -> bool {
        state.is_some_and(|state| state.get(reg.into()) == Value::ReturnAddr)
    }

    fn is_switch(&self, pc: u64, depth: Depth) -> bool {
        let has_table = self.code.bytes(pc).is_some_and(|bytes| !self.code.cases(pc, bytes).0.is_empty());
        has_table || depth != Depth::Bytes(0) || self.walk.adopted.contains(&self.function.start)
    }
}
