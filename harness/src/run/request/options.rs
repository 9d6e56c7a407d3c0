// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options as resolved: everything that a run needs to know, from any caller.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::analysis::stacks::View;
use crate::image::heap;
use crate::image::stub::Wanted;
use crate::image::zone_call;
use crate::image::{Board, LoadOptions};
use crate::profile::Window;
use crate::profile::input::Input;
use crate::run::contain::semihosting::Semihosting;
use crate::run::request::settings::Setting;

/// Default of `--period`: a prime, which few loops keep step with.
pub const DEFAULT_PERIOD_INSNS: u64 = 10_007;

/// Default of `--max-depth`: most frames of a call stack.
pub const DEFAULT_MAX_DEPTH: u32 = 256;

/// Default of `--bin-bytes`: the size of the smallest instruction.
pub const DEFAULT_BIN_BYTES: u64 = 2;

/// Default of `--max-output`: most bytes that the firmware may print and write to files.
pub const DEFAULT_MAX_OUTPUT: &str = "256M";

/// Default of `--checkpoint-mib`: memory for a debugger's checkpoints.
pub const DEFAULT_CHECKPOINT_MIB: u64 = 512;

/// Everything that a profiling run needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// The firmware file.
    pub firmware: PathBuf,
    /// Command line of the firmware, without the program's name.
    pub firmware_args: Vec<String>,
    /// The profile directory; None: `./<stem>.profile`.
    pub output: Option<PathBuf>,
    /// Rows of the table; None: all.
    pub top_rows: Option<usize>,
    /// `--wide`: whether names are shown in full on a terminal, too.
    pub is_wide: bool,
    /// Whether a difference in the cross-check is a failure.
    pub strict: bool,
    /// Mean distance of samples.
    pub period_insns: u64,
    /// Seed of the dither.
    pub jitter_seed: Option<u64>,
    /// Most frames of a call stack; None: no call stacks.
    pub max_depth: Option<u32>,
    /// Whether to keep the exact call tree.
    pub exact: bool,
    /// Whether to count the ways of branches that the other counts do not tell.
    pub branches: bool,
    /// `--cycles`: the core whose cycles are counted, or [`AUTO`](crate::chip::cycled::AUTO); None: they are not counted.
    pub cycles: Option<String>,
    /// `--span`: pairs of functions between whose first instructions spans are measured.
    pub spans: Vec<(String, String)>,
    /// `--zone-call`: functions whose calls are zones.
    pub zone_calls: Vec<zone_call::Rule>,
    /// `--heap`: the requested data on allocations; None: the heap is not followed.
    pub heap: Option<heap::Wanted>,
    /// `--timeline`, with the names of `--trace`; None: there is no timeline.
    pub timeline: Option<Vec<String>>,
    /// Names whose calls the timeline records, too, if they are functions.
    pub timed: Vec<String>,
    /// Length of a slice; None: the run is not sliced.
    pub slice: Option<Length>,
    /// Settings for showing call stacks.
    pub view: View,
    /// Whether zones are frames of the flamegraph.
    pub zone_frames: bool,
    /// Whether the flamegraph separates phases.
    pub by_phase: bool,
    /// Whether to draw the flamechart.
    pub flamechart: bool,
    /// Width of an address bin.
    pub bin_bytes: u64,
    /// The measuring window.
    pub window: Window,
    /// Input to be typed on the console, in order.
    pub input: Vec<Input>,
    /// Most bytes that the firmware may print and write to files; more is a failure.
    pub max_output_bytes: u64,
    /// Longest host time of the run; more is a failure.
    pub timeout: Option<Duration>,
    /// `--chip`: a name, or a file.
    pub chip: Option<String>,
    /// `--no-chip`: whether no chip is taken that the user has not named.
    pub no_chip: bool,
    /// `--svd`: registers that the chip file does not describe.
    pub svd: Option<PathBuf>,
    /// `--machine`.
    pub machine: Option<String>,
    /// `--cpu`.
    pub cpu: Option<String>,
    /// Settings of QEMU from a file of unknown origin.
    pub settings: Vec<Setting>,
    /// Further QEMU arguments, typed by the user: QEMU may use the files that they name.
    pub qemu_args: Vec<String>,
    /// `--shift`.
    pub icount_shift: Option<u8>,
    /// `--load-addr`.
    pub load_addr: Option<u64>,
    /// `--load-bias`.
    pub load_bias: Option<u64>,
    /// `--symbols`.
    pub symbols: Option<PathBuf>,
    /// Files for the firmware: name in its directory, file.
    pub files: Vec<(String, PathBuf)>,
    /// `--stub`: functions that return at once.
    pub stubs: Vec<Wanted>,
    /// `--vectors`: address of the vector table.
    pub vectors: Option<u64>,
    /// Whether to record the amount of output over time.
    pub console_marks: bool,
    /// Semihosting calls that are served.
    pub semihosting: Semihosting,
    /// Use of the kernel's sandbox around QEMU.
    pub sandbox: Sandbox,
    /// Whether QEMU has lower limits of memory and files, for an untrusted suite.
    pub is_bounded: bool,
    /// Whether there is one callback per instruction.
    pub oracle: bool,
}

impl Options {
    /// Placement of the image in memory, and the file of its symbols.
    pub fn load(&self) -> LoadOptions<'_> {
        LoadOptions {
            load_addr: self.load_addr,
            load_bias: self.load_bias,
            vectors: self.vectors,
            symbols: self.symbols.as_deref(),
            board: self.board(),
            chip: self.chip.as_deref(),
        }
    }

    /// Board of the machine or chip, among the boards that a Universal Hex can have.
    fn board(&self) -> Option<Board> {
        let machine = self.machine.as_deref().map(|name| name.strip_prefix("arm:").unwrap_or(name));
        let is_v1 = machine.is_some_and(|name| name.split(',').next() == Some("microbit"));
        // The V1 has the chip of QEMU's machine, so any other chip means the V2.
        self.chip.as_ref().map(|_| Board::MicrobitV2).or(is_v1.then_some(Board::MicrobitV1))
    }

    /// All arguments of QEMU beyond those of every run.
    pub fn all_qemu_args(&self) -> Vec<String> {
        self.settings.iter().flat_map(Setting::words).chain(self.qemu_args.iter().cloned()).collect()
    }

    /// File with the image's symbols.
    pub fn symbol_file(&self) -> &Path {
        self.symbols.as_deref().unwrap_or(&self.firmware)
    }
}

/// Use of the kernel's walls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Sandbox {
    /// No walls of the kernel: only the plugin contains the firmware
    Off,
    /// All walls that this kernel has
    #[default]
    Auto,
    /// All walls, or nothing runs
    Required,
}

/// Length of a part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Instructions.
    Insns(u64),
    /// Nanoseconds of virtual time.
    Ns(u64),
}

impl Length {
    /// Instructions of it, where each takes 2^shift ns; at least 1.
    pub fn insns(self, icount_shift: u8) -> u64 {
        match self {
            Length::Insns(insns) => insns,
            Length::Ns(ns) => (ns >> icount_shift).max(1),
        }
    }
}
