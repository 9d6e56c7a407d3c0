// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts that are read from firmware files, and the clear message that every unusable file gets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::image::{Arch, ArmLevel, Format, Fpu, Image, LoadOptions};
use harness::machine;

use crate::common::built::{cortex_m, riscv, run, scratch};

fn open(path: &Path) -> Image {
    Image::open(path, &LoadOptions::default()).unwrap()
}

/// Error message for this file; it must name the file.
fn refused(path: &Path, options: &LoadOptions<'_>) -> String {
    let message = match Image::open(path, options) {
        Ok(image) => panic!("{} was accepted: {image:?}", path.display()),
        Err(error) => error.to_string(),
    };
    let named = options.symbols.unwrap_or(path);
    assert!(
        message.contains(&path.display().to_string()) || message.contains(&named.display().to_string()),
        "{message}"
    );
    message
}

fn refused_bytes(bytes: &[u8]) -> String {
    match Image::from_bytes(Path::new("fw.elf"), bytes, &LoadOptions::default(), None) {
        Ok(image) => panic!("accepted: {image:?}"),
        Err(error) => error.to_string(),
    }
}

fn m3(dir: &Path, name: &str) -> PathBuf {
    cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_4000).build(dir, name)
}

fn objcopy(arguments: &[&str], from: &Path, to: &Path) {
    run(Command::new("arm-none-eabi-objcopy").args(arguments).arg(from).arg(to));
}

/// Hand-made ELF file: header, one program header and some code; RISC-V, 64 bits, little-endian.
fn handmade() -> Vec<u8> {
    let mut elf = vec![0_u8; 64 + 56 + 16];
    elf[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0");
    elf[20] = 1;
    elf[24..32].copy_from_slice(&0x8000_0000_u64.to_le_bytes()); // e_entry
    elf[32] = 64; // e_phoff
    elf[52] = 64; // e_ehsize
    elf[54] = 56; // e_phentsize
    elf[56] = 1; // e_phnum
    elf[64] = 1; // PT_LOAD
    elf[68] = 5; // R X
    elf[72] = 120; // p_offset
    elf[80..88].copy_from_slice(&0x8000_0000_u64.to_le_bytes()); // p_vaddr
    elf[88..96].copy_from_slice(&0x8000_0000_u64.to_le_bytes()); // p_paddr
    elf[96] = 16; // p_filesz
    elf[104] = 32; // p_memsz
    elf
}

#[test]
fn an_arm_image_says_what_it_needs() {
    let dir = scratch();
    for (flags, level, fpu) in [
        ("-mcpu=cortex-m0", ArmLevel::V6M, Fpu::None),
        ("-mcpu=cortex-m3", ArmLevel::V7M, Fpu::None),
        ("-mcpu=cortex-m4 -mfloat-abi=soft", ArmLevel::V7EM, Fpu::None),
        ("-mcpu=cortex-m4 -mfloat-abi=hard", ArmLevel::V7EM, Fpu::V4Single),
        ("-mcpu=cortex-m7 -mfloat-abi=hard -mfpu=fpv5-sp-d16", ArmLevel::V7EM, Fpu::V5Single),
        ("-mcpu=cortex-m7 -mfloat-abi=hard -mfpu=fpv5-d16", ArmLevel::V7EM, Fpu::V5Double),
        ("-mcpu=cortex-m23", ArmLevel::V8MBase, Fpu::None),
        ("-mcpu=cortex-m33 -mfloat-abi=hard", ArmLevel::V8MMain, Fpu::V5Single),
        ("-mcpu=cortex-m55 -mfloat-abi=soft", ArmLevel::V81MMain, Fpu::None),
    ] {
        let image = open(&cortex_m(flags, 0, 0x2000_0000, 0x2000_4000).build(dir.path(), "fw"));
        let needs = image.needs.arm.clone().unwrap();
        assert_eq!((needs.level, needs.fpu), (level, fpu), "{flags}: {needs:?}");
        assert_eq!(image.arch, Some(Arch::CortexM), "{flags}");
    }
}

#[test]
fn an_elf_image_is_read_whole() {
    let dir = scratch();
    let image = open(&m3(dir.path(), "fw"));
    assert_eq!((&*image.stem, image.format), ("fw", Format::Elf));
    assert_eq!(image.initial_sp(), Some(0x2000_4000));
    let reset = image.vector_table.unwrap().reset_vector;
    assert_eq!(reset & 1, 1);
    assert_eq!(image.reset_pc(), Some(reset & !1));
    assert!(image.has_symbols);
    assert_eq!(image.segments[0].load_addr, 0);
    assert!(image.segments[0].executable);
    // Initialised data: loaded after the code, used in RAM.
    let data = image.segments.iter().find(|s| s.run_addr == 0x2000_0000).unwrap();
    assert_eq!(data.data, 42_u32.to_le_bytes());
    assert_eq!(data.load_addr, image.segments[0].load_range().end);

    let stripped = dir.path().join("stripped.elf");
    objcopy(&["--strip-all"], &dir.path().join("fw.elf"), &stripped);
    let bare = open(&stripped);
    assert!(!bare.has_symbols);
    assert_eq!(bare.segments, image.segments);
    let with =
        Image::open(&stripped, &LoadOptions { symbols: Some(&dir.path().join("fw.elf")), ..LoadOptions::default() })
            .unwrap();
    assert!(with.has_symbols && with.warnings.is_empty());
    assert_eq!(with.symbols_from, Some(dir.path().join("fw.elf")));
}

#[test]
fn a_riscv_image_says_its_extensions() {
    let dir = scratch();
    for (bits, arch) in [(64, Arch::Riscv64), (32, Arch::Riscv32)] {
        let image = open(&riscv(bits, 0x8000_0000, 0x8000_0000, 0x8001_0000).build(dir.path(), "fw"));
        assert_eq!(image.arch, Some(arch));
        let isa = image.needs.riscv.clone().unwrap();
        // Newer assemblers add the extensions that these imply.
        assert!(
            machine::riscv_extensions(&isa).starts_with(&["i", "m", "a", "c", "zicsr"].map(str::to_owned)),
            "{isa}"
        );
        assert_eq!(image.reset_pc(), image.entry);
        assert_eq!(image.initial_sp(), None);
    }
}

#[test]
fn hex_and_raw_load_the_same_bytes_as_the_elf() {
    let dir = scratch();
    let elf = m3(dir.path(), "fw");
    let (hex, bin) = (dir.path().join("fw.hex"), dir.path().join("fw.bin"));
    objcopy(&["-O", "ihex"], &elf, &hex);
    objcopy(&["-O", "binary"], &elf, &bin);
    let of_elf = open(&elf);
    let placed = LoadOptions { load_addr: Some(0), ..LoadOptions::default() };
    let nowhere = LoadOptions::default();
    for (path, format, options) in [(&hex, Format::IntelHex, &nowhere), (&bin, Format::Raw, &placed)] {
        // Without symbols the vector table shows the family; with them, the ELF says more.
        for symbols in [None, Some(&*elf)] {
            let image = Image::open(path, &LoadOptions { symbols, ..*options }).unwrap();
            assert_eq!(image.format, format);
            assert_eq!(image.arch, Some(Arch::CortexM));
            assert_eq!(image.vector_table, of_elf.vector_table);
            assert_eq!(image.segments.len(), 1);
            let bytes: Vec<u8> = of_elf.segments.iter().flat_map(|segment| segment.data.clone()).collect();
            assert_eq!(image.segments[0].data, bytes);
            assert_eq!(image.has_symbols, symbols.is_some());
            if symbols.is_some() {
                assert_eq!(image.needs, of_elf.needs);
                assert!(image.warnings.is_empty(), "{:?}", image.warnings);
            }
        }
    }
    // The extension does not matter.
    let renamed = dir.path().join("firmware");
    fs::copy(&hex, &renamed).unwrap();
    assert_eq!(open(&renamed).format, Format::IntelHex);
}

#[test]
fn a_raw_binarys_vector_table_is_found_behind_a_header() {
    let dir = scratch();
    let elf = cortex_m("-mcpu=cortex-m3", 0x0800_4000, 0x2000_0000, 0x2000_4000).build(dir.path(), "fw");
    let bin = dir.path().join("fw.bin");
    objcopy(&["-O", "binary"], &elf, &bin);
    let table = open(&elf).vector_table.unwrap();
    let handler = table.reset_vector as u32;
    // A table as the architecture has it, which the small program's own is not.
    let words = [table.initial_sp as u32, handler, handler, handler, handler, handler, handler];
    let words = words.into_iter().chain([0; 9]);
    let code = fs::read(&bin).unwrap();
    let mut bytes = vec![0xa5; 0x200];
    bytes.extend(words.flat_map(u32::to_le_bytes));
    bytes.resize(0x400, 0);
    bytes.extend(&code);
    fs::write(&bin, &bytes).unwrap();
    // The handler lies in the image.
    let load = (table.reset_vector - 0x300) & !0x7f;
    let at = |load_addr| LoadOptions { load_addr: Some(load_addr), ..LoadOptions::default() };
    let image = Image::open(&bin, &at(load)).unwrap();
    let found = image.vector_table.unwrap();
    assert_eq!(
        (found.address, found.initial_sp, image.vectors),
        (load + 0x200, table.initial_sp, Some(load + 0x200))
    );
    assert!(image.found[0].contains("512 bytes behind the file's start") && image.found[0].contains("--vectors"));
    // The user's word counts.
    let said = LoadOptions { vectors: Some(load + 0x200), ..at(load) };
    assert!(Image::open(&bin, &said).unwrap().found.is_empty());
    // Placed where its handlers are not: no table, and the message says where it may belong.
    let far = Image::open(&bin, &at(0x5000_0000)).unwrap();
    assert_eq!((far.vector_table, far.arch), (None, None));
    let error = machine::choose(&far, None, None).unwrap_err().to_string();
    assert!(error.contains("at offset 0x200 it has a vector table") && error.contains("--load-addr"), "{error}");
    assert!(error.contains("--vectors ADDRESS"), "{error}");
}

#[test]
fn symbols_of_another_build_are_noticed() {
    let dir = scratch();
    let (elf, bin) = (m3(dir.path(), "fw"), dir.path().join("fw.bin"));
    objcopy(&["-O", "binary"], &elf, &bin);
    let load = |load_addr, symbols: &Path| {
        Image::open(
            &bin,
            &LoadOptions { load_addr: Some(load_addr), symbols: Some(symbols), ..LoadOptions::default() },
        )
    };
    let message = load(0x0800_0000, &elf).unwrap_err().to_string();
    assert!(message.contains("check --load-addr"), "{message}");

    let other = cortex_m("-mcpu=cortex-m3 -O2", 0, 0x2000_0000, 0x2000_3000).build(dir.path(), "other");
    let image = load(0, &other).unwrap();
    assert!(image.warnings[0].contains("different builds"), "{:?}", image.warnings);

    let riscv = riscv(64, 0x8000_0000, 0x8000_0000, 0x8001_0000).build(dir.path(), "riscv");
    assert!(load(0, &riscv).is_err());
    let message = load(0, &bin).unwrap_err().to_string();
    assert!(message.contains("symbols are read from ELF only"), "{message}");
}

#[test]
fn files_that_are_no_firmware_get_one_clear_message() {
    let dir = scratch();
    let at = |name: &str| dir.path().join(name);
    let none = LoadOptions::default();
    let elf = m3(dir.path(), "fw");

    assert!(refused(&at("missing.elf"), &none).contains("no such file"));
    assert!(refused(dir.path(), &none).contains("is a directory"));
    assert!(refused(Path::new("/dev/null"), &none).contains("not a regular file"));
    fs::write(at("empty.elf"), "").unwrap();
    assert!(refused(&at("empty.elf"), &none).contains("is empty"));
    fs::write(at("notes.txt"), "hello").unwrap();
    assert!(refused(&at("notes.txt"), &none).contains("--load-addr"));
    fs::write(at("lib.a"), "!<arch>\nx").unwrap();
    assert!(refused(&at("lib.a"), &none).contains("static library"));
    fs::write(at("bad.hex"), ":00000001FE\n").unwrap();
    assert!(refused(&at("bad.hex"), &none).contains("line 1"));

    // The test program itself was made for the host.
    let host = std::env::current_exe().unwrap();
    let message = refused(&host, &none);
    assert!(message.contains("supported"), "{message}");

    let object = at("fw.o");
    run(Command::new("arm-none-eabi-gcc")
        .args(["-mcpu=cortex-m3", "-mthumb", "-c", "-o"])
        .arg(&object)
        .arg(at("fw.c")));
    assert!(refused(&object, &none).contains("link it first"));

    for (flags, name) in [("-mcpu=cortex-a9", "v7-A"), ("-mcpu=cortex-r5", "v7-R"), ("-mcpu=arm7tdmi", "v5TE")] {
        let application = at("application.elf");
        fs::write(at("application.c"), "void _start(void) { for (;;) {} }").unwrap();
        run(Command::new("arm-none-eabi-gcc")
            .args([flags, "-nostdlib", "-o"])
            .arg(&application)
            .arg(at("application.c")));
        let message = refused(&application, &none);
        assert!(message.contains("M profile"), "{message}");
        assert!(name == "v5TE" || message.contains(name), "{message}");
    }

    // Options for another format are refused.
    let misplaced = LoadOptions { load_addr: Some(0), ..none };
    assert!(refused(&elf, &misplaced).contains("--load-addr"));
    let moved = LoadOptions { load_bias: Some(0), ..none };
    assert!(refused(&elf, &moved).contains("--load-bias"));
    let gone = at("gone.elf");
    let symbols = LoadOptions { symbols: Some(&gone), ..none };
    assert!(refused(&elf, &symbols).contains("symbol file"));
}

#[test]
fn damaged_headers_are_named() {
    let good = handmade();
    assert!(Image::from_bytes(Path::new("fw.elf"), &good, &LoadOptions::default(), None).is_ok());
    let with = |at: usize, bytes: &[u8]| {
        let mut elf = good.clone();
        elf[at..at + bytes.len()].copy_from_slice(bytes);
        refused_bytes(&elf)
    };
    for (at, bytes, expected) in [
        (18, &[62, 0][..], "x86-64"),
        (18, &[183, 0], "AArch64"),
        (18, &[0xad, 0xde], "machine number 57005"),
        (16, &[1, 0], "link it first"),
        (16, &[4, 0], "core dump"),
        (4, &[7], "class is 7"),
        (5, &[9], "byte order is 9"),
        (64, &[3], "Linux program"), // PT_LOAD becomes PT_INTERP
        (64, &[0], "nothing to load"),
        (96, &[33], "room for 32"),
        (72, &[200], "truncated"),
        (32, &[100], "truncated"),
        (88, &[0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "beyond the last address"),
    ] {
        let message = with(at, bytes);
        assert!(message.contains(expected), "{at} {bytes:?}: {message}");
    }
    // In a big-endian file all header fields are, so the machine is, too.
    let mut big = good.clone();
    big[5] = 2;
    big[16..20].copy_from_slice(&[0, 2, 0, 243]);
    assert!(refused_bytes(&big).contains("big-endian RISC-V"));
    big[18..20].copy_from_slice(&[0, 8]);
    assert!(refused_bytes(&big).contains("MIPS"));
    // A copy cut short, anywhere.
    for len in 1..good.len() {
        let message = refused_bytes(&good[..len]);
        assert!(message.contains("truncated"), "{len}: {message}");
    }
    // Two segments at the same place.
    let mut twice = good[..120].to_vec();
    twice.extend_from_slice(&good[64..120]);
    twice.extend_from_slice(&[0; 60]);
    twice[56] = 2;
    assert!(refused_bytes(&twice).contains("same addresses"));
}

#[test]
fn a_real_elf_cut_short_is_truncated() {
    let dir = scratch();
    let bytes = fs::read(m3(dir.path(), "fw")).unwrap();
    for part in 1..40 {
        let message = refused_bytes(&bytes[..bytes.len() * part / 40]);
        assert!(message.contains("truncated"), "{part}/40: {message}");
    }
}

/// Marsaglia's xorshift with a seed: the same damage in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[test]
fn no_damage_makes_it_panic() {
    let dir = scratch();
    let elf = m3(dir.path(), "fw");
    let hex = dir.path().join("fw.hex");
    objcopy(&["-O", "ihex"], &elf, &hex);
    let riscv = riscv(64, 0x8000_0000, 0x8000_0000, 0x8001_0000).build(dir.path(), "riscv");
    let read = |path: &Path| fs::read(path).unwrap();
    let (mut opened, mut refused) = (0, 0);
    for (name, good, rounds) in [
        ("handmade.elf", handmade(), 4000),
        ("fw.elf", read(&elf), 4000),
        ("riscv.elf", read(&riscv), 2000),
        ("fw.hex", read(&hex), 1000),
        ("fw.bin", read(&elf), 500),
    ] {
        let options = LoadOptions { load_addr: name.ends_with(".bin").then_some(0), ..LoadOptions::default() };
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for round in 0..rounds {
            let mut bytes = good.clone();
            for _ in 0..=random.below(4) {
                // Half of the damage hits the headers at both ends, where it matters most.
                let at = match random.below(4) {
                    0 => random.below(bytes.len().min(256)),
                    1 => bytes.len() - 1 - random.below(bytes.len().min(1200)),
                    _ => random.below(bytes.len()),
                };
                bytes[at] = match random.below(3) {
                    0 => 0xff,
                    1 => bytes[at] ^ (1 << random.below(8)),
                    _ => random.below(256) as u8,
                };
            }
            if round % 5 == 0 {
                bytes.truncate(random.below(bytes.len()));
            }
            // Also used as symbols of the intact file, and passed to the next stages.
            match Image::from_bytes(Path::new(name), &bytes, &options, None) {
                Ok(image) => {
                    opened += 1;
                    let _ = machine::choose(&image, None, None);
                    if let Ok(choice) = machine::choose(&image, Some("virt"), None) {
                        assert!(!choice.loadable_elf(&image).is_empty());
                    }
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().len() > 20, "{error}");
                }
            }
            let _ = Image::from_bytes(Path::new(name), &good, &options, Some((Path::new("symbols.elf"), &bytes)));
        }
    }
    assert!(opened > 1000 && refused > 1000, "{opened} opened, {refused} refused");
}

#[test]
fn the_loadable_elf_has_the_same_bytes_and_nothing_else() {
    let dir = scratch();
    let paths = [
        m3(dir.path(), "fw"),
        riscv(64, 0x8000_0000, 0x8000_0000, 0x8001_0000).build(dir.path(), "r64"),
        riscv(32, 0x8000_0000, 0x8000_0000, 0x8001_0000).build(dir.path(), "r32"),
    ];
    for path in &paths {
        let image = open(path);
        let arch = image.arch.unwrap();
        let bytes = image.loadable_elf(arch, 0, 0, image.entry.unwrap());
        let again = Image::from_bytes(Path::new("again.elf"), &bytes, &LoadOptions::default(), None).unwrap();
        let loaded = |image: &Image| -> Vec<(u64, Vec<u8>)> {
            image
                .segments
                .iter()
                .filter(|segment| !segment.data.is_empty())
                .map(|segment| (segment.load_addr, segment.data.clone()))
                .collect()
        };
        assert_eq!((again.arch, again.entry), (image.arch, image.entry));
        assert_eq!(loaded(&again), loaded(&image));
        assert!(!again.has_symbols);
    }
}
