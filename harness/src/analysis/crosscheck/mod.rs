// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cross-check of samples against exact counts, and of in-target counts (the firmware's own, of its calls of
//! `_mcount`) against exact ones ([`in_target`]). These are independent measurements of one run.
//!
//! A function whose share of the samples is not its share of the instructions keeps step with the sampling period
//! (aliasing): its counts are exact, its samples misleading. Any other difference is a fault of the profiler and
//! never the firmware's.

pub mod in_target;

use std::collections::BTreeMap;
use std::fmt;

use rustc_hash::FxHashMap;

use crate::analysis::crosscheck::in_target::Comparison;
use crate::analysis::functions::{RowKind, Table};
use crate::analysis::stack_proof;
use crate::profile::{End, InTarget, Profile};
use crate::text::number::{Hex, group};

/// Standard deviations beyond which chance is ruled out: 1 in 1.7 million.
pub const MAX_Z: f64 = 5.0;

/// The result of the cross-check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CrossCheck {
    /// Functions whose samples cannot be explained by chance, largest deviation first.
    pub aliased: Vec<Aliased>,
    /// Contradictions that no firmware can cause, each in one sentence.
    pub inconsistencies: Vec<String>,
    /// Faults of the stacks and the exact call tree, each in one sentence.
    pub faults: Vec<String>,
    /// Number of functions compared, including address ranges without a name.
    pub functions: usize,
    /// Whether some of these are address ranges.
    pub has_ranges: bool,
    /// Number of samples compared.
    pub samples: u64,
    /// Largest deviation in standard deviations, without its sign.
    pub largest_z: f64,
    /// Whether the samples were dithered.
    pub jittered: bool,
    /// Comparison of in-target and exact counts; None: the firmware lacks the in-target runtime.
    pub in_target: Option<Comparison>,
    /// Reason why the in-target table could not be read.
    pub in_target_unread: Option<String>,
}

/// A function that keeps step with the sampling period.
#[derive(Clone, Debug, PartialEq)]
pub struct Aliased {
    /// Its name.
    pub name: String,
    /// Its first address.
    pub start: Option<u64>,
    /// Number of its samples.
    pub samples: u64,
    /// Number of samples expected from its exact share of the instructions.
    pub expected_samples: f64,
    /// Deviation in standard deviations, negative for too few.
    pub z: f64,
}

/// Compares the samples of a profile with its exact counts; `table` is the profile's.
pub fn check(profile: &Profile, table: &Table) -> CrossCheck {
    let mut aliased: Vec<Aliased> = table
        .rows
        .iter()
        .filter(|row| row.z.abs() > MAX_Z)
        .map(|row| Aliased {
            name: row.name.clone(),
            start: row.start,
            samples: row.samples,
            expected_samples: row.expected_samples,
            z: row.z,
        })
        .collect();
    // A stable sort: equal deviations stay in the table's order.
    aliased.sort_by(|one, other| other.z.abs().total_cmp(&one.z.abs()));
    CrossCheck {
        aliased,
        inconsistencies: inconsistencies(profile, table),
        faults: stack_proof::faults(profile),
        functions: table.rows.len(),
        has_ranges: table.rows.iter().any(|row| row.kind == RowKind::Unnamed),
        samples: table.total_samples,
        largest_z: table.rows.iter().map(|row| row.z.abs()).fold(0.0, f64::max),
        jittered: profile.facts.jitter_seed.is_some(),
        in_target: match &profile.in_target {
            Some(InTarget::Table(counts)) => Some(in_target::compare(profile, counts, table)),
            _ => None,
        },
        in_target_unread: match &profile.in_target {
            Some(InTarget::Unread(why)) => Some(why.clone()),
            _ => None,
        },
    }
}

impl CrossCheck {
    /// Whether the samples give no cause for a message.
    pub fn is_clean(&self) -> bool {
        self.aliased.is_empty() && self.inconsistencies.is_empty()
    }

    /// Whether all counts agree, as `--strict` demands. Aliasing is not a difference of counts; firmware without counts
    /// of its own has none; unreadable counts do not agree.
    pub fn counts_agree(&self) -> bool {
        let counted = self.in_target.as_ref().is_none_or(|comparison| !comparison.has_losses());
        self.inconsistencies.is_empty() && self.faults.is_empty() && counted && self.in_target_unread.is_none()
    }

    /// Verdict on the in-target counts, line by line; names at most `most` differences.
    pub fn in_target_lines(&self, most: Option<usize>) -> Vec<String> {
        let unread = self.in_target_unread.iter().map(|why| format!("in-target: the firmware's table {why}"));
        unread.chain(self.in_target.iter().flat_map(|comparison| comparison.lines(most))).collect()
    }
}

/// The verdict: one line, and one more for each named fault. `{:#}` adds the samples' deviation if they agree.
impl fmt::Display for CrossCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for inconsistency in &self.inconsistencies {
            writeln!(f, "internal inconsistency, please report it: {inconsistency}")?;
        }
        if self.samples == 0 {
            return write!(
                f,
                "cross-check: no samples to compare with the exact counts (run longer, or lower --period)"
            );
        }
        let (samples, functions) = (group(self.samples), self.functions);
        let plural = match functions {
            _ if self.has_ranges => "functions and address ranges",
            1 => "function",
            _ => "functions",
        };
        if self.aliased.is_empty() {
            write!(f, "cross-check: {samples} samples agree with the exact counts of {functions} {plural}")?;
            if f.alternate() {
                write!(f, " (largest deviation: {:.1} standard deviations)", self.largest_z)?;
            }
            return Ok(());
        }
        let advice = if self.jittered {
            "another --seeded-jitter or --period"
        } else {
            "--seeded-jitter 1, or another --period"
        };
        write!(
            f,
            "cross-check: ALIASING in {} of {functions} {plural}: a loop keeps step with the sampling period. The \
             counts are exact, the samples mislead; try {advice}",
            self.aliased.len()
        )?;
        for aliased in &self.aliased {
            write!(
                f,
                "\n  {}: {} samples where {:.1} are expected ({:+.1} standard deviations)",
                aliased.name,
                group(aliased.samples),
                aliased.expected_samples,
                aliased.z
            )?;
        }
        Ok(())
    }
}

/// Checks that fail only if the profiler is wrong; a sentence for each failure.
fn inconsistencies(profile: &Profile, table: &Table) -> Vec<String> {
    let mut found = Vec::new();
    let by_function: u64 = table.rows.iter().map(|row| row.self_insns).sum();
    if by_function != table.total_insns {
        found.push(format!(
            "the functions' instructions add up to {}, not to {}",
            group(by_function),
            group(table.total_insns)
        ));
    }

    // By vCPU: number of samples, and samples by instruction. There may be millions.
    let mut samples: Vec<(u64, FxHashMap<u64, u64>)> = vec![Default::default(); profile.vcpus.len()];
    let mut misplaced = None;
    for sample in &profile.samples {
        let index = sample.vcpu as usize;
        let Some((number, taken)) = samples.get_mut(index) else {
            found.push(format!("a sample was taken on vCPU {index}, which executed nothing"));
            return found;
        };
        *taken.entry(sample.pc).or_default() += 1;
        *number += 1;
        // Without dither, the k-th sample is at exactly k periods.
        if profile.facts.jitter_seed.is_none()
            && number.checked_mul(profile.facts.period_insns) != Some(sample.at_insns)
        {
            misplaced.get_or_insert((*number, *sample));
        }
    }
    if let Some((number, sample)) = misplaced {
        found.push(format!(
            "sample {} of vCPU {} was taken at instruction {}",
            group(number),
            sample.vcpu,
            group(sample.at_insns)
        ));
    }

    for (index, (vcpu, (number, taken))) in profile.vcpus.iter().zip(samples).enumerate() {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for insn in &vcpu.insns {
            *counts.entry(insn.pc).or_default() += insn.count;
        }
        let total: u64 = counts.values().sum();
        let taken: BTreeMap<u64, u64> = taken.into_iter().collect();
        for (pc, sampled) in taken {
            let executed = counts.get(&pc).copied().unwrap_or(0);
            if sampled > executed {
                found.push(format!(
                    "the instruction at {} was sampled {} times on vCPU {index} and executed {} times",
                    Hex(pc),
                    group(sampled),
                    group(executed)
                ));
                break;
            }
        }
        let expected = total / profile.facts.period_insns.max(1);
        // A killed emulator may lose its last samples.
        let complete = !matches!(profile.facts.end, End::EmulatorFailed { .. });
        if complete && vcpu.clock_insns != total {
            found.push(format!(
                "the clock of vCPU {index} counted {} instructions, but the counts of its instructions add up to {}",
                group(vcpu.clock_insns),
                group(total)
            ));
        }
        if complete && profile.facts.jitter_seed.is_none() && number != expected {
            found.push(format!(
                "vCPU {index} executed {} instructions, which should give {} samples, but it has {}",
                group(total),
                group(expected),
                group(number)
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::functions;
    use crate::profile::testing::empty;

    fn checked(profile: &Profile) -> CrossCheck {
        check(profile, &functions::table(profile))
    }

    fn two_functions() -> Profile {
        empty().function("hot", 0x40, 4).function("cold", 0x44, 4).insn(0x40, 9000).insn(0x44, 1005)
    }

    #[test]
    fn a_healthy_profile_gets_one_line() {
        let check = checked(&two_functions().sampled());
        assert!(check.is_clean(), "{check}");
        let text = check.to_string();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("1,000 samples agree with the exact counts of 2 functions"), "{text}");
    }

    #[test]
    fn a_loop_that_keeps_step_is_named() {
        let mut profile = two_functions().sampled();
        for sample in &mut profile.samples {
            sample.pc = 0x40;
        }
        let check = checked(&profile);
        assert_eq!(check.inconsistencies, [""; 0]);
        let mut names: Vec<_> = check.aliased.iter().map(|aliased| aliased.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["cold", "hot"]);
        let text = check.to_string();
        assert!(text.contains("ALIASING in 2 of 2 functions") && text.contains("--seeded-jitter"), "{text}");
        assert!(text.contains("hot: 1,000 samples where 899.6 are expected (+10.6 standard deviations)"), "{text}");
    }

    #[test]
    fn without_samples_it_says_so() {
        let check = checked(&empty());
        assert!(check.is_clean());
        assert!(check.to_string().contains("no samples"), "{check}");
    }

    #[test]
    fn what_cannot_be_is_reported() {
        let broken = |break_it: fn(&mut Profile)| {
            let mut profile = two_functions().sampled();
            break_it(&mut profile);
            let check = checked(&profile);
            assert!(!check.is_clean());
            assert!(check.to_string().starts_with("internal inconsistency, please report it: "), "{check}");
            check.inconsistencies.join("; ")
        };
        let text = broken(|profile| profile.samples[3].pc = 0x48);
        assert!(text.contains("0x00000048 was sampled 1 times on vCPU 0 and executed 0 times"), "{text}");
        let text = broken(|profile| profile.samples[3].at_insns += 1);
        assert!(text.contains("sample 4 of vCPU 0 was taken at instruction 41"), "{text}");
        let text = broken(|profile| profile.samples.truncate(999));
        assert!(
            text.contains("executed 10,005 instructions, which should give 1,000 samples, but it has 999"),
            "{text}"
        );
        let text = broken(|profile| profile.samples[0].vcpu = 1);
        assert!(text.contains("vCPU 1"), "{text}");
        let text = broken(|profile| profile.vcpus[0].clock_insns += 1);
        assert!(
            text.contains("counted 10,006 instructions, but the counts of its instructions add up to 10,005"),
            "{text}"
        );
    }

    #[test]
    fn dithered_samples_need_not_be_on_the_period() {
        let mut profile = two_functions().sampled();
        profile.facts.jitter_seed = Some(1);
        profile.samples[3].at_insns += 1;
        profile.samples.pop();
        assert!(checked(&profile).is_clean());
    }

    #[test]
    fn a_killed_emulator_may_have_lost_samples() {
        let mut profile = two_functions().sampled();
        profile.facts.end = End::EmulatorFailed { message: "killed".to_owned() };
        profile.samples.pop();
        assert!(checked(&profile).is_clean());
    }

    #[test]
    fn a_period_that_no_run_has_is_inconsistent() {
        let mut profile = two_functions().taken(3, 0x40, 0, 0);
        profile.facts.period_insns = u64::MAX;
        assert!(!checked(&profile).inconsistencies.is_empty());
    }
}
