//! The emulator as a process: which one, its command line, its monitor, and the certainty that it
//! ends when we do.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fmt, fs, thread};

use anyhow::{Context, Result};
use nix::errno::Errno;
use serde_json::{Value, json};

use crate::image::InputError;
use crate::machine::{Choice, LoadOption};
use crate::output;

/// The oldest QEMU whose plugin API (4) has what the plugin needs.
pub const OLDEST_VERSION: (u32, u32) = (9, 2);

/// The emulator could not run; exit code 5. The message says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmulatorError(String);

impl EmulatorError {
    /// An error with this complete message.
    pub fn new(message: impl Into<String>) -> Self {
        EmulatorError(message.into())
    }
}

impl fmt::Display for EmulatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EmulatorError {}

/// How to get a QEMU that is new enough, for this host.
pub fn install_hint() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let field = |name: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"').to_owned()).unwrap_or_default()
    };
    let (id, like, version) = (field("ID"), field("ID_LIKE"), field("VERSION_ID"));
    let is = |name: &str| id == name || like.split(' ').any(|word| word == name);
    let packages = "qemu-system-arm qemu-system-riscv";
    if id == "debian" && version == "12" {
        return format!(
            "run ci/setup, or: echo 'deb http://deb.debian.org/debian bookworm-backports main' | sudo tee \
             /etc/apt/sources.list.d/backports.list && sudo apt-get update && sudo apt-get install -t \
             bookworm-backports {packages}"
        );
    }
    let command = if is("debian") || is("ubuntu") {
        format!("sudo apt-get install {packages}")
    } else if is("fedora") || is("rhel") {
        "sudo dnf install qemu-system-arm qemu-system-riscv".to_owned()
    } else if is("arch") {
        format!("sudo pacman -S {packages}")
    } else if cfg!(target_os = "macos") {
        "brew install qemu".to_owned()
    } else {
        "install QEMU's system emulators for arm and riscv".to_owned()
    };
    format!("run ci/setup, or: {command}")
}

/// A version of QEMU, as both the program and the monitor say it: `10.0.2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    major: u32,
    minor: u32,
    micro: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Version { major, minor, micro } = self;
        write!(f, "{major}.{minor}.{micro}")
    }
}

impl Version {
    /// From the first line of `qemu-system-… --version`.
    fn printed(text: &str) -> Option<Version> {
        let version = text.split_once("version ")?.1.split_whitespace().next()?;
        let mut parts = version.split('.').map(str::parse::<u32>);
        let mut part = || parts.next()?.ok();
        Some(Version { major: part()?, minor: part()?, micro: part()? })
    }

    /// From the monitor's greeting.
    fn greeted(message: &Value) -> Option<Version> {
        let version = message.get("QMP")?.get("version")?.get("qemu")?;
        let part = |name: &str| u32::try_from(version.get(name)?.as_u64()?).ok();
        Some(Version { major: part("major")?, minor: part("minor")?, micro: part("micro")? })
    }

    /// What users are told, of an emulator that will do.
    fn new_enough(self, path: &Path) -> Result<String, EmulatorError> {
        if (self.major, self.minor) < OLDEST_VERSION {
            return Err(unfit(format!("{} is QEMU {self}, which is too old", path.display())));
        }
        Ok(self.to_string())
    }
}

/// How long `--version` may take; it takes milliseconds.
const VERSION_PATIENCE: Duration = Duration::from_secs(10);

/// What a program answered to `--version`.
struct Answer {
    said: String,
    ended: String,
}

/// A program that hangs must not hang us.
fn ask_version(path: &Path) -> std::io::Result<Answer> {
    let mut child = Command::new(path)
        .arg("--version")
        .env_clear()
        // Ctrl-C is not its business.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let deadline = Instant::now() + VERSION_PATIENCE;
    loop {
        if child.try_wait()?.is_some() {
            let output = child.wait_with_output()?;
            let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            return Ok(Answer { said: said.join("\n"), ended: output.status.to_string() });
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            let ended = format!("it had not ended after {} seconds", VERSION_PATIENCE.as_secs());
            return Ok(Answer { said: String::new(), ended });
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The error of an emulator that will not do, with the remedy.
fn unfit(what: String) -> EmulatorError {
    let (major, minor) = OLDEST_VERSION;
    EmulatorError(format!("{what}\nQEMU {major}.{minor} or newer is needed: {}", install_hint()))
}

fn cannot_be_run(path: &Path, cause: &std::io::Error) -> EmulatorError {
    let what = format!("{} cannot be run: {cause}", path.display());
    // Another QEMU is no remedy for a command line that is too long, or a host that is out of memory.
    let is_unfit = matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
        || cause.raw_os_error() == Some(Errno::ENOEXEC as i32);
    if is_unfit { unfit(what) } else { EmulatorError(what) }
}

/// Finds an emulator on the PATH.
///
/// # Errors
/// When it is missing; the message says how to get it.
pub fn locate(program: &str) -> Result<PathBuf, EmulatorError> {
    env::var_os("PATH")
        .and_then(|path| env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file()))
        .ok_or_else(|| unfit(format!("{program} is not installed (not found on the PATH)")))
}

/// Asks an emulator for its version, as it prints it: `10.0.2`.
///
/// # Errors
/// When it does not run, or is too old; the message says how to get another.
pub fn version(path: &Path) -> Result<String, EmulatorError> {
    // A suite may ask for each of its images. Two that ask at once need not wait for each other.
    static KNOWN: Mutex<BTreeMap<PathBuf, Result<String, EmulatorError>>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(version) = known().get(path) {
        return version.clone();
    }
    let version = read_version(path);
    known().insert(path.to_owned(), version.clone());
    version
}

fn read_version(path: &Path) -> Result<String, EmulatorError> {
    let answer = ask_version(path).map_err(|cause| cannot_be_run(path, &cause))?;
    let version = Version::printed(&answer.said).ok_or_else(|| {
        let said = answer.said.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        let Answer { ended, .. } = &answer;
        unfit(format!("{} --version does not say a version ({ended}); it said: {said}", path.display()))
    })?;
    version.new_enough(path)
}

/// Where one run keeps its files; QEMU sees them by names that depend on nothing.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: PathBuf,
    profile: PathBuf,
}

impl Workspace {
    /// Lays the directories out below `root`, which must be empty. Messages name `profile`, the
    /// directory that the user asked for.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn create(root: PathBuf, profile: &Path) -> Result<Workspace, InputError> {
        let workspace = Workspace { root, profile: profile.to_owned() };
        for directory in [workspace.scratch(), workspace.records()] {
            fs::create_dir(directory).map_err(|error| workspace.unwritable(&error))?;
        }
        Ok(workspace)
    }

    /// The error of a file in here that cannot be written.
    pub fn unwritable(&self, error: &std::io::Error) -> InputError {
        output::unwritable(&self.profile, error)
    }

    /// QEMU's working directory: all that semihosting may touch.
    pub fn scratch(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// The plugin's records.
    pub fn records(&self) -> PathBuf {
        self.root.join("records")
    }

    /// What the firmware printed.
    pub fn console(&self) -> PathBuf {
        self.root.join("console.log")
    }

    /// The pipe through which the console's input goes.
    pub fn console_input(&self) -> PathBuf {
        self.root.join("console.in")
    }

    /// What QEMU itself said.
    pub fn stderr(&self) -> PathBuf {
        self.root.join("stderr")
    }

    /// The image as QEMU loads it.
    pub fn image(&self) -> PathBuf {
        self.root.join("firmware.elf")
    }

    /// The plugin's library.
    pub fn plugin(&self) -> PathBuf {
        self.root.join("plugin.so")
    }
}

/// QEMU's arguments: all that the guest's behaviour depends on. `firmware` are the guest's own, `user` are
/// further ones of QEMU; without the plugin QEMU runs bare, for comparison. `has_input`:
/// something is typed on the console.
pub fn arguments(
    choice: &Choice,
    shift: u8,
    firmware: &[String],
    user: &[String],
    with_plugin: bool,
    has_input: bool,
) -> Vec<OsString> {
    let machine = match choice.machine.load {
        LoadOption::Bios => vec!["-bios", "../firmware.elf"],
        LoadOption::Kernel => vec!["-kernel", "../firmware.elf"],
    };
    let icount = format!("shift={shift},align=off,sleep=off");
    // The program's name is no file's, on which nothing may depend. QEMU reads a doubled comma as one.
    let mut semihosting = "enable=on,target=native,chardev=console,arg=firmware".to_owned();
    for argument in firmware {
        semihosting += ",arg=";
        semihosting += &argument.replace(',', ",,");
    }
    let mut arguments: Vec<&str> = vec!["-M", &choice.machine.name];
    if let Some(cpu) = &choice.cpu {
        arguments.extend(["-cpu", cpu]);
    }
    arguments.extend(machine);
    arguments.extend([
        "-icount",
        &icount,
        // Else virt's clock starts at the host's date, and its device tree holds a random seed.
        "-rtc",
        "clock=vm,base=2000-01-01T00:00:00",
        "-seed",
        "1",
        "-no-reboot",
        "-display",
        "none",
        "-nic",
        "none",
        "-monitor",
        "none",
        "-sandbox",
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        // One chardev for UART and semihosting: a file, so that no reader's speed is ever felt.
        "-chardev",
        if has_input {
            "file,id=console,path=../console.log,input-path=../console.in,mux=on"
        } else {
            "file,id=console,path=../console.log,mux=on"
        },
        "-serial",
        "chardev:console",
        "-semihosting-config",
        &semihosting,
        "-chardev",
        "stdio,id=monitor,signal=off",
        "-mon",
        "chardev=monitor,mode=control",
    ]);
    if with_plugin {
        arguments.extend(["-plugin", "../plugin.so,dir=../records"]);
    }
    arguments.extend(user.iter().map(String::as_str));
    arguments.into_iter().map(OsString::from).collect()
}

/// A running QEMU. Dropped, it is killed: no path leaves one behind.
#[derive(Debug)]
pub struct Process {
    child: Child,
    monitor: ChildStdin,
    messages: Receiver<Value>,
    /// Events that the monitor reported.
    pub events: Vec<Value>,
    /// The version, once the monitor has greeted us.
    greeted: Option<Version>,
    open: bool,
    /// Commands sent so far, to tell their answers apart.
    commands: u64,
}

impl Process {
    /// Starts QEMU in the workspace's scratch directory, with an empty environment.
    pub fn start(emulator: &Path, arguments: &[OsString], workspace: &Workspace) -> Result<Process> {
        let stderr = File::create(workspace.stderr()).map_err(|error| workspace.unwritable(&error))?;
        let mut child = Command::new(emulator)
            .args(arguments)
            .current_dir(workspace.scratch())
            .env_clear()
            // Ctrl-C is ours to handle: QEMU is asked to stop, so that its records are complete.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(|cause| cannot_be_run(emulator, &cause))?;
        let mut monitor = child.stdin.take().context("QEMU has no standard input")?;
        let stdout = child.stdout.take().context("QEMU has no standard output")?;
        let (sender, messages): (Sender<Value>, Receiver<Value>) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // What is no JSON is no message; the channel closes when QEMU has ended.
                if let Ok(message) = serde_json::from_str(&line)
                    && sender.send(message).is_err()
                {
                    break;
                }
            }
        });
        // A QEMU that has already ended is noticed in `wait`.
        let _ = writeln!(monitor, "{}", json!({"execute": "qmp_capabilities"}));
        Ok(Process { child, monitor, messages, events: Vec::new(), greeted: None, open: true, commands: 0 })
    }

    /// Waits until QEMU has ended or the time is up.
    pub fn wait(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + patience;
        while self.open {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.messages.recv_timeout(left) {
                Ok(message) => self.keep(message),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => return Ok(None),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => self.open = false,
            }
        }
        Ok(Some(self.child.wait()?))
    }

    fn keep(&mut self, message: Value) {
        if message.get("event").is_some() {
            self.events.push(message);
        } else if let Some(version) = Version::greeted(&message) {
            self.greeted = Some(version);
        }
    }

    /// Whether the monitor has greeted us: this is a QEMU that has begun to work.
    pub fn has_greeted(&self) -> bool {
        self.greeted.is_some()
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

    /// Runs a command of the monitor and returns its result; None when it fails, or QEMU does not answer.
    fn execute(&mut self, command: &str, arguments: Value) -> Option<Value> {
        self.commands += 1;
        let id = self.commands;
        let message = json!({"execute": command, "arguments": arguments, "id": id});
        writeln!(self.monitor, "{message}").ok()?;
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            // At once when QEMU has ended: the channel is closed then.
            let mut answer = self.messages.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
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
        let _ = writeln!(self.monitor, "{}", json!({"execute": "quit"}));
        if let Some(status) = self.wait(Duration::from_secs(10))? {
            return Ok(status);
        }
        self.child.kill()?;
        Ok(self.child.wait()?)
    }

    /// Host CPU time that QEMU has used, and whether any of its threads could use more right now.
    /// None where the host does not say (no /proc).
    pub fn cpu_use(&self) -> Option<CpuUse> {
        let mut use_ = CpuUse { ticks: 0, busy: false };
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()? {
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

/// See [`Process::cpu_use`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuUse {
    /// Clock ticks used.
    pub ticks: u64,
    /// Whether a thread is running or ready to.
    pub busy: bool,
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    fn versions_of_all_distributions_are_read() {
        let version = |text: &str| Version::printed(text).map(|version| version.to_string());
        let debian = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)\nCopyright";
        assert_eq!(version(debian).as_deref(), Some("10.0.2"));
        assert_eq!(version("QEMU emulator version 7.2.18").as_deref(), Some("7.2.18"));
        assert_eq!(version("QEMU emulator version 11.0.50 (v11)").as_deref(), Some("11.0.50"));
        assert_eq!(version("QEMU emulator version 9.2.2.1").as_deref(), Some("9.2.2"), "as it greets");
        assert_eq!(version("something else"), None);
    }

    #[test]
    fn the_greeting_says_the_version_as_the_program_does() {
        let greeting = r#"{"QMP": {"version": {"qemu": {"micro": 2, "minor": 0, "major": 10}, "package": "Debian 1:10.0.2"},
                          "capabilities": ["oob"]}}"#;
        let greeted = Version::greeted(&serde_json::from_str(greeting).unwrap());
        assert!(greeted.is_some());
        assert_eq!(greeted, Version::printed("QEMU emulator version 10.0.2 (Debian 1:10.0.2)"));
        assert_eq!(Version::greeted(&json!({"event": "RESUME"})), None);
    }

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
