// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timeline in JSON: valid by the published schema, with the same events as the CSV.

use std::fs;

use serde_json::Value;

use crate::common::{harness, run, tools, viewer};

#[test]
#[ignore = "needs ci/setup --viewers"]
fn json_is_what_its_schema_says_and_has_the_events_of_the_csv() {
    for (image, args) in [
        ("riscv64-zones-tasks", &["--trace", "shuffle"][..]),
        ("cortex-m3-heap4", &["--timeline", "--heap"]),
        ("cortex-m3-waits", &["--timeline"]),
    ] {
        let run = run(image, args).expect_code(0);
        let temp = tempfile::tempdir().unwrap();
        let [schema, file] = ["schema.json", "profile.json"].map(|name| temp.path().join(name));
        fs::write(&schema, harness().args(["export", "--schema"]).output().unwrap().stdout).unwrap();
        let bytes = tools::export(&run.dir, "json", &[]);
        fs::write(&file, &bytes).unwrap();
        viewer("schema.mjs", &[schema.to_str().unwrap(), file.to_str().unwrap(), "timeline.events.0.at_insns"]);
        let json: Value = serde_json::from_slice(&bytes).unwrap();
        let names = json["timeline"]["names"].as_array().unwrap();
        let name = |index: &Value| index.as_u64().map_or("", |index| names[index as usize].as_str().unwrap());
        let events = json["timeline"]["events"].as_array().unwrap().iter().map(|event| {
            let text = |key: &str| if event[key].is_null() { String::new() } else { event[key].to_string() };
            let context = name(&event["context"]).to_owned();
            let what = event["event"].as_str().unwrap().to_owned();
            let (of, why) = (name(&event["name"]).to_owned(), name(&event["why"]).to_owned());
            [text("at_insns"), text("at_ns"), text("vcpu"), context, what, of, text("value"), why]
        });
        let csv = tools::export(&run.dir, "timeline", &[]);
        let lines = csv::Reader::from_reader(&csv[..]).into_records().map(Result::unwrap).collect::<Vec<_>>();
        let expected = lines.iter().map(|line| [0, 1, 2, 3, 4, 5, 6, 7].map(|column| line[column].to_owned()));
        assert!(lines.len() > 500, "{image}: {}", lines.len());
        assert!(events.eq(expected), "{image}");
    }
    let without = run("cortex-m3-exit0", &[]).expect_code(0);
    let json: Value = serde_json::from_slice(&tools::export(&without.dir, "json", &[])).unwrap();
    assert!(json["timeline"].is_null());
}
