// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets of jumps through tables, read from the image: of `switch`, and of gotos to computed labels.
//!
//! The state at a jump tells which table it reads, also where the table's address was made once for many jumps. The table has no
//! length: it ends at the first entry that leads out of the function, and where another table begins.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use decode::{Flow, Isa, decode};

use super::super::Code;
use super::state::{State, Value, Width};
use super::{Edge, Walk, bits, halves};

/// Most entries of all tables of an image: far more than a firmware has, and few enough for an image made to harm.
const MAX_ENTRIES: usize = 1 << 18;

/// Most walks in which the tables' starts are found.
const MAX_ROUNDS: usize = 4;

/// Table of a jump: its address, and the targets of its entries, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    start: u64,
    targets: Vec<u64>,
}

/// Tables that a walk has found, by the jump.
#[derive(Default)]
pub(super) struct Tables {
    found: BTreeMap<u64, Table>,
    /// Starts of all tables that were met, also by jumps that turned out to have several.
    met: BTreeSet<u64>,
    /// Starts of tables, at which others end.
    ends: BTreeSet<u64>,
    left: Cell<usize>,
    /// Addresses of the instructions of functions that have a table of distances, by the function's start.
    insns: RefCell<BTreeMap<u64, BTreeSet<u64>>>,
}

/// Finds the targets of the jumps through tables in some functions, each sorted, by the jump's address.
pub(in super::super) fn read(code: &Code<'_>, functions: &[Range<u64>]) -> BTreeMap<u64, Vec<u64>> {
    let unknown: Vec<&Range<u64>> = functions.iter().collect();
    let never = BTreeSet::new();
    let mut tables = Tables::default();
    // What is read beyond a table's end would lead into other code, where nothing is known any more.
    for round in 0..MAX_ROUNDS {
        let ends = std::mem::take(&mut tables.met);
        if round > 0 && ends == tables.ends {
            break;
        }
        let empty = Tables { ends, left: Cell::new(MAX_ENTRIES), ..Tables::default() };
        let mut walk = Walk { tables: Some(empty), ..Walk::empty(code, &unknown, &never) };
        for function in functions {
            walk.open.push((function.start, Some(State::entry(code.isa)), Edge::Flow));
            walk.follow();
        }
        tables = walk.tables.unwrap_or_default();
    }
    let targets = |table: Table| table.targets.into_iter().collect::<BTreeSet<u64>>().into_iter().collect();
    tables.found.into_iter().map(|(site, table)| (site, targets(table))).collect()
}

impl Tables {
    /// Notes the table of a jump, or that it has none now that more ways to it are known.
    pub(super) fn note(&mut self, site: u64, table: Option<Table>) {
        match table {
            Some(table) => {
                self.met.insert(table.start);
                self.found.insert(site, table);
            }
            None => drop(self.found.remove(&site)),
        }
    }

    /// Table that a jump in a function reads, given the states before and after the jump; None: it is not known.
    pub(super) fn of(
        &self,
        code: &Code<'_>,
        function: &Range<u64>,
        pc: u64,
        bytes: &[u8],
        [before, after]: [&State; 2],
    ) -> Option<Table> {
        let table = match decode::table_entry_bytes(code.isa, bytes) {
            Some(_) => {
                let (targets, table) = code.cases(pc, bytes);
                Table { start: table.start, targets }
            }
            None => self.entries(code, function, jumped_to(code.isa, pc, bytes, [before, after])?)?,
        };
        self.left.set(self.left.get().saturating_sub(table.targets.len()));
        Some(table)
    }

    /// Entries of a table of addresses, or of distances from the table.
    fn entries(&self, code: &Code<'_>, function: &Range<u64>, value: Value) -> Option<Table> {
        let (table, width, is_distance) = match value {
            Value::Read(table, width) => (table, width, false),
            Value::ReadFrom(table) => (table, Width::Four, true),
            _ => return None,
        };
        let start = u64::from(table as u32);
        // What the firmware changes leads to where the image does not say.
        if code.is_writable(start) {
            return None;
        }
        let entry_bytes = if width == Width::Four { 4 } else { 8 };
        let end = self.ends.range(start + 1..).next().map_or(u64::MAX, |&end| end);
        let most = usize::try_from((end - start).div_ceil(entry_bytes)).unwrap_or(usize::MAX);
        // Any small number may be a distance into the function, so it must lead to an instruction. Of addresses the ends suffice.
        let mut insns = self.insns.borrow_mut();
        let insns = is_distance.then(|| insns.entry(function.start).or_insert_with(|| insns_of(code, function)));
        let targets: Vec<u64> = (0..self.left.get().min(most))
            .map_while(|index| {
                let at = start.checked_add(index as u64 * entry_bytes)?;
                let bytes = code.bytes(at)?;
                let target = match width {
                    Width::Eight => u64::from_le_bytes(*bytes.first_chunk()?),
                    Width::Four if is_distance => {
                        code.isa.wrap(start.wrapping_add_signed(i32::from_le_bytes(*bytes.first_chunk()?).into()))
                    }
                    Width::Four => u64::from(u32::from_le_bytes(*bytes.first_chunk()?)),
                };
                // Bit 0 may mark Thumb code. No case is the function's start, to which a table of functions may point.
                let target = if code.isa.is_thumb() { target & !1 } else { target };
                let is_insn = insns.as_ref().map_or(target & 1 == 0, |insns| insns.contains(&target));
                (function.contains(&target) && target != function.start && is_insn).then_some(target)
            })
            .collect();
        (!targets.is_empty()).then_some(Table { start, targets })
    }
}

impl Table {
    pub(super) fn targets(&self) -> &[u64] {
        &self.targets
    }
}

/// Addresses of a function's instructions, among which there are no data.
fn insns_of(code: &Code<'_>, function: &Range<u64>) -> BTreeSet<u64> {
    let next = |&pc: &u64| Some(code.next(pc)).filter(|next| next < &function.end);
    std::iter::successors(Some(function.start), next).collect()
}

/// Value that a jump makes the program counter.
fn jumped_to(isa: Isa, pc: u64, bytes: &[u8], [before, after]: [&State; 2]) -> Option<Value> {
    match decode(isa, pc, bytes).flow {
        Flow::IndirectJump { reg, offset: 0 } => Some(before.get(reg.into())),
        Flow::ComputedJump if isa.is_thumb() => {
            let (low, high) = halves(bytes);
            match low {
                // mov pc, register
                _ if low & 0xff87 == 0x4687 => Some(before.get(bits(low, 6, 3) as usize)),
                // ldr pc: the state takes what it loads for a return address.
                _ if low & 0xff70 == 0xf850 && high >> 12 == 15 => Some(after.get(after.roles.link)),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Hints;
    use super::*;
    use crate::image::Segment;

    /// Tables of one function, which is the first bytes of an image at 0.
    fn tables(isa: Isa, function_bytes: u64, halves: &[u16]) -> Vec<(u64, Vec<u64>)> {
        tables_in(isa, function_bytes, halves, false)
    }

    /// Tables as [`tables`], in memory that the firmware may change or not.
    fn tables_in(isa: Isa, function_bytes: u64, halves: &[u16], writable: bool) -> Vec<(u64, Vec<u64>)> {
        let data: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        let mem_bytes = data.len() as u64;
        let segment = Segment { load_addr: 0, run_addr: 0, data, mem_bytes, executable: true, writable };
        let segments = [segment];
        let code = Code { isa, segments: &segments, load_bias: 0, hints: Hints::default() };
        let function = 0..function_bytes;
        read(&code, std::slice::from_ref(&function)).into_iter().collect()
    }

    #[test]
    fn a_table_of_addresses_is_read_wherever_its_address_was_made() {
        // ldr r6, =t; lsls r3, r3, #2; ldr r3, [r6, r3]; mov pc, r3
        // 08: bl 0; lsls r1, r1, #2; ldr r1, [r6, r1]; mov pc, r1; 12: bx lr; the literal; t: 8, 0x13, 0x12, 0x100
        let code = [
            0x4e05, 0x009b, 0x58f3, 0x469f, 0xf7ff, 0xfffa, 0x0089, 0x5871, 0x468f, 0x4770, 0x46c0, 0x46c0, 0x1c, 0,
            0x8, 0, 0x13, 0, 0x12, 0, 0x100, 0,
        ];
        assert_eq!(tables(Isa::ThumbV6m, 0x1c, &code), [(6, vec![8, 0x12]), (0x10, vec![8, 0x12])]);
        assert_eq!(tables_in(Isa::ThumbV6m, 0x1c, &code, true), [], "the firmware may change it");
        // adr r2, t; ldr.w pc, [r2, r3, lsl #2]; t: 0x15, 0x1f, 0x15
        // 14: ldr.w r3, [r2, r1, lsl #2]; orr r3, r3, #1; bx r3; 1e: bx lr
        let code = [
            0xa201, 0xf852, 0xf023, 0xbf00, 0x15, 0, 0x1f, 0, 0x15, 0, 0xf852, 0x3021, 0xf043, 0x0301, 0x4718, 0x4770,
        ];
        assert_eq!(tables(Isa::ThumbV7m, 0x20, &code), [(2, vec![0x14, 0x1e]), (0x1c, vec![0x14, 0x1e])]);
        // lla s2, t; slli a5, a5, 3; add a5, a5, s2; ld a5, 8(a5); jr a5; 10: ret; nops; t: 7, 0x10, 0
        let mut code = [0; 26];
        code[..12]
            .copy_from_slice(&[0x0917, 0, 0x0913, 0x0189, 0x078e, 0x97ca, 0x679c, 0x8782, 0x8082, 0x0001, 0x0013, 0]);
        (code[12], code[16], code[20]) = (7, 0x10, 0x7000);
        assert_eq!(tables(Isa::Riscv64, 0x18, &code), [(0xe, vec![0x10])]);
    }

    #[test]
    fn a_table_of_distances_ends_where_the_next_one_begins() {
        // lla s1, t; slli a5, a5, 2; add a5, a5, s1; lw a5, 0(a5); add a5, a5, s1; jr a5
        // 12: lla a4, u; sh2add a3, a3, a4; lw a3, 0(a3); add a3, a3, a4; jr a3; 24: ret
        // t: 12, 24, 12; 34 u: 24, 12, 1034
        let code = [
            0x0497, 0x0000, 0x8493, 0x0284, 0x078a, 0x97a6, 0x439c, 0x97a6, 0x8782, 0x0717, 0x0000, 0x0713, 0x0227,
            0xc6b3, 0x20e6, 0x4294, 0x96ba, 0x8682, 0x8082, 0x0001, 0xffea, 0xffff, 0xfffc, 0xffff, 0xffea, 0xffff,
            0xfff0, 0xffff, 0xffde, 0xffff, 0x1000, 0x0000,
        ];
        assert_eq!(tables(Isa::Riscv32, 0x28, &code), [(0x10, vec![0x12, 0x24]), (0x22, vec![0x12, 0x24])]);
        // The second's first entry leads to 1a; from the first table on, the same distance would lead to 0e.
        let mut code = code;
        code[26] = 0xffe6;
        assert_eq!(tables(Isa::Riscv32, 0x28, &code), [(0x10, vec![0x12, 0x24]), (0x22, vec![0x12, 0x1a])]);
    }

    #[test]
    fn one_of_two_tables_is_none() {
        // beqz a0, 0xc; lla s1, t; j 0x14; 0c: lla s1, u; 14: slli a5, a5, 2; add a5, a5, s1; lw a5, 0(a5); jr a5; 1c: ret
        // t: 0x1c, 0x14; u: 0x1c, 0
        let code = [
            0xc511, 0x0497, 0x0000, 0x8493, 0x01e4, 0xa029, 0x0497, 0x0000, 0x8493, 0x01c4, 0x078a, 0x97a6, 0x439c,
            0x8782, 0x8082, 0x0001, 0x001c, 0, 0x0014, 0, 0x001c, 0, 0, 0,
        ];
        assert_eq!(tables(Isa::Riscv32, 0x20, &code), []);
        // The same without the branch (c.nop). The 0 behind them is the start of the function, no case of it.
        let mut code = code;
        code[0] = 0x0001;
        assert_eq!(tables(Isa::Riscv32, 0x20, &code), [(0x1a, vec![0x14, 0x1c])]);
    }
}
