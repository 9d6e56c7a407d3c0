// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nests of zones: the zones under way in one context, each within the one before, and the context's own clock, which
//! stands still while others execute.
//!
//! A zone is not a call of [`super::watched`]: several instructions may end it, none of which is known as it begins, and
//! neither does a return end it, nor another zone that begins in the same frame.

use std::ops::Range;

use rustc_hash::FxHashMap;
use wire::definition::Definition;
use wire::timeline::What;
use wire::zone::{Row, ZoneCounter};

use crate::ledger::{Counters, Ledger};
use crate::time::Time;

/// Zones of one context.
#[derive(Default)]
pub struct Nest {
    /// Time of this context alone.
    pub time: Time,
    /// Zones under way, the outermost first.
    pub open: Vec<Open>,
    /// Counter of a task's instructions, once it has any.
    pub(super) slot: Option<u32>,
    /// Zone that was under way where the context began, as samples name it; 0: none.
    pub base: u32,
    /// Call of code that waits, see [`super::waiting`]; None: the context does not wait in one.
    pub waiting: Option<Waits>,
}

/// Call until whose return a context waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Address that it returns to.
    pub next: u64,
    /// Stack pointer before the call, and after it.
    pub sp: u64,
}

/// A zone that is under way.
pub struct Open {
    /// Number of its name.
    pub name: u32,
    /// Number of its scope; 0: unknown, or none.
    pub scope: u32,
    /// Whether it is a scope of the code, which its frame identifies.
    pub is_scope: bool,
    /// Id of the call that it is, which alone ends it; 0: it is none.
    pub call: u64,
    /// Address of the event that began it.
    pub pc: u64,
    /// Stack pointer at that event.
    pub sp: u64,
    /// First of its counters.
    pub slot: u32,
    /// The context's clock as it began.
    pub since: Time,
    /// The vCPU's clock as it began.
    pub began_at: Time,
    /// Time of inner zones that have ended.
    pub within: Time,
    /// Path of the zone, as samples name it.
    pub path: u32,
    /// Whether it began before the window opened.
    pub began_before_window: bool,
}

/// Contexts of one vCPU outside exceptions, and the clock up to which all contexts are counted.
#[derive(Default)]
pub struct Contexts {
    /// Nests by task.
    pub threads: FxHashMap<u32, Nest>,
    /// The vCPU's time that has been counted for contexts.
    pub counted: Time,
    /// Counters of exceptions' instructions and, where they are counted, of their cycles; by number.
    exceptions: FxHashMap<u64, (u32, Option<u32>)>,
    /// Counter of instructions in calls of code that waits, once there are any.
    waiting: Option<u32>,
}

impl Contexts {
    /// Counts the time of an exception with this handler.
    pub fn count_exception(
        &mut self,
        (number, handler): (u64, u64),
        vcpu: u32,
        time: Time,
        ledger: &mut Ledger<impl Counters>,
    ) {
        let has_cycles = ledger.cycle_slot().is_some();
        let (slot, cycles) = *self.exceptions.entry(number).or_insert_with(|| {
            let mut define = |row| ledger.define(|slot| Definition::Row { slot, row });
            let slot = define(Row::Exception { number, handler });
            (slot, has_cycles.then(|| define(Row::ExceptionCycles { number })))
        });
        ledger.add(slot, vcpu, time.insns);
        if let Some(slot) = cycles {
            ledger.add(slot, vcpu, time.cycles);
        }
    }

    /// Counts the time of a task, or of code outside all tasks. Returns whether it waits in a call.
    pub fn count_task(&mut self, task: u32, vcpu: u32, time: Time, ledger: &mut Ledger<impl Counters>) -> bool {
        let nest = self.threads.entry(task).or_default();
        nest.time += time;
        let define = || ledger.define(|slot| Definition::Row { slot, row: Row::Task { task } });
        let slot = *nest.slot.get_or_insert_with(define);
        ledger.add(slot, vcpu, time.insns);
        nest.waiting.is_some()
    }

    /// Counts instructions in calls of code that waits.
    pub fn count_waiting(&mut self, vcpu: u32, insns: u64, ledger: &mut Ledger<impl Counters>) {
        let define = || ledger.define(|slot| Definition::Row { slot, row: Row::Waiting });
        let slot = *self.waiting.get_or_insert_with(define);
        ledger.add(slot, vcpu, insns);
    }
}

impl Nest {
    /// Innermost zone, as samples name it.
    pub fn path(&self) -> u32 {
        self.open.last().map_or(self.base, |open| open.path)
    }

    /// Ends the zones from the `keep`-th on, which were left without their ends.
    pub fn abandon(&mut self, keep: usize, vcpu: u32, ledger: &mut Ledger<impl Counters>) {
        self.abandon_some(keep..self.open.len(), vcpu, ledger);
    }

    /// Ends a zone whose code was left, and zones that began after it within its frame. A zone that began nearer to
    /// the stack's start did so later, and goes on.
    pub fn abandon_frame(&mut self, index: usize, vcpu: u32, ledger: &mut Ledger<impl Counters>) {
        let sp = self.open[index].sp;
        let after = self.open[index..].iter().position(|open| open.sp > sp);
        self.abandon_some(index..after.map_or(self.open.len(), |after| index + after), vcpu, ledger);
    }

    fn abandon_some(&mut self, which: Range<usize>, vcpu: u32, ledger: &mut Ledger<impl Counters>) {
        for index in which.rev() {
            let open = self.open.remove(index);
            ledger.happened(vcpu, What::Abandoned { name: open.name });
            if !open.began_before_window {
                ledger.add(open.slot + ZoneCounter::Left as u32, vcpu, 1);
                ledger.add(open.slot + ZoneCounter::Open as u32, vcpu, u64::MAX);
            }
            // Instructions of inner zones are not the outer zone's own.
            if let Some(outer) = index.checked_sub(1).and_then(|outer| self.open.get_mut(outer)) {
                outer.within += open.within;
            }
        }
    }

    /// Ends the innermost zone here.
    pub fn close(&mut self, vcpu: u32, ledger: &Ledger<impl Counters>) {
        let Some(open) = self.open.pop() else { return };
        let time = self.time - open.since;
        if let Some(outer) = self.open.last_mut() {
            outer.within += time;
        }
        if open.began_before_window {
            return;
        }
        let add = |counter: ZoneCounter, amount: u64| ledger.add(open.slot + counter as u32, vcpu, amount);
        let raise = |counter: ZoneCounter, value: u64| {
            let slot = open.slot + counter as u32;
            let is_higher = value > ledger.get(slot, vcpu);
            if is_higher {
                ledger.set(slot, vcpu, value);
            }
            is_higher
        };
        let is_first = add(ZoneCounter::Count, 1) == 1;
        add(ZoneCounter::Open, u64::MAX);
        let (elapsed, own) = (ledger.time(vcpu) - open.began_at, time - open.within);
        let is_recursive = self.open.iter().any(|outer| outer.name == open.name);
        let total = if is_recursive { Time::default() } else { time };
        add(ZoneCounter::Sum, time.insns);
        add(ZoneCounter::Elapsed, elapsed.insns);
        add(ZoneCounter::Own, own.insns);
        add(ZoneCounter::Recursive, is_recursive.into());
        add(ZoneCounter::Total, total.insns);
        raise(ZoneCounter::MinComplement, !time.insns);
        if raise(ZoneCounter::Max, time.insns) || is_first {
            ledger.set(open.slot + ZoneCounter::LongestAt as u32, vcpu, open.pc);
            ledger.set(open.slot + ZoneCounter::LongestSince as u32, vcpu, open.began_at.insns);
        }
        if ledger.cycle_slot().is_some() {
            add(ZoneCounter::SumCycles, time.cycles);
            add(ZoneCounter::ElapsedCycles, elapsed.cycles);
            add(ZoneCounter::OwnCycles, own.cycles);
            add(ZoneCounter::TotalCycles, total.cycles);
            raise(ZoneCounter::MinCyclesComplement, !time.cycles);
            raise(ZoneCounter::MaxCycles, time.cycles);
        }
    }

    /// Opens the window: zones under way began before it.
    pub fn restart(&mut self) {
        self.open.iter_mut().for_each(|open| open.began_before_window = true);
    }
}
