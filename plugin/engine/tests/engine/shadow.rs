// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shadow stacks of random traces: too simple to be wrong.

use engine::follow::context::{Active, Path};
use engine::follow::open_zones::Nest;

pub(crate) const FUNCTIONS: u32 = 5;
pub(crate) const FUNCTION_BYTES: u64 = 0x100;

/// Instructions by which the clock advances with each step: more than 1, the difference if one instruction is
/// executed again.
pub(crate) const STEP_INSNS: u64 = 10;

/// First address of a function.
pub(crate) fn entry(function: u32) -> u64 {
    0x1000 + FUNCTION_BYTES * u64::from(function)
}

/// Bytes of a function's frame; the smallest holds the link register and one more register.
pub(crate) fn frame_bytes(function: u32) -> u64 {
    8 * (1 + u64::from(function))
}

/// A frame: the functions that followed each other by tail calls in it.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) functions: Vec<u32>,
    pub(crate) sp: u64,
    pub(crate) return_addr: u64,
}

/// A stack of a context.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    /// Stack pointer of the code that made the outermost call, and that code.
    pub(crate) base_sp: u64,
    pub(crate) root: u64,
    pub(crate) frames: Vec<Frame>,
}

impl Stack {
    pub(crate) fn new(base_sp: u64, root: u64) -> Stack {
        Stack { base_sp, root, frames: Vec::new() }
    }

    /// Stack pointer with which the innermost function calls, and the function's first address.
    pub(crate) fn here(&self) -> (u64, u64) {
        self.frames.last().map_or((self.base_sp, self.root), |frame| {
            let function = frame.functions[frame.functions.len() - 1];
            (frame.sp - frame_bytes(function), entry(function))
        })
    }
}

/// An exception that has come after `began_at` instructions.
pub(crate) fn exception(number: u64, entry_sp: u64, began_at: u64) -> Active {
    Active {
        number,
        handler: 0x9000,
        entry_sp,
        interrupted: None,
        began_at,
        path: Path::default(),
        nest: Nest::default(),
        node: 0,
        is_preempted: false,
    }
}
