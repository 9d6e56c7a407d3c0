//! What each vCPU executes: a task's code, or the handlers of exceptions above it. Each of these is a context of
//! its own, with the functions that are active in it.

use std::collections::VecDeque;

use wire::zone::ContextKind;

use super::activation::Activation;
use super::fault::LastException;
use super::nest::{Contexts, Nest};
use super::watermark::Watermark;
use crate::guest::{Context, Taken};
use crate::ledger::Ledger;

/// What one vCPU executes.
pub(crate) struct Core {
    pub(crate) vcpu: u32,
    /// Active exceptions, the outermost first.
    pub(crate) exceptions: Vec<Active>,
    /// The code outside all exceptions; only for the exact tree.
    pub(crate) thread: Path,
    /// Such code that something else executes in place of, the oldest first; only for the exact tree.
    pub(crate) parked: VecDeque<Parked>,
    /// What the exception had interrupted that has just returned; only for the exact tree.
    pub(crate) resumed: Option<Context>,
    /// The running task, 0: none.
    pub(crate) task: u32,
    /// The exception that came last, as far as it alone has executed since.
    pub(crate) fault: LastException,
    /// Stack use of the running task.
    pub(crate) watermark: Option<Watermark>,
    /// The clocks and zones of what is no exception; None: they are not kept.
    contexts: Option<Contexts>,
}

/// An exception whose handler has started and not returned.
pub(crate) struct Active {
    /// Exception number, or cause with the highest of 64 bits for interrupts.
    pub(crate) number: u64,
    /// First address of the handler.
    pub(crate) handler: u64,
    /// The stack pointer that it started with.
    pub(crate) entry_sp: u64,
    /// What goes on after it. None: a task that has not run yet.
    pub(crate) interrupted: Option<Context>,
    /// The vCPU's instructions as it was taken.
    pub(crate) began_at: u64,
    /// The handler's code; only for the exact tree.
    pub(crate) path: Path,
    /// Its zones.
    pub(crate) nest: Nest,
    /// Its node in the exact tree.
    pub(crate) node: u32,
    /// Another exception came before the handler's first instruction, which is still to come.
    pub(crate) is_preempted: bool,
}

/// The functions that are active in one context.
#[derive(Default)]
pub(crate) struct Path {
    /// The outermost first.
    pub(crate) frames: Vec<Shadow>,
    pub(crate) calls: Calls,
}

/// Code on a stack of its own (a coroutine, a task of a kernel that is not known) which waits to go on.
pub(crate) struct Parked {
    /// Where it goes on, and with which stack pointer.
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    pub(crate) task: u32,
    pub(crate) path: Path,
}

/// A function on a shadow stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shadow {
    pub(crate) entry: u64,
    pub(crate) entry_sp: u64,
    pub(crate) return_addr: u64,
    /// A helper with a link register of its own, which may return with another stack pointer (millicode).
    pub(crate) is_helper: bool,
    /// Its node in the exact tree.
    pub(crate) node: u32,
}

/// One context's clock and open calls.
#[derive(Default)]
pub(crate) struct Calls {
    /// Instructions of this context alone.
    pub(crate) insns: u64,
    /// The outermost first.
    pub(crate) open: Vec<Call>,
    pub(crate) began_before_window: bool,
}

/// A call whose end is awaited.
pub(crate) struct Call {
    pub(crate) entry: u64,
    /// First counter of its function's calls.
    pub(crate) slot: u32,
    /// Length of the shadow stack that it lives with: functions that follow each other by tail calls have one.
    pub(crate) depth: usize,
    /// The context's clock at its entry.
    pub(crate) since: u64,
    /// The vCPU's.
    pub(crate) began_at: u64,
}

impl Active {
    /// Whether the processor has taken this very exception.
    pub(crate) fn is(&self, taken: &Taken) -> bool {
        let Taken { number, handler, entry_sp, interrupted, .. } = *taken;
        (self.number, self.handler, self.entry_sp, self.interrupted) == (number, handler, entry_sp, interrupted)
    }
}

/// What a function may take off its caller's stack as it returns: `__gnu_mcount_nc` a word.
const MAX_TAKEN_BYTES: u64 = 16;

impl Shadow {
    /// Whether code that goes on at `pc` with this stack pointer is what this function returns to.
    pub(crate) fn returns_to(&self, pc: u64, sp: u64) -> bool {
        self.return_addr == pc && (self.is_helper || sp.wrapping_sub(self.entry_sp) <= MAX_TAKEN_BYTES)
    }

    /// Whether this is the same activation of the same function.
    pub(crate) fn is_same(&self, other: &Shadow) -> bool {
        (self.entry, self.entry_sp, self.return_addr) == (other.entry, other.entry_sp, other.return_addr)
    }

    /// Whether this is the activation whose frame starts there and returns there.
    pub(crate) fn is(&self, activation: Activation) -> bool {
        (self.entry_sp, self.return_addr) == (activation.cfa, activation.return_addr)
    }
}

impl Parked {
    /// Whether this is what goes on in a task at that pc and stack pointer, in that activation if it is known.
    pub(crate) fn is(&self, task: u32, at: (u64, u64), activation: Option<Activation>) -> bool {
        let has_activation = |activation| self.path.frames.iter().any(|frame| frame.is(activation));
        self.task == task && ((self.pc, self.sp) == at || activation.is_some_and(has_activation))
    }
}

impl Core {
    /// A vCPU of which nothing has been seen.
    pub(crate) fn new(vcpu: u32, has_contexts: bool) -> Core {
        Core {
            vcpu,
            exceptions: Vec::new(),
            thread: Path::default(),
            parked: VecDeque::new(),
            resumed: None,
            task: 0,
            fault: LastException::default(),
            watermark: None,
            contexts: has_contexts.then(Contexts::default),
        }
    }

    /// The context that executes.
    pub(crate) fn path(&mut self) -> &mut Path {
        self.exceptions.last_mut().map_or(&mut self.thread, |active| &mut active.path)
    }

    /// Functions that are active in the context that executes.
    pub(crate) fn frames(&mut self) -> &mut Vec<Shadow> {
        &mut self.path().frames
    }

    /// Clock of the context that executes.
    pub(crate) fn calls(&mut self) -> &mut Calls {
        &mut self.path().calls
    }

    /// A stack pointer of the running task's, outside exceptions.
    pub(crate) fn note_stack_pointer(&self, sp: u64, ledger: &Ledger) {
        if let Some(watermark) = &self.watermark {
            watermark.note_stack_pointer(self.vcpu, sp, ledger);
        }
    }

    /// What executes, as zones are told apart by it.
    pub(crate) fn zone_context(&self) -> ContextKind {
        self.exceptions.last().map_or(ContextKind::Task(self.task), |active| ContextKind::Exception(active.number))
    }

    /// Counts what was executed since the last change of contexts for the one that executed it.
    pub(crate) fn advance(&mut self, ledger: &mut Ledger) {
        let Some(contexts) = &mut self.contexts else { return };
        let insns = ledger.insns(self.vcpu);
        let amount = insns.saturating_sub(std::mem::replace(&mut contexts.counted_insns, insns));
        match self.exceptions.last_mut() {
            Some(active) => {
                active.nest.insns += amount;
                contexts.count_exception((active.number, active.handler), self.vcpu, amount, ledger);
            }
            None => contexts.count_task(self.task, self.vcpu, amount, ledger),
        }
    }

    /// Zones of the context that executes; None: they are not kept.
    pub(crate) fn nest(&mut self) -> Option<&mut Nest> {
        let contexts = self.contexts.as_mut()?;
        match self.exceptions.last_mut() {
            Some(active) => Some(&mut active.nest),
            None => Some(contexts.threads.entry(self.task).or_default()),
        }
    }

    /// Zones of all contexts.
    pub(crate) fn nests(&self) -> impl Iterator<Item = &Nest> {
        let threads = self.contexts.iter().flat_map(|contexts| contexts.threads.values());
        threads.chain(self.exceptions.iter().map(|active| &active.nest))
    }

    /// The innermost zone, as samples name it; 0: none.
    pub(crate) fn zone_path(&self) -> u32 {
        let thread = self.contexts.as_ref().and_then(|contexts| contexts.threads.get(&self.task));
        self.exceptions.last().map(|active| &active.nest).or(thread).map_or(0, Nest::path)
    }

    /// The window opens: what is under way began before it.
    pub(crate) fn restart(&mut self) {
        self.fault.restart();
        if let Some(contexts) = &mut self.contexts {
            contexts.counted_insns = 0;
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
