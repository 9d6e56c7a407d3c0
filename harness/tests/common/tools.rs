// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that people open exports with. A missing program is a failure that names the command to run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Command for a program of the system.
pub fn system(name: &str) -> Command {
    let found = Command::new(name).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(found.is_ok(), "{name} does not start ({found:?}): run ci/setup --viewers, which installs it");
    Command::new(name)
}

/// Command for a program that `ci/setup --viewers` installs with cargo, into the user's cache.
pub fn cargo(name: &str) -> Command {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let path = cache.expect("HOME is set").join("harness/tools/bin").join(name);
    assert!(path.is_file(), "{} is missing: run ci/setup --viewers, which installs it", path.display());
    Command::new(path)
}

/// Output of a command, which must succeed.
#[track_caller]
pub fn stdout(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let stdout = String::from_utf8(stdout).unwrap();
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{}", String::from_utf8_lossy(&stderr));
    stdout
}

/// Export of a profile by harness. A second export must be identical.
#[track_caller]
pub fn export(profile: &Path, format: &str, args: &[&str]) -> Vec<u8> {
    let once = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
        command.arg("export").arg(profile).args(["--format", format]).args(args);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let bytes = once();
    assert!(bytes == once(), "two exports as {format} differ");
    bytes
}

/// Exit code and messages of an export whose reader has gone.
pub fn export_to_nobody(profile: &Path, format: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command.arg("export").arg(profile).args(["--format", format]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}
