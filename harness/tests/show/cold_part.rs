// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a function and its seldom executed part (`parse.cold`), which gcc places elsewhere, are one function
//! wherever calls count. Only tables by symbol show both.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use crate::common::built::{self, scratch};
use crate::common::{Run, harness, run_file};

/// `parse` jumps to its part and back, `scan` to its part before it has saved anything to return.
const SOURCE: &str = r#"
volatile unsigned sink, errors;
__attribute__((noipa, cold)) void report(unsigned n) {
    volatile unsigned held[10];
    for (int i = 0; i < 10; i++) held[i] = n;
    errors += held[3] & 1;
}
__attribute__((noipa)) unsigned parse(const unsigned *from, unsigned length) {
    unsigned sum = 0;
    for (unsigned i = 0; i < length; i++) {
        if (__builtin_expect(from[i] > 90, 0)) {
            report(from[i]);
            sum ^= 0x55;
            report(sum);
            for (unsigned bit = 0; bit < 4; bit++) errors += sum >> bit;
        }
        sum = sum * 31 + from[i];
    }
    return sum;
}
__attribute__((noipa)) unsigned scan(const unsigned *from, unsigned length) {
    if (__builtin_expect(from[length - 1] > 90, 0)) { report(length); errors += length; report(length + 1); return errors; }
    return from[0] + length;
}
void reset(void) {
    static unsigned values[100];
    for (int i = 0; i < 100; i++) values[i] = i;
    for (int i = 0; i < 20; i++) sink = parse(values, 100);
    for (int i = 0; i < 30; i++) sink = scan(values, 80 + i % 20);
    host(0x18, STOPPED);
    for (;;) {}
}
"#;

fn build(dir: &Path, bits: u32) -> std::path::PathBuf {
    let target = built::riscv(bits, 0x8000_0000, 0x8000_0000, 0x8001_0000);
    target.with("-O2 -freorder-blocks-and-partition").build_source(dir, "cold", SOURCE)
}

fn export(run: &Run, format: &str) -> Vec<u8> {
    let output = harness().arg("export").arg(&run.dir).args(["-f", format]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Instructions and calls of each symbol.
fn symbols(run: &Run) -> BTreeMap<String, (u64, u64)> {
    let csv = String::from_utf8(export(run, "csv")).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        (cells[0].to_owned(), (cells[5].parse().unwrap(), cells[6].parse().unwrap()))
    };
    csv.lines().skip(1).map(row).collect()
}

#[test]
fn a_function_and_its_part_are_one_wherever_calls_count() {
    let temp = scratch();
    for (bits, options) in [(64, &["--exact"][..]), (32, &["--exact"]), (64, &["--period", "50"])] {
        let run = run_file(&build(temp.path(), bits), options).expect_code(0);
        // Each symbol has its own instructions; only functions have calls.
        let symbols = symbols(&run);
        let calls = |name: &str| symbols[name].1;
        assert_eq!(["parse", "scan", "report"].map(calls), [20, 30, 20 * 9 * 2 + 8 * 2], "{symbols:?}");
        assert_eq!(["parse.cold", "scan.cold"].map(calls), [0; 2], "{symbols:?}");
        assert!(symbols["parse.cold"].0 > 180 && symbols["scan.cold"].0 > 8, "{symbols:?}");
        // Call trees and graphs know no part.
        let folded = String::from_utf8(export(&run, "folded")).unwrap();
        let callgrind = String::from_utf8(export(&run, "callgrind")).unwrap();
        let mut pprof = Vec::new();
        flate2::read::GzDecoder::new(&export(&run, "pprof")[..]).read_to_end(&mut pprof).unwrap();
        let flamegraph = fs::read_to_string(run.dir.join("flamegraph.svg")).unwrap();
        let pprof = String::from_utf8_lossy(&pprof);
        for text in [&folded, &callgrind, &*pprof, &flamegraph] {
            assert!(text.contains("parse") && !text.contains(".cold"), "{bits} {options:?}: {text}");
        }
        let json: serde_json::Value = serde_json::from_slice(&export(&run, "json")).unwrap();
        let of = |list: &str, key: &str, value: &serde_json::Value| -> Vec<serde_json::Value> {
            json[list].as_array().unwrap().iter().filter(|row| row[key] == *value).cloned().collect()
        };
        let part = &of("functions", "name", &"parse.cold".into())[0]["address"];
        let jumps = of("arcs", "target", part);
        assert!(jumps.len() == 1 && jumps[0]["kind"] == "jump" && jumps[0]["count"] == 180, "{jumps:?}");
        assert!(of("tree", "address", part).iter().all(|node| node["calls"] == 0));
        assert_eq!(of("frames", "name", &"parse.cold".into()), [] as [serde_json::Value; 0]);
        if options != ["--exact"] {
            continue;
        }
        // What a function takes with all that it calls, by arithmetic: `report` takes as long each time.
        let insns = |name: &str| symbols[name].0;
        let with_reports = |name: &str, calls: u64| {
            insns(name) + insns(&format!("{name}.cold")) + calls * insns("report") / symbols["report"].1
        };
        let expected = [("parse", 20, with_reports("parse", 20 * 9 * 2)), ("scan", 30, with_reports("scan", 8 * 2))];
        for (name, calls, inclusive) in expected {
            let drawn = folded.lines().filter(|line| line.contains(&format!(";{name}")));
            assert_eq!(
                drawn.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum::<u64>(),
                inclusive
            );
            let called = callgrind.lines().any(|line| line.starts_with(&format!("calls={calls} ")));
            assert!(called && callgrind.contains(&format!(" {inclusive}")), "{name} {inclusive}: {callgrind}");
        }
        let longest = harness().arg("top").arg(&run.dir).args(["--sort", "max"]).output().unwrap();
        let longest = String::from_utf8(longest.stdout).unwrap();
        let row = longest.lines().find(|line| line.starts_with("parse.cold")).unwrap();
        // Share, own lines, longest, calls: the time in a part is not that of a call.
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells[4..6], ["-", "0"], "{row}");
        // Each call of parse takes as long.
        let [(.., parse), (.., scan)] = expected;
        let asserted = [
            "calls(\"parse\") == 20".to_owned(),
            "calls(\"scan\") == 30".to_owned(),
            format!("inclusive(\"parse\") == {parse}"),
            format!("inclusive(\"scan\") == {scan}"),
            format!("self(\"parse\") == {}", insns("parse") + insns("parse.cold")),
            format!("min(\"parse\") == {}", parse / 20),
            format!("mean(\"parse\") == {}", parse / 20),
            format!("max(\"parse\") == {}", parse / 20),
            format!("mean(\"scan\") == {}", (scan + 15) / 30),
            "depth(\"parse\") == 1".to_owned(),
        ];
        let suite = temp.path().join("harness.toml");
        let elf = temp.path().join("cold.elf");
        fs::write(&suite, format!("[[image]]\nelf = {elf:?}\nexit = 0\nassert = {asserted:?}\n")).unwrap();
        let output = harness().arg("test").arg(&suite).current_dir(temp.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}
