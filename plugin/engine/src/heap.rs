// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heap: allocations and frees of the firmware, from the calls of its own functions.
//!
//! A call is noticed at the function's first instruction, where its arguments are still in their registers, and at
//! its return. Nested calls are one allocation, that of the outermost call. Events of inner calls are set aside, and
//! count only if the outermost call never returns. One event counts at once: a free of a block that an earlier
//! outermost call returned.
//!
//! Returns are awaited by [`crate::follow::watched`].
//!
//! Each of several vCPUs has its own stacks and calls under way. But a task may return on another vCPU than it called
//! on, and generated code may not know which vCPU executes it. So every vCPU checks the returns of all vCPUs' calls.
//! The time of an event is the sum of all vCPUs' instructions, in the order of their turns.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use wire::definition::{Definition, FrameKind};
use wire::heap::{Allocator, Argument, Event, What};
use wire::request::Request;

use crate::code::Code;
use crate::follow::context::Core;
use crate::follow::watched::{Call, Ended, Open, StackId, Watched};
use crate::guest::{Context, Guest, Vcpu};
use crate::ledger::{Counters, Ledger};
use crate::stack::{Stacks, Taken};

/// Most calls under way at a time, of all tasks and interrupts. Beyond that, the oldest is given up.
const MAX_OPEN: usize = 512;

/// Most inner events that are kept of one call.
const MAX_INNER: usize = 64;

/// Calls of allocation functions that are under way.
pub struct Heap {
    allocators: FxHashMap<u64, Allocator>,
    calls: Watched<Allocation>,
    /// Sites by function, callers and task.
    sites: FxHashMap<(u64, u32, u32), u32>,
    /// Addresses of live blocks that were allocated by outermost calls.
    held: FxHashSet<u64>,
    is_window_open: bool,
    /// Events that have not been taken yet.
    events: Vec<Event>,
}

/// Data of a call under way.
#[derive(Clone)]
struct Allocation {
    allocator: Allocator,
    /// Instructions of all vCPUs before the call.
    began_insns: u64,
    site: u32,
    asked: Asked,
    /// The call under way that made this call.
    parent: Option<u64>,
    /// Inner events.
    inner: Vec<Event>,
}

impl Allocation {
    /// Block of a function that only frees; the event of such a free is written at the call, not at the return.
    fn told(&self) -> Option<u64> {
        self.allocator.size.is_none().then_some(self.asked.old)
    }
}

/// Arguments of an allocation function.
#[derive(Clone, Copy)]
struct Asked {
    size_bytes: u64,
    align_bytes: u64,
    /// Block to be freed or resized.
    old: u64,
    /// Address at which the result is stored.
    place: u64,
}

/// Everything that a stack walk needs, for the calls that need one.
pub struct Walk<'a, V: Vcpu, C> {
    /// State of the vCPU.
    pub core: &'a Core,
    /// The stacks so far.
    pub stacks: &'a mut Stacks,
    /// The processor.
    pub guest: &'a mut Guest<V>,
    /// The image's code.
    pub code: &'a mut Code,
    /// The ledger.
    pub ledger: &'a mut Ledger<C>,
    /// Whether the function may have been reached other than by direct calls.
    pub by_transfer: bool,
}

impl<V: Vcpu, C: Counters> Walk<'_, V, C> {
    fn take(&mut self, context: Context) -> Taken {
        self.stacks.take_at_entry(self.core, context, self.by_transfer, self.guest, self.code, self.ledger)
    }
}

/// A call at its function's first instruction.
struct New<'a, V: Vcpu, C> {
    call: Call,
    context: Context,
    walk: Walk<'a, V, C>,
    /// The call's stack; None: nothing has asked for it yet.
    stack: Option<Taken>,
}

impl<'a, V: Vcpu, C: Counters> New<'a, V, C> {
    fn at(pc: u64, walk: Walk<'a, V, C>) -> New<'a, V, C> {
        let context = walk.guest.context(pc);
        let return_addr = walk.guest.code_address(context.return_addr);
        let (place, began_insns) = (StackId::of(walk.core), walk.ledger.insns(walk.core.vcpu));
        let call = Call { place, entry: pc, sp: context.sp, return_addr, began_insns };
        New { call, context, walk, stack: None }
    }

    fn stack(&mut self) -> &Taken {
        self.stack.get_or_insert_with(|| self.walk.take(self.context))
    }

    /// Stack pointer at the stack's beginning; 0: unknown.
    fn root_sp(&mut self) -> u64 {
        self.stack();
        self.stack.as_ref().and_then(|stack| self.walk.stacks.root_sp(stack)).unwrap_or(0)
    }

    /// Whether the call under way `open` made this call.
    fn is_within(&mut self, open: &Call) -> bool {
        let Call { sp, return_addr, .. } = self.call;
        if open.sp == sp {
            // A tail call has the same return address.
            return open.return_addr == return_addr;
        }
        sp < open.sp && (is_called_by(open, return_addr, self.walk.code) || self.shows(open.return_addr))
    }

    /// Whether the call's stack has a call that returns to this address, see [`shows`].
    fn shows(&mut self, return_addr: u64) -> bool {
        self.stack();
        let frames = self.stack.as_ref().map_or(&[][..], |stack| self.walk.stacks.frames(stack));
        shows(frames, self.call.return_addr, return_addr)
    }
}

/// The calls under way that may share a new call's stack.
struct Mates {
    /// Whether there may be threads of an unknown kernel, which are distinguished by the address of their stack.
    are_threads: bool,
    place: StackId,
    vcpu: u32,
}

impl Mates {
    fn of(new: &Call, is_kernel_unknown: bool, vcpu: u32) -> Mates {
        let are_threads = is_kernel_unknown && matches!(new.place, StackId::Thread { .. });
        Mates { are_threads, place: new.place, vcpu }
    }

    fn have(&self, other: &Call) -> bool {
        if self.are_threads {
            matches!(other.place, StackId::Thread { .. }) && other.place.may_be_on(self.vcpu)
        } else {
            other.place == self.place
        }
    }
}

impl Heap {
    /// No calls yet. None: the heap is not followed.
    pub fn new(request: &Request) -> Option<Heap> {
        let measure = request.measure()?;
        (!measure.heap.is_empty()).then(|| Heap {
            allocators: measure.heap.iter().map(|allocator| (allocator.entry, *allocator)).collect(),
            calls: Watched::new(measure.kernel.is_some()),
            sites: FxHashMap::default(),
            held: FxHashSet::default(),
            is_window_open: false,
            events: Vec::new(),
        })
    }

    /// Whether an allocation function starts at an address.
    pub fn begins_at(&self, pc: u64) -> bool {
        self.allocators.contains_key(&pc)
    }

    /// Counter of the calls expected to return to an address.
    pub fn awaited_at(&mut self, pc: u64, ledger: &mut Ledger<impl Counters>) -> u32 {
        self.calls.awaited_at(pc, ledger)
    }

    /// Takes the events since the last call of this, in their order.
    pub fn take_events(&mut self) -> impl Iterator<Item = Event> {
        self.events.drain(..)
    }

    /// Handles the first instruction of an allocation function, before it is counted.
    pub fn enter<V: Vcpu, C: Counters>(&mut self, pc: u64, walk: Walk<'_, V, C>) {
        let Some(&allocator) = self.allocators.get(&pc) else { return };
        let mut new = New::at(pc, walk);
        let mates = Mates::of(&new.call, !self.calls.knows_tasks(), new.walk.core.vcpu);
        if self.calls.open().iter().any(|open| mates.have(&open.call) && new.call.is_again(&open.call)) {
            return;
        }
        // An earlier call with the same frame has not returned, and never will.
        let ended = |open: &Open<Allocation>| {
            mates.have(&open.call) && new.call.is_in_place_of(&open.call) && (open.is_gone || open.call.entry == pc)
        };
        while let Some(index) = self.calls.open().iter().position(ended) {
            self.give_up(index, new.walk.ledger);
        }
        let parent = self.parent(&mut new, &mates).and_then(|parent| self.calls.index_of(parent));
        let asked = asked(&allocator, new.walk.guest);
        let takes_back_only = allocator.size.is_none();
        // Nothing is freed, and the return does not matter.
        if takes_back_only && asked.old == 0 {
            return;
        }
        // Only an outermost call gets a stack: most inner calls are never written.
        if parent.is_none() && self.is_window_open {
            new.stack();
        }
        let New { call, stack, walk, .. } = new;
        let stack = stack.filter(|_| self.is_window_open);
        let frames = stack.map_or(0, |stack| walk.stacks.id_of(&stack, walk.ledger));
        let site = match parent {
            Some(parent) if frames == 0 => self.calls.open()[parent].payload.site,
            _ => self.site(pc, frames, walk.core.task, walk.ledger),
        };
        let began_insns = walk.ledger.insns_of_all();
        if takes_back_only {
            self.happened(parent, Event { at_insns: began_insns, site, what: What::Freed { address: asked.old } });
        }
        let parent = parent.map(|parent| self.calls.open()[parent].id);
        if self.calls.open().len() >= MAX_OPEN {
            self.give_up(0, walk.ledger);
        }
        let allocation = Allocation { allocator, began_insns, site, asked, parent, inner: Vec::new() };
        self.calls.push(call, true, allocation, walk.ledger);
    }

    /// The call that made a new call. Calls above the maker on its stack are lost.
    fn parent<V: Vcpu, C: Counters>(&mut self, new: &mut New<'_, V, C>, mates: &Mates) -> Option<u64> {
        let thread = if mates.are_threads { Some(self.thread(new, mates)) } else { None };
        while let Some(index) = self.calls.innermost(new.call.place) {
            let &Open { id, call, .. } = &self.calls.open()[index];
            let is_parent = thread.map_or_else(|| new.is_within(&call), |parent| parent == Some(id));
            if is_parent {
                return Some(id);
            }
            self.lose(index, new.walk.ledger);
        }
        None
    }

    /// Puts a new call on its thread's stack: the stack of the nearest call that may have made the new one. Returns
    /// that call.
    fn thread<V: Vcpu, C: Counters>(&mut self, new: &mut New<'_, V, C>, mates: &Mates) -> Option<u64> {
        let open = self.calls.open();
        let mut others: Vec<usize> = (0..open.len()).filter(|&index| mates.have(&open[index].call)).collect();
        others.sort_by_key(|&index| (open[index].call.sp, Reverse(index)));
        let Some(nearest) = others.into_iter().find(|&index| new.is_within(&open[index].call)) else {
            let root_sp = new.root_sp();
            new.call.place = StackId::Thread { vcpu: new.walk.core.vcpu, root_sp };
            return None;
        };
        let open = &mut self.calls.open_mut()[nearest];
        open.is_gone = false;
        new.call.place = open.call.place;
        Some(open.id)
    }

    /// Whether several calls may have returned to here with this stack pointer: one of a deleted task, and one of the
    /// task whose stack replaced it.
    pub fn is_ambiguous(&self, pc: u64, sp: u64) -> bool {
        self.calls.is_ambiguous(pc, sp)
    }

    /// Handles an address that an allocation function may have returned to, before it is counted.
    pub fn leave(&mut self, pc: u64, core: &Core, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        let ended = self.calls.leave(StackId::of(core), (pc, guest.stack_pointer()), core, ledger);
        // Tail-called functions return together with the first call. Calls within it have returned unnoticed.
        let returned = ended.into_iter().rev().find_map(|ended| match ended {
            Ended::Returned(open) => Some(open.payload),
            Ended::Left(_) => None,
        });
        let Some(allocation) = returned else { return };
        let parent = allocation.parent.and_then(|parent| self.calls.index_of(parent));
        let at_insns = ledger.insns_of_all();
        if let Some(what) = outcome(&allocation, guest) {
            self.happened(parent, Event { at_insns, site: allocation.site, what });
        }
    }

    /// Opens the window: calls under way began before it.
    pub fn restart(&mut self, insns: u64, ledger: &Ledger<impl Counters>) {
        for open in self.calls.open_mut() {
            (open.payload.began_insns, open.call.began_insns) = (0, 0);
            open.payload.inner.clear();
        }
        self.calls.await_again(ledger);
        self.is_window_open = true;
        self.events.push(Event { at_insns: insns, site: 0, what: What::Opened });
    }

    /// Ends the run: calls that have gone from their stack will not return.
    pub fn end(&mut self, ledger: &Ledger<impl Counters>) {
        while let Some(index) = self.calls.open().iter().position(|open| open.is_gone) {
            self.give_up(index, ledger);
        }
    }

    /// Records an event, within another call or by itself.
    fn happened(&mut self, within: Option<usize>, event: Event) {
        let within = match event.what {
            // This counts at once: before the call is over, another thread may get the same block.
            What::Freed { address: old } | What::Moved { old, .. }
                if self.held.contains(&old) && !self.is_asked_to_take_back(within, old) =>
            {
                None
            }
            _ => within,
        };
        if let Some(parent) = within {
            let inner = &mut self.calls.open_mut()[parent].payload.inner;
            if inner.len() < MAX_INNER {
                inner.push(event);
            }
            return;
        }
        if let What::Freed { address: old } | What::Moved { old, .. } = event.what {
            self.held.remove(&old);
        }
        if let What::Allocated { address, .. } | What::Moved { address, .. } = event.what {
            self.held.insert(address);
        }
        self.events.push(event);
    }

    /// Whether a call, or a call around it, was asked to free or resize a block; then the event is that call's own.
    fn is_asked_to_take_back(&self, call: Option<usize>, block: u64) -> bool {
        let mut call = call;
        while let Some(allocation) = call.map(|index| &self.calls.open()[index].payload) {
            if allocation.asked.old == block {
                return true;
            }
            call = allocation.parent.and_then(|parent| self.calls.index_of(parent));
        }
        false
    }

    /// Handles a call that has gone from its stack; its inner events count all the same.
    fn lose(&mut self, index: usize, ledger: &Ledger<impl Counters>) {
        if self.calls.is_certain(self.calls.open()[index].call.place) {
            return self.give_up(index, ledger);
        }
        let open = &mut self.calls.open_mut()[index];
        open.is_gone = true;
        let inner = std::mem::take(&mut open.payload.inner);
        let (told, parent) = (open.payload.told(), open.payload.parent);
        let parent = parent.and_then(|parent| self.calls.index_of(parent));
        self.promote(&inner, told, parent);
    }

    /// Gives up a call that never returns.
    fn give_up(&mut self, index: usize, ledger: &Ledger<impl Counters>) {
        let allocation = self.calls.remove(index, ledger).payload;
        let parent = allocation.parent.and_then(|parent| self.calls.index_of(parent));
        self.promote(&allocation.inner, allocation.told(), parent);
        if allocation.parent.is_none() && allocation.allocator.size.is_some() {
            let what = What::Left { size_bytes: allocation.asked.size_bytes };
            self.events.push(Event { at_insns: allocation.began_insns, site: allocation.site, what });
        }
    }

    /// Makes the inner events of a call that never returns count by themselves. Failed allocations are dropped: they
    /// are the reason why the call never returns. `told`: see [`Allocation::told`].
    fn promote(&mut self, inner: &[Event], told: Option<u64>, parent: Option<usize>) {
        for event in inner {
            let is_told = match event.what {
                What::Failed { .. } => true,
                What::Freed { address } => Some(address) == told,
                _ => false,
            };
            if !is_told {
                self.happened(parent, *event);
            }
        }
    }

    fn site(&mut self, entry: u64, stack: u32, task: u32, ledger: &mut Ledger<impl Counters>) -> u32 {
        let next = self.sites.len() as u32 + 1;
        *self.sites.entry((entry, stack, task)).or_insert_with(|| {
            ledger.note(&Definition::Site { entry, stack, task });
            next
        })
    }
}

/// Whether the function of a call under way made the call with this return address.
fn is_called_by(open: &Call, return_addr: u64, code: &Code) -> bool {
    code.function_of(return_addr.wrapping_sub(1)) == Some(open.entry)
}

/// Whether the stack of a call that returns to `own` has another frame with this return address, or is too incomplete
/// to exclude one.
fn shows(stack: &[FrameKind], own: u64, return_addr: u64) -> bool {
    let is_own = |frame: &FrameKind| *frame == FrameKind::Caller { return_addr: own };
    let callers = if stack.first().is_some_and(is_own) { &stack[1..] } else { stack };
    callers.iter().any(|frame| match *frame {
        FrameKind::Caller { return_addr: other } => other == return_addr,
        FrameKind::Unknown(_) => true,
        FrameKind::Exception { .. } => false,
    })
}

/// Size of [`Argument::Word`].
const WORD_BYTES: u64 = 4;

/// Arguments of an allocation function that starts here.
fn asked(allocator: &Allocator, guest: &mut Guest<impl Vcpu>) -> Asked {
    let mut value = |argument: Option<Argument>, otherwise| match argument {
        Some(Argument::Register(number)) => guest.general_register(number),
        Some(Argument::Constant(value)) => value,
        Some(Argument::Word { register, offset }) => {
            let at = guest.general_register(register).wrapping_add(offset);
            guest.memory_word(at, WORD_BYTES).unwrap_or(otherwise)
        }
        None => otherwise,
    };
    Asked {
        size_bytes: value(allocator.size, 0).saturating_mul(value(allocator.count, 1)),
        align_bytes: value(allocator.align, 0),
        old: value(allocator.old.map(Argument::Register), 0),
        place: value(allocator.place.map(Argument::Register), 0),
    }
}

/// Event of a call that has just returned; None: the call has no effect.
fn outcome(allocation: &Allocation, guest: &mut Guest<impl Vcpu>) -> Option<What> {
    let Allocation { allocator, asked, .. } = allocation;
    let &Asked { size_bytes, align_bytes, old, place } = asked;
    allocator.size?;
    let result = guest.general_register(allocator.result);
    let address = match allocator.place {
        None => result,
        Some(_) if result != 0 => 0,
        Some(_) => guest.pointer(place).unwrap_or(0),
    };
    match (address, old) {
        // For size 0, some allocators free the block, and others keep it.
        (0, 0) if size_bytes == 0 => None,
        (0, old) if size_bytes == 0 => Some(What::Freed { address: old }),
        (0, _) => Some(What::Failed { size_bytes, align_bytes }),
        (address, 0) => Some(What::Allocated { address, size_bytes, align_bytes }),
        (address, old) => Some(What::Moved { old, address, size_bytes }),
    }
}
