//! What is written for the programs of others, read by these programs.

#[path = "../common/mod.rs"]
mod common;

mod callgrind;
mod chrome;
mod folded;
mod gmon;
mod json;
mod lcov;
mod names;
mod phases;
mod pprof;
mod speedscope;
