// SPDX-License-Identifier: MIT OR Apache-2.0
//! Zones, phases and marks, which the firmware names itself by instructions without effect (`targets/zone/zone.h`), and
//! zones that are calls of chosen functions.
//!
//! A zone belongs to the context that began it (a task, an exception), and its time excludes instructions of other
//! contexts. Code may be left without the ends of its zones (longjmp, a handler that returns). At the context's next
//! event the stack tells: a scope whose frame is gone is over, and so are the zones above one that ends. Such zones
//! are counted separately, since the place of their end is not known.

use rustc_hash::FxHashMap;
use wire::definition::{Definition, MAX_TEXT_BYTES};
use wire::request::Request;
use wire::zone::{
    Call, CallText, ContextKind, Event, EventKind, MARK_COUNTERS, MarkCounter, Row, ZONE_COUNTERS, ZoneCounter,
};

use super::context::Core;
use super::open_zones::Open;
use crate::code::Code;
use crate::guest::{Guest, Vcpu};
use crate::ledger::{Counters, Ledger};
use crate::time::Time;

/// Most zones under way in one context, so that a zone begun for ever and never ended does not fill memory.
const MAX_OPEN: usize = 1024;

/// Most paths of nested zones that samples distinguish.
const MAX_PATHS: usize = 1 << 16;

/// Most names that calls bring; further calls have the name of their function.
const MAX_NAMES: usize = 1 << 16;

/// Longest text of a call's name that is read.
const MAX_READ_BYTES: usize = 256;

/// Bytes of memory that are read at once, and their alignment; no memory ends within them.
const READ_BYTES: u64 = 16;

/// Events of an image, and the zones and marks counted so far.
pub struct Zones {
    events: FxHashMap<u64, Event>,
    /// Functions whose calls are zones, by their entries.
    calls: FxHashMap<u64, Call>,
    /// Numbers of the names that calls have brought.
    names: FxHashMap<String, u32>,
    /// Number of the harness's own names.
    given_names: u32,
    /// First counter of each zone in each context.
    zones: FxHashMap<(u32, ContextKind), u32>,
    /// First counter of each name's marks.
    marks: FxHashMap<u32, u32>,
    /// Paths of nested zones: the path around it, and the event that began it.
    paths: FxHashMap<(u32, u64), u32>,
    /// Whether tasks have no stacks of their own, so that stack pointers do not identify frames.
    are_tasks_polled: bool,
}

/// Effect of an event, for other parts; names are the image's, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A zone has begun.
    Begun {
        /// The name.
        name: u32,
    },
    /// A zone is over.
    Ended {
        /// The name.
        name: u32,
    },
    /// Another phase begins.
    Phase {
        /// The name.
        name: u32,
    },
    /// A value was named.
    Mark {
        /// The name.
        name: u32,
        /// The value.
        value: i64,
    },
}

/// Extent of a zone that begins.
#[derive(Clone, Copy)]
enum Extent {
    /// A scope of the code, by its number.
    Scope(u32),
    /// A call, by its id.
    Call(u64),
    /// From an event that begins it to one that ends it.
    Free,
}

/// Reads a text of a call's name. None: the memory cannot be read, or the text is empty.
fn read_text(text: &CallText, guest: &mut Guest<impl Vcpu>) -> Option<String> {
    // A null pointer leads nowhere, although there may be memory at address 0.
    let is_one = |address: &u64| *address != 0;
    let mut address = Some(guest.general_register(text.register)).filter(is_one)?;
    for offset in &text.offsets {
        address = guest.pointer(address.wrapping_add(*offset)).filter(is_one)?;
    }
    let mut read = Vec::new();
    while read.len() < MAX_READ_BYTES {
        let at = address.wrapping_add(read.len() as u64);
        let bytes = guest.memory(at, (READ_BYTES - at % READ_BYTES) as usize)?;
        let end = bytes.iter().position(|&byte| byte == 0);
        read.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
        if end.is_some() {
            break;
        }
    }
    (!read.is_empty()).then(|| String::from_utf8_lossy(&read).into_owned())
}

impl Zones {
    /// No zone yet. None: the image has no events.
    pub fn new(request: &Request) -> Option<Zones> {
        let measure = request.measure()?;
        let has_zones = !measure.events.is_empty() || !measure.zone_calls.is_empty();
        has_zones.then(|| Zones {
            events: measure.events.iter().map(|&event| (event.address, event)).collect(),
            calls: measure.zone_calls.iter().map(|call| (call.entry, call.clone())).collect(),
            names: FxHashMap::default(),
            given_names: measure.zone_names,
            zones: FxHashMap::default(),
            marks: FxHashMap::default(),
            paths: FxHashMap::default(),
            are_tasks_polled: measure.kernel.is_none() && !measure.polls.is_empty(),
        })
    }

    /// Whether the instruction at an address is an event.
    pub fn is_event(&self, pc: u64) -> bool {
        self.events.contains_key(&pc)
    }

    /// Handles an event of a vCPU, before it is counted. None: nothing has changed.
    pub fn at(
        &mut self,
        cores: &mut [Core],
        vcpu: u32,
        pc: u64,
        guest: &mut Guest<impl Vcpu>,
        code: &Code,
        ledger: &mut Ledger<impl Counters>,
    ) -> Option<Happened> {
        let core = &mut cores[vcpu as usize];
        let &Event { kind, name, .. } = self.events.get(&pc)?;
        let value = match kind {
            EventKind::Enter { scope } => {
                return self.begin(core, (pc, name), Extent::Scope(scope), guest, code, ledger);
            }
            EventKind::Begin => return self.begin(core, (pc, name), Extent::Free, guest, code, ledger),
            EventKind::Leave { scope } => return self.end(cores, vcpu, (pc, name, Some(scope)), guest, code, ledger),
            EventKind::End => return self.end(cores, vcpu, (pc, name, None), guest, code, ledger),
            EventKind::Phase => return Some(Happened::Phase { name }),
            EventKind::Register { register } => guest.signed_register(register),
            EventKind::Bytes { register, bytes, is_signed } => guest.value_of_bytes(register, bytes, is_signed),
            EventKind::Constant { value } => value,
        };
        self.mark(vcpu, name, value, ledger);
        Some(Happened::Mark { name, value })
    }

    /// Begins the zone that is a call, at its function's first instruction; `id`: the call's.
    pub fn begin_call(
        &mut self,
        core: &mut Core,
        (pc, id): (u64, u64),
        guest: &mut Guest<impl Vcpu>,
        code: &Code,
        ledger: &mut Ledger<impl Counters>,
    ) -> Option<Happened> {
        let call = self.calls.get(&pc)?;
        let texts = call.texts.iter().map(|text| read_text(text, guest)).collect::<Option<Vec<String>>>();
        let text = texts.filter(|texts| !texts.is_empty()).map(|texts| texts.join("."));
        let function = call.name;
        let name = text.and_then(|text| self.name(text, ledger)).unwrap_or(function);
        self.begin(core, (pc, name), Extent::Call(id), guest, code, ledger)
    }

    /// Ends the zone that is a call with this id, before the code that goes on is counted. `has_returned`: the call
    /// returned, and was not left otherwise.
    pub fn end_call(
        core: &mut Core,
        (id, has_returned): (u64, bool),
        ledger: &mut Ledger<impl Counters>,
    ) -> Option<Happened> {
        core.advance(ledger);
        let vcpu = core.vcpu;
        let nest = core.nest()?;
        let index = nest.open.iter().rposition(|open| open.call == id)?;
        if !has_returned {
            nest.abandon_frame(index, vcpu, ledger);
            return None;
        }
        let name = nest.open[index].name;
        nest.abandon(index + 1, vcpu, ledger);
        nest.close(vcpu, ledger);
        Some(Happened::Ended { name })
    }

    /// Number of a name that a call brings. None: there are too many.
    fn name(&mut self, mut text: String, ledger: &mut Ledger<impl Counters>) -> Option<u32> {
        while text.len() > MAX_TEXT_BYTES {
            text.pop();
        }
        if let Some(&name) = self.names.get(&text) {
            return Some(name);
        }
        let name = self.given_names + self.names.len() as u32 + 1;
        (self.names.len() < MAX_NAMES).then(|| {
            ledger.note(&Definition::ZoneName { text: text.clone() });
            self.names.insert(text, name);
            name
        })
    }

    /// Whether the stack pointer tells which frames are gone. Reading it is half of an event's cost.
    fn has_stack(&self, core: &Core) -> bool {
        !(self.are_tasks_polled && core.task != 0 && core.exceptions.is_empty())
    }

    fn begin(
        &mut self,
        core: &mut Core,
        (pc, name): (u64, u32),
        extent: Extent,
        guest: &mut Guest<impl Vcpu>,
        code: &Code,
        ledger: &mut Ledger<impl Counters>,
    ) -> Option<Happened> {
        let sp = self.has_stack(core).then(|| guest.stack_pointer());
        let slot = self.slot(name, core.zone_context(), ledger);
        core.advance(ledger);
        let (vcpu, began_at) = (core.vcpu, ledger.time(core.vcpu));
        let nest = core.nest()?;
        if let Some(sp) = sp {
            // The same code again with a stack that is not deeper: not a nested call.
            while let Some(index) = nest.open.iter().position(|open| open.pc == pc && open.sp <= sp) {
                nest.abandon_frame(index, vcpu, ledger);
            }
            let is_gone =
                |open: &Open| open.is_scope && open.sp < sp && code.function_of(open.pc) != code.function_of(pc);
            while nest.open.last().is_some_and(is_gone) {
                nest.abandon(nest.open.len() - 1, vcpu, ledger);
            }
        }
        if nest.open.len() >= MAX_OPEN {
            nest.abandon(MAX_OPEN - 1, vcpu, ledger);
        }
        let parent = nest.path();
        let count = self.paths.len();
        let path = match self.paths.get(&(parent, pc)) {
            Some(&path) => path,
            None if count >= MAX_PATHS => parent,
            None => {
                ledger.note(&Definition::ZonePath { parent, name, pc });
                self.paths.insert((parent, pc), count as u32 + 1);
                count as u32 + 1
            }
        };
        ledger.add(slot + ZoneCounter::Open as u32, vcpu, 1);
        nest.open.push(Open {
            name,
            scope: if let Extent::Scope(scope) = extent { scope } else { 0 },
            is_scope: !matches!(extent, Extent::Free),
            call: if let Extent::Call(id) = extent { id } else { 0 },
            pc,
            sp: sp.unwrap_or(0),
            slot,
            since: nest.time,
            began_at,
            within: Time::default(),
            path,
            began_before_window: false,
        });
        Some(Happened::Begun { name })
    }

    fn end(
        &mut self,
        cores: &mut [Core],
        vcpu: u32,
        (pc, name, scope): (u64, u32, Option<u32>),
        guest: &mut Guest<impl Vcpu>,
        code: &Code,
        ledger: &mut Ledger<impl Counters>,
    ) -> Option<Happened> {
        let core = &mut cores[vcpu as usize];
        let has_stack = self.has_stack(core);
        core.advance(ledger);
        let is_its = |open: &Open| {
            let of_scope = scope.is_none_or(|scope| scope == 0 || open.scope == 0 || open.scope == scope);
            // An end without a name and scope belongs to a zone of the same function.
            let is_told = name != 0 || scope.is_some_and(|scope| scope != 0);
            open.is_scope == scope.is_some()
                && open.call == 0
                && (name == 0 || open.name == name)
                && of_scope
                && (is_told || code.function_of(open.pc) == code.function_of(pc))
        };
        let nest = core.nest()?;
        let mut its = (0..nest.open.len()).rev().filter(|&index| is_its(&nest.open[index]));
        let innermost = its.next();
        let index = match its.next() {
            // The innermost matching zone whose frame still exists.
            Some(_) if has_stack => {
                let sp = guest.stack_pointer();
                nest.open.iter().rposition(|open| is_its(open) && open.sp >= sp).or(innermost)
            }
            _ => innermost,
        };
        if let Some(index) = index {
            let name = nest.open[index].name;
            nest.abandon(index + 1, vcpu, ledger);
            nest.close(vcpu, ledger);
            return Some(Happened::Ended { name });
        }
        if name == 0 {
            return None;
        }
        let context = core.zone_context();
        let is_elsewhere = cores.iter().flat_map(Core::nests).any(|nest| nest.open.iter().any(is_its));
        let slot = self.slot(name, context, ledger);
        ledger.add(slot + ZoneCounter::Orphans as u32, vcpu, 1);
        ledger.add(slot + ZoneCounter::Foreign as u32, vcpu, is_elsewhere.into());
        None
    }

    fn slot(&mut self, name: u32, context: ContextKind, ledger: &mut Ledger<impl Counters>) -> u32 {
        *self.zones.entry((name, context)).or_insert_with(|| {
            let slot = ledger.new_slots(ZONE_COUNTERS);
            ledger.note(&Definition::Row { slot, row: Row::Zone { name, context } });
            slot
        })
    }

    fn mark(&mut self, vcpu: u32, name: u32, value: i64, ledger: &mut Ledger<impl Counters>) {
        let slot = *self.marks.entry(name).or_insert_with(|| {
            let slot = ledger.new_slots(MARK_COUNTERS);
            ledger.note(&Definition::Row { slot, row: Row::Mark { name } });
            slot
        });
        let at = |counter: MarkCounter| slot + counter as u32;
        let above_lowest = value as u64 ^ 1 << 63;
        ledger.add(at(MarkCounter::Count), vcpu, 1);
        ledger.add(at(MarkCounter::Sum), vcpu, value as u64);
        for (counter, value) in [(MarkCounter::Max, above_lowest), (MarkCounter::MinComplement, !above_lowest)] {
            ledger.set(at(counter), vcpu, value.max(ledger.get(at(counter), vcpu)));
        }
        // The last mark of any vCPU.
        (0..ledger.vcpus()).for_each(|vcpu| ledger.set(at(MarkCounter::Last), vcpu, value as u64));
    }
}
