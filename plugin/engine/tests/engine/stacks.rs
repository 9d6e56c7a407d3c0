// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: stacks of real runs are walked correctly. The dumps of registers and memory and the expected walks
//! are described in `../stacks/README.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use engine::code::Code;
use engine::follow::context::Core;
use engine::stack::Stacks;
use wire::definition::FrameKind;
use wire::request::{Isa, Measure, Request};
use wire::unwind::{self, Row};

use crate::fake::{Fake, guest, ledger, request};

const ISAS: [(&str, Isa); 5] = [
    ("riscv32", Isa::Riscv32),
    ("riscv64", Isa::Riscv64),
    ("thumb-v6m", Isa::ThumbV6m),
    ("thumb-v7m", Isa::ThumbV7m),
    ("thumb-v8m", Isa::ThumbV8m),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stacks")
}

/// A state of a run: all inputs of the stack walk.
#[derive(Debug, Default)]
struct Dump {
    isa: String,
    entry: Option<u64>,
    registers: BTreeMap<String, u64>,
    memory: Vec<(u64, Vec<u8>)>,
    functions: Vec<(Range<u64>, String)>,
    forgetful: Vec<u64>,
    rows: Vec<Row>,
}

fn number(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_else(|_| panic!("{text} is not an address"))
}

#[cfg(feature = "record")]
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

impl Dump {
    fn read(text: &str) -> Dump {
        let mut dump = Dump::default();
        for line in text.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["isa", isa] => dump.isa = isa.to_owned(),
                ["entry", entry] => dump.entry = Some(number(entry)),
                ["register", name, value] => {
                    dump.registers.insert(name.to_owned(), number(value));
                }
                ["memory", at, bytes] => dump.memory.push((number(at), unhex(bytes))),
                ["function", start, end, name] => {
                    dump.functions.push((number(start)..number(end), name.to_owned()));
                }
                ["forgetful", entry] => dump.forgetful.push(number(entry)),
                ["rows", rows] => dump.rows = unwind::read(&unhex(rows)).unwrap(),
                _ => panic!("{line}"),
            }
        }
        dump
    }

    #[cfg(feature = "record")]
    fn write(&self) -> String {
        let mut text = format!("isa {}\n", self.isa);
        let mut line = |line: String| writeln!(text, "{line}").unwrap();
        self.entry.iter().for_each(|entry| line(format!("entry {entry:#x}")));
        self.registers.iter().for_each(|(name, value)| line(format!("register {name} {value:#x}")));
        self.memory.iter().for_each(|(at, bytes)| line(format!("memory {at:#x} {}", hex(bytes))));
        let functions = self.functions.iter();
        functions.for_each(|(range, name)| line(format!("function {:#x} {:#x} {name}", range.start, range.end)));
        self.forgetful.iter().for_each(|entry| line(format!("forgetful {entry:#x}")));
        let mut rows = Vec::new();
        self.rows.iter().for_each(|row| row.put(&mut rows));
        line(format!("rows {}", hex(&rows)));
        text
    }

    fn isa(&self) -> Isa {
        ISAS.into_iter().find(|(name, _)| *name == self.isa).unwrap().1
    }

    /// Formats an address as function and offset.
    fn named(&self, address: u64) -> String {
        let function = self.functions.iter().find(|(range, _)| range.contains(&address));
        function.map_or(format!("{address:#x}"), |(range, name)| format!("{name}+{:#x}", address - range.start))
    }

    /// Walks the stack; one line for each frame.
    fn walk(&self) -> String {
        let measure = Measure {
            functions: self.functions.iter().map(|(range, _)| range.clone()).collect(),
            forgetful: self.forgetful.clone(),
            unwind: self.rows.clone(),
            max_depth: Some(64),
            ..Measure::default()
        };
        let memory = self.memory.iter().map(|(at, bytes)| *at..at + bytes.len() as u64).collect();
        let request = Request { memory, ..request(self.isa(), self.entry, measure) };
        let mut fake = Fake { memory: self.memory.clone(), ..Fake::default() };
        self.registers.iter().for_each(|(name, value)| fake.set(name, *value));
        let mut guest = guest(&request, fake);
        let (mut code, ledger) = (Code::new(&request), ledger(1));
        let pc = self.registers["pc"];
        let mut stacks = Stacks::new(&request).unwrap();
        let stack = stacks.take(&Core::new(0, false), pc, false, &mut guest, &mut code, &ledger);
        let mut text = format!("{}\n", self.named(pc));
        for frame in stack {
            match frame {
                FrameKind::Caller { return_addr } => writeln!(text, "{}", self.named(return_addr)).unwrap(),
                FrameKind::Exception { number, pc, .. } => {
                    writeln!(text, "exception {number} at {}", self.named(pc)).unwrap();
                }
                FrameKind::Unknown(why) => writeln!(text, "{why:?}").unwrap(),
            }
        }
        text
    }
}

#[test]
fn stacks_of_real_runs_are_walked_as_they_were() {
    let mut dumps: Vec<PathBuf> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    dumps.retain(|path| path.extension().is_some_and(|extension| extension == "dump"));
    dumps.sort();
    assert!(dumps.len() >= 12, "{dumps:?}");
    let mut all = String::new();
    for path in dumps {
        let dump = Dump::read(&fs::read_to_string(&path).unwrap());
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        writeln!(all, "{name}\n{}", dump.walk()).unwrap();
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder());
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!("stacks", all));
}

/// Memory contents in an Intel HEX file.
#[cfg(feature = "record")]
fn code(text: &str) -> Vec<(u64, Vec<u8>)> {
    let (mut pieces, mut upper): (Vec<(u64, Vec<u8>)>, u64) = (Vec::new(), 0);
    for line in text.lines() {
        let bytes = unhex(line.trim_start_matches(':'));
        let at = u64::from(u16::from_be_bytes([bytes[1], bytes[2]]));
        let data = &bytes[4..bytes.len() - 1];
        match bytes[3] {
            0 => match pieces.last_mut() {
                Some((start, held)) if *start + held.len() as u64 == upper + at => held.extend(data),
                _ => pieces.push((upper + at, data.to_vec())),
            },
            2 => upper = u64::from(u16::from_be_bytes([data[0], data[1]])) << 4,
            4 => upper = u64::from(u16::from_be_bytes([data[0], data[1]])) << 16,
            _ => {}
        }
    }
    pieces
}

/// Makes a dump from the files that `../stacks/record` has left, with only the memory that a walk may read.
#[cfg(feature = "record")]
#[test]
fn record() {
    let work = PathBuf::from(std::env::var_os("RECORDED").expect("`../stacks/record` sets it"));
    let name = std::env::var("RECORD").unwrap();
    let text = |file: &str| fs::read_to_string(work.join(file)).unwrap();
    let request = Request::read(&fs::read(work.join("request")).unwrap()).unwrap();
    let measure = request.measure().expect("`../stacks/record` measures");
    let mut dump = Dump { entry: request.entry, ..Dump::default() };
    dump.isa = ISAS.into_iter().find(|(_, isa)| *isa == request.isa).unwrap().0.to_owned();
    for line in text("gdb").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["memory", at, bytes] => dump.memory.push((number(at), unhex(bytes))),
            [name, value, ..] if value.starts_with("0x") && name.chars().all(char::is_alphanumeric) => {
                dump.registers.insert(name.to_owned(), number(value));
            }
            _ => {}
        }
    }
    // Possible return addresses: the words of the stack, and the registers.
    let word_bytes = if request.isa == Isa::Riscv64 { 8 } else { 4 };
    let words = dump.memory.iter().flat_map(|(_, bytes)| bytes.chunks_exact(word_bytes)).map(|word| {
        let mut value = [0; 8];
        value[..word_bytes].copy_from_slice(word);
        u64::from_le_bytes(value)
    });
    let candidates: Vec<u64> = words.chain(dump.registers.values().copied()).map(|value| value & !1).collect();
    let is_meant = |function: &Range<u64>| {
        candidates.iter().any(|at| (function.start..=function.end).contains(at))
            || request.entry.is_some_and(|entry| function.contains(&entry))
    };
    let names: BTreeMap<u64, String> = text("names")
        .lines()
        .filter_map(|line| {
            let mut words = line.splitn(3, ' ');
            let (at, _, name) = (words.next()?, words.next()?, words.next()?);
            Some((number(at) & !1, name.replace(' ', "")))
        })
        .collect();
    for function in measure.functions.iter().filter(|function| is_meant(function)) {
        let name = names.get(&function.start).cloned().unwrap_or_else(|| format!("{:#x}", function.start));
        dump.functions.push((function.clone(), name));
    }
    let is_in = |at: u64| dump.functions.iter().any(|(function, _)| function.contains(&at));
    dump.forgetful = measure.forgetful.iter().copied().filter(|&entry| is_in(entry)).collect();
    // A row holds until the next one, even beyond the start of the next function.
    let ends = measure.unwind.iter().skip(1).map(|next| next.pc).chain([u64::MAX]);
    let holds = |row: &Row, end: u64| {
        dump.functions.iter().any(|(function, _)| row.pc <= function.end && function.start < end)
    };
    dump.rows = measure.unwind.iter().zip(ends).filter(|&(row, end)| holds(row, end)).map(|(row, _)| *row).collect();
    let code = code(&text("code.hex"));
    for at in &candidates {
        let held = code.iter().find_map(|(start, bytes)| {
            let end = usize::try_from(at.checked_sub(*start)?).ok()?;
            Some((start + end.checked_sub(8)? as u64, bytes.get(end - 8..end)?.to_vec()))
        });
        dump.memory.extend(held.filter(|_| is_in(at - 1)));
    }
    if request.isa != Isa::Riscv32 && request.isa != Isa::Riscv64 {
        // The vector table's address, and the table's first word, the initial stack pointer.
        let table = code.iter().map(|&(start, _)| start).min().unwrap();
        dump.memory.push((0xe000_ed08, (table as u32).to_le_bytes().to_vec()));
        dump.memory.push((table, code.iter().find(|&&(start, _)| start == table).unwrap().1[..4].to_vec()));
    }
    dump.memory.sort();
    dump.memory.dedup();
    // Removes memory that the walk does not read.
    let walked = dump.walk();
    for index in 0..dump.memory.len() {
        loop {
            let whole = dump.memory[index].1.clone();
            dump.memory[index].1.truncate(whole.len() / 8 * 7 / 8 * 8);
            if whole.len() < 64 || dump.walk() != walked {
                dump.memory[index].1 = whole;
                break;
            }
        }
    }
    fs::write(folder().join(name).with_extension("dump"), dump.write()).unwrap();
}
