// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of showing a saved profile, in the terminal and in the report.

mod callers;
mod cold_part;
mod differential;
mod generics;
mod json;
mod look;
mod manual;
mod own;
mod pipe;
mod report;
mod screen;
mod serve;
mod ui;
