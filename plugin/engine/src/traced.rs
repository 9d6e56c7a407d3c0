//! Events that only the timeline needs: calls of traced functions, and the firmware's output. Other parts pass their
//! events (tasks, exceptions, zones, masked interrupts) to the ledger themselves.
//!
//! A call is noticed at its function's first instruction, and its return awaited ([`crate::follow::watched`]). If a
//! call has gone from its stack when another call is made there, it was left without a return.

use std::collections::{HashMap, HashSet};
use std::fs::File;

use wire::request::Request;
use wire::timeline::What;

use crate::code::Code;
use crate::follow::context::Core;
use crate::follow::watched::{Call, Ended, Open, StackId, Watched};
use crate::guest::{Context, Guest, Vcpu};
use crate::ledger::{Counters, Ledger};
use crate::marks::printed;

/// Most calls under way; the oldest is given up.
const MAX_OPEN: usize = 1 << 14;

/// State of the events that only the timeline needs.
pub struct Traced {
    /// Numbers of the traced functions, by their entries.
    functions: HashMap<u64, u32>,
    /// Traced functions with a jump to their own entry, among the code translated so far.
    loops: HashSet<u64>,
    /// Last count of the calls of such a function, by entry, return address and vCPU.
    seen_calls: HashMap<(u64, u64, u32), u64>,
    /// Calls under way: the number of the function, and the vCPU.
    calls: Watched<(u32, u32)>,
    console: Console,
}

/// The firmware's output.
struct Console {
    path: String,
    file: Option<File>,
    bytes: u64,
}

impl Traced {
    /// State before any event; None: there is no timeline.
    pub fn new(request: &Request) -> Option<Traced> {
        let measure = request.measure()?;
        let wanted = measure.timeline.as_ref()?;
        Some(Traced {
            functions: wanted.functions.iter().copied().zip(0..).collect(),
            loops: HashSet::new(),
            seen_calls: HashMap::new(),
            calls: Watched::new(measure.kernel.is_some()),
            console: Console { path: printed(request), file: None, bytes: 0 },
        })
    }

    /// Whether any function is traced.
    pub fn traces(&self) -> bool {
        !self.functions.is_empty()
    }

    /// Whether the function that starts at this address is traced.
    pub fn traces_at(&self, pc: u64) -> bool {
        self.functions.contains_key(&pc)
    }

    /// Notes an instruction that may jump to its own function's entry, which is not a call.
    pub fn loops_to(&mut self, entry: u64, ledger: &Ledger<impl Counters>) {
        if self.traces_at(entry) && self.loops.insert(entry) {
            for open in self.calls.open().iter().filter(|open| open.call.entry == entry) {
                let (return_addr, (_, vcpu)) = (open.call.return_addr, open.payload);
                let calls = ledger.calls(entry, return_addr, vcpu);
                self.seen_calls.insert((entry, return_addr, vcpu), calls);
            }
        }
    }

    /// Whether a function with a loop has been called since the last check.
    fn is_called_again(&mut self, entry: u64, return_addr: u64, vcpu: u32, ledger: &Ledger<impl Counters>) -> bool {
        let calls = ledger.calls(entry, return_addr, vcpu);
        self.seen_calls.insert((entry, return_addr, vcpu), calls).is_some_and(|seen| seen != calls)
    }

    /// Counter of the calls expected to return to an address.
    pub fn awaited_at(&mut self, pc: u64, ledger: &mut Ledger<impl Counters>) -> u32 {
        self.calls.awaited_at(pc, ledger)
    }

    /// Handles the first instruction of a traced function, before it is counted.
    pub fn enter(
        &mut self,
        pc: u64,
        core: &Core,
        guest: &mut Guest<impl Vcpu>,
        code: &Code,
        ledger: &mut Ledger<impl Counters>,
    ) {
        let Some(&function) = self.functions.get(&pc) else { return };
        let Context { sp, return_addr, .. } = guest.context(pc);
        let return_addr = guest.code_address(return_addr);
        let (vcpu, place) = (core.vcpu, StackId::of(core));
        let call = Call { place, entry: pc, sp, return_addr, began_insns: ledger.insns(vcpu) };
        if matches!(place, StackId::Exception { .. }) && self.calls.innermost(place).is_none() {
            self.calls.forget_exceptions(core, ledger);
        }
        // A turn of the function's loop is not a call. But if the function was left without a return and called again
        // from the same place, that is a call. The count of executed calls shows the difference.
        let is_turn = self.loops.contains(&pc) && !self.is_called_again(pc, return_addr, vcpu, ledger);
        while let Some(index) = self.calls.innermost(place) {
            let top = self.calls.open()[index].call;
            if call.is_again(&top) || (is_turn && call.is_in_place_of(&top) && top.entry == pc) {
                return;
            }
            // A nested call, a tail call, or a call by a function that never returns and has no frame.
            let is_within = top.sp > sp
                || (call.is_in_place_of(&top) && top.entry != pc)
                || (top.sp == sp && code.function_of(return_addr.wrapping_sub(1)) == Some(top.entry));
            if is_within && !(call.is_in_place_of(&top) && top.entry == pc) {
                break;
            }
            let open = self.calls.remove(index, ledger);
            // The new call replaced its frame.
            if call.is_in_place_of(&top) { unwound(open, ledger) } else { self.lose(open, ledger) }
        }
        // The same applies to parked calls.
        let is_replaced = |open: &Open<(u32, u32)>| {
            open.is_gone && open.call.place == place && open.call.entry == pc && call.is_in_place_of(&open.call)
        };
        while let Some(index) = self.calls.open().iter().position(is_replaced) {
            unwound(self.calls.remove(index, ledger), ledger);
        }
        ledger.happened(vcpu, What::Called { function });
        let awaits = guest.is_exception_return(return_addr) != Some(true);
        self.calls.push(call, awaits, (function, vcpu), ledger);
        if self.calls.open().len() > MAX_OPEN {
            self.calls.remove(0, ledger);
        }
    }

    /// Handles an address that a traced function may have returned to, before it is counted.
    pub fn leave(&mut self, pc: u64, core: &Core, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        for ended in self.calls.leave(StackId::of(core), (pc, guest.stack_pointer()), core, ledger) {
            match ended {
                Ended::Returned(Open { payload: (function, vcpu), .. }) => {
                    ledger.happened(vcpu, What::Returned { function });
                }
                Ended::Left(open) => self.lose(open, ledger),
            }
        }
    }

    /// Handles a removed call that seems to have gone from its stack.
    fn lose(&mut self, open: Open<(u32, u32)>, ledger: &mut Ledger<impl Counters>) {
        if self.calls.is_certain(open.call.place) { unwound(open, ledger) } else { self.calls.park(open, ledger) }
    }

    /// Opens the window: calls under way began before it, and their counters have been cleared.
    pub fn restart(&mut self) {
        self.calls.clear();
        self.seen_calls.clear();
        self.console.look();
    }

    /// Checks whether the firmware has printed.
    pub fn look(&mut self, vcpu: u32, ledger: &mut Ledger<impl Counters>) {
        let bytes = self.console.look();
        if bytes > 0 {
            ledger.happened(vcpu, What::Printed { bytes });
        }
    }
}

/// Writes that a call was left without a return.
fn unwound(open: Open<(u32, u32)>, ledger: &mut Ledger<impl Counters>) {
    let (function, vcpu) = open.payload;
    ledger.happened(vcpu, What::Unwound { function });
}

impl Console {
    /// Bytes printed since the last check. QEMU writes them on the thread that executes the guest.
    fn look(&mut self) -> u64 {
        // QEMU opens the file after the plugin is installed, and never if the machine has no console.
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let bytes = self.file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |metadata| metadata.len());
        let more = bytes.saturating_sub(self.bytes);
        self.bytes += more;
        more
    }
}
