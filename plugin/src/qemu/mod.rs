// SPDX-License-Identifier: GPL-2.0-or-later
//! QEMU as safe calls: all `unsafe` but that of the records' maps.
//!
//! [`api`] is QEMU's plugin API (versions 4 to 7, QEMU 9.2 to 11.1): the few functions that are used here, declared
//! after QEMU's header. A library of bindings would fit only one version. [`beyond`] is every other use of QEMU, in
//! one table ([`wire::trick`]); an unknown QEMU is used without it. The other modules concern the process itself.
//! Reference: <https://www.qemu.org/docs/master/devel/tcg-plugins.html>.

mod abort;
mod address;
mod api;
mod beyond;
mod commands;
pub(crate) mod descriptor;
mod files;
mod owned;
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod program;
mod registers;
mod reserve;
mod socket;
mod streams;
mod symbols;
mod thread;

pub(crate) use abort::{AbortHook, exit, on_abort};
pub(crate) use api::block::{Block, Cell, Insn, Scoreboard, TranslateCallback, TranslateHook, on_translate};
pub(crate) use api::hooks::{
    Access, AccessCallback, AccessHook, ExecCallback, ExitHook, Hook, LeaveHook, SplitHook, VcpuCallback, VcpuHook,
    on_exit, on_vcpu_init,
};
pub(crate) use api::install::{Installation, install_by, installation};
pub(crate) use api::later::write_register;
pub(crate) use api::raw::Info;
pub(crate) use api::versions::wfe_sleeps;
pub(crate) use beyond::accounted::AccountedTime;
pub(crate) use beyond::avr::{AvrState, Known as KnownAvr};
pub(crate) use beyond::busy::Clock;
pub(crate) use beyond::choose;
pub(crate) use beyond::clusters::Clusters;
pub(crate) use beyond::device::{
    ChipEvent, begin_step, complete as complete_chip, feed_watchdog, set_access as set_device_access, take_answer,
    take_interrupt, take_unmodelled,
};
pub(crate) use beyond::editions::{Edition, Editions};
pub(crate) use beyond::fork::{Copier, Side, executes};
pub(crate) use beyond::pace::{Found as FoundClock, InsnClock};
pub(crate) use beyond::register_file::RegisterPlace;
pub(crate) use beyond::timers::Timers;
pub(crate) use beyond::turns::Turns;
pub(crate) use beyond::vcpu::Vcpus;
pub(crate) use beyond::virtual_time::{answer as answer_clocks, answers as clock_answers};
pub(crate) use beyond::write::write_memory;
pub(crate) use commands::{refuse as refuse_commands, refused as refused_commands};
pub(crate) use files::{IsServed, judge as judge_files, take_refused as take_refused_file};
pub(crate) use owned::{Guard, Owned};
pub(crate) use registers::{FaultBuffer, Registers, device_byte};
pub(crate) use socket::Socket;
pub(crate) use streams::{give_to_firmware, say};
pub(crate) use thread::{Thread, allow_interrupts, die_with_parent, interrupt_main_thread};

/// The emulated processor, with QEMU's registers and memory.
pub(crate) type Guest = engine::guest::Guest<Registers>;
