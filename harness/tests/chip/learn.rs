// SPDX-License-Identifier: MIT OR Apache-2.0
//! A chip that nobody has described: the images of described ones, whose chip file is not looked at.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::common::built::{cortex_m, scratch};
use crate::common::{harness, image, run_file};

/// A chip file that was learned from an image.
pub(crate) struct Learned {
    _temp: TempDir,
    pub(crate) file: PathBuf,
    said: String,
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

pub(crate) fn learn(elf: &Path) -> Learned {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("chip.toml");
    let mut command = harness();
    command.args(["chip", "learn", "--for", "3M", "-o"]).arg(&file).arg(elf).current_dir(temp.path());
    let output = command.output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    Learned { _temp: temp, file, said }
}

/// Runs an image on a chip file, strictly; returns the exit code and what is said.
fn strictly(name: &str, file: &Path) -> (Option<i32>, String) {
    let temp = tempfile::tempdir().unwrap();
    let mut command = harness();
    command.arg(image(name)).arg("--chip").arg(file).args(["--for", "3M", "--strict"]).current_dir(temp.path());
    let output = command.output().unwrap();
    (output.status.code(), text(&output))
}

/// A chip file without the row that has this line, and without another one's.
fn without(file: &Path, line: &str) -> String {
    let text = fs::read_to_string(file).unwrap();
    let mut rows: Vec<&str> = text.split("\n\n").collect();
    let count = rows.len();
    rows.retain(|row| !row.contains(line));
    assert_eq!(rows.len() + 1, count, "one row has {line}: {text}");
    rows.join("\n\n")
}

/// Address of the small images of code.
const FLASH: u32 = 0x0800_0000;

/// Learns from code that starts behind a vector table, so far behind the start of the flash, as a HEX file without symbols.
fn learn_code(behind: u32, code: &[u16]) -> Learned {
    learn_handlers(behind, &[], code)
}

/// Learns like [`learn_code`], with handlers: vectors and offsets in the code.
fn learn_handlers(behind: u32, handlers: &[(usize, u32)], code: &[u16]) -> Learned {
    learn_stack(0x2000_1000, behind, handlers, code)
}

/// Learns like [`learn_handlers`], with a first stack pointer.
fn learn_stack(stack: u32, behind: u32, handlers: &[(usize, u32)], code: &[u16]) -> Learned {
    let mut words = vec![stack, FLASH + behind + 0x41, FLASH + behind + 0x41, FLASH + behind + 0x41];
    words.resize(16, 0);
    for &(vector, offset) in handlers {
        words[vector] = FLASH + behind + 0x41 + offset;
    }
    let table = words.iter().flat_map(|word: &u32| word.to_le_bytes());
    let bytes: Vec<u8> = vec![0; behind as usize]
        .into_iter()
        .chain(table)
        .chain(code.iter().flat_map(|half| half.to_le_bytes()))
        .collect();
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("code.hex");
    fs::write(&file, hex(FLASH, &bytes)).unwrap();
    learn(&file)
}

/// A HEX file with these bytes from a multiple of 65,536 on.
pub(crate) fn hex(start: u32, bytes: &[u8]) -> String {
    let record = |kind: u8, at: u16, data: &[u8]| {
        let [high, low] = at.to_be_bytes();
        let mut all = vec![data.len() as u8, high, low, kind];
        all.extend(data);
        all.push(all.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte)));
        format!(":{}\n", all.iter().map(|byte| format!("{byte:02X}")).collect::<String>())
    };
    let lines = bytes.chunks(16).enumerate().map(|(index, data)| record(0, index as u16 * 16, data));
    record(4, 0, &((start >> 16) as u16).to_be_bytes()) + &lines.collect::<String>() + &record(1, 0, &[])
}

#[test]
fn a_register_that_is_waited_for_to_change_again_and_again_counts() {
    // Again and again: read it, and wait until it is 50 more.
    let code = [0x4804, 0xf000, 0xf801, 0xe7fc, 0x6801, 0x6802, 0x1a52, 0x2a32, 0xd3fb, 0x4770, 0x0024, 0x4000];
    let learned = learn_code(0, &code);
    let text = fs::read_to_string(&learned.file).unwrap();
    assert!(text.contains("[[count]]\nat = 0x40000024\nevery = 8\n") && !text.contains("[[answer]]"), "{text}");
    assert!(learned.said.contains("0 answers, 1 counter and 0 interrupts"), "{}", learned.said);
    assert!(!learned.said.contains("left: "), "{}", learned.said);
}

/// Firmware that waits for another value of another register each time, without an end.
const ENDLESS: &str = "typedef unsigned u32;
    __attribute__((noinline)) static void wait(u32 at, u32 value) { while (*(volatile u32 *)at != value) {} }
    void reset(void) {
        u32 x = 12345;
        for (u32 i = 0;; i++) { x = x * 1664525 + 1013904223; wait(0x40000000 + (i * 4 & 0xfffffc), x); }
    }";

/// Runs a command with the first of 1, 2, 4… seconds as `--timeout` in which a first learning run is over, however slow
/// the host is. Learning `ENDLESS` is over by itself after some 250 runs, which no host makes in such a time.
fn timed_out(dir: &Path, args: &[&str]) -> String {
    for timeout in ["1", "2", "4", "8", "16", "32", "64"] {
        let output = harness().args(args).args(["--timeout", timeout]).current_dir(dir).output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(4), "{said}");
        let is_early =
            ["before the first run was over", "before the firmware ran"].iter().any(|why| said.contains(why));
        if !is_early {
            return said;
        }
    }
    panic!("no first run in 64 seconds");
}

#[test]
fn a_timeout_keeps_what_was_learned() {
    let dir = scratch();
    let elf =
        cortex_m("-mcpu=cortex-m3", 0x0800_0000, 0x2000_0000, 0x2001_0000).build_source(dir.path(), "e", ENDLESS);
    let file = dir.path().join("chip.toml");
    let learn = ["chip", "learn", "-o", "chip.toml", "e.elf"];
    let said = timed_out(dir.path(), &learn);
    assert!(said.contains("left: --timeout ended it after "), "{said}");
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.contains("[[answer]]"), "{said}{written}");
    let run = run_file(&elf, &["--chip", file.to_str().unwrap(), "--for", "1M"]);
    run.expect_code(0);
    fs::remove_file(&file).unwrap();
    let output = harness().args(learn).args(["--timeout", "0.000000001"]).current_dir(dir.path()).output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("no chip file is written") && !file.exists(), "{said}");
}

#[test]
fn a_timeout_of_a_run_that_learns_first_keeps_what_was_learned_and_says_why_it_stopped() {
    let dir = scratch();
    let elf =
        cortex_m("-mcpu=cortex-m3", 0x0800_0000, 0x2000_0000, 0x2001_0000).build_source(dir.path(), "e", ENDLESS);
    let said = timed_out(dir.path(), &["profile", "--chip", "auto", "-o", "out", "e.elf"]);
    for words in ["--timeout ended the learning of the chip after ", "--chip e.chip.partial.toml takes it as it is"] {
        assert!(said.contains(words), "{said}");
    }
    let partial = dir.path().join("e.chip.partial.toml");
    let written = fs::read_to_string(&partial).unwrap();
    assert!(written.contains("[[answer]]"), "{written}");
    assert!(!dir.path().join("e.chip.toml").exists(), "it would be taken for a whole one");
    run_file(&elf, &["--chip", partial.to_str().unwrap(), "--for", "1M"]).expect_code(0);
}

#[test]
fn a_suite_learns_the_chip_of_each_image_once() {
    let dir = scratch();
    let polls =
        "void reset(void) { while (!(*(volatile unsigned *)0x40000000 & 2)) {} host(0x18, STOPPED); for (;;) {} }";
    cortex_m("-mcpu=cortex-m3", 0x0800_0000, 0x2000_0000, 0x2001_0000).build_source(dir.path(), "polls", polls);
    let suite = "[[image]]\nname = \"one[x]\"\nelf = \"polls.elf\"\nchip = \"auto\"\nexit = 0\nmax-insns = \"3M\"\n";
    fs::write(dir.path().join("harness.toml"), suite).unwrap();
    let test = |args: &[&str]| {
        let mut command = harness();
        command.args(["test", "-o", "reports"]).args(args).current_dir(dir.path());
        command.arg("--cache-dir").arg(dir.path().join("cache"));
        let output = command.output().unwrap();
        (output.status.code(), text(&output))
    };
    let file = dir.path().join("one_x_.chip.toml");
    let (code, said) = test(&["--untrusted", "--sandbox", "auto"]);
    assert!(code == Some(2) && said.contains("an untrusted suite writes no chip file"), "{said}");
    assert!(!file.exists());
    let (code, said) = test(&[]);
    assert_eq!(code, Some(0), "{said}");
    let learned = fs::read_to_string(&file).unwrap();
    assert!(learned.contains("[[answer]]\nat = 0x40000000\n"), "{learned}");
    // The second time nothing is learned, and nothing is run.
    let (code, said) = test(&[]);
    assert!(code == Some(0) && said.contains("1 of 1 image unchanged"), "{said}");
    // The file is an input like others.
    fs::write(&file, learned.replace("value = 0x00000002", "value = 0x00000000")).unwrap();
    let (code, said) = test(&[]);
    assert!(code != Some(0) && !said.contains("unchanged"), "{said}");
}

#[test]
fn a_delay_that_is_longer_than_a_run_is_waited_for() {
    // Three times: wait until a register is 50 more. Then until it is 2^20 more, which takes 8 million instructions; then store.
    let code = [
        0x480a, 0x2332, 0xf000, 0xf80b, 0xf000, 0xf809, 0xf000, 0xf807, 0x2301, 0x051b, 0xf000, 0xf803, 0x4c05,
        0x6023, 0xe7fe, 0x6801, 0x6802, 0x1a52, 0x429a, 0xd3fb, 0x4770, 0xbf00, 0x0024, 0x4000, 0x0100, 0x4000,
    ];
    let learned = learn_code(0, &code);
    let text = fs::read_to_string(&learned.file).unwrap();
    assert!(text.contains("[[count]]\nat = 0x40000024\n") && text.contains("0x40000100,"), "{}{text}", learned.said);
    assert!(!learned.said.contains("left: "), "{}", learned.said);
}

#[test]
fn a_handler_that_several_interrupts_share_ticks() {
    // Start SysTick, and go round; the handler of SysTick and of PendSV returns.
    let code = [0x4803, 0x2107, 0x22ff, 0x6042, 0x6001, 0xe7fe, 0x4770, 0xbf00, 0xe010, 0xe000];
    let learned = learn_handlers(0, &[(14, 12), (15, 12)], &code);
    assert!(learned.said.contains("the image names no main, 0x800004c ticks, 0 functions"), "{}", learned.said);
    // The default handler, which goes round by itself, does not.
    let code = [0x4803, 0x2107, 0x22ff, 0x6042, 0x6001, 0xe7fe, 0xe7fe, 0xbf00, 0xe010, 0xe000];
    let learned = learn_handlers(0, &[(14, 12), (15, 12)], &code);
    assert!(learned.said.contains("no interrupt ticks"), "{}", learned.said);
}

#[test]
fn what_is_waited_for_is_answered_and_not_the_time_of_its_timeout() {
    // From a timer's value on, read by a function: wait until bit 17 is 1, for 2000 at most; then store where it ended.
    let code = [
        0x4c0b, 0xf44f, 0x66fa, 0xf000, 0xf80f, 0x4605, 0xf000, 0xf80c, 0x1b40, 0x42b0, 0xd805, 0x6821, 0x0389,
        0xd5f7, 0x4805, 0x6000, 0xe7fe, 0x4805, 0x6000, 0xe7fb, 0x4804, 0x6800, 0x4770, 0x0000, 0x3800, 0x4002,
        0x0100, 0x4000, 0x0200, 0x4000, 0x0024, 0x4000,
    ];
    let learned = learn_code(0, &code);
    let text = fs::read_to_string(&learned.file).unwrap();
    assert!(text.contains("at = 0x40023800\nmask = 0x00020000\nvalue = 0x00020000\n"), "{}{text}", learned.said);
    assert!(text.matches("[[answer]]").count() == 1 && !text.contains("[[count]]"), "{text}");
    assert!(text.contains("0x40000100,") && !text.contains("0x40000200"), "it does not time out: {text}");
}

#[test]
fn what_firmware_stores_to_flash_before_it_resets_itself_is_there_from_the_start() {
    // If 0x08008000 is not 0x12345678, store that and reset.
    let code = [
        0x4804, 0x4a05, 0x6801, 0x4291, 0xd003, 0x6002, 0x4803, 0x4904, 0x6001, 0xe7fe, 0x8000, 0x0800, 0x5678,
        0x1234, 0xed0c, 0xe000, 0x0004, 0x05fa,
    ];
    let learned = learn_code(0, &code);
    let text = fs::read_to_string(&learned.file).unwrap();
    assert!(text.contains("words = [[0x8000, 0x12345678]]"), "{}{text}", learned.said);
    assert!(!learned.said.contains("left: "), "{}", learned.said);
    // Without that it would reset itself for ever; so it does where there is nothing to keep.
    let learned = learn_code(0, &[0x4801, 0x4902, 0x6001, 0xe7fe, 0xed0c, 0xe000, 0x0004, 0x05fa]);
    assert!(learned.said.contains("left: the firmware reset itself at 0x08000044"), "{}", learned.said);
}

#[test]
fn a_polled_alias_of_a_bit_is_answered_in_the_register() {
    let learned = learn_code(0, &[0x4802, 0x6802, 0x2a00, 0xd0fc, 0xe7fe, 0x0000, 0x058c, 0x4390]);
    let text = fs::read_to_string(&learned.file).unwrap();
    assert!(text.contains("at = 0x400c802c\nmask = 0x00000008\nvalue = 0x00000008\n"), "{}{text}", learned.said);
}

#[test]
fn the_flash_that_the_processor_starts_from_lies_at_address_0_too() {
    // If address 0 has the first stack, store to 0x40000100.
    let code = [0x2000, 0x6801, 0x4a02, 0x4291, 0xd101, 0x4802, 0x6001, 0xe7fe, 0x1000, 0x2000, 0x0100, 0x4000];
    let learned = learn_code(0, &code);
    let text = fs::read_to_string(&learned.file).unwrap();
    assert!(text.contains("alias = \"flash at 0x8000000\"\nstart = 0\n"), "{}{text}", learned.said);
    assert!(text.contains("0x40000100,"), "{}{text}", learned.said);
    // Behind a boot loader the flash starts with something that is not known.
    let learned = learn_code(0x100, &code);
    assert!(learned.said.contains("left: it accesses at 0x00000000"), "{}", learned.said);
}

#[test]
fn a_vector_table_is_found_behind_a_boot_stage() {
    let learned = learn_code(0x100, &[0xe7fe]);
    let text = fs::read_to_string(&learned.file).unwrap();
    assert!(text.contains("vectors = 0x08000100\n"), "{}{text}", learned.said);
}

#[test]
fn the_first_stack_may_lie_far_below_the_usual_ram() {
    // Push, as an LPC1549 does.
    let learned = learn_stack(0x0200_9000, 0, &[], &[0xb500, 0xe7fe]);
    let text = fs::read_to_string(&learned.file).unwrap();
    assert!(text.contains("start = 0x02000000\n"), "{}{text}", learned.said);
    assert!(!learned.said.contains("left: "), "{}", learned.said);
}

#[test]
fn an_image_of_armlink_counts_memory_behind_its_bytes_that_lies_elsewhere() {
    let temp = tempfile::tempdir().unwrap();
    let mut bytes = fs::read(image("chips/stm32f407-freertos")).unwrap();
    let u32_at = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (first, count) = (u32_at(&bytes, 28) as usize, usize::from(bytes[44]));
    // The loaded segment whose bytes lie in flash and stay there.
    let headers = (0..count).map(|index| first + 32 * index);
    let is_code = |&at: &usize| {
        let [kind, _, run, load, size] = [0, 4, 8, 12, 16].map(|offset| u32_at(&bytes, at + offset));
        kind == 1 && run == load && run >> 24 == 8 && size > 0
    };
    let at = headers.into_iter().find(is_code).unwrap();
    let more = u32_at(&bytes, at + 20) + 0x1000;
    bytes[at + 20..at + 24].copy_from_slice(&more.to_le_bytes());
    let elf = temp.path().join("armlink.elf");
    fs::write(&elf, bytes).unwrap();
    let Learned { said, .. } = learn(&elf);
    assert!(said.contains("main is reached, SysTick_Handler ticks"), "{said}");
}

#[test]
fn firmware_reaches_main_and_its_first_tick_on_a_chip_that_is_not_described() {
    for name in ["stm32f407-freertos", "nrf52840-freertos"] {
        let Learned { said, .. } = learn(&image(&format!("chips/{name}")));
        assert!(said.contains("main is reached, SysTick_Handler ticks"), "{name}: {said}");
    }
}

#[test]
fn the_loops_code_says_which_bits_it_waits_for() {
    let learned = learn(&image("chips/stm32f407-freertos"));
    let text = fs::read_to_string(&learned.file).unwrap();
    // HSERDY, PLLRDY, and the PLL as SWS: each is certain.
    for (register, mask, value) in
        [(0x4002_3800u32, 1 << 17, 1 << 17), (0x4002_3800, 1 << 25, 1 << 25), (0x4002_3808, 8, 8)]
    {
        let row = format!("at = {register:#010x}\nmask = {mask:#010x}\nvalue = {value:#010x}\n");
        assert!(text.contains(&row), "{row}{text}");
    }
    assert!(text.contains("why = \"polled until bit 17 is 1\"\nplace = \"console_init+0x"), "{text}");
    assert!(learned.said.contains("0 of these guesses") && !text.contains("guess = true"), "{text}");
}

#[test]
fn a_second_time_learns_the_same_file_byte_for_byte() {
    for name in ["chips/stm32f407-echo", "chips/nrf52840-freertos"] {
        let read = || fs::read_to_string(learn(&image(name)).file).unwrap();
        assert_eq!(read(), read(), "{name}");
    }
}

#[test]
fn what_was_learned_is_replayed_and_said() {
    let learned = learn(&image("chips/stm32f407-freertos"));
    let (code, said) = strictly("chips/stm32f407-freertos", &learned.file);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("answered by the chip file: 6 rules, no guess among them: "), "{said}");
    assert!(said.contains("0x40023800 reads 0x20000 in 0x20000 (1 time, for console_init+0x"), "{said}");
}

#[test]
fn firmware_waits_again_where_a_row_was_struck_out_and_that_is_named() {
    let learned = learn(&image("chips/stm32f407-freertos"));
    // PWR's flag that the voltage is there.
    fs::write(&learned.file, without(&learned.file, "at = 0x40007004\n")).unwrap();
    let (code, said) = strictly("chips/stm32f407-freertos", &learned.file);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("in console_init") && said.contains("waits for 0x40007004, for which chip chip has no"),
        "{said}"
    );
    assert!(said.contains("`harness chip learn ") && said.contains("the firmware stands still"), "{said}");
}

#[test]
fn strict_accepts_no_guess_and_nothing_new() {
    let learned = learn(&image("chips/nrf52840-freertos"));
    let (code, said) = strictly("chips/nrf52840-freertos", &learned.file);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the chip file guesses (0x40000100 reads 0x1 in 0x1 and 2 more)"), "{said}");
    // The file's author is sure now.
    let sure = fs::read_to_string(&learned.file).unwrap().replace("guess = true", "guess = false");
    fs::write(&learned.file, &sure).unwrap();
    let (code, said) = strictly("chips/nrf52840-freertos", &learned.file);
    assert_eq!(code, Some(0), "{said}");
    fs::write(&learned.file, sure.replace("0x40002544, ", "")).unwrap();
    let (code, said) = strictly("chips/nrf52840-freertos", &learned.file);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("0x40002544 is accessed, which was not accessed when the chip file was learned"), "{said}");
}

#[test]
fn an_interrupt_that_nobody_raises_is_offered_and_kept_where_it_helps() {
    let learned = learn(&image("chips/stm32f407-echo"));
    let (said, text) = (&learned.said, fs::read_to_string(&learned.file).unwrap());
    assert!(text.contains("[[pulse]]\ninterrupt = 38\n"), "the USART's: {said}{text}");
    assert!(said.contains("lets main+0x") && said.contains("a guess"), "{said}");
}

#[test]
fn auto_takes_the_chip_that_the_image_names_or_learns_it_once() {
    let temp = tempfile::tempdir().unwrap();
    let run = |elf: &Path| {
        let mut command = harness();
        command.arg(elf).args(["--chip", "auto", "--for", "1M"]).current_dir(temp.path());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        text(&output)
    };
    let named = image("chips/stm32f407-freertos");
    assert!(run(&named).contains("chip: stm32f407, which the image names"));
    // The same without the name, which is the folder of its sources.
    let elf = temp.path().join("unknown.elf");
    let mut bytes = fs::read(&named).unwrap();
    let places: Vec<usize> = (0..bytes.len() - 9).filter(|&at| bytes[at..].starts_with(b"stm32f407")).collect();
    places.iter().for_each(|&at| bytes[at..at + 9].copy_from_slice(b"some_chip"));
    fs::write(&elf, bytes).unwrap();
    assert!(run(&elf).contains("chip: unknown.chip.toml, learned now"));
    let file = fs::read(temp.path().join("unknown.chip.toml")).unwrap();
    assert!(run(&elf).contains("chip: unknown.chip.toml, learned before"));
    // What the image tells probe-rs counts more than a name.
    let told = |name: &str| {
        let (section, elf) = (temp.path().join("section"), temp.path().join("told.elf"));
        fs::write(&section, name).unwrap();
        let add = format!(".probe-rs.chip={}", section.display());
        let mut objcopy = Command::new("arm-none-eabi-objcopy");
        assert!(objcopy.args(["--add-section", &add]).arg(&named).arg(&elf).status().unwrap().success());
        run(&elf)
    };
    assert!(told("STM32F405RG").contains("chip: stm32f405, as the image tells probe-rs (STM32F405RG) (--chip auto)"));
    assert!(told("STM32L552ZE").contains("chip: told.chip.toml, learned now"), "it is for another chip");
    assert_eq!(fs::read(temp.path().join("unknown.chip.toml")).unwrap(), file);
}

/// Its base machine starts in the secure state and looks for the vector table at 0x10000000, where this image has it.
#[test]
fn a_cortex_m33_is_learned_and_runs() {
    let elf = image("cortex-m33-bare");
    let learned = learn(&elf);
    let text = fs::read_to_string(&learned.file).unwrap();
    assert!(text.contains("cpu = \"cortex-m33\""), "{text}");
    let run = run_file(&elf, &["--chip", learned.file.to_str().unwrap(), "--for", "20M"]).expect_code(0);
    assert!(run.stderr.contains("cortex-m33 of QEMU's mps2-an505"), "{}", run.stderr);
}

#[test]
fn what_cannot_be_learned_is_refused_and_no_file_is_replaced_unasked() {
    let temp = tempfile::tempdir().unwrap();
    let learn = |name: &str| {
        let output = harness().args(["chip", "learn"]).arg(image(name)).current_dir(temp.path()).output().unwrap();
        (output.status.code(), text(&output))
    };
    let (code, said) = learn("riscv64-bare");
    assert!(code == Some(2) && said.contains("only chips with a Cortex-M can be learned"), "{said}");
    fs::write(temp.path().join("chip.toml"), "mine").unwrap();
    let (code, said) = learn("chips/stm32f407-echo");
    assert!(code == Some(2) && said.contains("-o chip.toml replaces it"), "{said}");
    assert_eq!(fs::read_to_string(temp.path().join("chip.toml")).unwrap(), "mine");
}

#[test]
fn an_answer_that_cannot_be_meant_is_bad_input_with_its_line() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("mine.toml");
    let cases = [
        (
            "[[answer]]\nat = 0x40023800\nmask = 1\nvalue = 2\n",
            "mine.toml:3: 0x40023800 is not the address of a register",
        ),
        ("[[answer]]\nat = 0x10\nmask = 1\nvalue = 1\n", "mine.toml:3: 0x00000010 is not the address of a register"),
        ("[[pulse]]\ninterrupt = 3\nevery = 1\n", "mine.toml:3: `every` must be at least 100"),
    ];
    for (row, wanted) in cases {
        fs::write(&file, format!("[chip]\nlike = \"stm32f407\"\n{row}")).unwrap();
        let (code, said) = strictly("chips/stm32f407-kinds", &file);
        assert!(code == Some(2) && said.contains(wanted), "{wanted}: {said}");
    }
}
