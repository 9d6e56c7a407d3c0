// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes of images: binutils' `size -A` and `nm -S --size-sort` are the arbiters, on every image.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use harness::analysis::size::{self, Bytes, Level, Regions, Size};
use harness::image::linker_map::LinkerMap;
use harness::image::{Arch, Image, LoadOptions};
use harness::machine;
use regex::Regex;

use crate::common::built::run;
use crate::common::{harness, image, is_all, selected};

/// Output of a tool that must succeed.
fn output(tool: &str, arguments: &[&str], path: &Path) -> String {
    let output = Command::new(tool).args(arguments).arg(path).output();
    let output = output.unwrap_or_else(|error| panic!("{tool}: {error}; ci/setup --tests installs it"));
    assert!(output.status.success(), "{tool} {}", path.display());
    String::from_utf8(output.stdout).unwrap()
}

fn read(path: &Path) -> (Image, Size) {
    let bytes = fs::read(path).unwrap();
    let image = Image::from_bytes(path, &bytes, &LoadOptions::default(), None).unwrap();
    let regions = match machine::choose(&image, None, None) {
        Ok(choice) => Regions::of(&choice),
        Err(_) => Regions::default(),
    };
    let size = size::of(&bytes, &image, regions);
    (image, size)
}

/// Names, sizes and addresses of the sections that readelf calls allocated, as `size -A` prints them.
fn sections(path: &Path) -> Vec<(String, u64, u64)> {
    let listed = output("readelf", &["-SW"], path);
    let allocated: Vec<(String, u64)> = listed
        .lines()
        .filter_map(|line| {
            let (_, row) = line.split_once(']').filter(|_| line.trim_start().starts_with('['))?;
            let words: Vec<&str> = row.split_whitespace().collect();
            let address = u64::from_str_radix(words.get(2)?, 16).ok()?;
            let flags = words.get(6).filter(|flags| !flags.starts_with(|letter: char| letter.is_ascii_digit()))?;
            flags.contains('A').then(|| (words[0].to_owned(), address))
        })
        .collect();
    let sized = output("size", &["-A"], path);
    let rows = sized.lines().filter_map(|line| {
        let [name, bytes, address] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        Some((name.to_owned(), bytes.parse().ok()?, address.parse().ok()?))
    });
    let is_allocated =
        |(name, bytes, address): &(String, u64, u64)| *bytes > 0 && allocated.contains(&(name.clone(), *address));
    rows.filter(is_allocated).collect()
}

/// Whether a symbol is one of defmt's, whose names are texts in a section that takes no memory.
fn is_of_defmt(name: &str) -> bool {
    name.starts_with("{\"package\"") || name.starts_with("_defmt") || name.starts_with("__DEFMT_MARKER")
}

/// Names, addresses and sizes of the symbols that `nm -S --size-sort` prints for these sections.
fn symbols(path: &Path, arch: Arch, of: &Size) -> BTreeMap<(String, u64, u64), u64> {
    let nm = if arch == Arch::CortexM { "arm-none-eabi-nm" } else { "riscv64-unknown-elf-nm" };
    let mut symbols = BTreeMap::new();
    // On RISC-V nm takes Rust's constants, whose names begin with .L, for labels.
    for line in output(nm, &["-S", "--size-sort", "--special-syms"], path).lines() {
        let mut words = line.splitn(4, ' ');
        let mut hex = || u64::from_str_radix(words.next().unwrap(), 16).unwrap();
        let (address, bytes) = (hex(), hex());
        let name = words.nth(1).unwrap().to_owned();
        let is_inside = of.sections.iter().any(|section| {
            (section.address..=section.address.saturating_add(section.bytes)).contains(&address)
                && section.name != ".defmt"
        });
        if is_inside && !is_of_defmt(&name) {
            *symbols.entry((name, address, bytes)).or_default() += 1;
        }
    }
    symbols
}

#[test]
fn sections_are_those_of_size_and_symbols_those_of_nm_on_every_image() {
    let mut compared = 0;
    for name in selected() {
        let path = image(&name);
        let (image, size) = read(&path);
        let mut own: Vec<(String, u64, u64)> =
            size.sections.iter().map(|section| (section.name.clone(), section.bytes, section.address)).collect();
        let mut theirs = sections(&path);
        own.sort();
        theirs.sort();
        assert_eq!(own, theirs, "{name}");
        let mut own = BTreeMap::new();
        // nm prints the place of a thread's variable in its section, where other symbols have an address.
        let is_of_threads =
            |symbol: &&size::StatedSymbol| [".tdata", ".tbss"].contains(&size.sections[symbol.section].name.as_str());
        let of_threads: BTreeSet<&str> =
            size.symbols.iter().filter(is_of_threads).map(|symbol| symbol.linkage_name.as_str()).collect();
        for symbol in size.symbols.iter().filter(|symbol| !is_of_threads(symbol)) {
            if !is_of_defmt(&symbol.linkage_name) {
                *own.entry((symbol.linkage_name.clone(), symbol.address, symbol.bytes)).or_default() += 1;
            }
        }
        let mut theirs = symbols(&path, image.arch.unwrap(), &size);
        theirs.retain(|(name, ..), _| !of_threads.contains(name.as_str()));
        compared += theirs.len();
        let differing: Vec<_> = own.iter().filter(|row| theirs.get(row.0) != Some(row.1)).collect();
        let missing: Vec<_> = theirs.iter().filter(|row| own.get(row.0) != Some(row.1)).collect();
        assert!(differing.is_empty() && missing.is_empty(), "{name}: {differing:?} {missing:?}");
    }
    assert!(compared > if is_all() { 10_000 } else { 300 }, "{compared}");
}

#[test]
fn every_level_adds_up_to_the_totals_and_every_section_to_its_size_on_every_image() {
    for name in selected() {
        let (image, size) = read(&image(&name));
        for level in Level::ALL {
            let mut sum = Bytes::default();
            size.rows(level).into_values().for_each(|bytes| sum += bytes);
            assert_eq!(sum, size.total, "{name} by {}", level.word());
        }
        for (number, section) in size.sections.iter().enumerate() {
            let pieces = size.pieces.iter().filter(|piece| piece.section == Some(number));
            let mut next = section.address;
            for piece in pieces {
                assert_eq!(piece.address, next, "{name} {}: {piece:?}", section.name);
                next += piece.bytes;
            }
            assert_eq!(next, section.address + section.bytes, "{name} {}", section.name);
        }
        let loaded: u64 = image.segments.iter().map(|segment| segment.data.len() as u64).sum();
        assert_eq!(size.total.flash, loaded, "{name}");
        assert_eq!(size.flash_by_use.iter().sum::<u64>(), loaded, "{name}");
        // Where no symbol lies within another one, a symbol's bytes are all its own.
        let own: u64 = size.symbols.iter().map(|symbol| symbol.own_bytes).sum();
        let pieces = size.pieces.iter().filter(|piece| piece.kind == size::PieceKind::Symbol);
        assert!(own >= pieces.map(|piece| piece.bytes).sum::<u64>(), "{name}");
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn libraries_are_crates_and_directories() {
    let (_, size) = read(&image("cortex-m3-freertos"));
    let libraries = size.rows(Level::Library);
    assert!(libraries.keys().any(|name| name.ends_with("FreeRTOS-Kernel")), "{libraries:?}");
    let files = size.rows(Level::File);
    let heap = files.iter().find(|(name, _)| name.contains("heap_")).unwrap_or_else(|| panic!("{files:?}"));
    assert!(heap.1.ram > 1000, "ucHeap is the kernel's: {heap:?}");
    let (_, size) = read(&image("cortex-m3-rust-hello-O3"));
    let libraries = size.rows(Level::Library);
    assert!(libraries.contains_key("core"), "{libraries:?}");
    assert!(libraries.keys().any(|name| name.starts_with("cortex-m-rt ")), "{libraries:?}");
}

/// Reserved rooms in flash and in a window of a serial flash, variables in two memories, a log in RAM that is loaded.
const SEVERAL: &str = r#"
extern char stack_top[];
void reset(void);
__attribute__((section(".vec"), used)) const void *const vectors[16] = {stack_top, reset};
__attribute__((section(".store"), used)) const char store[4096];
__attribute__((section(".fast"), used)) char fast[100];
__attribute__((section(".crash"), used)) char crash[256] = {1};
char big[90 * 1024];
int initial = 7;
void reset(void) { big[5] = initial; for (;;) {} }
"#;

const SEVERAL_SCRIPT: &str = "
MEMORY {
  FLASH (rx) : ORIGIN = 0x08000000, LENGTH = 64K
  RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 96K
  CCM (rwx) : ORIGIN = 0x10000000, LENGTH = 64K
  XIP (rx) : ORIGIN = 0x90000000, LENGTH = 8M
}
SECTIONS {
  .text : { KEEP(*(.vec)) *(.text .text.*) *(.rodata .rodata.*) . = ALIGN(4); } > FLASH
  .data : { *(.data .data.*) . = ALIGN(4); } > RAM AT> FLASH
  .store (NOLOAD) : { KEEP(*(.store)) } > FLASH
  .window (NOLOAD) : { . += 8192; } > XIP
  .crash : { KEEP(*(.crash)) } > RAM
  .bss (NOLOAD) : { *(.bss .bss.* COMMON) . = ALIGN(4); } > RAM
  .fast (NOLOAD) : { KEEP(*(.fast)) } > CCM
  stack_top = ORIGIN(RAM) + LENGTH(RAM);
}
";

/// Document of `harness size`.
fn document(arguments: &[&str]) -> serde_json::Value {
    let output = harness().arg("size").args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["image"].take()
}

/// Links a source by a script to `fw.elf`. Returns the linker's table of regions.
fn link(dir: &Path, source: &str, script: &str) -> String {
    let path = |name: &str| dir.join(name);
    fs::write(path("fw.c"), source).unwrap();
    fs::write(path("fw.ld"), script).unwrap();
    let flags = ["-mcpu=cortex-m3", "-mthumb", "-O1", "-nostdlib", "-Wl,--print-memory-usage", "-T"];
    let files = [path("fw.ld"), path("fw.c"), "-o".into(), path("fw.elf")];
    let linked = Command::new("arm-none-eabi-gcc").args(flags).args(files).output().unwrap();
    assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
    String::from_utf8(linked.stdout).unwrap()
}

/// Links a source by a script, and compares each region with the linker's own table. Returns the document.
fn as_linked(source: &str, script: &str) -> serde_json::Value {
    let temp = tempfile::tempdir().unwrap();
    let table = link(temp.path(), source, script);
    let path = |name: &str| temp.path().join(name).to_str().unwrap().to_owned();
    let image = document(&[&path("fw.elf"), "--regions", &path("fw.ld")]);
    for region in image["regions"].as_array().unwrap() {
        let name = region["name"].as_str().unwrap();
        let row = table.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':')).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        let used = words[0].parse::<u64>().unwrap() * if words[1] == "KB" { 1024 } else { 1 };
        assert_eq!(region["used_bytes"], used, "{name}: {table}");
    }
    image
}

#[test]
fn memory_that_is_not_written_is_not_ram_and_regions_are_those_of_the_linkers_table() {
    let image = as_linked(SEVERAL, SEVERAL_SCRIPT);
    let used_in = |region: &str| {
        let regions = image["regions"].as_array().unwrap();
        regions.iter().find(|row| row["name"] == region).unwrap()["used_bytes"].as_u64().unwrap()
    };
    assert_eq!(image["regions"].as_array().unwrap().len(), 4);
    assert_eq!(image["neither"], serde_json::json!({".store": 4096, ".window": 8192}));
    assert_eq!(image["ram_bytes"], used_in("RAM") + used_in("CCM"));
    assert_eq!(image["flash_bytes"], used_in("FLASH") - 4096);
    // The share is that of the region that is almost full.
    let share = image["ram_bytes"].as_f64().unwrap() / image["ram_room_bytes"].as_f64().unwrap();
    let expected = used_in("RAM") as f64 / f64::from(96 * 1024);
    assert!((share - expected).abs() < 1e-4, "{share} {expected}");
}

#[test]
fn room_that_is_reserved_beside_code_is_not_ram_on_a_board_that_may_write_there() {
    let source = SEVERAL.replace("(\".fast\"), used)) char", "(\".fast\"), used)) const char");
    let script = "
MEMORY { FLASH (rx) : ORIGIN = 0, LENGTH = 64K  RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 128K }
SECTIONS {
  .text : { KEEP(*(.vec)) *(.text .text.*) *(.rodata .rodata.*) . = ALIGN(4); } > FLASH
  .data : { *(.data .data.* .crash) . = ALIGN(4); } > RAM AT> FLASH
  .store (NOLOAD) : { KEEP(*(.store)) } > FLASH
  .bss (NOLOAD) : { *(.bss .bss.* COMMON) . = ALIGN(4); } > RAM
  .fast (NOLOAD) : { KEEP(*(.fast)) } > RAM
  stack_top = ORIGIN(RAM) + LENGTH(RAM);
}
";
    let with_regions = as_linked(&source, script);
    let temp = tempfile::tempdir().unwrap();
    link(temp.path(), &source, script);
    let alone = document(&[temp.path().join("fw.elf").to_str().unwrap()]);
    assert_eq!(alone["neither"], serde_json::json!({".store": 4096}));
    for number in ["flash_bytes", "ram_bytes"] {
        assert_eq!(alone[number], with_regions[number], "{number}");
    }
}

#[test]
fn overlays_take_their_ram_once() {
    const SOURCE: &str = "
extern char stack_top[];
__attribute__((section(\".one\"), used)) int one(int a) { return a * 3 + 7; }
__attribute__((section(\".two\"), used)) int two(int a) { return a % 5 - a * a; }
__attribute__((section(\".pool_a\"), used)) char pool_a[300];
__attribute__((section(\".pool_b\"), used)) char pool_b[700];
char own[100];
void reset(void) { own[5] = 1; for (;;) {} }
";
    let script = |sections: &str| {
        format!(
            "ENTRY(reset)
MEMORY {{ FLASH (rx) : ORIGIN = 0x08000000, LENGTH = 64K RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 32K }}
SECTIONS {{ .text : {{ *(.text .text.*) . = ALIGN(4); }} > FLASH
{sections}
.bss (NOLOAD) : {{ *(.bss .bss.* COMMON) . = ALIGN(4); }} > RAM
stack_top = ORIGIN(RAM) + LENGTH(RAM); }}
"
        )
    };
    let code = "OVERLAY : { .one { KEEP(*(.one)) } .two { KEEP(*(.two)) } } > RAM AT> FLASH
.pools (NOLOAD) : { *(.pool_a .pool_b) } > RAM";
    let variables = ".code : { *(.one .two) } > FLASH
.pool_a (NOLOAD) : { KEEP(*(.pool_a)) } > RAM
.pool_b ADDR(.pool_a) (NOLOAD) : { KEEP(*(.pool_b)) } > RAM";
    for (sections, bytes) in [(code, 28 + 300 + 700 + 100), (variables, 700 + 100)] {
        let image = as_linked(SOURCE, &script(sections));
        assert_eq!((&image["ram_bytes"], &image["neither"]), (&bytes.into(), &serde_json::json!({})), "{sections}");
        assert_eq!(image["ram_room_bytes"], 32 * 1024, "{sections}");
    }
}

#[test]
fn eeprom_fuses_and_lock_bits_of_an_avr_are_neither_flash_nor_ram() {
    let temp = tempfile::tempdir().unwrap();
    let path = |name: &str| temp.path().join(name).to_str().unwrap().to_owned();
    let source = "#include <avr/io.h>\n#include <avr/eeprom.h>\nFUSES = { .low = 0xe2, .high = 0xd9, .extended = 0xff };\n\
                  LOCKBITS = 0xfc;\nunsigned char EEMEM table[300] = { 1 };\nunsigned char initial[8] = { 1 };\n\
                  volatile unsigned char zero[2];\n\
                  int main(void) { zero[0] = initial[3] + eeprom_read_byte(table + 2); for (;;) ; }\n";
    fs::write(path("ee.c"), source).unwrap();
    let flags = ["-mmcu=atmega328p", "-Os", "-o", &path("ee.elf"), &path("ee.c")];
    assert!(Command::new("avr-gcc").args(flags).status().unwrap().success());
    let sized = output("size", &["-A"], Path::new(&path("ee.elf")));
    let bytes = |section: &str| {
        let row = sized.lines().find_map(|line| line.strip_prefix(section)).unwrap();
        row.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let image = document(&[&path("ee.elf")]);
    assert_eq!(image["flash_bytes"], bytes(".text") + bytes(".data"));
    assert_eq!(image["ram_bytes"], bytes(".data") + bytes(".bss"));
    assert_eq!((&image["flash_room_bytes"], &image["ram_room_bytes"]), (&32_768.into(), &2048.into()));
    assert_eq!(image["neither"], serde_json::json!({".eeprom": 300, ".fuse": 3, ".lock": 1}));
}

#[test]
fn sizes_that_add_up_to_more_than_64_bits_end_at_the_largest_number() {
    let mut elf = fs::read(image("riscv64-smp")).unwrap();
    // Elf64_Ehdr's e_shoff and e_shnum, and of two Elf64_Shdr: sh_name, sh_type, sh_flags, sh_addr, sh_size.
    let number = |elf: &[u8], at: usize| u64::from_le_bytes(elf[at..at + 8].try_into().unwrap());
    let (headers, count) = (number(&elf, 40) as usize, usize::from(u16::from_le_bytes([elf[60], elf[61]])));
    // PROGBITS, not allocated: debug information.
    let is_other = |elf: &[u8], at: usize| elf[at + 4] == 1 && number(elf, at + 8) & 2 == 0;
    let two: Vec<usize> =
        (1..count).map(|index| headers + 64 * index).filter(|&at| is_other(&elf, at)).take(2).collect();
    let name = elf[two[0]..two[0] + 4].to_vec();
    for at in two {
        // NOBITS, allocated, of 2^63 bytes at 0.
        let header = [name.as_slice(), &[8, 0, 0, 0], &2_u64.to_le_bytes(), &0_u64.to_le_bytes()].concat();
        elf[at..at + header.len()].copy_from_slice(&header);
        elf[at + 32..at + 40].copy_from_slice(&(1_u64 << 63).to_le_bytes());
    }
    let image = Image::from_bytes(Path::new("firmware.elf"), &elf, &LoadOptions::default(), None).unwrap();
    let size = size::of(&elf, &image, Regions::default());
    assert_eq!(size.elsewhere.values().max(), Some(&u64::MAX));
}

/// Program of parts of its own, of archives and of the C library.
const PARTS: [(&str, &str); 4] = [
    (
        "main",
        "#include <stdlib.h>\n#include <string.h>\nextern int one(int), two(int); extern const char *text(void);\n\
              static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }\n\
              int values[10] = {3, 1, 2}; char copy[40]; void _exit(int status) { for (;;) {} }\n\
              int main(void) { qsort(values, 10, sizeof *values, order); strcpy(copy, text()); return one(values[0]) + two(3); }\n",
    ),
    ("one", "int kept[25]; int one(int a) { kept[a] = a; return a * 3; }\n"),
    ("two", "static int state = 7; int two(int a) { return state += a; } int never(int a) { return a / 3; }\n"),
    (
        "text",
        "const char *text(void) { return \"a text that the linker may merge\"; }\nconst short table_of_numbers[33] = {1};\n\
              const short *table(void) { return table_of_numbers; }\n",
    ),
];

/// Compiles [`PARTS`], `one` and `two` into an archive whose path has a space and parentheses, `text` into another one.
fn archived(dir: &Path, compiler: &str, flags: &[&str]) {
    let directory = dir.join("of others (1)");
    fs::create_dir_all(&directory).unwrap();
    for (name, source) in PARTS {
        fs::write(dir.join(format!("{name}.c")), source).unwrap();
        run(Command::new(compiler).current_dir(dir).args(flags).args([
            "-Os",
            "-g",
            "-ffunction-sections",
            "-c",
            &format!("{name}.c"),
        ]));
    }
    let ar = compiler.replace("gcc", "ar");
    run(Command::new(&ar).current_dir(dir).args(["rcs", "of others (1)/libparts.a", "one.o", "two.o"]));
    run(Command::new(&ar).current_dir(dir).args(["rcs", "libtext.a", "text.o"]));
}

/// Bytes by archive, added up from the lines of a map file.
fn sums(map: &str) -> BTreeMap<String, u64> {
    let gnu = r"(?m)^ [.C]\S*\s+0x[0-9a-f]+\s+0x(?<bytes>[0-9a-f]+) .*?(?<name>[^/\n]+\.a)\((?<of>)\S+\)$";
    let lld =
        r"(?m)^ *[0-9a-f]+ +[0-9a-f]+ +(?<bytes>[0-9a-f]+) +[0-9]+ {9}.*?(?<name>[^/\n]+\.a)\(\S+\):\((?<of>\S+)\)$";
    let (pattern, table) = match map.split_once("\nLinker script and memory map\n") {
        // Sections that take no memory come last.
        Some((_, table)) => (
            gnu,
            &table
                [..[".comment", ".debug_"].iter().filter_map(|name| table.find(&format!("\n{name}"))).min().unwrap()],
        ),
        None => (lld, map),
    };
    let mut sums = BTreeMap::new();
    for found in Regex::new(pattern).unwrap().captures_iter(table) {
        if ![".debug", ".comment", ".ARM.attributes"].iter().any(|name| found["of"].starts_with(name)) {
            *sums.entry(found["name"].to_owned()).or_default() += u64::from_str_radix(&found["bytes"], 16).unwrap();
        }
    }
    sums.retain(|_, bytes| *bytes > 0);
    sums
}

/// Bytes by library, with a map.
fn libraries(elf: &Path, map: &Path) -> BTreeMap<String, u64> {
    let bytes = fs::read(elf).unwrap();
    let image = Image::from_bytes(elf, &bytes, &LoadOptions::default(), None).unwrap();
    let read = LinkerMap::parse(map, &fs::read_to_string(map).unwrap()).unwrap();
    let size = size::with_map(&bytes, &image, Regions::default(), (map, &read)).unwrap();
    let mut sums = BTreeMap::new();
    size.pieces.iter().for_each(|piece| *sums.entry(piece.library.clone()).or_default() += piece.bytes);
    sums
}

/// LLD as rustup installs it, by which Rust's firmware is linked.
fn lld() -> Command {
    let version = Command::new("rustc").arg("-vV").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let root =
        String::from_utf8(Command::new("rustc").args(["--print", "sysroot"]).output().unwrap().stdout).unwrap();
    let mut lld = Command::new(format!("{}/lib/rustlib/{host}/bin/rust-lld", root.trim()));
    lld.args(["-flavor", "gnu"]);
    lld
}

/// Path of a file of the compiler.
fn file_of(compiler: &str, flags: &[&str], name: &str) -> String {
    let path = Command::new(compiler).args(flags).arg(format!("-print-file-name={name}")).output().unwrap().stdout;
    String::from_utf8(path).unwrap().trim().to_owned()
}

#[test]
fn archives_are_libraries_with_as_many_bytes_as_the_linkers_map_says() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let (arm, flags) = ("arm-none-eabi-gcc", ["-mcpu=cortex-m3", "-mthumb"]);
    archived(dir, arm, &flags);
    let own = ["main.o", "of others (1)/libparts.a", "libtext.a"];
    run(Command::new(arm)
        .current_dir(dir)
        .args(flags)
        .args(["-specs=nosys.specs", "-Wl,-Map=gnu.map", "-o", "gnu.elf"])
        .args(own));
    let libraries_of_c = ["libc.a", "libnosys.a", "libgcc.a"].map(|name| file_of(arm, &flags, name));
    run(lld().current_dir(dir).args(["-Map=lld.map", "-o", "lld.elf", "-e", "main"]).args(own).args(libraries_of_c));
    let (riscv, flags) =
        ("riscv64-unknown-elf-gcc", ["-march=rv32imac", "-mabi=ilp32", "-ffreestanding", "-isystem", "include"]);
    fs::create_dir(dir.join("riscv")).unwrap();
    let headers = dir.join("riscv/include");
    fs::create_dir(&headers).unwrap();
    fs::write(headers.join("stdlib.h"), "void qsort(void *, int, int, int (*)(const void *, const void *));")
        .unwrap();
    fs::write(headers.join("string.h"), "char *strcpy(char *, const char *);").unwrap();
    archived(&dir.join("riscv"), riscv, &flags);
    run(Command::new(riscv)
        .current_dir(dir.join("riscv"))
        .args(flags)
        .args(["-nostdlib", "-Wl,-Map=riscv.map,-e,main,--defsym=qsort=0,--defsym=strcpy=0", "-o", "riscv.elf"])
        .args(own));
    for (name, least) in [("gnu", 3), ("lld", 3), ("riscv/riscv", 2)] {
        let [elf, map] = ["elf", "map"].map(|ending| dir.join(format!("{name}.{ending}")));
        let expected = sums(&fs::read_to_string(&map).unwrap());
        assert!(
            expected.len() >= least && expected["libparts.a"] > 100 && expected["libtext.a"] > 66,
            "{name}: {expected:?}"
        );
        let mut found = libraries(&elf, &map);
        found.retain(|library, _| library.ends_with(".a"));
        assert_eq!(found, expected, "{name}");
        // The totals are the same, and objects in no archive stay where they are.
        let [elf, map] = [&elf, &map].map(|path| path.to_str().unwrap());
        let (with, without) = (document(&[elf, "--map", map]), document(&[elf]));
        for number in ["flash_bytes", "ram_bytes"] {
            assert_eq!(with[number], without[number], "{name}");
        }
        let of_main = |document: &serde_json::Value| {
            let pieces = document["pieces"].as_array().unwrap();
            pieces.iter().find(|piece| piece["name"] == "main").unwrap()["library"].clone()
        };
        assert_eq!(of_main(&with), of_main(&without), "{name}");
    }
    // A map of another build.
    let refused = |args: &[&str], why: &str| {
        let output = harness().current_dir(dir).arg("size").args(args).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(why), "{args:?}: {stderr}");
    };
    refused(&["gnu.elf", "--map", "lld.map"], "lld.map: is not the map of gnu.elf: its section ");
    refused(&["gnu.elf", "--map", "gnu.elf"], "gnu.elf: has no table of sections");
    refused(&["gnu.elf", "--map", "none.map"], "none.map: cannot be read");
    refused(&["gnu.elf", "lld.elf", "--map", "gnu.map"], "--map-after");
    refused(&["gnu.elf", "--map-after", "lld.map"], "AFTER");
    let both = ["size", "gnu.elf", "lld.elf", "--map", "gnu.map", "--map-after", "lld.map", "--by", "library"];
    let output = harness().current_dir(dir).args(both).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && table.contains("libc.a"), "{table}");
}
