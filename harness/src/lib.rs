//! Exact, reproducible profiles of firmware, without hardware.
//!
//! The folders are the pipeline, and nothing reaches back up it: an ELF becomes an [`image`], the image finds its
//! [`machine`], a [`run`] has QEMU execute it and reads what the plugin left, and [`measure`] joins all that into a
//! [`profile`]. What a profile says is [`analysis`]; it is [`show`]n on the terminal, [`export`]ed to other tools'
//! formats, and held against what is expected by the [`gate`]. [`commands`] are thin shells around these.
//! `docs/architecture.md` is the map; `layers.rs` holds the imports to it.
//!
//! Inputs are trusted to be files and nothing else: every malformed one is an [`error`] with a message and
//! an [`exit_code`], never a panic.
#![warn(clippy::too_many_lines)]

pub mod analysis;
pub mod chip;
pub mod cli;
pub mod commands;
pub mod debug;
pub mod error;
pub mod exit_code;
pub mod export;
pub mod gate;
pub mod image;
#[cfg(test)]
mod layers;
pub mod learn;
pub mod machine;
pub mod measure;
pub mod profile;
pub mod run;
pub mod show;
pub mod text;
