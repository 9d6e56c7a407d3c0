//! The options as meant: numbers parsed, defaults filled in, contradictions refused. Nothing past
//! this file asks what the user typed.

use crate::profile::DEFAULT_FOR_INSNS;
use crate::profile::input::Input;
use crate::run::options::Options;
use crate::text::number::{parse_insns, parse_number};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::analysis::stacks::View;
use crate::cli::{MeasureArgs, ProfileArgs, RunArgs};
use crate::error::InputError;
use crate::profile::Window;

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
