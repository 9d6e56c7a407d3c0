// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: heaptrack_print and ms_print show the same numbers of an export as `harness heap` of the profile.

use std::fs;

use harness::analysis::heap;

use crate::common::{run, tools};

const IMAGES: [&str; 2] = ["riscv64-heap", "cortex-m3-heap-picolibc"];

#[test]
#[ignore = "needs ci/setup --viewers"]
fn heaptrack_print_counts_the_same() {
    for image in IMAGES {
        let run = run(image, &["--heap"]).expect_code(0);
        let found = heap::replay(&run.profile()).unwrap();
        let file = run.dir.with_extension("heaptrack");
        fs::write(&file, tools::export(&run.dir, "heaptrack", &[])).unwrap();
        let mut print = tools::system("heaptrack_print");
        let text = tools::stdout(print.args(["--print-peaks", "1", "--print-leaks", "1", "-f"]).arg(&file));
        let calls = text.lines().find_map(|line| line.strip_prefix("calls to allocation functions: ")).unwrap();
        assert_eq!(calls.split(' ').next().unwrap(), found.total.allocated.blocks.to_string(), "{image}:\n{text}");
        let number = |title: &str| {
            let line =
                text.lines().find_map(|line| line.strip_prefix(title)).unwrap_or_else(|| panic!("{title}: {text}"));
            let number = line.split_whitespace().next().unwrap();
            let (digits, scale) = match number.strip_suffix('B').unwrap_or(number) {
                number if number.ends_with('K') => (number.trim_end_matches('K'), 1000.0),
                number => (number, 1.0),
            };
            digits.parse::<f64>().unwrap() * scale
        };
        // The tool writes two digits.
        for (title, bytes) in
            [("peak heap memory consumption: ", found.peak.bytes), ("total memory leaked: ", found.at_end.bytes)]
        {
            assert!((number(title) - bytes as f64).abs() <= 10.0, "{image} {title} {bytes}:\n{text}");
        }
        assert!(text.contains("mixed") && text.contains("main"), "{text}");
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn ms_print_shows_the_peak_and_who_held_it() {
    for image in IMAGES {
        let run = run(image, &["--heap"]).expect_code(0);
        let found = heap::replay(&run.profile()).unwrap();
        let file = run.dir.with_extension("massif");
        fs::write(&file, tools::export(&run.dir, "massif", &[])).unwrap();
        let text = tools::stdout(tools::system("ms_print").args(["--threshold=0"]).arg(&file));
        let grouped = harness::text::number::group(found.peak.bytes);
        assert!(text.contains("(peak)") && text.contains(&grouped), "{image}: {grouped}\n{text}");
        assert!(text.contains("->") && text.contains(": main") && text.contains(": mixed"), "{image}:\n{text}");
    }
}

#[test]
fn json_has_the_sums_and_every_path() {
    let run = run(IMAGES[0], &["--heap"]).expect_code(0);
    let found = heap::replay(&run.profile()).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&tools::export(&run.dir, "json", &[])).unwrap();
    assert_eq!(json["heap"]["peak"]["bytes"], found.peak.bytes);
    assert_eq!(json["heap"]["paths"].as_array().unwrap().len(), found.sites.len());
    let sum = |key: &str| {
        let paths = json["heap"]["paths"].as_array().unwrap();
        paths.iter().map(|path| path[key]["bytes"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((sum("leaked"), sum("allocated")), (found.total.leaked.bytes, found.total.allocated.bytes));
    let without = crate::common::run(IMAGES[0], &[]);
    let json: serde_json::Value = serde_json::from_slice(&tools::export(&without.dir, "json", &[])).unwrap();
    assert!(json["heap"].is_null());
}
