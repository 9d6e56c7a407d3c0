// SPDX-License-Identifier: MIT OR Apache-2.0
//! Source locations of failing functions, which editors and pull requests show. Functions that only exist inlined have
//! one, too.

use std::collections::BTreeSet;

use crate::profile::{Names, Profile};
use crate::text::symbol_name::{file_name, key_name};

/// File and line of a function, by its name in comparisons (`init`, or `init (uart.c)` if there are namesakes). A
/// function that is only inlined has no known first line: its lowest line that ran counts.
pub fn defined(profile: &Profile, subject: &str) -> Option<(String, u32)> {
    let names = &profile.names;
    let is_it = |name: &str, file: Option<&str>| {
        let key = key_name(name);
        key == subject || file.is_some_and(|file| format!("{key} ({})", file_name(file)) == subject)
    };
    let functions = names.functions.iter().filter(|function| is_it(&function.name, function.file.as_deref()));
    let place = functions.filter_map(|function| Some((function.file.clone()?, function.line?))).min();
    place.or_else(|| inlined(names, is_it))
}

fn inlined(names: &Names, is_it: impl Fn(&str, Option<&str>) -> bool) -> Option<(String, u32)> {
    let text = |index: u32| names.strings.get(index as usize).map(String::as_str);
    let frames = names.stacks.iter().flatten().filter(|frame| frame.inlined);
    let meant =
        frames.filter(|frame| text(frame.function).is_some_and(|name| is_it(name, frame.file.and_then(text))));
    let places: BTreeSet<(&str, u32)> =
        meant.filter_map(|frame| Some((text(frame.file?)?, frame.line.filter(|line| *line > 0)?))).collect();
    places.first().map(|(file, line)| ((*file).to_owned(), *line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Frame;
    use crate::profile::testing::empty;

    #[test]
    fn functions_are_found_also_where_they_are_only_inlined() {
        let mut profile = empty().function("outer.constprop.0", 0x40, 8);
        profile.names.functions[0].file = Some("src/a.c".to_owned());
        profile.names.functions[0].line = Some(7);
        let first = profile.names.strings.len() as u32;
        profile.names.strings.extend(["inner", "src/b.h"].map(str::to_owned));
        let frame = |line| Frame { function: first, file: Some(first + 1), line: Some(line), inlined: true };
        profile.names.stacks.extend([vec![frame(12)], vec![frame(9)], vec![frame(0)]]);
        let place = |subject: &str| defined(&profile, subject);
        assert_eq!(place("outer"), Some(("src/a.c".to_owned(), 7)));
        assert_eq!(place("outer (a.c)"), place("outer"));
        assert_eq!(place("inner"), Some(("src/b.h".to_owned(), 9)));
        assert_eq!([place("outer (b.c)"), place("neither")], [None, None]);
    }
}
