// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines and processors that a user names and harness does not know: asks QEMU, before anything runs, whether it
//! has them.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::error::InputError;
use crate::machine::{Choice, Core, MACHINES};
use crate::run::qemu::emulator;
use crate::run::request::options::Options;
use crate::text::near::nearest;

/// Refuses a `--machine` or `--cpu` that neither the table nor the emulator has.
///
/// # Errors
/// [`InputError`] with the name that was probably meant; also when the emulator cannot be asked.
pub(crate) fn check(options: &Options, choice: &Choice) -> Result<()> {
    let is_of_table = |cpu: &str| matches!(choice.machine.core, Core::Arm { cpu: own, .. } if own == bare(cpu));
    let machine = options.machine.as_deref().filter(|_| choice.machine.core == Core::Unknown);
    let cpu = options.cpu.as_deref().filter(|cpu| !is_of_table(cpu));
    if machine.is_none() && cpu.is_none() {
        return Ok(());
    }
    let program = choice.machine.qemu;
    let path = emulator::locate(program)?;
    if machine.is_some() {
        let known = emulator::names(&path, "-machine")?;
        is_one_of("--machine", bare(&choice.machine.name), &known, program)?;
    }
    if let Some(cpu) = cpu {
        let known = emulator::names(&path, "-cpu")?;
        is_one_of("--cpu", bare(cpu), &known, program)?;
    }
    Ok(())
}

/// A machine's or processor's name without the properties after it: `virt` of `virt,aia=aplic`.
fn bare(name: &str) -> &str {
    name.split(',').next().unwrap_or(name)
}

fn is_one_of(option: &str, name: &str, known: &BTreeSet<String>, program: &str) -> Result<(), InputError> {
    // An emulator without a list is tried by running it.
    if known.is_empty() || known.contains(name) {
        return Ok(());
    }
    // A machine of the table is the likelier suggestion.
    let of_table = MACHINES.iter().filter(|machine| option == "--machine" && machine.qemu == program);
    let near = nearest(name, of_table.map(|machine| &*machine.name));
    let near = near.or_else(|| nearest(name, known.iter().map(String::as_str)));
    let hint = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
    let short = option.trim_start_matches('-');
    Err(InputError::new(format!(
        "{option} {name}: {program} has no {} of that name{hint}; `{program} -{short} help` lists them",
        if short == "cpu" { "processor" } else { "machine" },
    )))
}
