// SPDX-License-Identifier: MIT OR Apache-2.0
//! Address bins with their instructions, by address.

use crate::analysis::bins;
use crate::analysis::owner::Owner;
use crate::text::number::Hex;
use crate::text::tone::Tone;
use crate::ui::book::Book;
use crate::ui::grid::{Cell, Column, Grid, Place, Row, Target};

const COLUMNS: [Column; 5] = [
    Column::number("Address"),
    Column::number("Instructions"),
    Column::number("Share"),
    Column::number("Samples"),
    Column::name("Function").in_order(),
];

/// Fills the table, with the hottest bin selected. Bins know no tasks: it is of the whole run.
pub(in crate::ui) fn grid(book: &Book<'_>) -> Grid {
    let run = &book.run;
    let profile = run.profile;
    let total = run.table.total_insns;
    let bins = bins::bins(profile, book.bin_bytes());
    let rows = bins.iter().map(|bin| {
        let owner = Owner::of(profile, bin.hottest);
        let offset = owner.start().map_or(0, |start| bin.start.saturating_sub(start));
        let offset = if offset == 0 { String::new() } else { format!("+{offset:#x}") };
        let address = Hex(bin.start).to_string();
        let cells = vec![
            Cell::at(&address, bin.start),
            Cell::count(bin.insns),
            Cell::share(bin.insns, total),
            Cell::count(bin.samples),
            Cell::text(&format!("{owner}{offset}")),
        ];
        let target = Target::Function(Place { is_before: false, start: owner.start() });
        Row { cells, tone: Tone::of(bin.insns, total), target, copied: Some(address), ..Row::default() }
    });
    let mut grid = Grid::new(COLUMNS.into(), rows.collect(), Some(0));
    if let Some(order) = &mut grid.order {
        order.is_falling = false;
    }
    let hottest = bins.iter().enumerate().max_by_key(|(index, bin)| (bin.insns, std::cmp::Reverse(*index)));
    grid.select(hottest.map_or(0, |(index, _)| index));
    grid
}
