// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a stack that was walked before is given again only if all that its walk depends on is as it was.

use engine::guest::{Context, Guest};
use engine::stack_cache::{Recall, Recalled, Trail};
use wire::definition::FrameKind;
use wire::request::{Isa, Measure, Request};

use crate::fake::{Fake, guest, only, request};

const RAM: u64 = 0x8000_0000;
const RAM_BYTES: u64 = 0x10_0000;
/// Address of the word with the caller's return address.
const SAVED: u64 = RAM + 0x108;
const CALLER: u64 = 0x2000_0200;

const CONTEXT: Context =
    Context { pc: 0x2000_0100, sp: RAM + 0x100, return_addr: 0x2000_0180, second_return_addr: 0, frame_pointer: RAM };

/// A RISC-V whose memory has the caller's return address; `held`: length of it that can be read.
fn riscv(saved: u64, held: u64) -> Guest<Fake> {
    let mut fake = Fake::riscv(0x2000_0000);
    fake.memory = vec![(RAM, vec![0; held as usize])];
    if SAVED + 8 <= RAM + held {
        fake.store(SAVED, saved);
    }
    let memory = only(RAM..RAM + RAM_BYTES);
    guest(&Request { memory, ..request(Isa::Riscv64, None, Measure::default()) }, fake)
}

/// Trail of a walk that has read these addresses.
fn trail(addresses: &[u64]) -> Trail {
    let mut trail = Trail::default();
    addresses.iter().for_each(|&address| trail.read(address, 8, CALLER));
    trail
}

fn keep(recall: &mut Recall, trail: &Trail) -> Option<Recalled> {
    let stack = [FrameKind::Caller { return_addr: CALLER }];
    recall.keep(0, &CONTEXT, trail, (&stack, Some(RAM + 0x110)), &riscv(CALLER, RAM_BYTES))
}

#[test]
fn a_kept_stack_is_found_while_registers_and_words_are_the_same() {
    let mut recall = Recall::default();
    assert!(recall.find(0, &CONTEXT, &mut riscv(CALLER, RAM_BYTES)).is_none());
    let kept = keep(&mut recall, &trail(&[SAVED])).unwrap();
    recall.set_id(kept, 7);
    let found = recall.find(0, &CONTEXT, &mut riscv(CALLER, RAM_BYTES)).unwrap();
    assert_eq!(recall.stack(found), [FrameKind::Caller { return_addr: CALLER }]);
    assert_eq!((recall.root_sp(found), recall.id(found)), (Some(RAM + 0x110), Some(7)));
    // No frame was found by the frame pointer, so that it may differ.
    let other_frame = Context { frame_pointer: RAM + 8, ..CONTEXT };
    assert!(recall.find(0, &other_frame, &mut riscv(CALLER, RAM_BYTES)).is_some());
    assert!(recall.find(1, &CONTEXT, &mut riscv(CALLER, RAM_BYTES)).is_none(), "another CPU");
    assert!(recall.find(0, &CONTEXT, &mut riscv(CALLER + 4, RAM_BYTES)).is_none(), "another caller");
    assert!(recall.find(0, &CONTEXT, &mut riscv(CALLER, 0x100)).is_none(), "memory that cannot be read");
    let mut late = riscv(CALLER, RAM_BYTES);
    late.vanish();
    assert!(recall.find(0, &CONTEXT, &mut late).is_none(), "QEMU exits");

    let mut by_frame = trail(&[SAVED]);
    by_frame.use_frame_pointer();
    keep(&mut recall, &by_frame).unwrap();
    assert!(recall.find(0, &CONTEXT, &mut riscv(CALLER, RAM_BYTES)).is_some());
    assert!(recall.find(0, &other_frame, &mut riscv(CALLER, RAM_BYTES)).is_none());
}

#[test]
fn a_stack_whose_inputs_cannot_be_compared_is_not_kept() {
    let mut recall = Recall::default();
    let mut open = trail(&[SAVED]);
    open.leave_open();
    assert!(keep(&mut recall, &open).is_none(), "other state was used");
    assert!(keep(&mut recall, &trail(&[SAVED, RAM + RAM_BYTES - 8])).is_none(), "words too far from each other");
    assert!(keep(&mut recall, &trail(&[RAM + RAM_BYTES - 4])).is_none(), "a word that leaves the memory");
    assert!(keep(&mut recall, &trail(&[RAM - 8])).is_none(), "a word outside of all memory");
    open.clear();
    assert!(keep(&mut recall, &open).is_some(), "a walk of registers alone");
}
