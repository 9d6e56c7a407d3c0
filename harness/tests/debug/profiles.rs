// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile is data: its author gets no access to the computer that debugs it or makes a page of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use harness::profile::input::{Input, What, When};
use harness::profile::outside::Outside;
use harness::profile::{Facts, Profile};
use tempfile::TempDir;

use super::client::Client;
use super::command::first_line;
use crate::common::built::commanding;
use crate::common::{harness, image, measured, run};

/// A manipulation of a profile: its name, the change, and the text that the message must contain.
type Evil = (&'static str, fn(&mut Facts, &str), &'static str);

fn with(facts: &mut Facts, arguments: &[&str]) {
    facts.qemu_args = arguments.iter().map(|&argument| argument.to_owned()).collect();
}

/// Manipulated profiles that ask for files, programs and the network. `{}` is a folder of the reader's.
const EVIL: &[Evil] = &[
    ("a program", |facts, at| with(facts, &["-plugin", &format!("{at}/evil.so")]), "-plugin"),
    ("a file written", |facts, at| with(facts, &["-chardev", &format!("file,id=x,path={at}/start-up")]), "-chardev"),
    (
        "a file read and another written",
        |facts, at| {
            let [device, file] =
                [format!("loader,file={at}/secret,addr=0x100"), format!("file,id=x,path={at}/start-up")];
            with(facts, &["-smp", "1", "-device", &device, "-chardev", &file]);
        },
        "-device",
    ),
    ("a log", |facts, at| with(facts, &["-smp", "1", "-D", &format!("{at}/start-up"), "-d", "in_asm"]), "-D"),
    ("a disk", |facts, at| with(facts, &[&format!("{at}/secret")]), "/secret"),
    ("a disk behind a setting", |facts, at| with(facts, &["-smp", "1", &format!("{at}/secret")]), "/secret"),
    ("a way in", |facts, _| with(facts, &["-gdb", "tcp::0"]), "-gdb"),
    ("a short way in", |facts, _| with(facts, &["-s"]), "-s"),
    ("a command", |facts, at| with(facts, &["-incoming", &format!("exec:touch {at}/new")]), "-incoming"),
    ("other arguments", |facts, at| with(facts, &["-readconfig", &format!("{at}/secret")]), "-readconfig"),
    ("no walls", |facts, _| with(facts, &["-sandbox", "off"]), "-sandbox"),
    (
        "the host's files by semihosting",
        |facts, _| with(facts, &["-semihosting-config", "userspace=on"]),
        "-semihosting",
    ),
    ("a path in -smp", |facts, at| with(facts, &["-smp", &format!("1,file={at}/secret")]), "-smp"),
    ("a file as memory", |facts, _| with(facts, &["-m", "64M,memory-backend=x"]), "-m"),
    ("all memory", |facts, _| with(facts, &["-m", "8T"]), "-m"),
    ("a path in -cpu", |facts, at| with(facts, &["-cpu", &format!("cortex-m3,x={at}/secret")]), "-cpu"),
    (
        "a device that reads a file",
        |facts, at| with(facts, &["-global", &format!("driver=loader,property=file,value={at}/secret")]),
        "-global",
    ),
    ("an object's name", |facts, _| with(facts, &["-global", "armv7m.memory=/machine"]), "-global"),
    ("a device tree written", |facts, at| facts.machine = format!("mps2-an385,dumpdtb={at}/start-up"), "--machine"),
    ("a kernel read", |facts, at| facts.machine = format!("mps2-an385,kernel={at}/secret"), "--machine"),
    ("a machine that is not listed", |facts, _| facts.machine = "raspi2b".to_owned(), "--machine"),
    ("a path in the CPU", |facts, at| facts.cpu = Some(format!("cortex-m3,x={at}/secret")), "--cpu"),
    ("calls unchecked", |facts, _| facts.semihosting = Some("unchecked".to_owned()), "--semihosting unchecked"),
    ("an image elsewhere", |facts, at| facts.image_name = format!("{at}/secret"), "leads elsewhere"),
    ("an image above", |facts, _| facts.image_name = "..".to_owned(), "leads elsewhere"),
    ("slower time than there is", |facts, _| facts.icount_shift = 40, "damaged"),
    ("an argument that ends early", |facts, _| facts.firmware_args = vec!["a\0b".to_owned()], "NUL"),
    (
        "nothing typed",
        |facts, _| facts.input = vec![Input { when: When::At(1), what: What::Text(Vec::new()) }],
        "damaged",
    ),
    (
        "no change",
        |facts, _| facts.input = vec![Input { when: When::At(1), what: What::Outside(Outside::default()) }],
        "damaged",
    ),
];

/// A folder with files to steal, and a profile.
struct Reader {
    home: TempDir,
    profile: PathBuf,
}

impl Reader {
    /// A folder with the profile of an image, after a change.
    fn new(name: &str, args: &[&str], change: impl FnOnce(&mut Profile, &str)) -> Reader {
        let home = tempfile::tempdir().unwrap();
        for (file, text) in [("secret", "top secret 4711"), ("start-up", "# mine\n"), ("evil.so", "")] {
            fs::write(home.path().join(file), text).unwrap();
        }
        let mut profile = measured(name, args).profile().clone();
        change(&mut profile, home.path().to_str().unwrap());
        let path = home.path().join("got.fwp");
        fs::write(&path, profile.to_bytes().unwrap()).unwrap();
        Reader { profile: path, home }
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let files = fs::read_dir(self.home.path()).unwrap().map(|entry| entry.unwrap().path());
        let file = |path: PathBuf| (path.display().to_string(), fs::read(path).unwrap_or_default());
        files.map(file).collect()
    }

    fn command(&self, elf: &Path, args: &[&str]) -> Command {
        let temp = self.home.path().join("temp");
        fs::create_dir_all(&temp).unwrap();
        let mut command = harness();
        command.env("TMPDIR", temp).env_remove("XDG_RUNTIME_DIR").current_dir(self.home.path());
        command.arg("debug").arg(&self.profile).arg("--elf").arg(elf).args(args);
        command
    }

    fn debug(&self, elf: &Path, args: &[&str]) -> Output {
        // Runs a command that should be refused; one that starts instead waits for GDB without end.
        self.command(elf, &[&["--at", "insn:10"], args].concat()).output().unwrap()
    }

    /// Starts a server, and ends it.
    #[track_caller]
    fn starts(&self, elf: &Path, args: &[&str]) {
        let mut command = self.command(elf, &[&["--at", "insn:10"], args].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let line = first_line(&mut child);
        if let Some((_, socket)) = line.split_once("target remote ") {
            let socket = socket.split_whitespace().next().unwrap().trim_matches(['"', '\'']);
            drop(Client::greeted(socket));
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_profile_has_nothing_run_read_or_written() {
    let elf = image("cortex-m3-bare");
    for &(what, change, named) in EVIL {
        let reader = Reader::new("cortex-m3-bare", &[], |profile, at| change(&mut profile.facts, at));
        for sandbox in ["off", "auto"] {
            let output = reader.debug(&elf, &["--sandbox", sandbox]);
            let before = reader.files();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]), "{what}: {stderr}");
            assert!(stderr.contains(named), "{what}: {stderr}");
            assert_eq!(reader.files(), before, "{what}");
            assert_eq!(before[&format!("{}/start-up", reader.home.path().display())], b"# mine\n", "{what}");
            assert!(!stderr.contains("4711"), "{what}: {stderr}");
        }
    }
}

#[test]
fn what_a_profile_may_not_ask_for_its_reader_may() {
    let elf = image("cortex-m3-bare");
    let arguments = ["-smp", "1", "-d", "unimp"];
    let reader = Reader::new("cortex-m3-bare", &[], |profile, _| with(&mut profile.facts, &arguments));
    let refused = String::from_utf8(reader.debug(&elf, &[]).stderr).unwrap();
    let again = "--qemu-arg=-d --qemu-arg=unimp";
    assert!(refused.contains("\"-d unimp\"") && refused.trim_end().ends_with(again), "{refused}");
    reader.starts(&elf, &again.split(' ').collect::<Vec<_>>());
    // An option that the profile was not made with would be another run.
    for (typed, own) in [
        (&["--qemu-arg=-d", "--qemu-arg=unimp", "--qemu-arg=-s"][..], "\"-s\""),
        (&["--machine", "mps2-an500"], "--machine mps2-an385"),
        (&["--cpu", "cortex-m7"], "no --cpu"),
    ] {
        let output = reader.debug(&elf, typed);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(own) && stderr.contains("leave the option out"), "{stderr}");
    }
}

#[test]
fn settings_of_a_profile_are_those_of_its_run() {
    let elf = image("riscv64-smp");
    // With two CPUs, as for every run of this image.
    let memory = ["--qemu-arg=-m", "--qemu-arg=64M"];
    let reader = Reader::new("riscv64-smp", &memory, |profile, _| assert_eq!(profile.facts.qemu_args.len(), 4));
    reader.starts(&elf, &[]);
    // Typing the profile's own options changes nothing.
    reader.starts(&elf, &memory);
}

#[test]
fn arguments_of_the_firmware_are_one_each_whatever_is_in_them() {
    let change = |profile: &mut Profile, at: &str| {
        let facts = &mut profile.facts;
        facts.firmware_args = [&format!("a,chardev=x,userspace=on,arg={at}/secret"), ",", ",,", "-plugin", ""]
            .map(str::to_owned)
            .to_vec();
    };
    let reader = Reader::new("riscv64-cmdline", &[], change);
    reader.starts(&image("riscv64-cmdline"), &[]);
}

#[test]
fn no_command_of_firmware_that_is_debugged_reaches_the_host() {
    // QEMU's own sandbox is incomplete while debugging. First and second the plugin alone; third nothing, which shows
    // that the command would run.
    for (args, runs) in [
        (&["--sandbox", "off"][..], false),
        (&["--sandbox", "auto"], false),
        (&["--sandbox", "off", "--semihosting", "unchecked"], true),
    ] {
        let home = tempfile::tempdir().unwrap();
        for elf in commanding(home.path()) {
            let mut command = harness();
            command.arg("debug").arg(&elf).args(args).args(["--at", "end"]).env("TMPDIR", home.path());
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let line = first_line(&mut child);
            let socket = line.split_once("target remote ").unwrap().1.split_whitespace().next().unwrap();
            drop(Client::greeted(socket.trim_matches(['"', '\''])));
            assert!(child.wait_with_output().unwrap().status.success(), "{args:?}");
            let pwned = home.path().join("pwned");
            assert_eq!(pwned.exists(), runs, "{args:?} {}", elf.display());
            let _ = fs::remove_file(pwned);
        }
    }
}

#[test]
fn a_link_beside_a_profile_is_not_followed() {
    let reader = Reader::new("cortex-m3-bare", &[], |_, _| ());
    let run = run("cortex-m3-bare", &[]);
    fs::remove_file(run.dir.join("console.log")).unwrap();
    symlink(reader.home.path().join("secret"), run.dir.join("console.log")).unwrap();
    let elf = image("cortex-m3-bare");
    let [dir, elf] = [&run.dir, &elf].map(|path| path.to_str().unwrap());
    let page = reader.home.path().join("page.html");
    for args in [&["report", dir, "-o", page.to_str().unwrap()][..], &["debug", dir, "--elf", elf, "--at", "insn:10"]]
    {
        let output = harness().args(args).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("console.log: it is a link"), "{stderr}");
    }
    assert!(!page.exists());
}
