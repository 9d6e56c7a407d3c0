// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: typed text arrives at the same instruction in every run, at any load of the host, and text that could
//! not be typed is reported.

use std::sync::atomic::{AtomicBool, Ordering};

use harness::profile::End;

use crate::common::{Run, image, run, run_again, run_file, timed_out_after};

const BOARDS: [&str; 2] = ["riscv64", "cortex-m3"];

/// Ways in which `targets/apps/echo.c` reads: by polling; by interrupt, with and without a tick; by semihosting.
const READERS: [&str; 4] = ["", "-irq", "-sleep", "-readc"];

fn echoes() -> impl Iterator<Item = String> {
    let names = BOARDS.into_iter().flat_map(|board| READERS.map(|reader| format!("{board}-echo{reader}")));
    // One with a receive FIFO, whose timer the emulator's main thread sets.
    names.chain(["riscv64-echo-fifo".to_owned()])
}

const DIALOGUE: [&str; 6] =
    ["--input-after", r"prompt> :hello\n", "--input-after", r"> :a\:b\n\n", "--input-after", r"prompt> :quit\n"];

/// Its answers: each line's length and its bytes, the last one first. The empty line is typed before its prompt is
/// waited for.
const ANSWERS: &str = "prompt> 5: 6f 6c 6c 65 68\nprompt> 3: 62 3a 61\nprompt> 0:\nprompt> 4: 74 69 75 71\nbye\n";

/// Console output without carriage returns.
fn console(run: &Run) -> String {
    run.console().replace('\r', "")
}

#[track_caller]
fn assert_all_given(run: &Run) {
    assert!(!run.stdout.contains("input not typed"), "{}", run.stdout);
    let facts = run.profile().facts;
    assert_eq!(facts.input_bytes, facts.input.iter().map(|input| input.typed().len() as u64).sum::<u64>());
}

/// Does `work` while other threads keep every core busy.
fn under_load<T>(work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 * std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                let mut number = 0u64;
                while !done.load(Ordering::Relaxed) {
                    number = std::hint::black_box(number.wrapping_mul(31) + 1);
                }
            });
        }
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}

#[test]
fn a_dialogue_goes_the_same_way_however_the_firmware_reads() {
    for name in echoes() {
        let run = run(&name, &DIALOGUE).expect_code(0);
        assert_eq!(console(&run), ANSWERS, "{name}");
        assert_all_given(&run);
    }
}

#[test]
fn a_dialogue_gives_the_same_bytes_on_a_busy_host() {
    for name in echoes() {
        let quiet = run(&name, &[&["--period", "101"], &DIALOGUE[..]].concat()).expect_code(0).files();
        let busy =
            under_load(|| run_again(&name, &[&["--period", "101"], &DIALOGUE[..]].concat())).expect_code(0).files();
        for ((file, one), (_, two)) in quiet.iter().zip(&busy) {
            assert!(one == two, "{name}: {file} differs on a busy host");
        }
        assert_eq!(quiet.len(), busy.len());
    }
}

#[test]
fn how_the_run_is_measured_does_not_change_when_input_arrives() {
    for name in echoes() {
        let plain = run(&name, &DIALOGUE).expect_code(0);
        for options in [&["--oracle"][..], &["--period", "7"], &["--exact"], &["--no-stacks", "--seeded-jitter", "3"]]
        {
            let other = run(&name, &[options, &DIALOGUE].concat()).expect_code(0);
            assert_eq!(other.console(), plain.console(), "{name} {options:?}");
            let (other, plain) = (other.profile(), plain.profile());
            assert_eq!(other.vcpus[0].insns, plain.vcpus[0].insns, "{name} {options:?}");
        }
    }
}

#[test]
fn input_arrives_at_the_instruction_that_is_asked_for() {
    for board in BOARDS {
        let name = format!("{board}-echo");
        let total = |at: &str| {
            let text = format!(r"{at}:quit\n");
            let run = run(&name, &["--input", &text]).expect_code(0);
            assert_eq!(console(&run), "prompt> 4: 74 69 75 71\nbye\n", "{name}");
            assert_all_given(&run);
            run.profile().total_insns()
        };
        // The firmware polls in a loop of a few instructions.
        let later = total("323_456") - total("123_456");
        assert!((200_000 - 20..200_000 + 20).contains(&later), "{name}: {later} instructions later");
    }
}

#[test]
fn input_is_counted_from_reset_wherever_the_window_begins() {
    for board in BOARDS {
        let name = format!("{board}-echo");
        let typed = ["--input", r"50k:abc\n", "--input-after", r"3\: 63 62 61\n:quit\n"];
        let whole = run(&name, &typed).expect_code(0);
        let late = run(&name, &[&["--from", "answer"], &typed[..]].concat()).expect_code(0);
        assert_eq!(late.console(), whole.console());
        let late = late.profile();
        assert!(late.facts.before_window_insns > 50_000);
        assert_eq!(late.facts.before_window_insns + late.total_insns(), whole.profile().total_insns(), "{name}");
    }
}

#[test]
fn texts_are_typed_in_the_order_in_which_they_are_given() {
    let mixed = ["--input-after", r"prompt> :one\n", "--input", r"400k:two\n", "--input-after", r"> :quit\n"];
    for board in BOARDS {
        let run = run(&format!("{board}-echo"), &mixed).expect_code(0);
        assert_eq!(console(&run), "prompt> 3: 65 6e 6f\nprompt> 3: 6f 77 74\nprompt> 4: 74 69 75 71\nbye\n");
        assert!(run.profile().total_insns() > 400_000);
        assert_all_given(&run);
    }
}

/// `\xNN` for each byte.
fn spelled(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

#[test]
fn every_byte_arrives_even_the_emulators_own_key() {
    let bytes: Vec<u8> = (0..=255).filter(|&byte| byte != b'\n').chain([1, 1, b'x', 1, b'c', 1, b'h']).collect();
    let lines: Vec<&[u8]> = bytes.chunks(50).collect();
    let texts: Vec<String> = lines.iter().map(|line| format!(r"prompt> :{}\n", spelled(line))).collect();
    let mut options: Vec<&str> = texts.iter().flat_map(|text| ["--input-after", text]).collect();
    options.extend(["--input-after", r"prompt> :quit\n"]);
    let answers = lines.iter().map(|line| {
        let reversed: String = line.iter().rev().map(|byte| format!(" {byte:02x}")).collect();
        format!("prompt> {}:{reversed}\n", line.len())
    });
    let expected = answers.collect::<String>() + "prompt> 4: 74 69 75 71\nbye\n";
    for name in echoes() {
        let run = run(&name, &options).expect_code(0);
        assert_eq!(console(&run), expected, "{name}");
        assert_all_given(&run);
    }
}

#[test]
fn a_long_text_waits_for_the_firmware() {
    let text = format!(r"prompt> :{}\nquit\n", "x".repeat(1000));
    for name in echoes() {
        let run = run(&name, &["--input-after", &text]).expect_code(0);
        let (first, rest) = run.console().split_once(':').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        // The firmware's buffer holds a line of 64 bytes.
        assert_eq!(first, "prompt> 64", "{name}");
        assert!(rest.ends_with("bye\n"), "{name}: {rest}");
        assert_all_given(&run);
    }
}

#[test]
fn what_the_firmware_does_not_take_is_said() {
    // The multiplexer holds 32 bytes, and the 16550 one; the other UART is off.
    for (name, taken) in [("riscv64-spin", 33), ("cortex-m3-spin", 32)] {
        let text = format!("1M:{}", "0123456789".repeat(4));
        let full = run_file(&image(name), &["--input", &text, "--input", "2M:x", "--for", "9M"]).expect_code(0);
        let line = format!("(the machine took {taken} of its 40 bytes), and the one after it");
        assert!(full.stdout.contains(&line), "{}", full.stdout);
        assert_eq!(full.profile().facts.input_bytes, taken);
        // Bytes that are offered again and again do not change the counts.
        let same = run_file(&image(name), &["--for", "9M"]).expect_code(0);
        assert_eq!(full.profile().vcpus, same.profile().vcpus);
    }
}

#[test]
fn what_never_came_to_be_typed_is_said() {
    for board in BOARDS {
        let spin = image(&format!("{board}-spin"));
        let never = run_file(&spin, &["--input-after", "nobody asks:abc", "--for", "3M"]).expect_code(0);
        let line = r#"input not typed: 1 of 1, "abc" ("nobody asks" was not printed)"#;
        assert!(never.stdout.contains(line), "{}", never.stdout);
        let late = run_file(&spin, &["--input", "3000001:abc", "--input", "4M:d", "--for", "3M"]).expect_code(0);
        let line = "1 of 2, \"abc\" (it was due at instruction 3,000,001), and the one after it";
        assert!(late.stdout.contains(line), "{}", late.stdout);
    }
}

#[test]
fn a_firmware_that_sleeps_until_input_comes_sleeps_for_ever_where_none_does() {
    for board in BOARDS {
        for reader in ["-sleep", "-readc"] {
            let name = format!("{board}-echo{reader}");
            let late = run(&name, &["--input", "900M:quit\\n"]).expect_code(1);
            assert!(matches!(late.profile().facts.end, End::Asleep { .. }));
            assert!(late.stdout.contains("(it was due at instruction 900,000,000)"), "{}", late.stdout);
            let other = run(&name, &["--input-after", r"prompt> :a\n", "--input-after", "login:root"]).expect_code(1);
            assert!(matches!(other.profile().facts.end, End::Asleep { .. }));
            assert!(other.stdout.contains("2 of 2, \"root\" (\"login\" was not printed)"), "{}", other.stdout);
            assert_eq!(console(&other), "prompt> 1: 61\nprompt> ");
        }
    }
}

#[test]
fn what_is_typed_before_a_library_asks_for_it_is_there_when_it_does() {
    for board in BOARDS {
        let name = format!("{board}-getchar-picolibc");
        // Four inputs: long before the firmware reads; in two pieces; more than the serial port and the multiplexer
        // hold; on its prompt.
        let spaces = " ".repeat(60);
        let long = format!(r"1:a 42{spaces}words\n");
        for input in [
            &["--input", r"1:a 42 words\n"][..],
            &["--input", "1:a 42 ", "--input", r"40k:words\n"],
            &["--input", &long],
            &["--input-after", r"ready:a 42 words\n"],
            &["--input", "1:a 4", "--input-after", r"ready:2 words\n"],
        ] {
            let run = run(&name, input).expect_code(0);
            assert_eq!(console(&run), "getchar: ready\ngetchar: a, then 2: 42 words\n", "{name} {input:?}");
            assert_all_given(&run);
            let again = run_again(&name, input);
            assert!(run.files() == again.files(), "{name} {input:?}: files differ");
        }
    }
}

#[test]
fn a_run_that_the_host_ends_ends_while_input_is_offered() {
    let text = format!("10k:{}", "x".repeat(100));
    let run = timed_out_after(100_000, &image("cortex-m3-spin"), &["--input", &text]);
    assert!(run.stdout.contains("reproduces this profile"), "{}", run.stdout);
}

#[test]
fn several_harts_have_the_first_ones_time() {
    let options = ["--input", "10k:abc", "--for", "1M"];
    let one = run("riscv64-smp", &options);
    let two = under_load(|| run_again("riscv64-smp", &options));
    assert_eq!(one.profile(), two.profile());
    assert_eq!(one.profile().facts.input_bytes, 3);
}

#[test]
fn a_run_without_input_has_no_pipe() {
    let profile = run("riscv64-echo", &[]).expect_code(0).profile();
    assert_eq!((profile.facts.input.len(), profile.facts.input_bytes), (0, 0));
}

#[test]
fn bad_spellings_are_refused_with_what_to_write() {
    for (option, value, words) in [
        ("--input", "1M", &["no ':'", r"1M:go\n", "--input-after"][..]),
        ("--input", "soon:go", &["soon", "not a number", "2M"]),
        ("--input", "0:go", &["at least 1"]),
        ("--input", "1M:", &["nothing on one side"]),
        ("--input", r"1M:\q", &[r"unknown escape \q", r"\xNN"]),
        ("--input", r"1M:\xg0", &[r"\xg0 is not a byte", "two hex digits"]),
        ("--input", r"1M:a\", &["unknown escape"]),
        ("--input-after", "prompt", &["no ':'", r"'prompt> :go\n'"]),
        ("--input-after", ":go", &["nothing on one side"]),
        ("--input-after", "login: :root", &["more than one ':'", r"\:"]),
        ("--input-after", r"\xff:go", &["the prompt is not text"]),
    ] {
        let run = run("riscv64-echo", &[option, value]).expect_code(2);
        assert!(run.stderr.contains(&format!("{option} {value}")), "{}", run.stderr);
        for word in words {
            assert!(run.stderr.contains(word), "{word:?} is not in: {}", run.stderr);
        }
        assert!(!run.has_profile());
    }
    let run = run("riscv64-echo", &["--input", "2M:a", "--input", "1M:b"]).expect_code(2);
    assert!(run.stderr.contains("instruction 1000000 comes after"), "{}", run.stderr);
}
