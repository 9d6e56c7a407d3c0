//! Straight-line code as it is counted, and translated blocks as their callbacks see them.

use std::collections::HashMap;

use wire::definition::Transfer;

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

    /// Number of instructions.
    pub(crate) fn insns(&self) -> u64 {
        self.sizes.len() as u64
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

    /// The block of that number.
    pub(crate) fn get(&self, number: usize) -> &Block {
        &self.list[number]
    }
}

/// A block's number and the index of one of its instructions, in the one number a callback is given.
pub(crate) fn insn_id(block: usize, index: usize) -> usize {
    const { assert!(usize::BITS == 64, "the plugin packs two numbers into a pointer") };
    block << 16 | index
}

/// The reverse of [`insn_id`].
pub(crate) fn from_insn_id(id: usize) -> (usize, u64) {
    (id >> 16, (id & 0xffff) as u64)
}
