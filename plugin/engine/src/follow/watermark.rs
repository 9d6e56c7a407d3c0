//! Greatest depth of a task's stack: its lowest stack pointer, and the part that was never written to.

use wire::counters::FIRST_DEFINED;
use wire::definition::TaskCounter;

use crate::guest::{Guest, Vcpu};
use crate::ledger::{Counters, Ledger};

/// Longest stack that is searched for the kernel's paint.
const MAX_STACK_BYTES: u64 = 1 << 20;

/// One task's counters and its stack.
#[derive(Clone, Copy, Debug)]
pub struct Watermark {
    /// First of the task's counters.
    slot: u32,
    /// Lowest address of the stack; 0: unknown.
    start: u64,
}

impl Watermark {
    /// Watermark of a task with these counters and this lowest address of its stack.
    pub fn new(slot: u32, start: u64) -> Watermark {
        debug_assert!(slot >= FIRST_DEFINED);
        Watermark { slot, start }
    }

    /// Adds to one of the task's counters.
    pub fn count(&self, vcpu: u32, counter: TaskCounter, amount: u64, ledger: &Ledger<impl Counters>) {
        ledger.add(self.slot + counter as u32, vcpu, amount);
    }

    /// Notes a stack pointer of the task, outside exceptions.
    pub fn note_stack_pointer(&self, vcpu: u32, sp: u64, ledger: &Ledger<impl Counters>) {
        // Before the task's first instruction the processor is still on another stack.
        if sp < self.start {
            return;
        }
        let slot = self.slot + TaskCounter::DeepestSp as u32;
        let depth = sp.wrapping_neg();
        if depth > ledger.get(slot, vcpu) {
            ledger.set(slot, vcpu, depth);
        }
    }

    /// Notes the part of the stack that still holds the kernel's paint.
    pub fn note_paint(&self, paint: u8, guest: &mut Guest<impl Vcpu>, ledger: &Ledger<impl Counters>) {
        let mut bytes = 0;
        while self.start != 0 && bytes < MAX_STACK_BYTES {
            // A piece never crosses the end of a memory that ends at a multiple of its size.
            let piece = 256 - (self.start + bytes) % 256;
            let Some(piece) = guest.memory(self.start + bytes, piece as usize) else { break };
            let painted = piece.iter().take_while(|&&byte| byte == paint).count();
            bytes += painted as u64;
            if painted < piece.len() {
                break;
            }
        }
        ledger.set(self.slot + TaskCounter::Painted as u32, 0, bytes + 1);
    }
}
