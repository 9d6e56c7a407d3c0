// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table of a function between its callers and its callees, with their costs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use crate::analysis::callgraph::{CallGraph, Edge, Inclusive, Party, Surroundings, Together};
use crate::analysis::calltree::CallTree;
use crate::analysis::lookup::Inlined;
use crate::analysis::owner::Owner;
use crate::analysis::stack_proof;

use crate::image::symbols;
use crate::profile::{Frame, Profile};
use crate::text::columns::{columns, shorten};
use crate::text::number::{group, group_known, share};
use crate::text::printable::printable;
use crate::text::tone::Tone;

/// Limits of the calls shown around a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallersLimits {
    /// Number of calls followed in each direction.
    pub depth: usize,
    /// Most callers and callees of each function; 0: all.
    pub top: usize,
    /// Width of the terminal, to which names are shortened; None: names are whole.
    pub width_columns: Option<usize>,
}

/// Cells of one row: calls, instructions, their share, cycles (a column without a heading is left out), and the subject;
/// unknown values are `-`.
type Cells = [String; 5];

const INDENT: &str = "    ";

/// Names are not shortened below this, however narrow the terminal is.
const MIN_NAME_COLUMNS: usize = 16;

/// Writes the callers, the function, itself and its callees, and the tasks and interrupts it ran in. Several places
/// are shown as one function.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, places: &[Owner<'_>], limits: CallersLimits, out: &mut impl Write) -> io::Result<()> {
    let Some(&place) = places.first() else { return Ok(()) };
    let together = Together::new(profile, places.iter().filter_map(|place| place.start()));
    let tree = CallTree::of_calls(profile);
    let graph = CallGraph::with(profile, &tree, &together);
    let function = graph.party(place.start());
    let node = graph.nodes.get(&function).copied().unwrap_or_default();
    let around = if graph.has_inclusive {
        Surroundings::new(&tree, &function, limits.depth, &together)
    } else {
        Surroundings::default()
    };
    let whole = graph.has_inclusive.then_some(node.inclusive);
    let one = function.name(profile);
    let name = if places.len() > 1 { symbols::generic(&one) } else { one };
    let mut block = Block { profile, graph: &graph, limits, whole, together: (&function, &name), lines: Vec::new() };

    block.rows(Direction { chains: &around.callers, is_above: true }, &mut vec![], &function);
    let location = match place {
        Owner::Function(function) => match (&function.file, function.line) {
            (Some(file), Some(line)) => format!("  {file}:{line}"),
            _ => String::new(),
        },
        _ => String::new(),
    };
    let instances = if places.len() > 1 { format!("  ({} instances)", places.len()) } else { String::new() };
    let line = printable(&format!("{name}{location}{instances}")).into_owned();
    // The start of unnamed code is not known, and so neither is the number of its entries.
    let calls = (!matches!(place, Owner::Range { .. })).then_some(node.calls);
    block.line(calls, whole, graph.total_insns, line);
    let total = whole.map_or(graph.total_insns, |whole| whole.insns);
    let itself = Inclusive { insns: node.self_insns, samples: node.samples, cycles: node.self_cycles.unwrap_or(0) };
    block.line(None, Some(itself), total, format!("{INDENT}(itself)"));
    block.rows(Direction { chains: &around.callees, is_above: false }, &mut vec![], &function);
    let cycles = if graph.total_cycles.is_some() { "Cycles" } else { "" };
    let mut lines = vec![["Calls", "Instructions", "Share", cycles, "Callers, function, callees"].map(str::to_owned)];
    lines.append(&mut block.lines);
    table(&lines, limits.width_columns, out)?;

    let named = around.contexts.iter().filter(|(name, _)| !name.is_empty());
    let mut contexts: Vec<(&String, &Inclusive)> = named.collect();
    if !contexts.is_empty() {
        // Stable: equal ones stay in order of name.
        contexts.sort_by_key(|(_, inclusive)| std::cmp::Reverse(inclusive.insns));
        let mut lines = vec![["", "Instructions", "Share", cycles, "In"].map(str::to_owned)];
        for (name, inclusive) in contexts {
            let name = printable(name);
            lines.push([
                String::new(),
                group(inclusive.insns),
                share(inclusive.insns, node.inclusive.insns),
                group(inclusive.cycles),
                name.into_owned(),
            ]);
        }
        writeln!(out)?;
        table(&lines, limits.width_columns, out)?;
    }
    writeln!(out)?;
    let costs = if graph.total_cycles.is_some() { "instructions and cycles" } else { "instructions" };
    let rule = match (graph.has_inclusive, graph.is_exact) {
        (true, true) if stack_proof::has_exact_tree(profile) => "all exact".to_owned(),
        (true, true) => format!(
            "calls are exact; {costs} are NOT: calls and call tree contradict each other, as the profile's summary says"
        ),
        (true, false) => format!(
            "calls are exact; {costs} are exact by function, and divided over its callers by samples (`-`: no samples; exact \
             with --exact)"
        ),
        (false, _) => format!("calls are exact; the profile has no stacks, so {costs} by caller are not known"),
    };
    writeln!(out, "{rule}")
}

/// Writes where a function without code of its own is inlined, and its instructions there.
///
/// # Errors
/// Errors of `out`.
pub fn write_inlined(
    profile: &Profile,
    inlined: &Inlined,
    limits: CallersLimits,
    out: &mut impl Write,
) -> io::Result<()> {
    // Key: the functions from the one that has the code inwards. Values: all instructions, and those of own lines.
    let mut chains: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let (mut all_insns, mut own_insns) = (0, 0);
    for (pc, insns) in profile.insns() {
        let frames = profile.names.frames_at(pc);
        let Some(at) = frames.iter().position(|frame| inlined.is(profile, frame)) else { continue };
        let own = if frames.last().is_some_and(|frame| inlined.is(profile, frame)) { insns } else { 0 };
        let name = |frame: &Frame| profile.names.strings.get(frame.function as usize).map_or("?", String::as_str);
        let around = frames[..at].iter().filter(|frame| frame.inlined).map(|frame| name(frame).to_owned());
        let chain: Vec<String> = [Owner::of(profile, pc).to_string()].into_iter().chain(around).collect();
        let sums = chains.entry(chain.join(" > ")).or_default();
        (sums.0, sums.1) = (sums.0 + insns, sums.1 + own);
        (all_insns, own_insns) = (all_insns + insns, own_insns + own);
    }
    let mut chains: Vec<(String, (u64, u64))> = chains.into_iter().collect();
    // Stable: equal ones stay in order of name.
    chains.sort_by_key(|(_, (insns, _))| std::cmp::Reverse(*insns));
    let rest = chains.split_off(if limits.top == 0 { chains.len() } else { limits.top.min(chains.len()) });
    let line = |(insns, own): (u64, u64), name: String| {
        [group(own), group(insns), share(insns, all_insns), String::new(), name]
    };
    let mut lines = vec![["Own lines", "With inlined", "Share", "", "Inlined into"].map(str::to_owned)];
    lines.extend(chains.into_iter().map(|(chain, sums)| line(sums, printable(&chain).into_owned())));
    if !rest.is_empty() {
        let sums = rest.iter().fold((0, 0), |sum, (_, (insns, own))| (sum.0 + insns, sum.1 + own));
        lines.push(line(sums, format!("{} others", rest.len())));
    }
    lines.push(line((all_insns, own_insns), printable(&inlined.name).into_owned()));
    table(&lines, limits.width_columns, out)?;
    writeln!(out, "\nnothing calls it: it has no code of its own; instructions are exact")
}

/// The callers of a function, or its callees.
#[derive(Clone, Copy)]
struct Direction<'a> {
    /// Cost of each chain of calls from or to the function.
    chains: &'a BTreeMap<Vec<Party>, Inclusive>,
    /// Whether these are callers, which are shown above the function.
    is_above: bool,
}

struct Block<'a> {
    profile: &'a Profile,
    graph: &'a CallGraph,
    limits: CallersLimits,
    /// Cost of the function and all its callees, if known.
    whole: Option<Inclusive>,
    /// The function that is shown, and its name: the generic's name for several instances.
    together: (&'a Party, &'a str),
    lines: Vec<Cells>,
}

impl Block<'_> {
    fn name(&self, party: &Party) -> String {
        let (function, name) = self.together;
        printable(&if party == function { name.to_owned() } else { party.name(self.profile) }).into_owned()
    }

    fn line(&mut self, calls: Option<u64>, cost: Option<Inclusive>, of_insns: u64, name: String) {
        let insns = cost.map(|cost| cost.insns);
        let part = insns.map_or_else(|| "-".to_owned(), |insns| share(insns, of_insns));
        let cycles = group_known(cost.map(|cost| cost.cycles));
        self.lines.push([calls.map_or_else(String::new, group), group_known(insns), part, cycles, name]);
    }

    /// Adds the callers or callees of the last function in a chain, each with those beyond it.
    fn rows(&mut self, direction: Direction<'_>, chain: &mut Vec<Party>, last: &Party) {
        let graph = self.graph;
        let of_insns = self.whole.map_or(0, |whole| whole.insns);
        let edges = if direction.is_above { graph.callers(last) } else { graph.callees(last) };
        let mut rows: Vec<(Party, &Edge, Option<Inclusive>)> = Vec::new();
        for (other, edge) in edges {
            let cost = if chain.is_empty() {
                // The own instructions of a recursive function are known only by pair.
                Some(edge.inclusive)
            } else {
                chain.push(other.clone());
                let cost = direction.chains.get(chain);
                chain.pop();
                cost.copied()
            };
            if !graph.has_inclusive {
                rows.push((other.clone(), edge, None));
            } else if cost.is_some() {
                rows.push((other.clone(), edge, cost));
            }
        }
        rows.sort_by_key(|(_, edge, cost)| std::cmp::Reverse((cost.map(|cost| cost.insns), edge.calls)));
        let most = if self.limits.top == 0 { rows.len() } else { self.limits.top.min(rows.len()) };
        let others = rows.split_off(most);
        let indent = INDENT.repeat(chain.len() + 1);
        let rest = (!others.is_empty()).then(|| {
            let calls = others.iter().map(|(_, edge, _)| edge.calls).sum();
            let costs = others.iter().filter_map(|(.., cost)| *cost);
            let cost = graph.has_inclusive.then(|| costs.fold(Inclusive::default(), Inclusive::with));
            (calls, cost, format!("{indent}{} others", others.len()))
        });
        // The most expensive row goes next to the function.
        if direction.is_above {
            rows.reverse();
        }
        if direction.is_above
            && let Some((calls, cost, name)) = rest.clone()
        {
            self.line(Some(calls), cost, of_insns, name);
        }
        for (other, edge, cost) in rows {
            let goes_on = chain.len() + 1 < self.limits.depth
                && !matches!(other, Party::Outside(_))
                && !chain.contains(&other)
                && other != *last;
            let mut beyond = |block: &mut Self| {
                if goes_on {
                    chain.push(other.clone());
                    block.rows(direction, chain, &other);
                    chain.pop();
                }
            };
            if direction.is_above {
                beyond(self);
            }
            let name = format!("{indent}{}{}", self.name(&other), self.through(edge));
            // A call without samples is not free; its cost is unknown.
            let known = cost.filter(|cost| cost.insns > 0 || graph.is_exact);
            self.line(Some(edge.calls), known, of_insns, name);
            if !direction.is_above {
                beyond(self);
            }
        }
        if !direction.is_above
            && let Some((calls, cost, name)) = rest
        {
            self.line(Some(calls), cost, of_insns, name);
        }
    }

    /// Names the functions that jumped, if calls were continued by tail calls; otherwise empty.
    fn through(&self, edge: &Edge) -> String {
        let jumps = edge
            .tail_calls
            .iter()
            .map(|(party, count)| format!("{} by tail call from {}", group(*count), self.name(party)));
        let jumps: Vec<String> = jumps.collect();
        if jumps.is_empty() { String::new() } else { format!("  ({})", jumps.join(", ")) }
    }
}

/// Writes the last column flush left and shortened to the width, the others flush right.
fn table(lines: &[Cells], width_columns: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let width = |column: usize| lines.iter().map(|line| columns(&line[column])).max().unwrap_or(0);
    let heading = |column: usize| lines.first().map_or("", |line| line[column].as_str());
    // The first column has no heading in the table of contexts, and its place must stay.
    let shown: Vec<(usize, usize)> = (0..4)
        .filter(|&column| column != 3 || !heading(column).is_empty())
        .map(|column| (column, width(column)))
        .collect();
    let before: usize = shown.iter().map(|(_, width)| width + 2).sum();
    let room = width_columns.map(|width| width.saturating_sub(before).max(MIN_NAME_COLUMNS));
    for (index, line) in lines.iter().enumerate() {
        let tone = if index == 0 { Tone::Heading } else { Tone::Plain };
        let [.., name] = line;
        let bare = name.trim_start();
        let indent = name.len() - bare.len();
        let bare = room.map_or(bare.into(), |room| shorten(bare, room.saturating_sub(indent).max(MIN_NAME_COLUMNS)));
        let mut text = String::new();
        for &(column, width) in &shown {
            let _ = write!(text, "{:>width$}  ", line[column]);
        }
        writeln!(out, "{}", tone.line(&format!("{text}{:indent$}{bare}", "")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::lookup;
    use crate::profile::testing::empty;

    fn shown(profile: &Profile, function: &str, limits: CallersLimits) -> String {
        let mut out = Vec::new();
        write(profile, &lookup::places(profile, function).unwrap(), limits, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Profile: `main` calls `front`, which jumps to `back`; `idle` calls `back`, without any sample.
    fn profile() -> Profile {
        empty()
            .function("main", 0x40, 0x10)
            .function("front", 0x50, 0x10)
            .function("back\x1b[2J", 0x60, 0x10)
            .function("idle", 0x70, 0x10)
            .insn(0x40, 10)
            .insn(0x50, 20)
            .insn(0x60, 70)
            .insn(0x70, 100)
            .arc((0x44, 0x50), Some(0x48), true, 20)
            .arc((0x58, 0x60), Some(0x48), false, 20)
            .arc((0x74, 0x60), Some(0x78), true, 50)
            .task_called("blink")
            .caller(0, 0x48)
            .taken(1, 0x40, 0, 1)
            .taken(2, 0x50, 1, 1)
            .taken(7, 0x60, 1, 1)
    }

    const ONE: CallersLimits = CallersLimits { depth: 1, top: 20, width_columns: None };

    #[test]
    fn the_function_is_between_its_callers_and_its_callees() {
        let profile = profile();
        let expected = "\
Calls  Instructions    Share  Callers, function, callees
   10           100  100.00%      [no caller]
   10           100   50.00%  main  src/blinky.c:7
                 10   10.00%      (itself)
   20            70   70.00%      back\u{fffd}[2J  (20 by tail call from front)
   20            20   20.00%      front

  Instructions    Share  In
           100  100.00%  task blink

calls are exact; instructions are exact by function, and divided over its callers by samples (`-`: no samples; exact with --exact)
";
        assert_eq!(shown(&profile, "main", ONE), expected);
    }

    #[test]
    fn what_was_not_sampled_is_not_shown_as_free() {
        let text = shown(&profile(), "0x62", ONE);
        assert!(text.contains("\n   50             -        -      idle\n"), "{text}");
        assert!(text.contains("\n   20            70  100.00%      main  (20 by tail call from front)\n"), "{text}");
    }

    #[test]
    fn rows_that_are_too_many_are_added_up_at_the_far_end() {
        let profile = profile();
        let text = shown(&profile, "main", CallersLimits { depth: 1, top: 1, width_columns: None });
        assert!(text.contains("front)\n   20            20   20.00%      1 others\n"), "{text}");
        let text = shown(&profile, "0x60", CallersLimits { depth: 1, top: 1, width_columns: None });
        let at = |name: &str| text.find(name).unwrap_or_else(|| panic!("{text}"));
        assert!(at("1 others") < at("main"), "{text}");
    }
}
