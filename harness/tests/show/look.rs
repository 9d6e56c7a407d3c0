// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the terminal shows a saved profile's contents to the last instruction. A missing part (sources,
//! symbols, a reader) affects nothing else.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use harness::analysis::functions;
use harness::profile::Profile;
use harness::text::printable::printable;

use crate::common::{self, Run, run};

fn harness(args: &[&str], profile: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command.arg(args[0]).arg(profile).args(&args[1..]);
    command
}

/// Standard output and standard error of a successful command.
#[track_caller]
fn look(args: &[&str], run: &Run) -> (String, String) {
    let output = harness(args, &run.dir).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(0), "{args:?}\n{stdout}{stderr}");
    (stdout, stderr)
}

/// Error message of a refused command, with exit code 2.
#[track_caller]
fn refused(args: &[&str], run: &Run) -> String {
    let output = harness(args, &run.dir).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}\n{stderr}");
    stderr
}

fn number(text: &str) -> u64 {
    text.replace(',', "").parse().unwrap_or_else(|_| panic!("{text}"))
}

/// Executions by address, from the instruction lines of `harness annotate`.
fn counts(annotated: &str) -> BTreeMap<u64, u64> {
    let insn = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().take(4).collect();
        let at = fields.iter().position(|field| field.starts_with("0x"))?;
        // Share and samples are left out when they are 0.
        let has_share = fields[0].ends_with('%');
        let address = u64::from_str_radix(&fields[at][2..], 16).ok()?;
        (line.starts_with(' ') || has_share).then(|| (address, number(fields[usize::from(has_share)])))
    };
    annotated.lines().skip_while(|line| !line.ends_with("Instruction")).skip(1).filter_map(insn).collect()
}

fn freertos(arch: &str) -> Run {
    run(&format!("{arch}-freertos"), &["--for", "3M"]).expect_code(0)
}

fn assert_annotated(name: &str, run: &Run) {
    let profile: Profile = run.profile();
    let table = functions::table(&profile);
    let executed = profile.insns();
    for row in table.rows.iter().filter(|row| row.kind == functions::RowKind::Function).take(12) {
        let start = row.start.unwrap();
        let (text, _) = look(&["annotate", &format!("{start:#x}")], run);
        let function = profile.names.function_at(start).unwrap();
        let expected: BTreeMap<u64, u64> =
            executed.range(start..start + function.size_bytes).map(|(&pc, &count)| (pc, count)).collect();
        let mut shown = counts(&text);
        assert!(shown.len() >= expected.len(), "{name} {}", row.name);
        assert!(!text.contains("(not in the image)"), "{name} {}:\n{text}", row.name);
        shown.retain(|_, count| *count > 0);
        assert_eq!(shown, expected, "{name} {}:\n{text}", row.name);
        assert_eq!(shown.values().sum::<u64>(), row.self_insns);
        let total: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!((number(total[1]), number(total[2])), (row.self_insns, row.samples), "{name} {}", row.name);
        let lines: u64 = text
            .lines()
            .skip_while(|line| !line.ends_with("Source line"))
            .skip(1)
            .take_while(|line| !line.is_empty())
            .map(|line| number(line.split_whitespace().nth(1).unwrap()))
            .sum();
        // FreeRTOS's assembly from macros has no lines.
        assert!(lines <= row.self_insns && (row.file.is_none() || lines > 0), "{name} {}:\n{text}", row.name);
    }
}

/// Notes without the single line that leads to the debugger.
fn without_way_in(notes: &str) -> String {
    let is_way = |line: &&str| line.starts_with("note: harness debug ") && line.contains(" --at ");
    assert_eq!(notes.lines().filter(is_way).count(), 1, "{notes}");
    notes.lines().filter(|line| !is_way(line)).map(|line| format!("{line}\n")).collect()
}

#[test]
fn every_count_of_a_function_is_shown_at_its_instruction() {
    let codes = regex::Regex::new("\x1b\\[[0-9;]*m").unwrap();
    for arch in ["riscv64", "cortex-m3"] {
        let run = freertos(arch);
        assert_annotated(arch, &run);
        let (text, notes) = look(&["annotate", "crc32_bitwise"], &run);
        assert!(text.contains("\ncrc.c:") && text.contains("[inlined: shift_byte > shift_bit]"), "{text}");
        assert!(text.contains("for (const uint8_t *p = data; size--; p++)"), "{text}");
        assert_eq!(without_way_in(&notes), "");
        assert_eq!(look(&["annotate", "crc.c:crc32_bitwise"], &run).0, text);
        // No colours without a terminal, unless asked for.
        assert!(!text.contains('\x1b'), "{text}");
        let (colored, _) = look(&["annotate", "crc32_bitwise", "--color", "always"], &run);
        assert_eq!(codes.replace_all(&colored, ""), text);
        assert!(colored.contains("\x1b[31m"), "{colored}");
    }
}

#[test]
fn functions_that_never_ran_and_code_in_ram_are_shown_too() {
    let run = freertos("riscv64");
    let profile = run.profile();
    let executed = profile.insns();
    let idle = profile.names.functions.iter().find(|function| {
        function.size_bytes > 8
            && executed.range(function.start..function.start + function.size_bytes).next().is_none()
    });
    let idle = idle.expect("every function ran");
    let (text, _) = look(&["annotate", &format!("{:#x}", idle.start)], &run);
    assert!(
        text.starts_with(&format!("{}\n", idle.name)) && counts(&text).values().all(|&count| count == 0),
        "{text}"
    );
    assert!(counts(&text).len() > 2, "{text}");
    for name in ["riscv64-ram", "cortex-m3-ram"] {
        assert_annotated(name, &common::run(name, &[]).expect_code(0));
    }
}

#[test]
fn the_table_is_the_one_of_the_run_and_sorts() {
    let run = freertos("cortex-m3");
    let (text, _) = look(&["top"], &run);
    let before_files = run.stdout.split("profile in ").next().unwrap();
    assert!(text.lines().count() > 20);
    assert_eq!(text, before_files);
    // Two spaces are between columns.
    let cells = |line: &str| -> Vec<String> {
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    let column = |sort: &str, heading: &str| -> Vec<String> {
        let (text, _) = look(&["top", "--top", "0", "--sort", sort], &run);
        let at = cells(text.lines().next().unwrap()).iter().position(|cell| cell == heading).unwrap();
        let rows = text.lines().skip(1).take_while(|line| !line.starts_with("Total"));
        rows.map(|line| cells(line)[at].clone()).collect()
    };
    for (sort, heading) in [("self", "Instructions"), ("calls", "Calls"), ("samples", "Samples")] {
        let numbers: Vec<u64> = column(sort, heading).iter().map(|text| number(text)).collect();
        assert!(numbers.is_sorted_by(|one, other| one >= other) && numbers.len() > 20, "{sort}: {numbers:?}");
    }
    let names = column("name", "Function");
    assert!(names.is_sorted() && names.len() > 20, "{names:?}");
}

#[test]
fn bins_add_up_to_the_run_at_any_width() {
    for arch in ["riscv64", "cortex-m3"] {
        let run = freertos(arch);
        let profile = run.profile();
        for (bytes, top, by) in
            [("2", "0", "address"), ("64", "5", "count"), ("4096", "0", "count"), ("2", "7", "address")]
        {
            let (text, _) = look(&["bins", "--bin-bytes", bytes, "--top", top, "--by", by], &run);
            let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
            let (total, rows) = rows.split_last().unwrap();
            assert_eq!((number(total[1]), number(total[3])), (profile.total_insns(), profile.samples.len() as u64));
            // The row `12 more` stands for rows that are left out.
            let of = |row: &Vec<&str>, column: usize| number(row[column + usize::from(row[1] == "more")]);
            assert_eq!(rows.iter().map(|row| of(row, 1)).sum::<u64>(), profile.total_insns(), "{text}");
            assert_eq!(rows.iter().map(|row| of(row, 3)).sum::<u64>(), profile.samples.len() as u64, "{text}");
            let shown = rows.iter().filter(|row| row[1] != "more");
            let key = |row: &&Vec<&str>| {
                if by == "count" { u64::MAX - number(row[1]) } else { u64::from_str_radix(&row[0][2..], 16).unwrap() }
            };
            assert!(shown.clone().map(|row| key(&row)).is_sorted(), "{text}");
            assert!(top == "0" || shown.count().to_string() == top, "{text}");
        }
        let (text, _) = look(&["bins"], &run);
        let hottest = functions::table(&profile).rows.swap_remove(0).name;
        assert!(text.contains(&hottest), "{text}");
        assert!(arch != "riscv64" || look(&["bins", "--top", "0"], &run).0.contains("[boot rom]"));
        assert!(refused(&["bins", "--bin-bytes", "3"], &run).contains("power of two"));
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let run = freertos("riscv64");
    for args in [&["annotate", "crc32_bitwise"][..], &["top", "--top", "0"], &["bins", "--top", "0"]] {
        let mut child = harness(args, &run.dir).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!((child.wait().unwrap().code(), errors.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn what_is_not_found_is_answered_with_what_there_is() {
    let run = freertos("riscv64");
    let message = refused(&["annotate", "crc32_bitwize"], &run);
    assert!(message.contains("did you mean `crc32_bitwise`"), "{message}");
    // Programs get the name of the function that has the inlined code; people see that part of the code.
    let message = refused(&["callers", "shift_bit", "--json"], &run);
    assert!(message.contains("inlined into") && message.contains("crc32_bitwise"), "{message}");
    let (text, _) = look(&["annotate", "shift_bit"], &run);
    assert!(text.starts_with("shift_bit") && text.contains("inlined into crc32_bitwise"), "{text}");
    let message = refused(&["annotate", "0x10"], &run);
    assert!(message.contains("no function is at 0x10"), "{message}");
    assert!(refused(&["annotate", "main", "--source-map", "nonsense"], &run).contains("FROM=TO"));
}

#[test]
fn cpp_names_do_with_and_without_their_arguments() {
    for arch in ["riscv64", "cortex-m3"] {
        let run = run(&format!("{arch}-cpp"), &[]).expect_code(0);
        let (text, _) = look(&["annotate", "firmware::drivers::Thermometer::read"], &run);
        assert!(text.starts_with("firmware::drivers::Thermometer::read("), "{text}");
        assert_eq!(look(&["annotate", "Thermometer::read"], &run).0, text);
        assert_annotated(arch, &run);
        let message = refused(&["annotate", "read"], &run);
        assert!(message.contains("`read` names") && message.contains("Barometer::read("), "{message}");
        assert!(message.contains("cpp.cpp:"), "{message}");
        let address = message.lines().find(|line| line.contains("Thermometer::read(")).unwrap();
        assert_eq!(look(&["annotate", address.split_whitespace().nth(1).unwrap()], &run).0, text);
    }
}

#[test]
fn without_sources_debug_information_or_symbols_the_counts_are_all_there() {
    let run = freertos("cortex-m3");
    let (with, _) = look(&["annotate", "crc32_bitwise"], &run);
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = |args: &[&str]| {
        let profile = run.dir.canonicalize().unwrap();
        let output = harness(args, &profile).current_dir(directory.path()).output().unwrap();
        assert!(output.status.success());
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let file = run.profile().names.find("crc32_bitwise").map(|found| found[0].address).unwrap();
    let file = run.profile().names.function_at(file).unwrap().file.clone().unwrap();
    let nowhere = format!("{}=/nonexistent", Path::new(&file).parent().unwrap().display());
    let (text, notes) = elsewhere(&["annotate", "crc32_bitwise", "--source-map", &nowhere]);
    let notes = without_way_in(&notes);
    assert!(notes.contains(&file) && notes.contains("--source-map") && notes.lines().count() == 1, "{notes}");
    assert_eq!(counts(&text), counts(&with));
    assert!(text.contains("crc.c:") && !text.contains("for (const"), "{text}");
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets/apps/work");
    let there = format!("{}={}", Path::new(&file).parent().unwrap().display(), here.display());
    let (text, notes) = elsewhere(&["annotate", "crc32_bitwise", "--source-map", &there]);
    assert_eq!((text, without_way_in(&notes)), (with, String::new()));

    let nodwarf = common::run("cortex-m3-bare-nodwarf", &[]).expect_code(0);
    assert_annotated("nodwarf", &nodwarf);
    let (text, notes) = look(&["annotate", "main"], &nodwarf);
    assert!(text.contains("Instruction\n ") && without_way_in(&notes).is_empty(), "{text}{notes}");

    let stripped = common::run("cortex-m3-bare-stripped", &[]).expect_code(0);
    let profile = stripped.profile();
    let message = refused(&["annotate", "main"], &stripped);
    assert!(message.contains("no names") && message.contains("0x"), "{message}");
    let table = functions::table(&profile);
    for row in &table.rows {
        let (text, _) = look(&["annotate", &format!("{:#x}", row.start.unwrap())], &stripped);
        assert!(text.starts_with(&row.name), "{text}");
        assert_eq!(counts(&text).values().sum::<u64>(), row.self_insns, "{text}");
        assert!(!text.contains("(not in the image)"), "{text}");
        assert_eq!(look(&["annotate", &row.name], &stripped).0, text);
    }
    assert!(table.total_insns > 0);
}

/// Image with names that no compiler gives, but a linker accepts.
#[test]
fn names_that_hurt_reach_no_terminal_as_they_are() {
    let run = freertos("riscv64");
    let mut profile = run.profile();
    let hottest = functions::table(&profile).rows.swap_remove(0).start.unwrap();
    let long = "x".repeat(1000);
    for name in ["\x1b]0;owned\x07\x1b[2J", "größe<寸法;\"a b\">::operator()(int, 寸法) const", &long] {
        for function in &mut profile.names.functions {
            if function.start == hottest {
                function.name = name.to_owned();
                function.linkage_name = name.to_owned();
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("hurt.fwp");
        std::fs::write(&file, profile.to_bytes().unwrap()).unwrap();
        let address = format!("{hottest:#x}");
        for args in [&["annotate", &address][..], &["annotate", name], &["top"], &["bins", "--top", "0"]] {
            let output = harness(args, &file).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success() && text.lines().count() > 10, "{args:?}\n{text}");
            assert!(!text.contains(|character: char| character.is_control() && character != '\n'), "{text:?}");
            // Names are not shortened, since the output is not a terminal; all other columns are narrow.
            let shown = printable(name);
            assert!(text.contains(&*shown), "{args:?}\n{text}");
            let widths = text.lines().skip(1).map(|line| console::measure_text_width(&line.replace(&*shown, "")));
            let widest = widths.max().unwrap();
            assert!(widest <= 400, "{args:?}: {widest} columns\n{text}");
        }
    }
}
