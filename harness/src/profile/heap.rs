//! The heap as it is saved: where memory was asked for, and each event in order.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use wire::heap::{Decoder, Event};

/// What the firmware's allocation functions did, where `--heap` asked for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heap {
    /// First addresses of the functions that were followed, sorted.
    pub functions: Vec<u64>,
    /// The options that named functions, and what they said.
    pub rules: Vec<(String, String)>,
    /// The memory that blocks are given out of, where the image names it.
    pub arena: Option<Arena>,
    /// Where memory was asked for; number n is `sites[n - 1]`.
    pub sites: Vec<Site>,
    /// The events, as the plugin wrote them.
    pub events: Vec<u8>,
}

/// Where memory was asked for or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// First address of the function that gives out or takes back.
    pub entry: u64,
    /// Its callers: number of the innermost frame; 0: there are none, or they are not known.
    pub stack: u32,
    /// Number of the running task, 0: none.
    pub task: u32,
}

/// The memory that blocks are given out of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arena {
    /// The symbols that name it.
    pub name: String,
    /// Its first address.
    pub start: u64,
    /// The address after it.
    pub end: u64,
}

impl Arena {
    /// Whether an address is in it.
    pub fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

impl Heap {
    /// The events in order. What is damaged was refused when the profile was read.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        Decoder::new(&self.events).map_while(Result::ok)
    }

    /// Wants events and sites that refer to what is there.
    ///
    /// # Errors
    /// When some do not.
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
