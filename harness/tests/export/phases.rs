// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a format that cannot separate phases says so and names those that can, instead of leaving them out.

use harness::export::FORMATS;

use crate::common::{harness, run};

#[test]
fn formats_without_phases_refuse_them_and_name_those_that_have_them() {
    let zones = run("cortex-m3-zones", &[]).expect_code(0);
    let without = run("cortex-m3-zones-off", &[]).expect_code(0);
    let can: Vec<&str> =
        FORMATS.iter().filter(|format| format.splits_by_phase()).map(|format| format.name()).collect();
    assert_eq!(can, ["folded", "pprof", "speedscope"]);
    for format in FORMATS {
        let said = |dir: &std::path::Path| {
            let mut command = harness();
            command.arg("export").arg(dir).args(["--format", format.name(), "--by", "phase"]);
            let output = command.output().unwrap();
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let (code, text) = said(&zones.dir);
        if format.splits_by_phase() {
            assert_eq!(code, Some(0), "{}: {text}", format.name());
            let (code, text) = said(&without.dir);
            assert!(code == Some(2) && text.contains("no phase"), "{}: {text}", format.name());
        } else {
            let expected = format!("{} cannot separate phases; these can: folded, pprof, speedscope", format.name());
            assert!(code == Some(2) && text.contains(&expected), "{}: {text}", format.name());
        }
    }
}
