// SPDX-License-Identifier: MIT OR Apache-2.0
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
use crate::image::argument::{self, Where, Word, Words, end_of_name};

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
    /// Whether the place of the result has a pointer to the block's address, not the address itself.
    is_through: bool,
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
        let end = end_of_name(&text[..text.find("->").unwrap_or(text.len())]);
        let name = text[..end].trim().to_owned();
        let mut words = Words { option: kind.option(), text, at: end };
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
        let words = Words { option: self.kind.option(), text: &self.text, at: 0 };
        let register = |place: &Word| words.register(place, isa);
        let argument = |place: &Option<Word>| match place {
            None => Ok(None),
            Some(Word { what: Where::Word(pointer, offset), .. }) => {
                Ok(Some(Argument::Word { register: register(pointer)?, offset: *offset }))
            }
            Some(Word { what: Where::Number(number), .. }) => Ok(Some(Argument::Constant(*number))),
            Some(place) => register(place).map(|number| Some(Argument::Register(number))),
        };
        let result = argument::first(isa);
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
