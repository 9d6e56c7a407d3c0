//! Call stacks: walked with the harness's unwind table from registers and guest memory, each distinct one
//! written once.
//!
//! A stack is taken when a block starts in which the next sample may fall. Code inside a block neither
//! calls nor returns, so the callers at its first instruction are those at each of its instructions; and
//! at its first instruction registers and memory are current, which they are not when the sample is settled.
//!
//! Nothing that the firmware left in its registers or memory is trusted: every read is clipped to memory,
//! every return address must follow a call, every frame must lie above the one before.

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

/// Most memory that is looked at for one stack: deeper ones are cut.
const MAX_PIECES: usize = 4096;

/// Most frames of forgetful functions that are remembered: there is one for each such call that is active.
const MAX_KEPT: usize = 1 << 20;

/// The call stacks taken so far.
pub struct Stacks {
    /// Most frames of a stack.
    max_depth: usize,
    /// What forgetful functions would have had to save, by canonical frame address and entry: one without a frame may
    /// call another.
    kept: FxHashMap<(u64, u64), Kept>,
    frames: FxHashMap<(u32, FrameKind), u32>,
    /// The stack that was written last, outermost first, each frame with its id.
    last: Vec<(FrameKind, u32)>,
    memory: Memory,
    /// None: every stack is walked.
    recall: Option<Recall>,
    /// What the walk that is under way has used.
    trail: Trail,
    /// Where the stack begins that was walked last, if it was seen to.
    root_sp: Option<u64>,
    /// What each vCPU came out of reset with, as it says at its first stack.
    reset: FxHashMap<u32, Option<(u64, u64)>>,
}

/// What a forgetful function would have had to save.
#[derive(Clone, Copy)]
struct Kept {
    return_addr: u64,
    frame_pointer: u64,
}

/// The pieces of guest memory that this walk has read.
#[derive(Default)]
struct Memory {
    start: u64,
    bytes: Vec<u8>,
    pieces: usize,
}

/// Where a walk has a frame pointer from.
#[derive(Clone, Copy)]
enum FramePointer {
    /// It is that of the context that the walk began in.
    Context,
    /// A function had saved it there.
    Word { address: u64 },
    /// It was kept, or is lost.
    Kept,
}

/// What a walk found: its frames from the innermost caller outwards.
pub type Stack = Vec<FrameKind>;

/// A stack where many are taken.
pub enum Taken {
    /// One that is kept.
    Recalled(Recalled),
    /// One that is not, and where it begins, see [`Stacks::root_sp`].
    Walked(Stack, Option<u64>),
}

impl Stacks {
    /// No stack yet. None: none are to be taken.
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

    /// At the entry of a function that will not keep its return address; `by_transfer`: not only direct calls have led
    /// there.
    pub fn keep_return_address(&mut self, entry: u64, by_transfer: bool, guest: &mut Guest<impl Vcpu>, code: &Code) {
        let Context { sp, return_addr, frame_pointer, .. } = guest.context(entry);
        let return_addr = came_with(entry, return_addr, by_transfer, guest, code);
        let inside = code.function_of(return_addr & !1) == Some(entry);
        // A loop to the function's start finds what the function's own calls left.
        let is_known = self.kept.contains_key(&(sp, entry));
        if !(inside && is_known) && (self.kept.len() < MAX_KEPT || is_known) {
            self.kept.insert((sp, entry), Kept { return_addr, frame_pointer });
        }
    }

    /// Takes the stack at an instruction of this vCPU's that is about to execute; `by_transfer`: not only direct calls have
    /// led there.
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

    /// The same at the first instruction of a function that is called often, where the registers have been read.
    pub fn take_at_entry(
        &mut self,
        core: &Core,
        context: Context,
        by_transfer: bool,
        guest: &mut Guest<impl Vcpu>,
        code: &mut Code,
        ledger: &Ledger<impl Counters>,
    ) -> Taken {
        // What is interrupted is not in the registers.
        let is_plain = core.exceptions.is_empty();
        let mut recall = self.recall.as_mut().filter(|_| is_plain);
        if let Some(recalled) = recall.as_mut().and_then(|recall| recall.find(core.vcpu, &context, guest)) {
            core.note_stack_pointer(context.sp, ledger);
            return Taken::Recalled(recalled);
        }
        let stack = self.take_from(core, context, by_transfer, guest, code, ledger);
        let is_whole = !matches!(stack.last(), Some(FrameKind::Unknown(_)));
        // One of a function that keeps no return address may start without a call.
        let is_told = is_plain && is_whole && !code.is_forgetful(context.pc);
        let recall = self.recall.as_mut().filter(|_| is_told);
        match recall.and_then(|recall| recall.keep(core.vcpu, &context, &self.trail, (&stack, self.root_sp), guest)) {
            Some(recalled) => Taken::Recalled(recalled),
            None => Taken::Walked(stack, self.root_sp),
        }
    }

    /// The frames of a stack.
    pub fn frames<'a>(&'a self, taken: &'a Taken) -> &'a [FrameKind] {
        match taken {
            Taken::Recalled(recalled) => self.recall.as_ref().map_or(&[], |recall| recall.stack(*recalled)),
            Taken::Walked(stack, _) => stack,
        }
    }

    /// The stack pointer where it begins, which tells one thread's from another's. None: that has not been seen.
    pub fn root_sp(&self, taken: &Taken) -> Option<u64> {
        match taken {
            Taken::Recalled(recalled) => self.recall.as_ref().and_then(|recall| recall.root_sp(*recalled)),
            Taken::Walked(_, root_sp) => *root_sp,
        }
    }

    /// Its id, see [`Stacks::id`].
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

    /// The same where the registers have been read.
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
        // As many as most have.
        let mut stack = Vec::with_capacity(16);
        if let Err(why) = self.walk(core, context, &mut stack, guest, code) {
            stack.push(FrameKind::Unknown(why));
        }
        stack
    }

    /// Walks from a context, in the innermost active exception if there is one, outwards.
    fn walk(
        &mut self,
        core: &Core,
        mut at: Context,
        stack: &mut Stack,
        guest: &mut Guest<impl Vcpu>,
        code: &mut Code,
    ) -> Result<(), Unknown> {
        // `at` lies in the `level`-th active exception, 0: in none.
        let mut level = core.exceptions.len();
        // Whether `at` is the state of code that executes or was interrupted, not of a caller; then the
        // return address register is current.
        let mut innermost = true;
        // `at` called by the second link register: the first one is still its own.
        let mut has_link = false;
        // A frame was passed by assumption: what does not add up after it says nothing of the stack.
        let mut assumed = false;
        // Where the frame pointer was read: often no frame is found by it, and what a function has in it is its own.
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
                // Code that is no function of the image's, such as what it copied to RAM: called by C, it still has its
                // return address in the register. A function's may be of a call of its own, and nothing is shown
                // that may not have called.
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
                // The handler itself: what interrupted is known without its frame.
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
                    // A loop to the function's start finds what the function's own calls left.
                    let is_loop = || code.function_of(guest.code_address(at.return_addr)) == function;
                    match self.kept(function, cfa).map(|kept| kept.return_addr) {
                        kept if innermost && function == Some(at.pc) => {
                            kept.filter(|_| is_loop()).unwrap_or(at.return_addr)
                        }
                        Some(return_addr) => return_addr,
                        // A handler in assembly with unwind information that knows nothing of it.
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
            // The handler's own frame. Where the processor does not mark it, it begins where the interrupted one
            // ended, and the return address it saved is that one's.
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
                // What starts without a call: the image itself, a task.
                let is_root = came_with == 0
                    || guest.is_nowhere(came_with)
                    || (level == 0 && self.reset.get(&core.vcpu) == Some(&Some((came_with, cfa))))
                    || code.is_entry(caller)
                    // Start-up code may leave anything of its own there.
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

    /// What was kept of a function's call that has this canonical frame address.
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

    /// The id of a stack, written when it is seen for the first time.
    pub fn id(&mut self, stack: &[FrameKind], ledger: &mut Ledger<impl Counters>) -> u32 {
        // Two samples in a row share most of their callers.
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

/// The return address that a function that will not keep it finds at its entry. 0 where it started without a call, as a
/// coroutine does that a switch returns into: what it finds there another call has left. `by_transfer`: not only direct
/// calls have led there.
fn came_with(entry: u64, return_addr: u64, by_transfer: bool, guest: &mut Guest<impl Vcpu>, code: &Code) -> u64 {
    let is_anothers = !by_transfer && code.is_call_of_another(guest.code_address(return_addr), entry, guest);
    if is_anothers { 0 } else { return_addr }
}

/// Passes from a handler to what it interrupted. None: nothing is below.
fn cross(core: &Core, level: usize, stack: &mut Stack) -> Option<Context> {
    let active = &core.exceptions[level - 1];
    let pc = active.interrupted.map_or(0, |context| context.pc);
    stack.push(FrameKind::Exception { number: active.number, handler: active.handler, pc });
    active.interrupted
}

/// The same where the exception's start was not seen: what the return value and the frame say.
fn cross_unseen(cfa: u64, return_addr: u64, stack: &mut Stack, guest: &mut Guest<impl Vcpu>) -> Option<Context> {
    let (number, interrupted) = guest.unseen_exception(cfa, return_addr)?;
    stack.push(FrameKind::Exception { number, handler: 0, pc: interrupted.pc });
    Some(interrupted)
}
