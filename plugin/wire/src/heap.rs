// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heap records: the functions that allocate and free memory, and each of their calls as an event.
//!
//! Events are in the order in which they happened, delta-coded: six to ten bytes each. Function, call path and task
//! of an event are a [`crate::definition::Definition::Site`], which many events share.

use crate::Malformed;
use crate::record::{Codec, Record, record, since};
use crate::stream::{self, Stream};
use crate::varint::Reader;

/// Name of the event file; it exists if [`crate::request::Measure::heap`] names a function.
pub const FILE_NAME: &str = "heap";

/// Highest number of a register that can hold a function's argument.
pub const MAX_REGISTER: u8 = 31;

record! {
    /// Source of a function's argument, read at its first instruction.
    #[derive(Copy)]
    pub enum Argument {
        /// Value of the integer register with this number.
        1 = Register(number: u8),
        /// Value that is the same in each call: the block size of a pool.
        2 = Constant(value: u64),
        /// 32-bit word in memory, at an offset from where the register points.
        3 = Word {
            /// Number of the register.
            register: u8,
            /// Offset in bytes.
            offset: u64,
        },
    }
}

record! {
    /// Function that allocates memory, frees it, or both.
    #[derive(Copy)]
    pub struct Allocator {
        /// First address of the function.
        entry: u64,
        /// Requested bytes; None: the function only frees.
        size: Option<Argument>,
        /// Factor of the requested bytes.
        count: Option<Argument>,
        /// Requested alignment.
        align: Option<Argument>,
        /// Register with the block to free or to resize.
        old: Option<u8>,
        /// Register with the new block's address as the function returns; 0 in it: there is no block.
        result: u8,
        /// Register that points to the memory where the function stores the address. In this case 0 in `result` means
        /// success.
        place: Option<u8>,
    }
}

impl Allocator {
    /// Whether the description makes sense: registers exist, and size and the other fields fit together.
    pub(crate) fn is_meant(&self) -> bool {
        let registers = [self.size, self.count, self.align].into_iter().filter_map(|argument| match argument? {
            Argument::Register(number) | Argument::Word { register: number, .. } => Some(number),
            Argument::Constant(_) => None,
        });
        let mut registers = registers.chain(self.old).chain(self.place).chain([self.result]);
        registers.all(|number| number <= MAX_REGISTER)
            && (self.size.is_some() || self.old.is_some())
            && (self.size.is_some() || (self.count.is_none() && self.align.is_none() && self.place.is_none()))
    }
}

/// Event of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Instructions that had started on all vCPUs: since reset in events before [`What::Opened`], since then after
    /// it. An allocation counts at its return, every other event at its call.
    pub at_insns: u64,
    /// Id of the [`crate::definition::Definition::Site`] of the call; 0 in [`What::Opened`].
    pub site: u32,
    /// Kind of event.
    pub what: What,
}

record! {
    /// Kind of heap event.
    #[derive(Copy)]
    pub enum What given near: Near {
        /// The window has opened. Blocks that were allocated before are known.
        0 = Opened,
        /// A block was allocated.
        1 = Allocated {
            /// Address of the block.
            address: u64 = since(near.address),
            /// Requested bytes.
            size_bytes: u64,
            /// Requested alignment; 0: none.
            align_bytes: u64 = Aligned(near.is_aligned),
        },
        /// A block was freed.
        2 = Freed {
            /// Address that was freed, whether or not a block is there.
            address: u64 = since(near.address),
        },
        /// A block was resized: freed, and another one or the same allocated instead.
        3 = Moved {
            /// Address that was freed.
            old: u64 = since(near.address),
            /// Address of the new block.
            address: u64 = since(old),
            /// Requested bytes.
            size_bytes: u64,
        },
        /// An allocation failed. A block that was to be resized is unchanged.
        4 = Failed {
            /// Requested bytes.
            size_bytes: u64,
            /// Requested alignment; 0: none.
            align_bytes: u64 = Aligned(near.is_aligned),
        },
        /// The function never returned: an exception or a longjmp led out of it.
        5 = Left {
            /// Requested bytes.
            size_bytes: u64,
        },
    }
}

impl What {
    #[inline]
    fn align_bytes(&self) -> u64 {
        match *self {
            What::Allocated { align_bytes, .. } | What::Failed { align_bytes, .. } => align_bytes,
            _ => 0,
        }
    }
}

/// Values that the encoding of an event depends on.
#[derive(Clone, Copy)]
pub(crate) struct Near {
    /// Last address.
    address: u64,
    /// Whether an alignment follows.
    is_aligned: bool,
}

/// Codec of an alignment, if one follows.
struct Aligned(bool);

impl Codec<u64> for Aligned {
    #[inline]
    fn put(&self, align_bytes: &u64, out: &mut Vec<u8>) {
        if self.0 {
            align_bytes.put(out);
        }
    }

    #[inline]
    fn read(&self, reader: &mut Reader<'_>) -> Result<u64, Malformed> {
        if self.0 { reader.varint() } else { Ok(0) }
    }
}

/// Bits of an event's first byte that hold its kind.
const KINDS: u8 = 7;
/// Bit: the site differs from the last event's of this kind.
const SITE: u8 = 8;
/// Bit: an alignment follows.
const ALIGN: u8 = 0x10;
/// All bits that are used in an event's first byte.
const USED: u8 = KINDS | SITE | ALIGN;

/// Stream of events: the values that the next one's differences refer to.
#[derive(Clone, Debug, Default)]
pub struct Events {
    at_insns: u64,
    address: u64,
    /// Last site by kind of event: allocations and frees come from different places.
    sites: [u32; KINDS as usize + 1],
}

/// Encoder of events.
pub type Encoder = stream::Encoder<Events>;

/// Decoder of the events that an [`Encoder`] wrote.
pub type Decoder<'a> = stream::Decoder<'a, Events>;

impl Stream for Events {
    type Item = Event;
    const WHAT: &'static str = "heap event";

    #[inline]
    fn allows(&self, event: &Event) -> bool {
        (event.site == 0) == (event.what == What::Opened)
    }

    #[inline]
    fn put(&self, event: &Event, out: &mut Vec<u8>) {
        let kind = event.what.code();
        let has_site = self.sites[usize::from(kind)] != event.site;
        let is_aligned = event.what.align_bytes() > 0;
        out.push(kind | if has_site { SITE } else { 0 } | if is_aligned { ALIGN } else { 0 });
        since(self.at_insns).put(&event.at_insns, out);
        if has_site {
            event.site.put(out);
        }
        event.what.put_fields(Near { address: self.address, is_aligned }, out);
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Event, Malformed> {
        let malformed = reader.malformed();
        let first = reader.byte()?;
        let (kind, is_aligned) = (first & KINDS, first & ALIGN != 0);
        let at_insns = since(self.at_insns).read(reader)?;
        let last_site = self.sites[usize::from(kind)];
        let site = if first & SITE != 0 { u32::read(reader)? } else { last_site };
        let what = What::read_fields(kind, Near { address: self.address, is_aligned }, reader)?;
        let has_bits = (first & SITE != 0) == (site != last_site) && is_aligned == (what.align_bytes() > 0);
        if first & !USED == 0 && has_bits { Ok(Event { at_insns, site, what }) } else { Err(malformed) }
    }

    #[inline]
    fn note(&mut self, event: &Event) {
        self.sites[usize::from(event.what.code())] = event.site;
        self.at_insns = if event.what == What::Opened { 0 } else { event.at_insns };
        match event.what {
            What::Allocated { address, .. } | What::Freed { address } | What::Moved { address, .. } => {
                self.address = address;
            }
            What::Opened | What::Failed { .. } | What::Left { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::promises;

    fn events() -> Vec<Event> {
        let event = |at_insns, site, what| Event { at_insns, site, what };
        vec![
            event(90, 1, What::Allocated { address: 0x2000_0000, size_bytes: 7, align_bytes: 0 }),
            event(100, 0, What::Opened),
            event(5, 2, What::Allocated { address: 0x2000_0100, size_bytes: u64::MAX, align_bytes: 64 }),
            event(6, 3, What::Freed { address: 0x2000_0100 }),
            event(9, 2, What::Allocated { address: 0x2000_0100, size_bytes: 0, align_bytes: 0 }),
            event(8, 3, What::Freed { address: 3 }),
            event(20, u32::MAX, What::Moved { old: 0x2000_0000, address: u64::MAX, size_bytes: 9 }),
            event(30, 1, What::Failed { size_bytes: 300, align_bytes: 8 }),
            event(31, 1, What::Failed { size_bytes: 300, align_bytes: 0 }),
            event(31, 4, What::Left { size_bytes: 1 }),
        ]
    }

    #[test]
    fn events_survive_the_wire_and_no_cut_or_flipped_bit_goes_unseen() {
        promises::hold::<Events>(&events());
    }

    #[test]
    fn a_pair_costs_some_ten_bytes() {
        let pairs: Vec<_> = (0..1000)
            .flat_map(|n| {
                let address = 0x2000_0000 + n % 16 * 0x40;
                let allocated = What::Allocated { address, size_bytes: 24, align_bytes: 0 };
                [
                    Event { at_insns: n * 1000 + 400, site: 1, what: allocated },
                    Event { at_insns: n * 1000 + 900, site: 2, what: What::Freed { address } },
                ]
            })
            .collect();
        assert!(promises::encode::<Events>(&pairs).len() <= 11 * 1000 + 16);
    }

    #[test]
    fn an_event_of_nowhere_is_refused_when_written_and_when_read() {
        let freed = Event { at_insns: 1, site: 0, what: What::Freed { address: 1 } };
        promises::refuse::<Events>(&events(), &[freed, Event { site: 1, what: What::Opened, ..freed }]);
    }

    #[test]
    fn an_event_is_written_in_one_way_only() {
        let (freed, failed) = (2, 4);
        assert!(Decoder::new(&[freed | SITE, 2, 1, 2]).next().unwrap().is_ok());
        for bad in
            [&[freed | SITE, 2, 0, 2][..], &[freed | SITE | ALIGN, 2, 1, 2], &[failed | SITE | ALIGN, 2, 1, 2, 0]]
        {
            assert!(Decoder::new(bad).next().unwrap().is_err(), "{bad:?}");
        }
    }

    /// Profiles are saved in these bytes.
    #[test]
    fn events_of_saved_profiles_stay_readable() {
        promises::stay::<Events>(
            &events(),
            "09b401018080808004070014190a028004ffffffffffffffffff01400a020300010600000201f9838080040b18ffffffff0ffaff\
             ffff038180808004091c1401ac02080402ac020d000401",
        );
    }
}
