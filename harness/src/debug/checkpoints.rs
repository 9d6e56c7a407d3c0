//! One run in several processes: the pioneer, which executes it once, checkpoints, which are copies of the pioneer that stay
//! where they were made, and the explorer, a copy of one of them that is where the debugger is.
//!
//! Where no copies can be made, the pioneer is the explorer too, and what lies behind it takes another run.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;
use wire::debug::{AtStops, Hit, Watch, Why};

use crate::debug::process::{Halt, Held, Vehicle};
use crate::debug::travel::{At, Ended};

/// Distance of checkpoints as a run begins, in instructions. It doubles as they become too many, and where it takes less
/// time than is worth one.
const FIRST_STRIDE_INSNS: u64 = 1 << 22;

/// Executing from one checkpoint to the next takes so long at least, or a half of it.
const WORTH_ONE: Duration = Duration::from_millis(25);

/// Most checkpoints of the whole run.
const MOST: usize = 128;

/// Most checkpoints near where the debugger is, and how far before it they lie.
const MOST_NEAR: usize = 8;
const NEAR_INSNS: u64 = 1 << 15;

/// The last stop of a stretch of the run that was executed once more.
#[derive(Debug)]
pub(super) enum LastStop {
    /// There is one.
    At(Hit),
    /// There is none.
    None,
    /// The stretch was not executed to its end, because that was asked for.
    Interrupted,
}

impl LastStop {
    /// The last stop that a process has logged up to where it was held.
    pub(super) fn of(held: &Held) -> LastStop {
        match held.last_hits.last() {
            _ if held.why == Halt::Held(Why::Interrupted) => LastStop::Interrupted,
            Some(hit) => LastStop::At(*hit),
            None => LastStop::None,
        }
    }
}

/// Has a process execute, to an instruction at most; it may be interrupted.
pub(super) type Run<'a> = dyn FnMut(&mut Vehicle, Option<u64>, AtStops) -> Result<Held> + 'a;

/// A run, and the processes that execute it.
#[derive(Debug)]
pub(super) struct Pool {
    /// Executes the run for the first time. None: it has ended there by QEMU's end, or sleeps.
    pioneer: Option<Vehicle>,
    /// That one then: as long as it is here, the copies of it live.
    gone: Option<Vehicle>,
    /// How far the run was executed.
    frontier: At,
    /// How the run is over, at the frontier.
    pub(super) ended: Option<Ended>,
    checkpoints: BTreeMap<u64, Vehicle>,
    /// Their memory, in bytes. What one has for itself does not change once the pioneer has left the next one, and the
    /// kernel takes half a millisecond to say it.
    weights: BTreeMap<u64, u64>,
    /// Those near where the debugger was lately, the latest last.
    near: Vec<Vehicle>,
    stride_insns: u64,
    /// The run's last instruction and how it is over there, where another run has found that out.
    pub(super) known_end: Option<(u64, Ended)>,
    /// None: the pioneer.
    explorer: Option<Vehicle>,
    can_copy: bool,
    /// The run's first instruction, or the one at which it was written to.
    pub(super) base: u64,
    most_bytes: u64,
}

/// What is said where there is no process to ask.
const NONE: &str = "no process executes the run";

impl Pool {
    /// A run that is held at its first instruction, or where it was written to. Its checkpoints may take so much memory;
    /// with none there are none.
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

    /// Whether what lies behind the explorer can be come to without another run.
    pub(super) fn can_copy(&self) -> bool {
        self.can_copy
    }

    /// How many checkpoints there are, and the memory that they alone have.
    pub(super) fn checkpoints(&self) -> (usize, u64) {
        (self.checkpoints.len(), self.checkpoints.values().map(Vehicle::bytes).sum())
    }

    /// How far the run was executed.
    pub(super) fn frontier(&self) -> At {
        self.frontier
    }

    /// Where the debugger is.
    pub(super) fn at(&self) -> At {
        self.explorer.as_ref().or(self.pioneer.as_ref()).map_or(self.frontier, |vehicle| vehicle.at)
    }

    /// The process that is there.
    pub(super) fn current(&mut self) -> Result<&mut Vehicle> {
        self.explorer.as_mut().or(self.pioneer.as_mut()).ok_or_else(|| anyhow::anyhow!(NONE))
    }

    /// A copy of the pioneer where it is held; none where none can be made.
    fn copy_pioneer(&mut self) -> Result<Option<Vehicle>> {
        let Some(pioneer) = self.pioneer.as_mut().filter(|_| self.can_copy) else { return Ok(None) };
        // What the firmware has in files, the copies would share.
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
            // What was shared with those that go, the others have for themselves when they are gone.
            self.weights.clear();
        }
        Ok(())
    }

    /// The pioneer's next checkpoint.
    fn next_checkpoint(&self) -> u64 {
        self.base + ((self.frontier.insn - self.base) / self.stride_insns + 1) * self.stride_insns
    }

    /// Has the pioneer execute, to an instruction at most, leaving checkpoints. It takes `run`, which has a process
    /// execute and may be interrupted.
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

    /// A process of its own that is held at an instruction which was executed before, or at a checkpoint before it.
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

    /// Puts the debugger at an instruction, or the run's end. None: that takes another run.
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
        // What is behind the end is at it.
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
                // Whoever looks at an instruction wants to see those before it.
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

    /// Puts the debugger where the pioneer has been held.
    fn follow(&mut self, held: Option<Held>, run: &mut Run<'_>) -> Result<Option<Held>> {
        let Some(held) = held else { return Ok(None) };
        if self.pioneer.is_none() {
            // QEMU has gone, or sleeps: a copy is held at its last instruction, or another run has to be.
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

    /// Executes from where the debugger is to a stop, or an instruction. None: that takes another run.
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
            // What is held at a breakpoint does not come to it once more.
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

    /// The last stop from one instruction on, before another one that was executed.
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

    /// All stops from the start to an instruction or the run's end, and the last of them.
    pub(super) fn hits(
        &mut self,
        addresses: &[u64],
        until: Option<u64>,
        most: usize,
        run: &mut Run<'_>,
    ) -> Result<(Vec<Hit>, u64)> {
        let (mut hits, mut last) = (0, std::collections::VecDeque::new());
        // A stop at the instruction that one is held at is counted by that which goes on from there, and not before.
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
            // In parts: after each it is known how far it has come.
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
            // Where the debugger is, somebody must stay.
            if self.explorer.is_none() {
                self.explorer = self.copy_pioneer()?;
            }
            let held = self.pioneer(until, at_stops, run, &mut found)?;
            held.map(Held::uninterrupted).transpose()?;
        }
        Ok((last.into(), hits))
    }

    /// Takes the process that was written to out of the run, to be one of its own.
    pub(super) fn take_written(&mut self) -> Option<Vehicle> {
        self.explorer.take().or_else(|| self.pioneer.take())
    }
}
