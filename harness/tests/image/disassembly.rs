// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: code is disassembled like GNU objdump does, instruction by instruction, and every count falls on one.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use harness::analysis::disassembly::{Disassembler, Unit};
use harness::profile::Profile;

use crate::common::{image, run};

/// Instructions by objdump: size in bytes, mnemonic, operands.
type Theirs = BTreeMap<u64, (usize, String, String)>;

fn objdump(names: &[&str], image_name: &str) -> Theirs {
    let run = |name: &&str| Command::new(name).args(["-d", "-z", "-w"]).arg(image(image_name)).output().ok();
    let output = names.iter().find_map(run);
    let output = output.unwrap_or_else(|| panic!("{} is missing: run ci/setup --tests", names[0]));
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut found = Theirs::new();
    for line in text.lines() {
        let mut fields = line.split('\t');
        let address = fields.next().and_then(|field| u64::from_str_radix(field.trim().strip_suffix(':')?, 16).ok());
        let (Some(address), Some(bytes), Some(mnemonic)) = (address, fields.next(), fields.next()) else { continue };
        let digits = bytes.chars().filter(char::is_ascii_hexdigit).count();
        let operands = fields.next().unwrap_or_default();
        found.insert(address, (digits / 2, mnemonic.trim().to_owned(), operands.to_owned()));
    }
    found
}

fn read(profile: &Profile) -> Vec<Unit> {
    let disassembler = Disassembler::new(profile.facts.isa.parse().unwrap()).unwrap();
    let name = |target: u64| {
        let function = profile.names.function_at(target)?;
        let offset = target - function.start;
        let plus = if offset == 0 { String::new() } else { format!("+{offset:#x}") };
        Some(format!("{}{plus}", function.linkage_name))
    };
    profile.code.iter().flat_map(|code| disassembler.read(code.start, &code.bytes, |_| false, name)).collect()
}

/// Spellings of the same instruction by capstone and by objdump, both without `.w` and `.n`. Capstone's conditions
/// `hs` and `lo` are spelled `cs` and `cc` here. RISC-V's `i` for immediate operands is left out, as objdump does up
/// to binutils 2.40.
const ALIASES: [(&str, &str); 13] = [
    ("asr", "mov"),
    ("lsl", "mov"),
    ("lsr", "mov"),
    ("ror", "mov"),
    ("ldm", "ldmia"),
    ("stm", "stmia"),
    ("pop", "ldmia"),
    ("push", "stmdb"),
    ("addiw", "sext"),
    ("andi", "zext.b"),
    ("mv", "li"),
    ("adr", "add"),
    // mov r8, r8
    ("mov", "nop"),
];

/// Removes the size of the encoding from a mnemonic.
fn plain(mnemonic: &str) -> &str {
    mnemonic.trim_end_matches(".w").trim_end_matches(".n")
}

fn is_same(ours: &str, theirs: &str) -> bool {
    let ours = plain(ours);
    let condition =
        |from: &str, to: &str| ours.strip_suffix(from).is_some_and(|stem| format!("{stem}{to}") == theirs);
    ours == theirs
        || ours.replacen('i', "", 1) == theirs
        || ours.replacen("rsb", "neg", 1) == theirs
        || condition("hs", "cs")
        || condition("lo", "cc")
        || ALIASES.contains(&(ours, theirs))
}

fn compare(image_name: &str, tools: &[&str], least_insns: usize) {
    let profile = run(image_name, &["--for", "2M"]).expect_code(0).profile();
    let theirs = objdump(tools, image_name);
    let ours = read(&profile);
    let pieces: Vec<_> = profile.code.iter().map(|code| code.start..code.start + code.bytes.len() as u64).collect();
    let is_code = |address: &u64| pieces.iter().any(|piece| piece.contains(address));
    let sizes: BTreeMap<u64, usize> = ours.iter().map(|unit| (unit.address, usize::from(unit.size_bytes))).collect();
    let expected: BTreeMap<u64, usize> = theirs
        .iter()
        .filter(|(address, _)| is_code(address))
        .map(|(&address, &(size, ..))| (address, size))
        .collect();
    assert!(sizes.len() > least_insns, "{} instructions", sizes.len());
    assert_eq!(sizes, expected, "{image_name}: addresses and sizes");

    let mut differing: BTreeMap<(String, String), usize> = BTreeMap::new();
    let (mut targets, mut same_names) = (0, 0);
    for unit in &ours {
        let (_, mnemonic, operands) = &theirs[&unit.address];
        let (ours, theirs) = (unit.text.split(' ').next().unwrap(), plain(mnemonic));
        if !is_same(ours, theirs) {
            *differing.entry((ours.to_owned(), theirs.to_owned())).or_default() += 1;
        }
        // Such as `80003562 <vformat+0x12>`.
        if let Some((before, name)) = unit.text.split_once(" <") {
            targets += 1;
            let ours = before.rsplit("0x").next().unwrap();
            let Some((theirs, their_name)) = operands.split_once(" <") else { panic!("{image_name}: {}", unit.text) };
            let theirs = theirs.rsplit([',', ' ', '\t']).next().unwrap();
            assert_eq!(ours, theirs, "{image_name} {:#x}: {}, {operands}", unit.address, unit.text);
            same_names += usize::from(name == their_name);
        }
    }
    // objdump also counts from labels inside functions.
    assert!(
        targets * 20 > least_insns && same_names * 10 > targets * 9,
        "{same_names} of {targets} targets have objdump's name"
    );
    assert_eq!(differing, BTreeMap::new(), "{image_name}: mnemonics of {} instructions", ours.len());

    let executed: BTreeSet<(u64, usize)> =
        profile.vcpus.iter().flat_map(|vcpu| &vcpu.insns).map(|insn| (insn.pc, insn.size_bytes.into())).collect();
    let boot_rom = |pc: u64| profile.facts.isa.starts_with("riscv") && pc < 0x1_0000;
    for (pc, size_bytes) in executed {
        assert!(boot_rom(pc) || sizes.get(&pc) == Some(&size_bytes), "{image_name}: {pc:#x} of {size_bytes} bytes");
    }
}

#[test]
fn risc_v_code_is_read_as_objdump_reads_it() {
    let tools = ["riscv64-unknown-elf-objdump", "riscv64-elf-objdump"];
    compare("riscv64-freertos", &tools, 4_000);
    compare("riscv64-cpp", &tools, 500);
    compare("riscv32-bare", &tools, 500);
}

#[test]
fn thumb_code_is_read_as_objdump_reads_it() {
    compare("cortex-m3-freertos", &["arm-none-eabi-objdump"], 3_000);
    for name in ["cortex-m0-bare", "cortex-m4-bare", "cortex-m7-bare", "cortex-m33-bare"] {
        compare(name, &["arm-none-eabi-objdump"], 500);
    }
}
