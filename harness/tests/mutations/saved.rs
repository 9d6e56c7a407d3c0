// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saved profiles, and every command that shows one.

use std::io::{self, Write};
use std::path::Path;

use clap::ValueEnum as _;
use harness::analysis::both::Sampling;
use harness::analysis::calltree::CallTree;
use harness::analysis::compare::compare;
use harness::analysis::coverage::Coverage;
use harness::analysis::listing::Lister;
use harness::analysis::source::{SourceMap, Sources};
use harness::analysis::stack_proof;
use harness::analysis::stacks::View;
use harness::analysis::{crosscheck, functions, lookup};
use harness::exit_code::ExitCode;
use harness::export::differential::{self, Side};
use harness::export::json::{bins as json_bins, callers as json_callers};
use harness::export::{Format, Settings, Writer, cobertura, coverage_html, flamegraph, report};
use harness::gate::baseline::Baseline;
use harness::profile::{InTarget, Profile, SpanKind};
use harness::show::bins::{self, BinsTable, Order};
use harness::show::callers::{self, CallersLimits};
use harness::show::overview;
use harness::show::summary::SummarySize;
use harness::show::table_size::TableSize;
use harness::show::{annotation, coverage as table_of_coverage, diff, listing};
use sha2::{Digest as _, Sha256};

use super::made;
use super::mutate::{self, edge};
use super::random::Random;
use super::session::Seed;

pub(crate) fn seeds(dir: &Path) -> Vec<Seed> {
    made::files(dir, ".fwp")
}

/// Size of magic and hash, which are valid except in one case of a hundred.
const HEAD_BYTES: usize = 8 + 32;

pub(crate) fn mutated(random: &mut Random, seeds: &[Seed], seed: usize) -> Vec<u8> {
    let mut bytes = seeds[seed].bytes.clone();
    if random.percent(1) {
        mutate::bytes(random, &mut bytes);
        return bytes;
    }
    if random.percent(70) {
        let mut profile = Profile::from_bytes(&bytes).expect("harness wrote it");
        for _ in 0..1 + random.below(4) {
            change(random, &mut profile);
        }
        // The wire's encoder refuses some values; the bytes may contain them in any case.
        if let Ok(changed) = profile.to_bytes() {
            return changed;
        }
    }
    let mut body = bytes.split_off(HEAD_BYTES);
    mutate::bytes(random, &mut body);
    bytes.truncate(8);
    bytes.extend_from_slice(&Sha256::digest(&body));
    bytes.extend(body);
    bytes
}

/// Returns a random element of a list, if it has any.
fn any<'a, T>(random: &mut Random, list: &'a mut [T]) -> Option<&'a mut T> {
    let at = random.below(list.len());
    list.get_mut(at)
}

/// Changes one number, text or reference of the model.
fn change(random: &mut Random, profile: &mut Profile) -> Option<()> {
    let value = edge(random);
    let small = value as u32;
    let which = random.below(4);
    match random.below(22) {
        0 => {
            let facts = &mut profile.facts;
            let fields = [
                &mut facts.period_insns,
                &mut facts.bin_bytes,
                &mut facts.before_window_insns,
                &mut facts.waits,
                &mut facts.slept_insns,
                &mut facts.waiting.called_insns,
                &mut facts.waiting.unsure,
                &mut facts.load_bias,
                &mut facts.entry,
                &mut facts.input_bytes,
                &mut facts.unresolved_transfers,
                &mut facts.resynchronised,
                &mut facts.unseen_switches,
                &mut facts.input_begun,
                &mut facts.interrupted_transfers,
            ];
            let at = random.below(fields.len());
            *fields.into_iter().nth(at)? = value;
            if random.percent(20) {
                facts.main_stack_lowest = Some(value);
                facts.exception_levels.push((value, value));
            }
            if random.percent(20) {
                facts.icount_shift = value as u8 & 63;
                facts.isa = (*random.pick(&["riscv64", "riscv32", "thumb-v6m", "thumb-v7m", ""])).to_owned();
            }
        }
        1 => any(random, &mut profile.vcpus)?.clock_insns = value,
        2..=4 => {
            let vcpu = any(random, &mut profile.vcpus)?;
            let insn = any(random, &mut vcpu.insns)?;
            match which {
                0 => insn.pc = value,
                1 => insn.size_bytes = small as u8,
                _ => insn.count = value,
            }
        }
        5 | 6 => {
            let vcpu = any(random, &mut profile.vcpus)?;
            let arc = any(random, &mut vcpu.arcs)?;
            match which {
                0 => arc.site = value,
                1 => arc.target = value,
                2 => arc.return_addr = Some(value),
                _ => arc.count = value,
            }
        }
        7 | 8 => {
            let sample = any(random, &mut profile.samples)?;
            match random.below(6) {
                0 => sample.pc = value,
                1 => sample.at_insns = value,
                2 => sample.vcpu = small & 4095,
                3 => sample.stack = small,
                4 => sample.task = small,
                _ => sample.node = small,
            }
        }
        9 => {
            let count = profile.stacks.len();
            any(random, &mut profile.stacks)?.parent =
                if which == 0 { small } else { value as u32 % (count as u32 + 1) };
        }
        10 => {
            let task = any(random, &mut profile.tasks)?;
            match random.below(8) {
                0 => task.insns = value,
                1 => task.switches = value,
                2 => (task.deepest_sp, task.highest_sp) = (Some(value), Some(value)),
                3 => task.stack_start = Some(value),
                4 => task.stack_end = Some(value),
                5 => task.painted_bytes = Some(value),
                6 => task.poll = Some(value),
                _ => task.name = "x\u{1b}[31m;`|\"<".repeat(which * 200),
            }
        }
        11 | 12 => {
            let count = profile.tree.len();
            let node = any(random, &mut profile.tree)?;
            match which {
                0 => node.parent = value as u32 % (count as u32 + 1),
                1 => node.calls = value,
                2 => node.insns = value,
                _ => node.parent = small,
            }
        }
        13 => {
            let span = any(random, &mut profile.spans)?;
            match random.below(7) {
                0 => span.count = value,
                1 => span.min_insns = value,
                2 => span.max_insns = value,
                3 => span.sum_insns = value,
                4 => span.longest_at = value,
                5 => span.longest_since_insns = value,
                _ => span.kind = SpanKind::Between { from: value, until: u64::MAX },
            }
        }
        14 => {
            if which == 0 {
                profile.console_marks.push((value, value));
            }
            let mark = any(random, &mut profile.console_marks)?;
            *mark = if which == 1 { (value, mark.1) } else { (mark.0, value) };
        }
        15 | 16 => {
            let function = any(random, &mut profile.names.functions)?;
            match random.below(6) {
                0 => function.start = value,
                1 | 2 => function.size_bytes = value,
                3 => function.line = Some(small),
                4 => function.file = Some("../\n\u{202e}/proc/self/environ".to_owned()),
                _ => {
                    function.name =
                        ["", "a<b<c", ">>", "(", "operator<", "{closure#0}", "::"][random.below(7)].to_owned()
                }
            }
        }
        17 => {
            let names = &mut profile.names;
            match random.below(5) {
                0 => any(random, &mut names.locations)?.1 = small,
                1 => any(random, &mut names.locations)?.0 = value,
                2 => any(random, &mut names.aliases)?.address = value,
                3 => *any(random, &mut names.strings)? = "a;b|c\u{0}<d".to_owned(),
                _ => {
                    let line = any(random, &mut names.lines)?;
                    match which {
                        0 => line.start = value,
                        1 => line.size_bytes = value,
                        2 => line.file = small,
                        _ => line.line = small,
                    }
                }
            }
        }
        18 => {
            let stack = any(random, &mut profile.names.stacks)?;
            if which == 0 {
                stack.clear();
            }
            let frame = any(random, stack)?;
            match which {
                1 => frame.function = small,
                2 => frame.file = Some(small),
                _ => frame.line = Some(small),
            }
        }
        19 => {
            let code = any(random, &mut profile.code)?;
            match which {
                0 => code.start = value,
                1 => code.bytes.clear(),
                _ => mutate::bytes(random, &mut code.bytes),
            }
        }
        20 => {
            let Some(InTarget::Table(table)) = &mut profile.in_target else { return None };
            match random.below(8) {
                0 => table.capacity_entries = small,
                1 => table.used_entries = small,
                2 => table.inside_at_open = value,
                3 => table.calls = small,
                4 => any(random, &mut table.arcs)?.count = value,
                5 => any(random, &mut table.arcs)?.callee = value,
                6 => table.ignored_ranges.push(value..value / 2),
                _ => table.entry_point = value,
            }
        }
        _ => {
            // Changes the order.
            let vcpu = any(random, &mut profile.vcpus)?;
            let (insns, functions) = (vcpu.insns.len(), profile.names.functions.len());
            match which {
                0 if insns > 0 => vcpu.insns.swap(random.below(insns), random.below(insns)),
                1 if functions > 0 => {
                    profile.names.functions.swap(random.below(functions), random.below(functions));
                }
                2 => profile.names.locations.reverse(),
                _ => profile.code.reverse(),
            }
        }
    }
    Some(())
}

pub(crate) fn read(_: &Seed, bytes: &[u8], _: &Path) -> bool {
    let Ok(profile) = Profile::from_bytes(bytes) else { return false };
    profile.to_bytes().expect("what was read can be written");
    show(&profile);
    true
}

/// Output that panics when it would flood the disk: the inputs have less than a megabyte.
struct Sink(usize);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        assert!(self.0 < 1 << 30, "what is shown of a profile has no bound");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Shows a profile as every command that takes one does.
pub(crate) fn show(profile: &Profile) {
    let mut out = Sink(0);
    let table = functions::table(profile);
    let check = crosscheck::check(profile, &table);
    check.counts_agree();
    let size = SummarySize { top_rows: None, width_columns: None, is_wide: true, is_verbose: true };
    drop(overview::write(profile, &table, &check, size, None, &mut out));
    ExitCode::of_end(&profile.facts.end);
    stack_proof::cut(profile);
    let bins = BinsTable { bin_bytes: 64, top_rows: Some(10), order: Order::Count, width_columns: Some(80) };
    drop(bins::write(profile, bins, &mut out));
    drop(json_bins::write(profile, 64, &mut out));
    drop(listing::functions(&profile.names.functions, Some(profile), &mut out));
    let view = View { fold_irqs: profile.samples.len().is_multiple_of(2) };
    let mut sources = Sources::new(SourceMap::default());
    for row in table.rows.iter().step_by((table.rows.len() / 4).max(1)) {
        let Ok(places) = lookup::places(profile, &row.name) else { continue };
        drop(callers::write(profile, &places, CallersLimits { depth: 3, top: 4, width_columns: Some(80) }, &mut out));
        drop(json_callers::write(profile, &places, 3, &mut out));
        let Ok(lister) = Lister::new(profile) else { continue };
        let listings: Vec<_> = places.iter().take(2).map(|&place| lister.list(place, &mut sources)).collect();
        drop(annotation::write_all(&listings, annotation::Screen { color: true, width_columns: Some(80) }, &mut out));
    }
    for format in Format::value_variants() {
        let settings = Settings { view, ..Settings::default() };
        match format.writer() {
            Writer::File(write) => drop(write(profile, &settings, &mut out)),
            Writer::Directory(_) if profile.timeline.is_none() => {}
            Writer::Directory(write) => drop(write(profile, &settings, tempfile::tempdir().unwrap().path())),
        }
    }
    let coverage = Coverage::of(&[profile, profile]);
    drop(table_of_coverage::write(&coverage, Some(80), &mut out));
    drop(table_of_coverage::write_github(&coverage, &mut out));
    drop(cobertura::write(&coverage, &mut out));
    drop(coverage_html::write(&coverage, "a.elf", &mut sources, &mut out));
    drop(flamegraph::svg(profile, view));
    drop(flamegraph::chart(profile, view));
    drop(report::write(profile, view, &report::Extras::default(), &mut sources, &mut out));
    let baseline = Baseline::of(profile);
    drop(Baseline::from_text(&baseline.to_text()));
    let comparison = compare(Some(&baseline.metrics), &baseline.metrics);
    drop(diff::write(&comparison, TableSize { top_rows: Some(10), width_columns: Some(60) }, &mut out));
    let side = |label| Side::new(label, CallTree::new(profile, view).stacks());
    drop(differential::svg(&side("before"), &side("after"), &Sampling::of(profile, profile), &mut out));
}
