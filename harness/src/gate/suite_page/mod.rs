// SPDX-License-Identifier: MIT OR Apache-2.0
//! A suite's result as one self-contained page, which fetches nothing: what failed, in groups, and filters for a suite of
//! thousands of images. Names stay data, as in the report page.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use crate::export::report::{THEME, inline_json};
use crate::gate::expect::Finding;
use crate::gate::page;
use crate::gate::rerun_command::remedies;
use crate::gate::result::{CaseResult, SuiteResult, SuiteWarning};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Most functions shown of an image's comparison.
const FUNCTIONS: usize = 10;

/// The page's data.
#[derive(Serialize)]
struct Document<'r> {
    suite: &'r str,
    baseline: Option<&'r str>,
    revision: Option<&'r str>,
    left_out: usize,
    /// Mistakes and blind spots of the suite itself, in sentences.
    findings: Vec<String>,
    /// Words for kinds of failures that occurred, the most frequent first.
    kinds: Vec<&'static str>,
    images: Vec<Image<'r>>,
}

#[derive(Serialize)]
struct Image<'r> {
    name: &'r str,
    tags: &'r [String],
    passed: bool,
    end: &'r str,
    insns: Option<u64>,
    /// Total instructions of the baseline.
    before: Option<u64>,
    /// Cause of the change.
    why: &'r str,
    failures: Vec<Failure<'r>>,
    remedies: Vec<(&'static str, String)>,
    functions: Vec<Function<'r>>,
    warnings: &'r [String],
    messages: &'r [String],
    console: &'r [String],
}

#[derive(Serialize)]
struct Failure<'r> {
    kind: &'static str,
    message: &'r str,
    place: Option<String>,
}

#[derive(Serialize)]
struct Function<'r> {
    name: &'r str,
    before: Option<u64>,
    after: Option<u64>,
}

/// Writes the page; `profiles` maps an image to its profile's path, relative to the project's root.
///
/// # Errors
/// Errors of `out`.
pub fn write(result: &SuiteResult, profiles: &dyn Fn(&str) -> PathBuf, out: &mut dyn Write) -> Result<()> {
    let own = result.findings.iter().map(|finding| sentence(&finding.message, finding.place.as_ref()));
    let warnings = result.warnings.iter().map(|SuiteWarning { message, place }| sentence(message, Some(place)));
    let document = Document {
        suite: &result.suite,
        baseline: result.baseline.as_deref(),
        revision: result.revision.as_ref().map(|revision| &*revision.commit),
        left_out: result.left_out,
        findings: own.chain(warnings).collect(),
        kinds: result.failed_by().into_iter().map(|(kind, _)| kind.word()).collect(),
        images: result.cases.iter().map(|case| image(case, profiles)).collect(),
    };
    let texts: [(&str, &[&str]); 3] =
        [("{style}", &[THEME, page::STYLE, STYLE]), (inline_json::DATA, &[]), ("{script}", &[page::SCRIPT, SCRIPT])];
    inline_json::fill(PAGE, &texts, &document, out)
}

fn sentence(message: &str, place: Option<&(String, u32)>) -> String {
    match place {
        Some((file, line)) => format!("{message} at {file}:{line}"),
        None => message.to_owned(),
    }
}

fn image<'r>(case: &'r CaseResult, profiles: &dyn Fn(&str) -> PathBuf) -> Image<'r> {
    let comparison = case.comparison.as_ref();
    let failure = |finding: &'r Finding| Failure {
        kind: finding.kind.word(),
        message: &finding.message,
        place: case.place_of(finding).map(|(file, line)| format!("{file}:{line}")),
    };
    let functions = comparison.iter().flat_map(|comparison| &comparison.functions).take(FUNCTIONS);
    Image {
        name: &case.name,
        tags: &case.tags,
        passed: case.passed(),
        end: &case.end,
        insns: case.run.as_ref().map(|run| run.insns),
        before: comparison.and_then(|comparison| comparison.total_insns.before),
        why: comparison.map_or("", |comparison| &comparison.explanation),
        failures: case.failures().map(failure).collect(),
        remedies: remedies(case, &profiles(&case.name)),
        functions: functions
            .map(|function| Function {
                name: &function.name,
                before: function.self_insns.before,
                after: function.self_insns.after,
            })
            .collect(),
        warnings: &case.warnings,
        messages: &case.messages,
        console: &case.console_tail,
    }
}
