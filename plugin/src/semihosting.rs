//! Semihosting: how firmware exits, and how it reaches out of the emulated machine.
//!
//! Specification: <https://github.com/ARM-software/abi-aa/blob/main/semihosting/semihosting.rst>; the
//! RISC-V one refers to it.

use wire::control::End;
use wire::definition::{Definition, MAX_TEXT_BYTES, NoteKind};

use crate::clock::from_insn_id;
use crate::qemu::{ExecCallback, Hook};
use crate::state::{self, State};

const SYS_OPEN: u32 = 0x01;
const SYS_READC: u32 = 0x07;
const SYS_TMPNAM: u32 = 0x0d;
const SYS_REMOVE: u32 = 0x0e;
const SYS_RENAME: u32 = 0x0f;
const SYS_CLOCK: u32 = 0x10;
const SYS_TIME: u32 = 0x11;
const SYS_SYSTEM: u32 = 0x12;
const SYS_EXIT: u32 = 0x18;
const SYS_EXIT_EXTENDED: u32 = 0x20;
const SYS_ELAPSED: u32 = 0x30;

/// The reason code of a normal exit.
const APPLICATION_EXIT: u64 = 0x20026;

/// At a breakpoint instruction, before QEMU handles it.
pub(crate) struct OnSemihosting;

impl Hook for OnSemihosting {
    const CALL: ExecCallback = |vcpu, id| {
        let (block, index) = from_insn_id(id);
        let mut state = state::lock();
        let vcpu = state.running_vcpu(vcpu);
        let pc = state.blocks.get(block).pc_of(index);
        // A limit that lies before this instruction comes first.
        state.settle(vcpu);
        if state.is_semihosting(pc) {
            state.semihosting(pc);
        }
    };
}

impl State {
    /// On RISC-V an `ebreak` is a semihosting call only between two marker instructions.
    fn is_semihosting(&mut self, pc: u64) -> bool {
        let isa = self.args.isa;
        if !isa.is_riscv() {
            return true;
        }
        pc.checked_sub(4).and_then(|before| self.memory(before, 12)).is_some_and(|bytes| {
            decode::is_semihosting_prefix(isa, &bytes[..4]) && decode::is_semihosting_suffix(isa, &bytes[8..])
        })
    }

    fn semihosting(&mut self, pc: u64) {
        let riscv = self.args.isa.is_riscv();
        let operation = self.register(if riscv { "a0" } else { "r0" }) as u32;
        let argument = self.register(if riscv { "a1" } else { "r1" });
        match operation {
            SYS_EXIT if !self.is_64_bit() => {
                self.end(End::Exit, u64::from(argument != APPLICATION_EXIT), pc);
            }
            SYS_EXIT | SYS_EXIT_EXTENDED => {
                let status = match (self.field(argument, 0), self.field(argument, 1)) {
                    (Some(APPLICATION_EXIT), Some(status)) => status,
                    _ => 1,
                };
                self.end(End::Exit, status & 0xffff_ffff, pc);
            }
            SYS_READC => self.semihosting_reads(),
            SYS_CLOCK | SYS_TIME | SYS_ELAPSED | SYS_TMPNAM => {
                self.say(NoteKind::HostDependent, operation, pc, String::new())
            }
            SYS_SYSTEM => {
                // QEMU's sandbox denies spawning; system() fails and the firmware runs on.
                let command = self.text(argument, 0).shown();
                self.say(NoteKind::Denied, operation, pc, command);
            }
            SYS_OPEN | SYS_REMOVE | SYS_RENAME => {
                let second = if operation == SYS_RENAME { Some(self.text(argument, 2)) } else { None };
                for path in std::iter::once(self.text(argument, 0)).chain(second) {
                    // QEMU has no switch that would refuse it, so the run ends before it happens. What
                    // cannot be read as a whole cannot be known to be harmless.
                    if !path.is_whole || !stays_inside(&path.bytes) {
                        self.say(NoteKind::Denied, operation, pc, path.shown());
                        self.end(End::Denied, operation.into(), pc);
                    }
                }
            }
            _ => {}
        }
    }

    fn is_64_bit(&self) -> bool {
        self.args.isa == decode::Isa::Riscv64
    }

    /// The `index`-th word of an argument block.
    fn field(&mut self, block: u64, index: u64) -> Option<u64> {
        let width = if self.is_64_bit() { 8 } else { 4 };
        let bytes = self.memory(block + index * width, width as usize)?;
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(&bytes);
        Some(u64::from_le_bytes(word))
    }

    /// The NUL-terminated string whose address is the argument block's `index`-th word. QEMU ignores
    /// the length that the block gives, too (semihosting/uaccess.c, `lock_user_string`).
    fn text(&mut self, block: u64, index: u64) -> Text {
        let mut text = Text { bytes: Vec::new(), is_whole: false };
        let Some(address) = self.field(block, index) else { return text };
        while text.bytes.len() < MAX_PATH_BYTES {
            match self.memory(address.wrapping_add(text.bytes.len() as u64), 1).as_deref() {
                Some([0]) => {
                    text.is_whole = true;
                    break;
                }
                Some(byte) => text.bytes.extend_from_slice(byte),
                None => break,
            }
        }
        text
    }

    fn say(&mut self, kind: NoteKind, operation: u32, pc: u64, text: String) {
        let note = Definition::Note { kind, operation, pc, text };
        // Firmware may ask a million times; once is enough, and there is an end to new texts.
        if self.notes.len() < MAX_NOTES && self.notes.insert(note.clone()) {
            self.note(&note);
        }
    }
}

/// Longest path that a host takes.
const MAX_PATH_BYTES: usize = 4096;

/// Most notes of one run.
const MAX_NOTES: usize = 1000;

/// A string in the guest's memory.
struct Text {
    bytes: Vec<u8>,
    /// Its end was seen.
    is_whole: bool,
}

impl Text {
    /// As much of it as a note takes.
    fn shown(&self) -> String {
        // A replaced byte takes up to three.
        String::from_utf8_lossy(&self.bytes[..self.bytes.len().min(MAX_TEXT_BYTES / 3)]).into_owned()
    }
}

/// Whether a path names something in the run's own scratch directory, or one of the names that
/// semihosting gives to the console and to its list of features.
fn stays_inside(path: &[u8]) -> bool {
    let outside = path.starts_with(b"/") || path.split(|&byte| byte == b'/').any(|part| part == b"..");
    path == b":tt" || path == b":semihosting-features" || !outside
}
