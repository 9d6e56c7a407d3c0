// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promises of the small instruments: slices add up to the counters, polls of a device are found, a wait for an
//! event lasts until the event, and numbers that callbacks carry come back as they were.

use std::num::NonZeroU16;
use std::ops::Range;

use engine::block::{
    Block, Blocks, Count, Segment, arrival_id, from_arrival_id, from_insn_id, from_paced_id, from_progress,
    from_wait_id, insn_id, paced_id, progress, wait_id,
};
use engine::follow::Follow;
use engine::follow::device::DevicePoll;
use engine::follow::event::wait;
use engine::follow::watermark::Watermark;
use engine::ledger::{Counters as _, Ledger};
use engine::slice::Slices;
use proptest::prelude::*;
use wire::control::Word;
use wire::counters::{ASLEEP, ASLEEP_SINCE, CLOCK, EVENT, SLEEPS, SLEPT};
use wire::definition::{Definition, TASK_COUNTERS, TaskCounter};
use wire::request::{Isa, Measure, Paint, Request};
use wire::sample::Sample;
use wire::slice::Decoder;
use wire::stream::StreamFile;
use wire::timeline::{Decoder as TimelineDecoder, What};
use wire::zone::{Event, EventKind};

use crate::fake::{Books, Fake, config, guest, ledger, only, request, riscv_request};

const VCPUS: u32 = 2;

fn counter(ledger: &mut Ledger<Books>, pc: u64) -> u32 {
    ledger.segment(Segment { pc, sizes: Box::new([4]), transfer: None })
}

proptest! {
    #![proptest_config(config())]

    /// The sum over all slices, and what has grown since, are the counters.
    #[test]
    fn slices_add_up_to_the_counters(steps in prop::collection::vec((0..6_u64, 0..VCPUS, 0..9_u64), 1..60)) {
        let measure = Measure { slice_insns: Some(100), ..Measure::default() };
        let request = riscv_request(measure);
        let mut ledger = ledger(VCPUS);
        let mut slices = Slices::new(&request, VCPUS).unwrap();
        // Nothing is cut before the window opens.
        slices.cut(true, &mut ledger);
        slices.restart();
        let (mut grown, mut phase) = (vec![[0_u64; VCPUS as usize]; 4], 0);
        for &(kind, vcpu, amount) in &steps {
            match kind {
                4 => slices.cut(true, &mut ledger),
                5 => {
                    slices.enter_phase(amount as u32, &mut ledger);
                    if amount != phase {
                        prop_assert_eq!(ledger.records().word(Word::Phase), Some(amount));
                    }
                    phase = amount;
                }
                _ => {
                    // Counters may be defined between two cuts.
                    let slot = counter(&mut ledger, 0x1000 * kind);
                    ledger.add(slot, vcpu, amount);
                    ledger.add(CLOCK, vcpu, amount);
                    grown[kind as usize][vcpu as usize] += amount;
                }
            }
        }
        slices.cut(false, &mut ledger);
        let mut sums = vec![[0_u64; VCPUS as usize]; 4];
        let slots: Vec<u32> = (0..4).map(|kind| counter(&mut ledger, 0x1000 * kind)).collect();
        let decoded: Vec<_> = Decoder::new(ledger.records().stream(StreamFile::Slices)).map(Result::unwrap).collect();
        for slice in &decoded {
            for (vcpu, growth) in slice.vcpus.iter().enumerate() {
                for &(slot, count) in &growth.counts {
                    let kind = slots.iter().position(|&known| known == slot).unwrap();
                    sums[kind][vcpu] += count as u64;
                }
            }
        }
        prop_assert_eq!(sums, grown);
        let last = decoded.last().unwrap();
        prop_assert_eq!(u64::from(last.phase), phase);
        prop_assert_eq!(last.vcpus.iter().map(|growth| growth.end_insns).collect::<Vec<_>>(), ledger.insns_of_each());
        let full = decoded.iter().filter(|slice| slice.is_full).count();
        prop_assert_eq!(full, steps.iter().filter(|(kind, ..)| *kind == 4).count());
    }

    #[test]
    fn numbers_of_callbacks_come_back(block in 0..1_usize << 20, index in 0..512_usize, epoch in any::<u16>()) {
        prop_assert_eq!(from_insn_id(insn_id(block, index)), (block, index as u64));
        for may_jump in [false, true] {
            let insns = index >> 1;
            prop_assert_eq!(from_paced_id(paced_id(block, insns, may_jump)), (block, insns as u64, may_jump));
        }
        let epoch = NonZeroU16::new(epoch);
        prop_assert_eq!(from_arrival_id(arrival_id(block, epoch)), (block, epoch));
        for is_for_event in [false, true] {
            let id = insn_id(block, index);
            prop_assert_eq!(from_wait_id(wait_id(id, is_for_event)), (id, is_for_event));
        }
        prop_assert_eq!(progress(block, index).map(from_progress), Some((block, index)));
    }
}

#[test]
fn slices_are_cut_only_where_they_are_asked_for() {
    assert!(Slices::new(&riscv_request(Measure::default()), 1).is_none());
    let event = Event { address: 0x100, kind: EventKind::Phase, name: 1 };
    assert!(Slices::new(&riscv_request(Measure { events: vec![event], ..Measure::default() }), 1).is_some());
}

#[test]
fn progress_that_does_not_fit_an_immediate_has_no_number() {
    assert!(progress(1 << 20, 512).is_none());
    assert!(progress(1 << 21, 0).is_none() && progress((1 << 21) - 1, 511).is_some());
}

#[test]
fn block_knows_what_follows_an_instruction() {
    let block = Block {
        pc: 0x100,
        function: None,
        sizes: Box::new([2, 4, 2, 2, 4]),
        segments: Box::new([(30, 2), (31, 3)]),
        exits: Box::new([]),
    };
    assert_eq!((0..5).map(|index| block.pc_of(index)).collect::<Vec<_>>(), [0x100, 0x102, 0x106, 0x108, 0x10a]);
    assert_eq!((0..6).map(|index| block.after_in_segment(index)).collect::<Vec<_>>(), [1, 0, 2, 1, 0, 0]);
    assert_eq!((block.segment_at(0), block.segment_at(2)), ((30, 2), (31, 3)));
    let counts = engine::block::counts(0, &block);
    assert_eq!(counts.iter().map(|(_, count)| count.insns()).sum::<usize>(), 5);
    assert_eq!([Count::Closed, Count::Further { progress: 1 }].map(Count::insns), [0, 0]);
    let mut blocks = Blocks::default();
    assert_eq!([blocks.number(block.clone()), blocks.number(block.clone()), blocks.count()], [0, 0, 1]);
    // Where it can be left belongs to what it is.
    assert_eq!(blocks.number(Block { exits: Box::new([1]), ..block }), 1);
}

#[test]
fn instruction_that_starts_twice_is_taken_back() {
    let mut ledger = ledger(1);
    let line = |sizes: &[u8]| Segment { pc: 0x100, sizes: sizes.into(), transfer: None };
    assert!(line(&[4, 2]).ends_with(0x104) && !line(&[4, 2]).ends_with(0x100) && !line(&[]).ends_with(0x100));
    let [long, short] = [&[4, 2][..], &[4]].map(|sizes| ledger.segment(line(sizes)));
    ledger.set(long, 0, 3);
    ledger.unstart(0, 0x104);
    assert_eq!((ledger.get(long, 0), ledger.get(short, 0)), (2, 1));
    ledger.unstart(0, 0x100);
    assert_eq!((ledger.get(long, 0), ledger.get(short, 0)), (2, 0));
    // It has not started.
    ledger.unstart(0, 0x100);
    ledger.unstart(0, 0x108);
    assert_eq!((ledger.get(long, 0), ledger.get(short, 0)), (2, 0));
}

/// Reads of registers by instructions, for the model of polls.
fn polls(reads: &[(u64, u64, u64)], insns: u64) -> Vec<(u64, u64, u64, u64)> {
    let mut found = Vec::new();
    for pc in 0..3 {
        let own: Vec<(usize, _)> = reads.iter().enumerate().filter(|(_, read)| read.0 == pc).collect();
        let Some(&(_, &last)) = own.last() else { continue };
        let same = own.iter().rev().take_while(|(_, read)| **read == last).count();
        let since = own[own.len() - same].0 as u64;
        if same > 1 && (insns - since) / same as u64 <= 4096 {
            found.push((pc, last.1, last.2, same as u64));
        }
    }
    found.sort_by_key(|&(pc, _, _, times)| (std::cmp::Reverse(times), pc));
    found
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn registers_that_are_read_over_and_over_are_reported(
        reads in prop::collection::vec((0..3_u64, 0..2_u64, 0..2_u64), 0..30),
        after in prop_oneof![Just(0), 0..100_000_u64],
    ) {
        let (mut device, mut ledger) = (DevicePoll::default(), ledger(1));
        for (&(pc, address, value), insns) in reads.iter().zip(0..) {
            device.read(pc, address, value, insns);
        }
        let insns = reads.len() as u64 + after;
        device.note_all(insns, &mut ledger);
        let found: Vec<_> = ledger.records().definitions().into_iter().map(|definition| match definition {
            Definition::Poll { pc, address, value, times, .. } => (pc, address, value, times),
            other => panic!("{other:?}"),
        }).collect();
        prop_assert_eq!(found, polls(&reads, insns));
        // The one register that was read since anything else.
        device.note(&ledger);
        let same = reads.iter().rev().take_while(|read| Some(*read) == reads.last()).count() as u64;
        let word = |word| ledger.records().word(word);
        prop_assert_eq!(word(Word::PollTimes), (same > 0).then_some(same));
        prop_assert_eq!(word(Word::PollPc), reads.last().map(|read| read.0));
        prop_assert_eq!(word(Word::PollSince), reads.last().map(|_| reads.len() as u64 - same));
    }
}

#[test]
fn store_to_a_device_is_reported_with_its_last_change() {
    let (mut device, mut ledger) = (DevicePoll::default(), ledger(1));
    device.read(1, 2, 3, 4);
    // (pc, address, value, instruction)
    for (pc, address, value, insns) in
        [(0x10, 0xa0, 1, 5), (0x10, 0xa0, 1, 9), (0x20, 0xb0, 0, 6), (0x10, 0xa0, 2, 12), (0x10, 0xa0, 2, 15)]
    {
        device.stored(pc, address, value, insns);
    }
    // The same value in another register is another store; of two at once the lower address comes first.
    device.stored(0x30, 0xa0, 7, 3);
    device.stored(0x30, 0xa4, 7, 6);
    device.note_stores(&mut ledger);
    let written =
        |(pc, address, last_insns, changed_insns)| Definition::Written { pc, address, last_insns, changed_insns };
    let expected = [(0x10, 0xa0, 15, 12), (0x20, 0xb0, 6, 6), (0x30, 0xa4, 6, 6)].map(written);
    assert_eq!(ledger.records().definitions(), expected);
    // It is an access, too.
    device.note(&ledger);
    assert_eq!(ledger.records().word(Word::PollPc), None);
    // The latest ones of many.
    device.restart();
    (0..100).for_each(|at| device.stored(0x100 + at, 0xa0, 1, at));
    device.note_stores(&mut ledger);
    let latest = (36..100).rev().map(|at| written((0x100 + at, 0xa0, at, at)));
    assert_eq!(ledger.records().definitions()[3..], latest.collect::<Vec<_>>());
}

#[test]
fn timeline_has_by_how_much_the_clock_is_ahead_before_the_next_event() {
    let mut ledger = ledger(1);
    // Without a timeline, and before it, nothing is kept.
    ledger.move_ahead(0, 3);
    ledger.open_timeline();
    ledger.set(CLOCK, 0, 7);
    ledger.happened(0, What::Stopped);
    ledger.move_ahead(0, 5);
    ledger.move_ahead(0, 6);
    ledger.happened(0, What::Stopped);
    // When it has become much, it does not wait.
    ledger.move_ahead(0, 99_999);
    ledger.move_ahead(0, 2);
    ledger.note_ahead(0);
    let events: Vec<What> = TimelineDecoder::new(ledger.records().stream(StreamFile::Timeline))
        .map(|event| event.unwrap().what)
        .collect();
    assert_eq!(events, [What::Stopped, What::Ahead { ns: 11 }, What::Stopped, What::Ahead { ns: 100_001 }]);
}

#[test]
fn stack_of_a_task_is_left_at_its_low_end() {
    const STACK: u64 = 0x8000_2000;
    let slot = ledger(1).new_slots(TASK_COUNTERS);
    let watermark = Watermark::new(slot, STACK..STACK + 0x200);
    for (last, sp, is_left) in [
        (STACK + 4, STACK - 4, true),
        (STACK + 0x200, STACK - 0x100, true),
        (STACK + 4, STACK, false),
        // It was on another stack before.
        (STACK + 0x204, STACK - 4, false),
        (STACK - 8, STACK - 12, false),
    ] {
        assert_eq!(watermark.is_left(last, sp), is_left, "{last:x} {sp:x}");
    }
    // Where the stack ends is not known; nor where it starts.
    assert!(Watermark::new(slot, Range { start: STACK, end: 0 }).is_left(STACK + 0x1000, STACK - 4));
    assert!(!Watermark::new(slot, 0..STACK).is_left(8, 4));
    let below = [STACK, STACK - 4, STACK - 4096, STACK - 4100];
    assert_eq!(below.map(|sp| watermark.is_below(sp)), [false, true, true, false]);
}

#[test]
fn write_to_a_device_ends_a_poll() {
    let (mut device, mut ledger) = (DevicePoll::default(), ledger(1));
    device.read(1, 2, 3, 4);
    device.read(1, 2, 3, 5);
    device.forget();
    device.note(&ledger);
    assert_eq!(ledger.records().word(Word::PollAddress), None);
    device.note_all(6, &mut ledger);
    assert_eq!(ledger.records().definitions().len(), 1);
    device.restart();
    device.note_all(6, &mut ledger);
    assert_eq!(ledger.records().definitions().len(), 1);
}

#[test]
fn wait_for_an_event_lasts_until_the_event() {
    let (request, mut ledger) = (riscv_request(Measure::default()), ledger(1));
    let mut follow = Follow::new(&request, 1, &mut ledger);
    let get = |ledger: &Ledger<Books>, slots: [u32; 4]| slots.map(|slot| ledger.get(slot, 0));
    let state = [ASLEEP, SLEEPS, SLEPT, EVENT];
    ledger.add(CLOCK, 0, 10);
    assert!(wait(0, false, &ledger));
    assert_eq!(get(&ledger, state), [1, 1, 0, 0]);
    ledger.add(CLOCK, 0, 5);
    follow.wake(0, &ledger);
    assert_eq!(get(&ledger, state), [0, 1, 5, 1]);
    // An event that has come already is taken, without a wait.
    assert!(!wait(0, false, &ledger));
    assert_eq!(get(&ledger, state), [0, 1, 5, 0]);
    // The emulated processor sleeps itself, and executes nothing.
    assert!(wait(0, true, &ledger));
    assert_eq!(get(&ledger, state), [0, 2, 5, 0]);
    // A sleep that lasts as the window opens counts from there.
    assert!(wait(0, false, &ledger));
    follow.restart(&ledger);
    ledger.set(CLOCK, 0, 7);
    assert_eq!((ledger.get(ASLEEP_SINCE, 0), ledger.get(SLEPT, 0)), (0, 0));
    follow.wake(0, &ledger);
    assert_eq!(ledger.get(SLEPT, 0), 7);
}

#[test]
fn watermark_keeps_the_deepest_and_the_highest_stack_pointer() {
    const STACK: u64 = 0x8000_0100;
    let request = Request { memory: only(STACK..STACK + 0x200), ..request(Isa::Riscv32, None, Measure::default()) };
    let mut bytes = vec![0x5a_u8; 0x200];
    bytes[..4].copy_from_slice(&0xdead_beef_u32.to_le_bytes());
    bytes[0x180] = 0;
    let mut guest = guest(&request, Fake { memory: vec![(STACK, bytes)], ..Fake::default() });
    let mut ledger = ledger(1);
    let slot = ledger.new_slots(TASK_COUNTERS);
    let watermark = Watermark::new(slot, STACK..STACK + 0x200);
    let get = |ledger: &Ledger<Books>, counter: TaskCounter| ledger.get(slot + counter as u32, 0);
    // The second is below the stack, and the last one above.
    for sp in [STACK + 0x100, STACK - 4, STACK + 0x80, STACK + 0x180, STACK + 0x204] {
        watermark.note_stack_pointer(0, sp, &ledger);
    }
    assert_eq!(get(&ledger, TaskCounter::DeepestSp).wrapping_neg(), STACK + 0x80);
    assert_eq!(get(&ledger, TaskCounter::HighestSp), STACK + 0x180);
    // Paint counts from the stack's start to the first byte that has another value, or to the end of memory.
    for (paint, painted) in [
        (Paint::Guarded(0xdead_beef, 0x5a), 0x180),
        (Paint::Guarded(0xdead_beee, 0x5a), 0),
        (Paint::Byte(0x5a), 0),
        (Paint::Word(0xdead_beef), 4),
    ] {
        watermark.note_paint(paint, &mut guest, &ledger);
        assert_eq!(get(&ledger, TaskCounter::Painted), painted + 1, "{paint:?}");
    }
    guest.registers().unwrap().memory[0].1.fill(0x5a);
    watermark.note_paint(Paint::Byte(0x5a), &mut guest, &ledger);
    assert_eq!(get(&ledger, TaskCounter::Painted), 0x201);
    // A stack of unknown place has none.
    Watermark::new(slot, 0..0).note_paint(Paint::Byte(0x5a), &mut guest, &ledger);
    assert_eq!(get(&ledger, TaskCounter::Painted), 1);
}

#[test]
fn paint_is_a_byte_a_word_or_each_words_own_address() {
    let addresses: Vec<u8> = [0x2000_0100_u32, 0x2000_0104, 0x2000_0100].map(u32::to_le_bytes).concat();
    let long: Vec<u8> = [0x8000_0100_u64, 0x8000_0108].map(u64::to_le_bytes).concat();
    let words: Vec<u8> = [0xdead_beef_u32, 0xdead_beef, 0xdead_be00].map(u32::to_le_bytes).concat();
    for (paint, isa, stack, bytes, expected) in [
        (Paint::Byte(0xa5), Isa::Riscv32, 0x2000_0100, &vec![0xa5, 0xa5, 0xa5, 0, 0xa5], 3),
        (Paint::Word(0xdead_beef), Isa::Riscv32, 0x2000_0100, &words, 8),
        (Paint::OwnAddress, Isa::Riscv32, 0x2000_0100, &addresses, 8),
        (Paint::OwnAddress, Isa::Riscv32, 0x2000_0104, &addresses, 0),
        (Paint::OwnAddress, Isa::Riscv64, 0x8000_0100, &long, 16),
    ] {
        // Memory is read in pieces of 256 bytes.
        let bytes = [&bytes[..], &[0; 256]].concat();
        let request =
            Request { memory: only(stack..stack + bytes.len() as u64), ..request(isa, None, Measure::default()) };
        let mut guest = guest(&request, Fake { memory: vec![(stack, bytes)], ..Fake::default() });
        let mut ledger = ledger(1);
        let slot = ledger.new_slots(TASK_COUNTERS);
        Watermark::new(slot, stack..stack + 0x100).note_paint(paint, &mut guest, &ledger);
        assert_eq!(ledger.get(slot + TaskCounter::Painted as u32, 0), expected + 1, "{paint:?} {stack:x}");
    }
}

#[test]
fn records_are_written_once_and_in_order() {
    let mut ledger = ledger(2);
    ledger.note_level(20, 0x40);
    ledger.note_level(20, 0x40);
    ledger.note_level(20, 0x80);
    let levels: Vec<Definition> = [0x40, 0x80].map(|level| Definition::Priority { number: 20, level }).into();
    assert_eq!(ledger.records().definitions(), levels);
    for at_insns in [5, 9] {
        let sample = Sample { at_insns, ..Sample::default() };
        ledger.sample(&sample);
    }
    assert_eq!(ledger.records().word(Word::Samples), Some(2));
    let samples: Vec<Sample> =
        wire::sample::Decoder::new(ledger.records().stream(StreamFile::Samples)).map(Result::unwrap).collect();
    assert_eq!(samples.iter().map(|sample| sample.at_insns).collect::<Vec<_>>(), [5, 9]);
    // Generated code counts at the address of a counter.
    let slot = counter(&mut ledger, 0x100);
    assert_eq!(ledger.address(slot, 1), ledger.records().counter(slot, 1).as_ptr() as usize);
    ledger.set(slot, 1, 7);
    ledger.set(CLOCK, 1, 7);
    ledger.clear_counters();
    assert_eq!((ledger.get(slot, 1), ledger.get(CLOCK, 1)), (0, 7));
}
