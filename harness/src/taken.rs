// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chip that a plain run takes without being asked: the image names it, and a board of QEMU's does not do.
//!
//! A name in a file proves little: a comment, a list of relatives or a path has one, too, and an image that comes through
//! on a board of QEMU's must give the same bytes there as ever. So the name alone never decides. The chip is taken
//! where a run without it has nothing to show:
//! - before the run, if no machine of QEMU's has memory for the image, which would be refused;
//! - after it, if the run ended for lack of the chip: at an address where the board has nothing and the chip has something;
//!   or in a fault or a mute endless loop, if the code has the addresses of many of the chip's peripherals. Then it runs
//!   once more, with the chip. Only commands that show nothing before the run's end do this; a suite says all beforehand.
//!
//! It is never taken if the code speaks for another chip, if the board is a model of this one, or if the user has said
//! anything about machine, memory or chip.

use std::path::Path;

use anyhow::Result;
use wire::trick::DEVICES;

use crate::analysis::missing_device;
use crate::chip::hints::{self, Hint};
use crate::chip::suggest::Suggestion;
use crate::chip::{self, Chip};
use crate::error::InputError;
use crate::image::{Arch, Image, Opened};
use crate::learn;
use crate::machine;
use crate::measure::{self, Listener, Measured};
use crate::profile::no_progress::Device;
use crate::profile::{End, Profile};
use crate::run::qemu::{emulator, tricks};
use crate::run::records::read::Progress;
use crate::run::request::options::Options;
use crate::run::store::deadline::Deadline;
use crate::run::store::directory::Output;
use crate::text::number::Hex;

/// Chip that an image names, if nothing in the image speaks against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certain {
    /// The chip, and why.
    pub hint: Hint,
    /// Whether its code has the addresses of many of the chip's peripherals.
    pub is_evident: bool,
}

impl Certain {
    /// Finds the chip for which the names in an image's file and the addresses in its code speak. `hint`: finds the chip
    /// that it names among those that have memory for it. None: there is no such chip, or several.
    pub fn find(file: &[u8], image: &Image, hint: impl FnOnce(&[&'static str]) -> Option<Hint>) -> Option<Certain> {
        // QEMU's boards with an AVR are the AVRs that are known.
        if image.arch == Some(Arch::Avr) || image.family.is_none() && !hints::may_point(file) {
            return None;
        }
        let fit = machine::chips_for(image);
        let suggestion = Suggestion::of(image, &fit, Some(hint(&fit)?));
        let is_evident = suggestion.is_evident();
        let hint = suggestion.hint.clone().filter(|_| suggestion.is_undisputed())?;
        Some(Certain { hint, is_evident })
    }

    /// Finds the chip of an image that was read. None: also if the QEMU that is installed cannot add a chip.
    fn of(opened: &Opened) -> Option<Certain> {
        let (image, file) = (&opened.image, opened.naming_file());
        let found = Certain::find(file, image, |fit| learn::hint(image, file, fit))?;
        let choice = machine::fit_chip(image, found.chip()?).ok()?;
        let emulator = emulator::locate(choice.machine.qemu).ok()?;
        tricks::need(&emulator, &DEVICES, "--chip").is_ok().then_some(found)
    }

    fn chip(&self) -> Option<&'static Chip> {
        chip::built_in().iter().find(|chip| chip.name == self.hint.name)
    }

    /// Reason why a run ended for lack of this chip. None: it has another reason, or came through.
    fn lack(&self, profile: &Profile) -> Option<String> {
        let only = &profile.facts.only;
        let still = only.standstill.as_ref().map(|still| &still.register);
        let poll = only.poll.as_ref().or(still);
        let device = poll.and_then(|poll| poll.device.as_ref());
        let is_there =
            |device: &Device| matches!(device, Device::Named(_)) && (!self.is_evident || device.is_serial());
        if device.is_some_and(is_there) {
            // The firmware may be for that device, and wait for what is outside.
            return None;
        }
        if let Some(address) = poll.map(|poll| poll.address).or_else(|| missing_device::address(profile)) {
            return self.chip()?.holds(address).then(|| format!("it lacks what is at {}", Hex(address)));
        }
        let is_lost = match profile.facts.end {
            End::Faulting { .. } | End::LockUp { .. } => true,
            // Firmware that has printed why it gave up has come through to that.
            End::EndlessLoop { .. } => profile.facts.last_line.is_empty(),
            _ => false,
        };
        (is_lost && self.is_evident).then(|| "it does not come through".to_owned())
    }

    /// Gives the options the chip, and says so.
    fn take(&self, options: &mut Options, why: &str, listener: &mut dyn Listener) {
        let Hint { name, why: named } = &self.hint;
        listener.taken(&format!("chip: {name}, {named}; {why}"));
        options.chip = Some((*name).to_owned());
    }
}

/// Whether the user has left the machine to harness.
fn is_plain(options: &Options) -> bool {
    let is_unnamed = options.chip.is_none() && options.machine.is_none() && options.cpu.is_none();
    let is_unplaced = options.load_addr.is_none() && options.load_bias.is_none() && options.vectors.is_none();
    let has_no_arguments = options.svd.is_none() && options.qemu_args.is_empty() && options.settings.is_empty();
    !options.no_chip && is_unnamed && is_unplaced && has_no_arguments
}

/// Settles the chip of a run before it: the wanted one, as [`learn::settle`] does, or the one that [`refused`] takes.
/// The image, if it was read for that.
///
/// # Errors
/// The errors of [`learn::settle`].
pub fn settle(
    options: &mut Options,
    file: &Path,
    deadline: &Deadline,
    listener: &mut dyn Listener,
) -> Result<Option<Opened>> {
    learn::settle(options, file, deadline, listener)?;
    Ok(refused(options, listener))
}

/// Takes the chip that an image names if no machine of QEMU's can run the image. The image, if it was read and needs no chip.
pub fn refused(options: &mut Options, listener: &mut dyn Listener) -> Option<Opened> {
    if !is_plain(options) {
        return None;
    }
    // The run itself says why an image cannot be read.
    let opened = Opened::open(&options.firmware, &options.load()).ok()?;
    if opened.image.arch.is_none() || machine::choose(&opened.image, None, None).is_ok() {
        return Some(opened);
    }
    let Some(found) = Certain::of(&opened) else { return Some(opened) };
    found.take(options, "no machine of QEMU's can run it (--no-chip takes none)", listener);
    // A file for several chips has another image for this one.
    None
}

/// Measures as [`measure::measure`] does, and once more with the chip that the image names if the run ended for lack of it.
///
/// # Errors
/// The errors of [`measure::measure`].
pub fn measure(
    options: &mut Options,
    opened: Option<Opened>,
    output: &Output,
    listener: &mut dyn Listener,
) -> Result<Measured> {
    let Some((board, found)) = opened.as_ref().and_then(|opened| candidate(options, opened)) else {
        return measure::measure(options, opened, output, listener);
    };
    let mut held = Held { lines: Vec::new(), listener };
    let measured = measure::measure(options, opened, output, &mut held);
    let lack = measured.as_ref().ok().and_then(|measured| found.lack(&measured.profile));
    let Some(lack) = lack else {
        held.release();
        return measured;
    };
    output.begin_again()?;
    found.take(options, &format!("on {board} {lack} (--no-chip runs it there)"), listener);
    measure::measure(options, None, output, listener)
}

/// Chip that a run may lack, and the board that the image runs on without it.
pub fn candidate(options: &Options, opened: &Opened) -> Option<(String, Certain)> {
    if !is_plain(options) {
        return None;
    }
    let board = machine::choose(&opened.image, None, None).ok()?.machine;
    let found = Certain::of(opened)?;
    (board.model() != Some(found.hint.name)).then(|| (board.name.into_owned(), found))
}

/// Chip that a command without a run takes for an image that no machine of QEMU's can run.
///
/// # Errors
/// The errors of [`machine::fit_chip`].
pub fn for_refused(file: &[u8], image: &Image) -> Result<Option<machine::Choice>, InputError> {
    let found = Certain::find(file, image, |fit| hints::find(file, fit));
    found.as_ref().and_then(Certain::chip).map(|chip| machine::fit_chip(image, chip)).transpose()
}

/// Kind of a line of a [`Listener`].
#[derive(Clone, Copy)]
enum Kind {
    Say,
    Choice,
    RunnerUp,
    Host,
    Slow,
}

/// Keeps the lines of a run until it is known whether the run counts.
struct Held<'a> {
    lines: Vec<(Kind, String)>,
    listener: &'a mut dyn Listener,
}

impl Held<'_> {
    fn keep(&mut self, kind: Kind, line: &str) {
        self.lines.push((kind, line.to_owned()));
    }

    fn release(self) {
        for (kind, line) in self.lines {
            match kind {
                Kind::Say => self.listener.say(&line),
                Kind::Choice => self.listener.choice(&line),
                Kind::RunnerUp => self.listener.runner_up(&line),
                Kind::Host => self.listener.host(&line),
                Kind::Slow => self.listener.slow(&line),
            }
        }
    }
}

impl Listener for Held<'_> {
    fn say(&mut self, line: &str) {
        self.keep(Kind::Say, line);
    }

    fn choice(&mut self, line: &str) {
        self.keep(Kind::Choice, line);
    }

    fn runner_up(&mut self, line: &str) {
        self.keep(Kind::RunnerUp, line);
    }

    fn host(&mut self, line: &str) {
        self.keep(Kind::Host, line);
    }

    fn slow(&mut self, line: &str) {
        self.keep(Kind::Slow, line);
    }

    fn starts(&mut self, console: &Path) {
        self.listener.starts(console);
    }

    fn progress(&mut self, progress: Progress) {
        self.listener.progress(progress);
    }
}
