// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts of each vCPU: a task's code, and the handlers of exceptions above it. Each is a context of its own, with
//! the functions that are active in it.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use decode::Isa;
use wire::counters::MAIN_DEPTH;
use wire::zone::ContextKind;

use super::activation::Activation;
use super::fault::LastException;
use super::open_zones::{Contexts, Nest};
use super::watermark::Watermark;
use crate::guest::{Context, Guest, Taken, Vcpu};
use crate::ledger::{Counters, Ledger};
use crate::time::Time;

/// Execution state of one vCPU.
pub struct Core {
    /// Its number.
    pub vcpu: u32,
    /// Active exceptions, the outermost first.
    pub exceptions: Vec<Active>,
    /// The code outside all exceptions; only for the exact tree.
    pub thread: Path,
    /// Contexts outside exceptions that wait while another executes, the oldest first; only for the exact tree.
    pub parked: VecDeque<Parked>,
    /// Code that the last returned exception had interrupted; only for the exact tree.
    pub resumed: Option<Context>,
    /// Switch of tasks by an exception that may be left without its return.
    pub handed: Option<Handed>,
    /// The running task; 0: none.
    pub task: u32,
    /// Last exchange of each task's stack, see [`super::exchange`].
    pub exchanged: HashMap<u32, Exchanged>,
    /// Stack pointer of each task's first instruction, where the function there does not tell that it is.
    pub first_sp: HashMap<u32, u64>,
    /// The last exception, as long as only its handler has executed since.
    pub fault: LastException,
    /// Stack use of the running task.
    pub watermark: Option<Watermark>,
    /// Room of the stack in use, if no kernel describes it; empty: not known. Only the exact tree follows it.
    pub room: Range<u64>,
    /// Stack pointer of the running task after the last instruction that moved it; None: not known.
    pub last_sp: Option<u64>,
    /// Clocks and zones of the contexts outside exceptions; None: they are not kept.
    contexts: Option<Contexts>,
}

/// An exception whose handler has started and not returned.
pub struct Active {
    /// Exception number, or cause with the highest of 64 bits for interrupts.
    pub number: u64,
    /// First address of the handler.
    pub handler: u64,
    /// The stack pointer that it started with.
    pub entry_sp: u64,
    /// The interrupted code. None: a task that has not run yet.
    pub interrupted: Option<Context>,
    /// The vCPU's instructions as it was taken.
    pub began_at: u64,
    /// The handler's code; only for the exact tree.
    pub path: Path,
    /// Its zones.
    pub nest: Nest,
    /// Its node in the exact tree.
    pub node: u32,
    /// Whether another exception came before the handler's first instruction, which is still to come.
    pub is_preempted: bool,
}

/// Switch of tasks within an exception, to a task that waits outside of exceptions: a kernel may go on with it by a plain
/// return, which leaves all exceptions.
pub struct Handed {
    /// The task before.
    pub from: u32,
    /// Stack pointers of the task that goes on.
    pub stack: Range<u64>,
}

/// Exchange of a task's stack for another one, by a function in assembly.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged {
    /// First address of the function.
    pub entry: u64,
    /// Code on the stack before, at which the task goes on after the function.
    pub outer: Context,
    /// Whether that code asked for an exception, whose handler has left the task in the function; false: it has called it.
    pub is_by_exception: bool,
}

/// Active functions of one context.
#[derive(Default)]
pub struct Path {
    /// Functions, the outermost first.
    pub frames: Vec<Shadow>,
    /// Its clock and open calls.
    pub calls: Calls,
    /// Whether nothing returns to these functions: a kernel executes its switch in them.
    pub is_passing: bool,
}

/// Code on a stack of its own (a coroutine, a task of a kernel that is not known) that waits to continue.
pub struct Parked {
    /// Address at which it continues.
    pub pc: u64,
    /// Stack pointer with which it continues.
    pub sp: u64,
    /// Its task; 0: none.
    pub task: u32,
    /// Its functions.
    pub path: Path,
    /// Whether these are an exception's, which have their nodes there.
    pub is_handler: bool,
}

/// A function on a shadow stack.
#[derive(Clone, Copy, Debug)]
pub struct Shadow {
    /// First address of the function.
    pub entry: u64,
    /// The stack pointer at its first instruction.
    pub entry_sp: u64,
    /// Its return address.
    pub return_addr: u64,
    /// Whether it is a helper with a link register of its own, which may return with another stack pointer
    /// (millicode).
    pub is_helper: bool,
    /// Its node in the exact tree.
    pub node: u32,
}

/// One context's clock and open calls.
#[derive(Default)]
pub struct Calls {
    /// Time of this context alone.
    pub time: Time,
    /// Open calls, the outermost first.
    pub open: Vec<Call>,
    /// Whether it began before the window opened.
    pub began_before_window: bool,
}

/// A call whose end is awaited.
pub struct Call {
    /// First address of the function.
    pub entry: u64,
    /// First counter of its function's calls.
    pub slot: u32,
    /// Length of the shadow stack that it belongs to: functions that follow each other by tail calls share one
    /// length.
    pub depth: usize,
    /// The context's clock at its entry.
    pub since: Time,
    /// The vCPU's clock at its entry.
    pub began_at: u64,
}

impl Active {
    /// Whether this is the exception that the processor has taken.
    pub fn is(&self, taken: &Taken) -> bool {
        let Taken { number, handler, entry_sp, interrupted, .. } = *taken;
        (self.number, self.handler, self.entry_sp, self.interrupted) == (number, handler, entry_sp, interrupted)
    }
}

/// Most bytes that a function removes from its caller's stack as it returns; `__gnu_mcount_nc` removes a word.
const MAX_TAKEN_BYTES: u64 = 16;

impl Shadow {
    /// Whether this function returns to code that continues at `pc` with this stack pointer.
    pub fn returns_to(&self, pc: u64, sp: u64) -> bool {
        self.return_addr == pc && (self.is_helper || sp.wrapping_sub(self.entry_sp) <= MAX_TAKEN_BYTES)
    }

    /// Whether this is the same activation of the same function.
    pub fn is_same(&self, other: &Shadow) -> bool {
        (self.entry, self.entry_sp, self.return_addr) == (other.entry, other.entry_sp, other.return_addr)
    }

    /// Whether this is the activation with that frame and return address.
    pub fn is(&self, activation: Activation) -> bool {
        (self.entry_sp, self.return_addr) == (activation.cfa, activation.return_addr)
    }
}

impl Parked {
    /// Whether this is the code of a task that continues at that pc and stack pointer, after a call of its own or
    /// anywhere, or in that activation.
    pub fn is(&self, task: u32, at: (u64, u64), activation: Option<Activation>) -> bool {
        let has_activation = |activation| self.path.frames.iter().any(|frame| frame.is(activation));
        let returns = || self.path.frames.last().is_some_and(|frame| frame.returns_to(at.0, at.1));
        self.task == task && ((self.pc, self.sp) == at || activation.is_some_and(has_activation) || returns())
    }
}

/// Most stacks per vCPU that wait to go on; the longest-waiting ones are forgotten.
const MAX_PARKED: usize = 1024;

impl Core {
    /// Puts code aside that waits to continue.
    pub fn park(&mut self, parked: Parked) {
        if self.parked.len() >= MAX_PARKED {
            self.parked.pop_front();
        }
        self.parked.push_back(parked);
    }

    /// A vCPU that has not executed anything yet.
    pub fn new(vcpu: u32, has_contexts: bool) -> Core {
        Core {
            vcpu,
            exceptions: Vec::new(),
            thread: Path::default(),
            parked: VecDeque::new(),
            resumed: None,
            handed: None,
            task: 0,
            exchanged: HashMap::new(),
            first_sp: HashMap::new(),
            fault: LastException::default(),
            watermark: None,
            room: 0..0,
            last_sp: None,
            contexts: has_contexts.then(Contexts::default),
        }
    }

    /// Active functions of the executing context.
    pub fn path(&mut self) -> &mut Path {
        self.exceptions.last_mut().map_or(&mut self.thread, |active| &mut active.path)
    }

    /// Frames of the executing context.
    pub fn frames(&mut self) -> &mut Vec<Shadow> {
        &mut self.path().frames
    }

    /// Clock and open calls of the executing context.
    pub fn calls(&mut self) -> &mut Calls {
        &mut self.path().calls
    }

    /// Notes a stack pointer of the running task, outside exceptions.
    pub fn note_stack_pointer(&self, sp: u64, ledger: &Ledger<impl Counters>) {
        if let Some(watermark) = &self.watermark {
            watermark.note_stack_pointer(self.vcpu, sp, ledger);
        }
    }

    /// Notes the running task's stack pointer after an instruction that moved it, outside exceptions. Returns whether the
    /// instruction made the stack deeper than it is.
    pub fn moved(&mut self, sp: u64, ledger: &Ledger<impl Counters>) -> bool {
        self.note_stack_pointer(sp, ledger);
        let last = self.last_sp.replace(sp);
        self.watermark.zip(last).is_some_and(|(stack, last)| stack.is_left(last, sp))
    }

    /// Whether a stack pointer is in the room of the stack in use.
    pub fn is_in_room(&self, sp: u64) -> bool {
        sp >= self.room.start && sp <= self.room.end
    }

    /// Whether code uses a stack that a kernel describes, within so many of the active exceptions: the task's, on which the
    /// exceptions of all processors but a Cortex-M begin, too.
    pub fn is_on_tasks_stack(&self, exceptions: usize, isa: Isa) -> bool {
        self.watermark.is_some() && (exceptions == 0 || !isa.is_thumb())
    }

    /// Notes the stack pointer, if it is on the stack on which the firmware starts and deeper than before.
    pub fn note_main_stack(&self, sp: u64, guest: &mut Guest<impl Vcpu>, ledger: &Ledger<impl Counters>) {
        // Tasks have stacks of their own. Those are often below the main stack, so the depth would not tell.
        if self.task != 0 && self.exceptions.is_empty() {
            return;
        }
        let depth = sp.wrapping_neg();
        if depth > ledger.get(MAIN_DEPTH, self.vcpu) && guest.is_main_stack(sp, self.task != 0) {
            ledger.set(MAIN_DEPTH, self.vcpu, depth);
        }
    }

    /// Executing context, as zones are counted by.
    pub fn zone_context(&self) -> ContextKind {
        self.exceptions.last().map_or(ContextKind::Task(self.task), |active| ContextKind::Exception(active.number))
    }

    /// Counts the time since the last change of context for the context that executed them.
    pub fn advance(&mut self, ledger: &mut Ledger<impl Counters>) {
        let Some(contexts) = &mut self.contexts else { return };
        let time = ledger.time(self.vcpu);
        let amount = time.since(std::mem::replace(&mut contexts.counted, time));
        let waits = match self.exceptions.last_mut() {
            Some(active) => {
                active.nest.time += amount;
                contexts.count_exception((active.number, active.handler), self.vcpu, amount, ledger);
                active.nest.waiting.is_some()
            }
            None => contexts.count_task(self.task, self.vcpu, amount, ledger),
        };
        if waits {
            contexts.count_waiting(self.vcpu, amount.insns, ledger);
        }
    }

    /// Zones of the executing context; None: they are not kept.
    pub fn nest(&mut self) -> Option<&mut Nest> {
        let contexts = self.contexts.as_mut()?;
        match self.exceptions.last_mut() {
            Some(active) => Some(&mut active.nest),
            None => Some(contexts.threads.entry(self.task).or_default()),
        }
    }

    /// Zones of all contexts.
    pub fn nests(&self) -> impl Iterator<Item = &Nest> {
        let threads = self.contexts.iter().flat_map(|contexts| contexts.threads.values());
        threads.chain(self.exceptions.iter().map(|active| &active.nest))
    }

    /// Innermost zone as samples name it; 0: none.
    pub fn zone_path(&self) -> u32 {
        let thread = self.contexts.as_ref().and_then(|contexts| contexts.threads.get(&self.task));
        self.exceptions.last().map(|active| &active.nest).or(thread).map_or(0, Nest::path)
    }

    /// Opens the window: everything under way began before it.
    pub fn restart(&mut self) {
        self.fault.restart();
        if let Some(contexts) = &mut self.contexts {
            contexts.counted = Time::default();
            contexts.threads.values_mut().for_each(Nest::restart);
        }
        self.exceptions.iter_mut().for_each(|active| active.nest.restart());
        self.thread.calls.open.clear();
        self.parked.iter_mut().for_each(|parked| parked.path.calls.open.clear());
        for active in &mut self.exceptions {
            active.path.calls.open.clear();
            active.path.calls.began_before_window = true;
        }
    }
}
