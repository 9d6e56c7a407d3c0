// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coverage of source files by one or more runs: lines, functions, and the branches of the object code.
//!
//! A line's count is its number of executions, not of instructions. It is the count of the line's most executed
//! instruction: a loop's condition runs once more than its body, and gcov gives the condition's number, too. The counts
//! of all copies of a line are added up. There is one copy in each function, and one in each place into which the
//! compiler inlined the line; copies differ by the lines of the calls. So a line has a count above 0 exactly if one of
//! its instructions ran. The count differs from gcov's if the compiler unrolled a loop (only one of the copies counts),
//! inlined two calls of one line (only the call that ran more often counts), or merged, moved or removed code.
//!
//! A function's count is its calls, as in [`functions::table`]. Functions that compilers split or copied under other
//! names (`crc32.constprop.0`) are added to the function in the source. `.part` and `.cold` pieces are entered from
//! their function, so they count only if the function has no other code left. A function that exists only inlined into
//! others is not listed, but its lines are.
//!
//! A branch is an instruction of the object code, at the line that it belongs to ([`flow`]). Runs of one image are
//! added instruction by instruction. Different images are added by file and line, and their branches where both have
//! the same ones at the line.

use std::collections::BTreeMap;

use crate::analysis::flow::{self, BranchKind, Branches, Count, Mcdc};
use crate::analysis::functions::{self, RowKind};
use crate::analysis::owner::Owner;
use crate::profile::{Function, Profile};
use crate::text::path::normal;
use crate::text::symbol_name::{is_piece, stable_name};

/// Coverage of source files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Files by path.
    pub files: BTreeMap<String, File>,
}

/// Coverage of one source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Executions by line.
    pub lines: BTreeMap<u32, u64>,
    /// Calls by line of the definition and name in the symbol table.
    pub functions: BTreeMap<(u32, String), u64>,
    /// Branches by line, in the order of their addresses.
    pub branches: BTreeMap<u32, Vec<Branch>>,
    /// Lines with conditional branches: whether coverage of all of these implies MC/DC.
    pub decisions: BTreeMap<u32, Mcdc>,
    /// Conditional instructions that are no branches, by line: no count tells how often their condition held.
    pub uncounted: BTreeMap<u32, u64>,
}

/// MC/DC of the decision in a line, as far as coverage of its object branches tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Shown: coverage implies it, and all ways of the branches were taken.
    Shown,
    /// Coverage implies it, but ways are missing.
    Missing,
    /// Coverage does not imply it, or that is not proved.
    NotProvable(Mcdc),
}

/// A branch of the object code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Kind of instruction.
    pub kind: BranchKind,
    /// Executions of the instruction.
    pub executions: u64,
    /// Its ways: taken and not taken, or the targets of a table jump that were reached.
    pub ways: Vec<Count>,
}

/// Number of things that there are, and of those that ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of those that ran for certain.
    pub hit: u64,
    /// All of them.
    pub found: u64,
    /// Number of those that may have run or not.
    pub open: u64,
}

impl Tally {
    fn of(counts: impl Iterator<Item = Count>) -> Tally {
        counts.fold(Tally::default(), |tally, count| Tally {
            hit: tally.hit + u64::from(count.least() > 0),
            found: tally.found + 1,
            open: tally.open + u64::from(count.least() == 0 && count.most() != Some(0)),
        })
    }

    /// Sum of two.
    #[must_use]
    pub fn plus(self, other: Tally) -> Tally {
        Tally { hit: self.hit + other.hit, found: self.found + other.found, open: self.open + other.open }
    }
}

impl File {
    /// Lines with code.
    pub fn line_tally(&self) -> Tally {
        Tally::of(self.lines.values().map(|&count| Count::Exact(count)))
    }

    /// Functions.
    pub fn function_tally(&self) -> Tally {
        Tally::of(self.functions.values().map(|&count| Count::Exact(count)))
    }

    /// Ways of branches.
    pub fn branch_tally(&self) -> Tally {
        Tally::of(self.branches.values().flatten().flat_map(|branch| branch.ways.iter().copied()))
    }

    /// Ways of the branches of one line.
    pub fn branch_tally_at(&self, line: u32) -> Tally {
        let branches = self.branches.get(&line).into_iter().flatten();
        Tally::of(branches.flat_map(|branch| branch.ways.iter().copied()))
    }

    /// MC/DC of the decision in a line; None: there is none.
    pub fn decision_at(&self, line: u32) -> Option<Decision> {
        let tally = self.branch_tally_at(line);
        Some(match *self.decisions.get(&line)? {
            Mcdc::Implied if tally.found > 0 && tally.hit == tally.found => Decision::Shown,
            Mcdc::Implied => Decision::Missing,
            weaker => Decision::NotProvable(weaker),
        })
    }

    /// Adds another image's counts.
    fn add(&mut self, other: File) {
        for (line, count) in other.lines {
            let sum = self.lines.entry(line).or_default();
            *sum = sum.saturating_add(count);
        }
        for (function, count) in other.functions {
            let sum = self.functions.entry(function).or_default();
            *sum = sum.saturating_add(count);
        }
        for (line, others) in other.branches {
            let own = self.branches.entry(line).or_default();
            let are_alike = own.len() == others.len()
                && own.iter().zip(&others).all(|(one, other)| {
                    (one.kind, one.ways.len()) == (other.kind, other.ways.len()) && one.kind != BranchKind::Table
                });
            if are_alike {
                own.iter_mut().zip(&others).for_each(|(one, other)| one.add(other));
            } else {
                own.extend(others);
            }
        }
        other.decisions.into_iter().for_each(|(line, mcdc)| self.decide(line, mcdc));
        for (line, insns) in other.uncounted {
            let most = self.uncounted.entry(line).or_default();
            *most = insns.max(*most);
        }
    }

    /// Adds whether coverage of a line's branches implies MC/DC; of several images, all must.
    fn decide(&mut self, line: u32, mcdc: Mcdc) {
        let weakest = self.decisions.entry(line).or_insert(mcdc);
        *weakest = mcdc.max(*weakest);
    }

    /// Keeps only some lines, and the functions that begin there.
    pub fn retain(&mut self, is_kept: impl Fn(u32) -> bool) {
        self.lines.retain(|&line, _| is_kept(line));
        self.functions.retain(|&(line, _), _| is_kept(line));
        self.branches.retain(|&line, _| is_kept(line));
        self.decisions.retain(|&line, _| is_kept(line));
        self.uncounted.retain(|&line, _| is_kept(line));
    }
}

impl Branch {
    fn add(&mut self, other: &Branch) {
        self.executions = self.executions.saturating_add(other.executions);
        for (one, other) in self.ways.iter_mut().zip(&other.ways) {
            *one = one.plus(*other);
        }
    }
}

impl Coverage {
    /// Coverage by all of these runs together.
    pub fn of(profiles: &[&Profile]) -> Coverage {
        let mut images: BTreeMap<_, Vec<&Profile>> = BTreeMap::new();
        for &profile in profiles {
            let facts = &profile.facts;
            let image = (&facts.image_sha256, &facts.symbols_sha256, facts.load_bias);
            images.entry(image).or_default().push(profile);
        }
        let mut coverage = Coverage::default();
        for runs in images.values() {
            for (path, file) in (Image { runs }).files() {
                coverage.files.entry(path).or_default().add(file);
            }
        }
        coverage
    }

    /// Sum over all files.
    pub fn tally(&self, of: fn(&File) -> Tally) -> Tally {
        self.files.values().map(of).fold(Tally::default(), Tally::plus)
    }

    /// Number of conditional instructions whose condition is not counted.
    pub fn uncounted(&self) -> u64 {
        self.files.values().flat_map(|file| file.uncounted.values()).sum()
    }

    /// Sum over the files with this path, or whose path ends with it; None: there is no such file.
    pub fn tally_in(&self, path: &str, of: fn(&File) -> Tally) -> Option<Tally> {
        // From which directory `../src/x.c` is meant is not known.
        let path = normal(path);
        let path = path.trim_start_matches("../");
        let is_it = |known: &str| {
            let known = normal(known);
            known == path || known.strip_suffix(path).is_some_and(|before| before.ends_with('/'))
        };
        let files = self.files.iter().filter(|(known, _)| is_it(known)).map(|(_, file)| of(file));
        files.reduce(Tally::plus)
    }
}

/// Copy of a line: the function that contains its code, and the calls through which it was inlined there.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Copy<'a> {
    function: Option<u64>,
    callers: Vec<(&'a str, Option<&'a str>, Option<u32>)>,
    inlined: Option<&'a str>,
}

/// Entries of a function, and separately of its pieces.
#[derive(Default)]
struct Calls {
    whole: Option<u64>,
    pieces: u64,
}

/// One image and the runs of it, at least one.
struct Image<'a> {
    runs: &'a [&'a Profile],
}

impl<'a> Image<'a> {
    fn files(&self) -> BTreeMap<String, File> {
        let mut files: BTreeMap<String, File> = BTreeMap::new();
        let Some(first) = self.runs.first() else { return files };
        let path = |file: u32| first.names.strings.get(file as usize);
        let insns = self.insns();
        for ((file, line), count) in self.lines(first, &insns) {
            let Some(path) = path(file) else { continue };
            let sum = files.entry(path.clone()).or_default().lines.entry(line).or_default();
            *sum = sum.saturating_add(count);
        }
        for ((path, line, name), calls) in self.functions(first) {
            let count = calls.whole.unwrap_or(calls.pieces);
            files.entry(path.to_owned()).or_default().functions.insert((line, name.to_owned()), count);
        }
        for (address, branch) in self.branches(first, &insns) {
            let Some((path, line)) = first.names.code_line_at(address) else { continue };
            files.entry(path.to_owned()).or_default().branches.entry(line).or_default().push(branch);
        }
        for ((file, line), mcdc) in flow::decisions(first) {
            let Some(path) = path(file) else { continue };
            files.entry(path.clone()).or_default().decide(line, mcdc);
        }
        for ((file, line), insns) in flow::conditional_insns(first) {
            let Some(path) = path(file) else { continue };
            *files.entry(path.clone()).or_default().uncounted.entry(line).or_default() += insns;
        }
        files
    }

    /// Executions by address, of all runs together.
    fn insns(&self) -> BTreeMap<u64, u64> {
        if let [run] = self.runs {
            return run.insns();
        }
        let mut insns: BTreeMap<u64, u64> = BTreeMap::new();
        for (pc, count) in self.runs.iter().flat_map(|run| run.insns()) {
            let sum = insns.entry(pc).or_default();
            *sum = sum.saturating_add(count);
        }
        insns
    }

    /// Executions of each line with code, by file (index into the first profile's strings) and line.
    fn lines(&self, first: &'a Profile, insns: &BTreeMap<u64, u64>) -> BTreeMap<(u32, u32), u64> {
        let mut copies: BTreeMap<(u32, u32), BTreeMap<Copy<'_>, u64>> = BTreeMap::new();
        for code in &first.names.lines {
            let copies = copies.entry((code.file, code.line)).or_default();
            for (&pc, &count) in insns.range(code.start..code.start.saturating_add(code.size_bytes)) {
                let most = copies.entry(self.copy(first, pc)).or_default();
                *most = count.max(*most);
            }
        }
        let sum = |copies: BTreeMap<_, u64>| copies.into_values().fold(0, u64::saturating_add);
        copies.into_iter().map(|(line, copies)| (line, sum(copies))).collect()
    }

    /// Copy of a line that an executed address belongs to. Only runs that executed it know its frames.
    fn copy(&self, first: &'a Profile, pc: u64) -> Copy<'a> {
        let run = self.runs.iter().copied().find(|run| run.names.stack_at(pc).is_some()).unwrap_or(first);
        let string = |index: u32| run.names.strings.get(index as usize).map_or("", String::as_str);
        let frames = run.names.frames_at(pc);
        let (inlined, callers) =
            frames.split_last().map_or((None, frames), |(innermost, callers)| (Some(innermost.function), callers));
        let callers = callers.iter().map(|frame| (string(frame.function), frame.file.map(string), frame.line));
        Copy { function: Owner::of(first, pc).start(), callers: callers.collect(), inlined: inlined.map(string) }
    }

    /// Calls by file, line and name.
    fn functions(&self, first: &'a Profile) -> BTreeMap<(&'a str, u32, &'a str), Calls> {
        let mut calls: BTreeMap<u64, u64> = BTreeMap::new();
        for run in self.runs {
            let table = functions::table(run);
            for row in table.rows.iter().filter(|row| row.kind == RowKind::Function) {
                let sum = calls.entry(row.start.unwrap_or(0)).or_default();
                *sum = sum.saturating_add(row.calls);
            }
        }
        let mut functions: BTreeMap<_, Calls> = BTreeMap::new();
        for function in &first.names.functions {
            let Some((file, line)) = definition(first, function) else { continue };
            let sums = functions.entry((file, line, stable_name(&function.linkage_name))).or_default();
            let calls = calls.get(&function.start).copied().unwrap_or(0);
            let sum = if is_piece(&function.linkage_name) { &mut sums.pieces } else { sums.whole.get_or_insert(0) };
            *sum = sum.saturating_add(calls);
        }
        functions
    }

    /// Branches by address, executed or not.
    fn branches(&self, first: &Profile, insns: &BTreeMap<u64, u64>) -> BTreeMap<u64, Branch> {
        let mut branches: BTreeMap<u64, Branch> = BTreeMap::new();
        for (address, kind) in flow::sites(first) {
            let executions = insns.get(&address).copied().unwrap_or(0);
            branches.insert(address, Branch { kind, executions, ways: vec![Count::Exact(0); 2] });
        }
        let mut tables: BTreeMap<u64, BTreeMap<Option<u64>, Count>> = BTreeMap::new();
        for run in self.runs {
            let known = Branches::of(run);
            let own = (self.runs.len() > 1).then(|| run.insns());
            let own = own.as_ref().unwrap_or(insns);
            for (address, branch) in &mut branches {
                if own.get(address).is_none_or(|&count| count == 0) {
                    continue;
                }
                let ways = known.at(*address).map_or(&[][..], |branch| &branch.ways[..]);
                for (index, sum) in branch.ways.iter_mut().enumerate() {
                    *sum = sum.plus(ways.get(index).map_or(Count::Unknown, |way| way.count));
                }
            }
            for branch in known.iter().filter(|branch| branch.kind == BranchKind::Table) {
                let targets = tables.entry(branch.site).or_default();
                for way in &branch.ways {
                    let sum = targets.entry(way.target).or_insert(Count::Exact(0));
                    *sum = sum.plus(way.count);
                }
            }
        }
        for (address, targets) in tables {
            let executions = insns.get(&address).copied().unwrap_or(0);
            let ways = targets.into_values().collect();
            branches.insert(address, Branch { kind: BranchKind::Table, executions, ways });
        }
        branches
    }
}

/// Place of a function's definition; if it is unknown (assembly), the line of the first instruction.
fn definition<'a>(profile: &'a Profile, function: &'a Function) -> Option<(&'a str, u32)> {
    if let (Some(file), Some(line)) = (&function.file, function.line) {
        return Some((file, line));
    }
    profile.names.code_line_at(function.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_without_ways_is_not_shown() {
        let decisions = BTreeMap::from([(1, Mcdc::Implied)]);
        assert_eq!(File { decisions, ..File::default() }.decision_at(1), Some(Decision::Missing));
    }
}
