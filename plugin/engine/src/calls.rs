// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of chosen functions, each from its first instruction to its return: those that the timeline shows, and those
//! that are zones.
//!
//! A call is noticed at its function's first instruction, and its return awaited ([`crate::follow::watched`]). A call
//! that has gone from its stack when another call is made there was left without a return.

use std::collections::{HashMap, HashSet};

use wire::request::Request;
use wire::timeline::What;

use crate::code::Code;
use crate::follow::context::Core;
use crate::follow::watched::{Call, Ended, Open, StackId, Watched};
use crate::guest::{Context, Guest, Vcpu};
use crate::ledger::{Counters, Ledger};

/// Most calls under way; the oldest is given up.
const MAX_OPEN: usize = 1 << 14;

/// The chosen functions, and their calls under way.
pub struct Calls {
    /// The functions, by their entries.
    functions: HashMap<u64, Chosen>,
    /// Functions with a jump to their own entry, among the code translated so far.
    loops: HashSet<u64>,
    /// Last count of the calls of such a function, by entry, return address and vCPU.
    seen_calls: HashMap<(u64, u64, u32), u64>,
    /// Calls under way, each with its function and vCPU.
    open: Watched<(Chosen, u32)>,
}

/// Purposes for which a function is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Chosen {
    /// Number among the functions that the timeline shows; None: the timeline does not show it.
    traced: Option<u32>,
    /// Whether each call is a zone.
    is_zone: bool,
}

/// Zones that begin and end at a chosen function's first instruction.
#[derive(Default)]
pub struct Entered {
    /// Id of the call that begins and is a zone.
    pub zone: Option<u64>,
    /// Zones that turn out to be over.
    pub over: Vec<Over>,
}

/// Call that was a zone and is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over {
    /// Id of the call.
    pub id: u64,
    /// Whether it returned; false: it was left otherwise.
    pub has_returned: bool,
}

impl Calls {
    /// No call yet. None: no function is chosen.
    pub fn new(request: &Request) -> Option<Calls> {
        let measure = request.measure()?;
        let mut functions: HashMap<u64, Chosen> = HashMap::new();
        let traced = measure.timeline.iter().flat_map(|wanted| &wanted.functions);
        for (&entry, number) in traced.zip(0..) {
            functions.entry(entry).or_default().traced = Some(number);
        }
        for call in &measure.zone_calls {
            functions.entry(call.entry).or_default().is_zone = true;
        }
        (!functions.is_empty()).then(|| Calls {
            functions,
            loops: HashSet::new(),
            seen_calls: HashMap::new(),
            open: Watched::new(measure.kernel.is_some()),
        })
    }

    /// Whether the function that starts at this address is chosen.
    pub fn begins_at(&self, pc: u64) -> bool {
        self.functions.contains_key(&pc)
    }

    /// Notes an instruction that may jump to its own function's entry, which is not a call.
    pub fn loops_to(&mut self, entry: u64, ledger: &Ledger<impl Counters>) {
        if self.begins_at(entry) && self.loops.insert(entry) {
            for open in self.open.open().iter().filter(|open| open.call.entry == entry) {
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
        self.open.awaited_at(pc, ledger)
    }

    /// Handles the first instruction of a chosen function, before it is counted.
    pub fn enter(
        &mut self,
        pc: u64,
        core: &Core,
        guest: &mut Guest<impl Vcpu>,
        code: &Code,
        ledger: &mut Ledger<impl Counters>,
    ) -> Entered {
        let mut over = Vec::new();
        let Some(&chosen) = self.functions.get(&pc) else { return Entered::default() };
        let Context { sp, return_addr, .. } = guest.context(pc);
        let return_addr = guest.code_address(return_addr);
        let (vcpu, place) = (core.vcpu, StackId::of(core));
        let call = Call { place, entry: pc, sp, return_addr, began_insns: ledger.insns(vcpu) };
        if matches!(place, StackId::Exception { .. }) && self.open.innermost(place).is_none() {
            self.open.forget_exceptions(core, ledger);
        }
        // A turn of the function's loop is not a call. A new call from the same place, after the function was left
        // without a return, is one: the count of executed calls tells.
        let is_turn = self.loops.contains(&pc) && !self.is_called_again(pc, return_addr, vcpu, ledger);
        while let Some(index) = self.open.innermost(place) {
            let top = self.open.open()[index].call;
            if call.is_again(&top) || (is_turn && call.is_in_place_of(&top) && top.entry == pc) {
                return Entered { zone: None, over };
            }
            // A nested call, a tail call, or a call by a function that never returns and has no frame.
            let is_within = top.sp > sp
                || (call.is_in_place_of(&top) && top.entry != pc)
                || (top.sp == sp && code.function_of(return_addr.wrapping_sub(1)) == Some(top.entry));
            if is_within && !(call.is_in_place_of(&top) && top.entry == pc) {
                break;
            }
            let open = self.open.remove(index, ledger);
            // The new call replaced its frame.
            let ended = if call.is_in_place_of(&top) { end(&open, false, ledger) } else { self.lose(open, ledger) };
            over.extend(ended);
        }
        // The same goes for parked calls.
        let is_replaced = |open: &Open<(Chosen, u32)>| {
            open.is_gone && open.call.place == place && open.call.entry == pc && call.is_in_place_of(&open.call)
        };
        while let Some(index) = self.open.open().iter().position(is_replaced) {
            let open = self.open.remove(index, ledger);
            over.extend(end(&open, false, ledger));
        }
        if let Some(function) = chosen.traced {
            ledger.happened(vcpu, What::Called { function });
        }
        let awaits = guest.is_exception_return(return_addr) != Some(true);
        let id = self.open.push(call, awaits, (chosen, vcpu), ledger);
        if self.open.open().len() > MAX_OPEN {
            self.open.remove(0, ledger);
        }
        Entered { zone: chosen.is_zone.then_some(id), over }
    }

    /// Handles an address that a chosen function may have returned to, before it is counted. Returns the zones that are
    /// over.
    pub fn leave(
        &mut self,
        pc: u64,
        core: &Core,
        guest: &mut Guest<impl Vcpu>,
        ledger: &mut Ledger<impl Counters>,
    ) -> Vec<Over> {
        let mut over = Vec::new();
        for ended in self.open.leave(StackId::of(core), (pc, guest.stack_pointer()), core, ledger) {
            over.extend(match ended {
                Ended::Returned(open) => end(&open, true, ledger),
                Ended::Left(open) => self.lose(open, ledger),
            });
        }
        over
    }

    /// Handles a removed call that seems to have gone from its stack.
    fn lose(&mut self, open: Open<(Chosen, u32)>, ledger: &mut Ledger<impl Counters>) -> Option<Over> {
        if self.open.is_certain(open.call.place) {
            return end(&open, false, ledger);
        }
        self.open.park(open, ledger);
        None
    }

    /// Opens the window: calls under way began before it, and their counters have been cleared. The timeline has their
    /// returns no longer; zones still end by them.
    pub fn restart(&mut self, ledger: &Ledger<impl Counters>) {
        self.open.await_again(ledger);
        for index in (0..self.open.open().len()).rev() {
            if self.open.open()[index].payload.0.is_zone {
                self.open.open_mut()[index].payload.0.traced = None;
            } else {
                self.open.remove(index, ledger);
            }
        }
        self.seen_calls.clear();
    }
}

/// Tells the timeline that a call is over. Some: it was a zone.
fn end(open: &Open<(Chosen, u32)>, has_returned: bool, ledger: &mut Ledger<impl Counters>) -> Option<Over> {
    let (chosen, vcpu) = open.payload;
    if let Some(function) = chosen.traced {
        let what = if has_returned { What::Returned { function } } else { What::Unwound { function } };
        ledger.happened(vcpu, what);
    }
    chosen.is_zone.then_some(Over { id: open.id, has_returned })
}
