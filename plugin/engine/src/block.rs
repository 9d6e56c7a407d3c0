// SPDX-License-Identifier: MIT OR Apache-2.0
//! Straight-line code and translated blocks, the units of counting.

use std::collections::HashMap;
use std::num::NonZeroU16;

use wire::counters::{CLOCK, FIRST_SITE, LAST, OPEN};
use wire::definition::Transfer;

/// Straight-line code with one counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Address of its first instruction.
    pub pc: u64,
    /// Bytes of each instruction.
    pub sizes: Box<[u8]>,
    /// Call or jump at its end.
    pub transfer: Option<Transfer>,
}

impl Segment {
    /// Whether its last instruction is at an address.
    pub fn ends_with(&self, pc: u64) -> bool {
        let before = self.sizes.split_last().map(|(_, before)| before).unwrap_or_default();
        !self.sizes.is_empty() && self.pc + before.iter().map(|&size| u64::from(size)).sum::<u64>() == pc
    }
}

/// A translated block, as callbacks see it.
#[derive(Clone, Debug)]
pub struct Block {
    /// Address of its first instruction.
    pub pc: u64,
    /// Entry of the function of its first instruction, if known.
    pub function: Option<u64>,
    /// Bytes of each instruction.
    pub sizes: Box<[u8]>,
    /// Slot and number of instructions of each segment.
    pub segments: Box<[(u32, u32)]>,
    /// If the block is counted as a whole, as one segment: for each point where it can be left early, in order, the
    /// number of instructions that have started there. Empty: each segment is counted by itself.
    pub exits: Box<[u32]>,
}

impl Block {
    /// Address of the `index`-th instruction.
    pub fn pc_of(&self, index: u64) -> u64 {
        self.pc + self.sizes[..index as usize].iter().map(|&size| u64::from(size)).sum::<u64>()
    }

    /// Number of instructions.
    pub fn insns(&self) -> u64 {
        self.sizes.len() as u64
    }

    /// Number of instructions after the `index`-th in its segment.
    pub fn after_in_segment(&self, index: u64) -> u64 {
        let mut end = 0;
        let ends = self.segments.iter().map(|&(_, length)| {
            end += u64::from(length);
            end
        });
        ends.into_iter().find(|&end| end > index).map_or(0, |end| end - index - 1)
    }

    /// Slot and length of the segment that starts at the `index`-th instruction.
    pub fn segment_at(&self, index: u64) -> (u32, u32) {
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

/// Operation of generated code on a cell of the executing vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Adds to the cell, modulo 2^64.
    Add {
        /// The cell.
        slot: u32,
        /// The amount.
        amount: u64,
    },
    /// Stores a number in the cell.
    Store {
        /// The cell.
        slot: u32,
        /// The number.
        value: u64,
    },
}

/// Counting that generated code does at an instruction.
#[derive(Clone, Copy, Debug)]
pub enum Count {
    /// A segment.
    Segment {
        /// Its counter.
        slot: u32,
        /// Its length.
        insns: u32,
    },
    /// The whole block, and the first [`progress`] in it.
    Whole {
        /// Its counter.
        slot: u32,
        /// Its length.
        insns: u32,
        /// See [`progress`].
        progress: u64,
    },
    /// Progress in the block only.
    Further {
        /// See [`progress`].
        progress: u64,
    },
    /// Clears the flag of a block counted as a whole: it cannot be left early any more.
    Closed,
}

impl Count {
    /// Number of the instructions that it counts.
    pub fn insns(self) -> usize {
        match self {
            Count::Segment { insns, .. } | Count::Whole { insns, .. } => insns as usize,
            Count::Further { .. } | Count::Closed => 0,
        }
    }

    /// Operations of generated code. `is_first`: they are at the block's first instruction. `overwrites_last`: the
    /// block always ends by storing a site's number in the LAST cell, and cannot be left earlier.
    pub fn steps(self, is_first: bool, overwrites_last: bool) -> impl Iterator<Item = Step> {
        let add = |slot, amount| Some(Step::Add { slot, amount });
        let store = |value| Some(Step::Store { slot: LAST, value });
        let steps = match self {
            // The start of the block overwrites the LAST cell: a transfer of control before it has arrived.
            Count::Segment { slot, insns } => {
                let arrived = if is_first && !overwrites_last { store(0) } else { None };
                [add(CLOCK, insns.into()), add(slot, 1), arrived]
            }
            Count::Whole { slot, insns, progress } => {
                [add(CLOCK, OPEN + u64::from(insns)), add(slot, 1), store(progress)]
            }
            Count::Further { progress } => [store(progress), None, None],
            Count::Closed => [add(CLOCK, OPEN.wrapping_neg()), None, None],
        };
        steps.into_iter().flatten()
    }
}

/// Counting points of block `number`: index of an instruction, and the counting at it.
pub fn counts(number: usize, Block { segments, exits, .. }: &Block) -> Vec<(usize, Count)> {
    let progress = |exit: usize| progress(number, exit).unwrap_or(0);
    if let ([(slot, insns)], [.., close]) = (&segments[..], &exits[..]) {
        let further = exits.iter().zip(1..exits.len());
        let further = further.map(|(&at, exit)| (at as usize, Count::Further { progress: progress(exit) }));
        return [(0, Count::Whole { slot: *slot, insns: *insns, progress: progress(0) })]
            .into_iter()
            .chain(further)
            .chain([(*close as usize, Count::Closed)])
            .collect();
    }
    let mut start = 0;
    let segment = |&(slot, insns): &(u32, u32)| {
        start += insns as usize;
        (start - insns as usize, Count::Segment { slot, insns })
    };
    segments.iter().map(segment).collect()
}

/// Blocks by number. Each is kept once, however often QEMU translates it, so memory does not grow with retranslation.
#[derive(Default)]
pub struct Blocks {
    list: Vec<Block>,
    numbers: HashMap<BlockKey, usize>,
}

/// Identity of a block: its segments, whose slots stand for their code, and its exits.
type BlockKey = (Box<[(u32, u32)]>, Box<[u32]>);

impl Blocks {
    /// Number of a block. A new block is added.
    pub fn number(&mut self, block: Block) -> usize {
        *self.numbers.entry((block.segments.clone(), block.exits.clone())).or_insert_with(|| {
            self.list.push(block);
            self.list.len() - 1
        })
    }

    /// Number of blocks, which is also the next block's number.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// The block with this number.
    pub fn get(&self, number: usize) -> &Block {
        &self.list[number]
    }
}

/// Packs a block's number and the index of one of its instructions into a callback's number.
pub fn insn_id(block: usize, index: usize) -> usize {
    const { assert!(usize::BITS == 64, "the plugin packs two numbers into a pointer") };
    block << 16 | index
}

/// Packs a block's number and an epoch without exceptions at it ([`crate::guest::Guest::epoch_without_exception`])
/// into a callback's number.
pub fn arrival_id(block: usize, epoch: Option<NonZeroU16>) -> usize {
    insn_id(block, epoch.map_or(0, |epoch| epoch.get().into()))
}

/// The reverse of [`arrival_id`].
pub fn from_arrival_id(id: usize) -> (usize, Option<NonZeroU16>) {
    (id >> 16, NonZeroU16::new(id as u16))
}

/// Packs a block's number and the number of its next exit into the number for the LAST cell. That number has to fit
/// an immediate of the host's code. None: it would not fit.
pub fn progress(block: usize, exit: usize) -> Option<u64> {
    let progress = (block as u64) << EXIT_BITS | exit as u64;
    (progress < FIRST_SITE && exit >> EXIT_BITS == 0).then_some(progress)
}

/// QEMU's blocks have at most 512 instructions.
const EXIT_BITS: u32 = 9;

/// The reverse of [`progress`].
pub fn from_progress(progress: u64) -> (usize, usize) {
    ((progress >> EXIT_BITS) as usize, (progress & ((1 << EXIT_BITS) - 1)) as usize)
}

/// Packs the [`insn_id`] of a waiting instruction with whether it waits for an event.
pub fn wait_id(insn_id: usize, is_for_event: bool) -> usize {
    insn_id << 1 | usize::from(is_for_event)
}

/// The reverse of [`wait_id`].
pub fn from_wait_id(id: usize) -> (usize, bool) {
    (id >> 1, id & 1 == 1)
}

/// Packs a block's number with its instructions, and whether the last one may lead elsewhere, into a callback's number.
pub fn paced_id(block: usize, insns: usize, may_jump: bool) -> usize {
    insn_id(block, insns << 1 | usize::from(may_jump))
}

/// The reverse of [`paced_id`].
pub fn from_paced_id(id: usize) -> (usize, u64, bool) {
    let (block, packed) = from_insn_id(id);
    (block, packed >> 1, packed & 1 == 1)
}

/// The reverse of [`insn_id`].
pub fn from_insn_id(id: usize) -> (usize, u64) {
    (id >> 16, (id & 0xffff) as u64)
}
