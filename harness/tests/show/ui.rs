// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: `harness ui` works in a real terminal. It shows the profile, takes keys, follows the terminal's size,
//! and leaves the terminal as it was, whether it is quit or ended.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::{Pid, ttyname};

/// A command in a pseudo-terminal, which keeps the screen.
struct Session {
    child: Child,
    keyboard: File,
    /// The command's end of the terminal, with its settings before the command.
    tty: File,
    before: Termios,
    screen: Arc<Mutex<vt100::Parser>>,
    /// Everything that was written.
    written: Arc<Mutex<Vec<u8>>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Session {
    fn start(dir: &Path, words: &[&str], env: &[(&str, &str)]) -> Session {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let tty = File::from(pty.slave);
        let before = tcgetattr(&tty).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
        command
            .args(words)
            .current_dir(dir)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .envs(env.iter().copied());
        command.stdin(tty.try_clone().unwrap()).stdout(tty.try_clone().unwrap()).stderr(tty.try_clone().unwrap());
        let child = command.spawn().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(24, 80, 0)));
        let written = Arc::new(Mutex::new(Vec::new()));
        let keyboard = File::from(pty.master);
        let (mut output, shown, kept) = (keyboard.try_clone().unwrap(), Arc::clone(&screen), Arc::clone(&written));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                shown.lock().unwrap().process(&buffer[..count]);
                kept.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Session { child, keyboard, tty, before, screen, written }
    }

    fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen is as expected, and returns it.
    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let begin = Instant::now();
        loop {
            let text = self.screen.lock().unwrap().screen().contents();
            if is_so(&text) {
                return text;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "never {what}:\n{text}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the end, and checks that the terminal is as it was. Returns everything that was written.
    #[track_caller]
    fn end(&mut self) -> Vec<u8> {
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{status:?}");
        let now = tcgetattr(&self.tty).unwrap();
        assert_eq!((now.local_flags, now.input_flags), (self.before.local_flags, self.before.input_flags));
        self.until("the cursor and the first screen again", |_| {
            let parser = self.screen.lock();
            let parser = parser.unwrap();
            !parser.screen().alternate_screen() && !parser.screen().hide_cursor()
        });
        self.written.lock().unwrap().clone()
    }

    fn resize(&self, rows: u16, columns: u16) {
        let name = ttyname(&self.tty).unwrap();
        let (rows_, columns_) = (rows.to_string(), columns.to_string());
        let mut stty = Command::new("stty");
        stty.arg("-F").arg(name).args(["rows", &rows_, "cols", &columns_]);
        assert!(stty.status().unwrap().success());
        self.screen.lock().unwrap().screen_mut().set_size(rows, columns);
        // The terminal is not the command's controlling one, so the kernel does not tell it.
        self.signal(Signal::SIGWINCH);
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }
}

fn profile(dir: &Path) {
    let elf = crate::common::image("cortex-m3-freertos");
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command.arg(elf).args(["-q", "--for", "2M", "--timeline", "-o", "fw.profile"]).current_dir(dir);
    assert!(command.status().unwrap().success());
}

#[test]
fn keys_move_through_a_profile_and_the_terminal_is_as_before() {
    let temp = tempfile::tempdir().unwrap();
    profile(temp.path());
    let mut session = Session::start(temp.path(), &["ui", "fw.profile"], &[]);
    let first = session.until("the functions", |text| text.contains("q quit"));
    assert!(first.starts_with(" fw.profile: cortex-m3-freertos.elf"), "{first}");
    assert!(first.contains("scope: whole run") && first.contains("2,000,000 instructions"), "{first}");
    // A search, the code of what was found, its hottest instruction, and one screen down and up.
    session.keys("/crc32\r");
    session.until("the end of the search", |text| text.contains("n next `crc32`"));
    session.keys("\r");
    session.until("code", |text| text.contains("Code of crc32") && text.contains("0x0000"));
    session.keys("H\x1b[6~\x1b[5~c");
    session.until("callers", |text| text.contains("Callers and callees of crc32"));
    // Back by Escape alone, and by the arrow to the left.
    session.keys("\x1b");
    session.until("the code again", |text| text.contains("Code of crc32"));
    session.keys("\x1b[D");
    session.until("the functions again", |text| text.contains("\n Functions"));
    session.keys("w");
    session.until("strips of the recorded events", |text| text.contains("tasks and interrupts (exact)"));
    session.keys("\x1b");
    session.until("the functions once more", |text| text.contains("\n Functions"));
    session.keys("f\x1b[B\x1b[B\r");
    let scoped = session.until("one task", |text| text.contains("scope: task "));
    assert!(scoped.contains("instructions by samples"), "{scoped}");
    session.resize(40, 140);
    session.until("a wider table", |text| text.contains("Own lines") && text.lines().count() == 40);
    session.keys("y");
    session.until("the copy", |text| text.contains("copied: "));
    session.keys("q");
    let written = session.end();
    let text = String::from_utf8_lossy(&written);
    assert!(text.contains("\x1b]52;c;") && text.contains("\x1b[1m"), "{text:?}");
}

#[test]
fn a_view_that_is_ended_from_outside_restores_the_terminal() {
    let temp = tempfile::tempdir().unwrap();
    profile(temp.path());
    let color = regex::Regex::new(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8])(?:;\d+)*m").unwrap();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut session = Session::start(temp.path(), &["ui", "fw.profile", "fw.profile"], &[("NO_COLOR", "1")]);
        session.until("the comparison", |text| text.contains("Changes by function") && text.contains("q quit"));
        session.signal(signal);
        let written = session.end();
        let text = String::from_utf8_lossy(&written);
        // Colours are 30 to 49; NO_COLOR leaves only attributes.
        assert!(!color.is_match(&text), "{:?}", color.find(&text));
    }
    // Ctrl-C as a key.
    let mut session = Session::start(temp.path(), &["ui", "fw.profile"], &[]);
    session.until("the functions", |text| text.contains("q quit"));
    session.keys("\x03");
    session.end();
}

#[test]
fn a_view_whose_terminal_is_gone_ends() {
    let temp = tempfile::tempdir().unwrap();
    profile(temp.path());
    let line = format!("stty rows 24 cols 80; echo $$ > pid; exec {} ui fw.profile", env!("CARGO_BIN_EXE_harness"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").current_dir(&temp);
    // At the end of its input `script` types Ctrl-D, which would end a view that has not begun to take keys.
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = script.stdout.take().unwrap();
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains("Functions") {
        let mut buffer = [0; 4096];
        let count = output.read(&mut buffer).unwrap();
        assert!(count > 0, "it ended: {}", String::from_utf8_lossy(&shown));
        shown.extend_from_slice(&buffer[..count]);
    }
    let pid = std::fs::read_to_string(temp.path().join("pid")).unwrap();
    let process = Path::new("/proc").join(pid.trim());
    assert!(process.exists());
    script.kill().unwrap();
    script.wait().unwrap();
    let begin = Instant::now();
    // Where nobody waits for it, a process that has ended stays as a zombie.
    let is_there = || std::fs::read_to_string(process.join("stat")).is_ok_and(|stat| !stat.contains(") Z "));
    while is_there() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it goes on without a terminal");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn without_a_terminal_there_is_another_command() {
    let temp = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    let output = command.args(["ui", "fw.profile"]).current_dir(&temp).stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("needs a terminal") && stderr.contains("`harness top fw.profile`"), "{stderr}");
    assert!(output.stdout.is_empty());
    // A profile that is none leaves the terminal alone.
    let mut session = Session::start(temp.path(), &["ui", "missing.profile"], &[]);
    assert_eq!(session.child.wait().unwrap().code(), Some(2));
    session.until("the message", |text| text.contains("error: missing.profile"));
    assert!(!String::from_utf8_lossy(&session.written.lock().unwrap()).contains("\x1b[?1049h"));
}
