// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounds of the stacks as JSON (`harness stack --json`).

use std::io::Write;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::stack_bound::{Program, Row, Rules, Witness};
use crate::export::json::{VERSION, document};
use crate::image::Image;

/// Most stack that firmware can need.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Stack")]
struct Document<'a> {
    /// Always "harness-stack".
    format: &'static str,
    /// Version of the format. Profiles as JSON have the same version.
    version: u32,
    /// File name of the image.
    image: String,
    /// SHA-256 of the image.
    image_sha256: &'a str,
    /// Stacks: the main stack, then the tasks by name.
    stacks: Vec<JsonRow<'a>>,
    /// Functions, by address: bytes that each holds itself.
    functions: Vec<Function<'a>>,
    /// Comparison with -fstack-usage; null without --su.
    stack_usage: Option<StackUsage>,
}

/// Stack.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StackRow")]
struct JsonRow<'a> {
    /// Name: "main", or the task's.
    name: &'a str,
    /// Whether it is a task's.
    is_task: bool,
    /// Most bytes; if nothing bounds it, the part that is known.
    bytes: u64,
    /// "bounded", "estimated" (indirect calls known only from runs) or "unbounded".
    certainty: &'static str,
    /// Part of the bytes that exceptions take.
    exceptions_bytes: u64,
    /// Bytes without the calls of functions that never return, as far as no run has made them.
    without_failures_bytes: u64,
    /// Certainty of those.
    without_failures_certainty: &'static str,
    /// Size of the stack.
    has_bytes: Option<u64>,
    /// Bytes that the linker script reserves (_Min_Stack_Size); the stack may use more.
    reserved_bytes: Option<u64>,
    /// Bytes that the runs used at most.
    seen_bytes: Option<u64>,
    /// Error of harness, if a run used more than the bound: the bound is wrong.
    error: Option<String>,
    /// Deepest path, outermost function first.
    path: Vec<Step<'a>>,
    /// Reasons why the number is not a bound.
    reasons: &'a [String],
}

/// Function of a path.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StackStep")]
struct Step<'a> {
    /// Function.
    function: &'a str,
    /// Bytes that it holds while it calls the next one; of the last one, its most.
    bytes: u64,
}

/// Function with its own bytes.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StackFunction")]
struct Function<'a> {
    /// Name.
    name: &'a str,
    /// Source file, without its directory; empty if unknown.
    file: &'a str,
    /// Bytes that it holds at most, without those that it calls.
    bytes: u64,
}

/// Comparison with the compiler's numbers.
#[derive(Serialize, JsonSchema)]
struct StackUsage {
    /// Functions with equal numbers.
    equal: u64,
    /// Functions for which the code has more.
    code_has_more: u64,
    /// Functions for which the compiler says more.
    compiler_says_more: u64,
    /// Lines about functions that the image does not have.
    absent: u64,
}

impl<'a> JsonRow<'a> {
    fn new(row: &'a Row, rules: &Rules) -> JsonRow<'a> {
        JsonRow {
            name: &row.name,
            is_task: row.is_task,
            bytes: row.bound.bytes,
            certainty: row.bound.certainty.word(),
            exceptions_bytes: row.exceptions_bytes,
            without_failures_bytes: row.returning.bytes,
            without_failures_certainty: row.returning.certainty.word(),
            has_bytes: row.has_bytes,
            reserved_bytes: row.reserved_bytes,
            seen_bytes: row.seen_bytes,
            error: row.contradiction(rules),
            path: row.bound.path.iter().map(|step| Step { function: &step.function, bytes: step.bytes }).collect(),
            reasons: &row.bound.reasons,
        }
    }
}

/// Writes the stacks, with the statements by which they were computed.
///
/// # Errors
/// Errors of `out`.
pub fn write(
    image: &Image,
    program: &Program,
    (rows, rules): (&[Row], &Rules),
    witness: Option<&Witness>,
    out: &mut dyn Write,
) -> Result<()> {
    let document = Document {
        format: "harness-stack",
        version: VERSION,
        image: image.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        image_sha256: &image.sha256,
        stacks: rows.iter().map(|row| JsonRow::new(row, rules)).collect(),
        functions: program.frames().map(|(name, file, bytes)| Function { name, file, bytes }).collect(),
        stack_usage: witness.map(|witness| StackUsage {
            equal: witness.equal,
            code_has_more: witness.code_has_more.len() as u64,
            compiler_says_more: witness.compiler_says_more.len() as u64,
            absent: witness.absent,
        }),
    };
    document::write_line(&document, out)
}

/// JSON Schema of the output.
///
/// # Errors
/// No known errors.
pub fn schema() -> Result<String> {
    document::schema::<Document<'_>>()
}
