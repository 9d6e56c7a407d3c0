// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise of `harness test --watch`: changed images are run again, and nothing else; Ctrl-C ends it with the
//! last verdict.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};

use super::suite::{Suite, entry};
use crate::common::{image, signal};

/// The lines of one round, from the first image to where the reports are.
fn round(lines: &mut BufReader<ChildStdout>) -> Vec<String> {
    let mut round = Vec::new();
    loop {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended: {round:?}");
        let is_last = line.starts_with("reports in ");
        round.push(line);
        if is_last {
            return round;
        }
    }
}

fn images(round: &[String]) -> Vec<String> {
    let images = round.iter().filter(|line| line.starts_with("PASS") || line.starts_with("FAIL"));
    images.map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect()
}

fn ended(mut child: Child) -> (Option<i32>, String) {
    signal(child.id(), "INT");
    let code = child.wait().unwrap().code();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (code, stderr)
}

#[test]
fn what_changes_is_run_again_and_the_last_verdict_is_the_exit_code() {
    let suite = Suite::new("");
    let [first, second] = ["first.elf", "second.elf"].map(|name| suite.path(name));
    for path in [&first, &second] {
        fs::copy(image("riscv64-exit0"), path).unwrap();
    }
    let text = entry(&first, "") + &entry(&second, "");
    suite.write(&text);
    let mut child = suite.command(&["--watch"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(images(&round(&mut lines)), ["PASS first", "PASS second"]);

    // Replace the file as a linker does: rename another one over it.
    let replace = |with: &str| {
        fs::copy(image(with), suite.path("next")).unwrap();
        fs::rename(suite.path("next"), &first).unwrap();
    };
    replace("riscv64-exit3");
    let failed = round(&mut lines);
    assert_eq!(images(&failed), ["FAIL first"], "{failed:?}");
    // The verdict covers all images.
    assert!(failed.iter().any(|line| line.starts_with("1 of 2 passed, 1 failed")), "{failed:?}");

    suite.write(&text.replacen("second.elf\"\n", "second.elf\"\nname = \"other\"\n", 1));
    assert_eq!(images(&round(&mut lines)), ["FAIL first", "PASS other"]);
    let (code, stderr) = ended(child);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("first.elf; running first\n"), "{stderr}");
    assert!(stderr.contains("harness.toml; running first, other\n"), "{stderr}");
    assert!(stderr.ends_with("watching 3 files; Ctrl-C ends\n"), "{stderr}");
}

#[test]
fn a_mistake_in_the_suite_is_said_and_waited_out() {
    let suite = Suite::new("");
    let elf = suite.path("first.elf");
    fs::copy(image("riscv64-exit0"), &elf).unwrap();
    suite.write(&entry(&elf, ""));
    let mut child = suite.command(&["--watch"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    assert_eq!(images(&round(&mut lines)), ["PASS first"]);
    suite.write(&entry(&elf, "nonsense = 1"));
    let mut line = String::new();
    while !line.contains("unknown key `nonsense`") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended");
    }
    suite.write(&entry(&elf, "name = \"mended\""));
    assert_eq!(images(&round(&mut lines)), ["PASS mended"]);
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for refused in [["--watch", "--ratchet"], ["--watch", "--list"]] {
        suite.run(&refused).expect_code(2);
    }
}
