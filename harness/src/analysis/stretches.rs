// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stretches of time between events of the timeline, by the firmware's own clock: calls and handlers with all that interrupts
//! them, the wait of an interrupt, the distance from one start to the next. The spans of `--exact` count what a function
//! executes itself; a deadline is about what passes meanwhile.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use wire::timeline::{Event, What, Why};

use crate::analysis::event_tracks::Cursor;
use crate::analysis::moment::{Clock, Moment};
use crate::analysis::stacks::{self, Exceptions};
use crate::profile::Profile;
use crate::profile::zone::Context;

/// First number of a chip's own interrupts on a Cortex-M, and those below it that no instruction raises by itself.
const FIRST_EXTERNAL: u64 = 16;
const NMI: u64 = 2;
/// Number of PendSV, whose request is a store that spans know.
pub const PENDSV: u64 = 14;
const SYSTICK: u64 = 15;

/// Bit of other processors' exception numbers that marks interrupts.
const INTERRUPT: u64 = 1 << 63;

/// Unit in which stretches are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Instructions, which pass while the processor is awake.
    Insns,
    /// Nanoseconds of the firmware's clock, asleep or awake.
    Ns,
}

impl Unit {
    /// A length in this unit.
    pub fn of(self, length: Moment) -> u64 {
        match self {
            Unit::Insns => length.insns,
            Unit::Ns => length.ns,
        }
    }
}

/// One stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Its beginning.
    pub began: Moment,
    /// Its length.
    pub length: Moment,
    /// Task or interrupt to which it belongs.
    pub context: Context,
    /// Whether it had ended when the run did.
    pub is_over: bool,
}

/// Stretches of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretches {
    /// Their number.
    pub count: u64,
    /// The shortest, the first of equal ones. A stretch that was not over is not among them, unless there is no other.
    pub shortest: Stretch,
    /// The longest, the first of equal ones.
    pub longest: Stretch,
}

/// Functions, interrupts and tasks that a name means.
#[derive(Debug, Default)]
pub struct Subjects {
    /// First addresses of functions.
    entries: BTreeSet<u64>,
    /// Numbers of exceptions.
    pub exceptions: BTreeSet<u64>,
    /// Numbers of tasks.
    pub tasks: BTreeSet<u32>,
}

impl Subjects {
    /// Subjects with a name: of a function, of an interrupt as tables show it, or of its handler; of a task.
    pub fn named(profile: &Profile, name: &str) -> Subjects {
        let names = Exceptions::new(profile);
        let found = profile.names.find(name.trim()).unwrap_or_default();
        let entries: BTreeSet<u64> = found.iter().map(|found| found.address).collect();
        let is_it = |exception: &&crate::profile::zone::Exception| {
            stacks::is_interrupt(&names.name(exception.number, exception.handler), name)
                || entries.contains(&(exception.handler & !1))
        };
        let exceptions = profile.zones.exceptions.iter().filter(is_it).map(|exception| exception.number).collect();
        let tasks = (1..).zip(&profile.tasks).filter(|(_, task)| task.name == name).map(|(id, _)| id).collect();
        Subjects { entries, exceptions, tasks }
    }

    /// Whether a traced function is among them.
    fn has_function(&self, profile: &Profile, function: u32) -> bool {
        self.entries.contains(&entry(profile, function))
    }
}

/// First address of a traced function.
fn entry(profile: &Profile, function: u32) -> u64 {
    let functions = profile.timeline.as_ref().map(|timeline| &timeline.functions);
    functions.and_then(|functions| functions.get(function as usize)).copied().unwrap_or(u64::MAX)
}

/// An event with its moment and what executes before and after it.
struct Step {
    at: Moment,
    before: Context,
    task_before: u32,
    after: Context,
    what: What,
}

/// Events in order. What an instruction unmasks, and lets in at once, comes in this order.
fn steps(profile: &Profile) -> impl Iterator<Item = Step> + '_ {
    let mut events = profile.timeline.iter().flat_map(|timeline| timeline.events()).peekable();
    let (mut group, mut cursor, mut clock) = (VecDeque::new(), Cursor::default(), Clock::new(profile));
    std::iter::from_fn(move || {
        if group.is_empty() {
            group.push_back(events.next()?);
            while let Some(event) = events.next_if(|event| event.at_insns == group[0].at_insns) {
                group.push_back(event);
            }
            let position = |is: fn(&Event) -> bool| group.iter().position(is);
            let entered = position(|event| matches!(event.what, What::Entered { .. }));
            let unmasked = position(|event| event.what == What::Unmasked);
            if let (Some(entered), Some(unmasked)) = (entered, unmasked)
                && entered < unmasked
                && let Some(event) = group.remove(unmasked)
            {
                group.insert(entered, event);
            }
        }
        let event = group.pop_front()?;
        clock.pass(&event);
        let (before, task_before) = (cursor.context(event.vcpu), cursor.task(event.vcpu));
        cursor.pass(&event);
        Some(Step {
            at: clock.at(event.at_insns),
            before,
            task_before,
            after: cursor.context(event.vcpu),
            what: event.what,
        })
    })
}

/// Finds the shortest and the longest stretch.
struct Finder<'a> {
    profile: &'a Profile,
    unit: Unit,
    /// The last moment of the run.
    end: Moment,
    found: Option<Stretches>,
}

impl<'a> Finder<'a> {
    fn new(profile: &'a Profile, unit: Unit) -> Finder<'a> {
        Finder { profile, unit, end: Moment::default(), found: None }
    }

    fn add(&mut self, stretch: Stretch) {
        let size = |stretch: &Stretch| self.unit.of(stretch.length);
        let Some(found) = &mut self.found else {
            self.found = Some(Stretches { count: 1, shortest: stretch, longest: stretch });
            return;
        };
        found.count += 1;
        if size(&stretch) > size(&found.longest) {
            found.longest = stretch;
        }
        let is_first = stretch.is_over && !found.shortest.is_over;
        if is_first || (stretch.is_over && size(&stretch) < size(&found.shortest)) {
            found.shortest = stretch;
        }
    }

    fn ended(&mut self, began: Moment, at: Moment, context: Context) {
        self.add(Stretch { began, length: at - began, context, is_over: true });
    }

    /// Adds a stretch that is under way when the run ends.
    fn cut(&mut self, began: Moment, context: Context) {
        self.add(Stretch { began, length: self.end - began, context, is_over: false });
    }

    /// Follows the clock, which ends with the run.
    fn pass(&mut self, step: &Step) {
        self.end = step.at;
    }

    fn run_ends(&mut self) {
        let insns = self.profile.vcpus.first().map_or(0, |vcpu| vcpu.clock_insns);
        // Clocks of lengths alone have neither sleep nor cycles.
        self.end += Clock::new(self.profile).at(insns.saturating_sub(self.end.insns));
    }
}

/// Exceptions under way, the outermost first: number and beginning; None: it began before the window.
type Active = Vec<(u64, Option<Moment>)>;

/// Whether a call is only the start of the handler itself.
fn is_handler(profile: &Profile, step: &Step, active: &Active, function: u32) -> bool {
    let (Context::Exception(number), Some((_, Some(began)))) = (step.after, active.last()) else { return false };
    let exceptions = &profile.zones.exceptions;
    let handler = exceptions.iter().find(|exception| exception.number == number).map(|found| found.handler & !1);
    began.insns == step.at.insns && handler == Some(entry(profile, function))
}

fn follow(active: &mut Active, step: &Step) -> Option<(u64, Option<Moment>)> {
    match step.what {
        // Those under way when the window opens come at its first instruction.
        What::Entered { number } => active.push((number, (step.at.insns > 0).then_some(step.at))),
        What::Left => return active.pop(),
        _ => {}
    }
    None
}

/// Calls of functions and runs of handlers, each from its first instruction to its return, whatever executes meanwhile. One that
/// is not over when the run ends has the length up to there. None: there is none.
pub fn runs(profile: &Profile, subjects: &Subjects, unit: Unit) -> Option<Stretches> {
    let mut finder = Finder::new(profile, unit);
    let (mut active, mut open) = (Active::new(), HashMap::<Context, Vec<(u32, Moment)>>::new());
    for step in steps(profile) {
        finder.pass(&step);
        if let Some((number, began)) = follow(&mut active, &step) {
            open.remove(&Context::Exception(number));
            if let Some(began) = began.filter(|_| subjects.exceptions.contains(&number)) {
                finder.ended(began, step.at, Context::Exception(number));
            }
        }
        match step.what {
            What::Called { function }
                if subjects.has_function(profile, function) && !is_handler(profile, &step, &active, function) =>
            {
                open.entry(step.after).or_default().push((function, step.at));
            }
            What::Returned { function } | What::Unwound { function } => {
                let Some(calls) = open.get_mut(&step.after) else { continue };
                let Some(innermost) = calls.iter().rposition(|(called, _)| *called == function) else { continue };
                let (_, began) = calls[innermost];
                calls.truncate(innermost);
                if matches!(step.what, What::Returned { .. }) {
                    finder.ended(began, step.at, step.after);
                }
            }
            What::Switched { why: Why::Deleted, .. } => {
                open.remove(&Context::Task(step.task_before));
            }
            _ => {}
        }
    }
    finder.run_ends();
    for (number, began) in active {
        if let Some(began) = began.filter(|_| subjects.exceptions.contains(&number)) {
            finder.cut(began, Context::Exception(number));
        }
    }
    let open: BTreeMap<Context, Vec<(u32, Moment)>> = open.into_iter().collect();
    for (context, calls) in open {
        calls.into_iter().for_each(|(_, began)| finder.cut(began, context));
    }
    finder.found
}

/// Stretches with interrupts masked, without the time asleep in them: an interrupt would end that. None: there is none.
pub fn masked(profile: &Profile, unit: Unit) -> Option<Stretches> {
    let mut finder = Finder::new(profile, unit);
    let mut since: Option<(Moment, Context)> = None;
    let awake = |began: Moment, at: Moment, context: Context, is_over: bool| Stretch {
        began,
        length: at.awake_since(began),
        context,
        is_over,
    };
    for step in steps(profile) {
        finder.pass(&step);
        match step.what {
            What::Masked => since = Some((step.at, step.after)),
            What::Unmasked => {
                if let Some((began, context)) = since.take() {
                    finder.add(awake(began, step.at, context, true));
                }
            }
            _ => {}
        }
    }
    finder.run_ends();
    if let Some((began, context)) = since {
        finder.add(awake(began, finder.end, context, false));
    }
    finder.found
}

/// Distances between successive starts: of tasks that have waited, or else of functions and handlers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Periods {
    /// Number of starts.
    pub starts: u64,
    /// The distances; None: there are fewer than two starts.
    pub found: Option<Stretches>,
}

/// Starts of a subject, as events come.
struct Starts<'a> {
    profile: &'a Profile,
    subjects: &'a Subjects,
    active: Active,
    /// Reason why each task stopped last.
    stopped: HashMap<u32, Why>,
}

impl<'a> Starts<'a> {
    fn new(profile: &'a Profile, subjects: &'a Subjects) -> Starts<'a> {
        Starts { profile, subjects, active: Active::new(), stopped: HashMap::new() }
    }

    /// Whether a subject starts with this event. A task starts when it is switched in after it has waited: one that was only
    /// preempted, or let others go first, goes on.
    fn is_start(&mut self, step: &Step) -> bool {
        follow(&mut self.active, step);
        match step.what {
            What::Switched { task, why } => {
                self.stopped.insert(step.task_before, why);
                let goes_on = matches!(self.stopped.get(&task), Some(Why::Preempted | Why::Yielded));
                self.subjects.tasks.contains(&task) && task != step.task_before && !goes_on && step.at.insns > 0
            }
            _ if !self.subjects.tasks.is_empty() => false,
            What::Entered { number } => self.subjects.exceptions.contains(&number) && step.at.insns > 0,
            What::Called { function } => {
                self.subjects.has_function(self.profile, function)
                    && !is_handler(self.profile, step, &self.active, function)
            }
            _ => false,
        }
    }
}

/// Distances from each start of the subjects to the next.
pub fn periods(profile: &Profile, subjects: &Subjects, unit: Unit) -> Periods {
    let (mut finder, mut starts) = (Finder::new(profile, unit), Starts::new(profile, subjects));
    let (mut count, mut last) = (0, None);
    for step in steps(profile) {
        if starts.is_start(&step) {
            count += 1;
            // A task is switched in by a handler.
            let context = match step.what {
                What::Switched { task, .. } => Context::Task(task),
                _ => step.after,
            };
            if let Some(last) = last.replace(step.at) {
                finder.ended(last, step.at, context);
            }
        }
    }
    Periods { starts: count, found: finder.found }
}

/// Stretches from each start of one subject to the next start of another. One that has none has the length up to the run's end.
/// None: the first subject never started.
pub fn responses(profile: &Profile, from: &Subjects, until: &Subjects, unit: Unit) -> Option<Stretches> {
    let mut finder = Finder::new(profile, unit);
    let (mut begins, mut ends) = (Starts::new(profile, from), Starts::new(profile, until));
    let mut open: Vec<(Moment, Context)> = Vec::new();
    for step in steps(profile) {
        finder.pass(&step);
        let (begins, ends) = (begins.is_start(&step), ends.is_start(&step));
        if ends {
            open.drain(..).for_each(|(began, context)| finder.ended(began, step.at, context));
        }
        if begins {
            open.push((step.at, step.after));
        }
    }
    finder.run_ends();
    open.into_iter().for_each(|(began, context)| finder.cut(began, context));
    finder.found
}

/// Whether an exception is raised by the instruction before it, and so never waits.
pub fn is_synchronous(profile: &Profile, number: u64) -> bool {
    match profile.facts.is_arm() {
        true => number < FIRST_EXTERNAL && ![NMI, PENDSV, SYSTICK].contains(&number),
        false => number & INTERRUPT == 0,
    }
}

/// Exceptions that interrupts of these numbers have preempted, where priorities alone decide that.
fn preempted(profile: &Profile, numbers: &BTreeSet<u64>) -> BTreeSet<u64> {
    let (mut active, mut preempted) = (Active::new(), BTreeSet::new());
    // Elsewhere a handler decides itself from when on it lets others in.
    for step in steps(profile).filter(|_| profile.facts.is_arm()) {
        if let What::Entered { number } = step.what
            && numbers.contains(&number)
        {
            preempted.extend(active.last().map(|(number, _)| *number));
        }
        follow(&mut active, &step);
    }
    preempted
}

/// For each time that an interrupt came, the stretch directly before in which it could not come: interrupts were masked, or a
/// handler executed that it does not preempt. It may have waited for so long, and for no longer. None: it never came.
pub fn waits(profile: &Profile, subjects: &Subjects, unit: Unit) -> Option<Stretches> {
    let numbers = &subjects.exceptions;
    let preempted = preempted(profile, numbers);
    let (mut finder, mut active, mut is_masked) = (Finder::new(profile, unit), Active::new(), false);
    // Beginning of the stretch that blocks it, and the last such stretch.
    let (mut blocked, mut freed): (Option<Moment>, Option<(Moment, Moment)>) = (None, None);
    for step in steps(profile) {
        let before = freed.filter(|(_, until)| until.insns == step.at.insns).map(|(since, _)| since);
        let mut has_come = false;
        match step.what {
            What::Masked => is_masked = true,
            What::Unmasked => is_masked = false,
            What::Slept { .. } => {
                // What came while all was blocked has ended the sleep.
                (blocked, freed) = (blocked.map(|_| step.at), None);
            }
            What::Entered { number } if numbers.contains(&number) && step.at.insns > 0 => {
                // One that comes while interrupts are masked is not masked by that.
                let since = if is_masked { None } else { blocked.or(before) };
                finder.ended(since.unwrap_or(step.at), step.at, Context::Exception(number));
                has_come = true;
            }
            _ => {}
        }
        follow(&mut active, &step);
        let is_blocked = is_masked || active.last().is_some_and(|(number, _)| !preempted.contains(number));
        match (blocked, is_blocked) {
            // Only a request after this one can wait for its handler.
            _ if has_come => (blocked, freed) = (Some(step.at), None),
            (None, true) => blocked = Some(before.unwrap_or(step.at)),
            (Some(since), false) => (blocked, freed) = (None, Some((since, step.at))),
            _ => {}
        }
    }
    finder.found
}

/// Times in which others than its own task or interrupt executed during a stretch, without the time asleep.
pub fn others(profile: &Profile, stretch: &Stretch) -> BTreeMap<Context, Moment> {
    let mut sums: BTreeMap<Context, Moment> = BTreeMap::new();
    let (mut last, mut context) = (Moment::default(), Context::Task(0));
    let mut end = stretch.began;
    end += stretch.length;
    let mut executed = |context: Context, last: Moment, at: Moment| {
        if context != stretch.context && last >= stretch.began && at <= end {
            *sums.entry(context).or_default() += at.awake_since(last);
        }
    };
    for step in steps(profile) {
        executed(step.before, last, step.at);
        (last, context) = (step.at, step.after);
    }
    executed(context, last, end);
    sums.retain(|_, length| *length != Moment::default());
    sums
}
