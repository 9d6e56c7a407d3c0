// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness stack` with input that somebody else made: each mistake has a message and exit code 2, no profile makes it
//! panic, and each number has its kind.

use std::fs;

use harness::analysis::stack_bound::{self, Program, Rules};
use harness::image::{Image, LoadOptions};

use crate::common::{built, harness, image, run};

const BARE: &str = "cortex-m3-bare";
const TASKS: &str = "cortex-m3-tasks-ends";

#[test]
fn what_is_wrong_with_an_input_is_said_and_nothing_is_shown() {
    let temp = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = temp.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (elf, other) = (image(BARE), run(TASKS, &["--for", "100k"]));
    let bytes = fs::read(&elf).unwrap();
    let elf = elf.to_str().unwrap().to_owned();
    let su = temp.path().join("empty");
    fs::create_dir(&su).unwrap();
    let bounds = |name, text: &str| vec![elf.clone(), "--bounds".to_owned(), file(name, text.as_bytes())];
    for (arguments, why) in [
        (vec![file("half.elf", &bytes[..bytes.len() / 2])], "half.elf"),
        (vec![file("text.elf", b"no image")], "text.elf"),
        (vec![image("cortex-m3-bare-stripped").to_str().unwrap().to_owned()], "has no symbols of functions"),
        (vec![elf.clone(), other.dir.to_str().unwrap().to_owned()], "is a run of another image"),
        (vec![elf.clone(), file("profile.fwp", b"fwprof")], "profile.fwp"),
        (bounds("a.toml", "[stack]\nends = [\"a[\"]"), "ends: pattern"),
        (bounds("b.toml", "[stack]\nbounds = { f = 18446744073709551615 }"), "b.toml"),
        (bounds("c.toml", "[stack]\nbounds = { f = 99999999999 }"), "is not from 1 to 2^32"),
        (vec![elf.clone(), "--su".to_owned(), su.to_str().unwrap().to_owned()], "has no .su files"),
    ] {
        let output = harness().arg("stack").args(&arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}: {error}");
        assert!(error.contains(why), "{arguments:?}: {error}");
    }
}

#[test]
fn a_profile_that_was_changed_gives_other_numbers_and_no_panic() {
    let path = image(TASKS);
    let bytes = fs::read(&path).unwrap();
    let image = Image::from_bytes(&path, &bytes, &LoadOptions::default(), None).unwrap();
    let sound = run(TASKS, &["--exact", "--for", "300k"]).profile();
    for value in [0, 1, 0x2000_0000, u64::from(u32::MAX), u64::MAX] {
        let mut profile = sound.clone();
        profile.facts.main_stack_lowest = Some(value);
        profile.facts.exception_levels = vec![(value, u64::MAX), (15, value), (15, 0)];
        profile.facts.load_bias = value;
        profile.facts.task_begins.push(value);
        for task in &mut profile.tasks {
            (task.highest_sp, task.deepest_sp) = (Some(value), Some(u64::MAX - value));
            (task.stack_start, task.stack_end) = (Some(u64::MAX - value), Some(value));
        }
        let profiles = std::slice::from_ref(&profile);
        let program = Program::read(&bytes, &image, profiles, &Rules::default()).unwrap();
        assert!(!stack_bound::rows(&program, &image, profiles, &Rules::default()).is_empty());
    }
}

#[test]
fn each_number_has_its_kind() {
    let run = run(TASKS, &["--exact", "--for", "300k"]);
    let output = harness().arg("stack").arg(image(TASKS)).arg(&run.dir).arg("--json").output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let stacks = document["stacks"].as_array().unwrap();
    assert!(stacks.len() > 2);
    for stack in stacks {
        for kind in [&stack["certainty"], &stack["without_failures_certainty"]] {
            assert!(["bounded", "estimated", "unbounded"].contains(&kind.as_str().unwrap()), "{stack}");
        }
        // A path without some of its calls is never deeper.
        assert!(stack["without_failures_bytes"].as_u64() <= stack["bytes"].as_u64(), "{stack}");
        let reasons = stack["reasons"].as_array().unwrap();
        assert_eq!(reasons.is_empty(), stack["certainty"] == "bounded", "{stack}");
    }
}

#[test]
fn the_main_stack_has_what_the_linker_script_leaves_it() {
    let run = run(BARE, &["--exact", "--for", "300k"]);
    for profiles in [vec![], vec![&run.dir]] {
        let output = harness().arg("stack").arg(image(BARE)).args(profiles).arg("--json").output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        // targets/ports/cortex-m/sections.ld: 4 KiB behind __bss_end.
        assert_eq!(document["stacks"][0]["has_bytes"], 4096, "{document}");
    }
    // A kernel that sets the stack pointer anew changes nothing. cortex-m-rt leaves all that is behind __ebss.
    for (name, bytes) in [("cortex-m3-freertos", 0x1000), ("cortex-m0-rust-hello-Oz", 0x4000 - 0x1820)] {
        let output = harness().arg("stack").arg(image(name)).arg("--json").output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["stacks"][0]["has_bytes"], bytes, "{name}: {document}");
    }
}

#[test]
fn a_run_that_was_deeper_than_its_bound_is_an_error_of_harness() {
    let run = run(BARE, &["--exact", "--for", "300k"]);
    let stack = |args: &[&str]| {
        let output = harness().arg("stack").arg(image(BARE)).arg(&run.dir).args(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, error) = stack(&[]);
    assert!(code == Some(0) && !out.contains("WRONG"), "{out}{error}");
    // A wrong statement makes the bound wrong, as a defect of harness would: the run came back from these functions.
    let stated = run.dir.join("stack.toml");
    fs::write(&stated, "[stack]\nends = [\"*\"]\n").unwrap();
    let stated = ["--bounds", stated.to_str().unwrap()];
    let (code, out, error) = stack(&stated);
    let row = out.lines().find(|line| line.starts_with("main stack")).unwrap();
    assert!(code == Some(1) && row.contains("WRONG") && !row.contains("bounded"), "{out}");
    let parts =
        ["error: the main stack was seen at ", "its bound is 8 bytes, with Reset_Handler as", "[stack] is wrong"];
    assert!(parts.iter().all(|part| error.contains(part)) && error.contains("please report it"), "{error}");
    let (code, out, _) = stack(&[&stated[..], &["--json"]].concat());
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(code == Some(1) && document["stacks"][0]["error"].as_str().unwrap().contains("8 bytes"), "{out}");
}

/// Firmware whose `test` is in assembly.
const ASSEMBLY: &str = "void test(void);\nvoid reset(void) { test(); host(0x18, STOPPED); for (;;) {} }\n";

/// Assembly for Thumb that runs into the next function behind its last call, and gets to the one after by `pop {pc}`.
const THUMB: &str = r#"
__asm__(".text\n.syntax unified\n"
        ".type test, %function\n.globl test\ntest: push {r4, lr}\n bl leaf\n.size test, 2\n"
        ".type next, %function\nnext: sub sp, #400\n push {r5, lr}\n bl leaf\n pop {r5, r6}\n add sp, #400\n"
        " ldr r0, =last\n push {r0}\n pop {pc}\n.size next, . - next\n.ltorg\n"
        ".type last, %function\n.thumb_func\nlast: sub sp, #600\n bl leaf\n add sp, #600\n pop {r4, pc}\n.size last, . - last\n"
        ".type leaf, %function\nleaf: bx lr\n.size leaf, . - leaf\n");
"#;

/// The same for RISC-V, with a return through the link register, and through the second one.
const RISCV: &str = r#"
__asm__(".text\n"
        ".type test, @function\n.globl test\ntest: addi sp, sp, -16\n sw ra, 0(sp)\n call leaf\n.size test, . - test\n"
        ".type next, @function\nnext: addi sp, sp, -400\n call leaf\n addi sp, sp, 400\n lla ra, last\n ret\n"
        ".size next, . - next\n"
        ".type last, @function\nlast: addi sp, sp, -608\n lla t0, end\n jr t0\n.size last, . - last\n"
        ".type end, @function\nend: addi sp, sp, -32\n call leaf\n addi sp, sp, 640\n lw ra, 0(sp)\n addi sp, sp, 16\n ret\n"
        ".size end, . - end\n"
        ".type leaf, @function\nleaf: ret\n.size leaf, . - leaf\n");
"#;

#[test]
fn assembly_without_calls_and_returns_has_the_bound_that_a_run_reaches() {
    let temp = tempfile::tempdir().unwrap();
    for (target, name, assembly, bytes) in [
        (built::cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_8000), "thumb", THUMB, 8 + 600),
        (built::riscv(32, 0x8000_0000, 0x8000_0000, 0x8001_0000), "riscv", RISCV, 16 + 608 + 32),
    ] {
        let elf = target.build_source(temp.path(), name, &[ASSEMBLY, assembly].concat());
        let profile = temp.path().join(format!("{name}.profile"));
        let output = harness().arg(&elf).args(["--exact", "-q", "-o"]).arg(&profile).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let output = harness().arg("stack").arg(&elf).arg(&profile).arg("--json").output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let main = &document["stacks"][0];
        assert_eq!((output.status.code(), &main["certainty"]), (Some(0), &"bounded".into()), "{main}");
        let (bound, seen) = (main["without_failures_bytes"].as_u64().unwrap(), main["seen_bytes"].as_u64());
        // What reset holds itself depends on the compiler.
        assert!((bytes..=bytes + 32).contains(&bound) && Some(bound) == seen, "{name}: {main}");
    }
}
