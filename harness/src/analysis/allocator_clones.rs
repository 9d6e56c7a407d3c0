// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiler-made copies of the heap's functions: clones, whose arguments may be in other registers, and inlined code.
//! Calls are followed at a function's first instruction, so calls of copies are missed.
//!
//! A copy within a followed function is not a separate call, and a copy that only calls a followed function is followed
//! there: neither is missed.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::lost::Lost;
use crate::image::heap as allocators;
use crate::image::heap::rule::Kind;
use crate::image::symbols::demangle;
use crate::profile::heap::Heap;
use crate::profile::{Arc, Function, Profile};
use crate::text::symbol_name::{file_name, original_name};

/// A called clone that is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cloned {
    /// Its name in the symbol table. Options that name functions take this form, too.
    pub linkage_name: String,
    /// Kind of the original function.
    pub kind: Kind,
    /// Calls by any function except the followed ones and those that only these call.
    pub calls: u64,
}

/// A function whose code executed inlined into others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlined {
    /// Its demangled name.
    pub name: String,
    /// Kind of the function.
    pub kind: Kind,
    /// Demangled names of the functions around it, by address.
    pub into: Vec<String>,
}

/// Copies that executed and were not followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// Clones by address.
    pub clones: Vec<Cloned>,
    /// Inlined functions by name.
    pub inlined: Vec<Inlined>,
}

impl Copies {
    /// Whether there are no copies.
    pub fn is_empty(&self) -> bool {
        self.clones.is_empty() && self.inlined.is_empty()
    }

    /// Events that the heap lacks because of these copies.
    pub fn lost(&self) -> Lost {
        let kinds = self.clones.iter().map(|clone| clone.kind).chain(self.inlined.iter().map(|one| one.kind));
        kinds.map(Lost::of).fold(Lost::default(), Lost::or)
    }

    /// Selects the copies of one kind.
    #[must_use]
    pub fn that(&self, kind: Kind) -> Copies {
        Copies {
            clones: self.clones.iter().filter(|clone| clone.kind == kind).cloned().collect(),
            inlined: self.inlined.iter().filter(|one| one.kind == kind).cloned().collect(),
        }
    }
}

/// Adds to `inside` the functions that only functions in it call, directly or indirectly; all by first address.
pub(crate) fn enclosed(profile: &Profile, mut inside: BTreeSet<u64>) -> BTreeSet<u64> {
    let start = |address: u64| profile.names.function_at(address).map(|function| function.start);
    let mut callers: BTreeMap<u64, BTreeSet<Option<u64>>> = BTreeMap::new();
    for arc in profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs).filter(|arc| arc.count > 0) {
        let (Some(callee), caller) = (start(arc.target), start(arc.site)) else { continue };
        if caller != Some(callee) {
            callers.entry(callee).or_default().insert(caller);
        }
    }
    loop {
        let is_inside = |caller: &Option<u64>| caller.is_some_and(|caller| inside.contains(&caller));
        let enclosed = callers.iter().filter(|(_, callers)| callers.iter().all(is_inside));
        let enclosed: Vec<u64> = enclosed.map(|(&callee, _)| callee).collect();
        let before = inside.len();
        inside.extend(enclosed);
        if inside.len() == before {
            return inside;
        }
    }
}

/// The original of followed functions: the function itself, or the function that a followed clone was made from.
#[derive(Default)]
struct Original {
    /// Names of the files that define it, if known: several files may have functions of one name.
    files: BTreeSet<String>,
}

impl Original {
    /// Whether code in a file may belong to it.
    fn may_be_in(&self, file: Option<&str>) -> bool {
        let Some(file) = file else { return true };
        self.files.is_empty() || self.files.contains(file_name(file))
    }
}

/// The followed functions, and the calls between all functions.
struct Search<'p> {
    profile: &'p Profile,
    heap: &'p Heap,
    /// Originals by their name in the symbol table.
    originals: BTreeMap<String, Original>,
    followed_names: BTreeSet<&'p str>,
    /// First addresses of followed functions, and of functions that only these call.
    inside: BTreeSet<u64>,
}

/// Copies that executed and were not followed; none if the heap was not followed.
pub fn unfollowed(profile: &Profile) -> Copies {
    let Some(heap) = &profile.heap else { return Copies::default() };
    let search = Search::new(profile, heap);
    let candidates = search.candidates();
    let clones = search.clones(&candidates);
    let inlined = search.inlined(&candidates);
    Copies { clones, inlined }
}

impl<'p> Search<'p> {
    fn new(profile: &'p Profile, heap: &'p Heap) -> Search<'p> {
        let mut search = Search {
            profile,
            heap,
            originals: BTreeMap::new(),
            followed_names: BTreeSet::new(),
            inside: enclosed(profile, heap.functions.iter().copied().collect()),
        };
        let followed = profile.names.functions.iter().filter(|function| search.is_followed(function.start));
        let followed =
            followed.flat_map(|function| search.names(function).into_iter().map(move |name| (function, name)));
        let followed: Vec<(&Function, &str)> = followed.collect();
        for (function, name) in followed {
            search.followed_names.insert(name);
            let of = search.originals.entry(original_name(name).to_owned()).or_default();
            of.files.extend(function.file.iter().map(|file| file_name(file).to_owned()));
        }
        search
    }

    fn is_followed(&self, start: u64) -> bool {
        self.heap.functions.binary_search(&start).is_ok()
    }

    fn arcs(&self) -> impl Iterator<Item = &'p Arc> {
        self.profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs)
    }

    /// First address of the function around an address.
    fn start(&self, address: u64) -> Option<u64> {
        self.profile.names.function_at(address).map(|function| function.start)
    }

    /// All names of a function in the symbol table.
    fn names(&self, function: &'p Function) -> Vec<&'p str> {
        let aliases = self.profile.names.aliases.iter().filter(|alias| alias.address == function.start);
        let aliases = aliases.map(|alias| alias.linkage_name.as_str());
        std::iter::once(function.linkage_name.as_str()).chain(aliases).collect()
    }

    /// Kind of a function: by the option that names it, or by its known name.
    fn kind(&self, linkage_name: &str) -> Kind {
        let original = original_name(linkage_name);
        let demangled = demangle(original);
        let is_named = |text: &str| [original, &*demangled].iter().any(|name| text.trim_start().starts_with(name));
        let rule = self.heap.rules.iter().find(|(_, text)| is_named(text));
        let by_rule = rule.map(|(option, _)| if *option == Kind::Free.option() { Kind::Free } else { Kind::Alloc });
        by_rule.or_else(|| allocators::known_kind(original)).unwrap_or(Kind::Alloc)
    }

    /// Functions that are not followed and are copies of a followed or a known function. By first address: name of the
    /// original and own name.
    fn candidates(&self) -> BTreeMap<u64, (&'p str, &'p str)> {
        let mut candidates = BTreeMap::new();
        for function in self.profile.names.functions.iter().filter(|function| !self.is_followed(function.start)) {
            let copy = self.names(function).into_iter().find(|name| {
                // A function with the very name of a followed one is another function, in another file.
                let is_copy = !self.followed_names.contains(name);
                is_copy
                    && match self.originals.get(original_name(name)) {
                        Some(of) => of.may_be_in(function.file.as_deref()),
                        None => allocators::known_kind(original_name(name)).is_some(),
                    }
            });
            if let Some(name) = copy {
                candidates.insert(function.start, (original_name(name), name));
            }
        }
        candidates
    }

    fn clones(&self, candidates: &BTreeMap<u64, (&'p str, &'p str)>) -> Vec<Cloned> {
        let mut calls: BTreeMap<u64, u64> = BTreeMap::new();
        // Calls of followed functions by each candidate.
        let mut passed_on: BTreeMap<u64, u64> = BTreeMap::new();
        for arc in self.arcs() {
            let (site, target) = (self.start(arc.site), self.start(arc.target));
            if let (Some(site), Some(target)) = (site, target)
                && candidates.contains_key(&site)
                && self.is_followed(target)
            {
                *passed_on.entry(site).or_default() += arc.count;
            }
            let Some((target, (of, _))) = target.and_then(|target| candidates.get_key_value(&target)) else {
                continue;
            };
            let caller = site.and_then(|site| candidates.get(&site));
            // Clones of one function call each other as parts of one call.
            let is_of_same = caller.is_some_and(|(original, _)| original == of);
            if !is_of_same && !site.is_some_and(|site| self.inside.contains(&site)) {
                *calls.entry(*target).or_default() += arc.count;
            }
        }
        calls.retain(|start, calls| *calls > passed_on.get(start).copied().unwrap_or(0));
        let clone = |(start, calls)| {
            let (_, name) = candidates.get(&start)?;
            Some(Cloned { linkage_name: (*name).to_owned(), kind: self.kind(name), calls })
        };
        calls.into_iter().filter_map(clone).collect()
    }

    fn inlined(&self, candidates: &BTreeMap<u64, (&'p str, &'p str)>) -> Vec<Inlined> {
        let by_name: BTreeMap<String, (&str, &Original)> =
            self.originals.iter().map(|(name, of)| (demangle(name).into_owned(), (name.as_str(), of))).collect();
        let names = &self.profile.names;
        // Executed instructions of inlined copies, by name and surrounding function.
        let mut copies: BTreeMap<(&str, u64), BTreeSet<u64>> = BTreeMap::new();
        let executed = self.profile.insns().into_iter().filter(|&(_, count)| count > 0);
        for (pc, _) in executed {
            let Some(container) = self.start(pc) else { continue };
            if self.inside.contains(&container) || candidates.contains_key(&container) {
                continue;
            }
            // Of nested inlined copies, only the outermost would have been a call from outside.
            let copy = names.frames_at(pc).iter().filter(|frame| frame.inlined).find_map(|frame| {
                let name = names.strings.get(frame.function as usize)?.as_str();
                let file = frame.file.and_then(|file| names.strings.get(file as usize)).map(String::as_str);
                let is_copy = match by_name.get(name) {
                    Some((_, of)) => of.may_be_in(file),
                    None => allocators::known_kind(name).is_some(),
                };
                is_copy.then_some(name)
            });
            if let Some(name) = copy {
                copies.entry((name, container)).or_default().insert(pc);
            }
        }
        let passing: BTreeSet<u64> =
            self.arcs().filter(|arc| self.is_followed(arc.target)).map(|arc| arc.site).collect();
        // An inlined function that calls a followed one in any copy passes calls on in every copy, even if it did not
        // have to there.
        let passing = copies.iter().filter(|(_, pcs)| !passing.is_disjoint(pcs)).map(|((name, _), _)| *name);
        let passing: BTreeSet<&str> = passing.collect();
        let mut inlined: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (name, container) in copies.into_keys().filter(|(name, _)| !passing.contains(name)) {
            if let Some(function) = names.function_at(container) {
                inlined.entry(name).or_default().push(function.name.clone());
            }
        }
        let kind = |name: &str| self.kind(by_name.get(name).map_or(name, |(linkage_name, _)| linkage_name));
        inlined.into_iter().map(|(name, into)| Inlined { name: name.to_owned(), kind: kind(name), into }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;

    /// `pool_get` at 0x100 is followed, `main` at 0x40 and `helper` at 0x300 are not.
    fn profile() -> Profile {
        let mut profile = empty()
            .function("main", 0x40, 0x20)
            .function("pool_get", 0x100, 0x10)
            .function("pool_get.constprop.0", 0x200, 0x10)
            .function("pool_get.part.0", 0x210, 0x10)
            .function("pool_get.isra.0.cold", 0x220, 0x10)
            .function("helper", 0x300, 0x10)
            .insn(0x40, 10);
        profile.heap = Some(Heap {
            functions: vec![0x100],
            rules: vec![("--heap-alloc".to_owned(), "pool_get(size=arg0)".to_owned())],
            ..Heap::default()
        });
        profile
    }

    fn call(profile: Profile, site: u64, target: u64, count: u64) -> Profile {
        profile.arc((site, target), Some(site + 4), true, count)
    }

    fn clones(profile: &Profile) -> Vec<(String, u64)> {
        unfollowed(profile).clones.into_iter().map(|clone| (clone.linkage_name, clone.calls)).collect()
    }

    #[test]
    fn clones_are_missed_where_they_are_called_from_outside() {
        assert!(unfollowed(&profile()).is_empty(), "none was called");
        let called = call(call(profile(), 0x44, 0x200, 60), 0x48, 0x100, 7);
        assert_eq!(clones(&called), [("pool_get.constprop.0".to_owned(), 60)]);
        // Calls by a followed function, by a helper that only this one calls, and by other parts do not count.
        let inside = call(call(call(profile(), 0x44, 0x100, 5), 0x104, 0x210, 5), 0x108, 0x300, 5);
        let inside = call(call(inside, 0x304, 0x210, 5), 0x214, 0x220, 5);
        assert_eq!(clones(&inside), []);
        // A further caller of the helper makes the helper's calls count.
        assert_eq!(clones(&call(inside, 0x4c, 0x300, 1)), [("pool_get.part.0".to_owned(), 5)]);
        let mut unasked = called;
        unasked.heap = None;
        assert!(unfollowed(&unasked).is_empty());
    }

    #[test]
    fn what_passes_every_call_on_to_what_is_followed_is_not_missed() {
        let wrapper = call(call(profile(), 0x44, 0x200, 60), 0x204, 0x100, 60);
        assert_eq!(clones(&wrapper), []);
        let sometimes = call(call(profile(), 0x44, 0x200, 60), 0x204, 0x100, 59);
        assert_eq!(clones(&sometimes), [("pool_get.constprop.0".to_owned(), 60)]);
    }

    #[test]
    fn a_function_of_the_same_name_in_another_file_is_no_copy() {
        let mut called = call(profile(), 0x44, 0x200, 60);
        called.names.functions[2].file = Some("other/pool.c".to_owned());
        assert_eq!(clones(&called), []);
        called.names.functions[2].file = Some("elsewhere\\blinky.c".to_owned());
        assert_eq!(clones(&called).len(), 1);
        called.names.functions[2].linkage_name = "pool_get".to_owned();
        assert_eq!(clones(&called), []);
    }

    #[test]
    fn clones_of_functions_that_are_known_are_missed_also_where_these_are_gone() {
        let mut called = call(profile(), 0x44, 0x200, 60);
        called.names.functions[2].linkage_name = "vPortFree.isra.0".to_owned();
        let found = unfollowed(&called).clones;
        assert_eq!((found[0].kind, found[0].calls), (Kind::Free, 60));
    }

    #[test]
    fn inlined_copies_are_missed_where_their_code_executed() {
        let inlined = |profile: Profile| {
            let found = unfollowed(&profile).inlined;
            found.into_iter().map(|one| (one.name, one.into)).collect::<Vec<_>>()
        };
        let in_main = vec![("pool_get".to_owned(), vec!["main".to_owned()])];
        assert_eq!(inlined(profile().frames(0x40, &["main", "pool_get"])), in_main);
        assert_eq!(inlined(profile().frames(0x40, &["main", "step", "pool_get", "malloc"])), in_main);
        assert_eq!(inlined(profile().frames(0x40, &["main", "step"])), []);
        assert_eq!(inlined(profile().frames(0x44, &["main", "pool_get"])), [], "it did not execute");
        let within = profile().frames(0x104, &["pool_get", "malloc"]).insn(0x104, 10);
        assert_eq!(inlined(within), []);
        let wrapper = call(profile().frames(0x40, &["main", "malloc"]), 0x40, 0x100, 10);
        let elsewhere = wrapper.clone().frames(0x300, &["helper", "malloc"]).insn(0x300, 1);
        assert_eq!(inlined(wrapper), []);
        assert_eq!(inlined(elsewhere), []);
    }
}
