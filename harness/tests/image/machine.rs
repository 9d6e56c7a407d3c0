// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the table of machines against QEMU, and the rule that picks one against its promises.

use std::fs;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};

use harness::image::{Arch, Image, LoadOptions};
use harness::machine::{Choice, Core, LoadOption, MACHINES, Machine, MemoryKind, choose, riscv_extensions};
use harness::run::qemu::memory;

use crate::common::built::{self, cortex_m, riscv, scratch};

fn open(path: &Path) -> Image {
    Image::open(path, &LoadOptions::default()).unwrap()
}

fn chosen(path: &Path) -> Choice {
    choose(&open(path), None, None).unwrap()
}

fn machine(name: &str) -> &'static Machine {
    MACHINES.iter().find(|machine| machine.name == name).unwrap()
}

/// Answer of QEMU's monitor; the machine is halted before its first instruction.
fn ask_monitor(qemu: &str, machine: &str, question: &str) -> String {
    let mut child = Command::new(qemu)
        .args(["-M", machine, "-display", "none", "-S", "-monitor", "stdio"])
        .args(["-serial", "none"])
        // AVR has no firmware of its own, and takes the word for a file.
        .args(if qemu == "qemu-system-avr" { &[][..] } else { &["-bios", "none"] })
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{qemu}: {error}; ci/setup --tests installs it"));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("{question}\nquit\n").as_bytes()).unwrap();
    drop(stdin);
    let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    // A prompt for the next question follows the answer.
    said.rsplit_once("(qemu) ").unwrap_or_else(|| panic!("{machine}: {said}")).0.to_owned()
}

/// Memory that the processor sees: the view `cpu-memory-0` of `info mtree -f`.
fn memory_seen(mtree: &str) -> Vec<Range<u64>> {
    let view = mtree.split("FlatView #").find(|view| view.contains("AS \"cpu-memory-0\"")).unwrap();
    view.lines()
        .filter_map(|line| {
            let (range, rest) = line.trim().split_once(" (prio ")?;
            let (_, rest) = rest.split_once(", ")?;
            let memory = ["ram):", "rom):", "romd):", "i/o): tz-mpc-upstream"];
            memory.iter().find(|kind| rest.starts_with(**kind))?;
            let (first, last) = range.split_once('-')?;
            let hex = |text| u64::from_str_radix(text, 16).unwrap();
            Some(hex(first)..hex(last) + 1)
        })
        .collect()
}

/// Sorted ranges with neighbours joined.
fn joined(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => joined.push(range.clone()),
        }
    }
    joined
}

#[test]
fn the_memory_of_machines_that_are_not_in_the_table_is_read() {
    let arm = ["mps2-an511", "lm3s811evb", "emcraft-sf2"];
    // Two processors with the same memory.
    let two = ["mps2-an521", "mps3-an524", "musca-a", "musca-b1"];
    let riscv = ["sifive_u", "spike"];
    let machines = arm.iter().chain(&two).map(|name| ("qemu-system-arm", *name));
    for (qemu, name) in machines.chain(riscv.map(|name| ("qemu-system-riscv64", name))) {
        let tree = ask_monitor(qemu, name, memory::QUESTION);
        assert_eq!(memory::read(&tree), Ok(joined(&memory_seen(&tree))), "{name}");
    }
}

#[test]
fn memory_and_processors_are_what_qemu_says() {
    for machine in MACHINES {
        let tree = ask_monitor(machine.qemu, &machine.name, memory::QUESTION);
        let seen = memory_seen(&tree);
        assert_eq!(memory::read(&tree).unwrap(), joined(&seen), "{}", machine.title());
        for region in machine.memory.iter() {
            // Settings of an AVR, and the contents of its EEPROM, have addresses in ELF files alone.
            if machine.arch == Arch::Avr && matches!(region.kind, MemoryKind::Settings | MemoryKind::Contents) {
                assert!(!seen.iter().any(|range| range.start < region.range().end && region.start < range.end));
                continue;
            }
            if region.kind == MemoryKind::Settings {
                let line = format!("{:016x}-{:016x} (prio 0, i/o)", region.start, region.range().end - 1);
                assert!(tree.contains(&line), "{}: {region:x?}", machine.title());
                continue;
            }
            let mut at = region.start;
            while at < region.range().end {
                let part = seen.iter().find(|range| range.contains(&at));
                at = part
                    .unwrap_or_else(|| panic!("{}: nothing at {at:#x} of {region:x?}: {seen:x?}", machine.title()))
                    .end
                    .min(region.range().end);
            }
            assert_eq!(at, region.range().end, "{}: {region:x?}", machine.title());
        }
        let cpu = match machine.core {
            Core::Arm { cpu, .. } => format!("({cpu}-arm-cpu)"),
            Core::RiscvChip { cpu, .. } => format!("({cpu}-riscv-cpu)"),
            Core::Riscv | Core::Unknown => "-riscv-cpu)".to_owned(),
            Core::Avr { family, .. } => format!("(avr{family}-avr-cpu)"),
        };
        let tree = ask_monitor(machine.qemu, &machine.name, "info qom-tree");
        assert!(tree.contains(&cpu), "{}", machine.title());
    }
}

#[test]
fn riscv_processors_have_the_extensions_that_are_assumed() {
    let dir = scratch();
    // Each image needs only the last extension of its model.
    for (bits, model, isa, cpu) in [
        (64, "rv64", "rv64imafdc_zba_zbb_zbs_zicsr_zifencei_zicntr_zawrs", None),
        (32, "rv32", "rv32imafdc_zba_zbb_zbs_zicsr_zifencei_zicntr_zawrs_zcf", None),
        (64, "max", "rv64imafdcv_zfh_zicond_zacas_zbkb_zvbb", Some("max")),
        (32, "max", "rv32imafdcv_zfh_zicond_zacas_zbkb_zvbb", Some("max")),
    ] {
        let dtb = dir.path().join("virt.dtb");
        built::run(
            Command::new(format!("qemu-system-riscv{bits}"))
                .arg("-M")
                .arg(format!("virt,dumpdtb={}", dtb.display()))
                .args(["-cpu", model, "-display", "none", "-bios", "none"]),
        );
        // "riscv,isa-extensions" is a list of strings that each end in a zero byte.
        let dtb = fs::read(&dtb).unwrap();
        let has = |name: &str| {
            let entry = format!("\0{name}\0");
            dtb.windows(entry.len()).any(|window| window == entry.as_bytes())
        };
        for extension in riscv_extensions(isa) {
            // The first extension in the list has no zero byte before it.
            assert!(extension == "i" || has(&extension), "{model}: {extension}");
        }

        let elf = riscv(bits, 0x8000_0000, 0x8000_0000, 0x8001_0000).build(dir.path(), "fw");
        let mut image = open(&elf);
        image.needs.riscv = Some(isa.to_owned());
        assert_eq!(choose(&image, None, None).unwrap().cpu.as_deref(), cpu, "{isa}");
        // The user's own choice is passed on unchanged.
        let forced = choose(&image, None, Some("sifive-e31")).unwrap();
        assert_eq!(forced.cpu.as_deref(), Some("sifive-e31"));
        image.needs.riscv = Some(format!("{isa}_xtheadba1p0"));
        let error = choose(&image, None, None).unwrap_err().to_string();
        assert!(error.contains("xtheadba"), "{error}");
    }
}

#[test]
fn qemu_takes_every_processor_that_is_chosen_for_extensions_in_the_place_of_others() {
    let dir = scratch();
    for (bits, isa, cpu, own) in [
        (32, "rv32imac_zcmp1p0", Some("rv32,d=false,zcmp=true"), "riscv32-zc"),
        (
            64,
            "rv64imac_zca_zcb_zcmp_zcmt_zbkb",
            Some("rv64,d=false,zcb=true,zcmp=true,zcmt=true,zbkb=true"),
            "riscv64-zc",
        ),
        (32, "rv32imc_zfinx", Some("rv32,d=false,f=false,zfa=false,zfinx=true"), "riscv32"),
        (64, "rv64imac_zdinx_zhinxmin", Some("rv64,d=false,f=false,zfa=false,zdinx=true,zhinxmin=true"), "riscv64"),
        // Zcmp has the encodings of D's compressed stores; the others no processor of QEMU's has.
        (32, "rv32imafdc_zcmp", None, ""),
        (64, "rv64imac_xtheadba", None, ""),
        (32, "rv32imac_zcmp_xcvmac", None, ""),
    ] {
        let elf = riscv(bits, 0x8000_0000, 0x8000_0000, 0x8001_0000).build(dir.path(), "fw");
        let mut image = open(&elf);
        image.needs.riscv = Some(isa.to_owned());
        let Some(cpu) = cpu else {
            let error = choose(&image, None, None).unwrap_err().to_string();
            assert!(error.contains("--cpu NAME") && !error.contains("=true"), "{isa}: {error}");
            continue;
        };
        let choice = choose(&image, None, None).unwrap();
        assert_eq!((choice.cpu.as_deref(), choice.machine.isa), (Some(cpu), own), "{isa}");
        let machine = format!("virt,dumpdtb={}", dir.path().join("virt.dtb").display());
        let mut qemu = Command::new(format!("qemu-system-riscv{bits}"));
        built::run(qemu.args(["-M", &machine, "-cpu", cpu, "-display", "none", "-bios", "none"]));
    }
    // The user's own processor says the same.
    let image = open(&riscv(32, 0x8000_0000, 0x8000_0000, 0x8001_0000).build(dir.path(), "fw"));
    for (cpu, own) in
        [("rv32,d=off,zcmp=on", "riscv32-zc"), ("rv32,zcmp=false", "riscv32"), ("sifive-e31", "riscv32")]
    {
        assert_eq!(choose(&image, None, Some(cpu)).unwrap().machine.isa, own, "{cpu}");
    }
}

#[test]
fn extension_strings_are_read_with_and_without_versions() {
    for (isa, expected) in [
        ("rv64i2p1_m2p0_a2p1_c2p0_zicsr2p0", "i m a c zicsr"),
        ("rv32imac_zicsr_zifencei", "i m a c zicsr zifencei"),
        ("rv64gcv_zvl128b1p0_zve64d1p0", "i m a f d zicsr zifencei c v zvl128b zve64d"),
        ("rv32e1p9_m2p0_zca1p0_xcvmac1p0", "e m zca xcvmac"),
        ("RV64I_ZVE32X_ZVL128B", "i zve32x zvl128b"),
        ("", ""),
        ("rv64", ""),
        ("rv64_é_\u{1}", "é \u{1}"),
    ] {
        assert_eq!(riscv_extensions(isa).join(" "), expected, "{isa}");
    }
}

const M0: &str = "-mcpu=cortex-m0";
const M3: &str = "-mcpu=cortex-m3";
const M4: &str = "-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16";
const M7: &str = "-mcpu=cortex-m7 -mfloat-abi=hard -mfpu=fpv5-d16";
const M7_SINGLE: &str = "-mcpu=cortex-m7 -mfloat-abi=hard -mfpu=fpv5-sp-d16";
const M33: &str = "-mcpu=cortex-m33 -mfloat-abi=hard";
const M55: &str = "-mcpu=cortex-m55 -mfloat-abi=hard";

#[test]
fn the_memory_and_then_the_processor_decide() {
    let dir = scratch();
    for (flags, code, ram, stack_top, expected) in [
        (M0, 0, 0x2000_0000, 0x2000_4000, "microbit"),
        // More memory than a microbit has; a larger core runs the code as well.
        (M0, 0, 0x2000_0000, 0x2000_8000, "mps2-an385"),
        (M3, 0, 0x2000_0000, 0x2001_0000, "mps2-an385"),
        (M3, 0, 0x2100_0000, 0x2200_0000, "mps2-an385"),
        (M3, 0x0800_0000, 0x2000_0000, 0x2002_0000, "netduinoplus2"),
        (M4, 0, 0x2000_0000, 0x2040_0000, "mps2-an386"),
        ("-mcpu=cortex-m4 -mfloat-abi=soft", 0, 0x2000_0000, 0x2040_0000, "mps2-an386"),
        (M4, 0x0800_0000, 0x1000_0000, 0x1001_0000, "netduinoplus2"),
        (M4, 0x0800_0000, 0x2000_0000, 0x2002_0000, "netduinoplus2"),
        (M4, 0, 0x6000_0000, 0x6100_0000, "mps2-an500"),
        (M7, 0, 0x2000_0000, 0x2040_0000, "mps2-an500"),
        (M7_SINGLE, 0, 0x2000_0000, 0x2040_0000, "mps2-an500"),
        (M33, 0x1000_0000, 0x3800_0000, 0x3840_0000, "mps2-an505"),
        (M3, 0x1000_0000, 0x8000_0000, 0x8100_0000, "mps2-an505"),
        ("-mcpu=cortex-m23", 0x1000_0000, 0x3000_0000, 0x3000_8000, "mps2-an505"),
    ] {
        let elf = cortex_m(flags, code, ram, stack_top).build(dir.path(), "fw");
        let choice = chosen(&elf);
        assert_eq!(choice.machine.name, expected, "{flags} {code:#x} {ram:#x}: {choice:#?}");
        assert_eq!(choice.initial_sp, Some(stack_top));
        assert_eq!(choice.load_bias, 0);
        // Every machine of the family is listed.
        assert_eq!(1 + choice.runners_up.len() + choice.rejected.len(), 13, "{choice:#?}");
        assert!(!choice.machine.is_late && choice.vectors.is_none());
    }
    // More SRAM than an AN505 has. The first Cortex-M33 of an AN521 has no FPU.
    let elf = cortex_m("-mcpu=cortex-m33 -mfloat-abi=soft", 0x1000_0000, 0x3000_0000, 0x3002_0000);
    assert_eq!(chosen(&elf.build(dir.path(), "fw")).machine.name, "mps2-an521");
    let with_fpu = cortex_m(M33, 0x1000_0000, 0x3000_0000, 0x3002_0000).build(dir.path(), "fw");
    assert_ne!(chosen(&with_fpu).machine.name, "mps2-an521");
    let all = chosen(&cortex_m(M3, 0, 0x2000_0000, 0x2000_4000).build(dir.path(), "fw"));
    assert_eq!(all.runners_up[0].0, "lm3s6965evb (cortex-m3)");
    assert!(all.runners_up[0].1.contains("later in the table"));
    assert!(all.because.contains("first such machine"));
    let only = chosen(&cortex_m(M3, 0, 0x2000_0000, 0x2040_0000).build(dir.path(), "fw"));
    assert!(!only.because.contains("first such machine"), "{}", only.because);
}

#[test]
fn an_image_that_names_a_machines_own_registers_gets_that_machine() {
    let dir = scratch();
    let mut image = open(&cortex_m(M3, 0, 0x2000_0000, 0x2000_4000).build(dir.path(), "fw"));
    let mut chosen_with = |register: u32| {
        let segment = &mut image.segments[0];
        let unaligned = segment.data.len() % 4;
        segment.data.truncate(segment.data.len() - unaligned);
        segment.data.extend(register.to_le_bytes());
        segment.mem_bytes = segment.mem_bytes.max(segment.data.len() as u64);
        choose(&image, None, None).unwrap()
    };
    // System control alone may be any word.
    assert_eq!(chosen_with(0x400f_e050).machine.name, "mps2-an385");
    let choice = chosen_with(0x4000_c018);
    assert_eq!(choice.machine.name, "lm3s6965evb");
    assert!(choice.because.contains("the image has addresses of its registers"), "{}", choice.because);
    let (other, reason) = &choice.runners_up[0];
    assert_eq!(other, "mps2-an385 (cortex-m3)");
    assert_eq!(reason, "fits as well, but the image has addresses of lm3s6965evb's registers");
}

#[test]
fn when_none_fits_all_that_were_considered_are_listed() {
    let dir = scratch();
    for (target, expected) in [
        (cortex_m(M3, 0x4000_0000, 0x2000_0000, 0x2000_4000), &["0x40000000", "outside its memory", "v6-M"][..]),
        (
            // A vector table cannot lie here.
            cortex_m(M3, 0x1_0040, 0x2000_0000, 0x2000_4000),
            &["takes its vector table from 0x00000000, where the image loads nothing", "no multiple of 128"],
        ),
        (cortex_m(M3, 0, 0x2000_0000, 0x2040_0010), &["initial stack pointer 0x20400010"]),
        (
            cortex_m(M3, 0, 0x2000_0000, 0x2000_4000).with_bss(0x40_0000),
            &["does not fit: SSRAM 2/3 ends at 0x20400000"],
        ),
        (
            // On netduinoplus2 this flash cannot be written, and there is no other memory here.
            cortex_m(M3, 0x0800_0000, 0x0801_0000, 0x2000_4000),
            &["lies in flash, which cannot be written"],
        ),
        (
            cortex_m("-mcpu=cortex-m55 -mfloat-abi=soft", 0x1000_0000, 0x8000_0000, 0x8000_4000),
            &["v8.1-M mainline", "outside its memory"],
        ),
        (
            // Mainline cores have no double precision in QEMU.
            cortex_m(M7, 0x1000_0000, 0x8000_0000, 0x8040_0000),
            &["single-precision FPU (FPv5), and the image was built for a double-precision FPU"],
        ),
        (
            // The Non-secure alias: the processor starts Secure, at the other alias.
            cortex_m(M33, 0, 0x2800_0000, 0x2800_4000),
            &["takes its vector table from 0x10000000", "Non-secure QSPI flash"],
        ),
        (
            cortex_m(M33, 0x1000_0000, 0x2800_0000, 0x2800_4000),
            &["initial stack pointer 0x28004000 is outside its RAM"],
        ),
        (riscv(64, 0x4000_0000, 0x8000_0000, 0x8000_4000), &["riscv64 virt", "0x40000000"]),
        (
            riscv(32, 0x8000_0000, 0x8000_0000, 0x8000_4000).with_bss(0x800_0000),
            &["riscv32 virt", "RAM ends at 0x88000000"],
        ),
    ] {
        let image = open(&target.build(dir.path(), "fw"));
        let message = choose(&image, None, None).unwrap_err().to_string();
        for expected in expected {
            assert!(message.contains(expected), "{expected:?} not in: {message}");
        }
        for machine in MACHINES.iter().filter(|machine| Some(machine.arch) == image.arch) {
            assert!(message.contains(&machine.title()), "{message}");
        }
    }
    // A forgotten entry symbol: the linker takes address 0 and only warns.
    let mut image = open(&riscv(64, 0x8000_0000, 0x8000_0000, 0x8000_4000).build(dir.path(), "fw"));
    image.entry = Some(0);
    let message = choose(&image, None, None).unwrap_err().to_string();
    assert!(message.contains("_start"), "{message}");
}

#[test]
fn the_users_own_machine_is_taken() {
    let dir = scratch();
    let image = open(&cortex_m(M3, 0, 0x2000_0000, 0x2000_4000).build(dir.path(), "fw"));
    let force = |name: &str| choose(&image, Some(name), None);

    let choice = force("lm3s6965evb").unwrap();
    assert_eq!((&*choice.machine.name, choice.machine.shift), ("lm3s6965evb", 4));
    assert!(choice.warnings.is_empty());
    let choice = force("arm:lm3s6965evb,foo=on").unwrap();
    assert_eq!((&*choice.machine.name, choice.machine.shift), ("lm3s6965evb,foo=on", 4));

    // A machine that is not in the table is passed on, with a note. Its processor is unknown, so the instruction set
    // in which most instructions can trap is assumed, whatever the image was built for.
    let choice = force("mps2-an511").unwrap();
    assert_eq!(
        (&*choice.machine.name, choice.machine.qemu, choice.machine.isa),
        ("mps2-an511", "qemu-system-arm", "thumb-v8m")
    );
    assert!(choice.ram().is_empty() && choice.warnings[0].contains("not in the table of machines"));
    assert_eq!(choice.initial_sp, Some(0x2000_4000));

    // An unsuitable processor is the user's choice; bytes without a place are an error.
    let choice = force("microbit").unwrap();
    assert!(choice.warnings[0].contains("cannot run code built for v7-M"), "{choice:?}");
    let stm32 = open(&cortex_m(M3, 0x0800_0000, 0x2000_0000, 0x2000_4000).build(dir.path(), "stm32"));
    let message = choose(&stm32, Some("mps2-an385"), None).unwrap_err().to_string();
    assert!(message.contains("no memory for this image: segment 0x08000000"), "{message}");

    for name in ["virt", "riscv64:virt", "riscv32:anything", ""] {
        assert!(force(name).is_err(), "{name}");
    }
    // An Arm machine has a single processor type; --cpu picks among machines.
    assert_eq!(choose(&image, None, Some("cortex-m7")).unwrap().machine.name, "mps2-an500");
    let message = choose(&image, None, Some("cortex-m23")).unwrap_err().to_string();
    assert!(message.contains("cortex-m23"), "{message}");
}

#[test]
fn more_ram_than_the_table_says_is_possible_on_virt() {
    let dir = scratch();
    let image = open(&riscv(64, 0x8000_0000, 0x8000_0000, 0x8000_4000).with_bss(0x1000_0000).build(dir.path(), "fw"));
    assert!(choose(&image, None, None).is_err());
    let choice = choose(&image, Some("virt"), None).unwrap();
    assert!(choice.warnings[0].contains("RAM ends at 0x88000000"), "{choice:?}");
}

#[test]
fn a_position_independent_image_is_placed_in_ram() {
    let dir = scratch();
    let elf = riscv(64, 0, 0x1000, 0x2_0000).build(dir.path(), "pie");
    let mut bytes = fs::read(&elf).unwrap();
    bytes[16] = 3; // ET_DYN; Debian's riscv64 linker has no -pie
    let open =
        |load_bias| Image::from_bytes(&elf, &bytes, &LoadOptions { load_bias, ..LoadOptions::default() }, None);
    let image = open(None).unwrap();
    assert!(image.position_independent);
    let linked_at = image.entry.unwrap();
    let choice = choose(&image, None, None).unwrap();
    assert_eq!((choice.load_bias, choice.entry), (0x8000_0000, 0x8000_0000 + linked_at));
    let again =
        Image::from_bytes(Path::new("again.elf"), &choice.loadable_elf(&image), &LoadOptions::default(), None)
            .unwrap();
    assert_eq!(again.segments[0].load_addr, 0x8000_0000);
    assert_eq!(again.entry, Some(choice.entry));

    let choice = choose(&open(Some(0x8400_0000)).unwrap(), None, None).unwrap();
    assert_eq!(choice.load_bias, 0x8400_0000);
    let message = choose(&open(Some(0x10)).unwrap(), None, None).unwrap_err().to_string();
    assert!(message.contains("0x00000010"), "{message}");
    assert!(open(Some(u64::MAX - 3)).is_err());
}

#[test]
fn a_file_without_a_processor_needs_the_machine() {
    let path = Path::new("fw.bin");
    let options = LoadOptions { load_addr: Some(0x8000_0000), ..LoadOptions::default() };
    let image = Image::from_bytes(path, &[0x13; 64], &options, None).unwrap();
    for name in [None, Some("virt"), Some("spike")] {
        let message = choose(&image, name, None).unwrap_err().to_string();
        assert!(message.contains("riscv64:virt"), "{message}");
    }
    let choice = choose(&image, Some("riscv32:virt"), None).unwrap();
    assert_eq!((choice.machine.qemu, choice.entry), ("qemu-system-riscv32", 0x8000_0000));
    let choice = choose(&image, Some("arm:mps2-an385"), None);
    assert!(choice.unwrap_err().to_string().contains("0x80000000"));
}

#[test]
fn a_machine_whose_processors_cannot_be_told_apart_is_refused() {
    let path = Path::new("fw.bin");
    let options = LoadOptions { load_addr: Some(0x8000_0000), ..LoadOptions::default() };
    let image = Image::from_bytes(path, &[0x13; 64], &options, None).unwrap();
    let message = choose(&image, Some("riscv64:microchip-icicle-kit,x=on"), None).unwrap_err().to_string();
    assert!(message.contains("processors of several kinds"), "{message}");
    let message = choose(&image, Some("riscv64:sifive_u"), None).unwrap_err().to_string();
    assert!(message.contains("does not repeat"), "{message}");
}

#[test]
fn ram_is_sorted_and_joined_and_leaves_flash_out() {
    let dir = scratch();
    let ram = |name: &str| {
        let image = open(&cortex_m(M0, 0, 0x2000_0000, 0x2000_4000).build(dir.path(), "fw"));
        choose(&image, Some(name), None).unwrap().ram()
    };
    let range = |start: u64, bytes: u64| start..start + bytes;
    assert_eq!(ram("microbit"), [range(0x2000_0000, 0x4000)]);
    assert_eq!(ram("netduinoplus2"), [range(0x1000_0000, 0x1_0000), range(0x2000_0000, 0x2_0000)]);
    let joined = ram("mps2-an505");
    assert!(joined.windows(2).all(|pair| pair[0].end < pair[1].start), "{joined:x?}");
    for machine in MACHINES {
        assert_eq!(machine.memory[0].kind, MemoryKind::Ram, "{}", machine.title());
    }
}

/// Runs the image on the chosen machine, and returns its output.
fn run_on(choice: &Choice, image: &Image, dir: &Path) -> String {
    let file = dir.join("loadable.elf");
    fs::write(&file, choice.loadable_elf(image)).unwrap();
    let machine = &choice.machine;
    let mut command = Command::new("timeout");
    command
        .args(["20", machine.qemu, "-M", &machine.name, "-display", "none"])
        .args(["-monitor", "none", "-serial", "none"])
        .args(["-semihosting-config", "enable=on,target=native"])
        .arg(match machine.load {
            LoadOption::Bios => "-bios",
            LoadOption::Kernel => "-kernel",
            LoadOption::Loader => unreachable!("the table's machines have an option of their own"),
        })
        .arg(&file);
    if let Some(cpu) = &choice.cpu {
        command.args(["-cpu", cpu]);
    }
    if let Some(address) = choice.vectors {
        command.args(["-global", &format!("armv7m.init-nsvtor={address}")]);
    }
    let output = command.output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn every_machine_runs_an_image_that_is_linked_for_it() {
    let dir = scratch();
    for (name, targets) in [
        (
            "virt",
            vec![
                riscv(64, 0x8000_0000, 0x8000_0000, 0x8800_0000),
                riscv(32, 0x8000_0000, 0x8000_0000, 0x8800_0000),
                // One image not at the start of the RAM, others in flash.
                riscv(64, 0x8020_0000, 0x8100_0000, 0x8200_0000),
                riscv(64, 0x2000_0000, 0x8000_0000, 0x8800_0000),
                riscv(32, 0x2200_0000, 0x8000_0000, 0x8800_0000),
            ],
        ),
        ("microbit", vec![cortex_m(M0, 0, 0x2000_0000, 0x2000_4000)]),
        (
            "mps2-an385",
            vec![
                cortex_m(M3, 0, 0x2000_0000, 0x2040_0000),
                cortex_m(M3, 0, 0x2100_0000, 0x2200_0000),
                cortex_m(M3, 0, 0x0100_0000, 0x0100_4000),
            ],
        ),
        ("lm3s6965evb", vec![cortex_m(M3, 0, 0x2000_0000, 0x2001_0000)]),
        ("mps2-an386", vec![cortex_m(M4, 0, 0x2000_0000, 0x2040_0000)]),
        (
            "netduinoplus2",
            vec![cortex_m(M4, 0x0800_0000, 0x2000_0000, 0x2002_0000), cortex_m(M4, 0, 0x1000_0000, 0x1001_0000)],
        ),
        ("mps2-an500", vec![cortex_m(M7, 0, 0x2000_0000, 0x2040_0000), cortex_m(M7, 0, 0x6000_0000, 0x6100_0000)]),
        (
            "mps2-an505",
            vec![
                cortex_m(M33, 0x1000_0000, 0x3800_0000, 0x3840_0000),
                cortex_m(M33, 0x1000_0000, 0x3000_0000, 0x3000_8000),
                cortex_m(M33, 0x1000_0000, 0x8000_0000, 0x8100_0000),
            ],
        ),
        (
            "stm32vldiscovery",
            vec![
                cortex_m(M3, 0x0800_0000, 0x2000_0000, 0x2000_2000),
                cortex_m(M3, 0, 0x2000_0000, 0x2000_2000),
                // An image behind a bootloader.
                cortex_m(M3, 0x0800_8000, 0x2000_0000, 0x2000_2000),
            ],
        ),
        ("netduino2", vec![cortex_m(M3, 0x0800_0000, 0x2000_0000, 0x2002_0000)]),
        ("olimex-stm32-h405", vec![cortex_m(M4, 0x0800_0000, 0x1000_0000, 0x1001_0000)]),
        (
            "b-l475e-iot01a",
            vec![
                cortex_m(M4, 0x0800_0000, 0x2000_0000, 0x2001_8000),
                cortex_m(M4, 0x0800_0000, 0x1000_0000, 0x1000_8000),
            ],
        ),
        (
            "mps3-an547",
            vec![
                cortex_m(M55, 0, 0x2000_0000, 0x2008_0000),
                cortex_m(M55, 0x1000_0000, 0x3000_0000, 0x3008_0000),
                cortex_m(M55, 0x1000_0000, 0x1100_0000, 0x1120_0000),
                cortex_m(M55, 0x1000_0000, 0x3100_0000, 0x3140_0000),
                cortex_m(M55, 0x1000_0000, 0x3000_0000, 0x3008_0000).with("-mfloat-abi=soft"),
                cortex_m(M55, 0x1000_0000, 0x7000_0000, 0x8000_0000),
                cortex_m(M33, 0, 0x2000_0000, 0x2000_4000),
                cortex_m(M7, 0, 0x2000_0000, 0x2000_4000),
            ],
        ),
        (
            "sifive_e",
            vec![riscv(32, 0x2040_0000, 0x8000_0000, 0x8000_4000), riscv(64, 0x2040_0000, 0x8000_0000, 0x8000_4000)],
        ),
        (
            "mps2-an521",
            vec![
                cortex_m(M33, 0x1000_0000, 0x3800_0000, 0x3840_0000).with("-mfloat-abi=soft"),
                cortex_m(M33, 0x1000_0000, 0x3000_0000, 0x3002_0000).with("-mfloat-abi=soft"),
                cortex_m(M33, 0x1000_0000, 0x8000_0000, 0x8100_0000).with("-mfloat-abi=soft"),
            ],
        ),
    ] {
        for target in targets {
            let elf = target.build(dir.path(), "fw");
            let image = open(&elf);
            let choice = choose(&image, Some(name), None).unwrap();
            assert!(choice.warnings.is_empty(), "{:?}", choice.warnings);
            assert_eq!(choice.machine.qemu, machine_of(&image, name).qemu);
            let printed = run_on(&choice, &image, dir.path());
            assert_eq!(printed, "ok\n", "{name}: {image:x?}");
        }
    }
    // Raw binaries and HEX files are loaded in the same way.
    let elf = cortex_m(M33, 0x1000_0000, 0x3800_0000, 0x3840_0000).build(dir.path(), "fw");
    let hex = dir.path().join("fw.hex");
    built::run(Command::new("arm-none-eabi-objcopy").args(["-O", "ihex"]).arg(&elf).arg(&hex));
    let image = Image::open(&hex, &LoadOptions { symbols: Some(&elf), ..LoadOptions::default() }).unwrap();
    let choice = choose(&image, None, None).unwrap();
    assert_eq!(choice.machine.name, machine("mps2-an505").name);
    assert_eq!(run_on(&choice, &image, dir.path()), "ok\n");
}

fn machine_of(image: &Image, name: &str) -> &'static Machine {
    MACHINES.iter().find(|machine| machine.name == name && Some(machine.arch) == image.arch).unwrap()
}
