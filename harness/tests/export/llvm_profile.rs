// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: LLVM's tools read the sample profile, its numbers are those of the instructions at the places that
//! llvm-symbolizer names, and clang and rustc optimise by it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use harness::profile::Profile;

use crate::common::tools::{self, export, stdout};
use crate::common::{built, image, run, run_file};

/// Counts of a function by location, and its inlined functions by location and name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Function {
    counts: BTreeMap<String, u64>,
    inlined: BTreeMap<(String, String), Function>,
}

impl Function {
    fn total(&self) -> u64 {
        self.counts.values().sum::<u64>() + self.inlined.values().map(Function::total).sum::<u64>()
    }
}

/// Frame as llvm-symbolizer prints it.
#[derive(Debug, Default)]
struct Frame {
    function: String,
    start_line: u32,
    line: u32,
    discriminator: u32,
    /// Whether gcc has compiled it, whose discriminators mean nothing to LLVM.
    is_of_gcc: bool,
}

impl Frame {
    fn location(&self) -> String {
        let offset = self.line.wrapping_sub(self.start_line) & 0xffff;
        match (self.discriminator & 1, self.discriminator >> 1) {
            (1, _) | (0, 0) => offset.to_string(),
            (_, discriminator) => format!("{offset}.{}", discriminator & 0x1f),
        }
    }

    /// Copies of the code by its discriminator, whose second component this is.
    fn copies(&self) -> u64 {
        let rest = if self.discriminator & 1 == 1 { self.discriminator >> 1 } else { self.discriminator >> 7 };
        if rest & 1 == 1 { 1 } else { u64::from(rest >> 1 & 0x1f).max(1) }
    }
}

/// Frames of addresses, innermost first, by llvm-symbolizer.
fn symbolized(elf: &Path, addresses: &[u64]) -> Vec<Vec<Frame>> {
    let mut command = tools::system("llvm-symbolizer");
    command.args(["--verbose", "--inlining", "--no-demangle", "--functions=linkage", "--obj"]).arg(elf);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut asked = String::new();
    addresses.iter().for_each(|address| writeln!(asked, "{address:#x}").unwrap());
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(asked.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let answers = text.trim_end().split("\n\n").map(|answer| {
        let mut frames: Vec<Frame> = Vec::new();
        for line in answer.lines() {
            let Some((key, value)) = line.strip_prefix("  ").and_then(|line| line.split_once(": ")) else {
                frames.push(Frame { function: line.to_owned(), ..Frame::default() });
                continue;
            };
            let frame = frames.last_mut().unwrap();
            match key {
                "Function start line" => frame.start_line = value.parse().unwrap(),
                "Line" => frame.line = value.parse().unwrap(),
                "Filename" => frame.is_of_gcc = value.contains("/libgcc/"),
                "Discriminator" if !frame.is_of_gcc => frame.discriminator = value.parse().unwrap(),
                _ => {}
            }
        }
        frames
    });
    answers.collect()
}

/// The profile as it must be, from the exact counts and llvm-symbolizer's frames.
fn expected(elf: &Path, profile: &Profile) -> BTreeMap<String, Function> {
    let insns: Vec<(u64, u64)> = profile.insns().into_iter().collect();
    let addresses: Vec<u64> = insns.iter().map(|&(pc, _)| pc).collect();
    let frames = symbolized(elf, &addresses);
    assert_eq!(frames.len(), insns.len());
    let mut functions: BTreeMap<String, Function> = BTreeMap::new();
    for (&(_, count), frames) in insns.iter().zip(&frames) {
        let Some((innermost, _)) = frames.split_first().filter(|(first, _)| first.line > 0 && first.start_line > 0)
        else {
            continue;
        };
        let mut callers = frames.iter().rev();
        let mut caller = callers.next().unwrap();
        let mut function = functions.entry(caller.function.clone()).or_default();
        for callee in callers {
            function = function.inlined.entry((caller.location(), callee.function.clone())).or_default();
            caller = callee;
        }
        let most = function.counts.entry(innermost.location()).or_default();
        *most = (count * innermost.copies()).max(*most);
    }
    functions
}

/// Reads LLVM's text; the totals of functions and inlined functions must be their sums.
fn parsed(text: &str) -> BTreeMap<String, Function> {
    fn body<'t>(lines: &mut std::iter::Peekable<std::str::Lines<'t>>, depth: usize) -> Function {
        let mut function = Function::default();
        while let Some(line) = lines.next_if(|line| line.len() - line.trim_start().len() == depth) {
            let (location, rest) = line.trim_start().split_once(": ").unwrap();
            let first = rest.split(' ').next().unwrap();
            match first.split_once(':') {
                None => {
                    function.counts.insert(location.to_owned(), first.parse().unwrap());
                }
                Some((name, total)) => {
                    let inlined = body(lines, depth + 1);
                    assert_eq!(total, inlined.total().to_string(), "{line}");
                    function.inlined.insert((location.to_owned(), name.to_owned()), inlined);
                }
            }
        }
        function
    }
    let mut functions = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(head) = lines.next() {
        let mut parts = head.rsplit(':');
        let (_entries, total, name) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        let function = body(&mut lines, 1);
        assert_eq!(total, function.total().to_string(), "{head}");
        functions.insert(name.to_owned(), function);
    }
    functions
}

/// Totals and entries of the outermost functions, as `llvm-profdata show` prints them.
fn shown(text: &str) -> BTreeMap<String, (u64, u64)> {
    let heads = text.lines().filter_map(|line| line.strip_prefix("Function: "));
    let head = |line: &str| {
        let (name, numbers) = line.split_once(": ").unwrap();
        let numbers: Vec<&str> = numbers.split(", ").collect();
        (name.to_owned(), (numbers[0].parse().unwrap(), numbers[1].parse().unwrap()))
    };
    heads.map(head).collect()
}

/// Images by clang: in those by rustc llvm-symbolizer names labels and discarded code.
#[test]
fn llvm_reads_the_counts_of_the_instructions_at_its_own_places() {
    for name in ["riscv64-bare-clang", "cortex-m3-bare-clang"] {
        let run = run(name, &[]);
        let text = String::from_utf8(export(&run.dir, "llvm-profile", &[])).unwrap();
        let found = parsed(&text);
        let expected = expected(&image(name), &run.profile());
        assert!(expected.values().any(|function| !function.inlined.is_empty()), "{name}: nothing was inlined");
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{name}");
        for (function, counts) in &expected {
            assert_eq!(&found[function], counts, "{name} {function}");
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("firmware.prof");
        fs::write(&file, &text).unwrap();
        let mut show = tools::system("llvm-profdata");
        let shown = shown(&stdout(show.args(["show", "--sample", "--all-functions"]).arg(&file)));
        assert_eq!(shown.len(), found.len(), "{name}");
        for (function, (total, _)) in &shown {
            assert_eq!(*total, found[function].total(), "{name} {function}");
        }
        let main = "crc32_bitwise";
        let calls = harness::analysis::functions::table(&run.profile());
        let calls = calls.rows.iter().find(|row| row.name == main).unwrap().calls;
        assert_eq!(shown[main].1, calls, "{name} {main}");
        // LLVM writes what it has read.
        let mut merge = tools::system("llvm-profdata");
        merge.args(["merge", "--sample", "--text", "-o", "-"]).arg(&file);
        assert_eq!(parsed(&stdout(&mut merge)), found, "{name}");
    }
}

/// Builds an image of targets/ by LLVM, by a profile if one is given.
fn sampled(targets: &Path, name: &str, profile: Option<&Path>) -> PathBuf {
    let elf = targets.join(format!("build/sampled/{name}.elf"));
    let mut make = Command::new("make");
    let _ = fs::remove_dir_all(targets.join("build/obj"));
    make.arg("-C").arg(targets).arg(format!("build/sampled/{name}.elf"));
    if let Some(profile) = profile {
        make.arg(format!("SAMPLE_PROFILE={}", profile.display()));
    }
    built::run(&mut make);
    elf
}

/// Copy of targets/ without the images.
fn targets(dir: &Path) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets").canonicalize().unwrap();
    let to = dir.join("targets");
    fs::create_dir_all(to.join("build")).unwrap();
    for name in ["Makefile", "apps", "kernel", "lib", "mcount", "ports", "rust", "zone"] {
        built::run(Command::new("cp").arg("-a").arg(from.join(name)).arg(&to));
    }
    // The kernel's link, and the stamp by which it is known to be there.
    for name in ["FreeRTOS-Kernel", "kernel.stamp"] {
        built::run(Command::new("cp").arg("-a").arg(from.join("build").join(name)).arg(to.join("build")));
    }
    fs::copy(from.join("../Cargo.lock"), dir.join("Cargo.lock")).unwrap();
    built::run(Command::new("touch").arg(to.join("build/kernel.stamp")));
    to
}

/// LLVM chooses by a profile what it inlines and in which order code lies, by the time that it expects of a processor
/// with caches and predictions. That saves instructions here and costs some there: so each image says which.
const SAMPLED: [(&str, std::cmp::Ordering); 4] = [
    ("riscv64-interpreter", std::cmp::Ordering::Less),
    ("riscv64-branchy", std::cmp::Ordering::Greater),
    ("cortex-m3-interpreter", std::cmp::Ordering::Greater),
    ("cortex-m3-branchy", std::cmp::Ordering::Greater),
];

#[test]
fn clang_optimises_by_the_profile() {
    let temp = tempfile::tempdir().unwrap();
    let targets = targets(temp.path());
    for (name, expected) in SAMPLED {
        let before = run_file(&sampled(&targets, name, None), &[]).expect_code(0);
        let file = temp.path().join(format!("{name}.prof"));
        fs::write(&file, export(&before.dir, "llvm-profile", &[])).unwrap();
        let after = run_file(&sampled(&targets, name, Some(&file)), &[]).expect_code(0);
        assert_eq!(before.console(), after.console(), "{name}");
        let [before, after] = [before, after].map(|run| run.profile().total_insns());
        eprintln!("{name}: {before} instructions, {after} by the profile");
        assert_eq!(after.cmp(&before), expected, "{name}: {before} instructions, {after} by the profile");
    }
}

/// A function of the same name and lines as one of the firmware.
const RUST: &str = "#[no_mangle]\npub extern \"C\" fn crc32_bitwise(n: u32) -> u32 {\n    let mut sum = 0u32;\n    \
                    for i in 0..n {\n        sum = sum.rotate_left(1) ^ i;\n    }\n    sum\n}\n";

#[test]
fn rustc_reads_the_profile() {
    let run = run("riscv64-bare-clang", &[]).expect_code(0);
    let dir = tempfile::tempdir().unwrap();
    let text = String::from_utf8(export(&run.dir, "llvm-profile", &[])).unwrap();
    let (file, source) = (dir.path().join("firmware.prof"), dir.path().join("crc.rs"));
    fs::write(&file, &text).unwrap();
    fs::write(&source, RUST).unwrap();
    let ir = |profile: Option<&Path>| {
        let mut rustc = tools::system("rustc");
        rustc.args(["-O", "-Cdebuginfo=1", "--crate-type=lib", "--emit=llvm-ir", "-o", "-"]).arg(&source);
        // The option is unstable, and stable compilers have it, too.
        rustc.env("RUSTC_BOOTSTRAP", "1");
        rustc.args(profile.map(|profile| format!("-Zprofile-sample-use={}", profile.display())));
        stdout(rustc.current_dir(dir.path()))
    };
    let head = text.lines().find(|line| line.starts_with("crc32_bitwise:")).unwrap();
    let entries: u64 = head.rsplit(':').next().unwrap().parse().unwrap();
    assert!(!ir(None).contains("function_entry_count"));
    // LLVM adds 1, so that 0 means that nothing is known.
    let count = format!("!\"function_entry_count\", i64 {}", entries + 1);
    assert!(ir(Some(&file)).contains(&count), "{count} in\n{}", ir(Some(&file)));
}
