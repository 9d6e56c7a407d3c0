// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles of the processor, where the instructions tell them: on AVR.

use std::collections::{BTreeMap, BTreeSet};

use decode::Isa;
use pipeline::model::Insn;

use crate::analysis::owner::Owner;
use crate::analysis::stacks::Exceptions;
use crate::chip::core::{self, Core};
use crate::profile::part::Part;
use crate::profile::{Beyond, Cycles, InsnCycles, Profile};
use crate::text::number::{Hex, group};
use crate::text::printable::printable;

/// Cycles of each instruction, from its executions and from what the run has counted beyond the usual (fewer, if negative).
/// The clock is not among them.
pub fn count<'a>(
    isa: Isa,
    insns: &BTreeMap<u64, u64>,
    slower: &BTreeMap<u64, Beyond>,
    code_at: impl Fn(u64) -> Option<&'a [u8]>,
) -> Cycles {
    let mut cycles = Cycles::default();
    for (&pc, &executions) in insns.iter().filter(|(_, executions)| **executions > 0) {
        let beyond = slower.get(&pc).map_or(0, |beyond| beyond.cycles);
        let code = code_at(pc);
        let known = code.and_then(|code| decode::avr_cycles(code, isa.call_bytes().into()));
        // An instruction without usual cycles may have been skipped each time, and has taken one for each of its words then.
        let skipped = || {
            let words = u64::from(decode::decode(isa, pc, code?).len_bytes) / 2;
            (u64::try_from(beyond) == Ok(executions.saturating_mul(words))).then_some(0)
        };
        match known.or_else(skipped) {
            Some(usual) => {
                let sum = executions.saturating_mul(usual).saturating_add_signed(beyond);
                let usual = u8::try_from(usual).unwrap_or(u8::MAX);
                cycles.insns.push(InsnCycles { pc, usual, cycles: sum, ..InsnCycles::default() });
            }
            None => cycles.unknown.push(pc),
        }
    }
    cycles
}

/// Cycles of each instruction of a core, all of which the run has counted.
pub fn of_core<'a>(
    core: &Core,
    insns: &BTreeMap<u64, u64>,
    counted: &BTreeMap<u64, Beyond>,
    code_at: impl Fn(u64) -> Option<&'a [u8]>,
) -> Cycles {
    let mut cycles = Cycles { core: Some(core.name.clone()), ..Cycles::default() };
    for (&pc, _) in insns.iter().filter(|(_, executions)| **executions > 0) {
        // What is not in the file has been copied: its classes were decoded where it executed.
        let is_known = code_at(pc).is_none_or(|code| Insn::decode(&core.wire, code).is_known(&core.wire));
        if is_known {
            let beyond = counted.get(&pc).copied().unwrap_or_default();
            cycles.insns.push(summed(pc, 0, 0, beyond));
        } else {
            cycles.unknown.push(pc);
        }
    }
    cycles
}

/// Cycles of an instruction: of its executions the usual ones, and those beyond.
fn summed(pc: u64, usual: u8, executions: u64, beyond: Beyond) -> InsnCycles {
    let cycles = executions.saturating_mul(usual.into()).saturating_add_signed(beyond.cycles);
    let [fewer, more] = [beyond.fewer, beyond.more].map(|cycles| u64::try_from(cycles).unwrap_or(0));
    InsnCycles { pc, usual, cycles, fewer, more }
}

/// Cycles of parts of a run; None: they were not asked for.
pub fn of_parts<'a>(
    profile: &Profile,
    parts: impl Fn() -> Box<dyn Iterator<Item = &'a Part> + 'a>,
) -> Option<Cycles> {
    let whole = profile.cycles.as_ref()?;
    let usual: BTreeMap<u64, u8> = whole.insns.iter().map(|insn| (insn.pc, insn.usual)).collect();
    let unknown: BTreeSet<u64> = whole.unknown.iter().copied().collect();
    let (mut insns, mut beyond): (BTreeMap<u64, u64>, BTreeMap<u64, Beyond>) = Default::default();
    let mut cycles = Cycles { core: whole.core.clone(), clock_hz: whole.clock_hz, ..Cycles::default() };
    for part in parts() {
        cycles.clock = cycles.clock.saturating_add(part.cycles.clock);
        for (counts, whole) in part.vcpus.iter().zip(&profile.vcpus) {
            for (index, executions) in counts.executions() {
                let Some(insn) = whole.insns.get(index) else { continue };
                let sum = insns.entry(insn.pc).or_default();
                *sum = sum.saturating_add(executions);
            }
        }
        for &(pc, cycles) in &part.cycles.slower {
            beyond.entry(pc).or_default().plus(cycles);
        }
    }
    cycles.unknown = unknown.into_iter().filter(|pc| insns.contains_key(pc)).collect();
    cycles.insns = insns
        .into_iter()
        .filter_map(|(pc, executions)| {
            let usual = *usual.get(&pc)?;
            Some(summed(pc, usual, executions, beyond.get(&pc).copied().unwrap_or_default()))
        })
        .collect();
    Some(cycles)
}

/// Cycles of a part of the run; None: as for [`total`].
pub fn of_part(profile: &Profile, part: &Part) -> Option<u64> {
    known(profile).map(|_| part.cycles.clock)
}

/// Whether the cycles of all that executed are known.
pub fn are_known(profile: &Profile) -> bool {
    known(profile).is_some()
}

/// Cycles of each interrupt by its name, its entries included and other interrupts during it not; None: as for [`total`].
pub fn by_interrupt(profile: &Profile) -> Option<BTreeMap<String, u64>> {
    known(profile)?;
    let names = Exceptions::new(profile);
    let mut sums = BTreeMap::new();
    for exception in &profile.zones.exceptions {
        let sum: &mut u64 = sums.entry(names.name(exception.number, exception.handler)).or_default();
        *sum = sum.saturating_add(exception.cycles);
    }
    Some(sums)
}

/// Cycles of the whole run; None: they were not asked for, or those of an executed instruction are not known.
pub fn total(profile: &Profile) -> Option<u64> {
    Some(known(profile)?.insns.iter().map(|insn| insn.cycles).fold(0, u64::saturating_add))
}

/// Interval of the cycles of the whole run, where they are known to one only; None: also if they are proved.
pub fn interval(profile: &Profile) -> Option<(u64, u64)> {
    let (fewer, more) = doubt(profile)?;
    let sum = total(profile)?;
    Some((sum.saturating_sub(fewer), sum.saturating_add(more)))
}

/// Whether the cycles of all that executed are known, and to one number each.
pub fn are_proved(profile: &Profile) -> bool {
    are_known(profile) && doubt(profile).is_none()
}

/// Cycles of the instructions whose addresses are asked for, with the fewest and the most.
pub fn sum_where(profile: &Profile, is_asked: impl Fn(u64) -> bool) -> (u64, (u64, u64)) {
    let insns = known(profile).into_iter().flat_map(|cycles| &cycles.insns).filter(|insn| is_asked(insn.pc));
    insns.fold((0, (0, 0)), |(sum, (least, most)), insn| {
        let (fewest, all) = (insn.cycles.saturating_sub(insn.fewer), insn.cycles.saturating_add(insn.more));
        (sum.saturating_add(insn.cycles), (least.saturating_add(fewest), most.saturating_add(all)))
    })
}

/// Cycles by which those of the whole run may be too many, and too few; None: as for [`interval`].
pub fn doubt(profile: &Profile) -> Option<(u64, u64)> {
    let cycles = known(profile)?;
    let sum = |of: fn(&InsnCycles) -> u64| cycles.insns.iter().map(of).fold(0, u64::saturating_add);
    let (fewer, more) = (sum(|insn| insn.fewer), sum(|insn| insn.more));
    (fewer > 0 || more > 0).then_some((fewer, more))
}

/// Cycles by which those of each function's code may be fewer and more, as [`by_function`]; None: as for [`interval`].
pub fn doubts_by_function(profile: &Profile) -> Option<BTreeMap<Option<u64>, (u64, u64)>> {
    interval(profile)?;
    let mut doubts = BTreeMap::new();
    for insn in &known(profile)?.insns {
        let (fewer, more): &mut (u64, u64) = doubts.entry(Owner::of(profile, insn.pc).start()).or_default();
        *fewer = fewer.saturating_add(insn.fewer);
        *more = more.saturating_add(insn.more);
    }
    Some(doubts)
}

/// Cycles of each instruction that executed, by address; None: as for [`total`].
pub fn by_pc(profile: &Profile) -> Option<BTreeMap<u64, u64>> {
    Some(known(profile)?.insns.iter().map(|insn| (insn.pc, insn.cycles)).collect())
}

/// Cycles of each function's code, by its first address (None: the boot ROM); None: as for [`total`].
pub fn by_function(profile: &Profile) -> Option<BTreeMap<Option<u64>, u64>> {
    let mut values = BTreeMap::new();
    for insn in &known(profile)?.insns {
        let sum: &mut u64 = values.entry(Owner::of(profile, insn.pc).start()).or_default();
        *sum = sum.saturating_add(insn.cycles);
    }
    Some(values)
}

fn known(profile: &Profile) -> Option<&Cycles> {
    profile.cycles.as_ref().filter(|cycles| cycles.unknown.is_empty())
}

/// Description of an interval.
pub fn describe((least, most): (u64, u64)) -> String {
    format!("between {} and {}", group(least), group(most))
}

/// Interval of the whole run in brackets behind a space; empty: as for [`interval`].
pub fn in_brackets(profile: &Profile) -> String {
    interval(profile).map_or_else(String::new, |interval| format!(" ({})", describe(interval)))
}

/// The sum in a sentence, or the reason why there is none; None: cycles were not asked for.
pub fn sentence(profile: &Profile) -> Option<String> {
    let cycles = profile.cycles.as_ref()?;
    if let Some(&pc) = cycles.unknown.first() {
        return Some(format!(
            "cycles: not known, since the instruction at {} has none in the {}",
            Hex(pc),
            match &cycles.core {
                Some(core) => format!("description of {} (see docs/cycles.md)", printable(core)),
                None => "manual (spm, or no instruction of this chip)".to_owned(),
            }
        ));
    }
    let (sum, insns) = (total(profile)?, profile.total_insns());
    let mean = sum as f64 / insns.max(1) as f64;
    let core = cycles.core.as_ref().map_or_else(String::new, |core| {
        let unheld = if core::is_unheld(core) { " by its manual, and held on no board" } else { "" };
        format!(" of {}{unheld}", printable(core))
    });
    Some(format!("cycles: {}{core}{}, {mean:.2} for each instruction", group(sum), in_brackets(profile)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;

    #[test]
    fn what_the_run_counted_is_added_to_the_usual_cycles() {
        // ldi r24, 3; dec r24; brne .-4; jmp 0; spm
        let code: Vec<u8> =
            [0xe083_u16, 0x958a, 0xf7f1, 0x940c, 0, 0x95e8].iter().flat_map(|insn| insn.to_le_bytes()).collect();
        let code_at = |pc: u64| code.get(pc as usize..).filter(|code| !code.is_empty());
        let mut insns = BTreeMap::from([(0, 1), (2, 3), (4, 3), (6, 1), (10, 0)]);
        let more = |cycles| Beyond { cycles, ..Beyond::default() };
        let slower = BTreeMap::from([(4, more(2)), (6, more(-1))]);
        let cycles = count(Isa::AvrPc16, &insns, &slower, code_at);
        let of = |pc, usual, cycles| InsnCycles { pc, usual, cycles, ..InsnCycles::default() };
        let counted = vec![of(0, 1, 1), of(2, 1, 3), of(4, 1, 5), of(6, 3, 2)];
        assert_eq!(cycles, Cycles { insns: counted, ..Cycles::default() });
        let mut profile = empty().function("f", 0, 6).insn(0, 1).insn(2, 3).insn(4, 3).insn(6, 1);
        assert_eq!((total(&profile), sentence(&profile)), (None, None));
        profile.cycles = Some(cycles);
        assert_eq!(total(&profile), Some(11));
        assert_eq!(by_function(&profile), Some(BTreeMap::from([(Some(0), 9), (Some(6), 2)])));
        assert_eq!(sentence(&profile).unwrap(), "cycles: 11, 1.38 for each instruction");
        insns.insert(10, 1);
        profile.cycles = Some(count(Isa::AvrPc16, &insns, &slower, code_at));
        assert_eq!(total(&profile), None);
        let skipped = BTreeMap::from([(4, more(2)), (6, more(-1)), (10, more(1))]);
        let all = count(Isa::AvrPc16, &insns, &skipped, code_at);
        assert_eq!((all.insns.last(), all.unknown.len()), (Some(&of(10, 0, 1)), 0), "spm was skipped");
        assert!(sentence(&profile).unwrap().starts_with("cycles: not known, since the instruction at 0x0000000a"));
    }
}
