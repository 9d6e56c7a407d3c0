// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promises of `--cache`: a result that another machine has made is not made again, a wrong one never counts, and a
//! cache that fails costs nothing but time.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use super::suite::{Suite, finish, target};

/// A suite of one image, and its cache.
fn suite() -> Suite {
    Suite::new(&target("riscv64-exit3", "exit = 3"))
}

/// Files of the cache.
fn held(suite: &Suite) -> Vec<PathBuf> {
    let entries = fs::read_dir(suite.path("cache")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Whether a run took its result from the cache.
fn is_hit(said: &str) -> bool {
    said.contains("cache: 1 of 1 image unchanged, not run again")
}

#[test]
fn a_damaged_entry_is_made_again_and_mended() {
    let suite = suite();
    let first = suite.run(&["-o", "first"]).expect_code(0);
    assert!(!is_hit(&first.stderr), "{}", first.stderr);
    let [entry] = &held(&suite)[..] else { panic!("{:?}", held(&suite)) };
    let whole = fs::read(entry).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for damaged in [&flipped[..], &whole[..whole.len() / 2], &[], &[&whole[..], b" "].concat()] {
        fs::write(entry, damaged).unwrap();
        let again = suite.run(&["-o", "again"]).expect_code(0);
        assert!(!is_hit(&again.stderr), "{}", again.stderr);
        assert_eq!(again.files(), first.files());
        assert_eq!(fs::read(entry).unwrap(), whole, "it is as it was");
    }
    let hit = suite.run(&["-o", "again"]).expect_code(0);
    assert!(is_hit(&hit.stderr), "{}", hit.stderr);
    assert_eq!(hit.files(), first.files());
    // The remains of a killed run are removed, too.
    fs::create_dir(suite.path("cache").join(".partial-Abc123")).unwrap();
    suite.write(&target("riscv64-exit3", "exit = 3\nperiod = 97"));
    suite.run(&[]).expect_code(0);
    assert!(held(&suite).iter().all(|path| !path.ends_with(".partial-Abc123")), "{:?}", held(&suite));
}

#[test]
fn another_description_of_a_core_is_another_run() {
    for wanted in ["own.toml", "own.toml@48MHz"] {
        let suite = Suite::new(&target("riscv32-paced-im", &format!("cycles = \"{wanted}\"")));
        let describe = |alu: u64| {
            fs::write(suite.path("own.toml"), format!("isa = \"rv32im\"\n[cycles]\nalu = {alu}\n")).unwrap();
        };
        describe(1);
        suite.run(&[]).expect_code(0);
        let again = suite.run(&[]).expect_code(0);
        assert!(is_hit(&again.stderr), "{wanted}: {}", again.stderr);
        describe(2);
        let other = suite.run(&[]).expect_code(0);
        assert!(!is_hit(&other.stderr), "{wanted}: {}", other.stderr);
    }
}

#[test]
fn a_whole_entry_under_another_runs_name_does_not_count() {
    let suite = suite();
    suite.run(&[]).expect_code(0);
    let one = held(&suite);
    suite.write(&target("riscv64-exit0", "exit = 0"));
    suite.run(&[]).expect_code(0);
    let other = held(&suite).into_iter().find(|path| !one.contains(path)).unwrap();
    // Who passes instead of the image that is to be judged?
    fs::copy(&one[0], &other).unwrap();
    let run = suite.run(&[]).expect_code(0);
    assert!(!is_hit(&run.stderr), "{}", run.stderr);
}

#[test]
fn with_a_key_only_entries_of_that_key_count_and_nothing_shows_it() {
    let suite = suite();
    let secret = "the secret of all who may write";
    for (name, text) in [("ours", format!("{secret}.")), ("theirs", "x".repeat(32))] {
        fs::write(suite.path(name), text).unwrap();
    }
    let run = |args: &[&str]| is_hit(&suite.run(args).expect_code(0).stderr);
    let ours = ["--cache-key-file", "ours"];
    assert!(!run(&[]) && run(&[]), "without a key");
    assert!(!run(&ours), "an entry without a seal of the key");
    assert!(run(&ours) && !run(&["--cache-key-file", "theirs"]), "another key");
    assert!(run(&ours) && run(&[]), "a run with another key, or without one, replaces no entry");
    let shown = suite.run(&ours).expect_code(0);
    let mut texts = vec![shown.stdout.into_bytes(), shown.stderr.into_bytes(), Vec::new()];
    texts.extend(held(&suite).iter().map(|entry| fs::read(entry).unwrap()));
    texts.extend(shown.reports.read_dir().unwrap().filter_map(|entry| fs::read(entry.unwrap().path()).ok()));
    for text in texts {
        assert!(!text.windows(secret.len()).any(|window| window == secret.as_bytes()));
    }
    fs::write(suite.path("ours"), "short").unwrap();
    let refused = suite.run(&ours).expect_code(2);
    assert!(refused.stderr.contains("ours: a key has 32 to 4096 bytes"), "{}", refused.stderr);
}

#[test]
fn a_job_that_only_reads_adds_nothing() {
    let suite = suite();
    assert!(!is_hit(&suite.run(&["--cache-read-only"]).expect_code(0).stderr));
    assert!(held(&suite).is_empty(), "{:?}", held(&suite));
    suite.run(&[]).expect_code(0);
    assert!(is_hit(&suite.run(&["--cache-read-only"]).expect_code(0).stderr));
}

#[test]
fn a_cache_that_fails_is_a_warning_and_the_results_are_the_same() {
    let suite = Suite::new(&[target("riscv64-exit3", "exit = 3"), target("riscv64-exit0", "exit = 0")].concat());
    let without = suite.run(&["--no-cache", "-o", "without"]).expect_code(0);
    // A file where the folder of the cache should be.
    fs::write(suite.path("cache"), "").unwrap();
    let run = suite.run(&["-j", "1", "-o", "with"]).expect_code(0);
    assert_eq!(
        run.stderr.matches("warning: the cache cannot be read, and is left alone").count(),
        1,
        "{}",
        run.stderr
    );
    assert_eq!(run.files(), without.files());
}

#[test]
fn two_suites_at_once_share_a_cache() {
    let suite = suite();
    let start = |output: &str| {
        let mut command = suite.command(&["-o", output]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let started = ["one", "two", "three"].map(|output| (output, start(output)));
    let files = started
        .map(|(output, child)| finish(child.wait_with_output().unwrap(), suite.path(output)).expect_code(0).files());
    assert!(files[0] == files[1] && files[1] == files[2]);
    assert_eq!(held(&suite).len(), 1, "{:?}", held(&suite));
    assert!(is_hit(&suite.run(&[]).expect_code(0).stderr));
}

#[cfg(not(feature = "object-store"))]
#[test]
fn a_build_without_object_stores_says_so_and_prints_no_password() {
    let suite = suite();
    let mut command = crate::common::harness();
    command.current_dir(suite.dir.path()).args(["test", "--cache", "https://me:secret@server/folder?token=secret"]);
    let refused = finish(command.output().unwrap(), suite.path("harness-report")).expect_code(2);
    assert!(refused.stderr.contains("https://server/folder: this harness was built without"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("secret"), "{}", refused.stderr);
}
