// SPDX-License-Identifier: MIT OR Apache-2.0
//! valgrind massif's file format, for ms_print and massif-visualizer: the heap over time, and the call paths that held
//! it at the peak.
//!
//! The tree is upside down: the callers of a function are below it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::{Result, bail};

use crate::analysis::calltree::CallTree;
use crate::analysis::heap::{self, NOT_FOLLOWED, Point, Quantity};
use crate::export::labels::full;
use crate::export::settings::Settings;
use crate::profile::Profile;
use crate::text::markup::shown;

/// Writes the history and the peak.
///
/// # Errors
/// Errors of `out`; also when the heap was not followed.
pub fn write(profile: &Profile, settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let Some(found) = heap::replay(profile) else { bail!(NOT_FOLLOWED) };
    writeln!(out, "desc: harness --heap")?;
    writeln!(out, "cmd: {}", shown(&profile.facts.image_name))?;
    writeln!(out, "time_unit: i")?;
    let tree = heap::tree(profile, &found, settings.view, Quantity::Peak);
    let peak = Point { at_insns: found.peak_at_insns, held_bytes: found.peak.bytes, ..Point::default() };
    let mut snapshots: Vec<(Point, bool)> = vec![(Point::default(), false), (peak, true)];
    snapshots[0].0.held_bytes = found.before.bytes;
    snapshots.extend(found.history.iter().map(|point| (*point, false)));
    // A stable sort: the peak comes after other points of the same time.
    snapshots.sort_by_key(|(point, is_peak)| (point.at_insns, !is_peak));
    for (number, (point, is_peak)) in snapshots.iter().enumerate() {
        let rule = "#-----------";
        writeln!(out, "{rule}\nsnapshot={number}\n{rule}\ntime={}", point.at_insns)?;
        writeln!(out, "mem_heap_B={}\nmem_heap_extra_B=0\nmem_stacks_B=0", point.held_bytes)?;
        if *is_peak {
            writeln!(out, "heap_tree=peak")?;
            Callers::of(&tree).write(0, found.peak.bytes, "(heap allocation functions)", out)?;
        } else {
            writeln!(out, "heap_tree=empty")?;
        }
    }
    Ok(())
}

/// Callers of a function, with the bytes held through each.
#[derive(Default)]
struct Callers {
    bytes: u64,
    callers: BTreeMap<String, Callers>,
}

impl Callers {
    fn of(tree: &CallTree) -> Callers {
        let mut root = Callers::default();
        for (number, path) in (1..).zip(&tree.paths).filter(|(_, path)| path.insns > 0) {
            let mut at = &mut root;
            at.bytes = at.bytes.saturating_add(path.insns);
            for member in tree.frames(number).into_iter().rev() {
                let address = member.start.unwrap_or(0);
                let name = format!("0x{address:X}: {}", shown(&full(&member.frame)).replace('#', "_"));
                at = at.callers.entry(name).or_default();
                at.bytes = at.bytes.saturating_add(path.insns);
            }
        }
        root
    }

    fn write(&self, depth: usize, bytes: u64, name: &str, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{:depth$}n{}: {bytes} {name}", "", self.callers.len())?;
        let mut callers: Vec<_> = self.callers.iter().collect();
        // A stable sort: equal callers stay in the order of their names.
        callers.sort_by_key(|(_, callers)| std::cmp::Reverse(callers.bytes));
        callers.into_iter().try_for_each(|(name, callers)| callers.write(depth + 1, callers.bytes, name, out))
    }
}
