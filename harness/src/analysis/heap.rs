// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replay of the heap: memory by call path at the peak and at the end, invalid frees, and fragmentation.
//!
//! Bytes are those requested, without an allocator's overhead. A successful resize counts as a free and an
//! allocation.
//!
//! Everything is in the order of the events. Blocks from before the window are known, and count as held from the
//! start, but not as leaks of the window.

use std::collections::{BTreeMap, HashMap};

use wire::definition::FrameKind;
use wire::heap::{Event, What};

use crate::analysis::allocator_clones;
use crate::analysis::calltree::CallTree;
use crate::analysis::lost::Lost;
use crate::analysis::stacks::View;
use crate::profile::Profile;
use crate::profile::heap::Heap;
use crate::text::symbol_name::stable_name;

/// Message for a run that did not follow the heap.
pub const NOT_FOLLOWED: &str = "the heap was not followed in this run: profile the firmware with --heap";

/// Number of points of the history over the run.
pub const POINTS: u64 = 400;

/// Maximum number of invalid frees that are kept one by one; all are counted.
const MAX_MISUSES: usize = 1000;

/// Upper bound of a block's size, for damaged or misdeclared arguments.
const MAX_BLOCK_BYTES: u64 = 1 << 40;

/// Bytes and blocks held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Requested bytes.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl Held {
    fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.blocks += 1;
    }

    fn remove(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.blocks = self.blocks.saturating_sub(1);
    }

    /// Sum of both amounts.
    pub fn plus(self, other: Held) -> Held {
        Held { bytes: self.bytes.saturating_add(other.bytes), blocks: self.blocks + other.blocks }
    }
}

/// Use of the heap in the window, by one site or by all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// All allocations.
    pub allocated: Held,
    /// Blocks allocated by this site and freed, by any site.
    pub freed: Held,
    /// Blocks of this site held when the total was at its peak.
    pub at_peak: Held,
    /// Allocated blocks that are held at the end.
    pub leaked: Held,
    /// Blocks that were freed before any later allocation.
    pub temporary: u64,
    /// Failed allocations.
    pub failed: Held,
    /// Calls left by an exception or a longjmp.
    pub left: Held,
    /// Sum of the freed blocks' lifetimes, in instructions.
    pub lifetime_insns: u64,
    /// Longest lifetime of a freed block, in instructions.
    pub longest_insns: u64,
}

impl Use {
    /// Both uses together.
    pub fn plus(self, other: Use) -> Use {
        Use {
            allocated: self.allocated.plus(other.allocated),
            freed: self.freed.plus(other.freed),
            at_peak: self.at_peak.plus(other.at_peak),
            leaked: self.leaked.plus(other.leaked),
            temporary: self.temporary + other.temporary,
            failed: self.failed.plus(other.failed),
            left: self.left.plus(other.left),
            lifetime_insns: self.lifetime_insns.saturating_add(other.lifetime_insns),
            longest_insns: self.longest_insns.max(other.longest_insns),
        }
    }
}

/// Fault of an invalid free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wrong {
    /// The block had been freed before.
    Double {
        /// Site of the first free.
        first: u32,
        /// Instruction of the window of the first free.
        first_at_insns: u64,
    },
    /// No block was ever allocated at the address.
    Never,
}

/// A free of an address without a held block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misuse {
    /// Instructions of the window.
    pub at_insns: u64,
    /// The address that was freed.
    pub address: u64,
    /// Site of the free.
    pub site: u32,
    /// Site of the block's allocation, if there was one.
    pub allocated: Option<u32>,
    /// Fault of the free.
    pub wrong: Wrong,
}

/// State of the heap at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Instructions of the window.
    pub at_insns: u64,
    /// Most bytes held since the previous point.
    pub most_bytes: u64,
    /// Bytes held.
    pub held_bytes: u64,
    /// Blocks held.
    pub held_blocks: u64,
    /// Bytes from the arena's start to the end of the highest block so far.
    pub high_water_bytes: u64,
    /// Largest gap of the arena between blocks, or up to its end.
    pub largest_free_bytes: u64,
}

/// Memory that contains the blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Name in the image; None: the range from the lowest to the highest block.
    pub name: Option<String>,
    /// Its first address.
    pub start: u64,
    /// End address, exclusive.
    pub end: u64,
}

impl Extent {
    fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// The firmware's use of its heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeapUse {
    /// Use by all sites.
    pub total: Use,
    /// Use by site, in the order of their numbers.
    pub sites: Vec<Use>,
    /// Most bytes held at once.
    pub peak: Held,
    /// Instruction of the window at which the peak was first reached.
    pub peak_at_insns: u64,
    /// Blocks held as the window opened.
    pub before: Held,
    /// Blocks of `before` that are still held at the end.
    pub still_before: Held,
    /// All blocks held at the end: leaks, and blocks from before.
    pub at_end: Held,
    /// The first invalid frees, in order.
    pub misuses: Vec<Misuse>,
    /// Number of frees of blocks that had been freed.
    pub double_frees: u64,
    /// Number of frees of addresses that were never allocated.
    pub bad_frees: u64,
    /// Number of blocks allocated again while held: a function that was not followed freed them.
    pub reissued: u64,
    /// Memory of the blocks.
    pub extent: Option<Extent>,
    /// History of the heap.
    pub history: Vec<Point>,
}

/// A held block.
#[derive(Clone, Copy)]
struct Block {
    bytes: u64,
    site: u32,
    at_insns: u64,
    /// Number of the allocation, counted from 1.
    ordinal: u64,
    is_of_window: bool,
}

/// A freed block, by its address.
struct Freed {
    site: u32,
    at_insns: u64,
    allocated: u32,
}

/// Held blocks at the current event.
#[derive(Default)]
struct Live {
    blocks: BTreeMap<u64, Block>,
    held: Held,
    allocations: u64,
    is_window: bool,
    /// Blocks whose addresses were allocated again while they were held: a call under way may be freeing them.
    displaced: HashMap<u64, Vec<Block>>,
}

impl Live {
    /// Adds a block of this size.
    fn allocate(&mut self, address: u64, bytes: u64, event: &Event) -> Option<Block> {
        self.allocations += 1;
        let (site, at_insns) = (event.site, event.at_insns);
        let block = Block { bytes, site, at_insns, ordinal: self.allocations, is_of_window: self.is_window };
        let there = self.blocks.insert(address, block);
        self.held.add(bytes);
        if let Some(there) = there {
            self.held.remove(there.bytes);
        }
        there
    }

    fn free(&mut self, address: u64) -> Option<Block> {
        let block = self.blocks.remove(&address)?;
        self.held.remove(block.bytes);
        Some(block)
    }
}

/// Replays a profile's heap events; None: the heap was not followed.
pub fn replay(profile: &Profile) -> Option<HeapUse> {
    let heap = profile.heap.as_ref()?;
    let first = survey(heap);
    Some(Replay::new(profile, heap, &first).run(heap))
}

/// Fragmentation of the heap, event by event.
pub struct Pieces(Replay);

impl Pieces {
    /// State of a profile before its first event; None: the heap was not followed.
    pub fn new(profile: &Profile) -> Option<Pieces> {
        let heap = profile.heap.as_ref()?;
        Some(Pieces(Replay::new(profile, heap, &survey(heap))))
    }

    /// Advances by an event.
    pub fn pass(&mut self, event: &Event) {
        self.0.event(event);
    }

    /// Number of held blocks.
    pub fn blocks(&self) -> u64 {
        self.0.live.held.blocks
    }

    /// Largest gap of the arena between blocks, or up to its end.
    pub fn largest_free_bytes(&self) -> u64 {
        self.0.largest_free_bytes()
    }
}

/// Results of a first pass over the events.
#[derive(Default)]
struct Survey {
    /// Index of the event after which most is held.
    peak_index: Option<usize>,
    /// Lowest and highest address of all blocks.
    range: Option<(u64, u64)>,
    /// Whether a block was in the memory that the image names.
    is_arena_used: bool,
}

fn bytes_of(size_bytes: u64) -> u64 {
    size_bytes.min(MAX_BLOCK_BYTES)
}

fn survey(heap: &Heap) -> Survey {
    let mut survey = Survey::default();
    let mut live = Live::default();
    let mut most = 0;
    for (index, event) in heap.events().enumerate() {
        let mut given = None;
        match event.what {
            What::Opened => live.is_window = true,
            What::Allocated { address, size_bytes, .. } => given = Some((address, size_bytes)),
            What::Moved { old, address, size_bytes } => {
                live.free(old);
                given = Some((address, size_bytes));
            }
            What::Freed { address } => drop(live.free(address)),
            What::Failed { .. } | What::Left { .. } => {}
        }
        if let Some((address, size_bytes)) = given {
            let bytes = bytes_of(size_bytes);
            live.allocate(address, bytes, &event);
            let end = address.saturating_add(bytes);
            let (first, last) = survey.range.unwrap_or((address, end));
            survey.range = Some((first.min(address), last.max(end)));
            survey.is_arena_used |= heap.arena.as_ref().is_some_and(|arena| arena.holds(address));
        }
        if live.is_window && (live.held.bytes > most || survey.peak_index.is_none()) {
            most = live.held.bytes;
            survey.peak_index = Some(index);
        }
    }
    survey
}

struct Replay {
    found: HeapUse,
    live: Live,
    freed: HashMap<u64, Freed>,
    /// Gaps between blocks: number by size.
    gaps: BTreeMap<u64, u32>,
    peak_index: Option<usize>,
    last_end: u64,
    total_insns: u64,
}

impl Replay {
    fn new(profile: &Profile, heap: &Heap, survey: &Survey) -> Replay {
        let named = heap.arena.as_ref().map(|arena| (Some(arena.name.clone()), arena.start, arena.end));
        // Blocks elsewhere belong to another allocator. If all blocks do, the named memory is something else.
        let named = named.filter(|_| survey.is_arena_used);
        let extent = named.or_else(|| survey.range.map(|(first, last)| (None, first, last)));
        let extent = extent.map(|(name, start, end)| Extent { name, start, end });
        let mut gaps = BTreeMap::new();
        if let Some(Extent { start, end, .. }) = &extent {
            gaps.insert(end - start, 1);
        }
        Replay {
            found: HeapUse {
                total: Use::default(),
                sites: vec![Use::default(); heap.sites.len()],
                peak: Held::default(),
                peak_at_insns: 0,
                before: Held::default(),
                still_before: Held::default(),
                at_end: Held::default(),
                misuses: Vec::new(),
                double_frees: 0,
                bad_frees: 0,
                reissued: 0,
                extent,
                history: Vec::new(),
            },
            live: Live::default(),
            freed: HashMap::new(),
            gaps,
            peak_index: survey.peak_index,
            last_end: 0,
            total_insns: profile.total_insns().max(1),
        }
    }

    fn run(mut self, heap: &Heap) -> HeapUse {
        for (index, event) in heap.events().enumerate() {
            self.event(&event);
            if self.peak_index == Some(index) {
                self.peak(event.at_insns);
            }
            if self.live.is_window && event.what != What::Opened {
                self.remember(event.at_insns);
            }
        }
        for block in self.live.blocks.values() {
            if block.is_of_window {
                self.found.sites[block.site as usize - 1].leaked.add(block.bytes);
            } else {
                self.found.still_before.add(block.bytes);
            }
        }
        self.found.at_end = self.live.held;
        self.found.total = self.found.sites.iter().fold(Use::default(), |sum, site| sum.plus(*site));
        self.found
    }

    fn event(&mut self, event: &Event) {
        match event.what {
            What::Opened => {
                self.live.is_window = true;
                self.found.before = self.live.held;
                for block in self.live.blocks.values_mut() {
                    block.at_insns = 0;
                }
            }
            What::Allocated { address, size_bytes, .. } => self.allocate(address, bytes_of(size_bytes), event),
            What::Freed { address } => self.free(address, event),
            What::Moved { old, address, size_bytes } => {
                self.free(old, event);
                self.allocate(address, bytes_of(size_bytes), event);
            }
            What::Failed { size_bytes, .. } => {
                if let Some(site) = self.site(event) {
                    site.failed.add(bytes_of(size_bytes));
                }
            }
            What::Left { size_bytes } => {
                if let Some(site) = self.site(event) {
                    site.left.add(bytes_of(size_bytes));
                }
            }
        }
    }

    /// Use of the event's site; None before the window, whose events do not count.
    fn site(&mut self, event: &Event) -> Option<&mut Use> {
        if self.live.is_window { self.found.sites.get_mut((event.site as usize).checked_sub(1)?) } else { None }
    }

    fn allocate(&mut self, address: u64, bytes: u64, event: &Event) {
        if let Some(there) = self.live.blocks.get(&address).copied() {
            self.leave_gap(address, there.bytes);
            self.live.displaced.entry(address).or_default().push(there);
            self.found.reissued += u64::from(self.live.is_window);
        }
        self.fill_gap(address, bytes);
        self.live.allocate(address, bytes, event);
        self.freed.remove(&address);
        if self.found.extent.as_ref().is_some_and(|extent| extent.holds(address)) {
            self.last_end = self.last_end.max(address.saturating_add(bytes));
        }
        if let Some(site) = self.site(event) {
            site.allocated.add(bytes);
        }
    }

    fn free(&mut self, address: u64, event: &Event) {
        // Another call was given this block's address before the call that freed the block was over.
        let displaced = match event.what {
            What::Moved { .. } => self.live.displaced.get_mut(&address).and_then(Vec::pop),
            _ => None,
        };
        if displaced.is_some() {
            self.found.reissued = self.found.reissued.saturating_sub(u64::from(self.live.is_window));
        }
        let block = displaced.or_else(|| {
            let block = self.live.free(address)?;
            self.leave_gap(address, block.bytes);
            self.freed.insert(address, Freed { site: event.site, at_insns: event.at_insns, allocated: block.site });
            Some(block)
        });
        let Some(block) = block else { return self.misuse(address, event) };
        if !self.live.is_window || !block.is_of_window {
            return;
        }
        // A resize does not make a block temporary.
        let is_freed = matches!(event.what, What::Freed { .. });
        let is_temporary = is_freed && block.ordinal == self.live.allocations;
        if let Some(site) = self.found.sites.get_mut(block.site as usize - 1) {
            let lifetime_insns = event.at_insns.saturating_sub(block.at_insns);
            site.freed.add(block.bytes);
            site.temporary += u64::from(is_temporary);
            site.lifetime_insns = site.lifetime_insns.saturating_add(lifetime_insns);
            site.longest_insns = site.longest_insns.max(lifetime_insns);
        }
    }

    fn misuse(&mut self, address: u64, event: &Event) {
        if !self.live.is_window {
            return;
        }
        let (allocated, wrong) = match self.freed.get(&address) {
            Some(freed) => {
                self.found.double_frees += 1;
                (Some(freed.allocated), Wrong::Double { first: freed.site, first_at_insns: freed.at_insns })
            }
            None => {
                self.found.bad_frees += 1;
                (None, Wrong::Never)
            }
        };
        if self.found.misuses.len() < MAX_MISUSES {
            let (at_insns, site) = (event.at_insns, event.site);
            self.found.misuses.push(Misuse { at_insns, address, site, allocated, wrong });
        }
    }

    fn peak(&mut self, at_insns: u64) {
        self.found.peak = self.live.held;
        // If as much was held when the window opened, the peak was reached there.
        self.found.peak_at_insns = if self.live.held == self.found.before { 0 } else { at_insns };
        for block in self.live.blocks.values() {
            if let Some(site) = self.found.sites.get_mut(block.site as usize - 1) {
                site.at_peak.add(block.bytes);
            }
        }
    }

    /// Bounds of the gap around an address: the neighbouring blocks', or the arena's.
    fn around(&self, address: u64) -> Option<(u64, u64)> {
        let extent = self.found.extent.as_ref().filter(|extent| extent.holds(address))?;
        let Extent { start, end, .. } = extent;
        let before = self.live.blocks.range(..address).next_back();
        let before = before.map_or(*start, |(at, block)| at.saturating_add(block.bytes));
        let after = self.live.blocks.range(address.checked_add(1)?..).next().map_or(*end, |(at, _)| *at);
        Some((before.max(*start), after.min(*end)))
    }

    fn count_gap(&mut self, from: u64, to: u64, is_there: bool) {
        let bytes = to.saturating_sub(from);
        if bytes == 0 {
            return;
        }
        let count = self.gaps.entry(bytes).or_default();
        if is_there {
            *count += 1;
        } else {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.gaps.remove(&bytes);
            }
        }
    }

    /// Updates the gaps for a new block.
    fn fill_gap(&mut self, address: u64, bytes: u64) {
        let Some((before, after)) = self.around(address) else { return };
        self.count_gap(before, after, false);
        self.count_gap(before, address, true);
        self.count_gap(address.saturating_add(bytes), after, true);
    }

    /// Updates the gaps for a removed block.
    fn leave_gap(&mut self, address: u64, bytes: u64) {
        let Some((before, after)) = self.around(address) else { return };
        self.count_gap(before, address, false);
        self.count_gap(address.saturating_add(bytes), after, false);
        self.count_gap(before, after, true);
    }

    fn largest_free_bytes(&self) -> u64 {
        self.gaps.last_key_value().map_or(0, |(bytes, _)| *bytes)
    }

    fn remember(&mut self, at_insns: u64) {
        let step = |at_insns: u64| u128::from(at_insns) * u128::from(POINTS) / u128::from(self.total_insns);
        let held_bytes = self.live.held.bytes;
        let start = self.found.extent.as_ref().map_or(0, |extent| extent.start);
        let point = Point {
            at_insns,
            most_bytes: held_bytes,
            held_bytes,
            held_blocks: self.live.held.blocks,
            high_water_bytes: self.last_end.saturating_sub(start),
            largest_free_bytes: self.largest_free_bytes(),
        };
        match self.found.history.last_mut().filter(|last| step(last.at_insns) == step(at_insns)) {
            Some(last) => *last = Point { most_bytes: last.most_bytes.max(held_bytes), ..point },
            None => self.found.history.push(point),
        }
    }
}

/// A number of each call path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Bytes held at the peak.
    Peak,
    /// Bytes still held at the end.
    Leaked,
    /// Bytes allocated.
    Allocated,
    /// Number of allocations.
    Calls,
}

impl Quantity {
    /// All quantities.
    pub const ALL: [Quantity; 4] = [Quantity::Peak, Quantity::Leaked, Quantity::Allocated, Quantity::Calls];

    /// Quantity of one use.
    pub fn of(self, site: &Use) -> u64 {
        match self {
            Quantity::Peak => site.at_peak.bytes,
            Quantity::Leaked => site.leaked.bytes,
            Quantity::Allocated => site.allocated.bytes,
            Quantity::Calls => site.allocated.blocks,
        }
    }
}

/// Call paths with this quantity in place of instructions.
pub fn tree(profile: &Profile, found: &HeapUse, view: View, quantity: Quantity) -> CallTree {
    let mut tree = paths(profile, view);
    for path in &mut tree.paths {
        (path.insns, path.samples) = (0, 0);
    }
    for (site, path) in found.sites.iter().zip(&tree.samples) {
        if let Some(path) = path.checked_sub(1).and_then(|index| tree.paths.get_mut(index as usize)) {
            path.insns = path.insns.saturating_add(quantity.of(site));
        }
    }
    tree
}

/// Call path of each site, in the order of their numbers, ending with the called function; and the names of all
/// frames.
pub fn paths(profile: &Profile, view: View) -> CallTree {
    let sites = profile.heap.as_ref().map_or(&[][..], |heap| &heap.sites);
    CallTree::of_places(profile, view, sites.iter().map(|site| (site.task, site.stack, site.entry)))
}

/// Address in the function that made the request: the innermost caller, or else the called function. None: unknown.
pub fn asker(profile: &Profile, site: u32) -> Option<u64> {
    let site = profile.heap.as_ref()?.sites.get((site as usize).checked_sub(1)?)?;
    match profile.stack(site.stack).last().map(|frame| frame.kind) {
        Some(FrameKind::Caller { return_addr }) => Some(return_addr.wrapping_sub(1)),
        Some(FrameKind::Exception { handler, .. }) => Some(handler),
        Some(FrameKind::Unknown(_)) => None,
        None => Some(site.entry),
    }
}

/// Methods of Rust's allocators, called by `__rust_alloc` and its siblings unless the compiler inlined them.
const METHODS: [&str; 4] = ["alloc", "alloc_zeroed", "dealloc", "realloc"];

/// Calls of a Rust allocator's methods that bypassed the followed functions. Their effect is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unfollowed {
    /// Number of calls by method's name.
    pub calls: BTreeMap<String, u64>,
    /// Events that the heap lacks because of them.
    pub lost: Lost,
}

/// Calls that bypassed the followed functions.
///
/// A method that an allocator does not define is the trait's own, which calls others: `realloc` and `alloc_zeroed`
/// call `alloc`. Functions called only by followed ones are part of them.
pub fn unfollowed(profile: &Profile) -> Unfollowed {
    let mut unfollowed = Unfollowed::default();
    let Some(heap) = &profile.heap else { return unfollowed };
    let inside = allocator_clones::enclosed(profile, heap.functions.iter().copied().collect());
    let method = |address: u64| {
        let function = profile.names.function_at(address)?;
        let name = &function.name;
        // In the mangling before Rust 1.96, the trait's own method has no type.
        let (_, method) = name.split_once("GlobalAlloc>::").or_else(|| name.split_once("GlobalAlloc::"))?;
        let method = METHODS.into_iter().find(|known| *known == stable_name(method))?;
        (!heap.functions.contains(&function.start)).then_some((method, function))
    };
    let start = |address: u64| profile.names.function_at(address).map(|function| function.start);
    let is_followed = |site: u64| start(site).is_some_and(|start| inside.contains(&start)) || method(site).is_some();
    for arc in profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs).filter(|arc| arc.count > 0 && !is_followed(arc.site))
    {
        if let Some((method, function)) = method(arc.target) {
            *unfollowed.calls.entry(stable_name(&function.name).to_owned()).or_default() += arc.count;
            let (frees, allocations) = (["dealloc", "realloc"].contains(&method), method != "dealloc");
            unfollowed.lost = unfollowed.lost.or(Lost { allocations, frees });
        }
    }
    unfollowed
}

/// All kinds of events that a profile's heap lacks. A block allocated again while held was freed unnoticed.
pub fn lost(profile: &Profile, found: &HeapUse) -> Lost {
    let is_reissued = Lost { allocations: false, frees: found.reissued > 0 };
    is_reissued.or(unfollowed(profile).lost).or(allocator_clones::unfollowed(profile).lost())
}

/// Use by a property of sites, in the order of that property.
pub fn by<K: Ord>(heap: &HeapUse, key: impl Fn(u32) -> K) -> BTreeMap<K, Use> {
    let mut rows: BTreeMap<K, Use> = BTreeMap::new();
    for (number, site) in (1..).zip(&heap.sites) {
        let row = rows.entry(key(number)).or_default();
        *row = row.plus(*site);
    }
    rows
}

#[cfg(test)]
mod tests {
    use wire::heap::Encoder;

    use super::*;
    use crate::profile::heap::{Arena, Site};
    use crate::profile::testing::empty;

    const A: u64 = 0x2000_0000;

    fn profile(events: &[(u64, What)]) -> Profile {
        let mut profile = empty().function("main", 0x40, 0x10).function("malloc", 0x80, 0x10).insn(0x40, 1000);
        let mut heap = Heap { sites: vec![Site { entry: 0x80, stack: 0, task: 0 }], ..Heap::default() };
        let mut encoder = Encoder::default();
        for &(at_insns, what) in events {
            let site = u32::from(what != What::Opened);
            encoder.put(&Event { at_insns, site, what }, &mut heap.events).unwrap();
        }
        profile.heap = Some(heap);
        profile
    }

    fn found(events: &[(u64, What)]) -> HeapUse {
        replay(&profile(&[&[(0, What::Opened)], events].concat())).unwrap()
    }

    fn allocated(address: u64, size_bytes: u64) -> What {
        What::Allocated { address, size_bytes, align_bytes: 0 }
    }

    fn held(bytes: u64, blocks: u64) -> Held {
        Held { bytes, blocks }
    }

    #[test]
    fn the_peak_is_the_first_time_that_most_was_held() {
        let events = [
            (10, allocated(A, 100)),
            (20, allocated(A + 0x100, 50)),
            (30, What::Freed { address: A }),
            (40, allocated(A, 100)),
            (50, What::Freed { address: A + 0x100 }),
        ];
        let found = found(&events);
        assert_eq!((found.peak, found.peak_at_insns), (held(150, 2), 20));
        assert_eq!((found.total.leaked, found.at_end), (held(100, 1), held(100, 1)));
        assert_eq!((found.total.lifetime_insns, found.total.longest_insns), (20 + 30, 30));
        assert_eq!(found.total.temporary, 0);
    }

    #[test]
    fn what_is_freed_before_the_next_allocation_was_temporary_and_what_grows_was_not() {
        let moved = What::Moved { old: A, address: A + 0x40, size_bytes: 20 };
        let found = found(&[
            (1, allocated(A, 10)),
            (2, moved),
            (3, What::Freed { address: A + 0x40 }),
            (4, allocated(A, 1)),
            (5, allocated(A + 8, 1)),
            (6, What::Freed { address: A }),
        ]);
        assert_eq!(found.total.temporary, 1);
        assert_eq!((found.total.allocated, found.total.freed), (held(32, 4), held(31, 3)));
    }

    #[test]
    fn a_free_of_what_is_not_held_is_a_second_one_or_of_what_never_was() {
        let events = [
            (1, allocated(A, 10)),
            (2, What::Freed { address: A }),
            (3, What::Freed { address: A }),
            (4, What::Freed { address: A + 4 }),
        ];
        let found = found(&events);
        assert_eq!((found.double_frees, found.bad_frees), (1, 1));
        let first = Wrong::Double { first: 1, first_at_insns: 2 };
        assert_eq!(found.misuses.iter().map(|misuse| misuse.wrong).collect::<Vec<_>>(), [first, Wrong::Never]);
        assert_eq!(found.total.freed, held(10, 1));
    }

    #[test]
    fn a_block_that_is_given_out_again_was_freed_unseen_or_is_about_to_be_moved() {
        let unseen = found(&[(1, allocated(A, 10)), (2, allocated(A, 30))]);
        assert_eq!((unseen.reissued, unseen.at_end), (1, held(30, 1)));
        // Another task gets the block that an unfinished realloc has freed.
        let moved = What::Moved { old: A, address: A + 0x40, size_bytes: 20 };
        let found = found(&[(1, allocated(A, 10)), (2, allocated(A, 30)), (3, moved)]);
        assert_eq!((found.reissued, found.double_frees, found.at_end), (0, 0, held(50, 2)));
    }

    #[test]
    fn what_was_held_before_the_window_is_neither_a_leak_nor_a_wrong_free() {
        let before = [(5, allocated(A, 10)), (6, allocated(A + 0x20, 7)), (9, What::Opened)];
        let inside = [(1, What::Freed { address: A }), (2, allocated(A, 3))];
        let found = replay(&profile(&[&before[..], &inside].concat())).unwrap();
        assert_eq!((found.before, found.still_before), (held(17, 2), held(7, 1)));
        assert_eq!((found.total.allocated, found.total.leaked, found.at_end), (held(3, 1), held(3, 1), held(10, 2)));
        assert_eq!((found.double_frees, found.bad_frees), (0, 0));
        assert_eq!((found.peak, found.peak_at_insns), (held(17, 2), 0));
    }

    #[test]
    fn the_largest_free_block_is_the_largest_stretch_between_blocks_of_the_arena() {
        let events = [
            (1, allocated(A, 0x10)),
            (2, allocated(A + 0x10, 0x20)),
            (3, allocated(A + 0x80, 0x10)),
            (4, What::Freed { address: A + 0x10 }),
            (5, allocated(0x3000_0000, 9)),
        ];
        let mut profile = profile(&[&[(0, What::Opened)], &events[..]].concat());
        let arena = Arena { name: "ucHeap".to_owned(), start: A, end: A + 0x100 };
        profile.heap.as_mut().unwrap().arena = Some(arena);
        let found = replay(&profile).unwrap();
        let extent = found.extent.clone().unwrap();
        assert_eq!((extent.name.as_deref(), extent.start, extent.end), (Some("ucHeap"), A, A + 0x100));
        // The run has 1000 instructions and 400 points.
        let points: Vec<_> = found.history.iter().map(|point| (point.at_insns, point.largest_free_bytes)).collect();
        assert_eq!(points, [(2, 0xd0), (4, 0x70), (5, 0x70)]);
        assert_eq!(found.history[1].high_water_bytes, 0x90);
    }

    /// `main` calls `grow`, Rust's allocator or code with it inlined; the function at 0x100 is followed.
    fn rust(names: [&str; 3], arcs: &[(u64, u64)]) -> Profile {
        let mut profile = empty().function("main", 0x40, 0x20).insn(0x40, 10);
        for (name, start) in names.into_iter().zip([0x100, 0x200, 0x300]) {
            profile = profile.function(name, start, 0x10);
        }
        for &(site, target) in arcs {
            profile = profile.arc((site, target), Some(site + 4), true, 7);
        }
        profile.heap = Some(Heap { functions: vec![0x100], ..Heap::default() });
        profile
    }

    #[test]
    fn methods_that_pass_on_are_part_of_the_function_that_called_them() {
        let calls = [(0x44, 0x100), (0x104, 0x200), (0x204, 0x300)];
        for [realloc, alloc] in [
            ["core::alloc::global::GlobalAlloc::realloc", "<app::Heap as core::alloc::global::GlobalAlloc>::alloc"],
            [
                "core::alloc::global::GlobalAlloc::realloc::h0123456789abcdef",
                "<app::Heap as core::alloc::global::GlobalAlloc>::alloc",
            ],
            [
                "<app::Heap as core::alloc::global::GlobalAlloc>::realloc",
                "<app::Heap as core::alloc::global::GlobalAlloc>::alloc",
            ],
            // Without optimisation there is a function in between.
            ["app::with_lock::{closure#0}", "<app::Heap as core::alloc::global::GlobalAlloc>::alloc"],
        ] {
            let passes = rust(["__rust_realloc", realloc, alloc], &calls);
            assert_eq!(unfollowed(&passes), Unfollowed::default(), "{realloc}");
        }
    }

    #[test]
    fn methods_that_are_called_from_elsewhere_are_missed_by_what_they_do() {
        let alloc = "<app::Heap as core::alloc::global::GlobalAlloc>::alloc";
        let names = |method| ["__rust_alloc", method, alloc];
        let around = |method, calls: &[(u64, u64)]| unfollowed(&rust(names(method), calls));
        let realloc = around("core::alloc::global::GlobalAlloc::realloc", &[(0x44, 0x200), (0x204, 0x300)]);
        assert_eq!(realloc.calls, [("core::alloc::global::GlobalAlloc::realloc".to_owned(), 7)].into(), "once");
        assert_eq!(realloc.lost, Lost { allocations: true, frees: true });
        let dealloc = around("<app::Heap as core::alloc::global::GlobalAlloc>::dealloc", &[(0x44, 0x200)]);
        assert_eq!(dealloc.lost, Lost { allocations: false, frees: true });
        let both = around("app::grow", &[(0x44, 0x100), (0x104, 0x200), (0x204, 0x300), (0x48, 0x200)]);
        assert_eq!((both.calls.len(), both.lost), (1, Lost { allocations: true, frees: false }));
    }

    #[test]
    fn sizes_that_cannot_be_meant_do_no_harm() {
        let freed = What::Freed { address: 0 };
        let found = found(&[(1, allocated(u64::MAX, u64::MAX)), (2, allocated(0, u64::MAX)), (3, freed)]);
        assert_eq!(found.total.allocated.blocks, 2);
    }
}
