// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise of `harness report REPORTS`: a suite of a thousand images as a page that shows what failed first, in groups and
//! with filters, and for which every name is text.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::common::viewer;

/// An image's result.
fn case(name: &str, insns: u64, before: Option<u64>, failures: &[(&str, &str)]) -> Value {
    let findings = failures.iter().map(|(kind, message)| {
        json!({ "kind": kind, "passed": false, "expected": "", "actual": "", "message": message, "place": ["harness.toml", 7] })
    });
    let functions = json!([{ "name": "crc32", "plain_name": "crc32", "self_insns": { "before": 5, "after": 25 },
        "inclusive_insns": {}, "calls": {}, "fate": "Stays" }]);
    json!({
        "name": name, "tags": [], "place": null, "exit_code": if failures.is_empty() { 0 } else { 3 }, "end": "exit 0",
        "run": { "image": "fw.elf", "image_sha256": "", "qemu": "10.0.2", "machine": "virt", "insns": insns, "samples": 1,
            "virtual_ns": 1 },
        "findings": findings.collect::<Vec<_>>(),
        "comparison": before.map(|before| json!({ "total_insns": { "before": before, "after": insns },
            "explanation": "total +20: crc32 +20", "mismatches": [], "functions": functions, "tasks": [] })),
        "warnings": [], "messages": [], "repeat": format!("harness test -f 'name(={name})'"), "accept": null, "at": null,
        "profile": null, "picture": null,
        "console_tail": if failures.is_empty() { json!([]) } else { json!(["boot", "<b>panic</b>"]) },
    })
}

fn result(cases: Vec<Value>) -> Value {
    let names: Vec<Value> = cases.iter().map(|case| case["name"].clone()).collect();
    json!({ "format": "harness-report", "version": 2, "harness_version": "0.1.0", "suite": "fleet", "baseline": "main",
        "revision": { "commit": "abc123", "time_seconds": null }, "chosen": names, "cases": cases })
}

fn page(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_harness")).arg("report").args(words).current_dir(dir).output().unwrap()
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn a_thousand_images_are_a_page_with_what_failed_first_groups_and_filters() {
    let mut cases: Vec<Value> =
        (0..1000).map(|at| case(&format!("image-{at:04}"), 1000 + at, Some(1000 + at), &[])).collect();
    for case in &mut cases[..100] {
        case["tags"] = json!(["slow"]);
    }
    cases[7] = case("image-0007", 1020, Some(1000), &[]);
    cases[500] = case(
        "image-0500",
        120,
        Some(100),
        &[("Threshold", "total +20.00 %, over +5 %"), ("Ending", "it ended late")],
    );
    cases[900] = case("image-0900", 70, None, &[("Ending", "HardFault in uart_irq\nat uart.c:31")]);
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("report.json"), result(cases).to_string()).unwrap();
    // The directory of the reports, and the file.
    let output = page(temp.path(), &[".", "-o", "page.html"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let bytes = fs::read(temp.path().join("page.html")).unwrap();
    assert_eq!(page(temp.path(), &["report.json", "-o", "-"]).stdout, bytes);
    assert!(bytes.len() < 1 << 20, "{} bytes", bytes.len());

    let seen = &viewer("suite.mjs", &[temp.path().join("page.html").to_str().unwrap()]);
    assert_eq!(seen["light"], seen["dark"]);
    let seen = &seen["light"];
    assert_eq!(seen["verdict"], "fleet: 998 of 1,000 images passed");
    assert_eq!(seen["title"], seen["verdict"]);
    let insns: u64 = (0..1000).map(|at| 1000 + at).sum::<u64>() - 1007 - 1500 - 1900 + 1020 + 120 + 70;
    let millions = format!("{},{:03},{:03}", insns / 1_000_000, insns / 1000 % 1000, insns % 1000);
    assert_eq!(
        seen["headline"],
        format!("{millions} instructions \u{b7} revision abc123 \u{b7} compared with the baseline main")
    );
    assert_eq!(seen["groups"], json!(["all1,000", "failed2", "end2", "threshold1", "changed2", "tag slow99"]));
    let failed = json!([
        ["\u{2717}", "image-0500", "120", "+20.00 %", "total +20.00 %, over +5 % (and 1 more)"],
        ["\u{2717}", "image-0900", "70", "", "HardFault in uart_irq"],
    ]);
    assert_eq!(seen["first"], failed, "the page opens with what failed");
    assert_eq!(seen["all"].as_array().unwrap().len(), 400);
    assert_eq!(seen["all"][2][1], "image-0000");
    assert_eq!(seen["more"], "600 more rows: search for them.");
    assert_eq!((&seen["changed"][0][1], &seen["changed"][1][1]), (&json!("image-0500"), &json!("image-0007")));
    assert_eq!(seen["changed"][1][3], "+2.00 %");
    let details = seen["details"].to_string();
    for text in [
        "threshold: total +20.00 %, over +5 % at harness.toml:7",
        "again: harness test -f",
        "boot\\n<b>panic</b>",
        "+400.00 %",
    ] {
        assert!(details.contains(text), "{details}");
    }
    assert_eq!(seen["found"], json!([seen["all"][399][1]]));
    assert_eq!((&seen["scripts"], &seen["images"]), (&json!(2), &json!(0)));
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn names_from_a_report_are_text() {
    let hostile = "</script><img src=x onerror=alert(1)>\u{202e}\u{1b}[31m";
    let mut bad = case(hostile, 20, Some(10), &[("Console", hostile)]);
    bad["tags"] = json!([hostile]);
    bad["console_tail"] = json!([hostile]);
    bad["comparison"]["functions"][0]["name"] = json!(hostile);
    let mut result = result(vec![bad, case("b", 1, Some(2), &[("Run", "no such file")])]);
    result["suite"] = json!(hostile);
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("report.json"), result.to_string()).unwrap();
    assert_eq!(page(temp.path(), &["report.json", "-o", "page.html"]).status.code(), Some(0));
    let text = fs::read_to_string(temp.path().join("page.html")).unwrap();
    assert_eq!(text.matches("<script").count(), 2);
    let seen = &viewer("suite.mjs", &[temp.path().join("page.html").to_str().unwrap()])["dark"];
    assert_eq!((&seen["scripts"], &seen["images"]), (&json!(2), &json!(0)));
    assert!(seen["verdict"].as_str().unwrap().contains("<img src=x"), "{}", seen["verdict"]);
}

#[test]
fn what_is_no_result_of_a_suite_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("report.json"), result(vec![case("a", 1, None, &[])]).to_string()).unwrap();
    fs::write(temp.path().join("other.json"), "{}").unwrap();
    for (words, what) in [
        (&["other.json"][..], "it is not a report of harness test"),
        (&["missing.json"], "cannot read the report missing.json"),
        (&[".", "--before", "x.profile"], "--before, --fold-irqs and --source-map are for profiles"),
    ] {
        let output = page(temp.path(), words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(what), "{stderr}");
        let names = fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap().path());
        assert!(names.into_iter().all(|path| path.extension().is_none_or(|ending| ending != "html")));
    }
}
