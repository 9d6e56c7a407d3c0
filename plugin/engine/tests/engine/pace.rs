// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the clock has the time of the cycles, and is moved only where control turns, however QEMU divides the code
//! into blocks.

use engine::block::{Block, Blocks};
use engine::pace::{Pace, Turns};
use wire::request;

#[test]
fn the_clock_has_the_time_of_the_cycles_to_a_share_of_an_instruction_and_never_goes_back() {
    // A cycle takes 62.5 ns, and an instruction's share is 32 ns.
    let rate = request::Pace::of(16_000_000).unwrap();
    assert_eq!(rate.insn_shift, 5);
    let mut pace = Pace::new(rate);
    let (mut cycles, mut moved) = (0, 0);
    for insns in 1..1000 {
        cycles += 1 + insns % 3;
        moved += pace.move_on(cycles, insns);
        let now_ns = (insns + moved) * 32;
        let right_ns = cycles * 125 / 2;
        assert!((now_ns..now_ns + 32).contains(&right_ns), "{insns}");
        assert_eq!(pace.ahead_ns(), moved * 32);
    }
    assert_eq!(pace.move_on(cycles, 1001), 0, "fewer cycles than were thought");
    assert_eq!(pace.move_on(cycles, 999), 0);
    assert_eq!(pace.ahead_ns(), moved * 32);
    assert_eq!(pace.ns(1000), (1000 + moved) * 32);
}

#[test]
fn control_turns_behind_a_jump_that_has_started_and_where_the_next_block_is_elsewhere() {
    let mut blocks = Blocks::default();
    let mut block = |pc, sizes: &[u8]| {
        // Blocks are told apart by their counters.
        let segments = [(pc as u32, sizes.len() as u32)].into();
        blocks.number(Block { pc, function: None, sizes: sizes.into(), segments, exits: Box::default() })
    };
    let (first, behind, within, handler) =
        (block(0x10, &[2, 4, 2]), block(0x18, &[2]), block(0x16, &[2]), block(0x40, &[2, 2]));
    let turns = |path: &[(usize, bool, u64)]| {
        let (mut turns, mut insns) = (Turns::default(), 0);
        let begin = |&(block, may_jump, started): &(usize, bool, u64)| {
            let is_turn = turns.begin(block, may_jump, insns, &blocks);
            insns += started;
            is_turn
        };
        path.iter().map(begin).collect::<Vec<_>>()
    };
    assert_eq!(turns(&[(first, false, 3), (behind, false, 1)]), [false; 2], "straight on");
    assert_eq!(turns(&[(first, true, 3), (behind, false, 1)]), [false, true], "a branch that is not taken");
    assert_eq!(turns(&[(first, true, 2), (within, true, 1), (behind, false, 1)]), [false, false, true], "left early");
    assert_eq!(turns(&[(first, true, 3), (first, true, 3)]), [false, true], "a loop");
    assert_eq!(turns(&[(first, false, 2), (handler, true, 0), (handler, true, 2)]), [false, true, false]);
    // The last instruction before the handler starts again: so the handler's block has all of its own.
    let mut turns = Turns::default();
    turns.begin(first, false, 0, &blocks);
    assert!(turns.begin(handler, false, 2, &blocks));
    turns.unstart();
    assert!(!turns.begin(block_behind(&mut blocks), false, 3, &blocks), "it is the one behind the handler's two");
}

fn block_behind(blocks: &mut Blocks) -> usize {
    let segments = [(0x44, 1)].into();
    blocks.number(Block { pc: 0x44, function: None, sizes: [2].into(), segments, exits: Box::default() })
}
