// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report's page on this machine, loaded again when its profile has changed.

pub mod http;
