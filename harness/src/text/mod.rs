//! Text for people: numbers, tables, and what a terminal or a page may be shown.

pub mod markup;
pub mod number;
pub mod table;
pub mod terminal;
