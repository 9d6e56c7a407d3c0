// SPDX-License-Identifier: MIT OR Apache-2.0
//! The GDB server: serves one debugger with a run that can be put at any of its instructions, until the debugger
//! disconnects.

mod arch;
mod link;
mod target;

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, anyhow};
use decode::Isa;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{GdbStubBuilder, GdbStubError};

use self::link::Link;
use self::target::{Debuggee, Reason};
use crate::debug::socket::{Follow, Listener};
use crate::debug::thread::Threads;
use crate::debug::travel::Travel;
use crate::run::watch::interrupt::INTERRUPTED;

/// Answers GDB's `monitor` commands.
pub trait Monitor {
    /// Answer to a command, which may move the run. `say` shows lines before the answer.
    fn command(&mut self, travel: &mut dyn Travel, words: &str, say: &mut dyn FnMut(&str)) -> String;
}

impl<F: FnMut(&mut dyn Travel, &str, &mut dyn FnMut(&str)) -> String> Monitor for F {
    fn command(&mut self, travel: &mut dyn Travel, words: &str, say: &mut dyn FnMut(&str)) -> String {
        self(travel, words, say)
    }
}

/// A monitor that forgets an earlier Ctrl-C before each command.
struct Afresh<'a>(&'a mut dyn Monitor);

impl Monitor for Afresh<'_> {
    fn command(&mut self, travel: &mut dyn Travel, words: &str, say: &mut dyn FnMut(&str)) -> String {
        INTERRUPTED.store(false, Ordering::Relaxed);
        self.0.command(travel, words, say)
    }
}

/// Serves one debugger with a run, from its current position on, until it disconnects or the user ends the server.
/// Other debuggers are refused meanwhile.
///
/// Before this call, the process must have arranged that Ctrl-C ends a run and not the process
/// (`run::watch::interrupt::end_on_interrupt`). If GDB was started from this process, the terminal sends Ctrl-C to
/// both.
///
/// # Errors
/// Errors of the run, and a debugger that speaks another protocol.
pub fn serve(
    travel: &mut dyn Travel,
    isa: Isa,
    threads: &mut dyn Threads,
    monitor: &mut dyn Monitor,
    listener: &mut Listener,
) -> Result<()> {
    let Some(greeted) = listener.accept()? else { return Ok(()) };
    let link = Link::new(greeted, travel.interrupter(), listener.ends())?;
    let over = AtomicBool::new(false);
    let (strangers, follow) = (listener.take_strangers(), listener.follow());
    let served = std::thread::scope(|scope| {
        scope.spawn(|| listener.refuse_others(strangers, &over));
        let served = session(link, travel, isa, threads, &mut Afresh(monitor), follow);
        over.store(true, Ordering::SeqCst);
        served
    });
    travel.set_breakpoints(&[]);
    travel.set_watches(&[]);
    // A GDB that was started here may still print.
    listener.wait()?;
    served
}

fn session(
    link: Link,
    travel: &mut dyn Travel,
    isa: Isa,
    threads: &mut dyn Threads,
    monitor: &mut dyn Monitor,
    follow: Follow,
) -> Result<()> {
    let signs = link.signs();
    let mut debuggee = Debuggee::new(travel, isa, threads, monitor, link.signs(), follow)?;
    let stub = GdbStubBuilder::new(link).packet_buffer_size(debuggee.packet_bytes()).build()?;
    let ended = |error: GdbStubError<anyhow::Error, std::io::Error>| {
        if error.is_connection_error() {
            return Ok(());
        }
        let words = if error.is_target_error() { String::new() } else { error.to_string() };
        Err(error
            .into_target_error()
            .unwrap_or_else(|| anyhow!("the debugger's packets cannot be understood: {words}")))
    };
    let mut machine = match stub.run_state_machine(&mut debuggee) {
        Ok(machine) => machine,
        Err(error) => return ended(error),
    };
    loop {
        let next = match machine {
            GdbStubStateMachine::Idle(mut idle) => {
                let Some(byte) = idle.borrow_conn().next() else { return Ok(()) };
                idle.incoming_data(&mut debuggee, byte)
            }
            GdbStubStateMachine::Running(running) => {
                let reason: Reason = debuggee.go()?;
                if signs.is_gone() {
                    return Ok(());
                }
                for text in debuggee.take_said() {
                    // If the client has disconnected, the report below fails, too.
                    let _ = signs.show(&text);
                }
                running.report_stop(&mut debuggee, reason)
            }
            GdbStubStateMachine::CtrlCInterrupt(interrupted) => {
                signs.take();
                interrupted.interrupt_handled(&mut debuggee, None::<Reason>)
            }
            GdbStubStateMachine::Disconnected(mut disconnected) => {
                disconnected.borrow_conn().part();
                return Ok(());
            }
        };
        machine = match next {
            Ok(machine) => machine,
            Err(error) => return ended(error),
        };
    }
}
