// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profile as data for the page's script. Tables are columns, texts are stored once, and rows refer to each other by
//! number.
//!
//! Counts are JSON numbers, which a browser keeps exactly up to 2^53: weeks of emulated time. Addresses may be larger
//! (a kernel in the upper half of 64 bits) and are text.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Result;
use serde::Serialize;

use crate::analysis::callgraph::{CallGraph, Party};
use crate::analysis::calltree::{CallTree, Member, Path};
use crate::analysis::crosscheck;
use crate::analysis::cycles;
use crate::analysis::functions::{self, Table};
use crate::analysis::owner::{self, Owner};
use crate::analysis::stacks::{self, Exceptions, FrameRole, View};
use crate::analysis::{describe, span_remarks, stack_remarks, time};
use crate::export::report::Extras;
use crate::export::report::compare::{Compare, NARROW};
use crate::export::report::console::Console;
use crate::export::report::download::Saved;
use crate::export::report::facts;
use crate::export::report::heap::Heap;
use crate::export::report::listings::Listing;
use crate::export::report::peripherals::Peripherals;
use crate::export::report::strings::Strings;
use crate::export::report::task_states::StateTables;
use crate::export::report::tracks::Tracks;
use crate::export::report::zones::Zones;
use crate::profile::{Profile, Span, SpanKind};
use crate::text::number::Hex;

/// Maximum number of call paths that are drawn one by one: more than a screen has pixels side by side.
const MAX_PATHS: usize = 100_000;

/// Maximum number of bins of the address space. If there are more, bins become wider than the profile's own.
const MAX_BINS: usize = 16_384;

/// Number of unused bytes that ends a region of the address space.
const GAP_BYTES: u64 = 0x1_0000;

/// Stands for no row, no string, or no count.
const NONE: i64 = -1;

/// All data of the page.
#[derive(Debug, Serialize)]
pub(super) struct Data {
    image: String,
    total_insns: u64,
    /// Cycles of the window, if known.
    total_cycles: Option<u64>,
    total_samples: u64,
    unnamed_insns: u64,
    /// Whether the call tree is exact; otherwise instructions are divided over paths as the samples are.
    exact: bool,
    /// Whether there are call stacks.
    stacked: bool,
    fold_irqs: bool,
    /// Sentence about a run that failed, or in which no useful work was done.
    trouble: Option<String>,
    /// Sentence about its cycles.
    cycles: Option<String>,
    /// Sentence about the run's duration by the firmware's clock, and its load.
    time: Option<String>,
    pub(super) strings: Strings,
    pub(super) functions: Functions,
    /// Durations of calls, if calls were followed.
    per_call: Option<PerCall>,
    members: Members,
    paths: Paths,
    /// Number of paths that are drawn together.
    merged_paths: u64,
    arcs: Arcs,
    tasks: Vec<TaskRow>,
    /// States of the tasks, if there is a timeline.
    task_states: Option<StateTables>,
    interrupts: Vec<InterruptRow>,
    /// The terminal's remarks on tasks, stacks and spans, line by line.
    remarks: Vec<String>,
    bins: Bins,
    /// Heap, if it was followed.
    heap: Option<Heap>,
    /// Accesses of a chip's registers, if there was a chip.
    peripherals: Option<Peripherals>,
    zones: Zones,
    console: Option<Console>,
    compare: Option<Compare>,
    saved: Option<Saved>,
    /// Timeline, if it has more than one row to draw.
    timeline: Option<Tracks>,
    check: Check,
    /// Facts of the run: terms with their texts.
    facts: Vec<(String, String)>,
    /// Listings by row; None: the page has no room for the listing.
    pub(super) listings: Vec<Option<Listing>>,
    /// Sentences about source files that are missing or do not fit.
    pub(super) source_notes: Vec<String>,
}

/// Rows of the table: the terminal's first, in its order; then functions that were never executed.
#[derive(Debug, Default, Serialize)]
pub(super) struct Functions {
    /// Number of executed rows.
    executed: usize,
    name: Vec<i64>,
    /// 1 for functions, 0 for the boot ROM and ranges of addresses.
    is_function: Vec<u8>,
    file: Vec<i64>,
    line: Vec<i64>,
    start: Vec<String>,
    #[serde(rename = "self")]
    self_insns: Vec<u64>,
    /// Empty if they are not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cycles: Vec<u64>,
    /// Fewest and most that these can be; empty if they are proved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cycles_between: Vec<[u64; 2]>,
    inclusive: Vec<u64>,
    calls: Vec<u64>,
    samples: Vec<u64>,
    z: Vec<f64>,
}

/// Inclusive instructions of the shortest, mean and longest call, by row; [`NONE`]: no call has ended.
#[derive(Debug, Serialize)]
struct PerCall {
    min: Vec<i64>,
    mean: Vec<i64>,
    max: Vec<i64>,
}

#[derive(Debug, Default, Serialize)]
struct Members {
    name: Vec<i64>,
    kind: Vec<u8>,
    /// Row of the member's function.
    function: Vec<i64>,
}

/// Call paths, each right before the paths that continue it.
#[derive(Debug, Default, Serialize)]
struct Paths {
    depth: Vec<u32>,
    member: Vec<u32>,
    insns: Vec<u64>,
    samples: Vec<u64>,
}

/// Calls by caller and callee.
#[derive(Debug, Default, Serialize)]
struct Arcs {
    /// Row index; negative `n` names string `-1 - n` (the caller is not a function).
    caller: Vec<i64>,
    callee: Vec<i64>,
    calls: Vec<u64>,
    /// Part of `calls` that were jumps at the end of another function.
    tail_calls: Vec<u64>,
    /// Instructions of the callee, with its own callees, during these calls.
    inclusive: Vec<u64>,
    /// Cycles of them; empty if they are not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cycles: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct TaskRow {
    name: String,
    insns: u64,
    /// Share of the time in which it was the running one, if the processor slept.
    time: Option<String>,
    switches: u64,
    stack: String,
    painted: String,
    idle: bool,
}

#[derive(Debug, Default, Serialize)]
struct InterruptRow {
    name: String,
    /// Instructions in the interrupt, without interrupts during it.
    insns: u64,
    samples: u64,
    /// Cycles, exact, if known.
    cycles: Option<u64>,
    /// Number of times, and instructions of the shortest, mean and longest time, if the run measured them.
    spans: Option<[u64; 4]>,
}

#[derive(Debug, Default, Serialize)]
struct Bins {
    bin_bytes: u64,
    regions: Vec<Region>,
}

#[derive(Debug, Default, Serialize)]
struct Region {
    start: String,
    /// Number of the bin, from the region's start.
    bin: Vec<u64>,
    insns: Vec<u64>,
    samples: Vec<u64>,
    /// Row of the function with the most instructions in the bin.
    function: Vec<i64>,
}

#[derive(Debug, Serialize)]
struct Check {
    clean: bool,
    lines: Vec<String>,
    in_target: Vec<String>,
}

impl Data {
    /// Makes all data except the listings.
    ///
    /// # Errors
    /// When the profile cannot be packed.
    pub(super) fn new(profile: &Profile, view: View, extras: &Extras<'_>) -> Result<Data> {
        let mut strings = Strings::default();
        let table = functions::table(profile);
        let (mut functions, rows) = functions_of(profile, &table, &mut strings);
        let mut tree = CallTree::new(profile, view);
        let is_polled = profile.tasks.iter().any(|task| task.poll.is_some());
        let graph = if is_polled {
            CallGraph::new(profile, &CallTree::of_calls(profile))
        } else {
            CallGraph::new(profile, &tree)
        };
        let arcs = calls(profile, &graph, &rows, &mut functions.inclusive, &mut strings);
        let interrupted = interrupts_in(&tree);
        let merged_paths = merge_narrow(&mut tree, MAX_PATHS);
        let check = crosscheck::check(profile, &table);
        let compare = extras.before.as_ref().map(|before| Compare::new(before, profile, &tree, view));
        Ok(Data {
            image: profile.facts.image_name.clone(),
            total_insns: table.total_insns,
            total_cycles: table.total_cycles,
            total_samples: table.total_samples,
            unnamed_insns: table.unnamed_insns,
            exact: !profile.tree.is_empty(),
            stacked: profile.facts.max_depth.is_some() || !profile.tree.is_empty(),
            fold_irqs: view.fold_irqs,
            members: members_of(&tree, &rows, &mut strings),
            paths: paths_of(&tree),
            merged_paths,
            arcs,
            tasks: tasks_of(profile),
            task_states: StateTables::of(profile),
            interrupts: interrupts_of(profile, interrupted),
            remarks: stack_remarks::remarks(profile).into_iter().chain(span_remarks::remarks(profile)).collect(),
            trouble: describe::describe_trouble(profile)
                .or_else(|| (!profile.facts.end.is_good()).then(|| describe::describe_end(profile))),
            cycles: cycles::sentence(profile),
            time: time::sentence(profile),
            per_call: per_call(profile, &rows, functions.name.len()),
            zones: Zones::new(profile, &tree),
            console: extras.console.and_then(|bytes| Console::new(profile, bytes)),
            compare,
            saved: Saved::new(profile)?,
            timeline: Tracks::of(profile, &tree),
            bins: bins_of(profile, &rows),
            heap: Heap::of(profile),
            peripherals: Peripherals::of(profile),
            check: Check {
                clean: check.is_clean() && check.counts_agree(),
                lines: check.to_string().lines().map(str::to_owned).collect(),
                in_target: check.in_target_lines(None),
            },
            facts: facts::of(profile, view),
            listings: Vec::new(),
            source_notes: Vec::new(),
            strings,
            functions,
        })
    }
}

fn per_call(profile: &Profile, rows: &Rows, count: usize) -> Option<PerCall> {
    let mut calls = PerCall { min: vec![NONE; count], mean: vec![NONE; count], max: vec![NONE; count] };
    let mut has_some = false;
    for span in profile.spans.iter().filter(|span| span.count > 0) {
        let SpanKind::Call { entry } = span.kind else { continue };
        let row = rows.get(&Owner::of(profile, entry).start()).and_then(|&row| usize::try_from(row).ok());
        let Some(row) = row.filter(|&row| row < count) else { continue };
        has_some = true;
        for (column, insns) in
            [(&mut calls.min, span.min_insns), (&mut calls.mean, span.mean_insns()), (&mut calls.max, span.max_insns)]
        {
            column[row] = i64::try_from(insns).unwrap_or(i64::MAX);
        }
    }
    has_some.then_some(calls)
}

/// Row numbers by the owner's first address; None: the boot ROM.
type Rows = HashMap<Option<u64>, i64>;

fn functions_of(profile: &Profile, table: &Table, strings: &mut Strings) -> (Functions, Rows) {
    let mut columns = Functions { executed: table.rows.len(), ..Functions::default() };
    let mut rows = Rows::new();
    for row in table.rows.iter().cloned().chain(functions::never_executed(profile, table)) {
        rows.insert(row.start, columns.name.len() as i64);
        columns.name.push(strings.number(&row.name));
        columns.is_function.push(u8::from(row.kind == functions::RowKind::Function));
        columns.file.push(row.file.as_deref().map_or(NONE, |file| strings.number(file)));
        columns.line.push(row.line.map_or(NONE, i64::from));
        columns.start.push(row.start.map_or_else(String::new, |start| Hex(start).to_string()));
        columns.self_insns.push(row.self_insns);
        columns.cycles.extend(table.total_cycles.map(|_| row.cycles.unwrap_or(0)));
        columns.cycles_between.extend(table.total_doubt.map(|_| row.cycles_between().unwrap_or_default()));
        columns.calls.push(row.calls);
        columns.samples.push(row.samples);
        columns.z.push((10.0 * row.z).round() / 10.0);
    }
    columns.inclusive = columns.self_insns.clone();
    (columns, rows)
}

fn row_of(rows: &Rows, name: &str, start: Option<u64>) -> Option<i64> {
    // Of the places without an address, only the boot ROM has a row; reset and exceptions have none.
    let is_place = start.is_some() || name == owner::BOOT_ROM;
    is_place.then(|| rows.get(&start).copied()).flatten()
}

fn row_of_member(rows: &Rows, member: &Member) -> Option<i64> {
    match member.frame.role {
        FrameRole::Function | FrameRole::Other => row_of(rows, &member.frame.name, member.start),
        FrameRole::Task | FrameRole::Irq | FrameRole::Inlined => None,
    }
}

/// Instructions and samples of interrupts, without interrupts during them.
fn interrupts_in(tree: &CallTree) -> BTreeMap<String, (u64, u64)> {
    let frame = |path: &Path| &tree.members[path.member as usize].frame;
    let mut sums: Vec<(u64, u64)> = tree.paths.iter().map(|path| (path.insns, path.samples)).collect();
    let mut interrupts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (index, path) in tree.paths.iter().enumerate().rev() {
        let (insns, samples) = sums[index];
        let sum = match path.parent.checked_sub(1) {
            _ if frame(path).role == FrameRole::Irq => interrupts.entry(frame(path).name.clone()).or_default(),
            Some(parent) => &mut sums[parent as usize],
            None => continue,
        };
        (sum.0, sum.1) = (sum.0 + insns, sum.1 + samples);
    }
    interrupts
}

/// Calls by caller and callee; fills in the inclusive instructions of the rows, too.
fn calls(profile: &Profile, graph: &CallGraph, rows: &Rows, inclusive: &mut [u64], strings: &mut Strings) -> Arcs {
    let row = |party: &Party| match party {
        Party::Code(start) => rows.get(&Some(*start)).copied(),
        Party::BootRom => rows.get(&None).copied(),
        Party::Outside(_) => None,
    };
    if graph.has_inclusive {
        for (party, node) in &graph.nodes {
            if let Some(sum) = row(party).and_then(|row| inclusive.get_mut(usize::try_from(row).ok()?)) {
                *sum = node.inclusive.insns;
            }
        }
    }
    let mut columns = Arcs::default();
    for ((caller, callee), edge) in &graph.edges {
        // Unnamed code that is known only as a caller has no row; its name is written instead.
        let mut end = |party: &Party| row(party).unwrap_or_else(|| -1 - strings.number(&party.name(profile)));
        let (caller, callee) = (end(caller), end(callee));
        columns.caller.push(caller);
        columns.callee.push(callee);
        columns.calls.push(edge.calls);
        columns.tail_calls.push(edge.tail_calls.values().sum());
        columns.inclusive.push(edge.inclusive.insns);
        columns.cycles.extend(graph.total_cycles.map(|_| edge.inclusive.cycles));
    }
    columns
}

/// Merges paths that are too narrow to be drawn, keeping the sums; returns the number of merged paths.
fn merge_narrow(tree: &mut CallTree, most: usize) -> u64 {
    if tree.paths.len() <= most {
        return 0;
    }
    let sums = tree.inclusive_insns();
    let mut sorted = sums.clone();
    sorted.sort_unstable_by(|one, other| other.cmp(one));
    // Half of the limit, since each kept path may get an additional path for the narrow ones below it.
    let least_insns = sorted[most / 2].saturating_add(1);
    let narrow = tree.members.len() as u32;
    tree.members
        .push(Member { frame: stacks::Frame { name: NARROW.to_owned(), role: FrameRole::Other }, start: None });
    // New numbers of paths, by old number.
    let mut numbers = vec![0_u32; tree.paths.len() + 1];
    let mut paths: Vec<Path> = Vec::new();
    // The narrow paths around which the nearest kept path is the same become one more child of that path.
    let mut rests: BTreeMap<u32, Path> = BTreeMap::new();
    let mut merged = 0;
    for (index, path) in tree.paths.iter().enumerate() {
        let number = index + 1;
        if sums[index] >= least_insns {
            numbers[number] = paths.len() as u32 + 1;
            paths.push(Path { parent: numbers[path.parent as usize], ..*path });
        } else {
            // The nearest kept ancestor. Paths between are narrow, too, so they already have its number.
            numbers[number] = numbers[path.parent as usize];
            let none = Path { parent: 0, member: narrow, insns: 0, samples: 0, cycles: 0 };
            let rest = rests.entry(numbers[number]).or_insert(none);
            rest.insns += path.insns;
            rest.samples += path.samples;
            rest.cycles += path.cycles;
            merged += 1;
        }
    }
    let mut with_rests = Vec::with_capacity(paths.len() + rests.len());
    let mut moved = vec![0_u32; paths.len() + 1];
    // Number of the path for the narrow ones below each kept path.
    let mut rest_of = vec![0_u32; paths.len() + 1];
    let mut after_all = |number: u32, with_rests: &mut Vec<Path>, parent: u32| {
        if let Some(rest) = rests.get(&number) {
            with_rests.push(Path { parent, ..*rest });
            rest_of[number as usize] = with_rests.len() as u32;
        }
    };
    // Each additional path comes directly after its parent; the order of siblings does not matter.
    after_all(0, &mut with_rests, 0);
    for (index, path) in paths.iter().enumerate() {
        let parent = moved[path.parent as usize];
        with_rests.push(Path { parent, ..*path });
        let number = with_rests.len() as u32;
        moved[index + 1] = number;
        after_all(index as u32 + 1, &mut with_rests, number);
    }
    tree.paths = with_rests;
    for sample in &mut tree.samples {
        let is_narrow = sample.checked_sub(1).is_some_and(|index| sums[index as usize] < least_insns);
        let kept = numbers[*sample as usize] as usize;
        *sample = if is_narrow { rest_of[kept] } else { moved[kept] };
    }
    merged
}

fn members_of(tree: &CallTree, rows: &Rows, strings: &mut Strings) -> Members {
    let mut members = Members::default();
    for member in &tree.members {
        members.name.push(strings.number(&member.frame.name));
        members.kind.push(match member.frame.role {
            FrameRole::Task => 0,
            FrameRole::Irq => 1,
            FrameRole::Function => 2,
            FrameRole::Inlined => 3,
            FrameRole::Other => 4,
        });
        members.function.push(row_of_member(rows, member).unwrap_or(NONE));
    }
    members
}

fn paths_of(tree: &CallTree) -> Paths {
    let mut paths = Paths::default();
    for path in &tree.paths {
        let depth = path.parent.checked_sub(1).map_or(0, |parent| paths.depth[parent as usize] + 1);
        paths.depth.push(depth);
        paths.member.push(path.member);
        paths.insns.push(path.insns);
        paths.samples.push(path.samples);
    }
    paths
}

fn tasks_of(profile: &Profile) -> Vec<TaskRow> {
    let mut tasks: Vec<TaskRow> = profile
        .tasks
        .iter()
        .zip(stacks::task_names(profile))
        .map(|(task, name)| TaskRow {
            name,
            insns: task.insns,
            time: time::share_of(task, profile),
            switches: task.switches,
            stack: stack_remarks::stack_left(task, !profile.tree.is_empty()),
            painted: stack_remarks::paint_left(task),
            idle: task.is_idle,
        })
        .collect();
    // A stable sort: equal tasks stay in the order in which they first ran.
    tasks.sort_by_key(|task| std::cmp::Reverse(task.insns));
    tasks
}

fn interrupts_of(profile: &Profile, sums: BTreeMap<String, (u64, u64)>) -> Vec<InterruptRow> {
    let mut interrupts: BTreeMap<String, InterruptRow> = BTreeMap::new();
    for (name, (insns, samples)) in sums {
        interrupts.insert(name.clone(), InterruptRow { name, insns, samples, ..InterruptRow::default() });
    }
    let exceptions = Exceptions::new(profile);
    let mut spans: BTreeMap<String, Span> = BTreeMap::new();
    for span in &profile.spans {
        if let SpanKind::Exception { number } = span.kind {
            let name = exceptions.name(number, span.longest_at);
            interrupts.entry(name.clone()).or_insert(InterruptRow { name: name.clone(), ..InterruptRow::default() });
            // Several causes may share a name: environment calls from each of RISC-V's modes.
            spans.entry(name).and_modify(|sum| sum.add(*span)).or_insert(*span);
        }
    }
    for (name, span) in spans {
        if let Some(interrupt) = interrupts.get_mut(&name) {
            interrupt.spans = Some([span.count, span.min_insns, span.mean_insns(), span.max_insns]);
        }
    }
    for (name, cycles) in cycles::by_interrupt(profile).into_iter().flatten() {
        let row = || InterruptRow { name: name.clone(), ..InterruptRow::default() };
        interrupts.entry(name.clone()).or_insert_with(row).cycles = Some(cycles);
    }
    let mut interrupts: Vec<InterruptRow> = interrupts.into_values().collect();
    // A stable sort: equal interrupts stay in the order of their names.
    interrupts.sort_by_key(|interrupt| std::cmp::Reverse(interrupt.insns));
    interrupts
}

fn bins_of(profile: &Profile, rows: &Rows) -> Bins {
    let insns = profile.insns();
    let mut bin_bytes = profile.facts.bin_bytes.max(1);
    let number_of = |bin_bytes: u64| insns.keys().map(|pc| pc / bin_bytes).collect::<BTreeSet<u64>>().len();
    while number_of(bin_bytes) > MAX_BINS {
        bin_bytes *= 2;
    }
    #[derive(Default)]
    struct Bin {
        insns: u64,
        samples: u64,
        functions: BTreeMap<i64, u64>,
    }
    let mut bins: BTreeMap<u64, Bin> = BTreeMap::new();
    for (&pc, &count) in &insns {
        let bin = bins.entry(pc / bin_bytes).or_default();
        bin.insns += count;
        let row = rows.get(&Owner::of(profile, pc).start()).copied().unwrap_or(NONE);
        *bin.functions.entry(row).or_default() += count;
    }
    for (pc, samples) in profile.samples_by_pc() {
        bins.entry(pc / bin_bytes).or_default().samples += samples;
    }
    let mut regions: Vec<Region> = Vec::new();
    let mut first = 0;
    let mut last = None;
    for (number, bin) in bins {
        if last.is_none_or(|last| (number - last) * bin_bytes > GAP_BYTES) {
            first = number;
            regions.push(Region { start: Hex(number * bin_bytes).to_string(), ..Region::default() });
        }
        last = Some(number);
        if let Some(region) = regions.last_mut() {
            region.bin.push(number - first);
            region.insns.push(bin.insns);
            region.samples.push(bin.samples);
            let most = bin.functions.into_iter().max_by_key(|&(row, insns)| (insns, std::cmp::Reverse(row)));
            region.function.push(most.map_or(NONE, |(row, _)| row));
        }
    }
    Bins { bin_bytes, regions }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::freertos;

    #[test]
    fn narrow_paths_are_put_together_and_nothing_is_lost() {
        let profile = freertos();
        let mut tree = CallTree::new(&profile, View::default());
        let before = tree.clone();
        assert_eq!(merge_narrow(&mut tree, before.paths.len()), 0);
        assert_eq!(tree, before);
        let merged = merge_narrow(&mut tree, 12);
        // Every sample is still on a path that counts it.
        let mut taken = vec![0; tree.paths.len() + 1];
        tree.samples.iter().for_each(|&path| taken[path as usize] += 1);
        let counted = tree.paths.iter().map(|path| path.samples);
        assert_eq!(taken[1..].to_vec(), counted.collect::<Vec<u64>>());
        assert!(merged > 10 && tree.paths.len() <= 12, "{merged} of {} merged: {tree:#?}", before.paths.len());
        let total =
            |tree: &CallTree| tree.paths.iter().fold((0, 0), |sum, path| (sum.0 + path.insns, sum.1 + path.samples));
        assert_eq!(total(&tree), total(&before));
        let sums = tree.inclusive_insns();
        for (index, path) in tree.paths.iter().enumerate() {
            assert!(path.parent as usize <= index, "a child before its parent");
            // A kept path still has the instructions of all paths below it.
            let names = |tree: &CallTree, number: usize| {
                let frames: Vec<_> = tree.frames(number as u32).into_iter().cloned().collect();
                frames
            };
            let kept = names(&tree, index + 1);
            if kept.last().is_some_and(|member| member.frame.name != NARROW) {
                let same = (0..before.paths.len()).find(|&number| names(&before, number + 1) == kept);
                assert_eq!(sums[index], before.inclusive_insns()[same.unwrap()]);
            }
        }
    }

    #[test]
    fn an_interrupt_has_its_instructions_without_those_of_one_that_came_meanwhile() {
        let profile = freertos();
        let interrupts = interrupts_in(&CallTree::new(&profile, View::default()));
        let insns = |name: &str| interrupts[name].0;
        // 9,200 instructions of UART0; SysTick's handler and callee count none of them.
        assert_eq!(insns("[irq UART0]"), 9_200);
        assert_eq!(insns("[irq SysTick]"), 28_000);
        // The view changes nothing.
        assert_eq!(interrupts, interrupts_in(&CallTree::new(&profile, View { fold_irqs: true })));
    }
}
