// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise of calls that are zones: each of ztest's test cases has a row, without a change of the test's source, and
//! any function's calls have, with the numbers that the exact tree and a callback per instruction give.

use std::collections::BTreeMap;

use harness::analysis::zone::{Row, table};
use harness::profile::{Profile, SpanKind};
use harness::text::number::group;
use tempfile::TempDir;

use crate::common::{Run, harness, image, refused, run};

/// Rows of calls: times, instructions of the own thread, instructions of all, and times without a return.
fn calls(profile: &Profile) -> BTreeMap<String, [u64; 4]> {
    let row =
        |Row { name, all, .. }: Row| (name, [all.calls, all.total_insns, all.elapsed_insns, all.left + all.open]);
    table(profile).into_iter().filter(|row| row.is_call).map(row).collect()
}

/// Sum of the exact calls of a function.
fn exact_sum(profile: &Profile, name: &str) -> u64 {
    let function = profile.names.functions.iter().find(|function| function.name == name).unwrap();
    let kind = SpanKind::Call { entry: function.start };
    profile.spans.iter().find(|span| span.kind == kind).map_or(0, |span| span.sum_insns)
}

#[test]
fn each_test_case_of_ztest_is_a_row_and_the_oracle_counts_the_same() {
    const CASES: [&str; 6] = [
        "list.test_order",
        "list.test_put",
        "list.test_tree",
        "queue.test_fails",
        "queue.test_put",
        "queue.test_worker",
    ];
    const OLD_CASES: [&str; 5] = ["test_fails", "test_order", "test_put", "test_tree", "test_worker"];
    for (image, cases) in [
        ("riscv64-ztest", &CASES[..]),
        ("cortex-m3-ztest", &CASES),
        ("riscv64-ztest-old", &OLD_CASES),
        ("cortex-m3-ztest-old", &OLD_CASES),
    ] {
        let plain = run(image, &["--period", "97"]);
        let found = calls(&plain.profile());
        assert_eq!(found.keys().collect::<Vec<_>>(), cases, "{image}");
        for how in [&["--exact"][..], &["--timeline", "--trace", "test_cb"], &["--no-stacks"]] {
            assert_eq!(calls(&run(image, how).profile()), found, "{image} {how:?}");
        }
        // The oracle notices a handler's return on Arm when something asks for it, so that its tasks have less.
        let oracle = calls(&run(image, &["--oracle"]).profile());
        let without_own = |found: &BTreeMap<String, [u64; 4]>| {
            found
                .iter()
                .map(|(name, [times, _, all, left])| (name.clone(), [*times, *all, *left]))
                .collect::<Vec<_>>()
        };
        assert_eq!(without_own(&oracle), without_own(&found), "{image}");
        assert!(oracle == found || image.starts_with("cortex-m3"), "{image}: {oracle:?}");
        for (case, [times, own, elapsed, left]) in &found {
            let runs = if case == "test_put" { 4 } else { 2 };
            let fails = case.ends_with("test_fails");
            assert_eq!((*times, *left), if fails { (0, runs) } else { (runs, 0) }, "{image} {case}");
            assert!(own <= elapsed && (fails || *own > 0), "{image} {case}");
        }
        let printed = plain.console().matches("PASS").count() as u64;
        assert_eq!(found.values().map(|[times, ..]| times).sum::<u64>(), printed, "{image}");
        assert!(plain.stdout.contains("\nCall "), "{image}: {}", plain.stdout);
    }
}

#[test]
fn a_test_case_has_what_other_threads_do_for_it_beside_its_own_instructions() {
    let profile = run("cortex-m3-ztest", &["--exact"]).profile();
    let found = calls(&profile);
    let [_, own, elapsed, _] = found["queue.test_worker"];
    assert!(elapsed > 3 * own, "{own} of {elapsed}: a worker thread does most of it");
    // All of the case's instructions are the exact ones of its function, where it returns.
    assert_eq!(found.values().map(|[_, own, ..]| own).sum::<u64>(), exact_sum(&profile, "test_cb"));
}

#[test]
fn any_function_is_a_zone_by_its_own_name_by_a_text_or_by_a_member() {
    let profile = run("riscv64-bare", &["--exact", "--zone-call", "crc32_table"]).profile();
    let [times, own, ..] = calls(&profile)["crc32_table"];
    let function = profile.names.functions.iter().find(|function| function.name == "crc32_table").unwrap();
    let kind = SpanKind::Call { entry: function.start };
    let span = profile.spans.iter().find(|span| span.kind == kind).unwrap();
    assert_eq!((times, own), (span.count, span.sum_insns));

    let by_text = calls(&run("cortex-m3-ztest", &["--zone-call", "print(arg0)"]).profile());
    assert_eq!(by_text["START - %s\n"][0], 12);
    assert!(by_text.contains_key("list.test_put"), "ztest's cases are rows beside the others: {by_text:?}");
    // A rule for ztest's own function comes before the one that is known of it.
    for rule in ["test_cb(arg1->ztest_unit_test.name)", "test_cb(arg1->4)", "test_cb(r1->4)"] {
        let by_member = calls(&run("cortex-m3-ztest", &["--zone-call", rule]).profile());
        assert_eq!(by_member["test_put"][0], 4, "{rule}: {by_member:?}");
    }
    // What cannot be read gives the function's name.
    let unreadable = calls(&run("cortex-m3-ztest", &["--zone-call", "test_cb(arg2->0->4)"]).profile());
    assert_eq!(unreadable.into_keys().collect::<Vec<_>>(), ["test_cb"]);
}

#[test]
fn a_rule_that_names_nothing_is_refused_with_what_to_write() {
    for (rule, expected) in [
        ("tset_cb(arg0)", ["no function is called `tset_cb`", "test_cb"]),
        ("test_cb(arg1->ztest_unit_test.title)", ["no structure `ztest_unit_test` with a member `title`", "arg0->4"]),
        ("test_cb(a1)", ["column 9", "Arm has no register a1"]),
        ("test_cb(arg1->)", ["column 15", "write a member here"]),
        ("test_cb(4)", ["column 9", "a text is where a register points"]),
        ("test_cb(arg1", ["column 13", "the closing `)` is missing"]),
    ] {
        refused("cortex-m3-ztest", &["--zone-call", rule], &expected);
    }
}

#[test]
fn a_suite_names_such_calls_and_asserts_what_they_take() {
    let dir = TempDir::new().unwrap();
    let suite = |assertion: &str| {
        let elf = image("riscv64-ztest");
        let text = format!(
            "[[image]]\nelf = {elf:?}\nzone-calls = [\"test_order\"]\nassert = ['zone_calls(\"test_order\") == 4', \
             '{assertion}']\n"
        );
        std::fs::write(dir.path().join("harness.toml"), text).unwrap();
        let output = harness().args(["test", "-o", "report"]).current_dir(dir.path()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(suite("zone_elapsed(\"queue.test_worker\") > 30k").0, Some(0));
    let (code, said) = suite("zone_elapsed(\"queue.test_worker\") < 30k");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("zone_elapsed(\"queue.test_worker\") < 30k does not hold"), "{said}");
}

#[test]
fn two_runs_are_compared_by_test_case_in_markdown() {
    let [before, after] = ["riscv64-ztest", "riscv64-ztest-old"].map(|image| run(image, &[]));
    let profile = |run: &Run| run.dir.display().to_string();
    let diff = |after: &Run| {
        let output = harness().args(["diff", &profile(&before), &profile(after), "--markdown"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let same = diff(&before);
    let elapsed = |name: &str| group(calls(&before.profile())[name][2]);
    let row = format!("| `queue.test_put` | {0} | {0} |  |", elapsed("queue.test_put"));
    assert!(same.contains(&row), "{same}");
    let other = diff(&after);
    assert!(other.contains("| `queue.test_put` | ") && other.contains("*vanished*"), "{other}");
    assert!(other.contains("| `test_put` | - | ") && other.contains("*new*"), "{other}");
    assert!(other.contains("| Function | Own before | Own after |"), "{other}");
}
