// SPDX-License-Identifier: MIT OR Apache-2.0
//! A model is said to be one: summary, profile, page and gate carry chip, rules that answered, guesses and accesses that
//! nothing models.

use std::fs;
use std::path::Path;

use harness::gate::result::SuiteResult;

use super::learn::{learn, text};
use crate::common::{harness, image, run_file};

const IMAGE: &str = "chips/nrf52840-freertos";

/// Sentences that a run with a chip file must have wherever it is shown: chip, rules with a guess, accesses that nothing models.
const SAID: [&str; 3] = ["chip chip (", "3 guesses among them: 0x40000100 reads 0x1 in 0x1", "not modelled: "];

#[test]
fn summary_profile_and_page_carry_the_rules_the_guesses_and_what_nothing_models() {
    let learned = learn(&image(IMAGE));
    let chip = learned.file.to_str().unwrap();
    let run = run_file(&image(IMAGE), &["--chip", chip, "--for", "3M"]).expect_code(0);
    for wanted in SAID {
        assert!(run.stdout.contains(wanted), "{wanted}: {}", run.stdout);
    }
    let export = |format: &str| {
        let file = run.dir.with_file_name(format!("as.{format}"));
        let mut command = harness();
        let output = command.arg("export").arg(&run.dir).args(["-f", format, "-o"]).arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        fs::read_to_string(file).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&export("json")).unwrap();
    let chip = &json["facts"]["chip"];
    let rows = |key: &str| chip[key].as_array().unwrap().clone();
    assert_eq!((chip["name"].as_str(), chip["sha256"].as_str().map(str::len)), (Some("chip"), Some(64)));
    assert_eq!(rows("rules").iter().filter(|rule| rule["guess"] == true).count(), 3, "{chip}");
    assert!(rows("rules").iter().all(|rule| rule["times"].as_u64() > Some(0)), "{chip}");
    let first = &rows("unmodelled")[0];
    assert!(first["name"].is_string() && first["pc"].is_string(), "{first}");
    let file = run.dir.with_file_name("page.html");
    let output = harness().arg("report").arg(&run.dir).arg("-o").arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let page = fs::read_to_string(file).unwrap();
    for wanted in SAID {
        assert!(page.contains(wanted), "the page lacks {wanted}");
    }
}

/// A suite of one image; returns the exit code, what is said, and the reports.
fn gate(chip: &Path, strict: bool) -> (Option<i32>, String, [String; 3]) {
    let temp = tempfile::tempdir().unwrap();
    fs::copy(chip, temp.path().join("chip.toml")).unwrap();
    let elf = image(IMAGE).display().to_string();
    let suite =
        format!("[[image]]\nname = \"rtos\"\nelf = {elf:?}\nchip = \"chip.toml\"\nfor = \"3M\"\nstrict = {strict}\n");
    fs::write(temp.path().join("harness.toml"), suite).unwrap();
    let mut command = harness();
    let output = command.args(["test", "--no-cache", "-o", "reports"]).current_dir(temp.path()).output().unwrap();
    let report = |name: &str| fs::read_to_string(temp.path().join("reports").join(name)).unwrap();
    (output.status.code(), text(&output), ["report.json", "summary.md", "junit.xml"].map(report))
}

#[test]
fn a_suite_carries_them_too_and_a_strict_one_fails_on_a_guess() {
    let learned = learn(&image(IMAGE));
    let (code, said, reports) = gate(&learned.file, false);
    assert_eq!(code, Some(0), "{said}");
    let chip = SuiteResult::from_json(&reports[0]).unwrap().cases[0].run.clone().unwrap().chip.join("\n");
    for wanted in SAID {
        assert!(chip.contains(wanted) && said.contains(wanted), "{wanted}: {chip}\n{said}");
        assert!(reports[1].contains(wanted) && reports[2].contains(wanted), "{wanted}: {reports:?}");
    }
    let (code, said, reports) = gate(&learned.file, true);
    assert_eq!(code, Some(1), "{said}");
    let why = "strict: the chip file guesses (0x40000100 reads 0x1 in 0x1 and 2 more)";
    assert!(said.contains(why) && reports[0].contains(why) && reports[2].contains(why), "{said}");
    // The file's author is sure now.
    let sure = fs::read_to_string(&learned.file).unwrap().replace("guess = true", "guess = false");
    fs::write(&learned.file, sure).unwrap();
    let (code, said, _) = gate(&learned.file, true);
    assert_eq!(code, Some(0), "{said}");
}
