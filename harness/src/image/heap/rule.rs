//! Rules of `--heap-alloc` and `--heap-free`: the places of a function's arguments and of its result.
//!
//!     RULE = NAME [ "(" [ ITEM { "," ITEM } ] ")" ] [ "->" [ "*" ] WHERE ]
//!     ITEM = [ ( "size" | "count" | "align" | "old" ) "=" ] WHERE
//!     WHERE = "arg0" | "arg1" | … | a register's name | a number | "*" WHERE "+" NUMBER
//!
//! An item without a name is the size for an allocating function, and the block for a freeing one. The known
//! functions are written in the same syntax ([`super::known`]).

use decode::Isa;
use wire::heap::{Allocator, Argument};

use crate::error::InputError;
use crate::text::number::parse_number;

/// Kind of an allocation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Function that allocates memory.
    Alloc,
    /// Function that frees memory.
    Free,
}

impl Kind {
    /// Option that names such a function.
    pub fn option(self) -> &'static str {
        match self {
            Kind::Alloc => "--heap-alloc",
            Kind::Free => "--heap-free",
        }
    }
}

/// Function with the places of its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Kind of the function.
    pub kind: Kind,
    /// Rule as typed.
    text: String,
    /// Name of the function, in a form that [`crate::image::symbols::Symbols::find`] accepts.
    pub name: String,
    size: Option<Word>,
    count: Option<Word>,
    align: Option<Word>,
    old: Option<Word>,
    result: Option<Word>,
    /// Whether the block's address is stored where the result points.
    is_through: bool,
}

/// Word with its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    what: Where,
    at: usize,
}

/// Place of an argument or result.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Where {
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
struct Words<'t> {
    kind: Kind,
    text: &'t str,
    at: usize,
}

impl<'t> Words<'t> {
    fn error(&self, at: usize, what: impl std::fmt::Display) -> InputError {
        let Words { kind, text, .. } = self;
        let column = text[..at].chars().count();
        let option = kind.option();
        InputError::new(format!("{option}: column {}: {what}\n  {text}\n  {}^", column + 1, " ".repeat(column)))
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.text[self.at..].trim_start().len();
    }

    /// Takes a mark if it is next.
    fn take(&mut self, mark: &str) -> bool {
        self.skip_space();
        let is_next = self.text[self.at..].starts_with(mark);
        if is_next {
            self.at += mark.len();
        }
        is_next
    }

    /// Returns the next word; empty at the end.
    fn word(&mut self) -> (&'t str, usize) {
        self.skip_space();
        let rest = &self.text[self.at..];
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
        let at = self.at;
        self.at += end;
        (&rest[..end], at)
    }

    fn place(&mut self) -> Result<Word, InputError> {
        let (word, at) = self.word();
        self.place_of(word, at)
    }

    /// Place of a number that is asked for, which may be in memory.
    fn value(&mut self) -> Result<Word, InputError> {
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

    fn place_of(&self, word: &str, at: usize) -> Result<Word, InputError> {
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
}

/// Position of a rule's arguments: the bracket that closes at the end of the name, because a C++ name may have
/// brackets of its own.
fn end_of_name(text: &str) -> usize {
    let end = text.find("->").unwrap_or(text.len());
    let text = &text[..end];
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

impl Rule {
    /// Option of the rule, and its text.
    pub fn as_typed(&self) -> (String, String) {
        (self.kind.option().to_owned(), self.text.clone())
    }

    /// Reads a rule.
    ///
    /// # Errors
    /// [`InputError`], with the column of the mistake.
    pub fn parse(kind: Kind, text: &str) -> Result<Rule, InputError> {
        let end = end_of_name(text);
        let name = text[..end].trim().to_owned();
        let mut words = Words { kind, text, at: end };
        if name.is_empty() {
            return Err(words.error(0, "no function; write it as 'pool_get(size=r0)'"));
        }
        let mut rule = Rule {
            kind,
            text: text.to_owned(),
            name,
            size: None,
            count: None,
            align: None,
            old: None,
            result: None,
            is_through: false,
        };
        if words.take("(") && !words.take(")") {
            loop {
                rule.item(&mut words)?;
                if words.take(")") {
                    break;
                }
                if !words.take(",") {
                    return Err(words.error(words.at, "a `,` or the closing `)` is missing here"));
                }
            }
        }
        if words.take("->") {
            let at = words.at;
            if kind == Kind::Free {
                return Err(words.error(at - 2, "what takes memory back has no result"));
            }
            rule.is_through = words.take("*");
            let result = words.place()?;
            if matches!(result.what, Where::Number(_)) {
                return Err(words.error(result.at, "the result is in a register, such as r0, or *arg1"));
            }
            rule.result = Some(result);
        }
        words.skip_space();
        if words.at < text.len() {
            return Err(words.error(words.at, "nothing may follow here"));
        }
        match kind {
            Kind::Alloc if rule.size.is_none() => {
                Err(words.error(end, "how many bytes? write (size=arg0), or (size=64) where it is always the same"))
            }
            Kind::Free if rule.old.is_none() => {
                rule.old = Some(Word { what: Where::Argument(0), at: end });
                Ok(rule)
            }
            _ => Ok(rule),
        }
    }

    fn item(&mut self, words: &mut Words<'_>) -> Result<(), InputError> {
        let (word, at) = words.word();
        let (key, place) = if words.take("=") { (word, words.value()?) } else { ("", words.place_of(word, at)?) };
        let field = match (self.kind, key) {
            (Kind::Alloc, "" | "size") => &mut self.size,
            (Kind::Alloc, "count") => &mut self.count,
            (Kind::Alloc, "align") => &mut self.align,
            (Kind::Alloc, "old") | (Kind::Free, "" | "old") => &mut self.old,
            (Kind::Alloc, key) => {
                return Err(words.error(at, format_args!("`{key}` is none of size, count, align and old")));
            }
            (Kind::Free, key) => {
                return Err(words.error(at, format_args!("`{key}`: only the block is asked for, as in (arg0)")));
            }
        };
        if key == "old" || self.kind == Kind::Free {
            let (Where::Argument(_) | Where::Register(_)) = place.what else {
                return Err(words.error(place.at, "a block is in a register, such as r0, or arg0"));
            };
        }
        if field.replace(place).is_some() {
            return Err(words.error(at, "this was said before"));
        }
        Ok(())
    }

    /// Makes the plugin's record for the function at an address.
    ///
    /// # Errors
    /// [`InputError`], with the column, if the processor lacks such a register.
    pub fn allocator(&self, entry: u64, isa: Isa) -> Result<Allocator, InputError> {
        let is_riscv = matches!(isa, Isa::Riscv32 | Isa::Riscv64);
        let words = Words { kind: self.kind, text: &self.text, at: 0 };
        let register = |place: &Word| match &place.what {
            Where::Argument(number) if is_riscv && *number < RISCV_ARGUMENTS => Ok(RISCV_FIRST + number),
            Where::Argument(number) if !is_riscv && *number < ARM_ARGUMENTS => Ok(*number),
            Where::Argument(number) => {
                let last = if is_riscv { RISCV_ARGUMENTS } else { ARM_ARGUMENTS } - 1;
                let what = format!("arg{number} is not in a register here: arg0 to arg{last} are");
                Err(words.error(place.at, what))
            }
            Where::Register(name) => {
                let number = if is_riscv { riscv_register(name) } else { arm_register(name) };
                let isa = if is_riscv { "RISC-V" } else { "Arm" };
                number.ok_or_else(|| words.error(place.at, format_args!("{isa} has no register {name}")))
            }
            Where::Number(_) | Where::Word(..) => Err(words.error(place.at, "a register is meant here")),
        };
        let argument = |place: &Option<Word>| match place {
            None => Ok(None),
            Some(Word { what: Where::Word(pointer, offset), .. }) => {
                Ok(Some(Argument::Word { register: register(pointer)?, offset: *offset }))
            }
            Some(Word { what: Where::Number(number), .. }) => Ok(Some(Argument::Constant(*number))),
            Some(place) => register(place).map(|number| Some(Argument::Register(number))),
        };
        let result = if is_riscv { RISCV_FIRST } else { 0 };
        let given = self.result.as_ref().map(register).transpose()?;
        Ok(Allocator {
            entry,
            size: argument(&self.size)?,
            count: argument(&self.count)?,
            align: argument(&self.align)?,
            old: self.old.as_ref().map(register).transpose()?,
            result: given.filter(|_| !self.is_through).unwrap_or(result),
            place: given.filter(|_| self.is_through),
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn alloc(text: &str) -> Result<Allocator, String> {
        let rule = Rule::parse(Kind::Alloc, text).map_err(|error| error.to_string())?;
        rule.allocator(0x100, Isa::ThumbV7m).map_err(|error| error.to_string())
    }

    #[test]
    fn a_rule_names_the_function_and_where_its_arguments_are() {
        let plain = Allocator {
            entry: 0x100,
            size: Some(Argument::Register(0)),
            count: None,
            align: None,
            old: None,
            result: 0,
            place: None,
        };
        for text in ["pool_get(size=r0)", "pool_get(arg0)", " pool_get ( size = arg0 ) -> r0 "] {
            assert_eq!(alloc(text), Ok(plain), "{text}");
        }
        let word = Argument::Word { register: 1, offset: 28 };
        assert_eq!(alloc("get(size=*arg1+28)"), Ok(Allocator { size: Some(word), ..plain }));
        for (wrong, what) in [
            ("get(size=*arg1)", "how far from there?"),
            ("get(size=*arg1+r0)", "a number of bytes"),
            ("get(size=*4+28)", "a register is meant here"),
            ("get(old=*arg1+28, size=4)", "a block is in a register"),
        ] {
            assert!(alloc(wrong).unwrap_err().contains(what), "{wrong}");
        }
        assert_eq!(alloc("get(size=64)"), Ok(Allocator { size: Some(Argument::Constant(64)), ..plain }));
        let many = alloc("get(count=r3, size=0x10, align=arg2, old=r1) -> *arg0").unwrap();
        assert_eq!((many.count, many.size), (Some(Argument::Register(3)), Some(Argument::Constant(16))));
        assert_eq!((many.align, many.old, many.place), (Some(Argument::Register(2)), Some(1), Some(0)));
        let rule = Rule::parse(Kind::Alloc, "Pool<4>::get(unsigned int)(size=a1)").unwrap();
        assert_eq!(rule.name, "Pool<4>::get(unsigned int)");
        let riscv = rule.allocator(0x100, Isa::Riscv64).unwrap();
        assert_eq!((riscv.size, riscv.result), (Some(Argument::Register(11)), 10));
        for text in ["pool_put", "pool_put()", "pool_put(arg0)", "pool_put(old=r0)"] {
            let freed = Rule::parse(Kind::Free, text).unwrap().allocator(0x100, Isa::ThumbV7m).unwrap();
            assert_eq!(freed, Allocator { size: None, old: Some(0), ..plain }, "{text}");
        }
    }

    #[test]
    fn an_error_points_at_its_column() {
        let error = |text: &str| alloc(text).unwrap_err();
        assert_eq!(
            error("pool_get(size=q9)"),
            "--heap-alloc: column 15: `q9` is not an argument (arg0, arg1, …), register (r0, a0) or number\n  \
             pool_get(size=q9)\n                ^"
        );
        for (text, column) in [
            ("(size=r0)", 1),
            ("pool_get", 9),
            ("pool_get()", 9),
            ("get(bytes=r0)", 5),
            ("get(size=r0", 12),
            ("get(size=r0 align=r1)", 13),
            ("get(size=r0, size=r1)", 14),
            ("get(size=r0) r1", 14),
            ("get(size=r0) -> 4", 17),
            ("get(size=r0, old=4)", 18),
            ("get(size=arg4)", 10),
            ("get(size=a0)", 10),
            ("größe(size=)", 12),
        ] {
            let error = error(text);
            assert!(error.starts_with(&format!("--heap-alloc: column {column}: ")), "{text}: {error}");
        }
        let error = Rule::parse(Kind::Free, "put(size=r0)").unwrap_err().to_string();
        assert!(error.starts_with("--heap-free: column 5: "), "{error}");
        assert!(Rule::parse(Kind::Free, "put(r0) -> r0").is_err());
        assert!(Rule::parse(Kind::Free, "put(4)").is_err());
    }
}
