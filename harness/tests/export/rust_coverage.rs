// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise for Rust: executions of lines, and both ways of each condition, are those that rustc's own instrumentation
//! (`-C instrument-coverage`) counts of the same source on the host.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::analysis::coverage::{Coverage, File};
use serde_json::Value;

use crate::common::run;
use crate::common::tools::{self, stdout};

const IMAGE: &str = "cortex-m3-rust-hello-O0";
const SOURCE: &str = "rust/hello/src/main.rs";

/// Parts that the firmware's crate uses, for the host: its board, and the start of its program.
const SUPPORT: &str = r#"
use std::{panic, process};

#[macro_export]
macro_rules! println {
    ($($format:tt)*) => { $crate::print(format_args!($($format)*)) };
}

pub fn print(line: std::fmt::Arguments<'_>) {
    std::println!("{line}");
}

pub fn exit(status: usize) -> ! {
    process::exit(status as i32)
}

pub fn expect_panic() {
    panic::set_hook(Box::new(|info| {
        let line = info.location().map_or(0, |location| location.line());
        std::println!("panicked in line {line}: {}", info.payload_as_str().unwrap_or(""));
        process::exit(0)
    }));
}

pub fn xorshift(state: &mut u32) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    *state
}

pub fn mix(sum: u32, value: u32) -> u32 {
    (sum ^ value).rotate_left(5).wrapping_mul(0x9e37_79b1)
}
"#;
const ENTRY: &str = r##"
extern crate proc_macro;
use proc_macro::TokenStream;

#[proc_macro_attribute]
pub fn entry(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut main: TokenStream = "#[unsafe(no_mangle)] pub extern \"C\"".parse().unwrap();
    main.extend(item);
    main
}
"##;

fn targets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets").canonicalize().unwrap()
}

/// The compiler of the firmware, which is Debian's on Debian 12.
fn rustc() -> String {
    let environment = stdout(Command::new(targets().join("rust/build")).args(["--env", "thumbv7m-none-eabi"]));
    environment.lines().find_map(|line| line.strip_prefix("RUSTC=")).unwrap_or("rustc").to_owned()
}

/// Program of LLVM's that reads what this compiler's programs write: Debian's package of that version, or rustup's
/// component.
fn llvm(rustc: &str, name: &str) -> Command {
    let version = stdout(Command::new(rustc).arg("-vV"));
    let version = version.lines().find_map(|line| line.strip_prefix("LLVM version: ")).unwrap();
    let debians = format!("{name}-{}", version.split('.').next().unwrap());
    if Command::new(&debians).arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Command::new(debians);
    }
    let mut of_host = Command::new("rustc");
    let host = stdout(of_host.arg("-vV"));
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let sysroot = stdout(Command::new("rustc").args(["--print", "sysroot"]));
    let path = Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin").join(name);
    assert!(path.is_file(), "neither {debians} nor {} is there: run ci/setup --viewers", path.display());
    Command::new(path)
}

/// Executions by line, and the two ways of each condition by line, as the instrumented program counts them.
struct Judge {
    lines: BTreeMap<u32, u64>,
    /// Once for each instance of a generic function.
    conditions: BTreeMap<u32, Vec<(u64, u64)>>,
    console: String,
}

impl Judge {
    fn new() -> Judge {
        let temp = tempfile::tempdir().unwrap();
        let (dir, rustc) = (temp.path(), rustc());
        let console = instrumented(dir, &rustc);
        let mut merge = llvm(&rustc, "llvm-profdata");
        stdout(merge.args(["merge", "hello.profraw", "-o", "hello.profdata"]).current_dir(dir));
        let export = |format: &str| {
            let mut export = llvm(&rustc, "llvm-cov");
            export.args(["export", format, "--instr-profile=hello.profdata", "hello"]);
            stdout(export.current_dir(dir))
        };
        let mut lines = BTreeMap::new();
        for line in export("--format=lcov").lines().filter_map(|line| line.strip_prefix("DA:")) {
            let (line, count) = line.split_once(',').unwrap();
            lines.insert(line.parse().unwrap(), count.parse().unwrap());
        }
        let json: Value = serde_json::from_str(&export("--format=text")).unwrap();
        let mut conditions: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for function in json["data"][0]["functions"].as_array().unwrap() {
            for branch in function["branches"].as_array().unwrap() {
                // Begin and end of the condition, then how often it was true and false.
                let [line, holds, fails] = [0, 4, 5].map(|field| branch[field].as_u64().unwrap());
                conditions.entry(line as u32).or_default().push(pair_of(holds, fails));
            }
        }
        Judge { lines, conditions, console }
    }
}

/// Builds the firmware's crate for the host with instrumentation, runs it, and returns what it printed.
fn instrumented(dir: &Path, rustc: &str) -> String {
    let compile = |kind: &str, name: &str, text: &str| {
        let source = dir.join(format!("{name}.rs"));
        fs::write(&source, text).unwrap();
        let mut rustc = tools::system(rustc);
        stdout(rustc.args(["--edition=2024", "--crate-type", kind]).arg(&source).current_dir(dir));
    };
    compile("rlib", "support", SUPPORT);
    compile("rlib", "riscv", "");
    compile("proc-macro", "riscv_rt", ENTRY);
    let mut build = tools::system(rustc);
    build.args(["--edition=2024", "-Copt-level=0", "-Coverflow-checks=on", "-Cinstrument-coverage", "-L."]);
    // Unstable; stable compilers have it, too.
    build.env("RUSTC_BOOTSTRAP", "1").arg("-Zcoverage-options=branch");
    for name in ["support", "riscv", "riscv_rt"] {
        build.args(["--extern", name]);
    }
    stdout(build.args(["--crate-name=hello", "-ohello"]).arg(targets().join(SOURCE)).current_dir(dir));
    let mut hello = Command::new(dir.join("hello"));
    stdout(hello.env("LLVM_PROFILE_FILE", "hello.profraw").current_dir(dir))
}

/// Both ways, the smaller number first: which one is the taken one is the compiler's choice.
fn pair_of(one: u64, other: u64) -> (u64, u64) {
    (one.min(other), one.max(other))
}

fn exact_pairs(file: &File, line: u32) -> Vec<(u64, u64)> {
    let branches = file.branches.get(&line).into_iter().flatten();
    let pairs = branches.filter_map(|branch| match &branch.ways[..] {
        [one, other] => Some(pair_of(one.exact()?, other.exact()?)),
        _ => None,
    });
    pairs.collect()
}

/// Why a line has another number than the judge gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// It has a closure as well as code of its own: harness adds the two, the judge takes the greater one.
    Closure,
    /// It begins a loop, which asks once more than it turns.
    Loop,
    /// A call before it never returned: the judge does not look into calls.
    Unreached,
}

/// Lines with another number, by their beginnings.
const OTHERS: [(&str, Reason); 17] = [
    ("self.0.iter().map(|shape| shape.area())", Reason::Closure),
    ("Box::new(Group(self.0.iter().map(", Reason::Closure),
    ("for _ in 0..6 {", Reason::Loop),
    ("(0..times).fold(0, |sum, i|", Reason::Closure),
    ("let mut counting = |x: u32| {", Reason::Closure),
    ("[Box::new(move |x| x ^ offset)", Reason::Closure),
    ("boxed.iter().fold(sum, |value, step|", Reason::Closure),
    ("for i in 0..12 {", Reason::Loop),
    ("words.iter().fold(0, |sum,", Reason::Closure),
    ("let mut numbers: [u32; 40]", Reason::Closure),
    ("let mut pairs: [(u16, i8); 20]", Reason::Closure),
    ("generic_sort(&mut numbers, &|value| *value)", Reason::Closure),
    ("generic_sort(&mut pairs, &|pair|", Reason::Closure),
    ("generic_sort(&mut numbers, &|value| value & 0xff)", Reason::Closure),
    ("numbers.sort_unstable_by_key(|value|", Reason::Closure),
    ("}", Reason::Unreached),
    ("for round in 0..ROUNDS {", Reason::Loop),
];

/// The last line, which a panic keeps from running.
const END: &str = "exit(1)";

#[test]
#[ignore = "needs ci/setup --viewers"]
fn lines_and_conditions_of_rust_are_those_that_its_own_instrumentation_counts() {
    let run = run(IMAGE, &["--branches"]).expect_code(0);
    let judge = Judge::new();
    let plain = |text: &str| text.replace('\r', "").trim().to_owned();
    assert_eq!(plain(&run.console()), plain(&judge.console));
    let coverage = Coverage::of(&[&run.profile()]);
    let file = coverage.files.iter().find(|(path, _)| path.ends_with(SOURCE)).map(|(_, file)| file).unwrap();
    let text = fs::read_to_string(targets().join(SOURCE)).unwrap();
    let text: Vec<&str> = text.lines().map(str::trim).collect();
    let mut others = OTHERS.into_iter().chain([(END, Reason::Unreached)]);
    let mut equal = 0;
    for (&line, &expected) in &judge.lines {
        let text = text[line as usize - 1];
        // The compiler has made no instruction of the others, such as braces.
        match file.lines.get(&line) {
            None => assert!(text.len() < 10 || text.ends_with('='), "{line}: {text} has no code"),
            Some(&found) if found == expected => equal += 1,
            Some(&found) => {
                let (start, reason) = others.next().unwrap_or_else(|| panic!("{line}: {found}, {expected}: {text}"));
                let is_explained = match reason {
                    Reason::Closure | Reason::Loop => found > expected,
                    Reason::Unreached => found == 0,
                };
                assert!(text.starts_with(start) && is_explained, "{line}: {found}, {expected}: {text}, {reason:?}");
            }
        }
    }
    assert_eq!((equal, others.next()), (94, None));
    let mut conditions = 0;
    for (&line, expected) in &judge.conditions {
        // Checks of indices are branches, too.
        let mut found = exact_pairs(file, line);
        for pair in expected {
            let at = found.iter().position(|found| found == pair);
            let at = at.unwrap_or_else(|| panic!("{line}: {pair:?} not in {found:?}: {}", text[line as usize - 1]));
            found.swap_remove(at);
            conditions += 1;
        }
    }
    assert_eq!(conditions, 21);
}
