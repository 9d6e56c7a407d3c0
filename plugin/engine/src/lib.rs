// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plugin's logic, without QEMU: counts instructions, and follows calls, tasks and exceptions.
//!
//! It reads the emulated processor through [`guest::Vcpu`] and writes through [`ledger::Counters`]. The plugin
//! implements both with QEMU, tests with plain memory. Each row may use only the rows above it, and no part takes the
//! whole state:
//!
//! | | |
//! |---|---|
//! | [`recent`] | cache of answers that never change |
//! | [`time`] | instructions and cycles |
//! | [`block`] [`ledger`] | units of code with counters; definitions of the counters, each written once |
//! | [`pace`] | the machine's clock by cycles, and where control turns |
//! | [`guest`] | registers, memory, exceptions; Arm and RISC-V, one file each |
//! | [`code`] | functions, unwind rows, places |
//! | [`skip`] | skips of AVR |
//! | [`room`] | memory of stacks that no kernel describes |
//! | [`clock`] | events and their times; only reports them |
//! | [`follow`] | execution state: tasks, exceptions, functions, and their spans |
//! | [`branches`] [`prediction`] [`transfer`] [`stack_cache`] [`stack`] [`heap`] [`marks`] [`access`] [`calls`] [`console`] [`cycles`] [`passage`] [`slice`] | one instrument each |
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

pub mod access;
pub mod block;
pub mod branches;
pub mod calls;
pub mod clock;
pub mod code;
pub mod console;
pub mod cycles;
pub mod follow;
pub mod guest;
pub mod heap;
pub mod ledger;
pub mod marks;
pub mod pace;
pub mod passage;
pub mod prediction;
pub mod recent;
pub mod room;
pub mod skip;
pub mod slice;
pub mod stack;
pub mod stack_cache;
pub mod time;
pub mod transfer;
