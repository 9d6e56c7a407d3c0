// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a stack that no kernel describes is found to have left its memory exactly if frames that follow on each
//! other are in more than one room. Chains of frames alone, and random ones against a map of bytes.

use std::ops::Range;

use engine::room::{Chain, Left, Move, Rooms};
use proptest::prelude::*;
use wire::request::{Isa, Measure};

use crate::fake::{config, request};

#[test]
fn a_blocks_moves_are_known_up_to_one_that_is_not() {
    let moves = Move::all([Some(0), Some(8), Some(16), Some(0), None, Some(4)].into_iter());
    assert_eq!(moves, [Move { index: 1, depth: 8 }, Move { index: 2, depth: 24 }]);
}

/// An array of 0x100 bytes, and variables behind it up to 0x1200, above which the main stack lies.
fn rooms() -> Rooms {
    rooms_of(&[0x1000..0x1100, 0x1100..0x1104, 0x1180..0x1200]).unwrap()
}

fn rooms_of(variables: &[Range<u64>]) -> Option<Rooms> {
    let measure = Measure { variables: variables.to_vec(), ..Measure::default() };
    Rooms::new(&request(Isa::Riscv32, None, measure))
}

fn left(frames: &[Range<u64>]) -> Option<Left> {
    let mut chain = Chain::default();
    frames.iter().all(|frame| chain.add(frame.clone(), &rooms())).then(|| chain.left())?
}

#[test]
fn a_byte_is_in_a_variable_or_between_two() {
    let rooms = rooms();
    for (byte, room) in [
        (0xfff, 0..0x1000),
        (0x1000, 0x1000..0x1100),
        (0x1103, 0x1100..0x1104),
        (0x1104, 0x1104..0x1180),
        (0x1200, 0x1200..u64::MAX),
    ] {
        assert_eq!(rooms.around(byte), room, "{byte:#x}");
    }
}

#[test]
fn a_stack_that_fills_its_room_to_the_last_byte_has_not_left_it() {
    assert_eq!(left(&[0x1200..0x1220, 0x1220..0x1220, 0x1220..0x2000]), None);
    assert_eq!(left(&[0x1000..0x1010, 0x1010..0x1100]), None, "a stack in an array");
}

#[test]
fn a_stack_has_left_its_room_within_a_frame_or_between_two() {
    let expected = Left { sp: 0x11f8, room: 0x1200..u64::MAX, top: 0x2000 };
    for frames in [[0x11f8..0x1208, 0x1208..0x2000], [0x11f8..0x1200, 0x1200..0x2000]] {
        assert_eq!(left(&frames), Some(expected.clone()), "{frames:?}");
    }
    // Through all variables, out of memory that has none.
    let through = left(&[0x800..0x1080, 0x1080..0x1190, 0x1190..0x1300]).unwrap();
    assert_eq!((through.sp, through.room.start), (0x800, 0x1200));
    // Out of an array.
    let array = left(&[0xff8..0x1008, 0x1008..0x1100]).unwrap();
    assert_eq!((array.room, array.top), (0x1000..0x1100, 0x1100));
}

#[test]
fn a_stack_meets_a_heap_that_ends_among_its_frames() {
    let mut chain = Chain::default();
    assert!(chain.add(0x1800..0x1900, &rooms()) && chain.add(0x1900..0x2000, &rooms()));
    for (heap_end, low) in [(0, None), (0x1200, None), (0x1800, None), (0x1808, Some(0x1808)), (0x2008, None)] {
        assert_eq!(chain.met(heap_end).map(|left| left.room.start), low, "{heap_end:#x}");
    }
}

#[test]
fn frames_on_two_stacks_are_no_stack_that_left_its_room() {
    assert_eq!(left(&[0x1010..0x1020, 0x1800..0x1820]), None);
    let mut chain = Chain::default();
    assert!(chain.add(0x1010..0x1020, &rooms()));
    assert!(!chain.add_saved(0x1020, 0x1800, &rooms()) && chain.left().is_none(), "the handler has its own stack");
}

/// Number of the room of each byte, by looking at each byte and each variable.
fn map_of(variables: &[Range<u64>]) -> Vec<usize> {
    let (mut map, mut room) = (Vec::new(), 0);
    for byte in 0..BYTES {
        let begins = variables.iter().any(|variable| variable.start == byte || variable.end == byte);
        room += usize::from(begins);
        map.push(room);
    }
    map
}

const BYTES: u64 = 64;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn stacks_leave_their_rooms_as_a_map_of_all_bytes_says(
        edges in prop::collection::btree_set(0..BYTES, 2..9),
        are_variables in prop::collection::vec(any::<bool>(), 8),
        start in 0..BYTES,
        sizes in prop::collection::vec(0..12_u64, 1..6),
    ) {
        let edges: Vec<u64> = edges.into_iter().collect();
        let between = edges.windows(2).map(|pair| pair[0]..pair[1]).zip(are_variables);
        let variables: Vec<Range<u64>> = between.filter(|(_, is_variable)| *is_variable).map(|(range, _)| range).collect();
        prop_assume!(!variables.is_empty());
        let (map, rooms) = (map_of(&variables), rooms_of(&variables).unwrap());
        for byte in 0..BYTES {
            let same: Vec<u64> = (0..BYTES).filter(|&other| map[other as usize] == map[byte as usize]).collect();
            let found = rooms.around(byte);
            prop_assert_eq!((found.start, found.end.min(BYTES)), (same[0], same[same.len() - 1] + 1));
        }
        let (mut chain, mut end) = (Chain::default(), start);
        for bytes in sizes {
            let frame = end..(end + bytes).min(BYTES);
            end = frame.end;
            prop_assert!(chain.add(frame, &rooms));
            let stack = &map[start as usize..end as usize];
            let is_left = stack.first() != stack.last();
            prop_assert_eq!(chain.left().is_some(), is_left);
            if let Some(left) = chain.left() {
                prop_assert_eq!((left.sp, left.top, left.room), (start, end, rooms.around(end - 1)));
            }
        }
    }
}

#[test]
fn without_variables_no_stack_is_judged() {
    assert!(rooms_of(&[]).is_none());
}
