// SPDX-License-Identifier: GPL-2.0-or-later
//! The parts put together, and tasks that need several of them: handling due events, the window, the end.
//!
//! Parts know the layers below them, never this one. Only callbacks ([`crate::hooks`]) and translation
//! ([`crate::translate`]) lock the state. `-icount` makes QEMU run all vCPUs on one thread, to which the lock costs
//! next to nothing ([`qemu::Owned`]).

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use engine::block::{Blocks, from_insn_id};
use engine::branches::Branches;
use engine::calls::Calls;
use engine::clock::{self, Clock, Due, Event, Suspect, TIMEKEEPER};
use engine::code::Code;
use engine::console::Console;
use engine::cycles::{Cycles, TakenBack};
use engine::follow::Follow;
use engine::follow::descent;
use engine::guest;
use engine::heap::Heap;
use engine::marks::{Marks, printed};
use engine::passage::{self, Passages};
use engine::prediction::Predictions;
use engine::slice::Slices;
use engine::stack::{Stack, Stacks};
use engine::transfer::Transfers;
use wire::control::{End, Word};
use wire::counters::INPUT;
use wire::debug;
use wire::definition::FrameKind;
use wire::refusal::Refusal;
use wire::request::{self, Request, Semihosting};
use wire::sample::Sample;
use wire::stream::StreamFile;
use wire::timeline::What;

use crate::accesses::Accesses;
use crate::avr::Avr;
use crate::debug::Debugger;
use crate::depth::Depth;
use crate::errors::Errors;
use crate::input::Input;
use crate::output::Output;
use crate::pace::Pace;
use crate::pins::Pins;
use crate::polled::Polls;
use crate::qemu::{self, Access, Guard as StateGuard, Guest, Owned, RegisterPlace, Scoreboard, Vcpus};
use crate::records::{Ledger, Records};
use crate::semihosting::Asked;
use crate::semihosting::handles::Handles;
use crate::sleep::Sleep;
use crate::snapshot::Snapshot;
use crate::unmodelled::Unmodelled;
use crate::wait::{Guard, MainThread};

static STATE: OnceLock<Owned<State>> = OnceLock::new();

/// The plugin's whole state.
pub(crate) struct State {
    pub(crate) guest: Guest,
    pub(crate) code: Code,
    pub(crate) ledger: Ledger,
    pub(crate) blocks: Blocks,
    pub(crate) clock: Clock,
    /// Finds the index of the executing vCPU; None: there is only one, or a register of the processor has the index.
    vcpus: Option<Vcpus>,
    /// Protection of the turns of several vCPUs, until it is in force.
    turns: Option<qemu::Turns>,
    /// Separation of vCPUs that would share translations, until the first translation.
    clusters: Option<qemu::Clusters>,
    /// QEMU's timers; None: no vCPU has appeared, or the timers were not found.
    pub(crate) timers: Option<qemu::Timers>,
    pub(crate) counting: Counting,
    pub(crate) follow: Follow,
    /// Call stacks; None: none are recorded.
    pub(crate) stacks: Option<Stacks>,
    /// Calls of allocation functions; None: the heap is not followed.
    pub(crate) heap: Option<Heap>,
    /// Calls of the functions that the timeline shows or that are zones; None: there are no such functions.
    pub(crate) calls: Option<Calls>,
    /// The firmware's output, for the timeline; None: there is no timeline.
    pub(crate) console: Option<Console>,
    /// Watch over the stack pointer; None: the call tree follows it, or nothing says where stacks end.
    pub(crate) depth: Option<Depth>,
    /// The time slept; None: it is not asked for, or cannot be determined.
    pub(crate) sleep: Option<Sleep>,
    pub(crate) transfers: Transfers,
    /// Ways of branches; None: they are not counted one by one.
    pub(crate) branches: Option<Branches>,
    pub(crate) predictions: Predictions,
    marks: Option<Marks>,
    /// Amount of the firmware's output; None: it has no limit.
    pub(crate) output: Option<Output>,
    /// Ranges of standard error; None: harness does not need them.
    pub(crate) errors: Option<Errors>,
    snapshot: Option<Snapshot>,
    /// Phases and slices; None: the run is not cut.
    slices: Option<Slices>,
    /// Input to be typed; None: no input.
    pub(crate) input: Option<Input>,
    pub(crate) guard: Guard,
    /// Calls of the host that are allowed.
    pub(crate) semihosting: Semihosting,
    pub(crate) handles: Handles,
    pub(crate) asked: Asked,
    /// Connection to a debugger; None: the run is not debugged.
    pub(crate) debugger: Option<Debugger>,
    /// Table of unmodelled accesses; None: the machine is QEMU's own, or the accesses are not asked for.
    pub(crate) unmodelled: Option<Unmodelled>,
    /// All accesses of a chip's registers in the window; None as above.
    pub(crate) accesses: Option<Accesses>,
    /// Changes of a chip's pins; None: they are not asked for.
    pins: Option<Pins>,
    /// Reads of polled registers; None: the run does not end at one.
    pub(crate) polled: Option<Polls>,
    /// With several vCPUs, the instruction of the next check of the debugger: each clock counts one vCPU only.
    hold_at: Option<u64>,
    /// State of an AVR beyond its registers; None: it is another processor.
    pub(crate) avr: Option<Avr>,
    /// Cycles of an AVR; None: they are not counted.
    pub(crate) cycles: Option<Cycles>,
    /// Cycles of a core whose pipeline is known; None: they are not counted.
    pub(crate) passages: Option<Passages>,
    /// Time by cycles; None: the machine's clock counts instructions.
    pub(crate) pace: Option<Pace>,
    /// Address of the loop in which the firmware ends (AVR); None: it is not known.
    pub(crate) stop: Option<u64>,
    /// Address of its `_exit`.
    pub(crate) exit: Option<u64>,
    /// Argument of `exit`, once that has been entered.
    pub(crate) exit_status: Option<u64>,
}

/// Cycles that have been taken back.
struct Taken {
    cycles: Option<TakenBack>,
    passage: Option<passage::TakenBack>,
}

/// Distance from an event, in instructions, at which the run changes to blocks that can be held. It is longer than
/// three blocks of QEMU, which have at most 512 instructions each.
const NEAR_INSNS: u64 = 1 << 11;

/// The way in which generated code counts.
pub(crate) struct Counting {
    pub(crate) scoreboard: Scoreboard,
    /// Addresses inside Thumb IT blocks, with the number of further conditional instructions. They are needed for
    /// blocks that QEMU starts in the middle of an IT block.
    pub(crate) it_blocks: HashMap<u64, u8>,
    /// Whether generated code can count. With several vCPUs that share translations it cannot: under icount QEMU 10.0
    /// makes the number of the vCPU that a block was translated for a constant of that block, though other vCPUs run
    /// it too (`gen_cpu_index` in accel/tcg/plugin-gen.c). vCPUs in clusters of their own share no translations
    /// (`CF_CLUSTER_MASK`): those of the machine, or those made by [`qemu::Clusters`].
    pub(crate) is_inline: bool,
    /// The vCPU that a block is being translated for.
    pub(crate) translating: u32,
    /// Whether there is one callback per instruction instead, for the tests.
    pub(crate) is_oracle: bool,
    /// Whether the run may be held at any instruction, and only the clock is counted.
    pub(crate) is_debugged: bool,
    /// Whether no event is near, so that the blocks translated now need not be held.
    pub(crate) is_far: bool,
}

impl Counting {
    fn new(request: &Request, is_inline: bool) -> Counting {
        Counting {
            scoreboard: Scoreboard::new(),
            it_blocks: HashMap::new(),
            is_inline,
            translating: 0,
            is_oracle: request.measure().is_some_and(|measure| measure.is_oracle),
            is_debugged: request.debug().is_some(),
            is_far: false,
        }
    }

    /// Whether events are checked where blocks start.
    pub(crate) fn by_blocks(&self) -> bool {
        self.is_inline && !self.is_oracle && !self.is_debugged
    }
}

/// Reason why the plugin does not start: for harness, and as text for the reader of QEMU's error output.
pub(crate) struct Refused(pub(crate) Refusal, pub(crate) String);

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        let errno = error.raw_os_error().filter(|&errno| errno > 0);
        Refused(errno.map_or(Refusal::Host, |errno| Refusal::Io { errno }), error.to_string())
    }
}

/// Refuses runs of several vCPUs that cannot be measured: `are_alike` if nothing distinguishes the vCPUs that share code,
/// `is_told` if QEMU tells which vCPU executes.
fn check_vcpus(request: &Request, vcpus: u32, are_alike: bool, is_told: bool) -> Result<(), Refused> {
    if are_alike {
        return Err(Refused(Refusal::SeveralVcpus, "several vCPUs can only be told apart on RISC-V".into()));
    }
    // The vCPUs may differ in instruction set and registers' names, so the executing vCPU must be known.
    if vcpus > 1 && request.unshared_vcpus > 1 && !is_told {
        return Err(Refused(Refusal::UntoldVcpus, "this QEMU does not say which vCPU executes".into()));
    }
    if vcpus > 1 && request.measure().is_some_and(|measure| measure.is_exact) {
        return Err(Refused(Refusal::ExactOfSeveralVcpus, "the exact call tree follows one vCPU".into()));
    }
    Ok(())
}

/// Sets up the plugin for the request in a directory; called once, before any vCPU exists. `refuse` writes a later
/// failure into that directory.
pub(crate) fn install(directory: &str, vcpus: u32, refuse: fn(&str, Refused)) -> Result<(), Refused> {
    let request = Request::read(&std::fs::read(Path::new(directory).join(request::FILE_NAME))?)
        .map_err(|error| Refused(Refusal::Request, error.to_string()))?;
    qemu::choose(request.qemu);
    qemu::give_to_firmware(&printed(&request))?;
    let guest = guest::open(&request, directory);
    let is_avr = guest.isa.is_avr();
    let is_shared = vcpus > request.unshared_vcpus.max(1);
    let told = if vcpus > 1 { Vcpus::find(vcpus) } else { None };
    check_vcpus(&request, vcpus, is_shared && !guest.facts.names_vcpus, told.is_some())?;
    // A run of several vCPUs is debugged by one callback per instruction.
    let measure = request.measure();
    let clusters = if is_shared && measure.is_some() { qemu::Clusters::find() } else { None };
    let is_inline = !is_shared && (vcpus == 1 || measure.is_some());
    let timeline = measure.and_then(|measure| measure.timeline.as_ref());
    let mut ledger = open_ledger(&request, directory, vcpus)?;
    ledger.say(Word::Shared, u64::from(is_shared));
    let main_thread = MainThread::find();
    let input = Input::open(&request, &main_thread)?;
    let debugger = Debugger::open(&request, directory, vcpus, &main_thread)?;
    let follow = Follow::new(&request, vcpus, &mut ledger);
    let (cycles, passages) = open_cycles(&request, is_avr, vcpus, &mut ledger);
    // With several vCPUs, it is not known to which vCPU's instructions the time belongs.
    let shift = measure.filter(|_| vcpus == 1).and_then(|measure| measure.sleep_shift);
    let sleep = shift.and_then(|shift| Sleep::new(shift, &mut ledger));
    let pins = timeline.map(|_| Pins::default());
    let stacks = Stacks::new(&request);
    let mut state = State {
        depth: watch_depth(&request, vcpus, &follow, stacks.as_ref()),
        guest,
        code: Code::new(&request),
        ledger,
        blocks: Blocks::default(),
        clock: Clock::new(&request, vcpus),
        vcpus: told,
        turns: if vcpus > 1 { qemu::Turns::find() } else { None },
        clusters,
        timers: None,
        counting: Counting::new(&request, is_inline),
        follow,
        stacks,
        heap: Heap::new(&request),
        calls: Calls::new(&request),
        console: Console::open(&request)?,
        sleep,
        transfers: measure.map_or_else(Transfers::default, Transfers::new),
        branches: measure.filter(|measure| measure.is_oracle).map(|_| Branches::default()),
        predictions: Predictions::default(),
        marks: Marks::open(&request, vcpus)?,
        output: Output::new(&request)?,
        errors: Errors::open(&request),
        snapshot: Snapshot::new(&request, directory),
        slices: Slices::new(&request, vcpus),
        input,
        guard: Guard::find(vcpus, main_thread),
        semihosting: request.semihosting,
        handles: Handles::new(),
        asked: Asked::new(request.semihosting),
        debugger,
        unmodelled: complete_chip(&request, directory, refuse, pins.clone())?,
        accesses: open_accesses(&request, directory)?,
        pins,
        polled: Polls::new(&request, directory),
        hold_at: None,
        avr: is_avr.then(|| Avr::new(request.chip.as_ref())),
        cycles,
        passages,
        // With several vCPUs, it is not known whose cycles the time belongs to.
        pace: request.pace.filter(|_| vcpus == 1).map(Pace::new),
        stop: request.finisher.filter(|_| is_avr),
        exit: request.exit,
        exit_status: None,
    };
    if state.debugger.is_some() {
        // Hold before the first instruction.
        state.set_hold(Some(1));
    }
    state.output.iter().for_each(|output| state.clock.set_look(output.look_insns()));
    state.clock.set_input(state.input.as_ref().and_then(|input| input.next_look(0)));
    if state.clock.opens_late() {
        (0..vcpus).for_each(|vcpu| state.clock.set(vcpu, &state.ledger));
    } else {
        state.open_window();
    }
    STATE.set(Owned::new(state)).map_err(|_| io::Error::other("installed twice").into())
}

/// The watch over the stack pointer, where nothing else follows it. Kernels' tasks have stacks of their own, and AVR code sets the
/// stack pointer byte by byte.
fn watch_depth(request: &Request, vcpus: u32, follow: &Follow, stacks: Option<&Stacks>) -> Option<Depth> {
    let is_measured = request.measure().is_some_and(|measure| !measure.is_exact && !measure.is_oracle);
    let is_alone = vcpus == 1 && follow.tasks.is_none();
    (is_measured && is_alone && stacks.is_some_and(Stacks::has_rooms)).then(Depth::default)
}

/// Opens the counts of cycles: of an AVR, or of a core whose pipeline is known.
fn open_cycles(
    request: &Request,
    is_avr: bool,
    vcpus: u32,
    ledger: &mut Ledger,
) -> (Option<Cycles>, Option<Passages>) {
    // A run that is debugged counts nothing, but its time may go by cycles.
    let has_cycles = request.measure().is_some_and(|measure| measure.has_cycles) || request.pace.is_some();
    let cycles = (is_avr && has_cycles).then(|| Cycles::new(ledger));
    (cycles, request.core.as_ref().map(|core| Passages::new(core, vcpus, ledger)))
}

/// Creates the records that a request asks for, and the ledger that is kept in them.
fn open_ledger(request: &Request, directory: &str, vcpus: u32) -> io::Result<Ledger> {
    let measure = request.measure();
    let timeline = measure.and_then(|measure| measure.timeline.as_ref());
    let mut streams = vec![StreamFile::Definitions, StreamFile::Samples];
    streams.extend(measure.filter(|measure| !measure.heap.is_empty()).map(|_| StreamFile::Heap));
    streams.extend(timeline.map(|_| StreamFile::Timeline));
    let mut ledger = Ledger::new(Records::create(directory, vcpus, &streams)?);
    let is_zone = measure.is_some_and(|measure| !measure.zone_calls.is_empty());
    if is_zone || timeline.is_some_and(|wanted| !wanted.functions.is_empty()) {
        ledger.keep_calls();
    }
    Ok(ledger)
}

/// Completes the machine to the requested chip, if there is one. Some: the table for accesses that the chip's file does
/// not model.
fn complete_chip(
    request: &Request,
    directory: &str,
    refuse: fn(&str, Refused),
    pins: Option<Pins>,
) -> Result<Option<Unmodelled>, Refused> {
    let Some(chip) = request.chip.clone() else { return Ok(None) };
    let is_kept = request.measure().is_some();
    let unmodelled = is_kept.then(|| Unmodelled::create(directory)).transpose()?;
    let tell: Box<dyn Fn(qemu::ChipEvent) + Send> = match &unmodelled {
        Some(unmodelled) => Box::new(unmodelled.on_event(move |change| note_pin(pins.as_ref(), change))),
        None => Box::new(|_| ()),
    };
    let directory = directory.to_owned();
    let refuse_chip = move |missing: &str| refuse(&directory, Refused(Refusal::Chip, missing.to_owned()));
    qemu::complete_chip(chip, refuse_chip, tell).map_err(|missing| Refused(Refusal::Chip, missing))?;
    Ok(unmodelled)
}

/// The table of accesses of a chip's registers; None: they are not asked for, or those of an AVR, of which a chip has few.
fn open_accesses(request: &Request, directory: &str) -> io::Result<Option<Accesses>> {
    let is_kept = request.measure().is_some() && request.chip.as_ref().is_some_and(|chip| !chip.is_addition);
    is_kept.then(|| Accesses::create(directory)).transpose()
}

/// Bytes of each instruction at least.
const CODE_BYTES: usize = 2;

/// Distance below a stack at which AVR code may only be setting the stack pointer, which it does byte by byte.
const AVR_STEP_BYTES: u64 = 512;

/// The vCPU whose clock gives the time of changes of pins; a machine with a chip has only one vCPU.
const PINS_VCPU: u32 = 0;

/// Keeps a change of a pin until the next block takes it. Without `pins`, nothing is kept.
fn note_pin(pins: Option<&Pins>, change: What) {
    let Some(pins) = pins else { return };
    pins.add(change);
    if let Some(state) = try_lock() {
        clock::recheck(PINS_VCPU, &state.ledger);
    }
}

/// Locks the state for one callback.
#[inline]
pub(crate) fn lock() -> StateGuard<'static, State> {
    let mut state = installed().lock();
    if let Some(vcpu) = state.vcpus.as_mut().and_then(Vcpus::executing) {
        state.guest.turn_to(vcpu);
    }
    state
}

/// Locks the state, unless a callback has locked it already.
pub(crate) fn try_lock() -> Option<StateGuard<'static, State>> {
    STATE.get()?.try_lock()
}

/// Makes the calling thread the one that locks the state at little cost.
pub(crate) fn adopt() {
    installed().adopt();
}

fn installed() -> &'static Owned<State> {
    // QEMU makes no callback before `install` has returned.
    STATE.get().unwrap_or_else(|| qemu::exit(1))
}

impl State {
    /// Handles a vCPU that appears, on the thread that executes all of them; only the first needs most of this.
    pub(crate) fn appear(&mut self, vcpu: u32) {
        self.guest.appear();
        if let Some(clusters) = &mut self.clusters {
            clusters.part(vcpu);
        }
        self.timers = self.timers.or_else(qemu::Timers::find);
        if self.turns.take().is_some_and(|turns| turns.keep()) {
            self.ledger.say(Word::TurnsKept, 1);
        }
    }

    /// Decides at the first translation whether generated code can count. All vCPUs have appeared by then.
    pub(crate) fn choose_counting(&mut self) {
        if let Some(clusters) = self.clusters.take() {
            let are_apart = self.vcpus.is_some() && clusters.are_apart(self.clock.vcpus());
            self.counting.is_inline = are_apart;
            self.ledger.say(Word::Shared, u64::from(!are_apart));
        }
    }

    /// Index of the executing vCPU; None: QEMU does not say.
    pub(crate) fn executing_vcpu(&mut self) -> Option<u32> {
        self.vcpus.as_mut().and_then(Vcpus::executing)
    }

    /// Index of the vCPU that runs a callback; QEMU may have `reported` another one, see [`Counting::is_inline`].
    pub(crate) fn running_vcpu(&mut self, reported: u32) -> u32 {
        let vcpus = self.clock.vcpus();
        if vcpus == 1 {
            return reported;
        }
        let vcpu = self.executing_vcpu().or_else(|| self.guest.vcpu()).unwrap_or(reported).min(vcpus - 1);
        if self.counting.is_inline && vcpu != reported {
            // Generated code may have counted for another vCPU.
            qemu::say("vCPUs share translations that were taken to be apart");
            qemu::exit(1);
        }
        vcpu
    }

    /// If the last block was counted as a whole and left early, takes back the part that has not started.
    pub(crate) fn amend(&mut self, vcpu: u32) {
        let left = clock::amend(vcpu, &self.blocks, &mut self.ledger);
        if let (Some((block, started)), Some(cycles)) = (left, &self.cycles) {
            cycles.amend(vcpu, block, started, &self.ledger);
        }
    }

    /// Counts the cycles of the block before, where a passage through this code begins. Returns whether control has turned there.
    pub(crate) fn begin_passage(&mut self, vcpu: u32, code: u32) -> bool {
        self.amend(vcpu);
        let insns = self.clock.insns_of_run(vcpu, &self.ledger);
        let State { passages, ledger, .. } = self;
        passages.as_mut().is_some_and(|passages| passages.begin(vcpu, code, insns, ledger))
    }

    /// Begins a block of an AVR whose clock follows the cycles. `may_jump`: its last instruction may lead elsewhere. Returns whether
    /// control has turned there.
    pub(crate) fn begin_block(&mut self, vcpu: u32, block: usize, may_jump: bool) -> bool {
        self.amend(vcpu);
        let insns = self.clock.insns_of_run(vcpu, &self.ledger);
        let State { pace, blocks, .. } = self;
        pace.as_mut().is_some_and(|pace| pace.turns.begin(block, may_jump, insns, blocks))
    }

    /// Time after so many instructions, of this block or the one before, if an AVR's device is there to ask for it.
    pub(crate) fn device_ns(&self, insns: u64) -> Option<u64> {
        let ns = self.avr.as_ref()?.ns(insns)?;
        Some(self.pace.as_ref().map_or(ns, |pace| pace.time.ns(insns)))
    }

    /// Looks for QEMU's clock at the start of the run's first block. Returns whether the block has to be left.
    pub(crate) fn seek_clock(&mut self) -> bool {
        let State { pace, ledger, .. } = self;
        pace.as_mut().is_some_and(|pace| pace.seek(ledger))
    }

    /// Moves the machine's clock on to the time of the cycles, at the start of a block of so many instructions. Returns whether the
    /// block has to be left.
    pub(crate) fn keep_time(&mut self, vcpu: u32, block_insns: u64) -> bool {
        let insns = self.clock.insns_of_run(vcpu, &self.ledger);
        let State { passages, pace, ledger, follow, .. } = self;
        let Some(pace) = pace else { return false };
        let cycles = passages.as_ref().map(Passages::run_cycles);
        let cycles = cycles.unwrap_or_else(|| pace.before_window + ledger.time(vcpu).cycles);
        let (ns, is_over) = pace.move_on(cycles, (insns, block_insns), vcpu, ledger);
        if let (Some(tasks), 1..) = (&follow.tasks, ns) {
            tasks.moved_ahead(vcpu, follow.cores[vcpu as usize].task, ns, ledger);
        }
        is_over
    }

    /// Counts the cycles of what has started of the last block.
    fn end_passage(&mut self, vcpu: u32) {
        let insns = self.clock.insns_of_run(vcpu, &self.ledger);
        if let Some(passages) = &mut self.passages {
            passages.end(vcpu, insns, &mut self.ledger);
        }
    }

    /// Handles the events that fell into the suspected block, now that the clock shows how far the block came. Events
    /// of the other vCPUs' turns come first.
    pub(crate) fn settle(&mut self, vcpu: u32) {
        if self.counting.is_inline {
            for other in 0..self.clock.vcpus() {
                if other != vcpu {
                    self.settle_one(other);
                }
            }
        }
        self.settle_one(vcpu);
    }

    fn settle_one(&mut self, vcpu: u32) {
        self.amend(vcpu);
        while let Some(due) = self.clock.due(vcpu, &self.ledger) {
            let pc = self.blocks.get(due.block).pc_of(due.index);
            match due.event {
                Event::Sample => {
                    let stack = self.clock.suspected_stack(vcpu);
                    let stack = self.stacks.as_mut().map_or(0, |stacks| stacks.id(stack, &mut self.ledger));
                    self.sample(vcpu, due.at_insns, pc, stack);
                }
                Event::Input => self.ledger.set(INPUT, vcpu, 1),
                Event::Output if self.has_written_enough() => self.end_at(vcpu, End::Output, pc, due),
                // Often enough that a recursion without end is noticed soon, and at the same instructions in each run.
                Event::Output => {
                    if let Some(start) = self.left_memory() {
                        let _ = self.turn_back(vcpu, due);
                        self.end(End::StackOverflow, start, pc);
                    }
                }
                // A debugged run counts by instructions, see `settle_here`.
                Event::Hold => {}
                Event::Slice => self.cut_at(vcpu, due),
                Event::Half => self.keep_half(vcpu, due),
                Event::End(end) => self.end_at(vcpu, end, pc, due),
            }
        }
    }

    /// Handles events that are due at the last instruction that has started. That is the block's `index`-th, and its
    /// callers are `stack`.
    pub(crate) fn settle_here(&mut self, vcpu: u32, block: usize, index: u64, stack: &Stack) {
        let at_insns = self.ledger.insns(vcpu);
        let pc = self.blocks.get(block).pc_of(index);
        while let Some(event) = self.clock.due_at(vcpu, at_insns) {
            let end = match event {
                Event::Sample => {
                    let stack = self.stacks.as_mut().map_or(0, |stacks| stacks.id(stack, &mut self.ledger));
                    self.sample(vcpu, at_insns, pc, stack);
                    continue;
                }
                Event::Input => {
                    self.ledger.set(INPUT, vcpu, 1);
                    continue;
                }
                Event::Output if self.has_written_enough() => End::Output,
                Event::Output => match self.left_memory() {
                    Some(start) => self.end(End::StackOverflow, start, pc),
                    None => continue,
                },
                Event::Hold => {
                    self.ask(at_insns, pc);
                    continue;
                }
                Event::Slice => {
                    self.cut_at(vcpu, Due { event, at_insns, block, index, overrun_insns: 0 });
                    continue;
                }
                Event::Half => {
                    self.keep_half(vcpu, Due { event, at_insns, block, index, overrun_insns: 0 });
                    continue;
                }
                Event::End(end) => end,
            };
            self.end_at(vcpu, end, pc, Due { event, at_insns, block, index, overrun_insns: 0 });
        }
    }

    /// Sets the instruction of the debugger's next check.
    fn set_hold(&mut self, at_insns: Option<u64>) {
        if self.counting.is_inline {
            self.clock.set_hold(at_insns);
        } else {
            self.hold_at = at_insns;
        }
    }

    /// Counts an instruction that one of several vCPUs of a debugged run is about to execute.
    pub(crate) fn step_to(&mut self, vcpu: u32, block: usize, index: u64) {
        let is_due = clock::advance(vcpu, 1, &self.ledger);
        if let Some(debugger) = &mut self.debugger {
            debugger.turn_to(vcpu);
        }
        let insns = self.ledger.insns_of_all();
        let pc = self.blocks.get(block).pc_of(index);
        if is_due {
            self.settle_here(vcpu, block, index, &Stack::new());
            self.clock.set(vcpu, &self.ledger);
        }
        if self.hold_at.is_some_and(|at| at <= insns) {
            self.ask(insns, pc);
        }
        if self.debugger.as_ref().is_some_and(|debugger| debugger.has_breakpoint(pc)) {
            self.break_at(pc);
        }
    }

    /// Runs the debugger's check at an instruction.
    fn ask(&mut self, insns: u64, pc: u64) {
        let Some(mut debugger) = self.debugger.take() else { return };
        let next = debugger.arrived(insns, pc, &mut self.guest, &self.ledger);
        self.set_hold(next);
        self.debugger = Some(debugger);
    }

    /// Handles a block of a debugged run in which an event is due, or near.
    pub(crate) fn await_in_block(&mut self, vcpu: u32, block: usize) {
        self.keep_distance(vcpu);
        self.await_event(vcpu, block, 0);
    }

    /// Changes to blocks that cannot be held while no event is near, and back.
    fn keep_distance(&mut self, vcpu: u32) {
        let Some(debugger) = &mut self.debugger else { return };
        let insns = self.ledger.insns(vcpu);
        let near = if self.counting.is_far { NEAR_INSNS } else { 2 * NEAR_INSNS };
        let mut is_far = debugger.may_be_far();
        while is_far && self.clock.insns_to_event(vcpu, &self.ledger) <= near {
            // A check for a request to hold the run can come at any instruction.
            match debugger.glance(insns, near).filter(|_| self.clock.holds_next(vcpu)) {
                Some(next) => self.clock.set_hold(Some(next)),
                None => is_far = false,
            }
        }
        if is_far != self.counting.is_far {
            debugger.go_far(is_far);
            self.clock.set_early(if is_far { NEAR_INSNS } else { 0 });
            self.counting.is_far = is_far;
        }
    }

    /// Sets the clock anew in the middle of a block of a debugged run; no instruction from the `index`-th on has
    /// started. If the next event falls into the rest of the block, its instruction's callback is armed.
    pub(crate) fn await_event(&mut self, vcpu: u32, block: usize, index: u64) {
        self.clock.set(vcpu, &self.ledger);
        let index = index + self.clock.insns_to_event(vcpu, &self.ledger).max(1) - 1;
        let block = self.blocks.get(block);
        let Some(&(flag, _)) = block.segments.get(index as usize) else { return };
        if block.segments.len() as u64 == block.insns() {
            self.ledger.set(flag, vcpu, 1);
        }
    }

    /// Handles an instruction that is about to execute and has a breakpoint or a due event. The event may also be an
    /// earlier one, which was expected here when the block was left early.
    pub(crate) fn stop_at(&mut self, vcpu: u32, block: usize, index: u64) {
        let pc = self.blocks.get(block).pc_of(index);
        if self.clock.is_due(vcpu, &self.ledger) {
            let stack = self.take_stack(vcpu, pc);
            self.settle_here(vcpu, block, index, &stack);
        }
        let flag = self.blocks.get(block).segments[index as usize].0;
        // The breakpoints may have changed since this callback was registered.
        let is_breakpoint = self.debugger.as_ref().is_some_and(|debugger| debugger.has_breakpoint(pc));
        if is_breakpoint {
            self.break_at(pc);
        }
        // The debugger may have changed them again.
        let is_breakpoint = self.debugger.as_ref().is_some_and(|debugger| debugger.has_breakpoint(pc));
        self.ledger.set(flag, vcpu, is_breakpoint.into());
        self.keep_distance(vcpu);
        self.await_event(vcpu, block, index + 1);
    }

    /// Handles a breakpoint at the instruction that is about to execute.
    fn break_at(&mut self, pc: u64) {
        let Some(mut debugger) = self.debugger.take() else { return };
        let next = debugger.breakpoint(self.ledger.insns_of_all(), pc, &mut self.guest, &self.ledger);
        self.set_hold(next);
        self.debugger = Some(debugger);
    }

    /// Tells the debugger that QEMU aborts, on any thread.
    pub(crate) fn aborts(&mut self) {
        let insns = self.ledger.insns_of_all();
        if let Some(debugger) = &mut self.debugger {
            debugger.aborts(insns);
        }
    }

    /// Handles an access of memory by a block's `index`-th instruction.
    pub(crate) fn accessed(&mut self, vcpu: u32, block: usize, index: u64, access: Access, is_store: bool) {
        // A segment is counted as a whole, so its later instructions are subtracted.
        let insns = self.ledger.insns_of_all() - self.blocks.get(block).after_in_segment(index);
        let pc = self.blocks.get(block).pc_of(index);
        let Some(debugger) = &mut self.debugger else { return };
        let accessed = debug::Accessed { address: access.address, is_store, by: insns };
        if debugger.accessed(accessed, access.bytes, pc, &mut self.guest) {
            self.set_hold(Some(insns + 1));
            if self.counting.is_inline {
                self.await_event(vcpu, block, index + 1);
            }
        }
    }

    /// Handles the due events of every vCPU at the end of execution.
    pub(crate) fn settle_all(&mut self) {
        self.asked.check(&mut self.ledger);
        (0..self.clock.vcpus()).for_each(|vcpu| self.settle(vcpu));
        self.follow.advance(&mut self.ledger);
        self.look_at_console(TIMEKEEPER);
    }

    /// Notes that the firmware may print.
    pub(crate) fn may_print(&mut self, vcpu: u32) {
        if let Some(marks) = &mut self.marks {
            marks.may_print(vcpu, &self.ledger);
        }
    }

    /// Puts a call of the host on the timeline, and makes the next block check for output.
    pub(crate) fn note_host_call(&mut self, vcpu: u32) {
        self.may_print(vcpu);
        if self.console.is_some() {
            let [operation, _] = self.guest.arguments();
            self.ledger.happened(vcpu, What::Semihosting { operation: operation as u32 });
            clock::recheck(vcpu, &self.ledger);
        }
    }

    /// Puts the firmware's output and its pins on the timeline. The vCPU's events have been settled.
    pub(crate) fn look_at_console(&mut self, vcpu: u32) {
        self.look_at_pins(vcpu);
        if let Some(console) = &mut self.console {
            console.look(vcpu, &mut self.ledger);
        }
    }

    fn sample(&mut self, vcpu: u32, at_insns: u64, pc: u64, stack: u32) {
        let (task, node, zone) = self.follow.place(vcpu, &mut self.ledger);
        self.ledger.sample(&Sample { at_insns, pc, vcpu, stack, task, node, zone });
        if let Some(marks) = &mut self.marks {
            marks.mark(vcpu, &mut self.ledger);
        }
    }

    /// First address of the memory that the stack has left. A debugged run goes on to where its profile ended.
    fn left_memory(&mut self) -> Option<u64> {
        // The stacks of several vCPUs are in turns.
        if self.clock.vcpus() > 1 || self.debugger.is_some() {
            return None;
        }
        descent::left_memory(&mut self.guest)
    }

    /// Ends a slice at an instruction that may have been passed meanwhile; later instructions count for the next one.
    fn cut_at(&mut self, vcpu: u32, due: Due) {
        let Some(mut slices) = self.slices.take() else { return };
        let turned_back = self.turn_back(vcpu, due);
        self.follow.advance(&mut self.ledger);
        slices.cut(true, &mut self.ledger);
        self.restore(vcpu, due, turned_back);
        self.slices = Some(slices);
    }

    /// Sets counters and clocks back to an instruction that may have been passed meanwhile.
    fn turn_back(&mut self, vcpu: u32, due: Due) -> (clock::TurnedBack, Taken) {
        let Due { at_insns, block, index, overrun_insns, .. } = due;
        let block = self.blocks.get(block);
        let State { ledger, cycles, .. } = self;
        let cycles = cycles.as_mut();
        let cycles = cycles.map(|cycles| cycles.take_back(vcpu, block, (index, overrun_insns), at_insns, ledger));
        ledger.uncount(vcpu, block, index, overrun_insns);
        let turned_back = clock::turn_back(vcpu, at_insns, ledger);
        let insns = self.clock.insns_of_run(vcpu, &self.ledger);
        let passage = self.passages.as_mut().and_then(|passages| passages.take_back(vcpu, insns, &mut self.ledger));
        (turned_back, Taken { cycles, passage })
    }

    /// Undoes [`State::turn_back`].
    fn restore(&mut self, vcpu: u32, due: Due, (clock, taken): (clock::TurnedBack, Taken)) {
        clock.restore(vcpu, &self.ledger);
        self.ledger.recount(vcpu, self.blocks.get(due.block), due.index, due.overrun_insns);
        if let Some(cycles) = taken.cycles {
            cycles.restore(vcpu, &self.ledger);
        }
        if let Some(passage) = taken.passage {
            passage.restore(vcpu, &self.ledger);
        }
    }

    /// Keeps the counters of the first half of the window, as they were at an instruction that may have been passed
    /// meanwhile.
    fn keep_half(&mut self, vcpu: u32, due: Due) {
        let turned_back = self.turn_back(vcpu, due);
        self.ledger.written(self.ledger.records().keep_counters(wire::COUNTERS_HALF));
        self.restore(vcpu, due, turned_back);
    }

    /// Begins the firmware's next phase here. The vCPU's events have been settled.
    pub(crate) fn enter_phase(&mut self, phase: u32) {
        self.follow.advance(&mut self.ledger);
        if let Some(slices) = &mut self.slices {
            slices.enter_phase(phase, &mut self.ledger);
        }
    }

    /// Ends the run at an instruction that may have been passed meanwhile.
    fn end_at(&mut self, vcpu: u32, end: End, pc: u64, due: Due) -> ! {
        // For good: nothing restores it.
        let _ = self.turn_back(vcpu, due);
        self.end(end, 0, pc)
    }

    fn has_written_enough(&mut self) -> bool {
        self.output.as_mut().is_some_and(Output::is_over)
    }

    /// Ends the run by the firmware's exit, unless its last output exceeds the limit.
    pub(crate) fn exit(&mut self, status: u64, pc: u64) -> ! {
        if self.has_written_enough() { self.end(End::Output, 0, pc) } else { self.end(End::Exit, status, pc) }
    }

    /// Ends the run here. The vCPU's events have been settled.
    pub(crate) fn end(&mut self, end: End, value: u64, pc: u64) -> ! {
        // `_exit` never returns: interrupts may have gone on, but the firmware has failed.
        let (end, value, pc) = match (end, self.exit_status, self.exit) {
            (End::For, Some(status), Some(exit)) if status as u32 != 0 && self.avr.is_none() => {
                (End::Exit, status, exit)
            }
            _ => (end, value, pc),
        };
        // A call for a file that was refused as QEMU made it is the end, whatever came after it.
        let (end, value, pc) = match self.asked.check(&mut self.ledger) {
            Some((operation, pc)) => (End::Denied, operation.into(), pc),
            None => (end, value, pc),
        };
        let left = if end == End::For && self.guest.is_readable() { self.left_memory() } else { None };
        let (end, value) = left.map_or((end, value), |start| (End::StackOverflow, start));
        if let Some(mut debugger) = self.debugger.take() {
            debugger.ended(end, value, self.ledger.insns_of_all(), pc, &mut self.guest, &self.ledger)
        }
        // The end may have come in another vCPU's turn.
        (0..self.clock.vcpus()).for_each(|vcpu| {
            self.amend(vcpu);
            self.end_passage(vcpu);
        });
        self.ledger.note_ahead(TIMEKEEPER);
        self.follow.advance(&mut self.ledger);
        if let Some(tasks) = &self.follow.tasks {
            tasks.note_paints(&mut self.guest, &self.ledger);
        }
        match end {
            End::For | End::MaxInsns | End::Faulting => self.note_only(pc),
            // Handlers of faults end the run in these ways.
            End::Exit | End::Reset if self.counting.is_inline => self.note_handler(TIMEKEEPER, pc),
            _ => {}
        }
        if let Some(heap) = &mut self.heap {
            heap.end(&self.ledger);
        }
        self.report_heap(TIMEKEEPER);
        self.look_at_console(TIMEKEEPER);
        let taken = self.take_snapshot(wire::SNAPSHOT_END);
        self.ledger.written(taken);
        self.ledger.close(end, value, pc)
    }

    /// Ends the window at an instruction that polls a register, and writes the processor's state there for harness.
    pub(crate) fn end_at_poll(&mut self, read: (u64, u64, u64), insns: u64) -> ! {
        if let Some(polled) = self.polled.take() {
            let written = polled.write(read, insns, &mut self.guest);
            self.ledger.written(written);
        }
        self.end(End::For, 0, read.0)
    }

    /// Whether an address is in the firmware's `_exit`.
    fn is_in_exit(&mut self, pc: u64) -> bool {
        let exit = self.exit.and_then(|exit| self.code.function_of(exit));
        exit.is_some() && self.code.function_of(pc) == exit
    }

    /// Ends the run at a loop that only an interrupt can leave, if `_exit` or the handler of a fault has come there and no
    /// interrupt can. The vCPU's events have been settled.
    pub(crate) fn spin(&mut self, vcpu: u32, pc: u64) {
        if self.clock.vcpus() > 1 || !self.counting.is_inline {
            return;
        }
        if let Some(status) = self.exit_status.filter(|_| self.is_in_exit(pc) && !self.guest.may_be_interrupted()) {
            self.exit(status, pc);
        }
        let has_left = self.has_left_handler(vcpu, pc);
        if self.follow.cores[vcpu as usize].fault.is_final(has_left, &mut self.guest) {
            self.end(End::Faulting, 0, pc);
        }
    }

    /// Notes a run without progress up to here: in one exception's handler, or polling one device.
    fn note_only(&mut self, pc: u64) {
        // With several vCPUs, another vCPU may make progress.
        let mut busy = (0..self.clock.vcpus()).filter(|&vcpu| self.ledger.insns(vcpu) > 0);
        let (Some(vcpu), None) = (busy.next(), busy.next()) else { return };
        if !self.counting.is_inline {
            return;
        }
        self.follow.device.note(&self.ledger);
        let insns = self.ledger.insns(vcpu);
        self.follow.device.note_all(insns, &mut self.ledger);
        self.follow.device.note_stores(&mut self.ledger);
        self.note_handler(vcpu, pc);
        // As QEMU exits, its functions for reading would fail an assertion.
        if !self.guest.is_readable() {
            return;
        }
        self.ledger.say(Word::Final, u64::from(!self.guest.may_be_interrupted()));
        self.ledger.say(Word::Masked, u64::from(self.guest.holds_back()));
    }

    /// Notes the exception in whose handler the run ends.
    fn note_handler(&mut self, vcpu: u32, pc: u64) {
        let has_left = self.has_left_handler(vcpu, pc);
        self.follow.cores[vcpu as usize].fault.note(vcpu, has_left, &mut self.guest, &self.ledger);
    }

    /// Notes the fault in whose handler the run has stayed, when the host ends the run.
    pub(crate) fn note_fault(&self) {
        if self.counting.is_inline {
            let by_jump = self.guest.facts.returns_by_jump;
            self.follow.cores[TIMEKEEPER as usize].fault.note_unasked(TIMEKEEPER, by_jump, &self.ledger);
        }
    }

    /// Whether the handler that started last was left by a jump to interrupted code: none of its frames is on the
    /// stack, which is not deeper than before.
    fn has_left_handler(&mut self, vcpu: u32, pc: u64) -> bool {
        let State { guest, code, ledger, follow, stacks, transfers, .. } = self;
        let core = &follow.cores[vcpu as usize];
        let Some((handler, entry_sp)) = core.fault.handler() else { return false };
        let handler = code.function_of(handler);
        let is_handlers = |code: &Code, pc: u64| handler.is_some() && code.function_of(pc) == handler;
        if guest.stack_pointer() < entry_sp || is_handlers(code, pc) {
            return false;
        }
        // Without stacks this is the only evidence: no frame of the handler exists.
        let Some(stacks) = stacks.as_mut() else { return true };
        let frames = stacks.take(core, pc, transfers.has_led_to(pc), guest, code, ledger);
        let shows_handler = frames.iter().any(|frame| match *frame {
            FrameKind::Exception { .. } => true,
            FrameKind::Caller { return_addr } => is_handlers(code, return_addr.wrapping_sub(1)),
            FrameKind::Unknown(_) => false,
        });
        !shows_handler
    }

    /// Puts changes of pins on the timeline. The vCPU's events have been settled.
    fn look_at_pins(&mut self, vcpu: u32) {
        for change in self.pins.iter().flat_map(Pins::take) {
            self.ledger.happened(vcpu, change);
        }
    }

    /// Copies the memory that harness asked for into a file of this name.
    pub(crate) fn take_snapshot(&mut self, name: &str) -> io::Result<()> {
        self.snapshot.as_ref().map_or(Ok(()), |snapshot| snapshot.take(name, &mut self.guest))
    }

    /// Checks for changes at the start of a vCPU's next block, which begins at `pc`, for which a callback was requested.
    pub(crate) fn look_again(&mut self, vcpu: u32, pc: u64) {
        self.look_at_pins(vcpu);
        let State { guest, code, ledger, follow, console, .. } = self;
        if follow.tree.is_some() || follow.has_contexts {
            follow.leave_exceptions(vcpu, pc, guest, code, ledger);
        }
        if let Some(masks) = follow.masks() {
            masks.check_mask(vcpu, guest, ledger);
        }
        // A call of the host may have printed.
        if let Some(console) = console {
            console.look(vcpu, ledger);
        }
    }

    /// Checks whether the next event may fall into a block that is about to run its `index`-th instruction.
    pub(crate) fn suspect(&mut self, vcpu: u32, block: usize, index: u64) {
        let reach = self.blocks.get(block).insns() - index;
        let suspect = self.clock.is_in_reach(vcpu, reach, &self.ledger).then(|| {
            let pc = self.blocks.get(block).pc_of(index);
            Suspect { block, index, insns: self.ledger.insns(vcpu), stack: self.take_stack(vcpu, pc) }
        });
        let is_suspected = suspect.is_some();
        self.clock.suspect(vcpu, suspect, &self.ledger);
        // The next block may be another vCPU's. It also settles this block first.
        if is_suspected {
            let others = (0..self.clock.vcpus()).filter(|&other| other != vcpu);
            others.for_each(|other| clock::recheck(other, &self.ledger));
        }
    }

    /// Takes the stack at an instruction that is about to execute, once its task and exception are certain.
    pub(crate) fn take_stack(&mut self, vcpu: u32, pc: u64) -> Stack {
        let State { guest, code, ledger, follow, stacks, transfers, .. } = self;
        let Some(stacks) = stacks else { return Stack::new() };
        follow.leave_exceptions(vcpu, pc, guest, code, ledger);
        follow.check_task(vcpu, guest, ledger);
        let stack = stacks.take(&follow.cores[vcpu as usize], pc, transfers.has_led_to(pc), guest, code, ledger);
        stacks.note_left(ledger);
        stack
    }

    /// Checks the room of a stack that no kernel describes, after an instruction has taken the stack pointer out of the last
    /// one. `id` is the next instruction.
    pub(crate) fn check_room(&mut self, vcpu: u32, id: usize, sp: u64) {
        let State { guest, code, ledger, follow, stacks, transfers, blocks, .. } = self;
        let core = &mut follow.cores[vcpu as usize];
        if core.is_on_tasks_stack(core.exceptions.len(), guest.isa) {
            return;
        }
        let Some(stacks) = stacks.as_mut().filter(|stacks| stacks.has_rooms()) else { return };
        let (block, index) = from_insn_id(id);
        let block = blocks.get(block);
        let pc = block.pc_of(index);
        // The instruction's segment is counted as a whole.
        let mover = (block.pc_of(index - 1), ledger.insns(vcpu) - block.after_in_segment(index - 1));
        let room = stacks.check_room(core, (pc, transfers.has_led_to(pc)), mover, guest, code, ledger);
        // On AVR the innermost frame does not count: the next call shows whether the stack is so deep.
        let is_near = core.room.start.checked_sub(sp).is_some_and(|below| below < AVR_STEP_BYTES);
        if !(guest.isa.is_avr() && is_near && stacks.has_rooms()) {
            core.room = room;
        }
    }

    /// Checks the room of the stack at the start of a block that is about to make it deeper.
    pub(crate) fn check_depth(&mut self, vcpu: u32, block: usize) {
        let sp = self.guest.stack_pointer();
        let Some(depth) = &mut self.depth else { return };
        let deepest = depth.moves(block).last().map_or(sp, |last| sp.wrapping_sub(last.depth));
        if self.follow.cores[vcpu as usize].is_in_room(deepest) {
            return depth.is_elsewhere();
        }
        if !self.stacks.as_ref().is_some_and(Stacks::has_rooms) {
            return;
        }
        self.settle(vcpu);
        self.wake(vcpu);
        let State { guest, code, ledger, follow, stacks, transfers, blocks, depth, .. } = self;
        let (Some(stacks), Some(depth)) = (stacks, depth) else { return };
        let (block, moves) = (blocks.get(block), depth.moves(block));
        follow.leave_exceptions(vcpu, block.pc, guest, code, ledger);
        let core = &mut follow.cores[vcpu as usize];
        let started = ledger.insns(vcpu);
        let mover = |index| (block.pc_of(index), started + index + 1);
        let by_transfer = transfers.has_led_to(block.pc);
        core.room = stacks.check_depth(core, (block.pc, by_transfer), (moves, mover), guest, code, ledger);
    }

    /// Looks for the place of the registers.
    pub(crate) fn seek_registers(&mut self) {
        let Some(registers) = self.guest.registers() else { return };
        registers.seek();
        if !matches!(registers.place(0), RegisterPlace::Sought) {
            Depth::end_search();
            let State { depth, guest, .. } = self;
            for pc in depth.as_mut().map(Depth::take_early).unwrap_or_default() {
                // What a debugger writes discards the translation, though it is the same.
                if let Some(code) = guest.memory(pc, CODE_BYTES) {
                    qemu::write_memory(pc, &code);
                }
            }
        }
    }

    /// Opens the window at this instruction: all counts start again.
    pub(crate) fn open_window(&mut self) {
        if self.clock.opens_late()
            && let Some(snapshot) = &self.snapshot
        {
            let taken = snapshot.take(wire::SNAPSHOT_OPEN, &mut self.guest);
            self.ledger.written(taken.and_then(|()| self.ledger.records().keep_counters(wire::COUNTERS_OPEN)));
        }
        let before = self.ledger.insns_of_all();
        if let Some(pace) = &mut self.pace {
            pace.before_window += self.ledger.time(TIMEKEEPER).cycles;
        }
        self.ledger.clear_counters();
        self.follow.restart(&self.ledger);
        if let Some(heap) = &mut self.heap {
            heap.restart(before, &self.ledger);
        }
        self.report_heap(TIMEKEEPER);
        self.transfers.restart(&self.ledger);
        self.accesses.iter_mut().for_each(Accesses::restart);
        if let Some(branches) = &mut self.branches {
            branches.restart();
        }
        if let Some(cycles) = &mut self.cycles {
            cycles.restart();
        }
        for vcpu in 0..self.clock.vcpus() {
            let insns = self.clock.insns_of_run(vcpu, &self.ledger);
            self.passages.iter_mut().for_each(|passages| passages.restart(vcpu, insns));
        }
        if let Some(slices) = &mut self.slices {
            slices.restart();
        }
        self.clock.open_window(&self.ledger);
        if let Some(calls) = &mut self.calls {
            calls.restart(&self.ledger);
        }
        if let Some(console) = &mut self.console {
            console.restart();
            self.ledger.open_timeline();
            self.follow.open_timeline(&mut self.ledger);
        }
    }

    /// Notes a store to a register that the instruction at `pc` has just made.
    pub(crate) fn note_write(&mut self, vcpu: u32, pc: u64, address: u64) {
        if self.accesses.is_none() {
            return;
        }
        self.settle(vcpu);
        let insns = self.ledger.insns(vcpu);
        self.accesses.iter_mut().for_each(|accesses| accesses.write(pc, address, insns));
    }

    /// Notes an instruction after which the machine may sleep; the next block finds out whether it did.
    pub(crate) fn sleeps(&mut self, vcpu: u32) {
        if let Some(sleep) = &mut self.sleep {
            sleep.begin();
            clock::recheck(vcpu, &self.ledger);
        }
    }

    /// Ends a wait, if there was one, before an instruction executes. All instructions before are settled.
    pub(crate) fn wake(&mut self, vcpu: u32) {
        if let Some(sleep) = self.sleep.as_mut().filter(|sleep| sleep.waits()) {
            let ahead_ns = self.pace.as_ref().map_or(0, |pace| pace.time.ahead_ns());
            let ns = sleep.end(vcpu, self.clock.insns_of_run(vcpu, &self.ledger), ahead_ns, &mut self.ledger);
            if let Some(tasks) = &self.follow.tasks {
                tasks.slept(vcpu, self.follow.cores[vcpu as usize].task, ns, &self.ledger);
            }
        }
    }

    /// Writes a vCPU's heap events, and passes them to the parts that use them.
    pub(crate) fn report_heap(&mut self, vcpu: u32) {
        let has_vcpus = self.clock.vcpus() > 1;
        for event in self.heap.iter_mut().flat_map(Heap::take_events) {
            self.ledger.heap(&event);
            // The heap's clock counts all vCPUs.
            if has_vcpus {
                self.ledger.happened(vcpu, What::Heap);
            }
        }
    }

    /// Types console input that is due. `waits`: the firmware is about to wait.
    pub(crate) fn look(&mut self, waits: bool) {
        let now = self.clock.insns_of_run(TIMEKEEPER, &self.ledger);
        if let Some(input) = &mut self.input {
            self.clock.set_input(input.look(now, waits, &self.ledger));
        }
    }

    /// Types console input that is due in the middle of a block, because the firmware is about to wait.
    pub(crate) fn look_in_block(&mut self) {
        if self.input.as_ref().is_none_or(Input::is_over) {
            return;
        }
        self.look(true);
        // The next check may now be at another instruction, and a due one is done.
        self.ledger.set(INPUT, TIMEKEEPER, 0);
        if self.counting.by_blocks() {
            clock::recheck(TIMEKEEPER, &self.ledger);
        } else {
            let called = clock::called(TIMEKEEPER, &self.ledger);
            self.clock.set(TIMEKEEPER, &self.ledger);
            // Another part has asked for that callback.
            if called.by_recheck {
                clock::recheck(TIMEKEEPER, &self.ledger);
            }
        }
    }

    /// Notes that the firmware is about to read a byte from the semihosting console.
    pub(crate) fn semihosting_reads(&mut self) {
        if let Some(input) = &mut self.input {
            input.semihosting_reads();
            self.look_in_block();
        }
    }
}
