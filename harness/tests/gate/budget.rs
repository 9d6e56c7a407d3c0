// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a budget holds only if every number is known and within its limit, and its rows have value, limit,
//! margin and trend wherever they are shown.

use std::fs;
use std::path::Path;

use super::suite::{Suite, target};
use crate::common::{harness, image, run};

/// An image without a kernel, and an image whose kernel stores the ends of stacks.
const BARE: &str = "cortex-m3-bare";
const TASKS: &str = "cortex-m3-tasks-ends";

fn number_in(baseline: &Path, word: &str) -> u64 {
    let text = fs::read_to_string(baseline).unwrap();
    let line =
        text.lines().find_map(|line| line.strip_prefix(&format!("{word}\t"))).unwrap_or_else(|| panic!("{text}"));
    line.parse().unwrap()
}

#[test]
fn flash_and_ram_are_measures_with_baseline_threshold_and_assertion() {
    let suite =
        Suite::new(&target(BARE, "name = \"app\"\nassert = [\"flash <= 256k\", \"ram <= 95%\", \"flash > 1k\"]\n"));
    suite.run(&["--save-baseline", "main"]).expect_code(0);
    let baseline = suite.path("baselines").join("main").join("app.baseline");
    let (flash, ram) = (number_in(&baseline, "flash"), number_in(&baseline, "ram"));
    let sized = harness().arg("size").arg(image(BARE)).arg("--json").output().unwrap();
    let sized: serde_json::Value = serde_json::from_slice(&sized.stdout).unwrap();
    assert_eq!(
        (sized["image"]["flash_bytes"].as_u64(), sized["image"]["ram_bytes"].as_u64()),
        (Some(flash), Some(ram))
    );
    suite.write(&target(BARE, &format!("name = \"app\"\nassert = [\"flash < {flash}\"]\n")));
    let result = suite.run(&[]).expect_code(1);
    assert!(result.stdout.contains("flash"), "{}", result.stdout);
    // The baseline had less: growth is a regression.
    let text =
        fs::read_to_string(&baseline).unwrap().replace(&format!("flash\t{flash}"), &format!("flash\t{}", flash / 2));
    fs::write(&baseline, text).unwrap();
    suite.write(&target(BARE, "name = \"app\"\nthresholds = { flash = \"5%\" }\n"));
    suite.run(&["--baseline", "main"]).expect_code(3);
}

#[test]
fn a_suites_budget_is_one_table_and_one_junit_suite_with_a_verdict() {
    let budget =
        |flash: &str| format!("[budget]\nflash = {flash:?}\nram = \"95%\"\nstack_bound = {{ parent = \"90%\" }}\n");
    let suite = Suite::new(&[budget("256k"), target(TASKS, "name = \"app\"\n")].concat());
    let result = suite.run(&["--save-baseline", "main"]);
    let summary = fs::read_to_string(result.reports.join("summary.md")).unwrap();
    assert!(summary.contains("| Budget | Value |") && summary.contains("`flash`"), "{summary}");
    let row = summary.lines().find(|line| line.contains("stack_bound")).unwrap_or_else(|| panic!("{summary}"));
    assert!(row.contains("bounded") || row.contains("estimated") || row.contains("unknown"), "{row}");
    let junit = fs::read_to_string(result.reports.join("junit.xml")).unwrap();
    assert!(junit.contains(" budget\"") && junit.contains("name=\"flash\""), "{junit}");
    suite.write(&[budget("100"), target(TASKS, "name = \"app\"\n")].concat());
    let result = suite.run(&[]).expect_code(3);
    assert!(
        result.stdout.contains("flash is ") && result.stdout.contains("at most 100 are allowed"),
        "{}",
        result.stdout
    );
    suite.write(&[budget("a lot"), target(TASKS, "name = \"app\"\n")].concat());
    let result = suite.run(&[]).expect_code(2);
    assert!(
        result.stderr.contains("harness.toml:2: ") && result.stderr.contains("neither a number"),
        "{}",
        result.stderr
    );
}

#[test]
fn a_bound_that_the_run_exceeded_fails_whatever_the_ceiling_is() {
    // A wrong statement makes the bound wrong, as a defect of harness would.
    let limits = "[stack]\nends = [\"*\"]\n[budget]\nmain_stack = \"1M\"\n";
    let suite = Suite::new(&[limits, &target(BARE, "name = \"app\"\nexact = true\nfor = \"300k\"\n")].concat());
    let result = suite.run(&[]).expect_code(1);
    let said = "app: the main stack was seen at ";
    assert!(result.stdout.contains(said) && result.stdout.contains("its bound is 8 bytes"), "{}", result.stdout);
    let row = &result.report().cases[0].budget[0];
    assert!(!row.holds && row.value.is_none() && row.why.as_ref().unwrap().contains("8 bytes"), "{row:?}");
    let profile = result.reports.join("app.profile");
    let mut judged = harness();
    judged.arg("budget").arg(image(BARE)).arg(&profile).arg("--budget").arg(suite.path("harness.toml"));
    let judged = judged.output().unwrap();
    let error = String::from_utf8_lossy(&judged.stderr);
    assert!(judged.status.code() == Some(1) && error.contains("error: the main stack was seen at "), "{error}");
}

#[test]
fn the_command_judges_a_profile_and_shows_the_trend() {
    let run = run(BARE, &[]);
    let temp = tempfile::tempdir().unwrap();
    let (budget, junit) = (temp.path().join("budget.toml"), temp.path().join("budget.xml"));
    let judge = |text: &str, args: &[&str]| {
        fs::write(&budget, text).unwrap();
        let mut command = harness();
        command.arg("budget").arg(image(BARE)).arg(&run.dir).arg("--budget").arg(&budget).args(args);
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let limits = "[budget]\nflash = \"1M\"\ntotal = \"1G\"\nbranch_insns = \"50%\"\n";
    let (code, out, _) = judge(limits, &["--json"]);
    assert_eq!(code, Some(0), "{out}");
    let rows: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(rows["rows"][0]["certainty"], "exact");
    let of = |what: &str| {
        let row = rows["rows"].as_array().unwrap().iter().find(|row| row["what"] == what).unwrap();
        (row["value"].as_u64().unwrap(), row["limit"].as_u64().unwrap())
    };
    let ((total, _), (branches, most)) = (of("total"), of("branch_insns"));
    assert!(branches > total / 100 && branches < most && most == total / 2, "{branches} of {total}");
    let flash = rows["rows"].as_array().unwrap().iter().find(|row| row["what"] == "flash").unwrap()["value"].clone();
    let flash = flash.as_u64().unwrap();
    let baseline = temp.path().join("app.baseline");
    fs::write(&baseline, format!("harness baseline 1\ntotal\t1\nflash\t{}\n", flash - 24)).unwrap();
    let args = ["--baseline", baseline.to_str().unwrap(), "--junit", junit.to_str().unwrap()];
    let (code, out, _) = judge(&format!("[budget]\nflash = {}\n", flash - 1), &args);
    assert_eq!(code, Some(3), "{out}");
    let row = out.lines().find(|line| line.starts_with("flash")).unwrap();
    assert!(row.contains("+24") && row.contains("\u{2212}1") && row.ends_with("NO"), "{row}");
    assert!(fs::read_to_string(&junit).unwrap().contains("failure"), "the row fails");
    // Without a budget the message says how to get one.
    let mut nowhere = harness();
    nowhere.current_dir(temp.path()).arg("budget").arg(image(BARE)).arg(&run.dir);
    let error = String::from_utf8(nowhere.output().unwrap().stderr).unwrap();
    assert!(error.contains("`harness init` writes one") && error.contains("--budget FILE"), "{error}");
    for (text, why) in
        [("[budget]\nflsh = 1\n", "did you mean flash?"), ("", "has no [budget]"), ("[budget", "budget.toml:1: ")]
    {
        let (code, _, error) = judge(text, &[]);
        assert!(code == Some(2) && error.contains(why), "{text:?}: {error}");
    }
}
