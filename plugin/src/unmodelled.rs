//! Accesses of a chip's registers that its file does not model: address, pc, and number.

use std::io;
use std::sync::Arc;

use wire::chip::{BITES, OTHERS, ROWS};

use rustc_hash::FxHashMap;

use crate::qemu;
use crate::records::Table;

/// The table of them, which the harness reads.
pub(crate) struct Unmodelled {
    table: Arc<Table>,
    rows: FxHashMap<u64, usize>,
}

impl Unmodelled {
    pub(crate) fn create(directory: &str) -> io::Result<Unmodelled> {
        Ok(Unmodelled { table: Arc::new(Table::create(directory)?), rows: FxHashMap::default() })
    }

    /// Notes the access that the instruction at `pc` has just made, if it was unmodelled.
    pub(crate) fn note(&mut self, pc: u64) {
        let Some((address, is_write)) = qemu::take_unmodelled() else { return };
        let next = self.rows.len();
        let (row, address) = match self.rows.get(&address) {
            Some(&row) => (row, address),
            None if next < ROWS - 2 => {
                self.rows.insert(address, next);
                (next, address)
            }
            None => (ROWS - 1, OTHERS),
        };
        self.table.count(row, address, pc, is_write);
    }

    /// Callback that notes a watchdog that has run out, by its address; callable on any thread and under any lock.
    pub(crate) fn on_bite(&self) -> impl Fn(u64) + Send + 'static + use<> {
        let table = Arc::clone(&self.table);
        move |watchdog| table.count(ROWS - 2, BITES, watchdog, true)
    }
}
