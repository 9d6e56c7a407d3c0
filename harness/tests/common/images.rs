// SPDX-License-Identifier: MIT OR Apache-2.0
//! Firmware images in targets/build, and the selection of images for tests of every image.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use globset::Glob;
use tempfile::TempDir;

/// Images that `cargo test` takes for all: every property of the images occurs in at least one of them.
pub const DOZEN: [&str; 17] = [
    // FreeRTOS, its tasks and its tick on RISC-V, with 64 bits.
    "riscv64-freertos",
    // FreeRTOS on Arm, instrumented: two witnesses, and tasks interrupted on their way into a function.
    "cortex-m3-freertos-pg-Os",
    // Tasks that are created, deleted and created again in the same memory.
    "riscv64-tasks-ends",
    // Tasks that are suspended in the depths of their stacks, with the state of an FPU on them.
    "cortex-m4-crew",
    // Interrupts that interrupt interrupts, with and without the FPU's state in their frames.
    "cortex-m4-nested",
    // A storm of interrupts and an instrumented runtime without Thumb-2; the stack is mended by hand there.
    "cortex-m0-storm-pg",
    // RISC-V with 32 bits, compiled for size and instrumented.
    "riscv32-bare-pg-Os",
    // Conditionally executed instructions on Armv8-M, instrumented.
    "cortex-m33-it-pg",
    // C++ without optimisation, instrumented.
    "cortex-m3-cpp-pg-O0",
    // Timer interrupts, traps and environment calls within each other on RISC-V.
    "riscv64-nested",
    // Waits for interrupts, over and over.
    "cortex-m3-idle",
    // No DWARF: stacks by Arm's exception tables.
    "cortex-m3-stacks-exidx",
    // No unwind information at all: stacks by frame pointers, some of which are bent.
    "riscv64-badframe-fp",
    // Stack pointers that point at no stack.
    "cortex-m3-badsp",
    // Several vCPUs.
    "riscv64-smp",
    // Several vCPUs that share no translations, each with interrupts of its own: one starts the other.
    "cortex-m33-an521-amp",
    // No names: the starts of functions are unknown.
    "cortex-m3-bare-stripped",
];

/// Images of AVR that stand for all of them: without debug information and with shared prologues, with interrupts, and with
/// Arduino's core.
const AVR_FEW: [&str; 3] = ["avr/uno-prologues", "avr/uno-timer", "avr/uno-sketch"];

/// Directory of the images, built by `ci/setup --tests`.
pub fn images_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets/build")
}

/// Path of an image, `riscv64-freertos` or with extension.
pub fn image(name: &str) -> PathBuf {
    let name = if name.contains('.') { name.to_owned() } else { format!("{name}.elf") };
    let path = images_dir().join(&name);
    assert!(path.is_file(), "{} is missing: run ci/setup --tests, which builds targets/", path.display());
    path
}

/// Copy of an image in a folder of its own, away from the ELF file that would name its functions.
pub fn alone(name: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::copy(image(name), &path).unwrap();
    (dir, path)
}

/// Output of `make -C targets` for a question.
fn make(question: &str) -> Vec<String> {
    let mut make = Command::new("make");
    let output = make.arg("-s").arg("-C").arg(images_dir().join("..")).arg(question).output();
    let output = output.unwrap_or_else(|error| panic!("{make:?}: {error}; ci/setup --tests installs it"));
    assert!(output.status.success(), "{make:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Files that must exist, according to targets/Makefile.
pub fn listed_images() -> Vec<String> {
    make("list")
}

/// Whether this system builds an image; those in Rust it builds after `ci/setup --viewers`, which .ci/run wants all of.
pub fn is_listed(name: &str) -> bool {
    static LISTED: OnceLock<BTreeSet<String>> = OnceLock::new();
    let file = format!("{name}.elf");
    !name.contains("-rust-") || LISTED.get_or_init(|| listed_images().into_iter().collect()).contains(&file)
}

/// Images that need a feature this system lacks, one per line with the feature. On Debian 12 there must be none.
pub fn absent_images() -> Vec<String> {
    make("absent")
}

/// Writes text even in a passing test, whose output is not shown.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// All ELF images by name: those that targets/Makefile builds, all of which must exist, and any others beside them.
pub fn all_images() -> Vec<String> {
    static FOUND: OnceLock<Vec<String>> = OnceLock::new();
    let find = || {
        let entries = fs::read_dir(images_dir()).expect("targets/build is missing: run ci/setup --tests");
        let found: BTreeSet<String> =
            entries.filter_map(|entry| entry.unwrap().file_name().into_string().ok()).collect();
        let listed = listed_images();
        let missing: Vec<&String> = listed.iter().filter(|file| !found.contains(*file)).collect();
        assert!(missing.is_empty(), "{missing:?} not in targets/build: run ci/setup --tests, which builds it");
        assert!(listed.len() > DOZEN.len(), "targets/Makefile lists hardly an image: {listed:?}");
        for line in absent_images() {
            say(&format!("not tested: {line}"));
        }
        found.iter().filter_map(|file| Some(file.strip_suffix(".elf")?.to_owned())).collect()
    };
    FOUND.get_or_init(find).clone()
}

/// Images of AVR, which lie in a folder of their own: tests that ask tools of Arm or RISC-V take [`all_images`].
pub fn avr_images() -> Vec<String> {
    let entries = fs::read_dir(images_dir().join("avr")).expect("targets/build/avr is missing: run ci/setup --tests");
    let files = entries.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let found: BTreeSet<String> =
        files.filter_map(|file| Some(format!("avr/{}", file.strip_suffix(".elf")?))).collect();
    assert!(AVR_FEW.iter().all(|name| found.contains(*name)), "{found:?}: run ci/setup --tests, which builds all");
    found.into_iter().collect()
}

/// Images that gcc alone made of sources here, with its usual output and without assembly that moves sp. For other
/// images neither readelf's call frame information nor GNU's addr2line is a reliable arbiter.
pub fn images_of_gcc() -> Vec<String> {
    let others = [
        "-clang",
        "-rust-",
        "-exceptions",
        "-throw",
        "-picolibc",
        "-millicode",
        "-jumps",
        "-heap-newlib",
        "-heap-wrong",
        "riscv64-threadx",
        "riscv32-threadx",
        "riscv64-zephyr",
        "riscv32-zephyr",
    ];
    all_images().into_iter().filter(|name| !others.iter().any(|other| name.contains(other))).collect()
}

fn wanted() -> String {
    std::env::var("HARNESS_IMAGES").unwrap_or_default()
}

/// Whether the named dozen is tested, the default.
pub fn is_dozen() -> bool {
    wanted().is_empty()
}

/// Whether every image is tested.
pub fn is_all() -> bool {
    wanted() == "all"
}

/// Images for a test of every image: those named by `HARNESS_IMAGES`, which is `all` or a list of names and patterns
/// like `riscv64-*,cortex-m3-bare`; by default the named dozen.
pub fn selected() -> Vec<String> {
    let mut images = selected_with_avr();
    images.retain(|name| !is_avr(name));
    images
}

/// The named dozen, and the few of AVR.
pub fn dozen_with_avr() -> Vec<&'static str> {
    [&DOZEN[..], &AVR_FEW].concat()
}

/// Images of [`selected`], and of AVR those that `HARNESS_IMAGES` names (`avr/*`); by default a few.
pub fn selected_with_avr() -> Vec<String> {
    let wanted = wanted();
    let images = [all_images(), avr_images()].concat();
    let patterns: Vec<&str> = match wanted.as_str() {
        "all" => return images,
        "" => dozen_with_avr(),
        list => list.split(',').map(str::trim).collect(),
    };
    let mut selected = BTreeSet::new();
    for pattern in patterns {
        let glob = Glob::new(pattern).unwrap_or_else(|error| panic!("HARNESS_IMAGES={wanted}: {error}"));
        let glob = glob.compile_matcher();
        let before = selected.len();
        selected.extend(images.iter().filter(|name| glob.is_match(name)).cloned());
        assert!(selected.len() > before, "{pattern} is not an image in targets/build, or is said twice");
    }
    selected.into_iter().collect()
}

/// Selected images with a property, those of AVR included. The dozen and all images must contain some.
pub fn selected_that(is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let mut images = selected_with_avr();
    images.retain(|name| is_meant(name));
    assert!(!images.is_empty() || !(is_dozen() || is_all()), "nothing is tested");
    images
}

/// Whether an image is one of AVR.
pub fn is_avr(name: &str) -> bool {
    name.starts_with("avr/")
}

/// Whether an image's machine has several CPUs, whether or not more than one of them is active.
pub fn has_several_cpus(name: &str) -> bool {
    name.starts_with("riscv64-smp") || name.contains("-an521-")
}

/// Options that an image needs beside its name: those that a user would give, and an end for images without one.
pub fn image_args(name: &str) -> &'static [&'static str] {
    match name {
        name if name.starts_with("riscv64-smp") => &["--qemu-arg=-smp", "--qemu-arg=2"],
        // These images use RAM that the table of machines lacks.
        name if name.ends_with("-mirror") => &["--machine", "mps2-an385"],
        "cortex-m0-stacks-wide" => {
            &["--machine", "microbit", "--qemu-arg=-global", "--qemu-arg=nrf51-soc.sram-size=65536"]
        }
        name if name.starts_with("cortex-m3-lm3s-") => &["--machine", "lm3s6965evb"],
        "riscv64-spin"
        | "cortex-m3-spin"
        | "riscv64-hang"
        | "cortex-m3-hang"
        | "riscv64-tt-endless"
        | "cortex-m3-tt-endless" => &["--for", "20M"],
        // Faults take long; all that these images do, they have done by then a thousand times.
        name if ["faulting", "-again", "unhandled", "traploop"].iter().any(|end| name.ends_with(end)) => {
            &["--for", "400k"]
        }
        name if ["probing", "polling", "deeptraps"].iter().any(|end| name.ends_with(end)) => &["--for", "2M"],
        _ => &[],
    }
}
