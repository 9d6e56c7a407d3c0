// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of exports with the programs that they are made for.

mod callgrind;
mod chrome;
mod coverage;
mod folded;
mod gmon;
mod json;
mod lcov;
mod llvm_profile;
mod names;
mod phases;
mod pprof;
mod rust_coverage;
mod speedscope;
