// SPDX-License-Identifier: MIT OR Apache-2.0
//! The emulator as a program: finds it, asks for its version, and tells how to install one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fmt, fs, thread};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use wire::control::{Control, Word};
use wire::trick;

use crate::error::EmulatorError;
use crate::run::contain::grants::Walls;
use crate::run::contain::host;
use crate::run::contain::launcher;
use crate::run::qemu::asked;
use crate::run::qemu::bundle::Bundle;

/// The oldest QEMU whose plugin API (4) has all functions that the plugin needs.
pub const OLDEST_VERSION: (u32, u32) = (9, 2);

/// Whether a program was built in a clone of this repository, and still lies in it: only a clone has `ci/setup`.
fn is_in_clone(program: &Path) -> bool {
    let is_clone = |folder: &Path| ["ci/setup", "harness/Cargo.toml"].iter().all(|file| folder.join(file).is_file());
    program.ancestors().any(is_clone)
}

/// Instructions for installing a new enough QEMU, for this host and this program.
fn install_hint() -> String {
    // Computed once: several emulators may be missing for the same reason.
    static HINT: OnceLock<String> = OnceLock::new();
    let hint = HINT.get_or_init(|| {
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let command = install_command(&release, apt_policy().as_deref());
        let has_setup = Bundle::own().is_none() && env::current_exe().is_ok_and(|program| is_in_clone(&program));
        if has_setup { format!("run ci/setup, or: {command}") } else { command }
    });
    hint.clone()
}

/// Names of Debian's packages. The last one has RISC-V on systems without a package for it.
const PACKAGES: [&str; 3] = ["qemu-system-arm", "qemu-system-riscv", "qemu-system-misc"];

/// Output of apt's query for these packages; None: there is no apt.
fn apt_policy() -> Option<String> {
    let output = Command::new("apt-cache").arg("policy").args(PACKAGES).env("LC_ALL", "C").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A version of a package, and the suite that has it.
type Offer<'a> = (Version, Option<&'a str>);

/// Versions of a package that apt offers: the version that it would install, and all known versions. `policy` is the
/// output of `apt-cache policy`.
fn offers<'a>(policy: &'a str, package: &str) -> (Option<Version>, Vec<Offer<'a>>) {
    let lines = policy.lines().skip_while(|line| line.strip_suffix(':') != Some(package)).skip(1);
    let (mut candidate, mut offers) = (None, Vec::<Offer<'a>>::new());
    for line in lines.take_while(|line| line.starts_with(' ')) {
        let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "***").collect();
        match words[..] {
            ["Candidate:", version] => candidate = Version::packaged(version),
            // Origin of the version: priority, address, suite and component.
            [_, address, suite, ..] if address.contains("://") => {
                if let Some((_, of)) = offers.last_mut() {
                    *of = of.or_else(|| suite.split('/').next());
                }
            }
            // A version of the table, with its priority.
            [version, _] => offers.extend(Version::packaged(version).map(|version| (version, None))),
            _ => {}
        }
    }
    (candidate, offers)
}

/// Command that installs QEMU on a system. It follows from the system's `/etc/os-release` and, if there is apt, from
/// the versions that apt offers: a derived distribution has a name and version numbers of its own.
fn install_command(release: &str, policy: Option<&str>) -> String {
    let field = |name: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"').to_owned()).unwrap_or_default()
    };
    let (id, like, version) = (field("ID"), field("ID_LIKE"), field("VERSION_ID"));
    let is = |name: &str| id == name || like.split(' ').any(|word| word == name);
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    let (candidate, others) = policy.map(|policy| offers(policy, PACKAGES[0])).unwrap_or_default();
    let has_riscv = policy.is_none_or(|policy| offers(policy, PACKAGES[1]).0.is_some() || candidate.is_none());
    let packages = format!("{} {}", PACKAGES[0], if has_riscv { PACKAGES[1] } else { PACKAGES[2] });
    if candidate.is_some_and(|version| version.will_do()) {
        return format!("sudo apt-get install {packages}");
    }
    if let Some((_, Some(suite))) = others.iter().find(|(version, suite)| version.will_do() && suite.is_some()) {
        return format!("sudo apt-get install -t {suite} {packages}");
    }
    let too_old = |version| format!("this system's packages have {version}; harness's bundle brings its own");
    match (&*id, major) {
        ("debian", Some(12)) => format!(
            "echo 'deb http://deb.debian.org/debian bookworm-backports main' | sudo tee \
             /etc/apt/sources.list.d/backports.list && sudo apt-get update && sudo apt-get install -t \
             bookworm-backports {packages}"
        ),
        _ if candidate.is_some() => candidate.map(too_old).unwrap_or_default(),
        ("debian", Some(..12)) | ("ubuntu", Some(..25)) => {
            "this system's packages have an older one; harness's bundle brings its own".to_owned()
        }
        ("debian" | "ubuntu", _) => format!("sudo apt-get update && sudo apt-get install {packages}"),
        _ if policy.is_some() || is("debian") || is("ubuntu") => {
            "sudo apt-get update, and then harness doctor again: apt knows of no QEMU yet".to_owned()
        }
        _ if is("fedora") || is("rhel") => format!("sudo dnf install {packages}"),
        _ if is("arch") => format!("sudo pacman -S {packages}"),
        _ if cfg!(target_os = "macos") => "brew install qemu".to_owned(),
        _ => "install QEMU's system emulators for arm and riscv".to_owned(),
    }
}

/// A version of QEMU, in the form of both program and monitor: `10.0.2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
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
    /// Version in the first line of `qemu-system-… --version`.
    fn printed(text: &str) -> Option<Version> {
        Version::parse(text.split_once("version ")?.1.split_whitespace().next()?)
    }

    /// Version from numbers with dots between them.
    pub(crate) fn parse(version: &str) -> Option<Version> {
        let mut parts = version.split('.').map(str::parse::<u32>);
        let mut part = || parts.next()?.ok();
        Some(Version { major: part()?, minor: part()?, micro: part()? })
    }

    /// Upstream version of a Debian package: `1:10.0.2+ds-2+deb13u1~bpo12+1`, `1:7.2+dfsg-7`.
    fn packaged(text: &str) -> Option<Version> {
        let upstream = text.split_once(':').map_or(text, |(_, version)| version);
        let digits = upstream.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        let mut parts = digits.split('.').map(|part| part.parse::<u32>().ok());
        let (major, minor) = (parts.next()??, parts.next()??);
        Some(Version { major, minor, micro: parts.next().flatten().unwrap_or(0) })
    }

    /// Whether its plugin API has everything that the plugin needs.
    fn will_do(self) -> bool {
        (self.major, self.minor) >= OLDEST_VERSION
    }

    /// Version in the monitor's greeting.
    pub(crate) fn greeted(message: &Value) -> Option<Version> {
        let version = message.get("QMP")?.get("version")?.get("qemu")?;
        let part = |name: &str| u32::try_from(version.get(name)?.as_u64()?).ok();
        Some(Version { major: part("major")?, minor: part("minor")?, micro: part("micro")? })
    }

    /// Major, minor and micro.
    pub(crate) fn numbers(self) -> [u32; 3] {
        [self.major, self.minor, self.micro]
    }

    /// Version as text for users.
    ///
    /// # Errors
    /// When it is too old.
    pub(crate) fn new_enough(self, path: &Path) -> Result<String, EmulatorError> {
        if !self.will_do() {
            return Err(unfit(format!("{} is QEMU {self}, which is too old", path.display())));
        }
        Ok(self.to_string())
    }
}

/// First QEMU that ends a CPU's turn to free memory; the plugin prevents that if it can ([`Word::TurnsKept`]).
const TURNS_VARY_FROM: (u32, u32) = (10, 2);

/// Warning for a run of several CPUs whose turns may differ in another run; None: the turns always repeat. `version`
/// is QEMU's, `control` the plugin's control page.
pub(crate) fn turns_warning(version: &str, control: &Control) -> Option<String> {
    let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let may_vary = parts.next().zip(parts.next()).is_some_and(|version| version >= TURNS_VARY_FROM);
    if control.vcpus() == 1 || control.get(Word::TurnsKept) == 1 || !may_vary {
        return None;
    }
    Some(format!(
        "with several CPUs this QEMU {version} does not always change from one to the next at the same instruction, and \
         cannot be kept from it, as Debian's can: another run may have other counts"
    ))
}

/// Note on a slow run of several CPUs, which share translated code; None: they do not. `version` is QEMU's, `control`
/// the plugin's control page.
pub(crate) fn sharing_note(version: &str, control: &Control) -> Option<String> {
    (control.get(Word::Shared) == 1).then(|| {
        format!(
            "the CPUs share translated code in this QEMU {version}, so each straight line called the plugin, which takes \
             some ten times as long as with Debian's QEMU"
        )
    })
}

/// First QEMU whose sleeps were found to be equally long in every run. In 9.2.1 they are not: with a timer that
/// repeats by itself (SysTick), QEMU may or may not advance the time to the second expiry before the CPU continues.
const SLEEPS_ALIKE_FROM: (u32, u32) = (10, 0);

/// Whether an emulator's sleeps are equally long in every run.
///
/// # Errors
/// Same as [`version`].
pub(crate) fn sleeps_alike(path: &Path) -> Result<bool, EmulatorError> {
    Ok(sleeps_alike_in(&version(path)?))
}

/// Whether the sleeps of this version of QEMU are equally long in every run.
pub(crate) fn sleeps_alike_in(version: &str) -> bool {
    let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
    parts.next().zip(parts.next()).is_some_and(|version| version >= SLEEPS_ALIKE_FROM)
}

/// Longest time for an answer, which normally takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answer of a program to a question.
struct Answer {
    said: String,
    ended: String,
}

/// Runs a program with a question, for at most [`PATIENCE`]: a program that hangs must not block harness.
fn ask(path: &Path, question: &[&str]) -> std::io::Result<Answer> {
    let mut child = launcher::command(path, &Walls::default())
        .args(question)
        .env_clear()
        // Ctrl-C must not reach the program.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let deadline = Instant::now() + PATIENCE;
    // A script may leave a process behind that holds the pipes open.
    let group = Pid::from_raw(child.id().cast_signed());
    let end_group = || killpg(group, Signal::SIGKILL);
    loop {
        if child.try_wait()?.is_some() {
            let _ = end_group();
            let output = child.wait_with_output()?;
            let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let said = said.join("\n");
            return match launcher::failure(&said) {
                Some(error) => Err(error),
                None => Ok(Answer { said, ended: output.status.to_string() }),
            };
        }
        if Instant::now() >= deadline {
            let _ = end_group();
            child.wait()?;
            let ended = format!("it had not ended after {} seconds", PATIENCE.as_secs());
            return Ok(Answer { said: String::new(), ended });
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Error for an unusable emulator, with the remedy.
pub(in crate::run) fn unfit(what: String) -> EmulatorError {
    let (major, minor) = OLDEST_VERSION;
    EmulatorError::with_remedy(what, format!("QEMU {major}.{minor} or newer is needed: {}", install_hint()))
}

pub(crate) fn cannot_be_run(path: &Path, cause: &std::io::Error) -> EmulatorError {
    if let Some(why) = host::without_proc() {
        return EmulatorError::new(format!("{} cannot be run: {why}", path.display()));
    }
    if let Some(remedy) = host::remedy(cause) {
        return EmulatorError::new(format!("{} cannot be run: {cause}; {remedy}", path.display()));
    }
    let what = format!("{} cannot be run: {cause}", path.display());
    // Another QEMU does not help against a long command line, or a host without memory.
    let is_unfit = matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
        || cause.raw_os_error() == Some(Errno::ENOEXEC as i32);
    if is_unfit { unfit(what) } else { EmulatorError::new(what) }
}

/// Variable with the only folder in which emulators are looked for.
const FOLDER_VARIABLE: &str = "HARNESS_QEMU";

/// The emulator that is not installed with the others.
const AVR: &str = "qemu-system-avr";

/// Finds an emulator: in the folder that the user names, in this program's bundle, or on the PATH.
///
/// # Errors
/// When the emulator is missing; the message says how to install it.
pub fn locate(program: &str) -> Result<PathBuf, EmulatorError> {
    if let Some(folder) = env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty()) {
        // QEMU works in another directory, so the path must be absolute.
        let path = std::path::absolute(Path::new(&folder).join(program)).unwrap_or_default();
        return match path.is_file() {
            true => Ok(path),
            false => {
                let what = format!("{} is not a file ({FOLDER_VARIABLE} says where QEMU is)", path.display());
                Err(missing(program, what))
            }
        };
    }
    if let Some(path) = Bundle::own().and_then(|bundle| bundle.emulator(program)) {
        return Ok(path);
    }
    env::var_os("PATH")
        .and_then(|path| env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file()))
        .ok_or_else(|| missing(program, format!("{program} is not installed (not found on the PATH)")))
}

/// Error about an emulator that is not there, with its package.
fn missing(program: &str, what: String) -> EmulatorError {
    if program != AVR {
        return unfit(what);
    }
    // Most users need it as little as doctor does.
    let remedy = "Debian has it in qemu-system-misc, other systems in qemu-system-avr (docs/arduino.md).";
    EmulatorError::with_remedy(what, remedy)
}

/// Version that an emulator prints: `10.0.2`.
///
/// # Errors
/// When the emulator does not run, or is too old; the message says how to install another.
pub fn version(path: &Path) -> Result<String, EmulatorError> {
    // A suite may ask for each of its images. Two concurrent questions need not wait for each other.
    if let Some(version) = known().get(path) {
        return version.clone();
    }
    let recalled = asked::recall(path).and_then(|version| Version::parse(&version));
    // Any other version is an error or a warning, which must not depend on what is kept.
    let version = match recalled.filter(|version| version.will_do() && trick::knows(version.numbers())) {
        Some(version) => Ok(version.to_string()),
        None => read_version(path),
    };
    known().insert(path.to_owned(), version.clone());
    version
}

/// Replaces the known version of an emulator by that of its greeting.
pub(crate) fn remember(path: &Path, greeted: Version) {
    asked::forget(path);
    known().insert(path.to_owned(), greeted.new_enough(path));
}

/// Answers of emulators so far.
fn known() -> MutexGuard<'static, BTreeMap<PathBuf, Result<String, EmulatorError>>> {
    static KNOWN: Mutex<BTreeMap<PathBuf, Result<String, EmulatorError>>> = Mutex::new(BTreeMap::new());
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Names in an emulator's list for an option: those of machines, or of processors. Empty if it prints no list.
///
/// # Errors
/// When it does not run.
pub(crate) fn names(path: &Path, option: &str) -> Result<BTreeSet<String>, EmulatorError> {
    let answer = ask(path, &[option, "help"]).map_err(|cause| cannot_be_run(path, &cause))?;
    Ok(listed(&answer.said))
}

/// First word of each line after a heading.
fn listed(said: &str) -> BTreeSet<String> {
    let lines = said.lines().skip_while(|line| !line.trim_end().ends_with(':')).skip(1);
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn read_version(path: &Path) -> Result<String, EmulatorError> {
    let answer = ask(path, &["--version"]).map_err(|cause| cannot_be_run(path, &cause))?;
    let version = Version::printed(&answer.said).ok_or_else(|| {
        let said = answer.said.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        let Answer { ended, .. } = &answer;
        unfit(format!("{} --version does not say a version ({ended}); it said: {said}", path.display()))
    })?;
    asked::keep(path, &version.to_string());
    version.new_enough(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    fn what_an_emulator_lists_is_read() {
        let list = |text: &str| listed(text).into_iter().collect::<Vec<_>>();
        let machines = "Supported machines are:\nvirt  QEMU 10.0 (alias of virt-10.0)\nnone  empty machine\n";
        assert_eq!(list(machines), ["none", "virt"]);
        assert_eq!(list("Available CPUs:\n  rv32\n  rv64\n\n"), ["rv32", "rv64"]);
        assert_eq!(list("qemu: no such option"), [""; 0]);
    }

    #[test]
    fn each_system_gets_its_own_command() {
        let command =
            |id: &str, version: &str| install_command(&format!("ID={id}\nVERSION_ID=\"{version}\"\n"), None);
        let fresh = "sudo apt-get update && sudo apt-get install qemu-system-arm qemu-system-riscv";
        assert_eq!(command("debian", "13"), fresh);
        assert_eq!(install_command("ID=debian\n", None), fresh, "sid has no number");
        assert_eq!(command("ubuntu", "25.04"), fresh);
        assert!(command("debian", "12").contains("install -t bookworm-backports"));
        for (id, version) in [("debian", "11"), ("ubuntu", "24.04")] {
            assert!(command(id, version).contains("bundle"), "{id} {version} has no QEMU that will do");
        }
        assert!(command("fedora", "42").contains("dnf"));
    }

    /// Output of `apt-cache policy` for a package with these versions, each of a suite; the first one is the
    /// candidate.
    fn policy(package: &str, versions: &[(&str, &str)]) -> String {
        let candidate = versions.first().map_or("(none)", |(version, _)| version);
        let rows = versions.iter().map(|(version, suite)| {
            format!("     {version} 500\n        500 http://deb.debian.org/debian {suite}/main amd64 Packages\n")
        });
        let rows: String = rows.collect();
        format!("{package}:\n  Installed: (none)\n  Candidate: {candidate}\n  Version table:\n{rows}")
    }

    #[test]
    fn a_system_of_another_ones_packages_gets_what_apt_offers() {
        let both =
            |versions: &[(&str, &str)]| policy("qemu-system-arm", versions) + &policy("qemu-system-riscv", versions);
        let mint = "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_ID=\"22\"\n";
        let pop = "ID=pop\nID_LIKE=\"ubuntu debian\"\nVERSION_ID=\"24.04\"\n";
        let raspbian = "ID=raspbian\nID_LIKE=debian\nVERSION_ID=\"13\"\n";
        let old = both(&[("1:8.2.2+ds-0ubuntu1.10", "noble-updates")]);
        for release in [mint, pop, raspbian] {
            let said = install_command(release, Some(&old));
            assert_eq!(said, "this system's packages have 8.2.2; harness's bundle brings its own");
        }
        let new = both(&[("1:10.0.8+ds-0+deb13u1", "trixie"), ("1:7.2+dfsg-7", "bookworm")]);
        let install = "sudo apt-get install qemu-system-arm qemu-system-riscv";
        for release in [mint, raspbian, "ID=debian\nVERSION_ID=\"12\"\n", "ID=ubuntu\nVERSION_ID=\"24.04\"\n"] {
            assert_eq!(install_command(release, Some(&new)), install);
        }
        let table = [("1:7.2+dfsg-7+deb12u18+b3", "bookworm"), ("1:10.0.2+ds-2~bpo12+1", "bookworm-backports")];
        let said = install_command("ID=debian\nVERSION_ID=\"12\"\n", Some(&both(&table)));
        assert_eq!(said, "sudo apt-get install -t bookworm-backports qemu-system-arm qemu-system-riscv");
        // RISC-V has no package of its own here.
        let misc = policy("qemu-system-arm", &[("1:9.2.1", "plucky")])
            + &policy("qemu-system-misc", &[("1:9.2.1", "plucky")]);
        assert_eq!(install_command(mint, Some(&misc)), "sudo apt-get install qemu-system-arm qemu-system-misc");
        // The lists of packages were never read.
        let nothing = policy("qemu-system-arm", &[]);
        assert!(
            install_command(mint, Some(&nothing)).starts_with("sudo apt-get update, and then harness doctor again")
        );
        assert!(install_command(mint, Some("")).starts_with("sudo apt-get update, and then"));
    }

    #[test]
    fn what_apt_says_of_an_installed_package_is_read() {
        let said = "qemu-system-arm:\n  Installed: 1:10.0.2+ds-2\n  Candidate: 1:10.0.2+ds-2\n  Version table:\n \
                    *** 1:10.0.2+ds-2 100\n        100 http://deb.debian.org/debian bookworm-backports/main amd64 \
                    Packages\n        100 /var/lib/dpkg/status\n     1:7.2+dfsg-7 500\n        500 \
                    http://deb.debian.org/debian bookworm/main amd64 Packages\nqemu-system-riscv:\n  Installed: (none)\n";
        let (candidate, found) = offers(said, "qemu-system-arm");
        assert_eq!(candidate.map(|version| version.to_string()).as_deref(), Some("10.0.2"));
        let found: Vec<_> = found.iter().map(|(version, suite)| (version.to_string(), suite.unwrap())).collect();
        assert_eq!(found, [("10.0.2".to_owned(), "bookworm-backports"), ("7.2.0".to_owned(), "bookworm")]);
        assert_eq!(offers(said, "qemu-system-riscv"), (None, Vec::new()));
        assert_eq!(offers(said, "qemu-system-xyz"), (None, Vec::new()));
    }

    #[test]
    fn a_clone_is_known_by_its_files_above_the_program() {
        // Not this program: CARGO_TARGET_DIR may lie anywhere.
        assert!(is_in_clone(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/debug/harness")));
        let temp = tempfile::tempdir().unwrap();
        let program = temp.path().join("target/debug/harness");
        fs::create_dir(temp.path().join("ci")).unwrap();
        fs::write(temp.path().join("ci/setup"), "").unwrap();
        assert!(!is_in_clone(&program), "another project's");
        fs::create_dir(temp.path().join("harness")).unwrap();
        fs::write(temp.path().join("harness/Cargo.toml"), "").unwrap();
        assert!(is_in_clone(&program));
    }

    #[test]
    fn cpus_take_other_turns_from_10_2_on_where_it_is_not_kept_from_it() {
        let control = |vcpus, kept| {
            let mut page = vec![0; wire::control::BYTES];
            let words = [
                (Word::Magic, wire::MAGIC),
                (Word::Version, wire::VERSION),
                (Word::Vcpus, vcpus),
                (Word::TurnsKept, kept),
            ];
            for (word, value) in words {
                page[word as usize * 8..][..8].copy_from_slice(&u64::to_le_bytes(value));
            }
            Control::read(&page).unwrap()
        };
        let is_warned = |version, vcpus, kept| turns_warning(version, &control(vcpus, kept)).is_some();
        assert!(["10.2.0", "10.2.1", "11.0.3", "12.0.0"].into_iter().all(|version| is_warned(version, 2, 0)));
        assert!(!["9.2.1", "10.0.13", "10.1.0", "unknown"].into_iter().any(|version| is_warned(version, 2, 0)));
        assert!(!is_warned("11.0.3", 2, 1), "kept");
        assert!(!is_warned("11.0.3", 1, 0), "the only one");
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
}
