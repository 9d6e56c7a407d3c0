// SPDX-License-Identifier: MIT OR Apache-2.0
//! Complete profile as JSON: the stable interface for other programs.
//!
//! Its JSON Schema, `harness export --schema`, is made from the types here, which belong to the format alone. Fields of
//! the profile may be renamed at any time; names here change only with [`VERSION`]. Addresses are strings in
//! hexadecimal, since JSON readers keep 53 bits of a number; counts are numbers. Items refer to each other by their
//! index in a list, from 0.

pub mod annotation;
pub mod bins;
mod branches;
pub mod callers;
pub mod comparison;
pub mod coverage;
pub mod document;
pub(in crate::export) mod event_list;
pub mod heap;
pub mod list;
pub mod peripherals;
pub mod size;
pub mod stack;
mod task_states;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use wire::definition::NodeKind;

use crate::analysis::calltree::{self, CallTree};
use crate::analysis::cold_part::ColdParts;
use crate::analysis::crosscheck;
use crate::analysis::cycles;
use crate::analysis::describe::describe_end;
use crate::analysis::flow::Branches;
use crate::analysis::functions::{self, Row};
use crate::analysis::owner::{Owner, between};
use crate::analysis::stacks::{Exceptions, FrameRole, task_names};
use crate::analysis::{part, time, zone};
use crate::export::json::branches::JsonBranch;
use crate::export::json::event_list::EventList;
use crate::export::json::heap::Heap;
use crate::export::settings::Settings;
use crate::profile::input::{Input, What, When};
use crate::profile::zone::ZoneCounts;
use crate::profile::{self, End, InTarget, Profile, SpanKind};

/// Version of the format; it increases when a field is removed or changes its meaning.
pub const VERSION: u32 = 1;

/// Name of the format.
pub const FORMAT: &str = "harness-profile";

/// Writes the profile, item by item.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let tree = CallTree::new(profile, settings.view);
    document::write_line(&Document::new(profile, &tree), out)
}

/// JSON Schema of the output.
///
/// # Errors
/// No known errors.
pub fn schema() -> Result<String> {
    document::schema::<Document<'_>>()
}

/// Address, as `0x80000000`.
#[derive(Clone, Copy)]
pub(super) struct Address(pub(super) u64);

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}

impl JsonSchema for Address {
    fn schema_name() -> Cow<'static, str> {
        "Address".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^0x[0-9a-f]{1,16}$" })
    }
}

/// List that is generated while it is written.
pub(super) struct List<'a, T>(Box<dyn Fn() -> Box<dyn Iterator<Item = T> + 'a> + 'a>);

impl<'a, T> List<'a, T> {
    pub(super) fn of<I: Iterator<Item = T> + 'a>(make: impl Fn() -> I + 'a) -> List<'a, T> {
        List(Box::new(move || Box::new(make())))
    }
}

impl<T: Serialize> Serialize for List<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

impl<T: JsonSchema> JsonSchema for List<'_, T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Vec::<T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<T>::json_schema(generator)
    }
}

/// Profile of one run of one firmware image.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Profile")]
struct Document<'a> {
    /// Always "harness-profile".
    format: &'static str,
    /// Version of the format; it grows when something is removed or changes its meaning.
    version: u32,
    /// Inputs, settings and end of the run, on which all the rest depends.
    facts: Facts<'a>,
    /// Instructions of the window. Exact.
    total_insns: u64,
    /// Cycles of these instructions, if known. Exact, if `total_cycles_between` is null.
    total_cycles: Option<u64>,
    /// Fewest and most that these cycles can be, where the core is known to an interval only.
    total_cycles_between: Option<[u64; 2]>,
    /// Core whose cycles they are, null without --cycles and for an AVR.
    cycle_core: Option<&'a str>,
    /// Cycles that were a second for the machine's clock, null if it counted instructions.
    clock_hz: Option<u64>,
    /// Samples taken of them.
    total_samples: u64,
    /// Executed functions, most instructions first; the boot ROM and ranges of addresses without a name count as
    /// such. Then all other functions of the image, by address.
    functions: List<'a, Function>,
    /// Executions of each executed instruction, by vCPU and address. Exact.
    insns: List<'a, Insn>,
    /// Ways of the executed branches, by address.
    branches: List<'a, JsonBranch>,
    /// Source lines that have code, executed or not, by address.
    lines: List<'a, JsonLine<'a>>,
    /// Transfers of control into functions, and jumps inside them to their start, by vCPU and address. Exact.
    arcs: List<'a, Arc>,
    /// Frames that call paths are made of.
    frames: List<'a, Frame<'a>>,
    /// Call paths; parents come before their children.
    paths: List<'a, Path>,
    /// The exact call tree, empty without --exact; parents come before their children.
    tree: List<'a, JsonNode>,
    /// Samples in the order in which they were taken.
    samples: List<'a, Sample>,
    /// Width of an address bin in bytes.
    bin_bytes: u64,
    /// Address bins with samples in them, by address.
    bins: List<'a, Bin>,
    /// Tasks of the firmware's kernel in the order in which they first ran.
    tasks: List<'a, JsonTask>,
    /// Durations of handlers, masked interrupts, calls (with --exact) and --span. Exact.
    spans: List<'a, Span>,
    /// Interrupts without others during them, by number; empty unless zones, slices, cycles or a timeline were asked for. Exact.
    interrupts: List<'a, JsonInterrupt>,
    /// Zones of the firmware (ZONE of zone.h), most instructions first. Exact.
    zones: List<'a, JsonZone>,
    /// Marks of the firmware (MARK), by name. Exact.
    marks: List<'a, JsonMark<'a>>,
    /// Phases of the firmware (PHASE), in the order in which they first began; they add up to the whole. Exact.
    phases: List<'a, JsonPart>,
    /// Instructions of a slice; null without --slice.
    slice_insns: Option<u64>,
    /// Slices in their order; they add up to the whole. Exact.
    slices: List<'a, JsonPart>,
    /// Requests of the firmware to the host.
    notes: List<'a, Note<'a>>,
    /// Samples compared with the exact counts, and the firmware's own counts compared with them.
    cross_check: CrossCheck,
    /// Calls that the firmware counted itself; empty if it counts none, or its runtime keeps no arcs.
    in_target_arcs: List<'a, InTargetArc>,
    /// Console output over time, if a suite asked for it.
    console_marks: List<'a, ConsoleMark>,
    /// Allocations and frees; null without --heap.
    heap: Option<Heap>,
    /// Events with their instructions; null without --timeline.
    timeline: Option<EventList<'a>>,
}

/// Function that was replaced by an immediate return.
#[derive(Serialize, JsonSchema)]
struct Stub<'a> {
    /// Name of the function.
    name: &'a str,
    /// First address.
    address: Address,
    /// Return value; null: it returns nothing.
    returns: Option<i64>,
}

impl<'a> Stub<'a> {
    fn new(stub: &'a profile::Stub) -> Stub<'a> {
        Stub { name: &stub.name, address: Address(stub.address), returns: stub.returns }
    }
}

/// Chip to which QEMU's machine was completed.
#[derive(Serialize, JsonSchema)]
struct Chip<'a> {
    /// Name of the chip.
    name: &'a str,
    /// SHA-256 of the resolved chip description.
    sha256: &'a str,
    /// Differences from the real chip, each one sentence.
    differs: &'a [String],
    /// First watchdog that ran out, for which the chip would have been reset.
    watchdog: Option<Watchdog<'a>>,
    /// First address that was accessed and at which the chip has nothing.
    absent: Option<Address>,
    /// Accessed registers that the chip file does not model, most frequent first.
    unmodelled: Vec<Unmodelled<'a>>,
    /// Rules of the chip file that answered polls or gave interrupts, guesses first.
    rules: Vec<ChipRule<'a>>,
}

/// A watchdog that ran out.
#[derive(Serialize, JsonSchema)]
struct Watchdog<'a> {
    /// Its name.
    name: &'a str,
    /// Number of times that watchdogs ran out.
    times: u64,
}

/// A rule of the chip file that answered.
#[derive(Serialize, JsonSchema)]
struct ChipRule<'a> {
    /// Register or interrupt, with what it does.
    what: &'a str,
    /// Reason, as the file has it.
    why: &'a str,
    /// Place in the firmware that it was learned from.
    place: &'a str,
    /// Whether the rule is a guess: another rule may be right.
    guess: bool,
    /// Number of times that the rule answered.
    times: u64,
}

/// A register that the chip file does not model.
#[derive(Serialize, JsonSchema)]
struct Unmodelled<'a> {
    /// Name of the register, as far as the chip file has it.
    name: &'a str,
    /// Address of the register.
    address: Address,
    /// The first instruction that accessed it.
    pc: Address,
    /// Number of reads.
    reads: u64,
    /// Number of writes.
    writes: u64,
    /// Whether the firmware that the chip was learned from had not accessed it.
    new: bool,
}

impl<'a> Chip<'a> {
    fn new(chip: &'a profile::Chip) -> Chip<'a> {
        let unmodelled = chip.unmodelled.iter().map(|row| Unmodelled {
            name: &row.name,
            address: Address(row.address),
            pc: Address(row.pc),
            reads: row.reads,
            writes: row.writes,
            new: row.is_new,
        });
        let rules = chip.rules.iter().map(|rule| ChipRule {
            what: &rule.what,
            why: &rule.why,
            place: &rule.place,
            guess: rule.is_guess,
            times: rule.times,
        });
        let profile::Chip { name, sha256, differs, .. } = chip;
        Chip {
            name,
            sha256,
            differs,
            watchdog: chip.bitten.as_ref().map(|(name, times)| Watchdog { name, times: *times }),
            absent: chip.absent.map(Address),
            unmodelled: unmodelled.collect(),
            rules: rules.collect(),
        }
    }
}

/// Facts of the run: what was run, how, and how it ended.
#[derive(Serialize, JsonSchema)]
struct Facts<'a> {
    /// Version of harness.
    harness_version: &'a str,
    /// File name of the image.
    image: &'a str,
    /// SHA-256 of the image.
    image_sha256: &'a str,
    /// SHA-256 of the file given with --symbols.
    symbols_sha256: Option<&'a str>,
    /// Compilers that made the image, with their options, from its debug information.
    producers: &'a [String],
    /// QEMU's version.
    qemu: &'a str,
    /// Whether QEMU was used beyond its plugin API: `used`, `unknown-version` or `off`.
    tricks: &'static str,
    /// QEMU machine.
    machine: &'a str,
    /// Chip to which the machine was completed.
    chip: Option<Chip<'a>>,
    /// QEMU CPU, when not the machine's own.
    cpu: Option<&'a str>,
    /// Instruction set.
    isa: &'a str,
    /// Shift of virtual time: an instruction takes 2^icount_shift ns of the firmware's time, unless clock_hz is not null.
    icount_shift: u8,
    /// Address at which a raw binary was loaded.
    load_addr: Option<Address>,
    /// Bytes added to the image's addresses.
    load_bias: Address,
    /// Address of the first instruction.
    entry: Address,
    /// --vectors: vector table that the processor starts from, if the machine would look elsewhere.
    vectors: Option<Address>,
    /// --stub: functions that return at once.
    stubs: Vec<Stub<'a>>,
    /// Additional QEMU arguments.
    qemu_args: &'a [String],
    /// The firmware's command line after the program's name.
    firmware_args: &'a [String],
    /// Mean distance of samples.
    period_insns: u64,
    /// Seed of the dither around the period.
    jitter_seed: Option<u64>,
    /// --for: length of the window.
    for_insns: Option<u64>,
    /// --from: function that opened the window.
    from: Option<&'a str>,
    /// --until: function that closes the window.
    until: Option<&'a str>,
    /// --max-insns: instructions after which the run has failed.
    max_insns: Option<u64>,
    /// --resets: times that the firmware is to come through its entry again.
    resets: Option<u64>,
    /// Instructions before the window opened.
    before_window_insns: u64,
    /// Texts typed on the console.
    input: Vec<Typed<'a>>,
    /// Most frames of a call stack; null: no stacks were taken.
    max_depth: Option<u32>,
    /// Whether every call and return was followed (--exact), so that instructions and calls of paths are exact.
    exact: bool,
    /// Times that the firmware waited for an interrupt: executions of `wfi`, and of `wfe` when a processor would
    /// sleep.
    waits: u64,
    /// Instructions executed while a processor would have slept in a `wfe`, outside of the kernel's idle tasks.
    slept_insns: u64,
    /// Virtual time in nanoseconds that the machine slept; null: not known.
    slept_ns: Option<u64>,
    /// Code that only waits, such as `delay()` of Arduino's core; null: none executed.
    waiting: Option<JsonWaiting>,
    /// Task switches that were noticed late: counts per task are then estimates.
    unseen_switches: u64,
    /// The main stack, or another one that no kernel describes, if it left its memory. Without --exact only samples are looked
    /// at.
    stack_left: Option<JsonStackLeft<'a>>,
    /// End of the run.
    end: &'static str,
    /// Exit status of the firmware, if it exited.
    exit_status: Option<u32>,
    /// Address of the instruction at which the run ended, if there is one.
    end_address: Option<Address>,
    /// End of the run in words.
    end_text: String,
}

/// Text typed on the console, or changes outside of the chip.
#[derive(Serialize, JsonSchema)]
struct Typed<'a> {
    /// Instruction from reset at which it began.
    at_insns: Option<u64>,
    /// Time from reset at which it began, by the chip's clock, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_ns: Option<u64>,
    /// Prompt after which it began, if it was timed neither by instructions nor by the clock.
    after: Option<&'a str>,
    /// Typed text; bytes that are not UTF-8 are replaced. Empty for changes outside of the chip.
    text: Cow<'a, str>,
    /// Changes outside of the chip, as `--set` takes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<String>,
}

/// Function, boot ROM, or range of addresses.
#[derive(Serialize, JsonSchema)]
struct Function {
    /// "function", "boot-rom", or "unnamed" for a range of addresses.
    kind: &'static str,
    /// Demangled name, or a name in square brackets.
    name: String,
    /// Name in the symbol table.
    linkage_name: String,
    /// First address.
    address: Option<Address>,
    /// Bytes of code, for a function.
    size_bytes: Option<u64>,
    /// Source file of the definition.
    file: Option<String>,
    /// Line in that file.
    line: Option<u32>,
    /// Instructions in it, inlined ones included, called ones not. Exact.
    self_insns: u64,
    /// Cycles of these instructions, if known. Exact, if `cycles_between` is null.
    cycles: Option<u64>,
    /// Fewest and most that these cycles can be, where the core is known to an interval only.
    cycles_between: Option<[u64; 2]>,
    /// Entries from outside. Exact.
    calls: u64,
    /// Samples taken in it.
    samples: u64,
}

/// Instruction of the image.
#[derive(Serialize, JsonSchema)]
struct Insn {
    /// Index of the vCPU.
    vcpu: usize,
    /// Address of the instruction.
    address: Address,
    /// Size of the instruction in bytes.
    size_bytes: u8,
    /// Executions.
    count: u64,
}

/// Code of one source line.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Line")]
struct JsonLine<'a> {
    /// Source file.
    file: &'a str,
    /// Line in that file.
    line: u32,
    /// First address.
    address: Address,
    /// Bytes of code.
    size_bytes: u64,
    /// Executions of its instructions. Exact.
    insns: u64,
}

/// Transfer of control.
#[derive(Serialize, JsonSchema)]
struct Arc {
    /// Index of the vCPU.
    vcpu: usize,
    /// Address of the instruction that transferred control.
    site: Address,
    /// Address that it went to.
    target: Address,
    /// Return address that the target saw.
    return_address: Option<Address>,
    /// "call", "tail-call", or "jump" inside a function.
    kind: &'static str,
    /// Number of transfers.
    count: u64,
}

/// Frame of call paths.
#[derive(Serialize, JsonSchema)]
struct Frame<'a> {
    /// "task", "irq", "function", "inlined" (into the frame around it), or "other".
    kind: &'static str,
    /// Name of the frame.
    name: &'a str,
    /// First address of the function, which tells namesakes apart.
    address: Option<Address>,
}

/// Call path: its parent's frames, and one more.
#[derive(Serialize, JsonSchema)]
struct Path {
    /// Enclosing path, an index into `paths`.
    parent: Option<u32>,
    /// Last frame, an index into `frames`.
    frame: u32,
    /// Instructions in that frame itself, without called functions. Exact for a function as a whole; divided among
    /// its callers as its samples are, or exact with --exact.
    insns: u64,
    /// Samples taken there.
    samples: u64,
    /// Cycles of these instructions, null without --cycles. Divided as the instructions are.
    cycles: Option<u64>,
}

/// Node of the exact call tree.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Node")]
struct JsonNode {
    /// Parent node, an index into `tree`.
    parent: Option<u32>,
    /// "root" (a task's outermost code), "function" or "exception".
    kind: &'static str,
    /// Task of a root, an index into `tasks`; null: none.
    task: Option<u32>,
    /// First address of a function; number of an exception, on RISC-V mcause.
    address: Option<Address>,
    /// Address in the caller at which inlined functions made the call; null: the caller made the call itself.
    via: Option<Address>,
    /// Instructions there and not in what it called.
    insns: u64,
    /// Entries; 0 for the part of a function, to which the function jumps.
    calls: u64,
    /// Cycles of its instructions, null without --cycles. Those up to an interrupt's vector are the exception's.
    cycles: Option<u64>,
}

/// Calls counted by the firmware's own runtime.
#[derive(Serialize, JsonSchema)]
struct InTargetArc {
    /// Return address that the callee saw, as stored.
    caller: Address,
    /// Address after the callee's call of the runtime, as stored.
    callee: Address,
    /// Number of calls.
    count: u64,
}

/// Amount of console output at an instruction.
#[derive(Serialize, JsonSchema)]
struct ConsoleMark {
    /// Instructions of the window.
    at_insns: u64,
    /// Bytes printed by then.
    bytes: u64,
}

/// Sample of the program counter.
#[derive(Serialize, JsonSchema)]
struct Sample {
    /// Index of the vCPU.
    vcpu: u32,
    /// Instructions of that vCPU since the window opened, this one included.
    at_insns: u64,
    /// Address of the instruction.
    address: Address,
    /// Running task, an index into `tasks`.
    task: Option<u32>,
    /// Call path, an index into `paths`.
    path: Option<u32>,
}

/// Address bin.
#[derive(Serialize, JsonSchema)]
struct Bin {
    /// First address.
    address: Address,
    /// Samples in it.
    samples: u64,
}

/// Task of the firmware's kernel.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Task")]
struct JsonTask {
    /// Name of the task; namesakes are numbered.
    name: String,
    /// Address of its control block.
    tcb: Address,
    /// Whether it is one of the kernel's idle tasks.
    is_idle: bool,
    /// Instructions while it was the running task, including interrupts during that time.
    insns: u64,
    /// Times that it was switched in, or polled.
    switches: u64,
    /// First address of the function that is called to resume the task, if it has no stack of its own.
    poll: Option<Address>,
    /// Lowest address of its stack.
    stack_start: Option<Address>,
    /// Address above its stack.
    stack_end: Option<Address>,
    /// Lowest stack pointer seen while it ran: without --exact the real one may be lower.
    deepest_sp: Option<Address>,
    /// Bytes at the low end of its stack that still hold the kernel's paint.
    painted_bytes: Option<u64>,
    /// Virtual time in nanoseconds that the machine slept while it was the running task, as far as that is known.
    slept_ns: u64,
    /// Nanoseconds by which the machine's clock moved on beyond the instructions while it was the running task.
    ahead_ns: u64,
    /// The first time that its stack pointer was below its stack.
    overflow: Option<JsonOverflow>,
}

/// A task's stack pointer below its stack.
#[derive(Serialize, JsonSchema)]
struct JsonOverflow {
    /// Address of the instruction that took it there, or at which the task was interrupted.
    address: Option<Address>,
    /// The stack pointer.
    sp: Address,
    /// Instructions of the window so far.
    at_insns: u64,
    /// Whether the instruction was seen, not only the stack pointer that the kernel saved at a switch of tasks.
    is_first: bool,
}

impl JsonOverflow {
    fn new(overflow: profile::Overflow) -> JsonOverflow {
        let profile::Overflow { pc, sp, at_insns, is_first } = overflow;
        JsonOverflow { address: pc.map(Address), sp: Address(sp), at_insns, is_first }
    }
}

/// A stack that no kernel describes, and that has left its memory.
#[derive(Serialize, JsonSchema)]
struct JsonStackLeft<'a> {
    /// The first time that it was seen.
    overflow: JsonOverflow,
    /// Lowest address of the stack.
    low: Address,
    /// Its size in bytes.
    bytes: Option<u64>,
    /// Variable that is the stack; null: it is the main stack.
    variable: Option<&'a str>,
    /// Whether it has met the C library's heap.
    is_heap: bool,
    /// Place that it has come to, as a phrase: "into .bss: variable counters".
    reached: Option<&'a str>,
}

impl JsonStackLeft<'_> {
    fn new(left: &profile::StackLeft) -> JsonStackLeft<'_> {
        JsonStackLeft {
            overflow: JsonOverflow::new(left.overflow),
            low: Address(left.low),
            bytes: left.bytes,
            variable: left.variable.as_deref(),
            is_heap: left.is_heap,
            reached: left.reached.as_deref(),
        }
    }
}

/// Durations of one repeated activity.
#[derive(Serialize, JsonSchema)]
struct Span {
    /// "call", "exception", "masked", "pendsv" or "between".
    kind: &'static str,
    /// Subject: the function, the exception, or FROM..UNTIL.
    name: String,
    /// Number of spans.
    count: u64,
    /// Instructions of the shortest span.
    min_insns: u64,
    /// Instructions of the longest span.
    max_insns: u64,
    /// Instructions of all spans together.
    sum_insns: u64,
    /// Least cycles of a span, null without --cycles.
    min_cycles: Option<u64>,
    /// Most cycles of a span, null without --cycles.
    max_cycles: Option<u64>,
    /// Cycles of all spans together, null without --cycles.
    sum_cycles: Option<u64>,
    /// Address where the longest span began.
    longest_at: Option<Address>,
}

/// Interrupt, or another exception.
#[derive(Serialize, JsonSchema)]
struct JsonInterrupt {
    /// Name of the interrupt.
    name: String,
    /// Instructions of its handlers.
    insns: u64,
    /// Cycles of them and of its entries, null without --cycles.
    cycles: Option<u64>,
}

/// Zone of the firmware.
#[derive(Serialize, JsonSchema)]
struct JsonZone {
    /// Name of the zone.
    name: String,
    /// Whether it is the calls of a function (`--zone-call`, ztest's test cases).
    is_call: bool,
    /// Counts of all contexts together.
    all: JsonZoneCounts,
    /// Counts by task and interrupt, most instructions first.
    contexts: Vec<JsonZoneContext>,
}

/// Counts of a zone in one task or interrupt.
#[derive(Serialize, JsonSchema)]
struct JsonZoneContext {
    /// Name of the task or interrupt.
    context: String,
    /// Counts in this task or interrupt.
    counts: JsonZoneCounts,
}

/// Counts and durations of a zone. Only instructions of its own task or interrupt count.
#[derive(Serialize, JsonSchema)]
struct JsonZoneCounts {
    /// Times that the zone was left by its end event.
    calls: u64,
    /// Instructions of all those times; overlapping times (recursion) count once.
    total_insns: u64,
    /// Instructions from its beginnings to its ends, with those of other tasks and of interrupts in between.
    elapsed_insns: u64,
    /// Instructions in the zone and in no zone within it.
    own_insns: u64,
    /// Instructions of the shortest time.
    min_insns: u64,
    /// Mean of the instructions, rounded.
    mean_insns: u64,
    /// Instructions of the longest time.
    max_insns: u64,
    /// Cycles as `total_insns`, null without --cycles.
    total_cycles: Option<u64>,
    /// Cycles as `elapsed_insns`, null without --cycles.
    elapsed_cycles: Option<u64>,
    /// Cycles as `own_insns`, null without --cycles.
    own_cycles: Option<u64>,
    /// Least cycles of a time, null without --cycles.
    min_cycles: Option<u64>,
    /// Mean of the cycles, rounded, null without --cycles.
    mean_cycles: Option<u64>,
    /// Most cycles of a time, null without --cycles.
    max_cycles: Option<u64>,
    /// Address where the longest time began.
    longest_at: Option<Address>,
    /// Number of times that were inside another time of the same zone.
    recursive: u64,
    /// Number of times that the zone was not ended: the code that began it was left without its end event.
    left: u64,
    /// End events that came where the zone had not begun.
    orphans: u64,
    /// Number of those end events whose zone had begun in another task or interrupt.
    foreign: u64,
    /// Times that were under way as the run ended.
    open: u64,
}

impl JsonZoneCounts {
    /// `has_cycles`: cycles are known.
    fn new(counts: &ZoneCounts, has_cycles: bool) -> JsonZoneCounts {
        let cycles = |cycles: u64| has_cycles.then_some(cycles);
        JsonZoneCounts {
            calls: counts.calls,
            total_insns: counts.total_insns,
            elapsed_insns: counts.elapsed_insns,
            own_insns: counts.own_insns,
            min_insns: counts.min_insns,
            mean_insns: counts.mean_insns(),
            max_insns: counts.max_insns,
            total_cycles: cycles(counts.cycles.total),
            elapsed_cycles: cycles(counts.cycles.elapsed),
            own_cycles: cycles(counts.cycles.own),
            min_cycles: cycles(counts.cycles.times.min),
            mean_cycles: cycles(counts.mean_cycles()),
            max_cycles: cycles(counts.cycles.times.max),
            longest_at: (counts.calls > 0).then_some(Address(counts.longest_at)),
            recursive: counts.recursive,
            left: counts.left,
            orphans: counts.orphans,
            foreign: counts.foreign,
            open: counts.open,
        }
    }
}

impl JsonZone {
    fn new(row: zone::Row, has_cycles: bool) -> JsonZone {
        let context = |(context, counts): (String, ZoneCounts)| JsonZoneContext {
            context,
            counts: JsonZoneCounts::new(&counts, has_cycles),
        };
        JsonZone {
            name: row.name,
            is_call: row.is_call,
            all: JsonZoneCounts::new(&row.all, has_cycles),
            contexts: row.contexts.into_iter().map(context).collect(),
        }
    }
}

/// Values of the marks of one name.
#[derive(Serialize, JsonSchema)]
struct JsonMark<'a> {
    /// Name of the marks.
    name: &'a str,
    /// Number of marks.
    count: u64,
    /// Lowest value.
    min: i64,
    /// Highest value.
    max: i64,
    /// Sum of all values, wrapping.
    sum: i64,
    /// Last value.
    last: i64,
}

/// Code that only waits.
#[derive(Serialize, JsonSchema)]
struct JsonWaiting {
    /// Functions that executed, as `delay()`.
    functions: Vec<String>,
    /// Instructions of them and of what they called, without interrupts in between.
    insns: u64,
    /// Whether that is exact: each call was seen to return, and none came within another.
    is_exact: bool,
}

impl JsonWaiting {
    fn new(profile: &Profile) -> Option<JsonWaiting> {
        let functions = time::waiting_functions(profile);
        let is_exact = profile.facts.waiting.unsure == 0;
        (!functions.is_empty()).then(|| JsonWaiting { functions, insns: time::waiting_insns(profile), is_exact })
    }
}

/// Phase or slice.
#[derive(Serialize, JsonSchema)]
struct JsonPart {
    /// Name of a phase, "[no phase]" before the first; number of a slice, from 0.
    name: String,
    /// Instructions.
    insns: u64,
    /// Cycles of these instructions, null without --cycles.
    cycles: Option<u64>,
    /// Samples taken of them.
    samples: u64,
    /// Instructions of the kernel's idle tasks, and of code that only waits.
    idle_insns: u64,
    /// Instructions of tasks and interrupts by name; interrupts during a task do not count as the task's.
    contexts: Vec<PartContext>,
    /// Executed functions, most instructions first.
    functions: Vec<PartFunction>,
}

/// Task or interrupt in a part of a run.
#[derive(Serialize, JsonSchema)]
struct PartContext {
    /// Name of the task or interrupt.
    name: String,
    /// Instructions of it in this part.
    insns: u64,
    /// Cycles of an interrupt in this part, its entries included; null for tasks, and without --cycles.
    cycles: Option<u64>,
}

/// Function in a part of a run.
#[derive(Serialize, JsonSchema)]
struct PartFunction {
    /// Name of the function.
    name: String,
    /// First address, which tells namesakes apart.
    address: Option<Address>,
    /// Instructions in it.
    self_insns: u64,
    /// Cycles of these instructions, null without --cycles.
    cycles: Option<u64>,
}

/// Data from which each phase and slice is summed up.
struct PartsOf<'a> {
    profile: &'a Profile,
    names: zone::ContextNames,
    by_function: part::ByFunction,
    samples: Vec<u64>,
}

impl PartsOf<'_> {
    fn new(profile: &Profile) -> PartsOf<'_> {
        let mut samples = vec![0; profile.parts.list.len()];
        profile.parts.samples.iter().for_each(|&(part, count)| samples[part as usize] += count);
        let (names, by_function) = (zone::ContextNames::new(profile), part::ByFunction::new(profile));
        PartsOf { profile, names, by_function, samples }
    }

    /// Sum of the selected parts, under a name.
    fn sum(&self, name: String, is_meant: impl Fn(&profile::part::Part) -> bool) -> JsonPart {
        let has_cycles = self.by_function.cycles.is_some();
        let mut contexts: BTreeMap<profile::zone::Context, (u64, u64)> = BTreeMap::new();
        let mut functions: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let mut cycles = 0_u64;
        let mut sum =
            JsonPart { name, insns: 0, cycles: None, samples: 0, idle_insns: 0, contexts: vec![], functions: vec![] };
        for (index, part) in self.profile.parts.list.iter().enumerate().filter(|(_, part)| is_meant(part)) {
            sum.insns += part.total_insns();
            sum.samples += self.samples[index];
            sum.idle_insns += part::idle_insns(self.profile, part);
            for &(task, insns) in &part.tasks {
                contexts.entry(profile::zone::Context::Task(task)).or_default().0 += insns;
            }
            for &(number, insns) in &part.exceptions {
                contexts.entry(profile::zone::Context::Exception(number)).or_default().0 += insns;
            }
            for &(number, cycles) in &part.cycles.exceptions {
                let (_, sum) = contexts.entry(profile::zone::Context::Exception(number)).or_default();
                *sum = sum.saturating_add(cycles);
            }
            for (&function, &insns) in &self.by_function.parts[index] {
                functions.entry(function).or_default().0 += insns;
            }
            for (&function, &cycles) in self.by_function.cycles.iter().flat_map(|cycles| &cycles[index]) {
                let (_, sum) = functions.entry(function).or_default();
                *sum = sum.saturating_add(cycles);
            }
            cycles = cycles.saturating_add(part.cycles.clock);
        }
        sum.cycles = has_cycles.then_some(cycles);
        let contexts = contexts.into_iter();
        let context = |(context, (insns, cycles)): (profile::zone::Context, (u64, u64))| {
            let is_interrupt = matches!(context, profile::zone::Context::Exception(_));
            let cycles = (has_cycles && is_interrupt).then_some(cycles);
            PartContext { name: self.names.name(context), insns, cycles }
        };
        sum.contexts = contexts.map(context).collect();
        let functions = functions.into_iter().map(|(function, (self_insns, cycles))| {
            let (name, start) = &self.by_function.functions[function as usize];
            let cycles = has_cycles.then_some(cycles);
            PartFunction { name: name.clone(), address: start.map(Address), self_insns, cycles }
        });
        sum.functions = functions.collect();
        sum.functions.sort_by_key(|function| std::cmp::Reverse(function.self_insns));
        sum
    }
}

/// Request of the firmware to the host.
#[derive(Serialize, JsonSchema)]
struct Note<'a> {
    /// Whether the request was denied; otherwise the host answered, and another host may answer differently.
    denied: bool,
    /// Semihosting operation number.
    operation: u32,
    /// Address of the instruction that asked.
    address: Address,
    /// Argument of the request.
    text: &'a str,
}

/// Comparison of measurements of one run by different means.
#[derive(Serialize, JsonSchema)]
struct CrossCheck {
    /// Whether all counts agree, as --strict demands.
    counts_agree: bool,
    /// Largest deviation of a function's samples from its exact share, in standard deviations.
    largest_z: f64,
    /// Names of the functions that keep step with the sampling period, so that their samples mislead.
    aliased: Vec<String>,
    /// Impossible findings: defects of the profiler.
    inconsistencies: Vec<String>,
    /// Result for the firmware's own counts, line by line; empty if it has none.
    in_target: Vec<String>,
}

impl<'a> Document<'a> {
    fn new(profile: &'a Profile, tree: &'a CallTree) -> Document<'a> {
        let table = functions::table(profile);
        let cross_check = CrossCheck::new(&crosscheck::check(profile, &table));
        let names = &profile.names;
        let executed = profile.insns();
        let vcpus = || profile.vcpus.iter().enumerate();
        let has_cycles = cycles::are_known(profile);
        Document {
            format: FORMAT,
            version: VERSION,
            facts: Facts::new(profile),
            total_insns: table.total_insns,
            total_cycles: table.total_cycles,
            total_cycles_between: cycles::interval(profile).map(<[u64; 2]>::from),
            cycle_core: profile.cycles.as_ref().and_then(|cycles| cycles.core.as_deref()),
            clock_hz: time::clock_hz(profile),
            total_samples: table.total_samples,
            cross_check,
            functions: List::of(move || {
                let never = functions::never_executed(profile, &table);
                table.rows.clone().into_iter().chain(never).map(|row| Function::new(profile, row))
            }),
            insns: List::of(move || {
                vcpus().flat_map(|(vcpu, counts)| counts.insns.iter().map(move |insn| Insn::new(vcpu, insn)))
            }),
            branches: List::of(move || {
                let branches = Branches::of(profile).into_list().into_iter();
                branches.map(move |branch| JsonBranch::new(profile, &branch))
            }),
            lines: lines(names, executed),
            arcs: List::of(move || arcs(profile)),
            frames: List::of(|| tree.members.iter().map(Frame::new)),
            paths: List::of(move || tree.paths.iter().map(move |path| Path::new(path, has_cycles))),
            tree: List::of(move || {
                let parts = ColdParts::of(profile);
                profile.tree.iter().map(move |node| JsonNode::new(node, &parts, has_cycles))
            }),
            in_target_arcs: List::of(|| {
                let table = profile.in_target.as_ref().and_then(InTarget::table);
                table.into_iter().flat_map(|table| &table.arcs).map(InTargetArc::new)
            }),
            heap: Heap::of(profile),
            timeline: EventList::of(profile),
            console_marks: List::of(|| {
                profile.console_marks.iter().map(|&(at_insns, bytes)| ConsoleMark { at_insns, bytes })
            }),
            samples: List::of(|| profile.samples.iter().zip(&tree.samples).map(Sample::new)),
            bin_bytes: profile.facts.bin_bytes,
            bins: List::of(|| {
                let bins = profile.bins().into_iter();
                bins.map(|(address, samples)| Bin { address: Address(address), samples })
            }),
            tasks: List::of(|| profile.tasks.iter().zip(task_names(profile)).map(JsonTask::new)),
            spans: List::of(move || {
                let exceptions = Exceptions::new(profile);
                profile.spans.iter().map(move |span| Span::new(profile, &exceptions, span))
            }),
            interrupts: List::of(move || {
                let names = Exceptions::new(profile);
                profile.zones.exceptions.iter().map(move |exception| JsonInterrupt {
                    name: names.name(exception.number, exception.handler),
                    insns: exception.insns,
                    cycles: has_cycles.then_some(exception.cycles),
                })
            }),
            zones: List::of(move || zone::table(profile).into_iter().map(move |row| JsonZone::new(row, has_cycles))),
            marks: List::of(|| profile.zones.marks.iter().map(|mark| JsonMark::new(profile, mark))),
            phases: List::of(|| {
                let of = PartsOf::new(profile);
                let phases = part::phases(profile).into_iter();
                phases.map(move |(phase, name)| of.sum(name, |part| part.phase == phase))
            }),
            slice_insns: profile.parts.slice_insns,
            slices: List::of(|| {
                let of = PartsOf::new(profile);
                (0..profile.parts.slices()).map(move |slice| of.sum(slice.to_string(), |part| part.slice == slice))
            }),
            notes: List::of(|| profile.notes.iter().map(Note::new)),
        }
    }
}

impl CrossCheck {
    fn new(check: &crosscheck::CrossCheck) -> CrossCheck {
        CrossCheck {
            counts_agree: check.counts_agree(),
            largest_z: check.largest_z,
            aliased: check.aliased.iter().map(|aliased| aliased.name.clone()).collect(),
            inconsistencies: check.inconsistencies.clone(),
            in_target: check.in_target_lines(None),
        }
    }
}

impl Function {
    fn new(profile: &Profile, row: Row) -> Function {
        let function = row.start.filter(|_| row.kind == functions::RowKind::Function);
        let cycles_between = row.cycles_between();
        Function {
            kind: match row.kind {
                functions::RowKind::Function => "function",
                functions::RowKind::BootRom => "boot-rom",
                functions::RowKind::Unnamed => "unnamed",
            },
            name: row.name,
            linkage_name: row.linkage_name,
            address: row.start.map(Address),
            size_bytes: function.and_then(|start| Some(profile.names.function_at(start)?.size_bytes)),
            file: row.file,
            line: row.line,
            self_insns: row.self_insns,
            cycles: row.cycles,
            cycles_between,
            calls: row.calls,
            samples: row.samples,
        }
    }
}

fn lines(names: &profile::Names, executed: BTreeMap<u64, u64>) -> List<'_, JsonLine<'_>> {
    List::of(move || {
        let insns = |code: &profile::LineCode| {
            executed.range(code.start..code.start.saturating_add(code.size_bytes)).map(|(_, count)| count).sum()
        };
        let lines: Vec<u64> = names.lines.iter().map(insns).collect();
        names.lines.iter().zip(lines).map(|(code, insns)| JsonLine {
            file: names.strings.get(code.file as usize).map_or("?", String::as_str),
            line: code.line,
            address: Address(code.start),
            size_bytes: code.size_bytes,
            insns,
        })
    })
}

impl<'a> Facts<'a> {
    fn new(profile: &'a Profile) -> Facts<'a> {
        let facts = &profile.facts;
        Facts {
            harness_version: &facts.harness_version,
            image: &facts.image_name,
            image_sha256: &facts.image_sha256,
            symbols_sha256: facts.symbols_sha256.as_deref(),
            producers: &profile.names.producers,
            qemu: &facts.qemu_version,
            tricks: facts.tricks.word(),
            machine: &facts.machine,
            chip: facts.chip.as_ref().map(Chip::new),
            cpu: facts.cpu.as_deref(),
            isa: &facts.isa,
            icount_shift: facts.icount_shift,
            load_addr: facts.load_addr.map(Address),
            load_bias: Address(facts.load_bias),
            entry: Address(facts.entry),
            vectors: facts.vectors.map(Address),
            stubs: facts.stubs.iter().map(Stub::new).collect(),
            qemu_args: &facts.qemu_args,
            firmware_args: &facts.firmware_args,
            period_insns: facts.period_insns,
            jitter_seed: facts.jitter_seed,
            for_insns: facts.window.for_insns,
            from: facts.window.from.as_deref(),
            until: facts.window.until.as_deref(),
            max_insns: facts.window.max_insns,
            resets: facts.window.resets,
            before_window_insns: facts.before_window_insns,
            input: facts.input.iter().map(Typed::new).collect(),
            max_depth: facts.max_depth,
            exact: !profile.tree.is_empty(),
            waits: facts.waits,
            slept_insns: facts.slept_insns,
            slept_ns: facts.slept_ns,
            waiting: JsonWaiting::new(profile),
            unseen_switches: facts.unseen_switches,
            stack_left: facts.stack_left.as_ref().map(JsonStackLeft::new),
            end: match facts.end {
                End::For => "for",
                End::Until => "until",
                End::Exit { .. } => "exit",
                End::Reset { .. } => "reset",
                End::LockUp { .. } => "lock-up",
                End::Asleep { .. } => "asleep",
                End::Stuck { .. } => "stuck",
                End::Faulting { .. } => "faulting",
                End::EndlessLoop { .. } => "endless-loop",
                End::Restarts { .. } => "restarts",
                End::StackOverflow { .. } => "stack-overflow",
                End::Denied { .. } => "denied",
                End::UnknownCall { .. } => "unknown-call",
                End::MaxInsns => "max-insns",
                End::Output { .. } => "output",
                End::Timeout => "timeout",
                End::Interrupted => "interrupted",
                End::DiskFull => "disk-full",
                End::EmulatorFailed { .. } => "emulator-failed",
            },
            exit_status: match facts.end {
                End::Exit { status, .. } => Some(status),
                _ => None,
            },
            end_address: facts.end.pc().map(Address),
            end_text: describe_end(profile),
        }
    }
}

impl<'a> Typed<'a> {
    fn new(input: &'a Input) -> Typed<'a> {
        let (at_insns, at_ns, after) = match &input.when {
            When::At(insns) => (Some(*insns), None, None),
            When::AtNs(ns) => (None, Some(*ns), None),
            When::After(prompt) => (None, None, Some(prompt.as_str())),
        };
        let (text, set) = match &input.what {
            What::Text(bytes) => (String::from_utf8_lossy(bytes), None),
            What::Outside(changes) => (Cow::Borrowed(""), Some(changes.to_string())),
        };
        Typed { at_insns, at_ns, after, text, set }
    }
}

impl Insn {
    fn new(vcpu: usize, insn: &profile::InsnCount) -> Insn {
        Insn { vcpu, address: Address(insn.pc), size_bytes: insn.size_bytes, count: insn.count }
    }
}

/// Transfers of control, by CPU.
fn arcs(profile: &Profile) -> impl Iterator<Item = Arc> {
    let parts = ColdParts::of(profile);
    let cpus = profile.vcpus.iter().enumerate();
    let arcs = cpus.flat_map(|(vcpu, counts)| counts.arcs.iter().map(move |arc| (vcpu, arc)));
    arcs.map(move |(vcpu, arc)| Arc::new(profile, &parts, vcpu, arc))
}

impl Arc {
    fn new(profile: &Profile, parts: &ColdParts, vcpu: usize, arc: &profile::Arc) -> Arc {
        let kind = match (arc.links, functions::is_call(profile, parts, arc)) {
            (true, _) => "call",
            (false, true) => "tail-call",
            (false, false) => "jump",
        };
        Arc {
            vcpu,
            site: Address(arc.site),
            target: Address(arc.target),
            return_address: arc.return_addr.map(Address),
            kind,
            count: arc.count,
        }
    }
}

impl<'a> Frame<'a> {
    fn new(member: &'a calltree::Member) -> Frame<'a> {
        let kind = match member.frame.role {
            FrameRole::Task => "task",
            FrameRole::Irq => "irq",
            FrameRole::Function => "function",
            FrameRole::Inlined => "inlined",
            FrameRole::Other => "other",
        };
        Frame { kind, name: &member.frame.name, address: member.start.map(Address) }
    }
}

impl Path {
    fn new(path: &calltree::Path, has_cycles: bool) -> Path {
        let &calltree::Path { parent, member, insns, samples, cycles } = path;
        Path { parent: parent.checked_sub(1), frame: member, insns, samples, cycles: has_cycles.then_some(cycles) }
    }
}

impl JsonNode {
    fn new(node: &profile::Node, parts: &ColdParts, has_cycles: bool) -> JsonNode {
        let (kind, task, address) = match node.kind {
            NodeKind::Root { task } => ("root", task.checked_sub(1), None),
            NodeKind::Function { entry } => ("function", None, Some(Address(entry))),
            NodeKind::Exception { number } => ("exception", None, Some(Address(number))),
        };
        let &profile::Node { parent, via, insns, calls, cycles, .. } = node;
        // A function jumps to its part.
        let calls =
            if matches!(node.kind, NodeKind::Function { entry } if parts.contains(entry)) { 0 } else { calls };
        let cycles = has_cycles.then_some(cycles);
        JsonNode { parent: parent.checked_sub(1), kind, task, address, via: via.map(Address), insns, calls, cycles }
    }
}

impl InTargetArc {
    fn new(arc: &profile::in_target::TableArc) -> InTargetArc {
        InTargetArc { caller: Address(arc.caller), callee: Address(arc.callee), count: arc.count }
    }
}

impl Sample {
    fn new((sample, path): (&wire::sample::Sample, &u32)) -> Sample {
        Sample {
            vcpu: sample.vcpu,
            at_insns: sample.at_insns,
            address: Address(sample.pc),
            task: sample.task.checked_sub(1),
            path: path.checked_sub(1),
        }
    }
}

impl<'a> JsonMark<'a> {
    fn new(profile: &'a Profile, mark: &profile::zone::Mark) -> JsonMark<'a> {
        let &profile::zone::Mark { name, count, min, max, sum, last } = mark;
        JsonMark { name: profile.zones.name(name), count, min, max, sum, last }
    }
}

impl<'a> Note<'a> {
    fn new(note: &'a profile::Note) -> Note<'a> {
        Note { denied: note.denied, operation: note.operation, address: Address(note.pc), text: &note.text }
    }
}

impl JsonTask {
    fn new((task, name): (&profile::Task, String)) -> JsonTask {
        JsonTask {
            name,
            tcb: Address(task.tcb),
            is_idle: task.is_idle,
            insns: task.insns,
            switches: task.switches,
            poll: task.poll.map(Address),
            stack_start: task.stack_start.map(Address),
            stack_end: task.stack_end.map(Address),
            deepest_sp: task.deepest_sp.map(Address),
            painted_bytes: task.painted_bytes,
            slept_ns: task.slept_ns,
            ahead_ns: task.ahead_ns,
            overflow: task.overflow.map(JsonOverflow::new),
        }
    }
}

impl Span {
    fn new(profile: &Profile, exceptions: &Exceptions<'_>, span: &profile::Span) -> Span {
        let (kind, name) = match span.kind {
            SpanKind::Call { entry } => ("call", Owner::of(profile, entry).to_string()),
            SpanKind::Exception { number } => ("exception", exceptions.name(number, span.longest_at)),
            SpanKind::Masked => ("masked", "interrupts masked".to_owned()),
            SpanKind::PendSv => ("pendsv", "PendSV pending".to_owned()),
            SpanKind::Between { from, until } => ("between", between(profile, from, until)),
        };
        let has_cycles = cycles::are_known(profile);
        let cycles = |cycles: u64| has_cycles.then_some(cycles);
        Span {
            kind,
            name,
            count: span.count,
            min_insns: span.min_insns,
            max_insns: span.max_insns,
            sum_insns: span.sum_insns,
            min_cycles: cycles(span.cycles.min),
            max_cycles: cycles(span.cycles.max),
            sum_cycles: cycles(span.cycles.sum),
            longest_at: (span.count > 0).then_some(Address(span.longest_at)),
        }
    }
}
