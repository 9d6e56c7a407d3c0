// SPDX-License-Identifier: MIT OR Apache-2.0
//! Images whose processor or memory is not that of the chip that the user has named: a warning, and the run goes on.

use super::*;
use crate::common::containers;

/// Firmware that keeps a word at an address and succeeds if the word is still there.
fn keeps_a_word(dir: &Path, flags: &str, stack_top: u64, address: u64) -> PathBuf {
    let body = format!(
        "volatile unsigned *word = (volatile unsigned *){address:#x}; *word = 0x5a17; \
         host(0x18, *word == 0x5a17 ? STOPPED : 0); for (;;) {{}}"
    );
    let target = cortex_m(flags, 0x0800_0000, 0x2000_0000, stack_top);
    target.build_source(dir, "firmware", &format!("void reset(void) {{ {body} }}"))
}

#[test]
fn code_that_claims_another_processor_runs_on_the_chip_that_is_named() {
    let dir = scratch();
    let elf = keeps_a_word(dir.path(), "-mcpu=cortex-m4", 0x2000_2000, 0x2000_1000);
    let run = run_file(&elf, &["--chip", "stm32f103"]).expect_code(0);
    let said =
        "warning: --chip stm32f103: its cortex-m3 (v7-M) cannot run code built for v7E-M; it starts all the same";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    let elf = keeps_a_word(dir.path(), "-mcpu=cortex-m3", 0x2000_2000, 0x2000_1000);
    let run = run_file(&elf, &["--chip", "stm32f103"]).expect_code(0);
    assert!(!run.stderr.contains("warning"), "{}", run.stderr);
    // Code of another family does not start.
    let text = run_file(&elf, &["--chip", "atmega328p"]).expect_code(2).stderr;
    assert!(text.contains("--chip atmega328p: this is an image for Cortex-M"), "{text}");
}

#[test]
fn a_chip_has_the_memory_of_a_larger_one_where_the_image_needs_it() {
    let dir = scratch();
    let elf = keeps_a_word(dir.path(), "-mcpu=cortex-m3", 0x2000_c000, 0x2000_bf00);
    let run = run_file(&elf, &["--chip", "stm32f103"]).expect_code(0);
    let said = "warning: --chip stm32f103: SRAM at 0x20000000 has 20,480 bytes, and the image goes beyond: it has 49,152 \
                here, as in a larger chip";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    // No relative of the chip has so much.
    let elf = keeps_a_word(dir.path(), "-mcpu=cortex-m3", 0x2010_0000, 0x2000_1000);
    let text = run_file(&elf, &["--chip", "stm32f103"]).expect_code(2).stderr;
    assert!(text.contains("--chip stm32f103: initial stack pointer 0x20100000 is outside its RAM"), "{text}");
}

#[test]
fn a_section_without_contents_in_flash_begins_erased() {
    let dir = scratch();
    let source = "__attribute__((section(\".kept,\\\"aw\\\",%nobits@\"))) volatile unsigned kept[64];\n\
                  void reset(void) { host(0x18, kept[63] == 0xffffffff ? STOPPED : 0); for (;;) {} }";
    let target = cortex_m("-mcpu=cortex-m3", 0x0800_0000, 0x2000_0000, 0x2000_2000);
    let target = target.with("-Wl,--section-start=.kept=0x08008000");
    run_file(&target.build_source(dir.path(), "firmware", source), &["--chip", "stm32f103"]).expect_code(0);
    // There is nothing of the kind on a board.
    let elf = target.build_source(dir.path(), "firmware", source);
    let text = run_file(&elf, &["--no-chip"]).expect_code(2).stderr;
    assert!(text.contains("0x08008000"), "{text}");
}

#[test]
fn a_first_stack_in_flash_is_a_warning_for_a_chip() {
    let dir = scratch();
    let source = "__attribute__((naked)) void reset(void) {\n\
                  __asm__ volatile(\"ldr r0, =0x20001000\\n mov sp, r0\\n b go\"); }\n\
                  __attribute__((used)) void go(void) { host(0x18, STOPPED); for (;;) {} }";
    let elf = cortex_m("-mcpu=cortex-m0", 0, 0x2000_0000, 0x7c0).build_source(dir.path(), "firmware", source);
    let run = run_file(&elf, &["--chip", "nrf51822"]).expect_code(0);
    let said = "warning: --chip nrf51822: initial stack pointer 0x000007c0 is in no RAM; it starts all the same";
    assert!(run.stderr.contains(said), "{}", run.stderr);
}

#[test]
fn a_dfu_file_without_addresses_runs_where_the_user_places_it() {
    let dir = scratch();
    let elf = keeps_a_word(dir.path(), "-mcpu=cortex-m3", 0x2000_2000, 0x2000_1000);
    let [code] = &containers::loaded(&elf)[..] else { panic!("it has one segment") };
    let file = dir.path().join("firmware.dfu");
    fs::write(&file, containers::ended(code.data.clone())).unwrap();
    let placed = ["--chip", "stm32f103", "--load-addr", "0x08000000"];
    let run = run_file(&file, &placed).expect_code(0);
    assert_eq!(run.profile().total_insns(), run_file(&elf, &placed[..2]).expect_code(0).profile().total_insns());
    let text = run_file(&file, &placed[..2]).expect_code(2).stderr;
    assert!(text.contains("--load-addr ADDRESS"), "{text}");
    // ST's form says where its bytes belong.
    fs::write(&file, containers::dfu(&[(0x0800_0000, &code.data)])).unwrap();
    let text = run_file(&file, &placed).expect_code(2).stderr;
    assert!(text.contains("leave --load-addr out"), "{text}");
}

#[test]
fn an_image_that_fits_no_machine_is_told_of_chips() {
    let dir = scratch();
    let built = |ram| {
        let target = cortex_m("-mcpu=cortex-m4", 0, ram, ram + 0x8000);
        let elf = target.build_source(dir.path(), "firmware", "void reset(void) { for (;;) {} }");
        run_file(&elf, &["--no-chip"]).expect_code(2).stderr
    };
    // The RAM of a Kinetis, and of no chip that is known.
    let text = built(0x1fff_0000);
    assert!(
        text.contains("If it was built for a chip, name that: --chip NAME; 1 of `harness list chips` have"),
        "{text}"
    );
    assert!(text.contains("`harness chip suggest "), "{text}");
    let text = built(0x5000_0000);
    assert!(text.contains("name that: --chip FILE describes it"), "{text}");
}

#[test]
fn a_wait_for_what_comes_from_outside_is_not_the_chip_files_fault() {
    let dir = scratch();
    let waits = |address: u32, bit: u32| {
        let body = format!(
            "while (!(*(volatile unsigned *){address:#x} & {bit:#x})) {{}} host(0x18, STOPPED); for (;;) {{}}"
        );
        let target = cortex_m("-mcpu=cortex-m3", 0x0800_0000, 0x2000_0000, 0x2000_2000);
        let elf = target.build_source(dir.path(), "firmware", &format!("void reset(void) {{ {body} }}"));
        run_file(&elf, &["--chip", "stm32f103", "--for", "1M"]).stderr
    };
    // USART1.SR has a byte; GPIOA.IDR shows a pin.
    let text = waits(0x4001_3800, 0x20);
    assert!(
        text.contains("waits for 0x40013800, which chip stm32f103 models, so for what comes from outside: --input "),
        "{text}"
    );
    let text = waits(0x4001_0808, 1);
    let said = "waits for 0x40010808, which chip stm32f103 models, so for what comes from outside: --set and devices of a \
                chip file bring it (docs/chips.md)";
    assert!(text.contains(said), "{text}");
    // Nothing describes a register of USB's.
    let text = waits(0x4000_5c44, 1);
    assert!(text.contains("waits for 0x40005c44, for which chip stm32f103 has no answer"), "{text}");
}
