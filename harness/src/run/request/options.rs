//! The options as meant: what a run needs to know, whoever asks for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::analysis::stacks::View;
use crate::image::heap;
use crate::image::stub::Wanted;
use crate::profile::Window;
use crate::profile::input::Input;
use crate::run::contain::semihosting::Semihosting;
use crate::run::contain::walls::Sandbox;
use crate::run::request::settings::Setting;

/// Distance of samples unless `--period` says otherwise: a prime, which few loops keep step with.
pub const DEFAULT_PERIOD_INSNS: u64 = 10_007;

/// Most frames of a call stack unless `--max-depth` says otherwise.
pub const DEFAULT_MAX_DEPTH: u32 = 256;

/// Width of an address bin unless `--bin-bytes` says otherwise: the smallest instruction's.
pub const DEFAULT_BIN_BYTES: u64 = 2;

/// What the firmware may print and write to files unless `--max-output` says otherwise.
pub const DEFAULT_MAX_OUTPUT: &str = "256M";

/// Memory for a debugger's checkpoints unless `--checkpoint-mib` says otherwise.
pub const DEFAULT_CHECKPOINT_MIB: u64 = 512;

/// Everything that a profiling run needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// The firmware file.
    pub firmware: PathBuf,
    /// What the firmware is given as its command line, after the program's name.
    pub firmware_args: Vec<String>,
    /// The profile directory; None: `./<stem>.profile`.
    pub output: Option<PathBuf>,
    /// Rows of the table, None for all.
    pub top_rows: Option<usize>,
    /// `--wide`: names are whole on a terminal, too.
    pub is_wide: bool,
    /// A difference in the cross-check is a failure.
    pub strict: bool,
    /// Mean distance of samples.
    pub period_insns: u64,
    /// Seed of the dither.
    pub jitter_seed: Option<u64>,
    /// Most frames of a call stack; None: no call stacks.
    pub max_depth: Option<u32>,
    /// Keep the exact call tree.
    pub exact: bool,
    /// `--span`: functions between whose first instructions instructions are counted.
    pub spans: Vec<(String, String)>,
    /// `--heap`: what is asked for of allocations.
    pub heap: Option<heap::Wanted>,
    /// `--timeline`, with what `--trace` names; None: there is none.
    pub timeline: Option<Vec<String>>,
    /// Instructions of a slice; None: the run is not sliced.
    pub slice_insns: Option<u64>,
    /// How call stacks are shown.
    pub view: View,
    /// Zones are frames of the flamegraph.
    pub zone_frames: bool,
    /// The flamegraph has phases apart.
    pub by_phase: bool,
    /// Draw the flamechart.
    pub flamechart: bool,
    /// Width of an address bin.
    pub bin_bytes: u64,
    /// The measuring window.
    pub window: Window,
    /// What is typed on the console, in order.
    pub input: Vec<Input>,
    /// What the firmware may print and write to files, after which the run has failed.
    pub max_output_bytes: u64,
    /// Host time after which the run has failed.
    pub timeout: Option<Duration>,
    /// `--chip`: a name, or a file.
    pub chip: Option<String>,
    /// `--machine`.
    pub machine: Option<String>,
    /// `--cpu`.
    pub cpu: Option<String>,
    /// Settings of QEMU that a file made which somebody else wrote.
    pub settings: Vec<Setting>,
    /// Further QEMU arguments, which the user typed: the files that they name are QEMU's to use.
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
    /// `--vectors`: where the vector table is.
    pub vectors: Option<u64>,
    /// Note how much is printed when.
    pub console_marks: bool,
    /// Which semihosting calls are served.
    pub semihosting: Semihosting,
    /// Whether the kernel keeps QEMU in.
    pub sandbox: Sandbox,
    /// QEMU has less memory and shorter files: what is run is a stranger's.
    pub is_bounded: bool,
    /// One callback per instruction.
    pub oracle: bool,
}

impl Options {
    /// All arguments that QEMU is given beyond those of every run.
    pub fn all_qemu_args(&self) -> Vec<String> {
        self.settings.iter().flat_map(Setting::words).chain(self.qemu_args.iter().cloned()).collect()
    }

    /// The file that has the image's symbols.
    pub fn symbol_file(&self) -> &Path {
        self.symbols.as_deref().unwrap_or(&self.firmware)
    }
}
