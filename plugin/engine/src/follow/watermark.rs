// SPDX-License-Identifier: MIT OR Apache-2.0
//! Greatest depth of a task's stack: its lowest stack pointer, and the part that was never written to.

use std::ops::Range;

use wire::counters::FIRST_DEFINED;
use wire::definition::TaskCounter;
use wire::request::Paint;

use crate::guest::{Guest, Vcpu};
use crate::ledger::{Counters, Ledger};

/// Longest stack that is searched for the kernel's paint.
const MAX_STACK_BYTES: u64 = 1 << 20;

/// Greatest distance below a stack at which a task's saved stack pointer is still taken for one.
const MAX_BELOW_BYTES: u64 = 4096;

/// Bytes of the word below the paint that shows an overflow.
const GUARD_BYTES: usize = 4;

/// One task's counters and its stack.
#[derive(Clone, Copy, Debug)]
pub struct Watermark {
    /// First of the task's counters.
    slot: u32,
    /// Lowest address of the stack; 0: unknown.
    start: u64,
    /// Address above the stack; 0: unknown.
    end: u64,
}

impl Watermark {
    /// Watermark of a task with these counters and these addresses of its stack.
    pub fn new(slot: u32, stack: Range<u64>) -> Watermark {
        debug_assert!(slot >= FIRST_DEFINED);
        Watermark { slot, start: stack.start, end: stack.end }
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
        let slot = self.slot + TaskCounter::HighestSp as u32;
        if sp <= self.end && sp > ledger.get(slot, vcpu) {
            ledger.set(slot, vcpu, sp);
        }
    }

    /// Whether a stack pointer that was `last` on this stack has left it at its low end.
    pub fn is_left(&self, last: u64, sp: u64) -> bool {
        let is_on = last >= self.start && (self.end == 0 || last <= self.end);
        self.start != 0 && is_on && sp < self.start
    }

    /// Whether a stack pointer that the kernel has saved for the task is below its stack.
    pub fn is_below(&self, saved_sp: u64) -> bool {
        saved_sp < self.start && self.start - saved_sp <= MAX_BELOW_BYTES
    }

    /// Notes the part of the stack that still holds the kernel's paint.
    pub fn note_paint(&self, paint: Paint, guest: &mut Guest<impl Vcpu>, ledger: &Ledger<impl Counters>) {
        let (mut bytes, mut paint) = (0, paint);
        if let Paint::Guarded(guard, byte) = paint {
            paint = Paint::Byte(byte);
            if guest.memory(self.start, GUARD_BYTES).is_some_and(|word| word == guard.to_le_bytes()) {
                bytes = GUARD_BYTES as u64;
            }
        }
        while self.start != 0 && bytes < MAX_STACK_BYTES {
            // A piece never crosses the end of a memory that ends at a multiple of its size.
            let piece = 256 - (self.start + bytes) % 256;
            let Some(piece) = guest.memory(self.start + bytes, piece as usize) else { break };
            let painted = painted(paint, self.start + bytes, &piece, guest.pointer_bytes());
            bytes += painted as u64;
            if painted < piece.len() {
                break;
            }
        }
        ledger.set(self.slot + TaskCounter::Painted as u32, 0, bytes + 1);
    }
}

/// Length of the painted part at the start of a piece of memory, given the piece's address.
fn painted(paint: Paint, address: u64, piece: &[u8], pointer_bytes: u64) -> usize {
    let unit = match paint {
        Paint::Byte(_) | Paint::Guarded(..) => 1,
        Paint::Word(_) => 4,
        Paint::OwnAddress => pointer_bytes,
    };
    let words = piece.chunks(unit as usize).zip((address..).step_by(unit as usize));
    let is_painted = |bytes: &[u8], address: u64| match paint {
        Paint::Byte(byte) | Paint::Guarded(_, byte) => bytes == [byte],
        Paint::Word(word) => bytes == word.to_le_bytes(),
        Paint::OwnAddress => bytes == &address.to_le_bytes()[..pointer_bytes as usize],
    };
    unit as usize * words.take_while(|&(bytes, address)| is_painted(bytes, address)).count()
}
