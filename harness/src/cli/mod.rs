// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command line as typed. `resolve.rs` turns it into options.

mod examples;
pub(crate) mod input_row;
pub mod resolve;
pub mod word;

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{Args, FromArgMatches as _, Parser, Subcommand, ValueEnum};

use crate::analysis::heap::Quantity;
use crate::analysis::size::Level;
use crate::chip::cycled;
use crate::export::Format;
use crate::run::contain::semihosting::Semihosting;
use crate::run::request::options::Sandbox;
use crate::run::request::options::{
    DEFAULT_BIN_BYTES, DEFAULT_CHECKPOINT_MIB, DEFAULT_MAX_DEPTH, DEFAULT_MAX_OUTPUT, DEFAULT_PERIOD_INSNS,
};
use crate::show::bins::Order;
use crate::text::terminal::Color;

/// Exact, reproducible profiles of firmware, without hardware.
#[derive(Debug, Parser)]
#[command(name = "harness", version, long_version = LONG_VERSION, args_conflicts_with_subcommands = true, arg_required_else_help = true)]
#[command(after_help = format!("{}\n\n{EXIT_CODES}", examples::HARNESS), max_term_width = 100)]
pub struct Cli {
    /// Command to carry out; without one, a firmware file is profiled.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// `harness firmware.elf` means `harness profile firmware.elf`.
    #[command(flatten)]
    pub profile: Option<ProfileArgs>,
    /// When to use colour; NO_COLOR means never [default: auto, on a terminal]
    #[arg(long, value_name = "WHEN", global = true)]
    pub color: Option<Color>,
}

/// Commit that this program was built from.
pub(crate) const COMMIT: &str = env!("HARNESS_COMMIT");

/// Text of `--version` after the name; `-V` prints only the version. Profiles do not contain this text: the same run
/// gives the same bytes in every build.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("HARNESS_COMMIT"),
    "\nQEMU: 9.2 to 11.1 (plugin API 4 to 7)"
);

const EXIT_CODES: &str = "\
Exit codes; when several apply, the first of 2, 5, 4, 1, 3 counts:
  0  all good
  1  the firmware failed: a non-zero exit status, lock-up, reset, asleep for ever, stuck, faulting only; \
under --strict also: its own counts differ, calls disprove stacks or the call tree, it stands still, \
or its chip file guesses or was learned without a register that is now accessed; \
in a suite: an expectation is not met
  2  usage or bad input
  3  a regression threshold was crossed
  4  a limit, timeout or output bound ended the run
  5  the emulator could not run
`harness run` has codes of its own: see `harness run --help`.";

const RUN_HELP: &str = "\
As a cargo runner, in .cargo/config.toml of the firmware:

  [target.'cfg(target_os = \"none\")']
  runner = \"harness run\"

Put options before FIRMWARE. Everything after it is passed to the firmware, which reads it through semihosting \
(SYS_GET_CMDLINE) as one line: `firmware ARGS…`, separated by spaces. One `--` right after FIRMWARE is dropped. \
Standard output has only what the firmware prints.

Exit codes:
  the firmware's own status; 0 also if --for or --until ended the run
  1    also if it ended without a status: lock-up, reset, asleep for ever, stuck, faulting only, a forbidden or \
unknown semihosting call, a window that never opened
  124  a limit, timeout, output bound or Ctrl-C ended the run
  125  usage or bad input, or the emulator could not run";

/// Commands of harness.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one image in QEMU and profile it
    #[command(after_help = examples::PROFILE)]
    Profile(ProfileArgs),
    /// Write a first suite for the firmware found here: run it, and keep its numbers as the baseline
    #[command(after_help = examples::INIT)]
    Init(InitArgs),
    /// Run a suite of images, check expectations, and compare with a baseline
    #[command(after_help = examples::TEST)]
    Test(TestArgs),
    /// Compare two saved profiles: what changed, and which functions account for it
    #[command(after_help = examples::DIFF)]
    Diff(DiffArgs),
    /// Write a saved profile in the format of another tool
    #[command(after_help = examples::EXPORT)]
    Export(ExportArgs),
    /// Show a saved profile's functions, like the table after the run
    #[command(after_help = examples::TOP)]
    Top(TopArgs),
    /// Show a function's instructions and source lines with their exact counts
    #[command(after_help = examples::ANNOTATE)]
    Annotate(AnnotateArgs),
    /// Show which lines, functions and branches ran, in one profile or several
    #[command(after_help = examples::COVERAGE)]
    Coverage(CoverageArgs),
    /// Show instructions and samples by address, as a histogram
    #[command(after_help = examples::BINS, override_usage = "harness bins [OPTIONS] <PROFILE>")]
    Bins(BinsArgs),
    /// Show who held the memory of a run with --heap: peak, leaks, failures, bad frees
    #[command(after_help = examples::HEAP)]
    Heap(HeapArgs),
    /// Show who calls a function, what it calls, and what that costs
    #[command(after_help = examples::CALLERS, override_usage = "harness callers [OPTIONS] <PROFILE> <FUNCTION>")]
    Callers(CallersArgs),
    /// Show flash and static RAM by region, section, library, file and symbol, or compare those of two builds
    #[command(after_help = examples::SIZE, override_usage = "harness size [OPTIONS] <FIRMWARE> [AFTER]")]
    Size(SizeArgs),
    /// Show the most stack that each task and the exceptions can need, from the machine code
    #[command(after_help = examples::STACK, override_usage = "harness stack [OPTIONS] <FIRMWARE> [PROFILE]...")]
    Stack(StackArgs),
    /// Hold all that firmware may not outgrow against one budget: flash, RAM, stacks, heap, instructions
    #[command(after_help = examples::BUDGET, override_usage = "harness budget [OPTIONS] <FIRMWARE> <PROFILE>")]
    Budget(BudgetArgs),
    /// Write a saved profile as one page for the browser, to look around in
    #[command(after_help = examples::REPORT)]
    Report(ReportArgs),
    /// Look around in a saved profile, or in what changed between two, on the terminal
    #[command(after_help = examples::UI)]
    Ui(UiArgs),
    /// Show a profile's page in the browser, and make it again when the profile or the firmware changes
    #[command(after_help = examples::SERVE)]
    Serve(ServeArgs),
    /// Join the results of shards into one report and exit code
    #[command(after_help = examples::MERGE)]
    Merge(MergeArgs),
    /// Show a suite's numbers over commits, from kept results: trends, steps with their commits, limits
    #[command(after_help = examples::HISTORY)]
    History(HistoryArgs),
    /// Run one image as a program with its output and exit status, and leave a profile (a cargo runner)
    #[command(after_help = format!("{}\n\n{RUN_HELP}", examples::RUN), override_usage = "harness run [OPTIONS] <FIRMWARE> [--] [ARGS]...")]
    Run(RunArgs),
    /// Show what is installed and working, what is missing, and how to get it
    #[command(after_help = examples::DOCTOR)]
    Doctor(DoctorArgs),
    /// List machines, chips, export formats, functions, or tasks
    #[command(after_help = examples::LIST)]
    List(ListArgs),
    /// Make a chip file for a chip that harness does not know, from firmware for that chip: `harness chip learn`
    #[command(after_help = examples::CHIP)]
    Chip(ChipArgs),
    /// Put GDB at any instruction of a run, forwards and backwards
    #[command(after_help = examples::DEBUG)]
    Debug(DebugArgs),
    /// Print the script that completes harness's command line in a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print this program's manual page, or write the pages of all commands
    #[command(after_help = examples::MAN)]
    Man {
        /// Directory for the pages of all commands
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

/// Arguments of `harness chip`.
#[derive(Debug, Args)]
pub struct ChipArgs {
    /// Command for a chip.
    #[command(subcommand)]
    pub command: ChipCommand,
}

/// Commands of `harness chip`.
#[derive(Debug, Subcommand)]
pub enum ChipCommand {
    /// Run firmware again and again, and write a chip file that gives it what it waits for
    #[command(after_help = examples::CHIP)]
    Learn(LearnArgs),
    /// Say which chip an image is for, and how sure that is
    #[command(after_help = examples::CHIP_SUGGEST)]
    Suggest(ChipSuggestArgs),
    /// Show who read, wrote and polled the chip's registers in a run
    #[command(after_help = examples::CHIP_SHOW)]
    Show(ChipShowArgs),
    /// Check a chip file: each mistake with its line and reason
    #[command(after_help = examples::CHIP_CHECK)]
    Check(ChipCheckArgs),
}

/// Arguments of `harness chip suggest`.
#[derive(Debug, Args)]
pub struct ChipSuggestArgs {
    /// Firmware, as for `harness profile`
    #[arg(value_name = "FIRMWARE", required_unless_present = "schema")]
    pub firmware: Option<PathBuf>,
    /// Place of the image and of its symbols
    #[command(flatten)]
    pub placement: PlacementArgs,
    /// Chips shown; 0 shows all that have memory for the image
    #[arg(long, value_name = "ROWS", default_value_t = 6)]
    pub top: usize,
    /// Print all of these chips as JSON
    #[arg(long, conflicts_with = "top")]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, exclusive = true)]
    pub schema: bool,
}

impl ChipSuggestArgs {
    /// Converts the arguments to those of profiling the firmware.
    pub fn into_profile_args(self) -> ProfileArgs {
        let measure = MeasureArgs {
            load_addr: self.placement.load_addr,
            vectors: self.placement.vectors,
            symbols: self.placement.symbols,
            ..MeasureArgs::default()
        };
        of_firmware(self.firmware, self.json, measure)
    }
}

/// Arguments of the commands for chips that place an image.
#[derive(Debug, Args)]
pub struct PlacementArgs {
    /// Load address of a raw binary
    #[arg(long, value_name = "ADDRESS")]
    pub load_addr: Option<String>,
    /// Address of the vector table [default: the image's]
    #[arg(long, value_name = "ADDRESS")]
    pub vectors: Option<String>,
    /// ELF file with the symbols of an image that has none
    #[arg(long, value_name = "ELF")]
    pub symbols: Option<PathBuf>,
}

/// Arguments of profiling a firmware for a command of its own. clap demands the firmware, unless a schema is asked for.
fn of_firmware(firmware: Option<PathBuf>, quiet: bool, measure: MeasureArgs) -> ProfileArgs {
    ProfileArgs {
        firmware: firmware.unwrap_or_default(),
        top: 0,
        wide: WideArgs::default(),
        quiet,
        verbose: false,
        json: false,
        strict: false,
        measure,
    }
}

/// Arguments of `harness chip show`.
#[derive(Debug, Args)]
pub struct ChipShowArgs {
    /// Profile directory or file of a run with --chip
    #[arg(value_name = "PROFILE", required_unless_present = "schema")]
    pub profile: Option<PathBuf>,
    /// Registers and polls shown; 0 shows all
    #[arg(long, value_name = "ROWS", default_value_t = 20)]
    pub top: usize,
    /// Print all registers as JSON
    #[arg(long, conflicts_with = "top")]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, exclusive = true)]
    pub schema: bool,
}

/// Arguments of `harness chip check`.
#[derive(Debug, Args)]
pub struct ChipCheckArgs {
    /// Chip file
    #[arg(value_name = "FILE", required_unless_present_any = ["schema", "file_schema"])]
    pub file: Option<PathBuf>,
    /// Registers of the chip as its vendor describes them (CMSIS-SVD): the file's own kinds must have no others
    #[arg(long, value_name = "FILE")]
    pub svd: Option<PathBuf>,
    /// Give the check up after SECONDS on this host
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: Option<f64>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, exclusive = true)]
    pub schema: bool,
    /// Print the JSON Schema of chip files, for editors
    #[arg(long, exclusive = true)]
    pub file_schema: bool,
}

/// Arguments of `harness chip learn`.
#[derive(Debug, Args)]
pub struct LearnArgs {
    /// Firmware, as for `harness profile`
    #[arg(value_name = "FIRMWARE", required_unless_present = "schema")]
    pub firmware: Option<PathBuf>,
    /// Chip file to write; - is standard output [default: ./chip.toml, unless there is one]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Length of each run in instructions, unless it ends at something that the chip lacks; eight times as long in a delay
    #[arg(long = "for", value_name = "N", default_value = "20M")]
    pub for_insns: String,
    /// End learning after SECONDS on this host; what was learned by then is written
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: Option<f64>,
    /// Place of the image and of its symbols
    #[command(flatten)]
    pub placement: PlacementArgs,
    /// Registers of the chip as its vendor describes them (CMSIS-SVD)
    #[arg(long, value_name = "FILE")]
    pub svd: Option<PathBuf>,
    /// Show no progress: only the summary, what the chip still lacks, and the file
    #[arg(short, long)]
    pub quiet: bool,
    /// Print the summary, and what the chip still lacks, as JSON
    #[arg(long)]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, exclusive = true)]
    pub schema: bool,
    /// Kernel sandbox that keeps QEMU from files and the network: off, auto (what the kernel has), or required
    #[arg(long, value_name = "WHETHER", default_value = "auto", help_heading = "Containment")]
    pub sandbox: Sandbox,
}

impl LearnArgs {
    /// Converts the arguments to those of profiling the firmware.
    pub fn into_profile_args(self) -> ProfileArgs {
        let measure = MeasureArgs {
            for_insns: Some(self.for_insns),
            timeout: self.timeout,
            load_addr: self.placement.load_addr,
            vectors: self.placement.vectors,
            symbols: self.placement.symbols,
            svd: self.svd,
            chip: Some("auto".to_owned()),
            sandbox: self.sandbox,
            ..MeasureArgs::default()
        };
        of_firmware(self.firmware, self.quiet, measure)
    }
}

/// Subjects of `harness list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Listed {
    /// QEMU's machines that can be chosen for an image, with their memory as MEMORY blocks of a linker script
    Machines,
    /// The chips that are known by name (--chip), with their processor and memory
    Chips,
    /// The formats of `harness export`
    Formats,
    /// The functions of an image or of a profile (then with instruction counts), under the names that commands accept
    Functions,
    /// The tasks of a profile's run
    Tasks,
}

/// Arguments of `harness list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Subject of the list
    #[arg(required_unless_present = "schema")]
    pub what: Option<Listed>,
    /// For functions: a firmware file or a profile; for tasks: a profile
    #[arg(value_name = "PROFILE|FIRMWARE", required_if_eq_any = [("what", "functions"), ("what", "tasks")])]
    pub of: Option<PathBuf>,
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, exclusive = true)]
    pub schema: bool,
}

/// Arguments of `harness init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Firmware files, or folders to search for ELF files [default: the current directory and all below it]
    #[arg(value_name = "PATH")]
    pub places: Vec<PathBuf>,
    /// Length of the window, in instructions, for an image that does not end before that
    #[arg(long = "for", value_name = "N", default_value = "50M")]
    pub for_insns: String,
    /// Leave out an image that has not ended after SECONDS on this host
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, allow_negative_numbers = true)]
    pub timeout: f64,
    /// Images at a time [default: one per core]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
    /// Show no progress and no line for each image
    #[arg(short, long)]
    pub quiet: bool,
    /// Write tasks and debugger settings for VS Code instead, for one firmware file; entries of .vscode/*.json stay
    #[arg(long, conflicts_with_all = ["for_insns", "timeout", "jobs", "quiet", "sandbox", "json"])]
    pub vscode: bool,
    /// Print the files written, and the outcome of each image, as JSON
    #[arg(long)]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, exclusive = true)]
    pub schema: bool,
    /// Kernel sandbox that keeps QEMU from files and the network: off, auto (what the kernel has), or required
    #[arg(long, value_name = "WHETHER", default_value = "auto", help_heading = "Containment")]
    pub sandbox: Sandbox,
}

/// Arguments of `harness debug`.
#[derive(Debug, Args)]
pub struct DebugArgs {
    /// Profile whose run to debug, or a firmware file, which is profiled first
    #[arg(value_name = "PROFILE|FIRMWARE")]
    pub target: PathBuf,
    /// Place at which to start: sample:N, insn:N, call:FUNC[:K], max:FUNC, max-irq:NAME, masked-max, peak-stack[:TASK],
    /// console:TEXT, switch:TASK[:K], write:ADDR|SYMBOL, crash, end [default: the first instruction]
    #[arg(long, value_name = "PLACE")]
    pub at: Option<String>,
    /// Start GDB there, in this terminal
    #[arg(long)]
    pub gdb: bool,
    /// Wait for GDB on this port of localhost instead of a private socket; 0 picks a free port
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Firmware that was profiled, if it has moved
    #[arg(long, value_name = "FIRMWARE")]
    pub elf: Option<PathBuf>,
    /// Memory for checkpoints, which make going backwards fast; 0: none
    #[arg(long, value_name = "MIB", default_value_t = DEFAULT_CHECKPOINT_MIB)]
    pub checkpoint_mib: u64,
    /// Settings of the run if there is no profile; with a profile, the settings that it does not hold.
    #[command(flatten)]
    pub measure: MeasureArgs,
}

impl DebugArgs {
    /// Converts the arguments to those of profiling a firmware file.
    pub fn into_profile_args(self, firmware: PathBuf) -> ProfileArgs {
        ProfileArgs::of(firmware, self.measure)
    }
}

/// Arguments of `harness doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, exclusive = true)]
    pub schema: bool,
}

/// Arguments of `harness test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// The suite [default: the nearest harness.toml, here or above]
    #[arg(value_name = "SUITE")]
    pub suite: Option<PathBuf>,
    /// Run only matching images: part of a name, tag(x), name(glob*), and, or, not; may be repeated
    #[arg(short, long, value_name = "FILTER")]
    pub filter: Vec<String>,
    /// Hide progress and images that pass without a warning
    #[arg(short, long)]
    pub quiet: bool,
    /// Apply `strict` to every image, and fail if a limit has no effect
    #[arg(long)]
    pub strict: bool,
    /// List the images instead of running them
    #[arg(long)]
    pub list: bool,
    /// Print the JSON Schema of report.json
    #[arg(long)]
    pub schema: bool,
    /// Keep running until Ctrl-C, and rerun an image when it, a file it reads, its baseline or the suite changes
    #[arg(long, conflicts_with_all = ["list", "schema", "save_baseline", "ratchet", "shard", "json"])]
    pub watch: bool,
    /// Print report.json instead of lines
    #[arg(long, conflicts_with_all = ["list", "schema"])]
    pub json: bool,
    /// Commit of the firmware, for `harness history` [default: what the pipeline's variables say, such as GITHUB_SHA or
    /// CI_COMMIT_SHA]
    #[arg(long, value_name = "COMMIT")]
    pub revision: Option<String>,
    /// Time of that commit, as `git log -1 --format=%cI` prints it, or in seconds since 1970 [default: the pipeline's]
    #[arg(long, value_name = "TIME")]
    pub revision_time: Option<String>,
    /// Images at a time [default: one per core]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
    /// Directory for the reports and the profiles [default: ./harness-report]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Compare with this baseline [default: the suite's]
    #[arg(long, value_name = "NAME", help_heading = "Baselines")]
    pub baseline: Option<String>,
    /// Save the numbers as this baseline
    #[arg(long, value_name = "NAME", help_heading = "Baselines")]
    pub save_baseline: Option<String>,
    /// Tighten the baseline where a run is better and crosses no threshold
    #[arg(long, help_heading = "Baselines")]
    pub ratchet: bool,
    /// Run the K-th of N parts of the suite: 1/4, 2/4, ..., or auto or auto/N, which take K from the engine that starts
    /// the parts (Slurm, Kubernetes, GitLab, Buildkite, Bazel) or from HARNESS_SHARD
    #[arg(long, value_name = "K/N", value_parser = ShardRequest::parse, help_heading = "Many machines")]
    pub shard: Option<ShardRequest>,
    /// Run a suite from somebody else: only settings of QEMU, only files of the suite's folder, no baseline written,
    /// limits on time, output and memory
    #[arg(long, conflicts_with_all = ["save_baseline", "ratchet"], help_heading = "Containment")]
    pub untrusted: bool,
    /// Kernel sandbox that keeps QEMU from files and the network: off, auto (what the kernel has), or required
    /// [default: auto; with --untrusted required]
    #[arg(long, value_name = "WHETHER", help_heading = "Containment")]
    pub sandbox: Option<Sandbox>,
    /// Run everything, even what has not changed since it was last run
    #[arg(long, help_heading = "Cache")]
    pub no_cache: bool,
    /// Place of the cache: a folder, or, in a build with object stores, s3://BUCKET/FOLDER or https://SERVER/FOLDER
    /// [default: harness in the user's cache directory]
    #[arg(long, value_name = "PLACE", alias = "cache-dir", help_heading = "Cache")]
    pub cache: Option<PathBuf>,
    /// Secret of all who may add to the cache, of 32 bytes or more: other entries do not count
    #[arg(long, value_name = "FILE", help_heading = "Cache")]
    pub cache_key_file: Option<PathBuf>,
    /// Add nothing to the cache: for jobs that run code that was not reviewed
    #[arg(long, help_heading = "Cache")]
    pub cache_read_only: bool,
}

/// Part of a suite, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardRequest {
    /// `K/N`: number of the part, from 1, and number of parts.
    Stated(usize, usize),
    /// `auto`, or `auto/N` with the number of parts.
    Auto(Option<usize>),
}

impl ShardRequest {
    fn parse(text: &str) -> Result<Self, String> {
        let request = match text.split_once('/') {
            None if text == "auto" => Some(Self::Auto(None)),
            Some(("auto", parts)) => {
                parts.parse().ok().filter(|&parts| parts > 0).map(|parts| Self::Auto(Some(parts)))
            }
            Some((part, parts)) => {
                part.parse().ok().zip(parts.parse().ok()).map(|(part, parts)| Self::Stated(part, parts))
            }
            None => None,
        };
        request
            .filter(|request| !matches!(request, Self::Stated(part, parts) if !(1..=*parts).contains(part)))
            .ok_or_else(|| "write K/N with K from 1 to N, such as 1/4; auto; or auto/N".to_owned())
    }
}

/// Arguments of `harness diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Profile directory or file before the change
    #[arg(value_name = "BEFORE")]
    pub before: Option<PathBuf>,
    /// Profile directory or file after the change
    #[arg(value_name = "AFTER")]
    pub after: Option<PathBuf>,
    /// Also draw both as a differential flamegraph
    #[arg(short, long, value_name = "SVG")]
    pub output: Option<PathBuf>,
    /// Rows of the table; 0 shows all functions
    #[arg(long, value_name = "ROWS", default_value_t = 20)]
    pub top: usize,
    /// Print Markdown, as for a pull request: the cause, functions, and a row for each zone and test case
    #[arg(long, conflicts_with_all = ["json", "output"])]
    pub markdown: bool,
    /// Show interrupts under a root of their own instead of on top of the code that they interrupted
    #[arg(long)]
    pub fold_irqs: bool,
    /// Print everything that changed as JSON instead of tables
    #[arg(long, conflicts_with = "output")]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, conflicts_with_all = ["before", "after", "json"])]
    pub schema: bool,
}

/// Arguments of `harness export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Profile directory or file
    #[arg(value_name = "PROFILE")]
    pub profile: Option<PathBuf>,
    /// Format to write [default: list the formats]
    #[arg(short, long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Print the JSON Schema of the format json
    #[arg(long, conflicts_with_all = ["profile", "format"])]
    pub schema: bool,
    /// File to write, or directory for a format of several files [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show interrupts under a root of their own instead of on top of the code that they interrupted
    #[arg(long)]
    pub fold_irqs: bool,
    /// Show zones as frames, each around the function in which it begins: folded, pprof, speedscope, chrome
    #[arg(long)]
    pub zones: bool,
    /// Separate the phases: as outermost frames in folded, labels in pprof, profiles of their own in speedscope
    #[arg(long, value_name = "WHAT")]
    pub by: Option<Split>,
    /// Write cycles instead of instructions: folded
    #[arg(long)]
    pub cycles: bool,
    /// Only slice N, or slices N..M: folded, csv, speedscope, pprof
    #[arg(long, value_name = "N")]
    pub slice: Option<String>,
    /// Instructions per second, for the times in gmon, chrome, perfetto, ctf and timeline: with 1M an instruction takes
    /// 1 us, with 1G 1 ns [default: the machine's virtual clock, 1e9 / 2^shift]
    #[arg(long, value_name = "HZ")]
    pub clock_hz: Option<String>,
    /// Find sources that have moved: replace the path's beginning FROM by TO; may be repeated
    #[arg(long, value_name = "FROM=TO")]
    pub source_map: Vec<String>,
}

/// Arguments of `harness top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Profile directory or file
    #[arg(value_name = "PROFILE", required_unless_present = "schema")]
    pub profile: Option<PathBuf>,
    /// Rows of the table; 0 shows all functions
    #[arg(long, value_name = "ROWS", default_value_t = 20)]
    pub top: usize,
    /// Order of the table
    #[arg(long, value_name = "COLUMN", default_value = "self")]
    pub sort: Sort,
    /// Show a table for each phase
    #[arg(long, value_name = "WHAT")]
    pub by: Option<Split>,
    /// Also show the hottest address bins, and the error of the sampled shares
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
    /// Print the whole profile as JSON, as `harness export --format json` does
    #[arg(long, conflicts_with_all = ["top", "sort", "by", "wide"])]
    pub json: bool,
    /// Print the JSON Schema of --json, as `harness export --schema` does
    #[arg(long, exclusive = true)]
    pub schema: bool,
    /// Width of tables.
    #[command(flatten)]
    pub wide: WideArgs,
}

/// Criterion for splitting a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Split {
    /// The firmware's phases, PHASE("name") of zone.h
    Phase,
}

/// Column that sorts the table of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Most instructions in the function itself first, or most cycles with --cycles
    #[value(name = "self")]
    SelfInsns,
    /// Most instructions including called functions first
    Inclusive,
    /// Largest minimum per call first; needs a profile made with --exact
    Min,
    /// Largest maximum per call first; needs a profile made with --exact
    Max,
    /// Most calls first
    Calls,
    /// Most samples first
    Samples,
    /// By name
    Name,
}

/// Arguments of `harness annotate`.
#[derive(Debug, Args)]
pub struct AnnotateArgs {
    /// Profile directory or file
    #[arg(value_name = "PROFILE", required_unless_present = "schema")]
    pub profile: Option<PathBuf>,
    /// Name of the function, with or without its arguments; FILE:NAME; or an address in it, 0x… [default: the one with the
    /// most instructions; with --json all]
    #[arg(value_name = "FUNCTION")]
    pub function: Option<String>,
    /// Print lines and instructions as JSON; without FUNCTION those of all functions that executed
    #[arg(long, conflicts_with = "wide")]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, exclusive = true)]
    pub schema: bool,
    /// Find sources that have moved: replace the path's beginning FROM by TO; may be repeated
    #[arg(long, value_name = "FROM=TO")]
    pub source_map: Vec<String>,
    /// Width of tables.
    #[command(flatten)]
    pub wide: WideArgs,
}

/// Arguments of `harness coverage`.
#[derive(Debug, Args)]
pub struct CoverageArgs {
    /// Profile directories or files, or a suite's report directory; they are added up
    #[arg(value_name = "PROFILE", required_unless_present = "schema")]
    pub profiles: Vec<PathBuf>,
    /// Format to write [default: a table]
    #[arg(short, long, value_name = "FORMAT")]
    pub format: Option<CoverageFormat>,
    /// Print everything as JSON
    #[arg(long, conflicts_with_all = ["format", "wide"])]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, exclusive = true)]
    pub schema: bool,
    /// Only lines that differ from this commit or branch (asks `git diff` in the current directory)
    #[arg(long, value_name = "REF")]
    pub since: Option<String>,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Find sources that have moved: replace the path's beginning FROM by TO; may be repeated
    #[arg(long, value_name = "FROM=TO")]
    pub source_map: Vec<String>,
    /// Width of tables.
    #[command(flatten)]
    pub wide: WideArgs,
}

/// Format of `harness coverage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CoverageFormat {
    /// lcov's tracefile: genhtml, Codecov, editors
    Lcov,
    /// One page for the browser
    Html,
    /// Cobertura's XML: GitLab, Jenkins, Azure
    Cobertura,
    /// Annotations of a GitHub job: what never ran
    Github,
}

/// Width of tables.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct WideArgs {
    /// Do not shorten names and paths to the terminal's width; files and pipes always get whole names
    #[arg(long)]
    pub wide: bool,
}

/// Arguments of `harness bins`.
#[derive(Debug, Args)]
pub struct BinsArgs {
    /// Profile directory or file
    #[arg(value_name = "PROFILE", required_unless_present = "schema")]
    pub profile: Option<PathBuf>,
    /// Print all bins as JSON
    #[arg(long, conflicts_with_all = ["top", "by", "wide"])]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, exclusive = true)]
    pub schema: bool,
    /// Width of a bin in bytes, a power of two [default: the profile's]
    #[arg(long, value_name = "BYTES")]
    pub bin_bytes: Option<String>,
    /// Number of bins shown, those with the most instructions; 0 shows all
    #[arg(long, value_name = "ROWS", default_value_t = 40)]
    pub top: usize,
    /// Order of the bins
    #[arg(long, value_name = "ORDER", default_value = "address")]
    pub by: Order,
    /// Only slice N, or slices N..M; the first is 0
    #[arg(long, value_name = "N")]
    pub slice: Option<String>,
    /// Width of tables.
    #[command(flatten)]
    pub wide: WideArgs,
}

/// Arguments of `harness size`.
#[derive(Debug, Args)]
pub struct SizeArgs {
    /// ELF file
    #[arg(value_name = "FIRMWARE", required_unless_present = "schema")]
    pub firmware: Option<PathBuf>,
    /// ELF file of a later build: show what changed
    #[arg(value_name = "AFTER")]
    pub after: Option<PathBuf>,
    /// Regions: a linker script with MEMORY, or GNU ld's map file [default: the memory of the machine that fits]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["chip", "machine"])]
    pub regions: Option<PathBuf>,
    /// Linker's map file, of GNU ld or LLD: archives (libc.a) are libraries by their names
    #[arg(long, value_name = "FILE")]
    pub map: Option<PathBuf>,
    /// Map file of the later build
    #[arg(long, value_name = "FILE", requires = "after")]
    pub map_after: Option<PathBuf>,
    /// Regions of a chip: its name, or a chip file
    #[arg(long, value_name = "CHIP", conflicts_with = "machine")]
    pub chip: Option<String>,
    /// Regions of a machine of QEMU
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,
    /// Profile of a run: also show what it used of its tasks' stacks, and (made with --heap) of the heap
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<PathBuf>,
    /// Tables that are shown [default: all]
    #[arg(long, value_name = "LEVEL", value_delimiter = ',')]
    pub by: Vec<SizeLevel>,
    /// Rows of each table; 0 shows all
    #[arg(long, value_name = "ROWS", default_value_t = 15)]
    pub top: usize,
    /// Also write a page for the browser: flash and RAM as areas, by library, file and symbol
    #[arg(short, long, value_name = "HTML", conflicts_with = "json")]
    pub output: Option<PathBuf>,
    /// Print Markdown, as for a pull request
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print everything as JSON: regions, sections, symbols, and the owner of each byte
    #[arg(long, conflicts_with_all = ["top", "by", "wide"])]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, exclusive = true)]
    pub schema: bool,
    /// Width of tables.
    #[command(flatten)]
    pub wide: WideArgs,
}

/// Table of `harness size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SizeLevel {
    /// Regions of memory
    Region,
    /// Sections of the file
    Section,
    /// Archives (with --map), crates, and directories of source files
    Library,
    /// Source files
    File,
    /// Functions and variables
    Symbol,
}

impl SizeLevel {
    /// Converts to the analysis' type.
    pub fn level(self) -> Level {
        match self {
            SizeLevel::Region => Level::Region,
            SizeLevel::Section => Level::Section,
            SizeLevel::Library => Level::Library,
            SizeLevel::File => Level::File,
            SizeLevel::Symbol => Level::Symbol,
        }
    }
}

/// Arguments of `harness stack`.
#[derive(Debug, Args)]
pub struct StackArgs {
    /// ELF file
    #[arg(value_name = "FIRMWARE", required_unless_present = "schema")]
    pub firmware: Option<PathBuf>,
    /// Profiles of its runs: they have the tasks, and show where indirect calls go
    #[arg(value_name = "PROFILE")]
    pub profiles: Vec<PathBuf>,
    /// TOML file whose table [stack] states what the code does not show: bounds, calls, frames, priorities, tasks,
    /// ends
    #[arg(long, value_name = "FILE")]
    pub bounds: Option<PathBuf>,
    /// Compare with the .su files of -fstack-usage in this directory and below it
    #[arg(long, value_name = "DIR")]
    pub su: Option<PathBuf>,
    /// Reasons shown for each number that is not a bound; 0 shows all
    #[arg(long, value_name = "ROWS", default_value_t = 5)]
    pub top: usize,
    /// Print everything as JSON
    #[arg(long, conflicts_with = "top")]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, exclusive = true)]
    pub schema: bool,
}

/// Arguments of `harness budget`.
#[derive(Debug, Args)]
pub struct BudgetArgs {
    /// ELF file
    #[arg(value_name = "FIRMWARE", required_unless_present = "schema")]
    pub firmware: Option<PathBuf>,
    /// Profile of a run of it
    #[arg(value_name = "PROFILE", required_unless_present = "schema")]
    pub profile: Option<PathBuf>,
    /// TOML file with [budget] and [stack], such as a suite [default: the nearest harness.toml, here or above]
    #[arg(long, value_name = "FILE")]
    pub budget: Option<PathBuf>,
    /// Baseline to show the trend against: a .baseline file of a suite
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Also write a JUnit file with a test case for each row
    #[arg(long, value_name = "XML")]
    pub junit: Option<PathBuf>,
    /// Print Markdown, as for a pull request
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print the rows as JSON
    #[arg(long)]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, exclusive = true)]
    pub schema: bool,
}

/// Arguments of `harness heap`.
#[derive(Debug, Args)]
pub struct HeapArgs {
    /// Profile directory or file
    #[arg(value_name = "PROFILE", required_unless_present = "schema")]
    pub profile: Option<PathBuf>,
    /// Print the heap as JSON
    #[arg(long, conflicts_with_all = ["top", "output", "of", "wide", "fold_irqs"])]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, exclusive = true)]
    pub schema: bool,
    /// Call paths shown in each table; 0 shows all
    #[arg(long, value_name = "ROWS", default_value_t = 10)]
    pub top: usize,
    /// Also draw a flamegraph of the heap
    #[arg(short, long, value_name = "SVG")]
    pub output: Option<PathBuf>,
    /// Quantity that the flamegraph shows
    #[arg(long, value_name = "WHAT", default_value = "peak")]
    pub of: HeapQuantity,
    /// Show interrupts under a root of their own in the flamegraph
    #[arg(long)]
    pub fold_irqs: bool,
    /// Width of tables.
    #[command(flatten)]
    pub wide: WideArgs,
}

/// Quantity of a heap flamegraph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HeapQuantity {
    /// Bytes held at the peak
    Peak,
    /// Bytes still held at the end
    Leaked,
    /// Bytes allocated
    Allocated,
    /// Allocations
    Calls,
}

impl HeapQuantity {
    /// Converts to the analysis' type.
    pub fn quantity(self) -> Quantity {
        match self {
            HeapQuantity::Peak => Quantity::Peak,
            HeapQuantity::Leaked => Quantity::Leaked,
            HeapQuantity::Allocated => Quantity::Allocated,
            HeapQuantity::Calls => Quantity::Calls,
        }
    }
}

/// Arguments of `harness callers`.
#[derive(Debug, Args)]
pub struct CallersArgs {
    /// Profile directory or file
    #[arg(value_name = "PROFILE", required_unless_present = "schema")]
    pub profile: Option<PathBuf>,
    /// Function: its name, FILE:NAME, or an address in it, 0x…
    #[arg(value_name = "FUNCTION", required_unless_present = "schema")]
    pub function: Option<String>,
    /// Print all callers and callees as JSON
    #[arg(long, conflicts_with = "top")]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, exclusive = true)]
    pub schema: bool,
    /// Calls to follow in each direction; 2 also shows the callers of the callers
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_depth)]
    pub depth: std::num::NonZeroUsize,
    /// Callers and callees shown for each function; 0 shows all
    #[arg(long, value_name = "ROWS", default_value_t = 20)]
    pub top: usize,
}

fn parse_depth(text: &str) -> Result<std::num::NonZeroUsize, String> {
    text.parse().map_err(|_| "write a number of at least 1".to_owned())
}

/// Arguments of `harness report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Profile directory or file, or the reports of a suite (harness-report, report.json)
    #[arg(value_name = "PROFILE|REPORTS")]
    pub profile: PathBuf,
    /// File to write; - is standard output [default: the profile's name, as fw.html, or fw-against-old.html]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Compare with another profile, of an earlier run: changes by function, task and call path
    #[arg(long, value_name = "OLD")]
    pub before: Option<PathBuf>,
    /// Show it in the browser, by the command in BROWSER or the desktop's own
    #[arg(long)]
    pub open: bool,
    /// Find sources that have moved: replace the path's beginning FROM by TO; may be repeated
    #[arg(long, value_name = "FROM=TO")]
    pub source_map: Vec<String>,
    /// Show interrupts under a root of their own instead of on top of the code that they interrupted
    #[arg(long)]
    pub fold_irqs: bool,
}

/// Arguments of `harness ui`.
#[derive(Debug, Args)]
pub struct UiArgs {
    /// Profile directory or file; with a second one, the run before the change
    #[arg(value_name = "PROFILE")]
    pub profile: PathBuf,
    /// Profile of the run after the change, to compare with the first
    #[arg(value_name = "AFTER")]
    pub after: Option<PathBuf>,
    /// Find sources that have moved: replace the path's beginning FROM by TO; may be repeated
    #[arg(long, value_name = "FROM=TO")]
    pub source_map: Vec<String>,
}

/// Arguments of `harness serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Profile directory or file, or a firmware file, which is profiled first and whenever it is built again
    #[arg(value_name = "PROFILE|FIRMWARE")]
    pub target: PathBuf,
    /// Port of 127.0.0.1 [default: a free one]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Show it in the browser, by the command in BROWSER or the desktop's own
    #[arg(long)]
    pub open: bool,
    /// Find sources that have moved: replace the path's beginning FROM by TO; may be repeated
    #[arg(long, value_name = "FROM=TO")]
    pub source_map: Vec<String>,
    /// Settings of the run if a firmware file is served.
    #[command(flatten)]
    pub measure: MeasureArgs,
}

impl ServeArgs {
    /// Converts the arguments to those of profiling a firmware file.
    pub fn into_profile_args(self, firmware: PathBuf) -> ProfileArgs {
        ProfileArgs::of(firmware, self.measure)
    }
}

/// Arguments of `harness merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Report directories of shards, or their report.json; in a build with object stores also s3://… and https://…
    #[arg(value_name = "RESULT", required_unless_present = "schema")]
    pub results: Vec<PathBuf>,
    /// Join the results that there are: a report that cannot be read is a warning, and an image without a result has failed
    #[arg(long)]
    pub incomplete: bool,
    /// Print report.json instead of lines
    #[arg(long)]
    pub json: bool,
    /// Print the JSON Schema of report.json
    #[arg(long, exclusive = true)]
    pub schema: bool,
    /// Directory for the reports [default: ./harness-report]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Arguments of `harness history`.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Reports of `harness test` (report.json), or folders with reports below them, the oldest first
    #[arg(value_name = "RESULTS", required_unless_present = "schema")]
    pub results: Vec<PathBuf>,
    /// Also write one page for the browser; - is standard output, then without the table
    #[arg(short, long, value_name = "HTML")]
    pub output: Option<PathBuf>,
    /// Only images that match, as for `harness test`: 'tag(x)', 'name(glob*)', or a part of the name
    #[arg(short, long, value_name = "FILTER")]
    pub filter: Vec<String>,
    /// Only this number: total, task, self, or 'self("crc*")'; may be repeated [default: all of the run, its tasks and
    /// zones, and the functions that changed most]
    #[arg(long, value_name = "METRIC")]
    pub metric: Vec<String>,
    /// Rows for functions of each image; 0 shows all that changed
    #[arg(long, value_name = "ROWS", default_value_t = 5)]
    pub top: usize,
    /// Ignore steps smaller than this share of the number before
    #[arg(long, value_name = "PERCENT", default_value = "0%")]
    pub min_step: String,
    /// Print Markdown, as for a job's summary
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print everything as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Print the JSON Schema of --json
    #[arg(long, exclusive = true)]
    pub schema: bool,
}

/// Arguments of `harness profile`. Counts take suffixes: 10k, 2M, 1.5G.
// From this group clap can tell whether the arguments were typed without `profile`. Without the attribute clap leaves
// the group empty, because of the flattened arguments.
#[derive(Debug, Args)]
#[group(arg = "firmware")]
pub struct ProfileArgs {
    /// Firmware: an ELF file, Intel HEX, UF2, DFU, or a raw binary (with --load-addr)
    #[arg(value_name = "FIRMWARE")]
    pub firmware: PathBuf,

    /// Rows of the table; 0 shows all functions
    #[arg(long, value_name = "ROWS", default_value_t = 20)]
    pub top: usize,
    /// Width of tables.
    #[command(flatten)]
    pub wide: WideArgs,
    /// Show no progress and no tables: only warnings, and the end of a run that failed
    #[arg(short, long)]
    pub quiet: bool,
    /// Also show the rejected machines, the hottest address bins, and the error of the sampled shares
    #[arg(short, long, conflicts_with_all = ["quiet", "json"])]
    pub verbose: bool,
    /// Print the profile as JSON instead of tables, as `harness export --format json` does
    #[arg(long)]
    pub json: bool,
    /// Exit with 1 when the firmware's own _mcount counts differ from the exact ones, when the calls disprove call
    /// stacks or the exact call tree, when the firmware stands still, or when its chip file guesses or was learned
    /// without a register that is now accessed (docs/chips.md)
    #[arg(long)]
    pub strict: bool,
    /// Settings of the run.
    #[command(flatten)]
    pub measure: MeasureArgs,
}

impl ProfileArgs {
    /// Arguments of a command that profiles firmware and prints tables of its own.
    fn of(firmware: PathBuf, measure: MeasureArgs) -> ProfileArgs {
        ProfileArgs {
            firmware,
            top: 0,
            wide: WideArgs::default(),
            quiet: false,
            verbose: false,
            json: false,
            strict: false,
            measure,
        }
    }
}

/// Arguments of `harness run`. Counts take suffixes: 10k, 2M, 1.5G.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Firmware, as for `harness profile`, and its arguments
    // A single argument, so that no option is read after the firmware: `--exact` there is the firmware's.
    #[arg(value_name = "FIRMWARE", required = true, trailing_var_arg = true)]
    pub firmware_and_args: Vec<OsString>,

    /// Also write the profile as JSON, as `harness export --format json` does (standard output is the firmware's)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Settings of the run.
    #[command(flatten)]
    pub measure: MeasureArgs,
}

/// Settings of a run: the same for every command that runs an image.
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// Directory for flamegraph.svg, the saved profile and console.log [default: ./<stem>.profile;
    /// HEX and raw files keep their ending: ./<stem>.hex.profile]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Take a sample every N instructions
    #[arg(long, value_name = "N", default_value_t = DEFAULT_PERIOD_INSNS.to_string(), help_heading = "Sampling")]
    pub period: String,
    /// Dither the period reproducibly, for loops that keep step with it; any number is a seed
    #[arg(long, value_name = "SEED", help_heading = "Sampling")]
    pub seeded_jitter: Option<u64>,
    /// Longest call stack, in frames
    #[arg(long, value_name = "FRAMES", default_value_t = DEFAULT_MAX_DEPTH, help_heading = "Call stacks")]
    pub max_depth: u32,
    /// Take no call stacks
    #[arg(long, help_heading = "Call stacks")]
    pub no_stacks: bool,
    /// Follow every call and return: exact instructions and calls per call path (slower)
    #[arg(long, help_heading = "Call stacks")]
    pub exact: bool,
    /// Count the ways of branches and table jumps that the counts of the instructions do not tell
    #[arg(long, help_heading = "Call stacks")]
    pub branches: bool,
    /// Count the processor's cycles beside the instructions: those of an AVR, or of a core, as in --cycles=hazard3; at a
    /// frequency, as in --cycles=hazard3@150MHz, the firmware's timers go by them
    #[arg(
        long,
        value_name = "CORE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = cycled::AUTO,
        help_heading = "Sampling"
    )]
    pub cycles: Option<String>,
    /// Count the instructions from each start of FROM to the next start of UNTIL; may be repeated
    #[arg(long, value_name = "FROM..UNTIL", help_heading = "Spans")]
    pub span: Vec<String>,
    /// Measure each call of FUNC as a zone, named by the texts that arguments lead to, as in 'run_test(arg1->test.name)';
    /// may be repeated
    #[arg(long, value_name = "FUNC(…)", help_heading = "Spans")]
    pub zone_call: Vec<String>,
    /// Follow allocations: holders of memory, leaks, double frees (see `harness heap`)
    #[arg(long, help_heading = "Heap")]
    pub heap: bool,
    /// Follow FUNC as an allocator, as in 'pool_get(size=r0)' or 'get(count=arg0, size=arg1) -> r0'; may be repeated
    #[arg(long, value_name = "FUNC(…)", help_heading = "Heap")]
    pub heap_alloc: Vec<String>,
    /// Follow FUNC as freeing memory, as in 'pool_put(r0)'; may be repeated
    #[arg(long, value_name = "FUNC(…)", help_heading = "Heap")]
    pub heap_free: Vec<String>,
    /// Record every event: task switches with reasons, interrupts, zones, marks, console (harness export -f perfetto)
    #[arg(long, help_heading = "Timeline")]
    pub timeline: bool,
    /// Also record calls and returns of FUNC, which may hold * and ?, as in 'crc*'; may be repeated
    #[arg(long, value_name = "FUNC", help_heading = "Timeline")]
    pub trace: Vec<String>,
    /// Also keep counts for each slice of N instructions, such as 1M, or of virtual time, such as 60s: functions, tasks,
    /// interrupts (harness bins --slice)
    #[arg(long, value_name = "N", help_heading = "Spans")]
    pub slice: Option<String>,
    /// Show interrupts under a root of their own instead of on top of the code that they interrupted
    #[arg(long, help_heading = "Call stacks")]
    pub fold_irqs: bool,
    /// Show zones as frames of the flamegraph, each around the function in which it begins
    #[arg(long, help_heading = "Call stacks")]
    pub zones: bool,
    /// Separate the phases in the flamegraph
    #[arg(long, value_name = "WHAT", help_heading = "Call stacks")]
    pub by: Option<Split>,
    /// Also draw flamechart.svg: the samples in order of time
    #[arg(long, help_heading = "Call stacks")]
    pub flamechart: bool,

    /// Width of an address bin in bytes, a power of two
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_BIN_BYTES.to_string(), help_heading = "Sampling")]
    pub bin_bytes: String,

    /// Measure N instructions, then stop: a success [default: 2G, 200M on an AVR; for `harness run`: to the end]
    #[arg(long = "for", value_name = "N", help_heading = "Measuring window")]
    pub for_insns: Option<String>,
    /// Start measuring when FUNCTION's first instruction first executes
    #[arg(long, value_name = "FUNCTION", help_heading = "Measuring window")]
    pub from: Option<String>,
    /// Stop measuring when FUNCTION's first instruction next executes: a success
    #[arg(long, value_name = "FUNCTION", help_heading = "Measuring window")]
    pub until: Option<String>,
    /// Fail when the firmware has not ended after N instructions from reset
    #[arg(long, value_name = "N", help_heading = "Measuring window")]
    pub max_insns: Option<String>,
    /// Fail unless the firmware comes through its entry again N times, or resets the machine at the last of them
    #[arg(long, value_name = "N", help_heading = "Measuring window")]
    pub resets: Option<u64>,
    /// Fail when the firmware has not ended after SECONDS on this host
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, help_heading = "Measuring window")]
    pub timeout: Option<f64>,
    /// Fail when the firmware's output, on the console and in files together, exceeds BYTES
    #[arg(long, value_name = "BYTES", default_value = DEFAULT_MAX_OUTPUT, help_heading = "Measuring window")]
    pub max_output: String,

    /// Type TEXT on the console after AT instructions from reset, as in '1M:go\n'; may be repeated
    #[arg(long, value_name = "AT:TEXT", value_parser = Placed::parse, help_heading = "Console input")]
    pub input: Vec<Placed>,
    /// Type TEXT once the firmware has printed PROMPT, as in 'prompt> :go\n'; may be repeated
    #[arg(long, value_name = "PROMPT:TEXT", value_parser = Placed::parse, help_heading = "Console input")]
    #[arg(allow_hyphen_values = true)]
    pub input_after: Vec<Placed>,
    /// Change what is outside of the chip at a time, or after instructions from reset, as in 10ms:PA0=1; may be repeated
    #[arg(long = "set", value_name = "AT:CHANGES", value_parser = Placed::parse, help_heading = "Console input")]
    pub set_at: Vec<Placed>,
    /// Change what is outside of the chip once the firmware has printed PROMPT, as in 'ready:PA0=0,for=20ms'; may be repeated
    #[arg(long, value_name = "PROMPT:CHANGES", value_parser = Placed::parse, help_heading = "Console input")]
    #[arg(allow_hyphen_values = true)]
    pub set_after: Vec<Placed>,
    /// Take texts and changes from a file, which has them as a suite does: input = [{ after = "ready", pin = "PA0", level = 1 }]
    #[arg(long, value_name = "FILE", value_parser = Placed::parse, help_heading = "Console input")]
    pub stimulus: Vec<Placed>,

    /// Chip that the firmware is for, which is added to QEMU's machine: a name (harness list chips), a chip file, or auto,
    /// which finds or learns it
    #[arg(long, value_name = "NAME|FILE|auto", help_heading = "Machine", conflicts_with_all = ["machine", "cpu"])]
    pub chip: Option<String>,
    /// Take no chip that the image itself names: run it on QEMU's own machines only
    #[arg(long, help_heading = "Machine", conflicts_with = "chip")]
    pub no_chip: bool,
    /// Registers of the chip as its vendor describes them (CMSIS-SVD): their names, values at reset, and flags, where --chip
    /// describes none
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    pub svd: Option<PathBuf>,
    /// QEMU machine, instead of the one that the image's memory and CPU point to
    #[arg(long, value_name = "NAME", help_heading = "Machine")]
    pub machine: Option<String>,
    /// QEMU CPU, instead of the machine's own
    #[arg(long, value_name = "NAME", help_heading = "Machine")]
    pub cpu: Option<String>,
    /// Additional argument for QEMU; may be repeated: --qemu-arg=-smp --qemu-arg=2
    #[arg(long, value_name = "ARG", allow_hyphen_values = true, help_heading = "Machine")]
    pub qemu_arg: Vec<String>,
    /// Virtual time per instruction, 2^SHIFT ns [default: close to the machine's real clock]
    #[arg(long, value_name = "SHIFT", help_heading = "Machine")]
    pub shift: Option<String>,
    /// Load address of a raw binary
    #[arg(long, value_name = "ADDRESS", help_heading = "Machine")]
    pub load_addr: Option<String>,
    /// Bytes added to the addresses of a position-independent ELF [default: what places it in the machine's RAM]
    #[arg(long, value_name = "BYTES", help_heading = "Machine")]
    pub load_bias: Option<String>,
    /// Put a copy of PATH where the firmware's semihosting finds it as NAME; may be repeated
    #[arg(long, value_name = "NAME=PATH", help_heading = "Machine")]
    pub file: Vec<String>,
    /// Make FUNC return at once, with VALUE; its name may hold * and ?, as in 'HAL_RCC_*=0'; may be repeated
    #[arg(long, value_name = "FUNC[=VALUE]", help_heading = "Machine")]
    pub stub: Vec<String>,
    /// Address of the vector table from which a Cortex-M starts [default: the machine's, or the image's]
    #[arg(long, value_name = "ADDRESS", help_heading = "Machine")]
    pub vectors: Option<String>,
    /// ELF file with the symbols of an image that has none
    #[arg(long, value_name = "ELF", help_heading = "Machine")]
    pub symbols: Option<PathBuf>,

    /// Semihosting calls of the firmware that harness answers
    #[arg(long, value_name = "WHICH", default_value = "scratch", help_heading = "Containment")]
    pub semihosting: Semihosting,
    /// Kernel sandbox that keeps QEMU from files and the network: off, auto (what the kernel has), or required
    #[arg(long, value_name = "WHETHER", default_value = "auto", help_heading = "Containment")]
    pub sandbox: Sandbox,

    /// Count and sample with one callback per instruction: slow, for the tests to compare with
    #[arg(long, hide = true)]
    pub oracle: bool,
}

/// Settings of a command line without options.
impl Default for MeasureArgs {
    fn default() -> MeasureArgs {
        let command = MeasureArgs::augment_args(clap::Command::new("defaults").no_binary_name(true));
        let matches = command.try_get_matches_from(<[&str; 0]>::default());
        let defaults = matches.and_then(|matches| MeasureArgs::from_arg_matches(&matches));
        defaults.expect("every option has a default or may be left out")
    }
}

/// Value of an option with its position on the command line, since clap groups values by option.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Position; later options have larger ones.
    pub place: usize,
    /// Text as typed.
    pub text: String,
}

impl Placed {
    #[expect(clippy::unnecessary_wraps, reason = "clap expects a parser that can fail")]
    fn parse(text: &str) -> Result<Placed, Infallible> {
        // clap parses values in the order of the command line, so counting gives their positions.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Ok(Placed { place: NEXT.fetch_add(1, Ordering::Relaxed), text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_suite_is_stated_or_automatic() {
        assert_eq!(ShardRequest::parse("2/4"), Ok(ShardRequest::Stated(2, 4)));
        assert_eq!(ShardRequest::parse("auto"), Ok(ShardRequest::Auto(None)));
        assert_eq!(ShardRequest::parse("auto/8"), Ok(ShardRequest::Auto(Some(8))));
        for wrong in ["0/4", "5/4", "4", "auto/0", "auto/", "auto4", "automatic", "1/4/2", ""] {
            assert!(ShardRequest::parse(wrong).unwrap_err().contains("write K/N"), "{wrong}");
        }
    }

    #[test]
    fn a_suite_that_says_nothing_measures_what_a_command_line_without_options_does() {
        let cli = Cli::try_parse_from(["harness", "profile", "firmware.elf"]).unwrap();
        let Some(Command::Profile(args)) = cli.command else { panic!("{cli:?}") };
        assert_eq!(format!("{:?}", args.measure), format!("{:?}", MeasureArgs::default()));
    }
}
