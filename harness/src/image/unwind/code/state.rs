// SPDX-License-Identifier: MIT OR Apache-2.0
//! Known state of the stack at an instruction: registers that hold a place in the frame, a constant, or the caller's
//! value, and the places in the frame of the return address and the caller's frame pointer.

use std::rc::Rc;

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

/// Known state at an instruction. Most instructions change nothing of it, so states share what they know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) roles: &'static Roles,
    known: Rc<Known>,
}

/// Facts that hold at an instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Known {
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
        let known = Known { registers, return_addr: None, frame_pointer: None, constant: None };
        State { roles, known: Rc::new(known) }
    }

    /// State at the first instruction of a function that returns through RISC-V's second link register.
    pub(super) fn millicode(isa: Isa) -> State {
        let mut state = State::entry(isa);
        let Roles { link, second_link, .. } = *state.roles;
        if let Some(second) = second_link {
            let known = Rc::make_mut(&mut state.known);
            known.registers[link] = Value::Unknown;
            known.registers[second] = Value::ReturnAddr;
        }
        state
    }

    /// State in which a rule holds.
    pub(super) fn at(isa: Isa, rule: Rule) -> State {
        let roles = Roles::of(isa);
        let registers = [Value::Unknown; 32];
        let mut known = Known { registers, return_addr: None, frame_pointer: None, constant: None };
        match rule.frame_pointer {
            Saved::AtCfa(at) => known.frame_pointer = Some(at),
            Saved::Register => known.registers[roles.fp] = Value::CallersFrame,
            _ => {}
        }
        match rule.return_addr {
            Saved::AtCfa(at) => known.return_addr = Some(at),
            Saved::Register => known.registers[roles.link] = Value::ReturnAddr,
            _ => {}
        }
        let base = if rule.base == Base::StackPointer { roles.sp } else { roles.fp };
        known.registers[base] = Value::Frame(-rule.cfa_offset_bytes);
        State { roles, known: Rc::new(known) }
    }

    /// Equivalent rule, based on the stack pointer if that is known.
    pub(super) fn rule(&self) -> Option<Rule> {
        let Roles { sp, fp, link, holder, .. } = *self.roles;
        let Known { registers, return_addr, frame_pointer, .. } = &*self.known;
        let (base, cfa_offset_bytes) = match (registers[sp], registers[fp]) {
            (Value::Frame(at), _) => (Base::StackPointer, at.checked_neg()?),
            (_, Value::Frame(at)) => (Base::FramePointer, at.checked_neg()?),
            _ => return None,
        };
        let return_addr = match *return_addr {
            Some(at) => Saved::AtCfa(at),
            None if registers[link] == Value::ReturnAddr => Saved::Register,
            None if registers[holder] == Value::ReturnAddr => Saved::SecondLink,
            None => Saved::Lost,
        };
        let frame_pointer = match *frame_pointer {
            Some(at) => Saved::AtCfa(at),
            None if registers[fp] == Value::CallersFrame => Saved::Register,
            None => Saved::Lost,
        };
        Some(Rule { base, cfa_offset_bytes, return_addr, frame_pointer })
    }

    /// Facts that hold on both of two ways that meet. None: the states contradict each other, so one of the ways is
    /// impossible.
    pub(super) fn and(&self, other: &State) -> Option<State> {
        // Two ways that nothing has changed meet as one.
        if Rc::ptr_eq(&self.known, &other.known) {
            return Some(self.clone());
        }
        let (one, two) = (&*self.known, &*other.known);
        let mut both = one.clone();
        for (value, other) in both.registers.iter_mut().zip(&two.registers) {
            if value != other {
                *value = Value::Unknown;
            }
        }
        let sp = self.roles.sp;
        if let (Value::Frame(one), Value::Frame(two)) = (one.registers[sp], two.registers[sp])
            && one != two
            // Dynamic frames change the stack pointer; the frame pointer then has the fixed place.
            && both.registers[self.roles.fp].is_any()
        {
            return None;
        }
        both.return_addr = one.return_addr.filter(|_| one.return_addr == two.return_addr);
        both.frame_pointer = one.frame_pointer.filter(|_| one.frame_pointer == two.frame_pointer);
        both.constant = one.constant.filter(|_| one.constant == two.constant);
        // Mostly the ways agree, or one knows nothing that the other does not.
        let both = match both {
            both if both == *one => self.clone(),
            both if both == *two => other.clone(),
            both => State { roles: self.roles, known: Rc::new(both) },
        };
        let is_known = |state: &State| state.rule().is_some_and(|rule| rule.return_addr != Saved::Lost);
        (is_known(&both) || !is_known(self) || !is_known(other)).then_some(both)
    }

    /// Part of the state that holds in the function's whole body, without constants and copies, which hold only here.
    pub(super) fn shape(&self) -> State {
        let mut shape = Known { constant: None, ..(*self.known).clone() };
        for (register, value) in shape.registers.iter_mut().enumerate() {
            let is_frame = matches!(value, Value::Frame(_)) && [self.roles.sp, self.roles.fp].contains(&register);
            let is_callers = matches!(value, Value::ReturnAddr | Value::CallersFrame);
            if !is_frame && !is_callers {
                *value = Value::Unknown;
            }
        }
        State { roles: self.roles, known: Rc::new(shape) }
    }

    pub(super) fn get(&self, register: usize) -> Value {
        self.known.registers[register]
    }

    /// Bytes by which the stack is deeper than at the entry.
    pub(super) fn depth_bytes(&self) -> Option<i32> {
        match self.get(self.roles.sp) {
            Value::Frame(at) => at.checked_neg(),
            _ => None,
        }
    }

    pub(super) fn set(&mut self, register: usize, value: Value) {
        let is_sp = register == self.roles.sp;
        let kept = if is_sp && value.is_any() { Value::Unknown } else { value };
        // The frame no longer has a value that is back in its register; gcc's unwind information says the same.
        let is_link_back = register == self.roles.link && value == Value::ReturnAddr;
        let is_frame_back = register == self.roles.fp && value == Value::CallersFrame;
        let ends =
            is_link_back && self.known.return_addr.is_some() || is_frame_back && self.known.frame_pointer.is_some();
        if !ends && self.known.registers[register] == kept {
            return;
        }
        let known = Rc::make_mut(&mut self.known);
        if is_link_back {
            known.return_addr = None;
        }
        if is_frame_back {
            known.frame_pointer = None;
        }
        known.registers[register] = kept;
    }

    pub(super) fn add(&mut self, register: usize, bytes: i32) {
        self.set(register, self.get(register).plus(bytes));
    }

    /// Executes memory[address] = register.
    pub(super) fn store(&mut self, address: Value, register: usize) {
        let known = &*self.known;
        let value = known.registers[register];
        let (mut constant, mut return_addr, mut frame_pointer) =
            (known.constant, known.return_addr, known.frame_pointer);
        if let Value::Frame(at) = address {
            constant = match value {
                Value::Constant(value) => Some((at, value)),
                _ => constant.filter(|&(place, _)| place != at),
            };
            for (slot, wanted) in [(&mut return_addr, Value::ReturnAddr), (&mut frame_pointer, Value::CallersFrame)] {
                if value == wanted {
                    *slot = slot.or(Some(at));
                } else if *slot == Some(at) {
                    *slot = None;
                }
            }
        } else {
            constant = None;
        }
        if (constant, return_addr, frame_pointer) != (known.constant, known.return_addr, known.frame_pointer) {
            let known = Rc::make_mut(&mut self.known);
            (known.constant, known.return_addr, known.frame_pointer) = (constant, return_addr, frame_pointer);
        }
    }

    /// Executes register = memory[address].
    pub(super) fn load(&mut self, address: Value, register: usize) {
        let known = &*self.known;
        let value = match address {
            Value::Frame(at) if known.return_addr == Some(at) => Value::ReturnAddr,
            Value::Frame(at) if known.frame_pointer == Some(at) => Value::CallersFrame,
            Value::Frame(at) => match known.constant {
                Some((place, value)) if place == at => Value::Constant(value),
                _ => Value::Unknown,
            },
            other => other.read(if self.roles.word_bytes == 8 { Width::Eight } else { Width::Four }),
        };
        self.set(register, value);
    }

    /// Forgets the registers that a call may change.
    pub(super) fn clobber(&mut self) {
        let clobbered = self.roles.clobbered;
        let changed = move |register: &usize| clobbered >> register & 1 == 1;
        let known = &*self.known;
        if known.constant.is_none()
            && (0..32).filter(changed).all(|register| known.registers[register] == Value::Unknown)
        {
            return;
        }
        let known = Rc::make_mut(&mut self.known);
        known.constant = None;
        (0..32).filter(changed).for_each(|register| known.registers[register] = Value::Unknown);
    }

    /// Whether a jump out of the function leaves stack and return address as they were at the entry: a return, a tail
    /// call.
    pub(super) fn has_restored(&self) -> bool {
        self.get(self.roles.sp) == Value::Frame(0)
            && self.get(self.roles.fp) == Value::CallersFrame
            && (self.get(self.roles.link) == Value::ReturnAddr
                || self.roles.second_link.is_some_and(|second| self.get(second) == Value::ReturnAddr))
    }
}
