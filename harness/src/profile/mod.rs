// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saved profile: the source of every report and export.
//!
//! A profile holds addresses and counts, the names of those addresses in the firmware (so that a profile can be read
//! without its ELF), and the facts of the run. Every count is exact; samples are in time order. The same run gives
//! the same bytes: everything is sorted, and no path, date or host is included.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use wire::counters::FIRST_DEFINED;
pub use wire::definition::SpanKind;
use wire::definition::{self, Definition, Doubt, FrameKind, NodeKind};
use wire::sample::{Decoder, Encoder, Sample};

use crate::text::number::mean;

pub(crate) mod bounds;
mod facts;
pub mod files;
pub mod heap;
pub mod in_target;
pub mod input;
mod names;
pub mod no_progress;
pub mod outside;
pub mod part;
#[cfg(test)]
pub(crate) mod testing;
pub mod timeline_events;
mod waiting;
pub mod zone;

pub use facts::{
    Access, Chip, ChipRule, DEFAULT_AVR_FOR_INSNS, DEFAULT_FOR_INSNS, End, Facts, GenericSpan, LeftStack, Note,
    Sizes, StackLeft, Stub, Tricks, Unmodelled, Window,
};
pub use files::FILE_NAME;
pub use heap::Heap;
pub use in_target::InTarget;
pub use names::{Alias, Frame, Function, LineCode, Names, Place};
pub use part::Parts;
pub use timeline_events::Timeline;
pub use waiting::{Waiting, WaitingCode};
pub use zone::Zones;

const MAGIC: &[u8; 8] = b"fwprof\x1e\n";

/// Reason why a profile cannot be read that another build has saved.
const OF_ANOTHER_VERSION: &str = "it was saved by another version of harness; run the firmware again with this one";

/// Measurements of one run of one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Inputs, settings and end of the run.
    pub facts: Facts,
    /// Exact counts, one entry per vCPU.
    pub vcpus: Vec<VcpuCounts>,
    /// All samples in the order in which they were taken.
    pub samples: Vec<Sample>,
    /// Call stacks of the samples, as a tree: stacks with the same outer frames share them. A sample's `stack` n is
    /// `stacks[n - 1]`, its innermost caller.
    pub stacks: Vec<StackFrame>,
    /// Tasks of the firmware's kernel in the order in which they first ran. A sample's `task` n is
    /// `tasks[n - 1]`.
    pub tasks: Vec<Task>,
    /// The exact call tree; empty unless asked for. A sample's `node` n is `tree[n - 1]`.
    pub tree: Vec<Node>,
    /// Instructions of the window, with the bytes of console output by then, both increasing. The last pair is the
    /// run's end. Empty unless asked for.
    pub console_marks: Vec<(u64, u64)>,
    /// Durations by kind, sorted: the spans that `--exact` follows and those of `--span`.
    pub spans: Vec<Span>,
    /// Zones, phases and marks of the firmware; empty without any.
    pub zones: Zones,
    /// Phases and slices of the run; empty without any.
    pub parts: Parts,
    /// Requests of the firmware to the host.
    pub notes: Vec<Note>,
    /// Names of the addresses.
    pub names: Names,
    /// Code of the image by address. The pieces do not overlap. Data between functions is left out, as far as the
    /// symbol table tells it from code.
    pub code: Vec<Code>,
    /// Tables of the jumps that executed, by the jump, as far as the image tells them.
    pub tables: Vec<JumpTable>,
    /// Counts that the firmware made itself, if it links the in-target runtime.
    pub in_target: Option<InTarget>,
    /// Allocations and frees, if asked for.
    pub heap: Option<Heap>,
    /// Events with their instructions, if asked for.
    pub timeline: Option<Timeline>,
    /// Counted ways of branches, taken or not, sorted; empty unless asked for.
    pub edges: Vec<Edge>,
    /// Cycles of the processor, if asked for.
    pub cycles: Option<Cycles>,
}

/// Cycles of the processor, all vCPUs together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycles {
    /// Core whose cycles they are: its name, and for a file the beginning of its SHA-256; None: they are those of an AVR.
    pub core: Option<String>,
    /// Cycles that were a second for the machine's clock; None: it counted instructions.
    pub clock_hz: Option<u64>,
    /// Cycles by the plugin's clock, which is counted independently of `insns` and equals their sum.
    pub clock: u64,
    /// Cycles of each instruction, sorted by address.
    pub insns: Vec<InsnCycles>,
    /// Addresses of executed instructions whose cycles are not known, sorted. Their executions are in no sum.
    pub unknown: Vec<u64>,
}

/// Cycles beyond the usual ones, of an instruction's executions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beyond {
    /// Cycles more; fewer, if negative.
    pub cycles: i64,
    /// Cycles by which this may be too many.
    pub fewer: i64,
    /// Cycles by which this may be too few.
    pub more: i64,
}

impl Beyond {
    /// Adds executions that took so many cycles each, fewer or more by a doubt.
    pub fn add(&mut self, times: i64, cycles: i64, doubt: Doubt) {
        let sum = |sum: i64, each: i64| sum.saturating_add(times.saturating_mul(each));
        let of = |cycles: u64| i64::try_from(cycles).unwrap_or(i64::MAX);
        *self = Beyond {
            cycles: sum(self.cycles, cycles),
            fewer: sum(self.fewer, of(doubt.fewer)),
            more: sum(self.more, of(doubt.more)),
        };
    }

    /// Adds others.
    pub fn plus(&mut self, other: Beyond) {
        self.cycles = self.cycles.saturating_add(other.cycles);
        self.fewer = self.fewer.saturating_add(other.fewer);
        self.more = self.more.saturating_add(other.more);
    }
}

/// Cycles that all executions of one instruction took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InsnCycles {
    /// Address of the instruction.
    pub pc: u64,
    /// Cycles that one execution usually takes.
    pub usual: u8,
    /// Sum over its executions.
    pub cycles: u64,
    /// Cycles by which the sum may be too many, where the core's pipeline is known to an interval only.
    pub fewer: u64,
    /// Cycles by which it may be too few.
    pub more: u64,
}

/// Cycles of something that happened several times; 0 unless cycles were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LengthCycles {
    /// Least cycles of a time, not necessarily that of the least instructions.
    pub min: u64,
    /// Most cycles of a time.
    pub max: u64,
    /// Cycles of all times together.
    pub sum: u64,
}

impl LengthCycles {
    /// Adds the cycles of other times; `is_first`: there were none so far.
    pub(crate) fn add(&mut self, other: LengthCycles, is_first: bool) {
        self.min = if is_first { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.sum = self.sum.saturating_add(other.sum);
    }
}

/// Times that control went from a branch to an address, counted on the way. All vCPUs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Edge {
    /// Address of the conditional branch, or of the jump through a table or register.
    pub site: u64,
    /// Address that control went to.
    pub target: u64,
    /// Number of times.
    pub count: u64,
}

/// Table that a jump reads its target from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JumpTable {
    /// Address of the jump.
    pub site: u64,
    /// Targets, sorted, reached or not.
    pub targets: Vec<u64>,
}

/// Frame of a call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackFrame {
    /// Number of the next outer frame, 0: none.
    pub parent: u32,
    /// Caller, exception, or reason why the rest of the stack is not known.
    pub kind: FrameKind,
}

/// A task of the firmware's kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Name that the firmware gave it; empty if none could be read.
    pub name: String,
    /// Address of its control block; a later task may reuse a deleted task's.
    pub tcb: u64,
    /// Lowest address of its stack, when known.
    pub stack_start: Option<u64>,
    /// Address above its stack, when known.
    pub stack_end: Option<u64>,
    /// Whether the task is one of the kernel's idle tasks.
    pub is_idle: bool,
    /// First address of the function that is called to resume the task, if it has no stack of its own.
    pub poll: Option<u64>,
    /// Instructions while it was the running task, including interrupts during that time. Exact.
    pub insns: u64,
    /// Times that it was switched in, or polled. Exact.
    pub switches: u64,
    /// Lowest stack pointer seen while it ran.
    pub deepest_sp: Option<u64>,
    /// Highest stack pointer seen while it ran, if the end of its stack is known: above it are the kernel's own bytes.
    pub highest_sp: Option<u64>,
    /// Bytes at the low end of its stack that still hold the kernel's paint when the task, or the run, ended.
    pub painted_bytes: Option<u64>,
    /// Virtual time in nanoseconds that the machine slept while it was the running task, if that is known at all.
    pub slept_ns: u64,
    /// Nanoseconds by which the machine's clock moved on beyond the instructions while it was the running task.
    pub ahead_ns: u64,
    /// The first time that its stack pointer was below its stack.
    pub overflow: Option<Overflow>,
}

/// A stack pointer below its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overflow {
    /// Address of the instruction that took it there, or at which this was noticed, if it is known.
    pub pc: Option<u64>,
    /// The stack pointer.
    pub sp: u64,
    /// Instructions of the window so far.
    pub at_insns: u64,
    /// Whether the instruction was seen. Otherwise a kernel saved the stack pointer at a switch of tasks, or a sample was taken
    /// there.
    pub is_first: bool,
}

impl Task {
    /// Size of its stack; None if the kernel does not keep the stack's end. A guess from the memory above it could be
    /// wrong, so none is made.
    pub fn stack_bytes(&self) -> Option<u64> {
        self.stack_end?.checked_sub(self.stack_start?)
    }

    /// Most bytes of its stack that were seen in use.
    pub fn used_stack_bytes(&self) -> Option<u64> {
        Some(self.stack_end?.saturating_sub(self.deepest_sp?))
    }
}

/// Node of the exact call tree: a function reached over one path of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Number of the caller's node, 0: none.
    pub parent: u32,
    /// Function, exception, or root of a task.
    pub kind: NodeKind,
    /// An address in the caller at which the functions are inlined that made the call. None: the caller itself did, or
    /// it is not told.
    pub via: Option<u64>,
    /// Instructions in this function and not in one that it called.
    pub insns: u64,
    /// Entries.
    pub calls: u64,
    /// Cycles of its instructions; 0 unless cycles were asked for.
    pub cycles: u64,
}

/// Durations of one repeated activity. Exact. Spans that began before the window opened, or had not ended with the
/// run, are not included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Activity that was measured: calls of a function, an exception, a masked stretch, …
    pub kind: SpanKind,
    /// Number of spans.
    pub count: u64,
    /// Instructions of the shortest span; 0 without spans.
    pub min_insns: u64,
    /// Instructions of the longest span, the first of equal ones.
    pub max_insns: u64,
    /// Instructions of all spans together.
    pub sum_insns: u64,
    /// Address of the instruction with which the longest span began: the first of the function, of the handler, or of
    /// `--span`'s place; the one that masked interrupts; the store that pended PendSV.
    pub longest_at: u64,
    /// Instructions that the vCPU had started in the window before the longest span; the next one was its first. For
    /// masked interrupts and a pended PendSV, `longest_at` may be the last instruction before it.
    pub longest_since_insns: u64,
    /// Cycles of the spans.
    pub cycles: LengthCycles,
}

impl Span {
    /// Span of this kind with all counts 0.
    pub(crate) fn none(kind: SpanKind) -> Span {
        let (count, min_insns, max_insns, sum_insns, longest_at, longest_since_insns) = (0, 0, 0, 0, 0, 0);
        let cycles = LengthCycles::default();
        Span { kind, count, min_insns, max_insns, sum_insns, longest_at, longest_since_insns, cycles }
    }

    /// Mean duration in instructions, rounded down; 0 without spans.
    pub fn mean_insns(&self) -> u64 {
        mean(self.sum_insns, self.count).unwrap_or(0)
    }

    /// Mean duration in cycles, rounded down; 0 without spans.
    pub fn mean_cycles(&self) -> u64 {
        mean(self.cycles.sum, self.count).unwrap_or(0)
    }

    /// Adds the counts of another vCPU.
    pub(crate) fn add(&mut self, other: Span) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 || other.max_insns > self.max_insns {
            self.max_insns = other.max_insns;
            (self.longest_at, self.longest_since_insns) = (other.longest_at, other.longest_since_insns);
        }
        self.min_insns = if self.count == 0 { other.min_insns } else { self.min_insns.min(other.min_insns) };
        self.cycles.add(other.cycles, self.count == 0);
        self.count = self.count.saturating_add(other.count);
        self.sum_insns = self.sum_insns.wrapping_add(other.sum_insns);
    }
}

/// Exact counts of one vCPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcpuCounts {
    /// Instructions by the vCPU's clock, which is counted independently of `insns` and equals their sum.
    pub clock_insns: u64,
    /// Executions of each instruction, by address.
    pub insns: Vec<InsnCount>,
    /// Transfers of control into functions, sorted.
    pub arcs: Vec<Arc>,
}

/// Executions of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InsnCount {
    /// Address of the instruction.
    pub pc: u64,
    /// Size of the instruction.
    pub size_bytes: u8,
    /// Executions.
    pub count: u64,
}

/// Piece of the image's code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// Address of the first byte, load bias included.
    pub start: u64,
    /// Bytes in memory order.
    pub bytes: Vec<u8>,
}

/// Transfers of control from one instruction to one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Arc {
    /// Address of the instruction that transferred control.
    pub site: u64,
    /// Address that it went to.
    pub target: u64,
    /// Return address that the target saw, which `_mcount` records as the caller. None for a jump from a function to
    /// its own entry (a loop), which calls nothing.
    pub return_addr: Option<u64>,
    /// Whether the instruction set the return address (a call) or kept it (a tail call or loop).
    pub links: bool,
    /// Number of transfers.
    pub count: u64,
}

impl Profile {
    /// Executions by address, all vCPUs together.
    pub fn insns(&self) -> BTreeMap<u64, u64> {
        let insns = self.vcpus.iter().flat_map(|vcpu| &vcpu.insns);
        let mut insns: Vec<(u64, u64)> = insns.map(|insn| (insn.pc, insn.count)).collect();
        // A map made of sorted rows is several times as fast as one that grows row by row.
        insns.sort_by_key(|&(pc, _)| pc);
        insns.dedup_by(|(pc, count), (first, sum)| {
            let is_same = pc == first;
            *sum += if is_same { *count } else { 0 };
            is_same
        });
        insns.into_iter().collect()
    }

    /// Instructions of the window, all vCPUs together.
    pub fn total_insns(&self) -> u64 {
        self.vcpus.iter().flat_map(|vcpu| &vcpu.insns).map(|insn| insn.count).sum()
    }

    /// Targets in the table of the jump at an address; None: the table is not known.
    pub fn table_at(&self, site: u64) -> Option<&[u64]> {
        let index = self.tables.binary_search_by_key(&site, |table| table.site).ok()?;
        Some(&self.tables[index].targets)
    }

    /// Code from an address on; None: the image has no code there.
    pub fn code_at(&self, address: u64) -> Option<&[u8]> {
        let after = self.code.partition_point(|code| code.start <= address);
        let code = &self.code[after.checked_sub(1)?];
        code.bytes.get(usize::try_from(address - code.start).ok()?..).filter(|bytes| !bytes.is_empty())
    }

    /// Samples by address.
    pub fn samples_by_pc(&self) -> BTreeMap<u64, u64> {
        // Millions of samples share a few thousand addresses, so a hash map is faster.
        let mut samples: FxHashMap<u64, u64> = FxHashMap::default();
        for sample in &self.samples {
            *samples.entry(sample.pc).or_default() += 1;
        }
        samples.into_iter().collect()
    }

    /// Samples per address bin, by the bin's first address.
    pub fn bins(&self) -> BTreeMap<u64, u64> {
        let mut bins = BTreeMap::new();
        for (pc, samples) in self.samples_by_pc() {
            *bins.entry(pc & !(self.facts.bin_bytes - 1)).or_default() += samples;
        }
        bins
    }

    /// Frames of the stack whose innermost frame has this number, outermost first.
    pub fn stack(&self, innermost: u32) -> Vec<&StackFrame> {
        let frame = |number: u32| self.stacks.get(number.checked_sub(1)? as usize);
        let mut frames: Vec<_> = std::iter::successors(frame(innermost), |inner| frame(inner.parent)).collect();
        frames.reverse();
        frames
    }

    /// Task with this number.
    pub fn task(&self, number: u32) -> Option<&Task> {
        self.tasks.get(number.checked_sub(1)? as usize)
    }

    /// Node with this number. If that is the root of a polled task, the node that calls the task's function.
    pub fn calling_node(&self, number: u32) -> Option<&Node> {
        let node_of = |number: u32| self.tree.get(number.checked_sub(1)? as usize);
        let node = node_of(number)?;
        match node.kind {
            NodeKind::Root { .. } if node.parent != 0 => node_of(node.parent),
            _ => Some(node),
        }
    }

    /// Path to the node with this number, outermost first.
    pub fn path(&self, node: u32) -> Vec<&Node> {
        let node_of = |number: u32| self.tree.get(number.checked_sub(1)? as usize);
        let mut nodes: Vec<_> = std::iter::successors(node_of(node), |inner| node_of(inner.parent)).collect();
        nodes.reverse();
        nodes
    }

    /// Encodes the profile: magic, SHA-256 of the rest, and the model in postcard's encoding
    /// (<https://postcard.jamesmunns.com/wire-format>). Samples, stacks, call tree and kinds of spans are in the wire
    /// crate's encoding.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut samples = Vec::new();
        let mut encoder = Encoder::default();
        for sample in &self.samples {
            encoder.put(sample, &mut samples)?;
        }
        let mut trees = Vec::new();
        let mut encoder = definition::Encoder::default();
        for &StackFrame { parent, kind } in &self.stacks {
            encoder.put(&Definition::Frame { parent, kind }, &mut trees)?;
        }
        for &Node { parent, kind, via, .. } in &self.tree {
            let node = Definition::Node { slot: FIRST_DEFINED, parent, kind, via: via.unwrap_or(0) };
            encoder.put(&node, &mut trees)?;
        }
        for &Span { kind, .. } in &self.spans {
            encoder.put(&Definition::Span { slot: FIRST_DEFINED, kind }, &mut trees)?;
        }
        let span_counts = self.spans.iter().map(|span| {
            let &Span { kind: _, count, min_insns, max_insns, sum_insns, longest_at, longest_since_insns, cycles } =
                span;
            ([count, min_insns, max_insns, sum_insns, longest_at, longest_since_insns], cycles)
        });
        let span_counts: Vec<([u64; 6], LengthCycles)> = span_counts.collect();
        let counts: Vec<[u64; 3]> = self.tree.iter().map(|node| [node.insns, node.calls, node.cycles]).collect();
        let body = Body {
            facts: Cow::Borrowed(&self.facts),
            vcpus: Cow::Borrowed(&self.vcpus),
            samples: Cow::Owned(samples),
            trees: Cow::Owned(trees),
            counts: Cow::Owned(counts),
            span_counts: Cow::Owned(span_counts),
            tasks: Cow::Borrowed(&self.tasks),
            console_marks: Cow::Borrowed(&self.console_marks),
            zones: Cow::Borrowed(&self.zones),
            parts: Cow::Borrowed(&self.parts),
            notes: Cow::Borrowed(&self.notes),
            names: Cow::Borrowed(&self.names),
            code: Cow::Borrowed(&self.code),
            tables: Cow::Borrowed(&self.tables),
            in_target: Cow::Borrowed(&self.in_target),
            heap: Cow::Borrowed(&self.heap),
            timeline: Cow::Borrowed(&self.timeline),
            edges: Cow::Borrowed(&self.edges),
            cycles: Cow::Borrowed(&self.cycles),
        };
        let body = postcard::to_stdvec(&body)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&Sha256::digest(&body));
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    /// Decodes the bytes of [`Profile::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Profile> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            if bytes.starts_with(&MAGIC[..6]) {
                bail!(OF_ANOTHER_VERSION);
            }
            bail!("it is not a profile; harness FIRMWARE makes one of a firmware image");
        };
        let Some((hash, body)) = rest.split_at_checked(32) else { bail!("the profile is cut short") };
        ensure!(hash == Sha256::digest(body).as_slice(), "the profile is damaged (its SHA-256 does not match)");
        // The hash shows that nothing is damaged.
        let body: Body<'_> = postcard::from_bytes(body).map_err(|_| anyhow!(OF_ANOTHER_VERSION))?;
        let facts = &body.facts;
        ensure!(facts.bin_bytes.is_power_of_two() && facts.icount_shift < 64, "the profile's facts are damaged");
        let samples = Decoder::new(&body.samples).collect::<Result<_, _>>()?;
        let (mut stacks, mut tree, mut spans) = (Vec::new(), Vec::new(), Vec::new());
        let mut counts = body.counts.iter();
        let mut span_counts = body.span_counts.iter();
        for definition in definition::Decoder::new(&body.trees) {
            match definition? {
                Definition::Frame { parent, kind } => stacks.push(StackFrame { parent, kind }),
                Definition::Node { parent, kind, via, .. } => {
                    let &[insns, calls, cycles] = counts.next().context("the profile's call tree is cut short")?;
                    tree.push(Node { parent, kind, via: Some(via).filter(|&via| via != 0), insns, calls, cycles });
                }
                Definition::Span { kind, .. } => {
                    let &(insns, cycles) = span_counts.next().context("the profile's spans are cut short")?;
                    let [count, min_insns, max_insns, sum_insns, longest_at, longest_since_insns] = insns;
                    spans.push(Span {
                        kind,
                        count,
                        min_insns,
                        max_insns,
                        sum_insns,
                        longest_at,
                        longest_since_insns,
                        cycles,
                    });
                }
                _ => bail!("the profile's stacks are damaged"),
            }
        }
        bounds::check(&body.vcpus, &body.tasks, &tree, &spans)?;
        if let Some(heap) = body.heap.as_ref() {
            heap.check(stacks.len(), body.tasks.len())?;
        }
        if let Some(timeline) = body.timeline.as_ref() {
            timeline.check(body.vcpus.len(), body.tasks.len())?;
        }
        bounds::check_zones(&body.zones)?;
        bounds::check_parts(&body.parts, &body.vcpus)?;
        bounds::check_edges(&body.edges)?;
        if let Some(cycles) = body.cycles.as_ref() {
            bounds::check_cycles(cycles)?;
        }
        bounds::check_names(&body.names)?;
        bounds::check_facts(&body.facts, body.in_target.as_ref().as_ref())?;
        Ok(Profile {
            facts: body.facts.into_owned(),
            vcpus: body.vcpus.into_owned(),
            samples,
            stacks,
            tasks: body.tasks.into_owned(),
            tree,
            console_marks: body.console_marks.into_owned(),
            spans,
            zones: body.zones.into_owned(),
            parts: body.parts.into_owned(),
            notes: body.notes.into_owned(),
            names: body.names.into_owned(),
            code: body.code.into_owned(),
            tables: body.tables.into_owned(),
            in_target: body.in_target.into_owned(),
            heap: body.heap.into_owned(),
            timeline: body.timeline.into_owned(),
            edges: body.edges.into_owned(),
            cycles: body.cycles.into_owned(),
        })
    }

    /// Whether a file with these first bytes is a saved profile of any version.
    pub fn begins(first: &[u8]) -> bool {
        first.starts_with(&MAGIC[..6])
    }

    /// Reads a saved profile from its file, or from the directory that a run left.
    pub fn load(path: &Path) -> Result<Profile> {
        let is_directory = path.is_dir();
        let file = if is_directory { path.join(FILE_NAME) } else { path.to_owned() };
        let failed = || format!("cannot read the profile {}", file.display());
        // A pipe that the user names may be waited for; a pipe in a directory may not.
        if is_directory && fs::metadata(&file).is_ok_and(|metadata| !metadata.is_file()) {
            bail!("{}: it is not a regular file", failed());
        }
        let bytes = match fs::read(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let path = path.display();
                if is_directory {
                    bail!("{path} is not a profile directory (there is no {FILE_NAME} in it)");
                }
                bail!("{path}: there is no such profile; harness firmware.elf -o {path} makes it");
            }
            bytes => bytes.with_context(failed)?,
        };
        Profile::from_bytes(&bytes).with_context(failed)
    }
}

/// Saved profile in postcard's encoding.
#[derive(Serialize, Deserialize)]
struct Body<'a> {
    facts: Cow<'a, Facts>,
    vcpus: Cow<'a, [VcpuCounts]>,
    samples: Cow<'a, [u8]>,
    trees: Cow<'a, [u8]>,
    /// Instructions, calls and cycles of each node.
    counts: Cow<'a, [[u64; 3]]>,
    /// Count, minimum, maximum and sum of each span, and address and time of the longest one's start; and its cycles.
    span_counts: Cow<'a, [([u64; 6], LengthCycles)]>,
    tasks: Cow<'a, [Task]>,
    console_marks: Cow<'a, [(u64, u64)]>,
    zones: Cow<'a, Zones>,
    parts: Cow<'a, Parts>,
    notes: Cow<'a, [Note]>,
    names: Cow<'a, Names>,
    code: Cow<'a, [Code]>,
    tables: Cow<'a, [JumpTable]>,
    in_target: Cow<'a, Option<InTarget>>,
    heap: Cow<'a, Option<Heap>>,
    timeline: Cow<'a, Option<Timeline>>,
    edges: Cow<'a, [Edge]>,
    cycles: Cow<'a, Option<Cycles>>,
}
