// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets of the code's own jumps and calls, found before the run to save callbacks.
//!
//! First, loops that start at their function's first instruction. `calls` counts entries from outside, so the turns
//! of such a loop must be distinguished from calls. A check at each turn would cost a callback. No check is needed if
//! the conditional branch `B` that closes the loop falls through to an instruction `F` that nothing else leads to:
//! `B` was taken as often as it ran and `F` did not. [`Targets::find`] proves this for a branch, and the plugin
//! checks all others.
//!
//! Second, functions that no instruction names as its target. They are reached through pointers, most of them from
//! one place. The plugin counts the calls from there without a check. This needs no proof: if the prediction is
//! wrong, the plugin checks.

use std::collections::BTreeSet;
use std::ops::Range;

use decode::{Flow, Isa, decode};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::image::Segment;

/// Jumps, branches and calls of the code. Addresses include the load bias and are sorted.
#[derive(Debug)]
pub struct Targets {
    /// Branches to their own function's start whose number of turns can be computed from other counts.
    pub loops: Vec<u64>,
    /// Starts of functions that no instruction names.
    pub pointed: Vec<u64>,
}

impl Targets {
    /// Analyses the code. `functions` are the functions' addresses, sorted, bias included.
    pub fn find(isa: Isa, segments: &[Segment], load_bias: u64, functions: &[Range<u64>]) -> Targets {
        let code = Code { isa, segments, load_bias };
        // Number of jumps and branches to an address, in all functions: the compiler splits cold parts off, which
        // jump back into the middle.
        let mut jumps_to: FxHashMap<u64, u32> = FxHashMap::default();
        let mut called = FxHashSet::default();
        let mut candidates = Vec::new();
        for function in functions {
            let walk = code.walk(function);
            for target in walk.targets {
                *jumps_to.entry(target).or_default() += 1;
            }
            called.extend(walk.called);
            if walk.is_closed {
                candidates.extend(walk.loops);
            }
        }
        let is_start = |address| functions.binary_search_by_key(&address, |function| function.start).is_ok();
        let mut loops: Vec<u64> = candidates
            .into_iter()
            .filter(|&(_, next)| !jumps_to.contains_key(&next) && !is_start(next))
            .map(|(branch, _)| branch)
            .collect();
        loops.sort_unstable();
        let starts = functions.iter().map(|function| function.start);
        let pointed = starts.filter(|start| !jumps_to.contains_key(start) && !called.contains(start)).collect();
        Targets { loops, pointed }
    }
}

/// Conditional branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Branch {
    /// Its address.
    pub site: u64,
    /// Address after it.
    pub next: u64,
    /// Address that it goes to when taken.
    pub target: u64,
}

/// Jump through a register or a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableJump {
    /// Its address.
    pub site: u64,
    /// Its targets, sorted; empty: the code does not tell them.
    pub targets: Vec<u64>,
}

/// Places where control of a function may go more than one way.
#[derive(Debug, Default)]
pub struct Forks {
    /// Conditional branches, by address.
    pub branches: Vec<Branch>,
    /// Addresses after conditional returns (of Thumb IT blocks), sorted.
    pub after_returns: Vec<u64>,
    /// Jumps through registers and tables, by address.
    pub jumps: Vec<TableJump>,
}

/// Finds the forks. `functions` is as in [`Targets::find`].
pub fn forks(isa: Isa, segments: &[Segment], load_bias: u64, functions: &[Range<u64>]) -> Forks {
    let code = Code { isa, segments, load_bias };
    let mut forks = Forks::default();
    for function in functions {
        let mut walk = code.walk(function);
        forks.branches.append(&mut walk.branches);
        forks.after_returns.append(&mut walk.after_returns);
        forks.jumps.append(&mut walk.jumps);
    }
    forks.branches.sort_unstable();
    forks.branches.dedup_by_key(|branch| branch.site);
    forks.after_returns.sort_unstable();
    forks.after_returns.dedup();
    forks.jumps.sort_unstable();
    forks.jumps.dedup_by_key(|jump| jump.site);
    forks
}

/// Finds the addresses to which calls return, sorted; data among the code gives none. `functions` is as in
/// [`Targets::find`].
pub fn returns(isa: Isa, segments: &[Segment], load_bias: u64, functions: &[Range<u64>]) -> Vec<u64> {
    let code = Code { isa, segments, load_bias };
    let returns: BTreeSet<u64> = functions.iter().flat_map(|function| code.walk(function).returns).collect();
    returns.into_iter().collect()
}

/// Most entries of a table: the code begins at most so many halfwords behind its start.
const MAX_ENTRIES: usize = 1 << 16;

struct Code<'a> {
    isa: Isa,
    segments: &'a [Segment],
    load_bias: u64,
}

/// Jumps and calls of one function's code.
#[derive(Default)]
struct Walk {
    /// Targets of its jumps and branches, once per instruction.
    targets: Vec<u64>,
    /// Targets of its calls, and of jumps whose target takes two instructions.
    called: Vec<u64>,
    /// Addresses that its calls return to, also indirect ones.
    returns: Vec<u64>,
    /// Its conditional branches.
    branches: Vec<Branch>,
    /// Addresses after its conditional returns.
    after_returns: Vec<u64>,
    /// Its jumps through registers and tables.
    jumps: Vec<TableJump>,
    /// Branches to its start, each with the address after it.
    loops: Vec<(u64, u64)>,
    /// Whether every jump's target is known from the code.
    is_closed: bool,
}

impl Code<'_> {
    /// Bytes of the code at an address, which the firmware cannot change.
    fn bytes(&self, address: u64) -> Option<&[u8]> {
        let address = address.wrapping_sub(self.load_bias);
        let segment = self.segments.iter().find(|segment| {
            !segment.writable && (segment.run_addr..segment.run_addr + segment.data.len() as u64).contains(&address)
        })?;
        segment.data.get(usize::try_from(address - segment.run_addr).ok()?..)
    }

    /// Follows the code from a function's start; data between instructions is never reached.
    fn walk(&self, function: &Range<u64>) -> Walk {
        let mut walk = Walk { is_closed: true, ..Walk::default() };
        let mut seen = FxHashSet::default();
        let mut open = vec![function.start];
        // Instructions of Thumb IT blocks.
        let mut conditional = FxHashSet::default();
        while let Some(pc) = open.pop() {
            if !function.contains(&pc) || !seen.insert(pc) {
                continue;
            }
            let Some(bytes) = self.bytes(pc) else {
                walk.is_closed = false;
                continue;
            };
            let insn = decode(self.isa, pc, bytes);
            let next = pc + u64::from(insn.len_bytes);
            // RISC-V makes far calls by auipc + jalr.
            if let (Some(upper), Some(bytes)) = (decode::auipc(self.isa, pc, bytes), self.bytes(next))
                && let Flow::Call { target } | Flow::Jump { target } =
                    decode(self.isa, next, bytes).flow.after_upper(self.isa, upper)
            {
                walk.called.push(target);
            }
            match insn.flow {
                Flow::Call { target } => {
                    walk.called.push(target);
                    walk.returns.push(next);
                    open.push(next);
                }
                Flow::IndirectCall { .. } => {
                    walk.returns.push(next);
                    open.push(next);
                }
                Flow::Next => open.push(next),
                Flow::It { count } => {
                    let mut at = next;
                    for _ in 0..count {
                        conditional.insert(at);
                        at += self.bytes(at).map_or(2, |bytes| decode(self.isa, at, bytes).len_bytes.into());
                    }
                    open.push(next);
                }
                // A return may be conditional (Thumb IT), so the code after it is followed, too.
                Flow::Return => {
                    walk.after_returns.extend(conditional.contains(&pc).then_some(next));
                    open.push(next);
                }
                Flow::Jump { target } => {
                    if conditional.contains(&pc) {
                        walk.branches.push(Branch { site: pc, next, target });
                    }
                    walk.targets.push(target);
                    open.extend([target, next]);
                }
                Flow::Branch { target } => {
                    walk.branches.push(Branch { site: pc, next, target });
                    walk.targets.push(target);
                    open.extend([target, next]);
                    let after = self.bytes(next).map(|bytes| decode(self.isa, next, bytes));
                    // An instruction that can fault may run twice for one arrival.
                    let steady = after.is_some_and(|after| !after.may_leave);
                    if target == function.start && function.contains(&next) && steady {
                        walk.loops.push((pc, next));
                    }
                }
                Flow::IndirectJump { .. } | Flow::ComputedJump => {
                    walk.is_closed = false;
                    open.extend(self.jump(pc, next, bytes, conditional.contains(&pc), &mut walk));
                }
            }
        }
        walk
    }

    /// Notes a jump through a register or a table, and returns where the code goes on.
    fn jump(&self, site: u64, next: u64, bytes: &[u8], is_conditional: bool, walk: &mut Walk) -> Vec<u64> {
        if is_conditional {
            walk.after_returns.push(next);
            return vec![next];
        }
        // Armv6-M returns by it when the return address is not in lr.
        if self.isa == Isa::ThumbV6m && decode::is_exchange(self.isa, bytes) {
            return vec![next];
        }
        let table = decode::table_entry_bytes(self.isa, bytes).map(|entry_bytes| {
            let code = self.bytes(next).unwrap_or_default();
            decode::table_targets(self.isa, next, entry_bytes, code, MAX_ENTRIES)
        });
        let targets: BTreeSet<u64> = table.into_iter().flatten().collect();
        let targets: Vec<u64> = targets.into_iter().collect();
        walk.jumps.push(TableJump { site, targets: targets.clone() });
        // The table itself is not code.
        if targets.is_empty() { vec![next] } else { targets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Analyses Thumb code at 0x100.
    fn find_in(code: &[u16], functions: &[(u64, u64)]) -> Targets {
        let functions: Vec<_> = functions.iter().map(|&(start, end)| start..end).collect();
        let data = code.iter().flat_map(|half| half.to_le_bytes()).collect::<Vec<u8>>();
        let mem_bytes = data.len() as u64;
        let segment =
            Segment { load_addr: 0x100, run_addr: 0x100, data, mem_bytes, executable: true, writable: false };
        Targets::find(Isa::ThumbV7m, &[segment], 0, &functions)
    }

    fn loops_in(code: &[u16], functions: &[(u64, u64)]) -> Vec<u64> {
        find_in(code, functions).loops
    }

    const NONE: [u64; 0] = [];
    const SUBS: u16 = 0x3801; // subs r0, #1
    const BNE_BACK_4: u16 = 0xd1fc; // bne .-4
    const BX_LR: u16 = 0x4770;

    #[test]
    fn a_loop_that_falls_through_to_its_own_end_is_found() {
        // 100: nop  102: subs  104: bne 100 (0xd1fc = -8+4)  106: bx lr
        assert_eq!(loops_in(&[0xbf00, SUBS, BNE_BACK_4, BX_LR], &[(0x100, 0x108)]), [0x104]);
    }

    #[test]
    fn a_loop_whose_end_is_reached_otherwise_is_not() {
        // 100: cbz r0, 106 (0xb108)  102: subs  104: bne 100  106: bx lr
        assert_eq!(loops_in(&[0xb108, SUBS, BNE_BACK_4, BX_LR], &[(0x100, 0x108)]), NONE);
        // Another function jumps there: 108: b 106 (0xe7fd)
        let code = [0xbf00, SUBS, BNE_BACK_4, BX_LR, 0xe7fd];
        assert_eq!(loops_in(&code, &[(0x100, 0x108), (0x108, 0x10a)]), NONE);
        // The end is another function.
        assert_eq!(loops_in(&code[..4], &[(0x100, 0x106), (0x106, 0x108)]), NONE);
    }

    #[test]
    fn a_loop_whose_end_can_fault_or_that_has_a_switch_is_not() {
        // 106: pop {pc}
        assert_eq!(loops_in(&[0xbf00, SUBS, BNE_BACK_4, 0xbd00], &[(0x100, 0x108)]), NONE);
        // 106: bx r3 (0x4718)
        assert_eq!(loops_in(&[0xbf00, SUBS, BNE_BACK_4, 0x4718], &[(0x100, 0x108)]), NONE);
    }

    #[test]
    fn what_an_instruction_names_is_not_reached_by_pointers_only() {
        // 100: bl 108 (0xf000 0xf802)  104: bx lr  106: nop  108: bx lr  10a: nop  10c: bx lr
        let code = [0xf000, 0xf802, BX_LR, 0xbf00, BX_LR, 0xbf00, BX_LR];
        let functions = [(0x100, 0x108), (0x108, 0x10c), (0x10c, 0x10e)];
        assert_eq!(find_in(&code, &functions).pointed, [0x100, 0x10c]);
        // 104: b 10c (0xe002)
        let code = [0xf000, 0xf802, 0xe002, 0xbf00, BX_LR, 0xbf00, BX_LR];
        assert_eq!(find_in(&code, &functions).pointed, [0x100]);
        // auipc t0, 0; jalr ra, 12(t0); ret; ret
        let code = [0x0000_0297u32, 0x00c2_80e7, 0x0000_8067, 0x0000_8067, 0x0000_8067];
        let data = code.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let segment = Segment { load_addr: 0, run_addr: 0, mem_bytes: 20, data, executable: true, writable: false };
        let functions = [0..12, 12..16, 16..20];
        assert_eq!(
            Targets::find(Isa::Riscv32, &[segment], 0x100, &functions.map(|f| f.start + 0x100..f.end + 0x100))
                .pointed,
            [0x100, 0x110]
        );
    }
}
