// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's walls around QEMU: bounds on the files that it can access, no network, and limits of resources. They
//! are a second line behind the plugin's check of semihosting calls.
//!
//! They allow only the files that QEMU needs: programs and libraries of the system, its own data, the workspace of
//! the run, and files that the user names with `--qemu-arg`. Never a home directory, all of `/etc`, or other
//! processes in `/proc`.

use std::env;
use std::path::{Path, PathBuf};

use crate::error::EmulatorError;
use crate::run::contain::grants::{Access, Limit, OWN_PROC, Walls};
use crate::run::contain::launcher;
use crate::run::qemu::bundle::Bundle;
use crate::run::request::options::{Options, Sandbox};
use crate::run::store::workspace::Workspace;

/// Largest file. Larger than any record of a run of reasonable length, and small enough for a disk: `--period 1`
/// writes at most three bytes per instruction, which takes seven minutes for this size.
const FILE_BYTES: u64 = 64 << 30;

/// Most open files: QEMU has about 20 open, and firmware opens files in its scratch directory.
const FILES: u64 = 1024;

/// Largest address space. QEMU and the plugin use 1.6 GiB (measured: VmPeak on `virt`), of which 1 GiB is for
/// translated code. The records are mapped a window at a time; the exact call tree grows with the firmware's call
/// paths.
const ADDRESS_BYTES: u64 = 16 << 30;

/// Largest file for an untrusted suite: some twenty million samples.
const BOUNDED_FILE_BYTES: u64 = 64 << 20;

/// Largest address space for an untrusted suite: enough for the largest machine that a file may ask for.
const BOUNDED_ADDRESS_BYTES: u64 = 4 << 30;

/// Folders of programs, libraries and data, without personal files.
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

/// Folders among them from which a loader is executed, unless the emulator is a script.
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

/// Configuration that the host's loader and the host's QEMU read as they start.
const CONFIGURED: [&str; 5] =
    ["/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/qemu"];

/// Files that the C library and QEMU read as they start.
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

/// Folders of an emulator's own files, relative to it or to the parent of its `bin`.
const OWN: [&str; 8] =
    ["lib", "lib64", "libexec", "pc-bios", "qemu-bundle", "share/qemu", "share/qemu-firmware", "../lib/qemu"];

/// QEMU's arguments that use the network, or make QEMU reachable by it.
const NETWORKED: [&str; 13] = [
    "s", "gdb", "nic", "net", "netdev", "chardev", "serial", "monitor", "qmp", "vnc", "spice", "incoming", "display",
];

impl Walls {
    /// Walls around an emulator that works in `workspace`. QEMU may use files that the user typed for it; a setting
    /// from a file opens none. The plugin bounds the firmware's output: the limit on files is higher.
    ///
    /// # Errors
    /// When all of them are required and the kernel lacks some.
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
        // The user may ask for a machine of any size.
        if !user.iter().any(|argument| argument == "-m" || argument.contains("memory-backend")) {
            limits.push((Limit::AddressBytes, address_bytes));
        }
        let files = (!launcher::lacks_files()).then(|| files(emulator, Bundle::of(emulator), workspace, user));
        Ok(Walls { files, no_network: opens.is_none(), limits })
    }

    /// Whether the emulator may fork, which QEMU's own sandbox denies together with starting programs: either the
    /// walls alone keep it from executing other programs, or there are to be no walls.
    pub(crate) fn allow_copies(emulator: &Path, sandbox: Sandbox) -> bool {
        let is_itself = Bundle::of(emulator).is_some() || !is_script(emulator);
        sandbox == Sandbox::Off || (launcher::missing().is_empty() && is_itself)
    }

    /// Warning about walls that this kernel lacks; None: all are there, or none is requested.
    pub fn warning(sandbox: Sandbox) -> Option<String> {
        let missing = launcher::missing();
        (sandbox == Sandbox::Auto && !missing.is_empty()).then(|| without(&missing.join("; ")))
    }
}

/// Warning text for missing walls.
pub(in crate::run) fn without(what: &str) -> String {
    format!("{what}: only the other walls contain the firmware (--sandbox required refuses to run then)")
}

/// Whether a file is a script for an interpreter, or cannot be read.
fn is_script(path: &Path) -> bool {
    !std::fs::File::open(path)
        .and_then(|mut file| {
            let mut magic = [0; 4];
            std::io::Read::read_exact(&mut file, &mut magic).map(|()| magic == *b"\x7fELF")
        })
        .unwrap_or(false)
}

/// Files that an emulator can access.
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
        // A script may call programs in its own folder, but never in one that contains a home directory.
        let home = env::var_os("HOME").map(PathBuf::from);
        if is_script && beside.parent().is_some() && !home.is_some_and(|home| home.starts_with(&beside)) {
            grant(Access::Execute, beside);
        }
        grant(Access::Execute, path);
    }
    // No access to other processes at all: Landlock alone does not keep root from their environments. A script's QEMU
    // sees its own entry if the script becomes it (`exec`).
    grant(Access::Read, OWN_PROC.into());
    grant(Access::Write, workspace.root().to_owned());
    workspace.loadable().into_iter().for_each(|path| grant(Access::Read, path.to_owned()));
    for path in user.iter().flat_map(|argument| argument.split([',', '='])).filter(|path| path.starts_with('/')) {
        let path = PathBuf::from(path);
        grant(if path.is_file() { Access::Write } else { Access::Read }, path);
    }
    files
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
}
