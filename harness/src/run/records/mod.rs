// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of a run: the plugin's files, read into the saved model.

pub(crate) mod fault;
pub(in crate::run) mod parts;
pub mod read;
pub(in crate::run) mod zones;
