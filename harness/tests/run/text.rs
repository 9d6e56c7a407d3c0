// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the firmware's output and its names of files and functions are text. They control no terminal and no
//! CI job, and bring no file of the host into the output.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::built::{cortex_m, scratch};

fn harness(args: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command.current_dir(dir).args(args);
    for job in ["GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "TF_BUILD", "TEAMCITY_VERSION"] {
        command.env_remove(job);
    }
    command
}

/// Builds firmware that prints this text, written as a C string, and exits with status 0.
fn printing(dir: &Path, text: &str) -> PathBuf {
    let source = format!("void reset(void) {{ host(4, \"{text}\"); host(0x18, STOPPED); for (;;) {{}} }}");
    cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_8000).build_source(dir, "prints", &source)
}

/// Text that attacks a terminal or a CI job: clears the screen, sets the title, gives commands to the job. Written as
/// a C string.
const HOSTILE_C: &str = "\\033[31mred\\033[0m\\033[2J\\033]0;owned\\a\\n::error::pwned\\n  ::add-mask::x\\n##[group]y ##vso[a]\\xff\\n::set-output::z";

/// The bytes of [`HOSTILE_C`], as printed.
const HOSTILE: &[u8] =
    b"\x1b[31mred\x1b[0m\x1b[2J\x1b]0;owned\x07\n::error::pwned\n  ::add-mask::x\n##[group]y ##vso[a]\xff\n::set-output::z";

#[test]
fn a_console_in_a_job_stands_where_no_line_is_a_command_and_is_the_same_bytes() {
    let dir = scratch();
    printing(dir.path(), HOSTILE_C);
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let mut command = harness(&["run", "-o", "out", "prints.elf"], dir.path());
        let output = command.env("GITHUB_ACTIONS", "true").output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        assert_eq!(output.stdout, HOSTILE);
        assert_eq!(fs::read(dir.path().join("out/console.log")).unwrap(), HOSTILE);
        let first = stderr.lines().next().unwrap();
        let token = first.strip_prefix("::stop-commands::").unwrap_or_else(|| panic!("{stderr}"));
        assert_eq!(token.len(), 32, "{token}");
        assert_eq!(stderr.lines().filter(|line| line.trim_start().starts_with("::")).count(), 2, "{stderr}");
        assert!(stderr.contains(&format!("\n::{token}::\n")), "{stderr}");
        tokens.push(token.to_owned());
    }
    assert_ne!(tokens[0], tokens[1]);
    let alone = harness(&["run", "-o", "out", "prints.elf"], dir.path()).output().unwrap();
    assert_eq!(alone.stdout, HOSTILE);
    assert!(!String::from_utf8(alone.stderr).unwrap().contains("::"));
}

#[test]
fn a_console_on_a_terminal_has_colours_and_nothing_else_that_it_obeys() {
    let dir = scratch();
    printing(dir.path(), HOSTILE_C);
    let pty = nix::pty::openpty(None, None).unwrap();
    let mut command = harness(&["run", "-o", "out", "prints.elf"], dir.path());
    let mut child = command.stdout(Stdio::from(pty.slave)).stderr(Stdio::null()).spawn().unwrap();
    // The command holds a copy of the terminal, which would keep the loop below from ending.
    drop(command);
    let mut shown = Vec::new();
    let mut bytes = [0; 4096];
    let mut master = fs::File::from(pty.master);
    // Reading from a terminal whose last writer is gone is an error.
    while let Ok(read @ 1..) = master.read(&mut bytes) {
        shown.extend_from_slice(&bytes[..read]);
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let shown = String::from_utf8(shown).unwrap();
    let expected = "\x1b[31mred\x1b[0m\\x1b[2J\\x1b]0;owned\\x07\r\n::error::pwned\r\n  ::add-mask::x\r\n##[group]y ##vso[a]\\xff\r\n\
                    ::set-output::z";
    assert_eq!(shown, expected);
    assert_eq!(fs::read(dir.path().join("out/console.log")).unwrap(), HOSTILE);
}

#[test]
fn a_suites_reports_obey_no_console_and_no_name() {
    let dir = scratch();
    printing(dir.path(), HOSTILE_C);
    let name = "x`@octocat`\\u001b[31m\\n::error::named";
    let image = format!("[[image]]\nelf = \"prints.elf\"\nname = \"{name}\"\nconsole = [\"not there\"]\n");
    fs::write(dir.path().join("harness.toml"), image).unwrap();
    let output = harness(&["test", "--no-cache"], dir.path()).env("GITHUB_ACTIONS", "true").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let log = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let commands: Vec<&str> =
        log.iter().flat_map(|text| text.lines()).filter(|line| line.contains("::error")).collect();
    let own = commands.iter().filter(|line| line.starts_with("::error file=harness.toml,line=1,title=x`@octocat`"));
    assert_eq!(own.count(), 1, "{commands:?}");
    assert!(commands.iter().filter(|line| line.trim_start().starts_with("::")).count() == 1, "{commands:?}");
    let report = |name: &str| fs::read_to_string(dir.path().join("harness-report").join(name)).unwrap();
    assert!(!log.concat().contains("##["), "{log:?}");
    for text in [report("summary.md"), report("junit.xml"), log.concat()] {
        let raw = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(raw), "{text}");
    }
    let summary = report("summary.md");
    assert!(summary.contains("### \u{274c} ``x`@octocat`"), "{summary}");
}

#[test]
fn a_job_of_azure_pipelines_or_teamcity_finds_no_command_in_its_log() {
    let dir = scratch();
    printing(dir.path(), "one ##vso[task.complete]\\n##teamcity[buildStop]\\n");
    let image = "[[image]]\nelf = \"prints.elf\"\nconsole = [\"not there\"]\n";
    fs::write(dir.path().join("harness.toml"), image).unwrap();
    for (variable, value) in [("TF_BUILD", "True"), ("TEAMCITY_VERSION", "2025.07")] {
        let output = harness(&["test", "--no-cache"], dir.path()).env(variable, value).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let log = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert!(log.contains("# #vso[task.complete]") && log.contains("# #teamcity[buildStop]"), "{variable}: {log}");
        assert!(!log.contains("##vso[") && !log.contains("##teamcity["), "{variable}: {log}");
    }
}

#[test]
fn no_file_of_the_host_comes_into_what_is_shown() {
    let dir = scratch();
    let m3 = cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_8000);
    let secret = dir.path().join("secret");
    fs::write(&secret, "top secret 4711\n".repeat(9)).unwrap();
    let work = dir.path().join("work");
    fs::create_dir(&work).unwrap();
    std::os::unix::fs::symlink(&secret, work.join("link.c")).unwrap();
    let at = |name: &str| work.join(name).display().to_string();
    let paths = ["/proc/self/environ".to_owned(), secret.display().to_string(), at("../secret"), at("link.c")];
    for path in paths {
        let source = format!(
            "volatile int sink;\n__attribute__((noinline)) void work(void) {{\n#line 1 {path:?}\n\
             for (int i = 0; i < 100; i++) sink += i; }}\n\
             void reset(void) {{ work(); host(0x18, STOPPED); for (;;) {{}} }}"
        );
        m3.build_source(&work, "leaks", &source);
        let run = |args: &[&str]| {
            let output = harness(args, &work).env("TOKEN", "top secret 4711").output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
            output
        };
        run(&["leaks.elf", "-o", "leaks.profile"]);
        let annotated = run(&["annotate", "leaks.profile", "work"]);
        let reported = run(&["report", "leaks.profile", "-o", "page.html"]);
        let texts =
            [String::from_utf8(annotated.stdout).unwrap(), fs::read_to_string(work.join("page.html")).unwrap()];
        assert!(texts.iter().all(|text| !text.contains("4711")), "{path}: {texts:?}");
        for stderr in [annotated.stderr, reported.stderr] {
            let stderr = String::from_utf8(stderr).unwrap();
            assert_eq!(stderr.matches("left out; sources are read below").count(), 1, "{path}: {stderr}");
        }
    }
}

#[test]
fn a_file_that_does_not_end_is_refused_at_once() {
    let dir = scratch();
    printing(dir.path(), "x");
    nix::unistd::mkfifo(&dir.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for file in ["/proc/kmsg", "/dev/zero", "/dev/stdin", "pipe"] {
        let mut command = harness(&["prints.elf", "-o", "out", "--file", &format!("x={file}")], dir.path());
        let output = command.stdin(Stdio::piped()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{file}: {stderr}");
        assert!(stderr.contains("cannot be given to the firmware"), "{file}: {stderr}");
    }
}
