// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts of `harness test` on suites.

mod budget;
mod cache;
mod deadline;
mod editor;
mod first;
mod held;
mod history;
mod matcher;
pub(crate) mod suite;
mod suite_page;
mod times;
mod untrusted;
mod watch;
mod worker;
