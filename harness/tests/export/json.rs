// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the format json: valid by its published schema, sums add up, jq reads it; csv has the same numbers.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use harness::analysis::functions;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::common::tools::{self, export};
use crate::common::{self, Run, run};

const IMAGES: [(&str, &[&str]); 6] = [
    ("riscv64-freertos", &["--for", "20M"]),
    ("cortex-m3-freertos", &["--for", "20M", "--exact"]),
    ("riscv64-smp", &["--for", "2M"]),
    ("cortex-m3-calls-pg", &["--period", "1009"]),
    ("cortex-m3-heap4", &["--heap"]),
    ("cortex-m3-bare-stripped", &["--for", "2M", "--no-stacks"]),
];

fn json(run: &Run) -> Value {
    serde_json::from_slice(&export(&run.dir, "json", &[])).unwrap()
}

/// Output of jq for a filter.
fn jq(json: &[u8], filter: &str) -> String {
    let mut jq = Command::new("jq")
        .args(["-r", filter])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("jq runs; ci/setup --tests installs it");
    jq.stdin.take().unwrap().write_all(json).unwrap();
    let output = jq.wait_with_output().unwrap();
    assert!(output.status.success(), "jq {filter}: {}", output.status);
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn every_profile_is_valid_by_the_published_schema() {
    let schema = Command::new(env!("CARGO_BIN_EXE_harness")).args(["export", "--schema"]).output().unwrap();
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("schema.json");
    fs::write(&path, &schema.stdout).unwrap();
    let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
    for (name, args) in IMAGES {
        let run = run(name, args);
        let file = temp.path().join("profile.json");
        fs::write(&file, export(&run.dir, "json", &[])).unwrap();
        common::viewer("schema.mjs", &[path.to_str().unwrap(), file.to_str().unwrap()]);
        // The schema names each field.
        let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(fields(&json(&run)), fields(&schema["properties"]), "{name}");
    }
}

/// Output of a command about a profile.
fn printed(args: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_harness")).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn commands_print_the_same_profile_as_json() {
    let temp = tempfile::tempdir().unwrap();
    let [image, out] =
        [common::image("cortex-m3-freertos"), temp.path().join("out")].map(|path| path.display().to_string());
    let printed_after = printed(&[&image, "--for", "2M", "-o", &out, "--json"]);
    let exported = export(temp.path().join("out").as_path(), "json", &[]);
    assert!(printed_after == exported && printed(&["top", &out, "--json"]) == exported);
    let file = temp.path().join("run.json");
    printed(&["run", "--for", "2M", "-o", &out, "--json", file.to_str().unwrap(), &image]);
    assert_eq!(fs::read(file).unwrap(), exported);
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn bins_callers_differences_and_reports_are_valid_by_their_schemas_and_add_up() {
    let run = run("riscv64-freertos", &["--for", "20M"]);
    let (dir, total) = (run.dir.to_str().unwrap(), run.profile().total_insns());
    let temp = tempfile::tempdir().unwrap();
    let valid = |schema: &[&str], document: &[u8], count: &str| {
        let [schema_file, file] = ["schema.json", "document.json"].map(|name| temp.path().join(name));
        fs::write(&schema_file, printed(schema)).unwrap();
        fs::write(&file, document).unwrap();
        common::viewer("schema.mjs", &[schema_file.to_str().unwrap(), file.to_str().unwrap(), count]);
        serde_json::from_slice::<Value>(document).unwrap()
    };
    let bins = printed(&["bins", dir, "--bin-bytes", "64", "--json"]);
    let document = valid(&["bins", "--schema"], &bins, "bins.0.insns");
    assert_eq!((&document["format"], &document["bin_bytes"]), (&"harness-bins".into(), &64.into()));
    assert_eq!(jq(&bins, "[.bins[].insns] | add"), total.to_string());

    let callers = printed(&["callers", dir, "crc32_table", "--depth", "2", "--json"]);
    let document = valid(&["callers", "--schema"], &callers, "callers.0.calls");
    assert_eq!(document["name"], "crc32_table");
    for sum in ["[.callers[].calls] | add", "[.callers[] | .calls] | add"] {
        assert_eq!(jq(&callers, sum), document["calls"].to_string());
    }
    // Own instructions and callees' add up to the inclusive ones, and so do the callers'.
    let inclusive = document["inclusive_insns"].to_string();
    assert_eq!(jq(&callers, "[.callers[].insns // 0] | add"), inclusive);
    assert_eq!(jq(&callers, "([.callees[].insns // 0] | add) + .self_insns"), inclusive);
    assert!(jq(&callers, "[.callers[].beyond[]] | length").parse::<u64>().unwrap() > 0);

    let longer = common::run("riscv64-freertos", &["--for", "30M"]);
    let diff = printed(&["diff", dir, longer.dir.to_str().unwrap(), "--json"]);
    let document = valid(&["diff", "--schema"], &diff, "version");
    assert_eq!(document["total_insns"]["before"], total);
    let change = jq(&diff, ".total_insns.after - .total_insns.before");
    assert_eq!(jq(&diff, "[.functions[].self_insns | (.after // 0) - (.before // 0)] | add"), change);
    assert!(change.parse::<u64>().unwrap() >= 9_000_000, "{change}");

    // Neither format is left out silently, nor is the picture.
    for others in [["--json", "--markdown"], ["--markdown", "--output=x.svg"], ["--json", "--output=x.svg"]] {
        let output = common::harness().args(["diff", dir, dir]).args(others).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{others:?}");
    }

    let suite = format!("[[image]]\nelf = {:?}\n", common::image("riscv64-exit0"));
    fs::write(temp.path().join("harness.toml"), suite).unwrap();
    let path = temp.path().join("harness.toml").display().to_string();
    let out = temp.path().join("reports").display().to_string();
    let report = printed(&["test", &path, "-o", &out, "--json"]);
    valid(&["test", "--schema"], &report, "cases.0.exit_code");
}

/// Output of a command in a directory.
fn printed_in(dir: &Path, args: &[&str]) -> Vec<u8> {
    let output = common::harness().current_dir(dir).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn each_commands_json_is_what_its_schema_says() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let exit = common::image("riscv64-exit0").canonicalize().unwrap();
    fs::copy(&exit, dir.join("fw.elf")).unwrap();
    let chip = common::image("chips/stm32f407-echo").canonicalize().unwrap();
    let [image, chip] = [exit.to_str().unwrap(), chip.to_str().unwrap()];
    let tasks = run("riscv64-freertos", &["--for", "20M"]);
    let heap = run("cortex-m3-heap4", &["--heap"]);
    let [tasks, heap] = [&tasks, &heap].map(|run| run.dir.to_str().unwrap());
    for (schema, words, count) in [
        ("annotate", &["annotate", tasks, "crc32_table", "--json"][..], "functions.0.lines.0.insns"),
        ("annotate", &["annotate", tasks, "--json"], "functions.0.instructions.0.count"),
        ("chip learn", &["chip", "learn", chip, "--for", "1M", "--json", "-o", "chip.toml"], "functions"),
        ("doctor", &["doctor", "--json"], "version"),
        ("heap", &["heap", heap, "--json"], "paths.0.allocated.bytes"),
        ("init", &["init", "fw.elf", "--json"], "version"),
        ("list", &["list", "machines", "--json"], "machines.0.memory.0.bytes"),
        ("list", &["list", "chips", "--json"], "chips.0.hz"),
        ("list", &["list", "formats", "--json"], "version"),
        ("list", &["list", "functions", tasks, "--json"], "functions.0.size_bytes"),
        ("list", &["list", "functions", image, "--json"], "functions.0.size_bytes"),
        ("list", &["list", "tasks", tasks, "--json"], "tasks.0.insns"),
        ("test", &["test", "-o", "part", "--json"], "cases.0.run.insns"),
        ("merge", &["merge", "part", "--json"], "cases.0.run.insns"),
        ("history", &["history", "part", "--json"], "images.0.runs.0.at"),
        ("top", &["top", tasks, "--json"], "functions.0.self_insns"),
    ] {
        let [schema_file, file] = ["schema.json", "document.json"].map(|name| dir.join(name));
        fs::write(&schema_file, printed_in(dir, &schema.split(' ').chain(["--schema"]).collect::<Vec<_>>())).unwrap();
        fs::write(&file, printed_in(dir, words)).unwrap();
        common::viewer("schema.mjs", &[schema_file.to_str().unwrap(), file.to_str().unwrap(), count]);
    }
}

#[test]
fn annotations_add_up_to_the_profile() {
    let run = run("riscv64-freertos", &["--for", "20M"]);
    let (dir, profile) = (run.dir.to_str().unwrap(), run.profile());
    let all = printed(&["annotate", dir, "--json"]);
    let named = functions::table(&profile).rows.into_iter().filter(|row| row.kind == functions::RowKind::Function);
    let named: u64 = named.map(|row| row.self_insns).sum();
    for sum in ["[.functions[].self_insns] | add", "[.functions[].instructions[].count] | add"] {
        assert_eq!(jq(&all, sum), named.to_string(), "{sum}");
    }
    // Each line has the instructions that refer to it.
    let lines = "[.functions[] | . as $f | .lines | to_entries[] | .key as $k | \
                 .value.insns - ([$f.instructions[] | select(.line == $k) | .count] | add // 0)] | unique";
    assert_eq!(jq(&all, lines).split_whitespace().collect::<String>(), "[0]");
    let one = printed(&["annotate", dir, "crc32_table", "--json"]);
    assert_eq!(jq(&one, ".functions[0]"), jq(&all, ".functions[] | select(.name == \"crc32_table\")"));
}

#[test]
fn everything_adds_up_to_the_profile_by_jq() {
    for (name, args) in IMAGES {
        let run = run(name, args);
        let profile = run.profile();
        let json = export(&run.dir, "json", &[]);
        let total = profile.total_insns().to_string();
        for filter in
            [".total_insns", "[.functions[].self_insns] | add", "[.insns[].count] | add", "[.paths[].insns] | add"]
        {
            assert_eq!(jq(&json, filter), total, "{name}: {filter}");
        }
        let samples = profile.samples.len().to_string();
        for filter in [
            ".total_samples",
            "[.functions[].samples] | add",
            "[.bins[].samples] | add",
            "[.paths[].samples] | add",
            ".samples | length",
        ] {
            assert_eq!(jq(&json, filter), samples, "{name}: {filter}");
        }
        let rows = functions::table(&profile).rows;
        let lines = rows.iter().map(|row| format!("{} {} {} {}", row.name, row.self_insns, row.calls, row.samples));
        let printed = jq(
            &json,
            ".functions[] | select(.self_insns > 0) | \"\\(.name) \\(.self_insns) \\(.calls) \\(.samples)\"",
        );
        assert_eq!(printed, lines.collect::<Vec<_>>().join("\n"), "{name}");
        let tree: u64 = profile.tree.iter().map(|node| node.insns).sum();
        assert_eq!(jq(&json, "[.tree[].insns] | add // 0"), tree.to_string(), "{name}");
        assert_eq!(tree, if args.contains(&"--exact") { profile.total_insns() } else { 0 }, "{name}");
        let counted = jq(&json, "[.in_target_arcs[].count] | add // 0");
        assert_eq!(counted != "0", name.ends_with("-pg"), "{name}: {counted}");
        // A sample's path ends in a function.
        let strays = "[. as $p | .samples[] | $p.frames[$p.paths[.path].frame].kind] | map(select(. == \"task\" or . == \"irq\")) | length";
        assert_eq!(jq(&json, strays), "0", "{name}");
    }
}

#[test]
fn functions_that_never_ran_are_there_with_nothing() {
    let run = run("riscv64-freertos", &["--for", "1M"]);
    let document = json(&run);
    let functions = document["functions"].as_array().unwrap();
    let idle = functions.iter().filter(|function| function["kind"] == "function" && function["self_insns"] == 0);
    assert!(idle.count() > 10);
    let named = functions.iter().filter(|function| function["kind"] == "function").count();
    assert_eq!(named, run.profile().names.functions.len());
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let run = run("cortex-m3-freertos", &["--for", "5M"]);
    for format in ["json", "csv"] {
        assert_eq!(tools::export_to_nobody(&run.dir, format), (Some(0), String::new()), "{format}");
    }
}

#[test]
fn a_table_for_spreadsheets_has_a_line_per_function() {
    let run = run("cortex-m3-cpp", &[]);
    let text = export(&run.dir, "csv", &[]);
    let mut reader = csv::Reader::from_reader(&text[..]);
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let expected = functions::table(&run.profile()).rows;
    assert_eq!(rows.len(), expected.len());
    assert!(expected.iter().any(|row| row.name.contains(", ")), "names with commas are what is tested");
    for (row, expected) in rows.iter().zip(expected) {
        assert_eq!(&row[0], expected.name);
        assert_eq!(&row[5], expected.self_insns.to_string());
        assert_eq!(&row[6], expected.calls.to_string());
    }
    let stripped = common::run("cortex-m3-bare-stripped", &["--for", "1M"]);
    assert!(String::from_utf8(export(&stripped.dir, "csv", &[])).unwrap().contains("\n[0x"));
}

#[test]
fn an_export_that_fails_leaves_what_was_there_and_says_what_to_do() {
    let run = run("cortex-m3-bare-stripped", &["--for", "1M"]);
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("kept");
    fs::write(&file, "kept").unwrap();
    let refused = |profile: &Path, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
        let output = command.arg("export").arg(profile).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let path = file.to_str().unwrap();
    assert!(refused(&run.dir, &["-f", "lcov", "-o", path]).contains("-g"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    let names = || fs::read_dir(temp.path()).unwrap().count();
    assert_eq!(names(), 1, "a half-written file is left");
    let error = refused(&run.dir, &["-f", "json", "-o", "/dev/full"]);
    assert!(error.contains("/dev/full: cannot be written: No space left on device"), "{error}");
    let error = refused(&run.dir, &["-f", "json", "-o", temp.path().to_str().unwrap()]);
    assert!(error.contains("choose another file with --output"), "{error}");
    assert!(refused(temp.path(), &["-f", "json"]).contains("is not a profile directory"));
    assert!(
        refused(&temp.path().join("none"), &["-f", "json"])
            .contains("there is no such profile; harness firmware.elf -o")
    );
    assert!(refused(&file, &["-f", "json"]).contains("it is not a profile; harness FIRMWARE makes one"));
    // What another build has saved is whole, and has another form or another number.
    let saved = fs::read(run.dir.join("profile.fwp")).unwrap();
    let (head, body) = (&saved[..8], &saved[41..]);
    let other_form = [head, Sha256::digest(body).as_slice(), body].concat();
    let other_number = [&saved[..6], &[0xff], &saved[7..]].concat();
    for bytes in [other_form, other_number] {
        fs::write(&file, bytes).unwrap();
        let error = refused(&file, &["-f", "json"]);
        assert!(error.contains("it was saved by another version of harness; run the firmware again"), "{error}");
    }
    export(&run.dir, "json", &["-o", path]);
    assert!(fs::read_to_string(&file).unwrap().starts_with("{\"format\":\"harness-profile\""));
}

#[test]
fn sources_that_are_elsewhere_are_so_in_every_format_that_names_them() {
    let run = run("riscv64-freertos", &["--for", "1M"]);
    for format in ["json", "csv", "callgrind", "lcov", "speedscope"] {
        let text = String::from_utf8(export(&run.dir, format, &["--source-map", "targets=/moved"])).unwrap();
        assert!(text.contains("/moved/apps/work/crc.c") && !text.contains("targets/apps/work/crc.c"), "{format}");
    }
}
