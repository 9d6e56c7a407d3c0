// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call stacks: walked with harness's unwind table from registers and guest memory. Each distinct stack is written
//! once.
//!
//! A stack is taken at the start of a block that may contain the next sample. Code inside a block neither calls nor
//! returns, so all its instructions have the same callers. And at the block's first instruction registers and memory
//! are current; when the sample is settled, they are not.
//!
//! The firmware's registers and memory are not trusted: every read is clipped to memory, every return address must
//! follow a call, every frame must lie above the one before.

use std::ops::Range;

use rustc_hash::FxHashMap;
use wire::definition::{Definition, FrameKind, Unknown};
use wire::request::Request;
use wire::unwind::{Base, Rule, Saved};

use crate::code::{Code, CodePoint};
use crate::follow::context::{Active, Core, Exchanged};
use crate::guest::{Context, Guest, Vcpu};
use crate::ledger::{Counters, Ledger};
use crate::room::{Chain, Left, Move, Rooms};
use crate::stack_cache::{Recall, Recalled, Trail};

/// Guest memory is read in pieces of this size: one for most stacks.
const PIECE_BYTES: u64 = 512;

/// Most pieces of memory read for one stack: deeper stacks are cut.
const MAX_PIECES: usize = 4096;

/// Most frames that are passed to find the room of a stack that has left it.
const MAX_LEFT_DEPTH: usize = 1 << 16;

/// Most kept frames of forgetful functions: one for each active call of such a function.
const MAX_KEPT: usize = 1 << 20;

/// The call stacks taken so far.
pub struct Stacks {
    /// Most frames of a stack.
    max_depth: usize,
    /// Registers that forgetful functions should have saved, by canonical frame address and entry. The entry is
    /// needed because a function without a frame may call another at the same address.
    kept: FxHashMap<(u64, u64), Kept>,
    frames: FxHashMap<(u32, FrameKind), u32>,
    /// The last stack written, outermost first, each frame with its id.
    last: Vec<(FrameKind, u32)>,
    memory: Memory,
    /// Stacks that can be reused; None: every stack is walked.
    recall: Option<Recall>,
    /// Inputs of the current walk.
    trail: Trail,
    /// Stack pointer at the root of the last stack walked, if the walk reached it.
    root_sp: Option<u64>,
    /// Return address and stack pointer of each vCPU at reset, read at its first stack.
    reset: FxHashMap<u32, Option<(u64, u64)>>,
    /// Rooms of stacks that no kernel describes; None: they are not judged, or one has been found outside.
    rooms: Option<Rooms>,
    /// Stack that a walk found outside of its room.
    left: Option<Found>,
}

/// Registers that a forgetful function should have saved.
#[derive(Clone, Copy)]
struct Kept {
    return_addr: u64,
    frame_pointer: u64,
}

/// Facts about the innermost frame of a walk, beside the registers.
#[derive(Clone, Copy, Default)]
struct Start {
    /// Whether the instruction may have been reached other than by direct calls.
    by_transfer: bool,
    /// Whether the instruction before has made the frame.
    is_made: bool,
    /// Bytes that the block takes off the stack pointer from here on.
    to_come: u64,
}

/// A stack that a walk found outside of its room.
struct Found {
    left: Left,
    /// Whether all of its frames are known.
    is_whole: bool,
    /// Whether it was left for the heap.
    is_heap: bool,
    /// Place of the walk, and the vCPU's instructions so far.
    at: (u64, u64),
}

impl Found {
    /// Record of it; `mover`: the instruction that made the stack so deep, and its number, if they are known.
    fn definition(self, mover: Option<(u64, u64)>) -> Definition {
        let Found { left: Left { sp, room, top }, is_whole, is_heap, at } = self;
        let (pc, at_insns) = mover.unwrap_or(at);
        let top = if is_whole { top } else { 0 };
        Definition::StackLeft { pc, sp, low: room.start, top, at_insns, is_first: mover.is_some(), is_heap }
    }
}

/// Pieces of guest memory that this walk has read.
#[derive(Default)]
struct Memory {
    start: u64,
    bytes: Vec<u8>,
    pieces: usize,
}

impl Memory {
    /// Bytes at an address; None: these have not been read.
    fn at(&self, address: u64, bytes: u64) -> Option<&[u8]> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        self.bytes.get(at..at.checked_add(bytes as usize)?)
    }
}

/// Source of a walk's frame pointer.
#[derive(Clone, Copy)]
enum FramePointer {
    /// The context that the walk began in.
    Context,
    /// A word in which a function saved it.
    Word { address: u64 },
    /// The kept registers of a forgetful function, or none.
    Kept,
}

/// Walk of a stack from a context outwards, starting in the innermost active exception, with its present position.
struct Cursor<'a, V: Vcpu> {
    stacks: &'a mut Stacks,
    core: &'a Core,
    guest: &'a mut Guest<V>,
    code: &'a mut Code,
    /// The frames so far.
    stack: &'a mut Stack,
    /// Present position: in executing or interrupted code, or in a caller.
    at: Context,
    /// `at` lies in the `level`-th active exception, 0: in none.
    level: usize,
    /// `at` is the state of code that executes or was interrupted, not of a caller; then the return address register is
    /// current.
    is_innermost: bool,
    /// Whether `at` called by the second link register, so that the first one is still its own.
    has_link: bool,
    /// Whether an assumption was needed to pass a frame; then a later contradiction does not prove that the stack is
    /// corrupt.
    is_assumed: bool,
    /// Source of the frame pointer. Often no frame is found by the frame pointer, and functions use its register for
    /// other values.
    frame_pointer_from: FramePointer,
    /// Frames that follow on each other up to here.
    chain: Chain,
    /// Whether the instruction before the walk's beginning has made the innermost frame.
    is_made: bool,
}

/// Outcome of a walk's step.
#[derive(PartialEq, Eq)]
enum Step {
    /// The walk stands at another frame.
    Further,
    /// The stack begins here.
    Outermost,
}

/// Frames of a walk, from the innermost caller outwards.
pub type Stack = Vec<FrameKind>;

/// A stack taken at an instruction where stacks are taken often.
pub enum Taken {
    /// A kept stack.
    Recalled(Recalled),
    /// A new stack, and the stack pointer at its root, see [`Stacks::root_sp`].
    Walked(Stack, Option<u64>),
}

impl Stacks {
    /// State without any stack. None: the request asks for no stacks.
    pub fn new(request: &Request) -> Option<Stacks> {
        let measure = request.measure()?;
        let max_depth = usize::try_from(measure.max_depth?).unwrap_or(usize::MAX);
        Some(Stacks {
            max_depth,
            kept: FxHashMap::default(),
            frames: FxHashMap::default(),
            last: Vec::new(),
            memory: Memory::default(),
            recall: (!measure.is_oracle).then(Recall::default),
            trail: Trail::default(),
            root_sp: None,
            reset: FxHashMap::default(),
            rooms: Rooms::new(request),
            left: None,
        })
    }

    /// Keeps the return address at the entry of a forgetful function; `by_transfer`: it may have been reached other
    /// than by direct calls.
    pub fn keep_return_address(&mut self, entry: u64, by_transfer: bool, guest: &mut Guest<impl Vcpu>, code: &Code) {
        let Context { sp, return_addr, frame_pointer, .. } = guest.context(entry);
        let return_addr = came_with(entry, return_addr, by_transfer, guest, code);
        let inside = code.function_of(return_addr & !1) == Some(entry);
        // A loop to the function's start finds the return addresses of the function's own calls.
        let is_known = self.kept.contains_key(&(sp, entry));
        if !(inside && is_known) && (self.kept.len() < MAX_KEPT || is_known) {
            self.kept.insert((sp, entry), Kept { return_addr, frame_pointer });
        }
    }

    /// Keeps the return address before a call that never returns, in a function that does not keep it
    /// ([`Code::is_forgetting`]).
    pub fn keep_before_call(&mut self, pc: u64, guest: &mut Guest<impl Vcpu>, code: &mut Code) {
        let Context { sp, return_addr, frame_pointer, .. } = guest.context(pc);
        let CodePoint { function: Some(entry), rule: Some(rule), .. } = code.place(pc, guest) else { return };
        let cfa = guest.isa.wrap(sp.wrapping_add_signed(rule.cfa_offset_bytes.into()));
        if self.kept.len() < MAX_KEPT || self.kept.contains_key(&(cfa, entry)) {
            self.kept.insert((cfa, entry), Kept { return_addr, frame_pointer });
        }
    }

    /// Takes the stack at an instruction of this vCPU that is about to execute; `by_transfer`: it may have been
    /// reached other than by direct calls.
    pub fn take(
        &mut self,
        core: &Core,
        pc: u64,
        by_transfer: bool,
        guest: &mut Guest<impl Vcpu>,
        code: &mut Code,
        ledger: &Ledger<impl Counters>,
    ) -> Stack {
        let context = guest.context(pc);
        self.take_from(core, context, Start { by_transfer, ..Start::default() }, guest, code, ledger)
    }

    /// Notes a stack that was found outside of its room, the first one of the run.
    pub fn note_left(&mut self, ledger: &mut Ledger<impl Counters>) {
        if let Some(found) = self.left.take() {
            self.rooms = None;
            ledger.note(&found.definition(None));
        }
    }

    /// Notes that the stack has left its room, if it has: an instruction at `mover`, the vCPU's `at_insns`-th, has just made
    /// it deeper, and `pc` comes next. Returns the room that the stack is now taken to be in.
    pub fn check_room(
        &mut self,
        core: &Core,
        (pc, by_transfer): (u64, bool),
        mover: (u64, u64),
        guest: &mut Guest<impl Vcpu>,
        code: &mut Code,
        ledger: &mut Ledger<impl Counters>,
    ) -> Range<u64> {
        let context = guest.context(pc);
        // It takes a number of bytes off the stack pointer that only the run knows, for an array.
        let is_made = guest.memory(mover.0, 4).is_some_and(|bytes| decode::subtracts_from_sp(guest.isa, &bytes));
        self.left = None;
        self.take_from(core, context, Start { by_transfer, is_made, to_come: 0 }, guest, code, ledger);
        if let Some(found) = self.left.take() {
            self.rooms = None;
            ledger.note(&found.definition(Some(mover)));
        }
        self.rooms.as_ref().map_or(0..u64::MAX, |rooms| rooms.around(context.sp))
    }

    /// Does what [`Stacks::check_room`] does, at the start of a block that is about to make the stack deeper by these moves.
    /// `mover` says the address and the number of a block's instruction.
    pub fn check_depth(
        &mut self,
        core: &Core,
        (pc, by_transfer): (u64, bool),
        (moves, mover): (&[Move], impl Fn(u64) -> (u64, u64)),
        guest: &mut Guest<impl Vcpu>,
        code: &mut Code,
        ledger: &mut Ledger<impl Counters>,
    ) -> Range<u64> {
        let context = guest.context(pc);
        let to_come = moves.last().map_or(0, |last| last.depth);
        self.left = None;
        self.take_from(core, context, Start { by_transfer, is_made: false, to_come }, guest, code, ledger);
        if let Some(mut found) = self.left.take() {
            let leaves = |step: &&Move| context.sp.wrapping_sub(step.depth) < found.left.room.start;
            if let Some(&Move { index, depth }) = moves.iter().find(leaves) {
                self.rooms = None;
                found.left.sp = context.sp.wrapping_sub(depth);
                ledger.note(&found.definition(Some(mover(index))));
            }
        }
        self.rooms.as_ref().map_or(0..u64::MAX, |rooms| rooms.around(context.sp.wrapping_sub(to_come)))
    }

    /// Lowest address of the room that a stack pointer is in. None: no rooms are known.
    pub fn low_end(&self, sp: u64) -> Option<u64> {
        self.rooms.as_ref().map(|rooms| rooms.around(sp.wrapping_sub(1)).start)
    }

    /// Whether stacks are judged that no kernel describes.
    pub fn has_rooms(&self) -> bool {
        self.rooms.is_some()
    }

    /// Does what [`Stacks::take`] does, at the first instruction of a function that is called often, with registers
    /// that were read already.
    pub fn take_at_entry(
        &mut self,
        core: &Core,
        context: Context,
        by_transfer: bool,
        guest: &mut Guest<impl Vcpu>,
        code: &mut Code,
        ledger: &Ledger<impl Counters>,
    ) -> Taken {
        // In a handler, the registers do not identify the interrupted code.
        let is_plain = core.exceptions.is_empty();
        let mut recall = self.recall.as_mut().filter(|_| is_plain);
        if let Some(recalled) = recall.as_mut().and_then(|recall| recall.find(core.vcpu, &context, guest)) {
            core.note_stack_pointer(context.sp, ledger);
            return Taken::Recalled(recalled);
        }
        let start = Start { by_transfer, ..Start::default() };
        let stack = self.take_from(core, context, start, guest, code, ledger);
        let is_whole = !matches!(stack.last(), Some(FrameKind::Unknown(_)));
        // A function that keeps no return address may have started without a call.
        let is_told = is_plain && is_whole && !code.is_forgetful(context.pc);
        let recall = self.recall.as_mut().filter(|_| is_told);
        match recall.and_then(|recall| recall.keep(core.vcpu, &context, &self.trail, (&stack, self.root_sp), guest)) {
            Some(recalled) => Taken::Recalled(recalled),
            None => Taken::Walked(stack, self.root_sp),
        }
    }

    /// Frames of a stack.
    pub fn frames<'a>(&'a self, taken: &'a Taken) -> &'a [FrameKind] {
        match taken {
            Taken::Recalled(recalled) => self.recall.as_ref().map_or(&[], |recall| recall.stack(*recalled)),
            Taken::Walked(stack, _) => stack,
        }
    }

    /// Stack pointer at the root, which identifies the thread. None: the walk did not reach it.
    pub fn root_sp(&self, taken: &Taken) -> Option<u64> {
        match taken {
            Taken::Recalled(recalled) => self.recall.as_ref().and_then(|recall| recall.root_sp(*recalled)),
            Taken::Walked(_, root_sp) => *root_sp,
        }
    }

    /// Id of a stack, see [`Stacks::id`].
    pub fn id_of(&mut self, taken: &Taken, ledger: &mut Ledger<impl Counters>) -> u32 {
        let known = match (taken, &self.recall) {
            (Taken::Recalled(recalled), Some(recall)) => recall.id(*recalled),
            _ => None,
        };
        if let Some(id) = known {
            return id;
        }
        let stack = self.frames(taken).to_vec();
        let id = self.id(&stack, ledger);
        if let (Taken::Recalled(recalled), Some(recall)) = (taken, &mut self.recall) {
            recall.set_id(*recalled, id);
        }
        id
    }

    /// Does what [`Stacks::take`] does, with registers that were read already.
    fn take_from(
        &mut self,
        core: &Core,
        mut context: Context,
        start: Start,
        guest: &mut Guest<impl Vcpu>,
        code: &mut Code,
        ledger: &Ledger<impl Counters>,
    ) -> Stack {
        self.reset.entry(core.vcpu).or_insert_with(|| guest.reset());
        let pc = context.pc;
        if code.is_forgetful(pc) {
            context.return_addr = came_with(pc, context.return_addr, start.by_transfer, guest, code);
        }
        let outermost = match core.exceptions.first() {
            Some(active) => active.interrupted.map(|interrupted| interrupted.sp),
            None => Some(context.sp),
        };
        if let Some(sp) = outermost {
            core.note_stack_pointer(sp, ledger);
        }
        self.memory = Memory { bytes: std::mem::take(&mut self.memory.bytes), ..Memory::default() };
        self.memory.bytes.clear();
        self.trail.clear();
        self.root_sp = None;
        // The depth of most stacks.
        let mut stack = Vec::with_capacity(16);
        let mut cursor = Cursor {
            stacks: self,
            core,
            guest,
            code,
            stack: &mut stack,
            at: context,
            level: core.exceptions.len(),
            is_innermost: true,
            has_link: false,
            is_assumed: false,
            frame_pointer_from: FramePointer::Context,
            chain: Chain::default(),
            is_made: start.is_made,
        };
        cursor.note_to_come(start.to_come);
        let walked = cursor.walk();
        cursor.note_left(walked, (pc, ledger.insns(core.vcpu)));
        if let Err(why) = walked {
            stack.push(FrameKind::Unknown(why));
        }
        stack
    }

    /// Registers kept for a function's call with this canonical frame address.
    fn kept(&self, function: Option<u64>, cfa: u64) -> Option<Kept> {
        function.and_then(|entry| self.kept.get(&(cfa, entry)).copied())
    }

    /// A word of this size on the stack, read in pieces.
    fn stack_word(&mut self, address: u64, bytes: u8, guest: &mut Guest<impl Vcpu>) -> Option<u64> {
        let word_bytes = bytes.into();
        if !address.is_multiple_of(guest.stack_alignment()) {
            return None;
        }
        if let Some(bytes) = self.memory.at(address, word_bytes) {
            return Some(guest.stack_word(bytes));
        }
        let length = PIECE_BYTES.min(guest.memory_from(address)?);
        if length < word_bytes || !guest.is_readable() {
            return None;
        }
        self.memory.pieces += 1;
        if self.memory.pieces > MAX_PIECES {
            return None;
        }
        self.memory.start = address;
        // The rest of the piece may be memory that the executing code has no right to read.
        let has_read = guest.read_into(address, length as usize, &mut self.memory.bytes)
            || guest.read_into(address, word_bytes as usize, &mut self.memory.bytes);
        has_read.then_some(())?;
        self.memory.at(address, word_bytes).map(|bytes| guest.stack_word(bytes))
    }

    /// Id of a stack, which is written when it is first seen.
    pub fn id(&mut self, stack: &[FrameKind], ledger: &mut Ledger<impl Counters>) -> u32 {
        // Consecutive samples share most of their callers.
        let same = stack.iter().rev().zip(&self.last).take_while(|(frame, (last, _))| *frame == last).count();
        self.last.truncate(same);
        let mut id = self.last.last().map_or(0, |&(_, id)| id);
        for &kind in stack.iter().rev().skip(same) {
            let parent = id;
            let next = self.frames.len() as u32 + 1;
            id = *self.frames.entry((parent, kind)).or_insert_with(|| {
                ledger.note(&Definition::Frame { parent, kind });
                next
            });
            self.last.push((kind, id));
        }
        id
    }
}

impl<V: Vcpu> Cursor<'_, V> {
    /// Walks to the beginning of the stack.
    fn walk(&mut self) -> Result<(), Unknown> {
        while self.step()? == Step::Further {}
        Ok(())
    }

    /// Notes that the stack has left its room. If it is deeper than is kept, its other frames say which room that is.
    fn note_left(&mut self, mut walked: Result<(), Unknown>, at: (u64, u64)) {
        let met = self.heap_end().and_then(|heap_end| self.chain.met(heap_end));
        if met.is_none() && self.chain.left().is_none() {
            return;
        }
        if walked == Err(Unknown::TooDeep) {
            let (kept, max_depth) = (self.stack.len(), self.stacks.max_depth);
            self.stacks.max_depth = MAX_LEFT_DEPTH;
            walked = self.walk();
            self.stacks.max_depth = max_depth;
            self.stack.truncate(kept);
        }
        let is_heap = self.chain.left().is_none();
        let met = self.heap_end().and_then(|heap_end| self.chain.met(heap_end));
        let left = self.chain.left().or(met);
        let found = left.map(|left| Found { left, is_whole: walked.is_ok(), is_heap, at });
        self.stacks.left = self.stacks.left.take().or(found);
    }

    /// Adds what the code is about to take off the stack pointer to the frames.
    fn note_to_come(&mut self, bytes: u64) {
        let Some(rooms) = self.stacks.rooms.as_ref().filter(|_| bytes > 0) else { return };
        if !self.core.is_on_tasks_stack(self.level, self.guest.isa) {
            self.chain.add(self.at.sp.wrapping_sub(bytes)..self.at.sp, rooms);
        }
    }

    /// Address behind the C library's heap now; None: it is not known.
    fn heap_end(&mut self) -> Option<u64> {
        let variable = self.stacks.rooms.as_ref()?.heap_end?;
        self.guest.memory_word(variable, self.guest.pointer_bytes())
    }

    /// Adds a frame up to `cfa` to those that follow on each other.
    fn note_frame(&mut self, rule: &Rule, function: Option<u64>, cfa: u64) {
        let Some(rooms) = &self.stacks.rooms else { return };
        let is_made = std::mem::take(&mut self.is_made);
        if self.core.is_on_tasks_stack(self.level, self.guest.isa) {
            return self.leave_chain();
        }
        let sp = self.at.sp;
        // Code that goes on with another stack keeps its own one in the frame pointer: the distance between the two is not
        // a frame.
        let is_proved = rule.base == Base::StackPointer
            || is_made
            || self.at.frame_pointer == sp
            || function.and_then(|entry| self.code.frame_bytes(entry)) == Some(cfa - sp);
        // AVR code sets the stack pointer half by half, so that for a moment it is anywhere; it points below the stack.
        let is_avr = self.guest.isa.is_avr();
        if is_avr && self.is_innermost {
            return;
        }
        let below = u64::from(is_avr);
        if !is_proved || !self.chain.add(sp + below..cfa + below, rooms) {
            self.leave_chain();
        }
    }

    /// Begins anew with the frames that follow on each other, but for a stack that has left its room.
    fn leave_chain(&mut self) {
        if self.chain.left().is_none() {
            self.chain = Chain::default();
        }
    }

    /// Passes one frame.
    #[inline]
    fn step(&mut self) -> Result<Step, Unknown> {
        if self.stack.len() >= self.stacks.max_depth {
            return Err(Unknown::TooDeep);
        }
        let address = if self.is_innermost { self.at.pc } else { self.at.pc.wrapping_sub(1) };
        let CodePoint { function, rule, is_forgetful, .. } = self.code.place(address, self.guest);
        if self.level == 0 && function.is_some_and(|entry| self.code.is_outermost(entry)) {
            self.stacks.root_sp = Some(self.at.sp);
            return Ok(Step::Outermost);
        }
        if let (0, Some(entry)) = (self.level, function)
            && self.code.exchange(entry).is_some()
        {
            return self.pass_exchange(entry);
        }
        let Some(rule) = rule else { return self.pass_without_rule(function) };
        match self.pass_by_rule(&rule, function, is_forgetful) {
            // A handler that has exchanged the stack under itself, which its rule does not know.
            Err(_) if self.is_handler(function) => Ok(self.cross()),
            step => step,
        }
    }

    /// Passes a function that has exchanged the stack.
    fn pass_exchange(&mut self, entry: u64) -> Result<Step, Unknown> {
        self.stacks.trail.leave_open();
        self.leave_chain();
        let Exchanged { outer, is_by_exception, .. } = self.core.exchange(entry).ok_or(Unknown::NoUnwindInfo)?;
        if !is_by_exception && !self.code.is_return_address(outer.pc, self.guest) {
            return Err(Unknown::NoUnwindInfo);
        }
        self.stack.push(FrameKind::Caller { return_addr: outer.pc });
        (self.at, self.is_innermost, self.is_assumed) = (outer, is_by_exception, false);
        self.frame_pointer_from = FramePointer::Kept;
        Ok(Step::Further)
    }

    /// Passes a frame by its function's rule.
    fn pass_by_rule(&mut self, rule: &Rule, function: Option<u64>, is_forgetful: bool) -> Result<Step, Unknown> {
        let cfa = self.cfa(rule, is_forgetful)?;
        let may_begin = self.level == 0 && function.is_some_and(|entry| self.code.may_begin_task(entry));
        if may_begin && self.core.first_sp.get(&self.core.task) == Some(&cfa) {
            self.stacks.trail.leave_open();
            self.stacks.root_sp = Some(cfa);
            return Ok(Step::Outermost);
        }
        let return_addr = self.return_addr(rule, function, is_forgetful, cfa)?;
        if self.is_exceptions(function, return_addr, cfa) {
            self.note_frame(rule, function, cfa);
            return self.leave_exception(return_addr, cfa);
        }
        let caller = self.guest.code_address(return_addr);
        let is_end = |entry| self.code.ends_task(entry) && !self.code.is_call_to(caller, entry, self.guest);
        if self.level == 0 && function.is_some_and(is_end) {
            self.stacks.root_sp = Some(cfa);
            return Ok(Step::Outermost);
        }
        if !self.code.is_return_address(caller, self.guest) {
            // Nothing begins in a handler: such a frame is not its own.
            return if self.is_handler(function) { Err(self.broken()) } else { self.end(return_addr, caller, cfa) };
        }
        self.pass(caller, rule, function, cfa)?;
        Ok(Step::Further)
    }

    /// Reason for a frame that contradicts its rule.
    fn broken(&self) -> Unknown {
        if self.is_assumed { Unknown::NoUnwindInfo } else { Unknown::Corrupt }
    }

    /// The exception that the walk is in.
    fn active(&self) -> Option<&Active> {
        self.level.checked_sub(1).and_then(|index| self.core.exceptions.get(index))
    }

    /// Whether a function is the active exception's handler.
    fn is_handler(&self, function: Option<u64>) -> bool {
        self.active().is_some_and(|active| Some(active.handler) == function)
    }

    /// The return address register at the moment when the active exception interrupted the code.
    fn entry_return_addr(&self) -> Option<u64> {
        self.active().and_then(|active| active.interrupted).map(|context| context.return_addr)
    }

    /// Passes code without a rule for its frame.
    fn pass_without_rule(&mut self, function: Option<u64>) -> Result<Step, Unknown> {
        // Code that is not a function of the image, for example code that was copied to RAM: if C code has called it,
        // its return address is still in the register. In a function the register may be from a call that the
        // function made, and a stack must not show a caller that may not have called.
        let caller = self.guest.code_address(self.at.return_addr);
        let call = self.code.place(caller.wrapping_sub(1), self.guest);
        let is_leaf = self.is_innermost
            && function.is_none()
            && self.code.has_functions()
            && self.entry_return_addr() != Some(self.at.return_addr)
            && call.ends_call
            && call.rule.is_some();
        if is_leaf {
            self.stack.push(FrameKind::Caller { return_addr: caller });
            (self.at.pc, self.is_innermost, self.is_assumed) = (caller, false, true);
            return Ok(Step::Further);
        }
        // In the handler itself, the interrupted code is known without the handler's frame.
        if self.level > 0 && (function.is_none() || self.is_handler(function)) {
            return Ok(self.cross());
        }
        Err(Unknown::NoUnwindInfo)
    }

    /// The canonical frame address, at which the caller's frame ends.
    fn cfa(&mut self, rule: &Rule, is_forgetful: bool) -> Result<u64, Unknown> {
        let at = &self.at;
        let from = if rule.base == Base::StackPointer {
            at.sp
        } else {
            match self.frame_pointer_from {
                FramePointer::Context => self.stacks.trail.use_frame_pointer(),
                FramePointer::Word { address } => {
                    self.stacks.trail.read(address, self.guest.frame_pointer_bytes(), at.frame_pointer);
                }
                FramePointer::Kept => self.stacks.trail.leave_open(),
            }
            at.frame_pointer
        };
        let cfa = self.guest.isa.wrap(from.wrapping_add_signed(rule.cfa_offset_bytes.into()));
        let may_be_empty = self.is_innermost || self.has_link || is_forgetful || self.is_assumed;
        if cfa < at.sp || (cfa == at.sp && !may_be_empty) { Err(self.broken()) } else { Ok(cfa) }
    }

    /// Return address of the frame's function, from the register or from the word in which it was saved.
    fn return_addr(
        &mut self,
        rule: &Rule,
        function: Option<u64>,
        is_forgetful: bool,
        cfa: u64,
    ) -> Result<u64, Unknown> {
        Ok(match rule.return_addr {
            Saved::AtCfa(offset_bytes) => {
                let address = cfa.wrapping_add_signed(offset_bytes.into());
                let bytes = self.guest.return_addr_bytes();
                let word = self.stacks.stack_word(address, bytes, self.guest).ok_or(self.broken())?;
                self.stacks.trail.read(address, bytes, word);
                word
            }
            Saved::Register if (self.is_innermost || self.has_link) && !is_forgetful => self.at.return_addr,
            Saved::SecondLink if self.is_innermost => {
                self.stacks.trail.leave_open();
                self.at.second_return_addr
            }
            Saved::Register | Saved::Lost | Saved::SecondLink => {
                self.stacks.trail.leave_open();
                let kept = self.stacks.kept(function, cfa).map(|kept| kept.return_addr);
                if self.is_innermost && function == Some(self.at.pc) {
                    // A loop to the function's start finds the return addresses that the function's own calls left.
                    let own = self.guest.code_address(self.at.return_addr);
                    kept.filter(|_| self.code.function_of(own) == function).unwrap_or(self.at.return_addr)
                } else {
                    kept.ok_or(Unknown::NotKept)?
                }
            }
        })
    }

    /// Whether a frame is the handler's own. If the processor does not mark such frames, it is the frame that begins
    /// where the interrupted code's frame ended, and its saved return address is that of the interrupted code.
    fn is_exceptions(&self, function: Option<u64>, return_addr: u64, cfa: u64) -> bool {
        self.guest.is_exception_return(return_addr).unwrap_or_else(|| {
            self.active().is_some_and(|active| cfa == active.entry_sp)
                && (self.is_handler(function) || self.entry_return_addr() == Some(return_addr))
        })
    }

    /// Passes the handler's own frame.
    fn leave_exception(&mut self, return_addr: u64, cfa: u64) -> Result<Step, Unknown> {
        if self.level > 0 {
            if !self.note_saved(return_addr, cfa) {
                self.leave_chain();
            }
            return Ok(self.cross_on_stack());
        }
        // The exception's start was not noticed: the return value and the frame identify the interrupted code.
        self.stacks.trail.leave_open();
        self.leave_chain();
        let (number, interrupted) = self.guest.unseen_exception(cfa, return_addr).ok_or(self.broken())?;
        self.stack.push(FrameKind::Exception { number, handler: 0, pc: interrupted.pc });
        (self.at, self.is_innermost, self.is_assumed) = (interrupted, true, false);
        Ok(Step::Further)
    }

    /// Adds the registers that the active exception has saved above the handler's frame. False: they may be on another
    /// stack.
    fn note_saved(&mut self, return_addr: u64, cfa: u64) -> bool {
        // EXC_RETURN bit 2 selects the stack that the registers are on (Armv7-M ARM B1.5.6).
        let is_processes = self.guest.isa.is_thumb() && return_addr & 4 != 0;
        let saved = self.active().and_then(|active| Some((active.entry_sp, active.interrupted?.sp)));
        match (saved, &self.stacks.rooms) {
            (Some((entry_sp, sp)), Some(rooms)) if entry_sp == cfa && !is_processes => {
                let below = u64::from(self.guest.isa.is_avr());
                self.chain.add_saved(entry_sp + below, sp + below, rooms)
            }
            _ => false,
        }
    }

    /// Passes from a handler, whose own frame is not known, to the code that it interrupted.
    fn cross(&mut self) -> Step {
        self.leave_chain();
        self.cross_on_stack()
    }

    /// Passes from a handler to the code that it interrupted, which may have the same stack.
    fn cross_on_stack(&mut self) -> Step {
        let Some(&Active { number, handler, interrupted, .. }) = self.active() else { return Step::Outermost };
        let pc = interrupted.map_or(0, |context| context.pc);
        self.stack.push(FrameKind::Exception { number, handler, pc });
        // Nothing is below a task that has not run yet.
        let Some(interrupted) = interrupted else { return Step::Outermost };
        (self.at, self.is_innermost, self.is_assumed) = (interrupted, true, false);
        self.level -= 1;
        Step::Further
    }

    /// Ends the walk at code that starts without a call: the image's start, a task.
    fn end(&mut self, came_with: u64, caller: u64, cfa: u64) -> Result<Step, Unknown> {
        // Some kernels create threads with the return address that the processor has at reset.
        let is_reset =
            self.stacks.reset.get(&self.core.vcpu).copied().flatten().is_some_and(|(reset, at)| {
                came_with == reset && self.level == 0 && (cfa == at || self.core.task != 0)
            });
        let is_root = came_with == 0
            || self.guest.is_nowhere(came_with)
            || is_reset
            || self.code.is_entry(caller)
            // Start-up code may have left any value in the return address.
            || (self.level == 0 && self.code.is_in_first_function(caller));
        if self.is_assumed || !is_root {
            return Err(self.broken());
        }
        self.stacks.root_sp = Some(cfa);
        self.chain.end_at(cfa + u64::from(self.guest.isa.is_avr()));
        Ok(Step::Outermost)
    }

    /// Passes from a frame to the caller's frame.
    fn pass(&mut self, caller: u64, rule: &Rule, function: Option<u64>, cfa: u64) -> Result<(), Unknown> {
        self.note_frame(rule, function, cfa);
        let frame_pointer = match rule.frame_pointer {
            Saved::Register => self.at.frame_pointer,
            Saved::AtCfa(offset_bytes) => {
                let address = cfa.wrapping_add_signed(offset_bytes.into());
                self.frame_pointer_from = FramePointer::Word { address };
                let bytes = self.guest.frame_pointer_bytes();
                let word = self.stacks.stack_word(address, bytes, self.guest).ok_or(self.broken())?;
                self.guest.pushed_frame_pointer(word)
            }
            Saved::Lost | Saved::SecondLink => {
                self.frame_pointer_from = FramePointer::Kept;
                self.stacks.kept(function, cfa).map_or(0, |kept| kept.frame_pointer)
            }
        };
        self.stack.push(FrameKind::Caller { return_addr: caller });
        self.has_link = rule.return_addr == Saved::SecondLink && self.guest.facts.second_leaves_first;
        let return_addr = if self.has_link { self.at.return_addr } else { 0 };
        self.at = Context { pc: caller, sp: cfa, return_addr, second_return_addr: 0, frame_pointer };
        self.is_innermost = false;
        Ok(())
    }
}

/// Return address at the entry of a forgetful function; 0 if the function started without a call, as a coroutine into
/// which a switch returns: then the register has the return address of another call. `by_transfer`: the entry may
/// have been reached other than by direct calls.
fn came_with(entry: u64, return_addr: u64, by_transfer: bool, guest: &mut Guest<impl Vcpu>, code: &Code) -> u64 {
    let is_anothers = !by_transfer && code.is_call_of_another(guest.code_address(return_addr), entry, guest);
    if is_anothers { 0 } else { return_addr }
}
