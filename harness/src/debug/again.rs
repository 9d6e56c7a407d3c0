// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeats the run of a saved profile.
//!
//! A profile may come from an untrusted source. It supplies facts about the firmware and settings of the machine. It
//! never supplies options that could make QEMU access a file, a program or the network: the user has to type these
//! again.

use clap::ValueEnum as _;

use std::path::Path;

use crate::chip::cycled::{AUTO, frequency, split};
use crate::chip::{self, core};
use crate::error::InputError;
use crate::image::stub::Wanted;
use crate::profile::input::{Input, What, When};
use crate::profile::{Chip, Cycles, Facts, Profile};
use crate::run::contain::semihosting::Semihosting;
use crate::run::request::options::Options;
use crate::run::request::settings::{self, Other};
use crate::text::shell::quoted;

/// QEMU's limit on the shift of virtual time.
const MAX_SHIFT: u8 = 10;

/// Adds the options of a profile's run to those that the user typed.
///
/// # Errors
/// When the profile has an option that must be typed, when a typed option differs from the profile's, and when the
/// profile has facts that no run can have.
pub fn repeat(options: &mut Options, profile: &Profile) -> Result<(), InputError> {
    let facts = &profile.facts;
    check(facts)?;
    match (facts.chip.as_ref().filter(|chip| chip.is_given()), options.chip.take()) {
        (Some(made), typed) => options.chip = Some(chip_of(made, typed, options.svd.as_deref())?),
        (None, Some(typed)) => return Err(not_the_profiles("--chip", &typed, "no --chip")),
        (None, None) => {
            let typed = options.machine.take();
            options.machine = Some(named("--machine", typed, &facts.machine, settings::check_machine)?);
            options.cpu = match (options.cpu.take(), &facts.cpu) {
                (typed, Some(cpu)) => Some(named("--cpu", typed, cpu, settings::check_cpu)?),
                (Some(typed), None) => return Err(not_the_profiles("--cpu", &typed, "no --cpu")),
                (None, None) => None,
            };
        }
    }
    arguments(options, facts)?;
    options.semihosting = served(options.semihosting, facts.semihosting.as_deref())?;
    options.icount_shift = Some(facts.icount_shift);
    options.cycles = paced(options.cycles.take(), profile.cycles.as_ref())?;
    options.firmware_args.clone_from(&facts.firmware_args);
    options.load_addr = facts.load_addr;
    options.load_bias = Some(facts.load_bias).filter(|&bias| bias != 0);
    options.vectors = facts.vectors;
    options.input.clone_from(&facts.input);
    options.window = facts.window.clone();
    options.period_insns = facts.period_insns;
    options.jitter_seed = facts.jitter_seed;
    let stubs = facts.stubs.iter().map(|stub| Wanted::parse(&stub.to_string()));
    options.stubs = stubs.collect::<Result<_, _>>()?;
    Ok(())
}

/// Refuses facts that no run can have.
fn check(facts: &Facts) -> Result<(), InputError> {
    let damaged = |what: &str| Err(InputError::new(format!("the profile is damaged: {what}")));
    if facts.icount_shift > MAX_SHIFT {
        return damaged("its virtual time per instruction is longer than any");
    }
    if facts.firmware_args.iter().any(|argument| argument.contains('\0')) {
        return damaged("an argument of the firmware has a NUL in it");
    }
    let is_sound = |input: &Input| {
        let has_prompt = !matches!(&input.when, When::After(prompt) if prompt.is_empty());
        let is_something = match &input.what {
            What::Text(bytes) => (1..=wire::input::MAX_BYTES).contains(&bytes.len()) && input.is_step(),
            What::Outside(changes) => changes.check().is_ok(),
        };
        is_something && has_prompt
    };
    if !facts.input.iter().all(is_sound) {
        return damaged("what is typed on the console is empty or too long");
    }
    Input::check(&facts.input)
}

/// Chip of a profile: a built-in one, or the typed file, whose content must equal the profile's.
fn chip_of(made: &Chip, typed: Option<String>, svd: Option<&Path>) -> Result<String, InputError> {
    let chip = match typed {
        Some(typed) => typed,
        None if chip::is_known(&made.given) => made.given.clone(),
        None => {
            let why = InputError::new("it was made with a chip file, which a profile cannot name".to_owned());
            return Err(must_be_typed(why, &format!("--chip {}", quoted(&made.given))));
        }
    };
    match (&made.svd, svd) {
        (Some(made), None) => {
            let why = InputError::new("it was made with an SVD, which a profile cannot name".to_owned());
            return Err(must_be_typed(why, &format!("--svd {}", quoted(made))));
        }
        (None, Some(svd)) => return Err(not_the_profiles("--svd", &svd.display().to_string(), "no --svd")),
        (Some(_), Some(_)) | (None, None) => {}
    }
    if chip::find_with(&chip, svd)?.sha256 != made.sha256 {
        return Err(InputError::new(format!(
            "--chip {chip} is not the chip that the profile was made with; measure again"
        )));
    }
    Ok(chip)
}

/// Machine or processor of the profile, if a file may name it, or the user typed it, too.
fn named(
    option: &str,
    typed: Option<String>,
    own: &str,
    check: fn(&str) -> Result<(), InputError>,
) -> Result<String, InputError> {
    match typed {
        Some(typed) if typed != own => Err(not_the_profiles(option, &typed, &format!("{option} {}", quoted(own)))),
        Some(typed) => Ok(typed),
        None => match check(own) {
            Ok(()) => Ok(own.to_owned()),
            Err(why) => Err(must_be_typed(why, &format!("{option} {}", quoted(own)))),
        },
    }
}

/// Cycles by which the machine's clock went, if it did not count instructions: of a built-in core, or of the typed file.
fn paced(typed: Option<String>, cycles: Option<&Cycles>) -> Result<Option<String>, InputError> {
    let clock = cycles.and_then(|cycles| Some((cycles.core.as_deref(), cycles.clock_hz?)));
    let own_core = clock.and_then(|(core, _)| core);
    let own = |name: &str| clock.map(|(_, hz)| format!("{name}@{hz}"));
    let Some(typed) = typed else {
        if own_core.is_some_and(|core| !core::is_known(core)) {
            let why = "its clock went by the cycles of a core file, which a profile cannot name";
            return Err(must_be_typed(InputError::new(why.to_owned()), "--cycles=FILE"));
        }
        return Ok(own(own_core.unwrap_or(AUTO)));
    };
    let (name, hz) = split(&typed);
    let core = if name.is_empty() || name == AUTO { None } else { Some(core::find(name)?.name) };
    let is_own = clock.is_some_and(|(_, own_hz)| {
        core.as_deref().is_none_or(|core| own_core == Some(core)) && hz.is_none_or(|hz| frequency(hz) == Ok(own_hz))
    });
    match own(name).filter(|_| is_own) {
        Some(own) => Ok(Some(own)),
        None => {
            let had = own(own_core.unwrap_or(AUTO))
                .map_or_else(|| "no such clock".to_owned(), |own| format!("--cycles={own}"));
            Err(not_the_profiles("--cycles", &typed, &had))
        }
    }
}

/// QEMU's arguments for the run: settings come from the profile, all others must be typed.
fn arguments(options: &mut Options, facts: &Facts) -> Result<(), InputError> {
    let (settings, others) = settings::read(&facts.qemu_args);
    let (typed_settings, typed) = settings::read(&options.qemu_args);
    let unknown = typed_settings.iter().find(|setting| !settings.contains(setting)).map(|one| one.words().join(" "));
    if let Some(typed) = unknown.or_else(|| typed.iter().find(|other| !others.contains(other)).map(Other::to_string))
    {
        let typed = format!("{typed:?}");
        return Err(not_the_profiles("--qemu-arg", &typed, "no such argument"));
    }
    if let Some(other) = others.iter().find(|other| !typed.contains(other)) {
        let again: Vec<String> =
            other.words().iter().map(|word| format!("--{}", quoted(&format!("qemu-arg={word}")))).collect();
        let why = format!(
            "it was made with QEMU's argument {:?}, which may reach files, programs or the network of this \
             computer; only {} are taken from a profile",
            other.to_string(),
            settings::ACCEPTED
        );
        return Err(must_be_typed(InputError::new(why), &again.join(" ")));
    }
    options.settings = settings;
    options.qemu_args = others.iter().flat_map(Other::words).cloned().collect();
    Ok(())
}

/// Semihosting calls that are served: those of the profile, or fewer if the user typed fewer.
fn served(typed: Semihosting, own: Option<&str>) -> Result<Semihosting, InputError> {
    let own = match own {
        Some(word) => Semihosting::from_str(word, false)
            .map_err(|_| InputError::new(format!("the profile's semihosting is {word:?}, which is not known")))?,
        None => Semihosting::default(),
    };
    if own == Semihosting::Unchecked && typed != own {
        let why = InputError::new("it was made with the firmware's calls of the host unchecked");
        return Err(must_be_typed(why, "--semihosting unchecked"));
    }
    Ok(own.min(typed))
}

fn must_be_typed(why: InputError, option: &str) -> InputError {
    InputError::new(format!(
        "the profile cannot be run again as it is: {why}\nif you know who made it and why, type it yourself: {option}"
    ))
}

fn not_the_profiles(option: &str, typed: &str, own: &str) -> InputError {
    InputError::new(format!("{option} {typed}: the run of the profile had {own}; leave the option out"))
}
