// SPDX-License-Identifier: MIT OR Apache-2.0
//! Callgrind format, read by KCachegrind, QCachegrind and callgrind_annotate
//! (<https://valgrind.org/docs/manual/cl-format.html>): the executions of each instruction and line, and each call
//! site's calls with their cost.
//!
//! Self costs and calls are exact. Costs of calls come from [`crate::analysis::callgraph`]. If a function calls another
//! at several sites, the cost is divided over the sites by the samples taken in those calls, or else by the calls. A
//! call that was made before the window opened is left out: the format has no cost without a call. Known cycles are one more
//! cost, exact by instruction and divided over calls as the instructions are.
//!
//! A function's part (`parse.cold`) is written as code of the function.
//!
//! Readers tell functions apart by name and file, and add up functions that agree in both. Here such functions have
//! their addresses in their names.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

use anyhow::Result;
use wire::definition::FrameKind;

use crate::analysis::attribution::divide;
use crate::analysis::callgraph::{self, CallGraph, Inclusive, Party};
use crate::analysis::calltree::CallTree;
use crate::analysis::cold_part::ColdParts;
use crate::analysis::cycles;
use crate::analysis::flow::{BranchKind, Branches, Way};
use crate::analysis::owner::Owner;
use crate::export::settings::Settings;
use crate::text::symbol_name::file_name;

use crate::profile::{End, Profile};
use crate::text::number::Hex;

/// Placeholder for an unknown name.
const NO_NAME: &str = "???";

/// Writes header, functions by address, and totals.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, _settings: &Settings, out: &mut dyn Write) -> Result<()> {
    // The call tree is dropped before anything is written: there may be millions of paths.
    let graph = CallGraph::new(profile, &CallTree::of_calls(profile));
    let parts = ColdParts::of(profile);
    let code = Code::new(profile, &parts);
    let mut sites = sites(profile, &parts, &graph, &code);
    let entries = graph.nodes.values().map(|node| node.calls).sum();
    let mut totals = vec![graph.total_insns, profile.samples.len() as u64, entries];
    totals.extend(cycles::total(profile));
    header(profile, &graph, &totals, out)?;
    writeln!(out, "\nob=(1) {}", clean(&profile.facts.image_name))?;
    let names = names(profile, &graph, &code);
    let (files, functions, branches) = (HashMap::new(), HashMap::new(), Branches::of(profile));
    let mut writer = Writer { profile, parts, names, files, functions, branches, file: 0, out };
    // A function can make calls without being a node: its other code ran before the window opened.
    let parties: BTreeSet<Party> = graph.nodes.keys().chain(sites.keys()).cloned().collect();
    for party in &parties {
        let costs = code.costs.get(party).map_or(&[][..], Vec::as_slice);
        let calls = sites.remove(party).unwrap_or_default();
        if !costs.is_empty() || !calls.is_empty() {
            let entries = graph.nodes.get(party).map_or(0, |node| node.calls);
            writer.function(party, costs, entries, &calls)?;
        }
    }
    writeln!(out, "\ntotals: {}", line(&totals))?;
    Ok(())
}

/// Costs of a line of text.
fn line(costs: &[u64]) -> String {
    costs.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

fn header(profile: &Profile, graph: &CallGraph, totals: &[u64], out: &mut dyn Write) -> io::Result<()> {
    let facts = &profile.facts;
    let command: Vec<&str> =
        std::iter::once(&facts.image_name).chain(&facts.firmware_args).map(String::as_str).collect();
    writeln!(out, "# callgrind format")?;
    writeln!(out, "version: 1")?;
    writeln!(out, "creator: harness {}", clean(&facts.harness_version))?;
    writeln!(out, "cmd: {}", clean(&command.join(" ")))?;
    writeln!(out, "part: 1")?;
    let cpu = facts.cpu.as_ref().map_or_else(String::new, |cpu| format!(", CPU {cpu}"));
    let machine = format!("{}{cpu}, {}, QEMU {}", facts.machine, facts.isa, facts.qemu_version);
    writeln!(out, "desc: Machine: {}", clean(&machine))?;
    writeln!(out, "desc: Image: SHA-256 {}", clean(&facts.image_sha256))?;
    writeln!(out, "desc: Trigger: {}", clean(&trigger(&facts.end)))?;
    let before = facts.before_window_insns;
    writeln!(out, "desc: Timerange: Instructions {before} - {}", before.saturating_add(totals[0]))?;
    writeln!(out, "desc: Samples: one in {} instructions", facts.period_insns)?;
    let inclusive = match (graph.has_inclusive, graph.is_exact) {
        (false, _) => "not known (no stacks were taken): calls have no cost",
        (true, false) => "exact by function, divided over its callers as its samples are",
        (true, true) => "exact by function and caller",
    };
    writeln!(out, "desc: Inclusive cost: {inclusive}")?;
    let has_cycles = cycles::are_known(profile);
    if has_cycles {
        writeln!(out, "desc: Cycles: exact by instruction; of calls as the inclusive cost")?;
    }
    writeln!(out, "positions: instr line")?;
    writeln!(out, "event: Ir : Instructions")?;
    writeln!(out, "event: Samples : Samples")?;
    writeln!(out, "event: Calls : Calls, those by interrupts included")?;
    if has_cycles {
        writeln!(out, "event: Cycles : Cycles, those up to an interrupt's vector included")?;
    }
    // callgrind_annotate expects this line last in the header.
    writeln!(out, "events: Ir Samples Calls{}", if has_cycles { " Cycles" } else { "" })?;
    writeln!(out, "summary: {}", line(totals))
}

fn trigger(end: &End) -> String {
    match end {
        End::For => "the window's length".to_owned(),
        End::Until => "the window's last function".to_owned(),
        End::Exit { status, .. } => format!("exit with status {status}"),
        End::Reset { .. } => "reset".to_owned(),
        End::LockUp { fault, .. } => format!("lock-up: {fault}"),
        End::Asleep { .. } => "asleep for ever".to_owned(),
        End::Stuck { .. } => "no instruction completes any more".to_owned(),
        End::Faulting { .. } => "a handler that is never left".to_owned(),
        End::EndlessLoop { .. } => "the window's length, in an endless loop".to_owned(),
        End::Restarts { .. } => "the end, after restarts".to_owned(),
        End::StackOverflow { .. } => "a stack that left its memory".to_owned(),
        End::Denied { .. } => "a forbidden operation".to_owned(),
        End::UnknownCall { .. } => "an unknown semihosting call".to_owned(),
        End::MaxInsns => "the limit on instructions".to_owned(),
        End::Output { .. } => "the limit on output".to_owned(),
        End::Timeout => "the limit on time".to_owned(),
        End::Interrupted => "interrupted".to_owned(),
        End::DiskFull => "a full disk".to_owned(),
        End::EmulatorFailed { message } => format!("the emulator failed: {message}"),
    }
}

/// Cleans text for a format of lines. Its readers drop white space at both ends of a name.
fn clean(text: &str) -> String {
    let cleaned: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match cleaned.trim() {
        "" => NO_NAME.to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

/// Costs of one instruction.
struct Cost {
    pc: u64,
    insns: u64,
    samples: u64,
    /// 0: they are not known.
    cycles: u64,
}

/// Executed code: by function, then by address.
struct Code {
    costs: BTreeMap<Party, Vec<Cost>>,
    /// Executions of all instructions, by address.
    insns: BTreeMap<u64, u64>,
}

impl Code {
    fn new(profile: &Profile, parts: &ColdParts) -> Code {
        let mut insns = profile.insns();
        let samples = profile.samples_by_pc();
        for &pc in samples.keys() {
            insns.entry(pc).or_default();
        }
        let cycles = cycles::by_pc(profile).unwrap_or_default();
        let mut costs: BTreeMap<Party, Vec<Cost>> = BTreeMap::new();
        for (&pc, &insns) in &insns {
            let samples = samples.get(&pc).copied().unwrap_or(0);
            let cycles = cycles.get(&pc).copied().unwrap_or(0);
            if insns > 0 || samples > 0 {
                costs.entry(Party::at(profile, parts, pc)).or_default().push(Cost { pc, insns, samples, cycles });
            }
        }
        Code { costs, insns }
    }

    /// Address of the call that left a return address; the call may not have executed.
    fn before(&self, return_addr: u64) -> u64 {
        let last = (return_addr & !1).saturating_sub(1);
        let call = self.insns.range(last.saturating_sub(3)..=last).next_back();
        call.map_or(last & !1, |(&pc, _)| pc)
    }
}

/// Calls of one function at one place in its caller.
struct Site {
    pc: u64,
    callee: Party,
    calls: u64,
    inclusive: Inclusive,
}

/// Call sites of each caller, by address.
fn sites(profile: &Profile, parts: &ColdParts, graph: &CallGraph, code: &Code) -> BTreeMap<Party, Vec<Site>> {
    // Calls by site. The site of a tail call is the call that left its return address.
    let mut by_pair: BTreeMap<(Party, Party), BTreeMap<u64, u64>> = BTreeMap::new();
    for arc in profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs).filter(|arc| arc.count > 0) {
        let Some((caller, callee)) = callgraph::parties(profile, parts, arc) else { continue };
        let is_here = arc.links && Party::at(profile, parts, arc.site) == caller;
        let pc = if is_here { arc.site } else { code.before(arc.return_addr.unwrap_or(0)) };
        *by_pair.entry((caller, callee)).or_default().entry(pc).or_default() += arc.count;
    }
    // Only pairs with several sites are divided.
    let divided = by_pair.iter().filter(|(_, calls)| calls.len() > 1);
    let divided = divided.flat_map(|((_, callee), calls)| calls.keys().map(|&pc| ((pc, callee.clone()), 0)));
    let sampled = sampled_sites(profile, parts, code, divided.collect());
    let mut sites: BTreeMap<Party, Vec<Site>> = BTreeMap::new();
    for ((caller, callee), calls) in by_pair {
        if matches!(caller, Party::Outside(_)) {
            continue;
        }
        let inclusive =
            graph.edges.get(&(caller.clone(), callee.clone())).map_or(Inclusive::default(), |edge| edge.inclusive);
        let mut weights: Vec<u64> =
            calls.keys().map(|&pc| sampled.get(&(pc, callee.clone())).copied().unwrap_or(0)).collect();
        if weights.iter().all(|&weight| weight == 0) {
            weights = calls.values().copied().collect();
        }
        let insns = divide(inclusive.insns, &weights);
        let samples = divide(inclusive.samples, &weights);
        let cycles = divide(inclusive.cycles, &weights);
        for ((((pc, calls), insns), samples), cycles) in calls.into_iter().zip(insns).zip(samples).zip(cycles) {
            let inclusive = Inclusive { insns, samples, cycles };
            sites.entry(caller.clone()).or_default().push(Site { pc, callee: callee.clone(), calls, inclusive });
        }
    }
    for sites in sites.values_mut() {
        sites.sort_by(|one, other| (one.pc, &one.callee).cmp(&(other.pc, &other.callee)));
    }
    sites
}

/// Adds up the samples in calls. Each entry of `by_site` is a site and the function called there.
fn sampled_sites(
    profile: &Profile,
    parts: &ColdParts,
    code: &Code,
    mut by_site: HashMap<(u64, Party), u64>,
) -> HashMap<(u64, Party), u64> {
    if by_site.is_empty() {
        return by_site;
    }
    let site = |stack: u32| match profile.stacks.get(stack.checked_sub(1)? as usize)?.kind {
        FrameKind::Caller { return_addr } => Some(code.before(return_addr)),
        _ => None,
    };
    let mut add = |site: u64, callee: u64, samples: u64| {
        if let Some(sum) = by_site.get_mut(&(site, Party::at(profile, parts, callee))) {
            *sum += samples;
        }
    };
    // Samples in each stack and in all stacks inside it.
    let mut inside = vec![0; profile.stacks.len()];
    for sample in &profile.samples {
        if let Some(pc) = site(sample.stack) {
            add(pc, sample.pc, 1);
        }
        if let Some(sum) = sample.stack.checked_sub(1).and_then(|index| inside.get_mut(index as usize)) {
            *sum += 1;
        }
    }
    // Outer frames come before their inner ones.
    for (index, frame) in profile.stacks.iter().enumerate().rev() {
        let samples = inside[index];
        if let Some(parent) = frame.parent.checked_sub(1).filter(|&parent| (parent as usize) < index)
            && let FrameKind::Caller { return_addr } = frame.kind
        {
            inside[parent as usize] += samples;
            if let Some(pc) = site(frame.parent) {
                add(pc, return_addr.wrapping_sub(1), samples);
            }
        }
    }
    by_site
}

/// Names of the functions, made distinct where a reader would take two functions for one.
fn names(profile: &Profile, graph: &CallGraph, code: &Code) -> BTreeMap<Party, String> {
    let mut namesakes: BTreeMap<String, Vec<&Party>> = BTreeMap::new();
    let in_edges = graph.edges.keys().flat_map(|(caller, callee)| [caller, callee]);
    let all: BTreeSet<&Party> = graph.nodes.keys().chain(in_edges).collect();
    for party in all {
        namesakes.entry(clean(&party.name(profile))).or_default().push(party);
    }
    let mut names = BTreeMap::new();
    for (name, parties) in namesakes {
        let mut files = BTreeSet::new();
        let is_told_apart = parties.len() == 1
            || parties.iter().all(|party| {
                let pcs = code.costs.get(party).map_or(&[][..], Vec::as_slice).iter().map(|cost| cost.pc);
                let own = own_file(profile, party);
                let inlined = pcs.filter_map(|pc| profile.names.line_at(pc)).map(|(file, _)| file.to_owned());
                let all: BTreeSet<String> =
                    inlined.chain([own]).map(|file| file_name(&clean(&file)).to_owned()).collect();
                all.into_iter().all(|file| files.insert(file))
            });
        for party in parties {
            let name = match party {
                Party::Code(start) if !is_told_apart => format!("{name} [{}]", Hex(*start)),
                _ => name.clone(),
            };
            names.insert(party.clone(), name);
        }
    }
    names
}

/// File in which a function begins.
fn own_file(profile: &Profile, party: &Party) -> String {
    let file = match party {
        Party::Code(start) => match Owner::of(profile, *start) {
            Owner::Function(function) => function.file.as_deref(),
            _ => None,
        },
        _ => None,
    };
    file.map_or_else(|| NO_NAME.to_owned(), clean)
}

/// Target and number of a way, if both are known.
fn exact(way: &Way) -> Option<(u64, u64)> {
    way.target.zip(way.count.exact())
}

struct Writer<'a> {
    profile: &'a Profile,
    parts: ColdParts,
    names: BTreeMap<Party, String>,
    /// Numbers, from 1, of files and functions whose names were written before.
    files: HashMap<String, usize>,
    functions: HashMap<Party, usize>,
    branches: Branches,
    /// Current file of the lines.
    file: usize,
    out: &'a mut dyn Write,
}

impl Writer<'_> {
    /// Reference to a file by its number; the first reference also has its name.
    fn file(&mut self, file: &str) -> (usize, String) {
        let next = self.files.len() + 1;
        match self.files.get(file) {
            Some(&number) => (number, format!("({number})")),
            None => {
                self.files.insert(file.to_owned(), next);
                (next, format!("({next}) {file}"))
            }
        }
    }

    fn function_name(&mut self, party: &Party) -> String {
        let next = self.functions.len() + 1;
        match self.functions.get(party) {
            Some(number) => format!("({number})"),
            None => {
                self.functions.insert(party.clone(), next);
                format!("({next}) {}", self.names.get(party).map_or(NO_NAME, String::as_str))
            }
        }
    }

    fn function(&mut self, party: &Party, costs: &[Cost], entries: u64, sites: &[Site]) -> io::Result<()> {
        let own = own_file(self.profile, party);
        let (own_number, file) = self.file(&own);
        self.file = own_number;
        writeln!(self.out, "\nfl={file}")?;
        let name = self.function_name(party);
        writeln!(self.out, "fn={name}")?;
        let mut sites = sites.iter().peekable();
        let mut entries = if let Party::Code(start) = party { Some((*start, entries)) } else { None };
        for cost in costs {
            // Calls by instructions without known executions.
            while let Some(site) = sites.next_if(|site| site.pc < cost.pc) {
                self.call(site, own_number, &own)?;
            }
            let line = self.go_to(cost.pc, own_number, &own)?;
            let entries = entries.take_if(|(start, _)| *start == cost.pc).map_or(0, |(_, entries)| entries);
            self.costs(cost.pc, line, [cost.insns, cost.samples, entries, cost.cycles])?;
            while let Some(site) = sites.next_if(|site| site.pc == cost.pc) {
                self.call(site, own_number, &own)?;
            }
            self.jumps(party, cost.pc, own_number, &own)?;
        }
        for site in sites {
            self.call(site, own_number, &own)?;
        }
        Ok(())
    }

    /// Writes a change of file, if the next line has another file, and returns the line's number.
    fn go_to(&mut self, pc: u64, own_number: usize, own: &str) -> io::Result<u32> {
        let (file, line) = match self.profile.names.line_at(pc) {
            Some((file, line)) => (clean(file), line),
            None => (own.to_owned(), 0),
        };
        let (number, text) = self.file(&file);
        if number != self.file {
            self.file = number;
            writeln!(self.out, "{}={text}", if number == own_number { "fe" } else { "fi" })?;
        }
        Ok(line)
    }

    /// Writes where a branch went, if that is exact: the format has no bounds.
    fn jumps(&mut self, party: &Party, pc: u64, own_number: usize, own: &str) -> io::Result<()> {
        let Some(branch) = self.branches.at(pc) else { return Ok(()) };
        let (executions, is_table) = (branch.executions, branch.kind == BranchKind::Table);
        let ways: Vec<(u64, u64)> = match branch.ways.split_last() {
            Some((_, taken)) if !is_table => taken.iter().filter_map(exact).collect(),
            _ => branch.ways.iter().filter_map(exact).collect(),
        };
        for (target, count) in ways.into_iter().filter(|&(_, count)| count > 0) {
            let line = self.go_to(pc, own_number, own)?;
            let (file, target_line) = match self.profile.names.code_line_at(target) {
                Some((file, line)) => (clean(file), line),
                None => (own.to_owned(), 0),
            };
            let (number, file) = self.file(&file);
            if number != self.file {
                writeln!(self.out, "jfi={file}")?;
            }
            let callee = Party::at(self.profile, &self.parts, target);
            if callee != *party {
                let name = self.function_name(&callee);
                writeln!(self.out, "jfn={name}")?;
            }
            if is_table {
                writeln!(self.out, "jump={count} {target:#x} {target_line}")?;
            } else {
                writeln!(self.out, "jcnd={count}/{executions} {target:#x} {target_line}")?;
            }
            writeln!(self.out, "{pc:#x} {line}")?;
        }
        Ok(())
    }

    fn call(&mut self, site: &Site, own_number: usize, own: &str) -> io::Result<()> {
        let line = self.go_to(site.pc, own_number, own)?;
        let (_, file) = self.file(&own_file(self.profile, &site.callee));
        let callee = self.function_name(&site.callee);
        // Always with its file, since readers disagree about a missing one.
        writeln!(self.out, "cfi={file}")?;
        writeln!(self.out, "cfn={callee}")?;
        let (start, start_line) = match site.callee {
            Party::Code(start) => (start, self.start_line(start)),
            _ => (0, 0),
        };
        writeln!(self.out, "calls={} {start:#x} {start_line}", site.calls)?;
        self.costs(site.pc, line, [site.inclusive.insns, site.inclusive.samples, 0, site.inclusive.cycles])
    }

    /// Line of a function's definition; 0 if it is not known.
    fn start_line(&self, start: u64) -> u32 {
        self.profile.names.function_at(start).and_then(|function| function.line).unwrap_or(0)
    }

    /// Writes a line of costs. Zeros at its end are left out, as the format allows.
    fn costs(&mut self, pc: u64, line: u32, costs: [u64; 4]) -> io::Result<()> {
        write!(self.out, "{pc:#x} {line} {}", costs[0])?;
        let last = costs.iter().rposition(|&cost| cost > 0).unwrap_or(0);
        for cost in &costs[1..=last] {
            write!(self.out, " {cost}")?;
        }
        writeln!(self.out)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;
    use crate::profile::testing::empty;
    use crate::profile::{Cycles, InsnCycles};

    fn text(profile: &Profile) -> String {
        let mut out = Vec::new();
        write(profile, &Settings::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn known_cycles_are_a_cost_of_their_own() {
        let mut profile = empty().function("main", 0x40, 8).insn(0x40, 3).insn(0x42, 2);
        assert!(!text(&profile).contains("ycles"));
        let insn = |pc, usual, cycles| InsnCycles { pc, usual, cycles, ..InsnCycles::default() };
        let insns = vec![insn(0x40, 2, 6), insn(0x42, 1, 3)];
        profile.cycles = Some(Cycles { clock: 9, insns, ..Cycles::default() });
        let text = text(&profile);
        let costs = ["\nevents: Ir Samples Calls Cycles\n", "\nsummary: 5 0 ", "\n0x42 0 2 0 0 3\n"];
        assert!(costs.iter().all(|cost| text.contains(cost)) && text.ends_with(" 9\n"), "{text}");
        profile.cycles.as_mut().unwrap().unknown.push(0x44);
        assert!(!self::text(&profile).contains("ycles"), "spm has none");
    }

    /// Self instructions by callgrind_annotate's names of functions.
    fn annotated(profile: &Profile) -> BTreeMap<String, u64> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("callgrind.out");
        fs::write(&file, text(profile)).unwrap();
        let mut tool = Command::new("callgrind_annotate");
        tool.args(["--threshold=100", "--show=Ir", "--show-percs=no", "--auto=no"]).arg(&file);
        let output =
            tool.output().expect("callgrind_annotate is missing: run ci/setup --viewers, which installs valgrind");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        let shown = String::from_utf8(output.stdout).unwrap();
        let rows = shown.lines().filter_map(|line| line.trim().strip_suffix(" [blinky.elf]"));
        let row = |row: &str| {
            let (insns, name) = row.split_once("  ").unwrap();
            (name.to_owned(), insns.replace(',', "").parse().unwrap())
        };
        rows.map(row).collect()
    }

    #[test]
    fn names_that_hurt_come_out_of_callgrind_annotate_as_they_went_in() {
        let long = "n".repeat(1_000);
        let names = [
            "std::map<int, char const*>::operator[](int const&)",
            "semi;colon \"quoted\" 7 8",
            "core::ptr::drop_in_place::<[u8; 4]>",
            "gr\u{f6}\u{df}e::\u{6e2c}",
            "(7) seven",
            "(anonymous namespace)::init",
            "fn=(2) other",
            "calls=1 0x40 0",
            &long,
        ];
        let mut profile = empty();
        let mut expected = BTreeMap::new();
        for ((name, start), insns) in names.iter().zip((0x40..).step_by(0x10)).zip(1..) {
            profile = profile.function(name, start, 0x10).insn(start, insns);
            expected.insert(format!("src/blinky.c:{name}"), insns);
        }
        profile =
            profile.function("line\nbreak\t", 0x200, 4).insn(0x200, 100).function("", 0x204, 4).insn(0x204, 101);
        // A function without a size: the code there has no name.
        profile = profile.function("nothing", 0x300, 0).insn(0x300, 102);
        expected.insert("src/blinky.c:line break".to_owned(), 100);
        expected.insert("src/blinky.c:???".to_owned(), 101);
        expected.insert("???:[0x00000300..0x000003ff]".to_owned(), 102);
        assert_eq!(annotated(&profile), expected);
    }

    #[test]
    fn namesakes_are_told_apart_by_file_and_else_by_address() {
        let mut profile = empty()
            .function("init", 0x40, 0x10)
            .function("init", 0x50, 0x10)
            .function("setup", 0x60, 0x10)
            .function("setup", 0x70, 0x10)
            .insn(0x40, 1)
            .insn(0x50, 2)
            .insn(0x60, 3)
            .insn(0x70, 4);
        profile.names.functions[1].file = Some("src/uart.c".to_owned());
        let names = [
            "src/blinky.c:init",
            "src/blinky.c:setup [0x00000060]",
            "src/blinky.c:setup [0x00000070]",
            "src/uart.c:init",
        ];
        let expected: BTreeMap<String, u64> = names.into_iter().map(str::to_owned).zip([1, 3, 4, 2]).collect();
        assert_eq!(annotated(&profile), expected);
    }

    #[test]
    fn inlined_code_is_in_its_own_file_and_calls_are_where_they_were_made() {
        let mut profile = empty()
            .function("main", 0x40, 0x10)
            .function("crc", 0x50, 0x10)
            .frames(0x42, &["main", "rotate"])
            .insn(0x40, 1)
            .insn(0x42, 6)
            .insn(0x44, 1)
            .insn(0x50, 30)
            .arc((0x44, 0x50), Some(0x48), true, 3)
            .caller(0, 0x48)
            .taken(2, 0x50, 1, 0);
        profile.names.strings.push("src/bits.h".to_owned());
        let file = profile.names.strings.len() as u32 - 1;
        for frame in &mut profile.names.stacks[0] {
            (frame.file, frame.line) = (Some(file), Some(12));
        }
        let text = text(&profile);
        let body = text.split_once("\nob=").unwrap().1;
        let expected = "(1) blinky.elf

fl=(1) src/blinky.c
fn=(1) main
0x40 0 1 0 1
fi=(2) src/bits.h
0x42 12 6
fe=(1)
0x44 0 1
cfi=(1)
cfn=(2) crc
calls=3 0x50 7
0x44 0 30 2

fl=(1)
fn=(2)
0x50 0 30 2 30

totals: 38 2 31
";
        assert_eq!(body, expected);
    }

    #[test]
    fn calls_from_several_sites_cost_what_was_sampled_there() {
        let profile = empty()
            .function("main", 0x40, 0x10)
            .function("crc", 0x50, 0x10)
            .insn(0x40, 1)
            .insn(0x44, 9)
            .insn(0x4a, 1)
            .insn(0x50, 100)
            .arc((0x44, 0x50), Some(0x48), true, 9)
            .arc((0x4a, 0x50), Some(0x4e), true, 1)
            .caller(0, 0x48)
            .caller(0, 0x4e)
            .taken(1, 0x50, 1, 0)
            .taken(4, 0x50, 2, 0);
        let text = text(&profile);
        let calls = |calls: &str| text.split_once(calls).unwrap().1.lines().nth(1).unwrap().to_owned();
        assert_eq!(calls("calls=9 "), "0x44 0 20 1");
        assert_eq!(calls("calls=1 "), "0x4a 0 80 4");
    }
}
