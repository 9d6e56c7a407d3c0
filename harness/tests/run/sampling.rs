// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples against exact counts: aliasing is found and named, and the dither clears it; waits, and the time spent in
//! them.

use harness::analysis::{crosscheck, functions};

use crate::common::built::{riscv, scratch};
use crate::common::{run, run_file};

#[test]
fn a_loop_of_exactly_one_period_is_flagged_and_jitter_clears_it() {
    for name in ["riscv64-alias", "cortex-m3-alias"] {
        let aliased = run(name, &[]).expect_code(0);
        let profile = aliased.profile();
        let table = functions::table(&profile);
        let check = crosscheck::check(&profile, &table);
        assert!(check.largest_z > 5.0 && !check.aliased.is_empty(), "{name}: {check}");
        assert!(aliased.stdout.contains("ALIASING"), "{}", aliased.stdout);
        // All samples hit one instruction; the exact counts are right all the same.
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

/// A third of the instructions between two bytes is work that the byte causes.
const WORKS_ON_BYTES: &str = r#"
__attribute__((noinline)) static void work(void) {
    for (int turns = 300; turns--;) __asm__ volatile("nop\n nop\n nop");
}
void reset(void) {
    volatile unsigned char *uart = (void *)0x10000000;
    for (;;) {
        while (!(uart[5] & 1)) {}
        if (uart[0] == '.') work();
    }
}
"#;

#[test]
fn what_is_done_about_a_typed_byte_keeps_no_step_with_the_samples() {
    let dir = scratch();
    let elf = riscv(64, 0x8000_0000, 0x8000_0000, 0x8010_0000).build_source(dir.path(), "typed", WORKS_ON_BYTES);
    for bytes in [200, 400, 800] {
        let (text, insns) = (format!("10k:{}", ".".repeat(bytes)), (bytes * 4_000).to_string());
        let profile = run_file(&elf, &["--input", &text, "--for", &insns]).expect_code(0).profile();
        let table = functions::table(&profile);
        let work = table.rows.iter().find(|row| row.name == "work").unwrap();
        assert!(work.self_insns * 4 > table.total_insns, "{bytes} bytes: {work:?}");
        // Within chance. With 5,000 instructions from one byte to the next, work was 15 standard deviations off and
        // more.
        assert!(work.z.abs() < 1.0, "{bytes} bytes: {work:?}");
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
    // riscv64-cpp has its list of constructors behind its code, but never writes to it.
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

#[test]
fn a_wfe_is_a_wait_where_a_chip_would_sleep_and_what_runs_until_it_woke_is_idle() {
    let until_doze = run("cortex-m3-wfe", &["--until", "doze"]).profile();
    // From 11.0 on QEMU itself sleeps in wfe, and executes no idle instructions.
    let version = &until_doze.facts.qemu_version;
    let sleeps = version.split('.').next().and_then(|major| major.parse::<u32>().ok()).unwrap() >= 11;
    for how in [&[][..], &["--exact"], &["--oracle"], &["--no-stacks"]] {
        // An interrupt wakes the processor, and its return sets the event register.
        let profile = run("cortex-m3-wfe", &[&["--until", "doze"], how].concat()).profile();
        assert_eq!(profile.facts.waits, 10, "{how:?}");
        assert_eq!(profile.facts.slept_insns == 0, sleeps, "{how:?}");
        assert_eq!(profile.total_insns(), until_doze.total_insns(), "{how:?}");
        let result = run("cortex-m3-wfe", &[&["--from", "doze"], how].concat());
        let profile = result.profile();
        if sleeps {
            assert_eq!((profile.facts.waits, profile.facts.slept_insns), (1, 0), "{how:?}");
            let end = "end: the CPU sleeps for ever at ";
            assert!(result.stdout.contains(end), "{}", result.stdout);
            continue;
        }
        // Twenty waits of a hundred turns of three instructions, from after the first wfe to before the sev.
        assert_eq!((profile.facts.waits, profile.facts.slept_insns), (20, 20 * 299), "{how:?}");
        assert!(result.stdout.contains("; 20 waits for an interrupt"), "{}", result.stdout);
    }
    if sleeps {
        return;
    }
    // The run may end during the wait: the window opens before the first wfe.
    for (insns, slept) in [(1, 0), (2, 1), (100, 99), (303, 299)] {
        for how in [&[][..], &["--oracle"]] {
            let window = ["--from", "doze", "--for", &insns.to_string()];
            let profile = run("cortex-m3-wfe", &[&window, how].concat()).profile();
            assert_eq!((profile.facts.slept_insns, profile.total_insns()), (slept, insns), "{how:?}");
        }
    }
}
