// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saved heap records: allocation sites, and each event in order.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use wire::heap::{Decoder, Event};

/// Calls of the firmware's allocation functions, if `--heap` asked for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heap {
    /// First addresses of the followed functions, sorted.
    pub functions: Vec<u64>,
    /// Options that named functions, with their arguments.
    pub rules: Vec<(String, String)>,
    /// Memory that blocks are allocated from, if the image names it.
    pub arena: Option<Arena>,
    /// Sites of allocations and frees; number n is `sites[n - 1]`.
    pub sites: Vec<Site>,
    /// Events, encoded as the plugin wrote them.
    pub events: Vec<u8>,
}

/// Site that allocates or frees memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// First address of the function that allocates or frees.
    pub entry: u64,
    /// Number of the callers' innermost frame; 0: none, or not known.
    pub stack: u32,
    /// Number of the running task; 0: none.
    pub task: u32,
}

/// Memory that blocks are allocated from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arena {
    /// Symbols that name the memory.
    pub name: String,
    /// First address.
    pub start: u64,
    /// Address after the last one.
    pub end: u64,
}

impl Arena {
    /// Whether the address lies in the arena.
    pub fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

impl Heap {
    /// Decodes the events in order. A damaged stream was refused when the profile was read.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        Decoder::new(&self.events).map_while(Result::ok)
    }

    /// Checks that events and sites refer to existing entries.
    ///
    /// # Errors
    /// When an event or site does not.
    pub(crate) fn check(&self, stacks: usize, tasks: usize) -> Result<()> {
        let sites = self.sites.len();
        let are_known = self.sites.iter().all(|site| site.stack as usize <= stacks && site.task as usize <= tasks);
        ensure!(are_known, "the heap is damaged: its callers are not there");
        for event in Decoder::new(&self.events) {
            ensure!(event?.site as usize <= sites, "the heap is damaged: it was asked by nothing");
        }
        Ok(())
    }
}
