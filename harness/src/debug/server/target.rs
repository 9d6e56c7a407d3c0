// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run in `gdbstub`'s terms: handles each of GDB's packets by going to instructions. Breakpoints are never
//! written into memory, and reads never affect the run.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Error, Result};
use decode::Isa;
use gdbstub::common::{Signal, Tid};
use gdbstub::stub::MultiThreadStopReason;
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume, MultiThreadResumeOps,
    MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{
    ReplayLogPosition, ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps,
};
use gdbstub::target::ext::base::single_register_access::{SingleRegisterAccess, SingleRegisterAccessOps};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps, SwBreakpoint,
    SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps};
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};

use super::Monitor;
use super::arch::{Number, Processor, Values};
use super::link::Signs;
use crate::debug::description::{Described, Description, is_control};
use crate::debug::monitor::{STAY, WHY};
use crate::debug::socket::{FOLLOWS, Follow};
use crate::debug::thread::{self, Thread, Threads};
use crate::debug::travel::{Access, At, Ended, Refused, Register, Stop, Travel, Watch, Why, can_watch_on};
use crate::text::number::group;

/// Reason of a stop, for GDB.
pub(super) type Reason = MultiThreadStopReason<u64>;

/// Request of GDB's that moves the run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Forward,
    Backward,
    /// One instruction of a thread.
    Step(Tid),
    /// Continue while a thread is within these addresses.
    Within(Tid, Range<u64>),
    StepBack,
}

/// Reason why control registers are never written.
const NO_CALLS: &str = "the registers pc, sp and the return address cannot be written, for the firmware would execute \
                        what it never did; functions cannot be called";

/// Reason why a waiting thread's registers are not written.
const SWITCHED_OUT: &str = "registers of a task that is switched out cannot be written";

/// Hint after a command that moved the run, for a GDB without the hooks.
const MOVED: &str = "the debugger still shows the old place: type monitor stay, then stepi\n";

/// Width of the widest access: one that begins this many bytes below watched memory does not reach it.
const ACCESS_BYTES: u64 = 16;

/// A run that is being debugged.
pub(super) struct Debuggee<'a> {
    travel: &'a mut dyn Travel,
    threads: &'a mut dyn Threads,
    monitor: &'a mut dyn Monitor,
    isa: Isa,
    description: Description,
    signs: Arc<Signs>,
    action: Action,
    software: BTreeSet<u64>,
    hardware: BTreeSet<u64>,
    watches: Vec<Watch>,
    /// Registers at the current position, once GDB has asked for them.
    registers: Option<Vec<Register>>,
    listed: Option<Vec<Thread>>,
    /// Whether the crash at the run's end has been reported.
    has_crashed: bool,
    /// File that makes GDB follow a `monitor` command that has moved the run.
    follow: Follow,
    /// Whether GDB has loaded the hooks that read this file.
    follows: bool,
    /// Whether the next step does not move, since GDB only asks for the position.
    stays: bool,
    /// Position and executing thread of the last stop that GDB knows.
    told_at: At,
    told: Tid,
    /// Threads that GDB knows by another thread's number, each with this other number.
    labels: BTreeMap<Tid, Tid>,
    /// Reasons why the last write or watch, and the last read, were refused.
    unwritten: Option<String>,
    unread: Option<String>,
    /// Reason why the last movement failed.
    unmoved: Option<String>,
    /// Text for GDB's console before the next stop is reported.
    said: Vec<String>,
}

impl<'a> Debuggee<'a> {
    pub(super) fn new(
        travel: &'a mut dyn Travel,
        isa: Isa,
        threads: &'a mut dyn Threads,
        monitor: &'a mut dyn Monitor,
        signs: Arc<Signs>,
        follow: Follow,
    ) -> Result<Debuggee<'a>> {
        travel.set_breakpoints(&[]);
        travel.set_watches(&[]);
        let registers = travel.registers()?;
        let told_at = travel.at();
        let mut debuggee = Debuggee {
            description: Description::of(isa, &registers),
            travel,
            threads,
            monitor,
            isa,
            signs,
            action: Action::Forward,
            software: BTreeSet::new(),
            hardware: BTreeSet::new(),
            watches: Vec::new(),
            registers: Some(registers),
            listed: None,
            has_crashed: false,
            follow,
            follows: false,
            stays: false,
            told_at,
            told: NonZeroUsize::MIN,
            labels: BTreeMap::new(),
            unwritten: None,
            unread: None,
            unmoved: None,
            said: Vec::new(),
        };
        debuggee.told = debuggee.current()?;
        Ok(debuggee)
    }

    /// Size of the largest packet: all registers in hexadecimal, or a page of memory.
    pub(super) fn packet_bytes(&self) -> usize {
        let registers: usize = self.description.registers.iter().map(|register| register.bytes).sum();
        (registers * 2).max(0x4000) + 64
    }

    /// Takes the text for GDB's console.
    pub(super) fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    fn forget(&mut self) {
        self.registers = None;
        self.listed = None;
    }

    fn refuse<T>(&mut self, reason: impl Into<String>) -> TargetResult<T, Self> {
        self.unwritten = Some(reason.into());
        Err(TargetError::NonFatal)
    }

    fn done(&mut self, written: Result<Result<(), Refused>>) -> TargetResult<(), Self> {
        self.forget();
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Refused(reason))) => self.refuse(reason),
            Err(error) if error.is::<Refused>() => self.refuse(format!("{error:#}")),
            Err(error) => Err(TargetError::Fatal(error)),
        }
    }

    /// Result of a read; the default if the run refuses it, which does not end the session.
    fn unless_refused<T: Default>(&mut self, read: Result<T>) -> Result<T> {
        match read {
            Err(error) if error.is::<Refused>() => {
                self.unread = Some(format!("{error:#}"));
                Ok(T::default())
            }
            read => read,
        }
    }

    /// All threads; the first one has the processor's registers.
    fn listed(&mut self) -> Result<&[Thread]> {
        if self.listed.is_none() {
            let listed = self.threads.list(self.travel);
            let mut listed = self.unless_refused(listed)?;
            if listed.is_empty() {
                listed.push(thread::Processor::thread());
            }
            listed.iter_mut().for_each(|thread| thread.id = self.label(thread.id));
            self.listed = Some(listed);
        }
        Ok(self.listed.as_deref().unwrap_or_default())
    }

    /// The thread with the processor's registers.
    fn current(&mut self) -> Result<Tid> {
        Ok(self.listed()?.first().map_or(NonZeroUsize::MIN, |thread| thread.id))
    }

    /// Number by which GDB knows a thread.
    fn label(&self, id: Tid) -> Tid {
        self.labels.get(&id).copied().unwrap_or(id)
    }

    /// Handles a command after which another thread may execute. GDB learns of the switch only by the next stop.
    /// Until then, two threads swap their numbers: the executing thread, and the thread that GDB believes to execute.
    /// So GDB reads and steps the executing thread. A thread that GDB steps through a function by breakpoints of its
    /// own keeps its number to the end.
    fn relabel(&mut self) -> Result<()> {
        let (executing, told) = (self.current()?, self.told);
        if executing != told {
            let swap = |label: Tid| match label {
                label if label == executing => told,
                label if label == told => executing,
                label => label,
            };
            let known: BTreeSet<Tid> = self.labels.keys().copied().chain([executing, told]).collect();
            self.labels = known.into_iter().map(|id| (id, swap(self.label(id)))).collect();
            self.listed.iter_mut().flatten().for_each(|thread| thread.id = swap(thread.id));
        }
        Ok(())
    }

    /// The stop by which GDB learns a command's new position.
    fn arrived(&mut self) -> Result<Reason> {
        self.stays = false;
        self.labels.clear();
        self.forget();
        // No signal: SIGTRAP would count as a finished step, or as a hit of a breakpoint.
        Ok(MultiThreadStopReason::SignalWithThread { tid: self.current()?, signal: Signal::SIGZERO })
    }

    /// Registers of a thread by number. For a thread that does not exist here they are the processor's: GDB asks for
    /// such a thread only until it notices that the thread is gone.
    fn values(&mut self, tid: Tid) -> Result<Vec<Vec<u8>>> {
        let thread = self.listed()?.iter().find(|thread| thread.id == tid);
        let saved = thread.and_then(|thread| thread.saved.clone());
        if saved.is_none() && self.registers.is_none() {
            let registers = self.travel.registers();
            self.registers = Some(self.unless_refused(registers)?);
        }
        let now = self.registers.as_deref().unwrap_or_default();
        let value = |name: &str| match &saved {
            Some(saved) => saved.iter().find(|(of, _)| of == name).map(|(_, bytes)| bytes),
            None => now.iter().find(|register| register.name == name).map(|register| &register.bytes),
        };
        let all = self.description.registers.iter();
        // A value of another width than described would shift all later values.
        let fits = |(described, bytes): (_, Option<&Vec<u8>>)| {
            let described: &Described = described;
            bytes.filter(|bytes| bytes.len() == described.bytes).cloned().unwrap_or_default()
        };
        Ok(all.map(|described| (described, value(&described.name))).map(fits).collect())
    }

    fn write_number(&mut self, tid: Tid, number: usize, bytes: &[u8]) -> TargetResult<(), Self> {
        let written = self.try_write_number(tid, number, bytes);
        // For memory, GDB only accepts an error's number.
        if let (Err(TargetError::NonFatal), Some(why)) = (&written, &self.unwritten) {
            self.signs.explain(why.clone());
        }
        written
    }

    fn try_write_number(&mut self, tid: Tid, number: usize, bytes: &[u8]) -> TargetResult<(), Self> {
        let Some(name) = self.description.registers.get(number).map(|register| register.name.clone()) else {
            return self.refuse("there is no such register");
        };
        let threads = self.listed().map_err(TargetError::Fatal)?;
        match threads.iter().find(|thread| thread.id == tid).map(|thread| thread.saved.is_some()) {
            Some(false) if is_control(self.isa, &name) => self.refuse(NO_CALLS),
            Some(false) => {
                let written = self.travel.write_register(&name, bytes);
                self.done(written)
            }
            Some(true) => self.refuse(SWITCHED_OUT),
            None => self.refuse("there is no such thread"),
        }
    }

    fn set_breakpoints(&mut self) {
        let all: Vec<u64> = self.software.union(&self.hardware).copied().collect();
        self.travel.set_breakpoints(&all);
    }

    /// Moves the run as GDB has asked; returns the reason of the stop.
    pub(super) fn go(&mut self) -> Result<Reason> {
        let reason = if self.stays { self.arrived() } else { self.act() };
        (self.told_at, self.told) = (self.travel.at(), self.current()?);
        reason
    }

    fn act(&mut self) -> Result<Reason> {
        self.forget();
        let reason = match self.action.clone() {
            Action::Forward => self.forward(None),
            Action::Backward => self.backward(None),
            Action::Step(tid) => self.step(tid, None),
            Action::Within(tid, range) => self.step(tid, Some(range)),
            Action::StepBack => self.backward(Some(self.travel.at().insn.saturating_sub(1))),
        };
        self.forget();
        match reason {
            Err(error) if error.is::<Refused>() => self.stay(format!("{error:#}")),
            reason => reason,
        }
    }

    /// Keeps the run at its instruction after a refusal. The answer is a stop, since GDB accepts no error for a
    /// movement.
    fn stay(&mut self, why: String) -> Result<Reason> {
        self.said.push(format!("harness: {why}\n"));
        self.unmoved = Some(why);
        let tid = self.current()?;
        Ok(if matches!(self.action, Action::Backward | Action::StepBack) {
            MultiThreadStopReason::ReplayLog { tid: Some(tid), pos: ReplayLogPosition::Begin }
        } else {
            // This signal also ends commands of GDB that take many steps.
            MultiThreadStopReason::SignalWithThread { tid, signal: Signal::SIGINT }
        })
    }

    fn forward(&mut self, until: Option<u64>) -> Result<Reason> {
        let stop = self.carry(|travel| travel.forward(until))?;
        self.held(stop, false)
    }

    /// Goes back to an instruction or to the start. The start is only reported as the end of history if GDB asks to
    /// go further, or as far as possible.
    fn backward(&mut self, until: Option<u64>) -> Result<Reason> {
        self.has_crashed = false;
        let at = self.travel.at();
        if at.insn <= 1 {
            return self.held(Stop { at, why: Why::Start }, true);
        }
        let mut stop = self.carry(|travel| travel.backward(until.unwrap_or(1)))?;
        stop.why = match stop.why {
            Why::Start | Why::Reached if until == Some(stop.at.insn) => Why::Reached,
            Why::Reached if stop.at.insn <= 1 => Why::Start,
            why => why,
        };
        self.held(stop, true)
    }

    /// Moves the run, unless a request to hold it has already come. A late interrupt for an earlier command is
    /// ignored.
    fn carry(&mut self, mut go: impl FnMut(&mut dyn Travel) -> Result<Stop>) -> Result<Stop> {
        let _running = self.signs.running();
        loop {
            if self.signs.is_asked() {
                return Ok(Stop { at: self.travel.at(), why: Why::Interrupted });
            }
            let stop = go(self.travel)?;
            if stop.why != Why::Interrupted || self.signs.is_asked() {
                return Ok(stop);
            }
        }
    }

    /// Steps a thread: one instruction, or until it has left a range. Instructions of other threads are skipped, if
    /// switches can be watched.
    fn step(&mut self, tid: Tid, range: Option<Range<u64>>) -> Result<Reason> {
        let cell = self.threads.current().filter(|_| self.travel.can_watch().is_ok());
        let mut is_away = false;
        if let Some(cell) = &cell {
            let mut watches = self.watches.clone();
            watches.push(Watch { range: cell.clone(), access: Access::Write });
            self.travel.set_watches(&watches);
            is_away = self.current()? != tid && self.listed()?.iter().any(|thread| thread.id == tid);
        }
        let stop = self.steps(tid, range, cell.as_ref(), is_away);
        self.travel.set_watches(&self.watches);
        self.held(stop?, false)
    }

    fn steps(&mut self, tid: Tid, range: Option<Range<u64>>, cell: Option<&Range<u64>>, away: bool) -> Result<Stop> {
        let mut is_away = away;
        loop {
            let next = (!is_away).then_some(self.travel.at().insn + 1);
            let mut stop = self.carry(|travel| travel.forward(next))?;
            if let (Why::Watch { address, access, .. }, Some(cell)) = (&stop.why, cell) {
                // This watch is the step's own, on the kernel's pointer: another thread executes now, or the same one
                // again.
                if self.watched(*address, *access).is_none() && reaches(*address, cell) {
                    self.forget();
                    is_away = self.current()? != tid && self.listed()?.iter().any(|thread| thread.id == tid);
                    stop.why = Why::Reached;
                }
            }
            let is_within = is_away || range.as_ref().is_some_and(|range| range.contains(&stop.at.pc));
            if stop.why != Why::Reached || !is_within || self.is_breakpoint(stop.at.pc) {
                return Ok(stop);
            }
        }
    }

    fn is_breakpoint(&self, pc: u64) -> bool {
        self.software.contains(&pc) || self.hardware.contains(&pc)
    }

    /// The watch that an access hits, with its address.
    fn watched(&self, address: u64, access: Access) -> Option<(WatchKind, u64)> {
        let meant = |watch: &&Watch| watch.access == Access::Any || access == Access::Any || watch.access == access;
        let kind = |watch: &Watch| match watch.access {
            Access::Read => WatchKind::Read,
            Access::Write => WatchKind::Write,
            Access::Any => WatchKind::ReadWrite,
        };
        let watches = || self.watches.iter().filter(meant);
        let inside = watches().find(|watch| watch.range.contains(&address)).map(|watch| (kind(watch), address));
        // A wide access may begin below the watched memory.
        let below = || {
            let reached = watches().filter(|watch| reaches(address, &watch.range));
            reached.min_by_key(|watch| watch.range.start).map(|watch| (kind(watch), watch.range.start))
        };
        inside.or_else(below)
    }

    /// GDB's reason for a stop.
    fn held(&mut self, mut stop: Stop, is_backward: bool) -> Result<Reason> {
        self.forget();
        let signal = |tid, signal| MultiThreadStopReason::SignalWithThread { tid, signal };
        let mut watch = None;
        if let Why::Watch { address, access, by } = stop.why {
            // GDB expects a stop before the access, in the direction of travel. It then steps over the access itself,
            // to see the values before and after. For AVR it expects the stop behind it.
            let is_behind = self.isa.is_avr();
            let insn = if is_backward != is_behind { by + 1 } else { by };
            let gone = self.carry(|travel| travel.go(insn))?;
            stop.at = gone.at;
            match gone.why {
                Why::Interrupted => stop.why = Why::Interrupted,
                _ => watch = self.watched(address, access),
            }
        }
        let tid = self.current()?;
        if let Some((kind, addr)) = watch {
            return Ok(MultiThreadStopReason::Watch { tid, kind, addr });
        }
        Ok(match stop.why {
            Why::Start => MultiThreadStopReason::ReplayLog { tid: Some(tid), pos: ReplayLogPosition::Begin },
            Why::End(ended) => {
                let has_crashed = matches!(ended, Ended::Gone(_)) && !self.has_crashed;
                self.said.push(format!("harness: {}\n", over(&ended, stop.at.insn)));
                if has_crashed {
                    self.has_crashed = true;
                    signal(tid, Signal::SIGSEGV)
                } else {
                    MultiThreadStopReason::ReplayLog { tid: Some(tid), pos: ReplayLogPosition::End }
                }
            }
            Why::Interrupted => signal(tid, Signal::SIGINT),
            Why::Reached | Why::Breakpoint | Why::Watch { .. } if self.software.contains(&stop.at.pc) => {
                MultiThreadStopReason::SwBreak(tid)
            }
            Why::Reached | Why::Breakpoint | Why::Watch { .. } if self.hardware.contains(&stop.at.pc) => {
                MultiThreadStopReason::HwBreak(tid)
            }
            Why::Reached | Why::Breakpoint | Why::Watch { .. } => signal(tid, Signal::SIGTRAP),
        })
    }
}

/// Whether an access may reach a range of memory.
fn reaches(address: u64, range: &Range<u64>) -> bool {
    address < range.end && address.saturating_add(ACCESS_BYTES) > range.start
}

/// Text for the run's end after this many instructions.
fn over(ended: &Ended, insn: u64) -> String {
    use wire::control::End;
    match ended {
        Ended::At(end, _) => {
            let what = match end {
                End::For => "the window is complete",
                End::Until => "--until was reached",
                End::MaxInsns => "--max-insns was reached",
                End::Exit => "the firmware exited",
                End::Reset => "the firmware asked for a reset",
                End::Denied => "the firmware asked for something outside its sandbox",
                End::WriteFailed => "the plugin could not write its records",
                End::Output => "the firmware has written more than it may",
                End::UnknownCall => "the firmware made a semihosting call that QEMU does not have",
                End::Faulting => "a fault's handler never returns",
                End::StackOverflow => "the stack has left its memory",
            };
            format!("the run ends here, at instruction {insn}: {what}")
        }
        Ended::Asleep => "the run ends here: the processor sleeps and nothing will wake it".to_owned(),
        Ended::Gone(words) => format!("the run ends here, with QEMU: {}", words.trim()),
    }
}

impl Target for Debuggee<'_> {
    type Arch = Processor;
    type Error = Error;

    fn base_ops(&mut self) -> BaseOps<'_, Processor, Error> {
        BaseOps::MultiThread(self)
    }

    /// See `link` for the acknowledgements.
    fn use_no_ack_mode(&self) -> bool {
        false
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_target_description_xml_override(&mut self) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Debuggee<'_> {
    fn read_registers(&mut self, values: &mut Values, tid: Tid) -> TargetResult<(), Self> {
        let all = self.values(tid).map_err(TargetError::Fatal)?;
        let unknown = |bytes: usize| std::iter::repeat_n(None, bytes);
        values.bytes = self
            .description
            .registers
            .iter()
            .zip(all)
            .flat_map(|(register, bytes)| {
                let missing = register.bytes - bytes.len();
                bytes.into_iter().map(Some).chain(unknown(missing))
            })
            .collect();
        Ok(())
    }

    fn write_registers(&mut self, values: &Values, tid: Tid) -> TargetResult<(), Self> {
        let before = self.values(tid).map_err(TargetError::Fatal)?;
        let mut rest = values.bytes.iter().map(|byte| byte.unwrap_or_default());
        for (number, before) in before.into_iter().enumerate() {
            let width = self.description.registers.get(number).map_or(0, |register| register.bytes);
            let bytes: Vec<u8> = rest.by_ref().take(width).collect();
            if bytes.len() == width && !before.is_empty() && bytes != before {
                self.write_number(tid, number, &bytes)?;
            }
        }
        Ok(())
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, address: u64, data: &mut [u8], _tid: Tid) -> TargetResult<usize, Self> {
        let disturbing = || Refused(format!("{address:#x} cannot be read without disturbing the run"));
        let read = self.travel.read(address, data.len()).and_then(|bytes| {
            let has_read = !bytes.is_empty() || data.is_empty();
            has_read.then_some(bytes).ok_or_else(|| disturbing().into())
        });
        let is_refused = read.as_ref().is_err_and(|error| error.is::<Refused>());
        let bytes = self.unless_refused(read).map_err(TargetError::Fatal)?;
        if is_refused {
            return Err(TargetError::NonFatal);
        }
        let count = bytes.len().min(data.len());
        data[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn write_addrs(&mut self, address: u64, data: &[u8], _tid: Tid) -> TargetResult<(), Self> {
        let written = self.travel.write(address, data);
        self.done(written)
    }

    fn list_active_threads(&mut self, is_active: &mut dyn FnMut(Tid)) -> Result<()> {
        self.listed()?.iter().for_each(|thread| is_active(thread.id));
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl SingleRegisterAccess<Tid> for Debuggee<'_> {
    fn read_register(&mut self, tid: Tid, Number(number): Number, data: &mut [u8]) -> TargetResult<usize, Self> {
        let values = self.values(tid).map_err(TargetError::Fatal)?;
        match values.get(number) {
            Some(bytes) if !bytes.is_empty() && bytes.len() <= data.len() => {
                data[..bytes.len()].copy_from_slice(bytes);
                Ok(bytes.len())
            }
            _ => {
                self.unread = Some("a register cannot be read without disturbing the run".to_owned());
                Err(TargetError::NonFatal)
            }
        }
    }

    fn write_register(&mut self, tid: Tid, Number(number): Number, bytes: &[u8]) -> TargetResult<(), Self> {
        self.write_number(tid, number, bytes)
    }
}

impl MultiThreadResume for Debuggee<'_> {
    fn resume(&mut self) -> Result<()> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<()> {
        self.action = Action::Forward;
        Ok(())
    }

    fn set_resume_action_continue(&mut self, _tid: Tid, _signal: Option<Signal>) -> Result<()> {
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Debuggee<'_> {
    fn set_resume_action_step(&mut self, tid: Tid, _signal: Option<Signal>) -> Result<()> {
        self.action = Action::Step(tid);
        Ok(())
    }
}

impl MultiThreadRangeStepping for Debuggee<'_> {
    fn set_resume_action_range_step(&mut self, tid: Tid, start: u64, end: u64) -> Result<()> {
        self.action = Action::Within(tid, start..end);
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Debuggee<'_> {
    /// Ignored: the run's own schedule, fixed when it was profiled, decides what executes.
    fn set_resume_action_scheduler_lock(&mut self) -> Result<()> {
        Ok(())
    }
}

impl ReverseCont<Tid> for Debuggee<'_> {
    fn reverse_cont(&mut self) -> Result<()> {
        self.action = Action::Backward;
        Ok(())
    }
}

impl ReverseStep<Tid> for Debuggee<'_> {
    fn reverse_step(&mut self, _tid: Tid) -> Result<()> {
        self.action = Action::StepBack;
        Ok(())
    }
}

impl Breakpoints for Debuggee<'_> {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Debuggee<'_> {
    fn add_sw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        self.software.insert(address);
        self.set_breakpoints();
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        let was_there = self.software.remove(&address);
        self.set_breakpoints();
        Ok(was_there)
    }
}

impl HwBreakpoint for Debuggee<'_> {
    fn add_hw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        self.hardware.insert(address);
        self.set_breakpoints();
        Ok(true)
    }

    fn remove_hw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        let was_there = self.hardware.remove(&address);
        self.set_breakpoints();
        Ok(was_there)
    }
}

/// The watch that GDB asks for.
fn watch(address: u64, bytes: u64, kind: WatchKind) -> Watch {
    let access = match kind {
        WatchKind::Read => Access::Read,
        WatchKind::Write => Access::Write,
        WatchKind::ReadWrite => Access::Any,
    };
    Watch { range: address..address.saturating_add(bytes), access }
}

impl HwWatchpoint for Debuggee<'_> {
    fn add_hw_watchpoint(&mut self, address: u64, bytes: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        // GDB itself reports that it could not insert the watch.
        let watch = watch(address, bytes, kind);
        if let Err(Refused(why)) = self.travel.can_watch().and(can_watch_on(Some(self.isa), &watch.range)) {
            self.unwritten = Some(why);
            return Ok(false);
        }
        if !self.watches.contains(&watch) {
            self.watches.push(watch);
        }
        self.travel.set_watches(&self.watches);
        Ok(true)
    }

    fn remove_hw_watchpoint(&mut self, address: u64, bytes: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        let watch = watch(address, bytes, kind);
        let before = self.watches.len();
        self.watches.retain(|other| *other != watch);
        self.travel.set_watches(&self.watches);
        Ok(self.watches.len() < before)
    }
}

impl Debuggee<'_> {
    /// Answers a command that may take long and may move the run.
    fn command(&mut self, words: &str) -> Result<String> {
        let before = self.travel.at();
        let position = self.travel.position();
        let state = |since: Duration| {
            let insn = position.insn().map(|insn| format!(", instruction {}", group(insn))).unwrap_or_default();
            format!("{words}: {:.1} s{insn}\n", since.as_secs_f32())
        };
        let signs = Arc::clone(&self.signs);
        // The thread that reads the client notices if it has disconnected.
        let mut say = |line: &str| drop(signs.show(&format!("{line}\n")));
        let mut text = self.signs.working(state, || self.monitor.command(self.travel, words, &mut say));
        self.forget();
        // The command may have set breakpoints of its own.
        self.set_breakpoints();
        self.travel.set_watches(&self.watches);
        let has_moved = self.travel.at() != before;
        self.has_crashed &= !has_moved;
        if has_moved {
            self.relabel()?;
        }
        if has_moved && !self.follows {
            text.push_str(if text.ends_with('\n') || text.is_empty() { "" } else { "\n" });
            text.push_str(MOVED);
        }
        Ok(text)
    }
}

impl MonitorCmd for Debuggee<'_> {
    fn handle_monitor_cmd(&mut self, command: &[u8], mut out: ConsoleOutput<'_>) -> Result<()> {
        let words = String::from_utf8_lossy(command).trim().to_owned();
        let mut text = match words.as_str() {
            FOLLOWS => {
                self.follows = true;
                String::new()
            }
            STAY => {
                self.stays = true;
                if self.follows {
                    return Ok(());
                }
                "the next step (stepi) goes nowhere and shows where the run is".to_owned()
            }
            WHY => {
                let refused: Vec<&str> = [&self.unmoved, &self.unwritten, &self.unread]
                    .into_iter()
                    .flatten()
                    .map(String::as_str)
                    .collect();
                if refused.is_empty() { "nothing has been refused".to_owned() } else { refused.join("\n") }
            }
            "" => self.command("help")?,
            words => self.command(words)?,
        };
        // An earlier command, whose answer GDB did not await, may also have moved the run.
        let is_elsewhere = self.travel.at() != self.told_at;
        if self.follows && self.follow.set(is_elsewhere).is_err() && is_elsewhere {
            text.push_str(MOVED);
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        for part in text.as_bytes().chunks(1024) {
            out.write_raw(part);
        }
        Ok(())
    }
}

impl TargetDescriptionXmlOverride for Debuggee<'_> {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        buffer: &mut [u8],
    ) -> TargetResult<usize, Self> {
        if annex != b"target.xml" {
            return Err(TargetError::NonFatal);
        }
        let xml = self.description.xml.as_bytes();
        let rest = xml.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
        let count = rest.len().min(length).min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

impl ThreadExtraInfo for Debuggee<'_> {
    fn thread_extra_info(&self, tid: Tid, buffer: &mut [u8]) -> Result<usize> {
        let threads = self.listed.as_deref().unwrap_or_default();
        let Some(thread) = threads.iter().find(|thread| thread.id == tid) else { return Ok(0) };
        let text = format!("{}: {}", thread.name, thread.state);
        let count = text.len().min(buffer.len());
        buffer[..count].copy_from_slice(&text.as_bytes()[..count]);
        Ok(count)
    }
}
