//! What is shown of a saved profile, in the terminal and in the report.

#[path = "../common/mod.rs"]
mod common;

mod callers;
mod differential;
mod generics;
mod look;
mod manual;
mod own;
mod report;
mod screen;
