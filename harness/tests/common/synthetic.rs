// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synthetic profile of any size, always with the same contents: used to measure exports.
//!
//! It has 5,000 functions by default, each with four call sites whose callees are fixed, and eight instructions in
//! three lines, one of them inlined. Stacks are a tree that grows by a quarter per level, so that most of a million
//! are 20 to 30 frames deep. Every frame is a stack that was sampled once. There are two tasks; one stack in a
//! hundred is an interrupt.

use std::collections::BTreeMap;

use harness::profile::{Frame, Function, LineCode, Profile, StackFrame};
use wire::definition::{FrameKind, Unknown};

use super::made;

const FUNCTIONS: u64 = 5000;
const FIRST: u64 = 0x1_0000;
const FUNCTION_BYTES: u64 = 0x40;
const INSNS: u64 = 8;
/// Offset of the first call site; each has four bytes.
const SITES: u64 = 0x10;
const LEVELS: i32 = 30;
const GROWTH: f64 = 1.25;
const PERIOD_INSNS: u64 = 10_007;
/// Handler of the interrupt.
const HANDLER: u64 = 7;
/// Bit of a stack's children for its interrupt; the lower bits are its call sites.
const INTERRUPT: u8 = 1 << 4;

/// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled").
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
}

/// Makes a profile with about this many different stacks.
pub fn profile(stacks: u32) -> Profile {
    of_functions(FUNCTIONS, stacks)
}

/// Makes a profile with this many functions and about this many different stacks.
pub fn of_functions(functions: u64, stacks: u32) -> Profile {
    let mut profile = made::empty(PERIOD_INSNS);
    profile.facts.image_name = "synthetic.elf".to_owned();
    for name in ["sensor", "logger"] {
        made::task(&mut profile, name, 1_000_000);
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let start = |function: u64| FIRST + function * FUNCTION_BYTES;
    let callee = |function: u64, site: u64| (function * 31 + site * 1237 + 11) % functions;
    add_functions(&mut profile, functions);

    // Running function, task and existing children of each stack.
    let mut runs: Vec<(u64, u32, u8)> = Vec::new();
    let scale = f64::from(stacks) * (GROWTH - 1.0) / (GROWTH.powi(LEVELS) - 1.0);
    let mut outer = 0..0;
    for level in 0..LEVELS {
        let wanted = ((scale * GROWTH.powi(level)) as usize).max(3);
        let first = runs.len();
        while runs.len() < first + wanted {
            if level == 0 {
                let number = runs.len() as u64;
                let kind = match number {
                    0 => FrameKind::Unknown(Unknown::NoUnwindInfo),
                    _ => FrameKind::Caller { return_addr: start(number) + SITES + 4 },
                };
                profile.stacks.push(StackFrame { parent: 0, kind });
                runs.push((callee(number, 0), number as u32 % 2 + 1, 0));
                continue;
            }
            let parent = outer.start + random.below(outer.len() as u64) as usize;
            let (function, task, children) = runs[parent];
            let interrupts = random.below(100) == 0;
            let site = random.below(4);
            let child = if interrupts { INTERRUPT } else { 1 << site };
            if children & child != 0 {
                continue;
            }
            runs[parent].2 |= child;
            let (kind, inner) = if interrupts {
                let kind = FrameKind::Exception { number: 15, handler: start(HANDLER), pc: start(function) + 2 };
                (kind, HANDLER)
            } else {
                let return_addr = start(function) + SITES + 4 * site + 4;
                (FrameKind::Caller { return_addr }, callee(function, site))
            };
            profile.stacks.push(StackFrame { parent: parent as u32 + 1, kind });
            runs.push((inner, task, 0));
        }
        outer = first..runs.len();
    }
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for (number, (function, task, _)) in (1..).zip(runs) {
        let pc = start(function) + 2 * random.below(INSNS);
        made::sample(&mut profile, pc, number, task);
        *counts.entry(pc).or_default() += PERIOD_INSNS;
    }
    for function in 0..functions {
        for pc in (0..INSNS).map(|insn| start(function) + 2 * insn) {
            let sampled = counts.get(&pc).copied().unwrap_or(0);
            made::execute(&mut profile, pc, sampled + 1 + function % 7);
        }
        for site in 0..4 {
            made::call(&mut profile, start(function) + SITES + 4 * site, start(callee(function, site)), 1 + site);
        }
    }
    profile.vcpus[0].arcs.sort_unstable();
    profile
}

fn add_functions(profile: &mut Profile, functions: u64) {
    const WORDS: [&str; 8] = ["parse", "encode", "update", "poll", "transfer", "filter", "commit", "schedule"];
    let names = &mut profile.names;
    let file = |function: u64| (function / 50) as u32;
    names.strings = (0..functions.div_ceil(50)).map(|file| format!("src/module_{file}.c")).collect();
    let first_name = names.strings.len() as u32;
    for function in 0..functions {
        let word = WORDS[function as usize % WORDS.len()];
        let name = format!("module_{}_{word}_{function}", file(function));
        let start = FIRST + function * FUNCTION_BYTES;
        names.functions.push(Function {
            name: name.clone(),
            linkage_name: name.clone(),
            start,
            size_bytes: FUNCTION_BYTES,
            file: Some(names.strings[file(function) as usize].clone()),
            line: Some(function as u32),
        });
        names.strings.push(name);
        let frame = |function: u64, line: u64, inlined| Frame {
            function: first_name + function as u32,
            file: Some(file(function)),
            line: Some((10 * function + line) as u32),
            inlined,
        };
        let at = names.stacks.len() as u32;
        names.stacks.push(vec![frame(function, 1, false)]);
        names.stacks.push(vec![frame(function, 2, false)]);
        names.stacks.push(vec![frame(function, 3, false), frame(function / 2, 4, true)]);
        for insn in 0..INSNS {
            names.locations.push((start + 2 * insn, at + (insn / 3) as u32));
        }
        for line in 0..INSNS.div_ceil(3) {
            let size_bytes = 2 * 3.min(INSNS - 3 * line);
            let line_number = (10 * function + line + 1) as u32;
            let start = start + 6 * line;
            names.lines.push(LineCode { start, size_bytes, file: file(function), line: line_number });
        }
        for site in 0..4 {
            names.locations.push((start + SITES + 4 * site + 3, names.stacks.len() as u32));
            names.stacks.push(vec![frame(function, 5 + site, false)]);
        }
    }
}
