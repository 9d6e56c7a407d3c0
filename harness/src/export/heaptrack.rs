// SPDX-License-Identifier: MIT OR Apache-2.0
//! heaptrack's file format, so that heaptrack_gui and heaptrack_print show the firmware's heap: every event, at the
//! firmware's own time.
//!
//! The format is `heaptrack_interpret`'s output, version 2: a letter, and numbers in hexadecimal. Strings,
//! instruction pointers and traces are numbered from 1, allocations from 0, in order of appearance.

use std::collections::HashMap;
use std::io::{self, Write};

use anyhow::{Result, bail};
use wire::heap::What;

use crate::analysis::calltree::Member;
use crate::analysis::heap::{self, NOT_FOLLOWED};
use crate::analysis::time;
use crate::export::settings::Settings;
use crate::profile::Profile;
use crate::text::markup::shown;

/// Version of heaptrack, and version of the file format.
const VERSION: &str = "10400 2";

/// Unit of the time stamps, in nanoseconds.
const NS_PER_STAMP: u128 = 1_000_000;

/// Writes the events of the window. Blocks held when it opened are allocated at its start.
///
/// # Errors
/// Errors of `out`; also when the heap was not followed.
pub fn write(profile: &Profile, settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let Some(followed) = &profile.heap else { bail!(NOT_FOLLOWED) };
    let tree = heap::paths(profile, settings.view);
    let mut names = Names { out, numbers: HashMap::new() };
    writeln!(names.out, "v {VERSION}")?;
    writeln!(names.out, "X {}", shown(&profile.facts.image_name))?;
    let module = names.number(&profile.facts.image_name)?;
    for member in &tree.members {
        let Member { frame, start } = member;
        let function = names.number(&frame.name)?;
        let place = start.and_then(|start| profile.names.function_at(start));
        let place = place.and_then(|function| Some((function.file.as_deref()?, function.line?)));
        let ip = start.unwrap_or(0);
        match place {
            Some((file, line)) => {
                let file = names.number(file)?;
                writeln!(names.out, "i {ip:x} {module:x} {function:x} {file:x} {line:x}")?;
            }
            None => writeln!(names.out, "i {ip:x} {module:x} {function:x} 0 0")?,
        }
    }
    let out = names.out;
    for path in &tree.paths {
        writeln!(out, "t {:x} {:x}", path.member + 1, path.parent)?;
    }
    let mut events = Events {
        out,
        traces: &tree.samples,
        kinds: HashMap::new(),
        held: HashMap::new(),
        all_ns: time::awake_ns(profile),
        all_insns: profile.total_insns().max(1).into(),
        stamp: 0,
    };
    let mut is_window = false;
    let mut before: HashMap<u64, (u32, u64)> = HashMap::new();
    for event in followed.events() {
        if is_window {
            events.stamp(event.at_insns)?;
        }
        match event.what {
            What::Opened => {
                is_window = true;
                let mut held: Vec<_> = before.drain().collect();
                held.sort_unstable();
                for (address, (site, size_bytes)) in held {
                    events.allocate(address, site, size_bytes)?;
                }
            }
            What::Allocated { address, size_bytes, .. } if is_window => {
                events.allocate(address, event.site, size_bytes)?;
            }
            What::Freed { address } if is_window => events.free(address)?,
            What::Moved { old, address, size_bytes } if is_window => {
                events.free(old)?;
                events.allocate(address, event.site, size_bytes)?;
            }
            What::Allocated { address, size_bytes, .. } => drop(before.insert(address, (event.site, size_bytes))),
            What::Freed { address } => drop(before.remove(&address)),
            What::Moved { old, address, size_bytes } => {
                before.remove(&old);
                before.insert(address, (event.site, size_bytes));
            }
            What::Failed { .. } | What::Left { .. } => {}
        }
    }
    events.stamp(profile.total_insns())?;
    Ok(())
}

/// Strings written so far.
struct Names<'a> {
    out: &'a mut dyn Write,
    numbers: HashMap<String, usize>,
}

impl Names<'_> {
    fn number(&mut self, text: &str) -> io::Result<usize> {
        let text = shown(text);
        let next = self.numbers.len() + 1;
        if let Some(&number) = self.numbers.get(&text) {
            return Ok(number);
        }
        writeln!(self.out, "s {text}")?;
        self.numbers.insert(text, next);
        Ok(next)
    }
}

struct Events<'a> {
    out: &'a mut dyn Write,
    /// Trace of each site.
    traces: &'a [u32],
    /// Numbers of allocations with the same size and trace.
    kinds: HashMap<(u64, u32), usize>,
    /// Held blocks by address.
    held: HashMap<u64, usize>,
    /// Time of all instructions, and their number: each takes its share.
    all_ns: u128,
    all_insns: u128,
    stamp: u128,
}

impl Events<'_> {
    fn stamp(&mut self, at_insns: u64) -> io::Result<()> {
        let stamp = u128::from(at_insns) * self.all_ns / self.all_insns / NS_PER_STAMP;
        if stamp > self.stamp {
            self.stamp = stamp;
            writeln!(self.out, "c {stamp:x}")?;
        }
        Ok(())
    }

    fn allocate(&mut self, address: u64, site: u32, size_bytes: u64) -> io::Result<()> {
        // A held block at this address was freed by a function that is not followed.
        self.free(address)?;
        let trace = self.traces.get(site as usize - 1).copied().unwrap_or(0);
        let next = self.kinds.len();
        let kind = *self.kinds.entry((size_bytes, trace)).or_insert(next);
        if kind == next {
            writeln!(self.out, "a {size_bytes:x} {trace:x}")?;
        }
        writeln!(self.out, "+ {kind:x}")?;
        self.held.insert(address, kind);
        Ok(())
    }

    fn free(&mut self, address: u64) -> io::Result<()> {
        match self.held.remove(&address) {
            Some(kind) => writeln!(self.out, "- {kind:x}"),
            None => Ok(()),
        }
    }
}
