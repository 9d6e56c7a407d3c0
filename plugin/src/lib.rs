// SPDX-License-Identifier: GPL-2.0-or-later
//! QEMU TCG plugin: samples and counts guest instructions exactly.
//!
//! # What a sample is
//!
//! Every vCPU has a clock that counts the instructions it has started. A faulting instruction counts again when it is
//! retried, a Thumb instruction skipped by IT counts, and a device access that QEMU executes twice counts once. A
//! sample is the instruction at which the clock reaches a multiple of the period. It is attributed to exactly that
//! instruction.
//!
//! # How it stays cheap
//!
//! A translation block can only be left early at an instruction that touches memory, devices or system state
//! ([`decode`] says which). The code between two such instructions is a *segment*: it starts as a whole. Generated
//! code adds 1 to the segment's counter and the segment's length to the clock. Once per block it compares the clock
//! with the next event ([`translate`]), and calls back only if the event *may* fall into the block
//! ([`engine::clock`]). The next block's callback settles whether it did: the clock then has the number of
//! instructions that started in the block.
//!
//! Most blocks of several segments are counted as a whole, at their start. While such a block can be left early, the
//! clock carries a flag, which the comparison of the next block takes for an event, and each segment stores its
//! number as it begins. So if the block was left early, the part that did not start is taken back before the counts
//! are read ([`state::State::settle`]).
//!
//! # Stacks, tasks, calls
//!
//! With a sample comes its call stack ([`engine::stack`]), through the exceptions that are active
//! ([`engine::follow::exception`]) and in the running task ([`engine::follow::task`]). All three are updated where
//! blocks start: code inside a block neither calls nor returns. The exact call tree ([`engine::follow::tree`]) is
//! kept on request and follows every call and return. With it comes the length of each call, handler and masked
//! stretch ([`engine::follow::span`]).
//!
//! Nothing needs to be written at exit: counters and streams are shared maps ([`records`]). So an abort loses
//! nothing, and SIGKILL at most the samples of one block.
//!
//! # Input
//!
//! A byte typed on the console is an event on the same clock ([`input`]): the vCPU is held until the emulator's main
//! thread has taken it.
//!
//! # The house
//!
//! The logic is the library [`engine`], which knows nothing of QEMU and is tested without it. This crate gives it
//! QEMU's registers and memory, and files for its counters. Each row may use only the rows above it, and no part
//! takes the whole state:
//!
//! | | |
//! |---|---|
//! | [`qemu`] | QEMU as safe calls: all `unsafe` but the maps of [`records`] |
//! | [`records`] | the files of the run's counters and events |
//! | [`avr`] [`output`] [`errors`] [`snapshot`] [`sleep`] [`pace`] [`depth`] [`wait`] [`input`] [`semihosting`] | one instrument each, which needs QEMU or its process |
//! | [`debug`] | a debugger's view: the run held at an instruction, and asked |
//! | [`state`] | the parts put together, and their reaction to due events |
//! | [`hooks`] [`translate`] | callbacks and translation: the only ones that lock the state |
#![warn(clippy::too_many_lines)]

mod accesses;
mod avr;
mod debug;
mod depth;
mod errors;
mod hooks;
mod input;
mod output;
mod pace;
mod pins;
mod polled;
mod qemu;
mod records;
mod semihosting;
mod sleep;
mod snapshot;
mod state;
mod translate;
mod unmodelled;
mod wait;

fn install(installation: qemu::Installation) {
    let qemu::Installation { id, vcpus, arguments } = installation;
    qemu::die_with_parent();
    // The only argument, which only harness passes.
    let dir = arguments.iter().find_map(|word| word.strip_prefix("dir=")).unwrap_or(".");
    if let Err(refused) = state::install(dir, vcpus, refuse) {
        refuse(dir, refused);
        qemu::exit(1);
    }
    qemu::descriptor::limit_firmware();
    qemu::on_vcpu_init::<hooks::VcpuInit>(id);
    qemu::on_translate::<translate::Translate>(id);
    hooks::watch(id);
}

qemu::install_by!(install);

/// Reports a refusal to the harness. The file exists already, so that writing it needs no room on the disk.
fn refuse(dir: &str, state::Refused(refusal, why): state::Refused) {
    use std::io::Write as _;
    qemu::say(&why);
    let path = std::path::Path::new(dir).join(wire::refusal::FILE_NAME);
    if let (Ok(bytes), Ok(mut file)) = (refusal.bytes(), std::fs::OpenOptions::new().write(true).open(path)) {
        // If this fails, too, harness shows QEMU's output.
        let _ = file.write_all(&bytes);
    }
}
