// SPDX-License-Identifier: MIT OR Apache-2.0
//! A limit on a number, relative to the baseline or absolute. A threshold's number is worse if it is larger, a number
//! of work if it is smaller.
//!
//! Numbers are compared as integers: a change by one crosses a limit of `0%`.

use crate::analysis::compare::Pair;
use crate::error::InputError;
use crate::text::number::{group, parse_millionths, parse_number, signed, signed_percent};

/// Direction in which a number gets worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worse {
    /// Numbers above the limit are too much.
    More,
    /// Numbers below the limit are too little.
    Less,
}

/// Permitted change of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Share of the baseline's number, in millionths.
    Share(u64),
    /// Amount more or less than the baseline's number.
    Amount(u64),
    /// A ceiling or a floor, independent of the baseline.
    Absolute(u64),
}

/// A limit on a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Direction in which the number gets worse.
    pub worse: Worse,
    /// Permitted change.
    pub bound: Bound,
}

impl Limit {
    /// Reads `5%`, an amount with the sign of a worse number (`+2k`, `-500`), or an absolute number (`10k`).
    ///
    /// # Errors
    /// For any other text; the message tells what to write.
    pub fn parse(worse: Worse, text: &str) -> Result<Limit, InputError> {
        let (sign, write) = match worse {
            Worse::More => ('+', "write 5% or +500 (more than the baseline), or 10k (in all)"),
            Worse::Less => ('-', "write 2% or -500 (less than in the baseline), or 100 (at least)"),
        };
        let error = || InputError::new(format!("limit {text:?}: {write}"));
        let number = |text: &str| parse_number("limit", text).map_err(|_| error());
        let text = text.trim();
        let bound = if let Some(share) = text.strip_suffix('%') {
            Bound::Share(parse_millionths(share.trim()).ok_or_else(error)?)
        } else if let Some(amount) = text.strip_prefix(sign) {
            Bound::Amount(number(amount)?)
        } else {
            Bound::Absolute(number(text)?)
        };
        Ok(Limit { worse, bound })
    }

    /// Whether the limit is a ceiling or a floor, which needs no baseline.
    pub fn is_absolute(self) -> bool {
        matches!(self.bound, Bound::Absolute(_))
    }

    /// Whether a number crosses the limit. An unknown new number never crosses a ceiling; for a floor it counts as 0.
    pub fn is_crossed(self, Pair { before, after }: Pair) -> bool {
        let after = match (self.worse, after) {
            (_, Some(after)) => after,
            (Worse::Less, None) => 0,
            (Worse::More, None) => return false,
        };
        let is_worse = |than: u64| match self.worse {
            Worse::More => after > than,
            Worse::Less => after < than,
        };
        match (self.bound, before) {
            (Bound::Absolute(number), _) => is_worse(number),
            // A number without a predecessor is reported as new, and is part of the total.
            (_, None) => false,
            (Bound::Amount(most), Some(before)) => is_worse(match self.worse {
                Worse::More => before.saturating_add(most),
                Worse::Less => before.saturating_sub(most),
            }),
            (Bound::Share(millionths), Some(before)) => {
                let difference = match self.worse {
                    Worse::More => after.saturating_sub(before),
                    Worse::Less => before.saturating_sub(after),
                };
                u128::from(difference) * 1_000_000 > u128::from(before) * u128::from(millionths)
            }
        }
    }

    /// Most, or least, that the limit allows where the baseline's number is `before`.
    pub fn bound_for(self, before: u64) -> u64 {
        match (self.bound, self.worse) {
            (Bound::Absolute(number), _) => number,
            (Bound::Amount(most), Worse::More) => before.saturating_add(most),
            (Bound::Amount(most), Worse::Less) => before.saturating_sub(most),
            (Bound::Share(millionths), worse) => {
                // Rounded towards the baseline's number, as `is_crossed` does.
                let change = u128::from(before) * u128::from(millionths) / 1_000_000;
                let change = u64::try_from(change).unwrap_or(u64::MAX);
                if worse == Worse::More { before.saturating_add(change) } else { before.saturating_sub(change) }
            }
        }
    }

    /// The permitted change or value.
    pub fn describe(self) -> String {
        match (self.bound, self.worse) {
            (Bound::Share(millionths), worse) => {
                let percent = format!("{}.{:04}", millionths / 10_000, millionths % 10_000);
                let percent = percent.trim_end_matches('0').trim_end_matches('.');
                let sign = if worse == Worse::Less && millionths > 0 { "\u{2212}" } else { "" };
                format!("{sign}{percent} %")
            }
            (Bound::Amount(most), Worse::More) => format!("+{}", group(most)),
            (Bound::Amount(most), Worse::Less) => signed(-i128::from(most)),
            (Bound::Absolute(most), Worse::More) => format!("at most {}", group(most)),
            (Bound::Absolute(least), Worse::Less) => format!("at least {}", group(least)),
        }
    }

    /// Change of a number, in the limit's unit; None: the limit compares it with no other number.
    pub fn describe_change(self, numbers: Pair) -> Option<String> {
        let before = numbers.before?;
        match self.bound {
            Bound::Absolute(_) => None,
            Bound::Amount(_) => Some(signed(numbers.difference())),
            Bound::Share(_) => Some(signed_percent(numbers.difference(), before)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(worse: Worse, bound: Bound) -> Limit {
        Limit { worse, bound }
    }

    #[test]
    fn limits_are_read_as_people_write_them() {
        for (worse, text, bound, shown) in [
            (Worse::More, "5%", Bound::Share(50_000), "5 %"),
            (Worse::More, "0%", Bound::Share(0), "0 %"),
            (Worse::More, "0.05 %", Bound::Share(500), "0.05 %"),
            (Worse::More, "+2k", Bound::Amount(2000), "+2,000"),
            (Worse::More, "10k", Bound::Absolute(10_000), "at most 10,000"),
            (Worse::Less, "2%", Bound::Share(20_000), "\u{2212}2 %"),
            (Worse::Less, "0%", Bound::Share(0), "0 %"),
            (Worse::Less, "-2k", Bound::Amount(2000), "\u{2212}2,000"),
            (Worse::Less, "100", Bound::Absolute(100), "at least 100"),
        ] {
            let read = Limit::parse(worse, text);
            assert_eq!(read, Ok(limit(worse, bound)), "{text}");
            assert_eq!(read.unwrap().describe(), shown);
        }
        let error = |worse, text| Limit::parse(worse, text).unwrap_err().to_string();
        for text in ["", "%", "-5%", "5 apples", "1e3", "0.00001%", "+", "5%%", "-5"] {
            assert!(error(Worse::More, text).contains("write 5%"), "{text}");
        }
        for text in ["", "+5", "-5%", "x"] {
            assert!(error(Worse::Less, text).contains("write 2%"), "{text}");
        }
    }

    #[test]
    fn the_bound_of_a_limit_is_the_last_number_that_does_not_cross_it() {
        for worse in [Worse::More, Worse::Less] {
            for bound in [Bound::Share(0), Bound::Share(333_333), Bound::Amount(7), Bound::Absolute(90)] {
                for before in [0, 1, 2, 99, 100, 1_000_003] {
                    let limit = limit(worse, bound);
                    let is_crossed = |after| limit.is_crossed(Pair { before: Some(before), after: Some(after) });
                    let last = limit.bound_for(before);
                    let next = if worse == Worse::More { last.checked_add(1) } else { last.checked_sub(1) };
                    assert!(!is_crossed(last) && next.is_none_or(is_crossed), "{limit:?} {before}: {last}");
                }
            }
        }
        assert_eq!(limit(Worse::More, Bound::Share(u64::MAX)).bound_for(u64::MAX), u64::MAX);
    }

    #[test]
    fn one_instruction_crosses_a_limit_of_nothing_and_large_numbers_do_not_overflow() {
        let pair = |before, after| Pair { before: Some(before), after: Some(after) };
        let more = |bound| limit(Worse::More, bound);
        assert!(more(Bound::Share(0)).is_crossed(pair(1_000_000_000_000, 1_000_000_000_001)));
        assert!(!more(Bound::Share(0)).is_crossed(pair(10, 10)));
        assert!(!more(Bound::Share(50_000)).is_crossed(pair(100, 105)));
        assert!(more(Bound::Share(50_000)).is_crossed(pair(100, 106)));
        assert!(!more(Bound::Share(u64::MAX)).is_crossed(pair(u64::MAX / 2, u64::MAX)));
        assert!(more(Bound::Amount(3)).is_crossed(pair(100, 104)));
        assert!(more(Bound::Absolute(99)).is_crossed(Pair { before: None, after: Some(100) }));
        assert!(!more(Bound::Share(0)).is_crossed(Pair { before: None, after: Some(100) }));
        assert!(!more(Bound::Absolute(0)).is_crossed(Pair { before: Some(1), after: None }));
        let less = |bound| limit(Worse::Less, bound);
        assert!(less(Bound::Share(0)).is_crossed(pair(1_000_000_000_001, 1_000_000_000_000)));
        assert!(!less(Bound::Share(50_000)).is_crossed(pair(100, 95)));
        assert!(less(Bound::Share(50_000)).is_crossed(pair(100, 94)));
        assert!(
            less(Bound::Amount(3)).is_crossed(pair(100, 96)) && !less(Bound::Amount(3)).is_crossed(pair(100, 97))
        );
        assert!(!less(Bound::Amount(u64::MAX)).is_crossed(pair(1, 0)));
        assert!(less(Bound::Absolute(1)).is_crossed(Pair { before: None, after: None }));
    }
}
