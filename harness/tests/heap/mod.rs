// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heap tests: compared with the firmware's own counts, and shown in other projects' programs.

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
