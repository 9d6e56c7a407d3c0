//! The timeline's own observations: calls of the functions that are traced, and what the firmware prints. What is known
//! anyway (tasks, exceptions, zones, masked interrupts) is told to the ledger where it is noticed.
//!
//! A call is seen at its function's first instruction. Its return is awaited as the heap awaits those of allocation
//! functions: each block that a call may return to has a counter of the calls that are to return there, and generated
//! code compares that. A call that is on its stack no more when another one is made there was left otherwise.

use std::collections::{HashMap, HashSet};
use std::fs::File;

use wire::request::Request;
use wire::timeline::What;

use crate::code::Code;
use crate::follow::context::Core;
use crate::guest::{Context, Guest, Vcpu};
use crate::ledger::{Counters, Ledger};
use crate::marks::printed;

/// Most calls that are under way on one stack; the oldest is given up.
const MAX_OPEN: usize = 1 << 14;

/// What a function may take off its caller's stack as it returns: `__gnu_mcount_nc` a word.
const MAX_TAKEN_BYTES: u64 = 8;

/// What only the timeline looks at.
pub struct Timeline {
    /// Numbers of the functions that are traced, by their entries.
    functions: HashMap<u64, u32>,
    /// Those of them with a jump to their own entry, as far as they have been translated.
    loops: HashSet<u64>,
    /// How often such a function had been called, to return to an address, by a vCPU, as it was noticed last.
    seen_calls: HashMap<(u64, u64, u32), u64>,
    /// Counters of the calls that are to return to an address, by the address.
    awaited: HashMap<u64, u32>,
    /// Calls that are under way on each stack, the outermost first.
    open: HashMap<Place, Vec<Open>>,
    /// Calls that another one was made in place of, where tasks are not told apart and they may be on a stack of
    /// another.
    parked: Vec<Open>,
    knows_tasks: bool,
    console: Console,
}

/// A call that is under way.
#[derive(Clone, Copy)]
struct Open {
    /// Number of the function, and its entry.
    function: u32,
    entry: u64,
    sp: u64,
    return_addr: u64,
    /// Instructions before it.
    began_insns: u64,
    vcpu: u32,
}

/// Whose stack a call is on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Task { vcpu: u32, task: u32 },
    Exception { vcpu: u32, number: u64, began_insns: u64 },
}

impl Place {
    fn of(core: &Core) -> Place {
        let vcpu = core.vcpu;
        core.exceptions.last().map_or(Place::Task { vcpu, task: core.task }, |active| Place::Exception {
            vcpu,
            number: active.number,
            began_insns: active.began_at,
        })
    }

    /// Whether it is that of an exception that is over.
    fn is_over(self, core: &Core) -> bool {
        let Place::Exception { vcpu, number, began_insns } = self else { return false };
        vcpu == core.vcpu
            && !core.exceptions.iter().any(|active| (active.number, active.began_at) == (number, began_insns))
    }
}

/// What the firmware has printed.
struct Console {
    path: String,
    file: Option<File>,
    bytes: u64,
}

impl Timeline {
    /// None: there is no timeline.
    pub fn new(request: &Request) -> Option<Timeline> {
        let wanted = request.timeline.as_ref()?;
        Some(Timeline {
            functions: wanted.functions.iter().copied().zip(0..).collect(),
            loops: HashSet::new(),
            seen_calls: HashMap::new(),
            awaited: HashMap::new(),
            open: HashMap::new(),
            parked: Vec::new(),
            knows_tasks: request.kernel.is_some(),
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

    /// An instruction is translated that may jump to its own function's entry: getting there is no call.
    pub fn loops_to(&mut self, entry: u64, ledger: &Ledger<impl Counters>) {
        if self.traces_at(entry) && self.loops.insert(entry) {
            for open in self.open.values().flatten().filter(|open| open.entry == entry) {
                let calls = ledger.calls(entry, open.return_addr, open.vcpu);
                self.seen_calls.insert((entry, open.return_addr, open.vcpu), calls);
            }
        }
    }

    /// Whether a function that loops has been called since it was asked last.
    fn is_called_again(&mut self, entry: u64, return_addr: u64, vcpu: u32, ledger: &Ledger<impl Counters>) -> bool {
        let calls = ledger.calls(entry, return_addr, vcpu);
        self.seen_calls.insert((entry, return_addr, vcpu), calls).is_some_and(|seen| seen != calls)
    }

    /// The counter of the calls that are to return to this address.
    pub fn awaited_at(&mut self, pc: u64, ledger: &mut Ledger<impl Counters>) -> u32 {
        *self.awaited.entry(pc).or_insert_with(|| ledger.new_slots(1))
    }

    /// At the first instruction of such a function, before it is counted.
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
        let (vcpu, now) = (core.vcpu, ledger.insns(core.vcpu));
        let place = Place::of(core);
        if matches!(place, Place::Exception { .. }) && !self.open.contains_key(&place) {
            self.forget(core, ledger);
        }
        // Getting there by a turn of its loop is no call. One from the same place after it was left otherwise is: that the
        // call has executed is counted.
        let is_turn = self.loops.contains(&pc) && !self.is_called_again(pc, return_addr, vcpu, ledger);
        while let Some(&top) = self.open.get(&place).and_then(|open| open.last()) {
            if (top.sp, top.return_addr, top.entry) == (sp, return_addr, pc) {
                // One that an instruction was executed again for: an exception came first. Or a turn of its loop.
                if now.wrapping_sub(top.began_insns) <= 1 || is_turn {
                    return;
                }
                // What is there now was its own frame.
                self.unwind(place, ledger);
                continue;
            } else if top.sp > sp || (top.sp == sp && top.return_addr == return_addr) {
                // A call within, or a tail call.
                break;
            } else if top.sp == sp && code.function_of(return_addr.wrapping_sub(1)) == Some(top.entry) {
                // A function that never returns has kept nothing.
                break;
            }
            self.lose(place, ledger);
        }
        ledger.happened(vcpu, What::Called { function });
        if guest.is_exception_return(return_addr) != Some(true) {
            let awaited = self.awaited_at(return_addr, ledger);
            ledger.await_one(awaited);
        }
        let open = self.open.entry(place).or_default();
        open.push(Open { function, entry: pc, sp, return_addr, began_insns: now, vcpu });
        if open.len() > MAX_OPEN {
            let oldest = open.remove(0);
            self.gone(oldest, ledger);
        }
    }

    /// Where such a function may have returned to, before that is counted.
    pub fn leave(&mut self, pc: u64, core: &Core, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        let sp = guest.stack_pointer();
        let returns = |open: &Open| open.return_addr == pc && sp.wrapping_sub(open.sp) <= MAX_TAKEN_BYTES;
        let place = Place::of(core);
        let index = self.open.get(&place).and_then(|open| open.iter().rposition(returns));
        let Some(index) = index else {
            if let Some(index) = self.parked.iter().rposition(returns) {
                let open = self.parked.remove(index);
                ledger.happened(open.vcpu, What::Returned { function: open.function });
                self.gone(open, ledger);
            }
            return;
        };
        while self.open.get(&place).is_some_and(|open| open.len() > index + 1) {
            let is_tail_call = self.open[&place].last().is_some_and(returns);
            if is_tail_call { self.close(place, ledger) } else { self.lose(place, ledger) }
        }
        self.close(place, ledger);
        // The function that it followed by a tail call returns with it.
        while self.open.get(&place).and_then(|open| open.last()).is_some_and(returns) {
            self.close(place, ledger);
        }
    }

    /// The innermost call on a stack returns.
    fn close(&mut self, place: Place, ledger: &mut Ledger<impl Counters>) {
        let Some(open) = self.open.get_mut(&place).and_then(Vec::pop) else { return };
        ledger.happened(open.vcpu, What::Returned { function: open.function });
        self.gone(open, ledger);
    }

    /// The innermost call is on its stack no more, as far as can be seen.
    fn lose(&mut self, place: Place, ledger: &mut Ledger<impl Counters>) {
        if self.knows_tasks || matches!(place, Place::Exception { .. }) {
            return self.unwind(place, ledger);
        }
        let Some(open) = self.open.get_mut(&place).and_then(Vec::pop) else { return };
        if self.parked.len() >= MAX_OPEN {
            let oldest = self.parked.remove(0);
            ledger.happened(oldest.vcpu, What::Unwound { function: oldest.function });
            self.gone(oldest, ledger);
        }
        self.parked.push(open);
    }

    /// The innermost call on a stack was left otherwise than by a return.
    fn unwind(&mut self, place: Place, ledger: &mut Ledger<impl Counters>) {
        let Some(open) = self.open.get_mut(&place).and_then(Vec::pop) else { return };
        ledger.happened(open.vcpu, What::Unwound { function: open.function });
        self.gone(open, ledger);
    }

    /// A call's return is awaited no more.
    fn gone(&mut self, open: Open, ledger: &Ledger<impl Counters>) {
        if let Some(&awaited) = self.awaited.get(&open.return_addr) {
            ledger.await_one_less(awaited);
        }
    }

    /// Forgets the calls of exceptions that are over: they are, too.
    fn forget(&mut self, core: &Core, ledger: &Ledger<impl Counters>) {
        let over: Vec<Place> = self.open.keys().copied().filter(|place| place.is_over(core)).collect();
        for place in over {
            for open in self.open.remove(&place).unwrap_or_default() {
                self.gone(open, ledger);
            }
        }
    }

    /// The window opens: what is under way began before, and its counters have been cleared.
    pub fn restart(&mut self) {
        self.open.clear();
        self.parked.clear();
        self.seen_calls.clear();
        self.console.look();
    }

    /// Looks whether the firmware has printed.
    pub fn look(&mut self, vcpu: u32, ledger: &mut Ledger<impl Counters>) {
        let bytes = self.console.look();
        if bytes > 0 {
            ledger.happened(vcpu, What::Printed { bytes });
        }
    }
}

impl Console {
    /// How much has been printed since this was asked last. QEMU writes it on the thread that executes the guest.
    fn look(&mut self) -> u64 {
        // QEMU opens it after the plugin is installed, and never where the machine has no console.
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let bytes = self.file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |metadata| metadata.len());
        let more = bytes.saturating_sub(self.bytes);
        self.bytes += more;
        more
    }
}
