// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections of a debugger to the server: a socket in a private folder of the user, or a port of this machine; and
//! GDB itself, which can be started here.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use decode::Isa;

use crate::debug::monitor::STAY;
use crate::debug::packet::{Greeting, error_packet, greeting};
use crate::error::InputError;
use crate::run::store::staging::Making;
use crate::run::watch::interrupt::INTERRUPTS;

/// Longest path of a socket; macOS allows less than Linux.
const MAX_PATH_BYTES: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// Interval between two checks for a new debugger.
const LOOK: Duration = Duration::from_millis(20);

/// Longest wait for the first packet of a client; others can connect meanwhile.
const GREETING: Duration = Duration::from_secs(10);

/// Longest time for a client to read the last message.
pub(in crate::debug) const FAREWELL: Duration = Duration::from_secs(1);

/// Most silent clients; beyond that, the first one is disconnected.
const MOST_SILENT: usize = 32;

/// Message for a second debugger.
const SECOND: &str = "another debugger is connected; one at a time";

/// A debugger's connection.
#[derive(Debug)]
pub enum Client {
    /// Through the socket.
    Unix(UnixStream),
    /// Through the port.
    Tcp(TcpStream),
}

impl Client {
    pub(in crate::debug) fn try_clone(&self) -> io::Result<Client> {
        Ok(match self {
            Client::Unix(stream) => Client::Unix(stream.try_clone()?),
            Client::Tcp(stream) => Client::Tcp(stream.try_clone()?),
        })
    }

    fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        match self {
            Client::Unix(stream) => stream.set_nonblocking(is_nonblocking),
            Client::Tcp(stream) => stream.set_nonblocking(is_nonblocking),
        }
    }

    pub(in crate::debug) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Client::Unix(stream) => stream.set_read_timeout(timeout),
            Client::Tcp(stream) => stream.set_read_timeout(timeout),
        }
    }

    /// Ends the connection, or a direction of it, for all its clones.
    pub(in crate::debug) fn shutdown(&self, how: Shutdown) {
        // An error means that the connection has ended already.
        let _ = match self {
            Client::Unix(stream) => stream.shutdown(how),
            Client::Tcp(stream) => stream.shutdown(how),
        };
    }
}

impl Read for Client {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Client::Unix(stream) => stream.read(bytes),
            Client::Tcp(stream) => stream.read(bytes),
        }
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Client::Unix(stream) => stream.write(bytes),
            Client::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A debugger that has connected, with its first bytes.
#[derive(Debug)]
pub struct Greeted {
    pub(in crate::debug) client: Client,
    pub(in crate::debug) said: Vec<u8>,
}

/// A client that may not be a debugger: other programs connect to a port, too, and wait, or speak HTTP.
#[derive(Debug)]
struct Stranger {
    client: Client,
    said: Vec<u8>,
    since: Instant,
}

/// State of an unidentified client.
enum Met {
    /// The client has not sent enough.
    Silent(Stranger),
    Debugger(Greeted),
    /// The client is not a debugger, or has disconnected.
    Gone,
}

impl Stranger {
    /// Reads the bytes that have arrived.
    fn meet(mut self) -> Met {
        let mut bytes = [0; 4096];
        loop {
            match self.client.read(&mut bytes) {
                Ok(0) => return Met::Gone,
                Ok(count) => self.said.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Met::Gone,
            }
            if greeting(&self.said) != Greeting::Begun {
                break;
            }
        }
        match greeting(&self.said) {
            Greeting::Packet if self.client.set_nonblocking(false).is_ok() => {
                Met::Debugger(Greeted { client: self.client, said: self.said })
            }
            Greeting::Begun if self.since.elapsed() < GREETING => Met::Silent(self),
            _ => Met::Gone,
        }
    }
}

/// Clients that are not identified yet.
#[derive(Debug, Default)]
pub(in crate::debug) struct Strangers(Vec<Stranger>);

impl Strangers {
    fn take(&mut self, client: Client) {
        if client.set_nonblocking(true).is_err() {
            return;
        }
        if self.0.len() >= MOST_SILENT {
            self.0.remove(0);
        }
        self.0.push(Stranger { client, said: Vec::new(), since: Instant::now() });
    }

    /// Reads from the clients; returns the first that turns out to be a debugger.
    fn meet(&mut self) -> Option<Greeted> {
        let mut found = None;
        for stranger in std::mem::take(&mut self.0) {
            if found.is_some() {
                self.0.push(stranger);
                continue;
            }
            match stranger.meet() {
                Met::Silent(stranger) => self.0.push(stranger),
                Met::Debugger(greeted) => found = Some(greeted),
                Met::Gone => {}
            }
        }
        found
    }
}

#[derive(Debug)]
enum Door {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener, u16),
}

/// Socket or port at which debuggers are awaited.
#[derive(Debug)]
pub struct Listener {
    door: Door,
    /// Folder of the socket and of GDB's hooks, removed with this.
    folder: Making,
    /// GDB, if it was started here.
    gdb: Option<Child>,
    strangers: Strangers,
    /// Counter that is above 0 when the user wants the server to end.
    ends: &'static AtomicU32,
}

/// Words by which a GDB with these hooks identifies itself, by `monitor`.
pub(in crate::debug) const FOLLOWS: &str = "client follows";

/// GDB's timeout for an answer, in seconds, long enough for a busy machine.
const REMOTE_TIMEOUT_SECONDS: u32 = 60;

/// GDB's hooks. After each `monitor` command GDB executes the file of [`Follow`]. The hooks also make GDB wait long
/// for answers, and keep it from calling functions of the firmware, which would change the run.
fn hooks(follow: &Follow) -> String {
    format!(
        "define hookpost-monitor\nsource {}\nend\nset remotetimeout {REMOTE_TIMEOUT_SECONDS}\n\
         set may-call-functions off\nmonitor {FOLLOWS}\n",
        follow.0.display()
    )
}

/// File of GDB commands that GDB executes after a `monitor` command; the server writes it before it answers.
///
/// GDB learns position and executing thread only by a stop. So after a command that has moved the run, GDB drops its
/// cached registers and memory, and asks for a step. The server answers with a stop, without moving.
#[derive(Clone, Debug)]
pub(in crate::debug) struct Follow(PathBuf);

impl Follow {
    fn within(folder: &Path) -> Follow {
        Follow(folder.join("follow"))
    }

    /// Writes the file: whether GDB has to follow, because the command has moved the run.
    pub(in crate::debug) fn set(&self, has_moved: bool) -> io::Result<()> {
        let commands = if has_moved {
            format!("maintenance flush register-cache\nmaintenance flush dcache\nmonitor {STAY}\nstepi\n")
        } else {
            String::new()
        };
        fs::write(&self.0, commands)
    }
}

/// Parents of the socket's folder, in the order of preference.
fn parents() -> Vec<PathBuf> {
    let runtime =
        env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute() && path.is_dir());
    runtime.into_iter().chain([env::temp_dir(), PathBuf::from("/tmp")]).collect()
}

/// Prefix of the folder's name.
const FOLDER: &str = "harness-gdb-";

/// Makes a private folder in the first of these parents whose path is short enough for a socket in it. Removes the
/// folders of killed debuggers there.
fn folder(parents: &[PathBuf]) -> Result<Making> {
    let mut error = None;
    for parent in parents {
        match Making::begin(parent, FOLDER, |_| ()) {
            Ok(folder) if socket(&folder).as_os_str().as_bytes().len() <= MAX_PATH_BYTES => return Ok(folder),
            Ok(_) => {}
            Err(failed) => error = Some(format!("{}: {failed}", parent.display())),
        }
    }
    let why = error.unwrap_or_else(|| format!("every path would be longer than {MAX_PATH_BYTES} bytes"));
    Err(InputError::new(format!(
        "no folder for the debugger's socket: {why}\nset XDG_RUNTIME_DIR to a folder of yours, or give --port"
    ))
    .into())
}

fn socket(folder: &Making) -> PathBuf {
    folder.path().join("gdb")
}

impl Listener {
    /// Listens on a socket in a private folder of the user.
    ///
    /// # Errors
    /// [`InputError`] if no folder is possible.
    pub fn private() -> Result<Listener> {
        let folder = folder(&parents())?;
        let path = socket(&folder);
        let listener = UnixListener::bind(&path).map_err(|error| InputError::about(&path, error))?;
        listener.set_nonblocking(true)?;
        Listener::new(Door::Unix(listener, path), folder)
    }

    /// Listens on a local port; 0: any free one.
    ///
    /// # Errors
    /// [`InputError`] if the port is in use.
    pub fn port(port: u16) -> Result<Listener> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
            InputError::new(format!("--port {port}: {error}; give another, or none for a socket"))
        })?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        Listener::new(Door::Tcp(listener, port), folder(&parents())?)
    }

    fn new(door: Door, folder: Making) -> Result<Listener> {
        let follow = Follow::within(folder.path());
        let path = folder.path().join("hooks");
        let written = follow.set(false).and_then(|()| fs::write(&path, hooks(&follow)));
        written.map_err(|error| InputError::about(&path, error))?;
        Ok(Listener { door, folder, gdb: None, strangers: Strangers::default(), ends: &INTERRUPTS })
    }

    /// Makes this counter end the server in place of [`INTERRUPTS`].
    #[must_use]
    pub fn ending_by(mut self, ends: &'static AtomicU32) -> Listener {
        self.ends = ends;
        self
    }

    /// Counter that ends the server. None: GDB was started here and handles Ctrl-C in its terminal, so that only
    /// GDB's end ends the server.
    pub(in crate::debug) fn ends(&self) -> Option<&'static AtomicU32> {
        self.gdb.is_none().then_some(self.ends)
    }

    /// Argument of `target remote`.
    pub fn address(&self) -> String {
        match &self.door {
            Door::Unix(_, path) => path.display().to_string(),
            Door::Tcp(_, port) => format!("localhost:{port}"),
        }
    }

    /// The file of GDB's hooks.
    fn hooks(&self) -> PathBuf {
        self.folder.path().join("hooks")
    }

    /// File that a GDB with the hooks executes after a `monitor` command.
    pub(in crate::debug) fn follow(&self) -> Follow {
        Follow::within(self.folder.path())
    }

    /// Command line that connects GDB, for a shell.
    pub fn line(&self, isa: Isa, firmware: &Path) -> String {
        let gdb = debugger(isa, env::var_os("PATH").as_deref());
        let gdb = gdb.as_deref().and_then(Path::file_name).unwrap_or(OsStr::new(debuggers(isa)[0])).to_string_lossy();
        let hooks = word(&self.hooks());
        format!("{gdb} -ex \"target remote {}\" -x {hooks} {}", self.address(), word(firmware))
    }

    /// Starts GDB at the server, with its standard input from `input`: this terminal. The server ends when GDB does.
    ///
    /// # Errors
    /// [`InputError`] if no GDB is installed.
    pub fn start_gdb(&mut self, isa: Isa, firmware: &Path, input: impl Fn() -> Stdio) -> Result<()> {
        let Some(gdb) = debugger(isa, env::var_os("PATH").as_deref()) else {
            return Err(InputError::new(format!("--gdb: none of {} is installed", debuggers(isa).join(", "))).into());
        };
        let mut command = Command::new(&gdb);
        command
            .arg("-q")
            .arg("-ex")
            .arg(format!("target remote {}", self.address()))
            .arg("-x")
            .arg(self.hooks())
            .arg(firmware);
        command.stdin(input());
        self.gdb = Some(command.spawn().with_context(|| format!("cannot start {}", gdb.display()))?);
        Ok(())
    }

    /// Waits for a debugger. None: the user has ended the server, or the GDB that was started here has ended.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn accept(&mut self) -> Result<Option<Greeted>> {
        loop {
            if let Some(client) = self.come()? {
                self.strangers.take(client);
            }
            if let Some(greeted) = self.strangers.meet() {
                return Ok(Some(greeted));
            }
            if let Some(gdb) = &mut self.gdb
                && gdb.try_wait()?.is_some()
            {
                return Ok(None);
            }
            if self.ends().is_some_and(|ends| ends.load(Ordering::Relaxed) > 0) {
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// A client that has connected, if any.
    fn come(&self) -> io::Result<Option<Client>> {
        let come = match &self.door {
            Door::Unix(listener, _) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(false)?;
                Ok(Client::Unix(stream))
            }),
            Door::Tcp(listener, _) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                Ok(Client::Tcp(stream))
            }),
        };
        match come {
            Ok(client) => Ok(Some(client)),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => Ok(None),
            // The client has disconnected already.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes the unidentified clients that connected before a debugger did.
    pub(in crate::debug) fn take_strangers(&mut self) -> Strangers {
        std::mem::take(&mut self.strangers)
    }

    /// Refuses every further debugger until the session is over.
    pub(in crate::debug) fn refuse_others(&self, mut strangers: Strangers, over: &AtomicBool) {
        let mut refused: Vec<Refused> = Vec::new();
        while !over.load(Ordering::SeqCst) {
            // A failure is retried.
            if let Ok(Some(client)) = self.come() {
                strangers.take(client);
            }
            refused.extend(strangers.meet().and_then(Refused::new));
            refused.retain_mut(|refused| !refused.has_gone());
            std::thread::sleep(LOOK);
        }
    }

    /// Waits for the GDB that was started here to end.
    pub(in crate::debug) fn wait(&mut self) -> Result<()> {
        if let Some(mut gdb) = self.gdb.take() {
            gdb.wait()?;
        }
        Ok(())
    }
}

/// A GDB that outlives the server is useless.
impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(gdb) = &mut self.gdb {
            let _ = gdb.kill();
            let _ = gdb.wait();
        }
    }
}

/// A refused debugger, whose first request was answered by an error text. It stays connected until it has read the
/// text.
struct Refused {
    client: Client,
    since: Instant,
}

impl Refused {
    /// Sends the error text. None: the debugger has disconnected already.
    fn new(Greeted { mut client, .. }: Greeted) -> Option<Refused> {
        client.set_nonblocking(true).ok()?;
        client.write_all(format!("+{}", error_packet(SECOND)).as_bytes()).ok()?;
        client.shutdown(Shutdown::Write);
        Some(Refused { client, since: Instant::now() })
    }

    fn has_gone(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let has_closed = match self.client.read(&mut bytes) {
            Ok(count) => count == 0,
            Err(error) => ![ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()),
        };
        has_closed || self.since.elapsed() > FAREWELL
    }
}

/// Names of GDB for an instruction set, the likeliest first.
fn debuggers(isa: Isa) -> Vec<&'static str> {
    let own: &[&str] = match isa {
        Isa::Riscv32 | Isa::Riscv64 | Isa::Riscv32Zc | Isa::Riscv64Zc => {
            &["riscv64-unknown-elf-gdb", "riscv64-elf-gdb", "riscv32-unknown-elf-gdb"]
        }
        Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => &["arm-none-eabi-gdb"],
        // Debian's gdb-multiarch does not know it.
        Isa::AvrPc16 | Isa::AvrPc22 => return vec!["avr-gdb"],
    };
    [&["gdb-multiarch"], own, &["gdb"]].concat()
}

/// The GDB that is installed.
fn debugger(isa: Isa, path: Option<&OsStr>) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = env::split_paths(path?).collect();
    let is_program = |file: &PathBuf| {
        fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    debuggers(isa).iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(is_program))
}

/// A path as one word of a shell command.
fn word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_socket_is_the_users_alone_and_goes_with_the_server() {
        let listener = Listener::private().unwrap();
        let path = PathBuf::from(listener.address());
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        assert!(path.exists());
        drop(listener);
        assert!(!path.parent().unwrap().exists());
    }

    #[test]
    fn a_folder_whose_path_is_too_long_is_passed_over() {
        let scratch = tempfile::tempdir().unwrap();
        let long = scratch.path().join("x".repeat(100));
        fs::create_dir(&long).unwrap();
        let found = folder(&[long.clone(), scratch.path().to_owned()]).unwrap();
        assert_eq!(found.path().parent().unwrap(), scratch.path());
        let error = folder(std::slice::from_ref(&long)).unwrap_err();
        assert!(error.downcast_ref::<InputError>().is_some());
        assert!(error.to_string().contains("longer than"), "{error}");
        assert_eq!(fs::read_dir(&long).unwrap().count(), 0);
    }

    #[test]
    fn a_port_in_use_is_bad_input() {
        let first = Listener::port(0).unwrap();
        let Door::Tcp(_, port) = first.door else { unreachable!() };
        let error = Listener::port(port).unwrap_err();
        assert!(error.downcast_ref::<InputError>().is_some());
        assert!(error.to_string().starts_with(&format!("--port {port}: ")), "{error}");
    }

    #[test]
    fn the_line_names_an_installed_debugger_and_survives_a_shell() {
        let scratch = tempfile::tempdir().unwrap();
        let path = Some(scratch.path().as_os_str());
        assert_eq!(debugger(Isa::ThumbV7m, path), None);
        for name in ["gdb", "arm-none-eabi-gdb"] {
            let file = scratch.path().join(name);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(scratch.path().join("gdb-multiarch"), "no program").unwrap();
        assert_eq!(debugger(Isa::ThumbV7m, path), Some(scratch.path().join("arm-none-eabi-gdb")));
        assert_eq!(debugger(Isa::Riscv64, path), Some(scratch.path().join("gdb")));
        assert_eq!(debugger(Isa::AvrPc16, path), None);
        assert_eq!(word(Path::new("a/b-1.elf")), "a/b-1.elf");
        assert_eq!(word(Path::new("it's $x.elf")), "'it'\\''s $x.elf'");
    }
}
