// SPDX-License-Identifier: MIT OR Apache-2.0
//! One process that executes the run, held at a position: the started QEMU, or a copy of it.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use wire::counters;
use wire::debug::{self, AtStops, Command, Hit, Reply, Watch, Why};

use crate::debug::travel::{At, Ended, Refused};
use crate::error::EmulatorError;
use crate::run::qemu::process::{CpuUse, Process};
use crate::run::store::workspace::Workspace;

/// Time to wait for an answer before the process itself is checked.
const GLANCE: Duration = Duration::from_millis(50);

/// Time for which a process neither works nor could work, after which it counts as asleep for ever.
const STILL: Duration = Duration::from_millis(400);

/// Longest time for a run to stop after an interrupt; it checks every million instructions.
const PATIENCE: Duration = Duration::from_secs(3);

/// Error for a copy that has ended or sleeps without reporting its position. (QEMU itself has counters that can be
/// read.)
const LOST: &str = "the process that executed the run has ended or sleeps for ever, and it is not known where; the run \
                    is where it was";

/// Error for a QEMU that has ended.
fn gone() -> anyhow::Error {
    EmulatorError::new("QEMU has gone".to_owned()).into()
}

/// The started QEMU, of which all other processes are copies.
#[derive(Debug)]
pub(super) struct Original {
    pub(super) process: Process,
    pub(super) workspace: Workspace,
    /// Pipes that are kept open as long as QEMU runs.
    pub(super) _input: Vec<std::fs::File>,
}

/// Time of a request to hold the process, shared with the requester.
pub(super) type Interrupted = Arc<Mutex<Option<Instant>>>;

/// A process that executes the run.
#[derive(Debug)]
pub(super) struct Vehicle {
    stream: UnixStream,
    /// The process's id.
    process: u32,
    original: Option<Original>,
    /// The process's position in the run.
    pub(super) at: At,
    /// End of the run at that position.
    pub(super) ended: Option<Ended>,
    /// Time of a request to hold the process.
    interrupted: Interrupted,
    /// Instruction at which QEMU has reported that it aborts.
    aborts: Option<u64>,
}

/// State of a process that has been held.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) at: At,
    pub(super) why: Halt,
    /// Number of stops logged on the way, and the last of them.
    pub(super) hits: u64,
    pub(super) last_hits: Vec<Hit>,
}

impl Held {
    /// Passes on the result. An error if execution was interrupted, since the log is incomplete then.
    pub(super) fn uninterrupted(self) -> Result<Held> {
        if self.why == Halt::Held(Why::Interrupted) {
            bail!(Refused("interrupted during the search".to_owned()));
        }
        Ok(self)
    }
}

/// Reason of the stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// The plugin's reason.
    Held(Why),
    /// There is nothing more to execute.
    Ended(Ended),
}

impl Vehicle {
    /// A QEMU that is starting. [`Vehicle::poll`] returns once it is held before its first instruction.
    pub(super) fn starting(stream: UnixStream, original: Original, interrupted: Interrupted) -> Result<Vehicle> {
        stream.set_read_timeout(Some(GLANCE))?;
        Ok(Vehicle {
            stream,
            process: original.process.id(),
            original: Some(original),
            at: At { insn: 0, pc: 0 },
            ended: None,
            interrupted,
            aborts: None,
        })
    }

    /// The started QEMU; None: this process is a copy.
    pub(super) fn original(&mut self) -> Option<&mut Original> {
        self.original.as_mut()
    }

    /// Forks a copy of the held process.
    pub(super) fn fork(&mut self) -> Result<Option<Vehicle>> {
        let (ours, theirs) = UnixStream::pair()?;
        self.send_with(&Command::Fork, theirs.into())?;
        match self.answer()? {
            Reply::Done => {}
            Reply::Refused(_) => return Ok(None),
            other => bail!("the plugin answered {other:?} to a fork"),
        }
        ours.set_read_timeout(Some(GLANCE))?;
        let mut copy = Vehicle {
            stream: ours,
            process: 0,
            original: None,
            at: self.at,
            ended: self.ended.clone(),
            interrupted: Arc::clone(&self.interrupted),
            aborts: None,
        };
        copy.await_held()?;
        Ok(Some(copy))
    }

    /// Executes up to an instruction, or to a stop, as `at_stops` tells.
    pub(super) fn go(&mut self, until: Option<u64>, at_stops: AtStops) -> Result<Held> {
        self.send(&Command::Go { until, at_stops })?;
        self.await_held()
    }

    /// Sets breakpoints and watches.
    pub(super) fn set_stops(&mut self, breakpoints: &[u64], watches: &[Watch]) -> Result<()> {
        let command = Command::SetStops { breakpoints: breakpoints.to_vec(), watches: watches.to_vec() };
        match self.ask(&command)? {
            Reply::Done => Ok(()),
            other => bail!("the plugin answered {other:?} to breakpoints"),
        }
    }

    /// Asks one question about the held run.
    pub(super) fn ask(&mut self, command: &Command) -> Result<Reply> {
        self.send(command)?;
        self.answer()
    }

    fn send(&mut self, command: &Command) -> Result<()> {
        debug::send(&mut self.stream, &command.bytes()).map_err(|_| gone())
    }

    fn send_with(&mut self, command: &Command, descriptor: OwnedFd) -> Result<()> {
        let mut frame = Vec::new();
        debug::send(&mut frame, &command.bytes())?;
        let descriptors = [descriptor.as_raw_fd()];
        let message = [ControlMessage::ScmRights(&descriptors)];
        let sent = sendmsg::<()>(self.stream.as_raw_fd(), &[IoSlice::new(&frame)], &message, MsgFlags::empty(), None)
            .map_err(|_| gone())?;
        anyhow::ensure!(sent == frame.len(), "a frame was sent in parts");
        Ok(())
    }

    /// Answer to a question, which is immediate.
    fn answer(&mut self) -> Result<Reply> {
        loop {
            match self.receive() {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {}
                Err(_) => return Err(gone()),
            }
        }
    }

    /// A frame, if one comes soon.
    fn receive(&mut self) -> io::Result<Option<Reply>> {
        // The rest of a frame follows its beginning soon.
        let mut first = [0];
        match io::Read::read(&mut self.stream, &mut first) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        let rest = Patient(&mut self.stream);
        let frame = debug::receive(&mut io::Read::chain(&first[..], rest))?;
        Reply::read(&frame).map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Waits a little for a starting process to be held. None: not yet. Its end is an error.
    pub(super) fn poll(&mut self) -> Result<Option<Held>> {
        match self.receive()? {
            Some(Reply::Held { process, insn, pc, why, hits, last_hits }) => {
                Ok(Some(self.held(process, At { insn, pc }, why, hits, last_hits)))
            }
            Some(other) => bail!("the plugin said {other:?} as it started"),
            None => Ok(None),
        }
    }

    fn held(&mut self, process: u64, at: At, why: Why, hits: u64, last_hits: Vec<Hit>) -> Held {
        self.process = process as u32;
        self.at = at;
        let why = match why {
            Why::End(end, value) => Halt::Ended(Ended::At(end, value)),
            why => Halt::Held(why),
        };
        if let Halt::Ended(ended) = &why {
            self.ended = Some(ended.clone());
        }
        Held { at, why, hits, last_hits }
    }

    fn await_held(&mut self) -> Result<Held> {
        let mut still_since: Option<(CpuUse, Instant)> = None;
        loop {
            match self.receive() {
                Ok(Some(Reply::Held { process, insn, pc, why, hits, last_hits })) => {
                    return Ok(self.held(process, At { insn, pc }, why, hits, last_hits));
                }
                Ok(Some(Reply::Aborts { insns })) => self.aborts = Some(insns),
                Ok(Some(other)) => bail!("the plugin said {other:?} while the run executes"),
                Ok(None) => {
                    let now = self.cpu_use();
                    let is_still = match (&still_since, now) {
                        (Some((before, since)), Some(now)) if *before == now && !now.busy => since.elapsed() >= STILL,
                        (_, Some(now)) => {
                            still_since = Some((now, Instant::now()));
                            false
                        }
                        _ => false,
                    };
                    if is_still || self.is_deaf() {
                        return self.over(Ended::Asleep, self.started());
                    }
                }
                Err(_) => {
                    let said = self.original.as_ref().map(|original| original.workspace.said()).unwrap_or_default();
                    return self.over(Ended::Gone(said), self.aborts);
                }
            }
        }
    }

    /// Handles the end of execution, after this many instructions.
    fn over(&mut self, ended: Ended, insns: Option<u64>) -> Result<Held> {
        let Some(insn) = insns else { bail!(Refused(LOST.to_owned())) };
        self.at = At { insn, pc: 0 };
        self.ended = Some(ended.clone());
        Ok(Held { at: self.at, why: Halt::Ended(ended), hits: 0, last_hits: Vec::new() })
    }

    /// Whether the process was asked to stop more than [`PATIENCE`] ago, and has executed no instruction at which it
    /// could stop.
    fn is_deaf(&self) -> bool {
        let asked = *self.interrupted.lock().unwrap_or_else(PoisonError::into_inner);
        asked.is_some_and(|asked| asked.elapsed() > PATIENCE)
    }

    fn cpu_use(&self) -> Option<CpuUse> {
        CpuUse::of(self.process)
    }

    /// Memory that only this process has, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        // proc(5): "Private_Dirty:      1234 kB".
        let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.process)).unwrap_or_default();
        let kib = rollup.lines().filter_map(|line| line.strip_prefix("Private_Dirty:"));
        kib.filter_map(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()).sum::<u64>() << 10
    }

    /// Number of started instructions, from the counters that QEMU itself shares.
    fn started(&self) -> Option<u64> {
        let original = self.original.as_ref()?;
        let file = std::fs::read(original.workspace.records().join("counters")).ok()?;
        let word = |slot| counters::get(&file, slot, 0, 1);
        Some(counters::insns(word(counters::CLOCK)?, word(counters::ORIGIN)?))
    }

    /// A clone of the socket, for interrupting the process.
    pub(super) fn line(&self) -> io::Result<UnixStream> {
        self.stream.try_clone()
    }
}

/// A stream from which a part of a frame has been read.
struct Patient<'a>(&'a mut UnixStream);

impl io::Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }
}

impl Drop for Vehicle {
    fn drop(&mut self) {
        // A copy ends when its socket is closed; QEMU itself is killed.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}
