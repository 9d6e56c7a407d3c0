//! Time travel: the run put at any of its instructions.

#[path = "../common/mod.rs"]
mod common;

mod find;
mod places;
