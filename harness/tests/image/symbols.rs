// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names and lines of real images, compared with GNU addr2line's, and names with damaged debug information.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use decode::Isa;
use harness::image::symbols::Symbols;
use harness::image::unwind;
use harness::profile::{Frame, Names};
use object::{Object as _, ObjectSection as _};

use crate::common::built::{self, deeply_inlined, scratch, swell};
use crate::common::{image, images_of_gcc, is_all, selected};

fn is_arm(elf: &[u8]) -> bool {
    u16::from_le_bytes([elf[18], elf[19]]) == 40
}

/// Every even address of every function; the addresses between instructions do no harm.
fn addresses(symbols: &Symbols<'_>) -> Vec<u64> {
    symbols.ranges().into_iter().flat_map(|range| range.step_by(2)).collect()
}

fn text(names: &Names, index: u32) -> &str {
    &names.strings[index as usize]
}

fn place(names: &Names, frame: &Frame) -> String {
    let file = frame.file.map_or("??", |file| text(names, file));
    format!("{file}:{}", frame.line.map_or("?".to_owned(), |line| line.to_string()))
}

/// Lines of the frames at each address by GNU addr2line, innermost first.
fn gnu(elf: &Path, arm: bool, addresses: &[u64]) -> BTreeMap<u64, Vec<String>> {
    let tool = if arm { "arm-none-eabi-addr2line" } else { "riscv64-unknown-elf-addr2line" };
    let mut command = Command::new(tool);
    command.arg("-e").arg(elf).args(["-a", "-i"]).args(addresses.iter().map(|address| format!("{address:#x}")));
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .unwrap_or_else(|error| panic!("{tool}: {error}; ci/setup --tests installs it"));
    assert!(output.status.success());
    let mut places = BTreeMap::new();
    let mut address = 0;
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        match line.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            Some(next) => address = next,
            None => {
                let place = line.split(" (discriminator").next().unwrap();
                places.entry(address).or_insert_with(Vec::new).push(folded(place));
            }
        }
    }
    places
}

/// Path without `.`, and without folders that a `..` behind them leaves: addr2line has paths as the compiler wrote them.
fn folded(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            (".", _) => {}
            ("..", Some(&last)) if !last.is_empty() && last != ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Rows of the line table by readelf, in sequences: address, and `file:line` without the file's folders.
///
/// This is the arbiter where GNU addr2line errs. On Cortex-M addr2line may use the tables of functions that the
/// linker has discarded and left at address 0, where only the vector table is. On RISC-V, binutils 2.40 gives the
/// first function of an unoptimised file the file's name instead of a header's.
fn line_table(elf: &Path) -> Vec<Vec<(u64, String)>> {
    let mut command = Command::new("arm-none-eabi-readelf");
    let output = command.arg("--debug-dump=decodedline").arg(elf).stderr(Stdio::null()).output().unwrap();
    assert!(output.status.success());
    let mut sequences = Vec::new();
    let mut rows = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        // File, line (- at the end of a sequence), address, and more.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[file, line, address, ..] = &fields[..] else { continue };
        let digits = address.strip_prefix("0x").or((address == "0").then_some(address));
        let Some(Ok(address)) = digits.map(|digits| u64::from_str_radix(digits, 16)) else { continue };
        rows.push((address, format!("{file}:{line}")));
        if line == "-" {
            sequences.push(std::mem::take(&mut rows));
        }
    }
    sequences.retain(|rows| rows.first().is_some_and(|&(address, _)| address != 0));
    sequences
}

/// Whether the line table has this place at an address.
fn has_place(sequences: &[Vec<(u64, String)>], at: u64, place: &str) -> bool {
    let there = |rows: &&Vec<(u64, String)>| rows[0].0 <= at && at < rows[rows.len() - 1].0;
    sequences.iter().filter(there).any(|rows| {
        let current = rows.iter().rev().find(|&&(address, _)| address <= at).map(|&(address, _)| address);
        let mut rows = rows.iter().filter(|&&(address, _)| Some(address) == current);
        rows.any(|(_, row)| place.ends_with(row.as_str()))
    })
}

#[test]
fn lines_and_inlined_functions_are_those_of_gnu_addr2line() {
    let gccs = images_of_gcc();
    // Counts for gcc's own code, and for other compilers', which inline and outline more.
    let mut counts = [(0, 0); 2];
    for name in selected() {
        let (compared, arbitrated) = &mut counts[usize::from(!gccs.contains(&name))];
        let path = image(&name);
        let elf = fs::read(&path).unwrap();
        let symbols = Symbols::new(Some(&elf), 0, is_arm(&elf));
        let addresses = addresses(&symbols);
        let (names, _) = symbols.names(&addresses);
        let mut rows = None;
        for (at, places) in gnu(&path, is_arm(&elf), &addresses) {
            // Skips padding, and code without debug information.
            if places.iter().any(|place| place.contains('?')) {
                continue;
            }
            let ours: Vec<String> = names.frames_at(at).iter().rev().map(|frame| place(&names, frame)).collect();
            *compared += 1;
            if ours == places {
                continue;
            }
            let rows = rows.get_or_insert_with(|| line_table(&path));
            // Assembly inside a C file has no lines; then GNU's line must be absent from the table.
            let is_right =
                if ours[0].contains('?') { !has_place(rows, at, &places[0]) } else { has_place(rows, at, &ours[0]) };
            assert!(is_right, "{name} at {at:#x}: {ours:?}, GNU {places:?}");
            *arbitrated += 1;
        }
    }
    for ((compared, arbitrated), percent) in counts.into_iter().zip([1, 15]) {
        assert!(
            arbitrated * 100 < compared * percent || compared == 0 && !is_all(),
            "{arbitrated} of {compared} addresses are not where addr2line has them"
        );
    }
    assert!(counts[0].0 > if is_all() { 10_000 } else { 1_000 }, "only {counts:?} addresses compared");
}

#[test]
fn functions_are_where_nm_says_they_are() {
    for name in ["riscv64-freertos", "cortex-m3-freertos", "cortex-m3-cpp"] {
        let elf = fs::read(image(name)).unwrap();
        let symbols = Symbols::new(Some(&elf), 0, is_arm(&elf));
        let addresses = addresses(&symbols);
        let (names, warnings) = symbols.names(&addresses);
        assert_eq!(warnings, [""; 0], "{name}");
        let nm =
            Command::new("riscv64-unknown-elf-nm").args(["-S", "--defined-only"]).arg(image(name)).output().unwrap();
        for line in String::from_utf8(nm.stdout).unwrap().lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let &[start, size, "T" | "t", linkage_name] = &fields[..] else { continue };
            // Skips data in the same section.
            if linkage_name == "vectors" {
                continue;
            }
            let start = u64::from_str_radix(start, 16).unwrap() & !1;
            let size_bytes = u64::from_str_radix(size, 16).unwrap();
            let function = names.function_at(start).unwrap_or_else(|| panic!("{name}: no function at {line}"));
            assert_eq!((function.start, function.size_bytes), (start, size_bytes), "{name}: {linkage_name}");
            assert!(function.file.is_some() && function.line.is_some(), "{function:?}");
        }
    }
}

#[test]
fn functions_are_defined_where_the_source_says() {
    for (name, function, file, text) in [
        ("riscv64-freertos", "crc_unit", "targets/apps/freertos.c", "static uint32_t crc_unit(uint32_t seed)"),
        ("cortex-m3-freertos", "crc_unit", "targets/apps/freertos.c", "static uint32_t crc_unit(uint32_t seed)"),
        ("cortex-m3-cpp", "main", "targets/apps/cpp.cpp", "int main("),
        ("riscv64-pie", "_start", "targets/ports/riscv-virt/start.S", ""),
    ] {
        let elf = fs::read(image(name)).unwrap();
        let symbols = Symbols::new(Some(&elf), 0x1000_0000, is_arm(&elf));
        let found = symbols.find(function).unwrap();
        let (names, _) = symbols.names(&[found[0].address]);
        let function = names.function_at(found[0].address).unwrap();
        assert_eq!(function.file.as_deref(), Some(file), "{name}");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let source = fs::read_to_string(root.join(file)).unwrap();
        let line = source.lines().nth(function.line.unwrap() as usize - 1).unwrap();
        assert!(line.contains(text), "{name}: {line}");
    }
}

/// Random numbers from a seed (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[test]
fn damaged_debug_information_costs_lines_and_no_names() {
    for name in ["riscv64-freertos", "cortex-m3-freertos", "cortex-m3-cpp", "riscv64-pie"] {
        let elf = fs::read(image(name)).unwrap();
        let sections: Vec<(u64, u64)> = object::File::parse(&elf[..])
            .unwrap()
            .sections()
            .filter(|section| section.name().is_ok_and(|name| name.starts_with(".debug")))
            .map(|section| section.file_range().unwrap())
            .collect();
        let symbols = Symbols::new(Some(&elf), 0, is_arm(&elf));
        let addresses = addresses(&symbols);
        let (whole, _) = symbols.names(&addresses);
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut warned = 0;
        for variation in 0..300 {
            let mut damaged = elf.clone();
            let one = random.below(sections.len() as u64) as usize;
            for _ in 0..=random.below(64) {
                let all = random.below(2) == 0;
                let (start, size) = sections[if all { random.below(sections.len() as u64) as usize } else { one }];
                damaged[(start + random.below(size)) as usize] = match random.below(4) {
                    0 => 0,
                    1 => 0xff,
                    _ => random.below(256) as u8,
                };
            }
            if variation % 10 == 0 {
                let (start, size) = sections[one];
                damaged[(start + random.below(size)) as usize..(start + size) as usize].fill(0);
            }
            let (names, warnings) = Symbols::new(Some(&damaged), 0, is_arm(&elf)).names(&addresses);
            assert!(warnings.len() <= 3, "{warnings:?}");
            warned += usize::from(!warnings.is_empty());
            let functions = |names: &Names| {
                let functions = names.functions.iter();
                functions
                    .map(|function| (function.name.clone(), function.start, function.size_bytes))
                    .collect::<Vec<_>>()
            };
            assert_eq!(functions(&names), functions(&whole), "{name}, variation {variation}");
            for &at in &addresses {
                let outermost = |names: &Names| text(names, names.frames_at(at)[0].function).to_owned();
                assert_eq!(outermost(&names), outermost(&whole), "{name}, variation {variation}, {at:#x}");
            }
        }
        assert!(warned > 50, "{name}: only {warned} of 300 variations were noticed");
    }
}

const SOURCE: &str = "\
volatile int sink;
static inline __attribute__((always_inline)) int mix(int x)
{
    sink = x;
    return x * 5;
}
__attribute__((noinline)) int discarded(int x)
{
    for (int i = 0; i < 100; i++)
        sink = mix(x) + mix(sink) * mix(i) + mix(x + i) * mix(x - i) + sink / x;
    return sink;
}
__attribute__((noinline)) int used(int x)
{
    return mix(x) + sink;
}
void reset(void)
{
    for (;;)
        used(1);
}
__attribute__((section(\".vec\"), used)) const void *const vectors[16] = { (void *)0x20001000, reset };
";

const SCRIPT: &str = "\
ENTRY(reset)
SECTIONS { .text 0 : { KEEP(*(.vec)) *(.text*) } .data 0x20000000 : { *(.data*) *(.bss*) } }
";

/// Compiles [`SOURCE`] for a flash at address 0, where the linker also places discarded code.
fn compiled(options: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.c"), SOURCE).unwrap();
    fs::write(dir.path().join("a.ld"), SCRIPT).unwrap();
    let output = Command::new("arm-none-eabi-gcc")
        .current_dir(dir.path())
        .args("-mcpu=cortex-m3 -mthumb -O2 -ffunction-sections -ffreestanding -nostdlib -Wl,--gc-sections".split(' '))
        .args(options.split(' '))
        .args(["-fdebug-prefix-map=.=src", "-T", "a.ld", "a.c", "-o", "a.elf"])
        .output()
        .unwrap_or_else(|error| panic!("arm-none-eabi-gcc: {error}; ci/setup --tests installs it"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read(dir.path().join("a.elf")).unwrap()
}

#[test]
fn every_kind_of_dwarf_is_read_and_discarded_functions_are_not_mistaken_for_code() {
    for options in ["-gdwarf-5", "-gdwarf-4", "-gdwarf-3 -gstrict-dwarf", "-g -gz", "-g1", "-g -flto"] {
        let elf = compiled(options);
        let symbols = Symbols::new(Some(&elf), 0, true);
        let start = symbols.ranges().into_iter().find(|range| range.start < 0x50).unwrap().start;
        let addresses: Vec<u64> = (start..start + 16).step_by(2).collect();
        let (names, warnings) = symbols.names(&addresses);
        assert_eq!(warnings, [""; 0], "{options}");
        let function = names.function_at(start).unwrap();
        assert!(function.name.starts_with("used") && function.line == Some(13), "{options}: {function:?}");
        let mut inlined = 0;
        for &at in &addresses {
            let frames = names.frames_at(at);
            assert!(matches!(frames[0].line, Some(13..=16)), "{options}, {at:#x}: {}", place(&names, &frames[0]));
            if let [_, inner] = frames {
                assert_eq!(text(&names, inner.function), "mix", "{options}");
                assert!(inner.inlined && matches!(inner.line, Some(2..=6)), "{options}, {at:#x}");
                inlined += 1;
            }
        }
        assert!(inlined > 0, "{options}");
    }
}

#[test]
fn split_debug_information_is_said_to_be_missing() {
    let elf = compiled("-g -gsplit-dwarf");
    let symbols = Symbols::new(Some(&elf), 0, true);
    let (names, warnings) = symbols.names(&addresses(&symbols));
    assert!(warnings.len() == 1 && warnings[0].contains("-gno-split-dwarf"), "{warnings:?}");
    let function = names.functions.iter().find(|function| function.name == "used").unwrap();
    assert!(names.frames_at(function.start)[0].line.is_some());
}

#[test]
fn without_debug_information_functions_have_names_and_no_lines() {
    let elf = fs::read(image("cortex-m3-bare-nodwarf")).unwrap();
    let symbols = Symbols::new(Some(&elf), 0, true);
    let (names, warnings) = symbols.names(&addresses(&symbols));
    assert_eq!(warnings, [""; 0]);
    assert!(names.functions.iter().any(|function| function.name == "crc32_bitwise" && function.line.is_none()));
}

#[test]
fn functions_that_are_inlined_too_deep_are_bad_debug_information() {
    let dir = scratch();
    for (depth, is_read) in [(256, true), (257, false), (30_000, false)] {
        let elf = fs::read(deeply_inlined(dir.path(), depth)).unwrap();
        let symbols = Symbols::new(Some(&elf), 0, false);
        let function = symbols.entries().find(|(name, _)| *name == "reset").unwrap().1;
        let (names, warnings) = symbols.names(&[function]);
        assert_eq!(text(&names, names.frames_at(function)[0].function), "reset");
        if is_read {
            assert_eq!((names.frames_at(function).len(), &warnings[..]), (1 + depth, &[][..]), "{depth}");
        } else {
            let expected = "the debug information cannot be read (functions are inlined into each other more than 256 \
                            deep): functions are named by symbol, without lines and inlined functions";
            assert_eq!((names.frames_at(function).len(), &warnings[..]), (1, &[expected.to_owned()][..]), "{depth}");
        }
    }
}

/// Assembly of a function `main`, whose debug information refers to one list again and again: `functions` functions of one
/// unit to 20,000 ranges, or `units` units to one line program of 60,000 rows.
fn sharing(functions: usize, units: usize) -> String {
    let list = if functions > 0 { ".uleb128 0x55; .uleb128 0x17" } else { ".uleb128 0x11; .uleb128 1" };
    let unit = |children: String| {
        format!(
            "9: .4byte 8f-9b-4\n.2byte 4\n.4byte 0\n.byte 4\n.uleb128 1; .asciz \"x\"; .4byte main; .4byte end-main; \
             .4byte 0\n{children}.byte 0\n8:\n"
        )
    };
    let units = if functions > 0 {
        unit(format!(".rept {functions}\n.uleb128 2; .asciz \"f\"; .4byte 0\n.endr\n"))
    } else {
        format!(".rept {units}\n{}.endr\n", unit(String::new()))
    };
    format!(
        ".syntax unified\n.thumb\n.text\n.global main\n.type main,%function\nmain: .rept 2000\n nop\n.endr\nend:\n\
         .size main,.-main\n\
         .section .debug_abbrev,\"\",%progbits\n.uleb128 1; .uleb128 0x11; .byte 1; .uleb128 3; .uleb128 8; \
         .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 6; .uleb128 0x10; .uleb128 0x17; .byte 0,0\n\
         .uleb128 2; .uleb128 0x2e; .byte 0; .uleb128 3; .uleb128 8; {list}; .byte 0,0\n.byte 0\n\
         .section .debug_info,\"\",%progbits\n{units}\
         .section .debug_line,\"\",%progbits\n.4byte 7f-6f\n6: .2byte 4\n.4byte 5f-4f\n\
         4: .byte 2,1,1,0xfb,14,13,0,1,1,1,1,0,0,0,1,0,0,1,0\n.asciz \"x.c\"\n.byte 0,0,0,0\n5: .byte 0,5,2\n\
         .4byte main\n.rept 60000\n.byte 0x13\n.endr\n.byte 2\n.uleb128 4000\n.byte 0,1,1\n7:\n\
         .section .debug_ranges,\"\",%progbits\n.set i,0\n.rept 20000\n.4byte (i%2000)*2, (i%2000)*2+2\n.set i,i+1\n\
         .endr\n.4byte 0,0\n"
    )
}

/// Assembles and links a file with its code at an address.
fn assembled(dir: &Path, text: &str, address: u64) -> Vec<u8> {
    let [source, object, elf] = ["s.s", "s.o", "s.elf"].map(|name| dir.join(name));
    fs::write(&source, text).unwrap();
    built::run(Command::new("arm-none-eabi-as").arg("-mcpu=cortex-m3").arg(&source).arg("-o").arg(&object));
    let text = format!("-Ttext={address:#x}");
    built::run(Command::new("arm-none-eabi-ld").args([&text, "-e", "main"]).arg(&object).arg("-o").arg(&elf));
    fs::read(elf).unwrap()
}

#[test]
fn lists_that_are_shared_too_often_are_left_out() {
    let dir = scratch();
    for (functions, units, left_out) in [(5_000, 0, "lists of ranges"), (0, 5_000, "tables of lines"), (2, 0, "")] {
        let elf = assembled(dir.path(), &sharing(functions, units), 0);
        let begun = Instant::now();
        let symbols = Symbols::new(Some(&elf), 0, true);
        let (names, warnings) = symbols.names(&addresses(&symbols));
        // Without the bound this takes minutes and gigabytes.
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        let is_said = warnings.iter().any(|warning| warning.contains("more often than any compiler's does"));
        assert_eq!(is_said, !left_out.is_empty(), "{warnings:?}");
        assert!(warnings.iter().all(|warning| warning.contains(left_out)), "{warnings:?}");
        // The rest of the file serves.
        assert!(names.functions.iter().any(|function| function.name == "main"));
        assert!(!names.frames_at(0x10).is_empty() && !names.lines.is_empty());
    }
}

#[test]
fn a_function_with_the_line_of_its_header_is_where_its_code_is() {
    let dir = scratch();
    let [source, elf] = ["a.c", "a.elf"].map(|name| dir.path().join(name));
    // The 3 marks a system header, whose line gcc keeps.
    let text = "# 7 \"inc/api.h\" 3\nvoid *memset(void *, int, unsigned);\nvoid *malloc(unsigned);\nint plain(int);\n\
                # 20 \"src/api.c\"\nvoid *memset(void *to, int byte, unsigned n) { char *at = to; while (n--) *at++ = byte; \
                return to; }\nvoid *malloc(unsigned n) { return (void *)(n * 7); }\nint plain(int a) { return a * 3; }\n\
                int main(void) { return plain(2) + (int)malloc(7) + *(char *)memset((void *)64, 5, 6); }\n";
    for options in ["-gdwarf-4", "-gdwarf-5", "-g -flto"] {
        fs::write(&source, text).unwrap();
        let flags = "-mcpu=cortex-m3 -mthumb -O1 -fno-inline -nostdlib -Wl,-e,main -o";
        built::run(
            Command::new("arm-none-eabi-gcc").args(options.split(' ')).args(flags.split(' ')).arg(&elf).arg(&source),
        );
        let elf = fs::read(&elf).unwrap();
        let (names, _) = Symbols::new(Some(&elf), 0, true).names(&[]);
        for (name, line) in [("memset", 20), ("malloc", 21), ("plain", 22), ("main", 23)] {
            let function = names.functions.iter().find(|function| function.name == name).unwrap();
            assert!(
                function.file.as_ref().is_some_and(|file| file.ends_with("/src/api.c")),
                "{options}: {function:?}"
            );
            assert_eq!(function.line, Some(line), "{options}: {name}");
        }
    }
}

/// Assembly of `main`, which has `mix` inlined, and of `fold`. Both are declared in partial units, as dwz writes them for
/// DWARF 4: `before` and `after` the unit with the code, all with its line program.
fn partial(before: usize, after: usize) -> String {
    let header = "9: .4byte 8f-9b-4\n.2byte 4\n.4byte 0\n.byte 4\n";
    let unused = format!("{header}.uleb128 2; .4byte 0; .asciz \"/fw\"\n.byte 0\n8:\n");
    let used = format!(
        "{header}part: .uleb128 2; .4byte 0; .asciz \"/fw\"\nmix: .uleb128 3; .asciz \"mix\"; .byte 1,2,1\n\
         fold_: .uleb128 3; .asciz \"fold\"; .byte 1,5,1\n.byte 0\n8:\n"
    );
    let code = format!(
        "{header}.uleb128 1; .asciz \"x.c\"; .asciz \"/fw\"; .4byte start; .4byte end-start; .4byte 0\n\
         .uleb128 6; .4byte part-info\n.uleb128 4; .asciz \"main\"; .byte 1,9; .4byte start; .4byte mid-start\n\
         .uleb128 5; .4byte mix-info; .4byte start+4; .4byte 8; .byte 1,10\n.byte 0\n\
         .uleb128 7; .4byte fold_-info; .4byte mid; .4byte end-mid\n.byte 0\n8:\n"
    );
    let units = |count: usize| match count {
        0 => String::new(),
        count => format!("{used}.rept {}\n{unused}.endr\n", count - 1),
    };
    format!(
        ".syntax unified\n.thumb\n.text\n.global main, fold\n.type main,%function\n.type fold,%function\nstart:\nmain: .rept 8\n \
         nop\n.endr\n.size main,.-main\nmid:\nfold: bx lr\n bx lr\nend: .size fold,.-fold\n\
         .section .debug_abbrev,\"\",%progbits\n\
         .byte 1,0x11,1, 3,8, 0x1b,8, 0x11,1, 0x12,6, 0x10,0x17, 0,0\n.byte 2,0x3c,1, 0x10,0x17, 0x1b,8, 0,0\n\
         .byte 3,0x2e,0, 3,8, 0x3a,11, 0x3b,11, 0x20,11, 0,0\n\
         .byte 4,0x2e,1, 3,8, 0x3a,11, 0x3b,11, 0x11,1, 0x12,6, 0,0\n\
         .byte 5,0x1d,0, 0x31,0x10, 0x11,1, 0x12,6, 0x58,11, 0x59,11, 0,0\n.byte 6,0x3d,0, 0x18,0x10, 0,0\n\
         .byte 7,0x2e,0, 0x31,0x10, 0x11,1, 0x12,6, 0,0\n.byte 0\n\
         .section .debug_info,\"\",%progbits\ninfo:\n{}{code}{}\
         .section .debug_line,\"\",%progbits\n.4byte 7f-6f\n6: .2byte 4\n.4byte 5f-4f\n\
         4: .byte 2,1,1,0xfb,14,13,0,1,1,1,1,0,0,0,1,0,0,1,0\n.asciz \"x.c\"\n.byte 0,0,0,0\n5: .byte 0,5,2\n\
         .4byte start\n.byte 3,8,1, 2,2,3,0x7a,1, 2,4,3,8,1, 2,2,3,0x7a,1, 2,2,0,1,1\n7:\n",
        units(before),
        units(after)
    )
}

#[test]
fn functions_declared_in_partial_units_are_inlined_and_have_their_places() {
    let dir = scratch();
    for (before, after, address) in [(1, 0, 0), (1, 0, 0x8000), (0, 1, 0x8000), (3, 0, 0), (0, 5_000, 0x8000)] {
        let elf = assembled(dir.path(), &partial(before, after), address);
        let symbols = Symbols::new(Some(&elf), 0, true);
        let (names, warnings) = symbols.names(&addresses(&symbols));
        let case = format!("{before} before, {after} after, at {address:#x}");
        assert_eq!(warnings, [""; 0], "{case}");
        let frames = |at: u64| {
            let frames = names.frames_at(address + at).iter();
            frames
                .map(|frame| format!("{} {}", text(&names, frame.function), place(&names, frame)))
                .collect::<Vec<_>>()
        };
        assert_eq!(frames(2), ["main /fw/x.c:9"], "{case}");
        assert_eq!(frames(6), ["main /fw/x.c:10", "mix /fw/x.c:3"], "{case}");
        assert_eq!(frames(12), ["main /fw/x.c:11"], "{case}");
        let fold = names.functions.iter().find(|function| function.name == "fold").unwrap();
        assert_eq!((fold.file.as_deref(), fold.line), (Some("/fw/x.c"), Some(5)), "{case}");
    }
}

/// Runs objcopy on a file, and returns the result.
fn copied(elf: &[u8], arguments: &[&str]) -> Vec<u8> {
    let dir = scratch();
    let [from, to, debug, link] = ["a.elf", "b.elf", "fw.debug", "link"].map(|name| dir.path().join(name));
    fs::write(&from, elf).unwrap();
    fs::write(debug, elf).unwrap();
    fs::write(link, b"../shared.dwz\0\x01\x02\x03\x04").unwrap();
    let mut command = Command::new("arm-none-eabi-objcopy");
    built::run(command.current_dir(dir.path()).args(arguments).arg(&from).arg(&to));
    fs::read(to).unwrap()
}

#[test]
fn debug_information_in_another_file_is_said_to_be_missing() {
    let elf = compiled("-g");
    let warnings = |arguments: &[&str]| {
        let elf = copied(&elf, arguments);
        let symbols = Symbols::new(Some(&elf), 0, true);
        symbols.names(&addresses(&symbols)).1
    };
    assert_eq!(warnings(&[]), [""; 0]);
    assert_eq!(warnings(&["--add-gnu-debuglink=fw.debug"]), [""; 0]);
    assert_eq!(warnings(&["-g"]), [""; 0]);
    for (arguments, part) in [
        (&["-g", "--add-gnu-debuglink=fw.debug"][..], "is in another file, fw.debug (.gnu_debuglink)"),
        (
            &["-S", "--add-gnu-debuglink=fw.debug"],
            "give the file that it names, fw.debug (.gnu_debuglink), with --symbols",
        ),
        (&["-S"], "give the unstripped file with --symbols"),
        (&["--add-section=.gnu_debugaltlink=link"], "in ../shared.dwz (.gnu_debugaltlink), which is not read"),
    ] {
        let warnings = warnings(arguments);
        assert!(warnings.len() == 1 && warnings[0].contains(part), "{arguments:?}: {warnings:?}");
    }
}

#[test]
fn damage_of_the_last_section_header_loses_nothing_without_a_warning() {
    let elf = compiled("-g");
    let word = |at: usize| u32::from_le_bytes(elf[at..at + 4].try_into().unwrap());
    let half = |at: usize| usize::from(u16::from_le_bytes([elf[at], elf[at + 1]]));
    let last = word(32) as usize + 40 * (half(48) - 1);
    assert_eq!(half(48) - 1, half(50), "the last section has the sections' names");
    // Name, type, flags, address, offset, size.
    for (field, value) in [(0, None), (4, None), (16, None), (20, None), (16, Some(0xffff_fff0)), (20, Some(3))] {
        let mut damaged = elf.clone();
        match value {
            Some(value) => damaged[last + field..last + field + 4].copy_from_slice(&u32::to_le_bytes(value)),
            None => damaged[last + field..last + 40].fill(0),
        }
        let symbols = Symbols::new(Some(&damaged), 0, true);
        let (names, warnings) = symbols.names(&addresses(&symbols));
        let used = names.functions.iter().find(|function| function.name == "used").unwrap();
        let is_said = warnings.iter().any(|warning| warning.contains("the names of the ELF file's sections"));
        assert_eq!(is_said, used.line.is_none(), "{field} {value:?}: {warnings:?}");
    }
}

#[test]
fn compressed_sections_that_would_fill_the_memory_are_bad_debug_information() {
    let dir = scratch();
    let compressed = dir.path().join("compressed.elf");
    for (name, tool) in
        [("cortex-m3-freertos", "arm-none-eabi-objcopy"), ("riscv64-freertos", "riscv64-unknown-elf-objcopy")]
    {
        for (kind, section) in [("zlib", ".debug_info"), ("zlib-gnu", ".zdebug_info")] {
            let option = format!("--compress-debug-sections={kind}");
            built::run(Command::new(tool).arg(option).arg(image(name)).arg(&compressed));
            let mut elf = fs::read(&compressed).unwrap();
            let warnings = |elf: &[u8]| {
                let arm = is_arm(elf);
                let symbols = Symbols::new(Some(elf), 0, arm);
                let isa = if arm { Isa::ThumbV7m } else { Isa::Riscv64 };
                let table = unwind::table(Some(elf), isa, &[], 0, &symbols.ranges());
                [symbols.names(&[]).1, table.warnings].concat()
            };
            assert_eq!(warnings(&elf), [""; 0], "{name} {kind}");
            swell(&mut elf, section, 3 << 30);
            let found = warnings(&elf);
            let beginnings = ["the debug information cannot be read (", "the unwind information is damaged ("];
            assert_eq!(found.len(), 2, "{name} {kind}: {found:?}");
            for (warning, beginning) in found.iter().zip(beginnings) {
                let why = warning.strip_prefix(beginning).unwrap_or_else(|| panic!("{warning}"));
                assert!(
                    why.starts_with("its compressed sections would take 32") && why.contains("believed"),
                    "{why}"
                );
            }
        }
    }
}

/// A unit with a function at the highest address, as a linker marks one that it has discarded, and one that is there.
const DISCARDED: &str = r#"
__asm__(".pushsection .debug_abbrev,\"\",@progbits\n.Labbrev:\n"
    ".byte 1, 0x11, 1, 0x13, 5, 0x11, 1, 0x12, 7, 0, 0\n.byte 2, 0x2e, 0, 3, 8, 0x11, 1, 0x12, 7, 0, 0, 0\n.popsection\n"
    ".pushsection .debug_info,\"\",@progbits\n.4byte .Lend - .Lbegin\n.Lbegin:\n.2byte 4\n.4byte .Labbrev\n.byte 8\n"
    ".byte 1\n.2byte 12\n.8byte there\n.8byte 4\n"
    ".byte 2\n.asciz \"discarded\"\n.8byte -1\n.8byte 16\n.byte 2\n.asciz \"by_debug_information\"\n.8byte there\n.8byte 4\n"
    ".byte 0\n.Lend:\n.popsection\n.text\n.option push\n.option norvc\n.type there, %function\nthere: ret\n.size there, 4\n"
    ".option pop\n");
void there(void);
void reset(void) { there(); host(0x18, STOPPED); for (;;) {} }
"#;

/// gimli's sum ends a debug build.
#[test]
fn a_range_that_ends_behind_the_last_address_is_none() {
    let dir = scratch();
    let path = built::riscv(64, 0x8000_0000, 0x8002_0000, 0x8003_0000).build_source(dir.path(), "tombs", DISCARDED);
    let elf = fs::read(path).unwrap();
    let symbols = Symbols::new(Some(&elf), 0, false);
    let there = symbols.find("there").unwrap()[0].address;
    let (names, warnings) = symbols.names(&[there]);
    assert_eq!(warnings, [""; 0]);
    assert_eq!(text(&names, names.frames_at(there)[0].function), "there");
}
