// SPDX-License-Identifier: GPL-2.0-or-later
//! Watch over the stack pointer in generated code, where the exact call tree does not follow it: a stack that leaves its room
//! between two samples would not be noticed otherwise.
//!
//! A block that makes the stack deeper names by how much. So at its start one comparison of the stack pointer with a number shows
//! whether it leaves the room that the main stack lies in; only then is the stack walked. The stack pointer is compared where QEMU
//! keeps it, so the watch needs that place.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::room::Move;

/// 1 while the place of the registers is looked for; generated code compares it.
static SOUGHT: AtomicU64 = AtomicU64::new(1);

/// Most times that a block is found to be on another stack. Beyond them, blocks that are translated anew are not watched: the
/// firmware has stacks of its own below the main stack.
const MAX_ELSEWHERE: u32 = 1 << 12;

/// The watch.
#[derive(Default)]
pub(crate) struct Depth {
    /// Moves of the blocks that make the stack deeper, by the block's number.
    moves: HashMap<usize, Box<[Move]>>,
    /// Highest low end of the rooms that the stack pointer was in when blocks were translated.
    low: u64,
    elsewhere: u32,
    /// Addresses of watched blocks that were translated before the place of the registers was known: they call back each time.
    early: Vec<u64>,
}

impl Depth {
    /// Address of a number that is 1 while the place of the registers is looked for.
    pub(crate) fn sought() -> usize {
        SOUGHT.as_ptr().expose_provenance()
    }

    /// Notes that the place of the registers has been found, or will not be.
    pub(crate) fn end_search() {
        SOUGHT.store(0, Ordering::Relaxed);
    }

    /// Notes a block that calls back each time.
    pub(crate) fn is_early(&mut self, pc: u64) {
        self.early.push(pc);
    }

    /// Takes the addresses of these blocks, which are to be translated anew.
    pub(crate) fn take_early(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.early)
    }

    /// Keeps a block's moves.
    pub(crate) fn keep(&mut self, block: usize, moves: Vec<Move>) {
        self.moves.insert(block, moves.into());
    }

    /// A block's moves.
    pub(crate) fn moves(&self, block: usize) -> &[Move] {
        self.moves.get(&block).map_or(&[], |moves| moves)
    }

    /// Address that the stack pointer must not go below, given the low end of the room that it is in now. None: blocks are not
    /// watched any more.
    pub(crate) fn limit(&mut self, low: u64) -> Option<u64> {
        self.low = self.low.max(low);
        (self.elsewhere < MAX_ELSEWHERE).then_some(self.low)
    }

    /// Notes that a watched block was executed on another stack.
    pub(crate) fn is_elsewhere(&mut self) {
        self.elsewhere = self.elsewhere.saturating_add(1);
    }
}
