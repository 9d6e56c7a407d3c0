//! `harness firmware.elf`: one image in, one profile directory and one table out.

use std::collections::BTreeSet;
use std::fs;
use std::io::{IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::Result;
use console::Term;
use wire::control::Word;
use wire::definition::FrameKind;

use crate::cli::ProfileArgs;
use crate::crosscheck::{self, in_target};
use crate::export::{self, CONSOLE, FILES, FLAMECHART, summary, tasks};
use crate::functions;
use crate::image::{Arch, Image, InputError, LoadOptions};
use crate::kernel;
use crate::machine::{self, Choice};
use crate::mcount;
use crate::options::Options;
use crate::output::Output;
use crate::profile::{Facts, InTarget, Profile};
use crate::progress::Bar;
use crate::qemu::{self, Workspace};
use crate::records::Records;
use crate::run::{INTERRUPTED, Outcome, Plan};
use crate::symbols::Symbols;
use crate::unwind;
use crate::verdict::{self, ExitCode, group};

/// Runs the command.
///
/// # Errors
/// When there is no profile to show; see [`ExitCode::of_error`].
pub fn run(args: ProfileArgs) -> Result<ExitCode> {
    let options = Options::resolve(args)?;
    let image = Image::open(
        &options.firmware,
        &LoadOptions {
            load_addr: options.load_addr,
            load_bias: options.load_bias,
            symbols: options.symbols.as_deref(),
        },
    )?;
    let choice = machine::choose(&image, options.machine.as_deref(), options.cpu.as_deref())?;
    for warning in image.warnings.iter().chain(&choice.warnings) {
        eprintln!("warning: {warning}");
    }
    let mcount = mcount::find(&image.segments, Some(choice.machine.arch), choice.load_bias);
    for warning in &mcount.warnings {
        eprintln!("warning: {warning}");
    }
    let symbol_file = read_symbol_file(&image)?;
    let symbols = Symbols::new(symbol_file.as_deref(), choice.load_bias, choice.machine.arch == Arch::CortexM);
    let bound = |option: &str, name: &Option<String>| {
        let find = |name: &str| match symbols.find(name) {
            Ok(found) => Ok(found.address),
            Err(error) => Err(InputError::about(&image.path, format_args!("{option} {name}: {error}"))),
        };
        name.as_deref().map(find).transpose()
    };
    let from = bound("--from", &options.window.from)?;
    let until = bound("--until", &options.window.until)?;

    let target = options.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.profile", image.stem)));
    let output = Output::prepare(target)?;
    let emulator = qemu::locate(choice.machine.qemu)?;
    let version = qemu::version(&emulator)?;
    let workspace = Workspace::create(output.run_directory(), output.target())?;
    let icount_shift = options.icount_shift.unwrap_or(choice.machine.shift);
    let arm = choice.machine.arch == Arch::CortexM;
    let functions = symbols.ranges();
    let isa = choice.machine.isa.parse().map_err(anyhow::Error::new)?;
    let unwind = unwind::table(symbol_file.as_deref(), isa, &image.segments, choice.load_bias, &functions);
    let (kernel, kernel_warnings) = kernel::find(symbol_file.as_deref(), choice.load_bias, arm);
    for warning in unwind.warnings.iter().chain(&kernel_warnings) {
        eprintln!("warning: {warning}");
    }
    let plan = Plan {
        image: &image,
        choice: &choice,
        emulator: &emulator,
        options: &options,
        icount_shift,
        functions: &functions,
        from,
        until,
        unwind: &unwind,
        kernel: kernel.as_ref(),
        mcount: mcount.headers.first(),
    };
    explain_choice(&choice);

    // Fails only where a handler is set already; then that one decides.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
    let bar = Bar::new(&image.stem, options.window.for_insns.unwrap_or(0));
    let outcome = plan.run(&workspace, &mut |progress| bar.update(progress));
    bar.finish();

    let (profile, warnings) = profile(&plan, version, &symbols, symbol_file.as_deref(), outcome?);
    for warning in &warnings {
        eprintln!("warning: {warning}");
    }
    export::write(&profile, &options, &output)?;
    // A machine without a serial port and semihosting prints nothing, and QEMU may end before it
    // opens the file.
    if workspace.console().exists() {
        output.take(CONSOLE, &workspace.console())?;
    } else {
        output.write(CONSOLE, b"")?;
    }
    let directory = output.commit()?;

    report(&profile, &options, &directory)
}

/// Prints the table and the verdict, and settles the exit code.
fn report(profile: &Profile, options: &Options, directory: &std::path::Path) -> Result<ExitCode> {
    let table = functions::table(profile);
    let crosscheck = crosscheck::check(profile, &table);
    let mut out = stdout().lock();
    let columns = Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    let mut layout = summary::Layout { top_rows: options.top_rows, ..Default::default() };
    if let Some(columns) = columns.filter(|_| stdout().is_terminal()) {
        layout.width_columns = columns;
    }
    summary::write(&table, &crosscheck, layout, &mut out)?;
    tasks::write(profile, &mut out)?;
    writeln!(out)?;
    writeln!(out, "{}", verdict::describe_run(&profile.facts))?;
    if profile.facts.before_window_insns > 0 {
        writeln!(out, "{} instructions ran before the window", group(profile.facts.before_window_insns))?;
    }
    if let Some(line) = verdict::describe_bins(profile) {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "end: {}", verdict::describe_end(profile))?;
    for line in verdict::describe_notes(profile).iter().chain(&verdict::describe_unresolved(&profile.facts)) {
        writeln!(out, "{line}")?;
    }
    let mut code = ExitCode::of_end(&profile.facts.end);
    if let Some(from) = &options.window.from
        && profile.total_insns() == 0
    {
        writeln!(out, "the window never opened: --from {from} was not reached")?;
        code = code.min(ExitCode::Firmware);
    }
    if options.strict && !crosscheck.counts_agree() {
        writeln!(out, "the counts differ, and --strict makes that a failure")?;
        code = code.min(ExitCode::Firmware);
    }
    let chart = options.flamechart.then_some(FLAMECHART);
    let files: Vec<&str> = FILES.into_iter().chain(chart).collect();
    writeln!(out, "profile in {}: {}", directory.display(), files.join(", "))?;
    Ok(code)
}

/// Says on stderr which machine was chosen and what else there was.
fn explain_choice(choice: &Choice) {
    eprintln!("machine: {}, {}", choice.machine.title(), choice.because);
    for (title, reason) in &choice.runners_up {
        eprintln!("  not {title}: {reason}");
    }
}

/// The ELF that names the image's addresses, if there is one.
fn read_symbol_file(image: &Image) -> Result<Option<Vec<u8>>, InputError> {
    let read = |path: &PathBuf| {
        fs::read(path).map_err(|error| InputError::about(path, format_args!("cannot be read: {error}")))
    };
    image.symbols_from.as_ref().map(read).transpose()
}

/// Executions of the instruction that waits for an interrupt.
fn waits(plan: &Plan<'_>, records: &Records) -> u64 {
    let Ok(isa) = plan.choice.machine.isa.parse() else { return 0 };
    let is_wait = |pc: u64| {
        let code = plan.image.code_at(pc.wrapping_sub(plan.choice.load_bias));
        code.is_some_and(|code| decode::is_wfi(isa, code))
    };
    let insns = records.vcpus.iter().flat_map(|vcpu| &vcpu.insns);
    insns.filter(|insn| is_wait(insn.pc)).map(|insn| insn.count).sum()
}

/// Puts the saved model together.
fn profile(
    plan: &Plan<'_>,
    qemu_version: String,
    symbols: &Symbols<'_>,
    symbol_file: Option<&[u8]>,
    outcome: Outcome,
) -> (Profile, Vec<String>) {
    let Outcome { records, end, in_target } = outcome;
    let mut named: BTreeSet<u64> = records.vcpus.iter().flat_map(|vcpu| &vcpu.insns).map(|insn| insn.pc).collect();
    let waits = waits(plan, &records);
    for frame in &records.stacks {
        match frame.kind {
            FrameKind::Caller { return_addr } => named.insert(return_addr.wrapping_sub(1)),
            FrameKind::Exception { pc, .. } => named.insert(pc),
            FrameKind::Unknown(_) => false,
        };
    }
    let named: Vec<u64> = named.into_iter().collect();
    let arcs = records.vcpus.iter().flat_map(|vcpu| &vcpu.arcs);
    let mut others: Vec<u64> = arcs.flat_map(|arc| [Some(arc.target), arc.return_addr]).flatten().collect();
    if let Some(table) = in_target.as_ref().and_then(InTarget::table) {
        others.extend(table.addresses());
    }
    let (names, warnings) = symbols.names(&named, &others);
    let Plan { image, choice, options, .. } = plan;
    let facts = Facts {
        harness_version: env!("CARGO_PKG_VERSION").to_owned(),
        image_name: image.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        image_sha256: image.sha256.clone(),
        symbols_sha256: options.symbols.as_ref().and(symbol_file).map(crate::image::sha256_hex),
        qemu_version,
        machine: choice.machine.name.clone().into_owned(),
        cpu: choice.cpu.clone(),
        isa: choice.machine.isa.to_owned(),
        icount_shift: plan.icount_shift,
        load_addr: options.load_addr,
        load_bias: choice.load_bias,
        entry: choice.entry,
        qemu_args: options.qemu_args.clone(),
        period_insns: options.period_insns,
        jitter_seed: options.jitter_seed,
        bin_bytes: options.bin_bytes,
        window: options.window.clone(),
        before_window_insns: records.before_window_insns,
        end,
        max_depth: options.max_depth,
        waits,
        unseen_switches: records.control.get(Word::UnseenSwitches),
        unresolved_transfers: records.control.get(Word::Unresolved),
        interrupted_transfers: records.control.get(Word::Interrupted),
    };
    let mut profile = Profile {
        facts,
        vcpus: records.vcpus,
        samples: records.samples,
        stacks: records.stacks,
        tasks: records.tasks,
        tree: records.tree,
        notes: records.notes,
        names,
        in_target,
    };
    if let (Some(table), Ok(isa)) = (profile.in_target.as_ref().and_then(InTarget::table), choice.machine.isa.parse())
    {
        let mut returns = in_target::returning(&profile, table);
        returns.retain(|&pc| {
            let code = image.code_at(pc.wrapping_sub(choice.load_bias));
            code.is_some_and(|code| decode::decode(isa, pc, code).flow == decode::Flow::Return)
        });
        if let Some(InTarget::Table(table)) = &mut profile.in_target {
            let before = |pc: &u64| records.before_window.get(pc).copied().unwrap_or(0);
            let came_back: u64 = returns.iter().map(before).sum();
            table.inside_at_open = before(&table.entry_point).saturating_sub(came_back);
            table.returns = returns.into_iter().collect();
        }
    }
    (profile, warnings)
}
