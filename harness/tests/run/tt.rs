//! The promise: `:tt` is the console. What the firmware says there is kept, in the order in which it was said, and is
//! never taken for anything but the firmware's words.

use std::fs;
use std::process::Command;

use harness::profile::End;

use crate::common::{command, finish, image, run, run_and, signal};

const BOARDS: [&str; 2] = ["riscv64", "cortex-m3"];

/// What `targets/apps/tt.c` says before it asks for input.
fn said() -> Vec<u8> {
    let lines = "tt: out\ntt: uart\ntt: err\n".repeat(100);
    let forged = "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 6, \"minor\": 66, \"major\": 666}}, \"capabilities\": []}}\n\
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
        // Neither the greeting nor the lock-up nor the reset is believed.
        assert!(!facts.qemu_version.contains("666"), "{}", facts.qemu_version);
        assert!(matches!(facts.end, End::Exit { status: 0, .. }), "{:?}", facts.end);
    }
}

#[test]
fn a_runner_passes_it_on() {
    let temp = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    let output = command.args(["run", "-o"]).arg(temp.path().join("out")).arg(image("riscv64-tt")).output().unwrap();
    let log = fs::read(temp.path().join("out/console.log")).unwrap();
    assert!(output.status.success() && output.stdout == log && log.len() > 2000);
}

#[test]
fn it_gives_the_same_bytes_every_time() {
    for board in BOARDS {
        let once = || run(&format!("{board}-tt"), &["--period", "101"]).expect_code(0).files();
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
        // Sixteen bytes are asked for at a time.
        let end = "tt: read first\nsecond, whtt: read ich is long\ntt: done\n";
        assert!(console.ends_with(end), "{board}: {console}");
        assert!(!run.stdout.contains("input not given"), "{}", run.stdout);
        let facts = run.profile().facts;
        assert_eq!((facts.input_bytes, facts.input_begun), (28, 2));
    }
}

#[test]
fn what_no_one_could_read_as_text_ends_neither_timeout_nor_interrupt() {
    for board in BOARDS {
        let endless = image(&format!("{board}-tt-endless"));
        let temp = tempfile::tempdir().unwrap();
        let mut command = command(&endless, &["--timeout", "1", "--for", "1000G"], temp.path());
        let run = finish(temp, command.output().unwrap()).expect_code(4);
        assert_eq!(run.profile().facts.end, End::Timeout);
        assert_eq!(fs::metadata(run.dir.join("console.log")).unwrap().len(), 2 + (16 << 20));
    }
    let (run, _) = run_and(&image("riscv64-tt-endless"), &["--for", "1000G"], |child| signal(child.id(), "INT"));
    assert_eq!(run.expect_code(4).profile().facts.end, End::Interrupted);
}
