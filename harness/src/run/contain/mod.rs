// SPDX-License-Identifier: MIT OR Apache-2.0
//! Containment: QEMU's own sandbox, the walls that the kernel builds around it, and the semihosting calls it may serve.

pub mod grants;
pub mod host;
pub mod launcher;
pub mod sandbox;
pub mod semihosting;
pub mod walls;
