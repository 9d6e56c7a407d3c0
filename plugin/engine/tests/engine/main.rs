// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the plugin's logic without QEMU: random programs are compared with models that are too simple to be
//! wrong.

mod access;
mod branches;
mod calls;
mod counting;
mod cycles;
mod due;
mod fake;
mod lives;
mod marks;
mod polls;
mod predictions;
mod recent;
mod resumed;
mod shadow;
mod stacks;
mod unreturned;
mod waiting;
mod ways;
mod zones;
