// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: an emulator is asked for its version once and not before each run, and what is kept of that is data: nothing
//! in it, whoever wrote it, changes a run that ends well.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::common::{Run, command, emulator, finish, image, program};

/// Runs an image with this directory for what is kept between runs.
fn run_with(caches: &Path) -> Run {
    let temp = tempfile::tempdir().unwrap();
    let mut command = command(&image("cortex-m3-exit0"), &[], temp.path());
    let output = command.env("XDG_CACHE_HOME", caches).output().unwrap();
    finish(temp, output)
}

/// The profile of a run that ended well, without a warning.
#[track_caller]
fn profile_with(caches: &Path) -> Vec<u8> {
    let run = run_with(caches).expect_code(0);
    assert!(!run.stderr.contains("warning"), "{}", run.stderr);
    fs::read(run.dir.join("profile.fwp")).unwrap()
}

/// Files that are kept of emulators.
fn kept(caches: &Path) -> Vec<PathBuf> {
    let folder = fs::read_dir(caches.join("harness/emulators"));
    folder.map_or_else(|_| Vec::new(), |entries| entries.map(|entry| entry.unwrap().path()).collect())
}

/// The only file that is kept, and its two lines.
fn the_kept(caches: &Path) -> (PathBuf, [String; 2]) {
    let [file] = kept(caches).try_into().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let (identity, version) = text.trim_end().split_once('\n').unwrap();
    let lines = [identity.to_owned(), version.to_owned()];
    (file, lines)
}

#[test]
fn a_version_is_asked_once_and_a_false_one_is_found_before_anything_runs() {
    let caches = tempfile::tempdir().unwrap();
    let first = profile_with(caches.path());
    let (file, [identity, version]) = the_kept(caches.path());
    assert_eq!(profile_with(caches.path()), first);

    // It is not asked: otherwise this version would not matter.
    let other = if version.starts_with("9.2") { "10.0.2" } else { "9.2.0" };
    fs::write(&file, format!("{identity}\n{other}\n")).unwrap();
    let refused = run_with(caches.path()).expect_code(5);
    assert!(refused.stderr.contains(&format!("but is QEMU {version}")), "{}", refused.stderr);
    assert!(refused.stderr.contains("Run again"), "{}", refused.stderr);
    assert_eq!(profile_with(caches.path()), first);
    assert_eq!(the_kept(caches.path()).1, [identity, version]);
}

#[test]
fn a_version_of_another_file_or_none_or_an_unknown_one_is_asked_for() {
    let caches = tempfile::tempdir().unwrap();
    let first = profile_with(caches.path());
    let (file, [identity, version]) = the_kept(caches.path());
    let others = [
        format!("{identity}1\n9.2.0\n"),
        format!("{identity}\n99.0.0\n"),
        format!("{identity}\n7.2.0\n"),
        format!("{identity}\n10\n"),
        identity.clone(),
        format!("\n\n\n{version}"),
        String::new(),
        "9".repeat(1 << 20),
    ];
    for text in others {
        fs::write(&file, &text).unwrap();
        assert_eq!(profile_with(caches.path()), first, "{text:.80}");
        assert_eq!(the_kept(caches.path()).1, [identity.clone(), version.clone()], "{text:.80}");
    }
}

#[test]
fn what_is_no_file_in_its_place_is_neither_waited_for_nor_followed() {
    let caches = tempfile::tempdir().unwrap();
    let first = profile_with(caches.path());
    let (file, [identity, _]) = the_kept(caches.path());
    let elsewhere = caches.path().join("elsewhere");
    let other = format!("{identity}\n9.2.0\n");
    fs::write(&elsewhere, &other).unwrap();
    let places: [&dyn Fn(); 3] =
        [&|| mkfifo(&file, Mode::S_IRWXU).unwrap(), &|| symlink(&elsewhere, &file).unwrap(), &|| {
            fs::create_dir(&file).unwrap()
        }];
    for make in places {
        fs::remove_file(&file).unwrap();
        make();
        assert_eq!(profile_with(caches.path()), first);
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), other);
    }
    // No directory can be made there.
    let full = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(profile_with(full.path()), first);
}

/// A compiled program that starts another one, as the programs of version managers do.
const STARTS_ANOTHER: &str = r#"
#include <unistd.h>
int main(int count, char **words) {
    words[0] = OTHER;
    return execv(OTHER, words);
}
"#;

#[test]
fn what_starts_an_emulator_is_asked_each_time() {
    let emulator = emulator("qemu-system-arm");
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("qemu-system-arm");
    let asked = || {
        let (temp, caches) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // The walls let an emulator start no other program.
        let mut command = command(&image("cortex-m3-exit0"), &["--sandbox", "off"], temp.path());
        let output = command.env("PATH", folder.path()).env("XDG_CACHE_HOME", caches.path()).output().unwrap();
        finish(temp, output).expect_code(0);
        kept(caches.path())
    };
    program(&starts, &format!("# QEMU emulator version 10.0.2\nexec {} \"$@\"", emulator.display()));
    assert_eq!(asked(), Vec::<PathBuf>::new());

    let source = folder.path().join("starts.c");
    fs::write(&source, STARTS_ANOTHER).unwrap();
    fs::remove_file(&starts).unwrap();
    let define = format!("-DOTHER=\"{}\"", emulator.display());
    let built = Command::new("cc").args([&define, "-O1", "-o"]).args([&starts, &source]).status();
    assert!(built.expect("cc is missing: run ci/setup --tests").success());
    assert_eq!(asked(), Vec::<PathBuf>::new());

    fs::remove_file(&starts).unwrap();
    symlink(&emulator, &starts).unwrap();
    assert_eq!(asked().len(), 1);
}
