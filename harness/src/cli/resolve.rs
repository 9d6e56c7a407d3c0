// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options in effect: numbers are parsed, defaults filled in, contradictions refused. Later code never looks at the
//! command line.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::analysis::stacks::View;
use crate::cli::{MeasureArgs, Placed, ProfileArgs, RunArgs, Split, input_row};
use crate::error::InputError;
use crate::image::heap::rule::{Kind, Rule};
use crate::image::stub::Wanted;
use crate::image::{Image, beside, heap, zone_call};
use crate::profile::input::Input;
use crate::profile::{DEFAULT_AVR_FOR_INSNS, DEFAULT_FOR_INSNS, Profile, Window};
use crate::run::request::options::{Length, Options};
use crate::show::part;
use crate::text::number::{parse_insns, parse_ns, parse_number};

/// Minimum sampling period, in instructions, at which each sample also notes the amount of console output. From this
/// period on, the cost is too small to measure.
const MARKED_PERIOD_INSNS: u64 = 10_000;

/// Maximum width of an address bin, in bytes: larger than any firmware, and small enough that no sum of bins overflows.
const MAX_BIN_BYTES: u64 = 1 << 30;

/// Error about a value that an option does not take. It names the option, so that a suite can point to the line with
/// that key. The message is complete without the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// Option, with its dashes.
    pub option: &'static str,
    error: InputError,
}

impl OptionError {
    /// Error about a typed value; `what` says which values the option takes.
    fn new(option: &'static str, typed: impl fmt::Display, what: impl fmt::Display) -> OptionError {
        OptionError { option, error: InputError::new(format!("{option} {typed}: {what}")) }
    }

    /// Wraps errors that already name the option and the value.
    fn of(option: &'static str) -> impl Fn(InputError) -> OptionError {
        move |error| OptionError { option, error }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for OptionError {}

impl From<OptionError> for InputError {
    fn from(error: OptionError) -> InputError {
        error.error
    }
}

/// Reads a number that an option takes.
fn number(option: &'static str, text: &str) -> Result<u64, OptionError> {
    parse_number(option, text).map_err(OptionError::of(option))
}

/// Reads a number of instructions that an option takes.
fn insns(option: &'static str, text: &str) -> Result<u64, OptionError> {
    parse_insns(option, text).map_err(OptionError::of(option))
}

/// Parses the length of a slice: instructions, or virtual time with a unit.
fn slice_length(text: &str) -> Result<Length, OptionError> {
    const OPTION: &str = "--slice";
    let length = match text.ends_with('s') {
        false => insns(OPTION, text).ok().map(Length::Insns),
        true => parse_ns(text).filter(|ns| (1..wire::counters::MAX_INSNS).contains(ns)).map(Length::Ns),
    };
    length.ok_or_else(|| {
        let what = "must be instructions, such as 1M and below 2^48, or a time in s, ms, us or ns, such as 60s";
        OptionError::new(OPTION, text, what)
    })
}

/// Parses `--bin-bytes`.
///
/// # Errors
/// When the number is not a power of two, or too large.
pub(crate) fn bin_bytes(text: &str) -> Result<u64, OptionError> {
    const OPTION: &str = "--bin-bytes";
    let bytes = number(OPTION, text)?;
    if !bytes.is_power_of_two() {
        return Err(OptionError::new(OPTION, bytes, "must be a power of two, such as 2 or 64"));
    }
    if bytes > MAX_BIN_BYTES {
        return Err(OptionError::new(OPTION, bytes, format_args!("must be at most {MAX_BIN_BYTES}")));
    }
    Ok(bytes)
}

/// Applies `--slice` to a sliced profile: keeps only the chosen slices.
///
/// # Errors
/// When the text is not a number or range, or the run has no such slice.
pub(crate) fn slices(text: &str, profile: &Profile) -> Result<Profile, OptionError> {
    const OPTION: &str = "--slice";
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let small = |text: &str| Ok(u32::try_from(number(OPTION, text)?).unwrap_or(u32::MAX));
    let sliced = part::slices(profile, small(first)?, small(last)?);
    sliced.ok_or_else(|| {
        let what = match profile.parts.slices() {
            0 => "the run was not sliced: measure it with --slice 1M".to_owned(),
            slices => format!("write N or N..M; the run has slices 0 to {}", slices - 1),
        };
        OptionError::new(OPTION, text, what)
    })
}

/// Checks that what is said of the chip can be true together.
fn check_chip(args: &MeasureArgs) -> Result<(), OptionError> {
    if let (Some(chip), Some(_), _) | (Some(chip), _, Some(_)) = (&args.chip, &args.machine, &args.cpu) {
        let what = "a chip says which machine and processor it needs: leave out --machine and --cpu";
        return Err(OptionError::new("--chip", chip, what));
    }
    if args.no_chip && args.chip.is_some() {
        let what = "no chip is to be taken, and --chip names one: leave one of them out";
        return Err(OptionError { option: "--no-chip", error: InputError::new(format!("--no-chip: {what}")) });
    }
    Ok(())
}

/// Parses `--shift`.
fn icount_shift(text: &str) -> Result<u8, OptionError> {
    match number("--shift", text)? {
        // QEMU's own limit on icount shift is 10.
        shift @ 0..=10 => Ok(shift as u8),
        shift => Err(OptionError::new("--shift", shift, "must be 0 to 10 (1 ns to 1024 ns per instruction)")),
    }
}

/// Checks `--timeout`.
///
/// # Errors
/// When it is not a number of seconds above 0.
pub(crate) fn timeout(seconds: f64) -> Result<Duration, OptionError> {
    let timeout = Duration::try_from_secs_f64(seconds).ok().filter(|timeout| !timeout.is_zero());
    timeout.ok_or_else(|| OptionError::new("--timeout", seconds, "must be a number of seconds above 0"))
}

/// Parses `--file`: a name in the firmware's directory, and the file to copy there.
fn file(text: &str) -> Result<(String, PathBuf), OptionError> {
    let parts = text.split_once('=').filter(|(name, path)| {
        // The name must be plain, so that it cannot lead out of the directory.
        !path.is_empty()
            && Path::new(name).components().count() == 1
            && !name.contains(['/', '\\'])
            && !matches!(*name, "." | "..")
    });
    let Some((name, path)) = parts else {
        return Err(OptionError::new("--file", text, "write NAME=PATH, where NAME has no directory"));
    };
    Ok((name.to_owned(), PathBuf::from(path)))
}

/// Parses `--span`: two functions.
fn span(text: &str) -> Result<(String, String), OptionError> {
    match text.split_once("..") {
        Some((from, until)) if !from.is_empty() && !until.is_empty() => Ok((from.to_owned(), until.to_owned())),
        _ => Err(OptionError::new("--span", text, "write it as FROM..UNTIL, two functions")),
    }
}

/// Parses `--heap`, `--heap-alloc` and `--heap-free` together.
fn heap(args: &MeasureArgs) -> Result<Option<heap::Wanted>, OptionError> {
    let mut rules = Vec::new();
    for (kind, texts) in [(Kind::Alloc, &args.heap_alloc), (Kind::Free, &args.heap_free)] {
        for text in texts {
            rules.push(Rule::parse(kind, text).map_err(OptionError::of(kind.option()))?);
        }
    }
    let is_wanted = args.heap || !rules.is_empty();
    if is_wanted && args.no_stacks {
        let what = "--heap needs call stacks: leave --no-stacks out";
        return Err(OptionError { option: "--heap", error: InputError::new(what) });
    }
    Ok(is_wanted.then_some(heap::Wanted { rules }))
}

/// Parses the options for the console and for what is outside of the chip, in the order in which they were typed.
fn input(args: &MeasureArgs) -> Result<Vec<Input>, OptionError> {
    type Parse = fn(&str) -> Result<Input, InputError>;
    let of: [(&'static str, &[Placed], Parse); 4] = [
        ("--input", &args.input, Input::at),
        ("--input-after", &args.input_after, Input::after),
        ("--set", &args.set_at, Input::set_at),
        ("--set-after", &args.set_after, Input::set_after),
    ];
    let mut input = Vec::new();
    for (option, typed, parse) in of {
        for one in typed {
            input.push((one.place, vec![parse(&one.text).map_err(OptionError::of(option))?]));
        }
    }
    for file in &args.stimulus {
        input.push((file.place, input_row::read(Path::new(&file.text)).map_err(OptionError::of("--stimulus"))?));
    }
    input.sort_by_key(|&(place, _)| place);
    let input: Vec<Input> = input.into_iter().flat_map(|(_, input)| input).collect();
    Input::check(&input).map_err(OptionError::of("--input"))?;
    Ok(input)
}

impl Options {
    /// Resolves the arguments of `harness profile`.
    ///
    /// # Errors
    /// [`OptionError`]; its message says which values the option takes.
    pub fn resolve(args: ProfileArgs) -> Result<Options, OptionError> {
        let mut options = Options::settle(args.firmware, args.measure)?;
        options.window.for_insns.get_or_insert(DEFAULT_FOR_INSNS);
        options.top_rows = (args.top > 0).then_some(args.top);
        options.is_wide = args.wide.wide;
        options.strict = args.strict;
        Ok(options)
    }

    /// Resolves the arguments of `harness run`. A program runs to its end: there is no window unless the user asks for
    /// one.
    ///
    /// # Errors
    /// [`InputError`] with the option or argument, and the values that it takes.
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
        Ok(Options { firmware_args, ..Options::settle(firmware.into(), args.measure)? }.with_elf_beside())
    }

    /// Resolves the settings that all commands share.
    fn settle(firmware: PathBuf, args: MeasureArgs) -> Result<Options, OptionError> {
        // The order of these checks decides which of several mistakes is reported.
        let bin_bytes = bin_bytes(&args.bin_bytes)?;
        let icount_shift = args.shift.as_deref().map(icount_shift).transpose()?;
        let timeout = args.timeout.map(timeout).transpose()?;
        if args.max_depth == 0 {
            let what = "must be at least 1; --no-stacks takes no call stacks";
            return Err(OptionError::new("--max-depth", args.max_depth, what));
        }
        check_chip(&args)?;
        let files = args.file.iter().map(|text| file(text)).collect::<Result<_, _>>()?;
        let stubs = args.stub.iter().map(|text| Wanted::parse(text).map_err(OptionError::of("--stub")));
        let stubs = stubs.collect::<Result<_, _>>()?;
        let input = input(&args)?;
        let heap = heap(&args)?;
        let spans = args.span.iter().map(|text| span(text)).collect::<Result<_, _>>()?;
        let zone_calls = args.zone_call.iter().map(|text| zone_call::Rule::parse(text));
        let zone_calls = zone_calls.collect::<Result<_, _>>().map_err(OptionError::of(zone_call::OPTION))?;
        let period_insns = insns("--period", &args.period)?;
        let max_output_bytes = number("--max-output", &args.max_output)?;
        let insns =
            |option: &'static str, text: &Option<String>| text.as_deref().map(|text| insns(option, text)).transpose();
        let number = |option: &'static str, text: &Option<String>| {
            text.as_deref().map(|text| number(option, text)).transpose()
        };
        Ok(Options {
            period_insns,
            window: Window {
                for_insns: insns("--for", &args.for_insns)?,
                from: args.from,
                until: args.until,
                max_insns: insns("--max-insns", &args.max_insns)?,
                resets: args.resets,
            },
            input,
            timeout,
            max_output_bytes,
            firmware,
            firmware_args: Vec::new(),
            output: args.output,
            top_rows: None,
            is_wide: false,
            strict: false,
            jitter_seed: args.seeded_jitter,
            max_depth: (!args.no_stacks).then_some(args.max_depth),
            exact: args.exact,
            branches: args.branches,
            cycles: args.cycles,
            spans,
            zone_calls,
            heap,
            timeline: (args.timeline || !args.trace.is_empty()).then_some(args.trace),
            timed: Vec::new(),
            slice: args.slice.as_deref().map(slice_length).transpose()?,
            view: View { fold_irqs: args.fold_irqs },
            zone_frames: args.zones,
            by_phase: args.by == Some(Split::Phase),
            flamechart: args.flamechart,
            bin_bytes,
            chip: args.chip,
            no_chip: args.no_chip,
            svd: args.svd,
            machine: args.machine,
            cpu: args.cpu,
            settings: Vec::new(),
            qemu_args: args.qemu_arg,
            icount_shift,
            load_addr: number("--load-addr", &args.load_addr)?,
            load_bias: number("--load-bias", &args.load_bias)?,
            symbols: args.symbols,
            files,
            semihosting: args.semihosting,
            sandbox: args.sandbox,
            is_bounded: false,
            stubs,
            vectors: number("--vectors", &args.vectors)?,
            console_marks: period_insns >= MARKED_PERIOD_INSNS,
            oracle: args.oracle,
        })
    }

    /// Resolves the arguments of `harness profile` for a firmware file that the user has named, by what the file is, and the ELF
    /// file beside it. A suite is data, and says all.
    ///
    /// # Errors
    /// See [`Options::resolve`].
    pub fn resolve_named(args: ProfileArgs) -> Result<Options, OptionError> {
        let is_default = args.measure.for_insns.is_none();
        let mut options = Options::resolve(args)?.with_elf_beside();
        if is_default && Image::is_avr(&options.firmware, &options.load()) {
            options.window.for_insns = Some(DEFAULT_AVR_FOR_INSNS);
        }
        Ok(options)
    }

    /// Takes the symbols of the ELF file beside a firmware file that has none.
    fn with_elf_beside(mut self) -> Options {
        if self.symbols.is_none() {
            self.symbols = beside::elf_with_its_code(&self.firmware, &self.load());
        }
        self
    }
}
