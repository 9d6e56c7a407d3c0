// SPDX-License-Identifier: MIT OR Apache-2.0
//! Skips of AVR: QEMU starts the instruction behind a skip in any case, and so do callbacks at it. Its start says whether it is
//! skipped: a skip changes no register, and the processor takes no interrupt between the two.

use decode::AvrCondition;
use wire::chip::AVR_DATA;

use crate::guest::{Guest, Vcpu};

/// First address of I/O space, in the data space.
pub(crate) const IO: u64 = AVR_DATA.start + 0x20;

/// Skips right before an instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skips {
    /// Conditions of the skips, the nearest last: a skip may itself be skipped.
    conditions: Vec<AvrCondition>,
    /// Whether the first of them, or the instruction if there is none, begins a block that a skip may lead to.
    begins_block: bool,
}

impl Skips {
    /// Skips before the first instruction of a block. `may_be_skipped`: one may come right before the block.
    pub fn at_block(may_be_skipped: bool) -> Skips {
        Skips { conditions: Vec::new(), begins_block: may_be_skipped }
    }

    /// Skips before the instruction behind one with these before it.
    #[must_use]
    pub fn after(mut self, bytes: &[u8]) -> Skips {
        let Some(condition) = AvrCondition::of_skip(bytes) else { return Skips::default() };
        self.conditions.push(condition);
        self
    }

    /// Whether no skip comes before the instruction.
    pub fn are_none(&self) -> bool {
        self.conditions.is_empty() && !self.begins_block
    }

    /// Registers of devices that decide, in the order of the skips: address, and the number of instructions from there on.
    pub fn ports(&self) -> impl Iterator<Item = (u64, u64)> {
        let ports = self.conditions.iter().rev().zip(1..).filter_map(|(condition, before)| match *condition {
            AvrCondition::Port { port, .. } => Some((IO + u64::from(port), before)),
            _ => None,
        });
        ports.collect::<Vec<_>>().into_iter().rev()
    }

    /// Whether the instruction is skipped, at its start. `is_block_skipped`: the first instruction of its block is; `ports`: values
    /// of the registers of [`Skips::ports`].
    pub fn skip(
        &self,
        is_block_skipped: bool,
        mut ports: impl Iterator<Item = u8>,
        guest: &mut Guest<impl Vcpu>,
    ) -> bool {
        self.conditions.iter().fold(self.begins_block && is_block_skipped, |is_skipped, &condition| {
            let port = matches!(condition, AvrCondition::Port { .. }).then(|| ports.next()).flatten();
            !is_skipped && holds(condition, port, guest)
        })
    }
}

/// Whether a condition holds; `port`: value of the device's register, if it is about one.
pub(crate) fn holds(condition: AvrCondition, port: Option<u8>, guest: &mut Guest<impl Vcpu>) -> bool {
    let has = |value: u64, bit: u8, is_set: bool| (value >> bit & 1 == 1) == is_set;
    match condition {
        AvrCondition::Flag { bit, is_set } => has(guest.known_register("sreg").unwrap_or(0), bit, is_set),
        AvrCondition::Equal(one, other) => guest.general_register(one) == guest.general_register(other),
        AvrCondition::Register { register, bit, is_set } => has(guest.general_register(register), bit, is_set),
        AvrCondition::Port { bit, is_set, .. } => has(port.unwrap_or(0).into(), bit, is_set),
    }
}
