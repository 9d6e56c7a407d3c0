// SPDX-License-Identifier: GPL-2.0-or-later
//! Accesses of a chip's registers that its file does not model: address, pc, and number.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use wire::chip::{ABSENT, BITES, CAME, FILE_NAME, FIRST_RULE, FIRST_RULE_ROW, OTHERS, ROWS, TABLE_BYTES};
use wire::timeline::What;

use rustc_hash::FxHashMap;

use crate::qemu;
use crate::records::Table;

/// The table of unmodelled accesses, which harness reads.
#[derive(Clone)]
pub(crate) struct Unmodelled {
    table: Arc<Table>,
    /// Rows by address.
    rows: Arc<Mutex<FxHashMap<u64, usize>>>,
}

impl Unmodelled {
    pub(crate) fn create(directory: &str) -> io::Result<Unmodelled> {
        let table = Table::create(directory, FILE_NAME, TABLE_BYTES)?;
        Ok(Unmodelled { table: Arc::new(table), rows: Arc::default() })
    }

    /// Notes the access that the instruction at `pc` has just made, if it was unmodelled.
    pub(crate) fn note(&self, pc: u64) {
        if let Some((address, is_write)) = qemu::take_unmodelled() {
            self.count(address, pc, is_write);
        }
        if let Some(rule) = qemu::take_answer() {
            self.table.count(FIRST_RULE_ROW + rule as usize, FIRST_RULE + rule, pc, false);
        }
    }

    fn count(&self, address: u64, pc: u64, is_write: bool) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let next = rows.len();
        let (row, address) = match rows.get(&address) {
            Some(&row) => (row, address),
            None if next < FIRST_RULE_ROW => {
                rows.insert(address, next);
                (next, address)
            }
            None => (ROWS - 1, OTHERS),
        };
        self.table.count(row, address, pc, is_write);
    }

    /// Makes the receiver of a chip's events, which may be called on any thread, with any lock held.
    ///
    /// `on_outside` receives the changes of pins and the frames on buses.
    pub(crate) fn on_event<P: Fn(What) + Send + 'static>(
        &self,
        on_outside: P,
    ) -> impl Fn(qemu::ChipEvent) + Send + 'static + use<P> {
        let (own, table) = (self.clone(), Arc::clone(&self.table));
        move |event| match event {
            qemu::ChipEvent::Undescribed { address, pc, is_write } => own.count(address, pc, is_write),
            qemu::ChipEvent::Bite { watchdog } => table.count(ROWS - 2, BITES, watchdog, true),
            qemu::ChipEvent::Pulse { rule } => {
                table.count(FIRST_RULE_ROW + rule, FIRST_RULE + rule as u64, 0, false);
            }
            qemu::ChipEvent::Pin { port, pin, is_high, is_output } => {
                on_outside(What::Pin { port, pin, is_high, is_output });
            }
            qemu::ChipEvent::Frame { port, is_sent, frame } => on_outside(What::Frame { port, is_sent, frame }),
            qemu::ChipEvent::Came => table.count(ROWS - 4, CAME, 0, false),
            qemu::ChipEvent::Absent { address, is_write } => table.count(ROWS - 3, ABSENT, address, is_write),
        }
    }
}
