// SPDX-License-Identifier: GPL-2.0-or-later
//! Translation: places inline counters and callbacks. Runs once per translated block; only the generated code that it
//! leaves runs per instruction.
//!
//! QEMU runs what is registered at an instruction in the order of registration, so the order affects a profile's
//! content. It is defined in one place: [`AT_BLOCK`] and [`AT_INSN`].

use decode::{Flow, Isa, decode};
use engine::block::{
    Block, Count, Segment, Step, arrival_id, counts, from_insn_id, insn_id, paced_id, progress, wait_id,
};
use engine::branches::Branch;
use engine::code::Code;
use engine::cycles::Cycles;
use engine::follow::{Follow, arrival};
use engine::passage::{Mode, Passages};
use engine::prediction::{Check, Prediction};
use engine::room::Move;
use engine::skip::Skips;
use engine::transfer::{Site, SiteKind, Transfers};
use wire::counters::{
    ASLEEP, CLOCK, DUE, EXCEPTIONS, FAULTED, FIRST_SITE, FIRST_TASK, HERE, INPUT, LAST, LINK, STACK_SET,
    VECTOR_MOVES, here,
};
use wire::definition::{Transfer, TransferKind};
use wire::request::Semihosting;

use crate::avr::Avr;
use crate::debug::Debugger;
use crate::depth::Depth;
use crate::hooks::{
    BeforeWdr, OnAllocated, OnAllocator, OnArrival, OnBlock, OnBound, OnCalled, OnCrossing, OnDeeper, OnDelete,
    OnDevice, OnDeviceStore, OnDivision, OnDueBlock, OnEntered, OnEvent, OnEventWait, OnException, OnExceptionReturn,
    OnExchange, OnExit, OnFarLoad, OnFarLoaded, OnFaultReturn, OnFirstTask, OnForgetful, OnForgetting, OnFrom,
    OnFunction, OnHold, OnIdle, OnInput, OnInterrupted, OnLanding, OnLife, OnLoad, OnMask, OnMasked, OnMispredicted,
    OnPace, OnPacedBlock, OnPacedPassage, OnPassage, OnPoll, OnPolled, OnPort, OnPredictedBlock, OnRegisterJump,
    OnReturned, OnSegment, OnSemihosting, OnSkippable, OnSkipped, OnSleep, OnSought, OnSpin, OnStackMove, OnStackSet,
    OnStatus, OnStep, OnStop, OnStore, OnSwitch, OnTransfer, OnTrapReturn, OnUnmasked, OnUnsure, OnUntil, OnVector,
    OnWait, OnWatchedLoad, OnWatchedStore, OnWay, OnWdr, OnZone, OracleBranch, OracleCount, OracleRecheck,
    OracleSample, OracleWay,
};
use crate::qemu::{self, Block as QemuBlock, Cell, Hook, Insn, RegisterPlace, TranslateCallback, TranslateHook};
use crate::state::{self, Counting, State};

/// Actions at a block's start, before any at its first instruction.
#[derive(Clone, Copy, Debug)]
enum AtBlock {
    Restart,
    Passage,
    Skipped,
    Interrupted,
    Exception,
    Entered,
    FirstTask,
    Exchange,
    Depth,
    Polled,
    Poll,
    Allocated,
    Returned,
    Events,
    Way,
    Arrival,
    Function,
    Input,
    Hold,
}

/// The order at the start of a block.
const AT_BLOCK: [AtBlock; 19] = [
    // Nothing has come yet: it all comes as the block is looked for again.
    AtBlock::Restart,
    // The block before is over, so all that looks at the clock of cycles comes later.
    AtBlock::Passage,
    // Before its first instruction, which takes the mark of a skip away.
    AtBlock::Skipped,
    AtBlock::Interrupted,
    // A handler that has started must be known before a sample in this block.
    AtBlock::Exception,
    // The cycles until it has started are the handler's.
    AtBlock::Entered,
    // The first task must be known before a sample in its first block, too.
    AtBlock::FirstTask,
    // The stack before must be known before a sample on the other one.
    AtBlock::Exchange,
    // Before a sample in this block finds the stack outside of its room.
    AtBlock::Depth,
    // The polled task must be known before a sample, too.
    AtBlock::Polled,
    AtBlock::Poll,
    // Before an exception's return or another call is handled.
    AtBlock::Allocated,
    AtBlock::Returned,
    AtBlock::Events,
    // After a limit that ends the run before the way, or the transfer, has arrived. Arrival clears the cell.
    AtBlock::Way,
    AtBlock::Arrival,
    // Returned exceptions are handled by now. The function is entered or left before its first instruction is
    // counted.
    AtBlock::Function,
    // One of the events may have asked for input.
    AtBlock::Input,
    // All actions that may set the clock are done.
    AtBlock::Hold,
];

/// Actions at an instruction.
#[derive(Clone, Copy, Debug)]
enum AtInsn {
    Passage,
    StackMove,
    FirstTask,
    Masked,
    Restart,
    Function,
    Crossing,
    Leave,
    ExceptionReturn,
    Forgetful,
    Idle,
    Delete,
    Switch,
    Until,
    Bound,
    Mask,
    From,
    Called,
    Allocator,
    Zone,
    Event,
    Way,
    Count,
    Port,
    Pace,
    Division,
    Sample,
    Skippable,
    Status,
    FarLoad,
    Branch,
    Transfer,
    Vector,
    Semihosting,
    TrapReturn,
    Stop,
    Spin,
    Wait,
    Feed,
    EventWait,
    Watch,
    Store,
    Split,
}

/// The order at an instruction.
const AT_INSN: [AtInsn; 43] = [
    // The cycles of the instructions before it.
    AtInsn::Passage,
    // Effects of the instruction before it in the block.
    AtInsn::StackMove,
    AtInsn::FirstTask,
    AtInsn::Masked,
    // Nothing that belongs to the instruction has come yet: it all comes as the instruction starts again.
    AtInsn::Restart,
    // Function of this instruction, where a block runs into another function; before the instruction is counted.
    AtInsn::Function,
    // Possible targets of this instruction: the next block tells.
    AtInsn::Crossing,
    AtInsn::Leave,
    AtInsn::ExceptionReturn,
    // Actions that read the function's arguments and return address while they are in their registers.
    AtInsn::Forgetful,
    AtInsn::Idle,
    AtInsn::Delete,
    // After the instruction's stores, and so before `Store` in any case.
    AtInsn::Switch,
    // In a window that ends here, and not in one that opens here: the branch was before it.
    AtInsn::Way,
    // Bounds come before the count, so that counters cleared or read there exclude this instruction. A span that ends
    // here ends in the window that ends here; one that begins here begins in the window that begins here.
    AtInsn::Until,
    AtInsn::Bound,
    AtInsn::From,
    // In the window that may open here.
    AtInsn::Called,
    AtInsn::Allocator,
    // A zone that begins here includes this instruction, and one that ends here does not.
    AtInsn::Zone,
    // An event that wakes the processor ends a sleep that excludes this instruction.
    AtInsn::Event,
    // From here on the instruction has started: the clock includes it and all of its segment, or all of its block
    // where that is counted as a whole.
    AtInsn::Count,
    // A device may decide how long the instruction takes, and what is due at the instruction has its cycles.
    AtInsn::Pace,
    // Only the cycles of the instruction change.
    AtInsn::Division,
    // The device looks at the time. This settles what is due.
    AtInsn::Port,
    AtInsn::Sample,
    AtInsn::Skippable,
    AtInsn::Status,
    AtInsn::FarLoad,
    // The next segment, or block, checks for changes.
    AtInsn::Mask,
    AtInsn::Branch,
    // The alarm is added to the increased clock.
    AtInsn::Transfer,
    // Effective from the next block on.
    AtInsn::Vector,
    // Actions that end the run or wait come at an instruction that has started.
    AtInsn::Semihosting,
    AtInsn::TrapReturn,
    AtInsn::Stop,
    AtInsn::Spin,
    AtInsn::Wait,
    AtInsn::Feed,
    AtInsn::EventWait,
    // After the instruction's accesses; an access that ends the run is handled before.
    AtInsn::Watch,
    AtInsn::Store,
    // The instruction may start in another block instead, where nothing of the above comes again.
    AtInsn::Split,
];

/// Properties of an instruction, determined before anything is registered.
struct Planned {
    pc: u64,
    size: u8,
    /// Whether the following instruction may not start.
    ends_segment: bool,
    /// Whether a new segment must start here: the window opens or closes before this instruction.
    bound: bool,
    transfer: Option<Transfer>,
    site: Option<Site>,
    /// The branch that it is, if its ways are counted.
    branch: Option<Branch>,
    /// Whether QEMU has made a semihosting call of it.
    calls_host: bool,
    wait: bool,
    /// Bytes that it takes off the stack pointer; None: it changes it in another way, or may not execute.
    taken: Option<u64>,
    /// Whether it is a `wfe`, and whether it is a `sev`.
    event_wait: bool,
    event: bool,
    trap_return: bool,
    /// [`here`] of its function.
    here: u64,
    /// Whether control may go elsewhere than to the next instruction, other than by a call.
    leaves_function: bool,
    /// Whether it may end or start an activation of its own function.
    leaves_activation: bool,
    /// Whether it may switch to another stack.
    sets_sp: bool,
    /// Value of [`LINK`] after it, if it is a call.
    link: Option<u64>,
    /// Address in another function's middle that it may jump to.
    crossing: Option<u64>,
    moves_sp: bool,
    changes_mask: bool,
    /// Whether it accesses a device that looks at the time, within its block.
    port: bool,
    /// Skips of AVR right before it.
    skips: Skips,
    /// Whether it is a jump to a computed address that one of them may skip.
    skippable: bool,
    /// Whether it is a `wdr`.
    feeds: bool,
    /// Register that it writes to AVR's status register.
    status: Option<u8>,
    /// Whether the one before it may have allowed interrupts, and it can be a block of its own.
    splits: bool,
    pace: Pace,
    /// Whether it reads flash at RAMPZ.
    far_load: bool,
    /// Whether it reads flash as data, on AVR.
    reads_flash: bool,
    /// Whether a `--span` begins here, and whether one ends here.
    between: (bool, bool),
    /// Whether a function that allocates or frees memory starts here.
    allocator: bool,
    /// Whether a function starts here whose calls are followed.
    called: bool,
    /// Whether it begins or ends a zone, or a call that belongs to waiting.
    zone: bool,
    /// Whether it may be a store; branches, which end most blocks, are not.
    may_store: bool,
    /// Whether traps may have another target after it.
    moves_vector: bool,
    /// Whether it is a jump that an exception may return by.
    may_return_from_exception: bool,
    /// Whether it is translated for exceptions.
    in_exception: bool,
    /// Whether a block ends here for any start of the block and any cause that cuts others short.
    ends_block: bool,
    /// Whether it certainly reads and writes registers only, and goes on with the next instruction.
    is_plain: bool,
    /// Target, if it always jumps to one address.
    jumps_to: Option<u64>,
}

/// Count of an instruction's cycles, if there is one.
struct Pace {
    /// Its usual cycles, on AVR.
    cycles: u64,
    /// Whether its cycles depend on what it finds, on AVR.
    varies: bool,
    /// The instruction for a core whose cycles are counted by passages.
    insn: Option<pipeline::model::Insn>,
    /// Target that such an instruction's code names.
    leads_to: Option<u64>,
    /// Whether its operands decide on its cycles there.
    divides: bool,
}

impl Pace {
    /// An instruction. `after_skip`: the one before it may skip it.
    fn of(
        state: (&mut Option<Cycles>, &mut Option<Passages>),
        isa: Isa,
        pc: u64,
        bytes: &[u8],
        after_skip: bool,
    ) -> Pace {
        let (cycles, passages) = state;
        let leads_to = passages.as_ref().filter(|_| isa.is_thumb()).and_then(|_| match decode(isa, pc, bytes).flow {
            Flow::Call { target } => Some(target),
            flow => jump_target(flow),
        });
        let insn = passages.as_ref().map(|passages| passages.decode(bytes));
        Pace {
            leads_to,
            varies: cycles.as_mut().is_some_and(|cycles| cycles.plan(isa, pc, bytes, after_skip)),
            cycles: cycles.as_ref().map_or(0, |cycles| cycles.usual(pc)),
            divides: insn.iter().zip(passages).any(|(insn, passages)| passages.plan(pc, insn)),
            insn,
        }
    }
}

/// Hook for each block that QEMU translates.
pub(crate) struct Translate;

impl TranslateHook for Translate {
    const CALL: TranslateCallback = |block| translate(&mut state::lock(), block);
}

/// One instruction that hooks are registered at.
struct At<'a> {
    insn: Insn<'a>,
    planned: &'a Planned,
    /// The previous instruction of the block.
    before: Option<&'a Planned>,
    /// The next one.
    next: Option<&'a Planned>,
    count: Option<Count>,
    /// Number of the code whose passage begins here, in the middle of the block.
    passage: Option<usize>,
    /// Usual cycles of what is counted here.
    cycles: u64,
    /// See [`insn_id`].
    id: usize,
    is_last: bool,
    /// Whether it closes a loop that only an interrupt can leave.
    spins: bool,
    /// Whether the block always leaves a site's number in the LAST cell: it is written as the block ends, and the
    /// block cannot be left before.
    overwrites_last: bool,
}

fn translate(state: &mut State, qemu_block: &QemuBlock) {
    state.guest.learn_memory();
    state.choose_counting();
    state.counting.translating = state.executing_vcpu().unwrap_or(0);
    let State { avr, guest, .. } = state;
    if avr.as_mut().is_some_and(|avr| avr.is_again(qemu_block, guest)) {
        // All that belongs to the instruction happened at its first start.
        qemu_block.call::<OnDevice>(qemu_block.insns().next().map_or(0, |insn| insn.pc() as usize));
        register_store(state, qemu_block);
        return;
    }
    let plan = plan(state, qemu_block);
    let Some(first) = plan.first() else { return };
    let is_held = state.counting.is_debugged && !state.counting.is_far;
    let is_single = state.counting.is_oracle || is_held;
    let parts: Vec<&[Planned]> =
        plan.chunk_by(|insn, next| !insn.ends_segment && !next.bound && !is_single).collect();
    let is_whole = is_counted_whole(state, &plan, parts.len());
    let mut segments = Vec::new();
    for part in if is_whole { vec![&plan[..]] } else { parts.clone() } {
        let segment = Segment {
            pc: part[0].pc,
            sizes: part.iter().map(|insn| insn.size).collect(),
            transfer: part.last().and_then(|insn| insn.transfer),
        };
        let slot = state.ledger.segment(segment);
        if let (Some(debugger), true) = (&mut state.debugger, is_held) {
            debugger.translated(part[0].pc, slot, &state.ledger);
        }
        segments.push((slot, part.len() as u32));
    }
    let mut started = 0;
    let started = parts.iter().map(|part| {
        started += part.len() as u32;
        started
    });
    let block = state.blocks.number(Block {
        pc: first.pc,
        function: state.code.function_of(first.pc),
        sizes: plan.iter().map(|insn| insn.size).collect(),
        segments: segments.clone().into(),
        exits: started.take(if is_whole { parts.len() - 1 } else { 0 }).collect(),
    });
    let prediction = predict(state, block, first.pc);
    for what in AT_BLOCK {
        register_at_block(state, what, qemu_block, block, &plan, prediction);
    }
    let mut counts = counts(block, state.blocks.get(block)).into_iter().peekable();
    for (index, (insn, planned)) in qemu_block.insns().zip(&plan).enumerate() {
        let count = counts.next_if(|&(at, _)| at == index).map(|(_, count)| count);
        let counted = &plan[index..index + count.map_or(0, Count::insns)];
        let at = At {
            insn,
            planned,
            before: index.checked_sub(1).and_then(|before| plan.get(before)),
            next: plan.get(index + 1),
            count,
            passage: if index > 0 { passage(state, &plan, index) } else { None },
            cycles: counted.iter().map(|insn| insn.pace.cycles).sum(),
            id: insn_id(block, index),
            is_last: index + 1 == plan.len(),
            spins: spins(&plan[..=index]),
            overwrites_last: parts.len() == 1 && plan[plan.len() - 1].site.is_some(),
        };
        for what in AT_INSN {
            register(state, what, &at);
        }
        let asks = planned.pace.varies || planned.far_load || planned.wait || planned.feeds;
        if let (Some(avr), true) = (&mut state.avr, asks && !planned.skips.are_none()) {
            avr.set_skips(block, index as u64, planned.skips.clone());
        }
    }
}

/// Whether the last of a block's instructions jumps back to one of them, and those between only change registers: then
/// only an interrupt leaves the loop.
fn spins(insns: &[Planned]) -> bool {
    let Some(target) = insns.last().and_then(|last| last.jumps_to) else { return false };
    let turn = insns.iter().skip_while(|insn| insn.pc != target);
    let count = turn.clone().count();
    count > 0 && turn.take(count - 1).all(|insn| insn.is_plain)
}

/// Registers the cycles of a store that starts again, which no other callback sees.
fn register_store(state: &mut State, qemu_block: &QemuBlock) {
    let (Some(cycles), Some(store)) = (&mut state.cycles, qemu_block.insns().next()) else { return };
    let (bytes, length) = store.bytes();
    if cycles.plan_store(store.pc(), &bytes[..length]) {
        qemu_block.call::<OnDeviceStore>(store.pc() as usize);
    }
}

/// Whether one counter counts a block that can be left early, which [`crate::state::State::settle`] then amends; no
/// callback in its middle may read the clock. Blocks that were cut short are counted by segments, since each of their
/// many lengths would need a counter. Blocks at their natural end are as few as their possible starts.
fn is_counted_whole(state: &State, plan: &[Planned], parts: usize) -> bool {
    state.counting.by_blocks()
        && state.follow.tree.is_none()
        && parts > 1
        && plan.last().is_some_and(|last| last.ends_block)
        && !plan.iter().skip(1).any(|insn| insn.bound)
        && !plan
            .iter()
            .any(|insn| looks_at_clock(insn, &state.follow) || [state.stop, state.exit].contains(&Some(insn.pc)))
        && progress(state.blocks.count(), parts).is_some()
}

/// Whether a callback at an instruction looks at the clock.
fn looks_at_clock(insn: &Planned, follow: &Follow) -> bool {
    let by_task = follow.tasks.as_ref().is_some_and(|tasks| {
        tasks.deletes_at(insn.pc)
            || (insn.may_store && tasks.may_switch_at(insn.pc))
            || (insn.sets_sp && tasks.waits_for_first())
    });
    insn.calls_host
        || insn.changes_mask
        || insn.port
        || insn.pace.varies
        || insn.wait
        || insn.feeds
        || insn.event_wait
        || insn.event
        || by_task
}

/// Cell of a counter, valid for this translation.
fn cell(state: &State, slot: u32) -> Cell {
    let vcpu = state.counting.translating;
    state.counting.scoreboard.cell(state.ledger.address(slot, vcpu), vcpu)
}

/// Predicts how control arrives at a block, where that spares callbacks. Returns the prediction's number.
fn predict(state: &mut State, block: usize, pc: u64) -> Option<usize> {
    let State { guest, code, ledger, counting, follow, transfers, predictions, .. } = state;
    if !counting.by_blocks() || follow.tree.is_some() || !code.is_pointed(pc) {
        return None;
    }
    let epoch = guest.epoch_without_exception(pc)?;
    let (site, slot) = transfers.arriving_call(counting.translating, pc, ledger)?;
    Some(predictions.number(Prediction { block, epoch, site, slot }))
}

/// The counter of the calls that are to return to a block, by one of those that watch calls; None: no call may, or none is
/// watched.
fn awaited(state: &mut State, by: AtBlock, pc: u64) -> Option<u32> {
    let State { guest, code, ledger, follow, heap, calls, .. } = state;
    let mut may_return = || code.is_return_address(pc, guest);
    match by {
        AtBlock::Polled => Some(follow.polls.as_mut().filter(|_| may_return())?.awaited_at(pc, ledger)),
        AtBlock::Allocated => Some(heap.as_mut().filter(|_| may_return())?.awaited_at(pc, ledger)),
        AtBlock::Returned => Some(calls.as_mut().filter(|_| may_return())?.awaited_at(pc, ledger)),
        _ => None,
    }
}

/// Registers the return of watched calls to a block, if any may return there.
fn register_return<H: Hook>(state: &mut State, by: AtBlock, qemu_block: &QemuBlock, (block, pc): (usize, u64)) {
    if let Some(awaited) = awaited(state, by, pc) {
        qemu_block.call_when_at_least::<H>(cell(state, awaited), 1, insn_id(block, 0));
    }
}

/// Registers the start of a poll, and of what begins or ends a future, at a block's first instruction.
fn register_poll(state: &State, block: usize, pc: u64, qemu_block: &QemuBlock) {
    let Some(polls) = &state.follow.polls else { return };
    if polls.begins_at(pc) {
        qemu_block.call::<OnPoll>(insn_id(block, 0));
    }
    if polls.changes_at(pc) {
        qemu_block.call::<OnLife>(insn_id(block, 0));
    }
}

fn register_at_block(
    state: &mut State,
    what: AtBlock,
    qemu_block: &QemuBlock,
    block: usize,
    plan: &[Planned],
    prediction: Option<usize>,
) {
    let pc = plan[0].pc;
    match what {
        AtBlock::Restart if plan[0].feeds => qemu_block.call_to_leave::<BeforeWdr>(insn_id(block, 0)),
        AtBlock::Passage => register_passage(state, qemu_block, block, plan),
        AtBlock::Skipped if !plan[0].skips.are_none() => qemu_block.call::<OnSkipped>(0),
        AtBlock::Interrupted if state.avr.is_some() && state.guest.may_be_handler(pc, true) => {
            qemu_block.call::<OnInterrupted>(insn_id(block, 0));
        }
        AtBlock::Entered if state.cycles.is_some() && state.guest.may_be_handler(pc, true) => {
            qemu_block.call::<OnEntered>(insn_id(block, 0));
        }
        // The block that runs before the first task's stack is used is also translated before that.
        AtBlock::FirstTask if waits_for_first_task(state) => {
            qemu_block.call_when_at_least::<OnFirstTask>(cell(state, FIRST_TASK), 1, insn_id(block, 0));
        }
        AtBlock::Exchange if state.code.exchange(pc).is_some() && !state.counting.is_debugged => {
            qemu_block.call::<OnExchange>(insn_id(block, 0));
        }
        AtBlock::Function if state.follow.tree.is_some() => {
            qemu_block.call_unless::<OnFunction>(cell(state, HERE), plan[0].here, insn_id(block, 0));
        }
        AtBlock::Restart
        | AtBlock::Skipped
        | AtBlock::Interrupted
        | AtBlock::Entered
        | AtBlock::FirstTask
        | AtBlock::Exchange
        | AtBlock::Function => {}
        // The profile, which exists already, has the exceptions.
        AtBlock::Exception if state.counting.is_debugged => {}
        AtBlock::Exception => {
            if state.guest.may_be_handler(pc, state.code.may_be_entry(pc)) {
                qemu_block.call::<OnException>(insn_id(block, 0));
            }
        }
        AtBlock::Depth => register_depth(state, qemu_block, block, plan),
        AtBlock::Polled => register_return::<OnPolled>(state, what, qemu_block, (block, pc)),
        AtBlock::Poll => register_poll(state, block, pc, qemu_block),
        AtBlock::Allocated => register_return::<OnAllocated>(state, what, qemu_block, (block, pc)),
        AtBlock::Returned => register_return::<OnReturned>(state, what, qemu_block, (block, pc)),
        AtBlock::Events => {
            let due = DUE - plan.len() as u64;
            if let Some(number) = prediction {
                let checks = state.predictions.get(number).at_events(plan.len() as u64);
                checks.into_iter().for_each(|check| register_check(state, check, qemu_block, number));
            } else if state.counting.by_blocks() {
                let id = arrival_id(block, state.guest.epoch_without_exception(pc));
                qemu_block.call_when_at_least::<OnBlock>(cell(state, CLOCK), due, id);
            } else if state.counting.is_oracle && state.counting.is_inline {
                qemu_block.call_when_at_least::<OracleRecheck>(cell(state, CLOCK), DUE, insn_id(block, 0));
            }
        }
        AtBlock::Way => register_ways(state, block, pc, qemu_block),
        AtBlock::Arrival => {
            if let Some(number) = prediction {
                let moves = state.ledger.get(VECTOR_MOVES, state.counting.translating);
                let checks = state.predictions.get(number).at_arrival(moves);
                checks.into_iter().for_each(|check| register_check(state, check, qemu_block, number));
            } else if state.counting.is_oracle && state.counting.is_inline {
                // The oracle asks at every block, and does not rely on knowledge of handlers' addresses.
                qemu_block.call_when_at_least::<OnArrival>(cell(state, LAST), FIRST_SITE, arrival_id(block, None));
            } else if state.counting.by_blocks() && (state.code.is_entry(pc) || state.guest.may_be_handler(pc, true))
            {
                let id = arrival_id(block, state.guest.epoch_without_exception(pc));
                qemu_block.call_when_at_least::<OnArrival>(cell(state, LAST), FIRST_SITE, id);
            }
        }
        AtBlock::Input => match (&state.input, state.counting.is_inline) {
            (None, _) => {}
            (Some(_), true) => qemu_block.call_when_at_least::<OnInput>(cell(state, INPUT), 1, block),
            (Some(_), false) => qemu_block.call::<OnInput>(block),
        },
        AtBlock::Hold => {
            if state.counting.is_debugged && state.counting.is_inline {
                let due = DUE - plan.len() as u64;
                qemu_block.call_when_at_least::<OnDueBlock>(cell(state, CLOCK), due, insn_id(block, 0));
            }
        }
    }
}

/// Registers the watch over a block that makes the stack deeper.
fn register_depth(state: &mut State, qemu_block: &QemuBlock, block: usize, plan: &[Planned]) {
    let State { depth, stacks, guest, counting, .. } = state;
    let (Some(depth), Some(stacks)) = (depth, stacks) else { return };
    let number = guest.facts.sp;
    let Some(place) = guest.registers().map(|registers| registers.place(number)) else { return };
    if let RegisterPlace::Sought = place {
        let sought = counting.scoreboard.cell(Depth::sought(), counting.translating);
        qemu_block.call_if::<OnSought>(sought, 1, block);
    }
    let moves = Move::all(plan.iter().map(|insn| insn.taken));
    let Some(most) = moves.last().map(|last| last.depth) else { return };
    match place {
        RegisterPlace::Sought => {
            depth.is_early(plan[0].pc);
            qemu_block.call::<OnDeeper>(block);
        }
        RegisterPlace::At(word) => {
            let low = Some(word.value()).filter(|&sp| guest.is_memory(sp.wrapping_sub(1)));
            let low = low.and_then(|sp| stacks.low_end(sp)).unwrap_or(0);
            let limit = depth.limit(low).and_then(|limit| word.compared(limit.checked_add(most)?));
            let Some((address, limit)) = limit else { return };
            let cell = counting.scoreboard.cell(address, counting.translating);
            qemu_block.call_when_below::<OnDeeper>(cell, limit, block);
        }
        RegisterPlace::Unknown => return,
    }
    depth.keep(block, moves);
}

/// Registers the end of the passage through the block before.
fn register_passage(state: &mut State, qemu_block: &QemuBlock, block: usize, plan: &[Planned]) {
    if state.avr.is_some() && state.pace.is_some() {
        let may_jump = plan.last().is_some_and(|last| last.ends_block);
        qemu_block.call_to_leave::<OnPacedBlock>(paced_id(block, plan.len(), may_jump));
    }
    match (passage(state, plan, 0), &state.pace) {
        (Some(code), Some(_)) => qemu_block.call_to_leave::<OnPacedPassage>(insn_id(code, plan.len())),
        (Some(code), None) => qemu_block.call::<OnPassage>(code),
        (None, _) => {}
    }
}

/// Number of the code whose passage begins at an instruction of a block: up to the next instruction at which something looks at
/// the clock. None: none begins there, or cycles are not counted by passages.
fn passage(state: &mut State, plan: &[Planned], start: usize) -> Option<usize> {
    let State { passages, follow, guest, .. } = state;
    let passages = passages.as_mut().filter(|_| start == 0 || begins_passage(plan, start, follow))?;
    let end = (start + 1..plan.len()).find(|&index| begins_passage(plan, index, follow)).unwrap_or(plan.len());
    let insns = plan[start..end].iter().filter_map(|insn| insn.pace.insn.clone()).collect();
    let pc = plan[start].pc;
    let mode = if guest.isa.is_thumb() && guest.is_in_exception() {
        Mode::Handler { is_vector: guest.may_be_handler(pc, true), leads_to: plan[end - 1].pace.leads_to }
    } else {
        Mode::Thread
    };
    Some(passages.code(pc, insns, mode) as usize)
}

/// Whether a passage ends before an instruction in the middle of a block, so that what looks at the clock there has its cycles.
fn begins_passage(plan: &[Planned], index: usize, follow: &Follow) -> bool {
    let looks = looks_at_clock(&plan[index], follow) || looks_at_clock(&plan[index - 1], follow);
    // Only where a segment begins does the clock have the instructions before, and no others.
    plan[index].bound || (looks && plan[index - 1].ends_segment)
}

/// Registers the counted ways of branches and jumps that lead to a block.
fn register_ways(state: &mut State, block: usize, pc: u64, qemu_block: &QemuBlock) {
    if !state.counting.by_blocks() {
        return;
    }
    let State { code, ledger, transfers, .. } = state;
    for (number, slot) in transfers.counted_to(pc, code, ledger) {
        qemu_block.call_if::<OnWay>(cell(state, LAST), number, slot as usize);
    }
    if state.transfers.is_landing(pc, &state.code) {
        qemu_block.call_when_at_least::<OnLanding>(cell(state, LAST), FIRST_SITE, insn_id(block, 0));
    }
}

/// Registers the actions of a block with a prediction.
fn register_check(state: &State, check: Check, qemu_block: &QemuBlock, number: usize) {
    match check {
        Check::Does(Step::Add { slot, amount }) => qemu_block.add(cell(state, slot), amount),
        Check::Does(Step::Store { slot, value }) => qemu_block.store(cell(state, slot), value),
        Check::Due { slot, least } => {
            qemu_block.call_when_at_least::<OnPredictedBlock>(cell(state, slot), least, number);
        }
        Check::Elsewhere { slot, value } => {
            qemu_block.call_unless::<OnMispredicted>(cell(state, slot), value, number)
        }
        Check::Unsure { slot, least } => qemu_block.call_when_at_least::<OnUnsure>(cell(state, slot), least, number),
    }
}

fn register_step(state: &State, step: Step, insn: &Insn<'_>) {
    match step {
        Step::Add { slot, amount } => insn.add(cell(state, slot), amount),
        Step::Store { slot, value } => insn.store(cell(state, slot), value),
    }
}

/// Registers what comes before the instruction has started: what the one before it has done, where it may lead, and what
/// begins or ends with it.
fn register(state: &mut State, what: AtInsn, at: &At<'_>) {
    let &At { ref insn, planned, before, id, .. } = at;
    let pc = planned.pc;
    let is_exact = state.follow.tree.is_some();
    match what {
        AtInsn::Passage => {
            if let Some(code) = at.passage {
                insn.call::<OnPassage>(code);
            }
        }
        AtInsn::StackMove if is_exact => match before {
            Some(before) if before.sets_sp => insn.call::<OnStackSet>(before.moves_sp.into()),
            Some(before) if before.moves_sp => insn.call::<OnStackMove>(id),
            _ => {}
        },
        AtInsn::FirstTask if waits_for_first_task(state) => {
            if before.is_some_and(|before| before.sets_sp) {
                insn.call::<OnFirstTask>(id);
            }
            if planned.sets_sp {
                insn.store(cell(state, FIRST_TASK), 1);
            }
        }
        AtInsn::Masked if before.is_some_and(|before| before.changes_mask) => insn.call::<OnMasked>(id),
        AtInsn::Restart if planned.feeds && before.is_some() => insn.call_to_leave::<BeforeWdr>(id),
        AtInsn::Function if is_exact && before.is_some_and(|before| before.here != planned.here) => {
            insn.call::<OnFunction>(id);
        }
        AtInsn::Crossing => {
            if let Some(target) = planned.crossing {
                insn.call::<OnCrossing>(target as usize);
            }
        }
        AtInsn::Leave if is_exact => {
            if planned.sets_sp {
                insn.store(cell(state, STACK_SET), 1);
            }
            if let Some(link) = planned.link {
                insn.store(cell(state, LINK), link);
            }
            if planned.link.is_some() || planned.leaves_activation || planned.crossing.is_some() {
                insn.store(cell(state, HERE), 0);
            }
        }
        AtInsn::ExceptionReturn
            if planned.leaves_function
                && state.follow.is_left_by_jumps(&state.guest)
                && (is_exact
                    || state.follow.has_contexts
                        && state.counting.by_blocks()
                        && (planned.in_exception || !state.guest.facts.returns_by_jump)) =>
        {
            insn.call_when_at_least::<OnExceptionReturn>(cell(state, EXCEPTIONS), 1, id);
        }
        AtInsn::Forgetful if state.code.is_forgetful(pc) => insn.call::<OnForgetful>(id),
        AtInsn::Forgetful if state.code.is_forgetting(pc) => insn.call::<OnForgetting>(id),
        AtInsn::Idle if state.follow.tasks.as_ref().is_some_and(|tasks| tasks.idles_at(pc)) => {
            insn.call::<OnIdle>(id);
        }
        AtInsn::Delete if state.follow.tasks.as_ref().is_some_and(|tasks| tasks.deletes_at(pc)) => {
            insn.call::<OnDelete>(id);
        }
        AtInsn::Switch
            if planned.may_store && state.follow.tasks.as_ref().is_some_and(|tasks| tasks.may_switch_at(pc)) =>
        {
            insn.call_after_store::<OnSwitch>(id);
        }
        AtInsn::Until if planned.between.1 => insn.call::<OnUntil>(id),
        AtInsn::Bound if state.clock.is_bound(pc) => insn.call::<OnBound>(id),
        AtInsn::From if planned.between.0 => insn.call::<OnFrom>(id),
        AtInsn::Called if planned.called => insn.call::<OnCalled>(id),
        AtInsn::Allocator if planned.allocator => insn.call::<OnAllocator>(id),
        AtInsn::Zone if planned.zone && !state.counting.is_debugged => insn.call::<OnZone>(id),
        AtInsn::Event if planned.event && !state.counting.is_debugged => insn.call::<OnEvent>(id),
        AtInsn::Way if state.branches.is_some() => insn.call::<OracleWay>(id),
        _ => register_started(state, what, at),
    }
}

/// Registers what comes once the instruction has started, its count first.
fn register_started(state: &mut State, what: AtInsn, at: &At<'_>) {
    let &At { ref insn, planned, count, id, is_last, .. } = at;
    match what {
        AtInsn::Count => {
            if let Some(count) = count {
                register_count(state, count, at);
            }
        }
        AtInsn::Port if planned.port => insn.call::<OnPort>(id),
        AtInsn::Pace if planned.pace.varies => insn.call::<OnPace>(id),
        AtInsn::Division if planned.pace.divides => insn.call::<OnDivision>(id),
        AtInsn::Sample if state.counting.is_oracle && state.counting.is_inline && count.is_some() => {
            insn.call_when_at_least::<OracleSample>(cell(state, CLOCK), DUE, id);
        }
        AtInsn::Skippable if planned.skippable => insn.call::<OnSkippable>(id),
        AtInsn::Status if at.next.is_none_or(|next| !next.splits) => {
            if let Some(register) = planned.status {
                insn.call::<OnStatus>(register.into());
            }
        }
        AtInsn::Split if planned.splits && is_last => insn.call::<OnUnmasked>(id),
        AtInsn::Split if planned.splits => insn.call_to_split::<OnUnmasked>(id),
        AtInsn::FarLoad if planned.far_load => {
            insn.hold::<OnFarLoad>(id);
            insn.hold_after_load::<OnFarLoaded>(id);
        }
        AtInsn::Mask if planned.changes_mask => insn.call::<OnMask>(planned.pc as usize),
        AtInsn::Branch => {
            if let (Some(branches), Some(branch)) = (&mut state.branches, planned.branch) {
                insn.call::<OracleBranch>(branches.number(branch));
            }
        }
        AtInsn::Transfer if !state.counting.is_debugged => {
            if let Some(site) = &planned.site {
                register_transfer(state, site, insn, planned.may_return_from_exception);
            }
        }
        AtInsn::Vector if planned.moves_vector && !state.counting.is_debugged => insn.call::<OnVector>(id),
        AtInsn::Semihosting if planned.calls_host => insn.call::<OnSemihosting>(id),
        AtInsn::TrapReturn if state.counting.is_debugged => {}
        AtInsn::TrapReturn if planned.trap_return => insn.call::<OnTrapReturn>(id),
        AtInsn::TrapReturn if planned.may_return_from_exception => {
            insn.call_when_at_least::<OnFaultReturn>(cell(state, FAULTED), 1, id);
        }
        AtInsn::Stop if state.stop == Some(planned.pc) => insn.call::<OnStop>(id),
        AtInsn::Stop if state.exit == Some(planned.pc) => insn.call::<OnExit>(id),
        // Only in `_exit` and in the handler of a fault can it be the end.
        AtInsn::Spin if at.spins && !state.counting.is_debugged => {
            insn.call_when_at_least::<OnSpin>(cell(state, FAULTED), 1, id);
        }
        AtInsn::Wait if planned.wait && state.avr.is_some() => insn.call::<OnSleep>(id),
        AtInsn::Feed if planned.feeds => insn.call::<OnWdr>(id),
        AtInsn::Wait if planned.wait => insn.call::<OnWait>(wait_id(id, planned.event_wait)),
        AtInsn::EventWait if state.counting.is_debugged => {}
        // While it would sleep anyway, the turns of its loop cost no callback.
        AtInsn::EventWait if planned.event_wait => insn.call_unless::<OnEventWait>(cell(state, ASLEEP), 1, id),
        // Under icount QEMU executes a device access as its block's last instruction, so a store
        // that ends the run (test finisher, reset request) is never anywhere else.
        AtInsn::Store if is_last && planned.may_store => {
            insn.call_after_store::<OnStore>(id);
            insn.call_after_load::<OnLoad>(id);
        }
        // QEMU tells addresses of flash and of the data space alike.
        AtInsn::Watch if state.debugger.as_ref().is_some_and(Debugger::watches) && !planned.reads_flash => {
            insn.call_after_store::<OnWatchedStore>(id);
            insn.call_after_load::<OnWatchedLoad>(id);
        }
        _ => {}
    }
}

/// Whether the first task has yet to start, so that its start must be noticed.
fn waits_for_first_task(state: &State) -> bool {
    state.counting.is_inline && state.follow.tasks.as_ref().is_some_and(|tasks| tasks.waits_for_first())
}

fn register_count(state: &State, count: Count, &At { ref insn, id, overwrites_last, cycles, .. }: &At<'_>) {
    let clock = cell(state, CLOCK);
    if let Some(slot) = state.ledger.cycle_slot().filter(|_| cycles > 0) {
        insn.add(cell(state, slot), cycles);
    }
    match count {
        Count::Segment { .. } if state.counting.is_debugged && !state.counting.is_inline => insn.hold::<OnStep>(id),
        Count::Segment { .. } if !state.counting.is_inline => insn.call::<OnSegment>(id),
        Count::Segment { insns, .. } if state.counting.is_far => insn.add(clock, insns.into()),
        // The counter is a flag: a breakpoint is here, or an event is due. One condition costs half of two: where
        // code branches, QEMU writes all registers back.
        Count::Segment { slot, .. } if state.counting.is_debugged => {
            insn.add(clock, 1);
            insn.hold_when_at_least::<OnHold>(cell(state, slot), 1, id);
        }
        Count::Segment { slot, .. } if state.counting.is_oracle => {
            insn.add(clock, 1);
            insn.call::<OracleCount>(slot as usize);
        }
        _ => {
            let steps = count.steps(from_insn_id(id).1 == 0, overwrites_last);
            steps.for_each(|step| register_step(state, step, insn));
        }
    }
}

fn register_transfer(state: &mut State, site: &Site, insn: &Insn<'_>, returns: bool) {
    let number = state.transfers.number(site);
    if state.counting.by_blocks() {
        site.steps(number).for_each(|step| register_step(state, step, insn));
    } else {
        insn.call::<OnTransfer>(number as usize);
    }
    if let (SiteKind::Register { reg, call: false, .. }, true, true) = (site.kind, returns, state.counting.is_inline)
    {
        insn.call::<OnRegisterJump>(reg.into());
    }
}

/// Effects of a block's earlier instructions on the next one.
#[derive(Default)]
struct SoFar {
    /// Number of further conditional instructions, in a Thumb IT block.
    conditional: u8,
    /// Skips of AVR right before the next one.
    skips: Skips,
    /// The last one may have allowed interrupts, on AVR, or one before it with skips since.
    may_have_unmasked: bool,
    /// The stack pointer has been moved.
    has_moved_sp: bool,
    /// The function of the last one; None: there is none before.
    function: Option<Option<u64>>,
    /// Register and value of an `auipc`, which the last one is.
    upper: Option<(u8, u64)>,
}

impl SoFar {
    /// Passes an instruction of AVR's. Returns the skips right before it, and whether interrupts that may have been allowed
    /// come behind it. A skip and the instruction that it skips stay together, and a sleep never goes on by itself: interrupts
    /// come behind the next instruction then.
    fn pass_avr(&mut self, isa: Isa, bytes: &[u8]) -> (Skips, bool) {
        let skips = std::mem::take(&mut self.skips);
        if isa.is_avr() {
            self.skips = skips.clone().after(bytes);
        }
        let is_alone = skips.are_none() && self.skips.are_none() && !decode::is_wfi(isa, bytes);
        let splits = self.may_have_unmasked && is_alone;
        self.may_have_unmasked = decode::avr_may_unmask(isa, bytes) || (self.may_have_unmasked && !is_alone);
        (skips, splits)
    }

    /// Passes an instruction, which may be conditional or make the next ones so.
    fn pass(&mut self, pc: u64, flow: Flow, counting: &mut Counting) {
        if self.conditional > 0 {
            counting.it_blocks.insert(pc, self.conditional);
            self.conditional -= 1;
        }
        // A skip of AVR's may itself be skipped.
        if let (Flow::It { count }, 0) = (flow, self.conditional) {
            self.conditional = count;
        }
    }
}

fn plan(state: &mut State, block: &QemuBlock) -> Vec<Planned> {
    let first = block.insns().next().map(|insn| insn.pc());
    let conditional = first.and_then(|pc| state.counting.it_blocks.get(&pc).copied()).unwrap_or(0);
    let may_be_skipped = conditional > 0 && state.avr.is_some();
    let mut so_far = SoFar { conditional, skips: Skips::at_block(may_be_skipped), ..SoFar::default() };
    let mut plan: Vec<Planned> = Vec::with_capacity(block.insns().len());
    plan.extend(block.insns().map(|insn| plan_insn(state, &insn, &mut so_far)));
    if let (Some(last), 1..) = (plan.last(), so_far.conditional) {
        state.counting.it_blocks.insert(last.pc + u64::from(last.size), so_far.conditional);
    }
    plan
}

/// Whether an instruction accesses a device within its block. Notes the bits that it writes.
fn accesses_port(avr: &mut Avr, isa: Isa, pc: u64, bytes: &[u8]) -> bool {
    let has_port = decode::avr_io(isa, bytes).is_some_and(|io| avr.has_port(io));
    if let (true, Some(bits)) = (has_port, decode::avr_io_bit(isa, bytes)) {
        avr.set_bits(pc, bits);
    }
    has_port
}

/// Number of the register that an instruction writes to AVR's status register; None: it is another instruction.
fn written_to_status(isa: Isa, bytes: &[u8]) -> Option<u8> {
    let (port, register) = decode::avr_out(isa, bytes)?;
    (port == decode::AVR_STATUS).then_some(register)
}

fn plan_insn(state: &mut State, insn: &Insn<'_>, so_far: &mut SoFar) -> Planned {
    let calls_host = state.semihosting != Semihosting::Off && state.guest.is_semihosting(insn);
    let State { guest, code, ledger, clock, counting, follow, heap, calls, transfers, avr, cycles, passages, .. } =
        state;
    let (isa, exact, pc) = (guest.isa, follow.tree.is_some(), insn.pc());
    let (bytes, len) = insn.bytes();
    let bytes = &bytes[..len];
    let decoded = decode(isa, pc, bytes);
    // auipc + jalr is how RISC-V calls far.
    let flow = so_far.upper.take().map_or(decoded.flow, |upper| decoded.flow.after_upper(isa, upper));
    so_far.upper = decode::auipc(isa, pc, bytes);
    so_far.has_moved_sp |= decode::moves_sp(isa, bytes) || decode::sets_sp(isa, bytes);
    let function = code.function_of(pc);
    let is_elsewhere = so_far.function.replace(function).is_some_and(|last| last != function);
    let next = pc + u64::from(decoded.len_bytes);
    let (transfer, site) = transfer(pc, next, flow, so_far.conditional > 0, code);
    let branch = branch(pc, next, flow, so_far.conditional > 0);
    let site = site.or_else(|| counted_site(pc, branch.filter(|_| counting.by_blocks())?, transfers, code));
    let is_computed =
        matches!(flow, Flow::Return | Flow::ComputedJump | Flow::IndirectJump { .. } | Flow::IndirectCall { .. });
    let (skips, splits) = so_far.pass_avr(isa, bytes);
    let feeds = avr.is_some() && decode::is_wdr(isa, bytes);
    let pace = Pace::of((cycles, passages), isa, pc, bytes, !skips.are_none());
    let taken = decode::taken_from_sp(isa, bytes).filter(|&taken| taken == 0 || so_far.conditional == 0);
    so_far.pass(pc, flow, counting);
    let target = jump_target(flow);
    if let (Some(calls), Some(target)) = (calls.as_mut(), target.filter(|&target| function == Some(target))) {
        calls.loops_to(target, ledger);
    }
    let between = follow.betweens.bounds(pc);
    let zone = follow.zones.as_ref().is_some_and(|zones| zones.is_event(pc))
        || follow.waiting.as_ref().is_some_and(|waiting| waiting.is_event(pc));
    let allocator = heap.as_ref().is_some_and(|heap| heap.begins_at(pc));
    let called = calls.as_ref().is_some_and(|calls| calls.begins_at(pc));
    let names = between != (false, false) || allocator || called || zone;
    let may_go_elsewhere = !matches!(decoded.flow, Flow::Next | Flow::It { .. });
    let sets_sp = decode::sets_sp(isa, bytes);
    // The first task begins behind the instruction: the clock there must not have counted what follows.
    let may_begin_first_task = sets_sp && follow.tasks.as_ref().is_some_and(|tasks| tasks.waits_for_first());
    let crosses = |&target: &u64| exact && !code.is_entry(target) && code.function_of(target) != function;
    Planned {
        pc,
        size: decoded.len_bytes,
        ends_segment: decoded.may_leave || may_go_elsewhere || may_begin_first_task || pace.varies || splits,
        bound: clock.is_bound(pc) || names || (exact && is_elsewhere) || decode::is_sev(isa, bytes) || feeds,
        transfer,
        site,
        branch,
        calls_host,
        wait: decode::is_wfi(isa, bytes) || (decode::is_wfe(isa, bytes) && qemu::wfe_sleeps()),
        event_wait: decode::is_wfe(isa, bytes),
        event: decode::is_sev(isa, bytes),
        trap_return: decode::is_trap_return(isa, bytes),
        here: here(function),
        leaves_function: matches!(decoded.flow, Flow::Return | Flow::IndirectJump { .. } | Flow::ComputedJump),
        leaves_activation: leaves_activation(flow, so_far.has_moved_sp || decode::is_exchange(isa, bytes)),
        taken,
        sets_sp,
        link: flow.is_call().then(|| arrival::link(next, decode::links_to_t0(isa, bytes))),
        crossing: target.filter(crosses),
        moves_sp: exact && decode::moves_sp(isa, bytes),
        changes_mask: follow.masks().is_some() && decode::changes_mask(isa, bytes),
        port: avr.as_mut().is_some_and(|avr| accesses_port(avr, isa, pc, bytes)),
        skippable: is_computed && !skips.are_none(),
        skips,
        feeds,
        status: written_to_status(isa, bytes),
        splits,
        pace,
        far_load: decode::is_elpm(isa, bytes),
        reads_flash: decode::reads_avr_flash(isa, bytes),
        between,
        allocator,
        called,
        zone,
        may_store: decoded.may_leave && decoded.flow == Flow::Next,
        moves_vector: decode::moves_trap_vector(isa, bytes),
        // QEMU translates for exceptions and outside of them apart.
        may_return_from_exception: decode::is_exchange(isa, bytes) && guest.is_in_exception(),
        in_exception: follow.has_contexts && guest.is_in_exception(),
        ends_block: may_go_elsewhere,
        is_plain: !decoded.may_leave && !may_go_elsewhere,
        jumps_to: target.filter(|_| matches!(flow, Flow::Jump { .. }) && so_far.conditional == 0),
    }
}

/// Target of a jump or branch that names it.
fn jump_target(flow: Flow) -> Option<u64> {
    match flow {
        Flow::Jump { target } | Flow::Branch { target } => Some(target),
        _ => None,
    }
}

/// Whether an instruction may end or start an activation of its own function. `may_have_frame`: a jump of its kind may come
/// after the frame is gone.
fn leaves_activation(flow: Flow, may_have_frame: bool) -> bool {
    match flow {
        Flow::Return => true,
        Flow::IndirectJump { .. } | Flow::ComputedJump => may_have_frame,
        _ => false,
    }
}

/// The counted way of a branch, as harness has asked for it.
fn counted_site(pc: u64, branch: Branch, transfers: &Transfers, code: &Code) -> Option<Site> {
    let kind = SiteKind::Branch { target: branch.target?, call: false };
    // Other code may have been loaded to the address since harness read the file.
    transfers.counted_branch(pc, code).filter(|site| (site.next, site.kind) == (branch.next, kind))
}

/// The branch that an instruction is, if control may go more than one way. Returns are none unless they are conditional.
fn branch(site: u64, next: u64, flow: Flow, conditional: bool) -> Option<Branch> {
    match flow {
        Flow::Jump { target } if conditional => Some(Branch { site, next, target: Some(target) }),
        Flow::Branch { target } => Some(Branch { site, next, target: Some(target) }),
        Flow::IndirectJump { .. } | Flow::ComputedJump => Some(Branch { site, next, target: None }),
        Flow::Return if conditional => Some(Branch { site, next, target: None }),
        _ => None,
    }
}

/// Classifies a transfer of control: counting its executions suffices (Transfer), or the next block must tell its
/// target (Site), or it enters no function.
fn transfer(pc: u64, next: u64, flow: Flow, conditional: bool, code: &Code) -> (Option<Transfer>, Option<Site>) {
    let fixed = |kind, target| (Some(Transfer { kind, target }), None);
    let site = |kind| (None, Some(Site { pc, next, function: code.function_of(pc), kind }));
    match flow {
        Flow::Next | Flow::It { .. } | Flow::Return => (None, None),
        Flow::Call { target } if conditional => site(SiteKind::Branch { target, call: true }),
        Flow::Call { target } => fixed(TransferKind::Call, target),
        Flow::Jump { target } | Flow::Branch { target } if !code.is_entry(target) => (None, None),
        Flow::Jump { target } if !conditional => {
            if code.function_of(pc) == Some(target) {
                fixed(TransferKind::Jump, target)
            } else {
                site(SiteKind::Jump { target })
            }
        }
        Flow::Branch { target } if code.is_counted_loop(pc) => fixed(TransferKind::Branch, target),
        Flow::Jump { target } | Flow::Branch { target } => site(SiteKind::Branch { target, call: false }),
        Flow::IndirectCall { clobbered: true, .. } => site(SiteKind::Unknown { call: true, conditional }),
        Flow::IndirectCall { reg, offset, .. } => site(SiteKind::Register { reg, offset, call: true, conditional }),
        Flow::IndirectJump { reg, offset } => site(SiteKind::Register { reg, offset, call: false, conditional }),
        Flow::ComputedJump => site(SiteKind::Unknown { call: false, conditional }),
    }
}
