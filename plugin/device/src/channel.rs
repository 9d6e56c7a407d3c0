// SPDX-License-Identifier: MIT OR Apache-2.0
//! Channels of DMA controllers that are switched on.

use std::collections::BTreeMap;

/// Instructions that an item takes when it is read from a register. After these, a received byte has reached memory
/// before the next byte is sent.
const READ_INSNS: u64 = 16;

/// Instructions that an item takes when it is written to a register.
const WRITE_INSNS: u64 = 64;

/// Instructions that an item takes from memory to memory.
const FREE_INSNS: u64 = 4;

/// Most items that are copied at once.
const MAX_ITEMS: u32 = 1024;

/// One end of a channel, as its registers were when it was switched on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// Address of the first item.
    pub(crate) address: u32,
    /// Bytes of an item.
    pub(crate) bytes: u32,
    /// Whether the address grows with each item.
    pub(crate) steps: bool,
}

impl End {
    fn item(&self, index: u32) -> u32 {
        if self.steps { self.address.wrapping_add(index.wrapping_mul(self.bytes)) } else { self.address }
    }
}

/// One transfer of a channel: its items and their two ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copying {
    ends: [End; 2],
    is_reversed: bool,
    /// Whether the transfer does not wait for requests.
    pub(crate) is_free: bool,
    /// Number of items when the channel was switched on.
    pub(crate) total: u32,
    /// Number of items that are left; 0: the transfer is over.
    pub(crate) left: u32,
    /// Ticket of the next items, if they are due at a time.
    ticket: Option<u64>,
}

impl Copying {
    pub(crate) fn new(ends: [End; 2], is_reversed: bool, is_free: bool, count: u32) -> Copying {
        Copying { ends, is_reversed, is_free, total: count, left: count, ticket: None }
    }

    pub(crate) fn from(&self) -> End {
        self.ends[usize::from(self.is_reversed)]
    }

    pub(crate) fn to(&self) -> End {
        self.ends[usize::from(!self.is_reversed)]
    }

    /// Address of the next item.
    pub(crate) fn source(&self) -> u32 {
        self.from().item(self.total - self.left)
    }

    /// Address to which the next item goes.
    pub(crate) fn target(&self) -> u32 {
        self.to().item(self.total - self.left)
    }

    /// Addresses of the next item at each end, in the order in which the registers have them.
    pub(crate) fn addresses(&self) -> [u32; 2] {
        self.ends.map(|end| end.item(self.total - self.left))
    }

    /// Number of items that are copied at once.
    pub(crate) fn items(&self) -> u32 {
        if self.is_free { self.left.min(MAX_ITEMS) } else { self.left.min(1) }
    }

    /// Instructions until these items are copied.
    pub(crate) fn insns(&self) -> u64 {
        match (self.is_free, self.from().steps) {
            (true, _) => FREE_INSNS * u64::from(self.items()),
            (false, true) => WRITE_INSNS,
            (false, false) => READ_INSNS,
        }
    }

    /// Whether half of the items are copied now, but were not yet when `before` items were left.
    pub(crate) fn is_half(&self, before: u32) -> bool {
        let half = self.total / 2;
        before > half && self.left <= half
    }
}

/// Channels that are switched on, by their blocks and indices.
#[derive(Default)]
pub(crate) struct Channels(BTreeMap<(usize, usize), Copying>);

impl Channels {
    pub(crate) fn is_on(&self, block: usize, index: usize) -> bool {
        self.0.contains_key(&(block, index))
    }

    pub(crate) fn get(&self, block: usize, index: usize) -> Option<Copying> {
        self.0.get(&(block, index)).copied()
    }

    pub(crate) fn start(&mut self, block: usize, index: usize, copying: Copying) {
        self.0.insert((block, index), copying);
    }

    pub(crate) fn stop(&mut self, block: usize, index: usize) {
        self.0.remove(&(block, index));
    }

    /// Channels with items left that are not due at any time yet.
    pub(crate) fn idle(&self) -> Vec<(usize, usize)> {
        let idle = |copying: &Copying| copying.left > 0 && copying.ticket.is_none();
        self.0.iter().filter(|(_, copying)| idle(copying)).map(|(&key, _)| key).collect()
    }

    /// Makes a channel wait for its next items, which come with this ticket.
    pub(crate) fn wait(&mut self, block: usize, index: usize, ticket: u64) {
        self.0.entry((block, index)).and_modify(|copying| copying.ticket = Some(ticket));
    }

    /// The transfer of a channel that waits for this ticket; the channel goes on waiting. None: it waits for another
    /// ticket, or not at all.
    pub(crate) fn due(&self, block: usize, index: usize, ticket: u64) -> Option<Copying> {
        let copying = self.get(block, index).filter(|copying| copying.ticket == Some(ticket))?;
        Some(Copying { ticket: None, ..copying })
    }
}
