// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns of a function's loop to its own first instruction are told from calls of it, even if a longjmp left the last
//! call and the next comes from the same place with the same stack. Returns are told from calls that were left.

use wire::timeline::What;

use crate::common::measured;

const IMAGES: [&str; 2] = ["riscv64-looped", "cortex-m3-looped"];

#[test]
fn each_call_is_one_and_each_return() {
    for image in IMAGES {
        for more in [&[][..], &["--oracle"], &["--from", "turns"], &["--trace", "*"]] {
            let measured = measured(image, &[&["--trace", "turns"], more].concat());
            measured.expect_code(0);
            let profile = measured.profile();
            let timeline = profile.timeline.as_ref().unwrap();
            let turns = profile.names.functions.iter().find(|function| function.name == "turns").unwrap().start;
            let number = timeline.functions.binary_search(&turns).unwrap() as u32;
            let (mut called, mut returned, mut left) = (0, 0, 0);
            for event in timeline.events() {
                match event.what {
                    What::Called { function } if function == number => called += 1,
                    What::Returned { function } if function == number => returned += 1,
                    What::Unwound { function } if function == number => left += 1,
                    _ => {}
                }
            }
            let table = harness::analysis::functions::table(profile);
            let calls = |name: &str| table.rows.iter().find(|row| row.name == name).unwrap().calls;
            assert_eq!(called, calls("turns"), "{image} {more:?}");
            let console = measured.console();
            let said: u64 = console.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap();
            assert!(said > 50 && calls("leave") > 20, "{image}: {console}");
            assert_eq!(returned, said, "{image} {more:?}");
            // A left call is noticed at the next call, and only if nothing else is traced that could be another
            // task's.
            if more.first() != Some(&"--trace") {
                assert!((calls("leave") - left) <= 1, "{image} {more:?}: {left}");
            }
        }
    }
}
