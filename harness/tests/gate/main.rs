//! Verdicts of `harness test` on suites.

#[path = "../common/mod.rs"]
mod common;

mod deadline;
mod first;
mod held;
mod matcher;
mod suite;
mod untrusted;
mod watch;
mod worker;
