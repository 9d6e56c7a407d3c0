// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cores whose cycles can be counted: a core is a TOML file with the cycles of its instructions. Those in `harness/cores` are
//! built in and have names; others are read from files. `docs/cycles.md` describes the format for authors.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use wire::core::{CLASSES, Class, Cortex, MAX_CYCLES, MAX_WORDS, Queue};

use super::CORES;
use super::origin::Origin;
use super::spanned::Spanned;
use crate::error::InputError;
use crate::image::{bounded_read, sha256_hex};

/// Largest size of a core file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Core whose cycles can be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Name of a built-in core; or the file's name without its extension, and the beginning of its SHA-256.
    pub name: String,
    /// Description for the plugin.
    pub wire: wire::core::Core,
}

/// A core file: of a Cortex-M, or of a RISC-V core with its cycles.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct CoreFile {
    /// Cortex-M that it is; everything but the multiplier is known then.
    #[serde(default)]
    cortex: Option<Spanned<String>>,
    /// Cycles of the multiplier of a Cortex-M0 or M0+: 1 or 32.
    #[serde(default)]
    multiplier: Option<Spanned<u64>>,
    /// Instructions that a RISC-V core has, as `rv32imc`.
    #[serde(default)]
    isa: Option<Spanned<String>>,
    /// Cycles for which an instruction waits for what the one before it loads.
    #[serde(default)]
    load_use: Option<Spanned<u64>>,
    /// Whether a store waits for the value that it stores, too.
    #[serde(default)]
    stores_wait: bool,
    /// Whether an access of a control register waits for what its fields of registers name, also where it reads none.
    #[serde(default)]
    csr_waits: bool,
    /// Cycles for which the instruction behind `wfi` waits, unless it jumps or divides.
    #[serde(default)]
    wakes: Option<Spanned<u64>>,
    /// Cycles more of a jump to an instruction of four bytes that is not at a multiple of four.
    #[serde(default)]
    unaligned_target: Option<Spanned<u64>>,
    /// Cycles more of a signed division of a negative number.
    #[serde(default)]
    negative_dividend: Option<Spanned<u64>>,
    /// Queue of fetched words, which tells the cycles of jumps.
    #[serde(default)]
    queue: Option<Spanned<QueueTable>>,
    /// Cycles of the instructions.
    #[serde(default)]
    cycles: Option<Spanned<BTreeMap<String, Spanned<u64>>>>,
}

impl CoreFile {
    /// Whether it has anything of a RISC-V core.
    fn says_more(&self) -> bool {
        let CoreFile { cortex: _, multiplier: _, isa, load_use, stores_wait, .. } = self;
        let CoreFile { unaligned_target, negative_dividend, csr_waits, wakes, queue, cycles, .. } = self;
        let numbers = [load_use, unaligned_target, negative_dividend, wakes];
        numbers.into_iter().any(Option::is_some)
            || isa.is_some()
            || cycles.is_some()
            || queue.is_some()
            || *stores_wait
            || *csr_waits
    }
}

/// Queue of fetched words.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct QueueTable {
    /// Words that it holds.
    words: u32,
    /// Whether the last branch that was taken backwards is predicted to be taken again.
    #[serde(default)]
    predictor: bool,
}

/// Names of the classes in a file.
const NAMES: [(&str, Class); CLASSES - 1] = [
    ("alu", Class::Alu),
    ("shift", Class::Shift),
    ("multiply", Class::Multiply),
    ("multiply-high", Class::MultiplyHigh),
    ("divide", Class::Divide),
    ("load", Class::Load),
    ("store", Class::Store),
    ("branch", Class::Branch),
    ("jump", Class::Jump),
    ("jump-register", Class::JumpRegister),
    ("csr", Class::Csr),
    ("fence", Class::Fence),
    ("fence-code", Class::FenceCode),
    ("atomic", Class::Atomic),
    ("load-reserved", Class::LoadReserved),
    ("store-conditional", Class::StoreConditional),
    ("return", Class::Return),
    ("wait", Class::Wait),
    ("call", Class::Call),
    ("csr-status", Class::CsrStatus),
    ("push", Class::Push),
    ("pop", Class::Pop),
    ("pop-return", Class::PopReturn),
    ("pop-return-zero", Class::PopReturnZero),
    ("move-pair", Class::MovePair),
];

/// Further names: a taken branch, and a division by zero.
const TAKEN: &str = "branch-taken";
const BY_ZERO: &str = "divide-by-zero";

/// Names of the built-in cores, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    CORES.iter().map(|(name, _)| *name)
}

/// Whether a name is that of a built-in core.
pub fn is_known(name: &str) -> bool {
    names().any(|known| known == name)
}

/// Whether a core is named by the path of its file.
pub fn is_file(name_or_file: &str) -> bool {
    let path = Path::new(name_or_file);
    path.components().count() > 1 || path.extension().is_some()
}

/// Cores that are not served, and why.
const UNSERVED: [(&str, &str); 5] = [
    ("cortex-m23", "too little is public to bound its cycles"),
    ("cortex-m33", "too little is public to bound which of its instructions execute in pairs"),
    ("cortex-m55", "too little is public to bound its vector unit and its caches"),
    ("cortex-m7", "it executes two instructions in a cycle and has caches"),
    ("cortex-m85", "it executes two instructions in a cycle and has caches"),
];

/// Whether no board's numbers were found against which a core's cycles could be held.
pub fn is_unheld(name: &str) -> bool {
    matches!(name, "cortex-m0" | "cortex-m0plus")
}

/// Finds a built-in core by its name, or reads a core file.
///
/// # Errors
/// When there is no such core and no such file, or the file is invalid: file, line and reason.
pub fn find(name_or_file: &str) -> Result<Core, InputError> {
    if let Some((name, text)) = CORES.iter().find(|(name, _)| *name == name_or_file) {
        return read(name, &format!("{name}.toml"), text);
    }
    if let Some((name, why)) = UNSERVED.iter().find(|(name, _)| *name == name_or_file) {
        return Err(InputError::new(format!("--cycles={name}: {name} is not served: {why}; leave it out")));
    }
    let path = Path::new(name_or_file);
    if !is_file(name_or_file) {
        let names: Vec<&str> = names().collect();
        return Err(InputError::new(format!(
            "--cycles={name_or_file}: there is no such core; known are {}, and a core file is named by its path",
            names.join(", ")
        )));
    }
    let unreadable = |error: &dyn std::fmt::Display| InputError::about(path, format_args!("cannot be read: {error}"));
    let bytes = bounded_read::read_up_to(path, MAX_FILE_BYTES).map_err(|error| unreadable(&error))?;
    let text = String::from_utf8(bytes).map_err(|error| unreadable(&error))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    // Another description's cycles are not comparable.
    read(&format!("{stem}/{}", &sha256_hex(text.as_bytes())[..12]), name_or_file, &text)
}

/// Reads a core's file.
fn read(name: &str, file: &str, text: &str) -> Result<Core, InputError> {
    let origin = Origin { path: file, text };
    let parsed: CoreFile = origin.parse()?;
    let wire = match (&parsed.cortex, &parsed.multiplier, &parsed.isa, &parsed.cycles) {
        (Some(cortex), ..) if parsed.says_more() => {
            return Err(origin.at(cortex, "all of a cortex is known but its multiplier: leave the rest out"));
        }
        (Some(cortex), multiplier, ..) => cortex_of(&origin, cortex, multiplier.as_ref())?,
        (None, Some(multiplier), ..) => {
            let reason = "multiplier is of a cortex; of another core it is a class of [cycles]";
            return Err(origin.at(multiplier, reason));
        }
        (None, None, Some(isa), Some(cycles)) => riscv_of(&origin, &parsed, isa, cycles)?,
        _ => {
            let reason = "a core has `isa` and a table `[cycles]`, or is `cortex = \"m4\"` or its kin";
            return Err(InputError::about(Path::new(file), reason));
        }
    };
    Ok(Core { name: name.to_owned(), wire })
}

/// A RISC-V core by its instructions and its table of cycles.
fn riscv_of(
    origin: &Origin<'_>,
    parsed: &CoreFile,
    said: &Spanned<String>,
    cycles_table: &Spanned<BTreeMap<String, Spanned<u64>>>,
) -> Result<wire::core::Core, InputError> {
    let isa = said.get_ref();
    let Some(extensions) = isa.strip_prefix("rv32i").filter(|rest| rest.chars().all(|letter| "mac".contains(letter)))
    else {
        return Err(origin.at(said, "isa is \"rv32i\" with any of m, a and c behind it"));
    };
    let number = |value: &Spanned<u64>| match *value.get_ref() {
        cycles if cycles <= MAX_CYCLES => Ok(cycles),
        _ => Err(origin.at(value, format_args!("cycles are at most {MAX_CYCLES}"))),
    };
    let optional = |value: &Option<Spanned<u64>>| value.as_ref().map_or(Ok(0), number);
    let table = cycles_table.get_ref();
    let mut cycles = vec![None; CLASSES];
    for (key, value) in table {
        match NAMES.iter().find(|(name, _)| name == key) {
            Some(&(_, class)) if number(value)? > 0 => cycles[class.index()] = Some(number(value)?),
            None if key == TAKEN || key == BY_ZERO => {}
            Some(_) => return Err(origin.at(value, "an instruction takes at least one cycle")),
            None => {
                let reason = format_args!("{key:?} is not a class of instructions: docs/cycles.md");
                return Err(origin.at(value, reason));
            }
        }
    }
    let more = |key: &str, class: Class| -> Result<Option<(u64, u64)>, InputError> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let usual = cycles[class.index()];
        let needs = || origin.at(value, format_args!("{key} needs the cycles of the usual case"));
        let usual = usual.ok_or_else(needs)?;
        Ok(Some((usual, number(value)?)))
    };
    let taken = match more(TAKEN, Class::Branch)? {
        Some((usual, taken)) => taken.checked_sub(usual),
        None => Some(0),
    };
    let by_zero = match more(BY_ZERO, Class::Divide)? {
        Some((usual, by_zero)) => usual.checked_sub(by_zero),
        None => Some(0),
    };
    let (Some(taken), Some(by_zero)) = (taken, by_zero) else {
        let reason = "a taken branch takes no fewer cycles, and a division by zero no more";
        return Err(origin.at(cycles_table, reason));
    };
    let queue = match &parsed.queue {
        Some(queue) if !(1..=MAX_WORDS).contains(&queue.get_ref().words) => {
            return Err(origin.at(queue, format_args!("a queue has one to {MAX_WORDS} words")));
        }
        Some(queue) if taken > 0 || parsed.unaligned_target.is_some() => {
            let reason = "a queue tells what jumps cost: leave branch-taken and unaligned-target out";
            return Err(origin.at(queue, reason));
        }
        Some(queue) => Some(Queue { words: queue.get_ref().words, has_predictor: queue.get_ref().predictor }),
        None => None,
    };
    Ok(wire::core::Core {
        cortex: None,
        cycles,
        is_compressed: extensions.contains('c'),
        taken,
        unaligned_target: optional(&parsed.unaligned_target)?,
        load_use: optional(&parsed.load_use)?,
        stores_wait: parsed.stores_wait,
        csr_waits: parsed.csr_waits,
        wakes: optional(&parsed.wakes)?,
        negative_dividend: optional(&parsed.negative_dividend)?,
        by_zero,
        queue,
    })
}

/// A Cortex-M by its name in a file.
fn cortex_of(
    origin: &Origin<'_>,
    name: &Spanned<String>,
    multiplier: Option<&Spanned<u64>>,
) -> Result<wire::core::Core, InputError> {
    let is_small = match multiplier.map(|cycles| (*cycles.get_ref(), cycles)) {
        None | Some((1, _)) => false,
        Some((32, _)) => true,
        Some((_, cycles)) => return Err(origin.at(cycles, "a multiplier takes 1 cycle or 32")),
    };
    let cortex = match (name.get_ref().as_str(), is_small) {
        ("m0", false) => Cortex::M0,
        ("m0", true) => Cortex::SmallM0,
        ("m0plus", false) => Cortex::M0Plus,
        ("m0plus", true) => Cortex::SmallM0Plus,
        ("m3", false) => Cortex::M3,
        ("m4", false) => Cortex::M4,
        _ => {
            return Err(
                origin.at(name, "cortex is \"m0\" or \"m0plus\", with a multiplier or without, \"m3\" or \"m4\"")
            );
        }
    };
    Ok(wire::core::Core { cortex: Some(cortex), cycles: vec![None; CLASSES], ..wire::core::Core::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Message for a file, without its name.
    fn refused(text: &str) -> String {
        let error = read("own", "own.toml", text).unwrap_err().to_string();
        error.strip_prefix("own.toml:").unwrap_or_else(|| panic!("{error}")).to_owned()
    }

    #[test]
    fn the_cores_that_are_carried_along_can_be_meant() {
        for name in names() {
            let core = find(name).unwrap_or_else(|error| panic!("{error}"));
            assert!(core.wire.is_meant() && core.name == name, "{name}");
            assert!(core.wire.cortex.is_some() || core.wire.cycles_of(Class::Alu).is_some(), "{name}");
            assert!(core.wire.cycles_of(Class::Unknown).is_none());
        }
        assert_eq!(find("ibex-2").unwrap().wire.by_zero, 35);
        assert_eq!(find("ibex-2").unwrap().wire.taken, 2);
        assert!(!find("picorv32").unwrap().wire.is_compressed);
        assert!(find("hazard3").unwrap().wire.queue.is_some_and(|queue| queue.words == 2 && queue.has_predictor));
    }

    #[test]
    fn a_fault_of_a_file_is_named_with_its_line() {
        let rows = [
            ("isa = \"rv32i\"\n[cycles]\nalu = 0\n", "3: an instruction takes at least one cycle"),
            ("isa = \"rv32i\"\n[cycles]\nalu = 201\n", "3: cycles are at most 200"),
            ("isa = \"rv32i\"\n[cycles]\nadd = 1\n", "3: \"add\" is not a class of instructions: docs/cycles.md"),
            ("isa = \"rv64i\"\n[cycles]\n", "1: isa is \"rv32i\" with any of m, a and c behind it"),
            ("isa = \"rv32imf\"\n[cycles]\n", "1: isa is"),
            ("isa = \"rv32i\"\nload-use = 999\n[cycles]\n", "2: cycles are at most 200"),
            ("isa = \"rv32i\"\nqueue = { words = 9 }\n[cycles]\n", "2: a queue has one to 4 words"),
            ("isa = \"rv32i\"\nqueue = { words = 2 }\n[cycles]\nbranch = 1\nbranch-taken = 2\n", "2: a queue tells"),
            ("isa = \"rv32i\"\n[cycles]\nbranch-taken = 2\n", "3: branch-taken needs the cycles of the usual case"),
            ("isa = \"rv32i\"\n[cycles]\nbranch = 3\nbranch-taken = 2\n", "2: a taken branch takes no fewer"),
            ("isa = \"rv32i\"\n[cycles]\ndivide = 3\ndivide-by-zero = 9\n", "2: a taken branch takes no fewer"),
            ("isa = \"rv32i\"\nhazard = 1\n[cycles]\n", "2: unknown field `hazard`"),
            ("isa = \"rv32i\"\n", " a core has `isa` and a table `[cycles]`, or is `cortex"),
            ("cortex = \"m7\"\n", "1: cortex is \"m0\" or \"m0plus\""),
            ("cortex = \"m3\"\nmultiplier = 32\n", "1: cortex is \"m0\" or \"m0plus\""),
            ("cortex = \"m0\"\nmultiplier = 2\n", "2: a multiplier takes 1 cycle or 32"),
            ("cortex = \"m3\"\n[cycles]\nalu = 1\n", "1: all of a cortex is known but its multiplier"),
            ("isa = \"rv32i\"\nmultiplier = 1\n[cycles]\n", "2: multiplier is of a cortex"),
        ];
        for (text, message) in rows {
            let found = refused(text);
            assert!(found.starts_with(message), "{text}{found}");
        }
    }
}
