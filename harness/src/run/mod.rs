// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of one image in the emulator, from its plan to its results.

pub mod contain;
pub mod qemu;
pub mod records;
pub mod request;
pub mod store;
pub mod watch;
