//! Call stacks: walked with the harness's unwind table from registers and guest memory, each distinct one
//! written once.
//!
//! A stack is taken at the start of a block that may contain the next sample. Code inside a block neither calls nor
//! returns, so the callers at its first instruction are those at each of its instructions; and at its first
//! instruction registers and memory are current, which they are not when the sample is settled.
//!
//! The firmware's registers and memory are not trusted: every read is clipped to memory, every return address must
//! follow a call, every frame must lie above the one before.

use rustc_hash::FxHashMap;
use wire::definition::{Definition, FrameKind, Unknown};
use wire::request::Request;
use wire::unwind::{Base, Rule, Saved};

use crate::code::{Code, Place};
use crate::follow::context::Core;
use crate::guest::{Context, Guest, Vcpu};
use crate::ledger::{Counters, Ledger};
use crate::recall::{Recall, Recalled, Trail};

/// Guest memory is read in pieces of this size: one for most stacks.
const PIECE_BYTES: u64 = 512;

/// Most pieces of memory read for one stack: deeper stacks are cut.
const MAX_PIECES: usize = 4096;

/// Most kept frames of forgetful functions: one for each active call of such a function.
const MAX_KEPT: usize = 1 << 20;

/// The call stacks taken so far.
pub struct Stacks {
    /// Most frames of a stack.
    max_depth: usize,
    /// Registers that forgetful functions should have saved, by canonical frame address and entry, since one without
    /// a frame may call another.
    kept: FxHashMap<(u64, u64), Kept>,
    frames: FxHashMap<(u32, FrameKind), u32>,
    /// The last stack written, outermost first, each frame with its id.
    last: Vec<(FrameKind, u32)>,
    memory: Memory,
    /// None: every stack is walked.
    recall: Option<Recall>,
    /// Inputs of the current walk.
    trail: Trail,
    /// Stack pointer at the root of the last stack walked, if the walk reached it.
    root_sp: Option<u64>,
    /// Return address and stack pointer of each vCPU at reset, read at its first stack.
    reset: FxHashMap<u32, Option<(u64, u64)>>,
}

/// Registers that a forgetful function should have saved.
#[derive(Clone, Copy)]
struct Kept {
    return_addr: u64,
    frame_pointer: u64,
}

/// Pieces of guest memory that this walk has read.
#[derive(Default)]
struct Memory {
    start: u64,
    bytes: Vec<u8>,
    pieces: usize,
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

/// Frames of a walk, from the innermost caller outwards.
pub type Stack = Vec<FrameKind>;

/// A stack at a place where many are taken.
pub enum Taken {
    /// A kept stack.
    Recalled(Recalled),
    /// A new stack, and the stack pointer at its root, see [`Stacks::root_sp`].
    Walked(Stack, Option<u64>),
}

impl Stacks {
    /// No stacks yet. None: stacks are not asked for.
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
        self.take_from(core, context, by_transfer, guest, code, ledger)
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
        // The registers do not have the interrupted code.
        let is_plain = core.exceptions.is_empty();
        let mut recall = self.recall.as_mut().filter(|_| is_plain);
        if let Some(recalled) = recall.as_mut().and_then(|recall| recall.find(core.vcpu, &context, guest)) {
            core.note_stack_pointer(context.sp, ledger);
            return Taken::Recalled(recalled);
        }
        let stack = self.take_from(core, context, by_transfer, guest, code, ledger);
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
        by_transfer: bool,
        guest: &mut Guest<impl Vcpu>,
        code: &mut Code,
        ledger: &Ledger<impl Counters>,
    ) -> Stack {
        self.reset.entry(core.vcpu).or_insert_with(|| guest.reset());
        let pc = context.pc;
        if code.is_forgetful(pc) {
            context.return_addr = came_with(pc, context.return_addr, by_transfer, guest, code);
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
        if let Err(why) = self.walk(core, context, &mut stack, guest, code) {
            stack.push(FrameKind::Unknown(why));
        }
        stack
    }

    /// Walks outwards from a context, which is in the innermost active exception, if any.
    fn walk(
        &mut self,
        core: &Core,
        mut at: Context,
        stack: &mut Stack,
        guest: &mut Guest<impl Vcpu>,
        code: &mut Code,
    ) -> Result<(), Unknown> {
        // `at` lies in the `level`-th active exception; 0: in none.
        let mut level = core.exceptions.len();
        // Whether `at` is the state of executing or interrupted code, not of a caller; then the return address
        // register is current.
        let mut innermost = true;
        // Whether `at` called by the second link register, so that the first one is still its own.
        let mut has_link = false;
        // Whether a frame was passed by an assumption; a contradiction after it proves nothing about the stack.
        let mut assumed = false;
        // Source of the frame pointer: often no frame is found by it, and functions use it for other values.
        let mut frame_pointer_from = FramePointer::Context;
        loop {
            if stack.len() >= self.max_depth {
                return Err(Unknown::TooDeep);
            }
            let address = if innermost { at.pc } else { at.pc.wrapping_sub(1) };
            let Place { function, rule, is_forgetful, .. } = code.place(address, guest);
            if level == 0 && function.is_some_and(|entry| Some(entry) == code.first_function) {
                self.root_sp = Some(at.sp);
                return Ok(());
            }
            let active = level.checked_sub(1).map(|index| &core.exceptions[index]);
            let handler = active.map(|active| active.handler);
            let entry_return_addr = active.and_then(|active| active.interrupted).map(|context| context.return_addr);
            let Some(Rule { base, cfa_offset_bytes, return_addr, frame_pointer }) = rule else {
                // Code outside the image's functions, such as code copied to RAM: called by C, it still has its
                // return address in the register. A function's register may hold the return address of its own call,
                // so a caller is only shown if it is certain.
                let caller = guest.code_address(at.return_addr);
                let call = code.place(caller.wrapping_sub(1), guest);
                let leaf = innermost
                    && function.is_none()
                    && code.has_functions()
                    && (level == 0 || entry_return_addr != Some(at.return_addr))
                    && call.ends_call
                    && call.rule.is_some();
                if leaf {
                    stack.push(FrameKind::Caller { return_addr: caller });
                    (at.pc, innermost, assumed) = (caller, false, true);
                    continue;
                }
                // The handler itself: the interrupted code is known without its frame.
                if level > 0 && (function.is_none() || handler == function) {
                    match cross(core, level, stack) {
                        Some(interrupted) => (at, innermost, assumed, level) = (interrupted, true, false, level - 1),
                        None => return Ok(()),
                    }
                    continue;
                }
                return Err(Unknown::NoUnwindInfo);
            };
            let broken = if assumed { Unknown::NoUnwindInfo } else { Unknown::Corrupt };
            let from = if base == Base::StackPointer {
                at.sp
            } else {
                match frame_pointer_from {
                    FramePointer::Context => self.trail.use_frame_pointer(),
                    FramePointer::Word { address } => self.trail.read(address, at.frame_pointer),
                    FramePointer::Kept => self.trail.leave_open(),
                }
                at.frame_pointer
            };
            let cfa = guest.isa.wrap(from.wrapping_add_signed(cfa_offset_bytes.into()));
            if cfa < at.sp || (cfa == at.sp && !innermost && !has_link && !is_forgetful && !assumed) {
                return Err(broken);
            }
            let caller = match return_addr {
                Saved::AtCfa(offset_bytes) => {
                    let address = cfa.wrapping_add_signed(offset_bytes.into());
                    let word = self.stack_word(address, guest).ok_or(broken)?;
                    self.trail.read(address, word);
                    word
                }
                Saved::Register if (innermost || has_link) && !is_forgetful => at.return_addr,
                Saved::SecondLink if innermost => {
                    self.trail.leave_open();
                    at.second_return_addr
                }
                Saved::Register | Saved::Lost | Saved::SecondLink => {
                    self.trail.leave_open();
                    // A loop to the function's start finds the return addresses of the function's own calls.
                    let is_loop = || code.function_of(guest.code_address(at.return_addr)) == function;
                    match self.kept(function, cfa).map(|kept| kept.return_addr) {
                        kept if innermost && function == Some(at.pc) => {
                            kept.filter(|_| is_loop()).unwrap_or(at.return_addr)
                        }
                        Some(return_addr) => return_addr,
                        // An assembly handler whose unwind information does not know of the exception.
                        None if level > 0 && handler == function => {
                            match cross(core, level, stack) {
                                Some(interrupted) => (at, innermost, assumed) = (interrupted, true, false),
                                None => return Ok(()),
                            }
                            level -= 1;
                            continue;
                        }
                        None => return Err(Unknown::NotKept),
                    }
                }
            };
            // The handler's own frame. If the processor does not mark it, it begins where the interrupted frame
            // ended, and its saved return address is that frame's.
            let boundary = guest.is_exception_return(caller).unwrap_or_else(|| {
                core.exceptions.get(level.wrapping_sub(1)).is_some_and(|active| {
                    cfa == active.entry_sp && (handler == function || entry_return_addr == Some(caller))
                })
            });
            if boundary {
                let interrupted = if level > 0 {
                    cross(core, level, stack)
                } else {
                    self.trail.leave_open();
                    Some(cross_unseen(cfa, caller, stack, guest).ok_or(broken)?)
                };
                match interrupted {
                    Some(interrupted) => (at, innermost, assumed) = (interrupted, true, false),
                    None => return Ok(()),
                }
                level = level.saturating_sub(1);
                continue;
            }
            let came_with = caller;
            let caller = guest.code_address(came_with);
            if !code.is_return_address(caller, guest) {
                // Code that starts without a call: the image itself, or a task.
                let is_root = came_with == 0
                    || guest.is_nowhere(came_with)
                    || (level == 0 && self.reset.get(&core.vcpu) == Some(&Some((came_with, cfa))))
                    || code.is_entry(caller)
                    // Start-up code may have any value there.
                    || (level == 0 && code.is_in_first_function(caller));
                if assumed || !is_root {
                    return Err(broken);
                }
                self.root_sp = Some(cfa);
                return Ok(());
            }
            let frame_pointer = match frame_pointer {
                Saved::Register => at.frame_pointer,
                Saved::AtCfa(offset_bytes) => {
                    let address = cfa.wrapping_add_signed(offset_bytes.into());
                    frame_pointer_from = FramePointer::Word { address };
                    self.stack_word(address, guest).ok_or(broken)?
                }
                Saved::Lost | Saved::SecondLink => {
                    frame_pointer_from = FramePointer::Kept;
                    self.kept(function, cfa).map_or(0, |kept| kept.frame_pointer)
                }
            };
            stack.push(FrameKind::Caller { return_addr: caller });
            has_link = return_addr == Saved::SecondLink;
            let link = if has_link { at.return_addr } else { 0 };
            at = Context { pc: caller, sp: cfa, return_addr: link, second_return_addr: 0, frame_pointer };
            innermost = false;
        }
    }

    /// Registers kept for a function's call with this canonical frame address.
    fn kept(&self, function: Option<u64>, cfa: u64) -> Option<Kept> {
        function.and_then(|entry| self.kept.get(&(cfa, entry)).copied())
    }

    /// A word of the stack, read in pieces.
    fn stack_word(&mut self, address: u64, guest: &mut Guest<impl Vcpu>) -> Option<u64> {
        let word_bytes = guest.pointer_bytes();
        if !address.is_multiple_of(word_bytes) {
            return None;
        }
        let held = |memory: &Memory| {
            let at = usize::try_from(address.checked_sub(memory.start)?).ok()?;
            let bytes = memory.bytes.get(at..at.checked_add(word_bytes as usize)?)?;
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            Some(u64::from_le_bytes(word))
        };
        if let Some(word) = held(&self.memory) {
            return Some(word);
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
        guest.read_into(address, length as usize, &mut self.memory.bytes).then_some(())?;
        held(&self.memory)
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

/// Return address at the entry of a forgetful function; 0 if it started without a call, as a coroutine that a switch
/// returns into: then the register has another call's. `by_transfer`: it may have been reached other than by direct
/// calls.
fn came_with(entry: u64, return_addr: u64, by_transfer: bool, guest: &mut Guest<impl Vcpu>, code: &Code) -> u64 {
    let is_anothers = !by_transfer && code.is_call_of_another(guest.code_address(return_addr), entry, guest);
    if is_anothers { 0 } else { return_addr }
}

/// Crosses from a handler to the interrupted code. None: there is none.
fn cross(core: &Core, level: usize, stack: &mut Stack) -> Option<Context> {
    let active = &core.exceptions[level - 1];
    let pc = active.interrupted.map_or(0, |context| context.pc);
    stack.push(FrameKind::Exception { number: active.number, handler: active.handler, pc });
    active.interrupted
}

/// Does what [`cross`] does for an exception whose start was not noticed: by its return value and frame.
fn cross_unseen(cfa: u64, return_addr: u64, stack: &mut Stack, guest: &mut Guest<impl Vcpu>) -> Option<Context> {
    let (number, interrupted) = guest.unseen_exception(cfa, return_addr)?;
    stack.push(FrameKind::Exception { number, handler: 0, pc: interrupted.pc });
    Some(interrupted)
}
