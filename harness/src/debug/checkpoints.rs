// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run in several processes. The *pioneer* executes the run for the first time. *Checkpoints* are copies of the
//! pioneer, each held at the instruction at which it was made. The *explorer* is a copy of a checkpoint, at the
//! debugger's position.
//!
//! If no copies can be made, the pioneer is also the explorer, and going back takes another run.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;
use wire::debug::{AtStops, Hit, Watch, Why};

use crate::debug::process::{Halt, Held, Vehicle};
use crate::debug::travel::{At, Ended};

/// Initial distance of checkpoints, in instructions. It doubles when there are too many checkpoints, and when the
/// instructions between two of them execute too quickly.
const FIRST_STRIDE_INSNS: u64 = 1 << 22;

/// Time of execution between two checkpoints that is worth a checkpoint; their distance doubles if it takes less.
const WORTH_ONE: Duration = Duration::from_millis(25);

/// Most checkpoints of the whole run.
const MOST: usize = 128;

/// Most checkpoints near the debugger's position.
const MOST_NEAR: usize = 8;

/// Distance from such a checkpoint to the debugger's position, in instructions.
const NEAR_INSNS: u64 = 1 << 15;

/// Last stop of a repeated part of the run.
#[derive(Debug)]
pub(super) enum LastStop {
    /// A stop at this hit.
    At(Hit),
    /// No stop.
    None,
    /// The part was not executed to its end, because of an interrupt.
    Interrupted,
}

impl LastStop {
    /// Last stop that a process has logged before it was held.
    pub(super) fn of(held: &Held) -> LastStop {
        match held.last_hits.last() {
            _ if held.why == Halt::Held(Why::Interrupted) => LastStop::Interrupted,
            Some(hit) => LastStop::At(*hit),
            None => LastStop::None,
        }
    }
}

/// Executes a process up to an instruction; it may be interrupted.
pub(super) type Run<'a> = dyn FnMut(&mut Vehicle, Option<u64>, AtStops) -> Result<Held> + 'a;

/// A run, with the processes that execute it.
#[derive(Debug)]
pub(super) struct Pool {
    /// The pioneer. None: it is at its end, because QEMU has ended or sleeps for ever.
    pioneer: Option<Vehicle>,
    /// The pioneer after its end: its copies live as long as it is kept.
    gone: Option<Vehicle>,
    /// Furthest instruction that was executed.
    frontier: At,
    /// End of the run, at the frontier.
    pub(super) ended: Option<Ended>,
    checkpoints: BTreeMap<u64, Vehicle>,
    /// Memory that each checkpoint shares with no other process, in bytes. It no longer changes once the pioneer has
    /// passed the next checkpoint. It is kept because the kernel takes half a millisecond to compute it.
    weights: BTreeMap<u64, u64>,
    /// Checkpoints near the debugger's latest positions, the latest last.
    near: Vec<Vehicle>,
    stride_insns: u64,
    /// Last instruction of the run, and its end there, if another run has found them.
    pub(super) known_end: Option<(u64, Ended)>,
    /// The explorer; None: the pioneer is at the debugger's position.
    explorer: Option<Vehicle>,
    can_copy: bool,
    /// First instruction of the run, or the instruction at which the debugger wrote to it.
    pub(super) base: u64,
    most_bytes: u64,
}

/// Error for a request without a process.
const NONE: &str = "no process executes the run";

impl Pool {
    /// Pool for a run that is held at its first instruction, or at the instruction at which the debugger wrote to it.
    /// `most_bytes` bounds the memory of its checkpoints; 0: none are made.
    pub(super) fn new(pioneer: Vehicle, most_bytes: u64) -> Result<Pool> {
        let (base, frontier) = (pioneer.at.insn, pioneer.at);
        let mut pool = Pool {
            pioneer: Some(pioneer),
            gone: None,
            frontier,
            ended: None,
            checkpoints: BTreeMap::new(),
            weights: BTreeMap::new(),
            near: Vec::new(),
            stride_insns: FIRST_STRIDE_INSNS,
            known_end: None,
            explorer: None,
            can_copy: most_bytes > 0,
            base,
            most_bytes,
        };
        pool.keep_checkpoint()?;
        Ok(pool)
    }

    /// Whether the debugger can go back without another run.
    pub(super) fn can_copy(&self) -> bool {
        self.can_copy
    }

    /// Number of checkpoints, and their own memory in bytes.
    pub(super) fn checkpoints(&self) -> (usize, u64) {
        (self.checkpoints.len(), self.checkpoints.values().map(Vehicle::bytes).sum())
    }

    /// Furthest instruction that was executed.
    pub(super) fn frontier(&self) -> At {
        self.frontier
    }

    /// Position of the debugger.
    pub(super) fn at(&self) -> At {
        self.explorer.as_ref().or(self.pioneer.as_ref()).map_or(self.frontier, |vehicle| vehicle.at)
    }

    /// Process at the debugger's position.
    pub(super) fn current(&mut self) -> Result<&mut Vehicle> {
        self.explorer.as_mut().or(self.pioneer.as_mut()).ok_or_else(|| anyhow::anyhow!(NONE))
    }

    /// Copies the pioneer at its current instruction; None: copies cannot be made.
    fn copy_pioneer(&mut self) -> Result<Option<Vehicle>> {
        let Some(pioneer) = self.pioneer.as_mut().filter(|_| self.can_copy) else { return Ok(None) };
        // Copies would share the firmware's open files.
        let shares = pioneer.original().is_some_and(|original| {
            fs::read_dir(original.workspace.scratch()).is_ok_and(|mut files| files.next().is_some())
        });
        let copy = if shares { None } else { pioneer.fork()? };
        if copy.is_none() {
            self.can_copy = false;
            self.checkpoints.clear();
            self.near.clear();
        }
        Ok(copy)
    }

    fn keep_checkpoint(&mut self) -> Result<()> {
        let Some(copy) = self.copy_pioneer()? else { return Ok(()) };
        for (&insn, before) in &self.checkpoints {
            self.weights.entry(insn).or_insert_with(|| before.bytes());
        }
        self.checkpoints.insert(copy.at.insn, copy);
        if self.checkpoints.len() > MOST || self.weights.values().sum::<u64>() > self.most_bytes {
            self.stride_insns *= 2;
            let (base, stride) = (self.base, self.stride_insns);
            self.checkpoints.retain(|&insn, _| insn == base || (insn - base).is_multiple_of(stride));
            // Memory that was shared with the removed checkpoints now belongs to one checkpoint alone.
            self.weights.clear();
        }
        Ok(())
    }

    /// Instruction of the pioneer's next checkpoint.
    fn next_checkpoint(&self) -> u64 {
        self.base + ((self.frontier.insn - self.base) / self.stride_insns + 1) * self.stride_insns
    }

    /// Executes the pioneer up to an instruction, leaving checkpoints. `run` executes a process, and may be
    /// interrupted.
    fn pioneer(
        &mut self,
        until: Option<u64>,
        at_stops: AtStops,
        run: &mut Run<'_>,
        found: &mut dyn FnMut(&Held),
    ) -> Result<Option<Held>> {
        loop {
            let next = self.next_checkpoint();
            let next_stop = if self.can_copy { Some(until.map_or(next, |until| until.min(next))) } else { until };
            let Some(pioneer) = self.pioneer.as_mut().filter(|pioneer| pioneer.ended.is_none()) else {
                return Ok(None);
            };
            let (start, since) = (pioneer.at.insn, Instant::now());
            let held = run(pioneer, next_stop, at_stops)?;
            let is_whole = held.at.insn.saturating_sub(start) >= self.stride_insns;
            if is_whole && since.elapsed() < WORTH_ONE {
                self.stride_insns *= 2;
            }
            self.frontier = held.at;
            found(&held);
            match &held.why {
                Halt::Ended(ended) => {
                    self.ended = Some(ended.clone());
                    if !matches!(ended, Ended::At(..)) {
                        self.gone = self.pioneer.take();
                    }
                    return Ok(Some(held));
                }
                Halt::Held(Why::Reached) if until != Some(held.at.insn) => {}
                Halt::Held(_) => {
                    if held.at.insn == next {
                        self.keep_checkpoint()?;
                    }
                    return Ok(Some(held));
                }
            }
            if held.at.insn == next {
                self.keep_checkpoint()?;
            }
        }
    }

    /// A new process, held at this instruction, which has been executed, or at a checkpoint before it.
    fn explorer_before(&mut self, insn: u64) -> Result<Option<Vehicle>> {
        let near = self.near.iter().enumerate().filter(|(_, near)| near.at.insn <= insn);
        let near = near.max_by_key(|(_, near)| near.at.insn).map(|(index, near)| (index, near.at.insn));
        let far = self.checkpoints.range_mut(..=insn).next_back();
        match (near, far) {
            (Some((index, at)), far) if far.as_ref().is_none_or(|(far, _)| at > **far) => self.near[index].fork(),
            (_, Some((_, far))) => far.fork(),
            (_, None) => Ok(None),
        }
    }

    /// Puts the debugger at an instruction, or at the run's end. None: this needs another run.
    pub(super) fn go(&mut self, insn: u64, run: &mut Run<'_>) -> Result<Option<Held>> {
        if insn > self.frontier.insn && self.ended.is_none() {
            let known = self.known_end.clone().filter(|&(last, _)| insn >= last);
            let insn = known.as_ref().map_or(insn, |&(last, _)| last);
            let held = self.pioneer(Some(insn), AtStops::Pass, run, &mut |_| {})?;
            let held = self.follow(held, run)?;
            return Ok(match (held, known) {
                (Some(held), Some((_, ended))) => Some(Held { why: Halt::Ended(ended), ..held }),
                (held, _) => held,
            });
        }
        // Positions beyond the end count as the end.
        let over = self.ended.clone().filter(|_| insn >= self.frontier.insn);
        let insn = insn.min(self.frontier.insn);
        if !self.can_copy {
            let Some(pioneer) = &mut self.pioneer else { return Ok(None) };
            if pioneer.at.insn > insn {
                return Ok(None);
            }
            let why = over.map_or(Halt::Held(Why::Reached), Halt::Ended);
            return Ok(Some(Held { at: pioneer.at, why, hits: 0, last_hits: Vec::new() }));
        }
        if let (Some(ended @ Ended::At(..)), Some(_)) = (&over, &self.pioneer) {
            let ended = ended.clone();
            self.explorer = self.copy_pioneer()?;
            return Ok(Some(Held { at: self.frontier, why: Halt::Ended(ended), hits: 0, last_hits: Vec::new() }));
        }
        let is_on_the_way = |explorer: &Vehicle| explorer.at.insn <= insn && insn - explorer.at.insn <= NEAR_INSNS;
        if self.explorer.as_ref().is_none_or(|explorer| !is_on_the_way(explorer) || explorer.ended.is_some()) {
            let Some(mut explorer) = self.explorer_before(insn)? else { return Ok(None) };
            if insn - explorer.at.insn > 2 * NEAR_INSNS {
                // After a look at an instruction, users often look at those before it.
                explorer.go(Some(insn - NEAR_INSNS), AtStops::Pass)?;
                if let Some(near) = explorer.fork()? {
                    self.near.push(near);
                }
                if self.near.len() > MOST_NEAR {
                    self.near.remove(0);
                }
            }
            self.explorer = Some(explorer);
        }
        let Some(explorer) = &mut self.explorer else { return Ok(None) };
        let mut held = if explorer.at.insn == insn {
            Held { at: explorer.at, why: Halt::Held(Why::Reached), hits: 0, last_hits: Vec::new() }
        } else {
            run(explorer, Some(insn), AtStops::Pass)?
        };
        if let Some(ended) = over {
            held.why = Halt::Ended(ended);
        }
        Ok(Some(held))
    }

    /// Puts the debugger at the instruction at which the pioneer was held.
    fn follow(&mut self, held: Option<Held>, run: &mut Run<'_>) -> Result<Option<Held>> {
        let Some(held) = held else { return Ok(None) };
        if self.pioneer.is_none() {
            // QEMU has gone, or sleeps: a copy, or another run, must reach the last instruction.
            let insn = held.at.insn;
            let there = self.go(insn, run)?;
            return Ok(there.map(|there| {
                self.frontier = there.at;
                Held { at: there.at, ..held }
            }));
        }
        self.explorer = self.copy_pioneer()?;
        Ok(Some(held))
    }

    /// Executes from the debugger's position to the next stop, at most to `until`. None: this needs another run.
    pub(super) fn forward(
        &mut self,
        until: Option<u64>,
        (breakpoints, watches): (&[u64], &[Watch]),
        run: &mut Run<'_>,
    ) -> Result<Option<Held>> {
        if let Some(explorer) = &mut self.explorer
            && self.frontier.insn > explorer.at.insn
        {
            explorer.set_stops(breakpoints, watches)?;
            // A process held at a breakpoint does not stop there again.
            let frontier = self.frontier.insn + u64::from(self.ended.is_none());
            let limit = until.map_or(frontier, |until| until.min(frontier));
            let held = run(explorer, Some(limit), AtStops::Hold)?;
            let is_there = Some(held.at.insn) == until;
            let is_on = held.why == Halt::Held(Why::Reached) && !is_there && self.ended.is_none();
            if !is_on {
                let is_over = held.at.insn >= self.frontier.insn && held.why == Halt::Held(Why::Reached);
                let over = self.ended.clone().filter(|_| is_over);
                return Ok(Some(match over {
                    Some(ended) => Held { why: Halt::Ended(ended), ..held },
                    None => held,
                }));
            }
            // A stop at the frontier itself.
            if breakpoints.contains(&held.at.pc) {
                return Ok(Some(Held { why: Halt::Held(Why::Breakpoint), ..held }));
            }
        }
        if let Some(ended) = &self.ended {
            return Ok(Some(Held { at: self.at(), why: Halt::Ended(ended.clone()), hits: 0, last_hits: Vec::new() }));
        }
        if let Some(pioneer) = &mut self.pioneer {
            pioneer.set_stops(breakpoints, watches)?;
        }
        let held = self.pioneer(until, AtStops::Hold, run, &mut |_| {})?;
        self.follow(held, run)
    }

    /// Last stop at or after one instruction and before another one, both of which have been executed.
    pub(super) fn last_stop(
        &mut self,
        from: u64,
        before: u64,
        (breakpoints, watches): (&[u64], &[Watch]),
        run: &mut Run<'_>,
    ) -> Result<LastStop> {
        let from = from.max(self.base);
        let mut end = before;
        while end > from {
            let Some(mut scout) = self.explorer_before(end - 1)? else { break };
            let start = scout.at.insn;
            if start < from && run(&mut scout, Some(from), AtStops::Pass)?.why == Halt::Held(Why::Interrupted) {
                return Ok(LastStop::Interrupted);
            }
            scout.set_stops(breakpoints, watches)?;
            let last = LastStop::of(&run(&mut scout, Some(end), AtStops::Log(1))?);
            if !matches!(last, LastStop::None) {
                return Ok(last);
            }
            end = start;
        }
        Ok(LastStop::None)
    }

    /// All stops from the start up to an instruction or the run's end, and the last of them.
    pub(super) fn hits(
        &mut self,
        addresses: &[u64],
        until: Option<u64>,
        most: usize,
        run: &mut Run<'_>,
    ) -> Result<(Vec<Hit>, u64)> {
        let (mut hits, mut last) = (0, std::collections::VecDeque::new());
        // A stop at the instruction at which a process is held counts only when the process goes on.
        let mut found = |held: &Held| {
            hits += held.hits;
            last.extend(held.last_hits.iter().copied());
            while last.len() > most {
                last.pop_front();
            }
        };
        let at_stops = AtStops::Log((most as u64).min(wire::debug::MAX_HITS));
        if self.frontier.insn > self.base
            && let Some(mut scout) = self.explorer_before(self.base)?
        {
            scout.set_stops(addresses, &[])?;
            let limit = until.map_or(self.frontier.insn, |until| until.min(self.frontier.insn));
            // In parts, so that progress is known after each.
            loop {
                let next = limit.min(scout.at.insn + self.stride_insns);
                let held = run(&mut scout, Some(next), at_stops)?.uninterrupted()?;
                found(&held);
                if held.at.insn >= limit || held.why != Halt::Held(Why::Reached) {
                    break;
                }
            }
        }
        if self.ended.is_none() && until.is_none_or(|until| until > self.frontier.insn) {
            if let Some(pioneer) = &mut self.pioneer {
                pioneer.set_stops(addresses, &[])?;
            }
            // Fork an explorer first, so that one process stays at the debugger's position.
            if self.explorer.is_none() {
                self.explorer = self.copy_pioneer()?;
            }
            let held = self.pioneer(until, at_stops, run, &mut found)?;
            held.map(Held::uninterrupted).transpose()?;
        }
        Ok((last.into(), hits))
    }

    /// Takes the written process out of the pool, to become a run of its own.
    pub(super) fn take_written(&mut self) -> Option<Vehicle> {
        self.explorer.take().or_else(|| self.pioneer.take())
    }
}
