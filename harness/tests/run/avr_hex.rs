// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `.hex` files of Arduino's IDE: a HEX file names no processor, so its contents must.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::built;
use crate::common::{Run, alone, image, refused_file, run, run_file};

/// Bootloader of an ATmega328P from the package of Arduino's core, from 0x7800 on.
const BOOTLOADER: &str = "/usr/share/arduino/hardware/arduino/avr/bootloaders/atmega/ATmegaBOOT_168_atmega328.hex";

/// Converts an ELF file as Arduino's IDE does.
fn hex_of(elf: &Path, hex: &Path) {
    built::run(Command::new("avr-objcopy").args(["-O", "ihex", "-R", ".eeprom"]).arg(elf).arg(hex));
}

/// Image of a test as `.hex` in a directory.
fn converted(name: &str, dir: &Path) -> PathBuf {
    let hex = dir.join("sketch.ino.hex");
    hex_of(&image(name), &hex);
    hex
}

/// Compiles a program for a device, with avr-libc's start-up code, and converts it.
fn compiled(device: &str, source: &str, dir: &Path) -> PathBuf {
    let (file, elf, hex) = (dir.join("fw.c"), dir.join("fw.elf"), dir.join(format!("{device}.hex")));
    fs::write(&file, source).unwrap();
    built::avr(device, &["-Os"], &file, &elf);
    hex_of(&elf, &hex);
    hex
}

/// The line that names the machine.
fn machine(run: &Run) -> &str {
    run.stderr.lines().find_map(|line| line.strip_prefix("machine: ")).unwrap_or_else(|| panic!("{}", run.stderr))
}

#[test]
fn a_hex_counts_as_the_elf_does_and_its_machine_is_found() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["avr/uno", "avr/uno-timer", "avr/uno-sketch"] {
        let by_elf = run(name, &[]).expect_code(0);
        let by_hex = run_file(&converted(name, dir.path()), &[]).expect_code(0);
        let (profile, expected) = (by_hex.profile(), by_elf.profile());
        assert_eq!(profile.facts.machine, "uno", "{name}");
        assert_eq!(profile.facts.end, expected.facts.end, "{name}: the end is known without symbols");
        assert_eq!(profile.facts.window, expected.facts.window, "{name}");
        assert_eq!(profile.vcpus[0].insns, expected.vcpus[0].insns, "{name}");
        assert!(profile.samples.len() == expected.samples.len() && by_hex.console() == by_elf.console(), "{name}");
        assert!(expected.total_insns() > 50_000, "{name}");
        let said = machine(&by_hex);
        for part in ["uno (atmega328p)", "26 jumps, the vectors of an atmega328p", "at the end of that device's RAM"]
        {
            assert!(said.contains(part), "{name}: {said}");
        }
        // Names come from the ELF.
        let named = run_file(&converted(name, dir.path()), &["--symbols", image(name).to_str().unwrap()]);
        assert_eq!(named.expect_code(0).profile().names, expected.names, "{name}");
    }
}

#[test]
fn a_bootloader_behind_the_sketch_is_data() {
    let dir = tempfile::tempdir().unwrap();
    let hex = converted("avr/uno-sketch", dir.path());
    let text = fs::read_to_string(&hex).unwrap();
    let sketch: String = text.lines().filter(|line| *line != ":00000001FF").map(|line| format!("{line}\n")).collect();
    let both = dir.path().join("sketch.ino.with_bootloader.hex");
    fs::write(&both, sketch + &fs::read_to_string(BOOTLOADER).unwrap()).unwrap();
    let (alone, both) = (run_file(&hex, &[]).expect_code(0), run_file(&both, &[]).expect_code(0));
    assert_eq!(both.profile().vcpus, alone.profile().vcpus);
    assert!(machine(&both).starts_with("uno (atmega328p)"));
    // A bootloader alone has no vectors at 0.
    refused_file(
        Path::new(BOOTLOADER),
        &[],
        &["an Intel HEX file does not say which processor", "AVR's vectors", "--machine", "avr:NAME"],
    );
}

/// Ends at once, and uses no device that has another address elsewhere.
const NOTHING: &str = "#include <avr/interrupt.h>\n#include <avr/sleep.h>\n\
    int main(void) { cli(); sleep_enable(); sleep_cpu(); return 0; }\n";

#[test]
fn the_devices_of_a_family_are_told_apart_by_their_ram() {
    let dir = tempfile::tempdir().unwrap();
    for (device, name) in [("atmega168", "2009"), ("atmega328p", "uno"), ("atmega1280", "mega")] {
        let run = run_file(&compiled(device, NOTHING, dir.path()), &[]).expect_code(0);
        assert_eq!(run.profile().facts.machine, name, "{}", run.stderr);
        let said = machine(&run);
        assert!(said.contains(&format!("the vectors of an {device}")), "{said}");
    }
}

#[test]
fn what_fits_no_machine_says_so_with_the_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let next = "--machine riscv64:virt, riscv32:virt, arm:NAME or avr:NAME";
    for (device, jumps) in [("atmega32u4", "43 jumps"), ("atmega32", "21 jumps")] {
        refused_file(
            &compiled(device, NOTHING, dir.path()),
            &[],
            &[jumps, "of no known AVR", "--symbols FILE.elf", next],
        );
    }
    // Vectors of two bytes.
    refused_file(&compiled("attiny85", NOTHING, dir.path()), &[], &["AVR's vectors (a jump for each)", next]);
    let hex = compiled("atmega328p", NOTHING, dir.path());
    let other =
        ["atmega1280 is an avr51, and the image begins with the 26 vectors of an avr5", "leave --machine out: uno"];
    refused_file(&hex, &["--machine", "mega"], &other);
    refused_file(
        &hex,
        &["--machine", "avr:2009"],
        &["puts its stack at 0x08ff", "ends at 0x04ff", "leave --machine out"],
    );
}

#[test]
fn hex_files_of_other_processors_are_what_they_were() {
    let (dir, hex) = alone("cortex-m3-bare.hex");
    let run = run_file(&hex, &[]).expect_code(0);
    assert!(machine(&run).starts_with("mps2-an386 (cortex-m4), its memory fits"), "{}", run.stderr);
    let hex = dir.path().join("riscv.hex");
    let mut objcopy = Command::new("riscv64-unknown-elf-objcopy");
    built::run(objcopy.args(["-O", "ihex"]).arg(image("riscv64-bare")).arg(&hex));
    refused_file(&hex, &[], &["does not say which processor it is for, and this one has no Cortex-M vector table"]);
}

/// A Cortex-M's two words behind the vectors, as the start of a part of their own.
#[test]
fn two_tables_say_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let hex = compiled("atmega328p", NOTHING, dir.path());
    let text = fs::read_to_string(&hex).unwrap();
    // At 0x4000: stack pointer 0x20001000, reset 0x00000011; the reset lies in the vectors.
    let table = ":084000000010002011000000";
    let sum = (1..table.len()).step_by(2).map(|at| u8::from_str_radix(&table[at..at + 2], 16).unwrap());
    let sum = sum.fold(0_u8, u8::wrapping_sub);
    fs::write(&hex, text.replace(":00000001FF", &format!("{table}{sum:02X}\n:00000001FF"))).unwrap();
    refused_file(&hex, &[], &["26 jumps, as code for AVR does, and has a Cortex-M vector table, too", "avr:NAME"]);
}

#[test]
fn the_elf_beside_a_hex_names_it_if_it_has_the_same_code() {
    let dir = tempfile::tempdir().unwrap();
    let (elf, hex) = (dir.path().join("sketch.ino.elf"), converted("avr/uno-timer", dir.path()));
    fs::copy(image("avr/uno-timer"), &elf).unwrap();
    let by_elf = run("avr/uno-timer", &[]).expect_code(0).profile();
    let both = dir.path().join("sketch.ino.with_bootloader.hex");
    fs::copy(&hex, &both).unwrap();
    for hex in [&hex, &both] {
        let by_hex = run_file(hex, &[]).expect_code(0);
        assert_eq!(by_hex.profile().names, by_elf.names);
        assert_eq!(by_hex.profile().vcpus, by_elf.vcpus);
        let said = by_hex.stderr.lines().find(|line| line.starts_with("image: ")).unwrap_or_default();
        assert!(said.contains("sketch.ino.elf has the same code"), "{}", by_hex.stderr);
    }
    // An ELF of another build: one instruction differs.
    let mut bytes = fs::read(&elf).unwrap();
    let code = {
        let file = object::File::parse(&*bytes).unwrap();
        object::ObjectSection::file_range(&object::Object::section_by_name(&file, ".text").unwrap()).unwrap()
    };
    bytes[(code.0 + code.1 - 2) as usize] ^= 1;
    fs::write(&elf, &bytes).unwrap();
    let unnamed = run_file(&hex, &[]).expect_code(0);
    assert!(!unnamed.stderr.contains("sketch.ino.elf has"), "{}", unnamed.stderr);
    assert!(unnamed.profile().names.functions.iter().all(|function| function.file.is_none()));
    // Damaged, or no file: it is as if it were not there.
    fs::write(&elf, b"\x7fELF, but not one").unwrap();
    assert_eq!(run_file(&hex, &[]).expect_code(0).profile().names, unnamed.profile().names);
    fs::remove_file(&elf).unwrap();
    fs::create_dir(&elf).unwrap();
    assert_eq!(run_file(&hex, &[]).expect_code(0).profile().names, unnamed.profile().names);
}
