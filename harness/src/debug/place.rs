// SPDX-License-Identifier: MIT OR Apache-2.0
//! PLACE: the user's notation for an instruction of a run, read by `--at` and `monitor goto`.
//!
//! Places refer to the profile: instructions are counted from the window's opening, samples and calls as in its
//! reports. [`crate::debug::find`] turns a place into an instruction of the run.

use std::fmt;

use crate::error::InputError;
use crate::text::number::parse_number;

/// An instruction of a run, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `sample:N`: the instruction of the N-th sample, from 1.
    Sample(u64),
    /// `insn:N`: the N-th instruction of the window, from 1.
    Insn(u64),
    /// `call:FUNC[:K]`: the first instruction of the K-th call of a function, from 1.
    Call {
        /// The function, as for every command.
        function: String,
        /// The number K.
        nth: u64,
    },
    /// `max:FUNC`: the first instruction of the longest call.
    Max {
        /// The function.
        function: String,
    },
    /// `max-irq:NAME`: the first instruction of the handler's longest run.
    MaxIrq {
        /// The interrupt, named as in reports, with or without brackets.
        name: String,
    },
    /// `masked-max`: the beginning of the longest time with interrupts masked.
    MaskedMax,
    /// `peak-stack[:TASK]`: the instruction at which a task's stack was deepest.
    PeakStack {
        /// The task; None: the task with the least room left.
        task: Option<String>,
    },
    /// `console:TEXT`: the instruction by which this text was first printed.
    Console {
        /// The text.
        text: String,
    },
    /// `switch:TASK[:K]`: the K-th switch to a task, from 1.
    Switch {
        /// The task.
        task: String,
        /// The number K.
        nth: u64,
    },
    /// `crash`: the fault, or any other bad end of the run.
    Crash,
    /// `end`: the run's last instruction.
    End,
    /// `write:ADDR|SYMBOL[@PLACE]`: the last write of an address or a variable before a place.
    Write {
        /// The address (`0x…`) or the variable.
        what: String,
        /// The place before which it is searched for; None: the end.
        before: Option<Box<Place>>,
    },
}

/// Forms of places: beginning, arguments, and meaning, for messages and help.
pub const FORMS: [(&str, &str, &str); 12] = [
    ("sample", ":N", "the N-th sample"),
    ("insn", ":N", "the N-th instruction of the window"),
    ("call", ":FUNC[:K]", "the K-th call of a function"),
    ("max", ":FUNC", "the call that took longest"),
    ("max-irq", ":NAME", "an interrupt's handler where it took longest"),
    ("masked-max", "", "where interrupts were masked for longest"),
    ("peak-stack", "[:TASK]", "where a task's stack was deepest"),
    ("console", ":TEXT", "the moment when the firmware had printed this"),
    ("switch", ":TASK[:K]", "the K-th time that a task is switched in"),
    ("crash", "", "the fault, or the failure that ended the run"),
    ("end", "", "the run's last instruction"),
    ("write", ":ADDR|SYMBOL[@PLACE]", "the last write of a variable before the end, or a place"),
];

impl Place {
    /// Reads a place.
    ///
    /// # Errors
    /// With the column of the mistake, and the valid forms.
    pub fn parse(typed: &str) -> Result<Place, InputError> {
        let wrong = |column: usize, what: String| {
            InputError::new(format!("{typed}: {what} (column {})", typed[..column].chars().count() + 1))
        };
        let start = typed.len() - typed.trim_start().len();
        let words = typed.trim_start();
        let (form, rest) = match words.split_once(':') {
            Some((form, rest)) => (form, Some(rest)),
            None => (words.trim_end(), None),
        };
        let Some(&(form, takes, meaning)) = FORMS.iter().find(|(known, ..)| *known == form) else {
            return Err(wrong(start, unknown(form, rest)));
        };
        let at = start + form.len() + 1;
        let needed = || match rest {
            Some(rest) if !rest.trim().is_empty() => Ok(rest),
            _ => Err(wrong(typed.len(), format!("`{form}` needs more: {form}{takes} is {meaning}"))),
        };
        let number = |text: &str| match parse_number(form, text) {
            Ok(0) => Err(wrong(at, format!("`{form}` counts from 1"))),
            Ok(number) => Ok(number),
            Err(_) => Err(wrong(at, format!("`{text}` is not a number; write it as 2000000, 2M, 1.5G or 0x1000"))),
        };
        // A name may contain colons: `FILE:NAME`, `Type::function`.
        let counted = || -> Result<(String, u64), InputError> {
            let all = needed()?.trim_end();
            let split = all.rsplit_once(':').filter(|(name, nth)| !name.ends_with(':') && is_number(nth));
            let (name, nth) = split.unwrap_or((all, "1"));
            match nth.parse() {
                Ok(0) => Err(wrong(at + name.len() + 1, format!("`{form}` counts from 1"))),
                Ok(_) if name.trim().is_empty() => Err(wrong(at, format!("no name before `:{nth}`"))),
                Ok(nth) => Ok((name.trim().to_owned(), nth)),
                Err(_) => Err(wrong(at + name.len() + 1, format!("`{nth}` is too large"))),
            }
        };
        let named = || needed().map(|name| name.trim().to_owned());
        let alone = |place: Place| match rest {
            None => Ok(place),
            Some(_) => Err(wrong(at - 1, format!("`{form}` takes no argument"))),
        };
        match form {
            "sample" => Ok(Place::Sample(number(needed()?.trim())?)),
            "insn" => Ok(Place::Insn(number(needed()?.trim())?)),
            "call" => counted().map(|(function, nth)| Place::Call { function, nth }),
            "max" => Ok(Place::Max { function: named()? }),
            "max-irq" => Ok(Place::MaxIrq { name: named()? }),
            "masked-max" => alone(Place::MaskedMax),
            "peak-stack" if rest.is_none() => Ok(Place::PeakStack { task: None }),
            "peak-stack" => Ok(Place::PeakStack { task: Some(named()?) }),
            // Blanks may be part of the text.
            "console" => Ok(Place::Console { text: needed()?.to_owned() }),
            "switch" => counted().map(|(task, nth)| Place::Switch { task, nth }),
            "crash" => alone(Place::Crash),
            "end" => alone(Place::End),
            _ => {
                let all = needed()?;
                let Some((what, before)) = all.split_once('@') else {
                    return Ok(Place::Write { what: all.trim().to_owned(), before: None });
                };
                if what.trim().is_empty() {
                    return Err(wrong(at, "no address or variable before `@`".to_owned()));
                }
                let before = Place::parse(before).map_err(|error| InputError::new(format!("{typed}: {error}")))?;
                Ok(Place::Write { what: what.trim().to_owned(), before: Some(Box::new(before)) })
            }
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Message for an unknown form, with a suggestion.
fn unknown(form: &str, rest: Option<&str>) -> String {
    if form.is_empty() {
        return format!("no place; there are {}", list());
    }
    if rest.is_none() && parse_number("", form).is_ok() {
        return format!("a number alone is not a place; write insn:{form} or sample:{form}");
    }
    let distances = FORMS.iter().map(|(known, ..)| (strsim::damerau_levenshtein(form, known), *known));
    match distances.min().filter(|&(distance, known)| distance <= known.len() / 2) {
        Some((_, nearest)) => format!("no place begins with `{form}`; did you mean `{nearest}`?"),
        None if rest.is_none() => {
            format!("`{form}` is not a place; for a function write call:{form} or max:{form}")
        }
        None => format!("no place begins with `{form}`; there are {}", list()),
    }
}

fn list() -> String {
    FORMS.map(|(form, takes, _)| format!("{form}{takes}")).join(", ")
}

/// Displays the place as it is typed.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Sample(n) => write!(f, "sample:{n}"),
            Place::Insn(n) => write!(f, "insn:{n}"),
            Place::Call { function, nth: 1 } if !ends_in_number(function) => write!(f, "call:{function}"),
            Place::Call { function, nth } => write!(f, "call:{function}:{nth}"),
            Place::Max { function } => write!(f, "max:{function}"),
            Place::MaxIrq { name } => write!(f, "max-irq:{name}"),
            Place::MaskedMax => f.write_str("masked-max"),
            Place::PeakStack { task: None } => f.write_str("peak-stack"),
            Place::PeakStack { task: Some(task) } => write!(f, "peak-stack:{task}"),
            Place::Console { text } => write!(f, "console:{text}"),
            Place::Switch { task, nth: 1 } if !ends_in_number(task) => write!(f, "switch:{task}"),
            Place::Switch { task, nth } => write!(f, "switch:{task}:{nth}"),
            Place::Crash => f.write_str("crash"),
            Place::End => f.write_str("end"),
            Place::Write { what, before: None } => write!(f, "write:{what}"),
            Place::Write { what, before: Some(before) } => write!(f, "write:{what}@{before}"),
        }
    }
}

/// Whether the end of a name would be read as a number.
fn ends_in_number(name: &str) -> bool {
    name.rsplit_once(':').is_some_and(|(_, last)| is_number(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::debug_hints;
    use crate::analysis::lookup;
    use crate::profile::testing::freertos;
    use crate::profile::{Span, SpanKind};

    fn error(typed: &str) -> String {
        Place::parse(typed).unwrap_err().to_string()
    }

    #[test]
    fn every_place_is_read_and_written_alike() {
        let call = |function: &str, nth| Place::Call { function: function.to_owned(), nth };
        let write = |what: &str, before| Place::Write { what: what.to_owned(), before };
        for (typed, place) in [
            ("sample:17", Place::Sample(17)),
            ("insn:2000000", Place::Insn(2_000_000)),
            ("call:main", call("main", 1)),
            ("call:main:3", call("main", 3)),
            ("call:app::Uart::send", call("app::Uart::send", 1)),
            ("call:app::Uart::send:12", call("app::Uart::send", 12)),
            ("call:uart.c:init:2", call("uart.c:init", 2)),
            ("call:<T as core::fmt::Write>::write_str:4", call("<T as core::fmt::Write>::write_str", 4)),
            ("max:filter(int, char const*)", Place::Max { function: "filter(int, char const*)".to_owned() }),
            ("max-irq:[irq SysTick]", Place::MaxIrq { name: "[irq SysTick]".to_owned() }),
            ("masked-max", Place::MaskedMax),
            ("peak-stack", Place::PeakStack { task: None }),
            ("peak-stack:sensor (2)", Place::PeakStack { task: Some("sensor (2)".to_owned()) }),
            ("console: a: b ", Place::Console { text: " a: b ".to_owned() }),
            ("switch:IDLE", Place::Switch { task: "IDLE".to_owned(), nth: 1 }),
            ("switch:a:b:7", Place::Switch { task: "a:b".to_owned(), nth: 7 }),
            ("crash", Place::Crash),
            ("end", Place::End),
            ("write:0x20000100", write("0x20000100", None)),
            ("write:heap@sample:3", write("heap", Some(Box::new(Place::Sample(3))))),
            ("write:a@write:b@call:f:2", write("a", Some(Box::new(write("b", Some(Box::new(call("f", 2)))))))),
        ] {
            assert_eq!(Place::parse(typed).as_ref(), Ok(&place), "{typed}");
            assert_eq!(place.to_string(), typed);
        }
        assert_eq!(Place::parse(" insn:1.5M "), Ok(Place::Insn(1_500_000)));
        assert_eq!(Place::parse(" end "), Ok(Place::End));
        assert_eq!(Place::parse("call:f:2 "), Ok(call("f", 2)));
        // The number is written if the end of the name could be read as a number.
        assert_eq!(call("f:2", 1).to_string(), "call:f:2:1");
        assert_eq!(Place::parse("call:f:2:1"), Ok(call("f:2", 1)));
    }

    #[test]
    fn what_reports_name_as_worth_a_visit_is_a_place() {
        let mut profile = freertos();
        let kind = SpanKind::Call { entry: 0x60 };
        profile.spans.push(Span { count: 4, max_insns: 70, sum_insns: 100, ..Span::none(kind) });
        let visits = debug_hints::worth(&profile);
        let called: Vec<_> = lookup::places(&profile, "UART0_IRQHandler").unwrap();
        let called = debug_hints::of_functions(&profile, &called).unwrap();
        let new = debug_hints::first_new_sample(&profile, "format", 100).unwrap();
        let places = visits.iter().chain([&called]).map(|visit| &visit.place).chain([&new]);
        assert_eq!(visits.len(), 3);
        for place in places {
            assert_eq!(&Place::parse(place).unwrap().to_string(), place);
        }
    }

    #[test]
    fn errors_name_the_word_its_column_and_what_was_meant() {
        assert_eq!(error("smaple:3"), "smaple:3: no place begins with `smaple`; did you mean `sample`? (column 1)");
        assert_eq!(error(" calls:f"), " calls:f: no place begins with `calls`; did you mean `call`? (column 2)");
        assert_eq!(error("1234"), "1234: a number alone is not a place; write insn:1234 or sample:1234 (column 1)");
        assert_eq!(
            error("vTaskDelay"),
            "vTaskDelay: `vTaskDelay` is not a place; for a function write call:vTaskDelay or max:vTaskDelay (column 1)"
        );
        assert!(error("").starts_with(": no place; there are sample:N, insn:N, call:FUNC[:K], "), "{}", error(""));
        assert!(error("frobnicate:1").contains("there are sample:N"), "{}", error("frobnicate:1"));
        assert_eq!(error("sample"), "sample: `sample` needs more: sample:N is the N-th sample (column 7)");
        assert_eq!(
            error("call:"),
            "call:: `call` needs more: call:FUNC[:K] is the K-th call of a function (column 6)"
        );
        assert_eq!(
            error("sample:x1"),
            "sample:x1: `x1` is not a number; write it as 2000000, 2M, 1.5G or 0x1000 (column 8)"
        );
        assert_eq!(error("insn:0"), "insn:0: `insn` counts from 1 (column 6)");
        assert_eq!(error("call:größe:0"), "call:größe:0: `call` counts from 1 (column 12)");
        assert_eq!(error("switch::3"), "switch::3: no name before `:3` (column 8)");
        assert!(error("call:f:99999999999999999999").contains("is too large (column 8)"));
        assert_eq!(error("end:1"), "end:1: `end` takes no argument (column 4)");
        assert_eq!(error("write:@end"), "write:@end: no address or variable before `@` (column 7)");
        assert_eq!(
            error("write:x@ned"),
            "write:x@ned: ned: no place begins with `ned`; did you mean `end`? (column 1)"
        );
    }
}
