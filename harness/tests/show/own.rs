// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a function's instructions have one number under one heading, either with or without its inlined
//! functions, and each function named in a verdict or a comparison can be looked at by that name.

use std::path::Path;
use std::process::Command;

use harness::analysis::compare::{Change, compare};
use harness::analysis::listing::Lister;
use harness::analysis::lookup;
use harness::analysis::metrics::Metrics;
use harness::analysis::source::Sources;
use harness::text::number::group;

use crate::common::{Run, run};

/// Standard output of a successful command.
#[track_caller]
fn harness(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_harness")).args(args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn path(run: &Run) -> &str {
    run.dir.to_str().unwrap()
}

fn before_and_after() -> [Run; 2] {
    ["cortex-m3-freertos", "cortex-m3-freertos-O3"].map(|name| run(name, &["--for", "4M"]).expect_code(0))
}

/// Cell of a function's row under a heading; columns are two or more spaces apart.
fn cell<'t>(table: &'t str, function: &str, heading: &str) -> &'t str {
    let head = table.lines().find(|line| line.starts_with("Function ")).unwrap();
    let end = head.find(heading).unwrap_or_else(|| panic!("no {heading} in {head}")) + heading.len();
    // A status in brackets may follow the name.
    let name = |line: &'t str| line.split("  ").next().and_then(|name| name.split(" [").next());
    let line = table.lines().find(|line| name(line) == Some(function));
    let line = line.unwrap_or_else(|| panic!("no {function} in {table}"));
    // A line that ends before the heading's end has an empty cell: numbers end where their headings do.
    if line.chars().count() < end {
        return "";
    }
    let at = line.char_indices().map(|(at, _)| at).nth(end).unwrap_or(line.len());
    line[..at].rsplit("  ").next().unwrap_or_default().trim()
}

#[test]
fn own_lines_and_code_have_headings_of_their_own_and_the_same_numbers_everywhere() {
    let [before, after] = before_and_after();
    let (diff, top) = (
        harness(&["diff", path(&before), path(&after), "--top", "0"]),
        harness(&["top", path(&after), "--top", "0"]),
    );
    let profile = after.profile();
    let (metrics, table) = (Metrics::of(&profile), harness::analysis::functions::table(&profile));
    let mut both = 0;
    for row in table.rows.iter().filter(|row| row.calls > 0 && diff.contains(&format!("\n{} ", row.name))) {
        let changed = cell(&diff, &row.name, "With inlined");
        let code = changed.rsplit(" \u{2192} ").next().unwrap();
        let own = cell(&diff, &row.name, "Own after");
        assert_eq!(cell(&top, &row.name, "Instructions"), group(row.self_insns), "{}", row.name);
        assert_eq!(cell(&top, &row.name, "Own lines"), own, "{}", row.name);
        // The number with inlined functions is left out where it equals the other.
        assert_eq!(if code.is_empty() { own } else { code }, group(row.self_insns), "{}: {diff}", row.name);
        both += usize::from(!code.is_empty());
    }
    assert!(both > 3, "{diff}");
    for text in [&diff, &top] {
        assert!(text.contains("with what is inlined into it"), "{text}");
    }
    // Each function's own change, and its share of all instructions.
    let comparison = compare(Some(&Metrics::of(&before.profile())), &metrics);
    let fib = comparison.functions.iter().find(|change| change.name == "fib").unwrap().self_insns();
    let share = format!("+{:.2} %", 100.0 * fib.difference() as f64 / fib.before.unwrap() as f64);
    assert_eq!(cell(&diff, "fib", "Change"), share);
    assert!(comparison.explain().contains(", by own lines: "), "{}", comparison.explain());
}

#[test]
fn each_function_that_a_comparison_names_can_be_looked_at_by_that_name() {
    let [before, after] = before_and_after();
    let (old, profile) = (before.profile(), after.profile());
    let lister = Lister::new(&profile).unwrap();
    let comparison = compare(Some(&Metrics::of(&old)), &Metrics::of(&profile));
    let is_there = |change: &&Change| change.self_insns().after.is_some() && !change.name.starts_with('[');
    let (mut inlined_ones, mut own_sum) = (Vec::new(), 0);
    for change in comparison.functions.iter().filter(is_there) {
        let own_insns = change.self_insns().after.unwrap();
        let (places, inlined) =
            lookup::places_or_inlined(&profile, &change.name).unwrap_or_else(|error| panic!("{error}"));
        let shown: u64 = match &inlined {
            None => lister.list(places[0], &mut Sources::default()).own_insns,
            Some(inlined) => {
                inlined_ones.push(change.name.clone());
                let lists = places.iter().map(|&place| lister.list_inlined(place, inlined, &mut Sources::default()));
                lists.map(|listing| listing.own_insns).sum()
            }
        };
        assert_eq!(shown, own_insns, "{}", change.name);
        own_sum += shown;
    }
    assert!(own_sum > profile.total_insns() / 2 && inlined_ones.len() > 2, "{inlined_ones:?}");
    for name in &inlined_ones {
        let own =
            comparison.functions.iter().find(|change| change.name == *name).unwrap().self_insns().after.unwrap();
        let annotated = harness(&["annotate", path(&after), name]);
        assert!(annotated.contains(", inlined into ") && annotated.contains(&group(own)), "{name}: {annotated}");
        let callers = harness(&["callers", path(&after), name]);
        let last = callers.lines().take_while(|line| !line.is_empty()).last().unwrap();
        assert!(last.split_whitespace().next() == Some(&*group(own)) && last.ends_with(&**name), "{name}: {callers}");
        assert!(callers.contains("nothing calls it: it has no code of its own"), "{callers}");
    }
    // Programs get an error that tells them to ask for a function with code.
    let refused = Command::new(env!("CARGO_BIN_EXE_harness"))
        .args(["callers", path(&after), &inlined_ones[0], "--json"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && stderr.contains("has no code of its own"), "{stderr}");
}

#[test]
fn a_comparison_fits_the_terminal_and_cuts_no_word() {
    let [before, after] = before_and_after();
    let line = format!(
        "stty rows 24 cols 100; exec {} diff {} {} --top 8",
        env!("CARGO_BIN_EXE_harness"),
        path(&before),
        path(&after)
    );
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env("NO_COLOR", "1").current_dir(Path::new("/"));
    let output = script.stdin(std::process::Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap().replace('\r', "");
    assert!(text.contains("Own before") && text.contains("total \u{b1}0, by own lines: "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let piped = harness(&["diff", path(&before), path(&after), "--top", "8"]);
    let words =
        |text: &str| text.lines().last().map(|_| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let explained = piped.lines().last().unwrap();
    let folded = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(folded.ends_with(&words(explained).unwrap().join(" ")), "{folded}\n{explained}");
    assert!(!text.lines().any(|line| line.trim_start().starts_with('%')), "{text}");
}
