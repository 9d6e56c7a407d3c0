//! Everything the callbacks share, behind one lock.
//!
//! `-icount` makes QEMU run all vCPUs on one thread, so the lock is never contended; it costs two
//! atomic operations per callback, and callbacks are rare.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};

use wire::definition::{Definition, Transfer, TransferKind};
use wire::refusal::Refusal;

use crate::args::Args;
use crate::clock::{Sampler, Vcpu};
use crate::code::Places;
use crate::follow::exception::Core;
use crate::follow::span::Spans;
use crate::follow::task::Tasks;
use crate::follow::tree::Tree;
use crate::input::Input;
use crate::marks::Console;
use crate::qemu::{Registers, Scoreboard, VcpuCallback, VcpuHook};
use crate::records::Records;
use crate::stack::Unwinder;
use crate::transfer::{Arcs, Sites};
use crate::wait::{Guard, MainThread};

static STATE: OnceLock<Mutex<State>> = OnceLock::new();

/// The plugin's whole state.
pub(crate) struct State {
    pub(crate) args: Args,
    /// The firmware's functions, sorted.
    pub(crate) functions: Vec<Range<u64>>,
    /// Sorted addresses of branches whose jumps follow from the counts.
    pub(crate) loops: Vec<u64>,
    pub(crate) records: Records,
    pub(crate) scoreboard: Scoreboard,
    pub(crate) registers: Option<Registers>,
    pub(crate) segments: HashMap<Segment, u32>,
    /// Slots of the segments that end in a jump to their function's start.
    pub(crate) jumping: HashSet<u32>,
    pub(crate) blocks: Blocks,
    pub(crate) sites: Sites,
    pub(crate) arcs: Arcs,
    /// Transfers whose target could not be told.
    pub(crate) unresolved: u64,
    /// Transfers that an exception came between.
    pub(crate) interrupted_transfers: u64,
    /// Addresses inside Thumb IT blocks, and how many more instructions there are conditional:
    /// for blocks that QEMU starts in the middle of one.
    pub(crate) it_blocks: HashMap<u64, u8>,
    /// Notes already written.
    pub(crate) notes: HashSet<Definition>,
    pub(crate) vcpus: Vec<Vcpu>,
    /// Exceptions and tasks of each vCPU.
    pub(crate) cores: Vec<Core>,
    pub(crate) tasks: Tasks,
    pub(crate) places: Places,
    /// Once it exists, where it is to be marked.
    pub(crate) console: Option<Console>,
    /// None: no call stacks are taken.
    pub(crate) unwinder: Option<Unwinder>,
    /// The exact call tree, when asked for.
    pub(crate) tree: Option<Tree>,
    pub(crate) spans: Spans,
    /// Entry of the firmware's first function.
    pub(crate) first_function: Option<u64>,
    pub(crate) sampler: Sampler,
    pub(crate) window_open: bool,
    /// What is typed, where something is.
    pub(crate) input: Option<Input>,
    pub(crate) guard: Guard,
    /// The thread that executes the guest.
    pub(crate) vcpu_thread: Option<ThreadId>,
    /// Guest memory can be read: in callbacks, and not when QEMU exits.
    pub(crate) memory_readable: bool,
}

/// Straight-line code: what a counter counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Segment {
    pub(crate) pc: u64,
    pub(crate) sizes: Box<[u8]>,
    pub(crate) transfer: Option<Transfer>,
}

/// A translated block as its callbacks see it.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) pc: u64,
    pub(crate) sizes: Box<[u8]>,
    /// Slot and number of instructions of each segment.
    pub(crate) segments: Box<[(u32, u32)]>,
}

impl Block {
    /// Address of the `index`-th instruction.
    pub(crate) fn pc_of(&self, index: u64) -> u64 {
        self.pc + self.sizes[..index as usize].iter().map(|&size| u64::from(size)).sum::<u64>()
    }

    /// Slot and length of the segment that starts at the `index`-th instruction.
    pub(crate) fn segment_at(&self, index: u64) -> (u32, u32) {
        let mut start = 0;
        for &(slot, length) in &self.segments {
            if start == index {
                return (slot, length);
            }
            start += u64::from(length);
        }
        unreachable!("segments are registered at their first instruction")
    }
}

/// Blocks by number, each kept once however often it is translated: memory does not grow with
/// retranslation.
#[derive(Default)]
pub(crate) struct Blocks {
    list: Vec<Block>,
    numbers: HashMap<Box<[(u32, u32)]>, usize>,
}

impl Blocks {
    /// The number of a block; segments (whose slots know their code) tell blocks apart.
    pub(crate) fn number(&mut self, block: Block) -> usize {
        *self.numbers.entry(block.segments.clone()).or_insert_with(|| {
            self.list.push(block);
            self.list.len() - 1
        })
    }

    pub(crate) fn get(&self, number: usize) -> &Block {
        &self.list[number]
    }
}

/// Sets the plugin up; called once, before any vCPU exists.
pub(crate) fn install(dir: &str, vcpus: u32) -> Result<(), Refused> {
    let args = Args::read(dir)?;
    if vcpus > 1 && !args.isa.is_riscv() {
        return Err(Refused(Refusal::SeveralVcpus, "several vCPUs can only be told apart on RISC-V".into()));
    }
    let (functions, loops) = (args.functions.clone(), args.loops.clone());
    let max_depth = args.max_depth.map(|depth| usize::try_from(depth).unwrap_or(usize::MAX));
    let unwinder = max_depth.map(|max_depth| Unwinder::new(args.unwind.clone(), args.forgetful.clone(), max_depth));
    let tree = args.is_exact.then(Tree::default);
    if vcpus > 1 && tree.is_some() {
        return Err(Refused(Refusal::ExactOfSeveralVcpus, "the exact call tree follows one vCPU".into()));
    }
    let records = Records::create(&args.dir, vcpus)?;
    let main_thread = MainThread::find();
    let input = Input::open(&args, &main_thread)?;
    let window_open = args.from.is_none();
    let mut state = State {
        functions,
        loops,
        records,
        scoreboard: Scoreboard::new(wire::counters::CHUNK_BYTES),
        registers: None,
        segments: HashMap::new(),
        jumping: HashSet::new(),
        blocks: Blocks::default(),
        sites: Sites::default(),
        arcs: Arcs::default(),
        unresolved: 0,
        interrupted_transfers: 0,
        it_blocks: HashMap::new(),
        notes: HashSet::new(),
        cores: (0..vcpus).map(|_| Core::default()).collect(),
        tasks: Tasks::default(),
        places: Places::default(),
        console: None,
        unwinder,
        tree,
        spans: Spans::default(),
        first_function: None,
        vcpus: (0..vcpus).map(|vcpu| Vcpu::new(&args, vcpu)).collect(),
        sampler: Sampler::default(),
        window_open,
        input,
        guard: Guard::find(vcpus, main_thread),
        vcpu_thread: None,
        memory_readable: true,
        args,
    };
    state.first_function = state.args.entry.map(|entry| state.function_of(entry).unwrap_or(entry));
    state.define_between();
    if window_open {
        state.open_window();
    } else {
        for vcpu in 0..vcpus {
            state.set_clock(vcpu, 0, false);
        }
    }
    STATE.set(Mutex::new(state)).map_err(|_| io::Error::other("installed twice").into())
}

/// Why the plugin does not start: for the harness, and for who reads QEMU's error output.
pub(crate) struct Refused(pub(crate) Refusal, pub(crate) String);

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        let refusal = match (error.raw_os_error(), error.kind()) {
            (Some(errno), _) if errno > 0 => Refusal::Io { errno },
            (_, io::ErrorKind::InvalidData) => Refusal::Request,
            _ => Refusal::Host,
        };
        Refused(refusal, error.to_string())
    }
}

/// The state, for one callback.
pub(crate) fn lock() -> MutexGuard<'static, State> {
    match STATE.get() {
        Some(state) => state.lock().unwrap_or_else(PoisonError::into_inner),
        // QEMU calls back only after `install` has returned.
        None => crate::qemu::exit(1),
    }
}

/// The state, unless a callback has it already.
pub(crate) fn try_lock() -> Option<MutexGuard<'static, State>> {
    STATE.get()?.try_lock().ok()
}

/// Looks the registers up when the first vCPU appears.
pub(crate) struct VcpuInit;

impl VcpuHook for VcpuInit {
    const CALL: VcpuCallback = |_| {
        let mut state = lock();
        let general: &[&str] = if state.args.isa.is_riscv() { &RISCV_REGISTERS } else { &ARM_REGISTERS };
        state.registers.get_or_insert_with(|| Registers::find(general));
        state.vcpu_thread = Some(thread::current().id());
    };
}

impl State {
    /// The counter of a segment, defined when it is seen for the first time.
    pub(crate) fn segment(&mut self, segment: Segment) -> u32 {
        if let Some(&slot) = self.segments.get(&segment) {
            return slot;
        }
        let slot = self.define(|slot| Definition::Segment {
            slot,
            pc: segment.pc,
            sizes: segment.sizes.to_vec(),
            transfer: segment.transfer,
        });
        if segment.transfer.is_some_and(|transfer| transfer.kind != TransferKind::Call) {
            self.jumping.insert(slot);
        }
        self.segments.insert(segment, slot);
        slot
    }

    /// Takes so many counters in a row; the caller defines them. Ends the run when the disk is full.
    pub(crate) fn new_slots(&mut self, count: u32) -> u32 {
        let first = self.records.new_slot().unwrap_or_else(|error| self.write_failed(&error));
        for _ in 1..count {
            self.records.new_slot().unwrap_or_else(|error| self.write_failed(&error));
        }
        first
    }

    /// Defines a new counter. Ends the run when the disk is full.
    pub(crate) fn define(&mut self, definition: impl FnOnce(u32) -> Definition) -> u32 {
        let slot = self.records.new_slot().unwrap_or_else(|error| self.write_failed(&error));
        self.note(&definition(slot));
        slot
    }

    /// Appends a definition. Ends the run when the disk is full.
    pub(crate) fn note(&mut self, definition: &Definition) {
        let mut bytes = Vec::new();
        if let Err(error) = definition.put(&mut bytes) {
            eprintln!("profiler plugin: {error}");
            crate::qemu::exit(1);
        }
        self.records.define(&bytes).unwrap_or_else(|error| self.write_failed(&error));
    }

    /// Whether generated code can count. With several vCPUs it cannot: under icount QEMU 10.0 makes
    /// the number of the vCPU that a block was translated for a constant of that block, though other
    /// vCPUs run it too (`gen_cpu_index` in accel/tcg/plugin-gen.c), and damages the constant.
    pub(crate) fn counts_inline(&self) -> bool {
        self.vcpus.len() == 1
    }

    /// The vCPU that runs a callback, whichever QEMU reports, see [`State::counts_inline`].
    pub(crate) fn running_vcpu(&mut self, reported: u32) -> u32 {
        if self.counts_inline() {
            return reported;
        }
        let hart = self.register("mhartid") as u32;
        hart.min(self.vcpus.len() as u32 - 1)
    }

    /// Whether a function of the firmware starts there.
    pub(crate) fn is_entry(&self, address: u64) -> bool {
        self.functions.binary_search_by_key(&address, |function| function.start).is_ok()
    }

    /// Entry of the function that an address lies in.
    pub(crate) fn function_of(&self, address: u64) -> Option<u64> {
        let after = self.functions.partition_point(|function| function.start <= address);
        let function = &self.functions[after.checked_sub(1)?];
        function.contains(&address).then_some(function.start)
    }

    /// Reads a register inside a callback; 0 where the CPU has none of that name.
    pub(crate) fn register(&mut self, name: &str) -> u64 {
        let Some(registers) = &mut self.registers else { return 0 };
        registers.get(name).and_then(|register| registers.read(register)).unwrap_or(0)
    }

    /// Reads an integer register by its number.
    pub(crate) fn general_register(&mut self, number: u8) -> u64 {
        self.registers.as_mut().and_then(|registers| registers.read_general(number)).unwrap_or(0)
    }

    /// The number of the exception that a Cortex-M executes; 0: none.
    pub(crate) fn exception_number(&mut self) -> u64 {
        self.general_register(XPSR) & 0x1ff
    }

    pub(crate) fn stack_pointer(&mut self) -> u64 {
        self.general_register(if self.args.isa.is_riscv() { 2 } else { 13 })
    }

    /// Reads guest memory if it is memory; devices are never touched.
    pub(crate) fn memory(&mut self, address: u64, bytes: usize) -> Option<Vec<u8>> {
        self.readable(address, bytes as u64)?.read_memory(address, bytes)
    }

    /// Reads a little-endian number of at most eight bytes from guest memory.
    pub(crate) fn memory_word(&mut self, address: u64, bytes: u64) -> Option<u64> {
        self.readable(address, bytes)?.read_memory_word(address, bytes as usize)
    }

    /// What reads guest memory, if it is memory and this is a time at which it can be read.
    fn readable(&mut self, address: u64, bytes: u64) -> Option<&mut Registers> {
        let is_readable = self.memory_readable && self.args.is_memory(address, bytes);
        self.registers.as_mut().filter(|_| is_readable)
    }
}

/// Names of the integer registers, as QEMU gives them, and of those that are read as often.
const ARM_REGISTERS: [&str; 17] =
    ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "sp", "lr", "pc", "xpsr"];

/// Its number there.
const XPSR: u8 = 16;

/// As above; x8 is `fp` there.
const RISCV_REGISTERS: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
    "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];
