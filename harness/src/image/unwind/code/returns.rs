//! Which functions come back: what is behind a call of one that does not is not reached by it.

use std::collections::BTreeSet;
use std::ops::Range;

use decode::{Flow, decode};

use super::super::Code;
use super::is_trap;

/// Entries of the functions that never return: no way through them ends in a return, or in what may be one.
pub(super) fn never(code: &Code<'_>, functions: &[Range<u64>]) -> BTreeSet<u64> {
    let mut returns = vec![false; functions.len()];
    // By function: those that return if it does.
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); functions.len()];
    let mut open: Vec<usize> = (0..functions.len()).collect();
    while let Some(index) = open.pop() {
        if returns[index] {
            continue;
        }
        let mut needs = BTreeSet::new();
        if may_return(code, functions, index, &returns, &mut needs) {
            returns[index] = true;
            open.append(&mut waiting[index]);
        }
        for other in needs {
            waiting[other].push(index);
        }
    }
    let never = functions.iter().zip(returns).filter(|(_, returns)| !returns);
    never.map(|(function, _)| function.start).collect()
}

/// Whether a function may return, as far as those that it calls are known to; else `needs` are those that matter.
fn may_return(
    code: &Code<'_>,
    functions: &[Range<u64>],
    index: usize,
    returns: &[bool],
    needs: &mut BTreeSet<usize>,
) -> bool {
    let function = &functions[index];
    let holding = |address: u64| {
        let after = functions.partition_point(|function| function.start <= address);
        after.checked_sub(1).filter(|&index| functions[index].contains(&address))
    };
    let mut seen = BTreeSet::new();
    // Instructions, and how many from there on are conditional.
    let mut open = vec![(function.start, 0_u8)];
    while let Some((pc, conditional)) = open.pop() {
        if !function.contains(&pc) {
            match holding(pc) {
                Some(other) if returns[other] => return true,
                Some(other) => drop(needs.insert(other)),
                None => return true,
            }
            continue;
        }
        if code.hints.is_data(pc) || !seen.insert(pc) {
            continue;
        }
        let Some(bytes) = code.bytes(pc) else { return true };
        let insn = decode(code.isa, pc, bytes);
        let next = pc + u64::from(insn.len_bytes);
        let left = if let Flow::It { count } = insn.flow { count } else { conditional.saturating_sub(1) };
        let falls = match insn.flow {
            Flow::Next if is_trap(code, pc, bytes) => false,
            Flow::Next | Flow::It { .. } | Flow::IndirectCall { .. } => true,
            Flow::Branch { target } => {
                open.push((target, 0));
                true
            }
            Flow::Jump { target } => {
                open.push((target, 0));
                false
            }
            Flow::Call { target } if function.contains(&target) && target != function.start => {
                open.push((target, 0));
                true
            }
            // libgcc's switches go on by the table behind their call.
            Flow::Call { target } if let Some(&entry) = code.hints.switches.get(&target) => {
                open.extend(code.table(next, entry).0.into_iter().map(|case| (case, 0)));
                false
            }
            Flow::Call { target } => match functions.binary_search_by_key(&target, |function| function.start) {
                Ok(other) if !returns[other] => {
                    needs.insert(other);
                    false
                }
                _ => true,
            },
            Flow::Return | Flow::IndirectJump { .. } | Flow::ComputedJump => return true,
        };
        // What a function calls at its very end does not come back.
        let is_call = insn.flow.is_call();
        if (falls || conditional > 0) && !(is_call && next >= function.end) {
            open.push((next, left));
        }
    }
    false
}
