// SPDX-License-Identifier: MIT OR Apache-2.0
//! Proof of call stacks and of the exact call tree by the exact counts.
//!
//! A stack is *verified* if each of its calls was counted at that very place, and its outermost function started
//! without a call: the firmware's first, a task's, a handler. A call on a stack that was never made proves the stack
//! wrong: its outer part is cut off and marked, and no profile shows it.
//!
//! Tail calls and jumps between parts of a function leave no return address, so a function may stand for any function
//! that can have jumped to it. Calls from before the window were not counted: they are taken from the first stack of
//! each task.

use std::collections::{BTreeMap, BTreeSet};

use decode::{Flow, decode};
use rustc_hash::{FxHashMap, FxHashSet};
use wire::definition::{FrameKind, NodeKind, Unknown};
use wire::sample::Sample;

use crate::analysis::cold_part::ColdParts;
use crate::analysis::functions;
use crate::analysis::owner::Owner;
use crate::profile::{Function, Profile, StackFrame};
use crate::text::number::{Hex, group, plural};

/// A profile's stacks, with disproved parts cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// All frames: those of the profile, and new ones.
    pub stacks: Vec<StackFrame>,
    /// The stack of each sample.
    pub samples: Vec<u32>,
}

/// Cuts off the disproved parts of a profile's stacks; None: there are none.
pub fn cut(profile: &Profile) -> Option<Cut> {
    // Without recorded stacks there is nothing to cut. A recorded stack without frames claims to be complete.
    profile.facts.max_depth?;
    let evidence = Evidence::new(profile);
    let mut cutter = Cutter {
        numbers: (1..).zip(&profile.stacks).map(|(number, frame)| ((frame.parent, frame.kind), number)).collect(),
        stacks: profile.stacks.clone(),
        of_insn: FxHashMap::default(),
        of_function: FxHashMap::default(),
    };
    let samples: Vec<u32> = profile.samples.iter().map(|sample| cutter.stack(profile, &evidence, sample)).collect();
    let is_changed = profile.samples.iter().zip(&samples).any(|(sample, stack)| sample.stack != *stack);
    is_changed.then_some(Cut { stacks: cutter.stacks, samples })
}

/// Functions at which stacks were cut off, because the shown caller never called them: samples by function, most
/// first.
pub fn disproved(profile: &Profile) -> Vec<(String, u64)> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    // Nearly always no stack was cut, and the samples' stacks need not be checked.
    if !profile.stacks.iter().any(|frame| frame.kind == FrameKind::Unknown(Unknown::Disproved)) {
        return Vec::new();
    }
    for sample in &profile.samples {
        let stack = profile.stack(sample.stack);
        if stack.first().is_some_and(|frame| frame.kind == FrameKind::Unknown(Unknown::Disproved)) {
            let inner = match stack.get(1).map(|frame| frame.kind) {
                Some(FrameKind::Caller { return_addr }) => return_addr.wrapping_sub(1),
                Some(FrameKind::Exception { pc, .. }) => pc,
                _ => sample.pc,
            };
            *counts.entry(Owner::of(profile, inner).to_string()).or_default() += 1;
        }
    }
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    // A stable sort: equal ones stay in the order of names.
    counts.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    counts
}

/// A difference in calls between the exact call tree and the exact arcs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongCalls {
    /// First address of the calling function; None: an entry without a call.
    pub caller: Option<u64>,
    /// First address of the called function.
    pub callee: u64,
    /// Calls in the tree.
    pub in_tree: u64,
    /// Calls in the arcs.
    pub exact: u64,
}

/// Number of calls that may be under way when the window opens and when it closes.
const IN_FLIGHT: u64 = 2;

/// Calls of the exact call tree that the arcs disprove; empty without a tree.
pub fn wrong_calls(profile: &Profile) -> Vec<WrongCalls> {
    let deepest = profile.facts.max_depth.map_or(1, |depth| depth.max(1)) as usize;
    let parts = ColdParts::of(profile);
    let mut in_tree: BTreeMap<(Option<u64>, u64), u64> = BTreeMap::new();
    let mut depths = Vec::with_capacity(profile.tree.len());
    for node in &profile.tree {
        let outer = node.parent.checked_sub(1).and_then(|index| depths.get(index as usize)).copied().unwrap_or(0);
        depths.push(match node.kind {
            NodeKind::Function { .. } => outer + 1,
            // A polled task's root lies between two functions.
            NodeKind::Root { .. } => outer,
            NodeKind::Exception { .. } => 0,
        });
        if let NodeKind::Function { entry } = node.kind {
            let caller = match profile.calling_node(node.parent).map(|node| node.kind) {
                Some(NodeKind::Function { entry }) => Some(entry),
                _ => None,
            };
            // A part is entered by ways that are not recorded, too.
            if !parts.contains(entry) {
                *in_tree.entry((caller, entry)).or_default() += node.calls;
            }
        }
    }
    // Calls deeper than that are siblings in the tree, so their callers there are not the real ones.
    if in_tree.is_empty() || depths.into_iter().max() >= Some(deepest) {
        return Vec::new();
    }
    let mut exact: BTreeMap<(Option<u64>, u64), u64> = BTreeMap::new();
    // Entries whose caller cannot be told by the return address: entries from code without a name, which has no node of
    // its own; entries without a call; and entries by a jump, after which the return address may be any.
    let mut others: BTreeMap<u64, u64> = BTreeMap::new();
    for arc in profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs).filter(|arc| functions::enters(profile, arc)) {
        let caller = functions::caller(profile, arc.return_addr).1.and_then(|caller| start_of(profile, caller));
        match caller.filter(|_| arc.links) {
            Some(caller) => *exact.entry((Some(caller), arc.target)).or_default() += arc.count,
            None => *others.entry(arc.target).or_default() += arc.count,
        }
    }
    for (callee, entries) in functions::entries(profile, &functions::table(profile)) {
        *others.entry(callee).or_default() += entries.others;
    }
    let pairs: BTreeSet<(Option<u64>, u64)> = in_tree.keys().chain(exact.keys()).copied().collect();
    let wrong = pairs.into_iter().filter_map(|(caller, callee)| {
        // Code that is called in its middle, or that has no name, is not counted elsewhere.
        start_of(profile, callee).filter(|&start| start == callee)?;
        let calls = |of: &BTreeMap<(Option<u64>, u64), u64>| of.get(&(caller, callee)).copied().unwrap_or(0);
        let (in_tree, exact) = (calls(&in_tree), calls(&exact));
        let others = others.get(&callee).copied().unwrap_or(0);
        let is_right = in_tree + IN_FLIGHT >= exact && in_tree <= exact + others + IN_FLIGHT;
        (!is_right).then_some(WrongCalls { caller, callee, in_tree, exact })
    });
    wrong.collect()
}

/// Maximum number of functions that a sentence names.
const MAX_NAMED: usize = 3;

/// Faults of a profile's stacks and exact call tree, a sentence each; empty: both agree with the exact counts.
pub fn faults(profile: &Profile) -> Vec<String> {
    let mut faults = Vec::new();
    let mut say = |what: String, mut named: Vec<String>| {
        let others = named.len().saturating_sub(MAX_NAMED);
        named.truncate(MAX_NAMED);
        let others = if others > 0 { format!(" and {} more", group(others as u64)) } else { String::new() };
        let names = if named.is_empty() { String::new() } else { format!(": {}{others}", named.join(", ")) };
        faults.push(format!("{what}{names}"));
    };
    let disproved = disproved(profile);
    if !disproved.is_empty() {
        let samples = group(disproved.iter().map(|(_, samples)| samples).sum());
        let named = disproved.into_iter().map(|(name, samples)| format!("{name} ({})", group(samples)));
        say(
            format!("{samples} stacks showed calls that were never made, and are cut off there, below"),
            named.collect(),
        );
    }
    let wrong = wrong_calls(profile);
    if !wrong.is_empty() {
        let name = |start: u64| Owner::of(profile, start).to_string();
        let named = wrong.into_iter().map(|WrongCalls { caller, callee, in_tree, exact }| {
            let caller = caller.map_or_else(|| "nothing".to_owned(), name);
            format!("{} called by {caller} {} times instead of {}", name(callee), group(in_tree), group(exact))
        });
        say("the call tree is NOT exact: its calls differ from those that were made".to_owned(), named.collect());
    }
    let unknown = unknown(profile);
    if !unknown.is_empty() {
        let named =
            unknown.iter().map(|&(pc, number)| format!("{number:#x} at {} in {}", Hex(pc), Owner::of(profile, pc)));
        let exact = if profile.tree.is_empty() { "" } else { ", and the call tree is NOT exact" };
        say(
            format!(
                "{} that executed, unknown to harness: what depends on where control went there may be wrong{exact}",
                plural(unknown.len() as u64, "instruction")
            ),
            named.collect(),
        );
    }
    match profile.facts.resynchronised {
        0 => {}
        times => say(
            format!(
                "the call tree is NOT exact: {} times control went where no call or return leads, and active \
                 functions were unwound",
                group(times)
            ),
            Vec::new(),
        ),
    }
    faults
}

/// Whether the exact call tree agrees with the exact counts.
pub fn has_exact_tree(profile: &Profile) -> bool {
    !profile.tree.is_empty()
        && profile.facts.resynchronised == 0
        && unknown(profile).is_empty()
        && wrong_calls(profile).is_empty()
}

/// Executed instructions that are not known, by address, with their bytes as a number.
fn unknown(profile: &Profile) -> Vec<(u64, u32)> {
    let Some(isa) = profile.facts.isa() else { return Vec::new() };
    let executed = profile.insns();
    let known = |(pc, bytes): (u64, &[u8])| {
        let length = usize::from(decode(isa, pc, bytes).len_bytes).min(bytes.len());
        let number = bytes[..length].iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
        (!decode::is_known(isa, bytes)).then_some((pc, number))
    };
    let in_code = profile.code.iter().flat_map(|code| {
        let end = code.start.saturating_add(code.bytes.len() as u64);
        executed.range(code.start..end).map(|(&pc, _)| (pc, &code.bytes[(pc - code.start) as usize..]))
    });
    in_code.filter_map(known).collect()
}

/// First address of the named function at an address.
fn start_of(profile: &Profile, address: u64) -> Option<u64> {
    match Owner::of(profile, address) {
        Owner::Function(function) => Some(function.start),
        _ => None,
    }
}

/// Calls and starts that the exact counts prove.
struct Evidence {
    /// Pairs of return address and called function.
    calls: FxHashSet<(u64, u64)>,
    /// The firmware's first function.
    entry: Option<u64>,
    /// Functions that were called.
    called: FxHashSet<u64>,
    /// Functions that were called or jumped to.
    entered: FxHashSet<u64>,
    /// Functions that started without a call.
    starts: FxHashSet<u64>,
    /// Functions that can have jumped to a function, itself included.
    origins: FxHashMap<u64, FxHashSet<u64>>,
    /// Calls made before the window opened, and outermost functions started before.
    earlier: FxHashSet<Claim>,
    /// Arcs that the undetermined transfers of control can have been; None: all were determined.
    untold: Option<Untold>,
}

/// Possible arcs of undetermined transfers of control, from the executed instructions.
struct Untold {
    /// Return addresses of calls to unknown targets.
    calls: FxHashSet<u64>,
    /// Return addresses of calls to fixed targets, and the functions called.
    direct_calls: FxHashSet<(u64, u64)>,
    /// Functions with jumps to unknown targets, and functions that can have jumped to such functions.
    jumps: FxHashSet<u64>,
}

impl Untold {
    fn new(profile: &Profile, origins: &FxHashMap<u64, FxHashSet<u64>>) -> Untold {
        let mut untold =
            Untold { calls: FxHashSet::default(), direct_calls: FxHashSet::default(), jumps: FxHashSet::default() };
        for (pc, next, flow) in executed(profile) {
            match flow {
                Flow::IndirectCall { .. } => {
                    untold.calls.insert(next);
                }
                Flow::Call { target } => {
                    untold.direct_calls.extend(start_of(profile, target).map(|callee| (next, callee)));
                }
                Flow::IndirectJump { .. } | Flow::ComputedJump => {
                    untold
                        .jumps
                        .extend(start_of(profile, pc).and_then(|from| origins.get(&from)).into_iter().flatten());
                }
                _ => {}
            }
        }
        untold
    }
}

/// A claim of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Claim {
    /// This function was called with that return address.
    Call { return_addr: u64, callee: u64 },
    /// This function was started without a call.
    Start { function: u64 },
    /// The handler of an exception has led to this function.
    Handler { handler: u64, function: u64 },
}

impl Evidence {
    fn new(profile: &Profile) -> Evidence {
        let start_of = |address| start_of(profile, address);
        let (mut calls, mut entered, mut starts) = (FxHashSet::default(), FxHashSet::default(), FxHashSet::default());
        let mut called = FxHashSet::default();
        let mut jumps: FxHashMap<u64, FxHashSet<u64>> = FxHashMap::default();
        let mut jump = |from: u64, to: u64| {
            if let (Some(from), Some(to)) = (start_of(from), start_of(to))
                && from != to
            {
                jumps.entry(to).or_default().insert(from);
            }
        };
        for arc in profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs).filter(|arc| arc.count > 0) {
            let Some(callee) = start_of(arc.target) else { continue };
            entered.insert(callee);
            called.extend(arc.links.then_some(callee));
            calls.extend(arc.return_addr.map(|return_addr| (return_addr & !1, callee)));
            if !arc.links {
                jump(arc.site, arc.target);
                // A jump without a valid return address.
                starts.extend(functions::caller(profile, arc.return_addr).1.is_none().then_some(callee));
            }
        }
        // Functions that the one before falls through to: no arc shows their entry.
        let mut run_into = FxHashSet::default();
        for Crossing { from, to, is_next } in crossings(profile) {
            jump(from, to);
            entered.extend(start_of(to));
            run_into.extend(is_next.then_some(to));
        }
        let entries = functions::entries(profile, &functions::table(profile)).into_iter();
        let entries = entries.filter(|(start, entries)| entries.others > 0 && !run_into.contains(start));
        starts.extend(entries.map(|(start, _)| start));
        let entry = start_of(profile.facts.entry);
        starts.extend(entry);
        starts.extend(profile.facts.task_begins.iter().filter_map(|&begin| start_of(begin)));
        let functions = profile.names.functions.iter().map(|function| function.start);
        let origins: FxHashMap<_, _> = functions.map(|function| (function, origins(function, &jumps))).collect();
        let untold = (profile.facts.unresolved_transfers > 0).then(|| Untold::new(profile, &origins));
        let mut evidence =
            Evidence { calls, entry, called, entered, starts, origins, earlier: FxHashSet::default(), untold };
        if profile.facts.before_window_insns > 0 {
            let mut first: FxHashMap<(u32, u32), &Sample> = FxHashMap::default();
            for sample in &profile.samples {
                first.entry((sample.vcpu, sample.task)).or_insert(sample);
            }
            for sample in first.values() {
                evidence.earlier.extend(claims(profile, sample).into_iter().flatten());
            }
        }
        evidence
    }

    fn is_proved(&self, claim: Claim) -> bool {
        let come_from = |function: u64, is_it: &dyn Fn(u64) -> bool| {
            let untold = self.untold.as_ref().map(|untold| &untold.jumps);
            self.origins.get(&function).into_iter().chain(untold).flatten().any(|&origin| is_it(origin))
        };
        let can_be = match claim {
            Claim::Call { return_addr, callee } => {
                // Neither a call nor a jump shows the entry of code that exceptions land in.
                come_from(callee, &|origin| {
                    self.is_called(return_addr, origin)
                        || !(self.entered.contains(&origin) || self.starts.contains(&origin))
                })
            }
            Claim::Start { function } => come_from(function, &|origin| self.starts.contains(&origin)),
            Claim::Handler { handler, function } => {
                come_from(function, &|origin| origin == handler || self.starts.contains(&origin))
            }
        };
        can_be || self.earlier.contains(&claim)
    }

    /// Whether a function is where start-up code has jumped to, so that it has no caller. Its return address register still has the
    /// return address of a call that the start-up code made before, of a function that cannot have led to it.
    fn is_outermost(&self, profile: &Profile, return_addr: u64, function: u64) -> bool {
        let is_start_up = |from: &u64| {
            let come_from = self.origins.get(from).zip(self.entry);
            come_from.is_some_and(|(origins, entry)| origins.contains(&entry)) && !self.called.contains(from)
        };
        let is_in_start = start_of(profile, return_addr.wrapping_sub(1)).filter(is_start_up).is_some();
        let is_uncalled = self.starts.contains(&function) && !self.called.contains(&function);
        if !is_in_start || !is_uncalled || self.untold.is_some() || !self.earlier.is_empty() {
            return false;
        }
        let called_there = || self.calls.iter().filter(|(after, _)| *after == return_addr).map(|&(_, callee)| callee);
        let leads_on = |pc: u64, flow: Flow| {
            matches!(flow, Flow::IndirectJump { .. } | Flow::ComputedJump)
                && start_of(profile, pc).is_some_and(|from| called_there().any(|callee| callee == from))
        };
        !executed(profile).into_iter().any(|(pc, _, flow)| leads_on(pc, flow))
    }

    /// Whether a function can have been called with a return address.
    fn is_called(&self, return_addr: u64, callee: u64) -> bool {
        let can_be_untold = |untold: &Untold| {
            untold.calls.contains(&return_addr) || untold.direct_calls.contains(&(return_addr, callee))
        };
        self.calls.contains(&(return_addr, callee)) || self.untold.as_ref().is_some_and(can_be_untold)
    }
}

/// Functions from which jumps can have led to one, itself included.
fn origins(function: u64, jumps: &FxHashMap<u64, FxHashSet<u64>>) -> FxHashSet<u64> {
    let (mut found, mut open) = (FxHashSet::from_iter([function]), vec![function]);
    while let Some(next) = open.pop() {
        for &from in jumps.get(&next).into_iter().flatten() {
            if found.insert(from) {
                open.push(from);
            }
        }
    }
    found
}

/// Executed instructions: address, address of the next instruction, and flow of control.
fn executed(profile: &Profile) -> Vec<(u64, u64, Flow)> {
    let Some(isa) = profile.facts.isa() else { return Vec::new() };
    let executed = profile.insns();
    let mut found = Vec::new();
    for code in &profile.code {
        let end = code.start.saturating_add(code.bytes.len() as u64);
        // RISC-V calls and jumps far by two instructions; the first one has the upper part of the target.
        let mut upper = None;
        for (&pc, _) in executed.range(code.start..end) {
            let bytes = &code.bytes[(pc - code.start) as usize..];
            let insn = decode(isa, pc, bytes);
            let next = pc.wrapping_add(insn.len_bytes.into());
            let joined = upper.take().filter(|&(after, _)| after == pc);
            found.push((pc, next, joined.map_or(insn.flow, |(_, upper)| insn.flow.after_upper(isa, upper))));
            upper = decode::auipc(isa, pc, bytes).map(|upper| (next, upper));
        }
    }
    found
}

/// An executed instruction that leads into another function without a call: a jump or branch to any place in it, or
/// falling through.
struct Crossing {
    from: u64,
    to: u64,
    /// Whether `to` is the address of the next instruction.
    is_next: bool,
}

fn crossings(profile: &Profile) -> Vec<Crossing> {
    let mut found = Vec::new();
    // The function of the last instruction: nearly all that follow are in it, and lead to it.
    let mut last: Option<&Function> = None;
    for (from, next, flow) in executed(profile) {
        let is_in = |function: Option<&Function>, address: u64| {
            let distance = |function: &Function| address.checked_sub(function.start);
            function.is_some_and(|function| distance(function).is_some_and(|bytes| bytes < function.size_bytes))
        };
        if !is_in(last, from) {
            last = profile.names.function_at(from);
        }
        let crosses = |to: u64| if is_in(last, from) { !is_in(last, to) } else { start_of(profile, to).is_some() };
        if let Flow::Jump { target } | Flow::Branch { target } = flow
            && crosses(target)
        {
            found.push(Crossing { from, to: target, is_next: false });
        }
        if let Flow::Branch { .. } | Flow::Next | Flow::It { .. } = flow
            && crosses(next)
        {
            found.push(Crossing { from, to: next, is_next: true });
        }
    }
    found
}

/// Claims of a sample's stack: one for each frame from the outside in, and one for the sampled function. If a claim is
/// wrong, so are all frames before its index. None: the claim cannot be checked.
fn claims(profile: &Profile, sample: &Sample) -> Vec<Option<Claim>> {
    let frames = profile.stack(sample.stack);
    // Function that a frame leads to: that of the next frame, or the sampled one.
    let function_at = |index: usize| match frames.get(index).map(|frame| frame.kind) {
        Some(FrameKind::Caller { return_addr }) => start_of(profile, return_addr.wrapping_sub(1)),
        Some(FrameKind::Exception { pc, .. }) => start_of(profile, pc),
        Some(FrameKind::Unknown(_)) => None,
        None => start_of(profile, sample.pc),
    };
    let claim = |index: usize| {
        let function = function_at(index)?;
        match index.checked_sub(1).map(|outer| frames[outer].kind) {
            None => Some(Claim::Start { function }),
            Some(FrameKind::Caller { return_addr }) => {
                start_of(profile, return_addr.wrapping_sub(1))?;
                Some(Claim::Call { return_addr, callee: function })
            }
            Some(FrameKind::Exception { handler, .. }) => {
                // 0: its start was not noticed.
                Some(handler).filter(|&handler| handler != 0)?;
                start_of(profile, handler).map(|handler| Claim::Handler { handler, function })
            }
            Some(FrameKind::Unknown(_)) => None,
        }
    };
    (0..=frames.len()).map(claim).collect()
}

struct Cutter {
    numbers: FxHashMap<(u32, FrameKind), u32>,
    stacks: Vec<StackFrame>,
    /// Results by stack and sampled instruction, since there may be millions of samples.
    of_insn: FxHashMap<(u32, u64), u32>,
    /// Results by stack and sampled function, on which all claims of a stack depend.
    of_function: FxHashMap<(u32, Option<u64>), u32>,
}

impl Cutter {
    /// Number of a sample's stack without disproved parts.
    fn stack(&mut self, profile: &Profile, evidence: &Evidence, sample: &Sample) -> u32 {
        let key = (sample.stack, sample.pc);
        if let Some(&stack) = self.of_insn.get(&key) {
            return stack;
        }
        let of_function = (sample.stack, start_of(profile, sample.pc));
        let known = self.of_function.get(&of_function).copied();
        let stack = known.unwrap_or_else(|| self.cut(profile, evidence, sample));
        self.of_function.insert(of_function, stack);
        self.of_insn.insert(key, stack);
        stack
    }

    fn cut(&mut self, profile: &Profile, evidence: &Evidence, sample: &Sample) -> u32 {
        let claims = claims(profile, sample);
        let wrong = claims.iter().rposition(|claim| claim.is_some_and(|claim| !evidence.is_proved(claim)));
        let Some(index) = wrong else { return sample.stack };
        let frames = profile.stack(sample.stack);
        let outside = match claims[index] {
            Some(Claim::Call { return_addr, callee }) if evidence.is_outermost(profile, return_addr, callee) => 0,
            _ => self.number(0, FrameKind::Unknown(Unknown::Disproved)),
        };
        frames[index..].iter().fold(outside, |parent, frame| self.number(parent, frame.kind))
    }

    fn number(&mut self, parent: u32, kind: FrameKind) -> u32 {
        *self.numbers.entry((parent, kind)).or_insert_with(|| {
            self.stacks.push(StackFrame { parent, kind });
            self.stacks.len() as u32
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;
    use crate::profile::{Code, Facts};

    const MAIN: u64 = 0x40;
    const STEP: u64 = 0x60;
    const LEAF: u64 = 0x80;
    const OTHER: u64 = 0xa0;

    /// main calls step at 0x44, which calls leaf at 0x64; other started by itself, without a call.
    fn profile() -> Profile {
        let mut profile = empty()
            .function("main", MAIN, 0x20)
            .function("step", STEP, 0x20)
            .function("leaf", LEAF, 0x20)
            .function("other", OTHER, 0x20)
            .insn(MAIN, 1)
            .insn(STEP, 10)
            .insn(LEAF, 20)
            .insn(OTHER, 1)
            .arc((0x44, STEP), Some(0x48), true, 10)
            .arc((0x64, LEAF), Some(0x68), true, 20);
        profile.facts = Facts { entry: MAIN, ..profile.facts };
        profile
    }

    /// Rest of the only sample's stack: return addresses, outermost first; None stands for the reason why the stack
    /// ends.
    fn left(profile: &Profile) -> Vec<Option<u64>> {
        let mut profile = profile.clone();
        if let Some(Cut { stacks, samples }) = cut(&profile) {
            (profile.stacks, profile.samples[0].stack) = (stacks, samples[0]);
        }
        let frames = profile.stack(profile.samples[0].stack).into_iter().map(|frame| match frame.kind {
            FrameKind::Caller { return_addr } => Some(return_addr),
            FrameKind::Exception { pc, .. } => Some(pc),
            FrameKind::Unknown(why) => {
                assert_eq!(why, Unknown::Disproved);
                None
            }
        });
        frames.collect()
    }

    #[test]
    fn a_stack_whose_calls_were_made_stays_as_it_is() {
        let profile = profile().caller(0, 0x48).caller(1, 0x68).taken(1, LEAF + 4, 2, 0);
        assert_eq!(cut(&profile), None);
        assert_eq!(disproved(&profile), []);
    }

    #[test]
    fn what_lies_beyond_a_call_that_was_never_made_is_cut_off() {
        // The stack claims that other called step and, one level further in, that main called leaf.
        let profile_of = |outer, inner| profile().caller(0, outer).caller(1, inner).taken(1, LEAF + 4, 2, 0);
        assert_eq!(left(&profile_of(0xa8, 0x68)), [None, Some(0x68)]);
        assert_eq!(left(&profile_of(0x48, 0x4c)), [None]);
        let mut profile = profile_of(0xa8, 0x68);
        let Cut { stacks, samples } = cut(&profile).unwrap();
        (profile.stacks, profile.samples[0].stack) = (stacks, samples[0]);
        assert_eq!(disproved(&profile), [("step".to_owned(), 1)]);
        assert_eq!(faults(&profile).len(), 1);
    }

    #[test]
    fn an_outermost_function_that_was_called_is_not_the_end() {
        assert_eq!(left(&profile().caller(0, 0x68).taken(1, LEAF + 4, 1, 0)), [None, Some(0x68)]);
        // Started by itself, or by a jump without a return address.
        let started = profile().arc((0xa4, LEAF), Some(0xa8), true, 1).caller(0, 0xa8).taken(1, LEAF + 4, 1, 0);
        assert_eq!(cut(&started), None);
        let jumped = profile().taken(1, STEP + 4, 0, 0).arc((0x4e, STEP), Some(0), false, 1);
        assert_eq!(cut(&jumped), None);
    }

    #[test]
    fn a_chain_of_tail_calls_stands_for_its_last_function() {
        // main calls step, which jumps to leaf, which jumps to other.
        let chain = profile().arc((0x6c, LEAF), Some(0x48), false, 5).arc((0x8c, OTHER), Some(0x48), false, 5);
        assert_eq!(cut(&chain.caller(0, 0x48).taken(1, OTHER + 4, 1, 0)), None);
    }

    #[test]
    fn what_start_up_code_jumps_to_has_no_caller() {
        // main, the firmware's first, called step at 0x44 before it jumped to other: the register still has 0x48.
        let stale = |profile: Profile| left(&profile.caller(0, 0x48).taken(1, OTHER + 4, 1, 0));
        let jumped = || profile().insn(MAIN, 1);
        assert_eq!(stale(jumped()), []);
        assert_eq!(stale(jumped().arc((0x64, OTHER), Some(0x68), true, 1)), [None], "somebody called it");
        // step jumps through a register, and can have led to it.
        let mut leading = jumped().insn(STEP + 8, 1);
        leading.code.push(Code { start: STEP + 8, bytes: vec![0x18, 0x47] });
        assert_eq!(stale(leading), [None]);
    }

    #[test]
    fn a_part_of_a_function_that_a_branch_leads_to_stands_for_it() {
        let mut profile = profile().insn(STEP + 8, 3).insn(OTHER + 8, 3).caller(0, 0x48).taken(1, OTHER + 8, 1, 0);
        // Not the firmware's first: main could have jumped to other, too.
        profile.facts.entry = 0;
        assert_eq!(left(&profile), [None]);
        // Code: b 0xa8
        profile.code.push(Code { start: STEP + 8, bytes: vec![0x1e, 0xe0] });
        assert_eq!(cut(&profile), None);
    }

    #[test]
    fn what_the_function_before_runs_into_did_not_start_by_itself() {
        let mut profile = profile().function("behind", 0xc0, 0x20).insn(0xbe, 3).insn(0xc0, 3);
        profile = profile.caller(0, 0x48).taken(2, 0xc4, 0, 0);
        assert_eq!(cut(&profile), None);
        // Code: nop
        profile.code.push(Code { start: 0xbe, bytes: vec![0x00, 0xbf] });
        assert_eq!(cut(&profile), None, "other, which runs into it, has started");
        profile.vcpus[0].insns.retain(|insn| insn.pc != OTHER);
        assert_eq!(left(&profile), [None]);
    }

    #[test]
    fn what_was_called_before_the_window_is_what_the_first_stack_shows() {
        let called = |before: u64| {
            let mut profile = profile().caller(0, 0xa8).taken(2, STEP + 4, 1, 0);
            profile.facts.before_window_insns = before;
            cut(&profile).is_none()
        };
        assert_eq!((called(0), called(1)), (false, true));
    }

    #[test]
    fn an_arc_that_could_not_be_told_excuses_only_what_it_can_have_been() {
        // The stack claims calls of leaf by other at 0xa4, and by main at 0x4c, with `code`.
        let cut = |return_addr: u64, unresolved: u64, code: [u8; 2]| {
            let site = return_addr - 2;
            let mut profile = profile().insn(site, 1).caller(0, return_addr).taken(1, LEAF + 4, 1, 0);
            profile.code.push(Code { start: site, bytes: code.to_vec() });
            profile.facts.unresolved_transfers = unresolved;
            !left(&profile).iter().all(Option::is_some)
        };
        let (blx_r3, bx_r3, nop) = ([0x98, 0x47], [0x18, 0x47], [0x00, 0xbf]);
        assert!(!cut(0xa6, 1, blx_r3));
        assert!(cut(0xa6, 0, blx_r3) && cut(0xa6, 1, nop) && cut(0xa6, 1, bx_r3));
        // step, called by main at 0x44, jumps through a register.
        let jumped = |unresolved: u64| {
            let mut profile = profile().insn(STEP + 8, 1).caller(0, 0x48).taken(1, OTHER + 4, 1, 0);
            profile.code.push(Code { start: STEP + 8, bytes: bx_r3.to_vec() });
            profile.facts.unresolved_transfers = unresolved;
            left(&profile)
        };
        assert_eq!((jumped(0), jumped(1)), (vec![None], vec![Some(0x48)]));
    }

    #[test]
    fn a_handler_leads_to_itself_and_to_what_it_jumps_to() {
        let handled = |handler, pc| left(&profile().exception(0, 15, handler, MAIN + 4).taken(1, pc, 1, 0));
        assert_eq!(handled(LEAF, LEAF + 4), [Some(MAIN + 4)]);
        assert_eq!(handled(LEAF, STEP + 4), [None]);
    }

    #[test]
    fn a_tree_with_other_calls_than_the_arcs_is_not_exact() {
        let tree = |caller: u64, calls: u64| {
            let function = |entry| NodeKind::Function { entry };
            let mut profile = profile();
            for (parent, kind) in [
                (0, NodeKind::Root { task: 0 }),
                (1, function(MAIN)),
                (2, function(STEP)),
                (if caller == STEP { 3 } else { 2 }, function(LEAF)),
            ] {
                profile = profile.node(parent, kind, 1);
            }
            profile.facts.max_depth = Some(64);
            profile.tree[2].calls = 10;
            profile.tree[3].calls = calls;
            profile
        };
        assert!(has_exact_tree(&tree(STEP, 20)));
        // The last call may still be under way.
        assert!(has_exact_tree(&tree(STEP, 19)));
        assert_eq!(
            wrong_calls(&tree(STEP, 12)),
            [WrongCalls { caller: Some(STEP), callee: LEAF, in_tree: 12, exact: 20 }]
        );
        let wrong = wrong_calls(&tree(MAIN, 20));
        assert_eq!(
            wrong.iter().map(|calls| (calls.caller, calls.in_tree)).collect::<Vec<_>>(),
            [(Some(MAIN), 20), (Some(STEP), 0)]
        );
        // A polled task's root between two functions does not hide the call.
        let mut profile = tree(STEP, 20);
        profile.tree.insert(
            3,
            crate::profile::Node {
                parent: 3,
                kind: NodeKind::Root { task: 1 },
                via: None,
                insns: 0,
                calls: 0,
                cycles: 0,
            },
        );
        profile.tree[4].parent = 4;
        assert!(has_exact_tree(&profile));
        profile.tree[4].calls = 12;
        assert_eq!(wrong_calls(&profile).len(), 1);
        let mut profile = tree(STEP, 20);
        profile.facts.resynchronised = 1;
        assert!(!has_exact_tree(&profile));
        assert_eq!(faults(&profile).len(), 1);
    }

    #[test]
    fn an_instruction_that_is_not_known_is_named_once_and_nothing_is_exact() {
        // A custom instruction and c.nop.
        let code = [0x2b, 0, 0, 0, 1, 0];
        let of = |isa: &str, executed: &[u64]| {
            let mut profile = executed.iter().fold(profile(), |profile, &pc| profile.insn(pc, 3));
            profile.facts.isa = isa.to_owned();
            profile.code.push(Code { start: 0x2000, bytes: code.to_vec() });
            profile.node(0, NodeKind::Root { task: 0 }, 1)
        };
        let unknown = of("riscv32", &[0x2000, 0x2004]);
        let faults_of = faults(&unknown);
        assert_eq!(faults_of.len(), 1, "{faults_of:?}");
        assert!(
            faults_of[0].starts_with("1 instruction that executed") && faults_of[0].contains(": 0x2b at 0x00002000")
        );
        assert!(faults_of[0].contains("the call tree is NOT exact") && !has_exact_tree(&unknown));
        assert_eq!(faults(&of("riscv32", &[0x2004])), Vec::<String>::new());
    }

    #[test]
    fn calls_deeper_than_the_tree_follows_disprove_nothing_and_none_are_missing_in_no_tree() {
        // The arcs have ten calls of leaf, which the tree lacks.
        let with_depth = |max_depth: u32| {
            let mut profile = profile().node(0, NodeKind::Root { task: 0 }, 1);
            for (parent, entry, calls) in [(1, MAIN, 1), (2, STEP, 10), (3, LEAF, 10)] {
                profile = profile.node(parent, NodeKind::Function { entry }, 1);
                profile.tree.last_mut().unwrap().calls = calls;
            }
            profile.facts.max_depth = Some(max_depth);
            wrong_calls(&profile).len()
        };
        assert_eq!([2, 3, 4, 64].map(with_depth), [0, 0, 1, 1]);
        assert_eq!(wrong_calls(&profile()), []);
        assert_eq!(wrong_calls(&profile().node(0, NodeKind::Root { task: 0 }, 1)), []);
    }

    #[test]
    fn code_at_the_end_of_the_address_space_is_followed() {
        let start = u64::MAX - 3;
        let mut profile = empty().function("last", start, 4).insn(start, 1).insn(start + 2, 1);
        profile.code.push(Code { start, bytes: vec![0x00, 0xbf, 0x00, 0xbf, 0x00, 0xbf] });
        let followed: Vec<_> = executed(&profile).into_iter().map(|(pc, next, _)| (pc, next)).collect();
        assert_eq!(followed, [(start, start + 2), (start + 2, 0)]);
    }

    #[test]
    fn calls_under_way_at_the_windows_ends_are_no_difference_and_one_more_is() {
        // The arcs have ten calls of step by main.
        let is_wrong = |calls: u64| {
            let mut profile = profile().node(0, NodeKind::Root { task: 0 }, 1);
            for (parent, entry, calls) in [(1, MAIN, 1), (2, STEP, calls), (3, LEAF, 20)] {
                profile = profile.node(parent, NodeKind::Function { entry }, 1);
                profile.tree.last_mut().unwrap().calls = calls;
            }
            profile.facts.max_depth = Some(64);
            assert_eq!(has_exact_tree(&profile), wrong_calls(&profile).is_empty());
            !wrong_calls(&profile).is_empty()
        };
        assert_eq!([7, 8, 9, 10, 11, 12, 13].map(is_wrong), [true, false, false, false, false, false, true]);
    }
}
