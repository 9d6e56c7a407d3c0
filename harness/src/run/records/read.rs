// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the plugin's records: the files of the wire format, into counts, arcs and samples.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::mem;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use wire::control::{self, Control, Word};
use wire::counters;
use wire::definition::{
    self, Definition, Doubt, NodeCounter, NoteKind, SpanCounter, SpanKind, TaskCounter, Transfer, TransferKind,
};
use wire::sample::{self, Sample};
use wire::stream::StreamFile;
use wire::zone::Row;

use crate::profile::Timeline;
use crate::profile::bounds;
use crate::profile::heap::{Heap, Site};
use crate::profile::no_progress::DeviceStore;
use crate::profile::part::Parts;
use crate::profile::zone::{ZonePath, Zones};
use crate::profile::{
    Arc, Beyond, Code, Edge, Facts, InTarget, InsnCount, LengthCycles, Names, Node, Note, Overflow, Profile, Span,
    StackFrame, StackLeft, Task, VcpuCounts,
};
use crate::run::records::parts;
use crate::run::records::zones;
use crate::text::number::Hex;

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
    /// Frames of the samples' call stacks.
    pub stacks: Vec<StackFrame>,
    /// Tasks of the firmware's kernel.
    pub tasks: Vec<Task>,
    /// Number of times that a processor would have slept at a `wfe`.
    pub sleeps: u64,
    /// Instructions executed during such sleeps, except those of the kernel's idle tasks.
    pub slept_insns: u64,
    /// Virtual time that the machine slept; None: not known.
    pub slept_ns: Option<u64>,
    /// Instructions in calls of code that waits.
    pub waiting_insns: u64,
    /// Number of such calls whose end is not sure.
    pub waiting_unsure: u64,
    /// The exact call tree.
    pub tree: Vec<Node>,
    /// Pairs of an instruction and the number of bytes printed by then, if recorded.
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
    /// Instructions that stored to devices.
    pub stores: Vec<DeviceStore>,
    /// The firmware's requests to the host.
    pub notes: Vec<Note>,
    /// Counted ways of branches, sorted.
    pub edges: Vec<Edge>,
    /// Cycles beyond the usual ones (fewer, if negative), by the instruction's address.
    pub slower: BTreeMap<u64, Beyond>,
    /// All cycles by the plugin's clock; 0 unless they were asked for.
    pub cycle_clock: u64,
    /// Lowest stack pointer on the stack on which the firmware starts.
    pub main_stack_lowest: Option<u64>,
    /// The first stack that was left and that no kernel describes; without names.
    pub stack_left: Option<StackLeft>,
    /// Exceptions with the group priorities with which they started, sorted.
    pub exception_levels: Vec<(u64, u64)>,
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
    /// The saved model: these counts, with data of the image and of the run, without cycles.
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
            edges,
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
            tables: Vec::new(),
            in_target,
            heap,
            timeline,
            edges,
            cycles: None,
        }
    }

    /// Reads the files in `directory`, after QEMU has ended.
    pub fn read(directory: &Path) -> Result<Records> {
        let files = Files::open(directory)?;
        let definitions = files.stream(StreamFile::Definitions)?;
        let samples = files.stream(StreamFile::Samples)?;
        let heap = files.optional(StreamFile::Heap)?;
        let timeline = files.optional(StreamFile::Timeline)?.map(|events| Timeline { events, ..Timeline::default() });
        let counters = Counters::read(&files)?;

        let mut defined = Defined::read(&files.control, &counters, &definitions)?;
        let mut vcpus = defined.finish_vcpus()?;
        let half = defined.finish_half();
        defined.finish_tasks(&vcpus)?;
        defined.finish_tree(&vcpus)?;
        let (mut sleeps, mut slept_insns, slept_ns) = defined.sleeps(&vcpus)?;
        let mut before_window_insns = files.control.get(Word::BeforeWindowInsns);
        if !defined.is_open {
            // If the window has not opened, all instructions so far were before it: the counters are cleared when it
            // opens.
            before_window_insns = vcpus.iter().map(|vcpu| vcpu.clock_insns).fold(0, u64::saturating_add);
            (vcpus, sleeps, slept_insns) = (vec![VcpuCounts::default(); vcpus.len()], 0, 0);
        }
        let samples = sample::Decoder::new(&samples).collect::<Result<Vec<_>, _>>()?;
        let parts = defined.parts(&files, &vcpus, &samples)?;

        let Defined {
            stacks,
            tasks,
            tree,
            sites,
            mut spans,
            zones,
            before_window,
            console_marks,
            polls,
            stores,
            notes,
            stack_left,
            levels,
            mut edges,
            slower,
            cycle_clock,
            ..
        } = defined;
        edges.sort();
        bounds::check_edges(&edges).context("cannot use the plugin's records")?;
        spans.sort_by_key(|span| span.kind);
        bounds::check(&vcpus, &tasks, &tree, &spans).context("cannot use the plugin's records")?;
        let heap = heap.map(|events| Heap { sites, events, ..Heap::default() });
        let checked = heap.as_ref().map_or(Ok(()), |heap| heap.check(stacks.len(), tasks.len()));
        checked.context("cannot use the plugin's records")?;
        let (waiting_insns, waiting_unsure) = (zones.waiting_insns, zones.waiting_unsure);
        let zones = zones.finish();
        bounds::check_zones(&zones).context("cannot use the plugin's records")?;
        Ok(Records {
            control: files.control,
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
            stores,
            notes,
            edges,
            slower,
            cycle_clock,
            sleeps,
            slept_insns,
            slept_ns,
            waiting_insns,
            waiting_unsure,
            main_stack_lowest: counters.highest(counters::MAIN_DEPTH)?.map(u64::wrapping_neg),
            stack_left,
            exception_levels: levels.into_iter().collect(),
        })
    }
}

/// Files of the records.
struct Files<'a> {
    directory: &'a Path,
    control: Control,
}

impl<'a> Files<'a> {
    /// The files in `directory`, with `control` read.
    fn open(directory: &'a Path) -> Result<Files<'a>> {
        let path = directory.join("control");
        let control = fs::read(&path).with_context(|| unreadable(&path))?;
        Ok(Files { directory, control: Control::read(&control)? })
    }

    /// Recorded bytes of a stream. The rest of its file is only reserved, a megabyte and more.
    fn stream(&self, stream: StreamFile) -> Result<Vec<u8>> {
        let path = self.directory.join(stream.name());
        let bytes = self.control.get(stream.length());
        let mut read = Vec::new();
        let file = File::open(&path).and_then(|file| file.take(bytes).read_to_end(&mut read));
        file.with_context(|| unreadable(&path))?;
        ensure!(read.len() as u64 == bytes, "the plugin's records are cut short");
        Ok(read)
    }

    /// Recorded bytes of a stream; None: the run was not asked for it.
    fn optional(&self, stream: StreamFile) -> Result<Option<Vec<u8>>> {
        self.directory.join(stream.name()).exists().then(|| self.stream(stream)).transpose()
    }
}

/// Message about a file of the records.
fn unreadable(path: &Path) -> String {
    format!("cannot read the plugin's records in {}", path.display())
}

/// The counters, at three moments of the run.
struct Counters {
    vcpus: u32,
    /// At the end of the run.
    end: Vec<u8>,
    /// When the window opened; empty if they were not kept.
    open: Vec<u8>,
    /// In the middle of the window; empty if its length was not known.
    half: Vec<u8>,
}

impl Counters {
    fn read(files: &Files<'_>) -> Result<Counters> {
        let path = files.directory.join("counters");
        Ok(Counters {
            vcpus: files.control.vcpus(),
            end: fs::read(&path).with_context(|| unreadable(&path))?,
            open: fs::read(files.directory.join(wire::COUNTERS_OPEN)).unwrap_or_default(),
            half: fs::read(files.directory.join(wire::COUNTERS_HALF)).unwrap_or_default(),
        })
    }

    /// Value at the end of the run.
    fn end(&self, slot: u32, vcpu: u32) -> Result<u64> {
        counters::get(&self.end, slot, vcpu, self.vcpus).context("the plugin's counters are cut short")
    }

    /// Sum over the vCPUs. A sum that overflows also exceeds the bounds, which are checked after reading.
    fn sum(&self, slot: u32) -> Result<u64> {
        (0..self.vcpus).try_fold(0_u64, |sum, vcpu| Ok(sum.saturating_add(self.end(slot, vcpu)?)))
    }

    /// Highest value of the vCPUs, if it is not 0.
    fn highest(&self, slot: u32) -> Result<Option<u64>> {
        let values = (0..self.vcpus).map(|vcpu| self.end(slot, vcpu));
        Ok(values.collect::<Result<Vec<_>>>()?.into_iter().max().filter(|&value| value != 0))
    }

    /// Index at the end of the run: the counter holds the index plus 1; None: the counter is 0.
    fn index(&self, slot: u32, vcpu: u32) -> Result<Option<usize>> {
        Ok((self.end(slot, vcpu)? as usize).checked_sub(1))
    }

    /// Sum over the vCPUs when the window opened. A counter that was defined later counts as 0.
    fn sum_at_open(&self, slot: u32) -> u64 {
        let counts = (0..self.vcpus).filter_map(|vcpu| counters::get(&self.open, slot, vcpu, self.vcpus));
        counts.fold(0, u64::saturating_add)
    }

    /// Value in the middle of the window. A counter that was defined later counts as 0.
    fn half(&self, slot: u32, vcpu: u32) -> u64 {
        counters::get(&self.half, slot, vcpu, self.vcpus).unwrap_or(0)
    }
}

/// Definitions read so far, with the values of their counters.
struct Defined<'a> {
    counters: &'a Counters,
    /// Whether the window has opened.
    is_open: bool,
    /// Whether the run is cut into phases or slices.
    is_cut: bool,
    builders: Vec<Builder>,
    half_builders: Vec<Builder>,
    before_window: BTreeMap<u64, u64>,
    stacks: Vec<StackFrame>,
    stack_left: Option<StackLeft>,
    tasks: Vec<Task>,
    tree: Vec<Node>,
    sites: Vec<Site>,
    spans: Vec<Span>,
    zones: zones::Builder,
    console_marks: Vec<(u64, u64)>,
    polls: Vec<Poll>,
    stores: Vec<DeviceStore>,
    notes: Vec<Note>,
    levels: BTreeSet<(u64, u64)>,
    edges: Vec<Edge>,
    slower: BTreeMap<u64, Beyond>,
    cycle_clock: u64,
    slept_ns: Option<u64>,
    /// Subjects of the counters that slices and phases count, by slot.
    growing: BTreeMap<u32, Growing>,
}

impl<'a> Defined<'a> {
    fn read(control: &Control, counters: &'a Counters, definitions: &[u8]) -> Result<Defined<'a>> {
        let mut defined = Defined::new(control, counters);
        for definition in definition::Decoder::new(definitions) {
            defined.take(definition?)?;
        }
        Ok(defined)
    }

    fn new(control: &Control, counters: &'a Counters) -> Defined<'a> {
        let vcpus = counters.vcpus as usize;
        Defined {
            counters,
            is_open: control.get(Word::WindowOpen) == 1,
            is_cut: control.get(Word::SliceBytes) > 0 || control.get(Word::Phase) != 0,
            builders: vec![Builder::default(); vcpus],
            half_builders: vec![Builder::default(); if counters.half.is_empty() { 0 } else { vcpus }],
            before_window: BTreeMap::new(),
            stacks: Vec::new(),
            stack_left: None,
            tasks: Vec::new(),
            tree: Vec::new(),
            sites: Vec::new(),
            spans: Vec::new(),
            zones: zones::Builder::default(),
            console_marks: Vec::new(),
            polls: Vec::new(),
            stores: Vec::new(),
            notes: Vec::new(),
            levels: BTreeSet::new(),
            edges: Vec::new(),
            slower: BTreeMap::new(),
            cycle_clock: 0,
            slept_ns: None,
            growing: BTreeMap::new(),
        }
    }

    /// Takes the next definition.
    fn take(&mut self, definition: Definition) -> Result<()> {
        if let Some((slot, subject)) = Growing::of(&definition).filter(|_| self.is_cut) {
            self.growing.insert(slot, subject);
        }
        let counters = self.counters;
        match definition {
            Definition::Segment { slot, pc, sizes, transfer } => {
                self.count(slot, |builder, count| builder.segment(pc, &sizes, transfer, count))?;
                self.count_before_window(slot, pc, &sizes);
            }
            Definition::Arc { slot, site, target, return_addr, kind } => {
                self.count(slot, |builder, count| builder.arc(site, target, return_addr, kind, count))?;
            }
            Definition::Frame { parent, kind } => self.stacks.push(StackFrame { parent, kind }),
            Definition::Task { slot, tcb, name, stack_start, stack_end, is_idle, poll } => {
                let [stack_start, stack_end, poll] =
                    [stack_start, stack_end, poll].map(|address| (address != 0).then_some(address));
                self.tasks.push(Task { name, tcb, stack_start, stack_end, is_idle, poll, ..self.counted(slot)? });
            }
            Definition::Overflow { task, pc, sp, at_insns, is_first } => {
                if let Some(task) = self.defined_task(task) {
                    // Below the stack, it was not taken for the task's.
                    task.deepest_sp = Some(task.deepest_sp.map_or(sp, |deepest| deepest.min(sp)));
                    task.overflow = Some(Overflow { pc: (pc != 0).then_some(pc), sp, at_insns, is_first });
                }
            }
            Definition::StackLeft { pc, sp, low, top, at_insns, is_first, is_heap } => {
                let overflow = Overflow { pc: Some(pc), sp, at_insns, is_first };
                let bytes = top.checked_sub(low);
                let reached = is_heap.then(|| format!("into the heap, which ends at {}", Hex(low)));
                let left = StackLeft { overflow, low, bytes, variable: None, is_heap, reached };
                self.stack_left.get_or_insert(left);
            }
            Definition::Idle { task } => {
                if let Some(task) = self.defined_task(task) {
                    task.is_idle = true;
                }
            }
            Definition::Node { slot, parent, kind, via } => self.tree.push(Node {
                parent,
                kind,
                via: Some(via).filter(|&via| via != 0),
                insns: counters.sum(slot + NodeCounter::Insns as u32)?,
                calls: counters.sum(slot + NodeCounter::Calls as u32)?,
                cycles: counters.sum(slot + NodeCounter::Cycles as u32)?,
            }),
            Definition::Poll { pc, address, value, since_insns, times } => {
                self.polls.push(Poll { pc, address, value, since_insns, times });
            }
            Definition::Written { pc, address, last_insns, changed_insns } => {
                self.stores.push(DeviceStore { pc, address, last_insns, changed_insns });
            }
            Definition::Mark { at_insns, bytes } => self.console_marks.push((at_insns, bytes)),
            Definition::Span { slot, kind } => self.span(slot, kind)?,
            Definition::Edge { slot, site, target } if self.is_open => {
                self.edges.push(Edge { site, target, count: counters.sum(slot)? });
            }
            Definition::Edge { .. } => {}
            cycles @ (Definition::Slower { .. } | Definition::Passage { .. } | Definition::CycleClock { .. }) => {
                self.take_cycles(cycles)?;
            }
            Definition::Slept { slot } => self.slept_ns = Some(if self.is_open { counters.sum(slot)? } else { 0 }),
            Definition::Site { entry, stack, task } => self.sites.push(Site { entry, stack, task }),
            Definition::Row { slot, row } if self.is_open => {
                self.zones.row((slot, row), counters.vcpus, |slot, vcpu| counters.end(slot, vcpu))?;
            }
            Definition::Row { .. } => {}
            Definition::ZoneName { text } => self.zones.name(text),
            Definition::ZonePath { parent, name, pc } => self.zones.path(ZonePath { parent, name, pc }),
            Definition::Priority { number, level } => {
                self.levels.insert((number, level));
            }
            Definition::Note { kind, operation, pc, text } => {
                let unread = kind == NoteKind::Unread;
                self.notes.push(Note { unread, denied: unread || kind == NoteKind::Denied, operation, pc, text });
            }
        }
        Ok(())
    }

    /// Takes a counter of cycles; nothing before the window opens.
    fn take_cycles(&mut self, definition: Definition) -> Result<()> {
        let sum = |slot| Ok::<_, anyhow::Error>(if self.is_open { self.counters.sum(slot)? } else { 0 });
        let times = |slot| Ok::<_, anyhow::Error>(i64::try_from(sum(slot)?).unwrap_or(i64::MAX));
        match definition {
            Definition::Slower { slot, pc, cycles, doubt } => {
                let times = times(slot)?;
                self.slower.entry(pc).or_default().add(times, cycles, doubt);
            }
            Definition::Passage { slot, pc, sizes, cycles, doubts } => {
                let times = times(slot)?;
                passage(&mut self.slower, pc, &sizes, (&cycles, &doubts), times);
            }
            Definition::CycleClock { slot } => {
                let sum = sum(slot)?;
                add(&mut self.cycle_clock, sum);
            }
            _ => {}
        }
        Ok(())
    }

    /// A task's counters, without the rest.
    fn counted(&self, slot: u32) -> Result<Task> {
        let counters = self.counters;
        Ok(Task {
            insns: counters.sum(slot + TaskCounter::Insns as u32)?,
            switches: counters.sum(slot + TaskCounter::Switches as u32)?,
            deepest_sp: counters.highest(slot + TaskCounter::DeepestSp as u32)?.map(u64::wrapping_neg),
            highest_sp: counters.highest(slot + TaskCounter::HighestSp as u32)?,
            painted_bytes: counters.highest(slot + TaskCounter::Painted as u32)?.map(|bytes| bytes - 1),
            slept_ns: counters.sum(slot + TaskCounter::SleptNs as u32)?,
            ahead_ns: counters.sum(slot + TaskCounter::AheadNs as u32)?,
            ..Task::default()
        })
    }

    /// A task that was defined before.
    fn defined_task(&mut self, task: u32) -> Option<&mut Task> {
        self.tasks.get_mut((task as usize).checked_sub(1)?)
    }

    /// Adds a counter, at the end of the run and in the middle of the window.
    fn count(&mut self, slot: u32, add: impl Fn(&mut Builder, u64)) -> Result<()> {
        for (vcpu, builder) in (0..).zip(&mut self.builders) {
            add(builder, self.counters.end(slot, vcpu)?);
        }
        for (vcpu, builder) in (0..).zip(&mut self.half_builders) {
            add(builder, self.counters.half(slot, vcpu));
        }
        Ok(())
    }

    /// Adds a segment's executions before the window.
    fn count_before_window(&mut self, slot: u32, start: u64, sizes: &[u8]) {
        let before = self.counters.sum_at_open(slot);
        let mut pc = start;
        for &size in sizes.iter().filter(|_| before > 0) {
            add(self.before_window.entry(pc).or_default(), before);
            pc = pc.wrapping_add(size.into());
        }
    }

    /// Adds a span. A requested span is listed even if it never occurred. Other empty spans were only defined before
    /// the window, and are left out.
    fn span(&mut self, slot: u32, kind: SpanKind) -> Result<()> {
        let mut span = Span::none(kind);
        for vcpu in (0..self.counters.vcpus).filter(|_| self.is_open) {
            let counter = |of: SpanCounter| self.counters.end(slot + of as u32, vcpu);
            span.add(Span {
                kind,
                count: counter(SpanCounter::Count)?,
                min_insns: !counter(SpanCounter::MinComplement)?,
                max_insns: counter(SpanCounter::Max)?,
                sum_insns: counter(SpanCounter::Sum)?,
                longest_at: counter(SpanCounter::LongestAt)?,
                longest_since_insns: counter(SpanCounter::LongestSince)?,
                cycles: LengthCycles {
                    // Without cycles the complement is 0, too.
                    min: Some(counter(SpanCounter::MinCyclesComplement)?).filter(|&is| is > 0).map_or(0, |is| !is),
                    max: counter(SpanCounter::MaxCycles)?,
                    sum: counter(SpanCounter::SumCycles)?,
                },
            });
        }
        if span.count > 0 || matches!(kind, SpanKind::Between { .. }) {
            self.spans.push(span);
        }
        Ok(())
    }

    /// Counts by vCPU at the end of the run.
    fn finish_vcpus(&mut self) -> Result<Vec<VcpuCounts>> {
        let end = |slot, vcpu| self.counters.end(slot, vcpu);
        let finished = (0..).zip(mem::take(&mut self.builders)).map(|(vcpu, builder)| {
            Ok(builder.finish(counters::insns(end(counters::CLOCK, vcpu)?, end(counters::ORIGIN, vcpu)?)))
        });
        finished.collect()
    }

    /// Counts by vCPU in the middle of the window.
    fn finish_half(&mut self) -> Vec<VcpuCounts> {
        let half = |slot, vcpu| self.counters.half(slot, vcpu);
        let finished = (0..).zip(mem::take(&mut self.half_builders)).map(|(vcpu, builder)| {
            builder.finish(counters::insns(half(counters::CLOCK, vcpu), half(counters::ORIGIN, vcpu)))
        });
        finished.collect()
    }

    /// Adds the instructions of each vCPU's last task, which has not been switched out.
    fn finish_tasks(&mut self, vcpus: &[VcpuCounts]) -> Result<()> {
        for (vcpu, counts) in (0..).zip(vcpus) {
            let last = self.counters.index(counters::TASK, vcpu)?;
            if let Some(task) = last.and_then(|index| self.tasks.get_mut(index)) {
                let since = self.counters.end(counters::TASK_SINCE, vcpu)?;
                add(&mut task.insns, counts.clock_insns.saturating_sub(since));
            }
        }
        Ok(())
    }

    /// Adds the time of the call tree's last node. The tree is only kept for a single vCPU.
    fn finish_tree(&mut self, vcpus: &[VcpuCounts]) -> Result<()> {
        let attributed = self.tree.iter().map(|node| node.insns).fold(0, u64::saturating_add);
        let attributed_cycles = self.tree.iter().map(|node| node.cycles).fold(0, u64::saturating_add);
        let last = self.counters.index(counters::NODE, 0)?;
        if let (Some(node), [counts]) = (last.and_then(|index| self.tree.get_mut(index)), vcpus) {
            add(&mut node.insns, counts.clock_insns.saturating_sub(attributed));
            add(&mut node.cycles, self.cycle_clock.saturating_sub(attributed_cycles));
        }
        Ok(())
    }

    /// Number of sleeps, their instructions, and the time of all waits. A sleep at the end of the run has not ended.
    fn sleeps(&self, vcpus: &[VcpuCounts]) -> Result<(u64, u64, Option<u64>)> {
        let (sleeps, mut slept_insns) = (self.counters.sum(counters::SLEEPS)?, self.counters.sum(counters::SLEPT)?);
        for (vcpu, counts) in (0..).zip(vcpus) {
            let task = self.counters.index(counters::TASK, vcpu)?.and_then(|index| self.tasks.get(index));
            let idles = task.is_some_and(|task| task.is_idle);
            if self.counters.end(counters::ASLEEP, vcpu)? != 0 && !idles {
                let since = self.counters.end(counters::ASLEEP_SINCE, vcpu)?;
                add(&mut slept_insns, counts.clock_insns.saturating_sub(since));
            }
        }
        Ok((sleeps, slept_insns, self.slept_ns))
    }

    /// Phases and slices of a run that is cut.
    fn parts(&self, files: &Files<'_>, vcpus: &[VcpuCounts], samples: &[Sample]) -> Result<Parts> {
        if !self.is_cut || !self.is_open {
            return Ok(Parts::default());
        }
        let slices = match files.control.get(Word::SliceBytes) {
            0 => Vec::new(),
            _ => files.stream(StreamFile::Slices)?,
        };
        let rest = |vcpu: usize| {
            let count = |&slot: &u32| Ok((slot, self.counters.end(slot, vcpu as u32)? as i64));
            self.growing.keys().map(count).collect::<Result<_>>()
        };
        let understand = |grown: &Vec<BTreeMap<u32, i64>>| understand(&self.growing, grown);
        parts::read(&slices, &files.control, (vcpus, samples), rest, understand)
    }
}

/// Subject of a growing counter.
enum Growing {
    Segment { pc: u64, sizes: Vec<u8>, transfer: Option<Transfer> },
    Arc { site: u64, target: u64, return_addr: Option<u64>, kind: TransferKind },
    Task(u32),
    Exception(u64),
    ExceptionCycles(u64),
    Waiting,
    Slower { pc: u64, cycles: i64, doubt: Doubt },
    Passage { pc: u64, sizes: Vec<u8>, cycles: Vec<u64>, doubts: Vec<Doubt> },
    CycleClock,
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
            Definition::Row { slot, row: Row::ExceptionCycles { number } } => {
                (slot, Growing::ExceptionCycles(number))
            }
            Definition::Row { slot, row: Row::Waiting } => (slot, Growing::Waiting),
            Definition::Slower { slot, pc, cycles, doubt } => (slot, Growing::Slower { pc, cycles, doubt }),
            Definition::Passage { slot, pc, ref sizes, ref cycles, ref doubts } => {
                let (sizes, cycles, doubts) = (sizes.clone(), cycles.clone(), doubts.clone());
                (slot, Growing::Passage { pc, sizes, cycles, doubts })
            }
            Definition::CycleClock { slot } => (slot, Growing::CycleClock),
            _ => return None,
        })
    }
}

/// Adds the cycles of passages through straight-line code.
fn passage(
    sums: &mut BTreeMap<u64, Beyond>,
    mut pc: u64,
    sizes: &[u8],
    (cycles, doubts): (&[u64], &[Doubt]),
    times: i64,
) {
    let doubts = doubts.iter().copied().chain(std::iter::repeat(Doubt::default()));
    for ((&size, &cycles), doubt) in sizes.iter().zip(cycles).zip(doubts) {
        sums.entry(pc).or_default().add(times, i64::try_from(cycles).unwrap_or(i64::MAX), doubt);
        pc = pc.wrapping_add(size.into());
    }
}

/// Interprets the growth of counters, by vCPU. A counter that has shrunk takes back counts of another counter: a cut
/// within a block counts the block's beginning, and these counts are taken back when the block is over.
fn understand(growing: &BTreeMap<u32, Growing>, grown: &[BTreeMap<u32, i64>]) -> parts::Understood {
    let mut understood = parts::Understood::default();
    for counts in grown {
        let (mut plus, mut minus) = (Builder::default(), Builder::default());
        for (slot, &count) in counts {
            if let Some(&Growing::Slower { pc, cycles, doubt }) = growing.get(slot) {
                understood.slower.entry(pc).or_default().add(count, cycles, doubt);
            }
            if let Some(Growing::Passage { pc, sizes, cycles, doubts }) = growing.get(slot) {
                passage(&mut understood.slower, *pc, sizes, (cycles, doubts), count);
            }
            let builder = if count < 0 { &mut minus } else { &mut plus };
            let count = count.unsigned_abs();
            match growing.get(slot) {
                Some(Growing::Segment { pc, sizes, transfer }) => builder.segment(*pc, sizes, *transfer, count),
                Some(&Growing::Arc { site, target, return_addr, kind }) => {
                    builder.arc(site, target, return_addr, kind, count);
                }
                Some(&Growing::Task(task)) => add(understood.tasks.entry(task).or_default(), count),
                Some(&Growing::Exception(number)) => add(understood.exceptions.entry(number).or_default(), count),
                Some(&Growing::ExceptionCycles(number)) => {
                    add(understood.exception_cycles.entry(number).or_default(), count);
                }
                Some(Growing::Waiting) => add(&mut understood.called_insns, count),
                Some(Growing::CycleClock) => add(&mut understood.cycles, count),
                Some(Growing::Slower { .. } | Growing::Passage { .. }) | None => {}
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
        for ((site, next, target), count) in mem::take(&mut self.branches) {
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

/// Adds without overflow: a sum that overflows also exceeds the bounds.
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

    /// Bytes of the records that grow during the run, as far as the work after it takes time for them.
    pub fn recorded_bytes(&self) -> u64 {
        self.control().as_ref().map_or(0, recorded_bytes)
    }

    /// Current progress; None: the records are still incomplete.
    pub fn progress(&self) -> Option<Progress> {
        let control = self.control()?;
        let mut insns = 0;
        for vcpu in 0..control.vcpus() {
            // Clock and origin are adjacent and are read at once. Between the plugin's two stores they may disagree;
            // the next read corrects that.
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

/// Bytes of samples and events whose work after the run takes as long as that of a byte of definitions: functions and
/// call paths are named, sorted and drawn. A chain of 100,000 functions with `--exact` took 14 s of CPU time in all.
const DEFINITION_WEIGHT: u64 = 10;

/// See [`Watch::recorded_bytes`].
fn recorded_bytes(control: &Control) -> u64 {
    let events = [Word::SampleBytes, Word::HeapBytes, Word::SliceBytes, Word::TimelineBytes];
    let definitions = control.get(Word::DefinitionBytes).saturating_mul(DEFINITION_WEIGHT);
    events.iter().map(|&word| control.get(word)).fold(definitions, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_take_more_time_than_as_many_bytes_of_events() {
        let words = [(Word::Magic, wire::MAGIC), (Word::Version, wire::VERSION), (Word::Vcpus, 1)];
        let recorded = |counted: &[(Word, u64)]| {
            let mut page = vec![0; control::BYTES];
            for &(word, value) in words.iter().chain(counted) {
                page[word as usize * 8..][..8].copy_from_slice(&value.to_le_bytes());
            }
            recorded_bytes(&Control::read(&page).unwrap())
        };
        assert_eq!(recorded(&[]), 0);
        assert_eq!(recorded(&[(Word::SampleBytes, 5), (Word::TimelineBytes, 7), (Word::HeapBytes, 1)]), 13);
        assert_eq!(recorded(&[(Word::DefinitionBytes, 100), (Word::SampleBytes, 5)]), 1005);
        assert_eq!(recorded(&[(Word::DefinitionBytes, u64::MAX), (Word::SampleBytes, 5)]), u64::MAX);
    }
}
