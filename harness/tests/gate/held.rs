// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: no gate is dead. A limit or assertion on a name that is neither in the run nor in the baseline is
//! reported, for every kind of name and every place in the suite. A name that only one of them has gets a verdict of
//! its own.

use std::collections::BTreeMap;
use std::fs;

use super::suite::{Suite, target};

/// An image with tasks, zones and functions.
const ZONES: &str = "cortex-m3-zones-tasks";

/// An image whose kernel stores the ends of stacks.
const STACKS: &str = "cortex-m3-tasks-ends";

fn of_image(image: &str, name: &str, lines: &str) -> String {
    target(image, &format!("name = {name:?}\nexact = true\n{lines}"))
}

fn image(name: &str, lines: &str) -> String {
    of_image(ZONES, name, lines)
}

/// One kind of limit: its word, the beginning of its lines in a baseline, the image, a name that is in run and
/// baseline, and a name that is in neither.
const KINDS: [(&str, &str, &str, &str, &str); 9] = [
    ("self", "function", ZONES, "crunch", "crnuch"),
    ("inclusive", "function", ZONES, "crunch", "crnuch"),
    ("calls", "function", ZONES, "crunch", "crnuch"),
    ("task", "task", ZONES, "busier", "busire"),
    ("stack", "task", STACKS, "parent", "paretn"),
    ("zone", "zone", ZONES, "shuffle", "shulfle"),
    ("zone_calls", "zone", ZONES, "shuffle", "shulfle"),
    ("zone_mean", "zone", ZONES, "shuffle", "shulfle"),
    ("zone_max", "zone", ZONES, "shuffle", "shulfle"),
];

/// Presence of a limit's name in the run and in the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Both,
    Run,
    Baseline,
    Neither,
}

/// Limit for a name, in one of its written forms.
fn pattern(form: &str, name: &str) -> String {
    match form {
        "name" => name.to_owned(),
        // All letters but the last, which match no other name.
        "pattern" => format!("{}*", &name[..name.len() - 1]),
        _ => "@all".to_owned(),
    }
}

#[test]
fn every_kind_of_limit_by_name_pattern_or_for_all_is_held_or_said_to_be_dead() {
    let suite = Suite::new(&[ZONES, STACKS].map(|image| of_image(image, image, "")).concat());
    suite.run(&["--save-baseline", "whole"]).expect_code(0);
    let whole = |image: &str| fs::read_to_string(suite.path(&format!("baselines/whole/{image}.baseline"))).unwrap();
    let wholes = BTreeMap::from([ZONES, STACKS].map(|image| (image, whole(image))));
    let mut text = String::from("baseline = \"b\"\n");
    let mut expected: Vec<(String, u8, Vec<&str>)> = Vec::new();
    fs::create_dir_all(suite.path("baselines/b")).unwrap();
    for (word, begins, image, name, typo) in KINDS {
        let whole = &wholes[image];
        for form in ["name", "pattern", "all"] {
            for limit in ["0%", "90000000"] {
                for place in [Where::Both, Where::Run, Where::Baseline, Where::Neither] {
                    let is_relative = limit == "0%";
                    // The baseline without this name, or with another name of its kind.
                    let is_it = |line: &&str| line.starts_with(&format!("{begins}\t{name}\t"));
                    let own = whole.lines().find(is_it).unwrap_or_else(|| panic!("no {begins} {name}:\n{whole}"));
                    let gone = own.replacen(name, "zz_gone", 1);
                    let (limited, baseline) = match place {
                        Where::Both => (name, whole.clone()),
                        Where::Run => (
                            name,
                            whole.lines().filter(|line| !is_it(line)).map(|line| format!("{line}\n")).collect(),
                        ),
                        Where::Baseline => ("zz_gone", format!("{whole}{gone}\n")),
                        Where::Neither => (typo, whole.clone()),
                    };
                    let case = format!("{word}.{form}.{limit}.{place:?}").replace('%', "p");
                    fs::write(suite.path(&format!("baselines/b/{case}.baseline")), baseline).unwrap();
                    let pattern = pattern(form, limited);
                    text += &of_image(
                        image,
                        &case,
                        &format!("thresholds = {{ {word} = {{ {pattern:?} = {limit:?} }} }}"),
                    );
                    let (code, says): (u8, Vec<&str>) = match (place, form) {
                        (Where::Both, _) => (0, vec![]),
                        (Where::Run, _) if is_relative => (3, vec![name, ": new (0 \u{2192} "]),
                        (Where::Run, _) => (0, vec![]),
                        (Where::Baseline, "all") if !is_relative => (0, vec![]),
                        (Where::Baseline, _) => (3, vec!["zz_gone: vanished ("]),
                        (Where::Neither, "name") => (2, vec!["limits nothing: no ", "did you mean `", name]),
                        (Where::Neither, "pattern") => (0, vec!["limits nothing: no ", " matches"]),
                        (Where::Neither, _) => (0, vec![]),
                    };
                    expected.push((case, code, says));
                }
            }
        }
    }
    suite.write(&text);
    let result = suite.run(&["-j", "2"]).expect_code(2);
    let report = result.report();
    assert_eq!(report.cases.len(), expected.len());
    for ((name, code, says), case) in expected.iter().zip(&report.cases) {
        let said: Vec<&str> = case.failures().map(|finding| finding.message.as_str()).collect();
        let said = [said.join("\n"), case.warnings.join("\n")].concat();
        assert_eq!((&case.name, case.exit_code), (name, *code), "{said}");
        assert!(says.iter().all(|part| said.contains(part)), "{name}: {says:?} in {said:?}");
        assert_eq!(said.is_empty(), says.is_empty(), "{name}: {said}");
    }
    // A pattern that matches nothing fails under `--strict`; by the images' own names, each is reported at its line.
    let strict = suite.run(&["--strict", "-f", "name(self.pattern.*.Neither)"]).expect_code(2);
    let line = 1 + text.lines().position(|line| line.contains("crnuc*")).unwrap();
    let said =
        format!("harness.toml:{line}: error: self.pattern.0p.Neither: thresholds.self \"crnuc*\" limits nothing");
    assert!(strict.stdout.contains(&said), "{said}\n{}", strict.stdout);
    // A new baseline accepts a limit that is crossed because its name is new or gone.
    let crossed = ["-f", "name(*.0p.Run) or name(*.0p.Baseline)"];
    suite.run(&crossed).expect_code(3);
    suite.run(&[&crossed[..], &["--save-baseline", "b"]].concat()).expect_code(3);
    let again = suite.run(&["-f", "name(*.0p.Run)"]).expect_code(0);
    assert!(!again.stdout.contains("new (0"), "{}", again.stdout);
}

#[test]
fn a_limit_of_the_defaults_is_dead_only_where_no_image_of_the_suite_has_what_it_is_for() {
    let without = target("riscv64-exit0", "exact = true");
    let all = [ZONES, STACKS].map(|image| of_image(image, image, "")).concat() + &without;
    let suite = Suite::new(&all);
    suite.run(&["--save-baseline", "main"]).expect_code(0);
    let defaults = |limits: &str| {
        suite.write(&format!("baseline = \"main\"\n[defaults.thresholds]\n{limits}\n{all}"));
    };
    // Limits of all kinds at once, each in a line of its own.
    let each = |pattern: &dyn Fn(&str, &str) -> String| {
        KINDS.map(|(word, _, _, name, typo)| format!("{word} = {{ {:?} = \"0%\" }}", pattern(name, typo))).join("\n")
    };
    // One image has it.
    for form in ["name", "pattern", "all"] {
        defaults(&each(&|name, _| pattern(form, name)));
        let held = suite.run(&[]).expect_code(0);
        assert!(!held.stdout.contains("limits nothing"), "{form}: {}", held.stdout);
    }
    let lines = || (3..).zip(KINDS);
    defaults(&each(&|_, typo| typo.to_owned()));
    let dead = suite.run(&[]).expect_code(2);
    for (line, (word, .., typo)) in lines() {
        let said = format!("harness.toml:{line}: error: thresholds.{word} {typo:?} limits nothing in any image: ");
        assert!(dead.stdout.contains(&said) && dead.stdout.contains("3 of 3 passed"), "{said}\n{}", dead.stdout);
    }
    for report in dead.files() {
        let is_named = |word: &str| report.contains(&format!("thresholds.{word} "));
        assert!(
            report.contains("limits nothing in any image") && KINDS.iter().all(|kind| is_named(kind.0)),
            "{report}"
        );
    }
    // An image of several says nothing of the others.
    for image in [ZONES, STACKS] {
        suite.run(&["-f", image]).expect_code(0);
    }
    defaults(&each(&|_, typo| format!("{typo}*")));
    let unused = suite.run(&[]).expect_code(0);
    let strict = suite.run(&["--strict"]).expect_code(2);
    for (line, (word, .., typo)) in lines() {
        let said = |how: &str| {
            format!("harness.toml:{line}: {how}: thresholds.{word} \"{typo}*\" limits nothing in any image: ")
        };
        assert!(unused.stdout.contains(&said("warning")), "{}\n{}", said("warning"), unused.stdout);
        assert!(strict.stdout.contains(&said("error")), "{}\n{}", said("error"), strict.stdout);
    }
    assert!(unused.stdout.contains(&format!(", {} warnings", KINDS.len())), "{}", unused.stdout);
    let (word, .., typo) = KINDS[0];
    defaults(&format!("{word} = {{ {typo:?} = \"0%\" }}"));
    // A shard does not judge them either; all shards merged do.
    let [first, second] = ["1/2", "2/2"].map(|shard| {
        let output = format!("part{}", &shard[..1]);
        suite.run(&["--shard", shard, "-o", &output]).expect_code(0);
        suite.path(&output)
    });
    let mut merge = crate::common::harness();
    let merged = merge.arg("merge").args([first, second]).arg("-o").arg(suite.path("merged")).output().unwrap();
    let merged = super::suite::finish(merged, suite.path("merged")).expect_code(2);
    assert_eq!(merged.files(), suite.run(&["-o", "merged"]).expect_code(2).files());
}

#[test]
fn firmware_that_is_another_one_crosses_a_limit_for_all() {
    let entry = |name: &str| target(name, "name = \"firmware\"\nfor = \"1M\"\nthresholds = { self = \"0%\" }");
    let suite = Suite::new(&(String::from("baseline = \"main\"\n") + &entry("cortex-m3-interpreter")));
    suite.run(&["--save-baseline", "main"]).expect_code(0);
    suite.run(&[]).expect_code(0);
    suite.write(&(String::from("baseline = \"main\"\n") + &entry("cortex-m3-branchy")));
    let other = suite.run(&[]).expect_code(3);
    assert!(other.stdout.contains(": new (0 \u{2192} ") && other.stdout.contains(": vanished ("), "{}", other.stdout);
    let accept = "harness test -f 'name(firmware)' --save-baseline main";
    assert_eq!(other.report().cases[0].accept.as_deref(), Some(accept));
    let saved = suite.run(&["--save-baseline", "main"]).expect_code(3);
    // What is being done is not asked for.
    assert!(!saved.stdout.contains("--save-baseline"), "{}", saved.stdout);
    assert!(saved.stdout.contains("baseline main saved: the run only crossed a limit"), "{}", saved.stdout);
    assert!(saved.stderr.contains("note: baseline main: 1 image saved, also what only crossed"), "{}", saved.stderr);
    suite.run(&[]).expect_code(0);
}

#[test]
fn a_run_that_failed_leaves_the_baseline_as_it_is() {
    let entry = |name: &str| target(name, "name = \"firmware\"\nexit = 0\nmax-insns = \"1M\"");
    let suite = Suite::new(&entry("cortex-m3-exit0"));
    suite.run(&["--save-baseline", "main"]).expect_code(0);
    let file = suite.path("baselines/main/firmware.baseline");
    let before = fs::read_to_string(&file).unwrap();
    suite.write(&entry("cortex-m3-exit3"));
    let failed = suite.run(&["--save-baseline", "main"]).expect_code(1);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    assert_eq!(failed.stdout.matches("baseline main not saved: the firmware failed (exit code 1)").count(), 1);
    let said = "note: baseline main: 0 images saved; not saved: firmware (the firmware failed)";
    assert!(failed.stderr.contains(said), "{}", failed.stderr);
}

#[test]
fn a_number_that_was_not_measured_is_no_number_within_its_limit() {
    let suite = Suite::new(&target("cortex-m3-bare", "thresholds = { heap_peak = 10 }"));
    let run = suite.run(&[]).expect_code(2);
    let said = "thresholds.heap_peak limits nothing: the run did not follow the heap";
    assert!(run.stdout.contains(said), "{}", run.stdout);
    // A baseline that was made without this count asks for a new one.
    let with = |limits: &str| {
        let lines = format!("for = \"200k\"\nthresholds = {{ {limits} }}");
        suite.write(&(String::from("baseline = \"main\"\n") + &target("cortex-m3-bare", &lines)));
    };
    with("total = \"0%\"");
    suite.run(&["--save-baseline", "main"]).expect_code(0);
    for limits in ["inclusive = \"0%\"", "inclusive = { main = \"0%\" }"] {
        with("total = \"0%\"");
        suite.run(&["--save-baseline", "main"]).expect_code(0);
        with(limits);
        let old = suite.run(&[]).expect_code(3);
        let said = "the baseline main was made without this number; --save-baseline main makes it anew";
        assert!(old.stdout.contains(said), "{}", old.stdout);
        suite.run(&["--save-baseline", "main"]).expect_code(3);
        suite.run(&[]).expect_code(0);
    }
    // A function that is in the image and never ran is held to its limit.
    with("self = { host = \"0%\", crc32_tabel = 0 }");
    let typo = suite.run(&[]).expect_code(2);
    assert!(typo.stdout.contains("`crc32_tabel`; did you mean `crc32_table`"), "{}", typo.stdout);
}

#[test]
fn limits_without_a_baseline_are_said_to_need_one() {
    let suite = Suite::new(&target("riscv64-exit0", "thresholds = { total = \"0%\", self = { main = 100000 } }"));
    let run = suite.run(&[]).expect_code(0);
    let said = "warning: riscv64-exit0: thresholds.total needs a baseline, and none is named: --save-baseline main";
    assert!(run.stdout.contains(said), "{}", run.stdout);
    suite.run(&["--strict"]).expect_code(2);
    let saved = suite.run(&["--save-baseline", "main"]).expect_code(0);
    assert!(!saved.stdout.contains("needs a baseline"), "{}", saved.stdout);
}

#[test]
fn an_assertion_on_a_name_that_nothing_has_is_a_mistake_of_the_suite() {
    let suite = Suite::new("");
    for (assertion, said) in [
        ("calls(\"crnuch\") == 0", "did you mean `crunch`?"),
        ("self(\"crnuch\") <= 5%", "did you mean `crunch`?"),
        ("inclusive(\"crnuch\") < 5", "did you mean `crunch`?"),
        ("depth(\"crnuch\") == 0", "did you mean `crunch`?"),
        ("max(\"crnuch\") < 5", "did you mean `crunch`?"),
        ("task(\"busire\") <= 5%", "no task busire ran; did you mean busier?"),
        ("stack(\"busire\") <= 75%", "no task busire ran; did you mean busier?"),
        ("switches(\"busire\") == 0", "no task busire ran; did you mean busier?"),
        ("zone_max(\"shufle\") < 5", "did you mean `shuffle`?"),
        ("irq(\"SysTik\") <= 5%", "no interrupt is called SysTik; did you mean SysTick?"),
        ("handler_max(\"SysTik\") < 5", "no interrupt is called SysTik; did you mean SysTick?"),
        ("coverage(\"zones-taks.c\") >= 0%", "did you mean zones-tasks.c?"),
    ] {
        for text in [
            image("fw", &format!("assert = ['{assertion}']")),
            format!("[defaults]\nassert = ['{assertion}']\n") + &image("fw", ""),
        ] {
            suite.write(&text);
            let run = suite.run(&[]).expect_code(2);
            let wanted = format!("{assertion} does not hold: ");
            assert!(run.stdout.contains(&wanted) && run.stdout.contains(said), "{assertion}: {}", run.stdout);
        }
    }
    // A name of the baseline is not a typo: the firmware stopped having it.
    suite.write(&image("fw", ""));
    suite.run(&["--save-baseline", "main"]).expect_code(0);
    let path = suite.path("baselines/main/fw.baseline");
    let baseline = fs::read_to_string(&path).unwrap();
    fs::write(&path, baseline.replace("task\tbusier\t", "task\tlogger\t")).unwrap();
    suite.write(&(String::from("baseline = \"main\"\n") + &image("fw", "assert = ['task(\"logger\") > 0%']")));
    suite.run(&[]).expect_code(1);
    // Neither is an interrupt that never came, nor one with a number.
    suite.write(&image("fw", "assert = ['irq(\"UsageFault\") <= 0%', 'irq(\"17\") <= 0%']"));
    suite.run(&[]).expect_code(0);
}

#[test]
fn a_limit_that_cannot_be_meant_is_refused_before_anything_runs() {
    let suite = Suite::new("");
    for (text, said) in [
        (
            image("fw", "thresholds = { self = { \"@al\" = \"5%\" } }"),
            "harness.toml:5: thresholds.self: \"@al\": write",
        ),
        (
            format!("[defaults.thresholds]\nwork = \"2%\"\n{}", target("riscv64-exit0", "")),
            "harness.toml:2: thresholds.work is for images with `for`",
        ),
    ] {
        suite.write(&text);
        let refused = suite.run(&[]).expect_code(2);
        assert!(refused.stderr.contains(said), "{said}\n{}", refused.stderr);
    }
}
