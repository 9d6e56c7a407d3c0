// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processor in `gdbstub`'s terms: 64-bit addresses on all architectures, and a list of registers that is known
//! only once the run exists.

use std::num::NonZeroUsize;

use gdbstub::arch::{Arch, RegId, Registers};

/// Any processor.
#[derive(Debug)]
pub(super) enum Processor {}

impl Arch for Processor {
    type Usize = u64;
    type Registers = Values;
    type BreakpointKind = usize;
    type RegId = Number;
}

/// Bytes of all registers, in the order of the description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    /// Bytes; None: unknown.
    pub(super) bytes: Vec<Option<u8>>,
}

impl Registers for Values {
    type ProgramCounter = u64;

    /// Unused: the run itself reports its position.
    fn pc(&self) -> u64 {
        0
    }

    fn gdb_serialize(&self, write_byte: impl FnMut(Option<u8>)) {
        self.bytes.iter().copied().for_each(write_byte);
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        self.bytes = bytes.iter().copied().map(Some).collect();
        Ok(())
    }
}

/// Number of a register in the description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(pub(super) usize);

impl RegId for Number {
    fn from_raw_id(id: usize) -> Option<(Number, Option<NonZeroUsize>)> {
        Some((Number(id), None))
    }
}
