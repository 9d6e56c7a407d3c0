// SPDX-License-Identifier: MIT OR Apache-2.0
//! A debugging session: the run put at any of its instructions.

use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use wire::debug::{self, AtStops, Command, Reply};

use crate::debug::checkpoints::{LastStop, Pool};
use crate::debug::launch::Launch;
use crate::debug::process::{Halt, Held, Interrupted, Vehicle};
use crate::debug::travel::{
    Access, At, Ended, Hit, Interrupt, Position, Refused, Register, Stop, Travel, Vcpus, Watch, Why,
};
use crate::measure::{Listener, Loaded};
use crate::run::request::options::Options;
use crate::run::watch::interrupt::INTERRUPTED;

/// A run that is debugged.
#[derive(Debug)]
pub struct Session {
    launch: Launch,
    /// Processes at the debugger's position.
    pool: Pool,
    /// Whether the pool was started so that accesses can be watched.
    is_watching: bool,
    /// The pool of the other kind, kept for later use.
    other: Option<Pool>,
    /// The started QEMU of the pool before the first write. Its copies live as long as it is kept.
    former: Option<Pool>,
    /// Whether the debugger has written to the run, so that it is no longer the profile's.
    is_written: bool,
    breakpoints: Vec<u64>,
    watches: Vec<Watch>,
    end: Option<(At, Ended)>,
    line: Arc<Line>,
    checkpoint_bytes: u64,
}

/// Connection to the executing process, for interrupts.
#[derive(Debug, Default)]
struct Line {
    stream: Mutex<Option<UnixStream>>,
    interrupted: Interrupted,
    position: Arc<Position>,
}

impl Line {
    fn lead_to(&self, stream: Option<UnixStream>) {
        *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = stream;
    }

    /// Executes a process, which can be interrupted meanwhile.
    fn run(&self, vehicle: &mut Vehicle, until: Option<u64>, at_stops: AtStops) -> Result<Held> {
        *self.interrupted.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.lead_to(Some(vehicle.line()?));
        self.position.set(vehicle.at.insn);
        let held = vehicle.go(until, at_stops);
        self.lead_to(None);
        if let Ok(held) = &held {
            self.position.set(held.at.insn);
        }
        held
    }
}

impl Interrupt for Line {
    fn interrupt(&self) {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = stream.as_mut() {
            // A process that is held already ignores the interrupt.
            let _ = debug::send(stream, &Command::Interrupt.bytes());
            *self.interrupted.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }

    fn abandon(&self) {
        // A repeated measurement checks this flag.
        INTERRUPTED.store(true, Ordering::Relaxed);
    }
}

/// Refusal to return to the profiled run after a write.
const WRITTEN: &str =
    "the debugger wrote to the run, so nothing before that can be visited: start the debugger again";

/// Refusal to watch accesses after a write.
const UNWATCHED: &str = "memory cannot be watched after the debugger wrote to the run: start the debugger again";

/// Error for a request without a process.
const NONE: &str = "no process executes the run any more";

fn refused(why: &str) -> anyhow::Error {
    Refused(why.to_owned()).into()
}

impl Session {
    /// Starts the run that the options describe, held at its first instruction. `checkpoint_mib` bounds the memory of
    /// its checkpoints.
    ///
    /// # Errors
    /// The errors of a profiling run.
    pub fn open(options: &Options, checkpoint_mib: u64, listener: &mut dyn Listener) -> Result<Session> {
        let mut launch = Launch::new(options, listener)?;
        let line = Arc::new(Line::default());
        let checkpoint_bytes = checkpoint_mib << 20;
        let pool = Pool::new(launch.start(false, &line.interrupted)?, checkpoint_bytes)?;
        Ok(Session {
            launch,
            pool,
            is_watching: false,
            other: None,
            former: None,
            is_written: false,
            breakpoints: Vec::new(),
            watches: Vec::new(),
            end: None,
            line,
            checkpoint_bytes,
        })
    }

    /// The image that is debugged, its machine and names.
    pub fn loaded(&self) -> &Loaded {
        self.launch.loaded()
    }

    /// Whether going back needs no other run.
    pub fn has_checkpoints(&self) -> bool {
        self.pool.can_copy()
    }

    /// Number of checkpoints, and their own memory in bytes.
    pub fn checkpoints(&self) -> (usize, u64) {
        self.pool.checkpoints()
    }

    /// Starts one more run from the first instruction. If that fails (a full disk), the current one stays.
    fn start(&mut self) -> Result<Vehicle> {
        let started = self.launch.start(self.is_watching, &self.line.interrupted);
        started.context(Refused("another run cannot be started".to_owned()))
    }

    /// Switches to a run whose accesses can be watched, or back, at the same instruction. If the instruction is not
    /// reached, the debugger stays where it is, and the stop on the way is returned.
    fn watch(&mut self, watching: bool) -> Result<Option<Stop>> {
        if watching == self.is_watching {
            return Ok(None);
        }
        if self.is_written {
            return Err(refused(UNWATCHED));
        }
        let at = self.pool.at();
        self.is_watching = watching;
        let other = match self.other.take() {
            Some(other) => Ok(other),
            None => self.start().and_then(|vehicle| Pool::new(vehicle, self.checkpoint_bytes)),
        };
        let came = other.and_then(|other| {
            self.other = Some(std::mem::replace(&mut self.pool, other));
            self.put(at.insn)
        });
        if matches!(&came, Ok(held) if held.why != Halt::Held(debug::Why::Interrupted)) {
            return Ok(None);
        }
        self.is_watching = !watching;
        if let Some(former) = self.other.take() {
            self.other = Some(std::mem::replace(&mut self.pool, former));
        }
        came.map(|_| Some(Stop { at, why: Why::Interrupted }))
    }

    /// Puts the debugger at an instruction, or at the run's end.
    fn put(&mut self, insn: u64) -> Result<Held> {
        if insn < self.pool.base {
            return Err(refused(WRITTEN));
        }
        let at = self.pool.at().insn;
        let line = Arc::clone(&self.line);
        let run = &mut |vehicle: &mut Vehicle, until, at_stops| line.run(vehicle, until, at_stops);
        let there = self.pool.go(insn, run);
        let held = match self.recover(at, there)? {
            Some(held) => held,
            None => {
                self.run_again()?;
                self.pool.go(insn, run)?.context("the run did not come to the same place again")?
            }
        };
        self.note_end(&held);
        Ok(held)
    }

    /// If a copy of the run was lost on its way (`came`), replaces it by another one at `at`, the instruction from
    /// which it started.
    fn recover<T>(&mut self, at: u64, came: Result<T>) -> Result<T> {
        match came {
            Err(error) if error.is::<Refused>() => {
                // The lost process, or another one at its old position.
                drop(self.pool.take_written());
                let line = Arc::clone(&self.line);
                let run = &mut |vehicle: &mut Vehicle, until, at_stops| line.run(vehicle, until, at_stops);
                let base = self.pool.base;
                if self.is_written && self.pool.can_copy() && self.pool.go(base, run)?.is_some() {
                    // No other process can execute the run from this instruction on.
                    let first = self.pool.take_written().context(NONE)?;
                    self.pool = Pool::new(first, self.checkpoint_bytes)?;
                }
                self.pool.go(at, run)?;
                Err(error)
            }
            came => came,
        }
    }

    /// Starts again from the first instruction, if there are no checkpoints.
    fn run_again(&mut self) -> Result<()> {
        if self.is_written {
            return Err(refused(WRITTEN));
        }
        let vehicle = self.start()?;
        let end = self.pool.ended.take().map(|ended| (self.pool.frontier().insn, ended));
        self.pool = Pool::new(vehicle, self.checkpoint_bytes)?;
        self.pool.known_end = end;
        Ok(())
    }

    fn current(&mut self) -> Result<&mut Vehicle> {
        self.pool.current().map_err(|_| refused(NONE))
    }

    fn note_end(&mut self, held: &Held) {
        if let (Halt::Ended(ended), false) = (&held.why, self.is_written) {
            self.end = Some((held.at, ended.clone()));
        }
    }

    fn wired(&self) -> Vec<debug::Watch> {
        let wired = |watch: &Watch| debug::Watch {
            start: watch.range.start,
            end: watch.range.end,
            loads: watch.access != Access::Write,
            stores: watch.access != Access::Read,
        };
        self.watches.iter().map(wired).collect()
    }

    /// Last stop at or after one instruction and before another one.
    fn last_stop(&mut self, from: u64, before: u64) -> Result<LastStop> {
        let (breakpoints, watches) = (self.breakpoints.clone(), self.wired());
        let line = Arc::clone(&self.line);
        let run = &mut |vehicle: &mut Vehicle, until, at_stops| line.run(vehicle, until, at_stops);
        if self.pool.can_copy() {
            return self.pool.last_stop(from, before, (&breakpoints, &watches), run);
        }
        if self.is_written {
            return Err(refused(WRITTEN));
        }
        let mut scout = self.start()?;
        if from > 1 {
            run(&mut scout, Some(from), AtStops::Pass)?;
        }
        scout.set_stops(&breakpoints, &watches)?;
        Ok(LastStop::of(&run(&mut scout, Some(before), AtStops::Log(1))?))
    }

    fn change(&mut self, command: &Command) -> Result<Result<(), Refused>> {
        match self.current()?.ask(command)? {
            Reply::Done => {}
            Reply::Refused(why) => return Ok(Err(Refused(why))),
            other => bail!("the plugin answered {other:?} to a write"),
        }
        // From here on the written process is a run of its own.
        let written = self.pool.take_written().context("no process was written to")?;
        let pool = Pool::new(written, self.checkpoint_bytes)?;
        let former = std::mem::replace(&mut self.pool, pool);
        // The state before an earlier write is not needed, but the first original is, since all others are its
        // copies.
        self.former.get_or_insert(former);
        (self.is_written, self.other) = (true, None);
        Ok(Ok(()))
    }
}

fn access(accessed: debug::Accessed) -> Why {
    let access = if accessed.is_store { Access::Write } else { Access::Read };
    Why::Watch { address: accessed.address, access, by: accessed.by }
}

impl Travel for Session {
    fn at(&self) -> At {
        self.pool.at()
    }

    fn vcpus(&mut self) -> Result<Vcpus> {
        match self.current()?.ask(&Command::Vcpus)? {
            Reply::Vcpus { executing, started } if (executing as usize) < started.len() => {
                Ok(Vcpus { executing: executing as usize, insns: started })
            }
            other => bail!("the plugin answered {other:?} to how far each vCPU has come"),
        }
    }

    fn go(&mut self, insn: u64) -> Result<Stop> {
        Ok(stop(self.put(insn.max(1))?))
    }

    fn forward(&mut self, until: Option<u64>) -> Result<Stop> {
        let (breakpoints, watches) = (self.breakpoints.clone(), self.wired());
        if let Some(stop) = self.watch(!watches.is_empty() || (self.is_written && self.is_watching))? {
            return Ok(stop);
        }
        let at = self.pool.at();
        let from = at.insn;
        if until.is_some_and(|until| until <= from) {
            return Ok(Stop { at, why: Why::Reached });
        }
        let line = Arc::clone(&self.line);
        let run = &mut |vehicle: &mut Vehicle, until, at_stops| line.run(vehicle, until, at_stops);
        let came = self.pool.forward(until, (&breakpoints, &watches), run);
        let held = match (self.recover(from, came)?, self.pool.ended.clone()) {
            (Some(held), _) => held,
            // No other run is like this one: it is over, and cannot be read.
            (None, Some(ended)) if self.is_written => {
                let at = self.pool.frontier();
                Held { at, why: Halt::Ended(ended), hits: 0, last_hits: Vec::new() }
            }
            (None, _) => {
                // QEMU has gone; only another run can reach its last position.
                let at = self.pool.frontier().insn;
                self.run_again()?;
                self.put(at)?
            }
        };
        self.note_end(&held);
        Ok(stop(held))
    }

    fn backward(&mut self, until: u64) -> Result<Stop> {
        let watching = !self.watches.is_empty();
        if let Some(stop) = self.watch(watching || (self.is_written && self.is_watching))? {
            return Ok(stop);
        }
        let at = self.pool.at();
        let until = until.max(self.pool.base);
        let last = if at.insn > until { self.last_stop(until, at.insn)? } else { LastStop::None };
        let (insn, why) = match last {
            LastStop::At(debug::Hit { insn, accessed: None, .. }) => (insn, Why::Breakpoint),
            LastStop::At(debug::Hit { insn, accessed: Some(accessed), .. }) => (insn, access(accessed)),
            LastStop::None if until <= self.pool.base => (self.pool.base, Why::Start),
            LastStop::None => (until, Why::Reached),
            LastStop::Interrupted => return Ok(Stop { at, why: Why::Interrupted }),
        };
        let held = self.put(insn)?;
        Ok(Stop { at: held.at, why })
    }

    fn set_breakpoints(&mut self, addresses: &[u64]) {
        self.breakpoints = addresses.to_vec();
    }

    fn set_watches(&mut self, watches: &[Watch]) {
        self.watches = watches.to_vec();
    }

    fn hits(&mut self, addresses: &[u64], until: Option<u64>, most: usize) -> Result<(Vec<Hit>, u64)> {
        let line = Arc::clone(&self.line);
        let run = &mut |vehicle: &mut Vehicle, until, at_stops| line.run(vehicle, until, at_stops);
        let (hits, total) = if self.pool.can_copy() {
            self.pool.hits(addresses, until, most, run)?
        } else if self.is_written {
            return Err(refused(WRITTEN));
        } else {
            let mut scout = self.start()?;
            scout.set_stops(addresses, &[])?;
            let held = run(&mut scout, until, AtStops::Log((most as u64).min(debug::MAX_HITS)))?.uninterrupted()?;
            (held.last_hits, held.hits)
        };
        let hit = |debug::Hit { insn, pc, sp, link, .. }: debug::Hit| Hit { insn, pc, sp, link };
        Ok((hits.into_iter().map(hit).collect(), total))
    }

    fn registers(&mut self) -> Result<Vec<Register>> {
        match self.current()?.ask(&Command::Registers)? {
            Reply::Registers(registers) => Ok(registers),
            other => bail!("the plugin answered {other:?} to registers"),
        }
    }

    fn read(&mut self, address: u64, bytes: usize) -> Result<Vec<u8>> {
        match self.current()?.ask(&Command::Read { address, bytes: bytes as u64 })? {
            Reply::Memory(bytes) => Ok(bytes),
            other => bail!("the plugin answered {other:?} to memory"),
        }
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<Result<(), Refused>> {
        // GDB sends an empty write to find out whether binary writes are accepted.
        if bytes.is_empty() {
            return Ok(Ok(()));
        }
        self.change(&Command::Write { address, bytes: bytes.to_vec() })
    }

    fn write_register(&mut self, name: &str, bytes: &[u8]) -> Result<Result<(), Refused>> {
        self.change(&Command::WriteRegister { name: name.to_owned(), bytes: bytes.to_vec() })
    }

    fn can_watch(&self) -> Result<(), Refused> {
        if self.is_written && !self.is_watching { Err(Refused(UNWATCHED.to_owned())) } else { Ok(()) }
    }

    fn written_at(&self) -> Option<u64> {
        self.is_written.then_some(self.pool.base)
    }

    fn interrupter(&self) -> Arc<dyn Interrupt> {
        Arc::clone(&self.line) as Arc<dyn Interrupt>
    }

    fn position(&self) -> Arc<Position> {
        Arc::clone(&self.line.position)
    }

    fn end(&self) -> Option<(At, Ended)> {
        self.end.clone()
    }
}

fn stop(held: Held) -> Stop {
    let why = match held.why {
        Halt::Held(debug::Why::Reached) => Why::Reached,
        Halt::Held(debug::Why::Breakpoint) => Why::Breakpoint,
        Halt::Held(debug::Why::Watch(accessed)) => access(accessed),
        Halt::Held(debug::Why::Interrupted) => Why::Interrupted,
        Halt::Held(debug::Why::End(end, value)) => Why::End(Ended::At(end, value)),
        Halt::Ended(ended) => Why::End(ended),
    };
    Stop { at: held.at, why }
}
