// SPDX-License-Identifier: MIT OR Apache-2.0
//! DFU files, made of an ELF's bytes as ST's tools do.

use std::fs;

use harness::image::{Image, LoadOptions};

use crate::common::{image, refused_file, run_file};

#[test]
fn a_dfu_file_runs_as_the_elf_that_it_was_made_of() {
    let temp = tempfile::tempdir().unwrap();
    let elf = image("chips/stm32f407-kinds");
    let segments = Image::open(&elf, &LoadOptions::default()).unwrap().segments;
    let loaded: Vec<_> = segments.iter().filter(|segment| !segment.data.is_empty()).collect();
    let mut bytes = b"DfuSe\x01\0\0\0\0\x01Target\0".to_vec();
    bytes.resize(11 + 270, 0);
    bytes.extend((loaded.len() as u32).to_le_bytes());
    for segment in &loaded {
        bytes.extend((segment.load_addr as u32).to_le_bytes());
        bytes.extend((segment.data.len() as u32).to_le_bytes());
        bytes.extend(&segment.data);
    }
    bytes.extend(b"\0\0\x11\xdf\x83\x04\x1a\x01UFD\x10");
    bytes.extend((!crc32fast::hash(&bytes)).to_le_bytes());
    let file = temp.path().join("kinds.dfu");
    fs::write(&file, &bytes).unwrap();
    let chip = ["--chip", "stm32f407", "--for", "2M"];
    let (dfu, same) = (run_file(&file, &chip), run_file(&elf, &chip));
    let (dfu, same) = (dfu.expect_code(0), same.expect_code(0));
    assert_eq!(dfu.console(), same.console());
    assert!(dfu.profile().total_insns() > 0 && dfu.profile().total_insns() == same.profile().total_insns());
    // A byte was changed on the way.
    bytes[400] ^= 1;
    fs::write(&file, &bytes).unwrap();
    refused_file(&file, &chip, &["is damaged: its checksum is"]);
}
