// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of a suite that one machine of several runs: K and N as stated, or as the engine that starts the parts gives
//! them by its variables.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use crate::error::InputError;
use crate::text::number::plural;

/// Variable by which a user gives `auto` the part, in place of an engine.
const OWN: &str = "HARNESS_SHARD";

/// Most parts: more than any engine starts, and few enough to count.
const MAX_PARTS: usize = 1 << 16;

/// One of several parts of a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of this part, from 1.
    part: usize,
    /// Number of all parts.
    parts: usize,
}

impl Shard {
    /// Parses `K/N`.
    fn parse(text: &str) -> Option<Self> {
        let (part, parts) = text.split_once('/')?;
        Self::new(part.parse().ok()?, parts.parse().ok()?)
    }

    /// The `part`-th of `parts`, from 1; None: there is no such part, or nobody has so many.
    pub fn new(part: usize, parts: usize) -> Option<Self> {
        ((1..=parts).contains(&part) && parts <= MAX_PARTS).then_some(Self { part, parts })
    }

    /// Part that the engine gives by the variables that `variable` reads, or that the user gives by `HARNESS_SHARD`. Tells
    /// Bazel that the test runs its part only. `parts` is the number of parts, if the user gives one.
    ///
    /// # Errors
    /// When no engine is found or several, or an engine's variables do not give a part.
    pub fn automatic(parts: Option<usize>, variable: impl Fn(&str) -> Option<String>) -> Result<Self, InputError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let seen: Vec<&Engine> = ENGINES.iter().filter(|engine| set(engine.index).is_some()).collect();
        if let Some(text) = set(OWN) {
            // Which of the two the job means is not known, and a suite of which a part is missing looks whole.
            if let [engine, ..] = seen[..] {
                return Err(InputError::new(format!(
                    "--shard auto: {OWN} is set, and {} sets {}; write the part as --shard K/N, or unset {OWN}",
                    engine.name, engine.index
                )));
            }
            let shard = Self::parse(&text);
            let shard = shard.ok_or_else(|| {
                InputError::new(format!("{OWN}={text}: write K/N with K from 1 to N, and N at most {MAX_PARTS}"))
            })?;
            return agreed(shard, parts, OWN);
        }
        let engine = match seen[..] {
            [engine] => engine,
            [] => return Err(InputError::new(format!("--shard auto: {}", none_seen()))),
            [first, second, ..] => {
                return Err(InputError::new(format!(
                    "--shard auto: {} sets {} and {} sets {}; write the part as --shard K/N",
                    first.name, first.index, second.name, second.index
                )));
            }
        };
        let shard = agreed(engine.shard(set, parts)?, parts, engine.name)?;
        if let Some(file) = engine.acknowledge.and_then(set) {
            let path = Path::new(&file);
            let failed = |error| {
                InputError::about(path, format!("{} wants this file, which cannot be created: {error}", engine.name))
            };
            File::create(path).map_err(failed)?;
        }
        Ok(shard)
    }

    /// Indices of the cases that this part runs. `costs` are divided greedily and as evenly as possible, largest first,
    /// always with the same result.
    pub fn choose(self, costs: &[u64]) -> BTreeSet<usize> {
        let mut order: Vec<usize> = (0..costs.len()).collect();
        order.sort_by_key(|&index| (Reverse(costs[index]), index));
        let mut loads = vec![(0_u128, 0_usize); self.parts];
        let mut mine = BTreeSet::new();
        for index in order {
            let Some((part, load)) = loads.iter_mut().enumerate().min_by_key(|(part, load)| (**load, *part)) else {
                break;
            };
            // The added 1 divides cases by number if their costs are not known.
            *load = (load.0 + u128::from(costs[index]), load.1 + 1);
            if part + 1 == self.part {
                mine.insert(index);
            }
        }
        mine
    }
}

/// Returns the part if it is one of as many parts as the user says.
fn agreed(shard: Shard, parts: Option<usize>, whose: &str) -> Result<Shard, InputError> {
    match parts {
        Some(parts) if parts != shard.parts => Err(InputError::new(format!(
            "--shard auto/{parts}: {whose} has {}; write --shard auto, or the part as --shard K/N",
            plural(shard.parts as u64, "part")
        ))),
        _ => Ok(shard),
    }
}

/// Message for a machine on which no engine is seen.
fn none_seen() -> String {
    let engines: Vec<String> = ENGINES.iter().map(|engine| format!("{} ({})", engine.name, engine.index)).collect();
    format!("no variable of {} is set; set {OWN}=K/N, or write --shard K/N", engines.join(", "))
}

/// Variables by which an engine numbers the parts of a job.
struct Engine {
    name: &'static str,
    /// Variable with the number of the part.
    index: &'static str,
    /// Number of the first part.
    origin: Origin,
    /// Variable with the number of parts; None: the engine has no such variable.
    count: Option<&'static str>,
    /// Variable with the path of a file whose existence tells the engine that the test runs its part only.
    acknowledge: Option<&'static str>,
}

/// Number of an engine's first part.
enum Origin {
    Fixed(usize),
    /// An array of tasks, by the variables with its smallest number, its largest, and its step.
    Array {
        min: &'static str,
        max: &'static str,
        step: &'static str,
    },
}

/// Engines by their own documentation. GitHub's matrix sets no variable.
const ENGINES: [Engine; 5] = [
    Engine {
        name: "Slurm",
        index: "SLURM_ARRAY_TASK_ID",
        origin: Origin::Array {
            min: "SLURM_ARRAY_TASK_MIN",
            max: "SLURM_ARRAY_TASK_MAX",
            step: "SLURM_ARRAY_TASK_STEP",
        },
        count: Some("SLURM_ARRAY_TASK_COUNT"),
        acknowledge: None,
    },
    Engine {
        name: "Kubernetes",
        index: "JOB_COMPLETION_INDEX",
        origin: Origin::Fixed(0),
        count: None,
        acknowledge: None,
    },
    Engine {
        name: "GitLab",
        index: "CI_NODE_INDEX",
        origin: Origin::Fixed(1),
        count: Some("CI_NODE_TOTAL"),
        acknowledge: None,
    },
    Engine {
        name: "Buildkite",
        index: "BUILDKITE_PARALLEL_JOB",
        origin: Origin::Fixed(0),
        count: Some("BUILDKITE_PARALLEL_JOB_COUNT"),
        acknowledge: None,
    },
    Engine {
        name: "Bazel",
        index: "TEST_SHARD_INDEX",
        origin: Origin::Fixed(0),
        count: Some("TEST_TOTAL_SHARDS"),
        acknowledge: Some("TEST_SHARD_STATUS_FILE"),
    },
];

impl Engine {
    /// Part that the engine's variables, as `set` reads them, give. `parts` is the user's number of parts.
    fn shard(&self, set: impl Fn(&str) -> Option<String>, parts: Option<usize>) -> Result<Shard, InputError> {
        let number = |name: &str| -> Result<usize, InputError> {
            let text = set(name).ok_or_else(|| self.error(format!("sets {}, but not {name}", self.index)))?;
            text.parse().map_err(|_| self.error(format!("sets {name}={text}, which is not a number")))
        };
        let index = number(self.index)?;
        let parts = match (self.count, parts) {
            (Some(count), _) => number(count)?,
            (None, Some(parts)) => parts,
            (None, None) => {
                return Err(self.error("has no variable for the number of parts: write --shard auto/N".to_owned()));
            }
        };
        let (origin, step) = match self.origin {
            Origin::Fixed(origin) => (origin, 1),
            Origin::Array { min, max, step } => {
                let (min, max, step) = (number(min)?, number(max)?, number(step)?.max(1));
                if max.checked_sub(min).is_none_or(|span| span / step + 1 != parts) {
                    return Err(self.error(format!(
                        "numbers {parts} tasks from {min} to {max} by {step}: an array with gaps has no parts"
                    )));
                }
                (min, step)
            }
        };
        let behind = index.checked_sub(origin).filter(|behind| behind % step == 0);
        behind.and_then(|behind| Shard::new(behind / step + 1, parts)).ok_or_else(|| {
            self.error(format!("sets {}={index}, which is not one of {parts} parts from {origin}", self.index))
        })
    }

    fn error(&self, what: String) -> InputError {
        InputError::new(format!("--shard auto: {} {what}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Part by these variables, `parts` being the user's number.
    fn found(parts: Option<usize>, variables: &[(&str, &str)]) -> Result<(usize, usize), String> {
        let read =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let shard = Shard::automatic(parts, read).map_err(|error| error.to_string())?;
        Ok((shard.part, shard.parts))
    }

    const SLURM: [(&str, &str); 5] = [
        ("SLURM_ARRAY_TASK_ID", "14"),
        ("SLURM_ARRAY_TASK_COUNT", "4"),
        ("SLURM_ARRAY_TASK_MIN", "10"),
        ("SLURM_ARRAY_TASK_MAX", "16"),
        ("SLURM_ARRAY_TASK_STEP", "2"),
    ];

    #[test]
    fn each_engine_counts_from_its_own_origin() {
        assert_eq!(found(None, &SLURM), Ok((3, 4)));
        assert_eq!(found(Some(8), &[("JOB_COMPLETION_INDEX", "0")]), Ok((1, 8)));
        assert_eq!(found(None, &[("CI_NODE_INDEX", "1"), ("CI_NODE_TOTAL", "3")]), Ok((1, 3)));
        let buildkite = [("BUILDKITE_PARALLEL_JOB", "2"), ("BUILDKITE_PARALLEL_JOB_COUNT", "3")];
        assert_eq!(found(Some(3), &buildkite), Ok((3, 3)));
        assert_eq!(found(None, &[("TEST_SHARD_INDEX", "0"), ("TEST_TOTAL_SHARDS", "2")]), Ok((1, 2)));
        assert_eq!(found(None, &[(OWN, "2/5")]), Ok((2, 5)));
        // An empty variable is as good as none.
        assert_eq!(found(None, &[("CI_NODE_INDEX", "1"), ("CI_NODE_TOTAL", "3"), (OWN, "")]), Ok((1, 3)));
    }

    #[test]
    fn variables_that_give_no_part_are_refused_by_name() {
        let error = |parts, variables: &[(&str, &str)]| found(parts, variables).unwrap_err();
        let none = error(None, &[("CI_NODE_TOTAL", "1")]);
        assert!(none.contains("GitLab (CI_NODE_INDEX)") && none.contains("HARNESS_SHARD=K/N"), "{none}");
        let two = error(None, &[("CI_NODE_INDEX", "1"), ("CI_NODE_TOTAL", "3"), ("JOB_COMPLETION_INDEX", "1")]);
        assert!(two.contains("Kubernetes sets JOB_COMPLETION_INDEX and GitLab sets CI_NODE_INDEX"), "{two}");
        let own = error(None, &[("CI_NODE_INDEX", "1"), ("CI_NODE_TOTAL", "3"), (OWN, "1/3")]);
        assert!(own.contains("HARNESS_SHARD is set, and GitLab sets CI_NODE_INDEX"), "{own}");
        assert!(error(None, &[(OWN, "1/4000000000")]).contains("N at most 65536"));
        assert!(error(Some(4_000_000_000), &[("JOB_COMPLETION_INDEX", "1")]).contains("not one of 4000000000 parts"));
        assert!(error(None, &[("JOB_COMPLETION_INDEX", "1")]).contains("write --shard auto/N"));
        assert!(error(Some(8), &[("JOB_COMPLETION_INDEX", "8")]).contains("not one of 8 parts from 0"));
        assert!(error(None, &[("CI_NODE_INDEX", "0"), ("CI_NODE_TOTAL", "3")]).contains("not one of 3 parts"));
        assert!(error(None, &[("CI_NODE_INDEX", "1")]).contains("but not CI_NODE_TOTAL"));
        assert!(error(None, &[("CI_NODE_INDEX", "one"), ("CI_NODE_TOTAL", "3")]).contains("not a number"));
        assert!(error(Some(5), &SLURM).contains("Slurm has 4 parts;"));
        assert!(error(None, &[(OWN, "3/2")]).contains("HARNESS_SHARD=3/2"));
        // --array=10,12,16,22 has four tasks that are not evenly spaced.
        let gaps = SLURM.map(|(name, value)| (name, if name.ends_with("MAX") { "22" } else { value }));
        assert!(error(None, &gaps).contains("an array with gaps"));
        let off = SLURM.map(|(name, value)| (name, if name.ends_with("ID") { "13" } else { value }));
        assert!(error(None, &off).contains("not one of 4 parts from 10"));
    }

    #[test]
    fn bazel_is_told_that_the_test_runs_its_part_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("status");
        let variables = [
            ("TEST_SHARD_INDEX", "1"),
            ("TEST_TOTAL_SHARDS", "2"),
            ("TEST_SHARD_STATUS_FILE", file.to_str().unwrap()),
        ];
        assert!(found(Some(3), &variables).is_err() && !file.exists(), "nothing runs");
        assert_eq!(found(None, &variables), Ok((2, 2)));
        assert!(file.exists());
    }

    #[test]
    fn more_parts_than_anybody_has_are_refused() {
        assert!(Shard::new(1, MAX_PARTS).is_some());
        assert_eq!(Shard::new(1, MAX_PARTS + 1), None);
        assert_eq!(Shard::new(1, 4_000_000_000), None);
    }

    #[test]
    fn parts_are_balanced_whole_and_always_the_same() {
        let choose = |part, parts, costs: &[u64]| Shard::new(part, parts).unwrap().choose(costs);
        let costs = [5, 100, 40, 40, 1, 1, 30];
        let shards: Vec<_> = (1..=3).map(|part| choose(part, 3, &costs)).collect();
        let sums: Vec<u64> = shards.iter().map(|shard| shard.iter().map(|&index| costs[index]).sum()).collect();
        assert_eq!(sums, [100, 70, 47]);
        let all: BTreeSet<usize> = shards.iter().flatten().copied().collect();
        assert_eq!(all.len(), costs.len());
        let none: Vec<usize> = (1..=2).map(|part| choose(part, 2, &[0; 5]).len()).collect();
        assert_eq!(none, [3, 2]);
    }
}
