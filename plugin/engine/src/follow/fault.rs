// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last exception, as long as only its handler has executed since: firmware that has faulted for good would look
//! busy otherwise.
//!
//! A handler that returns to an instruction which faults again has the same exception once more; so has one that
//! faults itself before it returns. The clock proves that nothing else has executed in between.

use decode::{Flow, decode};
use wire::control::Word;
use wire::counters::FAULTED;

use crate::code::Code;
use crate::guest::{Context, Guest, Taken, Vcpu};
use crate::ledger::{Counters, Ledger};

/// The last exception, if any; see the module.
#[derive(Default)]
pub struct LastException(Option<Entry>);

/// An exception with its repetitions.
struct Entry {
    /// Number of the last one; the code that it interrupted follows.
    number: u64,
    handler: u64,
    interrupted: Option<Context>,
    entry_sp: u64,
    /// Fault information of the first one, if it is a fault.
    fault: Option<Vec<(Word, u64)>>,
    /// Number of the first one.
    first_number: u64,
    first_handler: u64,
    first_pc: u64,
    first_return_addr: u64,
    /// The first one's stack pointer, if it points to no memory.
    left_sp: Option<u64>,
    since_insns: u64,
    times: u64,
    /// Clock at the last known start of the handler.
    seen_insns: u64,
    /// Clock at the handler's last possible return.
    returned_insns: Option<u64>,
    /// Whether its first instruction jumps to itself.
    stays: bool,
}

/// Most instructions of a handler that is only a loop.
const LOOP_INSNS: u64 = 16;

impl Entry {
    fn is(&self, taken: &Taken) -> bool {
        let &Taken { number, handler, entry_sp, interrupted, .. } = taken;
        (self.number, self.handler, self.entry_sp, self.interrupted) == (number, handler, entry_sp, interrupted)
    }

    /// Whether only the instruction that it returned to has executed since its return.
    fn has_just_returned(&self, insns: u64) -> bool {
        self.returned_insns.is_some_and(|at| insns.saturating_sub(at) <= 1)
    }

    /// Whether it has come several times, and the handler has taken no longer yet than usual.
    fn comes_again(&self, insns: u64) -> bool {
        let usual = self.seen_insns.saturating_sub(self.since_insns).checked_div(self.times - 1);
        usual.is_some_and(|usual| insns.saturating_sub(self.seen_insns) <= 2 * usual)
    }

    /// Reports the exception to the harness.
    fn note(&self, ledger: &Ledger<impl Counters>) {
        ledger.say(Word::ExceptionNumber, self.first_number);
        ledger.say(Word::ExceptionHandler, self.first_handler);
        ledger.say(Word::ExceptionSince, self.since_insns);
        ledger.say(Word::ExceptionPc, self.first_pc);
        ledger.say(Word::ExceptionLink, self.first_return_addr);
        ledger.say(Word::ExceptionSp, self.left_sp.unwrap_or(0));
        if let Some(fault) = &self.fault {
            fault.iter().for_each(|&(word, value)| ledger.say(word, value));
            ledger.say(Word::Fault, 1);
        }
        ledger.say(Word::ExceptionTimes, self.times);
    }

    /// Whether its handler has started and not returned, as far as the processor shows.
    fn is_active(&self, guest: &mut Guest<impl Vcpu>) -> bool {
        match guest.active_exception() {
            Some(number) => number == self.number,
            // Code that probes for a device gives traps another handler for a moment.
            None => self.returned_insns.is_none() && guest.epoch_without_exception(self.handler).is_none(),
        }
    }

    /// Whether the handler has only jumped to its own start, as many vendors' handlers do for ever. A handler whose
    /// first instruction was interrupted by the exception itself has not jumped.
    fn goes_round(&self, insns: u64) -> bool {
        let traps_itself = self.interrupted.is_some_and(|interrupted| interrupted.pc == self.handler);
        !traps_itself && self.returned_insns.is_none() && insns.saturating_sub(self.seen_insns) <= LOOP_INSNS
    }
}

impl LastException {
    /// Handles the start of a handler. Returns false if it has only jumped to its own start.
    pub fn enter(
        &mut self,
        vcpu: u32,
        taken: &Taken,
        guest: &mut Guest<impl Vcpu>,
        code: &Code,
        ledger: &Ledger<impl Counters>,
    ) -> bool {
        let &Taken { number, handler, entry_sp, interrupted, .. } = taken;
        let insns = ledger.insns(vcpu);
        if let Some(last) = self.0.as_mut().filter(|last| last.is(taken) && last.goes_round(insns)) {
            last.seen_insns = insns;
            return !last.stays;
        }
        let fault = guest.fault(number);
        let first = guest.memory(handler, 4).or_else(|| guest.memory(handler, 2));
        let stays =
            first.is_some_and(|bytes| decode(guest.isa, handler, &bytes).flow == Flow::Jump { target: handler });
        ledger.set(FAULTED, vcpu, u64::from(fault.is_some()));
        let is_again = |last: &Entry| {
            if fault.is_none() || last.fault.is_none() {
                return false;
            }
            let is_same = last.number == number && last.interrupted == interrupted;
            if let Some(returned) = last.returned_insns
                && is_same
                && insns.saturating_sub(returned) <= 1
            {
                // The instruction that it returned to has started, and none after that.
                return true;
            }
            match taken.below {
                Some(below) => below == last.number,
                // If the processor does not tell, handlers may be left by a jump to where the firmware continues.
                None => {
                    let in_handler = interrupted.and_then(|context| code.function_of(context.pc));
                    let in_handler = in_handler.is_some() && in_handler == code.function_of(last.handler);
                    last.returned_insns.is_none() && (is_same || in_handler || entry_sp < last.entry_sp)
                }
            }
        };
        if let Some(last) = self.0.as_mut().filter(|last| is_again(last)) {
            last.times += 1;
            (last.number, last.interrupted, last.handler, last.entry_sp) = (number, interrupted, handler, entry_sp);
            (last.seen_insns, last.returned_insns) = (insns, None);
            last.stays = stays;
            return true;
        }
        let (first_pc, first_return_addr) = interrupted.map_or((0, 0), |context| (context.pc, context.return_addr));
        // Where the processor could not save registers, its own attempt is the nearest.
        let sp = interrupted.map_or(entry_sp, |context| context.sp);
        self.0 = Some(Entry {
            number,
            handler,
            interrupted,
            entry_sp,
            fault,
            first_number: number,
            first_handler: handler,
            first_pc,
            first_return_addr,
            left_sp: Some(sp).filter(|&sp| guest.is_off_memory(sp)),
            since_insns: insns,
            times: 1,
            seen_insns: insns,
            returned_insns: None,
            stays,
        });
        true
    }

    /// Notes an instruction, counted by the clock, at which the handler may return.
    pub fn may_return(&mut self, vcpu: u32, ledger: &Ledger<impl Counters>) {
        if let Some(last) = &mut self.0 {
            last.returned_insns = Some(ledger.insns(vcpu));
        }
    }

    /// Opens the window: counting starts again there.
    pub fn restart(&mut self) {
        if let Some(last) = &mut self.0 {
            (last.since_insns, last.seen_insns, last.times) = (0, 0, 1);
            last.returned_insns = last.returned_insns.map(|_| 0);
        }
    }

    /// Address of the last handler, and its first stack pointer.
    pub fn handler(&self) -> Option<(u64, u64)> {
        self.0.as_ref().map(|last| (last.handler, last.entry_sp))
    }

    /// Whether the handler of a fault is active, and no interrupt can come: a loop that it cannot leave is the end.
    /// `has_left`: by the stack, the handler was left by a jump.
    pub fn is_final(&self, has_left: bool, guest: &mut Guest<impl Vcpu>) -> bool {
        let Some(last) = self.0.as_ref().filter(|last| last.fault.is_some() && !has_left) else { return false };
        last.is_active(guest) && !guest.may_be_interrupted()
    }

    /// Reports the exception if nothing else has executed up to the end. `has_left`: by the stack, the handler was
    /// left by a jump, if it was active.
    pub fn note(&self, vcpu: u32, has_left: bool, guest: &mut Guest<impl Vcpu>, ledger: &Ledger<impl Counters>) {
        let Some(last) = &self.0 else { return };
        if last.is_active(guest) && !has_left || last.has_just_returned(ledger.insns(vcpu)) {
            let yields = last.fault.is_none() && guest.may_be_interrupted();
            ledger.say(Word::ExceptionYields, u64::from(yields));
            last.note(ledger);
        }
    }

    /// Reports it as [`LastException::note`] does, where the host ends the run and the processor's state cannot be
    /// read. Only faults are reported whose handler has certainly not been left. `by_jump`: exceptions return only by
    /// jumps, which are noticed.
    pub fn note_unasked(&self, vcpu: u32, by_jump: bool, ledger: &Ledger<impl Counters>) {
        let Some(last) = self.0.as_ref().filter(|last| last.fault.is_some()) else { return };
        let insns = ledger.insns(vcpu);
        let stays = last.stays && last.goes_round(insns) || last.comes_again(insns);
        if last.has_just_returned(insns) || stays || by_jump && last.returned_insns.is_none() {
            last.note(ledger);
        }
    }
}
