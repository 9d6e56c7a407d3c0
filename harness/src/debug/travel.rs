//! A run that can be put at any of its instructions, forwards and backwards: what the debugger's server, the search for
//! places and the monitor's commands know of how that is done.
//!
//! Instructions are counted from 1 at reset, over the whole run: *at* instruction N means that N - 1 have started and
//! the N-th is the next to execute, as a debugger has it. A profile counts from where its window opened:
//! [`Facts::before_window_insns`](crate::profile::Facts::before_window_insns) lie between.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use wire::control::End;
pub use wire::debug::Register;

/// Where the run is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The instruction that is about to execute, from 1. Of a run that is over, the last one that has started.
    pub insn: u64,
    /// Its address.
    pub pc: u64,
}

/// How far each vCPU has come. Several execute in turns, and their instructions are counted in the one order that this
/// makes: [`At::insn`] is the sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vcpus {
    /// That which executes the instruction.
    pub executing: usize,
    /// The number of the last instruction of each that has started; of the executing one, of this instruction.
    pub insns: Vec<u64>,
}

/// Which accesses of memory are watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loads.
    Read,
    /// Stores, of the same value, too.
    Write,
    /// Both.
    Any,
}

/// Memory that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Its addresses.
    pub range: Range<u64>,
    /// Which accesses count.
    pub access: Access,
}

/// Why the run is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is where it was sent.
    Reached,
    /// A breakpoint is at the next instruction.
    Breakpoint,
    /// Watched memory has been accessed by instruction `by` (forwards the one that has just executed, backwards the one
    /// that is about to).
    Watch {
        /// The access's address.
        address: u64,
        /// What kind it was.
        access: Access,
        /// The accessing instruction's number.
        by: u64,
    },
    /// Backwards: there is nothing before the first instruction.
    Start,
    /// Forwards: the run is over.
    End(Ended),
    /// [`Travel::interrupter`] has asked for it.
    Interrupted,
}

/// How the run is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The plugin ended it at this instruction: the firmware's exit (with its status), a reset, a limit.
    At(End, u64),
    /// The processor sleeps and nothing will wake it.
    Asleep,
    /// QEMU has ended by itself, as it does for a lock-up; in its words.
    Gone(String),
}

/// Where the run is held and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The place.
    pub at: At,
    /// The reason.
    pub why: Why,
}

/// What a run cannot do here: for the debugger's user, who is told why. As an error it leaves the run where it was, and
/// the session goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Asks a run that executes to be held; from any thread.
pub trait Interrupt: Send + Sync {
    /// Asks.
    fn interrupt(&self);

    /// Says that nobody waits for what is being done: whatever takes time beside the run is to end, too.
    fn abandon(&self) {}
}

/// The instruction that a run has come to while it executes, for other threads.
#[derive(Debug, Default)]
pub struct Position(AtomicU64);

impl Position {
    /// Notes the instruction.
    pub fn set(&self, insn: u64) {
        self.0.store(insn, Ordering::Relaxed);
    }

    /// The instruction that was noted last; None: none was.
    pub fn insn(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&insn| insn > 0)
    }
}

/// A hit of a breakpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The instruction's number.
    pub insn: u64,
    /// Its address.
    pub pc: u64,
    /// The stack pointer before it.
    pub sp: u64,
    /// The return address register (lr, ra) before it.
    pub link: u64,
}

/// A run that can be put at any of its instructions.
pub trait Travel {
    /// Where it is held.
    fn at(&self) -> At;

    /// How far each vCPU has come there.
    fn vcpus(&mut self) -> Result<Vcpus>;

    /// Goes to an instruction, forwards or backwards, past all breakpoints. Where the run is over before, it is held at
    /// its last instruction, with [`Why::End`].
    fn go(&mut self, insn: u64) -> Result<Stop>;

    /// Goes on to the first instruction after this one that has a breakpoint, or has accessed watched memory, and to
    /// `until` at most.
    fn forward(&mut self, until: Option<u64>) -> Result<Stop>;

    /// Goes back to the last instruction before this one that has a breakpoint or is about to access watched memory, and
    /// to `until` at most; past the first instruction never ([`Why::Start`]).
    fn backward(&mut self, until: u64) -> Result<Stop>;

    /// Sets the breakpoints, in place of those before.
    fn set_breakpoints(&mut self, addresses: &[u64]);

    /// Sets what is watched, in place of what was before.
    fn set_watches(&mut self, watches: &[Watch]);

    /// All hits of these addresses from the run's start to its end or `until`, in order, at most `most` of them (the
    /// last ones); where the run is held does not change. With how many there were in all.
    fn hits(&mut self, addresses: &[u64], until: Option<u64>, most: usize) -> Result<(Vec<Hit>, u64)>;

    /// All registers of the processor, in QEMU's order.
    fn registers(&mut self) -> Result<Vec<Register>>;

    /// Memory, as much of it from the start as can be read without disturbing the run. None: nothing.
    fn read(&mut self, address: u64, bytes: usize) -> Result<Vec<u8>>;

    /// Writes memory. What executes from here on is no longer the run that was profiled: back past here is refused.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<Result<(), Refused>>;

    /// Writes a register; as [`Travel::write`].
    fn write_register(&mut self, name: &str, bytes: &[u8]) -> Result<Result<(), Refused>>;

    /// Whether accesses can be watched from here on.
    fn can_watch(&self) -> Result<(), Refused> {
        Ok(())
    }

    /// The instruction before which the run was written to last: from there on it is another one than was profiled.
    fn written_at(&self) -> Option<u64> {
        None
    }

    /// What asks the run to be held while it executes.
    fn interrupter(&self) -> Arc<dyn Interrupt>;

    /// The instruction that the run has come to, noted as it goes.
    fn position(&self) -> Arc<Position> {
        Arc::default()
    }

    /// The last instruction of the run and how it is over, once that is known.
    fn end(&self) -> Option<(At, Ended)>;
}

/// Goes to an instruction, which is an error where it is not come to.
pub(super) fn go(travel: &mut dyn Travel, insn: u64) -> Result<()> {
    uninterrupted(travel.go(insn)?).map(|_| ())
}

/// A number in the guest's order.
pub(crate) fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// The value of a register by one of its names.
pub(crate) fn register(travel: &mut dyn Travel, names: &[&str]) -> Result<Option<u64>> {
    let registers = travel.registers()?;
    let found = registers.iter().find(|register| names.contains(&&*register.name) && !register.bytes.is_empty());
    Ok(found.map(|register| little_endian(&register.bytes)))
}

/// A stop, unless the search was interrupted there: what comes after would be told of the wrong place.
pub(super) fn uninterrupted(stop: Stop) -> Result<Stop> {
    match stop.why {
        Why::Interrupted => Err(Refused("interrupted before that was found".to_owned()).into()),
        _ => Ok(stop),
    }
}
