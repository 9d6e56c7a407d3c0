// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU as a process: its version, the plugin adapted to it, the bundle that may contain it, start, memory and
//! monitor.

mod asked;
pub(in crate::run) mod bundle;
pub mod cores;
pub mod emulator;
pub mod memory;
pub mod monitor;
pub(crate) mod offered;
pub mod plugin;
pub mod process;
pub mod start;
pub mod tricks;
pub(in crate::run) mod versions;
