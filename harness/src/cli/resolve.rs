//! The options as meant: numbers parsed, defaults filled in, contradictions refused. Nothing past
//! this file asks what the user typed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::analysis::stacks::View;
use crate::cli::{MeasureArgs, ProfileArgs, RunArgs};
use crate::image::InputError;
use crate::profile::Window;

/// Distance of samples unless `--period` says otherwise: a prime, which few loops keep step with.
pub const DEFAULT_PERIOD_INSNS: u64 = 10_007;

/// Most frames of a call stack unless `--max-depth` says otherwise.
pub const DEFAULT_MAX_DEPTH: u32 = 256;

/// Width of an address bin unless `--bin-bytes` says otherwise: the smallest instruction's.
pub const DEFAULT_BIN_BYTES: u64 = 2;

/// The window's length of `harness profile` unless `--for` says otherwise: most firmware never exits.
pub const DEFAULT_FOR_INSNS: u64 = 2_000_000_000;

/// Everything that a profiling run needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// The firmware file.
    pub firmware: PathBuf,
    /// What the firmware is given as its command line, after the program's name.
    pub firmware_args: Vec<String>,
    /// The profile directory; None: `./<stem>.profile`.
    pub output: Option<PathBuf>,
    /// Rows of the table, None for all.
    pub top_rows: Option<usize>,
    /// A difference in the cross-check is a failure.
    pub strict: bool,
    /// Mean distance of samples.
    pub period_insns: u64,
    /// Seed of the dither.
    pub jitter_seed: Option<u64>,
    /// Most frames of a call stack; None: no call stacks.
    pub max_depth: Option<u32>,
    /// Keep the exact call tree.
    pub exact: bool,
    /// `--span`: functions between whose first instructions instructions are counted.
    pub spans: Vec<(String, String)>,
    /// How call stacks are shown.
    pub view: View,
    /// Draw the flamechart.
    pub flamechart: bool,
    /// Width of an address bin.
    pub bin_bytes: u64,
    /// The measuring window.
    pub window: Window,
    /// What is typed on the console, in order.
    pub input: Vec<Input>,
    /// Host time after which the run has failed.
    pub timeout: Option<Duration>,
    /// `--machine`.
    pub machine: Option<String>,
    /// `--cpu`.
    pub cpu: Option<String>,
    /// Further QEMU arguments.
    pub qemu_args: Vec<String>,
    /// `--shift`.
    pub icount_shift: Option<u8>,
    /// `--load-addr`.
    pub load_addr: Option<u64>,
    /// `--load-bias`.
    pub load_bias: Option<u64>,
    /// `--symbols`.
    pub symbols: Option<PathBuf>,
    /// Files for the firmware: name in its directory, file.
    pub files: Vec<(String, PathBuf)>,
    /// Note how much is printed when.
    pub console_marks: bool,
    /// One callback per instruction.
    pub oracle: bool,
}

/// A text that is typed on the firmware's console.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// When it begins.
    pub when: When,
    /// What is typed; not empty.
    pub bytes: Vec<u8>,
}

/// When a text begins to be typed; those before it come first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// After so many instructions from reset.
    At(u64),
    /// Once the firmware has printed this, after what the text before waited for; not empty.
    After(String),
}

impl Input {
    /// Reads `1M:go\n`.
    ///
    /// # Errors
    /// Saying what is wrong with it.
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
        Ok(Input { when: When::At(at), bytes: text_bytes(option, typed, text)? })
    }

    /// Reads `login\: :root\n`.
    ///
    /// # Errors
    /// Saying what is wrong with it.
    pub fn after(typed: &str) -> Result<Input, InputError> {
        let option = "--input-after";
        let error = |what: &str| InputError::new(format!("{option} {typed}: {what}"));
        let mut colons = Vec::new();
        let mut escaped = false;
        for (at, c) in typed.char_indices() {
            if c == ':' && !escaped {
                colons.push(at);
            }
            escaped = c == '\\' && !escaped;
        }
        let &[colon] = &colons[..] else {
            return Err(error(match colons[..] {
                [] => "no ':'; write the prompt and the text, as 'prompt> :go\\n'",
                _ => "more than one ':' between prompt and text; write those that belong to them as \\:",
            }));
        };
        let prompt = text_bytes(option, typed, &typed[..colon])?;
        let prompt = String::from_utf8(prompt).map_err(|_| error("the prompt is not text"))?;
        Ok(Input { when: When::After(prompt), bytes: text_bytes(option, typed, &typed[colon + 1..])? })
    }

    /// As the plugin reads it.
    pub fn step(&self) -> wire::input::Step {
        let when = match &self.when {
            When::At(insns) => wire::input::When::At(*insns),
            When::After(prompt) => wire::input::When::After(prompt.clone().into_bytes()),
        };
        wire::input::Step { when, bytes: self.bytes.clone() }
    }

    /// Refuses what can never be typed as it says.
    ///
    /// # Errors
    /// Naming the instruction that has passed when its turn comes.
    pub fn check(list: &[Input]) -> Result<(), InputError> {
        let mut last = 0;
        for input in list {
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

/// Reads a text with escapes.
fn text_bytes(option: &str, typed: &str, text: &str) -> Result<Vec<u8>, InputError> {
    let error = |what: String| Err(InputError::new(format!("{option} {typed}: {what}")));
    let mut bytes = Vec::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        bytes.push(match rest.next() {
            Some('n') => b'\n',
            Some('r') => b'\r',
            Some('t') => b'\t',
            Some('e') => 0x1b,
            Some('0') => 0,
            Some('\\') => b'\\',
            Some(':') => b':',
            Some('x') => {
                let digits: String = rest.by_ref().take(2).collect();
                let both = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                match u8::from_str_radix(&digits, 16) {
                    Ok(byte) if both => byte,
                    _ => return error(format!("\\x{digits} is not a byte; write two hex digits, as \\x1b")),
                }
            }
            other => {
                let escape = other.map(String::from).unwrap_or_default();
                return error(format!("unknown escape \\{escape}; there are \\n \\r \\t \\e \\0 \\xNN \\: and \\\\"));
            }
        });
    }
    match bytes.len() {
        0 => error("there is nothing on one side of the ':'".to_owned()),
        len if len > wire::input::MAX_BYTES => error(format!("longer than {} bytes", wire::input::MAX_BYTES)),
        _ => Ok(bytes),
    }
}

/// Widest address bin: larger than any firmware, and small enough that no sum of bins overflows.
const MAX_BIN_BYTES: u64 = 1 << 30;

/// What `--bin-bytes` means.
///
/// # Errors
/// When it is no power of two, or too large.
pub(crate) fn bin_bytes(text: &str) -> Result<u64, InputError> {
    let bytes = parse_number("--bin-bytes", text)?;
    if !bytes.is_power_of_two() {
        return Err(InputError::new(format!("--bin-bytes {bytes}: must be a power of two, such as 2 or 64")));
    }
    if bytes > MAX_BIN_BYTES {
        return Err(InputError::new(format!("--bin-bytes {bytes}: must be at most {MAX_BIN_BYTES}")));
    }
    Ok(bytes)
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
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let valid = !whole.is_empty() && [whole, fraction].iter().all(|part| part.bytes().all(|b| b.is_ascii_digit()));
    // In decimal, so that 1.1G is exactly 1100000000.
    let fraction_scale = u32::try_from(fraction.len()).ok().and_then(|len| 10u64.checked_pow(len));
    let value = (|| {
        let whole = whole.parse::<u64>().ok()?.checked_mul(scale)?;
        let fraction_scale = fraction_scale?;
        let parts = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()?.checked_mul(scale)? };
        (parts % fraction_scale == 0).then_some(whole.checked_add(parts / fraction_scale)?)
    })();
    value.filter(|_| valid).ok_or_else(error)
}

fn parse_insns(option: &str, text: &str) -> Result<u64, InputError> {
    let insns = parse_number(option, text)?;
    if insns == 0 || insns >= wire::counters::MAX_INSNS {
        return Err(InputError::new(format!("{option} {text}: must be at least 1 and below 2^48 instructions")));
    }
    Ok(insns)
}

impl Options {
    /// Settles what was typed after `harness profile`.
    ///
    /// # Errors
    /// [`InputError`] naming the option and what it takes.
    pub fn resolve(args: ProfileArgs) -> Result<Options, InputError> {
        let mut options = Options::settle(args.firmware, args.measure)?;
        options.window.for_insns.get_or_insert(DEFAULT_FOR_INSNS);
        options.top_rows = (args.top > 0).then_some(args.top);
        options.strict = args.strict;
        Ok(options)
    }

    /// Settles what was typed after `harness run`. A program runs to its end: no window unless asked for.
    ///
    /// # Errors
    /// [`InputError`] naming the option or argument and what it takes.
    pub fn resolve_run(args: RunArgs) -> Result<Options, InputError> {
        let mut words = args.firmware_and_args.into_iter();
        let firmware = words.next().ok_or_else(|| InputError::new("no firmware: give `harness run` an ELF file"))?;
        let mut words = words.peekable();
        words.next_if(|word| word == "--");
        let text = |word: OsString| {
            word.into_string().map_err(|word| {
                InputError::new(format!("the firmware's argument {}: not UTF-8; leave it out", word.display()))
            })
        };
        let firmware_args = words.map(text).collect::<Result<_, _>>()?;
        Ok(Options { firmware_args, ..Options::settle(firmware.into(), args.measure)? })
    }

    /// What all commands have in common.
    fn settle(firmware: PathBuf, args: MeasureArgs) -> Result<Options, InputError> {
        let insns =
            |option: &str, text: &Option<String>| text.as_deref().map(|text| parse_insns(option, text)).transpose();
        let number =
            |option: &str, text: &Option<String>| text.as_deref().map(|text| parse_number(option, text)).transpose();
        let bin_bytes = bin_bytes(&args.bin_bytes)?;
        // QEMU's own limit on icount shift is 10.
        let icount_shift = match number("--shift", &args.shift)? {
            None => None,
            Some(shift @ 0..=10) => Some(shift as u8),
            Some(shift) => {
                return Err(InputError::new(format!(
                    "--shift {shift}: must be 0 to 10 (1 ns to 1024 ns per instruction)"
                )));
            }
        };
        let timeout = match args.timeout {
            None => None,
            Some(seconds) => match Duration::try_from_secs_f64(seconds) {
                Ok(timeout) if !timeout.is_zero() => Some(timeout),
                _ => {
                    return Err(InputError::new(format!("--timeout {seconds}: must be a number of seconds above 0")));
                }
            },
        };
        if args.max_depth == 0 {
            return Err(InputError::new("--max-depth 0: must be at least 1; --no-stacks takes no call stacks"));
        }
        let mut files = Vec::new();
        for text in &args.file {
            let parts = text.split_once('=').filter(|(name, path)| {
                // One name and no way out of the directory.
                !path.is_empty()
                    && std::path::Path::new(name).components().count() == 1
                    && !name.contains(['/', '\\'])
                    && !matches!(*name, "." | "..")
            });
            let Some((name, path)) = parts else {
                return Err(InputError::new(format!("--file {text}: write NAME=PATH, where NAME has no directory")));
            };
            files.push((name.to_owned(), PathBuf::from(path)));
        }
        let at = args.input.iter().map(|typed| Ok((typed.place, Input::at(&typed.text)?)));
        let after = args.input_after.iter().map(|typed| Ok((typed.place, Input::after(&typed.text)?)));
        let mut input = at.chain(after).collect::<Result<Vec<(usize, Input)>, InputError>>()?;
        input.sort_by_key(|&(place, _)| place);
        let input: Vec<Input> = input.into_iter().map(|(_, input)| input).collect();
        Input::check(&input)?;
        let span = |text: &String| match text.split_once("..") {
            Some((from, until)) if !from.is_empty() && !until.is_empty() => Ok((from.to_owned(), until.to_owned())),
            _ => Err(InputError::new(format!("--span {text}: write it as FROM..UNTIL, two functions"))),
        };
        let spans = args.span.iter().map(span).collect::<Result<_, _>>()?;
        let period_insns = parse_insns("--period", &args.period)?;
        Ok(Options {
            period_insns,
            window: Window {
                for_insns: insns("--for", &args.for_insns)?,
                from: args.from,
                until: args.until,
                max_insns: insns("--max-insns", &args.max_insns)?,
            },
            input,
            timeout,
            firmware,
            firmware_args: Vec::new(),
            output: args.output,
            top_rows: None,
            strict: false,
            jitter_seed: args.seeded_jitter,
            max_depth: (!args.no_stacks).then_some(args.max_depth),
            exact: args.exact,
            spans,
            view: View { fold_irqs: args.fold_irqs },
            flamechart: args.flamechart,
            bin_bytes,
            machine: args.machine,
            cpu: args.cpu,
            qemu_args: args.qemu_arg,
            icount_shift,
            load_addr: number("--load-addr", &args.load_addr)?,
            load_bias: number("--load-bias", &args.load_bias)?,
            symbols: args.symbols,
            files,
            console_marks: false,
            oracle: args.oracle,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_read_as_people_write_it() {
        let at = |insns, bytes: &[u8]| Ok(Input { when: When::At(insns), bytes: bytes.to_vec() });
        assert_eq!(Input::at(r"1.5M:go\n"), at(1_500_000, b"go\n"));
        assert_eq!(Input::at(r"7:set time 12:30\r\n"), at(7, b"set time 12:30\r\n"));
        assert_eq!(Input::at(r"7:\0\t\e[A\x7f\xff\\n"), at(7, b"\0\t\x1b[A\x7f\xff\\n"));
        assert_eq!(Input::at("7:ä"), at(7, "ä".as_bytes()));
        let after =
            |prompt: &str, bytes: &[u8]| Ok(Input { when: When::After(prompt.to_owned()), bytes: bytes.to_vec() });
        assert_eq!(Input::after(r"prompt> :x\n"), after("prompt> ", b"x\n"));
        assert_eq!(Input::after(r"login\: :root\:\\\n"), after("login: ", b"root:\\\n"));
        assert_eq!(Input::after(r"\\:x"), after("\\", b"x"));
        assert_eq!(Input::after("größe?:1"), after("größe?", b"1"));
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
}
