// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists as JSON (`harness list --json`): the values that options accept. One key has the list; which one, `what` says.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::functions;
use crate::analysis::stacks::task_names;
use crate::chip::Chip;
use crate::export::json::{Address, VERSION};
use crate::export::{FORMATS, Format, Writer};
use crate::machine::{Machine, MemoryKind};
use crate::profile::{self, Profile};

/// A list.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "List")]
pub struct List {
    /// Always "harness-list".
    format: &'static str,
    /// Version of the format. Profiles as JSON have the same version.
    version: u32,
    /// Key that has the list.
    what: &'static str,
    /// QEMU's machines, in the order in which they are tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    machines: Option<Vec<JsonMachine>>,
    /// Chips known by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    chips: Option<Vec<JsonChip>>,
    /// Formats of `harness export`.
    #[serde(skip_serializing_if = "Option::is_none")]
    formats: Option<Vec<JsonFormat>>,
    /// Functions by address.
    #[serde(skip_serializing_if = "Option::is_none")]
    functions: Option<Vec<JsonFunction>>,
    /// Tasks of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<Vec<JsonTask>>,
}

/// Machine of QEMU.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListedMachine")]
struct JsonMachine {
    /// Value for `--machine`.
    name: String,
    /// The emulator's command.
    qemu: &'static str,
    /// Instruction set.
    isa: &'static str,
    /// Virtual time per instruction is 2^shift ns.
    shift: u8,
    /// Largest number of processors.
    max_cpus: u32,
    /// Memory that firmware can be linked for.
    memory: Vec<JsonRegion>,
}

/// Stretch of memory.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListedRegion")]
struct JsonRegion {
    /// Name.
    name: String,
    /// First address.
    start: Address,
    /// Size in bytes.
    bytes: u64,
    /// Whether it can be written.
    is_ram: bool,
}

/// Chip known by name.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListedChip")]
struct JsonChip {
    /// Value for `--chip`.
    name: String,
    /// QEMU's name of the processor.
    cpu: String,
    /// Frequency in Hz.
    hz: u64,
    /// Differences from the real chip, a sentence each.
    differs: Vec<String>,
}

/// Format of `harness export`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListedFormat")]
struct JsonFormat {
    /// Value for `--format`.
    name: &'static str,
    /// Purpose.
    purpose: &'static str,
    /// Whether it is binary.
    is_binary: bool,
    /// Whether it is a directory.
    is_directory: bool,
}

/// Function.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListedFunction")]
struct JsonFunction {
    /// Name that commands accept.
    name: String,
    /// First address.
    start: Address,
    /// Size in bytes.
    size_bytes: u64,
    /// Source file of the definition.
    file: Option<String>,
    /// Line of the definition.
    line: Option<u32>,
    /// Instructions executed in it; null: the list is of a file that was not run.
    self_insns: Option<u64>,
}

/// Task of a run.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListedTask")]
struct JsonTask {
    /// Name that commands accept.
    name: String,
    /// Instructions while it was running.
    insns: u64,
    /// Times that it was switched in.
    switches: u64,
}

impl List {
    fn of(what: &'static str) -> List {
        List { format: "harness-list", version: VERSION, what, ..List::default() }
    }

    /// List of machines.
    pub fn machines(machines: &[Machine]) -> List {
        let region = |region: &crate::machine::Region| {
            let is_ram = match region.kind {
                MemoryKind::Rom => false,
                MemoryKind::Ram => true,
                MemoryKind::NonSecure | MemoryKind::Settings | MemoryKind::Contents => return None,
            };
            Some(JsonRegion {
                name: region.name.to_owned(),
                start: Address(region.start),
                bytes: region.bytes,
                is_ram,
            })
        };
        let machine = |machine: &Machine| JsonMachine {
            name: machine.name.to_string(),
            qemu: machine.qemu,
            isa: machine.isa,
            shift: machine.shift,
            max_cpus: machine.max_cpus,
            memory: machine.memory.iter().filter_map(region).collect(),
        };
        List { machines: Some(machines.iter().map(machine).collect()), ..List::of("machines") }
    }

    /// List of chips.
    pub fn chips(chips: Vec<Chip>) -> List {
        let chip = |Chip { name, cpu, hz, differs, .. }: Chip| JsonChip { name, cpu, hz, differs };
        List { chips: Some(chips.into_iter().map(chip).collect()), ..List::of("chips") }
    }

    /// List of the formats of `harness export`.
    pub fn formats() -> List {
        let format = |format: &Format| JsonFormat {
            name: format.name(),
            purpose: format.help(),
            is_binary: format.is_binary(),
            is_directory: matches!(format.writer(), Writer::Directory(_)),
        };
        List { formats: Some(FORMATS.iter().map(format).collect()), ..List::of("formats") }
    }

    /// List of functions, with their instructions if they are a profile's.
    pub fn functions(functions: &[profile::Function], profile: Option<&Profile>) -> List {
        let rows = profile.map(|profile| functions::table(profile).rows).unwrap_or_default();
        let executed: BTreeMap<u64, u64> = rows.iter().filter_map(|row| Some((row.start?, row.self_insns))).collect();
        let function = |function: &profile::Function| JsonFunction {
            name: function.name.clone(),
            start: Address(function.start),
            size_bytes: function.size_bytes,
            file: function.file.clone(),
            line: function.line,
            self_insns: profile.map(|_| executed.get(&function.start).copied().unwrap_or(0)),
        };
        List { functions: Some(functions.iter().map(function).collect()), ..List::of("functions") }
    }

    /// List of the tasks of a run.
    pub fn tasks(profile: &Profile) -> List {
        let task =
            |(task, name): (&profile::Task, String)| JsonTask { name, insns: task.insns, switches: task.switches };
        let tasks = profile.tasks.iter().zip(task_names(profile)).map(task).collect();
        List { tasks: Some(tasks), ..List::of("tasks") }
    }
}
