// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stabs, the debug information of sketches as Arduino's IDE builds them: the same lines as DWARF has for the same code.

use std::collections::BTreeMap;
use std::fs;

use harness::image::symbols::Symbols;
use harness::profile::Names;
use object::{Object as _, ObjectSection as _};

use crate::common::{harness, image, run};

/// One sketch, compiled with stabs and with DWARF.
const STABS: &str = "avr/uno-sketch-stabs";
const DWARF: &str = "avr/uno-sketch-whole";

fn names(name: &str) -> (Names, Vec<String>, Vec<u8>) {
    let bytes = fs::read(image(name)).unwrap();
    let code = object::File::parse(&*bytes).unwrap().section_by_name(".text").unwrap().data().unwrap().to_vec();
    let symbols = Symbols::new(Some(&bytes), 0, false);
    let every = symbols.ranges().into_iter().flat_map(|range| range.step_by(2)).collect::<Vec<u64>>();
    let (names, warnings) = symbols.names(&every);
    (names, warnings, code)
}

/// Names of files, without folders, and lines of all the code, by address.
fn lines(names: &Names) -> BTreeMap<u64, (&str, u32)> {
    let name = |file: u32| names.strings[file as usize].rsplit('/').next().unwrap_or_default();
    let each = names.lines.iter().flat_map(|line| {
        (line.start..line.start + line.size_bytes).map(move |address| (address, (name(line.file), line.line)))
    });
    each.collect()
}

#[test]
fn stabs_have_the_lines_and_definitions_that_dwarf_has() {
    let ((stabs, warnings, code), (dwarf, none, same_code)) = (names(STABS), names(DWARF));
    assert!(code == same_code, "the images have different code, and cannot be compared");
    assert!(none.is_empty(), "{none:?}");
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("stabs") && warnings[0].contains("-gdwarf-4"), "{warnings:?}");
    assert!(stabs.functions.iter().filter(|function| function.line.is_some()).count() > 30);
    assert_eq!(stabs.functions.len(), dwarf.functions.len());
    for (one, other) in stabs.functions.iter().zip(&dwarf.functions) {
        assert_eq!((&one.name, one.start, one.size_bytes), (&other.name, other.start, other.size_bytes));
        // The compiler's own function has no definition.
        if one.name.starts_with("_GLOBAL__sub_I_") {
            continue;
        }
        // They were compiled in folders of their own.
        let file = other.file.as_ref().map(|file| file.replace("uno-sketch-whole", "uno-sketch-stabs"));
        assert_eq!((&one.file, one.line), (&file, other.line), "{}", one.name);
    }
    let (by_stabs, by_dwarf) = (lines(&stabs), lines(&dwarf));
    assert!(by_dwarf.len() > 2_000, "{}", by_dwarf.len());
    let differ: Vec<_> = by_dwarf.iter().filter(|(address, line)| by_stabs.get(address) != Some(line)).collect();
    let more = by_stabs.keys().filter(|address| !by_dwarf.contains_key(address)).count();
    assert!(differ.is_empty() && more == 0, "{more} more; {}: {:?}", differ.len(), &differ[..differ.len().min(9)]);
}

#[test]
fn a_run_with_stabs_has_lines_in_tables_and_coverage() {
    let run = run(STABS, &[]).expect_code(0);
    assert!(run.stdout.contains("uno-sketch.cpp:"), "{}", run.stdout);
    assert_eq!(run.stderr.matches("is stabs").count(), 1, "{}", run.stderr);
    let lcov = harness().arg("coverage").arg(&run.dir).args(["--format", "lcov", "-o", "-"]).output().unwrap();
    let text = String::from_utf8(lcov.stdout).unwrap();
    assert!(lcov.status.success() && text.contains("/uno-sketch.cpp\n") && text.contains("/wiring.c\n"), "{text}");
}

/// Section of an ELF file: its offset and size in bytes.
fn range(bytes: &[u8], name: &str) -> (usize, usize) {
    let file = object::File::parse(bytes).unwrap();
    let (start, size) = file.section_by_name(name).unwrap().file_range().unwrap();
    (start as usize, size as usize)
}

#[test]
fn entries_that_share_one_long_string_are_refused_and_cost_nothing() {
    let mut bytes = fs::read(image(STABS)).unwrap();
    let ((entries, entries_size), (strings, _)) = (range(&bytes, ".stab"), range(&bytes, ".stabstr"));
    bytes[strings..strings + 4_000].fill(b'a');
    for (number, entry) in bytes[entries..entries + entries_size].chunks_exact_mut(12).enumerate().skip(3) {
        entry[..4].copy_from_slice(&(number as u32 % 2_000).to_le_bytes());
        entry[4] = 0x84;
    }
    let (names, warnings) = Symbols::new(Some(&bytes), 0, false).names(&[]);
    assert!(warnings.iter().any(|warning| warning.contains("share their strings")), "{warnings:?}");
    assert!(names.lines.is_empty());
}

#[test]
fn lines_of_a_function_whose_name_is_lost_are_no_other_codes() {
    let mut bytes = fs::read(image(STABS)).unwrap();
    let (entries, entries_size) = range(&bytes, ".stab");
    let (expected, _) = Symbols::new(Some(&bytes), 0, false).names(&[]);
    for entry in bytes[entries..entries + entries_size].chunks_exact_mut(12) {
        if entry[4] == 0x24 && entry[..4] != [0; 4] {
            entry[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        }
    }
    let (names, _) = Symbols::new(Some(&bytes), 0, false).names(&[]);
    assert!(expected.lines.len() > 200 && names.lines.is_empty(), "{:?}", names.lines.first());
}
