//! The walls that the kernel builds around QEMU: which files it can reach, that it can reach no network, how much it
//! may take. They stand behind the plugin's check of semihosting calls, and hold where that fails.
//!
//! What they let through is what QEMU needs to run at all: programs and libraries of the system, its own data, the
//! workspace of the run, and what the user names with `--qemu-arg`. Never a home directory, `/etc` as a whole, or what
//! `/proc` says of other processes.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::error::EmulatorError;
use crate::run::bundle::Bundle;
use crate::run::launcher;
use crate::run::options::Options;
use crate::run::workspace::Workspace;

/// Whether the kernel's walls stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Sandbox {
    /// No walls of the kernel: only the plugin contains the firmware
    Off,
    /// All walls that this kernel has
    #[default]
    Auto,
    /// All walls, or nothing runs
    Required,
}

/// What may be done with a path and what lies below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Reading.
    Read,
    /// Reading and executing.
    Execute,
    /// All but executing.
    Write,
}

/// Something that a process of QEMU's may only have so much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Bytes of a file.
    FileBytes,
    /// Descriptors.
    Files,
    /// Bytes of a core dump.
    CoreBytes,
    /// Bytes of addresses.
    AddressBytes,
}

/// The walls around one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walls {
    /// What it can reach; None: all that the user can.
    pub(super) files: Option<Vec<(Access, PathBuf)>>,
    /// It can open no socket.
    pub(super) no_network: bool,
    pub(super) limits: Vec<(Limit, u64)>,
}

/// Larger than any record of a run that somebody waits for, and small enough for a disk: `--period 1` writes three
/// bytes per instruction at most, and this is seven minutes of it.
const FILE_BYTES: u64 = 64 << 30;

/// QEMU has about 20 open, and firmware opens files in its scratch directory.
const FILES: u64 = 1024;

/// QEMU and the plugin have 1.6 GiB of them (measured: VmPeak on `virt`), of which 1 GiB is for translated code. The
/// records are mapped a window at a time; the exact call tree grows with the firmware's call paths.
const ADDRESS_BYTES: u64 = 16 << 30;

/// The same of a stranger's suite: some twenty million samples.
const BOUNDED_FILE_BYTES: u64 = 64 << 20;

/// The same of a stranger's suite: room for the largest machine that a file may ask for.
const BOUNDED_ADDRESS_BYTES: u64 = 4 << 30;

/// Folders that hold programs, libraries and data, and nothing of a person's.
const SYSTEM: [&str; 10] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/home/linuxbrew/.linuxbrew",
];

/// Those of them from which a loader is executed, where the emulator is no script.
const LIBRARIES: [&str; 10] = [
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libx32",
    "/usr/local/lib",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/gnu/store",
];

/// What the host's loader and the host's QEMU look at as they start.
const CONFIGURED: [&str; 5] =
    ["/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/qemu"];

/// What the C library and QEMU look at as they start.
const READ: [&str; 9] = [
    "/etc/localtime",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/sys/vm",
    "/sys/devices/system",
    "/sys/kernel/mm/transparent_hugepage",
];

/// Folders beside an emulator, or beside the `bin` that it lies in, in which its own files are.
const OWN: [&str; 8] =
    ["lib", "lib64", "libexec", "pc-bios", "qemu-bundle", "share/qemu", "share/qemu-firmware", "../lib/qemu"];

/// Arguments of QEMU's by which it is to use the network, or to be used by it.
const NETWORKED: [&str; 13] = [
    "s", "gdb", "nic", "net", "netdev", "chardev", "serial", "monitor", "qmp", "vnc", "spice", "incoming", "display",
];

impl Walls {
    /// The walls around an emulator that works in `workspace`. What the user typed for QEMU it may use; what a file set
    /// opens nothing. What the firmware may write is held by the plugin: the limit on files lies above it.
    ///
    /// # Errors
    /// When all of them are required and the kernel has not all.
    pub fn around(emulator: &Path, workspace: &Workspace, options: &Options) -> Result<Walls, EmulatorError> {
        let &Options { sandbox, max_output_bytes, is_bounded, qemu_args: ref user, .. } = options;
        if sandbox == Sandbox::Off {
            return Ok(Walls::default());
        }
        let missing = launcher::missing();
        let opens = user.iter().find(|argument| NETWORKED.contains(&argument.trim_start_matches('-')));
        let why = missing.first().map(|missing| (*missing).to_owned());
        let why = why.or_else(|| Some(format!("{} opens the network to QEMU", opens?)));
        if let (Sandbox::Required, Some(why)) = (sandbox, why) {
            return Err(EmulatorError::new(format!("--sandbox required: {why}")));
        }
        let (file_bytes, address_bytes) =
            if is_bounded { (BOUNDED_FILE_BYTES, BOUNDED_ADDRESS_BYTES) } else { (FILE_BYTES, ADDRESS_BYTES) };
        let file_bytes = file_bytes.max(max_output_bytes.saturating_mul(2));
        let mut limits = vec![(Limit::FileBytes, file_bytes), (Limit::Files, FILES), (Limit::CoreBytes, 0)];
        // Machines get as large as the user says.
        if !user.iter().any(|argument| argument == "-m" || argument.contains("memory-backend")) {
            limits.push((Limit::AddressBytes, address_bytes));
        }
        let files = files(emulator, Bundle::of(emulator), workspace, user);
        Ok(Walls { files: Some(files), no_network: opens.is_none(), limits })
    }

    /// Whether the emulator may be let fork, which QEMU's own sandbox refuses it along with starting programs: the walls
    /// alone keep it from programs other than itself, or nothing is to.
    pub(crate) fn allow_copies(emulator: &Path, sandbox: Sandbox) -> bool {
        let is_itself = Bundle::of(emulator).is_some() || !is_script(emulator);
        sandbox == Sandbox::Off || (launcher::missing().is_empty() && is_itself)
    }

    /// What stands in for walls that this kernel has not, as a warning; None: all are there, or none is wanted.
    pub fn warning(sandbox: Sandbox) -> Option<String> {
        let missing = launcher::missing();
        (sandbox == Sandbox::Auto && !missing.is_empty()).then(|| without(&missing.join("; ")))
    }
}

/// The warning that goes with what is missing of the walls.
pub(super) fn without(what: &str) -> String {
    format!("{what}: only the other walls contain the firmware (--sandbox required refuses to run then)")
}

/// Whether a file is a program for an interpreter, or cannot be looked at.
fn is_script(path: &Path) -> bool {
    !std::fs::File::open(path)
        .and_then(|mut file| {
            let mut magic = [0; 4];
            std::io::Read::read_exact(&mut file, &mut magic).map(|()| magic == *b"\x7fELF")
        })
        .unwrap_or(false)
}

/// What an emulator can reach.
fn files(emulator: &Path, bundle: Option<&Bundle>, workspace: &Workspace, user: &[String]) -> Vec<(Access, PathBuf)> {
    let mut files: Vec<(Access, PathBuf)> = Vec::new();
    let mut grant = |access, path: PathBuf| {
        if path.exists() {
            files.push((access, path));
        }
    };
    if let Some(bundle) = bundle {
        grant(Access::Read, bundle.folder().to_owned());
        grant(Access::Execute, bundle.loader());
    }
    let is_script = bundle.is_none() && is_script(emulator);
    if bundle.is_none() {
        SYSTEM.iter().for_each(|path| grant(if is_script { Access::Execute } else { Access::Read }, path.into()));
        LIBRARIES.iter().for_each(|path| grant(Access::Execute, path.into()));
        CONFIGURED.iter().for_each(|path| grant(Access::Read, path.into()));
    }
    READ.iter().for_each(|path| grant(Access::Read, path.into()));
    grant(Access::Write, "/dev/null".into());
    let installed = [Some(emulator.to_owned()), emulator.canonicalize().ok()].into_iter().flatten();
    for path in installed.filter(|_| bundle.is_none()) {
        let beside = path.parent().map(Path::to_owned).unwrap_or_default();
        let above = beside.parent().filter(|_| ["bin", "sbin"].iter().any(|name| beside.ends_with(name)));
        for folder in [Some(&*beside), above].into_iter().flatten() {
            OWN.iter().for_each(|own| grant(Access::Execute, folder.join(own)));
        }
        // A script may call what lies beside it, in a folder of programs; never in what holds a home directory.
        let home = env::var_os("HOME").map(PathBuf::from);
        if is_script && beside.parent().is_some() && !home.is_some_and(|home| home.starts_with(&beside)) {
            grant(Access::Execute, beside);
        }
        grant(Access::Execute, path);
    }
    // Of other processes not even a little: Landlock alone does not keep root from their environments. A script's QEMU
    // sees itself where the script becomes it (`exec`).
    grant(Access::Read, OWN_PROC.into());
    grant(Access::Write, workspace.root().to_owned());
    workspace.loadable().into_iter().for_each(|path| grant(Access::Read, path.to_owned()));
    for path in user.iter().flat_map(|argument| argument.split([',', '='])).filter(|path| path.starts_with('/')) {
        let path = PathBuf::from(path);
        grant(if path.is_file() { Access::Write } else { Access::Read }, path);
    }
    files
}

/// What the kernel says of the process itself.
pub(super) const OWN_PROC: &str = "/proc/self";

/// A word of the launcher's command line for each part of the walls.
impl Walls {
    pub(super) fn words(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        if let Some(files) = &self.files {
            words.push("files".into());
            for (access, path) in files {
                let letter = match access {
                    Access::Read => "r=",
                    Access::Execute => "x=",
                    Access::Write => "w=",
                };
                let mut word = OsString::from(letter);
                word.push(path);
                words.push(word);
            }
        }
        if self.no_network {
            words.push("network".into());
        }
        for (limit, value) in &self.limits {
            let name = match limit {
                Limit::FileBytes => "fsize",
                Limit::Files => "nofile",
                Limit::CoreBytes => "core",
                Limit::AddressBytes => "as",
            };
            words.push(format!("{name}={value}").into());
        }
        words
    }

    /// Reads one of [`Walls::words`]; None: it is none.
    pub(super) fn read(&mut self, word: &OsStr) -> Option<()> {
        let bytes = word.as_bytes();
        let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
        let access = match bytes {
            b"files" => {
                self.files.get_or_insert_default();
                return Some(());
            }
            b"network" => {
                self.no_network = true;
                return Some(());
            }
            [b'r', b'=', ..] => Access::Read,
            [b'x', b'=', ..] => Access::Execute,
            [b'w', b'=', ..] => Access::Write,
            _ => {
                let (name, value) = word.to_str()?.split_once('=')?;
                let limit = match name {
                    "fsize" => Limit::FileBytes,
                    "nofile" => Limit::Files,
                    "core" => Limit::CoreBytes,
                    "as" => Limit::AddressBytes,
                    _ => return None,
                };
                self.limits.push((limit, value.parse().ok()?));
                return Some(());
            }
        };
        self.files.as_mut()?.push((access, path(&bytes[2..])));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_of_a_bundle_reaches_the_bundle_and_nothing_of_the_host() {
        let temp = tempfile::tempdir().unwrap();
        let bundle = Bundle::made(temp.path(), "qemu-system-arm");
        let emulator = bundle.emulator("qemu-system-arm").unwrap();
        let root = temp.path().join("run");
        std::fs::create_dir(&root).unwrap();
        let workspace = Workspace::create(root.clone(), &root).unwrap();
        let of_the_bundle = files(&emulator, Some(&bundle), &workspace, &[]);
        let executed = of_the_bundle.iter().filter(|(access, _)| *access == Access::Execute);
        assert_eq!(executed.map(|(_, path)| path.clone()).collect::<Vec<_>>(), [bundle.loader()]);
        let written = of_the_bundle.iter().filter(|(access, _)| *access == Access::Write);
        assert_eq!(written.map(|(_, path)| path.clone()).collect::<Vec<_>>(), [PathBuf::from("/dev/null"), root]);
        let read = of_the_bundle.iter().filter(|(access, _)| *access == Access::Read);
        let devices = ["/etc/localtime", "/dev", "/proc", "/sys"];
        for (_, path) in read.filter(|(_, path)| path != bundle.folder()) {
            assert!(devices.iter().any(|device| path.starts_with(device)), "{}", path.display());
        }
        let installed = files(&emulator, None, &workspace, &[]);
        assert!(
            installed.contains(&(Access::Read, "/usr".into()))
                || installed.contains(&(Access::Execute, "/usr".into()))
        );
    }

    #[test]
    fn walls_survive_the_command_line() {
        let walls = Walls {
            files: Some(vec![
                (Access::Read, "/a b".into()),
                (Access::Execute, OsString::from_vec(b"/\xff=".to_vec()).into()),
                (Access::Write, "/w".into()),
            ]),
            no_network: true,
            limits: vec![(Limit::FileBytes, 1), (Limit::Files, 2), (Limit::CoreBytes, 0), (Limit::AddressBytes, 3)],
        };
        for walls in [walls, Walls::default(), Walls { files: Some(vec![]), ..Walls::default() }] {
            let mut read = Walls::default();
            for word in walls.words() {
                assert_eq!(read.read(&word), Some(()), "{word:?}");
            }
            assert_eq!(read, walls);
        }
        for word in ["", "r=/x", "as=", "as=x", "what=1", "--"] {
            assert_eq!(Walls::default().read(OsStr::new(word)), None, "{word}");
        }
    }
}
