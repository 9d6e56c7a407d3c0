// SPDX-License-Identifier: MIT OR Apache-2.0
//! UF2 files, made of an ELF's bytes as its tools do: they say which chip they are for.

use std::fs;
use std::path::Path;

use crate::common::containers::{self, RP2040};
use crate::common::{image, refused_file, run_file};

const UNKNOWN: u32 = 0x1234_5678;

/// An image's UF2 file for a family.
fn blocks(elf: &Path, family: u32) -> Vec<u8> {
    containers::uf2(&containers::pieces(&containers::loaded(elf), usize::MAX), family)
}

#[test]
fn a_uf2_runs_on_the_chip_of_its_family() {
    let temp = tempfile::tempdir().unwrap();
    let elf = image("chips/rp2040-dma");
    let file = temp.path().join("dma.uf2");
    fs::write(&file, blocks(&elf, RP2040)).unwrap();
    let typed = ["--for", "20M", "--input-after", "name? :fido\\n"];
    let run = run_file(&file, &typed).expect_code(0);
    assert!(run.stderr.contains("chip: rp2040, as its UF2 file is for RP2040 (0xe48bff56)\n"), "{}", run.stderr);
    let same = run_file(&elf, &[&["--chip", "rp2040"], &typed[..]].concat()).expect_code(0);
    assert_eq!(run.console(), same.console());
    assert_eq!(run.profile().total_insns(), same.profile().total_insns(), "the same firmware");
    // --chip auto says so, too, and a chip that is named is not asked for.
    let auto = run_file(&file, &[&["--chip", "auto"], &typed[..]].concat()).expect_code(0);
    assert!(auto.stderr.contains("is for RP2040 (0xe48bff56) (--chip auto)"), "{}", auto.stderr);
    let named = run_file(&file, &[&["--chip", "rp2040"], &typed[..]].concat()).expect_code(0);
    assert!(!named.stderr.contains("as its UF2 file"), "{}", named.stderr);
    // A family that harness does not know needs the chip to be named.
    fs::write(&file, blocks(&elf, UNKNOWN)).unwrap();
    let run = run_file(&file, &[&["--chip", "rp2040"], &typed[..]].concat()).expect_code(0);
    assert_eq!(run.console(), same.console());
    assert!(
        run.stderr.contains("a UF2 file for the family 0x12345678, which harness does not know"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_damaged_uf2_is_bad_input_with_its_offset() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("dma.uf2");
    let whole = blocks(&image("chips/rp2040-dma"), RP2040);
    let mut damaged = whole.clone();
    damaged[512 + 16..512 + 20].copy_from_slice(&u32::MAX.to_le_bytes());
    for (bytes, wanted) in [
        (damaged, "at offset 0x00000200 (block 1): the block says that it has 4294967295 bytes; 476 fit"),
        (whole[..700].to_vec(), "at offset 0x00000200 (block 1): the file ends 324 bytes before the block does"),
        (whole[..512].to_vec(), "blocks are there; was the file cut off?"),
        (b"UF2\n".to_vec(), "at offset 0x00000000 (block 0): "),
    ] {
        fs::write(&file, bytes).unwrap();
        refused_file(&file, &["--chip", "rp2040"], &["dma.uf2", wanted]);
    }
}
