// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of reading firmware files and their sources: formats, names, lines, machines, kernels, unwind tables. The
//! arbiters are the compilers' own tools.

mod disassembly;
mod files;
mod kernel;
mod machine;
mod size;
mod stabs;
mod stack;
mod symbols;
mod unwind_table;
