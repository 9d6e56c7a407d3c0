//! What the image says of a code address: its function, its unwind rule, whether a call ends before it.
//! Stacks ask for the same few addresses again and again, so the answers are kept.

use decode::Flow;
use wire::unwind::{Rule, rule_at};

use crate::state::State;

/// A power of two; a firmware that samples more places only searches again.
const KEPT_PLACES: usize = 4096;

/// A code address: that of an instruction, or the last byte of a call, which is as good as the call's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    address: u64,
    /// Entry of the function that it lies in.
    pub(crate) function: Option<u64>,
    /// How to find that function's caller here.
    pub(crate) rule: Option<Rule>,
    /// The function never returns and does not keep its return address.
    pub(crate) is_forgetful: bool,
    /// A call ends at this byte.
    pub(crate) ends_call: bool,
}

/// The places asked for last, each in the slot that its address says.
pub(crate) struct Places(Vec<Option<Place>>);

impl Default for Places {
    fn default() -> Places {
        Places(vec![None; KEPT_PLACES])
    }
}

impl State {
    /// What is known of an address.
    pub(crate) fn place(&mut self, address: u64) -> Place {
        let slot = (address >> 1) as usize % KEPT_PLACES;
        if let Some(place) = self.places.0[slot].filter(|place| place.address == address) {
            return place;
        }
        let function = self.function_of(address);
        let unwinder = self.unwinder.as_ref();
        let rule = unwinder.and_then(|unwinder| rule_at(&unwinder.rows, address)).copied();
        let is_forgetful = function.is_some_and(|entry| self.is_forgetful(entry));
        let after = address.wrapping_add(1);
        let ends_call = after & 1 == 0 && (self.is_call(after, 4) || self.is_call(after, 2));
        let place = Place { address, function, rule, is_forgetful, ends_call };
        self.places.0[slot] = Some(place);
        place
    }

    /// Whether the instruction before an address is a call.
    pub(crate) fn is_return_address(&mut self, address: u64) -> bool {
        self.place(address.wrapping_sub(1)).ends_call
    }

    /// Whether the instruction of so many bytes before `after` is a call.
    fn is_call(&mut self, after: u64, size: u64) -> bool {
        let before = after.wrapping_sub(size);
        let Some(bytes) = self.memory(before, size as usize) else { return false };
        let insn = decode::decode(self.args.isa, before, &bytes);
        u64::from(insn.len_bytes) == size && matches!(insn.flow, Flow::Call { .. } | Flow::IndirectCall { .. })
    }
}
