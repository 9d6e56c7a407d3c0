// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CAN bus: frames that a test sends, those that others answer, filters, queues, the order of mailboxes.

use std::fs;

use harness::analysis::event_rows;

use super::learn::text;
use super::parts::{BOARD, PRINTED, ROWS};
use crate::common::{Run, harness, image, run_file};

/// Frames of others; no filter of the image takes the last two of the first row.
const FRAMES: &str = r#"input = [
    { after = "ready", can = "123#1122 01234567#AA 123#R 124#R4 7FF#00 00000123#11", port = "CAN1" },
    { at = "50ms", can = "12F#01", port = "CAN1" },
    { at = "60ms", can = "12E#01 120#01 121#02 122#03 124#04", port = "CAN1" },
    { at = "70ms", can = "555#", port = "CAN1" },
]
"#;

/// The same as options.
const OPTIONS: [&str; 8] = [
    "--set-after",
    "ready:CAN1<123#1122 01234567#AA 123#R 124#R4 7FF#00 00000123#11",
    "--set",
    "50ms:CAN1<12F#01",
    "--set",
    "60ms:CAN1<12E#01 120#01 121#02 122#03 124#04",
    "--set",
    "70ms:CAN1<555#",
];

/// What the image prints before anybody sends.
const LOOPED: &str = "loop: 123 3 010203
loop: 01234567 8 0102030405060708
loop: 555 1 FF
right what no filter takes is in no queue
ready
";

/// What it prints then. Its queue has room for three frames of the overrun, whose last one takes the place of the third.
const HEARD: &str = "can 123#1122
can 01234567#AA
can 123#R
can 124#R4
sent
sent
sent
sent
can 12F#01
sent
sent
sent
sent
can 12E#01
overrun 3
can 120#01
can 121#02
can 124#04
sent
sent
sent
sent
can 555#
sent
";

fn can(args: &[&str]) -> Run {
    run_file(&image("chips/stm32f407-can"), args).expect_code(0)
}

/// Frames that the chip has sent.
fn sent(run: &Run) -> Vec<String> {
    let profile = run.profile();
    let rows = event_rows::rows(&profile).unwrap();
    rows.filter(|row| row.event == "frame sent").map(|row| row.name.to_owned()).collect()
}

#[test]
fn frames_are_filtered_queued_and_answered_the_same_in_every_run() {
    let temp = tempfile::tempdir().unwrap();
    let rows = temp.path().join("rows.toml");
    fs::write(&rows, FRAMES).unwrap();
    let by_file = can(&["--chip", "stm32f407", "--stimulus", rows.to_str().unwrap(), "--timeline"]);
    assert_eq!(by_file.console(), format!("{LOOPED}{HEARD}"));
    let by_options = can(&[&["--chip", "stm32f407", "--timeline"], &OPTIONS[..]].concat());
    assert_eq!(by_file.files(), by_options.files(), "the same bytes, from a file and from options");
    let sent = sent(&by_file);
    let answers = ["CAN1 321#1223", "CAN1 321#AB", "CAN1 321#", "CAN1 321#"].map(str::to_owned);
    assert!(sent.windows(4).any(|four| four == answers), "{sent:?}");
    // The first is on the bus at once; of the others the lower identifier is next.
    let three = ["CAN1 300#00", "CAN1 100#01", "CAN1 200#02"].map(str::to_owned);
    assert!(sent.windows(3).any(|of| of == three), "{sent:?}");
}

#[test]
fn others_on_the_bus_answer_what_a_chip_file_says() {
    let temp = tempfile::tempdir().unwrap();
    let chip = temp.path().join("bus.toml");
    let file = r#"
[chip]
like = "stm32f407"
[peripherals]
CAN1 = { at = 0x40006400, kind = "stm32-bxcan", clock = "RCC.pclk1", interrupts = { tx = 19, rx0 = 20, rx1 = 21, sce = 22 }, answers = [
    { to = "321#02", with = "121#07", after = "1ms" },
    { to = "321#0808", with = "123#" },
    { to = "321#08", with = "555#" },
] }
"#;
    fs::write(&chip, file).unwrap();
    let chip = chip.to_str().unwrap();
    let run = can(&["--chip", chip, "--set-after", "ready:CAN1<120#01"]);
    let heard = "can 120#01\nsent\ncan 121#07\nsent\ncan 555#\nsent\n";
    assert_eq!(run.console(), format!("{LOOPED}{heard}"));
    let wrong = [
        (file.replace("555#", "555"), "bus.toml:8: CAN1: \"555\" in `answers`: a frame is written as"),
        (file.replace("1ms", "1"), "bus.toml:6: CAN1: after = \"1\": write a time, as 1ms"),
        (file.replace("answers = [", "filters-by = \"CAN1\", answers = ["), "are those of another peripheral of the same kind"),
        (file.replace("kind = \"stm32-bxcan\"", "kind = \"stm32-rng\""), "its kind has no"),
    ];
    for (file, wanted) in wrong {
        fs::write(chip, file).unwrap();
        let mut command = harness();
        command.arg(image("chips/stm32f407-can")).args(["--chip", chip]).current_dir(temp.path());
        let output = command.output().unwrap();
        let said = text(&output);
        assert!(output.status.code() == Some(2) && said.contains(wanted), "{said}");
    }
}

#[test]
fn a_suite_presses_a_button_turns_a_potentiometer_and_sends_a_frame_the_same_each_time() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("board.toml"), BOARD).unwrap();
    let image = |name: &str, rows: &str, console: &str| {
        let elf = image(&format!("chips/stm32f407-{name}"));
        let last = console.lines().last().unwrap();
        format!("[[image]]\nelf = {elf:?}\nname = \"{name}\"\nchip = \"board.toml\"\nconsole = [{last:?}]\n{rows}")
    };
    let suite = image("parts", ROWS, PRINTED) + &image("can", FRAMES, HEARD);
    fs::write(temp.path().join("suite.toml"), suite).unwrap();
    let reports = ["first", "second"].map(|to| {
        let mut command = harness();
        command.current_dir(temp.path()).args(["test", "suite.toml", "--no-cache", "-o", to]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        ["parts", "can"].map(|name| fs::read(temp.path().join(to).join(format!("{name}.profile/profile.fwp"))).unwrap())
    });
    assert!(reports[0] == reports[1], "the same bytes each time");
}
