// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promises of `harness history`: each number's trend over commits, each change as a step at its commit, limits as they
//! were; and no report, however it was made, does more than end the command with exit code 2.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::suite::{Suite, entry};
use crate::common::{self, image, viewer};

/// Folder of reports.
struct Results(TempDir);

/// Outcome of `harness history`.
struct Shown {
    code: i32,
    stdout: String,
    stderr: String,
}

/// A report of one image, as a commit at a time; `total` is its number.
fn report(commit: Option<&str>, time_seconds: Option<i64>, total: u64) -> Value {
    let revision = commit.map(|commit| json!({ "commit": commit, "time_seconds": time_seconds }));
    json!({
        "format": "harness-report", "version": 2, "harness_version": "0.1.0", "suite": "s", "revision": revision,
        "cases": [case("fw", total)],
    })
}

fn case(name: &str, total: u64) -> Value {
    json!({
        "name": name,
        "run": { "image_sha256": total.to_string(), "qemu": "10.0.2", "machine": "virt", "insns": total },
        "findings": [{ "kind": "Ending", "passed": true }],
        "numbers": { "total": { "": total }, "self": { "work": total - 10, "main": 10 } },
        "limits": [],
    })
}

impl Results {
    fn new(reports: &[(&str, Value)]) -> Results {
        let results = Results(tempfile::tempdir().unwrap());
        for (name, report) in reports {
            results.write(&format!("{name}/report.json"), report.to_string().as_bytes());
        }
        results
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.0.path().join("r").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn show(&self, args: &[&str]) -> Shown {
        let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
        let output = command.current_dir(self.0.path()).args(["history", "r"]).args(args).output().unwrap();
        Shown {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn json(&self, args: &[&str]) -> Value {
        let shown = self.show(&[args, &["--json"]].concat());
        assert_eq!((shown.code, &*shown.stderr), (0, ""), "{}", shown.stdout);
        serde_json::from_str(&shown.stdout).unwrap()
    }
}

/// Names of the commits.
fn names(document: &Value) -> Vec<&str> {
    document["commits"].as_array().unwrap().iter().map(|commit| commit["name"].as_str().unwrap()).collect()
}

/// The series of a number.
fn series<'a>(document: &'a Value, metric: &str, subject: &str) -> &'a Value {
    let all = document["images"][0]["series"].as_array().unwrap();
    all.iter().find(|series| series["metric"] == metric && series["subject"] == subject).unwrap()
}

/// Puts an image into a suite, runs it as a commit, and keeps its report.
fn commit(suite: &Suite, elf: &str, name: &str, args: &[&str], code: i32) -> String {
    fs::copy(image(elf), suite.path("fw.elf")).unwrap();
    let report = format!("r/{name}");
    let stated = ["--revision", name, "-o", &report];
    suite.run(&[args, &stated].concat()).expect_code(code);
    fs::read_to_string(suite.path(&report).join("report.json")).unwrap()
}

#[test]
fn a_step_is_found_at_its_commit_with_the_functions_that_account_for_it() {
    let suite = Suite::new("");
    fs::copy(image("riscv64-nested"), suite.path("fw.elf")).unwrap();
    let limits = "exit = \"any\"\n[image.thresholds]\ntotal = \"1%\"\n";
    suite.write(&format!("baseline = \"main\"\n{}", entry(&suite.path("fw.elf"), limits)));
    suite.run(&["--save-baseline", "main", "-o", "first"]).expect_code(0);
    let one = commit(&suite, "riscv64-nested", "one", &[], 0);
    commit(&suite, "riscv64-nested", "two", &[], 0);
    commit(&suite, "riscv64-calls-pg", "three", &[], 3);
    // The same commit gives the same bytes.
    assert_eq!(commit(&suite, "riscv64-nested", "one", &["--no-cache"], 0), one);

    let run = |args: &[&str]| {
        let output = common::harness().current_dir(suite.path("")).arg("history").args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let reports = ["r/one", "r/two", "r/three"];
    let document: Value = serde_json::from_str(&run(&[&reports[..], &["--json"]].concat())).unwrap();
    assert_eq!((names(&document), &document["order"]), (vec!["one", "two", "three"], &json!("given")));
    let total = series(&document, "total", "");
    let values: Vec<u64> =
        total["points"].as_array().unwrap().iter().map(|point| point[1].as_u64().unwrap()).collect();
    assert!(values[0] == values[1] && values[1] < values[2], "{values:?}");
    let step = &total["steps"][0];
    assert_eq!(total["steps"].as_array().unwrap().len(), 1);
    let expected = [&json!(2), &json!(1), &json!(values[1]), &json!(values[2])];
    assert_eq!(["at", "since", "before", "after"].map(|key| &step[key]), expected);
    // The functions' own changes add up to the total's.
    let all = document["images"][0]["series"].as_array().unwrap().iter().filter(|series| series["metric"] == "self");
    let steps = all.flat_map(|series| series["steps"].as_array().unwrap());
    let sum: i64 = steps.map(|step| step["after"].as_i64().unwrap() - step["before"].as_i64().unwrap()).sum();
    assert_eq!(sum, i64::try_from(values[2] - values[1]).unwrap());
    let largest = step["causes"][0].as_str().unwrap().split(' ').next().unwrap();
    assert!(series(&document, "self", largest)["steps"][0]["at"] == 2, "{largest}");
    let limit = json!({ "text": "1 %", "bound": values[0] + values[0] / 100, "is_floor": false, "crossed": true });
    assert_eq!(total["limit"], limit);
    // Table and Markdown say the same.
    let table = run(&reports);
    assert!(table.contains("3 reports of 3 commits, one to three, in the order given"), "{table}");
    assert!(table.contains(" at three ") && table.contains(", crossed") && table.contains(largest), "{table}");
    let markdown = run(&[&reports[..], &["--markdown"]].concat());
    assert!(markdown.contains("| `three` | `fw` | `total` | +"), "{markdown}");
}

#[test]
fn the_commit_is_the_pipelines_and_goes_through_a_merge() {
    let suite = Suite::new(&entry(&fs::canonicalize(image("riscv64-exit0")).unwrap(), "name = \"a\""));
    let mut command = suite.command(&["-o", "part"]);
    command.env("CI_COMMIT_SHA", "0123abcd").env("CI_COMMIT_TIMESTAMP", "2026-01-31T16:47:55+01:00");
    assert!(command.output().unwrap().status.success());
    let merged = common::harness().current_dir(suite.path("")).args(["merge", "part", "-o", "r"]).output().unwrap();
    assert!(merged.status.success());
    let report: Value = serde_json::from_slice(&fs::read(suite.path("r/report.json")).unwrap()).unwrap();
    assert_eq!(report["revision"], json!({ "commit": "0123abcd", "time_seconds": 1_769_874_475 }));
    let refused = suite.run(&["--revision", "a b"]).expect_code(2);
    assert!(refused.stderr.contains("--revision: \"a b\" cannot be a commit"), "{}", refused.stderr);
}

#[test]
fn commits_are_ordered_by_their_times_or_else_as_given() {
    let names_of = |reports: &[(&str, Value)]| {
        let document = Results::new(reports).json(&[]);
        let names: Vec<String> = names(&document).into_iter().map(str::to_owned).collect();
        (names.join(" "), document["order"].as_str().unwrap().to_owned())
    };
    let by_time = [
        ("1", report(Some("c"), Some(300), 30)),
        ("2", report(Some("a"), Some(100), 30)),
        ("10", report(Some("b"), Some(200), 30)),
    ];
    assert_eq!(names_of(&by_time), ("a b c".to_owned(), "time".to_owned()));
    let one_without = [&by_time[..], &[("9", report(Some("d"), None, 30))]].concat();
    // Folders are in the order of their names, in which numbers are numbers.
    assert_eq!(names_of(&one_without), ("c a d b".to_owned(), "given".to_owned()));
    // Reports of one commit are one column, such as those of shards; without a commit, each is one.
    let mut shard = report(Some("a"), Some(100), 30);
    shard["cases"] = json!([case("other", 50)]);
    let results = Results::new(&[("1", by_time[1].1.clone()), ("2", shard), ("3", report(None, None, 31))]);
    let document = results.json(&[]);
    assert_eq!(names(&document), ["a", "r/3/report.json"]);
    assert_eq!(document["images"].as_array().unwrap().len(), 2);
    assert!(document["notes"][0].as_str().unwrap().contains("1 report without a commit"), "{}", document["notes"]);
    // Two reports of one commit that differ are said.
    let differing = Results::new(&[("1", report(Some("a"), None, 30)), ("2", report(Some("a"), None, 31))]);
    let document = differing.json(&[]);
    assert_eq!(document["notes"], json!(["two reports of a differ in fw: the later one counts"]));
    assert_eq!(series(&document, "total", "")["points"], json!([[0, 31]]));
}

#[test]
fn runs_that_did_not_end_as_expected_make_no_step() {
    let mut bad = report(Some("b"), None, 15);
    bad["cases"][0]["findings"] = json!([{ "kind": "Ending", "passed": false }]);
    let mut absent = report(Some("c"), None, 15);
    absent["cases"][0]["run"] = Value::Null;
    absent["cases"][0]["numbers"] = json!({});
    let reports = [("1", report(Some("a"), None, 30)), ("2", bad), ("3", absent), ("4", report(Some("d"), None, 40))];
    let results = Results::new(&reports);
    let document = results.json(&[]);
    let total = series(&document, "total", "");
    assert_eq!(total["points"], json!([[0, 30], [1, 15], [3, 40]]));
    let step = &total["steps"][0];
    assert_eq!((&step["at"], &step["since"]), (&json!(3), &json!(0)));
    let table = results.show(&[]).stdout;
    assert!(table.contains("total +33.33 % (30 → 40), at one of the 3 commits after a; work +10"), "{table}");
    // Steps may be too small to count, and numbers and images be chosen.
    assert!(results.show(&["--min-step", "60%"]).stdout.contains("no step in 2 runs"));
    let only = results.json(&["--metric", "self(\"ma*\")", "-f", "name(f*)"]);
    assert_eq!(only["images"][0]["series"].as_array().unwrap().len(), 1);
    for (args, what) in [
        (["--metric", "totl"], "did you mean total?"),
        (["--min-step", "much"], "--min-step much"),
        (["-f", "nothing"], "the reports have: fw"),
    ] {
        let refused = results.show(&args);
        assert!(refused.code == 2 && refused.stderr.contains(what), "{}", refused.stderr);
    }
}

#[test]
fn reports_of_earlier_versions_of_harness_have_their_total() {
    let mut old = report(None, None, 30);
    for case in old["cases"].as_array_mut().unwrap() {
        case.as_object_mut().unwrap().retain(|key, _| !["numbers", "limits"].contains(&key.as_str()));
    }
    old.as_object_mut().unwrap().remove("revision");
    let document = Results::new(&[("1", old), ("2", report(Some("a"), None, 31))]).json(&[]);
    assert_eq!(series(&document, "total", "")["points"], json!([[0, 30], [1, 31]]));
    // The other report's functions are no step: the older one did not say.
    assert_eq!(series(&document, "self", "work")["steps"], json!([]));
}

#[test]
fn bad_reports_are_refused_with_their_place() {
    let good = report(Some("a"), None, 30);
    let with = |change: fn(&mut Value)| {
        let mut report = good.clone();
        change(&mut report);
        report.to_string().into_bytes()
    };
    let deep = format!("{{\"format\":\"harness-report\",\"version\":2,\"cases\":{}", "[".repeat(1_000_000));
    let many: Vec<String> = (0..2_000_001).map(|number| format!("\"{number}\":1")).collect();
    let many = good.to_string().replace("\"work\":20", &many.join(","));
    for (bytes, what) in [
        (Vec::new(), "not a report in JSON"),
        (b"{\"format\":\"harness-report\",\"version\":2".to_vec(), "not a report in JSON"),
        (b"{}".to_vec(), "its format is not \"harness-report\""),
        (b"[1]".to_vec(), "not a report in JSON"),
        (b"\xff\xfe".to_vec(), "not a report in JSON"),
        (with(|report| report["version"] = json!(3)), "its version is 3"),
        (with(|report| report["version"] = json!("2")), "not a report in JSON"),
        (with(|report| report["cases"] = json!({})), "it is damaged: invalid type"),
        (with(|report| report["suite"] = json!(["s"])), "it is damaged: invalid type"),
        (with(|report| report["cases"][0]["name"] = Value::Null), "it is damaged"),
        (with(|report| report["cases"][0]["numbers"] = json!({"total": [1]})), "it is damaged"),
        (with(|report| report["cases"][0]["numbers"]["total"][""] = json!(-1)), "it is damaged"),
        (with(|report| report["cases"][0]["numbers"]["total"][""] = json!(1e30)), "it is damaged"),
        (with(|report| report["revision"]["time_seconds"] = json!("now")), "it is damaged"),
        (deep.into_bytes(), "not a report in JSON"),
        (many.into_bytes(), "more than 2,000,000 numbers"),
        (vec![b' '; (48 << 20) + 1], "larger than"),
    ] {
        let results = Results::new(&[]);
        results.write("x/report.json", &bytes);
        let refused = results.show(&["-o", "page.html"]);
        let start: String = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert_eq!((refused.code, &*refused.stdout), (2, ""), "{start}: {}", refused.stderr);
        assert!(refused.stderr.starts_with("error: r/x/report.json: "), "{start}: {}", refused.stderr);
        assert!(refused.stderr.contains(what), "{start}: {}", refused.stderr);
        assert!(refused.stderr.len() < 400 && !results.0.path().join("page.html").exists(), "{}", refused.stderr);
    }
    // Numbers as large as they can be, and a time that no calendar has, are shown.
    let huge = with(|report| {
        report["cases"][0]["numbers"]["total"][""] = json!(u64::MAX);
        report["revision"] = json!({ "commit": "b", "time_seconds": i64::MAX });
        report["cases"][0]["limits"] = json!([{ "metric": "x", "subject": "y", "number": 0, "limit": "z",
            "bound": u64::MAX, "is_floor": true, "crossed": true }]);
    });
    let results = Results::new(&[("2", good)]);
    results.write("1/report.json", &huge);
    let shown = results.show(&["-o", "page.html"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(shown.stdout.contains("18,446,744,073,709,551,615"), "{}", shown.stdout);
    // Other JSON files beside the reports are counted; as the only ones, they are refused.
    results.write("other.json", b"{\"format\":\"harness-report\",\"version\":[]}");
    assert!(results.show(&[]).stderr.contains("1 JSON file found beside them"));
    for (name, what) in [("none", "there is no report.json in it"), ("r/other.json", "not a report"), ("gone", "")] {
        fs::create_dir_all(results.0.path().join("none")).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_harness"))
            .current_dir(results.0.path())
            .args(["history", name])
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && stderr.contains(what) && stderr.contains(name), "{stderr}");
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn names_of_others_are_text_everywhere() {
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>`|\u{1b}[31m\u{202e}\n::error::x";
    let of = |commit: &str, total: u64| {
        let mut report = report(Some(commit), Some(total.try_into().unwrap()), total);
        report["suite"] = json!(hostile);
        report["cases"][0]["name"] = json!(hostile);
        report["cases"][0]["numbers"]["self"] = json!({ hostile: total });
        report["cases"][0]["numbers"][hostile] = json!({ hostile: total });
        report
    };
    let results = Results::new(&[("1", of(hostile, 30)), ("2", of("b", 40))]);
    let shown = results.show(&["-o", "page.html"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    let markdown = results.show(&["--markdown"]).stdout;
    for text in [&shown.stdout, &markdown] {
        assert!(!text.contains(['\u{1b}', '\u{202e}']) && !text.lines().any(|line| line.starts_with("::")), "{text}");
    }
    let page = fs::read_to_string(results.0.path().join("page.html")).unwrap();
    assert_eq!(page.matches("<script").count(), 2);
    let seen = viewer("history.mjs", &[results.0.path().join("page.html").to_str().unwrap()]);
    for scheme in ["light", "dark"] {
        let seen = &seen[scheme];
        assert_eq!((&seen["theme"], &seen["scripts"], &seen["images"]), (&json!(scheme), &json!(2), &json!(0)));
        assert!(seen["rows"].to_string().contains("onerror=alert(2)"), "{}", seen["rows"]);
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn the_page_shows_what_the_json_says_and_fetches_nothing() {
    let mut limited = report(Some("c"), Some(3), 40);
    limited["cases"][0]["limits"] = json!([{ "metric": "total", "subject": "", "number": 40, "limit": "5 %",
        "bound": 31, "is_floor": false, "crossed": true }]);
    let reports = [("1", report(Some("a"), Some(1), 30)), ("2", report(Some("b"), Some(2), 30)), ("3", limited)];
    let results = Results::new(&reports);
    let page = results.0.path().join("page.html");
    assert_eq!(results.show(&["-o", "page.html"]).code, 0);
    let bytes = fs::read(&page).unwrap();
    assert!(results.show(&["-o", "page.html"]).code == 0 && fs::read(&page).unwrap() == bytes);
    let seen = &viewer("history.mjs", &[page.to_str().unwrap()])["light"];
    let total = json!(["fw", "total", "30", "40", "+33.33 %", "", "1", "+33.33 % at c", "≤ 31, crossed"]);
    assert_eq!(seen["rows"][0], total);
    assert_eq!(seen["steps"][0], json!(["c", "1970-01-01", "fw", "total", "+33.33 %", "30", "40", "work +10"]));
    assert_eq!((&seen["chosen"], &seen["marks"], &seen["dots"]), (&json!("fw: total"), &json!(1), &json!(3)));
    assert_eq!(seen["titles"][2], json!("c 1970-01-01 · 40 · +33.33 % from 30: work +10 · allowed at most 31"));

    let [schema, file] = ["schema.json", "history.json"].map(|name| results.0.path().join(name));
    let output = Command::new(env!("CARGO_BIN_EXE_harness")).args(["history", "--schema"]).output().unwrap();
    fs::write(&schema, output.stdout).unwrap();
    fs::write(&file, results.show(&["--json"]).stdout).unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    viewer("schema.mjs", &[&path(&schema), &path(&file), "images.0.series.0.steps.0.before"]);
}
