// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes one guest instruction as far as the profiler needs it: whether it can leave its translation block before
//! the block's end, and where control goes after it.
//!
//! The plugin counts a straight line of instructions with one inline add. This is exact only when no instruction but
//! the last can leave the line early. So [`Insn::may_leave`] is a whitelist: `false` is a proof (registers only,
//! cannot trap). Every instruction that is not recognised is `true`, which costs speed and never a count.
//! [`Insn::flow`] feeds the call counts and the arcs.
//!
//! The instruction set is the *emulated CPU's*, not the one in the ELF's attributes. Armv7-M code on a Cortex-M33 is
//! checked against the stack limit at every write to `sp`.
//!
//! All architectures are little-endian here, as QEMU's RISC-V, M-profile and AVR machines are.
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

mod avr;
mod riscv;
mod thumb;
mod zcmp;

pub use avr::condition::Condition as AvrCondition;
pub use avr::cycles::cycles as avr_cycles;
pub use avr::store::Store as AvrStore;
pub use zcmp::{Registers, Zcmp};

use std::fmt;
use std::str::FromStr;

/// Instruction set of the emulated CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// RV32 with any of the standard extensions except Zcmp and Zcmt, whose encodings are also the double-precision
    /// `c.fsdsp`.
    Riscv32,
    /// RV64, with the same extensions.
    Riscv64,
    /// RV32 with Zcmp and Zcmt in the place of Zcd.
    Riscv32Zc,
    /// RV64, with the same extensions.
    Riscv64Zc,
    /// Armv6-M (Cortex-M0, M0+).
    ThumbV6m,
    /// Armv7-M and Armv7E-M (Cortex-M3, M4, M7).
    ThumbV7m,
    /// Armv8-M, baseline and mainline, with Armv8.1-M's loop instructions (Cortex-M23, M33, M55).
    ThumbV8m,
    /// AVR with the enhanced core (AVRe, AVRe+) and a program counter of 16 bits, for at most 128 KiB of flash.
    AvrPc16,
    /// AVR as [`Isa::AvrPc16`], with a program counter of 22 bits (ATmega2560).
    AvrPc22,
}

impl Isa {
    /// Every instruction set, in the order of the enum.
    pub const ALL: [Self; 9] = [
        Self::Riscv32,
        Self::Riscv64,
        Self::Riscv32Zc,
        Self::Riscv64Zc,
        Self::ThumbV6m,
        Self::ThumbV7m,
        Self::ThumbV8m,
        Self::AvrPc16,
        Self::AvrPc22,
    ];

    /// Name that [`Display`](fmt::Display) prints and [`FromStr`] reads.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Riscv32 => "riscv32",
            Self::Riscv64 => "riscv64",
            Self::Riscv32Zc => "riscv32-zc",
            Self::Riscv64Zc => "riscv64-zc",
            Self::ThumbV6m => "thumb-v6m",
            Self::ThumbV7m => "thumb-v7m",
            Self::ThumbV8m => "thumb-v8m",
            Self::AvrPc16 => "avr",
            Self::AvrPc22 => "avr-pc22",
        }
    }

    /// Whether this is RV32 or RV64.
    #[must_use]
    pub const fn is_riscv(self) -> bool {
        matches!(self, Self::Riscv32 | Self::Riscv64 | Self::Riscv32Zc | Self::Riscv64Zc)
    }

    /// Whether this is RV64.
    #[must_use]
    pub const fn is_riscv64(self) -> bool {
        matches!(self, Self::Riscv64 | Self::Riscv64Zc)
    }

    /// Whether this has Zcmp and Zcmt.
    #[must_use]
    pub const fn has_zcmp(self) -> bool {
        matches!(self, Self::Riscv32Zc | Self::Riscv64Zc)
    }

    /// This instruction set with Zcmp and Zcmt in the place of Zcd; others as they are.
    #[must_use]
    pub const fn with_zcmp(self) -> Self {
        match self {
            Self::Riscv32 => Self::Riscv32Zc,
            Self::Riscv64 => Self::Riscv64Zc,
            other => other,
        }
    }

    /// Whether this is one of the M profile's.
    #[must_use]
    pub const fn is_thumb(self) -> bool {
        matches!(self, Self::ThumbV6m | Self::ThumbV7m | Self::ThumbV8m)
    }

    /// Whether this is one of AVR's.
    #[must_use]
    pub const fn is_avr(self) -> bool {
        matches!(self, Self::AvrPc16 | Self::AvrPc22)
    }

    /// Size of the return address that a call pushes on the stack; 0: calls leave it in a register.
    #[must_use]
    pub const fn call_bytes(self) -> u8 {
        match self {
            Self::AvrPc16 => 2,
            Self::AvrPc22 => 3,
            _ => 0,
        }
    }

    #[must_use]
    /// Cuts `address` to the width of this instruction set's program counter.
    pub const fn wrap(self, address: u64) -> u64 {
        match self {
            Self::Riscv64 | Self::Riscv64Zc => address,
            _ => address & 0xffff_ffff,
        }
    }

    /// Target of a pc-relative transfer.
    const fn relative(self, base: u64, offset_bytes: i32) -> u64 {
        self.wrap(base.wrapping_add_signed(offset_bytes as i64))
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Error: the text is not the name of an [`Isa`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownIsa(String);

impl fmt::Display for UnknownIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown instruction set {:?}; one of", self.0)?;
        Isa::ALL.iter().try_for_each(|isa| write!(f, " {isa}"))
    }
}

impl std::error::Error for UnknownIsa {}

impl FromStr for Isa {
    type Err = UnknownIsa;

    fn from_str(text: &str) -> Result<Self, UnknownIsa> {
        Self::ALL.into_iter().find(|isa| isa.name() == text).ok_or_else(|| UnknownIsa(text.to_owned()))
    }
}

/// Decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// Length in bytes, 2 or 4.
    pub len_bytes: u8,
    /// Whether executing the instruction can end the translation block early or raise an exception. `false` is a
    /// proof. For an instruction that always ends its block (in QEMU every jump and branch does), this says only
    /// whether the transfer itself can fault.
    pub may_leave: bool,
    /// Control flow after the instruction. On Thumb, an instruction inside an IT block may also fall through: the
    /// caller keeps the count that [`Flow::It`] gave.
    pub flow: Flow,
}

impl Insn {
    const fn new(len_bytes: u8, may_leave: bool, flow: Flow) -> Self {
        Self { len_bytes, may_leave, flow }
    }

    /// An instruction that uses registers only and cannot trap.
    const fn pure(len_bytes: u8) -> Self {
        Self::new(len_bytes, false, Flow::Next)
    }

    /// An instruction that falls through unless it traps, or that is not recognised.
    const fn leaves(len_bytes: u8) -> Self {
        Self::new(len_bytes, true, Flow::Next)
    }

    /// A transfer of control that uses registers and pc only.
    const fn control(len_bytes: u8, flow: Flow) -> Self {
        Self::new(len_bytes, false, flow)
    }
}

/// Control flow after an instruction. Targets are addresses without Thumb's bit 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Falls through to the next instruction (or traps).
    Next,
    /// Thumb IT, or a skip of AVR's: the following instructions are conditional.
    It {
        /// Number of conditional instructions, 1..=4.
        count: u8,
    },
    /// Direct call: `bl`; `jal ra|t0`; `c.jal`; `call`, `rcall`.
    Call {
        /// The callee's address.
        target: u64,
    },
    /// Indirect call: `blx reg`; `jalr ra|t0, offset(reg)`; `c.jalr`; `icall`. The target is (reg + offset) & !1.
    IndirectCall {
        /// Register number: x0..x31, r0..r14.
        reg: u8,
        /// Value added to the register; 0 on Thumb.
        offset: i32,
        /// Whether the target cannot be read from `reg` afterwards: it is the link register, or on AVR only half of the
        /// address.
        clobbered: bool,
    },
    /// Unconditional direct jump without link: `b`; `jal x0`; `c.j`.
    Jump {
        /// Address that it jumps to.
        target: u64,
    },
    /// Conditional direct branch, never links: `b<cond>`, `cbz`, `beq`, `c.beqz`, `wls`, `le lr`.
    Branch {
        /// Address that it jumps to when taken.
        target: u64,
    },
    /// Jump through a register that is not a return: `bx reg` (not lr), `mov pc, reg`,
    /// `jalr x0, offset(reg)` with reg neither ra nor t0. The target is (reg + offset) & !1.
    IndirectJump {
        /// Register number: x0..x31, r0..r14.
        reg: u8,
        /// Value added to the register; 0 on Thumb.
        offset: i32,
    },
    /// Jump to a target that comes from memory or is computed: `ldr pc, [..]` (not popped), `tbb`/`tbh`, `add pc,
    /// reg`, `ldm` with pc from another base than sp.
    ComputedJump,
    /// Return: `bx lr`, `bxns lr`, `mov pc, lr`, `pop {.., pc}`, `ldmia sp!, {.., pc}`, `ldr pc, [sp], #4`; `jalr x0,
    /// off(ra|t0)`, `mret`, `sret`, `uret`, `mnret`.
    Return,
}

impl Flow {
    /// Whether the instruction leaves a return address.
    #[must_use]
    pub const fn is_call(self) -> bool {
        matches!(self, Self::Call { .. } | Self::IndirectCall { .. })
    }

    /// Flow of the instruction after an [`auipc`], given the pair that `auipc` returned. Only both instructions
    /// together name the target.
    #[must_use]
    pub fn after_upper(self, isa: Isa, (register, value): (u8, u64)) -> Self {
        let target = |offset: i32| isa.wrap(value.wrapping_add_signed(offset.into()) & !1);
        match self {
            Self::IndirectCall { reg, offset, .. } if reg == register => Self::Call { target: target(offset) },
            Self::IndirectJump { reg, offset } if reg == register => Self::Jump { target: target(offset) },
            other => other,
        }
    }
}

/// Decodes the instruction at `pc`, given its bytes in memory order. Bytes after the instruction are ignored. With
/// too few bytes the answer is `may_leave` and [`Flow::Next`].
#[must_use]
pub fn decode(isa: Isa, pc: u64, bytes: &[u8]) -> Insn {
    match isa {
        Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => thumb::decode(isa, pc, bytes),
        Isa::AvrPc16 | Isa::AvrPc22 => avr::decode(isa, pc, bytes),
        _ => riscv::decode(isa, pc, bytes),
    }
}

/// Whether the bytes are an instruction that this crate knows, so that its flow of control and its effect on the stack
/// pointer are what [`decode`] and [`moves_sp`] say. Only encodings that the manuals give to no instruction, or to a vendor,
/// are unknown, and branches that no processor of QEMU's has.
#[must_use]
pub fn is_known(isa: Isa, bytes: &[u8]) -> bool {
    match isa {
        Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => thumb::is_known(isa, bytes),
        Isa::AvrPc16 | Isa::AvrPc22 => true,
        _ => riscv::is_known(isa, bytes),
    }
}

/// Decodes RISC-V `auipc rd, hi` to (rd, pc + hi), for [`Flow::after_upper`]. `None` for any other instruction.
#[must_use]
pub fn auipc(isa: Isa, pc: u64, bytes: &[u8]) -> Option<(u8, u64)> {
    isa.is_riscv().then(|| riscv::auipc(isa, pc, bytes)).flatten()
}

/// Whether the instruction makes a semihosting call: RISC-V's 32-bit `ebreak` (only between [`is_semihosting_prefix`]
/// and [`is_semihosting_suffix`]), or `bkpt 0xab` and `hlt 0x3c`.
#[must_use]
pub fn is_breakpoint(isa: Isa, bytes: &[u8]) -> bool {
    if isa.is_riscv() {
        return word(bytes) == Some(riscv::EBREAK);
    }
    isa.is_thumb() && matches!(half(bytes), Some(thumb::BKPT_SEMIHOSTING | thumb::HLT_SEMIHOSTING))
}

/// Whether the instruction is RISC-V `slli x0, x0, 0x1f`, which comes before a semihosting `ebreak`.
#[must_use]
pub fn is_semihosting_prefix(isa: Isa, bytes: &[u8]) -> bool {
    isa.is_riscv() && word(bytes) == Some(riscv::SEMIHOSTING_PREFIX)
}

/// Whether the instruction is RISC-V `srai x0, x0, 7`, which comes after a semihosting `ebreak`.
#[must_use]
pub fn is_semihosting_suffix(isa: Isa, bytes: &[u8]) -> bool {
    isa.is_riscv() && word(bytes) == Some(riscv::SEMIHOSTING_SUFFIX)
}

/// Whether `low` is the first half of the instruction that [`is_semihosting_suffix`] recognises.
#[must_use]
pub fn may_be_semihosting_suffix(isa: Isa, low: [u8; 2]) -> bool {
    isa.is_riscv() && u16::from_le_bytes(low) == riscv::SEMIHOSTING_SUFFIX as u16
}

/// Whether the instruction is `wfi`, in any encoding, or AVR's `sleep`.
#[must_use]
pub fn is_wfi(isa: Isa, bytes: &[u8]) -> bool {
    match isa {
        Isa::Riscv32 | Isa::Riscv64 | Isa::Riscv32Zc | Isa::Riscv64Zc => word(bytes) == Some(riscv::WFI),
        Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => thumb::is_wfi(bytes),
        Isa::AvrPc16 | Isa::AvrPc22 => half(bytes) == Some(avr::SLEEP),
    }
}

/// Whether the instruction is Arm's `wfe`, in any encoding.
#[must_use]
pub fn is_wfe(isa: Isa, bytes: &[u8]) -> bool {
    isa.is_thumb() && thumb::is_wfe(bytes)
}

/// Whether the instruction is Arm's `sev`, in any encoding.
#[must_use]
pub fn is_sev(isa: Isa, bytes: &[u8]) -> bool {
    isa.is_thumb() && thumb::is_sev(bytes)
}

/// Whether the instruction is RISC-V `mret` or `sret`, or AVR's `reti`, which end handlers. Cortex-M returns from
/// exceptions by ordinary jumps.
#[must_use]
pub fn is_trap_return(isa: Isa, bytes: &[u8]) -> bool {
    match isa {
        Isa::Riscv32 | Isa::Riscv64 | Isa::Riscv32Zc | Isa::Riscv64Zc => {
            matches!(word(bytes), Some(riscv::MRET | riscv::SRET))
        }
        Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => false,
        Isa::AvrPc16 | Isa::AvrPc22 => half(bytes) == Some(avr::RETI),
    }
}

/// Whether the instruction may mask or unmask interrupts: `cps`; `msr` to PRIMASK, BASEPRI or FAULTMASK; writes to
/// mstatus; `sei`, `cli` and writes to AVR's status register; trap returns. Cortex-M's exception returns clear FAULTMASK
/// too, but they are ordinary jumps and are not included.
#[must_use]
pub fn changes_mask(isa: Isa, bytes: &[u8]) -> bool {
    match isa {
        Isa::Riscv32 | Isa::Riscv64 | Isa::Riscv32Zc | Isa::Riscv64Zc => riscv::changes_mask(bytes),
        Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => thumb::changes_mask(bytes),
        Isa::AvrPc16 | Isa::AvrPc22 => avr::changes_mask(bytes),
    }
}

/// Whether the instruction is RISC-V and writes mtvec or stvec, so that traps may lead elsewhere afterwards.
#[must_use]
pub fn moves_trap_vector(isa: Isa, bytes: &[u8]) -> bool {
    isa.is_riscv() && riscv::moves_trap_vector(bytes)
}

/// Whether the instruction is of a kind that makes a stack deeper: it adds to the stack pointer, subtracts from it,
/// or sets it. Loads of the stack pointer from memory (a switch of stacks) are not included.
#[must_use]
pub fn moves_sp(isa: Isa, bytes: &[u8]) -> bool {
    match isa {
        Isa::Riscv32 | Isa::Riscv64 | Isa::Riscv32Zc | Isa::Riscv64Zc => riscv::moves_sp(isa, bytes),
        Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => thumb::moves_sp(bytes),
        Isa::AvrPc16 | Isa::AvrPc22 => avr::moves_sp(bytes),
    }
}

/// Whether the instruction takes the value of a register off the stack pointer, as code does that makes room for an array of a
/// length that it is told. Armv6-M and AVR have no such instruction.
#[must_use]
pub fn subtracts_from_sp(isa: Isa, bytes: &[u8]) -> bool {
    match isa {
        Isa::Riscv32 | Isa::Riscv64 | Isa::Riscv32Zc | Isa::Riscv64Zc => riscv::subtracts_from_sp(bytes),
        Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => thumb::subtracts_from_sp(bytes),
        Isa::AvrPc16 | Isa::AvrPc22 => false,
    }
}

/// Bytes that the instruction takes off the stack pointer; 0: it leaves it as it is. None: it changes it in another way, or by
/// an amount that it does not name, or it is AVR's.
#[must_use]
pub fn taken_from_sp(isa: Isa, bytes: &[u8]) -> Option<u64> {
    match isa {
        Isa::Riscv32 | Isa::Riscv64 | Isa::Riscv32Zc | Isa::Riscv64Zc => riscv::taken_from_sp(isa, bytes),
        Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => thumb::taken_from_sp(bytes),
        Isa::AvrPc16 | Isa::AvrPc22 => None,
    }
}

/// Whether code begins with an instruction without effect, as assemblers put between code and data.
#[must_use]
pub fn is_nop(isa: Isa, code: &[u8]) -> bool {
    const THUMB: [&[u8]; 3] = [&[0x00, 0xbf], &[0xaf, 0xf3, 0x00, 0x80], &[0xc0, 0x46]];
    const RISCV: [&[u8]; 2] = [&[0x01, 0x00], &[0x13, 0x00, 0x00, 0x00]];
    const AVR: [&[u8]; 1] = [&[0x00, 0x00]];
    let nops: &[&[u8]] = match isa {
        Isa::Riscv32 | Isa::Riscv64 | Isa::Riscv32Zc | Isa::Riscv64Zc => &RISCV,
        Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => &THUMB,
        Isa::AvrPc16 | Isa::AvrPc22 => &AVR,
    };
    nops.iter().any(|nop| code.starts_with(nop))
}

/// Whether the instruction sets the stack pointer to a value that depends neither on the old one nor on the frame
/// pointer. Such code sets up the first stack or switches to another one. Never on AVR, whose stack pointer is set half by
/// half from registers that frames are computed in, too.
#[must_use]
pub fn sets_sp(isa: Isa, bytes: &[u8]) -> bool {
    match isa {
        Isa::Riscv32 | Isa::Riscv64 | Isa::Riscv32Zc | Isa::Riscv64Zc => riscv::sets_sp(bytes),
        Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => thumb::sets_sp(bytes),
        Isa::AvrPc16 | Isa::AvrPc22 => false,
    }
}

/// Whether the instruction is Thumb `bx reg`. Armv6-M returns by it when the return address is not in lr.
#[must_use]
pub fn is_exchange(isa: Isa, bytes: &[u8]) -> bool {
    isa.is_thumb() && half(bytes).is_some_and(|insn| insn & 0xff87 == 0x4700)
}

/// Bytes of an entry of the table behind Thumb `tbb [pc, reg]` (1) and `tbh [pc, reg, lsl #1]` (2). An entry is half of
/// the distance from the table to the target.
#[must_use]
pub fn table_entry_bytes(isa: Isa, bytes: &[u8]) -> Option<u8> {
    isa.is_thumb().then(|| thumb::table_entry_bytes(bytes)).flatten()
}

/// Targets in the table of Thumb `tbb` and `tbh` ([`table_entry_bytes`]), which starts at `start` with the bytes `code`.
/// The table ends at the first of its targets, since the code begins there, or after `most` entries.
#[must_use]
pub fn table_targets(isa: Isa, start: u64, entry_bytes: u8, code: &[u8], most: usize) -> Vec<u64> {
    let mut end = u64::MAX;
    let mut targets = Vec::new();
    let mut at = start;
    for entry in code.chunks_exact(entry_bytes.max(1).into()).take(most) {
        if at >= end {
            break;
        }
        at = at.saturating_add(entry_bytes.into());
        let halfwords = entry.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        let target = isa.wrap(start.wrapping_add(2 * halfwords));
        // Padding behind an odd number of bytes.
        if target < at {
            continue;
        }
        end = end.min(target);
        targets.push(target);
    }
    targets
}

/// Whether the instruction is a RISC-V call that leaves its return address in t0 instead of ra. The millicode of
/// `-msave-restore`, and code that LLVM outlines, are called in this way.
#[must_use]
pub fn links_to_t0(isa: Isa, bytes: &[u8]) -> bool {
    isa.is_riscv() && word(bytes).is_some_and(|insn| matches!(insn & 0xfff, 0x2ef | 0x2e7))
}

/// Decodes an instruction of RISC-V's Zcmp, or Zcmt's `cm.jt` and `cm.jalt`; None: it is another one, or the instruction
/// set does not have them.
#[must_use]
pub fn zcmp(isa: Isa, bytes: &[u8]) -> Option<Zcmp> {
    zcmp::known(isa, bytes)
}

/// Whether the instruction is a load or a store in AVR's data space. QEMU tries it as memory first; where it finds a
/// device, it starts the instruction again in a block of its own.
#[must_use]
pub fn accesses_avr_data(isa: Isa, bytes: &[u8]) -> bool {
    isa.is_avr() && avr::accesses_data(bytes)
}

/// Whether the instruction is AVR's `elpm`, which reads flash at an address of three bytes.
#[must_use]
pub fn is_elpm(isa: Isa, bytes: &[u8]) -> bool {
    isa.is_avr() && avr::is_elpm(bytes)
}

/// Whether the instruction reads AVR's flash as data (`lpm`, `elpm`). Its address is one of flash, and no other access's is.
#[must_use]
pub fn reads_avr_flash(isa: Isa, bytes: &[u8]) -> bool {
    isa.is_avr() && avr::reads_flash(bytes)
}

/// Register of AVR's I/O space that an instruction accesses by its number (`in`, `out`, `sbi`, `cbi`, `sbis`, `sbic`).
/// QEMU executes such an access within a block.
#[must_use]
pub fn avr_io(isa: Isa, bytes: &[u8]) -> Option<u32> {
    avr::io(bytes).filter(|_| isa.is_avr())
}

/// Bit of its register of I/O space that AVR's `sbi` or `cbi` writes, as a mask. None: the instruction is another.
#[must_use]
pub fn avr_io_bit(isa: Isa, bytes: &[u8]) -> Option<u8> {
    avr::io_bit(bytes).filter(|_| isa.is_avr())
}

/// Whether the instruction is AVR's `wdr`, which feeds the watchdog.
#[must_use]
pub fn is_wdr(isa: Isa, bytes: &[u8]) -> bool {
    isa.is_avr() && half(bytes) == Some(avr::WDR)
}

/// Register of I/O space that AVR's `out` writes, and the number of the register that it writes there.
#[must_use]
pub fn avr_out(isa: Isa, bytes: &[u8]) -> Option<(u32, u8)> {
    avr::out(bytes).filter(|_| isa.is_avr())
}

/// Whether an instruction of AVR's may allow interrupts and go on with the next one: `sei`, or `out` to the status register. The
/// next one is then executed before an interrupt is taken.
#[must_use]
pub fn avr_may_unmask(isa: Isa, bytes: &[u8]) -> bool {
    isa.is_avr() && avr::may_unmask(bytes)
}

/// AVR's status register in I/O space, which has the mask of interrupts.
pub const AVR_STATUS: u32 = avr::SREG;

/// First 16 bits, little-endian.
fn half(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().map(|b| u16::from_le_bytes(*b))
}

/// First 32 bits, little-endian.
fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|b| u32::from_le_bytes(*b))
}

/// Bits `hi..=lo` of `value`.
const fn bits(value: u32, hi: u32, lo: u32) -> u32 {
    (value >> lo) & (u32::MAX >> (31 - (hi - lo)))
}

/// Sign-extends the low `width` bits of `value`.
const fn sign_extend(value: u32, width: u32) -> i32 {
    ((value << (32 - width)) as i32) >> (32 - width)
}
