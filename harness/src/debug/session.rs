//! A debugging session: the run put at any of its instructions, by running it again as often as that takes.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Result, bail};
use wire::debug::{self, AtStops, Command, MAX_HITS, Reply};

use crate::debug::launch::Launch;
use crate::debug::travel::{Access, At, Ended, Hit, Interrupt, Refused, Register, Stop, Travel, Watch, Why};
use crate::debug::vehicle::{Halt, Held, Interrupted, Vehicle};
use crate::measure::{Listener, Loaded};
use crate::run::options::Options;

/// A run that is debugged.
#[derive(Debug)]
pub struct Session {
    launch: Launch,
    current: Vehicle,
    /// Whether accesses can be watched in the current one.
    is_watching: bool,
    breakpoints: Vec<u64>,
    watches: Vec<Watch>,
    end: Option<(At, Ended)>,
    line: Arc<Line>,
}

/// The way to the process that executes, for whoever wants it held.
#[derive(Debug, Default)]
struct Line {
    stream: Mutex<Option<UnixStream>>,
    interrupted: Interrupted,
}

impl Interrupt for Line {
    fn interrupt(&self) {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = stream.as_mut() {
            // One that is held already does not mind.
            let _ = debug::send(stream, &Command::Interrupt.bytes());
            *self.interrupted.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }
}

impl Session {
    /// Starts the run that the options describe, held at its first instruction.
    ///
    /// # Errors
    /// As a profiling run.
    pub fn open(options: &Options, listener: &mut dyn Listener) -> Result<Session> {
        let mut launch = Launch::new(options, listener)?;
        let line = Arc::new(Line::default());
        let current = launch.start(false, &line.interrupted)?;
        Ok(Session {
            launch,
            current,
            is_watching: false,
            breakpoints: Vec::new(),
            watches: Vec::new(),
            end: None,
            line,
        })
    }

    /// The image that is debugged, its machine and names.
    pub(crate) fn loaded(&self) -> &Loaded {
        self.launch.loaded()
    }

    /// A process at the first instruction.
    fn fresh(&mut self, watches: bool) -> Result<Vehicle> {
        self.launch.start(watches, &self.line.interrupted)
    }

    /// Puts the current process at an instruction, and the run's end at most.
    fn put(&mut self, insn: u64, watching: bool) -> Result<Held> {
        if insn < self.current.at.insn || self.current.ended.is_some() || (watching && !self.is_watching) {
            if self.current.is_written {
                bail!("the run was written to, and what was before that is another run: restart the debugger");
            }
            self.current = self.fresh(watching)?;
            self.is_watching = watching;
        }
        let held = self.execute(Some(insn), AtStops::Pass)?;
        // Where QEMU has gone, or sleeps, its last instruction is held at in another one.
        if let Halt::Ended(Ended::Gone(_) | Ended::Asleep) = held.why {
            let ended = held.why.clone();
            self.current = self.fresh(watching)?;
            let mut held = self.execute(Some(held.at.insn), AtStops::Pass)?;
            held.why = ended;
            self.note_end(&held);
            return Ok(held);
        }
        Ok(held)
    }

    fn note_end(&mut self, held: &Held) {
        if let (Halt::Ended(ended), false) = (&held.why, self.current.is_written) {
            self.end = Some((held.at, ended.clone()));
        }
    }

    /// Has the current process execute, which can be interrupted meanwhile.
    fn execute(&mut self, until: Option<u64>, at_stops: AtStops) -> Result<Held> {
        let set = |stream| *self.line.stream.lock().unwrap_or_else(PoisonError::into_inner) = stream;
        *self.line.interrupted.lock().unwrap_or_else(PoisonError::into_inner) = None;
        set(Some(self.current.line()?));
        let held = self.current.go(until, at_stops);
        set(None);
        let held = held?;
        self.note_end(&held);
        Ok(held)
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

    /// The last stop from one instruction on and before another one, and how it was made.
    fn last_stop(&mut self, from: u64, before: u64) -> Result<Option<debug::Hit>> {
        let watches = self.wired();
        let mut scout = self.fresh(!watches.is_empty())?;
        scout.set_stops(&self.breakpoints, &watches)?;
        if from > 1 {
            scout.go(Some(from), AtStops::Pass)?;
        }
        let held = scout.go(Some(before), AtStops::Log(1))?;
        Ok(held.last_hits.first().copied())
    }
}

fn access(accessed: debug::Accessed) -> Why {
    let access = if accessed.is_store { Access::Write } else { Access::Read };
    Why::Watch { address: accessed.address, access, by: accessed.by }
}

impl Travel for Session {
    fn at(&self) -> At {
        self.current.at
    }

    fn go(&mut self, insn: u64) -> Result<Stop> {
        let held = self.put(insn.max(1), false)?;
        Ok(stop(held))
    }

    fn forward(&mut self, until: Option<u64>) -> Result<Stop> {
        let watches = self.wired();
        if !watches.is_empty() && !self.is_watching {
            self.put(self.current.at.insn, true)?;
        }
        let breakpoints = self.breakpoints.clone();
        self.current.set_stops(&breakpoints, &watches)?;
        let held = self.execute(until, AtStops::Hold)?;
        if let Halt::Ended(Ended::Gone(_) | Ended::Asleep) = held.why {
            // The last instruction is held at in another process.
            let insn = held.at.insn;
            let ended = held.why.clone();
            self.current = self.fresh(self.is_watching)?;
            let mut held = self.execute(Some(insn), AtStops::Pass)?;
            held.why = ended;
            self.note_end(&held);
            return Ok(stop(held));
        }
        Ok(stop(held))
    }

    fn backward(&mut self, until: u64) -> Result<Stop> {
        let now = self.current.at.insn;
        let hit = if now > until { self.last_stop(until, now)? } else { None };
        let (insn, why) = match hit {
            Some(debug::Hit { insn, accessed: None, .. }) => (insn, Why::Breakpoint),
            Some(debug::Hit { insn, accessed: Some(accessed), .. }) => (insn, access(accessed)),
            None if until <= 1 => (1, Why::Start),
            None => (until, Why::Reached),
        };
        let held = self.put(insn, false)?;
        Ok(Stop { at: held.at, why })
    }

    fn set_breakpoints(&mut self, addresses: &[u64]) {
        self.breakpoints = addresses.to_vec();
    }

    fn set_watches(&mut self, watches: &[Watch]) {
        self.watches = watches.to_vec();
    }

    fn hits(&mut self, addresses: &[u64], until: Option<u64>, most: usize) -> Result<(Vec<Hit>, u64)> {
        let mut scout = self.fresh(false)?;
        scout.set_stops(addresses, &[])?;
        let held = scout.go(until, AtStops::Log((most as u64).min(MAX_HITS)))?;
        let hit = |&debug::Hit { insn, pc, sp, link, .. }: &debug::Hit| Hit { insn, pc, sp, link };
        Ok((held.last_hits.iter().map(hit).collect(), held.hits))
    }

    fn registers(&mut self) -> Result<Vec<Register>> {
        match self.current.ask(&Command::Registers)? {
            Reply::Registers(registers) => {
                let register = |debug::Register { feature, name, bytes }| Register { feature, name, bytes };
                Ok(registers.into_iter().map(register).collect())
            }
            other => bail!("the plugin answered {other:?} to registers"),
        }
    }

    fn read(&mut self, address: u64, bytes: usize) -> Result<Vec<u8>> {
        match self.current.ask(&Command::Read { address, bytes: bytes as u64 })? {
            Reply::Memory(bytes) => Ok(bytes),
            other => bail!("the plugin answered {other:?} to memory"),
        }
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<Result<(), Refused>> {
        self.change(&Command::Write { address, bytes: bytes.to_vec() })
    }

    fn write_register(&mut self, name: &str, bytes: &[u8]) -> Result<Result<(), Refused>> {
        self.change(&Command::WriteRegister { name: name.to_owned(), bytes: bytes.to_vec() })
    }

    fn interrupter(&self) -> Arc<dyn Interrupt> {
        Arc::clone(&self.line) as Arc<dyn Interrupt>
    }

    fn end(&self) -> Option<(At, Ended)> {
        self.end.clone()
    }
}

impl Session {
    fn change(&mut self, command: &Command) -> Result<Result<(), Refused>> {
        match self.current.ask(command)? {
            Reply::Done => {
                self.current.is_written = true;
                Ok(Ok(()))
            }
            Reply::Refused(why) => Ok(Err(Refused(why))),
            other => bail!("the plugin answered {other:?} to a write"),
        }
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
