// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the report is a single page that shows the profile's own numbers, answers to clicks and keys, makes
//! no network request, and accepts any function name. Chromium opens it, by ci/viewers/report.mjs.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::analysis::bins::bins;
use harness::analysis::callgraph::CallGraph;
use harness::analysis::calltree::CallTree;
use harness::analysis::compare::compare;
use harness::analysis::listing::Lister;
use harness::analysis::metrics::Metrics;
use harness::analysis::owner::Owner;
use harness::analysis::source::Sources;
use harness::analysis::stacks::{self, Exceptions, FrameRole, View};
use harness::analysis::{crosscheck, describe, functions};
use harness::profile::{FILE_NAME, Function, Profile, SpanKind, StackFrame};
use harness::text::number::group;
use harness::text::printable::is_command;
use serde_json::{Value, json};
use wire::definition::FrameKind;

use crate::common::{made, names, run, synthetic, viewer};

/// Writes the report of a profile; returns its path and the messages.
fn report(profile: &Path, dir: &Path, args: &[&str]) -> (PathBuf, String) {
    let page = dir.join("page.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    let output = command.arg("report").arg(profile).args(args).arg("-o").arg(&page).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    (page, stderr)
}

fn saved(profile: &Profile, dir: &Path) -> PathBuf {
    let path = dir.join(FILE_NAME);
    fs::write(&path, profile.to_bytes().unwrap()).unwrap();
    path
}

fn watch(what: &str, page: &Path, expected: Option<(&Path, Value)>) -> Value {
    let mut args = vec![what.to_owned(), page.to_str().unwrap().to_owned()];
    if let Some((dir, value)) = expected {
        let file = dir.join("expected.json");
        fs::write(&file, value.to_string()).unwrap();
        args.push(file.to_str().unwrap().to_owned());
    }
    viewer("report.mjs", &args.iter().map(String::as_str).collect::<Vec<_>>())
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2}%", 100.0 * part as f64 / whole.max(1) as f64)
}

/// Instructions in a task, and those that each of its functions executes itself with its inlined functions.
fn in_task(tree: &CallTree, name: &str) -> (u64, BTreeMap<String, u64>) {
    let (mut total, mut functions) = (0, BTreeMap::new());
    let name = format!("task {name}");
    let summed: Result<(), Infallible> = tree.each(|members, path| {
        if members[0].frame.role == FrameRole::Task && members[0].frame.name == name {
            total += path.insns;
            let function = members.iter().rfind(|member| member.frame.role != FrameRole::Inlined).unwrap();
            *functions.entry(function.frame.name.clone()).or_default() += path.insns;
        }
        Ok(())
    });
    let Ok(()) = summed;
    (total, functions)
}

/// Expected contents of the page with one task alone.
fn of_task(profile: &Profile, tree: &CallTree, name: &str) -> Value {
    let (insns, functions) = in_task(tree, name);
    let (hottest, self_insns) = functions.iter().max_by_key(|(_, insns)| **insns).unwrap();
    json!({
        "name": name,
        "insns": group(insns),
        "share": percent(insns, profile.total_insns()),
        "hottest": hottest,
        "self": group(*self_insns),
        "share_below": percent(*self_insns, insns),
    })
}

/// Caller of a function on the path with the most instructions.
fn caller_of_most(tree: &CallTree, name: &str) -> String {
    let mut callers: BTreeMap<String, u64> = BTreeMap::new();
    let summed: Result<(), Infallible> = tree.each(|members, path| {
        if let Some(at) = members.iter().position(|member| member.frame.name == name) {
            let caller = members[..at].iter().rfind(|member| member.frame.role != FrameRole::Inlined).unwrap();
            *callers.entry(caller.frame.name.clone()).or_default() += path.insns;
        }
        Ok(())
    });
    let Ok(()) = summed;
    callers.into_iter().max_by_key(|&(_, insns)| insns).unwrap().0
}

/// Expected contents of the page, computed from the profile without the report's code.
/// Colours of the tasks' frames in a flamegraph, by the frames' names.
fn fills(svg: &Path) -> BTreeMap<String, String> {
    let svg = fs::read_to_string(svg).unwrap();
    let frames = svg.split("<g><title>").filter_map(|frame| {
        let (name, rest) = frame.split_once(" (")?;
        let (_, fill) = rest.split_once("fill=\"")?;
        Some((name.to_owned(), fill.split('"').next()?.to_owned()))
    });
    frames.filter(|(name, _)| name.starts_with("task ")).collect()
}

fn expected(profile: &Profile, chosen: &str, saved: &Path, svg: &Path) -> Value {
    let table = functions::table(profile);
    let hottest = &table.rows[0];
    let most_called = table.rows.iter().rev().max_by_key(|row| row.calls).unwrap();
    let tree = CallTree::new(profile, View::default());
    let mut below = 0;
    let summed: Result<(), Infallible> = tree.each(|members, path| {
        below += if members.iter().any(|member| member.frame.name == hottest.name) { path.insns } else { 0 };
        Ok(())
    });
    let Ok(()) = summed;
    let sums = tree.inclusive_insns();
    let task = &profile.tasks.iter().zip(stacks::task_names(profile)).max_by_key(|(task, _)| task.insns).unwrap().1;
    let roots = tree.paths.iter().zip(&sums).filter(|(path, _)| path.parent == 0).rev();
    let (widest, widest_insns) = roots.max_by_key(|(_, insns)| **insns).unwrap();
    let widest = &tree.members[widest.member as usize].frame;
    assert_eq!(widest.role, FrameRole::Task);

    let row = table.rows.iter().find(|row| row.name == chosen).unwrap();
    let place = Owner::of(profile, row.start.unwrap());
    let graph = CallGraph::new(profile, &CallTree::new(profile, View::default()));
    let callers = graph.callers(&graph.party(row.start));
    let mut callers: Vec<(String, String)> =
        callers.into_iter().map(|(party, edge)| (party.name(profile), group(edge.calls))).collect();
    callers.sort_by_key(|(name, calls)| format!("{name},{calls}"));
    assert!(callers.len() > 1, "{callers:?}");
    let listing = Lister::new(profile).unwrap().list(place, &mut Sources::default());
    let insns: Vec<_> = listing.instructions().map(|insn| (format!("{:#010x}", insn.address), insn.count)).collect();
    assert_eq!(insns.iter().map(|(_, count)| count).sum::<u64>(), row.self_insns);
    let lines: Vec<_> = listing.lines.iter().map(|line| (line.line, line.insns)).collect();

    let mut tasks: Vec<_> = profile.tasks.iter().zip(stacks::task_names(profile)).collect();
    tasks.sort_by_key(|(task, _)| std::cmp::Reverse(task.insns));
    let tasks: Vec<_> = tasks.into_iter().map(|(task, name)| (name, group(task.insns))).collect();
    let irqs = tree.members.iter().filter(|member| member.frame.role == FrameRole::Irq);
    let mut interrupts: BTreeSet<String> = irqs.map(|member| member.frame.name.clone()).collect();
    let exceptions = Exceptions::new(profile);
    interrupts.extend(profile.spans.iter().filter_map(|span| match span.kind {
        SpanKind::Exception { number } => Some(exceptions.name(number, span.longest_at)),
        _ => None,
    }));
    let mut bins = bins(profile, profile.facts.bin_bytes);
    bins.sort_by_key(|bin| std::cmp::Reverse(bin.insns));
    let check = crosscheck::check(profile, &table);
    let check: Vec<String> =
        check.to_string().lines().map(str::to_owned).chain(check.in_target_lines(None)).collect();
    json!({
        "hottest": {
            "name": hottest.name,
            "self": group(hottest.self_insns),
            "share_below": percent(below, table.total_insns),
            "below": group(below),
            "caller": caller_of_most(&tree, &hottest.name),
        },
        "fills": fills(svg),
        "task": of_task(profile, &tree, task),
        "saved": saved.join(FILE_NAME),
        "most_called": most_called.name,
        "total": group(table.total_insns),
        "widest": { "name": widest.name, "kind": "task", "insns": group(*widest_insns) },
        "chosen": {
            "name": row.name,
            "self": group(row.self_insns),
            "calls": group(row.calls),
            "callers": callers,
            "lines": lines,
            "insns": insns,
        },
        "tasks": tasks,
        "interrupts": interrupts,
        "bin": [format!("{:#010x}", bins[0].start), group(bins[0].insns)],
        "bin_function": Owner::of(profile, bins[0].start).to_string(),
        "check": check,
        "facts": [profile.facts.image_sha256, describe::describe_end(profile), "--for 6000000"],
    })
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn clicks_and_keys_lead_to_the_numbers_of_the_profile() {
    for (image, args) in
        [("riscv64-freertos", &["--for", "6M", "--exact"][..]), ("cortex-m3-freertos", &["--for", "6M"])]
    {
        let run = run(image, args).expect_code(0);
        let temp = tempfile::tempdir().unwrap();
        let (page, _) = report(&run.dir, temp.path(), &[]);
        watch(
            "look",
            &page,
            Some((
                temp.path(),
                expected(
                    &run.profile(),
                    "crc32_table",
                    &run.dir.canonicalize().unwrap(),
                    &run.dir.join("flamegraph.svg"),
                ),
            )),
        );
        // Equal profiles give equal bytes, also on standard output.
        let mut again = Command::new(env!("CARGO_BIN_EXE_harness"));
        let again = again.arg("report").arg(&run.dir).args(["-o", "-"]).output().unwrap();
        assert!(again.stdout == fs::read(&page).unwrap(), "{image}: other bytes");
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn each_thread_of_each_kernel_can_be_looked_at_alone() {
    for image in ["cortex-m3-threadx", "riscv32-zephyr", "cortex-m3-zephyr-named", "cortex-m3-riot", "riscv64-nuttx"]
    {
        let run = run(image, &["--exact", "--period", "97"]);
        let (profile, temp) = (run.profile(), tempfile::tempdir().unwrap());
        let tree = CallTree::new(&profile, View::default());
        let tasks: Vec<Value> =
            stacks::task_names(&profile).iter().map(|name| of_task(&profile, &tree, name)).collect();
        assert!(tasks.len() > 2, "{image}: {tasks:?}");
        let (page, _) = report(&run.dir, temp.path(), &[]);
        watch("alone", &page, Some((temp.path(), json!(tasks))));
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn heat_maps_name_their_rows_and_have_an_axis() {
    // More functions than a small map had room to name.
    let run = run("riscv64-freertos", &["--for", "20M", "--slice", "1M"]).expect_code(0);
    let temp = tempfile::tempdir().unwrap();
    let (page, _) = report(&run.dir, temp.path(), &[]);
    let maps = watch("slices", &page, None);
    assert!(maps[0]["rows"].as_u64().unwrap() > 30, "{maps}");
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn two_runs_are_compared_by_function_and_where_they_can_be_by_path() {
    // The changes of a whole run have ten characters and more.
    let new = run("riscv64-freertos", &[]).expect_code(0);
    let profile = new.profile();
    for (image, args) in [("riscv64-freertos-O3", &[][..]), ("riscv64-freertos-O3", &["--exact"])] {
        let old = run(image, args).expect_code(0);
        let before = old.profile();
        let comparison = compare(Some(&Metrics::of(&before)), &Metrics::of(&profile));
        let known = |number: Option<u64>| number.map_or("–".to_owned(), group);
        let rows = comparison.functions.iter().filter(|change| change.is_one()).take(3).map(|change| {
            let insns = change.self_insns();
            let difference = insns.difference();
            let sign = if difference > 0 { "+" } else { "-" };
            let signed = format!("{sign}{}", group(difference.unsigned_abs() as u64));
            [change.name.clone(), known(insns.before), known(insns.after), signed]
        });
        let rows: Vec<_> = rows.collect();
        let roots = |profile: &Profile| -> BTreeMap<String, u64> {
            let tree = CallTree::new(profile, View::default());
            let roots = tree.paths.iter().zip(tree.inclusive_insns()).filter(|(path, _)| path.parent == 0);
            roots.map(|(path, insns)| (tree.members[path.member as usize].frame.name.clone(), insns)).collect()
        };
        let (now, then) = (roots(&profile), roots(&before));
        let (widest, insns) = now.iter().max_by_key(|(_, insns)| **insns).unwrap();
        // Divided counts, since tasks share functions: marked as approximate.
        let paths = format!("\u{2248}{} before", group(then[widest]));
        assert_ne!(then[widest], *insns);
        let temp = tempfile::tempdir().unwrap();
        let (page, _) = report(&new.dir, temp.path(), &["--before", old.dir.to_str().unwrap()]);
        let totals = format!("{} → {} instructions", group(before.total_insns()), group(profile.total_insns()));
        // Paths of an exact tree do not compare with sampled ones.
        let paths = if args.contains(&"--exact") { Value::Null } else { json!(paths) };
        let explained = comparison.explain();
        let (_, causes) = explained.split_once("by own lines").unwrap();
        let expected = json!({ "text": [totals, format!("By own lines{causes}.")], "rows": rows, "paths": paths });
        watch("compared", &page, Some((temp.path(), expected)));
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn the_page_has_what_was_printed_and_when_where_that_is_known() {
    let temp = tempfile::tempdir().unwrap();
    let mut profile = made::empty(1000);
    made::execute(&mut profile, 0x40, 5000);
    profile.console_marks = vec![(1000, 3), (2000, 9), (5000, 9)];
    saved(&profile, temp.path());
    fs::write(temp.path().join("console.log"), "ab\r\n<b>x\n").unwrap();
    let (page, _) = report(temp.path(), temp.path(), &[]);
    let seen = watch("read", &page, None);
    let text = seen["text"].as_str().unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let at = lines.iter().position(|line| *line == "ab").unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!(lines[at - 2..=at], ["1", "2,000", "ab"]);
    assert!(lines.contains(&"<b>x"), "{lines:?}");

    // Each run can compute these times, unless its samples are so dense that this would take time.
    for (args, is_known) in [(&["--for", "3M"][..], true), (&["--for", "3M", "--period", "100"], false)] {
        let run = run("cortex-m3-freertos", args).expect_code(0);
        let profile = run.profile();
        let marks = &profile.console_marks;
        assert!(marks.is_sorted_by_key(|mark| mark.1) && marks.is_empty() != is_known, "{args:?}: {marks:?}");
        let end = (profile.total_insns(), run.console().len() as u64);
        assert_eq!(marks.last().copied(), is_known.then_some(end), "{args:?}");
    }
}

/// The page's visible form of invisible characters.
fn visible(name: &str) -> String {
    let mut text = String::new();
    for character in name.chars() {
        match u32::from(character) {
            code @ 0..=0x1f => text.push(char::from_u32(0x2400 + code).unwrap()),
            code if is_command(character) => text += &format!("\\u{code:04x}"),
            _ => text.push(character),
        }
    }
    text
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn names_that_hurt_are_text() {
    let temp = tempfile::tempdir().unwrap();
    let mut profile = names::profile();
    let start = 0x3_0000;
    let name = "<img src=x onerror=alert(1)>".to_owned();
    let (file, line) = (Some("<b>.c".to_owned()), Some(1));
    profile.names.functions.push(Function { linkage_name: name.clone(), name, start, size_bytes: 16, file, line });
    made::execute(&mut profile, start, 5);
    let mut wanted: Vec<String> = names::functions().iter().map(|function| visible(&function.name)).collect();
    wanted.push("<img src=x onerror=alert(1)>".to_owned());
    profile.facts.image_name = "<title><script>alert(1)<script>.elf".to_owned();
    let (page, _) = report(&saved(&profile, temp.path()), temp.path(), &[]);
    let text = fs::read_to_string(&page).unwrap();
    // The data and the script are the only two scripts; no name has added one.
    assert_eq!((text.matches("<script").count(), text.matches("</script>").count()), (2, 2));
    let data = text.split_once("type=\"application/json\">").unwrap().1.split_once("</script>").unwrap().0;
    assert!(!data.contains('<'));
    watch("names", &page, Some((temp.path(), json!(wanted))));
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn twenty_thousand_functions_are_a_small_document_in_a_small_file() {
    let temp = tempfile::tempdir().unwrap();
    let profile = synthetic::of_functions(20_000, 100_000);
    let (page, _) = report(&saved(&profile, temp.path()), temp.path(), &[]);
    let bytes = fs::metadata(&page).unwrap().len();
    assert!(bytes < 10_000_000, "{bytes} bytes");
    let seen = watch("large", &page, None);
    assert_eq!(seen["rows"], 20_000);
    let elements = seen["elements"].as_u64().unwrap();
    assert!((300..4000).contains(&elements), "{elements} elements");
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn a_page_of_nothing_says_so() {
    let temp = tempfile::tempdir().unwrap();
    let (page, _) = report(&saved(&made::empty(1000), temp.path()), temp.path(), &[]);
    let seen = watch("read", &page, None);
    assert!(seen["headline"].as_str().unwrap().contains("No instruction was executed"), "{seen:#}");
    assert_eq!(seen["sections"], json!(["summary", "check", "run"]));
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn images_of_all_kinds_have_a_page() {
    for (image, args, parts) in [
        ("riscv64-smp", &["--for", "2M"][..], &["vCPUs"][..]),
        ("cortex-m3-bare-stripped", &["--for", "2M"], &["in code without a name", "[0x"]),
        ("cortex-m3-cpp", &["--no-stacks"], &["no call stacks were taken", "none were taken", "--no-stacks"]),
        ("riscv64-bare", &["--for", "1M", "--exact"], &["every call and return was followed", "--exact"]),
    ] {
        let run = run(image, args);
        let temp = tempfile::tempdir().unwrap();
        let (page, _) = report(&run.dir, temp.path(), &[]);
        let seen = watch("read", &page, None);
        let text = format!("{}{}", seen["headline"], seen["text"]);
        for part in parts {
            assert!(text.contains(part), "{image}: {part} not in {text}");
        }
        assert!(text.contains(&group(run.profile().total_insns())), "{image}: {text}");
    }
}

#[test]
fn interrupts_can_have_a_root_of_their_own() {
    let mut profile = made::empty(10);
    let function = |name: &str, start| Function {
        name: name.to_owned(),
        linkage_name: name.to_owned(),
        start,
        size_bytes: 16,
        file: None,
        line: None,
    };
    profile.names.functions = vec![function("main", 0x40), function("SysTick_Handler", 0x60)];
    profile.stacks.push(StackFrame { parent: 0, kind: FrameKind::Exception { number: 15, handler: 0x60, pc: 0x42 } });
    made::execute(&mut profile, 0x42, 100);
    made::execute(&mut profile, 0x62, 50);
    for (pc, count, stack) in [(0x42, 10, 0), (0x62, 5, 1)] {
        for _ in 0..count {
            made::sample(&mut profile, pc, stack, 0);
        }
    }
    let temp = tempfile::tempdir().unwrap();
    let path = saved(&profile, temp.path());
    let depths = |args: &[&str]| {
        let text = fs::read_to_string(report(&path, temp.path(), args).0).unwrap();
        let paths = text.split_once("\"paths\":{\"depth\":").unwrap().1;
        paths.split_once(",\"member\"").unwrap().0.to_owned()
    };
    // `main` with the interrupt and its handler on top, or both side by side.
    assert_eq!(depths(&[]), "[0,1,2]");
    assert_eq!(depths(&["--fold-irqs"]), "[0,1,0]");
}
