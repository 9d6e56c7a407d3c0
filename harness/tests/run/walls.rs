// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's sandbox holds where the plugin's check fails, ends QEMU with its parent, and is reported where it is
//! missing.
//!
//! Tests print that they were not run if this machine's kernel lacks a feature.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use harness::profile::End;
use landlock::{ABI, Access, AccessFs, LandlockStatus, Ruleset, RulesetAttr};
use nix::libc;
use object::elf::Sym64;
use object::read::elf::{ElfFile64, Sym as _};
use object::{LittleEndian, Object as _, ObjectSection as _};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use tempfile::TempDir;

use crate::common::built::{commanding, cortex_m, riscv, scratch};
use crate::common::{Run, command, emulator, finish, harness, image, program, run, run_file, say};

/// Whether this kernel has Landlock, asked without the harness.
fn has_landlock() -> bool {
    let probe = || {
        let ruleset = Ruleset::default().handle_access(AccessFs::from_all(ABI::V1))?.create()?;
        ruleset.restrict_self()
    };
    let status = thread::spawn(probe).join().unwrap();
    status.is_ok_and(|status| matches!(status.landlock, LandlockStatus::Available { .. }))
}

/// Whether a test of the kernel's sandbox can run; prints it otherwise.
pub(super) fn can_run(test: &str) -> bool {
    let can = has_landlock();
    if !can {
        say(&format!("{test}: not run, this kernel has no Landlock"));
    }
    can
}

/// Firmware that asks for a file of the host, each in its own way. A check that reads the call at a wrong address
/// misses all but the first two.
const ESCAPES: [&str; 5] = [
    "riscv64-file-outside",
    "cortex-m3-file-outside",
    "cortex-m3-escape-hlt",
    "riscv64-escape-rewrite",
    "riscv64-escape-virtual",
];

#[test]
fn what_the_plugin_lets_through_the_kernel_refuses() {
    if !can_run("what_the_plugin_lets_through_the_kernel_refuses") {
        return;
    }
    for name in ESCAPES {
        // Without the sandbox it succeeds.
        let open = run(name, &["--semihosting", "unchecked", "--sandbox", "off"]).expect_code(0);
        assert!(open.console().contains("\nopened"), "{name}: {}", open.console());
        for sandbox in ["auto", "required"] {
            let walled = run(name, &["--semihosting", "unchecked", "--sandbox", sandbox]).expect_code(0);
            assert!(walled.console().contains("\nrefused"), "{name}: {}", walled.console());
        }
    }
}

#[test]
fn what_is_not_forbidden_works_behind_all_walls() {
    if !can_run("what_is_not_forbidden_works_behind_all_walls") {
        return;
    }
    // AVR has no semihosting: its firmware reaches devices alone.
    for (name, printed) in [
        ("riscv64-file-inside", "left to write: 0"),
        ("cortex-m3-file-inside", "left to write: 0"),
        ("avr/uno-sketch", "clocks agree"),
    ] {
        let [walled, open] = ["required", "off"].map(|sandbox| run(name, &["--sandbox", sandbox]).expect_code(0));
        assert!(walled.console().contains(printed), "{}", walled.console());
        assert!(walled.files() == open.files(), "{name}: the walls are seen in the profile");
    }
}

/// Operations of firmware on a file of the host, whose path is `victim`.
const ATTACKS: [(&str, &str); 4] = [
    ("SYS_OPEN", "word b[3] = {(word)victim, 4, sizeof victim - 1}; host(1, b);"),
    ("SYS_REMOVE", "word b[2] = {(word)victim, sizeof victim - 1}; host(14, b);"),
    ("SYS_RENAME", "word b[4] = {(word)victim, sizeof victim - 1, (word)\"x\", 1}; host(15, b);"),
    (
        "SYS_RENAME",
        "word o[3] = {(word)\"x\", 4, 1}; host(1, o);
         word b[4] = {(word)\"x\", 1, (word)victim, sizeof victim - 1}; host(15, b);",
    ),
];

#[test]
fn each_call_that_reaches_for_a_file_stands_before_two_walls() {
    let dir = scratch();
    let victim = dir.path().join("victim");
    for (index, (operation, body)) in ATTACKS.into_iter().enumerate() {
        let source = format!(
            "typedef unsigned long word; static const char victim[] = {:?};
             void reset(void) {{ {body} host(0x18, STOPPED); for (;;) {{}} }}",
            victim.display().to_string()
        );
        let images = [
            riscv(64, 0x8000_0000, 0x8000_0000, 0x8010_0000).build_source(dir.path(), &format!("r{index}"), &source),
            cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2001_0000).build_source(
                dir.path(),
                &format!("a{index}"),
                &source,
            ),
        ];
        for image in images {
            let is_left = |args: &[&str], code: i32| {
                fs::write(&victim, "mine\n").unwrap();
                let run = run_file(&image, args).expect_code(code);
                let is_denied = run.stdout.contains(&format!("denied: {operation} "));
                // What the kernel alone refuses is said, too.
                assert_eq!(is_denied, !args.contains(&"off") || code == 1, "{}", run.stdout);
                fs::read(&victim).is_ok_and(|bytes| bytes == b"mine\n")
            };
            let unchecked = ["--semihosting", "unchecked"];
            assert!(
                !is_left(&[&unchecked[..], &["--sandbox", "off"]].concat(), 0),
                "{operation}: no wall, no attack"
            );
            assert!(is_left(&["--sandbox", "off"], 1), "{operation}: the plugin alone");
            let at_use = ["--semihosting", "at-use", "--sandbox", "off"];
            assert!(is_left(&at_use, 1), "{operation}: the plugin alone, where QEMU uses the path");
            if can_run("each_call_that_reaches_for_a_file_stands_before_two_walls") {
                assert!(is_left(&unchecked, 0), "{operation}: the kernel alone");
            }
        }
    }
}

/// A chip with a peripheral whose register changes when its last byte is read: the plugin would see one path, and
/// QEMU another. `NAME` is the memory's name.
const CHANGING: &str = r#"
[chip]
cpu = "cortex-m3"
hz = 72_000_000
[[memory]]
name = NAME
start = 0
bytes = 0x400000
[[memory]]
name = "SRAM"
start = 0x20000000
bytes = 0x400000
[peripherals]
P = { at = 0x40000000, kind = "k" }
[kind.k]
bytes = 0x400
[kind.k.registers]
PATH = { at = 0, reset = 0x61616161, count = 64 }
LAST = { at = 0x100, reset = 0 }
[[kind.k.on]]
read = "LAST"
set = [SET]
"#;

/// Name that ends its line in QEMU's memory tree, and goes on with lines in which the peripheral is RAM.
const FORGED: &str = "z\n  0000000020000000-00000000203fffff (prio 0, ram): s\n  \
                      0000000040000000-00000000400003ff (prio 0, ram): f\n\nFlatView #9\n AS \"other\", root: x";

#[test]
fn a_path_in_a_device_that_changes_when_it_is_read_is_not_opened() {
    let dir = scratch();
    let victim = dir.path().join("victim");
    let path = victim.display().to_string();
    assert!(path.len() < 256, "{path}");
    let source = format!(
        "void reset(void) {{
             word b[3] = {{ 0x40000000 + 0x100 - {}, 4, {} }};
             host(1, b); host(0x18, STOPPED); for (;;) {{}}
         }}",
        path.len(),
        path.len()
    );
    let source = format!("typedef unsigned long word; {source}");
    let image =
        cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2001_0000).build_source(dir.path(), "changing", &source);
    // The path's end is at the end of the registers.
    let mut bytes = vec![b'a'; 256 - path.len()];
    bytes.extend(path.bytes());
    let set: Vec<String> = bytes
        .chunks(4)
        .enumerate()
        .map(|(index, word)| format!("\"PATH{index}={}\"", u32::from_le_bytes(word.try_into().unwrap())))
        .collect();
    let chip = dir.path().join("changing.toml");
    let run = |name: &str, sandbox: &str| {
        fs::write(&victim, "mine\n").unwrap();
        fs::write(&chip, CHANGING.replace("NAME", &format!("{name:?}")).replace("SET", &set.join(", "))).unwrap();
        let run = run_file(&image, &["--chip", chip.to_str().unwrap(), "--sandbox", sandbox]);
        assert_eq!(fs::read(&victim).unwrap(), b"mine\n", "{}", run.stdout);
        run
    };
    for sandbox in ["off", "auto"] {
        let denied = run("flash", sandbox).expect_code(1);
        assert!(denied.stdout.contains("denied: SYS_OPEN at 0x"), "{}", denied.stdout);
        let refused = run(FORGED, sandbox).expect_code(2);
        assert!(refused.stderr.contains("changing.toml:5: the memory's `name` is \"z\\n"), "{}", refused.stderr);
    }
}

#[test]
fn a_command_for_the_host_stands_before_two_walls_and_is_denied_where_it_was() {
    let dir = scratch();
    for image in commanding(dir.path()) {
        let ran = |calls: &[i64], args: &[&str]| {
            let temp = tempfile::tempdir().unwrap();
            let output = without(calls, command(&image, args, temp.path()));
            let run = finish(temp, output).expect_code(0);
            assert_eq!(run.console(), "on\n");
            let said = run.stdout.lines().filter(|line| line.contains("SYS_SYSTEM")).map(str::to_owned);
            (fs::remove_file(dir.path().join("pwned")).is_ok(), said.collect::<Vec<_>>())
        };
        let unchecked = ["--semihosting", "unchecked"];
        let (has_run, said) = ran(LANDLOCK_AND_FILTERS, &unchecked);
        assert!(has_run, "no wall, no attack");
        assert!(matches!(&said[..], [line] if line.starts_with("depends on the host: SYS_SYSTEM")), "{said:?}");
        // The plugin's check alone.
        let (has_run, said) = ran(LANDLOCK_AND_FILTERS, &[]);
        assert!(
            !has_run && matches!(&said[..], [line] if line.starts_with("denied: SYS_SYSTEM \"touch ")),
            "{said:?}"
        );
        // QEMU's sandbox alone: the run itself reports nothing.
        let (has_run, said) = ran(LANDLOCK, &unchecked);
        assert!(!has_run && !said.iter().any(|line| line.contains("denied")), "{said:?}");
    }
}

#[test]
fn an_emulator_whose_way_to_a_command_cannot_be_closed_does_not_come_to_it() {
    let dir = scratch();
    let qemus = ["qemu-system-riscv64", "qemu-system-arm"];
    let temp = tempfile::tempdir().unwrap();
    for (image, qemu) in commanding(dir.path()).iter().zip(qemus) {
        // A QEMU that calls `system` by another name, which the plugin does not find.
        let mut bytes = fs::read(emulator(qemu)).unwrap();
        let place = {
            let file = ElfFile64::<LittleEndian>::parse(&*bytes).unwrap();
            let (names, _) = file.section_by_name(".dynstr").unwrap().file_range().unwrap();
            let table = file.elf_dynamic_symbol_table();
            let mut symbols = table.symbols().iter();
            let is_it = |symbol: &&Sym64<LittleEndian>| {
                table.strings().get(symbol.st_name(LittleEndian)) == Ok(b"system")
                    && symbol.is_undefined(LittleEndian)
            };
            names as usize + symbols.find(is_it).expect("QEMU calls it").st_name(LittleEndian) as usize
        };
        bytes[place..place + 6].copy_from_slice(b"remove");
        let (patched, program) = (temp.path().join("patched"), temp.path().join(qemu));
        fs::write(&patched, bytes).unwrap();
        // Install it by another process, see `common::program`.
        let install = Command::new("install").arg("-m755").args([&patched, &program]).status().unwrap();
        assert!(install.success());
        let out = tempfile::tempdir().unwrap();
        let output = command(image, &[], out.path()).env("PATH", temp.path()).output().unwrap();
        let run = finish(out, output).expect_code(1);
        assert!(matches!(run.profile().facts.end, End::Denied { .. }), "{}", run.stdout);
        assert!(run.stdout.contains("denied: SYS_SYSTEM \"touch "), "{}", run.stdout);
        assert_eq!(run.console(), "");
        assert!(!dir.path().join("pwned").exists());
    }
}

/// Shell script in place of an emulator that tries each forbidden operation and prints a line where it succeeds.
/// Its version is one whose internals are known, as AVR needs.
const ATTEMPTS: &str = r#"if [ "$1" = --version ]; then echo "QEMU emulator version 10.0.2"; exit; fi
exec >&2
{ read line </etc/passwd; } 2>/dev/null && echo "read: /etc/passwd"
{ read line <"$0.secret"; } 2>/dev/null && echo "read: beside the program"
{ read line <SECRET/file; } 2>/dev/null && echo "read: elsewhere"
{ echo >SECRET/new; } 2>/dev/null && echo "written: elsewhere"
{ echo >../inside && read line <../inside; } 2>/dev/null; [ -e ../inside ] && echo "written: workspace"
/usr/bin/tr '\0' '\n' 2>/dev/null </proc/$PPID/environ | /bin/grep TOKEN
/usr/bin/perl -e 'for (1, 2, 10) { print "socket: $_\n" if socket(S, $_, 1, 0) }'
/usr/bin/perl -e 'socketpair(A, B, 1, 1, 0) and print "a pair of sockets\n"'
echo "limits: $(ulimit -n) $(ulimit -c) $(ulimit -f) $(ulimit -v)"
exit 3"#;

/// Runs that script as the emulator of an image; its standard error lists the operations that succeeded.
fn attempts(emulator: &str, name: &str, sandbox: &str) -> Run {
    let temp = tempfile::tempdir().unwrap();
    let [programs, secret] = ["programs", "secret"].map(|name| temp.path().join(name));
    [&programs, &secret].into_iter().for_each(|dir| fs::create_dir(dir).unwrap());
    fs::write(secret.join("file"), "text\n").unwrap();
    program(&programs.join(emulator), &ATTEMPTS.replace("SECRET", secret.to_str().unwrap()));
    fs::write(programs.join(format!("{emulator}.secret")), "text\n").unwrap();
    let mut command = command(&image(name), &["--sandbox", sandbox], temp.path());
    let output = command.env("PATH", &programs).env("TOKEN", "hunter2").output().unwrap();
    finish(temp, output).expect_code(5)
}

#[test]
fn an_emulator_reaches_no_file_socket_or_process_beyond_its_walls() {
    let forbidden =
        ["read: /etc/passwd", "read: elsewhere", "written: elsewhere", "TOKEN=hunter2", "socket: 1", "socket: 2"];
    for (emulator, name) in [("qemu-system-arm", "cortex-m3-exit0"), ("qemu-system-avr", "avr/uno")] {
        let open = attempts(emulator, name, "off").stderr;
        assert!(forbidden.iter().all(|what| open.contains(what)), "{open}");
        if !can_run("an_emulator_reaches_no_file_socket_or_process_beyond_its_walls") {
            return;
        }
        let walled = attempts(emulator, name, "required").stderr;
        assert!(!forbidden.iter().any(|what| walled.contains(what)), "{walled}");
        for allowed in ["read: beside the program", "written: workspace", "a pair of sockets", "limits: 1024 0 "] {
            assert!(walled.contains(allowed), "{allowed}: {walled}");
        }
        assert!(!walled.contains("unlimited"), "{walled}");
    }
}

/// Runs a command under a filter that answers these system calls as unknown.
fn without(calls: &[i64], command: Command) -> std::process::Output {
    refusing(calls, libc::ENOSYS, command)
}

/// Runs a command under a filter that answers these system calls with an error: of a kernel that lacks them (`ENOSYS`),
/// or of a container that refuses them (`EPERM`).
fn refusing(calls: &[i64], error: i32, mut command: Command) -> std::process::Output {
    let rules: BTreeMap<i64, Vec<_>> = calls.iter().map(|&call| (call, Vec::new())).collect();
    let unknown = SeccompAction::Errno(error as u32);
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, unknown, arch).unwrap();
    thread::spawn(move || {
        let filter: BpfProgram = filter.try_into().unwrap();
        apply_filter(&filter).unwrap();
        command.output().unwrap()
    })
    .join()
    .unwrap()
}

const LANDLOCK: &[i64] = &[libc::SYS_landlock_create_ruleset];
const LANDLOCK_AND_FILTERS: &[i64] = &[libc::SYS_landlock_create_ruleset, libc::SYS_seccomp];
const FILTERS: &[i64] = &[libc::SYS_seccomp];

#[test]
fn a_wall_that_is_missing_is_named_and_the_others_hold() {
    for error in [libc::ENOSYS, libc::EPERM] {
        missing_walls_are_named(error);
    }
}

fn missing_walls_are_named(error: i32) {
    let whole = run("cortex-m3-exit3", &["--sandbox", "off"]).expect_code(1);
    let missing = |name: &str, args: &[&str], calls: &[i64]| {
        let temp = tempfile::tempdir().unwrap();
        let output = refusing(calls, error, command(&image(name), args, temp.path()));
        finish(temp, output)
    };
    let run = missing("cortex-m3-exit3", &[], LANDLOCK).expect_code(1);
    let named: Vec<&str> = run.stderr.lines().filter(|line| line.contains("kernel")).collect();
    assert!(
        matches!(named[..], [line] if line.starts_with("warning: this kernel has no Landlock")),
        "{}",
        run.stderr
    );
    assert!(run.files() == whole.files(), "what the kernel lacks is seen in the profile");
    let run = missing("cortex-m3-escape-hlt", &[], LANDLOCK).expect_code(1);
    assert!(run.stdout.contains("denied: SYS_OPEN \"/etc/passwd\" at 0x"), "{}", run.stdout);
    let run = missing("cortex-m3-escape-hlt", &[], FILTERS).expect_code(1);
    assert!(run.stdout.contains("denied: SYS_OPEN \"/etc/passwd\" at 0x"), "{}", run.stdout);
    // QEMU's own sandbox needs such filters, too.
    let bare = missing("cortex-m3-exit3", &[], LANDLOCK_AND_FILTERS).expect_code(1);
    for named in ["no Landlock", "filters no system calls", "qemu-system-arm has no sandbox here"] {
        assert!(bare.stderr.contains(named), "{named}: {}", bare.stderr);
    }
    assert!(bare.files() == whole.files(), "what the kernel lacks is seen in the profile");
    for calls in [LANDLOCK, LANDLOCK_AND_FILTERS] {
        let refused = missing("cortex-m3-exit0", &["--sandbox", "required"], calls).expect_code(5);
        assert!(refused.stderr.contains("--sandbox required: this kernel has no Landlock"), "{}", refused.stderr);
        assert!(!refused.has_profile());
        missing("cortex-m3-exit0", &["--sandbox", "off"], calls).expect_code(0);
    }
    let refused = missing("cortex-m3-exit0", &["--sandbox", "required"], FILTERS).expect_code(5);
    let why = "--sandbox required: this kernel filters no system calls, which would keep QEMU from the network";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
    assert!(!refused.has_profile());
}

#[test]
fn an_open_network_is_no_required_wall() {
    let refused = run("cortex-m3-exit0", &["--sandbox", "required", "--qemu-arg=-s"]).expect_code(5);
    assert!(refused.stderr.contains("-s opens the network to QEMU"), "{}", refused.stderr);
}

/// First child of a process, as soon as there is one.
fn child_of(parent: u32, deadline: Instant) -> u32 {
    loop {
        assert!(Instant::now() < deadline, "nothing was started");
        let tasks = fs::read_dir(format!("/proc/{parent}/task")).unwrap();
        let children = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
        if let Some(child) = children.flat_map(|it| it.split_whitespace().next()?.parse().ok()).next() {
            return child;
        }
    }
}

/// Whether a process exists and has not ended.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

fn is_qemu(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("qemu-system"))
}

/// Kills harness at the age of QEMU that `until` waits for; then waits for QEMU's end.
fn kill_early(temp: &TempDir, until: impl Fn(u32, &Path)) {
    let mut command = command(&image("cortex-m3-hang"), &["--for", "1000G"], temp.path());
    let mut harness = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let qemu = child_of(harness.id(), deadline);
    until(qemu, temp.path());
    harness.kill().unwrap();
    harness.wait().unwrap();
    while is_running(qemu) {
        assert!(Instant::now() < deadline, "process {qemu} outlives its parent");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn no_qemu_outlives_a_harness_that_is_killed_as_it_starts() {
    for trial in 0..30 {
        let temp = tempfile::tempdir().unwrap();
        // Three ages of QEMU: still the launcher; long before it has loaded the plugin; while it loads its libraries.
        kill_early(&temp, |qemu, _| {
            let maps = || fs::read_to_string(format!("/proc/{qemu}/maps")).unwrap_or_default();
            while is_running(qemu) && trial % 3 > 0 && !(is_qemu(qemu) && (trial % 3 == 1 || maps().contains("glib")))
            {
            }
        });
    }
}

#[test]
fn an_emulator_without_a_sandbox_of_its_own_runs_behind_the_other_walls() {
    let temp = tempfile::tempdir().unwrap();
    let refusal =
        "case \"$*\" in *-sandbox*) echo \"$0: -sandbox on: There is no option group 'sandbox'\" >&2; exit 1;; esac";
    program(&temp.path().join("qemu-system-arm"), &format!("{refusal}; exec /usr/bin/qemu-system-arm \"$@\""));
    let profile = |sandbox: &str| {
        let out = tempfile::tempdir().unwrap();
        let mut command = command(&image("cortex-m3-exit0"), &["--sandbox", sandbox], out.path());
        let output = command.env("PATH", temp.path()).output().unwrap();
        finish(out, output)
    };
    let auto = profile("auto").expect_code(0);
    assert!(auto.stderr.contains("qemu-system-arm has no sandbox here"), "{}", auto.stderr);
    assert_eq!(auto.files(), run("cortex-m3-exit0", &[]).expect_code(0).files());
    let off = profile("off").expect_code(0);
    assert!(!off.stderr.contains("sandbox"), "{}", off.stderr);
    let required = profile("required").expect_code(5);
    assert!(required.stderr.contains("--sandbox required: ") && !required.has_profile(), "{}", required.stderr);
    for name in ["qemu-system-riscv64", "qemu-system-riscv32"] {
        program(&temp.path().join(name), &format!("exec /usr/bin/{name} \"$@\""));
    }
    for format in [&[][..], &["--json"]] {
        let output = harness().arg("doctor").args(format).env("PATH", temp.path()).output().unwrap();
        let found = finish(tempfile::tempdir().unwrap(), output).expect_code(0).stdout;
        assert!(found.contains("qemu-system-arm has no sandbox here"), "{found}");
        assert_eq!(found.matches("has no sandbox").count(), 1, "{found}");
    }
}
