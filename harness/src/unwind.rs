//! Placeholder: being written.
use std::ops::Range;

use crate::image::Segment;

/// Table.
#[derive(Debug, Default)]
pub struct Table {
    /// Rows.
    pub rows: Vec<wire::unwind::Row>,
    /// Forgetful.
    pub forgetful: Vec<u64>,
    /// Warnings.
    pub warnings: Vec<String>,
}

/// Table.
pub fn table(_: Option<&[u8]>, _: decode::Isa, _: &[Segment], _: u64, _: &[Range<u64>]) -> Table {
    Table::default()
}
