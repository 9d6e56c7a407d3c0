// SPDX-License-Identifier: MIT OR Apache-2.0
//! The launcher: a second process of harness, which builds the walls around itself and then becomes QEMU. Properties
//! that survive an exec (the signal at the parent's death, Landlock, a system call filter, limits) must be set by the
//! process itself, before QEMU's first instruction; between fork and exec that would need unsafe code.
//!
//! Its command line: [`WORD`], the parent's process id, the words of the [`Walls`], `--`, QEMU's command line.
//! Standard streams, working directory and other inherited descriptors pass through untouched.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

use crate::run::contain::grants::Walls;
use crate::run::contain::host::heed_large_files;
use crate::run::qemu::bundle::Bundle;

/// First argument of a launcher; no command has this name, and no usual file.
const WORD: &str = "--launch-emulator";

/// Prefix of a launcher's error message.
const FAILED: &str = "harness cannot launch it: ";

/// Exit status of a launcher that failed, as that of shells for a program that cannot be executed.
const FAILURE: u8 = 126;

/// Set once this program has shown that it can act as a launcher.
static SERVES: OnceLock<()> = OnceLock::new();

/// Acts as a launcher if this process was started as one; must be the first action of a program that starts emulators.
/// Returns None if this process is not a launcher, and a status if the emulator cannot be executed.
pub fn serve() -> Option<ExitCode> {
    let mut words = env::args_os().skip(1);
    if words.next().is_none_or(|word| word != WORD) {
        let _ = SERVES.set(());
        return None;
    }
    let failure = launch(words);
    eprintln!("{FAILED}{failure}");
    Some(ExitCode::from(FAILURE))
}

fn launch(mut words: impl Iterator<Item = OsString>) -> io::Error {
    let malformed = || io::Error::from(io::ErrorKind::InvalidInput);
    let parent = words.next().and_then(|word| word.to_str()?.parse::<u32>().ok());
    let Some(parent) = parent else { return malformed() };
    let mut walls = Walls::default();
    for word in words.by_ref().take_while(|word| word != "--") {
        if walls.read(&word).is_none() {
            return malformed();
        }
    }
    let Some(program) = words.next() else { return malformed() };
    if let Err(error) = host::die_with(parent).and_then(|()| host::build(&walls)) {
        return error;
    }
    heed_large_files();
    Command::new(program).args(words).exec()
}

/// Error of a launcher that could not execute its program, from its message.
pub(in crate::run) fn failure(said: &str) -> Option<io::Error> {
    let error = said.lines().find_map(|line| line.strip_prefix(FAILED))?;
    let code = error.rsplit_once("(os error ")?.1.strip_suffix(')')?;
    Some(io::Error::from_raw_os_error(code.parse().ok()?))
}

/// Command that becomes `program` behind walls and ends with this thread. If this program cannot be a launcher
/// ([`serve`]), the command has no walls. A bundle's programs are executed by the bundle's loader.
pub fn command(program: &Path, walls: &Walls) -> Command {
    let bundle = Bundle::of(program);
    let executed = bundle.map_or_else(|| program.to_owned(), Bundle::loader);
    let first = bundle.map_or_else(Vec::new, |bundle| bundle.arguments(program));
    if SERVES.get().is_none() {
        let mut command = Command::new(executed);
        command.args(first);
        return command;
    }
    let mut command = Command::new(host::OWN_PROGRAM);
    // Lists of processes show this name until the exec.
    command.arg0("harness").arg(WORD).arg(std::process::id().to_string());
    command.args(walls.words()).arg("--").arg(executed).args(first);
    command
}

/// Command that starts this program again, as it is running.
///
/// # Errors
/// When this program cannot be a launcher ([`serve`]), or its file cannot be found.
pub(crate) fn again() -> io::Result<Command> {
    if SERVES.get().is_none() {
        return Err(io::Error::other("harness::run::contain::launcher::serve was not called"));
    }
    let mut command = Command::new(host::OWN_PROGRAM);
    command.arg0("harness");
    Ok(command)
}

/// Makes the kernel kill this process when its parent's thread that started it ends.
///
/// # Errors
/// When that thread has ended already.
pub(crate) fn end_with(parent: u32) -> io::Result<()> {
    host::die_with(parent)
}

/// Whether the kernel refuses the wall around files, so that it must be left out; [`missing`] says that it is.
pub(in crate::run) fn lacks_files() -> bool {
    missing().contains(&host::NO_FILES)
}

/// Walls that cannot be built here, a phrase each, whether requested or not.
pub(in crate::run) fn missing() -> &'static [&'static str] {
    static MISSING: OnceLock<Vec<&str>> = OnceLock::new();
    MISSING.get_or_init(|| match SERVES.get() {
        Some(()) => host::missing(),
        None => {
            vec!["this program starts QEMU without walls (harness::run::contain::launcher::serve was not called)"]
        }
    })
}

#[cfg(target_os = "linux")]
mod host {
    use std::collections::BTreeMap;
    use std::os::fd::IntoRawFd;
    use std::{io, thread};

    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
        RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
    };
    use nix::fcntl::{OFlag, open};
    use nix::libc;
    use nix::sys::prctl::set_pdeathsig;
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    use nix::sys::signal::Signal;
    use nix::sys::stat::Mode;
    use nix::unistd::getppid;
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

    use crate::run::contain::grants::{Access, Limit, OWN_PROC, Walls};

    /// The program's file may have been moved or replaced since its start.
    pub(in crate::run) const OWN_PROGRAM: &str = "/proc/self/exe";

    /// Phrase about a kernel that keeps QEMU from no files.
    pub(in crate::run) const NO_FILES: &str = "this kernel has no Landlock, which would keep QEMU from files";

    /// Newest Landlock version whose rights are requested; an older kernel uses the rights that it knows.
    const NEWEST: ABI = ABI::V6;

    /// Makes the kernel kill this process when the thread that started it ends, which may have happened already.
    pub(in crate::run) fn die_with(parent: u32) -> io::Result<()> {
        set_pdeathsig(Signal::SIGKILL)?;
        if getppid().as_raw() as u32 == parent { Ok(()) } else { Err(io::Error::other("its parent has ended")) }
    }

    /// Builds the walls around the calling thread, which is the only one.
    pub(in crate::run) fn build(walls: &Walls) -> io::Result<()> {
        for &(limit, most) in &walls.limits {
            let resource = match limit {
                Limit::FileBytes => Resource::RLIMIT_FSIZE,
                Limit::Files => Resource::RLIMIT_NOFILE,
                Limit::CoreBytes => Resource::RLIMIT_CORE,
                Limit::AddressBytes => Resource::RLIMIT_AS,
            };
            let (soft, hard) = getrlimit(resource)?;
            setrlimit(resource, soft.min(most), hard.min(most))?;
        }
        if let Some(files) = &walls.files {
            // Rules apply to inodes, and an inode of /proc only lives while it is in use: this descriptor keeps it,
            // and QEMU inherits it.
            if let Ok(own) = open(OWN_PROC, OFlag::O_PATH, Mode::empty()) {
                let _ = own.into_raw_fd();
            }
            let mut ruleset = ruleset(walls.no_network).map_err(io::Error::other)?;
            for (access, path) in files {
                ruleset = ruleset.add_rules(path_beneath_rules([path], rights(*access))).map_err(io::Error::other)?;
            }
            ruleset.restrict_self().map_err(io::Error::other)?;
        }
        // An architecture without a filter has been reported already.
        let filter = if walls.no_network { filter().ok() } else { None };
        match filter.map(|filter| apply_filter(&filter)) {
            Some(Err(error)) if !is_unfiltered(&error) => Err(io::Error::other(error)),
            _ => Ok(()),
        }
    }

    fn rights(access: Access) -> BitFlags<AccessFs> {
        match access {
            Access::Read => AccessFs::ReadFile | AccessFs::ReadDir,
            Access::Execute => AccessFs::from_read(NEWEST),
            Access::Write => AccessFs::from_all(NEWEST) & !AccessFs::Execute,
        }
    }

    /// Rules that deny all files, signals to other processes, and TCP if the network is closed.
    fn ruleset(no_network: bool) -> Result<RulesetCreated, landlock::RulesetError> {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
        let mut ruleset = ruleset.handle_access(AccessFs::from_all(NEWEST))?.scope(Scope::Signal)?;
        if no_network {
            ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?.scope(Scope::AbstractUnixSocket)?;
        }
        ruleset.create()
    }

    /// Whether the error says that there are no filters here at all: the kernel does not know the call, or this use of
    /// the call, or a container around harness refuses it. [`missing`] has reported that before.
    fn is_unfiltered(error: &seccompiler::Error) -> bool {
        let code = match error {
            seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error.raw_os_error(),
            _ => None,
        };
        matches!(code, Some(libc::ENOSYS | libc::EINVAL | libc::EPERM | libc::EACCES))
    }

    /// Filter that refuses all sockets except socket pairs, and io_uring, through which a process could also make
    /// sockets.
    fn filter() -> io::Result<BpfProgram> {
        let calls = [libc::SYS_socket, libc::SYS_io_uring_setup];
        #[cfg(target_arch = "x86_64")]
        // The same calls by their numbers in the x32 ABI.
        let calls = [calls[0], calls[1], calls[0] | X32, calls[1] | X32];
        let rules: BTreeMap<i64, Vec<_>> = calls.into_iter().map(|call| (call, Vec::new())).collect();
        let arch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
        let refuse = SeccompAction::Errno(libc::EACCES as u32);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).map_err(io::Error::other)?;
        filter.try_into().map_err(io::Error::other)
    }

    /// Value of `__X32_SYSCALL_BIT`.
    #[cfg(target_arch = "x86_64")]
    const X32: i64 = 0x4000_0000;

    /// Tries the walls on a thread that ends at once: they apply only to a thread and its children.
    pub(in crate::run) fn missing() -> Vec<&'static str> {
        let tried = thread::spawn(|| {
            let landlock = ruleset(true).and_then(RulesetCreated::restrict_self).ok();
            let has_files = landlock.is_some_and(|it| it.ruleset != RulesetStatus::NotEnforced);
            // Landlock alone leaves UDP, and before Linux 6.7 TCP.
            let filters = filter().is_ok_and(|filter| apply_filter(&filter).is_ok());
            [
                (has_files, NO_FILES),
                (filters, "this kernel filters no system calls, which would keep QEMU from the network"),
            ]
        });
        let tried = tried.join().into_iter().flatten();
        tried.filter(|(is_there, _)| !is_there).map(|(_, what)| what).collect()
    }
}

#[cfg(not(target_os = "linux"))]
mod host {
    use std::io;

    use crate::run::contain::grants::Walls;

    pub(in crate::run) const OWN_PROGRAM: &str = "/proc/self/exe";

    pub(in crate::run) const NO_FILES: &str =
        "this system is not Linux, whose kernel would keep QEMU from files and the network";

    pub(in crate::run) fn die_with(_parent: u32) -> io::Result<()> {
        Ok(())
    }

    pub(in crate::run) fn build(_walls: &Walls) -> io::Result<()> {
        Ok(())
    }

    pub(in crate::run) fn missing() -> Vec<&'static str> {
        vec![NO_FILES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_launcher_says_is_the_error_that_it_had() {
        let error = io::Error::from_raw_os_error(13);
        let said = failure(&format!("other words\n{FAILED}{error}\n"));
        assert_eq!(said.map(|error| error.kind()), Some(io::ErrorKind::PermissionDenied));
        assert!(failure("Permission denied (os error 13)").is_none());
        assert!(failure(&format!("{FAILED}its parent has ended")).is_none());
    }
}
