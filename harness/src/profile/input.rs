// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts that are typed on the firmware's console, changes outside of its chip, and their times.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::error::InputError;
use crate::profile::outside::Outside;
use crate::text::escape::unescape;
use crate::text::number::{parse_from, parse_insns, parse_ns};

/// A step of the input: a text for the console, or changes outside of the chip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Instruction, time or prompt at which it begins.
    pub when: When,
    /// Text or changes.
    pub what: What,
}

/// Text or changes of a step of the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// Bytes that are typed on the console, not empty.
    Text(Vec<u8>),
    /// Changes outside of the chip.
    Outside(Outside),
}

/// Start of a step. A text, and changes after a prompt, wait for the steps before them; changes at an instruction or a time do not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// Start after this number of instructions from reset.
    At(u64),
    /// Start this many nanoseconds after reset, by the chip's clock; of changes only.
    AtNs(u64),
    /// Start once the firmware has printed this prompt, not empty, after the prompt of the step before.
    After(String),
}

impl Input {
    /// Reads `1M:go\n`.
    ///
    /// # Errors
    /// With the reason why the argument is wrong.
    pub fn at(typed: &str) -> Result<Input, InputError> {
        let option = "--input";
        let Some((at, text)) = typed.split_once(':') else {
            return Err(InputError::new(format!(
                "{option} {typed}: no ':'; write the instruction at which it is typed and the text, as 1M:go\\n \
                 (--input-after waits for a prompt instead)"
            )));
        };
        let at =
            parse_insns(option, at).map_err(|error| InputError::new(format!("{error} (in {option} {typed})")))?;
        Ok(Input { when: When::At(at), what: What::Text(text_bytes(option, typed, text)?) })
    }

    /// Reads `login\: :root\n`.
    ///
    /// # Errors
    /// With the reason why the argument is wrong.
    pub fn after(typed: &str) -> Result<Input, InputError> {
        let option = "--input-after";
        if colons(typed).len() > 1 {
            return Err(InputError::new(format!(
                "{option} {typed}: more than one ':' between prompt and text; write those that belong to them as \\:"
            )));
        }
        let (prompt, text) = prompt_and_rest(option, typed, "as 'prompt> :go\\n'")?;
        Ok(Input { when: When::After(prompt), what: What::Text(text_bytes(option, typed, text)?) })
    }

    /// Reads `10ms:PA0=1`, or `1M:PA0=1`.
    ///
    /// # Errors
    /// With the reason why the argument is wrong.
    pub fn set_at(typed: &str) -> Result<Input, InputError> {
        let error = |what: &dyn Display| InputError::new(format!("--set {typed}: {what}"));
        let Some((at, changes)) = typed.split_once(':') else {
            return Err(error(
                &"no ':'; write the time, or the instruction, and what changes, as 10ms:PA0=1 (--set-after waits for a \
                  prompt instead)",
            ));
        };
        let when = When::parse("--set", at).map_err(|what| error(&what))?;
        Ok(Input { when, what: What::Outside(Outside::parse(changes).map_err(|what| error(&what))?) })
    }

    /// Reads `ready:PA0=1`.
    ///
    /// # Errors
    /// With the reason why the argument is wrong.
    pub fn set_after(typed: &str) -> Result<Input, InputError> {
        let option = "--set-after";
        let (prompt, changes) = prompt_and_rest(option, typed, "as 'ready:PA0=1'")?;
        let changes = Outside::parse(changes).map_err(|what| InputError::new(format!("{option} {typed}: {what}")))?;
        Ok(Input { when: When::After(prompt), what: What::Outside(changes) })
    }

    /// Bytes that are typed on the console.
    pub fn typed(&self) -> &[u8] {
        match &self.what {
            What::Text(bytes) => bytes,
            What::Outside(_) => &[],
        }
    }

    /// Whether it has its turn among the steps; otherwise it comes by the chip's clock.
    pub fn is_step(&self) -> bool {
        matches!((&self.what, &self.when), (What::Text(_), _) | (_, When::After(_)))
    }

    /// Converts a step for the plugin. None: it is not a step.
    pub fn step(&self) -> Option<wire::input::Step> {
        let when = match &self.when {
            When::At(insns) => wire::input::When::At(*insns),
            When::After(prompt) => wire::input::When::After(prompt.clone().into_bytes()),
            When::AtNs(_) => return None,
        };
        self.is_step().then(|| wire::input::Step { when, bytes: self.typed().to_vec() })
    }

    /// Refuses a list whose texts cannot be typed at their instructions.
    ///
    /// # Errors
    /// With the instruction that has passed before the text's turn.
    pub fn check(list: &[Input]) -> Result<(), InputError> {
        let mut last = 0;
        for input in list.iter().filter(|input| input.is_step()) {
            if let When::At(insns) = input.when {
                if insns < last {
                    return Err(InputError::new(format!(
                        "input at instruction {insns} comes after input at instruction {last}; \
                         they are typed in the order in which they are given"
                    )));
                }
                last = insns;
            }
        }
        Ok(())
    }
}

impl When {
    /// Reads a time, as `10ms`, or a number of instructions, as `1M`.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse(key: &str, text: &str) -> Result<When, InputError> {
        match parse_ns(text) {
            Some(ns) if i64::try_from(ns).is_ok() => Ok(When::AtNs(ns)),
            Some(_) => Err(InputError::new(format!("{key} {text}: longer than any run"))),
            None => parse_from(key, text).map(When::At),
        }
    }
}

/// The prompt before the first `:` that is not escaped, and what is behind it.
fn prompt_and_rest<'a>(option: &str, typed: &'a str, example: &str) -> Result<(String, &'a str), InputError> {
    let error = |what: &str| InputError::new(format!("{option} {typed}: {what}"));
    let Some(&colon) = colons(typed).first() else {
        return Err(error(&format!("no ':'; write the prompt and what follows, {example}")));
    };
    let prompt = text_bytes(option, typed, &typed[..colon])?;
    let prompt = String::from_utf8(prompt).map_err(|_| error("the prompt is not text"))?;
    Ok((prompt, &typed[colon + 1..]))
}

/// Places of the `:` that are not escaped.
fn colons(typed: &str) -> Vec<usize> {
    let mut colons = Vec::new();
    let mut escaped = false;
    for (at, c) in typed.char_indices() {
        if c == ':' && !escaped {
            colons.push(at);
        }
        escaped = c == '\\' && !escaped;
    }
    colons
}

/// Reads a text with escapes, one side of an option's `:`.
fn text_bytes(option: &str, typed: &str, text: &str) -> Result<Vec<u8>, InputError> {
    unescape(text).map_err(|what| InputError::new(format!("{option} {typed}: {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_read_as_people_write_it() {
        let at = |insns, bytes: &[u8]| Ok(Input { when: When::At(insns), what: What::Text(bytes.to_vec()) });
        assert_eq!(Input::at(r"1.5M:go\n"), at(1_500_000, b"go\n"));
        assert_eq!(Input::at(r"7:set time 12:30\r\n"), at(7, b"set time 12:30\r\n"));
        assert_eq!(Input::at(r"7:\0\t\e[A\x7f\xff\\n"), at(7, b"\0\t\x1b[A\x7f\xff\\n"));
        assert_eq!(Input::at("7:ä"), at(7, "ä".as_bytes()));
        let after = |prompt: &str, bytes: &[u8]| {
            Ok(Input { when: When::After(prompt.to_owned()), what: What::Text(bytes.to_vec()) })
        };
        assert_eq!(Input::after(r"prompt> :x\n"), after("prompt> ", b"x\n"));
        assert_eq!(Input::after(r"login\: :root\:\\\n"), after("login: ", b"root:\\\n"));
        assert_eq!(Input::after(r"\\:x"), after("\\", b"x"));
        assert_eq!(Input::after("größe?:1"), after("größe?", b"1"));
    }
    #[test]
    fn changes_have_a_time_an_instruction_or_a_prompt() {
        let high = || What::Outside(Outside::parse("PA0=1").unwrap());
        assert_eq!(Input::set_at("10ms:PA0=1"), Ok(Input { when: When::AtNs(10_000_000), what: high() }));
        assert_eq!(Input::set_at("1M:PA0=1"), Ok(Input { when: When::At(1_000_000), what: high() }));
        let after = Input { when: When::After("go: ".to_owned()), what: high() };
        assert_eq!(Input::set_after("go\\: :PA0=1"), Ok(after.clone()));
        let field = What::Outside(Outside::parse("RCC.CFGR[7:4]=5").unwrap());
        let when = When::After("go: ".to_owned());
        assert_eq!(Input::set_after("go\\: :RCC.CFGR[7:4]=5"), Ok(Input { when, what: field }));
        assert!(after.is_step() && !Input::set_at("1M:PA0=1").unwrap().is_step());
        let refused = [
            (Input::set_at("PA0=1"), "--set PA0=1: no ':'"),
            (Input::set_at("soon:PA0=1"), "soon: not a number"),
            (Input::set_at("1ms:"), "no change"),
            (Input::set_at("10000000000s:PA0=1"), "longer than any run"),
            (Input::set_after("PA0=1"), "--set-after PA0=1: no ':'"),
        ];
        for (input, wanted) in refused {
            let error = input.unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
