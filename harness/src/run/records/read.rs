//! Reads the plugin's records: the files of the wire format, into counts, arcs and samples.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use wire::control::{self, Control, Word};
use wire::counters;
use wire::definition::{
    self, Definition, NodeCounter, NoteKind, SpanCounter, SpanKind, TaskCounter, Transfer, TransferKind,
};
use wire::sample::{self, Sample};
use wire::stream::StreamFile;
use wire::zone::Row;

use crate::profile::bounds;
use crate::profile::heap::{Heap, Site};
use crate::profile::part::Parts;
use crate::profile::timeline::Timeline;
use crate::profile::zone::{ZonePath, Zones};
use crate::profile::{
    Arc, Code, Facts, InTarget, InsnCount, Names, Node, Note, Profile, Span, StackFrame, Task, VcpuCounts,
};
use crate::run::records::parts;
use crate::run::records::zones;

/// The plugin's records of one run.
#[derive(Debug)]
pub struct Records {
    /// Progress and end of the run.
    pub control: Control,
    /// Exact counts per vCPU.
    pub vcpus: Vec<VcpuCounts>,
    /// Instructions executed before the window opened.
    pub before_window_insns: u64,
    /// Executions before the window by address, all vCPUs together; only for firmware with an in-target table.
    pub before_window: BTreeMap<u64, u64>,
    /// Samples in time order.
    pub samples: Vec<Sample>,
    /// Frames of their call stacks.
    pub stacks: Vec<StackFrame>,
    /// Tasks of the firmware's kernel.
    pub tasks: Vec<Task>,
    /// Number of times that a processor would have slept at a `wfe`.
    pub sleeps: u64,
    /// Instructions executed during such sleeps, except those of the kernel's idle tasks.
    pub slept_insns: u64,
    /// The exact call tree.
    pub tree: Vec<Node>,
    /// Instructions, and bytes printed by then, if recorded.
    pub console_marks: Vec<(u64, u64)>,
    /// Spans, sorted by kind.
    pub spans: Vec<Span>,
    /// Allocations and frees, if requested; without the list of followed functions.
    pub heap: Option<Heap>,
    /// The timeline, if requested; without the list of traced functions.
    pub timeline: Option<Timeline>,
    /// Zones, marks and exceptions, without their names.
    pub zones: Zones,
    /// Phases and slices, without the length of a slice.
    pub parts: Parts,
    /// Counts in the middle of the window, by vCPU; empty if its length was not known.
    pub half: Vec<VcpuCounts>,
    /// Registers of devices that were read over and over, up to the end.
    pub polls: Vec<Poll>,
    /// The firmware's requests to the host.
    pub notes: Vec<Note>,
}

/// A register of a device that one instruction read over and over, with the same value each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// Address of the instruction.
    pub pc: u64,
    /// Address of the register.
    pub address: u64,
    /// The value read.
    pub value: u64,
    /// Instructions of the window up to the first of these reads.
    pub since_insns: u64,
    /// Number of reads.
    pub times: u64,
}

impl Records {
    /// The saved model: these counts, with data of the image and of the run.
    pub fn into_profile(self, facts: Facts, names: Names, code: Vec<Code>, in_target: Option<InTarget>) -> Profile {
        let Records {
            vcpus,
            samples,
            stacks,
            tasks,
            tree,
            console_marks,
            spans,
            heap,
            timeline,
            zones,
            parts,
            notes,
            ..
        } = self;
        Profile {
            facts,
            vcpus,
            samples,
            stacks,
            tasks,
            tree,
            console_marks,
            spans,
            zones,
            parts,
            notes,
            names,
            code,
            in_target,
            heap,
            timeline,
        }
    }

    /// Reads the files in `directory`, after QEMU has ended.
    pub fn read(directory: &Path) -> Result<Records> {
        let failed = |path: &Path| format!("cannot read the plugin's records in {}", path.display());
        let file = |name: &str| {
            let path = directory.join(name);
            fs::read(&path).with_context(|| failed(&path))
        };
        let control = Control::read(&file("control")?)?;
        // The rest of these files is only reserved, a megabyte and more.
        let stream = |stream: StreamFile| {
            let path = directory.join(stream.name());
            let bytes = control.get(stream.length());
            let mut read = Vec::new();
            let file = File::open(&path).and_then(|file| file.take(bytes).read_to_end(&mut read));
            file.with_context(|| failed(&path))?;
            ensure!(read.len() as u64 == bytes, "the plugin's records are cut short");
            Ok(read)
        };
        // One that was not asked for is not there.
        let asked = |file: StreamFile| directory.join(file.name()).exists().then(|| stream(file)).transpose();
        let definitions = stream(StreamFile::Definitions)?;
        let samples = stream(StreamFile::Samples)?;
        let heap = asked(StreamFile::Heap)?;
        let timeline = asked(StreamFile::Timeline)?.map(|events| Timeline { events, ..Timeline::default() });
        let mut sites = Vec::new();
        let counts = file("counters")?;

        let vcpus = control.vcpus();
        let counter =
            |slot, vcpu| counters::get(&counts, slot, vcpu, vcpus).context("the plugin's counters are cut short");
        let mut builders = vec![Builder::default(); vcpus as usize];
        let (mut notes, mut stacks, mut tasks, mut tree) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut console_marks = Vec::new();
        let mut spans = Vec::new();
        let mut zones = zones::Builder::default();
        let is_open = control.get(Word::WindowOpen) == 1;
        // A sum that overflows exceeds the bounds as well, which are checked after reading.
        let sum = |slot| -> Result<u64> {
            (0..vcpus).try_fold(0_u64, |sum, vcpu| Ok(sum.saturating_add(counter(slot, vcpu)?)))
        };
        let counts_open = fs::read(directory.join(wire::COUNTERS_OPEN)).unwrap_or_default();
        let mut before_window = BTreeMap::new();
        let counts_half = fs::read(directory.join(wire::COUNTERS_HALF)).unwrap_or_default();
        // None: the counter was defined later.
        let half = |slot, vcpu| counters::get(&counts_half, slot, vcpu, vcpus).unwrap_or(0);
        let mut half_builders = vec![Builder::default(); if counts_half.is_empty() { 0 } else { vcpus as usize }];
        let mut polls = Vec::new();
        let is_cut = control.get(Word::SliceBytes) > 0 || control.get(Word::Phase) != 0;
        let mut growing = BTreeMap::new();
        for definition in definition::Decoder::new(&definitions) {
            let definition = definition?;
            if let Some((slot, counts)) = Growing::of(&definition).filter(|_| is_cut) {
                growing.insert(slot, counts);
            }
            match definition {
                Definition::Segment { slot, pc, sizes, transfer } => {
                    for (vcpu, builder) in (0..vcpus).zip(&mut builders) {
                        builder.segment(pc, &sizes, transfer, counter(slot, vcpu)?);
                    }
                    for (vcpu, builder) in (0..vcpus).zip(&mut half_builders) {
                        builder.segment(pc, &sizes, transfer, half(slot, vcpu));
                    }
                    // None: the counter was defined later.
                    let before = (0..vcpus).filter_map(|vcpu| counters::get(&counts_open, slot, vcpu, vcpus));
                    let before = before.fold(0, u64::saturating_add);
                    let mut pc = pc;
                    for &size in sizes.iter().filter(|_| before > 0) {
                        let sum: &mut u64 = before_window.entry(pc).or_default();
                        *sum = sum.saturating_add(before);
                        pc = pc.wrapping_add(size.into());
                    }
                }
                Definition::Arc { slot, site, target, return_addr, kind } => {
                    for (vcpu, builder) in (0..vcpus).zip(&mut builders) {
                        builder.arc(site, target, return_addr, kind, counter(slot, vcpu)?);
                    }
                    for (vcpu, builder) in (0..vcpus).zip(&mut half_builders) {
                        builder.arc(site, target, return_addr, kind, half(slot, vcpu));
                    }
                }
                Definition::Frame { parent, kind } => stacks.push(StackFrame { parent, kind }),
                Definition::Task { slot, tcb, name, stack_start, stack_end, is_idle, poll } => {
                    let known = |address: u64| (address != 0).then_some(address);
                    let highest = |counter_of: TaskCounter| -> Result<Option<u64>> {
                        let values = (0..vcpus).map(|vcpu| counter(slot + counter_of as u32, vcpu));
                        Ok(values.collect::<Result<Vec<_>>>()?.into_iter().max().filter(|&value| value != 0))
                    };
                    tasks.push(Task {
                        name,
                        tcb,
                        stack_start: known(stack_start),
                        stack_end: known(stack_end),
                        is_idle,
                        poll: known(poll),
                        insns: sum(slot + TaskCounter::Insns as u32)?,
                        switches: sum(slot + TaskCounter::Switches as u32)?,
                        deepest_sp: highest(TaskCounter::DeepestSp)?.map(u64::wrapping_neg),
                        painted_bytes: highest(TaskCounter::Painted)?.map(|bytes| bytes - 1),
                    });
                }
                Definition::Idle { task } => {
                    if let Some(task) = (task as usize).checked_sub(1).and_then(|index| tasks.get_mut(index)) {
                        task.is_idle = true;
                    }
                }
                Definition::Node { slot, parent, kind, via } => tree.push(Node {
                    parent,
                    kind,
                    via: Some(via).filter(|&via| via != 0),
                    insns: sum(slot + NodeCounter::Insns as u32)?,
                    calls: sum(slot + NodeCounter::Calls as u32)?,
                }),
                Definition::Poll { pc, address, value, since_insns, times } => {
                    polls.push(Poll { pc, address, value, since_insns, times });
                }
                Definition::Mark { at_insns, bytes } => console_marks.push((at_insns, bytes)),
                Definition::Span { slot, kind } => {
                    let mut span = Span::none(kind);
                    for vcpu in (0..vcpus).filter(|_| is_open) {
                        let counter = |of: SpanCounter| counter(slot + of as u32, vcpu);
                        span.add(Span {
                            kind,
                            count: counter(SpanCounter::Count)?,
                            min_insns: !counter(SpanCounter::MinComplement)?,
                            max_insns: counter(SpanCounter::Max)?,
                            sum_insns: counter(SpanCounter::Sum)?,
                            longest_at: counter(SpanCounter::LongestAt)?,
                            longest_since_insns: counter(SpanCounter::LongestSince)?,
                        });
                    }
                    // A requested span that never occurred is listed; other empty ones were only defined before the
                    // window.
                    if span.count > 0 || matches!(kind, SpanKind::Between { .. }) {
                        spans.push(span);
                    }
                }
                Definition::Site { entry, stack, task } => sites.push(Site { entry, stack, task }),
                Definition::Row { slot, row } if is_open => zones.row((slot, row), vcpus, counter)?,
                Definition::Row { .. } => {}
                Definition::ZonePath { parent, name, pc } => zones.path(ZonePath { parent, name, pc }),
                Definition::Note { kind, operation, pc, text } => {
                    let unread = kind == NoteKind::Unread;
                    notes.push(Note { unread, denied: unread || kind == NoteKind::Denied, operation, pc, text });
                }
            }
        }
        let finished = (0..vcpus).zip(builders).map(|(vcpu, builder)| {
            let clock = counters::insns(counter(counters::CLOCK, vcpu)?, counter(counters::ORIGIN, vcpu)?);
            Ok(builder.finish(clock))
        });
        let half = (0..).zip(half_builders).map(|(vcpu, builder)| {
            builder.finish(counters::insns(half(counters::CLOCK, vcpu), half(counters::ORIGIN, vcpu)))
        });
        let half: Vec<VcpuCounts> = half.collect();
        let mut vcpus = finished.collect::<Result<Vec<_>>>()?;
        // The last task has not been switched out.
        let last = |slot, vcpu| -> Result<Option<usize>> { Ok((counter(slot, vcpu)? as usize).checked_sub(1)) };
        for (vcpu, counts) in (0..).zip(&vcpus) {
            if let Some(task) = last(counters::TASK, vcpu)?.and_then(|index| tasks.get_mut(index)) {
                let since = counter(counters::TASK_SINCE, vcpu)?;
                task.insns = task.insns.saturating_add(counts.clock_insns.saturating_sub(since));
            }
        }
        // The tree is only kept for a single vCPU.
        let attributed = tree.iter().map(|node: &Node| node.insns).fold(0, u64::saturating_add);
        if let (Some(node), [counts]) = (last(counters::NODE, 0)?.and_then(|index| tree.get_mut(index)), &vcpus[..]) {
            node.insns = node.insns.saturating_add(counts.clock_insns.saturating_sub(attributed));
        }
        // A sleep at the end of the run has not ended.
        let (mut sleeps, mut slept_insns) = (sum(counters::SLEEPS)?, sum(counters::SLEPT)?);
        for (vcpu, counts) in (0..).zip(&vcpus) {
            let idles =
                last(counters::TASK, vcpu)?.and_then(|index| tasks.get(index)).is_some_and(|task| task.is_idle);
            if counter(counters::ASLEEP, vcpu)? != 0 && !idles {
                let since = counter(counters::ASLEEP_SINCE, vcpu)?;
                slept_insns = slept_insns.saturating_add(counts.clock_insns.saturating_sub(since));
            }
        }
        let mut before_window_insns = control.get(Word::BeforeWindowInsns);
        if control.get(Word::WindowOpen) == 0 {
            // Everything so far was before the window; the counters are only cleared when it opens.
            before_window_insns = vcpus.iter().map(|vcpu| vcpu.clock_insns).fold(0, u64::saturating_add);
            vcpus.fill(VcpuCounts::default());
            (sleeps, slept_insns) = (0, 0);
        }
        spans.sort_by_key(|span| span.kind);
        let samples = sample::Decoder::new(&samples).collect::<Result<Vec<_>, _>>()?;
        let parts = if is_cut && is_open {
            let slices = match control.get(Word::SliceBytes) {
                0 => Vec::new(),
                _ => stream(StreamFile::Slices)?,
            };
            let rest = |vcpu: usize| {
                let count = |&slot: &u32| Ok((slot, counter(slot, vcpu as u32)? as i64));
                growing.keys().map(count).collect::<Result<_>>()
            };
            let understand = |grown: &Vec<BTreeMap<u32, i64>>| understand(&growing, grown);
            parts::read(&slices, &control, (&vcpus, &samples), rest, understand)?
        } else {
            Parts::default()
        };
        bounds::check(&vcpus, &tasks, &tree, &spans).context("cannot use the plugin's records")?;
        let heap = heap.map(|events| Heap { sites, events, ..Heap::default() });
        if let Some(heap) = &heap {
            heap.check(stacks.len(), tasks.len()).context("cannot use the plugin's records")?;
        }
        let zones = zones.finish();
        bounds::check_zones(&zones).context("cannot use the plugin's records")?;
        Ok(Records {
            control,
            vcpus,
            before_window_insns,
            before_window,
            samples,
            stacks,
            tasks,
            tree,
            console_marks,
            spans,
            heap,
            timeline,
            zones,
            parts,
            half,
            polls,
            notes,
            sleeps,
            slept_insns,
        })
    }
}

/// Subject of a growing counter.
enum Growing {
    Segment { pc: u64, sizes: Vec<u8>, transfer: Option<Transfer> },
    Arc { site: u64, target: u64, return_addr: Option<u64>, kind: TransferKind },
    Task(u32),
    Exception(u64),
}

impl Growing {
    /// Slot and subject of a definition's counter.
    fn of(definition: &Definition) -> Option<(u32, Growing)> {
        Some(match *definition {
            Definition::Segment { slot, pc, ref sizes, transfer } => {
                (slot, Growing::Segment { pc, sizes: sizes.clone(), transfer })
            }
            Definition::Arc { slot, site, target, return_addr, kind } => {
                (slot, Growing::Arc { site, target, return_addr, kind })
            }
            Definition::Row { slot, row: Row::Task { task } } => (slot, Growing::Task(task)),
            Definition::Row { slot, row: Row::Exception { number, .. } } => (slot, Growing::Exception(number)),
            _ => return None,
        })
    }
}

/// Interprets the growth of counters, by vCPU. A counter that has shrunk takes back counts of another: a cut within a
/// block counts its beginning, and that is taken back when the block is over.
fn understand(growing: &BTreeMap<u32, Growing>, grown: &[BTreeMap<u32, i64>]) -> parts::Understood {
    let mut understood = parts::Understood { vcpus: Vec::new(), tasks: BTreeMap::new(), exceptions: BTreeMap::new() };
    for counts in grown {
        let (mut plus, mut minus) = (Builder::default(), Builder::default());
        for (slot, &count) in counts {
            let builder = if count < 0 { &mut minus } else { &mut plus };
            let count = count.unsigned_abs();
            match growing.get(slot) {
                Some(Growing::Segment { pc, sizes, transfer }) => builder.segment(*pc, sizes, *transfer, count),
                Some(&Growing::Arc { site, target, return_addr, kind }) => {
                    builder.arc(site, target, return_addr, kind, count);
                }
                Some(&Growing::Task(task)) => add(understood.tasks.entry(task).or_default(), count),
                Some(&Growing::Exception(number)) => add(understood.exceptions.entry(number).or_default(), count),
                None => {}
            }
        }
        plus.take_back(&minus);
        understood.vcpus.push(plus.finish(0));
    }
    understood
}

/// Adds up several counters of one instruction or arc.
#[derive(Clone, Default)]
struct Builder {
    insns: BTreeMap<(u64, u8), u64>,
    arcs: BTreeMap<(u64, u64, Option<u64>, TransferKind), u64>,
    /// Conditional branches to a function's start (address, address after it, target): their executions, and those of
    /// both successors.
    branches: BTreeMap<(u64, u64, u64), u64>,
}

impl Builder {
    fn segment(&mut self, start: u64, sizes: &[u8], transfer: Option<Transfer>, count: u64) {
        if count == 0 {
            return;
        }
        let mut pc = start;
        let mut last = start;
        for &size in sizes {
            add(self.insns.entry((pc, size)).or_default(), count);
            last = pc;
            pc = pc.wrapping_add(size.into());
        }
        match transfer {
            Some(Transfer { kind: TransferKind::Branch, target }) => {
                add(self.branches.entry((last, pc, target)).or_default(), count);
            }
            Some(Transfer { kind, target }) => {
                let return_addr = (kind == TransferKind::Call).then_some(pc);
                self.arc(last, target, return_addr, kind, count);
            }
            None => {}
        }
    }

    fn arc(&mut self, site: u64, target: u64, return_addr: Option<u64>, kind: TransferKind, count: u64) {
        if count > 0 {
            add(self.arcs.entry((site, target, return_addr, kind)).or_default(), count);
        }
    }

    /// Subtracts another builder's counts.
    fn take_back(&mut self, other: &Builder) {
        fn less<K: Ord>(counts: &mut BTreeMap<K, u64>, other: &BTreeMap<K, u64>) {
            for (key, &count) in other {
                if let Some(sum) = counts.get_mut(key) {
                    *sum = sum.saturating_sub(count);
                }
            }
            counts.retain(|_, count| *count > 0);
        }
        less(&mut self.insns, &other.insns);
        less(&mut self.arcs, &other.arcs);
        less(&mut self.branches, &other.branches);
    }

    fn finish(mut self, clock_insns: u64) -> VcpuCounts {
        for ((site, next, target), count) in std::mem::take(&mut self.branches) {
            // A branch that is not taken falls through; see `TransferKind::Branch`.
            let after = self.insns.range((next, 0)..=(next, u8::MAX)).map(|(_, &count)| count);
            let fell_through = after.fold(0, u64::saturating_add);
            let taken = count.saturating_sub(fell_through);
            self.arc(site, target, None, TransferKind::Jump, taken);
        }
        let insns = self.insns.into_iter().map(|((pc, size_bytes), count)| InsnCount { pc, size_bytes, count });
        let arcs = self.arcs.into_iter().map(|((site, target, return_addr, kind), count)| Arc {
            site,
            target,
            return_addr,
            links: kind == TransferKind::Call,
            count,
        });
        VcpuCounts { clock_insns, insns: insns.collect(), arcs: arcs.collect() }
    }
}

/// Adds without overflow: a sum that overflows exceeds the bounds as well.
fn add(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}

/// Progress of a run, read while the plugin writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Instructions of the window, all vCPUs together; before it has opened, since reset.
    pub insns: u64,
    /// Number of samples.
    pub samples: u64,
    /// Whether the window has opened.
    pub window_open: bool,
}

/// Reads [`Progress`] repeatedly.
#[derive(Debug)]
pub struct Watch {
    control: File,
    counters: File,
}

impl Watch {
    /// Opens the records; None until the plugin has created them.
    pub fn open(directory: &Path) -> Option<Watch> {
        let watch = Watch {
            control: File::open(directory.join("control")).ok()?,
            counters: File::open(directory.join("counters")).ok()?,
        };
        watch.progress().map(|_| watch)
    }

    /// Bytes of the records that grow during the run.
    pub fn recorded_bytes(&self) -> u64 {
        let growing =
            [Word::DefinitionBytes, Word::SampleBytes, Word::HeapBytes, Word::SliceBytes, Word::TimelineBytes];
        let control = self.control();
        growing
            .iter()
            .flat_map(|&word| control.as_ref().map(|control| control.get(word)))
            .fold(0, u64::saturating_add)
    }

    /// Current progress; None: the records are still incomplete.
    pub fn progress(&self) -> Option<Progress> {
        let control = self.control()?;
        let mut insns = 0;
        for vcpu in 0..control.vcpus() {
            // Clock and origin are adjacent and are read at once; between the plugin's two stores they may disagree,
            // until the next look.
            const { assert!(counters::ORIGIN == counters::CLOCK + 1) };
            let mut bytes = [[0; 8]; 2];
            let offset = counters::offset_bytes(counters::CLOCK, vcpu, control.vcpus());
            self.counters.read_exact_at(bytes.as_flattened_mut(), offset).ok()?;
            let [clock, origin] = bytes.map(u64::from_le_bytes);
            insns = u64::wrapping_add(insns, counters::insns(clock, origin));
        }
        Some(Progress { insns, samples: control.get(Word::Samples), window_open: control.get(Word::WindowOpen) == 1 })
    }

    /// Address of the instruction that waits for an interrupt, if it is the last one of `insns` executed.
    pub fn waits_at(&self, insns: u64) -> Option<u64> {
        let control = self.control()?;
        let is_last = control.get(Word::WaitInsns) == insns && insns > 0;
        is_last.then(|| control.get(Word::WaitPc))
    }

    fn control(&self) -> Option<Control> {
        let mut page = [0; control::BYTES];
        self.control.read_exact_at(&mut page, 0).ok()?;
        Control::read(&page).ok()
    }
}
