// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text for people: numbers, tables, and the characters that each destination may get. Names, paths and console
//! output come from the firmware; each destination has one function that turns them into plain data.

pub mod bracket;
pub mod columns;
pub(crate) mod count;
pub mod csv;
pub mod disarmed;
pub(crate) mod escape;
pub mod fold;
pub mod github;
pub mod glossary;
#[cfg(test)]
mod hostile;
pub mod markdown;
pub mod markup;
pub mod near;
pub mod number;
pub mod path;
pub mod printable;
pub mod screen;
pub mod shell;
pub mod symbol_name;
pub mod table;
pub mod terminal;
pub mod tone;
