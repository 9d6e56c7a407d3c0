// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: targets/expected says what every image prints, and says each thing once. A file is an app's, or the one of
//! an image that prints something else.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::root;

/// Image with the files that may say what it prints, by paths from targets/.
struct Expectation {
    image: String,
    own: String,
    app: String,
}

/// Images of a targets/ folder, as its `check` lists them.
fn expectations(targets: &Path) -> Vec<Expectation> {
    let output = Command::new(targets.join("check")).arg("--files").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let row = |line: &str| {
        let [image, own, app]: [&str; 3] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        Expectation { image: image.to_owned(), own: own.to_owned(), app: app.to_owned() }
    };
    String::from_utf8(output.stdout).unwrap().lines().map(row).collect()
}

/// Complaints about the expectations of a targets/ folder.
fn complaints(targets: &Path) -> BTreeSet<String> {
    let read = |file: &str| fs::read(targets.join(file)).ok();
    let mut complaints = BTreeSet::new();
    let mut used = BTreeSet::new();
    for Expectation { image, own, app } in expectations(targets) {
        match (read(&own), read(&app)) {
            (Some(one), Some(other)) if one == other => {
                complaints.insert(format!("{own} equals {app}: remove it"));
            }
            (None, None) => {
                complaints.insert(format!("neither {own} nor {app} exists: BLESS=1 targets/check {image}"));
            }
            _ => {}
        }
        used.insert(if read(&own).is_some() { own } else { app });
    }
    for entry in fs::read_dir(targets.join("expected")).unwrap() {
        let file = format!("expected/{}", entry.unwrap().file_name().to_str().unwrap());
        if !used.contains(&file) {
            complaints.insert(format!("{file} is what no image prints: remove it"));
        }
    }
    complaints
}

#[test]
fn every_image_has_an_expectation_and_every_expectation_is_needed() {
    let targets = root().join("targets");
    let images = expectations(&targets);
    let shared = images.iter().filter(|image| !targets.join(&image.own).exists()).count();
    assert!(images.len() > 400 && shared > 300, "{shared} of {} images have no file of their own", images.len());
    let found: Vec<String> = complaints(&targets).into_iter().collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// A targets/ folder with the real `check`, some images of the apps `bare` and `bare-metal`, and a QEMU that prints what
/// the image says.
struct Targets {
    temp: TempDir,
}

const IMAGES: [&str; 4] = ["cortex-m3-bare", "cortex-m3-lm3s-bare-pg-Os", "riscv64-bare", "riscv64-bare-metal-O0"];

impl Targets {
    fn new() -> Targets {
        let targets = Targets { temp: tempfile::tempdir().unwrap() };
        for folder in ["apps", "build", "expected", "path"] {
            fs::create_dir(targets.path(folder)).unwrap();
        }
        let check = root().join("targets/check");
        let qemu = "#!/bin/sh\nwhile [ \"$1\" != -kernel ]; do shift; done\ncat \"$2\" >../con\n";
        fs::write(targets.path("qemu"), qemu).unwrap();
        // By another process: see `program` in tests/common.
        let mut install = Command::new("install");
        assert!(install.arg(&check).arg(targets.path("check")).status().unwrap().success());
        for name in ["qemu-system-arm", "qemu-system-riscv64"] {
            let mut install = Command::new("install");
            let to = targets.path("path").join(name);
            assert!(install.arg(targets.path("qemu")).arg(to).status().unwrap().success());
        }
        let listed: Vec<String> = IMAGES.iter().map(|image| format!("{image}.elf")).collect();
        let [absent, listed] = [&listed[3..], &listed[..3]].map(|files| files.join(" "));
        let makefile = format!(
            "list:\n\t@printf '%s\\n' {listed}\nabsent:\n\t@echo {absent}: no compiler\n.PHONY: list absent\n"
        );
        fs::write(targets.path("Makefile"), makefile).unwrap();
        fs::write(targets.path("apps/bare.c"), "").unwrap();
        fs::write(targets.path("apps/bare-metal-riscv.c"), "").unwrap();
        targets
    }

    fn path(&self, file: &str) -> PathBuf {
        self.temp.path().join(file)
    }

    /// Has an image print a line.
    fn built(&self, image: &str, line: &str) {
        fs::write(self.path("build").join(format!("{image}.elf")), format!("{line}\n")).unwrap();
    }

    /// Exit code and output of `check`.
    fn check(&self, images: &[&str], is_blessed: bool) -> (Option<i32>, String) {
        let mut path = vec![self.path("path")];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        let mut check = Command::new(self.path("check"));
        check.args(images).env("PATH", std::env::join_paths(path).unwrap()).env_remove("BLESS");
        if is_blessed {
            check.env("BLESS", "1");
        }
        let output = check.output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }

    /// Blesses these images; returns all files with their first lines.
    fn bless(&self, images: &[&str]) -> Vec<(String, String)> {
        assert_eq!(self.check(images, true).0, Some(0));
        let mut files = Vec::new();
        for entry in fs::read_dir(self.path("expected")).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let (first, rest) = text.split_once('\n').unwrap();
            assert_eq!(rest, "[exit 0]\n");
            files.push((path.file_stem().unwrap().to_str().unwrap().to_owned(), first.to_owned()));
        }
        files.sort();
        files
    }
}

fn files(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|&(file, line)| (file.to_owned(), line.to_owned())).collect()
}

#[test]
fn a_blessing_keeps_what_most_images_print_in_one_file() {
    let targets = Targets::new();
    let [m3, lm3s, riscv, metal] = IMAGES;
    for (image, line) in [(m3, "1"), (lm3s, "2"), (riscv, "2"), (metal, "3")] {
        targets.built(image, line);
    }
    assert_eq!(targets.bless(&IMAGES), files(&[("bare", "2"), ("bare-metal", "3"), (m3, "1")]));
    assert_eq!(complaints(targets.temp.path()), BTreeSet::new());
    let (code, said) = targets.check(&[], false);
    assert_eq!((code, said.matches("ok   ").count()), (Some(0), 4), "{said}");

    // An image that prints the same as the others again loses its file.
    targets.built(m3, "2");
    let (code, said) = targets.check(&[m3, riscv], false);
    assert_eq!(code, Some(1));
    assert!(said.contains("FAIL cortex-m3-bare (expected/cortex-m3-bare.txt; BLESS=1 rewrites it)"), "{said}");
    assert!(said.contains("< 1\n") && said.contains("> 2\n") && said.contains("ok   riscv64-bare\n"), "{said}");
    assert_eq!(targets.bless(&[m3]), files(&[("bare", "2"), ("bare-metal", "3")]));

    // The app's file changes with most of its images. What has not been run prints what it printed.
    targets.built(m3, "4");
    assert_eq!(targets.bless(&[m3]), files(&[("bare", "2"), ("bare-metal", "3"), (m3, "4")]));
    targets.built(lm3s, "4");
    assert_eq!(targets.bless(&[lm3s]), files(&[("bare", "4"), ("bare-metal", "3"), (riscv, "2")]));
    assert_eq!(complaints(targets.temp.path()), BTreeSet::new());
}

#[test]
fn a_blessing_changes_an_apps_file_only_for_more_images_than_it_had() {
    let targets = Targets::new();
    let [m3, lm3s, riscv, _] = IMAGES;
    for (first, second) in [("1", "2"), ("2", "1")] {
        for image in [m3, lm3s, riscv] {
            targets.built(image, first);
        }
        assert_eq!(targets.bless(&[m3, lm3s, riscv]), files(&[("bare", first)]));
        for image in [m3, lm3s] {
            targets.built(image, &format!("{second} of {image}"));
        }
        let names = [m3, lm3s].map(|image| format!("{second} of {image}"));
        let expected = files(&[("bare", first), (m3, &names[0]), (lm3s, &names[1])]);
        assert_eq!(targets.bless(&[m3, lm3s]), expected);
    }
}

#[test]
fn an_expectation_that_says_nothing_new_is_seen() {
    let targets = Targets::new();
    let put = |file: &str, text: &str| fs::write(targets.path("expected").join(file), text).unwrap();
    put("bare.txt", "1");
    put("riscv64-bare.txt", "1");
    put("cortex-m3-bare.txt", "2");
    put("cortex-m3-bare-O0.txt", "2");
    let metal = "neither expected/riscv64-bare-metal-O0.txt nor expected/bare-metal.txt exists: BLESS=1 targets/check \
                 riscv64-bare-metal-O0";
    let found: Vec<String> = complaints(targets.temp.path()).into_iter().collect();
    assert_eq!(
        found,
        [
            "expected/cortex-m3-bare-O0.txt is what no image prints: remove it",
            "expected/riscv64-bare.txt equals expected/bare.txt: remove it",
            metal,
        ]
    );
    // An app's file that each of its images overrides.
    put("riscv64-bare.txt", "3");
    put("cortex-m3-lm3s-bare-pg-Os.txt", "4");
    assert!(complaints(targets.temp.path()).contains("expected/bare.txt is what no image prints: remove it"));
}
