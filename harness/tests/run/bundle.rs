// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bundle's emulator runs by the bundle's own loader and libraries, wherever the bundle lies, and uses none of the
//! host's. It measures the same as the same QEMU installed. `ci/bundle-test` tests a real bundle where nothing is
//! installed; here the bundle is made of the host's files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::walls::can_run;
use crate::common::{Run, command, emulator, finish, image, program, run};

struct Bundle(TempDir);

/// Copies a file by another process, see [`program`].
fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-L").args([from, to]).status().unwrap().success(), "{}", from.display());
}

impl Bundle {
    fn made() -> Bundle {
        let bundle = Bundle(tempfile::Builder::new().prefix("a bundle").tempdir().unwrap());
        fs::create_dir(bundle.0.path().join("bin")).unwrap();
        fs::create_dir_all(bundle.libraries().join("qemu-bundle")).unwrap();
        copy(Path::new(env!("CARGO_BIN_EXE_harness")), &bundle.harness());
        let installed = emulator("qemu-system-arm");
        copy(&installed, &bundle.folder().join("qemu-system-arm"));
        // The plugin needs the same libraries as harness, which is Rust, too.
        let listed = Command::new("ldd").arg(&installed).arg(bundle.harness()).output().unwrap();
        for line in String::from_utf8(listed.stdout).unwrap().lines() {
            // `libc.so.6 => /lib/… (0x…)`; the loader's line has only its path.
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [name, "=>", path, _] => copy(Path::new(path), &bundle.libraries().join(name)),
                [path, at] if at.starts_with("(0x") && path.starts_with('/') => {
                    copy(Path::new(path), &bundle.libraries().join("ld.so"))
                }
                _ => {}
            }
        }
        assert!(bundle.libraries().join("ld.so").exists());
        bundle
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("libexec/harness")
    }

    fn libraries(&self) -> PathBuf {
        self.folder().join("lib")
    }

    fn harness(&self) -> PathBuf {
        self.0.path().join("bin/harness")
    }

    fn profile(&self, name: &str, args: &[&str]) -> Run {
        let temp = tempfile::tempdir().unwrap();
        let mut command = Command::new(self.harness());
        command.arg(image(name)).args(args).arg("-o").arg(temp.path().join("out")).env("PATH", "/nowhere");
        let output = command.output().unwrap();
        finish(temp, output)
    }

    fn doctor(&self, path: &Path, folder: Option<&Path>) -> String {
        let mut command = Command::new(self.harness());
        command.arg("doctor").env("PATH", path).envs(folder.map(|folder| ("HARNESS_QEMU", folder)));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }
}

#[test]
fn a_bundle_measures_what_the_installed_emulator_does() {
    let bundle = Bundle::made();
    for name in ["cortex-m3-bare", "cortex-m3-file-inside"] {
        let installed = run(name, &[]).expect_code(0);
        for sandbox in ["auto", "off"] {
            let bundled = bundle.profile(name, &["--sandbox", sandbox]).expect_code(0);
            assert!(bundled.files() == installed.files(), "{name}, --sandbox {sandbox}: other files");
        }
    }
}

#[test]
fn what_a_bundle_lacks_is_not_taken_from_the_host() {
    if !can_run("what_a_bundle_lacks_is_not_taken_from_the_host") {
        return;
    }
    let bundle = Bundle::made();
    bundle.profile("cortex-m3-exit0", &["--sandbox", "required"]).expect_code(0);
    fs::remove_file(bundle.libraries().join("libglib-2.0.so.0")).unwrap();
    let run = bundle.profile("cortex-m3-exit0", &["--sandbox", "required"]).expect_code(5);
    assert!(run.stderr.contains("libglib-2.0.so.0"), "{}", run.stderr);
}

#[test]
fn the_users_folder_comes_before_the_bundle_and_the_bundle_before_the_path() {
    let bundle = Bundle::made();
    let other = tempfile::tempdir().unwrap();
    program(&other.path().join("qemu-system-arm"), "echo 'QEMU emulator version 99.1.0'");
    let from = |folder: &Path| format!("): {}", folder.join("qemu-system-arm").display());
    let by_path = bundle.doctor(other.path(), None);
    assert!(by_path.contains(&from(&bundle.folder())), "{by_path}");
    let by_name = bundle.doctor(Path::new("/nowhere"), Some(other.path()));
    assert!(by_name.contains(&from(other.path())) && by_name.contains("99.1.0"), "{by_name}");
    let unset = bundle.doctor(other.path(), Some(Path::new("")));
    assert_eq!(unset, by_path);
}

#[test]
fn a_folder_without_the_emulator_is_named() {
    let empty = tempfile::tempdir().unwrap();
    let temp = tempfile::tempdir().unwrap();
    let mut command = command(&image("cortex-m3-exit0"), &[], temp.path());
    let output = command.env("HARNESS_QEMU", empty.path()).output().unwrap();
    let run = finish(temp, output).expect_code(5);
    let expected =
        format!("{} is not a file (HARNESS_QEMU says where QEMU is)", empty.path().join("qemu-system-arm").display());
    assert!(run.stderr.contains(&expected), "{}", run.stderr);
    assert!(!run.has_profile());
}
