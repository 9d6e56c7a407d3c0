//! Heap records: the functions that allocate and free memory, and each of their calls as an event.
//!
//! Events are in the order in which they happened, delta-coded: six to ten bytes each. Function, call path and task
//! of an event are a [`crate::definition::Definition::Site`], which many events share.

use crate::Malformed;
use crate::varint::{self, Reader};

/// Name of the event file; it exists where [`crate::request::Request::heap`] names a function.
pub const FILE_NAME: &str = "heap";

/// Highest number of a register that can hold a function's argument.
pub const MAX_REGISTER: u8 = 31;

/// Source of a function's argument, read at its first instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Value of the integer register with this number.
    Register(u8),
    /// Value that is the same in each call: the block size of a pool.
    Constant(u64),
}

/// Function that allocates memory, frees it, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocator {
    /// First address of the function.
    pub entry: u64,
    /// Requested bytes; None: the function only frees.
    pub size: Option<Argument>,
    /// Factor of the requested bytes.
    pub count: Option<Argument>,
    /// Requested alignment.
    pub align: Option<Argument>,
    /// Register with the block to free or to resize.
    pub old: Option<u8>,
    /// Register with the new block's address as the function returns; 0 in it: there is no block.
    pub result: u8,
    /// Register that points to the memory where the function stores the address. In this case 0 in `result` means
    /// success.
    pub place: Option<u8>,
}

impl Allocator {
    /// Appends the record to `out`.
    pub(crate) fn put(out: &mut Vec<u8>, allocator: &Allocator) {
        varint::put(out, allocator.entry);
        for argument in [allocator.size, allocator.count, allocator.align] {
            match argument {
                None => out.push(0),
                Some(Argument::Register(number)) => out.extend([1, number]),
                Some(Argument::Constant(value)) => {
                    out.push(2);
                    varint::put(out, value);
                }
            }
        }
        for register in [allocator.old, Some(allocator.result), allocator.place] {
            out.push(register.map_or(0, |number| number + 1));
        }
    }

    /// Reads what [`Allocator::put`] wrote.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Allocator, Malformed> {
        const WHAT: &str = "request's allocator";
        let entry = reader.varint(WHAT)?;
        let mut arguments = [None; 3];
        for argument in &mut arguments {
            let malformed = Malformed { what: WHAT, offset: reader.offset };
            *argument = match reader.byte(WHAT)? {
                0 => None,
                1 => Some(Argument::Register(reader.byte(WHAT)?)),
                2 => Some(Argument::Constant(reader.varint(WHAT)?)),
                _ => return Err(malformed),
            };
        }
        let mut registers = [None; 3];
        for register in &mut registers {
            *register = reader.byte(WHAT)?.checked_sub(1);
        }
        let ([size, count, align], [old, Some(result), place]) = (arguments, registers) else {
            return Err(Malformed { what: WHAT, offset: reader.offset });
        };
        Ok(Allocator { entry, size, count, align, old, result, place })
    }

    /// Whether the description makes sense: registers exist, and size and the other fields fit together.
    pub(crate) fn is_meant(&self) -> bool {
        let registers = [self.size, self.count, self.align].into_iter().filter_map(|argument| match argument? {
            Argument::Register(number) => Some(number),
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

/// Kind of heap event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The window has opened. Blocks that were allocated before are known.
    Opened,
    /// A block was allocated.
    Allocated {
        /// Address of the block.
        address: u64,
        /// Requested bytes.
        size_bytes: u64,
        /// Requested alignment; 0: none.
        align_bytes: u64,
    },
    /// A block was freed.
    Freed {
        /// Address that was freed, whether or not a block is there.
        address: u64,
    },
    /// A block was resized: freed, and another one or the same allocated instead.
    Moved {
        /// Address that was freed.
        old: u64,
        /// Address of the new block.
        address: u64,
        /// Requested bytes.
        size_bytes: u64,
    },
    /// An allocation failed. A block that was to be resized is unchanged.
    Failed {
        /// Requested bytes.
        size_bytes: u64,
        /// Requested alignment; 0: none.
        align_bytes: u64,
    },
    /// The function never returned: an exception or a longjmp led out of it.
    Left {
        /// Requested bytes.
        size_bytes: u64,
    },
}

const OPENED: u8 = 0;
const ALLOCATED: u8 = 1;
const FREED: u8 = 2;
const MOVED: u8 = 3;
const FAILED: u8 = 4;
const LEFT: u8 = 5;
const KINDS: u8 = 7;
/// Bit: the site differs from the last event's of this kind.
const SITE: u8 = 8;
/// Bit: an alignment follows.
const ALIGN: u8 = 0x10;
/// All bits that are used in an event's first byte.
const USED: u8 = KINDS | SITE | ALIGN;

/// Values that the next deltas refer to.
#[derive(Clone, Debug, Default)]
struct Previous {
    at_insns: u64,
    address: u64,
    /// Last site by kind of event: allocations and frees come from different places.
    sites: [u32; KINDS as usize + 1],
}

/// Encoder of events; keeps the values that the next delta refers to.
#[derive(Clone, Debug, Default)]
pub struct Encoder(Previous);

impl Encoder {
    /// Appends one event to `out`.
    ///
    /// # Errors
    /// When the event needs a site and has none, or the reverse; nothing is appended.
    pub fn put(&mut self, event: &Event, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let &Event { at_insns, site, what } = event;
        if (site == 0) != (what == What::Opened) {
            return Err(Malformed { what: "heap event", offset: out.len() });
        }
        let (kind, align_bytes) = match what {
            What::Opened => (OPENED, 0),
            What::Allocated { align_bytes, .. } => (ALLOCATED, align_bytes),
            What::Freed { .. } => (FREED, 0),
            What::Moved { .. } => (MOVED, 0),
            What::Failed { align_bytes, .. } => (FAILED, align_bytes),
            What::Left { .. } => (LEFT, 0),
        };
        let last = &mut self.0;
        let has_site = last.sites[usize::from(kind)] != site;
        out.push(kind | if has_site { SITE } else { 0 } | if align_bytes > 0 { ALIGN } else { 0 });
        varint::put_delta(out, last.at_insns, at_insns);
        if has_site {
            varint::put(out, site.into());
        }
        let mut put_address = |out: &mut Vec<u8>, address| {
            varint::put_delta(out, last.address, address);
            last.address = address;
        };
        match what {
            What::Opened => {}
            What::Allocated { address, size_bytes, .. } => {
                put_address(out, address);
                varint::put(out, size_bytes);
            }
            What::Freed { address } => put_address(out, address),
            What::Moved { old, address, size_bytes } => {
                put_address(out, old);
                put_address(out, address);
                varint::put(out, size_bytes);
            }
            What::Failed { size_bytes, .. } | What::Left { size_bytes } => varint::put(out, size_bytes),
        }
        if align_bytes > 0 {
            varint::put(out, align_bytes);
        }
        last.sites[usize::from(kind)] = site;
        last.at_insns = if what == What::Opened { 0 } else { at_insns };
        Ok(())
    }
}

/// Decoder of the events that [`Encoder`] wrote.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    reader: Reader<'a>,
    previous: Previous,
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte of a stream.
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { reader: Reader::new(bytes), previous: Previous::default() }
    }

    fn address(&mut self) -> Result<u64, Malformed> {
        self.previous.address = self.reader.delta(self.previous.address, "heap event's address")?;
        Ok(self.previous.address)
    }

    fn event(&mut self) -> Result<Event, Malformed> {
        let malformed = Malformed { what: "heap event", offset: self.reader.offset };
        let first = self.reader.byte("heap event")?;
        let kind = first & KINDS;
        let may_align = matches!(kind, ALLOCATED | FAILED);
        if first & !USED != 0 || kind > LEFT || (first & ALIGN != 0 && !may_align) {
            return Err(malformed);
        }
        let at_insns = self.reader.delta(self.previous.at_insns, "heap event's time")?;
        let last_site = self.previous.sites[usize::from(kind)];
        let site = if first & SITE != 0 {
            u32::try_from(self.reader.varint("heap event's site")?).map_err(|_| malformed.clone())?
        } else {
            last_site
        };
        if (site == 0) != (kind == OPENED) || (first & SITE != 0 && site == last_site) {
            return Err(malformed);
        }
        let mut what = match kind {
            OPENED => What::Opened,
            ALLOCATED => {
                let address = self.address()?;
                What::Allocated { address, size_bytes: self.reader.varint("heap event's size")?, align_bytes: 0 }
            }
            FREED => What::Freed { address: self.address()? },
            MOVED => {
                let (old, address) = (self.address()?, self.address()?);
                What::Moved { old, address, size_bytes: self.reader.varint("heap event's size")? }
            }
            FAILED => What::Failed { size_bytes: self.reader.varint("heap event's size")?, align_bytes: 0 },
            _ => What::Left { size_bytes: self.reader.varint("heap event's size")? },
        };
        if let (ALIGN, What::Allocated { align_bytes, .. } | What::Failed { align_bytes, .. }) =
            (first & ALIGN, &mut what)
        {
            *align_bytes = self.reader.varint("heap event's alignment")?;
            if *align_bytes == 0 {
                return Err(malformed);
            }
        }
        self.previous.sites[usize::from(kind)] = site;
        self.previous.at_insns = if what == What::Opened { 0 } else { at_insns };
        Ok(Event { at_insns, site, what })
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<Event, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        Some(self.event().inspect_err(|_| self.reader.stop()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn encode(events: &[Event]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::default();
        events.iter().for_each(|event| encoder.put(event, &mut out).unwrap());
        out
    }

    #[test]
    fn events_survive_the_wire() {
        let decoded: Result<Vec<_>, _> = Decoder::new(&encode(&events())).collect();
        assert_eq!(decoded.unwrap(), events());
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
        assert!(encode(&pairs).len() <= 11 * 1000 + 16);
    }

    #[test]
    fn an_event_of_nowhere_is_refused() {
        let mut out = Vec::new();
        let freed = Event { at_insns: 1, site: 0, what: What::Freed { address: 1 } };
        assert!(Encoder::default().put(&freed, &mut out).is_err());
        assert!(Encoder::default().put(&Event { site: 1, what: What::Opened, ..freed }, &mut out).is_err());
        assert!(out.is_empty());
        assert!(Decoder::new(&[FREED, 2, 2]).next().unwrap().is_err());
        assert!(Decoder::new(&[OPENED | SITE, 2, 1]).next().unwrap().is_err());
    }

    #[test]
    fn any_cut_or_flipped_byte_is_an_error_or_other_events_and_never_a_panic() {
        let bytes = encode(&events());
        for cut in 0..bytes.len() {
            let _ = Decoder::new(&bytes[..cut]).count();
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[cut] ^= 1 << bit;
                let decoded: Result<Vec<_>, _> = Decoder::new(&flipped).collect();
                assert_ne!(decoded.as_ref(), Ok(&events()), "byte {cut} bit {bit} does not matter");
            }
        }
    }
}
