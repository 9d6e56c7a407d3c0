// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the plugin's logic without QEMU: random programs are compared with models that are too simple to be
//! wrong.

mod access;
mod arrivals;
mod branches;
mod calls;
mod counting;
mod cycles;
mod due;
mod events;
mod fake;
mod faults;
mod follow;
mod guest;
mod handlers;
mod heap;
mod lives;
mod marks;
mod passages;
mod polls;
mod predictions;
mod reasons;
mod recent;
mod records;
mod resumed;
mod shadow;
mod spans;
mod stacks;
mod transfers;
mod unreturned;
mod waiting;
mod walks;
mod ways;
mod zones;
