// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes outside of a chip, as they are typed: `PA0=0,for=20ms,bounce=2ms`. Their names are those of a chip file, which finds them
//! ([`crate::chip::outside`]).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::InputError;
use crate::text::escape::{escape, unescape};
use crate::text::number::parse_ns;

/// Most changes that come together.
const MOST_CHANGES: usize = 256;

/// Changes outside of a chip that come together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outside {
    /// The changes, in their order.
    pub changes: Vec<Change>,
    /// Time in ns after which all of them, which are levels, change back; None: they stay.
    pub for_ns: Option<u64>,
    /// Time in ns for which each change goes to and fro before it holds, as a switch's contact does.
    pub bounce_ns: Option<u64>,
}

/// A change outside of a chip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A field of a peripheral, a pin, or a byte of a device on a bus, with its value: `ADC1.CH3=2345`, `PA0=1`, `TEMP[0]=0x19`.
    Set(String),
    /// Bytes for the serial port of a peripheral, or frames on the bus of a CAN controller, as text.
    Typed {
        /// Name of the peripheral.
        port: String,
        /// The bytes, not empty.
        bytes: Vec<u8>,
    },
}

impl Outside {
    /// Reads `PA0=0,for=20ms,bounce=2ms`, or `USART2<$GPGGA\r\n`, in which all behind the `<` is text.
    ///
    /// # Errors
    /// With the reason why the text is wrong.
    pub fn parse(text: &str) -> Result<Outside, InputError> {
        let mut outside = Outside::default();
        let mut rest = Some(text);
        while let Some(left) = rest {
            let (piece, behind) = left.split_once(',').map_or((left, None), |(piece, behind)| (piece, Some(behind)));
            rest = behind;
            if let Some((port, _)) = piece.split_once('<') {
                let bytes = unescape(&left[port.len() + 1..])?;
                outside.changes.push(Change::Typed { port: port.trim().to_owned(), bytes });
                rest = None;
                continue;
            }
            match piece.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
                Some(("for", time)) => once("for", &mut outside.for_ns, parse_time("for", time)?)?,
                Some(("bounce", time)) => once("bounce", &mut outside.bounce_ns, parse_time("bounce", time)?)?,
                _ => outside.changes.push(Change::Set(piece.trim().to_owned())),
            }
        }
        outside.check()?;
        Ok(outside)
    }

    /// Refuses changes that cannot be meant.
    ///
    /// # Errors
    /// With the reason.
    pub fn check(&self) -> Result<(), InputError> {
        let is_empty = |change: &Change| match change {
            Change::Set(text) => text.is_empty(),
            Change::Typed { port, bytes } => port.is_empty() || bytes.is_empty(),
        };
        let error = |what: &str| Err(InputError::new(what.to_owned()));
        if !(1..=MOST_CHANGES).contains(&self.changes.len()) || self.changes.iter().any(is_empty) {
            return error("no change; write a pin and its level, as PA0=1, or PERIPHERAL.REGISTER=VALUE");
        }
        let types = |change: &Change| matches!(change, Change::Typed { .. });
        if self.changes.iter().rev().skip(1).any(types) {
            return error("a text for a serial port, or frames: the last change of its step, and the only ones");
        }
        if self.changes.iter().any(types) && self.for_ns.or(self.bounce_ns).is_some() {
            return error("what a serial port or a CAN bus gets does not change back, and does not bounce");
        }
        match (self.for_ns, self.bounce_ns) {
            (Some(hold), Some(bounce)) if hold <= bounce => error("it bounces for longer than it holds"),
            _ => Ok(()),
        }
    }
}

/// Sets a time that all changes of a step have.
///
/// # Errors
/// When it is set.
pub fn once(key: &str, time_ns: &mut Option<u64>, ns: u64) -> Result<(), InputError> {
    match time_ns.replace(ns) {
        None => Ok(()),
        Some(_) => Err(InputError::new(format!(
            "two times of {key}: all changes of a step have the same; write a step for each"
        ))),
    }
}

/// Reads a time that is longer than none.
///
/// # Errors
/// When it is not a time.
pub fn parse_time(key: &str, text: &str) -> Result<u64, InputError> {
    parse_ns(text).filter(|&ns| ns > 0 && i64::try_from(ns).is_ok()).ok_or_else(|| {
        InputError::new(format!("{key}={text}: not a time; write a number and its unit, as 20ms, 1.5us or 1s"))
    })
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for change in &self.changes {
            match change {
                Change::Set(text) => write!(f, "{between}{text}")?,
                Change::Typed { port, bytes } => write!(f, "{between}{port}<{}", escape(bytes))?,
            }
            between = ",";
        }
        for (key, time) in [("for", self.for_ns), ("bounce", self.bounce_ns)] {
            if let Some(ns) = time {
                write!(f, ",{key}={ns}ns")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_as_people_write_them_and_written_back() {
        let set = |text: &str| Change::Set(text.to_owned());
        let pressed = Outside { changes: vec![set("PA0=0")], for_ns: Some(20_000_000), bounce_ns: Some(2_000_000) };
        assert_eq!(Outside::parse("PA0=0, for=20ms,bounce=2ms"), Ok(pressed.clone()));
        assert_eq!(Outside::parse(&pressed.to_string()), Ok(pressed));
        let two = Outside { changes: vec![set("GPIOC.PIN[13]=1"), set("TEMP[0]=0x19")], ..Outside::default() };
        assert_eq!(Outside::parse("GPIOC.PIN[13]=1,TEMP[0]=0x19"), Ok(two));
        let typed = |text: &str| Change::Typed { port: "USART2".to_owned(), bytes: text.as_bytes().to_vec() };
        let gps = Outside { changes: vec![set("PA0=1"), typed("$GPGGA,1<2\r\n")], ..Outside::default() };
        assert_eq!(Outside::parse("PA0=1,USART2<$GPGGA,1<2\\r\\n"), Ok(gps.clone()));
        assert_eq!(Outside::parse(&gps.to_string()), Ok(gps));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let cases = [
            ("", "no change"),
            ("PA0=0,", "no change"),
            ("for=1ms", "no change"),
            ("USART2<", "nothing"),
            ("<x", "no change"),
            ("PA0=0,for=20", "for=20: not a time"),
            ("PA0=0,for=0ms", "for=0ms: not a time"),
            ("PA0=0,for=1ms,bounce=1ms", "bounces for longer"),
            ("for=1ms,USART2<x", "does not change back"),
            ("PA0=0,for=1ms,PA1=1,for=2ms", "two times of for"),
            ("PA0=0,bounce=18446744073s", "not a time"),
        ];
        for (text, wanted) in cases {
            let error = Outside::parse(text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
