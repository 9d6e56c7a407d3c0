// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suites that hold one run against limits.

use crate::common::{Run, harness, image};

/// Status of a suite with an image; `lines`: what else stands there. Its files are beside the profile of a run.
pub(crate) fn suite(run: &Run, name: &str, lines: &str) -> Option<i32> {
    let (path, elf) = (run.dir.join("suite.toml"), image(name));
    std::fs::write(&path, format!("[[image]]\nelf = {elf:?}\n{lines}\n")).unwrap();
    let reports = run.dir.join("reports");
    harness().args(["test", "--no-cache", "-q", "-o"]).arg(reports).arg(path).output().unwrap().status.code()
}
