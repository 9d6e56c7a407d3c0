// SPDX-License-Identifier: MIT OR Apache-2.0
//! The emulator's process: its start, its monitor, and the guarantee that it ends when harness ends.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use command_fds::{CommandFdExt, FdMapping};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::error::EmulatorError;
use crate::run::contain::grants::Walls;
use crate::run::contain::launcher;
use crate::run::qemu::emulator::{Version, cannot_be_run, version};
use crate::run::qemu::monitor::{self, Monitor, left};
use crate::run::store::workspace::Workspace;

/// A running QEMU, killed on drop, so that no path leaves one behind.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// QEMU's exit status, once harness has waited for it.
    status: Option<ExitStatus>,
    monitor: Monitor,
    /// Reason of QEMU's shutdown, in the monitor's own word; None until the monitor reports it.
    pub shutdown_reason: Option<String>,
    /// QEMU's version, once the monitor has sent its greeting.
    greeted: Option<Version>,
    open: bool,
    /// Number of commands sent, which identifies their answers.
    commands: u64,
    /// The last command whose answer is awaited.
    awaited: Option<u64>,
    /// The awaited answer, until it is taken.
    answer: Option<Value>,
}

impl Process {
    /// Starts QEMU in the workspace's scratch directory, behind walls and with an empty environment. `input` is the
    /// firmware's `:tt` for reading. QEMU is killed when the calling thread ends.
    ///
    /// QEMU inherits its standard descriptors, its end of the monitor, and the plugin's end of a debugger's socket,
    /// if there is one.
    pub fn start(
        emulator: &Path,
        walls: &Walls,
        arguments: &[OsString],
        workspace: &Workspace,
        input: Stdio,
        debugger: Option<OwnedFd>,
    ) -> Result<Process> {
        let unwritable = |error: io::Error| workspace.unwritable(&error);
        // QEMU's own messages go to this file. The plugin redirects the firmware's standard streams to the console.
        let messages = File::options().append(true).create(true).open(workspace.stderr()).map_err(unwritable)?;
        let (mut monitor, qemus_end) = Monitor::new()?;
        let mut descriptors = vec![FdMapping { parent_fd: qemus_end, child_fd: monitor::DESCRIPTOR }];
        let debugger = debugger.map(|parent_fd| FdMapping { parent_fd, child_fd: wire::debug::DESCRIPTOR });
        descriptors.extend(debugger);
        let mut command = launcher::command(emulator, walls);
        command
            .args(arguments)
            .current_dir(workspace.scratch())
            .env_clear()
            // harness handles Ctrl-C: it asks QEMU to stop, so that the records are complete.
            .process_group(0)
            .stdin(input)
            .stdout(messages.try_clone()?)
            .stderr(messages)
            .fd_mappings(descriptors)?;
        let child = command.spawn().map_err(|cause| cannot_be_run(emulator, &cause))?;
        // The command holds QEMU's end of the socket, which would stay open after QEMU has ended.
        drop(command);
        // `wait` notices a QEMU that has already ended.
        let _ = monitor.send(&json!({"execute": "qmp_capabilities"}));
        Ok(Process {
            child,
            status: None,
            monitor,
            shutdown_reason: None,
            greeted: None,
            open: true,
            commands: 0,
            awaited: None,
            answer: None,
        })
    }

    /// Waits until QEMU has ended or the time is up.
    pub fn wait(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        self.wait_unless(patience, |_| false)
    }

    /// Waits until QEMU has ended, has answered to [`Process::send`], or the time is up.
    pub fn wait_for_answer(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        self.wait_unless(patience, |process| process.answer.is_some())
    }

    fn wait_unless(&mut self, patience: Duration, is_enough: fn(&Process) -> bool) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + patience;
        loop {
            if is_enough(self) {
                return Ok(None);
            }
            // A closed monitor means that QEMU has ended, or nearly so. If another process still holds it, do not
            // wait for that.
            if self.open {
                match self.monitor.receive(left(deadline)) {
                    Ok(message) => {
                        self.keep(message);
                        continue;
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => self.open = false,
                }
            }
            if self.status.is_some() || self.has_ended()? {
                return self.reap().map(Some);
            }
            if left(deadline).is_zero() {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn keep(&mut self, message: Value) {
        if message.get("event").is_some() {
            // Other events do not matter.
            if message["event"] == "SHUTDOWN" {
                self.shutdown_reason = message["data"]["reason"].as_str().map(str::to_owned);
            }
        } else if let Some(version) = Version::greeted(&message) {
            self.greeted = Some(version);
        } else if self.awaited.is_some() && message.get("id").and_then(Value::as_u64) == self.awaited {
            self.awaited = None;
            self.answer = Some(message);
        }
    }

    /// Whether the monitor has sent its greeting: this is a QEMU that works.
    pub fn has_greeted(&self) -> bool {
        self.greeted.is_some()
    }

    /// Version in the monitor's greeting.
    pub(crate) fn greeted(&self) -> Option<Version> {
        self.greeted
    }

    /// QEMU's version, from the monitor's greeting. A QEMU that ends at once may not send a greeting; then the program
    /// is asked for its version, which takes longer.
    ///
    /// # Errors
    /// When the program is not QEMU, or is too old; the message says how to install another.
    pub fn version(&self, emulator: &Path) -> Result<String, EmulatorError> {
        self.greeted.map_or_else(|| version(emulator), |version| version.new_enough(emulator))
    }

    /// Runs a command of the human monitor and returns its output; None: QEMU does not answer.
    pub fn ask(&mut self, command: &str) -> Option<String> {
        let answer = self.execute("human-monitor-command", json!({"command-line": command}))?;
        answer.as_str().map(str::to_owned)
    }

    /// Sends a command of the monitor without waiting: [`Process::answer`] returns QEMU's answer. Only the last such
    /// command's answer is kept.
    pub fn send(&mut self, command: &str, arguments: &Value) {
        // `wait` notices a QEMU that has already ended.
        self.awaited = self.write(command, arguments).ok();
        self.answer = None;
    }

    /// Takes the answer to the last sent command: its result, or QEMU's error.
    pub fn answer(&mut self) -> Option<Result<Value, String>> {
        let mut answer = self.answer.take()?;
        Some(answer.get_mut("return").map(Value::take).ok_or_else(|| match answer["error"]["desc"].as_str() {
            Some(why) => why.to_owned(),
            None => answer.to_string(),
        }))
    }

    /// Writes a command of the monitor; returns the number of its answer.
    fn write(&mut self, command: &str, arguments: &Value) -> io::Result<u64> {
        self.commands += 1;
        let id = self.commands;
        self.monitor.send(&json!({"execute": command, "arguments": arguments, "id": id}))?;
        Ok(id)
    }

    /// Runs a command of the monitor and returns its result; None: it fails, or QEMU does not answer.
    fn execute(&mut self, command: &str, arguments: Value) -> Option<Value> {
        let id = self.write(command, &arguments).ok()?;
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            // Returns at once if QEMU has ended: the channel is closed then.
            let mut answer = self.monitor.receive(left(deadline)).ok()?;
            if answer.get("id").and_then(Value::as_u64) == Some(id) {
                return answer.get_mut("return").map(Value::take);
            }
            self.keep(answer);
        }
    }

    /// Stops the guest and copies a range of its memory to the file that the plugin would have written. If the copy
    /// fails, there is no file. If the plugin has ended the run meanwhile, nothing is done.
    pub fn snapshot(&mut self, memory: &Range<u64>, workspace: &Workspace) {
        if self.execute("stop", json!({})).is_none() {
            return;
        }
        // Not pmemsave: the copy needs the processor's view of memory, which differs from the board's on mps2-an505;
        // and an unmapped range should give no file of zeros.
        let arguments = json!({
            "val": memory.start,
            "size": memory.end - memory.start,
            "filename": format!("../records/{}", wire::SNAPSHOT_END),
        });
        if self.execute("memsave", arguments).is_none() {
            // An incomplete file is worse than none; it may not exist at all.
            let _ = fs::remove_file(workspace.records().join(wire::SNAPSHOT_END));
        }
    }

    /// Asks QEMU to quit, which completes the records; kills it if it does not.
    pub fn quit(&mut self) -> Result<ExitStatus> {
        let _ = self.monitor.send(&json!({"execute": "quit"}));
        if let Some(status) = self.wait(Duration::from_secs(10))? {
            return Ok(status);
        }
        self.kill();
        self.reap()
    }

    /// Ends a QEMU that does not answer. Its records are complete except for its current block.
    pub fn end(&mut self) -> Result<ExitStatus> {
        self.kill();
        self.reap()
    }

    /// Whether QEMU has ended, without reaping it: until it is reaped, no other process gets the group's number.
    fn has_ended(&self) -> Result<bool> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
        Ok(waitid(Id::Pid(self.pid()), flags)? != WaitStatus::StillAlive)
    }

    /// Waits for the process, and ends the processes that it has left behind.
    fn reap(&mut self) -> Result<ExitStatus> {
        if self.status.is_none() {
            // Until it is reaped, no other process gets the group's number.
            waitid(Id::Pid(self.pid()), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)?;
            self.kill();
            self.status = Some(self.child.wait()?);
        }
        self.status.context("QEMU has not been waited for")
    }

    /// Kills the whole process group: if the emulator is a script, the real emulator is its child.
    fn kill(&self) {
        if self.status.is_none() {
            // The call fails only if all processes of the group have ended already.
            let _ = killpg(self.pid(), Signal::SIGKILL);
        }
    }

    /// QEMU's process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Host CPU time that QEMU has used, and whether any of its threads could run right now. None: the host does not
    /// say (no /proc).
    pub fn cpu_use(&self) -> Option<CpuUse> {
        CpuUse::of(self.child.id())
    }
}

/// See [`Process::cpu_use`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuUse {
    /// Clock ticks used.
    pub ticks: u64,
    /// Whether a thread is running or ready to.
    pub busy: bool,
}

impl CpuUse {
    /// CPU use of a process, by its id.
    pub(crate) fn of(process: u32) -> Option<CpuUse> {
        let mut use_ = CpuUse { ticks: 0, busy: false };
        for task in fs::read_dir(format!("/proc/{process}/task")).ok()? {
            let stat = fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
            // proc(5): the fields after the parenthesised name; state is the first, utime and stime
            // are the 12th and 13th.
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            use_.busy |= !matches!(*fields.first()?, "S" | "I");
            use_.ticks += fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        }
        Some(use_)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        // Nothing can be done if this fails.
        let _ = self.reap();
    }
}

/// The program counter in the output of `info registers`.
pub fn program_counter(registers: &str) -> Option<u64> {
    let after = |name: &str| registers.split_once(name).map(|(_, rest)| rest);
    let digits = after("R15=").or_else(|| after(" pc ")).map(str::trim_start)?;
    u64::from_str_radix(digits.split(|c: char| !c.is_ascii_hexdigit()).next()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_counter_is_found_in_both_dumps() {
        assert_eq!(program_counter("R14=ffffffff R15=00000abc\nXPSR=4100"), Some(0xabc));
        assert_eq!(
            program_counter("\nCPU#0\n V      =   0\n pc       0000000080000abc\n mhartid  0"),
            Some(0x8000_0abc)
        );
        assert_eq!(program_counter("nothing"), None);
    }
}
