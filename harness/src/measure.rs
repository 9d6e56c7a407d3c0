// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures one image: the pipeline from options to a profile, for every command that runs firmware.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use decode::Flow;
use wire::control::Word;
use wire::definition::FrameKind;
use wire::heap::Allocator;
use wire::request::InlinedCall;
use wire::trick::{AVR_STATE, DEVICES, PACE};

use crate::analysis::cold_part::ColdParts;
use crate::analysis::crosscheck::in_target;
use crate::analysis::cycles;
use crate::analysis::dead_loop;
use crate::analysis::describe;
use crate::analysis::heap_summary;
use crate::analysis::missing_device;
use crate::analysis::overflow;
use crate::analysis::restarts;
use crate::analysis::size;
use crate::analysis::stack_proof::{self, Cut};
use crate::analysis::standstill::{self, Accesses, Found};
use crate::chip::cycled::{self, Cycled};
use crate::chip::hints::{self, Hint};
use crate::chip::suggest::{Likelihood, Suggestion};
use crate::chip::{self, Chip};
use crate::error::InputError;
use crate::image::avr_libc;
use crate::image::bounded_read;
use crate::image::heap::{self, rule::Rule};
use crate::image::kernel;
use crate::image::mcount;
use crate::image::pages;
use crate::image::rooms::Variables;
use crate::image::stub::{self, Stubs};
use crate::image::symbols::Symbols;
use crate::image::targets;
use crate::image::trace_patterns;
use crate::image::unwind;
use crate::image::waiting;
use crate::image::zone;
use crate::image::zone_call;
use crate::image::{Arch, Format, Image, Opened};
use crate::machine::{self, Choice};
use crate::profile::input::{Input, What};
use crate::profile::no_progress::{Device, OnlyPoll};
use crate::profile::{self, Beyond, Code, Facts, GenericSpan, InTarget, JumpTable, Profile, SpanKind, StackLeft};
use crate::run::contain::grants::Walls;
use crate::run::contain::sandbox;
use crate::run::qemu::emulator;
use crate::run::qemu::memory::{self, Unread};
use crate::run::qemu::offered;
use crate::run::qemu::tricks;
use crate::run::records::read::{Progress, Records};
use crate::run::request::options::{Length, Options};
use crate::run::request::plan::{Measurement, Plan};
use crate::run::store::directory::Output;
use crate::run::store::workspace::Workspace;
use crate::run::watch::execution::Outcome;
use crate::text::number::{Hex, frequency};
use crate::text::shell::quoted;

/// Receiver of messages about a run while it is measured.
pub trait Listener {
    /// Receives a warning or other message for the user.
    fn say(&mut self, line: &str);
    /// Receives the line about the chosen machine.
    fn choice(&mut self, line: &str) {
        self.say(line);
    }
    /// Receives the line about a machine that was not chosen, with the reason.
    fn runner_up(&mut self, line: &str) {
        self.choice(line);
    }
    /// Receives the line about a chip that the user has not asked for.
    fn taken(&mut self, line: &str) {
        self.say(line);
    }
    /// Receives the line about a feature that this host lacks; it says nothing about the firmware.
    fn host(&mut self, line: &str) {
        self.say(line);
    }
    /// Receives the reason why QEMU itself is slow on this image.
    fn slow(&mut self, line: &str) {
        self.say(line);
    }
    /// Called when the run begins; `_console` is the file that will get the firmware's output.
    fn starts(&mut self, _console: &Path) {}
    /// Called now and then with the run's progress.
    fn progress(&mut self, progress: Progress);
}

/// Discards all messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Listener for Silent {
    fn say(&mut self, _: &str) {}
    fn progress(&mut self, _: Progress) {}
}

/// Result of measuring an image.
#[derive(Debug)]
pub struct Measured {
    /// Profile of the run.
    pub profile: Profile,
    /// Console file, in `output`'s run directory; it does not exist if the firmware had no means to print.
    pub console: PathBuf,
}

/// Image ready to run on a machine.
#[derive(Debug)]
pub struct Loaded {
    pub(crate) image: Image,
    pub(crate) choice: Choice,
    /// Chip to which the machine is completed.
    pub(crate) chip: Option<Chip>,
    /// The in-target table, if the image has one.
    mcount: Option<mcount::Header>,
    /// Content of the ELF file that names the image's addresses, if there is one.
    symbol_file: Option<Vec<u8>>,
    stubs: Stubs,
    /// Cycles that are counted.
    cycled: Cycled,
}

impl Loaded {
    /// Symbols of the image's addresses.
    pub(crate) fn symbols(&self) -> Symbols<'_> {
        let mut symbols = plain_symbols(self.symbol_file.as_deref(), &self.choice);
        symbols.patch(&self.stubs.code, &self.stubs.data);
        let segments = self.image.segments.iter().map(|segment| {
            let start = segment.run_addr.wrapping_add(self.choice.load_bias);
            start..start.saturating_add(segment.data.len() as u64)
        });
        symbols.place(segments.collect());
        if self.choice.machine.arch == Arch::Avr {
            let start_up = avr_libc::start_up(self.choice.entry, |address| self.image.code_at(address));
            start_up.into_iter().for_each(|range| symbols.join(range, avr_libc::START_UP));
            let ends = self.choice.machine.exit.zip(self.choice.machine.finisher);
            let exit = ends.and_then(|(exit, exit_loop)| avr_libc::whole_exit(exit, exit_loop));
            exit.into_iter().for_each(|range| symbols.join(range, avr_libc::EXIT));
        }
        symbols
    }

    /// Plan of a run of the image.
    pub(crate) fn plan<'a>(&'a self, emulator: &'a Path, options: &'a Options) -> Plan<'a> {
        Plan {
            image: &self.image,
            choice: &self.choice,
            chip: self.chip.as_ref(),
            emulator,
            options,
            icount_shift: self.icount_shift(options),
            cycled: &self.cycled,
            mcount: self.mcount.as_ref(),
            stubs: &self.stubs.list,
        }
    }

    /// Instruction set of the machine.
    fn isa(&self) -> Result<decode::Isa> {
        self.choice.machine.isa.parse().map_err(anyhow::Error::new)
    }

    /// Shift of virtual time: an instruction takes 2^shift ns.
    fn icount_shift(&self, options: &Options) -> u8 {
        let paced = self.cycled.pace.map(|pace| pace.insn_shift);
        paced.or(options.icount_shift).unwrap_or(self.choice.machine.shift)
    }

    /// Content of the ELF file that names the image's addresses, if there is one.
    pub(crate) fn symbol_file(&self) -> Option<&[u8]> {
        self.symbol_file.as_deref()
    }

    /// Kernel of the firmware, if it has a known one, with warnings about it.
    pub(crate) fn kernel(&self) -> (Option<wire::request::Kernel>, Vec<String>) {
        let arm = match self.choice.machine.arch {
            Arch::CortexM => true,
            Arch::Riscv64 | Arch::Riscv32 => false,
            // What is known of the kernels is their layout on the others.
            Arch::Avr => return (None, Vec::new()),
        };
        kernel::find(self.symbol_file.as_deref(), self.choice.load_bias, arm)
    }
}

fn plain_symbols<'a>(symbol_file: Option<&'a [u8]>, choice: &Choice) -> Symbols<'a> {
    Symbols::new(symbol_file, choice.load_bias, choice.machine.arch == Arch::CortexM)
}

/// Chooses a machine for the image that options name, and applies the stubs. `opened`: the image, if it has been read.
///
/// # Errors
/// When the image cannot be read, no machine fits, or a stub's function does not exist.
pub(crate) fn load(options: &Options, opened: Option<Opened>, listener: &mut dyn Listener) -> Result<Loaded> {
    let opened = opened.map_or_else(|| Opened::open(&options.firmware, &options.load()), Ok)?;
    let (mut image, symbol_file) = opened.into_parts();
    if let (Some(svd), None) = (&options.svd, &options.chip) {
        let what = "an SVD names the registers of a chip: --chip says which";
        return Err(InputError::about(svd, format_args!("--svd: {what}")).into());
    }
    let mut chip = options.chip.as_deref().map(|chip| chip::find_with(chip, options.svd.as_deref())).transpose()?;
    let widened = chip.as_mut().map(|chip| chip.widen(&image)).unwrap_or_default();
    let mut choice = match &chip {
        Some(chip) => machine::choose_chip(&image, chip)?,
        None => machine::choose(&image, options.machine.as_deref(), options.cpu.as_deref())?,
    };
    offered::check(options, &choice)?;
    let added = choice.machine.added.filter(|_| chip.is_none());
    let mut chip = chip.or(added.map(chip::find).transpose()?);
    connect(&mut chip, options)?;
    if options.chip.is_some() {
        tricks::need(&emulator::locate(choice.machine.qemu)?, &DEVICES, "--chip")?;
    }
    let mut warn = |warnings: &[String]| warnings.iter().for_each(|line| listener.say(&format!("warning: {line}")));
    warn(&image.warnings);
    warn(&choice.warnings);
    warn(&widened);
    let mcount = mcount::find(&image.segments, Some(choice.machine.arch), choice.load_bias);
    warn(&mcount.warnings);
    if choice.machine.arch == Arch::Avr {
        tricks::need(&emulator::locate(choice.machine.qemu)?, &AVR_STATE, "AVR firmware")?;
        let in_code = || avr_libc::exit_loop_in_code(choice.entry, |address| image.code_at(address));
        choice.machine.finisher = avr_libc::exit_loop(symbol_file.as_deref()).or_else(in_code);
        choice.machine.exit = avr_libc::exit(symbol_file.as_deref());
    } else {
        choice.machine.exit = plain_symbols(symbol_file.as_deref(), &choice).address_of(avr_libc::EXIT);
    }
    let isa = choice.machine.isa.parse().map_err(anyhow::Error::new)?;
    let target = stub::Target { isa, has_compressed: has_compressed(&image), load_bias: choice.load_bias };
    let stubs = if options.stubs.is_empty() {
        Stubs::default()
    } else {
        let symbols = plain_symbols(symbol_file.as_deref(), &choice);
        stub::apply(&mut image, &symbols, target, &options.stubs)
            .map_err(|error| InputError::about(&options.firmware, error))?
    };
    warn(&stubs.warnings);
    let find = |wanted: &String| Cycled::find(wanted, &image.path, isa, chip.as_ref());
    let cycled = options.cycles.as_ref().map_or_else(|| Ok(Cycled::default()), find)?;
    let cycled = paced(cycled, options, &choice)?;
    let typed = options.icount_shift;
    if let Some(pace) = cycled.pace.filter(|pace| typed.is_some_and(|shift| shift != pace.insn_shift)) {
        let clock = format!("with --cycles the machine's clock goes by cycles, at {}", frequency(pace.hz));
        return Err(InputError::about(&image.path, format!("--shift: {clock}; leave it out")).into());
    }
    Ok(Loaded { image, choice, chip, mcount: mcount.headers.into_iter().next(), symbol_file, stubs, cycled })
}

/// Connects what is outside of the chip, of which the options' input tells.
fn connect(chip: &mut Option<Chip>, options: &Options) -> Result<(), InputError> {
    match chip {
        Some(chip) => chip.connect(&options.input),
        None if options.input.iter().any(|input| matches!(input.what, What::Outside(_))) => {
            let what = "pins, devices and serial ports are those of a chip; --chip says which (harness list chips)";
            Err(InputError::about(&options.firmware, format_args!("--set: {what}")))
        }
        None => Ok(()),
    }
}

/// Cycles of a run whose clock follows them where it can: with a QEMU of which that is known, and by instructions elsewhere,
/// unless the user has typed the frequency.
fn paced(cycled: Cycled, options: &Options, choice: &Choice) -> Result<Cycled> {
    if cycled.pace.is_none() {
        return Ok(cycled);
    }
    if let Some(Length::Ns(_)) = options.slice {
        let why = "--slice: with --cycles the clock goes by cycles, and slices by instructions: give their number";
        return Err(InputError::about(&options.firmware, why).into());
    }
    let is_typed = options.cycles.as_deref().is_some_and(|wanted| cycled::split(wanted).1.is_some());
    match tricks::need(&emulator::locate(choice.machine.qemu)?, &PACE, "--cycles at a frequency") {
        Err(error) if is_typed => Err(error.into()),
        Err(_) => Ok(Cycled { pace: None, ..cycled }),
        Ok(()) => Ok(cycled),
    }
}

/// Copies the files of `--file` into the firmware's directory.
///
/// # Errors
/// If a file cannot be read, or cannot be written in that directory.
pub(crate) fn give_files(options: &Options, workspace: &Workspace) -> Result<(), InputError> {
    for (name, file) in &options.files {
        let copied = bounded_read::read(file).and_then(|bytes| fs::write(workspace.scratch().join(name), bytes));
        copied.map_err(|error| InputError::about(file, format_args!("cannot be given to the firmware: {error}")))?;
    }
    Ok(())
}

/// Runs the image in the run directory of `output`. `opened`: the image, if it has been read.
///
/// # Errors
/// When there is no profile to show; see [`crate::exit_code::ExitCode::of_error`].
pub fn measure(
    options: &Options,
    opened: Option<Opened>,
    output: &Output,
    listener: &mut dyn Listener,
) -> Result<Measured> {
    let loaded = load(options, opened, listener)?;
    let symbols = loaded.symbols();
    let Loaded { choice, symbol_file, .. } = &loaded;
    let named = Named::find(&loaded, &symbols, options)?;
    let emulator = emulator::locate(choice.machine.qemu)?;
    let workspace = Workspace::create(output.run_directory(), output.target())?;
    let known = Known::find(&loaded, &symbols, options, &emulator)?;
    known.warnings.iter().for_each(|line| listener.say(&format!("warning: {line}")));
    give_files(options, &workspace)?;
    let timeline = options
        .timeline
        .as_ref()
        .map(|_| wire::timeline::Wanted { functions: named.traced.clone(), waits: known.waits.clone() });
    let measurement = Measurement {
        functions: &known.functions,
        inlined_calls: &known.inlined_calls,
        from: &named.from,
        until: &named.until,
        spans: &named.spans,
        unwind: &known.unwind,
        kernel: known.kernel.as_ref(),
        polls: &known.executor,
        lives: &known.lives,
        rooms: &known.rooms,
        heap_end: known.heap_end,
        heap: &named.allocators,
        sleep_shift: known.sleep_shift,
        timeline: timeline.as_ref(),
        zones: &known.zones,
        waiting: &known.waiting,
    };
    if let Some(line) = Walls::warning(options.sandbox) {
        listener.host(&format!("warning: {line}"));
    }
    explain_choice(choice, &loaded.image, listener);
    listener.starts(&workspace.console());
    let plan = loaded.plan(&emulator, options);
    let outcome =
        plan.run(&measurement, &workspace, output.deadline(), &mut |progress| listener.progress(progress))?;
    warn_of_run(&plan, &outcome, listener);
    let executed = outcome.records.vcpus.iter().flat_map(|vcpu| &vcpu.insns).map(|insn| insn.pc).collect();
    let shared = symbol_file
        .as_deref()
        .and_then(|elf| pages::describe_shared(elf, choice.machine.arch, choice.load_bias, &executed));
    let (mut profile, warnings) =
        profile(&plan, &named, known.kernel.as_ref(), &symbols, symbol_file.as_deref(), outcome);
    trace_patterns::name_tasks(&mut profile.tasks, &symbols);
    complete(&mut profile, &plan, named, &symbols, &workspace)?;
    profile.zones.names.splice(0..0, known.zones.names);
    profile.zones.first_call = known.zones.first_call;
    let counted = std::mem::take(&mut profile.facts.waiting);
    profile.facts.waiting = known.waiting.counted(counted.called_insns, counted.unsure);
    let is_learned = loaded.chip.as_ref().is_some_and(|chip| chip.seen.is_some());
    if let Some(line) = chip_hint(&loaded.image, options, &profile, is_learned) {
        listener.choice(&line);
    }
    heap_summary::missed(&profile).iter().for_each(|line| listener.say(&format!("warning: {line}")));
    warnings.iter().for_each(|line| listener.say(&format!("warning: {line}")));
    if let Some(line) = shared {
        listener.slow(&format!("note: {line}"));
    }
    Ok(Measured { profile, console: workspace.console() })
}

/// Functions that the options name, by their addresses.
struct Named {
    /// Functions that open the window.
    from: Vec<u64>,
    /// Functions that close the window.
    until: Vec<u64>,
    spans: Vec<(Vec<u64>, Vec<u64>)>,
    generic_spans: Vec<GenericSpan>,
    /// Functions that allocate and free memory.
    allocators: Vec<Allocator>,
    /// Functions whose calls the timeline records.
    traced: Vec<u64>,
}

impl Named {
    fn find(loaded: &Loaded, symbols: &Symbols<'_>, options: &Options) -> Result<Named> {
        let path = &loaded.image.path;
        let isa = loaded.isa()?;
        let find = |option: &str, name: &str| match symbols.find(name) {
            Ok(found) => Ok(found.iter().map(|found| found.address).collect::<Vec<u64>>()),
            Err(error) => Err(InputError::about(path, format_args!("{option} {name}: {error}"))),
        };
        let bound =
            |option: &str, name: &Option<String>| name.as_deref().map_or(Ok(Vec::new()), |name| find(option, name));
        let from = bound("--from", &options.window.from)?;
        let until = bound("--until", &options.window.until)?;
        let span = |(from, until): &(String, String)| Ok((find("--span", from)?, find("--span", until)?));
        let spans = options.spans.iter().map(span).collect::<Result<Vec<_>, InputError>>()?;
        let generic_spans = generic_spans(&options.spans, &spans)?;
        let allocators = match &options.heap {
            Some(_) if isa.is_avr() => {
                return Err(InputError::about(
                    path,
                    "--heap is not for AVR: its arguments are not read; leave it out",
                )
                .into());
            }
            Some(wanted) => heap::find(wanted, symbols, isa).map_err(|error| InputError::about(path, error))?,
            None => Vec::new(),
        };
        let mut traced = trace_patterns::find(options.timeline.as_deref().unwrap_or_default(), symbols)
            .map_err(|error| InputError::about(path, error))?;
        // The others are names of interrupts or tasks, or a mistake that a verdict on the run tells.
        let timed = options.timed.iter().filter_map(|name| symbols.find(name).ok());
        traced.extend(timed.flatten().map(|found| found.address));
        traced.sort_unstable();
        traced.dedup();
        Ok(Named { from, until, spans, generic_spans, allocators, traced })
    }
}

/// Facts about the firmware's code that the plugin needs.
struct Known {
    /// Addresses of the functions, sorted.
    functions: Vec<Range<u64>>,
    /// Calls of inlined code; empty unless the run is exact.
    inlined_calls: Vec<InlinedCall>,
    unwind: unwind::Table,
    kernel: Option<wire::request::Kernel>,
    /// Tasks of executors; empty if there is a kernel, whose threads are the tasks.
    executor: Vec<wire::request::Poll>,
    /// Rooms of stacks that no kernel describes.
    rooms: Vec<Range<u64>>,
    /// Variable in which the C library keeps the address behind its heap.
    heap_end: Option<u64>,
    /// Points in the code at which the lives of these tasks are seen; empty without a timeline.
    lives: wire::request::Lives,
    /// Layout of the kernel's data that tells why a task does not execute; None: there is no kernel or no timeline.
    waits: Option<wire::timeline::Waits>,
    /// Shift of virtual time, by which sleep is recorded; None: QEMU's sleeps differ from run to run, or the processor
    /// sleeps by cycles (AVR).
    sleep_shift: Option<u8>,
    zones: zone::Zones,
    waiting: waiting::Code,
    warnings: Vec<String>,
}

impl Known {
    fn find(loaded: &Loaded, symbols: &Symbols<'_>, options: &Options, emulator: &Path) -> Result<Known> {
        let Loaded { image, choice, stubs, .. } = loaded;
        let (isa, elf) = (loaded.isa()?, loaded.symbol_file());
        let arm = choice.machine.arch == Arch::CortexM;
        let functions = symbols.ranges();
        let mut unwind = unwind::table(elf, isa, &image.segments, choice.load_bias, &functions);
        stubs.functions.iter().for_each(|function| unwind.stub(function));
        let (kernel, kernel_warnings) = loaded.kernel();
        let has_timeline = options.timeline.is_some();
        let executor =
            if kernel.is_none() && !isa.is_avr() { kernel::polls(elf, choice.load_bias, arm) } else { Vec::new() };
        let lives = if has_timeline && !executor.is_empty() {
            kernel::embassy::lives(elf, choice.load_bias, arm)
        } else {
            wire::request::Lives::default()
        };
        // Without a timeline, the greeting of the run tells whether they can be used.
        let sleeps_alike = !isa.is_avr() && (!has_timeline || emulator::sleeps_alike(emulator)?);
        let has_waits = has_timeline && kernel.is_some();
        let mut zones = zone::find(elf, image, isa, choice.load_bias);
        let named_in = zone_call::Elf { bytes: elf, load_bias: choice.load_bias, isa };
        zone_call::add(&options.zone_calls, symbols, named_in, &mut zones)
            .map_err(|error| InputError::about(&image.path, error))?;
        let inlined_calls = if options.exact {
            symbols.inlined_calls(&targets::returns(isa, &image.segments, choice.load_bias, &functions))
        } else {
            Vec::new()
        };
        let file = elf.and_then(|elf| object::File::parse(elf).ok());
        let variables = file.map(|file| Variables::read(&file, choice.load_bias)).unwrap_or_default();
        Ok(Known {
            rooms: variables.rooms(),
            heap_end: variables.heap_end(),
            waits: has_waits.then(|| kernel::waits(elf, choice.load_bias, arm)).flatten(),
            sleep_shift: sleeps_alike.then_some(loaded.icount_shift(options)),
            warnings: [&unwind.warnings[..], &kernel_warnings, &zones.warnings].concat(),
            functions,
            inlined_calls,
            unwind,
            kernel,
            executor,
            lives,
            zones,
            waiting: waiting::find(symbols, image, isa, choice.load_bias),
        })
    }
}

/// Reports limits that are known only after the run.
fn warn_of_run(plan: &Plan<'_>, outcome: &Outcome, listener: &mut dyn Listener) {
    if let Some(line) = sandbox::warning(plan.emulator, plan.options.sandbox) {
        listener.host(&format!("warning: {line}"));
    }
    if let Some(line) = tricks::warning(plan.emulator) {
        listener.host(&format!("warning: {line}"));
    }
    if let Some(line) = emulator::turns_warning(&outcome.qemu_version, &outcome.records.control) {
        listener.say(&format!("warning: {line}"));
    }
    if let Some(line) = emulator::sharing_note(&outcome.qemu_version, &outcome.records.control) {
        listener.host(&format!("note: {line}"));
    }
    if plan.cycled.pace.is_some() && outcome.records.control.get(Word::Paced) == 0 {
        let why = "the clock goes by instructions, not by cycles: QEMU's is not where it is expected, or there are several CPUs";
        listener.say(&format!("warning: {why}"));
    }
    if let Some(why) = &outcome.unread_memory {
        listener.say(&format!("warning: {}", describe_unread(why, plan.choice)));
    }
}

/// Adds the data that only the options ask for: the chip, the timeline's functions, spans, slices and the console.
fn complete(
    profile: &mut Profile,
    plan: &Plan<'_>,
    named: Named,
    symbols: &Symbols<'_>,
    workspace: &Workspace,
) -> Result<()> {
    let options = plan.options;
    if let Some(chip) = plan.chip {
        profile.facts.chip = Some(chip_facts(chip, plan, workspace)?);
    }
    if let (Some(kept), Some(patterns)) = (&mut profile.timeline, &options.timeline) {
        kept.patterns = patterns.clone();
        kept.functions = named.traced;
        kept.objects = trace_patterns::objects(kept, symbols);
        kept.check(profile.vcpus.len(), profile.tasks.len()).context("cannot use the plugin's records")?;
    }
    profile.facts.generic_spans = named.generic_spans;
    // The time from a jump into a part until its function returns is not that of a call.
    let parts = ColdParts::of(profile);
    profile.spans.retain(|span| !matches!(span.kind, SpanKind::Call { entry } if parts.contains(entry)));
    profile.parts.slice_insns = options.slice.map(|length| length.insns(plan.icount_shift));
    if matches!(profile.facts.end, profile::End::EndlessLoop { .. }) {
        profile.facts.last_line = last_line(&workspace.console());
    }
    if options.console_marks {
        let bytes = fs::metadata(workspace.console()).map_or(0, |metadata| metadata.len());
        profile.console_marks.push((profile.total_insns(), bytes));
    }
    Ok(())
}

/// Most bytes at the end of the output in which its last line is looked for.
const LAST_LINE_BYTES: u64 = 200;

/// Last line of a file, as far as it is short text that is not blank.
fn last_line(file: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let (mut file, mut bytes) = (fs::File::open(file)?, Vec::new());
        let start = file.metadata()?.len().saturating_sub(LAST_LINE_BYTES);
        file.seek(SeekFrom::Start(start))?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let lines = bytes.split(|&byte| byte == b'\n').rev().filter_map(|line| str::from_utf8(line).ok());
    lines.map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

/// Most chips that a hint names.
const MOST_CHIPS: usize = 6;

/// Suggests chips that have what the firmware misses, if it ends in a fault or polls a register. `is_learned`: its chip's
/// file was written by learning.
fn chip_hint(image: &Image, options: &Options, profile: &Profile, is_learned: bool) -> Option<String> {
    let firmware = quoted(&options.firmware.display().to_string());
    let is_lost = matches!(profile.facts.end, profile::End::Faulting { .. } | profile::End::LockUp { .. });
    if let Some(chip) = profile.facts.chip.as_ref().filter(|chip| chip.is_given()) {
        let register = profile.facts.only.standstill.as_ref().map(|still| &still.register);
        // A wild pointer leads to where no chip has anything.
        let absent = chip.absent.filter(|&absent| is_lost && missing_device::may_have_register(profile, absent));
        let what = match (register, absent) {
            (Some(poll), _) => {
                let at = describe::place(&profile.names, poll.pc);
                if !chip.unmodelled.iter().any(|row| row.address == poll.address) {
                    return Some(outside_hint(chip, poll, &at));
                }
                format!("{at} waits for {:#010x}, for which chip {} has no answer", poll.address, chip.name)
            }
            (None, Some(absent)) => format!("chip {} has nothing at {absent:#010x}", chip.name),
            (None, None) => return None,
        };
        let next = match is_learned {
            true => format!(
                "`harness chip learn {firmware}` looks for one again; if it finds none, what is outside of the chip would \
                 answer: --set and devices of a chip file bring it, --stub passes over the wait (docs/chips.md)"
            ),
            false => format!("`harness chip learn {firmware}` writes a chip file that has (docs/chips.md)"),
        };
        return Some(format!("note: {what}: {next}"));
    }
    let missing = missing_device::address(profile);
    if options.chip.is_some() || options.machine.is_some() || !is_lost && missing.is_none() {
        return None;
    }
    let chips = machine::chips_for(image);
    let file = options.symbols.as_deref().unwrap_or(&options.firmware);
    if let Some(hint) = bounded_read::read_named(file).ok().and_then(|bytes| hints::find(&bytes, &chips)) {
        let Hint { name, why } = hint;
        return Some(format!("note: it looks built for the chip {name}, {why}: `--chip {name}` runs it there"));
    }
    let suggestion = Suggestion::of(image, &chips, None);
    if let Some((names, Likelihood::Likely)) = suggestion.best() {
        let found = suggestion.rows.first().map_or(0, |row| row.peripherals);
        return Some(format!(
            "note: it is likely built for the chip {}, by the addresses of {found} peripherals in its code: `--chip {}` \
             runs it there, `harness chip suggest {firmware}` lists the chips",
            names.join(" or "),
            names[0]
        ));
    }
    // Nothing points to a chip but the address.
    let address = missing?;
    let learn = format!("`harness chip learn {firmware}` writes a chip file");
    let with = chip::built_in().iter().filter(|chip| chip.holds(address)).map(|chip| chip.name.as_str());
    let with: Vec<&str> = with.filter(|name| chips.contains(name)).collect();
    let at = Hex(address);
    match with[..] {
        [] if image.arch != Some(Arch::CortexM) => None,
        [] => Some(format!("note: if it was built for a real chip, {learn} for it (docs/chips.md)")),
        ref few if few.len() <= MOST_CHIPS => {
            let one = if few.len() > 1 { "one of " } else { "" };
            let names = few.join(", ");
            Some(format!(
                "note: if it was built for a real chip, --chip has what is at {at}: {one}{names}; for another chip, \
                 {learn} (docs/chips.md)"
            ))
        }
        ref many => Some(format!(
            "note: if it was built for a real chip, --chip has what is at {at}: {} chips of `harness list chips` do; for \
             another chip, {learn} (docs/chips.md)",
            many.len()
        )),
    }
}

/// Says what may answer firmware that waits at a place for a register that its chip's file models.
fn outside_hint(chip: &profile::Chip, poll: &OnlyPoll, at: &str) -> String {
    let is_serial = poll.device.as_ref().is_some_and(Device::is_serial);
    let typed = if is_serial { "--input TEXT or --input-after 'PROMPT:TEXT' types it, " } else { "" };
    format!(
        "note: {at} waits for {:#010x}, which chip {} models, so for what comes from outside: {typed}--set and devices \
         of a chip file bring it (docs/chips.md)",
        poll.address, chip.name
    )
}

/// Collects the profile's facts about the chip.
fn chip_facts(chip: &Chip, plan: &Plan<'_>, workspace: &Workspace) -> Result<profile::Chip> {
    let options = plan.options;
    let table =
        fs::read(workspace.records().join(wire::chip::FILE_NAME)).context("the plugin left no table of accesses")?;
    let mut rows = wire::chip::unmodelled(&table).context("cannot use the plugin's records")?;
    rows.sort_by_key(|row| (std::cmp::Reverse(row.reads + row.writes), row.address));
    let mut rules: Vec<profile::ChipRule> = Vec::new();
    rows.retain(|row| {
        let index = row.address.checked_sub(wire::chip::FIRST_RULE).and_then(|index| usize::try_from(index).ok());
        let rule = index.and_then(|index| chip.rules.get(index));
        rules.extend(rule.map(|rule| profile::ChipRule {
            what: rule.what.clone(),
            why: rule.why.clone(),
            place: rule.place.clone(),
            at_insns: rule.at_insns,
            is_guess: rule.is_guess,
            times: row.reads,
        }));
        rule.is_none()
    });
    rules.sort_by_key(|rule| (!rule.is_guess, rule.at_insns));
    let mut take = |address| rows.iter().position(|row| row.address == address).map(|at| rows.remove(at));
    let absent = take(wire::chip::ABSENT).map(|row| row.pc);
    let came = take(wire::chip::CAME).map_or(0, |row| row.reads);
    let bitten = take(wire::chip::BITES)
        .map(|row| (chip.wire.block_at(row.pc).map(|block| block.name.clone()).unwrap_or_default(), row.writes));
    let unmodelled = rows.into_iter().map(|row| profile::Unmodelled {
        name: match row.address {
            wire::chip::OTHERS => "others".to_owned(),
            address => chip.name_of(address).unwrap_or_default(),
        },
        address: row.address,
        pc: row.pc,
        reads: row.reads,
        writes: row.writes,
        is_new: chip.seen.as_ref().is_some_and(|seen| !seen.contains(&(row.address & !3))),
    });
    Ok(profile::Chip {
        name: chip.name.clone(),
        given: chip::shown(options.chip.as_deref().unwrap_or_default()),
        svd: options.svd.as_ref().map(|svd| svd.file_name().unwrap_or_default().to_string_lossy().into_owned()),
        sha256: chip.sha256.clone(),
        differs: chip.differs.clone(),
        unmodelled: unmodelled.collect(),
        // Those of an addition are not kept.
        accesses: if chip.wire.is_addition { Vec::new() } else { accesses(chip, workspace)? },
        bitten,
        rules,
        absent,
        ports: chip
            .wire
            .blocks
            .iter()
            .filter(|block| !block.pins.is_empty() || !block.cans.is_empty())
            .map(|block| (block.start, block.name.clone()))
            .collect(),
        missed: chip.missed(came, plan.icount_shift.into()) as u64,
    })
}

/// Accesses of the chip's registers, by register and instruction.
fn accesses(chip: &Chip, workspace: &Workspace) -> Result<Vec<profile::Access>> {
    let table =
        fs::read(workspace.records().join(wire::chip::ACCESSES)).context("the plugin left no table of accesses")?;
    let rows = wire::chip::accesses(&table).context("cannot use the plugin's records")?;
    let access = |row: wire::chip::Access| {
        let (address, bits) = match row.address {
            wire::chip::OTHERS => (row.address, 0),
            address => chip.reached(address, row.ending_bits as u32),
        };
        profile::Access {
            name: match address {
                wire::chip::OTHERS => "others".to_owned(),
                address => chip.register_name(address).unwrap_or_default(),
            },
            address,
            pc: row.pc,
            reads: row.reads,
            writes: row.writes,
            first_insns: row.first_insns,
            last_insns: row.last_insns,
            polls: row.polls,
            poll_insns: row.poll_insns,
            ended_by: chip.bit_names(address, bits),
        }
    };
    let mut accesses: Vec<profile::Access> = rows.into_iter().map(access).collect();
    accesses.sort_by_key(|access| (access.address, access.pc, access.first_insns));
    Ok(accesses)
}

/// Describes which memory the plugin reads if QEMU does not report the machine's memory.
fn describe_unread(why: &Unread, choice: &Choice) -> String {
    let known = if choice.machine.memory.is_empty() {
        "where the image itself lies"
    } else {
        "where the table of machines has memory"
    };
    format!(
        "QEMU's memory tree ({}) cannot be read, {why}: call stacks and semihosting's arguments are only followed \
         {known}",
        memory::QUESTION
    )
}

/// Spans with several start or end functions. The plugin names spans by their first addresses.
///
/// # Errors
/// When two different spans have the same first addresses.
fn generic_spans(asked: &[(String, String)], spans: &[(Vec<u64>, Vec<u64>)]) -> Result<Vec<GenericSpan>, InputError> {
    for (index, (from, until)) in spans.iter().enumerate() {
        let is_alike = |other: &&(Vec<u64>, Vec<u64>)| (other.0[0], other.1[0]) == (from[0], until[0]);
        if spans[..index].iter().find(is_alike).is_some_and(|other| other != &spans[index]) {
            let (from, until) = &asked[index];
            return Err(InputError::new(format!(
                "--span {from}..{until}: another --span already measures the same functions; give this one in a \
                 run of its own"
            )));
        }
    }
    let named = asked.iter().zip(spans).filter(|(_, (from, until))| from.len() > 1 || until.len() > 1);
    let named = named.map(|((from, until), (begin, end))| GenericSpan {
        from: begin[0],
        until: end[0],
        name: format!("{from}..{until}"),
    });
    Ok(named.collect())
}

/// Reports the chosen machine and the runners-up.
fn explain_choice(choice: &Choice, image: &Image, listener: &mut dyn Listener) {
    listener.choice(&format!("machine: {}, {}", choice.machine.title(), choice.because));
    image.found.iter().for_each(|line| listener.choice(&format!("image: {line}")));
    for (title, reason) in &choice.runners_up {
        listener.runner_up(&format!("  not {title}: {reason}"));
    }
}

/// Whether the image's RISC-V attributes name an extension with 16-bit instructions.
fn has_compressed(image: &Image) -> bool {
    let extensions = image.needs.riscv.as_deref().map(machine::riscv_extensions).unwrap_or_default();
    extensions.iter().any(|extension| extension == "c" || extension == "zca")
}

/// Number of executed `wfi` instructions, plus the number of sleeps at `wfe`.
fn waits(plan: &Plan<'_>, records: &Records) -> u64 {
    let Ok(isa) = plan.choice.machine.isa.parse() else { return 0 };
    let is_wait = |pc: u64| {
        let code = plan.image.code_at(pc.wrapping_sub(plan.choice.load_bias));
        code.is_some_and(|code| decode::is_wfi(isa, code))
    };
    let insns = records.vcpus.iter().flat_map(|vcpu| &vcpu.insns);
    insns.filter(|insn| is_wait(insn.pc)).map(|insn| insn.count).sum::<u64>() + records.sleeps
}

/// Code of all functions, and of executed instructions outside of them. Data among the code are left out, except that
/// an executed address is code even if the symbol table says otherwise.
fn code(plan: &Plan<'_>, symbols: &Symbols<'_>, records: &Records) -> Vec<Code> {
    let mut ranges = without(&symbols.ranges(), symbols.data());
    let insns = records.vcpus.iter().flat_map(|vcpu| &vcpu.insns);
    ranges.extend(insns.map(|insn| insn.pc..insn.pc.saturating_add(insn.size_bytes.into())));
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
    let bias = plan.choice.load_bias;
    let mut code: Vec<Code> = Vec::new();
    for range in ranges {
        for (start, bytes) in plan.image.bytes_in(range.start.wrapping_sub(bias)..range.end.wrapping_sub(bias)) {
            code.push(Code { start: start.wrapping_add(bias), bytes: bytes.to_vec() });
        }
    }
    code
}

/// Tables of the jumps that executed, as far as the image tells them.
fn jump_tables(
    profile: &Profile,
    image: &Image,
    symbols: &Symbols<'_>,
    symbol_file: Option<&[u8]>,
) -> Vec<JumpTable> {
    let Some(isa) = profile.facts.isa() else { return Vec::new() };
    let is_jump = |pc: u64| {
        let flow = profile.code_at(pc).map(|code| decode::decode(isa, pc, code).flow);
        matches!(flow, Some(Flow::IndirectJump { .. } | Flow::ComputedJump))
    };
    let insns = profile.vcpus.iter().flat_map(|vcpu| &vcpu.insns).filter(|insn| insn.count > 0);
    let sites: BTreeSet<u64> = insns.map(|insn| insn.pc).filter(|&pc| is_jump(pc)).collect();
    let (functions, load_bias) = (symbols.ranges(), profile.facts.load_bias);
    let tables = unwind::jump_tables(symbol_file, isa, &image.segments, load_bias, &functions, &sites);
    tables.into_iter().map(|(site, targets)| JumpTable { site, targets }).collect()
}

/// Parts of sorted ranges that lie outside of all other ranges, which are sorted, too.
fn without(ranges: &[Range<u64>], others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    for range in ranges {
        let mut start = range.start;
        let first = others.partition_point(|other| other.end <= range.start);
        for other in others[first..].iter().take_while(|other| other.start < range.end) {
            if other.start > start {
                left.push(start..other.start);
            }
            start = start.max(other.end);
        }
        if start < range.end {
            left.push(start..range.end);
        }
    }
    left
}

/// Number of texts whose typing has begun, by the number of bytes that the machine took.
fn begun(inputs: &[Input], mut taken_bytes: u64) -> u64 {
    let is_begun = |input: &&Input| {
        let begun = taken_bytes > 0 && !input.typed().is_empty();
        taken_bytes = taken_bytes.saturating_sub(input.typed().len() as u64);
        begun
    };
    inputs.iter().filter(|input| input.is_step()).take_while(is_begun).count() as u64
}

/// Time that the machine slept, if it is the same in every run of this version of QEMU. Otherwise that of no task is known.
fn asleep(records: &mut Records, qemu_version: &str) -> Option<u64> {
    let slept_ns = records.slept_ns.filter(|_| emulator::sleeps_alike_in(qemu_version));
    if slept_ns.is_none() {
        records.tasks.iter_mut().for_each(|task| task.slept_ns = 0);
    }
    slept_ns
}

/// Assembles the saved profile.
fn profile(
    plan: &Plan<'_>,
    Named { allocators, .. }: &Named,
    kernel: Option<&wire::request::Kernel>,
    symbols: &Symbols<'_>,
    symbol_file: Option<&[u8]>,
    outcome: Outcome,
) -> (Profile, Vec<String>) {
    let Outcome { qemu_version, mut records, end, only, polls, in_target, unread_memory: _, read_bytes } = outcome;
    let slept_ns = asleep(&mut records, &qemu_version);
    let half = std::mem::take(&mut records.half);
    let waits = waits(plan, &records);
    let (names, warnings) = symbols.names(&named_addresses(&records));
    let code = code(plan, symbols, &records);
    let Plan { image, choice, options, .. } = plan;
    let facts = Facts {
        harness_version: env!("CARGO_PKG_VERSION").to_owned(),
        image_name: image.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        image_sha256: image.sha256.clone(),
        symbols_sha256: options.symbols.as_ref().and(symbol_file).map(crate::image::sha256_hex),
        qemu_version,
        tricks: tricks::told(plan.emulator).tricks,
        machine: choice.machine.name.clone().into_owned(),
        chip: None,
        cpu: choice.cpu.clone(),
        isa: choice.machine.isa.to_owned(),
        icount_shift: plan.icount_shift,
        load_addr: options.load_addr,
        load_bias: choice.load_bias,
        entry: choice.entry,
        task_begins: kernel.map(|kernel| kernel.begins.clone()).unwrap_or_default(),
        vectors: choice.vectors,
        qemu_args: options.all_qemu_args(),
        firmware_args: options.firmware_args.clone(),
        semihosting: options.semihosting.other_than_usual(),
        stubs: plan.stubs.to_vec(),
        period_insns: options.period_insns,
        jitter_seed: options.jitter_seed,
        bin_bytes: options.bin_bytes,
        window: options.window.clone(),
        generic_spans: Vec::new(),
        before_window_insns: records.before_window_insns,
        input: options.input.clone(),
        input_bytes: records.control.get(Word::InputBytes).max(read_bytes),
        input_begun: records.control.get(Word::InputBegun).max(begun(&options.input, read_bytes)),
        end,
        last_line: String::new(),
        only,
        max_depth: options.max_depth,
        waits,
        slept_insns: records.slept_insns,
        slept_ns,
        waiting: profile::Waiting {
            called_insns: records.waiting_insns,
            unsure: records.waiting_unsure,
            ..profile::Waiting::default()
        },
        unseen_switches: records.control.get(Word::UnseenSwitches),
        resynchronised: records.control.get(Word::Resynchronised),
        unresolved_transfers: records.control.get(Word::Unresolved),
        interrupted_transfers: records.control.get(Word::Interrupted),
        main_stack_lowest: records.main_stack_lowest,
        stack_left: records.stack_left.take().map(|left| named_stack(left, image, choice.load_bias, symbol_file)),
        exception_levels: records.exception_levels.clone(),
        sizes: symbol_file.filter(|_| image.format == Format::Elf).map(|elf| size::totals(elf, image, choice)),
    };
    if let Some(followed) = &mut records.heap {
        followed.functions = allocators.iter().map(|allocator| allocator.entry).collect();
        followed.rules = options.heap.iter().flat_map(|wanted| &wanted.rules).map(Rule::as_typed).collect();
        followed.arena = heap::arena(symbols);
    }
    let before_window = std::mem::take(&mut records.before_window);
    let (end_pc, stores) = (records.control.get(Word::EndPc), std::mem::take(&mut records.stores));
    let (slower, cycle_clock) = (std::mem::take(&mut records.slower), records.cycle_clock);
    let clock_hz = plan.cycled.pace.map(|pace| pace.hz).filter(|_| records.control.get(Word::Paced) == 1);
    let mut profile = records.into_profile(facts, names, code, in_target);
    profile.tables = jump_tables(&profile, image, symbols, symbol_file);
    profile.cycles =
        cycles_of(&profile, plan, &slower).map(|cycles| profile::Cycles { clock: cycle_clock, clock_hz, ..cycles });
    judge(&mut profile, &half, &Accesses { polls: &polls, stores: &stores }, (plan.choice.entry, end_pc));
    if let Some(Cut { stacks, samples }) = stack_proof::cut(&profile) {
        profile.stacks = stacks;
        profile.samples.iter_mut().zip(samples).for_each(|(sample, stack)| sample.stack = stack);
    }
    close_calls(&mut profile, plan, &before_window);
    (profile, warnings)
}

/// Addresses whose places the profile needs: of executed instructions, of stacks, and of inlined calls; sorted.
fn named_addresses(records: &Records) -> Vec<u64> {
    let mut named: BTreeSet<u64> = records.vcpus.iter().flat_map(|vcpu| &vcpu.insns).map(|insn| insn.pc).collect();
    for frame in &records.stacks {
        match frame.kind {
            FrameKind::Caller { return_addr } => named.insert(return_addr.wrapping_sub(1)),
            FrameKind::Exception { pc, .. } => named.insert(pc),
            FrameKind::Unknown(_) => false,
        };
    }
    named.extend(records.tree.iter().filter_map(|node| node.via));
    named.into_iter().collect()
}

/// Names the stack that was left, and what it has come to.
fn named_stack(left: StackLeft, image: &Image, load_bias: u64, symbol_file: Option<&[u8]>) -> StackLeft {
    let StackLeft { overflow, low, mut bytes, .. } = left;
    let Some(file) = symbol_file.and_then(|elf| object::File::parse(elf).ok()) else { return left };
    let variables = Variables::read(&file, load_bias);
    let stack = variables.stack_at(low).filter(|_| !left.is_heap);
    // Without all frames, the room is that of the outermost known one.
    let variable = stack.filter(|_| bytes.is_some()).map(|(range, name)| {
        bytes = Some(range.end - range.start);
        name
    });
    let top = image.initial_sp().map(|sp| (sp & !3).wrapping_add(load_bias));
    let is_its = |top: &u64| bytes.is_some_and(|bytes| top.checked_sub(low).is_some_and(|size| size >= bytes));
    if let (None, Some(top)) = (&variable, top.filter(is_its)) {
        bytes = Some(top - low);
    }
    let reached = if left.is_heap { left.reached.clone() } else { variables.reached(low, overflow.sp) };
    StackLeft { bytes, variable, reached, ..left }
}

/// Judges a run that ended well so far: by the executions of its entry, the loop at its end, and the counts of the window's
/// second half.
fn judge(profile: &mut Profile, half: &[profile::VcpuCounts], accesses: &Accesses<'_>, (entry, end_pc): (u64, u64)) {
    let end = overflow::find(profile).or_else(|| restarts::find(profile, entry));
    if let Some(end) = end.or_else(|| dead_loop::find(profile, end_pc)) {
        profile.facts.end = end;
        return;
    }
    match standstill::find(profile, half, accesses) {
        Some(Found::Polls(standstill)) => profile.facts.only.standstill = Some(standstill),
        Some(Found::Endless { pc, call }) => profile.facts.end = profile::End::EndlessLoop { pc, call },
        None => {}
    }
}

/// Cycles of each instruction, if asked for; `slower`: those beyond the usual ones.
fn cycles_of(profile: &Profile, plan: &Plan<'_>, slower: &BTreeMap<u64, Beyond>) -> Option<profile::Cycles> {
    let isa = plan.choice.machine.isa.parse::<decode::Isa>().ok().filter(|_| plan.options.cycles.is_some())?;
    let code_at = |pc: u64| plan.image.code_at(pc.wrapping_sub(plan.choice.load_bias));
    let insns = profile.insns();
    let counted = match &plan.cycled.core {
        Some(core) => cycles::of_core(core, &insns, slower, code_at),
        None => cycles::count(isa, &insns, slower, code_at),
    };
    Some(counted)
}

/// Adds two facts to the in-target table: the runtime's return instructions, and its calls that were open when the
/// window opened.
fn close_calls(profile: &mut Profile, plan: &Plan<'_>, before_window: &BTreeMap<u64, u64>) {
    let (Some(table), Ok(isa)) =
        (profile.in_target.as_ref().and_then(InTarget::table), plan.choice.machine.isa.parse())
    else {
        return;
    };
    let mut returns = in_target::returning(profile, table);
    returns.retain(|&pc| {
        let code = plan.image.code_at(pc.wrapping_sub(plan.choice.load_bias));
        code.is_some_and(|code| decode::decode(isa, pc, code).flow == Flow::Return)
    });
    if let Some(InTarget::Table(table)) = &mut profile.in_target {
        let before = |pc: &u64| before_window.get(pc).copied().unwrap_or(0);
        let came_back: u64 = returns.iter().map(before).sum();
        table.inside_at_open = before(&table.entry_point).saturating_sub(came_back);
        table.returns = returns.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn data_among_the_code_is_cut_out_of_it() {
        let code = [0..10, 10..20, 30..40];
        assert_eq!(without(&code, &[]), code);
        assert_eq!(without(&code, &[4..6, 8..12, 15..31, 39..50]), [0..4, 6..8, 12..15, 31..39]);
        assert_eq!(without(&code, &[0..5, 5..40]), []);
    }
}
