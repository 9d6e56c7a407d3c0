//! Text for people: numbers, tables, and what each destination may be shown. Names, paths and consoles are the
//! firmware's: each destination has one function that makes data of them.

pub mod csv;
pub mod fold;
pub mod github;
pub mod glossary;
#[cfg(test)]
mod hostile;
pub mod markdown;
pub mod markup;
pub mod near;
pub mod number;
pub mod screen;
pub mod shell;
pub mod table;
pub mod terminal;
