//! Text for people: what a terminal may be shown.

pub mod number;
pub mod table;
pub mod terminal;
