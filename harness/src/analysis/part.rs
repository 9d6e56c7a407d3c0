// SPDX-License-Identifier: MIT OR Apache-2.0
//! A part of a run as a profile of its own: the counts and samples of a phase or a slice. Its call stacks are the
//! samples'; the exact call tree and spans only exist for the whole run.

use std::collections::{BTreeMap, HashMap};

use crate::analysis::cycles;
use crate::analysis::owner::Owner;
use crate::profile::part::Part;
use crate::profile::zone::Exception;
use crate::profile::{Parts, Profile, VcpuCounts, Zones};

/// Name of the time before the first phase.
pub const NO_PHASE: &str = "[no phase]";

/// Message for a profile without phases.
pub const NO_PHASES: &str = "the firmware named no phase in this run; PHASE(\"name\") of zone.h names one";

/// Phases in the order of their first beginnings: number and name.
pub fn phases(profile: &Profile) -> Vec<(u32, String)> {
    let mut phases: Vec<(u32, String)> = Vec::new();
    if !profile.parts.has_phases() {
        return phases;
    }
    for part in &profile.parts.list {
        if !phases.iter().any(|&(phase, _)| phase == part.phase) {
            let name = profile.zones.name(part.phase);
            let name = if part.phase == 0 { NO_PHASE } else { name };
            phases.push((part.phase, name.to_owned()));
        }
    }
    phases
}

/// Name of the frame for a phase.
pub fn phase_frame(name: &str) -> String {
    if name == NO_PHASE { name.to_owned() } else { format!("[phase {name}]") }
}

/// The profile restricted to the selected parts.
pub fn of(profile: &Profile, is_meant: impl Fn(&Part) -> bool) -> Profile {
    let meant: Vec<bool> = profile.parts.list.iter().map(is_meant).collect();
    let parts = || profile.parts.list.iter().zip(&meant).filter(|&(_, &is)| is).map(|(part, _)| part);
    let vcpu = |(index, whole): (usize, &VcpuCounts)| {
        let (mut insns, mut arcs) = (BTreeMap::<usize, u64>::new(), BTreeMap::<usize, u64>::new());
        let mut clock_insns = 0;
        for counts in parts().filter_map(|part| part.vcpus.get(index)) {
            clock_insns += counts.clock_insns;
            counts.executions().for_each(|(index, count)| *insns.entry(index).or_default() += count);
            counts.transfers().for_each(|(index, count)| *arcs.entry(index).or_default() += count);
        }
        let mut counts = VcpuCounts { clock_insns, ..VcpuCounts::default() };
        for (index, count) in insns {
            counts.insns.extend(whole.insns.get(index).map(|&insn| crate::profile::InsnCount { count, ..insn }));
        }
        for (index, count) in arcs {
            counts.arcs.extend(whole.arcs.get(index).map(|&arc| crate::profile::Arc { count, ..arc }));
        }
        counts
    };
    let samples = profile.samples.iter().zip(profile.parts.of_samples());
    let samples = samples.filter(|&(_, part)| meant.get(part as usize) == Some(&true));
    let (mut of_tasks, mut of_exceptions) = (BTreeMap::<u32, u64>::new(), BTreeMap::<u64, u64>::new());
    let mut cycles_of_exceptions = BTreeMap::<u64, u64>::new();
    for part in parts() {
        part.tasks.iter().for_each(|&(task, insns)| *of_tasks.entry(task).or_default() += insns);
        part.exceptions.iter().for_each(|&(number, insns)| *of_exceptions.entry(number).or_default() += insns);
        for &(number, cycles) in &part.cycles.exceptions {
            let sum = cycles_of_exceptions.entry(number).or_default();
            *sum = sum.saturating_add(cycles);
        }
    }
    let mut tasks = profile.tasks.clone();
    for (task, number) in tasks.iter_mut().zip(1..) {
        task.insns = of_tasks.get(&number).copied().unwrap_or(0);
    }
    let exceptions = profile.zones.exceptions.iter();
    let exceptions = exceptions.map(|exception| Exception {
        insns: of_exceptions.get(&exception.number).copied().unwrap_or(0),
        cycles: cycles_of_exceptions.get(&exception.number).copied().unwrap_or(0),
        ..*exception
    });
    let mut facts = profile.facts.clone();
    facts.waiting.called_insns = parts().map(|part| part.called_insns).fold(0, u64::saturating_add);
    Profile {
        facts,
        vcpus: profile.vcpus.iter().enumerate().map(vcpu).collect(),
        samples: samples.map(|(sample, _)| wire::sample::Sample { node: 0, ..*sample }).collect(),
        stacks: profile.stacks.clone(),
        tasks,
        tree: Vec::new(),
        console_marks: Vec::new(),
        spans: Vec::new(),
        zones: Zones {
            names: profile.zones.names.clone(),
            paths: profile.zones.paths.clone(),
            exceptions: exceptions.filter(|exception| exception.insns > 0).collect(),
            ..Zones::default()
        },
        parts: Parts::default(),
        notes: Vec::new(),
        names: profile.names.clone(),
        code: profile.code.clone(),
        tables: profile.tables.clone(),
        in_target: None,
        heap: None,
        timeline: None,
        edges: Vec::new(),
        cycles: cycles::of_parts(profile, || Box::new(parts())),
    }
}

/// A profile for each phase with its name, in the order of their beginnings.
///
/// # Errors
/// If the firmware has named no phase; the error is the message.
pub fn by_phase(profile: &Profile) -> Result<Vec<(String, Profile)>, &'static str> {
    let phases = phases(profile);
    if phases.is_empty() {
        return Err(NO_PHASES);
    }
    Ok(phases.into_iter().map(|(phase, name)| (name, of(profile, |part| part.phase == phase))).collect())
}

/// Instructions by function for each part, computed for all parts at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByFunction {
    /// Executed functions and other places: names, and first addresses, which distinguish namesakes.
    pub functions: Vec<(String, Option<u64>)>,
    /// Instructions by index of the function, for each part of the profile's list.
    pub parts: Vec<BTreeMap<u32, u64>>,
    /// Cycles likewise; None: they are not known.
    pub cycles: Option<Vec<BTreeMap<u32, u64>>>,
}

impl ByFunction {
    /// Table of a profile.
    pub fn new(profile: &Profile) -> ByFunction {
        let mut by_function = ByFunction::default();
        let mut numbers: BTreeMap<(Option<u64>, String), u32> = BTreeMap::new();
        let places: Vec<Vec<u32>> = profile
            .vcpus
            .iter()
            .map(|vcpu| {
                let place = |insn: &crate::profile::InsnCount| {
                    let place = Owner::of(profile, insn.pc);
                    let key = (place.start(), place.to_string());
                    *numbers.entry(key).or_insert_with_key(|(start, name)| {
                        by_function.functions.push((name.clone(), *start));
                        by_function.functions.len() as u32 - 1
                    })
                };
                vcpu.insns.iter().map(place).collect()
            })
            .collect();
        for part in &profile.parts.list {
            let mut insns: BTreeMap<u32, u64> = BTreeMap::new();
            for (counts, places) in part.vcpus.iter().zip(&places) {
                for (index, count) in counts.executions() {
                    if let Some(&function) = places.get(index) {
                        *insns.entry(function).or_default() += count;
                    }
                }
            }
            by_function.parts.push(insns);
        }
        by_function.cycles = cycles::are_known(profile).then(|| cycles_by_place(profile, &places));
        by_function
    }
}

/// Cycles of each part by function. `places`: the function of each entry in a vCPU's list of instructions.
fn cycles_by_place(profile: &Profile, places: &[Vec<u32>]) -> Vec<BTreeMap<u32, u64>> {
    let usual: HashMap<u64, u8> =
        profile.cycles.iter().flat_map(|cycles| &cycles.insns).map(|insn| (insn.pc, insn.usual)).collect();
    let usual: Vec<Vec<u8>> = profile
        .vcpus
        .iter()
        .map(|vcpu| vcpu.insns.iter().map(|insn| usual.get(&insn.pc).copied().unwrap_or(0)).collect())
        .collect();
    let place_of: HashMap<u64, u32> = profile
        .vcpus
        .iter()
        .zip(places)
        .flat_map(|(vcpu, places)| vcpu.insns.iter().map(|insn| insn.pc).zip(places.iter().copied()))
        .collect();
    let of_part = |part: &Part| {
        let mut sums: BTreeMap<u32, i64> = BTreeMap::new();
        for ((counts, places), usual) in part.vcpus.iter().zip(places).zip(&usual) {
            for (index, count) in counts.executions() {
                if let (Some(&function), Some(&usual)) = (places.get(index), usual.get(index)) {
                    let sum = sums.entry(function).or_default();
                    *sum = sum.saturating_add_unsigned(count.saturating_mul(usual.into()));
                }
            }
        }
        for (pc, beyond) in &part.cycles.slower {
            if let Some(&function) = place_of.get(pc) {
                let sum = sums.entry(function).or_default();
                *sum = sum.saturating_add(beyond.cycles);
            }
        }
        sums.into_iter().map(|(function, cycles)| (function, cycles.max(0) as u64)).collect()
    };
    profile.parts.list.iter().map(of_part).collect()
}

/// Instructions of the kernel's idle tasks, and of code that only waits.
pub fn idle_insns(profile: &Profile, part: &Part) -> u64 {
    let is_idle = |task: u32| profile.task(task).is_some_and(|task| task.is_idle);
    let tasks: u64 = part.tasks.iter().filter(|&&(task, _)| is_idle(task)).map(|&(_, insns)| insns).sum();
    let waiting = &profile.facts.waiting;
    if waiting.code.is_empty() {
        return tasks;
    }
    let executions = profile.vcpus.iter().zip(&part.vcpus).flat_map(|(whole, part)| {
        part.executions().filter_map(|(index, count)| Some((whole.insns.get(index)?.pc, count)))
    });
    tasks.saturating_add(waiting.insns(executions, part.called_insns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::WaitingCode;
    use crate::profile::part::{PartCounts, PartCycles};
    use crate::profile::testing::empty;

    fn profile() -> Profile {
        let mut profile = empty()
            .function("main", 0x40, 8)
            .insn(0x40, 30)
            .insn(0x42, 7)
            .arc((0x40, 0x40), Some(0x43), true, 5)
            .taken(1, 0x40, 0, 0)
            .taken(1, 0x42, 0, 0)
            .task_called("idle");
        profile.vcpus[0].clock_insns = 37;
        profile.tasks[0].is_idle = true;
        profile.zones.names = vec!["boot".to_owned(), "work".to_owned()];
        let part = |slice, phase, clock, insns: &[(usize, u64)], arcs: &[(usize, u64)]| Part {
            slice,
            phase,
            vcpus: vec![PartCounts::new(clock, insns.iter().copied(), arcs.iter().copied())],
            tasks: vec![(0, clock - 1), (1, 1)],
            exceptions: Vec::new(),
            cycles: PartCycles::default(),
            called_insns: 0,
        };
        profile.parts.list = vec![
            part(0, 0, 10, &[(0, 10)], &[]),
            part(0, 2, 20, &[(0, 20)], &[(0, 5)]),
            part(1, 2, 7, &[(1, 7)], &[]),
        ];
        profile.parts.samples = vec![(0, 1), (2, 1)];
        profile.parts.slice_insns = Some(30);
        profile
    }

    #[test]
    fn phases_are_in_the_order_in_which_they_began_and_sum_to_the_whole() {
        let profile = profile();
        let phases = by_phase(&profile).unwrap();
        let names: Vec<_> = phases.iter().map(|(name, part)| (name.as_str(), part.total_insns())).collect();
        assert_eq!(names, [(NO_PHASE, 10), ("work", 27)]);
        let work = &phases[1].1;
        assert_eq!(work.insns(), [(0x40, 20), (0x42, 7)].into());
        assert_eq!((work.vcpus[0].arcs[0].count, work.samples.len(), work.tasks[0].insns), (5, 1, 2));
        assert_eq!(by_phase(&empty()).unwrap_err(), NO_PHASES);
        Profile::from_bytes(&work.to_bytes().unwrap()).unwrap();
        assert_eq!(Profile::from_bytes(&profile.to_bytes().unwrap()).unwrap().parts, profile.parts);
    }

    #[test]
    fn a_slice_is_what_was_counted_in_it() {
        let profile = profile();
        assert_eq!(profile.parts.slices(), 2);
        let first = of(&profile, |part| part.slice == 0);
        assert_eq!((first.total_insns(), first.samples.len()), (30, 1));
        assert_eq!(idle_insns(&profile, &profile.parts.list[1]), 1);
        let mut waits = profile.clone();
        waits.facts.waiting.functions = vec!["delay".to_owned()];
        waits.facts.waiting.code = vec![WaitingCode { start: 0x40, end: 0x42, function: 0 }];
        waits.parts.list[1].called_insns = 3;
        assert_eq!(idle_insns(&waits, &waits.parts.list[1]), 1 + 20 + 3);
        assert_eq!(idle_insns(&waits, &waits.parts.list[2]), 1);
        let phase = of(&waits, |part| part.phase == 2);
        assert_eq!(phase.facts.waiting.called_insns, 3);
        let by_function = ByFunction::new(&profile);
        assert_eq!(by_function.functions, [("main".to_owned(), Some(0x40))]);
        assert_eq!(by_function.parts, [[(0, 10)].into(), [(0, 20)].into(), [(0, 7)].into()]);
    }
}
