//! The GDB server: one debugger at a run that can be put at any of its instructions, until the debugger has gone.

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

/// What answers GDB's `monitor` commands.
pub trait Monitor {
    /// The answer to a command's words, which may put the run elsewhere. Lines that are to be seen before that are said.
    fn command(&mut self, travel: &mut dyn Travel, words: &str, say: &mut dyn FnMut(&str)) -> String;
}

impl<F: FnMut(&mut dyn Travel, &str, &mut dyn FnMut(&str)) -> String> Monitor for F {
    fn command(&mut self, travel: &mut dyn Travel, words: &str, say: &mut dyn FnMut(&str)) -> String {
        self(travel, words, say)
    }
}

/// A monitor whose commands are not ended by what has ended another one.
struct Afresh<'a>(&'a mut dyn Monitor);

impl Monitor for Afresh<'_> {
    fn command(&mut self, travel: &mut dyn Travel, words: &str, say: &mut dyn FnMut(&str)) -> String {
        INTERRUPTED.store(false, Ordering::Relaxed);
        self.0.command(travel, words, say)
    }
}

/// Serves one debugger where the run is held, and from there wherever it goes, until it has gone or the user wants no
/// more. Others that come meanwhile are told so.
///
/// The process must survive Ctrl-C (`run::plan::end_on_interrupt`): a terminal says it to the GDB that was started from
/// it, too.
///
/// # Errors
/// What the run could not do, and a debugger that speaks another protocol.
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
    // GDB that was started here may have to say something yet.
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
                    // A client that cannot be written to has gone, which the report below finds, too.
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
