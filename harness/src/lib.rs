//! Exact, reproducible profiles of firmware, without hardware.
//!
//! The modules are the pipeline, and nothing reaches back up it: an ELF becomes an [`image`], the image
//! finds its [`machine`], [`run`] has [`qemu`] execute it and reads the plugin's [`records`], which
//! become a [`profile`]; [`export`] and the [`commands`] show it.
//!
//! Inputs are trusted to be files and nothing else: every malformed one is an error with a message and
//! an exit code ([`verdict`]), never a panic.

pub mod analysis;
pub mod cli;
pub mod commands;
pub mod error;
pub mod exit_code;
pub mod export;
pub mod gate;
pub mod image;
pub mod machine;
pub mod measure;
pub mod profile;
pub mod run;
pub mod show;
pub mod text;
