// SPDX-License-Identifier: MIT OR Apache-2.0
//! Start of a run: images that a bootloader starts on the chip, data that a linker or a programmer puts beside the
//! code, and a machine with a start address of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::analysis::stacks;

use crate::common::built::{self, cortex_m, riscv, scratch};
use crate::common::run_file;

const M0: &str = "-mcpu=cortex-m0";
const M3: &str = "-mcpu=cortex-m3";
const M4: &str = "-mcpu=cortex-m4 -mfloat-abi=soft";
const M33: &str = "-mcpu=cortex-m33 -mfloat-abi=soft";

/// Prints in an exception's handler. Its vector is in the image's own table, and the firmware does not set VTOR.
const BY_EXCEPTION: &str = r#"
void svcall(void) { host(4, "svc\n"); }
__attribute__((used, aligned(128))) const char no_table[128] = {0};
void reset(void) {
    __asm__ volatile("svc 0");
    host(0x18, STOPPED);
    for (;;) {}
}
"#;

/// Builds [`BY_EXCEPTION`] and sets its exception's vector, which is empty in the vector table that all these images
/// share.
fn by_exception(target: &built::Target, dir: &Path, name: &str) -> PathBuf {
    let elf = target.build_source(dir, name, BY_EXCEPTION);
    let mut bytes = fs::read(&elf).unwrap();
    let word = |name: &str| (symbol(&elf, name) | 1).to_le_bytes();
    let table = [0x2000_4000_u32.to_le_bytes(), word("reset")].concat();
    let at = bytes.windows(8).position(|window| window == table).expect("the table is in the file");
    bytes[at + 4 * 11..at + 4 * 12].copy_from_slice(&word("svcall"));
    fs::write(&elf, bytes).unwrap();
    elf
}

fn symbol(elf: &Path, name: &str) -> u32 {
    let output = Command::new("arm-none-eabi-nm").arg(elf).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
    u32::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
}

#[test]
fn what_a_bootloader_starts_runs_from_its_own_vector_table() {
    let dir = scratch();
    for (flags, code, machine) in [
        (M4, 0x0800_8000, "netduinoplus2"),
        (M3, 0x0802_0000, "netduinoplus2"),
        (M4, 0x2_6000, "mps2-an386"),
        (M0, 0x1_8000, "microbit"),
    ] {
        let elf = by_exception(&cortex_m(flags, code, 0x2000_0000, 0x2000_4000), dir.path(), "fw");
        let result = run_file(&elf, &["--period", "3"]).expect_code(0);
        assert_eq!(result.console(), "svc\n", "{code:#x}");
        let profile = result.profile();
        assert_eq!((&*profile.facts.machine, profile.facts.vectors), (machine, Some(code)));
        assert_eq!(profile.facts.entry, u64::from(symbol(&elf, "reset")), "{code:#x}");
        assert!(stacks::unknown(&profile).is_empty(), "{code:#x}: {:?}", stacks::unknown(&profile));
        let said = format!("it starts from the vector table at {code:#010x}");
        assert!(result.stderr.contains(&said), "{}", result.stderr);
        // The same from a HEX file.
        let hex = dir.path().join("fw.hex");
        built::run(Command::new("arm-none-eabi-objcopy").args(["-O", "ihex"]).arg(&elf).arg(&hex));
        let of_hex = run_file(&hex, &["--machine", machine]).expect_code(0).profile();
        assert_eq!(of_hex.insns(), profile.insns(), "{code:#x}");
    }
}

#[test]
fn the_vector_table_can_be_said_and_must_be_one() {
    let dir = scratch();
    // A bootloader and its application in one file.
    let app = by_exception(&cortex_m(M3, 0x8000, 0x2000_0000, 0x2000_4000), dir.path(), "app");
    let boot = cortex_m(M3, 0, 0x2000_0000, 0x2000_4000).build(dir.path(), "boot");
    let hex = |elf: &Path| {
        let hex = elf.with_extension("hex");
        built::run(Command::new("arm-none-eabi-objcopy").args(["-O", "ihex"]).arg(elf).arg(&hex));
        fs::read_to_string(hex).unwrap()
    };
    let no_table = format!("{:#x}", symbol(&app, "no_table"));
    let (boot, app) = (hex(&boot), hex(&app));
    let both = dir.path().join("both.hex");
    fs::write(&both, boot.replace(":00000001FF", "").trim_end().to_owned() + "\n" + &app).unwrap();
    let booted = run_file(&both, &[]).expect_code(0);
    assert_eq!((&*booted.console(), booted.profile().facts.vectors), ("ok\n", None));
    let said = run_file(&both, &["--vectors", "0x8000"]).expect_code(0);
    assert_eq!((&*said.console(), said.profile().facts.vectors), ("svc\n", Some(0x8000)));
    // The default address needs no option.
    let own = run_file(&both, &["--vectors", "0"]).expect_code(0);
    assert_eq!(own.profile().facts.vectors, None);
    assert_eq!(own.profile().insns(), booted.profile().insns());
    for (vectors, expected) in [
        ("0x8004", "multiple of 128"),
        ("0x10000", "the image loads nothing there; it loads 0x00000000.."),
        (&no_table, "there is no vector table"),
        ("here", "not a number"),
    ] {
        let result = run_file(&both, &["--vectors", vectors]).expect_code(2);
        assert!(result.stderr.contains(expected), "{vectors}: {}", result.stderr);
    }
    // QEMU's boards with TrustZone start from one table only.
    let m33 = cortex_m(M33, 0x1000_8000, 0x3800_0000, 0x3840_0000).build(dir.path(), "m33");
    let result = run_file(&m33, &["--machine", "mps2-an505"]);
    assert!(result.stderr.contains("QEMU cannot start it from another one (0x10008000)"), "{}", result.stderr);
    let riscv = riscv(64, 0x8000_0000, 0x8000_0000, 0x8000_4000).build(dir.path(), "riscv");
    let result = run_file(&riscv, &["--vectors", "0x80000000"]).expect_code(2);
    assert!(result.stderr.contains("only a Cortex-M"), "{}", result.stderr);
}

#[test]
fn elf_headers_below_the_memory_are_left_out() {
    let dir = scratch();
    for (target, machine) in [
        (riscv(64, 0x8000_0000, 0x8000_4000, 0x8000_8000), "virt"),
        (riscv(32, 0x8000_0000, 0x8000_4000, 0x8000_8000), "virt"),
        (cortex_m(M3, 0x0800_0000, 0x2000_0000, 0x2000_4000), "netduinoplus2"),
        // Here there is memory below the code: the vector table is at the start of the code.
        (cortex_m(M3, 0x1_0000, 0x2000_0000, 0x2000_4000), "mps2-an385"),
    ] {
        let plain = run_file(&target.build(dir.path(), "plain"), &[]).expect_code(0);
        // Move the headers into the first segment, as ld does where its script leaves room for them.
        let elf = begin_with_headers(&target.build(dir.path(), "headers"));
        let result = run_file(&elf, &[]).expect_code(0);
        assert_eq!(result.console(), "ok\n");
        assert_eq!(result.profile().facts.machine, machine);
        assert_eq!(result.profile().insns(), plain.profile().insns());
    }
}

/// Extends the first segment of an ELF down to the file's first byte, so that the headers are loaded below the code.
fn begin_with_headers(elf: &Path) -> PathBuf {
    let mut bytes = fs::read(elf).unwrap();
    let is_64 = bytes[4] == 2;
    let word = |bytes: &[u8], at: usize| -> u64 {
        if is_64 {
            u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
        } else {
            u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()).into()
        }
    };
    let (phoff, entry_bytes) = if is_64 { (word(&bytes, 32), 56) } else { (word(&bytes, 28), 32) };
    let count = u16::from_le_bytes(bytes[if is_64 { 56 } else { 44 }..][..2].try_into().unwrap());
    // Offsets of fields in a program header: offset, virtual and physical address, sizes in the file and in memory.
    let fields = if is_64 { [8, 16, 24, 32, 40] } else { [4, 8, 12, 16, 20] };
    let mut headers = (0..usize::from(count)).map(|index| phoff as usize + index * entry_bytes);
    let load = headers.find(|&at| bytes[at..at + 4] == 1_u32.to_le_bytes()).unwrap();
    let offset = word(&bytes, load + fields[0]);
    assert!(offset > 0, "the headers are in no segment yet");
    for (index, field) in fields.into_iter().enumerate() {
        let value = word(&bytes, load + field);
        let value = if index < 3 { value - offset } else { value + offset };
        let size = if is_64 { 8 } else { 4 };
        bytes[load + field..load + field + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
    let path = elf.with_extension("axf");
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn settings_beside_the_code_of_an_nrf51_are_taken_and_said_to_be_left_out() {
    let dir = scratch();
    let elf = cortex_m(M0, 0, 0x2000_0000, 0x2000_4000).build(dir.path(), "fw");
    let hex = dir.path().join("fw.hex");
    built::run(Command::new("arm-none-eabi-objcopy").args(["-O", "ihex"]).arg(&elf).arg(&hex));
    let plain = run_file(&hex, &["--symbols", elf.to_str().unwrap()]).expect_code(0);
    assert!(!plain.stderr.contains("UICR"), "{}", plain.stderr);
    // UICR's BOOTLOADERADDR, 0x0003c000, at 0x10001014, as mergehex writes it.
    let text = fs::read_to_string(&hex).unwrap().replace(":00000001FF", "");
    let uicr = ":020000041000EA\n:0410140000C0030015\n:00000001FF\n";
    fs::write(&hex, text.trim_end().to_owned() + "\n" + uicr).unwrap();
    let result = run_file(&hex, &["--symbols", elf.to_str().unwrap()]).expect_code(0);
    assert_eq!(result.profile().facts.machine, "microbit");
    assert!(
        result.stderr.contains("the settings in UICR (0x10001014..0x10001018) are not loaded"),
        "{}",
        result.stderr
    );
    assert_eq!(result.profile().insns(), plain.profile().insns());
}

#[test]
fn an_fe310s_image_runs_on_an_fe310() {
    let dir = scratch();
    for bits in [32, 64] {
        let elf = riscv(bits, 0x2040_0000, 0x8000_0000, 0x8000_4000).build(dir.path(), "fw");
        let result = run_file(&elf, &["--period", "3"]).expect_code(0);
        assert_eq!(result.console(), "ok\n");
        let profile = result.profile();
        assert_eq!((&*profile.facts.machine, profile.facts.entry), ("sifive_e", 0x2040_0000));
        assert!(profile.vcpus[0].insns.iter().any(|insn| insn.pc < 0x3000), "the boot ROM is counted");
        let names: Vec<String> =
            harness::analysis::functions::table(&profile).rows.into_iter().map(|row| row.name).collect();
        assert!(names.contains(&"[boot rom]".to_owned()), "{names:?}");
        // At other addresses the machine is `virt`.
        let elf = riscv(bits, 0x2041_0000, 0x8000_0000, 0x8000_4000).build(dir.path(), "fw");
        assert_eq!(run_file(&elf, &[]).expect_code(0).profile().facts.machine, "virt");
    }
}
