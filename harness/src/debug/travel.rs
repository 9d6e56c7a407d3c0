// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interface of a run that can be put at any of its instructions, forwards and backwards, for the debugger's server,
//! the search for places and the monitor's commands.
//!
//! Instructions are counted from 1 at reset, over the whole run: *at* instruction N means that N - 1 have started and
//! the N-th is the next to execute, as in a debugger. A profile counts from the window's opening,
//! [`Facts::before_window_insns`](crate::profile::Facts::before_window_insns) later.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use decode::Isa;
use wire::chip::AVR_DATA;
use wire::control::End;
pub use wire::debug::Register;

use crate::text::number::Hex;

/// Position of a held run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The instruction's number in the run, from 1 at reset.
    pub insn: u64,
    /// The instruction's address.
    pub pc: u64,
}

/// Progress of each vCPU. Several vCPUs execute in turns, and their instructions are counted in that order:
/// [`At::insn`] is the sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vcpus {
    /// Index of the vCPU that executes the instruction.
    pub executing: usize,
    /// Number of each vCPU's last started instruction; for the executing vCPU, the number of this instruction.
    pub insns: Vec<u64>,
}

/// Kind of watched memory accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loads.
    Read,
    /// Stores, even of an unchanged value.
    Write,
    /// Both.
    Any,
}

/// Memory that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The watched addresses.
    pub range: Range<u64>,
    /// Watched kind of accesses.
    pub access: Access,
}

/// Reason of a stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The requested instruction is reached.
    Reached,
    /// The next instruction has a breakpoint.
    Breakpoint,
    /// Instruction `by` accesses watched memory. Forwards it has just executed; backwards it is about to execute.
    Watch {
        /// The access's address.
        address: u64,
        /// Kind of the access.
        access: Access,
        /// The accessing instruction's number.
        by: u64,
    },
    /// Backwards: the first instruction is reached.
    Start,
    /// Forwards: the run is over.
    End(Ended),
    /// [`Travel::interrupter`] was used.
    Interrupted,
}

/// End of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The plugin ended it at this instruction: the firmware's exit (with its status), a reset, a limit.
    At(End, u64),
    /// The processor sleeps, and nothing will wake it.
    Asleep,
    /// QEMU has ended by itself, as for a lock-up; with its message.
    Gone(String),
}

/// Position and reason of a stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The place.
    pub at: At,
    /// The reason.
    pub why: Why,
}

/// A request that the run cannot fulfil here, with the reason for the debugger's user. As an error it leaves the run
/// at its instruction, and the session goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Interrupts an executing run, from any thread.
pub trait Interrupt: Send + Sync {
    /// Asks the run to stop.
    fn interrupt(&self);

    /// Ends any other slow work, whose result is no longer awaited.
    fn abandon(&self) {}
}

/// Current instruction of an executing run, for other threads.
#[derive(Debug, Default)]
pub struct Position(AtomicU64);

impl Position {
    /// Notes the instruction.
    pub fn set(&self, insn: u64) {
        self.0.store(insn, Ordering::Relaxed);
    }

    /// The last noted instruction; None: no instruction has been noted.
    pub fn insn(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&insn| insn > 0)
    }
}

/// A hit of a breakpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The instruction's number in the run, from 1 at reset.
    pub insn: u64,
    /// The instruction's address.
    pub pc: u64,
    /// The stack pointer before the instruction.
    pub sp: u64,
    /// The return address register (lr, ra) before the instruction.
    pub link: u64,
}

/// A run that can be put at any of its instructions.
pub trait Travel {
    /// Position of the run.
    fn at(&self) -> At;

    /// Progress of each vCPU at the current position.
    fn vcpus(&mut self) -> Result<Vcpus>;

    /// Goes to an instruction, forwards or backwards, ignoring breakpoints. If the run ends before, stops at its last
    /// instruction, with [`Why::End`].
    fn go(&mut self, insn: u64) -> Result<Stop>;

    /// Goes forward to the next instruction with a breakpoint, or to the instruction after an access of watched
    /// memory, but not beyond `until`.
    fn forward(&mut self, until: Option<u64>) -> Result<Stop>;

    /// Goes back to the previous instruction that has a breakpoint or accesses watched memory, but not beyond
    /// `until`, and never past the first instruction ([`Why::Start`]).
    fn backward(&mut self, until: u64) -> Result<Stop>;

    /// Sets the breakpoints; they replace the former breakpoints.
    fn set_breakpoints(&mut self, addresses: &[u64]);

    /// Sets the watches; they replace the former watches.
    fn set_watches(&mut self, watches: &[Watch]);

    /// All hits of these addresses from the run's start to its end or `until`, in order, at most `most` of them (the
    /// last ones), and their total number. The position does not change.
    fn hits(&mut self, addresses: &[u64], until: Option<u64>, most: usize) -> Result<(Vec<Hit>, u64)>;

    /// All registers of the processor, in QEMU's order.
    fn registers(&mut self) -> Result<Vec<Register>>;

    /// Bytes of memory from `address` on, as far as they can be read without affecting the run; may be empty.
    fn read(&mut self, address: u64, bytes: usize) -> Result<Vec<u8>>;

    /// Writes memory. From this instruction on the run differs from the profiled one: going back past it is refused.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<Result<(), Refused>>;

    /// Writes a register; the run then differs as after [`Travel::write`].
    fn write_register(&mut self, name: &str, bytes: &[u8]) -> Result<Result<(), Refused>>;

    /// Whether accesses can be watched from here on; otherwise the reason.
    fn can_watch(&self) -> Result<(), Refused> {
        Ok(())
    }

    /// Instruction before which the run was last written to: from there on it differs from the profiled one.
    fn written_at(&self) -> Option<u64> {
        None
    }

    /// Handle for interrupting the run while it executes.
    fn interrupter(&self) -> Arc<dyn Interrupt>;

    /// Current instruction of the run, updated while it executes.
    fn position(&self) -> Arc<Position> {
        Arc::default()
    }

    /// Last instruction of the run and its end, once known.
    fn end(&self) -> Option<(At, Ended)>;
}

/// Address of the first byte of an AVR's data space whose accesses QEMU tells. RAM begins there, or 256 bytes behind it.
const AVR_TOLD: u64 = AVR_DATA.start + 0x100;

/// Refuses to watch what QEMU accesses without telling it: an AVR's registers and its first devices. Flash is not written.
pub(super) fn can_watch_on(isa: Option<Isa>, range: &Range<u64>) -> Result<(), Refused> {
    if isa.is_some_and(Isa::is_avr) && (range.start < AVR_TOLD || range.end > AVR_DATA.end) {
        return Err(Refused(format!(
            "only {} to {} is watched on AVR, where RAM is: set a breakpoint at the instructions that access the rest",
            Hex(AVR_TOLD),
            Hex(AVR_DATA.end - 1)
        )));
    }
    Ok(())
}

/// Goes to an instruction; an error if the run does not reach it.
pub(super) fn go(travel: &mut dyn Travel, insn: u64) -> Result<()> {
    uninterrupted(travel.go(insn)?).map(|_| ())
}

/// A number in the guest's byte order.
pub(crate) fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Value of a register by one of its names.
pub(crate) fn register(travel: &mut dyn Travel, names: &[&str]) -> Result<Option<u64>> {
    let registers = travel.registers()?;
    let found = registers.iter().find(|register| names.contains(&&*register.name) && !register.bytes.is_empty());
    Ok(found.map(|register| little_endian(&register.bytes)))
}

/// Passes on a stop, unless the search was interrupted: the results after it would be wrong.
pub(super) fn uninterrupted(stop: Stop) -> Result<Stop> {
    match stop.why {
        Why::Interrupted => Err(Refused("interrupted during the search".to_owned()).into()),
        _ => Ok(stop),
    }
}
