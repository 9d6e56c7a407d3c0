//! Sampled against exact: two measurements of one run by different means, so that each vouches for the
//! other.
//!
//! A function whose share of the samples is not its share of the instructions keeps step with the
//! sampling period (aliasing): its counts are exact, its samples misleading. Anything else that does
//! not fit is a fault of the profiler and never the firmware's.

use std::collections::BTreeMap;
use std::fmt;

use crate::functions::Table;
use crate::profile::{End, Profile};
use crate::verdict::group;

/// Standard deviations beyond which chance is ruled out: 1 in 1.7 million.
pub const MAX_Z: f64 = 5.0;

/// What the comparison came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CrossCheck {
    /// Functions whose samples cannot be chance, largest deviation first.
    pub aliased: Vec<Aliased>,
    /// What can never be, each one sentence: an internal inconsistency.
    pub inconsistencies: Vec<String>,
    /// Functions (and address ranges that stand for them) compared.
    pub functions: usize,
    /// Samples compared.
    pub samples: u64,
    /// The largest deviation, in standard deviations, regardless of its sign.
    pub largest_z: f64,
    /// The samples were dithered.
    pub jittered: bool,
}

/// A function that keeps step with the sampling period.
#[derive(Clone, Debug, PartialEq)]
pub struct Aliased {
    /// Its name.
    pub name: String,
    /// Its first address.
    pub start: Option<u64>,
    /// Its share of the samples.
    pub samples: u64,
    /// What its exact share of the instructions lets expect.
    pub expected_samples: f64,
    /// Their distance in standard deviations, negative for too few.
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
    // Stable: equal deviations stay in the table's order.
    aliased.sort_by(|one, other| other.z.abs().total_cmp(&one.z.abs()));
    CrossCheck {
        aliased,
        inconsistencies: inconsistencies(profile, table),
        functions: table.rows.len(),
        samples: table.total_samples,
        largest_z: table.rows.iter().map(|row| row.z.abs()).fold(0.0, f64::max),
        jittered: profile.facts.jitter_seed.is_some(),
    }
}

impl CrossCheck {
    /// Nothing to tell.
    pub fn is_clean(&self) -> bool {
        self.aliased.is_empty() && self.inconsistencies.is_empty()
    }
}

/// The verdict: one line, and one more for each thing that is named.
impl fmt::Display for CrossCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for inconsistency in &self.inconsistencies {
            writeln!(f, "internal inconsistency, please report it: {inconsistency}")?;
        }
        if self.samples == 0 {
            return write!(f, "cross-check: no samples to compare with the exact counts (run longer, or lower --period)");
        }
        let (samples, functions) = (group(self.samples), self.functions);
        let plural = if functions == 1 { "function" } else { "functions" };
        if self.aliased.is_empty() {
            return write!(
                f,
                "cross-check: {samples} samples agree with the exact counts of {functions} {plural} (largest |z| {:.1})",
                self.largest_z
            );
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
                "\n  {}: {} samples where {:.1} are expected (z {:+.1})",
                aliased.name,
                group(aliased.samples),
                aliased.expected_samples,
                aliased.z
            )?;
        }
        Ok(())
    }
}

/// What is true of every profile, unless the profiler is wrong.
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

    let mut samples: Vec<BTreeMap<u64, u64>> = vec![BTreeMap::new(); profile.vcpus.len()];
    let mut taken = vec![0_u64; profile.vcpus.len()];
    let mut misplaced = None;
    for sample in &profile.samples {
        let index = sample.vcpu as usize;
        let Some(at_pc) = samples.get_mut(index) else {
            found.push(format!("a sample was taken on vCPU {index}, which executed nothing"));
            return found;
        };
        *at_pc.entry(sample.pc).or_default() += 1;
        taken[index] += 1;
        // Without dither the k-th sample is taken at exactly k periods.
        if profile.facts.jitter_seed.is_none() && sample.at_insns != taken[index] * profile.facts.period_insns {
            misplaced.get_or_insert((taken[index], *sample));
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

    for (index, (vcpu, at_pc)) in profile.vcpus.iter().zip(&samples).enumerate() {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for insn in &vcpu.insns {
            *counts.entry(insn.pc).or_default() += insn.count;
        }
        let total: u64 = counts.values().sum();
        for (pc, &sampled) in at_pc {
            let executed = counts.get(pc).copied().unwrap_or(0);
            if sampled > executed {
                found.push(format!(
                    "the instruction at {pc:#010x} was sampled {} times on vCPU {index} and executed {} times",
                    group(sampled),
                    group(executed)
                ));
                break;
            }
        }
        let expected = total / profile.facts.period_insns.max(1);
        // A killed emulator may take its last samples with it.
        let complete = !matches!(profile.facts.end, End::EmulatorFailed { .. });
        if complete && vcpu.clock_insns != total {
            found.push(format!(
                "the clock of vCPU {index} counted {} instructions, the instructions add up to {}",
                group(vcpu.clock_insns),
                group(total)
            ));
        }
        if complete && profile.facts.jitter_seed.is_none() && taken[index] != expected {
            found.push(format!(
                "vCPU {index} executed {} instructions, which makes {} samples, and has {}",
                group(total),
                group(expected),
                group(taken[index])
            ));
        }
    }
    found
}
