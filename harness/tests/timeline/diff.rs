// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparison of two timelines: counts of each kind of event, and the reasons why tasks stopped.

use std::collections::BTreeMap;
use std::path::Path;

use harness::analysis::stacks::task_names;
use harness::profile::Profile;
use wire::timeline::{What, Why};

use crate::common::{harness, run};

fn diff(before: &Path, after: &Path) -> String {
    let output = harness().args(["diff", "--top", "0"]).args([before, after]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Times that each task was preempted, yielded or was delayed, by name; and all switches.
fn stops(profile: &Profile) -> (BTreeMap<String, u64>, u64) {
    let (mut stops, mut switches, mut running) = (BTreeMap::new(), 0, 0);
    let names = task_names(profile);
    for event in profile.timeline.as_ref().unwrap().events() {
        let What::Switched { task, why } = event.what else { continue };
        let word = match why {
            Why::Preempted => "preempted",
            Why::Yielded => "yielded",
            Why::Delayed => "delayed",
            _ => "",
        };
        if running > 0 && !word.is_empty() {
            *stops.entry(format!("task {}: {word}", names[running as usize - 1])).or_default() += 1;
        }
        (running, switches) = (task, switches + 1);
    }
    (stops, switches)
}

#[test]
fn two_timelines_are_compared_by_events_and_by_the_reasons_of_switches() {
    let before = run("cortex-m3-waits", &["--timeline", "--for", "200k"]).expect_code(0);
    let after = run("cortex-m3-waits", &["--timeline", "--for", "400k"]).expect_code(0);
    let said = diff(&before.dir, &after.dir);
    let ((old, old_switches), (new, new_switches)) = (stops(&before.profile()), stops(&after.profile()));
    let row = |name: &str| -> Option<(String, String)> {
        let line = said.lines().find(|line| line.split("  ").next() == Some(name))?;
        let mut words = line[name.len()..].split_whitespace().map(|word| word.replace(',', ""));
        Some((words.next()?, words.next()?))
    };
    let shown = |old: u64, new: u64| (old != new).then(|| (old.to_string(), new.to_string()));
    assert!(old_switches < new_switches);
    assert_eq!(row("switched"), shown(old_switches, new_switches), "{said}");
    let mut changed = 0;
    for name in old.keys().chain(new.keys()) {
        let [old, new] = [&old, &new].map(|stops| stops.get(name).copied().unwrap_or(0));
        assert_eq!(row(name), shown(old, new), "{name}: {said}");
        changed += usize::from(old != new);
    }
    assert!(changed >= 2, "{said}");
    // The table of functions contains changes of its own.
    assert!(diff(&before.dir, &before.dir).contains("\ntimeline: all "), "{said}");
    let without = run("cortex-m3-waits", &["--for", "200k"]).expect_code(0);
    for (old, new, which) in [(&without, &after, "before"), (&after, &without, "after")] {
        let said = diff(&old.dir, &new.dir);
        assert!(said.contains(&format!("note: there is no timeline of the run {which}: ")), "{said}");
    }
    assert!(!diff(&without.dir, &without.dir).contains("timeline"));
}
