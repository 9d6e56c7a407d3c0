// SPDX-License-Identifier: MIT OR Apache-2.0
//! States of each task over the window, by the timeline's events: running, ready while others executed, or waiting; and
//! the longest stretch of each. They tell which task starves, and what keeps it from the processor.
//!
//! A task runs while it is the current one, with the handlers that interrupt it, as in the table of tasks. All states of a
//! task together are the window. A state that no event tells is unknown: nothing is guessed.

use std::collections::{BTreeMap, HashMap};

use wire::timeline::{Event, Life, What, Why};

use crate::analysis::event_tracks::{Cursor, Words};
use crate::analysis::moment::{Clock, Moment};
use crate::analysis::time;
use crate::profile::Profile;
use crate::profile::zone::Context;

/// Reason of a wait that another task's call began.
pub const BY_ANOTHER: &str = "suspended by another task";

/// Reason of a wait that began before the window, or otherwise unseen.
pub const NOT_READY: &str = "waits, not known for what";

/// Reason of a wait for an executor.
pub const NOT_WOKEN: &str = "waits to be woken";

/// Order by length: a sleep takes time without instructions.
fn by_length(length: Moment) -> (u64, u64) {
    (length.ns, length.insns)
}

/// A stretch of one state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// Its begin.
    pub from: Moment,
    /// Its length.
    pub length: Moment,
}

/// All stretches of one state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretches {
    /// Their sum.
    pub sum: Moment,
    /// Their number.
    pub times: u64,
    /// The longest one, the first of equals; of length 0 if there is none.
    pub longest: Stretch,
}

impl Stretches {
    /// Adds a stretch. One of length 0 does not count. True: it is the longest so far.
    fn add(&mut self, stretch: Stretch) -> bool {
        if stretch.length == Moment::default() {
            return false;
        }
        self.sum += stretch.length;
        self.times += 1;
        let is_longest = by_length(stretch.length) > by_length(self.longest.length);
        if is_longest {
            self.longest = stretch;
        }
        is_longest
    }
}

/// A task's states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskStates {
    /// Number of the task.
    pub task: u32,
    /// Its name, different from the other tasks' names.
    pub name: String,
    /// Whether it is one of the kernel's idle tasks, which are ready whenever others run.
    pub is_idle: bool,
    /// It was the current task.
    pub running: Stretches,
    /// Part of that in which handlers executed.
    pub interrupted: Moment,
    /// It could have run, and did not.
    pub ready: Stretches,
    /// Tasks and interrupts that executed while it was ready, most time first.
    pub kept_out_by: Vec<(String, Moment)>,
    /// Tasks and interrupts that executed in its longest stretch of being ready.
    pub longest_kept_out_by: Vec<(String, Moment)>,
    /// It waited, or was suspended.
    pub blocked: Stretches,
    /// The same by reason, most time first.
    pub waits: Vec<(String, Stretches)>,
    /// It was deleted, or done.
    pub gone: Stretches,
    /// No event tells: before the task's first event, or where the kernel's data do not say.
    pub unknown: Stretches,
}

/// States of all tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Length of the window.
    pub window: Moment,
    /// Whether the firmware's time is known, with its sleep.
    pub has_ns: bool,
    /// Whether shares are of the time: the processor slept, or its clock follows the cycles.
    pub is_timed: bool,
    /// Time outside of all tasks, with the handlers in it.
    pub outside: Moment,
    /// Tasks, the one that was ready for longest at a stretch first; idle tasks last.
    pub tasks: Vec<TaskStates>,
}

impl Report {
    /// A part of the window, by the clock that shares are of.
    pub fn part(&self, extent: Moment) -> u64 {
        if self.is_timed { extent.ns } else { extent.insns }
    }
}

/// Whether instructions of several CPUs were executed: these have no common clock, so there is no report.
pub fn has_several_clocks(profile: &Profile) -> bool {
    profile.vcpus.iter().filter(|vcpu| vcpu.clock_insns > 0).count() > 1
}

/// States of a profile's tasks. None: there is no timeline, no task, or more than one CPU.
pub fn report(profile: &Profile) -> Option<Report> {
    let timeline = profile.timeline.as_ref().filter(|_| !profile.tasks.is_empty() && !has_several_clocks(profile))?;
    let is_polled = |task: u32| profile.task(task).is_some_and(|task| task.poll.is_some());
    let has_wakes = timeline.events().any(|event| match event.what {
        What::Lives { task, change: Life::Spawned | Life::Woken } => is_polled(task),
        _ => false,
    });
    let mut walk = Walk {
        words: Words::new(profile),
        cursor: Cursor::default(),
        now: Moment::default(),
        clock: Clock::new(profile),
        contexts: Vec::new(),
        numbers: HashMap::new(),
        current: 0,
        depth: 0,
        task_depth: 0,
        outside: Moment::default(),
        ready: Vec::new(),
        tasks: profile.tasks.iter().map(|_| Followed::default()).collect(),
        has_wakes,
    };
    walk.current = walk.number(Context::Task(0));
    for event in timeline.events() {
        walk.event(&event);
    }
    let end = profile.vcpus.iter().map(|vcpu| vcpu.clock_insns).max().unwrap_or(0);
    walk.advance(end);
    let slept = profile.facts.slept_ns;
    let by_cycles = time::clock_hz(profile).is_some();
    Some(Report {
        window: walk.now,
        has_ns: by_cycles || slept.is_some() || profile.facts.waits == 0,
        is_timed: by_cycles || slept.is_some_and(|ns| ns > 0),
        outside: walk.outside,
        tasks: walk.finish(profile),
    })
}

/// State of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unknown,
    Running,
    Ready,
    Waits(String),
    Gone,
}

/// A task while the events are read.
#[derive(Debug, Default)]
struct Followed {
    state: State,
    since: Moment,
    states: TaskStates,
    waits: BTreeMap<String, Stretches>,
    /// Execution since the task is ready, by the number of the context.
    kept: Vec<Moment>,
    /// The same in all stretches of being ready, and in the longest.
    all_kept: Vec<Moment>,
    longest_kept: Vec<Moment>,
    /// Whether it was woken, and whether it is done, while it runs.
    is_woken: bool,
    is_done: bool,
}

impl Followed {
    /// Ends the stretch of the present state.
    fn close(&mut self, now: Moment) {
        let stretch = Stretch { from: self.since, length: now - self.since };
        self.since = now;
        match &self.state {
            State::Unknown => _ = self.states.unknown.add(stretch),
            State::Running => _ = self.states.running.add(stretch),
            State::Gone => _ = self.states.gone.add(stretch),
            State::Waits(why) => {
                self.states.blocked.add(stretch);
                match self.waits.get_mut(why) {
                    Some(wait) => _ = wait.add(stretch),
                    None => _ = self.waits.entry(why.clone()).or_default().add(stretch),
                }
            }
            State::Ready => {
                if self.all_kept.len() < self.kept.len() {
                    self.all_kept.resize(self.kept.len(), Moment::default());
                }
                self.all_kept.iter_mut().zip(&self.kept).for_each(|(all, &kept)| *all += kept);
                if self.states.ready.add(stretch) {
                    self.longest_kept.clone_from(&self.kept);
                }
                self.kept.clear();
            }
        }
    }
}

/// The events so far.
struct Walk<'a> {
    words: Words<'a>,
    cursor: Cursor,
    now: Moment,
    clock: Clock<'a>,
    /// Contexts that have executed, by number.
    contexts: Vec<Context>,
    numbers: HashMap<Context, usize>,
    /// Number of the context that executes.
    current: usize,
    /// Active exceptions, and the fewest since the current task was switched in.
    depth: usize,
    task_depth: usize,
    outside: Moment,
    /// Indices of the tasks that are ready.
    ready: Vec<usize>,
    tasks: Vec<Followed>,
    /// Whether the events have the wakes of an executor's tasks.
    has_wakes: bool,
}

impl Walk<'_> {
    fn number(&mut self, context: Context) -> usize {
        *self.numbers.entry(context).or_insert_with(|| {
            self.contexts.push(context);
            self.contexts.len() - 1
        })
    }

    /// Counts what has executed since the last event for its context, and for the tasks that it kept out.
    fn advance(&mut self, at_insns: u64) {
        let now = self.clock.at(at_insns);
        let passed = now - self.now;
        self.now = now;
        if passed == Moment::default() {
            return;
        }
        match self.cursor.task(0) {
            0 => self.outside += passed,
            task if self.depth > 0 => {
                if let Some(followed) = self.tasks.get_mut(task as usize - 1) {
                    followed.states.interrupted += passed;
                }
            }
            _ => {}
        }
        for &ready in &self.ready {
            let kept = &mut self.tasks[ready].kept;
            if kept.len() <= self.current {
                kept.resize(self.current + 1, Moment::default());
            }
            kept[self.current] += passed;
        }
    }

    /// Changes a task's state; 0: no task.
    fn change(&mut self, task: u32, state: State) {
        let now = self.now;
        let Some(index) = (task as usize).checked_sub(1).filter(|&index| index < self.tasks.len()) else { return };
        let followed = &mut self.tasks[index];
        if followed.state == state {
            return;
        }
        followed.close(now);
        let was_ready = std::mem::replace(&mut followed.state, state) == State::Ready;
        if self.tasks[index].state == State::Ready {
            self.ready.push(index);
        } else if was_ready {
            self.ready.retain(|&ready| ready != index);
        }
    }

    fn event(&mut self, event: &Event) {
        self.words.learn(event);
        match event.what {
            What::Switched { task, why } => {
                self.advance(event.at_insns);
                self.switched(task, why);
            }
            What::Entered { .. } => {
                self.advance(event.at_insns);
                self.depth += 1;
            }
            What::Left => {
                self.advance(event.at_insns);
                self.depth = self.depth.saturating_sub(1);
                self.task_depth = self.task_depth.min(self.depth);
            }
            What::Lives { task, change } => {
                self.advance(event.at_insns);
                self.lives(task, change);
            }
            What::Slept { .. } | What::Ahead { .. } => return self.clock.pass(event),
            _ => return,
        }
        self.cursor.pass(event);
        let context = self.cursor.context(0);
        self.current = self.number(context);
    }

    fn switched(&mut self, task: u32, why: Why) {
        let old = self.cursor.task(0);
        let (mut is_woken, mut is_done) = (false, false);
        if let Some(followed) = (old as usize).checked_sub(1).and_then(|index| self.tasks.get_mut(index)) {
            is_woken = std::mem::take(&mut followed.is_woken);
            is_done = std::mem::take(&mut followed.is_done);
        }
        let state = match why {
            Why::Unknown | Why::First => State::Unknown,
            Why::Preempted | Why::Yielded => State::Ready,
            Why::Deleted => State::Gone,
            Why::Polled if is_done => State::Gone,
            // A handler has begun to poll another task.
            Why::Polled if self.depth > self.task_depth || is_woken => State::Ready,
            Why::Polled if !self.has_wakes => State::Unknown,
            Why::Polled => State::Waits(NOT_WOKEN.to_owned()),
            Why::Delayed | Why::Blocked { .. } | Why::Notification | Why::Suspended => {
                State::Waits(self.words.why(why))
            }
        };
        self.change(old, state);
        self.change(task, State::Running);
        self.task_depth = self.depth;
    }

    fn lives(&mut self, task: u32, change: Life) {
        if self.cursor.task(0) == task {
            if let Some(followed) = (task as usize).checked_sub(1).and_then(|index| self.tasks.get_mut(index)) {
                followed.is_woken |= change == Life::Woken;
                followed.is_done |= change == Life::Finished;
            }
            return;
        }
        let was_ready = self.ready.iter().any(|&ready| ready + 1 == task as usize);
        let state = match change {
            Life::Spawned | Life::Woken => State::Ready,
            Life::Finished => State::Gone,
            Life::Unready if was_ready => State::Waits(BY_ANOTHER.to_owned()),
            Life::Unready => State::Waits(NOT_READY.to_owned()),
        };
        self.change(task, state);
    }

    /// Ends all stretches with the run.
    fn finish(mut self, profile: &Profile) -> Vec<TaskStates> {
        let names: Vec<String> = self.contexts.iter().map(|&context| self.words.context(context)).collect();
        let named = |kept: &[Moment]| {
            let mut named: BTreeMap<&str, Moment> = BTreeMap::new();
            for (name, &kept) in names.iter().zip(kept).filter(|(_, kept)| **kept != Moment::default()) {
                *named.entry(name).or_default() += kept;
            }
            let mut named: Vec<(String, Moment)> =
                named.into_iter().map(|(name, of)| (name.to_owned(), of)).collect();
            named.sort_by_key(|(_, kept)| std::cmp::Reverse(by_length(*kept)));
            named
        };
        let mut tasks = Vec::new();
        for ((number, task), mut followed) in (1..).zip(&profile.tasks).zip(std::mem::take(&mut self.tasks)) {
            followed.close(self.now);
            let mut waits: Vec<(String, Stretches)> = followed.waits.into_iter().collect();
            waits.retain(|(_, wait)| wait.times > 0);
            waits.sort_by_key(|(_, wait)| std::cmp::Reverse(by_length(wait.sum)));
            tasks.push(TaskStates {
                task: number,
                name: self.words.task(number),
                is_idle: task.is_idle,
                kept_out_by: named(&followed.all_kept),
                longest_kept_out_by: named(&followed.longest_kept),
                waits,
                ..followed.states
            });
        }
        // Stable: equal ones stay in the order in which they first ran.
        tasks.sort_by_key(|task| (task.is_idle, std::cmp::Reverse(by_length(task.ready.longest.length))));
        tasks
    }
}

#[cfg(test)]
mod tests {
    use wire::timeline::{Encoder, ObjectKind};

    use super::*;
    use crate::profile::Timeline;
    use crate::profile::testing::empty;

    /// Profile of tasks with these names and of 100 instructions of 32 ns, with these events.
    fn profile(tasks: &[&str], events: &[(u64, What)]) -> Profile {
        let mut profile = tasks.iter().fold(empty().insn(0x40, 100), |profile, name| profile.task_called(name));
        profile.vcpus[0].clock_insns = 100;
        let (mut encoder, mut bytes) = (Encoder::default(), Vec::new());
        for (at_insns, what) in events {
            encoder.put(&Event { vcpu: 0, at_insns: *at_insns, what: what.clone() }, &mut bytes).unwrap();
        }
        profile.timeline = Some(Timeline { events: bytes, ..Timeline::default() });
        profile
    }

    fn switched(task: u32, why: Why) -> What {
        What::Switched { task, why }
    }

    fn lives(task: u32, change: Life) -> What {
        What::Lives { task, change }
    }

    fn stretches(sum: u64, times: u64, from: u64, length: u64) -> Stretches {
        let extent = |insns: u64| Moment { insns, ns: insns * 32, slept_ns: 0 };
        Stretches { sum: extent(sum), times, longest: Stretch { from: extent(from), length: extent(length) } }
    }

    fn insns(kept: &[(String, Moment)]) -> Vec<(&str, u64)> {
        kept.iter().map(|(name, extent)| (name.as_str(), extent.insns)).collect()
    }

    /// All states of each task are the window, and all that runs, with the time outside of tasks, is it too.
    fn add_up(report: &Report) {
        for TaskStates { running, ready, blocked, waits, gone, unknown, name, .. } in &report.tasks {
            let mut sum = Moment::default();
            [running, ready, blocked, gone, unknown].iter().for_each(|state| sum += state.sum);
            assert_eq!(sum, report.window, "{name}");
            let of_waits = waits.iter().fold(Moment::default(), |mut sum, (_, wait)| {
                sum += wait.sum;
                sum
            });
            assert_eq!(of_waits, blocked.sum, "{name}");
        }
        let mut all = report.outside;
        report.tasks.iter().for_each(|task| all += task.running.sum);
        assert_eq!(all, report.window);
    }

    #[test]
    fn the_starving_task_is_first_with_what_kept_it_out() {
        let object =
            What::Object { address: 0x2000, kind: ObjectKind::QueueItem, whole: 0, name: "inbox".to_owned() };
        let profile = profile(
            &["high", "low"],
            &[
                (10, switched(2, Why::First)),
                // low is preempted for 30 instructions, 5 of which are the interrupt's.
                (20, switched(1, Why::Preempted)),
                (30, What::Entered { number: 15 }),
                (35, What::Left),
                (50, object),
                (50, switched(2, Why::Blocked { object: 1 })),
                (60, lives(1, Life::Woken)),
                (62, switched(1, Why::Preempted)),
                (70, switched(2, Why::Deleted)),
                (80, switched(0, Why::Delayed)),
            ],
        );
        let report = report(&profile).unwrap();
        add_up(&report);
        assert_eq!((report.window.insns, report.outside.insns), (100, 10 + 20));
        let [low, high] = &report.tasks[..] else { panic!("{report:?}") };
        assert_eq!((low.name.as_str(), high.name.as_str()), ("low", "high"));
        assert_eq!(low.ready, stretches(30 + 8, 2, 20, 30));
        assert_eq!(insns(&low.longest_kept_out_by), [("high", 25), ("[irq 15]", 5)]);
        assert_eq!(insns(&low.kept_out_by), [("high", 33), ("[irq 15]", 5)]);
        assert_eq!(low.running, stretches(10 + 12 + 10, 3, 50, 12));
        assert_eq!((low.unknown, low.gone), (stretches(10, 1, 0, 10), Stretches::default()));
        assert_eq!(low.waits, [("delayed".to_owned(), stretches(20, 1, 80, 20))]);
        assert_eq!(high.running, stretches(30 + 8, 2, 20, 30));
        assert_eq!(high.interrupted.insns, 5);
        // It waits until it is woken, not until it runs.
        assert_eq!(high.ready, stretches(2, 1, 60, 2));
        assert_eq!(insns(&high.kept_out_by), [("low", 2)]);
        let wait = ("blocked on an item of the queue inbox".to_owned(), stretches(10, 1, 50, 10));
        assert_eq!(high.waits, [wait]);
        assert_eq!(high.gone, stretches(30, 1, 70, 30));
    }

    #[test]
    fn time_asleep_belongs_to_the_waits_in_it_although_nothing_executes() {
        let mut profile = profile(
            &["worker", "idle"],
            &[
                (0, switched(1, Why::First)),
                (40, switched(2, Why::Delayed)),
                (50, What::Slept { ns: 10_000 }),
                (60, lives(1, Life::Woken)),
                (60, switched(1, Why::Preempted)),
            ],
        );
        profile.tasks[1].is_idle = true;
        profile.facts.slept_ns = Some(10_000);
        let report = report(&profile).unwrap();
        add_up(&report);
        assert_eq!(report.window, Moment { insns: 100, ns: 100 * 32 + 10_000, slept_ns: 10_000 });
        assert!(report.is_timed && report.has_ns);
        // The idle task is ready for longest, and no reason to worry.
        let [worker, idle] = &report.tasks[..] else { panic!("{report:?}") };
        assert_eq!(worker.blocked.sum, Moment { insns: 20, ns: 20 * 32 + 10_000, slept_ns: 10_000 });
        assert_eq!(worker.ready, Stretches::default());
        assert_eq!(idle.ready.sum.insns, 40);
    }

    #[test]
    fn a_kernel_that_says_nothing_leaves_the_state_unknown() {
        let events = [(0, switched(1, Why::First)), (40, switched(2, Why::Unknown)), (70, switched(1, Why::Unknown))];
        let report = report(&profile(&["one", "two"], &events)).unwrap();
        add_up(&report);
        let unknown: Vec<u64> = report.tasks.iter().map(|task| task.unknown.sum.insns).collect();
        assert_eq!(unknown, [30, 40 + 30]);
        assert!(report.tasks.iter().all(|task| task.ready.times + task.blocked.times == 0));
    }

    #[test]
    fn a_suspended_task_is_not_ready_and_a_deleted_one_is_gone() {
        let events = [
            (0, switched(1, Why::First)),
            (0, lives(2, Life::Unready)),
            (10, lives(2, Life::Woken)),
            (20, lives(2, Life::Unready)),
            (50, lives(2, Life::Finished)),
        ];
        let report = report(&profile(&["one", "two"], &events)).unwrap();
        add_up(&report);
        let two = &report.tasks[0];
        assert_eq!((two.ready, two.gone), (stretches(10, 1, 10, 10), stretches(50, 1, 50, 50)));
        let waits = [(BY_ANOTHER, stretches(30, 1, 20, 30)), (NOT_READY, stretches(10, 1, 0, 10))];
        assert_eq!(two.waits, waits.map(|(why, wait)| (why.to_owned(), wait)));
    }

    #[test]
    fn a_polled_task_is_ready_from_its_wake_to_its_poll_and_while_a_handler_polls_another() {
        let polled = |task| switched(task, Why::Polled);
        let events = |wakes: bool| {
            let mut events = vec![
                (0, polled(1)),
                // A handler polls the second task in the middle of the first one's poll.
                (10, What::Entered { number: 20 }),
                (12, polled(2)),
                (18, polled(1)),
                (19, What::Left),
                (30, polled(0)),
                (50, lives(1, Life::Woken)),
                (55, polled(1)),
                // It wakes itself, and is done with the poll after that.
                (57, lives(1, Life::Woken)),
                (60, polled(0)),
                (70, polled(1)),
                (75, lives(1, Life::Finished)),
                (80, polled(0)),
            ];
            events.retain(|(_, what)| wakes || !matches!(what, What::Lives { .. }));
            let mut profile = profile(&["one", "two"], &events);
            profile.tasks.iter_mut().for_each(|task| task.poll = Some(0x40));
            let report = report(&profile).unwrap();
            add_up(&report);
            report.tasks.into_iter().find(|task| task.name == "one").unwrap()
        };
        let one = events(true);
        assert_eq!(one.ready, stretches(6 + 5 + 10, 3, 60, 10));
        assert_eq!(one.waits, [(NOT_WOKEN.to_owned(), stretches(20, 1, 30, 20))]);
        assert_eq!(one.gone, stretches(20, 1, 80, 20));
        let one = events(false);
        assert_eq!(one.ready, stretches(6, 1, 12, 6));
        assert_eq!((one.blocked, one.unknown), (Stretches::default(), stretches(25 + 10 + 20, 3, 30, 25)));
    }

    #[test]
    fn there_is_none_without_a_timeline_or_tasks_or_with_several_cpus() {
        let events = [(0, switched(1, Why::First))];
        let mut several = profile(&["one"], &events);
        assert!(report(&several).is_some());
        several.vcpus.push(several.vcpus[0].clone());
        assert_eq!(report(&several), None);
        assert_eq!(report(&profile(&[], &[])), None);
        let mut without = profile(&["one"], &events);
        without.timeline = None;
        assert_eq!(report(&without), None);
    }
}
