// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers as people read and write them: the only module that formats and parses them.

use std::fmt;

use indicatif::HumanCount;

use crate::error::InputError;

/// `part` of `whole` in percent.
pub fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Formats `part` of `whole` as `12.34%`.
pub fn share(part: u64, whole: u64) -> String {
    format!("{:.2}%", percent(part, whole))
}

/// Groups a number's thousands: `1,234,567`.
pub fn group(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Mean of `count` numbers, given their sum, rounded to the nearest integer, halves up; None if `count` is 0.
pub fn mean(sum: u64, count: u64) -> Option<u64> {
    let mean = (2 * u128::from(sum) + u128::from(count)).checked_div(2 * u128::from(count))?;
    // Only a mean of nearly 2^64 can need more than 64 bits after rounding.
    Some(u64::try_from(mean).unwrap_or(u64::MAX))
}

/// Formats a part of a whole as `12.34%`, rounded down, so that only the whole is `100.00%`.
pub fn share_at_least(part: u64, whole: u64) -> String {
    let percent = (10_000 * u128::from(part) / u128::from(whole.max(1))) as f64 / 100.0;
    format!("{percent:.2}%")
}

/// Formats a number as [`group`] does, or `-` when it is not known.
pub fn group_known(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), group)
}

/// Formats a number with its noun: `1 call`, `1,234 calls`.
pub fn plural(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", group(number), if number == 1 { "" } else { "s" })
}

/// Difference of `after` from `before`, in percent of `before`; negative for a decrease.
pub fn percent_change(before: u64, after: u64) -> f64 {
    100.0 * (after as f64 - before as f64) / before.max(1) as f64
}

/// Formats a change in percent of `whole`, with enough digits to differ from 0. If `whole` is 0, the change is in
/// instructions.
pub fn signed_percent(difference: i128, whole: u64) -> String {
    if whole == 0 || difference == 0 {
        return format!("{difference:+}").replace("+0", "\u{b1}0").replace('-', "\u{2212}");
    }
    let percent = 100.0 * difference as f64 / whole as f64;
    let digits =
        [2_usize, 4, 6].into_iter().find(|&digits| percent.abs() >= 0.5 / 10f64.powi(digits as i32)).unwrap_or(9);
    format!("{percent:+.digits$} %").replace('-', "\u{2212}")
}

/// Formats a change with its sign: `+1,234`, `−5`, `±0`.
pub fn signed(difference: i128) -> String {
    let digits = group(u64::try_from(difference.unsigned_abs()).unwrap_or(u64::MAX));
    match difference {
        0 => "\u{b1}0".to_owned(),
        1.. => format!("+{digits}"),
        _ => format!("\u{2212}{digits}"),
    }
}

/// Address, shown with at least eight digits: `0x20000000`.
pub(crate) struct Hex(pub(crate) u64);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// Reads `123`, `0x7b`, `1_000`, `10k`, `1.5M`, `2G`.
pub fn parse_number(option: &str, text: &str) -> Result<u64, InputError> {
    let error = || InputError::new(format!("{option} {text}: not a number; write it as 2000000, 2M, 1.5G or 0x1000"));
    let plain = text.replace('_', "");
    if let Some(hex) = plain.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).map_err(|_| error());
    }
    let (digits, scale) = match plain.char_indices().last() {
        Some((at, 'k' | 'K')) => (&plain[..at], 1_000),
        Some((at, 'M')) => (&plain[..at], 1_000_000),
        Some((at, 'G')) => (&plain[..at], 1_000_000_000),
        _ => (&plain[..], 1),
    };
    scaled(digits, scale).ok_or_else(error)
}

/// Reads a decimal number of units of `scale`, which is exact: 1.1G is 1100000000.
fn scaled(digits: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let fraction_scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let parts = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()?.checked_mul(scale)? };
    (parts % fraction_scale == 0).then_some(whole.checked_add(parts / fraction_scale)?)
}

/// Reads a time with its unit, such as `3ms` or `1.5us`, in nanoseconds; None: it is none, or no whole number of them.
pub fn parse_ns(text: &str) -> Option<u64> {
    // The longer unit first: `ms` ends in `s`.
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let (digits, scale) = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)))?;
    scaled(digits.trim_end(), scale)
}

/// Milliseconds, to the nanosecond.
pub fn millis(ns: u128) -> String {
    let whole = u64::try_from(ns / 1_000_000).unwrap_or(u64::MAX);
    format!("{}.{:06} ms", group(whole), ns % 1_000_000)
}

/// Time in its largest unit of which there is at least one, to the nanosecond: 62.4 us.
pub fn duration(ns: u64) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
    let (unit, scale) = units.into_iter().find(|&(_, scale)| ns >= scale).unwrap_or(("ns", 1));
    let digits = format!("{:09}", ns % scale * (1_000_000_000 / scale));
    match digits.trim_end_matches('0') {
        "" => format!("{} {unit}", group(ns / scale)),
        fraction => format!("{}.{fraction} {unit}", group(ns / scale)),
    }
}

/// Frequency in its largest unit.
pub fn frequency(hz: u64) -> String {
    let units = [("GHz", 1_000_000_000), ("MHz", 1_000_000), ("kHz", 1_000)];
    let (unit, scale) = units.into_iter().find(|&(_, scale)| hz >= scale).unwrap_or(("Hz", 1));
    let (whole, rest) = (hz / scale, hz % scale);
    let digits = format!("{:09}", rest * (1_000_000_000 / scale));
    match digits.trim_end_matches('0') {
        "" => format!("{} {unit}", group(whole)),
        fraction => format!("{}.{fraction} {unit}", group(whole)),
    }
}

/// Reads a number of instructions that a run can reach.
///
/// # Errors
/// When the text is not a number, or the number is out of range.
pub fn parse_insns(option: &str, text: &str) -> Result<u64, InputError> {
    let insns = parse_number(option, text)?;
    if insns == 0 || insns >= wire::counters::MAX_INSNS {
        return Err(InputError::new(format!("{option} {text}: must be at least 1 and below 2^48 instructions")));
    }
    Ok(insns)
}

/// Parses a number of instructions, which may be none.
///
/// # Errors
/// When it is not a number, or larger than any run.
pub fn parse_from(option: &str, text: &str) -> Result<u64, InputError> {
    let insns = parse_number(option, text)?;
    if insns >= wire::counters::MAX_INSNS {
        return Err(InputError::new(format!("{option} {text}: must be below 2^48 instructions")));
    }
    Ok(insns)
}

/// Parses a percentage with up to four decimals, into millionths of the whole.
pub fn parse_millionths(percent: &str) -> Option<u64> {
    let (whole, fraction) = percent.split_once('.').unwrap_or((percent, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 4 || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<4}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(10_000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(group), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([None, Some(1_000)].map(group_known), ["-", "1,000"]);
        assert_eq!([0, 1, 1_000].map(|calls| plural(calls, "call")), ["0 calls", "1 call", "1,000 calls"]);
    }

    #[test]
    fn a_change_has_a_sign() {
        assert_eq!([signed(-1234), signed(0), signed(7)], ["\u{2212}1,234", "\u{b1}0", "+7"]);
    }

    #[test]
    fn a_mean_is_the_nearest_number() {
        assert_eq!(
            [mean(205, 2), mean(204, 2), mean(10_295, 100), mean(10_249, 100)].map(Option::unwrap),
            [103, 102, 103, 102]
        );
        assert_eq!((mean(0, 0), mean(5, 0), mean(0, 5)), (None, None, Some(0)));
        assert_eq!((mean(u64::MAX, 1), mean(u64::MAX, u64::MAX)), (Some(u64::MAX), Some(1)));
    }

    #[test]
    fn a_share_is_not_rounded_up_to_all() {
        assert_eq!((share(99_999, 100_000), share_at_least(99_999, 100_000)), ("100.00%".into(), "99.99%".into()));
        assert_eq!([share_at_least(7, 7), share_at_least(0, 0)], ["100.00%", "0.00%"]);
    }

    #[test]
    fn numbers_are_read_as_people_write_them() {
        for (text, value) in [
            ("7", 7),
            ("10_007", 10_007),
            ("0x10", 16),
            ("10k", 10_000),
            ("2M", 2_000_000),
            ("1.1G", 1_100_000_000),
            ("0.5k", 500),
        ] {
            assert_eq!(parse_number("--for", text), Ok(value), "{text}");
        }
        for text in ["", "k", "-1", "1.5", "1e9", "2 G", "0x", ".5k", "99999999999G", "1.0001k", "１"] {
            let error = parse_number("--for", text).unwrap_err().to_string();
            assert!(error.contains("--for"), "{error}");
        }
    }

    #[test]
    fn a_time_has_its_unit_and_is_exact() {
        let times = [("3ms", 3_000_000), ("1.5us", 1500), ("20 ns", 20), ("2s", 2_000_000_000), ("0.000001s", 1000)];
        assert!(times.iter().all(|(text, ns)| parse_ns(text) == Some(*ns)));
        assert!(
            ["3", "ms", "1.5ns", "-1s", "1e3ms", "1..5s", "20000000000s"].iter().all(|text| parse_ns(text).is_none())
        );
        assert_eq!(millis(1_234_567_890), "1,234.567890 ms");
        let shown = [0, 999, 1_000, 62_400, 1_000_001, 2_000_000_000].map(duration);
        assert_eq!(shown, ["0 ns", "999 ns", "1 us", "62.4 us", "1.000001 ms", "2 s"]);
    }

    #[test]
    fn a_frequency_has_its_largest_unit() {
        let shown = [1, 32_768, 16_000_000, 7_372_800, 1_000_000_000].map(frequency);
        assert_eq!(shown, ["1 Hz", "32.768 kHz", "16 MHz", "7.3728 MHz", "1 GHz"]);
    }
}
