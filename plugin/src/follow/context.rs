//! What each vCPU executes: a task's code, or the handlers of exceptions above it. Each of these is a context of
//! its own, with the functions that are active in it.

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
    /// The running task, 0: none.
    pub(crate) task: u32,
    /// Stack use of the running task.
    pub(crate) watermark: Option<Watermark>,
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
    /// The handler's code; only for the exact tree.
    pub(crate) path: Path,
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

/// A function on a shadow stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shadow {
    pub(crate) entry: u64,
    pub(crate) entry_sp: u64,
    pub(crate) return_addr: u64,
    /// It was not called, and it may set up or switch its stack: the stack pointer does not say when it ends.
    pub(crate) is_root: bool,
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
}

impl Active {
    /// Whether the processor has taken this very exception.
    pub(crate) fn is(&self, taken: &Taken) -> bool {
        let Taken { number, handler, entry_sp, interrupted, .. } = *taken;
        (self.number, self.handler, self.entry_sp, self.interrupted) == (number, handler, entry_sp, interrupted)
    }
}

impl Shadow {
    /// Whether the stack pointer says that the function is no more.
    pub(crate) fn is_dead(&self, sp: u64) -> bool {
        self.entry_sp < sp && !self.is_root
    }
}

impl Core {
    /// A vCPU of which nothing has been seen.
    pub(crate) fn new(vcpu: u32) -> Core {
        Core { vcpu, exceptions: Vec::new(), thread: Path::default(), task: 0, watermark: None }
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

    /// The window opens: what is under way began before it.
    pub(crate) fn restart(&mut self) {
        self.thread.calls.open.clear();
        for active in &mut self.exceptions {
            active.path.calls.open.clear();
            active.path.calls.began_before_window = true;
        }
    }
}
