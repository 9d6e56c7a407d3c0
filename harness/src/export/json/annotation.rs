// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions line by line and instruction by instruction, as JSON (`harness annotate --json`), for editors above all. Keys
//! are named as in a profile's JSON (`json`).

use std::io::Write;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::listing::{Listing, Run};
use crate::export::json::{Address, VERSION, document};
use crate::profile::Profile;

/// Functions with the counts of their lines and instructions.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Annotation")]
struct Document<'a> {
    /// Always "harness-annotate".
    format: &'static str,
    /// Version of the format. Profiles as JSON have the same version.
    version: u32,
    /// File name of the image.
    image: &'a str,
    /// SHA-256 of the image.
    image_sha256: &'a str,
    /// Instructions of the window. Exact.
    total_insns: u64,
    /// Samples of these instructions.
    total_samples: u64,
    /// The functions, most instructions first, or those of the name.
    functions: Vec<Function<'a>>,
}

/// A function, or the copy of an inlined function in another one.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AnnotatedFunction")]
struct Function<'a> {
    /// Name; a name in square brackets is other code, such as the boot ROM.
    name: &'a str,
    /// The inlined function, if only its copy in `name` is listed.
    inlined: Option<&'a str>,
    /// First address.
    start: Option<Address>,
    /// Size in bytes.
    size_bytes: Option<u64>,
    /// Source file of the definition.
    file: Option<&'a str>,
    /// Line of the definition.
    line: Option<u32>,
    /// Instructions executed in it, with inlined functions, without called ones. Exact.
    self_insns: u64,
    /// Cycles of these, if known. Exact.
    cycles: Option<u64>,
    /// Instructions of its own lines, wherever they are inlined. Exact.
    own_insns: u64,
    /// Entries. Exact.
    calls: u64,
    /// Samples.
    samples: u64,
    /// Source lines of its code: first those of its own file, then lines inlined from other files.
    lines: Vec<Line<'a>>,
    /// All instructions, executed or not, by address.
    instructions: Vec<Instruction<'a>>,
}

/// A source line, as far as it is part of the function.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AnnotatedLine")]
struct Line<'a> {
    /// Source file, as in the debug information.
    file: &'a str,
    /// Line in it, from 1.
    line: u32,
    /// Instructions executed for it. Exact.
    insns: u64,
    /// Cycles of these, if known. Exact.
    cycles: Option<u64>,
    /// Samples of these instructions.
    samples: u64,
}

/// An instruction.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AnnotatedInstruction")]
struct Instruction<'a> {
    /// Its address.
    address: Address,
    /// Its size in bytes.
    size_bytes: u8,
    /// Mnemonic and operands; empty if the image does not have the code.
    text: &'a str,
    /// Executions. Exact.
    count: u64,
    /// Cycles of these, if known. Exact.
    cycles: Option<u64>,
    /// Samples.
    samples: u64,
    /// Index into `lines`; null: its line is not known.
    line: Option<usize>,
}

/// Writes the listings of functions.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, listings: &[Listing], out: &mut dyn Write) -> Result<()> {
    let document = Document {
        format: "harness-annotate",
        version: VERSION,
        image: &profile.facts.image_name,
        image_sha256: &profile.facts.image_sha256,
        total_insns: profile.total_insns(),
        total_samples: profile.samples.len() as u64,
        functions: listings.iter().map(function).collect(),
    };
    document::write(&document, out)
}

/// JSON Schema of the output.
///
/// # Errors
/// No known errors.
pub fn schema() -> Result<String> {
    document::schema::<Document<'_>>()
}

fn function(listing: &Listing) -> Function<'_> {
    let row = &listing.row;
    let lines = listing.lines.iter().map(|line| Line {
        file: &line.file,
        line: line.line,
        insns: line.insns,
        cycles: line.cycles,
        samples: line.samples,
    });
    Function {
        name: &row.name,
        inlined: listing.inlined.as_deref(),
        start: row.start.map(Address),
        size_bytes: listing.size_bytes,
        file: row.file.as_deref(),
        line: row.line,
        self_insns: row.self_insns,
        cycles: row.cycles,
        own_insns: listing.own_insns,
        calls: row.calls,
        samples: row.samples,
        lines: lines.collect(),
        instructions: listing.runs.iter().flat_map(instructions).collect(),
    }
}

fn instructions(run: &Run) -> impl Iterator<Item = Instruction<'_>> {
    run.instructions.iter().map(|insn| Instruction {
        address: Address(insn.address),
        size_bytes: insn.size_bytes,
        text: &insn.text,
        count: insn.count,
        cycles: insn.cycles,
        samples: insn.samples,
        line: run.line,
    })
}
