// SPDX-License-Identifier: MIT OR Apache-2.0
//! Learns a chip from firmware by short runs, each of which ends at something that the chip lacks.
//!
//! A run executes the same instructions as the run before it, up to that run's end. Then it goes on, because the chip
//! file has one more row. So every decision depends only on the image and on the rows before it, and learning again
//! makes the same file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use decode::Isa;
use wire::chip::{ABSENT, ENABLED, FIRST_RULE, MAX_RULES, POLLED, Polled, STORED};
use wire::control::Word;
use wire::request::Lives;
use wire::trick::DEVICES;

use crate::chip::Chip;
use crate::chip::cycled::Cycled;
use crate::chip::hints::{self, Hint};
use crate::chip::learn::{self, Draft, Learned, LearnedCount, LearnedPulse, Verdict, Wanted};
use crate::chip::svd::Svd;
use crate::error::{EmulatorError, InputError};
use crate::exit_code::CutShort;
pub use crate::exit_code::GivenUp;
use crate::image::symbols::{Symbols, demangle};
use crate::image::unwind;
use crate::image::waiting;
use crate::image::zone;
use crate::image::{self, Image, Opened, bounded_read};
use crate::machine;
use crate::measure::Listener;
use crate::profile::{End, Window};
use crate::run::qemu::emulator;
use crate::run::qemu::tricks;
use crate::run::request::options::Options;
use crate::run::request::plan::{Measurement, Plan};
use crate::run::store::deadline::Deadline;
use crate::run::store::directory::write_file;
use crate::run::store::staging::Making;
use crate::run::store::workspace::Workspace;
use crate::run::watch::execution::Outcome;
use crate::text::number::plural;

/// Prefix of the name of the directory in which the runs work.
const WORKSHOP: &str = ".harness-learn-";

/// Maximum number of runs; each answers one question.
const MAX_RUNS: u32 = 400;

/// Number of equal reads of a register by one instruction at which a run ends.
const POLL_LIMIT: u32 = 16;

/// Length of a short run, in instructions. Whole runs follow when a short run lacks nothing more.
const SHORT_INSNS: u64 = 3_000_000;

/// Factor by which a run is longer in which the firmware waits for a time: most delays end within it.
const PATIENCE: u64 = 8;

/// Instructions from one pulse of an interrupt to the next.
const PULSE_INSNS: u64 = 20_000;

/// Instructions from one value of a counting register to the next. The rate of the register's clock is not known; at
/// this rate, waits of a second end within a run.
const COUNT_INSNS: u64 = 8;

/// Maximum distance, in instructions, between the polls of two registers by one loop.
const NEAR_INSNS: u64 = 10_000;

/// Maximum number of registers that are tried as the time when firmware waits.
const MAX_TIMES: usize = 4;

/// Minimum number of functions that a loop passes to count as work, if it is not in `main` itself: a loop that waits
/// passes fewer.
const LOOP_FUNCTIONS: usize = 3;

/// Numbers of the first interrupt's vector, of SysTick's, and of the last fault's.
const FIRST_INTERRUPT: usize = 16;
const SYSTICK: usize = 15;
const LAST_FAULT: usize = 6;

/// Maximum number of vectors that are read from the table.
const MAX_VECTORS: usize = FIRST_INTERRUPT + 240;

/// Maximum number of instructions in a loop that waits for an interrupt, including those of a tick.
const MAX_LOOP: usize = 256;

/// Minimum number of calls of a handler that ticks.
const TICKS: u64 = 2;

/// Most rows that the answer to one question adds to a chip file.
const ROWS_OF_AN_ANSWER: usize = 2;

/// Result of learning.
#[derive(Debug)]
pub struct Lesson {
    /// The chip file.
    pub draft: Draft,
    /// Number of runs.
    pub runs: u32,
    /// Whether `main` was reached; None: the image names none.
    pub main: Option<bool>,
    /// Interrupt handlers that were entered twice or more.
    pub ticks: Vec<String>,
    /// Whether the second half of the last run passed a loop at least twice: a loop in `main`, or one through several
    /// functions.
    pub loops: bool,
    /// Functions that were entered.
    pub functions: usize,
    /// The last run's end.
    pub end: End,
    /// Sentences about the places that still wait, the parts that are missing, and a bad end.
    pub left: Vec<String>,
    /// Whether `--timeout` ended it before the firmware lacked nothing more.
    pub is_cut: bool,
}

/// A run that has ended.
#[derive(Clone)]
struct Ended {
    polled: Option<Polled>,
    end: End,
    /// Executions of each instruction.
    executed: BTreeMap<u64, u64>,
    /// First address that was accessed and has nothing behind it.
    absent: Option<u64>,
    /// Number of reads of each register that was accessed.
    seen: BTreeMap<u64, u64>,
    /// Executions of each instruction in the window's second half; None: the run ended before its window did.
    late: Option<BTreeMap<u64, u64>>,
    /// Interrupt lines that the firmware has enabled.
    enabled: Vec<u32>,
    /// Handler that was never left, so that only it executed up to the end.
    handler: Option<u64>,
    insns: u64,
    /// Whether the firmware faulted by fetching an instruction where there is none.
    is_fetch: bool,
    /// Whether the access to the first absent address was a store.
    is_store: bool,
    /// Words of flash, by address, that the firmware stored to.
    stored: Vec<(u32, u32)>,
}

/// Settings and results of all runs.
struct Teacher<'a> {
    image: &'a Image,
    options: Options,
    emulator: PathBuf,
    root: Making,
    /// Names of functions by first address.
    functions: BTreeMap<u64, String>,
    runs: u32,
    passed: BTreeSet<u64>,
    left: Vec<String>,
    /// Length of a whole run, in instructions.
    whole: Option<u64>,
    /// The last run with all that had been learned, and no more.
    last: Option<Ended>,
    /// Time at which learning ends.
    until: Option<Instant>,
}

/// Learns a chip from the firmware that the options name.
///
/// # Errors
/// If the image cannot be read, its chip cannot be learned, or QEMU cannot run it.
pub fn learn(options: &Options, listener: &mut dyn Listener) -> Result<Lesson> {
    let image = Image::open(&options.firmware, &options.load())?;
    let about = |reason: String| InputError::about(&options.firmware, reason);
    let svd = options.svd.as_deref().map(Svd::open).transpose()?;
    let mut draft = Draft::of(&image, svd).map_err(about)?;
    let choice = machine::choose_chip(&image, &draft.chip()?)?;
    let emulator = emulator::locate(choice.machine.qemu)?;
    tricks::need(&emulator, &DEVICES, "chip learn")?;
    let root = Making::begin(&std::env::temp_dir(), WORKSHOP, |_| ());
    let root = root.map_err(|error| InputError::new(format!("no directory for the runs: {error}")))?;
    let mut teacher = Teacher {
        functions: functions(&image)?,
        image: &image,
        options: short(options),
        emulator,
        root,
        runs: 0,
        passed: BTreeSet::new(),
        left: Vec::new(),
        whole: options.window.for_insns,
        last: None,
        until: options.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
    };
    let taught = teacher.teach(&mut draft, listener);
    let is_cut = taught.is_err();
    let last = taught.or_else(|error| teacher.keep_work(error))?;
    draft.seen = last.seen.keys().copied().collect();
    teacher.say_end(&last);
    let loops = teacher.loops(&draft, &last);
    let entered = teacher.entered(&last.executed);
    let Teacher { functions, runs, left, .. } = teacher;
    let count = |address: u64| last.executed.get(&address).copied().unwrap_or(0);
    let main = functions.iter().find(|(_, name)| *name == "main").map(|(&address, _)| count(address) > 0);
    let mut ticks: Vec<String> = ticking(&image, draft.vectors(), &last)
        .into_iter()
        .map(|address| functions.get(&address).cloned().unwrap_or_else(|| format!("{address:#x}")))
        .collect();
    ticks.dedup();
    Ok(Lesson { draft, runs, main, ticks, loops, functions: entered.len(), end: last.end, left, is_cut })
}

/// Options of a run that only learns: without the settings of a profile.
fn short(options: &Options) -> Options {
    Options {
        window: Window { for_insns: options.window.for_insns, ..Window::default() },
        exact: false,
        branches: false,
        cycles: None,
        spans: Vec::new(),
        zone_calls: Vec::new(),
        heap: None,
        timeline: None,
        slice: None,
        max_depth: None,
        stubs: Vec::new(),
        jitter_seed: None,
        console_marks: false,
        oracle: false,
        machine: None,
        cpu: None,
        ..options.clone()
    }
}

/// The chip file of `--chip auto`, in the current directory. The file is kept, so that users can edit it.
pub fn file_of(options: &Options) -> PathBuf {
    PathBuf::from(format!("{}.chip.toml", image::stem(&options.firmware)))
}

/// Learns a chip and writes its file.
///
/// # Errors
/// Same as [`learn`]; also when the file cannot be written, and [`CutShort`] if `--timeout` ends learning.
fn learn_to(file: &Path, options: &Options, listener: &mut dyn Listener) -> Result<Lesson> {
    let lesson = learn(options, listener)?;
    let text = lesson.draft.text();
    let write = |file: &Path| write_file(file, |out| Ok(out.write_all(text.as_bytes())?));
    if lesson.is_cut {
        // The next run would take `file` for a whole one.
        let partial = partial_file(file);
        write(&partial)?;
        return Err(CutShort { runs: lesson.runs, file: partial }.into());
    }
    write(file)?;
    Ok(lesson)
}

/// The chip file of what was learned until `--timeout`: beside `file`, which only a whole one is.
fn partial_file(file: &Path) -> PathBuf {
    file.with_extension("partial.toml")
}

/// Value of `--chip` for which harness finds or learns the chip.
pub const AUTO: &str = "auto";

/// Instructions of each learning run for `--chip auto`.
const AUTO_INSNS: u64 = 20_000_000;

/// Settles `--chip auto`: takes the one built-in chip that the image is for, or the chip file learned from the image,
/// which is learned once and written to `file`. Without `--chip`, `--no-chip` and `--machine` the family of a UF2 file chooses the
/// chip.
///
/// # Errors
/// Same as [`learn`]; also when the file cannot be written, and [`CutShort`] if `--timeout` ends learning.
pub fn settle(options: &mut Options, file: &Path, deadline: &Deadline, listener: &mut dyn Listener) -> Result<()> {
    let is_auto = options.chip.as_deref() == Some(AUTO);
    let is_plain = options.chip.is_none() && options.machine.is_none() && !options.no_chip;
    let is_asked = is_auto || is_plain && image::is_uf2(&options.firmware);
    if !is_asked {
        return Ok(());
    }
    if let Some(Hint { name, why }) = known(options)? {
        let asked = if is_auto { " (--chip auto)" } else { "" };
        listener.choice(&format!("chip: {name}, {why}{asked}"));
        options.chip = Some(name.to_owned());
        return Ok(());
    }
    if !is_auto {
        return Ok(());
    }
    if file.exists() {
        listener.choice(&format!("chip: {}, learned before (--chip auto; remove it to learn anew)", file.display()));
    } else if options.is_bounded {
        let what = "no chip that harness knows is its, and an untrusted suite writes no chip file: commit the one of \
                    `harness chip learn` and name it";
        return Err(InputError::about(&options.firmware, what).into());
    } else {
        let short =
            Options { window: Window { for_insns: Some(AUTO_INSNS), ..Window::default() }, ..options.clone() };
        let lesson = deadline.learning(|| learn_to(file, &short, listener))?;
        describe(&lesson).iter().for_each(|line| listener.choice(line));
        listener.choice(&format!("chip: {}, learned now (--chip auto)", file.display()));
    }
    // The leading `.` makes it a path, which cannot be taken for the name of a built-in chip.
    options.chip = Some(Path::new(".").join(file).display().to_string());
    Ok(())
}

/// The one built-in chip that has memory for the image and to which the image's file points, also by its UF2 family.
/// None: no chip is, or several are.
///
/// # Errors
/// When the image cannot be read.
pub fn known(options: &Options) -> Result<Option<Hint>, InputError> {
    let opened = Opened::open(&options.firmware, &options.load())?;
    Ok(hint(&opened.image, opened.naming_file(), &machine::chips_for(&opened.image)))
}

/// The chip as [`known`] has it, of an image that was read, among the chips that have memory for it; `file`: the content of
/// the file that names it.
pub fn hint(image: &Image, file: &[u8], fit: &[&'static str]) -> Option<Hint> {
    let of_family = image.family.and_then(|family| Some((family, hints::find(family.name()?.as_bytes(), fit)?)));
    match of_family {
        Some((family, Hint { name, .. })) => Some(Hint { name, why: format!("as its UF2 file is for {family}") }),
        None => hints::find(file, fit),
    }
}

/// Number of rows that are guesses.
pub fn guesses(draft: &Draft) -> usize {
    draft.answers.iter().filter(|answer| answer.is_guess).count() + draft.pulses.len() + draft.counts.len()
}

/// Lines about what was learned and what the chip still lacks.
pub fn describe(lesson: &Lesson) -> Vec<String> {
    let Lesson { draft, runs, main, ticks, loops, functions, left, .. } = lesson;
    let guesses = guesses(draft);
    let main = match main {
        Some(true) => "main is reached",
        Some(false) => "main is not reached",
        None => "the image names no main",
    };
    let ticks =
        if ticks.is_empty() { "no interrupt ticks".to_owned() } else { format!("{} ticks", ticks.join(", ")) };
    let loops = if *loops { ", a loop is passed again and again" } else { "" };
    let mut lines = vec![format!(
        "{}, {} and {} in {}, {} of these guesses; {main}, {ticks}{loops}, {} executed",
        plural(draft.answers.len() as u64, "answer"),
        plural(draft.counts.len() as u64, "counter"),
        plural(draft.pulses.len() as u64, "interrupt"),
        plural((*runs).into(), "run"),
        guesses,
        plural(*functions as u64, "function"),
    )];
    lines.extend(left.iter().map(|line| format!("left: {line}")));
    lines
}

/// Names of functions by first address.
fn functions(image: &Image) -> Result<BTreeMap<u64, String>, InputError> {
    let Some(path) = &image.symbols_from else { return Ok(BTreeMap::new()) };
    let bytes = bounded_read::read_named(path)?;
    let symbols = Symbols::new(Some(&bytes), 0, true);
    let mut functions: BTreeMap<u64, String> = BTreeMap::new();
    for (name, address) in symbols.entries() {
        let name = demangle(name).into_owned();
        // Of several names, `main` is kept, since readers look for it; otherwise the first in order.
        let known = functions.entry(address).or_insert_with(|| name.clone());
        if name == "main" || (*known != "main" && name < *known) {
            *known = name;
        }
    }
    Ok(functions)
}

/// Handlers of the vector table at an address: number and first address of each.
fn vectors(image: &Image, table: u64) -> Vec<(usize, u64)> {
    let code = |address: u64| image.code_at(address & !1).is_some() && address & 1 != 0;
    (1..MAX_VECTORS)
        .map_while(|vector| Some((vector, u64::from(image.loaded_u32(table + 4 * vector as u64)?))))
        .take_while(|&(vector, address)| vector < FIRST_INTERRUPT || address == 0 || code(address))
        .filter(|&(_, address)| code(address))
        .map(|(vector, address)| (vector, address & !1))
        .collect()
}

/// Handlers of the vector table at an address, without those that several exceptions share.
fn handlers(image: &Image, table: u64) -> Vec<(usize, u64)> {
    let vectors = vectors(image, table);
    let mut uses: BTreeMap<u64, u32> = BTreeMap::new();
    vectors.iter().for_each(|(_, address)| *uses.entry(*address).or_default() += 1);
    vectors.into_iter().filter(|(_, address)| uses[address] == 1).collect()
}

/// Handlers of interrupts that were entered twice or more. One that several exceptions share counts unless a fault may have
/// led there, or it goes round by itself: then it is the default handler.
fn ticking(image: &Image, table: u64, last: &Ended) -> BTreeSet<u64> {
    let count = |address: u64| last.executed.get(&address).copied().unwrap_or(0);
    let own: BTreeSet<u64> = handlers(image, table).into_iter().map(|(_, address)| address).collect();
    let vectors = vectors(image, table);
    let is_interrupt = |vector: usize| vector == SYSTICK || vector >= FIRST_INTERRUPT;
    let faults: BTreeSet<u64> =
        vectors.iter().filter(|(vector, _)| *vector <= LAST_FAULT).map(|&(_, address)| address).collect();
    let is_loop = |address: u64| {
        let late = last.late.iter().flatten().map(|(&pc, _)| pc);
        late.take(2).eq([address])
    };
    let ticks = |&(vector, address): &(usize, u64)| {
        let is_handler = own.contains(&address) || !faults.contains(&address) && !is_loop(address);
        is_interrupt(vector) && is_handler && count(address) >= TICKS
    };
    vectors.iter().filter(|entry| ticks(entry)).map(|&(_, address)| address).collect()
}

impl Teacher<'_> {
    /// Runs the firmware until it lacks nothing more that learning can give: first in short runs, then in whole ones, and
    /// in longer ones if it waits for a time that passes. Returns the last run.
    fn teach(&mut self, draft: &mut Draft, listener: &mut dyn Listener) -> Result<Ended> {
        if self.whole.is_none_or(|whole| whole > SHORT_INSNS) {
            self.options.window.for_insns = Some(SHORT_INSNS);
            self.go_on(draft, listener)?;
            self.options.window.for_insns = self.whole;
        }
        let (mut ended, mut reason) = self.go_on(draft, listener)?;
        if self.delays(draft, &ended) {
            let longer = self.whole.map(|whole| whole.saturating_mul(PATIENCE));
            self.options.window.for_insns = longer;
            let patient = self.run(draft)?;
            if patient.executed.len() > ended.executed.len() {
                (ended, reason) = self.go_on(draft, listener)?;
            }
        }
        self.left.extend(reason);
        Ok(ended)
    }

    /// The last run before `--timeout`: what was learned until then is kept. Another error stays one.
    fn keep_work(&mut self, error: anyhow::Error) -> Result<Ended> {
        if !matches!(error.downcast_ref::<GivenUp>(), Some(GivenUp(End::Timeout))) {
            return Err(error);
        }
        let last = self.last.take().ok_or(error)?;
        self.left.push(format!("--timeout ended it after {} runs; a longer one may learn more", self.runs));
        Ok(last)
    }

    /// Whether a whole run ends in a small loop while time passes for the firmware: a register counts, or a handler ticks. Time
    /// in which it sleeps takes no instructions.
    fn delays(&self, draft: &Draft, ended: &Ended) -> bool {
        let has_time = !draft.counts.is_empty() || !ticking(self.image, draft.vectors(), ended).is_empty();
        let is_loop = ended.late.as_ref().is_some_and(|late| (2..=MAX_LOOP).contains(&late.len()));
        has_time && is_loop && !self.sleeps(ended)
    }

    /// Runs the firmware in windows of one length until it lacks nothing more that learning can give. Returns the last
    /// run, and the reason why the firmware does not go on, if a reason is known.
    fn go_on(&mut self, draft: &mut Draft, listener: &mut dyn Listener) -> Result<(Ended, Option<String>)> {
        loop {
            let ended = self.run(draft)?;
            self.last = Some(ended.clone());
            let rows = draft.answers.len() + draft.pulses.len() + draft.counts.len();
            if rows + ROWS_OF_AN_ANSWER > MAX_RULES {
                let reason = format!("it has {rows} answers, counters and interrupts: a run can have {MAX_RULES}");
                return Ok((ended, Some(reason)));
            }
            if self.runs >= MAX_RUNS {
                return Ok((ended, Some(format!("it still lacked something after {MAX_RUNS} runs"))));
            }
            if let Some(polled) = &ended.polled {
                self.answer(draft, polled, &ended, listener)?;
                continue;
            }
            if matches!(ended.end, End::Reset { .. }) && draft.keep(&ended.stored) {
                listener.say("the firmware stores to flash and resets itself: these words are there from the start");
                continue;
            }
            if let Some(address) = ended.absent {
                let is_added = !ended.is_fetch && draft.add(address, ended.is_store);
                if is_added {
                    listener.say(&format!("{address:#010x} is accessed: something is there"));
                    continue;
                }
                let what = if ended.is_fetch { "executes code" } else { "accesses" };
                let reason = format!("it {what} at {address:#010x}, where a chip's memory cannot be guessed");
                return Ok((ended, Some(reason)));
            }
            if let Some(handler) = ended.handler {
                let place = self.place(handler);
                let reason =
                    format!("the exception handler {place} does not return: --chip with this file says which");
                return Ok((ended, Some(reason)));
            }
            let Some(pc) = self.waits(draft, &ended) else { return Ok((ended, None)) };
            if !self.interrupt(draft, &ended, pc, listener)? && !self.time(draft, &ended, pc, listener)? {
                let reason = self.reason(&ended, pc);
                return Ok((ended, reason));
            }
        }
    }

    /// Functions that were entered. In an image without symbols: executed targets of executed calls.
    fn entered(&self, executed: &BTreeMap<u64, u64>) -> BTreeSet<u64> {
        if !self.functions.is_empty() {
            return self.functions.keys().copied().filter(|address| executed.contains_key(address)).collect();
        }
        let called = executed.keys().filter_map(|&pc| {
            let code = self.image.code_at(pc)?;
            match decode::decode(Isa::ThumbV7m, pc, code).flow {
                decode::Flow::Call { target } => Some(target & !1),
                _ => None,
            }
        });
        called.filter(|target| executed.contains_key(target)).collect()
    }

    /// Whether the second half of a run passed a loop at least twice: one in `main`'s own code; or, if no known wait is
    /// left, one through several functions.
    fn loops(&self, draft: &Draft, ended: &Ended) -> bool {
        let Some(late) = &ended.late else { return false };
        let main = self.functions.iter().find(|(_, name)| *name == "main").map(|(&start, _)| start);
        if let Some(start) = main {
            let end = self.functions.range(start + 1..).next().map_or(u64::MAX, |(&end, _)| end);
            if late.range(start..end).any(|(_, &count)| count >= 2) {
                return true;
            }
        }
        let handlers: BTreeSet<u64> =
            handlers(self.image, draft.vectors()).into_iter().map(|(_, address)| address).collect();
        let entered = self.entered(&ended.executed);
        let passed = entered.iter().filter(|start| late.get(start).is_some_and(|&count| count >= 2));
        self.left.is_empty() && passed.filter(|start| !handlers.contains(start)).count() >= LOOP_FUNCTIONS
    }

    /// Notes the run's end, unless that is the end of the window.
    fn say_end(&mut self, ended: &Ended) {
        let line = match &ended.end {
            End::Reset { pc: Some(pc), .. } => format!("the firmware reset itself at {}", self.place(*pc)),
            End::LockUp { pc, fault } => format!("the CPU locked up at {}: {fault}", self.place(*pc)),
            End::Stuck { pc, why } => format!("no instruction completes any more at {}: {why}", self.place(*pc)),
            End::Exit { status, pc } => format!("the firmware exited with status {status} at {}", self.place(*pc)),
            _ => return,
        };
        self.left.push(line);
    }

    /// The place of an instruction, in words.
    fn place(&self, pc: u64) -> String {
        match self.functions.range(..=pc).next_back() {
            Some((&start, name)) => format!("{name}+{:#x} at {pc:#010x}", pc - start),
            None => format!("{pc:#010x}"),
        }
    }

    /// Adds an answer to a polled register: the value for which the firmware waits.
    fn answer(
        &mut self,
        draft: &mut Draft,
        polled: &Polled,
        ended: &Ended,
        listener: &mut dyn Listener,
    ) -> Result<()> {
        let place = self.place(polled.pc);
        let verdict = learn::find(self.image, polled);
        let row = |wanted: Wanted, is_guess: bool| self.row(draft, polled, &verdict, wanted, is_guess);
        let whole = |value: u32| Wanted { mask: u32::MAX, value };
        let (choices, is_guess) = match &verdict {
            Verdict::Certain(wanted) => (vec![vec![row(*wanted, false)]], false),
            Verdict::Any(wanted) => (vec![vec![row(*wanted, true)]], true),
            Verdict::Several(several) => (several.iter().map(|&wanted| vec![row(wanted, true)]).collect(), true),
            // The value is not known at all: try all bits and no bits, as the last resort.
            Verdict::None | Verdict::Unknown => (vec![vec![row(whole(u32::MAX), true), row(whole(0), true)]], true),
        };
        let new: Vec<Vec<Learned>> =
            choices.into_iter().filter(|rows| !rows.iter().all(|row| is_known(draft, row))).collect();
        if !is_guess && let Some(rows) = new.first() {
            self.keep(draft, rows, listener);
            return Ok(());
        }
        if let Some(row) = self.beside(draft, polled)? {
            self.keep(draft, &[row], listener);
            return Ok(());
        }
        let counted = self.run(&self.counting(draft, polled, COUNT_INSNS))?;
        // The register is the time if the same instruction waits for another value of it without having written it, or
        // hands its value to code that was not followed; and if the firmware goes on when the register counts.
        let again = |answer: &Learned| answer.address == polled.address & !3 && answer.place == place;
        let is_again = draft.answers.iter().any(again);
        let goes_on = counted.polled.as_ref().is_none_or(|other| other.pc != polled.pc && other.insns > polled.insns);
        let handed_on = if !is_again && verdict == Verdict::Unknown {
            Some(self.last_resort(draft, polled, ended)?)
        } else {
            None
        };
        if is_again && goes_on || handed_on == Some(Some(COUNT_INSNS)) {
            self.count(draft, polled, COUNT_INSNS, listener);
            return Ok(());
        }
        let mut best: Option<(usize, &Vec<Learned>)> = None;
        for rows in &new {
            let mut other = draft.clone();
            other.answers.extend(rows.iter().cloned());
            let executed = self.run(&other)?.executed.len();
            if executed > best.map_or(ended.executed.len(), |best| best.0) {
                best = Some((executed, rows));
            }
        }
        match best {
            Some((executed, rows)) if executed >= counted.executed.len() => self.keep(draft, rows, listener),
            Some(_) => self.count(draft, polled, COUNT_INSNS, listener),
            None => match handed_on.map_or_else(|| self.last_resort(draft, polled, ended), Ok)? {
                Some(every_insns) => self.count(draft, polled, every_insns, listener),
                None => {
                    self.passed.insert(polled.pc);
                    let address = polled.address;
                    self.left
                        .push(format!("{place} reads {address:#010x} again and again, and no answer changes that"));
                }
            },
        }
        Ok(())
    }

    /// The certain answer to another register that the same loop polls. The loop waits for that register; the polled
    /// one is the time of its timeout.
    fn beside(&mut self, draft: &Draft, polled: &Polled) -> Result<Option<Learned>> {
        let is_new = self.passed.insert(polled.pc);
        let other = self.run(draft)?.polled;
        if is_new {
            self.passed.remove(&polled.pc);
        }
        let is_near =
            |other: &Polled| other.address != polled.address && other.insns.abs_diff(polled.insns) < NEAR_INSNS;
        let Some(other) = other.filter(is_near) else { return Ok(None) };
        let verdict = learn::find(self.image, &other);
        let Verdict::Certain(wanted) = verdict else { return Ok(None) };
        let row = self.row(draft, &other, &verdict, wanted, false);
        Ok((!is_known(draft, &row)).then_some(row))
    }

    /// Row of the chip file for an answer to a polled register, with its reason and its place.
    fn row(&self, draft: &Draft, polled: &Polled, verdict: &Verdict, wanted: Wanted, is_guess: bool) -> Learned {
        let why = verdict.why(wanted, polled.value);
        let (address, wanted) = draft.behind(polled.address, wanted);
        let why = draft.name_of(address, wanted.mask).map_or(why.clone(), |name| format!("{name} {why}"));
        Learned { address, wanted, why, is_guess, place: self.place(polled.pc), insns: polled.insns }
    }

    /// Adds answers to the draft.
    fn keep(&self, draft: &mut Draft, rows: &[Learned], listener: &mut dyn Listener) {
        for row in rows {
            let guess = if row.is_guess { ", a guess" } else { "" };
            let Wanted { mask, value } = row.wanted;
            let name = draft.name_of(row.address, mask).map(|name| format!(" ({name})")).unwrap_or_default();
            listener.say(&format!("{:#010x}{name}: {value:#x} in {mask:#x}{guess}, for {}", row.address, row.place));
        }
        draft.answers.extend(rows.iter().cloned());
    }

    /// Rate at which the register has to count so that firmware goes on that no answer helps: instructions from one
    /// value to the next. The runs are whole ones, since the firmware may wait long; the last try counts with each
    /// instruction. None: no rate helps.
    fn last_resort(&mut self, draft: &Draft, polled: &Polled, ended: &Ended) -> Result<Option<u64>> {
        let short = std::mem::replace(&mut self.options.window.for_insns, self.whole);
        let mut found = None;
        for every_insns in [COUNT_INSNS, 1] {
            let counted = self.run(&self.counting(draft, polled, every_insns))?;
            if counted.executed.len() > ended.executed.len() {
                found = Some(every_insns);
                break;
            }
        }
        self.options.window.for_insns = short;
        Ok(found)
    }

    /// Draft in which a register counts, instead of being answered.
    fn counting(&self, draft: &Draft, polled: &Polled, every_insns: u64) -> Draft {
        let mut other = draft.clone();
        let address = polled.address & !3;
        other.answers.retain(|answer| answer.address != address);
        other.counts.push(LearnedCount {
            address,
            every_insns,
            why: "read again and again, and the firmware goes on as it counts".to_owned(),
            place: self.place(polled.pc),
            insns: polled.insns,
        });
        other
    }

    /// Adds a counting register to the draft.
    fn count(&self, draft: &mut Draft, polled: &Polled, every_insns: u64, listener: &mut dyn Listener) {
        *draft = self.counting(draft, polled, every_insns);
        listener.say(&format!("{:#010x}: counts, a guess, for {}", polled.address & !3, self.place(polled.pc)));
    }

    /// The instruction at which a run waits for an interrupt: the run sleeps, perhaps between interrupts that it was
    /// given, or goes round in a small loop. None: it does neither.
    fn waits(&self, draft: &Draft, ended: &Ended) -> Option<u64> {
        if let End::Asleep { pc } = ended.end {
            return Some(pc);
        }
        let late = ended.late.as_ref()?;
        if let Some(&pc) = late.keys().find(|&&pc| self.is_wait(pc)).filter(|_| !draft.pulses.is_empty()) {
            return Some(pc);
        }
        let is_small = late.len() <= MAX_LOOP;
        let most = late.iter().max_by_key(|(pc, count)| (**count, std::cmp::Reverse(**pc)));
        most.map(|(&pc, _)| pc).filter(|_| is_small)
    }

    /// Offers the enabled interrupts, one by one, to firmware that waits. Returns whether one of them lets it go on.
    fn interrupt(&mut self, draft: &mut Draft, ended: &Ended, pc: u64, listener: &mut dyn Listener) -> Result<bool> {
        let handlers: BTreeMap<usize, u64> = handlers(self.image, draft.vectors()).into_iter().collect();
        let mut best: Option<(usize, LearnedPulse)> = None;
        let mut tick: Option<(usize, LearnedPulse)> = None;
        for &line in &ended.enabled {
            let handler = handlers.get(&(FIRST_INTERRUPT + line as usize));
            let handler = handler.and_then(|handler| self.functions.get(handler)).cloned();
            if draft.pulses.iter().any(|pulse| pulse.line == line) {
                continue;
            }
            let mut pulse = LearnedPulse {
                line,
                every_insns: PULSE_INSNS,
                registers: Vec::new(),
                handler: handler.or_else(|| draft.interrupt(line)).unwrap_or_else(|| "its handler".to_owned()),
                place: self.place(pc),
                insns: ended.insns,
            };
            let mut other = draft.clone();
            other.pulses.push(pulse.clone());
            let plain = self.run(&other)?;
            // The interrupt's flags are the registers that its handler reads.
            let is_read = |&(address, &reads): &(&u64, &u64)| reads > ended.seen.get(address).copied().unwrap_or(0);
            pulse.registers = plain.seen.iter().filter(is_read).map(|(&address, _)| address).collect();
            let with_flags = if pulse.registers.is_empty() {
                0
            } else {
                let mut other = draft.clone();
                other.pulses.push(pulse.clone());
                let with_flags = self.run(&other)?;
                self.went_on(ended, &with_flags)
            };
            let handled = plain.executed.len().saturating_sub(ended.executed.len());
            let plain = self.went_on(ended, &plain);
            if with_flags <= plain {
                pulse.registers.clear();
            }
            let new = plain.max(with_flags);
            if new > best.as_ref().map_or(0, |best| best.0) {
                best = Some((new, pulse));
            } else if handled > tick.as_ref().map_or(0, |tick| tick.0) {
                tick = Some((handled, pulse));
            }
        }
        // Firmware that sleeps between ticks goes on without executing new code: then the interrupt whose handler
        // executes most is the tick.
        let is_idle = draft.pulses.is_empty() && self.sleeps(ended);
        let Some((_, pulse)) = best.or(tick.filter(|_| is_idle)) else { return Ok(false) };
        listener.say(&format!("interrupt {} ({}) lets {} go on, a guess", pulse.line, pulse.handler, pulse.place));
        draft.pulses.push(pulse);
        Ok(true)
    }

    /// Lets registers count, one by one, for firmware that waits and that no interrupt helps: first those that it reads
    /// most. Returns whether one of them lets the firmware go on: that register is the time.
    fn time(&mut self, draft: &mut Draft, ended: &Ended, pc: u64, listener: &mut dyn Listener) -> Result<bool> {
        let counts = |address: u64| draft.counts.iter().any(|count| count.address == address);
        let mut read: Vec<(u64, u64)> = ended.seen.iter().map(|(&address, &reads)| (reads, address)).collect();
        read.retain(|&(reads, address)| reads >= u64::from(POLL_LIMIT) && !counts(address));
        read.sort_by_key(|&(reads, address)| (std::cmp::Reverse(reads), address));
        let mut best: Option<(usize, Polled)> = None;
        for &(_, address) in read.iter().take(MAX_TIMES) {
            let polled = Polled { pc, address, insns: ended.insns, ..Polled::default() };
            let counted = self.run(&self.counting(draft, &polled, COUNT_INSNS))?.executed;
            // All code that was reached must be reached again: a register with another meaning leads astray.
            let is_on = ended.executed.keys().all(|pc| counted.contains_key(pc));
            if is_on && counted.len() > best.as_ref().map_or(ended.executed.len(), |best| best.0) {
                best = Some((counted.len(), polled));
            }
        }
        let Some((_, polled)) = best else { return Ok(false) };
        self.count(draft, &polled, COUNT_INSNS, listener);
        Ok(true)
    }

    /// Whether an instruction waits for an interrupt or an event.
    fn is_wait(&self, pc: u64) -> bool {
        let code = self.image.code_at(pc);
        code.is_some_and(|code| decode::is_wfi(Isa::ThumbV7m, code) || decode::is_wfe(Isa::ThumbV7m, code))
    }

    /// Whether a run has come to an instruction that waits for an interrupt or an event.
    fn sleeps(&self, ended: &Ended) -> bool {
        let late = || ended.late.iter().flat_map(|late| late.keys());
        matches!(ended.end, End::Asleep { .. }) || late().any(|&pc| self.is_wait(pc))
    }

    /// Reason why firmware that waits at an instruction does not go on, although no interrupt helps. None: it may
    /// simply be done.
    fn reason(&self, ended: &Ended, pc: u64) -> Option<String> {
        let place = self.place(pc);
        match (&ended.end, ended.enabled.is_empty()) {
            (End::Asleep { .. }, true) => {
                Some(format!("{place} sleeps, and no interrupt is enabled that could wake it"))
            }
            // This may be the end of `main`, or of a task.
            (_, true) => None,
            (_, false) => Some(format!("{place} waits or is done: no interrupt that is enabled lets it go on")),
        }
    }

    /// Number of instructions that only the later run executed, in functions that the earlier one had entered, too: the
    /// code that waited has gone on. A handler alone is not progress.
    fn went_on(&self, before: &Ended, after: &Ended) -> usize {
        let function = |pc: u64| self.functions.range(..=pc).next_back().map(|(&start, _)| start);
        let entered: BTreeSet<Option<u64>> = before.executed.keys().map(|&pc| function(pc)).collect();
        let new = after.executed.keys().filter(|pc| !before.executed.contains_key(pc));
        new.filter(|&&pc| entered.contains(&function(pc))).count()
    }

    /// Runs the firmware with the chip of a draft.
    fn run(&mut self, draft: &Draft) -> Result<Ended> {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(GivenUp(End::Timeout).into());
        }
        self.options.timeout = left;
        self.runs += 1;
        let mut chip = draft.chip()?;
        chip.wire.poll_limit = POLL_LIMIT;
        chip.wire.passed = self.passed.iter().copied().collect();
        let choice = machine::choose_chip(self.image, &chip)?;
        let root = self.root.path().join(self.runs.to_string());
        fs::create_dir(&root).with_context(|| root.display().to_string())?;
        let workspace = Workspace::create(root.clone(), &root)?;
        let (unwind, zones) = (unwind::Table::default(), zone::Zones::default());
        let plan = Plan {
            image: self.image,
            choice: &choice,
            chip: Some(&chip),
            emulator: &self.emulator,
            options: &self.options,
            icount_shift: self.options.icount_shift.unwrap_or(choice.machine.shift),
            cycled: &Cycled::default(),
            mcount: None,
            stubs: &[],
        };
        let measurement = Measurement {
            functions: &[],
            inlined_calls: &[],
            from: &[],
            until: &[],
            spans: &[],
            unwind: &unwind,
            kernel: None,
            polls: &[],
            lives: &Lives::default(),
            rooms: &[],
            heap_end: None,
            heap: &[],
            sleep_shift: None,
            timeline: None,
            zones: &zones,
            waiting: &waiting::Code::default(),
        };
        let deadline = Deadline::new(left);
        let outcome = plan.run(&measurement, &workspace, &deadline, &mut |_| ())?;
        match outcome.end {
            End::Interrupted | End::Timeout | End::DiskFull => return Err(GivenUp(outcome.end).into()),
            End::EmulatorFailed { message } => return Err(EmulatorError::new(message).into()),
            _ => {}
        }
        let ended = ended(&chip, &workspace, outcome)?;
        // Each run leaves a few MiB.
        let _ = fs::remove_dir_all(&root);
        Ok(ended)
    }
}

/// Whether a draft has an answer already.
fn is_known(draft: &Draft, row: &Learned) -> bool {
    draft.answers.iter().any(|other| (other.address, other.wanted) == (row.address, row.wanted))
}

fn ended(chip: &Chip, workspace: &Workspace, outcome: Outcome) -> Result<Ended> {
    let Outcome { mut records, end, only, .. } = outcome;
    let half = std::mem::take(&mut records.half);
    let table = fs::read(workspace.records().join(wire::chip::FILE_NAME)).context("the plugin left no table")?;
    let rows = wire::chip::unmodelled(&table).context("cannot use the plugin's records")?;
    let polled = match fs::read(workspace.records().join(POLLED)) {
        Ok(bytes) => Some(Polled::from_bytes(&bytes).context("cannot use the plugin's records")?),
        Err(_) => None,
    };
    let mut executed: BTreeMap<u64, u64> = BTreeMap::new();
    for insn in records.vcpus.iter().flat_map(|vcpu| &vcpu.insns).filter(|insn| insn.count > 0) {
        *executed.entry(insn.pc).or_default() += insn.count;
    }
    let before: BTreeMap<u64, u64> =
        half.iter().flat_map(|vcpu| &vcpu.insns).map(|insn| (insn.pc, insn.count)).collect();
    let growth = |(&pc, &count): (&u64, &u64)| (pc, count - before.get(&pc).copied().unwrap_or(0).min(count));
    let late = (end == End::For && polled.is_none() && !before.is_empty())
        .then(|| executed.iter().map(growth).filter(|&(_, count)| count > 0).collect());
    let is_fault = records.control.get(Word::Fault) == 1;
    // CFSR.IBUSERR (Armv7-M ARM, B3.2.15).
    let is_fetch = is_fault && records.control.get(Word::FaultCfsr) & 0x100 != 0;
    let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.address < FIRST_RULE && chip.wire.block_at(row.address).is_some()) {
        *seen.entry(row.address & !3).or_default() += row.reads;
    }
    let absent = rows.iter().find(|row| row.address == ABSENT);
    Ok(Ended {
        absent: absent.map(|row| row.pc),
        is_store: absent.is_some_and(|row| row.reads == 0),
        stored: wire::chip::stored(&fs::read(workspace.records().join(STORED)).unwrap_or_default()),
        seen,
        late,
        handler: only.handler.map(|handler| handler.handler),
        enabled: enabled(&fs::read(workspace.records().join(ENABLED)).unwrap_or_default()),
        insns: records.vcpus.iter().map(|vcpu| vcpu.clock_insns).sum(),
        executed,
        polled,
        end,
        is_fetch,
    })
}

/// Numbers of the interrupt lines whose bits are set.
fn enabled(bytes: &[u8]) -> Vec<u32> {
    let bit = |line: &u32| bytes.get(*line as usize / 8).is_some_and(|byte| byte >> (line % 8) & 1 != 0);
    (0..bytes.len() as u32 * 8).filter(bit).collect()
}
