// SPDX-License-Identifier: GPL-2.0-or-later
//! QEMU's public plugin header, and no other part of QEMU: its declarations ([`raw`]), the differences between its
//! versions ([`versions`]), and functions that only later ones have ([`later`]).

pub(super) mod block;
pub(super) mod hooks;
pub(super) mod install;
pub(super) mod later;
pub(super) mod raw;
pub(super) mod register;
pub(super) mod versions;
