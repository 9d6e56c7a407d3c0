// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of `input` in a suite and in a file of `--stimulus`: `{ after = "> ", text = "help\n" }`, `{ at = "10ms", pin = "PA0", level = 1 }`.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;
use wire::input::MAX_BYTES;

use crate::chip::CAN;
use crate::error::InputError;
use crate::image::bounded_read;
use crate::profile::input::{Input, What, When};
use crate::profile::outside::{Change, Outside, once, parse_time};
use crate::text::count::Count;
use crate::text::number::parse_from;

/// Largest file of `--stimulus`.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A row: a text for the console or for a serial port, frames for a CAN controller, or changes outside of the chip.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputRow {
    at: Option<Count>,
    after: Option<String>,
    text: Option<String>,
    file: Option<PathBuf>,
    /// Serial port that gets the text; None: the console's. CAN controller that gets the frames; None: the chip's only one.
    port: Option<String>,
    /// Frames of others on a CAN bus, as `123#1122`.
    can: Option<String>,
    set: Option<Changes>,
    pin: Option<String>,
    level: Option<u8>,
    /// Time after which the changes change back.
    #[serde(rename = "for")]
    for_time: Option<String>,
    bounce: Option<String>,
}

/// One change or several.
#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "a change, such as \"PA0=1\", or a list of them")]
enum Changes {
    One(String),
    Several(Vec<String>),
}

/// A file of `--stimulus`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StimulusFile {
    input: Vec<Spanned<InputRow>>,
}

impl InputRow {
    /// File with the row's text. None: the row has the text itself.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref().filter(|_| self.text.is_none())
    }

    /// The row's step. `file` is the file that it names, its name and its bytes.
    ///
    /// # Errors
    /// With the reason why the row is wrong.
    pub(crate) fn input(&self, file: Option<(String, Vec<u8>)>) -> Result<Input, InputError> {
        let error = |what: &str| Err(InputError::new(format!("input: {what}")));
        let is_typed = self.text.is_some() || self.file.is_some();
        let is_set = self.set.is_some() || self.pin.is_some() || self.port.is_some() || self.can.is_some();
        let when = match (&self.at, &self.after) {
            (Some(Count(at)), None) if is_set => When::parse("at", at)?,
            (Some(Count(at)), None) => When::At(parse_from("at", at)?),
            (None, Some(prompt)) if !prompt.is_empty() => When::After(prompt.clone()),
            _ => return error("either `at` or `after` says when it comes"),
        };
        if is_set {
            return Ok(Input { when, what: What::Outside(self.outside(is_typed, file)?) });
        }
        let rest = [self.level.is_some(), self.for_time.is_some(), self.bounce.is_some()];
        if rest.contains(&true) {
            return error("`level`, `for` and `bounce` are for a `pin`");
        }
        if !is_typed {
            return error("either `text` or `file` says what is typed, or `pin` or `set` what changes");
        }
        Ok(Input { when, what: What::Text(self.bytes(file)?) })
    }

    fn outside(&self, is_typed: bool, file: Option<(String, Vec<u8>)>) -> Result<Outside, InputError> {
        let error = |what: &str| Err(InputError::new(format!("input: {what}")));
        let mut outside = Outside::default();
        let texts = match &self.set {
            None => &[][..],
            Some(Changes::One(one)) => std::slice::from_ref(one),
            Some(Changes::Several(several)) => several,
        };
        for text in texts {
            let typed = Outside::parse(text).map_err(|what| InputError::new(format!("input: {text}: {what}")))?;
            outside.changes.extend(typed.changes);
            add_times(&mut outside, [typed.for_ns, typed.bounce_ns])?;
        }
        let changes = &mut outside.changes;
        match (&self.pin, self.level) {
            (Some(pin), Some(level @ (0 | 1))) => changes.push(Change::Set(format!("{pin}={level}"))),
            (Some(_), _) => return error("a `pin` needs its `level`, 0 or 1"),
            (None, Some(_)) => return error("`level` is that of a `pin`"),
            (None, None) => {}
        }
        match (&self.can, &self.port, is_typed) {
            (Some(_), _, true) => return error("`can` is a row of its own, without a text"),
            (Some(frames), port, false) => {
                if !(1..=MAX_BYTES).contains(&frames.trim().len()) {
                    return error("`can` has frames, as 123#1122, and at most 1 MiB of them");
                }
                let port = port.as_deref().unwrap_or(CAN).to_owned();
                changes.push(Change::Typed { port, bytes: frames.clone().into_bytes() });
            }
            (None, Some(port), true) => changes.push(Change::Typed { port: port.clone(), bytes: self.bytes(file)? }),
            (None, Some(_), false) => return error("a `port` needs the `text`, or the `file`, that it gets"),
            (None, None, true) => {
                return error("a text for the console is a row of its own; `port` says which serial port gets it");
            }
            (None, None, false) => {}
        }
        let time = |key, text: &Option<String>| text.as_ref().map(|text| parse_time(key, text)).transpose();
        add_times(&mut outside, [time("for", &self.for_time)?, time("bounce", &self.bounce)?])?;
        outside.check().map_err(|what| InputError::new(format!("input: {what}")))?;
        // It is written as `--set` takes it, and must mean the same there.
        match Outside::parse(&outside.to_string()) {
            Ok(again) if again == outside => Ok(outside),
            _ => error("a change has a comma or `<` in it, or the name of a key"),
        }
    }

    /// Text of the row, or the bytes of its file.
    fn bytes(&self, file: Option<(String, Vec<u8>)>) -> Result<Vec<u8>, InputError> {
        let (what, bytes) = match (&self.text, file) {
            (Some(text), None) if self.file.is_none() => ("the text".to_owned(), text.clone().into_bytes()),
            (None, Some(file)) => file,
            _ => return Err(InputError::new("input: either `text` or `file` says what is typed")),
        };
        match bytes.len() {
            0 => Err(InputError::new(format!("input: {what} is empty"))),
            1..=MAX_BYTES => Ok(bytes),
            _ => Err(InputError::new(format!("input: {what} is longer than {MAX_BYTES} bytes; type it in several"))),
        }
    }
}

/// Adds `for` and `bounce` to changes.
fn add_times(outside: &mut Outside, [for_ns, bounce_ns]: [Option<u64>; 2]) -> Result<(), InputError> {
    for_ns.map_or(Ok(()), |ns| once("for", &mut outside.for_ns, ns))?;
    bounce_ns.map_or(Ok(()), |ns| once("bounce", &mut outside.bounce_ns, ns))
}

/// Reads a file of `--stimulus`.
///
/// # Errors
/// When it cannot be read, or a row is wrong: with the row's line.
pub(crate) fn read(path: &Path) -> Result<Vec<Input>, InputError> {
    let unreadable = |error| InputError::about(path, format_args!("cannot be read: {error}"));
    let bytes = bounded_read::read_up_to(path, MAX_FILE_BYTES).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|_| InputError::about(path, "is not a text"))?;
    let at = |start: usize, what: &dyn std::fmt::Display| {
        let line = text[..start.min(text.len())].matches('\n').count() + 1;
        InputError::new(format!("{}:{line}: {what}", path.display()))
    };
    let file: StimulusFile =
        toml::from_str(&text).map_err(|error| at(error.span().map_or(0, |span| span.start), &error.message()))?;
    let row = |row: &Spanned<InputRow>| {
        // The file may be somebody else's: it opens no other.
        if row.get_ref().file().is_some() {
            return Err(at(row.span().start, &"input: `file` is for suites; write the `text` here"));
        }
        row.get_ref().input(None).map_err(|error| at(row.span().start, &error))
    };
    file.input.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Result<Vec<String>, String> {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("door.toml");
        std::fs::write(&file, text).unwrap();
        let rows = read(&file).map_err(|error| error.to_string().replace(&*temp.path().to_string_lossy(), ""))?;
        Ok(rows.iter().map(|Input { when, what }| format!("{when:?} {what:?}")).collect())
    }

    #[test]
    fn rows_mean_what_the_options_mean() {
        let text = r#"
input = [
    { after = "> ", text = "help\n" },
    { at = "1M", text = "x" },
    { at = 0, set = "RCC.CFGR[7:4]=5" },
    { at = "10ms", pin = "PA0", level = 1 },
    { at = 5_000, set = ["ADC1.CH3=7", "TEMP[0]=0x19"] },
    { at = 5_000, set = "PA0=1,for=1ms" },
    { after = "press", pin = "PC13", level = 0, for = "20ms", bounce = "2ms" },
    { after = "gps", text = "$GP\r\n", port = "USART2" },
    { after = "door", can = "123#1122" },
    { at = "1ms", can = "00000123# 124#R", port = "CAN2" },
]
"#;
        let options = [
            Input::after("> :help\\n"),
            Input::at("1M:x"),
            Input::set_at("0:RCC.CFGR[7:4]=5"),
            Input::set_at("10ms:PA0=1"),
            Input::set_at("5000:ADC1.CH3=7,TEMP[0]=0x19"),
            Input::set_at("5000:PA0=1,for=1ms"),
            Input::set_after("press:PC13=0,for=20ms,bounce=2ms"),
            Input::set_after("gps:USART2<$GP\\r\\n"),
            Input::set_after("door:CAN<123#1122"),
            Input::set_at("1ms:CAN2<00000123# 124#R"),
        ];
        let options: Vec<String> = options
            .into_iter()
            .map(|input| input.map(|Input { when, what }| format!("{when:?} {what:?}")).unwrap())
            .collect();
        assert_eq!(rows(text).unwrap(), options);
    }

    #[test]
    fn a_wrong_row_is_named_with_its_line() {
        let cases = [
            ("{ text = \"x\" }", "either `at` or `after`"),
            ("{ at = 1, after = \"a\", text = \"x\" }", "either `at` or `after`"),
            ("{ at = \"10ms\", text = \"x\" }", "10ms: not a number"),
            ("{ at = 1 }", "either `text` or `file`"),
            ("{ at = 1, pin = \"PA0\" }", "needs its `level`"),
            ("{ at = 1, pin = \"PA0\", level = 2 }", "needs its `level`"),
            ("{ at = 1, set = \"PA0=1\", level = 1 }", "is that of a `pin`"),
            ("{ at = 1, text = \"x\", for = \"1ms\" }", "are for a `pin`"),
            ("{ at = 1, text = \"x\", pin = \"PA0\", level = 1 }", "a row of its own"),
            ("{ at = 1, port = \"USART2\" }", "needs the `text`"),
            ("{ at = 1, can = \"1#\", text = \"x\" }", "`can` is a row of its own"),
            ("{ at = 1, can = \"\" }", "`can` has frames"),
            ("{ at = 1, can = \"1#\", for = \"1ms\" }", "what a serial port or a CAN bus gets does not change back"),
            ("{ at = 1, pin = \"PA0\", level = 1, for = \"soon\" }", "for=soon: not a time"),
            ("{ at = 1, pin = \"PA0,PA1\", level = 1 }", "has a comma"),
            ("{ at = 1, set = \"PA0=1,for=now\" }", "for=now: not a time"),
            ("{ at = 1, set = [] }", "no change"),
            ("{ at = 1, set = [\"PA0=0,for=1ms\", \"PA1=1,for=2ms\"] }", "two times of for"),
            ("{ at = 1, set = [\"USART2<x\", \"PA0=1\"] }", "the last change of its step"),
            ("{ at = 1, file = \"/etc/passwd\" }", "`file` is for suites"),
            ("{ at = 1, txt = \"x\" }", "unknown field"),
        ];
        for (row, wanted) in cases {
            let error = rows(&format!("input = [\n{row}\n]\n")).unwrap_err();
            assert!(error.starts_with("/door.toml:2: ") && error.contains(wanted), "{row}: {error}");
        }
    }
}
