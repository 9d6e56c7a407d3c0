//! The commands, one file each.

pub mod annotate;
pub mod bins;
mod browser;
pub mod callers;
pub mod chip;
pub mod debug;
pub mod diff;
pub mod doctor;
pub mod export;
pub mod heap;
pub mod init;
pub mod list;
pub mod manual;
pub mod merge;
pub mod profile;
pub mod report;
pub mod run;
pub mod test;
pub mod top;
