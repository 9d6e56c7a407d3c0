// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of a profile: QEMU with the plugin compared with bare QEMU with the same flags, its memory, and the time of
//! harness around it. `ci/bench` runs this. It measures the machine it runs on, so nothing here is a test.
//!
//! The runs that are compared take turns, so that other load on the machine affects them alike. A ratio is the median
//! over the rounds; CPU time is steadier if cores are shared. Every single run is a row of the CSV file. Words on the
//! command line (`cost parts branches cycles cpus stacks suite periods memory outside export debug chips instruments`) choose
//! sections, `--rounds N` the rounds, `--long` adds the runs of 10^10 instructions.

#[path = "../tests/common/made.rs"]
#[expect(unreachable_pub, reason = "it belongs to the tests")]
mod made;
#[path = "../tests/common/synthetic.rs"]
#[expect(unreachable_pub, reason = "it belongs to the tests")]
mod synthetic;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, ValueEnum};
use harness::chip;
use harness::cli::Cli;
use harness::debug::session::Session;
use harness::debug::travel::{Access, Travel, Watch};
use harness::export::Format;
use harness::image::heap;
use harness::image::kernel;
use harness::image::mcount;
use harness::image::symbols::Symbols;
use harness::image::trace_patterns;
use harness::image::unwind;
use harness::image::zone;
use harness::image::{Arch, Image, LoadOptions};
use harness::machine;
use harness::measure::Silent;
use harness::run::contain::grants::Walls;
use harness::run::qemu::emulator;
use harness::run::qemu::plugin;
use harness::run::qemu::process::Process;
use harness::run::qemu::start::Start;
use harness::run::records::read::Records;
use harness::run::request;
use harness::run::request::options::{DEFAULT_CHECKPOINT_MIB, Options};
use harness::run::request::plan::{Measurement, Plan};
use harness::run::store::workspace::Workspace;
use object::{Object as _, ObjectSymbol as _};

/// Images that run long enough for a ratio.
const PARTS_IMAGES: [&str; 18] = [
    // Code that nobody here wrote.
    "bench/riscv64-lua",
    "bench/cortex-m3-lua",
    "bench/riscv64-sqlite",
    "bench/cortex-m3-sqlite",
    "bench/riscv64-quickjs",
    "bench/cortex-m3-quickjs",
    "bench/riscv64-json",
    "bench/cortex-m4-json",
    "bench/riscv64-regex",
    "bench/cortex-m4-regex",
    "bench/riscv64-wasm",
    "bench/cortex-m4-wasm",
    // Ours: short blocks, many jumps and calls through registers: the most expensive code.
    "bench/riscv64-interpreter-long",
    "bench/cortex-m3-interpreter-long",
    "bench/riscv64-branchy-long",
    "bench/cortex-m3-branchy-long",
    "bench/riscv64-freertos-long",
    "bench/cortex-m3-freertos-long",
];
/// Images of less than a second.
const SHORT_IMAGES: [&str; 7] = [
    "riscv64-freertos",
    "cortex-m3-freertos",
    "riscv64-bare",
    "cortex-m3-bare",
    "cortex-m4-bare",
    // These wait for an interrupt 3,000 times.
    "riscv64-idle",
    "cortex-m3-idle",
];
/// Images, number of CPUs, and the options for it.
const CPUS_IMAGES: [(&str, u32, &[&str]); 2] = [
    ("bench/cortex-m33-an521-amp-long", 2, &[]),
    ("bench/riscv64-smp-long", 2, &["--qemu-arg=-smp", "--qemu-arg=2"]),
];
/// Images of one to thirty million instructions.
const SUITE_IMAGES: [&str; 24] = [
    "cortex-m0-bare",
    "cortex-m0-pended",
    "cortex-m0-stacks",
    "cortex-m3-abi-pg",
    "cortex-m3-bare",
    "cortex-m3-calls-pg",
    "cortex-m3-cpp",
    "cortex-m3-crew",
    "cortex-m3-idle",
    "cortex-m3-nested",
    "cortex-m3-tasks-ends",
    "cortex-m3-uart",
    "cortex-m33-bare",
    "cortex-m4-bare",
    "riscv32-bare",
    "riscv32-frames",
    "riscv64-abi-pg",
    "riscv64-bare",
    "riscv64-calls-pg",
    "riscv64-cpp",
    "riscv64-crew",
    "riscv64-idle",
    "riscv64-stacks",
    "riscv64-tiles",
];
const PERIOD_IMAGES: [&str; 2] = ["riscv64-freertos", "cortex-m3-freertos"];
const CYCLES_IMAGES: [&str; 2] = ["bench/riscv32-interpreter-long", "bench/riscv32-branchy-long"];
const MEMORY_IMAGES: [&str; 2] = ["riscv64-spin", "cortex-m3-spin"];
/// Images for a window that takes about a second.
const OUTSIDE_IMAGES: [&str; 2] = ["bench/riscv64-freertos-long", "bench/cortex-m3-freertos-long"];
const ONE_SECOND: &str = "750M";
/// Images, the last place that a debugger visits in each, and a variable that is written early and never again.
const DEBUG_IMAGES: [(&str, u64, &str); 4] = [
    ("bench/riscv64-freertos-long", 1_000_000_000, "xSchedulerRunning"),
    ("bench/cortex-m3-freertos-long", 1_000_000_000, "xSchedulerRunning"),
    ("bench/riscv64-interpreter-long", 600_000_000, "code"),
    ("bench/cortex-m3-interpreter-long", 500_000_000, "code"),
];
/// Places that are visited in any order, and steps back from the last of them.
const DEBUG_PLACES: u64 = 200;
const DEBUG_STEPS: u64 = 100;
/// Different stacks of the profile that is exported.
const STACKS: u32 = 1_000_000;
/// Longest time of an export, as a multiple of the time that inferno's library needs to draw the same stacks.
const MAX_EXPORT_RATIO: f64 = 5.0;
/// Largest memory of an export.
const MAX_EXPORT_KIB: u64 = 500_000_000 / 1024;

/// Window longer than any image: they end by themselves.
const TO_THE_END: &str = "--for=1000G";

/// Images for a machine of QEMU's, which also run on a chip of the same memory; they access no device while they work.
const CHIP_IMAGES: [&str; 2] = ["bench/cortex-m3-branchy-long", "bench/cortex-m3-interpreter-long"];
/// The same chip as a file.
const CHIP: &str = concat!("--chip=", env!("CARGO_MANIFEST_DIR"), "/../testdata/mps2-an385.chip.toml");

/// Images with an event for an instrument every thousand instructions, and the instrument's options.
const INSTRUMENTS: [(&str, &[&str]); 4] = [
    ("bench/riscv64-heap-pairs", &["--heap"]),
    ("bench/cortex-m3-heap-pairs", &["--heap"]),
    ("bench/riscv64-zones-long", &["--timeline"]),
    ("bench/cortex-m3-zones-long", &["--timeline"]),
];

fn main() -> Result<()> {
    // cargo adds --bench.
    let words: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    // The program starts itself to measure some commands alone.
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["peak-of", program, arguments @ ..] => return peak_of(program, arguments),
        ["draw", folded, svg] => return draw(Path::new(folded), Path::new(svg)),
        _ => {}
    }
    let mut rounds = 15;
    let mut long = false;
    let mut sections = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rounds" => rounds = words.next().context("--rounds N")?.parse()?,
            "--long" => long = true,
            "cost" | "parts" | "branches" | "cycles" | "cpus" | "stacks" | "suite" | "periods" | "memory"
            | "outside" | "export" | "debug" | "chips" | "instruments" => {
                sections.push(word.as_str());
            }
            _ => bail!(
                "{word}: not one of --rounds N, --long, cost, parts, branches, cycles, cpus, stacks, suite, periods, memory, \
                 outside, export, debug, chips, instruments"
            ),
        }
    }
    ensure!(rounds > 0, "--rounds must be at least 1");
    let wanted = |section| sections.is_empty() || sections.contains(&section);
    let machine = describe_machine()?;
    let mut bench = Bench { rounds, rows: Vec::new() };
    println!("{machine}\n");
    if wanted("cost") {
        bench.cost()?;
    }
    if wanted("parts") {
        bench.parts()?;
    }
    if wanted("branches") {
        bench.branches()?;
    }
    if wanted("cycles") {
        bench.cycles()?;
    }
    if wanted("cpus") {
        bench.cpus()?;
    }
    if wanted("stacks") {
        bench.stacks()?;
    }
    if wanted("suite") {
        bench.suite()?;
    }
    if wanted("periods") {
        bench.periods()?;
    }
    if wanted("memory") {
        bench.memory(long)?;
    }
    if wanted("outside") {
        bench.outside()?;
    }
    let over = if wanted("export") { bench.export()? } else { Vec::new() };
    if wanted("debug") {
        bench.debug()?;
    }
    if wanted("chips") {
        bench.chips()?;
    }
    if wanted("instruments") {
        bench.heap()?;
        bench.zones()?;
    }
    println!("{}", load());
    let path = bench.save(&machine)?;
    println!("every run: {}", path.display());
    ensure!(over.is_empty(), "over the limit: {}", over.join(", "));
    Ok(())
}

/// Result of one run.
#[derive(Clone, Debug)]
struct Row {
    image: String,
    what: String,
    round: usize,
    wall_s: f64,
    cpu_s: f64,
    insns: Option<u64>,
    peak_kib: Option<u64>,
}

struct Bench {
    rounds: usize,
    rows: Vec<Row>,
}

/// Program that runs in turn with others.
#[derive(Clone, Copy, PartialEq)]
enum What<'a> {
    /// QEMU without the plugin.
    Bare,
    /// QEMU without the plugin, on a machine chosen by these options of harness.
    BareOf(&'a [&'a str]),
    /// QEMU with a plugin that does nothing.
    Empty(&'a Path),
    /// QEMU with the plugin, under these options of harness.
    Plugin(&'a [&'a str]),
    /// Binary of harness, under these options.
    Harness(&'a [&'a str]),
}

impl What<'_> {
    fn has_plugin(&self) -> bool {
        matches!(self, What::Plugin(_) | What::Harness(_))
    }

    fn name(&self) -> String {
        match self {
            What::Bare => "bare".to_owned(),
            What::BareOf(options) => format!("bare {}", options.join(" ")),
            What::Empty(_) => "empty plugin".to_owned(),
            What::Plugin(options) => format!("plugin {}", options.join(" ")),
            What::Harness(options) => format!("harness {}", options.join(" ")),
        }
        .replace(&format!(" {TO_THE_END}"), "")
        .trim_end()
        .to_owned()
    }
}

impl Bench {
    /// Runs everything once per round, in turn, every other round backwards.
    fn take_turns(&mut self, image: &str, whats: &[What<'_>], rounds: usize) -> Result<Vec<Vec<Row>>> {
        let mut rows = vec![Vec::new(); whats.len()];
        for round in 0..rounds {
            let mut turns: Vec<usize> = (0..whats.len()).collect();
            if round % 2 == 1 {
                turns.reverse();
            }
            for turn in turns {
                let row = Row { round, ..run(image, whats[turn], None)? };
                self.rows.push(row.clone());
                rows[turn].push(row);
            }
        }
        Ok(rows)
    }

    fn cost(&mut self) -> Result<()> {
        println!("## The default profile against bare QEMU, {} rounds\n", self.rounds);
        println!(
            "| image | instructions | bare QEMU | bare again | with the plugin | of the fastest | all of harness | wall |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|");
        // Bare QEMU twice: the ratio of the two is the scatter of all others.
        let whats = [What::Bare, What::Plugin(&[TO_THE_END]), What::Harness(&[TO_THE_END]), What::Bare];
        for image in PARTS_IMAGES.into_iter().chain(SHORT_IMAGES) {
            let rows = self.take_turns(image, &whats, self.rounds)?;
            let [bare, plugin, whole, again] = &rows[..] else { unreachable!("four in, four out") };
            let cpu = |row: &Row| row.cpu_s;
            println!(
                "| {} | {:.0} M | {:.3} s | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} |",
                short(image),
                insns(plugin) / 1e6,
                median(bare.iter().map(cpu)),
                ratio(again, bare, cpu),
                ratio(plugin, bare, cpu),
                fastest(plugin) / fastest(bare),
                ratio(whole, bare, cpu),
                ratio(plugin, bare, |row| row.wall_s),
            );
        }
        println!();
        Ok(())
    }

    /// Costs of a profile with each part off, down to a plugin that does nothing.
    fn parts(&mut self) -> Result<()> {
        println!("## The same run with each part off, QEMU's CPU time against bare QEMU, {} rounds\n", self.rounds);
        println!(
            "| image | bare QEMU | bare again | empty plugin | counts | counts, stacks | counts, samples | default | `--exact` |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
        let temporary = tempfile::tempdir()?;
        let empty = empty_plugin(temporary.path())?;
        // Later than any of these images ends.
        let no_samples = "--period=100G";
        let whats = [
            What::Bare,
            What::Empty(&empty),
            What::Plugin(&[no_samples, "--no-stacks", TO_THE_END]),
            What::Plugin(&[no_samples, TO_THE_END]),
            What::Plugin(&["--no-stacks", TO_THE_END]),
            What::Plugin(&[TO_THE_END]),
            What::Plugin(&["--exact", TO_THE_END]),
            What::Bare,
        ];
        for image in PARTS_IMAGES {
            let rows = self.take_turns(image, &whats, self.rounds)?;
            let [bare, parts @ .., again] = &rows[..] else { unreachable!("eight in, eight out") };
            let cpu = |row: &Row| row.cpu_s;
            print!("| {} | {:.2} s | {:.2} |", short(image), median(bare.iter().map(cpu)), ratio(again, bare, cpu));
            for part in parts {
                print!(" {:.2} |", ratio(part, bare, cpu));
            }
            println!();
        }
        println!();
        Ok(())
    }

    /// Costs of the counters of `--branches`, which are beside those of the same profile without.
    fn branches(&mut self) -> Result<()> {
        println!("## `--branches` against the same profile without, CPU time, {} rounds\n", self.rounds);
        println!("| image | without | without again | with `--branches` | of the fastest |");
        println!("|---|--:|--:|--:|--:|");
        let without = What::Plugin(&[TO_THE_END]);
        let whats = [without, What::Plugin(&["--branches", TO_THE_END]), without];
        for image in PARTS_IMAGES {
            let rows = self.take_turns(image, &whats, self.rounds)?;
            let [without, with, again] = &rows[..] else { unreachable!("three in, three out") };
            let cpu = |row: &Row| row.cpu_s;
            println!(
                "| {} | {:.2} s | {:.3} | {:.3} | {:.3} |",
                short(image),
                median(without.iter().map(cpu)),
                ratio(again, without, cpu),
                ratio(with, without, cpu),
                fastest(with) / fastest(without),
            );
        }
        println!();
        Ok(())
    }

    /// Costs of the cycles of cores, and of `--branches` and `--exact` beside them.
    fn cycles(&mut self) -> Result<()> {
        println!("## `--cycles=CORE` against the same profile without, CPU time, {} rounds\n", self.rounds);
        println!(
            "| image | without | without again | `ibex-2` | `hazard3` | at 150 MHz | `--branches` | `--exact` |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|");
        let without = What::Plugin(&[TO_THE_END]);
        let whats = [
            without,
            without,
            What::Plugin(&["--cycles=ibex-2", TO_THE_END]),
            What::Plugin(&["--cycles=hazard3", TO_THE_END]),
            What::Plugin(&["--cycles=hazard3@150MHz", TO_THE_END]),
            What::Plugin(&["--branches", TO_THE_END]),
            What::Plugin(&["--exact", TO_THE_END]),
        ];
        for image in CYCLES_IMAGES {
            let rows = self.take_turns(image, &whats, self.rounds)?;
            let [without, others @ ..] = &rows[..] else { unreachable!("seven in, seven out") };
            let cpu = |row: &Row| row.cpu_s;
            print!("| {} | {:.2} s |", short(image), median(without.iter().map(cpu)));
            others.iter().for_each(|other| print!(" {:.2} |", ratio(other, without, cpu)));
            println!();
        }
        println!();
        Ok(())
    }

    /// Machines with several CPUs: those that share no translations, and those that do.
    fn cpus(&mut self) -> Result<()> {
        println!("## Several CPUs, the default profile against bare QEMU, {} rounds\n", self.rounds);
        println!("| image | CPUs | instructions | bare QEMU | with the plugin | CPU time | wall |");
        println!("|---|--:|--:|--:|--:|--:|--:|");
        for (image, cpus, machine) in CPUS_IMAGES {
            let profiled = [machine, &[TO_THE_END]].concat();
            let rows = self.take_turns(image, &[What::BareOf(machine), What::Plugin(&profiled)], self.rounds)?;
            let [bare, plugin] = &rows[..] else { unreachable!("two in, two out") };
            println!(
                "| {} | {cpus} | {:.0} M | {:.3} s | {:.3} s | {:.3} | {:.3} |",
                short(image),
                insns(plugin) / 1e6,
                median(bare.iter().map(|row| row.cpu_s)),
                median(plugin.iter().map(|row| row.cpu_s)),
                ratio(plugin, bare, |row| row.cpu_s),
                ratio(plugin, bare, |row| row.wall_s),
            );
        }
        println!();
        Ok(())
    }

    fn stacks(&mut self) -> Result<()> {
        println!("## Call stacks, CPU time against bare QEMU, {} rounds\n", self.rounds);
        println!("| image | without stacks | with stacks | `--exact` | one stack |");
        println!("|---|--:|--:|--:|--:|");
        // Many samples, so that a stack's own cost stands out.
        let whats = [
            What::Bare,
            What::Plugin(&["--no-stacks", TO_THE_END]),
            What::Plugin(&[TO_THE_END]),
            What::Plugin(&["--exact", TO_THE_END]),
            What::Plugin(&["--no-stacks", "--period=997", TO_THE_END]),
            What::Plugin(&["--period=997", TO_THE_END]),
        ];
        for image in PARTS_IMAGES.into_iter().chain(SHORT_IMAGES) {
            let rows = self.take_turns(image, &whats, self.rounds)?;
            let [bare, none, stacks, exact, many_none, many] = &rows[..] else { unreachable!("six in, six out") };
            let cpu = |row: &Row| row.cpu_s;
            println!(
                "| {} | {:.3} | {:.3} | {:.2} | {:.0} ns |",
                short(image),
                ratio(none, bare, cpu),
                ratio(stacks, bare, cpu),
                ratio(exact, bare, cpu),
                difference(many, many_none, cpu) * 1e9 / (insns(many) / 997.0),
            );
        }
        println!();
        Ok(())
    }

    /// Many small images: `harness test` compared with bare QEMU's times, measured one after the other on an
    /// otherwise idle machine and divided by the cores.
    fn suite(&mut self) -> Result<()> {
        println!("## {} small images, `harness test` on all cores, {} rounds\n", SUITE_IMAGES.len(), self.rounds);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let temporary = tempfile::tempdir()?;
        let mut text = String::new();
        for name in SUITE_IMAGES {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../targets/build/{name}.elf"));
            writeln!(text, "[[image]]\nelf = {:?}\nexit = \"any\"", path.display().to_string())?;
        }
        fs::write(temporary.path().join("harness.toml"), text)?;
        let (mut walls, mut cpus) = (Vec::new(), Vec::new());
        for round in 0..self.rounds {
            let (mut bare_wall_s, mut bare_cpu_s) = (0.0, 0.0);
            for name in SUITE_IMAGES {
                let row = Row { round, ..run(name, What::Bare, None)? };
                bare_wall_s += row.wall_s;
                bare_cpu_s += row.cpu_s;
                self.rows.push(row);
            }
            let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
            command.args(["test", "--no-cache"]).current_dir(temporary.path()).stdout(Stdio::null());
            let (started, cpu_before) = (Instant::now(), children_cpu_s());
            let status = command.status()?;
            ensure!(status.success(), "harness test: {status}");
            let row = Row {
                image: "suite".to_owned(),
                what: "harness test".to_owned(),
                round,
                wall_s: started.elapsed().as_secs_f64(),
                cpu_s: children_cpu_s() - cpu_before,
                insns: None,
                peak_kib: None,
            };
            walls.push(row.wall_s / (bare_wall_s / cores as f64));
            cpus.push(row.cpu_s / bare_cpu_s);
            self.rows.push(row);
        }
        println!("wall time against the sum of bare QEMU's over {cores} cores: {:.2}", median(walls.into_iter()));
        println!("CPU time against the sum of bare QEMU's: {:.2}\n", median(cpus.into_iter()));
        Ok(())
    }

    fn periods(&mut self) -> Result<()> {
        let rounds = self.rounds.div_ceil(3);
        println!("## Other periods, CPU time against bare QEMU, {rounds} rounds\n");
        println!("| image | 97 | 997 | 10,007 | 100,003 | one callback per instruction |");
        println!("|---|--:|--:|--:|--:|--:|");
        let options: [&[&str]; 5] = [
            &["--period=97", TO_THE_END],
            &["--period=997", TO_THE_END],
            &["--period=10007", TO_THE_END],
            &["--period=100003", TO_THE_END],
            &["--oracle", TO_THE_END],
        ];
        let whats: Vec<What<'_>> = [What::Bare].into_iter().chain(options.map(What::Plugin)).collect();
        for image in PERIOD_IMAGES {
            let rows = self.take_turns(image, &whats, rounds)?;
            let (bare, others) = rows.split_first().context("bare QEMU comes first")?;
            let ratios = others.iter().map(|rows| format!("{:.2}", ratio(rows, bare, |row| row.cpu_s)));
            println!("| {} | {} |", short(image), ratios.collect::<Vec<_>>().join(" | "));
        }
        println!();
        Ok(())
    }

    fn memory(&mut self, long: bool) -> Result<()> {
        println!("## Peak memory (resident, MiB)\n");
        println!("| image | instructions | bare QEMU for as long | with the plugin |");
        println!("|---|--:|--:|--:|");
        let lengths = ["100M", "1G", "10G"];
        for image in MEMORY_IMAGES {
            for length in &lengths[..if long { 3 } else { 2 }] {
                let plugin = run(image, What::Plugin(&[&format!("--for={length}")]), None)?;
                let bare = run(image, What::Bare, Some(Duration::from_secs_f64(plugin.wall_s)))?;
                let mib = |row: &Row| row.peak_kib.unwrap_or(0) as f64 / 1024.0;
                println!("| {image} | {length} | {:.1} | {:.1} |", mib(&bare), mib(&plugin));
                self.rows.extend([bare, plugin]);
            }
        }
        println!();
        Ok(())
    }

    fn outside(&mut self) -> Result<()> {
        println!("## Everything outside QEMU, {} rounds of {ONE_SECOND} instructions\n", self.rounds);
        println!("| image | QEMU with the plugin | harness | outside, wall | of QEMU | outside, CPU | of QEMU |");
        println!("|---|--:|--:|--:|--:|--:|--:|");
        let window = format!("--for={ONE_SECOND}");
        let options: &[&str] = &[&window];
        for image in OUTSIDE_IMAGES {
            let rows = self.take_turns(image, &[What::Plugin(options), What::Harness(options)], self.rounds)?;
            let [plugin, harness] = &rows[..] else { unreachable!("two in, two out") };
            let wall = |row: &Row| row.wall_s;
            let cpu = |row: &Row| row.cpu_s;
            println!(
                "| {} | {:.3} s | {:.3} s | {:.0} ms | {:.1} % | {:.0} ms | {:.1} % |",
                short(image),
                median(plugin.iter().map(wall)),
                median(harness.iter().map(wall)),
                difference(harness, plugin, wall) * 1e3,
                (ratio(harness, plugin, wall) - 1.0) * 100.0,
                difference(harness, plugin, cpu) * 1e3,
                (ratio(harness, plugin, cpu) - 1.0) * 100.0,
            );
        }
        println!();
        Ok(())
    }

    /// Exports of many stacks compared with inferno's drawing of them. Returns the values above their limits.
    fn export(&mut self) -> Result<Vec<String>> {
        let rounds = self.rounds.div_ceil(5);
        println!("## Exports of {STACKS} different stacks, {rounds} rounds\n");
        println!("| format | file | CPU time | of inferno's drawing | wall | of inferno's drawing | peak memory |");
        println!("|---|--:|--:|--:|--:|--:|--:|");
        let temporary = tempfile::tempdir()?;
        let file = |name: &str| temporary.path().join(name).into_os_string().into_string();
        let path = |name: &str| file(name).map_err(|name| anyhow::anyhow!("{name:?} is not text"));
        let (profile, folded, svg) = (path("profile.fwp")?, path("folded")?, path("svg")?);
        fs::write(&profile, synthetic::profile(STACKS).to_bytes()?)?;
        let harness = env!("CARGO_BIN_EXE_harness");
        let this =
            env::current_exe()?.into_os_string().into_string().ok().context("this program's path is not text")?;
        let mut commands =
            vec![("inferno".to_owned(), svg.clone(), vec![this, "draw".to_owned(), folded.clone(), svg])];
        for format in Format::value_variants() {
            let name = format.to_possible_value().context("a format has a name")?.get_name().to_owned();
            let out = path(&name)?;
            let words = [harness, "export", &profile, "--format", &name, "--output", &out].map(str::to_owned);
            commands.push((name, out, words.to_vec()));
        }
        // Input of inferno's drawing.
        let status =
            Command::new(harness).args(["export", &profile, "--format", "folded", "-o", &folded]).status()?;
        ensure!(status.success(), "harness export: {status}");
        let mut rows = vec![Vec::new(); commands.len()];
        for round in 0..rounds {
            for (index, (name, _, words)) in commands.iter().enumerate() {
                let row = Row { round, ..alone(name, words)? };
                self.rows.push(row.clone());
                rows[index].push(row);
            }
        }
        let mut over = Vec::new();
        let drawn = &rows[0];
        for ((name, out, _), rows) in commands.iter().zip(&rows) {
            let cpu = ratio(rows, drawn, |row| row.cpu_s);
            let peak_kib = rows.iter().filter_map(|row| row.peak_kib).max().unwrap_or(0);
            println!(
                "| {name} | {:.1} MB | {:.2} s | {cpu:.2} | {:.2} s | {:.2} | {:.0} MB |",
                fs::metadata(out)?.len() as f64 / 1e6,
                median(rows.iter().map(|row| row.cpu_s)),
                median(rows.iter().map(|row| row.wall_s)),
                ratio(rows, drawn, |row| row.wall_s),
                peak_kib as f64 * 1024.0 / 1e6,
            );
            let is_export = name != "inferno";
            if is_export && cpu > MAX_EXPORT_RATIO {
                over.push(format!("{name} takes {cpu:.2} times as long as inferno"));
            }
            if is_export && peak_kib > MAX_EXPORT_KIB {
                over.push(format!("{name} takes {peak_kib} KiB"));
            }
        }
        println!();
        Ok(over)
    }

    /// Instruments compared with the default profile: one event or pair in each thousand instructions.
    fn heap(&mut self) -> Result<()> {
        println!("## The heap and the timeline, against the default profile, {} rounds\n", self.rounds);
        println!("| image | instructions | the default | with | CPU time | wall |");
        println!("|---|--:|--:|--:|--:|--:|");
        for (image, options) in INSTRUMENTS {
            let with = [&[TO_THE_END][..], options].concat();
            let rows = self.take_turns(image, &[What::Plugin(&[TO_THE_END]), What::Plugin(&with)], self.rounds)?;
            let [plain, with] = &rows[..] else { unreachable!("two in, two out") };
            println!(
                "| {} {} | {:.0} M | {:.3} s | {:.3} s | {:.3} | {:.3} |",
                short(image),
                options.join(" "),
                insns(with) / 1e6,
                median(plain.iter().map(|row| row.cpu_s)),
                median(with.iter().map(|row| row.cpu_s)),
                ratio(with, plain, |row| row.cpu_s),
                ratio(with, plain, |row| row.wall_s),
            );
        }
        println!();
        Ok(())
    }

    /// Time travel: the first visit of a late place compared with the profile up to there, then places in random
    /// order, steps back from the last of them, and the last write of an early variable.
    fn debug(&mut self) -> Result<()> {
        let rounds = self.rounds.div_ceil(3);
        println!("## A debugger at any instruction, wall time, {rounds} rounds\n");
        println!(
            "| image | place | first visit | of bare QEMU | of the profile up to there | any place, median, worst \
             | step back, median, worst | last write | of the profile | checkpoints |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
        let wall = |row: &Row| row.wall_s;
        for (image, place, variable) in DEBUG_IMAGES {
            let window = format!("--for={place}");
            // Without the plugin it runs to its end.
            let all = insns(&[run(image, What::Plugin(&[TO_THE_END]), None)?]);
            let (mut bare, mut profile, mut visits) = (Vec::new(), Vec::new(), Vec::new());
            for round in 0..rounds {
                for turn in if round % 2 == 0 { [0, 1, 2] } else { [2, 1, 0] } {
                    match turn {
                        0 => bare.push(Row { round, ..run(image, What::Bare, None)? }),
                        1 => profile.push(Row { round, ..run(image, What::Harness(&[&window]), None)? }),
                        _ => visits.push(visit(image, place, variable, round)?),
                    }
                }
            }
            let first: Vec<Row> = visits.iter().map(|visit| visit.first.clone()).collect();
            let last_write: Vec<Row> = visits.iter().map(|visit| visit.last_write.clone()).collect();
            let spread = |rows: fn(&Visit) -> &[Row]| {
                let all = || visits.iter().flat_map(&rows).map(|row| row.wall_s * 1e3);
                format!("{:.1} ms, {:.0} ms", median(all()), all().fold(0.0, f64::max))
            };
            println!(
                "| {} | {:.0} M | {:.3} s | {:.2} | {:.2} | {} | {} | {:.3} s | {:.2} | {:.0}, {:.0} MiB |",
                short(image),
                place as f64 / 1e6,
                median(first.iter().map(wall)),
                ratio(&first, &bare, wall) * all / place as f64,
                ratio(&first, &profile, wall),
                spread(|visit| &visit.places),
                spread(|visit| &visit.steps),
                median(last_write.iter().map(wall)),
                ratio(&last_write, &profile, wall),
                median(visits.iter().map(|visit| visit.checkpoints as f64)),
                median(visits.iter().map(|visit| visit.checkpoint_kib as f64 / 1024.0)),
            );
            self.rows.extend(bare.into_iter().chain(profile));
            for Visit { first, places, steps, last_write, .. } in visits {
                self.rows.extend([first].into_iter().chain(places).chain(steps).chain([last_write]));
            }
        }
        println!();
        Ok(())
    }

    /// Code on a chip against the same code on its base machine; A/A compares the base machine with itself.
    fn chips(&mut self) -> Result<()> {
        println!("## A chip against its base machine, CPU time, {} rounds\n", self.rounds);
        println!("| image | instructions | the base machine | the chip | A/A |");
        println!("|---|--:|--:|--:|--:|");
        let (base, chip) = ([TO_THE_END], [TO_THE_END, CHIP]);
        for image in CHIP_IMAGES {
            let whats = [What::Plugin(&base), What::Plugin(&chip), What::Plugin(&base)];
            let rows = self.take_turns(image, &whats, self.rounds)?;
            let [base, chip, again] = &rows[..] else { unreachable!("three in, three out") };
            println!(
                "| {} | {:.0} M | {:.3} s | {:.3} | {:.3} |",
                short(image),
                insns(base) / 1e6,
                median(base.iter().map(|row| row.cpu_s)),
                ratio(chip, base, |row| row.cpu_s),
                ratio(again, base, |row| row.cpu_s),
            );
        }
        println!();
        Ok(())
    }

    /// Zones and slices against the same run without them: a zone's event per 1,000 instructions.
    fn zones(&mut self) -> Result<()> {
        println!("## Zones and slices, CPU time against the same without, {} rounds\n", self.rounds);
        println!("| image | zones, an event per 1,000 instructions | `--slice 1M` |");
        println!("|---|--:|--:|");
        for arch in ["riscv64", "cortex-m3"] {
            let (image, off) = (format!("bench/{arch}-zones-long"), format!("bench/{arch}-zones-long-off"));
            let plain = [What::Plugin(&[TO_THE_END])];
            let (mut zones, mut none, mut slices) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..self.rounds {
                zones.extend(self.take_turns(&image, &plain, 1)?.concat());
                none.extend(self.take_turns(&off, &plain, 1)?.concat());
                slices.extend(self.take_turns(&off, &[What::Plugin(&[TO_THE_END, "--slice=1M"])], 1)?.concat());
            }
            let zones = ratio(&zones, &none, |row| row.cpu_s);
            println!("| {} | {zones:.3} | {:.3} |", short(&image), ratio(&slices, &none, |row| row.cpu_s));
        }
        println!();
        Ok(())
    }

    /// Adds all rows to `ci/bench-runs/<date>-<processor>.csv`.
    fn save(&self, machine: &str) -> Result<PathBuf> {
        let date = Command::new("date").arg("+%F").output().context("date does not run")?;
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ci/bench-runs");
        fs::create_dir_all(&directory)?;
        let processor: Vec<String> = cpu_model()
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_lowercase)
            .collect();
        let date = String::from_utf8_lossy(&date.stdout).trim().to_owned();
        let path = directory.join(format!("{date}-{}.csv", processor.join("-")));
        let mut text = format!("# {machine}\nimage,what,round,wall_s,cpu_s,insns,peak_kib\n");
        for row in &self.rows {
            let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
            let Row { image, what, round, wall_s, cpu_s, .. } = row;
            let (insns, peak_kib) = (number(row.insns), number(row.peak_kib));
            let cpu_s = if cpu_s.is_nan() { String::new() } else { format!("{cpu_s:.4}") };
            writeln!(text, "{},{what},{round},{wall_s:.4},{cpu_s},{insns},{peak_kib}", short(image))?;
        }
        fs::OpenOptions::new().create(true).append(true).open(&path)?.write_all(text.as_bytes())?;
        Ok(path.canonicalize()?)
    }
}

/// Builds a plugin that only has itself called when QEMU translates a block.
fn empty_plugin(folder: &Path) -> Result<PathBuf> {
    let (source, plugin) = (folder.join("empty.c"), folder.join("empty.so"));
    // Its few words of QEMU's interface: the version that it takes, the entry point, one registration.
    fs::write(
        &source,
        "#include <stdint.h>\n\
         extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*called)(uint64_t, void *));\n\
         int qemu_plugin_version = 2;\n\
         static void called(uint64_t id, void *block) { (void)id; (void)block; }\n\
         int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv) {\n\
             (void)info; (void)argc; (void)argv;\n\
             qemu_plugin_register_vcpu_tb_trans_cb(id, called);\n\
             return 0;\n\
         }\n",
    )?;
    let status = Command::new("cc").args(["-shared", "-fPIC", "-O2", "-o"]).args([&plugin, &source]).status()?;
    ensure!(status.success(), "cc: {status}");
    Ok(plugin)
}

/// Runs an image once. With `watched_for`, its memory is watched and QEMU stopped after that time.
fn run(name: &str, what: What<'_>, watched_for: Option<Duration>) -> Result<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../targets/build/{name}.elf"));
    ensure!(path.is_file(), "{} is missing: run ci/bench, which builds it", path.display());
    let temporary = tempfile::tempdir()?;
    let mut row = Row {
        image: name.to_owned(),
        what: what.name(),
        round: 0,
        wall_s: 0.0,
        cpu_s: 0.0,
        insns: None,
        peak_kib: None,
    };
    let options: &[&str] = match what {
        What::Bare | What::Empty(_) => &[],
        What::BareOf(options) => options,
        What::Plugin(options) => options,
        What::Harness(options) => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
            command.arg(&path).args(options).arg("-o").arg(temporary.path().join("out"));
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let (started, cpu_before) = (Instant::now(), children_cpu_s());
            let status = command.status()?;
            ensure!(status.success(), "{}: {status}", row.what);
            row.wall_s = started.elapsed().as_secs_f64();
            row.cpu_s = children_cpu_s() - cpu_before;
            return Ok(row);
        }
    };
    let firmware = path.to_str().context("the image's path is not text")?;
    let cli = Cli::try_parse_from(["harness", firmware].into_iter().chain(options.iter().copied()))?;
    let options = Options::resolve(cli.profile.context("no profile options")?)?;
    let load = LoadOptions::default();
    let image = Image::open(&path, &load)?;
    let chip = options.chip.as_deref().map(chip::find).transpose()?;
    let choice = match &chip {
        Some(chip) => machine::choose_chip(&image, chip)?,
        None => machine::choose(&image, None, None)?,
    };
    let elf = fs::read(&path)?;
    let arm = choice.machine.arch == Arch::CortexM;
    let functions = Symbols::new(Some(&elf), choice.load_bias, arm).ranges();
    let isa = choice.machine.isa.parse()?;
    let unwind = unwind::table(Some(&elf), isa, &image.segments, choice.load_bias, &functions);
    let (kernel, _) = kernel::find(Some(&elf), choice.load_bias, arm);
    let mcount = mcount::find(&image.segments, Some(choice.machine.arch), choice.load_bias);
    let symbols = Symbols::new(Some(&elf), choice.load_bias, arm);
    let allocators = options.heap.as_ref().map(|wanted| heap::find(wanted, &symbols, isa)).transpose()?;
    let allocators = allocators.unwrap_or_default();
    let zones = zone::find(Some(&elf), &image, isa, choice.load_bias);
    let traced = trace_patterns::find(options.timeline.as_deref().unwrap_or_default(), &symbols)?;
    let timeline = options.timeline.as_ref().map(|_| wire::timeline::Wanted {
        functions: traced,
        waits: kernel::waits(Some(&elf), choice.load_bias, arm).filter(|_| kernel.is_some()),
    });
    let emulator = emulator::locate(choice.machine.qemu)?;
    let plan = Plan {
        image: &image,
        choice: &choice,
        chip: chip.as_ref(),
        emulator: &emulator,
        options: &options,
        icount_shift: choice.machine.shift,
        cycled: &chip::cycled::Cycled::default(),
        mcount: mcount.headers.first(),
        stubs: &[],
    };
    let measurement = Measurement {
        functions: &functions,
        inlined_calls: &[],
        from: &[],
        until: &[],
        spans: &[],
        unwind: &unwind,
        kernel: kernel.as_ref(),
        polls: &[],
        lives: &wire::request::Lives::default(),
        rooms: &[],
        heap_end: None,
        heap: &allocators,
        waiting: &harness::image::waiting::Code::default(),
        zones: &zones,
        sleep_shift: Some(choice.machine.shift),
        timeline: timeline.as_ref(),
    };
    let workspace = Workspace::create(temporary.path().to_owned(), temporary.path())?;
    let api = plugin::api(plan.emulator);
    plan.prepare(&request::measure(&plan, &measurement)?, &workspace, api)?;
    let mut arguments = plan.arguments(what.has_plugin().then_some(api));
    if let What::Empty(plugin) = what {
        arguments.extend(["-plugin".into(), plugin.into()]);
    }

    let (started, cpu_before) = (Instant::now(), children_cpu_s());
    let mut process = Process::start(&emulator, &Walls::default(), &arguments, &workspace, Stdio::null(), None)?;
    let mut start = what.has_plugin().then(|| Start::begin(&plan, &mut process));
    let watch_memory = name.ends_with("-spin");
    let patience = Duration::from_millis(if watch_memory { 20 } else { 60_000 });
    while process.wait_for_answer(patience)?.is_none() {
        if let Some(start) = &mut start {
            start.proceed(&mut process, &workspace)?;
        }
        if watch_memory {
            row.peak_kib = row.peak_kib.max(peak_kib_of_child());
        }
        if watched_for.is_some_and(|limit| started.elapsed() >= limit) {
            break;
        }
    }
    row.wall_s = started.elapsed().as_secs_f64();
    drop(process);
    row.cpu_s = children_cpu_s() - cpu_before;
    if what.has_plugin() {
        let records = Records::read(&workspace.records())?;
        row.insns = Some(records.vcpus.iter().flat_map(|vcpu| &vcpu.insns).map(|insn| insn.count).sum());
    }
    Ok(row)
}

/// Measurements of one debugging session.
struct Visit {
    first: Row,
    places: Vec<Row>,
    steps: Vec<Row>,
    last_write: Row,
    checkpoints: usize,
    checkpoint_kib: u64,
}

/// Debugs an image: visits a place, then others before it, steps back, and looks for the last write of a variable.
fn visit(name: &str, last: u64, variable: &str, round: usize) -> Result<Visit> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../targets/build/{name}.elf"));
    let elf = fs::read(&path)?;
    let file = object::File::parse(&*elf)?;
    let mut symbols = file.symbols();
    let symbol = symbols.find(|symbol| symbol.name() == Ok(variable)).context("the image lacks its variable")?;
    let firmware = path.to_str().context("the image's path is not text")?;
    let options = Options::resolve(
        Cli::try_parse_from(["harness", firmware, "--sandbox", "off"])?.profile.context("no options")?,
    )?;
    let row = |what: &str, started: Instant, at: u64| Row {
        image: name.to_owned(),
        what: format!("debug {what}"),
        round,
        wall_s: started.elapsed().as_secs_f64(),
        // The processes are not children of this one.
        cpu_s: f64::NAN,
        insns: Some(at),
        peak_kib: None,
    };
    let go = |session: &mut Session, what: &str, insn: u64| -> Result<Row> {
        let started = Instant::now();
        let stop = session.go(insn)?;
        ensure!(stop.at.insn == insn, "{name}: sent to instruction {insn}, and came to {:?}", stop);
        Ok(row(what, started, insn))
    };

    let started = Instant::now();
    let mut session = Session::open(&options, DEFAULT_CHECKPOINT_MIB, &mut Silent)?;
    go(&mut session, "first visit", last)?;
    let (checkpoints, bytes) = session.checkpoints();
    let first = Row { peak_kib: Some(bytes >> 10), ..row("first visit", started, last) };
    // Random enough, and the same numbers each time (Knuth's MMIX).
    let mut random = round as u64;
    let places = (0..DEBUG_PLACES).map(|_| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        go(&mut session, "place", 1 + (random >> 20) % (last - DEBUG_STEPS) + DEBUG_STEPS)
    });
    let places = places.collect::<Result<Vec<Row>>>()?;
    let at = session.at().insn;
    let steps = (1..=DEBUG_STEPS).map(|step| go(&mut session, "step back", at - step));
    let steps = steps.collect::<Result<Vec<Row>>>()?;
    go(&mut session, "back at the last place", last)?;
    session.set_watches(&[Watch { range: symbol.address()..symbol.address() + 1, access: Access::Write }]);
    let started = Instant::now();
    let stop = session.backward(1)?;
    let last_write = row("last write", started, stop.at.insn);
    Ok(Visit { first, places, steps, last_write, checkpoints, checkpoint_kib: bytes >> 10 })
}

/// Runs a command, with its memory.
fn alone(name: &str, words: &[String]) -> Result<Row> {
    // Run as the only child of a process of its own, since the peak covers all children ever.
    let (started, cpu_before) = (Instant::now(), children_cpu_s());
    let output = Command::new(env::current_exe()?).arg("peak-of").args(words).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{name}: {}", output.status);
    Ok(Row {
        image: "synthetic".to_owned(),
        what: format!("export {name}"),
        round: 0,
        wall_s: started.elapsed().as_secs_f64(),
        cpu_s: children_cpu_s() - cpu_before,
        insns: None,
        peak_kib: Some(String::from_utf8(output.stdout)?.trim().parse()?),
    })
}

/// Runs a command and prints the most memory that it had resident, in KiB.
fn peak_of(program: &str, arguments: &[&str]) -> Result<()> {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status()?;
    ensure!(status.success(), "{program}: {status}");
    println!("{}", children_usage().counters[0]);
    Ok(())
}

/// Draws folded stacks as inferno's own program does.
fn draw(folded: &Path, svg: &Path) -> Result<()> {
    let text = fs::read_to_string(folded)?;
    let svg = std::io::BufWriter::new(fs::File::create(svg)?);
    inferno::flamegraph::from_lines(&mut inferno::flamegraph::Options::default(), text.lines(), svg)?;
    Ok(())
}

/// CPU time of all children that have ended, and of theirs.
fn children_cpu_s() -> f64 {
    let usage = children_usage();
    (usage.user[0] + usage.system[0]) as f64 + (usage.user[1] + usage.system[1]) as f64 / 1e6
}

/// getrusage(2) on 64-bit Linux: two times in seconds and microseconds, and fourteen counters, the first of them
/// the largest child's peak of resident memory in KiB.
#[repr(C)]
struct Usage {
    user: [i64; 2],
    system: [i64; 2],
    counters: [i64; 14],
}

fn children_usage() -> Usage {
    unsafe extern "C" {
        fn getrusage(who: i32, usage: *mut Usage) -> i32;
    }
    const RUSAGE_CHILDREN: i32 = -1;
    let mut usage = Usage { user: [0; 2], system: [0; 2], counters: [0; 14] };
    // SAFETY: writes the one structure, laid out as the C library's.
    unsafe { getrusage(RUSAGE_CHILDREN, &mut usage) };
    usage
}

/// Largest resident memory that the one running child has had so far.
fn peak_kib_of_child() -> Option<u64> {
    let child = fs::read_to_string("/proc/thread-self/children").ok()?;
    let status = fs::read_to_string(format!("/proc/{}/status", child.trim())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// Median over the rounds of `a` to `b`.
fn ratio(a: &[Row], b: &[Row], value: impl Fn(&Row) -> f64) -> f64 {
    median(a.iter().zip(b).map(|(a, b)| value(a) / value(b)))
}

/// Median over the rounds of `a` less `b`.
fn difference(a: &[Row], b: &[Row], value: impl Fn(&Row) -> f64) -> f64 {
    median(a.iter().zip(b).map(|(a, b)| value(a) - value(b)))
}

fn fastest(rows: &[Row]) -> f64 {
    rows.iter().map(|row| row.cpu_s).fold(f64::INFINITY, f64::min)
}

fn insns(rows: &[Row]) -> f64 {
    rows.first().and_then(|row| row.insns).unwrap_or(0) as f64
}

fn short(image: &str) -> &str {
    image.trim_start_matches("bench/")
}

fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(':'));
    model.map_or(env::consts::ARCH, |(_, model)| model.trim()).to_owned()
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load average {}", text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

/// Description of the measured machine.
fn describe_machine() -> Result<String> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let system = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or(env::consts::OS);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(format!(
        "{}, {cores} cores, {}, Linux {}, QEMU {}, {}",
        cpu_model(),
        system.trim_matches('"'),
        kernel.trim(),
        emulator::version(&emulator::locate("qemu-system-riscv64")?)?,
        load()
    ))
}
