//! The facts of a run: what it depends on, and how it ended.

use std::fmt;

use decode::Isa;
use serde::{Deserialize, Serialize};

use crate::profile::input::Input;
use crate::profile::only::Only;

/// What was run, how, and how it ended. Everything that the result depends on is here.
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
    /// QEMU's own version line's number, as `10.0.2`.
    pub qemu_version: String,
    /// QEMU machine.
    pub machine: String,
    /// The chip that it was completed to.
    pub chip: Option<Chip>,
    /// QEMU CPU, when not the machine's own.
    pub cpu: Option<String>,
    /// Instruction set, as [`decode::Isa`] prints it.
    pub isa: String,
    /// Virtual time per instruction is 2^shift ns.
    pub icount_shift: u8,
    /// Where a raw binary was loaded.
    pub load_addr: Option<u64>,
    /// Bytes added to the image's addresses when it was loaded.
    pub load_bias: u64,
    /// Address of the firmware's first instruction, without Thumb's bit 0, load bias included.
    pub entry: u64,
    /// Where the vector table is that the processor starts from, where the machine would look elsewhere.
    pub vectors: Option<u64>,
    /// Additional QEMU arguments.
    pub qemu_args: Vec<String>,
    /// What the firmware was given as its command line, after the program's name.
    pub firmware_args: Vec<String>,
    /// Which semihosting calls were served, in the option's word, where not the usual ones.
    pub semihosting: Option<String>,
    /// Functions that were made to return at once, by address.
    pub stubs: Vec<Stub>,
    /// Mean distance of samples in instructions.
    pub period_insns: u64,
    /// Seed of the dither around the period.
    pub jitter_seed: Option<u64>,
    /// Width of an address bin in bytes, a power of two.
    pub bin_bytes: u64,
    /// The measuring window as asked for.
    pub window: Window,
    /// Those spans that begin or end at the instances of a generic.
    pub generic_spans: Vec<GenericSpan>,
    /// Instructions executed before the window opened.
    pub before_window_insns: u64,
    /// What was to be typed on the console, in order.
    pub input: Vec<Input>,
    /// Bytes of it that the machine took, all together.
    pub input_bytes: u64,
    /// How many of the texts had begun when the run ended.
    pub input_begun: u64,
    /// How the run ended.
    pub end: End,
    /// What alone the firmware did up to then.
    pub only: Only,
    /// Most frames of a call stack; None: no call stacks were taken.
    pub max_depth: Option<u32>,
    /// How often the firmware waited for an interrupt: executions of `wfi`, and of `wfe` where a processor would sleep.
    pub waits: u64,
    /// Instructions executed where a processor would have slept in a `wfe`, in none of the kernel's idle tasks.
    pub slept_insns: u64,
    /// Switches between tasks that were only noticed later: counts per task are then estimates.
    pub unseen_switches: u64,
    /// Times that what executes was not what calls and returns had left, so that the exact call tree went on from
    /// what the unwind information says.
    pub resynchronised: u64,
    /// Transfers of control that could not be attributed to an arc.
    pub unresolved_transfers: u64,
    /// Transfers of control before whose target an exception was taken; their arcs are exact.
    pub interrupted_transfers: u64,
}

impl Facts {
    /// The instruction set; None: of a profile by another version, one that this version does not know.
    pub fn isa(&self) -> Option<Isa> {
        self.isa.parse().ok()
    }

    /// Whether it is one of Arm's: code addresses have Thumb's bit 0, exceptions are those of a Cortex-M.
    pub fn is_arm(&self) -> bool {
        self.isa().is_some_and(|isa| !isa.is_riscv())
    }
}

/// The chip that a machine was completed to by a chip file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chip {
    /// Its name.
    pub name: String,
    /// As `--chip` was given it: a name, or a file.
    pub given: String,
    /// SHA-256 of what its file comes to, in hex.
    pub sha256: String,
    /// What is not as in the chip, each one sentence.
    pub differs: Vec<String>,
    /// Accesses that nothing in the file models, those that were most first.
    pub unmodelled: Vec<Unmodelled>,
    /// The watchdog that has run out first, and how often one has: the chip would have been reset.
    pub bitten: Option<(String, u64)>,
}

/// A register that was accessed, and that nothing in the chip file models: it reads as what was last written to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmodelled {
    /// Its name, as far as the file knows it.
    pub name: String,
    /// Its address.
    pub address: u64,
    /// The first instruction that accessed it.
    pub pc: u64,
    /// How often it was read.
    pub reads: u64,
    /// How often it was written.
    pub writes: u64,
}

/// A function that was made to return at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stub {
    /// Its demangled name.
    pub name: String,
    /// Its first address, load bias included.
    pub address: u64,
    /// What it returns; None: nothing.
    pub returns: Option<i64>,
    /// Whether that is of 64 bits; otherwise of 32.
    pub is_double: bool,
}

impl Stub {
    /// What it returns, as `--stub` takes it: `=5`; `=0x0000000000000005` where that is of 64 bits.
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

/// A span between functions of which one is all instances of a generic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenericSpan {
    /// The first of the addresses that begin it.
    pub from: u64,
    /// The first of those that end it.
    pub until: u64,
    /// As it was asked for: `FROM..UNTIL`.
    pub name: String,
}

/// The measuring window as asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Length in instructions; None: until the firmware ends, or another limit.
    pub for_insns: Option<u64>,
    /// Function at whose first execution it opens.
    pub from: Option<String>,
    /// Function at whose first execution after that it closes.
    pub until: Option<String>,
    /// Instructions from reset after which the run has failed.
    pub max_insns: Option<u64>,
}

/// The window's length of `harness profile` unless `--for` says otherwise: most firmware never exits.
pub const DEFAULT_FOR_INSNS: u64 = 2_000_000_000;

/// How a run ended.
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
        /// Address of the instruction that ended it.
        pc: u64,
    },
    /// The firmware asked for a reset.
    Reset {
        /// Address of the instruction that asked, when the profiler saw it.
        pc: Option<u64>,
    },
    /// The CPU locked up.
    LockUp {
        /// Address of the instruction it stopped at.
        pc: u64,
        /// The fault in words.
        fault: String,
    },
    /// The CPU waits for an interrupt that nothing will raise.
    Asleep {
        /// Address of the wait instruction, or where QEMU says the CPU would go on.
        pc: u64,
    },
    /// No instruction completes any more.
    Stuck {
        /// Where the CPU would go on.
        pc: u64,
        /// What QEMU shows of the reason.
        why: String,
    },
    /// The window's length was reached, and nothing but one exception's handler had run for long: [`Only::handler`].
    Faulting {
        /// Address of the last instruction.
        pc: u64,
    },
    /// The firmware asked for something outside its sandbox that only ending the run could prevent.
    Denied {
        /// Address of the instruction that asked.
        pc: u64,
    },
    /// The firmware made a semihosting call that QEMU does not have.
    UnknownCall {
        /// Semihosting operation number.
        operation: u32,
        /// Address of the instruction that made it.
        pc: u64,
    },
    /// The limit on instructions was reached.
    MaxInsns,
    /// The limit on what the firmware prints and writes to files was reached.
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
    /// Records or console had no room on the disk any more. Host-ended.
    DiskFull,
    /// QEMU was killed or failed by itself.
    EmulatorFailed {
        /// What was seen of it.
        message: String,
    },
}

impl End {
    /// Whether the firmware did what was asked of it, as far as this shows.
    pub fn is_good(&self) -> bool {
        matches!(self, End::For | End::Until | End::Exit { status: 0, .. })
    }

    /// Whether the host had a hand in it: another run ends elsewhere.
    pub fn is_by_host(&self) -> bool {
        matches!(self, End::Timeout | End::Interrupted | End::DiskFull | End::EmulatorFailed { .. })
    }

    /// The instruction at which it ended, where there is one.
    pub fn pc(&self) -> Option<u64> {
        match *self {
            End::Exit { pc, .. }
            | End::LockUp { pc, .. }
            | End::Asleep { pc }
            | End::Stuck { pc, .. }
            | End::Faulting { pc }
            | End::Denied { pc }
            | End::UnknownCall { pc, .. }
            | End::Output { pc, .. } => Some(pc),
            End::Reset { pc } => pc,
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

/// Something the firmware asked of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Whether it was denied since what it asked for could not be read as a whole.
    pub unread: bool,
    /// Whether it was denied; otherwise the host answered, and another host may answer otherwise.
    pub denied: bool,
    /// Semihosting operation number.
    pub operation: u32,
    /// Address of the instruction that asked.
    pub pc: u64,
    /// What it asked for, as far as it could be read.
    pub text: String,
}
