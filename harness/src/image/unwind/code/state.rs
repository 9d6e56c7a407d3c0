// SPDX-License-Identifier: MIT OR Apache-2.0
//! Known state of the stack at an instruction: registers that hold a place in the frame, a constant, or the caller's
//! value, and the places in the frame of the return address and the caller's frame pointer.

use decode::Isa;
use wire::unwind::{Base, Rule, Saved};

/// Value of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Value {
    Unknown,
    /// Number of at most 32 bits; wider addresses are not tracked.
    Constant(i32),
    /// Canonical frame address plus a number of bytes.
    Frame(i32),
    /// Canonical frame address plus a number of bytes that only a run knows.
    Near,
    /// Return address of the function.
    ReturnAddr,
    /// The caller's frame pointer.
    CallersFrame,
    /// Constant plus a number that only a run knows: a place in a table.
    Above(i32),
    /// Entry of the table at this address.
    Read(i32, Width),
    /// The same plus the table's address, of entries of four bytes.
    ReadFrom(i32),
}

/// Width of an entry of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Width {
    Four,
    Eight,
}

impl Value {
    pub(super) fn plus(self, bytes: i32) -> Value {
        match self {
            Value::Constant(value) => Value::Constant(value.wrapping_add(bytes)),
            Value::Frame(at) => at.checked_add(bytes).map_or(Value::Unknown, Value::Frame),
            Value::Near => Value::Near,
            Value::Above(base) => Value::Above(base.wrapping_add(bytes)),
            other if bytes == 0 => other,
            _ => Value::Unknown,
        }
    }

    /// Whether it is nothing of the frame, and no constant.
    pub(super) fn is_any(self) -> bool {
        matches!(self, Value::Unknown | Value::Above(_) | Value::Read(..) | Value::ReadFrom(_))
    }

    /// Sum of two values.
    pub(super) fn sum(self, other: Value) -> Value {
        match (self, other) {
            (Value::Unknown, Value::Constant(n)) | (Value::Constant(n), Value::Unknown) if n != 0 => Value::Above(n),
            (Value::Above(base), Value::Unknown) | (Value::Unknown, Value::Above(base)) => Value::Above(base),
            (Value::Read(table, Width::Four), Value::Constant(n))
            | (Value::Constant(n), Value::Read(table, Width::Four))
                if n == table =>
            {
                Value::ReadFrom(table)
            }
            (value, Value::Constant(n)) | (Value::Constant(n), value) => value.plus(n),
            (Value::Frame(_) | Value::Near, other) | (other, Value::Frame(_) | Value::Near) if other.is_any() => {
                Value::Near
            }
            _ => Value::Unknown,
        }
    }

    /// Word at this address.
    pub(super) fn read(self, width: Width) -> Value {
        match self {
            Value::Above(table) => Value::Read(table, width),
            _ => Value::Unknown,
        }
    }

    /// Difference of two values.
    pub(super) fn minus(self, other: Value) -> Value {
        match (self, other) {
            (value, Value::Constant(n)) => value.plus(n.wrapping_neg()),
            (Value::Frame(_) | Value::Near, other) if other.is_any() => Value::Near,
            _ => Value::Unknown,
        }
    }
}

/// Registers with a role in the calling convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Roles {
    pub(super) sp: usize,
    pub(super) fp: usize,
    pub(super) link: usize,
    /// RISC-V's second link register, through which millicode and outlined code return.
    pub(super) second_link: Option<usize>,
    /// Register that rules can name as the one with the return address: the second link register, or Arm's r12.
    holder: usize,
    /// Mask of the registers that a call may change.
    pub(super) clobbered: u32,
    pub(super) word_bytes: i32,
}

const THUMB: Roles =
    Roles { sp: 13, fp: 7, link: 14, second_link: None, holder: 12, clobbered: 0x500f, word_bytes: 4 };
/// The mask holds ra, t0 to t6 and a0 to a7.
const RISCV: Roles =
    Roles { sp: 2, fp: 8, link: 1, second_link: Some(5), holder: 5, clobbered: 0xf003_fce2, word_bytes: 4 };
const RISCV64: Roles = Roles { word_bytes: 8, ..RISCV };

impl Roles {
    pub(super) fn of(isa: Isa) -> &'static Roles {
        match isa {
            Isa::Riscv64 | Isa::Riscv64Zc => &RISCV64,
            Isa::Riscv32 | Isa::Riscv32Zc => &RISCV,
            _ => &THUMB,
        }
    }
}

/// Known state at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) roles: &'static Roles,
    registers: [Value; 32],
    /// Place of the return address in the frame.
    return_addr: Option<i32>,
    /// Place of the caller's frame pointer in the frame.
    frame_pointer: Option<i32>,
    /// Last constant that was stored in the frame, with its place: assembly and veneers push an address and pop it.
    constant: Option<(i32, i32)>,
}

impl State {
    /// State at a function's first instruction.
    pub(super) fn entry(isa: Isa) -> State {
        let roles = Roles::of(isa);
        let mut registers = [Value::Unknown; 32];
        registers[roles.sp] = Value::Frame(0);
        registers[roles.fp] = Value::CallersFrame;
        registers[roles.link] = Value::ReturnAddr;
        State { roles, registers, return_addr: None, frame_pointer: None, constant: None }
    }

    /// State at the first instruction of a function that returns through RISC-V's second link register.
    pub(super) fn millicode(isa: Isa) -> State {
        let mut state = State::entry(isa);
        if let Some(second) = state.roles.second_link {
            state.registers[state.roles.link] = Value::Unknown;
            state.registers[second] = Value::ReturnAddr;
        }
        state
    }

    /// State in which a rule holds.
    pub(super) fn at(isa: Isa, rule: Rule) -> State {
        let roles = Roles::of(isa);
        let mut state = State { registers: [Value::Unknown; 32], ..State::entry(isa) };
        match rule.frame_pointer {
            Saved::AtCfa(at) => state.frame_pointer = Some(at),
            Saved::Register => state.registers[roles.fp] = Value::CallersFrame,
            _ => {}
        }
        match rule.return_addr {
            Saved::AtCfa(at) => state.return_addr = Some(at),
            Saved::Register => state.registers[roles.link] = Value::ReturnAddr,
            _ => {}
        }
        let base = if rule.base == Base::StackPointer { roles.sp } else { roles.fp };
        state.registers[base] = Value::Frame(-rule.cfa_offset_bytes);
        state
    }

    /// Equivalent rule, based on the stack pointer if that is known.
    pub(super) fn rule(&self) -> Option<Rule> {
        let Roles { sp, fp, link, holder, .. } = *self.roles;
        let (base, cfa_offset_bytes) = match (self.registers[sp], self.registers[fp]) {
            (Value::Frame(at), _) => (Base::StackPointer, at.checked_neg()?),
            (_, Value::Frame(at)) => (Base::FramePointer, at.checked_neg()?),
            _ => return None,
        };
        let return_addr = match self.return_addr {
            Some(at) => Saved::AtCfa(at),
            None if self.registers[link] == Value::ReturnAddr => Saved::Register,
            None if self.registers[holder] == Value::ReturnAddr => Saved::SecondLink,
            None => Saved::Lost,
        };
        let frame_pointer = match self.frame_pointer {
            Some(at) => Saved::AtCfa(at),
            None if self.registers[fp] == Value::CallersFrame => Saved::Register,
            None => Saved::Lost,
        };
        Some(Rule { base, cfa_offset_bytes, return_addr, frame_pointer })
    }

    /// Facts that hold on both of two ways that meet. None: the states contradict each other, so one of the ways is
    /// impossible.
    pub(super) fn and(&self, other: &State) -> Option<State> {
        let mut both = *self;
        for (value, other) in both.registers.iter_mut().zip(&other.registers) {
            if value != other {
                *value = Value::Unknown;
            }
        }
        let sp = self.roles.sp;
        if let (Value::Frame(one), Value::Frame(two)) = (self.registers[sp], other.registers[sp])
            && one != two
            // Dynamic frames change the stack pointer; the frame pointer then has the fixed place.
            && both.registers[self.roles.fp].is_any()
        {
            return None;
        }
        both.return_addr = self.return_addr.filter(|_| self.return_addr == other.return_addr);
        both.frame_pointer = self.frame_pointer.filter(|_| self.frame_pointer == other.frame_pointer);
        both.constant = self.constant.filter(|_| self.constant == other.constant);
        let is_known = |state: &State| state.rule().is_some_and(|rule| rule.return_addr != Saved::Lost);
        (is_known(&both) || !is_known(self) || !is_known(other)).then_some(both)
    }

    /// Part of the state that holds in the function's whole body, without constants and copies, which hold only here.
    pub(super) fn shape(&self) -> State {
        let mut shape = State { constant: None, ..*self };
        for (register, value) in shape.registers.iter_mut().enumerate() {
            let is_frame = matches!(value, Value::Frame(_)) && [self.roles.sp, self.roles.fp].contains(&register);
            let is_callers = matches!(value, Value::ReturnAddr | Value::CallersFrame);
            if !is_frame && !is_callers {
                *value = Value::Unknown;
            }
        }
        shape
    }

    pub(super) fn get(&self, register: usize) -> Value {
        self.registers[register]
    }

    /// Bytes by which the stack is deeper than at the entry.
    pub(super) fn depth_bytes(&self) -> Option<i32> {
        match self.registers[self.roles.sp] {
            Value::Frame(at) => at.checked_neg(),
            _ => None,
        }
    }

    pub(super) fn set(&mut self, register: usize, value: Value) {
        // The frame no longer has a value that is back in its register; gcc's unwind information says the same.
        if register == self.roles.link && value == Value::ReturnAddr {
            self.return_addr = None;
        }
        if register == self.roles.fp && value == Value::CallersFrame {
            self.frame_pointer = None;
        }
        let is_sp = register == self.roles.sp;
        self.registers[register] = if is_sp && value.is_any() { Value::Unknown } else { value };
    }

    pub(super) fn add(&mut self, register: usize, bytes: i32) {
        self.set(register, self.registers[register].plus(bytes));
    }

    /// Executes memory[address] = register.
    pub(super) fn store(&mut self, address: Value, register: usize) {
        let Value::Frame(at) = address else {
            self.constant = None;
            return;
        };
        let value = self.registers[register];
        match value {
            Value::Constant(value) => self.constant = Some((at, value)),
            _ => self.constant = self.constant.filter(|&(place, _)| place != at),
        }
        for (slot, wanted) in
            [(&mut self.return_addr, Value::ReturnAddr), (&mut self.frame_pointer, Value::CallersFrame)]
        {
            if value == wanted {
                *slot = slot.or(Some(at));
            } else if *slot == Some(at) {
                *slot = None;
            }
        }
    }

    /// Executes register = memory[address].
    pub(super) fn load(&mut self, address: Value, register: usize) {
        let value = match address {
            Value::Frame(at) if self.return_addr == Some(at) => Value::ReturnAddr,
            Value::Frame(at) if self.frame_pointer == Some(at) => Value::CallersFrame,
            Value::Frame(at) => match self.constant {
                Some((place, value)) if place == at => Value::Constant(value),
                _ => Value::Unknown,
            },
            other => other.read(if self.roles.word_bytes == 8 { Width::Eight } else { Width::Four }),
        };
        self.set(register, value);
    }

    /// Forgets the registers that a call may change.
    pub(super) fn clobber(&mut self) {
        self.constant = None;
        for register in 0..32 {
            if self.roles.clobbered >> register & 1 == 1 {
                self.registers[register] = Value::Unknown;
            }
        }
    }

    /// Whether a jump out of the function leaves stack and return address as they were at the entry: a return, a tail
    /// call.
    pub(super) fn has_restored(&self) -> bool {
        let sp = self.roles.sp;
        self.registers[sp] == Value::Frame(0)
            && self.registers[self.roles.fp] == Value::CallersFrame
            && (self.registers[self.roles.link] == Value::ReturnAddr
                || self.roles.second_link.is_some_and(|second| self.registers[second] == Value::ReturnAddr))
    }
}
