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
//! - in which it holds back interrupts that it has enabled, or of a task: no other task will ever run;
//! - below `main`, if a function under way was to go on with another call.

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

/// Words in the names of functions that firmware calls when something went wrong: `assert_failed`, `vAssertCalled`, `abort`,
/// `panic_fmt`, `fatal`, `HardFault_Handler`, `vApplicationMallocFailedHook`, `__stack_chk_fail`.
const FAILURES: [&str; 10] =
    ["assert", "assertion", "abort", "panic", "panicked", "fatal", "fault", "fail", "failed", "failure"];

/// Last word of such names, which elsewhere may be a part of a chip: `mbed_die`, and not `die_temperature`.
const DIES: &str = "die";

/// Pairs of such words: `vApplicationStackOverflowHook`, `__cxa_pure_virtual`, and Rust's `rust_begin_unwind`.
const PAIRS: [[&str; 2]; 3] = [["stack", "overflow"], ["pure", "virtual"], ["begin", "unwind"]];

/// Last words of names that begin with an error: `Error_Handler`, `on_error`, and not `print_error_count`.
const AFTER_ERROR: [&str; 7] = ["error", "handler", "hook", "trap", "halt", "stop", "loop"];

/// Whether a function's name says that firmware calls it when something went wrong. Its namespaces and template arguments
/// do not count, and words count as a whole: `DefaultTask` has no fault in it.
pub fn is_failure(name: &str) -> bool {
    let words = words(name);
    let has = |word: &str| words.iter().any(|other| other == word);
    FAILURES.iter().any(|word| has(word))
        || PAIRS.iter().any(|pair| pair.iter().all(|word| has(word)))
        || words.last().is_some_and(|last| last == DIES)
        || has("error") && words.last().is_some_and(|last| AFTER_ERROR.contains(&&**last))
}

/// Words of the last part of a name, in small letters: split at signs, and before a capital after a small letter.
fn words(name: &str) -> Vec<String> {
    let plain = name.split(['<', '(']).next().unwrap_or_default();
    let last = plain.rsplit("::").next().unwrap_or_default();
    // The compiler's own suffix: `_exit.constprop.0`.
    let last = last.split('.').next().unwrap_or_default();
    let (mut words, mut was_small) = (vec![String::new()], false);
    for character in last.chars() {
        let starts = !character.is_ascii_alphanumeric() || was_small && character.is_ascii_uppercase();
        if starts {
            words.push(String::new());
        }
        if character.is_ascii_alphanumeric() {
            words.last_mut().into_iter().for_each(|word| word.push(character.to_ascii_lowercase()));
        }
        was_small = character.is_ascii_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
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
    let has_failed = is_in_task(profile, function)
        || profile.facts.only.is_masked
        || search.has_failed(function, pc)
        || search.was_to_go_on(function);
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

    /// Whether an endless loop at `pc` is where firmware gives up, by the names of its function and of the callers.
    pub fn has_failed(&self, function: &'p Function, pc: u64) -> bool {
        functions_at(self.profile, pc).next().is_some_and(is_failure)
            || self.callers(function).iter().any(|(caller, _)| is_failure(&caller.name))
    }

    /// Whether a function under way, below or in `main`, would make a call that was never executed after the one that led
    /// to `function`.
    pub fn was_to_go_on(&self, function: &'p Function) -> bool {
        let callers = self.callers(function);
        let has_main = self.profile.names.functions.iter().any(|function| function.name == MAIN);
        let is_below_main = !has_main || callers.iter().any(|(caller, _)| caller.name == MAIN);
        is_below_main && callers.iter().any(|&(caller, site)| self.goes_on(caller, site))
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
            for arc in self.into(callee).filter(|arc| self.is_under_way(arc) && self.is_open(arc)) {
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

    /// Whether the function that a jump came from has not returned: itself called, or jumped to, by code under way, or by
    /// none. True for a call, whose own return tells.
    fn is_open(&self, arc: &'p Arc) -> bool {
        let mut passed = BTreeSet::new();
        let mut open = vec![arc];
        while let Some(arc) = open.pop() {
            let Some(caller) = self.profile.names.function_at(arc.site).filter(|_| !arc.links) else { return true };
            if self.into(caller).next().is_none() {
                return true;
            }
            if passed.insert(caller.start) {
                open.extend(self.into(caller).filter(|arc| self.is_under_way(arc)));
            }
        }
        false
    }

    /// Calls of a function, and jumps to its start from elsewhere.
    fn into(&self, function: &'p Function) -> impl Iterator<Item = &'p Arc> {
        let arcs = self.profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs);
        arcs.filter(|arc| arc.target == function.start && !range(function).contains(&arc.site))
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

    /// Whether a function would make a call that was never executed after the call at `site`, other than of a function for
    /// failures.
    fn goes_on(&self, function: &Function, site: u64) -> bool {
        let flow = self.flow(function);
        let next = flow.get(&site).map(|insn| site.wrapping_add(insn.len_bytes.into()));
        // Where a call never returns, a block that is reached otherwise may follow it.
        let is_joined = |next: &u64| flow.values().any(|insn| jump_target(insn.flow) == Some(*next));
        let after = next.filter(|next| !is_joined(next)).map(|next| reached(&flow, next)).unwrap_or_default();
        after.into_iter().filter(|pc| self.count(*pc) == 0).any(|pc| match flow[&pc].flow {
            Flow::Call { target } => {
                let callee = self.profile.names.function_at(target);
                !callee.is_some_and(|callee| is_failure(&callee.name))
            }
            Flow::IndirectCall { .. } => true,
            _ => false,
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
            "abort_now",
            "core::panicking::panic_fmt",
            "rust_begin_unwind",
            "Error_Handler",
            "app_error",
            "vApplicationStackOverflowHook",
            "vApplicationMallocFailedHook",
            "__cxa_pure_virtual",
            "HardFault_Handler",
            "__stack_chk_fail",
            "fatal.constprop.0",
        ];
        for name in failures {
            assert!(is_failure(name), "{name}");
        }
        let others = [
            "main",
            "idle",
            "run_for_ever",
            "prvIdleTask",
            "StartDefaultTask",
            "run_default_app",
            "Loop<DefaultPolicy>::run",
            "Loop<Fault>::run(Error)",
            "errors::idle",
            "test_failover",
            "print_error_count",
            "error_free_idle",
            "all_tests_done_no_failures",
        ];
        for name in others {
            assert!(!is_failure(name), "{name}");
        }
    }
}
