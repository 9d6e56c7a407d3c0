//! The processor as `gdbstub` asks for one: addresses of 64 bits on all of them, and registers that are known only when
//! the run is there.

use std::num::NonZeroUsize;

use gdbstub::arch::{Arch, RegId, Registers};

/// Any of the processors.
#[derive(Debug)]
pub(super) enum Processor {}

impl Arch for Processor {
    type Usize = u64;
    type Registers = Values;
    type BreakpointKind = usize;
    type RegId = Number;
}

/// All registers' bytes, in the order of the description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    /// None: not known.
    pub(super) bytes: Vec<Option<u8>>,
}

impl Registers for Values {
    type ProgramCounter = u64;

    /// Asked by nothing: where a run is held says the run.
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

/// A register's number in the description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(pub(super) usize);

impl RegId for Number {
    fn from_raw_id(id: usize) -> Option<(Number, Option<NonZeroUsize>)> {
        Some((Number(id), None))
    }
}
