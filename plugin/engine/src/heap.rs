//! The heap: what the firmware's own functions give out and take back, by the calls of them.
//!
//! A call is seen at the function's first instruction, where its arguments are still in their registers, and where it
//! returns to. Functions that call each other are one allocation, the outermost's: what happens within is kept aside,
//! and counts where the outermost never returns. What is given back within and is held by somebody else counts at once.
//!
//! Returns are awaited as [`crate::follow::watched`] has it.
//!
//! Of several vCPUs each has stacks of its own, and calls that are under way on it; a task may return on another one than
//! it called on, and generated code may not know which one executes it: all look where any has called. Their time is what
//! all of them have executed, in the order of their turns.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use wire::definition::{Definition, FrameKind};
use wire::heap::{Allocator, Argument, Event, What};
use wire::request::Request;

use crate::code::Code;
use crate::follow::context::Core;
use crate::follow::watched::{Call, Ended, Open, Place, Watched};
use crate::guest::{Context, Guest, Vcpu};
use crate::ledger::{Counters, Ledger};
use crate::stack::{Stacks, Taken};

/// Most calls that are under way at a time, of all tasks and interrupts; the oldest is given up.
const MAX_OPEN: usize = 512;

/// Most that is kept of what happens within one call.
const MAX_INNER: usize = 64;

/// The calls of allocation functions that are under way.
pub struct Heap {
    allocators: FxHashMap<u64, Allocator>,
    calls: Watched<Allocation>,
    /// By function, callers and task.
    sites: FxHashMap<(u64, u32, u32), u32>,
    /// Addresses of blocks that have been given out, by calls within no other, and not taken back.
    held: FxHashSet<u64>,
    is_window_open: bool,
    /// What has happened and has not been taken.
    events: Vec<Event>,
}

/// What a call that is under way is about.
#[derive(Clone)]
struct Allocation {
    allocator: Allocator,
    /// Instructions before it, of all vCPUs.
    began_insns: u64,
    site: u32,
    asked: Asked,
    /// The call that was under way and made it.
    parent: Option<u64>,
    /// What has happened within.
    inner: Vec<Event>,
}

impl Allocation {
    /// The block that it was to take back and nothing else, which was said as it was called.
    fn told(&self) -> Option<u64> {
        self.allocator.size.is_none().then_some(self.asked.old)
    }
}

/// What a function was asked for.
#[derive(Clone, Copy)]
struct Asked {
    size_bytes: u64,
    align_bytes: u64,
    /// The block that is given back, or is to have another size.
    old: u64,
    /// Where the address is to be put.
    place: u64,
}

/// What takes a stack, for those calls that need one.
pub struct Walk<'a, V: Vcpu, C> {
    /// What the vCPU executes.
    pub core: &'a Core,
    /// The stacks so far.
    pub stacks: &'a mut Stacks,
    /// The processor.
    pub guest: &'a mut Guest<V>,
    /// The image's code.
    pub code: &'a mut Code,
    /// The books.
    pub ledger: &'a mut Ledger<C>,
    /// Not only direct calls have led to the function.
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
    /// Its stack; None: nothing has asked for it yet.
    stack: Option<Taken>,
}

impl<'a, V: Vcpu, C: Counters> New<'a, V, C> {
    fn at(pc: u64, walk: Walk<'a, V, C>) -> New<'a, V, C> {
        let context = walk.guest.context(pc);
        let return_addr = walk.guest.code_address(context.return_addr);
        let (place, began_insns) = (Place::of(walk.core), walk.ledger.insns(walk.core.vcpu));
        let call = Call { place, entry: pc, sp: context.sp, return_addr, began_insns };
        New { call, context, walk, stack: None }
    }

    fn stack(&mut self) -> &Taken {
        self.stack.get_or_insert_with(|| self.walk.take(self.context))
    }

    /// Where its stack begins; 0: that is not known.
    fn root_sp(&mut self) -> u64 {
        self.stack();
        self.stack.as_ref().and_then(|stack| self.walk.stacks.root_sp(stack)).unwrap_or(0)
    }

    /// Whether a call that is under way on its stack made it.
    fn is_within(&mut self, open: &Call) -> bool {
        let Call { sp, return_addr, .. } = self.call;
        if open.sp == sp {
            // By a tail call.
            return open.return_addr == return_addr;
        }
        sp < open.sp && (is_called_by(open, return_addr, self.walk.code) || self.shows(open.return_addr))
    }

    /// Whether its stack has a call that returns there, see [`shows`].
    fn shows(&mut self, return_addr: u64) -> bool {
        self.stack();
        let frames = self.stack.as_ref().map_or(&[][..], |stack| self.walk.stacks.frames(stack));
        shows(frames, self.call.return_addr, return_addr)
    }
}

/// The calls that may share a new one's stack.
struct Mates {
    /// Threads of a kernel that is not known are told apart by their stacks, of which no two are in one place.
    are_threads: bool,
    place: Place,
    vcpu: u32,
}

impl Mates {
    fn of(new: &Call, is_kernel_unknown: bool, vcpu: u32) -> Mates {
        let are_threads = is_kernel_unknown && matches!(new.place, Place::Thread { .. });
        Mates { are_threads, place: new.place, vcpu }
    }

    fn have(&self, other: &Call) -> bool {
        if self.are_threads {
            matches!(other.place, Place::Thread { .. }) && other.place.may_be_on(self.vcpu)
        } else {
            other.place == self.place
        }
    }
}

impl Heap {
    /// No call yet. None: the heap is not followed.
    pub fn new(request: &Request) -> Option<Heap> {
        if request.heap.is_empty() || request.is_debugged {
            return None;
        }
        Some(Heap {
            allocators: request.heap.iter().map(|allocator| (allocator.entry, *allocator)).collect(),
            calls: Watched::new(request.kernel.is_some()),
            sites: FxHashMap::default(),
            held: FxHashSet::default(),
            is_window_open: false,
            events: Vec::new(),
        })
    }

    /// Whether such a function starts at this address.
    pub fn begins_at(&self, pc: u64) -> bool {
        self.allocators.contains_key(&pc)
    }

    /// The counter of the calls that are to return to this address.
    pub fn awaited_at(&mut self, pc: u64, ledger: &mut Ledger<impl Counters>) -> u32 {
        self.calls.awaited_at(pc, ledger)
    }

    /// What has happened since this was asked last, in that order.
    pub fn take_events(&mut self) -> impl Iterator<Item = Event> {
        self.events.drain(..)
    }

    /// At the first instruction of such a function, before it is counted.
    pub fn enter<V: Vcpu, C: Counters>(&mut self, pc: u64, walk: Walk<'_, V, C>) {
        let Some(&allocator) = self.allocators.get(&pc) else { return };
        let mut new = New::at(pc, walk);
        let mates = Mates::of(&new.call, !self.calls.knows_tasks(), new.walk.core.vcpu);
        if self.calls.open().iter().any(|open| mates.have(&open.call) && new.call.is_again(&open.call)) {
            return;
        }
        // What was called from here before and has not returned never will.
        let ended = |open: &Open<Allocation>| {
            mates.have(&open.call) && new.call.is_in_place_of(&open.call) && (open.is_gone || open.call.entry == pc)
        };
        while let Some(index) = self.calls.open().iter().position(ended) {
            self.give_up(index, new.walk.ledger);
        }
        let parent = self.parent(&mut new, &mates).and_then(|parent| self.calls.index_of(parent));
        let asked = asked(&allocator, new.walk.guest);
        let takes_back_only = allocator.size.is_none();
        // Nothing is given back, and the return is of no interest.
        if takes_back_only && asked.old == 0 {
            return;
        }
        // Of most that are made by others nothing is ever heard again.
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

    /// The call that made a new one. What is above it on its stack is lost.
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

    /// Puts a new call on its thread's stack: that of the nearest of the calls that may have made it, which this returns.
    fn thread<V: Vcpu, C: Counters>(&mut self, new: &mut New<'_, V, C>, mates: &Mates) -> Option<u64> {
        let open = self.calls.open();
        let mut others: Vec<usize> = (0..open.len()).filter(|&index| mates.have(&open[index].call)).collect();
        others.sort_by_key(|&index| (open[index].call.sp, Reverse(index)));
        let Some(nearest) = others.into_iter().find(|&index| new.is_within(&open[index].call)) else {
            let root_sp = new.root_sp();
            new.call.place = Place::Thread { vcpu: new.walk.core.vcpu, root_sp };
            return None;
        };
        let open = &mut self.calls.open_mut()[nearest];
        open.is_gone = false;
        new.call.place = open.call.place;
        Some(open.id)
    }

    /// Whether several calls may have returned to here with this stack pointer: a task's that has been deleted, and that of
    /// one whose stack is in its place.
    pub fn is_ambiguous(&self, pc: u64, sp: u64) -> bool {
        self.calls.is_ambiguous(pc, sp)
    }

    /// Where such a function may have returned to, before that is counted.
    pub fn leave(&mut self, pc: u64, core: &Core, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        let ended = self.calls.leave(Place::of(core), (pc, guest.stack_pointer()), core, ledger);
        // Those that follow by tail calls return with the first. What it called has returned unseen.
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

    /// The window opens: what is under way began before.
    pub fn restart(&mut self, insns: u64, ledger: &Ledger<impl Counters>) {
        for open in self.calls.open_mut() {
            (open.payload.began_insns, open.call.began_insns) = (0, 0);
            open.payload.inner.clear();
        }
        self.calls.await_again(ledger);
        self.is_window_open = true;
        self.events.push(Event { at_insns: insns, site: 0, what: What::Opened });
    }

    /// The run ends: what is gone will not return.
    pub fn end(&mut self, ledger: &Ledger<impl Counters>) {
        while let Some(index) = self.calls.open().iter().position(|open| open.is_gone) {
            self.give_up(index, ledger);
        }
    }

    /// Something happened, within another call or by itself.
    fn happened(&mut self, within: Option<usize>, event: Event) {
        let within = match event.what {
            // At once: before the call is over another thread may get the same block.
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

    /// Whether a call or one that it is within was asked to give a block back, or another size: then they are about that.
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

    /// A call is on its stack no more: what happened within has happened all the same.
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

    /// A call never returns.
    fn give_up(&mut self, index: usize, ledger: &Ledger<impl Counters>) {
        let allocation = self.calls.remove(index, ledger).payload;
        let parent = allocation.parent.and_then(|parent| self.calls.index_of(parent));
        self.promote(&allocation.inner, allocation.told(), parent);
        if allocation.parent.is_none() && allocation.allocator.size.is_some() {
            let what = What::Left { size_bytes: allocation.asked.size_bytes };
            self.events.push(Event { at_insns: allocation.began_insns, site: allocation.site, what });
        }
    }

    /// What happened within a call that never returns has happened by itself; what failed was why.
    /// `told`: see [`Allocation::told`].
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

/// Whether the function of a call that is under way made the call that returns there.
fn is_called_by(open: &Call, return_addr: u64, code: &Code) -> bool {
    code.function_of(return_addr.wrapping_sub(1)) == Some(open.entry)
}

/// Whether the stack of a call that returns to `own` has another that returns there, or is not known far enough to say that
/// it has none.
fn shows(stack: &[FrameKind], own: u64, return_addr: u64) -> bool {
    let is_own = |frame: &FrameKind| *frame == FrameKind::Caller { return_addr: own };
    let callers = if stack.first().is_some_and(is_own) { &stack[1..] } else { stack };
    callers.iter().any(|frame| match *frame {
        FrameKind::Caller { return_addr: other } => other == return_addr,
        FrameKind::Unknown(_) => true,
        FrameKind::Exception { .. } => false,
    })
}

/// The arguments of a function that starts here.
fn asked(allocator: &Allocator, guest: &mut Guest<impl Vcpu>) -> Asked {
    let mut value = |argument: Option<Argument>, otherwise| match argument {
        Some(Argument::Register(number)) => guest.general_register(number),
        Some(Argument::Constant(value)) => value,
        None => otherwise,
    };
    Asked {
        size_bytes: value(allocator.size, 0).saturating_mul(value(allocator.count, 1)),
        align_bytes: value(allocator.align, 0),
        old: value(allocator.old.map(Argument::Register), 0),
        place: value(allocator.place.map(Argument::Register), 0),
    }
}

/// What a call has come to that has just returned; None: to nothing.
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
        // A block of no size is given back by some, and kept by others.
        (0, 0) if size_bytes == 0 => None,
        (0, old) if size_bytes == 0 => Some(What::Freed { address: old }),
        (0, _) => Some(What::Failed { size_bytes, align_bytes }),
        (address, 0) => Some(What::Allocated { address, size_bytes, align_bytes }),
        (address, old) => Some(What::Moved { old, address, size_bytes }),
    }
}
