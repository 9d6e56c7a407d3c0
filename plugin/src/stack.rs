//! Call stacks: walked with the harness's unwind table from registers and guest memory, each distinct one
//! written once.
//!
//! A stack is taken when a block starts in which the next sample may fall. Code inside a block neither
//! calls nor returns, so the callers at its first instruction are those at each of its instructions; and
//! at its first instruction registers and memory are current, which they are not when the sample is settled.
//!
//! Nothing that the firmware left in its registers or memory is trusted: every read is clipped to memory,
//! every return address must follow a call, every frame must lie above the one before.

use std::collections::HashMap;

use decode::Isa;
use wire::definition::{Definition, FrameKind, Unknown};
use wire::unwind::{Base, Row, Rule, Saved};

use crate::clock::from_insn_id;
use crate::code::Place;
use crate::qemu::{ExecCallback, Hook};
use crate::state::{self, State};

/// At the first instruction of a function that will not keep its return address.
pub(crate) struct OnForgetful;

impl Hook for OnForgetful {
    const CALL: ExecCallback = |_, id| {
        let (block, index) = from_insn_id(id);
        let mut state = state::lock();
        let pc = state.blocks.get(block).pc_of(index);
        state.keep_return_address(pc);
    };
}

/// Guest memory is read in pieces of this size: one for most stacks.
const PIECE_BYTES: u64 = 512;

/// Most memory that is looked at for one stack: deeper ones are cut.
const MAX_PIECES: usize = 4096;

/// Most frames of forgetful functions that are remembered: there is one for each such call that is active.
const MAX_KEPT: usize = 1 << 20;

/// What the harness knows of the image's stacks.
pub(crate) struct Unwinder {
    pub(crate) rows: Vec<Row>,
    /// Entries of the functions that never return and so do not keep their return address, sorted.
    pub(crate) forgetful: Vec<u64>,
    /// Most frames of a stack.
    pub(crate) max_depth: usize,
    /// Return addresses of forgetful functions as they were entered, by canonical frame address.
    kept: HashMap<u64, Kept>,
    frames: HashMap<(u32, FrameKind), u32>,
    /// The stack that was written last, outermost first, each frame with its id.
    last: Vec<(FrameKind, u32)>,
    memory: Memory,
}

/// What a forgetful function would have had to save.
struct Kept {
    entry: u64,
    return_addr: u64,
}

/// The registers that a walk needs, as they are or were at one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    pub(crate) return_addr: u64,
    pub(crate) frame_pointer: u64,
}

/// The pieces of guest memory that this walk has read.
#[derive(Default)]
struct Memory {
    start: u64,
    bytes: Vec<u8>,
    pieces: usize,
}

/// What a walk found: its frames from the innermost caller outwards.
pub(crate) type Stack = Vec<FrameKind>;

impl Unwinder {
    pub(crate) fn new(rows: Vec<Row>, forgetful: Vec<u64>, max_depth: usize) -> Unwinder {
        Unwinder {
            rows,
            forgetful,
            max_depth,
            kept: HashMap::new(),
            frames: HashMap::new(),
            last: Vec::new(),
            memory: Memory::default(),
        }
    }
}

impl State {
    /// The registers now, in a callback at `pc`.
    pub(crate) fn context(&mut self, pc: u64) -> Context {
        let [sp, return_addr, frame_pointer] = if self.args.isa.is_riscv() { [2, 1, 8] } else { [13, 14, 7] };
        Context {
            pc,
            sp: self.general_register(sp),
            return_addr: self.general_register(return_addr),
            frame_pointer: self.general_register(frame_pointer),
        }
    }

    /// Whether the function that starts there never returns and does not keep its return address.
    pub(crate) fn is_forgetful(&self, entry: u64) -> bool {
        self.unwinder.as_ref().is_some_and(|unwinder| unwinder.forgetful.binary_search(&entry).is_ok())
    }

    /// At the entry of a function that will not keep its return address.
    fn keep_return_address(&mut self, entry: u64) {
        let Context { sp, return_addr, .. } = self.context(entry);
        let inside = self.function_of(return_addr & !1) == Some(entry);
        let Some(unwinder) = &mut self.unwinder else { return };
        // A loop to the function's start finds what the function's own calls left.
        let is_loop = inside && unwinder.kept.get(&sp).is_some_and(|kept| kept.entry == entry);
        if !is_loop && (unwinder.kept.len() < MAX_KEPT || unwinder.kept.contains_key(&sp)) {
            unwinder.kept.insert(sp, Kept { entry, return_addr });
        }
    }

    /// Takes the stack at an instruction that is about to execute.
    pub(crate) fn take_stack(&mut self, vcpu: u32, pc: u64) -> Stack {
        let mut stack = Vec::new();
        if self.unwinder.is_none() {
            return stack;
        }
        self.leave_exceptions(vcpu);
        self.check_task(vcpu);
        let context = self.context(pc);
        let level = self.cores[vcpu as usize].exceptions.len();
        let outermost = match self.cores[vcpu as usize].exceptions.first() {
            Some(active) => active.interrupted.map(|interrupted| interrupted.sp),
            None => Some(context.sp),
        };
        if let Some(sp) = outermost {
            self.note_stack_pointer(vcpu, sp);
        }
        if let Some(unwinder) = &mut self.unwinder {
            unwinder.memory = Memory { bytes: std::mem::take(&mut unwinder.memory.bytes), ..Memory::default() };
            unwinder.memory.bytes.clear();
        }
        if let Err(why) = self.walk(vcpu, context, level, &mut stack) {
            stack.push(FrameKind::Unknown(why));
        }
        stack
    }

    /// Walks from a context in the `level`-th active exception (0: none) outwards.
    fn walk(&mut self, vcpu: u32, mut at: Context, mut level: usize, stack: &mut Stack) -> Result<(), Unknown> {
        // Whether `at` is the state of code that executes or was interrupted, not of a caller; then the
        // return address register is current.
        let mut innermost = true;
        // A frame was passed by assumption: what does not add up after it says nothing of the stack.
        let mut assumed = false;
        loop {
            if stack.len() >= self.max_depth() {
                return Err(Unknown::TooDeep);
            }
            let code = if innermost { at.pc } else { at.pc.wrapping_sub(1) };
            let Place { function, rule, is_forgetful, .. } = self.place(code);
            if level == 0 && function.is_some_and(|entry| Some(entry) == self.first_function) {
                return Ok(());
            }
            let active = level.checked_sub(1).map(|index| &self.cores[vcpu as usize].exceptions[index]);
            let handler = active.map(|active| active.handler);
            let entry_return_addr = active.and_then(|active| active.interrupted).map(|context| context.return_addr);
            let Some(Rule { base, cfa_offset_bytes, return_addr, frame_pointer }) = rule else {
                // Assembly. A leaf of it that C called still has its return address in the register.
                let caller = self.code_address(at.return_addr);
                let call = self.place(caller.wrapping_sub(1));
                let leaf = innermost
                    && (function.is_none() || call.function != function)
                    && (level == 0 || entry_return_addr != Some(at.return_addr))
                    && call.ends_call
                    && call.rule.is_some();
                if leaf {
                    stack.push(FrameKind::Caller { return_addr: caller });
                    (at.pc, innermost, assumed) = (caller, false, true);
                    continue;
                }
                if level > 0 {
                    match self.cross(vcpu, level, stack) {
                        Some(interrupted) => (at, innermost, assumed, level) = (interrupted, true, false, level - 1),
                        None => return Ok(()),
                    }
                    continue;
                }
                return Err(Unknown::NoUnwindInfo);
            };
            let broken = if assumed { Unknown::NoUnwindInfo } else { Unknown::Corrupt };
            let from = if base == Base::StackPointer { at.sp } else { at.frame_pointer };
            let cfa = self.args.isa.wrap(from.wrapping_add_signed(cfa_offset_bytes.into()));
            if cfa < at.sp || (cfa == at.sp && !innermost && !is_forgetful && !assumed) {
                return Err(broken);
            }
            let caller = match return_addr {
                Saved::AtCfa(offset_bytes) => {
                    self.stack_word(cfa.wrapping_add_signed(offset_bytes.into())).ok_or(broken)?
                }
                Saved::Register if innermost && !is_forgetful => at.return_addr,
                Saved::Register | Saved::Lost => {
                    let kept = self.unwinder.as_ref().and_then(|unwinder| unwinder.kept.get(&cfa));
                    match kept.filter(|kept| Some(kept.entry) == function) {
                        Some(kept) => kept.return_addr,
                        None if innermost && function == Some(at.pc) => at.return_addr,
                        // A handler in assembly with unwind information that knows nothing of it.
                        None if level > 0 && handler == function => {
                            match self.cross(vcpu, level, stack) {
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
            // The handler's own frame. Cortex-M marks it; on RISC-V it begins where the interrupted one ended,
            // and the return address it saved is that one's.
            let boundary = if self.args.isa.is_riscv() {
                self.cores[vcpu as usize].exceptions.get(level.wrapping_sub(1)).is_some_and(|active| {
                    cfa == active.entry_sp && (handler == function || entry_return_addr == Some(caller))
                })
            } else {
                is_exc_return(caller)
            };
            if boundary {
                let interrupted = if level > 0 {
                    self.cross(vcpu, level, stack)
                } else {
                    Some(self.cross_unseen(cfa, caller, stack).ok_or(broken)?)
                };
                match interrupted {
                    Some(interrupted) => (at, innermost, assumed) = (interrupted, true, false),
                    None => return Ok(()),
                }
                level = level.saturating_sub(1);
                continue;
            }
            let caller = self.code_address(caller);
            if !self.is_return_address(caller) {
                // What starts without a call: the image itself, a task.
                return if !assumed && self.is_root(caller) { Ok(()) } else { Err(broken) };
            }
            let frame_pointer = match frame_pointer {
                Saved::Register => at.frame_pointer,
                Saved::AtCfa(offset_bytes) => {
                    self.stack_word(cfa.wrapping_add_signed(offset_bytes.into())).ok_or(broken)?
                }
                Saved::Lost => 0,
            };
            stack.push(FrameKind::Caller { return_addr: caller });
            at = Context { pc: caller, sp: cfa, return_addr: 0, frame_pointer };
            innermost = false;
        }
    }

    pub(crate) fn max_depth(&self) -> usize {
        self.unwinder.as_ref().map_or(0, |unwinder| unwinder.max_depth)
    }

    /// Passes from a handler to what it interrupted. None: nothing is below.
    fn cross(&mut self, vcpu: u32, level: usize, stack: &mut Stack) -> Option<Context> {
        let active = &self.cores[vcpu as usize].exceptions[level - 1];
        let pc = active.interrupted.map_or(0, |context| context.pc);
        stack.push(FrameKind::Exception { number: active.number, handler: active.handler, pc });
        active.interrupted
    }

    /// The same where the exception's start was not seen: what the return value and the frame say.
    fn cross_unseen(&mut self, cfa: u64, exc_return: u64, stack: &mut Stack) -> Option<Context> {
        let number = self.exception_number();
        let frame = if exc_return & 4 != 0 { self.register("psp") } else { cfa };
        let interrupted = self.hardware_frame(frame, exc_return)?;
        stack.push(FrameKind::Exception { number, handler: 0, pc: interrupted.pc });
        Some(interrupted)
    }

    /// Whether a return address is one that the start of the image or of a task leaves: none, Cortex-M's at
    /// reset, or the start of a function, where tasks would end.
    fn is_root(&self, return_addr: u64) -> bool {
        return_addr == 0 || return_addr >= 0xffff_fff0 || self.is_entry(return_addr)
    }

    /// A word of the stack, read in pieces.
    fn stack_word(&mut self, address: u64) -> Option<u64> {
        let word_bytes = if self.args.isa == Isa::Riscv64 { 8 } else { 4 };
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
        if let Some(word) = held(&self.unwinder.as_ref()?.memory) {
            return Some(word);
        }
        let region = self.args.memory.iter().find(|region| region.contains(&address))?;
        let length = PIECE_BYTES.min(region.end - address);
        if length < word_bytes || !self.memory_readable {
            return None;
        }
        let unwinder = self.unwinder.as_mut()?;
        unwinder.memory.pieces += 1;
        if unwinder.memory.pieces > MAX_PIECES {
            return None;
        }
        unwinder.memory.start = address;
        let read = self.registers.as_mut()?.read_memory_into(address, length as usize, &mut unwinder.memory.bytes);
        read.then_some(())?;
        held(&self.unwinder.as_ref()?.memory)
    }

    /// The id of a stack, written when it is seen for the first time.
    pub(crate) fn stack_id(&mut self, stack: &Stack) -> u32 {
        let Some(unwinder) = &mut self.unwinder else { return 0 };
        // Two samples in a row share most of their callers.
        let same = stack.iter().rev().zip(&unwinder.last).take_while(|(frame, (last, _))| *frame == last).count();
        unwinder.last.truncate(same);
        let mut id = unwinder.last.last().map_or(0, |&(_, id)| id);
        for index in same..stack.len() {
            let kind = stack[stack.len() - 1 - index];
            let parent = id;
            let Some(unwinder) = &mut self.unwinder else { return 0 };
            let next = unwinder.frames.len() as u32 + 1;
            let mut is_new = false;
            id = *unwinder.frames.entry((parent, kind)).or_insert_with(|| {
                is_new = true;
                next
            });
            unwinder.last.push((kind, id));
            if is_new {
                self.note(&Definition::Frame { parent, kind });
            }
        }
        id
    }
}

/// Armv7-M ARM B1.5.8: what a handler finds in lr.
pub(crate) fn is_exc_return(address: u64) -> bool {
    address >> 24 == 0xff
}
