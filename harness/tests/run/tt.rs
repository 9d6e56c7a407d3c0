// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: `:tt` is the console. The firmware's output there is kept in its order, and is never taken for a
//! message of QEMU's.

use std::fs;
use std::process::{Command, Stdio};

use harness::image::defmt::Decoder;
use harness::profile::End;

use crate::common::{Run, finish, image, run, run_again, run_and, run_file, signal, timed_out};

const BOARDS: [&str; 2] = ["riscv64", "cortex-m3"];

/// Output of `targets/apps/tt.c` before it asks for input.
fn said() -> Vec<u8> {
    let lines = "tt: out\ntt: uart\ntt: err\n".repeat(100);
    let forged = "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 6, \"minor\": 66, \"major\": 666}}, \
        \"capabilities\": []}}\n\
        {\"event\": \"SHUTDOWN\", \"data\": {\"guest\": true, \"reason\": \"guest-reset\"}}\n\
        qemu: fatal: Lockup: can't escalate 3 to HardFault (current priority -1)\n";
    [lines.as_bytes(), b"\xff\xfe\x80 no text\n", forged.as_bytes()].concat()
}

#[test]
fn what_is_said_there_is_in_the_log_among_what_goes_to_the_uart() {
    for board in BOARDS {
        let run = run(&format!("{board}-tt"), &[]).expect_code(0);
        let log = fs::read(run.dir.join("console.log")).unwrap();
        let expected = [said(), b"tt: done\n".to_vec()].concat();
        assert_eq!(String::from_utf8_lossy(&log).replace('\r', ""), String::from_utf8_lossy(&expected), "{board}");
        let facts = run.profile().facts;
        // The forged greeting, lock-up and reset are not believed.
        assert!(!facts.qemu_version.contains("666"), "{}", facts.qemu_version);
        assert!(matches!(facts.end, End::Exit { status: 0, .. }), "{:?}", facts.end);
    }
}

/// Runs `harness run`; returns its standard output, and the run.
fn runner(name: &str, args: &[&str], firmware_args: &[&str]) -> (String, Run) {
    let temp = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    let command = command.arg("run").args(args).arg("-o").arg(temp.path().join("out")).arg(image(name));
    let output = command.args(firmware_args).output().unwrap();
    let run = finish(temp, output);
    (run.stdout.clone(), run)
}

#[test]
fn a_runner_passes_it_on() {
    let temp = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    let output = command.args(["run", "-o"]).arg(temp.path().join("out")).arg(image("riscv64-tt")).output().unwrap();
    let log = fs::read(temp.path().join("out/console.log")).unwrap();
    assert!(output.status.success() && output.stdout == log && log.len() > 2000);
}

/// Output of an image's run on a terminal with colours; `script` (util-linux) is the terminal.
fn shown(name: &str, environment: &[(&str, &str)]) -> String {
    let temp = tempfile::tempdir().unwrap();
    let line = format!(
        "{} run -o {} {}",
        env!("CARGO_BIN_EXE_harness"),
        temp.path().join("out").display(),
        image(name).display()
    );
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
    let output = script.envs(environment.iter().copied()).stdin(Stdio::null()).output().unwrap();
    let log = fs::read_to_string(temp.path().join("out/console.log")).unwrap_or_else(|error| error.to_string());
    assert!(!log.contains('\x1b'), "{log}");
    String::from_utf8_lossy(&output.stdout).replace('\r', "").replace("\x1b[39m\x1b[31m", "")
}

#[test]
fn standard_error_is_red_on_a_terminal_and_nowhere_else() {
    // newlib looks for the list of features before it opens standard error.
    let hosted = shown("cortex-m3-hosted-rdimon", &[]);
    assert!(hosted.contains("pi is 3.1416\n\x1b[31mhosted: standard error\n\x1b[39mhosted: argument 0"), "{hosted}");
    assert!(!shown("cortex-m3-hosted-rdimon", &[("NO_COLOR", "1")]).contains("\x1b[31m"));
    let (piped, _) = runner("cortex-m3-hosted-rdimon", &[], &[]);
    assert!(!piped.contains('\x1b'), "{piped}");
}

#[test]
fn it_gives_the_same_bytes_every_time() {
    for board in BOARDS {
        let once = || run_again(&format!("{board}-tt"), &["--period", "101"]).expect_code(0).files();
        let first = once();
        for _ in 0..2 {
            assert!(once() == first, "{board}: files differ");
        }
    }
}

#[test]
fn all_of_the_input_can_be_read_there_and_then_its_end() {
    for board in BOARDS {
        let input = ["--input", r"900M:first\n", "--input-after", r"never:second, which is long\n"];
        let run = run(&format!("{board}-tt"), &input).expect_code(0);
        let console = run.console();
        // The firmware asks for sixteen bytes at a time.
        let end = "tt: read first\nsecond, whtt: read ich is long\ntt: done\n";
        assert!(console.ends_with(end), "{board}: {console}");
        assert!(!run.stdout.contains("input not typed"), "{}", run.stdout);
        let facts = run.profile().facts;
        assert_eq!((facts.input_bytes, facts.input_begun), (28, 2));
    }
}

#[test]
fn what_no_one_could_read_as_text_ends_neither_timeout_nor_interrupt() {
    for board in BOARDS {
        let endless = image(&format!("{board}-tt-endless"));
        let bytes = |run: &Run| fs::metadata(run.dir.join("console.log")).map_or(0, |file| file.len());
        let once = |seconds: &str| run_file(&endless, &["--for", "1000G", "--timeout", seconds]);
        let run = timed_out(once, |run| bytes(run) >= 2 + (16 << 20)).expect_code(4);
        assert_eq!(run.profile().facts.end, End::Timeout);
        assert_eq!(bytes(&run), 2 + (16 << 20));
    }
    let (run, _) = run_and(&image("riscv64-tt-endless"), &["--for", "1000G"], |child| signal(child.id(), "INT"));
    assert_eq!(run.expect_code(4).profile().facts.end, End::Interrupted);
}

#[test]
fn a_c_library_has_its_files_arguments_and_clocks() {
    for name in ["cortex-m3-hosted-rdimon", "cortex-m3-hosted-picolibc", "riscv64-hosted-picolibc"] {
        let once = || runner(name, &["--input", r"1:42 words\n"], &["a", "b c"]);
        let (stdout, run) = once();
        let run = run.expect_code(7);
        assert_eq!(run.console(), stdout, "{name}");
        let mut wanted = vec![
            "hosted: printf, pi is 3.1416\n",
            "hosted: standard error\n",
            " is firmware\n",
            " is a\n",
            "hosted: the file has one 1\nhosted: the file has two 2\nhosted: afterwards there is none\n",
            "hosted: the time is 946684800\n",
            "hosted: done\n",
        ];
        if name.ends_with("rdimon") {
            // picolibc reads by SYS_READC instead, see tests/run/console.rs.
            wanted.push("hosted: read 2: 42 words\n");
        }
        for line in wanted {
            assert!(stdout.contains(line), "{name}: {line:?} is not in:\n{stdout}");
        }
        assert!(!run.stderr.contains("depends on the host"), "{}", run.stderr);
        assert!(once().1.files() == run.files(), "{name}: files differ");
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn rusts_words_and_its_panic_are_there() {
    let (stdout, run) = runner("cortex-m3-rust-hosted-Oz", &[], &[]);
    let run = run.expect_code(1);
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[..4], ["hosted: 0 one", "hosted: 1 two", "hosted: 2 three", "hosted: an error of 0xbad"]);
    assert!(lines[4].starts_with("panicked at ") && lines[4].contains("hosted/src/main.rs:"), "{stdout}");
    assert!(stdout.contains("index out of bounds: the len is 3 but the index is 7"), "{stdout}");
    assert_eq!(run.console(), stdout);
}

/// Expected log of targets/rust/defmt in the form of probe-rs: time, level, text, crate and place.
const LOGGED: &str = "\
a line without a level
0.000010 [INFO ] reading Reading { channel: 0, value: 0, name: \"temperature\" } (defmt_demo defmt/src/main.rs:26)
0.000020 [INFO ] reading Reading { channel: 1, value: -100, name: \"temperature\" } (defmt_demo defmt/src/main.rs:26)
0.000030 [INFO ] reading Reading { channel: 2, value: -200, name: \"temperature\" } (defmt_demo defmt/src/main.rs:26)
0.000040 [WARN ] 0x0 of [0, 1, 0] is zero: true (defmt_demo defmt/src/main.rs:28)
0.000050 [ERROR] two
lines (defmt_demo defmt/src/main.rs:29)
";

#[test]
#[ignore = "needs ci/setup --viewers"]
fn defmts_frames_are_put_into_words_and_kept_as_bytes() {
    let (stdout, run) = runner("cortex-m3-rust-defmt-Oz", &[], &[]);
    assert_eq!(stdout, LOGGED);
    let run = run.expect_code(4);
    let log = fs::read(run.dir.join("console.log")).unwrap();
    assert!(log.starts_with(&[0]) && log.ends_with(&[0]) && !run.console().contains("reading"), "{log:?}");
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn a_suite_expects_the_words_of_defmts_frames() {
    let temp = tempfile::tempdir().unwrap();
    let suite = format!(
        "[[image]]\nelf = {:?}\nexit = 4\nconsole = [\"reading Reading {{ channel: 2\", \
         {{ text = \"lines (defmt_demo\", by = \
         \"1M\" }}]\nconsole-not = [\"no defmt frame\"]\n",
        image("cortex-m3-rust-defmt-Oz")
    );
    fs::write(temp.path().join("suite.toml"), suite).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    let output = command.args(["test", "suite.toml"]).current_dir(temp.path()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// Text decoded from these bytes, given in parts of `step` bytes.
fn words(bytes: &[u8], step: usize) -> String {
    let elf = image("cortex-m3-rust-defmt-Oz");
    let mut decoder = Decoder::of(&elf, false).unwrap().expect("it logs by defmt");
    let mut out = Vec::new();
    bytes.chunks(step).for_each(|part| decoder.push(part, &mut out));
    decoder.finish(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn text_among_defmts_frames_stays_text_and_what_is_neither_is_said_to_be() {
    let (_, run) = runner("cortex-m3-rust-defmt-Oz", &[], &[]);
    let log = fs::read(run.dir.join("console.log")).unwrap();
    let frames: Vec<&[u8]> = log.split_inclusive(|&byte| byte == 0).collect();
    let mixed = [b"booting\r\nno end of line", frames[0], b"one\ntwo\n", &frames[1..].concat()].concat();
    let expected = format!("booting\r\nno end of lineone\ntwo\n{LOGGED}");
    for step in [1, 7, mixed.len()] {
        assert_eq!(words(&mixed, step), expected, "{step} bytes at a time");
    }
    let broken = [frames[0], b"\x7e\x01\xff\xfe\0", frames[1], b"and that is all\n"].concat();
    let expected = "[4 bytes are no defmt frame: 7e 01 ff fe]\na line without a level\nand that is all\n";
    assert_eq!(words(&broken, 3), expected);
    // A frame that never ends is given up.
    let endless = [&[0], &vec![1; 1 << 20][..], &[0]].concat();
    let once = words(&endless, endless.len());
    assert!(once.starts_with("[65536 bytes are no defmt frame: 01") && once.lines().count() == 16, "{once}");
    assert_eq!(words(&endless, 4096), once);
    assert!(Decoder::of(&image("cortex-m3-tt"), false).unwrap().is_none());
}
