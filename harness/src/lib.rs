//! Exact, reproducible profiles of firmware, without hardware.
//!
//! The modules are the pipeline, and nothing reaches back up it: an ELF becomes an [`image`], the image
//! finds its [`machine`], [`run`] has [`qemu`] execute it and reads the plugin's [`records`], which
//! become a [`profile`]; [`export`] and the [`commands`] show it.
//!
//! Inputs are trusted to be files and nothing else: every malformed one is an error with a message and
//! an exit code ([`verdict`]), never a panic.

pub mod assertion;
pub mod attribution;
pub mod baseline;
pub mod cache;
pub mod callgraph;
pub mod calltree;
pub mod cli;
pub mod commands;
pub mod compare;
pub mod cores;
pub mod crosscheck;
pub mod disassembly;
pub mod expect;
pub mod export;
pub mod filter;
pub mod functions;
pub mod image;
pub mod kernel;
pub mod listing;
pub mod lookup;
pub mod loops;
pub mod machine;
pub mod mcount;
pub mod measure;
pub mod metrics;
pub mod options;
pub mod output;
pub mod profile;
pub mod progress;
pub mod qemu;
pub mod records;
pub mod report;
pub mod request;
pub mod run;
pub mod source;
pub mod stacks;
pub mod suite;
pub mod symbols;
pub mod tail;
pub mod terminal;
pub mod threshold;
pub mod unwind;
pub mod verdict;
