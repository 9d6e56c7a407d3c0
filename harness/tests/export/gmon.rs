// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: GNU gprof shows the exact profile of firmware that was built without `-pg`. All numbers here are read
//! from gprof's own output.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use harness::analysis::functions::{self, Table};
use harness::profile::Profile;
use tempfile::TempDir;

use crate::common::{image, run};

/// Profile that was exported.
struct Exported {
    dir: TempDir,
}

impl Exported {
    fn new(profile: &Profile, options: &[&str]) -> Exported {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("profile.fwp"), profile.to_bytes().unwrap()).unwrap();
        let exported = Exported { dir };
        for (format, file) in [("gmon", "gmon.out"), ("gmon-symbols", "symbols")] {
            let output = exported.export(&[&["--format", format, "-o", file], options].concat());
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        exported
    }

    fn export(&self, args: &[&str]) -> Output {
        export(self.dir.path(), args).output().unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Output of gprof for the image.
    #[track_caller]
    fn gprof(&self, firmware: &Path, args: &[&str]) -> String {
        let is_arm = firmware.file_name().unwrap().to_str().unwrap().starts_with("cortex");
        let tools: &[&str] =
            if is_arm { &["arm-none-eabi-gprof"] } else { &["riscv64-unknown-elf-gprof", "riscv64-elf-gprof"] };
        let output = tools.iter().find_map(|tool| {
            let mut gprof = Command::new(tool);
            gprof.args(["-b", "--no-demangle"]).args(args).arg(firmware).arg("gmon.out").current_dir(self.dir.path());
            gprof.output().ok()
        });
        let output = output.unwrap_or_else(|| panic!("{} is missing: run ci/setup --tests", tools[0]));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.is_empty(), "{}: {stderr}", firmware.display());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

fn export(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command.arg("export").arg("profile.fwp").args(args).current_dir(dir);
    command
}

/// Self instructions (as seconds at 1 Hz) and calls by function in `gprof -p`, whose calls leave recursion out.
fn flat(text: &str) -> BTreeMap<String, (u64, u64)> {
    let mut rows: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for line in text.lines().skip_while(|line| !line.contains("time   seconds")).skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(name), Some(insns)) = (words.last(), words.get(2)) else { continue };
        let insns = insns.strip_suffix(".00").unwrap_or_else(|| panic!("part of an instruction: {line}"));
        let row = rows.entry((*name).to_owned()).or_default();
        row.0 += insns.parse::<u64>().unwrap();
        row.1 += if words.len() == 7 { words[3].parse::<u64>().unwrap() } else { 0 };
    }
    rows
}

/// Calls and recursive calls by function in `gprof -q`.
fn graph(text: &str) -> BTreeMap<String, (u64, u64)> {
    let mut rows: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with('[')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, _, called, name, ..] = words[..] else { continue };
        let (calls, recursive) = called.split_once('+').unwrap_or((called, "0"));
        let Ok(calls) = calls.parse::<u64>() else { continue };
        let row = rows.entry(name.to_owned()).or_default();
        row.0 += calls;
        row.1 += recursive.parse::<u64>().unwrap();
    }
    rows
}

/// Self instructions and calls in harness's own table, by the name that gprof gets.
fn expected(table: &Table) -> BTreeMap<String, (u64, u64)> {
    let mut rows: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in &table.rows {
        let counts = rows.entry(row.linkage_name.replace(' ', "_")).or_default();
        *counts = (counts.0 + row.self_insns, counts.1 + row.calls);
    }
    rows
}

/// Checks all counts. Up to `in_flight` calls may lack a callee that had not begun when the window ended.
#[track_caller]
fn assert_exact(name: &str, profile: &Profile, mut in_flight: u64) {
    let exported = Exported::new(profile, &["--clock-hz", "1"]);
    let table = functions::table(profile);
    let expected = expected(&table);
    let firmware = image(name);
    let flat = flat(&exported.gprof(&firmware, &["-p", "-S", "symbols"]));
    let graph = graph(&exported.gprof(&firmware, &["-q", "-S", "symbols"]));
    assert_eq!(flat.values().map(|row| row.0).sum::<u64>(), profile.total_insns(), "{name}: total");
    for (function, &(self_insns, calls)) in &expected {
        let &(shown_insns, shown_calls) = flat.get(function).unwrap_or_else(|| panic!("{name}: no {function}"));
        assert_eq!(shown_insns, self_insns, "{name}: self of {function}");
        let (outer, recursive) = graph.get(function).copied().unwrap_or_default();
        let early = (outer + recursive).saturating_sub(calls).min(in_flight);
        in_flight -= early;
        assert_eq!(outer + recursive, calls + early, "{name}: calls of {function} in the call graph");
        assert_eq!(shown_calls, outer, "{name}: calls of {function} in the flat profile");
    }
    let others: Vec<_> = flat.iter().filter(|(function, _)| !expected.contains_key(*function)).collect();
    assert!(others.iter().all(|(_, counts)| **counts == (0, 0)), "{name}: {others:?}");
}

#[test]
fn gprof_shows_the_exact_instructions_and_calls_of_every_function() {
    for name in [
        "riscv64-freertos",
        "cortex-m3-freertos",
        "riscv64-freertos-Os",
        "cortex-m3-freertos-O3",
        "riscv32-bare",
        "riscv64-cpp",
        "cortex-m3-cpp",
        "cortex-m3-bare-stripped",
        "riscv64-pie",
        "riscv64-smp",
    ] {
        assert_exact(name, &run(name, &[]).expect_code(0).profile(), 0);
    }
}

#[test]
fn a_window_in_the_middle_of_everything_is_exact_too() {
    for (name, insns) in [("riscv64-freertos", "3000001"), ("cortex-m3-freertos", "7654321")] {
        let profile = run(name, &["--from", "crc32_table", "--for", insns]).expect_code(0).profile();
        assert_eq!(profile.total_insns().to_string(), insns);
        assert_exact(name, &profile, 1);
    }
}

#[test]
fn recursion_and_its_callers_are_in_the_call_graph() {
    let exported = Exported::new(&run("riscv64-freertos", &[]).profile(), &["--clock-hz", "1"]);
    let graph = exported.gprof(&image("riscv64-freertos"), &["-q", "-S", "symbols"]);
    let entry = graph
        .split("-----------------------------------------------")
        .find(|entry| entry.lines().any(|line| line.starts_with('[') && line.contains(" fib ")));
    let entry = entry.expect("no entry of fib");
    assert!(entry.contains("600+1070100"), "{entry}");
    assert!(entry.lines().any(|line| line.contains("600/600") && line.contains("recursion_unit")), "{entry}");
}

#[test]
fn without_the_symbol_list_gprof_agrees_on_the_functions_that_it_sees() {
    for name in ["riscv64-freertos", "cortex-m3-freertos"] {
        let profile = run(name, &[]).expect_code(0).profile();
        let exported = Exported::new(&profile, &["--clock-hz", "1"]);
        let flat = flat(&exported.gprof(&image(name), &["-p"]));
        let table = functions::table(&profile);
        for row in &table.rows[..10] {
            assert_eq!(flat[&row.linkage_name].0, row.self_insns, "{name}: {}", row.name);
        }
        assert!(flat.values().map(|row| row.0).sum::<u64>() <= table.total_insns);
    }
}

#[test]
fn seconds_come_from_the_virtual_clock_or_the_one_that_was_given() {
    let profile = run("riscv64-bare", &[]).expect_code(0).profile();
    let firmware = image("riscv64-bare");
    for (options, sample) in [(&[][..], "8e-09"), (&["--clock-hz", "25M"], "4e-08"), (&["--clock-hz", "2"], "0.5")] {
        let text = Exported::new(&profile, options).gprof(&firmware, &["-p"]);
        assert!(text.contains(&format!("Each sample counts as {sample} seconds.")), "{options:?}: {text}");
    }
    let exported = Exported::new(&profile, &[]);
    for clock in ["0", "5G", "fast"] {
        let output = exported.export(&["--format", "gmon", "-o", "x", "--clock-hz", clock]);
        assert_eq!(output.status.code(), Some(2));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(&format!("--clock-hz {clock}: ")), "{stderr}");
        assert!(!exported.file("x").exists());
    }
}

#[test]
fn counts_above_16_and_32_bits_add_up() {
    let mut profile = run("cortex-m3-bare", &[]).expect_code(0).profile();
    let table = functions::table(&profile);
    let main = table.rows.iter().find(|row| row.name == "main").unwrap();
    let start = main.start.unwrap();
    let counts = &mut profile.vcpus[0];
    let insn = counts.insns.iter_mut().find(|insn| insn.pc == start).unwrap();
    let more = 4_000_000_000 - insn.count;
    insn.count += more;
    let arc = counts.arcs.iter_mut().find(|arc| arc.target == start).unwrap();
    arc.count += 3 * more;
    let calls = arc.count;
    let exported = Exported::new(&profile, &["--clock-hz", "1"]);
    let firmware = image("cortex-m3-bare");
    let flat = flat(&exported.gprof(&firmware, &["-p", "-S", "symbols"]));
    assert_eq!(flat["main"], (main.self_insns + more, calls));
    assert_eq!(flat.values().map(|row| row.0).sum::<u64>(), table.total_insns + more);

    // The reader goes away in the middle of these megabytes.
    let mut command = export(exported.dir.path(), &["-f", "gmon"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut head = [0; 4];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut head).unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((&head, output.status.code()), (b"gmon", Some(0)), "{}", String::from_utf8_lossy(&output.stderr));

    profile.vcpus[0].insns[0].count = 1 << 32;
    fs::write(exported.file("profile.fwp"), profile.to_bytes().unwrap()).unwrap();
    let output = exported.export(&["-f", "gmon", "-o", "x"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("more than gprof can add up"), "{stderr}");
}

#[test]
fn the_file_is_small_and_always_the_same() {
    let profile = run("riscv64-freertos", &[]).expect_code(0).profile();
    let (one, other) = (Exported::new(&profile, &[]), Exported::new(&profile, &[]));
    for file in ["gmon.out", "symbols"] {
        assert_eq!(fs::read(one.file(file)).unwrap(), fs::read(other.file(file)).unwrap());
    }
    // The boot ROM and the firmware are 2 GB apart.
    assert!(fs::metadata(one.file("gmon.out")).unwrap().len() < 100_000);
}

#[test]
fn a_profile_of_nothing_is_a_profile() {
    let mut profile = run("cortex-m3-exit0", &[]).expect_code(0).profile();
    profile.vcpus.clear();
    profile.samples.clear();
    let exported = Exported::new(&profile, &[]);
    for args in [&["-p"][..], &["-q"], &["-p", "-S", "symbols"]] {
        exported.gprof(&image("cortex-m3-exit0"), args);
    }
    let text = exported.gprof(&image("cortex-m3-exit0"), &["-p"]);
    assert!(text.contains("no time accumulated"), "{text}");
}

#[test]
fn names_that_gprof_could_not_read_reach_it_as_words() {
    let mut profile = run("cortex-m3-bare", &[]).expect_code(0).profile();
    let long = "long_".repeat(220);
    let names = [
        "std::map<int, char const*>::at(int) \"x\";",
        "core::ptr::drop_in_place<[u8; 4]>\n",
        "über$größe",
        &long,
        "",
        "twin",
        "twin",
        "f.part.0",
    ];
    let hot: Vec<u64> =
        functions::table(&profile).rows.iter().filter_map(|row| row.start).take(names.len()).collect();
    for (name, start) in names.iter().zip(&hot) {
        let function = profile.names.functions.iter_mut().find(|function| function.start == *start).unwrap();
        function.linkage_name = (*name).to_owned();
    }
    let table = functions::table(&profile);
    let exported = Exported::new(&profile, &["--clock-hz", "1"]);
    let flat = flat(&exported.gprof(&image("cortex-m3-bare"), &["-p", "-S", "symbols"]));
    assert_eq!(flat.values().map(|row| row.0).sum::<u64>(), table.total_insns);
    let insns = |wanted: &str| -> u64 {
        table.rows.iter().filter(|row| row.linkage_name == wanted).map(|row| row.self_insns).sum()
    };
    let shown = |wanted: &dyn Fn(&str) -> bool| -> Vec<u64> {
        flat.iter().filter(|(name, _)| wanted(name)).map(|(_, row)| row.0).collect()
    };
    assert_eq!(shown(&|name| name == "std::map<int,_char_const*>::at(int)_\"x\";"), [insns(names[0])]);
    assert_eq!(shown(&|name| name == "core::ptr::drop_in_place<[u8;_4]>_"), [insns(names[1])]);
    assert_eq!(shown(&|name| name == names[2]), [insns(names[2])]);
    assert_eq!(shown(&|name| name.starts_with("long_")), [insns(&long)]);
    assert_eq!(shown(&|name| name == format!("[{:#010x}]", hot[4])), [insns("")]);
    assert_eq!(shown(&|name| name == "twin"), [insns("twin")]);
    assert_eq!(shown(&|name| name == "f.part.0"), [insns("f.part.0")]);
}
