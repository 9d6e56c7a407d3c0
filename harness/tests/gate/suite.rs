// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promises of `harness test`: a suite is checked as written, every failure is named, and the same suite gives
//! the same bytes, on any number of cores and machines.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use harness::gate::result::SuiteResult;
use tempfile::TempDir;

use crate::common::built::{self, cortex_m, scratch};
use crate::common::{self, image};

/// A suite in a folder of its own.
pub(crate) struct Suite {
    pub(crate) dir: TempDir,
}

/// Outcome of one run of a suite.
pub(crate) struct Result {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) reports: PathBuf,
}

impl Suite {
    pub(crate) fn new(text: &str) -> Suite {
        let suite = Suite { dir: scratch() };
        suite.write(text);
        suite
    }

    pub(crate) fn write(&self, text: &str) {
        fs::write(self.dir.path().join("harness.toml"), text).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = common::harness();
        command.current_dir(self.dir.path()).arg("test").args(args).arg("--cache-dir").arg(self.path("cache"));
        command.env_remove("GITHUB_ACTIONS").env_remove("GITHUB_STEP_SUMMARY");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Result {
        let output = args.iter().position(|arg| *arg == "-o").map_or("harness-report", |at| args[at + 1]);
        finish(self.command(args).output().unwrap(), self.path(output))
    }
}

pub(crate) fn finish(output: Output, reports: PathBuf) -> Result {
    Result {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        reports,
    }
}

impl Result {
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Result {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    pub(crate) fn report(&self) -> SuiteResult {
        SuiteResult::from_json(&fs::read_to_string(self.reports.join("report.json")).unwrap()).unwrap()
    }

    /// The three reports.
    pub(crate) fn files(&self) -> [String; 3] {
        ["report.json", "junit.xml", "summary.md"].map(|name| fs::read_to_string(self.reports.join(name)).unwrap())
    }

    fn failures(&self, case: &str) -> Vec<String> {
        let report = self.report();
        let case = report.cases.iter().find(|known| known.name == case).unwrap();
        case.failures().map(|finding| finding.message.clone()).collect()
    }
}

/// `[[image]]` with this image and these lines.
pub(crate) fn entry(elf: &Path, lines: &str) -> String {
    format!("[[image]]\nelf = {:?}\n{lines}\n", elf.display().to_string())
}

pub(crate) fn target(name: &str, lines: &str) -> String {
    entry(&fs::canonicalize(image(name)).unwrap(), lines)
}

/// Small images that end in every way.
fn small_suite() -> String {
    [
        target("cortex-m3-tasks-ends", "tags = [\"rtos\"]\nexact = true\nconsole = [\"tasks: 12 finished\"]"),
        target("riscv64-exit3", "exit = 3"),
        target("cortex-m3-uart", "matrix = { shift = [5, 7] }"),
        target("riscv64-calls-pg", "strict = true"),
        target("cortex-m3-lockup-busfault", "exit = \"lock-up\""),
        target("riscv64-sleep", "exit = \"asleep\""),
        target("cortex-m3-reset", "exit = \"reset\""),
        target("riscv64-spin", "exit = \"limit\"\nmax-insns = \"3M\""),
        target("riscv64-nested", ""),
    ]
    .concat()
}

#[test]
fn a_suite_can_expect_firmware_that_only_faults_or_is_stuck() {
    let images = [
        target("riscv64-stuck", "exit = \"stuck\""),
        target("cortex-m3-faulting", "exit = \"faulting\"\nfor = \"400k\""),
    ];
    Suite::new(&images.concat()).run(&["--no-cache"]).expect_code(0);
    let unexpected = Suite::new(&target("cortex-m3-faulting", "for = \"400k\"")).run(&["--no-cache"]).expect_code(1);
    assert!(unexpected.stdout.contains("nothing ran but [irq HardFault]"), "{}", unexpected.stdout);
}

#[test]
fn a_suite_says_which_calls_of_the_host_are_served() {
    let text = [
        "[defaults]\nsemihosting = \"console\"\n".to_owned(),
        target("riscv64-file-inside", "name = \"console\""),
        target("riscv64-file-inside", "name = \"scratch\"\nsemihosting = \"scratch\"\nexit = 0"),
        target("riscv64-exit3", "name = \"off\"\nsemihosting = \"off\"\nfor = \"10k\"\nexit = \"limit\""),
    ];
    let suite = Suite::new(&text.concat());
    let result = suite.run(&["--sandbox", "auto"]).expect_code(1);
    let failures = ["console", "scratch"].map(|case| result.failures(case).concat());
    assert!(failures[0].contains("forbidden operation"), "{failures:?}");
    assert_eq!(failures[1], "");
    assert!(!result.failures("off").concat().contains("status 3"), "the exit was served");
    suite.write(&text.concat().replace("\"console\"\n[[", "\"unchecked\"\n[["));
    let refused = suite.run(&[]).expect_code(2);
    assert!(refused.stderr.contains("harness.toml:2") && refused.stderr.contains("`scratch`"), "{}", refused.stderr);
}

#[test]
fn shards_merge_into_the_very_bytes_of_the_whole() {
    let suite = Suite::new(&(String::from("name = \"small\"\nbaseline = \"b\"\n") + &small_suite()));
    suite.run(&["--save-baseline", "b", "-j", "1"]).expect_code(0);
    let whole = suite.run(&["--no-cache", "-o", "whole"]).expect_code(0);
    let mut parts = Vec::new();
    let mut cases = 0;
    for part in 1..=4 {
        let (shard, output) = (format!("{part}/4"), format!("part{part}"));
        // Every second part is taken from the variable.
        let (stated, variable) = if part % 2 == 0 { (shard.as_str(), "") } else { ("auto", shard.as_str()) };
        let mut command = suite.command(&["--no-cache", "--shard", stated, "-o", &output]);
        command.env("HARNESS_SHARD", variable);
        let result = finish(command.output().unwrap(), suite.path(&output)).expect_code(0);
        cases += result.report().cases.len();
        parts.push(suite.path(&output));
    }
    assert_eq!(cases, 10);
    // The order of the parts makes no difference.
    parts.reverse();
    let merge = |parts: &[PathBuf]| {
        let mut merge = Command::new(env!("CARGO_BIN_EXE_harness"));
        merge.arg("merge").args(parts).arg("-o").arg(suite.path("merged"));
        finish(merge.output().unwrap(), suite.path("merged"))
    };
    assert_eq!(merge(&parts).expect_code(0).files(), whole.files());
    let lost = merge(&parts[1..]).expect_code(2);
    assert!(lost.stderr.contains("a shard is missing"), "{}", lost.stderr);
    let written = parts[0].join("report.json");
    let bytes = fs::read(&written).unwrap();
    fs::write(&written, &bytes[..bytes.len() / 2]).unwrap();
    let half = merge(&parts).expect_code(2);
    assert!(half.stderr.contains("part4/report.json") && half.stderr.contains("not JSON"), "{}", half.stderr);
    // What there is can be joined all the same; what is not has failed by name.
    parts.push("--incomplete".into());
    let joined = merge(&parts).expect_code(4);
    assert!(joined.stderr.contains("warning: left out: cannot read the report"), "{}", joined.stderr);
    let report = joined.report();
    let failed: Vec<&str> = report.cases.iter().filter(|case| !case.passed()).map(|case| &*case.name).collect();
    let theirs = SuiteResult::from_json(std::str::from_utf8(&bytes).unwrap()).unwrap();
    assert_eq!(failed, theirs.cases.iter().map(|case| &*case.name).collect::<Vec<_>>());
    assert_eq!(report.cases.len(), 10);
}

#[test]
fn one_core_and_a_cache_give_the_same_bytes() {
    let suite = Suite::new(&small_suite());
    let first = suite.run(&["--no-cache", "-j", "1", "-o", "first"]).expect_code(0);
    let second = suite.run(&["-j", "4", "-o", "second"]).expect_code(0);
    let cached = suite.run(&["-o", "cached"]).expect_code(0);
    assert_eq!(first.files(), second.files());
    assert_eq!(first.files(), cached.files());
    let order = |result: &Result| {
        result.stdout.lines().filter(|line| line.starts_with("PASS")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(order(&first), order(&second));
    let profile = |dir: &str| fs::read(suite.path(dir).join("riscv64-nested.profile/profile.fwp")).unwrap();
    assert_eq!(profile("first"), profile("cached"));
}

#[cfg(target_os = "linux")]
#[test]
fn where_jobs_are_as_many_as_cores_each_has_one() {
    // Count the cores that this process may use; child processes inherit them.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:\t")).unwrap();
    let cores: usize =
        mask.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit.count_ones() as usize).sum();
    let images = |count: usize| -> String {
        (0..count).map(|n| target("riscv64-exit3", &format!("name = \"i{n}\"\nexit = 3"))).collect()
    };
    let suite = Suite::new(&images(3 * cores));
    // An emulator that notes where it may run, and then is the real one.
    let real = common::emulator("qemu-system-riscv64");
    let log = suite.path("cores.log");
    let script = format!(
        "/bin/grep Cpus_allowed_list /proc/self/status >>'{}'\nexec '{}' \"$@\"",
        log.display(),
        real.display()
    );
    common::program(&suite.path("qemu-system-riscv64"), &script);
    let allowed = |jobs: &str| {
        let _ = fs::remove_file(&log);
        // The script writes its log where the sandbox lets no emulator write.
        let mut run = suite.command(&["--no-cache", "-j", jobs, "--sandbox", "off"]);
        let run = run.env("PATH", suite.dir.path()).output().unwrap();
        finish(run, suite.path("harness-report")).expect_code(0);
        let mut lines: Vec<String> = fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines.dedup();
        lines
    };
    let each = allowed(&cores.to_string());
    assert_eq!(each.len(), cores, "{each:?}");
    assert!(each.iter().all(|line| !line.contains([',', '-'])), "{each:?}");
    if cores > 1 {
        let anywhere = allowed("1");
        assert!(anywhere.len() == 1 && anywhere[0].contains([',', '-']), "{anywhere:?}");
    }
}

#[test]
fn what_is_cached_is_not_run_again_and_what_changed_is() {
    let source =
        |word: &str| format!("void reset(void) {{ host(4, \"{word}\\n\"); host(0x18, STOPPED); for (;;) {{}} }}");
    let suite = Suite::new("");
    let m3 = cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_8000);
    let elf = m3.build_source(suite.dir.path(), "fw", &source("one"));
    suite.write(&entry(&elf, "console = [\"one\"]"));
    suite.run(&[]).expect_code(0);
    let held = fs::read_dir(suite.path("cache")).unwrap().count();
    assert_eq!(held, 1);
    // The emulators are gone from the PATH: the cache alone answers.
    let hit = suite.command(&[]).output().unwrap();
    assert!(hit.status.success());
    m3.build_source(suite.dir.path(), "fw", &source("two"));
    let changed = suite.run(&[]).expect_code(1);
    assert!(changed.stdout.contains("\"one\" was not printed"), "{}", changed.stdout);
    assert_eq!(fs::read_dir(suite.path("cache")).unwrap().count(), 2);
    suite.write(&entry(&elf, "console = [\"two\"]\nperiod = 97"));
    suite.run(&[]).expect_code(0);
    assert_eq!(fs::read_dir(suite.path("cache")).unwrap().count(), 3);
}

#[test]
fn a_suites_stubs_hold_are_part_of_the_key_and_of_what_a_baseline_was_made_with() {
    let source = "volatile int ready;\n\
        __attribute__((noinline)) int HAL_Wait(int x) { while (!ready) x++; return x; }\n\
        __attribute__((noinline)) void HAL_Callback(void) { __asm__ volatile(\"\"); }\n\
        void reset(void) { HAL_Callback(); host(4, HAL_Wait(3) == 7 ? \"seven\\n\" : \"other\\n\"); \
        host(0x18, STOPPED); for (;;) {} }";
    let suite = Suite::new("");
    let elf = cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_8000).build_source(suite.dir.path(), "fw", source);
    let with = |stub: &str, console: &str| {
        suite.write(&entry(&elf, &format!("max-insns = \"1M\"\nconsole = [\"{console}\"]\nstub = {stub}\n")));
    };
    with("{ \"HAL_*\" = 7, HAL_Callback = true }", "seven");
    suite.run(&["--save-baseline", "main"]).expect_code(0);
    with("{ \"HAL_*\" = \"0x8\", HAL_Callback = true }", "other");
    let other = suite.run(&["--baseline", "main"]).expect_code(0);
    assert_eq!(fs::read_dir(suite.path("cache")).unwrap().count(), 2, "another value is another run");
    let report = fs::read_to_string(other.reports.join("report.json")).unwrap();
    assert!(report.contains("stub=HAL_Wait=7, now") && report.contains("stub=HAL_Wait=8"), "{report}");
    with("{ \"HAL_*\" = \"0x8\", HAL_Callback = true }\n[defaults]\nstub = { HAL_Wait = 7 }", "seven");
    suite.run(&[]).expect_code(0);
    for (stub, expected) in [
        ("{ HAL_Wait = \"seven\" }", "\"seven\" is not a value to return"),
        ("{ HAL_Wait = false }", "what the function returns"),
        ("{ HAL_Wai = 1 }", "did you mean `HAL_Wait`"),
    ] {
        with(stub, "seven");
        let refused = suite.run(&[]).expect_code(2);
        assert!(
            [&*refused.stdout, &*refused.stderr].concat().contains(expected),
            "{}{}",
            refused.stdout,
            refused.stderr
        );
    }
}

#[test]
fn a_suite_bounds_what_is_written_and_can_expect_that() {
    let images = target("riscv64-tt-endless", "for = \"50M\"\nmax-output = \"1M\"\nexit = \"output\"");
    Suite::new(&images).run(&["--no-cache"]).expect_code(0);
    let images = target("riscv64-tt-endless", "for = \"50M\"\nmax-output = \"1M\"");
    let unexpected = Suite::new(&images).run(&["--no-cache"]).expect_code(4);
    assert!(unexpected.stdout.contains("--max-output 1,000,000"), "{}", unexpected.stdout);
}

/// Builds an image of targets/ after a change of its sources.
fn patched(dir: &Path, name: &str, file: &str, from: &str, to: &str) -> PathBuf {
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets");
    built::run(Command::new("cp").arg("-a").arg(&targets).arg(dir.join("targets")));
    let source = dir.join("targets").join(file);
    let text = fs::read_to_string(&source).unwrap();
    assert_eq!(text.matches(from).count(), 1, "{file}: {from}");
    fs::write(&source, text.replace(from, to)).unwrap();
    let elf = dir.join("targets/build").join(format!("{name}.elf"));
    built::run(Command::new("make").arg("-C").arg(dir.join("targets")).arg(format!("build/{name}.elf")));
    elf
}

#[test]
fn a_slower_function_is_a_regression_that_names_it() {
    let suite = Suite::new(&target("riscv64-bare", ""));
    suite.run(&["--save-baseline", "main"]).expect_code(0);
    let slow = patched(
        suite.dir.path(),
        "riscv64-bare",
        "apps/work/crc.c",
        "        crc = crc >> 8 ^ table[(crc ^ *p) & 0xff];",
        "        { __asm__ volatile(\"nop\\n\\tnop\"); crc = crc >> 8 ^ table[(crc ^ *p) & 0xff]; }",
    );
    let limits = "thresholds = { total = \"0.1%\", self = { \"crc32_*\" = \"5%\", \"@all\" = \"20%\" } }";
    suite.write(&(String::from("baseline = \"main\"\n") + &entry(&slow, limits)));
    let result = suite.run(&[]).expect_code(3);
    let failures = result.failures("riscv64-bare");
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(failures[0].starts_with("total instructions +0.82 %, allowed 0.1 % ("), "{failures:?}");
    assert!(failures[1].starts_with("own-line instructions of crc32_table +18.00 %, allowed 5 % ("), "{failures:?}");
    // The verdict's line reads as the failure does; each failure is placed at the function that accounts for it.
    let stdout = &result.stdout;
    let verdict = stdout.lines().next().unwrap();
    assert!(verdict.starts_with("FAIL  riscv64-bare ") && verdict.ends_with(&failures[0]), "{stdout}");
    for failure in &failures {
        let line = format!("targets/apps/work/crc.c:29: error: riscv64-bare: {failure}\n");
        assert!(stdout.contains(&line), "{stdout}\n{line}");
    }
    let report = result.report();
    let accept = "harness test -f 'name(riscv64-bare)' --save-baseline main";
    assert_eq!(report.cases[0].repeat, "harness test -f 'name(riscv64-bare)'");
    assert_eq!(report.cases[0].accept.as_deref(), Some(accept));
    for text in result.files().iter().chain([stdout]) {
        assert!(text.contains("name(riscv64-bare)") && text.contains("--save-baseline main"), "{text}");
        assert!(text.contains("riscv64-bare.profile/flamegraph.svg") && text.contains("crc.c"), "{text}");
        assert!(!text.contains("stays within"), "{text}");
    }
    let [_, junit, _] = result.files();
    assert!(junit.contains("file=\"targets/apps/work/crc.c\" line=\"29\""), "{junit}");
    assert!(result.reports.join(report.cases[0].picture.as_ref().unwrap()).is_file());
    let comparison = report.cases[0].comparison.as_ref().unwrap();
    assert!(comparison.explanation.contains(": crc32_table +"), "{}", comparison.explanation);
    // The functions' changes add up to the total's.
    let sum: i128 = comparison.functions.iter().map(|change| change.self_insns.difference()).sum();
    assert_eq!(sum, comparison.total_insns.difference());
    let place = report.cases[0].failures().nth(1).unwrap().place.clone().unwrap();
    assert!(place.0.ends_with("apps/work/crc.c") && place.1 == 29, "{place:?}");

    // Within its limits there is no failure; in the other direction the same change is an improvement.
    suite.write(&(String::from("baseline = \"main\"\n") + &entry(&slow, "thresholds = { total = \"50%\" }")));
    suite.run(&["--save-baseline", "slow"]).expect_code(0);
    suite.write(&target("riscv64-bare", "thresholds = { total = \"0%\" }"));
    let baseline = suite.path("baselines/slow/riscv64-bare.baseline");
    let before = fs::read_to_string(&baseline).unwrap();
    let better = suite.run(&["--baseline", "slow", "--ratchet"]).expect_code(0);
    assert!(better.stdout.contains("total \u{2212}") && better.stdout.contains("tightened"), "{}", better.stdout);
    assert_ne!(fs::read_to_string(&baseline).unwrap(), before);
    let worse = String::from("baseline = \"slow\"\n") + &entry(&slow, "thresholds = { total = \"0%\" }");
    suite.write(&worse);
    suite.run(&[]).expect_code(3);
    // The printed command accepts the numbers.
    let filter = "name(riscv64-bare)";
    let again = suite.run(&["-f", filter]).expect_code(3);
    assert!(again.stdout.contains("--save-baseline slow"), "{}", again.stdout);
    suite.run(&["-f", filter, "--save-baseline", "slow"]);
    suite.run(&["-f", filter]).expect_code(0);
}

/// Builds firmware that works for ever, `rounds` rounds of work for each step.
fn endless(dir: &Path, rounds: u32) -> PathBuf {
    let source = format!(
        "volatile int sink;\n\
         __attribute__((noinline)) void step(void) {{ for (int i = 0; i < {rounds}; i++) sink += i; }}\n\
         __attribute__((noinline)) void rare(void) {{ sink = 0; host(4, \"round\\n\"); }}\n\
         void reset(void) {{ for (;;) {{ for (int i = 0; i < 20; i++) step(); rare(); }} }}"
    );
    cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_8000).build_source(dir, "endless", &source)
}

#[test]
fn less_work_in_a_window_is_a_regression_and_a_suite_that_would_not_see_it_says_so() {
    let suite = Suite::new("");
    let elf = endless(suite.dir.path(), 100);
    let with = |limits: &str| {
        let lines = format!("for = \"400k\"\n{limits}");
        suite.write(&(String::from("baseline = \"main\"\n") + &entry(&elf, &lines)));
    };
    let warning = "harness.toml:2: warning: endless: `for` ends every run after 400,000 instructions: ";
    with("thresholds = { total = \"0.1%\" }");
    let saved = suite.run(&["--save-baseline", "main"]).expect_code(0);
    assert!(saved.stdout.contains(warning), "{}", saved.stdout);
    let baseline = fs::read_to_string(suite.path("baselines/main/endless.baseline")).unwrap();
    assert!(baseline.contains("\nlines\t"), "{baseline}");

    endless(suite.dir.path(), 115);
    // 15 % slower at the same number of instructions: the case that the warning is for.
    let blind = suite.run(&[]).expect_code(0);
    assert!(blind.stdout.contains(warning) && blind.stdout.contains("1 warning"), "{}", blind.stdout);
    for text in blind.files() {
        assert!(text.contains("`work` in thresholds"), "{text}");
    }
    for (limits, failures) in [
        (
            "thresholds = { total = \"0.1%\", work = \"2%\" }",
            &["calls of step", "calls of rare", "lines printed"][..],
        ),
        ("thresholds = { work = { step = \"2%\" } }", &["calls of step"]),
        ("thresholds = { work = { \"@console\" = \"2%\" } }", &["lines printed"]),
        ("thresholds = { work = { step = \"-10\" } }", &["calls of step"]),
        ("thresholds = { work = { step = 100000 } }", &["calls of step"]),
    ] {
        with(limits);
        let seen = suite.run(&[]).expect_code(3);
        assert!(!seen.stdout.contains("warning"), "{}", seen.stdout);
        let found = seen.failures("endless");
        assert_eq!(found.len(), failures.len(), "{limits}: {found:?}");
        assert!(found.iter().zip(failures).all(|(found, wanted)| found.starts_with(wanted)), "{limits}: {found:?}");
        assert!(seen.stdout.contains("endless.c:") || failures == ["lines printed"], "{}", seen.stdout);
        assert!(seen.stdout.contains("/endless.profile --at sample:"), "{}", seen.stdout);
    }
    for limits in [
        "thresholds = { work = \"20%\" }",
        "thresholds = { work = { step = 10 } }",
        "thresholds = { total = \"0%\" }\nassert = ['mean(\"step\") < 10k']",
        "thresholds = { total = \"0%\" }\nconsole = [{ text = \"round\", by = \"100k\" }]",
    ] {
        with(limits);
        let passed = suite.run(&[]).expect_code(0);
        assert!(!passed.stdout.contains("warning"), "{limits}: {}", passed.stdout);
    }
    with("thresholds = { work = { stpe = \"2%\" } }");
    let typo = suite.run(&[]).expect_code(2);
    assert!(typo.stdout.contains("work of stpe: no such function was called"), "{}", typo.stdout);
    // More work gives no warning.
    endless(suite.dir.path(), 80);
    with("thresholds = { work = \"0%\" }");
    suite.run(&[]).expect_code(0);
}

#[test]
fn the_repositorys_own_suite_sees_a_slowdown_of_each_image() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../harness.toml");
    let own = harness::gate::suite::Suite::load(&path).unwrap();
    assert!(own.cases.len() > 10);
    let ends = [harness::profile::End::For, harness::profile::End::MaxInsns];
    for (case, end) in own.cases.iter().flat_map(|case| ends.iter().map(move |end| (case, end))) {
        let is_typed =
            case.options.window.for_insns.is_some_and(|insns| insns != harness::profile::DEFAULT_FOR_INSNS);
        if is_typed || *end == harness::profile::End::MaxInsns {
            assert_eq!(harness::gate::work_blind::blind(case, end, 1), None, "{}", case.name);
        }
    }
}

#[test]
fn every_kind_of_failure_is_seen_and_disturbs_no_other() {
    let suite = Suite::new("");
    let dir = suite.dir.path();
    // The stack is below the data: it runs out of memory before it runs into anything.
    let m3 = || cortex_m("-mcpu=cortex-m3", 0, 0x2000_1000, 0x2000_1000);
    let source = |body: &str| {
        format!(
            "volatile int sink;\n\
             int deep(int n);\n\
             int (*volatile again)(int);\n\
             __attribute__((noinline)) int deep(int n) {{ volatile char frame[256]; frame[0] = n; \
             return (n < 100 ? again(n + 1) : 0) + frame[0]; }}\n\
             __attribute__((noinline)) void work(void) {{ for (int i = 0; i < 1000; i++) sink += i; }}\n\
             void reset(void) {{ work(); {body} host(0x18, STOPPED); for (;;) {{}} }}"
        )
    };
    let build = |name: &str, body: &str| m3().build_source(dir, name, &source(body));
    let good = build("good", "host(4, \"result ok\\n\");");
    let wrong = build("wrong", "host(4, \"result ko\\n\");");
    let hangs = build("hangs", "host(4, \"result ok\\n\"); for (;;) sink++;");
    let crashes = build("crashes", "*(volatile int *)0xf0000000 = 1;");
    let overflows = build("overflows", "host(4, \"result ok\\n\"); again = deep; sink = deep(0);");
    fs::write(dir.join("garbage.elf"), b"\x7fELF garbage").unwrap();
    let text: String =
        [&good, &wrong, &hangs, &crashes, &overflows, &dir.join("garbage.elf"), &dir.join("missing.elf")]
            .map(|elf| {
                let twice = "assert = ['calls(\"reset\") == 2']";
                entry(elf, if elf == &wrong || elf == &hangs { twice } else { "" })
            })
            .concat();
    let defaults = "[defaults]\nconsole = [\"result ok\"]\nmax-insns = \"2M\"\nassert = ['calls(\"work\") == 1']\n";
    suite.write(&(String::from(defaults) + &text));
    let result = suite.run(&[]).expect_code(2);
    let report = result.report();
    let codes: Vec<(&str, u8)> = report.cases.iter().map(|case| (case.name.as_str(), case.exit_code)).collect();
    assert_eq!(
        codes,
        [("good", 0), ("wrong", 1), ("hangs", 4), ("crashes", 1), ("overflows", 1), ("garbage", 2), ("missing", 2)]
    );
    assert_eq!(
        result.failures("wrong"),
        [
            "\"result ok\" was not printed: the last line printed is \"result ko\"",
            "calls(\"reset\") == 2 does not hold: 1"
        ]
    );
    // All assertions that fail are named at once, the unexpected end included.
    let hangs = result.failures("hangs");
    assert_eq!(hangs.len(), 2, "{hangs:?}");
    assert!(hangs[1].starts_with("calls(\"reset\") == 2"), "{hangs:?}");
    assert!(
        result.failures("hangs")[0].contains("had not ended after --max-insns 2,000,000"),
        "{:?}",
        result.failures("hangs")
    );
    assert!(result.failures("crashes")[0].contains("locked up"), "{:?}", result.failures("crashes"));
    assert!(
        result.failures("overflows")[0].contains("locked up at 0x00000000"),
        "{:?}",
        result.failures("overflows")
    );
    assert!(result.failures("missing")[0].contains("missing.elf"), "{:?}", result.failures("missing"));
    let at: Vec<Option<&str>> = report.cases.iter().map(|case| case.at.as_deref()).collect();
    assert_eq!(at[..1], [None]);
    assert!(at[1].is_some_and(|at| at.starts_with("sample:") || at == "call:reset"), "{at:?}");
    assert_eq!(at[2..], [Some("end"), Some("crash"), Some("crash"), None, None]);
    assert!(result.stdout.contains("      debug:   harness debug harness-report/crashes.profile --at crash\n"));
    let summary = fs::read_to_string(result.reports.join("summary.md")).unwrap();
    let debug = "harness debug harness-report/crashes.profile --at crash";
    assert!(summary.contains(&format!("debug: `{debug}`")), "{summary}");
    // The good image gives the same result alone.
    suite.write(&(String::from(defaults) + &entry(&good, "")));
    let alone = suite.run(&["--no-cache", "-o", "alone"]).expect_code(0).report();
    assert_eq!(alone.cases[0], report.cases[0]);

    let junit = result.reports.join("junit.xml");
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(xml.contains("<testsuites name=\"") && xml.contains("tests=\"7\" failures=\"4\" errors=\"2\""), "{xml}");
    assert!(xml.contains(&format!("debug: {debug}")), "{xml}");
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/junit.xsd");
    built::run(Command::new("xmllint").arg("--noout").arg("--schema").arg(schema).arg(junit));
}

#[test]
fn the_console_is_held_against_texts_in_order_and_deadlines() {
    let suite = Suite::new("");
    let expect = |lines: &str| {
        suite.write(&target("riscv64-bare", lines));
        suite.run(&[])
    };
    let printed = {
        let result = expect("").expect_code(0);
        fs::read_to_string(result.reports.join("riscv64-bare.profile/console.log")).unwrap()
    };
    let lines: Vec<&str> = printed.lines().collect();
    let [first, last] = [lines[0], lines[lines.len() - 1]];
    expect(&format!("console = [{first:?}, {last:?}]")).expect_code(0);
    let swapped = expect(&format!("console = [{last:?}, {first:?}]")).expect_code(1);
    assert!(swapped.stdout.contains("it is only on line 1"), "{}", swapped.stdout);
    let unwanted = expect("console-not = [{ regex = 'sort +[0-9a-f]{8}' }, \"panic\"]").expect_code(1);
    assert!(unwanted.stdout.contains("was printed, which console-not forbids; line"), "{}", unwanted.stdout);
    // The end comes after 23 M instructions; its place is known to one sampling period.
    expect(&format!("console = [{{ text = {last:?}, by = \"25M\" }}]")).expect_code(0);
    let late = expect(&format!("console = [{{ text = {last:?}, by = \"20M\" }}]")).expect_code(1);
    assert!(late.stdout.contains("printed before instruction 24,"), "{}", late.stdout);
    assert!(late.stdout.contains("/riscv64-bare.profile --at insn:20000000\n"), "{}", late.stdout);
}

#[test]
fn assertions_hold_the_profile_against_arithmetic() {
    let suite = Suite::new("");
    let check = |name: &str, assertions: &[&str]| {
        let list: Vec<String> = assertions.iter().map(|text| format!("'{text}'")).collect();
        suite.write(&target(name, &format!("assert = [{}]", list.join(", "))));
        suite.run(&[])
    };
    check(
        "riscv64-tiles",
        &[
            "calls(\"draw_8x8_tile\") == 442368",
            "coverage(\"tiles.c\") > 90%",
            "self(\"main\") < 1%",
            "max(\"draw_8x8_tile\") >= 8",
            "mean(\"draw_8x8_tile..draw_8x8_tile\") > 10",
        ],
    )
    .expect_code(0);
    check(
        "cortex-m3-tasks-ends",
        &[
            "task(\"IDLE\") < 5%",
            "stack(\"IDLE\") <= 50%",
            "switches(\"IDLE\") == 12",
            "pendsv_max < 100",
            "masked_max < 22k",
            "handler_max(\"SysTick\") < 1000",
            "inclusive(\"main\") > 0",
        ],
    )
    .expect_code(0);
    let wrong = check(
        "riscv64-tiles",
        &["calls(\"draw_8x8_tile\") == 442367", "calls(\"draw_8x8_tlie\") == 0", "coverage(\"tiels.c\") > 0%"],
    )
    // Two of the assertions have names that the image lacks: an error in the suite, exit code 2.
    .expect_code(2);
    let failures = wrong.failures("riscv64-tiles");
    assert!(failures[0].ends_with(": 442,368"), "{failures:?}");
    assert!(failures[1].contains("draw_8x8_tile"), "{failures:?}");
    assert!(failures[2].contains("did you mean tiles.c?"), "{failures:?}");
}

#[test]
fn what_is_typed_and_given_is_what_the_firmware_finds() {
    let suite = Suite::new(
        &[
            target("riscv64-echo", "input = [{ after = \"> \", text = \"hello\\n\" }]\nexit = \"any\"\nconsole = [\"5: 6f 6c 6c 65 68\"]"),
            target("cortex-m3-cmdline", "args = [\"one\", \"two\"]\nconsole = [\"one two\"]"),
        ]
        .concat(),
    );
    suite.run(&[]).expect_code(0);
}

#[test]
fn what_is_typed_can_come_from_a_file_byte_for_byte() {
    let input = "input = [{ after = \"> \", file = \"typed/boot.txt\" }, { after = \"> \", text = \"quit\\n\" }]";
    let suite =
        Suite::new(&target("riscv64-echo", &format!("{input}\nconsole = [\"6: 5c 3a 6f 6c 65 68\", \"bye\"]")));
    fs::create_dir(suite.path("typed")).unwrap();
    // Bytes that an option would read as an escape and as a separator.
    fs::write(suite.path("typed/boot.txt"), "helo:\\\n").unwrap();
    suite.run(&[]).expect_code(0);
    // Other typed text makes another run, which the cache does not answer.
    fs::write(suite.path("typed/boot.txt"), "hello\n").unwrap();
    suite.run(&[]).expect_code(1);
    fs::write(suite.path("typed/boot.txt"), "").unwrap();
    let empty = suite.run(&[]).expect_code(2);
    assert!(empty.stderr.contains("harness.toml:3: input: ") && empty.stderr.contains("boot.txt is empty"));
}

#[test]
fn the_report_is_printed_where_it_is_asked_for() {
    let suite = Suite::new(&target("riscv64-exit3", ""));
    let printed = suite.run(&["--json"]).expect_code(1);
    assert_eq!(printed.stdout, printed.files()[0]);
    assert!(SuiteResult::from_json(&printed.stdout).is_ok());
}

#[test]
fn mistakes_are_named_by_file_line_and_nearest_key_before_anything_runs() {
    let suite = Suite::new("");
    let elf = target("riscv64-exit0", "");
    for (text, what) in [
        (format!("{elf}consle = [\"x\"]\n"), "harness.toml:4: unknown key `consle`; did you mean `console`?"),
        (format!("{elf}period = true\n"), "harness.toml:4: invalid type: boolean `true`, expected a number"),
        (format!("{elf}period = \"10x\"\n"), "harness.toml:4: --period 10x: not a number"),
        (format!("{elf}max-depth = \"10x\"\n"), "harness.toml:4: max-depth 10x: not a whole number"),
        (format!("{elf}max-depth = 0\n"), "harness.toml:4: --max-depth 0: must be at least 1"),
        (format!("{elf}seeded-jitter = -1\n"), "harness.toml:4: seeded-jitter -1: not a whole number"),
        (format!("{elf}timeout = 0\n"), "harness.toml:4: --timeout 0: must be a number of seconds"),
        (format!("{elf}[image.files]\n\"a/b\" = \"x\"\n"), "harness.toml:1: --file a/b="),
        (format!("{elf}assert = ['total == 1',\n 'cals(\"f\") == 1']\n"), "harness.toml:5: assertion"),
        (format!("{elf}console = [{{ regex = \"(\" }}]\n"), "harness.toml:4: regex parse error"),
        (format!("{elf}thresholds = {{ total = \"5 apples\" }}\n"), "write 5% or +500"),
        (
            format!("{elf}thresholds = {{ work = \"2%\" }}\n"),
            "thresholds.work: a run that ends by itself does the same",
        ),
        (format!("{elf}for = 9\nthresholds = {{ work = \"+5\" }}\n"), "write 2% or -500"),
        (format!("{elf}thresholds = {{ selv = \"5%\" }}\n"), "did you mean `self`?"),
        (format!("{elf}exit = \"crash\"\n"), "\"lock-up\""),
        (format!("{elf}{elf}"), "the name \"riscv64-exit0\" is that of line 1, too"),
        ("[[image]]\nname = \"x\"\n".to_owned(), "harness.toml:1: this image has no `elf`"),
        ("name = \"x\"\n".to_owned(), "has no [[image]]"),
        ("[[image]\n".to_owned(), "harness.toml:1:"),
        (format!("{elf}input = [{{ text = \"x\" }}]\n"), "either `at` or `after`"),
        (format!("{elf}input = [{{ at = 1, text = \"x\", file = \"x\" }}]\n"), "either `text` or `file`"),
        (format!("{elf}input = [{{ at = 1 }}]\n"), "harness.toml:4: input: either `text` or `file`"),
        (format!("{elf}input = [{{ at = 1, file = \"no/file\" }}]\n"), "no/file cannot be read: No such file"),
    ] {
        suite.write(&text);
        let result = suite.run(&[]).expect_code(2);
        assert!(result.stderr.contains(what), "{text}\n{}", result.stderr);
        assert!(!result.reports.exists(), "something ran: {text}");
    }
    suite.write(&elf);
    let none = suite.run(&["-f", "tag(nothing)"]).expect_code(2);
    assert!(none.stderr.contains("no image matches"), "{}", none.stderr);
    suite.run(&["--shard", "3/2"]).expect_code(2);
    let many = suite.run(&["--shard", "1/4000000000"]).expect_code(2);
    assert!(many.stderr.contains("at most 65,536"), "{}", many.stderr);
    let own = [("CI_NODE_INDEX", "1"), ("CI_NODE_TOTAL", "1"), ("HARNESS_SHARD", "1/1")];
    let output = suite.command(&["--shard", "auto"]).envs(own).output().unwrap();
    let refused = finish(output, suite.path("harness-report")).expect_code(2);
    assert!(refused.stderr.contains("HARNESS_SHARD is set, and GitLab sets CI_NODE_INDEX"), "{}", refused.stderr);
    let both = |name| (name, "1");
    let two = ["CI_NODE_INDEX", "CI_NODE_TOTAL", "JOB_COMPLETION_INDEX"].map(both);
    let output = suite.command(&["--shard", "auto"]).envs(two).output().unwrap();
    let refused = finish(output, suite.path("harness-report")).expect_code(2);
    assert!(refused.stderr.contains("GitLab sets CI_NODE_INDEX"), "{}", refused.stderr);
    suite.run(&["--baseline", "../up"]).expect_code(2);
    let missing = suite.run(&["--baseline", "new"]).expect_code(2);
    assert!(missing.stdout.contains("make it with --save-baseline new"), "{}", missing.stdout);
}

#[test]
fn suites_are_found_upwards_listed_and_filtered() {
    let suite = Suite::new(&small_suite());
    fs::create_dir(suite.path("below")).unwrap();
    let listed = |args: &[&str]| {
        let output = suite.command(args).current_dir(suite.path("below")).arg("--list").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(listed(&[]).lines().count(), 10);
    assert_eq!(listed(&["-f", "tag(rtos)"]), "cortex-m3-tasks-ends #rtos\n");
    assert_eq!(listed(&["-f", "uart", "-f", "name(*sleep)"]).lines().count(), 3);
}

#[test]
fn pull_requests_get_a_summary_and_annotations() {
    let suite = Suite::new(&target("riscv64-exit3", ""));
    let mut command = suite.command(&[]);
    let summary = suite.path("step-summary");
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", &summary);
    let result = finish(command.output().unwrap(), suite.path("harness-report")).expect_code(1);
    assert!(result.stdout.contains("::error file="), "{}", result.stdout);
    assert!(
        result.stdout.contains("title=riscv64-exit3::the firmware exited with status 3 at "),
        "{}",
        result.stdout
    );
    let text = fs::read_to_string(summary).unwrap();
    assert!(text.starts_with("## \u{274c} ") && text.contains("exited with status 3"), "{text}");
    assert_eq!(text, fs::read_to_string(result.reports.join("summary.md")).unwrap());
}

#[test]
fn a_reader_that_has_gone_changes_no_verdict() {
    let suite = Suite::new(&target("riscv64-exit3", ""));
    let mut command = suite.command(&[]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command.stdout(writer).stderr(std::process::Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(suite.path("harness-report/junit.xml").is_file());
}

#[test]
fn an_interrupt_ends_every_emulator_and_is_no_success() {
    let text: String =
        (0..4).map(|n| target("riscv64-spin", &format!("name = \"spin{n}\"\nfor = \"100G\""))).collect();
    let suite = Suite::new(&text);
    let mut command = suite.command(&["-j", "2", "--no-cache"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    while common::child_of(child.id()).is_none() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    common::signal(child.id(), "INT");
    let pid = child.id();
    let result = finish(child.wait_with_output().unwrap(), suite.path("harness-report")).expect_code(4);
    assert_eq!(common::child_of(pid), None);
    assert_eq!(result.report().cases.len(), 4);
}

#[test]
fn the_reports_schema_is_that_of_what_is_written() {
    let suite = Suite::new(&target("riscv64-exit3", ""));
    let report = suite.run(&[]).expect_code(1).files()[0].clone();
    let schema = suite.command(&["--schema"]).output().unwrap();
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&report), keys(&schema["properties"]));
    assert_eq!(keys(&report["cases"][0]), keys(&schema["$defs"]["CaseReport"]["properties"]));
    assert_eq!(keys(&report["cases"][0]["run"]), keys(&schema["$defs"]["RunReport"]["properties"]));
}

#[test]
fn two_profiles_are_compared_as_a_table_and_a_picture() {
    let suite = Suite::new(&(target("cortex-m3-bare", "") + &target("cortex-m3-bare-Os", "")));
    suite.run(&[]).expect_code(0);
    let diff = |one: &str, other: &str| {
        let mut diff = Command::new(env!("CARGO_BIN_EXE_harness"));
        diff.current_dir(suite.path("harness-report")).args(["diff", one, other, "-o", "diff.svg"]);
        let result = finish(diff.output().unwrap(), suite.path("harness-report")).expect_code(0);
        (result.stdout, fs::read(suite.path("harness-report/diff.svg")).unwrap())
    };
    let (o2, os) = ("cortex-m3-bare.profile", "cortex-m3-bare-Os.profile");
    let (table, picture) = diff(o2, os);
    assert!(table.contains("note: the image differs") && table.contains("note: the compiler differs"), "{table}");
    assert!(table.contains("total \u{2212}"), "{table}");
    assert_eq!(diff(o2, os), (table, picture), "not the same twice");
    assert!(diff(o2, o2).0.contains("total unchanged"));
    let mut wrong = Command::new(env!("CARGO_BIN_EXE_harness"));
    let wrong = wrong.args(["diff", "nothing.profile", "nothing.profile"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}

/// Splits a command of a summary into words, as a shell does.
fn words(command: &str) -> Vec<String> {
    let script = format!("for word in {command}; do printf '%s\\n' \"$word\"; done");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_commands_of_reports_are_pasted_into_the_projects_root_wherever_the_suite_was_run() {
    let suite = Suite::new("");
    let root = suite.dir.path();
    for folder in [".git", "ci/gates", "src/deep"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let text = String::from("baseline = \"main\"\n") + &target("riscv64-bare", "thresholds = { total = \"0%\" }");
    fs::write(root.join("ci/gates/a suite.toml"), text).unwrap();
    let run = |here: &str, args: &[&str]| {
        let mut command = suite.command(args);
        finish(command.current_dir(root.join(here)).output().unwrap(), root.join("src/out"))
    };
    let here = "src/deep";
    run(here, &["../../ci/gates/a suite.toml", "-o", "../out", "--save-baseline", "main"]).expect_code(0);
    let baseline = root.join("ci/gates/baselines/main/riscv64-bare.baseline");
    let saved = fs::read_to_string(&baseline).unwrap();
    let total = saved.lines().find(|line| line.starts_with("total\t")).unwrap();
    let with_total = |insns: u64| fs::write(&baseline, saved.replace(total, &format!("total\t{insns}"))).unwrap();
    let total_insns: u64 = total.split_once('\t').unwrap().1.parse().unwrap();
    // Lower a function's number in the baseline, so that there is a failure to debug.
    let grown = saved.lines().find(|line| line.starts_with("function\tcrc32_table\t")).unwrap();
    let insns = grown.split('\t').nth(3).unwrap();
    let less = format!("\t{}\t", insns.parse::<u64>().unwrap() - 10);
    let before = saved.replace(grown, &grown.replacen(&format!("\t{insns}\t"), &less, 1));
    fs::write(&baseline, before.replace(total, &format!("total\t{}", total_insns - 10))).unwrap();
    let crossed = run(here, &["../../ci/gates/a suite.toml", "-o", "../out"]).expect_code(3);
    // On the terminal, commands are relative to the directory that the suite was run in.
    assert!(crossed.stdout.contains("harness test '../../ci/gates/a suite.toml' -f 'name(riscv64-bare)'"));
    assert!(crossed.stdout.contains("profile: ../out/riscv64-bare.profile\n"), "{}", crossed.stdout);
    let [_, junit, summary] = crossed.files();
    let of = |what: &str| {
        let line =
            summary.lines().find(|line| line.starts_with(what)).unwrap_or_else(|| panic!("no {what} in {summary}"));
        let command = line.split_once('`').unwrap().1.split_once('`').unwrap().0.to_owned();
        assert!(
            junit.contains(&format!("{what} {}\n", quick_xml::escape::escape(&command)))
                || junit.contains(&format!("{what} {}</failure>", quick_xml::escape::escape(&command))),
            "{junit}"
        );
        command
    };
    for what in ["profile:", "picture:"] {
        assert!(root.join(of(what)).exists(), "{what} {}", of(what));
    }
    let paste = |command: &str| {
        let words = words(command);
        assert_eq!(words[0], "harness");
        let mut pasted = common::harness();
        pasted.current_dir(root).args(&words[1..]).env_remove("GITHUB_ACTIONS").output().unwrap()
    };
    let again = finish(paste(&of("again:")), root.join("harness-report")).expect_code(3);
    // Run in the folder that the summary is written for, the command prints itself again.
    assert!(again.stdout.contains(&of("again:")) && again.report().cases.len() == 1, "{}", again.stdout);
    let debug = of("debug:").replace("harness debug ", "harness top ");
    assert!(paste(debug.split_once(" --at ").unwrap().0).status.success(), "{debug}");
    finish(paste(&of("accept:")), root.join("harness-report")).expect_code(3);
    assert_eq!(fs::read_to_string(&baseline).unwrap(), saved);
    finish(paste(&of("again:")), root.join("harness-report")).expect_code(0);

    // A run that is much better is worth a tighter baseline; one that is a little better is not.
    with_total(total_insns + total_insns / 100);
    let better = run(here, &["../../ci/gates/a suite.toml", "-o", "../out"]).expect_code(0);
    assert!(!better.stdout.contains("--ratchet"), "{}", better.stdout);
    with_total(total_insns * 2);
    let better = run(here, &["../../ci/gates/a suite.toml", "-o", "../out"]).expect_code(0);
    assert!(
        better.stdout.contains("total \u{2212}50.00 %")
            && better.stdout.contains("      tighten: harness test '../../ci")
    );
    let tighten = "harness test 'ci/gates/a suite.toml' -f 'name(riscv64-bare)' --ratchet";
    for text in better.files() {
        let escaped = quick_xml::escape::escape(tighten);
        assert!(text.contains(tighten) || text.contains(&*escaped), "{text}");
    }
    finish(paste(tighten), root.join("harness-report")).expect_code(0);
    assert_eq!(fs::read_to_string(&baseline).unwrap(), saved);
}
