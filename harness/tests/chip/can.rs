// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CAN bus: frames that a test sends, those that others answer, filters, queues, the order of mailboxes.

use std::fs;

use harness::analysis::event_rows;

use super::learn::text;
use super::parts::{BOARD, PRINTED, ROWS};
use crate::common::built::{cortex_m, scratch};
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

/// Lines that the image prints before anybody sends.
const LOOPED: &str = "loop: 123 3 010203
loop: 01234567 8 0102030405060708
loop: 555 1 FF
right what no filter takes is in no queue
ready
";

/// Lines that it prints then. Its queue has room for three frames of the overrun, whose last one takes the place of the third.
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
        (
            file.replace("answers = [", "filters-by = \"CAN1\", answers = ["),
            "are those of another peripheral of the same kind",
        ),
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
        ["parts", "can"]
            .map(|name| fs::read(temp.path().join(to).join(format!("{name}.profile/profile.fwp"))).unwrap())
    });
    assert!(reports[0] == reports[1], "the same bytes each time");
}

/// Firmware that hears a frame by a bank of its own, sleeps, and is woken by the next one. It withdraws a frame that is on the bus,
/// which is sent, and one that waits, which is not.
const SLEEPER: &str = r#"
#define REG(at) (*(volatile unsigned *)(at))
void reset(void) {
    REG(CAN) = 1;
    while ((REG(CAN + 4) & 3) != 1) {}
    REG(FILTERS + 0x200) |= 1;
    REG(FILTERS + 0x20c) = 1 << BANK;
    REG(FILTERS + 0x240 + 8 * BANK) = 0x77 << 21;
    REG(FILTERS + 0x244 + 8 * BANK) = 0x7f0 << 21;
    REG(FILTERS + 0x21c) = 1 << BANK;
    REG(FILTERS + 0x200) &= ~1u;
    REG(CAN) = 0;
    while (REG(CAN + 4) & 3) {}
    host(4, "ready\n");
    while (!(REG(CAN + 0xc) & 3)) {}
    if (REG(CAN + 0x1b0) == 0x77 << 21 && (REG(CAN + 0x1b4) >> 8 & 0xff) == NUMBER) host(4, "heard\n");
    REG(CAN + 0xc) = 1 << 5;
    REG(CAN) = 1 << 5 | 1 << 1;
    while (!(REG(CAN + 4) & 2)) {}
    host(4, "asleep\n");
    while (REG(CAN + 4) & 2) {}
    while (!(REG(CAN + 0xc) & 3)) {}
    if (REG(CAN + 0x1b0) == 0x78 << 21 && REG(CAN + 4) & 8) host(4, "woken\n");
    for (int box = 0; box < 2; box++) REG(CAN + 0x180 + 16 * box) = (0x10 + box) << 21 | 1;
    REG(CAN + 8) = 1 << 7 | 1 << 15;
    while ((REG(CAN + 8) & 0x101) != 0x101) {}
    if ((REG(CAN + 8) & 0x8282) == 2) host(4, "withdrawn\n");
    host(0x18, STOPPED);
    for (;;) {}
}
"#;

#[test]
fn a_second_controller_and_a_single_one_have_filters_sleep_and_withdraw() {
    let dir = scratch();
    // The second controller's filters are counted from its first bank on. Before bank 13 are 13 banks of two filters each.
    let cases = [
        ("stm32f407", "-mcpu=cortex-m4", "CAN2", "0x40006800u", (14, 0)),
        ("stm32f103", "-mcpu=cortex-m3", "CAN1", "0x40006400u", (13, 26)),
    ];
    for (chip, cpu, name, at, (bank, number)) in cases {
        let defines =
            format!("#define CAN {at}\n#define FILTERS 0x40006400u\n#define BANK {bank}\n#define NUMBER {number}\n");
        let source = defines + SLEEPER;
        let elf = cortex_m(cpu, 0x0800_0000, 0x2000_0000, 0x2000_4000).build_source(dir.path(), chip, &source);
        let (first, next) = (format!("ready:{name}<67# 77#"), format!("asleep:{name}<78#"));
        let run = run_file(&elf, &["--chip", chip, "--set-after", &first, "--set-after", &next, "--timeline"]);
        let run = run.expect_code(0);
        assert_eq!(run.console(), "ready\nheard\nasleep\nwoken\nwithdrawn\n", "{chip}");
        assert_eq!(sent(&run), [format!("{name} 010#")]);
    }
}
