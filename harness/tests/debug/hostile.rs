// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failures around a debugger: full disks, clients that vanish or send nonsense, killed processes. The server ends by
//! itself or goes on, reports why, and leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::client::{Client, bytes, hex};
use super::command::{end, first_line};
use crate::common::{child_of, harness, image, signal};

/// A server with directories of its own.
struct Served {
    child: Child,
    /// QEMU's process id, which is the group id of all its copies.
    group: u32,
    socket: String,
    home: TempDir,
}

const CONTINUE: &str = "vCont;c:p1.-1";

/// Address of the socket in the line that connects GDB.
fn socket(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|&word| word == "remote").unwrap_or_else(|| panic!("no line: {line}"));
    words[at + 1].trim_matches('"').to_owned()
}

impl Served {
    fn new(args: &[&str]) -> Served {
        Served::within(tempfile::tempdir().unwrap(), harness(), args)
    }

    /// Starts a server in a directory, by a command that executes harness.
    fn within(home: TempDir, mut command: Command, args: &[&str]) -> Served {
        command.env("TMPDIR", home.path()).env_remove("XDG_RUNTIME_DIR").arg("debug").args(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let socket = socket(&first_line(&mut child));
        let group = child_of(child.id()).unwrap();
        Served { child, group, socket, home }
    }

    fn client(&self) -> Client {
        Client::greeted(&self.socket)
    }

    /// Number of living processes of the run.
    fn processes(&self) -> usize {
        let is_of_group = |stat: String| {
            let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
            let fields: Vec<&str> = rest.split_whitespace().collect();
            fields.first().is_some_and(|&state| state != "Z") && fields.get(2) == Some(&&*self.group.to_string())
        };
        let all = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| fs::read_to_string(entry.unwrap().path().join("stat")).ok());
        all.filter(|stat| is_of_group(stat.clone())).count()
    }

    /// Waits until the server ends with this code and all processes of the run are gone; returns its output.
    #[track_caller]
    fn ends(mut self, expected: i32) -> String {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the server goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
        while self.processes() > 0 {
            assert!(Instant::now() < deadline, "QEMU goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(left(self.home.path()), [""; 0], "what it has left");
        let (code, said) = end(self.child);
        assert_eq!(code, Some(expected), "{said}");
        said
    }
}

/// Names of the files in a directory, sorted.
fn left(home: &Path) -> Vec<String> {
    let names = fs::read_dir(home).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Output of a monitor command.
fn monitor(client: &mut Client, words: &str) -> String {
    client.shown.clear();
    assert_eq!(client.ask(&format!("qRcmd,{}", hex(words))), "OK");
    client.shown.clone()
}

/// Output line that names the instruction where the run is held.
fn at(client: &mut Client) -> String {
    monitor(client, "where").lines().next().unwrap().to_owned()
}

fn elf(name: &str) -> String {
    image(name).to_str().unwrap().to_owned()
}

#[test]
fn a_gdb_that_is_killed_ends_the_server_whatever_it_does() {
    // A run without an end, and a run that must be measured first.
    let forever = elf("riscv64-spin");
    let freertos = elf("cortex-m3-freertos-pg-Os");
    for (args, asked) in [
        (vec![&*forever, "--for", "1M", "--at", "insn:10k"], CONTINUE.to_owned()),
        (vec![&*forever, "--for", "1M", "--at", "insn:10k"], "bc".to_owned()),
        (vec![&*freertos, "--for", "2G", "--max-insns", "40M", "--at", "insn:10k"], "max".to_owned()),
        (vec![&*freertos, "--for", "20M", "--at", "insn:10k"], "call".to_owned()),
    ] {
        let served = Served::new(&args);
        let mut client = served.client();
        let asked = match asked.as_str() {
            "max" => format!("qRcmd,{}", hex("goto max:matrix_multiply")),
            "call" => format!("qRcmd,{}", hex("goto call:matrix_multiply:200")),
            packet => packet.to_owned(),
        };
        client.send(&asked);
        drop(client);
        served.ends(0);
    }
}

#[test]
fn nonsense_is_sent_away_and_that_of_a_debugger_ends_the_server_and_nothing_of_the_run_stays() {
    let elf = elf("cortex-m3-bare");
    let args = [&*elf, "--at", "insn:100"];
    let long = [b"$m".to_vec(), vec![b'0'; 16 << 20], b"#00".to_vec()].concat();
    // An incomplete packet.
    let served = Served::new(&args);
    for nonsense in [b"GET / HTTP/1.1\r\n\r\n", &long[..]] {
        Client::new(&served.socket).try_raw(nonsense);
    }
    let silent = Client::new(&served.socket);
    served.client().raw(b"$m2000");
    served.ends(0);
    drop(silent);
    for nonsense in [b"$m0,4#00", &long[..]] {
        let served = Served::new(&args);
        served.client().try_raw(nonsense);
        let said = served.ends(2);
        assert!(said.contains("cannot be understood"), "{said}");
    }
}

#[test]
fn two_debuggers_at_one_firmware_know_nothing_of_each_other() {
    let elf = elf("cortex-m3-freertos-pg-Os");
    let one = Served::new(&[&elf, "--for", "1M", "--at", "insn:100k"]);
    let two = Served::new(&[&elf, "--for", "1M", "--at", "insn:200k"]);
    let (mut first, mut second) = (one.client(), two.client());
    assert!(at(&mut first).starts_with("instruction 100,000:"));
    assert_eq!(first.ask("bs"), "T05thread:p01.01;");
    assert!(at(&mut second).starts_with("instruction 200,000:"));
    drop(first);
    one.ends(0);
    assert_eq!(second.ask("bs"), "T05thread:p01.01;");
    assert!(at(&mut second).starts_with("instruction 199,999:"));
    drop(second);
    two.ends(0);
}

#[test]
fn what_a_killed_debugger_has_left_is_removed_by_the_next() {
    let elf = elf("cortex-m3-bare");
    let mut killed = Served::new(&[&elf, "--at", "insn:100"]);
    let held = Served::within(TempDir::new_in(killed.home.path()).unwrap(), harness(), &[&elf]);
    // Folder of the second server, which lives: no remnant of the killed one.
    let own = held.home.path().file_name().unwrap().to_str().unwrap().to_owned();
    signal(killed.child.id(), "KILL");
    killed.child.wait().unwrap();
    let of = |names: Vec<String>, prefix: &str| names.into_iter().filter(|name| name.starts_with(prefix)).count();
    for prefix in ["harness-gdb-", "harness-debug-"] {
        assert_eq!(of(left(killed.home.path()), prefix), 1, "{prefix}");
    }
    let home = std::mem::replace(&mut killed.home, tempfile::tempdir().unwrap());
    let next = Served::within(home, harness(), &[&elf, "--at", "insn:100"]);
    for prefix in ["harness-gdb-", "harness-debug-"] {
        assert_eq!(of(left(next.home.path()), prefix), 1, "{prefix}: its own");
    }
    assert!(Path::new(&held.socket).exists() && !Path::new(&killed.socket).exists());
    drop(held.client());
    assert!(left(next.home.path()).contains(&own));
    held.ends(0);
    drop(next.client());
    next.ends(0);
}

/// Command that mounts a disk of this size and executes what follows.
fn on_a_disk(disk: &Path, bytes: &str) -> Command {
    let mut command = crate::common::ends_with_us("unshare");
    let script = "mount -t tmpfs -o \"size=$2\" none \"$1\" && shift 2 && exec \"$@\"";
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    command.arg(disk).arg(bytes).arg(env!("CARGO_BIN_EXE_harness"));
    command
}

#[test]
fn a_full_disk_at_the_start_is_bad_input() {
    let home = tempfile::tempdir().unwrap();
    for (bytes, args) in [("4k", vec![]), ("64k", vec!["--at", "insn:100"])] {
        let mut command = on_a_disk(home.path(), bytes);
        command.env("TMPDIR", home.path()).env_remove("XDG_RUNTIME_DIR");
        let output = command.arg("debug").arg(elf("cortex-m3-bare")).args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{bytes}: {said}");
        assert!(said.contains("No space left") || said.contains("space"), "{bytes}: {said}");
    }
}

#[test]
fn a_disk_that_fills_up_refuses_another_run_and_the_session_goes_on() {
    let elf = elf("cortex-m3-bare");
    let home = tempfile::tempdir().unwrap();
    let disk = home.path().to_owned();
    let command = on_a_disk(&disk, "64m");
    let args = [&*elf, "--at", "insn:1000", "--checkpoint-mib", "0"];
    let served = Served::within(home, command, &args);
    // The disk is only visible in the server's mount namespace.
    let root = PathBuf::from(format!("/proc/{}/root", served.child.id()));
    let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap());
    let mut client = Client::greeted(inside(Path::new(&served.socket)).to_str().unwrap());
    let before = client.ask("g");
    let filler = inside(&disk).join("filler");
    // In a process of its own: what this one has open, each child that another test starts has open, too, until it executes
    // its program; on a busy machine the disk was still full after the file was removed.
    let filled = Command::new("dd").args(["if=/dev/zero", "bs=1M"]).arg(format!("of={}", filler.display())).output();
    assert!(!filled.unwrap().status.success());
    assert_eq!(client.ask("bs"), "T05thread:p01.01;replaylog:begin;");
    assert!(client.shown.starts_with("harness: another run cannot be started: "), "{}", client.shown);
    assert!(monitor(&mut client, "why").starts_with("another run cannot be started: "));
    assert_eq!(client.ask("g"), before);
    fs::remove_file(&filler).unwrap();
    let answer = client.ask("bs");
    assert_eq!(answer, "T05thread:p01.01;", "{}", client.shown);
    assert!(at(&mut client).starts_with("instruction 999:"));
    drop(client);
    served.ends(0);
}

#[test]
fn typed_input_is_typed_again_in_each_run() {
    let elf = elf("cortex-m3-echo");
    let typed = ["--input", "50k:hello\\n", "--for", "200k"];
    let args = [&[&*elf, "--at", "insn:90000"], &typed[..]].concat();
    let served = Served::new(&args);
    let mut client = served.client();
    let there = (at(&mut client), client.ask("g"));
    assert!(there.0.starts_with("instruction 90,000:"), "{}", there.0);
    for _ in 0..2 {
        assert_eq!(client.ask("bs"), "T05thread:p01.01;");
    }
    assert!(at(&mut client).starts_with("instruction 89,998:"));
    for _ in 0..2 {
        assert_eq!(client.ask("vCont;s:p1.1;c:p1.-1"), "T05thread:p01.01;");
    }
    assert_eq!((at(&mut client), client.ask("g")), there);
    drop(client);
    let said = served.ends(0);
    assert!(said.contains("going back takes another run"), "{said}");
}

#[test]
fn a_firmware_that_is_built_anew_meanwhile_is_not_measured_for_the_old_one() {
    let home = tempfile::tempdir().unwrap();
    let copy = home.path().join("firmware.elf");
    fs::copy(image("cortex-m3-bare"), &copy).unwrap();
    let served = Served::new(&[copy.to_str().unwrap(), "--at", "insn:1000", "--checkpoint-mib", "0"]);
    let mut client = served.client();
    fs::copy(image("cortex-m3-bare-pg"), &copy).unwrap();
    let said = monitor(&mut client, "goto max:timer_stop");
    assert!(said.contains("has changed since the debugger was started"), "{said}");
    // A run that the debugger starts anew still has the old firmware.
    let here = bytes(&client.ask("g").replace('x', "0"));
    assert_eq!(client.ask("bs"), "T05thread:p01.01;");
    assert_eq!(client.ask("vCont;s:p1.1;c:p1.-1"), "T05thread:p01.01;");
    assert_eq!(bytes(&client.ask("g").replace('x', "0")), here);
    drop(client);
    served.ends(0);
}
