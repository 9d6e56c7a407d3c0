//! The plugin's logic, without QEMU: how instructions are counted, and how calls, tasks and exceptions are followed.
//!
//! It sees the emulated processor by [`guest::Vcpu`] and keeps its books by [`ledger::Counters`]; the plugin has both of
//! QEMU, and tests of plain memory. Each of these may use those above it and no other, and no part takes the whole state:
//!
//! | | |
//! |---|---|
//! | [`block`] [`ledger`] | code as it is counted; what each counter counts, written once |
//! | [`guest`] | registers, memory, exceptions; Arm and RISC-V, one file each |
//! | [`code`] | functions, unwind rows, places |
//! | [`clock`] | what is due when; it says so, and acts on nothing |
//! | [`follow`] | what executes: tasks, exceptions, functions, and spans of them |
//! | [`prediction`] [`transfer`] [`recall`] [`stack`] [`heap`] [`marks`] [`timeline`] [`slice`] | one instrument each |
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

pub mod block;
pub mod clock;
pub mod code;
pub mod follow;
pub mod guest;
pub mod heap;
pub mod ledger;
pub mod marks;
pub mod prediction;
pub mod recall;
pub mod slice;
pub mod stack;
pub mod timeline;
pub mod transfer;
