// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table to move in: its rows, the selected one, order and search. It knows neither a terminal nor a profile.

use std::cmp::Reverse;

use crate::analysis::scope::Scope;
use crate::text::columns::columns;
use crate::text::number::{group, group_known, share, signed};
use crate::text::printable::printable;
use crate::text::symbol_name::file_name;
use crate::text::tone::Tone;

/// Parts that a strip of the run's time is divided into; a screen has fewer columns.
pub(super) const STRIP_PARTS: usize = 1024;

/// Columns of what stands for the directories that are cut from a place.
const CUT_COLUMNS: usize = 2;

/// Columns of the mark that shows the order.
const MARK_COLUMNS: usize = 2;

/// Function that a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Whether it is of the run before, of two that are compared.
    pub(super) is_before: bool,
    /// Its first address; None: the boot ROM.
    pub(super) start: Option<u64>,
}

/// Destination of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Target {
    /// Nothing.
    #[default]
    Nothing,
    /// A function.
    Function(Place),
    /// A task or interrupt.
    Scope(Scope),
    /// Another row of the same table.
    Row(usize),
}

/// Cell of a row: its text, and the number that it is sorted by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    /// Text, printable.
    pub(super) text: String,
    /// Number; None: the text decides.
    number: Option<i128>,
}

impl Cell {
    /// Any text. Nothing in it can command the terminal afterwards.
    pub(super) fn text(text: &str) -> Cell {
        Cell { text: printable(text).into_owned(), number: None }
    }

    /// Number of something.
    pub(super) fn count(number: u64) -> Cell {
        Cell { text: group(number), number: Some(number.into()) }
    }

    /// Number of something, if it is known.
    pub(super) fn known(number: Option<u64>) -> Cell {
        Cell { text: group_known(number), number: Some(number.map_or(-1, i128::from)) }
    }

    /// Text that is sorted by a number.
    pub(super) fn at(text: &str, number: u64) -> Cell {
        Cell { text: text.to_owned(), number: Some(number.into()) }
    }

    /// Part of a whole.
    pub(super) fn share(part: u64, whole: u64) -> Cell {
        Cell { text: share(part, whole), number: Some(part.into()) }
    }

    /// Change of a number, as this text. The largest change comes first, up or down.
    pub(super) fn change(difference: i128, text: String) -> Cell {
        Cell { text, number: Some(difference.abs()) }
    }

    /// Change of a number.
    pub(super) fn signed(difference: i128) -> Cell {
        Cell::change(difference, signed(difference))
    }
}

/// Use of a column's width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// Width of its widest cell; the text is flush right.
    Number,
    /// Names of functions: shortened without two becoming alike.
    Name,
    /// Text whose end is cut.
    Text,
    /// Place in a source file: its directories are cut.
    Location,
    /// Strip of time, as wide as there is room.
    Strip,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) fit: Fit,
    /// Narrowest terminal that shows it.
    pub(super) from_columns: usize,
    /// Whether the table can be sorted by it.
    pub(super) is_key: bool,
}

impl Column {
    /// Column of numbers to sort by.
    pub(super) const fn number(title: &'static str) -> Column {
        Column { title, fit: Fit::Number, from_columns: 0, is_key: true }
    }

    /// Column of names to sort by.
    pub(super) const fn name(title: &'static str) -> Column {
        Column { title, fit: Fit::Name, from_columns: 0, is_key: true }
    }

    /// The column, only on terminals of this width and more.
    pub(super) const fn from(self, from_columns: usize) -> Column {
        Column { from_columns, ..self }
    }

    /// The column, in the table's own order only.
    pub(super) const fn in_order(self) -> Column {
        Column { is_key: false, ..self }
    }

    /// The column with another use of its width.
    pub(super) const fn fitted(self, fit: Fit) -> Column {
        Column { fit, ..self }
    }
}

/// A row.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// Cells in the order of the columns; fewer for a heading between rows, whose only cell takes the whole line.
    pub(super) cells: Vec<Cell>,
    pub(super) tone: Tone,
    pub(super) target: Target,
    /// Share of each part of the run's time, from 0 to 1; empty: the row has no strip.
    pub(super) strip: Vec<f32>,
    /// Text to copy, where it is not that of the first name.
    pub(super) copied: Option<String>,
}

impl Row {
    /// Heading between rows.
    pub(super) fn heading(text: &str) -> Row {
        Row { cells: vec![Cell::text(text)], tone: Tone::Source, ..Row::default() }
    }

    /// Whether it is a heading between rows.
    pub(super) fn is_heading(&self, columns: usize) -> bool {
        self.cells.len() < columns
    }

    fn holds(&self, wanted: &Wanted<'_>) -> bool {
        self.cells.iter().any(|cell| wanted.is_in(&cell.text))
    }
}

/// Text that is searched: without capitals it means both cases.
struct Wanted<'t> {
    text: &'t str,
    is_exact: bool,
}

impl Wanted<'_> {
    fn new(text: &str) -> Wanted<'_> {
        Wanted { text, is_exact: text.chars().any(char::is_uppercase) }
    }

    fn is_in(&self, text: &str) -> bool {
        if self.is_exact { text.contains(self.text) } else { text.to_lowercase().contains(self.text) }
    }
}

/// Way through the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Down,
    Up,
}

/// Order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// Index of the column.
    pub(super) column: usize,
    /// Whether the largest number, or the last name, comes first.
    pub(super) is_falling: bool,
}

/// A table with a selected row.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
    /// Order; None: the table's own.
    pub(super) order: Option<Order>,
    /// Index of the selected row.
    pub(super) selected: usize,
    /// Index of the first row on the screen.
    pub(super) top: usize,
    /// Widest cell or title of each column.
    widths: Vec<usize>,
    /// Columns that the widest source file with its line needs, without directories.
    pub(super) place_columns: usize,
}

impl Grid {
    /// Table in the order of its rows; `order` says by which column that is.
    pub(super) fn new(columns_: Vec<Column>, rows: Vec<Row>, order: Option<usize>) -> Grid {
        let mut widths: Vec<usize> = columns_.iter().map(|column| columns(column.title)).collect();
        for row in rows.iter().filter(|row| !row.is_heading(columns_.len())) {
            for (width, cell) in widths.iter_mut().zip(&row.cells) {
                *width = columns(&cell.text).max(*width);
            }
        }
        let location = columns_.iter().position(|column| column.fit == Fit::Location);
        let places = rows.iter().filter_map(|row| row.cells.get(location?));
        let place_columns = places.map(|cell| columns(file_name(&cell.text)) + CUT_COLUMNS).max().unwrap_or(0);
        let order = order.map(|column| Order { column, is_falling: columns_[column].fit == Fit::Number });
        Grid { columns: columns_, rows, order, selected: 0, top: 0, widths, place_columns }
    }

    /// Width of a column of numbers, with the mark of the order in its heading.
    pub(super) fn width(&self, column: usize) -> usize {
        let is_marked = self.order.is_some_and(|order| order.column == column);
        let title = columns(self.columns[column].title) + if is_marked { MARK_COLUMNS } else { 0 };
        self.widths[column].max(title)
    }

    /// The selected row.
    pub(super) fn row(&self) -> Option<&Row> {
        self.rows.get(self.selected)
    }

    /// Selects a row by its index, the last one at most.
    pub(super) fn select(&mut self, index: usize) {
        self.selected = index.min(self.rows.len().saturating_sub(1));
    }

    /// Moves the selection by a number of rows.
    pub(super) fn step(&mut self, way: Way, rows: usize) {
        self.select(match way {
            Way::Down => self.selected.saturating_add(rows),
            Way::Up => self.selected.saturating_sub(rows),
        });
    }

    /// Moves the first row so that the selected one is on a screen of this many rows.
    pub(super) fn scroll(&mut self, height: usize) {
        let last_top = self.rows.len().saturating_sub(height);
        let least = (self.selected + 1).saturating_sub(height);
        self.top = self.top.clamp(least.min(self.selected), self.selected).min(last_top.max(least));
    }

    /// Selects the row with this target, if there is one.
    pub(super) fn find_target(&mut self, target: &Target) -> bool {
        let found = self.rows.iter().position(|row| row.target == *target && *target != Target::Nothing);
        found.inspect(|&index| self.select(index)).is_some()
    }

    /// Selects the next row that holds a text, from a row on and then around the end. False: there is none.
    pub(super) fn search(&mut self, text: &str, from: usize, way: Way) -> bool {
        let (wanted, count) = (Wanted::new(text), self.rows.len());
        let at = |distance: usize| match way {
            Way::Down => (from + distance) % count,
            Way::Up => (from + count - distance) % count,
        };
        let found = (0..count).map(at).find(|&index| self.rows[index].holds(&wanted));
        found.inspect(|&index| self.select(index)).is_some()
    }

    /// Sorts by the next column that can be sorted by, or the one before it, among those that a terminal shows. False:
    /// the order of this table is its meaning.
    pub(super) fn sort_by_next(&mut self, way: Way, width_columns: usize) -> bool {
        let is_shown = |column: &Column| column.is_key && column.from_columns <= width_columns;
        let keys: Vec<usize> =
            self.columns.iter().enumerate().filter(|(_, column)| is_shown(column)).map(|(index, _)| index).collect();
        if keys.is_empty() {
            return false;
        }
        let now = self.order.and_then(|order| keys.iter().position(|&key| key == order.column));
        let next = match (now, way) {
            (None, _) => 0,
            (Some(now), Way::Down) => (now + 1) % keys.len(),
            (Some(now), Way::Up) => (now + keys.len() - 1) % keys.len(),
        };
        let column = keys[next];
        self.sort(Order { column, is_falling: self.columns[column].fit == Fit::Number });
        true
    }

    /// Sorts by the other direction of the same column. False: the table is in its own order.
    pub(super) fn reverse(&mut self) -> bool {
        let order = self.order.map(|order| Order { is_falling: !order.is_falling, ..order });
        order.inspect(|order| self.sort(*order)).is_some()
    }

    /// Sorts; equal rows keep their order. The selected row stays selected.
    pub(super) fn sort(&mut self, order: Order) {
        let kept = self.row().map(|row| (row.target.clone(), row.cells.clone()));
        let column = order.column;
        let number = |row: &Row| row.cells.get(column).and_then(|cell| cell.number).unwrap_or(0);
        let text = |row: &Row| row.cells.get(column).map(|cell| cell.text.clone()).unwrap_or_default();
        match (self.columns[column].fit == Fit::Number, order.is_falling) {
            (true, true) => self.rows.sort_by_key(|row| Reverse(number(row))),
            (true, false) => self.rows.sort_by_key(number),
            (false, true) => self.rows.sort_by_key(|row| Reverse(text(row))),
            (false, false) => self.rows.sort_by_key(text),
        }
        self.order = Some(order);
        let is_kept =
            |row: &Row| kept.as_ref().is_some_and(|(target, cells)| row.target == *target && row.cells == *cells);
        self.selected = self.rows.iter().position(is_kept).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let rows = [("b", 3, 10), ("a", 2, 20), ("Crc", 1, 20)].map(|(name, insns, calls)| Row {
            cells: vec![Cell::text(name), Cell::count(insns), Cell::count(calls)],
            ..Row::default()
        });
        let columns =
            vec![Column::name("Function"), Column::number("Instructions"), Column::number("Calls").from(100)];
        Grid::new(columns, rows.into(), Some(1))
    }

    fn names(grid: &Grid) -> Vec<&str> {
        grid.rows.iter().map(|row| &*row.cells[0].text).collect()
    }

    #[test]
    fn the_selected_row_stays_selected_whatever_the_order() {
        let mut grid = grid();
        grid.select(1);
        assert!(grid.sort_by_next(Way::Down, 120));
        // Equal ones keep their order.
        assert_eq!((names(&grid), grid.selected), (vec!["a", "Crc", "b"], 0));
        assert!(grid.sort_by_next(Way::Down, 120));
        assert_eq!((names(&grid), grid.selected), (vec!["Crc", "a", "b"], 1));
        assert!(grid.reverse());
        assert_eq!((names(&grid), grid.selected), (vec!["b", "a", "Crc"], 1));
        assert!(grid.sort_by_next(Way::Up, 80));
        assert_eq!(
            grid.order,
            Some(Order { column: 1, is_falling: true }),
            "a column that is not shown is not a key"
        );
    }

    #[test]
    fn a_search_goes_around_the_end_and_capitals_make_it_exact() {
        let mut grid = grid();
        assert!(grid.search("c", 0, Way::Down) && grid.selected == 2);
        assert!(grid.search("a", 2, Way::Down) && grid.selected == 1);
        assert!(!grid.search("CRC", 0, Way::Down) && grid.selected == 1);
        assert!(grid.search("Crc", 1, Way::Up) && grid.selected == 2);
        assert!(!Grid::new(Vec::new(), Vec::new(), None).search("a", 0, Way::Down));
    }

    #[test]
    fn the_selected_row_is_on_the_screen_of_any_height() {
        let rows = vec![Row { cells: vec![Cell::count(1)], ..Row::default() }; 50];
        let mut grid = Grid::new(vec![Column::number("n")], rows, None);
        for (index, height) in [(0, 10), (9, 10), (10, 10), (49, 10), (49, 60), (3, 1), (20, 7), (5, 0)] {
            grid.select(index);
            grid.scroll(height);
            assert!(grid.top <= grid.selected && (height == 0 || grid.selected < grid.top + height), "{grid:?}");
        }
        // No empty lines at the end while there are rows above.
        grid.select(49);
        grid.scroll(10);
        grid.scroll(20);
        assert_eq!(grid.top, 30);
    }
}
