//! Exceptions: which are active, and what each interrupted.
//!
//! A callback at each handler's first instruction notes the interrupted code's registers: hardware saved
//! them (Cortex-M) or they are all still there (RISC-V). With that a stack crosses into the interrupted
//! code whatever the handler has done since, in assembly without unwind information or on another stack.

use wire::counters::EXCEPTIONS;

use crate::clock::from_insn_id;
use crate::follow::span::{Calls, Moment};
use crate::follow::tree::Shadow;
use crate::qemu::{ExecCallback, Hook};
use crate::stack::{Context, is_exc_return};
use crate::state::{self, State};

/// More exceptions than ever nest: a handler that faults at its start for ever does not fill memory.
const MAX_NESTED: usize = 256;

/// Exception vectors of an Armv8-M core, at most: 16 of the system's and 480 interrupts.
const MAX_VECTORS: u64 = 496;

/// One vCPU's exceptions and its place in the exact tree.
#[derive(Default)]
pub(crate) struct Core {
    /// Active exceptions, the outermost first.
    pub(crate) exceptions: Vec<Active>,
    /// Functions of the code outside all exceptions, the outermost first; only for the exact tree.
    pub(crate) thread: Vec<Shadow>,
    /// Their clock.
    pub(crate) thread_calls: Calls,
    /// What comes and goes apart from calls; only with the exact tree.
    pub(crate) moment: Moment,
    /// Where a jump leads that is about to enter another function in its middle.
    pub(crate) crossing: Option<u64>,
    /// A jump to an unknown place is about to be made.
    pub(crate) jumping: bool,
    /// Return address of a call that is about to enter what is no known function.
    pub(crate) calling: Option<u64>,
    /// The running task.
    pub(crate) task: u32,
    /// Address of its control block.
    pub(crate) tcb: u64,
    /// Instructions when it was switched in.
    pub(crate) task_since: u64,
    /// Instructions that the exact tree has attributed.
    pub(crate) tree_insns: u64,
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
    /// The handler's functions, the outermost first; only for the exact tree.
    pub(crate) frames: Vec<Shadow>,
    /// Their clock.
    pub(crate) calls: Calls,
    /// Its node in the exact tree.
    pub(crate) node: u32,
    /// Another exception came before the handler's first instruction, which is still to come.
    pub(crate) is_preempted: bool,
}

/// An exception that the processor has taken.
struct Taken {
    number: u64,
    handler: u64,
    entry_sp: u64,
    interrupted: Option<Context>,
    /// Number of the exception that it interrupted, 0: none. Cortex-M only.
    below: u64,
}

impl Taken {
    /// Whether it is this one.
    fn is(&self, active: &Active) -> bool {
        let Active { number, handler, entry_sp, interrupted, .. } = *active;
        (number, handler, entry_sp, interrupted) == (self.number, self.handler, self.entry_sp, self.interrupted)
    }
}

/// At the start of a block that may be a handler's first.
pub(crate) struct OnException;

impl Hook for OnException {
    const CALL: ExecCallback = |vcpu, id| {
        let (block, index) = from_insn_id(id);
        let mut state = state::lock();
        let vcpu = state.running_vcpu(vcpu);
        let pc = state.blocks.get(block).pc_of(index);
        state.settle(vcpu);
        state.enter_exception(vcpu, pc);
    };
}

/// At a RISC-V trap return, before it executes.
pub(crate) struct OnTrapReturn;

impl Hook for OnTrapReturn {
    const CALL: ExecCallback = |vcpu, _| {
        let mut state = state::lock();
        let vcpu = state.running_vcpu(vcpu);
        // It is the handler's last instruction, and the clock has counted it.
        state.settle(vcpu);
        state.attribute(vcpu);
        let outer = state.cores[vcpu as usize].exceptions.len().saturating_sub(1);
        state.end_exceptions(vcpu, outer);
        state.mask_at_return(vcpu);
        state.exceptions_changed(vcpu);
    };
}

impl State {
    /// Whether a block at `pc` may be the first one of an exception, as things are when it is translated.
    pub(crate) fn may_be_handler(&mut self, pc: u64) -> bool {
        if self.unwinder.is_none() && self.tree.is_none() {
            return false;
        }
        if self.args.isa.is_riscv() {
            return self.is_trap_vector(pc);
        }
        if !self.functions.is_empty() && !self.is_entry(pc) {
            return false;
        }
        let table = self.vector_table();
        // The table ends where memory does, or later than it needs to.
        let length = self.args.memory.iter().find(|region| region.contains(&table)).map(|region| region.end - table);
        let bytes = self.memory(table, length.unwrap_or(0).min(4 * MAX_VECTORS) as usize).unwrap_or_default();
        bytes.as_chunks::<4>().0.iter().skip(2).any(|word| u64::from(u32::from_le_bytes(*word)) == pc | 1)
    }

    fn enter_exception(&mut self, vcpu: u32, pc: u64) {
        let Some(taken) = self.taken_exception(pc) else { return };
        self.attribute(vcpu);
        self.handler_starts(vcpu, taken.number);
        let exceptions = &mut self.cores[vcpu as usize].exceptions;
        if self.args.isa.is_riscv() {
            // A loop to the handler's start, or a trap at the handler's first instruction, is no deeper one.
            if exceptions.last().is_some_and(|top| taken.is(top)) {
                return;
            }
        } else if let Some(index) = exceptions.iter().rposition(|active| active.is_preempted && taken.is(active)) {
            exceptions[index].is_preempted = false;
            self.end_exceptions(vcpu, index + 1);
            return self.exceptions_changed(vcpu);
        }
        let mut taken = vec![taken];
        while taken.len() < MAX_NESTED
            && let Some(preempted) = self.preempted(vcpu, &taken[taken.len() - 1])
        {
            taken.push(preempted);
        }
        while let Some(next) = taken.pop() {
            self.push_exception(vcpu, next, !taken.is_empty());
        }
        self.enter_handler(vcpu, pc);
    }

    /// The exception that this one came before, so that nobody has noticed it. Cortex-M only: there a more
    /// urgent one may come while the registers are being saved.
    fn preempted(&mut self, vcpu: u32, taken: &Taken) -> Option<Taken> {
        let Context { pc: handler, sp: entry_sp, return_addr: exc_return, .. } = taken.interrupted?;
        if taken.below == 0 || !is_exc_return(exc_return) || !self.is_vector(taken.below, handler) {
            return None;
        }
        let preempted = self.saved_exception(taken.below, handler, entry_sp, exc_return);
        let is_known = self.cores[vcpu as usize].exceptions.iter().any(|active| preempted.is(active));
        (!is_known).then_some(preempted)
    }

    fn push_exception(&mut self, vcpu: u32, taken: Taken, is_preempted: bool) {
        let Taken { number, handler, entry_sp, interrupted, below } = taken;
        if !self.args.isa.is_riscv() {
            // What the frame does not name has returned, or this one follows it without a return between them
            // (tail-chaining).
            let named = self.cores[vcpu as usize].exceptions.iter().rposition(|active| active.number == below);
            self.end_exceptions(vcpu, named.map_or(0, |index| index + 1));
        }
        let core = &mut self.cores[vcpu as usize];
        if core.exceptions.len() >= MAX_NESTED {
            core.exceptions.remove(0);
        }
        if core.exceptions.is_empty()
            && let Some(interrupted) = interrupted
        {
            let frame_bytes = if self.args.isa.is_riscv() { 0 } else { 32 };
            self.note_stack_pointer(vcpu, interrupted.sp.wrapping_sub(frame_bytes));
        }
        if let Some(interrupted) = interrupted {
            self.catch_up(vcpu, interrupted);
        }
        let node = self.exception_node(vcpu, number);
        let active = Active {
            number,
            handler,
            entry_sp,
            interrupted,
            frames: Vec::new(),
            calls: Calls::default(),
            node,
            is_preempted,
        };
        self.cores[vcpu as usize].exceptions.push(active);
        self.exceptions_changed(vcpu);
    }

    /// The exception whose handler starts at `pc`, and what it interrupted.
    fn taken_exception(&mut self, pc: u64) -> Option<Taken> {
        if self.args.isa.is_riscv() {
            let (cause, epc) = if self.supervisor() { ("scause", "sepc") } else { ("mcause", "mepc") };
            let (cause, epc) = (self.register(cause), self.register(epc));
            let number = if self.args.isa == decode::Isa::Riscv32 {
                (cause & 0x7fff_ffff) | (cause & 0x8000_0000) << 32
            } else {
                cause
            };
            // Only where this very trap leads; the rest of the table may be other code.
            let (base, is_vectored) = self.trap_vector();
            let interrupt = number.checked_sub(1 << 63).filter(|_| is_vectored);
            if pc != base.wrapping_add(interrupt.unwrap_or(0).wrapping_mul(4)) {
                return None;
            }
            let interrupted = Some(Context { pc: epc, ..self.context(pc) });
            return Some(Taken { number, handler: pc, entry_sp: self.stack_pointer(), interrupted, below: 0 });
        }
        let Context { sp, return_addr: exc_return, .. } = self.context(pc);
        let number = self.exception_number();
        (number != 0 && is_exc_return(exc_return)).then(|| self.saved_exception(number, pc, sp, exc_return))
    }

    /// The exception of a Cortex-M whose handler starts with these values of sp and lr.
    fn saved_exception(&mut self, number: u64, handler: u64, entry_sp: u64, exc_return: u64) -> Taken {
        let frame = if exc_return & 4 != 0 { self.register("psp") } else { entry_sp };
        let below = self.memory_word(frame + 28, 4).unwrap_or(0) & 0x1ff;
        Taken { number, handler, entry_sp, interrupted: self.hardware_frame(frame, exc_return), below }
    }

    /// Reads what a Cortex-M saved at `frame` (Armv7-M ARM B1.5.6 and B1.5.7).
    pub(crate) fn hardware_frame(&mut self, frame: u64, exc_return: u64) -> Option<Context> {
        let words = self.memory(frame, 32)?;
        let word =
            |index: usize| words.get(index * 4..)?.first_chunk().map(|&word| u64::from(u32::from_le_bytes(word)));
        let (return_addr, pc, xpsr) = (word(5)?, word(6)?, word(7)?);
        // Bit 4 clear: room for s0-s15 and FPSCR. Bit 9 of xPSR: one word of padding.
        let frame_bytes = if exc_return & 0x10 == 0 { 26 * 4 } else { 8 * 4 };
        let sp = frame + frame_bytes + if xpsr & 1 << 9 != 0 { 4 } else { 0 };
        Some(Context { pc: pc & !1, sp, return_addr, frame_pointer: self.general_register(7) })
    }

    /// Forgets the exceptions that have returned unseen: on a Cortex-M the processor says which one is
    /// active, on RISC-V each return is seen.
    pub(crate) fn leave_exceptions(&mut self, vcpu: u32) {
        if self.args.isa.is_riscv() || self.cores[vcpu as usize].exceptions.is_empty() {
            return;
        }
        let number = self.exception_number();
        let sp = self.stack_pointer();
        let exceptions = &self.cores[vcpu as usize].exceptions;
        // In a handler the stack pointer is at or below where it started; number 0 is in none.
        let live = |active: &Active| number != 0 && active.number == number && sp <= active.entry_sp;
        if exceptions.last().is_some_and(live) {
            return;
        }
        let kept = exceptions.iter().rposition(live).map_or(0, |index| index + 1);
        self.attribute(vcpu);
        self.end_exceptions(vcpu, kept);
        self.exceptions_changed(vcpu);
    }

    /// Lets generated code and the records know.
    pub(crate) fn exceptions_changed(&mut self, vcpu: u32) {
        if self.tree.is_some() {
            let count = self.cores[vcpu as usize].exceptions.len() as u64;
            self.records.counter(EXCEPTIONS, vcpu).store(count, std::sync::atomic::Ordering::Relaxed);
            self.node_changed(vcpu);
        }
    }
}
