// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coverage as JSON (`harness coverage --json`).

use std::io::Write;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::coverage::{self, Coverage, Decision, File, Tally};
use crate::analysis::flow::{Count, Mcdc};
use crate::export::json::{VERSION, document};

/// Lines, functions and branches that ran.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Coverage")]
struct Document<'a> {
    /// Always "harness-coverage".
    format: &'static str,
    /// Version of the format. Profiles as JSON have the same version.
    version: u32,
    /// Name of the image, or the number of images.
    images: &'a str,
    /// Lines with code, and those that ran.
    lines: JsonTally,
    /// Functions, and those that were called.
    functions: JsonTally,
    /// Ways of branches of the object code, and those that were taken.
    branches: JsonTally,
    /// Number of conditional instructions of Thumb IT blocks, which are not branches: how often their conditions held is
    /// not known.
    uncounted: u64,
    /// Source files by path.
    files: Vec<JsonFile<'a>>,
}

/// Number of things that there are, and of those that ran.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Tally")]
struct JsonTally {
    /// Number of those that ran for certain.
    hit: u64,
    /// Number of all.
    found: u64,
    /// Number of those that may have run or not, since their counts are bounded or unknown.
    open: u64,
}

/// Coverage of a source file.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CoveredFile")]
struct JsonFile<'a> {
    /// Path, as the debug information or `--source-map` has it.
    path: &'a str,
    /// Lines with code.
    lines: Vec<JsonLine>,
    /// Functions by line.
    functions: Vec<JsonFunction<'a>>,
    /// Branches of the object code by line, in the order of their addresses.
    branches: Vec<JsonBranch>,
    /// Lines with conditional branches, and whether coverage of these implies MC/DC.
    decisions: Vec<JsonDecision>,
    /// Lines with conditional instructions of Thumb IT blocks, which are not branches.
    uncounted: Vec<JsonUncounted>,
}

/// Source line.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CoveredLine")]
struct JsonLine {
    /// Its number.
    line: u32,
    /// Executions. Exact.
    count: u64,
}

/// Function of the source.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CoveredFunction")]
struct JsonFunction<'a> {
    /// Line of its definition.
    line: u32,
    /// Name in the symbol table.
    name: &'a str,
    /// Calls. Exact.
    calls: u64,
}

/// Branch of the object code.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CoveredBranch")]
struct JsonBranch {
    /// Line that it belongs to.
    line: u32,
    /// Kind: `conditional`, `conditional return`, or `table` (a `switch`).
    kind: &'static str,
    /// Executions of the instruction. Exact.
    executions: u64,
    /// Its ways: taken and not taken, or the targets of a table that were reached.
    ways: Vec<JsonCount>,
}

/// Number of times that control went one way.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WayCount")]
struct JsonCount {
    /// Kind of the number: `exact`, `bounded` (between `least` and `most`) or `unknown`.
    kind: &'static str,
    /// Least number of times.
    least: u64,
    /// Greatest number of times; null: unknown.
    most: Option<u64>,
}

/// Decision of the source, as far as its object branches tell. No certificate.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Decision")]
struct JsonDecision {
    /// Its line.
    line: u32,
    /// `implied`: whoever has taken all ways of the line's branches has shown MC/DC; or `not provable`.
    mcdc: &'static str,
    /// Why it is not provable; null: it is.
    reason: Option<&'static str>,
    /// Whether MC/DC is implied and all ways were taken.
    shown: bool,
}

/// Conditional instructions of one line, whose conditions are not counted.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UncountedLine")]
struct JsonUncounted {
    /// Its number.
    line: u32,
    /// Number of the instructions.
    insns: u64,
}

/// Writes the document; `images` names the runs.
///
/// # Errors
/// Errors of `out`.
pub fn write(coverage: &Coverage, images: &str, out: &mut dyn Write) -> Result<()> {
    let tally = |of: fn(&File) -> Tally| {
        let Tally { hit, found, open } = coverage.tally(of);
        JsonTally { hit, found, open }
    };
    let document = Document {
        format: "harness-coverage",
        version: VERSION,
        images,
        lines: tally(File::line_tally),
        functions: tally(File::function_tally),
        branches: tally(File::branch_tally),
        uncounted: coverage.uncounted(),
        files: coverage.files.iter().map(|(path, file)| JsonFile::new(path, file)).collect(),
    };
    document::write_line(&document, out)
}

impl<'a> JsonFile<'a> {
    fn new(path: &'a str, file: &'a File) -> JsonFile<'a> {
        let lines = file.lines.iter().map(|(&line, &count)| JsonLine { line, count });
        let functions = file.functions.iter().map(|((line, name), &calls)| JsonFunction { line: *line, name, calls });
        let branches = file
            .branches
            .iter()
            .flat_map(|(&line, branches)| branches.iter().map(move |branch| JsonBranch::new(line, branch)));
        let decisions = file.decisions.iter().map(|(&line, &mcdc)| JsonDecision {
            line,
            mcdc: if mcdc == Mcdc::Implied { "implied" } else { "not provable" },
            reason: mcdc.reason(),
            shown: file.decision_at(line) == Some(Decision::Shown),
        });
        JsonFile {
            path,
            lines: lines.collect(),
            functions: functions.collect(),
            branches: branches.collect(),
            decisions: decisions.collect(),
            uncounted: file.uncounted.iter().map(|(&line, &insns)| JsonUncounted { line, insns }).collect(),
        }
    }
}

impl JsonBranch {
    fn new(line: u32, branch: &coverage::Branch) -> JsonBranch {
        let count = |count: &Count| JsonCount { kind: count.kind(), least: count.least(), most: count.most() };
        JsonBranch {
            line,
            kind: branch.kind.name(),
            executions: branch.executions,
            ways: branch.ways.iter().map(count).collect(),
        }
    }
}

/// JSON Schema of the document.
///
/// # Errors
/// No known errors.
pub fn schema() -> Result<String> {
    document::schema::<Document<'_>>()
}
