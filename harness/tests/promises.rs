// SPDX-License-Identifier: MIT OR Apache-2.0
//! All promises that a run of the program can break, in one test program: its tests share runs ([`common::measured`]) and
//! both cores to the end. A folder for each part of the product; `cargo test --test promises chip::` runs one.

mod chip;
mod common;
mod debug;
mod export;
mod gate;
mod heap;
mod image;
mod mutations;
mod run;
mod show;
mod sweep;
mod timeline;
