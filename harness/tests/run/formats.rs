// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the firmware's file format changes names, never counts.

use std::collections::BTreeSet;
use std::path::Path;

use harness::profile::Profile;

use crate::common::{Run, alone, image, run, run_file};

fn profile_file(name: &str, args: &[&str]) -> Run {
    run_file(&image(name), args).expect_code(0)
}

/// Asserts equal exact counts and samples, which do not depend on names.
#[track_caller]
fn assert_same_counts(name: &str, profile: &Profile, expected: &Profile) {
    assert!(expected.total_insns() > 0);
    assert_eq!(profile.total_insns(), expected.total_insns(), "{name}: total");
    assert_eq!(profile.insns(), expected.insns(), "{name}: executions per instruction");
    // Without symbols the starts of functions are unknown, so the stacks of samples may differ.
    let places = |profile: &Profile| -> Vec<_> {
        profile.samples.iter().map(|sample| (sample.vcpu, sample.at_insns, sample.pc)).collect()
    };
    assert_eq!(places(profile), places(expected), "{name}: samples");
}

fn called(profile: &Profile) -> Vec<(&str, u64)> {
    profile.names.functions.iter().map(|function| (&*function.name, function.start)).collect()
}

/// Asserts equal names and flamegraphs.
#[track_caller]
fn assert_same_names(name: &str, run: &Run, expected: &Run) {
    assert_eq!(run.profile().names, expected.profile().names, "{name}");
    let without_title = |run: &Run| {
        let svg = String::from_utf8(std::fs::read(run.dir.join("flamegraph.svg")).unwrap()).unwrap();
        svg.lines()
            .flat_map(|line| line.split("<g>"))
            .filter(|part| part.starts_with("<title>"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(without_title(run), without_title(expected), "{name}: flamegraph");
}

fn path(name: &str) -> String {
    image(name).to_str().unwrap().to_owned()
}

#[test]
fn hex_and_raw_count_as_the_elf_does_without_names() {
    let m3 = profile_file("cortex-m3-bare", &[]).profile();
    let riscv = profile_file("riscv64-bare", &[]).profile();
    let on_riscv = ["--load-addr", "0x80000000", "--machine", "riscv64:virt"];
    for (file, args, expected) in [
        ("cortex-m3-bare.hex", &[][..], &m3),
        ("cortex-m3-bare.bin", &["--load-addr", "0"], &m3),
        ("riscv64-bare.bin", &on_riscv, &riscv),
    ] {
        let (_dir, path) = alone(file);
        let run = run_file(&path, args).expect_code(0);
        let profile = run.profile();
        assert_same_counts(file, &profile, expected);
        assert!(profile.names.functions.is_empty() && profile.names.locations.is_empty(), "{file}");
        assert_all_unnamed(&run);
        assert_eq!(run.console(), profile_file(&expected.facts.image_name, &[]).console(), "{file}: console");
    }
}

#[test]
fn hex_and_raw_with_symbols_equal_the_elf() {
    for (elf, file, args) in [
        ("cortex-m3-bare", "cortex-m3-bare.hex", &[][..]),
        ("cortex-m3-bare", "cortex-m3-bare.bin", &["--load-addr", "0"]),
        ("riscv64-bare", "riscv64-bare.bin", &["--load-addr", "0x80000000"]),
    ] {
        let symbols = path(elf);
        let expected = profile_file(elf, &[]);
        let run = profile_file(file, &[args, &["--symbols", &symbols]].concat());
        assert_same_counts(file, &run.profile(), &expected.profile());
        let arcs = |run: &Run| run.profile().vcpus.remove(0).arcs;
        for (arc, expected) in arcs(&run).iter().zip(&arcs(&expected)) {
            assert_eq!(arc, expected, "{file}: first different arc");
        }
        assert_eq!(arcs(&run).len(), arcs(&expected).len(), "{file}: arcs");
        assert_same_names(file, &run, &expected);
        assert_eq!(run.profile().facts.machine, expected.profile().facts.machine, "{file}");
        assert!(run.profile().facts.symbols_sha256.is_some_and(|hash| hash == expected.profile().facts.image_sha256));
        assert!(!run.stderr.contains("warning"), "{}", run.stderr);
    }
}

#[test]
fn a_window_by_function_works_with_the_symbols_of_another_file() {
    let symbols = path("cortex-m3-bare");
    let window = ["--from", "crc32_bitwise", "--for", "100k", "--symbols", &symbols];
    let expected = profile_file("cortex-m3-bare", &window[..4]).profile();
    assert_eq!(expected.total_insns(), 100_000);
    assert_same_counts("hex", &profile_file("cortex-m3-bare.hex", &window).profile(), &expected);
}

/// Asserts that functions are ranges of addresses, and that all code but the machine's own boot ROM is reported as
/// unnamed.
#[track_caller]
fn assert_all_unnamed(run: &Run) {
    let profile = run.profile();
    let boot_rom = if profile.facts.machine == "virt" { 0x1000..0x2000 } else { 0..0 };
    let firmware = profile.insns().into_iter().filter(|(pc, _)| !boot_rom.contains(pc)).map(|(_, count)| count);
    let total = harness::text::number::group(firmware.sum());
    assert!(run.stdout.contains(&format!("not named: {total} instructions (100.00%)")), "{}", run.stdout);
    let rows: Vec<_> = run.stdout.lines().skip(1).take_while(|line| line.starts_with('[')).collect();
    assert!(
        rows.len() >= 3 && rows.iter().all(|row| row.starts_with("[0x") && row.contains("..0x")),
        "{}",
        run.stdout
    );
    assert!(run.stderr.contains("--symbols"), "{}", run.stderr);
}

#[test]
fn a_stripped_image_is_shown_by_address() {
    let run = profile_file("cortex-m3-bare-stripped", &[]);
    assert_same_counts("stripped", &run.profile(), &profile_file("cortex-m3-bare", &[]).profile());
    assert_all_unnamed(&run);
}

#[test]
fn a_stripped_image_with_its_symbols_equals_the_whole() {
    let whole = profile_file("cortex-m3-bare", &[]);
    let run = profile_file("cortex-m3-bare-stripped", &["--symbols", &path("cortex-m3-bare")]);
    assert_same_counts("stripped", &run.profile(), &whole.profile());
    assert_same_names("stripped", &run, &whole);
}

#[test]
fn an_image_without_dwarf_has_functions_but_no_lines() {
    let whole = profile_file("cortex-m3-bare", &[]).profile();
    let profile = profile_file("cortex-m3-bare-nodwarf", &[]).profile();
    assert_same_counts("nodwarf", &profile, &whole);
    assert_eq!(called(&profile), called(&whole));
    assert!(profile.names.functions.iter().all(|function| function.file.is_none() && function.line.is_none()));
    for stack in &profile.names.stacks {
        assert!(stack.len() == 1 && stack[0].file.is_none() && stack[0].line.is_none(), "{stack:?}");
    }
    assert!(whole.names.stacks.iter().flatten().any(|frame| frame.line.is_some()));
}

#[test]
fn a_position_independent_image_counts_the_same_wherever_it_lies() {
    const RAM: u64 = 0x8000_0000;
    let default = profile_file("riscv64-pie", &[]);
    assert_eq!(default.profile().facts.load_bias, RAM);
    for bias in [RAM, 0x8040_0000, 0x8100_0000] {
        let run = profile_file("riscv64-pie", &["--load-bias", &format!("{bias:#x}")]);
        let profile = run.profile();
        assert_eq!(profile.facts.load_bias, bias);
        // The boot ROM is not moved.
        let moved = |pc: u64| if pc >= RAM { pc - RAM + bias } else { pc };
        let expected: Vec<_> = default.profile().insns().into_iter().map(|(pc, count)| (moved(pc), count)).collect();
        assert_eq!(profile.insns().into_iter().collect::<Vec<_>>(), expected, "{bias:#x}");
        let names: Vec<_> =
            profile.names.functions.iter().map(|function| (function.name.clone(), function.start - bias)).collect();
        let expected: Vec<_> = default
            .profile()
            .names
            .functions
            .iter()
            .map(|function| (function.name.clone(), function.start - RAM))
            .collect();
        assert_eq!(names, expected, "{bias:#x}");
        // The first line of output has main's address.
        assert!(run.console().contains(&format!("main at {:x}", bias >> 16)), "{}", run.console());
        let results = |run: &Run| run.console().lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(results(&run), results(&default), "{bias:#x}");
    }
    let raw = profile_file("riscv64-pie.bin", &["--load-addr", "0x80000000", "--machine", "riscv64:virt"]);
    assert_same_counts("riscv64-pie.bin", &raw.profile(), &default.profile());
}

#[test]
fn cpp_names_are_demangled() {
    for name in ["cortex-m3-cpp", "riscv64-cpp"] {
        let profile = run(name, &[]).expect_code(0).profile();
        let function =
            profile.names.functions.iter().find(|function| function.linkage_name.contains("Thermometer4read"));
        let function = function.unwrap_or_else(|| panic!("{name}: {:?}", called(&profile)));
        assert!(function.linkage_name.starts_with("_Z"));
        assert!(function.name.starts_with("firmware::drivers::Thermometer::read("), "{name}: {}", function.name);
        assert!(function.file.as_deref().is_some_and(|file| file.ends_with("cpp.cpp")), "{function:?}");
        // Places for compilers have linkage names.
        let places: BTreeSet<u32> = profile.names.places.iter().flatten().map(|place| place.function).collect();
        let strings = profile.names.strings.iter().zip(0..).filter(|(_, index)| !places.contains(index));
        let names = profile.names.functions.iter().map(|function| &function.name);
        let mangled = strings.map(|(string, _)| string).chain(names);
        let mangled: Vec<_> = mangled.filter(|name| name.starts_with("_Z") || name.starts_with("_R")).collect();
        assert!(mangled.is_empty(), "{name}: {mangled:?}");
    }
}

#[test]
fn inlined_functions_are_frames_with_file_and_line() {
    for name in ["cortex-m3-freertos", "riscv64-freertos"] {
        let profile = run(name, &["--for", "5M"]).expect_code(0).profile();
        let names = &profile.names;
        let inlined: Vec<_> = names.stacks.iter().filter(|stack| stack.iter().any(|frame| frame.inlined)).collect();
        assert!(inlined.len() > 10, "{name}: {} stacks with inlined frames", inlined.len());
        for stack in inlined {
            assert!(!stack[0].inlined && stack[1..].iter().all(|frame| frame.inlined), "{name}: {stack:?}");
            let innermost = stack.last().unwrap();
            let file = innermost.file.map(|file| Path::new(&names.strings[file as usize]));
            assert!(
                file.is_some_and(|file| file.extension().is_some()) && innermost.line.is_some_and(|line| line > 0),
                "{name}: {stack:?}"
            );
        }
        // Each executed address of the image has a name, and its innermost frame mostly a line.
        let (named, lines) = profile.insns().keys().filter(|&&pc| names.function_at(pc).is_some()).fold(
            (0, 0),
            |(named, lines), &pc| {
                (named + 1, lines + usize::from(names.frames_at(pc).last().is_some_and(|frame| frame.line.is_some())))
            },
        );
        assert!(lines * 100 > named * 90, "{name}: {lines} of {named} addresses have a line");
    }
}
