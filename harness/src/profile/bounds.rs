// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits that no run reaches. A profile or record above them is damaged or hostile. All later stages add counts up,
//! and rely on sums that do not overflow.

use anyhow::{Result, ensure};
use wire::counters::MAX_INSNS;
use wire::sample::MAX_VCPUS;

use super::part::Parts;
use super::zone::{Zone, ZoneCounts, Zones};
use super::{Beyond, Cycles, Edge, Facts, InTarget, LengthCycles, Names, Node, Span, Task, VcpuCounts};

/// Highest value of any count, over all vCPUs together.
const MOST: u64 = MAX_INSNS * MAX_VCPUS as u64;

/// More cycles than any instruction takes, with an interrupt before it.
const MOST_CYCLES: u64 = 1024;

/// More cycles than an instruction of an AVR usually takes.
const MOST_USUAL: u64 = 32;

/// Most functions in a list of places, inlined into each other. Exports call themselves once for each.
pub(crate) const MAX_PLACES: usize = 256;

/// Checks that counts are possible: each vCPU executes no more instructions than a limit may allow, and every sum
/// stays below what all vCPUs execute.
///
/// # Errors
/// When a count is larger.
pub(crate) fn check(vcpus: &[VcpuCounts], tasks: &[Task], tree: &[Node], spans: &[Span]) -> Result<()> {
    let of_vcpus = vcpus.len() <= MAX_VCPUS as usize
        && vcpus.iter().all(|vcpu| {
            vcpu.clock_insns <= MAX_INSNS
                && fits(vcpu.insns.iter().map(|insn| insn.count), MAX_INSNS)
                && fits(vcpu.arcs.iter().map(|arc| arc.count), MAX_INSNS)
        });
    let of_tasks =
        fits(tasks.iter().map(|task| task.insns), MOST) && fits(tasks.iter().map(|task| task.switches), MOST);
    let of_tree = fits(tree.iter().map(|node| node.insns), MOST)
        && fits(tree.iter().map(|node| node.calls), MOST)
        && fits(tree.iter().map(|node| node.cycles), MAX_INSNS * MOST_CYCLES);
    let of_spans = fits(spans.iter().map(|span| span.count), MOST)
        && spans.iter().all(|span| span.longest_since_insns <= MAX_INSNS && is_length(&span.cycles));
    ensure!(of_vcpus && of_tasks && of_tree && of_spans, "the counts are damaged: they are larger than any run's");
    Ok(())
}

/// Checks the counts of branches' ways.
///
/// # Errors
/// When a count is larger.
pub(crate) fn check_edges(edges: &[Edge]) -> Result<()> {
    ensure!(
        fits(edges.iter().map(|edge| edge.count), MOST),
        "the counts are damaged: they are larger than any run's"
    );
    Ok(())
}

/// Checks the counts of cycles.
///
/// # Errors
/// When a count is larger.
pub(crate) fn check_cycles(cycles: &Cycles) -> Result<()> {
    let counts = cycles.insns.iter().flat_map(|insn| [insn.cycles, insn.fewer, insn.more]);
    let are_usual = cycles.insns.iter().all(|insn| u64::from(insn.usual) <= MOST_USUAL);
    let are_small = fits(counts, MAX_INSNS * MOST_CYCLES) && cycles.clock <= MAX_INSNS * MOST_CYCLES && are_usual;
    ensure!(are_small, "the cycles are damaged: they are more than any run's");
    Ok(())
}

/// Whether cycles of something that came several times are possible.
fn is_length(cycles: &LengthCycles) -> bool {
    let LengthCycles { min, max, sum } = *cycles;
    min.max(max).max(sum) <= MAX_INSNS * MOST_CYCLES
}

/// Checks the lists of places.
///
/// # Errors
/// When a list is longer than [`MAX_PLACES`].
pub(crate) fn check_names(names: &Names) -> Result<()> {
    let are_short = names.places.iter().all(|list| list.len() <= MAX_PLACES);
    ensure!(are_short, "the names are damaged: more functions are inlined into each other than any image has");
    Ok(())
}

/// Checks the counts in a run's facts and in the firmware's own table.
///
/// # Errors
/// When a count is larger.
pub(crate) fn check_facts(facts: &Facts, in_target: Option<&InTarget>) -> Result<()> {
    let waiting_insns = facts.waiting.called_insns;
    let counts =
        [facts.before_window_insns, facts.slept_insns, waiting_insns, facts.unresolved_transfers, facts.period_insns];
    let table = in_target.and_then(InTarget::table);
    let of_table =
        table.is_none_or(|table| table.inside_at_open <= MOST && fits(table.arcs.iter().map(|arc| arc.count), MOST));
    let are_small = counts.into_iter().all(|count| count <= MOST) && of_table;
    ensure!(are_small, "the facts are damaged: their counts are larger than any run's");
    let accesses = facts.chip.iter().flat_map(|chip| &chip.accesses);
    let of_accesses = [
        fits(accesses.clone().map(|access| access.reads), MOST),
        fits(accesses.clone().map(|access| access.writes), MOST),
        fits(accesses.clone().map(|access| access.poll_insns), MOST),
        accesses.clone().all(|access| access.polls <= access.reads && access.last_insns <= MOST),
    ];
    ensure!(of_accesses == [true; 4], "the facts are damaged: accesses of registers are more than any run's");
    ensure!(is_name(&facts.image_name), "the facts are damaged: the image's name leads elsewhere");
    Ok(())
}

/// Whether a text is a plain file name without a path; the file is searched for beside the profile.
fn is_name(text: &str) -> bool {
    !text.contains(['/', '\0']) && !matches!(text, "." | "..")
}

/// Checks the counts of zones, and that each path's parent comes before it.
///
/// # Errors
/// When a count is larger, or a path's parent comes after it.
pub(crate) fn check_zones(zones: &Zones) -> Result<()> {
    let counts = |of: fn(&ZoneCounts) -> u64| zones.zones.iter().map(move |zone| of(&zone.counts));
    let are_small = [
        fits(counts(|counts| counts.calls), MOST),
        // A nested zone's instructions are also in the enclosing zone, so each count is checked alone.
        zones.zones.iter().all(|zone| zone.counts.total_insns <= MOST),
        fits(counts(|counts| counts.own_insns), MOST),
        fits(counts(|counts| counts.left), MOST),
        fits(counts(|counts| counts.orphans), MOST),
        fits(counts(|counts| counts.open), MOST),
        fits(zones.marks.iter().map(|mark| mark.count), MOST),
        fits(zones.exceptions.iter().map(|exception| exception.insns), MOST),
        fits(zones.exceptions.iter().map(|exception| exception.cycles), MAX_INSNS * MOST_CYCLES),
        fits(counts(|counts| counts.cycles.own), MAX_INSNS * MOST_CYCLES),
        zones.zones.iter().all(|Zone { counts: ZoneCounts { cycles, .. }, .. }| {
            is_length(&cycles.times) && cycles.total.max(cycles.elapsed) <= MAX_INSNS * MOST_CYCLES
        }),
        zones.zones.iter().all(|zone| zone.counts.longest_since_insns <= MAX_INSNS),
    ];
    ensure!(are_small.into_iter().all(|is| is), "the counts are damaged: they are larger than any run's");
    let are_within = zones.paths.iter().zip(0..).all(|(path, index)| path.parent <= index);
    ensure!(are_within, "the zones are damaged");
    Ok(())
}

/// Checks the counts of parts: each refers to entries of the whole profile, in order, and all of them together are possible.
///
/// # Errors
/// When a count is larger, or refers to an entry that does not exist.
pub(crate) fn check_parts(parts: &Parts, vcpus: &[VcpuCounts]) -> Result<()> {
    let are_parts = parts.list.iter().all(|part| {
        part.vcpus.len() == vcpus.len()
            && part.vcpus.iter().zip(vcpus).all(|(counts, whole)| {
                let places = counts.insns.iter().map(|&(gap, length, _)| u64::from(gap) + u64::from(length));
                fits(places, whole.insns.len() as u64)
                    && fits(counts.arcs.iter().map(|&(gap, _)| u64::from(gap) + 1), whole.arcs.len() as u64)
            })
    });
    let parts_of = |vcpu: usize| parts.list.iter().filter_map(move |part| part.vcpus.get(vcpu));
    let are_of_vcpus = (0..vcpus.len()).all(|vcpu| {
        let insns = parts_of(vcpu).flat_map(|counts| &counts.insns);
        fits(parts_of(vcpu).map(|counts| counts.clock_insns), MAX_INSNS)
            && fits(insns.map(|&(_, length, count)| u64::from(length).saturating_mul(count)), MAX_INSNS)
            && fits(parts_of(vcpu).flat_map(|counts| &counts.arcs).map(|&(_, count)| count), MAX_INSNS)
    });
    let list = || parts.list.iter();
    let beyond = list().flat_map(|part| &part.cycles.slower).map(|(_, beyond)| *beyond);
    let slower = beyond.flat_map(|Beyond { cycles, fewer, more }| [cycles, fewer, more].map(i64::unsigned_abs));
    let are_one_run = are_of_vcpus
        && fits(list().flat_map(|part| &part.tasks).map(|&(_, insns)| insns), MOST)
        && fits(list().flat_map(|part| &part.exceptions).map(|&(_, insns)| insns), MOST)
        && fits(list().map(|part| part.cycles.clock), MAX_INSNS * MOST_CYCLES)
        && fits(list().flat_map(|part| &part.cycles.exceptions).map(|&(_, cycles)| cycles), MAX_INSNS * MOST_CYCLES)
        && fits(slower, MAX_INSNS * MOST_CYCLES);
    let are_in_order = parts.list.is_sorted_by_key(|part| part.slice)
        && parts.list.last().is_none_or(|part| u64::from(part.slice) < MAX_INSNS >> 20);
    let are_samples = parts.samples.iter().all(|&(part, _)| (part as usize) < parts.list.len())
        && fits(parts.samples.iter().map(|&(_, count)| count), MAX_INSNS);
    ensure!(are_parts && are_one_run && are_in_order && are_samples, "the parts of the run are damaged");
    Ok(())
}

/// Whether counts add up to at most `most`.
fn fits(mut counts: impl Iterator<Item = u64>, most: u64) -> bool {
    counts.try_fold(0_u64, |sum, count| sum.checked_add(count)).is_some_and(|sum| sum <= most)
}

#[cfg(test)]
mod tests {
    use crate::profile::part::{Part, PartCounts, PartCycles};
    use crate::profile::testing::{freertos, interrupted};
    use crate::profile::zone::{Context, Exception, ZoneCycles, ZonePath};
    use crate::profile::{InsnCycles, Place, Profile, Span, SpanKind};

    use super::*;

    #[track_caller]
    fn assert_refused(profile: &Profile) {
        let error = Profile::from_bytes(&profile.to_bytes().unwrap()).unwrap_err().to_string();
        assert!(error.contains("larger than any run's"), "{error}");
    }

    /// Each part alone is possible.
    #[test]
    fn parts_that_cannot_be_added_up_are_damage() {
        type Change = fn(&mut Part);
        const fn cycles(cycles: i64) -> Beyond {
            Beyond { cycles, fewer: 0, more: 0 }
        }
        let changes: [Change; 5] = [
            |part| part.vcpus[0].clock_insns = MAX_INSNS,
            |part| part.tasks = vec![(0, MOST)],
            |part| part.cycles.clock = MAX_INSNS * MOST_CYCLES,
            |part| part.cycles.slower = vec![(0, cycles((MAX_INSNS * MOST_CYCLES) as i64))],
            |part| part.cycles.exceptions = vec![(1, MAX_INSNS * MOST_CYCLES)],
        ];
        for (index, change) in changes.into_iter().enumerate() {
            for parts in [1, 2] {
                let mut profile = freertos();
                let mut part = Part { vcpus: vec![PartCounts::default(); profile.vcpus.len()], ..Part::default() };
                change(&mut part);
                profile.parts.list = vec![part; parts];
                let loaded = Profile::from_bytes(&profile.to_bytes().unwrap());
                assert_eq!(loaded.is_ok(), parts == 1, "{index}");
            }
        }
    }

    #[test]
    fn cycles_that_cannot_be_added_up_are_damage() {
        const ROOM: u64 = MAX_INSNS * MOST_CYCLES;
        let sound = |profile: &Profile| Profile::from_bytes(&profile.to_bytes().unwrap()).is_ok();
        let zone =
            |cycles| Zone { name: 1, context: Context::Task(0), counts: ZoneCounts { cycles, ..Default::default() } };
        let length = |max| LengthCycles { min: 0, max, sum: 0 };
        for (cycles, is_sound) in [(ROOM, true), (ROOM + 1, false), (u64::MAX, false)] {
            let mut profiles = vec![interrupted(); 9];
            let mut each = profiles.iter_mut();
            let mut next = || each.next().unwrap();
            next().cycles = Some(Cycles { clock: cycles, ..Cycles::default() });
            next().zones.exceptions = vec![Exception { number: 1, handler: 0, insns: 1, cycles }];
            next().zones.zones = vec![zone(ZoneCycles { total: cycles, ..ZoneCycles::default() })];
            next().zones.zones = vec![zone(ZoneCycles { own: cycles, ..ZoneCycles::default() })];
            next().zones.zones = vec![zone(ZoneCycles { elapsed: cycles, ..ZoneCycles::default() })];
            next().zones.zones = vec![zone(ZoneCycles { times: length(cycles), ..ZoneCycles::default() })];
            next().spans.push(Span { cycles: length(cycles), ..Span::none(SpanKind::Masked) });
            let kind = wire::definition::NodeKind::Root { task: 0 };
            next().tree.push(Node { parent: 0, kind, via: None, insns: 0, calls: 0, cycles });
            let part = PartCycles { clock: cycles, ..PartCycles::default() };
            let vcpus = vec![PartCounts::default(); interrupted().vcpus.len()];
            next().parts.list = vec![Part { vcpus, cycles: part, ..Part::default() }];
            for (index, profile) in profiles.iter().enumerate() {
                assert_eq!(sound(profile), is_sound, "{index}: {cycles}");
            }
        }
        let mut slower = interrupted();
        let vcpus = vec![PartCounts::default(); slower.vcpus.len()];
        slower.parts.list = vec![Part { vcpus, ..Part::default() }];
        let of = |pc, cycles| (pc, Beyond { cycles, ..Beyond::default() });
        let doubt = |more| (4, Beyond { more, ..Beyond::default() });
        for (cycles, is_sound) in [
            (vec![of(0, -1), of(2, 1), doubt(1)], true),
            (vec![of(0, i64::MIN), of(2, i64::MIN)], false),
            (vec![doubt(i64::MAX), doubt(i64::MAX)], false),
        ] {
            slower.parts.list[0].cycles.slower = cycles;
            assert_eq!(sound(&slower), is_sound);
        }
        let insn = |usual| InsnCycles { usual, cycles: 1, ..InsnCycles::default() };
        for (usual, is_sound) in [(MOST_USUAL as u8, true), (u8::MAX, false)] {
            slower.parts.list.clear();
            slower.cycles = Some(Cycles { insns: vec![insn(usual)], ..Cycles::default() });
            assert_eq!(sound(&slower), is_sound);
        }
    }

    #[test]
    fn counts_that_cannot_be_added_up_are_damage() {
        let well_formed = interrupted().insn(0x52, MAX_INSNS);
        Profile::from_bytes(&well_formed.to_bytes().unwrap()).unwrap();
        assert_refused(&interrupted().insn(0x52, MAX_INSNS).insn(0x54, 1));
        assert_refused(&interrupted().insn(0x52, u64::MAX - 1).arc((0x40, 0x50), None, false, 3).insn(0x54, 0));
        let arcs = interrupted().arc((0x40, 0x50), None, false, u64::MAX).arc((0x42, 0x50), None, false, u64::MAX);
        assert_refused(&arcs);
        let mut tasks = freertos();
        tasks.tasks[0].switches = MOST;
        assert_refused(&tasks);
        let kind = wire::definition::NodeKind::Root { task: 0 };
        assert_refused(&interrupted().node(0, kind, MOST).node(0, kind, 1));
        let mut spans = interrupted();
        spans.spans.push(Span { count: MOST + 1, ..Span::none(SpanKind::Masked) });
        assert_refused(&spans);
        spans.spans[0] = Span { count: 1, longest_since_insns: MAX_INSNS + 1, ..Span::none(SpanKind::Masked) };
        assert_refused(&spans);
        let mut zones = interrupted();
        zones.zones.paths.push(ZonePath { parent: 1, name: 1, pc: 0 });
        assert!(Profile::from_bytes(&zones.to_bytes().unwrap()).is_err());
        let mut parts = interrupted().insn(0x52, 1);
        let counts = |index| PartCounts::new(1, std::iter::once((index, 1)), std::iter::empty());
        for (index, is_sound) in [(0, true), (1, false)] {
            parts.parts.list = vec![Part { vcpus: vec![counts(index)], ..Part::default() }];
            assert_eq!(Profile::from_bytes(&parts.to_bytes().unwrap()).is_ok(), is_sound);
        }
        parts.parts.list.clear();
        parts.parts.samples = vec![(0, 1)];
        assert!(Profile::from_bytes(&parts.to_bytes().unwrap()).is_err());
        let mut inlined = interrupted();
        let place = Place { function: 0, start_line: 1, line: 1, discriminator: 0, copies: 1 };
        for (length, is_sound) in [(MAX_PLACES, true), (MAX_PLACES + 1, false)] {
            inlined.names.places = vec![vec![place; length]];
            assert_eq!(Profile::from_bytes(&inlined.to_bytes().unwrap()).is_ok(), is_sound, "{length}");
        }
        let mut facts = interrupted();
        facts.facts.unresolved_transfers = u64::MAX;
        assert_refused(&facts);
        for (name, is_sound) in [("a b.elf", true), ("..elf", true), ("/etc/passwd", false), ("..", false)] {
            let mut named = interrupted();
            named.facts.image_name = name.to_owned();
            assert_eq!(Profile::from_bytes(&named.to_bytes().unwrap()).is_ok(), is_sound, "{name}");
        }
    }
}
