// SPDX-License-Identifier: MIT OR Apache-2.0
//! pprof's format: `profile.proto` (<https://github.com/google/pprof/blob/main/proto/profile.proto>), compressed with
//! gzip.
//!
//! Samples have three values: samples, instructions and calls; and a fourth, cycles, where they are known. Instructions
//! and cycles are exact by line of each function. They are divided among callers as the samples are (see
//! [`crate::analysis::attribution`]), or exactly with the exact tree.
//! Calls are exact: each pair of a call site and a function is a sample of its own, which has calls alone. If phases
//! are separated, each phase is a label, and a path that occurs in several phases is a sample in each.
//!
//! Some facts have no field in pprof. Tasks are labels (`-tagfocus task=NAME`; `-tagroot task` makes them roots), as
//! threads are in pprof. An interrupt is a frame; the innermost interrupt is a label as well. The reason why a stack is
//! incomplete is a frame. A location is a line of a function with executed code, or a line with a call site. Its
//! address is the first of that line, or the last byte of the call. pprof's source view sums up by address and takes
//! the line of one location for all locations with the same address. So no two locations share an address, and the
//! location of a called function has none.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use prost::Message;
use wire::definition::{FrameKind, NodeKind};

use crate::analysis::attribution::{Context, Leaves};
use crate::analysis::cold_part::ColdParts;
use crate::analysis::cycles;
use crate::analysis::owner::Owner;
use crate::analysis::part::by_phase;
use crate::analysis::stacks::{self, Exceptions, NO_FUNCTION, NO_TASK, NOT_SAMPLED};
use crate::analysis::{describe, functions, time};
use crate::error::InputError;
use crate::export::settings::Settings;
use crate::profile::{Profile, Window};
use crate::text::markup::shown;

/// Number of samples that are encoded at once.
const CHUNK: usize = 4096;

/// Id of the only mapping.
const IMAGE: u64 = 1;

/// Writes the profile. The same profile gives the same bytes, since no time is included.
///
/// # Errors
/// Errors of `out`; also when phases are asked for and the profile has none.
pub fn write(profile: &Profile, settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let phases = if settings.by_phase { by_phase(profile).map_err(InputError::new)? } else { Vec::new() };
    // Time and operating system stay unset, so that the bytes are the same everywhere. Fast compression, as in Go's own
    // profiles.
    let out = GzBuilder::new().mtime(0).operating_system(255).write(out, Compression::fast());
    let has_cycles = cycles::are_known(profile);
    let mut out = Chunks { out, has_cycles, samples: Vec::new(), bytes: Vec::new() };
    let mut tables = Tables::new(profile);
    let value = |tables: &mut Tables<'_>, kind, unit| proto::ValueType {
        kind: tables.string(kind),
        unit: tables.string(unit),
    };
    let kinds = ["samples", "instructions", "calls"].into_iter().chain(has_cycles.then_some("cycles"));
    let kinds: Vec<proto::ValueType> = kinds.map(|kind| value(&mut tables, kind, "count")).collect();
    let head = proto::Profile {
        sample_type: kinds,
        period_type: Some(value(&mut tables, "instructions", "count")),
        period: profile.facts.period_insns as i64,
        default_sample_type: tables.string("instructions"),
        duration_nanos: duration_ns(profile),
        mapping: vec![tables.image()],
        comment: comments(profile).iter().map(|line| tables.string(line)).collect(),
        ..proto::Profile::default()
    };
    out.put(&head)?;
    let contexts = Contexts::new(&mut tables, settings.view.fold_irqs);
    let mut parts: Vec<(&Profile, Option<proto::Label>)> =
        phases.iter().map(|(name, part)| (part, Some(tables.label("phase", name)))).collect();
    if !settings.by_phase {
        parts.push((profile, None));
    }
    for (part, phase) in parts {
        executed(&mut tables, &contexts, part, phase, &mut out)?;
        called(&mut tables, part, phase, &mut out)?;
    }
    out.flush()?;
    out.put(&proto::Profile { location: tables.locations, ..proto::Profile::default() })?;
    out.put(&proto::Profile { function: tables.functions, ..proto::Profile::default() })?;
    out.put(&proto::Profile { string_table: tables.strings, ..proto::Profile::default() })?;
    out.out.finish()?;
    Ok(())
}

/// Duration in virtual time: the machine's clock advances with the instructions of all vCPUs.
fn duration_ns(profile: &Profile) -> i64 {
    let insns: u64 = profile.vcpus.iter().map(|vcpu| vcpu.clock_insns).sum();
    let ns = match time::clock_hz(profile) {
        Some(_) => time::awake_ns(profile),
        None => profile.facts.insns_ns(insns),
    };
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// Comments with all inputs of the result. pprof leaves lines that begin with `#` out of its reports; `-comments` shows
/// all lines.
fn comments(profile: &Profile) -> Vec<String> {
    let facts = &profile.facts;
    let Window { for_insns, from, until, max_insns, resets: _ } = &facts.window;
    let mut window = Vec::new();
    window.extend(from.as_ref().map(|function| format!("from {function}")));
    window.extend(until.as_ref().map(|function| format!("until {function}")));
    window.extend(for_insns.map(|insns| format!("for {insns} instructions")));
    window.extend(max_insns.map(|insns| format!("at most {insns} instructions from reset")));
    if window.is_empty() {
        window.push("all".to_owned());
    }
    let mut lines = vec![
        format!("harness {}: {}", facts.harness_version, describe::describe_run(profile)),
        format!("# image: {}", facts.image_name),
        format!("# sha256: {}", facts.image_sha256),
    ];
    lines.extend(facts.symbols_sha256.as_ref().map(|hash| format!("# symbols: sha256 {hash}")));
    lines.push(format!("# qemu: {}", facts.qemu_version));
    lines.push(format!("# machine: {}", facts.machine));
    lines.extend(facts.cpu.as_ref().map(|cpu| format!("# cpu: {cpu}")));
    lines.push(format!("# isa: {}", facts.isa));
    lines.push(format!("# window: {}; {} instructions before it", window.join(", "), facts.before_window_insns));
    let jitter = facts.jitter_seed.map(|seed| format!(", dithered with seed {seed}")).unwrap_or_default();
    lines.push(format!("# period: one sample every {} instructions{jitter}", facts.period_insns));
    let stacks = match (profile.tree.is_empty(), facts.max_depth) {
        (false, _) => "exact call tree".to_owned(),
        (true, Some(depth)) => format!("sampled, at most {depth} frames"),
        (true, None) => "none".to_owned(),
    };
    lines.push(format!("# stacks: {stacks}"));
    lines.push(format!("# end: {}", describe::describe_end(profile)));
    lines.extend(describe::describe_unopened(profile).map(|line| format!("# {line}")));
    lines.extend(describe::describe_unresolved(facts).map(|line| format!("# {line}")));
    lines.extend(describe::describe_notes(profile).iter().map(|line| format!("# {line}")));
    lines.iter().map(|line| shown(line)).collect()
}

/// Adds the instructions and samples of the whole profile or of a phase.
fn executed(
    tables: &mut Tables<'_>,
    contexts: &Contexts<'_>,
    profile: &Profile,
    phase: Option<proto::Label>,
    out: &mut Chunks<'_>,
) -> Result<()> {
    // Key: a function and one list of frames with their lines; value: the first address of such code.
    let mut first_pcs = HashMap::new();
    let leaves = Leaves::new(profile, |pc| {
        let key = (Owner::of(profile, pc).start(), profile.names.stack_at(pc));
        first_pcs.entry(key).or_insert(pc);
        key
    });
    let shares = leaves.shares(profile);
    let leaf_locations: Vec<u64> = leaves.keys.iter().map(|key| tables.code(first_pcs[key])).collect();
    for share in shares {
        let leaf = share.leaf.map(|leaf| leaf as usize);
        let mut location_id = Vec::with_capacity(32);
        location_id.extend(leaf.map(|leaf| leaf_locations[leaf]));
        let place = leaf.map(|leaf| leaves.keys[leaf].0);
        let mut label = contexts.put(tables, share.context, place, &mut location_id);
        if share.is_entry() && location_id.len() > 1 {
            // The interrupt itself.
            location_id.retain(|&location| location != contexts.no_function);
        }
        label.extend(phase);
        out.sample(location_id, [share.samples, share.insns, 0, share.cycles], label)?;
    }
    Ok(())
}

/// Adds the calls of the whole profile or of a phase, by call site and callee.
fn called(
    tables: &mut Tables<'_>,
    profile: &Profile,
    phase: Option<proto::Label>,
    out: &mut Chunks<'_>,
) -> Result<()> {
    let table = functions::table(profile);
    let calls: BTreeMap<Option<u64>, u64> = table.rows.iter().map(|row| (row.start, row.calls)).collect();
    for (start, entries) in functions::entries(profile, &table) {
        // A transfer in flight at the end of the run has not arrived; an entry without a transfer has no caller.
        let mut left = calls.get(&Some(start)).copied().unwrap_or(0);
        if left == 0 {
            continue;
        }
        let callee = tables.entry(start);
        let mut from = entries.calls;
        for count in from.values_mut() {
            *count = left.min(*count);
            left -= *count;
        }
        *from.entry(None).or_default() += left;
        for (return_addr, calls) in from.into_iter().filter(|&(_, calls)| calls > 0) {
            let (name, place) = functions::caller(profile, return_addr);
            let caller = match (place, return_addr) {
                // An address inside the call stands for the caller.
                (Some(_), Some(return_addr)) => tables.code((return_addr & !1) - 1),
                _ => tables.named(&name),
            };
            out.sample(vec![callee, caller], [0, 0, calls, 0], phase.into_iter().collect())?;
        }
    }
    Ok(())
}

/// Locations of a stack's frame, and its parent. Small and contiguous, because a million frames are read in random
/// order.
struct Around {
    inner: u32,
    /// Location of the outer frame; 0: none.
    outer: u32,
    parent: u32,
}

/// Locations around executed code.
struct Contexts<'p> {
    profile: &'p Profile,
    fold_irqs: bool,
    /// Locations of each stack frame.
    of_frames: Vec<Around>,
    /// Location of each node of the exact tree; 0: none.
    of_nodes: Vec<u64>,
    /// Location, by its address, of code that is inlined into a function and calls another function.
    of_calls: HashMap<u64, u64>,
    not_sampled: u64,
    no_function: u64,
    /// Labels of tasks by number; empty without tasks.
    tasks: Vec<proto::Label>,
    /// Labels of interrupts, indexed by their frames' locations. A table, since each frame of each stack is looked up
    /// in it.
    irqs: Vec<Option<proto::Label>>,
}

impl<'p> Contexts<'p> {
    fn new(tables: &mut Tables<'p>, fold_irqs: bool) -> Contexts<'p> {
        let profile = tables.profile;
        let exceptions = Exceptions::new(profile);
        let mut labels = BTreeMap::new();
        let mut irq = |tables: &mut Tables<'_>, name: &str| {
            let location = tables.named(name);
            let bare = name.trim_start_matches("[irq ").trim_start_matches('[').trim_end_matches(']');
            labels.entry(location).or_insert_with(|| tables.label("irq", bare));
            location
        };
        let of_frames = profile.stacks.iter().map(|frame| {
            let (inner, outer) = match frame.kind {
                FrameKind::Caller { return_addr } => (tables.code(return_addr.wrapping_sub(1)), 0),
                FrameKind::Exception { number, handler, pc } => {
                    let name = exceptions.name(number, handler);
                    // A pc of 0 means that the task has not run yet.
                    (irq(tables, &name), if pc == 0 { 0 } else { tables.code(pc) })
                }
                FrameKind::Unknown(unknown) => (tables.named(stacks::why(unknown)), 0),
            };
            Around { inner: inner as u32, outer: outer as u32, parent: frame.parent }
        });
        let of_frames = of_frames.collect();
        let of_nodes = (1..).zip(&profile.tree).map(|(number, node)| match node.kind {
            NodeKind::Root { .. } => 0,
            NodeKind::Function { entry } => tables.entry(entry),
            NodeKind::Exception { number: exception } => {
                let name = exceptions.at(number, exception);
                irq(tables, &name)
            }
        });
        let of_nodes = of_nodes.collect();
        let of_calls = profile.tree.iter().filter_map(|node| Some((node.via?, tables.code(node.via?)))).collect();
        let mut irqs = vec![None; labels.keys().last().map_or(0, |&last| last as usize + 1)];
        for (location, label) in labels {
            irqs[location as usize] = Some(label);
        }
        let names = stacks::task_names(profile);
        let tasks = if names.is_empty() { Vec::new() } else { vec![NO_TASK.to_owned()] };
        let tasks = tasks.into_iter().chain(names).map(|name| tables.label("task", &name));
        let tasks = tasks.collect();
        let (not_sampled, no_function) = (tables.named(NOT_SAMPLED), tables.named(NO_FUNCTION));
        Contexts { profile, fold_irqs, of_frames, of_nodes, of_calls, not_sampled, no_function, tasks, irqs }
    }

    /// First address of the function that made the call, or that was interrupted, at a frame.
    fn code_start(&self, frame: u32) -> Option<u64> {
        let at = match self.profile.stacks.get(frame as usize)?.kind {
            FrameKind::Caller { return_addr } => return_addr.wrapping_sub(1),
            FrameKind::Exception { pc, .. } => pc,
            FrameKind::Unknown(_) => return None,
        };
        Owner::of(self.profile, at).start()
    }

    /// Adds the locations around a leaf, innermost first, and returns the labels. `leaf` is the first address of the
    /// leaf's function; without a leaf, the context is a node of the exact tree.
    fn put(
        &self,
        tables: &Tables<'_>,
        context: Context,
        leaf: Option<Option<u64>>,
        locations: &mut Vec<u64>,
    ) -> Vec<proto::Label> {
        let (mut task, mut irq) = (None, None);
        // Number of locations up to the outermost interrupt, which is a root if interrupts are folded.
        let mut own_root = None;
        let mut add = |location: u64, locations: &mut Vec<u64>| {
            if location == 0 {
                return;
            }
            locations.push(location);
            if let Some(Some(label)) = self.irqs.get(location as usize) {
                irq.get_or_insert(label);
                own_root = Some(locations.len());
            }
        };
        match context {
            Context::Alone => {}
            Context::NotSampled => locations.push(self.not_sampled),
            Context::Stack { task: number, stack } => {
                task = Some(number);
                // The executor's poll function lies outside the task: cut the stack there.
                let poll = self.profile.task(number).and_then(|task| task.poll);
                let mut is_outermost = poll.is_some() && leaf == Some(poll);
                let mut number = stack;
                while let Some(index) = number.checked_sub(1)
                    && !is_outermost
                    && let Some(around) = self.of_frames.get(index as usize)
                {
                    add(around.inner.into(), locations);
                    add(around.outer.into(), locations);
                    is_outermost = poll.is_some() && self.code_start(index) == poll;
                    number = around.parent;
                }
            }
            Context::Node(mut number) => {
                let (mut innermost, mut outermost) = (true, false);
                // Address in the next function outwards at which it made the call.
                let mut call = None;
                while let Some(index) = number.checked_sub(1)
                    && let Some(node) = self.profile.tree.get(index as usize)
                {
                    let is_leaf = match node.kind {
                        NodeKind::Function { entry } => leaf == Some(tables.place(entry)),
                        NodeKind::Root { task: number } => {
                            task = Some(number);
                            // The executor's poll function lies outside the task: cut the path there.
                            outermost = true;
                            false
                        }
                        NodeKind::Exception { .. } => false,
                    };
                    // The innermost node is the leaf's own function.
                    if !(innermost && is_leaf) {
                        if innermost && leaf.is_none() && !matches!(node.kind, NodeKind::Function { .. }) {
                            locations.push(self.no_function);
                        }
                        let at_call = call.and_then(|call| self.of_calls.get(&call));
                        add(*at_call.unwrap_or(&self.of_nodes[index as usize]), locations);
                    }
                    call = node.via;
                    innermost = false;
                    number = if outermost { 0 } else { node.parent };
                }
            }
        }
        if let Some(frames) = own_root.filter(|_| self.fold_irqs) {
            locations.truncate(frames);
            task = None;
        }
        let task = task.and_then(|number| self.tasks.get(number as usize));
        task.into_iter().chain(irq).copied().collect()
    }
}

/// Tables that samples refer to, numbered from 1 (strings from 0).
struct Tables<'p> {
    profile: &'p Profile,
    parts: ColdParts,
    locations: Vec<proto::Location>,
    functions: Vec<proto::Function>,
    strings: Vec<String>,
    location_of: HashMap<Location, u64>,
    function_of: HashMap<proto::Function, u64>,
    string_of: HashMap<String, i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Location {
    /// Code, with its inlined functions.
    Code(u64),
    /// Function or range that contains an address, by its first address.
    Entry(Option<u64>),
    /// Frame without an address: an interrupt, or the reason why a stack ends.
    Named(String),
}

impl<'p> Tables<'p> {
    fn new(profile: &'p Profile) -> Tables<'p> {
        let (location_of, function_of) = (HashMap::new(), HashMap::new());
        let string_of = [(String::new(), 0)].into();
        let strings = vec![String::new()];
        let parts = ColdParts::of(profile);
        Tables {
            profile,
            parts,
            locations: Vec::new(),
            functions: Vec::new(),
            strings,
            location_of,
            function_of,
            string_of,
        }
    }

    fn string(&mut self, text: &str) -> i64 {
        if let Some(&known) = self.string_of.get(text) {
            return known;
        }
        let next = self.strings.len() as i64;
        self.strings.push(text.to_owned());
        self.string_of.insert(text.to_owned(), next);
        next
    }

    fn label(&mut self, key: &str, text: &str) -> proto::Label {
        proto::Label { key: self.string(key), str: self.string(&shown(text)) }
    }

    fn place(&self, address: u64) -> Option<u64> {
        self.parts.owner(self.profile, address).start()
    }

    /// Mapping of the image, for all of its code.
    fn image(&mut self) -> proto::Mapping {
        let profile = self.profile;
        let functions = &profile.names.functions;
        let insns = profile.vcpus.iter().flat_map(|vcpu| &vcpu.insns);
        let insns = insns.filter(|insn| Owner::of(profile, insn.pc) != Owner::BootRom);
        let insns = insns.map(|insn| (insn.pc, insn.pc.saturating_add(insn.size_bytes.into())));
        let code =
            functions.iter().map(|function| (function.start, function.start.saturating_add(function.size_bytes)));
        let (mut memory_start, mut memory_limit) = (u64::MAX, 0);
        for (start, end) in code.chain(insns) {
            memory_start = memory_start.min(start);
            memory_limit = memory_limit.max(end);
        }
        proto::Mapping {
            id: IMAGE,
            memory_start: memory_start.min(memory_limit),
            memory_limit,
            filename: self.string(&shown(&profile.facts.image_name)),
            build_id: self.string(&profile.facts.image_sha256),
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        }
    }

    fn function(&mut self, name: &str, linkage_name: &str, file: Option<&str>, start_line: Option<u32>) -> u64 {
        let name = shown(name);
        let name = if name.is_empty() { "?" } else { &name };
        let mut function = proto::Function {
            id: 0,
            name: self.string(name),
            // Left empty if it equals the name: pprof shortens a name that is the same in both fields.
            system_name: if linkage_name == name { 0 } else { self.string(&shown(linkage_name)) },
            filename: self.string(&shown(file.unwrap_or_default())),
            start_line: start_line.unwrap_or(0).into(),
        };
        let next = self.functions.len() as u64 + 1;
        let id = *self.function_of.entry(function).or_insert(next);
        if id == next {
            function.id = id;
            self.functions.push(function);
        }
        id
    }

    /// Function that contains an address, as the linker placed it.
    fn placed(&mut self, place: Owner<'_>, file: Option<&str>) -> u64 {
        match place {
            Owner::Function(function) => {
                let file = file.or(function.file.as_deref());
                self.function(&function.name, &function.linkage_name, file, function.line)
            }
            Owner::BootRom | Owner::Range { .. } => self.function(&place.to_string(), "", file, None),
        }
    }

    fn location(&mut self, key: Location, address: u64, line: Vec<proto::Line>) -> u64 {
        let id = self.locations.len() as u64 + 1;
        self.location_of.insert(key, id);
        self.locations.push(proto::Location { id, address, line });
        id
    }

    /// Location of code with its inlined functions, innermost first.
    fn code(&mut self, address: u64) -> u64 {
        let key = Location::Code(address);
        if let Some(&known) = self.location_of.get(&key) {
            return known;
        }
        let profile = self.profile;
        let place = self.parts.owner(profile, address);
        let text = |index: u32| profile.names.strings.get(index as usize).map_or("?", String::as_str);
        let frames = profile.names.frames_at(address);
        let outermost = frames.first().filter(|frame| !frame.inlined);
        let function_id = self.placed(place, outermost.and_then(|frame| frame.file).map(text));
        let line = outermost.and_then(|frame| frame.line).unwrap_or(0).into();
        let mut lines = vec![proto::Line { function_id, line }];
        for frame in frames.iter().filter(|frame| frame.inlined) {
            let function_id = self.function(text(frame.function), "", frame.file.map(text), None);
            lines.push(proto::Line { function_id, line: frame.line.unwrap_or(0).into() });
        }
        lines.reverse();
        self.location(key, address, lines)
    }

    /// Location of the function that begins at an address, regardless of inlining. The location has no address (pprof
    /// invents one), since the function's first instruction belongs to another line, whose location has that address.
    fn entry(&mut self, address: u64) -> u64 {
        let place = self.parts.owner(self.profile, address);
        let key = Location::Entry(place.start());
        if let Some(&known) = self.location_of.get(&key) {
            return known;
        }
        let function_id = self.placed(place, None);
        let line = match place {
            Owner::Function(function) => function.line.unwrap_or(0),
            Owner::BootRom | Owner::Range { .. } => 0,
        };
        let line = vec![proto::Line { function_id, line: line.into() }];
        self.location(key, 0, line)
    }

    /// Location of a frame that is not code.
    fn named(&mut self, name: &str) -> u64 {
        let key = Location::Named(name.to_owned());
        if let Some(&known) = self.location_of.get(&key) {
            return known;
        }
        let function_id = self.function(name, "", None, None);
        self.location(key, 0, vec![proto::Line { function_id, line: 0 }])
    }
}

/// Writer of the profile in parts: consecutive messages of one type are read as one message with the fields of all
/// (<https://protobuf.dev/programming-guides/encoding/#last-one-wins>).
struct Chunks<'o> {
    out: flate2::write::GzEncoder<&'o mut dyn Write>,
    has_cycles: bool,
    samples: Vec<proto::Sample>,
    bytes: Vec<u8>,
}

impl Chunks<'_> {
    fn put(&mut self, part: &proto::Profile) -> Result<()> {
        self.bytes.clear();
        part.encode(&mut self.bytes)?;
        self.out.write_all(&self.bytes)?;
        Ok(())
    }

    fn sample(&mut self, location_id: Vec<u64>, values: [u64; 4], label: Vec<proto::Label>) -> Result<()> {
        let kinds = if self.has_cycles { 4 } else { 3 };
        let value = values[..kinds].iter().map(|&value| value as i64).collect();
        self.samples.push(proto::Sample { location_id, value, label });
        if self.samples.len() == CHUNK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let mut part = proto::Profile { sample: std::mem::take(&mut self.samples), ..proto::Profile::default() };
        self.put(&part)?;
        part.sample.clear();
        self.samples = part.sample;
        Ok(())
    }
}

/// Messages of `profile.proto`, with the fields that are used here. Fields such as `str` and `name` are indices into
/// the table of strings.
mod proto {
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub(super) sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub(super) sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub(super) mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub(super) location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub(super) function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub(super) string_table: Vec<String>,
        #[prost(int64, tag = "10")]
        pub(super) duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub(super) period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub(super) period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub(super) comment: Vec<i64>,
        #[prost(int64, tag = "14")]
        pub(super) default_sample_type: i64,
    }

    #[derive(Clone, Copy, PartialEq, Message)]
    pub(super) struct ValueType {
        #[prost(int64, tag = "1")]
        pub(super) kind: i64,
        #[prost(int64, tag = "2")]
        pub(super) unit: i64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub(super) location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub(super) value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub(super) label: Vec<Label>,
    }

    #[derive(Clone, Copy, PartialEq, Message)]
    pub(super) struct Label {
        #[prost(int64, tag = "1")]
        pub(super) key: i64,
        #[prost(int64, tag = "2")]
        pub(super) str: i64,
    }

    #[derive(Clone, Copy, PartialEq, Message)]
    pub(super) struct Mapping {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(uint64, tag = "2")]
        pub(super) memory_start: u64,
        #[prost(uint64, tag = "3")]
        pub(super) memory_limit: u64,
        #[prost(int64, tag = "5")]
        pub(super) filename: i64,
        #[prost(int64, tag = "6")]
        pub(super) build_id: i64,
        #[prost(bool, tag = "7")]
        pub(super) has_functions: bool,
        #[prost(bool, tag = "8")]
        pub(super) has_filenames: bool,
        #[prost(bool, tag = "9")]
        pub(super) has_line_numbers: bool,
        #[prost(bool, tag = "10")]
        pub(super) has_inline_frames: bool,
    }

    /// Location without its mapping. With a mapping, `go tool pprof` would read the lines again from an image in the
    /// current directory, and decode the code wrongly (ARM instead of Thumb; nothing at all on RISC-V).
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Location {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(uint64, tag = "3")]
        pub(super) address: u64,
        #[prost(message, repeated, tag = "4")]
        pub(super) line: Vec<Line>,
    }

    #[derive(Clone, Copy, PartialEq, Message)]
    pub(super) struct Line {
        #[prost(uint64, tag = "1")]
        pub(super) function_id: u64,
        #[prost(int64, tag = "2")]
        pub(super) line: i64,
    }

    #[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
    pub(super) struct Function {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(int64, tag = "2")]
        pub(super) name: i64,
        #[prost(int64, tag = "3")]
        pub(super) system_name: i64,
        #[prost(int64, tag = "4")]
        pub(super) filename: i64,
        #[prost(int64, tag = "5")]
        pub(super) start_line: i64,
    }
}
