// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the branches of a target's object code are those that gcov counts of the same source on the host, and
//! the tools that show coverage read harness's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::analysis::coverage::{Branch, Coverage, File};
use harness::analysis::flow::{self, BranchKind, Branches, Count};
use serde_json::Value;

use crate::common::tools::{self, stdout};
use crate::common::{Run, measured, run};

fn targets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets").canonicalize().unwrap()
}

fn harness(args: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command.arg("coverage").args(args).current_dir(dir);
    command
}

/// The board, as far as the host needs it; its timer ticks as often as the target's did.
const BOARD: &str = "
#include <stdio.h>
#include <stdlib.h>
#include \"board.h\"
__attribute__((weak)) void TIMER_HANDLER(void) {}
void console_init(void) {}
void console_putc(char c) { putchar(c); }
void timer_start(uint32_t hz) { (void)hz; }
void timer_stop(void) { for (long i = 0; i < TICKS; i++) TIMER_HANDLER(); }
void board_exit(int status) { exit(status); }
";

const ARCH: &str = "
#define TIMER_HANDLER host_tick
static inline void irq_enable(void) {}
static inline void irq_disable(void) {}
static inline void wait_for_interrupt(void) {}
";

/// Numbers of both ways of each branch of a line, the smaller one first: which way is the taken one is the compiler's
/// choice. Sorted.
type Pairs = Vec<(u64, u64)>;

/// Branches by file and line, as gcov counts them on the host; and the console.
fn on_host(sources: &[&str], ticks: &str) -> (BTreeMap<(String, u32), Pairs>, String) {
    let temp = tempfile::tempdir().unwrap();
    let (dir, targets) = (temp.path(), targets());
    fs::write(dir.join("arch.h"), ARCH).unwrap();
    fs::write(dir.join("board.c"), BOARD).unwrap();
    let gcc = |args: &[&str], source: &Path| {
        let mut gcc = tools::system("gcc");
        gcc.args(["-O0", "-g", "-funsigned-char", "-ffp-contract=off", "-std=gnu11", "-DSHORT", "-I."]);
        for folder in ["ports", "lib", "apps/work"] {
            gcc.arg("-I").arg(targets.join(folder));
        }
        stdout(gcc.args(args).arg(source).current_dir(dir));
    };
    gcc(&["-c", &format!("-DTICKS={ticks}")], &dir.join("board.c"));
    sources.iter().for_each(|source| gcc(&["-c", "--coverage"], &targets.join(source)));
    let objects = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut objects: Vec<PathBuf> = objects.filter(|path| path.extension().is_some_and(|end| end == "o")).collect();
    objects.sort();
    stdout(tools::system("gcc").arg("--coverage").args(&objects).args(["-o", "app"]).current_dir(dir));
    let console = stdout(Command::new(dir.join("app")).current_dir(dir));
    let mut lines: BTreeMap<(String, u32), Pairs> = BTreeMap::new();
    for source in sources {
        let stem = Path::new(source).file_stem().unwrap().to_str().unwrap();
        let mut gcov = tools::system("gcov");
        let json = stdout(gcov.args(["-b", "--json-format", "--stdout", &format!("{stem}.gcda")]).current_dir(dir));
        let json: Value = serde_json::from_str(&json).unwrap();
        for file in json["files"].as_array().unwrap() {
            if !file["file"].as_str().unwrap().ends_with(source) {
                continue;
            }
            for line in file["lines"].as_array().unwrap() {
                let counts = line["branches"].as_array().unwrap().iter().map(|way| way["count"].as_u64().unwrap());
                let counts: Vec<u64> = counts.collect();
                let pairs = counts.chunks(2).map(|pair| pair_of(pair[0], *pair.get(1).unwrap_or(&u64::MAX)));
                let number = line["line_number"].as_u64().unwrap() as u32;
                lines.entry(((*source).to_owned(), number)).or_default().extend(pairs);
            }
        }
    }
    lines.retain(|_, pairs| !pairs.is_empty());
    lines.values_mut().for_each(|pairs| pairs.sort());
    (lines, console)
}

fn pair_of(one: u64, other: u64) -> (u64, u64) {
    (one.min(other), one.max(other))
}

/// Branches by file and line, as harness counts them in the object code.
fn on_target(coverage: &Coverage, sources: &[&str]) -> BTreeMap<(String, u32), Pairs> {
    let mut lines: BTreeMap<(String, u32), Pairs> = BTreeMap::new();
    for source in sources {
        for (&line, branches) in &file(coverage, source).branches {
            for branch in branches {
                // A way that is not exact cannot equal gcov's.
                let [one, other] = [0, 1].map(|way| branch.ways.get(way).and_then(|way| way.exact()));
                let pair = match branch.kind {
                    BranchKind::Table => NO_PAIR,
                    _ => one.zip(other).map_or(NO_PAIR, |(one, other)| pair_of(one, other)),
                };
                lines.entry(((*source).to_owned(), line)).or_default().push(pair);
            }
        }
    }
    lines.values_mut().for_each(|pairs| pairs.sort());
    lines
}

const NO_PAIR: (u64, u64) = (u64::MAX, u64::MAX);

fn file<'a>(coverage: &'a Coverage, source: &str) -> &'a File {
    coverage.files.iter().find(|(path, _)| path.ends_with(source)).map(|(_, file)| file).unwrap()
}

/// Numbers of the ways that a `switch` went, sorted: of its table's targets, and of the comparison before it those
/// that did not lead to the table.
fn destinations(file: &File, line: u32) -> Vec<u64> {
    let branches = &file.branches[&line];
    let (tables, comparisons): (Vec<_>, Vec<_>) =
        branches.iter().partition(|branch| branch.kind == BranchKind::Table);
    let into: u64 = tables.iter().map(|table| table.executions).sum();
    let ways = |branches: &[&Branch]| -> Vec<u64> {
        branches.iter().flat_map(|branch| &branch.ways).map(|way| way.exact().unwrap()).collect()
    };
    let mut others = ways(&comparisons);
    let led = others.iter().position(|&count| count == into).expect("a comparison leads to the table");
    others.remove(led);
    others.extend(ways(&tables));
    others.retain(|&count| count > 0);
    others.sort();
    others
}

const BARE: [&str; 7] = [
    "apps/bare.c",
    "apps/work/crc.c",
    "apps/work/sort.c",
    "apps/work/matrix.c",
    "apps/work/recursion.c",
    "apps/work/formatting.c",
    "lib/text.c",
];

const BRANCHY: [&str; 2] = ["apps/branchy.c", "lib/text.c"];

/// Lines whose object code jumps through a table, the only ones that have other pairs than gcov's: gcov has one number for
/// each `case` of a `switch`, where the object code compares once and then jumps. They are compared by where they went.
const TABLES: [(&str, &str, &str); 6] = [
    ("riscv64-bare-O0", "lib/text.c", "switch (*fmt) {"),
    ("cortex-m3-bare-O0", "lib/text.c", "switch (*fmt) {"),
    ("riscv64-branchy-O0", "apps/branchy.c", "switch (state) {"),
    ("riscv64-branchy-O0", "lib/text.c", "switch (*fmt) {"),
    ("cortex-m3-branchy-O0", "apps/branchy.c", "switch (state) {"),
    ("cortex-m3-branchy-O0", "lib/text.c", "switch (*fmt) {"),
];

/// Every line without a jump through a table has gcov's pairs; every line with one goes where gcov says, as often.
#[test]
fn branches_of_the_object_code_are_those_that_gcov_counts_on_the_host() {
    let mut all = 0;
    let mut tables: Vec<(&str, String, String)> = Vec::new();
    for (sources, images) in [
        (&BARE[..], ["riscv64-bare-O0", "cortex-m3-bare-O0"]),
        (&BRANCHY, ["riscv64-branchy-O0", "cortex-m3-branchy-O0"]),
    ] {
        for image in images {
            let run = run(image, &[]).expect_code(0);
            let console = run.console();
            let ticks = console.lines().find_map(|line| line.strip_prefix("ticks ")).unwrap_or("0").trim();
            let (expected, said) = on_host(sources, ticks);
            let plain = |text: &str| text.replace('\r', "").trim().to_owned();
            assert!(plain(&console).contains(&plain(&said)), "{image}: {console}\n{said}");
            let coverage = Coverage::of(&[&run.profile()]);
            let found = on_target(&coverage, sources);
            let lines: BTreeSet<&(String, u32)> = expected.keys().chain(found.keys()).collect();
            assert!(lines.len() > 50, "{image}: {lines:?}");
            all += lines.len();
            for &line in &lines {
                let (source, number) = line;
                let (expected, found) = (expected.get(line), found.get(line));
                let file = file(&coverage, source);
                let branches = file.branches.get(number).map_or(&[][..], Vec::as_slice);
                if !branches.iter().any(|branch| branch.kind == BranchKind::Table) {
                    assert_eq!(found, expected, "{image} {line:?}");
                    continue;
                }
                let text = fs::read_to_string(targets().join(source)).unwrap();
                let text = text.lines().nth(*number as usize - 1).unwrap().trim().to_owned();
                let mut expected: Vec<u64> =
                    expected.unwrap().iter().flat_map(|&(one, other)| [one, other]).collect();
                expected.retain(|&count| count > 0 && count < u64::MAX);
                expected.sort();
                assert_eq!(destinations(file, *number), expected, "{image} {line:?} {text}");
                tables.push((image, source.clone(), text));
            }
        }
    }
    let tables: Vec<(&str, &str, &str)> =
        tables.iter().map(|(image, source, text)| (*image, source.as_str(), text.as_str())).collect();
    assert_eq!(tables, TABLES);
    assert_eq!(all - tables.len(), 242, "lines with gcov's pairs");
}

/// Decisions that a tree of branches evaluates, by the beginnings of their lines.
const IMPLIED: [&str; 7] = [
    "while (node && node->key != key)",
    "if (!list || !list->next)",
    "static int is_digit(char c)",
    "for (; **text && state != INVALID; ++*text)",
    "for (int i = 0; i < SIZE; i++)",
    "case POINT: state = c == 'E' || c == 'e' ?",
    "case EXPONENT: state = c == '+' || c == '-'",
];

/// Both ways out of the first lead straight into the second, as in a decision over two lines.
const NOT_PROVABLE: [&str; 2] = ["while (a && b) {", "*tail = a ? a : b;"];

#[test]
fn mcdc_is_implied_where_no_condition_is_reached_in_two_ways() {
    let run = run("cortex-m3-branchy-O0", &[]).expect_code(0);
    let dir = run.dir.parent().unwrap();
    let document: Value = serde_json::from_str(&coverage(&["out", "--json"], dir)).unwrap();
    let source = "apps/branchy.c";
    let files = document["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"].as_str().unwrap().ends_with(source)).unwrap();
    let text = fs::read_to_string(targets().join(source)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut verdicts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for decision in file["decisions"].as_array().unwrap() {
        let line = lines[decision["line"].as_u64().unwrap() as usize - 1];
        verdicts.entry(decision["mcdc"].as_str().unwrap()).or_default().insert(line.trim());
        assert_eq!(decision["mcdc"] == "implied", decision["reason"].is_null(), "{decision}");
    }
    let is = |verdict: &str, start: &str| verdicts[verdict].iter().any(|line| line.starts_with(start));
    for start in IMPLIED {
        assert!(is("implied", start), "{start}: {verdicts:#?}");
    }
    for start in NOT_PROVABLE {
        assert!(is("not provable", start), "{start}: {verdicts:#?}");
    }
    let page = coverage(&["out", "--format", "html"], dir);
    assert!(page.contains("<td class=\"n\">MC/DC implied</td>") && page.contains("not provable"), "{page}");
    // The same source with optimisation.
    let run = crate::common::run("cortex-m3-branchy", &[]).expect_code(0);
    let document: Value = serde_json::from_str(&coverage(&["out", "--json"], run.dir.parent().unwrap())).unwrap();
    let decisions =
        document["files"].as_array().unwrap().iter().flat_map(|file| file["decisions"].as_array().unwrap());
    let decisions: Vec<&Value> = decisions.collect();
    assert!(decisions.len() > 20 && decisions.iter().all(|decision| decision["mcdc"] == "not provable"));
}

fn coverage(args: &[&str], dir: &Path) -> String {
    stdout(&mut harness(args, dir))
}

fn bare() -> Run {
    run("cortex-m3-bare-O0", &[]).expect_code(0)
}

/// Number that a text has before a word: of `12 of 20 lines`, 12 and 20.
fn summary(text: &str, label: &str) -> (u64, u64) {
    let line = text.lines().find(|line| line.trim().starts_with(label)).unwrap_or_else(|| panic!("{text}"));
    let (_, counts) = line.split_once('(').unwrap();
    let words: Vec<&str> = counts.split_whitespace().collect();
    (words[0].parse().unwrap(), words[2].parse().unwrap())
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn lcov_reads_the_branches_and_cobertura_and_the_page_have_the_same_sums() {
    let run = bare();
    let dir = run.dir.parent().unwrap();
    coverage(&["out", "--format", "lcov", "-o", "firmware.info"], dir);
    let mut lcov = tools::system("lcov");
    let said = lcov.args(["--rc", "lcov_branch_coverage=1", "--summary", "firmware.info"]).current_dir(dir).output();
    let said = said.unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "{text}");
    let of = Coverage::of(&[&run.profile()]);
    let [lines, functions, branches] =
        [File::line_tally, File::function_tally, File::branch_tally].map(|tally| of.tally(tally));
    assert!(branches.hit > 50 && branches.hit < branches.found, "{branches:?}");
    for (label, tally) in [("lines", lines), ("functions", functions), ("branches", branches)] {
        assert_eq!(summary(&text, label), (tally.hit, tally.found), "{text}");
    }
    let xml = coverage(&["out", "--format", "cobertura"], dir);
    let sums = |name: &str| {
        let value = xml.split_once(&format!(" {name}=\"")).unwrap().1;
        value.split_once('"').unwrap().0.parse::<u64>().unwrap()
    };
    assert_eq!((sums("lines-covered"), sums("lines-valid")), (lines.hit, lines.found));
    assert_eq!((sums("branches-covered"), sums("branches-valid")), (branches.hit, branches.found));
    let mut reader = quick_xml::Reader::from_str(&xml);
    let mut hits = 0;
    loop {
        match reader.read_event().unwrap() {
            quick_xml::events::Event::Eof => break,
            quick_xml::events::Event::Empty(tag) if tag.name().as_ref() == b"line" => {
                let value = tag.try_get_attribute("hits").unwrap().unwrap();
                hits += u64::from(&*value.value != b"0");
            }
            _ => {}
        }
    }
    assert_eq!(hits, lines.hit);
    let page = coverage(&["out", "--format", "html"], dir);
    assert!(page.contains(&format!("{} of {}", branches.hit, branches.found)), "no sum of branches in the page");
    let table = coverage(&["out"], dir);
    assert!(
        table
            .lines()
            .any(|line| line.starts_with("Total") && line.contains(&format!("{} of {}", lines.hit, lines.found))),
        "{table}"
    );
    let notices = coverage(&["out", "--format", "github"], dir);
    assert!(
        notices.lines().any(|line| line.starts_with("::notice file=targets/") && line.ends_with("::never ran")),
        "{notices}"
    );
}

#[test]
fn runs_of_one_image_and_of_different_images_are_added_up() {
    let (one, other) = (bare(), run("riscv64-bare-O0", &[]).expect_code(0));
    let (one, other) = (one.profile(), other.profile());
    let (single, both) = (Coverage::of(&[&one]), Coverage::of(&[&one, &one]));
    let crc = |coverage: &Coverage| {
        coverage.files.iter().find(|(path, _)| path.ends_with("work/crc.c")).map(|(_, file)| file.clone()).unwrap()
    };
    let (single, both) = (crc(&single), crc(&both));
    let doubled: BTreeMap<u32, u64> = single.lines.iter().map(|(&line, &count)| (line, 2 * count)).collect();
    assert_eq!(both.lines, doubled);
    assert_eq!((both.branch_tally(), both.function_tally()), (single.branch_tally(), single.function_tally()));
    // The other processor's code has the same branches at these lines.
    let mixed = crc(&Coverage::of(&[&one, &other]));
    let others = crc(&Coverage::of(&[&other]));
    for (line, count) in &mixed.lines {
        let of = |file: &File| file.lines.get(line).copied().unwrap_or(0);
        assert_eq!(*count, of(&single) + of(&others), "line {line}");
    }
    assert_eq!(mixed.branch_tally(), single.branch_tally());
}

#[test]
fn since_keeps_the_changed_lines_of_the_users_repository() {
    let run = bare();
    let repository = tempfile::tempdir().unwrap();
    let dir = repository.path();
    let crc = dir.join("targets/apps/work/crc.c");
    fs::create_dir_all(crc.parent().unwrap()).unwrap();
    let text = fs::read_to_string(targets().join("apps/work/crc.c")).unwrap();
    fs::write(&crc, &text).unwrap();
    let git = |args: &[&str]| {
        let mut git = tools::system("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]);
        stdout(git.args(args).current_dir(dir))
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    let profile = run.dir.display().to_string();
    let nothing = coverage(&[&profile, "--since", "HEAD"], dir);
    assert!(!nothing.contains("crc.c"), "{nothing}");
    // The line of the loop's head is changed, others stay.
    let coverage_of = Coverage::of(&[&run.profile()]);
    let (_, file) = coverage_of.files.iter().find(|(path, _)| path.ends_with("work/crc.c")).unwrap();
    let line = *file.branches.keys().next().unwrap();
    let changed: Vec<String> = text
        .lines()
        .zip(1..)
        .map(|(text, number)| if number == line { format!("{text} /* changed */") } else { text.to_owned() })
        .collect();
    fs::write(&crc, changed.join("\n") + "\n").unwrap();
    let info = coverage(&[&profile, "--since", "main", "--format", "lcov"], &dir.join("targets"));
    let lines: Vec<&str> = info.lines().filter(|line| line.starts_with("DA:") || line.starts_with("SF:")).collect();
    assert_eq!(lines, ["SF:targets/apps/work/crc.c".to_owned(), format!("DA:{line},{}", file.lines[&line])]);
    for bad in ["nosuch", "--output=x", "HEAD:targets"] {
        let output = harness(&[&profile, &format!("--since={bad}")], dir).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{bad}: {said}");
        assert!(said.contains(&format!("--since {bad}: ")), "{said}");
    }
    assert!(!dir.join("x").exists());
}

/// Jumps through tables of a run, by address.
fn table_jumps(name: &str, args: &[&str]) -> BTreeMap<u64, flow::Branch> {
    let branches = Branches::of(measured(name, &[&["--for", "3M"], args].concat()).profile()).into_list();
    let tables = branches.into_iter().filter(|branch| branch.kind == BranchKind::Table);
    tables.map(|branch| (branch.site, branch)).collect()
}

#[test]
fn a_jump_through_a_table_has_the_same_ways_whether_they_are_counted_or_not() {
    // Computed gotos, and `switch`es that are alone in their function: so many. The tables' addresses are made before the jump or
    // once for all, the entries are addresses or distances.
    let images = [
        ("cortex-m0-bytecode", 0),
        ("cortex-m3-interpreter", 1),
        ("cortex-m3-freertos", 1),
        ("riscv32-bytecode", 0),
        ("riscv64-interpreter", 1),
    ];
    for (name, switches) in images {
        let (plain, counted) = (table_jumps(name, &[]), table_jumps(name, &["--branches"]));
        let targets = |branch: &flow::Branch| branch.ways.iter().map(|way| way.target).collect::<Vec<_>>();
        let targets = |jumps: &BTreeMap<u64, flow::Branch>| {
            jumps.iter().map(|(&site, branch)| (site, targets(branch))).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(targets(&plain), targets(&counted), "{name}");
        let is_exact = |branch: &&flow::Branch| branch.ways.iter().all(|way| matches!(way.count, Count::Exact(_)));
        assert!(counted.values().all(|branch| is_exact(&branch)), "{name}: {counted:x?}");
        // A switch is exact without a counter, also where a branch leads to one of its cases.
        let exact: Vec<&flow::Branch> = plain.values().filter(is_exact).collect();
        assert!(exact.iter().all(|branch| counted[&branch.site] == **branch), "{name}");
        assert!(exact.len() >= switches, "{name}: {plain:x?}");
    }
}
