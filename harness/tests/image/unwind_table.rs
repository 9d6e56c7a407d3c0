// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the table that stacks are walked with agrees with the ELF's unwind information. The arbiter is
//! `readelf`, which interprets call frame information independently.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use decode::{Flow, Isa, decode};
use harness::image::symbols::Symbols;
use harness::image::unwind::{Table, table};
use harness::image::{Arch, ArmLevel, Image, LoadOptions};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use wire::unwind::{Base, Rule, Saved, rule_at};

use crate::common;
use crate::common::built::{Target, cortex_m, riscv, run, scratch};

/// Rule at a function's first instruction: nothing is saved yet.
const ENTRY: Rule = Rule {
    base: Base::StackPointer,
    cfa_offset_bytes: 0,
    return_addr: Saved::Register,
    frame_pointer: Saved::Register,
};

/// Image with its functions and its table.
struct Unwound {
    image: Image,
    isa: Isa,
    bytes: Vec<u8>,
    functions: Vec<Range<u64>>,
}

impl Unwound {
    fn open(path: &Path) -> Unwound {
        let image = Image::open(path, &LoadOptions::default()).unwrap();
        let bytes = std::fs::read(path).unwrap();
        let isa = match image.arch.unwrap() {
            Arch::Riscv64 => Isa::Riscv64,
            Arch::Riscv32 => Isa::Riscv32,
            Arch::Avr => Isa::AvrPc16,
            Arch::CortexM => match image.needs.arm.as_ref().map(|needs| needs.level) {
                Some(ArmLevel::V6M) => Isa::ThumbV6m,
                Some(level) if level >= ArmLevel::V8MBase => Isa::ThumbV8m,
                _ => Isa::ThumbV7m,
            },
        };
        let functions = Symbols::new(Some(&bytes), 0, isa.is_thumb()).ranges();
        Unwound { image, isa, bytes, functions }
    }

    fn table(&self) -> Table {
        table_of(self, &self.functions)
    }

    fn code(&self, address: u64) -> &[u8] {
        self.image.code_at(address).unwrap_or_default()
    }

    fn symbol(&self, name: &str) -> Option<u64> {
        let file = object::File::parse(&*self.bytes).unwrap();
        file.symbols().find(|symbol| symbol.name() == Ok(name)).map(|symbol| symbol.address() & !1)
    }

    fn next(&self, pc: u64) -> u64 {
        pc + u64::from(decode(self.isa, pc, self.code(pc)).len_bytes)
    }
}

/// Piece of code with the rules that readelf shows for it.
#[derive(Debug)]
struct Piece {
    code: Range<u64>,
    rules: BTreeMap<u64, Rule>,
}

impl Piece {
    /// Whether the rules describe a function that does nothing: gcc does so for leaves, and for `naked` functions,
    /// which it does not know.
    fn says_nothing(&self) -> bool {
        self.rules.values().all(|rule| *rule == ENTRY)
    }

    fn rule_at(&self, pc: u64) -> Rule {
        *self.rules.range(..=pc).next_back().unwrap().1
    }
}

/// Pieces of a file's call frame information, according to readelf.
fn arbiter(path: &Path) -> Vec<Piece> {
    let mut command = Command::new("arm-none-eabi-readelf");
    command.arg("--debug-dump=frames-interp").arg(path);
    let output =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; ci/setup --tests installs it"));
    let text = String::from_utf8_lossy(&output.stdout);
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let mut pieces: Vec<Piece> = Vec::new();
    let mut columns: Vec<&str> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [.., range] if line.contains(" FDE ") => {
                let (start, end) = range.strip_prefix("pc=").unwrap().split_once("..").unwrap();
                let code = hex(start)..hex(end);
                // Every CIE here has this rule, and an entry without changes has no rows.
                pieces.push(Piece { rules: BTreeMap::from([(code.start, ENTRY)]), code });
                columns.clear();
            }
            [_, .., "cf=1" | "cf=2", _, _] => columns.clear(),
            ["LOC", "CFA", ..] => columns = words[2..].to_vec(),
            [at, cfa, ..]
                if words.len() == columns.len() + 2 && line.starts_with(|c: char| c.is_ascii_hexdigit()) =>
            {
                let Some(piece) = pieces.last_mut() else { continue };
                let (register, offset) = cfa.split_once('+').unwrap();
                let base = match register {
                    "sp" | "r13" => Base::StackPointer,
                    "s0" | "r7" => Base::FramePointer,
                    other => panic!("{line}: {other}"),
                };
                let saved = |names: [&str; 2]| {
                    let column = columns.iter().position(|column| names.contains(column));
                    match column.map_or("u", |column| words[column + 2]) {
                        "u" => Saved::Register,
                        place => Saved::AtCfa(place.strip_prefix('c').unwrap().parse().unwrap()),
                    }
                };
                let rule = Rule {
                    base,
                    cfa_offset_bytes: offset.parse().unwrap(),
                    return_addr: saved(["ra", "r14"]),
                    frame_pointer: saved(["s0", "r7"]),
                };
                piece.rules.insert(hex(at), rule);
            }
            _ => {}
        }
    }
    pieces
}

/// Whether an address holds an instruction, by the assembler's mapping symbols: no literal and no padding.
fn is_code(it: &Unwound) -> impl Fn(u64) -> bool + use<> {
    let file = object::File::parse(&*it.bytes).unwrap();
    let mut mapping: BTreeMap<u64, bool> = BTreeMap::new();
    for symbol in file.symbols() {
        match symbol.name_bytes() {
            Ok([b'$', b'd', ..]) => drop(mapping.insert(symbol.address(), false)),
            Ok([b'$', b't' | b'x', ..]) => drop(mapping.entry(symbol.address()).or_insert(true)),
            _ => {}
        }
    }
    move |pc| mapping.range(..=pc).next_back().is_some_and(|(_, is_code)| *is_code)
}

/// Calls of `__gnu_mcount_nc`, found by its name.
fn mcount_calls(it: &Unwound) -> BTreeSet<u64> {
    let runtime = it.symbol("__gnu_mcount_nc");
    let is_code = is_code(it);
    let mut calls = BTreeSet::new();
    for function in it.functions.iter().filter(|_| !it.isa.is_riscv()) {
        let mut pc = function.start;
        while pc < function.end {
            let flow = decode(it.isa, pc, it.code(pc)).flow;
            if is_code(pc) && matches!(flow, Flow::Call { target } if Some(target) == runtime) {
                calls.insert(pc);
            }
            pc = it.next(pc);
        }
    }
    calls
}

/// Bytes on the stack before the push at a call of mcount. A nested function saves its static chain first, by `push
/// {ip}`, or through r7 on processors without such an instruction.
fn chain_bytes(it: &Unwound, call: u64) -> i32 {
    match it.code(call - 6)[..4] {
        [0x4d, 0xf8, 0x04, 0xcd] => 4,
        [0x67, 0x46, 0x80, 0xb4] => 8,
        _ => 0,
    }
}

/// Range of a call of mcount with the instructions that belong to it.
fn around(it: &Unwound, call: u64) -> Range<u64> {
    match chain_bytes(it, call) {
        0 => call..call + 4,
        4 => call - 2..call + 8,
        _ => call - 6..call + 10,
    }
}

/// Instructions of a piece of code.
fn instructions(it: &Unwound, code: &Range<u64>) -> Vec<u64> {
    let is_code = is_code(it);
    let mut found = Vec::new();
    let mut pc = code.start;
    while pc < code.end {
        found.push(pc);
        pc = if is_code(pc) { it.next(pc) } else { pc + 2 };
    }
    found.retain(|&pc| is_code(pc));
    found
}

/// Unreachable instructions: padding between functions of hand-written assembly.
fn dead(it: &Unwound, instructions: &[u64]) -> BTreeSet<u64> {
    let flow = |pc: u64| decode(it.isa, pc, it.code(pc)).flow;
    let targets: BTreeSet<u64> = instructions
        .iter()
        .filter_map(|&pc| match flow(pc) {
            Flow::Jump { target } | Flow::Branch { target } => Some(target),
            _ => None,
        })
        .collect();
    let mut dead = BTreeSet::new();
    for pair in instructions.windows(2) {
        let ends = matches!(flow(pair[0]), Flow::Jump { .. } | Flow::Return | Flow::IndirectJump { .. });
        if (ends || dead.contains(&pair[0])) && !targets.contains(&pair[1]) {
            dead.insert(pair[1]);
        }
    }
    dead
}

/// Whether a function is assembly that sets up its own stack, which gcc does not know.
fn is_naked(it: &Unwound, piece: &Piece, instructions: &[u64]) -> bool {
    let moves = |pc: &u64| {
        let bytes = it.code(*pc);
        // msr msp
        decode::moves_sp(it.isa, bytes)
            || (!it.isa.is_riscv() && bytes.get(..3) == Some(&[0x08, 0x84, 0x88]))
            || (!it.isa.is_riscv() && bytes.get(1) == Some(&0xf3) && bytes.get(2..4) == Some(&[0x08, 0x88]))
            // msr control, which chooses the stack
            || (!it.isa.is_riscv() && bytes.get(1) == Some(&0xf3) && bytes.get(2..4) == Some(&[0x14, 0x88]))
    };
    piece.says_nothing() && instructions.iter().any(moves)
}

/// Pieces of an image's code that its table must have: those that begin at a function's start.
fn pieces(it: &Unwound, path: &Path) -> Vec<Piece> {
    let mut pieces = arbiter(path);
    // Discarded pieces (--gc-sections) are left at address 0.
    pieces.retain(|piece| {
        let function = it.functions.iter().find(|function| function.start == piece.code.start);
        !piece.code.is_empty() && function.is_some_and(|function| piece.code.end <= function.end)
    });
    pieces
}

/// Constant in a register before an instruction: loaded by `ldr register, [pc, #n]`, or by `movs`, perhaps shifted.
fn constant_before(it: &Unwound, instructions: &[u64], pc: u64, register: u16) -> i32 {
    let half = |pc: u64| u16::from_le_bytes(*it.code(pc).first_chunk().unwrap());
    let mut shift = 0;
    for &before in instructions.iter().rev().filter(|&&before| before < pc) {
        let half = half(before);
        if half >> 8 == 0x48 | register {
            let literal = ((before + 4) & !3) + u64::from(half & 0xff) * 4;
            return i32::from_le_bytes(*it.code(literal).first_chunk().unwrap()) << shift;
        } else if half >> 8 == 0x20 | register {
            return i32::from(half & 0xff) << shift;
        } else if half >> 11 == 0 && half & 7 == register && half >> 3 & 7 == register {
            shift += half >> 6 & 31;
        }
    }
    panic!("{pc:#x}: no constant")
}

/// Bytes by which the stack is shallower than the call frame information says. gcc does not describe the epilogues
/// that it makes for processors without Thumb-2, nor the steps within one.
fn unsaid(it: &Unwound, piece: &Piece, instructions: &[u64], calls: &BTreeSet<u64>) -> BTreeMap<u64, i32> {
    let mut unsaid = BTreeMap::new();
    let mut shallower_bytes = 0;
    for pair in instructions.windows(2).filter(|_| !it.isa.is_riscv()) {
        let code = it.code(pair[0]);
        let half = u16::from_le_bytes(*code.first_chunk().unwrap());
        let bytes = match half {
            // add.w sp, sp, #n with n of eight bits, shifted: a large frame is removed in two steps.
            0xf50d if code[3] & 0x8f == 0x0d => {
                let shift = 32 - u32::from(1 << 4 | (code[3] >> 4) << 1 | code[2] >> 7);
                i32::from(code[2] | 0x80) << shift
            }
            // add sp, #n; pop {registers}
            0xb000..=0xb07f => i32::from(half & 0x7f) * 4,
            0xbc00..=0xbcff => (half & 0xff).count_ones() as i32 * 4,
            // add sp, register, which holds a constant
            0x4400..=0x44ff if half & 0x87 == 0x85 => constant_before(it, instructions, pair[0], half >> 3 & 7),
            _ => 0,
        };
        let (before, after) = (piece.rule_at(pair[0]), piece.rule_at(pair[1]));
        let in_call = calls.iter().any(|&call| around(it, call).contains(&pair[0]));
        if before == after && before.base == Base::StackPointer && !in_call {
            shallower_bytes += bytes;
        } else if before != after {
            shallower_bytes = 0;
        }
        if decode(it.isa, pair[0], it.code(pair[0])).flow != Flow::Next {
            shallower_bytes = 0;
        }
        if shallower_bytes > 0 {
            unsaid.insert(pair[1], shallower_bytes);
        }
    }
    unsaid
}

/// Instructions at which r7 is the caller's again, although the call frame information finds the frame by it. gcc
/// does not describe the epilogues that it makes for processors without Thumb-2.
fn without_frame(it: &Unwound, piece: &Piece, instructions: &[u64]) -> BTreeSet<u64> {
    let mut without = BTreeSet::new();
    let mut has_ended = false;
    for pair in instructions.windows(2).filter(|_| !it.isa.is_riscv()) {
        let half = u16::from_le_bytes(*it.code(pair[0]).first_chunk().unwrap());
        // mov sp, r7 begins an epilogue. Elsewhere r7 only holds a value, around a call of mcount.
        has_ended |= half == 0x46bd;
        // pop {.., r7}
        let pops = has_ended && matches!(half, 0xbc80..=0xbcff);
        let goes_on = decode(it.isa, pair[0], it.code(pair[0])).flow == Flow::Next;
        let same = piece.rule_at(pair[0]) == piece.rule_at(pair[1]);
        let by_frame = piece.rule_at(pair[1]).base == Base::FramePointer;
        if goes_on && same && by_frame && (pops || without.contains(&pair[0])) {
            without.insert(pair[1]);
        }
        has_ended &= goes_on;
    }
    without
}

#[test]
fn every_rule_is_what_readelf_shows() {
    let (mut functions, mut instructions_seen, mut naked, mut mended) = (0, 0, 0, 0);
    let mut different = Vec::new();
    for name in common::images_of_gcc() {
        let path = common::image(&name);
        let it = Unwound::open(&path);
        let table = it.table();
        assert_eq!(table.warnings, [""; 0], "{name}");
        let calls = mcount_calls(&it);
        for piece in pieces(&it, &path) {
            let code = instructions(&it, &piece.code);
            if is_naked(&it, &piece, &code) && !code.iter().any(|pc| calls.contains(pc)) {
                naked += 1;
                continue;
            }
            functions += 1;
            let dead = dead(&it, &code);
            let unsaid = unsaid(&it, &piece, &code, &calls);
            let without = without_frame(&it, &piece, &code);
            // Around the call in a nested function the static chain is on the stack: see the next test.
            let in_call = |pc: u64| calls.iter().any(|&call| around(&it, call).contains(&pc));
            for &pc in code.iter().filter(|&&pc| !in_call(pc)) {
                let rule = rule_at(&table.rows, pc).copied();
                if rule.is_none() && dead.contains(&pc) && piece.says_nothing() {
                    continue;
                }
                let said = piece.rule_at(pc);
                if without.contains(&pc) {
                    let is_by_sp = |rule: Rule| rule.base == Base::StackPointer;
                    assert!(rule.is_some_and(is_by_sp), "{name} {pc:#x}: {rule:?}");
                    continue;
                }
                let shallower_bytes = unsaid.get(&pc).copied().unwrap_or_default();
                let mut expected = Rule { cfa_offset_bytes: said.cfa_offset_bytes - shallower_bytes, ..said };
                // Values below sp have been popped by then.
                let sp = -expected.cfa_offset_bytes;
                if shallower_bytes > 0 && matches!(said.frame_pointer, Saved::AtCfa(at) if at < sp) {
                    expected.frame_pointer = Saved::Register;
                }
                // gcc does not know that assembly in a C function loads another task's registers, calls a function, or
                // clears the return address of a thread's first function.
                let fp_lost = Rule { frame_pointer: Saved::Lost, ..expected };
                let return_lost = |rule| Rule { return_addr: Saved::Lost, ..rule };
                let lost = [fp_lost, return_lost(fp_lost), return_lost(expected)].map(Some);
                if rule != Some(expected) && !(piece.says_nothing() && lost.contains(&rule)) {
                    different.push(format!("{name} {pc:#x}: {rule:?}, not {expected:?}"));
                }
                instructions_seen += 1;
                mended += usize::from(shallower_bytes > 0);
            }
        }
    }
    println!("{functions} functions, {instructions_seen} instructions, {naked} of assembly, {mended} mended");
    let first = different.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(different.is_empty(), "{} rules differ, such as\n{first}", different.len());
    assert!(functions > 5000 && instructions_seen > 200_000, "{functions} {instructions_seen}");
    assert!(naked < functions / 50, "{naked}");
}

#[test]
fn the_push_before_each_call_of_mcount_is_known() {
    let mut total = 0;
    for name in common::all_images() {
        let path = common::image(&name);
        let it = Unwound::open(&path);
        let calls = mcount_calls(&it);
        if calls.is_empty() {
            continue;
        }
        let table = it.table();
        let pieces = pieces(&it, &path);
        for call in calls {
            let Some(piece) = pieces.iter().find(|piece| piece.code.contains(&call)) else { continue };
            assert_eq!(it.code(call - 2)[..2], [0x00, 0xb5], "{name} {call:#x}: no push {{lr}}");
            let chain_bytes = chain_bytes(&it, call);
            let said = piece.rule_at(call);
            // Without optimisation r7 holds the earlier sp.
            let depth = said.cfa_offset_bytes + chain_bytes;
            let saved = if said.return_addr == Saved::Register { Saved::AtCfa(-depth - 4) } else { said.return_addr };
            let is_sp = said.base == Base::StackPointer;
            let deeper_bytes = if is_sp { chain_bytes + 4 } else { 0 };
            let deeper = Rule { cfa_offset_bytes: said.cfa_offset_bytes + deeper_bytes, return_addr: saved, ..said };
            assert_eq!(rule_at(&table.rows, call), Some(&deeper), "{name} {call:#x}");
            assert_eq!(rule_at(&table.rows, call + 3), Some(&deeper), "{name} {call:#x}");
            let back = it.next(call);
            let then = piece.rule_at(back);
            let then = Rule { cfa_offset_bytes: then.cfa_offset_bytes + if is_sp { chain_bytes } else { 0 }, ..then };
            assert_eq!(rule_at(&table.rows, back), Some(&then), "{name} {back:#x}");
            total += 1;
        }
    }
    println!("{total} calls of mcount");
    assert!(total > 300, "{total}");
}

#[test]
fn forgetful_are_the_functions_that_call_and_nowhere_save_their_return_address() {
    let dir = scratch();
    let mut paths: Vec<PathBuf> = common::images_of_gcc().iter().map(|name| common::image(name)).collect();
    for (name, target) in [
        ("m0", cortex_m("-mcpu=cortex-m0", 0, 0x2000_0000, 0x2000_4000)),
        ("m3", cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_4000)),
        ("riscv64", riscv(64, 0x8000_0000, 0x8000_0000, 0x8001_0000)),
    ] {
        paths.push(target.with("-O2").build_source(dir.path(), name, SHAPES));
    }
    let mut total = 0;
    for path in &paths {
        let it = Unwound::open(path);
        let table = it.table();
        assert!(table.forgetful.is_sorted() && table.forgetting.is_sorted_by(|one, next| one.end <= next.start));
        let mcount = mcount_calls(&it);
        for piece in pieces(&it, path) {
            let code = instructions(&it, &piece.code);
            if is_naked(&it, &piece, &code) && !code.iter().any(|pc| mcount.contains(pc)) {
                continue;
            }
            let saves = piece.rules.values().any(|rule| rule.return_addr != Saved::Register);
            let dead = dead(&it, &code);
            let calls = code.iter().any(|&pc| {
                let flow = decode(it.isa, pc, it.code(pc)).flow;
                matches!(flow, Flow::Call { .. } | Flow::IndirectCall { .. })
                    && !mcount.contains(&pc)
                    && !dead.contains(&pc)
            });
            let is_forgetful = table.forgetful.binary_search(&piece.code.start).is_ok();
            let is_forgetting = table.forgetting.iter().any(|call| piece.code.contains(&call.start));
            assert!(!(is_forgetful && is_forgetting), "{} {:#x?}", path.display(), piece.code);
            let forgets = is_forgetful || is_forgetting;
            assert_eq!(forgets, calls && !saves, "{} {:#x?}", path.display(), piece.code);
            total += usize::from(forgets);
        }
    }
    println!("{total} forgetful functions");
    assert!(total >= 3, "{total}");
}

/// The register has the return address until a call that never returns, so that the function's entry needs no callback.
#[test]
fn a_function_that_fails_and_otherwise_calls_nothing_forgets_at_that_call() {
    let it = Unwound::open(&common::image("riscv64-forgets"));
    let table = it.table();
    let of = |name: &str| {
        let start = it.symbol(name).unwrap();
        it.functions.iter().find(|function| function.start == start).unwrap().clone()
    };
    let [checked, middle, inner] = [of("checked"), of("checked_middle"), of("checked_inner")];
    let forgetting = |function: &Range<u64>| {
        let calls: Vec<_> = table.forgetting.iter().filter(|call| function.contains(&call.start)).collect();
        assert_eq!((calls.len(), table.forgetful.contains(&function.start)), (1, false), "{function:x?}");
        calls[0].clone()
    };
    // `auipc` and `jalr`, at the end; `jal`, with eight bytes behind it.
    let (far, near, last) = (forgetting(&checked), forgetting(&middle), forgetting(&inner));
    assert_eq!((far.end - far.start, far.end), (8, checked.end));
    assert_eq!(near.end - near.start, 4);
    assert!(near.end < middle.end);
    assert_eq!((last.end - last.start, last.end), (4, inner.end));
}

/// The register tells nothing in a function that nobody called, and only its entry shows how it was reached.
#[test]
fn the_first_function_of_a_coroutine_forgets_at_its_entry() {
    for name in ["cortex-m0-jumps", "cortex-m3-jumps-O3"] {
        let it = Unwound::open(&common::image(name));
        let (table, entry) = (it.table(), it.symbol("coroutine_entry").unwrap() & !1);
        assert!(table.forgetful.contains(&entry), "{name}: {:x?}", table.forgetful);
    }
}

#[test]
fn the_table_moves_with_the_image() {
    const BIAS: u64 = 0x40_0000;
    for name in ["riscv64-pie", "cortex-m3-bare-pg", "riscv32-bare-pg", "cortex-m3-freertos"] {
        let it = Unwound::open(&common::image(name));
        let here = it.table();
        let functions: Vec<_> = it.functions.iter().map(|it| it.start + BIAS..it.end + BIAS).collect();
        let there = table(Some(&it.bytes), it.isa, &it.image.segments, BIAS, &functions);
        assert!(here.rows.len() > 50, "{name}: {} rows", here.rows.len());
        assert_eq!(
            here.rows.iter().map(|row| row.pc + BIAS).collect::<Vec<_>>(),
            there.rows.iter().map(|row| row.pc).collect::<Vec<_>>(),
            "{name}"
        );
        assert!(here.rows.iter().zip(&there.rows).all(|(here, there)| here.rule == there.rule), "{name}");
        assert_eq!(here.forgetful.iter().map(|it| it + BIAS).collect::<Vec<_>>(), there.forgetful, "{name}");
    }
}

/// Frames of every shape that C makes: small, large, of variable size, with stack arguments, with a cleanup,
/// recursive. `sink` keeps the compiler from optimising them away.
const SHAPES: &str = r#"
#ifndef __riscv
void __aeabi_unwind_cpp_pr0(void) {}
void __aeabi_unwind_cpp_pr1(void) {}
void __gcc_personality_v0(void) {}
void __gnu_unwind_frame(void) {}
void _Unwind_Resume(void) { for (;;) {} }
#endif
volatile int sink;
__attribute__((noinline)) int leaf(int x) { return x * 3 + sink; }
__attribute__((noinline)) int touch(volatile char *p, int n) { for (int i = 0; i < n; i++) p[i] = i; return leaf(n) + p[n / 2]; }
__attribute__((noinline)) int small(int x) { char b[12]; return touch(b, 12) + x; }
__attribute__((noinline)) int large(int x) { char b[700]; return touch(b, 700) + leaf(x); }
__attribute__((noinline)) int huge(int x) { char b[9000]; return touch(b, 9000) + leaf(x); }
__attribute__((noinline)) int variable(int n) { char b[n]; char *c = __builtin_alloca(n + 3); return touch(b, n) + touch(c, n) + leaf(n); }
__attribute__((noinline)) int many(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j) { return leaf(a + b) + leaf(c + d) * leaf(e + f) + leaf(g + h) - leaf(i ^ j); }
__attribute__((noinline)) int variadic(int n, ...) { __builtin_va_list l; __builtin_va_start(l, n); int s = 0; while (n--) s += leaf(__builtin_va_arg(l, int)); __builtin_va_end(l); return s; }
__attribute__((noinline)) int recursive(int n) { return n < 2 ? leaf(n) : recursive(n - 1) + recursive(n - 2); }
__attribute__((noinline)) int pressure(int a, int b, int c, int d) { int e = leaf(a), f = leaf(b), g = leaf(c), h = leaf(d), i = leaf(e), j = leaf(f), k = leaf(g); sink = h; return leaf(a) + b + c + d + e + f + g + h + i + j + k; }
__attribute__((noinline)) int indirect(int (*p)(int), int x) { return p(x) + p(x + 1); }
__attribute__((noinline)) int early(int x) { if (x == sink) return 1; return leaf(x) + leaf(x + 1); }
static void tidy(int *p) { sink += leaf(*p); }
__attribute__((noinline)) int cleanup(int x) { __attribute__((cleanup(tidy))) int y = leaf(x); return leaf(y) + 1; }
__attribute__((noreturn, noinline)) void never(int x) { leaf(x); for (;;) sink = leaf(x); }
void reset(void) {
    sink = small(1) + large(2) + huge(3) + variable(4) + many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10) + variadic(3, 1, 2, 3);
    sink += recursive(4) + pressure(1, 2, 3, 4) + indirect(leaf, 3) + early(5) + cleanup(6);
    if (sink == 77) never(1);
    host(0x18, STOPPED);
    for (;;) {}
}
"#;

/// Builds `SHAPES` without call frame information, and compares its table with readelf's rules for the complete file,
/// at every call. `with_code` tells whether the table may use the code. Returns the number of equal rules.
fn compare_at_calls(
    target: &Target,
    name: &str,
    with_code: bool,
    may_be_unknown: impl Fn(&Unwound, &Piece) -> bool,
) -> usize {
    let dir = scratch();
    let whole = target.build_source(dir.path(), name, SHAPES);
    let less = dir.path().join("less.elf");
    let mut command =
        Command::new(if name.starts_with("riscv") { "riscv64-unknown-elf-objcopy" } else { "arm-none-eabi-objcopy" });
    command.args(["-R", ".debug_frame", "-R", ".eh_frame"]);
    run(command.arg(&whole).arg(&less));
    let it = Unwound::open(&less);
    let segments = if with_code { &it.image.segments[..] } else { &[] };
    let table = table(Some(&it.bytes), it.isa, segments, 0, &it.functions);
    let mut same = 0;
    for piece in pieces(&it, &whole) {
        for pc in instructions(&it, &piece.code) {
            if !matches!(decode(it.isa, pc, it.code(pc)).flow, Flow::Call { .. } | Flow::IndirectCall { .. }) {
                continue;
            }
            // A caller is looked up just before its return address.
            let rule = rule_at(&table.rows, it.next(pc) - 1);
            if rule.is_none() && may_be_unknown(&it, &piece) {
                continue;
            }
            let expected = piece.rule_at(pc);
            match rule {
                // The code's rule uses the stack pointer, gcc's the frame pointer. Only the run can tell the depth
                // (stacks.rs); the places of saved registers must be the same.
                Some(rule) if with_code && rule.base != expected.base => assert_eq!(
                    (rule.return_addr, rule.frame_pointer),
                    (expected.return_addr, expected.frame_pointer),
                    "{name} {pc:#x} in {:#x?}",
                    piece.code
                ),
                rule => assert_eq!(rule, Some(&expected), "{name} {pc:#x} in {:#x?}", piece.code),
            }
            same += 1;
        }
    }
    println!("{name}: {same} calls");
    same
}

const OPTIONS: [&str; 5] = ["-O0", "-O1", "-O2", "-Os", "-O3 -fno-omit-frame-pointer"];

#[test]
fn arms_exception_tables_say_the_same_at_calls() {
    for cpu in ["-mcpu=cortex-m0", "-mcpu=cortex-m3", "-mcpu=cortex-m33 -mfloat-abi=soft"] {
        for options in OPTIONS {
            let target = cortex_m(cpu, 0, 0x2000_0000, 0x2000_4000).with(options).with("-funwind-tables");
            let name = format!("{cpu} {options}");
            let same = compare_at_calls(&target, &name, false, |_, _| false);
            assert!(same > 30, "{name}: {same}");
        }
    }
}

#[test]
fn the_code_alone_says_the_same_at_calls() {
    // The function that `_start` jumps to has a stack that `_start` set up.
    let may_be_unknown = |it: &Unwound, piece: &Piece| it.symbol("reset") == Some(piece.code.start);
    for options in OPTIONS {
        for (name, target) in [
            ("riscv64", riscv(64, 0x8000_0000, 0x8000_0000, 0x8001_0000)),
            ("riscv32", riscv(32, 0x8000_0000, 0x8000_0000, 0x8001_0000)),
            ("m0", cortex_m("-mcpu=cortex-m0", 0, 0x2000_0000, 0x2000_4000)),
            ("cortex-m3", cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_4000)),
        ] {
            let name = format!("{name} {options}");
            let same = compare_at_calls(&target.with(options), &name, true, may_be_unknown);
            assert!(same > 20, "{name}: {same}");
        }
    }
}

#[test]
fn what_the_linker_discarded_describes_no_function() {
    const SOURCE: &str = "int one(int x) { return x * 3 + 1; }\n\
        int two(int x) { char b[2]; ((volatile char *)b)[0] = x; return b[0]; }\n\
        void reset(void) { host(0x18, STOPPED); for (;;) {} }\n";
    let dir = scratch();
    let target = cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_4000);
    let target = target.with("-ffunction-sections -Wl,--gc-sections -Wl,-e,reset");
    let path = target.build_source(dir.path(), "discarded", SOURCE);
    let it = Unwound::open(&path);
    let pieces = arbiter(&path);
    let discarded = pieces.iter().filter(|piece| piece.code.start == 0 && !piece.code.is_empty()).count();
    assert_eq!(discarded, 2, "{pieces:x?}");
    for functions in [&it.functions[..], &[]] {
        let table = table_of(&it, functions);
        assert!(table.rows.iter().all(|row| row.pc >= 0x40), "the vectors have rules: {:x?}", table.rows);
        let reset = it.symbol("reset").unwrap();
        let piece = pieces.iter().find(|piece| piece.code.start == reset).unwrap();
        for pc in instructions(&it, &piece.code) {
            assert_eq!(rule_at(&table.rows, pc), Some(&piece.rule_at(pc)), "{pc:#x}");
        }
    }
}

/// Functions that need lr: as a counter, and for Armv8.1-M's loops.
const LR_IN_R12: &str = r#"
__asm__(".syntax unified\n.type counts, %function\ncounts:\n.cfi_startproc\nmov r12, lr\n.cfi_register lr, r12\n"
        "mov lr, #50\n1: subs lr, lr, #1\nbne 1b\nbx r12\n.cfi_endproc\n.size counts, . - counts\n"
        ".type loops, %function\nloops:\n.cfi_startproc\nmov r12, lr\n.cfi_register lr, r12\nmovs r0, #50\n"
        ".ifdef v8_1m\ndls lr, r0\n2: nop\nle lr, 2b\n.else\n2: subs r0, #1\nbne 2b\n.endif\n"
        "mov lr, r12\n.cfi_restore lr\nbx lr\n.cfi_endproc\n.size loops, . - loops\n");
void counts(void);
void loops(void);
void reset(void) { for (int round = 0; round < 20; round++) { counts(); loops(); } host(0x18, STOPPED); for (;;) {} }
"#;

#[test]
fn a_return_address_in_another_register_is_found() {
    let dir = scratch();
    let v8_1m = "-march=armv8.1-m.main -mfloat-abi=soft -Wa,--defsym,v8_1m=1";
    // Without call frame information the code alone says it.
    let silent = LR_IN_R12.replace(".cfi_", "@ .cfi_");
    for (name, flags, machine, source) in [
        ("v7m", "-mcpu=cortex-m3", "mps2-an385", LR_IN_R12),
        ("v8-1m", v8_1m, "mps3-an547", LR_IN_R12),
        ("silent", "-mcpu=cortex-m3", "mps2-an385", &silent),
    ] {
        let elf = cortex_m(flags, 0, 0x2000_0000, 0x2000_8000).build_source(dir.path(), name, source);
        let profile = dir.path().join(format!("{name}.profile"));
        let mut command = common::harness();
        let output = command.arg(&elf).args(["--machine", machine, "--period", "7", "-o"]).arg(&profile).output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(" sampled, 100.00% complete"), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let folded = common::harness().args(["export", "-f", "folded"]).arg(&profile).output().unwrap();
        let folded = String::from_utf8_lossy(&folded.stdout);
        for path in ["reset;counts ", "reset;loops "] {
            assert!(folded.lines().any(|line| line.contains(path)), "{folded}");
        }
    }
}

fn table_of(it: &Unwound, functions: &[Range<u64>]) -> Table {
    table(Some(&it.bytes), it.isa, &it.image.segments, 0, functions)
}

#[test]
fn whatever_the_bytes_are_there_is_a_sorted_table_and_at_most_one_warning() {
    let dir = scratch();
    let tables = cortex_m("-mcpu=cortex-m0", 0, 0x2000_0000, 0x2000_4000).with("-O0 -funwind-tables");
    let tables = tables.build_source(dir.path(), "tables", SHAPES);
    let paths = [common::image("cortex-m3-bare-pg"), common::image("riscv64-pie"), tables];
    let (mut tried, mut warned) = (0, 0);
    for path in &paths {
        let mut it = Unwound::open(path);
        let file = object::File::parse(&*it.bytes).unwrap();
        let sections = [".debug_frame", ".ARM.exidx", ".ARM.extab"].into_iter();
        let places: Vec<usize> = sections
            .filter_map(|name| file.section_by_name(name)?.file_range())
            .flat_map(|(start, bytes)| start as usize..(start + bytes) as usize)
            .chain(0..it.bytes.len().min(64))
            .collect();
        for (number, place) in places.into_iter().enumerate() {
            // Flips every bit in its turn, and all of them.
            let flip = [0xff, 0x80, 0x01, 0x10, 0x7f][number % 5];
            it.bytes[place] ^= flip;
            let functions = if number % 7 == 0 { Vec::new() } else { it.functions.clone() };
            let table = table_of(&it, &functions);
            it.bytes[place] ^= flip;
            assert!(table.rows.is_sorted_by(|a, b| a.pc < b.pc && a.rule != b.rule), "{} {place:#x}", path.display());
            assert!(table.warnings.len() <= 1, "{:?}", table.warnings);
            warned += table.warnings.len();
            tried += 1;
        }
        let whole = it.bytes.clone();
        for eighth in 0..8 {
            it.bytes = whole[..whole.len() * eighth / 8].to_vec();
            assert!(table_of(&it, &it.functions).warnings.len() <= 1);
        }
    }
    println!("{tried} damaged, {warned} warnings");
    assert!(tried > 1000 && warned > 10, "{tried} {warned}");
}
