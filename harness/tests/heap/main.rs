//! The heap as it is followed: held against what firmware counts of itself, and shown to others' programs.

#[path = "../common/mod.rs"]
mod common;

mod asked;
mod copies;
mod cpus;
mod exports;
mod gate;
mod others;
mod shown;
mod stripped;
mod truth;
mod wrong;
