// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiler's copies of functions are not followed by the function's name; the user is told, and can name a clone.

use std::path::PathBuf;

use harness::analysis::allocator_clones;
use harness::analysis::heap;
use tempfile::TempDir;

use crate::common::built::{cortex_m, scratch};
use crate::common::{Run, harness, run_file};

/// Firmware for which gcc makes copies. It calls a clone of `pool_get` when it knows the first two arguments, and
/// inlines `pool_put` when it knows the callee: 40 allocations of 630 bytes. The functions themselves make five
/// allocations of 15 bytes.
const SOURCE: &str = r#"
struct pool { unsigned count; struct { unsigned used; char bytes[60]; } slot[64]; };
static struct pool ours, theirs;
__attribute__((noinline)) void *pool_get(struct pool *pool, unsigned kind, unsigned size) {
    if (size == 0 || size > 60)
        return 0;
    int slots = 64;
    if (kind == 3) slots = 32;
    if (kind == 4) slots = 16;
    if (kind == 5) slots = 8;
    for (int i = 0; i < slots; i++)
        if (!pool->slot[i].used) {
            pool->slot[i].used = size;
            pool->count++;
            return pool->slot[i].bytes;
        }
    return 0;
}
__attribute__((always_inline)) static inline void pool_put(struct pool *pool, void *block) {
    for (int i = 0; i < 64; i++)
        if (pool->slot[i].bytes == block)
            pool->slot[i].used = 0;
}
#define NOIPA __attribute__((noipa))
NOIPA static void direct(void) {
    for (unsigned size = 1; size <= 20; size++) {
        void *block = pool_get(&ours, 3, size);
        pool_put(&ours, pool_get(&ours, 3, 2 * size));
        pool_put(&ours, block);
    }
}
NOIPA static void others(struct pool *pool, unsigned kind, unsigned size) {
    void *block = pool_get(pool, kind, size);
    void (*volatile put)(struct pool *, void *) = pool_put;
    put(pool, block);
}
void reset(void) {
    direct();
    for (unsigned size = 1; size <= 5; size++)
        others(&theirs, size, size);
    host(0x18, STOPPED);
    for (;;) {}
}
"#;

/// Rules for the functions as written in the source.
const RULES: [&str; 4] = ["--heap-alloc", "pool_get(size=arg2)", "--heap-free", "pool_put(arg1)"];

fn firmware() -> (TempDir, PathBuf) {
    let folder = scratch();
    let target = cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2001_0000).with("-O3");
    let path = target.build_source(folder.path(), "copies", SOURCE);
    (folder, path)
}

fn allocated(run: &Run) -> (u64, u64) {
    let allocated = heap::replay(&run.profile()).unwrap().total.allocated;
    (allocated.blocks, allocated.bytes)
}

#[test]
fn calls_of_clones_and_inlined_code_are_told_by_the_run_and_by_its_tables() {
    let (_folder, path) = firmware();
    let run = run_file(&path, &RULES).expect_code(0);
    assert_eq!(allocated(&run), (5, 15));
    let parts = [
        "warning: the compiler has made copies of functions that allocate, which are not followed: pool_get.constprop.0 (40 \
         calls): what they allocate is missing from all numbers; ",
        "--heap-alloc 'pool_get.constprop.0(size=arg0)'",
        "warning: the compiler has made copies of functions that free, which are not followed: pool_put (inlined into \
         direct): what they free counts as held: the peak and what leaked are too high; keep the compiler from it",
    ];
    let output = harness().arg("heap").arg(&run.dir).output().unwrap();
    let tables = String::from_utf8(output.stdout).unwrap();
    for part in parts {
        assert!(run.stderr.contains(part), "{part:?} is not in:\n{}", run.stderr);
        assert!(tables.contains(part), "{part:?} is not in:\n{tables}");
    }
    for (line, mark) in
        [("heap: ", "(too low, "), ("peak: ", "(not to be trusted, "), ("leaked: ", "(not to be trusted, ")]
    {
        let mut lines = tables.lines().filter(|shown| shown.starts_with(line));
        assert!(lines.next().unwrap().ends_with(&format!(" {mark}see the warnings)")), "{tables}");
    }
}

#[test]
fn frees_that_are_missed_make_what_is_held_too_high_and_are_a_warning_of_their_own() {
    let (_folder, path) = firmware();
    // All allocating functions are followed, the clone included.
    let args = [&RULES[..], &["--heap-alloc", "pool_get.constprop.0(size=arg0)"]].concat();
    let run = run_file(&path, &args).expect_code(0);
    let output = harness().arg("heap").arg(&run.dir).output().unwrap();
    let tables = String::from_utf8(output.stdout).unwrap();
    let found = heap::replay(&run.profile()).unwrap();
    // The true maximum is three blocks of 60 bytes at once.
    assert!(found.peak.bytes > 60 && found.total.leaked.blocks > 0, "{tables}");
    assert!(!run.stderr.contains("functions that allocate") && !run.stderr.contains("too low"), "{}", run.stderr);
    assert!(run.stderr.contains("the peak and what leaked are too high"), "{}", run.stderr);
    let marked = tables.lines().filter(|line| line.ends_with(" (too high, see the warning)"));
    let marked: Vec<&str> = marked.filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
    assert_eq!(marked, ["peak", "leaked"], "{tables}");
    let json = harness().args(["export", "-f", "json", "-o", "-"]).arg(&run.dir).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["heap"]["lost_frees"], &json["heap"]["lost_allocations"]), (&true.into(), &false.into()));
}

#[test]
fn a_clone_is_followed_where_a_rule_names_it() {
    let (_folder, path) = firmware();
    let args = [&RULES[..], &["--heap-alloc", "pool_get.constprop.0(size=arg0)"]].concat();
    let run = run_file(&path, &args).expect_code(0);
    assert_eq!(allocated(&run), (45, 645));
    assert_eq!(allocator_clones::unfollowed(&run.profile()).clones, []);
}

#[test]
fn a_run_in_which_all_is_followed_warns_of_nothing() {
    let (folder, _) = firmware();
    let target = cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2001_0000);
    let source = SOURCE.replace("always_inline)) static inline", "noipa))").replace("noinline", "noipa");
    let path = target.with("-O3").build_source(folder.path(), "whole", &source);
    let run = run_file(&path, &RULES).expect_code(0);
    assert_eq!(allocated(&run), (45, 645));
    assert!(!run.stderr.contains("copies"), "{}", run.stderr);
}
