//! Straight-line code as it is counted, and translated blocks as their callbacks see them.

use std::collections::HashMap;
use std::num::NonZeroU16;

use wire::counters::FIRST_SITE;
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
    /// Where the block is counted as a whole, as one segment, but can be left early: how many instructions have started
    /// at each point where it can be, in order. None: each segment starts as a whole.
    pub(crate) exits: Box<[u32]>,
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

    /// How many instructions the `index`-th's segment has after it.
    pub(crate) fn after_in_segment(&self, index: u64) -> u64 {
        let mut end = 0;
        let ends = self.segments.iter().map(|&(_, length)| {
            end += u64::from(length);
            end
        });
        ends.into_iter().find(|&end| end > index).map_or(0, |end| end - index - 1)
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
    numbers: HashMap<BlockKey, usize>,
}

/// What tells blocks apart: segments, whose slots know their code, and exits.
type BlockKey = (Box<[(u32, u32)]>, Box<[u32]>);

impl Blocks {
    /// The number of a block.
    pub(crate) fn number(&mut self, block: Block) -> usize {
        *self.numbers.entry((block.segments.clone(), block.exits.clone())).or_insert_with(|| {
            self.list.push(block);
            self.list.len() - 1
        })
    }

    /// How many there are, which is the next one's number.
    pub(crate) fn count(&self) -> usize {
        self.list.len()
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

/// A block's number and the time in which no exception starts there, in the one number that a callback is given.
pub(crate) fn arrival_id(block: usize, epoch: Option<NonZeroU16>) -> usize {
    insn_id(block, epoch.map_or(0, |epoch| epoch.get().into()))
}

/// The reverse of [`arrival_id`].
pub(crate) fn from_arrival_id(id: usize) -> (usize, Option<NonZeroU16>) {
    (id >> 16, NonZeroU16::new(id as u16))
}

/// A block's number and that of its next exit, as the one number that the LAST cell holds: a small one, so that host code
/// has it in its instructions. None: it would not fit.
pub(crate) fn progress(block: usize, exit: usize) -> Option<u64> {
    let progress = (block as u64) << EXIT_BITS | exit as u64;
    (progress < FIRST_SITE && exit >> EXIT_BITS == 0).then_some(progress)
}

/// QEMU's blocks have at most 512 instructions.
const EXIT_BITS: u32 = 9;

/// The reverse of [`progress`].
pub(crate) fn from_progress(progress: u64) -> (usize, usize) {
    ((progress >> EXIT_BITS) as usize, (progress & ((1 << EXIT_BITS) - 1)) as usize)
}

/// The [`insn_id`] of an instruction that waits, and whether it waits for an event.
pub(crate) fn wait_id(insn_id: usize, is_for_event: bool) -> usize {
    insn_id << 1 | usize::from(is_for_event)
}

/// The reverse of [`wait_id`].
pub(crate) fn from_wait_id(id: usize) -> (usize, bool) {
    (id >> 1, id & 1 == 1)
}

/// The reverse of [`insn_id`].
pub(crate) fn from_insn_id(id: usize) -> (usize, u64) {
    (id >> 16, (id & 0xffff) as u64)
}
