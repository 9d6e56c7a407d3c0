// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arcs that are only known at run time: indirect calls and jumps, conditional calls, tail calls.
//!
//! Such an instruction leaves its number in the vCPU's LAST cell. The next block's callback takes its own address as
//! the target; after that, the block overwrites the cell. If an interrupt came in between, the next block is the
//! handler's instead. The transfer's own register (unchanged by taking an exception) or target distinguishes the two
//! cases, or else the state that the exception saved.
//!
//! Calls and conditional branches set the alarm, so that any next block calls back. A jump only matters if it enters
//! a function: the blocks at entries of functions and exceptions ([`Site::needs_alarm`]) check the cell by
//! themselves, and a switch or an interpreter's dispatch costs no callback.

use std::collections::hash_map::Entry;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use wire::control::Word;
use wire::counters::{ALARM, CLOCK, FIRST_SITE, LAST};
use wire::definition::{Definition, TransferKind};
use wire::request::{Measure, Way};
use wire::unwind::Saved;

use crate::block::Step;
use crate::code::Code;
use crate::follow::activation;
use crate::guest::{Guest, Interrupted, Vcpu};
use crate::ledger::{Counters, Ledger};

/// Most arcs that are distinguished by their return address: far more than a firmware's code can have.
const MAX_ARCS: usize = 1 << 20;

/// An instruction whose target is only known in the next block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// Address of the instruction.
    pub pc: u64,
    /// Address after the instruction: a call's return address.
    pub next: u64,
    /// Entry of its function, if known.
    pub function: Option<u64>,
    /// Known part of the target.
    pub kind: SiteKind,
}

impl Site {
    fn is_call(&self) -> bool {
        match self.kind {
            SiteKind::Jump { .. } => false,
            SiteKind::Branch { call, .. } | SiteKind::Register { call, .. } | SiteKind::Unknown { call, .. } => call,
        }
    }

    /// Operations of generated code at the instruction, if blocks call back; `number`: see [`Transfers::number`].
    pub fn steps(&self, number: u64) -> impl Iterator<Item = Step> {
        let alarm = self.needs_alarm().then_some(Step::Add { slot: CLOCK, amount: ALARM });
        [Step::Store { slot: LAST, value: number }].into_iter().chain(alarm)
    }

    /// Whether every next block has to call back, not only a block at the start of a function or an exception.
    pub fn needs_alarm(&self) -> bool {
        self.is_call()
    }
}

/// Part of the target that is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SiteKind {
    /// Goes to the target or falls through.
    Branch {
        /// Its target.
        target: u64,
        /// Whether it leaves a return address.
        call: bool,
    },
    /// A tail call to the target; only the return address is unknown.
    Jump {
        /// Its target.
        target: u64,
    },
    /// Goes to register + offset, or (in a Thumb IT block) falls through.
    Register {
        /// Number of the register.
        reg: u8,
        /// Offset added to it.
        offset: i32,
        /// Whether it leaves a return address.
        call: bool,
        /// Whether it may fall through.
        conditional: bool,
    },
    /// Has a target that cannot be read afterwards.
    Unknown {
        /// Whether it leaves a return address.
        call: bool,
        /// Whether it may fall through.
        conditional: bool,
    },
}

/// Recent arcs of one site, each in the slot given by [`recent`].
type Recent = [Option<(Arc, u32)>; 4];

/// Slot of an arc among the recent ones.
fn recent(target: u64, return_addr: Option<u64>) -> usize {
    ((target ^ return_addr.unwrap_or(0)) >> 2) as usize % 4
}

/// Sites by number, from [`FIRST_SITE`].
#[derive(Default)]
struct Sites {
    /// Each site with its recent arcs and their counters: nearly always the next arc is one of them.
    list: Vec<(Site, Recent)>,
    numbers: FxHashMap<Site, u64>,
}

impl Sites {
    fn number(&mut self, site: &Site) -> u64 {
        if let Some(&number) = self.numbers.get(site) {
            return number;
        }
        let number = FIRST_SITE + self.list.len() as u64;
        self.list.push((*site, Recent::default()));
        self.numbers.insert(*site, number);
        number
    }

    fn get(&mut self, number: u64) -> Option<&mut (Site, Recent)> {
        self.list.get_mut(usize::try_from(number.checked_sub(FIRST_SITE)?).ok()?)
    }
}

/// A transfer that occurred, with its return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Arc {
    site: u64,
    target: u64,
    return_addr: Option<u64>,
    kind: TransferKind,
}

/// A counted way of a branch: harness asks for those that the other counts do not tell (`--branches`). The branch leaves
/// its number in the LAST cell as a transfer does, and the block that the way leads to calls back if it finds the number.
/// If an exception came in between, its first block finds the number, and [`Transfers::resolve`] asks for the interrupted
/// code.
#[derive(Clone, Copy, Debug)]
struct CountedWay {
    way: Way,
    /// Its counter; None: the place that the way leads to has not been translated yet, and no trap came between.
    slot: Option<u32>,
}

/// Counted ways of jumps through registers and tables (`--branches`). Such a jump leaves its number in the LAST cell
/// anyway, and a block at one of the landings calls back if it finds a number. Trap handlers are as for a
/// [`CountedWay`].
#[derive(Default)]
struct Landings {
    /// Addresses at which jumps are counted, sorted.
    places: Vec<Range<u64>>,
    /// Counters by the jump's address and the place.
    counters: FxHashMap<(u64, u64), u32>,
}

impl Landings {
    fn contains(&self, pc: u64) -> bool {
        let after = self.places.partition_point(|places| places.start <= pc);
        after.checked_sub(1).is_some_and(|before| self.places[before].contains(&pc))
    }

    /// Counts a jump that has arrived. A jump that may also fall through is a conditional return.
    fn count(&mut self, vcpu: u32, site: Site, pc: u64, ledger: &mut Ledger<impl Counters>) {
        let (SiteKind::Register { call: false, conditional: false, .. }
        | SiteKind::Unknown { call: false, conditional: false }) = site.kind
        else {
            return;
        };
        let ways = self.counters.len();
        let slot = match self.counters.entry((site.pc, pc)) {
            Entry::Occupied(known) => *known.get(),
            // The other ways of the jump do not add up to its executions then, and harness says that they are open.
            Entry::Vacant(_) if ways >= MAX_ARCS => return,
            Entry::Vacant(new) => *new.insert(ledger.edge(site.pc, pc)),
        };
        ledger.add(slot, vcpu, 1);
    }
}

/// Transfers whose target is known only at run time.
#[derive(Default)]
pub struct Transfers {
    sites: Sites,
    /// Counted ways by the branch's address.
    ways: FxHashMap<u64, CountedWay>,
    /// Branches whose counted ways lead to an address.
    ways_to: FxHashMap<u64, Vec<u64>>,
    /// Counted ways of jumps.
    landings: Landings,
    /// Counters of the arcs so far.
    arcs: FxHashMap<Arc, u32>,
    /// Targets of the arcs so far.
    targets: FxHashSet<u64>,
    /// Number of transfers with an undetermined target.
    unresolved: u64,
    /// Number of transfers with an exception before the target.
    interrupted: u64,
}

impl Transfers {
    /// Transfers, and ways that are counted.
    pub fn new(measure: &Measure) -> Transfers {
        let mut transfers = Transfers::default();
        transfers.landings.places.clone_from(&measure.landings);
        for &way in &measure.ways {
            transfers.ways.insert(way.site, CountedWay { way, slot: None });
            transfers.ways_to.entry(way.leads_to()).or_default().push(way.site);
        }
        transfers
    }

    /// The branch at an address as a site, if one of its ways is counted.
    pub fn counted_branch(&self, pc: u64, code: &Code) -> Option<Site> {
        let Way { site, next, target, .. } = self.ways.get(&pc)?.way;
        let kind = SiteKind::Branch { target, call: false };
        Some(Site { pc: site, next, function: code.function_of(site), kind })
    }

    /// Counted ways that lead to an address: the number that each leaves in the LAST cell, and its counter.
    pub fn counted_to(&mut self, pc: u64, code: &Code, ledger: &mut Ledger<impl Counters>) -> Vec<(u64, u32)> {
        let sites = self.ways_to.get(&pc).cloned().unwrap_or_default();
        let counted = sites.into_iter().filter_map(|site| {
            let site = self.counted_branch(site, code)?;
            Some((self.number(&site), self.way_counter(site.pc, ledger)?))
        });
        counted.collect()
    }

    /// Counter of a branch's counted way, defined when it is first asked for.
    fn way_counter(&mut self, site: u64, ledger: &mut Ledger<impl Counters>) -> Option<u32> {
        let counted = self.ways.get_mut(&site)?;
        Some(*counted.slot.get_or_insert_with(|| ledger.edge(site, counted.way.leads_to())))
    }

    /// Counts a way that an exception has interrupted, if it is a counted one and leads to `pc`.
    fn count_interrupted(&mut self, vcpu: u32, site: Site, pc: u64, code: &Code, ledger: &mut Ledger<impl Counters>) {
        let is_way = self.ways.get(&site.pc).is_some_and(|counted| counted.way.leads_to() == pc);
        if let Some(slot) = is_way.then(|| self.way_counter(site.pc, ledger)).flatten() {
            ledger.add(slot, vcpu, 1);
        }
        if self.is_landing(pc, code) {
            self.landings.count(vcpu, site, pc, ledger);
        }
    }

    /// Whether the jumps that arrive at an address are counted. Those to a function's entry are arcs.
    pub fn is_landing(&self, pc: u64, code: &Code) -> bool {
        self.landings.contains(pc) && !code.is_entry(pc)
    }

    /// Counts the jump whose number is in the LAST cell and that has led to a landing; no exception starts there.
    pub fn land(&mut self, vcpu: u32, pc: u64, ledger: &mut Ledger<impl Counters>) {
        if let Some(&mut (site, _)) = self.sites.get(ledger.get(LAST, vcpu)) {
            self.landings.count(vcpu, site, pc, ledger);
        }
    }

    /// Number of a site, for the LAST cell.
    pub fn number(&mut self, site: &Site) -> u64 {
        self.sites.number(site)
    }

    /// Call of this vCPU for which the block at `pc` is being translated: number of its site, and counter of its arc.
    pub fn arriving_call(&mut self, vcpu: u32, pc: u64, ledger: &mut Ledger<impl Counters>) -> Option<(u64, u32)> {
        let number = ledger.get(LAST, vcpu);
        let (site, _) = self.sites.get(number)?;
        let Site { pc: site, next, kind, .. } = *site;
        let call = matches!(kind, SiteKind::Register { call: true, .. } | SiteKind::Unknown { call: true, .. });
        // Falling through to the block is not a call.
        if !call || pc == next {
            return None;
        }
        let arc = Arc { site, target: pc, return_addr: Some(next), kind: TransferKind::Call };
        Some((number, self.arc(arc, ledger)))
    }

    /// Whether such a transfer has led to an address.
    pub fn has_led_to(&self, address: u64) -> bool {
        self.targets.contains(&address)
    }

    /// Opens the window: earlier undetermined targets do not count.
    pub fn restart(&mut self, ledger: &Ledger<impl Counters>) {
        (self.unresolved, self.interrupted) = (0, 0);
        ledger.say(Word::Unresolved, 0);
        ledger.say(Word::Interrupted, 0);
    }

    /// Handles a Thumb jump through a register before it is made, after its number was stored in the cell: an
    /// EXC_RETURN value makes it an exception return. Afterwards the value is gone, since the return restores the
    /// register.
    pub fn jump_by_register(
        &self,
        vcpu: u32,
        register: u8,
        guest: &mut Guest<impl Vcpu>,
        ledger: &Ledger<impl Counters>,
    ) {
        let target = guest.general_register(register);
        if guest.is_exception_return(target) == Some(true) {
            ledger.set(LAST, vcpu, 0);
        }
    }

    /// Resolves the transfer whose number is in the LAST cell; the block at `pc` is the first one after it.
    ///
    /// `is_sure`: no exception starts at `pc`, so that only the transfer can lead there.
    pub fn resolve(
        &mut self,
        vcpu: u32,
        pc: u64,
        is_sure: bool,
        guest: &mut Guest<impl Vcpu>,
        code: &mut Code,
        ledger: &mut Ledger<impl Counters>,
    ) {
        let number = ledger.get(LAST, vcpu);
        // None: there was no transfer.
        let Some((transfer, seen)) = self.sites.get(number) else { return };
        let transfer = *transfer;
        let Site { pc: site, next, function, kind } = transfer;
        // Nearly always a call has the same target as before.
        if let SiteKind::Register { reg, offset, call: true, .. } = kind
            && let Some((arc, slot)) = seen[recent(pc, Some(next))]
            && arc.target == pc
            && (is_sure || jump_target(reg, offset, guest) == pc)
        {
            ledger.add(slot, vcpu, 1);
            return;
        }
        let call = transfer.is_call();
        // Most jumps stay in their function (switches, loops), and no exception starts in its middle.
        let is_inside = function.is_some_and(|entry| entry != pc) && code.function_of(pc) == function;
        if !call && is_inside && !self.ways.contains_key(&site) {
            return;
        }
        // None: an exception came first. Some(None): the instruction fell through.
        let may_fall_through = matches!(
            kind,
            SiteKind::Branch { .. }
                | SiteKind::Register { conditional: true, .. }
                | SiteKind::Unknown { conditional: true, .. }
        );
        let arrived = match kind {
            SiteKind::Branch { target, .. } if pc == target => Some(Some(target)),
            SiteKind::Jump { target } => (pc == target).then_some(Some(target)),
            _ if may_fall_through && pc == next => Some(None),
            SiteKind::Branch { .. } => None,
            SiteKind::Register { reg, offset, .. } => (pc == jump_target(reg, offset, guest)).then_some(Some(pc)),
            SiteKind::Unknown { .. } => (!guest.is_exception_entry(pc)).then_some(Some(pc)),
        };
        let (target, return_addr) = match arrived {
            Some(None) => return,
            Some(Some(target)) => (target, None),
            // Neither the target nor an exception: on Arm, an exception return by a jump whose target came
            // from memory; on RISC-V a jump that overwrites its own register.
            None if !guest.is_exception_entry(pc) => {
                if guest.facts.returns_by_jump {
                    return;
                }
                (pc, None)
            }
            None => match self
                .interrupted_code(guest, ledger)
                .inspect(|interrupted| self.count_interrupted(vcpu, transfer, interrupted.pc, code, ledger))
            {
                Some(Interrupted { pc, .. }) if pc == next && may_fall_through => return,
                Some(Interrupted { pc, return_addr }) if can_lead_to(kind, pc, guest) => (pc, Some(return_addr)),
                // An exception before another one's first instruction, or a frame that cannot be read.
                _ => {
                    self.unresolved += 1;
                    ledger.say(Word::Unresolved, self.unresolved);
                    return;
                }
            },
        };
        // A jump into the middle of a function is a switch or a loop.
        if !call && !code.is_entry(target) {
            return;
        }
        let (kind, return_addr) = if call {
            (TransferKind::Call, Some(next))
        } else if function == Some(target) {
            (TransferKind::Jump, None)
        } else {
            // Assembly may keep changing data in the return register, so the number of arcs is limited.
            let known = self.arcs.len() < MAX_ARCS;
            let return_addr = return_addr.map(|interrupted| guest.code_address(interrupted));
            let return_addr = return_addr.or_else(|| return_address(site, target, guest, code));
            (TransferKind::Jump, return_addr.filter(|_| known))
        };
        let arc = Arc { site, target, return_addr, kind };
        let place = recent(target, return_addr);
        let slot = match self.sites.get(number).and_then(|(_, seen)| seen[place]) {
            Some((seen, slot)) if seen == arc => slot,
            _ => {
                let slot = self.arc(arc, ledger);
                if let Some((_, seen)) = self.sites.get(number) {
                    seen[place] = Some((arc, slot));
                }
                slot
            }
        };
        ledger.add(slot, vcpu, 1);
    }

    /// Counts an exception as a call: the code that goes on at `return_addr` asked for it, and its handler has returned
    /// into the function at `target` in place of that code. `site_bytes`: length of the instruction that asked.
    pub fn asked(
        &mut self,
        vcpu: u32,
        (target, return_addr, site_bytes): (u64, u64, u64),
        ledger: &mut Ledger<impl Counters>,
    ) {
        let site = return_addr.wrapping_sub(site_bytes);
        let arc = Arc { site, target, return_addr: Some(return_addr), kind: TransferKind::Call };
        let slot = self.arc(arc, ledger);
        ledger.add(slot, vcpu, 1);
    }

    /// Counter of an arc, defined when it is first seen.
    fn arc(&mut self, arc: Arc, ledger: &mut Ledger<impl Counters>) -> u32 {
        if let Some(&slot) = self.arcs.get(&arc) {
            return slot;
        }
        let Arc { site, target, return_addr, kind } = arc;
        let slot = ledger.define(|slot| Definition::Arc { slot, site, target, return_addr, kind });
        self.arcs.insert(arc, slot);
        self.targets.insert(target);
        slot
    }

    /// Reads the registers that an exception saved, at the start of its first block.
    fn interrupted_code(
        &mut self,
        guest: &mut Guest<impl Vcpu>,
        ledger: &Ledger<impl Counters>,
    ) -> Option<Interrupted> {
        self.interrupted += 1;
        ledger.say(Word::Interrupted, self.interrupted);
        guest.interrupted_code()
    }
}

/// Whether a transfer of this kind can have gone to `pc`.
fn can_lead_to(kind: SiteKind, pc: u64, guest: &mut Guest<impl Vcpu>) -> bool {
    match kind {
        SiteKind::Branch { target, .. } | SiteKind::Jump { target } => pc == target,
        SiteKind::Register { reg, offset, .. } => pc == jump_target(reg, offset, guest),
        SiteKind::Unknown { .. } => true,
    }
}

fn jump_target(reg: u8, offset: i32, guest: &mut Guest<impl Vcpu>) -> u64 {
    let value = guest.general_register(reg);
    guest.isa.wrap(value.wrapping_add_signed(offset.into())) & !1
}

/// Return address of code that a jump at `site` starts, as an address of code: on the stack on AVR and in the common end of
/// functions (`__riscv_restore`), or else in the register. None: on AVR, a handler, which a vector jumps to, and code that
/// is not a function's beginning.
fn return_address(site: u64, target: u64, guest: &mut Guest<impl Vcpu>, code: &mut Code) -> Option<u64> {
    if guest.isa.is_avr() && guest.is_exception_entry(site) {
        return None;
    }
    let rule = code.place(target, guest).rule;
    if rule.is_some_and(|rule| matches!(rule.return_addr, Saved::AtCfa(_))) {
        let context = guest.context(target);
        if let Some((activation, _)) = activation::at(context, false, guest, code) {
            return Some(activation.return_addr);
        }
    }
    let register = (!guest.isa.is_avr()).then(|| guest.return_register())?;
    Some(guest.code_address(register))
}
