//! The exception that came last, as far as nothing but its handler has executed since: firmware that has faulted and
//! will never do anything else again looks busy otherwise.
//!
//! A handler that returns to the instruction that faulted, which faults again, is the same exception once more; so is
//! one that faults itself before it returns. That nothing else has executed between is proved by the clock.

use decode::{Flow, decode};
use wire::control::Word;
use wire::counters::FAULTED;

use crate::code::Code;
use crate::guest::{Context, Guest, Taken, Vcpu};
use crate::ledger::{Counters, Ledger};

/// See the module.
#[derive(Default)]
pub struct LastException(Option<Entry>);

/// An exception that has come.
struct Entry {
    /// The one that came last, and what it interrupted.
    number: u64,
    handler: u64,
    interrupted: Option<Context>,
    entry_sp: u64,
    /// What the processor says of the first, if it is a fault.
    fault: Option<Vec<(Word, u64)>>,
    /// The first one's.
    first_number: u64,
    first_handler: u64,
    first_pc: u64,
    since_insns: u64,
    times: u64,
    /// The clock where the handler was last seen at its start.
    seen_insns: u64,
    /// The clock where the handler last may have returned.
    returned_insns: Option<u64>,
    /// Its first instruction jumps to itself.
    stays: bool,
}

/// Most instructions of a loop that a handler consists of.
const LOOP_INSNS: u64 = 16;

impl Entry {
    fn is(&self, taken: &Taken) -> bool {
        let &Taken { number, handler, entry_sp, interrupted, .. } = taken;
        (self.number, self.handler, self.entry_sp, self.interrupted) == (number, handler, entry_sp, interrupted)
    }

    /// Whether nothing has executed since it returned but what it returned to.
    fn has_just_returned(&self, insns: u64) -> bool {
        self.returned_insns.is_some_and(|at| insns.saturating_sub(at) <= 1)
    }

    /// Whether it has come several times, and its handler has not taken longer yet than it usually did.
    fn comes_again(&self, insns: u64) -> bool {
        let usual = self.seen_insns.saturating_sub(self.since_insns).checked_div(self.times - 1);
        usual.is_some_and(|usual| insns.saturating_sub(self.seen_insns) <= 2 * usual)
    }

    /// Lets the harness know.
    fn note(&self, ledger: &Ledger<impl Counters>) {
        ledger.say(Word::ExceptionNumber, self.first_number);
        ledger.say(Word::ExceptionHandler, self.first_handler);
        ledger.say(Word::ExceptionSince, self.since_insns);
        ledger.say(Word::ExceptionPc, self.first_pc);
        if let Some(fault) = &self.fault {
            fault.iter().for_each(|&(word, value)| ledger.say(word, value));
            ledger.say(Word::Fault, 1);
        }
        ledger.say(Word::ExceptionTimes, self.times);
    }

    /// Whether the handler has only jumped to its own start, as that of many a vendor does for ever. One whose first
    /// instruction was interrupted by the exception itself has not come to a jump.
    fn goes_round(&self, insns: u64) -> bool {
        let traps_itself = self.interrupted.is_some_and(|interrupted| interrupted.pc == self.handler);
        !traps_itself && self.returned_insns.is_none() && insns.saturating_sub(self.seen_insns) <= LOOP_INSNS
    }
}

impl LastException {
    /// A handler starts. Whether it does: it may only have jumped to its own start.
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
                // What it returned to has started, and nothing after that.
                return true;
            }
            match taken.below {
                Some(below) => below == last.number,
                // Where the processor does not say so, handlers may be left by a jump to where the firmware goes on.
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
        let first_pc = interrupted.map_or(0, |context| context.pc);
        self.0 = Some(Entry {
            number,
            handler,
            interrupted,
            entry_sp,
            fault,
            first_number: number,
            first_handler: handler,
            first_pc,
            since_insns: insns,
            times: 1,
            seen_insns: insns,
            returned_insns: None,
            stays,
        });
        true
    }

    /// The handler may be about to return, at an instruction that the clock has counted.
    pub fn may_return(&mut self, vcpu: u32, ledger: &Ledger<impl Counters>) {
        if let Some(last) = &mut self.0 {
            last.returned_insns = Some(ledger.insns(vcpu));
        }
    }

    /// The window opens: what came before it has executed since its start.
    pub fn restart(&mut self) {
        if let Some(last) = &mut self.0 {
            (last.since_insns, last.seen_insns, last.times) = (0, 0, 1);
            last.returned_insns = last.returned_insns.map(|_| 0);
        }
    }

    /// The handler that came last, and the stack pointer that it started with.
    pub fn handler(&self) -> Option<(u64, u64)> {
        self.0.as_ref().map(|last| (last.handler, last.entry_sp))
    }

    /// Lets the harness know, where nothing else has executed up to the end. `has_left`: the stack says that the
    /// handler was left by a jump, if it was entered on it.
    pub fn note(&self, vcpu: u32, has_left: bool, guest: &mut Guest<impl Vcpu>, ledger: &Ledger<impl Counters>) {
        let Some(last) = &self.0 else { return };
        let is_active = match guest.active_exception() {
            Some(number) => number == last.number,
            // Code that asks whether something is there gives traps a place to go on at, and takes it back.
            None => last.returned_insns.is_none() && guest.epoch_without_exception(last.handler).is_none(),
        };
        if is_active && !has_left || last.has_just_returned(ledger.insns(vcpu)) {
            let yields = last.fault.is_none() && guest.may_be_interrupted();
            ledger.say(Word::ExceptionYields, u64::from(yields));
            last.note(ledger);
        }
    }

    /// The same where the host ends the run: the processor cannot be asked then, so that only faults are noted whose
    /// handler has certainly not been left. `by_jump`: an exception can only be left by a return, which is seen.
    pub fn note_unasked(&self, vcpu: u32, by_jump: bool, ledger: &Ledger<impl Counters>) {
        let Some(last) = self.0.as_ref().filter(|last| last.fault.is_some()) else { return };
        let insns = ledger.insns(vcpu);
        let stays = last.stays && last.goes_round(insns) || last.comes_again(insns);
        if last.has_just_returned(insns) || stays || by_jump && last.returned_insns.is_none() {
            last.note(ledger);
        }
    }
}
