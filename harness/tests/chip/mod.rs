// SPDX-License-Identifier: MIT OR Apache-2.0
//! Firmware for real chips, on QEMU's machines completed by chip files. The images are in `targets/build/chips`;
//! `ci/chips` tests whole chip families.

mod can;
mod check;
mod claims;
mod dfu;
mod instruments;
mod learn;
mod outside;
mod parts;
mod said;
mod show;
mod suggest;
mod svd;
mod taken;
mod uf2;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::built::{self, cortex_m, scratch};
use crate::common::{Run, command, emulator, harness, image, refused, run, run_again, run_file};
use harness::profile::{End, Profile};

/// Lines that the image with one peripheral of each kind prints after `right`, on a chip that has all kinds.
const KINDS: [&str; 12] = [
    "10 ms of SysTick are 10 ms of TIM2",
    "5 updates of TIM5 are 5 ms of TIM2",
    "USART6 interrupts once",
    "flash that is locked keeps what it has",
    "flash is programmed",
    "flash is erased",
    "random numbers differ",
    "nobody on I2C answers",
    "nobody on SPI answers",
    "a pin reads as it is set",
    "what nothing models reads as it was written",
    "where there is nothing there is a bus fault",
];

fn kinds(args: &[&str]) -> Run {
    run("chips/stm32f407-kinds", &kinds_args(args))
}

fn kinds_args<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["--chip", "stm32f407", "--for", "20M"], args].concat()
}

fn freertos(chip: &str, args: &[&str]) -> Run {
    let args = [&["--chip", chip, "--for", "12M"], args].concat();
    run(&format!("chips/{chip}-freertos"), &args).expect_code(0)
}

#[test]
fn each_kind_of_peripheral_does_what_its_file_says() {
    let run = kinds(&[]).expect_code(0);
    let wanted: String = KINDS.iter().map(|line| format!("right {line}\n")).collect();
    assert_eq!(run.console(), wanted);
}

/// Words outside of flash, RAM and peripherals that the vendors' start-up code and cores read.
#[test]
fn start_up_code_finds_the_words_that_identify_the_chip() {
    for (chip, address) in [
        ("nrf51822", 0xf000_0fe0_u32),
        ("nrf52832", 0xf000_0fe0),
        ("nrf52840", 0xf000_0fe8),
        ("samd21g18", 0x0080_a00c),
        ("samd51j19", 0x0080_61fc),
    ] {
        // Load the word, then exit with success by semihosting.
        let code =
            [0x4802_u16, 0x6800, 0x2018, 0x4902, 0xbeab, 0xbf00, address as u16, (address >> 16) as u16, 0x0026, 0x2];
        let words = [0x2000_1000_u32, 0x41, 0x41, 0x41].into_iter().chain([0; 12]);
        let mut bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        bytes.extend(code.into_iter().flat_map(u16::to_le_bytes));
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("code.hex");
        fs::write(&file, learn::hex(0, &bytes)).unwrap();
        run_file(&file, &["--chip", chip]).expect_code(0);
    }
}

/// Firmware that writes settings of two generators and two channels of the SAM D21, and reads each back by its number alone
/// (data sheet, 15.8.3 to 15.8.5).
const CLOCKS: &str = r#"
#define WORD(at) (*(volatile unsigned *)(at))
#define HALF(at) (*(volatile unsigned short *)(at))
#define BYTE(at) (*(volatile unsigned char *)(at))
static unsigned generator(unsigned number) { BYTE(0x40000c04) = number; return WORD(0x40000c04); }
static unsigned divider(unsigned number) { BYTE(0x40000c08) = number; return WORD(0x40000c08); }
static unsigned channel(unsigned number) { BYTE(0x40000c02) = number; return HALF(0x40000c02); }
void reset(void) {
    WORD(0x40000c08) = 1 | 31 << 8;
    WORD(0x40000c04) = 0 | 7 << 8 | 1 << 16;
    WORD(0x40000c04) = 1 | 5 << 8 | 1 << 16 | 1 << 21;
    HALF(0x40000c02) = 0 | 1 << 8 | 1 << 14;
    HALF(0x40000c02) = 20 | 0 << 8 | 1 << 14;
    int right = generator(0) == (0 | 7 << 8 | 1 << 16) && generator(1) == (1 | 5 << 8 | 1 << 16 | 1 << 21)
        && divider(0) == 0 && divider(1) == (1 | 31 << 8)
        && channel(0) == (0 | 1 << 8 | 1 << 14) && channel(20) == (20 | 1 << 14) && channel(3) == 3;
    host(0x18, right ? STOPPED : (void *)0x20023);
    for (;;) {}
}
"#;

#[test]
fn a_number_alone_shows_the_settings_behind_it() {
    let temp = tempfile::tempdir().unwrap();
    let target = cortex_m("-mcpu=cortex-m0plus", 0, 0x2000_0000, 0x2000_8000);
    run_file(&target.build_source(temp.path(), "clocks", CLOCKS), &["--chip", "samd21g18"]).expect_code(0);
}

#[test]
fn a_chip_repeats_to_the_byte_and_counts_as_one_callback_per_instruction_does() {
    let other = run_again("chips/stm32f407-kinds", &kinds_args(&[])).expect_code(0);
    let one = kinds(&[]).expect_code(0);
    assert_eq!(one.files(), other.files());
    let oracle = kinds(&["--oracle"]).expect_code(0);
    let counts = |run: &Run| run.profile().vcpus.iter().map(|vcpu| vcpu.insns.clone()).collect::<Vec<_>>();
    assert_eq!(counts(&one), counts(&oracle));
}

#[test]
fn what_nothing_models_is_said_with_name_count_and_place() {
    let run = kinds(&[]).expect_code(0);
    let chip = run.profile().facts.chip.expect("the profile says which chip");
    assert_eq!((chip.name.as_str(), chip.sha256.len()), ("stm32f407", 64));
    assert_eq!(chip.bitten, Some(("IWDG".to_owned(), 1)), "fed for a while, and then not");
    // A register of SDIO.
    let sdio = chip.unmodelled.iter().find(|row| row.address == 0x4001_2c08).expect("nothing models it");
    assert_eq!((sdio.name.as_str(), sdio.reads, sdio.writes), ("APB2 at 0x40012c08", 1, 1));
    assert!(run.stdout.contains("APB2 at 0x40012c08 (1 read, 1 written, first at 0x"), "{}", run.stdout);
    assert!(run.stderr.contains("machine: stm32f407 (cortex-m4 of QEMU's mps2-an386)"), "{}", run.stderr);
}

/// The kernel asserts how many priority bits there are, and its tick is a millisecond of SysTick.
#[test]
fn an_rtos_starts_and_ticks_by_the_chips_own_clock() {
    for (chip, ms) in [("stm32f407", 96), ("nrf52840", 192)] {
        let run = freertos(chip, &["--exact"]);
        assert!(run.console().starts_with("freertos: 5 kinds of work, kernel V11.2.0\n"), "{}", run.console());
        let profile = run.profile();
        let tasks: Vec<&str> = profile.tasks.iter().map(|task| task.name.as_str()).collect();
        assert!(["crc", "sort", "recursion"].iter().all(|name| tasks.contains(name)), "{tasks:?}");
        let ticks = calls(&profile, "xTaskIncrementTick");
        assert!((ms - 4..=ms + 1).contains(&ticks), "{chip}: {ticks} ticks in {ms} ms");
    }
}

fn calls(profile: &Profile, name: &str) -> u64 {
    let table = harness::analysis::functions::table(profile);
    table.rows.iter().filter(|row| row.name == name).map(|row| row.calls).sum()
}

#[test]
fn what_is_typed_comes_by_the_chips_own_port() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("listens.toml");
    fs::write(&file, "[chip]\nlike = \"stm32f407\"\n").unwrap();
    let run = run(
        "chips/stm32f407-echo",
        &["--chip", file.to_str().unwrap(), "--for", "20M", "--input-after", "name? :fido\\n"],
    );
    assert_eq!(run.expect_code(0).console(), "name? FIDO\n");
}

#[test]
fn a_chip_that_cannot_be_meant_is_bad_input() {
    let name = "chips/stm32f407-kinds";
    refused(name, &["--chip", "stm32f999"], &["--chip stm32f999", "docs/chips.md"]);
    refused(name, &["--chip", "nrf52840"], &["--chip nrf52840", "0x08000000"]);
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("mine.toml");
    fs::write(&file, "[chip]\nlike = \"stm32f407\"\n[peripherals]\nX = { at = 0x40020100, kind = \"stm32-gpio\" }\n")
        .unwrap();
    refused(name, &["--chip", file.to_str().unwrap()], &["mine.toml:4: ", "overlaps"]);
}

#[test]
fn firmware_that_waits_for_a_chips_registers_is_told_of_its_chip() {
    let run = run("chips/stm32f407-kinds", &["--for", "2M", "--no-chip"]);
    assert!(run.stderr.contains("--chip") && run.stderr.contains("stm32f407"), "{}", run.stderr);
    assert!(matches!(run.profile().facts.end, End::For | End::Faulting { .. } | End::LockUp { .. }));
}

#[test]
fn a_baseline_of_one_chip_file_is_none_of_another() {
    let temp = tempfile::tempdir().unwrap();
    let elf = image("chips/stm32f407-kinds");
    let write = |reset: &str| {
        let text = format!(
            "[chip]\nlike = \"stm32f407\"\nwithout = [\"USART3\"]\n[peripherals]\nUSART3 = {{ at = 0x40004800, kind = \"stm32-usart-v1\"{reset} }}\n"
        );
        fs::write(temp.path().join("mine.toml"), text).unwrap();
    };
    let suite = format!(
        "[[image]]\nname = \"kinds\"\nelf = {:?}\nchip = \"mine.toml\"\nfor = \"20M\"\n",
        elf.display().to_string()
    );
    fs::write(temp.path().join("harness.toml"), suite).unwrap();
    let test = |args: &[&str]| {
        let output = harness().arg("test").args(args).arg("--no-cache").current_dir(temp.path()).output().unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    write("");
    assert_eq!(test(&["--save-baseline", "main"]).0, Some(0));
    assert_eq!(test(&["--baseline", "main"]).0, Some(0));
    write(", reset = { BRR = 1 }");
    let (code, said) = test(&["--baseline", "main"]);
    assert!(code != Some(0) || said.contains("chip="), "{code:?}: {said}");
}

#[test]
fn a_chip_and_a_machine_are_not_both_meant() {
    let output = harness().args(["--chip", "stm32f407", "--machine", "virt", "x.elf"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let run = run_file(&image("chips/stm32f407-kinds"), &["--chip", "stm32f407", "--for", "100k", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(json["facts"]["chip"]["name"], "stm32f407");
}

/// A copy of QEMU in which one of the required functions has another name.
#[test]
fn a_qemu_that_lacks_a_function_is_exit_5_with_its_name_and_the_way_out() {
    let temp = tempfile::tempdir().unwrap();
    let (real, other) = (emulator("qemu-system-arm"), temp.path().join("qemu-system-arm"));
    let script = "LC_ALL=C sed s/memory_region_init_rom_device/memory_region_init_rom_devicX/g \"$0\" >\"$1\" && chmod +x \"$1\"";
    let made = Command::new("sh").args(["-c", script]).arg(&real).arg(&other).status().unwrap();
    assert!(made.success());
    let path = format!("{}:{}", temp.path().display(), std::env::var("PATH").unwrap());
    let elf = image("chips/stm32f407-kinds");
    let output =
        command(&elf, &["--chip", "stm32f407", "--for", "1M"], temp.path()).env("PATH", path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("does not show memory_region_init_rom_device\n") && said.contains("bundle"), "{said}");
    assert!(!temp.path().join("out").exists());
}

#[test]
fn a_chip_without_the_use_of_qemus_inside_is_exit_5_before_anything_runs() {
    let temp = tempfile::tempdir().unwrap();
    let args = ["--chip", "stm32f407", "--for", "1M"];
    let mut command = command(&image("chips/stm32f407-kinds"), &args, temp.path());
    let output = command.env("HARNESS_NO_TRICKS", "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("--chip goes beyond QEMU's plugin API, and HARNESS_NO_TRICKS is set"), "{said}");
    assert!(said.contains("docs/ci.md#the-bundle"), "{said}");
    assert!(!temp.path().join("out").exists());
}

/// A copy of QEMU that calls itself a release without known internals.
#[test]
fn a_qemu_of_another_release_is_exit_5_and_names_the_bundle() {
    let temp = tempfile::tempdir().unwrap();
    let (real, other) = (emulator("qemu-system-arm"), temp.path().join("qemu-system-arm"));
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'QEMU emulator version 12.3.0' || exec REAL \"$@\"\n";
    fs::write(&other, script.replace("REAL", real.to_str().unwrap())).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", temp.path().display(), std::env::var("PATH").unwrap());
    let args = ["--chip", "stm32f407", "--for", "1M"];
    let output = command(&image("chips/stm32f407-kinds"), &args, temp.path()).env("PATH", path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("is QEMU 12.3.0, and --chip was tried with QEMU "), "{said}");
    assert!(said.contains("docs/ci.md#the-bundle"), "{said}");
    assert!(!temp.path().join("out").exists());
}
