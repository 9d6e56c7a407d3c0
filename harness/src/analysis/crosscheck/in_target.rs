// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparison of in-target counts, which the firmware's runtime made at each call of `_mcount`, with the exact ones:
//! two independent measurements of one run, with an explanation for every difference. The saved profile has them as
//! [`in_target::Table`]; `image/mcount/` reads them from the image and its memory.
//!
//! The profiler has three numbers for each instrumented function: its entries, its calls of the runtime, and the
//! returns of those calls. The firmware's table has a fourth: the calls that the runtime counted. Each difference
//! between two of these numbers has its own kind of cause, so that causes are determined, not guessed:
//!
//! | from | to | missing calls are |
//! |---|---|---|
//! | entered | called the runtime | not instrumented, or in flight |
//! | called the runtime | came back | in flight |
//! | called the runtime | counted | ignored, no room, reset, erased, decayed, lost: as the runtime's own state tells
//! |
//!
//! Arcs are compared by return address and callee, as in the runtime's table. For the profiler, an entry without a
//! transfer of control (an interrupt, the first switch to a task) is not an arc. The runtime records a caller for such
//! entries all the same, and the two counts must be equal.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::analysis::cold_part::ColdParts;
use crate::analysis::functions::{self, RowKind, Table};
use crate::analysis::owner::Owner;
use crate::profile::Profile;
use crate::profile::in_target::{self, Mode, Protection};
use crate::text::number::{group, plural, share};

/// Result of the comparison: agreement of in-target and exact counts, and causes of differences.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Instrumented functions that were entered or counted.
    pub functions: u64,
    /// Pairs of return address and callee that were compared; 0 in the small mode, which has none.
    pub arcs: u64,
    /// Calls that both counted.
    pub calls: u64,
    /// Entries by interrupts among `calls`, recognised by their return address on a Cortex-M.
    pub by_interrupt: u64,
    /// Other entries without a call among `calls`: the first of a task, and on RISC-V by interrupts.
    pub without_call: u64,
    /// Tail calls among `calls`: their caller is the function that they return to, not the one that jumped.
    pub by_tail_call: u64,
    /// Differences by cause, most calls first.
    pub differences: Vec<Difference>,
    /// Functions that were entered and never called the runtime, by name.
    pub not_instrumented: Vec<String>,
    /// The small mode's functions with their shares of the calls in 1/1024, largest first; recent calls weigh more.
    pub hottest: Vec<(String, u16)>,
    /// The cost of the runtime.
    pub overhead: Overhead,
    /// Whether the firmware has no symbols, so that nothing can be compared.
    pub nameless: bool,
}

impl Comparison {
    /// Whether calls were lost that the firmware's runtime should have counted.
    pub fn has_losses(&self) -> bool {
        self.differences.iter().any(|difference| difference.cause.is_loss())
    }

    /// The verdict, one line each; names at most `most` differences.
    pub fn lines(&self, most: Option<usize>) -> Vec<String> {
        if self.nameless {
            return vec![
                "in-target: the firmware's own counts cannot be compared without symbols (--symbols FILE)".to_owned(),
            ];
        }
        if self.functions == 0 {
            return vec![
                "in-target: the firmware has the mcount runtime, but no code that ran calls it (compiled without \
                 -pg?)"
                    .to_owned(),
            ];
        }
        let most = most.unwrap_or(usize::MAX);
        let mut lines = vec![self.headline()];
        for difference in self.differences.iter().take(most) {
            lines.push(format!("  {difference}"));
        }
        if self.differences.len() > most {
            let left = &self.differences[most..];
            let calls = left.iter().map(|difference| difference.calls).sum();
            lines.push(format!(
                "  and {} more with {} (--top 0 shows all)",
                group(left.len() as u64),
                plural(calls, "call")
            ));
        }
        if !self.not_instrumented.is_empty() {
            let shown: Vec<&str> = self.not_instrumented.iter().take(most).map(String::as_str).collect();
            let more = if shown.len() < self.not_instrumented.len() { ", …" } else { "" };
            let functions = plural(self.not_instrumented.len() as u64, "function");
            lines.push(format!("  not instrumented: {functions}: {}{more}", shown.join(", ")));
        }
        if !self.hottest.is_empty() {
            let shares = self.hottest.iter().map(|(name, ratio)| format!("{name} {ratio}/1024"));
            lines.push(format!("  hottest by the firmware's own account: {}", shares.collect::<Vec<_>>().join(", ")));
        }
        let Overhead { insns, total_insns, calls } = self.overhead;
        lines.push(format!(
            "  the price of -pg: the runtime took {} instructions ({} of all), {:.1} per call",
            group(insns),
            share(insns, total_insns),
            insns as f64 / calls.max(1) as f64
        ));
        lines
    }

    fn headline(&self) -> String {
        let calls = plural(self.calls, "call");
        let arcs = if self.arcs > 0 { format!(" in {}", plural(self.arcs, "arc")) } else { String::new() };
        let functions = plural(self.functions, "function");
        let kinds: Vec<String> = [
            (self.by_interrupt, "by interrupts"),
            (self.without_call, "without a call (first entries of tasks, traps)"),
            (self.by_tail_call, "by tail calls"),
        ]
        .into_iter()
        .filter(|&(calls, _)| calls > 0)
        .map(|(calls, what)| format!("{} {what}", group(calls)))
        .collect();
        let kinds = if kinds.is_empty() { String::new() } else { format!("; {}", kinds.join(", ")) };
        if self.has_losses() {
            let lost = self.differences.iter().filter(|difference| difference.cause.is_loss());
            let (places, missing) =
                lost.fold((0u64, 0), |(places, calls), difference| (places + 1, calls + difference.calls));
            return format!(
                "in-target: DIFFERENCES: {} in {}; {calls} of {functions}{arcs} agree{kinds}",
                plural(missing, "call"),
                plural(places, "place")
            );
        }
        format!("in-target: the firmware's own counts agree with the exact ones: {calls} of {functions}{arcs}{kinds}")
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { caller, callee, exact, in_target, calls, cause } = self;
        write!(f, "{cause}: ")?;
        if let Some(caller) = caller {
            write!(f, "{caller} → ")?;
        }
        write!(f, "{callee}: {} exact, {} in the firmware's table", group(*exact), group(*in_target))?;
        if *calls != exact.abs_diff(*in_target) {
            write!(f, " ({} of the difference)", group(*calls))?;
        }
        Ok(())
    }
}

/// Cost of the runtime: of the function that the compiler's calls go to, and of functions that only the runtime calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// Instructions executed in them.
    pub insns: u64,
    /// Instructions of the window.
    pub total_insns: u64,
    /// Calls of the runtime.
    pub calls: u64,
}

/// Calls that are in one count and not in the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Function that the call returns to, with the offset in bytes; None in the small mode, which has no callers.
    pub caller: Option<String>,
    /// The called function.
    pub callee: String,
    /// Calls in the exact count.
    pub exact: u64,
    /// Calls in the in-target count.
    pub in_target: u64,
    /// Number of calls with this cause.
    pub calls: u64,
    /// Cause of the difference.
    pub cause: Cause,
}

/// Cause of a difference between in-target and exact count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// None of the others: a defect of the firmware, of its runtime, or of the profiler.
    Unexplained,
    /// An interrupt came between load and store of a counter that the runtime does not protect.
    LostUpdate,
    /// The runtime reports a full table, and the arc is not in it.
    TableFull,
    /// The small mode gave the function's entry to another one, or had none for it.
    Decayed,
    /// The firmware set its counts to zero.
    Reset,
    /// Called by code that runs before memory is cleared, which also cleared the count.
    Erased,
    /// Counted under a caller that never called: the return address was not where the runtime expects it. gcc 12
    /// causes this on processors without Thumb-2 (`targets/mcount/README.md`).
    WrongCaller,
    /// Transfers of control whose target the profiler could not determine; it reports their number.
    Unresolved,
    /// The function is on the runtime's list.
    Ignored,
    /// A call under way: entered and not counted yet, at the end of the run or when the window opened.
    InFlight,
}

impl Cause {
    /// Whether calls were lost that the runtime should have counted; `--strict` forbids that.
    pub fn is_loss(self) -> bool {
        !matches!(self, Cause::Ignored | Cause::InFlight | Cause::Unresolved)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Unexplained => "UNEXPLAINED",
            Cause::LostUpdate => "lost update",
            Cause::TableFull => "table full",
            Cause::Decayed => "decayed",
            Cause::Reset => "reset",
            Cause::Erased => "erased at start-up",
            Cause::WrongCaller => "counted under a wrong caller",
            Cause::Unresolved => "not attributed by the profiler",
            Cause::Ignored => "ignored",
            Cause::InFlight => "in flight",
        })
    }
}

/// Both counts of one arc.
#[derive(Clone, Copy, Default)]
struct Pair {
    exact: u64,
    in_target: u64,
    tail_calls: u64,
}

/// Both measurements of one function.
#[derive(Default)]
struct Callee {
    entries: u64,
    /// Calls of the runtime from it.
    reported: u64,
    /// Executions of the instructions after those calls: fewer if some calls have not returned, more if a loop starts
    /// there.
    returned: u64,
    /// Return addresses of its calls of the runtime.
    sites: BTreeSet<u64>,
    /// Arcs by return address, without Thumb's bit 0.
    arcs: BTreeMap<u64, Pair>,
    /// Calls counted in the small mode.
    hits: u64,
}

/// Compares the in-target table with the profile; `functions` is the profile's table of functions.
pub fn compare(profile: &Profile, table: &in_target::Table, functions: &Table) -> Comparison {
    let runtime = runtime(profile, table);
    let mut callees = callees(profile, table, functions, &runtime);
    let mut comparison = Comparison {
        nameless: functions.rows.iter().all(|row| row.kind != RowKind::Function),
        overhead: overhead(functions, &runtime, &callees),
        ..Comparison::default()
    };
    if comparison.nameless {
        return comparison;
    }
    callees.retain(|&start, callee| {
        let instrumented =
            callee.reported > 0 || callee.arcs.values().any(|pair| pair.in_target > 0) || callee.hits > 0;
        if !instrumented && callee.entries > 0 && !runtime.contains(&start) {
            comparison.not_instrumented.push(name(profile, start));
        }
        instrumented
    });
    comparison.functions = callees.len() as u64;
    let called = |hot: &in_target::Hot| name(profile, code(hot.callee).wrapping_sub(1));
    comparison.hottest = table.hottest.iter().map(|hot| (called(hot), hot.ratio)).collect();
    comparison.hottest.sort_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
    let early = early(profile, &callees);
    let insns = profile.insns();
    let came_back: u64 = table.returns.iter().filter_map(|pc| insns.get(pc)).sum();
    let entered = insns.get(&code(table.entry_point)).copied().unwrap_or(0);
    let mut budget = Budget {
        dropped: table.dropped.into(),
        unresolved: profile.facts.unresolved_transfers,
        landed: table.inside_at_open.saturating_add(entered.saturating_sub(comparison.overhead.calls)),
        inside: comparison.overhead.calls.saturating_add(table.inside_at_open).saturating_sub(came_back),
    };
    for (&start, callee) in &callees {
        let witness = Witness { profile, table, start, callee, early: &early };
        match table.mode {
            Mode::Arcs => witness.compare_arcs(&mut budget, &mut comparison),
            Mode::Hottest => witness.compare_hits(&mut budget, &mut comparison),
        }
    }
    comparison.differences.sort_by(|one, other| {
        let key = |difference: &Difference| {
            (
                difference.cause,
                std::cmp::Reverse(difference.calls),
                difference.callee.clone(),
                difference.caller.clone(),
            )
        };
        key(one).cmp(&key(other))
    });
    comparison
}

fn name(profile: &Profile, start: u64) -> String {
    Owner::of(profile, start).to_string()
}

/// Address without bit 0, which the runtime and Thumb set.
fn code(address: u64) -> u64 {
    address & !1
}

/// First addresses of the runtime's functions: the function that the compiler's calls go to, and functions called only
/// by the runtime.
fn runtime(profile: &Profile, table: &in_target::Table) -> BTreeSet<u64> {
    let mut callers: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for (from, to, _) in transfers(profile) {
        callers.entry(to).or_default().insert(from);
    }
    let mut runtime = BTreeSet::from([code(table.entry_point)]);
    loop {
        let before = runtime.len();
        for (callee, from) in &callers {
            if from.is_subset(&runtime) {
                runtime.insert(*callee);
            }
        }
        if runtime.len() == before {
            return runtime;
        }
    }
}

/// First addresses of source and target function of each transfer of control, and whether it is a call.
fn transfers(profile: &Profile) -> impl Iterator<Item = (u64, u64, bool)> {
    let arcs = profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs);
    arcs.filter_map(|arc| {
        Some((Owner::of(profile, arc.site).start()?, Owner::of(profile, arc.target).start()?, arc.links))
    })
}

/// Executed instructions that may return from the runtime: those of the function that the compiler's calls go to, and
/// of functions to which it jumps.
pub fn returning(profile: &Profile, table: &in_target::Table) -> BTreeSet<u64> {
    let mut functions = BTreeSet::from([code(table.entry_point)]);
    loop {
        let before = functions.len();
        for (from, to, links) in transfers(profile) {
            if !links && functions.contains(&from) {
                functions.insert(to);
            }
        }
        if functions.len() == before {
            break;
        }
    }
    let is_there = |&pc: &u64| Owner::of(profile, pc).start().is_some_and(|start| functions.contains(&start));
    profile.insns().into_keys().filter(is_there).collect()
}

fn overhead(functions: &Table, runtime: &BTreeSet<u64>, callees: &BTreeMap<u64, Callee>) -> Overhead {
    let of_runtime = functions.rows.iter().filter(|row| row.start.is_some_and(|start| runtime.contains(&start)));
    Overhead {
        insns: of_runtime.map(|row| row.self_insns).sum(),
        total_insns: functions.total_insns,
        calls: callees.values().map(|callee| callee.reported).sum(),
    }
}

/// Collects both measurements of each function, by its first address.
fn callees(
    profile: &Profile,
    table: &in_target::Table,
    functions: &Table,
    runtime: &BTreeSet<u64>,
) -> BTreeMap<u64, Callee> {
    let mut callees: BTreeMap<u64, Callee> = BTreeMap::new();
    for row in functions.rows.iter().filter(|row| row.kind == RowKind::Function) {
        if let Some(start) = row.start {
            callees.entry(start).or_default().entries = row.calls;
        }
    }
    let (insns, parts) = (profile.insns(), ColdParts::of(profile));
    let entry_point = code(table.entry_point);
    for arc in profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs) {
        let return_addr = arc.return_addr.map(code);
        if arc.target == entry_point {
            // By the return address and not by the site, which may be in a veneer.
            let Some(return_addr) = return_addr else { continue };
            let Some(start) = Owner::of(profile, return_addr.wrapping_sub(1)).start() else { continue };
            let callee = callees.entry(start).or_default();
            callee.reported += arc.count;
            if callee.sites.insert(return_addr) {
                callee.returned += insns.get(&return_addr).copied().unwrap_or(0);
            }
            continue;
        }
        if runtime.contains(&arc.target) || !functions::is_call(profile, &parts, arc) {
            continue;
        }
        let pair = callees.entry(arc.target).or_default().arcs.entry(return_addr.unwrap_or(0)).or_default();
        pair.exact += arc.count;
        if !arc.links {
            pair.tail_calls += arc.count;
        }
    }
    // The runtime has the address after a call, which may lie behind the end of the function: look up the byte before
    // it.
    let callee_of = |address: u64| Owner::of(profile, code(address).wrapping_sub(1)).start().unwrap_or(address);
    for arc in &table.arcs {
        let callee = callees.entry(callee_of(arc.callee)).or_default();
        callee.arcs.entry(code(arc.caller)).or_default().in_target += arc.count;
    }
    for hot in &table.hottest {
        callees.entry(callee_of(hot.callee)).or_default().hits += hot.hits;
    }
    callees
}

/// Functions that may have run before memory was cleared: the firmware's first one, and functions called only from
/// there that have uncounted calls. (`main` is counted, so its callees ran later.)
fn early(profile: &Profile, callees: &BTreeMap<u64, Callee>) -> BTreeSet<u64> {
    let mut early: BTreeSet<u64> = Owner::of(profile, profile.facts.entry).start().into_iter().collect();
    loop {
        let before = early.len();
        for (&start, Callee { entries, arcs, .. }) in callees {
            let counted: u64 = arcs.values().map(|pair| pair.in_target).sum();
            let mut callers = arcs.iter().filter(|(_, pair)| pair.exact > 0).map(|(&from, _)| from).peekable();
            let is_called = callers.peek().is_some();
            let is_early = |from| functions::caller(profile, Some(from)).1.is_some_and(|from| early.contains(&from));
            if is_called && counted < *entries && callers.all(is_early) {
                early.insert(start);
            }
        }
        if early.len() == before {
            return early;
        }
    }
}

/// Calls that are known only for all functions together; each explained difference uses up a part of them.
struct Budget {
    /// Calls for which the runtime reports a lack of room.
    dropped: u64,
    /// Transfers of control that the profiler could not attribute.
    unresolved: u64,
    /// Calls of the runtime from before the window that may have been counted in it.
    landed: u64,
    /// Calls of the runtime that have not returned. If a loop starts right after the call, this is all that is known
    /// of them.
    inside: u64,
}

/// Takes up to `wanted` from a budget.
fn take(budget: &mut u64, wanted: u64) -> u64 {
    let taken = wanted.min(*budget);
    *budget -= taken;
    taken
}

/// Calls of one function that are not lost, but counted elsewhere or not yet.
struct Flights {
    /// Calls that were made and not yet counted at the end of the run.
    started: u64,
    /// Calls from before the window that were counted in it.
    landed: u64,
    /// Calls that were counted under a caller that never called.
    misnamed: u64,
}

/// One function of the comparison, with all data that decides the causes.
struct Witness<'a> {
    profile: &'a Profile,
    table: &'a in_target::Table,
    start: u64,
    callee: &'a Callee,
    early: &'a BTreeSet<u64>,
}

impl Witness<'_> {
    /// Compares the function's arcs.
    fn compare_arcs(&self, budget: &mut Budget, comparison: &mut Comparison) {
        let Callee { entries, reported, ref arcs, .. } = *self.callee;
        let called: u64 = arcs.values().map(|pair| pair.exact).sum();
        // Calls under way when the window opened, counted in it.
        let opened = self.profile.facts.before_window_insns > 0;
        let landed = if opened { reported.saturating_sub(entries) } else { 0 };
        let mut flights = Flights {
            // Calls under way to the function, plus calls inside it that have not reached the runtime. Calls inside
            // the runtime are known only for all functions together.
            started: called.saturating_sub(entries) + entries.saturating_sub(reported),
            landed,
            misnamed: 0,
        };

        // Entries without a transfer: the runtime records a caller that never called.
        let mut otherwise = Pair { exact: entries.saturating_sub(called), in_target: 0, tail_calls: 0 };
        let mut by_interrupt = 0;
        for (&return_addr, pair) in arcs.iter().filter(|(_, pair)| pair.exact == 0) {
            otherwise.in_target += pair.in_target;
            if functions::caller(self.profile, Some(return_addr)).0 == functions::EXCEPTION {
                by_interrupt += pair.in_target;
            }
        }
        // More of these than possible: the others are calls that were counted under a caller that never called.
        let missing = arcs.values().map(|pair| pair.exact.saturating_sub(pair.in_target)).sum();
        let strangers = otherwise.in_target.saturating_sub(otherwise.exact + landed + budget.landed);
        flights.misnamed = strangers.min(missing);
        otherwise.in_target -= flights.misnamed;
        if opened {
            // Calls from before the window whose function was entered in it: the runtime's table has the arc, the
            // window has not.
            let extra =
                arcs.values().filter(|pair| pair.exact > 0).map(|pair| pair.in_target.saturating_sub(pair.exact));
            let arrived = otherwise.exact.saturating_sub(otherwise.in_target).min(extra.sum());
            otherwise.exact -= arrived;
            flights.landed += arrived;
        }
        for (&return_addr, pair) in arcs.iter().filter(|(_, pair)| pair.exact > 0) {
            comparison.arcs += 1;
            comparison.by_tail_call += pair.tail_calls.min(pair.in_target);
            let (mut caller, start) = functions::caller(self.profile, Some(return_addr));
            // The offset distinguishes arcs between the same functions.
            if let Some(start) = start {
                caller += &format!("+{:#x}", return_addr - start);
            }
            self.settle(*pair, (caller, start), &mut flights, budget, comparison);
        }
        if otherwise.exact > 0 || otherwise.in_target > 0 {
            comparison.arcs += 1;
            let both = otherwise.exact.min(otherwise.in_target);
            comparison.by_interrupt += by_interrupt.min(both);
            comparison.without_call += both - by_interrupt.min(both);
            let caller = (NO_CALL.to_owned(), None);
            self.settle(otherwise, caller, &mut flights, budget, comparison);
        }
    }

    /// Finds the causes of the difference between two counts of one arc.
    fn settle(
        &self,
        pair: Pair,
        (caller, caller_start): (String, Option<u64>),
        flights: &mut Flights,
        budget: &mut Budget,
        comparison: &mut Comparison,
    ) {
        let Pair { exact, in_target, .. } = pair;
        // The firmware's counters have 32 bits.
        let wrapped = exact & u64::from(u32::MAX);
        let exact_here =
            if exact > u64::from(u32::MAX) && in_target <= u64::from(u32::MAX) { wrapped } else { exact };
        comparison.calls += exact.min(in_target);
        let mut causes = Vec::new();
        let mut put = |calls: u64, cause: Cause| {
            if calls > 0 {
                causes.push((calls, cause));
            }
        };
        let mut missing = exact_here.saturating_sub(in_target);
        let mut extra = in_target.saturating_sub(exact_here);
        if missing > 0 && self.is_ignored() {
            put(missing, Cause::Ignored);
            missing = 0;
        }
        let known = take(&mut flights.started, missing);
        let flying = known + self.take_inside(budget, missing - known);
        put(flying, Cause::InFlight);
        missing -= flying;
        if missing > 0 && self.table.resets > 0 {
            put(missing, Cause::Reset);
            missing = 0;
        }
        if caller != NO_CALL {
            let misnamed = take(&mut flights.misnamed, missing);
            put(misnamed, Cause::WrongCaller);
            missing -= misnamed;
        }
        // An arc keeps its entry in the table, so one lost for lack of room was never counted at all.
        if missing > 0 && (in_target == 0 || caller == NO_CALL) {
            let dropped = take(&mut budget.dropped, missing);
            put(dropped, Cause::TableFull);
            missing -= dropped;
        }
        let is_early = caller_start.is_some_and(|caller| self.early.contains(&caller))
            || caller == NO_CALL && self.early.contains(&self.start);
        if missing > 0 && in_target == 0 && is_early {
            put(missing, Cause::Erased);
            missing = 0;
        }
        let lossy = self.table.protection == Protection::None;
        put(missing, if lossy { Cause::LostUpdate } else { Cause::Unexplained });

        let known = take(&mut flights.landed, extra);
        let flying = known + take(&mut budget.landed, extra - known);
        put(flying, Cause::InFlight);
        extra -= flying;
        let unresolved = take(&mut budget.unresolved, extra);
        put(unresolved, Cause::Unresolved);
        extra -= unresolved;
        put(extra, Cause::Unexplained);

        let callee = name(self.profile, self.start);
        comparison.differences.extend(causes.into_iter().map(|(calls, cause)| Difference {
            caller: Some(caller.clone()),
            callee: callee.clone(),
            exact,
            in_target,
            calls,
            cause,
        }));
    }

    /// Compares the small mode's hits with the calls of the runtime: missing calls must have been dropped.
    fn compare_hits(&self, budget: &mut Budget, comparison: &mut Comparison) {
        let Callee { entries, reported, hits, .. } = *self.callee;
        comparison.calls += entries.min(hits);
        let mut missing = entries.saturating_sub(hits);
        let mut causes = Vec::new();
        if missing > 0 && self.is_ignored() {
            causes.push((missing, Cause::Ignored));
            missing = 0;
        }
        let known = missing.min(entries.saturating_sub(reported));
        let flying = known + self.take_inside(budget, missing - known);
        causes.push((flying, Cause::InFlight));
        missing -= flying;
        if missing > 0 && self.table.resets > 0 {
            causes.push((missing, Cause::Reset));
            missing = 0;
        }
        let dropped = take(&mut budget.dropped, missing);
        causes.push((dropped, Cause::Decayed));
        missing -= dropped;
        let lossy = self.table.protection == Protection::None;
        causes.push((missing, if lossy { Cause::LostUpdate } else { Cause::Unexplained }));
        causes.push((hits.saturating_sub(entries), Cause::Unexplained));
        let found = causes.into_iter().filter(|&(calls, _)| calls > 0);
        comparison.differences.extend(found.map(|(calls, cause)| Difference {
            caller: None,
            callee: name(self.profile, self.start),
            exact: entries,
            in_target: hits,
            calls,
            cause,
        }));
    }

    /// Takes calls of this function that may be inside the runtime: none, if all have returned. In a window that opened
    /// later, some returns may belong to calls from before it.
    fn take_inside(&self, budget: &mut Budget, wanted: u64) -> u64 {
        let Callee { reported, returned, .. } = *self.callee;
        let opened = self.profile.facts.before_window_insns > 0;
        let most = match returned.cmp(&reported) {
            Ordering::Less if !opened => reported - returned,
            Ordering::Equal if !opened => 0,
            _ => u64::MAX,
        };
        take(&mut budget.inside, wanted.min(most))
    }

    /// Whether the runtime ignores the function's calls, by the address that they return to.
    fn is_ignored(&self) -> bool {
        let thumb = u64::from(self.profile.facts.is_arm());
        self.callee
            .sites
            .iter()
            .any(|site| self.table.ignored_ranges.iter().any(|range| range.contains(&(site | thumb))))
    }
}

/// Caller of an entry without a call.
const NO_CALL: &str = "[no call]";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::in_target::{Before, TableArc};
    use crate::profile::testing::empty;

    const MAIN: u64 = 0x40;
    const LEAF: u64 = 0x60;
    const RUNTIME: u64 = 0x80;
    const RETURN: u64 = 0x8e;

    /// `main` calls `leaf`; both call the runtime first.
    fn profile(calls: u64) -> Profile {
        empty()
            .function("start", 0x20, 0x10)
            .function("main", MAIN, 0x20)
            .function("leaf", LEAF, 0x20)
            .function("_mcount", RUNTIME, 0x10)
            .insn(0x20, 1)
            .insn(MAIN, 1)
            .insn(LEAF, calls)
            .insn(RUNTIME, calls + 1)
            .insn(RETURN, calls + 1)
            .insn(0x44, 1)
            .insn(0x64, calls)
            .arc((0x24, MAIN), Some(0x28), true, 1)
            .arc((0x48, LEAF), Some(0x4c), true, calls)
            .arc((MAIN, RUNTIME), Some(0x44), true, 1)
            .arc((LEAF, RUNTIME), Some(0x64), true, calls)
    }

    fn table(arcs: &[(u64, u64, u64)]) -> in_target::Table {
        in_target::Table {
            mode: Mode::Arcs,
            protection: Protection::Masked,
            capacity_entries: 8,
            used_entries: arcs.len() as u32,
            entry_point: RUNTIME,
            returns: vec![RETURN],
            inside_at_open: 0,
            ignored: 0,
            dropped: 0,
            calls: 0,
            resets: 0,
            ignored_ranges: Vec::new(),
            arcs: arcs.iter().map(|&(caller, callee, count)| TableArc { caller, callee, count }).collect(),
            hottest: Vec::new(),
            before: Before::None,
        }
    }

    fn compared(profile: &Profile, table: &in_target::Table) -> Comparison {
        compare(profile, table, &functions::table(profile))
    }

    fn causes(comparison: &Comparison) -> Vec<(&str, u64, Cause)> {
        let causes = comparison.differences.iter();
        causes.map(|difference| (difference.callee.as_str(), difference.calls, difference.cause)).collect()
    }

    const OF_MAIN: (u64, u64, u64) = (0x29, 0x45, 1);

    #[test]
    fn two_honest_witnesses_agree() {
        let comparison = compared(&profile(100), &table(&[OF_MAIN, (0x4d, 0x65, 100)]));
        assert_eq!(causes(&comparison), []);
        assert_eq!((comparison.calls, comparison.functions, comparison.arcs), (101, 2, 2));
        assert_eq!(comparison.not_instrumented, ["start"]);
        assert_eq!(comparison.overhead, Overhead { insns: 202, total_insns: 405, calls: 101 });
        assert!(comparison.lines(None)[0].contains("agree with the exact ones: 101 calls of 2 functions in 2 arcs"));
        // Two entries of one arc, made at the same time.
        let comparison = compared(&profile(100), &table(&[OF_MAIN, (0x4d, 0x65, 60), (0x4d, 0x65, 40)]));
        assert_eq!(causes(&comparison), []);
    }

    #[test]
    fn what_is_missing_is_a_lost_update_only_where_the_runtime_admits_to_it() {
        let mut short = table(&[OF_MAIN, (0x4d, 0x65, 97)]);
        let comparison = compared(&profile(100), &short);
        assert_eq!(causes(&comparison), [("leaf", 3, Cause::Unexplained)]);
        assert!(comparison.has_losses());
        let lines = comparison.lines(None);
        assert_eq!(lines[0], "in-target: DIFFERENCES: 3 calls in 1 place; 98 calls of 2 functions in 2 arcs agree");
        assert_eq!(lines[1], "  UNEXPLAINED: main+0xc → leaf: 100 exact, 97 in the firmware's table");
        short.protection = Protection::None;
        assert_eq!(causes(&compared(&profile(100), &short)), [("leaf", 3, Cause::LostUpdate)]);
    }

    #[test]
    fn no_more_calls_are_in_flight_than_have_not_come_back() {
        let mut flying = profile(100);
        let less = |profile: &mut Profile, pc| {
            profile.vcpus[0].insns.iter_mut().find(|insn| insn.pc == pc).unwrap().count -= 1;
        };
        less(&mut flying, RETURN);
        // All calls from `leaf` have returned.
        let comparison = compared(&flying, &table(&[OF_MAIN, (0x4d, 0x65, 99)]));
        assert_eq!(causes(&comparison), [("leaf", 1, Cause::Unexplained)]);
        less(&mut flying, 0x64);
        let comparison = compared(&flying, &table(&[OF_MAIN, (0x4d, 0x65, 99)]));
        assert_eq!(causes(&comparison), [("leaf", 1, Cause::InFlight)]);
        assert!(!comparison.has_losses());
        let comparison = compared(&flying, &table(&[OF_MAIN, (0x4d, 0x65, 98)]));
        assert_eq!(causes(&comparison), [("leaf", 1, Cause::Unexplained), ("leaf", 1, Cause::InFlight)]);
        // The calls were counted and have not returned: none is missing.
        assert_eq!(causes(&compared(&flying, &table(&[OF_MAIN, (0x4d, 0x65, 100)]))), []);
    }

    #[test]
    fn more_than_the_exact_count_is_explained_by_what_the_profiler_missed_or_not_at_all() {
        let long = table(&[OF_MAIN, (0x4d, 0x65, 102)]);
        assert_eq!(causes(&compared(&profile(100), &long)), [("leaf", 2, Cause::Unexplained)]);
        let mut unresolved = profile(100);
        unresolved.facts.unresolved_transfers = 2;
        assert_eq!(causes(&compared(&unresolved, &long)), [("leaf", 2, Cause::Unresolved)]);
        // One call was inside the runtime when the window opened.
        let mut windowed = long.clone();
        windowed.inside_at_open = 1;
        windowed.arcs[1].count = 101;
        let mut opened = profile(100);
        opened.facts.before_window_insns = 5000;
        assert_eq!(causes(&compared(&opened, &windowed)), [("leaf", 1, Cause::InFlight)]);
    }

    #[test]
    fn dropped_calls_account_for_arcs_that_are_not_in_the_table_and_for_no_others() {
        let mut full = table(&[(0x4d, 0x65, 100)]);
        full.dropped = 1;
        assert_eq!(causes(&compared(&profile(100), &full)), [("main", 1, Cause::TableFull)]);
        full.arcs[0].count = 99;
        assert_eq!(
            causes(&compared(&profile(100), &full)),
            [("leaf", 1, Cause::Unexplained), ("main", 1, Cause::TableFull)]
        );
    }

    #[test]
    fn counters_wrap_at_32_bits() {
        let calls = (3 << 32) + 7;
        assert_eq!(causes(&compared(&profile(calls), &table(&[OF_MAIN, (0x4d, 0x65, 7)]))), []);
        let comparison = compared(&profile(calls), &table(&[OF_MAIN, (0x4d, 0x65, 5)]));
        assert_eq!(causes(&comparison), [("leaf", 2, Cause::Unexplained)]);
    }

    #[test]
    fn a_call_of_the_runtime_through_a_veneer_is_one() {
        let mut far = profile(100).function("veneer", 0x10, 8).insn(0x10, 100);
        far.names.functions.sort_by_key(|function| function.start);
        let arc = far.vcpus[0].arcs.iter_mut().find(|arc| arc.site == LEAF).unwrap();
        arc.target = 0x10;
        let far = far.arc((0x14, RUNTIME), Some(0x64), false, 100);
        let comparison = compared(&far, &table(&[OF_MAIN, (0x4d, 0x65, 100)]));
        assert_eq!(causes(&comparison), []);
        assert_eq!(comparison.overhead.calls, 101);
    }

    #[test]
    fn without_symbols_nothing_can_be_compared_and_that_is_said() {
        let mut nameless = profile(100);
        nameless.names.functions.clear();
        let comparison = compared(&nameless, &table(&[OF_MAIN, (0x4d, 0x65, 100)]));
        assert!(comparison.nameless && !comparison.has_losses());
        assert!(comparison.lines(None)[0].contains("--symbols"));
    }

    #[test]
    fn a_runtime_that_nothing_calls_is_said_to_be_one() {
        let silent = empty().function("main", MAIN, 0x20).insn(MAIN, 1);
        assert!(compared(&silent, &table(&[])).lines(None)[0].contains("no code that ran calls it"));
    }

    #[test]
    fn only_as_many_differences_are_shown_as_asked_for() {
        let mut short = table(&[(0x4d, 0x65, 97)]);
        short.protection = Protection::None;
        let lines = compared(&profile(100), &short).lines(Some(1));
        assert!(lines[1].contains("leaf: 100 exact"), "{lines:?}");
        assert!(lines[2].contains("and 1 more with 1 call"), "{lines:?}");
    }
}
