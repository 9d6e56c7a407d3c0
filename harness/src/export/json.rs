//! Everything that a profile knows, as JSON: the stable interface for other people's programs.
//!
//! Its JSON Schema is `harness export --schema`, made from the types here, which are those of the format and
//! no others: what the profile calls its fields may change, what is written here only with [`VERSION`].
//! Addresses are strings in hexadecimal, since JSON's readers keep 53 bits of a number; counts are numbers.
//! Things refer to each other by their place in a list, from 0.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::Result;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use wire::definition::NodeKind;

use super::json_heap::Heap;
use super::json_timeline::Timeline;
use super::settings::Settings;
use crate::analysis::calltree::{self, CallTree};
use crate::analysis::crosscheck;
use crate::analysis::describe::describe_end;
use crate::analysis::functions::{self, Row};
use crate::analysis::place::{Place, between};
use crate::analysis::stacks::{Exceptions, FrameRole, task_names};
use crate::analysis::{part, zone};
use crate::profile::input::{Input, When};
use crate::profile::zone::ZoneCounts;
use crate::profile::{self, End, InTarget, Profile, SpanKind};

/// Version of the format; it grows when something is removed or changes its meaning.
pub const VERSION: u32 = 1;

/// The name of the format.
pub const FORMAT: &str = "harness-profile";

/// Writes the profile, item by item.
///
/// # Errors
/// What `out` reports.
pub fn write(profile: &Profile, settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let tree = CallTree::new(profile, settings.view);
    // As an error of `out`, which a closed pipe is known by.
    serde_json::to_writer(&mut *out, &Document::new(profile, &tree)).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// The JSON Schema of what is written.
///
/// # Errors
/// None that is known.
pub fn schema() -> Result<String> {
    Ok(serde_json::to_string_pretty(&schemars::schema_for!(Document<'_>))? + "\n")
}

/// An address, as `0x80000000`.
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

/// A list that is made as it is written.
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

/// A profile of one run of one firmware image.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Profile")]
struct Document<'a> {
    /// Always "harness-profile".
    format: &'static str,
    /// Version of the format; it grows when something is removed or changes its meaning.
    version: u32,
    /// What was run, how, and how it ended: all that the rest depends on.
    facts: Facts<'a>,
    /// Instructions of the window. Exact.
    total_insns: u64,
    /// Samples taken of them.
    total_samples: u64,
    /// Functions that executed (or what stands for one: the boot ROM, a range of addresses without a name),
    /// most instructions first; then all other functions of the image, by address.
    functions: List<'a, Function>,
    /// Executions of each instruction that executed, by vCPU and address. Exact.
    insns: List<'a, Insn>,
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
    /// How long handlers, masked interrupts, calls (with --exact) and what --span names took. Exact.
    spans: List<'a, Span>,
    /// What the firmware names itself by ZONE of zone.h, most instructions first. Exact.
    zones: List<'a, JsonZone>,
    /// What it names by MARK, by name. Exact.
    marks: List<'a, JsonMark<'a>>,
    /// What it names by PHASE, in the order in which they first began; all add up to the whole. Exact.
    phases: List<'a, JsonPart>,
    /// Instructions of a slice, where --slice was given.
    slice_insns: Option<u64>,
    /// The slices in their order; all add up to the whole. Exact.
    slices: List<'a, JsonPart>,
    /// What the firmware asked of the host.
    notes: List<'a, Note<'a>>,
    /// The samples held against the exact counts, and the firmware's own counts against them.
    cross_check: CrossCheck,
    /// What the firmware counted itself; empty where it does not, or its runtime keeps no arcs.
    in_target_arcs: List<'a, InTargetArc>,
    /// How much of the console was printed by when, where a suite asked for it.
    console_marks: List<'a, ConsoleMark>,
    /// What was allocated and freed; null without --heap.
    heap: Option<Heap>,
    /// What happened when; null without --timeline.
    timeline: Option<Timeline<'a>>,
}

/// A function that was made to return at once.
#[derive(Serialize, JsonSchema)]
struct Stub<'a> {
    /// Its name.
    name: &'a str,
    /// Its first address.
    address: Address,
    /// What it returns; null: nothing.
    returns: Option<i64>,
}

impl<'a> Stub<'a> {
    fn new(stub: &'a profile::Stub) -> Stub<'a> {
        Stub { name: &stub.name, address: Address(stub.address), returns: stub.returns }
    }
}

/// The chip that QEMU's machine was completed to.
#[derive(Serialize, JsonSchema)]
struct Chip<'a> {
    /// Its name.
    name: &'a str,
    /// SHA-256 of what its file comes to.
    sha256: &'a str,
    /// What is not as in the chip, each one sentence.
    differs: &'a [String],
    /// Registers that were accessed and that nothing in the file models, those that were most first.
    unmodelled: Vec<Unmodelled<'a>>,
}

/// A register that nothing in the chip file models.
#[derive(Serialize, JsonSchema)]
struct Unmodelled<'a> {
    /// Its name, as far as the file knows it.
    name: &'a str,
    /// Its address.
    address: Address,
    /// The first instruction that accessed it.
    pc: Address,
    /// How often it was read.
    reads: u64,
    /// How often it was written.
    writes: u64,
}

impl<'a> Chip<'a> {
    fn new(chip: &'a profile::Chip) -> Chip<'a> {
        let unmodelled = chip.unmodelled.iter().map(|row| Unmodelled {
            name: &row.name,
            address: Address(row.address),
            pc: Address(row.pc),
            reads: row.reads,
            writes: row.writes,
        });
        let profile::Chip { name, sha256, differs, .. } = chip;
        Chip { name, sha256, differs, unmodelled: unmodelled.collect() }
    }
}

/// What was run, how, and how it ended.
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
    /// Compilers that made the image and their options, as its debug information has them.
    producers: &'a [String],
    /// QEMU's version.
    qemu: &'a str,
    /// QEMU machine.
    machine: &'a str,
    /// The chip that it was completed to.
    chip: Option<Chip<'a>>,
    /// QEMU CPU, when not the machine's own.
    cpu: Option<&'a str>,
    /// Instruction set.
    isa: &'a str,
    /// One instruction takes 2^icount_shift ns of the firmware's time.
    icount_shift: u8,
    /// Where a raw binary was loaded.
    load_addr: Option<Address>,
    /// Bytes added to the image's addresses.
    load_bias: Address,
    /// Address of the first instruction.
    entry: Address,
    /// --vectors: the vector table that the processor starts from, where the machine would look elsewhere.
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
    /// --until: function that closes it.
    until: Option<&'a str>,
    /// --max-insns: where the run has failed.
    max_insns: Option<u64>,
    /// Instructions before the window opened.
    before_window_insns: u64,
    /// What was typed on the console.
    input: Vec<Typed<'a>>,
    /// Most frames of a call stack; null: none were taken.
    max_depth: Option<u32>,
    /// Whether every call and return was followed (--exact): instructions and calls of paths are exact.
    exact: bool,
    /// How often the firmware waited for an interrupt: executions of `wfi`, and of `wfe` where a processor would sleep.
    waits: u64,
    /// Instructions executed where a processor would have slept in a `wfe`, in none of the kernel's idle tasks.
    slept_insns: u64,
    /// Switches between tasks that were only noticed later: counts per task are then estimates.
    unseen_switches: u64,
    /// How the run ended.
    end: &'static str,
    /// The firmware's exit status, where it exited.
    exit_status: Option<u32>,
    /// Address of the instruction at which it ended, where there is one.
    end_address: Option<Address>,
    /// How it ended, in words.
    end_text: String,
}

/// A text typed on the console.
#[derive(Serialize, JsonSchema)]
struct Typed<'a> {
    /// Instruction from reset at which it began.
    at_insns: Option<u64>,
    /// Or the prompt after which it began.
    after: Option<&'a str>,
    /// What was typed; bytes that are no UTF-8 are replaced.
    text: Cow<'a, str>,
}

/// A function, or what stands for one.
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
    /// Bytes of code, where it is a function.
    size_bytes: Option<u64>,
    /// Source file of the definition.
    file: Option<String>,
    /// Line in that file.
    line: Option<u32>,
    /// Instructions in it, inlined ones included, called ones not. Exact.
    self_insns: u64,
    /// Entries from outside. Exact.
    calls: u64,
    /// Samples taken in it.
    samples: u64,
}

/// One instruction of the image.
#[derive(Serialize, JsonSchema)]
struct Insn {
    /// Index of the vCPU.
    vcpu: usize,
    /// Its address.
    address: Address,
    /// Its size.
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
    /// Line in it.
    line: u32,
    /// First address.
    address: Address,
    /// Bytes of code.
    size_bytes: u64,
    /// Executions of its instructions. Exact.
    insns: u64,
}

/// A transfer of control.
#[derive(Serialize, JsonSchema)]
struct Arc {
    /// Index of the vCPU.
    vcpu: usize,
    /// Address of the instruction that transferred control.
    site: Address,
    /// Where it went.
    target: Address,
    /// Return address that the target saw.
    return_address: Option<Address>,
    /// "call", "tail-call", or "jump" inside a function.
    kind: &'static str,
    /// How often.
    count: u64,
}

/// One frame of call paths.
#[derive(Serialize, JsonSchema)]
struct Frame<'a> {
    /// "task", "irq", "function", "inlined" (into the frame around it), or "other".
    kind: &'static str,
    /// What it is called.
    name: &'a str,
    /// First address of the function, which tells namesakes apart.
    address: Option<Address>,
}

/// A call path: that of its parent, and one more frame.
#[derive(Serialize, JsonSchema)]
struct Path {
    /// The path around it, an index into `paths`.
    parent: Option<u32>,
    /// Its last frame, an index into `frames`.
    frame: u32,
    /// Instructions in that frame and not in one that it called. Exact for a function as a whole; divided over
    /// its callers as its samples are, or exact with --exact.
    insns: u64,
    /// Samples taken there.
    samples: u64,
}

/// One place in the exact call tree.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Node")]
struct JsonNode {
    /// The place around it, an index into `tree`.
    parent: Option<u32>,
    /// "root" (a task's outermost code), "function" or "exception".
    kind: &'static str,
    /// Of a root: the task, an index into `tasks`; null: none.
    task: Option<u32>,
    /// Of a function: its first address. Of an exception: its number, on RISC-V mcause.
    address: Option<Address>,
    /// Instructions there and not in what it called.
    insns: u64,
    /// Entries.
    calls: u64,
}

/// Calls as the firmware's own runtime counted them.
#[derive(Serialize, JsonSchema)]
struct InTargetArc {
    /// Return address that the callee saw, as stored.
    caller: Address,
    /// Address after the callee's call of the runtime, as stored.
    callee: Address,
    /// How often.
    count: u64,
}

/// How much of the console was printed by an instruction.
#[derive(Serialize, JsonSchema)]
struct ConsoleMark {
    /// Instructions of the window.
    at_insns: u64,
    /// Bytes printed by then.
    bytes: u64,
}

/// One sample.
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
    /// Its call path, an index into `paths`.
    path: Option<u32>,
}

/// An address bin.
#[derive(Serialize, JsonSchema)]
struct Bin {
    /// First address.
    address: Address,
    /// Samples in it.
    samples: u64,
}

/// A task of the firmware's kernel.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Task")]
struct JsonTask {
    /// Its name; namesakes are numbered.
    name: String,
    /// Address of its control block.
    tcb: Address,
    /// Whether it is one of the kernel's idle tasks.
    is_idle: bool,
    /// Instructions while it was the running one, interrupts among them included.
    insns: u64,
    /// How often it was switched in, or polled.
    switches: u64,
    /// First address of the function that is called each time that it goes on, where it has no stack of its own.
    poll: Option<Address>,
    /// Lowest address of its stack.
    stack_start: Option<Address>,
    /// Address above its stack.
    stack_end: Option<Address>,
    /// Lowest stack pointer seen in it: all that it used with --exact, else at least that.
    deepest_sp: Option<Address>,
    /// Bytes at the low end of its stack that still hold the kernel's paint.
    painted_bytes: Option<u64>,
}

/// Something that came again and again, and how long it took.
#[derive(Serialize, JsonSchema)]
struct Span {
    /// "call", "exception", "masked", "pendsv" or "between".
    kind: &'static str,
    /// What it is about: the function, the exception, or FROM..UNTIL.
    name: String,
    /// How often there was one.
    count: u64,
    /// Instructions of the shortest.
    min_insns: u64,
    /// Instructions of the longest.
    max_insns: u64,
    /// Instructions of all together.
    sum_insns: u64,
    /// Where the longest began.
    longest_at: Option<Address>,
}

/// A zone.
#[derive(Serialize, JsonSchema)]
struct JsonZone {
    /// Its name.
    name: String,
    /// All of it.
    all: JsonZoneCounts,
    /// The same by task and interrupt, most instructions first.
    contexts: Vec<JsonZoneContext>,
}

/// A zone in one task or interrupt.
#[derive(Serialize, JsonSchema)]
struct JsonZoneContext {
    /// The name of the task or interrupt.
    context: String,
    /// What was there.
    counts: JsonZoneCounts,
}

/// How often a zone was there, and how long. Instructions are those of its own task or interrupt.
#[derive(Serialize, JsonSchema)]
struct JsonZoneCounts {
    /// How often it was left by its end.
    calls: u64,
    /// Instructions of all those times; what is in two at once (recursion) is in it once.
    total_insns: u64,
    /// Instructions in no zone within.
    own_insns: u64,
    /// Instructions of the shortest.
    min_insns: u64,
    /// Mean of the instructions, rounded down.
    mean_insns: u64,
    /// Instructions of the longest.
    max_insns: u64,
    /// Where the longest began.
    longest_at: Option<Address>,
    /// How many of them were in another time of the same zone.
    recursive: u64,
    /// How often what had begun it was left without its end.
    left: u64,
    /// How often its end came where it had not begun.
    orphans: u64,
    /// How many of those had begun in another task or interrupt.
    foreign: u64,
    /// How many were under way as the run ended.
    open: u64,
}

impl JsonZoneCounts {
    fn new(counts: &ZoneCounts) -> JsonZoneCounts {
        JsonZoneCounts {
            calls: counts.calls,
            total_insns: counts.total_insns,
            own_insns: counts.own_insns,
            min_insns: counts.min_insns,
            mean_insns: counts.mean_insns(),
            max_insns: counts.max_insns,
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
    fn new(row: zone::Row) -> JsonZone {
        let context = |(context, counts): (String, ZoneCounts)| JsonZoneContext {
            context,
            counts: JsonZoneCounts::new(&counts),
        };
        JsonZone {
            name: row.name,
            all: JsonZoneCounts::new(&row.all),
            contexts: row.contexts.into_iter().map(context).collect(),
        }
    }
}

/// Values of one name.
#[derive(Serialize, JsonSchema)]
struct JsonMark<'a> {
    /// The name.
    name: &'a str,
    /// How many there were.
    count: u64,
    /// The lowest.
    min: i64,
    /// The highest.
    max: i64,
    /// The sum of all, wrapping.
    sum: i64,
    /// The last one.
    last: i64,
}

/// A phase or a slice.
#[derive(Serialize, JsonSchema)]
struct JsonPart {
    /// Of a phase its name, "[no phase]" before the first; of a slice its number, from 0.
    name: String,
    /// Instructions.
    insns: u64,
    /// Samples taken of them.
    samples: u64,
    /// Instructions of the kernel's idle tasks.
    idle_insns: u64,
    /// Instructions of tasks and interrupts by name; of tasks without the interrupts among them.
    contexts: Vec<PartContext>,
    /// Functions that executed, most instructions first.
    functions: Vec<PartFunction>,
}

/// A task or an interrupt in a part of a run.
#[derive(Serialize, JsonSchema)]
struct PartContext {
    /// Its name.
    name: String,
    /// Its instructions there.
    insns: u64,
}

/// A function in a part of a run.
#[derive(Serialize, JsonSchema)]
struct PartFunction {
    /// Its name.
    name: String,
    /// Its first address, which tells namesakes apart.
    address: Option<Address>,
    /// Instructions in it.
    self_insns: u64,
}

/// All that parts of a run are made from.
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

    /// The parts that are meant, together.
    fn sum(&self, name: String, is_meant: impl Fn(&profile::part::Part) -> bool) -> JsonPart {
        let mut contexts: BTreeMap<profile::zone::Context, u64> = BTreeMap::new();
        let mut functions: BTreeMap<u32, u64> = BTreeMap::new();
        let mut sum = JsonPart { name, insns: 0, samples: 0, idle_insns: 0, contexts: vec![], functions: vec![] };
        for (index, part) in self.profile.parts.list.iter().enumerate().filter(|(_, part)| is_meant(part)) {
            sum.insns += part.total_insns();
            sum.samples += self.samples[index];
            sum.idle_insns += part::idle_insns(self.profile, part);
            for &(task, insns) in &part.tasks {
                *contexts.entry(profile::zone::Context::Task(task)).or_default() += insns;
            }
            for &(number, insns) in &part.exceptions {
                *contexts.entry(profile::zone::Context::Exception(number)).or_default() += insns;
            }
            for (&function, &insns) in &self.by_function.parts[index] {
                *functions.entry(function).or_default() += insns;
            }
        }
        let contexts = contexts.into_iter();
        sum.contexts =
            contexts.map(|(context, insns)| PartContext { name: self.names.name(context), insns }).collect();
        let functions = functions.into_iter().map(|(function, self_insns)| {
            let (name, start) = &self.by_function.functions[function as usize];
            PartFunction { name: name.clone(), address: start.map(Address), self_insns }
        });
        sum.functions = functions.collect();
        sum.functions.sort_by_key(|function| std::cmp::Reverse(function.self_insns));
        sum
    }
}

/// Something that the firmware asked of the host.
#[derive(Serialize, JsonSchema)]
struct Note<'a> {
    /// Whether it was denied; otherwise the host answered, and another host may answer otherwise.
    denied: bool,
    /// Semihosting operation number.
    operation: u32,
    /// Address of the instruction that asked.
    address: Address,
    /// What it asked for.
    text: &'a str,
}

/// Measurements of one run by different means, held against each other.
#[derive(Serialize, JsonSchema)]
struct CrossCheck {
    /// Whether all counts agree; what --strict asks for.
    counts_agree: bool,
    /// The largest deviation of a function's samples from its exact share, in standard deviations.
    largest_z: f64,
    /// Names of the functions that keep step with the sampling period: their samples mislead.
    aliased: Vec<String>,
    /// What can never be: defects of the profiler.
    inconsistencies: Vec<String>,
    /// What came of the firmware's own counts, line by line; empty where it has none.
    in_target: Vec<String>,
}

impl<'a> Document<'a> {
    fn new(profile: &'a Profile, tree: &'a CallTree) -> Document<'a> {
        let table = functions::table(profile);
        let check = crosscheck::check(profile, &table);
        let cross_check = CrossCheck {
            counts_agree: check.counts_agree(),
            largest_z: check.largest_z,
            aliased: check.aliased.iter().map(|aliased| aliased.name.clone()).collect(),
            inconsistencies: check.inconsistencies.clone(),
            in_target: check.in_target_lines(None),
        };
        let names = &profile.names;
        let executed = profile.insns();
        let vcpus = || profile.vcpus.iter().enumerate();
        Document {
            format: FORMAT,
            version: VERSION,
            facts: Facts::new(profile),
            total_insns: table.total_insns,
            total_samples: table.total_samples,
            cross_check,
            functions: List::of(move || {
                let never = functions::never_executed(profile, &table);
                table.rows.clone().into_iter().chain(never).map(|row| Function::new(profile, row))
            }),
            insns: List::of(move || {
                vcpus().flat_map(|(vcpu, counts)| {
                    counts.insns.iter().map(move |insn| Insn {
                        vcpu,
                        address: Address(insn.pc),
                        size_bytes: insn.size_bytes,
                        count: insn.count,
                    })
                })
            }),
            lines: lines(names, executed),
            arcs: List::of(move || {
                vcpus()
                    .flat_map(move |(vcpu, counts)| counts.arcs.iter().map(move |arc| Arc::new(profile, vcpu, arc)))
            }),
            frames: List::of(|| tree.members.iter().map(Frame::new)),
            paths: List::of(|| {
                tree.paths.iter().map(|path| Path {
                    parent: path.parent.checked_sub(1),
                    frame: path.member,
                    insns: path.insns,
                    samples: path.samples,
                })
            }),
            tree: List::of(|| profile.tree.iter().map(JsonNode::new)),
            in_target_arcs: List::of(|| {
                let table = profile.in_target.as_ref().and_then(InTarget::table);
                table.into_iter().flat_map(|table| &table.arcs).map(|arc| InTargetArc {
                    caller: Address(arc.caller),
                    callee: Address(arc.callee),
                    count: arc.count,
                })
            }),
            heap: Heap::of(profile),
            timeline: Timeline::of(profile),
            console_marks: List::of(|| {
                profile.console_marks.iter().map(|&(at_insns, bytes)| ConsoleMark { at_insns, bytes })
            }),
            samples: List::of(|| {
                profile.samples.iter().zip(&tree.samples).map(|(sample, path)| Sample {
                    vcpu: sample.vcpu,
                    at_insns: sample.at_insns,
                    address: Address(sample.pc),
                    task: sample.task.checked_sub(1),
                    path: path.checked_sub(1),
                })
            }),
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
            zones: List::of(|| zone::table(profile).into_iter().map(JsonZone::new)),
            marks: List::of(|| {
                profile.zones.marks.iter().map(|mark| JsonMark {
                    name: profile.zones.name(mark.name),
                    count: mark.count,
                    min: mark.min,
                    max: mark.max,
                    sum: mark.sum,
                    last: mark.last,
                })
            }),
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
            notes: List::of(|| {
                profile.notes.iter().map(|note| Note {
                    denied: note.denied,
                    operation: note.operation,
                    address: Address(note.pc),
                    text: &note.text,
                })
            }),
        }
    }
}

impl Function {
    fn new(profile: &Profile, row: Row) -> Function {
        let function = row.start.filter(|_| row.kind == functions::RowKind::Function);
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
            before_window_insns: facts.before_window_insns,
            input: facts.input.iter().map(Typed::new).collect(),
            max_depth: facts.max_depth,
            exact: !profile.tree.is_empty(),
            waits: facts.waits,
            slept_insns: facts.slept_insns,
            unseen_switches: facts.unseen_switches,
            end: match facts.end {
                End::For => "for",
                End::Until => "until",
                End::Exit { .. } => "exit",
                End::Reset { .. } => "reset",
                End::LockUp { .. } => "lock-up",
                End::Asleep { .. } => "asleep",
                End::Stuck { .. } => "stuck",
                End::Faulting { .. } => "faulting",
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
        let (at_insns, after) = match &input.when {
            When::At(insns) => (Some(*insns), None),
            When::After(prompt) => (None, Some(prompt.as_str())),
        };
        Typed { at_insns, after, text: String::from_utf8_lossy(&input.bytes) }
    }
}

impl Arc {
    fn new(profile: &Profile, vcpu: usize, arc: &profile::Arc) -> Arc {
        let kind = match (arc.links, functions::is_call(profile, arc)) {
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

impl JsonNode {
    fn new(node: &profile::Node) -> JsonNode {
        let (kind, task, address) = match node.kind {
            NodeKind::Root { task } => ("root", task.checked_sub(1), None),
            NodeKind::Function { entry } => ("function", None, Some(Address(entry))),
            NodeKind::Exception { number } => ("exception", None, Some(Address(number))),
        };
        JsonNode { parent: node.parent.checked_sub(1), kind, task, address, insns: node.insns, calls: node.calls }
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
        }
    }
}

impl Span {
    fn new(profile: &Profile, exceptions: &Exceptions<'_>, span: &profile::Span) -> Span {
        let (kind, name) = match span.kind {
            SpanKind::Call { entry } => ("call", Place::of(profile, entry).to_string()),
            SpanKind::Exception { number } => ("exception", exceptions.name(number, span.longest_at)),
            SpanKind::Masked => ("masked", "interrupts masked".to_owned()),
            SpanKind::PendSv => ("pendsv", "PendSV pending".to_owned()),
            SpanKind::Between { from, until } => ("between", between(profile, from, until)),
        };
        Span {
            kind,
            name,
            count: span.count,
            min_insns: span.min_insns,
            max_insns: span.max_insns,
            sum_insns: span.sum_insns,
            longest_at: (span.count > 0).then_some(Address(span.longest_at)),
        }
    }
}
