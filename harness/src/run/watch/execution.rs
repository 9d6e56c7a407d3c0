// SPDX-License-Identifier: MIT OR Apache-2.0
//! Execution of a plan: starts QEMU, watches it, ends it; then reads the plugin's records, and determines the end.

use std::fs::{self, File};
use std::io::{self, Seek};
use std::ops::Range;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use wire::control::Word;
use wire::refusal::Refusal;
use wire::request::Request;

use crate::error::{EmulatorError, InputError};
use crate::image::mcount;
use crate::profile::in_target::Table;
use crate::profile::input::Input;
use crate::profile::no_progress::{Only, OnlyPoll};
use crate::profile::{End, InTarget};
use crate::run::contain::grants::Walls;
use crate::run::contain::sandbox;
use crate::run::qemu::memory::Unread;
use crate::run::qemu::plugin;
use crate::run::qemu::process::{self, Process};
use crate::run::qemu::start::Start;
use crate::run::qemu::tricks;
use crate::run::records::read::{Progress, Records, Watch};
use crate::run::request;
use crate::run::request::plan::{Measurement, Plan};
use crate::run::store::deadline::Deadline;
use crate::run::store::workspace::Workspace;
use crate::run::watch::ending::{self, end, never_ran};
use crate::run::watch::interrupt::INTERRUPTED;
use crate::run::watch::stillness::{Still, Stillness};
use crate::text::number::Hex;
use crate::text::printable::printable;

/// Interval between two checks of a running QEMU.
const GLANCE: Duration = Duration::from_millis(40);

/// Longest time that harness waits for a QEMU to end which does not answer.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Number of consecutive checks at which QEMU only handled timers and nothing woke the sleeping CPU; then the CPU
/// counts as asleep for ever.
const TICKING: u32 = 3;

/// Message for a busy QEMU that executes nothing and does not answer.
const NO_ANSWER: &str = "it executes no instruction any more, and its monitor does not answer";

/// Time without output after which a program is asked whether it is a QEMU at all.
const SILENCE: Duration = Duration::from_secs(2);

/// Result of a run: the plugin's records, and the end.
#[derive(Debug)]
pub struct Outcome {
    /// Version of the QEMU that ran it: `10.0.2`.
    pub qemu_version: String,
    /// The plugin's records.
    pub records: Records,
    /// The end of the run.
    pub end: End,
    /// Evidence that the run ended without progress.
    pub only: Only,
    /// Registers of devices that were read over and over, up to the end.
    pub polls: Vec<OnlyPoll>,
    /// Counts that the firmware made itself.
    pub in_target: Option<InTarget>,
    /// Reason why the machine's memory is unknown; None: it is known.
    pub unread_memory: Option<Unread>,
    /// Bytes of the input that the firmware has read from `:tt`.
    pub read_bytes: u64,
}

/// A QEMU that has ended.
struct Executed {
    process: Process,
    start: Start,
    status: ExitStatus,
    /// Reason why harness ended QEMU; None: QEMU ended by itself.
    cause: Option<End>,
    /// QEMU's own messages.
    said: String,
}

/// Error for an emulator to whose machine the plugin cannot add a chip; the emulator's message names the missing part.
fn no_chip(emulator: &Path, version: &str, said: &str) -> EmulatorError {
    let missing = said.lines().next_back().unwrap_or_default();
    let missing = missing.split_once(": ").map_or(missing, |(_, missing)| missing);
    let what = format!(
        "--chip: {} (QEMU {version}) cannot be completed to a chip: it does not show {}",
        emulator.display(),
        printable(missing)
    );
    EmulatorError::with_remedy(what, "The bundle's QEMU can (docs/ci.md#the-bundle), and so can Debian's 10.0.")
}

impl Plan<'_> {
    /// Writes the files that QEMU and the plugin read, for a plugin API.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn prepare(&self, request: &Request, workspace: &Workspace, api: i32) -> io::Result<()> {
        fs::write(workspace.plugin(), plugin::library(api)?)?;
        fs::write(workspace.image(), self.choice.loadable_elf(self.image))?;
        request::write(request, &workspace.records())?;
        if !self.options.input.is_empty() {
            for pipe in [workspace.console_input(), workspace.readc_input()] {
                mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR)?;
            }
        }
        Ok(())
    }

    /// Holds the console's pipes open: QEMU opens them before it loads the plugin, and would wait for a writer.
    pub(crate) fn hold_input(&self, workspace: &Workspace) -> io::Result<Vec<File>> {
        let pipes = [workspace.console_input(), workspace.readc_input()];
        let pipes = pipes.iter().filter(|_| !self.options.input.is_empty());
        pipes.map(|pipe| File::options().read(true).write(true).open(pipe)).collect()
    }

    /// All of the input as one file, which the firmware reads from `:tt` without waiting. QEMU shares the file's
    /// position.
    pub(crate) fn standard_input(&self, workspace: &Workspace) -> io::Result<File> {
        let bytes: Vec<u8> = self.options.input.iter().flat_map(Input::typed).copied().collect();
        fs::write(workspace.standard_input(), bytes)?;
        File::open(workspace.standard_input())
    }

    /// Runs the image to its end. `glance` gets the progress at each check; `deadline` is told when QEMU starts and
    /// ends.
    ///
    /// # Errors
    /// [`EmulatorError`](crate::error::EmulatorError) when QEMU did not run the image, [`InputError`] when the
    /// records could not be written.
    pub fn run(
        &self,
        measurement: &Measurement<'_>,
        workspace: &Workspace,
        deadline: &Deadline,
        glance: &mut dyn FnMut(Progress),
    ) -> Result<Outcome> {
        let api = plugin::api(self.emulator);
        let request = request::measure(self, measurement);
        let prepared = request.and_then(|request| self.prepare(&request, workspace, api));
        prepared.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => InputError::about(
                &self.image.path,
                format_args!("the plugin cannot be asked to run it ({error}); please report this, with the file"),
            ),
            _ => workspace.unwritable(&error),
        })?;
        let _input = self.hold_input(workspace).map_err(|error| workspace.unwritable(&error))?;
        let walls = Walls::around(self.emulator, workspace, self.options)?;
        let unwritable = |error: io::Error| workspace.unwritable(&error);
        let mut standard_input = self.standard_input(workspace).map_err(unwritable)?;
        deadline.run_begins()?;
        let executed = self.execute(workspace, &walls, &standard_input, api, glance);
        let watch = Watch::open(&workspace.records());
        deadline.run_ended(watch.as_ref().map_or(0, Watch::recorded_bytes));
        let Executed { process, start, status, cause, said } = executed?;
        let progress = watch.and_then(|watch| watch.progress());
        if let (None, Some(cause)) = (&progress, &cause) {
            return Err(never_ran(status, Some(cause), &said).into());
        }
        // An unusable emulator fails in many ways, so its version is checked before its exit status.
        let qemu_version = process.version(self.emulator)?;
        let refusal = request::refusal(&workspace.records());
        if refusal == Some(Refusal::Chip) {
            return Err(no_chip(self.emulator, &qemu_version, &said).into());
        }
        let Some(progress) = progress else {
            return Err(match refusal {
                Some(Refusal::Io { errno }) => workspace.unwritable(&io::Error::from_raw_os_error(errno)).into(),
                Some(Refusal::SeveralVcpus) => InputError::new(format!(
                    "{} has several Cortex-M CPUs, which are counted on mps2-an521 only: of others it is not known \
                     whether QEMU keeps their code apart. Leave -smp out, or profile one core's firmware on a machine with one",
                    self.choice.machine.name
                ))
                .into(),
                Some(Refusal::ExactOfSeveralVcpus) => {
                    let message = "--exact: the exact call tree follows one vCPU; leave --exact out, or take a machine \
                                   with one";
                    InputError::new(message).into()
                }
                Some(Refusal::UntoldVcpus) => EmulatorError::new(format!(
                    "{} does not show which of several CPUs executes; Debian's QEMU does, of a known version \
                     (`harness doctor`)",
                    self.emulator.display()
                ))
                .into(),
                Some(Refusal::Request | Refusal::Host | Refusal::Chip) | None => never_ran(status, None, &said).into(),
            });
        };
        let records = Records::read(&workspace.records())?;
        let end = end(&records, cause, process.shutdown_reason.as_deref(), status, &said, self)
            .map_err(|error| workspace.unwritable(&error))?;
        if matches!(end, End::EmulatorFailed { .. }) && progress.insns == 0 {
            return Err(never_ran(status, None, &said).into());
        }
        let ended_at = records.control.end.map(|_| records.control.get(Word::EndPc));
        let only = self.only(&records, ended_at, start.tree());
        let polls = self.polls(&records, start.tree());
        let end = ending::judged(end, &only, &records);
        // QEMU loses console output that it cannot write, without an error.
        let end = if end.is_good() && !workspace.has_room() { End::DiskFull } else { end };
        let opens_late = !measurement.from.is_empty();
        let in_target = self.mcount.map(|header| in_target(header, opens_late, &start, &records, &end, workspace));
        let unread_memory = start.unread().cloned();
        // Nothing was read if QEMU has another file there.
        let read_bytes = standard_input.stream_position().unwrap_or(0);
        Ok(Outcome { qemu_version, records, end, only, polls, in_target, unread_memory, read_bytes })
    }

    /// Runs QEMU. If QEMU refuses the plugin's API version or the sandbox, runs it again with another version or
    /// without the sandbox.
    fn execute(
        &self,
        workspace: &Workspace,
        walls: &Walls,
        standard_input: &File,
        mut api: i32,
        glance: &mut dyn FnMut(Progress),
    ) -> Result<Executed> {
        let unwritable = |error: io::Error| workspace.unwritable(&error);
        let mut refusals = 0;
        loop {
            let shared = standard_input.try_clone().map_err(unwritable)?;
            let arguments = self.arguments(Some(api));
            let mut process = Process::start(self.emulator, walls, &arguments, workspace, shared.into(), None)?;
            let mut start = Start::begin(self, &mut process);
            let (status, cause) = self.watch(&mut process, &mut start, workspace, glance)?;
            let said = workspace.said();
            // A QEMU that refuses something has not read or written anything else. Each feature is refused only once.
            let may_refuse = refusals < 2 && Watch::open(&workspace.records()).is_none();
            let is_refused = may_refuse
                && (sandbox::is_refused(self.emulator, self.options.sandbox, &said)?
                    || plugin::takes_another(self.emulator, api, &said)?);
            if !is_refused {
                return Ok(Executed { process, start, status, cause, said });
            }
            refusals += 1;
            api = plugin::api(self.emulator);
            let written = plugin::library(api).and_then(|library| fs::write(workspace.plugin(), library));
            written.and_then(|()| fs::remove_file(workspace.stderr())).map_err(unwritable)?;
        }
    }

    /// Makes QEMU quit. Before that, copies the memory that the plugin would copy at the end of a run.
    fn quit(
        &self,
        process: &mut Process,
        start: &Start,
        workspace: &Workspace,
        watch: Option<&Watch>,
    ) -> Result<ExitStatus> {
        // A QEMU that has not loaded the plugin might not answer for long, and has nothing to copy.
        if let (Some(header), Some(_)) = (self.mcount, watch)
            && start.is_memory(&header.state)
        {
            process.snapshot(&header.state, workspace);
        }
        process.quit()
    }

    /// Waits for QEMU's end. Ends QEMU itself when the plugin cannot: on timeout, interrupt, sleep for ever or a full
    /// disk.
    fn watch(
        &self,
        process: &mut Process,
        start: &mut Start,
        workspace: &Workspace,
        glance: &mut dyn FnMut(Progress),
    ) -> Result<(ExitStatus, Option<End>)> {
        let started = Instant::now();
        let mut watch = None;
        let mut still = Stillness::default();
        let mut ticking = (Progress::default(), 0);
        loop {
            if let Some(status) = process.wait_for_answer(GLANCE)? {
                return Ok((status, None));
            }
            if let Some(version) = process.greeted() {
                tricks::check(self.emulator, version)?;
            }
            start.proceed(process, workspace)?;
            workspace.bound_said();
            watch = watch.or_else(|| Watch::open(&workspace.records()));
            if INTERRUPTED.load(Ordering::Relaxed) {
                return Ok((self.quit(process, start, workspace, watch.as_ref())?, Some(End::Interrupted)));
            }
            if self.options.timeout.is_some_and(|timeout| started.elapsed() >= timeout) {
                return Ok((self.quit(process, start, workspace, watch.as_ref())?, Some(End::Timeout)));
            }
            if process.has_greeted() || started.elapsed() >= SILENCE {
                // The program may be too old, slow, or hang. Each program is asked once.
                process.version(self.emulator)?;
            }
            let Some(progress) = watch.as_ref().and_then(Watch::progress) else { continue };
            glance(progress);
            match still.look(progress, || process.cpu_use()) {
                None => {}
                Some(Still::Stuck) => {
                    let Some(registers) = process.ask("info registers") else {
                        // It may be about to end: an abort takes long if its handler has to wait.
                        if let Some(status) = process.wait(LAST_WORDS)? {
                            return Ok((status, None));
                        }
                        // A device's timer may be set again for ever while the CPU sleeps, so that QEMU's lock is
                        // never free.
                        let end = match watch.as_ref().and_then(|watch| watch.waits_at(progress.insns)) {
                            Some(pc) => End::Asleep { pc },
                            None => End::EmulatorFailed { message: NO_ANSWER.to_owned() },
                        };
                        return Ok((process.end()?, Some(end)));
                    };
                    let pc = process::program_counter(&registers).filter(|&pc| self.waiting_at(pc) == pc);
                    let Some(pc) = pc else {
                        // QEMU is about to end, or the CPU sleeps while timers expire. They may still wake the CPU
                        // after a long time, but mostly never do.
                        ticking = if ticking.0 == progress { (progress, ticking.1 + 1) } else { (progress, 1) };
                        still = Stillness::default();
                        match process::program_counter(&registers).map(|pc| self.waiting_at(pc)) {
                            Some(pc) if ticking.1 == TICKING => {
                                let status = self.quit(process, start, workspace, watch.as_ref())?;
                                return Ok((status, Some(End::Asleep { pc })));
                            }
                            _ => continue,
                        }
                    };
                    let end = End::Stuck { pc, why: ending::describe_stuck(&registers) };
                    return Ok((self.quit(process, start, workspace, watch.as_ref())?, Some(end)));
                }
                Some(Still::Asleep) => {
                    // Stopped through the monitor, or waiting for a debugger (-S): that is not sleep.
                    if process.ask("info status").is_some_and(|status| status.contains("paused")) {
                        still = Stillness::default();
                        continue;
                    }
                    let Some(pc) = process.ask("info registers").as_deref().and_then(process::program_counter) else {
                        // It may be about to end: an abort takes long if its handler has to wait.
                        let status = process.wait(LAST_WORDS)?.context("QEMU does not say where the CPU sleeps")?;
                        return Ok((status, None));
                    };
                    let pc = self.waiting_at(pc);
                    return Ok((self.quit(process, start, workspace, watch.as_ref())?, Some(End::Asleep { pc })));
                }
            }
        }
    }

    /// Address of the wait instruction, from the address where the CPU would continue.
    fn waiting_at(&self, pc: u64) -> u64 {
        let Ok(isa) = self.choice.machine.isa.parse() else { return pc };
        let before = |sizes: [u64; 2], is_wait: fn(decode::Isa, &[u8]) -> bool| {
            sizes.into_iter().map(|size| pc.wrapping_sub(size)).find(|&address| {
                let code = self.image.code_at(address.wrapping_sub(self.choice.load_bias));
                code.is_some_and(|code| is_wait(isa, code))
            })
        };
        // Newer versions of QEMU sleep at a `wfe`, too. The short form first: it may stand before a `wfi`.
        before([4, 2], decode::is_wfi).or_else(|| before([2, 4], decode::is_wfe)).unwrap_or(pc)
    }
}

/// Reads the in-target table that was copied when the run ended, or says why there is none.
fn in_target(
    header: &mcount::Header,
    opens_late: bool,
    start: &Start,
    records: &Records,
    end: &End,
    workspace: &Workspace,
) -> InTarget {
    let snapshot = |name: &str| fs::read(workspace.records().join(name)).ok();
    let read = || {
        if !start.is_memory(&header.state) {
            let Range { start, end } = header.state;
            return Err(format!("should lie at {} to {}, where there is no memory", Hex(start), Hex(end - 1)));
        }
        if opens_late && records.control.get(Word::WindowOpen) == 0 {
            return Err("has nothing from inside the window, which never opened".to_owned());
        }
        let bytes = snapshot(wire::SNAPSHOT_END).ok_or_else(|| match end {
            End::Reset { pc: None, .. } => "was lost as the machine was reset".to_owned(),
            End::EmulatorFailed { .. } => "was lost as QEMU ended".to_owned(),
            _ => "could not be copied as the run ended".to_owned(),
        })?;
        let table = Table::read(header, &bytes).map_err(|error| error.to_string())?;
        if !opens_late {
            return Ok(table);
        }
        let opening = snapshot(wire::SNAPSHOT_OPEN).ok_or("could not be copied as the window opened")?;
        let opening = Table::read(header, &opening).map_err(|error| format!("{error} (as the window opened)"))?;
        Ok(table.since(&opening))
    };
    read().map_or_else(InTarget::Unread, InTarget::Table)
}
