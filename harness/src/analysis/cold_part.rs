// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seldom executed parts of functions (`parse.cold`), which compilers place elsewhere under symbols of their own. The
//! rest of the function jumps there and back, so no way there is a call: a part has no calls, callers or recursion of
//! its own, and its instructions are its function's wherever called functions are included.

use std::collections::{BTreeMap, HashMap};

use crate::analysis::owner::Owner;
use crate::profile::{Arc, Profile};
use crate::text::symbol_name::hot_name;

/// Parts of the functions of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColdParts {
    /// First address of the function, by that of its part.
    wholes: BTreeMap<u64, u64>,
}

impl ColdParts {
    /// Each part whose function is known. Of two functions of one name and file, nothing says whose part it is.
    pub fn of(profile: &Profile) -> ColdParts {
        let functions = &profile.names.functions;
        let parts = || functions.iter().filter_map(|function| Some((function, hot_name(&function.linkage_name)?)));
        let mut wholes: HashMap<(&str, Option<&str>), Option<u64>> =
            parts().map(|(part, hot)| ((hot, part.file.as_deref()), None)).collect();
        if wholes.is_empty() {
            return ColdParts::default();
        }
        let mut namesakes: HashMap<(&str, Option<&str>), u32> = HashMap::new();
        for function in functions {
            let key = (function.linkage_name.as_str(), function.file.as_deref());
            if let Some(whole) = wholes.get_mut(&key) {
                let namesakes = namesakes.entry(key).or_default();
                *namesakes += 1;
                *whole = Some(function.start).filter(|_| *namesakes == 1);
            }
        }
        let known = |(part, hot): (&crate::profile::Function, &str)| {
            Some((part.start, wholes.get(&(hot, part.file.as_deref())).copied().flatten()?))
        };
        ColdParts { wholes: parts().filter_map(known).collect() }
    }

    /// First addresses of the parts, each with its function's.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.wholes.iter().map(|(&part, &whole)| (part, whole))
    }

    /// Whether a part begins at an address.
    pub fn contains(&self, start: u64) -> bool {
        self.wholes.contains_key(&start)
    }

    /// First address of the function with this first address, or of the one of which it is the part.
    pub fn whole(&self, start: u64) -> u64 {
        self.wholes.get(&start).copied().unwrap_or(start)
    }

    /// Owner of an address; the function for its part.
    pub fn owner<'p>(&self, profile: &'p Profile, address: u64) -> Owner<'p> {
        match Owner::of(profile, address) {
            Owner::Function(part) if self.contains(part.start) => Owner::of(profile, self.whole(part.start)),
            place => place,
        }
    }

    /// Whether a jump goes into a part, or from a part into its function.
    pub fn is_jump(&self, profile: &Profile, arc: &Arc) -> bool {
        if arc.links || self.wholes.is_empty() {
            return false;
        }
        let start = |address: u64| Owner::of(profile, address).start();
        let (Some(from), Some(to)) = (start(arc.site), start(arc.target)) else { return false };
        self.contains(to) || (self.contains(from) && self.whole(from) == to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;

    #[test]
    fn a_part_is_of_the_one_function_with_its_name() {
        let profile =
            || empty().function("parse", 0x40, 8).function("parse.cold", 0x50, 8).function("x.cold", 0x60, 8);
        let parts = ColdParts::of(&profile());
        assert_eq!(parts.iter().collect::<Vec<_>>(), [(0x50, 0x40)]);
        assert_eq!([parts.whole(0x40), parts.whole(0x50), parts.whole(0x60)], [0x40, 0x40, 0x60]);
        assert_eq!(parts.owner(&profile(), 0x54).start(), Some(0x40));
        for namesakes in [1, 2] {
            let more = (0..namesakes).fold(profile(), |profile, at| profile.function("parse", 0x80 + 8 * at, 8));
            assert_eq!(ColdParts::of(&more), ColdParts::default());
        }
    }
}
