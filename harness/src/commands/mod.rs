//! The commands, one file each.

pub mod doctor;
pub mod profile;
