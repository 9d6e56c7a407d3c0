// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors in the use of a heap are found, as often as they were made, with both places.

use harness::analysis::heap::{self, Wrong};
use harness::analysis::stacks::View;

use crate::common::measured;

const ARGS: [&str; 3] = ["--heap", "--heap-alloc", "pool_get(size=arg0)"];

#[test]
fn double_frees_and_frees_of_what_never_was_are_told_with_both_paths() {
    let measured = measured("cortex-m3-heap-wrong", &ARGS);
    let profile = measured.profile();
    let found = heap::replay(profile).unwrap();
    assert_eq!((found.double_frees, found.bad_frees, found.reissued), (4, 1, 0));
    let tree = heap::paths(profile, View::default());
    let called = |site: u32, name: &str| {
        tree.frames(tree.samples[site as usize - 1]).iter().any(|member| member.frame.name == name)
    };
    let doubles: Vec<_> = found.misuses.iter().filter(|misuse| misuse.wrong != Wrong::Never).collect();
    for misuse in &doubles[..3] {
        let Wrong::Double { first, first_at_insns } = misuse.wrong else { panic!("{misuse:?}") };
        assert!(called(misuse.site, "frees_again") && called(first, "frees"), "{misuse:?}");
        assert!(called(misuse.allocated.unwrap(), "twice") && first_at_insns < misuse.at_insns, "{misuse:?}");
    }
    assert!(called(doubles[3].site, "moves_what_is_gone"));
    let never = found.misuses.iter().find(|misuse| misuse.wrong == Wrong::Never).unwrap();
    assert!(called(never.site, "never") && never.allocated.is_none());
}

#[test]
fn what_went_wrong_before_the_window_is_none_of_its_own() {
    let args = [&ARGS[..], &["--from", "gives_up"]].concat();
    let found = heap::replay(measured("cortex-m3-heap-wrong", &args).profile()).unwrap();
    // The window has only one misuse: the resize of a block that was freed.
    assert_eq!((found.double_frees, found.bad_frees, found.misuses.len()), (1, 0, 1));
    assert!(found.total.left.blocks > 0);
}

#[test]
fn what_is_left_by_a_jump_is_no_allocation_and_what_happened_within_is_one() {
    let found = heap::replay(measured("cortex-m3-heap-wrong", &ARGS).profile()).unwrap();
    assert_eq!((found.total.left.blocks, found.total.left.bytes), (5, 500));
    // 3 blocks freed twice, 5 within a call that was left, 7 after it, 1 that was moved after its free, and its new
    // block.
    assert_eq!(found.total.allocated.blocks, 17);
    assert_eq!(found.total.leaked.blocks, 1);
}
