// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that a suite can use: names in the run, in its image and in the baseline. A message about a typo lists the
//! nearest ones.

use std::collections::BTreeSet;

use crate::analysis::lookup;
use crate::analysis::metrics::{Metrics, Subject};
use crate::gate::threshold::Pattern;
use crate::image::symbols::{self, NotFound};
use crate::profile::Profile;
use crate::text::near::nearest;
use crate::text::symbol_name::key_name;

/// Maximum number of names that a message lists if none is near.
const MAX_LISTED: usize = 8;

/// Names in a run and in the baseline that it is compared with.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The run.
    pub profile: &'a Profile,
    /// Its numbers.
    pub now: &'a Metrics,
    /// The baseline's numbers; None: there is none.
    pub before: Option<&'a Metrics>,
}

impl Known<'_> {
    /// Whether the image has a subject that the pattern matches, even if the subject never ran.
    pub fn is_in_image(&self, of: Subject, pattern: &Pattern) -> bool {
        let names = &self.profile.names;
        let is_meant = |text: &str| lookup::keys(self.profile, self.now, text).map_or(true, |keys| !keys.is_empty());
        match of {
            Subject::Run => true,
            Subject::Function if pattern.is_name() => is_meant(&pattern.text),
            Subject::Function => names.functions.iter().any(|function| pattern.matches(&key_name(&function.name))),
            Subject::Task => self.now.tasks.keys().any(|name| pattern.matches(name)),
            Subject::Zone => self.profile.zones.names.iter().any(|name| pattern.matches(name)),
        }
    }

    /// Whether the baseline has a subject of that name.
    pub fn is_in_baseline(&self, of: Subject, name: &str) -> bool {
        self.before.is_some_and(|before| match of {
            Subject::Run => true,
            Subject::Function => {
                let keys = before.functions.keys().map(|key| key.name.as_str());
                !symbols::called(&key_name(name.trim()), keys).is_empty()
            }
            Subject::Task => before.tasks.contains_key(name),
            Subject::Zone => before.zones.contains_key(name),
        })
    }

    /// Message that no subject has this name, with the nearest names.
    pub fn missing(&self, of: Subject, name: &str) -> String {
        let noun = noun(of);
        let names: BTreeSet<&str> = self.names(of);
        let found = match of {
            // This lookup also finds names by a part of their path.
            Subject::Function => match self.profile.names.find(name) {
                Err(NotFound::Missing { nearest, .. }) => nearest,
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        let near = nearest(name, names.iter().copied()).filter(|near| found.iter().all(|known| known != near));
        let near: Vec<String> = near.map(str::to_owned).into_iter().chain(found).collect();
        if !near.is_empty() {
            return format!("no {noun} is called `{name}`; did you mean `{}`?", near.join("`, `"));
        }
        match of {
            Subject::Task | Subject::Zone if !names.is_empty() => {
                let listed: Vec<&str> = names.iter().copied().take(MAX_LISTED).collect();
                let more = if listed.len() < names.len() { ", \u{2026}" } else { "" };
                format!("no {noun} is called `{name}`; there are {}{more}", listed.join(", "))
            }
            _ => format!("no {noun} is called `{name}`, and none has a similar name"),
        }
    }

    /// Names of one kind in the run and in the baseline.
    fn names(&self, of: Subject) -> BTreeSet<&str> {
        let sides = || self.before.into_iter().chain([self.now]);
        match of {
            Subject::Run => BTreeSet::new(),
            Subject::Function => {
                sides().flat_map(|side| side.functions.keys()).map(|key| key.name.as_str()).collect()
            }
            Subject::Task => sides().flat_map(|side| side.tasks.keys()).map(String::as_str).collect(),
            Subject::Zone => {
                let ran = sides().flat_map(|side| side.zones.keys());
                ran.chain(&self.profile.zones.names).map(String::as_str).collect()
            }
        }
    }
}

/// Noun for a kind of subject.
pub fn noun(of: Subject) -> &'static str {
    match of {
        Subject::Run => "run",
        Subject::Function => "function",
        Subject::Task => "task",
        Subject::Zone => "zone",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::metrics::Numbers;
    use crate::profile::testing::empty;

    #[test]
    fn the_nearest_name_is_looked_for_in_run_image_and_baseline() {
        let mut profile = empty()
            .function("crc32_update", 0x40, 8)
            .function("app::sort", 0x50, 8)
            .function("error_handler", 0x60, 8)
            .frames(0x42, &["crc32_update", "inlined_step"])
            .insn(0x42, 5)
            .task_called("net");
        profile.zones.names = vec!["decode".to_owned()];
        let now = Metrics::of(&profile);
        let mut before = Metrics::default();
        before.tasks.insert("logger".to_owned(), Numbers::default());
        let known = Known { profile: &profile, now: &now, before: Some(&before) };
        for (of, name, expected) in [
            (Subject::Function, "crc33_update", "no function is called `crc33_update`; did you mean `crc32_update`?"),
            (Subject::Function, "inlined_stap", "no function is called `inlined_stap`; did you mean `inlined_step`?"),
            (Subject::Function, "zzz", "no function is called `zzz`, and none has a similar name"),
            (Subject::Task, "loger", "no task is called `loger`; did you mean `logger`?"),
            (Subject::Task, "zzzzzz", "no task is called `zzzzzz`; there are logger, net"),
            (Subject::Zone, "decod", "no zone is called `decod`; did you mean `decode`?"),
        ] {
            assert_eq!(known.missing(of, name), expected);
        }
        let is_in_image = |of, text: &str| known.is_in_image(of, &Pattern::new(text).unwrap());
        assert!(is_in_image(Subject::Function, "sort") && is_in_image(Subject::Function, "error_*"));
        assert!(is_in_image(Subject::Zone, "decode") && is_in_image(Subject::Function, "inlined_step"));
        assert!(!is_in_image(Subject::Function, "crc33_*") && !is_in_image(Subject::Task, "logger"));
        assert!(known.is_in_baseline(Subject::Task, "logger") && !known.is_in_baseline(Subject::Task, "net"));
    }
}
