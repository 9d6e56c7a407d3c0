// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: `--timeout`, Ctrl-C and SIGTERM end a command also while no firmware runs, and leave nothing behind.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::built::{scratch, slow_to_read};
use crate::common::{harness, signal};

fn command(words: &[&str], firmware: &Path, dir: &Path) -> Command {
    let mut command = harness();
    command.args(words).args(["--for", "1k", "-o"]).arg(dir.join("out")).arg(firmware);
    command
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn an_image_that_takes_too_long_to_read_is_ended_by_timeout_and_signals() {
    let built = scratch();
    let firmware = slow_to_read(built.path());
    for (words, status) in [(&["profile"][..], 4), (&["run"], 124)] {
        let dir = scratch();
        let timeout = [words, &["--timeout", "0.5"]].concat();
        let output = command(&timeout, &firmware, dir.path()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {stderr}");
        assert!(stderr.contains("--timeout ended it before the firmware ran; no profile is kept"), "{stderr}");
        assert!(is_empty(dir.path()), "{words:?} has left something");
        for name in ["INT", "TERM"] {
            let mut command = command(words, &firmware, dir.path());
            let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            // From here on the command handles signals.
            while is_empty(dir.path()) {
                sleep(Duration::from_millis(5));
            }
            sleep(Duration::from_millis(200));
            signal(child.id(), name);
            let output = child.wait_with_output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(status), "{words:?} SIG{name}: {stderr}");
            assert!(stderr.contains("interrupted before the firmware ran; no profile is kept"), "{stderr}");
            assert!(is_empty(dir.path()), "{words:?} SIG{name} has left something");
        }
    }
}
