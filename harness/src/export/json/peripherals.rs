// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses of a chip's registers as JSON (`harness chip show --json`).

use std::io::Write;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::peripherals::{Counts, table};
use crate::export::json::{Address, document};
use crate::profile::{Chip, Profile};

/// Version of the JSON format; it grows when a field is removed or changes its meaning.
const VERSION: u32 = 1;

/// Accesses of a chip's registers in a run. Exact.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChipShow")]
struct Document<'a> {
    /// Always "harness-chip-show".
    format: &'static str,
    /// Version of the format.
    version: u32,
    /// File name of the image.
    image: &'a str,
    /// SHA-256 of the image.
    image_sha256: &'a str,
    /// Name of the chip.
    chip: &'a str,
    /// SHA-256 of the chip's description.
    chip_sha256: &'a str,
    /// Instructions of the window. Exact.
    total_insns: u64,
    /// Registers that were accessed: polls first, then the most accesses.
    registers: Vec<JsonRegister>,
}

/// A register that was accessed.
#[derive(Serialize, JsonSchema)]
struct JsonRegister {
    /// Name, such as `USART2.SR`; the address of a register without a name.
    name: String,
    /// Address.
    address: Address,
    /// Counts of all functions.
    #[serde(flatten)]
    all: JsonCounts,
    /// Functions that accessed it, in the same order.
    by: Vec<JsonBy>,
}

/// A function that accessed a register.
#[derive(Serialize, JsonSchema)]
struct JsonBy {
    /// Name; the instruction's address in code without a name.
    function: String,
    /// Counts of this function.
    #[serde(flatten)]
    counts: JsonCounts,
}

/// Counts of accesses.
#[derive(Serialize, JsonSchema)]
struct JsonCounts {
    /// Number of reads.
    reads: u64,
    /// Number of writes.
    writes: u64,
    /// Instructions of the window up to the first access.
    first_insns: u64,
    /// Instructions of the window up to the last access.
    last_insns: u64,
    /// Reads that were polls: the same instruction read the same value again within 128 instructions, and no register was
    /// accessed in between; or it ended such a poll.
    polls: u64,
    /// Instructions spent in these polls.
    poll_insns: u64,
    /// Fields or bits whose change ended a poll.
    ended_by: Vec<String>,
}

impl From<Counts> for JsonCounts {
    fn from(counts: Counts) -> JsonCounts {
        let Counts { reads, writes, first_insns, last_insns, polls, poll_insns, ended_by } = counts;
        let ended_by = ended_by.into_iter().collect();
        JsonCounts { reads, writes, first_insns, last_insns, polls, poll_insns, ended_by }
    }
}

/// Writes the accesses of a profile of this chip.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, chip: &Chip, out: &mut dyn Write) -> Result<()> {
    let by = |(function, counts): (String, Counts)| JsonBy { function, counts: counts.into() };
    let registers = table(profile, chip).into_iter().map(|register| JsonRegister {
        name: register.name,
        address: Address(register.address),
        all: register.all.into(),
        by: register.by.into_iter().map(by).collect(),
    });
    let document = Document {
        format: "harness-chip-show",
        version: VERSION,
        image: &profile.facts.image_name,
        image_sha256: &profile.facts.image_sha256,
        chip: &chip.name,
        chip_sha256: &chip.sha256,
        total_insns: profile.total_insns(),
        registers: registers.collect(),
    };
    document::write(&document, out)
}

/// JSON Schema of [`write`].
///
/// # Errors
/// If the schema cannot be written as JSON.
pub fn schema() -> Result<String> {
    document::schema::<Document<'_>>()
}
