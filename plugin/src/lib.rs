//! QEMU TCG plugin: samples and counts guest instructions exactly.
//!
//! # What a sample is
//!
//! Every vCPU has a clock that counts the instructions it has started: a faulting one counts again
//! when it is retried, a Thumb instruction skipped by IT counts, a device access that QEMU executes
//! twice counts once. A sample is the instruction at which the clock reaches a multiple of the period.
//! It is attributed to exactly that instruction.
//!
//! # How it stays cheap
//!
//! A translation block can only be left early at an instruction that touches memory, devices or
//! system state ([`decode`] says which). Between two of those the code is a *segment*: it starts as a
//! whole. Generated code adds 1 to the segment's counter and its length to the clock, and once per
//! block compares the clock with the next event ([`translate`]). Only when the event *may* fall into the
//! block does it call back ([`engine::clock`]), and the next block's callback settles whether it did: the
//! clock then says how far the block came, and straight-line code has one instruction per tick.
//!
//! Most blocks of several segments are counted as a whole, at their start. While such a block can be left early, the
//! clock carries a flag, which the comparison of the next block takes for an event, and each segment leaves a note that
//! it has begun: so where the block was left early, what did not start is taken back before anybody looks
//! ([`state::State::settle`]).
//!
//! # Stacks, tasks, calls
//!
//! With a sample comes its call stack ([`engine::stack`]), through the exceptions that are active
//! ([`engine::follow::exception`]) and in the task that runs ([`engine::follow::task`]). All three are looked at where blocks start: code inside a block neither
//! calls nor returns. The exact call tree ([`engine::follow::tree`]) is kept on demand and follows every call and return;
//! with it comes how long each call, handler and masked stretch takes ([`engine::follow::span`]).
//!
//! Nothing needs to be written at exit: counters and streams are shared maps ([`records`]), so that an
//! abort loses nothing and SIGKILL at most the samples of the block it fell into.
//!
//! # Input
//!
//! What is typed on the console is an event on the same clock ([`input`]): the vCPU is held until the emulator's
//! main thread has taken it.
//!
//! # The house
//!
//! The logic is the library [`engine`], which knows nothing of QEMU and is tested without it. Here it gets QEMU's
//! registers and memory, and files for its books. Each of these may use those above it and no other, and no part takes
//! the whole state:
//!
//! | | |
//! |---|---|
//! | [`qemu`] | QEMU as safe calls: all `unsafe` but the maps of [`records`] |
//! | [`records`] | the files of the run's books |
//! | [`output`] [`errors`] [`handles`] [`snapshot`] [`sleep`] [`wait`] [`input`] [`semihosting`] | one instrument each, which needs QEMU or its process |
//! | [`debug`] | a debugger's view: the run held at an instruction, and asked |
//! | [`state`] | the parts put together, and acting on what is due |
//! | [`hooks`] [`translate`] | callbacks and translation: the only ones that lock the state |

mod debug;
mod errors;
mod handles;
mod hooks;
mod input;
mod output;
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
    // The only argument; the harness is the only caller.
    let dir = arguments.iter().find_map(|word| word.strip_prefix("dir=")).unwrap_or(".");
    if let Err(refused) = state::install(dir, vcpus, refuse) {
        refuse(dir, refused);
        qemu::exit(1);
    }
    qemu::on_vcpu_init::<hooks::VcpuInit>(id);
    qemu::on_translate::<translate::Translate>(id);
    hooks::watch(id);
}

qemu::install_by!(install);

/// Tells the harness. The file is there already, so that this needs no room on the disk.
fn refuse(dir: &str, state::Refused(refusal, why): state::Refused) {
    use std::io::Write as _;
    qemu::say(&why);
    let path = std::path::Path::new(dir).join(wire::refusal::FILE_NAME);
    if let (Ok(bytes), Ok(mut file)) = (refusal.bytes(), std::fs::OpenOptions::new().write(true).open(path)) {
        // There is nothing better to do if this fails, too: the harness then shows what was said.
        let _ = file.write_all(&bytes);
    }
}
