// SPDX-License-Identifier: MIT OR Apache-2.0
//! Allocation functions of an image: those known by their names, and those that the user names.

mod known;
pub mod rule;

use std::collections::BTreeMap;

use decode::Isa;
use wire::heap::Allocator;

use crate::error::InputError;
use crate::image::symbols::{Symbols, nearest};
use crate::profile::heap::Arena;
use rule::{Kind, Rule};

/// Options of the heap instrument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Rules of `--heap-alloc` and `--heap-free`, in their order.
    pub rules: Vec<Rule>,
}

/// Likely names of a firmware's own allocator, for a message.
const LIKELY: [&str; 4] = ["malloc", "alloc", "pool_get", "new"];

/// Largest number of functions that a message suggests.
const MAX_SUGGESTED: usize = 5;

/// Finds the allocation functions of an image, by their first addresses.
///
/// # Errors
/// When a rule names no function, with the nearest names; or when the image has no known allocation function.
pub fn find(wanted: &Wanted, symbols: &Symbols<'_>, isa: Isa) -> Result<Vec<Allocator>, InputError> {
    let mut found: BTreeMap<u64, Allocator> = BTreeMap::new();
    for rule in &wanted.rules {
        let option = rule.kind.option();
        let functions = symbols.find(&rule.name).map_err(|error| InputError::new(format!("{option}: {error}")))?;
        for function in functions {
            // A function that allocates and frees, as realloc does, needs a single rule.
            if found.insert(function.address, rule.allocator(function.address, isa)?).is_some() {
                return Err(InputError::new(format!("{option}: `{}` was named before", function.name)));
            }
        }
    }
    for (name, address) in symbols.entries() {
        let Some((kind, arguments)) = known::known(name) else { continue };
        if isa.is_riscv64() && known::is_for_32_bits(name) {
            continue;
        }
        let rule = Rule::parse(kind, &format!("{name}{arguments}"))?;
        let allocator = rule.allocator(address, isa)?;
        found.entry(address).or_insert(allocator);
    }
    if !found.values().any(|allocator| allocator.size.is_some()) {
        return Err(InputError::new(format!("--heap: {}", none(symbols))));
    }
    Ok(found.into_values().collect())
}

/// Kind of a function that is known by its name in the symbol table; None: the name is not known.
pub fn known_kind(linkage_name: &str) -> Option<Kind> {
    known::known(linkage_name).map(|(kind, _)| kind)
}

/// Message that no allocation function is known, with likely candidates.
fn none(symbols: &Symbols<'_>) -> String {
    let mut names: Vec<&str> = symbols.entries().map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return "the image has no symbols; give the ELF file that has them with --symbols".to_owned();
    }
    let is_likely = |name: &&str| LIKELY.iter().any(|likely| name.to_ascii_lowercase().contains(likely));
    let mut likely: Vec<String> = names.iter().copied().filter(is_likely).map(str::to_owned).collect();
    if likely.is_empty() {
        likely = nearest(LIKELY[0], names.iter().copied());
    }
    likely.truncate(MAX_SUGGESTED);
    let nearest = if likely.is_empty() { String::new() } else { format!("; nearest: `{}`", likely.join("`, `")) };
    format!(
        "no function of the image is known to allocate (malloc, pvPortMalloc, operator new, …){nearest}; name yours: \
         --heap-alloc 'pool_get(size=arg0)' --heap-free 'pool_put(arg0)'"
    )
}

/// Symbols that name an allocator's memory: an array, or its first address and the address after it.
const ARENAS: [(&str, Option<&str>); 5] = [
    // FreeRTOS's heap_1, heap_2 and heap_4.
    ("ucHeap", None),
    // picolibc, and many linker scripts.
    ("__heap_start", Some("__heap_end")),
    ("_heap_start", Some("_heap_end")),
    ("__heap_start__", Some("__heap_end__")),
    // CMSIS's start-up code.
    ("__HeapBase", Some("__HeapLimit")),
];

/// Memory from which blocks are allocated, if the image names it.
pub fn arena(symbols: &Symbols<'_>) -> Option<Arena> {
    ARENAS.iter().find_map(|(first, after)| {
        let (start, size_bytes) = symbols.symbol(first)?;
        let (name, end) = match after {
            None => ((*first).to_owned(), start.checked_add(size_bytes)?),
            Some(after) => (format!("{first}..{after}"), symbols.symbol(after)?.0),
        };
        (start < end).then_some(Arena { name, start, end })
    })
}
