// SPDX-License-Identifier: MIT OR Apache-2.0
//! DFU files, made of an ELF's bytes as ST's tools do.

use std::fs;

use crate::common::{containers, image, refused_file, run_file};

#[test]
fn a_dfu_file_runs_as_the_elf_that_it_was_made_of() {
    let temp = tempfile::tempdir().unwrap();
    let elf = image("chips/stm32f407-kinds");
    let mut bytes = containers::dfu(&containers::pieces(&containers::loaded(&elf), usize::MAX));
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
