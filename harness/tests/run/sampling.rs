//! Samples against exact counts: aliasing is found and named, and the dither clears it.

use harness::analysis::{crosscheck, functions};

use crate::common::run;

#[test]
fn a_loop_of_exactly_one_period_is_flagged_and_jitter_clears_it() {
    for name in ["riscv64-alias", "cortex-m3-alias"] {
        let aliased = run(name, &[]).expect_code(0);
        let profile = aliased.profile();
        let table = functions::table(&profile);
        let check = crosscheck::check(&profile, &table);
        assert!(check.largest_z > 5.0 && !check.aliased.is_empty(), "{name}: {check}");
        assert!(aliased.stdout.contains("ALIASING"), "{}", aliased.stdout);
        // All samples hit one instruction, and the exact counts tell the truth all the same.
        let share = |function: &str| {
            let row = table.rows.iter().find(|row| row.name == function).unwrap();
            row.self_insns as f64 / table.total_insns as f64
        };
        assert!((0.29..0.31).contains(&share("alias_short")) && (0.69..0.71).contains(&share("alias_long")));

        let dithered = run(name, &["--seeded-jitter", "1"]).expect_code(0);
        let profile = dithered.profile();
        let check = crosscheck::check(&profile, &functions::table(&profile));
        assert!(check.aliased.is_empty(), "{name}: {check}");
        assert!(dithered.stdout.contains("samples agree"), "{}", dithered.stdout);
    }
}

#[test]
fn jitter_keeps_the_mean_period() {
    let profile = run("riscv64-freertos", &["--seeded-jitter", "7", "--for", "100M"]).expect_code(0).profile();
    let mean = profile.total_insns() as f64 / profile.samples.len() as f64;
    // 10,000 steps, uniform over 1 to 2·period: three standard deviations of the mean are 1.7 %.
    assert!((mean / 10_007.0 - 1.0).abs() < 0.02, "mean distance {mean}");
}

#[test]
fn data_in_a_page_with_code_is_named_as_what_makes_qemu_slow() {
    // riscv64-cpp has its constructors' list behind its code, which is not written.
    for (name, shares) in [("riscv64-ram", true), ("riscv64-cpp", false), ("cortex-m3-exit0", false)] {
        let run = run(name, &[]).expect_code(0);
        let note = run.stderr.lines().find(|line| line.starts_with("note: "));
        assert_eq!(note.is_some_and(|line| line.contains("shares a page of 4096 bytes")), shares, "{name}: {note:?}");
    }
}

#[test]
fn bins_are_the_samples_by_address() {
    let profile = run("cortex-m3-bare", &["--bin-bytes", "64"]).expect_code(0).profile();
    let bins = profile.bins();
    assert_eq!(bins.values().sum::<u64>(), profile.samples.len() as u64);
    assert!(bins.keys().all(|address| address % 64 == 0));
    assert!(bins.len() > 3);
}
