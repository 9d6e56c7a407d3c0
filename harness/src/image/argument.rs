// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words of rules that name a function and the places of its arguments: `--heap-alloc`, `--heap-free`, `--zone-call`.

use decode::Isa;

use crate::error::InputError;
use crate::text::number::parse_number;

/// Word with its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) what: Where,
    /// Byte of the text at which it begins.
    pub(super) at: usize,
}

/// Place of an argument or result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// Argument with this number, from 0.
    Argument(u8),
    /// Register with this name.
    Register(String),
    /// Constant value.
    Number(u64),
    /// 32-bit word at an offset from where an argument or register points.
    Word(Box<Word>, u64),
}

/// Number of arguments in registers: AAPCS, 6.4; RISC-V ABIs Specification, "Integer Calling Convention".
const ARM_ARGUMENTS: u8 = 4;
const RISCV_ARGUMENTS: u8 = 8;
const RISCV_FIRST: u8 = 10;

/// ABI names of RISC-V's registers, in order.
const RISCV_NAMES: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
    "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

/// Reader of a rule's words, one after the other.
pub(super) struct Words<'t> {
    /// Option that the rule is of, for messages.
    pub(super) option: &'static str,
    pub(super) text: &'t str,
    /// Byte of the text that is next.
    pub(super) at: usize,
}

impl<'t> Words<'t> {
    pub(super) fn error(&self, at: usize, what: impl std::fmt::Display) -> InputError {
        let Words { option, text, .. } = self;
        let column = text[..at].chars().count();
        InputError::new(format!("{option}: column {}: {what}\n  {text}\n  {}^", column + 1, " ".repeat(column)))
    }

    pub(super) fn skip_space(&mut self) {
        self.at = self.text.len() - self.text[self.at..].trim_start().len();
    }

    /// Takes a mark if it is next.
    pub(super) fn take(&mut self, mark: &str) -> bool {
        self.skip_space();
        let is_next = self.text[self.at..].starts_with(mark);
        if is_next {
            self.at += mark.len();
        }
        is_next
    }

    /// Returns the next word; empty at the end.
    pub(super) fn word(&mut self) -> (&'t str, usize) {
        self.skip_space();
        let rest = &self.text[self.at..];
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
        let at = self.at;
        self.at += end;
        (&rest[..end], at)
    }

    pub(super) fn place(&mut self) -> Result<Word, InputError> {
        let (word, at) = self.word();
        self.place_of(word, at)
    }

    /// Place of a number that is asked for, which may be in memory.
    pub(super) fn value(&mut self) -> Result<Word, InputError> {
        if !self.take("*") {
            return self.place();
        }
        let pointer = self.place()?;
        let at = pointer.at;
        if !self.take("+") {
            return Err(self.error(self.at, "how far from there? write *arg0+28, or *arg0+0"));
        }
        let (offset, offset_at) = self.word();
        let Ok(offset) = parse_number("number", offset) else {
            return Err(self.error(offset_at, "a number of bytes is meant here, as in *arg0+28"));
        };
        Ok(Word { what: Where::Word(Box::new(pointer), offset), at })
    }

    pub(super) fn place_of(&self, word: &str, at: usize) -> Result<Word, InputError> {
        let what = if let Some(number) = word.strip_prefix("arg").and_then(|digits| digits.parse().ok()) {
            Where::Argument(number)
        } else if let Ok(number) = parse_number("number", word) {
            Where::Number(number)
        } else if arm_register(word).is_some() || riscv_register(word).is_some() {
            Where::Register(word.to_owned())
        } else if word.is_empty() {
            return Err(self.error(at, "write an argument here: arg0, a register such as r0 or a0, or a number"));
        } else {
            let what = format!("`{word}` is not an argument (arg0, arg1, …), register (r0, a0) or number");
            return Err(self.error(at, what));
        };
        Ok(Word { what, at })
    }

    /// Number of the register that an argument is in.
    ///
    /// # Errors
    /// [`InputError`], with the column, if the processor lacks such a register.
    pub(super) fn register(&self, place: &Word, isa: Isa) -> Result<u8, InputError> {
        if isa.is_avr() {
            return Err(self.error(place.at, "registers are not read on AVR, where a value is in several"));
        }
        let is_riscv = isa.is_riscv();
        match &place.what {
            Where::Argument(number) if is_riscv && *number < RISCV_ARGUMENTS => Ok(RISCV_FIRST + number),
            Where::Argument(number) if !is_riscv && *number < ARM_ARGUMENTS => Ok(*number),
            Where::Argument(number) => {
                let last = if is_riscv { RISCV_ARGUMENTS } else { ARM_ARGUMENTS } - 1;
                let what = format!("arg{number} is not in a register here: arg0 to arg{last} are");
                Err(self.error(place.at, what))
            }
            Where::Register(name) => {
                let number = if is_riscv { riscv_register(name) } else { arm_register(name) };
                let isa = if is_riscv { "RISC-V" } else { "Arm" };
                number.ok_or_else(|| self.error(place.at, format_args!("{isa} has no register {name}")))
            }
            Where::Number(_) | Where::Word(..) => Err(self.error(place.at, "a register is meant here")),
        }
    }
}

/// Number of the register with the first argument, which results are in, too.
pub(super) fn first(isa: Isa) -> u8 {
    if isa.is_riscv() { RISCV_FIRST } else { 0 }
}

/// Position of a rule's arguments: the bracket that closes at the end of the name, because a C++ name may have
/// brackets of its own.
pub(super) fn end_of_name(text: &str) -> usize {
    let end = text.len();
    if !text.trim_end().ends_with(')') {
        // A bracket that is not closed is reported at the end of the text.
        return text.find('(').unwrap_or(end);
    }
    let mut depth = 0;
    for (at, letter) in text.char_indices().rev() {
        match letter {
            ')' => depth += 1,
            '(' if depth == 1 => return at,
            '(' => depth -= 1,
            _ => {}
        }
    }
    end
}

/// Number of an Arm register that can hold arguments and results.
fn arm_register(name: &str) -> Option<u8> {
    let number = name.strip_prefix('r')?.parse().ok()?;
    (number <= 12).then_some(number)
}

/// Number of a RISC-V register.
fn riscv_register(name: &str) -> Option<u8> {
    let by_name = RISCV_NAMES.iter().position(|known| *known == name);
    let by_number = || name.strip_prefix('x')?.parse().ok().filter(|number| *number < RISCV_NAMES.len());
    by_name.or_else(by_number).map(|number| number as u8)
}
