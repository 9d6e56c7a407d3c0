// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timeline tests: its sums equal the tables', no event is missing, and other programs read it.

mod asked;
mod counters;
mod cpus;
mod diff;
mod exports;
mod gate;
mod json;
mod lives;
mod loops;
mod reasons;
mod sleep;
mod states;
mod truth;
