// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of a run: from the plugin's report first, then from harness's, then from QEMU's.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::sys::signal::Signal;
use wire::control::{self, Word};

use crate::error::EmulatorError;
use crate::profile::no_progress::{Only, is_long};
use crate::profile::{End, LeftStack};
use crate::run::qemu::process;
use crate::run::records::fault::describe_fault;
use crate::run::records::read::Records;
use crate::run::request::plan::Plan;
use crate::run::store::directory;

/// Error for a QEMU that ended, by itself or for `cause`, before the firmware ran.
pub(in crate::run) fn never_ran(status: ExitStatus, cause: Option<&End>, said: &str) -> EmulatorError {
    let what = match cause {
        Some(End::Timeout) => "QEMU had not started to run the firmware when --timeout ended it".to_owned(),
        Some(_) => "QEMU had not started to run the firmware when it was interrupted".to_owned(),
        None => format!("QEMU ended before it ran the firmware ({status})"),
    };
    EmulatorError::new(match said.trim_end() {
        "" => format!("{what}; it said nothing"),
        said => format!("{what}; it said:\n{said}"),
    })
}

/// Determines the end of a run: from the plugin's report first, then from harness's, then from QEMU's.
///
/// # Errors
/// When the plugin reports that it could not write its records.
pub(in crate::run) fn end(
    records: &Records,
    cause: Option<End>,
    shutdown_reason: Option<&str>,
    status: ExitStatus,
    said: &str,
    plan: &Plan<'_>,
) -> io::Result<End> {
    let control = &records.control;
    let (value, pc) = (control.get(Word::EndValue), control.get(Word::EndPc));
    if let Some(end) = control.end {
        return Ok(match end {
            control::End::For => End::For,
            control::End::Until => End::Until,
            control::End::MaxInsns => End::MaxInsns,
            control::End::Exit => End::Exit { status: value as u32, pc },
            control::End::Reset => End::Reset { pc: Some(pc), is_expected: false },
            control::End::Denied => End::Denied { pc },
            control::End::UnknownCall => End::UnknownCall { operation: value as u32, pc },
            control::End::Output => End::Output { pc, limit_bytes: plan.options.max_output_bytes },
            control::End::Faulting => End::Faulting { pc },
            control::End::StackOverflow => {
                End::StackOverflow { pc: Some(pc), stack: LeftStack::Memory { start: value } }
            }
            control::End::WriteFailed => {
                let error = io::Error::from_raw_os_error(value as i32);
                let is_kept = directory::is_full(&error) && records.vcpus.iter().any(|vcpu| vcpu.clock_insns > 0);
                if is_kept { End::DiskFull } else { return Err(error) }
            }
        });
    }
    if let Some(cause) = cause {
        return Ok(cause);
    }
    if said.contains("Lockup") {
        let pc = process::program_counter(said).unwrap_or(0);
        return Ok(End::LockUp { pc, fault: lock_up(records, said) });
    }
    if shutdown_reason == Some("guest-reset") {
        return Ok(End::Reset { pc: None, is_expected: false });
    }
    let message = match status.signal() {
        Some(signal) => {
            let alone = plan
                .command_alone()
                .map(|command| format!("; the same without harness, in the image's folder: {command}"));
            format!("it was killed by {}{}", describe_signal(signal), alone.unwrap_or_default())
        }
        None => format!("it ended by itself ({status})"),
    };
    let said = said.trim();
    Ok(End::EmulatorFailed { message: if said.is_empty() { message } else { format!("{message}; it said: {said}") } })
}

/// Name and number of a signal, and what the kernel sends it for if that is not QEMU's own doing.
fn describe_signal(signal: i32) -> String {
    let name = Signal::try_from(signal).map_or_else(|_| "a signal".to_owned(), |signal| signal.as_str().to_owned());
    let why = if signal == Signal::SIGKILL as i32 { ", as by the kernel when memory runs out" } else { "" };
    format!("{name} (signal {signal}{why})")
}

/// The end of a run, judged by its progress: a complete window without any is a failure.
pub(in crate::run) fn judged(end: End, only: &Only, records: &Records) -> End {
    let window_insns = records.vcpus.iter().map(|vcpu| vcpu.clock_insns).sum();
    match &only.handler {
        Some(handler) if end == End::For && !handler.yields && is_long(handler.since_insns, window_insns) => {
            End::Faulting { pc: records.control.get(Word::EndPc) }
        }
        _ => end,
    }
}

/// Reason why no instruction completes, as far as QEMU's list of registers shows it.
pub(in crate::run) fn describe_stuck(registers: &str) -> String {
    let value = |name: &str| {
        let digits = registers.split_once(&format!(" {name} "))?.1.split_whitespace().next()?;
        u64::from_str_radix(digits, 16).ok()
    };
    let taken = "each attempt to execute one is the next exception";
    match (value("mtvec"), value("mcause")) {
        (Some(vector), Some(cause)) => format!("{taken} (mtvec {vector:#x}, mcause {cause:#x})"),
        _ => taken.to_owned(),
    }
}

/// Cause of a lock-up: from the fault registers that the plugin read as QEMU aborted, and from QEMU's message.
fn lock_up(records: &Records, said: &str) -> String {
    let word = |word| records.control.get(word);
    let fault = (word(Word::Fault) == 1)
        .then(|| {
            describe_fault(
                word(Word::FaultCfsr),
                word(Word::FaultHfsr),
                word(Word::FaultMmfar),
                word(Word::FaultBfar),
            )
        })
        .flatten();
    // QEMU's line: "qemu: fatal: Lockup: can't escalate 3 to HardFault (current priority -1)"
    let line = said.lines().find_map(|line| Some(line.split_once("Lockup: ")?.1)).unwrap_or("").trim();
    let exception = line.split_once("escalate ").and_then(|(_, rest)| match rest.split(' ').next()? {
        "2" => Some("NMI"),
        "3" => Some("HardFault"),
        "4" => Some("MemManage"),
        "5" => Some("BusFault"),
        "6" => Some("UsageFault"),
        "11" => Some("SVCall"),
        _ => None,
    });
    let context = match exception {
        Some(exception) => format!("a {exception} while faults were already being handled"),
        None => line.to_owned(),
    };
    match fault {
        Some(fault) => format!("{fault} ({context})"),
        None => context,
    }
}

#[cfg(test)]
mod tests {
    use super::{describe_signal, describe_stuck};

    #[test]
    fn a_signal_is_said_by_name_and_number() {
        assert_eq!(describe_signal(11), "SIGSEGV (signal 11)");
        assert_eq!(describe_signal(9), "SIGKILL (signal 9, as by the kernel when memory runs out)");
        assert_eq!(describe_signal(40), "a signal (signal 40)");
    }

    #[test]
    fn traps_that_lead_nowhere_are_said_with_where_that_is() {
        let registers = " pc       0000000000000000\n mtvec    000000001c000000\n mcause   0000000000000001\n";
        let taken = "each attempt to execute one is the next exception";
        assert_eq!(describe_stuck(registers), format!("{taken} (mtvec 0x1c000000, mcause 0x1)"));
        assert_eq!(describe_stuck("R15=00000000"), taken);
    }
}
