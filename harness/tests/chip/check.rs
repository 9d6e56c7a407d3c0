// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness chip check`: every chip file that comes with harness, and the mistakes of others.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::*;

fn check(file: &Path, args: &[&str]) -> Output {
    harness().args(["chip", "check"]).arg(file).args(args).output().unwrap()
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect();
    files.sort();
    files
}

fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("mine.toml");
    fs::write(&file, text).unwrap();
    (temp, file)
}

/// The check that a contributed chip file has to pass: `CHIP_FILE=my.toml cargo test --test promises chip::check::each`.
#[test]
fn each_chip_file_has_no_mistake() {
    let own = std::env::var_os("CHIP_FILE").map(PathBuf::from);
    let all = files("chips");
    assert!(all.len() > 10, "{all:?}");
    for file in all.into_iter().chain(own) {
        let output = check(&file, &["--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(document["peripherals"].as_u64().unwrap() > 0 && document["registers"].as_u64().unwrap() > 0);
        // Each file says where its facts are from.
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.lines().next().unwrap_or_default().starts_with("# "), "{}: no source", file.display());
    }
}

/// Place of the first part of a value that the schema does not allow, as far as schemas of files go; None: all fits.
fn unfit(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return unfit(root, root.pointer(reference.strip_prefix('#')?)?, value);
    }
    if let Some(any) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        // The deepest place is the one of the alternative that was meant.
        let places = any.iter().map(|one| unfit(root, one, value)).collect::<Option<Vec<String>>>()?;
        return places.into_iter().max_by_key(String::len);
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        several => several.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
    };
    let own = match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "integer",
        Value::Bool(_) => "boolean",
        Value::Null => "null",
    };
    if !types.is_empty() && !types.contains(&own) {
        return Some(String::new());
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let (Some(lacks), true) = ({ required }.find(|&key| value.get(key).is_none()), value.is_object()) {
        return Some(format!(" lacks {lacks}"));
    }
    let item = |(n, item): (usize, &Value)| Some(format!("[{n}]{}", unfit(root, schema.get("items")?, item)?));
    let key = |(key, value): (&String, &Value)| match (&schema["properties"][key], &schema["additionalProperties"]) {
        (Value::Null, Value::Bool(false)) => Some(format!(".{key}")),
        (Value::Null, further) => Some(format!(".{key}{}", unfit(root, further, value)?)),
        (property, _) => Some(format!(".{key}{}", unfit(root, property, value)?)),
    };
    let items = value.as_array().into_iter().flatten().enumerate();
    { items }.find_map(item).or_else(|| value.as_object().into_iter().flatten().find_map(key))
}

/// The published schema describes each file, and no file of another shape.
#[test]
fn each_chip_file_is_of_the_published_schema() {
    let schema = harness().args(["chip", "check", "--file-schema"]).output().unwrap().stdout;
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    let value = |text: &str| serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap();
    for file in files("chips").into_iter().chain(files("chips/kinds")) {
        let unfit = unfit(&schema, &schema, &value(&fs::read_to_string(&file).unwrap()));
        assert_eq!(unfit, None, "{}", file.display());
    }
    let unfit = |text: &str| unfit(&schema, &schema, &value(text)).unwrap_or_default();
    assert_eq!(unfit("[chip]\ncpus = \"cortex-m4\""), ".chip.cpus");
    assert_eq!(unfit("[peripherals]\nA = { at = \"here\", kind = \"x\" }"), ".peripherals.A.at");
    assert_eq!(unfit("[peripherals]\nA = { at = 16 }"), ".peripherals.A lacks kind");
}

#[test]
fn a_mistake_is_shown_with_its_line() {
    let like = "[chip]\nlike = \"stm32f407\"\n";
    for (text, expected) in [
        ("[peripherals]\nX = { at = 0x40020100, kind = \"stm32-gpio\" }\n", "mine.toml:4: X at 0x40020100 overlaps"),
        (
            "[peripherals]\nX = { at = 0x40030000, kind = \"stm32-gpoi\" }\n",
            "mine.toml:4: no kind is called stm32-gpoi; stm32-gpio is",
        ),
        ("[[memory]]\nname = \"a\"\nstart = 0\nbytes = 16\nsize = 3\n", "mine.toml:7: unknown field `size`"),
        ("[chips]\n", "mine.toml:3: unknown field `chips`"),
    ] {
        let (_temp, file) = written(&format!("{like}{text}"));
        let output = check(&file, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

/// A chip file with many memories and peripherals.
fn many(memories: u32, peripherals: u32) -> String {
    let mut text = "[chip]\ncpu = \"cortex-m3\"\nhz = 1_000_000\n".to_owned();
    for index in 0..memories {
        let start = 0x2000_0000 + index * 0x800;
        text += &format!("[[memory]]\nname = \"m{index}\"\nstart = {start}\nbytes = 1024\n");
    }
    text += "[kind.k]\nbytes = 8\n[kind.k.registers]\nR = { at = 0 }\n[peripherals]\n";
    for index in 0..peripherals {
        text += &format!("P{index} = {{ at = {}, kind = \"k\" }}\n", 0x4000_0000 + index * 0x100);
    }
    text
}

/// QEMU would end with an assertion, so the file is refused before; and the largest that passes runs.
#[test]
fn more_than_qemu_has_room_for_is_a_mistake_and_what_passes_runs() {
    for (memories, peripherals) in [(1000, 1), (1, 5000)] {
        let (_temp, file) = written(&many(memories, peripherals));
        let output = check(&file, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("QEMU has no room for that many ranges of addresses"), "{said}");
    }
    let passes = |memories: u32, peripherals: u32| {
        let (_temp, file) = written(&many(memories, peripherals));
        check(&file, &[]).status.success()
    };
    let most =
        |count: &dyn Fn(u32) -> bool| (1..6000).collect::<Vec<u32>>().partition_point(|&many| count(many)) as u32;
    let firmware = [0x2000_0400u32, 0x2000_0041].into_iter().chain([0; 14]).flat_map(u32::to_le_bytes);
    // A loop.
    let firmware: Vec<u8> = firmware.chain([0xfe, 0xe7]).collect();
    for (memories, peripherals) in [(most(&|many| passes(many, 1)), 1), (1, most(&|many| passes(1, many)))] {
        let (temp, file) = written(&many(memories, peripherals));
        let text = fs::read_to_string(&file).unwrap().replace("[chip]\n", "[chip]\nvectors = 0x20000000\n");
        fs::write(&file, text).unwrap();
        let hex = temp.path().join("loop.hex");
        fs::write(&hex, learn::hex(0x2000_0000, &firmware)).unwrap();
        let run = run_file(&hex, &["--chip", file.to_str().unwrap(), "--for", "1000"]);
        assert!(memories > 100 || peripherals > 100, "{memories} {peripherals}");
        run.expect_code(0);
    }
}

/// A number that no run can have is shown with its field, its value and its line.
#[test]
fn a_number_out_of_its_range_is_shown_with_field_value_and_line() {
    let like = "[chip]\nlike = \"stm32f407\"\n";
    let kind = "[peripherals]\nX = { at = 0x40030000, kind = \"k\" }\n[kind.k]\n";
    for (text, expected) in [
        (
            "[[memory]]\nname = \"a\"\nstart = 0\nbytes = 0x20000000\n".to_owned(),
            "mine.toml:3: memory a: `bytes` is 0x20000000, and all memories together have at most 0x10000000",
        ),
        (
            format!("{kind}bytes = 0x20000000\n"),
            "mine.toml:4: X: `bytes` of its kind is 0x20000000, and must be 0x10000000 or less",
        ),
        (
            "[[pulse]]\ninterrupt = 481\nevery = 1000\n".to_owned(),
            "mine.toml:3: `interrupt` is 481, and must be below 480",
        ),
        (
            format!(
                "{kind}[kind.k.registers]\nR = {{ at = 0 }}\n[[kind.k.counter]]\nvalue = \"R\"\nclock = 1\nbits = 65\n"
            ),
            "mine.toml:4: X: a rule of its kind k has a number out of its range (a counter has 1 to 64 bits",
        ),
    ] {
        let (_temp, file) = written(&format!("{like}{text}"));
        let output = check(&file, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

/// Registers of the file's own kinds must be in the SVD; those of a built-in kind, which serves many chips, are noted.
#[test]
fn registers_outside_of_the_svd_are_shown_with_their_lines() {
    let text = "# Mine.\n[chip]\ncpu = \"cortex-m4\"\nhz = 1_000_000\n[[memory]]\nname = \"RAM\"\nstart = 0x20000000\nbytes = 0x1000\n\
        [kind.thing.registers]\nCR = { at = 0x00 }\nSR = { at = 0x04 }\nDATA = { at = 0x08, count = 2 }\n\
        [peripherals]\nTHING = { at = 0x40000000, kind = \"thing\" }\nGPIO = { at = 0x40010000, kind = \"stm32f1-gpio\" }\n";
    let svd = |registers: &str| {
        format!(
            "<device><name>X</name><width>32</width><size>32</size><peripherals>\
             <peripheral><name>THING</name><baseAddress>0x40000000</baseAddress>\
             <addressBlock><offset>0</offset><size>0x400</size></addressBlock><registers>{registers}</registers></peripheral>\
             <peripheral><name>GPIO</name><baseAddress>0x40010000</baseAddress>\
             <addressBlock><offset>0</offset><size>0x400</size></addressBlock><registers>\
             <register><name>CRL</name><addressOffset>0</addressOffset></register></registers></peripheral>\
             </peripherals></device>"
        )
    };
    let register =
        |name: &str, at: u32| format!("<register><name>{name}</name><addressOffset>{at}</addressOffset></register>");
    let (temp, file) = written(text);
    let svd_file = temp.path().join("x.svd");
    let checked = |registers: &str| {
        fs::write(&svd_file, svd(registers)).unwrap();
        check(&file, &["--svd", svd_file.to_str().unwrap()])
    };
    let bad = checked(&[register("CR", 0), register("DATA0", 8)].concat());
    let said = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert_eq!(bad.status.code(), Some(2), "{said}");
    assert!(said.contains("mine.toml:11: THING.SR at 0x40000004 is not a register of x.svd"), "{said}");
    assert!(said.contains("mine.toml:12: THING.DATA1 at 0x4000000c is not a register of x.svd"), "{said}");
    assert!(!said.contains("DATA0") && !said.contains("CRH"), "{said}");
    let good = checked(&[register("CR", 0), register("SR", 4), register("D0", 8), register("D1", 12)].concat());
    let said = String::from_utf8_lossy(&good.stdout).into_owned();
    assert!(good.status.success() && said.contains("; no mistake\n"), "{said}");
    assert!(said.contains("note: ") && said.contains("x.svd has none of GPIO's CRH, IDR"), "{said}");
    let outside = written(&text.replace("0x40000000", "0x40020000"));
    let output = check(&outside.1, &["--svd", svd_file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("mine.toml:14: THING at 0x40020000 lies in no peripheral of x.svd"), "{said}");
    assert_eq!(output.status.code(), Some(2));
    fs::write(&svd_file, "<device>\n<name>X</nam></device>").unwrap();
    let output = check(&file, &["--svd", svd_file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("x.svd:2: not an SVD"), "{output:?}");
}
