// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exact, reproducible profiles of firmware, without hardware.
//!
//! The folders are a pipeline, and each uses only folders before it. An ELF file becomes an [`image`], and the image
//! finds its [`machine`]. A [`run`] has QEMU execute the image and reads the plugin's records; [`measure`] joins all of
//! this into a [`profile`]. The [`analysis`] of a profile is printed on the terminal by [`show`], written in other
//! tools' formats by [`export`], and compared with expectations by the [`gate`]. [`commands`] are thin shells around
//! these folders. `docs/architecture.md` is the map; `layers.rs` tests the imports.
//!
//! An input is data and never more: a malformed one is an [`error`] with a message and an [`exit_code`], never a panic.
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
pub mod serve;
pub mod show;
pub mod taken;
pub mod text;
pub mod ui;
