//! Semihosting: how firmware exits, and how it reaches out of the emulated machine.
//!
//! Specification: <https://github.com/ARM-software/abi-aa/blob/main/semihosting/semihosting.rst>; the
//! RISC-V one refers to it.

use wire::control::End;
use wire::definition::{Definition, MAX_TEXT_BYTES, NoteKind};

use crate::qemu::{ExecCallback, Hook};
use crate::sample::from_insn_id;
use crate::state::{self, State};

const SYS_OPEN: u32 = 0x01;
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
        if state.is_semihosting(pc) {
            state.semihosting(vcpu, pc);
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

    fn semihosting(&mut self, vcpu: u32, pc: u64) {
        let riscv = self.args.isa.is_riscv();
        let operation = self.register(if riscv { "a0" } else { "r0" }) as u32;
        let argument = self.register(if riscv { "a1" } else { "r1" });
        match operation {
            SYS_EXIT if !self.is_64_bit() => {
                self.settle(vcpu);
                self.end(End::Exit, u64::from(argument != APPLICATION_EXIT), pc);
            }
            SYS_EXIT | SYS_EXIT_EXTENDED => {
                let status = match (self.field(argument, 0), self.field(argument, 1)) {
                    (Some(APPLICATION_EXIT), Some(status)) => status,
                    _ => 1,
                };
                self.settle(vcpu);
                self.end(End::Exit, status & 0xffff_ffff, pc);
            }
            SYS_CLOCK | SYS_TIME | SYS_ELAPSED => self.say(NoteKind::HostDependent, operation, pc, String::new()),
            SYS_SYSTEM => {
                // QEMU's sandbox denies spawning; system() fails and the firmware runs on.
                let command = self.text(argument, 0);
                self.say(NoteKind::Denied, operation, pc, command);
            }
            SYS_OPEN | SYS_REMOVE | SYS_RENAME => {
                let second = if operation == SYS_RENAME { Some(self.text(argument, 2)) } else { None };
                for path in std::iter::once(self.text(argument, 0)).chain(second) {
                    if !stays_inside(&path) {
                        // QEMU has no switch that would refuse it, so the run ends before it happens.
                        self.say(NoteKind::Denied, operation, pc, path);
                        self.settle(vcpu);
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

    /// The string whose address and length are the argument block's fields `index` and the next
    /// (for SYS_OPEN the length comes after the mode); cut where it cannot be read.
    fn text(&mut self, block: u64, index: u64) -> String {
        let Some(address) = self.field(block, index) else { return String::new() };
        let mut text = Vec::new();
        while text.len() < MAX_TEXT_BYTES / 4 {
            match self.memory(address + text.len() as u64, 1).as_deref() {
                Some([0]) | None => break,
                Some(byte) => text.extend_from_slice(byte),
            }
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    fn say(&mut self, kind: NoteKind, operation: u32, pc: u64, text: String) {
        let note = Definition::Note { kind, operation, pc, text };
        // Firmware may ask a million times; the answer is the same.
        if self.notes.insert(note.clone()) {
            self.note(&note);
        }
    }
}

/// Whether a path names something in the run's own scratch directory, or one of the names that
/// semihosting gives to the console (`:tt`) and to itself.
fn stays_inside(path: &str) -> bool {
    path.starts_with(':') || !(path.starts_with('/') || path.split('/').any(|part| part == ".."))
}
