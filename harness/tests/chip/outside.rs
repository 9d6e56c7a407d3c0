// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts that move by themselves, and the outside of a chip: DMA, pins, interrupts of edges, voltages, devices on buses. All of it
//! on the clock of the instructions.

use std::fs;

use harness::analysis::event_rows;

use super::calls;
use super::learn::text;
use crate::common::built::{cortex_m, scratch};
use crate::common::{Run, harness, image, run_file};

/// Additions of these tests' chip files to the STM32F407: a DMA controller of F1 and L4, their ADCs, a button and
/// voltages, two devices.
const OUTSIDE: &str = r#"
[chip]
like = "stm32f407"
[peripherals]
DMA3 = { at = 0x40026800, kind = "stm32-dma-v1", interrupts = { channel1 = 60 } }
ADC1 = { at = 0x40012000, kind = "stm32f4-adc", interrupt = 18, reset = { CH3 = 1234, CH4 = 77 } }
ADC4 = { at = 0x40012400, kind = "stm32f1-adc", reset = { CH3 = 11 } }
ADC5 = { at = 0x40014c00, kind = "stm32l4-adc", reset = { CH5 = 22 } }
GPIOC = { at = 0x40020800, kind = "stm32-gpio", reset = { PIN = 0x2000 } }
SPI1 = { at = 0x40013000, kind = "stm32-spi", interrupt = 35, devices = [{ bytes = [0xef, 0x40, 0x18] }] }
I2C1 = { at = 0x40005400, kind = "stm32-i2c-v1", devices = [{ address = 0x68, bytes = [0x70, 0x71, 0x72] }] }
[[stimulus]]
at = 1_000_000
set = ["GPIOC.PIN[13]=0"]
[[stimulus]]
at = 1_100_000
set = ["GPIOC.PIN[13]=1"]
[[stimulus]]
at = 1_200_000
set = ["GPIOC.PIN[13]=0"]
[[stimulus]]
at = 3_000_000
set = ["ADC1.CH3=2345"]
"#;

/// Runs an image with a chip file of this text; the image ends by itself, and all that it checks is right.
fn run(name: &str, chip: &str, args: &[&str]) -> Run {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("mine.toml");
    fs::write(&file, chip).unwrap();
    let args = [&["--chip", file.to_str().unwrap(), "--for", "20M"], args].concat();
    let run = run_file(&image(name), &args).expect_code(0);
    assert!(!run.console().contains("wrong"), "{}", run.console());
    run
}

/// Checks that a run prints these lines, and that each has the same bytes. Returns a run.
fn prints(run: impl Fn() -> Run, wanted: &str) -> Run {
    let one = run();
    assert_eq!(one.console(), wanted);
    assert_eq!(one.files(), run().files(), "the same bytes in every run");
    one
}

#[test]
fn dma_copies_memory_and_serves_a_port_in_both_directions() {
    let dma = || run("chips/stm32f407-dma", OUTSIDE, &["--input-after", "name? :fidofido!\\n"]);
    let wanted = [
        "right a stream takes a while",
        "right a stream copies memory",
        "right a stream is off at its end",
        "a stream sends this",
        "right a stream's interrupt comes once",
        "name? FIDOFIDO!",
        "right a circular stream went round",
        "right a channel copies memory",
        "a channel sends this",
        "right a channel sends what USART2 asks for",
        "right a channel does not write flash",
        "right streams wait until SPI1 asks",
        "right streams exchange bytes on SPI1",
        "right a stream stores conversions",
        "",
    ];
    prints(dma, &wanted.join("\n"));
}

#[test]
fn channels_of_an_rp2040_copy_chain_and_serve_its_uart() {
    let dma = || run("chips/rp2040-dma", "[chip]\nlike = \"rp2040\"\n", &["--input-after", "name? :fido\\n"]);
    let wanted = [
        "right a channel waits for its trigger",
        "right a channel takes a while",
        "right a channel copies memory",
        "right its addresses are behind the last item",
        "right its interrupt is pending",
        "right its interrupt is acknowledged",
        "right the first view of its control starts it, no other",
        "right a channel's end begins another one",
        "right a channel begins again with as many items",
        "a channel sends this",
        "name? FIDO",
        "right where there is nothing a channel fails",
        "right a channel is aborted",
        "",
    ];
    prints(dma, &wanted.join("\n"));
}

#[test]
fn a_risc_v_chip_has_registers_of_its_own_and_counts_cycles_at_its_frequency() {
    let chip = r#"
[chip]
like = "gd32vf103"
[csr.probe]
number = 0x7f0
reset = 0x1234
[csr.count]
number = 0x7f1
cycles = true
"#;
    let wanted = [
        "right a register begins with its value",
        "right a register holds what is written",
        "right bits are set and cleared",
        "right the standard's counter has the chip's cycles",
        "right a counter of its own has them, too",
        "right its halves are written apart",
        "right where there is nothing a load faults",
        "",
    ];
    prints(|| run("chips/gd32vf103-csrs", chip, &["--period", "97"]), &wanted.join("\n"));
}

#[test]
fn an_rp2040_has_the_boot_roms_functions_and_an_adc_and_an_spi_that_become_ready() {
    let chip = "[chip]\nlike = \"rp2040\"\n[[stimulus]]\nat = 1\nset = [\"ADC.CH2=1234\"]\n";
    let wanted = [
        "right the ROM has its mark",
        "right a function that is not there is null",
        "right memory is copied",
        "right words are copied",
        "right memory is filled",
        "right words are filled",
        "right bits are counted",
        "right bits are reversed",
        "right zeros are counted",
        "right the ROM stays as it is",
        "right a conversion takes a while",
        "right a conversion has the input's value",
        "right SPI has room",
        "right SPI answers",
        "",
    ];
    prints(|| run("chips/rp2040-rom", chip, &[]), &wanted.join("\n"));
}

#[test]
fn an_stm32f429_has_over_drive_two_banks_fast_timers_and_an_rtc_with_flags() {
    let wanted = [
        "right over-drive takes a while",
        "right the last sector of the first bank is erased",
        "right the first sector of the second bank is erased",
        "right the second one is erased",
        "right the last one is erased",
        "right the second bank is erased",
        "right timers count half of the clock",
        "right timers count the clock with TIMPRE",
        "right the RTC takes a while",
        "right its calendar is initialised",
        "right its registers are not yet those of the calendar",
        "right its wakeup timer counts the crystal",
        "",
    ];
    prints(|| run("chips/stm32f429-kinds", "[chip]\nlike = \"stm32f429\"\n", &[]), &wanted.join("\n"));
}

#[test]
fn an_lpc1768_has_the_boot_roms_functions_and_interrupts_with_their_causes() {
    let wanted = [
        "right the ROM says the part",
        "right a command that is not there fails",
        "right a sector is blank",
        "right a page is programmed",
        "right the sector is not blank",
        "right the page is the same",
        "right the page is another",
        "right a store does not program",
        "right a sector is erased",
        "right the first sector is not",
        "right a PLL waits to be fed",
        "right a PLL is connected",
        "right a timer counts a quarter of the clock",
        "right a match stops it",
        "right IER is not the divisor",
        "--right an empty transmitter interrupts by its cause",
        "right no cause is left",
        "right edges of a pin interrupt",
        "",
    ];
    prints(|| run("chips/lpc1768-kinds", "[chip]\nlike = \"lpc1768\"\n", &[]), &wanted.join("\n"));
}

#[test]
fn a_sam3x8e_chains_its_timers_and_converts() {
    let chip = "[chip]\nlike = \"sam3x8e\"\n[[stimulus]]\nat = 1\nset = [\"ADC.CH7=1234\"]\n";
    let wanted = [
        "right a PLL takes a while",
        "right a timer counts half of the clock",
        "right its clock is off, and reading its flags cleared them",
        "right a chained timer counts microseconds",
        "right an output is set",
        "right both edges interrupt",
        "right one edge interrupts where that is selected",
        "right a conversion takes a while",
        "right a conversion has the input's value",
        "right the flash is ready",
        "right it is not while its identity is shown",
        "right random numbers differ",
        "right RTT counts the slow clock",
        "",
    ];
    prints(|| run("chips/sam3x8e-kinds", chip, &[]), &wanted.join("\n"));
}

#[test]
fn an_nrf52_samples_its_inputs_by_itself() {
    let chip = r#"
[chip]
like = "nrf52840"
[[stimulus]]
at = 1
set = ["SAADC.AIN2=1234", "SAADC.AIN5=77"]
"#;
    let analog = || run("chips/nrf52840-analog", chip, &[]);
    let wanted = [
        "right a sample converts each input",
        "right a full buffer ends",
        "right a timer's event samples by PPI",
        "right a fork does a second task",
        "right a connection that is off does nothing",
        "right a fixed connection starts a timer",
        "",
    ];
    prints(analog, &wanted.join("\n"));
}

#[test]
fn what_is_outside_of_a_chip_comes_at_its_instruction() {
    let outside = || run("chips/stm32f407-outside", OUTSIDE, &["--timeline"]);
    let wanted = [
        "a button is not pressed",
        "a button raises its interrupt at both edges",
        "a LED is on after an even number of presses",
        "an ADC measures what its channel holds",
        "an ADC measures another channel",
        "an ADC interrupts once",
        "an ADC measures what comes from outside",
        "an ADC of F1 calibrates and measures",
        "an ADC of L4 calibrates and measures",
        "a device on SPI answers its bytes",
        "nobody has another address on I2C",
        "a device on I2C answers from the byte that is named",
        "a stop ends it",
    ];
    let one = prints(outside, &wanted.map(|line| format!("right {line}\n")).concat());
    let later = OUTSIDE.replace("1_000_000", "1_050_000");
    let later = run("chips/stm32f407-outside", &later, &[]);
    assert_ne!(one.profile().facts.chip.unwrap().sha256, later.profile().facts.chip.unwrap().sha256);
}

/// Each edge is an event: of the input where it comes from outside, of the output behind the store that sets it.
#[test]
fn edges_of_pins_are_on_the_timeline() {
    let run = run("chips/stm32f407-outside", OUTSIDE, &["--timeline"]);
    let profile = run.profile();
    let rows: Vec<_> = event_rows::rows(&profile).unwrap().filter(|row| row.event == "pin").collect();
    let pins: Vec<(String, Option<i128>)> = rows.iter().map(|row| (row.name.clone(), row.value)).collect();
    let (button, led) = ("pin GPIOC.13, an input", "pin GPIOA.5, an output");
    let wanted = [(button, 0), (led, 1), (button, 1), (button, 0), (led, 0)];
    let wanted: Vec<(String, Option<i128>)> =
        wanted.iter().map(|(name, value)| ((*name).to_owned(), Some(*value))).collect();
    assert_eq!(pins, wanted);
    let file = run.dir.with_file_name("trace.json");
    let output = harness().arg("export").arg(&run.dir).args(["-f", "chrome", "-o"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(fs::read_to_string(file).unwrap().contains(button), "a track of its own");
}

const BUTTON: &str = "[chip]\nlike = \"nrf52840\"\n[[stimulus]]\nat = 5_000_000\nset = [\"P0.PIN[11]=1\"]\n";

#[test]
fn systick_timer_and_rtc_count_one_time_and_a_button_raises_gpiote() {
    let run = run("chips/nrf52840-kinds", BUTTON, &[]);
    let wanted = [
        "10 ms of SysTick are 10 ms of TIMER",
        "10 ms of SysTick are 327 or 328 ticks of RTC",
        "a button raises GPIOTE's interrupt",
        "a pin reads as it is set",
    ];
    assert_eq!(run.console(), wanted.map(|line| format!("right {line}\n")).concat());
}

/// An instruction takes 2^shift ns: a millisecond of SysTick, of the timers and of RTC has as many instructions as the
/// shift says.
#[test]
fn a_millisecond_of_a_chips_clocks_is_one_of_the_shift() {
    for (chip, shift) in [("stm32f407", 2), ("stm32f407", 5), ("nrf52840", 3)] {
        // Between two instructions, for the start-up code takes its own time.
        let ticks = |until: &str| {
            let args = ["--chip", chip, "--exact", "--shift", &shift.to_string(), "--for", until];
            let profile = run_file(&image(&format!("chips/{chip}-freertos")), &args).expect_code(0).profile();
            assert_eq!(profile.facts.icount_shift, shift);
            calls(&profile, "xTaskIncrementTick")
        };
        let (ms, ticks) = ((8_000_000 << shift) / 1_000_000, ticks("12M") - ticks("4M"));
        assert!((ms - 1..=ms + 1).contains(&ticks), "{chip}: {ticks} ticks in {ms} ms");
    }
    for shift in ["2", "5"] {
        run("chips/nrf52840-kinds", BUTTON, &["--shift", shift]);
        let typed = ["--shift", shift, "--input-after", "name? :fidofido!\\n"];
        run("chips/stm32f407-dma", OUTSIDE, &typed);
        super::kinds(&["--shift", shift]).expect_code(0);
    }
}

#[test]
fn an_input_of_an_stm32_is_pulled_up_until_a_test_sets_its_level() {
    let dir = scratch();
    let says = "if (*(volatile unsigned *)LEVELS & 1 << 13) host(4, \"high\\n\"); else host(4, \"low\\n\");";
    // PC13 without a resistor, then pulled up. On an F1 the pull is to what ODR says.
    let cases = [
        ("stm32f407", "-mcpu=cortex-m4", "0x40020810", "*(volatile unsigned *)0x4002080c = 1 << 26;"),
        (
            "stm32f103",
            "-mcpu=cortex-m3",
            "0x40011008",
            "*(volatile unsigned *)0x4001100c = 1 << 13; *(volatile unsigned *)0x40011004 = 0x44844444;",
        ),
    ];
    for (chip, cpu, levels, pull) in cases {
        let says = says.replace("LEVELS", levels);
        let source = format!("void reset(void) {{ {says} {pull} {says} host(0x18, STOPPED); for (;;) {{}} }}");
        let elf = cortex_m(cpu, 0x0800_0000, 0x2000_0000, 0x2000_4000).build_source(dir.path(), chip, &source);
        let printed = |set: &[&str]| run_file(&elf, &[&["--chip", chip], set].concat()).expect_code(0).console();
        assert_eq!(printed(&[]), "low\nhigh\n", "{chip}");
        assert_eq!(printed(&["--set", "0ns:PC13=0"]), "low\nlow\n", "{chip}: what is outside is stronger");
    }
}
