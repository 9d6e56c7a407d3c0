// SPDX-License-Identifier: GPL-2.0-or-later
//! Accesses of a chip's registers, kept in a file that harness reads.

use std::io;

use wire::chip::{ACCESS_BYTES, ACCESS_WORDS, ACCESSES, Access};

use crate::records::Table;

/// The counts, and the table that has a copy of each row.
pub(crate) struct Accesses {
    counts: engine::access::Accesses,
    table: Table,
}

impl Accesses {
    pub(crate) fn create(directory: &str) -> io::Result<Accesses> {
        let table = Table::create(directory, ACCESSES, ACCESS_BYTES)?;
        Ok(Accesses { counts: engine::access::Accesses::default(), table })
    }

    pub(crate) fn read(&mut self, pc: u64, address: u64, value: u64, insns: u64) {
        let (row, access) = self.counts.read(pc, address, value, insns);
        self.keep(row, access);
    }

    pub(crate) fn write(&mut self, pc: u64, address: u64, insns: u64) {
        let (row, access) = self.counts.write(pc, address, insns);
        self.keep(row, access);
    }

    /// Opens the window: all counts start again.
    pub(crate) fn restart(&mut self) {
        let rows = self.counts.restart();
        (0..rows).for_each(|row| self.table.put(row, [0; ACCESS_WORDS]));
    }

    fn keep(&self, row: usize, access: Access) {
        self.table.put(row, access.to_words());
    }
}
