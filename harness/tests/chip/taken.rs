// SPDX-License-Identifier: MIT OR Apache-2.0
//! The chip that a plain run takes without being asked: only where a board of QEMU's does not do, said in the first line.

use clap::Parser as _;
use harness::cli::Cli;
use harness::machine;
use harness::measure::Silent;
use harness::run::request::options::Options;
use harness::taken;

use super::suggest::STM32F1;
use super::*;
use crate::common::images::images_dir;
use crate::gate::suite::Suite;

/// Firmware that succeeds.
const DONE: &str = "host(0x18, STOPPED); for (;;) {}";

/// Firmware that starts the STM32F1's PLL and succeeds once that is ready (RM0008, 7.3.1).
const CLOCKED: &str = "*(volatile unsigned *)0x40021000 = 0x1000083; while (!(*(volatile unsigned *)0x40021000 & 0x2000000)) {} \
                       host(0x18, STOPPED); for (;;) {}";

/// Firmware that ends in a fault of its own.
const BROKEN: &str = "__asm__ volatile(\"udf #0\"); for (;;) {}";

/// Firmware with a text, and with the addresses of some peripherals, that it does not use.
fn source(text: &str, addresses: &[u32], body: &str) -> String {
    let words: String = addresses.iter().map(|address| format!("{address:#x}, ")).collect();
    format!(
        "__attribute__((section(\".text.kept\"), used)) static const char text[] = \"{text}\";\n\
         __attribute__((section(\".text.words\"), used, aligned(4))) static const unsigned words[] = {{ {words} 0 }};\n\
         void reset(void) {{ {body} }}"
    )
}

/// Such firmware in the flash of an STM32, in which QEMU has boards with other chips.
fn stm32(dir: &Path, text: &str, body: &str) -> PathBuf {
    let target = cortex_m("-mcpu=cortex-m3", 0x0800_0000, 0x2000_0000, 0x2000_2000);
    target.build_source(dir, "firmware", &source(text, &STM32F1, body))
}

/// Such firmware whose RAM begins where no machine of QEMU's has any, and the Kinetis K64 has.
fn kinetis(dir: &Path, text: &str) -> PathBuf {
    let target = cortex_m("-mcpu=cortex-m4", 0, 0x1fff_0000, 0x1fff_8000);
    target.build_source(dir, "firmware", &source(text, &[], DONE))
}

/// Chip of a run that went well, as if it had been named.
fn chip_of(run: &Run) -> Option<String> {
    run.profile().facts.chip.map(|chip| chip.given)
}

fn first_line(run: &Run) -> &str {
    run.stderr.lines().next().unwrap_or_default()
}

#[test]
fn an_image_that_no_machine_can_run_takes_the_chip_that_it_names() {
    let dir = scratch();
    let elf = kinetis(dir.path(), "MK64F12.h");
    let run = run_file(&elf, &[]).expect_code(0);
    let said = "chip: mk64f12, which the image names and has memory for; no machine of QEMU's can run it (--no-chip takes none)";
    assert_eq!(first_line(&run), said);
    assert_eq!(chip_of(&run).as_deref(), Some("mk64f12"));
    assert_eq!(run.files(), run_file(&elf, &["--chip", "mk64f12"]).files());
    let refused = run_file(&elf, &["--no-chip"]).expect_code(2);
    assert!(refused.stderr.contains("no Cortex-M machine can run this image"), "{}", refused.stderr);
    assert!(run_file(&kinetis(dir.path(), "none"), &[]).expect_code(2).stderr.contains("no Cortex-M machine"));
    // As a program, and for its sizes.
    let elf = kinetis(dir.path(), "MK64F12.h");
    let output = harness().args(["run", "-o"]).arg(dir.path().join("out")).arg(&elf).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && stderr.starts_with(&format!("harness: {said}\n")), "{stderr}");
    let sizes = harness().arg("size").arg(&elf).output().unwrap();
    let stdout = String::from_utf8(sizes.stdout).unwrap();
    assert!(stdout.contains("mk64f12"), "{stdout}");
}

#[test]
fn a_run_that_ends_for_lack_of_its_chip_runs_again_with_it() {
    let dir = scratch();
    let elf = stm32(dir.path(), "stm32f103", CLOCKED);
    let board = run_file(&elf, &["--for", "1M", "--no-chip"]);
    assert_eq!(chip_of(&board), None);
    assert!(board.stderr.contains("`--chip stm32f103` runs it there"), "{}", board.stderr);
    let run = run_file(&elf, &["--for", "1M"]).expect_code(0);
    let machine = board.profile().facts.machine;
    let said = format!(
        "chip: stm32f103, which the image names and has memory for; on {machine} it lacks what is at 0x40021000 (--no-chip \
         runs it there)"
    );
    assert_eq!(first_line(&run), said);
    assert!(run.stderr.lines().nth(1).is_some_and(|line| line.starts_with("machine: stm32f103 ")), "{}", run.stderr);
    assert_eq!(run.files(), run_file(&elf, &["--for", "1M", "--chip", "stm32f103"]).files());
    // A fault without an address: the code's addresses are the evidence.
    let broken = run_file(&stm32(dir.path(), "stm32f103", BROKEN), &["--for", "1M"]).expect_code(1);
    assert!(first_line(&broken).contains("it does not come through"), "{}", broken.stderr);
}

#[test]
fn an_image_that_comes_through_on_a_board_stays_there() {
    let dir = scratch();
    let elf = stm32(dir.path(), "stm32f103", DONE);
    let run = run_file(&elf, &[]).expect_code(0);
    assert!(run.stderr.starts_with("machine: ") && chip_of(&run).is_none(), "{}", run.stderr);
    assert_eq!(run.files(), run_file(&elf, &["--no-chip"]).files());
    // For a board of Arm's, with a name in a text, and with a fault of its own.
    let target = cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_2000);
    let elf = target.build_source(dir.path(), "mps2", &source("tested against nrf52840 boards", &[], BROKEN));
    let run = run_file(&elf, &["--for", "1M"]).expect_code(1);
    assert!(first_line(&run).starts_with("machine: mps2-an385"), "{}", run.stderr);
    assert_eq!(chip_of(&run), None);
}

#[test]
fn what_the_user_says_of_the_machine_counts() {
    let dir = scratch();
    let elf = stm32(dir.path(), "stm32f103", CLOCKED);
    for options in [&["--machine", "netduino2"][..], &["--cpu", "cortex-m3"], &["--vectors", "0x08000000"]] {
        let run = run_file(&elf, &[options, &["--for", "1M"]].concat());
        assert_eq!(chip_of(&run), None, "{options:?}: {}", run.stderr);
    }
    let run = run_file(&elf, &["--for", "1M", "--chip", "stm32f103xe"]).expect_code(0);
    assert!(first_line(&run).starts_with("machine: stm32f103xe") && !run.stderr.contains("chip: "), "{}", run.stderr);
    let both = run_file(&elf, &["--chip", "stm32f103", "--no-chip"]).expect_code(2);
    assert!(both.stderr.contains("--no-chip"), "{}", both.stderr);
}

#[test]
fn a_file_that_lies_about_its_chip_is_not_believed() {
    let dir = scratch();
    let untaken = |text: &str, body: &str| {
        let run = run_file(&stm32(dir.path(), text, body), &["--for", "1M"]);
        assert!(first_line(&run).starts_with("machine: ") && chip_of(&run).is_none(), "{text}: {}", run.stderr);
    };
    let all: Vec<&str> = harness::chip::names().collect();
    untaken(&all.join(" "), CLOCKED);
    // The code has peripherals that only the STM32F1 has there.
    untaken("stm32f407", CLOCKED);
    untaken("stm32f407", BROKEN);
    let section = "__attribute__((section(\".probe-rs.chip\"), used)) static const char told[] = \"STM32F407VG\";\n";
    let text = [section, &source("stm32f103", &STM32F1, CLOCKED)].concat();
    let target = cortex_m("-mcpu=cortex-m3", 0x0800_0000, 0x2000_0000, 0x2000_2000);
    let run = run_file(&target.build_source(dir.path(), "told", &text), &["--for", "1M"]);
    assert_eq!(chip_of(&run), None, "{}", run.stderr);
}

#[test]
fn a_suite_takes_a_chip_only_for_what_it_could_not_run() {
    let suite = Suite::new("");
    let elf = kinetis(suite.dir.path(), "MK64F12.h");
    let image = |keys: &str| format!("[[image]]\nname = \"one\"\nelf = {elf:?}\n{keys}");
    suite.write(&image(""));
    let run = suite.run(&[]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("chip: mk64f12, which the image names"), "{}", run.stdout);
    // Again, from the cache.
    assert!(suite.run(&[]).stdout.contains("chip: mk64f12, which the image names"));
    suite.write(&image("no-chip = true"));
    assert_eq!(suite.run(&[]).code, 2);
    suite.write(&["[defaults]\nno-chip = true\n", &image("chip = \"mk64f12\"")].concat());
    assert_eq!(suite.run(&[]).code, 0);
    suite.write(&["[defaults]\nchip = \"mk64f12\"\n", &image("no-chip = true")].concat());
    assert_eq!(suite.run(&[]).code, 2);
    suite.write(&image("chip = \"mk64f12\"\nno-chip = true"));
    let both = suite.run(&[]);
    assert!(both.code == 2 && both.stderr.contains("--no-chip: no chip is to be taken"), "{}", both.stderr);
    let elf = stm32(suite.dir.path(), "stm32f103", CLOCKED);
    suite.write(&format!("[[image]]\nname = \"one\"\nelf = {elf:?}\nfor = \"1M\"\n"));
    let run = suite.run(&[]);
    assert!(run.code != 0 && !run.stdout.contains("chip: "), "{}", run.stdout);
}

/// The images of every baseline and sweep: none of them can take a chip, whatever its run ends in. Those of `chips` are only
/// run with `--chip`.
#[test]
fn no_image_for_a_board_can_take_a_chip() {
    let mut images = Vec::new();
    for folder in [images_dir(), images_dir().join("avr")] {
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        images.extend(files.filter(|file| file.extension().is_some_and(|extension| extension == "elf")));
    }
    assert!(images.len() > 200, "{}", images.len());
    let mut can_run = 0;
    for file in images {
        let words = ["harness".as_ref(), file.as_os_str()];
        let mut options = Options::resolve(Cli::parse_from(words).profile.unwrap()).unwrap();
        let opened = taken::refused(&mut options, &mut Silent);
        assert_eq!(options.chip, None, "{}", file.display());
        let Some(opened) = opened else { continue };
        assert!(taken::candidate(&options, &opened).is_none(), "{}", file.display());
        can_run += usize::from(machine::choose(&opened.image, None, None).is_ok());
    }
    assert!(can_run > 200, "{can_run}");
}
