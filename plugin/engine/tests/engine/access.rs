// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polls are told from other reads, and rows are bounded.

use engine::access::Accesses;
use wire::chip::{ACCESS_ROWS, Access, MAX_POLL_INSNS, OTHERS};

const SR: u64 = 0x4000_4400;

/// Reads at instructions, with values.
fn reads(of: &[(u64, u64)]) -> Access {
    let mut accesses = Accesses::default();
    of.iter().map(|&(insns, value)| accesses.read(0x100, SR, value, insns).1).last().expect("some")
}

#[test]
fn a_poll_begins_at_the_second_equal_read_and_ends_with_the_first_other_value() {
    let row = reads(&[(10, 0x40), (14, 0x40), (18, 0x40), (22, 0xc0), (26, 0x40)]);
    let expected = Access {
        address: SR,
        pc: 0x100,
        reads: 5,
        writes: 0,
        first_insns: 10,
        last_insns: 26,
        polls: 3,
        poll_insns: 12,
        ending_bits: 0x80,
    };
    assert_eq!(row, expected);
}

#[test]
fn reads_of_ever_other_values_and_reads_far_apart_are_no_polls() {
    assert_eq!(reads(&[(1, 1), (2, 2), (3, 3)]).polls, 0);
    assert_eq!(reads(&[(1, 1), (2 + MAX_POLL_INSNS, 1)]).polls, 0);
    assert_eq!(reads(&[(1, 1), (1 + MAX_POLL_INSNS, 1)]).poll_insns, MAX_POLL_INSNS);
}

#[test]
fn another_access_in_between_ends_a_poll() {
    let mut accesses = Accesses::default();
    accesses.read(0x100, SR, 0, 1);
    accesses.write(0x200, SR + 4, 2);
    assert_eq!(accesses.read(0x100, SR, 0, 3).1.polls, 0);
    accesses.read(0x104, SR, 0, 4);
    assert_eq!(accesses.read(0x100, SR, 0, 5).1.polls, 0);
    assert_eq!(accesses.read(0x100, SR, 0, 6).1.polls, 1);
}

#[test]
fn a_byte_of_a_register_belongs_to_its_word() {
    let mut accesses = Accesses::default();
    for (insns, value) in [(1, 0), (2, 0), (3, 1)] {
        accesses.read(0x100, SR + 1, value, insns);
    }
    let (_, row) = accesses.write(0x100, SR + 2, 4);
    assert_eq!((row.address, row.reads, row.writes, row.ending_bits), (SR, 3, 1, 0x100));
}

#[test]
fn more_rows_than_there_is_room_for_are_counted_in_the_last_one() {
    let mut accesses = Accesses::default();
    for pc in 0..ACCESS_ROWS as u64 + 10 {
        accesses.write(pc * 2, SR, pc);
    }
    let (row, others) = accesses.read(0x9999_0000, SR, 1, 20_000);
    assert_eq!((row, others.address, others.writes, others.reads), (ACCESS_ROWS - 1, OTHERS, 11, 1));
    assert_eq!(accesses.restart(), ACCESS_ROWS);
    assert_eq!(accesses.write(2, SR, 1).0, 0);
}
