// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the problem matcher finds each failure and each warning of a suite, where it is, and nothing else, by the
//! rules of GitHub's runner and of VS Code (ci/viewers/matcher.mjs).

use serde_json::{Value, json};

use super::suite::{Suite, target};
use crate::common::viewer;

#[test]
#[ignore = "needs ci/setup --viewers"]
fn the_problem_matcher_finds_what_a_suite_says_where_it_is() {
    let suite = Suite::new(
        &[
            target("cortex-m3-bare", "assert = ['calls(\"crc32_table\") == 0', 'total == 1']"),
            target("riscv64-exit3", "console = [\"not: printed:1: error: x\"]"),
            target("cortex-m3-polling", "for = \"3M\""),
            target("riscv64-exit0", ""),
        ]
        .concat(),
    );
    let result = suite.run(&["--no-cache"]).expect_code(1);
    let output = suite.path("output");
    std::fs::write(&output, format!("{}{}", result.stdout, result.stderr)).unwrap();
    let matcher = concat!(env!("CARGO_MANIFEST_DIR"), "/../ci/problem-matcher.json");
    let found = viewer("matcher.mjs", &[matcher, output.to_str().unwrap()]);
    let report = result.report();
    let mut expected: Vec<Value> = Vec::new();
    for case in &report.cases {
        let mut expect = |severity: &str, place: Option<&(String, u32)>, message: &str| {
            let (file, line) = place.expect("it has a place");
            let message = format!("{}: {}", case.name, message.lines().next().unwrap());
            expected.push(json!({ "file": file, "line": line, "severity": severity, "message": message }));
        };
        case.warnings.iter().for_each(|warning| expect("warning", case.place.as_ref(), warning));
        case.failures().for_each(|finding| expect("error", case.place_of(finding), &finding.message));
    }
    assert_eq!(expected.len(), 5, "{expected:?}");
    assert!(expected.iter().any(|problem| problem["file"].as_str().unwrap().ends_with("crc.c")), "{expected:?}");
    assert_eq!(found, Value::Array(expected));
}
