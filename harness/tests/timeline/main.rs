//! The timeline: its sums are those of the tables, every event is there, and other programs read it.

#[path = "../common/mod.rs"]
mod common;

mod asked;
mod cpus;
mod exports;
mod gate;
mod loops;
mod reasons;
mod truth;
