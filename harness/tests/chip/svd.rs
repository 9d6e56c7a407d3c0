// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers of a chip from an SVD file. The files are small ones of the tests' own.

use std::fs;

use crate::common::{finish, harness, image, refused, run};

/// Two peripherals of an STM32F407: SDIO, which its chip file does not describe, and RCC, which it does.
const SVD: &str = r#"<device><name>STM32F407</name><cpu><nvicPrioBits>4</nvicPrioBits></cpu><size>32</size>
<peripherals>
<peripheral><name>SDIO</name><baseAddress>0x40012c00</baseAddress>
<addressBlock><offset>0</offset><size>0x400</size></addressBlock>
<registers>
<register><name>ARG</name><addressOffset>0x8</addressOffset><resetValue>0x5</resetValue></register>
</registers></peripheral>
<peripheral><name>RCC</name><baseAddress>0x40023800</baseAddress>
<addressBlock><offset>0</offset><size>0x400</size></addressBlock>
<registers>
<register><name>CR</name><addressOffset>0</addressOffset><resetValue>0x83</resetValue><fields>
<field><name>HSERDY</name><bitRange>[17:17]</bitRange></field></fields></register>
</registers></peripheral>
</peripherals></device>
"#;

#[test]
fn what_nothing_models_has_the_vendors_name_and_the_hash_is_another() {
    let temp = tempfile::tempdir().unwrap();
    let svd = temp.path().join("f407.svd");
    fs::write(&svd, SVD).unwrap();
    let args = ["--chip", "stm32f407", "--for", "20M"];
    let without = run("chips/stm32f407-kinds", &args).expect_code(0);
    let with = run("chips/stm32f407-kinds", &[&args[..], &["--svd", svd.to_str().unwrap()]].concat()).expect_code(0);
    assert!(without.stdout.contains("APB2 at 0x40012c08"), "{}", without.stdout);
    assert!(with.stdout.contains("SDIO.ARG (1 read"), "{}", with.stdout);
    let chip = |run: &crate::common::Run| run.profile().facts.chip.unwrap();
    assert_ne!(chip(&without).sha256, chip(&with).sha256);
    assert_eq!(chip(&with).svd.as_deref(), Some("f407.svd"));
    assert_eq!(without.console(), with.console(), "kinds of peripherals do what they did");
}

#[test]
fn what_is_learned_names_registers_and_needs_the_svd_no_longer() {
    let temp = tempfile::tempdir().unwrap();
    let (svd, file) = (temp.path().join("f407.svd"), temp.path().join("chip.toml"));
    fs::write(&svd, SVD).unwrap();
    let mut command = harness();
    command.args(["chip", "learn", "--for", "3M", "--svd"]).arg(&svd).arg("-o").arg(&file);
    let output = command.arg(image("chips/stm32f407-freertos")).current_dir(temp.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("0x40023800 (RCC.CR.HSERDY): 0x20000 in 0x20000"), "{said}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("why = \"RCC.CR.HSERDY polled until bit 17 is 1\""), "{text}");
    assert!(text.contains("{ at = 0x40023800, name = \"RCC.CR\", reset = 0x83 }"), "{text}");
    let run = run("chips/stm32f407-freertos", &["--chip", file.to_str().unwrap(), "--for", "3M"]);
    assert!(run.stdout.contains("RCC.CR reads 0x20000 in 0x20000"), "{}", run.stdout);
}

#[test]
fn a_register_reads_as_the_vendor_resets_it() {
    let chip = |svd: Option<&str>| {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("f407.svd");
        fs::write(&path, svd.unwrap_or_default()).unwrap();
        harness::chip::find_with("stm32f407", svd.map(|_| &*path)).unwrap()
    };
    let at = 0x4001_2c08;
    let reset = |chip: &harness::chip::Chip| {
        let block = chip.wire.block_at(at).unwrap();
        assert!(block.is_undescribed);
        let register = block.registers.iter().find(|register| register.offset == Some(at - block.start));
        register.map(|register| register.reset)
    };
    assert_eq!((reset(&chip(None)), reset(&chip(Some(SVD)))), (None, Some(5)));
    let rcc = |chip: harness::chip::Chip| chip.wire.block_at(0x4002_3800).unwrap().clone();
    assert_eq!(rcc(chip(None)), rcc(chip(Some(SVD))), "a kind describes it");
}

#[test]
fn an_svd_that_does_not_parse_is_exit_2_with_line_and_reason() {
    let temp = tempfile::tempdir().unwrap();
    let svd = temp.path().join("bad.svd");
    fs::write(&svd, SVD.replace("0x40012c00", "here")).unwrap();
    let svd = svd.to_str().unwrap();
    let name = "chips/stm32f407-kinds";
    refused(name, &["--chip", "stm32f407", "--svd", svd], &["bad.svd:3: <baseAddress> is not a number: \"here\""]);
    refused(name, &["--svd", svd], &["--chip"]);
}

#[test]
fn the_debugger_asks_for_the_svd_of_the_run() {
    let temp = tempfile::tempdir().unwrap();
    let svd = temp.path().join("f407.svd");
    fs::write(&svd, SVD).unwrap();
    let made = run("chips/stm32f407-kinds", &["--chip", "stm32f407", "--for", "1M", "--svd", svd.to_str().unwrap()]);
    let mut command = harness();
    command.arg("debug").arg(&made.dir).args(["--at", "insn:1000", "--elf"]).arg(image("chips/stm32f407-kinds"));
    let temp = tempfile::tempdir().unwrap();
    let output = command.current_dir(temp.path()).output().unwrap();
    let debug = finish(temp, output);
    assert_eq!(debug.code, 2);
    assert!(debug.stderr.contains("--svd f407.svd"), "{}", debug.stderr);
}
