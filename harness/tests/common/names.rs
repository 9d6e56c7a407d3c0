// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profile of difficult names, for the tests of every format: names that compilers, linkers and people give
//! functions, files and tasks, and texts with a special meaning in some format.
//!
//! Every function of [`functions`] executes, is called by `main` and has samples in two tasks. Each has its successor
//! inlined at one instruction. `zero_length` has no byte of code; the code after it has no name. Every place has both
//! an instruction and a call site.
//!
//! `let path = names::save(dir.path());` and then `harness export <path> --format …`.

use std::fs;
use std::path::{Path, PathBuf};

use harness::profile::{FILE_NAME, Frame, Function, LineCode, Profile, StackFrame};
use wire::definition::{FrameKind, Unknown};

use super::made;

/// Function with its counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Demangled name. Not unique: `init` occurs twice, in two files.
    pub name: String,
    /// Name in the symbol table.
    pub linkage_name: String,
    /// Source file.
    pub file: Option<String>,
    /// First address.
    pub start: u64,
    /// Instructions executed in it, including inlined functions.
    pub self_insns: u64,
    /// Part of them that belongs to the next function, inlined.
    pub inlined_insns: u64,
    /// Calls of it, all by `main`; `main` itself was entered first.
    pub calls: u64,
}

/// Difficult names of tasks, in the profile's order.
pub const TASKS: [&str; 6] = ["net;rx 1", "net;rx 1", "größe \"x\" <y>", "", "a\tb\n\u{1b}[1mc", "IDLE 42"];

/// Distance of two functions' first addresses.
const STEP_BYTES: u64 = 0x40;
const MAIN: u64 = 0x1000;
const FIRST: u64 = 0x4000;
/// Address of an instruction without a name.
const UNNAMED: u64 = 0x2_0002;
/// Executions of the unnamed instruction.
pub const UNNAMED_INSNS: u64 = 777;
const PERIOD_INSNS: u64 = 100;

/// Names of the functions: name, linkage name if it differs, file.
fn called() -> Vec<(String, Option<&'static str>, Option<&'static str>)> {
    let plain = |name: &str, file| (name.to_owned(), None, Some(file));
    let mangled = |name: &str, linkage_name, file| (name.to_owned(), Some(linkage_name), Some(file));
    let thousand = format!("fold<{}>::apply(int)", "pair<int;char>, ".repeat(61));
    let mut names = vec![
        plain("main", "src/main.c"),
        // C++
        mangled("std::map<int, char>::operator[](int const&) 42", "_ZNSt3mapIicEixERKi", "src/a b;c,1.cpp"),
        mangled("void put<';', '\"', '<'>(char const*, ...)", "_Z3putILc59ELc34ELc60EEvPKcz", "src/\"quoted\".cc"),
        mangled("operator<< <int; 3> 7", "_ZlsIiLi3EE", "C:\\fw\\out put.cpp"),
        mangled("(anonymous namespace)::f() [clone .isra.0]", "_ZN12_GLOBAL__N_11fEv.isra.0", "../x/../anon.cc"),
        // Rust
        mangled("<[u8; 16] as core::fmt::Debug>::fmt", "_RNvXCs_1aAh10_4fmt", "/rustc/0/library/core/src/fmt/mod.rs"),
        mangled("fw::run::<impl Fn(&str) -> u8, 3>::{closure#0}", "_RNCINvC2fw3runE0B3_", "src/main.rs"),
        // UTF-8, also outside the basic plane, with a combining mark and from right to left
        plain("größe_ändern::测量", "src/größe.c"),
        plain("🚀_e\u{301}_שלום", "src/🚀.c"),
        // Long
        (format!("{thousand:x<1000}"), Some("_Z4foldv"), Some("src/long.cpp")),
        ("ж".repeat(1000), None, Some("src/long.c")),
        // Namesakes
        plain("init", "src/a/init.c"),
        plain("init", "src/b/init.c"),
        // Empty, or nearly
        plain("", "src/nameless.c"),
        plain(" ", "src/nameless.c"),
        plain("-", "src/nameless.c"),
        plain("--", "src/nameless.c"),
        // Numbers
        plain("42", "src/numbers.c"),
        plain("x 99", "src/numbers.c"),
        plain("x 1.5", "src/numbers.c"),
        plain("0x10 (2)", "src/numbers.c"),
        // Control characters
        plain("a\tb\nc\rd\u{1b}[31me\0f\u{7f}g\u{2028}h", "src/con\ttrol\n.c"),
        // No file
        ("asm_entry".to_owned(), None, None),
    ];
    // Texts with a special meaning in some format, template or shell.
    let meant = [
        "# comment",
        "fn=(1) fake",
        "calls=3 16",
        "DA:1,2",
        "end_of_record",
        "a,b\"c\"\"d",
        "=HYPERLINK(\"x\")",
        "</script><b>&amp;'",
        "%s%n{}",
        "back\\slash/$HOME`id`",
        "[irq SysTick]",
        "task main",
        "main",
        "all",
        "constructor",
        "__proto__",
    ];
    names.extend(meant.map(|name| plain(name, "src/meant.c")));
    names
}

/// The functions, by address; the first is the `main` that calls all others.
pub fn functions() -> Vec<Named> {
    let named = |(index, (name, linkage_name, file)): (usize, (String, Option<&str>, Option<&str>))| {
        let index = index as u64;
        let is_main = index == 0;
        Named {
            linkage_name: linkage_name.map_or_else(|| name.clone(), str::to_owned),
            name,
            file: file.map(str::to_owned),
            start: if is_main { MAIN } else { FIRST + index * STEP_BYTES },
            // Every number is used only once.
            self_insns: if is_main { 5000 } else { index + (1000 + index) + (400 + index) },
            inlined_insns: if is_main { 0 } else { 400 + index },
            calls: index.max(1),
        }
    };
    called().into_iter().enumerate().map(named).collect()
}

/// Profile of these names.
pub fn profile() -> Profile {
    let functions = functions();
    let mut profile = made::empty(PERIOD_INSNS);
    profile.facts.image_name = "na;mes \"1\" <ü>.elf".to_owned();
    for (task, name) in TASKS.into_iter().enumerate() {
        made::task(&mut profile, name, 1000 + task as u64);
    }
    made::execute(&mut profile, MAIN, 1);
    made::execute(&mut profile, MAIN + 2, 4999);
    for (index, function) in (0..).zip(&functions) {
        let size_bytes = if index == 0 { 8 * functions.len() as u64 } else { STEP_BYTES - 8 };
        profile.names.functions.push(Function {
            name: function.name.clone(),
            linkage_name: function.linkage_name.clone(),
            start: function.start,
            size_bytes,
            file: function.file.clone(),
            line: function.file.is_some().then_some(10 * index + 1),
        });
        let string = string(&mut profile, &function.name);
        let file = function.file.as_ref().map(|file| self::string(&mut profile, file));
        let frame = |line| Frame { function: string, file, line: file.map(|_| 10 * index + line), inlined: false };
        let own = [frame(1), frame(2), frame(3)];
        let [entry, body, call] = own.clone().map(|frame| stack(&mut profile, vec![frame]));
        profile.names.locations.push((function.start, entry));
        profile.names.locations.push((function.start + 2, body));
        if let Some(file) = file {
            for (line, offset, size_bytes) in [(1, 0, 2), (2, 2, 2), (3, 4, 4)] {
                let line = 10 * index + line;
                profile.names.lines.push(LineCode { start: function.start + offset, size_bytes, file, line });
            }
        }
        if index == 0 {
            // Address before each return address.
            let sites = (1..functions.len() as u64).map(|callee| (MAIN + 8 * callee + 3, call));
            profile.names.locations.extend(sites);
            continue;
        }
        let next = &functions[(index as usize + 1) % functions.len()];
        let name = self::string(&mut profile, &next.name);
        let next_file = next.file.as_ref().map(|file| self::string(&mut profile, file));
        let inlined = Frame { function: name, file: next_file, line: next_file.map(|_| 7), inlined: true };
        let [_, _, outer] = own;
        let inlined = stack(&mut profile, vec![outer, inlined]);
        profile.names.locations.push((function.start + 4, inlined));

        made::execute(&mut profile, function.start, function.calls);
        made::execute(
            &mut profile,
            function.start + 2,
            function.self_insns - function.calls - function.inlined_insns,
        );
        made::execute(&mut profile, function.start + 4, function.inlined_insns);
        let site = MAIN + 8 * u64::from(index);
        made::call(&mut profile, site, function.start, function.calls);
        let caller = StackFrame { parent: 0, kind: FrameKind::Caller { return_addr: site + 4 } };
        profile.stacks.push(caller);
        let number = profile.stacks.len() as u32;
        for sample in 0..4 {
            let task = (index + sample % 2) % (TASKS.len() as u32 + 1);
            made::sample(&mut profile, function.start + 2 + 2 * u64::from(sample / 2), number, task);
        }
    }
    // A symbol without code, and code without a symbol.
    let zero = Function {
        name: "zero_length".to_owned(),
        linkage_name: "zero_length".to_owned(),
        start: UNNAMED - 2,
        size_bytes: 0,
        file: None,
        line: None,
    };
    profile.names.functions.push(zero);
    made::execute(&mut profile, UNNAMED, UNNAMED_INSNS);
    // Samples in an interrupt whose handler has no name, and below an unknown stack.
    profile.stacks.push(StackFrame { parent: 0, kind: FrameKind::Unknown(Unknown::Corrupt) });
    let parent = profile.stacks.len() as u32;
    let kind = FrameKind::Exception { number: 21, handler: UNNAMED, pc: functions[1].start + 2 };
    profile.stacks.push(StackFrame { parent, kind });
    made::sample(&mut profile, UNNAMED, parent + 1, 1);
    profile.names.locations.sort_unstable();
    profile.names.functions.sort_by_key(|function| function.start);
    profile.vcpus[0].arcs.sort_unstable();
    profile
}

/// Saves the profile; returns its path.
pub fn save(dir: &Path) -> PathBuf {
    let path = dir.join(FILE_NAME);
    fs::write(&path, profile().to_bytes().unwrap()).unwrap();
    path
}

fn string(profile: &mut Profile, text: &str) -> u32 {
    let strings = &mut profile.names.strings;
    let known = strings.iter().position(|known| known == text);
    let index = known.unwrap_or_else(|| {
        strings.push(text.to_owned());
        strings.len() - 1
    });
    index as u32
}

fn stack(profile: &mut Profile, frames: Vec<Frame>) -> u32 {
    profile.names.stacks.push(frames);
    profile.names.stacks.len() as u32 - 1
}
