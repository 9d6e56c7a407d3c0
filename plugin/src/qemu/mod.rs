//! QEMU's plugin API (version 4, QEMU >= 9.2) as safe calls: all `unsafe` but that of the records' maps.
//!
//! The `qemu-plugin` crate's own wrappers hook every event, lock a global mutex in each callback,
//! leak a closure per translation and allocate per register read, so this goes to its `sys` layer.
//! Reference: <https://www.qemu.org/docs/master/devel/tcg-plugins.html>.

mod abort;
mod address;
mod api;
mod clock;
mod hooks;
mod registers;
mod reserve;
mod streams;
mod thread;
mod vcpu;
mod virtual_time;

pub(crate) use abort::{AbortHook, exit, on_abort};
pub(crate) use address::physical;
pub(crate) use api::{Block, Cell, Insn, Scoreboard, TranslateCallback, TranslateHook, on_translate};
pub(crate) use clock::Clock;
pub(crate) use hooks::{
    AccessCallback, AccessHook, ExecCallback, ExitHook, Hook, VcpuCallback, VcpuHook, on_exit, on_vcpu_init,
};
pub(crate) use registers::{FaultBuffer, MAX_READ_BYTES, Registers};
pub(crate) use streams::{give_to_firmware, say};
pub(crate) use thread::{Thread, allow_interrupts, die_with_parent, interrupt_main_thread};
pub(crate) use vcpu::Vcpus;
pub(crate) use virtual_time::{answer as answer_clocks, answers as clock_answers};
