// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands, one file each.

pub mod annotate;
pub mod bins;
mod browser;
pub mod budget;
pub mod callers;
pub mod chip;
mod chip_check;
mod chip_show;
mod chip_suggest;
pub mod complete;
pub mod coverage;
pub mod debug;
pub mod diff;
pub mod doctor;
pub mod export;
pub mod heap;
pub mod history;
pub mod init;
pub mod list;
pub mod manual;
pub mod merge;
pub mod profile;
pub mod report;
pub mod run;
pub mod serve;
pub mod size;
pub mod stack;
pub mod test;
pub mod top;
pub mod ui;
mod workshop;
