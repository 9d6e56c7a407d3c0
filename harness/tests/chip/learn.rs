//! A chip that nobody has described: the images of described ones, whose chip file is not looked at.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use tempfile::TempDir;

use crate::common::{harness, image};

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
    assert!(said.contains("0x40002544 is accessed, which the chip file was not learned with"), "{said}");
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
    assert_eq!(fs::read(temp.path().join("unknown.chip.toml")).unwrap(), file);
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
    let (code, said) = learn("cortex-m33-bare");
    assert!(code == Some(2) && said.contains("v8-M mainline"), "{said}");
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
        ("[[answer]]\nat = 0x40023800\nmask = 1\nvalue = 2\n", "mine.toml:3: 0x40023800 is no word"),
        ("[[answer]]\nat = 0x10\nmask = 1\nvalue = 1\n", "mine.toml:3: 0x00000010 is no word"),
        ("[[pulse]]\ninterrupt = 3\nevery = 1\n", "mine.toml:3: `every` must be at least 100"),
    ];
    for (row, wanted) in cases {
        fs::write(&file, format!("[chip]\nlike = \"stm32f407\"\n{row}")).unwrap();
        let (code, said) = strictly("chips/stm32f407-kinds", &file);
        assert!(code == Some(2) && said.contains(wanted), "{wanted}: {said}");
    }
}
