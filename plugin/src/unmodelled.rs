//! Accesses of a chip's registers that nothing in its file models: which, from where, how often.

use std::io;

use wire::chip::{OTHERS, ROWS};

use rustc_hash::FxHashMap;

use crate::qemu;
use crate::records::Table;

/// The table of them, which the harness reads.
pub(crate) struct Unmodelled {
    table: Table,
    rows: FxHashMap<u64, usize>,
}

impl Unmodelled {
    pub(crate) fn create(directory: &str) -> io::Result<Unmodelled> {
        Ok(Unmodelled { table: Table::create(directory)?, rows: FxHashMap::default() })
    }

    /// Takes note of the access that the instruction at `pc` has just made, where it was such a one.
    pub(crate) fn note(&mut self, pc: u64) {
        let Some((address, is_write)) = qemu::take_unmodelled() else { return };
        let next = self.rows.len();
        let (row, address) = match self.rows.get(&address) {
            Some(&row) => (row, address),
            None if next < ROWS - 1 => {
                self.rows.insert(address, next);
                (next, address)
            }
            None => (ROWS - 1, OTHERS),
        };
        self.table.count(row, address, pc, is_write);
    }
}
