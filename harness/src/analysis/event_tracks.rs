// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timeline's events as moments on tracks: beginnings, ends, single events, and values of counters.
//!
//! Each task, interrupt and CPU has a track of its execution. Zones and traced calls of a task or interrupt have
//! tracks below it, since they continue while others execute. All stretches end with the run at the latest. Moments
//! are passed on one by one, since there may be ten million.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use wire::can::Frame;
use wire::heap;
use wire::timeline::{Event, Life, ObjectKind, What, Why};

use crate::analysis::heap::Pieces;
use crate::analysis::moment::Clock;
use crate::analysis::zone::ContextNames;
use crate::profile::Profile;
use crate::profile::zone::Context;
use crate::text::number::{Hex, plural};

/// Message of the timeline's formats for a run without a timeline.
pub const NOT_RECORDED: &str = "the run has no timeline: ask for it with --timeline";

/// Kind of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Task or interrupt that executes on a CPU.
    Cpu,
    /// Times when a task is running, including interrupts during them.
    Task,
    /// Handlers of an interrupt or exception.
    Interrupt,
    /// Zones of a task or interrupt.
    Zones,
    /// Traced calls in a task or interrupt.
    Calls,
    /// Life of an executor's task, and its wakes.
    Life,
    /// Phases.
    Phases,
    /// Stretches with interrupts masked.
    Masked,
    /// Values that the firmware names, and levels of pins, with a track for each name and pin.
    Mark,
    /// Output of the firmware.
    Console,
    /// Frames on a CAN bus, with a track for each controller.
    Bus,
    /// Semihosting calls, which the host serves.
    Host,
    /// Waits of the processor.
    Waits,
    /// Allocations and frees.
    Allocations,
    /// Bytes held.
    Heap,
    /// Blocks held.
    HeapBlocks,
    /// Bytes of the largest free block.
    HeapFree,
    /// Free bytes of a task's stack below its saved registers, at each switch.
    Stack,
    /// Value 1 while an idle task is running.
    Idle,
}

/// Word for a change of a task's life.
pub(super) fn life(change: Life) -> &'static str {
    match change {
        Life::Spawned => "spawned",
        Life::Woken => "woken",
        Life::Finished => "finished",
        Life::Unready => "not ready",
    }
}

impl Kind {
    /// Whether the track has values instead of stretches.
    pub fn is_counter(self) -> bool {
        matches!(self, Kind::Mark | Kind::Heap | Kind::HeapBlocks | Kind::HeapFree | Kind::Stack | Kind::Idle)
    }

    /// Whether its values are bytes.
    pub fn is_bytes(self) -> bool {
        matches!(self, Kind::Heap | Kind::HeapFree | Kind::Stack)
    }
}

/// A track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Kind of the track.
    pub kind: Kind,
    /// First vCPU that used the track.
    pub vcpu: u32,
    /// Its name.
    pub name: String,
    /// Number of the track that it belongs to.
    pub parent: Option<u32>,
    /// The task, if it belongs to one.
    pub task: Option<u32>,
}

/// A moment on a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The vCPU.
    pub vcpu: u32,
    /// Instructions of the window that the vCPU has started.
    pub at_insns: u64,
    /// Time of the machine's clock in the window beyond that of the instructions: asleep, if known, or moved on for their cycles.
    pub beyond_ns: u64,
    /// Number of the track.
    pub track: u32,
    /// Content of the moment.
    pub what: Happens,
}

/// Content of a moment. Names are numbers of [`Tables::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happens {
    /// A stretch begins within the open ones.
    Begins(u32),
    /// The innermost stretch ends, with a reason if there is one.
    Ends(Option<u32>),
    /// An event without duration, with a number if it has one.
    Is(u32, Option<i64>),
    /// A counter changes its value.
    Counts(i64),
}

/// Tracks and names known so far.
#[derive(Debug, Default)]
pub struct Tables {
    /// Tracks, by number.
    pub tracks: Vec<Track>,
    /// Names, by number.
    pub names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Tables {
    /// Name of a track, after its parent's, which distinguishes zones and calls.
    pub fn title(&self, track: &Track) -> String {
        match track.parent {
            Some(parent) => format!("{}: {}", self.tracks[parent as usize].name, track.name),
            None => track.name.clone(),
        }
    }

    fn name(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

/// Number and size of the events, in a sentence; None: there is no timeline.
pub fn sentence(profile: &Profile) -> Option<String> {
    let timeline = profile.timeline.as_ref()?;
    let events = timeline.events().count() as u64;
    let bytes = timeline.events.len() as u64;
    let how = "harness export PROFILE -f perfetto or -f timeline, harness report PROFILE";
    Some(format!("timeline: {} in {}; {how}", plural(events, "event"), plural(bytes, "byte")))
}

/// A recorded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// An event of the timeline stream.
    Event(Event),
    /// An event of the heap stream.
    Heap {
        /// The vCPU that it happened on.
        vcpu: u32,
        /// Instructions of the window that this vCPU had started.
        at_insns: u64,
        /// The event, timed by all vCPUs' instructions.
        event: heap::Event,
    },
}

impl Recorded {
    /// The vCPU, and its instructions so far.
    pub fn at(&self) -> (u32, u64) {
        match self {
            Recorded::Event(event) => (event.vcpu, event.at_insns),
            &Recorded::Heap { vcpu, at_insns, .. } => (vcpu, at_insns),
        }
    }
}

/// All events of the window in order; at equal instructions the timeline's come first. With several CPUs the order is
/// that of their turns. None: there is no timeline.
pub fn recorded(profile: &Profile) -> Option<impl Iterator<Item = Recorded> + '_> {
    let timeline = profile.timeline.as_ref()?;
    let mut allocations: Vec<heap::Event> = Vec::new();
    if let Some(heap) = &profile.heap {
        let opened = |event: &heap::Event| event.what != heap::What::Opened;
        allocations.extend(heap.events().skip_while(opened).filter(opened));
    }
    let is_one = profile.vcpus.len() <= 1;
    if is_one {
        // The end of a call that never returned is noticed late, so its event is out of order.
        allocations.sort_by_key(|event| event.at_insns);
    }
    let mut allocations = allocations.into_iter().peekable();
    let mut events = timeline.events().peekable();
    Some(std::iter::from_fn(move || {
        let heap_first = match (events.peek(), allocations.peek()) {
            (Some(event), Some(allocation)) if is_one => allocation.at_insns < event.at_insns,
            (Some(_), _) => false,
            (None, _) => is_one,
        };
        if heap_first {
            let event = allocations.next()?;
            return Some(Recorded::Heap { vcpu: 0, at_insns: event.at_insns, event });
        }
        let event = events.next()?;
        let (vcpu, at_insns) = (event.vcpu, event.at_insns);
        let allocation = (!is_one && event.what == What::Heap).then(|| allocations.next()).flatten();
        Some(allocation.map_or(Recorded::Event(event), |event| Recorded::Heap { vcpu, at_insns, event }))
    }))
}

/// Execution state of each vCPU, event by event.
#[derive(Debug, Default)]
pub struct Cursor {
    cpus: Vec<Executes>,
}

/// Execution state of one vCPU.
#[derive(Clone, Debug, Default)]
struct Executes {
    task: u32,
    /// Active exceptions, the outermost first.
    exceptions: Vec<u64>,
}

impl Cursor {
    fn at(&mut self, vcpu: u32) -> &mut Executes {
        let index = vcpu as usize;
        if self.cpus.len() <= index {
            self.cpus.resize(index + 1, Executes::default());
        }
        &mut self.cpus[index]
    }

    /// The running task; 0: none.
    pub fn task(&mut self, vcpu: u32) -> u32 {
        self.at(vcpu).task
    }

    /// Executing context.
    pub fn context(&mut self, vcpu: u32) -> Context {
        let cpu = self.at(vcpu);
        cpu.exceptions.last().map_or(Context::Task(cpu.task), |&number| Context::Exception(number))
    }

    /// Advances by an event.
    pub fn pass(&mut self, event: &Event) {
        let cpu = self.at(event.vcpu);
        match event.what {
            What::Switched { task, .. } => cpu.task = task,
            What::Entered { number } => cpu.exceptions.push(number),
            What::Left => {
                cpu.exceptions.pop();
            }
            _ => {}
        }
    }
}

/// Texts for recorded events.
#[derive(Debug)]
pub struct Words<'a> {
    profile: &'a Profile,
    contexts: ContextNames,
    /// Name of each object. The index is the object's number minus 1.
    objects: Vec<String>,
}

impl<'a> Words<'a> {
    /// Texts of a profile, before its first event.
    pub fn new(profile: &'a Profile) -> Words<'a> {
        Words { profile, contexts: ContextNames::new(profile), objects: Vec::new() }
    }

    /// Name of a peripheral with pins or a CAN bus, by the address of its registers.
    fn port(&self, port: u64) -> String {
        let mut ports = self.profile.facts.chip.iter().flat_map(|chip| &chip.ports);
        ports.find(|(at, _)| *at == port).map_or_else(|| Hex(port).to_string(), |(_, name)| name.clone())
    }

    /// Frame on the bus of a CAN controller: `CAN1 123#1122`.
    pub fn frame(&self, port: u64, frame: &Frame) -> String {
        format!("{} {frame}", self.port(port))
    }

    /// Name of a pin, by the address of its port: `GPIOA.5, an output`.
    pub fn pin(&self, port: u64, pin: u32, is_output: bool) -> String {
        let name = self.port(port);
        let way = if is_output { "an output" } else { "an input" };
        format!("pin {name}.{pin}, {way}")
    }

    /// Learns the object that tasks wait for.
    pub fn learn(&mut self, event: &Event) {
        let What::Object { address, kind, whole, ref name } = event.what else { return };
        let objects = self.profile.timeline.iter().flat_map(|timeline| &timeline.objects);
        let variable = || objects.into_iter().find(|(at, _)| *at == address).map(|(_, name)| name.clone());
        let place = if whole == 0 { address } else { whole };
        let name = if name.is_empty() { variable().unwrap_or_else(|| Hex(place).to_string()) } else { name.clone() };
        let kind = match kind {
            ObjectKind::Unknown => "the list",
            ObjectKind::QueueRoom => "room in the queue",
            ObjectKind::QueueItem => "an item of the queue",
            ObjectKind::Semaphore => "the semaphore",
            ObjectKind::Mutex => "the mutex",
            ObjectKind::EventGroup if whole == 0 => "the event group of the list",
            ObjectKind::EventGroup => "the event group",
            ObjectKind::Queue => "the queue",
            ObjectKind::Memory => "memory of",
            ObjectKind::Thread => "the end of the thread",
            ObjectKind::Condition => "the condition",
            ObjectKind::Pipe => "the pipe",
            ObjectKind::Mailbox => "the mailbox",
            ObjectKind::Timer => "the timer",
        };
        // Without an address only the kind is known.
        self.objects.push(if place == 0 { kind.to_owned() } else { format!("{kind} {name}") });
    }

    /// Name of a task or interrupt.
    pub fn context(&self, context: Context) -> String {
        self.contexts.name(context)
    }

    /// Name of a task; 0: code without a task.
    pub fn task(&self, task: u32) -> String {
        self.contexts.name(Context::Task(task))
    }

    /// Reason why a task stops.
    pub fn why(&self, why: Why) -> String {
        let text = match why {
            Why::Unknown => "unknown",
            Why::First => "the first",
            Why::Preempted => "preempted",
            Why::Yielded => "yielded",
            Why::Delayed => "delayed",
            Why::Blocked { object } => {
                let object = (object as usize).checked_sub(1).and_then(|index| self.objects.get(index));
                return format!("blocked on {}", object.map_or("an object", String::as_str));
            }
            Why::Notification => "waits for a notification",
            Why::Suspended => "suspended",
            Why::Deleted => "deleted",
            Why::Polled => "polled",
        };
        text.to_owned()
    }

    /// Name of a traced function.
    pub fn function(&self, number: u32) -> String {
        let functions = self.profile.timeline.as_ref().map(|timeline| &timeline.functions);
        match functions.and_then(|functions| functions.get(number as usize)) {
            Some(&entry) => {
                self.profile.names.function_at(entry).map_or_else(|| Hex(entry).to_string(), |f| f.name.clone())
            }
            None => String::new(),
        }
    }

    /// Name of a semihosting call, as in the specification.
    pub fn operation(operation: u32) -> String {
        let name = match operation {
            0x01 => "SYS_OPEN",
            0x02 => "SYS_CLOSE",
            0x03 => "SYS_WRITEC",
            0x04 => "SYS_WRITE0",
            0x05 => "SYS_WRITE",
            0x06 => "SYS_READ",
            0x07 => "SYS_READC",
            0x08 => "SYS_ISERROR",
            0x09 => "SYS_ISTTY",
            0x0a => "SYS_SEEK",
            0x0c => "SYS_FLEN",
            0x0d => "SYS_TMPNAM",
            0x0e => "SYS_REMOVE",
            0x0f => "SYS_RENAME",
            0x10 => "SYS_CLOCK",
            0x11 => "SYS_TIME",
            0x12 => "SYS_SYSTEM",
            0x13 => "SYS_ERRNO",
            0x15 => "SYS_GET_CMDLINE",
            0x16 => "SYS_HEAPINFO",
            0x18 => "SYS_EXIT",
            0x20 => "SYS_EXIT_EXTENDED",
            0x30 => "SYS_ELAPSED",
            0x31 => "SYS_TICKFREQ",
            _ => return format!("semihosting {operation:#x}"),
        };
        name.to_owned()
    }
}

/// Identity of a track: its kind, the vCPU if each has one, its context, and its name.
type Key = (Kind, u32, Option<Context>, u32);

/// Walks over the events, and passes each moment to `take` with the tables that it refers to. False: there is no
/// timeline.
///
/// # Errors
/// Errors of `take`.
pub fn walk<E>(profile: &Profile, mut take: impl FnMut(&Tables, Moment) -> Result<(), E>) -> Result<bool, E> {
    let Some(recorded) = recorded(profile) else { return Ok(false) };
    let mut walk = Walk {
        words: Words::new(profile),
        cursor: Cursor::default(),
        tables: Tables::default(),
        numbers: HashMap::new(),
        open: BTreeMap::new(),
        sizes: HashMap::new(),
        held_bytes: 0,
        pieces: Pieces::new(profile),
        phase: None,
        clocks: vec![0; profile.vcpus.len()],
        clock: Clock::new(profile),
        counts: HashMap::new(),
        has_cpus: profile.vcpus.iter().filter(|vcpu| vcpu.clock_insns > 0).count() > 1,
        out: Vec::new(),
    };
    walk.begin(profile);
    walk.hand_on(&mut take)?;
    for recorded in recorded {
        match recorded {
            Recorded::Event(event @ Event { what: What::Ahead { .. }, .. }) => walk.clock.pass(&event),
            Recorded::Event(event) => walk.event(profile, &event),
            Recorded::Heap { vcpu, at_insns, event } => walk.heap(vcpu, at_insns, &event),
        }
        walk.hand_on(&mut take)?;
    }
    walk.end(profile);
    walk.hand_on(&mut take)?;
    Ok(true)
}

struct Walk<'a> {
    words: Words<'a>,
    cursor: Cursor,
    tables: Tables,
    numbers: HashMap<Key, u32>,
    /// Names of the open stretches, by track.
    open: BTreeMap<u32, Vec<u32>>,
    /// Sizes of the heap's blocks.
    sizes: HashMap<u64, u64>,
    /// Bytes held, by the requested sizes; a wrong rule of the user may make these huge.
    held_bytes: u128,
    pieces: Option<Pieces>,
    phase: Option<u32>,
    /// Clock of each CPU.
    clocks: Vec<u64>,
    clock: Clock<'a>,
    /// Last values of counters that are only written when they change, by track.
    counts: HashMap<u32, i64>,
    /// Whether more than one CPU has executed.
    has_cpus: bool,
    out: Vec<Moment>,
}

impl Walk<'_> {
    fn hand_on<E>(&mut self, take: &mut impl FnMut(&Tables, Moment) -> Result<(), E>) -> Result<(), E> {
        self.out.drain(..).try_for_each(|moment| take(&self.tables, moment))
    }

    /// Begins with the initial contexts, and the blocks from before the window.
    fn begin(&mut self, profile: &Profile) {
        for vcpu in 0..profile.vcpus.len() as u32 {
            if profile.vcpus[vcpu as usize].clock_insns > 0 {
                self.runs(vcpu, 0);
            }
        }
        if let Some(heap) = &profile.heap {
            let before = heap.events().take_while(|event| event.what != heap::What::Opened);
            before.for_each(|event| self.account(&event));
            if let (Some(opened), Some(pieces)) =
                (heap.events().find(|event| event.what == heap::What::Opened), &mut self.pieces)
            {
                pieces.pass(&opened);
            }
        }
    }

    fn track(
        &mut self,
        key: Key,
        task: Option<u32>,
        parent: Option<u32>,
        name: impl FnOnce(&Words<'_>) -> String,
    ) -> u32 {
        if let Some(&track) = self.numbers.get(&key) {
            return track;
        }
        let number = self.tables.tracks.len() as u32;
        let mut name = name(&self.words);
        // Tracks that exist once for each CPU, or use its time, have the CPU in their names. A task's track has not,
        // since the task may continue on another CPU. Zones and calls are identified by their parent tracks.
        let has_one =
            matches!(key.0, Kind::Cpu | Kind::Zones | Kind::Calls) || (key.0 == Kind::Task && task != Some(0));
        if self.has_cpus && !has_one {
            let _ = write!(name, ", CPU {}", key.1);
        }
        self.tables.tracks.push(Track { kind: key.0, vcpu: key.1, name, parent, task });
        self.numbers.insert(key, number);
        number
    }

    /// Track of a task or interrupt.
    fn context_track(&mut self, vcpu: u32, context: Context) -> u32 {
        match context {
            // Code without a task has one track for each vCPU.
            Context::Task(task) => {
                let key = (Kind::Task, if task == 0 { vcpu } else { 0 }, Some(context), 0);
                self.track(key, Some(task), None, |words| words.task(task))
            }
            Context::Exception(_) => {
                self.track((Kind::Interrupt, vcpu, Some(context), 0), None, None, |words| words.context(context))
            }
        }
    }

    /// Track below that of the executing task or interrupt.
    fn track_within(&mut self, kind: Kind, vcpu: u32, name: &str) -> u32 {
        let context = self.cursor.context(vcpu);
        let parent = self.context_track(vcpu, context);
        let Track { vcpu: of, task, .. } = self.tables.tracks[parent as usize];
        self.track((kind, of, Some(context), 0), task, Some(parent), |_| name.to_owned())
    }

    fn plain_track(&mut self, kind: Kind, vcpu: u32, name: &str) -> u32 {
        self.track((kind, vcpu, None, 0), None, None, |_| name.to_owned())
    }

    /// CPU whose time is used for events of the whole firmware: with several CPUs, the one of the event.
    fn timekeeper(&self, vcpu: u32) -> u32 {
        if self.has_cpus { vcpu } else { 0 }
    }

    fn push(&mut self, vcpu: u32, at_insns: u64, track: u32, what: Happens) {
        self.out.push(Moment { vcpu, at_insns, beyond_ns: self.clock.beyond_ns(), track, what });
    }

    /// Adds an event without duration.
    fn single(&mut self, vcpu: u32, at_insns: u64, track: u32, name: &str, number: Option<i64>) {
        let name = self.tables.name(name);
        self.push(vcpu, at_insns, track, Happens::Is(name, number));
    }

    fn begins(&mut self, vcpu: u32, at_insns: u64, track: u32, name: &str) {
        let name = self.tables.name(name);
        self.open.entry(track).or_default().push(name);
        self.push(vcpu, at_insns, track, Happens::Begins(name));
    }

    fn ends(&mut self, vcpu: u32, at_insns: u64, track: u32, why: Option<&str>) {
        if self.open.get_mut(&track).and_then(Vec::pop).is_some() {
            let why = why.map(|why| self.tables.name(why));
            self.push(vcpu, at_insns, track, Happens::Ends(why));
        }
    }

    /// Ends the innermost stretch of a name. Stretches within it are ended first, as left.
    fn ends_named(&mut self, vcpu: u32, at_insns: u64, track: u32, name: &str, why: Option<&str>) {
        let name = self.tables.name(name);
        let Some(index) = self.open.get(&track).and_then(|open| open.iter().rposition(|&open| open == name)) else {
            return;
        };
        while self.open[&track].len() > index + 1 {
            self.ends(vcpu, at_insns, track, Some(LEFT));
        }
        self.ends(vcpu, at_insns, track, why);
    }

    /// Ends the innermost stretch of a name, as left. Stretches within it continue: they are ended and begun again,
    /// since a stretch cannot outlast the one around it.
    fn left_named(&mut self, vcpu: u32, at_insns: u64, track: u32, name: &str) {
        let name = self.tables.name(name);
        let open = self.open.get(&track).cloned().unwrap_or_default();
        let Some(index) = open.iter().rposition(|&open| open == name) else { return };
        let within = &open[index + 1..];
        within.iter().for_each(|_| self.ends(vcpu, at_insns, track, None));
        self.ends(vcpu, at_insns, track, Some(LEFT));
        for &name in within {
            self.open.entry(track).or_default().push(name);
            self.push(vcpu, at_insns, track, Happens::Begins(name));
        }
    }

    fn ends_all(&mut self, vcpu: u32, at_insns: u64, track: u32, why: &str) {
        while self.open.get(&track).is_some_and(|open| !open.is_empty()) {
            self.ends(vcpu, at_insns, track, Some(why));
        }
    }

    /// Notes the context that executes on a CPU from here on.
    fn runs(&mut self, vcpu: u32, at_insns: u64) {
        let track = self.plain_track(Kind::Cpu, vcpu, &format!("CPU {vcpu}"));
        self.ends(vcpu, at_insns, track, None);
        let context = self.cursor.context(vcpu);
        let name = self.words.context(context);
        self.begins(vcpu, at_insns, track, &name);
    }

    /// Ends the zones and calls of a task or interrupt that is over.
    fn close_within(&mut self, vcpu: u32, at_insns: u64, context: Context, why: &str) {
        for kind in [Kind::Zones, Kind::Calls] {
            let of = if matches!(context, Context::Task(task) if task != 0) { 0 } else { vcpu };
            if let Some(&track) = self.numbers.get(&(kind, of, Some(context), 0)) {
                self.ends_all(vcpu, at_insns, track, why);
            }
        }
    }

    fn event(&mut self, profile: &Profile, event: &Event) {
        let &Event { vcpu, at_insns, ref what } = event;
        if let Some(clock) = self.clocks.get_mut(vcpu as usize) {
            *clock = at_insns;
        }
        let before = self.cursor.context(vcpu);
        let old = self.cursor.task(vcpu);
        self.cursor.pass(event);
        self.words.learn(event);
        let zone = |name: u32| profile.zones.name(name).to_owned();
        match *what {
            What::Switched { task, why } => {
                self.switched(profile, (vcpu, at_insns), old, (task, why));
                if self.cursor.context(vcpu) != before {
                    self.runs(vcpu, at_insns);
                }
            }
            What::Entered { number } => self.entered(vcpu, at_insns, Context::Exception(number)),
            What::Left => self.left(vcpu, at_insns, before),
            What::Begun { name } => {
                let track = self.track_within(Kind::Zones, vcpu, "zones");
                self.begins(vcpu, at_insns, track, &zone(name));
            }
            What::Ended { name } => {
                let track = self.track_within(Kind::Zones, vcpu, "zones");
                self.ends_named(vcpu, at_insns, track, &zone(name), None);
            }
            What::Abandoned { name } => {
                let track = self.track_within(Kind::Zones, vcpu, "zones");
                self.left_named(vcpu, at_insns, track, &zone(name));
            }
            What::Phase { name } => {
                if self.phase.replace(name) != Some(name) {
                    self.phase_begins(profile, vcpu, &zone(name));
                }
            }
            What::Mark { name, value } => {
                let track = self.track((Kind::Mark, self.timekeeper(vcpu), None, name), None, None, |_| zone(name));
                self.push(vcpu, at_insns, track, Happens::Counts(value));
            }
            What::Called { function } => {
                let track = self.track_within(Kind::Calls, vcpu, "calls");
                let name = self.words.function(function);
                self.begins(vcpu, at_insns, track, &name);
            }
            What::Returned { function } | What::Unwound { function } => {
                let track = self.track_within(Kind::Calls, vcpu, "calls");
                let name = self.words.function(function);
                let reason = matches!(what, What::Unwound { .. }).then_some(LEFT);
                self.ends_named(vcpu, at_insns, track, &name, reason);
            }
            What::Printed { bytes } => {
                let track = self.plain_track(Kind::Console, self.timekeeper(vcpu), "console");
                self.single(vcpu, at_insns, track, "prints", Some(bytes as i64));
            }
            What::Pin { port, pin, is_high, is_output } => self.pin(vcpu, at_insns, (port, pin), is_high, is_output),
            What::Frame { port, is_sent, frame } => self.frame(vcpu, at_insns, port, is_sent, &frame),
            What::Lives { task, change } => self.lives(vcpu, at_insns, task, change),
            What::Semihosting { operation } => {
                let track = self.plain_track(Kind::Host, vcpu, "semihosting");
                self.single(vcpu, at_insns, track, &Words::operation(operation), None);
            }
            What::Waits => {
                let track = self.plain_track(Kind::Waits, vcpu, WAITS);
                self.single(vcpu, at_insns, track, "waits", None);
            }
            What::Slept { .. } => self.slept(event),
            What::Stack { sp } => self.stack(profile, (vcpu, at_insns), old, sp),
            What::Masked => {
                let track = self.plain_track(Kind::Masked, vcpu, "interrupts masked");
                self.begins(vcpu, at_insns, track, "masked");
            }
            What::Unmasked => {
                let track = self.plain_track(Kind::Masked, vcpu, "interrupts masked");
                self.ends(vcpu, at_insns, track, None);
            }
            What::Object { .. } | What::Ahead { .. } | What::Heap | What::Stopped => {}
        }
    }

    /// Notes a change of the life of an executor's task, on a track below its own.
    fn lives(&mut self, vcpu: u32, at_insns: u64, task: u32, change: Life) {
        let context = Context::Task(task);
        let parent = self.context_track(vcpu, context);
        let track = self.track((Kind::Life, 0, Some(context), 0), Some(task), Some(parent), |_| "life".to_owned());
        match change {
            Life::Spawned => self.begins(vcpu, at_insns, track, "alive"),
            Life::Woken | Life::Unready => self.single(vcpu, at_insns, track, life(change), None),
            Life::Finished => self.ends(vcpu, at_insns, track, Some(life(change))),
        }
    }

    /// Notes a frame on a CAN bus, on the controller's own track.
    fn frame(&mut self, vcpu: u32, at_insns: u64, port: u64, is_sent: bool, frame: &Frame) {
        let key = (Kind::Bus, self.timekeeper(vcpu), None, port as u32);
        let track = self.track(key, None, None, |words| words.port(port));
        let way = if is_sent { "sent" } else { "received" };
        self.single(vcpu, at_insns, track, &format!("{way} {frame}"), None);
    }

    /// Notes the new level of a pin of the chip, on the pin's own track.
    fn pin(&mut self, vcpu: u32, at_insns: u64, (port, pin): (u64, u32), is_high: bool, is_output: bool) {
        let key = (Kind::Mark, self.timekeeper(vcpu), None, port as u32 | pin);
        let track = self.track(key, None, None, |words| words.pin(port, pin, is_output));
        self.push(vcpu, at_insns, track, Happens::Counts(is_high.into()));
    }

    /// Ends the stretch of a CPU's old task, and begins that of its new one.
    fn switched(&mut self, profile: &Profile, (vcpu, at_insns): (u32, u64), old: u32, (task, why): (u32, Why)) {
        let text = self.words.why(why);
        if profile.tasks.iter().any(|task| task.is_idle) {
            let is_idle = profile.task(task).is_some_and(|task| task.is_idle);
            let track = self.plain_track(Kind::Idle, vcpu, "idle");
            self.push(vcpu, at_insns, track, Happens::Counts(is_idle.into()));
        }
        if old != 0 {
            let track = self.context_track(vcpu, Context::Task(old));
            self.ends(vcpu, at_insns, track, Some(&text));
            if why == Why::Deleted {
                self.close_within(vcpu, at_insns, Context::Task(old), &text);
            }
        }
        if task != 0 {
            let track = self.context_track(vcpu, Context::Task(task));
            self.begins(vcpu, at_insns, track, "runs");
        }
    }

    /// Begins the stretch of a handler.
    fn entered(&mut self, vcpu: u32, at_insns: u64, handler: Context) {
        let track = self.context_track(vcpu, handler);
        let name = self.words.context(handler);
        self.begins(vcpu, at_insns, track, &name);
        self.runs(vcpu, at_insns);
    }

    /// Ends the stretch of the handler that executed until now, if one did.
    fn left(&mut self, vcpu: u32, at_insns: u64, before: Context) {
        if matches!(before, Context::Exception(_)) {
            self.close_within(vcpu, at_insns, before, "its handler is over");
            let track = self.context_track(vcpu, before);
            self.ends(vcpu, at_insns, track, None);
            self.runs(vcpu, at_insns);
        }
    }

    /// Begins a phase on the CPU of its event; with several CPUs, on all that have executed.
    fn phase_begins(&mut self, profile: &Profile, vcpu: u32, name: &str) {
        let executed = |vcpu: &u32| profile.vcpus[*vcpu as usize].clock_insns > 0;
        let all: Vec<u32> = (0..profile.vcpus.len() as u32).filter(executed).collect();
        for vcpu in if self.has_cpus { all } else { vec![vcpu] } {
            let at_insns = self.clocks[vcpu as usize];
            let track = self.plain_track(Kind::Phases, self.timekeeper(vcpu), "phases");
            self.ends(vcpu, at_insns, track, None);
            self.begins(vcpu, at_insns, track, name);
        }
    }

    /// Adds a sleep of the processor. No task or interrupt executes meanwhile.
    fn slept(&mut self, event: &Event) {
        let &Event { vcpu, at_insns, .. } = event;
        let cpu = self.plain_track(Kind::Cpu, vcpu, &format!("CPU {vcpu}"));
        self.ends(vcpu, at_insns, cpu, None);
        let track = self.plain_track(Kind::Waits, vcpu, WAITS);
        self.begins(vcpu, at_insns, track, "sleeps");
        self.clock.pass(event);
        self.ends(vcpu, at_insns, track, None);
        self.runs(vcpu, at_insns);
    }

    /// Adds the free bytes of a task's stack, if its bounds are known.
    fn stack(&mut self, profile: &Profile, (vcpu, at_insns): (u32, u64), task: u32, sp: u64) {
        let Some(bytes) = free_stack(profile, task, sp) else { return };
        let parent = self.context_track(vcpu, Context::Task(task));
        let key = (Kind::Stack, 0, Some(Context::Task(task)), 0);
        let track = self.track(key, Some(task), Some(parent), |_| "free stack".to_owned());
        self.push(vcpu, at_insns, track, Happens::Counts(bytes));
    }

    /// Updates the bytes held after an event of the heap.
    fn account(&mut self, event: &heap::Event) {
        if let Some(pieces) = &mut self.pieces {
            pieces.pass(event);
        }
        let (given_back, given_out) = match event.what {
            heap::What::Allocated { address, size_bytes, .. } => (None, Some((address, size_bytes))),
            heap::What::Freed { address } => (Some(address), None),
            heap::What::Moved { old, address, size_bytes } => (Some(old), Some((address, size_bytes))),
            heap::What::Opened | heap::What::Failed { .. } | heap::What::Left { .. } => (None, None),
        };
        let freed = given_back.and_then(|address| self.sizes.remove(&address));
        let replaced = given_out.and_then(|(address, size_bytes)| {
            self.held_bytes += u128::from(size_bytes);
            self.sizes.insert(address, size_bytes)
        });
        self.held_bytes -= u128::from(freed.unwrap_or(0)) + u128::from(replaced.unwrap_or(0));
    }

    fn heap(&mut self, vcpu: u32, at_insns: u64, event: &heap::Event) {
        self.account(event);
        let (word, bytes) = of_heap(&event.what);
        let track = self.plain_track(Kind::Allocations, self.timekeeper(vcpu), "allocations");
        self.single(vcpu, at_insns, track, word, bytes.map(|bytes| bytes as i64));
        let track = self.plain_track(Kind::Heap, self.timekeeper(vcpu), "bytes of heap");
        let held = i64::try_from(self.held_bytes).unwrap_or(i64::MAX);
        self.push(vcpu, at_insns, track, Happens::Counts(held));
        let Some(pieces) = &self.pieces else { return };
        let counts = [
            (Kind::HeapBlocks, "blocks of heap", pieces.blocks()),
            (Kind::HeapFree, "largest free block", pieces.largest_free_bytes()),
        ];
        for (kind, name, count) in counts {
            let track = self.plain_track(kind, self.timekeeper(vcpu), name);
            // Most events leave the largest block unchanged.
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            if self.counts.insert(track, count) != Some(count) {
                self.push(vcpu, at_insns, track, Happens::Counts(count));
            }
        }
    }

    /// Ends the open stretches with the run.
    fn end(&mut self, profile: &Profile) {
        let tracks: Vec<u32> = self.open.keys().copied().collect();
        for track in tracks {
            let vcpu = self.tables.tracks[track as usize].vcpu;
            let end = profile.vcpus.get(vcpu as usize).map_or(0, |vcpu| vcpu.clock_insns);
            self.ends_all(vcpu, end, track, "the run's end");
        }
    }
}

/// Name of the track of waits.
const WAITS: &str = "waits for an interrupt";

/// Reason for a stretch that was left without its end.
const LEFT: &str = "left";

/// Bytes of a task's stack below this stack pointer, negative if that is outside of the stack; None: its bounds are
/// unknown.
pub fn free_stack(profile: &Profile, task: u32, sp: u64) -> Option<i64> {
    let start = profile.task(task)?.stack_start?;
    i64::try_from(i128::from(sp) - i128::from(start)).ok()
}

/// Word for an event of the heap, and its bytes, if it has any.
pub fn of_heap(what: &heap::What) -> (&'static str, Option<u64>) {
    match *what {
        heap::What::Opened => ("opened", None),
        heap::What::Allocated { size_bytes, .. } => ("allocated", Some(size_bytes)),
        heap::What::Freed { .. } => ("freed", None),
        heap::What::Moved { size_bytes, .. } => ("reallocated", Some(size_bytes)),
        heap::What::Failed { size_bytes, .. } => ("allocation failed", Some(size_bytes)),
        heap::What::Left { size_bytes } => ("allocation left", Some(size_bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;
    use crate::profile::{Heap, Timeline};

    #[test]
    fn whatever_size_is_asked_for_the_bytes_that_are_held_have_no_bound() {
        let allocated = |address, size_bytes| heap::What::Allocated { address, size_bytes, align_bytes: 0 };
        let whats = [
            heap::What::Opened,
            allocated(0x100, u64::MAX),
            allocated(0x200, u64::MAX),
            heap::What::Moved { old: 0x100, address: 0x300, size_bytes: 8 },
            heap::What::Freed { address: 0x200 },
            // The same block again: it was freed unnoticed.
            allocated(0x300, 5),
        ];
        let mut encoder = heap::Encoder::default();
        let mut profile = empty();
        let mut events = Vec::new();
        for (at_insns, what) in (1..).zip(whats) {
            let site = u32::from(what != heap::What::Opened);
            encoder.put(&heap::Event { at_insns, site, what }, &mut events).unwrap();
        }
        profile.heap = Some(Heap { events, ..Heap::default() });
        profile.timeline = Some(Timeline::default());
        let mut held = Vec::new();
        let walked = walk(&profile, |tables, moment| {
            if tables.tracks[moment.track as usize].kind == Kind::Heap
                && let Happens::Counts(bytes) = moment.what
            {
                held.push(bytes);
            }
            Ok::<(), ()>(())
        });
        assert_eq!(walked, Ok(true));
        assert_eq!(held, [i64::MAX, i64::MAX, i64::MAX, 8, 5]);
    }
}
