// SPDX-License-Identifier: MIT OR Apache-2.0
//! All branches in the code that has source lines, executed or not, and the conditional instructions that are none.

use std::collections::BTreeMap;

use decode::Flow;

use super::{BranchKind, Out, out_of};
use crate::profile::Profile;

/// Kinds of the branches in an image's code, by address. Jumps through tables are not included: only executed ones
/// have known targets.
pub fn sites(profile: &Profile) -> BTreeMap<u64, BranchKind> {
    let mut sites = BTreeMap::new();
    walk(profile, |site| {
        let kind = match site.out {
            Out::Branch(_) => Some(BranchKind::Conditional),
            Out::BranchAway => Some(BranchKind::ConditionalReturn),
            _ => None,
        };
        sites.extend(kind.map(|kind| (site.pc, kind)));
    });
    sites
}

/// Number of conditional instructions that are no jumps (of Thumb IT blocks), by file and line as in the profile's names.
/// They start whether their condition holds or not, so no count tells how often it held.
pub fn conditional_insns(profile: &Profile) -> BTreeMap<(u32, u32), u64> {
    let mut lines: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    walk(profile, |site| {
        if site.is_conditional && !site.out.is_conditional() {
            *lines.entry(site.line).or_default() += 1;
        }
    });
    lines
}

/// Instruction in code that has source lines.
pub(super) struct Site {
    /// Its address.
    pub(super) pc: u64,
    /// Address behind it.
    pub(super) next: u64,
    /// Its successors.
    pub(super) out: Out,
    /// Whether it is in a Thumb IT block.
    pub(super) is_conditional: bool,
    /// File and line, as in the profile's names.
    pub(super) line: (u32, u32),
}

/// Calls `visit` for each instruction of the code that has source lines, by address.
pub(super) fn walk(profile: &Profile, mut visit: impl FnMut(Site)) {
    let Some(isa) = profile.facts.isa() else { return };
    let (mut end, mut conditional) = (0, 0_u8);
    for line in &profile.names.lines {
        if end != line.start {
            conditional = 0;
        }
        // Each piece of a line begins with an instruction. Pieces do not overlap, unless somebody made them do so.
        let (mut at, last) = (line.start.max(end), line.start.saturating_add(line.size_bytes));
        while at < last {
            let Some(bytes) = profile.code_at(at) else { break };
            let insn = decode::decode(isa, at, bytes);
            if bytes.len() < insn.len_bytes.into() {
                break;
            }
            let next = at.saturating_add(insn.len_bytes.into());
            let out = out_of(isa, bytes, insn.flow, conditional > 0);
            visit(Site { pc: at, next, out, is_conditional: conditional > 0, line: (line.file, line.line) });
            conditional = match insn.flow {
                // A skip of AVR's may itself be skipped.
                Flow::It { count } if conditional <= 1 => count,
                _ => conditional.saturating_sub(1),
            };
            at = next;
        }
        end = end.max(at);
    }
}
