//! QEMU's plugin API (versions 4 to 7, QEMU 9.2 to 11.1) as safe calls: all `unsafe` but that of the records' maps.
//!
//! The C functions are declared in [`raw`], and what differs between versions is in [`versions`]. They are the few that
//! are used here, from the facts of QEMU's header; a library of bindings would be made for one version.
//! Reference: <https://www.qemu.org/docs/master/devel/tcg-plugins.html>.

mod abort;
mod accounted;
mod address;
mod api;
mod changes;
mod clock;
mod device;
mod editions;
mod fork;
mod hooks;
mod install;
mod raw;
mod register_file;
mod registers;
mod reserve;
mod socket;
mod streams;
mod thread;
mod turns;
mod vcpu;
mod versions;
mod virtual_time;

pub(crate) use abort::{AbortHook, exit, on_abort};
pub(crate) use accounted::AccountedTime;
pub(crate) use address::physical;
pub(crate) use api::{Block, Cell, Insn, Scoreboard, TranslateCallback, TranslateHook, on_translate};
pub(crate) use changes::{write_memory, write_register};
pub(crate) use clock::Clock;
pub(crate) use device::{complete as complete_chip, take_unmodelled};
pub(crate) use editions::{Edition, Editions};
pub(crate) use fork::{Copier, Side, executes};
pub(crate) use hooks::{
    Access, AccessCallback, AccessHook, ExecCallback, ExitHook, Hook, VcpuCallback, VcpuHook, on_exit, on_vcpu_init,
};
pub(crate) use install::{Installation, install_by, installation};
pub(crate) use raw::Info;
pub(crate) use registers::{FaultBuffer, MAX_READ_BYTES, Registers};
pub(crate) use socket::Socket;
pub(crate) use streams::{give_to_firmware, say};
pub(crate) use thread::{Thread, allow_interrupts, die_with_parent, interrupt_main_thread};
pub(crate) use turns::Turns;
pub(crate) use vcpu::Vcpus;
pub(crate) use versions::wfe_sleeps;
pub(crate) use virtual_time::{answer as answer_clocks, answers as clock_answers};
