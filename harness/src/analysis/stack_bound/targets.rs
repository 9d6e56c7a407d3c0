// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets of the calls and jumps through pointers, by what is known of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use decode::Isa;

use super::Rules;
use super::function::{self, Function, vectors};
use crate::image::Image;
use crate::image::symbols::{Class, Language, Signatures, Symbols};
use crate::image::unwind::Transfer;
use crate::profile::Profile;

/// Source of a transfer's targets, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// The code, or an array that the linker has delimited.
    Code,
    /// A statement of the user.
    User,
    /// Types, and tables of methods.
    Types,
    /// Runs. Also other knowledge that may lack targets: the addresses that the caller itself takes, and C++'s tables of
    /// methods if some were not read.
    Runs,
    /// Nothing: there is no target.
    Nothing,
}

impl Source {
    /// Its name in sentences.
    pub(super) fn word(self) -> &'static str {
        match self {
            Source::Code => "the code",
            Source::User => "the user",
            Source::Types => "types",
            Source::Runs => "runs",
            Source::Nothing => "nothing",
        }
    }
}

/// Arrays of functions that start-up code calls, by the linker's symbols (System V ABI, "Initialization and Termination
/// Functions").
const ARRAYS: [(&str, &str); 3] = [
    ("__preinit_array_start", "__preinit_array_end"),
    ("__init_array_start", "__init_array_end"),
    ("__fini_array_start", "__fini_array_end"),
];

/// Largest array or table of pointers that is read.
const MAX_TABLE_BYTES: u64 = 1 << 16;

/// Most words of tables of methods that are read: a hostile file may have overlapping tables without end.
const MAX_WORDS: usize = 1 << 22;

/// Facts by which targets are found. Functions are indices, except where an address is named.
pub(super) struct Known<'a> {
    /// First addresses of the functions whose address is taken.
    taken: BTreeSet<u64>,
    /// Whether pointers in the data are written when the image is loaded, so that the file does not show them.
    is_relocated: bool,
    signatures: Signatures,
    /// Functions that a class of callers may call by their types, as far as asked for.
    callable: RefCell<BTreeMap<Class, BTreeSet<usize>>>,
    /// Arrays of functions, with their content.
    arrays: Vec<(Range<u64>, BTreeSet<usize>)>,
    /// Functions in the tables of C++'s virtual methods, by their distance from the address that objects have.
    virtuals: Slots,
    /// Targets that the user states, by the first address of the calling function.
    stated: BTreeMap<u64, BTreeSet<usize>>,
    /// Targets that runs have seen, by the address of the transfer.
    seen: BTreeMap<u64, BTreeSet<u64>>,
    /// Functions that have executed, by index.
    pub(super) ran: BTreeSet<usize>,
    pub(super) rules: &'a Rules,
}

/// Functions of tables.
#[derive(Default)]
struct Slots {
    by_distance: BTreeMap<i64, BTreeSet<usize>>,
    /// Whether tables were left out, because they are too long or too many.
    is_partial: bool,
}

impl Slots {
    /// Functions at a distance; with None at any.
    fn at(&self, distance_bytes: Option<i32>) -> BTreeSet<usize> {
        match distance_bytes {
            Some(distance) => self.by_distance.get(&distance.into()).cloned().unwrap_or_default(),
            None => self.by_distance.values().flatten().copied().collect(),
        }
    }
}

impl<'a> Known<'a> {
    pub(super) fn read(
        isa: Isa,
        functions: &[Function],
        image: &Image,
        (symbols, variables): (&Symbols<'_>, &[(Range<u64>, String)]),
        profiles: &[Profile],
        rules: &'a Rules,
    ) -> Known<'a> {
        let memory = Memory::new(isa, functions, image);
        let signatures = symbols.signatures();
        let arrays = ARRAYS.into_iter().filter_map(|(start, end)| {
            let array = symbols.symbol(start)?.0..symbols.symbol(end)?.0;
            // Functions of an array that is not read would be left out.
            memory.count(&array)?;
            let content = memory.words(&array).into_iter().map(|(_, word)| memory.function(word));
            // A word that is not a function would be a call without a known target.
            Some((array, content.collect::<Option<BTreeSet<usize>>>()?))
        });
        let virtuals = virtuals(&memory, variables);
        let arrays = arrays.collect();
        let taken = taken(&memory, functions);
        let (seen, ran) = (seen(profiles), ran(functions, profiles));
        let callable = RefCell::default();
        let stated = functions.iter().filter_map(|function| {
            let callees = rules.callees(&function.names())?;
            Some((function.frame.function.start, callees.indices(functions)))
        });
        let stated = stated.collect();
        let is_relocated = image.position_independent;
        Known { taken, is_relocated, signatures, callable, arrays, virtuals, stated, seen, ran, rules }
    }

    /// Whether a run has made a transfer at an address.
    pub(super) fn has_seen(&self, pc: u64) -> bool {
        self.seen.contains_key(&pc)
    }

    /// Targets of a transfer, and the source of that knowledge.
    pub(super) fn targets(
        &self,
        functions: &[Function],
        function: &Function,
        transfer: &Transfer,
    ) -> (BTreeSet<usize>, Source) {
        let index = |&address: &u64| function::at(functions, address);
        if let Some(target) = transfer.target {
            return (index(&target).into_iter().collect(), Source::Code);
        }
        if let Some(stated) = self.stated.get(&function.frame.function.start) {
            return (stated.clone(), Source::User);
        }
        let seen = self.seen.get(&transfer.pc);
        let functions_seen = seen.into_iter().flatten().filter_map(index);
        if let Some(mut content) = self.in_arrays(function) {
            content.extend(functions_seen);
            return (content, Source::Code);
        }
        let class = self.signatures.class(function.frame.function.start);
        let is_cpp = class.is_some_and(|class| class.language == Language::Cpp);
        let mut fitting = class.map_or_else(BTreeSet::new, |class| self.callable(functions, class));
        if is_cpp {
            fitting.extend(self.virtuals.at(transfer.slot_bytes));
        }
        let is_partial = self.is_relocated || is_cpp && self.virtuals.is_partial;
        let is_shown = !fitting.is_empty() && !is_partial;
        if class.is_some() {
            // In `(a ? f : g)()` no variable has the pointer, so no type shows the call.
            fitting.extend(function.frame.taken.iter().filter_map(index));
        }
        fitting.extend(functions_seen);
        let source = match (is_shown, fitting.is_empty() && seen.is_none()) {
            (true, _) => Source::Types,
            (false, false) => Source::Runs,
            (false, true) => Source::Nothing,
        };
        (fitting, source)
    }

    /// Functions that a class of callers may call by their types.
    fn callable(&self, functions: &[Function], class: Class) -> BTreeSet<usize> {
        let find = || {
            let callable = self.signatures.callable(class, &self.taken);
            callable.into_iter().filter_map(|address| function::at(functions, address)).collect()
        };
        self.callable.borrow_mut().entry(class).or_insert_with(find).clone()
    }

    /// Content of the arrays that a function walks: it has both ends of each, and makes no more calls through pointers
    /// than there are arrays.
    fn in_arrays(&self, function: &Function) -> Option<BTreeSet<usize>> {
        if self.is_relocated {
            return None;
        }
        let frame = &function.frame;
        let has = |array: &Range<u64>| [array.start, array.end].iter().all(|end| frame.constants.contains(end));
        let walked: Vec<&BTreeSet<usize>> =
            self.arrays.iter().filter(|(array, _)| has(array)).map(|(_, functions)| functions).collect();
        let calls = frame.transfers.iter().filter(|transfer| transfer.target.is_none()).count();
        (calls <= walked.len()).then(|| walked.into_iter().flatten().copied().collect())
    }
}

/// Pointers in the image's memory.
struct Memory<'a> {
    image: &'a Image,
    word_bytes: u64,
    /// Thumb's bit 0 of pointers to code.
    thumb: u64,
    /// Indices of the functions, by first address.
    starts: BTreeMap<u64, usize>,
}

impl<'a> Memory<'a> {
    fn new(isa: Isa, functions: &[Function], image: &'a Image) -> Memory<'a> {
        let starts = functions.iter().map(|function| function.frame.function.start).zip(0..).collect();
        let word_bytes = if isa.is_riscv64() { 8 } else { 4 };
        Memory { image, word_bytes, thumb: u64::from(isa.is_thumb()), starts }
    }

    /// Number of words of a range; None: it is too long to be read.
    fn count(&self, range: &Range<u64>) -> Option<u64> {
        let length = range.end.saturating_sub(range.start);
        (length <= MAX_TABLE_BYTES).then_some(length / self.word_bytes)
    }

    /// Words of a range, with their distance from its start. A range that is too long has none.
    fn words(&self, range: &Range<u64>) -> Vec<(u64, u64)> {
        let count = self.count(range).unwrap_or(0);
        let word = |number: u64| {
            let distance = number * self.word_bytes;
            let low = u64::from(self.image.loaded_u32(range.start.checked_add(distance)?)?);
            let high = if self.word_bytes == 8 {
                u64::from(self.image.loaded_u32(range.start.checked_add(distance + 4)?)?)
            } else {
                0
            };
            Some((distance, low | high << 32))
        };
        (0..count).filter_map(word).collect()
    }

    /// Index of the function that a pointer leads to.
    fn function(&self, word: u64) -> Option<usize> {
        let start = (word & self.thumb == self.thumb).then_some(word & !self.thumb)?;
        self.starts.get(&start).copied()
    }
}

/// Functions in the tables of virtual methods (Itanium C++ ABI, 2.5.2): an object's pointer leads behind two words that
/// are no functions, also inside a table where a class has several bases. Methods without code leave words that are no
/// functions, either, so every such place is taken for a beginning.
fn virtuals(memory: &Memory<'_>, variables: &[(Range<u64>, String)]) -> Slots {
    let (mut slots, mut read) = (Slots::default(), 0_usize);
    let is_table = |name: &str| name.starts_with("_ZTV") || name.starts_with("_ZTC");
    for (table, _) in variables.iter().filter(|(_, name)| is_table(name)) {
        let Some(count) = memory.count(table) else {
            slots.is_partial = true;
            continue;
        };
        read += count as usize;
        if read > MAX_WORDS {
            slots.is_partial = true;
            return slots;
        }
        let words = memory.words(table);
        let is_function = |index: usize| memory.function(words[index].1).is_some();
        for begin in (2..=words.len()).filter(|&index| !is_function(index - 1) && !is_function(index - 2)) {
            read += words.len() - begin + 1;
            if read > MAX_WORDS {
                slots.is_partial = true;
                return slots;
            }
            for &(distance, word) in &words[begin..] {
                let from_begin = distance as i64 - (begin as u64 * memory.word_bytes) as i64;
                slots.by_distance.entry(from_begin).or_default().extend(memory.function(word));
            }
        }
    }
    slots
}

/// First addresses of the functions whose address the code or the data has.
fn taken(memory: &Memory<'_>, functions: &[Function]) -> BTreeSet<u64> {
    let mut taken: BTreeSet<u64> =
        functions.iter().flat_map(|function| function.frame.taken.iter().copied()).collect();
    let image = memory.image;
    // No call goes through the vector table.
    let table: BTreeSet<u64> = vectors(image).map(|(address, _)| address).collect();
    for segment in &image.segments {
        let skipped = (segment.run_addr.wrapping_neg() & 3) as usize;
        let words = segment.data.get(skipped..).unwrap_or_default().chunks_exact(4);
        for (number, word) in words.enumerate() {
            let word = u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
            let address = segment.load_addr.wrapping_add((skipped + 4 * number) as u64);
            if let Some(index) = memory.function(word)
                && !table.contains(&address)
            {
                taken.insert(functions[index].frame.function.start);
            }
        }
    }
    taken
}

/// Transfers of control that the runs have seen, without their load bias.
fn seen(profiles: &[Profile]) -> BTreeMap<u64, BTreeSet<u64>> {
    let mut seen: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for profile in profiles {
        let bias = profile.facts.load_bias;
        for arc in profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs) {
            seen.entry(arc.site.wrapping_sub(bias)).or_default().insert(arc.target.wrapping_sub(bias));
        }
    }
    seen
}

/// Functions that have executed in the runs.
fn ran(functions: &[Function], profiles: &[Profile]) -> BTreeSet<usize> {
    let pcs = profiles.iter().flat_map(|profile| {
        let bias = profile.facts.load_bias;
        profile.vcpus.iter().flat_map(|vcpu| &vcpu.insns).map(move |insn| insn.pc.wrapping_sub(bias))
    });
    pcs.filter_map(|pc| function::at(functions, pc)).collect()
}
