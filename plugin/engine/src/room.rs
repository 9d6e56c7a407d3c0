// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rooms of stacks that no kernel describes. A stack lies in one variable, as an array that is one, or between two
//! variables, as the main stack does above the last of them. Nothing else says where a firmware's stack ends: if frames
//! that follow on each other reach from one room into another, the stack has left its memory.

use std::ops::Range;

use wire::request::Request;

/// Most bytes that an exception saves on the stack of the interrupted code, with the padding that aligns them.
const MAX_SAVED_BYTES: u64 = 256;

/// The variables of the firmware, which divide the memory into rooms.
pub struct Rooms {
    variables: Vec<Range<u64>>,
    /// Variable in which the C library keeps the address behind its heap.
    pub heap_end: Option<u64>,
}

impl Rooms {
    /// Rooms of the firmware. None: no variables are known.
    pub fn new(request: &Request) -> Option<Rooms> {
        let measure = request.measure()?;
        let (variables, heap_end) = (measure.variables.clone(), measure.heap_end);
        (!variables.is_empty()).then_some(Rooms { variables, heap_end })
    }

    /// Room of a byte: the variable that it is in, or the memory between two of them.
    pub fn around(&self, byte: u64) -> Range<u64> {
        let next = self.variables.partition_point(|variable| variable.start <= byte);
        let below = next.checked_sub(1).and_then(|index| self.variables.get(index));
        match below {
            Some(variable) if variable.contains(&byte) => variable.clone(),
            _ => {
                let end = self.variables.get(next).map_or(u64::MAX, |variable| variable.start);
                below.map_or(0, |variable| variable.end)..end
            }
        }
    }
}

/// Depth that a block has reached once one of its instructions has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Number of the instruction in its block.
    pub index: u64,
    /// Bytes below the stack pointer at the block's start.
    pub depth: u64,
}

impl Move {
    /// The moves of a block by what its instructions take off the stack pointer, as far as that is known.
    pub fn all(taken: impl Iterator<Item = Option<u64>>) -> Vec<Move> {
        let (mut moves, mut depth) = (Vec::new(), 0);
        for (index, taken) in (0..).zip(taken) {
            match taken {
                Some(0) => {}
                Some(bytes) => {
                    depth += bytes;
                    moves.push(Move { index, depth });
                }
                None => break,
            }
        }
        moves
    }
}

/// A stack that was found to be in more than one room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The stack pointer.
    pub sp: u64,
    /// Room of the outermost frame, which is the stack's.
    pub room: Range<u64>,
    /// Address above the outermost frame.
    pub top: u64,
}

/// Frames of one stack that follow on each other, from the innermost outwards.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// Addresses of the frames so far; empty: none.
    frames: Range<u64>,
    /// Room of the outermost one.
    room: Range<u64>,
    /// Whether they are in more than one room.
    is_left: bool,
}

impl Chain {
    /// Adds the frame around the ones so far. False: it is on another stack.
    pub fn add(&mut self, frame: Range<u64>, rooms: &Rooms) -> bool {
        if frame.is_empty() {
            return true;
        }
        if !self.frames.is_empty() && frame.start != self.frames.end {
            return false;
        }
        if self.frames.is_empty() {
            self.room = rooms.around(frame.start);
            self.frames.start = frame.start;
        }
        self.frames.end = frame.end;
        if frame.end > self.room.end {
            self.room = rooms.around(frame.end - 1);
            self.is_left = true;
        }
        true
    }

    /// Adds the registers that an exception has saved above the handler's frames, if they are on the same stack.
    pub fn add_saved(&mut self, entry_sp: u64, interrupted_sp: u64, rooms: &Rooms) -> bool {
        let is_same = interrupted_sp.checked_sub(entry_sp).is_some_and(|bytes| bytes <= MAX_SAVED_BYTES);
        is_same && self.add(entry_sp..interrupted_sp, rooms)
    }

    /// Adds the outermost frame, which may have been made by a jump and so proves nothing, to the stack's extent alone.
    pub fn end_at(&mut self, top: u64) {
        if !self.frames.is_empty() && top > self.frames.end && top <= self.room.end {
            self.frames.end = top;
        }
    }

    /// The stack, if its frames have come to a heap that ends at an address in its room: the heap has grown into the stack, or
    /// the stack into the heap.
    pub fn met(&self, heap_end: u64) -> Option<Left> {
        let Chain { frames, room, is_left } = self;
        let is_in = heap_end > room.start && heap_end > frames.start && heap_end <= frames.end;
        (is_in && !is_left).then_some(Left { sp: frames.start, room: heap_end..room.end, top: frames.end })
    }

    /// The stack, if its frames have left its room.
    pub fn left(&self) -> Option<Left> {
        let Chain { frames, room, is_left } = self;
        is_left.then(|| Left { sp: frames.start, room: room.clone(), top: frames.end })
    }
}
