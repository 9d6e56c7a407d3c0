//! Learns a chip from firmware: short runs, each of which ends at something that the chip lacks.
//!
//! A run executes the same instructions as the one before up to where that ended, and goes on, because the chip file has one
//! more row. So every decision depends on the image and on the rows before it alone, and a second time makes the same file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use decode::Isa;
use wire::chip::{ABSENT, ENABLED, FIRST_RULE, POLLED, Polled, STORED};
use wire::control::Word;
use wire::request::Lives;
use wire::trick::DEVICES;

use crate::chip::Chip;
use crate::chip::hints::{self, Hint};
use crate::chip::learn::{self, Draft, Learned, LearnedCount, LearnedPulse, Verdict, Wanted};
use crate::chip::svd::Svd;
use crate::error::{EmulatorError, InputError};
use crate::image::symbols::{Symbols, demangle};
use crate::image::unwind;
use crate::image::zone;
use crate::image::{self, Image, bounded_read};
use crate::machine;
use crate::measure::Listener;
use crate::profile::{End, Window};
use crate::run::qemu::emulator;
use crate::run::qemu::tricks;
use crate::run::request::options::Options;
use crate::run::request::plan::{Measurement, Plan};
use crate::run::store::deadline::Deadline;
use crate::run::store::staging::Making;
use crate::run::store::workspace::Workspace;
use crate::run::watch::execution::Outcome;

/// Beginning of the name of the directory of the runs.
const WORKSHOP: &str = ".harness-learn-";

/// Most runs. Each answers one question.
const MAX_RUNS: u32 = 400;

/// Equal reads of a register by one instruction that end a run.
const POLL_LIMIT: u32 = 16;

/// Instructions of a run, until none of that length lacks anything.
const SHORT_INSNS: u64 = 3_000_000;

/// Instructions from one pulse of an interrupt to the next.
const PULSE_INSNS: u64 = 20_000;

/// Instructions from one value of a register that counts to the next. Its clock is not known; so fast, waits of a second end
/// within a run.
const COUNT_INSNS: u64 = 8;

/// Instructions within which two registers are polled by one loop.
const NEAR_INSNS: u64 = 10_000;

/// Registers that are tried for the time where firmware waits.
const MAX_TIMES: usize = 4;

/// Functions that a loop passes at least, where it is not a loop of `main`'s own code: a loop that waits passes fewer.
const LOOP_FUNCTIONS: usize = 3;

/// Vectors before the first interrupt's, and the one of SysTick.
const FIRST_INTERRUPT: usize = 16;
const SYSTICK: usize = 15;

/// Most interrupts of a chip, of whose vectors the table is looked through.
const MAX_VECTORS: usize = FIRST_INTERRUPT + 240;

/// Most instructions of a loop that waits for an interrupt, with those of a tick.
const MAX_LOOP: usize = 256;

/// Calls of a handler from which on it ticks.
const TICKS: u64 = 2;

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
    /// Whether a loop of `main`, or one that passes several functions, was passed twice after the last answer.
    pub loops: bool,
    /// Functions that were entered.
    pub functions: usize,
    /// The last run's end.
    pub end: End,
    /// Places that still wait, or what is missing.
    pub left: Vec<String>,
}

/// The end of a run that taught nothing: it was interrupted, or the host would not have it.
#[derive(Debug)]
pub struct GivenUp(pub End);

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.0 {
            End::Interrupted => "it was interrupted",
            End::DiskFull => "the disk is full",
            _ => "a run took too long",
        };
        write!(f, "learning was given up: {why}; no chip file is written")
    }
}

impl std::error::Error for GivenUp {}

/// A run that has ended.
struct Ended {
    polled: Option<Polled>,
    end: End,
    /// Executions of each instruction.
    executed: BTreeMap<u64, u64>,
    /// First address that was accessed and at which there is nothing.
    absent: Option<u64>,
    /// Number of reads of each register that was accessed.
    seen: BTreeMap<u64, u64>,
    /// Executions of each instruction in the second half; None: the run ended before its window did.
    late: Option<BTreeMap<u64, u64>>,
    /// Interrupt lines that the firmware has enabled.
    enabled: Vec<u32>,
    /// Handler that alone executed up to the end.
    handler: Option<u64>,
    insns: u64,
    /// The instruction that faulted was not there.
    is_fetch: bool,
    /// The access to the first absent address was a store.
    is_store: bool,
    /// Words of flash that were stored to, of a run that the firmware ended by a reset.
    stored: Vec<(u32, u32)>,
}

/// Settings and results of all runs.
struct Teacher<'a> {
    image: &'a Image,
    options: Options,
    emulator: PathBuf,
    root: Making,
    /// Functions by their first addresses.
    functions: BTreeMap<u64, String>,
    runs: u32,
    passed: BTreeSet<u64>,
    left: Vec<String>,
    /// Instructions of the longest runs.
    whole: Option<u64>,
}

/// Learns a chip from the firmware that the options name.
///
/// # Errors
/// When the image cannot be read, is for no chip that can be learned, or QEMU cannot run it.
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
    };
    let last = teacher.teach(&mut draft, listener)?;
    draft.seen = last.seen.keys().copied().collect();
    teacher.say_end(&last);
    let loops = teacher.loops(&last);
    let entered = teacher.entered(&last.executed);
    let Teacher { functions, runs, left, .. } = teacher;
    let count = |address: u64| last.executed.get(&address).copied().unwrap_or(0);
    let main = functions.iter().find(|(_, name)| *name == "main").map(|(&address, _)| count(address) > 0);
    let mut ticks: Vec<String> = handlers(&image)
        .into_iter()
        .filter(|&(vector, address)| (vector == SYSTICK || vector >= FIRST_INTERRUPT) && count(address) >= TICKS)
        .map(|(_, address)| functions.get(&address).cloned().unwrap_or_else(|| format!("{address:#x}")))
        .collect();
    ticks.dedup();
    Ok(Lesson { draft, runs, main, ticks, loops, functions: entered.len(), end: last.end, left })
}

/// Options of a run that only learns: what is asked of a profile is none of its matter.
fn short(options: &Options) -> Options {
    Options {
        window: Window { for_insns: options.window.for_insns, ..Window::default() },
        exact: false,
        spans: Vec::new(),
        zone_calls: Vec::new(),
        heap: None,
        timeline: None,
        slice_insns: None,
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

/// The chip file of `--chip auto`, beside where the command was typed; it is kept, so that it can be edited.
pub fn file_of(options: &Options) -> PathBuf {
    PathBuf::from(format!("{}.chip.toml", image::stem(&options.firmware)))
}

/// The one chip known by name that has memory for the image and that its file points to. None: there is none, or several.
///
/// # Errors
/// When the image cannot be read.
pub fn known(options: &Options) -> Result<Option<Hint>, InputError> {
    let image = Image::open(&options.firmware, &options.load())?;
    let file = options.symbols.as_deref().unwrap_or(&options.firmware);
    let bytes = bounded_read::read_named(file)?;
    Ok(hints::find(&bytes, &machine::chips_for(&image)))
}

/// The functions' names by their first addresses.
fn functions(image: &Image) -> Result<BTreeMap<u64, String>, InputError> {
    let Some(path) = &image.symbols_from else { return Ok(BTreeMap::new()) };
    let bytes = bounded_read::read_named(path)?;
    let symbols = Symbols::new(Some(&bytes), 0, true);
    let mut functions: BTreeMap<u64, String> = BTreeMap::new();
    for (name, address) in symbols.entries() {
        let name = demangle(name).into_owned();
        // Of several names the one that a reader looks for, else the first.
        let known = functions.entry(address).or_insert_with(|| name.clone());
        if name == "main" || (*known != "main" && name < *known) {
            *known = name;
        }
    }
    Ok(functions)
}

/// Handlers of the vector table: number and first address, without those that several exceptions share.
fn handlers(image: &Image) -> Vec<(usize, u64)> {
    let Some(table) = image.vector_table else { return Vec::new() };
    let code = |address: u64| image.code_at(address & !1).is_some() && address & 1 != 0;
    let vectors: Vec<(usize, u64)> = (1..MAX_VECTORS)
        .map_while(|vector| Some((vector, u64::from(image.loaded_u32(table.address + 4 * vector as u64)?))))
        .take_while(|&(vector, address)| vector < FIRST_INTERRUPT || address == 0 || code(address))
        .collect();
    let mut uses: BTreeMap<u64, u32> = BTreeMap::new();
    vectors.iter().for_each(|(_, address)| *uses.entry(*address).or_default() += 1);
    let own = vectors.into_iter().filter(|(_, address)| code(*address) && uses[address] == 1);
    own.map(|(vector, address)| (vector, address & !1)).collect()
}

impl Teacher<'_> {
    /// Runs the firmware until it lacks nothing more that could be given: in short runs, then in whole ones. Returns the last
    /// run.
    fn teach(&mut self, draft: &mut Draft, listener: &mut dyn Listener) -> Result<Ended> {
        if self.whole.is_none_or(|whole| whole > SHORT_INSNS) {
            self.options.window.for_insns = Some(SHORT_INSNS);
            self.go_on(draft, listener)?;
            self.options.window.for_insns = self.whole;
        }
        let (ended, reason) = self.go_on(draft, listener)?;
        self.left.extend(reason);
        Ok(ended)
    }

    /// Runs the firmware until it lacks nothing more that could be given in the window. Returns the last run and the reason why
    /// it does not go on, if one is known.
    fn go_on(&mut self, draft: &mut Draft, listener: &mut dyn Listener) -> Result<(Ended, Option<String>)> {
        loop {
            let ended = self.run(draft)?;
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

    /// The functions that were entered; of an image without symbols those that a call names.
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

    /// Whether a loop was passed twice after the last answer: of `main`'s own code, or one that passes several functions and
    /// waits for nothing that is known.
    fn loops(&self, ended: &Ended) -> bool {
        let Some(late) = &ended.late else { return false };
        let main = self.functions.iter().find(|(_, name)| *name == "main").map(|(&start, _)| start);
        if let Some(start) = main {
            let end = self.functions.range(start + 1..).next().map_or(u64::MAX, |(&end, _)| end);
            if late.range(start..end).any(|(_, &count)| count >= 2) {
                return true;
            }
        }
        let handlers: BTreeSet<u64> = handlers(self.image).into_iter().map(|(_, address)| address).collect();
        let entered = self.entered(&ended.executed);
        let passed = entered.iter().filter(|start| late.get(start).is_some_and(|&count| count >= 2));
        self.left.is_empty() && passed.filter(|start| !handlers.contains(start)).count() >= LOOP_FUNCTIONS
    }

    /// Says what ended the last run, where that was not the window.
    fn say_end(&mut self, ended: &Ended) {
        let line = match &ended.end {
            End::Reset { pc: Some(pc) } => format!("the firmware reset itself at {}", self.place(*pc)),
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

    /// Adds the answer that a polled register is waited for with.
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
            // Nothing is known of the value: patterns, as the last resort.
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
        // The register is the time: the same instruction waits for yet another value of it without having written it, or its
        // value is handed on to code that was not followed; and the firmware goes on where it counts.
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

    /// The certain answer of another register that the same loop polls: what is waited for, where this one is the time of a
    /// timeout.
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

    /// An answer to a polled register, with its reason and its place.
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

    /// Instructions from one value of a register to the next, with which firmware goes on that no answer helps: in a whole
    /// window, since it may wait long, and at last as fast as instructions execute.
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

    /// A register that counts, in place of its answers.
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

    /// Adds a register that counts to the draft.
    fn count(&self, draft: &mut Draft, polled: &Polled, every_insns: u64, listener: &mut dyn Listener) {
        *draft = self.counting(draft, polled, every_insns);
        listener.say(&format!("{:#010x}: counts, a guess, for {}", polled.address & !3, self.place(polled.pc)));
    }

    /// The instruction at which a run waits for an interrupt: it sleeps, also between the interrupts that it has been given, or
    /// goes round in a small loop.
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

    /// Offers the interrupts that have handlers to firmware that waits. Returns whether one lets it go on.
    fn interrupt(&mut self, draft: &mut Draft, ended: &Ended, pc: u64, listener: &mut dyn Listener) -> Result<bool> {
        let handlers: BTreeMap<usize, u64> = handlers(self.image).into_iter().collect();
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
            // Its flags: registers that the handler reads.
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
        // What sleeps between ticks goes on with nothing new: the interrupt whose handler does most is the tick.
        let is_idle = draft.pulses.is_empty() && self.sleeps(ended);
        let Some((_, pulse)) = best.or(tick.filter(|_| is_idle)) else { return Ok(false) };
        listener.say(&format!("interrupt {} ({}) lets {} go on, a guess", pulse.line, pulse.handler, pulse.place));
        draft.pulses.push(pulse);
        Ok(true)
    }

    /// Has the registers count, one by one, that firmware reads most which waits for no interrupt. Returns whether one lets it
    /// go on: it is the time.
    fn time(&mut self, draft: &mut Draft, ended: &Ended, pc: u64, listener: &mut dyn Listener) -> Result<bool> {
        let counts = |address: u64| draft.counts.iter().any(|count| count.address == address);
        let mut read: Vec<(u64, u64)> = ended.seen.iter().map(|(&address, &reads)| (reads, address)).collect();
        read.retain(|&(reads, address)| reads >= u64::from(POLL_LIMIT) && !counts(address));
        read.sort_by_key(|&(reads, address)| (std::cmp::Reverse(reads), address));
        let mut best: Option<(usize, Polled)> = None;
        for &(_, address) in read.iter().take(MAX_TIMES) {
            let polled = Polled { pc, address, insns: ended.insns, ..Polled::default() };
            let counted = self.run(&self.counting(draft, &polled, COUNT_INSNS))?.executed;
            // What has been reached must still be: a register that means something else leads astray.
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

    /// Whether a run has come to an instruction that waits for an interrupt.
    fn sleeps(&self, ended: &Ended) -> bool {
        let late = || ended.late.iter().flat_map(|late| late.keys());
        matches!(ended.end, End::Asleep { .. }) || late().any(|&pc| self.is_wait(pc))
    }

    /// The reason why firmware does not go on that waits at an instruction, and that no interrupt helps.
    fn reason(&self, ended: &Ended, pc: u64) -> Option<String> {
        let place = self.place(pc);
        match (&ended.end, ended.enabled.is_empty()) {
            (End::Asleep { .. }, true) => {
                Some(format!("{place} sleeps, and no interrupt is enabled that could wake it"))
            }
            // The end of main, or of a task.
            (_, true) => None,
            (_, false) => Some(format!("{place} waits or is done: no interrupt that is enabled lets it go on")),
        }
    }

    /// Number of instructions that another run executed in addition, in functions that had been entered before: what waited
    /// has gone on. A handler alone is not progress.
    fn went_on(&self, before: &Ended, after: &Ended) -> usize {
        let function = |pc: u64| self.functions.range(..=pc).next_back().map(|(&start, _)| start);
        let entered: BTreeSet<Option<u64>> = before.executed.keys().map(|&pc| function(pc)).collect();
        let new = after.executed.keys().filter(|pc| !before.executed.contains_key(pc));
        new.filter(|&&pc| entered.contains(&function(pc))).count()
    }

    /// Runs the firmware on a draft.
    fn run(&mut self, draft: &Draft) -> Result<Ended> {
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
            heap: &[],
            timeline: None,
            zones: &zones,
        };
        let deadline = Deadline::new(self.options.timeout);
        let outcome = plan.run(&measurement, &workspace, &deadline, &mut |_| ())?;
        match outcome.end {
            End::Interrupted | End::Timeout | End::DiskFull => return Err(GivenUp(outcome.end).into()),
            End::EmulatorFailed { message } => return Err(EmulatorError::new(message).into()),
            _ => {}
        }
        let ended = ended(&chip, &workspace, outcome)?;
        // Each has a few MiB.
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

/// The numbers of the lines whose bits are set.
fn enabled(bytes: &[u8]) -> Vec<u32> {
    let bit = |line: &u32| bytes.get(*line as usize / 8).is_some_and(|byte| byte >> (line % 8) & 1 != 0);
    (0..bytes.len() as u32 * 8).filter(bit).collect()
}
