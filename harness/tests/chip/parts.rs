// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs of a test: pins, voltages, bytes for a serial port, parts on buses, each at a time or after what the firmware prints.

use std::fs;

use harness::analysis::event_rows;
use tempfile::TempDir;

use super::learn::text;
use crate::common::{Run, harness, image, refused, run_file};

/// Parts on the board of the image.
pub(super) const BOARD: &str = r#"
[chip]
like = "stm32f407"
[peripherals]
SPI1 = { at = 0x40013000, kind = "stm32-spi", interrupt = 35, devices = [
    { select = "PA4", flash = [0xef, 0x40, 0x14], size = 0x100000, busy = "300us" },
] }
I2C1 = { at = 0x40005400, kind = "stm32-i2c-v1", devices = [
    { address = 0x50, size = 4096, pointer-bytes = 2, page-bytes = 32, busy = "5ms" },
    { name = "TEMP", address = 0x48, bytes = [25, 0x80, 0x60, 0x5a], register-bytes = 2 },
    { address = 0x68, size = 8, fill = 0, calendar = ["seconds", "minutes", "hours", "weekday", "day", "month", "year"] },
] }
I2C4 = { at = 0x40006000, kind = "stm32-i2c-v2", devices = [{ address = 0x50, size = 4096, pointer-bytes = 2 }] }
"#;

/// Changes from outside, as a suite and a file of `--stimulus` have it.
pub(super) const ROWS: &str = r#"input = [
    { at = "1us", pin = "PA0", level = 1 },
    { after = "press", pin = "PA0", level = 0, for = "150ms", bounce = "2ms" },
    { after = "turn", set = "ADC1.CH3=2345" },
    { after = "warm", set = ["TEMP[0]=32"] },
    { after = "where", text = "$GP,4,7\n", port = "USART6" },
]
"#;

/// The same as options.
const OPTIONS: [&str; 10] = [
    "--set",
    "1us:PA0=1",
    "--set-after",
    "press:PA0=0,for=150ms,bounce=2ms",
    "--set-after",
    "turn:ADC1.CH3=2345",
    "--set-after",
    "warm:TEMP[0]=32",
    "--set-after",
    "where:USART6<$GP,4,7\\n",
];

pub(super) const PRINTED: &str = "press
right a button's contact bounces
right it is released
turn
right a potentiometer is turned
right a memory takes an address of two bytes
right it is busy for a while
right its page begins again at its end
right where the second byte went
right a pointer chooses a register of two bytes
warm
right it is getting warmer
right a calendar begins the next year
right a flash says what it is
right it is busy while it programs
right it is programmed
right a page begins again at its end
right nobody has another address
right a long transfer is counted in parts
right it is read again behind its address
where
right a receiver says where
";

/// The board's chip file and the rows, in a folder.
fn board() -> (TempDir, String, String) {
    let temp = tempfile::tempdir().unwrap();
    let (chip, rows) = (temp.path().join("board.toml"), temp.path().join("rows.toml"));
    fs::write(&chip, BOARD).unwrap();
    fs::write(&rows, ROWS).unwrap();
    let name = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let (chip, rows) = (name(&chip), name(&rows));
    (temp, chip, rows)
}

fn parts(args: &[&str]) -> Run {
    run_file(&image("chips/stm32f407-parts"), args).expect_code(0)
}

#[test]
fn a_button_a_potentiometer_parts_and_a_receiver_answer_the_same_in_every_run() {
    let (_temp, chip, rows) = board();
    let by_file = parts(&["--chip", &chip, "--stimulus", &rows, "--timeline"]);
    assert_eq!(by_file.console(), PRINTED);
    let by_options = parts(&[&["--chip", &chip, "--timeline"], &OPTIONS[..]].concat());
    assert_eq!(by_file.files(), by_options.files(), "the same bytes, from a file and from options");
    let profile = by_file.profile();
    let edges = event_rows::rows(&profile).unwrap().filter(|row| row.event == "pin" && row.name.contains("GPIOA.0,"));
    let levels: Vec<Option<i128>> = edges.map(|row| row.value).collect();
    assert_eq!(
        levels,
        [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1].map(Some),
        "the first level, a press and a release that bounce"
    );
}

#[test]
fn a_suite_has_the_same_rows_and_its_baseline_knows_them() {
    let (temp, chip, _) = board();
    let suite = |rows: &str, more: &[&str]| {
        let elf = image("chips/stm32f407-parts");
        let file = format!(
            "[[image]]\nelf = {elf:?}\nname = \"parts\"\nchip = {chip:?}\nconsole = [\"a receiver says where\"]\n{rows}"
        );
        fs::write(temp.path().join("suite.toml"), file).unwrap();
        let mut command = harness();
        command.current_dir(temp.path()).args(["test", "suite.toml", "--no-cache"]).args(more);
        let output = command.output().unwrap();
        (output.status.code(), text(&output))
    };
    let saved = suite(ROWS, &["--save-baseline", "main"]);
    assert_eq!(saved.0, Some(0), "{}", saved.1);
    let again = suite(ROWS, &["--baseline", "main"]);
    assert_eq!(again.0, Some(0), "{}", again.1);
    let other = suite(&ROWS.replace("150ms", "140ms"), &["--baseline", "main"]);
    assert!(other.1.contains("for=140000000ns"), "the baseline is of another input: {other:?}");
}

/// A prompt that is not printed is told, as a text that is not typed is.
#[test]
fn changes_that_did_not_come_are_told() {
    let (_temp, chip, _) = board();
    let args = [&["--chip", &chip], &OPTIONS[..], &["--set-after", "never:PA1=1"]].concat();
    let run = parts(&args);
    let told = "input not given: 5 of 5, \"PA1=1\" (\"never\" was not printed)";
    assert!((run.stdout.clone() + &run.stderr).contains(told), "{}{}", run.stdout, run.stderr);
    let args = [&["--chip", &chip], &OPTIONS[..], &["--set", "20s:PA1=1", "--set", "2G:PA2=1,for=1ms"]].concat();
    let run = parts(&args);
    let told = "input not given: 2 of 3 by the clock, the first \"PA2=1,for=1000000ns\" (the run ended before ";
    assert!((run.stdout.clone() + &run.stderr).contains(told), "{}{}", run.stdout, run.stderr);
}

#[test]
fn changes_without_a_chip_or_with_a_wrong_name_are_refused() {
    let (_temp, chip, _) = board();
    let cases = [
        (vec!["--set", "1ms:PA0=1"], "--chip says which"),
        (vec!["--chip", &chip, "--set", "1ms:PX0=1"], "no peripheral is called PX0"),
        (vec!["--chip", &chip, "--set", "1ms:TEMP[4]=1"], "does not fit"),
        (vec!["--chip", &chip, "--set-after", "a:USART9<x"], "no serial port is called USART9"),
        (vec!["--chip", &chip, "--stimulus", &chip], "unknown field"),
    ];
    for (args, wanted) in cases {
        let elf = if args[0] == "--chip" { "chips/stm32f407-parts" } else { "cortex-m3-bare" };
        refused(elf, &args, &[wanted]);
    }
}
