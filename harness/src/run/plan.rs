//! One run: QEMU started, watched, ended; what the plugin left, and how it came to an end.

use crate::run::command_line;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;
use wire::control::{self, Word};
use wire::refusal::Refusal;

use crate::error::EmulatorError;
use crate::error::InputError;
use crate::image::Image;
use crate::image::kernel::Kernel;
use crate::image::mcount;
use crate::image::unwind;
use crate::machine::Choice;
use crate::profile::in_target::Table;
use crate::profile::{End, InTarget};
use crate::run::fault::describe_fault;
use crate::run::options::Options;
use crate::run::process::{self, CpuUse, Process};
use crate::run::records::{Progress, Records, Watch};
use crate::run::request;
use crate::run::workspace::Workspace;
use crate::text::number::Hex;

/// The plugin, as it was built with this crate.
const PLUGIN: &[u8] = include_bytes!(env!("PLUGIN_LIBRARY"));

/// How often a running QEMU is looked at.
const GLANCE: Duration = Duration::from_millis(40);

/// How long nothing must have happened before a CPU is taken to be asleep for ever. The host's own
/// account (no thread runs or wants to) makes sure of it, so this is no guess about speed.
const STILLNESS: Duration = Duration::from_millis(200);

/// The same where the host gives no account.
const STILLNESS_UNSEEN: Duration = Duration::from_secs(5);

/// How long a program may say nothing before it is asked whether it is a QEMU at all.
const SILENCE: Duration = Duration::from_secs(2);

/// Set when the user wants the run to end.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes Ctrl-C and SIGTERM end the run, with what was measured until then, instead of the process.
pub fn end_on_interrupt() {
    // Fails only where a handler is set already; then that one decides.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
}

/// Everything that a run is made from.
#[derive(Debug)]
pub struct Plan<'a> {
    /// What runs.
    pub image: &'a Image,
    /// On which machine.
    pub choice: &'a Choice,
    /// In which emulator.
    pub emulator: &'a Path,
    /// How.
    pub options: &'a Options,
    /// Virtual time per instruction is 2^shift ns.
    pub icount_shift: u8,
    /// Addresses of the firmware's functions, sorted.
    pub functions: &'a [Range<u64>],
    /// Address that opens the window.
    pub from: Option<u64>,
    /// Address that closes it.
    pub until: Option<u64>,
    /// Addresses between which instructions are counted.
    pub spans: &'a [(u64, u64)],
    /// How stacks are walked.
    pub unwind: &'a unwind::Table,
    /// The firmware's kernel, if it has one that is known.
    pub kernel: Option<&'a Kernel>,
    /// The in-target table, if the image has one.
    pub mcount: Option<&'a mcount::Header>,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Of the QEMU that ran it: `10.0.2`.
    pub qemu_version: String,
    /// What the plugin left.
    pub records: Records,
    /// How it ended.
    pub end: End,
    /// What the firmware counted itself.
    pub in_target: Option<InTarget>,
}

impl Plan<'_> {
    /// What the plugin may read: the machine's memory, or the image's own where that is unknown.
    pub fn memory(&self) -> Vec<Range<u64>> {
        let known = self.choice.machine.memory.iter().map(|region| region.range());
        let own = self.image.segments.iter().map(|segment| {
            let Range { start, end } = segment.run_range();
            start.wrapping_add(self.choice.load_bias)..end.wrapping_add(self.choice.load_bias)
        });
        if self.choice.machine.memory.is_empty() { own.collect() } else { known.collect() }
    }

    /// QEMU's arguments for this run, or for the same run without the plugin.
    pub fn arguments(&self, with_plugin: bool) -> Vec<OsString> {
        let has_input = with_plugin && !self.options.input.is_empty();
        let Options { firmware_args, qemu_args, .. } = self.options;
        command_line::arguments(self.choice, self.icount_shift, firmware_args, qemu_args, with_plugin, has_input)
    }

    /// Writes the files that QEMU and the plugin read.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn prepare(&self, workspace: &Workspace) -> io::Result<()> {
        fs::write(workspace.plugin(), PLUGIN)?;
        fs::write(workspace.image(), self.choice.loadable_elf(self.image))?;
        request::write(self, &workspace.records())?;
        if !self.options.input.is_empty() {
            mkfifo(&workspace.console_input(), Mode::S_IRUSR | Mode::S_IWUSR)?;
        }
        Ok(())
    }

    /// Holds the console's pipe open: QEMU opens it before it loads the plugin, and would wait for a writer.
    fn hold_input(&self, workspace: &Workspace) -> io::Result<Option<File>> {
        let open = || File::options().read(true).write(true).open(workspace.console_input());
        (!self.options.input.is_empty()).then(open).transpose()
    }

    /// Runs the image to one of its ends. `glance` sees the progress now and then.
    ///
    /// # Errors
    /// [`EmulatorError`] when QEMU did not come to run the image, [`InputError`] when the records
    /// could not be written.
    pub fn run(&self, workspace: &Workspace, glance: &mut dyn FnMut(Progress)) -> Result<Outcome> {
        self.prepare(workspace).map_err(|error| workspace.unwritable(&error))?;
        let _input = self.hold_input(workspace).map_err(|error| workspace.unwritable(&error))?;
        let mut process = Process::start(self.emulator, &self.arguments(true), workspace)?;
        let (status, cause) = self.watch(&mut process, workspace, glance)?;
        let said = fs::read_to_string(workspace.stderr()).unwrap_or_default();
        let progress = Watch::open(&workspace.records()).and_then(|watch| watch.progress());
        if let (None, Some(cause)) = (&progress, &cause) {
            return Err(never_ran(status, Some(cause), &said).into());
        }
        // What will not do as an emulator fails in many ways.
        let qemu_version = process.version(self.emulator)?;
        let Some(progress) = progress else {
            return Err(match request::refusal(&workspace.records()) {
                Some(Refusal::Io { errno }) => workspace.unwritable(&io::Error::from_raw_os_error(errno)).into(),
                Some(Refusal::SeveralVcpus) => InputError::new(
                    "several vCPUs can only be told apart on RISC-V; leave -smp out, or profile one core's firmware \
                     at a time",
                )
                .into(),
                Some(Refusal::ExactOfSeveralVcpus) => {
                    InputError::new("--exact: the exact call tree follows one vCPU; leave --exact or -smp out").into()
                }
                Some(Refusal::Request | Refusal::Host) | None => never_ran(status, None, &said).into(),
            });
        };
        let records = Records::read(&workspace.records())?;
        let end =
            end(&records, cause, &process.events, status, &said).map_err(|error| workspace.unwritable(&error))?;
        if matches!(end, End::EmulatorFailed { .. }) && progress.insns == 0 {
            return Err(never_ran(status, None, &said).into());
        }
        let in_target = self.mcount.map(|header| self.in_target(header, &records, &end, workspace));
        Ok(Outcome { qemu_version, records, end, in_target })
    }

    /// Whether all of a range is memory.
    fn is_memory(&self, range: &Range<u64>) -> bool {
        let memory = self.memory();
        let mut at = range.start;
        while at < range.end {
            let Some(region) = memory.iter().find(|region| region.contains(&at)) else { return false };
            at = region.end;
        }
        true
    }

    /// Reads the table that was copied as the run ended, or says why there is none.
    fn in_target(&self, header: &mcount::Header, records: &Records, end: &End, workspace: &Workspace) -> InTarget {
        let snapshot = |name: &str| fs::read(workspace.records().join(name)).ok();
        let read = || {
            if !self.is_memory(&header.state) {
                let Range { start, end } = header.state;
                return Err(format!("should lie at {} to {}, where there is no memory", Hex(start), Hex(end - 1)));
            }
            if self.from.is_some() && records.control.get(Word::WindowOpen) == 0 {
                return Err("has nothing from inside the window, which never opened".to_owned());
            }
            let bytes = snapshot(wire::SNAPSHOT_END).ok_or_else(|| match end {
                End::Reset { pc: None } => "was lost as the machine was reset".to_owned(),
                End::EmulatorFailed { .. } => "was lost as QEMU ended".to_owned(),
                _ => "could not be copied as the run ended".to_owned(),
            })?;
            let table = Table::read(header, &bytes).map_err(|error| error.to_string())?;
            if self.from.is_none() {
                return Ok(table);
            }
            let opening = snapshot(wire::SNAPSHOT_OPEN).ok_or("could not be copied as the window opened")?;
            let opening = Table::read(header, &opening).map_err(|error| format!("{error} (as the window opened)"))?;
            Ok(table.since(&opening))
        };
        read().map_or_else(InTarget::Unread, InTarget::Table)
    }

    /// Has QEMU quit. What the plugin copies where it ends a run is copied first.
    fn quit(&self, process: &mut Process, workspace: &Workspace, watch: Option<&Watch>) -> Result<ExitStatus> {
        // A QEMU that has not come to load the plugin might not answer for long, and has nothing to copy.
        if let (Some(header), Some(_)) = (self.mcount, watch)
            && self.is_memory(&header.state)
        {
            process.snapshot(&header.state, workspace);
        }
        process.quit()
    }

    /// Waits for QEMU, and ends it where the plugin cannot.
    fn watch(
        &self,
        process: &mut Process,
        workspace: &Workspace,
        glance: &mut dyn FnMut(Progress),
    ) -> Result<(ExitStatus, Option<End>)> {
        let started = Instant::now();
        let mut watch = None;
        let mut still = Stillness::default();
        loop {
            if let Some(status) = process.wait(GLANCE)? {
                return Ok((status, None));
            }
            watch = watch.or_else(|| Watch::open(&workspace.records()));
            if INTERRUPTED.load(Ordering::Relaxed) {
                return Ok((self.quit(process, workspace, watch.as_ref())?, Some(End::Interrupted)));
            }
            if self.options.timeout.is_some_and(|timeout| started.elapsed() >= timeout) {
                return Ok((self.quit(process, workspace, watch.as_ref())?, Some(End::Timeout)));
            }
            if process.has_greeted() || started.elapsed() >= SILENCE {
                // It may be too old, slow, or hang. A program is asked once.
                process.version(self.emulator)?;
            }
            let Some(progress) = watch.as_ref().and_then(Watch::progress) else { continue };
            glance(progress);
            if still.since(progress, || process.cpu_use()) {
                // Somebody stopped it, or it waits for a debugger (-S): it does not sleep.
                if process.ask("info status").is_some_and(|status| status.contains("paused")) {
                    still = Stillness::default();
                    continue;
                }
                let pc = process.ask("info registers").as_deref().and_then(process::program_counter);
                let pc = self.waiting_at(pc.context("QEMU does not say where the CPU sleeps")?);
                return Ok((self.quit(process, workspace, watch.as_ref())?, Some(End::Asleep { pc })));
            }
        }
    }

    /// The address of the wait instruction, given where the CPU would go on.
    fn waiting_at(&self, pc: u64) -> u64 {
        let Ok(isa) = self.choice.machine.isa.parse() else { return pc };
        let wait = [4, 2].into_iter().map(|size| pc.wrapping_sub(size)).find(|&address| {
            let code = self.image.code_at(address.wrapping_sub(self.choice.load_bias));
            code.is_some_and(|code| decode::is_wfi(isa, code))
        });
        wait.unwrap_or(pc)
    }
}

/// Notices that a CPU sleeps and nothing is left that could wake it: under `sleep=off` virtual time
/// jumps to the next timer, so a guest that stands still while the host has nothing to do stays so.
#[derive(Default)]
struct Stillness {
    last: Option<(Progress, Option<CpuUse>)>,
    since: Option<Instant>,
}

impl Stillness {
    /// The host is only asked where the guest has stood still since the last look: asking costs, and a process
    /// whose account is being read ends more slowly.
    fn since(&mut self, progress: Progress, cpu_use: impl FnOnce() -> Option<CpuUse>) -> bool {
        let cpu_use = if self.last.is_some_and(|(last, _)| last == progress) { cpu_use() } else { None };
        let now = (progress, cpu_use);
        let busy = cpu_use.is_some_and(|cpu_use| cpu_use.busy);
        if busy || self.last != Some(now) {
            self.last = Some(now);
            self.since = Some(Instant::now());
            return false;
        }
        let needed = if cpu_use.is_some() { STILLNESS } else { STILLNESS_UNSEEN };
        self.since.is_some_and(|since| since.elapsed() >= needed)
    }
}

/// QEMU ended, by itself or for `cause`, and there is nothing to show.
fn never_ran(status: ExitStatus, cause: Option<&End>, said: &str) -> EmulatorError {
    let what = match cause {
        Some(End::Timeout) => "QEMU had not started to run the firmware when --timeout ended it".to_owned(),
        Some(_) => "QEMU had not started to run the firmware when it was interrupted".to_owned(),
        None => format!("QEMU ended before it ran the firmware ({status})"),
    };
    EmulatorError::new(match said.trim_end() {
        "" => format!("{what}; it said nothing"),
        said => format!("{what}; it said:\n{said}"),
    })
}

/// Puts together how a run ended: the plugin's word first, then ours, then QEMU's.
///
/// # Errors
/// When the plugin could not write its records.
fn end(records: &Records, cause: Option<End>, events: &[Value], status: ExitStatus, said: &str) -> io::Result<End> {
    let control = &records.control;
    let (value, pc) = (control.get(Word::EndValue), control.get(Word::EndPc));
    if let Some(end) = control.end {
        return Ok(match end {
            control::End::For => End::For,
            control::End::Until => End::Until,
            control::End::MaxInsns => End::MaxInsns,
            control::End::Exit => End::Exit { status: value as u32, pc },
            control::End::Reset => End::Reset { pc: Some(pc) },
            control::End::Denied => End::Denied { pc },
            control::End::WriteFailed => {
                return Err(io::Error::from_raw_os_error(value as i32));
            }
        });
    }
    if let Some(cause) = cause {
        return Ok(cause);
    }
    if said.contains("Lockup") {
        let pc = process::program_counter(said).unwrap_or(0);
        return Ok(End::LockUp { pc, fault: lock_up(records, said) });
    }
    let shutdown = events.iter().rev().find(|event| event["event"] == "SHUTDOWN");
    if shutdown.is_some_and(|event| event["data"]["reason"] == "guest-reset") {
        return Ok(End::Reset { pc: None });
    }
    let message = match status.signal() {
        Some(signal) => format!("it was killed by signal {signal}"),
        None => format!("it ended by itself ({status})"),
    };
    let said = said.trim();
    Ok(End::EmulatorFailed { message: if said.is_empty() { message } else { format!("{message}; it said: {said}") } })
}

/// A lock-up's cause: the fault registers that the plugin read as QEMU aborted, and QEMU's own line.
fn lock_up(records: &Records, said: &str) -> String {
    let word = |word| records.control.get(word);
    let fault = (word(Word::Fault) == 1)
        .then(|| {
            describe_fault(
                word(Word::FaultCfsr),
                word(Word::FaultHfsr),
                word(Word::FaultMmfar),
                word(Word::FaultBfar),
            )
        })
        .flatten();
    // "qemu: fatal: Lockup: can't escalate 3 to HardFault (current priority -1)"
    let line = said.lines().find_map(|line| Some(line.split_once("Lockup: ")?.1)).unwrap_or("").trim();
    let exception = line.split_once("escalate ").and_then(|(_, rest)| match rest.split(' ').next()? {
        "2" => Some("NMI"),
        "3" => Some("HardFault"),
        "4" => Some("MemManage"),
        "5" => Some("BusFault"),
        "6" => Some("UsageFault"),
        "11" => Some("SVCall"),
        _ => None,
    });
    let context = match exception {
        Some(exception) => format!("a {exception} while faults were already being handled"),
        None => line.to_owned(),
    };
    match fault {
        Some(fault) => format!("{fault} ({context})"),
        None => context,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_only_asked_where_the_guest_stands_still() {
        let mut still = Stillness::default();
        let mut look = |insns, ticks| {
            let mut asked = false;
            still.since(Progress { insns, samples: 0, window_open: true }, || {
                asked = true;
                Some(CpuUse { ticks, busy: false })
            });
            (asked, still.since)
        };
        assert!(!look(1, 0).0);
        assert!(!look(2, 0).0);
        let (asked, first) = look(2, 7);
        assert!(asked);
        assert_eq!(look(2, 7), (true, first), "nothing has happened since");
        assert!(look(2, 8).0);
        assert!(!look(3, 8).0);
    }
}
