//! One process that executes the run, held wherever it was sent: QEMU as it was started, or a copy of it.

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
use crate::run::process::{CpuUse, Process};
use crate::run::workspace::Workspace;

/// How long an answer is waited for before it is looked whether the process still works.
const GLANCE: Duration = Duration::from_millis(50);

/// For so long a process must neither work nor be able to before it is taken to sleep for ever.
const STILL: Duration = Duration::from_millis(400);

/// How long a run that was asked to be held may take: it looks every million instructions.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is said where a copy has ended or sleeps that does not say where: QEMU itself counts where that can be read.
const LOST: &str = "the process that executed the run has ended or sleeps for ever, and it is not known where; the run \
                    is where it was";

/// What is said where QEMU is no longer there.
fn gone() -> anyhow::Error {
    EmulatorError::new("QEMU has gone".to_owned()).into()
}

/// QEMU itself, of which the others are copies.
#[derive(Debug)]
pub(super) struct Original {
    pub(super) process: Process,
    pub(super) workspace: Workspace,
    /// Kept open for as long as QEMU runs.
    pub(super) _input: Vec<std::fs::File>,
}

/// Where a vehicle was asked to be held, by whoever asks.
pub(super) type Interrupted = Arc<Mutex<Option<Instant>>>;

/// A process that executes the run.
#[derive(Debug)]
pub(super) struct Vehicle {
    stream: UnixStream,
    /// Its number.
    process: u32,
    original: Option<Original>,
    /// Where it is held.
    pub(super) at: At,
    /// The run is over there.
    pub(super) ended: Option<Ended>,
    /// What this process is asked for from elsewhere.
    interrupted: Interrupted,
    /// QEMU has said that it aborts after so many instructions.
    aborts: Option<u64>,
}

/// How a vehicle was held.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) at: At,
    pub(super) why: Halt,
    /// Stops that were logged on the way, and the last of them.
    pub(super) hits: u64,
    pub(super) last_hits: Vec<Hit>,
}

impl Held {
    /// The same, unless it was held because somebody asked for it: what was logged is then not all.
    pub(super) fn uninterrupted(self) -> Result<Held> {
        if self.why == Halt::Held(Why::Interrupted) {
            bail!(Refused("interrupted during the search".to_owned()));
        }
        Ok(self)
    }
}

/// Why it was held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// The plugin says why.
    Held(Why),
    /// There is nothing more to execute.
    Ended(Ended),
}

impl Vehicle {
    /// A QEMU that is starting. [`Vehicle::poll`] says when it is held before its first instruction.
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

    /// QEMU itself, where this is it.
    pub(super) fn original(&mut self) -> Option<&mut Original> {
        self.original.as_mut()
    }

    /// A copy of the process as it is held.
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

    /// Executes up to an instruction, or to what `at_stops` says.
    pub(super) fn go(&mut self, until: Option<u64>, at_stops: AtStops) -> Result<Held> {
        self.send(&Command::Go { until, at_stops })?;
        self.await_held()
    }

    /// Sets what it stops at.
    pub(super) fn set_stops(&mut self, breakpoints: &[u64], watches: &[Watch]) -> Result<()> {
        let command = Command::SetStops { breakpoints: breakpoints.to_vec(), watches: watches.to_vec() };
        match self.ask(&command)? {
            Reply::Done => Ok(()),
            other => bail!("the plugin answered {other:?} to breakpoints"),
        }
    }

    /// One question about the run as it is held.
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

    /// The answer to a question, which takes no time.
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
        // A frame that has begun to come is whole soon.
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

    /// Waits a little for it to be held, as it starts. None: it is not, yet. Its end is an error.
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

    /// Nothing more executes, after so many instructions.
    fn over(&mut self, ended: Ended, insns: Option<u64>) -> Result<Held> {
        let Some(insn) = insns else { bail!(Refused(LOST.to_owned())) };
        self.at = At { insn, pc: 0 };
        self.ended = Some(ended.clone());
        Ok(Held { at: self.at, why: Halt::Ended(ended), hits: 0, last_hits: Vec::new() })
    }

    /// Whether it was asked to be held, and executes no instruction at which it could be.
    fn is_deaf(&self) -> bool {
        let asked = *self.interrupted.lock().unwrap_or_else(PoisonError::into_inner);
        asked.is_some_and(|asked| asked.elapsed() > PATIENCE)
    }

    fn cpu_use(&self) -> Option<CpuUse> {
        CpuUse::of(self.process)
    }

    /// Memory that this process alone has.
    pub(super) fn bytes(&self) -> u64 {
        // proc(5): "Private_Dirty:      1234 kB".
        let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.process)).unwrap_or_default();
        let kib = rollup.lines().filter_map(|line| line.strip_prefix("Private_Dirty:"));
        kib.filter_map(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()).sum::<u64>() << 10
    }

    /// How many instructions have started, by the counters that QEMU itself shares.
    fn started(&self) -> Option<u64> {
        let original = self.original.as_ref()?;
        let file = std::fs::read(original.workspace.records().join("counters")).ok()?;
        let word = |slot| counters::get(&file, slot, 0, 1);
        Some(counters::insns(word(counters::CLOCK)?, word(counters::ORIGIN)?))
    }

    /// The socket, for whoever may want to have it held.
    pub(super) fn line(&self) -> io::Result<UnixStream> {
        self.stream.try_clone()
    }
}

/// A stream of which a part of a frame has come.
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
        // A copy ends where nothing is at the other end; QEMU itself is killed.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}
