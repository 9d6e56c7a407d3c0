// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a kept answer is given only to the question that it answered.

use engine::code::Code;
use engine::recent::Recent;
use proptest::prelude::*;
use wire::request::{Isa, Measure};

use crate::fake::{config, request};

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_kept_answer_is_the_questions_own(questions in prop::collection::vec(0u64..64, 1..60)) {
        let recent = Recent::new(4);
        for question in questions {
            let hash = question % 8;
            if let Some(answer) = recent.get(hash, question) {
                prop_assert_eq!(answer, question * 3);
            }
            recent.keep(hash, question, question * 3);
            prop_assert_eq!(recent.get(hash, question), Some(question * 3));
        }
    }

    #[test]
    fn a_function_is_found_as_by_a_search(
        lengths in prop::collection::vec((0u64..0x4000, 0u64..0x9000), 1..12),
        addresses in prop::collection::vec((0usize..12, 0u64..4, 0u64..3), 1..80),
    ) {
        let mut functions = Vec::new();
        let mut start = 0x100;
        for (length, gap) in lengths {
            functions.push(start..start + length);
            start += length.max(1) + gap;
        }
        let measure = Measure { functions: functions.clone(), ..Measure::default() };
        let code = Code::new(&request(Isa::Riscv64, None, measure));
        for (function, far, near) in addresses {
            // Addresses that share slots, because their distance is a multiple of the number of slots.
            let address = functions[function % functions.len()].start + far * 0x2000 + near;
            let expected = functions.iter().rev().find(|range| range.start <= address);
            let expected = expected.filter(|range| range.contains(&address)).map(|range| range.start);
            prop_assert_eq!(code.function_of(address), expected);
            prop_assert_eq!(code.is_entry(address), functions.iter().any(|range| range.start == address));
        }
    }
}
