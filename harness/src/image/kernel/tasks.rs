// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks of a kernel as a debugger reads them: the places where they are listed, and where the registers of those that
//! do not run are saved. Each kernel says it as data.

use std::ops::Range;

use wire::timeline::States;

use super::freertos::lists::Lists;

/// Tasks of a kernel, as a debugger reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tasks {
    /// Place where the tasks are found.
    pub listing: Listing,
    /// Place where the registers of a waiting task are.
    pub saved: Saved,
}

/// Place where a kernel's tasks are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Lists, each of which stands for a state.
    Lists(Lists),
    /// Control blocks that have their state in a member.
    Blocks(Blocks),
}

/// Control blocks that have their state in a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Size of a pointer.
    pub pointer_bytes: u64,
    /// Place of the control blocks.
    pub source: Source,
    /// Layout of the members.
    pub states: States,
}

/// Place where a kernel has its control blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Chain: the address of the pointer to the first block, and the offset of the pointer to the next one. The last one's
    /// is null, or leads back to the first.
    Chain {
        /// Address of the pointer to the first block.
        first: u64,
        /// Offset of the pointer to the next block.
        next: u64,
    },
    /// Array of pointers at these addresses; null pointers stand for no block.
    Array(Range<u64>),
    /// The same in memory that the kernel allocates.
    AllocatedArray {
        /// Address of the pointer to the array.
        start: u64,
        /// Address of the number of pointers, of 32 bits.
        count: u64,
    },
    /// Variables that hold blocks, by address.
    Variables(Vec<u64>),
}

/// Place where the registers of a waiting task are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saved {
    /// Unknown.
    Unknown,
    /// On the task's stack, as one of these ports for Cortex-M leaves them.
    Ports(&'static [ArmPort]),
    /// On the task's stack, as a RISC-V port's trap handler leaves them: mepc, x1, x5 and following, mstatus.
    TrapFrame,
    /// On the task's stack, from the saved stack pointer on: registers by QEMU's names.
    Frame(Vec<(&'static str, InFrame)>),
    /// The same in one of several frames, which differ in the word at the saved stack pointer.
    Frames(Vec<(u64, Vec<(&'static str, InFrame)>)>),
    /// In the control block.
    Block(Block),
}

/// Place of a register in a frame on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFrame {
    /// Register saved at this offset.
    At(u64),
    /// The stack pointer above the frame: the offset of its end.
    End(u64),
}

/// Registers in a control block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Registers by QEMU's names, and the offsets of their members. Where `pc` is none of them, the processor's own frame is
    /// at the stack pointer.
    pub registers: Vec<(&'static str, u64)>,
    /// Member that says whether the processor's frame has floating-point registers: its offset, and the bits in which it
    /// then differs from the other value.
    pub extended: Option<Extended>,
}

/// Member that says whether the processor's frame has floating-point registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// Offset of the byte.
    pub offset: u64,
    /// Bit of the byte.
    pub mask: u8,
    /// Value of the bit in a task with these registers.
    pub is_set: bool,
}

/// Registers that a port for Cortex-M saves on the stack, below those that the processor saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArmPort {
    /// Number of words, without floating-point registers.
    pub words: usize,
    /// Indices of r4 to r11.
    pub kept: [usize; 8],
    /// Index of the handler's `lr`, which says whether there are floating-point registers.
    pub lr: Option<usize>,
    /// Index at which s16 to s31 are, if the task has any.
    pub float: usize,
}

impl ArmPort {
    /// Port that saves r4 to r11 in their order.
    pub(super) const fn new(words: usize, r4: usize, lr: Option<usize>, float: usize) -> ArmPort {
        let kept = [r4, r4 + 1, r4 + 2, r4 + 3, r4 + 4, r4 + 5, r4 + 6, r4 + 7];
        ArmPort { words, kept, lr, float }
    }
}
