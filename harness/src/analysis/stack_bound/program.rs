// SPDX-License-Identifier: MIT OR Apache-2.0
//! The image's functions with their frames and the targets of their calls, as a graph.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use decode::Isa;

use super::function::{self, Function};
use super::graph::{self, Edge, Node, Solution};
use super::linker::Linker;
use super::targets::{Known, Source};
use super::{Bound, Certainty, Rules, Step};
use crate::image::symbols::{Symbols, demangle};
use crate::image::unwind::{self, Frame, Transfer};
use crate::image::{Arch, ArmLevel, Fpu, Image};
use crate::machine::riscv_extensions;
use crate::profile::Profile;
use crate::text::number::Hex;
use crate::text::symbol_name::{file_name, key_name};

/// Longest path that is shown.
const MAX_PATH: usize = 64;

/// Most reasons that are listed for one number.
const MAX_REASONS: usize = 20;

/// Ways through the program that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ways {
    /// Every way.
    All,
    /// Every way but calls of functions that never return, as far as no run has made them: a failed assertion, a panic.
    Returning,
}

/// Functions with their transfers as a graph, solved.
#[derive(Clone, Debug, Default)]
struct Graph {
    nodes: Vec<Node>,
    solution: Solution,
}

/// Program as a graph, solved.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) isa: Isa,
    pub(super) functions: Vec<Function>,
    all: Graph,
    returning: Graph,
    /// Functions that have executed in the runs, by index.
    pub(super) ran: BTreeSet<usize>,
    /// Functions that end the firmware by the user's statement, by index.
    pub(super) ends: BTreeSet<usize>,
    /// Variables of the image: addresses, a shorter one first.
    pub(super) variables: Vec<Range<u64>>,
    /// Symbols of the linker script about the main stack.
    pub(super) linker: Linker,
    /// Whether code may leave floating-point registers on the stack of what an exception interrupts.
    pub(super) has_fpu: bool,
    /// Number of transfers through pointers by the source of their targets.
    transfers_by_source: BTreeMap<Source, u64>,
}

/// Instruction set of an image by its own facts, and by the processors of its runs.
fn isa(image: &Image, profiles: &[Profile]) -> Option<Isa> {
    let has_zcmp = || {
        // Zcmp has the encodings of Zcd, which needs D.
        let lacks_d = |isa: &str| !riscv_extensions(isa).iter().any(|one| one == "d");
        image.needs.riscv.as_deref().is_some_and(lacks_d)
            || profiles.iter().any(|profile| profile.facts.isa().is_some_and(Isa::has_zcmp))
    };
    Some(match image.arch? {
        Arch::Riscv64 if has_zcmp() => Isa::Riscv64Zc,
        Arch::Riscv32 if has_zcmp() => Isa::Riscv32Zc,
        Arch::Riscv64 => Isa::Riscv64,
        Arch::Riscv32 => Isa::Riscv32,
        Arch::Avr => return None,
        Arch::CortexM => match image.needs.arm.as_ref().map(|arm| arm.level) {
            Some(ArmLevel::V6M) => Isa::ThumbV6m,
            Some(ArmLevel::V8MBase | ArmLevel::V8MMain | ArmLevel::V81MMain) => Isa::ThumbV8m,
            Some(ArmLevel::V7M | ArmLevel::V7EM) | None => Isa::ThumbV7m,
        },
    })
}

impl Program {
    /// Reads the functions of an image and solves their graph; `bytes` is its ELF file. Runs tell where indirect calls
    /// went. None: the image's processor is not known.
    pub fn read(bytes: &[u8], image: &Image, profiles: &[Profile], rules: &Rules) -> Option<Program> {
        let isa = isa(image, profiles)?;
        let symbols = Symbols::new(Some(bytes), 0, isa.is_thumb());
        let ranges = symbols.ranges();
        let table = unwind::table(Some(bytes), isa, &image.segments, 0, &ranges);
        let frames = unwind::frames(bytes, isa, &image.segments, &ranges, &table.rows, &symbols.compiled());
        let sources = symbols.function_sources(&ranges.iter().map(|range| range.start).collect());
        let functions = symbols.functions().zip(frames).map(|((range, linkage_name), frame)| Function {
            name: key_name(&demangle(linkage_name)),
            linkage_name: linkage_name.to_owned(),
            file: sources.get(&range.start).cloned().unwrap_or_default(),
            frame,
            reasons: Vec::new(),
        });
        let variables = symbols.variables();
        let mut program = Program {
            isa,
            functions: functions.collect(),
            all: Graph::default(),
            returning: Graph::default(),
            ran: BTreeSet::new(),
            ends: BTreeSet::new(),
            variables: variables.iter().map(|(range, _)| range.clone()).collect(),
            linker: Linker::read(bytes),
            has_fpu: image.needs.arm.as_ref().is_some_and(|arm| arm.fpu != Fpu::None),
            transfers_by_source: BTreeMap::new(),
        };
        program.ends = rules.ends(&program.functions);
        let known = Known::read(program.isa, &program.functions, image, (&symbols, &variables), profiles, rules);
        let (mut all, mut returning) = (Vec::new(), Vec::new());
        for index in 0..program.functions.len() {
            let (node, shorter, reasons, sources) = program.node(index, &known);
            all.push(node);
            returning.push(shorter);
            program.functions[index].reasons = reasons;
            for source in sources {
                *program.transfers_by_source.entry(source).or_default() += 1;
            }
        }
        program.all = Graph { solution: graph::solve(&all), nodes: all };
        program.returning = Graph { solution: graph::solve(&returning), nodes: returning };
        program.ran = known.ran;
        Some(program)
    }

    fn graph(&self, ways: Ways) -> &Graph {
        match ways {
            Ways::All => &self.all,
            Ways::Returning => &self.returning,
        }
    }

    /// Function that contains an address.
    pub(super) fn at(&self, address: u64) -> Option<usize> {
        function::at(&self.functions, address)
    }

    /// Functions of a name, as the user writes it.
    pub(super) fn named(&self, name: &str) -> Vec<usize> {
        let is_named = |function: &Function| function.names().contains(&name);
        let all = self.functions.iter().enumerate();
        all.filter(|(_, function)| is_named(function)).map(|(index, _)| index).collect()
    }

    /// Functions with the bytes that each holds itself: name, file, bytes.
    pub fn frames(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.functions
            .iter()
            .map(|function| (&*function.name, file_name(&function.file), function.frame.deepest_bytes))
    }

    /// First address of each function with the targets that its transfers may have, sorted.
    pub fn edges(&self) -> BTreeMap<u64, BTreeSet<u64>> {
        let start = |index: usize| self.functions[index].frame.function.start;
        let targets = |node: &Node| node.edges.iter().map(|edge| start(edge.to)).collect();
        self.all.nodes.iter().enumerate().map(|(index, node)| (start(index), targets(node))).collect()
    }

    /// First addresses of the functions whose transfers or frames are not all known.
    pub fn unresolved(&self) -> BTreeSet<u64> {
        let functions = self.functions.iter().filter(|function| !function.reasons.is_empty());
        functions.map(|function| function.frame.function.start).collect()
    }

    /// Nodes of a function for all ways and for those that return, the reasons why its numbers are not bounds, and the
    /// source of the targets of each transfer through a pointer.
    fn node(&self, index: usize, known: &Known<'_>) -> (Node, Node, Vec<String>, Vec<Source>) {
        let function = &self.functions[index];
        let names = function.names();
        let mut node = Node { own_bytes: function.frame.deepest_bytes, ..Node::default() };
        let (mut reasons, mut sources) = (Vec::new(), Vec::new());
        let mut extra = 0;
        if let Some(pc) = function.frame.dynamic {
            match Rules::number(&known.rules.frames, &names) {
                Some(bytes) => extra = bytes,
                None => {
                    node.certainty = Certainty::Unbounded;
                    reasons.push(format!(
                        "{name} makes its frame larger by a number that only a run knows (alloca or a variable array, at \
                         {}); state it: frames = {{ {name:?} = BYTES }}",
                        Hex(pc),
                        name = function.name
                    ));
                }
            }
        }
        let holes = [
            (function.frame.open_end, "goes on where there is no function with a symbol, behind"),
            (function.frame.unknown, "has an instruction that harness does not know, at"),
        ];
        for (pc, what) in holes {
            if let Some(pc) = pc {
                node.certainty = Certainty::Unbounded;
                reasons.push(format!("{} {what} {}", function.name, Hex(pc)));
            }
        }
        node.own_bytes = node.own_bytes.saturating_add(extra);
        let (mut all, mut returning) = (BTreeSet::new(), BTreeSet::new());
        for transfer in &function.frame.transfers {
            let (targets, source) = known.targets(&self.functions, function, transfer);
            if transfer.target.is_none() {
                sources.push(source);
            }
            if let Some(target) = transfer.target.filter(|_| targets.is_empty()) {
                reasons.push(format!(
                    "{} goes to {} at {}, where there is no function with a symbol",
                    function.name,
                    Hex(target),
                    Hex(transfer.pc)
                ));
                node.certainty = Certainty::Unbounded;
            }
            let found = match source {
                Source::Code | Source::User | Source::Types => None,
                Source::Runs => Some((Certainty::Estimated, "what is known of where may not be all")),
                Source::Nothing => Some((Certainty::Unbounded, "nothing shows where")),
            };
            if let Some((certainty, found)) = found {
                let what = if transfer.is_call { "calls" } else { "jumps" };
                reasons.push(format!(
                    "{name} {what} through a pointer at {}, and {found}; state it: calls = {{ {name:?} = [\"…\"] }}",
                    Hex(transfer.pc),
                    name = function.name
                ));
                node.certainty = node.certainty.max(certainty);
            }
            let bytes = transfer.depth_bytes.saturating_add(extra);
            for to in targets.into_iter().filter(|to| !self.ends.contains(to)) {
                let edge = Edge { to, bytes };
                all.insert(edge);
                let is_end = transfer.target.is_some() && self.is_end(index, to, transfer, known);
                if !is_end {
                    returning.insert(edge);
                }
            }
        }
        node.most = Rules::number(&known.rules.bounds, &names);
        let with = |edges: BTreeSet<Edge>| Node { edges: edges.into_iter().collect(), ..node.clone() };
        (with(all), with(returning), reasons, sources)
    }

    /// Whether a transfer leads to the end of the run: the target never returns, and no run has gone there, although
    /// the caller returns, or has executed.
    fn is_end(&self, caller: usize, to: usize, transfer: &Transfer, known: &Known<'_>) -> bool {
        let goes_on = !self.functions[caller].frame.never_returns || known.ran.contains(&caller);
        let Frame { function, never_returns, .. } = &self.functions[to].frame;
        // Code that runs into the next function makes no transfer that a run could see.
        let falls = function.start.wrapping_sub(transfer.pc) <= 4;
        *never_returns && goes_on && !falls && !known.has_seen(transfer.pc)
    }

    /// Sentence about the indirect calls and jumps, by the source of their targets.
    pub fn indirect(&self) -> String {
        let sum: u64 = self.transfers_by_source.values().sum();
        let rows =
            self.transfers_by_source.iter().map(|(source, count)| format!("{count} known by {}", source.word()));
        let rows: Vec<String> = rows.collect();
        let rows = if rows.is_empty() { "none".to_owned() } else { rows.join(", ") };
        format!("indirect calls and jumps: {sum} ({rows})")
    }

    /// Most stack from a function on.
    pub(super) fn bound(&self, function: usize, ways: Ways) -> Bound {
        let solution = &self.graph(ways).solution;
        let most = solution.most[function];
        let mut path = Vec::new();
        let mut at = function;
        while path.len() < MAX_PATH {
            let next = solution.most[at].next;
            let bytes = next.map_or(solution.own_bytes[at], |edge| edge.bytes);
            path.push(Step { function: self.functions[at].name.clone(), bytes });
            match next {
                Some(edge) if !solution.circle_of.contains_key(&at) => at = edge.to,
                _ => break,
            }
        }
        Bound { bytes: most.bytes, certainty: most.certainty, path, reasons: self.reasons(function, ways) }
    }

    /// Reasons why the number of a function is not a bound, among all that it reaches.
    fn reasons(&self, function: usize, ways: Ways) -> Vec<String> {
        let Graph { nodes, solution } = self.graph(ways);
        if solution.most[function].certainty == Certainty::Bounded {
            return Vec::new();
        }
        let (mut open, mut seen, mut circles) = (vec![function], BTreeSet::from([function]), BTreeSet::new());
        while let Some(node) = open.pop() {
            circles.extend(solution.circle_of.get(&node).copied());
            open.extend(nodes[node].edges.iter().map(|edge| edge.to).filter(|to| seen.insert(*to)));
        }
        let circles = circles.into_iter().map(|circle: usize| {
            let names: Vec<&str> =
                solution.circles[circle].iter().map(|&node| self.functions[node].name.as_str()).collect();
            let more = if names.len() > 6 { format!(" and {} more", names.len() - 6) } else { String::new() };
            format!(
                "recursion: {}{more}; state how often at once: bounds = {{ {:?} = N }}",
                names[..names.len().min(6)].join(", "),
                names[0]
            )
        });
        let own = seen.iter().flat_map(|&node| self.functions[node].reasons.iter().cloned());
        let mut reasons: Vec<String> = circles.chain(own).collect();
        let more = reasons.len().saturating_sub(MAX_REASONS);
        reasons.truncate(MAX_REASONS);
        if more > 0 {
            reasons.push(format!("and {more} more reasons"));
        }
        reasons
    }

    /// Bound of a function whose transfers through pointers reach only these functions: where a task's first function
    /// calls that of the task.
    pub(super) fn bound_through(&self, function: usize, callees: &BTreeSet<usize>, ways: Ways) -> Bound {
        self.bound_by(function, ways, |transfer| match transfer.target {
            Some(target) => self.at(target).into_iter().collect(),
            None => callees.clone(),
        })
    }

    /// Bound of the part that a function's own stack needs, if it changes to another stack for some of its calls.
    pub(super) fn bound_here(&self, function: usize, ways: Ways) -> Bound {
        if !self.functions[function].frame.transfers.iter().any(|transfer| transfer.is_elsewhere) {
            return self.bound(function, ways);
        }
        let edges = &self.graph(ways).nodes[function].edges;
        // Transfers through pointers cannot be told apart here.
        let targets = |transfer: &Transfer| match transfer.target {
            _ if transfer.is_elsewhere => BTreeSet::new(),
            Some(target) => {
                self.at(target).into_iter().filter(|to| edges.iter().any(|edge| edge.to == *to)).collect()
            }
            None => edges.iter().map(|edge| edge.to).collect(),
        };
        let mut bound = self.bound_by(function, ways, targets);
        bound.certainty = bound.certainty.max(self.graph(ways).nodes[function].certainty);
        bound
    }

    /// Bound of a function by its transfers' targets.
    fn bound_by(&self, function: usize, ways: Ways, targets: impl Fn(&Transfer) -> BTreeSet<usize>) -> Bound {
        let own = |bytes| Step { function: self.functions[function].name.clone(), bytes };
        let bytes = self.graph(ways).solution.own_bytes[function];
        let mut best = Bound { bytes, certainty: Certainty::Bounded, path: vec![own(bytes)], reasons: Vec::new() };
        for transfer in &self.functions[function].frame.transfers {
            for target in targets(transfer) {
                let bound = self.bound(target, ways);
                let bytes = transfer.depth_bytes.saturating_add(bound.bytes);
                best.certainty = best.certainty.max(bound.certainty);
                best.add_reasons(&bound.reasons);
                if bytes > best.bytes {
                    best.bytes = bytes;
                    best.path = [own(transfer.depth_bytes)].into_iter().chain(bound.path).take(MAX_PATH).collect();
                }
            }
        }
        best
    }

    /// Whether a function calls or jumps through pointers.
    pub(super) fn is_indirect(&self, function: usize) -> bool {
        self.functions[function].frame.transfers.iter().any(|transfer| transfer.target.is_none())
    }
}
