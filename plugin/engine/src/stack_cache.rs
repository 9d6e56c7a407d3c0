// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stacks that were walked before. A function that is called again from the same place, with the same words at the
//! places where its callers keep their return addresses, has the same callers. The words are compared instead of
//! walking again.

use wire::definition::FrameKind;

use crate::guest::{Context, Guest, MAX_READ_BYTES, Vcpu};

/// Number of kept stacks, a power of two. A new one replaces an old one in the same slot.
const KEPT: usize = 1024;

/// The kept stacks.
#[derive(Default)]
pub struct Recall {
    kept: Vec<Option<Kept>>,
    bytes: Vec<u8>,
}

/// A stack, and everything that it depends on.
struct Kept {
    vcpu: u32,
    pc: u64,
    sp: u64,
    return_addr: u64,
    /// Frame pointer; None: no frame was found by it.
    frame_pointer: Option<u64>,
    /// Address of the range with the words.
    start: u64,
    length: usize,
    /// Words: offset in the range, size, and value.
    words: Vec<(usize, u8, u64)>,
    stack: Vec<FrameKind>,
    root_sp: Option<u64>,
    id: Option<u32>,
}

/// A kept stack that matches.
#[derive(Clone, Copy)]
pub struct Recalled(usize);

/// Inputs of a walk.
#[derive(Default)]
pub struct Trail {
    /// Words of memory: address, size, and value.
    words: Vec<(u64, u8, u64)>,
    has_frame_pointer: bool,
    /// Whether the walk read state that is not in `words`; then it is never reused.
    is_open: bool,
}

impl Trail {
    /// Begins another walk.
    pub fn clear(&mut self) {
        self.words.clear();
        (self.has_frame_pointer, self.is_open) = (false, false);
    }

    /// Notes a word of this size that was read.
    pub fn read(&mut self, address: u64, bytes: u8, value: u64) {
        self.words.push((address, bytes, value));
    }

    /// Notes that a frame was found by the initial frame pointer.
    pub fn use_frame_pointer(&mut self) {
        self.has_frame_pointer = true;
    }

    /// Notes that the walk used other state.
    pub fn leave_open(&mut self) {
        self.is_open = true;
    }
}

impl Recall {
    /// Kept stack of a context outside of exceptions, if all of its inputs are unchanged.
    pub fn find(&mut self, vcpu: u32, context: &Context, guest: &mut Guest<impl Vcpu>) -> Option<Recalled> {
        let slot = slot(context);
        let kept = self.kept.get(slot)?.as_ref()?;
        let is_same = kept.vcpu == vcpu
            && (kept.pc, kept.sp, kept.return_addr) == (context.pc, context.sp, context.return_addr)
            && kept.frame_pointer.is_none_or(|frame_pointer| frame_pointer == context.frame_pointer);
        if !is_same {
            return None;
        }
        if !kept.words.is_empty() {
            if !guest.is_readable() || !guest.read_into(kept.start, kept.length, &mut self.bytes) {
                return None;
            }
            let bytes = &self.bytes[..];
            let mut words = kept.words.iter();
            let is_as_was = match guest.pointer_bytes() {
                8 => words
                    .all(|&(offset, _, value)| word_at::<8>(bytes, offset).map(u64::from_le_bytes) == Some(value)),
                4 => words.all(|&(offset, _, value)| {
                    word_at::<4>(bytes, offset).map(|word| u32::from_le_bytes(word).into()) == Some(value)
                }),
                // A frame pointer is kept as an address, and its word has the address's lower half.
                _ => words.all(|&(offset, size, value)| {
                    let word = bytes.get(offset..offset + usize::from(size)).map(|word| guest.stack_word(word));
                    word == Some(value & !(u64::MAX << (8 * size)))
                }),
            };
            if !is_as_was {
                return None;
            }
        }
        Some(Recalled(slot))
    }

    /// Keeps the stack of a context outside of exceptions. None: its inputs cannot be compared.
    pub fn keep(
        &mut self,
        vcpu: u32,
        context: &Context,
        trail: &Trail,
        (stack, root_sp): (&[FrameKind], Option<u64>),
        guest: &Guest<impl Vcpu>,
    ) -> Option<Recalled> {
        if trail.is_open {
            return None;
        }
        let start = trail.words.iter().map(|&(address, ..)| address).min().unwrap_or(0);
        let end = trail.words.iter().map(|&(address, bytes, _)| address + u64::from(bytes)).max().unwrap_or(0);
        let length = end - start;
        // The words must lie in one range of memory, without devices.
        if length > MAX_READ_BYTES as u64 || (length > 0 && guest.memory_from(start).is_none_or(|left| left < length))
        {
            return None;
        }
        if self.kept.is_empty() {
            self.kept.resize_with(KEPT, || None);
        }
        let slot = slot(context);
        self.kept[slot] = Some(Kept {
            vcpu,
            pc: context.pc,
            sp: context.sp,
            return_addr: context.return_addr,
            frame_pointer: trail.has_frame_pointer.then_some(context.frame_pointer),
            start,
            length: length as usize,
            words: trail
                .words
                .iter()
                .map(|&(address, bytes, value)| ((address - start) as usize, bytes, value))
                .collect(),
            stack: stack.to_vec(),
            root_sp,
            id: None,
        });
        Some(Recalled(slot))
    }

    /// Frames of a kept stack.
    pub fn stack(&self, Recalled(slot): Recalled) -> &[FrameKind] {
        self.kept[slot].as_ref().map_or(&[], |kept| &kept.stack)
    }

    /// Stack pointer at its root.
    pub fn root_sp(&self, Recalled(slot): Recalled) -> Option<u64> {
        self.kept[slot].as_ref()?.root_sp
    }

    /// The stack's id, if it has one.
    pub fn id(&self, Recalled(slot): Recalled) -> Option<u32> {
        self.kept[slot].as_ref()?.id
    }

    /// Sets the stack's id.
    pub fn set_id(&mut self, Recalled(slot): Recalled, id: u32) {
        if let Some(kept) = &mut self.kept[slot] {
            kept.id = Some(id);
        }
    }
}

/// Slot of a context. It mixes all registers, since the same function is called from different places, at different
/// depths.
fn slot(context: &Context) -> usize {
    let mixed = (context.pc ^ context.return_addr.rotate_left(20) ^ context.sp.rotate_left(40))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % KEPT
}

fn word_at<const BYTES: usize>(bytes: &[u8], offset: usize) -> Option<[u8; BYTES]> {
    bytes.get(offset..)?.first_chunk().copied()
}
