// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects firmware that gave up: the run ended in a loop that changes nothing and that nothing can leave, as after a
//! failed assertion, and that is not where firmware ends when it is done.
//!
//! Nothing can leave such a loop if its instructions only jump back and no enabled interrupt could interrupt it, which
//! the plugin reads from the processor. So one turn is proof, however short it was before the end of the window.
//!
//! Firmware that is done stays in `main`, in start-up code or in what that calls after `main`, and a task stays in the
//! function that it began with. So the firmware gave up in a loop
//!
//! - of a function whose name says so, inlined or not, or that such a function has called;
//! - of a task: interrupts are masked, and no other task will ever run;
//! - in or below `main`, while a function under way has more to do, see [`Search::has_more_to_do`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use decode::{Flow, Insn, Isa, decode};

use crate::profile::{Arc, End, Function, Profile};

/// Maximum number of instructions of a loop that is followed.
const LOOP_INSNS: usize = 16;

/// Maximum number of instructions of a function that are followed.
const MAX_INSNS: usize = 4096;

/// Function whose return ends the firmware.
const MAIN: &str = "main";

/// Words in the names of functions that firmware calls when something went wrong, in small letters. Each is in the name
/// of a function of a vendor's library, a kernel or a language's runtime that ends in an endless loop.
const FAILURES: [&str; 12] = [
    // `assert_failed`, `__assert_func`, `vAssertCalled`
    "assert",
    // `abort`
    "abort",
    // `panic_fmt`, `k_panic`
    "panic",
    // Rust's `#[panic_handler]`
    "rust_begin_unwind",
    // `Error_Handler`, `app_error_fault_handler`
    "error",
    // `fatal_error_handler`
    "fatal",
    // `HardFault_Handler`, called by hand
    "fault",
    // `test_failed`, `vApplicationMallocFailedHook`
    "fail",
    // `vApplicationStackOverflowHook`
    "stackoverflow",
    "stack_overflow",
    // `__stack_chk_fail` of any spelling
    "stack_chk",
    // `__cxa_pure_virtual`
    "pure_virtual",
];

/// Whether a function's name says that firmware calls it when something went wrong.
pub fn is_failure(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    FAILURES.iter().any(|word| name.contains(word))
}

/// Names of the functions at an address, the innermost inlined one first.
pub fn functions_at(profile: &Profile, pc: u64) -> impl Iterator<Item = &str> {
    let names = &profile.names;
    let inlined = names.frames_at(pc).iter().rev();
    let inlined = inlined.filter_map(|frame| names.strings.get(frame.function as usize).map(String::as_str));
    inlined.chain(names.function_at(pc).map(|function| function.name.as_str()))
}

/// End of a run whose window ended in such a loop at `pc`. None: the firmware did something else.
pub fn find(profile: &Profile, pc: u64) -> Option<End> {
    if !profile.facts.only.is_final || !matches!(profile.facts.end, End::For | End::MaxInsns) {
        return None;
    }
    let isa = profile.facts.isa()?;
    let function = profile.names.function_at(pc).filter(|_| is_endless(profile, isa, pc))?;
    let search = Search::new(profile)?;
    let has_failed = is_in_task(profile, function) || search.has_failed(function, pc);
    has_failed.then(|| End::EndlessLoop { pc, call: search.call(function) })
}

/// Executed code and calls, in which calls under way are found.
pub struct Search<'p> {
    profile: &'p Profile,
    isa: Isa,
    insns: BTreeMap<u64, u64>,
}

impl<'p> Search<'p> {
    /// Search in the counts of a profile. None: its instruction set is not known.
    pub fn new(profile: &'p Profile) -> Option<Search<'p>> {
        Some(Search { profile, isa: profile.facts.isa()?, insns: profile.insns() })
    }

    /// Whether an endless loop at `pc` is where firmware gives up: by a function's name, or because a function under way has
    /// more to do.
    pub fn has_failed(&self, function: &'p Function, pc: u64) -> bool {
        if functions_at(self.profile, pc).next().is_some_and(is_failure) {
            return true;
        }
        if function.name == MAIN {
            return self.has_more_to_do(function, pc);
        }
        let callers = self.callers(function);
        if callers.iter().any(|(caller, _)| is_failure(&caller.name)) {
            return true;
        }
        let has_main = self.profile.names.functions.iter().any(|function| function.name == MAIN);
        let is_below_main = !has_main || callers.iter().any(|(caller, _)| caller.name == MAIN);
        is_below_main && callers.iter().any(|&(caller, site)| self.has_more_to_do(caller, site))
    }

    /// Address of the call under way that led to a function; None: nothing called it.
    pub fn call(&self, function: &'p Function) -> Option<u64> {
        self.callers(function).first().map(|&(_, site)| site)
    }

    /// Functions with calls under way that led to a function, each with the address of its call, the nearest first. A call
    /// is under way if it was made more often than the instruction after it executed.
    fn callers(&self, function: &'p Function) -> Vec<(&'p Function, u64)> {
        let mut found: Vec<(&Function, u64)> = Vec::new();
        let mut open = vec![function];
        let mut passed = BTreeSet::from([function.start]);
        while let Some(callee) = open.pop() {
            let arcs = self.profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs);
            let into = arcs.filter(|arc| arc.target == callee.start && !range(callee).contains(&arc.site));
            for arc in into.filter(|arc| self.is_under_way(arc)) {
                let Some(caller) = self.profile.names.function_at(arc.site) else { continue };
                if passed.insert(caller.start) {
                    found.push((caller, arc.site));
                    if caller.name != MAIN {
                        open.push(caller);
                    }
                }
            }
        }
        found
    }

    fn is_under_way(&self, arc: &Arc) -> bool {
        // Behind a call that never returns, another function may begin.
        let function = |pc: u64| self.profile.names.function_at(pc).map(|function| function.start);
        let back = arc.return_addr.filter(|&back| arc.links && function(back) == function(arc.site));
        back.is_none_or(|back| arc.count > self.count(back))
    }

    fn count(&self, pc: u64) -> u64 {
        self.insns.get(&pc).copied().unwrap_or(0)
    }

    /// Whether a function has a call that was never executed and that it would come to if it went on: after the call at
    /// `place`, or, where `place` is the loop itself, on a way past it that does not lead there. Calls of functions for failures
    /// do not count; nor do ways on earlier lines of the same file, such as that to a check's own endless loop.
    fn has_more_to_do(&self, function: &Function, place: u64) -> bool {
        let flow = self.flow(function);
        let next = flow.get(&place).map(|insn| place.wrapping_add(insn.len_bytes.into()));
        // Where a call never returns, a block that is reached otherwise may follow it.
        let is_joined = |next: &u64| flow.values().any(|insn| jump_target(insn.flow) == Some(*next));
        let after = next.filter(|next| !is_joined(next)).map(|next| reached(&flow, next)).unwrap_or_default();
        let line = |pc: u64| self.profile.names.code_line_at(pc).or_else(|| self.profile.names.line_at(pc));
        let is_earlier = |pc: u64| {
            line(pc)
                .zip(line(place))
                .is_some_and(|((file, line), (other, of_place))| file == other && line < of_place)
        };
        flow.iter().any(|(&pc, insn)| {
            let is_work = match insn.flow {
                Flow::Call { target } => {
                    let callee = self.profile.names.function_at(target);
                    !callee.is_some_and(|callee| is_failure(&callee.name))
                }
                Flow::IndirectCall { .. } => true,
                _ => false,
            };
            let is_new = is_work && self.count(pc) == 0;
            is_new && (after.contains(&pc) || !is_earlier(pc) && !reached(&flow, pc).contains(&place))
        })
    }

    /// Instructions of a function that can be reached from its first one.
    fn flow(&self, function: &Function) -> BTreeMap<u64, Insn> {
        let (mut flow, mut open) = (BTreeMap::new(), vec![function.start]);
        while let Some(pc) = open.pop() {
            if !range(function).contains(&pc) || flow.len() >= MAX_INSNS || flow.contains_key(&pc) {
                continue;
            }
            let Some(code) = self.profile.code_at(pc) else { continue };
            let insn = decode(self.isa, pc, code);
            flow.insert(pc, insn);
            open.extend(following(pc, insn));
        }
        flow
    }
}

/// Instructions that may follow one, in its function.
fn following(pc: u64, insn: Insn) -> impl Iterator<Item = u64> {
    let next = pc.wrapping_add(insn.len_bytes.into());
    let goes_on = matches!(
        insn.flow,
        Flow::Next | Flow::It { .. } | Flow::Call { .. } | Flow::IndirectCall { .. } | Flow::Branch { .. }
    );
    goes_on.then_some(next).into_iter().chain(jump_target(insn.flow))
}

fn jump_target(flow: Flow) -> Option<u64> {
    match flow {
        Flow::Jump { target } | Flow::Branch { target } => Some(target),
        _ => None,
    }
}

/// Instructions that are reached from one, itself included.
fn reached(flow: &BTreeMap<u64, Insn>, from: u64) -> BTreeSet<u64> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(pc) = open.pop() {
        if let Some(&insn) = flow.get(&pc)
            && seen.insert(pc)
        {
            open.extend(following(pc, insn));
        }
    }
    seen
}

fn range(function: &Function) -> Range<u64> {
    function.start..function.start.saturating_add(function.size_bytes)
}

/// Whether code goes round from `pc` for ever, and changes registers only.
fn is_endless(profile: &Profile, isa: Isa, mut pc: u64) -> bool {
    let mut passed = BTreeSet::new();
    while passed.len() < LOOP_INSNS {
        if !passed.insert(pc) {
            return true;
        }
        let Some(code) = profile.code_at(pc) else { return false };
        let insn = decode(isa, pc, code);
        pc = match insn.flow {
            Flow::Next if !insn.may_leave => pc.wrapping_add(insn.len_bytes.into()),
            Flow::Jump { target } => target,
            _ => return false,
        };
    }
    false
}

/// Address of the call instruction before a return address, whose bit 0 may mark Thumb code. It is executed code: of 4 bytes
/// or, if no such instruction was executed there, of 2.
pub fn call_before(profile: &Profile, return_addr: u64) -> u64 {
    let after = return_addr & !1;
    let is_call = |call: u64| {
        let insn = profile.facts.isa().zip(profile.code_at(call)).map(|(isa, code)| decode(isa, call, code));
        insn.is_some_and(|insn| insn.flow.is_call() && call + u64::from(insn.len_bytes) == after)
    };
    let nearest = after.wrapping_sub(2);
    [after.wrapping_sub(4), nearest].into_iter().find(|&call| is_call(call)).unwrap_or(nearest)
}

/// Whether a task of a kernel was last seen in a function.
fn is_in_task(profile: &Profile, function: &Function) -> bool {
    profile.samples.last().is_some_and(|sample| sample.task != 0 && range(function).contains(&sample.pc))
}

#[cfg(test)]
mod tests {
    use super::is_failure;

    #[test]
    fn names_of_failures_are_told_from_others() {
        let failures = [
            "my_assert",
            "__assert_func",
            "vAssertCalled",
            "abort",
            "core::panicking::panic_fmt",
            "rust_begin_unwind",
            "Error_Handler",
            "vApplicationStackOverflowHook",
            "vApplicationMallocFailedHook",
            "__cxa_pure_virtual",
            "HardFault_Handler",
            "__stack_chk_fail",
        ];
        assert!(failures.iter().all(|name| is_failure(name)));
        assert!(["main", "idle", "run_for_ever", "prvIdleTask", "loop", "stop"].iter().all(|name| !is_failure(name)));
    }
}
