// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices of an Arduino: what they answer, how long they take, and which AVRs they belong to.

use std::collections::BTreeMap;
use std::fs;

use crate::common::built;
use crate::common::{Run, refused_file, run, run_file};

/// Images of `uno-devices.c`.
const DEVICES: [&str; 2] = ["avr/uno-devices", "avr/mega2560-devices"];

/// Lines of a name and a number.
fn said(run: &Run) -> BTreeMap<String, u64> {
    let console = run.console();
    let line = |line: &str| line.rsplit_once(' ').map(|(name, number)| (name.to_owned(), number.parse().unwrap()));
    console.lines().filter_map(line).collect()
}

/// Asserts numbers of a run: each within so many of what arithmetic says.
fn assert_near(run: &Run, expected: &[(&str, u64, u64)]) {
    let said = said(run);
    for &(name, right, off) in expected {
        let number = said.get(name).unwrap_or_else(|| panic!("no {name}: {said:?}"));
        assert!(number.abs_diff(right) <= off, "{name}: {number}, and not {right}: {said:?}");
    }
}

#[test]
fn ports_have_what_was_written_and_what_pulls_them_up() {
    for name in DEVICES {
        let run = run(name, &[]).expect_code(0);
        assert_near(
            &run,
            &[
                ("output", 0x20, 0),
                ("read back", 0x23, 0),
                ("pulled up", 0x23, 0),
                ("toggled", 0x02, 0),
                ("toggled by sbi", 0, 0),
            ],
        );
    }
}

#[test]
fn each_mode_of_a_timer_of_16_bits_has_its_rounds() {
    for (name, options) in DEVICES.into_iter().flat_map(|name| [(name, &[][..]), (name, &["--cycles"][..])]) {
        let run = run(name, options).expect_code(0);
        // 50 ms are 100,000 ticks of 8 cycles; a round of two ways has twice its last value.
        assert_near(
            &run,
            &[
                ("normal", 100_000 / 0x10000, 0),
                ("two ways to 255", 100_000 / 510, 0),
                ("two ways to 1023", 100_000 / 2046, 0),
                ("match", 100, 0),
                ("fast to 511", 100_000 / 512, 0),
                ("two ways to ICR", 100_000 / 1998, 0),
                ("two ways to OCR", 100_000 / 1998, 0),
                ("ICR", 100, 0),
                ("fast to ICR", 100, 0),
                ("fast to OCR", 100, 0),
                ("sixteen bits", 0x1234, 0),
                ("torn", 0, 0),
            ],
        );
    }
}

#[test]
fn bytes_conversions_and_steps_of_a_bus_take_their_time() {
    for name in DEVICES {
        let run = run(name, &["--cycles"]).expect_code(0);
        // In ticks of 8 cycles, and a turn of the loop that waits.
        assert_near(
            &run,
            &[
                // At 9600 baud a byte has 10 bits of 16 * 104 cycles; one is sent and one waits as the last is written.
                ("written", 8 * 2080, 10),
                ("sent", 10 * 2080, 10),
                // The last one: the next tick of the converter's clock, of 128 cycles, and 13 more.
                ("converted", 13 * 16 + 8, 10),
                // A start of one bit and an address of nine, of 160 cycles each, for eight addresses.
                ("eight addresses", 8 * 10 * 20, 40),
                ("started", 0x08, 0),
                ("nobody", 0x20, 0),
                ("received", 0xff, 0),
                // Eight bits of 64 cycles.
                ("transferred", 64, 4),
            ],
        );
        assert!(run.console().contains("converted 415\n"), "the first conversion takes 25: {}", run.console());
    }
}

/// QEMU stops at `wdr`, wherever it stands.
#[test]
fn a_watchdog_interrupts_unless_it_is_fed() {
    for (name, options) in
        DEVICES.into_iter().flat_map(|name| [(name, &[][..]), (name, &["--cycles", "--exact"][..])])
    {
        let run = run(name, options).expect_code(0);
        // 16 ms each, in ticks of 1024 cycles: 83.2 ms are five.
        assert_near(&run, &[("five bites", 1250, 2), ("fed", 2000, 1), ("skipped", 5, 0), ("not skipped", 0, 0)]);
    }
}

/// With both, the first time is an interrupt, and the next one would be a reset.
#[test]
fn a_watchdog_that_would_reset_the_chip_is_a_warning() {
    let source = r#"
        #include <avr/interrupt.h>
        #include <avr/io.h>
        #include <avr/wdt.h>
        volatile unsigned char bites;
        ISR(WDT_vect) { bites++; }
        int main(void) {
            wdt_reset();
            WDTCSR = 1 << WDCE | 1 << WDE;
            WDTCSR = 1 << WDIE | 1 << WDE;
            sei();
            for (unsigned long n = 0; n < 200000; n++) __asm__ volatile("");
            return bites;
        }
    "#;
    let dir = tempfile::tempdir().unwrap();
    let (file, elf) = (dir.path().join("fw.c"), dir.path().join("fw.elf"));
    fs::write(&file, source).unwrap();
    built::avr("atmega328p", &["-Os"], &file, &elf);
    let run = run_file(&elf, &[]);
    let bitten = run.profile().facts.chip.unwrap().bitten;
    assert_eq!(bitten, Some(("WDT".to_owned(), 1)), "{}", run.stdout);
    assert!(run.stdout.contains("warning: the watchdog WDT ran out 1 time"), "{}", run.stdout);
    assert!(matches!(run.profile().facts.end, harness::profile::End::Exit { status: 1, .. }), "{}", run.stdout);
}

/// A device's registers that only hold what is written are named, in every run and its JSON.
#[test]
fn what_is_missing_is_one_line() {
    let run = run("avr/uno-devices", &[]).expect_code(0);
    let line = "not modelled: 1 register, which read as last written: CPU.CLKPR (2 written, first at 0x";
    assert!(run.stdout.contains(line) || run.stderr.contains(line), "{}{}", run.stdout, run.stderr);
    let chip = run.profile().facts.chip.unwrap();
    assert_eq!((chip.name.as_str(), chip.is_given(), chip.unmodelled.len()), ("atmega328p", false, 1));
    assert_eq!(chip.unmodelled[0].address, 0x80_0061, "as the program has it");
}

#[test]
fn a_chip_file_presses_a_button_and_answers_on_a_bus() {
    let dir = tempfile::tempdir().unwrap();
    let source = r#"
        #include <avr/interrupt.h>
        #include <avr/io.h>
        #include <stdlib.h>
        volatile unsigned char falls, changes;
        ISR(INT0_vect) { falls++; }
        ISR(PCINT0_vect) { changes++; }
        static void put(char c) { while (!(UCSR0A & 1 << UDRE0)); UDR0 = c; }
        static void say(unsigned n) { char t[6]; for (char *p = utoa(n, t, 10); *p; p++) put(*p); put(' '); }
        static void later(void) { for (volatile unsigned n = 0; n < 500; n++); }
        static void step(unsigned char c) { TWCR = 1 << TWINT | 1 << TWEN | c; while (!(TWCR & 1 << TWINT)); }
        int main(void) {
            UCSR0B = 1 << TXEN0;
            PORTD = 1 << 2; PORTB = 1;
            EICRA = 2; EIMSK = 1; PCMSK0 = 1; PCICR = 1;
            sei();
            say(PIND & 4); say(PINB & 1);
            while (changes < 2);
            say(falls); say(changes); say(PIND & 4); say(PINB & 1);
            TWBR = 72;
            step(1 << TWSTA); later(); say(TWSR); TWDR = 0x68 << 1; step(0); say(TWSR);
            TWDR = 1; step(0); say(TWSR);
            step(1 << TWSTA); say(TWSR); TWDR = 0x68 << 1 | 1; step(0); say(TWSR);
            step(1 << TWEA); say(TWSR); say(TWDR);
            step(0); say(TWSR); say(TWDR);
            TWCR = 1 << TWINT | 1 << TWEN | 1 << TWSTO; later(); say(TWCR & 1 << TWINT);
            SPCR = 1 << SPE | 1 << MSTR;
            SPDR = 0x9f; while (!(SPSR & 1 << SPIF)); say(SPDR);
            return 0;
        }
    "#;
    let chip = r#"
        [chip]
        like = "atmega328p"
        [[stimulus]]
        at = 30_000
        set = ["PORTD.PIN[2]=1", "PORTB.PIN[0]=1"]
        [[stimulus]]
        at = 40_000
        set = ["PORTD.PIN[2]=0"]
        [[stimulus]]
        at = 50_000
        set = ["PORTD.PIN[2]=1", "PORTB.PIN[0]=0"]
        [[stimulus]]
        at = 60_000
        set = ["PORTD.PIN[2]=0", "PORTB.PIN[0]=1"]
        [peripherals.TWI]
        at = 0x1000b00
        kind = "avr-twi"
        clock = "io"
        interrupt = 23
        bytes = { TWBR = 0xb8, TWSR = 0xb9, TWAR = 0xba, TWDR = 0xbb, TWCR = 0xbc, TWAMR = 0xbd }
        devices = [{ address = 0x68, bytes = [70, 71, 72] }]
        [peripherals.SPI]
        at = 0x1000a00
        kind = "avr-spi"
        clock = "io"
        interrupt = 16
        bytes = { SPCR = 0x4c, SPSR = 0x4d, SPDR = 0x4e }
        devices = [{ bytes = [0xef] }]
    "#;
    let (file, elf) = (dir.path().join("outside.toml"), dir.path().join("fw.elf"));
    fs::write(&file, chip).unwrap();
    fs::write(dir.path().join("fw.c"), source).unwrap();
    built::avr("atmega328p", &["-Os"], &dir.path().join("fw.c"), &elf);
    let run = run_file(&elf, &["--chip", file.to_str().unwrap(), "--timeline"]).expect_code(0);
    let levels = "4 1 2 2 0 1";
    let bus = "8 24 40 16 64 80 71 88 72 0 239";
    assert_eq!(run.console().trim(), format!("{levels} {bus}"));
    let ports = run.profile().facts.chip.unwrap().ports;
    assert!(ports.iter().any(|(_, name)| name == "PORTD"), "{ports:?}");
}

/// On the board that a plain run takes, after what the sketch prints.
#[test]
fn a_button_is_pressed_and_a_voltage_set_by_options() {
    let dir = tempfile::tempdir().unwrap();
    let source = r#"
        #include <avr/interrupt.h>
        #include <avr/io.h>
        #include <stdlib.h>
        volatile unsigned char edges;
        ISR(INT0_vect) { edges++; }
        static void put(char c) { while (!(UCSR0A & 1 << UDRE0)); UDR0 = c; }
        static void say(unsigned n) { char t[6]; for (char *p = utoa(n, t, 10); *p; p++) put(*p); put(' '); }
        int main(void) {
            UCSR0B = 1 << TXEN0;
            PORTD = 1 << 2;
            EICRA = 1; EIMSK = 1;
            sei();
            put('>');
            while (edges < 2);
            say(edges); say(PIND & 4);
            ADMUX = 1 << REFS0; ADCSRA = 1 << ADEN | 1 << ADSC | 7;
            while (ADCSRA & 1 << ADSC);
            say(ADC);
            return 0;
        }
    "#;
    let (file, elf) = (dir.path().join("fw.c"), dir.path().join("fw.elf"));
    fs::write(&file, source).unwrap();
    built::avr("atmega328p", &["-Os"], &file, &elf);
    let args = ["--set-after", ">:PD2=0,for=5ms", "--set", "10us:ADC.IN0=512"];
    let run = run_file(&elf, &args).expect_code(0);
    assert_eq!(run.console().trim(), ">2 4 512");
    assert_eq!(run.files(), run_file(&elf, &args).files(), "the same bytes in every run");
}

#[test]
fn a_machine_has_qemus_longer_name_and_a_sketch_says_where_its_elf_is() {
    let run = run("avr/uno", &["--machine", "arduino-uno"]).expect_code(0);
    let facts = run.profile().facts;
    assert_eq!((facts.machine.as_str(), facts.icount_shift), ("uno", 6));
    assert!(!run.stderr.contains("warning"), "{}", run.stderr);
    let dir = tempfile::tempdir().unwrap();
    let sketch = dir.path().join("Blink.ino");
    fs::write(&sketch, "void setup() {}\nvoid loop() {}\n").unwrap();
    refused_file(&sketch, &[], &["a sketch's source", "build/NAME.ino.elf"]);
}

/// Code for another AVR would restart, or wait for ever, and look as if it ran.
#[test]
fn an_elf_for_another_avr_is_refused_and_a_sibling_runs() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("fw.c"), "int main(void) { return 0; }").unwrap();
    let compiled = |device: &str| {
        let elf = dir.path().join(format!("{device}.elf"));
        built::avr(device, &["-Os"], &dir.path().join("fw.c"), &elf);
        elf
    };
    refused_file(&compiled("atxmega128a1"), &[], &["no AVR machine can run this image", "was built for avrxmega7"]);
    for device in ["atmega32u4", "atmega644p"] {
        let why = format!("the image was built for {device}, whose vectors and registers its atmega328p has not");
        refused_file(&compiled(device), &[], &["no AVR machine can run this image", &why]);
        // Named, it is the user's word that counts.
        let run = run_file(&compiled(device), &["--machine", "uno", "--for", "1000"]);
        assert!(run.stderr.contains("warning: --machine uno: the image was built for"), "{}", run.stderr);
    }
    for (device, machine) in
        [("atmega328", "uno"), ("atmega168p", "uno"), ("atmega1281", "mega"), ("atmega2561", "mega2560")]
    {
        let run = run_file(&compiled(device), &[]).expect_code(0);
        assert_eq!(run.profile().facts.machine, machine, "{device}");
    }
}
