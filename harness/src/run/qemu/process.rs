//! The emulator as a process: which one, its command line, its monitor, and the certainty that it
//! ends when we do.

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
use crate::run::contain::launcher;
use crate::run::contain::walls::Walls;
use crate::run::qemu::emulator::{Version, cannot_be_run, version};
use crate::run::qemu::monitor::{self, Monitor, left};
use crate::run::store::workspace::Workspace;

/// A running QEMU. Dropped, it is killed: no path leaves one behind.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// How it ended, once it has been waited for.
    status: Option<ExitStatus>,
    monitor: Monitor,
    /// Why QEMU shut down, in the monitor's word, once it has said so.
    pub shutdown_reason: Option<String>,
    /// The version, once the monitor has greeted us.
    greeted: Option<Version>,
    open: bool,
    /// Commands sent so far, to tell their answers apart.
    commands: u64,
    /// The last command whose answer is looked out for.
    awaited: Option<u64>,
    /// Its answer, until it is taken.
    answer: Option<Value>,
}

impl Process {
    /// Starts QEMU in the workspace's scratch directory, behind walls and with an empty environment. `input` is what the
    /// firmware reads from `:tt`. It is killed when the calling thread ends.
    ///
    /// Of our descriptors QEMU has its standard ones, its end of the monitor, and the plugin's of a debugger's socket, if
    /// there is one.
    pub fn start(
        emulator: &Path,
        walls: &Walls,
        arguments: &[OsString],
        workspace: &Workspace,
        input: Stdio,
        debugger: Option<OwnedFd>,
    ) -> Result<Process> {
        let unwritable = |error: io::Error| workspace.unwritable(&error);
        // What QEMU says by itself. The plugin gives the firmware the console in its place.
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
            // Ctrl-C is ours to handle: QEMU is asked to stop, so that its records are complete.
            .process_group(0)
            .stdin(input)
            .stdout(messages.try_clone()?)
            .stderr(messages)
            .fd_mappings(descriptors)?;
        let child = command.spawn().map_err(|cause| cannot_be_run(emulator, &cause))?;
        // It holds QEMU's end, which is open for as long as it has not ended.
        drop(command);
        // A QEMU that has already ended is noticed in `wait`.
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

    /// Waits until QEMU has ended, has answered to what was sent by [`Process::send`], or the time is up.
    pub fn wait_for_answer(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        self.wait_unless(patience, |process| process.answer.is_some())
    }

    fn wait_unless(&mut self, patience: Duration, is_enough: fn(&Process) -> bool) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + patience;
        loop {
            if is_enough(self) {
                return Ok(None);
            }
            // The monitor's end is QEMU's, or nearly; where it is not, whatever holds it is no reason to wait.
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
            // The other events are no news.
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

    /// Whether the monitor has greeted us: this is a QEMU that has begun to work.
    pub fn has_greeted(&self) -> bool {
        self.greeted.is_some()
    }

    /// The version that the monitor has greeted us with.
    pub(crate) fn greeted(&self) -> Option<Version> {
        self.greeted
    }

    /// The version, as the monitor's greeting has it. A QEMU that ends at once may not come to greet; then the
    /// program is asked, which takes longer.
    ///
    /// # Errors
    /// When it is no QEMU, or too old; the message says how to get another.
    pub fn version(&self, emulator: &Path) -> Result<String, EmulatorError> {
        self.greeted.map_or_else(|| version(emulator), |version| version.new_enough(emulator))
    }

    /// Runs a command of the human monitor and returns what it prints; None when QEMU does not answer.
    pub fn ask(&mut self, command: &str) -> Option<String> {
        let answer = self.execute("human-monitor-command", json!({"command-line": command}))?;
        answer.as_str().map(str::to_owned)
    }

    /// Sends a command of the monitor and does not wait: [`Process::answer`] has what QEMU answers. Only the last
    /// command sent so is looked out for.
    pub fn send(&mut self, command: &str, arguments: &Value) {
        // A QEMU that has already ended is noticed in `wait`.
        self.awaited = self.write(command, arguments).ok();
        self.answer = None;
    }

    /// The answer to what was sent last, once: the result, or what QEMU says against it.
    pub fn answer(&mut self) -> Option<Result<Value, String>> {
        let mut answer = self.answer.take()?;
        Some(answer.get_mut("return").map(Value::take).ok_or_else(|| match answer["error"]["desc"].as_str() {
            Some(why) => why.to_owned(),
            None => answer.to_string(),
        }))
    }

    /// Writes a command of the monitor; its number is that of its answer.
    fn write(&mut self, command: &str, arguments: &Value) -> io::Result<u64> {
        self.commands += 1;
        let id = self.commands;
        self.monitor.send(&json!({"execute": command, "arguments": arguments, "id": id}))?;
        Ok(id)
    }

    /// Runs a command of the monitor and returns its result; None when it fails, or QEMU does not answer.
    fn execute(&mut self, command: &str, arguments: Value) -> Option<Value> {
        let id = self.write(command, &arguments).ok()?;
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            // At once when QEMU has ended: the channel is closed then.
            let mut answer = self.monitor.receive(left(deadline)).ok()?;
            if answer.get("id").and_then(Value::as_u64) == Some(id) {
                return answer.get_mut("return").map(Value::take);
            }
            self.keep(answer);
        }
    }

    /// Stops the guest and copies a range of its memory to where the plugin would, had it ended the run.
    /// Leaves no file where that fails, and does nothing where the plugin has ended it meanwhile.
    pub fn snapshot(&mut self, memory: &Range<u64>, workspace: &Workspace) {
        if self.execute("stop", json!({})).is_none() {
            return;
        }
        // Not pmemsave: the processor's own view of its memory is wanted, which on mps2-an505 differs from
        // the board's, and where it reads nothing there should be no file of zeros.
        let arguments = json!({
            "val": memory.start,
            "size": memory.end - memory.start,
            "filename": format!("../records/{}", wire::SNAPSHOT_END),
        });
        if self.execute("memsave", arguments).is_none() {
            // Half of it is worse than nothing; there may be no file at all.
            let _ = fs::remove_file(workspace.records().join(wire::SNAPSHOT_END));
        }
    }

    /// Asks QEMU to quit, which completes the records, and kills it if it does not.
    pub fn quit(&mut self) -> Result<ExitStatus> {
        let _ = self.monitor.send(&json!({"execute": "quit"}));
        if let Some(status) = self.wait(Duration::from_secs(10))? {
            return Ok(status);
        }
        self.kill();
        self.reap()
    }

    /// Ends a QEMU that does not answer. Its records are complete but for the block that it was in.
    pub fn end(&mut self) -> Result<ExitStatus> {
        self.kill();
        self.reap()
    }

    /// Whether it has ended. It is not reaped: until then the group's number is no other's.
    fn has_ended(&self) -> Result<bool> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
        Ok(waitid(Id::Pid(self.pid()), flags)? != WaitStatus::StillAlive)
    }

    /// Waits for the process, and ends what it started and left behind.
    fn reap(&mut self) -> Result<ExitStatus> {
        if self.status.is_none() {
            // Until it is reaped, the group's number is no other's.
            waitid(Id::Pid(self.pid()), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)?;
            self.kill();
            self.status = Some(self.child.wait()?);
        }
        self.status.context("QEMU has not been waited for")
    }

    /// Kills the whole group: where a script passes for the emulator, the emulator is its child.
    fn kill(&self) {
        if self.status.is_none() {
            // It fails only when all of them have ended already.
            let _ = killpg(self.pid(), Signal::SIGKILL);
        }
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Host CPU time that QEMU has used, and whether any of its threads could use more right now.
    /// None where the host does not say (no /proc).
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
    /// Of a process, by its number.
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
        // Nothing is left to be done where that fails.
        let _ = self.reap();
    }
}

/// The program counter in what `info registers` prints.
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
