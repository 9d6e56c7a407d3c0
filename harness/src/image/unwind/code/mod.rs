// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules for functions without unwind information, derived from their instructions: the stack's depth at each
//! instruction, and the places of the return address and the frame pointer.
//!
//! The code is followed from each function's start along its jumps, with the known part of the stack's state
//! ([`state`]). After an instruction that sets the stack pointer to an unknown value (another stack), nothing is
//! known. Where two ways meet, only facts common to both remain. A jump into another such function is followed: the
//! other function may be just a label, or a part that several functions share.
//!
//! Code to which no visible jump leads (cases of a computed jump, targets of a longjmp) gets the frame of the
//! function's body, if that fits ([`Walk::adopt`]). If no frame fits, there is no rule: it is better to cut a stack
//! than to skip a caller.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use decode::{Flow, Insn, Isa, decode};
use state::{State, Value};
use wire::unwind::{Base, Rule, Saved};

use super::{Code, PUSH_LR, Rules};
use crate::image::sorted_ranges::holding;

mod beside;
mod by_address;
mod ends;
pub(super) mod frames;
mod groups;
pub(super) mod hints;
mod returns;
mod riscv;
mod state;
pub(super) mod tables;
mod thumb;

use by_address::ByAddress;
use groups::Groups;
use hints::Entry;
use tables::{Table, Tables};

/// Longest piece of millicode: RISC-V's largest, which saves thirteen registers, has 20 instructions.
const MAX_MILLICODE: usize = 64;

/// Most passes over the code; each pass knows of more calls that do not return, and follows the functions that this
/// concerns.
const MAX_ROUNDS: usize = 8;

/// Most frames of one function that are tried when the right frame is not known.
const MAX_SHAPES: usize = 8;

/// Entries of the functions that never return, once they are known.
pub(super) type Never = OnceCell<BTreeSet<u64>>;

/// Makes rules for the functions among `functions` for which `known` has none: start, end, rules. `never` is about the
/// same functions.
pub(super) fn read<'a>(
    code: &Code<'_>,
    functions: &[Range<u64>],
    never: &Never,
    known: impl Fn(&Range<u64>) -> Option<&'a Rules>,
) -> Vec<(u64, u64, Rules)> {
    let unknown: Vec<&Range<u64>> = functions.iter().filter(|function| known(function).is_none()).collect();
    if unknown.is_empty() {
        return Vec::new();
    }
    let mut links = Links::default();
    for function in functions {
        links.read(code, function, known(function), End::Assumed);
    }
    let mut walk = Walk {
        code,
        unknown: &unknown,
        ends_of_others: ends::of_others(code, &unknown, &links),
        links,
        ..Walk::empty(code, &unknown, never_return(code, functions, never))
    };
    walk.run();
    let rules_of = |function: &&Range<u64>| {
        let mut rules = Changes::default();
        let mut next = function.start;
        for (pc, state) in walk.states.range(function.start..function.end) {
            // Code to which nothing leads, and data.
            if pc > next {
                rules.add(next, None);
            }
            rules.add(pc, state.as_ref().and_then(State::rule));
            next = next.max(code.next(pc));
        }
        if next < function.end {
            rules.add(next, None);
        }
        (function.start, function.end, rules.rules)
    };
    unknown.iter().map(rules_of).collect()
}

/// Rules of a function that are told in order, for which there is a row only where they change: most instructions have that of
/// the one before.
#[derive(Default)]
struct Changes {
    rules: Rules,
    last: Option<Option<Rule>>,
}

impl Changes {
    fn add(&mut self, pc: u64, rule: Option<Rule>) {
        if self.last != Some(rule) {
            self.rules.insert(pc, rule);
            self.last = Some(rule);
        }
    }
}

/// Entries of the functions that never return.
pub(super) fn never_return<'n>(code: &Code<'_>, functions: &[Range<u64>], never: &'n Never) -> &'n BTreeSet<u64> {
    never.get_or_init(|| returns::never(code, functions, None))
}

impl Code<'_> {
    /// Cases of a Thumb table branch (Armv7-M ARM A7.7.185), and the table itself. The table follows the branch, and
    /// ends where the assembler says or else where the nearest case begins.
    fn cases(&self, pc: u64, bytes: &[u8]) -> (Vec<u64>, Range<u64>) {
        let Some(&[first, low, second, high]) = bytes.first_chunk::<4>() else { return (Vec::new(), pc..pc) };
        let entry = match (first, low, second, high) {
            (0xdf, 0xe8, second, 0xf0) if second & 0x10 == 0 => Entry::Byte { is_signed: false },
            (0xdf, 0xe8, _, 0xf0) => Entry::Half { is_signed: false },
            // ldr pc, [pc, register, lsl #2]
            (0xdf, 0xf8, second, 0xf0) if second & 0xf0 == 0x20 => return self.pointers((pc + 7) & !3),
            _ => return (Vec::new(), pc..pc),
        };
        self.table(pc + 4, entry)
    }

    /// Target of a Thumb `ldr pc, [pc, #distance]`, as in the veneers that linkers make. None: it is another instruction.
    fn loaded_target(&self, pc: u64, bytes: &[u8]) -> Option<u64> {
        let (low, high) = halves(bytes);
        let is_load = !self.isa.is_riscv() && matches!(low, 0xf8df | 0xf85f) && high >> 12 == 15;
        let distance_bytes = u64::from(high & 0xfff);
        let base = (pc + 4) & !3;
        let place = if low == 0xf8df { base.checked_add(distance_bytes) } else { base.checked_sub(distance_bytes) };
        // Bit 0 marks Thumb code.
        self.word(place.filter(|_| is_load)?).map(|word| u64::from(word & !1))
    }

    /// Targets of a table of distances, and the table itself.
    fn table(&self, start: u64, entry: Entry) -> (Vec<u64>, Range<u64>) {
        let start = if entry == Entry::Word { (start + 3) & !3 } else { start };
        let (mut cases, mut at, mut end) = (Vec::new(), start, self.hints.data_end(start).unwrap_or(u64::MAX));
        while at < end
            && let Some(bytes) = self.bytes(at)
            && let Some(&[a, b, c, d]) = bytes.first_chunk::<4>()
        {
            let half = u16::from_le_bytes([a, b]);
            let (distance_bytes, entry_bytes) = match entry {
                Entry::Byte { is_signed: false } => (i64::from(a) * 2, 1),
                Entry::Byte { is_signed: true } => (i64::from(a as i8) * 2, 1),
                Entry::Half { is_signed: false } => (i64::from(half) * 2, 2),
                Entry::Half { is_signed: true } => (i64::from(half as i16) * 2, 2),
                Entry::Word => (i64::from(i32::from_le_bytes([a, b, c, d])), 4),
            };
            let case = start.wrapping_add_signed(distance_bytes);
            at += entry_bytes;
            if case >= start {
                // A case cannot lie in the table, so this entry is after its end.
                if case < at {
                    break;
                }
                end = end.min(case);
            }
            cases.push(case);
        }
        (cases, start..at)
    }

    /// Targets of a table of addresses, and the table itself.
    fn pointers(&self, start: u64) -> (Vec<u64>, Range<u64>) {
        let (mut cases, mut at, mut end) = (Vec::new(), start, self.hints.data_end(start).unwrap_or(u64::MAX));
        while at < end
            && let Some(word) = self.word(at)
            && word & 1 == 1
        {
            let case = u64::from(word & !1);
            if case > at {
                end = end.min(case);
            }
            cases.push(case);
            at += 4;
        }
        (cases, start..at)
    }

    fn word(&self, address: u64) -> Option<u32> {
        Some(u32::from_le_bytes(*self.bytes(address)?.first_chunk()?))
    }

    /// Address of the instruction after the one at `pc`.
    pub(super) fn next(&self, pc: u64) -> u64 {
        pc + self.bytes(pc).map_or(2, |bytes| u64::from(decode(self.isa, pc, bytes).len_bytes))
    }
}

/// State where two ways meet. None: nothing is known on one of them, or they contradict each other.
fn met(one: &Option<State>, other: &Option<State>) -> Option<State> {
    one.as_ref()?.and(other.as_ref()?)
}

/// Whether an instruction only raises an exception, so that the code after it is reached by other ways:
/// `__builtin_trap`, and gcc's mark for undefined behaviour.
fn is_trap(code: &Code<'_>, pc: u64, bytes: &[u8]) -> bool {
    let Some(low) = bytes.first_chunk().map(|&half| u16::from_le_bytes(half)) else { return false };
    let word = bytes.first_chunk().map_or(0, |&word| u32::from_le_bytes(word));
    if code.isa.is_riscv() {
        let is_semihosting =
            || code.bytes(pc.wrapping_sub(4)).is_some_and(|before| decode::is_semihosting_prefix(code.isa, before));
        // c.unimp, c.ebreak; unimp (csrrw x0, cycle, x0); ebreak
        matches!(low, 0 | 0x9002)
            || word == 0xc000_1073
            || (decode::is_breakpoint(code.isa, bytes) && !is_semihosting())
    } else {
        // udf, udf.w
        low >> 8 == 0xde || (low & 0xfff0 == 0xf7f0 && word >> 28 == 0xa)
    }
}

/// Whether a function calls through the second link register: millicode, or outlined code. LLVM's unwind information
/// leaves out that such calls make or remove the frame.
pub(super) fn calls_millicode(code: &Code<'_>, function: &Range<u64>) -> bool {
    let mut pc = function.start;
    while code.isa.is_riscv()
        && pc < function.end
        && let Some(bytes) = code.bytes(pc)
    {
        if decode::links_to_t0(code.isa, bytes) {
            return true;
        }
        pc = code.next(pc);
    }
    false
}

/// Functions that a compiler has made, by their first addresses.
pub(super) struct Compiled<'a> {
    /// All of them. A function that the compiler describes as one without a frame may be `naked`: assembly inside.
    pub(super) all: &'a BTreeSet<u64>,
    /// Functions that end, return and jump as the calling convention says.
    pub(super) regular: &'a BTreeSet<u64>,
}

impl Compiled<'_> {
    fn end_of(&self, function: &Range<u64>) -> End {
        match function.start {
            start if self.regular.contains(&start) => End::Compiled,
            start if self.all.contains(&start) => End::Described,
            _ => End::Open,
        }
    }
}

/// Knowledge of how a function ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// End as compilers write it: this is most probable.
    Assumed,
    /// End as compilers write it, in code that a compiler has made.
    Compiled,
    /// Trap at most, as a compiler writes it where a call does not return; else in any way.
    Described,
    /// End in any way.
    Open,
}

impl End {
    /// Whether a trap is certainly not skipped. Compilers leave out code behind a trap that nothing else reaches, so code
    /// behind it in the same function tells nothing.
    fn is_at_trap(self, is_last: bool) -> bool {
        match self {
            End::Assumed => true,
            End::Compiled | End::Described => is_last,
            End::Open => false,
        }
    }

    /// Whether no code is reached behind a call at the function's end.
    fn is_at_call(self) -> bool {
        matches!(self, End::Assumed | End::Compiled)
    }
}

/// Ways in which functions are entered.
#[derive(Default)]
struct Links {
    /// Entered by a call. Other jumps to them do not matter, since a called function does not depend on its callers'
    /// frames.
    called: BTreeSet<u64>,
    /// Entered by a call that leaves its return address in the second link register.
    millicode: BTreeSet<u64>,
    /// Entered by a jump, or because the function before runs into them.
    reached: BTreeSet<u64>,
    /// Entered by a jump from a function that has unwind information, with the rule there.
    from_known: Vec<(u64, Rule)>,
}

impl Links {
    fn is_called(&self, start: u64) -> bool {
        self.called.contains(&start) || self.millicode.contains(&start)
    }

    /// Reads a function.
    fn read(&mut self, code: &Code<'_>, function: &Range<u64>, known: Option<&Rules>, end: End) {
        let mut pc = function.start;
        let mut falls_through = true;
        let mut upper = None;
        // State in an epilogue that removes the frame although LLVM's unwind information does not say so.
        let mut unsaid: Option<State> = None;
        while pc < function.end {
            let Some(bytes) = code.bytes(pc) else { break };
            if code.hints.is_data(pc) {
                pc += 2;
                continue;
            }
            let insn = decode(code.isa, pc, bytes);
            let flow = upper.map_or(insn.flow, |upper| insn.flow.after_upper(code.isa, upper));
            let (call, jump) = match flow {
                Flow::Call { target } => (Some(target), None),
                Flow::Jump { target } | Flow::Branch { target } => (None, Some(target)),
                _ => (None, None),
            };
            if let Some(target) = call.filter(|target| !function.contains(target) || *target == function.start) {
                let set = if decode::links_to_t0(code.isa, bytes) { &mut self.millicode } else { &mut self.called };
                set.insert(target);
            }
            if let Some(target) = jump.filter(|target| !function.contains(target)) {
                self.reached.insert(target);
                let said = known.and_then(|rules| super::rule_at(rules, pc));
                let rule = unsaid.as_ref().map_or(said, State::rule);
                self.from_known.extend(rule.map(|rule| (target, rule)));
            }
            falls_through = match insn.flow {
                Flow::Jump { .. } | Flow::Return | Flow::IndirectJump { .. } | Flow::ComputedJump => false,
                Flow::Call { .. } | Flow::IndirectCall { .. } => !end.is_at_call(),
                Flow::Next | Flow::It { .. } | Flow::Branch { .. } => {
                    !end.is_at_trap(true) || !is_trap(code, pc, bytes)
                }
            };
            upper = decode::auipc(code.isa, pc, bytes);
            let next = pc + u64::from(insn.len_bytes);
            // What is cheap to know comes first: few instructions take anything off the stack.
            let is_unsaid = insn.flow == Flow::Next
                && (unsaid.is_some() || deepens(code, bytes) < 0)
                && known.is_some_and(|rules| super::rule_at(rules, pc) == super::rule_at(rules, next));
            let said = || known.and_then(|rules| super::rule_at(rules, pc)).map(|rule| State::at(code.isa, rule));
            unsaid = if is_unsaid { unsaid.or_else(said) } else { None };
            if let Some(state) = &mut unsaid {
                execute(code, pc, bytes, state);
            }
            pc = next;
        }
        if falls_through && known.is_none() {
            self.reached.insert(function.end);
        }
    }
}

/// Way in which an instruction was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    Flow,
    /// By the return of the call at this address.
    AfterCall(u64),
}

/// Successors of an instruction, or of a whole IT block.
#[derive(Default)]
struct Step {
    /// States at the other instructions of an IT block.
    inside: Vec<(u64, Option<State>)>,
    /// Next instruction in memory.
    falls: Option<(u64, Option<State>, Edge)>,
    jumps: Vec<(u64, Option<State>)>,
    /// States at jumps with an unknown stack to another function's start; other jumps determine the state there.
    unknown: Vec<(u64, Option<State>)>,
    /// States at returns and tail calls.
    leaves: Vec<Option<State>>,
    /// States at jumps with an unknown target.
    computed: Vec<Option<State>>,
    /// Instruction after one that only traps, with its state.
    behind_trap: Option<(u64, Option<State>)>,
    /// Whether the instruction takes more off the stack than the function has put on it.
    is_too_much: bool,
    /// Data to which the instruction refers.
    data: Option<Range<u64>>,
    /// Table that it jumps through, if tables are looked for.
    table: Option<Table>,
}

struct Walk<'a> {
    code: &'a Code<'a>,
    unknown: &'a [&'a Range<u64>],
    /// Index in `unknown` of the function that was found last: the next address is mostly in the same.
    latest: Cell<usize>,
    never: &'a BTreeSet<u64>,
    /// Functions that a compiler has made. None: all functions are like them, which is most probable, and what stacks are
    /// walked by. A bound needs proof.
    compiled: Option<&'a Compiled<'a>>,
    links: Links,
    /// Starts of epilogue parts that others share.
    ends_of_others: BTreeSet<u64>,
    /// Calls that do not return here, although the called function may return elsewhere.
    ends: BTreeSet<u64>,
    /// State at each instruction that was reached.
    states: ByAddress<Option<State>>,
    /// Call after which an instruction was first reached, by the instruction.
    came_by: BTreeMap<u64, u64>,
    /// States after traps.
    behind_traps: BTreeMap<u64, Option<State>>,
    /// States at jumps with an unknown target.
    computed: BTreeMap<u64, Option<State>>,
    /// States at starts of functions to which only jumps with an unknown stack lead.
    lost: BTreeMap<u64, Option<State>>,
    /// Addresses of data among the code: literals, tables.
    data: ByAddress<()>,
    /// Functions with code to which no visible jump leads.
    adopted: BTreeSet<u64>,
    /// The code, as far as a frame fits.
    adopted_code: BTreeSet<u64>,
    open: Vec<(u64, Option<State>, Edge)>,
    /// Functions, by their indices in `unknown`, between which control was followed.
    groups: Groups,
    /// Functions with states that would be others if they were followed again.
    stale: BTreeSet<usize>,
    /// Tables of jumps; None: they are not looked for, so that only those behind a jump are known.
    tables: Option<Tables>,
}

impl<'a> Walk<'a> {
    fn empty(code: &'a Code<'a>, unknown: &'a [&'a Range<u64>], never: &'a BTreeSet<u64>) -> Walk<'a> {
        Walk {
            code,
            unknown,
            latest: Cell::new(0),
            never,
            compiled: None,
            links: Links::default(),
            ends_of_others: BTreeSet::new(),
            ends: BTreeSet::new(),
            states: ByAddress::new(),
            came_by: BTreeMap::new(),
            behind_traps: BTreeMap::new(),
            computed: BTreeMap::new(),
            lost: BTreeMap::new(),
            data: ByAddress::new(),
            adopted: BTreeSet::new(),
            adopted_code: BTreeSet::new(),
            open: Vec::new(),
            groups: Groups::new(unknown.len()),
            stale: BTreeSet::new(),
            tables: None,
        }
    }

    fn run(&mut self) {
        self.follow_again();
        self.adopt_all();
    }

    /// Follows all functions, and those again that call what turns out not to return.
    fn follow_again(&mut self) {
        let mut again: BTreeSet<usize> = (0..self.unknown.len()).collect();
        for _ in 0..MAX_ROUNDS {
            let before = self.ends.len();
            self.follow_all(&again);
            // Now that more is known, a way may lead to functions to which none led before.
            while self.groups.around(&again).len() > again.len() {
                again = self.groups.around(&again);
                self.forget(&again);
                self.follow_all(&again);
            }
            if self.ends.len() == before {
                break;
            }
            again = self.groups.around(&std::mem::take(&mut self.stale));
            self.forget(&again);
        }
    }

    fn adopt_all(&mut self) {
        // Shared parts come last, since the others determine their states.
        let (ends, others): (Vec<_>, Vec<_>) =
            self.unknown.iter().partition(|function| self.is_end_of_others(function.start));
        for function in others.into_iter().chain(ends) {
            self.adopt(function);
        }
    }

    /// Removes the states of some functions.
    fn forget(&mut self, functions: &BTreeSet<usize>) {
        for function in functions.iter().map(|&function| self.unknown[function]) {
            self.states.remove(function.clone());
        }
        let unknown = self.unknown;
        let is_left = |pc: &u64| holding(unknown, *pc).is_none_or(|function| !functions.contains(&function));
        self.came_by.retain(|pc, _| is_left(pc));
        for states in [&mut self.behind_traps, &mut self.computed, &mut self.lost] {
            states.retain(|pc, _| is_left(pc));
        }
    }

    fn is_called(&self, start: u64) -> bool {
        self.links.is_called(start)
    }

    fn is_end_of_others(&self, start: u64) -> bool {
        self.ends_of_others.contains(&start)
    }

    fn function_of(&self, pc: u64) -> Option<&'a Range<u64>> {
        Some(self.unknown[self.index_of(pc)?])
    }

    /// Index in `unknown` of the function that contains an address.
    fn index_of(&self, pc: u64) -> Option<usize> {
        let latest = self.latest.get();
        if self.unknown.get(latest).is_some_and(|function| function.contains(&pc)) {
            return Some(latest);
        }
        let found = holding(self.unknown, pc)?;
        self.latest.set(found);
        Some(found)
    }

    fn is_data(&self, pc: u64) -> bool {
        self.data.get(pc).is_some() || self.code.hints.is_data(pc)
    }

    /// Follows each of some functions from its start. Functions that are reached only by jumps, or from the function
    /// before, may be labels in other functions: they come last.
    fn follow_all(&mut self, functions: &BTreeSet<usize>) {
        let isa = self.code.isa;
        for &(target, rule) in &self.links.from_known {
            if self.is_called(target) || !self.index_of(target).is_some_and(|index| functions.contains(&index)) {
                continue;
            }
            self.open.push((target, Some(State::at(isa, rule)), Edge::Flow));
        }
        self.follow();
        for later in [false, true] {
            for &function in functions {
                let start = self.unknown[function].start;
                let is_called = self.is_called(start);
                let is_later = self.links.reached.contains(&start) && !is_called;
                if is_later != later || self.states.get(start).is_some() || self.is_end_of_others(start) {
                    continue;
                }
                let is_millicode = if is_called {
                    !self.links.called.contains(&start)
                } else {
                    // Millicode that this firmware does not call: called parts of its kind run into the same code.
                    !is_later && self.millicode(start, State::millicode(isa)).is_some_and(|end| end.1)
                };
                let entry = if is_millicode { State::millicode(isa) } else { State::entry(isa) };
                let state = self.lost.get(&start).cloned().filter(|_| later).unwrap_or(Some(entry));
                self.open.push((start, state, Edge::Flow));
                self.follow();
            }
        }
    }

    fn follow(&mut self) {
        while let Some((pc, state, edge)) = self.open.pop() {
            let Some(function) = self.index_of(pc).filter(|_| !self.is_data(pc)) else { continue };
            let mut both = state;
            if let Some(before) = self.states.get(pc) {
                let has_state = both.is_some();
                both = met(before, &both);
                if both == *before {
                    continue;
                }
                if both.is_none() && has_state {
                    // One of the two ways is impossible: a call that does not return was assumed to return.
                    let by_call =
                        if let Edge::AfterCall(call) = edge { Some(call) } else { self.came_by.get(&pc).copied() };
                    if by_call.is_some_and(|call| self.ends.insert(call)) {
                        self.stale.insert(function);
                    }
                }
            } else if let Edge::AfterCall(call) = edge {
                self.came_by.insert(pc, call);
            }
            self.states.insert(pc, both.clone());
            let Some(step) = self.step(pc, both) else { continue };
            self.join(function, &step);
            self.states.extend(step.inside);
            if let Some(data) = step.data {
                self.stale.extend(self.taken_for_code(&data));
                self.data.extend(data.map(|address| (address, ())));
            }
            if let Some(tables) = &mut self.tables {
                tables.note(pc, step.table);
            }
            self.behind_traps.extend(step.behind_trap);
            self.lost.extend(step.unknown);
            if let Some(state) = step.computed.into_iter().next() {
                self.computed.insert(pc, state);
            }
            self.open.extend(step.falls);
            self.open.extend(step.jumps.into_iter().map(|(target, state)| (target, state, Edge::Flow)));
        }
    }

    /// Joins a function's group with those of the functions to which an instruction leads.
    fn join(&mut self, function: usize, step: &Step) {
        let falls = step.falls.iter().map(|&(target, ..)| target);
        for target in falls.chain(step.jumps.iter().chain(&step.unknown).map(|&(target, _)| target)) {
            if !self.unknown[function].contains(&target)
                && let Some(other) = self.index_of(target)
            {
                self.groups.join(function, other);
            }
        }
    }

    /// Functions in which data were followed as code, before an instruction referred to them.
    fn taken_for_code(&self, data: &Range<u64>) -> Vec<usize> {
        self.states.range(data.clone()).filter_map(|(pc, _)| self.index_of(pc)).collect()
    }

    fn end_of(&self, function: Option<&Range<u64>>) -> End {
        let Some(compiled) = self.compiled else { return End::Assumed };
        function.map_or(End::Open, |function| compiled.end_of(function))
    }

    fn is_regular(&self, function: Option<&Range<u64>>) -> bool {
        self.end_of(function).is_at_call()
    }

    /// Whether control cannot come to code behind the last instruction of a function, unless by a call.
    fn is_apart(&self, function: Option<&Range<u64>>, next: u64) -> bool {
        if self.is_regular(function) { self.is_own(next) } else { self.is_called(next) }
    }

    /// Whether code after a call is a function of its own: it is called, or makes a frame. Then the function before
    /// it ends in a call that does not return, perhaps followed by data.
    fn is_own(&self, pc: u64) -> bool {
        self.is_called(pc) || self.code.bytes(pc).is_some_and(|bytes| deepens(self.code, bytes) > 0)
    }

    fn step(&self, pc: u64, state: Option<State>) -> Option<Step> {
        let bytes = self.code.bytes(pc)?;
        let insn = decode(self.code.isa, pc, bytes);
        let mut step = Step::default();
        match insn.flow {
            Flow::It { count } => self.conditional(pc, bytes, count, state, &mut step),
            _ => self.one(pc, bytes, insn, state, &mut step),
        }
        Some(step)
    }

    /// Follows an IT block on two paths: one where its condition holds, and one where it does not.
    fn conditional(&self, pc: u64, bytes: &[u8], count: u8, state: Option<State>, step: &mut Step) {
        let low = bytes.first_chunk().map_or(0, |&half| u32::from(u16::from_le_bytes(half)));
        let mut ways = [Some((state.clone(), Edge::Flow)), Some((state, Edge::Flow))];
        let meet = |ways: &[Option<(Option<State>, Edge)>; 2]| match ways {
            [Some((one, _)), Some((two, _))] => Some(met(one, two)),
            [Some((one, _)), None] | [None, Some((one, _))] => Some(one.clone()),
            [None, None] => None,
        };
        let mut at = self.code.next(pc);
        for number in 0..u32::from(count) {
            let is_else = number > 0 && bits(low, 4 - number, 4 - number) != bits(low, 4, 4);
            let way = usize::from(is_else);
            let Some(bytes) = self.code.bytes(at) else { return };
            let insn = decode(self.code.isa, at, bytes);
            step.inside.push((at, meet(&ways).flatten()));
            if let Some((state, _)) = ways[way].take() {
                step.falls = None;
                self.one(at, bytes, insn, state, step);
                ways[way] = step.falls.take().map(|(_, state, edge)| (state, edge));
            }
            at += u64::from(insn.len_bytes);
        }
        let edge = ways.iter().flatten().map(|(_, edge)| *edge).next().filter(|_| ways.iter().flatten().count() == 1);
        step.falls = meet(&ways).map(|state| (at, state, edge.unwrap_or(Edge::Flow)));
    }

    /// Follows a single instruction that executes.
    fn one(&self, pc: u64, bytes: &[u8], insn: Insn, state: Option<State>, step: &mut Step) {
        let code = self.code;
        let next = pc + u64::from(insn.len_bytes);
        let function = self.function_of(pc);
        let is_last = self.function_of(next) != function;
        let mut after = state.clone();
        if let Some(after) = &mut after {
            execute(code, pc, bytes, after);
        }
        // This is not an entry, but a part of an epilogue that other functions share.
        if after.as_ref().and_then(State::depth_bytes).is_some_and(|depth| depth < 0) {
            step.is_too_much = true;
            return;
        }
        if code.isa.is_thumb()
            && let (low, high) = halves(bytes)
            && let Some(word) = thumb::literal_address(pc, low, high)
        {
            step.data = Some(word..word + 4);
        }
        let constant = |reg: u8, offset: i32| match state.as_ref()?.get(reg.into()) {
            // Bit 0 marks Thumb code.
            Value::Constant(value) => Some(u64::from(value.wrapping_add(offset) as u32 & !1)),
            _ => None,
        };
        if let (Some(tables), Some(function), Some(before), Some(after)) = (&self.tables, function, &state, &after)
            && let Some(table) = tables.of(code, function, pc, bytes, [before, after])
        {
            step.jumps.extend(table.targets().iter().map(|&target| (target, Some(after.clone()))));
            step.table = Some(table);
            return;
        }
        match insn.flow {
            Flow::Next if self.end_of(function) != End::Open && is_trap(code, pc, bytes) => {
                step.behind_trap = Some((next, state));
            }
            Flow::Next | Flow::It { .. } if is_last && self.is_apart(function, next) => {}
            Flow::Next | Flow::It { .. } => step.falls = Some((next, after, Edge::Flow)),
            Flow::Branch { target } => {
                step.falls = Some((next, after.clone(), Edge::Flow));
                self.jump(function, target, after, step);
            }
            Flow::Jump { target } => self.jump(function, target, after, step),
            Flow::Call { target } => self.call(pc, bytes, next, Some(target), after, step),
            Flow::IndirectCall { reg, offset, .. } => {
                self.call(pc, bytes, next, constant(reg, offset), after, step);
            }
            // Only assembly puts a constant where a return finds its address.
            Flow::Return
                if self.compiled.is_some()
                    && let Some(Value::Constant(target)) =
                        after.as_ref().map(|after| returned_to(code.isa, bytes, after)) =>
            {
                self.jump(function, u64::from(target as u32 & !1), after, step);
            }
            Flow::Return => step.leaves.push(after),
            Flow::IndirectJump { reg, offset } => {
                let is_return = state.as_ref().is_some_and(|state| state.get(reg.into()) == Value::ReturnAddr);
                if is_return {
                    step.leaves.push(state.map(|mut state| {
                        state.set(state.roles.link, Value::ReturnAddr);
                        state
                    }));
                } else if let Some(target) = constant(reg, offset) {
                    self.jump(function, target, after, step);
                } else {
                    step.computed.push(after);
                }
            }
            Flow::ComputedJump if let Some(target) = code.loaded_target(pc, bytes) => {
                self.jump(function, target, after, step);
            }
            Flow::ComputedJump => {
                let (cases, table) = code.cases(pc, bytes);
                step.jumps.extend(cases.iter().map(|&case| (case, after.clone())));
                if cases.is_empty() {
                    step.computed.push(after);
                } else {
                    step.data = Some(table);
                }
            }
        }
    }

    fn jump(&self, function: Option<&Range<u64>>, target: u64, state: Option<State>, step: &mut Step) {
        let other = self.function_of(target);
        if other == function {
            step.jumps.push((target, state));
            return;
        }
        let is_start = other.is_some_and(|other| other.start == target);
        let is_called = self.is_called(target);
        // Start-up code that has set its stack, or the start of a task, continues in a function that was not called.
        let is_set = |state: &State| {
            let is_constant = |register: usize| matches!(state.get(register), Value::Constant(_));
            is_constant(state.roles.sp) || is_constant(state.roles.link)
        };
        if other.is_none() || (is_start && is_called) {
            step.leaves.push(state);
        } else if is_start && state.as_ref().and_then(State::rule).is_none() {
            let is_new = self.is_own(target) || state.as_ref().is_some_and(is_set);
            let state = if is_new { Some(State::entry(self.code.isa)) } else { state };
            step.unknown.push((target, state));
        } else {
            step.jumps.push((target, state));
        }
    }

    fn call(&self, pc: u64, bytes: &[u8], next: u64, target: Option<u64>, state: Option<State>, step: &mut Step) {
        let code = self.code;
        let function = self.function_of(pc);
        let is_second = decode::links_to_t0(code.isa, bytes);
        let mut after = state.clone();
        if let Some(after) = &mut after
            && !is_second
        {
            after.clobber();
        }
        if let Some(target) = target {
            // Without Thumb-2, compilers use `bl` for far jumps.
            if function.is_some_and(|function| function.contains(&target) && target != function.start) {
                step.jumps.push((target, after));
                return;
            }
            if let Some(&entry) = code.hints.switches.get(&target) {
                let (cases, table) = code.table(next, entry);
                step.jumps.extend(cases.into_iter().map(|case| (case, after.clone())));
                step.data = Some(table);
                return;
            }
            if is_second {
                after = state.and_then(|state| Some(self.millicode(target, state)?.0));
            } else if code.hints.mcount == Some(target) && code.half(pc.wrapping_sub(2)) == Some(PUSH_LR) {
                if let Some(after) = &mut after {
                    after.load(after.get(after.roles.sp), after.roles.link);
                    after.add(after.roles.sp, 4);
                }
            } else if self.never.contains(&target) {
                return;
            }
        } else if is_second && let Some(after) = &mut after {
            after.clobber();
            after.set(after.roles.sp, Value::Unknown);
        }
        // A call at a function's very end does not return, if a compiler has made it.
        let is_last = self.function_of(next) != function;
        let is_end = is_last && (self.is_regular(function) || self.is_called(next));
        if !is_end && !self.ends.contains(&pc) {
            step.falls = Some((next, after, Edge::AfterCall(pc)));
        }
    }

    /// State after millicode, which is straight code and returns through the second link register. The flag says
    /// whether the code has returned, with the register still holding its return address. None: the target is not
    /// millicode.
    fn millicode(&self, target: u64, mut state: State) -> Option<(State, bool)> {
        let code = self.code;
        let second = state.roles.second_link?;
        state.set(second, Value::ReturnAddr);
        let mut pc = target;
        for _ in 0..MAX_MILLICODE {
            let bytes = code.bytes(pc)?;
            let insn = decode(code.isa, pc, bytes);
            execute(code, pc, bytes, &mut state);
            match insn.flow {
                Flow::Next => pc += u64::from(insn.len_bytes),
                Flow::Jump { target } => pc = target,
                Flow::Return => {
                    let by_second =
                        riscv::jumps_by(code.isa, bytes) == Some(second) && state.get(second) == Value::ReturnAddr;
                    state.set(second, Value::Unknown);
                    return Some((state, by_second));
                }
                _ => return None,
            }
        }
        None
    }

    /// Whether only instructions without effect follow, up to data, to code that is reached, or to an end.
    fn is_padding(&self, mut pc: u64, end: u64) -> bool {
        while pc < end && !self.is_data(pc) && self.states.get(pc).is_none() {
            let Some(bytes) = self.code.bytes(pc) else { break };
            if !decode::is_nop(self.code.isa, bytes) && bytes.iter().any(|&byte| byte != 0) {
                return false;
            }
            pc = self.code.next(pc);
        }
        true
    }

    /// Determines the state in parts of a function to which no visible jump leads.
    fn adopt(&mut self, function: &Range<u64>) {
        let mut pc = function.start;
        let mut shapes: Option<Shapes> = None;
        // A damaged symbol may reach far beyond the code.
        while pc < function.end && self.code.bytes(pc).is_some() {
            if self.is_data(pc) {
                pc += 2;
                continue;
            }
            if self.states.get(pc).is_none() {
                let shapes = shapes.get_or_insert_with(|| self.shapes(function));
                let found = self.fitting(function, pc, shapes);
                match found {
                    Some(found) => {
                        if !self.is_padding(pc, function.end) {
                            self.adopted.insert(function.start);
                        }
                        let behind =
                            found.iter().filter_map(|(pc, state)| self.step(*pc, state.clone())?.behind_trap);
                        let behind: Vec<_> = behind.collect();
                        self.behind_traps.extend(behind);
                        self.adopted_code.extend(found.iter().map(|&(pc, _)| pc));
                        self.states.extend(found);
                    }
                    None => {
                        self.adopted_code.insert(pc);
                        self.states.insert(pc, None);
                    }
                }
            }
            pc = self.code.next(pc);
        }
    }

    /// Frames of a function at its calls, branches and jumps, most frequent first.
    fn shapes(&self, function: &Range<u64>) -> Shapes {
        let mut counts: Vec<(State, usize)> = Vec::new();
        for (pc, state) in self.states.range(function.start..function.end) {
            let Some(shape) = state.as_ref().map(State::shape).filter(|shape| shape.rule().is_some()) else {
                continue;
            };
            let Some(bytes) = self.code.bytes(pc) else { continue };
            let flow = decode(self.code.isa, pc, bytes).flow;
            if matches!(flow, Flow::Next | Flow::It { .. } | Flow::Return) {
                continue;
            }
            match counts.iter_mut().find(|(known, _)| known.rule() == shape.rule()) {
                Some((known, count)) => {
                    if let Some(both) = known.and(&shape) {
                        *known = both;
                    }
                    *count += 1;
                }
                None => counts.push((shape, 1)),
            }
        }
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let mut computed: Vec<State> = Vec::new();
        for state in self.computed.range(function.start..function.end).filter_map(|(_, state)| state.as_ref()) {
            let shape = state.shape();
            if shape.rule().is_some() && !computed.iter().any(|known| known.rule() == shape.rule()) {
                computed.push(shape);
            }
        }
        Shapes { computed, body: counts.into_iter().map(|(shape, _)| shape).take(MAX_SHAPES).collect() }
    }

    /// States from an instruction of such a part on.
    fn fitting(&self, function: &Range<u64>, pc: u64, shapes: &Shapes) -> Option<Found> {
        if let Some(Some(state)) = self.behind_traps.get(&pc)
            && let Some((found, _)) = self.tried(function, pc, state.clone())
        {
            return Some(found);
        }
        let try_all = |shapes: &[State]| -> Vec<_> {
            shapes.iter().filter_map(|shape| self.tried(function, pc, shape.clone())).collect()
        };
        // A computed jump leads there, and all such jumps have the same frame.
        let mut found = try_all(&shapes.computed);
        if let [one] = &mut found[..]
            && (shapes.computed.len() == 1 || one.1)
        {
            return Some(std::mem::take(&mut one.0));
        }
        let mut found = try_all(&shapes.body);
        found.retain(|(_, fits)| *fits);
        if let [one] = &mut found[..] { Some(std::mem::take(&mut one.0)) } else { None }
    }

    /// Follows code to which nothing leads, with an assumed state. None: the state contradicts known states, or a
    /// return would not find its address. The flag says whether something confirms the state: a jump to code with the
    /// same state, or a return.
    fn tried(&self, function: &Range<u64>, start: u64, state: State) -> Option<(Found, bool)> {
        let mut fits = false;
        let mut states: BTreeMap<u64, Option<State>> = BTreeMap::new();
        let mut open = vec![(start, Some(state))];
        while let Some((pc, state)) = open.pop() {
            if self.is_data(pc) {
                continue;
            }
            // Code that several functions share is known from the others.
            if let Some(known) = self.states.get(pc) {
                if let (Some(known), Some(state)) = (known, &state)
                    && known.rule().is_some()
                    && state.rule().is_some()
                {
                    known.and(state).filter(|both| both.rule() == known.rule())?;
                    fits = true;
                }
                continue;
            }
            if !function.contains(&pc) && self.function_of(pc).is_none_or(|other| !self.is_end_of_others(other.start))
            {
                continue;
            }
            let mut both = state;
            if let Some(before) = states.get(&pc) {
                both = met(before, &both);
                if both == *before {
                    continue;
                }
                both.as_ref()?;
            }
            states.insert(pc, both.clone());
            let Some(step) = self.step(pc, both) else { continue };
            if step.is_too_much {
                return None;
            }
            for state in step.leaves.iter().flatten() {
                if !state.has_restored() {
                    return None;
                }
                fits = true;
            }
            states.extend(step.inside);
            open.extend(step.falls.map(|(target, state, _)| (target, state)));
            open.extend(step.jumps);
        }
        Some((states.into_iter().collect(), fits))
    }
}

/// States at instructions that were found.
type Found = Vec<(u64, Option<State>)>;

/// Frames of a function's body.
struct Shapes {
    /// Frames at the function's jumps with an unknown target.
    computed: Vec<State>,
    body: Vec<State>,
}

/// Corrects gcc 12, which describes neither the epilogues that it makes for processors without Thumb-2 nor the steps
/// within them: the stack shrinks, but the rule stays. Follows the instructions from such an epilogue to the
/// function's end or next jump.
pub(super) fn mend_epilogues(code: &Code<'_>, function: Range<u64>, rules: &mut Rules) {
    if code.isa.is_riscv() {
        return;
    }
    // The stated rules, once they are corrected.
    let mut said: Option<Rules> = None;
    // Corrected rule, while it differs from the stated one.
    let mut mended: Option<Rule> = None;
    let mut pc = function.start;
    while pc < function.end
        && let Some(bytes) = code.bytes(pc)
    {
        let next = code.next(pc);
        let unsaid = || {
            let rule_at = |pc: u64| super::rule_at(said.as_ref().unwrap_or(rules), pc);
            let is_unsaid = deepens(code, bytes) < 0 && rule_at(pc) == rule_at(next);
            rule_at(pc).filter(|rule| is_unsaid && rule.base == Base::StackPointer)
        };
        if let Some(before) = mended.or_else(unsaid) {
            let said = said.get_or_insert_with(|| rules.clone());
            let ends = decode(code.isa, pc, bytes).flow != Flow::Next;
            let mut state = State::at(code.isa, before);
            execute(code, pc, bytes, &mut state);
            let after = state.rule();
            // An epilogue removes at most the frame, so this is hand-written assembly.
            if after.is_some_and(|after| after.cfa_offset_bytes < 0) {
                return;
            }
            mended = after.filter(|_| !ends);
            let rule = if ends { super::rule_at(said, next) } else { after };
            rules.insert(next, rule);
        }
        pc = next;
    }
}

/// Corrects LLVM, which does not describe most epilogues. After an epilogue in a function's middle, its rule still
/// finds the frame by the frame pointer, which is already the caller's. If the instructions have already restored a
/// value that the rule expects on the stack, the rule derived from the instructions replaces it.
pub(super) fn mend_middles(
    code: &Code<'_>,
    functions: &[Range<u64>],
    never: &Never,
    known: &mut BTreeMap<u64, (u64, Rules)>,
) {
    let is_suspect = |function: &Range<u64>| {
        let Some((end, rules)) = known.get(&function.start) else { return false };
        let mut pc = function.start;
        while pc < *end
            && let Some(bytes) = code.bytes(pc)
        {
            let insn = decode(code.isa, pc, bytes);
            let next = pc + u64::from(insn.len_bytes);
            if !matches!(insn.flow, Flow::Return)
                && (deepens(code, bytes) < 0 || adds_register(code.isa, bytes))
                && !code.hints.is_data(pc)
                && super::rule_at(rules, pc).is_some()
                && super::rule_at(rules, pc) == super::rule_at(rules, next)
            {
                return true;
            }
            pc = next;
        }
        false
    };
    let suspects: BTreeSet<u64> =
        functions.iter().filter(|function| is_suspect(function)).map(|function| function.start).collect();
    let others = |function: &Range<u64>| {
        known.get(&function.start).map(|(_, rules)| rules).filter(|_| !suspects.contains(&function.start))
    };
    for (start, _, followed) in read(code, functions, never, others) {
        let Some((end, rules)) = known.get_mut(&start).filter(|_| suspects.contains(&start)) else { continue };
        let said = std::mem::take(rules);
        let mut mended = Changes::default();
        let mut pc = start;
        // An epilogue pops r7 after `mov sp, r7`; from then on the frame is no longer there.
        let (mut has_ended, mut has_popped) = (false, false);
        while pc < *end
            && let Some(bytes) = code.bytes(pc)
        {
            let rule = match (super::rule_at(&said, pc), super::rule_at(&followed, pc)) {
                (Some(said), Some(followed))
                    if takes_back(&said, &followed)
                        || (has_popped && said.base == Base::FramePointer && followed.base == Base::StackPointer) =>
                {
                    Some(followed)
                }
                (said, _) => said,
            };
            mended.add(pc, rule);
            let (low, _) = halves(bytes);
            let goes_on = code.isa.is_thumb() && decode(code.isa, pc, bytes).flow == Flow::Next;
            has_ended = goes_on && (has_ended || low == 0x46bd);
            has_popped = goes_on && (has_popped || (has_ended && matches!(low, 0xbc80..=0xbcff)));
            pc = code.next(pc);
        }
        // Of what is not code, only what was said is known.
        said.range(pc..).for_each(|(&pc, &rule)| mended.add(pc, rule));
        *rules = mended.rules;
    }
}

/// Whether the instruction is Thumb `add sp, register`, which makes and removes large frames on processors without
/// Thumb-2.
fn adds_register(isa: Isa, bytes: &[u8]) -> bool {
    isa.is_thumb() && halves(bytes).0 & 0xff87 == 0x4485
}

/// Whether a function begins like libgcc's unwinder: it pushes the end of its caller's stack, lr, and then all of r0
/// to r7. The last push alone proves nothing, since LLVM pushes registers to make room.
pub(super) fn saves_all_registers(code: &Code<'_>, function: &Range<u64>) -> bool {
    if code.isa.is_riscv() {
        return false;
    }
    let mut state = State::entry(code.isa);
    let (sp, link) = (state.get(state.roles.sp), state.roles.link);
    let mut has_saved_sp = false;
    let mut pc = function.start;
    while pc < function.end
        && let Some(bytes) = code.bytes(pc)
        && decode(code.isa, pc, bytes).flow == Flow::Next
    {
        let pushed = match halves(bytes) {
            (low @ 0xb400..=0xb5ff, _) => low & 0xff | bits(low, 8, 8) << link,
            (0xe92d, high) => high,
            _ => 0,
        };
        let has = |register: usize| pushed >> register & 1 == 1;
        has_saved_sp |= has(link) && (0..link).any(|register| has(register) && state.get(register) == sp);
        if has_saved_sp && pushed & 0xff == 0xff {
            return true;
        }
        execute(code, pc, bytes, &mut state);
        pc = code.next(pc);
    }
    false
}

/// Whether the instructions have restored a value that the stated rule still expects on the stack.
fn takes_back(said: &Rule, followed: &Rule) -> bool {
    let registers = [(said.return_addr, followed.return_addr), (said.frame_pointer, followed.frame_pointer)];
    let is_back = |&(said, followed): &(Saved, Saved)| matches!((said, followed), (Saved::AtCfa(_), Saved::Register));
    let is_shallower = said.base == followed.base && followed.cfa_offset_bytes < said.cfa_offset_bytes;
    followed.base == Base::StackPointer && (registers.iter().any(is_back) || is_shallower)
}

/// Bytes by which an instruction makes the stack deeper.
pub(super) fn deepens(code: &Code<'_>, bytes: &[u8]) -> i32 {
    let (low, high) = halves(bytes);
    let may_move =
        if code.isa.is_riscv() { riscv::may_write_sp(code.isa, low) } else { thumb::may_write_sp(low, high) };
    // Few instructions do, and a state is large.
    if may_move { deepens_by_state(code, bytes) } else { 0 }
}

fn deepens_by_state(code: &Code<'_>, bytes: &[u8]) -> i32 {
    let mut state = State::entry(code.isa);
    execute(code, 0, bytes, &mut state);
    state.depth_bytes().unwrap_or(0)
}

/// Address to which a return leads, given the state after it.
fn returned_to(isa: Isa, bytes: &[u8], after: &State) -> Value {
    let register = if isa.is_riscv() { riscv::jumps_by(isa, bytes) } else { Some(after.roles.link) };
    register.map_or(Value::Unknown, |register| after.get(register))
}

/// Applies an instruction to a state, apart from its flow of control.
fn execute(code: &Code<'_>, pc: u64, bytes: &[u8], state: &mut State) {
    let (low, high) = halves(bytes);
    if code.isa.is_riscv() {
        riscv::execute(code.isa, pc, low, low | high << 16, state);
    } else {
        thumb::execute(pc, low, high, |address| code.word(address), state);
    }
}

/// First two halfwords; missing ones are zero.
fn halves(bytes: &[u8]) -> (u32, u32) {
    let half =
        |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |&half| u16::from_le_bytes(half));
    (half(0).into(), half(2).into())
}

fn bits(word: u32, high: u32, low: u32) -> u32 {
    (word >> low) & ((1 << (high - low + 1)) - 1)
}

fn sign_extended(value: u32, width: u32) -> i32 {
    ((value << (32 - width)) as i32) >> (32 - width)
}

#[cfg(test)]
pub(super) mod testing {
    //! Code for tests, which counts its reads: tests judge run time by this count, not by a clock.

    use std::cell::Cell;

    use crate::image::Segment;

    thread_local! {
        static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    /// Counts a read of an instruction's bytes.
    pub(in super::super) fn look() {
        LOOKS.set(LOOKS.get() + 1);
    }

    /// Result of `work`, and its number of reads of code.
    pub(super) fn looks<T>(work: impl FnOnce() -> T) -> (T, u64) {
        let before = LOOKS.get();
        let made = work();
        (made, LOOKS.get() - before)
    }

    /// Makes a segment of these halfwords, from address 0 on.
    pub(super) fn of_code(halves: &[u16]) -> Vec<Segment> {
        let data: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        let mem_bytes = data.len() as u64;
        vec![Segment { load_addr: 0, run_addr: 0, data, mem_bytes, executable: true, writable: false }]
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{looks, of_code};
    use super::*;

    /// Walk over functions without unwind information.
    fn walk<'a>(code: &'a Code<'a>, unknown: &'a [&'a Range<u64>], never: &'a BTreeSet<u64>) -> Walk<'a> {
        let mut links = Links::default();
        unknown.iter().for_each(|function| links.read(code, function, None, End::Assumed));
        let ends_of_others = ends::of_others(code, unknown, &links);
        Walk { ends_of_others, links, ..Walk::empty(code, unknown, never) }
    }

    /// Follows all functions in every pass.
    fn follow_all_each_time(walk: &mut Walk<'_>) -> usize {
        let all: BTreeSet<usize> = (0..walk.unknown.len()).collect();
        for round in 1..=MAX_ROUNDS {
            let before = walk.ends.len();
            walk.forget(&all);
            walk.follow_all(&all);
            if walk.ends.len() == before {
                return round;
            }
        }
        MAX_ROUNDS
    }

    /// Code of some functions, from a few instructions that make and remove frames, branch, call, and jump.
    fn random_code(random: &mut impl FnMut(u32) -> u32, functions: &mut Vec<Range<u64>>) -> Vec<u16> {
        let jal = |from: i32, to: i32, link: u16| {
            let bits = |high: u32, low: u32| ((to - from) as u32 >> low) & ((1 << (high - low + 1)) - 1);
            let word = bits(20, 20) << 31 | bits(10, 1) << 21 | bits(11, 11) << 20 | bits(19, 12) << 12 | 0x6f;
            [word as u16 | link << 7, (word >> 16) as u16]
        };
        let mut halves: Vec<u16> = Vec::new();
        let (count, bytes) = (8, 64);
        // All functions have the same size, so that starts are known beforehand.
        for start in (0..count).map(|function| function * bytes) {
            functions.push(start as u64..(start + bytes) as u64);
            // c.addi sp, -16; c.sdsp ra, 8(sp)
            halves.extend([0x1141, 0xe406]);
            while (halves.len() as i32) < (start + bytes) / 2 {
                let pc = halves.len() as i32 * 2;
                let other = random(count as u32) as i32 * bytes;
                let left = (start + bytes - pc) / 2;
                match random(8) {
                    // c.beqz a0, over the call; c.addi sp, -16; call: it cannot return, since both ways would meet
                    // there with other frames.
                    0..3 if left >= 4 => {
                        halves.extend([0xc501, 0x1141]);
                        halves.extend(jal(pc + 4, other, 1));
                    }
                    // c.ldsp ra, 8(sp); c.addi sp, 16; c.jr ra
                    3 if left >= 3 => halves.extend([0x60a2, 0x0141, 0x8082]),
                    // c.beqz a0, forward
                    4 => halves.push(0xc101 | (random(4) as u16) << 3),
                    5 if left > 1 => halves.extend(jal(pc, start + random(bytes as u32 / 2) as i32 * 2, 0)),
                    6 if left > 1 => halves.extend(jal(pc, other, random(4).min(1) as u16)),
                    _ => halves.push(1),
                }
            }
        }
        halves
    }

    #[test]
    fn only_what_depends_on_a_call_is_followed_again_with_the_states_of_following_all() {
        let mut seed = 1_u32;
        let mut random = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % below
        };
        let (mut passes, mut few, mut many) = (0, 0, 0);
        for _ in 0..400 {
            let mut functions = Vec::new();
            let segments = of_code(&random_code(&mut random, &mut functions));
            let code = Code { isa: Isa::Riscv64, segments: &segments, load_bias: 0, hints: Default::default() };
            let unknown: Vec<&Range<u64>> = functions.iter().collect();
            let never = returns::never(&code, &functions, None);
            let (mut one, mut other) = (walk(&code, &unknown, &never), walk(&code, &unknown, &never));
            few += looks(|| one.follow_again()).1;
            let (round, looked) = looks(|| follow_all_each_time(&mut other));
            many += looked;
            passes += usize::from(round > 2);
            [&mut one, &mut other].into_iter().for_each(Walk::adopt_all);
            let states = |walk: &Walk<'_>| {
                walk.states.range(0..1024).map(|(pc, state)| (pc, state.clone())).collect::<Vec<_>>()
            };
            assert_eq!(states(&one), states(&other), "{:x?}", segments[0].data);
            assert_eq!(one.ends, other.ends);
        }
        assert!(passes > 20, "{passes} times there was a third pass");
        assert!(few < many, "{few} reads of code, {many} of all of it each time");
    }

    #[test]
    fn an_instruction_that_names_no_stack_pointer_does_not_deepen_the_stack() {
        let segments = of_code(&[0]);
        for isa in [Isa::Riscv64, Isa::Riscv32, Isa::Riscv32Zc, Isa::ThumbV7m] {
            let code = Code { isa, segments: &segments, load_bias: 0, hints: Default::default() };
            // Every first halfword, with second ones of each kind.
            let mut high: u16 = 0;
            for low in 0..=u16::MAX {
                for _ in 0..8 {
                    high = high.wrapping_mul(0x6255).wrapping_add(0x3619);
                    let bytes = [low.to_le_bytes(), high.to_le_bytes()].concat();
                    assert_eq!(deepens(&code, &bytes), deepens_by_state(&code, &bytes), "{isa:?} {low:x} {high:x}");
                }
            }
        }
    }
}
