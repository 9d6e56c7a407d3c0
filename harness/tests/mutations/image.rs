// SPDX-License-Identifier: MIT OR Apache-2.0
//! Firmware as input: an ELF with its debug information, and Intel HEX, through all readers before and after a run.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use harness::analysis::size::{self, Level, Memory, Regions};
use harness::analysis::stack_bound::{self, Program, Rules};
use harness::export::{json, size_page};
use harness::image::symbols::Symbols;
use harness::image::targets::Targets;
use harness::image::{Arch, Image, LoadOptions, kernel, mcount, pages, unwind};
use harness::machine;
use harness::show::size::{self as table, Tables};
use harness::show::stack;
use harness::show::table_size::TableSize;

use super::mutate;
use super::random::Random;
use super::session::Seed;
use crate::common::built::run;
use crate::common::{image, is_listed};

/// Small images of every kind: processor, compiler, language, unwind information, kernel, executor, instrumentation.
const ELVES: [&str; 25] = [
    "avr/uno-prologues",
    "avr/uno-sketch-stabs",
    "avr/uno-timer",
    "cortex-m0-bare-clang",
    "cortex-m0-storm-pg",
    "cortex-m3-bare",
    "cortex-m3-bare-pg-Os",
    "cortex-m3-bare-stripped",
    "cortex-m3-bytecode-nodwarf",
    "cortex-m3-cpp",
    "cortex-m3-crew",
    "cortex-m3-frames-exidx",
    "cortex-m3-freertos",
    "cortex-m3-freertos-lto",
    "cortex-m3-irq-pg",
    "cortex-m3-lm3s-rust-rtic-Oz",
    "cortex-m3-rust-embassy-Oz",
    "cortex-m3-stacks-exidx",
    "cortex-m4-nested",
    "cortex-m33-it-pg",
    "riscv32-bare-clang",
    "riscv32-bare-pg-Os",
    "riscv64-freertos-pg-O0",
    "riscv64-smp",
    "riscv64-stacks",
];

/// simavr's section of an AVR's device: name, frequency, and an unknown record.
const MMCU: &[u8] = b"\x01\x0batmega328p\0\x02\x04\0\x24\xf4\0\x63\x02\x01\x02";

pub(crate) fn elves(dir: &Path) -> Vec<Seed> {
    let names = ELVES.iter().filter(|name| is_listed(name));
    let mut seeds: Vec<Seed> =
        names.map(|name| Seed { name: (*name).to_owned(), bytes: fs::read(image(name)).unwrap() }).collect();
    let (section, elf) = (dir.join("mmcu"), dir.join("mmcu.elf"));
    fs::write(&section, MMCU).unwrap();
    let mut objcopy = Command::new("avr-objcopy");
    objcopy.arg("--add-section").arg(format!(".mmcu={}", section.display())).args(["-R", ".note.gnu.avr.deviceinfo"]);
    run(objcopy.arg(image("avr/uno")).arg(&elf));
    seeds.push(Seed { name: "mmcu".to_owned(), bytes: fs::read(&elf).unwrap() });
    seeds
}

pub(crate) fn mutated_elf(random: &mut Random, seeds: &[Seed], seed: usize) -> Vec<u8> {
    let mut bytes = seeds[seed].bytes.clone();
    mutate::elf(random, &mut bytes, &mutate::elf_parts(&seeds[seed].bytes));
    bytes
}

pub(crate) fn hexes(dir: &Path) -> Vec<Seed> {
    let avr = dir.join("avr.hex");
    run(Command::new("avr-objcopy").args(["-O", "ihex"]).arg(image("avr/uno")).arg(&avr));
    let avr = fs::read_to_string(&avr).unwrap();
    // The vectors, the start-up code and the end.
    let vectors = avr.lines().take(14).chain([":00000001FF"]).collect::<Vec<_>>().join("\n");
    let text = fs::read_to_string(image("cortex-m3-bare.hex")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // Seeds are the file's beginning, and all of it.
    let beginning = lines[..20].iter().chain(&lines[lines.len() - 2..]).copied().collect::<Vec<_>>().join("\n");
    let seed = |name: &str, bytes: String| Seed { name: name.to_owned(), bytes: bytes.into_bytes() };
    let segments = ":020000021000EC\n:10010000214601360121470136007EFE09D2190140\n:0400000300003800C1\n:00000001FF\n";
    vec![
        seed("beginning", beginning),
        seed("segments", segments.to_owned()),
        seed("whole", text),
        seed("vectors", vectors),
        seed("avr", avr),
    ]
}

pub(crate) fn mutated_hex(random: &mut Random, seeds: &[Seed], seed: usize) -> Vec<u8> {
    let mut bytes = seeds[seed].bytes.clone();
    let other = &random.pick(seeds).bytes;
    mutate::hex(random, &mut bytes, other);
    bytes
}

/// Reads an image as `measure` does, without a run: it treats some instructions as executed.
pub(crate) fn read(_: &Seed, bytes: &[u8], _: &Path) -> bool {
    let bias = if bytes.len().is_multiple_of(2) { None } else { Some(0x1000) };
    for options in [LoadOptions::default(), LoadOptions { load_bias: bias, ..LoadOptions::default() }] {
        if let Ok(image) = Image::from_bytes(Path::new("firmware.elf"), bytes, &options, None) {
            read_image(&image, bytes);
            return true;
        }
    }
    // Symbols of a raw image are read, too, although none of their bytes are loaded.
    let raw = LoadOptions { load_addr: Some(0), symbols: Some(Path::new("symbols.elf")), ..LoadOptions::default() };
    let symbols = Some((Path::new("symbols.elf"), bytes));
    if let Ok(image) = Image::from_bytes(Path::new("firmware.bin"), &[0x11; 4096], &raw, symbols) {
        read_image(&image, bytes);
    }
    false
}

pub(crate) fn read_image(image: &Image, bytes: &[u8]) {
    read_size(image, bytes);
    read_stack(image, bytes);
    let chosen = machine::choose(image, None, None);
    let forced = match image.arch {
        Some(Arch::Riscv64) => "riscv64:virt",
        Some(Arch::Riscv32) => "riscv32:virt",
        Some(Arch::Avr) => "avr:uno",
        _ => "mps2-an385",
    };
    let Ok(choice) = chosen.or_else(|_| machine::choose(image, Some(forced), None)) else { return };
    let (arch, bias) = (choice.machine.arch, choice.load_bias);
    let (arm, isa) = (arch == Arch::CortexM, choice.machine.isa.parse().expect("the table's names are decode's"));
    mcount::find(&image.segments, Some(arch), bias);
    image.loadable_elf(arch, 0, bias, choice.entry);
    let symbols = Symbols::new(Some(bytes), bias, arm);
    for wanted in ["main", "m", "0x100", "core::fmt::write", "no such function"] {
        drop(symbols.find(wanted));
    }
    let functions = symbols.ranges();
    unwind::table(Some(bytes), isa, &image.segments, bias, &functions);
    Targets::find(isa, &image.segments, bias, &functions);
    drop(kernel::find(Some(bytes), bias, arm));
    kernel::embassy::find(Some(bytes), bias, arm);
    let executed = executed(&functions);
    pages::describe_shared(bytes, arch, bias, &executed);
    for &pc in &executed {
        image.code_at(pc.wrapping_sub(bias));
    }
    functions.iter().for_each(|range| drop(image.bytes_in(range.clone())));
    symbols.names(&executed.into_iter().collect::<Vec<_>>());
}

/// Finds the sizes, and writes and compares them as `harness size` does.
fn read_size(image: &Image, bytes: &[u8]) {
    let memory = vec![Memory { name: "all".to_owned(), start: 0x1000, bytes: u64::MAX, is_writable: true }];
    for regions in [Regions::default(), Regions { from: "all".to_owned(), memory, load_bias: 0 }] {
        let size = size::of(bytes, image, regions);
        let tables = Tables { levels: Level::ALL.to_vec(), top_rows: Some(3), width_columns: Some(60) };
        let mut out = Vec::new();
        table::write(&size, &[], &tables, &mut out).unwrap();
        table::write_difference(&size, &size, &tables, &mut out).unwrap();
        table::write_markdown(&size, &[], &tables, &mut out).unwrap();
        json::size::write(&size, Some(&size), &[], &mut out).unwrap();
        size_page::write(&size, &[], &table::summary(&size), &mut out).unwrap();
    }
}

/// Finds the bounds of the stacks, and writes them as `harness stack` does.
fn read_stack(image: &Image, bytes: &[u8]) {
    let rules = Rules { bounds: [("main".to_owned(), 3)].into(), ..Rules::default() };
    let Some(program) = Program::read(bytes, image, &[], &rules) else { return };
    let rows = stack_bound::rows(&program, image, &[], &rules);
    let mut out = Vec::new();
    stack::write(&program, &rows, None, TableSize { top_rows: Some(3), ..TableSize::default() }, &mut out).unwrap();
    json::stack::write(image, &program, (&rows, &rules), None, &mut out).unwrap();
}

/// Addresses in functions, a limited number.
fn executed(functions: &[Range<u64>]) -> BTreeSet<u64> {
    let some = functions.iter().step_by((functions.len() / 24).max(1));
    some.flat_map(|range| [range.start, range.start.wrapping_add(4), range.end.wrapping_sub(2)]).collect()
}
