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

/// Zones of one context.
#[derive(Default)]
pub struct Nest {
    /// Instructions of this context alone.
    pub insns: u64,
    /// Zones under way, the outermost first.
    pub open: Vec<Open>,
    /// Counter of a task's instructions, once it has any.
    pub(super) slot: Option<u32>,
    /// Zone that was under way where the context began, as samples name it; 0: none.
    pub base: u32,
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
    pub since: u64,
    /// The vCPU's clock as it began.
    pub began_at: u64,
    /// Instructions of inner zones that have ended.
    pub within_insns: u64,
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
    /// The vCPU's instructions that have been counted for contexts.
    pub counted_insns: u64,
    /// Counters of exceptions, by number.
    exceptions: FxHashMap<u64, u32>,
}

impl Contexts {
    /// Counts instructions of an exception with this handler.
    pub fn count_exception(
        &mut self,
        (number, handler): (u64, u64),
        vcpu: u32,
        insns: u64,
        ledger: &mut Ledger<impl Counters>,
    ) {
        let row = Row::Exception { number, handler };
        let define = || ledger.define(|slot| Definition::Row { slot, row });
        let slot = *self.exceptions.entry(number).or_insert_with(define);
        ledger.add(slot, vcpu, insns);
    }

    /// Counts instructions of a task, or of code outside all tasks.
    pub fn count_task(&mut self, task: u32, vcpu: u32, insns: u64, ledger: &mut Ledger<impl Counters>) {
        let nest = self.threads.entry(task).or_default();
        nest.insns += insns;
        let define = || ledger.define(|slot| Definition::Row { slot, row: Row::Task { task } });
        let slot = *nest.slot.get_or_insert_with(define);
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
                outer.within_insns += open.within_insns;
            }
        }
    }

    /// Ends the innermost zone here.
    pub fn close(&mut self, vcpu: u32, ledger: &Ledger<impl Counters>) {
        let Some(open) = self.open.pop() else { return };
        let insns = self.insns - open.since;
        if let Some(outer) = self.open.last_mut() {
            outer.within_insns += insns;
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
        add(ZoneCounter::Sum, insns);
        add(ZoneCounter::Elapsed, ledger.insns(vcpu) - open.began_at);
        add(ZoneCounter::Own, insns - open.within_insns);
        if self.open.iter().any(|outer| outer.name == open.name) {
            add(ZoneCounter::Recursive, 1);
        } else {
            add(ZoneCounter::Total, insns);
        }
        raise(ZoneCounter::MinComplement, !insns);
        if raise(ZoneCounter::Max, insns) || is_first {
            ledger.set(open.slot + ZoneCounter::LongestAt as u32, vcpu, open.pc);
            ledger.set(open.slot + ZoneCounter::LongestSince as u32, vcpu, open.began_at);
        }
    }

    /// Opens the window: zones under way began before it.
    pub fn restart(&mut self) {
        self.open.iter_mut().for_each(|open| open.began_before_window = true);
    }
}
