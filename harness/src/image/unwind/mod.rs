// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules for walking the firmware's stacks, made from all unwind information of its ELF: a sorted table for the
//! plugin.
//!
//! The first source is DWARF call frame information ([`cfi`]), which holds at every instruction. The second is the
//! instructions themselves ([`code`]), for assembly and for images without debug information. Arm's exception tables
//! ([`exidx`]) supplement the second: they hold at a function's calls and have facts that the instructions do not
//! show. Code that no source covers has no rule; a stack ends there with that reason.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use code::Compiled;
pub use code::frames::{Frame, Transfer};
use code::hints::Hints;
use decode::{Flow, Isa, decode};
use object::{Object as _, ObjectSection as _};
use wire::unwind::{Base, Row, Rule, Saved};

use crate::image::Segment;
use crate::image::section::uncompressed;
use crate::image::sorted_ranges::holding;

mod avr;
mod cfi;
mod code;
mod exidx;

/// Table for the plugin, with warnings.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Rules by address (load bias included), sorted.
    pub rows: Vec<Row>,
    /// Entries (load bias included, sorted) of functions that never return and so do not keep their return address:
    /// they make calls, and none of their rules saves it.
    pub forgetful: Vec<u64>,
    /// Calls (load bias included, sorted) that never return, of other functions that do not keep their return address. Each
    /// begins with the last instruction at which the register has it. Compilers save nothing before such a call, if the other
    /// ways through the function make none: a bounds check that fails.
    pub forgetting: Vec<Range<u64>>,
    /// Warnings about unreadable parts, one sentence per cause.
    pub warnings: Vec<String>,
}

/// Rule at a function's first instruction: nothing is saved yet.
const ENTRY: Rule = Rule {
    base: Base::StackPointer,
    cfa_offset_bytes: 0,
    return_addr: Saved::Register,
    frame_pointer: Saved::Register,
};

/// Rules of one function or piece of code, by address; the last one holds up to the piece's end.
type Rules = BTreeMap<u64, Option<Rule>>;

/// Makes the table. `elf` is the file with the symbols, `segments` the image's code (without load bias),
/// `functions` the addresses of its functions (sorted, with load bias).
pub fn table(elf: Option<&[u8]>, isa: Isa, segments: &[Segment], load_bias: u64, functions: &[Range<u64>]) -> Table {
    if isa.is_avr() {
        return avr::table(elf, isa, segments, functions);
    }
    let mut table = Table::default();
    let mut known: BTreeMap<u64, (u64, Rules)> = BTreeMap::new();
    let file = elf.and_then(|bytes| object::File::parse(bytes).ok());
    let hints = file.as_ref().filter(|_| isa.is_thumb()).map(|file| Hints::read(file, load_bias));
    let code = Code { isa, segments, load_bias, hints: hints.unwrap_or_default() };
    if let Some(file) = &file {
        for (start, end, rules) in cfi::read(file, isa, load_bias, functions, &mut table.warnings) {
            known.entry(start).or_insert((end, rules));
        }
    }
    let mut tables: BTreeMap<u64, (u64, Rules)> = BTreeMap::new();
    if let Some(file) = file.filter(|_| isa.is_thumb()) {
        let read = exidx::read(&file, load_bias, functions).into_iter();
        tables = read.map(|(start, end, rules)| (start, (end, rules))).collect();
    }
    let never = code::Never::new();
    code::mend_middles(&code, functions, &never, &mut known);
    // gcc describes a function in assembly (`naked`) as one that does not use the stack.
    let says_nothing = |function: &Range<u64>, rules: &Rules| {
        rules.values().all(|rule| *rule == Some(ENTRY)) && mcount_call(&code, function).is_none()
    };
    let known_rules = |function: &Range<u64>| {
        known
            .get(&function.start)
            .map(|(_, rules)| rules)
            .filter(|rules| !says_nothing(function, rules) && !code::calls_millicode(&code, function))
    };
    for (start, end, rules) in code::read(&code, functions, &never, known_rules) {
        let rules = match tables.remove(&start) {
            Some((_, table)) => complete(&code, start..end, rules, &table),
            None => rules,
        };
        known.insert(start, (end, rules));
    }
    for (start, table) in tables {
        known.entry(start).or_insert(table);
    }
    for (&start, (end, rules)) in &mut known {
        mend_mcount(&code, start..*end, rules);
        code::mend_epilogues(&code, start..*end, rules);
        mend_handed_over(&code, start..*end, rules);
        match forgets(&code, start..*end, rules, || code::never_return(&code, functions, &never)) {
            Forgets::Never => {}
            Forgets::AtEntry => table.forgetful.push(start),
            Forgets::At(calls) => table.forget_at(calls),
        }
    }
    table.rows = rows(&known);
    table
}

/// Rows of functions, given by their starts with their ends and rules: one wherever the rule changes.
fn rows(known: &BTreeMap<u64, (u64, Rules)>) -> Vec<Row> {
    let mut changes: BTreeMap<u64, Option<Rule>> = BTreeMap::new();
    for (end, rules) in known.values() {
        changes.entry(*end).or_insert(None);
        changes.extend(rules.iter().map(|(&pc, &rule)| (pc, rule)));
    }
    let mut rows: Vec<Row> = Vec::new();
    for (pc, rule) in changes {
        if rows.last().map_or(rule.is_some(), |last| last.rule != rule) {
            rows.push(Row { pc, rule });
        }
    }
    rows
}

/// Finds the frames of all functions, with the rows of [`table`] and its arguments, but for the load bias, which is 0.
/// `compiled` has the starts of the functions that a compiler has made.
pub fn frames(
    elf: &[u8],
    isa: Isa,
    segments: &[Segment],
    functions: &[Range<u64>],
    rows: &[Row],
    compiled: &BTreeSet<u64>,
) -> Vec<Frame> {
    let file = object::File::parse(elf).ok();
    let hints = file.as_ref().filter(|_| isa.is_thumb()).map(|file| Hints::read(file, 0));
    let code = Code { isa, segments, load_bias: 0, hints: hints.unwrap_or_default() };
    let said = file.map(|file| cfi::read(&file, isa, 0, functions, &mut Vec::new())).unwrap_or_default();
    // A compiler describes a function in assembly (`naked`) as one that does not use the stack.
    let described = said.into_iter().filter(|(_, _, rules)| rules.values().any(|rule| *rule != Some(ENTRY)));
    let regular = described.map(|(start, ..)| start).filter(|start| compiled.contains(start)).collect();
    code::frames::frames(&code, functions, rows, &Compiled { all: compiled, regular: &regular })
}

/// Finds the targets of those of some jumps that are through tables, each sorted, by the jump's address. `sites` are the
/// jumps' addresses (load bias included); other arguments are those of [`table`]. None on AVR.
pub fn jump_tables(
    elf: Option<&[u8]>,
    isa: Isa,
    segments: &[Segment],
    load_bias: u64,
    functions: &[Range<u64>],
    sites: &BTreeSet<u64>,
) -> BTreeMap<u64, Vec<u64>> {
    if isa.is_avr() || sites.is_empty() {
        return BTreeMap::new();
    }
    let has_jump = |function: &&Range<u64>| sites.range((*function).clone()).next().is_some();
    let mut with_jumps: Vec<Range<u64>> = functions.iter().filter(has_jump).cloned().collect();
    // Without a function, only a table that the instruction itself names is known.
    let outside = sites.iter().filter(|&&pc| holding(functions, pc).is_none());
    with_jumps.extend(outside.map(|&pc| pc..pc.saturating_add(4)));
    with_jumps.sort_by_key(|function| function.start);
    let file = elf.filter(|_| isa.is_thumb()).and_then(|bytes| object::File::parse(bytes).ok());
    let hints = file.map(|file| Hints::read(&file, load_bias)).unwrap_or_default();
    let mut tables = code::tables::read(&Code { isa, segments, load_bias, hints }, &with_jumps);
    tables.retain(|site, _| sites.contains(site));
    tables
}

impl Table {
    /// Adds calls that lose the return address, but for those that overlap others: entries of damaged unwind information may.
    fn forget_at(&mut self, calls: Vec<Range<u64>>) {
        for call in calls {
            if self.forgetting.last().is_none_or(|last| last.end <= call.start) {
                self.forgetting.push(call);
            }
        }
    }

    /// Notes that a function (load bias included) was replaced by code that returns and leaves the stack alone.
    pub fn stub(&mut self, function: &Range<u64>) {
        let before =
            |rows: &[Row], pc: u64| rows[..rows.partition_point(|row| row.pc <= pc)].last().and_then(|row| row.rule);
        let after = before(&self.rows, function.end);
        self.rows.retain(|row| !(function.start..=function.end).contains(&row.pc));
        let at = self.rows.partition_point(|row| row.pc < function.start);
        let own = Row { pc: function.start, rule: Some(ENTRY) };
        self.rows.splice(at..at, [own, Row { pc: function.end, rule: after }]);
        self.rows.dedup_by_key(|row| row.rule);
        self.forgetful.retain(|start| !function.contains(start));
        self.forgetting.retain(|call| !function.contains(&call.start));
    }
}

/// Joins the rules from a function's instructions with its exception table, which fills gaps. If the two contradict
/// each other at a call, the table wins, since it was made for calls.
fn complete(code: &Code<'_>, function: Range<u64>, mut rules: Rules, table: &Rules) -> Rules {
    for &pc in table.keys() {
        rules.insert(pc, rule_at(&rules, pc));
    }
    let mut pc = function.start;
    while pc < function.end
        && let Some(bytes) = code.bytes(pc)
    {
        let is_call = decode(code.isa, pc, bytes).flow.is_call();
        if let (true, Some(said), Some(tabled)) = (is_call, rule_at(&rules, pc), rule_at(table, pc))
            && (said.cfa_offset_bytes, said.return_addr) != (tabled.cfa_offset_bytes, tabled.return_addr)
            && said.base == tabled.base
        {
            return table.clone();
        }
        pc = code.next(pc);
    }
    for (&pc, rule) in &mut rules {
        *rule = rule.or_else(|| rule_at(table, pc));
    }
    rules
}

/// Code of the image, by address with load bias.
struct Code<'a> {
    isa: Isa,
    segments: &'a [Segment],
    load_bias: u64,
    hints: Hints,
}

impl<'a> Code<'a> {
    fn bytes(&self, address: u64) -> Option<&'a [u8]> {
        #[cfg(test)]
        code::testing::look();
        let address = address.wrapping_sub(self.load_bias);
        let segment = self.segments.iter().find(|segment| segment.run_range().contains(&address))?;
        segment.data.get(usize::try_from(address - segment.run_addr).ok()?..)
    }

    /// Whether the firmware may change what is at an address.
    fn is_writable(&self, address: u64) -> bool {
        let address = address.wrapping_sub(self.load_bias);
        self.segments.iter().any(|segment| segment.writable && segment.run_range().contains(&address))
    }

    fn half(&self, address: u64) -> Option<u16> {
        Some(u16::from_le_bytes(*self.bytes(address)?.first_chunk()?))
    }
}

/// Rule that holds at an address.
fn rule_at(rules: &Rules, pc: u64) -> Option<Rule> {
    *rules.range(..=pc).next_back()?.1
}

/// Encoding of `push {lr}`, which gcc -pg puts before its call of the runtime.
const PUSH_LR: u16 = 0xb500;

/// Address of a function's call of the -pg runtime after that push, and the stack's depth before the push.
fn mcount_call(code: &Code<'_>, function: &Range<u64>) -> Option<(u64, i32)> {
    if code.isa.is_riscv() {
        return None;
    }
    let mut pc = function.start;
    // Depth by the instructions so far: the prologue is straight code.
    let mut depth_bytes = 0;
    while pc < function.end {
        let bytes = code.bytes(pc)?;
        let flow = decode(code.isa, pc, bytes).flow;
        let call = pc + 2;
        if code.half(pc) == Some(PUSH_LR)
            && matches!(decode(code.isa, call, code.bytes(call)?).flow, Flow::Call { .. })
        {
            return Some((call, depth_bytes));
        }
        if flow != Flow::Next {
            return None;
        }
        depth_bytes += code::deepens(code, bytes);
        pc = code.next(pc);
    }
    None
}

/// Corrects gcc's unwind information, which leaves out that push. The runtime pops the pushed word. Until then the
/// stack is a word deeper, and that word is the return address.
fn mend_mcount(code: &Code<'_>, function: Range<u64>, rules: &mut Rules) {
    let Some((call, depth_bytes)) = mcount_call(code, &function) else { return };
    let (Some(before), Some(after)) = (rule_at(rules, call - 2), rule_at(rules, call)) else { return };
    if before != after {
        return;
    }
    // A nested function saves its static chain before the push and restores it after the call, which gcc leaves out
    // as well.
    let on_sp = before.base == Base::StackPointer;
    let unsaid_bytes = if on_sp { depth_bytes - before.cfa_offset_bytes } else { 0 };
    let deeper = Rule {
        cfa_offset_bytes: before.cfa_offset_bytes + unsaid_bytes + if on_sp { 4 } else { 0 },
        return_addr: match before.return_addr {
            Saved::Register => Saved::AtCfa(-depth_bytes - 4),
            saved => saved,
        },
        ..before
    };
    let next = code.next(call);
    if let Some(back) = rule_at(rules, next) {
        // The static chain is removed by one instruction, or by several that go through r7.
        let (mut pc, mut left_bytes) = (next, unsaid_bytes);
        while left_bytes > 0
            && pc < function.end
            && let Some(bytes) = code.bytes(pc)
        {
            rules.insert(pc, Some(Rule { cfa_offset_bytes: back.cfa_offset_bytes + left_bytes, ..back }));
            left_bytes += code::deepens(code, bytes);
            pc = code.next(pc);
        }
        rules.entry(pc).or_insert(Some(back));
    }
    rules.insert(call, Some(deeper));
}

/// Marks the saved registers as lost in libgcc's `_Unwind_RaiseException` and similar functions. They save all
/// registers and pass them to the unwinder, which overwrites them with those of each caller that it visits. Then the
/// saved return address is no longer that of the call.
fn mend_handed_over(code: &Code<'_>, function: Range<u64>, rules: &mut Rules) {
    if !code::saves_all_registers(code, &function) {
        return;
    }
    let lost = |saved: &mut Saved| {
        if matches!(saved, Saved::AtCfa(_)) {
            *saved = Saved::Lost;
        }
    };
    for rule in rules.values_mut().flatten() {
        lost(&mut rule.return_addr);
        lost(&mut rule.frame_pointer);
    }
}

/// Ways in which a function loses its own return address.
enum Forgets {
    /// It saves it, or makes no calls.
    Never,
    /// It never returns. Perhaps nobody called it, as the first function of a coroutine: only at its entry can that be told.
    AtEntry,
    /// By these calls, which never return; see [`Table::forgetting`].
    At(Vec<Range<u64>>),
}

/// Whether a function makes calls and never saves its own return address. `never`: entries of functions that never return.
fn forgets<'n>(
    code: &Code<'_>,
    function: Range<u64>,
    rules: &Rules,
    never: impl Fn() -> &'n BTreeSet<u64>,
) -> Forgets {
    let keeps = |rule: &Option<Rule>| rule.is_some_and(|rule| matches!(rule.return_addr, Saved::AtCfa(_)));
    // The word that the runtime pops is not a saved return address, and the call of the runtime does not count as a
    // call of the function.
    let mcount = mcount_call(code, &function).map(|(call, _)| call).filter(|&call| {
        let back = code.next(call);
        !keeps(&rule_at(rules, back))
    });
    let saves = |(&pc, rule): (&u64, &Option<Rule>)| keeps(rule) && Some(pc) != mcount;
    if rules.values().all(Option::is_none) || rules.iter().any(saves) {
        return Forgets::Never;
    }
    let (mut calls, mut is_returning) = (Vec::new(), false);
    let (mut pc, mut upper) = (function.start, None);
    while pc < function.end {
        let Some(bytes) = code.bytes(pc) else { return Forgets::Never };
        let insn = decode(code.isa, pc, bytes);
        let next = pc + u64::from(insn.len_bytes);
        // RISC-V's far calls have two instructions, of which the first may change the register already.
        let (from, flow) = match upper.take() {
            Some((at, upper)) => match insn.flow.after_upper(code.isa, upper) {
                flow if flow != insn.flow => (at, flow),
                flow => {
                    is_returning |= upper.0 == RETURN_ADDR;
                    (pc, flow)
                }
            },
            None => (pc, insn.flow),
        };
        if flow.is_call() && Some(pc) != mcount {
            let is_last = match flow {
                Flow::Call { target } => next >= function.end || never().contains(&target),
                _ => false,
            };
            let is_in_register = rule_at(rules, from).is_some_and(|rule| {
                rule.base == Base::StackPointer
                    && (rule.return_addr, rule.frame_pointer) == (Saved::Register, Saved::Register)
            });
            is_returning |= !is_last || !is_in_register;
            calls.push(from..next);
        }
        upper = decode::auipc(code.isa, pc, bytes).map(|upper| (pc, upper));
        pc = next;
    }
    if calls.is_empty() {
        Forgets::Never
    } else if is_returning || never().contains(&function.start) {
        Forgets::AtEntry
    } else {
        Forgets::At(calls)
    }
}

/// Number of RISC-V's register with the return address.
const RETURN_ADDR: u8 = 1;

/// Bytes of a section, decompressed.
fn section<'data>(file: &object::File<'data>, name: &str) -> Option<(u64, std::borrow::Cow<'data, [u8]>)> {
    let section = file.section_by_name(name)?;
    Some((section.address(), uncompressed(file, &section).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_entries_that_overlap_stay_apart() {
        let mut table = Table::default();
        table.forget_at(vec![0x110..0x118, 0x130..0x134]);
        table.forget_at(vec![0x114..0x118, 0x130..0x134, 0x134..0x138]);
        assert_eq!(table.forgetting, [0x110..0x118, 0x130..0x134, 0x134..0x138]);
    }

    #[test]
    fn a_stub_has_the_entrys_rule_and_nothing_of_what_it_replaced() {
        let pushed = Rule { cfa_offset_bytes: 8, return_addr: Saved::AtCfa(-4), ..ENTRY };
        let row = |pc, rule| Row { pc, rule };
        let rows = vec![
            row(0x100, Some(ENTRY)),
            row(0x102, Some(pushed)),
            row(0x120, Some(ENTRY)),
            row(0x124, Some(pushed)),
            row(0x140, None),
        ];
        let mut table = Table {
            rows: rows.clone(),
            forgetful: vec![0x120],
            forgetting: vec![0x110..0x114, 0x124..0x128],
            warnings: Vec::new(),
        };
        table.stub(&(0x120..0x130));
        let after = [row(0x120, Some(ENTRY)), row(0x130, Some(pushed)), row(0x140, None)];
        assert_eq!(table.rows, [&rows[..2], &after].concat());
        assert_eq!((table.forgetful.len(), table.forgetting.len(), table.forgetting[0].start), (0, 1, 0x110));
        table.stub(&(0x130..0x140));
        let after = [row(0x120, Some(ENTRY)), row(0x140, None)];
        assert_eq!(table.rows, [&rows[..2], &after].concat());
    }
}
