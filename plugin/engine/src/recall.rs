//! Stacks that have been taken before. A function that is called again from the same place, with the same words on the
//! stack where its callers keep their return addresses, has the same callers: they are compared, and not walked again.

use wire::definition::FrameKind;

use crate::guest::{Context, Guest, MAX_READ_BYTES, Vcpu};

/// How many are kept, a power of two: of two that fall on the same one the last stays.
const KEPT: usize = 1024;

/// The stacks.
#[derive(Default)]
pub struct Recall {
    kept: Vec<Option<Kept>>,
    bytes: Vec<u8>,
}

/// A stack, and all that it follows from.
struct Kept {
    vcpu: u32,
    pc: u64,
    sp: u64,
    return_addr: u64,
    /// None: no frame was found by it.
    frame_pointer: Option<u64>,
    /// Where in memory the words are.
    start: u64,
    length: usize,
    /// The words: offset from there, and value.
    words: Vec<(usize, u64)>,
    stack: Vec<FrameKind>,
    root_sp: Option<u64>,
    id: Option<u32>,
}

/// A stack that is kept.
#[derive(Clone, Copy)]
pub struct Recalled(usize);

/// What a walk has used.
#[derive(Default)]
pub struct Trail {
    /// Words of memory: address and value.
    words: Vec<(u64, u64)>,
    has_frame_pointer: bool,
    /// It used what is not said here.
    is_open: bool,
}

impl Trail {
    /// Another walk begins.
    pub fn clear(&mut self) {
        self.words.clear();
        (self.has_frame_pointer, self.is_open) = (false, false);
    }

    /// A word was read.
    pub fn read(&mut self, address: u64, value: u64) {
        self.words.push((address, value));
    }

    /// A frame was found by the frame pointer as it was at first.
    pub fn use_frame_pointer(&mut self) {
        self.has_frame_pointer = true;
    }

    /// Something else was used.
    pub fn leave_open(&mut self) {
        self.is_open = true;
    }
}

impl Recall {
    /// The stack of this context of a vCPU's outside of exceptions, if nothing that it follows from is different.
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
            let is_as_was = if guest.pointer_bytes() == 8 {
                words.all(|&(offset, value)| word_at::<8>(bytes, offset).map(u64::from_le_bytes) == Some(value))
            } else {
                words.all(|&(offset, value)| {
                    word_at::<4>(bytes, offset).map(|word| u32::from_le_bytes(word).into()) == Some(value)
                })
            };
            if !is_as_was {
                return None;
            }
        }
        Some(Recalled(slot))
    }

    /// Keeps the stack of a context of a vCPU's outside of exceptions. None: it cannot be told by what was used.
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
        let addresses = || trail.words.iter().map(|&(address, _)| address);
        let start = addresses().min().unwrap_or(0);
        let end = addresses().max().map_or(0, |last| last + guest.pointer_bytes());
        let length = end - start;
        // One piece of memory, with no device in it.
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
            words: trail.words.iter().map(|&(address, value)| ((address - start) as usize, value)).collect(),
            stack: stack.to_vec(),
            root_sp,
            id: None,
        });
        Some(Recalled(slot))
    }

    /// The frames of a stack.
    pub fn stack(&self, Recalled(slot): Recalled) -> &[FrameKind] {
        self.kept[slot].as_ref().map_or(&[], |kept| &kept.stack)
    }

    /// Where it begins.
    pub fn root_sp(&self, Recalled(slot): Recalled) -> Option<u64> {
        self.kept[slot].as_ref()?.root_sp
    }

    /// Its id, where it has one.
    pub fn id(&self, Recalled(slot): Recalled) -> Option<u32> {
        self.kept[slot].as_ref()?.id
    }

    /// Gives it one.
    pub fn set_id(&mut self, Recalled(slot): Recalled, id: u32) {
        if let Some(kept) = &mut self.kept[slot] {
            kept.id = Some(id);
        }
    }
}

/// The same function is called from different places, at different depths.
fn slot(context: &Context) -> usize {
    let mixed = (context.pc ^ context.return_addr.rotate_left(20) ^ context.sp.rotate_left(40))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % KEPT
}

fn word_at<const BYTES: usize>(bytes: &[u8], offset: usize) -> Option<[u8; BYTES]> {
    bytes.get(offset..)?.first_chunk().copied()
}
