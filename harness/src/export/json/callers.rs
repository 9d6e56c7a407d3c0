// SPDX-License-Identifier: MIT OR Apache-2.0
//! Callers and callees of a function as JSON (`harness callers --json`), with the names of the profile's JSON format
//! (`json`). Unlike the table on the terminal, it leaves nothing out.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::callgraph::{CallGraph, Edge, Inclusive, Party, Surroundings, Together};
use crate::analysis::calltree::CallTree;
use crate::analysis::owner::Owner;
use crate::analysis::stack_proof;
use crate::export::json::{Address, VERSION, document};
use crate::image::symbols;
use crate::profile::Profile;

/// Function between its callers and its callees.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Callers")]
struct Document<'a> {
    /// Always "harness-callers".
    format: &'static str,
    /// Version of the format. Profiles as JSON have the same version.
    version: u32,
    /// File name of the image.
    image: &'a str,
    /// SHA-256 of the image.
    image_sha256: &'a str,
    /// Instructions of the window. Exact.
    total_insns: u64,
    /// Whether instructions by caller and callee are exact (--exact), instead of divided as the samples are.
    is_exact: bool,
    /// Name of the function; the generic's name for several of its instances.
    name: String,
    /// First addresses of the function, or of the instances; empty: the boot ROM.
    addresses: Vec<Address>,
    /// Entries from outside. Exact.
    calls: u64,
    /// Instructions in it, called ones not included. Exact.
    self_insns: u64,
    /// Instructions in the function and all its callees; null: the profile has no stacks.
    inclusive_insns: Option<u64>,
    /// Cycles of its instructions, null without --cycles. Exact.
    self_cycles: Option<u64>,
    /// Cycles as `inclusive_insns`, null without --cycles.
    inclusive_cycles: Option<u64>,
    /// Callers, by instructions.
    callers: Vec<Call>,
    /// Callees, by instructions.
    callees: Vec<Call>,
    /// Tasks and interrupts that it executed in, by instructions.
    contexts: Vec<Context>,
}

/// Caller or callee.
#[derive(Serialize, JsonSchema)]
struct Call {
    /// Name, or in square brackets the reason why there is none.
    name: String,
    /// First address of the function.
    address: Option<Address>,
    /// Calls between the two. Exact.
    calls: u64,
    /// Tail calls among them, by the function that jumped.
    tail_calls: Vec<TailCall>,
    /// Instructions of the function for this caller, or of this callee for the function; null: not known.
    insns: Option<u64>,
    /// Cycles as `insns`, null without --cycles.
    cycles: Option<u64>,
    /// Callers of a caller, or callees of a callee, as far as --depth asks for.
    beyond: Vec<Call>,
}

/// Tail calls by the function that jumped.
#[derive(Serialize, JsonSchema)]
struct TailCall {
    /// Name of the function that jumped.
    from: String,
    /// Number of tail calls.
    calls: u64,
}

/// Task or interrupt.
#[derive(Serialize, JsonSchema)]
struct Context {
    /// Name of the task or interrupt.
    name: String,
    /// Instructions of the function there, called ones included.
    insns: u64,
    /// Cycles as `insns`, null without --cycles.
    cycles: Option<u64>,
}

/// Writes the surroundings of a function, up to `depth` calls away; `places` are the function, or the instances of it.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, places: &[Owner<'_>], depth: usize, out: &mut dyn Write) -> Result<()> {
    let starts: Vec<u64> = places.iter().filter_map(|place| place.start()).collect();
    let together = Together::new(profile, starts.iter().copied());
    let tree = CallTree::of_calls(profile);
    let graph = CallGraph::with(profile, &tree, &together);
    let function = graph.party(starts.first().copied());
    let node = graph.nodes.get(&function).copied().unwrap_or_default();
    let around = match graph.has_inclusive {
        true => Surroundings::new(&tree, &function, depth, &together),
        false => Surroundings::default(),
    };
    let one = function.name(profile);
    let name = if places.len() > 1 { symbols::generic(&one) } else { one };
    let calls = Calls { profile, graph: &graph, depth };
    let has_cycles = graph.total_cycles.is_some();
    let mut contexts: Vec<Context> = around
        .contexts
        .iter()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, inclusive)| Context {
            name: name.clone(),
            insns: inclusive.insns,
            cycles: has_cycles.then_some(inclusive.cycles),
        })
        .collect();
    // A stable sort: equal contexts stay in the order of their names.
    contexts.sort_by_key(|context| std::cmp::Reverse(context.insns));
    let document = Document {
        format: "harness-callers",
        version: VERSION,
        image: &profile.facts.image_name,
        image_sha256: &profile.facts.image_sha256,
        total_insns: graph.total_insns,
        is_exact: graph.is_exact && stack_proof::has_exact_tree(profile),
        name,
        addresses: starts.into_iter().map(Address).collect(),
        calls: node.calls,
        self_insns: node.self_insns,
        inclusive_insns: graph.has_inclusive.then_some(node.inclusive.insns),
        self_cycles: node.self_cycles,
        inclusive_cycles: (graph.has_inclusive && has_cycles).then_some(node.inclusive.cycles),
        callers: calls.around(&around.callers, true, &mut vec![], &function),
        callees: calls.around(&around.callees, false, &mut vec![], &function),
        contexts,
    };
    document::write_line(&document, out)
}

/// JSON Schema of the output.
///
/// # Errors
/// No known errors.
pub fn schema() -> Result<String> {
    document::schema::<Document<'_>>()
}

struct Calls<'a> {
    profile: &'a Profile,
    graph: &'a CallGraph,
    depth: usize,
}

impl Calls<'_> {
    /// Callers or callees of the last function in a chain, each with the functions beyond it; `chains` has the cost of
    /// each chain.
    fn around(
        &self,
        chains: &BTreeMap<Vec<Party>, Inclusive>,
        is_above: bool,
        chain: &mut Vec<Party>,
        last: &Party,
    ) -> Vec<Call> {
        let edges = if is_above { self.graph.callers(last) } else { self.graph.callees(last) };
        let mut calls: Vec<Call> = Vec::new();
        for (other, edge) in edges {
            chain.push(other.clone());
            let cost = match chain.len() {
                // Only the edge has the cost of a function's calls of itself.
                1 => Some(edge.inclusive),
                _ => chains.get(chain).copied(),
            };
            // A chain without counts was never observed, so it does not exist.
            if cost.is_some() || !self.graph.has_inclusive {
                let is_new = !chain[..chain.len() - 1].contains(other) && other != last;
                let goes_on = chain.len() < self.depth && !matches!(other, Party::Outside(_)) && is_new;
                let beyond = if goes_on { self.around(chains, is_above, chain, other) } else { Vec::new() };
                calls.push(self.call(other, edge, cost, beyond));
            }
            chain.pop();
        }
        // A stable sort: equal calls stay in the order of addresses.
        calls.sort_by_key(|call| std::cmp::Reverse((call.insns, call.calls)));
        calls
    }

    fn call(&self, other: &Party, edge: &Edge, cost: Option<Inclusive>, beyond: Vec<Call>) -> Call {
        // A call without samples is not free: its cost is unknown.
        let known = cost.filter(|cost| self.graph.has_inclusive && (cost.insns > 0 || self.graph.is_exact));
        let tail_calls = edge.tail_calls.iter();
        Call {
            name: other.name(self.profile),
            address: match other {
                Party::Code(start) => Some(Address(*start)),
                Party::BootRom | Party::Outside(_) => None,
            },
            calls: edge.calls,
            tail_calls: tail_calls.map(|(from, &calls)| TailCall { from: from.name(self.profile), calls }).collect(),
            insns: known.map(|cost| cost.insns),
            cycles: known.filter(|_| self.graph.total_cycles.is_some()).map(|cost| cost.cycles),
            beyond,
        }
    }
}
