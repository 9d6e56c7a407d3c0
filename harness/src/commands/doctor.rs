// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness doctor`: tests the installed emulators, and names missing parts with a remedy.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{COMMIT, Cli, Command, DoctorArgs};
use crate::error::{EmulatorError, InputError};
use crate::exit_code::ExitCode;
use crate::export::json::document;
use crate::measure::{Silent, measure};
use crate::run::contain::sandbox;
use crate::run::qemu::emulator;
use crate::run::qemu::plugin;
use crate::run::qemu::tricks;
use crate::run::request::options::Options;
use crate::run::store::directory::Output;
use crate::run::store::staging::Making;
use crate::text::printable::printable;
use crate::text::terminal;

/// An architecture, and a program for it: one instruction, which jumps to itself.
struct Architecture {
    /// Name of the emulator.
    program: &'static str,
    /// Name of the architecture for users.
    runs: &'static str,
    /// Value of `--machine`, which a raw image needs.
    machine: &'static str,
    /// Value of `--load-addr`.
    load_addr: &'static str,
    /// The image.
    image: &'static [u8],
    /// Whether only some users need it: its absence is not a failure.
    is_optional: bool,
}

const ARCHITECTURES: [Architecture; 4] = [
    Architecture {
        program: "qemu-system-arm",
        runs: "Cortex-M",
        machine: "arm:mps2-an385",
        load_addr: "0",
        // Initial stack pointer, reset vector, `b .`.
        image: &[0, 0, 1, 0x20, 9, 0, 0, 0, 0xfe, 0xe7],
        is_optional: false,
    },
    Architecture {
        program: "qemu-system-riscv64",
        runs: "riscv64",
        machine: "riscv64:virt",
        load_addr: "0x80000000",
        // `j .`
        image: &[0x6f, 0, 0, 0],
        is_optional: false,
    },
    Architecture {
        program: "qemu-system-riscv32",
        runs: "riscv32",
        machine: "riscv32:virt",
        load_addr: "0x80000000",
        image: &[0x6f, 0, 0, 0],
        is_optional: false,
    },
    Architecture {
        program: "qemu-system-avr",
        runs: "AVR",
        machine: "avr:uno",
        load_addr: "0",
        // `rjmp .`
        image: &[0xff, 0xcf],
        is_optional: true,
    },
];

/// Number of instructions to run: on RISC-V the boot ROM comes first, and this number exceeds its instructions.
const INSNS: u64 = 16;

/// Prefix of the name of the directory in which the tests run.
const PREFIX: &str = ".harness-doctor-";

/// Version of the JSON format; it grows when a field is removed or changes its meaning.
const VERSION: u32 = 1;

/// Result for one emulator.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Emulator")]
struct Found {
    /// Name of the emulator.
    program: &'static str,
    /// Architecture that it runs.
    architecture: &'static str,
    /// Whether the emulator ran firmware under the plugin, with the right count.
    works: bool,
    /// Path of the emulator; null: it was not found.
    path: Option<PathBuf>,
    /// Its version.
    version: Option<String>,
    /// Version of QEMU's plugin API with which it loaded the plugin.
    plugin_api: Option<i32>,
    /// Features that runs lack because only this QEMU's plugin API is used; empty: none.
    lacks: Vec<&'static str>,
    /// Reason why it does not work.
    problem: Option<String>,
    /// Remedy for the problem.
    remedy: Option<String>,
}

/// All results.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Doctor")]
struct Findings {
    /// Always "harness-doctor".
    format: &'static str,
    /// Version of the format.
    version: u32,
    /// Version of harness.
    harness: &'static str,
    /// Commit that harness was built from.
    commit: &'static str,
    /// The emulators.
    emulators: Vec<Found>,
    /// Emulators that only some users need, and that are not installed.
    absent: Vec<Found>,
    /// Missing parts of the sandbox, of the kernel's and of each emulator's; runs use the other parts.
    walls_missing: Option<String>,
    /// Reason why a run in the current directory cannot write its profile there; None: it can.
    unwritable: Option<String>,
    /// Whether all emulators work.
    works: bool,
}

/// Runs an architecture's program and checks the count of its instructions.
fn run_one(architecture: &Architecture, directory: &Path) -> Result<()> {
    let firmware = directory.join(architecture.program).with_extension("bin");
    fs::write(&firmware, architecture.image).with_context(|| InputError::about(&firmware, "cannot be written"))?;
    let profile = directory.join(architecture.program);
    let window = INSNS.to_string();
    let words = [
        "harness".as_ref(),
        "profile".as_ref(),
        firmware.as_os_str(),
        "--machine".as_ref(),
        architecture.machine.as_ref(),
        "--load-addr".as_ref(),
        architecture.load_addr.as_ref(),
        "--for".as_ref(),
        window.as_ref(),
        "--timeout".as_ref(),
        "60".as_ref(),
        "--output".as_ref(),
        profile.as_os_str(),
    ];
    let Cli { command: Some(Command::Profile(args)), .. } = Cli::try_parse_from(words)? else {
        return Err(InputError::new("these words are no `harness profile`").into());
    };
    let options = Options::resolve(args)?;
    let output = Output::prepare_for(&options)?;
    let profile = measure(&options, None, &output, &mut Silent)?.profile;
    let counted = profile.total_insns();
    ensure!(
        counted == INSNS && ExitCode::of_end(&profile.facts.end) == ExitCode::Good,
        "it ran {counted} instructions of {INSNS}: please report this, with the version"
    );
    Ok(())
}

/// Tests one emulator.
fn look(architecture: &Architecture, directory: &Path) -> Found {
    let &Architecture { program, runs, .. } = architecture;
    let mut found = Found {
        program,
        architecture: runs,
        works: false,
        path: None,
        version: None,
        plugin_api: None,
        lacks: Vec::new(),
        problem: None,
        remedy: None,
    };
    let mut tried = || -> Result<()> {
        let path = emulator::locate(program)?;
        found.version = Some(emulator::version(found.path.insert(path.clone()))?);
        run_one(architecture, directory)?;
        found.plugin_api = Some(plugin::api(&path));
        found.lacks = tricks::lacks(&path);
        found.works = true;
        Ok(())
    };
    if let Err(error) = tried() {
        let known = error.downcast_ref::<EmulatorError>();
        found.problem = Some(known.map_or_else(|| format!("{error:#}"), |error| error.what().to_owned()));
        found.remedy = known.and_then(EmulatorError::remedy).map(str::to_owned);
    }
    found
}

/// Runs a program on each emulator under the plugin. Prints a line for each emulator, and the remedies for those that
/// fail.
///
/// # Errors
/// If the output cannot be written.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(document::schema::<Findings>()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    // The current directory, in which runs leave their files by default.
    let here = Making::begin(Path::new("."), PREFIX, |_| ());
    let unwritable = here
        .as_ref()
        .err()
        .map(|error| format!("a run here cannot write its profile ({error}): give it a directory with --output"));
    let directory = here
        .or_else(|_| Making::begin(&env::temp_dir(), PREFIX, |_| ()))
        .with_context(|| InputError::new("no temporary directory can be made"))?;
    let (absent, present): (Vec<&Architecture>, Vec<&Architecture>) = ARCHITECTURES
        .iter()
        .partition(|architecture| architecture.is_optional && emulator::locate(architecture.program).is_err());
    let [absent, emulators] =
        [absent, present].map(|of| of.into_iter().map(|one| look(one, directory.path())).collect::<Vec<Found>>());
    let works = emulators.iter().all(|found| found.works);
    let walls_missing = sandbox::missing(emulators.iter().filter_map(|found| found.path.as_deref()));
    let findings = Findings {
        format: "harness-doctor",
        version: VERSION,
        harness: env!("CARGO_PKG_VERSION"),
        commit: COMMIT,
        emulators,
        absent,
        walls_missing,
        unwritable,
        works,
    };
    let mut text = Vec::new();
    if args.json {
        document::write(&findings, &mut text)?;
    } else {
        print(&findings, &mut text)?;
    }
    // A reader that closes the output early (`| head -1`) is not an error.
    match terminal::stdout().write_all(&text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {}
    }
    Ok(if works { ExitCode::Good } else { ExitCode::Emulator })
}

/// Prints the findings for people.
fn print(findings: &Findings, out: &mut impl Write) -> io::Result<()> {
    for found in &findings.emulators {
        let Found { program, architecture, version, path, .. } = found;
        let word = match (found.works, path) {
            (true, _) => "ok",
            (false, None) => "missing",
            (false, Some(_)) => "unfit",
        };
        let version = version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        write!(out, "{word:<8} {program}{version} ({architecture}")?;
        if let Some(api) = found.plugin_api {
            write!(out, ", plugin API {api}")?;
        }
        write!(out, "):")?;
        // Escaped, since a line break in a directory's name would start another line.
        let path = path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let problem = found.problem.as_deref().unwrap_or_default();
        if !path.is_empty() && !problem.contains(&path) {
            write!(out, " {}{}", printable(&path), if problem.is_empty() { "" } else { ":" })?;
        }
        // A problem may have further lines, such as QEMU's own message: they follow below, indented.
        let gap = if problem.is_empty() { "" } else { " " };
        writeln!(out, "{gap}{}", problem.replace('\n', "\n         "))?;
    }
    for Found { program, architecture, problem, remedy, .. } in &findings.absent {
        let [problem, remedy] = [problem, remedy].map(|text| text.as_deref().unwrap_or_default());
        writeln!(out, "absent   {program} (needed for {architecture} alone): {}", printable(problem))?;
        writeln!(out, "         {remedy}")?;
    }
    let mut remedies: Vec<&str> = findings.emulators.iter().filter_map(|found| found.remedy.as_deref()).collect();
    remedies.dedup();
    // Usually all emulators have the same version, so the first one stands for all.
    if let Some(found) = findings.emulators.iter().find(|found| !found.lacks.is_empty()) {
        let version = found.version.as_deref().unwrap_or_default();
        let why = if tricks::is_off() {
            "HARNESS_NO_TRICKS is set"
        } else {
            "this version of harness does not know the internals of that version of QEMU"
        };
        writeln!(out, "warning: QEMU {version} is used by its plugin API alone, for {why}. So:")?;
        found.lacks.iter().try_for_each(|line| writeln!(out, "         {line}"))?;
    }
    for warning in findings.walls_missing.iter().chain(&findings.unwritable) {
        writeln!(out, "warning: {warning}")?;
    }
    if findings.works {
        writeln!(out, "Everything that harness needs is installed: each of them ran firmware under the plugin.")?;
    }
    remedies.into_iter().try_for_each(|remedy| writeln!(out, "{remedy}"))?;
    Ok(())
}
