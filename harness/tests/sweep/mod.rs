// SPDX-License-Identifier: MIT OR Apache-2.0
//! Promises that hold for every image. By default a named dozen is tested; `HARNESS_IMAGES=all cargo test --test promises
//! sweep::` is the whole sweep, which .ci/run does.
//!
//! Each image runs seven times, once more for each further question (a sample per instruction, the firmware's own counts),
//! and every promise is judged by these runs ([`Runs`]). So the images are swept once, by the first test that asks, and
//! each test says what was found of its promise ([`findings`]). The named dozen, and images that are listed for something at
//! their end, run whole, the others to [`COMPARED_INSNS`]: what comes later is mostly more of the same, and was half of the
//! time. With `HARNESS_WHOLE=1` (`.ci/run --all`) all run whole.

mod bounds;
mod mcount;
mod oracle;
mod reproducible;
mod stacks;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock};

use harness::profile::Profile;

use crate::common::{
    Run, dozen_with_avr, has_several_cpus, image_args, in_parallel, is_all, is_dozen, run_again, selected_that,
    selected_with_avr,
};
use bounds::Compared;

/// Promise that is judged on every image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Promise {
    /// A sample per instruction equals the oracle's.
    Period1,
    /// Counts, branches and samples equal the oracle's, at several periods.
    Periods,
    /// The exact call tree equals the oracle's.
    Tree,
    /// Unwound stacks equal the followed ones.
    Stacks,
    /// No bound is below the use.
    Bounds,
    /// The firmware's own counts equal ours.
    InTarget,
    /// Two runs give the same bytes.
    Reproducible,
}

/// Judgements of all selected images.
#[derive(Debug, Default)]
struct Findings {
    /// Images by the promise that they were judged by.
    judged: BTreeMap<Promise, BTreeSet<String>>,
    /// Broken promises, each with its image.
    errors: BTreeMap<Promise, Vec<String>>,
    /// Bounds beside their use.
    compared: Vec<Compared>,
}

impl Findings {
    /// Fails if an image breaks the promise; otherwise the images that were judged.
    #[track_caller]
    fn expect(&self, promise: Promise) -> &BTreeSet<String> {
        if let Some(errors) = self.errors.get(&promise) {
            panic!("{} of the images' judgements fail:\n{}", errors.len(), errors.join("\n"));
        }
        static NONE: BTreeSet<String> = BTreeSet::new();
        let judged = self.judged.get(&promise).unwrap_or(&NONE);
        assert!(!judged.is_empty() || !(is_dozen() || is_all()), "no image was judged");
        judged
    }
}

/// Length of the runs of an image that does not run whole.
const COMPARED_INSNS: &str = "3000000";

/// Whether an image's runs go to its own end.
fn is_whole(name: &str) -> bool {
    std::env::var_os("HARNESS_WHOLE").is_some()
        || dozen_with_avr().contains(&name)
        || stacks::depends_on_end(name)
        || image_args(name).contains(&"--for")
}

/// An image's runs, each made when it is first asked for and kept until all promises are judged.
struct Runs<'a> {
    name: &'a str,
    /// Options that end each run early.
    length: &'static [&'static str],
    oracle: OnceCell<Profile>,
    tree: OnceCell<Profile>,
    exact: OnceCell<Profile>,
    default: OnceCell<Run>,
}

impl<'a> Runs<'a> {
    fn of(name: &'a str) -> Runs<'a> {
        let length: &[&str] = if is_whole(name) { &[] } else { &["--for", COMPARED_INSNS] };
        let (oracle, tree, exact, default) = Default::default();
        Runs { name, length, oracle, tree, exact, default }
    }

    /// A run of its own, with these options.
    fn asked(&self, options: &[&str]) -> Run {
        run_again(self.name, &[options, self.length].concat())
    }

    /// The profile of one callback per instruction. Its samples at each 97th instruction include those of all periods that
    /// are multiples of it.
    fn oracle(&self) -> &Profile {
        let options =
            [oracle::WITHOUT_STACKS, oracle::tree(self.name), &["--period", "97", "--oracle"], self.length].concat();
        self.oracle.get_or_init(|| oracle::asked(self.name, &options))
    }

    /// The run whose tree is the oracle's.
    fn tree(&self) -> &Profile {
        let options = [oracle::WITHOUT_STACKS, oracle::tree(self.name), &["--period", "9700"]].concat();
        self.tree.get_or_init(|| self.asked(&options).profile())
    }

    /// Exact tree and stacks.
    fn exact(&self) -> &Profile {
        self.exact.get_or_init(|| self.asked(&["--exact", "--period", "997"]).profile())
    }

    /// The run without options.
    fn default(&self) -> &Run {
        self.default.get_or_init(|| self.asked(&[]))
    }
}

/// Sweeps the selected images, once for all tests.
fn findings() -> &'static Findings {
    static FINDINGS: OnceLock<Findings> = OnceLock::new();
    FINDINGS.get_or_init(|| {
        let swept = selected_with_avr();
        let bounded = bounds::images();
        let names: BTreeSet<&String> = swept.iter().chain(&bounded).collect();
        // The longest first, so that no processor waits for the other at the end.
        let mut names: Vec<&String> = names.into_iter().collect();
        names.sort_by_key(|name| !is_whole(name));
        let instrumented = selected_that(|name| name.contains("-pg"));
        let found = Mutex::new(Findings::default());
        in_parallel(&names, |name| {
            let name = name.as_str();
            let runs = Runs::of(name);
            let judge = |promise: Promise, judgement: &dyn Fn() -> Vec<String>| {
                let errors = caught(name, judgement);
                let mut found = found.lock().expect("no thread panicked");
                found.judged.entry(promise).or_default().insert(name.to_owned());
                if !errors.is_empty() {
                    found.errors.entry(promise).or_default().extend(errors);
                }
            };
            let is_swept = swept.iter().any(|swept| swept == name);
            if is_swept {
                judge(Promise::Reproducible, &|| reproducible::errors(&runs));
                judge(Promise::Periods, &|| oracle::check_periods(name, &runs));
                if oracle::has_period_1(name) {
                    judge(Promise::Period1, &|| oracle::check_period_1(name));
                }
            }
            // The exact tree follows a single vCPU.
            if is_swept && !has_several_cpus(name) {
                judge(Promise::Tree, &|| oracle::check_tree(name, &runs));
                judge(Promise::Stacks, &|| stacks::errors(name, runs.exact()));
            }
            if bounded.iter().any(|bounded| bounded == name) {
                judge(Promise::Bounds, &|| {
                    let (compared, errors) = bounds::judge(name, &runs);
                    found.lock().expect("no thread panicked").compared.extend(compared);
                    errors
                });
            }
            if instrumented.iter().any(|instrumented| instrumented == name) {
                judge(Promise::InTarget, &|| mcount::check(name));
            }
        });
        let mut found = found.into_inner().expect("no thread panicked");
        found.errors.values_mut().for_each(|errors| errors.sort());
        found.compared.sort_by(|one, other| one.name.cmp(&other.name));
        found
    })
}

/// Errors of a judgement, of which a failed assertion is one.
fn caught(name: &str, judgement: &dyn Fn() -> Vec<String>) -> Vec<String> {
    catch_unwind(AssertUnwindSafe(judgement)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        vec![format!("{name}: {}", text.unwrap_or_else(|| "a panic without a text".to_owned()))]
    })
}

/// Options that end an image's run early, unless it has an end of its own.
fn for_at_most<'a>(name: &str, length: &'a str) -> Vec<&'a str> {
    if image_args(name).contains(&"--for") { Vec::new() } else { vec!["--for", length] }
}
