// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: an untrusted suite has the rights of the firmware that it names, and no others.

use std::fs;
use std::os::unix::fs::symlink;

use super::suite::{Result, Suite};
use crate::common::image;

/// A suite with an image of its own folder.
fn stranger(name: &str, keys: &str) -> Suite {
    let suite = Suite::new(&format!("[[image]]\nelf = \"fw.elf\"\n{keys}\n"));
    fs::copy(image(name), suite.path("fw.elf")).unwrap();
    suite
}

/// Runs it as untrusted, where the kernel may lack walls.
fn untrusted(suite: &Suite, args: &[&str]) -> Result {
    suite.run(&[&["--untrusted", "--sandbox", "auto"], args].concat())
}

/// Asserts that its request is refused as bad input, and that nothing is run or written.
#[track_caller]
fn refused(suite: &Suite, args: &[&str], named: &str) {
    let result = untrusted(suite, args);
    assert_eq!((result.code, &*result.stdout), (2, ""), "{}", result.stderr);
    assert!(result.stderr.contains(named), "{named}: {}", result.stderr);
    assert!(!result.reports.exists() && !suite.path("baselines").exists());
}

#[test]
fn a_strangers_suite_runs_and_is_shown_as_one() {
    let suite = stranger("riscv64-smp", "qemu-args = [\"-smp\", \"2\", \"-m\", \"2G\"]\nexit = 9");
    let result = suite.run(&["--untrusted"]);
    if result.code == 5 && result.stdout.contains("--sandbox required") {
        // This kernel lacks some of the walls: nothing may run.
        assert_eq!(untrusted(&suite, &[]).code, 1);
    } else {
        assert_eq!(result.code, 1, "{}{}", result.stdout, result.stderr);
    }
    let result = untrusted(&suite, &[]);
    let case = &result.report().cases[0];
    assert_eq!(case.repeat, "harness test --untrusted -f 'name(fw)'");
    assert_eq!(case.accept, None);
    // Its result is not stored in the shared cache.
    assert!(!suite.path("cache").exists());
}

#[test]
fn no_argument_of_qemu_is_a_strangers_but_settings() {
    for (keys, named) in [
        ("qemu-args = [\"-plugin\", \"evil.so\"]", "-plugin evil.so"),
        ("qemu-args = [\"-smp\", \"2\", \"-D\", \"/tmp/x\"]", "-D /tmp/x"),
        ("machine = \"virt,dumpdtb=x\"", "dumpdtb=x"),
        ("machine = \"xilinx-zynq-a9\"", "xilinx-zynq-a9"),
        ("cpu = \"rv64,x=/etc/passwd\"", "/etc/passwd"),
        ("matrix = { machine = [\"virt\", \"virt,dtb=x\"] }", "dtb=x"),
        ("matrix = { cpu = [\"rv64\", \"rv64,x=y\"] }", "x=y"),
    ] {
        let suite = stranger("riscv64-exit0", keys);
        refused(&suite, &[], named);
        let refusal = untrusted(&suite, &[]).stderr;
        assert!(refusal.contains("harness.toml:1: ") && refusal.contains("--untrusted"), "{refusal}");
    }
    let suite = Suite::new("[defaults]\nqemu-args = [\"-s\"]\n[[image]]\nelf = \"fw.elf\"\n");
    refused(&suite, &[], "\"-s\"");
}

#[test]
fn no_file_is_a_strangers_but_those_of_its_folder() {
    let suite = stranger("riscv64-exit0", "");
    fs::create_dir(suite.path(".git")).unwrap();
    fs::write(suite.path(".git/config"), "token").unwrap();
    fs::write(suite.path("data"), "data").unwrap();
    symlink("/etc/hostname", suite.path("link")).unwrap();
    symlink("/etc", suite.path("folder")).unwrap();
    for path in ["/etc/hostname", "../../../../../../../../etc/hostname", "link", "folder/hostname", ".git/config"] {
        for key in [
            format!("elf = {path:?}"),
            format!("elf = \"fw.elf\"\nsymbols = {path:?}"),
            format!("elf = \"fw.elf\"\nfiles = {{ x = {path:?} }}"),
            format!("elf = \"fw.elf\"\ninput = [{{ at = 1, file = {path:?} }}]"),
        ] {
            suite.write(&format!("[[image]]\n{key}\n"));
            refused(&suite, &[], path);
        }
        suite.write(&format!("baselines = {path:?}\n[[image]]\nelf = \"fw.elf\"\n"));
        refused(&suite, &[], path);
    }
    suite.write("[[image]]\nelf = \"fw.elf\"\nfiles = { x = \"data\" }\ninput = [{ at = 1, file = \"data\" }]\n");
    assert_eq!(untrusted(&suite, &[]).code, 0);
    // A baseline that is a link to another file is not read.
    fs::create_dir_all(suite.path("baselines/main")).unwrap();
    symlink("/etc/hostname", suite.path("baselines/main/fw.baseline")).unwrap();
    let result = untrusted(&suite, &["--baseline", "main"]);
    assert_eq!(result.code, 2);
    assert!(result.stdout.contains("outside of the suite's folder"), "{}", result.stdout);
    // The suite file may not be a link itself.
    fs::rename(suite.path("harness.toml"), suite.path("other.toml")).unwrap();
    symlink("other.toml", suite.path("harness.toml")).unwrap();
    let result = untrusted(&suite, &["harness.toml"]);
    assert_eq!(result.code, 2);
    assert!(result.stderr.contains("it is a link"), "{}", result.stderr);
}

#[test]
fn reports_of_a_strangers_suite_go_nowhere_else() {
    let suite = stranger("riscv64-exit0", "");
    let outside = Suite::new("");
    for link in ["report.json", "summary.md", "fw.profile"] {
        fs::create_dir_all(suite.path("harness-report")).unwrap();
        symlink(outside.path(link), suite.path("harness-report").join(link)).unwrap();
        let result = untrusted(&suite, &[]);
        assert_eq!(result.code, 2, "{link}");
        assert!(result.stderr.contains(&format!("{link}: it is a link")), "{}", result.stderr);
        assert!(!outside.path(link).exists());
        fs::remove_dir_all(suite.path("harness-report")).unwrap();
    }
    symlink(outside.path(""), suite.path("harness-report")).unwrap();
    assert_eq!(untrusted(&suite, &[]).code, 2);
    assert_eq!(fs::read_dir(outside.path("")).unwrap().count(), 1);
}

#[test]
fn a_stranger_writes_no_baseline_and_takes_no_wall_away() {
    let suite = stranger("riscv64-exit0", "");
    for args in [&["--save-baseline", "main"][..], &["--ratchet", "--baseline", "main"]] {
        refused(&suite, args, "--untrusted");
    }
    let result = suite.run(&["--untrusted", "--sandbox", "off"]);
    assert_eq!(result.code, 2);
    assert!(result.stderr.contains("--untrusted needs the sandbox"), "{}", result.stderr);
}

#[test]
fn a_strangers_suite_has_bounds() {
    // It may not print more than the bound for untrusted suites, even where it asks for more.
    let suite =
        stranger("riscv64-tt-endless", "max-output = \"1G\"\ntimeout = 100000\nfor = \"50M\"\nexit = \"output\"");
    let result = untrusted(&suite, &[]);
    assert_eq!(result.code, 0, "{}", result.stdout);
    let console = fs::metadata(result.reports.join("fw.profile/console.log")).unwrap().len();
    assert!((15_900_000..=16_000_000).contains(&console), "{console}");
    let shifts = "matrix = { shift = [1, 2, 3, 4, 5], period = [";
    let many =
        |count: u32| format!("{shifts}{}] }}", (1..=count).map(|n| n.to_string()).collect::<Vec<_>>().join(", "));
    refused(&stranger("riscv64-exit0", &many(41)), &[], "more than 200 runs");
}

#[test]
fn a_matrix_that_no_memory_holds_is_bad_input() {
    let numbers: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
    let words: Vec<String> = numbers.iter().map(|number| format!("\"{number}\"")).collect();
    let (numbers, words) = (numbers.join(","), words.join(","));
    let matrix = format!("{{ machine = [{words}], cpu = [{words}], shift = [{numbers}], period = [{numbers}] }}");
    let suite = stranger("riscv64-exit0", &format!("matrix = {matrix}"));
    let result = suite.run(&["--list"]);
    assert_eq!(result.code, 2);
    assert!(result.stderr.contains("more than 100000 runs"), "{}", result.stderr);
}
