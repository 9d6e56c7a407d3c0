//! Text for people: what a terminal may be shown.

pub mod terminal;
