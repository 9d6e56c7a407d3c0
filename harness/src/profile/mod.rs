//! The saved profile: what every report and export is made from.
//!
//! Addresses and counts, the names that the firmware gave to those addresses (so that a profile can be
//! read where the ELF is gone), and the facts of the run. Every count is exact; samples are kept in
//! time order. The same run gives the same bytes: everything is sorted, nothing knows a path, a date
//! or a host.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use wire::counters::FIRST_DEFINED;
pub use wire::definition::SpanKind;
use wire::definition::{self, Definition, FrameKind, NodeKind};
use wire::sample::{Decoder, Encoder, Sample};

use crate::cli::resolve::Input;
use crate::image::mcount::Table;

/// Name of the saved profile in a profile directory.
pub const FILE_NAME: &str = "profile.fwp";

const MAGIC: &[u8; 8] = b"fwprof\x08\n";

/// One run of one image, measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What was run, how, and how it ended.
    pub facts: Facts,
    /// Exact counts, one entry per vCPU.
    pub vcpus: Vec<VcpuCounts>,
    /// All samples in the order in which they were taken.
    pub samples: Vec<Sample>,
    /// Call stacks of the samples, as a tree: those that begin alike share their outer frames. A sample's
    /// `stack` n is `stacks[n - 1]`, its innermost caller.
    pub stacks: Vec<StackFrame>,
    /// Tasks of the firmware's kernel in the order in which they first ran. A sample's `task` n is
    /// `tasks[n - 1]`.
    pub tasks: Vec<Task>,
    /// The exact call tree; empty unless asked for. A sample's `node` n is `tree[n - 1]`.
    pub tree: Vec<Node>,
    /// Instructions of the window, and bytes of the console printed by then, both growing; the last one is the
    /// run's end. Empty unless asked for.
    pub console_marks: Vec<(u64, u64)>,
    /// How long things took, sorted by kind: what `--exact` follows, and what `--span` asked for.
    pub spans: Vec<Span>,
    /// What the firmware asked of the host.
    pub notes: Vec<Note>,
    /// Names of the addresses.
    pub names: Names,
    /// The image's code, by address; the pieces do not overlap and leave out the data between functions, as far
    /// as the symbol table tells it from code.
    pub code: Vec<Code>,
    /// What the firmware counted itself, where it links the in-target runtime.
    pub in_target: Option<InTarget>,
}

/// What was run, how, and how it ended. Everything that the result depends on is here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Version of this tool.
    pub harness_version: String,
    /// File name of the image, without its directory.
    pub image_name: String,
    /// SHA-256 of the image file, in hex.
    pub image_sha256: String,
    /// SHA-256 of the file given with `--symbols`.
    pub symbols_sha256: Option<String>,
    /// QEMU's own version line's number, as `10.0.2`.
    pub qemu_version: String,
    /// QEMU machine.
    pub machine: String,
    /// QEMU CPU, when not the machine's own.
    pub cpu: Option<String>,
    /// Instruction set, as [`decode::Isa`] prints it.
    pub isa: String,
    /// Virtual time per instruction is 2^shift ns.
    pub icount_shift: u8,
    /// Where a raw binary was loaded.
    pub load_addr: Option<u64>,
    /// Bytes added to the image's addresses when it was loaded.
    pub load_bias: u64,
    /// Address of the firmware's first instruction, without Thumb's bit 0, load bias included.
    pub entry: u64,
    /// Additional QEMU arguments.
    pub qemu_args: Vec<String>,
    /// What the firmware was given as its command line, after the program's name.
    pub firmware_args: Vec<String>,
    /// Mean distance of samples in instructions.
    pub period_insns: u64,
    /// Seed of the dither around the period.
    pub jitter_seed: Option<u64>,
    /// Width of an address bin in bytes, a power of two.
    pub bin_bytes: u64,
    /// The measuring window as asked for.
    pub window: Window,
    /// Instructions executed before the window opened.
    pub before_window_insns: u64,
    /// What was to be typed on the console, in order.
    pub input: Vec<Input>,
    /// Bytes of it that the machine took, all together.
    pub input_bytes: u64,
    /// How many of the texts had begun when the run ended.
    pub input_begun: u64,
    /// How the run ended.
    pub end: End,
    /// Most frames of a call stack; None: no call stacks were taken.
    pub max_depth: Option<u32>,
    /// Executions of the instruction that waits for an interrupt.
    pub waits: u64,
    /// Switches between tasks that were only noticed later: counts per task are then estimates.
    pub unseen_switches: u64,
    /// Transfers of control that could not be attributed to an arc.
    pub unresolved_transfers: u64,
    /// Transfers of control before whose target an exception was taken; their arcs are exact.
    pub interrupted_transfers: u64,
}

/// One frame of a call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackFrame {
    /// Number of the next outer frame, 0: none.
    pub parent: u32,
    /// What it is.
    pub kind: FrameKind,
}

/// A task of the firmware's kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Name that the firmware gave it, empty where none could be read.
    pub name: String,
    /// Address of its control block; after a task was deleted, another one may have the same.
    pub tcb: u64,
    /// Lowest address of its stack, when known.
    pub stack_start: Option<u64>,
    /// Address above its stack, when known.
    pub stack_end: Option<u64>,
    /// Whether it is one of the kernel's idle tasks.
    pub is_idle: bool,
    /// Instructions while it was the running task, interrupts among them included. Exact.
    pub insns: u64,
    /// How often it was switched in. Exact.
    pub switches: u64,
    /// Lowest stack pointer seen in it.
    pub deepest_sp: Option<u64>,
    /// Bytes at the low end of its stack that still hold the kernel's paint as it, or the run, ended.
    pub painted_bytes: Option<u64>,
}

/// One place in the exact call tree: a function as it was reached over one path of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Number of the caller's node, 0: none.
    pub parent: u32,
    /// What it is.
    pub kind: NodeKind,
    /// Instructions in this function and not in one that it called.
    pub insns: u64,
    /// Entries.
    pub calls: u64,
}

/// Something that came again and again, and how long it took. Exact. What began before the window opened, or
/// had not ended as the run did, is not among it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What it is.
    pub kind: SpanKind,
    /// How often there was one.
    pub count: u64,
    /// Instructions of the shortest; 0 where there was none.
    pub min_insns: u64,
    /// Instructions of the longest, the first of equal ones.
    pub max_insns: u64,
    /// Instructions of all together.
    pub sum_insns: u64,
    /// Address of the instruction with which the longest began: the first of the function, the handler, or
    /// what `--span` names; the one that masked interrupts; the store that pended PendSV.
    pub longest_at: u64,
}

impl Span {
    /// Mean of its instructions, rounded down; 0 where there was none.
    pub fn mean_insns(&self) -> u64 {
        self.sum_insns.checked_div(self.count).unwrap_or(0)
    }

    /// Counts those of another vCPU, too.
    pub(crate) fn add(&mut self, other: Span) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 || other.max_insns > self.max_insns {
            (self.max_insns, self.longest_at) = (other.max_insns, other.longest_at);
        }
        self.min_insns = if self.count == 0 { other.min_insns } else { self.min_insns.min(other.min_insns) };
        self.count += other.count;
        self.sum_insns = self.sum_insns.wrapping_add(other.sum_insns);
    }
}

/// What is known of the table of a firmware that links the in-target runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InTarget {
    /// What it counted inside the window.
    Table(Table),
    /// It could not be read: why, as the rest of a sentence that begins with "the in-target table".
    Unread(String),
}

impl InTarget {
    /// The table, if it could be read.
    pub fn table(&self) -> Option<&Table> {
        match self {
            InTarget::Table(table) => Some(table),
            InTarget::Unread(_) => None,
        }
    }
}

/// The measuring window as asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Its length.
    pub for_insns: Option<u64>,
    /// Function at whose first execution it opens.
    pub from: Option<String>,
    /// Function at whose first execution after that it closes.
    pub until: Option<String>,
    /// Instructions from reset after which the run has failed.
    pub max_insns: Option<u64>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The window's length was reached.
    For,
    /// The window's last function was reached.
    Until,
    /// The firmware exited.
    Exit {
        /// Its status.
        status: u32,
        /// Address of the instruction that ended it.
        pc: u64,
    },
    /// The firmware asked for a reset.
    Reset {
        /// Address of the instruction that asked, when the profiler saw it.
        pc: Option<u64>,
    },
    /// The CPU locked up.
    LockUp {
        /// Address of the instruction it stopped at.
        pc: u64,
        /// The fault in words.
        fault: String,
    },
    /// The CPU waits for an interrupt that nothing will raise.
    Asleep {
        /// Address of the wait instruction, or where QEMU says the CPU would go on.
        pc: u64,
    },
    /// The firmware asked for something outside its sandbox that only ending the run could prevent.
    Denied {
        /// Address of the instruction that asked.
        pc: u64,
    },
    /// The limit on instructions was reached.
    MaxInsns,
    /// The limit on host seconds was reached. Host-ended: another run ends elsewhere.
    Timeout,
    /// Ctrl-C or SIGTERM. Host-ended.
    Interrupted,
    /// QEMU was killed or failed by itself.
    EmulatorFailed {
        /// What was seen of it.
        message: String,
    },
}

impl End {
    /// The instruction at which it ended, where there is one.
    pub fn pc(&self) -> Option<u64> {
        match *self {
            End::Exit { pc, .. } | End::LockUp { pc, .. } | End::Asleep { pc } | End::Denied { pc } => Some(pc),
            End::Reset { pc } => pc,
            End::For | End::Until | End::MaxInsns | End::Timeout | End::Interrupted | End::EmulatorFailed { .. } => {
                None
            }
        }
    }
}

/// Exact counts of one vCPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcpuCounts {
    /// Instructions by the vCPU's clock, which is counted apart: the sum of `insns`.
    pub clock_insns: u64,
    /// Executions of each instruction, by address.
    pub insns: Vec<InsnCount>,
    /// Transfers of control into functions, sorted.
    pub arcs: Vec<Arc>,
}

/// How often one instruction was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InsnCount {
    /// Its address.
    pub pc: u64,
    /// Its size.
    pub size_bytes: u8,
    /// Executions.
    pub count: u64,
}

/// Code as it lies in the image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// Address of its first byte, load bias included.
    pub start: u64,
    /// Its bytes in the order of memory.
    pub bytes: Vec<u8>,
}

/// A transfer of control to one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Arc {
    /// Address of the instruction that transferred control.
    pub site: u64,
    /// Where it went.
    pub target: u64,
    /// Return address that the target saw: what `_mcount` records as the caller. None for a jump
    /// from a function to its own entry (a loop), where nobody needs it.
    pub return_addr: Option<u64>,
    /// Whether the instruction set the return address (a call) or kept it (a tail call or loop).
    pub links: bool,
    /// How often.
    pub count: u64,
}

/// Something the firmware asked of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Whether it was denied; otherwise the host answered, and another host may answer otherwise.
    pub denied: bool,
    /// Semihosting operation number.
    pub operation: u32,
    /// Address of the instruction that asked.
    pub pc: u64,
    /// What it asked for, as far as it could be read.
    pub text: String,
}

/// What the image calls its code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// All functions of the image, executed or not, as the linker placed them, by address; they do not overlap.
    pub functions: Vec<Function>,
    /// Names and paths that [`Frame`]s refer to.
    pub strings: Vec<String>,
    /// Distinct frame lists, outermost function first.
    pub stacks: Vec<Vec<Frame>>,
    /// Addresses that were executed, or lie just before a return address (in the call that left it), sorted,
    /// each with the index of its frame list in `stacks`. Addresses
    /// without a name are absent.
    pub locations: Vec<(u64, u32)>,
    /// Source lines of all the image's code, executed or not, by address.
    pub lines: Vec<LineCode>,
    /// The compilers that made the image and their options, as DWARF has them, sorted.
    pub producers: Vec<String>,
}

/// Code of one source line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineCode {
    /// First address, load bias included.
    pub start: u64,
    /// Bytes of code.
    pub size_bytes: u64,
    /// Source file, index into [`Names::strings`].
    pub file: u32,
    /// Line in it.
    pub line: u32,
}

/// A function as the linker placed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Demangled name.
    pub name: String,
    /// Name in the symbol table.
    pub linkage_name: String,
    /// First address (without Thumb's bit 0), load bias included.
    pub start: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Source file, when DWARF says it.
    pub file: Option<String>,
    /// Line of its definition.
    pub line: Option<u32>,
}

/// One frame at an address: the function itself or one inlined into it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// Demangled name, index into [`Names::strings`].
    pub function: u32,
    /// Source file, index into [`Names::strings`].
    pub file: Option<u32>,
    /// Line in that file at this address.
    pub line: Option<u32>,
    /// Whether the compiler inlined it into the frame before it.
    pub inlined: bool,
}

impl Names {
    /// The function that contains `address`.
    pub fn function_at(&self, address: u64) -> Option<&Function> {
        let after = self.functions.partition_point(|function| function.start <= address);
        let function = &self.functions[after.checked_sub(1)?];
        (address - function.start < function.size_bytes).then_some(function)
    }

    /// File and line of an executed address, in the innermost function there.
    pub fn line_at(&self, pc: u64) -> Option<(&str, u32)> {
        let frame = self.frames_at(pc).last()?;
        Some((self.strings.get(frame.file? as usize)?, frame.line?))
    }

    /// File and line that the code at an address was made from, executed or not.
    pub fn code_line_at(&self, address: u64) -> Option<(&str, u32)> {
        let after = self.lines.partition_point(|code| code.start <= address);
        let code = &self.lines[after.checked_sub(1)?];
        let file = self.strings.get(code.file as usize)?;
        (address - code.start < code.size_bytes).then_some((file, code.line))
    }

    /// Number of the frame list at an executed address; None when it has no name.
    pub fn stack_at(&self, pc: u64) -> Option<u32> {
        let index = self.locations.binary_search_by_key(&pc, |&(at, _)| at).ok()?;
        Some(self.locations[index].1)
    }

    /// The frames at an executed address, outermost first; empty when it has no name.
    pub fn frames_at(&self, pc: u64) -> &[Frame] {
        let stack = self.stack_at(pc).and_then(|stack| self.stacks.get(stack as usize));
        stack.map_or(&[], Vec::as_slice)
    }
}

impl Profile {
    /// Executions by address, all vCPUs together.
    pub fn insns(&self) -> BTreeMap<u64, u64> {
        let mut insns = BTreeMap::new();
        for insn in self.vcpus.iter().flat_map(|vcpu| &vcpu.insns) {
            *insns.entry(insn.pc).or_default() += insn.count;
        }
        insns
    }

    /// Instructions of the window, all vCPUs together.
    pub fn total_insns(&self) -> u64 {
        self.vcpus.iter().flat_map(|vcpu| &vcpu.insns).map(|insn| insn.count).sum()
    }

    /// Samples by address.
    pub fn samples_by_pc(&self) -> BTreeMap<u64, u64> {
        let mut samples = BTreeMap::new();
        for sample in &self.samples {
            *samples.entry(sample.pc).or_default() += 1;
        }
        samples
    }

    /// Samples per address bin, by the bin's first address.
    pub fn bins(&self) -> BTreeMap<u64, u64> {
        let mut bins = BTreeMap::new();
        for sample in &self.samples {
            *bins.entry(sample.pc & !(self.facts.bin_bytes - 1)).or_default() += 1;
        }
        bins
    }

    /// The stack whose innermost frame has this number, outermost first.
    pub fn stack(&self, innermost: u32) -> Vec<&StackFrame> {
        let frame = |number: u32| self.stacks.get(number.checked_sub(1)? as usize);
        let mut frames: Vec<_> = std::iter::successors(frame(innermost), |inner| frame(inner.parent)).collect();
        frames.reverse();
        frames
    }

    /// The task with this number.
    pub fn task(&self, number: u32) -> Option<&Task> {
        self.tasks.get(number.checked_sub(1)? as usize)
    }

    /// The path to the node with this number, outermost first.
    pub fn path(&self, node: u32) -> Vec<&Node> {
        let node_of = |number: u32| self.tree.get(number.checked_sub(1)? as usize);
        let mut nodes: Vec<_> = std::iter::successors(node_of(node), |inner| node_of(inner.parent)).collect();
        nodes.reverse();
        nodes
    }

    /// The file's bytes: magic, SHA-256 of the rest, and the model in postcard's encoding
    /// (<https://postcard.jamesmunns.com/wire-format>), samples, stacks, call tree and kinds of spans in
    /// the wire's.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut samples = Vec::new();
        let mut encoder = Encoder::default();
        for sample in &self.samples {
            encoder.put(sample, &mut samples)?;
        }
        let mut trees = Vec::new();
        for &StackFrame { parent, kind } in &self.stacks {
            Definition::Frame { parent, kind }.put(&mut trees)?;
        }
        for &Node { parent, kind, .. } in &self.tree {
            Definition::Node { slot: FIRST_DEFINED, parent, kind }.put(&mut trees)?;
        }
        for &Span { kind, .. } in &self.spans {
            Definition::Span { slot: FIRST_DEFINED, kind }.put(&mut trees)?;
        }
        let span_counts = self.spans.iter().map(|span| {
            let &Span { kind: _, count, min_insns, max_insns, sum_insns, longest_at } = span;
            [count, min_insns, max_insns, sum_insns, longest_at]
        });
        let span_counts: Vec<[u64; 5]> = span_counts.collect();
        let counts: Vec<(u64, u64)> = self.tree.iter().map(|node| (node.insns, node.calls)).collect();
        let body = Body {
            facts: Cow::Borrowed(&self.facts),
            vcpus: Cow::Borrowed(&self.vcpus),
            samples: Cow::Owned(samples),
            trees: Cow::Owned(trees),
            counts: Cow::Owned(counts),
            span_counts: Cow::Owned(span_counts),
            tasks: Cow::Borrowed(&self.tasks),
            console_marks: Cow::Borrowed(&self.console_marks),
            notes: Cow::Borrowed(&self.notes),
            names: Cow::Borrowed(&self.names),
            code: Cow::Borrowed(&self.code),
            in_target: Cow::Borrowed(&self.in_target),
        };
        let body = postcard::to_stdvec(&body)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&Sha256::digest(&body));
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    /// Reads [`Profile::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Profile> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            if bytes.starts_with(&MAGIC[..6]) {
                bail!("it was saved by another version of harness; run the firmware again with this one");
            }
            bail!("it is no profile; harness FIRMWARE makes one of a firmware image");
        };
        let Some((hash, body)) = rest.split_at_checked(32) else { bail!("the profile is cut short") };
        ensure!(hash == Sha256::digest(body).as_slice(), "the profile is damaged (its SHA-256 does not match)");
        let body: Body<'_> = postcard::from_bytes(body)?;
        let facts = &body.facts;
        ensure!(facts.bin_bytes.is_power_of_two() && facts.icount_shift < 64, "the profile's facts are damaged");
        let samples = Decoder::new(&body.samples).collect::<Result<_, _>>()?;
        let (mut stacks, mut tree, mut spans) = (Vec::new(), Vec::new(), Vec::new());
        let mut counts = body.counts.iter();
        let mut span_counts = body.span_counts.iter();
        for definition in definition::Decoder::new(&body.trees) {
            match definition? {
                Definition::Frame { parent, kind } => stacks.push(StackFrame { parent, kind }),
                Definition::Node { parent, kind, .. } => {
                    let &(insns, calls) = counts.next().context("the profile's call tree is cut short")?;
                    tree.push(Node { parent, kind, insns, calls });
                }
                Definition::Span { kind, .. } => {
                    let &[count, min_insns, max_insns, sum_insns, longest_at] =
                        span_counts.next().context("the profile's spans are cut short")?;
                    spans.push(Span { kind, count, min_insns, max_insns, sum_insns, longest_at });
                }
                _ => bail!("the profile's stacks are damaged"),
            }
        }
        Ok(Profile {
            facts: body.facts.into_owned(),
            vcpus: body.vcpus.into_owned(),
            samples,
            stacks,
            tasks: body.tasks.into_owned(),
            tree,
            console_marks: body.console_marks.into_owned(),
            spans,
            notes: body.notes.into_owned(),
            names: body.names.into_owned(),
            code: body.code.into_owned(),
            in_target: body.in_target.into_owned(),
        })
    }

    /// Reads a saved profile: the file, or the directory that a run left.
    pub fn load(path: &Path) -> Result<Profile> {
        let is_directory = path.is_dir();
        let file = if is_directory { path.join(FILE_NAME) } else { path.to_owned() };
        let failed = || format!("cannot read the profile {}", file.display());
        let bytes = match fs::read(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let path = path.display();
                if is_directory {
                    bail!("{path} is no profile directory (there is no {FILE_NAME} in it)");
                }
                bail!("{path}: there is no such profile; harness firmware.elf -o {path} makes it");
            }
            bytes => bytes.with_context(failed)?,
        };
        Profile::from_bytes(&bytes).with_context(failed)
    }
}

/// A saved profile, as postcard encodes it.
#[derive(Serialize, Deserialize)]
struct Body<'a> {
    facts: Cow<'a, Facts>,
    vcpus: Cow<'a, [VcpuCounts]>,
    samples: Cow<'a, [u8]>,
    trees: Cow<'a, [u8]>,
    counts: Cow<'a, [(u64, u64)]>,
    /// Count, min, max, sum, address of each span.
    span_counts: Cow<'a, [[u64; 5]]>,
    tasks: Cow<'a, [Task]>,
    console_marks: Cow<'a, [(u64, u64)]>,
    notes: Cow<'a, [Note]>,
    names: Cow<'a, Names>,
    code: Cow<'a, [Code]>,
    in_target: Cow<'a, Option<InTarget>>,
}
