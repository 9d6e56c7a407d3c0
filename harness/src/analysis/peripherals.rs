// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses of a chip's registers: by whom, when, and the instructions spent in polling.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use wire::chip::OTHERS;

use crate::profile::{Access, Chip, Profile};
use crate::text::number::{Hex, group, plural, share};

/// Message for a run without a chip, whose accesses are not counted.
pub const NO_CHIP: &str =
    "the run had no chip file: run the firmware with --chip, and the accesses of the chip's registers are counted";

/// Counts of accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Instructions of the window up to the first access.
    pub first_insns: u64,
    /// Instructions of the window up to the last access.
    pub last_insns: u64,
    /// Reads that were polls.
    pub polls: u64,
    /// Instructions spent in these polls.
    pub poll_insns: u64,
    /// Fields or bits whose change ended a poll.
    pub ended_by: BTreeSet<String>,
}

/// A register that was accessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Name, or the address of a register without a name.
    pub name: String,
    /// Address.
    pub address: u64,
    /// Counts of all functions.
    pub all: Counts,
    /// Functions that accessed it, with their counts: polls first, then the most accesses. None of them is known of the
    /// accesses that the plugin counts together.
    pub by: Vec<(String, Counts)>,
}

impl Counts {
    fn add(&mut self, access: &Access) {
        self.first_insns = match self.reads + self.writes {
            0 => access.first_insns,
            _ => self.first_insns.min(access.first_insns),
        };
        self.last_insns = self.last_insns.max(access.last_insns);
        self.reads += access.reads;
        self.writes += access.writes;
        self.polls += access.polls;
        self.poll_insns += access.poll_insns;
        self.ended_by.extend(access.ended_by.iter().cloned());
    }

    /// Order of rows: polls first, then the most accesses.
    fn order(&self) -> Reverse<(u64, u64)> {
        Reverse((self.poll_insns, self.reads + self.writes))
    }
}

impl Register {
    /// Rows of tables, each with the register's name, a function's name, and counts. One function: one row. Several: a
    /// row of all counts without a function, then one of each function without the register's name.
    pub fn rows(&self) -> Vec<(&str, &str, &Counts)> {
        if let [(function, counts)] = &self.by[..] {
            return vec![(self.name.as_str(), function.as_str(), counts)];
        }
        let by = self.by.iter().map(|(function, counts)| ("", function.as_str(), counts));
        [(self.name.as_str(), "", &self.all)].into_iter().chain(by).collect()
    }
}

/// Registers of the chip that a run accessed, polls first, then the most accesses.
pub fn table(profile: &Profile, chip: &Chip) -> Vec<Register> {
    let mut registers: BTreeMap<u64, (String, BTreeMap<String, Counts>)> = BTreeMap::new();
    for access in &chip.accesses {
        let function = profile.names.function_at(access.pc);
        let function = function.map_or_else(|| Hex(access.pc).to_string(), |function| function.name.clone());
        let name = if access.name.is_empty() { Hex(access.address).to_string() } else { access.name.clone() };
        let (_, by) = registers.entry(access.address).or_insert_with(|| (name, BTreeMap::new()));
        // The instruction of this row is only that of the first access that found no row of its own.
        if access.address != OTHERS {
            by.entry(function).or_default().add(access);
        }
    }
    let mut all: BTreeMap<u64, Counts> = BTreeMap::new();
    chip.accesses.iter().for_each(|access| all.entry(access.address).or_default().add(access));
    let register = |(address, (name, by)): (u64, (String, BTreeMap<String, Counts>))| {
        let mut by: Vec<(String, Counts)> = by.into_iter().collect();
        // Stable: equal ones stay in order of name.
        by.sort_by_key(|(_, counts)| counts.order());
        Register { name, address, all: all.remove(&address).unwrap_or_default(), by }
    };
    let mut registers: Vec<Register> = registers.into_iter().map(register).collect();
    registers.sort_by_key(|register| register.all.order());
    registers
}

/// Share of the run that a chip's registers were polled, with a sentence for each register and function: the longest
/// polls first.
pub fn polls(registers: &[Register], total_insns: u64) -> Vec<String> {
    let each = registers.iter().flat_map(|register| register.by.iter().map(move |(name, by)| (register, name, by)));
    let mut polls: Vec<(&Register, &String, &Counts)> = each.filter(|(_, _, counts)| counts.polls > 0).collect();
    polls.sort_by_key(|(_, _, counts)| Reverse(counts.poll_insns));
    let sentence = |(register, function, counts): (&Register, &String, &Counts)| {
        format!(
            "{} of the run polls {} in {function}: {} in {}",
            share(counts.poll_insns, total_insns),
            polled(&register.name, &counts.ended_by),
            plural(counts.poll_insns, "instruction"),
            plural(counts.polls, "read"),
        )
    };
    polls.into_iter().map(sentence).collect()
}

/// Sums in a sentence: registers, accesses, polls. Accesses that are counted together are no register.
pub fn summary(registers: &[Register], total_insns: u64) -> String {
    let sum = |of: fn(&Counts) -> u64| registers.iter().map(|register| of(&register.all)).sum::<u64>();
    let count = registers.iter().filter(|register| register.address != OTHERS).count();
    format!(
        "{}: {} read, {} written; {} of {} in polls",
        plural(count as u64, "register"),
        group(sum(|counts| counts.reads)),
        group(sum(|counts| counts.writes)),
        share(sum(|counts| counts.poll_insns), total_insns),
        plural(total_insns, "instruction"),
    )
}

/// Name of the register or field whose change ended the polls.
fn polled(register: &str, ended_by: &BTreeSet<String>) -> String {
    let names: Vec<&str> = ended_by.iter().map(String::as_str).collect();
    match &names[..] {
        [] => register.to_owned(),
        [bit] if bit.starts_with('[') => format!("{register}{bit}"),
        [field] => format!("{register}.{field}"),
        several => format!("{register} ({})", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;

    #[test]
    fn accesses_that_are_counted_together_have_no_function() {
        let access =
            |address, reads| Access { address, pc: 0x40, reads, polls: 1, poll_insns: 4, ..Access::default() };
        let mut profile = empty().function("main", 0x40, 8);
        profile.facts.chip = Some(Chip {
            name: "mine".to_owned(),
            given: "mine".to_owned(),
            svd: None,
            sha256: String::new(),
            differs: vec![],
            unmodelled: vec![],
            bitten: None,
            rules: vec![],
            absent: None,
            accesses: vec![access(0x4000_0000, 2), access(OTHERS, 9)],
            ports: vec![],
            missed: 0,
        });
        let registers = table(&profile, profile.facts.chip.as_ref().unwrap());
        let found: Vec<(u64, usize)> =
            registers.iter().map(|register| (register.all.reads, register.by.len())).collect();
        assert_eq!(found, [(9, 0), (2, 1)]);
        assert_eq!(polls(&registers, 100).len(), 1);
        assert!(summary(&registers, 100).starts_with("1 register: 11 read"), "{}", summary(&registers, 100));
    }

    #[test]
    fn a_poll_is_named_by_what_ended_it() {
        let named = |of: &[&str]| polled("USART2.SR", &of.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(named(&[]), "USART2.SR");
        assert_eq!(named(&["TXE"]), "USART2.SR.TXE");
        assert_eq!(named(&["[9]"]), "USART2.SR[9]");
        assert_eq!(named(&["TXE", "TC"]), "USART2.SR (TC, TXE)");
    }
}
