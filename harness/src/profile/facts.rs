// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts of a run: its inputs, settings and end.

use std::fmt;

use decode::Isa;
use serde::{Deserialize, Serialize};

use crate::profile::Overflow;
use crate::profile::input::Input;
use crate::profile::no_progress::Only;
use crate::profile::waiting::Waiting;

/// Inputs, settings and end of a run. The result depends on nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Version of this tool.
    pub harness_version: String,
    /// File name of the image, without its directory.
    pub image_name: String,
    /// SHA-256 of the image file, in hex.
    pub image_sha256: String,
    /// SHA-256 of the file given with `--symbols`.
    pub symbols_sha256: Option<String>,
    /// Number in QEMU's own version line, such as `10.0.2`.
    pub qemu_version: String,
    /// Whether QEMU was used beyond its plugin API.
    pub tricks: Tricks,
    /// QEMU machine.
    pub machine: String,
    /// Chip to which the machine was completed.
    pub chip: Option<Chip>,
    /// QEMU CPU, when not the machine's own.
    pub cpu: Option<String>,
    /// Instruction set, as [`decode::Isa`] prints it.
    pub isa: String,
    /// Shift of virtual time: an instruction takes 2^shift ns.
    pub icount_shift: u8,
    /// Address at which a raw binary was loaded.
    pub load_addr: Option<u64>,
    /// Bytes added to the image's addresses when it was loaded.
    pub load_bias: u64,
    /// Address of the firmware's first instruction, without Thumb's bit 0, load bias included.
    pub entry: u64,
    /// First addresses of functions in which the kernel's tasks begin: a stack begins there, even if the function was called.
    pub task_begins: Vec<u64>,
    /// Address of the vector table that the processor starts from, if the machine would look elsewhere.
    pub vectors: Option<u64>,
    /// Additional QEMU arguments.
    pub qemu_args: Vec<String>,
    /// Command line that the firmware was given, after the program's name.
    pub firmware_args: Vec<String>,
    /// Policy for semihosting calls, in the option's word, if not the default.
    pub semihosting: Option<String>,
    /// Functions that were replaced by an immediate return, by address.
    pub stubs: Vec<Stub>,
    /// Mean distance of samples in instructions.
    pub period_insns: u64,
    /// Seed of the dither around the period.
    pub jitter_seed: Option<u64>,
    /// Width of an address bin in bytes, a power of two.
    pub bin_bytes: u64,
    /// The measuring window as asked for.
    pub window: Window,
    /// Spans that begin or end at the instances of a generic.
    pub generic_spans: Vec<GenericSpan>,
    /// Instructions executed before the window opened.
    pub before_window_insns: u64,
    /// Texts to be typed on the console, in order.
    pub input: Vec<Input>,
    /// Bytes of these texts that the machine took, all together.
    pub input_bytes: u64,
    /// Number of these texts that had begun when the run ended.
    pub input_begun: u64,
    /// End of the run.
    pub end: End,
    /// Last line that the firmware printed, if it gave up; empty: it printed none that is text.
    pub last_line: String,
    /// Lack of progress at the end: one handler, or one polled register.
    pub only: Only,
    /// Most frames of a call stack; None: no call stacks were taken.
    pub max_depth: Option<u32>,
    /// Times that the firmware waited for an interrupt: executions of `wfi`, and of `wfe` when a processor would
    /// sleep.
    pub waits: u64,
    /// Instructions executed while a processor would have slept in a `wfe`, outside of the kernel's idle tasks.
    pub slept_insns: u64,
    /// Virtual time in nanoseconds that the machine slept: its clock advanced while nothing executed. None: not known.
    pub slept_ns: Option<u64>,
    /// Code that only waits.
    pub waiting: Waiting,
    /// Task switches that were noticed late: counts per task are then estimates.
    pub unseen_switches: u64,
    /// Times that execution was not where calls and returns had left it, so that the exact call tree continued from
    /// the unwind information.
    pub resynchronised: u64,
    /// Transfers of control that belong to no known arc.
    pub unresolved_transfers: u64,
    /// Transfers of control with an exception taken before their target; their arcs are exact.
    pub interrupted_transfers: u64,
    /// Lowest stack pointer that was seen on the stack on which the firmware starts; handlers of a Cortex-M use it, too.
    pub main_stack_lowest: Option<u64>,
    /// The main stack, or another one that no kernel describes, if it was left.
    pub stack_left: Option<StackLeft>,
    /// Exceptions of a Cortex-M with the group priorities with which they started, sorted. Only `--exact` reads them.
    pub exception_levels: Vec<(u64, u64)>,
    /// Flash and static RAM of the image; None: it has no ELF file.
    pub sizes: Option<Sizes>,
}

/// Flash and static RAM of an image, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Bytes of the load image.
    pub flash_bytes: u64,
    /// Bytes of static RAM.
    pub ram_bytes: u64,
    /// Room for the load image in the machine's memory; None: unknown.
    pub flash_room_bytes: Option<u64>,
    /// Room for static RAM in the machine's memory; None: unknown.
    pub ram_room_bytes: Option<u64>,
}

impl Facts {
    /// Instruction set; None: another version saved the profile, with one that this version does not know.
    pub fn isa(&self) -> Option<Isa> {
        self.isa.parse().ok()
    }

    /// Nanoseconds of the machine's clock that a number of instructions take.
    pub fn insns_ns(&self, insns: u64) -> u128 {
        u128::from(insns) << self.icount_shift.min(63)
    }

    /// Whether the instruction set is Arm's: code addresses have Thumb's bit 0, exceptions are a Cortex-M's.
    pub fn is_arm(&self) -> bool {
        self.isa().is_some_and(|isa| isa.is_thumb())
    }

    /// Whether the file with this SHA-256 is the image of the run, or the file of its symbols.
    pub fn is_of(&self, sha256: &str) -> bool {
        self.image_sha256 == sha256 || self.symbols_sha256.as_deref() == Some(sha256)
    }
}

/// Whether QEMU was used beyond its plugin API, as `docs/qemu.md` describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tricks {
    /// Used: this version of QEMU has been examined.
    Used,
    /// Not used: this version of QEMU has not been examined.
    UnknownVersion,
    /// Not used, by the user's choice.
    Off,
}

impl Tricks {
    /// The value as a word, for programs.
    pub fn word(self) -> &'static str {
        match self {
            Tricks::Used => "used",
            Tricks::UnknownVersion => "unknown-version",
            Tricks::Off => "off",
        }
    }
}

/// Chip to which a chip file completed the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chip {
    /// Name of the chip.
    pub name: String,
    /// Argument of `--chip`: a name, or a file. Empty if the machine has the chip's devices without it, as an AVR's has.
    pub given: String,
    /// Name of `--svd`'s file.
    pub svd: Option<String>,
    /// SHA-256 of the resolved chip description, in hex.
    pub sha256: String,
    /// Differences from the chip, each one sentence.
    pub differs: Vec<String>,
    /// Accesses that the chip file does not model, most frequent first.
    pub unmodelled: Vec<Unmodelled>,
    /// First watchdog that ran out, and how often watchdogs did: each time the real chip would have reset.
    pub bitten: Option<(String, u64)>,
    /// Answers and interrupts of the file that were given, guesses first.
    pub rules: Vec<ChipRule>,
    /// The first address that was accessed and at which the chip has nothing.
    pub absent: Option<u64>,
    /// Accesses of registers in the window, by register and instruction.
    pub accesses: Vec<Access>,
    /// Names of the ports with pins and of the CAN controllers, by the addresses of their registers.
    pub ports: Vec<(u64, String)>,
    /// Number of inputs by the chip's clock that the run ended before.
    pub missed: u64,
}

impl Chip {
    /// Whether `--chip` named it.
    pub fn is_given(&self) -> bool {
        !self.given.is_empty()
    }

    /// Rules that answered and are guesses.
    pub fn guesses(&self) -> impl Iterator<Item = &ChipRule> {
        self.rules.iter().filter(|rule| rule.is_guess)
    }

    /// Registers that were accessed for the first time since the chip was learned.
    pub fn new_registers(&self) -> impl Iterator<Item = &Unmodelled> {
        self.unmodelled.iter().filter(|row| row.is_new)
    }
}

/// A rule of a chip file that answered: what firmware polls, or an interrupt that comes by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChipRule {
    /// Register or interrupt, with what it does.
    pub what: String,
    /// Reason, as the file has it.
    pub why: String,
    /// Place in the firmware that it was learned from.
    pub place: String,
    /// Instructions executed up to there.
    pub at_insns: u64,
    /// Whether something else might be right.
    pub is_guess: bool,
    /// Number of times that it was given.
    pub times: u64,
}

/// Accesses of one register by one instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Name of the register; empty if the chip file has none.
    pub name: String,
    /// Address of the register.
    pub address: u64,
    /// Instruction.
    pub pc: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Instructions of the window up to the first access.
    pub first_insns: u64,
    /// Instructions of the window up to the last access.
    pub last_insns: u64,
    /// Reads that were polls.
    pub polls: u64,
    /// Instructions spent in these polls.
    pub poll_insns: u64,
    /// Fields or bits whose change ended a poll.
    pub ended_by: Vec<String>,
}

/// An accessed register that the chip file does not model; it reads as its last written value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmodelled {
    /// Name of the register, as far as the chip file has it.
    pub name: String,
    /// Address of the register.
    pub address: u64,
    /// First instruction that accessed it.
    pub pc: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Whether the firmware that the chip was learned from had not accessed it.
    pub is_new: bool,
}

/// A function that was made to return at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stub {
    /// Demangled name.
    pub name: String,
    /// First address, load bias included.
    pub address: u64,
    /// Return value; None: it returns nothing.
    pub returns: Option<i64>,
    /// Whether the value has 64 bits instead of 32.
    pub is_double: bool,
}

impl Stub {
    /// Return value in `--stub`'s syntax: `=5`, or `=0x0000000000000005` for 64 bits.
    pub fn returned(&self) -> String {
        match self.returns {
            None => String::new(),
            Some(value) if self.is_double => format!("={value:#018x}"),
            Some(value) => format!("={value}"),
        }
    }
}

impl fmt::Display for Stub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, self.returned())
    }
}

/// Span with all instances of a generic at one end or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenericSpan {
    /// First of the addresses that begin the span.
    pub from: u64,
    /// First of the addresses that end the span.
    pub until: u64,
    /// Text of the option: `FROM..UNTIL`.
    pub name: String,
}

/// Measuring window as asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Length in instructions; None: until the firmware ends, or until another limit.
    pub for_insns: Option<u64>,
    /// Function whose first execution opens the window.
    pub from: Option<String>,
    /// Function whose first execution after that closes the window.
    pub until: Option<String>,
    /// Instructions from reset after which the run has failed.
    pub max_insns: Option<u64>,
    /// Times that the firmware is to come through its entry again; None: any is a failure.
    pub resets: Option<u64>,
}

/// Default length of `harness profile`'s window, since most firmware never exits.
pub const DEFAULT_FOR_INSNS: u64 = 2_000_000_000;

/// The same on an AVR, 13 seconds of an Arduino: QEMU executes a tenth as many instructions in a second as of other processors.
pub const DEFAULT_AVR_FOR_INSNS: u64 = 200_000_000;

/// End of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The window's length was reached.
    For,
    /// The window's last function was reached.
    Until,
    /// The firmware exited.
    Exit {
        /// Status that the firmware gave.
        status: u32,
        /// Address of the instruction that ended the run.
        pc: u64,
    },
    /// The firmware asked for a reset.
    Reset {
        /// Address of the instruction that asked, if the profiler saw it.
        pc: Option<u64>,
        /// Whether `--resets` expects it.
        is_expected: bool,
    },
    /// The CPU locked up.
    LockUp {
        /// Address of the instruction that the CPU stopped at.
        pc: u64,
        /// The fault in words.
        fault: String,
    },
    /// The CPU waits for an interrupt that nothing will raise.
    Asleep {
        /// Address of the wait instruction, or the address at which QEMU says the CPU would continue.
        pc: u64,
    },
    /// No instruction completes any more.
    Stuck {
        /// Address at which the CPU would continue.
        pc: u64,
        /// QEMU's output about the reason.
        why: String,
    },
    /// The window's length was reached after a long time in one exception's handler alone: [`Only::handler`].
    Faulting {
        /// Address of the last instruction.
        pc: u64,
    },
    /// The window's length was reached in a loop that has no end, where the firmware gave up.
    EndlessLoop {
        /// Address of an instruction of the loop.
        pc: u64,
        /// Address of the call that led to the loop, if it is known.
        call: Option<u64>,
    },
    /// The run ended well, but the firmware had come through its entry again, without a reset of the machine, or not as
    /// often as expected.
    Restarts {
        /// Number of times; a reset of the machine at the end is one, too.
        times: u64,
        /// Expected number of times.
        expected: u64,
        /// Address of the entry.
        entry: u64,
        /// Address of the jump or call that most often led there, if one did.
        from: Option<u64>,
    },
    /// A stack pointer has left its stack at the low end.
    StackOverflow {
        /// Address of the instruction at which this was noticed, if it is known.
        pc: Option<u64>,
        /// The stack.
        stack: LeftStack,
    },
    /// The firmware asked for something outside its sandbox, which only ending the run could prevent.
    Denied {
        /// Address of the instruction that asked.
        pc: u64,
    },
    /// The firmware made a semihosting call that QEMU lacks.
    UnknownCall {
        /// Semihosting operation number.
        operation: u32,
        /// Address of the instruction that made it.
        pc: u64,
    },
    /// The limit on instructions was reached.
    MaxInsns,
    /// The limit on the firmware's output (console and files) was reached.
    Output {
        /// Address of the last instruction, or of the one that was about to write.
        pc: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The limit on host seconds was reached. Host-ended: another run ends elsewhere.
    Timeout,
    /// Ctrl-C or SIGTERM. Host-ended.
    Interrupted,
    /// Records or console ran out of disk space. Host-ended.
    DiskFull,
    /// QEMU was killed or failed by itself.
    EmulatorFailed {
        /// QEMU's exit and output.
        message: String,
    },
}

/// A stack that no kernel describes, and that its stack pointer has left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackLeft {
    /// The first time that it was seen.
    pub overflow: Overflow,
    /// Lowest address of the stack.
    pub low: u64,
    /// Its size; None: not known.
    pub bytes: Option<u64>,
    /// Variable that is the stack; None: it is the main stack, which lies between variables.
    pub variable: Option<String>,
    /// Whether it has met the C library's heap, not left for a variable.
    pub is_heap: bool,
    /// Place that it has come to, as a phrase: *into .bss: variable counters*.
    pub reached: Option<String>,
}

/// A stack that its stack pointer has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeftStack {
    /// Any, in the memory that begins at `start`: the pointer is in no memory.
    Memory {
        /// First address of the memory.
        start: u64,
    },
    /// A task's, with its [`Overflow`](super::Overflow).
    Task {
        /// Index of the task.
        index: u32,
    },
    /// The main stack, or another one that no kernel describes, as [`Facts::stack_left`] says.
    Main,
}

impl End {
    /// Whether the firmware did its task, as far as the end shows.
    pub fn is_good(&self) -> bool {
        matches!(self, End::For | End::Until | End::Exit { status: 0, .. } | End::Reset { is_expected: true, .. })
    }

    /// Whether the host ended the run: another run ends elsewhere.
    pub fn is_by_host(&self) -> bool {
        matches!(self, End::Timeout | End::Interrupted | End::DiskFull | End::EmulatorFailed { .. })
    }

    /// Address of the instruction at which the run ended, if there is one.
    pub fn pc(&self) -> Option<u64> {
        match *self {
            End::Exit { pc, .. }
            | End::LockUp { pc, .. }
            | End::Asleep { pc }
            | End::Stuck { pc, .. }
            | End::Faulting { pc }
            | End::EndlessLoop { pc, .. }
            | End::Denied { pc }
            | End::UnknownCall { pc, .. }
            | End::Output { pc, .. } => Some(pc),
            End::Reset { pc, .. } | End::StackOverflow { pc, .. } => pc,
            End::Restarts { from, .. } => from,
            End::For
            | End::Until
            | End::MaxInsns
            | End::Timeout
            | End::Interrupted
            | End::DiskFull
            | End::EmulatorFailed { .. } => None,
        }
    }
}

/// Request of the firmware to the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Whether the request was denied because its argument could not be read as a whole.
    pub unread: bool,
    /// Whether the request was denied; otherwise the host answered, and another host may answer differently.
    pub denied: bool,
    /// Semihosting operation number.
    pub operation: u32,
    /// Address of the instruction that asked.
    pub pc: u64,
    /// Argument of the request, as far as it could be read.
    pub text: String,
}
